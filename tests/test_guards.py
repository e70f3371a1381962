"Guards: each limit has its kind, the budget decides the same way every time, the heap limit counts right."

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import chain, product, repeat
from random import Random
from types import SimpleNamespace

import apsw
import pytest
from databases import COUNT, kind, outcome, work_database
from tables import cases

from sql_env import Database, Limits, QueryError
from sql_env.database import connection
from sql_env.database.connection import _Budget


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return work_database(tmp_path_factory.mktemp("work"))


@pytest.mark.parametrize("limits, sql, want", cases("guards_limits"))
def test_each_limit_has_its_kind(path, limits, sql, want):
    db = Database(path, Limits(**limits))
    assert kind(db.query, sql) == want
    assert db.query("SELECT 1").rows == [(1,)], "and the database goes on"


def test_invalid_unicode_is_an_error_of_ours(path):
    with Database(path) as db:
        with pytest.raises(QueryError, match="unpaired UTF-16 surrogate") as e:
            db.query("SELECT '\ud800'")
        assert e.value.kind == "encoding" and kind(db.describe, "\ud800") == "unknown_table"
        assert db.query("SELECT 1").rows == [(1,)]


SMALL = Limits(operations=20_000)


def largest(high, fits):
    low = 1
    while high - low > 1:
        n = (low + high) // 2
        low, high = (n, high) if fits(n) else (low, n)
    return low


@pytest.fixture(scope="module")
def border(path):
    "The largest n that a fresh connection still counts to within the small budget."
    return largest(20_000, lambda n: outcome(Database(path, SMALL), COUNT.format(n))[0] == "[")


def test_the_border_is_sharp_and_after_an_error_it_is_the_same(path, border):
    assert outcome(Database(path, SMALL), COUNT.format(border + 1)).startswith("operations")
    db = Database(path, SMALL)
    for _ in range(10):
        assert outcome(db, COUNT.format(border)) == f"[({border}, {border})]"
        assert outcome(db, COUNT.format(10**7)).startswith("operations")


@pytest.mark.parametrize("shift", range(-7, 8))
def test_a_query_near_the_budget_always_ends_alike(path, border, shift):
    sql = COUNT.format(border + shift)
    fresh, db, rng = outcome(Database(path, SMALL), sql), Database(path, SMALL), Random(shift)
    for _ in range(12):
        assert outcome(db, sql) == fresh
        if rng.random() < 0.5:  # other statements move the counters
            counts = (COUNT.format(n) for n in (rng.randrange(1, 3000), border + rng.randrange(-9, 9)))
            outcome(db, rng.choice([*counts, "SELECT * FROM person", "SELECT nope", "SELECT count(*) FROM job"]))


def test_rows_that_stop_near_the_budget_always_end_alike(path):
    for limit in (*range(1180, 1200), 300, 900):
        sql = f"SELECT a.id, b.id FROM person a, person b, job c LIMIT {limit}"
        limits = Limits(operations=6_000, rows=1_190)
        fresh, db = outcome(Database(path, limits), sql), Database(path, limits)
        assert all(outcome(db, sql) == fresh for _ in range(10))


def test_a_query_near_the_budget_ends_alike_in_threads(path, border):
    sqls = [COUNT.format(border + i) for i in range(-5, 6)]
    fresh = [outcome(Database(path, SMALL), s) for s in sqls]
    db = Database(path, SMALL)
    for _ in range(5):
        assert verdicts(db, sqls * 3, 8, None) == fresh * 3


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


def stand_still(monkeypatch, thread_time=0.0, monotonic=0.0):
    "Both clocks that a budget looks at stand still, and from the second look on they are ahead by some seconds."
    places = dict(_thread_seconds=thread_time, time=monotonic)
    for name, ahead in places.items():
        seconds = chain([0.0], repeat(ahead))
        clock = partial(next, seconds)
        monkeypatch.setattr(connection, name, SimpleNamespace(monotonic=clock) if name == "time" else clock)


LATE = [(0, 50, "operations"), (50, 0, "operations"), (50, 50, "timeout"), (0, 10**4, "timeout")]


@pytest.mark.parametrize("cpu, wall, ends", LATE)
def test_a_busy_machine_does_not_make_a_query_time_out(path, monkeypatch, cpu, wall, ends):
    "A statement is late by its own work, or by four times the limit; waiting for others is not its fault."
    db = Database(path, Limits(seconds=20))
    db.query("SELECT 1")  # opens the connection, which looks at the clocks too
    stand_still(monkeypatch, cpu, wall)
    assert kind(db.query, COUNT.format(10**9).replace("max(n)", "max(n LIKE 'x')")) == ends


def test_the_time_limit_is_of_processor_time_or_four_times_of_wall_clock(monkeypatch):
    "The clocks start at the first look; where they stand at the next one decides, nothing else."
    late = []
    for cpu, wall in ((0, 0), (9, 9), (11, 9), (0, 39), (11, 11), (0, 51)):
        stand_still(monkeypatch, cpu, wall)
        budget = _Budget(Limits(seconds=10))
        assert not budget.tick()
        late.append((budget.tick(), budget.stop))
    assert late == [(False, "")] * 4 + [(True, "timeout")] * 2


DISTINCT = """WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k LIMIT {})
    SELECT count(*) FROM (SELECT DISTINCT printf('%09000d', n) FROM k)"""
SORTED = DISTINCT.replace("SELECT DISTINCT", "SELECT").replace("FROM k)", "FROM k ORDER BY 1 LIMIT -1 OFFSET 1)")


def megabytes(form, n):
    return form.format(int(n * 1e6 / 9000))


def verdicts(db, sqls, threads, n=6):
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda sql: outcome(db, sql)[:n], sqls))


@pytest.mark.parametrize("form", [DISTINCT, SORTED], ids=["distinct", "sorted"])
def test_memory_is_counted_for_each_statement(path, form):
    "What a statement needs decides, alone and beside seven others."
    db = Database(path, Limits(heap=8 * 2**20))
    sqls = [megabytes(form, n) for n in (4, 7, 12)] * 8
    alone = verdicts(Database(path, Limits(heap=8 * 2**20)), sqls[:3], 1)
    assert [a == "memory" for a in alone] == [False, False, True]
    assert verdicts(db, sqls, 8) == alone * 8


def test_the_border_of_memory_is_sharp_and_the_same_for_all(path, monkeypatch):
    monkeypatch.setattr(connection._memory, "soft", 2**30)  # other tests' caches don't matter
    limits = Limits(heap=5 * 2**20)
    low = largest(2000, lambda n: outcome(Database(path, limits), DISTINCT.format(n))[0] == "[")
    sqls = [DISTINCT.format(low), DISTINCT.format(low + 1)] * 8
    assert verdicts(Database(path, limits), sqls, 8) == [f"[({low},"[:6], "memory"] * 8


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 30, 45, 90])
def test_a_large_query_ends_alike_beside_none_three_and_seven_others(path, n):
    "Of 48 verdicts none differs, by the default limits; a query of 90 MB is refused each time."
    db = Database(path)
    alone = outcome(Database(path), megabytes(DISTINCT, n))[:6]
    assert (alone == "memory") == (n == 90)
    for neighbours in (0, 3, 7):
        times = 16 if n < 90 else 4
        assert verdicts(db, [megabytes(DISTINCT, n)] * times, neighbours + 1) == [alone] * times


def test_who_needs_much_memory_waits_for_it_and_is_not_late(path, monkeypatch):
    "All memory for large statements is taken; a statement that needs some ends once it is given back."
    db, waits = Database(path), threading.Event()
    wait = connection._memory.changed.wait

    def note_and_wait():
        waits.set()
        return wait()

    monkeypatch.setattr(connection._memory.changed, "wait", note_and_wait)
    connection._memory.take(connection._memory.shared)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(outcome, db, megabytes(DISTINCT, 9))
        waited = waits.wait(30) and not found.done()
        small = outcome(db, megabytes(DISTINCT, 3))
        connection._memory.give(connection._memory.shared)
        assert (waited, small, found.result(30)) == (True, "[(333,)]", "[(1000,)]")
    assert connection._memory.free == connection._memory.shared


def test_memory_is_given_back_whatever_happens(path):
    db = Database(path, Limits(heap=8 * 2**20))
    for n, what in ((7, "count(*)"), (12, "count(*)"), (7, "abs(count(*) - 9223372036854775807 - 779)"), (7, "*")):
        outcome(db, megabytes(DISTINCT, n).replace("count(*)", what))
        (con,) = db.pool.free
        assert con._files.used == 0 and con._files.share == 0
    assert connection._memory.free == connection._memory.shared


def nested(levels):
    return "SELECT id AS x FROM person" if not levels else f"SELECT x + x AS x FROM ({nested(levels - 1)})"


def test_statements_that_grow_while_they_are_compiled_leave_others_alone(path):
    db, stop = Database(path), threading.Event()

    def bomb():
        return {outcome(db, nested(22))[:6] for _ in iter(stop.is_set, True)}

    with ThreadPoolExecutor(2) as pool:
        bombs = [pool.submit(bomb) for _ in range(2)]
        try:
            found = verdicts(db, [f"SELECT count(*), {i} FROM person" for i in range(60)], 2, None)
        finally:
            stop.set()
        assert found == [f"[(100, {i})]" for i in range(60)]
        assert all(b.result() == {"memory"} for b in bombs)


def test_a_connection_is_opened_while_nobody_compiles(path):
    "SQLite's limit belongs to the process, so that opening one failed while a neighbour's statement grew."
    db = Database(path)
    with ThreadPoolExecutor(1) as pool:
        connection._memory.begin_compiling(0)
        apsw.hard_heap_limit(1)  # as if this thread's statement had taken all
        try:
            found = pool.submit(outcome, db, "SELECT count(*) FROM person")
            assert not wait([found], 0.2).done
        finally:
            connection._memory.end_compiling()
        assert found.result(30) == "[(100,)]"


def test_a_statement_that_found_no_memory_runs_once_more(path):
    "SQLite's limit belongs to the process, so the first failure may be a neighbour's fault."
    db = Database(path)
    db.query("SELECT 1")
    con, failures = db.pool.free[0], []

    def on_execute(cursor, sql, bindings):
        if not failures:
            failures.append(sql)
            raise apsw.NoMemError
        return con.log.on_execute(cursor, sql, bindings)

    con._traced.exec_trace = on_execute
    assert db.query("SELECT count(*) FROM person").rows == [(100,)] and failures


TIGHT = [{}, dict(rows=20), dict(rows=99), dict(rows=100), dict(operations=9_000)]
TIGHT += [dict(text=4000, cell=1000, cells=400), dict(text=4000, cell=1000), dict(heap=2**20, rows=1)]


@pytest.mark.parametrize("limits", TIGHT, ids=str)
def test_a_known_statement_ends_as_a_new_one(path, limits):
    "Rows, truncation marks and errors are those of the first run on a fresh connection."

    def end(db, sql):
        try:
            return db.query(sql)
        except QueryError as e:
            return str(e)

    limits = Limits(**limits)
    db = Database(path, limits)
    for sql in cases("guards_known"):
        fresh = end(Database(path, limits), sql)
        assert [end(db, sql) for _ in range(3)] == [fresh] * 3, sql


def test_operations_of_a_known_statement_are_not_counted_again(path):
    "The clock is looked at ten times less often."
    db = Database(path, Limits(operations=500_000_000))
    sql = "SELECT count(*){} FROM person a, person b, person c"
    for extra in ("", ", max('x' LIKE 'y')"):
        db.query(sql.format(extra))
        (con,) = db.pool.free
        first = con.budget.ticks
        db.query(sql.format(extra))
        assert first > 1000 and abs(first / con.budget.ticks - 10) < 0.1


def test_what_is_remembered_of_statements_is_bounded(path):
    db = Database(path)
    for i in range(700):
        db.query(f"SELECT {i}")
    assert sum(len(con.known) for con in db.pool.free) == 500


TRIMMED = ["'xxhixx'", "1e16", "121", "x'787978'", "NULL", "-0.0", "'hi'", "''", "9e999", "' a '", "1.0"]
STRIPPED = ["'x'", "'hx'", "1", "NULL", "''", "' '", "x'78'", "'.0'", "0", "'é'", "'nI'"]


@pytest.mark.parametrize("name", ["trim", "ltrim", "rtrim"])
def test_trim_is_that_of_sqlite(path, name):
    bare, db = apsw.Connection(":memory:"), Database(path)
    for text, what in product(TRIMMED, STRIPPED):
        sql = f"SELECT {name}({text}, {what}), typeof({name}({text}, {what}))"
        assert db.query(sql).rows == bare.execute(sql).fetchall(), sql


SLOW = dict(cases("guards_slow"))


def repeated(expression, n, i=1):
    expression = expression.format(i=i, zeros="0" * 40)
    numbers = f"WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k LIMIT {n})"
    return f"{numbers} SELECT count({expression}) FROM k"


@pytest.mark.parametrize("name", SLOW)
def test_counts_decide_and_no_clock(path, name, monkeypatch):
    "Cold, known, refused before and with another constant a statement ends alike, however slow the machine."
    monkeypatch.setattr(_Budget, "_look_at_clock", lambda self: None)
    expression, few, many = SLOW[name]
    for n, end in ((few, "[("), (many, "operations")):
        db = Database(path, Limits(operations=200_000))
        assert all(outcome(db, repeated(expression, n, i)).startswith(end) for i in (1, 1, 2, 1))


def test_a_call_is_charged_by_what_it_is_given(path):
    "The same count for equal statements, in any thread; far less for short texts than for long ones."
    sqls = [repeated(SLOW["instr"][0], 9, i) for i in range(8)]

    def charged(sql):
        with Database(path) as db:
            db.query(sql)
            return (budget := db.pool.free[0]._twin.budget).ticks, budget.charged

    with ThreadPoolExecutor(4) as pool:
        ((ticks, cost),) = set(pool.map(charged, sqls))
    assert cost > 9 * 2000 and ticks < 10


def test_a_json_aggregate_is_watched_and_no_neighbour_waits_for_it(path):
    "A lock of the process was held while such a statement ran, and one on another database waited for it."
    first, other = Database(path).pool.take(), Database(path)
    entered, go_on = threading.Event(), threading.Event()

    def on_execute(cursor, sql, bindings):
        allowed = first.log.on_execute(cursor, sql, bindings)
        entered.set()
        assert go_on.wait(30)
        return allowed

    first._traced.exec_trace = on_execute
    with ThreadPoolExecutor(2) as pool:
        sql = "SELECT json_group_array(id) FROM person WHERE id < 4"
        held = pool.submit(first.run, sql)
        assert entered.wait(30)
        try:
            assert [pool.submit(outcome, other, sql).result(30) for _ in range(3)] == ["[('[1,2,3]',)]"] * 3
        finally:
            go_on.set()
        assert held.result(30).rows == [("[1,2,3]",)]
