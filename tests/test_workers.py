"SQL in processes of its own: what they give, what becomes of one whose process dies, who waits for whom."

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

import apsw
import pytest
from attacks import ATTACKS, write_home
from write_attacks import ATTACKS as WRITE_ATTACKS
from write_attacks import SCHEMA, WRITES

from sql_env import Episode, load
from sql_env.database import Database, Limits, QueryError, WritableCopy, build_database
from sql_env.database import workers as processes
from sql_env.database.connection import _UNTIMED, _untimed
from sql_env.database.workers import AbandonedError, Errand, WorkerDiedError, Workers, _answer, _stop
from sql_env.grading.answers import format_rows
from sql_env.grading.changes import _make_states, gold_changes
from sql_env.grading.variants.robust import _make_pair_variants
from sql_env.grading.variants.sandbox import Sandbox
from sql_env.worlds import ChangeWorld, FollowUpWorld, world_set

LONG = "WITH k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k LIMIT {}) SELECT sum(instr(hex(n), 'x')) FROM k"


def fails(error):
    def raises(*_):
        raise error

    return raises


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_home(tmp_path_factory.mktemp("workers"))


@pytest.fixture(scope="module")
def workers():
    made = Workers(1)
    made.start()
    yield made
    made.close()


@pytest.fixture
def gold(home, workers):
    "A database whose statements run there, with the limits of gold queries."
    with Database(home, Limits.gold()).run_in(workers) as db:
        yield db


def answer(carry_out, sql) -> object:
    try:
        return carry_out(sql)
    except QueryError as e:
        return e.kind, str(e)


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_a_statement_gives_the_same_with_workers_and_without(home, workers, step):
    "New, and then known to be too long for a lane, or to run through; a tenth of the budget makes it quick."
    less = Limits(operations=500_000)
    with Database(home, less) as here, Database(home, less).run_in(workers) as away:
        for name, sql, _ in ATTACKS[::step]:
            assert answer(here.query, sql) == answer(away.query, sql) == answer(away.query, sql), name
        assert len(here.tables) and away.emptied().query("SELECT count(*) FROM animal").rows == [(0,)]


def in_thread(work, *args) -> tuple[threading.Thread, list]:
    said: list = []

    def run():
        try:
            said.append(work(*args))
        except BaseException as e:
            said.append(e)

    (thread := threading.Thread(target=run)).start()
    return thread, said


def busy(workers: Workers) -> int:
    "The process of one of the last two lanes, once it runs a statement and the others have none."
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        free = [worker for lane in workers._lanes for worker in lane.free]
        working = workers._started.difference(free, [workers._spare])
        if not all(lane.free for lane in workers._lanes[2:4]) and len(working) == 1:
            return working.pop().process.pid
        time.sleep(0.01)
    raise TimeoutError


def test_a_worker_that_is_killed_costs_its_statement_only(home, gold, workers):
    endless = Database(home, Limits(operations=10**12)).run_in(workers)  # it is killed before its budget ends it
    killed, said = in_thread(endless.query, LONG.format(50_000_000))
    waits, after = in_thread(gold.query, LONG.format(100_000))
    os.kill(busy(workers), signal.SIGKILL)
    killed.join()
    waits.join()
    endless.close()
    assert isinstance(said[0], WorkerDiedError)
    assert after[0].rows and gold.query("SELECT count(*) FROM animal").rows


def test_an_abandoned_statement_ends_at_once_and_is_no_death(gold, workers):
    "One runs and one waits for its turn; the lane is free for the next."
    errands = [Errand(), Errand()]
    first, said = in_thread(errands[0].run, gold.query, LONG.format(50_000_000))
    pid = busy(workers)
    second, waited = in_thread(errands[1].run, gold.query, LONG.format(50_000_001))
    for errand in reversed(errands):
        errand.abandon()
    first.join()
    second.join()
    assert isinstance(said[0], AbandonedError) and isinstance(waited[0], AbandonedError)
    assert gold.query("SELECT count(*) FROM animal").rows
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


def test_a_join_of_many_rows_passes_a_slow_function(gold, workers):
    "Both need more than the shorter lanes give; an operation on long texts takes twenty times as long."
    errand = Errand()
    thread, said = in_thread(errand.run, gold.query, SLOW)
    busy(workers)
    assert gold.query(LONG.format(1_000_000)).rows and not said
    errand.abandon()
    thread.join()


def test_short_statements_pass_a_long_one(gold, workers):
    "While one statement runs, eight threads carry out a hundred others, on the same database."
    errand = Errand()
    thread, said = in_thread(errand.run, gold.query, LONG.format(50_000_000))
    pid = busy(workers)
    with ThreadPoolExecutor(8) as pool:
        others = pool.map(
            lambda i: [gold.query(f"SELECT {k}, count(*) FROM animal -- {i}") for k in range(100)], range(8)
        )
        assert [len(rows) for rows in others] == [100] * 8
    assert not said and pid in {w.process.pid for w in workers._started}
    errand.abandon()
    thread.join()


def test_the_clock_is_counted_by_who_owns_the_processes(home, workers):
    with Database(home, Limits(seconds=0.02)).run_in(workers) as db:
        assert answer(db.query, LONG.format(150_000))[0] == "timeout"
    assert workers.emergency_stops == 1 and Workers(1).emergency_stops == 0, "each server has its own"


def test_a_process_that_died_idle_is_replaced_and_one_that_can_not_be_started_costs_its_statement_only(
    home, workers, monkeypatch
):
    "As with too many open files; the lane is there for the next."
    with Database(home).run_in(workers) as db:
        assert db.query("SELECT 1").rows
        for worker in chain.from_iterable(lane.free for lane in workers._lanes):
            worker.process.kill()
            worker.process.wait()
        assert db.query("SELECT 2").rows == [(2,)]
        for worker in [workers._spare, *workers._lanes[0].free]:
            worker.kill()
        workers._spare = None
        with monkeypatch.context() as patch:
            patch.setattr(workers, "_new", fails(OSError(24, "Too many open files")))
            with pytest.raises(OSError):
                db.query("SELECT 3")
        assert db.query("SELECT 4").rows == [(4,)]


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
        for worker in chain.from_iterable(lane.free for lane in made._lanes):
            pages = Path(f"/proc/{worker.process.pid}/statm").read_text().split()[0]
            size = int(pages) * resource.getpagesize() + 2**21
            resource.prlimit(worker.process.pid, resource.RLIMIT_AS, (size, size))
        with pytest.raises(WorkerDiedError):
            db.query(many)
        assert db.query("SELECT 9").rows == [(9,)]
    made.close()


def test_a_verdict_waits_for_no_statement(home, workers):
    "Strangers hold the process of every lane in which statements run."
    with Database(home).run_in(workers) as db:
        held = [(lane, lane.take(Errand(), 0)) for lane in workers._lanes[:4]]
        thread, said = in_thread(db.apart, partial(Database.query, sql="SELECT 5"))
        thread.join(60)
        has_ended = not thread.is_alive()
        for lane, worker in held:
            lane.give_back(worker)
        thread.join()
        assert has_ended and said[0].rows == [(5,)]


def test_a_copy_gives_the_same_wherever_it_is(home, workers):
    "Attacks on rows, one after the other, on one copy that is changed in between; and as often in another process."
    path = write_stage(home.parent)
    less = Limits(operations=300_000)
    with Database(path, less) as here, Database(path, less).run_in(workers) as away:
        copies = here.work_copy(WRITES), away.work_copy(WRITES)
        for n, (name, sql) in enumerate(list(WRITE_ATTACKS.items())[::3]):
            if not n % 20 and (worker := workers._lanes[0].free[0]):  # another process takes over
                worker.process.kill()
                worker.process.wait()
            seen = []
            for copy in copies:
                seen.append([answer(copy.execute, sql)])
                for table in WRITES:
                    seen[-1] += copy.query(f"SELECT * FROM {table}"), copy.describe(table), copy.sample(table, 3, n)
                seen[-1].append(copy.is_touched)
            assert seen[0] == seen[1], name
        assert copies[0].changes() == copies[1].changes() and copies[0].is_touched
        for copy in copies:
            copy.close()
            assert answer(copy.execute, "DELETE FROM booking")[0] == "closed"
        assert copies[0].changes() == copies[1].changes()


def write_stage(folder: Path) -> Path:
    path = build_database(folder / "hotel.sqlite", SCHEMA, dict(booking=[(1, 1, 2), (2, 1, 3), (3, 2, 1)]))
    con = apsw.Connection(str(path))
    con.executemany("INSERT INTO guest(name, mail, years) VALUES (?, ?, ?)", [("Ada", "a@x", 36), ("Ben", None, 60)])
    con.close()
    return path


def session(q, questions, is_wrong: bool) -> tuple:
    "What an episode shows and gives: refused, wrong and right statements, looks at what they changed, an answer."
    rules = dict(actions="execute abstain", budget=12, reward="shaped", verify="robust")
    episode = Episode(q, questions.database(q.database_name), **rules)
    seen = [episode.reset(1)]
    for turn in q.conversation:
        moves = [("QUERY", turn.gold_sql), ("ANSWER", "@last")]
        if turn.writes:
            table = turn.writes[0]
            moves = [
                ("EXECUTE", f"UPDATE {table} SET nothing = 1"),
                ("EXECUTE", f"DELETE FROM {table} WHERE rowid < 0 AND rowid IN ({LONG.format(20_000)})"),
                *[("EXECUTE", f"DELETE FROM {table} WHERE rowid % 7 = 1")] * is_wrong,
                *[("EXECUTE", sql) for sql in turn.gold_statements],
                ("DESCRIBE", table),
                ("SAMPLE", table),
                ("QUERY", f"SELECT count(*) FROM {table} a, {table} b, {table} c"),
                ("ANSWER", "done"),
            ]
        seen += [episode.step(*move) for move in moves]
    verdicts = episode.verdicts, episode.turns_correct, episode.robust_verdict, episode.grounded
    return seen, [turn.reward for turn in episode.turns], verdicts, episode.changes, episode.state_key


@pytest.mark.parametrize("kind", (ChangeWorld, FollowUpWorld))
def test_a_task_gives_the_same_with_workers_and_without(kind, workers, monkeypatch):
    "Observations, rewards, verdicts and changes, byte for byte; and this process carries no statement out."
    tasks = world_set("train", 2, 12, seed=6, kind=kind)
    here = [session(q, tasks, n % 2) for n, q in enumerate(tasks)]
    assert True in {verdicts[0]["value"].correct for _, _, verdicts, *_ in here}
    monkeypatch.setattr(WritableCopy, "__init__", fails(AssertionError("here")))
    monkeypatch.setattr(Sandbox, "run", fails(AssertionError("here")))
    away = tasks.with_workers(workers)
    assert here == [session(q, away, n % 2) for n, q in enumerate(away)]


@pytest.mark.parametrize("is_killed", (True, False))
def test_a_change_whose_worker_dies_or_that_nobody_waits_for_ends_alone(is_killed, home):
    "What was changed before is still there, and what was not carried out is not; who is not killed goes on."
    with Database(home, Limits.gold()).run_in(workers := Workers(1)) as db:
        copy, errand = db.work_copy(["animal"]), Errand()
        copy.execute("DELETE FROM animal WHERE rowid = 1")
        left = copy.query("SELECT count(*) FROM animal").rows
        slow = f"DELETE FROM animal WHERE rowid IN ({LONG.format(50_000_000)})"
        thread, said = in_thread(errand.run, copy.execute, slow)
        pid = busy(workers)
        if is_killed:
            os.kill(pid, signal.SIGKILL)
        else:
            errand.abandon()
        thread.join()
        assert isinstance(said[0], WorkerDiedError if is_killed else AbandonedError)
        assert is_killed or pid in {w.process.pid for w in workers._started}
        assert copy.query("SELECT count(*) FROM animal").rows == left and len(copy.changes()) == 1
    workers.close()


def test_what_a_change_leaves_is_no_trace_of_one_that_failed_and_copies_are_bounded(home):
    "The number of the last row is that of the last change; beyond some bytes the oldest copy of a worker is closed."
    with Database(write_stage(home.parent)) as db, db.writer(WRITES) as copy:
        copy.execute("INSERT INTO booking VALUES (70, 1, 1)")
        wrong = "INSERT INTO booking VALUES (80, 1, 1); INSERT INTO booking VALUES (81, 999, 1)"
        assert answer(copy.execute, wrong)[0]
        assert copy.execute("UPDATE booking SET nights = 9 WHERE id = last_insert_rowid()")[0].rows == 1
        copies = processes._Copies()
        copies.most = 3 * db.writer(WRITES).held
        about = processes._About(db.path, frozenset(db.shown_names), db.limits)
        for n in (1, 2, 3, 1, 4):
            copies.answer(processes._Order(about, partial(WritableCopy.query, sql="SELECT 1"), n, frozenset(WRITES)), 0)
        assert list(copies.open) == [3, 1, 4]


def of_agent() -> None:
    _stop(signal.SIGINT, sys._getframe())


@pytest.mark.parametrize(
    "verify, place",
    [("robust", "sql_env.grading.variants.sandbox.Sandbox.run"), ("certified", "sql_env.proofs.decision._by_gold")],
)
def test_a_query_is_judged_the_same_with_workers_and_without(verify, place, workers, monkeypatch):
    "On other contents, and proved; no query of the agent runs in this process, whatever becomes of it."
    if verify == "certified":
        pytest.importorskip("z3")
    few = load("bundled").filter(lambda q: q.answerable and len(q.gold_answer) == 1)[:8]
    questions = load("bundled").with_questions(list(few))

    def verdicts(found) -> list:
        said = []
        for q in found:
            for sql in (q.gold_sql, f"{q.gold_sql} -- {verify}", f"SELECT * FROM ({q.gold_sql}) LIMIT 1", None):
                episode = Episode(q, found.database(q.database_name), verify=verify)
                episode.reset()
                if sql:
                    episode.step("QUERY", sql)
                last = episode.step("ANSWER", "@last" if sql else format_rows(q.gold_answer))
                said.append((last, episode.verdicts, episode.grounded))
        return said

    here = verdicts(questions)
    monkeypatch.setattr(place, fails(AssertionError("here")))
    assert verdicts(questions.with_workers(workers)) == here
    assert len({last.reward for last, *_ in here}) > 1


def test_gold_is_nobodys_time_and_two_signals_at_once_end_one_statement(monkeypatch):
    "What is ours alone is worked out to its end, and the clock begins anew; a lane too short for it never had it."
    asked: list[float] = []
    monkeypatch.setattr("sql_env.database.workers._begin_clock", asked.append)
    monkeypatch.setattr("sql_env.database.workers._given", [0.25])

    @_untimed
    def ours() -> str:
        of_agent()
        return "whole"

    assert _answer(ours) == "whole" and asked == [0.25, 0]
    assert _answer(of_agent) is None
    # a second signal comes while the first is dealt with, as a clock's may
    monkeypatch.setattr("sql_env.database.workers._begin_clock", lambda seconds: of_agent())
    assert _answer(of_agent) is None and of_agent() is None
    assert {f.__code__ for f in (gold_changes, _make_states, _make_pair_variants)} < _UNTIMED
