"""Small databases on which two queries may differ"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from fractions import Fraction
from time import thread_time
from typing import Any

import apsw
from sqlglot import exp

from ...sql.values import format_value, quote_identifier
from .normal_form import Block, Column, Node
from .facts import Assumption, Schema, TableFacts, create_tables

_MAX_ROWS = 4  # of a table
_SEARCH_SECONDS = 0.05  # of processor time
_MAX_TICKS = 200  # thousands of operations of one query


def all_assumptions(schema: Schema) -> list[Assumption]:
    "All that the declarations and the data say."
    found = []
    for table in schema.tables.values():
        for c in table.columns.values():
            if c.required or not c.has_null:
                found.append(Assumption("not_null", table.name, (c.name,), (), c.required))
            if c.numerals:
                found.append(Assumption("numerals", table.name, (c.name,)))
            if c.holds:
                found.append(Assumption("holds", table.name, (c.name,), tuple(sorted(c.holds))))
        found += [Assumption("key", table.name, key) for key in table.keys + table.natural_keys]
        found += [Assumption("reference", table.name, r.columns, (r.parent,), True) for r in table.references]
        found += [Assumption("filled", table.name)] if table.is_filled else []
    return found


def _values_near(trees: Iterable[exp.Expression]) -> dict[str, dict[str, list]]:
    "For each column the values it is compared with, and those beside them, by storage class."
    from ...sql.analysis import column_literals

    found: dict[str, dict[str, list]] = {}
    for tree in trees:
        for column, values in column_literals(tree.sql("sqlite")).items():
            kinds = found.setdefault(column, {"integer": [], "real": [], "text": []})
            for value in values:
                kinds["text"].append(str(value).replace("%", ""))
                number = int(value) if str(value).isdecimal() else value
                if isinstance(number, (int, float)):
                    kinds["integer"] += [int(number), int(number) + 1, int(number)]
                    kinds["real"] += [float(number), number + 0.5]
                    kinds["text"].append(str(int(number) + 1))
    return found


def _literals_of(trees: Iterable[exp.Expression]) -> tuple[list, list[str]]:
    "Numbers and texts in some queries, with what lies beside them."
    numbers: dict[Any, None] = dict.fromkeys((0, 1, 2, 3))
    texts: dict[str, None] = dict.fromkeys(("a", "b", "B"))
    for tree in trees:
        for node in tree.find_all(exp.Literal):
            if node.is_string:
                plain = node.name.replace("%", "").replace("_", "x")
                texts |= dict.fromkeys((node.name, plain, plain.swapcase(), f"x{plain}"))
                if plain.isdecimal():
                    numbers |= dict.fromkeys((int(plain), int(plain) + 1))
            else:
                value = int(node.name) if node.is_int else float(node.name)
                numbers |= dict.fromkeys((value, value + 1, value - 1))
                texts |= dict.fromkeys((node.name,))
        for name in tree.find_all(exp.Identifier):
            if name.quoted:  # SQLite reads an unknown "name" as a text
                texts |= dict.fromkeys((name.name, name.name.swapcase()))
    return list(numbers), list(texts)


@dataclass(frozen=True)
class Counterexample:
    "A database that keeps all assumptions, on which two queries differ."

    tables: dict[str, list[tuple]]
    columns: dict[str, tuple[str, ...]]
    gold_rows: list[tuple]
    rows: list[tuple]

    def __str__(self):
        lines = []
        for table, rows in self.tables.items():
            if rows:
                lines.append(f"{table}({', '.join(self.columns[table])})")
                lines += ["  " + " | ".join(map(format_value, row)) for row in rows]
        said = [", ".join("(" + ", ".join(map(format_value, row)) + ")" for row in rows) or "no rows"
                for rows in (self.gold_rows, self.rows)]
        return "\n".join([*lines, f"gold: {said[0]}", f"query: {said[1]}"])


class Filler:
    "Fills the tables of a schema with few random rows that keep some assumptions."

    def __init__(self, schema: Schema, tables: Iterable[str], assumptions: Iterable[Assumption], trees: Sequence):
        self.schema = schema
        self.tables = self._parents_first(dict.fromkeys(tables))
        self.con = create_tables(schema.statements)
        self.con.set_progress_handler(self._tick, 1000)
        self.ticks = 0
        self.numbers, self.texts = _literals_of(trees)
        self.near = _values_near(trees)
        assumptions = list(assumptions)
        self.required = {(a.table, a.columns[0]) for a in assumptions if a.kind == "not_null"}
        self.holds = {(a.table, a.columns[0]): a.detail for a in assumptions if a.kind == "holds"}
        self.numerals = {(a.table, a.columns[0]) for a in assumptions if a.kind == "numerals"}
        self.filled = {a.table for a in assumptions if a.kind == "filled"}
        self.references = [(a.table, r) for a in assumptions if a.kind == "reference" and a.table in self.tables
                           for r in schema.tables[a.table].references if r.columns == a.columns and r.parent in self.tables]
        for n, a in enumerate(a for a in assumptions if a.kind == "key" and a.table in self.tables):
            names = ", ".join(quote_identifier(c) for c in a.columns)
            self.con.execute(f"CREATE UNIQUE INDEX {quote_identifier(f'sqlenv key {n}')} ON {quote_identifier(a.table)} ({names})")

    def _tick(self) -> bool:
        self.ticks += 1
        return self.ticks > _MAX_TICKS

    def _parents_first(self, tables: Mapping[str, None]) -> list[str]:
        "Tables and all that they refer to, parents before children as far as there is no circle."
        found: dict[str, None] = {}

        def add(name: str, path: tuple[str, ...]) -> None:
            if name in found or name in path or name not in self.schema.tables:
                return
            for reference in self.schema.tables[name].references:
                add(reference.parent, (*path, name))
            found[name] = None

        for name in tables:
            add(name, ())
        return list(found)

    def value(self, table: TableFacts, column: str, rng: Random) -> Any:
        "A random value that a column may hold."
        facts = table.columns[column]
        if (table.name, column) not in self.required and rng.random() < 0.2:
            return None
        if (table.name, column) in self.numerals:
            return str(int(rng.choice(self.numbers)))
        kinds = self.holds.get((table.name, column))
        if kinds is None and facts.rowid:
            kinds = ("integer",)
        elif kinds is None:
            common = {"TEXT": ("text",), "INTEGER": ("integer",), "REAL": ("real",)}
            kinds = common.get(facts.affinity, ("integer", "text"))
            if rng.random() < 0.15:
                kinds = ("integer", "real", "text")
        kind = rng.choice(kinds)
        near = self.near.get(column, {}).get(kind)
        if near and rng.random() < 0.6:
            return rng.choice(near)
        if kind == "text":
            return rng.choice(self.texts)
        if kind == "blob":
            return bytes([rng.randrange(3)])
        number = rng.choice(self.numbers)
        return int(number) if kind == "integer" else number + rng.choice((0.0, 0.5))

    def row(self, table: TableFacts, rng: Random, wanted: Mapping[str, Any]) -> list:
        "A random row, with some values as wanted and references that mostly find their row."
        row = {c: wanted[c] if c in wanted else self.value(table, c, rng) for c in table.columns}
        for name, reference in self.references:
            if name == table.name and not set(reference.columns) & set(wanted) and rng.random() < 0.95:
                names = ", ".join(quote_identifier(c) for c in reference.parent_columns)
                keys = self.con.execute(f"SELECT {names} FROM {quote_identifier(reference.parent)}").fetchall()
                if keys and (row[reference.columns[0]] is not None or rng.random() < 0.7):
                    row.update(zip(reference.columns, rng.choice(keys)))
        return list(row.values())

    def fill(self, rng: Random, wanted: Mapping[str, Sequence[Mapping[str, Any]]] = {}) -> bool:
        "New rows for all tables; whether they keep the assumptions."
        for name in self.tables:
            self.con.execute(f"DELETE FROM {quote_identifier(name)}")
        for name in self.tables:
            table = self.schema.tables[name]
            marks = ", ".join("?" * len(table.columns))
            names = ", ".join(map(quote_identifier, table.columns))
            sql = f"INSERT OR IGNORE INTO {quote_identifier(name)} ({names}) VALUES ({marks})"
            more = rng.choice((0, 1, 2, 3, _MAX_ROWS)) if name not in wanted else rng.choice((0, 0, 1, 2))
            for values in (*wanted.get(name, ()), *[{}] * more):
                try:
                    self.con.execute(sql, self.row(table, rng, values))
                except apsw.Error:
                    continue
        self.drop_orphans()
        return all(self.con.execute(f"SELECT 1 FROM {quote_identifier(t)}").fetchall() for t in self.filled & set(self.tables))

    def drop_orphans(self) -> None:
        "Delete rows that refer to none, until there are no more."
        changes = -1
        while changes != self.con.total_changes():
            changes = self.con.total_changes()
            for name, reference in self.references:
                pairs = [f"b.{quote_identifier(y)} = {quote_identifier(name)}.{quote_identifier(x)}"
                         for x, y in zip(reference.columns, reference.parent_columns)]
                there = [f"{quote_identifier(x)} IS NOT NULL" for x in reference.columns]
                self.con.execute(f"""DELETE FROM {quote_identifier(name)} WHERE {" AND ".join(there)} AND NOT EXISTS
                    (SELECT 1 FROM {quote_identifier(reference.parent)} b WHERE {" AND ".join(pairs)})""")

    def run(self, sql: str) -> list[tuple] | None:
        "The rows of a query, None if it fails."
        self.ticks = 0
        try:
            return self.con.execute(sql).fetchall()
        except apsw.Error:
            return None

    def is_valid(self) -> bool:
        "Whether the rows keep the assumptions that rows can lose: references, and tables that have one."
        before = self.con.total_changes()
        self.drop_orphans()
        return before == self.con.total_changes() and all(
            self.con.execute(f"SELECT 1 FROM {quote_identifier(t)}").fetchall() for t in self.filled & set(self.tables))

    def put(self, tables: Mapping[str, Sequence[tuple]]) -> None:
        "Exactly these rows."
        for name, rows in tables.items():
            self.con.execute(f"DELETE FROM {quote_identifier(name)}")
            for row in rows:
                self.con.execute(f"INSERT INTO {quote_identifier(name)} VALUES ({', '.join('?' * len(row))})", row)

    def rows(self) -> dict[str, list[tuple]]:
        "The rows of each table."
        return {t: self.con.execute(f"SELECT * FROM {quote_identifier(t)}").fetchall() for t in self.tables}


def _cell_key(value: Any) -> tuple:
    "A value as it is compared: 3 and 3.0 are the same, 3 and '3' are not."
    if value is None:
        return (0, 0)
    if isinstance(value, (int, float)):
        return (1, float(f"{value:.9g}"))
    return (2, value) if isinstance(value, str) else (3, value)


def _as_bag(rows: Iterable[tuple]) -> list:
    return sorted(tuple(map(_cell_key, row)) for row in rows)


class Judge:
    "Says whether a query gives other rows than gold on a filled database."

    def __init__(self, gold: str, sql: str):
        from ...sql.analysis import select_order_keys, tie_tests

        self.gold, self.sql = gold, sql
        try:
            self.keys = select_order_keys(gold)
        except ValueError:
            self.keys = None
        self.ties = tie_tests(gold)

    def is_luck(self, filler: Filler) -> bool:
        "Whether gold's result depends on the order in which rows lie: a tie is cut."
        for test in self.ties:
            found = filler.run(test.sql)
            if found is None or test.columns is None:
                return True
            keys = [tuple(_cell_key(row[c]) for c in test.columns) for row in found]
            if len(keys) > test.limit and (test.limit == 0 or keys[test.limit - 1] == keys[test.limit]):
                return True
        return False

    def refuted(self, filler: Filler) -> tuple[list, list] | None:
        "The results if they differ, also where they are read as an answer."
        from ..answers import compare_written

        found = self.differ(filler)
        if found is None or compare_written(found[1], found[0], self.ranks(found[0], filler)).correct:
            return None
        return found

    def ranks(self, gold: list[tuple], filler: Filler) -> bool | list[int]:
        "The rank of each of gold's rows, False if gold is not sorted."
        if self.keys is None or len(gold) < 2:
            return False
        keyed = filler.run(self.keys.sql) or []
        keys = [[_cell_key(row[c]) for c in self.keys.columns] for row in keyed]
        ranks = [0]
        for before, key in zip(keys, keys[1:]):
            ranks.append(ranks[-1] + (before != key))
        return ranks

    def differ(self, filler: Filler) -> tuple[list, list] | None:
        "Gold's rows and the other rows if they differ, and not by luck."
        gold = filler.run(self.gold)
        if gold is None or self.is_luck(filler):
            return None
        rows = filler.run(self.sql)
        if rows is None:
            return None
        return None if self.agree(gold, rows, filler) else (gold, rows)

    def agree(self, gold: list[tuple], rows: list[tuple], filler: Filler) -> bool:
        if _as_bag(gold) != _as_bag(rows):
            return False
        if self.keys is None or len(gold) < 2:
            return True
        start, ranks = 0, self.ranks(gold, filler)
        for _, group in groupby(ranks if isinstance(ranks, list) else []):
            end = start + len(list(group))
            if _as_bag(gold[start:end]) != _as_bag(rows[start:end]):
                return False
            start = end
        return True


def _shrunk(filler: Filler, judge: Judge) -> Counterexample:
    "The database on which two queries differ, without the rows that this does not need."
    tables = filler.rows()
    for name in reversed(filler.tables):
        for row in list(tables[name]):
            fewer = {**tables, name: [r for r in tables[name] if r is not row]}
            filler.put(fewer)
            if filler.is_valid() and judge.refuted(filler):
                tables = fewer
    filler.put(tables)
    found = judge.refuted(filler)
    assert found is not None
    columns = {t: tuple(filler.schema.tables[t].columns) for t in filler.tables}
    return Counterexample(tables, columns, *found)


def model_rows(block: Block, terms: Mapping[Node, Any], texts: Mapping[str, Any], model: Any) -> dict[str, list[dict]]:
    "The rows for which an implication failed, by table, as z3 found them."
    import z3

    def number(expression) -> Fraction:
        value = model.eval(expression, model_completion=True)
        return Fraction(value.numerator_as_long(), value.denominator_as_long())

    known = sorted((number(x), text) for text, x in texts.items())
    top = number(z3.Real("texts"))
    rows: dict[str, list[dict]] = {}
    for row in block.rows:
        values: dict[str, Any] = {}
        for term, expression in terms.items():
            if isinstance(term, Column) and term.row == row:
                place = number(expression)
                if z3.is_true(model.eval(z3.Bool(f"null {row.number}.{term.name}"))):
                    values[term.name] = None
                elif place > top and known:
                    values[term.name] = _text_at(place, known)
                else:
                    values[term.name] = int(place) if place.denominator == 1 else float(place)
        rows.setdefault(row.table, []).append(values)
    return rows


def _text_at(place: Fraction, known: Sequence[tuple[Fraction, str]]) -> str:
    "A text for a place among the literals: one of them, or one a little after."
    before = ""
    for other, text in known:
        if other == place:
            return text
        if other < place:
            before = text
    return before + "!" if before else "!"


def _doubled(rows: Mapping[str, Sequence[Mapping]], schema: Schema) -> dict[str, list[Mapping]]:
    "Each row, and another with the same values outside of keys."
    found: dict[str, list[Mapping]] = {}
    for table, some in rows.items():
        facts = schema.tables[table]
        keys = {c for key in facts.keys + facts.natural_keys for c in key}
        found[table] = [*some, *({c: v for c, v in row.items() if c not in keys} for row in some)]
    return found


def search(
    gold: str, sql: str, schema: Schema, trees: Sequence[exp.Expression], wanted: Sequence[Mapping], tries: int
) -> Counterexample | None:
    "A database that tells two queries apart; the first ones are built around what z3 found."
    tables = {t.name.lower() for tree in trees for t in tree.find_all(exp.Table)}
    filler = Filler(schema, sorted(tables), all_assumptions(schema), trees)
    judge = Judge(gold, sql)
    start = thread_time()
    for n in range(tries):
        rng = Random(n)
        rows = wanted[n // 2 % len(wanted)] if wanted and n % 2 else {}
        if filler.fill(rng, _doubled(rows, schema) if n % 4 == 3 else rows) and judge.refuted(filler):
            return _shrunk(filler, judge)
        if thread_time() - start > _SEARCH_SECONDS:
            break
    return None
