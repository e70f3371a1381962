"What servers really send: right in the end, stopped or blamed on who it was; and the one question before a run."

import json
import pickle
import time
from types import SimpleNamespace

import pytest
from fake_server import FakeServer, completion, fault, player
from tables import cases

pytest.importorskip("openai", reason="openai is not installed: pip install 'sql_env[openai]'")

from sql_env import ChatPolicy, load
from sql_env.evaluation import RunStopped, compare, evaluate, load_result, read_log
from sql_env.play.chat import tool_schemas
from sql_env.policies import LocalModel
from sql_env.policies.baselines import answer_from_result
from sql_env.policies.requests import ADVICE, Completion, EndpointError, channel_text
from sql_env.view.page import read_runs, run_page_html

FORMS = cases("wire_forms")
QUESTIONS = load("bundled").split("test")
KEY_VAR = "OPENAI_API_KEY"
REAL_SLEEP = time.sleep


def right_call(body):
    told = [m["content"] or "" for m in body["messages"]]
    asked = [q for q in QUESTIONS if any(q.question_text in text for text in told)]
    if not asked:
        return "describe", dict(table_name="visit")  # the probe
    shown = "tools" not in body  # an example of a call, in plain words
    if sum(m["role"] == "assistant" for m in body["messages"]) > shown:
        return "answer", dict(value=answer_from_result(told[-1]))
    return "query", dict(sql=max(asked, key=lambda q: len(q.question_text)).gold_sql)


def written(how, body):
    name, arguments = right_call(body)
    text = json.dumps(arguments)
    if how == "deaf":  # the template drops the tools, and calls and results as well
        if any(m["role"] == "tool" or m.get("tool_calls") for m in body["messages"]):
            return completion("What?")
        is_told = f'{name} ["' in body["messages"][0]["content"]
        return completion(f"{name} {text}" if is_told else "I have no tools.")
    if how == "in_text":
        return completion(f'<think>Well.</think>\n<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>')
    name = dict(dotted=f"functions.{name}", upper=name.upper()).get(how, name)
    text = json.dumps(arguments | dict(reason="To see.") if how == "more" else arguments)
    answer = completion([(name, json.dumps(text) if how == "twice" else text)])
    said, usage = answer["choices"][0]["message"], answer["usage"]
    if how == "object":
        said["tool_calls"][0]["function"]["arguments"] = arguments
    if how in ("text_tokens", "nan_tokens"):
        told = ("100", "10") if how == "text_tokens" else (float("nan"), -1)
        usage |= dict(zip(("prompt_tokens", "completion_tokens"), told))
    if how == "no_usage":
        del answer["usage"]
    return b"\n  \n" + json.dumps(answer).encode() if how == "padded" else answer


class OddServer(FakeServer):
    "Does what a case tells; its clock is that of the client's sleeps."

    def __init__(self, case):
        self.case, self.slept = case, 0.0
        super().__init__(self.say)

    def sleep(self, seconds):
        self.slept += seconds
        REAL_SLEEP(min(seconds, 0.001))

    def say(self, body):
        case, n = self.case, len(self.bodies)
        is_odd = n % case.get("at", 1) == 0 and n > case.get("from", 0)
        is_odd = is_odd and ("tools" in body or "tools" not in case)
        if is_odd and "line" in case:
            return case["line"]
        is_later = any(m["role"] == "assistant" for m in body["messages"])
        if "full" in case and is_later or is_odd and "body" in case:
            said = case.get("body", dict(error=dict(message=case.get("full"), code=400)))
            headers = case.get("headers", {})
            data = said.encode() if isinstance(said, str) else said
            if isinstance(said, dict) and said.get("choices"):  # with what all servers send
                data = completion("") | said
            return "fault", case.get("status", 400 if "full" in case else 200), headers, data
        return written(case.get("as"), body)


def outcome(case):
    "`right`, whose blame every episode is, or `stop:` and the kind of error, and how often it was asked."
    with OddServer(case) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.sleep", server.sleep)
        policy = ChatPolicy("m", server.url, "sk-secret", timeout=9)
        try:
            r = evaluate(QUESTIONS, policy, 5, progress=False)
        except (EndpointError, RunStopped) as e:
            kinds = [k for k, said in ADVICE.items() if said.format(key_var=KEY_VAR) in str(e)]
            return f"stop:{' '.join(kinds) or e}"
        except Exception as e:
            return f"{type(e).__name__}: {e}"
    if r.success_rate == 1 and r.n_completed == 5:
        return "right"
    blames = sorted({str(e.blame) for e in r.episodes})
    return blames[0] if len(blames) == 1 else f"{sum(e.correct for e in r.episodes)} of 5 right"


@pytest.mark.parametrize("case", FORMS, ids=lambda case: case["name"])
def test_what_servers_send(case):
    assert outcome(case) == case["want"]


@pytest.mark.parametrize("cap", [dict(max_tokens=200), dict(max_cost=0.0001)])
def test_caps_hold_where_no_usage_is_told(cap):
    with OddServer({"as": "no_usage"}) as server:
        policy = ChatPolicy("m", server.url, "k", price=(1, 2))
        with pytest.raises(RunStopped) as stopped:
            evaluate(QUESTIONS, policy, 6, progress=False, **cap)
    result = stopped.value.result
    assert result.n_episodes == 1 and result.usage["guessed"] == 2
    assert "a token guessed for 3 characters" in channel_text(policy.backend.channel)


def test_a_cap_that_nothing_counts_is_refused_in_words():
    class Mute:
        name, settings = "mute", {}

        def complete(self, messages, tools, seed):
            return Completion(dict(role="assistant", content="Hm."))

    with pytest.raises(RunStopped, match="tells no numbers of tokens"):
        evaluate(QUESTIONS, ChatPolicy(Mute()), 6, progress=False, max_tokens=200)


def test_what_the_model_reads_and_what_the_log_keeps_in_plain_words(tmp_path):
    with OddServer({"as": "deaf"}) as server:
        policy = ChatPolicy("m", server.url, "k")
        evaluate(QUESTIONS, policy, 1, progress=False, log=tmp_path / "a.jsonl")
        played = read_log(tmp_path / "a.jsonl")[1][0]
    assert "the tools do not arrive, so calls are plain words, a call is read" in channel_text(policy.backend.channel)
    sent = server.bodies[-1]["messages"]
    assert [m["role"] for m in sent] == ["system", *["user", "assistant"] * 2, "user"]
    assert 'query ["sql"]' in sent[0]["content"] and sent[4]["content"].startswith("query {")
    assert [m["role"] for m in played.messages][:4] == ["system", "user", "assistant", "tool"]
    assert played.correct and played.usage["text_calls"] == 2


def test_how_tools_arrived_stands_in_the_log_and_is_told(tmp_path, capsys):
    with OddServer({}) as server:

        def played(way, n, log):
            server.case = {"as": way}
            evaluate(QUESTIONS, ChatPolicy("m", server.url, "k"), n, log=tmp_path / log)
            return read_log(tmp_path / log)[0]["channel"]["protocol"]

        assert (played("deaf", 2, "a.jsonl"), played("plain", 2, "b.jsonl")) == ("text", "tools")
        found = compare(load_result(tmp_path / "a.jsonl"), load_result(tmp_path / "b.jsonl"))
        assert found.differs == ("protocol (text, tools)",) and not found.difference
        page = run_page_html(read_runs([tmp_path / "a.jsonl"]), progress=False)
        assert page.count("the tools do not arrive, so calls are plain words, a call is read") == 1
        assert played("deaf", 3, "b.jsonl") == "text", "more episodes of the same run"
    assert "earlier episodes of the log: the tools are seen" in capsys.readouterr().err


def test_a_local_template_without_tools_gets_plain_words():
    class Plain:
        "A tokenizer whose template shows nothing but words."

        def apply_chat_template(self, messages, tools=None, **options):
            return "".join(f"{m['role']}: {m['content']}\n" for m in messages)

        def __call__(self, text, **options):
            return dict(input_ids=text)

    model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=512))
    said = [dict(role="system", content="Find out."), dict(role="user", content="How many?")]
    local = LocalModel(model, Plain())
    local.probe()
    assert "shows no tools, so calls are plain words; context 512" in channel_text(local.channel)
    read = local.tokens(said, tool_schemas())
    assert 'query ["sql"]' in read and 'assistant: describe {"table_name": "visit"}' in read
    as_told = LocalModel(model, Plain(), protocol="tools")
    as_told.probe()
    assert "shows no tools; context" in channel_text(as_told.channel)
    assert 'query ["sql"]' not in as_told.tokens(said, tool_schemas())


# ---- the one question before a run
CALL = [("describe", dict(table_name="visit"))]
BAD_CALL = fault(500, "Failed to parse input at pos 0: describe{")  # llama.cpp, of what its model wrote
PERMANENT = {
    "key": fault(401, "Incorrect API key"),
    "model": fault(404, "The model m does not exist"),
    "address": fault(404, "Not Found"),
    "quota": fault(429, "You exceeded your current quota", "insufficient_quota"),
    "no_tools": fault(400, "m does not support tools"),
    "bad_request": fault(400, "Unsupported value: temperature"),
}


@pytest.fixture
def waits(monkeypatch):
    seconds = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


@pytest.mark.parametrize("kind", PERMANENT)
def test_the_probe_finds_what_no_repetition_repairs(kind, waits):
    with FakeServer([PERMANENT[kind]]) as server, pytest.raises(EndpointError) as caught:
        ChatPolicy("m", server.url, "sk-secret", protocol="tools").probe()
    assert caught.value.kind == kind and caught.value.is_permanent and len(server.bodies) == 1
    assert caught.value.advice and not waits
    there = pickle.loads(pickle.dumps(caught.value))
    assert (there.kind, str(there)) == (kind, str(caught.value))


@pytest.mark.parametrize("line, sent", [(BAD_CALL, 3), (fault(400, "Bad call"), 2)])
def test_a_server_that_fails_at_tools_gets_plain_words_at_once(line, sent, waits):
    good = player(QUESTIONS)

    def script(body):
        if body.get("tools"):
            return line
        name, arguments = good(body)[0]
        return f"{name} {json.dumps(arguments)}"

    with FakeServer(script) as server:
        policy = ChatPolicy("m", server.url, "k")
        policy.probe()
        assert (policy.backend.is_text, len(server.bodies), waits) == (True, sent, [])
        told = f"the server fails at the tools ({line[1]}), so calls are plain words, a call is read"
        assert channel_text(policy.backend.channel).startswith(told)
        with pytest.raises(EndpointError):
            ChatPolicy("m", server.url, "k", protocol="tools", wait=1).probe()
        assert evaluate(QUESTIONS, policy, 2, progress=False).n_completed == 2


def test_a_failure_by_chance_and_a_server_that_is_busy_keep_the_tools(waits):
    # Tools and words, twice, and a wait each
    for script, n_asked, n_waits in (([BAD_CALL, "Hello.", CALL], 3, 0), ([*[BAD_CALL] * 5, CALL], 7, 2)):
        with FakeServer(script) as server:
            policy = ChatPolicy("m", server.url, "k")
            policy.probe()
        assert (policy.backend.is_text, len(server.bodies), len(waits)) == (False, n_asked, n_waits)
    with FakeServer([fault(503)]) as server, pytest.raises(EndpointError, match="busy or broken"):
        ChatPolicy("m", server.url, "k", wait=20).probe()
    assert sum(waits[2:]) == 20


@pytest.mark.parametrize("is_terminal, lines", [(False, 1), (True, 4)])
def test_a_server_that_still_starts_is_waited_for_in_one_line(is_terminal, lines, monkeypatch, capsys):
    "In a terminal it counts down; a refused connection ends no run at once, a name that leads nowhere does."
    server = FakeServer([CALL])
    server.close()
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 4:
            server.listen(server.port)

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    with server:
        evaluate(QUESTIONS, ChatPolicy("m", server.url, "k", wait=600), 1)
    told = capsys.readouterr().err
    assert slept == [1] * 4 and told.count("nobody listens there") == lines, told
    assert told.count("\x1b[1A\x1b[K") == lines - 1 and "waiting 600 s" in told and "a call is read" in told
    with FakeServer([PERMANENT["address"]]) as other:
        for url in ("http://nobody.invalid/v1", other.url):
            with pytest.raises(EndpointError, match="base_url right") as caught:
                ChatPolicy("m", url, "k").probe()
            assert caught.value.kind == "address" and len(slept) == 4
    with pytest.raises(EndpointError, match="is the server running") as caught:
        ChatPolicy("m", "http://127.0.0.1:9/v1", "k").probe()
    assert caught.value.kind == "absent" and sum(slept[4:]) == 10, "it may still be starting"
