"""What going back costs, and what travels between machines.

python benchmarks/trees.py forks    # time and bytes of a fork by depth; 10,000 of them alive
python benchmarks/trees.py resume   # going on from a state, whose actions are played again
python benchmarks/trees.py actors   # trees of two Ray actors that get states

Each writes its part of benchmarks/trees.json. Times are the best of several, in CPU seconds of this process.
"""

import gc
import json
import os
import resource
import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random

import typer

app = typer.Typer(add_completion=False, help=__doc__)
OUT = Path(__file__).parent / "trees.json"
DEPTHS = (1, 5, 15, 50)
ID = "vet_clinic-02"


def keep(name: str, rows: list[dict]) -> None:
    "Put rows into the file, with the command that made them."
    known = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    known["command"] = "python benchmarks/trees.py forks (resume, actors)"
    known[name] = dict(command=f"python benchmarks/trees.py {name}", rows=rows)
    OUT.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(row)


def played(depth: int):
    "A session after so many calls, most of them queries."
    from sql_env import EpisodeEnv, RewardConfig, Session, load

    session = Session(EpisodeEnv(load("bundled"), budget=100, reward=RewardConfig.shaped()))
    session.begin(ID)
    for i in range(depth):
        sql = f"SELECT name, born, {i} FROM animal LIMIT 5"
        name, argument = (
            ("query", dict(sql=sql)) if i % 3 else ("describe", dict(table_name="visit"))
        )
        session.call(name, argument)
    return session


def best_time(function: Callable[[], object], n: int, repeats: int = 7) -> float:
    "Microseconds of CPU of one call."
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(n):
            function()
        times.append((time.process_time() - start) / n)
    return round(1e6 * min(times), 2)


def bytes_of(make: Callable[[], list]) -> float:
    "Bytes that the objects of a list take, each."
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = make()
    size = (tracemalloc.get_traced_memory()[0] - before) / len(kept)
    tracemalloc.stop()
    return round(size)


def step_once(branch) -> object:
    branch.call("describe", dict(table_name="owner"))
    return branch


@app.command()
def forks(n: int = 10_000):
    "Time and bytes of a fork by depth, and all of them alive."
    rows = []
    for depth in DEPTHS:
        session = played(depth)
        row = dict(depth=depth, session_us=best_time(session.fork, 2000))
        row["episode_us"] = best_time(session.episode.fork, 2000)
        row["session_bytes"] = bytes_of(lambda s=session: [s.fork() for _ in range(2000)])
        row["episode_bytes"] = bytes_of(lambda s=session: [s.episode.fork() for _ in range(2000)])
        row["session_bytes_after_a_step"] = bytes_of(
            lambda s=session: [step_once(s.fork()) for _ in range(300)]
        )
        rows.append(row)
    session = played(15)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    alive = [session.fork() for _ in range(n)]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    rows.append(dict(alive=len(alive), depth=15, resident_mb=round(grown / 1024, 1)))
    stepped = [step_once(fork) for fork in alive]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    rows.append(dict(alive=len(stepped), depth=16, resident_mb=round(grown / 1024, 1)))
    keep("forks", rows)


@app.command()
def resume():
    "Going on from a state by depth: size, and time to take its actions again."
    from sql_env import Session

    rows = []
    for depth in DEPTHS:
        session = played(depth)
        state = session.state()
        row = dict(depth=depth, state_bytes=len(json.dumps(state)))
        row["state_us"] = best_time(session.state, 50)
        row["played_again_us"] = best_time(lambda e=session.env, s=state: Session.resume(e, s), 20)
        rows.append(row)
    keep("resume", rows)


class Distracted:
    "The oracle, at a share of the steps a random action; without a share it depends on the question, 5 to 65 %."

    name = "distracted oracle"

    def __init__(self, share: float | None = None):
        from sql_env import load
        from sql_env.policies.baselines import OraclePolicy, RandomPolicy

        self.share, self.rng = share, Random(0)
        self.oracle, self.other = OraclePolicy(load("bundled")), RandomPolicy()

    def select_action(self, observation):
        self.other.rng, share = self.rng, self.share
        if share is None:  # a model is better at some questions than at others
            share = 0.05 + 0.6 * Random(observation.question).random()
        chosen = self.other if self.rng.random() < share else self.oracle
        return chosen.select_action(observation)


class Grower:
    "An actor that has the questions and gets states."

    def __init__(self, share: float):
        from sql_env import EpisodeEnv, load

        self.env, self.policy = EpisodeEnv(load("bundled"), budget=8), Distracted(share)
        self.env.reset()

    def grow(self, states: list[str], seed: int) -> tuple[list[float], int, float]:
        "The value of each state by a tree of four episodes, the turns that were taken, and CPU seconds."
        from sql_env import Session
        from sql_env.evaluation import tree_rollouts

        start = time.process_time()
        sessions = [Session.resume(self.env, json.loads(s)) for s in states]
        trees = tree_rollouts(sessions, self.policy, 2, 2, seed)
        turns = sum(1 for tree in trees for node in tree.walk()) - len(trees)
        return [tree.value for tree in trees], turns, time.process_time() - start


@app.command()
def actors(n: int = 300, batch: int = 10):
    "Trees by two Ray actors from states that were made here."
    import ray

    from sql_env import EpisodeEnv, Session, load

    questions = load("bundled")
    env, states = EpisodeEnv(questions, budget=8), []
    for q in questions.sample(n, 2):
        session = Session(env)
        session.begin(q.question_id)
        session.call("describe", dict(table_name=q.tables_involved[0]))
        session.call("query", dict(sql=f"SELECT count(*) FROM {q.tables_involved[0]}"))
        states.append(json.dumps(session.state()))
    pieces = [states[i : i + batch] for i in range(0, len(states), batch)]
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        log_to_driver=False,
        object_store_memory=100 * 2**20,
    )
    rows = [dict(states=len(states), bytes=round(statistics.mean(map(len, states))))]
    try:
        for n_actors in (1, 2):
            kind = ray.remote(Grower)
            pool = [kind.options(num_cpus=1).remote(0.3) for _ in range(n_actors)]
            ray.get([actor.grow.remote(pieces[0], 0) for actor in pool])  # they have begun
            start = time.monotonic()
            jobs = [pool[i % n_actors].grow.remote(p, i) for i, p in enumerate(pieces)]
            done = ray.get(jobs)
            seconds = time.monotonic() - start
            rows.append(
                dict(
                    actors=n_actors,
                    episodes=4 * len(states),
                    turns=sum(turns for _, turns, _ in done),
                    cpu_seconds=round(sum(cpu for *_, cpu in done), 2),
                    seconds=round(seconds, 2),
                    load=round(os.getloadavg()[0], 1),
                    values=round(statistics.mean(v for values, *_ in done for v in values), 6),
                )
            )
            for actor in pool:
                ray.kill(actor)
    finally:
        ray.shutdown()
    keep("actors", rows)


if __name__ == "__main__":
    app()
