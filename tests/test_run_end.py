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
from concurrent.futures import ThreadPoolExecutor

import pytest
import typer
from fake_server import FAULTS, FakeServer, player, share_of_faults, slow
from made_sets import held_out as questions

from sql_env import ChatPolicy, OraclePolicy, RandomPolicy, load
from sql_env.cli.evaluate import _PLAYERS, _leave
from sql_env.evaluation import EpisodeResult, RunStopped, evaluate, read_log
from sql_env.evaluation.results import EvaluationResult, load_result, pass_rates, result_texts, results_markdown
from sql_env.policies.requests import EndpointError


def chat(server, *args, n=10):
    where = ["--model", "m", "--base-url", server.url]
    return ["evaluate", "--split", "test", "--policy", "chat", *where, "-n", n, "--no-floor", *args]


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


# ---- what ends a run
@pytest.mark.parametrize("kind", ["key", "forbidden", "model", "quota", "no_tools"])
def test_a_permanent_error_ends_a_run_at_the_probe(kind):
    with FakeServer([FAULTS[kind]]) as server:
        with pytest.raises(EndpointError) as e:
            policy = ChatPolicy("m", server.url, "k", protocol="tools")
            evaluate(questions(), policy, progress=False)
        assert e.value.is_permanent and e.value.advice
        assert server.calls == 1


def test_a_permanent_error_later_ends_a_run_after_three():
    with pytest.raises(RunStopped, match="no such key") as e:
        evaluate(questions(), Fails(5), progress=False)
    assert (e.value.result.n_completed, e.value.result.n_episodes) == (5, 8)
    with ThreadPoolExecutor(4) as pool, pytest.raises(RunStopped) as e:
        evaluate(questions(), Fails(5), executor=pool, progress=False)
    assert 3 <= e.value.result.n_episodes - e.value.result.n_completed <= 11
    result = evaluate(questions(), Fails(5, False), progress=False)
    assert result.n_episodes == 20, "an error that may pass ends nothing"


@pytest.mark.parametrize("limit, crashed", [(4, 4), (1, 1), (0.25, 5), (0.9, None)])
def test_fail_on_error_is_a_number_or_a_share(limit, crashed):
    policy = Fails(4, is_permanent=False)
    if crashed is None:
        assert evaluate(questions(), policy, fail_on_error=limit, progress=False).n_episodes == 20
        return
    with pytest.raises(RunStopped, match="fail_on_error") as e:
        evaluate(questions(), policy, fail_on_error=limit, progress=False)
    assert e.value.result.n_episodes == 4 + crashed


def test_limits_of_cost_and_tokens_end_a_run_and_the_log_goes_on(tmp_path):
    log = tmp_path / "a.jsonl"
    with FakeServer(player(questions())) as server:
        policy = ChatPolicy("m", server.url, price=(1000, 1000))  # 0.22 for an episode
        with pytest.raises(RunStopped, match="max_cost") as e:
            evaluate(questions(), policy, log=log, max_cost=1.0, progress=False)
        assert e.value.result.n_completed == 4, "a fifth one would cost 1.10 in all"
        with pytest.raises(RunStopped, match="max_cost"):
            evaluate(questions(), policy, log=log, max_cost=1.0, progress=False)
        with pytest.raises(RunStopped, match="max_tokens") as e:
            evaluate(questions(), policy, log=log, max_tokens=220 * 8, progress=False)
        assert e.value.result.n_completed == 8
        assert evaluate(questions(), policy, log=log, max_cost=99, progress=False).n_completed == 20
        assert sum(len(b["messages"]) == 4 for b in server.bodies) == 20, "none was played twice"


def test_no_episode_begins_after_the_time():
    with pytest.raises(RunStopped, match="max_seconds") as e:
        evaluate(questions(), RandomPolicy(), max_seconds=0, progress=False)
    assert e.value.result.n_episodes == 0 and "nan" not in repr(e.value)


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
    with pytest.raises(RunStopped, match="interrupted") as e:
        evaluate(questions(), Interrupted(questions()), log=tmp_path / "a.jsonl", progress=False)
    assert e.value.result.n_completed <= 7


# ---- resuming
def test_crashed_episodes_are_played_again_and_nothing_else(tmp_path):
    log = tmp_path / "a.jsonl"
    qs = questions()
    with FakeServer(share_of_faults(player(qs), 0.2)) as server:
        policy = ChatPolicy("m", server.url, max_retries=0)
        first = evaluate(qs, policy, log=log, progress=False)
        n = len(qs) - first.n_completed
        assert 0 < n < len(qs)
        finished = {e.question_id for e in first.completed}
        server.script = player(qs)
        server.bodies.clear()
        second = evaluate(qs, policy, log=log, progress=False)
        assert second.n_completed == len(qs)
        texts = {q.question_text: q.question_id for q in qs}
        again = [i for b in server.bodies for t, i in texts.items() if t in b["messages"][-1]["content"]]
        assert len(again) == n and not finished & set(again)
    about, trajectories = read_log(log)
    assert len(trajectories) == len(qs) and load_result(log).episodes == second.episodes


def test_a_log_is_extended_and_priced_anew(tmp_path):
    log = tmp_path / "a.jsonl"
    with FakeServer(player(questions())) as server:
        few = evaluate(questions(), ChatPolicy("m", server.url), 5, log=log, progress=False)
        assert "cost" not in few.usage
        policy = ChatPolicy("m", server.url, price=(1, 1))
        more = evaluate(questions(), policy, 9, log=log, progress=False)
        assert more.n_completed == 9 and more.usage["cost"] == pytest.approx(9 * 220e-6)
        assert [e.question_id for e in more.episodes[:5]] == [e.question_id for e in few.episodes]
        calls = server.calls
        assert evaluate(questions(), policy, 9, log=log, progress=False).n_completed == 9
        assert evaluate(questions(), policy, 5, log=log, progress=False).n_episodes == 5
        assert server.calls == calls, "not even a probe"
        with pytest.raises(ValueError, match="seed") as e:
            evaluate(questions(), policy, 9, seed=1, log=log, progress=False)
        assert "budget" not in str(e.value)


# ---- epochs
class Every(OraclePolicy):
    "Right in every other episode."

    name = "every other"

    def reset(self, seed):
        self.is_right = seed % 2 == 0

    def select_action(self, observation):
        action = super().select_action(observation)
        return action if self.is_right else ("ANSWER", "no idea")


def test_epochs_play_each_question_several_times(tmp_path):
    qs, log = questions(), tmp_path / "a.jsonl"
    result = evaluate(qs, Every(qs), 6, epochs=4, log=log, progress=False)
    counts = Counter(e.question_id for e in result.episodes)
    assert result.n_episodes == 24 and set(counts.values()) == {4} and result.settings["epochs"] == 4
    rates = pass_rates(result, [4]).loc[4]
    assert rates["pass@k"] == 1 and rates["pass^k"] == 0
    said = "pass@4 100.0%, pass^4 0.0%, of 6 questions"
    assert result_texts(result) == {"tries": said} and said in results_markdown([result])
    more = evaluate(qs, Every(qs), 8, epochs=4, log=log, progress=False)
    assert more.episodes[:24] == result.episodes and more.n_episodes == 32
    with pytest.raises(ValueError, match="epochs"):
        evaluate(qs, Every(qs), 8, epochs=2, log=log, progress=False)
    with pytest.raises(ValueError, match="epochs is 0"):
        evaluate(qs, Every(qs), epochs=0, progress=False)


def test_nan_is_never_printed():
    nothing = EvaluationResult("m", [EpisodeResult(0, "a", error="E: x")])
    assert "nan" not in repr(nothing) + results_markdown([nothing]) + str(result_texts(nothing))


# ---- the command
def test_the_command_keeps_a_log_and_goes_on(sql_env):
    with FakeServer(player(load("bundled", split="test"))) as server:
        args = chat(server)
        code, out, _ = sql_env(*args)
        assert code == 0 and "100.0%" in out and "nan" not in out
        log = re.search(r"Log: (runs/\S+\.jsonl)", out)[1]
        assert len(read_log(log)[1]) == 10
        calls = server.calls
        code, again, _ = sql_env(*args, "--price", 1, 1)
        assert code == 0 and server.calls == calls and "cost" in again and log in again
        assert sql_env(*args, "--seed", 3)[1].count("Log: runs/") == 1
        assert server.calls > calls, "another run has another log"
        assert "Log:" not in sql_env(*args, "--no-log")[1]


@pytest.mark.parametrize("kind, words", [("key", "key"), ("model", "model"), ("quota", "quota")])
def test_a_wrong_key_is_an_error_before_the_first_episode(sql_env, kind, words):
    with FakeServer([FAULTS[kind]]) as server:
        code, out, err = sql_env(*chat(server))
        assert code == 2 and words in err and "nan" not in out + err and server.calls == 1


def test_crashes_and_limits_have_an_exit_code(sql_env):
    good = player(load("bundled", split="test"))

    def ill(body):
        return good(body) if len(body["messages"]) < 4 else FAULTS["forbidden"]

    with FakeServer(ill) as server:
        code, out, _ = sql_env(*chat(server))
        assert code == 1 and "Stopped:" in out and "The same command goes on" in out
        assert "nothing was measured" in out and "nan" not in out and server.calls <= 8
        server.script = good
        assert sql_env(*chat(server))[0] == 0
        code, out, _ = sql_env(*chat(server, "--max-tokens-total", 500, "--json", n=20))
        (numbers,) = json.loads(out)
        assert code == 1 and numbers["n_completed"] == 10


@pytest.mark.parametrize(
    "name, seconds, left_at_once", [(_PLAYERS, 0.05, False), (_PLAYERS, 60, True), ("ThreadPoolExecutor-0", 60, False)]
)
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
    args = ["evaluate", "--split", "test", "-n", 3, "--policy", "oracle", "--log", "kept"]
    for _ in range(2):
        assert sql_env(*args)[0] == 0
    floor = load_result(tmp_path / "kept" / "oracle.jsonl").hack_floor
    assert "empty" in floor
    lines = (tmp_path / "kept" / "oracle.jsonl").read_text().split("\n")
    assert sum('"hack_floor"' in line for line in lines) == 1


def test_cached_answers_are_not_asked_for_again(sql_env):
    with FakeServer(player(load("bundled", split="test"))) as server:
        assert sql_env(*chat(server, "--no-log", "--cache", "kept", n=5))[0] == 0
        calls = server.calls
        assert sql_env(*chat(server, "--no-log", "--cache", "kept", n=5))[0] == 0
        assert server.calls == calls + 1, "the probe"


def test_numbers_are_never_cut_by_a_name(sql_env):
    with FakeServer(player(load("bundled", split="test"))) as server:
        args = chat(server, "--no-log", n=3)
        args[args.index("m")] = "openrouter/meta-llama/llama-4-maverick-17b-128e-instruct"
        code, out, _ = sql_env(*args)
        assert code == 0 and "…" not in out and "95 % interval" in out
        assert all(len(line) <= 80 for line in out.split("\n") if "%" in line and "tokens" not in line)


def start(tmp_path, *args):
    "The command in a process of its own; Ctrl-C reaches it even if the tests run in the background of a shell."
    return subprocess.Popen(
        [sys.executable, "-c", "from sql_env.cli import main; main()", *map(str, args)],
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished_in(folder):
    "Number of finished episodes in the logs of a folder."
    logs = [log for log in folder.rglob("*.jsonl") if b"\n" in log.read_bytes()]  # begun, not only locked
    return sum(t.episode.error is None for log in logs for t in read_log(log)[1])


def wait_for(folder, n):
    end = time.monotonic() + 180
    while time.monotonic() < end and finished_in(folder) < n:
        time.sleep(0.05)


@pytest.mark.slow
def test_ctrl_c_prints_what_is_measured_and_how_to_go_on(tmp_path):
    good = player(load("bundled", split="test"))
    with FakeServer(lambda body: slow(good(body), 0.2)) as server:
        process = start(tmp_path, *chat(server, "--workers", 4, n=60))
        wait_for(tmp_path / "runs", 6)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 130 and "Traceback" not in out + err
        assert "interrupted" in out and "100.0%" in out and "sql_env evaluate --split test" in out


@pytest.mark.slow
@pytest.mark.parametrize("n_done", [1, 30, 75])
def test_a_killed_run_loses_at_most_the_episodes_in_flight(tmp_path, n_done):
    good = player(load("bundled", split="test"))
    workers = 8
    with FakeServer(lambda body: slow(good(body), 0.02)) as server:
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
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert sum(len(b["messages"]) == 4 for b in server.bodies) == 90 - kept
        assert finished_in(tmp_path / "runs") == 90


@pytest.mark.full
@pytest.mark.slow
def test_500_episodes_with_a_fifth_of_503s_end_in_two_commands(tmp_path, tell):
    good = player(load("bundled"))
    with FakeServer(share_of_faults(good, 0.2)) as server:
        where = ["--model", "m", "--base-url", server.url, "--workers", 16, "--no-robust"]
        args = ["evaluate", "--policy", "chat", *where, "-n", 500, "--no-floor"]
        began, codes, kept = time.monotonic(), [], []
        for retries in (0, 5):  # the first command gives up at once
            process = start(tmp_path, *args, "--max-retries", retries)
            out, err = process.communicate(timeout=500)
            codes.append(process.returncode)
            kept.append(finished_in(tmp_path / "runs"))
        log = next((tmp_path / "runs").rglob("*.jsonl"))
        lines = [json.loads(x) for x in log.read_text().splitlines() if '"episode"' in x]
        ends = Counter(x["episode"]["episode_index"] for x in lines if not x["episode"]["error"])
        seconds = time.monotonic() - began
        tell(f"500 episodes, a fifth 503s: finished {kept}, codes {codes}, {seconds:.0f} s")
        assert kept[0] < 500 and codes[0] == 1 and kept[1] == 500 and codes[1] == 0
        assert set(ends.values()) == {1} and len(ends) == 500, "a finished episode was played twice"
