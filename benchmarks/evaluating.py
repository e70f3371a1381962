"""What a run survives, beside inspect: `python benchmarks/evaluating.py [--out benchmarks/evaluating.json]`.

By the command of each tool, with its defaults, on a server on loopback: a limit of 10 requests in 2 s that says
Retry-After 1, twenty episodes and sixteen at once; a cap with eight at once and the same command after it; kill -9 and
going on; two quick Ctrl-C on a server that hangs; files that may not grow beyond 150 kB. Then what servers really send,
all the ways of `tests/test_wire.py` by five episodes and the function of each tool, three minutes at most for each.
`--only forms` renews one of the cases; forms that stand in the file already are kept.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from fake_server import FakeServer, fault, player, slow  # noqa: E402
from inspect_ai import eval as inspect_eval  # noqa: E402
from inspect_ai.log import read_eval_log  # noqa: E402
from inspect_ai.model import get_model  # noqa: E402
from test_wire import FORMS, OddServer  # noqa: E402

from sql_env.evaluation.harness import RunStopped, evaluate  # noqa: E402
from sql_env.evaluation.logs import read_log  # noqa: E402
from sql_env.integrations.inspect_ai import question_task  # noqa: E402
from sql_env.policies.chat import ChatPolicy  # noqa: E402
from sql_env.policies.requests import EndpointError  # noqa: E402
from sql_env.sources.loading import load  # noqa: E402

TEST, LOCK = load("bundled", split="test"), threading.Lock()
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
START += "from sql_env.cli import main; main()"

INSPECT = "--display none --log-dir logs"
TASK = """from inspect_ai import task
from sql_env.integrations.inspect_ai import source_task
@task
def played():
    return source_task(split="test")
"""


def limited(script, n: int = 10, seconds: float = 2.0, retry_after: str = "1"):
    "A script with a limit of requests in a window."
    times, lock = deque(), threading.Lock()

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


def start(tool: str, folder: str, url: str, n: int, at_once: int = 1, *args: str, **options):
    "The command of a tool in a process of its own."
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if tool == "sql_env":
        where = ["evaluate", "--model", "m", "--base-url", url, "--no-floor", "--log", "kept"]
        command = [sys.executable, "-c", START, *where, "-n", str(n), "--workers", str(at_once)]
        return subprocess.Popen([*command, *args], cwd=folder, **pipes, **options)
    (Path(folder) / "played.py").write_text(TASK)
    command = f"eval played.py --limit {n} --model openai/m --model-base-url {url} "
    command += f"-M responses_api=false --max-connections {at_once} {INSPECT}"
    return start_inspect(folder, command, pipes | options)


def start_inspect(folder: str, command: str, options: dict):
    "A command of inspect; Ctrl-C reaches it too where this runs in the background."
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from inspect_ai._cli.main import main; main()"
    env = os.environ | {"OPENAI_API_KEY": "none"}
    command = [sys.executable, "-c", code, *command.split()]
    return subprocess.Popen(command, cwd=folder, env=env, **options)


def go_on(tool: str, folder: str, url: str, n: int, at_once: int = 1) -> None:
    "What each tool says to do after a run that ended early: the same command, or `inspect eval-retry`."
    if tool == "sql_env":
        start(tool, folder, url, n, at_once).communicate()
    elif logs := inspect_logs(folder):
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        command = f"eval-retry {logs[-1]} --max-connections {at_once} {INSPECT}"
        start_inspect(folder, command, pipes).communicate()


def inspect_logs(folder: str) -> list[Path]:
    return sorted((Path(folder) / "logs").glob("*.eval"), key=lambda path: path.stat().st_mtime)


def kept(tool: str, folder: str) -> int:
    "Finished episodes in the log; the newest one of inspect."
    with contextlib.suppress(Exception):  # there is none yet, or it is damaged
        if tool == "sql_env":
            log = read_log(Path(folder) / "kept" / "m.jsonl")[1]
            return sum(not t.error for t in log)
        log = read_eval_log(str(inspect_logs(folder)[-1]))
        return sum(not s.error and bool(s.scores) for s in log.samples or ())
    return 0


def rate_limit(tool: str) -> dict:
    "Finished episodes of twenty, and how often the server was asked."
    with FakeServer(limited(player(TEST))) as server, tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        start(tool, folder, server.url, 20, 16).communicate()
        seconds = round(time.perf_counter() - began, 1)
        return dict(finished=kept(tool, folder), requests=server.calls, wall_s=seconds)


def cap(tool: str) -> dict:
    "What a run with a cap of 1.2 costs at 0.22 an episode and eight at once, and whether the same command ends."
    if tool == "inspect":
        return dict(no_cap="its limits of tokens and cost are those of one sample")
    with FakeServer(player(TEST)) as server, tempfile.TemporaryDirectory() as folder:
        args = ["--price", "1000", "1000", "--max-cost", "1.2"]
        start(tool, folder, server.url, 40, 8, *args).communicate()
        done, calls = kept(tool, folder), server.calls
        again = start(tool, folder, server.url, 40, 8, *args)
        again.communicate(timeout=60)
        more = server.calls - calls
    cost = round(done * 0.22, 2)
    return dict(cap=1.2, cost=cost, finished=done, again_rc=again.returncode, again_requests=more)


def ended(server: FakeServer) -> int:
    return sum(len(body["messages"]) == 4 for body in server.bodies)


def kill(tool: str) -> dict:
    "Episodes that a kill -9 costs at eight at once, and whether only what is missing is played again."
    good = player(TEST)
    with (
        FakeServer(lambda body: slow(good(body), 0.05)) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        process = start(tool, folder, server.url, 60, 8)
        while ended(server) < 24:
            time.sleep(0.02)
        process.kill()
        process.communicate()
        counts = dict(finished_by_server=ended(server), kept=kept(tool, folder))
        server.bodies.clear()
        go_on(tool, folder, server.url, 60, 8)
        return counts | dict(played_again=ended(server), in_the_end=kept(tool, folder))


def interrupt(tool: str) -> dict:
    "Seconds from the first of two quick Ctrl-C on a server that hangs to the end of the process."
    good = player(TEST)

    def script(body):
        return slow(good(body), 60) if server.calls > 21 else good(body)

    with FakeServer(script) as server, tempfile.TemporaryDirectory() as folder:
        process = start(tool, folder, server.url, 60, 4)
        while server.calls <= 21 or server.in_flight < 4:
            time.sleep(0.02)
        finished = ended(server) - sum(len(b["messages"]) == 4 for b in server.bodies[21:])
        began = time.perf_counter()
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        out, _ = process.communicate(timeout=90)
        seconds = round(time.perf_counter() - began, 2)
        table = dict(has_table="100.0%" in out) if tool == "sql_env" else {}
        counts = dict(finished_by_server=finished, kept=kept(tool, folder))
        return dict(seconds=seconds, rc=process.returncode, **table, **counts)


def disk(tool: str) -> dict:
    "Episodes that a log of at most 150 kB keeps, and after going on with room."
    with FakeServer(player(TEST)) as server, tempfile.TemporaryDirectory() as folder:

        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))

        process = start(tool, folder, server.url, 96, 8, preexec_fn=small)
        out, _ = process.communicate()
        played, first = ended(server), kept(tool, folder)
        go_on(tool, folder, server.url, 96, 8)
        said = "can't be written" in out and "goes on" in out
        told = dict(says_how_to_go_on=said) if tool == "sql_env" else {}
        counts = dict(finished_by_server=played, kept=first, in_the_end=kept(tool, folder))
        return dict(rc=process.returncode, **told, **counts)


class RealServer(OddServer):
    "An odd server whose clock is the real one; what is gone comes back after 20 s."

    def say(self, body):
        said = super().say(body)
        if self.http is None:
            threading.Timer(20, self.listen, [self.port]).start()
        return said


def play_form(tool: str, url: str, folder: str) -> str:
    "Five episodes by the function of a tool, with its defaults; how it stopped, if it did."
    if tool == "inspect":
        model = get_model("openai/m", base_url=url, api_key="none", responses_api=False)
        inspect_eval(question_task(TEST), model, limit=5, log_dir=f"{folder}/logs", display="none")
        return ""
    try:
        evaluate(
            TEST, ChatPolicy("m", url, "none"), 5, log=f"{folder}/kept/m.jsonl", progress=False
        )
    except (EndpointError, RunStopped) as e:
        return f", stopped: {str(e).rpartition('(')[2].rstrip(')')[:90]}"
    return ""


def ending(tool: str, folder: str) -> str:
    "How the episodes ended, by the log."
    if tool == "sql_env":
        path = Path(folder) / "kept" / "m.jsonl"
        results = [t.episode for t in read_log(path)[1]] if path.exists() else []
        right, failed = sum(e.correct for e in results), [e for e in results if e.error]
        blamed = sorted({str(e.blame) for e in results if not e.correct})
    else:
        samples = [
            s for p in inspect_logs(folder)[-1:] for s in read_eval_log(str(p)).samples or ()
        ]
        right = sum(bool(s.scores) and s.scores["correct"].value == 1 for s in samples)
        failed, results, blamed = [s for s in samples if s.error], samples, []
    wrong = len(results) - right - len(failed)
    words = f"{right} right, {wrong} wrong, {len(failed)} failed"
    return words + (f", blamed: {' '.join(blamed)}" if blamed else "")


def form_ending(tool: str, form: dict) -> str:
    "What comes of five episodes with a form, in a process of their own, after three minutes at most."
    with tempfile.TemporaryDirectory() as folder:

        def child() -> None:
            os.setsid()
            with RealServer(form) as server, open(f"{folder}/said", "w") as said:
                said.write(play_form(tool, server.url, folder))
            os._exit(0)

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(180)
        late = process.is_alive()
        if late:
            os.kill(process.pid, signal.SIGINT)  # so that it keeps what it has
            process.join(20)
        if process.is_alive():
            process.kill()
            process.join()
        said = Path(folder, "said").read_text() if Path(folder, "said").exists() else ""
        return ending(tool, folder) + said + ", not over after three minutes" * late


def is_as_wanted(form: dict, ended: str) -> bool:
    "Whether all five were right, or what failed is not booked as the model's; by the blame, where a tool tells it."
    if form["want"] == "right":
        return ended.startswith("5 right")
    whose = "server" if form["want"].startswith("stop") else form["want"]
    if "blamed: " in ended:
        return f"blamed: {whose}" in ended and not re.search(rf"blamed: {whose} \w", ended)
    return "5 wrong" in ended if whose in ("model", "limit") else ", 0 wrong" in ended


def forms(known: list[dict], keep: Callable[[list[dict]], None]) -> None:
    "What comes of each form for both tools, four at once; those that are known are not repeated."
    found = {form["name"]: dict(form=form["name"], want=form["want"]) for form in FORMS}
    found |= {row["form"]: row for row in known if row["form"] in found}
    jobs = [(f, tool) for f in FORMS for tool in ("sql_env", "inspect")]
    jobs = [(form, tool) for form, tool in jobs if tool not in found[form["name"]]]

    def run(form: dict, tool: str) -> None:
        ended = form_ending(tool, form)
        with LOCK:
            found[form["name"]] |= {tool: ended, f"{tool}_as_wanted": is_as_wanted(form, ended)}
            print(tool, form["name"], ended, flush=True)
            keep([row for row in found.values() if len(row) > 2])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda job: run(*job), jobs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    out = given.out
    about = dict(
        python=platform.python_version(), inspect_ai=version("inspect_ai"), cores=os.cpu_count()
    )
    figures = dict(
        command="python benchmarks/evaluating.py --out benchmarks/evaluating.json", about=about
    )
    if given.only and out:
        figures = json.loads(out.read_text())
    if given.only in ("", "forms"):

        def keep(rows: list[dict]) -> None:
            figures["forms"] = rows
            if out:
                out.write_text(json.dumps(figures, indent=1) + "\n")

        forms(figures.get("forms", []), keep)
    for case in (rate_limit, cap, kill, interrupt, disk):
        if given.only not in ("", case.__name__):
            continue
        figures[case.__name__] = [dict(tool=tool, **case(tool)) for tool in ("sql_env", "inspect")]
        print(case.__name__, figures[case.__name__], flush=True)
    print(json.dumps(figures, indent=1))
    if out:
        out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
