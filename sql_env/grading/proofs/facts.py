"""What a proof may take for granted about the rows of a database"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import apsw

from ...sql.values import quote_identifier


def column_affinity(declared: str) -> str:
    "SQLite's affinity of a declared type: INTEGER, TEXT, BLOB, REAL or NUMERIC."
    declared = declared.upper()
    for affinity, words in (("INTEGER", ("INT",)), ("TEXT", ("CHAR", "CLOB", "TEXT"))):
        if any(word in declared for word in words):
            return affinity
    if "BLOB" in declared or not declared:
        return "BLOB"
    return "REAL" if any(word in declared for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


class Assumption(NamedTuple):
    "Something that a proof takes for granted."

    kind: str  # not_null, holds, numerals, key, reference, filled, no_ties or exact
    table: str = ""
    columns: tuple[str, ...] = ()
    detail: tuple[str, ...] = ()  # of `holds` the storage classes, of a reference the parent
    declared: bool = False  # otherwise it is seen in the data

    def __str__(self):
        column = f"{self.table}.{', '.join(self.columns)}"
        said = {
            "not_null": f"{column} holds no NULL",
            "numerals": f"{column} holds only whole numbers in their plain form",
            "holds": f"{column} holds only {' or '.join(self.detail)}",
            "key": f"{self.table}({', '.join(self.columns)}) is a key",
            "reference": f"each {self.table}({', '.join(self.columns)}) is found in {''.join(self.detail)}",
            "filled": f"{self.table} has a row",
            "no_ties": "no LIMIT of gold cuts rows that tie",
            "exact": "numbers are exact: no sum overflows, and rounding does not count",
        }[self.kind]
        how = "as declared" if self.declared else "as in the data"
        return f"{said}, {how}" if self.table else said


class Reference(NamedTuple):
    "A foreign key: columns that hold a key of another table, or NULL."

    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]


@dataclass(frozen=True)
class ColumnFacts:
    "What is declared of a column, and what its data shows; names in lower case."

    name: str
    affinity: str
    collation: str = "BINARY"
    required: bool = False  # declared NOT NULL, or part of the primary key
    rowid: bool = False  # another name of the rowid: always an integer
    has_null: bool = True  # in the data
    holds: frozenset[str] = frozenset({"integer", "real", "text", "blob"})  # in the data
    numerals: bool = False  # a column of texts that are whole numbers, plainly written, in the data


@dataclass(frozen=True)
class TableFacts:
    "What the rows of a table obey; names in lower case."

    name: str
    columns: Mapping[str, ColumnFacts]
    keys: tuple[tuple[str, ...], ...] = ()  # declared
    natural_keys: tuple[tuple[str, ...], ...] = ()  # in the data no value occurs twice
    references: tuple[Reference, ...] = ()  # declared, and kept by the data
    is_filled: bool = False


@dataclass(frozen=True)
class Schema:
    "The tables that proofs are about, and the statements that make them."

    tables: Mapping[str, TableFacts]
    statements: tuple[str, ...]
    _connection: list = field(default_factory=list, repr=False, compare=False)

    def empty(self) -> apsw.Connection:
        "A connection to these tables without rows."
        if not self._connection:
            self._connection.append(create_tables(self.statements))
        return self._connection[0]


def create_tables(statements: Iterable[str]) -> apsw.Connection:
    "A new database in memory with some tables; references are not enforced."
    con = apsw.Connection(":memory:")
    con.pragma("foreign_keys", False)
    for sql in statements:
        try:
            con.execute(sql)
        except apsw.SQLError:
            continue
    return con


_STATEMENTS = """SELECT name, type, sql FROM sqlite_schema
WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
  AND (type = 'table' AND rootpage > 0 OR type = 'index' AND upper(sql) LIKE 'CREATE UNIQUE%') ORDER BY rowid"""


def _pragma(con: apsw.Connection, name: str, table: str) -> list[tuple]:
    return con.execute(f"PRAGMA {name}({quote_identifier(table)})").fetchall()


def _read_keys(con: apsw.Connection, table: str, primary: Sequence[str]) -> Iterator[tuple[str, ...]]:
    "The primary key and what unique indexes without a condition say; indexes on expressions are left out."
    if primary:
        yield tuple(primary)
    for _, index, is_unique, _, is_partial in _pragma(con, "index_list", table):
        if is_unique and not is_partial:
            names = [name for _, _, name in _pragma(con, "index_info", index)]
            if all(names):
                yield tuple(name.lower() for name in names)


def _column_data(con: apsw.Connection, table: str, names: Sequence[str]) -> list[tuple[bool, frozenset[str]]]:
    "For each column whether it holds NULL, and its storage classes."
    kinds = ("null", "integer", "real", "text", "blob")
    parts = [f"coalesce(max(typeof({quote_identifier(n)}) = '{kind}'), 0)" for n in names for kind in kinds]
    found: list[tuple[bool, frozenset[str]]] = []
    for start in range(0, len(parts), 500):
        row = con.execute(f"SELECT {', '.join(parts[start : start + 500])} FROM {quote_identifier(table)}").fetchall()[0]
        for at in range(0, len(row), 5):
            has_null, *flags = row[at : at + 5]
            found.append((bool(has_null), frozenset(k for k, there in zip(kinds[1:], flags) if there)))
    return found


def _holds_numerals(con: apsw.Connection, table: str, column: str) -> bool:
    "Whether all values of a column are texts as `17` is one: no zero in front, nothing around."
    name = quote_identifier(column)
    sql = f"""SELECT count(*) > 0 AND count(*) = sum({name} = CAST(CAST({name} AS INTEGER) AS TEXT))
        FROM {quote_identifier(table)} WHERE {name} IS NOT NULL"""
    return bool(con.execute(sql).fetchall()[0][0])


def _keeps(con: apsw.Connection, table: str, reference: Reference) -> bool:
    "Whether each row of a table finds the row that it refers to."
    pairs = [f"a.{quote_identifier(x)} = b.{quote_identifier(y)}" for x, y in zip(reference.columns, reference.parent_columns)]
    there = [f"a.{quote_identifier(x)} IS NOT NULL" for x in reference.columns]
    sql = f"""SELECT 1 FROM {quote_identifier(table)} a WHERE {" AND ".join(there)}
        AND NOT EXISTS (SELECT 1 FROM {quote_identifier(reference.parent)} b WHERE {" AND ".join(pairs)}) LIMIT 1"""
    return not con.execute(sql).fetchall()


def _declared_references(
    con: apsw.Connection, table: str, keys: Mapping[str, list[tuple[str, ...]]]
) -> Iterator[Reference]:
    "The foreign keys of a table that point to a key of a known table."
    groups: dict[int, list] = {}
    for number, _, parent, column, target, *_ in _pragma(con, "foreign_key_list", table):
        groups.setdefault(number, []).append((column.lower(), parent.lower(), (target or "").lower()))
    for rows in groups.values():
        parent = rows[0][1]
        columns = tuple(column for column, _, _ in rows)
        targets = tuple(target for _, _, target in rows)
        if not all(targets) and keys.get(parent):
            targets = keys[parent][0]
        if targets in keys.get(parent, []) and len(targets) == len(columns):
            yield Reference(columns, parent, targets)


def _is_unique(con: apsw.Connection, table: str, column: str) -> bool:
    sql = f"SELECT count(*) >= 5 AND count(*) = count(DISTINCT {quote_identifier(column)}) FROM {quote_identifier(table)}"
    return bool(con.execute(sql).fetchall()[0][0])


def _natural_keys(con: apsw.Connection, table: str, columns: Iterable[ColumnFacts]) -> Iterator[tuple[str, ...]]:
    "Columns of texts that hold no value twice."
    for column in columns:
        if column.holds == {"text"} and not column.has_null and _is_unique(con, table, column.name):
            yield (column.name,)


def read_facts(con: apsw.Connection) -> Schema:
    "The facts of each table of a database."
    rows = [(str(name), kind, str(sql)) for name, kind, sql in con.execute(_STATEMENTS)]
    names = [name for name, kind, _ in rows if kind == "table"]
    infos = {name: _pragma(con, "table_info", name) for name in names}
    keys = {}
    for name, info in infos.items():
        primary = [row[1].lower() for row in sorted(info, key=lambda row: row[5]) if row[5]]
        keys[name.lower()] = list(dict.fromkeys(_read_keys(con, name, primary)))
    tables = {}
    for name, info in infos.items():
        if info:
            tables[name.lower()] = _table_facts(con, name, info, keys)
    return Schema(tables, tuple(sql for _, _, sql in rows))


def _table_facts(con: apsw.Connection, name: str, info: list, keys: Mapping[str, list]) -> TableFacts:
    columns = {}
    data = _column_data(con, name, [row[1] for row in info])
    primary = [row for row in info if row[5]]
    for (_, column, declared, not_null, _, place), (has_null, holds) in zip(info, data):
        collation = con.column_metadata("main", name, column)[1]
        rowid = bool(place) and len(primary) == 1 and declared.upper() == "INTEGER"
        numerals = holds == {"text"} and _holds_numerals(con, name, column)
        affinity, required = column_affinity(declared), bool(not_null or place)
        columns[column.lower()] = ColumnFacts(
            column.lower(), affinity, collation.upper(), required, rowid, has_null, holds, numerals
        )
    own = keys[name.lower()]
    references = tuple(r for r in _declared_references(con, name, keys) if _keeps(con, name, r))
    natural = tuple(k for k in _natural_keys(con, name, columns.values()) if k not in own)
    filled = bool(con.execute(f"SELECT 1 FROM {quote_identifier(name)} LIMIT 1").fetchall())
    return TableFacts(name.lower(), columns, tuple(own), natural, references, filled)


class Knowledge:
    "Answers questions about a schema and notes which answers were given."

    def __init__(
        self,
        schema: Schema,
        data: bool = True,  # also what only the data shows
    ):
        self.schema = schema
        self.data = data
        self.used: dict[Assumption, None] = {}

    def _note(self, *assumption) -> bool:
        self.used[Assumption(*assumption)] = None
        return True

    def column(self, table: str, column: str) -> ColumnFacts:
        return self.schema.tables[table].columns[column]

    def not_null(self, table: str, column: str) -> bool:
        "Whether a column holds no NULL."
        facts = self.column(table, column)
        if facts.rowid:
            return True
        if facts.required or self.data and not facts.has_null:
            return self._note("not_null", table, (column,), (), facts.required)
        return False

    def only(self, table: str, column: str, *kinds: str) -> bool:
        "Whether a column holds nothing but some storage classes and NULL."
        facts = self.column(table, column)
        if facts.rowid:
            return "integer" in kinds
        if facts.holds and self.data and facts.holds <= set(kinds):
            return self._note("holds", table, (column,), tuple(sorted(facts.holds)))
        return False

    def numerals(self, table: str, column: str) -> bool:
        "Whether a column of texts holds nothing but whole numbers in their plain form, so that equal numbers are equal texts."
        return self.data and self.column(table, column).numerals and self._note("numerals", table, (column,))

    def keys(self, table: str) -> tuple[tuple[str, ...], ...]:
        "Column lists that no two rows of a table share, NULL left out."
        facts = self.schema.tables[table]
        return facts.keys + facts.natural_keys if self.data else facts.keys

    def use_key(self, table: str, key: tuple[str, ...]) -> bool:
        "Note that a key was needed."
        return self._note("key", table, key, (), key in self.schema.tables[table].keys)

    def references(self, table: str) -> tuple[Reference, ...]:
        "Foreign keys that each row of a table keeps."
        return self.schema.tables[table].references

    def use_reference(self, table: str, reference: Reference) -> bool:
        "Note that a foreign key was needed."
        return self._note("reference", table, reference.columns, (reference.parent,), True)

    def is_filled(self, table: str) -> bool:
        "Whether a table has a row."
        return self.data and self.schema.tables[table].is_filled and self._note("filled", table)
