"Statements of many sessions on few cores: order of events, results, and that nothing waits for ever."

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

import pytest
from databases import outcome

from sql_env.database import connection
from sql_env.database.database import Database, Limits, build_database
from sql_env.database.scheduling import FairScheduler, SessionUse, playing

ENDLESS = "WITH RECURSIVE k(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM k) SELECT max(n) FROM k"
COUNT = "SELECT count(*) FROM ship"
SORT = "SELECT a.id, b.id, printf('%0500d', a.id) x FROM ship a, ship b ORDER BY x LIMIT 1"


class Recorder(FairScheduler):
    "Notes which session was given a core, and at each slice."

    def __init__(self, cores):
        super().__init__(cores)
        self.events: list[SessionUse] = []

    def _enter(self, use, is_beginning=False):
        super()._enter(use, is_beginning)
        self.events.append(use)

    def pause(self, use):
        super().pause(use)
        self.events.append(use)


@pytest.fixture
def path(tmp_path):
    return build_database(
        tmp_path / "harbour.sqlite", "CREATE TABLE ship (id INTEGER)", {"ship": [(i,) for i in range(100)]}
    )


def play(database, use, sql):
    with playing(use):
        return outcome(database, sql)


def test_one_who_asks_short_questions_is_next_and_all_others_advance(path):
    "Beside forty endless queries on one core; nothing depends on the clock."
    scheduler = Recorder(1)
    with Database(path, Limits(operations=1_000_000)).share_cores(scheduler) as db, ThreadPoolExecutor(41) as pool:
        hostile = [SessionUse() for _ in range(40)]
        with scheduler.core():  # until all of them wait
            futures = [pool.submit(play, db, use, ENDLESS) for use in hostile]
            while len(scheduler._beginnings) < 40:
                pass
        honest = SessionUse()
        play(db, honest, COUNT)  # who is new waits for others that are new
        for _ in range(20):
            before = len(scheduler.events)
            assert play(db, honest, COUNT) == "[(100,)]"
            between = scheduler.events[before : scheduler.events.index(honest, before)]
            assert len(between) <= 21, "slices of others before it: no more than the lead"
        assert {f.result().split(":")[0] for f in futures} == {"operations"}
    order = [use for use in scheduler.events if use is not honest]
    firsts = {id(use): i for i, use in reversed([*enumerate(order)])}
    lasts = {id(use): i for i, use in enumerate(order)}
    ids = [id(use) for use in hostile]
    assert max(firsts[i] for i in ids) < min(lasts[i] for i in ids), "each began before any ended"


def test_results_are_those_without_a_scheduler(path):
    "Also of functions that are counted on a connection of their own, of errors, and of what was cut."
    statements = [
        COUNT,
        ENDLESS,
        SORT,
        "SELECT shp FROM ship",
        "SELECT a.id FROM ship a, ship b",
        "SELECT max(instr(printf('%019000d', 0), printf('%09500d', 0) || id)) FROM ship",
        "SELECT json_group_array(id) FROM ship",
    ]
    with Database(path) as plain, Database(path).share_cores(FairScheduler(2)) as shared, ThreadPoolExecutor(8) as pool:
        wanted = [outcome(plain, sql) for sql in statements]
        found = list(pool.map(lambda sql: play(shared, SessionUse(), sql), statements * 3))
    assert found == wanted * 3


def test_who_waits_for_memory_or_for_the_compiler_leaves_its_core(path, monkeypatch):
    "Two large sorts that don't fit together, on one core, and one that compiles meanwhile, all end."
    monkeypatch.setattr(connection, "_LARGE", 2**12)
    monkeypatch.setattr(connection._memory, "shared", Limits().heap)
    monkeypatch.setattr(connection._memory, "free", Limits().heap)
    sort = SORT.replace("LIMIT 1", "LIMIT 9000")
    with Database(path).share_cores(FairScheduler(1)) as db, ThreadPoolExecutor(6) as pool:
        sent = [pool.submit(play, db, SessionUse(), sql) for sql in [sort, sort + " ", sort + "  ", COUNT, ENDLESS]]
        assert [len(f.result(timeout=60)) > 5 for f in sent] == [True] * 5


def test_a_flood_of_short_ones_lets_one_that_runs_long_go_on():
    scheduler, long, order = FairScheduler(1), SessionUse(), []

    def go_on():
        with playing(long), scheduler.core():
            for _ in range(60):
                scheduler.pause(long)
                order.append("long")

    def ask():
        with scheduler.core():
            order.append("short")

    with ThreadPoolExecutor(41) as pool, scheduler.core():
        pool.submit(go_on)
        for _ in range(40):
            pool.submit(ask)
        while len(scheduler._beginnings) < 41:
            pass
    turns = [len(list(same)) for _, same in groupby(order)]
    assert max(turns[1::2]) == 8 and order.count("short") == 40, turns


def test_an_error_gives_the_core_back_and_a_block_within_a_block_keeps_it():
    scheduler = FairScheduler(1)
    with pytest.raises(ValueError, match="lost"), scheduler.core(), scheduler.core() as inner:
        assert inner is None
        raise ValueError("lost")
    done = threading.Event()

    def work():
        with scheduler.core():
            done.set()

    threading.Thread(target=work).start()
    assert done.wait(10)
