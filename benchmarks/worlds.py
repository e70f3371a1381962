"""Figures of the generated worlds: `python benchmarks/worlds.py` writes benchmarks/worlds.json (about 15 minutes on one core).

Speed and memory per level, the largest database, repeats among 100,000 questions, overlap of splits, how far answers can be guessed,
and what the oracle, the cheats and the greedy baseline earn.
"""

import argparse
import json
import platform
import resource
import sys
import tempfile
import time
from collections import Counter
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from sql_env.evaluation import evaluate
from sql_env.policies.baselines import GreedyPolicy, OraclePolicy
from sql_env.policies.hacks import HACKS, most_frequent_answer
from sql_env.worlds.phrases import FAMILIES, sql_skeleton
from sql_env.worlds.words import SPLITS
from sql_env.worlds.world import World, guessing_statistics, world_set, worlds

LEVELS = range(1, 6)


def speed(n: int, runs: int = 5) -> dict:
    "Worlds per second, a database and six questions each: the best and the median of some runs by the wall clock, and all by processor time."
    out = {}
    for level in LEVELS:
        stream = worlds(level, 1)
        list(islice(stream, 50))
        walls, cpu = [], time.process_time()
        for _ in range(runs):
            start = time.perf_counter()
            list(islice(stream, n // runs))
            walls.append(n // runs / (time.perf_counter() - start))
        out[level] = dict(
            wall_best=round(max(walls), 1),
            wall_median=round(sorted(walls)[runs // 2], 1),
            processor=round(n // runs * runs / (time.process_time() - cpu), 1),
        )
    return out


def memory(n: int) -> dict:
    "Resident memory in MB after a tenth of the worlds and after all of them."
    page, seen = resource.getpagesize(), {}

    def rss():
        return round(int(Path("/proc/self/statm").read_text().split()[1]) * page / 2**20, 1)

    for i, w in enumerate(islice(worlds(3, 2), n), 1):
        if i in (n // 10, n // 2, n):
            seen[i] = rss()
    return seen


def repeats(n: int) -> dict:
    "Pairs of schema and gold SQL that occur twice among n questions of all levels, and equal question texts."
    pairs, texts, total = Counter(), Counter(), 0
    for level in LEVELS:
        asked = 0
        for w in worlds(level, 3):
            schema = "".join(t.schema() for t in w.tables.values())
            for q in w.questions:
                pairs[blake2b((schema + q.gold_sql).encode(), digest_size=8).digest()] += 1
                texts[blake2b(q.question_text.encode(), digest_size=8).digest()] += 1
                asked += 1
            if asked >= n // 5:
                break
        total += asked
    return dict(
        questions=total, repeated_pairs=total - len(pairs), repeated_texts=total - len(texts)
    )


def overlap(n: int) -> dict:
    "Share of the names and shapes of test (or test_wording) that occur in train."

    def facts(split):
        ws = [w for level in LEVELS for w in islice(worlds(level, 4, split), n)]
        return dict(
            tables={t.name.lower() for w in ws for t in w.tables.values()},
            columns={c.name.lower() for w in ws for t in w.tables.values() for c in t.columns},
            gold={q.gold_sql for w in ws for q in w.questions},
            skeletons={sql_skeleton(q.gold_sql) for w in ws for q in w.questions},
            questions={q.question_text for w in ws for q in w.questions},
            wordings={t for f in FAMILIES.values() for t in f.wordings[split == "test_wording"]},
        )

    found = {s: facts(s) for s in SPLITS}
    return {
        s: {k: round(len(v & found["train"][k]) / len(v), 4) for k, v in found[s].items()}
        for s in SPLITS
        if s != "train"
    }


def curve(n: int, folder: str) -> dict:
    "Success of the oracle, of greedy and of the best cheat on the test split."
    out = {}
    for level in LEVELS:
        qs = world_set("test", level, n, folder=folder)

        def rate(policy):
            return round(evaluate(qs, policy, progress=False).success_rate, 4)

        hacks = {h.name: rate(h) for h in [*HACKS, most_frequent_answer(qs)]}
        top = max(hacks, key=lambda k: hacks[k])
        out[level] = dict(
            oracle=rate(OraclePolicy(qs)),
            greedy=rate(GreedyPolicy()),
            best_hack=[top, hacks[top]],
            guessing=guessing_statistics(qs),
        )
    return out


def largest(rows: int) -> dict:
    "Seconds and megabytes of the largest database."
    out = {}
    for level in LEVELS:
        start = time.perf_counter()
        w = World(7, level, size=rows)
        out[level] = dict(
            seconds=round(time.perf_counter() - start, 1),
            megabytes=round(len(w.image) / 2**20, 1),
            questions=len(w.questions),
        )
    return out


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    p.add_argument("--scale", type=float, default=1.0, help="0.01 for a quick look")
    p.add_argument(
        "--only",
        help="renew one figure and keep the others, such as worlds_per_second on a quiet machine",
    )
    a = p.parse_args()

    def n(x):
        return max(10, int(x * a.scale))

    figures: dict = dict(
        command="python benchmarks/worlds.py" + (f" --scale {a.scale}" if a.scale != 1 else ""),
        python=platform.python_version(),
        machine=platform.machine(),
    )
    if a.only:
        figures = json.loads(a.out.read_text())
    with tempfile.TemporaryDirectory() as folder:
        steps = dict(
            worlds_per_second=lambda: speed(n(500)),
            memory_mb=lambda: memory(n(10_000)),
            curve=lambda: curve(n(1500), folder),
            overlap_with_train=lambda: overlap(n(400)),
            largest=lambda: largest(n(100_000)),
            repeats=lambda: repeats(n(100_000)),
        )
        for name, step in steps.items():
            if a.only and name != a.only:
                continue
            figures[name] = step()
            print(name, json.dumps(figures[name]), file=sys.stderr, flush=True)
            a.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
