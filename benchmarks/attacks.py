"""Seconds and megabytes of each attack in tests/attacks.py: `python benchmarks/attacks.py [--out attacks.json]`.

The tests count operations, because seconds depend on the machine. Here the seconds of processor time are measured: of
each hostile statement and file in a process of its own, and of the same statements where a server only tries them.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from sql_env.database.database import Database

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from attack_process import Child
from attacks import ATTACKS, FILES_TO_OPEN, HONEST, write_home


def measure_attacks(home: Path, folder: Path) -> dict[str, tuple[float, float]]:
    "Seconds and megabytes by name."
    child, costs = Child(home), {}
    for name, sql, _ in ATTACKS:
        answer = child.ask(sql=sql)
        costs[name] = answer["seconds"], answer["megabytes"]
    for name, build, _ in FILES_TO_OPEN:
        path = folder / f"{name}.sqlite"
        build(path)
        answer = child.ask(file=str(path))
        costs[f"file {name}"] = answer["seconds"], answer["megabytes"]
    child.close()
    return costs


def fast_attempt(home: Path, sql: str) -> float:
    "Seconds of an attempt to be brief."
    with Database(home) as db:
        db.query(HONEST)
        start = time.thread_time()
        db.brief.query(sql)
        return time.thread_time() - start


def worst(costs: dict[str, float], digits: int) -> dict[str, float]:
    "The six largest."
    names = sorted(costs, key=costs.__getitem__, reverse=True)[:6]
    return {name: round(costs[name], digits) for name in names}


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--out", type=Path)
    out = args.parse_args().out
    with tempfile.TemporaryDirectory() as home_folder, tempfile.TemporaryDirectory() as folder:
        home = write_home(Path(home_folder))
        costs = measure_attacks(home, Path(folder))
        fast = {}
        for name, sql, _ in ATTACKS:
            fast[name] = 1000 * min(fast_attempt(home, sql) for _ in range(3))
    figures = dict(
        command="python benchmarks/attacks.py --out benchmarks/attacks.json",
        attacks=len(costs),
        seconds=worst({name: cost[0] for name, cost in costs.items()}, 2),
        megabytes=worst({name: cost[1] for name, cost in costs.items()}, 0),
        fast_path_milliseconds=worst(fast, 2),
    )
    print(json.dumps(figures, indent=1))
    if out:
        out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
