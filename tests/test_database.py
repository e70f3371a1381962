"""Database: results, samples, threads, processes and what is brief.

Values, guards, catalog and isolation have their own files; attacks are in test_attacks.py.
"""

import gc
import math
import os
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from random import Random

import apsw
import pytest
from databases import COUNT, kind, outcome, work_database
from tables import cases
from test_values import VALUES

from sql_env.database.database import Database, build_database
from sql_env.database.guards import Limits, QueryError


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return work_database(tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def db(path):
    with Database(path) as db:
        yield db


def test_a_result_has_columns_rows_and_truncated(db):
    for where, rows in (("id < 3", [(1, "name 1"), (2, "name 2")]), ("0", []), ("0", [])):
        r = db.query(f"SELECT id, name AS who FROM person WHERE {where}")
        assert (r.columns, r.rows, r.truncated) == (("id", "who"), rows, False)


@pytest.mark.parametrize("sql", cases("database_columns_are_named_however_a"))
def test_columns_are_named_however_a_statement_ends(path, sql):
    db = Database(path)
    for _ in range(3):
        r = db.query(sql)
        assert (r.columns, r.rows) == (("a",), [(1,)])


@pytest.mark.parametrize("n, cap, cut", [(10, 10, False), (11, 10, True), (9, 10, False), (1, 1, False), (2, 1, True)])
def test_rows_are_cut_at_the_cap_and_it_is_said(path, n, cap, cut):
    r = Database(path, Limits(rows=cap)).query(f"SELECT id FROM person LIMIT {n}")
    assert len(r.rows) == min(n, cap) and r.truncated is cut
    assert ("or more" in r.text()) is cut, "the text says so too"
    assert ("or more" in r.text(rows=1)) is cut or n == 1


def test_values_come_back_typed(tmp_path):
    schema = "CREATE TABLE zoo(n INTEGER PRIMARY KEY, v)"
    db = Database(build_database(tmp_path / "zoo.sqlite", schema, {"zoo": list(enumerate(VALUES))}))
    for (found,), v in zip(db.query("SELECT v FROM zoo ORDER BY n").rows, VALUES, strict=True):
        assert type(found) is type(v) and found == v and not (isinstance(found, float) and math.isnan(found))
    assert db.query("SELECT 1e999 - 1e999, 0.0 / 0").rows == [(None, None)], "there is no nan"
    # text that is no UTF-8
    schema = "CREATE TABLE t(a, b); INSERT INTO t VALUES (CAST(x'ff41' AS TEXT), 1), ('fine', 2)"
    db = Database(build_database(tmp_path / "a.sqlite", schema, {}))
    assert kind(db.query, "SELECT a FROM t") == "encoding"
    assert db.query("SELECT hex(a), b FROM t").rows == [("FF41", 1), ("66696E65", 2)]
    assert db.sample("t").rows == [("\ufffdA", 1), ("fine", 2)]
    # values that no statement may read: SAMPLE says how long they are, and shows the other columns
    schema, long = "CREATE TABLE t(a, b, c); CREATE VIEW v AS SELECT * FROM t", b"\1" * 3_000_000
    db = Database(
        build_database(tmp_path / "b.sqlite", schema, {"t": [("quay", long, "é" * 20_000), ("pier", b"", "x")]})
    )
    assert kind(db.query, "SELECT b FROM t") == kind(db.query, "SELECT c FROM t") == "memory"
    for name in ("t", "v"):
        assert db.sample(name).rows == [("quay", "3000000 bytes", "40000 bytes"), ("pier", b"", "x")]


def test_samples_are_fair(tmp_path):
    "Each row of ten is drawn about equally often over 600 seeds (chi squared, 9 degrees of freedom)."
    path = build_database(tmp_path / "a.sqlite", "CREATE TABLE t(x)", {"t": [(i,) for i in range(10)]})
    with Database(path) as db:
        drawn = [r[0] for seed in range(600) for r in db.sample("t", 3, seed).rows]
        db.sample("t", 2, 9).rows.clear()
        assert len(db.sample("t", 2, 9).rows) == 2, "a caller can't spoil a sample"
    assert sum((drawn.count(i) - 180) ** 2 / 180 for i in range(10)) < 27.9


def test_a_table_of_100_000_rows(tmp_path):
    schema, rows = "CREATE TABLE big(n INTEGER PRIMARY KEY, t TEXT)", ((i, f"text {i}") for i in range(100_000))
    path = build_database(tmp_path / "a.sqlite", schema, {"big": rows})
    db = Database(path)
    assert db.describe("big").rows == 100_000 and len({db.sample("big", seed=s).rows[-1] for s in range(10)}) > 5
    r = db.query("SELECT * FROM big")
    assert len(r.rows) == 20_000 and r.truncated
    assert db.query("SELECT sum(n) FROM big").rows == [(4999950000,)]
    few = Database(path, Limits(operations=10_000))  # too large to skip through, and sampled all the same
    assert few.describe("big").rows == 100_000
    assert len(few.sample("big").rows) == 5 == len(few.sample("big", seed=3).rows)


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
        "SELECT * FROM sqlite_master",
        "SELECT CAST(x'ff' AS TEXT)",
        "SELECT printf('%018000d', person_id) FROM job",
    ]
    want = [outcome(one, s) for s in sqls]

    samples = [Database(path).sample("person", seed=s) for s in range(300)]

    def work(seed):
        rng, bad = Random(seed), 0
        for _ in range(150):
            i = rng.randrange(len(sqls) + 2)
            if i < len(sqls):
                bad += outcome(db, sqls[i]) != want[i]
            else:
                s = rng.randrange(300)
                bad += db.sample("person", seed=s) != samples[s] or db.describe("JOB").rows != 200
        return bad

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [0] * 8
    finally:
        sys.setswitchinterval(interval)
    assert len(db.pool.free) <= db.pool.keep


def ask(db):
    return (os.getpid(), db.tables, db.query("SELECT count(*) FROM person").rows, db.sample("job", 3, 5).rows)


def test_a_database_goes_to_other_processes(db):
    back = pickle.loads(pickle.dumps(db))
    assert (back.path, back.limits, back.tables) == (db.path, db.limits, db.tables)
    back.query("SELECT 1")
    assert back.pool.free[0] not in db.pool.free
    with ProcessPoolExecutor(2) as pool:
        pid, *found = pool.submit(ask, db).result()
    assert pid != os.getpid() and found == list(ask(db)[1:])
    with pickle.loads(pickle.dumps(Database(db.path, Limits(rows=3)))) as back:
        assert back.limits == Limits(rows=3) and len(back.query("SELECT id FROM person").rows) == 3


def test_a_closed_database_says_so_and_closing_while_threads_work_is_safe(path):
    with Database(path) as db:
        assert db.query("SELECT 1").rows == [(1,)]
    assert kind(db.query, "SELECT 1") == kind(db.sample, "job") == "closed"
    db.close()
    for _ in range(10):
        db = Database(path)
        with ThreadPoolExecutor(4) as pool:
            found = [pool.submit(outcome, db, "SELECT * FROM person a, person b") for _ in range(12)]
            db.close()
        assert all(f.result().startswith(("closed", "[(")) for f in found)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_many_databases_leave_no_files_open(path):
    def count():
        gc.collect()
        handles = [f"/proc/self/fd/{f}" for f in os.listdir("/proc/self/fd")]
        return sum("work.sqlite" in os.readlink(f) for f in handles if os.path.islink(f))

    before = count()
    for _ in range(10):
        with Database(path) as db:
            db.query("SELECT 1")
    assert count() <= before


def test_a_connection_that_nobody_holds_is_closed(path):
    "Functions that charge a budget keep no connection alive, also those of counted calls."
    before = len(apsw.connections())
    for _ in range(8):
        db = Database(path)
        db.query("SELECT instr(name, 'x'), trim(name, 'x'), date('now') FROM person")
    del db
    gc.collect()
    assert len(apsw.connections()) <= before + 1


def test_a_relative_path_survives_a_change_of_folder_and_a_lost_file_is_a_bad_database(monkeypatch, tmp_path):
    path = work_database(tmp_path)
    monkeypatch.chdir(tmp_path)
    db = Database(path.name)
    monkeypatch.chdir(os.sep)
    assert db.query("SELECT count(*) FROM person").rows == [(100,)]
    assert pickle.loads(pickle.dumps(db)).tables == db.tables
    lost = Database(path)
    path.unlink()
    with pytest.raises(QueryError) as e:
        lost.query("SELECT * FROM person")
    assert e.value.kind == "bad_database" and str(tmp_path) not in str(e.value)
