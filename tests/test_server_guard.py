"Strangers at a server: whose pages may use it, how many sessions there are, how long it waits, and what it gives away."

import asyncio
import json
import logging
import signal
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import websockets
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from mcp_words import BOTH
from serving import Server, Session, act, ask, benchmark, tell
from tables import cases

from sql_env import OraclePolicy, evaluate
from sql_env.client import SQLEnv, VerdictWithheldError
from sql_env.server import limits
from sql_env.server.app import create_app, environment_factory
from sql_env.server.environment import SQLEnvironment
from sql_env.server.limits import AllowedNames, RequestGuard, Seats, _client_of, read_message
from sql_env.server.mcp_tools import Players
from sql_env.server.page import _page_html, build_page
from sql_env.server.settings import Settings


def test_all_sessions_together_are_bounded():
    seats = Seats(4, share=4)
    assert [bool(seats.take(f"203.0.113.{i}")) for i in range(6)] == [False] * 4 + [True] * 2
    seats.give_back("203.0.113.0")
    assert not seats.take("198.51.100.1") and seats.taken.total() == 4
    assert "203.0.113.0" not in seats.taken, "a client without sessions is forgotten"
    with ThreadPoolExecutor(80) as pool:
        assert [*pool.map((many := Seats(50)).take, ["127.0.0.1"] * 80)].count("") == 50 == many.taken.total()
    # a customer with many addresses is one client
    assert _client_of("2001:db8:1:2::1") == _client_of("2001:db8:1:2:ffff::9") != _client_of("2001:db8:1:3::1")
    assert _client_of("not an address") == "not an address"


@pytest.mark.parametrize(
    "capacity, share, address, granted",
    [(64, 0, "203.0.113.7", 48), (64, 0, "127.0.0.1", 64), (64, 5, "127.0.0.1", 5), (1, 0, "203.0.113.7", 1)],
)
def test_one_client_has_a_share(capacity, share, address, granted):
    seats = Seats(capacity, share)
    refused = [seats.take(address) for _ in range(capacity + 3)]
    assert refused.count("") == granted and "capacity" in refused[-1]
    assert granted == capacity or not seats.take("198.51.100.1"), "there is room for others"


def test_tabs_of_the_page_take_seats_and_give_them_back_and_clicks_at_once_are_one(questions):
    gr = pytest.importorskip("gradio", reason="no gradio")
    now, seats = [0.0], Seats(3, share=3)
    players = Players(lambda: SQLEnvironment(questions), seats, 100, clock=lambda: now[0])
    page = build_page(players)
    ids = {getattr(block, "elem_id", None): i for i, block in page.blocks.items()}
    begin, query = (
        next(f.fn for f in page.fns.values() if (ids[name], "click") in f.targets)
        for name in ("se-new", "se-query-send")
    )
    leave = next(f.fn for f in page.fns.values() if f.fn and f.fn.__name__ == "leave")

    def tab(name):
        return SimpleNamespace(session_hash=name, client=SimpleNamespace(host="127.0.0.1"))

    def refused(work, *args):
        try:
            return work(*args) and ""
        except gr.Error as e:
            return e.message

    start = lambda name, *wanted: refused(begin, tab(name), *(wanted or ["", "", "", ""]))  # noqa: E731
    assert [start(f"tab{i}") for i in range(50)].count("") == 3 == seats.taken.total()
    assert "at capacity" in start("tab9") and "press “New question” again later" in start("tab9")
    assert not start("tab0"), "the same tab keeps its seat"
    assert "no question &#x27;&lt;i&gt;" in start("tab0", "", "<i>", "", "") and seats.taken.total() == 3
    leave(tab("tab1"))
    assert seats.taken.total() == 2
    leave(tab("tab1"))
    assert seats.taken.total() == 2
    now[0] = 60.0
    assert not refused(query, tab("tab0"), "SELECT 1", None) and not start("new")
    assert "Write a query first" in refused(query, tab("tab0"), " ", None)
    now[0] = 120.0  # tab2 was idle for longer than 100
    assert not seats.take("127.0.0.1") and "press “New question”" in refused(query, tab("tab2"), "SELECT 1", None)
    assert len(players._players) == 2, "nothing is kept of tabs without a seat"
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda i: query(tab("new"), f"SELECT {i} AS n", None), range(12)))
    episode = max((p.env.episode for p in players._players.values()), key=lambda e: e.steps)
    assert {t.result for t in episode.turns} == {f"n\n{i}" for i in range(12)}
    leave(tab("tab0"))
    seats.give_back("127.0.0.1")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(start, ["once"] * 8))
    assert seats.taken.total() == 2, "two clicks at once are one visit"


@pytest.mark.parametrize("hosts, origins, listens, host, origin, welcome", cases("server_guard_names"))
def test_names(hosts, origins, listens, host, origin, welcome):
    assert (AllowedNames.read(hosts, origins, listens).refusal(host, origin) == "") is welcome


@law(100)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_header_is_judged(host, origin):
    assert isinstance(AllowedNames.read("", "", "127.0.0.1").refusal(host, origin), str)


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None))
nested = st.recursive(plain, lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["type", "data", "x"]), x))


@law(200)
@given(st.one_of(st.text(), nested.map(json.dumps)))
def test_any_text_is_a_message_or_gets_a_reason(text):
    try:
        assert read_message(text) == json.loads(text)
    except ValueError as e:
        assert str(e)


NO_MESSAGES = ["", "[" * 10**5, '{"a":' * 10**5, "9" * 5000, r'{"type": "\ud800"}', *'[] null 1 "reset" NaN'.split()]


def sent_by(guard, *events, send=None, **scope):
    "What a guard sends in answer to some events, after which nothing comes."
    sent, events = [], list(events)

    async def receive():
        return events.pop(0) if events else await asyncio.sleep(3600)

    async def keep(message):
        sent.append(message)

    scope = dict(headers=[(b"host", b"localhost")], client=("127.0.0.1", 1)) | scope
    asyncio.run(asyncio.wait_for(guard(scope, receive, send or keep), 5))
    return sent


def make_guard(app, **options):
    return RequestGuard(app, Seats(1), AllowedNames.read("", "", "127.0.0.1"), **options)


def play(guard, *events, host=b"localhost", origin=None, **more):
    headers = [(b"host", host)] + ([(b"origin", origin)] if origin else [])
    opened = dict(type="websocket.connect")
    return sent_by(guard, opened, *events, type="websocket", path="/ws", headers=headers, **more)


async def echo(scope, receive, send):
    "An application that says what it received, and errs when the client is gone."
    await receive()
    await send(dict(type="websocket.accept"))
    while (message := await receive())["type"] == "websocket.receive":
        await send(dict(type="websocket.send", text=message["text"]))
    await send(dict(type="websocket.close"))


def received(text):
    return {"type": "websocket.receive", "text" if isinstance(text, str) else "bytes": text}


def test_what_is_no_message_gets_an_error_and_the_session_goes_on():
    guard, bad = make_guard(echo), [received(t) for t in [*NO_MESSAGES, b"\x00"]]
    said = play(guard, *bad, received('{"type": "state"}'), dict(type="websocket.disconnect", code=1000))
    texts = [json.loads(m["text"]) for m in said if m["type"] == "websocket.send"]
    assert [t["type"] for t in texts] == ["error"] * len(bad) + ["state"]
    assert all(t["data"]["code"] in ("INVALID_JSON", "VALIDATION_ERROR") for t in texts[:-1])
    assert not guard.seats.taken


@pytest.mark.parametrize("idle, first, n", [(900, 0.01, 0), (0.01, 30, 0), (0.01, 30, 1)])
def test_silence_ends_a_session_and_gives_its_seat_back(idle, first, n, monkeypatch):
    monkeypatch.setattr(limits, "_FIRST_MESSAGE", first)
    said = play(guard := make_guard(echo, idle=idle), *[received("{}")] * n)
    closed = next(m for m in said if m["type"] == "websocket.close")
    assert "no message" in closed["reason"]
    assert said.index(closed) == 1 + n and not guard.seats.taken


def test_strangers_and_one_too_many():
    guard = make_guard(echo)
    for stranger in (dict(origin=b"http://evil.example"), dict(host=b"evil.example")):
        assert [m["type"] for m in play(guard, **stranger)] == ["websocket.close"]
    guard.seats.take("127.0.0.1")
    said = play(guard)
    assert json.loads(said[1]["text"])["data"]["code"] == "CAPACITY_REACHED" and said[2]["code"] == 1013


def test_a_client_that_is_gone_has_no_seat():
    async def gone(message):
        raise OSError("client disconnected")

    guard = make_guard(echo)
    play(guard, dict(type="websocket.disconnect", code=1006), send=gone)
    assert not guard.seats.taken


def requested(app=echo, path="/reset", host=b"localhost", body=None):
    "What a guard sends for a request whose body never comes, or is this one."
    events = [] if body is None else [dict(type="http.request", body=body)]
    headers = [(b"host", host), (b"content-length", b"10")]
    return sent_by(make_guard(app), *events, type="http", method="POST", path=path, headers=headers)


@pytest.mark.parametrize("wrong, status", [(dict(host=b"evil.example"), 403), (dict(path="/web/upload"), 404)])
def test_a_refused_request_does_not_wait_for_its_body(wrong, status):
    sent = requested(**wrong)
    assert [m["type"] for m in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == status and (b"connection", b"close") in sent[0]["headers"]
    assert sent[1]["body"] and not sent[1].get("more_body")


def test_bodies_are_counted_as_they_come():
    "Whatever a client says of their length."
    piece = dict(type="http.request", body=b"x" * 2**16, more_body=True)
    asked = dict(type="http", method="POST", path="/reset", headers=[(b"host", b"localhost")])
    assert sent_by(make_guard(echo), *[piece] * 40, **asked)[0]["status"] == 413


def test_requests_that_keep_no_state_wait_for_each_other():
    "At most so many resets outside sessions at a time, each with an environment of its own."
    now = most = 0

    async def slow(scope, receive, send):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    async def main():
        guard, body = make_guard(slow), dict(type="http.request", body=b"{}")

        async def receive():
            return body

        scope = dict(type="http", method="POST", path="/reset", headers=[(b"host", b"localhost")])
        await asyncio.gather(*[guard(scope, receive, None) for _ in range(100)])

    asyncio.run(main())
    assert most == limits._AT_ONCE


OF_THE_PAGE = ("", "/", "/assets/Index-3.js", "/theme.css", "/gradio_api/queue/join")
NOT_OF_THE_PAGE = """/gradio_api/dev/reload /gradio_api/startup-events /gradio_api/info /gradio_api/upload
/gradio_api/heartbeat /gradio_api/queue/data/x /gradio_api/heartbeat/a/b /monitoring /monitoring/summary /config /login
/state /step /reset /file=x /gradio_api/file=/etc/passwd /gradio_api/stream/a/b/c/playlist.m3u8
/assets/../config /openapi.json""".split()


@pytest.mark.parametrize("path", [*OF_THE_PAGE, *NOT_OF_THE_PAGE])
def test_what_the_page_uses_is_there_and_nothing_else(path):
    async def page(scope, receive, send):
        await send(dict(type="http.response.start", status=200, headers=[]))

    sent = requested(page, path=f"/web{path}", body=b"")
    assert sent[0]["status"] == (200 if path in OF_THE_PAGE else 404)


WRONG_SEEDS = [f'{{"seed": {seed}}}' for seed in ("1e999", "NaN", "true", "1.5", "7" * 5000)]
WRONG_VALUES = [*WRONG_SEEDS, r'{"episode_id": "\ud800"}', r'{"\udfff": 1}', "[]"]
WRONG_VALUES += ['{"a": ' + "[" * 5000 + "]" * 5000 + "}", json.dumps({f"k{i}": i for i in range(20_000)})]


def test_wrong_values_are_422_and_end_no_session():
    served = create_app(Settings(web=False, hosts="*"))
    with TestClient(served, raise_server_exceptions=False) as client:
        for body in WRONG_VALUES:
            assert client.post("/reset", content=body).status_code == 422, body[:50]
            with client.websocket_connect("/ws") as ws:
                ws.send_text('{"type": "reset", "data": ' + body + "}")
                assert ws.receive_json()["type"] == "error", body[:50]
                assert tell(ws, "reset")["type"] == "observation", body[:50]


def results_in(log):
    "What a log says of episodes that are over."
    return [json.loads(line.partition("episode ")[2]) for line in log.splitlines() if "episode {" in line]


def test_a_benchmark_tells_nothing_and_logs_results(questions, caplog):
    caplog.set_level(logging.INFO, "sql_env")
    made = Settings(reveal="none", reward="shaped")
    env = environment_factory(made, questions)()
    q = questions.get("vet_clinic-05")
    seen = []
    for answer in ("987654", "@last"):
        env.reset(question_id=q.question_id, seed=1, episode_id=answer)
        act(env, "QUERY", q.gold_sql)
        obs = act(env, "ANSWER", answer)
        page = "".join(_page_html(env))
        seen.append((obs.model_dump(exclude={"action_history", "metadata"}), page.replace(answer, "")))
        assert obs.done and obs.reward == 0 and set(obs.metadata) == {"episode_id", "question_id"}
        assert "orrect" not in page and "rong" not in page.replace("987654", "") and "outcome" not in page
        act(env, "QUERY", "SELECT 1")
    assert seen[0] == seen[1], "a wrong answer looks like a right one"
    lines = results_in(caplog.text)
    assert [(r["episode_id"], r["correct"], r["steps"]) for r in lines] == [("987654", False, 2), ("@last", True, 2)]


@pytest.fixture(scope="module")
def benchmark_server(tmp_path_factory):
    "A server for strangers: six sessions, three for each, ten seconds to say something, and no verdicts."
    settings = dict(MAX_CONCURRENT_ENVS="6", SQL_ENV_SHARE="3", SQL_ENV_IDLE="10", SQL_ENV_REVEAL="none")
    log = tmp_path_factory.mktemp("log") / "log"
    with open(log, "w") as f, Server(ENABLE_WEB_INTERFACE="true", stderr=f, **settings) as s:
        s.log = log
        yield s


async def opened(server, address="127.0.0.1", **options):
    return await websockets.connect(server.ws, proxy=None, local_addr=(address, 0), **options)


@pytest.mark.slow
def test_strangers_shares_and_silent_clients_of_a_real_server(benchmark_server):
    reset = json.dumps({"type": "reset", "data": {"seed": 1}})

    async def main():
        for options in (dict(origin="http://evil.example"), dict(additional_headers={"Origin": "null"})):
            with pytest.raises(websockets.InvalidStatus):
                await opened(benchmark_server, **options)
        await (await opened(benchmark_server, origin=benchmark_server.http)).close()
        silent = [await opened(benchmark_server, "127.0.0.3") for _ in range(3)]
        fourth = await opened(benchmark_server, "127.0.0.3")
        assert "share" in await fourth.recv()
        other = await opened(benchmark_server, "127.0.0.4")
        await other.send(reset)
        assert "question" in await other.recv()
        for socket_ in silent:  # closed for silence, not by us
            with pytest.raises(websockets.ConnectionClosed) as e:
                await asyncio.wait_for(socket_.recv(), 120)
            assert "no message" in e.value.rcvd.reason
        again = await opened(benchmark_server, "127.0.0.3")
        await again.send(reset)
        assert "question" in await again.recv()
        await other.close()
        await again.close()

    asyncio.run(main())


@pytest.mark.slow
def test_guessing_finds_nothing(benchmark_server, questions):
    with SQLEnv(base_url=benchmark_server.http).sync() as env:
        result = evaluate(env, OraclePolicy(questions), 2, progress=False)
        assert [e.error.partition(":")[0] for e in result.episodes] == [VerdictWithheldError.__name__] * 2
    kept = results_in(benchmark_server.log.read_text())
    assert [r["correct"] for r in kept[-2:]] == [True, True] and len(kept) == 2


@pytest.mark.slow
def test_the_queue_of_the_page_obeys_the_capacity(benchmark_server):
    "A program presses the button of 40 tabs; programs then find no seat either."
    s = benchmark_server
    page = ask(s.port, "/web/")[1]
    config = json.JSONDecoder().raw_decode(page.partition("window.gradio_config = ")[2])[0]
    click = next(d for d in config["dependencies"] if d["targets"][0][1] == "click")
    said = []
    for i in range(40):
        data = dict(data=["", "", "", ""], fn_index=click["id"], session_hash=f"tab{i}")
        ask(s.port, "/web/gradio_api/queue/join", "POST", data, **{"Content-Type": "application/json"})
        with urllib.request.urlopen(f"{s.http}/web/gradio_api/queue/data?session_hash=tab{i}", timeout=120) as r:
            said.append(next(line for line in map(bytes.decode, r) if "process_completed" in line))
    started = [text for text in said if "steps left" in text]
    assert len(started) == 3 and "share" in said[-1]

    async def main():
        mine = await opened(s)
        assert "share" in await mine.recv()

    asyncio.run(main())


@pytest.mark.slow
def test_a_server_that_is_stopped_under_load_logs_no_traceback(tmp_path):
    slow = "SELECT count(*) FROM visit a, visit b, visit c"
    with open(tmp_path / "log", "w") as log, Server(stderr=log) as s:

        async def main():
            sessions = [await Session.open(s.ws) for _ in range(12)]
            for one in sessions:
                await one.call("reset", question_id="vet_clinic-02")
            for one in sessions:
                await one.ws.send(json.dumps(dict(type="step", data=dict(action_type="QUERY", argument=slow))))
            await asyncio.sleep(0.2)
            s.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            for one in sessions[:6]:
                one.ws.transport.abort()
            for one in sessions[6:]:
                await one.ws.close()

        asyncio.run(main())
        s.process.wait(120)
    text = (tmp_path / "log").read_text()
    assert "Shutting down" in text and "Traceback" not in text and "ERROR" not in text, text[-2000:]


@pytest.mark.full
@pytest.mark.slow
def test_memory_of_hostile_sessions():
    found = benchmark.run(["hostile_memory"], quick=True)["hostile_memory"]
    assert found["mb_added"] < 100, found
    assert found["mb_kept"] < 60, found


@pytest.mark.parametrize("inner", ("[],", "{},", "0,", '"",', '{"a":1},'))
def test_a_message_of_many_parts_is_refused_before_it_is_read(inner, monkeypatch):
    "To read a megabyte of them holds the loop for 50 ms; a long text of the same characters is one part."
    monkeypatch.setattr("json.loads", None)
    with pytest.raises(ValueError, match="more than 500 parts"):
        read_message('{"type": "reset", "data": {"a": [' + inner * 200_000 + "0]}}")
    monkeypatch.undo()
    assert read_message(json.dumps(dict(text=inner * 20_000)))["text"] == inner * 20_000


def test_what_is_too_deep_for_mcp_is_refused(caplog):
    "It was a traceback of the library in the log, and a 500."
    app = create_app(Settings(web=False, hosts="*"))
    with TestClient(app) as http:
        assert http.post("/mcp", content="[" * 200_000, headers=BOTH).status_code == 422
    assert not caplog.records
