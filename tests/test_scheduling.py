"Statements of many sessions on few cores: order of events, results, and that nothing waits for ever."

import threading
import time
from concurrent.futures import ThreadPoolExecutor

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

    def _enter(self, use):
        super()._enter(use)
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
    with Database(path, Limits(operations=200_000)).share_cores(scheduler) as db, ThreadPoolExecutor(41) as pool:
        hostile = [SessionUse() for _ in range(40)]
        with scheduler.core():  # until all of them wait
            futures = [pool.submit(play, db, use, ENDLESS) for use in hostile]
            while len(scheduler._waiting) < 40:
                pass
        honest = SessionUse()
        play(db, honest, COUNT)  # who is new waits for others that are new
        for _ in range(20):
            before = len(scheduler.events)
            assert play(db, honest, COUNT) == "[(100,)]"
            between = scheduler.events[before : scheduler.events.index(honest, before)]
            assert len(between) <= 3, "slices of others before it"
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


def test_turns_are_saved_up_to_a_limit_and_a_new_session_has_none():
    scheduler, idle, busy, new = FairScheduler(1), SessionUse(), SessionUse(), SessionUse()

    def work(use, slices):
        with playing(use), scheduler.core():
            for _ in range(slices):
                scheduler.pause(use)
        return use.operations / scheduler.slice

    assert work(idle, 5) == 5
    assert work(busy, 500) == 500 == work(busy, 0)
    assert work(idle, 0) == 5, "it fell behind"
    assert work(busy, 1500) == 2000 == work(busy, 0)
    assert work(idle, 0) == 1000 and work(new, 0) == 1999


def test_work_that_counts_no_operations_is_charged_by_its_processor_time():
    scheduler, use = FairScheduler(1), SessionUse()
    with playing(use), scheduler.turn():
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            with scheduler.turn():  # within a turn it costs nothing more
                pass
    assert 40 * scheduler.slice <= use.operations < 10_000 * scheduler.slice


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
