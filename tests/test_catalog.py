"Catalog: tables, columns and keys of every kind, any name, and hints that name nothing the agent should not learn."

import io
import os

import apsw
import pytest
from attacks import BUILDERS
from databases import COUNT, kind, outcome, work_database
from tables import cases

from sql_env.database.catalog import database_fingerprint, plain_table_names, read_catalog
from sql_env.database.database import Database, build_database
from sql_env.database.guards import FixedClock, Limits, QueryError
from sql_env.grading.variants.sandbox import read_schema
from sql_env.sql.text import Result, quote_identifier
from sql_env.worlds import ChangeWorld


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return work_database(tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def db(path):
    with Database(path) as db:
        yield db


def write_file(path, *statements):
    "A file of statements that SQLite runs as they are, with rows of values where there are some."
    con = apsw.Connection(str(path))
    with con:
        for sql in statements:
            con.execute(sql) if isinstance(sql, str) else con.executemany(*sql)
    con.close()


@pytest.mark.parametrize("name", cases("catalog_names"))
def test_tables_and_columns_may_have_any_name(tmp_path, name):
    column, quoted = name + " c", quote_identifier(name)
    schema = f"CREATE TABLE {quoted} ({quote_identifier(column)} TEXT, {quoted} INTEGER)"
    db = Database(build_database(tmp_path / "a.sqlite", schema, {name: [("a", 1), ("b", 2)]}))
    assert db.tables == [name]
    for form in (name, quoted, quoted.upper() if name.isascii() else quoted, f"  {quoted} "):
        info = db.describe(form)
        assert (info.name, [c.name for c in info.columns], info.rows) == (name, [column, name], 2)
        assert db.sample(form).rows == [("a", 1), ("b", 2)] and db.columns(form) == info.columns
    assert db.query(f"SELECT {quote_identifier(column)} FROM {quoted}").columns == (column,)
    assert len(str(info).split("\n")) == 3


KINDS = """CREATE TABLE base (k TEXT, n INTEGER, total REAL GENERATED ALWAYS AS (n * 2.5) VIRTUAL,
        stored TEXT AS (k || '!') STORED, PRIMARY KEY (k, n)) WITHOUT ROWID;
    CREATE TABLE empty (x, y DECIMAL(10, 2) NOT NULL DEFAULT 1);
    CREATE TABLE child (id INTEGER PRIMARY KEY AUTOINCREMENT, k TEXT, n INTEGER, p REFERENCES parent,
        FOREIGN KEY (k, n) REFERENCES base(k, n));
    CREATE TABLE parent (code TEXT PRIMARY KEY) STRICT;
    CREATE TABLE lost (gone INTEGER REFERENCES nowhere);
    CREATE VIEW seen AS SELECT k, count(*) AS how_many FROM base GROUP BY k;
    CREATE VIEW heavy AS SELECT a.k FROM base a, base b, base c, base d, base e, base f, base g;
    CREATE INDEX i ON base(n); CREATE TRIGGER tr AFTER INSERT ON empty BEGIN SELECT 1; END;
    CREATE VIRTUAL TABLE words USING fts5(body)"""


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    path = tmp_path_factory.mktemp("kinds") / "kinds.sqlite"
    filler = "INSERT INTO base(k, n) VALUES (?, ?)", [(f"k{i % 4}", i) for i in range(12)]
    write_file(path, KINDS, filler, "INSERT INTO child(k, n) VALUES ('k0', 0)")
    return path


def test_every_kind_of_table_is_described_and_sampled(kinds):
    db = Database(kinds)
    assert {"base", "empty", "child", "parent", "lost", "seen", "heavy"} <= set(db.tables)
    assert not {"words", "sqlite_sequence"} & set(db.tables)
    for told in cases("catalog_described"):
        name = told.partition(":")[0]
        assert str(db.describe(name)) == told
    assert "nowhere" in str(db.describe("lost"))
    assert str(db.describe("seen")).split("\n")[0] == "seen: 4 rows"
    heavy = str(Database(kinds, Limits(operations=200_000)).describe("heavy"))
    assert heavy.split("\n")[0] == "heavy: unknown number of rows"
    everything = db.query("SELECT * FROM base").rows
    assert db.sample("base").columns == ("k", "n", "total", "stored")
    assert len(db.sample("base").rows) == 5 and set(db.sample("base").rows) <= set(everything)
    assert db.sample("empty") == Result(("x", "y"), [])
    assert db.sample("seen").rows == db.query("SELECT * FROM seen").rows
    assert db.sample("heavy").rows == [("k0",)] * 5


@pytest.mark.parametrize("n", [0, 1, 5, 12, 13, 1000])
def test_a_sample_has_the_size_that_was_asked_for(kinds, n):
    rows = Database(kinds).sample("base", n, 3).rows
    assert len(rows) == len(set(rows)) == min(n, 12)
    assert rows == sorted(rows, key=Database(kinds).query("SELECT * FROM base").rows.index), "in their stored order"


def test_a_link_opens_or_is_refused_as_its_target_is(tmp_path):
    "SQLite's file layer reports a link as an error; and its log lies beside the target (once a hole)."
    real = build_database(tmp_path / "real.sqlite", "CREATE TABLE t (a INTEGER)", {"t": [(1,)]})
    (tmp_path / "folder").symlink_to(tmp_path, target_is_directory=True)
    with Database(tmp_path / "folder" / real.name) as db:
        assert db.query("SELECT a FROM t").rows == [(1,)]
    BUILDERS["wal-behind-a-link"](tmp_path / "link.sqlite")
    for path in (tmp_path / "link.sqlite", tmp_path / "elsewhere" / "real.sqlite"):
        with pytest.raises(QueryError, match="its last change is unfinished"):
            Database(path)


@pytest.mark.parametrize("name, near", cases("catalog_near"))
def test_an_unknown_table_or_column_is_answered_with_near_ones(db, name, near):
    is_query = name.startswith("SELECT")
    for f in (db.query,) if is_query else (db.describe, db.sample, db.columns):
        with pytest.raises(QueryError, match=f"Did you mean {'.*' if is_query else ''}{near}") as e:
            f(name)
        assert e.value.kind == ("unknown_column" if is_query else "unknown_table")


def test_a_name_that_is_no_text_is_an_error_and_of_a_long_one_only_the_beginning_is_compared(db, monkeypatch):
    for bad in (None, 3, b"person", ["person"], object()):
        assert kind(db.describe, bad) == kind(db.sample, bad) == kind(db.query, bad) == "bad_type"
    compared = []
    monkeypatch.setattr("sql_env.database.catalog.get_close_matches", lambda word, *args: compared.append(word) or [])
    assert kind(db.describe, "x" * 10**6) == "unknown_table"
    assert compared == ["x" * 1000]


@pytest.mark.parametrize("sql", cases("catalog_hints_name_no_column_of_a"))
def test_hints_name_no_column_of_a_table_that_the_query_does_not_mention(db, sql):
    with pytest.raises(QueryError) as e:
        db.query(sql)
    mentioned = "job" if "job" in sql else "person" if "FROM person" in sql and "persons" not in sql else ""
    allowed = {c.name for c in db.columns(mentioned)} if mentioned else set()
    others = {c.name for t in db.tables for c in db.columns(t)} - allowed
    assert not others & set(e.value.hint.replace("?", " ").replace(".", " ").replace(",", " ").split()), e.value.hint


@pytest.mark.parametrize("sql", cases("catalog_messages_hold_no_path"))
def test_messages_hold_no_path(db, path, sql):
    assert str(path.parent) not in outcome(db, sql) and "/tmp" not in outcome(db, sql)


# ---- files that are refused


@pytest.mark.parametrize("name, reason", cases("catalog_refused"))
def test_a_file_is_refused_with_its_name_and_a_reason(tmp_path, name, reason):
    "More files are opened in test_attacks.py, in a process of their own."
    path = tmp_path / "mine.sqlite"
    BUILDERS[name](path)
    with pytest.raises(QueryError, match=f"^mine.sqlite: {reason}") as e:
        Database(path)
    assert e.value.kind == "bad_database" and str(tmp_path) not in str(e.value)


def test_bytes_are_checked_like_a_file_and_one_that_may_not_be_read_says_so(path, monkeypatch):
    assert Database(path.read_bytes()).tables == ["person", "job"]
    with pytest.raises(QueryError, match="^image: it is"):
        Database(path.read_bytes()[:5000])

    def deny(self):
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.is_file", deny)
    with pytest.raises(QueryError, match=r"work.sqlite: it can't be read \(PermissionError\)"):
        Database(path)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    "A file beyond the size up to which a key covers all bytes."
    rows = [(i, bytes(8000)) for i in range(2200)]
    path = tmp_path_factory.mktemp("large") / "large.sqlite"
    return build_database(path, "CREATE TABLE t(i INTEGER PRIMARY KEY, x BLOB)", dict(t=rows))


def test_a_fingerprint_is_of_the_content(path, large, tmp_path):
    for file, change in ((path, "job SET title = 1"), (large, "t SET x = 1 WHERE i = 1234")):
        copy = tmp_path / f"copy of {file.name}"
        copy.write_bytes(file.read_bytes())
        os.utime(copy, (1, 1))
        key = database_fingerprint(file)
        assert len(key) == 64 and key == database_fingerprint(copy) == database_fingerprint(str(copy))
        assert key == database_fingerprint(file.read_bytes())
        write_file(copy, f"UPDATE {change}")
        assert key != database_fingerprint(copy)
    with pytest.raises(FileNotFoundError):
        database_fingerprint(tmp_path / "none.sqlite")


def test_a_fingerprint_does_not_read_a_large_file(large, monkeypatch):
    read = []

    class CountingFile(io.FileIO):
        def read(self, size=-1):
            data = super().read(size)
            read.append(len(data))
            return data

    monkeypatch.setattr("sql_env.database.catalog.open", CountingFile, raising=False)
    database_fingerprint(large)
    assert large.stat().st_size > 16 * 2**20 and 0 < sum(read) < 300_000


def test_opening_reads_a_few_pages_of_a_large_file(large, monkeypatch):
    "The header and the catalog, whatever the size; the full check reads everything."
    read = []

    class File(apsw.VFSFile):
        def __init__(self, name, flags):
            super().__init__("", name, flags)

        def xRead(self, n, offset):
            read.append(n)
            return super().xRead(n, offset)

    monkeypatch.setattr(FixedClock, "xOpen", lambda self, name, flags: File(name, flags), raising=False)
    with Database(large) as db:
        assert sum(read) < 100_000 < 16 * 2**20 < large.stat().st_size
        assert db.check() == [] and sum(read) > 16 * 2**20


def test_damage_is_found_by_the_check_and_by_the_query_that_meets_it(tmp_path):
    path = tmp_path / "a.sqlite"
    rows = {"t": [(i, "x" * 50) for i in range(5000)], "u": [(1,)]}
    build_database(path, "CREATE TABLE t(a, b); CREATE TABLE u(a)", rows)
    data = bytearray(path.read_bytes())
    data[100_000:120_000] = b"\xff" * 20_000
    path.write_bytes(data)
    with Database(path) as db:
        assert db.query("SELECT a FROM u").rows == [(1,)]
        assert kind(db.query, "SELECT sum(length(b)) FROM t") == "bad_database"
        assert db.check()


def test_an_interruption_is_not_damage(path, large, monkeypatch):
    with Database(large) as db:
        with pytest.raises(QueryError, match="takes more than 0 seconds") as e:
            db.check(seconds=0)
        assert e.value.kind == "timeout" and "damage" not in str(e.value)
    endless = lambda con: con.execute(COUNT.format(10**5)).fetchall()  # noqa: E731
    monkeypatch.setattr("sql_env.database.catalog._CATALOG_SECONDS", -1.0)
    monkeypatch.setattr("sql_env.database.catalog.read_catalog", endless)
    with pytest.raises(QueryError, match="to read its catalog takes more than") as e:
        Database(path)
    assert "damage" not in str(e.value)


@pytest.mark.parametrize("n", [200, 201, 250, 2000])
def test_a_wide_table_shows_its_first_columns_and_says_so(tmp_path, n):
    names = [f"a_long_name_of_column_{i}" for i in range(n)]
    values = f"INSERT INTO wide({names[0]}, {names[199]}) VALUES (7, CAST(x'ff41' AS TEXT))"
    write_file(tmp_path / "a.sqlite", f"CREATE TABLE wide({' INT, '.join(names)} INT)", values)
    with Database(tmp_path / "a.sqlite") as db:
        described, sample = str(db.describe("wide")), db.sample("wide")
        assert len(db.columns("wide")) == n and len(sample.columns) == 200
        assert sample.rows == [(7, *[None] * 198, "\ufffdA")]
        note = f"... {n} columns, the first 200 shown"
        assert (note in described) == (note in sample.text()) == (n > 200)
        assert len(described.split("\n")) == 201 + (n > 200)
        assert (kind(db.query, "SELECT * FROM wide") == "too_long") == (n > 200) or n == 200
        assert db.query(f"SELECT {names[-1]} IS NULL FROM wide").rows


def test_too_many_columns_are_not_called_damage_and_none_of_3001_tables_vanishes(tmp_path):
    BUILDERS["columns-3000"](tmp_path / "wide.sqlite")
    with pytest.raises(QueryError, match="a table has more than 2000 columns"):
        Database(tmp_path / "wide.sqlite")
    BUILDERS["tables-3001"](tmp_path / "a.sqlite")
    with Database(tmp_path / "a.sqlite") as db:
        assert db.tables == [f"t{i}" for i in range(3001)] and not db.closed
        assert db.sample("t3000").columns == ("a", "b") and db.describe("t0").rows == 0


def test_virtual_tables_are_closed_and_their_shadows_hidden(tmp_path):
    schema = """CREATE TABLE real_one(a); CREATE VIRTUAL TABLE papers USING fts5(body);
        CREATE VIRTUAL TABLE "my box" USING rtree(id, low, high); CREATE VIEW seen AS SELECT * FROM papers;
        CREATE VIEW lost AS SELECT nope FROM real_one; CREATE TABLE papers_about(a)"""
    write_file(tmp_path / "a.sqlite", schema)
    with Database(tmp_path / "a.sqlite") as db:
        assert {"real_one", "papers_about"} <= set(db.tables) <= {"real_one", "papers_about", "seen"}
        assert {"papers", "my box", "lost"} <= set(db.closed) and db.query("SELECT a FROM real_one").rows == []
        for name in ("papers", "PAPERS", '"my box"', "[my box]; "):
            for ask in (db.describe, db.sample, db.columns):
                with pytest.raises(QueryError, match="it is a virtual table, and those are closed") as e:
                    ask(name)
                assert e.value.kind == "forbidden"
        assert kind(db.query, "SELECT * FROM papers") == kind(db.query, "SELECT * FROM papers_data") == "forbidden"
        assert kind(db.describe, "papers_data") == "unknown_table"


def test_without_rowid(tmp_path):
    rows = {"t": [(f"k{i:04}", i) for i in range(2000)]}
    path = build_database(tmp_path / "a.sqlite", "CREATE TABLE t(k TEXT PRIMARY KEY, n) WITHOUT ROWID", rows)
    with Database(path) as db:
        assert db.describe("t").rows == 2000 and len(set(db.sample("t").rows)) == 5
        assert db.query("SELECT n FROM t WHERE k = 'k1234'").rows == [(1234,)] and db.check() == []


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "", ".", "\udcff.sqlite"])
def test_no_name_of_a_file_raises_an_error_of_another_kind(name):
    assert kind(Database, name) == "bad_database"


def test_opening_knows_what_it_needs_without_reading_each_table():
    con = apsw.Connection(":memory:")
    con.deserialize("main", ChangeWorld(0, 3).image)
    plain = plain_table_names(con)
    assert plain == frozenset(t.name.lower() for t in read_catalog(con).tables)
    parents = read_schema(con, plain).parents
    for name, above in parents.items():
        rows = con.execute(f"PRAGMA foreign_key_list({name})").fetchall()
        assert above == tuple(dict.fromkeys(row[2].lower() for row in reversed(rows)))
    con.execute(f"CREATE TABLE wide ({', '.join(f'c{i}' for i in range(101))})")
    assert plain_table_names(con) is None
