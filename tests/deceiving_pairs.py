"""Pairs of queries that look equal and are not, and small databases that show it.

Each pair differs on at least one of the databases, so no pair may ever be proved equal under the facts of that one.
"""

import json
from itertools import chain
from pathlib import Path

import apsw
from tables import cases

SCHEMA = """
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, s TEXT, r REAL, x);
CREATE TABLE u (
    id INTEGER PRIMARY KEY, t_id INTEGER REFERENCES t(id), c INTEGER, s TEXT COLLATE NOCASE, w TEXT, n NUMERIC);
CREATE TABLE k (p INTEGER NOT NULL, q INTEGER NOT NULL, v TEXT, PRIMARY KEY (p, q));
CREATE TABLE n (c INTEGER UNIQUE, d TEXT);
CREATE TABLE e (id INTEGER PRIMARY KEY, a INTEGER, s TEXT);
"""

# rows of each database, by table
DATABASES = {
    "messy": {  # NULLs, duplicates, ties, other storage classes than declared
        "t": [
            (1, 1, 2, "a", 1.0, 1),
            (2, 1, 3, "A", 2.5, 1.0),
            (3, None, 2, None, None, "1"),
            (4, 3, None, "a ", 2.5, "a"),
            (5, 3, 5, "b%", -1.5, None),
            (6, 7, 2, "10", 3.0, 10),
            (7, "many", 1, "9", 0.0, "10"),
            (8, -3, 2, "", 2.0, 2.5),
        ],
        "u": [
            (1, 1, 5, "x", "1", 1),
            (2, 1, 5, "X", "01", 2),
            (3, 2, None, "y", "x", 2.5),
            (4, None, 2, None, None, None),
            (5, 3, 1, "x", "2", "n"),
            (6, 1, 0, "z", "1.0", 0),
        ],
        "k": [(1, 1, "a"), (1, 2, "a"), (2, 1, "b"), (2, 2, None), (3, 1, "A")],
        "n": [(1, "a"), (None, "b"), (None, "b"), (2, None)],
        "e": [],
    },
    "tidy": {  # no NULL, each column of one storage class, no broken reference
        "t": [
            (1, 1, 2, "a", 1.5, 1),
            (2, 1, 3, "b", 2.5, 2),
            (3, 2, 2, "A", 2.5, 3),
            (4, 7, 5, "ab", 0.5, 4),
            (5, 6, 9, "a", 0.5, 4),
        ],
        "u": [
            (1, 1, 5, "x", "p", 1),
            (2, 1, 4, "y", "q", 2),
            (3, 2, 4, "x", "p", 1),
            (4, 4, 9, "z", "r", 3),
            (5, 4, 1, "z", "r", 3),
        ],
        "k": [(1, 1, "a"), (1, 2, "b"), (2, 1, "a"), (2, 3, "c")],
        "e": [(1, 1, "a")],
    },
    "bare": {"t": [(1, 3, 3, "a", 1.0, 1)], "u": [], "k": [], "e": []},
    "empty": {"t": [], "u": [], "k": [], "e": []},
}

NULLS = cases("deceiving_pairs_nulls")

DUPLICATES = cases("deceiving_pairs_duplicates")

EMPTY = cases("deceiving_pairs_empty")

NUMBERS = cases("deceiving_pairs_numbers")

TYPES = cases("deceiving_pairs_types")

TEXTS = cases("deceiving_pairs_texts")

JOINS = cases("deceiving_pairs_joins")

GROUPS = cases("deceiving_pairs_groups")

ORDER = cases("deceiving_pairs_order")

CONSTANTS = cases("deceiving_pairs_constants")

PAIRS = [*NULLS, *DUPLICATES, *EMPTY, *NUMBERS, *TYPES, *TEXTS, *JOINS, *GROUPS, *ORDER, *CONSTANTS]


class Filled:
    "A database of this file, as the judge of counterexamples asks for it."

    def __init__(self, rows):
        self.con = apsw.Connection(":memory:")
        self.con.execute(SCHEMA)
        for table, some in rows.items():
            for row in some:
                marks = ", ".join("?" * len(row))
                self.con.execute(f"INSERT INTO {table} VALUES ({marks})", row)

    def run(self, sql):
        return self.con.execute(sql).fetchall()


def differing(pairs=PAIRS):
    "Each pair in either direction, with the facts of each database on which the results differ."
    from sql_env.grading.variants.contents import Comparison
    from sql_env.proofs.facts import read_facts

    databases = {name: Filled(rows) for name, rows in DATABASES.items()}
    facts = {name: read_facts(filled.con) for name, filled in databases.items()}
    for pair in pairs:
        for gold, sql in (pair, pair[::-1]):
            judge = Comparison(gold, sql)
            for name, filled in databases.items():
                if judge.differ(filled):
                    yield gold, sql, facts[name]


def kinds_of_false_proofs():
    "A database, and pairs that an earlier prover called equal, or that are like them; each has a kind."
    from sql_env.database.catalog import read_columns
    from sql_env.sql.text import quote_identifier

    lines = (Path(__file__).parent / "data" / "false_proofs.jsonl").read_text().splitlines()
    first, *pairs = map(json.loads, lines)
    con = apsw.Connection(":memory:")
    con.execute(first["schema"])
    for table, rows in first["rows"].items():
        names = ", ".join(quote_identifier(c.name) for c in read_columns(con, table) if not c.hidden)
        for row in rows:
            con.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", row)
    return con, pairs


def false_proofs(first=()):
    "Pairs that are proved equal under the facts of a database on which they differ; a pair `first` is tried first."
    from sql_env.proofs.decision import prove
    from sql_env.proofs.facts import read_facts

    con, kinds = kinds_of_false_proofs()
    facts, others = read_facts(con), [(p["gold"], p["sql"]) for p in kinds]

    def asked(wanted):
        yield from differing(list(filter(wanted, PAIRS)))
        yield from ((*p, facts) for pair in filter(wanted, others) for p in (pair, pair[::-1]))

    for gold, sql, known in chain(asked(lambda p: set(p) == set(first)), asked(None)):
        if prove(gold, sql, known, tries=0):
            yield gold, sql
