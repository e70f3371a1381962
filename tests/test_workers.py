"SQL in processes of its own: what they give, what becomes of one whose process dies, who waits for whom."

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from attacks import ATTACKS, write_home

from sql_env.database.database import Database, Limits, QueryError
from sql_env.database.workers import AbandonedError, Errand, WorkerDiedError, Workers

LONG = "WITH k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k LIMIT {}) SELECT sum(instr(hex(n), 'x')) FROM k"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_home(tmp_path_factory.mktemp("workers"))


@pytest.fixture(scope="module")
def workers():
    made = Workers(1)
    made.start()
    yield made
    made.close()


def answer(db: Database, sql) -> object:
    "What a statement gives: columns, rows and whether they were cut, or the error in words."
    try:
        result = db.query(sql)
    except QueryError as e:
        return e.kind, str(e)
    return result.columns, result.rows, result.truncated


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_a_statement_gives_the_same_with_workers_and_without(home, workers, step):
    "New, and then known to be too long for a lane, or to run through; a tenth of the budget makes it quick."
    less = Limits(operations=500_000)
    with Database(home, less) as here, Database(home, less).run_in(workers) as away:
        for name, sql, _ in ATTACKS[::step]:
            assert answer(here, sql) == answer(away, sql) == answer(away, sql), name
        assert len(here.tables) and away.emptied().query("SELECT count(*) FROM animal").rows == [(0,)]


def in_thread(work, *args) -> tuple[threading.Thread, list]:
    "A thread, and what it gave or raised once it has ended."
    said: list = []

    def run():
        try:
            said.append(work(*args))
        except BaseException as e:
            said.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, said


def busy(workers: Workers) -> int:
    "The process of one of the last two lanes, once it runs a statement and the others have none."
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        free = [worker for lane in workers._lanes for worker in lane.free]
        working = workers._started.difference(free, [workers._spare])
        if not all(lane.free for lane in workers._lanes[-2:]) and len(working) == 1:
            return working.pop().process.pid
        time.sleep(0.01)
    raise TimeoutError


def test_a_worker_that_is_killed_costs_its_statement_only(home, workers):
    with Database(home, Limits.gold()).run_in(workers) as db:
        killed, said = in_thread(db.query, LONG.format(50_000_000))
        waits, after = in_thread(db.query, LONG.format(100_000))
        os.kill(busy(workers), signal.SIGKILL)
        killed.join()
        waits.join()
        assert isinstance(said[0], WorkerDiedError)
        assert after[0].rows and db.query("SELECT count(*) FROM animal").rows


def test_an_abandoned_statement_ends_at_once_and_is_no_death(home, workers):
    "One runs and one waits for its turn; the lane is free for the next."
    with Database(home, Limits.gold()).run_in(workers) as db:
        errands = [Errand(), Errand()]
        first, said = in_thread(errands[0].run, db.query, LONG.format(50_000_000))
        pid = busy(workers)
        second, waited = in_thread(errands[1].run, db.query, LONG.format(50_000_001))
        for errand in reversed(errands):
            errand.abandon()
        first.join()
        second.join()
        assert isinstance(said[0], AbandonedError) and isinstance(waited[0], AbandonedError)
        assert db.query("SELECT count(*) FROM animal").rows
        assert pid in {w.process.pid for w in workers._started}, "it goes on with the next statement"


def test_a_statement_abandoned_while_its_process_starts_is_no_death(home, capfd):
    "Nobody is told of an error, and the process writes none."
    made = Workers(1)
    with Database(home, Limits.gold()).run_in(made) as db:
        errand = Errand()
        thread, said = in_thread(errand.run, db.query, LONG.format(50_000_000))
        while not errand.ends or not made._started:
            time.sleep(0.001)
        errand.abandon()
        thread.join()
        assert isinstance(said[0], AbandonedError)
        assert db.query("SELECT count(*) FROM animal").rows
    made.close()
    assert "Traceback" not in capfd.readouterr().err


SLOW = """WITH k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k LIMIT 100000) SELECT
    sum(length(trim(substr(printf('%019000d', 0), n % 9), replace(printf('%01600d', 0), '0', 'b') || '0'))) FROM k"""


def test_a_join_of_many_rows_passes_a_slow_function(home, workers):
    "Both need more than the shorter lanes give; an operation on long texts takes twenty times as long."
    with Database(home, Limits.gold()).run_in(workers) as db:
        errand = Errand()
        thread, said = in_thread(errand.run, db.query, SLOW)
        busy(workers)
        assert db.query(LONG.format(1_000_000)).rows and not said
        errand.abandon()
        thread.join()


def test_short_statements_pass_a_long_one(home, workers):
    "While one statement runs, eight threads carry out a hundred others, on the same database."
    with Database(home, Limits.gold()).run_in(workers) as db:
        errand = Errand()
        thread, said = in_thread(errand.run, db.query, LONG.format(50_000_000))
        pid = busy(workers)
        others = [
            in_thread(lambda i=i: [db.query(f"SELECT {k}, count(*) FROM animal -- {i}") for k in range(100)])
            for i in range(8)
        ]
        for other, _ in others:
            other.join()
        assert all(len(got[0]) == 100 for _, got in others)
        assert not said and pid in {w.process.pid for w in workers._started}
        errand.abandon()
        thread.join()


def test_a_process_that_died_idle_is_replaced_unnoticed(home, workers):
    with Database(home).run_in(workers) as db:
        assert db.query("SELECT 1").rows
        for lane in workers._lanes:
            for worker in lane.free:
                worker.process.kill()
                worker.process.wait()
        assert db.query("SELECT 2").rows == [(2,)]


def test_the_clock_is_counted_by_who_owns_the_processes(home, workers):
    with Database(home, Limits(seconds=0.02)).run_in(workers) as db:
        assert answer(db, LONG.format(150_000))[0] == "timeout"
    assert workers.emergency_stops == 1 and Workers(1).emergency_stops == 0, "each server has its own"


def test_a_process_that_can_not_be_started_costs_its_statement_only(home, workers, monkeypatch):
    "As with too many open files; the lane is there for the next."
    with Database(home).run_in(workers) as db:
        for worker in [workers._spare, *workers._lanes[0].free]:
            worker.kill()
        workers._spare = None
        with monkeypatch.context() as patch:
            patch.setattr(workers, "_new", fails(OSError(24, "Too many open files")))
            with pytest.raises(OSError):
                db.query("SELECT 3")
        assert db.query("SELECT 4").rows == [(4,)]


def fails(error):
    def raises(*_):
        raise error

    return raises


@pytest.mark.parametrize("error", (MemoryError(), KeyError("lost"), KeyboardInterrupt()))
def test_an_answer_that_was_not_read_is_nobody_elses(error, home, workers, monkeypatch):
    "It stays in the pipe; the next statement gets its own answer, in another process."
    with Database(home).run_in(workers) as db:
        with monkeypatch.context() as patch:
            patch.setattr("sql_env.database.workers._wait_for", fails(error))
            with pytest.raises((WorkerDiedError, KeyboardInterrupt)):
                db.query("SELECT 'of a stranger'")
        assert db.query("SELECT 'mine'").rows == [("mine",)]


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there is no such signal here")
def test_a_process_that_hangs_is_given_up(home, workers, monkeypatch):
    monkeypatch.setattr("sql_env.database.workers._GRACE", 0.5)
    with Database(home, Limits(seconds=0.1)).run_in(workers) as db:
        db.query("SELECT 5")
        for worker in workers._lanes[0].free:
            worker.process.send_signal(signal.SIGSTOP)
        with pytest.raises(WorkerDiedError, match="hung"):
            db.query("SELECT 6")
        assert db.query("SELECT 7").rows == [(7,)]


def test_a_machine_without_memory_is_no_fault_of_a_statement(home):
    "The process ends for want of memory, and nobody reads that the query needs too much."
    resource = pytest.importorskip("resource")
    many = "SELECT max(s) FROM (SELECT DISTINCT printf('%0900d', a.quokka * 999 + b.quokka) s FROM animal a, animal b)"
    made = Workers(1)
    made.start()
    with Database(home, Limits.gold()).run_in(made) as db:
        db.query("SELECT 8")
        for lane in made._lanes:
            for worker in lane.free:
                pages = Path(f"/proc/{worker.process.pid}/statm").read_text().split()[0]
                size = int(pages) * resource.getpagesize()
                resource.prlimit(worker.process.pid, resource.RLIMIT_AS, (size + 2**21, size + 2**21))
        with pytest.raises(WorkerDiedError):
            db.query(many)
        assert db.query("SELECT 9").rows == [(9,)]
    made.close()
