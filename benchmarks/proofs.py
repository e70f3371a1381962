"""Measure what proofs of equivalence are worth: `python benchmarks/proofs.py [PART ...] [--out FILE]`.

Parts: `rewrites` (machine rewrites of gold: qualified names, optimizer passes, WHERE joins, swapped joins, EXISTS for
IN, DISTINCT to GROUP BY), `alternatives` (honest SQL of alternatives.jsonl), `mutants` (one-edit mutants of gold; each
that is proved runs on random databases that keep the assumptions of its proof), `worlds` (the same on generated
databases), `pairs` (statements of a grammar that nobody tuned, and their neighbours), `deceiving` (pairs that differ,
which an earlier prover called equal or somebody wrote to find its next mistake: tests/data/false_proofs.jsonl).
Rules were tuned on the first 16 of Spider's train databases by hash, the figures are of others: the next
16, BIRD's superhero, KaggleDBQA. Counts and question ids only; no text of the source is written. Data is read from
SQL_ENV_SPIDER or ../shared.
"""

import argparse
import gc
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import apsw
from mutants import one_edit_mutants
from sqlglot import exp, parse_one
from sqlglot.errors import ParseError
from sqlglot.optimizer.eliminate_subqueries import eliminate_subqueries
from sqlglot.optimizer.merge_subqueries import merge_subqueries
from sqlglot.optimizer.normalize import normalize
from sqlglot.optimizer.pushdown_predicates import pushdown_predicates
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.simplify import simplify
from sqlglot.optimizer.unnest_subqueries import unnest_subqueries
from verdicts import (
    ALTERNATIVES,
    databases_left_out,
    golds_of,
    half_of,
    judge_alternative,
    load_source,
)

from sql_env.database.guards import QueryError
from sql_env.evaluation.results import rate_interval
from sql_env.proofs.contents import Comparison, Contents
from sql_env.proofs.decision import kept_by, prove
from sql_env.proofs.facts import Schema, all_assumptions, read_facts
from sql_env.sources.loading import load
from sql_env.sql.analysis import referenced_tables
from sql_env.sql.text import normalize_sql

HERE = Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared"
# of each open alternative that passes both verdicts: equal or different on a database that keeps the facts, and why
JUDGED = HERE / "proofs_judged.json"


def facts(path: Path, known: dict[Path, Schema] = {}) -> Schema:  # noqa: B006 (a cache)
    if path not in known:
        known[path] = read_facts(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY))
    return known[path]


# ---- rewrites


def quoted_texts(sql: str, schema: Schema) -> exp.Expr:
    'The tree of a query in which "texts" in double quotes are texts.'
    tree = parse_one(sql, dialect="sqlite")
    names = {c for t in schema.tables.values() for c in t.columns}
    names |= {alias.alias.lower() for alias in tree.find_all(exp.Alias)}
    for column in list(tree.find_all(exp.Column)):
        is_text = (
            not column.table and isinstance(column.this, exp.Identifier) and column.this.quoted
        )
        if is_text and column.name.lower() not in names:
            column.replace(exp.Literal.string(column.name))
    return tree


def qualified(sql: str, schema: Schema) -> exp.Expr:
    types = {
        t: {c: f.affinity for c, f in facts.columns.items()} for t, facts in schema.tables.items()
    }
    tree = quoted_texts(sql, schema)
    options = dict(
        dialect="sqlite", quote_identifiers=False, identify=False, validate_qualify_columns=False
    )
    return qualify(tree, schema=types, **options)


def with_where_join(tree: exp.Expr) -> exp.Expr | None:
    joins = tree.args.get("joins") or []
    if (
        not isinstance(tree, exp.Select)
        or not joins
        or any(j.side or j.args.get("using") for j in joins)
    ):
        return None
    conditions = [j.args["on"].copy() for j in joins if j.args.get("on") is not None]
    for join in joins:
        join.set("on", None)
        join.set("kind", None)
    for condition in conditions:
        tree = tree.where(
            exp.paren(condition) if isinstance(condition, exp.Or) else condition, copy=False
        )
    return tree


def with_swapped_join(tree: exp.Expr) -> exp.Expr | None:
    joins = tree.args.get("joins") or []
    if (
        not isinstance(tree, exp.Select)
        or len(joins) != 1
        or joins[0].side
        or joins[0].args.get("using")
    ):
        return None
    first = tree.args.get("from_") or tree.args["from"]
    left, right = first.this.copy(), joins[0].this.copy()
    first.set("this", right)
    joins[0].set("this", left)
    return tree


def with_exists(tree: exp.Expr) -> exp.Expr | None:
    changed = False
    for node in list(tree.find_all(exp.In)):
        query = node.args.get("query")
        query = query.unnest() if query is not None else None
        if not isinstance(query, exp.Select) or isinstance(node.parent, exp.Not):
            continue
        if (
            query.args.get("group")
            or query.args.get("limit")
            or query.find(exp.AggFunc)
            or len(query.selects) != 1
        ):
            continue
        equal = exp.EQ(this=node.this.copy(), expression=query.selects[0].unalias().copy())
        inner = query.copy().where(equal, copy=False)
        inner.set("expressions", [exp.Literal.number(1)])
        node.replace(exp.Exists(this=inner))
        changed = True
    return tree if changed else None


def with_group(tree: exp.Expr) -> exp.Expr | None:
    is_plain = (
        isinstance(tree, exp.Select) and tree.args.get("distinct") and not tree.args.get("group")
    )
    if not is_plain or any(x.find(exp.AggFunc) for x in tree.selects):
        return None
    tree.set("distinct", None)
    tree.set("group", exp.Group(expressions=[x.unalias().copy() for x in tree.selects]))
    return tree


REWRITES = {
    "qualified": lambda tree: tree,
    "simplified": simplify,
    "normalized": normalize,
    "pushed down": pushdown_predicates,
    "merged": merge_subqueries,
    "as CTEs": eliminate_subqueries,
    "unnested": unnest_subqueries,
    "where join": with_where_join,
    "swapped join": with_swapped_join,
    "exists": with_exists,
    "group": with_group,
}


def rewrites(sql: str, schema: Schema) -> Iterator[tuple[str, str]]:
    "Machine rewrites of a query that differ from it in their text."
    seen = {normalize_sql(sql)}
    for kind, rewrite in REWRITES.items():
        try:
            tree = rewrite(qualified(sql, schema))
        except Exception:  # the optimizer does not know all of SQLite
            continue
        text = None if tree is None else tree.sql("sqlite")
        if text and normalize_sql(text) not in seen:
            seen.add(normalize_sql(text))
            yield kind, text


def compiles(schema: Schema, sql: str) -> bool:
    try:
        schema.empty().execute(f"EXPLAIN {sql}").fetchall()
    except apsw.Error:
        return False
    return True


def timed(gold: str, sql: str, schema: Schema, tries: int, seconds: list[float]):
    if not seconds:
        gc.freeze()  # passes over the benchmark's own modules and tables are no part of a proof
    start = time.process_time()
    proof = prove(gold, sql, schema, tries=tries)
    seconds.append(time.process_time() - start)
    return proof


def measure_rewrites(args) -> dict:
    found: Counter = Counter()
    by_kind: dict[str, Counter] = {}
    reasons: Counter = Counter()
    seconds: list[float] = []
    names = []
    for qs, name in databases_left_out(args)[args.half[0]]:
        names.append(name)
        schema = facts(qs.databases[name])
        for q in golds_of(qs, name):
            if not compiles(schema, q.gold_sql):
                continue
            found["golds"] += 1
            for kind, sql in rewrites(q.gold_sql, schema):
                if not compiles(schema, sql):
                    continue
                proof = timed(q.gold_sql, sql, schema, 0, seconds)
                outcome = proof.outcome
                if outcome == "open":
                    outcome = prove(q.gold_sql, sql, schema, tries=256).outcome
                reasons.update([proof.reason] if outcome == "open" else [])
                found[outcome] += 1
                by_kind.setdefault(kind, Counter())[outcome] += 1
                if args.show and outcome == "open":
                    print(name, kind, proof.reason, q.gold_sql, sql, sep="\n  ")
    proved = found["proved"] + found["proved if"]
    equal = proved + found["open"]
    return {
        "databases": names,
        "counts": dict(found),
        "proved_of_those_not_refuted": round(proved / equal, 4),
        "by_kind": {k: dict(v) for k, v in by_kind.items()},
        "open_because": dict(reasons),
        "cpu_ms": milliseconds(seconds),
    }


def milliseconds(seconds: list[float]) -> dict:
    cuts = statistics.quantiles(seconds, n=100)
    return {
        name: round(1e3 * value, 2)
        for name, value in {
            "p50": cuts[49],
            "p90": cuts[89],
            "p99": cuts[98],
            "max": max(seconds),
        }.items()
    }


# ---- alternatives


def measure_alternatives(args) -> dict:
    "Certificates of honest queries, by half of the databases; KaggleDBQA and half of Spider dev were not looked at."
    sets = [load_source("spider", "dev"), load("folder", SHARED / "kaggledbqa")]
    home = {q.question_id: (s, q) for s in sets for q in s}
    lines = [json.loads(line) for line in ALTERNATIVES.read_text().splitlines()]
    names = {line["database"] for line in lines}
    judged = json.loads(JUDGED.read_text()) if JUDGED.exists() else {}
    result = {}
    groups: dict[str, list] = {"spider tuning": [], "spider reporting": [], "kaggledbqa": []}
    for line in lines:
        qs, q = home[line["question"]]
        group = f"spider {half_of(line['database'], names)}" if qs is sets[0] else "kaggledbqa"
        groups[group].append((line, qs, q))
    for group, rows in groups.items():
        result[group] = certify(rows, judged, args)
    return result


def certify(rows: list, judged: dict, args) -> dict:
    found: Counter = Counter()
    seconds: list[float] = []
    searched: list[float] = []
    passing, certified, alone, opened = [], [], [], []
    for line, qs, q in rows:
        schema = facts(qs.databases[q.database_name])
        value, robust = judge_alternative(qs, q, line["sql"])
        proof = timed(q.gold_sql, line["sql"], schema, 0, seconds)
        if proof.outcome == "open":
            proof = timed(q.gold_sql, line["sql"], schema, 128, searched)
        passes = "robust" if robust.correct else "value" if value.correct else "wrong"
        found[f"{passes} {proof.outcome}"] += 1
        if proof and value.correct and not robust.correct:
            found["contradiction"] += 1
            print(
                "CONTRADICTION", q.question_id, line["sql"], robust, *proof.assumptions, sep="\n  "
            )
        if passes == "robust":
            passing.append(q)
            certified.append(float(bool(proof)))
            alone.append(float(proof.outcome == "proved"))
            if proof.outcome == "open":
                key = f"{q.question_id} {line['sql']}"
                verdict = judged.get(key, ["not judged", ""])[0]
                found[f"open and {verdict}"] += 1
                opened.append([q.question_id, proof.reason, verdict])
                if args.show and verdict == "not judged":
                    print(json.dumps([key, q.gold_sql, proof.reason]))
    clusters = [[q.database_name for q in passing], [q.question_id for q in passing]]
    low, high = rate_interval(certified, *clusters)
    equal = sum(certified) + found["open and equal"] + found["open and not judged"]
    return {
        "queries": len(rows),
        "counts": dict(found),
        "pass_robust": len(passing),
        "certified_of_those": round(statistics.mean(certified), 4),
        "interval": [round(low, 4), round(high, 4)],
        "certified_of_those_judged_equal": round(sum(certified) / equal, 4),
        "proved_alone_of_those_judged_equal": round(sum(alone) / equal, 4),
        "refuted_of_robust": round(found["robust refuted"] / len(passing), 4),
        "cpu_ms": milliseconds(seconds),
        "cpu_ms_of_a_search": milliseconds(searched) if len(searched) > 1 else None,
        "open": opened,
    }


# ---- mutants


def measure_mutants(args) -> dict:
    "Mutants that are proved equal, each on random databases that keep the assumptions of its proof."
    found: Counter = Counter()
    seconds: list[float] = []
    start = time.process_time()
    for qs, name in databases_left_out(args)[args.half[0]]:
        schema = facts(qs.databases[name])
        for q in golds_of(qs, name):
            if not compiles(schema, q.gold_sql) or time.process_time() - start > args.seconds:
                continue
            found["golds"] += 1
            for _, sql in one_edit_mutants(q.gold_sql):
                if compiles(schema, sql):
                    check_mutant(q.gold_sql, sql, schema, args.random, found, seconds)
    return {"counts": dict(found), "cpu_ms": milliseconds(seconds)}


def measure_worlds(args) -> dict:
    "The same on generated databases, which no rule was made for; the levels take turns."
    found: Counter = Counter()
    seconds: list[float] = []
    start = time.process_time()
    sets = [load("worlds", level=level, split="test", n=400, seed=7) for level in range(1, 6)]
    for questions in zip(*sets):
        for qs, q in zip(sets, questions):
            schema = facts(qs.databases[q.database_name])
            if time.process_time() - start > args.seconds or not compiles(schema, q.gold_sql):
                continue
            try:
                mutants = list(one_edit_mutants(q.gold_sql))
            except ParseError:  # a column has the name of a keyword
                continue
            found["golds"] += 1
            for _, sql in mutants:
                if compiles(schema, sql):
                    check_mutant(q.gold_sql, sql, schema, args.random, found, seconds)
    return {"counts": dict(found), "cpu_ms": milliseconds(seconds)}


def check_mutant(
    gold: str, sql: str, schema: Schema, tries: int, found: Counter, seconds: list, kind="mutants"
) -> None:
    proof = timed(gold, sql, schema, 0, seconds)
    tables = sorted({*referenced_tables(gold), *referenced_tables(sql)} & set(schema.tables))
    kept = proof.assumptions if proof else all_assumptions(schema)
    try:
        contents = Contents(schema.empty(), tables, (gold, sql), kept_by(kept, schema))
        judge = Comparison(gold, sql)
    except (ValueError, QueryError):
        return
    found[f"{kind} {proof.outcome}"] += 1
    found["proofs refuted by their own test"] += "a test refutes it" in proof.reason
    for n in range(1000, 1000 + (tries if proof else 128)):
        contents.left = 10**6  # thousands of operations of SQLite
        if not contents.fill(n):
            continue
        found["runs of proofs" if proof else "runs of others"] += 1
        if judge.differ(contents):
            found[f"{proof.outcome} and shown to differ"] += 1
            if proof:
                print("FALSE PROOF", gold, sql, *proof.assumptions, sep="\n  ")
            return


# ---- statements that nobody tuned

SCHEMA = """CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL, d);
CREATE TABLE u (k INTEGER PRIMARY KEY, a INTEGER NOT NULL, t_id INTEGER REFERENCES t(id), n NUMERIC, b TEXT);
INSERT INTO t VALUES (1, 5, '5', 2.5, 1), (2, 5, 'a', 5.0, '1'), (3, 7, 'A', 0.1, 2.0), (4, 0, '05', 0.2, 'x');
INSERT INTO u VALUES (1, 5, 1, 5, '5'), (2, 5, 1, 2.5, 'a'), (3, 7, 2, 0, 'b'), (4, 1, NULL, 7, 'a');"""
COLUMNS = dict(t=["id", "a", "b", "c", "d"], u=["k", "a", "t_id", "n", "b"])
LITERALS = ["5", "'5'", "0", "1", "2.5", "'a'", "'A'", "'05'", "5.0", "NULL", "0.1", "-1"]


class Grammar:
    "A statement from a tape of numbers; a tape with one number changed gives a statement that is nearly the same."

    def __init__(self, tape: list[float]):
        self.tape, self.at, self.names = tape, 0, 0

    def pick(self, *options):
        self.at += 1
        return options[int(self.tape[self.at % len(self.tape)] * len(options))]

    def value(self, columns: list[str], depth: int) -> str:
        if depth <= 0:
            return self.pick(*columns, *columns, self.pick(*LITERALS))
        x, y = self.value(columns, depth - 1), self.value(columns, depth - 2)
        return self.pick(
            x, x, f"{x} + {y}", f"{x} * {y}", f"{x} / {y}", f"-{x}", f"+{x}", f"{x} || {y}",
            f"nullif({x}, {y})", f"coalesce({x}, {y})", f"CASE WHEN {self.test(columns, 0)} THEN {x} ELSE {y} END",
            f"CASE {x} WHEN {y} THEN 1 ELSE {x} END", f"CAST({x} AS {self.pick('TEXT', 'INTEGER', 'REAL', 'DECIMAL')})",
            f"abs({x})", f"lower({x})", f"length({x})", f"({x} = {y})", f"(SELECT {x})",
            f"(SELECT {self.pick('max', 'min', 'count', 'sum')}({self.pick(*COLUMNS['u'])}) FROM u WHERE u.k > {y})",
            f"(SELECT {self.pick('b', 'a', 'n')} FROM u ORDER BY k LIMIT 1)", f"round({x}, 1)", f"substr({x}, 1, 1)",
        )  # fmt: skip

    def test(self, columns: list[str], depth: int) -> str:
        x, y = self.value(columns, depth), self.value(columns, depth - 1)
        simple = f"{x} {self.pick('=', '<', '<=', '<>', 'IS', 'IS NOT', 'LIKE')} {y}"
        if depth <= 0:
            return simple
        other = self.test(columns, depth - 1)
        return self.pick(
            simple, f"{simple} AND {other}", f"{simple} OR {other}", f"NOT ({other})", f"{x} BETWEEN {y} AND 7",
            f"{x} IN ({y}, {self.pick(*LITERALS)})", f"{x} IN (SELECT {self.pick(*COLUMNS['u'])} FROM u)",
            f"{x} IS NULL", f"{x} NOT IN (SELECT a FROM u WHERE u.t_id = {y})", f"(SELECT a FROM u WHERE k = 1) = {x}",
            f"EXISTS (SELECT 1 FROM u WHERE u.a = {x} AND u.n < {y})", other,
        )  # fmt: skip

    def source(self, depth: int) -> tuple[str, list[str]]:
        table, self.names = self.pick("t", "u"), self.names + 1
        alias = f"s{self.names}"
        if depth <= 0 or self.pick(True, True, False):
            return f"{table} AS {alias}", [f"{alias}.{c}" for c in COLUMNS[table]]
        inner, width = self.query(depth - 1, named=True)
        return f"({inner}) AS {alias}", [f"{alias}.c{n}" for n in range(width)]

    def query(self, depth: int, named: bool = False) -> tuple[str, int]:
        arm, width = self.select(depth, named)
        if depth > 0 and self.pick(False, False, False, True):
            other, _ = self.select(depth - 1, named, width)
            arm = f"{arm} {self.pick('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT')} {other}"
            return arm, width
        if self.pick(False, True):
            arm += f" ORDER BY {self.pick('1', '1 DESC')}" + (
                f" LIMIT {self.pick(1, 2, 3)}" if self.pick(0, 1) else ""
            )
        return (
            f"SELECT * FROM ({arm})" if self.pick(*[False] * 5, True) and not named else arm
        ), width

    def select(self, depth: int, named: bool, width: int = 0) -> tuple[str, int]:
        text, columns = self.source(depth)
        if self.pick(False, True):
            more, others = self.source(depth - 1)
            join = self.pick("JOIN", "JOIN", "LEFT JOIN")
            text += f" {join} {more} ON {self.pick(*columns)} = {self.pick(*others)}"
            columns = columns + others
        width = width or self.pick(1, 1, 2, 3)
        where = f" WHERE {self.test(columns, depth)}" if self.pick(False, True) else ""
        if self.pick(False, False, True):
            keys = [self.value(columns, depth - 1) for _ in range(width)]
            group, having = (
                self.pick("count(*)", f"sum({self.pick(*columns)})", f"max({self.pick(*columns)})"),
                "",
            )
            if self.pick(False, True):
                having = f" HAVING {group} {self.pick('>', '=', '<')} {self.pick('1', '2', chr(39) + '2' + chr(39))}"
            out = [*keys[:-1], self.pick(group, keys[-1])]
            tail = f"{where} GROUP BY {', '.join(keys)}{having}"
        else:
            out, tail = [self.value(columns, depth) for _ in range(width)], where
            out[-1] = self.pick(*[out[-1]] * 9, f"rank() OVER (ORDER BY {self.pick(*columns)})")
        if named:
            out = [f"{x} AS c{n}" for n, x in enumerate(out)]
        return f"SELECT {self.pick('', '', 'DISTINCT ')}{', '.join(out)} FROM {text}{tail}", width


def measure_pairs(args) -> dict:
    "Pairs of generated statements, nearly alike; each that is proved runs on many contents."
    con = apsw.Connection(":memory:")
    con.execute(SCHEMA)
    schema, found, seconds = read_facts(con), Counter(), []
    rng, start = Random(args.seed), time.process_time()
    while time.process_time() - start < args.seconds:
        tape = [rng.random() for _ in range(60)]
        depth = rng.choice((0, 1, 1, 2))
        texts = []
        for _ in range(2):
            texts.append(Grammar(tape).query(depth)[0])
            for _ in range(rng.choice((1, 1, 2))):
                tape[rng.randrange(60)] = rng.random()
        gold, sql = texts
        if gold == sql or not (compiles(schema, gold) and compiles(schema, sql)):
            continue
        check_mutant(gold, sql, schema, args.random, found, seconds, kind="pairs")
    return {"counts": dict(found), "cpu_ms": milliseconds(seconds)}


def measure_deceiving(args) -> dict:
    "What becomes of each kind of pair that differs and looks equal, asked both ways."
    lines = (HERE.parent / "tests" / "data" / "false_proofs.jsonl").read_text().splitlines()
    first, *pairs = map(json.loads, lines)
    con = apsw.Connection(":memory:")
    con.execute(first["schema"])
    schema, kinds = read_facts(con), {}
    for pair in pairs:
        for gold, sql in ((pair["gold"], pair["sql"]), (pair["sql"], pair["gold"])):
            kinds.setdefault(pair["kind"], Counter())[prove(gold, sql, schema).outcome] += 1
    total = sum(kinds.values(), Counter())
    return {"pairs": len(pairs), "counts": dict(total), "kinds": kinds}


PARTS = {
    "rewrites": measure_rewrites,
    "alternatives": measure_alternatives,
    "mutants": measure_mutants,
    "worlds": measure_worlds,
    "pairs": measure_pairs,
    "deceiving": measure_deceiving,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=list(PARTS), default=[])
    parser.add_argument("--half", nargs=1, default=["reporting"], choices=["tuning", "reporting"])
    parser.add_argument("--random", type=int, default=1000, help="databases for each proved mutant")
    parser.add_argument(
        "--seconds", type=float, default=420, help="processor time after which mutants stop"
    )
    parser.add_argument("--seed", type=int, default=1, help="of generated pairs")
    parser.add_argument("--show", action="store_true", help="print what stays open")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    result = json.loads(args.out.read_text()) if args.out and args.out.exists() else {}
    for part in args.parts or PARTS:
        named = {name: getattr(args, name) for name in ("random", "seconds", "seed")}
        options = " ".join(f"--{name} {value:g}" for name, value in named.items())
        command = f"python benchmarks/proofs.py {part} --half {args.half[0]} {options}"
        result[part] = {"command": command} | PARTS[part](args)
        print(
            part, json.dumps({k: v for k, v in result[part].items() if k != "databases"}, indent=1)
        )
        if args.out:
            args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
