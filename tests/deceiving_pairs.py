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

DATABASES: dict = {}  # rows of each database, by table
for name, table, rows in cases("deceiving_pairs_databases"):
    DATABASES.setdefault(name, {})[table] = [*rows]


KINDS = "nulls duplicates empty numbers types texts joins groups order constants".split()
PAIRS = [pair for kind in KINDS for pair in cases(f"deceiving_pairs_{kind}")]


class Whole:
    "A database as the judge of differences asks for it."

    def __init__(self, con):
        self.con = con

    def run(self, sql):
        return self.con.execute(sql).fetchall()


def filled(rows):
    con = apsw.Connection(":memory:")
    con.execute(SCHEMA)
    for table, some in rows.items():
        for row in some:
            con.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    return Whole(con)


def differing(pairs=PAIRS):
    "Each pair in either direction, with the facts of each database on which the results differ."
    from sql_env.proofs.contents import Comparison
    from sql_env.proofs.facts import read_facts

    databases = {name: filled(rows) for name, rows in DATABASES.items()}
    facts = {name: read_facts(whole.con) for name, whole in databases.items()}
    for pair in pairs:
        for gold, sql in (pair, pair[::-1]):
            judge = Comparison(gold, sql)
            for name, whole in databases.items():
                if judge.differ(whole):
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
