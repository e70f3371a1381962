"""`sql_env evaluate` beside `inspect eval`: same questions, same model server: `python benchmarks/inspect_eval.py`.

The server is that of the tests and plays gold; both commands ask it with 16 conversations at once. Wall and CPU seconds
of each command in a process of its own, the median of three runs taken in turns, its imports included; the same with
two questions tells what a start costs. Needs `pip install -e ".[openai,inspect]"`; writes inspect_eval.json."""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from fake_server import FakeServer  # noqa: E402

from sql_env.sources.loading import load  # noqa: E402

RUNS = 3
GOLDS = {q.question_text: q.gold_sql for q in load("bundled", split="test")}


def oracle(body: dict) -> list:
    "Gold, then the answer."
    messages = body["messages"]
    if messages[-1]["role"] == "tool":
        return [("answer", {"value": "@last"})]
    text = next(m["content"] for m in messages if m["role"] == "user")
    if isinstance(text, list):
        text = text[0]["text"]
    gold = GOLDS.get(
        text.partition("\n\nTables")[0], "SELECT 1"
    )  # or a request that belongs to no episode
    return [("query", {"sql": gold})]


def commands(url: str, n: int, folder: str) -> dict[str, list[str]]:
    "What a user types, by the name of the tool."
    beside = Path(sys.executable).with_name
    ours = f"evaluate --split test -n {n} --policy chat --model m --base-url {url} --workers 16"
    other = f"eval sql_env/source -T split=test --limit {n} --model openai/m -M responses_api=false"
    other += (
        f" --model-base-url {url} --max-connections 16 --display none --log-dir {folder}/inspect"
    )
    return dict(
        sql_env=[
            str(beside("sql_env")),
            *ours.split(),
            "--no-floor",
            "--log",
            f"{folder}/log.jsonl",
        ],
        inspect=[str(beside("inspect")), *other.split()],
    )


def measure(tool: str, n: int) -> tuple[float, float]:
    "Wall and CPU seconds of one run."
    env = os.environ | {"OPENAI_API_KEY": "none", "OMP_NUM_THREADS": "1"}
    env.pop("PYTHONPATH", None)
    with FakeServer(oracle) as server, tempfile.TemporaryDirectory() as folder:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = commands(server.url, n, folder)[tool]
        subprocess.run(command, check=True, env=env, cwd=folder, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert 2 * n <= len(server.bodies) <= 2 * n + 1
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    "Measure both tools in turns and write the medians."
    found: dict = {}
    sizes = (2, len(GOLDS))
    for _ in range(RUNS):
        for n in sizes:
            for tool in ("sql_env", "inspect"):
                found.setdefault((tool, n), []).append(measure(tool, n))
    rows = []
    for (tool, n), runs in found.items():
        wall, cpu = (round(statistics.median(run[i] for run in runs), 2) for i in (0, 1))
        rows.append(dict(tool=tool, questions=n, calls=2 * n, wall_s=wall, cpu_s=cpu))
    about = dict(
        python=platform.python_version(), inspect_ai=version("inspect_ai"), cores=os.cpu_count()
    )
    out = ROOT / "benchmarks" / "inspect_eval.json"
    figures = dict(command="python benchmarks/inspect_eval.py", about=about, rows=rows)
    out.write_text(json.dumps(figures, indent=1) + "\n")
    print(out.read_text())


main()
