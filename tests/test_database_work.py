"""Work that is counted where no callback comes: pages of large files, views that grow while they are compiled.

What a statement may read, that a cold file and a warm one, neighbours and statements before change no verdict, that
views which come to thousands of tables are never named to SQLite, and that samples come from rows within the budget.
"""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median

import apsw
import pytest
from tables import cases

from sql_env.database import Database, Limits, QueryError, build_database, catalog
from sql_env.database.catalog import _is_strict
from sql_env.database.connection import GuardedConnection
from sql_env.grading.variants.instances import InstanceGenerator
from sql_env.paths import cache_dir
from sql_env.questions.gold import GoldRunner

COUNTS = "SELECT " + ", ".join(["(SELECT count(*) FROM reading)"] * 8)
JOIN = "SELECT count(s.name), min(r.note) FROM reading r JOIN station s ON s.id = r.station WHERE r.id < 5000"


def outcome(db, sql):
    try:
        return str(db.query(sql).rows)
    except QueryError as e:
        return e.kind


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    "Six megabytes: readings of 500 bytes, and stations."
    schema = """CREATE TABLE reading (id INTEGER PRIMARY KEY, station INTEGER, note TEXT);
        CREATE TABLE station (id INTEGER PRIMARY KEY, name TEXT)"""
    readings = ((i, i * 7919 % 5000 + 1, f"{i:0500d}") for i in range(1, 10_001))
    rows = {"reading": readings, "station": ((i, f"station {i}") for i in range(1, 5001))}
    return build_database(tmp_path_factory.mktemp("large") / "large.sqlite", schema, rows)


def pages_of(path, sql):
    "Pages that a statement looks up."
    con = GuardedConnection(path, frozenset(["reading", "station", "t"]), Limits())
    before = con.budget.pages_read()
    con.run(sql)
    return con.budget.pages_read() - before


def test_a_count_of_rows_is_stopped_within_one_operation(large):
    "SQLite calls nobody back while it counts; the file layer does, every 256 pages."
    db = Database(large, Limits(pages=1500))
    assert outcome(db, "SELECT count(*) FROM reading") == "[(10000,)]"
    (con,) = db.pool.free
    before = con.budget.pages_read()
    assert outcome(db, COUNTS) == "operations"
    assert 1500 < con.budget.pages_read() - before < 1500 + 600
    # gold that reads too much for an agent is flagged
    runner = GoldRunner(large, Limits(pages=2000))
    assert runner.judge("SELECT count(*) FROM station").flags == ()
    found = runner.judge(COUNTS)
    assert found.rows == ((10_000,) * 8,) and found.flags == ("over_limits",)
    ((_, reason),) = found.reasons
    assert "pages of the file; 2,000 are allowed" in reason
    runner.close()


@pytest.mark.parametrize("sql", [COUNTS, JOIN, "SELECT max(note) FROM reading WHERE id < 3000"])
def test_the_border_of_pages_is_sharp_and_the_same_for_all(large, sql):
    "On a new connection or a used one, beside others, after other statements."
    pages = pages_of(large, sql)
    for limit, fits in ((pages, True), (pages - 1, False)):
        db = Database(large, Limits(pages=limit))
        assert (outcome(Database(large, Limits(pages=limit)), sql) != "operations") == fits
        with ThreadPoolExecutor(8) as pool:
            others = [f"SELECT count(*) FROM station WHERE id > {i}" for i in range(8)]
            asked = [sql, *others] + [sql] * 3
            found = list(pool.map(partial(outcome, db), asked))
        mine = [o for o, s in zip(found, asked) if s == sql]
        assert len(set(mine)) == 1 and (mine[0] != "operations") == fits


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system can't forget a file")
def test_a_cold_file_and_a_warm_one_count_alike(large):
    found = []
    for is_cold in (True, False, True):
        if is_cold:
            with large.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        found.append([pages_of(large, sql) for sql in (COUNTS, JOIN)])
    assert found[0] == found[1] == found[2]


def test_pages_of_a_small_file_count_too_and_larger_ones_weigh_more(tmp_path):
    "Each row counts a whole table once more, in a dozen operations."
    rows = {"t": [(i, f"{i:0900d}") for i in range(2000)]}
    path = build_database(tmp_path / "small.sqlite", "CREATE TABLE t (id INTEGER, note TEXT)", rows)
    sql = "SELECT sum((SELECT count(*) FROM t ORDER BY a.id)) FROM t a"
    db = Database(path, Limits(pages=50_000))
    assert path.stat().st_size < 2**22 and outcome(db, sql) == "operations"
    assert db.pool.free[0].budget.ticks < 200
    enough = pages_of(path, sql.replace("FROM t a", "FROM t a WHERE id < 40"))
    assert 40 * 400 < enough < 40 * 600
    con = apsw.Connection(str(tmp_path / "pages.sqlite"))
    con.execute("PRAGMA page_size=65536; CREATE TABLE t(x); INSERT INTO t VALUES (1)")
    con.close()
    assert pages_of(tmp_path / "pages.sqlite", "SELECT x FROM t") == 32


def test_rows_of_a_large_file_are_counted_apart(large):
    "A description says how many rows there are, whatever an agent may read."
    for limits in (Limits(), Limits(pages=10)):
        assert Database(large, limits).describe("reading").rows == 10_000


VIEW_BOMBS = dict(cases("database_work_view_bombs"))


def write_chain(path, step, n=20):
    views = [f"CREATE VIEW w{i} AS {step.format(f'w{i - 1}')};" for i in range(1, n + 1)]
    first = "CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 2); CREATE VIEW w0 AS SELECT a, b FROM t;"
    return build_database(path, first + "".join(views), {})


@pytest.mark.parametrize("step", VIEW_BOMBS.values(), ids=VIEW_BOMBS)
def test_a_view_that_would_grow_is_never_named_to_sqlite(tmp_path, monkeypatch, step):
    db = Database(write_chain(tmp_path / "chain.sqlite", step))
    assert "w20" in db.closed and "w2" in db.tables and outcome(db, "SELECT a FROM t") == "[(1,)]"
    assert outcome(db, "SELECT a, b FROM w2").startswith("[")
    monkeypatch.setattr(GuardedConnection, "run", None)
    for sql in (
        "SELECT * FROM w20",
        'SELECT 1 FROM t, "W20"',
        "SELECT 1 WHERE 1 IN main.w20",
        "WITH c AS (SELECT * FROM [w20]) SELECT * FROM c",
        "SELECT * FROM (t JOIN /* no */ 'w20')",
    ):
        with pytest.raises(QueryError) as e:
            db.query(sql)
        assert e.value.kind == "forbidden" and "64 tables" in e.value.message
    for ask in (db.describe, db.sample):
        with pytest.raises(QueryError):
            ask("w20")


def test_nothing_that_reads_tables_compiles_all_views(tmp_path, monkeypatch):
    "`PRAGMA table_list` would, of every table; gold and instances ask otherwise."
    path, asked, con_type = write_chain(tmp_path / "chain.sqlite", VIEW_BOMBS["join"]), [], apsw.Connection
    con = con_type(str(path))
    con.execute("CREATE TABLE s(a ANY) STRICT; CREATE TABLE k(a PRIMARY KEY, rowid) WITHOUT ROWID")
    assert [catalog.has_row_numbers(con, name) for name in ("t", "s", "k")] == [True, True, False]
    assert [_is_strict(con, name) for name in ("t", "s", "k")] == [False, True, False]
    con.close()

    class Noted(con_type):
        def execute(self, sql, *args, **kwargs):
            asked.append(sql)
            return super().execute(sql, *args, **kwargs)

    monkeypatch.setattr(apsw, "Connection", Noted)
    runner = GoldRunner(path)
    assert runner.judge("SELECT a FROM k ORDER BY a LIMIT 1").rows == ()
    InstanceGenerator(path).shape("t")
    assert asked and not [sql for sql in asked if "table_list" in sql]


def test_a_statement_names_few_large_views(tmp_path):
    "Small views are not looked for in the text, but SQLite tells what they read while a statement is compiled."
    large = Database(write_chain(tmp_path / "chain.sqlite", VIEW_BOMBS["scalar"], 5))
    names = ", ".join(f"c{i}" for i in range(150))
    schema = f"CREATE TABLE t({names}); CREATE VIEW w AS SELECT {names} FROM t"
    small = Database(build_database(tmp_path / "wide.sqlite", schema, {}))
    assert "w5" in large.tables
    for db, view, few, many in ((large, "w5", 2, 3), (small, "w", 15, 45)):
        sqls = ["SELECT 1 FROM " + ", ".join(f"{view} x{i}" for i in range(n)) for n in (few, many)]
        assert outcome(db, sqls[0]).startswith("[") and outcome(db, sqls[1]) == "too_long"
    # columns and aliases of a view's name, a common table expression of its own name, many small views
    schema = """CREATE TABLE total(a, total); INSERT INTO total VALUES (1, 2);
        CREATE VIEW sums AS WITH sums AS (SELECT a, total FROM total) SELECT a, total FROM sums;
        CREATE VIEW s0 AS SELECT a, total FROM sums;"""
    step = "SELECT s{0}.a, s{0}.total AS s{0}, s{0}.total FROM s{0} WHERE s{0}.a > 0 AND s{0}.total > 1"
    schema += "".join(f"CREATE VIEW s{i} AS {step.format(i - 1)};" for i in range(1, 12))
    db = Database(build_database(tmp_path / "usual.sqlite", schema, {}))
    assert not db.closed and outcome(db, "SELECT a, total FROM s11") == "[(1, 2)]"


@pytest.mark.parametrize("sql, named", cases("database_work_names"))
def test_names_are_found_where_a_table_can_stand(sql, named):
    assert list(catalog._tables_named(sql, {"t", "v"})) == named.split()


def test_neighbours_of_view_bombs_hardly_wait(tmp_path):
    """Two threads send statements on chains of views; a statement on another database takes its turn.

    It was 4.9 seconds at the median. The bound on time is wide, for busy machines.
    """
    bombs = [Database(write_chain(tmp_path / f"{s}.sqlite", VIEW_BOMBS[s])) for s in ("join", "case")]
    path = build_database(tmp_path / "n.sqlite", "CREATE TABLE t (a INTEGER)", {"t": [(1,)]})
    db, stop, found = Database(path), threading.Event(), set()

    def attack(bomb):
        last = bomb.tables[-1]
        while not stop.is_set():
            for view in ("w13", last):
                found.add(outcome(bomb, f"SELECT * FROM {view} a, {view} b, {view} c"))
            time.sleep(0.001)

    threads = [threading.Thread(target=attack, args=(bomb,)) for bomb in bombs]
    for thread in threads:
        thread.start()
    waited = []
    for i in range(40):
        start = time.perf_counter()
        assert outcome(db, f"SELECT a + {i} FROM t") == f"[({i + 1},)]"
        waited.append(time.perf_counter() - start)
        time.sleep(0.005)
    stop.set()
    for thread in threads:
        thread.join()
    assert found <= {"forbidden", "too_long", "memory"} and median(waited) < 0.25


def sampled(path, table, seed=0, n=5):
    return Database(path, Limits(operations=2000)).sample(table, n, seed).rows


def test_a_sample_of_a_large_table_comes_from_the_rows_within_reach(tmp_path):
    "The budget skips 200 of 20,000 rows; of a view that is too slow to count the first rows are shown."
    schema = "CREATE TABLE t (id TEXT PRIMARY KEY) WITHOUT ROWID; CREATE VIEW v AS SELECT a.id FROM t a, t b"
    path = build_database(tmp_path / "t.sqlite", schema, {"t": [(f"{i:05}",) for i in range(20_000)]})
    assert Database(path, Limits(operations=200_000)).describe("t").rows == 20_000
    drawn = set()
    for seed in range(20):
        found = sampled(path, "t", seed)
        assert len(set(found)) == 5 and found == sorted(found) == sampled(path, "t", seed)
        drawn.update(int(key) for (key,) in found)
    assert 150 < max(drawn) < 200 and len(drawn) > 50
    assert sampled(path, "v") == [("00000",)] * 5


@pytest.mark.parametrize("declared, shown", cases("database_work_a_declared_type_is_one"))
def test_a_declared_type_is_one_type(tmp_path, declared, shown):
    path = build_database(tmp_path / "t.sqlite", f"CREATE TABLE t (a {declared})", {})
    assert str(Database(path).describe("t")).split("\n") == ["t: 0 rows", shown]


def test_a_long_type_is_cut_and_names_forge_no_columns(tmp_path):
    name = "id INTEGER, primary key\nother"
    schema = f'CREATE TABLE "t: 5 rows\n" ("{name}", "b, c"); CREATE TABLE u (a "{"INT, " * 9000}")'
    forged, long = map(str, Database(build_database(tmp_path / "t.sqlite", schema, {})).infos)
    assert forged.split("\n")[1:] == ["'id INTEGER, primary key\\nother'", "'b, c'"] and len(long) < 300


@pytest.mark.parametrize("space", ["/**/", "/* x */ ", "--\n", " \n"])
def test_a_virtual_table_is_closed_however_it_is_written(tmp_path, space):
    schema = "CREATE TABLE t(a); CREATE VIRTUAL TABLE docs USING fts5(body)"
    path = build_database(tmp_path / "v.sqlite", schema, {})
    con = apsw.Connection(str(path))
    con.execute("PRAGMA writable_schema=ON")
    change = "UPDATE sqlite_schema SET sql = replace(sql, 'CREATE VIRTUAL', ?) WHERE name = 'docs'"
    con.execute(change, [f"CREATE{space}VIRTUAL"])
    con.close()
    db = Database(path)
    assert db.tables == ["t"] and "virtual" in db.closed["docs"]


def test_a_cache_folder_that_is_not_absolute_is_ignored(monkeypatch):
    monkeypatch.delenv("SQL_ENV_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "here/and/there")
    assert cache_dir().is_absolute() and "there" not in str(cache_dir())
    monkeypatch.setenv("XDG_CACHE_HOME", os.sep + "there")
    assert str(cache_dir()) == os.path.join(os.sep + "there", "sql_env")
