"The language-model policy: conversations by hand, a server that misbehaves as scripted, a local model, a real server."

import contextlib
import copy
import json
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_server import FakeServer, completion, fault, message
from hypothesis import given
from hypothesis import strategies as st
from laws import json_values, law
from tables import cases

pytest.importorskip("openai", reason="openai is not installed: pip install 'sql_env[openai]'")
from made_rows import replay_problems
from made_sets import bundled

from sql_env import EpisodeEnv, OraclePolicy, load
from sql_env.evaluation import RunStopped, compare, evaluate, load_result, read_log, results_markdown
from sql_env.evaluation.rows import Trajectory
from sql_env.paths import BUNDLED
from sql_env.play import Action, Observation
from sql_env.play.acts import SCHEMA_LEVELS
from sql_env.play.chat import InvalidToolCall, initial_messages, parse_tool_call, tool_schemas
from sql_env.play.session import TRUNCATED_MESSAGE, _nudge_text
from sql_env.policies import Completion, Endpoint, ModelError, RolloutAborted, chat, play_episode
from sql_env.policies.chat import ChatPolicy
from sql_env.policies.local import (
    MODEL_SETTINGS_FILE,
    CachedWriter,
    LocalModel,
    _generate_batch,
    _shared_length,
    load_model_settings,
    parse_assistant_text,
)
from sql_env.policies.requests import EndpointError

ID, KEY = "vet_clinic-02", "sk-secret-0123456789"
GOLD = "SELECT count(*) FROM visit WHERE paid_on IS NULL"
GOOD = [[("describe", {"table_name": "visit"})], [("query", {"sql": GOLD})], [("answer", {"value": "@last"})]]


def one():
    return bundled().filter(question_id=ID)


@pytest.fixture
def waits(monkeypatch):
    "The seconds that a client would wait between its requests; it does not."
    seconds = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


class Unprobed(ChatPolicy):
    "Its first request is that of the first episode, so that a script's first line is, too; test_wire probes."

    def probe(self):
        pass


class Server(FakeServer):
    def policy(self, **options):
        return Unprobed("m", self.url, KEY, **dict(timeout=30, max_retries=2) | options)


def test_a_plain_episode_and_what_it_cost():
    with Server(GOOD) as server:
        r = evaluate(one(), server.policy(price=(1.0, 10.0, 0.1)), progress=False)
    e = r.episodes[0]
    assert e.correct and e.grounded and e.robust and e.steps == 3
    used = dict(calls=3, prompt_tokens=300, completion_tokens=30, cached_tokens=120, retries=0)
    used |= dict(cost=pytest.approx((180 * 1 + 120 * 0.1 + 30 * 10) / 1e6))
    assert {k: v for k, v in e.usage.items() if k != "seconds"} == used
    assert e.usage["seconds"] > 0 and r.usage == e.usage


FAULTS = dict(cases("chat_policy_faults"))  # what the server does, how the episode ends, how often it was asked


@pytest.mark.parametrize("name", FAULTS)
def test_what_can_be_repaired_is_repaired(name, waits):
    script, reason, used = FAULTS[name]
    with Server(script) as server:
        e = evaluate(one(), server.policy(timeout=1 if "hang" in script else 30), progress=False).episodes[0]
    assert (e.error, e.reason, e.correct) == (None, reason, reason == "match"), e
    assert {k: e.usage.get(k, 0) for k in used} == used
    assert "malformed" in used or "nudges" in used or not {"nudges", "malformed", "no_call"} & e.usage.keys()


BROKEN = dict(cases("chat_policy_broken"))
STOPS = ("bad key", "no such model", "bad request", "a web page", "quota")  # what ends the run


@pytest.mark.parametrize("name", BROKEN)
def test_what_can_not_is_the_error_of_the_episode(name, tmp_path, waits):
    line, said, asked = BROKEN[name]
    log = tmp_path / "log.jsonl"
    with Server([line]) as server:
        policy = server.policy(timeout=0.3 if line == "hang" else 30)
        try:
            r, stops = evaluate(one(), policy, progress=False, log=log), False
        except RunStopped as stopped:
            r, stops = stopped.result, True
        seen = len(server.bodies)
    assert stops == (name in STOPS)
    e, log = r.episodes[0], log.read_text()
    assert e.error and re.search(said, e.error), e.error
    assert r.n_completed == 0 and seen == asked and e.usage["calls"] == 1
    assert e.database == "vet_clinic" and KEY not in log and KEY not in str(e)


def test_what_the_model_is_told_and_a_server_s_wait_is_obeyed(waits):
    with Server([fault(429, Retry_After="7"), *GOOD]) as server:
        assert evaluate(one(), server.policy(), progress=False).success_rate == 1
    assert waits == [7]
    unknown = [("query", {"sql": "SELECT nope FROM visit"})]
    with Server(["Hm.", completion("SELECT", "length"), [("look", {}), *GOOD[0]], unknown, *GOOD[1:]]) as server:
        assert evaluate(one(), server.policy(), progress=False).success_rate == 1
        bodies = server.bodies
    last = bodies[-1]["messages"]
    roles = "system user assistant user assistant user assistant tool tool assistant tool assistant tool"
    assert [m["role"] for m in last] == roles.split()
    assert last[3]["content"] == _nudge_text() and last[5]["content"] == TRUNCATED_MESSAGE
    assert re.match(r"{'error': [\"']Tool look not found\.", last[7]["content"])
    assert last[8]["content"].startswith("visit: 847 rows") and "unknown_column" in last[10]["content"]
    ids = [c["id"] for m in last for c in m.get("tool_calls", ())]
    assert ids == [m["tool_call_id"] for m in last if m["role"] == "tool"] and len(set(ids)) == len(ids)
    for before, after in zip(bodies, bodies[1:]):
        assert after["messages"][: len(before["messages"])] == before["messages"], "a cache can keep the start"
    with Server([[("query", '{"sql": "SELE')], *GOOD]) as server:
        evaluate(one(), server.policy(), progress=False)
        sent = [c["function"]["arguments"] for m in server.bodies[-1]["messages"] for c in m.get("tool_calls", ())]
    assert all(isinstance(json.loads(a), dict) for a in sent) and sent[0] == "{}", "what is no JSON does not go back"


def test_the_request_and_its_key_which_no_setting_shows(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    with Server(GOOD) as server:
        policy = Unprobed("m", server.url, temperature=0, max_tokens=50, extra_body={"top_k": 1})
        evaluate(one(), policy, progress=False)
        body, headers = server.bodies[0], server.headers[0]
        assert headers["authorization"] == "Bearer sk-from-the-environment"
        assert (body["model"], body["temperature"], body["max_tokens"], body["top_k"]) == ("m", 0, 50, 1)
        assert [t["function"]["name"] for t in body["tools"]] == ["answer", "describe", "query", "sample"]
        assert "return" not in body["tools"][0]["function"]
        evaluate(one(), server.policy(as_trained=True), progress=False)
        assert server.bodies[3]["tools"] == tool_schemas()
    assert "sk-" not in str(policy.settings) and json.dumps(policy.settings)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ValueError, match="OPENAI_API_KEY"):
        Endpoint("m").complete([], [])
    with Server(GOOD) as server:
        assert evaluate(one(), ChatPolicy("m", server.url), progress=False).success_rate == 1
    policy = ChatPolicy("m", "http://user:password@host:1/v1", KEY, extra_headers={"Authorization": KEY})
    assert policy.settings["server"] == "host:1" and KEY not in str(policy.settings)
    assert "password" not in str(policy.settings)


def oracle_script(body):
    "A model that knows gold: describes a table, queries, answers; it goes by the question in the conversation."
    asked = next(m["content"] for m in body["messages"] if m["role"] == "user").split("\n\n")[0]
    q = next((q for q in bundled() if q.question_text == asked), None)
    if q is None:  # the request before the first episode
        return "yes"
    played = sum(m["role"] == "assistant" for m in body["messages"])
    if q.question_id[-1] in "73" and played == 1:
        return fault(418, "no") if q.question_id[-1] == "7" else "I wonder."
    called = {c["function"]["name"] for m in body["messages"] for c in m.get("tool_calls", ())}
    if "query" in called and body["messages"][-1]["content"][:1] != "{":
        return [("answer", {"value": "@last"})]
    return [("query", {"sql": q.gold_sql}) if played else ("describe", {"table_name": q.tables_involved[0]})]


def bare(r):
    "Episodes without what differs from run to run."
    varies = ("seconds", "cached_tokens")
    return [
        e.model_copy(update=dict(usage={k: v for k, v in e.usage.items() if k not in varies}, calls=[]))
        for e in r.episodes
    ]


THREADS, PROCESSES, NONE = partial(ThreadPoolExecutor, 8), partial(ProcessPoolExecutor, 2), contextlib.nullcontext
POOLS = dict(threads=(THREADS, 1), processes=(PROCESSES, 1), batch=(NONE, 5), batches=(THREADS, 5))


@pytest.mark.parametrize("pool, batch", POOLS.values(), ids=POOLS)
def test_parallel_evaluation_is_the_same(pool, batch):
    some = bundled().split("test").sample(20)
    with Server(oracle_script) as server, pool() as executor:
        policy = server.policy()
        plain = evaluate(some, policy, progress=False)
        other = evaluate(some, policy, progress=False, executor=executor, batch=batch)
    assert bare(plain) == bare(other)
    assert plain.success_rate == 1 and 0 < plain.n_completed < plain.n_episodes == len(some)
    assert plain.usage["nudges"] > 0
    assert compare(plain, other).difference == 0
    there = pickle.loads(pickle.dumps(policy))
    assert there.backend._client is None and there.settings == policy.settings, "it travels without its connection"


class Script:
    "A backend in this process."

    name, settings = "script", {}

    def __init__(self, script):
        self.script = script

    def complete(self, messages, tools, seed):
        said = self.script[min(sum(m["role"] == "assistant" for m in messages), len(self.script) - 1)]
        if isinstance(said, Exception):
            raise said
        return Completion(message(said), dict(prompt_tokens=7, completion_tokens=2))


@pytest.mark.parametrize("patience, calls", [(1, 1), (3, 5), (None, 6)])
def test_patience_is_for_refused_calls_in_a_row(patience, calls):
    bad, good = ([("query", {"sql": "SELECT nope FROM visit"})], [("describe", {"table_name": "visit"})])
    backend = Script([bad, good, bad, bad, bad, [("answer", {"value": "no"})]])
    for options in ({}, dict(batch=4)):
        e = evaluate(one(), ChatPolicy(backend, patience=patience), progress=False, **options).episodes[0]
        assert e.usage["calls"] == calls and e.error is None and e.steps == calls and not e.correct
        assert e.reason.startswith("no_answer") == (patience is not None)


def test_in_a_batch_one_failure_is_one_failure_and_it_says_what_it_needs():
    class Sometimes(Script):
        def complete_many(self, conversations, tools, seeds):
            fails = [re.search("unpaid|waiting", t[1]["content"]) for t in conversations]
            error = RuntimeError("out of memory")
            return [error if f else self.complete(t, tools, 0) for f, t in zip(fails, conversations)]

    r = evaluate(bundled(), ChatPolicy(Sometimes([[("answer", {"value": "1"})]])), batch=50, progress=False)
    failed = [e for e in r.episodes if e.error]
    assert 0 < len(failed) < 20 and all("out of memory" in e.error for e in failed) and r.n_episodes == len(bundled())

    class Never(Script):
        def complete_many(self, conversations, tools, seeds):
            raise MemoryError("all of it")

    r = evaluate(bundled(), ChatPolicy(Never([])), n_episodes=30, batch=8, progress=False)
    assert r.n_completed == 0 and r.n_episodes == 30 and all("all of it" in e.error for e in r.episodes)
    with pytest.raises(ValueError, match="select_actions"):
        evaluate(one(), OraclePolicy(one()), batch=2)
    with pytest.raises(ValueError, match="threads"):
        evaluate(SimpleNamespace(questions=[]), ChatPolicy(Script(GOOD)), batch=2)


def test_the_budget_and_the_nudges_end_every_episode_and_one_without_an_answer_counts():
    "Nudges are counted over the whole episode."
    for script, options, steps, calls in (
        ([GOOD[0]], {}, 15, 15),
        (["Hm.", GOOD[0]] * 40, {}, 3, 7),
        (["Hm."], dict(nudges=0), 0, 1),
    ):
        r = evaluate(one(), ChatPolicy(Script(script), **options), progress=False).episodes[0]
        assert (r.steps, r.usage["calls"], r.reason) == (steps, calls, "no_answer")

    # A model that talks instead of playing must not score well by having its failures set aside
    class Half(Script):
        def complete(self, messages, tools, seed):
            if len(messages[1]["content"]) % 2:
                return Completion(dict(content="No."))
            return super().complete(messages, tools, seed)

    r = evaluate(bundled(), ChatPolicy(Half([[("answer", {"value": "0"})]])), n_episodes=40, progress=False)
    assert r.n_completed == 40 and {e.reason for e in r.episodes} >= {"no_answer", "values"}
    assert all(e.steps == 0 and not e.correct for e in r.episodes if e.reason == "no_answer")


def test_log_and_reports_and_old_logs_can_be_read(tmp_path):
    log = tmp_path / "log.jsonl"
    policy = ChatPolicy(Script(["Hm.", *GOOD]), price=(1, 2), name="a/b")
    r = evaluate(one(), policy, progress=False, log=log)
    about, line = map(json.loads, log.read_text().splitlines())
    assert line["usage"]["calls"] == 4 and line["notes"] == ["no_call: Hm."]
    assert about["policy_settings"]["nudges"] == 3
    assert evaluate(one(), policy, progress=False, log=log) == r, "resumed from the log alone"
    assert load_result(log).episodes == r.episodes and read_log(log)[1][0] == r.episodes[0]
    assert "28 tokens in" in results_markdown([r]) and "cost 0.0000" in results_markdown([r])
    assert replay_problems(log, one()) == {}
    old = tmp_path / "old.jsonl"
    r = evaluate(one(), OraclePolicy(one()), progress=False, log=old)
    text = old.read_text().replace(', "usage": {}', "")
    assert "usage" not in text
    old.write_text(text)
    assert evaluate(one(), OraclePolicy(one()), progress=False, log=old) == r


@pytest.mark.parametrize("level", SCHEMA_LEVELS)
def test_the_conversation_is_that_of_training(level):
    "What the model reads is, message by message, what supervised rows of the same episode hold."
    from sql_env.training.recipes import trajectory_messages

    wrong = [("query", {"sql": "SELECT nope FROM visit"})], [("sample", {"table_name": "owners"})]
    script = [GOOD[0], *wrong, *GOOD[1:]]
    env, policy = EpisodeEnv(bundled(), schema_level=level, budget=6), ChatPolicy(Script(script))
    policy.reset(0)
    last = play_episode(env, policy, env.reset(question_id=ID, seed=3))
    policy.on_observation(last)
    rows = trajectory_messages(env, Trajectory.from_episode(env.episode, reset=dict(question_id=ID, seed=3)))
    assert policy.messages == rows[:-1] and rows[-1]["content"] == "Done."


@law(60)
@given(json_values(st.text() | st.sampled_from(["name", "arguments", "sql"])))
def test_any_message_is_read_or_refused(value):
    for name, arguments in ((value, "{}"), ("query", value), ("query", json.dumps(value))):
        with contextlib.suppress(InvalidToolCall):
            assert isinstance(parse_tool_call(dict(name=name, arguments=arguments)), Action)
    policy = ChatPolicy(Script([]))
    policy.reset(0)
    policy.on_observation(Observation("How many?", "visit", budget_remaining=15))
    calls = value if isinstance(value, list) else [value]
    policy.on_completion(Completion(dict(content=value, tool_calls=calls)))
    json.dumps(policy.messages)


@pytest.mark.parametrize("shots", [0, 1, 3])
@pytest.mark.parametrize("level", SCHEMA_LEVELS)
def test_shots(shots, level):
    env, policy = (EpisodeEnv(bundled(), schema_level=level, budget=9), ChatPolicy(Script(GOOD), shots=shots))
    policy.reset(0)
    obs = env.reset(question_id=ID)
    assert chat._shown_schema_level(obs.schema_info) == level
    messages = policy.initial_messages(obs)
    assert messages[0] == initial_messages(obs)[0] and messages[-1] == initial_messages(obs)[-1]
    users = [m for m in messages if m["role"] == "user"]
    assert len(users) == shots + 1 and all("Steps: 9" in m["content"] for m in users)
    train = {q.question_text: q for q in bundled().split("train")}
    asked = [train[m["content"].split("\n\n")[0]] for m in users[:-1]]
    assert len({q.database_name for q in asked}) == shots
    names = [c["function"]["name"] for m in messages for c in m.get("tool_calls", ())]
    assert names.count("answer") == shots == [m["content"] for m in messages].count("The answer was submitted.")
    if level in ("columns", "full") and shots:
        assert "(" in users[0]["content"]


def test_examples_never_come_from_what_is_played_and_may_come_from_another_set():
    for split in (None, "train"):
        qs = bundled().split(split) if split else bundled()
        with pytest.raises(ValueError, match="choose another split"):
            evaluate(qs, ChatPolicy(Script(GOOD), shots=1), n_episodes=1)
    evaluate(bundled().split("test"), ChatPolicy(Script(GOOD), shots=1), n_episodes=1, progress=False)
    q = bundled().split("train")[0]
    for shot in chat._example_episodes(bundled(), 1000, avoid=q.question_text):
        assert q.question_text not in shot[1]["content"]
    other = load("worlds", level=1, n=40, progress=False)
    train = {q.question_text for q in other.split("train")}
    policy = ChatPolicy(Script(GOOD), shots=3, examples=other)
    policy.reset(0)
    said = policy.initial_messages(EpisodeEnv(one()).reset(index=0))
    asked = [m["content"].split("\n\n")[0] for m in said if m["role"] == "user"]
    assert len(asked) == 4 and train.issuperset(asked[:3])


def test_what_a_model_writes_is_read_and_what_its_tokens_cost():
    for text, content, calls in cases("chat_policy_read_text", list):
        m = parse_assistant_text(text)
        assert (m["content"], [c["function"]["name"] for c in m["tool_calls"]]) == (content, calls), text
    # Models write SQL over several lines and forget to escape them; strict JSON would refuse that
    call = dict(name="query", arguments='{"sql": "SELECT 1\n\tFROM t"}')
    assert parse_tool_call(call) == ("QUERY", "SELECT 1\n\tFROM t")
    used = dict(prompt_tokens=1e6, completion_tokens=1e6, cached_tokens=5e5)
    assert chat.usage_cost(used, (2, 8)) == 10
    assert chat.usage_cost(used | dict(completion_tokens=0), (2, 8, 0)) == 1


def command(args, key=""):
    from typer.testing import CliRunner

    from sql_env.cli import app

    env = dict(COLUMNS="200", NO_COLOR="1", OPENAI_API_KEY=key)
    return CliRunner().invoke(app, ["evaluate", "--policy", "chat", *args.split()], env=env)


def test_the_command_plays_and_says_what_is_missing(tmp_path):
    with Server(oracle_script) as server:
        args = f"--model org/m --base-url {server.url} --split test -n 6 --no-floor --price 1 2 "
        r = command(f"{args} --workers 3 --json --log {tmp_path / 'logs'} --out {tmp_path / 'out'}", KEY)
        assert r.exit_code == 1, r.output  # an episode crashed
        (d,) = json.loads(r.stdout)
        assert d["policy"] == "org/m" and d["usage"]["calls"] >= 12 and d["usage"]["cost"] > 0
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"
        assert (tmp_path / "logs" / "org-m.jsonl").exists()
        assert "org/m" in (tmp_path / "out" / "results.md").read_text()
        assert not [p for p in tmp_path.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
        assert KEY not in r.output
        assert "tokens in" in command(f"{args} --shots 1", KEY).output
    nobody = "--model m --base-url http://127.0.0.1:9/v1 --no-floor"
    for args, said in (
        ("", "needs --model"),
        ("--model m", "OPENAI_API_KEY"),
        (f"{nobody} --wait 0", "is the server running"),
        (f"{nobody} --shots 1 --split all", "another split"),  # said before the model is asked
    ):
        r = command(args)
        assert r.exit_code == 1 and said in str(r.exception)


def test_each_model_that_is_named_plays(tmp_path):
    with Server(oracle_script) as server:
        args = f"--model a --model b --model a --base-url {server.url} --split test -n 2 --no-floor"
        done = command(f"{args} --json --log {tmp_path / 'logs'}", KEY)
        assert [d["policy"] for d in json.loads(done.stdout)] == ["a", "b"], done.output
        assert sorted(p.name for p in (tmp_path / "logs").iterdir()) == ["a.jsonl", "b.jsonl"]
        assert {body["model"] for body in server.bodies} == {"a", "b"}
        one_file = command(f"{args} --log {tmp_path / 'l.jsonl'}", KEY)
        assert one_file.exit_code == 1 and "give a folder" in str(one_file.exception)


def test_models_that_want_other_episodes_do_not_play_together(tmp_path):
    for name, budget in (("a", 5), ("b", 9)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / MODEL_SETTINGS_FILE).write_text(json.dumps(dict(budget=budget)))
    args = f"--model {tmp_path / 'a'} --model {tmp_path / 'b'}"
    r = command(args)
    assert r.exit_code == 1 and "one after the other" in str(r.exception), r.output


OWN = dict(nudges=1, patience=2, max_chars=600, max_new_tokens=8, temperature=0.5, system="Be brief.")


def settings_file(folder, content):
    folder.mkdir(exist_ok=True)
    (folder / MODEL_SETTINGS_FILE).write_text(content)
    return folder


def test_a_folder_carries_its_settings_and_what_is_given_goes_before_them(tmp_path):
    folder = settings_file(tmp_path / "nano", json.dumps(OWN | dict(schema_level="columns")))
    assert load_model_settings(folder)["schema_level"] == "columns"
    for policy in (ChatPolicy(folder), ChatPolicy(str(folder)), ChatPolicy(LocalModel(folder))):
        assert {k: policy.settings[k] for k in OWN} == OWN and policy.name == "nano"
        assert policy.conversation.max_nudges == 1 and policy.conversation.max_chars == 600
    first, *_ = policy.initial_messages(EpisodeEnv(one()).reset(index=0))
    assert first == dict(role="system", content="Be brief.")
    given = dict(nudges=0, patience=5, max_chars=900, system="")
    local = LocalModel(folder, max_new_tokens=99, temperature=0)
    policy = ChatPolicy(local, **given)
    expected = given | dict(max_new_tokens=99, temperature=0)
    assert {k: policy.settings[k] for k in expected} == expected
    # Without a file the defaults are those of a server; a broken one is named
    assert load_model_settings(tmp_path) == load_model_settings(tmp_path / "no folder") == {}
    policy, remote = ChatPolicy(tmp_path), ChatPolicy("m", "http://h/v1")
    for name in ("nudges", "patience", "max_chars"):
        assert policy.settings[name] == remote.settings[name]
    assert policy.system == remote.system and "system" not in policy.settings
    assert (policy.backend.max_new_tokens, policy.backend.temperature) == (256, 0)
    for content in ("{", "[1]", "3", "\x00"):
        with pytest.raises(ValueError, match=MODEL_SETTINGS_FILE):
            ChatPolicy(settings_file(tmp_path / "nano", content))


@pytest.fixture(scope="module")
def untrained(tiny):
    kit, tok = tiny
    return kit.make_model(tok), tok


@pytest.mark.slow
def test_a_model_plays_from_its_folder(untrained, template, tmp_path):
    "What it writes is noise, so each episode ends after the nudges that its folder grants."
    path = save(tmp_path / "tiny", *untrained, template)
    settings_file(path, json.dumps(dict(nudges=1, max_new_tokens=6)))
    r = evaluate(bundled().split("test")[:3], ChatPolicy(path), progress=False, batch=3)
    assert [(e.error, e.reason, e.usage["calls"]) for e in r.episodes] == [(None, "no_answer", 2)] * 3
    assert 0 < r.usage["completion_tokens"] <= 6 * 6


@pytest.fixture(scope="module")
def template():
    from trl.chat_template_utils import qwen3_training_chat_template

    return qwen3_training_chat_template


@pytest.mark.slow
def test_a_local_model_plays_by_its_seed_until_its_context_is_full(tiny_model, template):
    local = LocalModel(*tiny_model, template=template, max_new_tokens=80)
    alone = evaluate(one(), ChatPolicy(local), 3, progress=False)
    many = evaluate(one(), ChatPolicy(local), 3, progress=False, batch=3)
    assert alone.success_rate == many.success_rate == 1 and bare(alone) == bare(many)
    assert all(e.steps == 3 and e.usage["prompt_tokens"] > 1000 for e in many.episodes)
    model, tok = tiny_model
    local = LocalModel(model, tok, template=template, max_new_tokens=model.config.max_position_embeddings - 1400)
    talks = initial_messages(EpisodeEnv(one()).reset(index=0)), [dict(role="user", content="long " * 3000)]
    said = local.complete_many(list(talks), tool_schemas(), [0, 0])
    assert isinstance(said[1], RolloutAborted) and not isinstance(said[0], RolloutAborted)
    with pytest.raises(ModelError, match="first prompt"):
        policy = ChatPolicy(LocalModel(model, tok, template=template, max_new_tokens=4090))
        policy.select_action(EpisodeEnv(one()).reset(index=0))
    import torch

    local = LocalModel(*tiny_model, template=template, max_new_tokens=12, temperature=3.0)
    talk = initial_messages(EpisodeEnv(one()).reset(index=0))
    state = torch.random.get_rng_state()
    a, b, c = (local.complete([*talk], tool_schemas(), seed).message for seed in (1, 1, 2))
    assert a == b != c and torch.equal(state, torch.random.get_rng_state())


@pytest.mark.slow
def test_what_was_read_is_not_read_again_and_what_several_begin_with_is_read_once(untrained, template):
    "Three turns of different conversations side by side: as transformers writes them, and only what is new is read."
    model, tok = LocalModel(*untrained, template=template).load()
    local, env, ends = (LocalModel(model, tok, template=template), EpisodeEnv(bundled()), [tok.eos_token_id])
    talks = [initial_messages(env.reset(question_id=q.question_id)) for q in bundled()[::60]]
    writer = CachedWriter(model, ends)
    for turn in range(3):
        ids = [local.tokens(t, tool_schemas()) for t in talks]
        assert len(set(map(len, ids))) > 1
        shared = min(_shared_length(ids[0], other) for other in ids[1:])
        (*found,) = writer.write(ids, 24)
        assert [tokens for tokens, _ in found] == _generate_batch(model, tok, ids, 24)
        assert all((read > shared) == bool(turn) and read >= shared for _, read in found)
        for talk, (tokens, _) in zip(talks, found):
            said = dict(role="assistant", content=tok.decode(tokens))
            talk += [said, dict(role="user", content=f"More of {len(tokens)}")]
    assert writer.write([ids[0][:-5] + [7, 8]], 4)[0][1] == len(ids[0]) - 5  # another end of the same
    small = CachedWriter(model, ends, most=1)
    small.write(ids, 4)
    assert len(small._known) == 1
    # Three rollouts of each of two questions: the tokens that a first batch reads, as transformers writes them
    talks = [initial_messages(env.reset(question_id=q.question_id)) for q in bundled()[:120:60]] * 3
    ids = [local.tokens(t, tool_schemas()) for t in talks]
    shared, longest = _shared_length(*ids[:2]), max(map(len, ids))
    assert shared >= 64
    read = []
    hook = model.register_forward_pre_hook(
        lambda _, a, known: read.append(known["input_ids"].numel()), with_kwargs=True
    )
    found = CachedWriter(model, ends).write(ids, 1)
    hook.remove()
    assert [tokens for tokens, _ in found] == _generate_batch(model, tok, ids, 1)
    assert sum(read) <= longest + 4 * 64 + 6 * (longest - shared) < sum(map(len, ids)) / 2


def save(path, model, tok, template):
    "The model on disk, its tokenizer with the template it was trained with."
    tok = copy.deepcopy(tok)
    tok.chat_template = template
    model.save_pretrained(path)
    tok.save_pretrained(path)
    return path


@pytest.mark.parametrize("has_bf16", [True, False])
def test_bf16_is_float32_where_the_processor_lacks_it(tiny_model, template, tmp_path, monkeypatch, has_bf16):
    import torch

    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_bf16)
    model, tokenizer = tiny_model
    folder = save(tmp_path / "half", copy.deepcopy(model).to(torch.bfloat16), tokenizer, template)
    model, _ = LocalModel(folder).load()
    assert model.dtype is (torch.bfloat16 if has_bf16 else torch.float32)


@pytest.fixture(scope="module")
def folder(tiny_model, template, tmp_path_factory):
    return save(tmp_path_factory.mktemp("served") / "tiny", *tiny_model, template)


@pytest.mark.slow
def test_the_command_plays_a_folder(folder):
    r = command(f"--model {folder} --nudges 0 -n 4 --no-floor --json --max-tokens 60 --split test")
    assert r.exit_code == 0, r.output
    assert json.loads(r.stdout)[0]["policy"] == "tiny" and str(folder) not in r.stdout.replace(str(folder.name), "")


@pytest.fixture(scope="module")
def served(folder):
    "`transformers serve`, offline."
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    quiet = "HF_HUB_OFFLINE TRANSFORMERS_OFFLINE OMP_NUM_THREADS HF_HUB_DISABLE_TELEMETRY"
    env = os.environ | dict.fromkeys(quiet.split(), "1")
    code = "from transformers.cli.transformers import main; main()"
    command = [sys.executable, "-c", code, "serve", folder, *f"--device cpu --host 127.0.0.1 --port {port}".split()]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    server = subprocess.Popen(list(map(str, command)), env=env, cwd=folder, **pipes)

    def up():
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).status == 200
        except OSError:
            return False

    try:
        until = time.monotonic() + 240
        while not up():
            if server.poll() is not None or time.monotonic() > until:
                said = server.stdout.read() if server.poll() is not None else ""
                pytest.fail(f"transformers serve did not start:\n{said[-3000:]}")
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(20)


@pytest.mark.full
@pytest.mark.slow
def test_a_real_server(served, folder, tiny_model, template):
    "The model plays on `transformers serve` as it plays here: same calls, same answer, same count of tokens."
    options = dict(as_trained=True, max_tokens=80, max_retries=2)  # it may drop a connection between two requests
    options |= dict(extra_body=dict(chat_template_kwargs=dict(enable_thinking=False)))
    there = evaluate(one(), ChatPolicy(str(folder), served, name="there", **options), progress=False)
    here = evaluate(one(), ChatPolicy(LocalModel(*tiny_model, template=template, max_new_tokens=80)), progress=False)
    a, b = there.episodes[0], here.episodes[0]
    assert (a.error, a.correct, a.steps) == (None, True, 3) and (b.correct, b.steps) == (True, 3)
    assert a.usage["prompt_tokens"] == b.usage["prompt_tokens"]
    assert abs(a.usage["completion_tokens"] - b.usage["completion_tokens"]) <= 3
    with pytest.raises(EndpointError, match="no-such-model"):
        evaluate(one(), ChatPolicy("no-such-model", served, max_retries=0), progress=False)


LEFT_OPEN = """import sys
sys.path.append(sys.argv[1])
from fake_server import FakeServer
from sql_env import ChatPolicy, evaluate, load
from sql_env.grading import judge_evidence
from sql_env.policies import Endpoint
one = load("folder", sys.argv[2])
q = one[0]
assert judge_evidence(q.gold_sql, one.database("vet_clinic"), "SELECT count(*) AS n FROM visit").correct
with FakeServer(lambda body: [("answer", {"value": "0"})]) as server:
    evaluate(one, ChatPolicy(Endpoint("m", server.url, api_key="none")), 1, progress=False)
"""


@pytest.mark.slow
def test_a_process_ends_well_with_databases_left_open(tmp_path):
    "SQLite closes a file through its layer in Python, which may be gone when the interpreter frees its last objects."
    line = dict(question="How many visits?", sql="SELECT count(*) FROM visit", database="vet_clinic")
    (tmp_path / "questions.jsonl").write_text(json.dumps(line) + "\n")
    shutil.copy(BUNDLED / "vet_clinic.sqlite", tmp_path)
    command = [sys.executable, "-c", LEFT_OPEN, str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
