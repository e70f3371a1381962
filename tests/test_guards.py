"Guards: each limit has its kind, the budget decides the same way every time, the heap limit counts right."

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from random import Random

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


@pytest.mark.parametrize(
    "limits, sql, want",
    [
        (Limits(operations=10_000), COUNT.format(10**6), "operations"),
        (Limits(sql=50), "SELECT '" + "x" * 50 + "'", "too_long"),
        (Limits(cell=100), "SELECT replace(printf('%90d', 1), ' ', 'xx')", "memory"),
        (Limits(text=1000), "SELECT name || name || name FROM person", "too_large"),
        (Limits(columns=3), "SELECT 1, 2, 3, 4", "too_long"),
        (Limits(cells=100, text=40_000), "SELECT id, id, id FROM person", "too_large"),
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


def test_invalid_unicode_is_an_error_of_ours(path):
    with Database(path) as db:
        with pytest.raises(QueryError, match="unpaired UTF-16 surrogate") as e:
            db.query("SELECT '\ud800'")
        assert e.value.kind == "encoding" and kind(db.describe, "\ud800") == "unknown_table"
        assert db.query("SELECT 1").rows == [(1,)]


# ---- the budget of operations is deterministic
SMALL = Limits(operations=20_000)


@pytest.fixture(scope="module")
def border(path):
    "The largest n that a fresh connection still counts to within the small budget."
    low, high = 1, 20_000
    while high - low > 1:
        n = (low + high) // 2
        low, high = (
            (n, high) if not outcome(Database(path, SMALL), COUNT.format(n)).startswith("operations") else (low, n)
        )
    return low


def test_the_border_is_sharp(path, border):
    assert outcome(Database(path, SMALL), COUNT.format(border)) == f"[({border}, {border})]"
    assert outcome(Database(path, SMALL), COUNT.format(border + 1)).startswith("operations")


@pytest.mark.parametrize("shift", range(-7, 8))
def test_a_query_near_the_budget_always_ends_alike(path, border, shift):
    sql = COUNT.format(border + shift)
    fresh, db, rng = outcome(Database(path, SMALL), sql), Database(path, SMALL), Random(shift)
    for _ in range(12):
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


def test_a_query_near_the_budget_ends_alike_in_threads(path, border):
    sqls = [COUNT.format(border + i) for i in range(-5, 6)]
    fresh = [outcome(Database(path, SMALL), s) for s in sqls]
    db = Database(path, SMALL)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert list(pool.map(lambda s: outcome(db, s), sqls * 3)) == fresh * 3


def test_a_statement_after_an_error_has_its_whole_budget(path, border):
    db = Database(path, SMALL)
    for _ in range(10):
        assert outcome(db, COUNT.format(10**7)).startswith("operations")
        assert outcome(db, COUNT.format(border)) == f"[({border}, {border})]"


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


# ---- time
class StandingClock:
    "Stands in for `time`: both clocks stand still, and from the second look on they are ahead by some seconds."

    def __init__(self, **ahead):
        self.ahead, self.asked = ahead, set()

    def __getattr__(self, name):
        def read():
            late = self.ahead.get(name, 0.0) if name in self.asked else 0.0
            self.asked.add(name)
            return late

        return read


def stand_still(monkeypatch, **ahead):
    "Put such a clock in the place of both that a budget looks at."
    clock = StandingClock(**ahead)
    monkeypatch.setattr("sql_env.database.connection.time", clock)
    monkeypatch.setattr("sql_env.database.connection._thread_seconds", lambda: clock.thread_time())
    return clock


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
    "A statement is late by its own work, or by four times the limit; waiting for others is not its fault."
    db = Database(path, Limits(seconds=20))
    db.query("SELECT 1")  # opens the connection, which looks at the clocks too
    stand_still(monkeypatch, **ahead)
    with pytest.raises(QueryError) as e:
        db.query(COUNT.format(10**9).replace("max(n)", "max(n LIKE 'x')"))
    assert e.value.kind == kind


def test_the_time_limit_is_of_processor_time_or_four_times_of_wall_clock(monkeypatch):
    "The clocks start at the first look; where they stand at the next one decides, nothing else."
    clock = stand_still(monkeypatch)
    late = []
    for cpu, wall in ((0, 0), (9, 9), (11, 9), (0, 39), (11, 11), (0, 51)):
        clock.asked, clock.ahead = set(), {"thread_time": cpu, "monotonic": wall}
        budget = _Budget(Limits(seconds=10))
        assert not budget.tick()
        late.append((budget.tick(), budget.stop))
    assert late == [(False, "")] * 4 + [(True, "timeout")] * 2


# ---- memory
DISTINCT = """WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k LIMIT {})
    SELECT count(*) FROM (SELECT DISTINCT printf('%09000d', n) FROM k)"""
SORTED = DISTINCT.replace("SELECT DISTINCT", "SELECT").replace("FROM k)", "FROM k ORDER BY 1 LIMIT -1 OFFSET 1)")


def megabytes(form, n):
    return form.format(int(n * 1e6 / 9000))


def verdicts(db, sqls, threads):
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda sql: outcome(db, sql)[:6], sqls))


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
    low, high = 1, 2000
    while high - low > 1:
        n = (low + high) // 2
        fits = outcome(Database(path, limits), DISTINCT.format(n)).startswith("[")
        low, high = (n, high) if fits else (low, n)
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
    for sql in (
        megabytes(DISTINCT, 7),
        megabytes(DISTINCT, 12),
        megabytes(DISTINCT, 7).replace("count(*)", "abs(count(*) - 9223372036854775807 - 779)"),
        megabytes(DISTINCT, 7).replace("count(*)", "*"),
    ):
        outcome(db, sql)
        (con,) = db.pool.free
        assert con._files.used == 0 and con._files.share == 0
    assert connection._memory.free == connection._memory.shared


def nested(levels):
    return "SELECT id AS x FROM person" if not levels else f"SELECT x + x AS x FROM ({nested(levels - 1)})"


def test_statements_that_grow_while_they_are_compiled_leave_others_alone(path):
    db, stop = Database(path), threading.Event()

    def bomb(i):
        found = set()
        while not stop.is_set():
            found.add(outcome(db, nested(22))[:6])
        return found

    with ThreadPoolExecutor(4) as pool:
        bombs = [pool.submit(bomb, i) for i in range(2)]
        honest = [f"SELECT count(*), {i} FROM person" for i in range(60)]
        try:
            found = list(pool.map(lambda sql: outcome(db, sql), honest))
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


def test_a_statement_with_a_json_aggregate_is_watched(path):
    db = Database(path)
    sql = "SELECT json_group_array(id) FROM person WHERE id < 4"
    assert [outcome(db, sql) for _ in range(3)] == ["[('[1,2,3]',)]"] * 3


# ---- statements that are known
KNOWN = cases("guards_known")
TIGHT = [
    Limits(),
    Limits(rows=20),
    Limits(rows=99),
    Limits(rows=100),
    Limits(cells=400, text=4000, cell=1000),
    Limits(text=4000, cell=1000),
    Limits(operations=9_000),
    Limits(heap=2**20, rows=1),
]


@pytest.mark.parametrize("limits", TIGHT, ids=str)
def test_a_known_statement_ends_as_a_new_one(path, limits):
    "Rows, truncation marks and errors are those of the first run on a fresh connection."

    def end(db, sql):
        try:
            return db.query(sql)
        except QueryError as e:
            return str(e)

    db = Database(path, limits)
    for sql in KNOWN:
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


# ---- functions of our own
TRIMMED = ["'xxhixx'", "1e16", "121", "x'787978'", "NULL", "-0.0", "'hi'", "''", "9e999", "' a '", "1.0"]
STRIPPED = ["'x'", "'hx'", "1", "NULL", "''", "' '", "x'78'", "'.0'", "0", "'é'", "'nI'"]


@pytest.mark.parametrize("name", ["trim", "ltrim", "rtrim"])
def test_trim_is_that_of_sqlite(path, name):
    bare, db = apsw.Connection(":memory:"), Database(path)
    for text in TRIMMED:
        for what in STRIPPED:
            sql = f"SELECT {name}({text}, {what}), typeof({name}({text}, {what}))"
            assert db.query(sql).rows == bare.execute(sql).fetchall(), sql


# ---- equal statements, equal observations
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
        db, ends = Database(path, Limits(operations=200_000)), []
        for i in (1, 1, 2, 1):
            ends.append(outcome(db, repeated(expression, n, i))[: len(end)])
        assert ends == [end] * 4


def test_a_call_is_charged_by_what_it_is_given(path):
    "The same count for equal statements, in any thread; far less for short texts than for long ones."
    sqls = [repeated(SLOW["instr"][0], 9, i) for i in range(8)]

    def charged(sql):
        with Database(path) as db:
            db.query(sql)
            budget = db.pool.free[0]._twin.budget
            return budget.ticks, budget.charged

    with ThreadPoolExecutor(4) as pool:
        ((ticks, cost),) = set(pool.map(charged, sqls))
    assert cost > 9 * 2000 and ticks < 10


def test_a_neighbour_waits_for_no_json_aggregate(path):
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
            assert pool.submit(outcome, other, sql).result(30) == "[('[1,2,3]',)]"
        finally:
            go_on.set()
        assert held.result(30).rows == [("[1,2,3]",)]
