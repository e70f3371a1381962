"""What a run survives, beside inspect: `python benchmarks/evaluating.py [--out benchmarks/evaluating.json]`.

A server on loopback allows 10 requests in 2 s and says Retry-After 1: twenty episodes, sixteen at once, by the command
of each tool. Then by ours alone: a cap with eight at once and the same command after it, kill -9 and the same command,
two quick Ctrl-C on a server that hangs, and a file that may not grow.
"""

import argparse
import contextlib
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from importlib.metadata import version
from pathlib import Path
from threading import Lock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from fake_server import FakeServer, fault, player, slow  # noqa: E402

from sql_env.evaluation.logs import read_log  # noqa: E402
from sql_env.sources.loading import load  # noqa: E402

TEST = load("bundled", split="test")
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
START += "from sql_env.cli import main; main()"

TASK = """from inspect_ai import task
from sql_env.integrations.inspect_ai import bundled_task
@task
def played():
    return bundled_task(split="test")
"""


def limited(script, n: int = 10, seconds: float = 2.0, retry_after: str = "1"):
    "A script with a limit of requests in a window."
    times, lock = deque(), Lock()

    def answer(body):
        now = time.monotonic()
        with lock:
            while times and now - times[0] > seconds:
                times.popleft()
            if len(times) >= n:
                return fault(429, "Rate limit reached for requests.", retry_after=retry_after)
            times.append(now)
        return script(body)

    return answer


def start(folder: str, url: str, *args: str, **options) -> subprocess.Popen:
    "Our command in a process of its own."
    where = ["evaluate", "--model", "m", "--base-url", url, "--no-floor", "--log", "kept", *args]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen([sys.executable, "-c", START, *where], cwd=folder, **pipes, **options)


def kept(folder: str) -> int:
    "Finished episodes in the log."
    with contextlib.suppress(ValueError, OSError):
        return sum(not t.episode.error for t in read_log(Path(folder) / "kept" / "m.jsonl")[1])
    return 0


def rate_limit(tool: str) -> dict:
    "Finished episodes of twenty, and how often the server was asked."
    with FakeServer(limited(player(TEST))) as server, tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        if tool == "sql_env":
            start(folder, server.url, "-n", "20", "--workers", "16").communicate()
            done = kept(folder)
        else:
            (Path(folder) / "played.py").write_text(TASK)
            command = f"eval played.py --limit 20 --model openai/m --model-base-url {server.url} "
            command += "-M responses_api=false --max-connections 16 --display none --log-dir logs "
            command += "--log-format json"
            env = os.environ | {"OPENAI_API_KEY": "none"}
            subprocess.run(
                [str(Path(sys.executable).with_name("inspect")), *command.split()],
                cwd=folder,
                env=env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            logs = [json.loads(p.read_text()) for p in (Path(folder) / "logs").glob("*.json")]
            done = sum(not s.get("error") for log in logs for s in log.get("samples", ()))
        seconds = round(time.perf_counter() - began, 1)
    return dict(tool=tool, episodes=20, finished=done, requests=server.calls, wall_s=seconds)


def cap() -> dict:
    "What a run with a cap of 1.2 costs at 0.22 an episode and eight at once, and whether the same command ends."
    with FakeServer(player(TEST)) as server, tempfile.TemporaryDirectory() as folder:
        args = ["-n", "40", "--workers", "8", "--price", "1000", "1000", "--max-cost", "1.2"]
        start(folder, server.url, *args).communicate()
        done, calls = kept(folder), server.calls
        again = start(folder, server.url, *args)
        again.communicate(timeout=60)
    cost = round(done * 0.22, 2)
    return dict(
        cap=1.2,
        cost=cost,
        finished=done,
        again_rc=again.returncode,
        again_requests=server.calls - calls,
    )


def kill() -> dict:
    "Episodes that a kill -9 costs at eight at once, and whether the same command plays only what is missing."
    good = player(TEST)
    with (
        FakeServer(lambda body: slow(good(body), 0.05)) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        process = start(folder, server.url, "-n", "60", "--workers", "8")
        while kept(folder) < 20:
            time.sleep(0.02)
        process.kill()
        process.communicate()
        ended = sum(len(b["messages"]) == 4 for b in server.bodies)
        done = kept(folder)
        server.bodies.clear()
        start(folder, server.url, "-n", "60", "--workers", "8").communicate()
        again = sum(len(b["messages"]) == 4 for b in server.bodies)
        return dict(
            finished_by_server=ended, kept=done, played_again=again, in_the_end=kept(folder)
        )


def interrupt() -> dict:
    "Seconds from the first of two quick Ctrl-C on a server that hangs to the end of the process."
    good = player(TEST)

    def script(body):
        return slow(good(body), 60) if server.calls > 21 else good(body)

    with FakeServer(script) as server, tempfile.TemporaryDirectory() as folder:
        process = start(folder, server.url, "-n", "60", "--workers", "4")
        while server.calls <= 21 or server.in_flight < 4:
            time.sleep(0.02)
        began = time.perf_counter()
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        out, _ = process.communicate(timeout=90)
        seconds = round(time.perf_counter() - began, 2)
        return dict(
            seconds=seconds, rc=process.returncode, has_table="100.0%" in out, kept=kept(folder)
        )


def disk() -> dict:
    "Episodes that a log of at most 30 kB keeps, and after the same command with room."
    with FakeServer(player(TEST)) as server, tempfile.TemporaryDirectory() as folder:

        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

        process = start(folder, server.url, "-n", "40", preexec_fn=small)
        out, _ = process.communicate()
        first = kept(folder)
        start(folder, server.url, "-n", "40").communicate()
        said = "can't be written" in out and "goes on" in out
        return dict(
            rc=process.returncode, says_how_to_go_on=said, kept=first, in_the_end=kept(folder)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    about = dict(
        python=platform.python_version(), inspect_ai=version("inspect_ai"), cores=os.cpu_count()
    )
    figures = dict(
        command="python benchmarks/evaluating.py --out benchmarks/evaluating.json", about=about
    )
    figures["rate_limit"] = [rate_limit(tool) for tool in ("sql_env", "inspect")]
    for case in (cap, kill, interrupt, disk):
        figures[case.__name__] = case()
        print(case.__name__, figures[case.__name__], flush=True)
    print(json.dumps(figures, indent=1))
    if out:
        out.write_text(json.dumps(figures, indent=1) + "\n")


main()
