"""Measure what a verdict is worth: `python benchmarks/verdicts.py PART [--source spider --path ... --split dev] [--out FILE.json]`.

Parts: `mutants` (share of one-edit wrong SQL that passes each comparison), `paraphrases` (pairs of gold SQL for the same
question that the robust verdict tells apart), `hacks` (what cheats earn by value and robustly), `audit` (flags of a whole
set), `speed` (time to build variants and to reach a robust verdict). Counts and question ids only; no text of the source
is written. Spider is read from SQL_ENV_SPIDER or ../shared/spider.
"""

import argparse
import json
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from sql_env.answers import compare_rows
from sql_env.audit import audit, audit_summary, audit_table
from sql_env.mutation_study import mutation_study, mutation_study_json, mutation_study_markdown
from sql_env.questions import QuestionSet
from sql_env.sources import load
from sql_env.sqltext import normalize_sql
from sql_env.variants.robust import judge_evidence
from sql_env.variants.selection import build_variants, instance_generator

ROOT = Path(__file__).resolve().parent.parent


def load(source: str, split: str | None) -> QuestionSet:
    if source == "spider":
        return load(
            "spider",
            os.environ.get("SQL_ENV_SPIDER") or ROOT.parent / "shared" / "spider",
            split,
            progress=True,
        )
    return load(source, split=split)


def mutants(qs: QuestionSet, args) -> dict:
    study = mutation_study(qs, n_random=args.random)
    print(mutation_study_markdown(study))
    shares = {
        n: {
            "without_add_distinct": round(
                study.share(n, lambda k: k not in ("add_distinct", "wrong_column"), True), 5
            ),
            "all_edits": round(study.share(n, lambda k: k != "wrong_column", True), 5),
            "without_add_distinct_equivalents_removed": round(
                study.share(n, lambda k: k not in ("add_distinct", "wrong_column")), 5
            ),
            "all_edits_equivalents_removed": round(
                study.share(n, lambda k: k != "wrong_column"), 5
            ),
            "wrong_column_equivalents_removed": round(
                study.share(n, lambda k: k == "wrong_column"), 5
            ),
        }
        for n in (
            "set",
            "bag",
            "order",
            "value",
            *(f"{w} {k}" for w in ("robust", "held out") for k in study.ks),
        )
    }
    return mutation_study_json(study) | {"passing": shares}


def paraphrases(qs: QuestionSet, args) -> dict:
    "Neighbouring questions with different gold and the same answer: does the robust verdict agree?"
    everything = sorted(qs, key=lambda q: q.question_id)
    out: dict = {"pairs": 0, "agree": 0, "rejected": []}
    for a, b in zip(everything, everything[1:]):
        if a.database_name != b.database_name or normalize_sql(a.gold_sql) == normalize_sql(
            b.gold_sql
        ):
            continue
        if (
            not compare_rows([*b.gold_answer], a.gold_answer, a.ranks or False).correct
            or not compare_rows([*a.gold_answer], b.gold_answer, b.ranks or False).correct
        ):
            continue
        out["pairs"] += 1
        said = [
            judge_evidence(x.gold_sql, qs.database(x.database_name), y.gold_sql)
            for x, y in ((a, b), (b, a))
        ]
        if all(v.correct for v in said):
            out["agree"] += 1
        else:
            out["rejected"].append([a.question_id, b.question_id, *(v.reason for v in said)])
            if args.show:
                print(
                    f"\n{a.question_text}\n{b.question_text}\n  {a.gold_sql}\n  {b.gold_sql}\n  {[v.reason + ': ' + v.detail for v in said]}"
                )
    return out


def hacks(qs: QuestionSet, args) -> dict:
    report = audit(qs, executor=None)
    n = len(qs)
    return {
        "questions": n,
        "by_value": {k: round(v / n, 5) for k, v in report.guessed.items()},
        "robust": {k: round(v / n, 5) for k, v in report.robust.items()},
    }


def audit(qs: QuestionSet, args) -> dict:
    start = time.monotonic()
    with ProcessPoolExecutor(args.workers) as pool:
        report = audit(qs, executor=pool)
    print(audit_table(report))
    if args.out:
        ids = {
            f: [q.question_id for q in report.questions if f in q.flags] for f in report.counts()
        }
        rare = {f: i for f, i in ids.items() if len(i) <= 400}
    return (
        audit_summary(report)
        | {"seconds_audit": round(time.monotonic() - start, 1), "workers": args.workers}
        | ({"ids": rare} if args.out else {})
    )


def speed(qs: QuestionSet, args) -> dict:
    golds = list({(q.database_name, normalize_sql(q.gold_sql)): q for q in qs}.values())
    fuzzers, build, cpu, cold, warm = {}, [], [], [], []
    for q in golds:
        path = qs.databases[q.database_name]
        fuzzer = fuzzers.setdefault(path, instance_generator(path))
        start, busy = time.perf_counter(), time.process_time()
        build_variants(fuzzer, q.gold_sql)
        build.append((q.database_name, time.perf_counter() - start))
        cpu.append((q.database_name, time.process_time() - busy))
    for q in golds:
        db = qs.database(q.database_name)
        for times in (cold, warm):
            start = time.perf_counter()
            judge_evidence(q.gold_sql, db, q.gold_sql)
            times.append(time.perf_counter() - start)

    def of_median_database(times):
        return round(
            1e3
            * statistics.median(
                statistics.median(t for n, t in times if n == d) for d in {n for n, _ in times}
            ),
            3,
        )

    def ms(xs):
        return {
            "p50": round(statistics.median(xs) * 1e3, 3),
            "p99": round(statistics.quantiles(xs, n=100)[98] * 1e3, 3),
            "max": round(max(xs) * 1e3, 3),
        }

    return {
        "golds": len(golds),
        "build_20_ms": ms([t for _, t in build]),
        "build_20_cpu_ms": ms([t for _, t in cpu]),
        "build_20_ms_median_database": of_median_database(build),
        "build_20_cpu_ms_median_database": of_median_database(cpu),
        "load_average": os.getloadavg()[0],
        "first_verdict_ms": ms(cold),
        "verdict_ms": ms(warm),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["mutants", "paraphrases", "hacks", "audit", "speed"])
    parser.add_argument("--source", default="spider")
    parser.add_argument("--split")
    parser.add_argument(
        "--random", type=int, default=200, help="random instances that decide what is equivalent"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="print rejected paraphrases")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    start = time.monotonic()
    qs = load(args.source, args.split)
    command = "python benchmarks/verdicts.py " + " ".join(a for a in sys.argv[1:] if a != "--show")
    result = {"command": command, "load_seconds": round(time.monotonic() - start, 1)} | globals()[
        args.part
    ](qs, args)
    print(json.dumps({k: v for k, v in result.items() if k not in ("count", "ids")}, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
