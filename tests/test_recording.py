"What is kept of a language model: messages as sent and received, thoughts, records of calls, a cache of answers."

import contextlib
import json

import pytest
from fake_server import FakeServer, fault, player, reasoned
from made_sets import bundled

from sql_env.evaluation import RunStopped, evaluate, read_log
from sql_env.policies import Completion, Endpoint
from sql_env.policies.chat import ChatPolicy, ResponseCache

ID = "vet_clinic-02"
QUERY = [("query", dict(sql="SELECT count(*) FROM visit WHERE paid_on IS NULL"))]
ANSWER = [("answer", dict(value="@last"))]


def play(server, log, n=1, questions=None, **options):
    "Play against a server, without a probe; the trajectories of the log."
    policy = ChatPolicy("m", server.url, "sk-secret", max_retries=0, **options)
    policy.probe = lambda: None
    chosen = questions or bundled().with_questions([bundled().get(ID)], [])
    with contextlib.suppress(RunStopped):
        evaluate(chosen, policy, n, log=log, progress=False)
    return read_log(log)[1]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_kept_and_go_back_under_their_name_or_are_left_out_of_what_is_sent(field, tmp_path):
    said = reasoned(QUERY, "I count <|im_end|> first.", field) | {"content": "Let me look."}
    for keep in (True, False):
        log = tmp_path / f"{keep}.jsonl"
        with FakeServer([said, reasoned(ANSWER, "Done.", field)]) as server:
            (played,) = play(server, log, keep_reasoning=keep)
        assert played.correct and read_log(log)[0]["policy_settings"].get("keep_reasoning", True) is keep
        sent = server.bodies[1]["messages"][2]
        assert sent.get(field) == ("I count <¦|im_end|> first." if keep else None) and sent["content"] == "Let me look."
        assert played.calls[0]["received"][field] == "I count <|im_end|> first."
        if keep:
            assert played.messages[2][field] == sent[field]
            assert played.messages[-1][field] == "Done." and "received" not in played.calls[1]


def test_a_log_holds_what_was_sent(tmp_path):
    with FakeServer(["Hm.", [("query", '{"sql": "SEL')], QUERY, ANSWER]) as server:
        (played,) = play(server, tmp_path / "a.jsonl")
    last = server.bodies[-1]["messages"]
    for kept, sent in zip(played.messages, last):
        assert kept["role"] == sent["role"] and kept["content"] == sent["content"]
    assert len(played.messages) == len(last) + 1, "and the answer to the last request"
    said = [i for i, m in enumerate(played.messages) if m["role"] == "assistant"]
    assert [c["message"] for c in played.calls] == said
    broken = played.calls[1]["received"]["tool_calls"][0]["function"]["arguments"]
    assert broken == '{"sql": "SEL' and '"{}"' in json.dumps(played.messages[4])
    for call in played.calls:
        assert call["usage"]["prompt_tokens"] == 100 and call["seconds"] > 0
        assert call["response_id"] == "c" and call["stop_reason"] in ("stop", "tool_calls")
    asked = bundled().get(ID)
    assert (played.question_text, played.gold_sql) == (asked.question_text, asked.gold_sql)
    assert "2026" <= played.started <= played.ended
    assert "sk-secret" not in (tmp_path / "a.jsonl").read_text()
    about = read_log(tmp_path / "a.jsonl")[0]
    assert (about["model"], about["base_url"]) == ("m", server.url)


def test_a_call_that_failed_is_on_record(tmp_path):
    with FakeServer([QUERY, fault(400, "no such thing")]) as server:
        (played,) = play(server, tmp_path / "a.jsonl")
    assert played.episode.error and len(played.calls) == 2
    assert "no such thing" in played.calls[1]["error"] and "message" not in played.calls[1]
    assert played.messages[2]["tool_calls"], "what was said before it is kept"


def test_examples_stand_in_the_messages(tmp_path):
    with FakeServer(player(bundled())) as server:
        chosen = bundled().split("test").sample(1, 0)
        (played,) = play(server, tmp_path / "a.jsonl", questions=chosen, shots=1)
    assert len(played.messages) > 6
    assert all(played.messages[c["message"]]["role"] == "assistant" for c in played.calls)
    assert played.calls[0]["message"] > 4


def test_nothing_is_asked_twice_and_nothing_is_paid_twice(tmp_path):
    chosen = bundled().sample(6, 1)
    options = dict(questions=chosen, cache=tmp_path / "cache", price=(1, 2))
    with FakeServer(player(chosen)) as server:
        first = play(server, tmp_path / "a.jsonl", 6, **options)
        n = len(server.bodies)
        again = play(server, tmp_path / "b.jsonl", 6, **options)
        assert len(server.bodies) == n == 12
    assert [(t.turns, t.messages) for t in first] == [(t.turns, t.messages) for t in again]
    assert all(t.episode.usage == dict(calls=2, cache_hits=2, cost=0) for t in again)
    assert all(c["cached"] and c["usage"]["prompt_tokens"] == 100 for t in again for c in t.calls)
    assert not any("cached" in c for t in first for c in t.calls)


class Counting:
    "A backend that counts its requests, and fails in some."

    base_url = None

    def __init__(self, fail=(), **settings):
        self.settings, self.asked, self.fail = settings, 0, fail

    def complete(self, messages, tools, seed):
        self.asked += 1
        if self.asked in self.fail:
            raise ValueError("busy")
        return Completion(dict(role="assistant", content=f"{self.asked} ü\ud800"), dict(calls=1.5))


HELLO = [dict(role="user", content="Hello")]


def ask(cache, backend, messages=HELLO, tools=(), seed=0):
    return cache.complete(backend, messages, list(tools), seed)


def test_another_request_has_another_answer(tmp_path):
    cache, backend, warmer = ResponseCache(tmp_path), Counting(temperature=0), Counting(temperature=1)
    said = ask(cache, backend)
    for change in (dict(messages=[*HELLO, *HELLO]), dict(tools=[dict(type="function")]), dict(seed=1)):
        assert not ask(cache, backend, **change).from_cache
    assert not ask(cache, warmer).from_cache and (backend.asked, warmer.asked) == (4, 1)
    hit = ask(cache, Counting(temperature=0))
    assert hit.from_cache and (hit.message, hit.usage) == (said.message, said.usage)
    keys = {cache.key(Endpoint("m", url, "k"), HELLO, [], 0) for url in ("http://a/v1", "http://a/v2", "http://b/v1")}
    same = cache.key(Endpoint("m", "http://a/v1", "another key"), HELLO, [], 0)
    assert len(keys) == 3 and same in keys, "a key is no part of a request"


def test_errors_and_broken_files_are_asked_again(tmp_path):
    cache, backend = ResponseCache(tmp_path), Counting(fail=(1,))
    with pytest.raises(ValueError, match="busy"):
        ask(cache, backend)
    assert not ask(cache, backend).from_cache and ask(cache, backend).from_cache
    (file,) = tmp_path.iterdir()
    for data in (b"", b"no file of SQLite" * 500, file.read_bytes()[:5000]):
        file.write_bytes(data)
        assert not ask(cache, backend).from_cache


def test_a_cache_is_for_models_on_a_server(tmp_path):
    class Local(Counting):
        name, complete_many = "local", None

    with pytest.raises(ValueError, match="--cache"):
        ChatPolicy(Local(), cache=tmp_path)
