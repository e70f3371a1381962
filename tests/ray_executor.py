"An executor that plays on a Ray cluster, as the page of `evaluate` shows it."

from concurrent.futures import Executor


class RayExecutor(Executor):
    "Runs tasks on a Ray cluster; call `ray.init` first."

    def submit(self, fn, /, *args, **kwargs):
        import ray

        return ray.remote(fn).remote(*args, **kwargs).future()
