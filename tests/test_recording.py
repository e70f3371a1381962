"What is kept of a language model: messages as sent and received, thoughts, records of calls, a cache of answers."

import contextlib
import json

import pytest
from fake_server import FakeServer, fault, player, reasoned
from made_sets import bundled

from sql_env.evaluation import RunStopped, evaluate, read_log
from sql_env.policies.chat import ChatPolicy

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
    assert played.error and len(played.calls) == 2
    assert "no such thing" in played.calls[1]["error"] and "message" not in played.calls[1]
    assert played.messages[2]["tool_calls"], "what was said before it is kept"


def test_examples_stand_in_the_messages(tmp_path):
    with FakeServer(player(bundled())) as server:
        chosen = bundled().split("test").sample(1, 0)
        (played,) = play(server, tmp_path / "a.jsonl", questions=chosen, shots=1)
    assert len(played.messages) > 6
    assert all(played.messages[c["message"]]["role"] == "assistant" for c in played.calls)
    assert played.calls[0]["message"] > 4
