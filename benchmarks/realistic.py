"""Wrong queries and realistic instances that prove them wrong, made without the package's own generator.

A realistic instance holds what the data of a database shows: no NULL in a column without one, no value twice in a
column without duplicates, references that exist, columns that determine others (a state its code), real values and a
few that lie beside them. Sizes of groups go
around the numbers that a query names. Rows lie in several shuffled orders, and an instance on which a query's own
result depends on that order proves nothing.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from mutants import _with_argument, one_edit_mutants
from sqlglot import exp, parse_one

from sql_env.grading.answers import compare_rows
from sql_env.sql.analysis import TieTest, parse_sql
from sql_env.sql.text import quote_identifier
from sql_env.sql.writes import parse_write

DATE = re.compile(r"\d{4}-\d\d(-\d\d)?")
MAX_ROWS = 400  # rows of a table that are read
MAX_TICKS = 3000  # thousands of operations of one query


class Table(NamedTuple):
    "A table with what its data shows."

    name: str
    columns: list[str]
    types: list[str]
    rows: list[list]
    unique: list[bool]  # columns without duplicates, of at least 5 rows or declared
    references: list[
        tuple[int, str, str]
    ]  # column, parent, parent's column; of one column each, in the data too
    determined: list[tuple[int, int]]  # a column, and one that its value determines in all rows
    declared: list[bool]  # columns that are the primary key


def connect(path: Path | str) -> sqlite3.Connection:
    con = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    con.text_factory = lambda data: data.decode("utf-8", "replace")
    return con


def read_table(con: sqlite3.Connection, name: str) -> Table:
    "A table of a database; of a large one evenly spread rows."
    quoted = quote_identifier(name)
    info = con.execute(f"PRAGMA table_info({quoted})").fetchall()
    columns = [row[1] for row in info]
    total = con.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]
    step = max(1, total // MAX_ROWS)
    rows = [
        list(row) for i, row in enumerate(con.execute(f"SELECT * FROM {quoted}")) if i % step == 0
    ]
    unique, primary = [], []
    for place, column in enumerate(columns):
        c = quote_identifier(column)
        n, distinct = con.execute(
            f"SELECT count({c}), count(DISTINCT {c}) FROM {quoted}"
        ).fetchone()
        declared = info[place][5] == 1 and sum(1 for row in info if row[5]) == 1
        unique.append(declared or (n == distinct and n >= 5))
        primary.append(declared)
    references = []
    keys = con.execute(f"PRAGMA foreign_key_list({quoted})").fetchall()
    for key in keys:
        target = key[4] or primary_column(con, key[2])
        if sum(1 for other in keys if other[0] == key[0]) == 1 and key[3] in columns and target:
            references.append((columns.index(key[3]), key[2].lower(), target.lower()))
    determined = determined_columns(rows, unique)
    types = [row[2].upper() for row in info]
    return Table(name, columns, types, rows, unique, references, determined, primary)


MIN_REPEATS = 8  # rows that repeat a value before what it determines is believed


def determined_columns(rows: list[list], unique: list[bool]) -> list[tuple[int, int]]:
    "Pairs of columns of which the first determines the second in all rows, where that is hardly luck."
    pairs = []
    distinct = [len({row[i] for row in rows}) for i in range(len(unique))]
    for a in sorted(range(len(unique)), key=lambda i: -distinct[i]):
        if unique[a] or len(rows) - distinct[a] < MIN_REPEATS:
            continue
        for b in range(len(unique)):
            is_told = any(target == b for _, target in pairs)
            if a == b or unique[b] or is_told or (b, a) in pairs or distinct[b] < 3:
                continue
            if len({(row[a], row[b]) for row in rows}) == distinct[a]:
                pairs.append((a, b))
    return pairs


def primary_column(con: sqlite3.Connection, table: str) -> str:
    info = con.execute(f"PRAGMA table_info({quote_identifier(table)})")
    keyed = [row[1] for row in info if row[5]]
    return keyed[0] if len(keyed) == 1 else ""


def read_tables(path: Path | str) -> list[Table]:
    "The tables of a database, parents before children as far as possible."
    with closing(connect(path)) as con:
        names = con.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
        tables = [read_table(con, name) for (name,) in names.fetchall()]
    ordered: list[Table] = []
    while tables:
        done = {table.name.lower() for table in ordered}
        waiting = {table.name.lower() for table in tables}
        ready = [
            t
            for t in tables
            if all(p in done or p not in waiting or p == t.name.lower() for _, p, _ in t.references)
        ] or tables[:1]
        ordered += ready
        tables = [t for t in tables if t not in ready]
    return ordered


def literals_of(sql: str) -> tuple[dict[str, list], list[int]]:
    "Values that a query compares each column with, and the numbers that it compares counts with."
    tree = parse_one(sql, read="sqlite")
    compared: dict[str, list] = {}
    sizes: list[int] = []
    for node in tree.find_all(exp.Literal):
        value: Any = node.name
        if not node.is_string:
            value = float(value) if "." in value else int(value)
        predicate = node.find_ancestor(exp.Predicate)
        if predicate is None:
            continue
        columns = [c.name.lower() for c in predicate.find_all(exp.Column)]
        counts = node.find_ancestor(exp.Having) or predicate.find(exp.Count)
        if counts and isinstance(value, int) and value <= 1000:
            sizes.append(value)
        for column in columns:
            compared.setdefault(column, []).append(value)
    return compared, sizes


def beside(value: Any, rng: Random) -> Any:
    "A value that lies beside another."
    if isinstance(value, int):
        return value + rng.choice((-1, 0, 0, 1, 2, -2))
    if isinstance(value, float):
        return round(value + rng.choice((-1, 0, 0, 1, 0.5, -0.5)), 6)
    if isinstance(value, str):
        plain = value.replace("%", "").replace("_", "x")
        return rng.choice(
            (plain, plain, plain.swapcase(), f"{plain} II", f"The {plain}", plain[:-1] or plain)
        )
    return value


def as_type_of(value: Any, like: Sequence) -> Any:
    "A value as the column holds them, or None if it can't be."
    kinds = {type(v) for v in like if v is not None}
    if kinds <= {int, float} and kinds:
        try:
            number = float(value)
        except (TypeError, ValueError):
            return None
        return int(number) if kinds == {int} else number
    if kinds != {str} or value == "":
        return None
    dated = all(DATE.match(v) for v in like if v)
    if not dated:
        return str(value)
    form = next(
        v for v in like if v
    )  # a date keeps the form of the column, the time of day included
    return f"{value}{form[len(str(value)) :]}" if DATE.match(str(value)) else None


def new_values(table: Table, place: int, near: list, n: int, rng: Random) -> list:
    "Values for `n` rows of a column."
    real = [row[place] for row in table.rows]
    if table.unique[place]:
        extra = []
        if all(isinstance(v, int) for v in real):
            top = max(real, default=0)
            extra = list(range(top + 1, top + 1 + max(0, n - len(real))))
        elif n > len(real):
            extra = [f"{rng.choice(real)} {i}" for i in range(n - len(real))] if real else []
        pool = [*real, *extra]
        values = rng.sample(pool, n) if len(pool) >= n else [*pool, *[None] * (n - len(pool))]
        used = set(values)
        for value in near:  # some of the values that the query names occur, once
            other = as_type_of(beside(value, rng), real)
            if other is not None and other not in used and rng.random() < 0.5 and values:
                values[rng.randrange(len(values))] = other
                used.add(other)
        return values
    if not real:
        return [None] * n
    few = rng.sample(real, min(len(real), rng.choice((2, 3, 5, 20, 400))))
    values = rng.choices(few, weights=[rng.random() ** 3 + 0.01 for _ in few], k=n)
    candidates = [as_type_of(beside(v, rng), real) for v in near for _ in range(4)]
    distinct = set(real)
    if len(distinct) == 1 and all(type(v) is str and v for v in real):
        candidates += [f"Other {real[0]}", real[0]]
    if all(type(v) in (int, float) for v in real):
        candidates += [v + rng.choice((1, -1, 0)) if type(v) is int else v for v in few[:3]]
        if min(real) >= 0:
            candidates = [v for v in candidates if v is None or v >= 0]
    candidates = [v for v in candidates if v is not None]
    if candidates and rng.random() < 0.7:
        share = rng.choice((0.2, 0.5, 0.8))
        values = [rng.choice(candidates) if rng.random() < share else v for v in values]
    return values


def realistic_rows(tables: Sequence[Table], sql: str, rng: Random) -> dict[str, list[tuple]]:
    "New rows for each table."
    compared, sizes = literals_of(sql)
    filled: dict[str, list[tuple]] = {}
    by_name = {table.name.lower(): table for table in tables}
    widest = max([s for s in sizes if s <= 300], default=0)
    for table in tables:
        if not table.rows:
            filled[table.name] = []
            continue
        n = rng.choice((8, 15, 30, 60))
        if table.references or not any(t.references for t in tables):
            n = max(n, rng.choice((0, 2, 4)) * widest)
        shuffled = rng.random() < 0.8  # otherwise whole real rows
        chosen = [rng.choice(table.rows) for _ in range(n)]
        columns = []
        for place, column in enumerate(table.columns):
            values = [row[place] for row in chosen]
            if table.unique[place] or (shuffled and rng.random() < 0.6):
                values = new_values(table, place, compared.get(column.lower(), []), n, rng)
            columns.append(values)
        for place, parent, target in table.references:
            other = by_name.get(parent)
            if (
                other is None
                or other is table
                or table.unique[place]
                and not filled.get(other.name)
            ):
                continue
            at = [c.lower() for c in other.columns].index(target)
            keys = [row[at] for row in filled.get(other.name, []) if row[at] is not None]
            real = [row[place] for row in table.rows]
            if not keys:
                continue
            if type(next((v for v in real if v is not None), None)) is str:
                keys = [str(key) for key in keys]
            if table.unique[place]:
                columns[place] = rng.sample(keys, min(len(keys), n))
            else:
                few = rng.sample(keys, min(len(keys), rng.choice((2, 4, 8, 50))))
                weights = [rng.random() ** 2 + 0.02 for _ in few]
                drawn = rng.choices(few, weights=weights, k=n)
                columns[place] = [
                    None if old is None else new
                    for old, new in zip([row[place] for row in chosen], drawn)
                ]
        for source, target in table.determined:
            known = {row[source]: row[target] for row in table.rows}
            pairs = zip(columns[source], columns[target])
            columns[target] = [known.setdefault(a, b) for a, b in pairs]
        rows = list(zip(*columns))
        filled[table.name] = rows
    return filled


def has_composite_reference(con: sqlite3.Connection, table: str) -> bool:
    "Whether a table has a foreign key of several columns that its data obeys."
    name = quote_identifier(table)
    keys = con.execute(f"PRAGMA foreign_key_list({name})").fetchall()
    wide = any(key[1] for key in keys)  # the second column of a key
    return wide and not con.execute(f"PRAGMA foreign_key_check({name})").fetchall()


def drop_orphans(con: sqlite3.Connection, table: str) -> None:
    "Delete rows that refer to nothing."
    name = quote_identifier(table)
    orphans = {row[1] for row in con.execute(f"PRAGMA foreign_key_check({name})")}
    con.executemany(f"DELETE FROM {name} WHERE rowid = ?", [(rowid,) for rowid in orphans])


class RealisticInstance:
    "One instance, with its rows in several orders."

    def __init__(
        self, path: Path | str, rows: dict[str, list[tuple]], rng: Random, orders: int = 3
    ):
        with closing(connect(path)) as con:
            schema = con.execute(
                "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND type IN ('table', 'view')"
                " AND name NOT LIKE 'sqlite%' ORDER BY type"
            ).fetchall()
            composite = [t for t in rows if has_composite_reference(con, t)]
        self.copies = []
        kept: dict[str, list[tuple]] = {}
        for number in range(orders):
            con = sqlite3.connect(":memory:")
            for (sql,) in schema:
                con.execute(sql)
            for table, lines in (kept or rows).items():
                lines = list(lines)
                if number:
                    rng.shuffle(lines)
                if lines:
                    marks = ",".join("?" * len(lines[0]))
                    name = quote_identifier(table)
                    con.executemany(f"INSERT OR IGNORE INTO {name} VALUES ({marks})", lines)
            for table in composite * (not number):
                drop_orphans(con, table)
            if not number:  # rows that a key refuses are left out of the other orders too
                kept = {
                    t: con.execute(f"SELECT * FROM {quote_identifier(t)}").fetchall() for t in rows
                }
            self.copies.append(con)

    def results(self, sql: str) -> list[list[tuple] | None]:
        "The result in each order, None for one that fails or takes too long."
        found: list[list[tuple] | None] = []
        for con in self.copies:
            ticks = iter(range(MAX_TICKS))
            con.set_progress_handler(lambda left=ticks: next(left, None) is None, 1000)
            try:
                found.append(con.execute(sql).fetchmany(20_000))
            except sqlite3.Error:
                found.append(None)
        return found

    def ties(self, test: TieTest) -> bool:
        "Whether the first row that a query cuts off ties with the last one that it keeps."
        if test.columns is None:
            return False
        rows = self.results(test.sql)[0] or []
        keys = [[row[i] for i in test.columns] for row in rows]
        return len(keys) > test.limit and keys[test.limit - 1] == keys[test.limit]

    def close(self) -> None:
        for con in self.copies:
            con.close()


def wider_mutants(sql: str, tables: Sequence[Table], rng: Random) -> Iterator[tuple[str, str]]:
    "One-edit mutants of the package and others: any comparison, thresholds further off, other columns, sort keys."
    yield from one_edit_mutants(sql)
    tree = parse_one(sql, read="sqlite")
    columns = {table.name.lower(): table.columns for table in tables}
    used = {t.alias_or_name.lower(): t.name.lower() for t in tree.find_all(exp.Table)}
    for node in list(tree.walk()):
        for kind, other in other_nodes(node, used, columns, rng):
            node.replace(other)
            text = tree.sql("sqlite")
            other.replace(node)
            yield kind, text


COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def other_nodes(node, used: dict, columns: dict, rng: Random) -> Iterator[tuple[str, Any]]:
    "What may stand in the place of a node."
    if isinstance(node, COMPARISONS) and not node.find_ancestor(exp.Join):
        for kind in COMPARISONS:
            if type(node) is not kind:
                yield "comparison", kind(this=node.this.copy(), expression=node.expression.copy())
    if isinstance(node, exp.Literal) and not node.is_string and "." not in node.name:
        within = node.find_ancestor(exp.Having, exp.Where)
        value = int(node.name)
        if isinstance(within, exp.Having):
            for other in (value + 2, value - 2, value * 2, value + 10):
                if other >= 0:
                    yield "threshold", exp.Literal.number(other)
        elif within:
            for other in (value + 5, value * 2):
                yield "number", exp.Literal.number(other)
    if isinstance(node, exp.Column) and not node.find_ancestor(exp.Join):
        names = [used.get(node.table.lower(), "")] if node.table else list(used.values())
        home = next(
            (columns[n] for n in names if node.name.lower() in map(str.lower, columns.get(n, ()))),
            (),
        )
        others = [c for c in home if c.lower() != node.name.lower()]
        kind = "sort_column" if node.find_ancestor(exp.Ordered) else "column"
        for other in rng.sample(others, min(len(others), 3)):
            new = node.copy()
            new.set("this", exp.to_identifier(other, quoted=True))
            yield kind, new


def careless_mutants(sql: str, tables: Sequence[Table]) -> Iterator[tuple[str, str]]:
    "What a careless writer makes of a query: kind of the slip and SQL. Made apart from the package's own mutants."
    tree = parse_one(sql, read="sqlite")
    used = {t.name.lower() for t in tree.find_all(exp.Table)}
    labels = [
        column
        for table in tables
        if table.name.lower() in used
        for place, column in enumerate(table.columns)
        if re.search(r"name|title", column, re.I)
        and table.unique[place]
        and not table.declared[place]
    ]
    for node in list(tree.walk()):
        for kind, other in careless_nodes(node, labels):
            parent, key = node.parent, node.arg_key
            if other is None:
                parent.set(key, None)
                yield kind, tree.sql("sqlite")
                parent.set(key, node)
            else:
                node.replace(other)
                yield kind, tree.sql("sqlite")
                other.replace(node)


def careless_nodes(node, labels: Sequence[str]) -> Iterator[tuple[str, Any]]:
    "What may stand in the place of a node by a slip; None if it is left out."
    if isinstance(node, (exp.Having, exp.Where)):
        yield "condition_left_out", None
    if isinstance(node, exp.Distinct) and isinstance(node.parent, exp.Select):
        yield "distinct_left_out", None
    if isinstance(node, (exp.And, exp.Or)):
        yield "term_left_out", node.this.copy()
        yield "term_left_out", node.expression.copy()
    if isinstance(node, (exp.Max, exp.Min)) and node.find_ancestor(exp.Select).args.get("group"):
        yield (
            "min_for_max",
            (exp.Min if isinstance(node, exp.Max) else exp.Max)(this=node.this.copy()),
        )
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        for label in labels:
            column = exp.column(exp.to_identifier(label, quoted=True))
            yield "labels_counted", exp.Count(this=exp.Distinct(expressions=[column]))
    literal = node.args.get("expression") if isinstance(node, COMPARISONS) else None
    if not isinstance(literal, exp.Literal) or node.find_ancestor(exp.Join):
        return
    if literal.is_string and isinstance(node, exp.EQ) and len(literal.name) >= 6:
        for pattern in (f"{literal.name[:4]}%", f"%{literal.name[-4:]}", f"%{literal.name[1:-1]}%"):
            yield "affix", exp.Like(this=node.this.copy(), expression=exp.Literal.string(pattern))
    if not literal.is_string and literal.is_int:
        n = int(literal.name)
        beyond = {exp.GT: n + 1, exp.LT: n - 1, exp.GTE: n, exp.LTE: n}.get(type(node))
        if beyond is not None:
            equal = exp.EQ(this=node.this.copy(), expression=exp.Literal.number(beyond))
            yield "equals_for_beyond", equal
        for other in {n * 5, n // 2, 1} - {n}:
            yield (
                "other_bound",
                type(node)(this=node.this.copy(), expression=exp.Literal.number(other)),
            )


def results_agree(
    rows: list[tuple] | None,  # None: the query failed
    gold: list[tuple],
    ranks: Sequence[int] | None,  # of gold's rows, None without an order
) -> bool:
    "Whether a query gives gold's result."
    if rows is None or len(rows) != len(gold):
        return False
    return rows == gold or bool(compare_rows(rows, gold, False if ranks is None else ranks))


def wrong_column_mutants(
    sql: str,
    columns: Mapping[str, Sequence[str]],  # of each table, by its name in lower case
) -> list[str]:
    "Copies of a query with one column replaced by the next one of its table; raises `sqlglot.ParseError`."
    tree = parse_sql(sql)
    tables = {t.alias_or_name.lower(): t.name.lower() for t in tree.find_all(exp.Table)}
    mutants = []
    for node in list(tree.find_all(exp.Column)):
        if node.find_ancestor(exp.Join):
            continue
        places = [tables.get(node.table.lower(), "")] if node.table else list(tables.values())
        new = next_column(node.name.lower(), [columns.get(table, ()) for table in places])
        if new is not None:
            with _with_argument(node, "this", exp.to_identifier(new, quoted=True)):
                mutants.append(tree.sql("sqlite"))
    return list(dict.fromkeys(mutants))


def next_column(name: str, tables: Iterable[Sequence[str]]) -> str | None:
    "The column after `name` in the first table that has it; None without another one."
    for columns in tables:
        lower = [column.lower() for column in columns]
        if name in lower:
            after = (lower.index(name) + 1) % len(columns)
            return columns[after] if len(columns) > 1 else None
    return None


def write_mutants(sql: str) -> list[tuple[str, str]]:
    "One-edit neighbours of a statement that writes: (name of the edit, SQL), no text twice."
    tree = parse_write(sql)
    found = {}
    if tree.args.get("where"):
        without = tree.copy()
        without.set("where", None)
        found[without.sql("sqlite")] = "drop_where"
    for name, text in one_edit_mutants(tree.sql("sqlite")):
        try:
            new = parse_write(text)
        except Exception:  # an edit of what is no condition
            continue
        if not isinstance(new, exp.Update) or all(isinstance(e, exp.EQ) for e in new.expressions):
            found.setdefault(text, name)
    return [(name, text) for text, name in found.items()]
