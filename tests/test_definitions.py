"What is declared of a table, read in one place."

import apsw
import pytest

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


@pytest.fixture(scope="module")
def con():
    con = apsw.Connection(":memory:")
    con.execute(TABLES)
    return con


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        ("place", [("country", "town")]),
        ("code", [("code",)]),
        # not: a collation that comparisons don't use, a condition, an expression
        ("ship", [("id",), ("flag", "length"), ("flag",)]),
        ("call", []),
    ],
)
def test_keys(con, table, keys):
    assert read_keys(con, table, read_columns(con, table)) == keys


def test_references_name_the_columns_of_the_parent(con):
    assert set(read_references(con, "call")) == {
        Reference(("country", "town"), "place", ("country", "town")),
        Reference(("ship",), "ship", ("id",)),
        Reference(("gone",), "missing", ("",)),
    }


def test_generated_columns_can_be_read(con):
    assert [(c.name, c.hidden) for c in read_columns(con, "ship")][-1] == ("double", 2)
