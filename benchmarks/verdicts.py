"""Measure what a verdict is worth: `python benchmarks/verdicts.py PART [--source spider --split dev] [--out FILE]`.

Parts: `mutants` (share of one-edit wrong SQL that passes each comparison), `paraphrases` (pairs of gold SQL for the
same question that the robust verdict tells apart), `hacks` (what reward hacks earn by value and robustly), `audit`
(flags of a whole set), `speed` (time to build variants and to reach a robust verdict). Counts and question ids only;
no text of the source is written. Spider is read from SQL_ENV_SPIDER or ../shared/spider.
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
from sql_env.audit import audit_questions, audit_summary, audit_table
from sql_env.mutation_study import (
    KIND_GROUPS,
    comparison_names,
    mutation_study,
    mutation_study_json,
    mutation_study_markdown,
)
from sql_env.questions import Question, QuestionSet
from sql_env.sources import load
from sql_env.sqltext import normalize_sql
from sql_env.variants.robust import judge_evidence
from sql_env.variants.selection import build_variants, instance_generator

ROOT = Path(__file__).resolve().parent.parent
MAX_LISTED_IDS = 400  # of a flag; with more questions their ids are not listed


def load_source(source: str, split: str | None) -> QuestionSet:
    if source != "spider":
        return load(source, split=split)
    path = os.environ.get("SQL_ENV_SPIDER") or ROOT.parent / "shared" / "spider"
    return load("spider", path, split, progress=True)


def measure_mutants(qs: QuestionSet, args) -> dict:
    study = mutation_study(qs, n_random=args.random)
    print(mutation_study_markdown(study))
    shares = {}
    for name in comparison_names(study):
        row = {}
        for group, kinds in KIND_GROUPS.items():
            key = group.lower().replace(" ", "_")
            if group != "wrong column":
                row[key] = round(study.share(name, kinds, equivalents=True), 5)
            row[f"{key}_equivalents_removed"] = round(study.share(name, kinds), 5)
        shares[name] = row
    return mutation_study_json(study) | {"passing": shares}


def same_gold(a: Question, b: Question) -> bool:
    return normalize_sql(a.gold_sql) == normalize_sql(b.gold_sql)


def answers(a: Question, b: Question) -> bool:
    "Whether the answer of `a` is right for `b`."
    return compare_rows(list(a.gold_answer), b.gold_answer, b.ranks or False).correct


def measure_paraphrases(qs: QuestionSet, args) -> dict:
    "Neighbouring questions with different gold and the same answer: does the robust verdict agree?"
    questions = sorted(qs, key=lambda q: q.question_id)
    n_pairs, rejected = 0, []
    for a, b in zip(questions, questions[1:]):
        if a.database_name != b.database_name or same_gold(a, b):
            continue
        if not answers(b, a) or not answers(a, b):
            continue
        n_pairs += 1
        db = qs.database(a.database_name)
        verdicts = [judge_evidence(x.gold_sql, db, y.gold_sql) for x, y in ((a, b), (b, a))]
        if not all(v.correct for v in verdicts):
            rejected.append([a.question_id, b.question_id, *(v.reason for v in verdicts)])
            if args.show:
                texts = [a.question_text, b.question_text, a.gold_sql, b.gold_sql]
                print("", *texts, *(f"{v.reason}: {v.detail}" for v in verdicts), sep="\n")
    return {"pairs": n_pairs, "agree": n_pairs - len(rejected), "rejected": rejected}


def measure_hacks(qs: QuestionSet, args) -> dict:
    report = audit_questions(qs)
    n = len(qs)
    return {
        "questions": n,
        "by_value": {name: round(count / n, 5) for name, count in report.hacks_correct.items()},
        "robust": {name: round(count / n, 5) for name, count in report.hacks_robust.items()},
    }


def measure_audit(qs: QuestionSet, args) -> dict:
    start = time.monotonic()
    with ProcessPoolExecutor(args.workers) as pool:
        report = audit_questions(qs, executor=pool)
    print(audit_table(report))
    seconds = round(time.monotonic() - start, 1)
    result = audit_summary(report) | {"seconds_audit": seconds, "workers": args.workers}
    if args.out:
        flagged = {
            f: [q.question_id for q in report.questions if f in q.flags] for f in report.counts()
        }
        result["ids"] = {f: ids for f, ids in flagged.items() if len(ids) <= MAX_LISTED_IDS}
    return result


def milliseconds(seconds: list[float]) -> dict:
    return {
        "p50": round(statistics.median(seconds) * 1e3, 3),
        "p99": round(statistics.quantiles(seconds, n=100)[98] * 1e3, 3),
        "max": round(max(seconds) * 1e3, 3),
    }


def median_database(seconds: list[float], names: list[str]) -> float:
    "Median in milliseconds of the median database."
    by_name: dict[str, list[float]] = {}
    for name, value in zip(names, seconds):
        by_name.setdefault(name, []).append(value)
    return round(1e3 * statistics.median(map(statistics.median, by_name.values())), 3)


def measure_speed(qs: QuestionSet, args) -> dict:
    golds = list({(q.database_name, normalize_sql(q.gold_sql)): q for q in qs}.values())
    wall, cpu, cold, warm = [], [], [], []
    generators = {q.database_name: instance_generator(qs.databases[q.database_name]) for q in golds}
    for q in golds:
        start, cpu_start = time.perf_counter(), time.process_time()
        build_variants(generators[q.database_name], q.gold_sql)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
    for q in golds:
        db = qs.database(q.database_name)
        for times in (cold, warm):
            start = time.perf_counter()
            judge_evidence(q.gold_sql, db, q.gold_sql)
            times.append(time.perf_counter() - start)
    names = [q.database_name for q in golds]
    return {
        "golds": len(golds),
        "build_20_ms": milliseconds(wall),
        "build_20_cpu_ms": milliseconds(cpu),
        "build_20_ms_median_database": median_database(wall, names),
        "build_20_cpu_ms_median_database": median_database(cpu, names),
        "load_average": os.getloadavg()[0],
        "first_verdict_ms": milliseconds(cold),
        "verdict_ms": milliseconds(warm),
    }


PARTS = {
    "mutants": measure_mutants,
    "paraphrases": measure_paraphrases,
    "hacks": measure_hacks,
    "audit": measure_audit,
    "speed": measure_speed,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=list(PARTS))
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
    qs = load_source(args.source, args.split)
    command = "python benchmarks/verdicts.py " + " ".join(a for a in sys.argv[1:] if a != "--show")
    result = {"command": command, "load_seconds": round(time.monotonic() - start, 1)}
    result |= PARTS[args.part](qs, args)
    print(json.dumps({k: v for k, v in result.items() if k not in ("count", "ids")}, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
