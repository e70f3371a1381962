"Workers: an object goes to each once, a death costs one item, and nothing is done twice or lost."

import os
import pickle
import threading
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.evaluation.workers import (
    WORKER_STORE,
    Gate,
    ProcessWorkers,
    WorkerError,
    WorkersLost,
    _is_death,
    _run_piece,
    _run_pieces,
)


class Numbers:
    "A large object that leaves a line in a file each time it is unpacked."

    def __init__(self, n, file=None):
        self.numbers, self.file = list(range(n)), file

    def __setstate__(self, state):
        self.__dict__ = state
        if self.file:
            with open(self.file, "a") as out:
                out.write(f"{os.getpid()}\n")


class Wire(Executor):
    "An executor that runs all at once and here, but on what came over a wire; it counts bytes."

    def __init__(self, dies_at=(), forgets_at=(), n_workers=0):
        self.n_workers = n_workers
        self.dies_at, self.forgets_at = set(dies_at), set(forgets_at)
        self.sizes = []

    def submit(self, fn, /, *args):
        future = Future()
        number = len(self.sizes)
        self.sizes.append(len(pickle.dumps((fn, args))))
        if number in self.forgets_at:
            WORKER_STORE._kept.clear()
        if number in self.dies_at:
            future.set_exception(BrokenExecutor("a worker died"))
            return future
        fn, args = pickle.loads(pickle.dumps((fn, args)))
        try:
            future.set_result(pickle.loads(pickle.dumps(fn(*args))))
        except Exception as e:
            future.set_exception(e)
        return future


def double(shared, piece):
    return [2 * shared.numbers[i] for i in piece]


def double_or_die(shared, piece):
    if {5, 11} & set(piece):
        os._exit(3)
    return double(shared, piece)


def fail(shared, piece):
    with open(shared.file, "a") as out:
        out.write("piece\n")
    raise ZeroDivisionError(f"{piece}")


def note(shared, piece):
    with open(shared.file, "a") as out:
        out.write("piece\n")
    return piece


def refuse(shared):
    raise WorkerError("The worker on node7 lacks a database.")


def pieces_of(n, size):
    return [list(range(i, min(i + size, n))) for i in range(0, n, size)]


def results(done):
    "Doubles of items, and the items that were lost; each item occurs once."
    items = [i for d in done for i in d.piece]
    assert len(items) == len(set(items)), "nothing is done twice"
    good = [d for d in done if d.error is None]
    assert all(d.result == [2 * i for i in d.piece] for d in good)
    return {i for d in good for i in d.piece}, {i for d in done if d.error for i in d.piece}


@pytest.mark.parametrize("pool", [ProcessWorkers, ProcessPoolExecutor])
def test_an_object_goes_to_each_worker_once(pool, tmp_path):
    file = tmp_path / "unpacked"
    with pool(2) as workers:
        done = list(_run_pieces(workers, double, Numbers(10_000, file), pieces_of(600, 10)))
    assert results(done) == (set(range(600)), set())
    pids = file.read_text().split()
    assert len(pids) == len(set(pids)) <= 2 and str(os.getpid()) not in pids


def test_pieces_carry_ids_only():
    wire = Wire()
    shared = Numbers(100_000)
    assert results(list(_run_pieces(wire, double, shared, pieces_of(400, 10)))) == (
        set(range(400)),
        set(),
    )
    *probes, first = wire.sizes[:9]
    assert min(probes) > 200_000 > 1000 > first
    assert sum(wire.sizes[8:]) < 40 * 500, "no piece carries the object"


def test_a_worker_that_forgot_or_came_late_gets_the_object_again():
    wire = Wire(forgets_at=(10, 14, 20), n_workers=1)
    assert (
        results(list(_run_pieces(wire, double, Numbers(100_000), pieces_of(400, 10))))[1] == set()
    )
    large = [size for size in wire.sizes if size > 100_000]
    assert 1 + 3 <= len(large) <= 1 + 3 * 2, "two pieces are under way for a worker"
    assert len(wire.sizes) == len(large) + 40


@given(
    st.integers(0, 30), st.integers(1, 9), st.sets(st.integers(8, 60)), st.sets(st.integers(8, 60))
)
def test_every_item_is_done_once_or_lost_whatever_dies(n, size, dies_at, forgets_at):
    wire, done = Wire(dies_at, forgets_at), []
    try:
        done.extend(_run_pieces(wire, double, Numbers(n), pieces_of(n, size)))
        is_whole = True
    except WorkersLost:
        is_whole = False
    good, lost = results(done)
    assert not good & lost and good | lost <= set(range(n))
    assert len(lost) <= len(dies_at) // 3, "three deaths cost one item at most"
    if is_whole:
        assert good | lost == set(range(n))
    else:
        assert len(dies_at) >= 4, "it ends only when the worker after it dies as well"


def test_a_node_that_dies_costs_no_item():
    "All pieces that a dead node had are played by another one, and none is an error."
    wire = Wire(dies_at=range(10, 60))
    done = list(_run_pieces(wire, double, Numbers(300), pieces_of(300, 5)))
    assert results(done) == (set(range(300)), set())
    assert len(wire.sizes) == 8 + 60 + 50, "each lost piece goes out once more, as a whole"


class Distributed(Executor):
    "Workers that take nothing, or lose all, in the words of other packages."

    n_workers = 2

    def __init__(self, error, is_cancelled=False):
        self.error, self.is_cancelled, self.after = error, is_cancelled, 4

    def submit(self, fn, /, *args):
        future = Future()
        self.after -= 1
        if self.after >= 0:
            future.set_result(fn(*args))
        elif self.is_cancelled:
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_exception(self.error)
        return future


def named(*names):
    kind = RuntimeError
    for name in names:
        kind = type(name, (kind,), {})
    return kind("gone")


@pytest.mark.parametrize(
    "pool",
    [
        Distributed(named("ObjectLostError", "OwnerDiedError")),
        Distributed(named("RayActorError", "ActorDiedError")),
        Distributed(named("LocalRayletDiedError")),
        Distributed(named("CommClosedError")),
        Distributed(None, is_cancelled=True),
    ],
)
def test_what_nobody_played_is_no_failed_item(pool):
    done = []
    with pytest.raises(WorkersLost, match="none is left"):
        done.extend(_run_pieces(pool, double, Numbers(30), pieces_of(30, 3)))
    assert len(done) == 2 and not any(d.error for d in done)


def test_a_process_that_dies_takes_only_its_item_along():
    with ProcessWorkers(2) as workers:
        done = list(_run_pieces(workers, double_or_die, Numbers(40), pieces_of(40, 4)))
        assert results(done) == (set(range(40)) - {5, 11}, {5, 11})
        assert all(_is_death(d.error) for d in done if d.error)
        again = list(_run_pieces(workers, double, Numbers(9), pieces_of(9, 2)))
        assert results(again) == (set(range(9)), set()), "the processes are back"


def test_items_that_all_die_end(monkeypatch):
    monkeypatch.setattr("sql_env.evaluation.workers._MOST_LOST", 3)
    wire, done = Wire(dies_at=range(8, 10_000)), []
    with pytest.raises(WorkersLost):
        done.extend(_run_pieces(wire, double, Numbers(50), pieces_of(50, 10)))
    assert not done and len(wire.sizes) == 8 + 5 + 5 + 2, "the others are not tried"
    wire = Wire(
        dies_at={*range(8, 18), *range(18, 10_000, 2)}
    )  # each item alone, and never a probe
    with pytest.raises(WorkersLost):
        done.extend(_run_pieces(wire, double, Numbers(50), pieces_of(50, 10)))
    assert results(done) == (set(), {0, 1, 2}), "three are at fault, and then it ends"


def test_a_broken_pool_of_somebody_else_loses_no_piece():
    done = []
    with ProcessPoolExecutor(1) as pool, pytest.raises(WorkersLost, match="none is left"):
        done.extend(_run_pieces(pool, double_or_die, Numbers(40), pieces_of(40, 4)))
    assert results(done)[1] == set(), "what was not done is no failure"


class Closed(Gate):
    is_over = True


class AtMost(Gate):
    "A number of pieces at the same time, and a number in all."

    def __init__(self, at_once, total):
        self.at_once, self.total, self.most = at_once, total, 0

    def may_begin(self, n_under_way):
        if n_under_way >= self.at_once or not self.total:
            return False
        self.total -= 1
        self.most = max(self.most, n_under_way + 1)
        return True


def test_a_gate_that_is_closed_from_the_start_ends_at_once():
    "A run that resumes after its cap was reached."
    with ThreadPoolExecutor(2) as threads:
        run = threading.Thread(
            target=lambda: list(_run_pieces(threads, double, Numbers(9), [[1]], gate=Closed())),
            daemon=True,
        )
        run.start()
        run.join(5)
        assert not run.is_alive(), "it waits for a piece that nobody sent"


def test_a_gate_holds_back_pieces():
    gate = AtMost(2, 30)
    with ThreadPoolExecutor(4) as threads:
        done = list(_run_pieces(threads, double, Numbers(99), pieces_of(99, 1), gate=gate))
    assert len(done) == 30 and gate.most == 2


def test_an_error_of_a_piece_is_its_own_and_not_tried_again(tmp_path):
    shared = Numbers(3, tmp_path / "tries")
    with ThreadPoolExecutor(2) as threads:
        done = list(_run_pieces(threads, fail, shared, [[0], [1], [2]]))
    assert sorted(str(d.error) for d in done) == ["[0]", "[1]", "[2]"]
    assert shared.file.read_text().count("piece") == 3


@pytest.mark.parametrize("make", [lambda: ProcessWorkers(2), lambda: Wire()], ids=["own", "other"])
def test_a_worker_that_cant_take_part_says_so_before_the_first_piece(make, tmp_path):
    shared = Numbers(3, tmp_path / "played")
    with make() as workers, pytest.raises(WorkerError, match="node7 lacks a database"):
        list(_run_pieces(workers, note, shared, [[0], [1]], refuse))
    assert "piece" not in (shared.file.read_text() if shared.file.exists() else "")


def test_what_cant_be_sent_or_read_is_said():
    with (
        ProcessWorkers(1) as workers,
        pytest.raises(ValueError, match="can't be sent to another process.*ThreadPoolExecutor"),
    ):
        list(_run_pieces(workers, double, lambda: 1, [[0]]))
    with pytest.raises(WorkerError, match="can't read what was sent.*importable"):
        _run_piece("no such token", b"damaged", None, double, [0])


def test_threads_share_the_object_itself(tmp_path):
    shared = Numbers(100, tmp_path / "unpacked")
    before = len(WORKER_STORE._kept)
    with ThreadPoolExecutor(3) as threads:
        done = list(_run_pieces(threads, double, shared, pieces_of(100, 7)))
    assert results(done) == (set(range(100)), set())
    assert not shared.file.exists() and len(WORKER_STORE._kept) == before


def test_a_worker_keeps_the_latest_objects_only():
    for number in range(5):
        list(_run_pieces(Wire(), double, Numbers(10 + number), [[0]]))
    assert len(WORKER_STORE._kept) <= WORKER_STORE.size == 2


def test_who_stops_listening_takes_back_what_has_not_begun(tmp_path):
    shared = Numbers(3, tmp_path / "played")
    pieces = [[i] for i in range(500)]
    with ThreadPoolExecutor(1) as threads, closing(_run_pieces(threads, note, shared, pieces)) as d:
        next(d)
    assert Path(shared.file).read_text().count("piece") < 500
