"""Measure the evaluation of a language model: `python benchmarks/evaluate.py [--out benchmarks/evaluate.json]`.

A small server on loopback, in a process of its own, speaks the chat completions protocol and plays right. CPU is that
of the evaluating process for each call to the model: in all, and without what the `openai` package itself needs for the
same requests. The wall clock is that of one machine.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sql_env.evaluation.harness import evaluate
from sql_env.evaluation.logs import read_log
from sql_env.policies.chat import ChatPolicy
from sql_env.policies.endpoint import Endpoint
from sql_env.policies.requests import ModelError
from sql_env.sources.loading import load

ROOT = Path(__file__).resolve().parent.parent
SERVER = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from fake_server import FAULTS, FakeServer, player, slow
from sql_env.sources.loading import load
good = player(load("bundled"))
def script(body):
    return FAULTS["key"] if body["model"] == "wrong-key" else slow(good(body), 0.05)
print(FakeServer(script).url, flush=True)
threading.Event().wait()
"""


def bare_calls(url: str, transcripts: list, workers: int) -> float:
    "CPU seconds of the client package alone for the requests of a run."
    from openai import OpenAI

    client = OpenAI(base_url=url, api_key="none")

    def ask(messages):
        client.chat.completions.with_raw_response.create(model="m", messages=messages).parse()

    ask(transcripts[0])
    start = time.process_time()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(ask, transcripts))
    return time.process_time() - start


def overhead(url: str, n: int, workers: int, log: Path) -> dict:
    "CPU of a run of `n` episodes, for each call to the model."
    questions = load("bundled")
    evaluate(questions, ChatPolicy("m", url), 8, progress=False)  # imports, first connection
    policy = ChatPolicy("m", url)
    wall, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(workers) as pool:
        result = evaluate(
            questions, policy, n, executor=pool, log=log, robust=False, progress=False
        )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    calls = int(result.usage["calls"])
    transcripts = []
    for trajectory in read_log(log)[1]:
        words = [m for m in trajectory.messages if m["role"] in ("system", "user")]
        transcripts += [words] * int(trajectory.usage["calls"])
    bare = bare_calls(url, transcripts, workers)
    return dict(
        episodes=n,
        at_once=workers,
        calls=calls,
        success=result.success_rate,
        seconds=round(wall, 2),
        cpu_ms_per_call=round(1000 * cpu / calls, 2),
        cpu_ms_per_call_of_openai=round(1000 * bare / calls, 2),
        cpu_ms_per_call_of_ours=round(1000 * (cpu - bare) / calls, 2),
    )


def wrong_key(url: str) -> float:
    "Seconds until a wrong key is said."
    start = time.perf_counter()
    try:
        evaluate(load("bundled"), ChatPolicy(Endpoint("wrong-key", url)), progress=False)
    except ModelError:
        return round(time.perf_counter() - start, 2)
    raise SystemExit("a wrong key was not noticed")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("-n", type=int, default=384)
    parser.add_argument("--workers", type=int, default=16)
    args = parser.parse_args()
    command = [sys.executable, "-c", SERVER, str(ROOT / "tests")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        with tempfile.TemporaryDirectory() as folder:
            figures = overhead(url, args.n, args.workers, Path(folder) / "m.jsonl")
        figures["wrong_key_seconds"] = wrong_key(url)
    finally:
        server.terminate()
    command = "python benchmarks/evaluate.py --out benchmarks/evaluate.json"
    about = dict(command=command, python=platform.python_version(), cores=os.cpu_count())
    figures = about | figures
    print(json.dumps(figures, indent=1))
    if args.out:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
