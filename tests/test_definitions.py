"What is declared of a table, read in one place."

import apsw

from sql_env.database.catalog import Reference, read_columns, read_keys, read_references

TABLES = """
CREATE TABLE place (country TEXT, town TEXT, PRIMARY KEY (country, town));
CREATE TABLE code (code TEXT PRIMARY KEY, note TEXT) WITHOUT ROWID;
CREATE TABLE ship (
  id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, flag TEXT UNIQUE, length REAL,
  double REAL GENERATED ALWAYS AS (length * 2), UNIQUE (name COLLATE BINARY), UNIQUE (flag, length));
CREATE UNIQUE INDEX long_ships ON ship(length) WHERE length > 100;
CREATE UNIQUE INDEX low_names ON ship(lower(name));
CREATE TABLE call (country, town, ship, gone, FOREIGN KEY (country, town) REFERENCES place,
  FOREIGN KEY (ship) REFERENCES ship(id), FOREIGN KEY (gone) REFERENCES missing);
"""


KEYS = dict(
    place=[("country", "town")],
    code=[("code",)],
    # not: a collation that comparisons don't use, a condition, an expression
    ship=[("id",), ("flag", "length"), ("flag",)],
    call=[],
)


def test_keys_references_and_generated_columns():
    con = apsw.Connection(":memory:")
    con.execute(TABLES)
    assert {table: read_keys(con, table, read_columns(con, table)) for table in KEYS} == KEYS
    assert set(read_references(con, "call")) == {
        Reference(("country", "town"), "place", ("country", "town")),
        Reference(("ship",), "ship", ("id",)),
        Reference(("gone",), "missing", ("",)),
    }
    assert [(c.name, c.hidden) for c in read_columns(con, "ship")][-1] == ("double", 2)
