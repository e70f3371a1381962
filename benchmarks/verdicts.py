"""Measure what a verdict is worth: `python benchmarks/verdicts.py PART [--source spider --split dev] [--out FILE]`.

Parts: `mutants` (share of one-edit wrong SQL that passes each comparison), `paraphrases` (pairs of gold SQL for the
same question that the robust verdict tells apart), `hacks` (what reward hacks earn by value and robustly), `audit`
(flags of a whole set), `speed` (time to make the instances of a pair, and of a robust verdict), `alternatives` (honest
SQL, written from question and schema without sight of gold, that it rejects), `wrong` (one-edit queries
that pass though realistic instances prove them wrong), `careless` (slips that are right by value: how many are
caught), `blind` (the same of `--pairs FILE`, lines or a list of {"db", "gold", "careless" or "honest"} of somebody),
`evenness` (time of a right and a wrong ANSWER under robust), `hedges` (guesses one by one and side by side).
Counts and question ids only; no text of the source is written. Spider is read from SQL_ENV_SPIDER or ../shared/spider,
KaggleDBQA and BIRD's superhero from ../shared, or from the folder that SQL_ENV_SHARED names.
"""

import argparse
import hashlib
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

from mutants import one_edit_mutants
from mutation_study import (
    COMPARISONS,
    KIND_GROUPS,
    mutation_study,
    mutation_study_json,
    mutation_study_markdown,
)
from realistic import (
    RealisticInstance,
    careless_mutants,
    read_tables,
    realistic_rows,
    results_agree,
    wider_mutants,
)
from sqlglot import exp

from sql_env.database.database import Database
from sql_env.database.guards import QueryError
from sql_env.evaluation.audit import _audit_table, audit_questions, audit_summary
from sql_env.evaluation.results import _wilson_interval, rate_interval
from sql_env.grading.answers import Verdict, compare_rows, format_rows
from sql_env.grading.variants.pairs import pair_variants
from sql_env.grading.variants.robust import judge_evidence, verify_robust
from sql_env.play.episode import Episode
from sql_env.proofs.decision import prove_on
from sql_env.questions.gold import rank_rows
from sql_env.questions.question_set import Question, QuestionSet
from sql_env.sources.loading import load
from sql_env.sql.analysis import parse_sql, select_order_keys, tie_tests
from sql_env.sql.text import normalize_sql

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("SQL_ENV_SHARED") or ROOT.parent / "shared")  # data of others
MAX_LISTED_IDS = 400  # of a flag; with more questions their ids are not listed


def load_source(source: str, split: str | None) -> QuestionSet:
    if source != "spider":
        return load(source, split=split)
    path = os.environ.get("SQL_ENV_SPIDER") or SHARED / "spider"
    return load("spider", path, split, progress=True)


def measure_mutants(qs: QuestionSet, args) -> dict:
    study = mutation_study(qs)
    print(mutation_study_markdown(study))
    shares = {}
    for name in COMPARISONS:
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
    print(_audit_table(report))
    seconds = round(time.monotonic() - start, 1)
    result = audit_summary(report) | {"seconds_audit": seconds, "workers": args.workers}
    if args.out:
        flagged = {
            f: [q.question_id for q in report.questions if f in q.flags] for f in report.counts()
        }
        result["ids"] = {f: ids for f, ids in flagged.items() if len(ids) <= MAX_LISTED_IDS}
    return result


ALTERNATIVES = Path(__file__).with_name("alternatives.jsonl")
# of each rejected question: honest (the robust verdict is too strict), ambiguous or gold (is wrong), and why
JUDGED = Path(__file__).with_name("alternatives_judged.json")


def half_of(database: str, names: set[str]) -> str:
    "The half that a database belongs to: sorted without regard to case, every second one is reported on."
    place = sorted(names, key=str.lower).index(database)
    return "reporting" if place % 2 else "tuning"


def judge_alternative(qs: QuestionSet, q: Question, sql: str) -> tuple[Verdict, Verdict]:
    "Value and robust verdict on a query whose whole result is the answer."
    db = qs.database(q.database_name)
    try:
        result = db.query(sql)
    except QueryError as e:
        failed = Verdict(False, "fails", e.kind)
        return failed, failed
    value = compare_rows(result.rows, q.gold_answer, q.ranks or False)
    return value, verify_robust(q, db, "@last", [(sql, result)], value)


def measure_alternatives(qs: QuestionSet, args) -> dict:
    "How many honest queries each verdict accepts, on the databases tuned on and on those kept for the report."
    sets = [qs, load("folder", SHARED / "kaggledbqa")]
    home = {q.question_id: (s, q) for s in sets for q in s}
    lines = [json.loads(line) for line in ALTERNATIVES.read_text().splitlines()]
    names = {line["database"] for line in lines}
    table: dict[str, list] = {"tuning": [], "reporting": []}
    for line in lines:
        home_set, q = home[line["question"]]
        value, robust = judge_alternative(home_set, q, line["sql"])
        half = half_of(line["database"], names)
        table[half].append((line, value, robust))
        if args.show and half == "tuning" and value.correct and not robust.correct:
            print(
                "", q.question_id, q.question_text, q.gold_sql, line["sql"], robust.detail, sep="\n"
            )
    return {half: alternatives_summary(rows) for half, rows in table.items()}


def alternatives_summary(rows: list[tuple[dict, Verdict, Verdict]]) -> dict:
    "Counts of one half, with a 95 % interval over questions or databases, whichever is wider."
    right = [(line, robust) for line, value, robust in rows if value.correct]
    rejected = [0.0 if robust.correct else 1.0 for _, robust in right]
    clusters = [[line[key] for line, _ in right] for key in ("database", "question")]
    low, high = rate_interval(rejected, *clusters)
    questions = Counter(line["question"] for line, robust in right if not robust.correct)
    judged = json.loads(JUDGED.read_text())
    kinds: Counter = Counter()
    for question, n in questions.items():
        kinds[judged.get(question, ["not judged"])[0]] += n
    honest = kinds["honest"] + kinds["not judged"]
    return {
        "queries": len(rows),
        "questions": len({line["question"] for line, *_ in rows}),
        "databases": sorted({line["database"] for line, *_ in rows}),
        "right_by_value": len(right),
        "rejected": int(sum(rejected)),
        "rejected_share": round(statistics.mean(rejected), 4),
        "interval": [round(low, 4), round(high, 4)],
        "rejected_by_kind": dict(kinds),
        "rejected_share_of_clear_ones": round(honest / (len(right) - sum(rejected) + honest), 4),
        "rejected_questions": dict(questions),
    }


N_DATABASES = 16  # of Spider's train part in each half
MAX_GOLDS = 25  # of one database
N_INSTANCES = 24  # realistic ones that may prove a mutant wrong


def databases_left_out(args) -> dict[str, list[tuple[QuestionSet, str]]]:
    "The databases of each half; those reported on were left out of all tuning."
    train = load("spider", SHARED / "spider", "train")
    order = sorted(
        {q.database_name for q in train}, key=lambda n: hashlib.sha256(n.encode()).hexdigest()
    )
    kaggle = load("folder", SHARED / "kaggledbqa")
    bird = load("bird", SHARED / "bird")
    halves: dict[str, list[tuple[QuestionSet, str]]] = {
        "tuning": [(train, n) for n in order[:N_DATABASES]] + [(kaggle, "GeoNuclearData")],
        "reporting": [(train, n) for n in order[N_DATABASES : 2 * N_DATABASES]]
        + [(kaggle, "GreaterManchesterCrime"), (bird, "superhero")],
    }
    return {half: items for half, items in halves.items() if half in args.half}


def golds_of(qs: QuestionSet, name: str) -> list[Question]:
    "Questions of a database with different gold, evenly spread."
    golds = {normalize_sql(q.gold_sql): q for q in qs if q.database_name == name}
    questions = sorted(golds.values(), key=lambda q: q.question_id)
    return questions[:: max(1, len(questions) // MAX_GOLDS)][:MAX_GOLDS]


def proven_wrong(path: Path, tables: list, q: Question, mutants: list[str]) -> dict[str, list[int]]:
    "For each mutant the realistic instances that tell it from gold whatever the order of rows."
    proofs: dict[str, list[int]] = {sql: [] for sql in mutants}
    try:
        keys = select_order_keys(q.gold_sql)
    except ValueError:
        keys = None
    ties = tie_tests(q.gold_sql)
    for number in range(N_INSTANCES):
        rng = Random(f"{number}:{q.gold_sql}")
        instance = RealisticInstance(path, realistic_rows(tables, q.gold_sql, rng), rng)
        golds = instance.results(q.gold_sql)
        ranks = None
        if keys and golds[0] and None not in golds:
            try:
                ranks = rank_rows(golds[0], instance.results(keys.sql)[0] or [], keys.columns)
            except (ValueError, IndexError):
                ranks = None
        stable = all(rows is not None and results_agree(rows, golds[0], ranks) for rows in golds)
        if stable and not any(instance.ties(test) for test in ties):
            for sql, found in proofs.items():
                if all(not results_agree(r, golds[0], ranks) for r in instance.results(sql)):
                    found.append(number)
        instance.close()
    return proofs


def measure_wrong(qs: QuestionSet, args) -> dict:
    "Wrong one-edit queries that pass each verdict, on databases tuned on and on others."
    found = {}
    for half, databases in databases_left_out(args).items():
        count: Counter = Counter()
        by_kind: dict[str, Counter] = {}
        passed = []
        for own_set, name in databases:
            path = own_set.databases[name]
            tables = read_tables(path)
            for q in golds_of(own_set, name):
                count["golds"] += 1
                for kind, sql, state in judged_mutants(own_set, q, path, tables):
                    count["mutants"] += 1
                    count.update(state)
                    by_kind.setdefault(kind, Counter()).update(["n", *state])
                    if {"proven", "robust"} <= set(state):
                        passed.append([q.question_id, kind])
                        if args.show:
                            print("", q.question_id, kind, q.gold_sql, sql, state, sep="\n")
        found[half] = wrong_summary(count, by_kind, passed, [name for _, name in databases])
    return found


def that_run(db: Database, q: Question, edits: Iterable[tuple]) -> Iterator[tuple[tuple, bool]]:
    "Edits of a gold query that run, each SQL (its last part) once, and whether their rows are gold's."
    seen = {q.gold_sql}
    for edit in edits:
        if edit[-1] in seen:
            continue
        seen.add(edit[-1])
        try:
            rows = db.query(edit[-1]).rows
        except QueryError:
            continue
        yield edit, compare_rows(rows, q.gold_answer, q.ranks or False).correct


def judged_mutants(qs: QuestionSet, q: Question, path: Path, tables: list) -> list[tuple]:
    """The mutants of a gold query that run: kind, SQL, and what holds of each: `value`, `robust`, `proven` (wrong, by
    an instance), and of those that pass `undecided` or `wrong`, alone and with the outcome of a proof."""
    db = qs.database(q.database_name)
    close, judged = [], []
    mutants = wider_mutants(q.gold_sql, tables, Random(q.question_id))
    for (kind, sql), is_close in that_run(db, q, mutants):
        if is_close:
            close.append((kind, sql))
        else:
            judged.append((kind, sql, ()))
    proofs = proven_wrong(path, tables, q, [sql for _, sql in close])
    for kind, sql in close:
        verdict = judge_evidence(q.gold_sql, db, sql)
        state = ["value"]
        state += ["proven"] if proofs[sql] else []
        state += ["robust"] if verdict.correct else []
        state += ["proven_robust"] if verdict.correct and proofs[sql] else []
        if verdict.correct:  # what the instances leave undecided is for the prover
            known = "wrong" if proofs[sql] else "undecided"
            proof = prove_on(db, q.gold_sql, sql)
            state += [known, f"{known}_{proof.outcome}"]
            state += [f"{known}_stopped"] if "a test refutes it" in proof.reason else []
        judged.append((kind, sql, tuple(state)))
    return judged


def wrong_summary(count: Counter, by_kind: dict, passed: list, databases: list[str]) -> dict:
    "Counts of one half, with Wilson's 95 % interval of the share that passes though proven wrong."
    n, k = count["mutants"], count["proven_robust"]
    return {
        "databases": databases,
        "counts": dict(count),
        "share_value": round(count["proven"] / n, 5),
        "share_robust": round(k / n, 5),
        "share_certified": round(count["wrong_proved"] / n, 5),
        "interval": [round(end, 5) for end in _wilson_interval(k / n, n)],
        "by_kind": {kind: dict(c) for kind, c in sorted(by_kind.items())},
        "passed": passed,
    }


BY_DEFINITION = {"labels_counted"}  # wrong though the data shows each label once


def measure_careless(qs: QuestionSet, args) -> dict:
    "Slips that are right by value and wrong on realistic instances: the share that the robust verdict catches."
    found = {}
    for half, databases in databases_left_out(args).items():
        count: Counter = Counter()
        by_kind: dict[str, Counter] = {}
        passed = []
        for own_set, name in databases:
            path = own_set.databases[name]
            tables = read_tables(path)
            for q in golds_of(own_set, name):
                for kind, sql, caught in judged_slips(own_set, q, path, tables):
                    count.update(["slips", "caught" if caught else "passed"])
                    by_kind.setdefault(kind, Counter()).update(["n", "caught" * caught or "passed"])
                    if not caught:
                        passed.append([q.question_id, kind])
                        if args.show:
                            print("", q.question_id, kind, q.gold_sql, sql, sep="\n")
        found[half] = {
            "databases": [name for _, name in databases],
            "counts": dict(count),
            "share_caught": round(count["caught"] / count["slips"], 4),
            "interval": wilson(count["caught"], count["slips"]),
            "by_kind": {kind: dict(c) for kind, c in sorted(by_kind.items())},
            "passed": passed,
        }
    return found


def read_pairs(path: Path) -> list[dict]:
    """Objects with `db`, `gold` and `careless`, or `honest`, another way of writing it: one list, or one object a line;
    with `half`, and `equal`, a reason why the two are no different, where somebody has looked."""
    text = path.read_text().strip()
    return json.loads(text) if text.startswith("[") else list(map(json.loads, text.splitlines()))


def judge_blind(db, gold: str, careless: str) -> tuple[str, str]:
    "What robust says of a pair, and the proof's outcome where it passes."
    try:
        rows = db.query(gold).rows
    except QueryError:
        return "gold_fails", ""
    try:
        value = compare_rows(db.query(careless).rows, rows, gold_ranks_on(db, gold, rows) or False)
    except QueryError:
        return "query_fails", ""
    if not value.correct:
        return "wrong_by_value", ""
    if not judge_evidence(gold, db, careless).correct:
        return "caught", ""
    return "passed", prove_on(db, gold, careless).outcome


def gold_ranks_on(db, gold: str, rows: list):
    "The ranks of gold's rows, None if it is not sorted."
    keys = select_order_keys(gold)
    return rank_rows(rows, db.query(keys.sql).rows, keys.columns) if keys else None


def measure_blind(qs: QuestionSet, args) -> dict:
    "Careless SQL of a file that is right by value: what robust catches, the proof's outcome of the rest; honest SQL."
    sets = [load(), qs, load("folder", SHARED / "kaggledbqa"), load("bird", SHARED / "bird")]
    home = {name: own_set for own_set in sets for name in own_set.databases}
    counts: dict[str, Counter] = {}
    passed: dict[str, list] = {}
    for number, pair in enumerate(read_pairs(args.pairs), 1):
        db, half = home[pair["db"]].database(pair["db"]), pair.get("half", "all")
        sql = pair.get("honest") or pair["careless"]
        state, outcome = judge_blind(db, pair["gold"], sql)
        state = "".join(f"{k}_" for k in ("equal", "honest") if k in pair) + state
        kept = [f"{state}_{outcome}"] if outcome else []
        counts.setdefault(half, Counter()).update(["pairs", state, *kept])
        if state in ("passed", "gold_fails", "equal_caught", "honest_caught"):
            passed.setdefault(half, []).append([number, pair["db"], outcome or state])
        if args.show and state != "caught":
            print("", number, state, outcome, pair["gold"], sql, sep="\n")
    return {
        half: {
            "counts": dict(count),
            "share_caught": round(count["caught"] / (count["caught"] + count["passed"]), 4),
            "interval": wilson(count["caught"], count["caught"] + count["passed"]),
            "passed": passed.get(half, []),
        }
        | honest_refused(count)
        for half, count in counts.items()
    }


def honest_refused(count: Counter) -> dict:
    "The share of honest queries that are refused, if a half has any."
    refused, n = count["honest_caught"], count["honest_caught"] + count["honest_passed"]
    if not n:
        return {}
    return {"honest_refused": round(refused / n, 4), "honest_interval": wilson(refused, n)}


def wilson(k: int, n: int) -> list[float]:
    "A 95 % interval of a share."
    return [round(end, 4) for end in _wilson_interval(k / n, n)]


def judged_slips(qs: QuestionSet, q: Question, path: Path, tables: list) -> list[tuple]:
    "The slips in a gold query that are right by value and wrong: kind, SQL and whether they are caught."
    db = qs.database(q.database_name)
    close: dict[str, str] = {}
    for kind, sql in careless_mutants(q.gold_sql, tables):
        try:
            rows = db.query(sql).rows
        except QueryError:
            continue
        if q.gold_answer and compare_rows(rows, q.gold_answer, q.ranks or False).correct:
            close.setdefault(sql, kind)
    proofs = proven_wrong(path, tables, q, list(close))
    wrong = [(kind, sql) for sql, kind in close.items() if proofs[sql] or kind in BY_DEFINITION]
    return [(kind, sql, not judge_evidence(q.gold_sql, db, sql).correct) for kind, sql in wrong]


def measure_evenness(qs: QuestionSet, args) -> dict:
    "Milliseconds of a right and of a wrong ANSWER under robust, after the same query; instances are made before."
    times: dict[str, list[float]] = {"right": [], "wrong": []}
    for number, q in enumerate(sorted(qs, key=lambda q: q.question_id)[::5]):
        db = qs.database(q.database_name)
        judge_evidence(q.gold_sql, db, "SELECT 1")
        for kind in ("right", "wrong") if number % 2 else ("wrong", "right"):
            episode = Episode(q, db, verify="robust")
            episode.reset()
            episode.step("QUERY", q.gold_sql)
            answer = format_rows(q.gold_answer) if kind == "right" else "999999"
            start = time.perf_counter()
            episode.step("ANSWER", answer)
            times[kind].append(time.perf_counter() - start)
    ratio = statistics.median(times["right"]) / statistics.median(times["wrong"])
    found = {kind: milliseconds(seconds) for kind, seconds in times.items()}
    return {"questions": len(times["right"]), **found, "ratio_of_medians": round(ratio, 3)}


N_GUESSES = 8  # candidates of one question


def measure_hedges(qs: QuestionSet, args) -> dict:
    "Candidates for one total, asked one after the other or all in one row: is a row worth more?"
    count: Counter = Counter()
    for q in sorted(qs, key=lambda q: q.question_id):
        tree = parse_sql(q.gold_sql)
        if not is_total(tree) or q.gold_answer[0][0] is None:
            continue
        db = qs.database(q.database_name)
        guesses = scalar_guesses(q, db)
        if not any(result.rows == list(q.gold_answer) for _, result in guesses):
            continue
        count["questions"] += 1
        right = Verdict(True, "match")
        answer = str(q.gold_answer[0][0])
        row = "SELECT " + ", ".join(f"({sql})" for sql, _ in reversed(guesses))
        try:
            in_a_row = [(row, db.query(row))]
        except QueryError:
            count["row_refused"] += 1
            continue
        count["robust_each_alone"] += verify_robust(q, db, answer, guesses, right).correct
        count["robust_in_one_row"] += verify_robust(q, db, answer, in_a_row, right).correct
    return {"guesses": N_GUESSES, **count}


def is_total(tree) -> bool:
    "Whether a query is one aggregate of all rows: one cell on every instance."
    plain = isinstance(tree, exp.Select) and len(tree.selects) == 1
    return plain and not tree.args.get("group") and isinstance(tree.selects[0], exp.AggFunc)


def scalar_guesses(q: Question, db) -> list[tuple]:
    "Gold and mutants of it that give one cell, in an order drawn by the question's id."
    rng = Random(q.question_id)
    mutants = [text for _, text in one_edit_mutants(q.gold_sql)]
    texts = [q.gold_sql.rstrip("; "), *rng.sample(mutants, len(mutants))]
    found: list[tuple] = []
    for text in texts:
        try:
            result = db.query(text)
        except QueryError:
            continue
        if len(result.rows) == 1 and len(result.rows[0]) == 1 and len(found) < N_GUESSES:
            found.append((text, result))
    rng.shuffle(found)
    return found


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
    cold_cpu, warm_cpu = [], []
    for q in golds:
        start, cpu_start = time.perf_counter(), time.process_time()
        pair_variants(qs.databases[q.database_name], q.gold_sql)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
    for q in golds:
        db = qs.database(q.database_name)
        for times, cpu_times in ((cold, cold_cpu), (warm, warm_cpu)):
            start, cpu_start = time.perf_counter(), time.process_time()
            judge_evidence(q.gold_sql, db, q.gold_sql, to_the_end=True)  # else gold needs none
            times.append(time.perf_counter() - start)
            cpu_times.append(time.process_time() - cpu_start)
    names = [q.database_name for q in golds]
    return {
        "golds": len(golds),
        "instances_ms": milliseconds(wall),
        "instances_cpu_ms": milliseconds(cpu),
        "instances_ms_median_database": median_database(wall, names),
        "instances_cpu_ms_median_database": median_database(cpu, names),
        "load_average": os.getloadavg()[0],
        "first_verdict_ms": milliseconds(cold),
        "first_verdict_cpu_ms": milliseconds(cold_cpu),
        "verdict_ms": milliseconds(warm),
        "verdict_cpu_ms": milliseconds(warm_cpu),
    }


PARTS = {
    "mutants": measure_mutants,
    "paraphrases": measure_paraphrases,
    "hacks": measure_hacks,
    "audit": measure_audit,
    "speed": measure_speed,
    "alternatives": measure_alternatives,
    "wrong": measure_wrong,
    "careless": measure_careless,
    "blind": measure_blind,
    "evenness": measure_evenness,
    "hedges": measure_hedges,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--source", default="spider")
    parser.add_argument("--split")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="print what is rejected")
    parser.add_argument(
        "--half",
        nargs="*",
        default=["tuning", "reporting"],
        help="of the databases for `wrong` and `careless`",
    )
    parser.add_argument("--pairs", type=Path, help="the file of `blind`")
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
