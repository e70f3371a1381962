"Anthropic and Gemini by their own packages, errors of providers, and when a request is sent again."

import json
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from types import SimpleNamespace

import pytest
from fake_server import FakeServer, completion, fault, message, player
from tables import cases

pytest.importorskip("openai", reason="openai is not installed: pip install 'sql_env[openai]'")

from sql_env import ChatPolicy, evaluate, load
from sql_env.cli.app import ModelOptions
from sql_env.policies import requests
from sql_env.policies.endpoint import Endpoint
from sql_env.policies.requests import EndpointError, RequestPace

ID, KEY = "vet_clinic-02", "sk-secret-0123456789"
GOLD = "SELECT count(*) FROM visit WHERE paid_on IS NULL"
CALLS = [("describe", {"table_name": "visit"}), ("query", {"sql": GOLD}), ("answer", {"value": "@last"})]
GOOD = [[call] for call in CALLS]


def one():
    return load("bundled").filter(question_id=ID)


@pytest.fixture
def waits(monkeypatch):
    seconds = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


# ---- other protocols
def anthropic_answer(n, thinks=True):
    name, arguments = CALLS[n]
    blocks = [
        dict(type="thinking", thinking=f"thought {n}", signature=f"signed{n}"),
        dict(type="text", text="I look."),
        dict(type="tool_use", id=f"toolu_{n}", name=name, input=arguments),
    ]
    usage = dict(input_tokens=10, cache_read_input_tokens=80, cache_creation_input_tokens=10, output_tokens=9)
    said = dict(type="message", role="assistant", content=blocks[0 if thinks else 1 :], stop_reason="tool_use")
    return said | dict(id=f"msg_{n}", model="c", usage=usage)


def gemini_answer(n, thinks=True):
    name, arguments = CALLS[n]
    part = dict(functionCall=dict(name=name, args=arguments))
    if thinks:
        part["thoughtSignature"] = "c2lnbmVk"
    thought = [dict(text=f"thought {n}", thought=True)] if thinks else []
    usage = dict(promptTokenCount=100, candidatesTokenCount=5, thoughtsTokenCount=4, cachedContentTokenCount=80)
    content = dict(role="model", parts=[*thought, part])
    return dict(candidates=[dict(content=content, finishReason="STOP")], usageMetadata=usage, responseId=f"r{n}")


def native(provider, script, thinks=True):
    "A fake server of a provider: the numbers of a script are right calls, everything else is as for any server."
    package, answer = dict(anthropic=("anthropic", anthropic_answer), google=("google.genai", gemini_answer))[provider]
    pytest.importorskip(package, reason="pip install 'sql_env[providers]'")
    lines = [("fault", 200, {}, answer(line, thinks)) if isinstance(line, int) else line for line in script]
    return FakeServer(lines)


def policy_of(provider, server, **options):
    url = server.url.removesuffix("/v1")
    return ChatPolicy("m", url, KEY, provider=provider, **dict(max_retries=2) | options)


@pytest.mark.parametrize("thinks", [True, False])
@pytest.mark.parametrize("provider", ["anthropic", "google"])
def test_an_episode_in_the_providers_own_protocol(provider, thinks):
    with native(provider, [0, 0, 1, 2], thinks) as server:  # the probe, and three steps
        policy = policy_of(provider, server, price=(1.0, 10.0, 0.1), temperature=0, max_tokens=50)
        e = evaluate(one(), policy, progress=False).episodes[0]
    assert (e.error, e.correct, e.steps) == (None, True, 3)
    assert e.usage["prompt_tokens"] == 300 and e.usage["completion_tokens"] == 27
    assert e.usage["cached_tokens"] == 240 and e.usage["retries"] == 0
    assert e.usage["cost"] == pytest.approx((60 * 1 + 240 * 0.1 + 27 * 10) / 1e6)
    last, headers = server.bodies[-1], server.headers[-1]
    if provider == "anthropic":
        assert KEY in headers.get("x-api-key", "") + headers.get("authorization", "")
        assert last["cache_control"] == {"type": "ephemeral"}
        assert last["max_tokens"] == 50 and last["temperature"] == 0 and "explore" not in last
        roles = [m["role"] for m in last["messages"]]
        assert roles == ["user", "assistant"] * 2 + ["user"]
        results = [b["tool_use_id"] for m in last["messages"] for b in m["content"] if "tool_use_id" in b]
        calls = [b["id"] for m in last["messages"] for b in m["content"] if b["type"] == "tool_use"]
        assert results == calls and len(set(calls)) == 2
        assert {"name", "description", "input_schema"} == set(last["tools"][0])
    else:
        assert headers["x-goog-api-key"] == KEY
        assert last["generationConfig"]["maxOutputTokens"] == 50
        roles = [c["role"] for c in last["contents"]]
        assert roles == ["user", "model"] * 2 + ["user"]
        assert len(last["tools"][0]["functionDeclarations"]) == 4 and last["systemInstruction"]


@pytest.mark.parametrize("provider", ["anthropic", "google"])
def test_the_effort_has_the_providers_name_and_signed_thoughts_go_back_as_they_came(provider):
    with native(provider, [0, 1, 2]) as server:
        policy = policy_of(provider, server, reasoning_effort="low")
        assert evaluate(one(), policy, progress=False).success_rate == 1
    body = server.bodies[0]
    if provider == "anthropic":
        assert body["output_config"] == {"effort": "low"}
    else:
        thinking = body["generationConfig"]["thinkingConfig"]
        assert [level.lower() for level in thinking.values()] == ["low"]
    with native(provider, [0, 1]) as server:
        backend = policy_of(provider, server).backend
        asked = [dict(role="user", content="How many?")]
        said = backend.complete(asked, []).message
        assert said["reasoning"] == "thought 0"
        result = dict(role="tool", name="describe", content="visit: 847 rows")
        backend.complete([*asked, said, result], [])
    sent = server.bodies[1]
    if provider == "anthropic":
        assert sent["messages"][1]["content"] == anthropic_answer(0)["content"]
        assert sent["messages"][2]["content"][0]["tool_use_id"] == "toolu_0"
    else:
        parts = sent["contents"][1]["parts"]
        assert parts[1]["thoughtSignature"] == "c2lnbmVk" and parts[0]["thought"] is True


@pytest.mark.parametrize("provider", ["anthropic", "google"])
@pytest.mark.parametrize(
    "line, kind, asked",
    [
        (fault(401, f"invalid x-api-key {KEY}"), "key", 1),
        (fault(404, "model: m not found"), "model", 1),
        (fault(400, "Your credit balance is too low"), "quota", 1),
        (fault(400, "temperature is out of range"), "bad_request", 1),
        (fault(429, "slow down", Retry_After="3"), "rate_limit", 3),
        (fault(503, "Overloaded"), "server", 3),
        ("drop", "server", 3),
        (b"<html>Welcome</html>", None, None),
    ],
)
def test_errors_of_other_providers(provider, line, kind, asked, waits):
    with native(provider, [line]) as server:
        backend = policy_of(provider, server, timeout=5, max_wait=7).backend
        with pytest.raises(EndpointError) as caught:
            backend.complete([dict(role="user", content="How many?")], [])
    assert KEY not in str(caught.value) and caught.value.usage["retries"] >= 0
    if kind:
        assert (caught.value.kind, len(server.bodies)) == (kind, asked), caught.value
    if kind == "rate_limit":
        assert len(waits) == 2 and all(2.9 < w < 4 for w in waits)


def test_a_name_or_an_option_chooses_the_provider(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a")
    backend = Endpoint("anthropic/claude-x")
    assert (backend.provider, backend.model, backend.host) == ("anthropic", "claude-x", "api.anthropic.com")
    assert backend.name == "anthropic/claude-x" and backend.key == "a"
    router = Endpoint("anthropic/claude-x", "https://openrouter.ai/api/v1")
    assert (router.provider, router.model) == ("openai", "anthropic/claude-x")
    assert Endpoint("m", "http://x/v1", key_var="MINE").key_var == "MINE"
    with pytest.raises(ValueError, match="there are openai, anthropic, google"):
        Endpoint("m", provider="amazon")
    with pytest.raises(ValueError, match="starts with http"):
        Endpoint("m", "localhost:8000/v1")


# ---- the probe
PROBES = {
    "key": fault(401, "Incorrect API key"),
    "model": fault(404, "The model m does not exist"),
    "address": fault(404, "Not Found"),
    "quota": fault(429, "You exceeded your current quota", "insufficient_quota"),
    "no_tools": fault(400, "m does not support tools"),
    "bad_request": fault(400, "Unsupported value: temperature"),
}


@pytest.mark.parametrize("kind", PROBES)
def test_the_probe_finds_what_no_repetition_repairs(kind, waits):
    with FakeServer([PROBES[kind]]) as server, pytest.raises(EndpointError) as caught:
        ChatPolicy("m", server.url, KEY, protocol="tools").probe()
    assert caught.value.kind == kind and caught.value.is_permanent and len(server.bodies) == 1
    assert caught.value.advice and not waits
    there = pickle.loads(pickle.dumps(caught.value))
    assert (there.kind, str(there)) == (kind, str(caught.value))


def test_the_probe_waits_for_a_busy_server_and_says_that_nobody_is_there(waits, monkeypatch):
    with pytest.raises(EndpointError, match="is the server running") as caught:
        ChatPolicy("m", "http://127.0.0.1:9/v1", KEY).probe()
    assert caught.value.kind == "absent" and sum(waits) == 10, "it may still be starting"
    with pytest.raises(EndpointError, match="base_url right"), FakeServer([b"<html>Hi"]) as server:
        ChatPolicy("m", server.url, KEY).probe()
    waits.clear()
    with FakeServer([fault(503), fault(429), "Hello."]) as server:
        policy = ChatPolicy("m", server.url, KEY)
        policy.probe()
    assert len(server.bodies) == 4 and len(server.bodies[0]["tools"]) == 4 and len(waits) == 2
    assert "it made no call" in policy.backend.channel["call"]
    with FakeServer([fault(503)]) as server, pytest.raises(EndpointError, match="busy"):
        ChatPolicy("m", server.url, KEY, timeout=300).probe()
    assert sum(waits) > 300, "a start of minutes is waited for, as long as a request may take"
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EndpointError, match="set OPENAI_API_KEY"):
        ChatPolicy("gpt-5-mini").probe()


BAD_CALL = fault(500, "Failed to parse input at pos 0: describe{")  # llama.cpp, of what its model wrote


@pytest.mark.parametrize("line, sent", [(BAD_CALL, 3), (fault(400, "Bad call"), 2)])
def test_a_server_that_fails_at_tools_gets_plain_words_at_once(line, sent, waits):
    "On 90d960bd a 500 was waited for as long as `timeout`, and a 400 ended the run."
    good = player(load("bundled").split("test"))

    def script(body):
        if body.get("tools"):
            return line
        name, arguments = good(body)[0]
        return f"{name} {json.dumps(arguments)}"

    with FakeServer(script) as server:
        policy = ChatPolicy("m", server.url, KEY)
        policy.probe()
        assert (policy.backend.is_text, len(server.bodies), waits) == (True, sent, [])
        told = f"the server fails at the tools ({line[1]}), so calls are plain words, a call is read"
        assert requests.channel_text(policy.backend.channel).startswith(told)
        with pytest.raises(EndpointError):
            ChatPolicy("m", server.url, KEY, protocol="tools", timeout=1).probe()
        assert evaluate(load("bundled").split("test"), policy, 2, progress=False).n_completed == 2


def test_a_failure_by_chance_and_a_server_that_is_down_keep_the_tools(waits):
    call = [("describe", dict(table_name="visit"))]
    # Tools and words, twice, and a wait each
    for script, n_asked, n_waits in (([BAD_CALL, "Hello.", call], 3, 0), ([*[BAD_CALL] * 5, call], 7, 2)):
        with FakeServer(script) as server:
            policy = ChatPolicy("m", server.url, KEY)
            policy.probe()
        assert (policy.backend.is_text, len(server.bodies), len(waits)) == (False, n_asked, n_waits)
    with FakeServer([BAD_CALL]) as server, pytest.raises(EndpointError, match="busy or broken"):
        ChatPolicy("m", server.url, KEY, timeout=20).probe()
    assert sum(waits[2:]) == 20


@pytest.mark.parametrize("is_terminal, lines", [(False, 1), (True, 4)])
def test_a_server_that_still_starts_is_waited_for_in_one_line(is_terminal, lines, monkeypatch, capsys):
    "In a terminal it counts down; a refused connection ends no run at once, a name that leads nowhere does."
    server = FakeServer([[("describe", dict(table_name="visit"))]])
    server.close()
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 4:
            server.listen(server.port)

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    with server:
        questions = load("bundled").split("test")
        evaluate(questions, ChatPolicy("m", server.url, KEY, wait=600), 1)
    told = capsys.readouterr().err
    assert slept == [1] * 4 and told.count("nobody listens there") == lines, told
    assert told.count("\x1b[1A\x1b[K") == lines - 1 and "waiting 600 s" in told and "a call is read" in told
    with FakeServer([PROBES["address"]]) as other:
        for url in ("http://nobody.invalid/v1", other.url):
            with pytest.raises(EndpointError, match="base_url right") as caught:
                ChatPolicy("m", url, KEY).probe()
            assert caught.value.kind == "address" and len(slept) == 4


# ---- what is sent, and when again
def test_any_option_goes_into_the_request_and_the_limit_of_tokens_has_the_name_that_the_server_wants():
    said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."

    def picky(body):
        if "max_tokens" in body:
            return fault(400, said)
        return GOOD[sum(m["role"] == "assistant" for m in body["messages"])]

    with FakeServer(picky) as server:
        policy = ChatPolicy("m", server.url, KEY, max_tokens=50)
        assert evaluate(one(), policy, progress=False).success_rate == 1
    assert [b.get("max_completion_tokens") for b in server.bodies] == [None, 50, 50, 50, 50]
    assert Endpoint("gpt-5-mini")._token_limit == "max_completion_tokens"
    with FakeServer([completion(message("Hm.") | dict(reasoning_content="deep"))]) as server:
        completed = Endpoint("m", server.url, KEY, reasoning_effort="low", top_k=3).complete([], [])
    assert (server.bodies[0]["reasoning_effort"], server.bodies[0]["top_k"]) == ("low", 3)
    assert completed.message["reasoning_content"] == "deep"
    assert (completed.stop_reason, completed.response_id) == ("stop", "c")


def test_retry_after_in_each_form_and_a_burst_of_429s_halves_once():
    def said(text="", **headers):
        error = RuntimeError(text)
        error.response = SimpleNamespace(headers={k.replace("_", "-"): v for k, v in headers.items()})
        return requests._retry_after(error)

    assert said(retry_after="7") == 7 and said(retry_after_ms="250") == 0.25
    assert 50 < said(retry_after=formatdate(time.time() + 60, usegmt=True)) < 61
    assert said(retry_after="soon") is None and said() is None
    assert said("{'retryDelay': '20s'}") == 20
    assert all(requests._backoff(n, 0) == requests._backoff(n, 1) / 2 for n in range(9))
    for text, kind in (("m does not support tools", "no_tools"), ("", "bad_request")):
        assert requests._error_kind(400, text) == kind and kind in requests.ADVICE
    limit = RequestPace()
    for burst in [limit.start() for _ in range(16)]:
        limit.end(burst, is_rate_limited=True)
    assert limit.limit == 8 and limit.in_flight == 0
    for burst in [limit.start() for _ in range(8)]:
        limit.end(burst)
    assert 8.9 < limit.limit < 9
    for _ in range(9):
        limit.end(limit.start(), is_rate_limited=True)
    assert limit.limit == 1, "one may always be in flight"
    assert pickle.loads(pickle.dumps(limit)).limit == float("inf")


def test_a_server_of_four_places_is_not_flooded():
    "Sixteen threads at a server that refuses the fifth request in flight: all are answered."
    places, limit, go = threading.Semaphore(4), RequestPace(), threading.Barrier(16)

    class Busy(Exception):
        status_code = 429

    def ask():
        if not places.acquire(blocking=False):
            raise Busy("slow down")
        threading.Event().wait(0.002)
        places.release()
        return SimpleNamespace(usage={})

    def work(_):
        go.wait()
        for _ in range(5):
            requests.send(ask, lambda error, retries: EndpointError("rate_limit", "slow down"), limit, 8)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(work, range(16)))  # raises what was not answered
    assert limit.in_flight == 0 and limit.limit < 16


# ---- options of the command
def test_options_of_the_command_reach_the_request(monkeypatch):
    monkeypatch.setenv("MINE", "sk-mine")
    model = dict(key_var="MINE", timeout=7, max_retries=1, price=(1, 2), cached_price=0.1)
    asked = dict(reasoning_effort="low", max_tokens=9)
    option = ["top_p=0.5", "stop=END", "metadata={}"]
    with FakeServer(["Hello."]) as server:
        policy = ModelOptions("m", server.url, option=option, **model, **asked).make_policy()
        policy.backend.complete([], [])
    sent, told = server.bodies[0], asked | dict(top_p=0.5, stop="END", metadata={})
    assert server.headers[0]["authorization"] == "Bearer sk-mine" and policy.price == (1, 2, 0.1)
    assert {k: sent[k] for k in told} == told
    assert (policy.backend.timeout, policy.backend.max_retries) == (7, 1)


def test_mistakes_in_options_say_what_to_do(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for options, said in cases("providers_mistakes"):
        with pytest.raises(ValueError, match=said):
            ModelOptions(**dict(model="m", base_url="http://localhost/v1") | options).make_policy()
