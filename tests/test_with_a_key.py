"What a person with a key meets: caps, rate limits, broken replies, two runs at once, Ctrl-C, a full disk, advice."

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from made_rows import made_row

pytest.importorskip("openai", reason="openai is not installed: pip install 'sql_env[openai]'")

from fake_server import FAULTS, FakeServer, fault, message, player, slow
from made_models import estimates
from made_sets import bundled
from made_sets import held_out as questions

from sql_env import ChatPolicy, EpisodeEnv, GreedyPolicy, RandomPolicy, load
from sql_env.evaluation import EvaluationResult, RunStopped, compare, evaluate
from sql_env.evaluation.logs import EpisodeLog, merge_logs, read_log
from sql_env.evaluation.rollouts import plan_episodes
from sql_env.evaluation.rows import EpisodeResult, Trajectory
from sql_env.policies.requests import EndpointError, _error_kind, _explain_error

ID = "vet_clinic-02"
GOLD = "SELECT count(*) FROM visit WHERE paid_on IS NULL"


def one():
    return bundled().with_questions([bundled().get(ID)], [])


def chat(server, *args, n=10):
    where = ["--policy", "chat", "--model", "m", "--base-url", server.url]
    return ["evaluate", "--split", "test", *where, "-n", n, *args]


def start(tmp_path, *args, **options):
    "The command in a process of its own; Ctrl-C reaches it even if the tests run in the background of a shell."
    command = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command += "from sql_env.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", command, *map(str, args)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def wait_until(found, seconds=180.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end and not found():
        time.sleep(0.02)
    assert found()


def in_time(function, seconds=20):
    "What a function returns; fails if it hangs."
    done = []

    def run():
        try:
            done.append(function())
        except Exception as e:
            done.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert done, "it hangs"
    return done[0]


# ---- 1, 2: caps
def test_a_run_that_a_cap_stopped_does_not_hang_when_it_resumes(tmp_path):
    with FakeServer(player(questions())) as server:
        policy = ChatPolicy("m", server.url, price=(1000, 1000))  # 0.22 for an episode

        def run():
            with ThreadPoolExecutor(8) as pool:
                return evaluate(
                    questions(), policy, executor=pool, log=tmp_path / "a.jsonl", max_cost=0.5, progress=False
                )

        first = in_time(run)
        assert isinstance(first, RunStopped) and "max_cost" in first.reason
        calls = server.calls
        for _ in range(2):
            again = in_time(run)
            assert isinstance(again, RunStopped) and "max_cost" in again.reason
            assert again.result.n_completed == first.result.n_completed and server.calls == calls


@pytest.mark.parametrize("workers", [1, 8])
def test_a_cap_is_not_overspent_whatever_is_under_way(workers, tmp_path):
    with FakeServer(player(questions())) as server, ThreadPoolExecutor(workers) as pool:
        policy = ChatPolicy("m", server.url, price=(1000, 1000))
        with pytest.raises(RunStopped, match="max_cost") as e:
            evaluate(questions(), policy, executor=pool, max_cost=1.2, progress=False)
        assert e.value.result.n_completed == 5 and e.value.result.usage["cost"] <= 1.2
        with pytest.raises(RunStopped, match="max_tokens") as e:
            evaluate(questions(), policy, executor=pool, max_tokens=1000, progress=False)
        assert e.value.result.n_completed == 4


def test_what_crashed_episodes_cost_counts_against_the_cap(tmp_path):
    log, good = tmp_path / "a.jsonl", player(questions())

    def ill(body):
        return good(body) if len(body["messages"]) < 4 else fault(503)

    with FakeServer(ill) as server:
        policy = ChatPolicy("m", server.url, price=(1000, 1000), max_retries=0)
        assert evaluate(questions(), policy, 3, log=log, progress=False).n_completed == 0
        server.script = good
        with pytest.raises(RunStopped) as e:
            evaluate(questions(), policy, 3, log=log, max_cost=0.6, progress=False)
        assert e.value.result.n_completed == 1, "0.33 went into episodes that crashed"


def test_a_cap_without_a_price_is_refused_with_what_to_do(sql_env, tmp_path):
    with FakeServer(player(questions())) as server:
        with pytest.raises(ValueError, match=r"--price 0.25 2.*max_tokens"):
            evaluate(one(), ChatPolicy("m", server.url), max_cost=1, progress=False)
        code, _, err = sql_env(*chat(server, "--max-cost", 1))
        assert code == 2 and "--price" in err and server.calls == 0


def test_prices_of_known_models_are_used_at_their_own_server_only(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert ChatPolicy("gpt-5-mini").price == (0.25, 2, 0.025)
    assert ChatPolicy("gpt-5-mini-2025-08-07").price == (0.25, 2, 0.025)
    assert ChatPolicy("anthropic/claude-sonnet-4-5-20250929").price == (3, 15, 0.3)
    assert ChatPolicy("gpt-5-mini", "http://127.0.0.1:9/v1").price is None
    assert ChatPolicy("gpt-5-mini", price=(1, 2)).price == (1, 2)
    assert ChatPolicy("a-new-model").price is None


# ---- 2: rate limits
class Limited:
    "A script that answers so many requests in a window of seconds, and refuses the others with a time to wait."

    def __init__(self, script, n, seconds, retry_after):
        self.script, self.n, self.seconds, self.retry_after = script, n, seconds, retry_after
        self.times, self.lock, self.refused = deque(), threading.Lock(), 0

    def __call__(self, body):
        now = time.monotonic()
        with self.lock:
            while self.times and now - self.times[0] > self.seconds:
                self.times.popleft()
            if len(self.times) >= self.n:
                self.refused += 1
                return fault(429, "Rate limit reached for requests.", retry_after=self.retry_after)
            self.times.append(now)
        return self.script(body)


def test_a_rate_limit_loses_no_episode():
    "Far more refusals than `max_retries` repetitions, sixteen episodes at once."
    script = Limited(player(questions()), 10, 0.5, "0.1")
    with FakeServer(script) as server, ThreadPoolExecutor(16) as pool:
        policy = ChatPolicy("m", server.url, max_retries=1)
        result = evaluate(questions(), policy, executor=pool, progress=False)
    assert result.n_completed == 20 and result.success_rate == 1 and script.refused > 16


def test_all_requests_wait_for_what_one_was_told(monkeypatch):
    from sql_env.policies.requests import RequestPace

    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    pace = RequestPace()
    pace.end(pace.start())
    pace.pause(4)
    for _ in range(8):
        pace.end(pace.start())
    assert len(waits) == 8 and all(3.9 < w <= 5 for w in waits) and len(set(waits)) == 8


def test_requests_a_minute_are_kept(monkeypatch, sql_env):
    from sql_env.policies.requests import RequestPace

    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    pace = RequestPace(rpm=60)
    for _ in range(4):
        pace.end(pace.start())
    assert [round(w) for w in waits] == [1, 2, 3]
    with pytest.raises(ValueError, match="rpm is 0"):
        RequestPace(rpm=0)


def test_the_command_knows_requests_a_minute(sql_env):
    with FakeServer(player(load("bundled", split="test"))) as server:
        code, _, _ = sql_env(*chat(server, "--no-floor", "--rpm", 600, "--workers", 8, n=4))
    gaps = [b - a for a, b in zip(server.times, server.times[1:])]
    assert code == 0 and min(gaps) > 0.05, "a tenth of a second, as far as the clock of a server is exact"


def test_a_limit_without_end_is_given_up():
    with FakeServer([fault(429, "slow down", retry_after="0")]) as server:
        policy = ChatPolicy("m", server.url, max_wait=1.0)
        with pytest.raises(EndpointError, match="rpm"):
            in_time(lambda: policy.backend.complete([dict(role="user", content="x")], [])) and None
            policy.backend.complete([dict(role="user", content="x")], [])
    assert server.calls < 40


# ---- 3: the start, and broken replies
def test_a_start_that_fails_leaves_no_log(sql_env, tmp_path):
    with FakeServer([FAULTS["key"]]) as server:
        assert sql_env(*chat(server, "--log", "kept"))[0] == 2
        with pytest.raises(EndpointError):
            evaluate(one(), ChatPolicy("m", server.url), log=tmp_path / "b.jsonl", progress=False)
    assert not list(tmp_path.rglob("*.jsonl")), "a log with a header alone"


HALF = "It is \ud83d about visits."


@pytest.mark.parametrize(
    "first",
    [
        message([("query", dict(sql=GOLD))]) | dict(content=HALF),
        message([("query", dict(sql=GOLD))]) | dict(reasoning_content=HALF),
        message([("query", dict(sql=GOLD))]) | dict(reasoning_details=[dict(type="text", text=HALF)]),
        message([("query", dict(sql=f"{GOLD} -- \ud83d"))]),
        message([("query", f'{{"sql": "{GOLD} -- \ud83d"}}')]),
    ],
)
def test_half_a_character_of_a_model_crashes_nothing(first, tmp_path):
    with FakeServer([[("query", {})], first, [("answer", dict(value="@last"))]]) as server:
        policy = ChatPolicy("m", server.url, max_retries=0)
        result = evaluate(one(), policy, log=tmp_path / "a.jsonl", progress=False)
    assert result.success_rate == 1 and result.usage["retries"] == 0
    _, (played,) = read_log(tmp_path / "a.jsonl")
    json.dumps(played.to_dict(), ensure_ascii=False).encode(), "every text of a log can be written"


def test_a_log_never_holds_half_a_character(tmp_path):
    log = EpisodeLog(tmp_path / "a.jsonl", {"policy": "x"})
    log.append(Trajectory(EpisodeResult(0, "q", error="E: \ud83d, 😀"), {}, []))
    assert read_log(log.path)[1][0].episode.error == "E: ?, 😀"


def test_advice_fits_the_error():
    error = UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
    explained = _explain_error(error, "m at host")
    assert "running" not in str(explained) and "options" in explained.advice
    assert _error_kind(None, "", "TypeError") not in ("server", "address", "timeout")
    assert "running" in _explain_error(ConnectionResetError(), "m at host").advice


# ---- 4: an order that can stop early
def test_each_beginning_of_a_plan_is_a_fair_sample_of_databases():
    env = EpisodeEnv(bundled())
    total = Counter(q.database_name for q in bundled())
    for seed in range(3):
        names = [bundled().get(p.reset["question_id"]).database_name for p in plan_episodes(env, None, seed)]
        for n in (12, 24, 60, 200):
            counts = Counter(names[:n])
            for name, size in total.items():
                assert abs(counts[name] - n * size / len(names)) <= 1, (seed, n, name)


def test_an_interval_of_one_database_says_so(sql_env):
    code, out, _ = sql_env("evaluate", "--policy", "oracle", "-n", 1, "--no-floor")
    assert code == 0 and "one says nothing about others" in out


# ---- 5: compare
def result(policy, rights, seed=0, budget=15, **settings):
    "A result of questions q0, q1 ...; a list of lists has several tries of each."
    tries = [x if isinstance(x, list) else [x] for x in rights]
    episodes = []
    for epoch in range(len(tries[0])):
        for i, right in enumerate(tries):
            index = len(episodes)
            episodes.append(made_row(index, f"q{i}", right[epoch], hashes={"gold": f"g{i}"}, database=f"d{i % 3}"))
    return EvaluationResult(policy, episodes, dict(seed=seed, budget=budget, **settings))


def test_pairs_are_of_the_same_question_and_try():
    a = result("a", [1, 0, 1, 1, 0, 1])
    shuffled = [replace(e, episode_index=5 - e.episode_index) for e in a.episodes]
    b = EvaluationResult("b", shuffled, dict(seed=3, budget=6))
    found = compare(a, b)
    assert (found.n, found.difference, found.gained, found.lost) == (6, 0, (), ())
    assert "seed (0, 3)" in found.differs and "budget (15, 6)" in found.differs
    assert any("seed (0, 3)" in note for note in found.notes)
    twice = compare(result("a", [[1, 0], [0, 0]]), result("b", [[1, 1], [0, 1]]))
    assert (twice.n, twice.difference) == (4, 0.5)


def test_a_difference_of_version_and_model_is_named():
    a = result("m", [1, 0], sql_env="0.1", policy_settings=dict(model="x", temperature=0))
    b = result("m", [1, 0], sql_env="0.2", policy_settings=dict(model="y", temperature=0, top_p=1))
    assert set(compare(a, b).differs) == {"sql_env (0.1, 0.2)", "model (x, y)"}


def test_one_pair_is_no_interval_and_no_sentence_of_another_package():
    for tries in (1, 2, 5):
        a, b = result("a", [[0] * tries]), result("b", [[1] * tries])
        found = compare(a, b)
        assert found.low != found.low and "no interval" in str(found) and "nan" not in str(found)
        assert found.p_value == 1 and any("the same gold query" in note for note in found.notes)


def test_the_interval_of_no_difference_is_explained():
    a = result("a", [1, 0, 1, 1, 0, 1])
    found = compare(a, a)
    assert found.low == -found.high and any("what so many gold queries leave possible" in n for n in found.notes)


def test_several_results_are_compared_with_a_correction(sql_env, tmp_path):
    from sql_env.evaluation.results import compare_all, holm

    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.9]) == [1, 1] and holm([]) == []
    found = compare_all([result(n, r) for n, r in dict(a=[1] * 9, b=[0] * 9, c=[1] * 8 + [0]).items()])
    assert [c.names for c in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert all(c.p_holm >= c.p_value for c in found) and found[0].p_holm == 3 * found[0].p_value
    args = ["evaluate", "-n", 12, "--no-floor", "--log"]
    for seed in (0, 3):
        assert sql_env(*args, tmp_path / f"s{seed}", "--seed", seed, "--policy", "greedy")[0] == 0
    files = [tmp_path / f"s{seed}" / "greedy.jsonl" for seed in (0, 0, 3)]
    code, out, _ = sql_env("compare", *files)
    assert code == 0 and out.count("Holm") == 3 and "seed (0, 3)" in out and "greedy@s0#2" in out and "greedy@s3" in out
    assert sql_env("compare", files[0])[0] == 2


@pytest.mark.parametrize("name, off", [("talks", 2), ("wanders", 4), ("plans", 2)])
def test_estimates_are_within_two_times(name, off):
    "On 90d960bd what a run told at its start stayed: 0.27 times what a small model took that uses up its steps."
    found = estimates(name)
    assert all(1 / off < ratio < off for ratio in found["at_start"]), found
    assert all(0.5 < ratio < 2 for ratio in found["after_three"]), found


# ---- 6: one run per log, and files that are whole
def test_two_runs_do_not_share_a_log(tmp_path, sql_env):
    log = tmp_path / "kept" / "m.jsonl"
    with FakeServer(player(load("bundled", split="test"))) as server:
        args = chat(server, "--no-floor", "--log", "kept", n=5)
        assert sql_env(*args)[0] == 0
        calls, before = server.calls, log.read_bytes()
        about, _ = read_log(log)
        holder = EpisodeLog(log, about)
        code, _, err = sql_env(*args)
        assert code == 2 and "another run" in err and server.calls == calls
        assert log.read_bytes() == before and len(read_log(log)[1]) == 5, "it can be read meanwhile"
        holder.close()
        assert sql_env(*args)[0] == 0


KILLED = """
import os, sys, time
from sql_env.evaluation.logs import EpisodeLog
log = EpisodeLog(sys.argv[1], {"policy": "x"})
there, here = os.pipe()
if os.fork() == 0:
    os.write(here, b"x")
    time.sleep(30)  # a worker that outlives its run
    os._exit(0)
os.read(there, 1)
print("held", flush=True)
time.sleep(30)
"""


def test_a_killed_run_leaves_no_lock(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "a.jsonl")],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "held\n"
    with pytest.raises(ValueError, match="another run"):
        EpisodeLog(tmp_path / "a.jsonl", {"policy": "x"})
    process.kill()
    process.wait()
    with EpisodeLog(tmp_path / "a.jsonl", {"policy": "x"}) as log:
        log.append(Trajectory(EpisodeResult(0, "q"), {}, []))
    os.killpg(process.pid, signal.SIGKILL)


def test_merging_is_whole_or_nothing(tmp_path, monkeypatch):
    qs = bundled().sample(6)
    parts = [tmp_path / f"{i}.jsonl" for i in (1, 2)]
    for i, part in enumerate(parts, 1):
        evaluate(qs, RandomPolicy(), log=part, shard=(i, 2), progress=False)
    out = merge_logs(parts, tmp_path / "whole.jsonl")
    whole = out.read_bytes()

    def full(self, data):
        with open(self, "wb") as file:
            file.write(data[:50])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    monkeypatch.setattr("pathlib.Path.write_text", lambda self, text, **_: full(self, text.encode()))
    with pytest.raises(OSError):
        merge_logs(parts, out)
    assert out.read_bytes() == whole
    assert {p.name for p in tmp_path.iterdir()} == {"1.jsonl", "2.jsonl", "whole.jsonl"}


# ---- 7: Ctrl-C, and a full disk
@pytest.mark.slow
def test_two_quick_interrupts_print_the_table_and_end_at_once(tmp_path):
    good, hung = player(load("bundled", split="test")), threading.Event()

    def script(body):
        return slow(good(body), 60) if server.calls > 13 else good(body)

    with FakeServer(script) as server:
        process = start(tmp_path, *chat(server, "--no-floor", "--workers", 4, n=60))
        wait_until(lambda: server.calls > 13 and server.in_flight == 4)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        out, err = process.communicate(timeout=120)
    hung.set()
    assert process.returncode == 130 and "Traceback" not in out + err
    assert "interrupted" in out and "100.0%" in out and "The same command goes on" in out


def test_a_full_disk_says_what_was_kept_and_how_to_go_on(monkeypatch, sql_env, tmp_path):
    written, real = [0], os.write

    def limited(fd, data):
        "A disk that takes the header, four episodes, and a part of the fifth."
        if b'"episode": {' in bytes(data):
            written[0] += 1
            if written[0] == 5:
                return real(fd, bytes(data)[:100])
        if written[0] >= 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    with FakeServer(player(load("bundled", split="test"))) as server:
        args = chat(server, "--no-floor", "--log", "kept")
        monkeypatch.setattr("os.write", limited)
        code, out, err = sql_env(*args)
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        assert code == 1 and "No space left" in out and "Traceback" not in out + err
        assert "keeps the 4 episodes" in " ".join(out.split()) and "The same command goes on" in out
        log = tmp_path / "kept" / "m.jsonl"
        assert log.read_bytes().endswith(b"\n") and len(read_log(log)[1]) == 4
        calls = server.calls
        assert sql_env(*args)[0] == 0 and server.calls - calls == 1 + 2 * 6, "a probe, and six episodes"


@pytest.mark.slow
def test_a_file_that_may_not_grow_keeps_whole_lines(tmp_path):
    "The same by the limit of a real system, with a part of a line written."
    with FakeServer(player(load("bundled", split="test"))) as server:
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))  # noqa: E731
        args = chat(server, "--no-floor", "--log", "kept", n=40)
        process = start(tmp_path, *args, preexec_fn=limit)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 1 and "Traceback" not in out + err
        assert "can't be written" in out and "The same command goes on" in out
        kept = len(read_log(tmp_path / "kept" / "m.jsonl")[1])
        assert 0 < kept < 40
        process = start(tmp_path, *args)
        process.communicate(timeout=60)
        assert process.returncode == 0 and len(read_log(tmp_path / "kept" / "m.jsonl")[1]) == 40


def test_a_cache_that_cant_be_written_costs_no_episode(tmp_path):
    (tmp_path / "file").write_text("")
    with FakeServer(player(bundled())) as server:
        policy = ChatPolicy("m", server.url, cache=tmp_path / "file" / "cache")
        assert evaluate(one(), policy, progress=False).success_rate == 1


# ---- 8: the model that was asked for, its words, and advice
def test_a_model_that_is_named_plays(sql_env):
    with FakeServer(player(load("bundled", split="test"))) as server:
        where = ["--model", "m", "--base-url", server.url, "-n", 3, "--no-floor"]
        code, out, _ = sql_env("evaluate", *where)
        assert code == 0 and server.calls == 7 and "random" not in out
        code, _, err = sql_env("evaluate", *where, "--policy", "greedy")
        assert code == 2 and "--policy chat" in " ".join(err.split()) and server.calls == 7
        code, _, err = sql_env("evaluate", "--base-url", server.url, "-n", 3)
        assert code == 2 and "--model" in err


def test_a_model_that_makes_no_call_is_told_before_the_run(sql_env):
    with FakeServer(["I would look at the tables."]) as server:
        code, out, err = sql_env(*chat(server, "--no-floor", n=2))
        assert code == 0 and "the tools are seen, it made no call (--shots 1 may help)" in err
        assert server.calls == 2 + 2 * 4


def test_a_log_has_the_models_sql_as_it_was_written(tmp_path):
    sql = "SELECT count(*) FROM visit a, visit b WHERE a.id<b.id AND a.x<|im_end|>"
    with FakeServer([[("query", {})], [("query", dict(sql=sql))], [("answer", dict(value="1"))]]) as server:
        evaluate(one(), ChatPolicy("m", server.url), log=tmp_path / "a.jsonl", progress=False)
    _, (played,) = read_log(tmp_path / "a.jsonl")
    (call,) = played.messages[2]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == dict(sql=sql)
    assert played.turns[0].action.argument == sql and "received" not in played.calls[0]
    sent = json.dumps(server.bodies[2]["messages"][2]["tool_calls"], ensure_ascii=False)
    assert "<|im_end|>" not in sent and "<¦|im_end|>" in sent, "what the model reads stays escaped"


# ---- 9: what is played, and the floor
def test_the_test_split_is_played_and_named(sql_env):
    code, out, _ = sql_env("evaluate", "--source", "worlds", "--policy", "oracle", "-n", 12, "--no-floor")
    assert code == 0 and "test" in out.split("\n")[0] and "train" not in out
    code, out, _ = sql_env("evaluate", "--policy", "oracle", "-n", 12, "--no-floor")
    assert "bundled, split test: 96 questions" in out
    code, out, _ = sql_env("evaluate", "--split", "all", "--policy", "oracle", "-n", 12, "--no-floor")
    assert "splits" in out and "train" in out.split("\n")[0] and "384 questions" in out


def test_the_floor_is_measured_on_the_same_sample(sql_env, monkeypatch):
    from sql_env.evaluation import harness

    played: list[tuple] = []
    original = harness.evaluate

    def noted(env, policy, *args, **options):
        found = original(env, policy, *args, **options)
        played.append((policy.name, [e.question_id for e in found.episodes]))
        return found

    monkeypatch.setattr(harness, "evaluate", noted)
    assert sql_env("evaluate", "-n", 10, "--seed", 4, "--policy", "greedy")[0] == 0
    (_, sample), *hacks = played
    assert len(sample) == 10 and len(hacks) > 10 and all(ids == sample for _, ids in hacks)
    assert "Hack floor" not in sql_env("evaluate", "-n", 10, "--policy", "greedy", "--no-floor")[1]


# ---- 10: what it will cost, and what it means
def test_cost_and_time_are_estimated_before_the_run(sql_env):
    with FakeServer(player(load("bundled", split="test"))) as server:
        args = chat(server, "--no-floor", "--log", "kept", "--price", 1000, 1000, "--workers", 4)
        code, out, err = sql_env(*args)
        assert code == 0 and "the tools are seen, a call is read; usage is told" in err
        assert "\n10 episodes, about " in err and "dollars" in err and "guess" in err
        args[args.index("-n") + 1] = 20
        code, _, err = sql_env(*args, "--max-cost", 3)
        assert code == 1 and "10 episodes, about 2,000 tokens in and 200 out, 2.20 dollars" in err
        assert "as the episodes so far" in err and "max_cost 3 ends it after" not in err
        assert "as the episodes" not in sql_env(*args, "--json", "--max-cost", 3)[2]


def test_the_end_of_a_run_says_what_its_numbers_mean_and_what_is_next(sql_env):
    with FakeServer(player(load("bundled", split="test"))) as server:
        code, out, _ = sql_env(*chat(server, "--log", "kept", n=6))
    lines = out.rstrip().split("\n")[-5:]
    assert code == 0 and [line.split(":")[0] for line in lines] == ["interval", "grounded", "robust", "floor", "next"]
    assert all(len(line) <= 80 for line in lines) and lines[-1] == "next: sql_env view kept/m.jsonl"


# ---- 11: the command
def test_the_help_shows_first_what_most_need(sql_env):
    _, out, _ = sql_env("evaluate", "--help")
    first = out.split("╰")[0]
    wanted = ["--source", "--split", "-n", "--policy", "--model", "--base-url", "--workers"]
    wanted += ["--max-cost", "--log", "--out"]
    assert [name for name in wanted if name not in first] == [] and "--temperature" not in first
    assert len(re.findall(r"^│ +-\S+ +<", first, re.M)) == 11 and "--rpm" in out, "and --help"


def test_a_run_without_episodes_still_has_a_log(tmp_path):
    "The last of many shards may have none."
    qs = bundled().sample(2)
    for i in (1, 2, 3):
        evaluate(qs, GreedyPolicy(), log=tmp_path / f"{i}.jsonl", shard=(i, 3), progress=False)
    merged = merge_logs([tmp_path / f"{i}.jsonl" for i in (1, 2, 3)], tmp_path / "all.jsonl")
    assert len(read_log(merged)[1]) == 2
