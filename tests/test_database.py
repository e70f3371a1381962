"""Room 00, the database: limits that decide the same way every time, threads and processes, any name and any value. Attacks are in test_attacks.py."""

import gc
import math
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from random import Random

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql_env.answers import cells_equal, parse_cell
from sql_env.database import Database, build_database
from sql_env.guards import ERROR_KINDS, HeapLimit, Limits, QueryError
from sql_env.values import Result, format_value, quote_identifier

COUNT = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {}) SELECT count(*), max(n) FROM t"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    schema = """CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, boss REFERENCES person, secret_wage REAL);
        CREATE TABLE job (person_id INTEGER REFERENCES person(id), title TEXT, hidden_code BLOB)"""
    rows = {
        "person": [(i, f"name {i}", i // 2 or None, i / 4) for i in range(1, 101)],
        "job": [(i % 100 + 1, f"title {i % 7}", bytes([i])) for i in range(200)],
    }
    return build_database(tmp_path_factory.mktemp("db") / "work.sqlite", schema, rows)


@pytest.fixture(scope="module")
def db(path):
    return Database(path)


def kind(f, *args):
    with pytest.raises(QueryError) as e:
        f(*args)
    assert e.value.kind in ERROR_KINDS
    return e.value.kind


def outcome(db, sql):
    try:
        return repr(db.query(sql).rows)
    except QueryError as e:
        return f"{e.kind}: {e}"


# ---- results


def test_a_result_has_columns_rows_and_truncated(db):
    r = db.query("SELECT id, name AS who FROM person WHERE id < 3")
    assert (r.columns, r.rows, r.truncated) == (
        ("id", "who"),
        [(1, "name 1"), (2, "name 2")],
        False,
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS a",
        "SELECT 1 AS a;",
        "SELECT 1 AS a ; ",
        "SELECT 1 AS a ; -- done",
        "SELECT 1 AS a; /* done */",
        "-- first\nSELECT 1 AS a",
        "  SELECT 1 AS a\n",
        "SELECT 1 AS a; ;",
        "SELECT 1 AS a -- ;",
    ],
)
def test_columns_are_named_however_a_statement_ends(path, sql):
    db = Database(path)
    for _ in range(3):
        r = db.query(sql)
        assert (r.columns, r.rows) == (("a",), [(1,)])


def test_a_result_without_rows_keeps_its_columns(db):
    for _ in range(2):
        r = db.query("SELECT id, name FROM person WHERE 0")
        assert (r.columns, r.rows, r.truncated) == (("id", "name"), [], False)


@pytest.mark.parametrize(
    "n, cap, cut", [(10, 10, False), (11, 10, True), (9, 10, False), (1, 1, False), (2, 1, True)]
)
def test_rows_are_cut_at_the_cap_and_it_is_said(path, n, cap, cut):
    r = Database(path, Limits(rows=cap)).query(f"SELECT id FROM person LIMIT {n}")
    assert len(r.rows) == min(n, cap) and r.truncated is cut
    assert ("or more" in r.text()) is cut, "the text says so too"
    assert ("or more" in r.text(rows=1)) is cut or n == 1


def test_text_says_how_many_rows_are_not_shown():
    r = Result(("n",), [(i,) for i in range(25)])
    assert r.text().split("\n")[-1] == "... 25 rows, 20 shown" and len(r.text().split("\n")) == 22
    assert Result(("n",), [], False).text() == "n\n(no rows)"


# ---- limits


@pytest.mark.parametrize(
    "limits, sql, want",
    [
        (Limits(operations=10_000), COUNT.format(10**6), "operations"),
        (Limits(sql=50), "SELECT '" + "x" * 50 + "'", "too_long"),
        (Limits(cell=100), "SELECT replace(printf('%90d', 1), ' ', 'xx')", "memory"),
        (Limits(text=1000), "SELECT name || name || name FROM person", "too_large"),
        (Limits(columns=3), "SELECT 1, 2, 3, 4", "too_long"),
        (Limits(selects=2), "SELECT (SELECT (SELECT 1))", "too_long"),
        (Limits(), "SELECT 9223372036854775807 + 1, abs(-9223372036854775808)", "value"),
        (Limits(), "SELECT nope(1)", "unknown_function"),
        (Limits(), "SELECT abs(1, 2)", "unknown_function"),
        (Limits(), "SELECT nope", "unknown_column"),
        (Limits(), "SELECT * FROM nope", "unknown_table"),
        (Limits(), "SELECT FROM", "syntax"),
        (Limits(), "DELETE FROM person", "not_read_only"),
        (Limits(), "SELECT * FROM sqlite_master", "forbidden"),
        (Limits(), "SELECT json('{')", "value"),
        (Limits(), "SELECT " + "+".join("1" * 60), "too_long"),
        (Limits(), "SELECT 'a\0b'", "syntax"),
        (Limits(), 5, "bad_type"),
        (Limits(), None, "bad_type"),
        (Limits(), b"SELECT 1", "bad_type"),
    ],
)
def test_each_limit_has_its_kind(path, limits, sql, want):
    db = Database(path, limits)
    assert kind(db.query, sql) == want
    assert db.query("SELECT 1").rows == [(1,)], "and the database goes on"


def test_invalid_unicode_is_an_error_of_ours(db):
    assert kind(db.query, "SELECT '\ud800'") in ("encoding", "syntax")
    assert kind(db.describe, "\ud800") == "unknown_table"
    assert db.query("SELECT 1").rows == [(1,)]


def test_text_in_the_database_that_is_no_utf8(tmp_path):
    con = apsw.Connection(str(tmp_path / "a.sqlite"))
    con.execute(
        "CREATE TABLE t(a, b); INSERT INTO t VALUES (CAST(x'ff41' AS TEXT), 1), ('fine', 2)"
    )
    con.close()
    db = Database(tmp_path / "a.sqlite")
    assert kind(db.query, "SELECT a FROM t") == "encoding"
    assert db.query("SELECT hex(a), b FROM t").rows == [("FF41", 1), ("66696E65", 2)]
    assert db.sample("t").rows == [("\ufffdA", 1), ("fine", 2)]


# ---- the budget of operations is deterministic

SMALL = Limits(operations=20_000)


@pytest.fixture(scope="module")
def border(path):
    "The largest n that a fresh connection still counts to within the small budget."
    low, high = 1, 20_000
    while high - low > 1:
        n = (low + high) // 2
        low, high = (
            (n, high)
            if not outcome(Database(path, SMALL), COUNT.format(n)).startswith("operations")
            else (low, n)
        )
    return low


def test_the_border_is_sharp(path, border):
    assert outcome(Database(path, SMALL), COUNT.format(border)) == f"[({border}, {border})]"
    assert outcome(Database(path, SMALL), COUNT.format(border + 1)).startswith("operations")


@pytest.mark.parametrize("shift", range(-7, 8))
def test_a_query_near_the_budget_always_ends_alike(path, border, shift):
    sql = COUNT.format(border + shift)
    fresh, db, rng = outcome(Database(path, SMALL), sql), Database(path, SMALL), Random(shift)
    for _ in range(50):
        assert outcome(db, sql) == fresh
        if rng.random() < 0.5:  # other statements move the counters
            outcome(
                db,
                rng.choice(
                    [
                        COUNT.format(rng.randrange(1, 3000)),
                        "SELECT * FROM person",
                        "SELECT nope",
                        "SELECT count(*) FROM job",
                        COUNT.format(border + rng.randrange(-9, 9)),
                    ]
                ),
            )


def test_rows_that_stop_near_the_budget_always_end_alike(path):
    for limit in (*range(1180, 1200), 300, 900):
        sql = f"SELECT a.id, b.id FROM person a, person b, job c LIMIT {limit}"
        limits = Limits(operations=6_000, rows=1_190)
        fresh, db = outcome(Database(path, limits), sql), Database(path, limits)
        assert all(outcome(db, sql) == fresh for _ in range(10))


def test_a_query_near_the_budget_ends_alike_in_threads_and_in_an_isolated_process(path, border):
    sqls = [COUNT.format(border + i) for i in range(-5, 6)]
    fresh = [outcome(Database(path, SMALL), s) for s in sqls]
    db = Database(path, SMALL)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert list(pool.map(lambda s: outcome(db, s), sqls * 3)) == fresh * 3
    with Database(path, SMALL, isolate=True) as isolated:
        assert [outcome(isolated, s) for s in sqls for _ in range(3)] == [
            f for f in fresh for _ in range(3)
        ]


class Clock:
    "Stands in for `time`: after the first look a clock is ahead by some seconds."

    def __init__(self, **ahead):
        self.ahead, self.asked = ahead, set()

    def __getattr__(self, name):
        def read():
            late = self.ahead.get(name, 0) if name in self.asked else 0
            self.asked.add(name)
            return getattr(time, name)() + late

        return read


@pytest.mark.parametrize(
    "ahead, kind",
    [
        ({"monotonic": 50}, "operations"),
        ({"thread_time": 50}, "operations"),
        ({"monotonic": 50, "thread_time": 50}, "timeout"),
        ({"monotonic": 10**4}, "timeout"),
    ],
)
def test_a_busy_machine_does_not_make_a_query_time_out(path, monkeypatch, ahead, kind):
    "A statement is late by its own work, or by twenty times the limit; waiting for others is not its fault."
    db = Database(path, Limits(seconds=20))
    db.query("SELECT 1")  # opens the connection, which looks at the clocks too
    monkeypatch.setattr("sql_env.database.time", Clock(**ahead))
    with pytest.raises(QueryError) as e:
        db.query(COUNT.format(10**9))
    assert e.value.kind == kind


def test_many_threads_get_what_one_gets(path):
    db = Database(path, Limits(seconds=20))
    sqls = ["SELECT a.id, b.id, c.title FROM person a, person b, job c", COUNT.format(10**9)] * 16

    def run(sql):
        try:
            r = db.query(sql)
            return len(r.rows), r.truncated
        except QueryError as e:
            return e.kind

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(run, sqls)) == [(20_000, True), "operations"] * 16


def test_a_statement_after_an_error_has_its_whole_budget(path, border):
    db = Database(path, SMALL)
    for _ in range(10):
        assert outcome(db, COUNT.format(10**7)).startswith("operations")
        assert outcome(db, COUNT.format(border)) == f"[({border}, {border})]"


# ---- threads, processes, closing


def test_eight_threads_may_share_a_database(path):
    db, one = Database(path), Database(path)
    sqls = [
        "SELECT * FROM person",
        "SELECT title, count(*) FROM job GROUP BY 1",
        "SELECT nope FROM job",
        "SELECT p.name, j.title FROM person p JOIN job j ON p.id = j.person_id ORDER BY 1, 2",
        "DROP TABLE job",
        "SELECT avg(secret_wage) FROM person",
        COUNT.format(2000),
    ]
    want = [outcome(one, s) for s in sqls]

    def work(seed):
        rng, bad = Random(seed), 0
        for _ in range(150):
            i = rng.randrange(len(sqls) + 2)
            if i < len(sqls):
                bad += outcome(db, sqls[i]) != want[i]
            else:
                s = rng.randrange(300)
                bad += (
                    db.sample("person", seed=s) != one_sample(s) or db.describe("JOB").rows != 200
                )
        return bad

    found = {s: Database(path).sample("person", seed=s) for s in range(300)}
    one_sample = found.__getitem__
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [0] * 8
    finally:
        sys.setswitchinterval(interval)
    assert len(db._pool) <= db.keep


def ask(db):
    return (
        os.getpid(),
        db.tables,
        db.query("SELECT count(*) FROM person").rows,
        db.sample("job", 3, 5).rows,
    )


def test_a_database_goes_to_other_processes(db):
    back = pickle.loads(pickle.dumps(db))
    assert (back.path, back.limits, back.isolate, back.tables) == (
        db.path,
        db.limits,
        db.isolate,
        db.tables,
    )
    with ProcessPoolExecutor(2) as pool:
        pid, *found = pool.submit(ask, db).result()
    assert pid != os.getpid() and found == list(ask(db)[1:])


def test_settings_survive_pickling(path):
    back = pickle.loads(pickle.dumps(Database(path, Limits(rows=3), isolate=True)))
    assert (
        back.isolate
        and back.limits == Limits(rows=3)
        and len(back.query("SELECT id FROM person").rows) == 3
    )
    back.close()


def test_a_fork_does_not_disturb_its_parent(db):
    before = db.query("SELECT * FROM person").rows
    pid = os.fork()
    if not pid:
        os._exit(0 if Database(db.path).query("SELECT * FROM person").rows == before else 1)
    assert os.waitpid(pid, 0)[1] == 0 and db.query("SELECT * FROM person").rows == before


@pytest.mark.parametrize("isolate", [False, True])
def test_a_closed_database_says_so(path, isolate):
    with Database(path, isolate=isolate) as db:
        assert db.query("SELECT 1").rows == [(1,)]
    assert kind(db.query, "SELECT 1") == kind(db.sample, "job") == "closed"
    db.close()


def test_closing_while_threads_work_is_safe(path):
    for _ in range(10):
        db = Database(path)
        with ThreadPoolExecutor(4) as pool:
            found = [
                pool.submit(outcome, db, "SELECT * FROM person a, person b") for _ in range(12)
            ]
            db.close()
        assert all(f.result().startswith(("closed", "[(")) for f in found)


def test_many_databases_leave_no_files_open(path):
    def count():
        gc.collect()
        return sum(
            "work.sqlite" in os.readlink(f"/proc/self/fd/{f}")
            for f in os.listdir("/proc/self/fd")
            if os.path.islink(f"/proc/self/fd/{f}")
        )

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    before = count()
    for _ in range(30):
        with Database(path) as db:
            db.query("SELECT 1")
    assert count() <= before


def test_a_relative_path_survives_a_change_of_folder(path, monkeypatch, tmp_path):
    monkeypatch.chdir(path.parent)
    db = Database(path.name)
    monkeypatch.chdir(tmp_path)
    assert db.query("SELECT count(*) FROM person").rows == [(100,)]
    assert pickle.loads(pickle.dumps(db)).tables == db.tables


def test_a_file_that_vanished_is_a_bad_database(tmp_path):
    path = build_database(tmp_path / "a.sqlite", "CREATE TABLE t(x)", {"t": [(1,)]})
    db = Database(path)
    path.unlink()
    assert kind(db.query, "SELECT * FROM t") == "bad_database"


# ---- isolated

VALUES = [
    None,
    0,
    1,
    -1,
    2**63 - 1,
    -(2**63),
    0.0,
    -0.0,
    1.5,
    1e308,
    5e-324,
    float("inf"),
    float("-inf"),
    0.1 + 0.2,
    "",
    " ",
    "text",
    "it's",
    "é 🦊\n\t\\",
    "\x00",
    "\x1f\x7f\x85\u2028",
    "NULL",
    "3",
    '{"hex": "ff"}',
    b"",
    b"\x00\xff",
    b"text",
]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    return build_database(
        tmp_path_factory.mktemp("zoo") / "zoo.sqlite",
        "CREATE TABLE zoo(n INTEGER PRIMARY KEY, v)",
        {"zoo": list(enumerate(VALUES))},
    )


def test_all_values_come_through_the_isolating_process(zoo):
    with Database(zoo, isolate=True) as isolated:
        for sql in (
            "SELECT n, v, typeof(v) FROM zoo ORDER BY n",
            'SELECT v AS "a 🦊", 1 AS a, 2 AS a FROM zoo',
            "SELECT 1 WHERE 0",
        ):
            mine, theirs = isolated.query(sql), Database(zoo).query(sql)
            assert repr(mine) == repr(theirs)
        assert [
            (type(r[1]), r[1]) for r in isolated.query("SELECT * FROM zoo ORDER BY n").rows
        ] == [(type(v), v) for v in VALUES]


def test_an_isolated_database_does_all_that_another_does(path, db):
    with Database(path, Limits(rows=50), isolate=True) as isolated:
        here = Database(path, Limits(rows=50))
        assert isolated.describe("job") == here.describe("job") and isolated.sample(
            "job", 4, 2
        ) == here.sample("job", 4, 2)
        for sql in (
            "SELECT * FROM job",
            "SELECT nope FROM job",
            "SELECT * FROM jobs",
            "DELETE FROM job",
            "SELECT 1; SELECT 2",
            "SELECT * FROM sqlite_master",
            COUNT.format(10**8),
            "SELECT '\ud800'",
            3,
        ):
            assert outcome(isolated, sql) == outcome(here, sql)


def test_an_isolating_process_that_died_is_replaced(path):
    with Database(path, isolate=True) as isolated:
        isolated.query("SELECT 1")
        isolated._pool[0].process.kill()
        assert kind(isolated.query, "SELECT 2") in ("memory", "timeout")
        assert isolated.query("SELECT 2").rows == [(2,)]


# ---- describe and sample of all kinds of tables

NAMES = [
    "With Space",
    "select",
    "semi;",
    'dou"ble',
    "sin'gle",
    "br[ack]et",
    "ba`ck",
    "a.b",
    "é",
    "名前",
    "UPPER",
    " lead",
    "trail ",
    "new\nline",
    "(",
    "1",
    "NULL",
    "x'ff'",
    "--",
    "%",
    "a" * 300,
    '"quoted"',
    "[b]",
    "''",
    "-",
    "🦊",
]


@pytest.mark.parametrize("name", NAMES)
def test_tables_and_columns_may_have_any_name(tmp_path, name):
    column = name + " c"
    path = build_database(
        tmp_path / "a.sqlite",
        f"CREATE TABLE {quote_identifier(name)} ({quote_identifier(column)} TEXT, {quote_identifier(name)} INTEGER)",
        {name: [("a", 1), ("b", 2)]},
    )
    db = Database(path)
    assert db.tables == [name]
    for form in (
        name,
        quote_identifier(name),
        quote_identifier(name).upper() if name.isascii() else quote_identifier(name),
        f"  {quote_identifier(name)} ",
    ):
        info = db.describe(form)
        assert (info.name, [c.name for c in info.columns], info.rows) == (name, [column, name], 2)
        assert db.sample(form).rows == [("a", 1), ("b", 2)] and db.columns(form) == info.columns
    assert db.query(f"SELECT {quote_identifier(column)} FROM {quote_identifier(name)}").columns == (
        column,
    )
    assert len(str(info).split("\n")) == 3


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    schema = """CREATE TABLE base (k TEXT, n INTEGER, total REAL GENERATED ALWAYS AS (n * 2.5) VIRTUAL, stored TEXT AS (k || '!') STORED, PRIMARY KEY (k, n)) WITHOUT ROWID;
        CREATE TABLE empty (x, y DECIMAL(10, 2) NOT NULL DEFAULT 1);
        CREATE TABLE child (id INTEGER PRIMARY KEY AUTOINCREMENT, k TEXT, n INTEGER, p REFERENCES parent, FOREIGN KEY (k, n) REFERENCES base(k, n));
        CREATE TABLE parent (code TEXT PRIMARY KEY) STRICT;
        CREATE TABLE lost (gone INTEGER REFERENCES nowhere);
        CREATE VIEW seen AS SELECT k, count(*) AS how_many FROM base GROUP BY k;
        CREATE VIEW heavy AS SELECT a.k FROM base a, base b, base c, base d, base e, base f, base g;
        CREATE INDEX i ON base(n); CREATE TRIGGER tr AFTER INSERT ON empty BEGIN SELECT 1; END;
        CREATE VIRTUAL TABLE words USING fts5(body)"""
    path = tmp_path_factory.mktemp("kinds") / "kinds.sqlite"
    con = apsw.Connection(str(path))
    con.execute(schema)
    con.executemany("INSERT INTO base(k, n) VALUES (?, ?)", [(f"k{i % 4}", i) for i in range(12)])
    con.execute("INSERT INTO child(k, n) VALUES ('k0', 0)")
    con.close()
    return path


def test_every_kind_of_table_is_described(kinds):
    db = Database(kinds)
    assert {"base", "empty", "child", "parent", "lost", "seen", "heavy"} <= set(db.tables) and not {
        "words",
        "sqlite_sequence",
    } & set(db.tables)
    assert str(db.describe("base")).split("\n") == [
        "base: 12 rows",
        "k TEXT, primary key",
        "n INTEGER, primary key",
        "total REAL",
        "stored TEXT",
    ]
    assert str(db.describe("empty")).split("\n") == ["empty: 0 rows", "x", "y DECIMAL(10, 2)"]
    assert str(db.describe("child")).split("\n") == [
        "child: 1 rows",
        "id INTEGER, primary key",
        "k TEXT, references base.k",
        "n INTEGER, references base.n",
        "p, references parent.code",
    ]
    assert "nowhere" in str(db.describe("lost"))
    assert str(db.describe("seen")).split("\n")[0] == "seen: 4 rows"
    assert (
        str(Database(kinds, Limits(operations=200_000)).describe("heavy")).split("\n")[0]
        == "heavy: unknown number of rows"
    )


def test_every_kind_of_table_is_sampled(kinds):
    db = Database(kinds)
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
    assert rows == sorted(rows, key=Database(kinds).query("SELECT * FROM base").rows.index), (
        "in their stored order"
    )


def test_samples_are_fair():
    "Each row of ten is drawn about equally often over 600 seeds (chi squared, 9 degrees of freedom)."
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        db = Database(
            build_database(
                Path(folder) / "a.sqlite", "CREATE TABLE t(x)", {"t": [(i,) for i in range(10)]}
            )
        )
        drawn = [r[0] for seed in range(600) for r in db.sample("t", 3, seed).rows]
        counts = [drawn.count(i) for i in range(10)]
        db.close()
    assert sum((c - 180) ** 2 / 180 for c in counts) < 27.9


def test_a_caller_cannot_spoil_a_sample(db):
    db.sample("person", 2, 9).rows.clear()
    assert len(db.sample("person", 2, 9).rows) == 2


def test_a_table_of_100_000_rows(tmp_path):
    db = Database(
        build_database(
            tmp_path / "a.sqlite",
            "CREATE TABLE big(n INTEGER PRIMARY KEY, t TEXT)",
            {"big": ((i, f"text {i}") for i in range(100_000))},
        )
    )
    before = time.monotonic()
    assert (
        db.describe("big").rows == 100_000
        and len({db.sample("big", seed=s).rows[-1] for s in range(10)}) > 5
    )
    r = db.query("SELECT * FROM big")
    assert len(r.rows) == 20_000 and r.truncated and time.monotonic() - before < 5
    assert db.query("SELECT sum(n) FROM big").rows == [(4999950000,)]


def test_a_table_too_large_to_skip_through_is_sampled_all_the_same(tmp_path):
    path = build_database(
        tmp_path / "a.sqlite",
        "CREATE TABLE big(n INTEGER PRIMARY KEY)",
        {"big": ((i,) for i in range(50_000))},
    )
    db = Database(path, Limits(operations=10_000))
    assert db.describe("big").rows == 50_000
    assert len(db.sample("big").rows) == 5 == len(db.sample("big", seed=3).rows)


def test_a_view_that_is_broken_does_not_close_the_database(tmp_path):
    con = apsw.Connection(str(tmp_path / "a.sqlite"))
    con.execute("CREATE TABLE t(x); INSERT INTO t VALUES (1); CREATE VIEW v AS SELECT nope FROM t")
    con.close()
    db = Database(tmp_path / "a.sqlite")
    assert db.query("SELECT x FROM t").rows == [(1,)] and "t" in db.tables


# ---- names that are unknown


@pytest.mark.parametrize(
    "name, near",
    [
        ("persn", "person"),
        ("PERSONS", "person"),
        ("jobs", "job"),
        ('"jop"', "job"),
        ("main.person", "person"),
    ],
)
def test_an_unknown_table_is_answered_with_near_ones(db, name, near):
    for f in (db.describe, db.sample, db.columns):
        with pytest.raises(QueryError, match=f"Did you mean {near}") as e:
            f(name)
        assert e.value.kind == "unknown_table"


@pytest.mark.parametrize("bad", [None, 3, b"person", ["person"], object()])
def test_a_name_that_is_no_text_is_an_error(db, bad):
    assert kind(db.describe, bad) == kind(db.sample, bad) == kind(db.query, bad) == "bad_type"


@pytest.mark.parametrize(
    "sql, hint",
    [
        ("SELECT nam FROM person", "name"),
        ("SELECT p.titel FROM job p", "title"),
        ("SELECT nam FROM PERSON", "name"),
        ('SELECT person."nam" FROM "person"', "name"),
    ],
)
def test_an_unknown_column_is_answered_with_near_ones(db, sql, hint):
    with pytest.raises(QueryError, match=f"Did you mean .*{hint}"):
        db.query(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT secret_wag FROM job",
        "SELECT secret_wage",
        "SELECT job.secret_wag FROM job",
        "SELECT secret_wag FROM (SELECT 1)",
        "SELECT hidden_cod FROM person",
        "SELECT x.secret_wag FROM job x",
        "SELECT secret_wag FROM persons",
        "SELECT secret_wage FROM job ORDER BY 1",
        "WITH c AS (SELECT 1 AS z) SELECT secret_wag FROM c",
        "SELECT nam FROM job",
        "VALUES (secret_wag)",
    ],
)
def test_hints_name_no_column_of_a_table_that_the_query_does_not_mention(db, sql):
    with pytest.raises(QueryError) as e:
        db.query(sql)
    mentioned = (
        "job" if "job" in sql else "person" if "FROM person" in sql and "persons" not in sql else ""
    )
    allowed = {c.name for c in db.columns(mentioned)} if mentioned else set()
    others = {c.name for t in db.tables for c in db.columns(t)} - allowed
    assert not others & set(
        e.value.hint.replace("?", " ").replace(".", " ").replace(",", " ").split()
    ), e.value.hint


def test_messages_hold_no_path(db, path):
    for sql in (
        "SELECT",
        "SELECT nope",
        "SELECT * FROM x.person",
        "SELECT load_extension('x')",
        "ATTACH 'x' AS y",
        "SELECT readfile('/etc/passwd')",
    ):
        assert str(path.parent) not in outcome(db, sql) and "/tmp" not in outcome(db, sql)


# ---- one written form for every value

values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=20),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.sampled_from([v for v in VALUES]),
    st.from_regex(r"['\"\\nxNUL0-9eE+. |@\[{-]{0,8}", fullmatch=True),
    st.integers().map(str).filter(lambda s: len(s) < 25),
    st.floats().map(str),
)


@settings(max_examples=800, deadline=None, derandomize=True)
@given(v=values)
def test_a_written_value_is_one_line_and_reads_back(v):
    text = format_value(v)
    assert text and text == text.strip() and all(ord(c) > 31 and c != "\x7f" for c in text)
    assert "|" not in text or text[0] == text[-1] == "'", "a bar only between quotes"
    assert cells_equal(parse_cell(text), v), "and is the value again"
    assert format_value(v) == text


@settings(max_examples=800, deadline=None, derandomize=True)
@given(a=values, b=values)
def test_different_values_are_written_differently(a, b):
    if format_value(a) == format_value(b):
        assert a == b and type(a) is type(b)


@pytest.mark.parametrize(
    "value, text",
    [
        (None, "NULL"),
        (3, "3"),
        (-0.0, "0.0"),
        (2.5, "2.5"),
        (3.0, "3.0"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        ("plain", "plain"),
        ("", "''"),
        ("NULL", "'NULL'"),
        ("null", "'null'"),
        ("3", "'3'"),
        ("1e5", "'1e5'"),
        ("it's", "it's"),
        ("'x'", "'''x'''"),
        ("a | b", "'a | b'"),
        ("a\nb", "'a\\nb'"),
        (b"\xff", "x'ff'"),
        (b"", "x''"),
        (" x", "' x'"),
        ("@last", "'@last'"),
        ("[1]", "'[1]'"),
        ("2**63", "2**63"),
        ("١٢", "'١٢'"),
        ("1_000", "'1_000'"),
        ("Infinity", "'Infinity'"),
        ("nan", "nan"),
        ("(no rows)", "'(no rows)'"),
    ],
)
def test_written_forms(value, text):
    assert format_value(value) == text


def test_long_values_are_cut_and_say_how_long_they_are():
    assert format_value("x" * 400, 300) == "x" * 300 + "... (400 characters)"
    assert format_value(b"\xab" * 200, 300) == "x'" + "ab" * 150 + "'... (200 bytes)"
    assert (
        format_value("x" * 300, 300) == "x" * 300
        and format_value(b"\xab" * 150, 300) == "x'" + "ab" * 150 + "'"
    )


def test_all_values_are_written_alike_by_query_sample_and_isolation(zoo):
    db = Database(zoo)
    n = len(VALUES)
    text = db.query("SELECT * FROM zoo").text(rows=n)
    assert db.sample("zoo", n).text(rows=n) == text
    with Database(zoo, isolate=True) as isolated:
        assert isolated.query("SELECT * FROM zoo").text(rows=n) == text
    assert len(text.split("\n")) == n + 1


def test_values_come_back_typed(zoo):
    rows = Database(zoo).query("SELECT v FROM zoo ORDER BY n").rows
    for (found,), v in zip(rows, VALUES):
        assert (
            type(found) is type(v)
            and found == v
            and not (isinstance(found, float) and math.isnan(found))
        )
    assert Database(zoo).query("SELECT 1e999 - 1e999, 0.0 / 0").rows == [(None, None)], (
        "there is no nan"
    )


# ---- imports


def python(code):
    "Processor seconds of a fresh Python and what it printed; waiting for a busy machine does not count."

    def spent():
        now = os.times()
        return now.children_user + now.children_system

    start = spent()
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    return spent() - start, out


@pytest.mark.parametrize(
    "module", ["sql_env", "sql_env.episode", "sql_env.policies", "sql_env.evaluation"]
)
def test_nothing_heavy_is_imported(module):
    heavy = (
        "torch",
        "openenv",
        "pandas",
        "transformers",
        "trl",
        "matplotlib",
        "scipy",
        "numpy",
        "sqlglot",
        "IPython",
        "fastapi",
        "rich",
        "typer",
    )
    out = python(f"import {module}, sys; print([m for m in {heavy} if m in sys.modules])")[1]
    assert out.strip() == "[]"


@pytest.mark.parametrize("module", ["sql_env", "sql_env.episode", "sql_env.evaluation"])
def test_imports_are_quick(module):
    def once():
        return min(python(f"import {module}")[0] for _ in range(3)) - min(
            python("pass")[0] for _ in range(3)
        )

    assert min(once() for _ in range(2)) < 0.2


def test_limits_can_be_changed_one_by_one():
    assert (
        replace(Limits(), rows=5).operations == Limits().operations
        and Limits.gold().operations > Limits().operations
    )


def test_a_file_behind_a_symbolic_link_opens(tmp_path):
    "SQLite's Python file layer reports a link as an error, so the path is resolved first."
    real = build_database(tmp_path / "real.sqlite", "CREATE TABLE t (a INTEGER)", {"t": [(1,)]})
    (tmp_path / "folder").symlink_to(tmp_path, target_is_directory=True)
    with Database(tmp_path / "folder" / real.name) as db:
        assert db.query("SELECT a FROM t").rows == [(1,)]


def test_a_connection_collected_in_the_middle_of_counting_does_not_wait_for_itself(monkeypatch):
    "The garbage collector may end a connection at any allocation, also while the heap limit is being counted in the same thread."
    heap, limits = HeapLimit(), []
    monkeypatch.setattr("apsw.hard_heap_limit", limits.append)

    def memory_used():
        heap.change(7, -1)  # as a finalizer would
        return 1000

    def work():
        heap.change(7, 2)
        monkeypatch.setattr("apsw.memory_used", memory_used)
        heap.change(7, -2)
        heap.change(9, 1)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(5)
    assert (
        not thread.is_alive()
        and not heap.changes
        and heap.allowances == {9: 1}
        and limits[-1] == 1000 + 9 + heap.room
    )


def test_the_heap_limit_counts_right_from_many_threads(monkeypatch):
    monkeypatch.setattr("apsw.hard_heap_limit", lambda n: None)
    heap = HeapLimit()

    def work(i):
        for k in range(300):
            heap.change(1 + k % 5, 1), heap.change(1 + k % 5, -1)
        heap.change(100 + i, 1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert heap.allowances == {100 + i: 1 for i in range(8)} and not heap.changes
