"""Look for false proofs: `python benchmarks/strangers.py [--minutes 30] [--seed 0] [--out FILE]`.

Families of statements about one theme, each written in many ways that look alike (some mean the same, some nearly),
on schemas with odd keys, types and references. All pairs of a family are proved by the rules alone, without the test
that comes before a proof; each proof is held against 1,000 databases that this file makes itself, of which those count
that keep what the proof takes for granted. What rules prove falsely is `leaks`; what is still proved with the test is
`false`. Nothing of `sql_env` but the prover takes part.
"""

# fmt: off
import argparse
import json
import re
import time
from collections import Counter
from itertools import combinations
from pathlib import Path
from random import Random

import apsw

from sql_env.proofs.decision import _STEPS, _Attempt, prove
from sql_env.proofs.facts import bind, read_facts
from sql_env.proofs.normal_form import Unproved, counted
from sql_env.proofs.solver import NAME

SCHEMAS = [  # t and u have the columns that themes speak of, in tables of many makes
    """CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL, n NUMERIC, x);
    CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, t_id INTEGER REFERENCES t(id), n DECIMAL(5, 2), x);""",
    """CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b TEXT NOT NULL, c REAL, n NUMERIC, x BLOB);
    CREATE TABLE u (id INTEGER PRIMARY KEY, a INT, b VARCHAR(9) UNIQUE, 
        t_id INTEGER NOT NULL REFERENCES t(id), n DATE, x TEXT);""",
    """CREATE TABLE t (id TEXT PRIMARY KEY, a INTEGER UNIQUE, b TEXT COLLATE NOCASE, c REAL, n BOOLEAN, x TEXT);
    CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER REFERENCES t(a), b TEXT, 
        t_id REFERENCES t(id), n FLOAT, x STRING);""",
    """CREATE TABLE t (id INTEGER, a INTEGER, b TEXT, c REAL, n NUMERIC, x, PRIMARY KEY (id, a)) WITHOUT ROWID;
    CREATE TABLE u (id INTEGER PRIMARY KEY DESC, a INTEGER, b TEXT, t_id INTEGER, n INT, x REAL,
        FOREIGN KEY (t_id, a) REFERENCES t(id, a));""",
    """CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, b TEXT, c REAL, n INT, x TEXT UNIQUE, CHECK (a <> 3)) STRICT;
    CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER UNIQUE, b TEXT, t_id TEXT REFERENCES t(id), n NUMERIC, x);
    CREATE UNIQUE INDEX i ON u (b) WHERE a > 1;""",
    """CREATE TABLE t (id REAL PRIMARY KEY, a INTEGER, b TEXT, c REAL NOT NULL, n NUMERIC UNIQUE, x);
    CREATE TABLE u (id INTEGER PRIMARY KEY, a NUMERIC, b TEXT COLLATE RTRIM, t_id INTEGER REFERENCES t(id),
        n INTEGER GENERATED ALWAYS AS (a + 1), x TEXT); CREATE UNIQUE INDEX i ON u (lower(b));""",
    """CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER REFERENCES t(id), b TEXT, c REAL, n NUMERIC, x TEXT);
    CREATE TABLE u (id INT PRIMARY KEY, a INTEGER, b TEXT, t_id TEXT REFERENCES t(id), n NUMERIC, x REFERENCES t(id));
    CREATE TRIGGER tr AFTER INSERT ON u BEGIN SELECT 1; END;""",
]
VALUES = [None, 0, 1, 2, 5, 5.0, 2.5, -1, "5", "05", "5.0", "a", "A", "", "ab", "b ", "2", "1"]
ODD = [" 5", "5x", "+5", "1e1", "0x5", b"5", b"", "é", "É", 2**60, 2**60 + 1, 1e300, 10, -5, "%", "_", "a%", 0.1, 0.3]


class Database:
    "A connection whose tables are filled by seed, and what its rows keep."

    def __init__(self, script: str):
        self.con = apsw.Connection(":memory:")
        self.con.execute(script)
        self.con.pragma("foreign_keys", False)

    def fill(self, rng: Random, odd: float, nulls: float) -> None:
        for table in ("u", "t"):
            self.con.execute(f"DELETE FROM {table}")
        few = rng.sample(VALUES, rng.choice((2, 3, 5, 9))) + (rng.sample(ODD, 2) if rng.random() < odd else [])
        for table in ("t", "u"):
            names = [c[1] for c in self.con.execute(f"PRAGMA table_info({table})")]
            for _ in range(rng.choice((0, 1, 2, 3, 3, 4, 5))):
                row = [v if (v := rng.choice(few)) is not None or rng.random() < nulls else rng.choice((1, 2,
                    5)) for _ in names]
                if "id" in names and rng.random() < 0.5:
                    row[0] = rng.choice((1, 2, 3, 5))
                marks = ", ".join("?" * len(names))
                try:
                    self.con.execute(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", row)
                except apsw.Error:
                    continue
        while broken := self.con.execute("PRAGMA foreign_key_check").fetchall():
            for table, rowid, *_ in broken:
                if rowid is None:  # a table without rowids
                    self.con.execute(f"DELETE FROM {table}")
                else:
                    self.con.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))

    def run(self, sql: str) -> list | None:
        try:
            return self.con.execute(sql).fetchall()
        except apsw.Error:
            return None

    def keeps(self, assumption) -> bool:
        "Whether the rows keep what a proof takes for granted; written without regard to how the prover tests it."
        kind, table, columns, detail, _ = assumption
        if kind in ("exact", "no_ties"):
            return True
        rows = self.con.execute(f"SELECT {', '.join(columns) or '1'} FROM {table}").fetchall()
        if kind == "filled":
            return bool(rows)
        if kind == "not_null":
            return all(row[0] is not None for row in rows)
        if kind == "holds":
            names = {int: "integer", float: "real", str: "text", bytes: "blob"}
            return all(row[0] is None or names[type(row[0])] in detail for row in rows)
        if kind == "numerals":
            return all(row[0] is None or isinstance(row[0], str) and re.fullmatch(r"0|-?[1-9]\d*",
                row[0]) for row in rows)
        if kind == "key":
            whole = [row for row in rows if None not in row]
            return len(set(whole)) == len(whole)
        return True  # declared references are kept by all


def key(value) -> tuple:
    if isinstance(value, (int, float)):
        return (1, float(f"{value:.9g}"))
    return (0, 0) if value is None else (2, value) if isinstance(value, str) else (3, value)


class Statements:
    "Writes statements about a theme, at random."

    def __init__(self, rng: Random):
        self.rng, self.fixed = rng, {}
        self.column = rng.choice("aaabbcnx")
        self.other = rng.choice([c for c in "abcnx" if c != self.column])
        self.constant = rng.choice(["5", "'5'", "2", "'a'", "5.0", "0", "1", "'A'", "''", "2.5"])
        self.second = rng.choice(["5", "1", "'05'", "'ab'", "2"])
        self.theme = rng.choice([m for m in dir(self) if m.startswith("theme_")])

    def some(self, *options):
        return self.rng.choice(options)

    def fix(self, *options):
        "Mostly what this family took before."
        if self.rng.random() < 0.15:
            return self.rng.choice(options)
        return self.fixed.setdefault(options, self.rng.choice(options))

    def write(self) -> str:
        sql = getattr(self, self.theme)()
        if self.rng.random() < 0.15:
            sql = self.some(f"SELECT * FROM ({sql})", f"WITH q AS ({sql}) SELECT * FROM q",
                f"SELECT q.* FROM ({sql}) AS q")
        return sql

    def value(self, v: str, depth: int = 2) -> str:
        "A value that may be v, written otherwise."
        if depth == 0 or self.rng.random() < 0.55:
            return v
        v = self.value(v, depth - 1)
        return self.some(
            f"+{v}", f"({v})", f"(SELECT {v})", f"coalesce({v}, NULL)", f"coalesce({v}, {v})", f"iif(1, {v}, NULL)",
                f"nullif({v}, NULL)",
            f"CASE WHEN {v} IS NULL THEN NULL ELSE {v} END",
                f"CASE {v} WHEN {self.constant} THEN {self.constant} ELSE {v} END",
            f"CAST({v} AS {self.some('TEXT', 'INTEGER', 'REAL', 'NUMERIC')})", f"({v} + 0)", f"({v} * 1)",
                f"({v} || '')", f"- - {v}",
            f"ifnull({v}, {v})", f"abs({v})", f"lower({v})", f"round({v})", f"trim({v})", f"({v} / 1)",
                f"({v} * 1.0)",
            f"(SELECT max({v}))", f"CASE WHEN {v} = {v} THEN {v} END", f"replace({v}, 'zz', '')", f"substr({v}, 1)",
            f"(SELECT {v} UNION SELECT {v})", f"(SELECT {v} LIMIT 1)", f"upper({v})", f"{v} COLLATE BINARY",
                f"max({v}, {v})", f"({v} % 7)",
        )

    def condition(self, v: str, k: str) -> str:
        "A condition that may say v = k."
        w = self.value(v)
        return self.some(
            f"{w} = {k}", f"{w} = {k}", f"{k} = {w}", f"{w} IN ({k})", f"{w} IN ({k}, {k})", f"{w} IS {k}",
                f"NOT {w} <> {k}", f"{w} == {k}",
            f"{w} BETWEEN {k} AND {k}", f"{w} >= {k} AND {w} <= {k}", f"NOT ({w} < {k} OR {w} > {k})",
                f"{w} LIKE {k}", f"{w} IN (SELECT {k})",
            f"{w} = (SELECT {k})", f"({w} = {k}) = 1", f"CASE WHEN {w} = {k} THEN 1 ELSE 0 END",
                f"iif({w} = {k}, 1, NULL)",
            f"nullif({w}, {k}) IS NULL", f"({w}, 1) = ({k}, 1)", f"EXISTS (SELECT 1 WHERE {w} = {k})",
                f"{w} = {k} OR NULL", f"{w} = {k} AND 1",
            f"{w} IN ({k}, NULL)", f"NOT ({w} <> {k} AND 1)", f"{w} = {self.value(k)}", f"coalesce({w} = {k}, 0)",
                f"NOT {w} NOT IN ({k})",
            f"{w} IS NOT NULL AND {w} = {k}", f"CASE {w} WHEN {k} THEN 1 END", f"{w} GLOB {k}",
                f"{w} = {k} OR {w} = {k}", f"NOT {w} IS NOT {k}",
            f"{w} - {k} = 0", f"{w} = CAST({k} AS {self.some('TEXT', 'INTEGER', 'REAL')})",
                f"({w} = {k} OR {w} = {self.second}) AND NOT {w} = {self.second}",
        )

    def plain(self, v: str, k: str) -> str:
        return self.some(f"{v} = {k}", f"{v} > {k}", f"{v} IN ({k})", f"NOT {v} <> {k}", f"{v} >= {k} AND {v} <= {k}",
            f"{v} IS {k}") if self.rng.random() < 0.8 else self.condition(v, k)

    def source(self) -> str:
        "A source of the rows of t, or nearly, named t."
        if self.rng.random() < 0.5:
            return "t"
        return self.some(
            "(SELECT * FROM t) AS t", "(SELECT DISTINCT * FROM t) AS t", "(SELECT * FROM t UNION SELECT * FROM t) t",
                "(SELECT id, a, b, c, n, x FROM t) t",
            "(SELECT t.* FROM t LEFT JOIN u ON u.t_id = t.id) t", "(SELECT t.* FROM t JOIN u ON u.t_id = t.id) t",
                "(SELECT * FROM t WHERE 1) t",
            "(SELECT t.* FROM t LEFT JOIN u ON 0) t", "(SELECT * FROM t ORDER BY a) t",
                "(SELECT * FROM t INTERSECT SELECT * FROM t) t",
            "(SELECT DISTINCT t.* FROM t, u) t", "(SELECT max(id) AS id, a, b, c, n, x FROM t GROUP BY id) t",
                "t NOT INDEXED", "main.t",
            "(SELECT * FROM t UNION ALL SELECT * FROM t WHERE 0) t", "(SELECT * FROM t ORDER BY id DESC) t",
                "(SELECT * FROM t EXCEPT SELECT * FROM t WHERE id IS NULL) t",
            "(SELECT t.* FROM t JOIN t AS v USING (id)) t",
                "(SELECT t.* FROM t JOIN t v ON t.id = v.id AND t.a = v.a) t", "t JOIN (SELECT 1) ON 1",
            "(SELECT t.* FROM t JOIN t v USING (id, a)) t", "(SELECT * FROM t NATURAL JOIN t v) t",
                "(SELECT * FROM t UNION SELECT NULL, NULL, NULL, NULL, NULL, NULL WHERE 0) t",
            "(SELECT id, a, b, c, n, x FROM t GROUP BY id) t", "(SELECT *, rank() OVER (ORDER BY a) r FROM t) t",
                "(SELECT * FROM t LIMIT 100) t",
        )

    def where(self) -> str:
        return f" WHERE {self.plain('t.' + self.column, self.constant)}" if self.rng.random() < 0.5 else ""

    # themes

    def theme_filter(self) -> str:
        out = self.fix("t.id", "id", "t.id", f"t.{self.other}")
        condition = self.condition("t." + self.column, self.constant)
        return f"SELECT {self.some('', '', 'DISTINCT ')}{out} FROM {self.source()} WHERE {condition}"

    def theme_value(self) -> str:
        return f"SELECT {self.value('t.' + self.column, 3)} FROM {self.source()}"

    def theme_choice(self) -> str:
        v, k, j = f"t.{self.column}", self.constant, self.second
        return "SELECT " + self.some(
            f"CASE WHEN {v} = {k} THEN {j} ELSE {v} END", f"CASE {v} WHEN {k} THEN {j} ELSE {v} END",
                f"iif({v} = {k}, {j}, {v})", f"coalesce(nullif({v}, {k}), {j})",
            f"ifnull(nullif({v}, {k}), {j})", f"CASE WHEN {v} <> {k} THEN {v} ELSE {j} END",
                f"CASE WHEN NOT {v} = {k} THEN {v} WHEN 1 THEN {j} END",
            f"CASE WHEN {v} IN ({k}) THEN {j} WHEN {v} IS NULL THEN NULL ELSE {v} END",
                f"CASE WHEN {v} IS {k} THEN {j} ELSE {v} END", f"coalesce({v}, {k})",
            f"CASE WHEN {v} IS NULL THEN {k} ELSE {v} END", f"iif({v} IS NOT NULL, {v}, {k})",
                f"(SELECT CASE WHEN {v} = {k} THEN {j} ELSE {v} END)",
            f"ifnull({v}, {k})", f"coalesce({v}, {k}, {j})",
                f"CASE WHEN {v} = {k} THEN {j} WHEN {v} <> {k} THEN {v} END",
        ) + f" FROM {self.source()}"

    def theme_compare(self) -> str:
        v, w = f"t.{self.column}", f"t.{self.other}"
        x, y = self.value(v, 1), self.value(w, 1)
        op, flipped, opposite = self.fix(("=", "=", "<>"), ("<", ">", ">="), ("<=", ">=", ">"))
        return f"SELECT id FROM {self.source()} WHERE " + self.some(
            f"{x} {op} {y}", f"{y} {flipped} {x}", f"NOT {x} {opposite} {y}", f"{x} {op} (SELECT {y})",
                f"(SELECT {x}) {op} {y}", f"{x} IN ({y})", f"{x} IS {y}",
            f"{x} IN (SELECT {y})", f"({x} {op} {y}) = 1",
                f"EXISTS (SELECT 1 FROM t v WHERE v.id = t.id AND v.{self.column} {op} t.{self.other})",
            f"CASE WHEN {x} {op} {y} THEN 1 END", f"{x} IS NOT NULL AND {y} IS NOT NULL AND NOT {x} {opposite} {y}",
                f"NOT coalesce({x} {opposite} {y}, 1)",
            f"t.id IN (SELECT id FROM t WHERE {x} {op} {y})", f"coalesce({x} {op} {y}, 0)",
                f"({x}, {y}) IN (SELECT {self.column}, {self.other} FROM t) AND {x} {op} {y}",
        )

    def theme_aggregate(self) -> str:
        v, c = self.value(f"t.{self.column}", 1), self.plain(f"t.{self.other}", self.constant)
        distinct = self.some("", "DISTINCT ")
        out = self.some(
            f"count({distinct}{v})", "count(*)", "sum(1)", f"sum({v} IS NOT NULL)",
                f"count(CASE WHEN {c} THEN 1 END)", f"sum(CASE WHEN {c} THEN 1 ELSE 0 END)",
            f"count(*) FILTER (WHERE {c})", f"sum({c})", f"total({c})", f"sum(iif({c}, 1, 0))",
                f"coalesce(sum({c}), 0)", f"count(nullif({c}, 0))", f"sum({distinct}{v})",
            f"sum({v}) * 1.0 / count({v})", f"avg({v})", f"sum({v}) / count({v})",
                f"CAST(sum({v}) AS REAL) / count({v})", f"total({v})", f"max({v})", f"min({v})",
            f"(SELECT {v} ORDER BY {v} DESC LIMIT 1)", f"-min(-{v})", f"max({v}) FILTER (WHERE {c})",
                f"max(CASE WHEN {c} THEN {v} END)", f"avg({distinct}{v})",
            f"ifnull(sum({v}), 0)", f"sum(ifnull({v}, 0))", f"avg(ifnull({v}, 0))", f"sum(0.0 + {v})",
                f"count({v}) + count({v} IS NULL)", "count(DISTINCT id)", f"max({v}) IS NOT NULL",
            f"sum({v}) FILTER (WHERE {c})", f"sum(CASE WHEN {c} THEN {v} END)",
                f"sum(CASE WHEN {c} THEN {v} ELSE 0 END)", f"sum(({c}) * {v})", f"avg(CAST({v} AS REAL))",
                f"avg(CASE WHEN {c} THEN 1.0 ELSE 0 END)",
        )
        tail = self.fix("", "", "", f" WHERE {c}", f" WHERE t.{self.column} IS NOT NULL", " GROUP BY 1 + 0",
            " HAVING count(*) > 0")
        return f"SELECT {out} FROM {self.source()}{tail}"

    def theme_maximum(self) -> str:
        v, w, f = f"t.{self.column}", self.value(f"t.{self.column}", 1), self.where()
        return self.some(
            f"SELECT max({w}) FROM {self.source()}{f}", f"SELECT {v} FROM t{f} ORDER BY {w} DESC LIMIT 1",
                f"SELECT {v} FROM t{f} ORDER BY 1 DESC LIMIT 1", f"SELECT min({w}) FROM t{f}",
            f"SELECT (SELECT {v} FROM t{f} ORDER BY {v} DESC LIMIT 1)",
                f"SELECT DISTINCT {v} FROM t{f} ORDER BY {w} DESC LIMIT 1",
                f"SELECT {v} FROM t{f} GROUP BY {v} ORDER BY {v} DESC LIMIT 1",
            f"SELECT {v} FROM t WHERE {w} = (SELECT max({w}) FROM t{f})",
                f"SELECT DISTINCT {v} FROM t WHERE {v} IN (SELECT max({v}) FROM t{f})",
            f"SELECT DISTINCT {v} FROM t WHERE NOT EXISTS (SELECT 1 FROM t v WHERE v.{self.column} > {v})",
                f"SELECT max({v}) OVER () FROM t LIMIT 1", f"SELECT {v} FROM t{f} ORDER BY {v} LIMIT 1",
            f"SELECT max(m) FROM (SELECT max({w}) AS m FROM t{f} GROUP BY {self.other})",
                f"SELECT {v} FROM (SELECT {v}, rank() OVER (ORDER BY {v} DESC) AS r FROM t{f}) t WHERE r = 1",
            f"SELECT DISTINCT {v} FROM (SELECT *, dense_rank() OVER (ORDER BY {w} DESC) AS r FROM t{f}) t WHERE r <= 1",
                f"SELECT {v} FROM t{f} ORDER BY {v} DESC NULLS LAST LIMIT 1",
            f"SELECT {v} FROM (SELECT * FROM t{f} ORDER BY {w} DESC) t LIMIT 1",
                f"SELECT max({v}) FROM (SELECT {v} FROM t{f} UNION ALL SELECT {v} FROM t{f}) t",
                f"SELECT max({w}) FROM t{f} HAVING count(*) > 0",
        )

    def theme_top(self) -> str:
        v, w, n = f"t.{self.column}", self.value(f"t.{self.column}", 1), self.fix(1, 1, 2)
        direction = self.fix("", " DESC")
        out = self.fix("t.id", f"t.{self.other}", f"t.id, {v}")
        return f"SELECT {out} FROM {self.source()}{self.where()} " + self.some(
            f"ORDER BY {v}{direction}, t.id LIMIT {n}", f"ORDER BY {v}{direction} LIMIT {n}",
                f"ORDER BY {w}{direction} LIMIT {n}", f"ORDER BY {v}{direction}, {w} LIMIT {n}",
                f"ORDER BY {w}{direction}, id LIMIT {n}",
            f"ORDER BY {v}{direction} NULLS LAST, t.id LIMIT {n}",
                f"ORDER BY {v} IS NULL, {v}{direction}, t.id LIMIT {n}", f"ORDER BY t.id LIMIT {n}",
                f"ORDER BY {v}{direction}, t.id LIMIT {n} OFFSET 0",
        )

    def theme_group(self) -> str:
        k, w = f"t.{self.column}", self.value(f"t.{self.column}", 1)
        v, f, h = f"t.{self.other}", self.where(), self.some("", "", f" HAVING count(*) > {self.some(0, 1)}",
            " HAVING count(*) >= 1", " HAVING count(DISTINCT t.id) > 1", f" HAVING max(t.{self.other}) IS NOT NULL")
        agg = self.fix("count(*)", f"count({v})", f"max({v})", f"sum({v})", "sum(1)", f"count(DISTINCT {v})",
            f"min({v})", v, "t.id")
        return self.some(
            f"SELECT {k}, {agg} FROM {self.source()}{f} GROUP BY {k}{h}",
                f"SELECT {w}, {agg} FROM t{f} GROUP BY {w}{h}", f"SELECT {k}, {agg} FROM t{f} GROUP BY 1{h}",
                f"SELECT {k}, {agg} FROM t{f} GROUP BY {w}{h}",
            f"SELECT DISTINCT {k}, {agg if '(' in agg else 'count(*)'} OVER (PARTITION BY {k}) FROM t{f}",
                f"SELECT {w} AS {self.column}, {agg} FROM t{f} GROUP BY {self.column}{h}",
            f"SELECT {k}, {agg} FROM t{f} GROUP BY {k}, {k}{h}", f"SELECT {k}, {agg} FROM t{f} GROUP BY {k}, {v}{h}",
                f"SELECT DISTINCT {k}, {agg} FROM t{f} GROUP BY {k}{h}",
                f"SELECT {k}, m FROM (SELECT {k}, {agg} AS m FROM t{f} GROUP BY {k}{h}) t",
            f"SELECT {k}, {agg} FROM (SELECT DISTINCT * FROM t{f}) t GROUP BY {k}{h}",
                f"SELECT {k}, {agg} FROM t{f} GROUP BY t.id, {k}{h}", f"SELECT {k}, {v} FROM t{f} GROUP BY {k}, {v}",
                f"SELECT DISTINCT {k}, {v} FROM t{f}",
        )

    def theme_related(self) -> str:
        "Rows of t that have, or have not, a row of u."
        on = self.fix("u.t_id = t.id", "t.id = u.t_id", "u.t_id = t.id", f"u.{self.column} = t.{self.column}",
            "u.t_id IS t.id", f"u.t_id = t.id AND {self.plain('u.' + self.column, self.constant)}")
        side, other = (on.split(" AND ")[0].replace("IS", "=").split(" = "))
        inside, outside = (side, other) if side.startswith("u") else (other, side)
        w = f" AND {on.split(' AND ', 1)[1]}" if " AND " in on else ""
        w0 = f" WHERE {w[5:]}" if w else ""
        return self.some(
            f"SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE {on})",
                f"SELECT id FROM t WHERE {outside} IN (SELECT {inside} FROM u{w0})",
                f"SELECT DISTINCT t.id FROM t JOIN u ON {on}", f"SELECT t.id FROM t JOIN u ON {on}",
            f"SELECT t.id FROM t, u WHERE {on} GROUP BY t.id",
                f"SELECT DISTINCT t.id FROM t LEFT JOIN u ON {on} WHERE u.id IS NOT NULL",
                f"SELECT t.id FROM t LEFT JOIN u ON {on} GROUP BY t.id HAVING count(u.id) > 0",
            f"SELECT id FROM t WHERE (SELECT count(*) FROM u WHERE {on}) > 0",
                f"SELECT t.id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE {on})",
                f"SELECT id FROM t WHERE {outside} NOT IN (SELECT {inside} FROM u{w0})",
            f"SELECT t.id FROM t LEFT JOIN u ON {on} WHERE u.id IS NULL",
                f"SELECT t.id FROM t LEFT JOIN u ON {on} WHERE {inside} IS NULL",
                f"SELECT id FROM t EXCEPT SELECT t.id FROM t JOIN u ON {on}",
            f"SELECT id FROM t WHERE (SELECT count(*) FROM u WHERE {on}) = 0",
                f"SELECT id FROM t INTERSECT SELECT t_id FROM u{w0}", f"SELECT DISTINCT t_id FROM u{w0}",
                f"SELECT t_id FROM u{w0}", f"SELECT u.t_id FROM u JOIN t ON {on}",
            f"SELECT t.id FROM t WHERE (SELECT max(u.id) FROM u WHERE {on}) IS NOT NULL",
                f"SELECT id FROM t WHERE (SELECT 1 FROM u WHERE {on}) = 1", f"SELECT t.id FROM u LEFT JOIN t ON {on}",
                f"SELECT t.id FROM t JOIN (SELECT DISTINCT t_id FROM u{w0}) u ON u.t_id = t.id",
            f"SELECT id FROM t WHERE id IN (SELECT t_id FROM u{w0})",
                f"SELECT t.id FROM u RIGHT JOIN t ON {on} WHERE u.id IS NULL",
                f"SELECT id FROM t WHERE {outside} NOT IN (SELECT {inside} FROM u WHERE {inside} IS NOT NULL{w})",
        )

    def theme_join(self) -> str:
        "Rows of both tables."
        c = self.column
        on = self.fix("u.t_id = t.id", "u.t_id = t.id", f"t.{c} = u.{c}", "t.a = u.a", "t.b = u.b",
            "u.t_id = t.id AND u.a = t.a")
        f = self.fix("", "", f" WHERE {self.plain('t.' + c, self.constant)}",
            f" WHERE {self.plain('u.' + c, self.constant)}", " WHERE u.id IS NOT NULL", " WHERE t.id IS NOT NULL")
        out = self.fix("u.id", "u.id, t.id", f"t.{c}", "count(*)", f"count(u.{c})", "*", "u.*", "u.id, t_id",
            f"u.id, u.{c}", "max(u.id)", "count(DISTINCT t.id)")
        return f"SELECT {out} FROM " + self.some(
            f"t JOIN u ON {on}", f"u JOIN t ON {on}", f"t, u WHERE {on}", f"u LEFT JOIN t ON {on}",
                f"t LEFT JOIN u ON {on}", f"t JOIN u USING ({c})", "t JOIN u USING (a)", "t NATURAL JOIN u",
                f"u CROSS JOIN t ON {on}", "u", f"(SELECT * FROM t) t JOIN u ON {on}",
            f"t JOIN (SELECT * FROM u) u ON {on}", f"t JOIN u ON {on} JOIN t AS v ON v.id = t.id",
                f"u LEFT JOIN t ON {on} LEFT JOIN t AS v ON v.id = u.t_id", f"t RIGHT JOIN u ON {on}",
                f"t FULL JOIN u ON {on}", f"u LEFT JOIN (SELECT DISTINCT * FROM t) t ON {on}",
                "t LEFT JOIN u USING (a)",
        ).replace(" WHERE ", f"{f} AND " if f else " WHERE ", 1) + f

    def theme_sets(self) -> str:
        k, j = self.constant, self.second
        v = f"t.{self.column}"
        p, q = self.plain(v, k), self.plain(self.some(v, f"t.{self.other}"), j)
        o = self.fix("t.id", f"t.{self.other}", v, "NULL AS z", f"t.{self.other}, {v}", f"{k} AS z")
        s = self.fix("", "DISTINCT ")
        return self.some(
            f"SELECT {s}{o} FROM t WHERE {p} OR {q}",
                f"SELECT {s}{o} FROM t WHERE {p} UNION SELECT {o} FROM t WHERE {q}",
                f"SELECT {o} FROM t WHERE {p} UNION ALL SELECT {o} FROM t WHERE {q}",
                f"SELECT {s}{o} FROM t WHERE {p} AND {q}",
            f"SELECT {o} FROM t WHERE {p} INTERSECT SELECT {o} FROM t WHERE {q}",
                f"SELECT {o} FROM t WHERE {p} EXCEPT SELECT {o} FROM t WHERE {q}",
                f"SELECT {s}{o} FROM t WHERE {p} AND NOT {q}", f"SELECT {s}{o} FROM t WHERE {v} IN ({k}, {j})",
            f"SELECT {s}{o} FROM t WHERE ({p}) + ({q}) >= 1",
                f"SELECT {o} FROM t WHERE {p} UNION ALL SELECT {o} FROM t WHERE {q} AND NOT {p}",
                f"SELECT {o} FROM t WHERE {p} OR {q} GROUP BY 1",
                f"SELECT {o} FROM t WHERE {p} UNION ALL SELECT {o} FROM t WHERE NOT {p}",
            f"SELECT {o} FROM t", f"SELECT {s}{o} FROM t WHERE NOT (NOT {p} AND NOT {q})",
                f"SELECT {o} FROM (SELECT * FROM t WHERE {p} UNION SELECT * FROM t WHERE {q}) t",
                f"SELECT {o} FROM t WHERE {p} UNION SELECT {o} FROM t WHERE {p}",
            f"SELECT {s}{o} FROM t WHERE coalesce({p}, {q})", f"SELECT {s}{o} FROM t WHERE {p} IS NOT 1 AND {q}",
                f"SELECT {s}{o} FROM t WHERE NOT ({p}) OR {q}",
                f"SELECT {o} FROM t EXCEPT SELECT {o} FROM t WHERE NOT {p}",
        )

    def theme_compound(self) -> str:
        "A comparison with a column that a compound gives."
        arms = [self.fix("SELECT NULL AS z", f"SELECT {self.column} AS z FROM t", f"SELECT {self.other} AS z FROM t",
            f"SELECT {self.constant} AS z", f"SELECT CAST({self.column} AS TEXT) AS z FROM t",
            f"SELECT +{self.column} AS z FROM t", f"SELECT u.{self.column} AS z FROM u") for _ in range(self.some(1,
            2, 2))]
        q = self.fix(" UNION ALL ", " UNION ", " EXCEPT ", " INTERSECT ").join(arms)
        return self.some(
            f"SELECT z FROM ({q}) WHERE z = {self.constant}", f"SELECT z FROM ({q}) WHERE z = {self.constant}",
                f"SELECT z FROM ({q}) WHERE z IN ({self.constant})",
                f"SELECT z FROM ({q}) WHERE {self.condition('z', self.constant)}",
                f"SELECT count(*) FROM ({q}) WHERE z = {self.constant}",
            f"SELECT t.id FROM t WHERE t.{self.column} IN ({q})",
                f"SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM ({q}) WHERE z = t.{self.column})",
                f"SELECT t.id FROM t JOIN ({q}) ON z = t.{self.column}",
                f"SELECT DISTINCT t.id FROM t JOIN ({q}) ON z = t.{self.column}",
                f"SELECT id FROM t WHERE {self.column} NOT IN ({q})",
            f"SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM ({q}) WHERE z = t.{self.column})",
                f"WITH q(z) AS ({q}) SELECT z FROM q WHERE z = {self.constant}",
                f"WITH q AS ({q}) SELECT t.id FROM t, q WHERE q.z = t.{self.column}", f"SELECT max(z) FROM ({q})",
                f"SELECT z FROM ({q}) ORDER BY z DESC LIMIT 1",
        )

    def theme_nameless(self) -> str:
        v, w = f"t.{self.column}", f"t.{self.other}"
        inner = self.fix(f"SELECT max({v}), min({v})", f"SELECT max({v}), min({w})", f"SELECT max({v}), max({v})",
            f"SELECT max({v}) AS a, min({v}) AS a", f'SELECT max({v}) AS "min(a)", min({v})', f"SELECT {v}, {v}",
            f"SELECT {v}, {w}", f"SELECT id, {v}, {w} AS id") + " FROM t" + self.some("", f" GROUP BY {w}",
            f" WHERE {self.plain(v, self.constant)}")
        return self.some(
            f"SELECT * FROM ({inner})", inner, f"SELECT q.* FROM ({inner}) q", f'SELECT "max({v})" FROM ({inner})',
                f"WITH q AS ({inner}) SELECT * FROM q", f"WITH q(a, b) AS ({inner}) SELECT a, b FROM q",
                f"WITH q(b, a) AS ({inner}) SELECT a, b FROM q", f"SELECT * FROM ({inner}) WHERE a = {self.constant}",
            f'SELECT * FROM ({inner}) WHERE "min(a)" = {self.constant}', f"SELECT * FROM ({inner}) ORDER BY 1",
                f"SELECT a FROM ({inner})", f"SELECT * FROM ({inner}) UNION SELECT * FROM ({inner})",
                f"SELECT * FROM (SELECT * FROM ({inner}))", f"SELECT rowid, * FROM ({inner})",
                f"SELECT rowid, {v} FROM t", f"SELECT id, {v} FROM t", f'SELECT "rowid", {v} FROM t',
        )

    def theme_scalar(self) -> str:
        "A subquery as a value."
        c, k = self.column, self.fix("v.id = t.id", f"v.{self.other} = t.{self.other}", "v.id = 1",
            f"v.{self.other} = {self.constant}")
        q = self.some(f"(SELECT v.{c} FROM t v WHERE {k})", f"(SELECT max(v.{c}) FROM t v WHERE {k})",
            f"(SELECT v.{c} FROM t v WHERE {k} LIMIT 1)",
            f"(SELECT v.{c} FROM t v WHERE {k} ORDER BY v.{c} DESC LIMIT 1)",
            f"(SELECT min(v.{c}) FROM t v WHERE {k})", f"(SELECT DISTINCT v.{c} FROM t v WHERE {k})",
            f"(SELECT +v.{c} FROM t v WHERE {k})", f"(SELECT v.{c} FROM t v WHERE {k} ORDER BY v.id LIMIT 1)",
            f"(SELECT sum(v.{c}) FROM t v WHERE {k})", f"(SELECT v.{c} FROM t v WHERE {k} GROUP BY v.{c})")
        return self.some(f"SELECT {q} FROM t", f"SELECT t.id FROM t WHERE {q} = {self.constant}",
            f"SELECT t.id FROM t WHERE {q} = t.{self.other}",
            f"SELECT t.id FROM t WHERE t.{self.other} IN ({q[1:-1]})",
            f"SELECT t.id FROM t WHERE t.{self.other} = {q}", f"SELECT coalesce({q}, {self.constant}) FROM t",
            f"SELECT t.id, v.{c} FROM t JOIN t v ON {k}", f"SELECT v.{c} FROM t LEFT JOIN t v ON {k}",
            f"SELECT t.id FROM t WHERE {q} IS NULL", f"SELECT t.id FROM t WHERE NOT EXISTS {q}",
            f"SELECT t.id FROM t WHERE {q} > {self.constant}", f"SELECT t.id FROM t ORDER BY {q}, t.id LIMIT 2")

    def theme_merged(self) -> str:
        "What functions see of a value that DISTINCT, GROUP BY, UNION or max has picked."
        v = self.column
        f = self.fix("length({})", "{} / 2", "typeof({})", "{} || ''", "{} LIKE '5'", "CAST({} AS TEXT)", "{} % 2",
            "{} + 1", "{}")
        q = self.some(f"(SELECT DISTINCT {v} FROM t)", f"(SELECT {v} FROM t GROUP BY {v})",
            f"(SELECT {v} FROM t UNION SELECT {v} FROM t)", f"(SELECT {v} FROM t)",
            f"(SELECT {v} FROM t INTERSECT SELECT {v} FROM t)", f"(SELECT {v} FROM t ORDER BY id DESC)",
            f"(SELECT max({v}) AS {v} FROM t GROUP BY {v})", f"(SELECT {v} FROM t ORDER BY {v} DESC LIMIT 1)")
        return self.fix("SELECT DISTINCT {0} FROM {1}", "SELECT count(DISTINCT {0}) FROM {1}",
            "SELECT DISTINCT {2} FROM {1} WHERE {0}", "SELECT max({0}) FROM {1}", "SELECT {3} FROM {1}",
            "SELECT {0} FROM {1} GROUP BY {2}").format(f.format(v), q, v, f.format(f"max({v})"))

    def theme_referred(self) -> str:
        "Rows that refer, and what a reference promises."
        c = self.fix("t_id", "t_id", "x", "a")
        p = "a" if c == "a" else "id"
        return self.some(f"SELECT u.id FROM u JOIN t ON u.{c} = t.{p}", f"SELECT id FROM u WHERE {c} IS NOT NULL",
            f"SELECT id FROM u WHERE {c} IN (SELECT {p} FROM t)", "SELECT id FROM u",
            f"SELECT u.id FROM u LEFT JOIN t ON u.{c} = t.{p}",
            f"SELECT u.id FROM u LEFT JOIN t ON u.{c} = t.{p} WHERE t.{p} IS NOT NULL",
            f"SELECT id FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.{p} = u.{c})",
            f"SELECT u.id FROM t, u WHERE t.{p} = u.{c} GROUP BY u.id",
            f"SELECT id FROM u WHERE (SELECT count(*) FROM t WHERE {p} = u.{c}) = 1",
            f"SELECT id FROM u WHERE (SELECT {p} FROM t WHERE {p} = u.{c}) IS NOT NULL",
            f"SELECT DISTINCT u.id FROM u JOIN t ON u.{c} IS t.{p}",
            f"SELECT id FROM u EXCEPT SELECT id FROM u WHERE {c} IS NULL",
            f"SELECT u.id FROM u JOIN (SELECT DISTINCT {p} FROM t) t ON t.{p} = u.{c}")

    def theme_window(self) -> str:
        v, w = f"t.{self.column}", f"t.{self.other}"
        p, o = self.fix("", f"PARTITION BY {w} ", f"PARTITION BY {v} "), self.fix("", f"ORDER BY {v}",
            f"ORDER BY {v} DESC", "ORDER BY t.id")
        f = self.fix("count(*)", f"max({v})", "rank()", "row_number()", "dense_rank()", f"sum({v})",
            f"first_value({v})", f"count({v})", f"min({v})")
        return self.some(f"SELECT t.id, {f} OVER ({p}{o}) FROM t",
            f"SELECT t.id, {f} OVER ({p}{o}) FROM {self.source()}", f"SELECT {f} OVER ({p}{o}) FROM t{self.where()}",
            f"SELECT id, r FROM (SELECT *, {f} OVER ({p}{o}) AS r FROM t) t",
            f"SELECT t.id, (SELECT count(*) FROM t v WHERE v.{self.column} < {v}) + 1 FROM t",
            "SELECT t.id, (SELECT count(*) FROM t v) FROM t",
            f"SELECT t.id, (SELECT max(v.{self.column}) FROM t v WHERE v.{self.other} IS {w}) FROM t",
            f"SELECT t.id, (SELECT count(DISTINCT v.{self.column}) FROM t v WHERE v.{self.column} <= {v}) FROM t",
            f"SELECT id FROM (SELECT *, {f} OVER ({p}{o}) AS r FROM t) t WHERE r = {self.some(1, 2)}",
            f"SELECT DISTINCT {f} OVER ({p}{o}) FROM t",
            f"SELECT t.id, {f} OVER ({p}{o} ROWS UNBOUNDED PRECEDING) FROM t")

    def theme_arithmetic(self) -> str:
        v, w = f"t.{self.column}", self.fix(f"t.{self.other}", self.constant, "2")
        e = self.some(f"{v} + {w}", f"{w} + {v}", f"{v} - -{w}", f"({v} * 2 + {w} * 2) / 2", f"{v} * {w}",
            f"{w} * {v}", f"{v} / {w}", f"{v} * 1.0 / {w}", f"CAST({v} AS REAL) / {w}", f"{v} / ({w} * 1.0)",
            f"{v} / CAST({w} AS FLOAT)", f"{v} || {w}", f"({v} || '') || {w}", f"{v} % {w}",
            f"{v} - ({v} / {w}) * {w}", f"round({v} / {w})", f"abs({v} - {w})", f"abs({w} - {v})", f"{v} = {w}",
            f"({v} = {w}) + 0", f"{v} < {w} OR {v} = {w}", f"{v} <= {w}", f"NOT {v} > {w}", f"100 * {v} / {w}",
            f"100.0 * {v} / {w}", f"{v} / {w} * 100", f"{v} * 1.0", f"{v} + 0.0", f"CAST({v} AS REAL)",
            f"round({v}, 0)", f"- {v}", f"0 - {v}", f"{v} * -1", f"{v} & {v}", f"CAST({v} AS INT)",
            f"CAST({v} AS NUMERIC)", f"CAST({v} AS TEXT)", f"{v} || ''", f"max({v}, {w})",
            f"CASE WHEN {v} > {w} THEN {v} ELSE {w} END", f"iif({v} < {w}, {w}, {v})")
        return self.fix("SELECT {} FROM t", "SELECT id FROM t WHERE {}",
            f"SELECT id FROM t WHERE {{}} > {self.constant}", "SELECT sum({}) FROM t", "SELECT DISTINCT {} FROM t",
            "SELECT count(*) FROM t GROUP BY {}").format(e)

    def theme_text(self) -> str:
        v, k = f"t.{self.fix('b', 'b', 'x')}", self.fix("'a'", "'A'", "'a%'", "'5'", "'%b'", "'a_'")
        c = self.some(f"{v} LIKE {k}", f"{v} LIKE upper({k})", f"lower({v}) LIKE {k}", f"{v} LIKE lower({k})",
            f"lower({v}) = lower({k})", f"upper({v}) = upper({k})", f"{v} = {k}", f"{v} = {k} COLLATE NOCASE",
            f"{v} GLOB {k}", f"instr({v}, {k}) > 0", f"instr({v}, {k})", f"{v} LIKE '%' || {k}", f"{k} LIKE {v}",
            f"{v} LIKE {k} ESCAPE '\\'", f"{v} LIKE {k} ESCAPE 'A'", f"{v} LIKE {k} ESCAPE 'a'",
            f"NOT {v} NOT LIKE {k}", f"substr({v}, 1, 1) = {k}", f"trim({v}) = {k}", f"rtrim({v}) = {k}",
            f"length({v}) = length({k})", f"like({k}, {v})", f"lower({v}) LIKE lower({k})",
            f"replace({v}, {k}, '') <> {v}", f"{v} IN ({k}, upper({k}))", f"{v} >= {k} AND {v} < {k} || 'z'",
            f"{v} || '' = {k}", f"CAST({v} AS TEXT) = {k}", f"{v} BETWEEN {k} AND {k}", f"lower({v}) IN ({k})",
            f"{v} REGEXP {k}", f"length({v} || {k}) = length({v}) + length({k})", f'{v} = "{k[1:-1]}"',
            f"{v} = x'61'", f"hex({v}) = hex({k})", f"typeof({v}) = 'text' AND {v} = {k}")
        return f"SELECT {self.fix('id', 'count(*)')} FROM {self.source()} WHERE {c}"


class Hunt:
    "Families of statements, and what is found among their pairs."

    def __init__(self, size: int, databases: int):
        self.size, self.databases = size, databases
        self.counts: Counter[str] = Counter()
        self.themes: Counter[str] = Counter()
        self.found: list[dict] = []

    def family(self, seed: int) -> None:
        rng = Random(f"family {seed}")
        script = SCHEMAS[seed % len(SCHEMAS)]
        data, writer = Database(script), Statements(rng)
        tidy = rng.random() < 0.5
        data.fill(rng, 0, 0.0 if tidy else 0.5)
        schema = read_facts(data.con)
        statements: dict[str, object] = {}
        for _ in range(3 * self.size):
            sql = writer.write()
            if len(statements) < self.size and sql not in statements and data.run(sql) is not None:
                self.counts["statements"] += 1
                try:
                    statements[sql] = bind(sql, schema)
                except (Unproved, RecursionError):
                    self.counts["outside"] += 1
        proved = list(self.proofs(statements, schema, rng))
        self.counts["families"] += 1
        self.themes[writer.theme] += len(proved)
        if not proved:
            return
        used = {sql for gold, sql, _ in proved} | {gold for gold, _, _ in proved}
        left = list(proved)
        for n in range(self.databases):
            data.fill(Random(f"{seed} {n}"), 0.3, 0.7 if n % 3 else 0.0)
            rows = {sql: self.result(data, sql) for sql in used}
            kept: dict = {}
            for pair in list(left):
                gold, sql, assumptions = pair
                for a in assumptions:
                    if a not in kept:
                        kept[a] = data.keeps(a)
                if not all(kept[a] for a in assumptions):
                    continue
                self.counts["runs"] += 1
                one, two = rows[gold], rows[sql]
                if one is not None and two is not None and one != two and not self.is_luck(data, gold, assumptions):
                    left.remove(pair)
                    self.report(gold, sql, assumptions, schema, data, script, seed)

    def result(self, data: Database, sql: str):
        rows = data.run(sql)
        return None if rows is None else sorted(tuple(map(key, row)) for row in rows)

    def is_luck(self, data: Database, gold: str, assumptions) -> bool:
        "Whether gold's LIMIT may have cut a tie, where the proof takes it that none is cut."
        if "no_ties" not in [a.kind for a in assumptions]:
            return False
        first, n = self.result(data, gold), re.search(r"LIMIT (\d)", gold)
        more = [self.result(data, gold.replace(n.group(), f"LIMIT {int(n[1]) + d}", 1)) for d in (1,
            9)] if n else [None]
        data.con.pragma("reverse_unordered_selects", True)
        second = self.result(data, gold)
        data.con.pragma("reverse_unordered_selects", False)
        return first != second or more[0] != first  # something is cut: whether it ties is not looked at

    def proofs(self, statements: dict, schema, rng: Random):
        for pair in combinations(statements, 2):
            gold, sql = rng.sample(pair, 2)
            self.counts["pairs"] += 1
            for with_data in (False, True):
                attempt = _Attempt(schema, with_data, False)
                try:
                    with counted(_STEPS):
                        if attempt.run(statements[gold].copy(), statements[sql].copy()):
                            self.counts["proved with facts of the data" if with_data else "proved"] += 1
                            yield gold, sql, attempt.assumptions()
                            break
                except (Unproved, RecursionError):
                    continue
                except Exception as e:
                    self.counts["raised"] += 1
                    self.found.append({"kind": "raised", "error": repr(e), "gold": gold, "sql": sql})
                    break

    def report(self, gold, sql, assumptions, schema, data: Database, script, seed) -> None:
        proof = prove(gold, sql, schema)
        kind = "false" if proof else "leaks"
        self.counts[kind] += 1
        rows = {t: data.run(f"SELECT * FROM {t}") for t in ("t", "u")}
        self.found.append({"kind": kind, "gold": gold, "sql": sql, "assumptions": list(map(str, assumptions)),
            "rows": repr(rows), "results": repr((data.run(gold), data.run(sql))), "schema": script, "family": seed})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="of CPU")
    parser.add_argument("--seed", type=int, default=0, help="of the first family")
    parser.add_argument("--size", type=int, default=40, help="statements of a family")
    parser.add_argument("--databases", type=int, default=1000, help="of a family")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    hunt, start, seed = Hunt(args.size, args.databases), time.process_time(), args.seed
    while time.process_time() - start < 60 * args.minutes:
        hunt.family(seed)
        seed += 1
    result = {"seed": args.seed, "size": args.size, "databases of each": args.databases, "solver": NAME,
        **hunt.counts}
    result |= {"cpu_minutes": round((time.process_time() - start) / 60, 1), "proofs by theme": {k[6:]: n for k,
        n in hunt.themes.most_common()}}
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps({**result, "found": hunt.found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
