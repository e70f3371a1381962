"Guards: each limit has its kind, the budget decides the same way every time, the heap limit counts right."

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

import apsw
import pytest
from databases import COUNT, kind, outcome, work_database

from sql_env.connection import Budget
from sql_env.database import Database
from sql_env.guards import Limits, QueryError


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


def test_limits_can_be_changed_one_by_one():
    assert (
        replace(Limits(), rows=5).operations == Limits().operations
        and Limits.gold().operations > Limits().operations
    )


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
    monkeypatch.setattr("sql_env.connection.time", StandingClock(**ahead))
    with pytest.raises(QueryError) as e:
        db.query(COUNT.format(10**9))
    assert e.value.kind == kind


def test_the_time_limit_is_of_processor_time_or_twenty_times_of_wall_clock(monkeypatch):
    "The clocks start at the first look; where they stand at the next one decides, nothing else."
    clock = StandingClock()
    monkeypatch.setattr("sql_env.connection.time", clock)
    late = []
    for cpu, wall in ((0, 0), (9, 9), (11, 9), (0, 199), (11, 11), (0, 211)):
        clock.asked, clock.ahead = set(), {"thread_time": cpu, "monotonic": wall}
        budget = Budget(Limits(seconds=10))
        assert not budget.tick()
        late.append((budget.tick(), budget.stop))
    assert late == [(False, "")] * 4 + [(True, "timeout")] * 2


# ---- memory


# ---- functions of our own


@pytest.mark.parametrize(
    "sql, want",
    [
        ("trim('xxhixx', 'x')", "hi"),
        ("ltrim('xxhixx', 'x')", "hixx"),
        ("rtrim('xxhixx', 'x')", "xxhi"),
        ("trim('hi', '')", "hi"),
        ("trim(121, 1)", "2"),
        ("trim(x'787978', 'x')", "y"),
        ("trim(NULL, 'x')", None),
        ("trim('x', NULL)", None),
    ],
)
def test_trim_is_that_of_sqlite(path, sql, want):
    unguarded = apsw.Connection(":memory:").execute(f"SELECT {sql}").fetchall()
    assert Database(path).query(f"SELECT {sql}").rows == unguarded == [(want,)]


def test_trim_takes_at_most_100_characters(path):
    db = Database(path)
    assert db.query(f"SELECT trim('ab', '{'b' * 100}')").rows == [("a",)]
    assert kind(db.query, f"SELECT trim('ab', '{'b' * 101}')") == "memory"
