"Tools over MCP: the reference client in memory, over stdio and over HTTP, and OpenEnv's client at `/mcp`."

import asyncio
import gc
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import json_values, law
from tables import cases

pytest.importorskip("mcp", reason="mcp is not installed: pip install 'sql_env[server]'")

import httpx
from conftest import ROOT
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_connected_server_and_client_session as connect
from mcp_words import BOTH, OPENING
from openenv.core.env_server.types import ConcurrencyConfig as Config
from test_server_guard import results_in

from sql_env import EpisodeEnv, Session, load
from sql_env.grading.answers import format_rows
from sql_env.play import tool_schemas
from sql_env.play.acts import ACTIONS, EXTRA_ACTIONS
from sql_env.server import mcp_tools
from sql_env.server.app import create_app
from sql_env.server.environment import SQLEnvironment
from sql_env.server.limits import MAX_MESSAGE_BYTES, Seats
from sql_env.server.settings import Settings

QUESTION = "vet_clinic-02"
START, LOOK = ("start", dict(question_id=QUESTION)), ("describe", dict(table_name="animal"))


class Client:
    "What stands for a session of MCP."


def make_players(questions, capacity=8, share=0, reveal="none", actions=ACTIONS, **options):
    make = partial(SQLEnvironment, questions, reveal=reveal, actions=actions)
    return mcp_tools.Players(make, Seats(capacity, share), **options)


async def read(client, name, **arguments):
    "The text of a call and whether it is an error."
    result = await client.call_tool(name, arguments)
    assert [part.type for part in result.content] == ["text"]
    return result.content[0].text, result.isError


def server_of(players):
    return mcp_tools.make_mcp_server(players, players.make().episode_env.actions)._mcp_server


def in_memory(players, play):
    async def connected():
        async with connect(server_of(players)) as client:
            return await play(client)

    return asyncio.run(connected())


def played(players, *calls):
    "What each call of a connection gets: its text and whether it is an error."

    async def play(client):
        return [await read(client, name, **arguments) for name, arguments in calls]

    return in_memory(players, play)


@contextmanager
def serving(app):
    "The address of an application that is served on the loopback in a thread."
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs=dict(sockets=[listening]), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


@asynccontextmanager
async def http_client(url, **options):
    async with (
        streamable_http_client(f"{url}/mcp", **options) as (incoming, outgoing, _),
        ClientSession(incoming, outgoing) as client,
    ):
        await client.initialize()
        yield client


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never happened")


@pytest.mark.parametrize("actions", [ACTIONS, ACTIONS + EXTRA_ACTIONS])
def test_the_tools_are_start_which_the_server_names_and_those_of_the_episode(questions, actions):
    async def opened(client):
        return (await client.initialize()).instructions, (await client.list_tools()).tools

    instructions, (start, *others) = in_memory(make_players(questions, actions=actions), opened)
    assert start.name == "start" and "start" in instructions
    assert set(start.inputSchema["properties"]) == {"question_id", "split", "difficulty", "index", "seed"}
    for tool, schema in zip(others, tool_schemas(actions), strict=True):
        said = dict(name=tool.name, description=tool.description, parameters=tool.inputSchema)
        assert said == {name: schema["function"][name] for name in said}
        assert tool.annotations.readOnlyHint == (tool.name in ("describe", "sample", "query"))


def test_texts_are_those_of_a_session(questions):
    session = Session(EpisodeEnv(questions))
    begun = session.begin(question_id=QUESTION)[-1]["content"]
    calls = [LOOK, *(("sample", dict(table_name=name)) for name in ("Animal", "animals"))]
    calls += [("query", dict(sql=f"SELECT {what}")) for what in ("count(*) FROM animal", "* FROM sqlite_master")]
    calls += [("query", dict(statement="SELECT 1")), ("query", dict(sql="SELECT 1"))]
    calls += [("query", dict(sql="SELECT 1", limit=3)), ("answer", dict(value="12"))]
    [start, *said] = played(make_players(questions), START, *calls)
    assert start[0].startswith(begun) and not start[1]
    assert [text for text, _ in said] == [session.call(*call) for call in calls]
    assert [is_error for _, is_error in said] == [False, False, True, False, True, True, False, False, False]
    assert said[-2] == said[-3], "an argument too many is left out"


@pytest.mark.parametrize("name, arguments, begin, says", cases("mcp_wrong"))
def test_errors_say_what_to_do_and_keep_the_episode(questions, name, arguments, begin, says):
    calls = [*[START] * begin, (name, arguments), LOOK, START, LOOK]
    *_, (text, is_error), meanwhile, _, after = played(make_players(questions), *calls)
    assert is_error and says in text, text
    assert "Traceback" not in text and str(ROOT) not in text
    assert meanwhile[1] is not begin and not after[1]


def test_after_the_end_only_start_helps_and_without_a_seed_it_draws_by_chance_and_with_one_repeats(questions, caplog):
    caplog.set_level(logging.INFO, "sql_env")
    calls = [START, ("answer", dict(value="3")), ("answer", dict(value="4")), ("query", dict(sql="SELECT 1")), START]
    _, end, *late, again = played(make_players(questions), *calls)
    assert end == ("The answer was submitted.", False)
    assert all(is_error and "call start" in text for text, is_error in late)
    assert not again[1]
    assert [(line["question_id"], line["steps"]) for line in results_in(caplog.text)] == [(QUESTION, 1)]
    assert len(set(played(make_players(questions), *[("start", {})] * 12))) > 6
    assert len(set(played(make_players(questions), *[("start", dict(seed=5))] * 3))) == 1


@pytest.mark.parametrize("value, says", [("3", "wrong"), ("@last", "right"), (None, "wrong")])
@pytest.mark.parametrize("reveal", ["none", "verdict"])
def test_a_verdict_is_told_only_if_asked_for(questions, reveal, value, says):
    gold = ("query", dict(sql=questions.get(QUESTION).gold_sql))
    players = make_players(questions, reveal=reveal, actions=ACTIONS + EXTRA_ACTIONS)
    if value is None:
        _, (text, is_error) = played(players, START, ("abstain", dict(reason="There is no such column.")))
        assert not is_error and text.startswith("The episode ended without an answer.")
        assert ("Abstaining was wrong." in text) == (reveal == "verdict")
    else:
        *_, (text, _) = played(players, START, gold, ("answer", dict(value=value)))
        assert text == "The answer was submitted." if reveal == "none" else f"The answer is {says}" in text


def test_calls_of_one_session_at_the_same_time_are_carried_out_in_their_order(questions):
    async def play(client):
        await read(client, "start", question_id=QUESTION)
        return await asyncio.gather(*(read(client, "query", sql=f"SELECT {i} AS n") for i in range(10)))

    players, taken = make_players(questions), []
    act, players.call = players.call, lambda *about: (taken.append(about[2]), act(*about))[1]
    said = in_memory(players, play)
    assert [text.split()[1] for text, _ in said] == [str(i) for i in range(10)]
    assert [arguments["sql"] for arguments in taken[1:]] == [f"SELECT {i} AS n" for i in range(10)]


def test_seats_are_taken_by_start_and_given_back_at_the_end(questions):
    players = make_players(questions, capacity=2)

    async def scenario():
        server = server_of(players)
        async with connect(server) as a:
            assert players.seats.taken.total() == 0
            await read(a, "start")
            await read(a, "start")
            assert players.seats.taken.total() == 1
            async with connect(server) as b, connect(server) as c:
                await read(b, "start")
                text, is_error = await read(c, "start")
                assert is_error and "capacity" in text and "again later" in text
            assert not (await read(a, "describe", table_name="nothing"))[0].startswith("internal")
            gc.collect()
            async with connect(server) as c:
                assert not (await read(c, "start"))[1]

    asyncio.run(scenario())
    gc.collect()
    assert players.seats.taken.total() == 0


def test_an_idle_client_gives_way_to_another(questions):
    now = [0.0]
    players = make_players(questions, capacity=1, idle=60, clock=lambda: now[0])
    a, b = Client(), Client()
    assert not players.call(a, "start", dict(question_id=QUESTION))[1]
    now[0] = 59
    assert players.call(b, "start", {})[1]
    now[0] = 61
    assert not players.call(b, "start", {})[1]
    text, is_error = players.call(a, "describe", dict(table_name="animal"))
    assert is_error and "nothing was done" in text
    assert players.call(a, "start", {})[1]
    del b
    assert not players.call(a, "start", {})[1]
    del a
    assert players.seats.taken.total() == 0


def test_what_fails_inside_is_told_without_details(questions, monkeypatch, caplog):
    players = make_players(questions)
    client = Client()
    players.call(client, "start", dict(question_id=QUESTION))
    monkeypatch.setattr(Session, "call_or_raise", lambda *_: 1 / 0)
    text, is_error = players.call(client, "describe", dict(table_name="animal"))
    assert is_error and "call start" in text and "division" not in text
    assert "division" in caplog.text


value = json_values(st.text(max_size=8), max_leaves=6)
names = st.sampled_from(["start", "describe", "sample", "query", "answer", "", "reset"]) | st.text(max_size=9)
some = dict(table_name="animal", sql="SELECT 1", value="@last", question_id=QUESTION, seed=3)
arguments = st.dictionaries(st.text(max_size=8), value, max_size=3) | st.fixed_dictionaries(
    {}, optional={name: value | st.just(v) for name, v in some.items()}
)


@law(25)
@given(st.lists(st.tuples(st.integers(0, 2), names, arguments), max_size=12))
def test_whatever_clients_send_they_get_text_and_seats_add_up(calls):
    players = make_players(load("bundled"), capacity=2)
    clients = [Client() for _ in range(3)]
    for i, name, given_arguments in calls:
        text, is_error = players.call(clients[i], name, given_arguments)
        assert isinstance(text, str) and isinstance(is_error, bool)
        assert "internal" not in text, text
        assert players.seats.taken.total() == sum(p.has_seat for p in players._players.values()) <= 2
    clients.clear()
    assert players.seats.taken.total() == 0


@pytest.fixture(scope="module")
def site():
    "A server on the loopback."
    with serving(create_app(Settings(web=False, capacity=4, split="test", reveal="none"))) as url:
        yield url


def test_http_clients_play_at_the_same_time_and_free_their_seats(site, questions):
    url = site

    async def play(question_id):
        async with http_client(url) as client:
            first = await read(client, "start", question_id=question_id)
            await read(client, "query", sql=questions.get(question_id).gold_sql)
            return first[0], await read(client, "answer", value="@last")

    async def all_of_them():
        ids = [q.question_id for q in questions.split("test").sample(8, seed=2)]
        said = [*await asyncio.gather(*map(play, ids[:4])), *await asyncio.gather(*map(play, ids[4:]))]
        for id_, (first, last) in zip(ids, said):
            assert questions.get(id_).question_text in first
            assert last == ("The answer was submitted.", False)

    asyncio.run(all_of_them())


def bad_requests():
    call = dict(jsonrpc="2.0", id=2, method="tools/call", params=dict(name="start", arguments={}))
    yield dict(content=b"{", headers=BOTH), 422
    yield dict(content=b"[1]", headers=BOTH), 422
    yield dict(content=b"[" * 100_000, headers=BOTH), 422
    yield dict(json=call, headers=BOTH), 400  # without a session
    yield dict(json=call, headers=BOTH | {"mcp-session-id": "nobody"}), 404
    yield dict(json=OPENING, headers={"accept": "text/html"}), 200  # OpenEnv's own endpoint answers
    yield dict(json=OPENING, headers=BOTH | {"host": "evil.example"}), 403
    yield dict(json=OPENING, headers=BOTH | {"origin": "https://evil.example"}), 403
    yield dict(content=b"x" * (MAX_MESSAGE_BYTES + 1), headers=BOTH), 413
    yield dict(content=(b"x" * 2**16 for _ in range(40)), headers=BOTH), 413


def test_wrong_requests_are_refused_harm_nobody_and_huge_arguments_get_a_short_answer(site):
    url = site

    async def beside():
        async with http_client(url) as client:
            await read(client, "start")
            for request, status in bad_requests():
                answer = await asyncio.to_thread(httpx.post, f"{url}/mcp", **request)
                assert answer.status_code == status, (status, answer.text)
                assert "Traceback" not in answer.text
            assert not (await read(client, "query", sql="SELECT 1"))[1]
            for name, what in dict(query="sql", describe="table_name", start="question_id", answer="value").items():
                assert len((await read(client, name, **{what: "x" * 900_000}))[0]) < 5000
            assert len((await read(client, "x" * 100_000))[0]) < 5000

    asyncio.run(beside())


@pytest.mark.parametrize("n", [40, pytest.param(10**6, marks=pytest.mark.slow)])
def test_no_byte_over_http_holds_gold(questions, n):
    seen, asked = [], questions.sample(min(n, len(questions)), seed=0)
    random_headers = (b"mcp-session-id", b"content-length", b"date")  # digits in them are gold's by chance alone
    app = create_app(Settings(web=False, reveal="verdict"))

    async def tap(scope, receive, send):
        async def tapped(message):
            headers = [pair for pair in message.get("headers", ()) if pair[0] not in random_headers]
            seen.append(message.get("body", b"") + repr(headers).encode())
            await send(message)

        await app(scope, receive, tapped)

    async def play(url):
        async with http_client(url) as client:
            await client.list_tools()
            for q in asked:
                at, table = len(seen), q.tables_involved[0]
                await read(client, "start", question_id=q.question_id)
                own = [await read(client, "describe", table_name=t) for t in q.tables_involved]
                own.append(await read(client, "query", sql=f"SELECT count(*) FROM {table}"))
                await read(client, "query", sql="SELECT * FROM sqlite_master")
                await read(client, "answer", value="[")
                await read(client, "answer", value="nothing of the kind")
                yield q, b" ".join(seen[at:]).decode(), " ".join(text for text, _ in own)

    async def search(url):
        searched = 0
        async with aclosing(play(url)) as plays:  # closes the client in this task, so that a failure shows itself
            async for q, sent, own in plays:
                assert q.gold_sql not in sent and json.dumps(q.gold_sql)[1:-1] not in sent
                for row in q.gold_answer:
                    shown = format_rows([row])
                    if len(shown) > 3 and shown not in own + q.question_text:
                        searched += 1
                        assert json.dumps(shown)[1:-1] not in sent, (q.question_id, shown)
        assert searched >= len(asked)

    with serving(tap) as url:
        asyncio.run(search(url))


def stdio_command(*options):
    command = [sys.executable, "-c", "from sql_env.cli import main; main()", "mcp", *options]
    return command, os.environ | dict(PYTHONPATH=str(ROOT))


@pytest.mark.slow
def test_the_command_over_stdio(questions):
    command, environment = stdio_command("--split", "test")
    question = questions.split("test")[0]

    async def play():
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment)
        async with stdio_client(parameters) as streams, ClientSession(*streams) as client:
            await client.initialize()
            assert len((await client.list_tools()).tools) == 5
            first = await read(client, "start", question_id=question.question_id)
            assert question.question_text in first[0]
            assert (await read(client, "query", sql="SELECT name FROM sqlite_master"))[1]
            await read(client, "query", sql=question.gold_sql)
            return await read(client, "answer", value="@last")

    assert asyncio.run(play()) == ("The answer was submitted.", False)


@pytest.mark.slow
def test_bad_lines_over_stdio_do_not_end_it_and_the_end_of_input_does():
    command, environment = stdio_command()
    lines = [
        json.dumps(OPENING).encode(),
        json.dumps(dict(jsonrpc="2.0", method="notifications/initialized")).encode(),
        b"{",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        json.dumps(dict(jsonrpc="2.0", id=2, method="nothing")).encode(),
        json.dumps(dict(jsonrpc="2.0", id=3, method="tools/call", params=dict(name=5))).encode(),
        json.dumps(dict(jsonrpc="2.0", id=4, method="tools/list")).encode(),
    ]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, env=environment, **pipes)
    process.stdin.write(b"".join(line + b"\n" for line in lines))
    process.stdin.flush()
    answers = {}
    while 4 not in answers:
        answer = json.loads(process.stdout.readline())  # nothing else is ever printed there
        answers[answer.get("id")] = answer
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and b"Traceback" not in errors
    assert "error" in answers[2] and "error" in answers[3] and answers[4]["result"]["tools"]


def rpc(url, method, **params):
    body = dict(jsonrpc="2.0", id=1, method=method, params=params)
    return httpx.post(f"{url}/mcp", json=body).json()


@pytest.fixture(scope="module")
def small_site():
    with serving(create_app(Settings(web=False, capacity=2, split="test", idle=900))) as url:
        yield url


def test_openenv_sessions_over_http_take_seats_and_bad_requests_get_errors(small_site):
    made = [rpc(small_site, "openenv/session/create")["result"]["session_id"] for _ in range(2)]
    assert "error" in rpc(small_site, "openenv/session/create")
    for body in (b"{", b"[]", b"[" * 100_000):
        assert httpx.post(f"{small_site}/mcp", content=body).status_code == 422, body[:20]
    for body in (b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "method": "x"}'):
        assert httpx.post(f"{small_site}/mcp", content=body).json()["error"]["code"] < 0, body[:20]
    for session_id in made:
        assert rpc(small_site, "openenv/session/close", session_id=session_id)["result"]["closed"]
    again = rpc(small_site, "openenv/session/create")["result"]["session_id"]
    rpc(small_site, "openenv/session/close", session_id=again)


def test_openenv_sessions_that_nobody_uses_expire(monkeypatch):
    made = []
    monkeypatch.setattr("sql_env.server.app.ConcurrencyConfig", lambda **about: made.append(about) or Config(**about))
    create_app(Settings(web=False, capacity=3, idle=100))
    create_app(Settings(web=False, idle=0))
    assert made[0] == dict(max_concurrent_envs=3, session_timeout=160) and made[1]["session_timeout"] is None


def test_two_clients_of_one_server_share_its_seats(small_site, questions):
    question = questions.split("test")[5]

    async def play():
        async with (
            http_client(small_site) as client,
            http_client(small_site) as other,
            http_client(small_site) as third,
        ):
            await read(client, "start", question_id=question.question_id)
            await read(other, "start")
            assert "capacity" in (await read(third, "start"))[0]
            await read(client, "query", sql=question.gold_sql)
            return await read(client, "answer", value="@last")

    assert asyncio.run(play()) == ("The answer was submitted.\nThe answer is right.", False)
