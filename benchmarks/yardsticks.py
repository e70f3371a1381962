"""Our prover on pairs that others published: `python benchmarks/yardsticks.py FOLDER [--out FILE]`.

FOLDER holds checkouts of SJTU-IPADS/SQLSolver (as `sqlsolver`) and VeriEQL/VeriEQL (as `verieql`); nothing of them
is part of this project. SQLSolver's pairs are said to be equal by their authors, in the dialect of each source;
VeriEQL's are equal or not, as its own bounded search and Cosette's names say. A statement is read as SQLite reads it,
rewritten from MySQL's dialect only where SQLite does not compile it, so a pair may truly differ here: text beside
numbers, division of integers, rows of an unsorted LIMIT. Every proved pair is run on 300 random databases that keep
the declared keys, references and NOT NULL, made by this file and not by the prover's own generator; "proved if" rests
on facts of data too, which tables without rows can't show, so it is only counted.

With taoyds/test-suite-sql-eval as `testsuite` (and `pip install sqlparse`) the original evaluator judges the honest
alternatives of alternatives.jsonl and careless slips in their golds, on Spider's own database only, since its fuzzed
databases are not part of the checkout; our verdicts stand beside it. A slip may be right by chance or meaning.
"""

import argparse
import contextlib
import json
import random
import statistics
import sys
import time
from collections import Counter
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path

import apsw
import sqlglot
from sqlglot import exp

from sql_env.proofs import prove
from sql_env.proofs.facts import read_facts

DATABASES = 300
SQLSOLVER = {
    "calcite": ("calcite/calcite_tests", "calcite_test"),
    "spark": ("db_rule_instances/spark_tests", "calcite_test"),
    "tpc-c": ("prepared/rules.tpcc.spark.txt", "tpcc"),
    "tpc-h": ("prepared/rules.tpch.spark.txt", "tpch"),
}


def sqlsolver_pairs(folder: Path):
    "Name of the set, statements of the schema, and the two statements of each pair."
    for name, (pairs, schema) in SQLSOLVER.items():
        text = (folder / "sqlsolver_data" / "schemas" / f"{schema}.base.schema.sql").read_text()
        tables = sqlglot.transpile(text, read="mysql", write="sqlite", unsupported_level=None)
        lines = (folder / "sqlsolver_data" / pairs).read_text().splitlines()
        for first, second in zip(lines[::2], lines[1::2]):
            yield f"SQLSolver {name}", tables, first, second


def verieql_tables(row: dict) -> list[str]:
    "CREATE TABLE of each table, with the constraints of the pair."
    parts = {
        t: [f'"{c}" {kind or ""}' for c, kind in cs.items()] for t, cs in row["schema"].items()
    }
    required = set()
    for constraint in row["constraint"] or []:
        ((kind, found),) = constraint.items()
        names = [found["value"]] if kind == "not_null" else [x["value"] for x in found]
        table, columns = names[0].split("__")[0], [n.split("__")[1] for n in names]
        if table not in parts:
            continue
        if kind == "not_null":
            required.add((table, columns[0]))
        elif kind == "primary":
            parts[table].append(f"PRIMARY KEY ({', '.join(columns)})")
        else:
            parent, half = names[-1].split("__")[0], len(names) // 2
            child, its = ", ".join(columns[:half]), ", ".join(columns[half:])
            parts[table].append(f"FOREIGN KEY ({child}) REFERENCES {parent} ({its})")
    for table, column in required:
        mark = f'"{column}" '
        parts[table] = [p + " NOT NULL" if p.startswith(mark) else p for p in parts[table]]
    return [f'CREATE TABLE "{t}" ({", ".join(p)})' for t, p in parts.items()]


def verieql_pairs(folder: Path):
    "The same of VeriEQL's two sets that a checkout holds; mutants and counterexamples apart."
    for name in ("calcite/calcite2", "literature/literature"):
        for line in (folder / "benchmarks" / f"{name}.jsonlines").open():
            row = json.loads(line)
            kind = row["benchmark"].split("-")[0]
            said = "different" if kind in ("mutation", "cex", "inequal_queries") else ""
            title = f"VeriEQL {name.split('/')[0]} {said}".strip()
            yield title, verieql_tables(row), *row["pair"]


def compiled(con: apsw.Connection, sql: str) -> str | None:
    "The statement as SQLite compiles it, or None."
    texts = [sql]
    with contextlib.suppress(sqlglot.errors.SqlglotError):
        texts += sqlglot.transpile(sql, read="mysql", write="sqlite", unsupported_level=None)
    for text in texts:
        try:
            con.execute("EXPLAIN " + text)
            return text
        except apsw.Error:
            continue
    return None


def values_of(sql: str) -> list:
    "Constants that a statement names, with their neighbours."
    found = []
    for node in sqlglot.parse_one(sql, read="sqlite").find_all(exp.Literal):
        if node.is_string:
            found.append(node.this)
        else:
            number = float(node.this)
            found += [int(number), int(number) - 1, int(number) + 1]
    return found


def fill(con: apsw.Connection, pool: list, r: random.Random) -> None:
    "Random rows in every table, as far as its constraints allow."
    tables = [t for (t,) in con.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for table in tables:
        con.execute(f'DELETE FROM "{table}"')
    for _ in range(3):  # parents may come after their children
        for table in tables:
            columns = list(
                con.execute(f"SELECT name, \"notnull\" FROM pragma_table_info('{table}')")
            )
            for _ in range(r.randrange(4)):
                row = [
                    None if not needed and r.random() < 0.15 else r.choice(pool)
                    for _, needed in columns
                ]
                with contextlib.suppress(apsw.ConstraintError, apsw.MismatchError):
                    con.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)


def differs(con: apsw.Connection, first: str, second: str, seed: int) -> bool:
    "Whether two statements give other rows on one of the random databases."
    r = random.Random(seed)
    try:
        named = values_of(first) + values_of(second)
    except (sqlglot.errors.SqlglotError, ValueError):
        named = []
    con.execute("PRAGMA foreign_keys = ON")
    for _ in range(DATABASES):
        con.execute("BEGIN")
        con.execute("PRAGMA defer_foreign_keys = OFF")
        fill(con, [0, 1, 2, 3, *named, *named], r)
        rows = [Counter(map(repr, con.execute(sql))) for sql in (first, second)]
        con.execute("ROLLBACK")
        if rows[0] != rows[1]:
            return True
    return False


def beside_test_suite(folder: Path) -> dict:
    "How many honest alternatives and careless slips the original evaluator accepts, and our verdicts."
    sys.path.insert(0, str(folder))
    from exec_eval import eval_exec_match
    from realistic import careless_mutants, read_tables
    from verdicts import ALTERNATIVES, judge_alternative, load_source

    qs = load_source("spider", None)
    by_id = {q.question_id: q for q in qs}
    honest = [
        (by_id[line["question"]], line["sql"])
        for line in map(json.loads, ALTERNATIVES.read_text().splitlines())
        if line["question"] in by_id
    ]
    slips = []
    for q in sorted({q.question_id: q for q, _ in honest}.values(), key=lambda q: q.question_id):
        tables = read_tables(qs.databases[q.database_name])
        slips += [(q, sql) for _, sql in careless_mutants(q.gold_sql, tables)]
    found = {}
    for name, pairs in (("honest alternatives", honest), ("careless slips", slips)):
        counts: Counter = Counter()
        for q, sql in pairs:
            path = str(qs.databases[q.database_name])
            with redirect_stdout(None):
                theirs = eval_exec_match(path, sql, q.gold_sql, False, True, False)
            value, robust = judge_alternative(qs, q, sql)
            ours = "robust" if robust.correct else "by value" if value.correct else "wrong"
            counts[f"test suite {'right' if theirs else 'wrong'}, ours {ours}"] += 1
        found[name] = dict(sorted(counts.items()))
    return found


def main() -> None:
    "Judge all pairs and print one row for each set."
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="sets whose name holds this")
    parser.add_argument("--show", default="", help="an outcome whose pairs are printed")
    args = parser.parse_args()
    sets: dict[str, Counter] = {}
    milliseconds, runs = [], 0
    pairs = [*sqlsolver_pairs(args.folder / "sqlsolver"), *verieql_pairs(args.folder / "verieql")]
    for number, (name, tables, *statements) in enumerate(pairs):
        if args.only not in name:
            continue
        counts = sets.setdefault(name, Counter())
        counts["pairs"] += 1
        con = apsw.Connection(":memory:")
        for sql in tables:
            con.execute(sql)
        texts = [compiled(con, sql) for sql in statements]
        if None in texts:
            counts["not SQLite's"] += 1
            continue
        start = time.process_time()
        proof = prove(*texts, read_facts(con))
        milliseconds.append(1000 * (time.process_time() - start))
        counts[proof.outcome] += 1
        if proof.outcome == "proved":
            runs += DATABASES
            if differs(con, *texts, seed=number):
                counts["proved and different"] += 1
                print("FALSE PROOF", name, *texts, sep="\n", flush=True)
        if proof.outcome == args.show:
            print(name, *texts, proof.words, "", sep="\n", flush=True)
    found = {
        "command": "python benchmarks/yardsticks.py FOLDER",
        "commits": {
            "SJTU-IPADS/SQLSolver": "dcc2a91d8971a4c4d30b055f99d7d8428a1b754b",
            "VeriEQL/VeriEQL": "bf5856d8913eb331c8701def7e84d351ce48b575",
        },
        "versions": {name: version(name) for name in ("apsw", "sqlglot", "z3-solver")},
        "sets": {name: dict(counts) for name, counts in sets.items()},
        "runs_of_proved_pairs": runs,
        "cpu_ms": {
            "p50": round(statistics.median(milliseconds), 2),
            "p99": round(statistics.quantiles(milliseconds, n=100)[98], 1),
        },
    }
    if (args.folder / "testsuite").exists():
        found["beside_test_suite"] = beside_test_suite(args.folder / "testsuite")
    print(json.dumps(found, indent=1))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
