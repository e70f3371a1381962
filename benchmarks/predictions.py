"""Published predictions for Spider dev, judged: `python benchmarks/predictions.py [--only PART ...] [--out FILE]`.

Reads Spider from SQL_ENV_SPIDER or ../shared/spider, and files of predicted SQL from SQL_ENV_PREDICTIONS or
../shared/predictions, one for each system; they are the work of others, and only figures are kept. Four parts: the
systems by value, by the test suite's rule, on other contents and by proof, with every two of them compared; how many
files of each broken kind are found, and how many whole ones are refused; and what it costs: a file without and with
proofs in one process and in two, 512 rewards cold and again; and whether ten layouts of a query have one verdict.
"""

import argparse
import json
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from test_judging_files import KINDS, broken  # noqa: E402

from sql_env import load  # noqa: E402
from sql_env.evaluation.results import compare_all  # noqa: E402
from sql_env.judging import PredictionError, judge, reward  # noqa: E402
from sql_env.judging.predictions import align, read_predictions  # noqa: E402
from sql_env.judging.rewards import _reward, rewards  # noqa: E402
from sql_env.sql.text import sql_tokens  # noqa: E402

SHARED = ROOT.parent / "shared"
SPIDER = Path(os.environ.get("SQL_ENV_SPIDER", SHARED / "spider"))
PREDICTIONS = Path(os.environ.get("SQL_ENV_PREDICTIONS", SHARED / "predictions"))
TRIES = 3  # broken files of each kind and system


def files() -> list[Path]:
    "The files of predictions, one for each system."
    return sorted(f for f in PREDICTIONS.iterdir() if f.suffix in (".txt", ".csv", ".sql"))


def systems(questions, workers: int) -> dict:
    "Figures of each system, and differences between them by our verdicts and by execution accuracy."
    with ProcessPoolExecutor(workers) as executor:
        found = [judge(f, questions, executor=executor) for f in files()]
    said = {}
    for by in ("value", "robust"):
        pairs = compare_all(found, by)
        said[by] = {f"{c.names[0]} - {c.names[1]}": c.p_holm for c in pairs if c.p_holm < 0.05}
    orders = [
        (a.rate("value") - b.rate("value")) * (a.rate("robust") - b.rate("robust"))
        for a, b in pairs_of(found)
    ]
    rows = [j.figures() for j in found]
    for row in rows:
        del row["seconds"]  # of a machine that does other things as well
    return dict(
        systems=rows,
        pairs=len(orders),
        pairs_that_change_order=sum(x < 0 for x in orders),
        significant={by: len(names) for by, names in said.items()},
        significant_by_both=len(said["value"].keys() & said["robust"].keys()),
    )


def pairs_of(found: list) -> list:
    "Every two of several."
    return list(combinations(found, 2))


def alignment(questions) -> dict:
    "How many broken files are found, by kind, and how many whole ones are refused."
    chance, asked = random.Random(1), questions.in_order
    databases = [q.database_name for q in asked]
    read = {f.name: [p.sql for p in read_predictions(f)] for f in files()}

    def is_refused(sqls: list[str]) -> bool:
        try:
            align(read_predictions(sqls), asked)
        except PredictionError:
            return True
        return False

    wrong = {
        kind: [broken(s, kind, databases, chance) for s in read.values() for _ in range(TRIES)]
        for kind in [*KINDS, "sorted"]
    }
    return dict(
        files=len(read),
        refused=sum(map(is_refused, read.values())),
        tried=len(read) * TRIES,
        found={kind: sum(map(is_refused, lists)) for kind, lists in wrong.items()},
    )


def layouts(sql: str, chance: random.Random) -> list[str]:
    "A query in ten layouts: blanks, lines, comments and a semicolon around and between its words."
    words = [token.text for token in sql_tokens(sql)]
    ends = ("", ";", " ;\n", "\n-- done", "  ")
    made = []
    for n in range(10):
        gaps = (
            [chance.choice((" ", "\n", "  ", "\t", " /* so */ ")) for _ in words]
            if n
            else [" "] * len(words)
        )
        made.append("".join(w + g for w, g in zip(words, gaps)).strip() + ends[n % len(ends)])
    return made


def costs(questions) -> dict:
    "Seconds of processor and clock."
    chance, file, told = random.Random(2), files()[0], {}
    for name, options in (("values and other contents", dict(proofs=False)), ("with proofs", {})):
        start, cpu = time.perf_counter(), time.process_time()
        judge(file, questions, **options)
        told[name] = dict(
            seconds=round(time.perf_counter() - start, 1), cpu=round(time.process_time() - cpu, 1)
        )
    with ProcessPoolExecutor(2) as executor:
        start = time.perf_counter()
        judge(file, questions, executor=executor)
        told["with proofs, two processes"] = dict(seconds=round(time.perf_counter() - start, 1))
    playable = list(questions)
    places = {q.question_id: i for i, q in enumerate(questions.in_order)}
    tries = [[p.sql for p in read_predictions(f)] for f in files()[:8]]

    def batch() -> tuple:
        some = chance.sample(playable, 64)
        jobs = [
            (t[places[q.question_id]], q.gold_sql, questions.databases[q.database_name])
            for q in some
            for t in tries
        ]
        return tuple(zip(*jobs))

    batches, seconds = [batch() for _ in range(4)], []
    for some in batches:
        cpu = time.process_time()
        rewards(*some)
        seconds.append(round(time.process_time() - cpu, 2))
    start = time.perf_counter()
    rewards(*batches[-1])
    again = time.perf_counter() - start
    return dict(
        file=dict(questions=len(playable) + len(questions.quarantined), **told),
        rewards=dict(of=512, cpu_cold=seconds, again_ms=round(1000 * again, 1)),
    )


def spellings(questions) -> dict:
    "How many of 500 spellings, ten of a query, have the verdict of the first one."
    chance, same = random.Random(3), 0
    places = {q.question_id: i for i, q in enumerate(questions.in_order)}
    tries = [[p.sql for p in read_predictions(f)] for f in files()[:8]]
    for q in chance.sample(list(questions), 50):
        sql = chance.choice(tries)[places[q.question_id]]
        paid = []
        for text in layouts(sql, chance):
            _reward.cache_clear()
            paid.append(reward(text, q.gold_sql, questions.databases[q.database_name]))
        same += paid.count(paid[0])
    return dict(tried=500, one_verdict=same)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "predictions.json")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="alignment, costs, layouts, systems: others stay")
    args = parser.parse_args()
    questions = load("spider", SPIDER, split="dev")
    parts = dict(
        alignment=lambda: dict(alignment=alignment(questions)),
        costs=lambda: dict(costs=costs(questions)),
        layouts=lambda: dict(layouts=spellings(questions)),
        systems=lambda: systems(questions, args.workers),
    )
    found = json.loads(args.out.read_text()) if args.out.exists() else {}
    found["command"] = "python benchmarks/predictions.py"
    for name in args.only or parts:
        found |= parts[name]()
    args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
