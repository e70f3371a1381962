"What a person with a key meets: caps, rate limits, broken replies, two runs at once, Ctrl-C, a full disk, advice."

import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor

import pytest
from made_rows import made_row

pytest.importorskip("openai", reason="openai is not installed: pip install 'sql_env[openai]'")

from fake_server import FAULTS, FakeServer, fault, message, player, slow
from made_sets import bundled
from made_sets import held_out as questions
from tables import cases

from sql_env import ChatPolicy, EpisodeEnv, load
from sql_env.cli.app import ModelOptions
from sql_env.evaluation import EvaluationResult, RunStopped, compare, evaluate, harness
from sql_env.evaluation.logs import EpisodeLog, read_log
from sql_env.evaluation.results import holm
from sql_env.evaluation.rollouts import plan_episodes
from sql_env.evaluation.rows import Trajectory
from sql_env.policies.requests import EndpointError, _error_kind, explain_error

ID = "vet_clinic-02"
GOLD = "SELECT count(*) FROM visit WHERE paid_on IS NULL"
NO_SPACE = errno.ENOSPC, os.strerror(errno.ENOSPC)


def one():
    return bundled().with_questions([bundled().get(ID)], [])


def chat(server, *args, n=10):
    where = ["--policy", "chat", "--model", "m", "--base-url", server.url]
    return ["evaluate", "--split", "test", *where, "-n", n, *args]


def in_time(function):
    "Fails if a function hangs or raises something."
    ended = []
    thread = threading.Thread(target=lambda: ended.append(function()), daemon=True)
    thread.start()
    thread.join(20)
    assert ended, "it hangs"


def priced(server, **options):
    return ChatPolicy("m", server.url, price=(1000, 1000), **options)  # 0.22 for an episode


@pytest.fixture
def server():
    "One that plays the bundled questions of the test split right."
    with FakeServer(player(load("bundled", split="test"))) as server:
        yield server


def test_a_run_that_a_cap_stopped_does_not_hang_when_it_resumes(tmp_path, server):
    ended = []

    def run():
        options = dict(log=tmp_path / "a.jsonl", max_cost=0.5, progress=False)
        with pytest.raises(RunStopped, match="max_cost") as e, ThreadPoolExecutor(8) as pool:
            evaluate(questions(), priced(server), executor=pool, **options)
        ended.append((e.value.result.n_completed, server.calls))

    for _ in range(3):
        in_time(run)
    assert len(set(ended)) == 1


@pytest.mark.parametrize("workers", [1, 8])
def test_a_cap_is_not_overspent_whatever_is_under_way(workers, server):
    with ThreadPoolExecutor(workers) as pool:
        policy = priced(server)
        for cap, n in ((dict(max_cost=1.2), 5), (dict(max_tokens=1000), 4)):
            with pytest.raises(RunStopped, match=next(iter(cap))) as e:
                evaluate(questions(), policy, executor=pool, **cap, progress=False)
            assert e.value.result.n_completed == n and e.value.result.usage["cost"] <= 1.2


def test_what_crashed_episodes_cost_counts_against_the_cap(tmp_path):
    log, good = tmp_path / "a.jsonl", player(questions())

    def ill(body):
        return good(body) if len(body["messages"]) < 4 else fault(503)

    with FakeServer(ill) as server:
        policy = priced(server, max_retries=0)
        assert evaluate(questions(), policy, 3, log=log, progress=False).n_completed == 0
        server.script = good
        with pytest.raises(RunStopped) as e:
            evaluate(questions(), policy, 3, log=log, max_cost=0.6, progress=False)
        assert e.value.result.n_completed == 1, "0.33 went into episodes that crashed"


def test_a_cap_without_a_price_is_refused_with_what_to_do(sql_env, server):
    with pytest.raises(ValueError, match=r"--price 0.25 2.*max_tokens \(--max-tokens-total\)"):
        evaluate(one(), ChatPolicy("m", server.url), max_cost=1, progress=False)
    code, _, err = sql_env(*chat(server, "--max-cost", 1))
    assert code == 2 and "--price" in err and server.calls == 0


def test_prices_of_known_models_are_used_at_their_own_server_only(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    for name in ("gpt-5-mini", "gpt-5-mini-2025-08-07"):
        assert ChatPolicy(name).price == (0.25, 2, 0.025)
    assert ChatPolicy("anthropic/claude-sonnet-4-5-20250929").price == (3, 15, 0.3)
    assert ChatPolicy("gpt-5-mini", "http://127.0.0.1:9/v1").price is ChatPolicy("a-new-model").price is None
    assert ChatPolicy("gpt-5-mini", price=(1, 2)).price == (1, 2)


def test_a_rate_limit_loses_no_episode():
    "Ten requests in half a second, four episodes at once: the client waits as long as the server asks."
    script, times, lock, refused = player(questions()), deque(), threading.Lock(), []

    def limited(body):
        with lock:
            now = time.monotonic()
            while times and now - times[0] > 0.5:
                times.popleft()
            if len(times) >= 10:
                refused.append(now)
                return fault(429, "Rate limit reached for requests.", retry_after="0.3")
            times.append(now)
        return script(body)

    with FakeServer(limited) as server, ThreadPoolExecutor(4) as pool:
        result = evaluate(questions(), ChatPolicy("m", server.url), executor=pool, progress=False)
    assert result.n_completed == 20 and result.success_rate == 1 and refused
    assert result.usage["retries"] == len(refused)


@pytest.mark.parametrize(
    "model, key_var, url",
    [
        ("gpt-5-mini", "OPENAI_API_KEY", "https://api.openai.com/v1/"),
        ("anthropic/claude-x", "ANTHROPIC_API_KEY", "https://api.anthropic.com/v1/"),
        ("google/gemini-x", "GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1beta/openai/"),
    ],
)
def test_a_name_chooses_address_and_key_and_what_comes_in_a_call_goes_back(model, key_var, url, monkeypatch):
    "Gemini refuses a conversation whose calls lack their signature."
    monkeypatch.delenv(key_var, raising=False)
    with pytest.raises(ValueError, match=f"set {key_var}"):
        ChatPolicy(model).probe()
    monkeypatch.setenv(key_var, "sk-own")
    sql, signature = dict(sql=GOLD), dict(google=dict(thought_signature="c2lnbmVk"))
    said = message([("query", sql)])
    said["tool_calls"][0]["extra_content"] = signature
    with FakeServer([[("describe", {})], said, [("answer", dict(value="@last"))]]) as server:
        policy = ChatPolicy(model, max_tokens=50, reasoning_effort="low", thinking=dict(type="enabled"))
        endpoint = policy.backend
        assert (endpoint.address, endpoint.name, endpoint.host) == (url, model, url.split("/")[2])
        path = url.removeprefix(f"https://{endpoint.host}")
        endpoint.address, own = server.url.removesuffix("/v1") + path, endpoint.host
        assert evaluate(one(), policy, progress=False).success_rate == 1
    assert server.paths == [f"{path}chat/completions"] * 3
    assert {h["authorization"] for h in server.headers} == {"Bearer sk-own"}
    body = server.bodies[-1]
    assert (body["model"], body["max_tokens"]) == (model.split("/")[-1], 50) and own != endpoint.host
    assert (body["reasoning_effort"], body["thinking"], len(body["tools"])) == ("low", dict(type="enabled"), 4)
    system, user, call, told = body["messages"]
    (called,) = call["tool_calls"]
    assert called["extra_content"] == signature and called["id"] == told["tool_call_id"]
    assert json.loads(called["function"]["arguments"]) == sql


def test_openai_gets_its_own_name_for_the_limit_of_tokens(monkeypatch):
    with FakeServer(["Hm."]) as server:
        policy = ChatPolicy("gpt-5-mini", server.url, "k", max_tokens=50)
        monkeypatch.setattr(type(policy.backend), "host", "api.openai.com")
        policy.backend.complete([], [])
    assert server.bodies[0]["max_completion_tokens"] == 50 and "max_tokens" not in server.bodies[0]


def test_options_of_the_command_reach_the_request(monkeypatch):
    monkeypatch.setenv("MINE", "sk-mine")
    model = dict(key_var="MINE", timeout=7, max_retries=1, price=(1, 2), cached_price=0.1)
    asked, option = dict(reasoning_effort="low", max_tokens=9), ["top_p=0.5", "stop=END", "metadata={}"]
    with FakeServer(["Hello."]) as server:
        (policy,) = ModelOptions(["m"], server.url, option=option, **model, **asked).make_policies()
        policy.backend.complete([], [])
    sent, told = server.bodies[0], asked | dict(top_p=0.5, stop="END", metadata={})
    assert server.headers[0]["authorization"] == "Bearer sk-mine" and policy.price == (1, 2, 0.1)
    assert {k: sent[k] for k in told} == told
    assert (policy.backend.timeout, policy.backend.max_retries) == (7, 1)


def test_mistakes_in_options_say_what_to_do(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for options, said in cases("with_a_key_mistakes"):
        model = [options.pop("model", "m")]
        with pytest.raises(ValueError, match=said):
            ModelOptions(**dict(model=model, base_url="http://localhost/v1") | options).make_policies()
    with pytest.raises(ValueError, match="starts with http"):
        ChatPolicy("m", "localhost:8000/v1")


def test_a_start_that_fails_leaves_no_log(sql_env, tmp_path):
    with FakeServer([FAULTS["key"]]) as server:
        assert sql_env(*chat(server, "--log", "kept"))[0] == 2
        with pytest.raises(EndpointError):
            evaluate(one(), ChatPolicy("m", server.url), log=tmp_path / "b.jsonl", progress=False)
    assert not list(tmp_path.rglob("*.jsonl")), "a log with a header alone"


HALF = "It is \ud83d about visits."


BESIDE = dict(content=HALF), dict(reasoning_content=HALF), dict(reasoning_details=[dict(type="text", text=HALF)])
SAID = [(dict(sql=GOLD), beside) for beside in BESIDE]
SAID += [(dict(sql=f"{GOLD} -- \ud83d"), {}), (f'{{"sql": "{GOLD} -- \ud83d"}}', {})]


@pytest.mark.parametrize("called, beside", SAID)
def test_half_a_character_of_a_model_crashes_nothing(called, beside, tmp_path):
    first = message([("query", called)]) | beside
    with FakeServer([[("query", {})], first, [("answer", dict(value="@last"))]]) as server:
        policy = ChatPolicy("m", server.url, max_retries=0)
        result = evaluate(one(), policy, log=tmp_path / "a.jsonl", progress=False)
    assert result.success_rate == 1 and result.usage["retries"] == 0
    _, (played,) = read_log(tmp_path / "a.jsonl")
    assert played.model_dump_json(), "every text of a log can be written"


def test_advice_fits_the_error():
    explained = explain_error(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), "m at host")
    assert "running" not in str(explained) and "options" in explained.advice
    assert _error_kind(None, "", "TypeError") not in ("server", "address", "timeout")
    assert "running" in explain_error(ConnectionResetError(), "m at host").advice


def test_each_beginning_of_a_plan_is_a_fair_sample_of_databases():
    env = EpisodeEnv(bundled())
    total = Counter(q.database_name for q in bundled())
    for seed in range(3):
        names = [bundled().get(p.reset["question_id"]).database_name for p in plan_episodes(env, None, seed)]
        for n in (12, 24, 60, 200):
            counts = Counter(names[:n])
            for name, size in total.items():
                assert abs(counts[name] - n * size / len(names)) <= 1, (seed, n, name)


def result(policy, rights, seed=0, budget=15, **settings):
    "A result of questions q0, q1 ...; a list of lists has several tries of each."
    tries = [x if isinstance(x, list) else [x] for x in rights]
    episodes = []
    for epoch in range(len(tries[0])):
        for i, right in enumerate(tries):
            index = len(episodes)
            episodes.append(made_row(index, f"q{i}", right[epoch], hashes={"gold": f"g{i}"}, database=f"d{i % 3}"))
    return EvaluationResult(policy, episodes, dict(policy=policy, seed=seed, budget=budget, **settings))


def test_pairs_are_of_the_same_question_and_try():
    a = result("a", [1, 0, 1, 1, 0, 1])
    shuffled = [e.model_copy(update=dict(episode_index=5 - e.episode_index)) for e in a.episodes]
    b = EvaluationResult("b", shuffled, dict(seed=3, budget=6))
    found = compare(a, b)
    assert (found.n, found.difference, found.gained, found.lost) == (6, 0, (), ())
    assert "seed (0, 3)" in found.differs and "budget (15, 6)" in found.differs
    assert any("seed (0, 3)" in note for note in found.notes)
    assert any("what so many gold queries leave possible" in n for n in found.notes) and found.low == -found.high
    twice = compare(result("a", [[1, 0], [0, 0]]), result("b", [[1, 1], [0, 1]]))
    assert (twice.n, twice.difference) == (4, 0.5)


def test_a_difference_of_version_and_model_is_named():
    a = result("m", [1, 0], sql_env="0.1", policy_settings=dict(model="x", temperature=0))
    b = result("m", [1, 0], sql_env="0.2", policy_settings=dict(model="y", temperature=0, top_p=1))
    assert set(compare(a, b).differs) == {"sql_env (0.1, 0.2)", "model (x, y)"}
    base = result("a", [1, 0], policy_settings=dict(model="a", temperature=0))
    for name, temperature, differs in (("b", 0, ()), ("b", 1, ("temperature (0, 1)",)), ("a", 0, ("model (a, b)",))):
        other = result(name, [1, 0], policy_settings=dict(model="b", temperature=temperature))
        assert compare(base, other).differs == differs, "models may differ where the names of policies do"


def test_one_pair_is_no_interval_and_no_sentence_of_another_package():
    for tries in (1, 2, 5):
        a, b = result("a", [[0] * tries]), result("b", [[1] * tries])
        found = compare(a, b)
        assert found.low != found.low and "no interval" in str(found) and "nan" not in str(found)
        assert found.p_value == 1 and any("the same gold query" in note for note in found.notes)


def test_several_results_are_compared_with_a_correction(sql_env, tmp_path):
    assert holm([0.9, 0.9]) == [1, 1] and holm([]) == []
    args = ["evaluate", "-n", 12, "--no-floor", "--log"]
    for seed in (0, 3, 5):
        assert sql_env(*args, tmp_path / f"s{seed}", "--seed", seed, "--policy", "greedy")[0] == 0
    files = [tmp_path / f"s{seed}" / "greedy.jsonl" for seed in (0, 3, 5)]
    code, out, _ = sql_env("compare", *files)
    assert code == 0 and out.count("Holm") == 3 and "seed (0, 3)" in out and "greedy@s3" in out
    assert sql_env("compare", files[0])[0] == 2


def test_two_runs_do_not_share_a_log(tmp_path, sql_env, server):
    log = tmp_path / "kept" / "m.jsonl"
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
    command = [sys.executable, "-c", KILLED, str(tmp_path / "a.jsonl")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout.readline() == "held\n"
    with pytest.raises(ValueError, match="another run"):
        EpisodeLog(tmp_path / "a.jsonl", {"policy": "x"})
    process.kill()
    process.wait()
    with EpisodeLog(tmp_path / "a.jsonl", {"policy": "x"}) as log:
        log.append(Trajectory(episode_index=0, question_id="q"))
    os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_two_quick_interrupts_print_the_table_and_end_at_once(tmp_path, server):
    good = server.script
    server.script = lambda body: slow(good(body), 60) if server.calls > 13 else good(body)
    # Ctrl-C reaches it even if the tests run in the background of a shell
    command = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-c", f"{command}from sql_env.cli import main; main()"]
    command += map(str, chat(server, "--no-floor", "--workers", 4, n=60))
    process = subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 180
    while not (server.calls > 13 and server.in_flight == 4):
        assert time.monotonic() < end
        time.sleep(0.02)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in out + err
    assert "interrupted" in out and "100.0%" in out and "The same command goes on" in out


def test_a_full_disk_says_what_was_kept_and_how_to_go_on(monkeypatch, sql_env, tmp_path, server):
    written, real = [0], os.write

    def limited(fd, data):
        "A disk that takes the header, four episodes, and a part of the fifth."
        if b'"episode_index":' in bytes(data):
            written[0] += 1
            if written[0] == 5:
                return real(fd, bytes(data)[:100])
        if written[0] >= 5:
            raise OSError(*NO_SPACE)
        return real(fd, data)

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


def test_a_model_that_is_named_plays(sql_env, server):
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


def test_the_test_split_is_played_and_named_and_one_database_is_no_interval(sql_env):
    play = ["evaluate", "--policy", "oracle", "--no-floor", "-n"]
    code, out, _ = sql_env(*play, 12, "--source", "worlds")
    assert code == 0 and "test" in out.split("\n")[0] and "train" not in out
    code, out, _ = sql_env(*play, 1)
    assert code == 0 and "bundled, split test: 96 questions" in out and "one says nothing about others" in out
    code, out, _ = sql_env(*play, 12, "--split", "all")
    assert "splits" in out and "train" in out.split("\n")[0] and "384 questions" in out


def test_the_floor_is_measured_on_the_same_sample(sql_env, monkeypatch):
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


def test_the_end_of_a_run_says_what_its_numbers_mean_and_what_is_next(sql_env, server):
    code, out, _ = sql_env(*chat(server, "--log", "kept", n=6))
    lines = out.rstrip().split("\n")[-5:]
    assert code == 0 and [line.split(":")[0] for line in lines] == ["interval", "grounded", "robust", "floor", "next"]
    assert all(len(line) <= 80 for line in lines) and lines[-1] == "next: sql_env view kept/m.jsonl"


def test_the_help_shows_first_what_most_need(sql_env):
    _, out, _ = sql_env("evaluate", "--help")
    first = out.split("╰")[0]
    wanted = "--source --split -n --policy --model --base-url --workers --max-cost --log --out".split()
    assert [name for name in wanted if name not in first] == [] and "--temperature" not in first
    assert len(re.findall(r"^│ {1,13}-\S+ ", first, re.M)) == 11 and "--max-retries" in out, "and --help"
