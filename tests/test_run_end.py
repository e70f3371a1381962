"A run that can be trusted to end well: it stops early where it must, says so, resumes, and plays nothing twice."

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pytest
import typer
from fake_server import FAULTS, FakeServer, player, share_of_faults, slow
from made_sets import held_out as questions

from sql_env import ChatPolicy, OraclePolicy, RandomPolicy, load
from sql_env.cli.evaluate import _PLAYERS, _leave
from sql_env.evaluation import RunStopped, evaluate, read_log
from sql_env.evaluation.results import (
    EvaluationResult,
    band_ids,
    load_result,
    pass_rates,
    result_texts,
    results_markdown,
)
from sql_env.evaluation.rows import Trajectory
from sql_env.policies.requests import EndpointError


def chat(server, *args, n=10):
    where = ["--model", "m", "--base-url", server.url]
    return ["evaluate", "--split", "test", "--policy", "chat", *where, "-n", n, "--no-floor", *args]


@pytest.fixture
def server():
    with FakeServer(player(load("bundled", split="test"))) as server:
        yield server


def play(policy, n=None, **options):
    return evaluate(questions(), policy, n, progress=False, **options)


def stopped(match, policy, n=None, **options):
    "The result of a run that ends early."
    with pytest.raises(RunStopped, match=match) as e:
        play(policy, n, **options)
    assert "nan" not in repr(e.value)
    return e.value.result


class Fails(RandomPolicy):
    "Raises a permanent error in each episode from the n-th on."

    name = "fails"

    def __init__(self, after=0, is_permanent=True):
        super().__init__()
        self.left, self.is_permanent = [after], is_permanent

    def select_action(self, observation):
        self.left[0] -= observation.step_count == 0
        if self.left[0] < 0:
            raise EndpointError("key", "no such key", "", self.is_permanent)
        return super().select_action(observation)


@pytest.mark.parametrize("kind", ["key", "forbidden", "model", "quota", "no_tools"])
def test_a_permanent_error_ends_a_run_at_the_probe(kind):
    with FakeServer([FAULTS[kind]]) as server:
        with pytest.raises(EndpointError) as e:
            play(ChatPolicy("m", server.url, "k", protocol="tools"))
        assert e.value.is_permanent and e.value.advice and server.calls == 1


def test_a_permanent_error_later_ends_a_run_after_three():
    result = stopped("no such key", Fails(5))
    assert (result.n_completed, result.n_episodes) == (5, 8)
    with ThreadPoolExecutor(4) as pool:
        result = stopped("no such key", Fails(), executor=pool)
    assert 3 <= result.n_episodes <= 10, "8 are handed over at first, and one more for each of the first two"
    assert play(Fails(5, False)).n_episodes == 20, "an error that may pass ends nothing"


class OneByOne(Executor):
    "Plays a chunk when it is waited for, so that all others are still in the queue."

    _max_workers = 4

    def submit(self, play, *args):
        future = Future()
        future.play = lambda: future.set_result(play(*args))
        return future


def wait_for_one(futures, **_):
    first = next(iter(futures))
    first.play()
    return {first}, futures - {first}


def test_what_is_still_in_the_queue_does_not_begin_after_three(monkeypatch):
    monkeypatch.setattr("sql_env.evaluation.rollouts.wait", wait_for_one)
    assert stopped("no such key", Fails(), executor=OneByOne()).n_episodes == 3


def test_limits_of_cost_and_tokens_end_a_run_and_the_log_goes_on(tmp_path, server):
    log, policy = tmp_path / "a.jsonl", ChatPolicy("m", server.url, price=(1000, 1000))  # 0.22 for an episode
    for _ in range(2):
        result = stopped("max_cost", policy, log=log, max_cost=1.0)
        assert result.n_completed == 4, "a fifth one would cost 1.10 in all"
    assert stopped("max_tokens", policy, log=log, max_tokens=220 * 8).n_completed == 8
    assert play(policy, log=log, max_cost=99).n_completed == 20
    assert sum(len(b["messages"]) == 4 for b in server.bodies) == 20, "none was played twice"


class Interrupted(OraclePolicy):
    name = "interrupted"

    def __init__(self, qs):
        super().__init__(qs)
        self.count = [0]

    def reset(self, seed):
        self.count[0] += 1
        if self.count[0] == 8:
            raise KeyboardInterrupt


def test_an_interrupted_run_hands_back_what_it_measured(tmp_path):
    assert stopped("interrupted", Interrupted(questions()), log=tmp_path / "a.jsonl").n_completed <= 7


def test_crashed_episodes_are_played_again_and_nothing_else(tmp_path):
    log, qs = tmp_path / "a.jsonl", questions()
    with FakeServer(share_of_faults(player(qs), 0.2)) as server:
        policy = ChatPolicy("m", server.url, max_retries=0)
        first = play(policy, log=log)
        n = len(qs) - first.n_completed
        assert 0 < n < len(qs)
        server.script = player(qs)
        server.bodies.clear()
        second = play(policy, log=log)
        assert second.n_completed == len(qs)
        texts = {q.question_text: q.question_id for q in qs}
        again = [i for b in server.bodies for t, i in texts.items() if t in b["messages"][-1]["content"]]
        assert len(again) == n and not {e.question_id for e in first.completed} & set(again)
    assert len(read_log(log)[1]) == len(qs) and load_result(log).episodes == second.episodes


def test_a_log_is_extended_and_costs_stay_as_they_were_recorded(tmp_path, server):
    log = tmp_path / "a.jsonl"
    few = play(ChatPolicy("m", server.url), 5, log=log)
    assert "cost" not in few.usage
    policy = ChatPolicy("m", server.url, price=(1, 1))
    more = play(policy, 9, log=log)
    assert more.n_completed == 9 and more.usage["cost"] == pytest.approx(4 * 220e-6)
    assert [e.question_id for e in more.episodes[:5]] == [e.question_id for e in few.episodes]
    calls = server.calls
    assert play(policy, 9, log=log).n_completed == 9 and play(policy, 5, log=log).n_episodes == 5
    assert server.calls == calls, "not even a probe"
    with pytest.raises(ValueError, match="seed") as e:
        play(policy, 9, seed=1, log=log)
    assert "budget" not in str(e.value)


class Every(OraclePolicy):
    "Right in every other episode."

    name = "every other"

    def reset(self, seed):
        self.is_right = seed % 2 == 0

    def select_action(self, observation):
        action = super().select_action(observation)
        return action if self.is_right else ("ANSWER", "'no idea'")


def test_epochs_play_each_question_several_times(tmp_path):
    policy, log = Every(questions()), tmp_path / "a.jsonl"
    result = play(policy, 6, epochs=4, log=log)
    counts = Counter(e.question_id for e in result.episodes)
    assert result.n_episodes == 24 and set(counts.values()) == {4} and result.settings["epochs"] == 4
    rates = pass_rates(result, [4]).loc[4]
    assert rates["pass@k"] == 1 and rates["pass^k"] == 0
    said = "pass@4 100.0%, pass^4 0.0%, of 6 questions: 0 always, 6 sometimes, 0 never right"
    assert result_texts(result) == {"tries": said} and said in results_markdown([result])
    more = play(policy, 8, epochs=4, log=log)
    assert more.episodes[:24] == result.episodes and more.n_episodes == 32
    with pytest.raises(ValueError, match="epochs"):
        play(policy, 8, epochs=2, log=log)
    with pytest.raises(ValueError, match="epochs is 0"):
        play(policy, epochs=0)
    nothing = EvaluationResult("m", [Trajectory(episode_index=0, question_id="a", error="E: x")])
    assert "nan" not in repr(nothing) + results_markdown([nothing]) + str(result_texts(nothing))


def test_evaluate_writes_the_ids_of_questions_that_are_sometimes_right(sql_env, tmp_path, monkeypatch):
    log, band = tmp_path / "a.jsonl", tmp_path / "band.txt"
    monkeypatch.setattr("sql_env.cli.evaluate.make_policy", lambda name, loaded, seed: Every(loaded))
    args = "evaluate --policy random --no-floor --epochs 4 -n 6".split()
    code, out, _ = sql_env(*args, "--log", log, "--band", band)
    ids = band_ids(load_result(log))
    assert code == 0 and len(ids) == 6 and band.read_text().splitlines() == ids
    assert {q.question_id for q in load(ids=band)} == set(ids)
    assert all(told in out for told in ("sometimes", "low@4", "ids of 6 questions", "medium"))
    for less in (["--policy", "oracle"], ["--epochs", 4]):
        code, _, err = sql_env("evaluate", "-n", 2, "--no-floor", "--band", band, *less)
        assert code == 2 and "--band needs one policy" in " ".join(err.split())


def test_the_command_keeps_a_log_and_goes_on(sql_env, server):
    code, out, _ = sql_env(*chat(server))
    assert code == 0 and "100.0%" in out and "nan" not in out
    log = re.search(r"Log: (runs/\S+\.jsonl)", out)[1]
    assert len(read_log(log)[1]) == 10
    calls = server.calls
    code, again, _ = sql_env(*chat(server), "--price", 1, 1)
    assert code == 0 and server.calls == calls and log in again
    assert sql_env(*chat(server), "--seed", 3)[1].count("Log: runs/") == 1
    assert server.calls > calls, "another run has another log"
    assert "Log:" not in sql_env(*chat(server), "--no-log")[1]


@pytest.mark.parametrize("kind", ["key", "model", "quota"])
def test_a_wrong_key_is_an_error_before_the_first_episode(sql_env, kind):
    with FakeServer([FAULTS[kind]]) as server:
        code, out, err = sql_env(*chat(server))
        assert code == 2 and kind in err and "nan" not in out + err and server.calls == 1


def test_crashes_and_limits_have_an_exit_code(sql_env, server):
    good = server.script
    server.script = lambda body: good(body) if len(body["messages"]) < 4 else FAULTS["forbidden"]
    code, out, _ = sql_env(*chat(server))
    assert code == 1 and "Stopped:" in out and "The same command goes on" in out
    assert "nothing was measured" in out and "nan" not in out and server.calls <= 8
    server.script = good
    assert sql_env(*chat(server))[0] == 0
    code, out, _ = sql_env(*chat(server, "--max-tokens-total", 500, "--json", n=20))
    (numbers,) = json.loads(out)
    assert code == 1 and numbers["n_completed"] == 10


HANGING = [(_PLAYERS, 0.05, False), (_PLAYERS, 60, True), ("ThreadPoolExecutor-0", 60, False)]


@pytest.mark.parametrize("name, seconds, left_at_once", HANGING)
def test_only_threads_of_the_command_that_hang_end_the_process(monkeypatch, name, seconds, left_at_once):
    exits, released = [], threading.Event()
    monkeypatch.setattr("os._exit", exits.append)
    monkeypatch.setattr("sql_env.cli.evaluate._PATIENCE", 0.5)
    thread = threading.Thread(target=released.wait, args=(seconds,), name=f"{name}_0", daemon=True)
    thread.start()
    with pytest.raises(typer.Exit) as e:
        _leave(1)
    released.set()
    thread.join()
    assert e.value.exit_code == 1 and exits == [1] * left_at_once
    _leave(0)


def test_the_log_holds_the_hack_floor(sql_env, tmp_path):
    log = tmp_path / "kept" / "oracle.jsonl"
    for _ in range(2):
        assert sql_env("evaluate", "--split", "test", "-n", 3, "--policy", "oracle", "--log", "kept")[0] == 0
    assert "empty" in load_result(log).hack_floor and log.read_text().count('"hack_floor"') == 1


def test_numbers_are_never_cut_by_a_name(sql_env, server):
    args = chat(server, "--no-log", n=3)
    args[args.index("m")] = "openrouter/meta-llama/llama-4-maverick-17b-128e-instruct"
    code, out, _ = sql_env(*args)
    assert code == 0 and "…" not in out and "95 % interval" in out
    assert all(len(line) <= 80 for line in out.split("\n") if "%" in line and "tokens" not in line)


def start(tmp_path, *args):
    "The command in a process of its own; Ctrl-C reaches it even if the tests run in the background of a shell."
    command = [sys.executable, "-c", "from sql_env.cli import main; main()", *map(str, args)]
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=tmp_path, preexec_fn=heard, stdout=pipe, stderr=pipe, text=True)


def finished_in(folder):
    "Number of finished episodes in the logs of a folder."
    logs = [log for log in folder.rglob("*.jsonl") if b"\n" in log.read_bytes()]  # begun, not only locked
    return sum(t.error is None for log in logs for t in read_log(log)[1])


def wait_for(folder, n):
    end = time.monotonic() + 180
    while time.monotonic() < end and finished_in(folder) < n:
        time.sleep(0.05)


@pytest.mark.slow
def test_ctrl_c_prints_what_is_measured_and_how_to_go_on(tmp_path, server):
    good = server.script
    server.script = lambda body: slow(good(body), 0.2)
    process = start(tmp_path, *chat(server, "--workers", 4, n=60))
    wait_for(tmp_path / "runs", 6)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in out + err
    assert "interrupted" in out and "100.0%" in out and "sql_env evaluate --split test" in out


@pytest.mark.slow
@pytest.mark.parametrize("n_done", [1, 30, 75])
def test_a_killed_run_loses_at_most_the_episodes_in_flight(tmp_path, server, n_done):
    good, workers = server.script, 8
    server.script = lambda body: slow(good(body), 0.02)
    args = chat(server, "--workers", workers, n=90)
    process = start(tmp_path, *args)
    wait_for(tmp_path / "runs", n_done)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    ended = sum(len(b["messages"]) == 4 for b in server.bodies)
    kept = finished_in(tmp_path / "runs")
    assert n_done <= kept and ended - kept <= workers
    server.bodies.clear()
    process = start(tmp_path, *args)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert sum(len(b["messages"]) == 4 for b in server.bodies) == 90 - kept
    assert finished_in(tmp_path / "runs") == 90


@pytest.mark.full
@pytest.mark.slow
def test_500_episodes_with_a_fifth_of_503s_end_in_two_commands(tmp_path, tell):
    with FakeServer(share_of_faults(player(load("bundled")), 0.2)) as server:
        where = ["--model", "m", "--base-url", server.url, "--workers", 16, "--no-robust"]
        args = ["evaluate", "--policy", "chat", *where, "-n", 500, "--no-floor"]
        began, codes, kept = time.monotonic(), [], []
        for retries in (0, 5):  # the first command gives up at once
            process = start(tmp_path, *args, "--max-retries", retries)
            process.communicate(timeout=500)
            codes.append(process.returncode)
            kept.append(finished_in(tmp_path / "runs"))
        log = next((tmp_path / "runs").rglob("*.jsonl"))
        lines = [json.loads(x) for x in log.read_text().splitlines() if '"episode_index"' in x]
        ends = Counter(x["episode_index"] for x in lines if "error" not in x)
        seconds = time.monotonic() - began
        tell(f"500 episodes, a fifth 503s: finished {kept}, codes {codes}, {seconds:.0f} s")
        assert kept[0] < 500 and codes[0] == 1 and kept[1] == 500 and codes[1] == 0
        assert set(ends.values()) == {1} and len(ends) == 500, "a finished episode was played twice"
