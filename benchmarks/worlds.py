"""Figures of the generated worlds: `python benchmarks/worlds.py` writes benchmarks/worlds.json.

Speed and memory per level, the largest database, repeats among 100,000 questions, overlap of splits, how far answers
can be guessed, and what the oracle, the hacks and the greedy baseline earn. It takes about 15 minutes on one core.
"""

import argparse
import json
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice
from math import log2
from pathlib import Path

from sql_env.evaluation.harness import evaluate
from sql_env.policies.baselines import HACKS, GreedyPolicy, OraclePolicy, most_frequent_answer
from sql_env.questions.question_set import Question
from sql_env.worlds import (
    FAMILIES,
    World,
    world_set,
    worlds,
)
from sql_env.worlds.words import SPLITS
from sql_env.worlds.world import sql_skeleton

LEVELS = range(1, 6)


def speed(n: int, runs: int = 5) -> dict:
    "Worlds of six questions a second: the best and the median run by the wall clock, and all by processor time."
    out = {}
    per_run = n // runs
    for level in LEVELS:
        stream = worlds(level, 1)
        list(islice(stream, 50))
        walls, cpu = [], time.process_time()
        for _ in range(runs):
            start = time.perf_counter()
            list(islice(stream, per_run))
            walls.append(per_run / (time.perf_counter() - start))
        out[level] = dict(
            wall_best=round(max(walls), 1),
            wall_median=round(statistics.median(walls), 1),
            processor=round(per_run * runs / (time.process_time() - cpu), 1),
        )
    return out


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 2**20, 1)


def memory(n: int) -> dict:
    "Resident memory in MB after a tenth of the worlds, half of them, and all."
    seen = {}
    for i, _ in enumerate(islice(worlds(3, 2), n), 1):
        if i in (n // 10, n // 2, n):
            seen[i] = resident_megabytes()
    return seen


def checksum(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()


def repeats(n: int) -> dict:
    "Pairs of schema and gold SQL that occur twice among n questions of all levels, and equal question texts."
    pairs, texts, total = Counter(), Counter(), 0
    for level in LEVELS:
        asked = 0
        for w in worlds(level, 3):
            schema = "".join(t.create_sql() for t in w.tables.values())
            pairs.update(checksum(schema + q.gold_sql) for q in w.questions)
            texts.update(checksum(q.question_text) for q in w.questions)
            asked += len(w.questions)
            if asked >= n // 5:
                break
        total += asked
    return dict(
        questions=total, repeated_pairs=total - len(pairs), repeated_texts=total - len(texts)
    )


def names_and_shapes(split: str, n: int) -> dict[str, set[str]]:
    "Names, gold and wordings of n worlds of each level."
    ws = [w for level in LEVELS for w in islice(worlds(level, 4, split), n)]
    tables = [t for w in ws for t in w.tables.values()]
    questions = [q for w in ws for q in w.questions]
    phrases = [f.wordings for f in FAMILIES.values()]
    forms = [p.unseen if split == "test_vocabulary" else p.forms for p in phrases]
    return dict(
        tables={t.name.lower() for t in tables},
        columns={c.name.lower() for t in tables for c in t.columns},
        gold={q.gold_sql for q in questions},
        skeletons={sql_skeleton(q.gold_sql) for q in questions},
        questions={q.question_text for q in questions},
        wordings={form for some in forms for form in some},
    )


def overlap(n: int) -> dict:
    "Share of the names and shapes of each other split that occur in train."
    train, shares = names_and_shapes("train", n), {}
    for split in SPLITS:
        if split != "train":
            found = names_and_shapes(split, n)
            shares[split] = {k: round(len(v & train[k]) / len(v), 4) for k, v in found.items()}
    return shares


def curve(n: int, folder: str) -> dict:
    "Success of the oracle, of greedy and of the best hack on the test split."

    def success_rate(qs, policy):
        return round(evaluate(qs, policy, progress=False).success_rate, 4)

    out = {}
    for level in LEVELS:
        qs = world_set("test", level, n, folder=folder)
        hacks = {hack.name: success_rate(qs, hack) for hack in [*HACKS, most_frequent_answer(qs)]}
        best = max(hacks, key=hacks.__getitem__)
        out[level] = dict(
            oracle=success_rate(qs, OraclePolicy(qs)),
            greedy=success_rate(qs, GreedyPolicy()),
            best_hack=[best, hacks[best]],
            guessing=guessing_statistics(qs),
        )
    return out


def guessing_statistics(questions: Iterable[Question]) -> dict[str, float]:
    "Number of questions and of different answers, the share of the most frequent answer, and entropy in bits."
    counts = Counter(question.gold_answer for question in questions)
    total = counts.total()
    entropy = sum(n / total * log2(total / n) for n in counts.values())
    return {
        "questions": total,
        "answers": len(counts),
        "most_frequent": round(max(counts.values()) / total, 4),
        "entropy": round(entropy, 2),
    }


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--scale", type=float, default=1.0, help="0.01 for a quick look")
    only = "renew one figure and keep the others, such as worlds_per_second on a quiet machine"
    parser.add_argument("--only", help=only)
    args = parser.parse_args()

    def scaled(n):
        return max(10, int(n * args.scale))

    option = f" --scale {args.scale}" if args.scale != 1 else ""
    figures: dict = dict(
        command=f"python benchmarks/worlds.py{option}",
        python=platform.python_version(),
        machine=platform.machine(),
    )
    if args.only:
        figures = json.loads(args.out.read_text())
    with tempfile.TemporaryDirectory() as folder:
        steps = dict(
            worlds_per_second=lambda: speed(scaled(500)),
            memory_mb=lambda: memory(scaled(10_000)),
            curve=lambda: curve(scaled(1500), folder),
            overlap_with_train=lambda: overlap(scaled(400)),
            largest=lambda: largest(scaled(100_000)),
            repeats=lambda: repeats(scaled(100_000)),
        )
        for name, step in steps.items():
            if args.only and name != args.only:
                continue
            figures[name] = step()
            print(name, json.dumps(figures[name]), file=sys.stderr, flush=True)
            args.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
