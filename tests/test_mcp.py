"Tools over MCP: the reference client in memory, over stdio and over HTTP, and OpenEnv's client at `/mcp`."

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import aclosing, asynccontextmanager, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import json_values, law
from tables import cases

pytest.importorskip("mcp", reason="mcp is not installed: pip install 'sql_env[mcp]'")

import httpx
from conftest import ROOT, run
from made_rows import replay_problems
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_connected_server_and_client_session as connect
from mcp_words import BOTH, OPENING
from sql_env.database.workers import Workers

from sql_env import EpisodeEnv, Session, load
from sql_env.evaluation.logs import read_log
from sql_env.grading.answers import format_rows
from sql_env.play import tool_schemas
from sql_env.play.acts import ACTIONS, EXTRA_ACTIONS
from sql_env.server import mcp_tools
from sql_env.server.limits import MAX_MESSAGE_BYTES
from sql_env.server.settings import Seats, Settings

QUESTION = "vet_clinic-02"
START, LOOK = ("start", dict(question_id=QUESTION)), ("describe", dict(table_name="animal"))


def make_players(questions, capacity=8, share=0, reveal="none", on_end=None, actions=ACTIONS, **options):
    env = EpisodeEnv(questions, actions=actions)
    return mcp_tools.Players(lambda: mcp_tools.Player(Session(env), reveal, on_end), Seats(capacity, share), **options)


async def read(client, name, **arguments):
    "The text of a call and whether it is an error."
    result = await client.call_tool(name, arguments)
    assert [part.type for part in result.content] == ["text"]
    return result.content[0].text, result.isError


def in_memory(players, play):
    async def connected():
        async with connect(mcp_tools.make_mcp_server(players)) as client:
            return await play(client)

    return asyncio.run(connected())


def played(players, *calls):
    "What each call of a connection gets: its text and whether it is an error."

    async def play(client):
        return [await read(client, name, **arguments) for name, arguments in calls]

    return in_memory(players, play)


def app_of(players):
    return mcp_tools._http_app(players, Settings(), Workers())


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
        assert tool.annotations.readOnlyHint == (tool.name in ("describe", "sample", "query", "search"))


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


def test_after_the_end_only_start_helps_and_without_a_seed_it_draws_by_chance_and_with_one_repeats(questions):
    calls = [START, ("answer", dict(value="3")), ("answer", dict(value="4")), ("query", dict(sql="SELECT 1")), START]
    _, end, *late, again = played(make_players(questions, on_end=(kept := []).append), *calls)
    assert end == ("The answer was submitted.", False)
    assert all(is_error and "call start" in text for text, is_error in late)
    assert not again[1]
    assert [e.steps for e in kept] == [1, 0]  # the second was left when the connection ended
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

    said = in_memory(make_players(questions, on_end=(kept := []).append), play)
    assert [text.split()[1] for text, _ in said] == [str(i) for i in range(10)]
    assert [turn.action.argument for turn in kept[0].turns] == [f"SELECT {i} AS n" for i in range(10)]


def test_seats_are_taken_by_start_and_given_back_at_the_end(questions):
    players = make_players(questions, capacity=2)

    async def scenario():
        server = mcp_tools.make_mcp_server(players)
        async with connect(server) as a:
            assert (len(players), players.seats.taken.total()) == (1, 0)
            await read(a, "start")
            await read(a, "start")
            assert players.seats.taken.total() == 1
            async with connect(server) as b, connect(server) as c:
                await read(b, "start")
                text, is_error = await read(c, "start")
                assert is_error and "capacity" in text and "again later" in text
            assert not (await read(a, "describe", table_name="nothing"))[0].startswith("internal")
            async with connect(server) as c:
                assert not (await read(c, "start"))[1]
        assert (len(players), players.seats.taken.total()) == (0, 0)

    asyncio.run(scenario())


def test_an_idle_client_gives_way_to_another(questions):
    now, kept = [0.0], []
    players = make_players(questions, capacity=1, idle=60, clock=lambda: now[0], on_end=kept.append)
    a, b = players.enter(), players.enter()
    assert not players.call(a, "", "start", dict(question_id=QUESTION))[1]
    now[0] = 59
    assert players.call(b, "", "start", {})[1]
    now[0] = 61
    assert not players.call(b, "", "start", {})[1]
    assert kept[0].question.question_id == QUESTION and not kept[0].done
    text, is_error = players.call(a, "", "describe", dict(table_name="animal"))
    assert is_error and "nothing was done" in text
    assert players.call(a, "", "start", {})[1]
    players.leave(b)
    assert not players.call(a, "", "start", {})[1]
    players.leave(a)
    assert players.seats.taken.total() == 0


def test_what_fails_inside_is_told_without_details(questions, monkeypatch, caplog):
    players = make_players(questions)
    client = players.enter()
    players.call(client, "", "start", dict(question_id=QUESTION))
    monkeypatch.setattr(Session, "call_or_raise", lambda *_: 1 / 0)
    text, is_error = players.call(client, "", "describe", dict(table_name="animal"))
    assert is_error and "call start" in text and "division" not in text
    assert "division" in caplog.text


value = json_values(st.text(max_size=8), max_leaves=6)
names = st.sampled_from(["start", "describe", "sample", "query", "answer", "", "reset"]) | st.text(max_size=9)
some = dict(table_name="animal", sql="SELECT 1", value="@last", question_id=QUESTION, seed=3)
arguments = value | st.fixed_dictionaries({}, optional={name: value | st.just(v) for name, v in some.items()})


@law(25)
@given(st.lists(st.tuples(st.integers(0, 2), names, arguments), max_size=12))
def test_whatever_clients_send_they_get_text_and_seats_add_up(calls):
    players = make_players(load("bundled"), capacity=2)
    clients = [players.enter() for _ in range(3)]
    for i, name, given_arguments in calls:
        text, is_error = players.call(clients[i], "", name, given_arguments)
        assert isinstance(text, str) and isinstance(is_error, bool)
        assert "internal" not in text, text
        assert players.seats.taken.total() == sum(c.address is not None for c in clients) <= 2
    for client in clients:
        players.leave(client)
    assert (len(players), players.seats.taken.total()) == (0, 0)


def test_a_log_holds_episodes_that_ended_and_were_left_and_is_locked_while_its_server_runs(questions, tmp_path):
    env, path = EpisodeEnv(questions), tmp_path / "agent.jsonl"
    for _ in range(2):  # a second process goes on with the same file
        with mcp_tools._log_journal(path, env) as journal:
            players = make_players(questions, on_end=journal.add)
            client = players.enter()
            for id_ in ("vet_clinic-03", QUESTION):
                players.call(client, "", "start", dict(question_id=id_, seed=3))
                players.call(client, "", "describe", dict(table_name="animal"))
            players.call(client, "", "query", dict(sql=questions.get(QUESTION).gold_sql))
            players.call(client, "", "answer", dict(value="@last"))
            players.leave(client)
    about, found = read_log(path)
    assert about["policy"] == "mcp"
    assert [t.episode.episode_index for t in found] == [0, 1, 2, 3]
    assert [t.correct for t in found] == [False, True] * 2
    assert [t.episode.steps for t in found] == [1, 3] * 2
    assert replay_problems(path, questions) == {}
    path = tmp_path / "empty.jsonl"  # an empty one is removed
    with mcp_tools._make_players(Settings(), path), pytest.raises(ValueError, match="another run"):
        mcp_tools._make_players(Settings(), path).__enter__()
    assert not path.exists()
    with mcp_tools._make_players(Settings(), path):
        pass


@pytest.fixture(scope="module")
def site(questions):
    "A server for MCP on the loopback, its players and its address."
    settings = Settings(capacity=4, split="test", reveal="none")
    with mcp_tools._make_players(settings, None) as players, serving(app_of(players)) as url:
        yield players, url


def test_http_clients_play_at_the_same_time_and_free_their_seats(site, questions):
    players, url = site

    async def play(question_id):
        async with http_client(url) as client:
            first = await read(client, "start", question_id=question_id)
            await read(client, "query", sql=questions.get(question_id).gold_sql)
            assert players.seats.taken.total() > 0
            return first[0], await read(client, "answer", value="@last")

    async def all_of_them():
        ids = [q.question_id for q in questions.split("test").sample(4, seed=2)]
        said = await asyncio.gather(*map(play, ids))
        for id_, (first, last) in zip(ids, said):
            assert questions.get(id_).question_text in first
            assert last == ("The answer was submitted.", False)
        await until(lambda: not len(players) and not players.seats.taken.total())

    asyncio.run(all_of_them())


def test_a_client_that_vanishes_loses_its_session_when_it_is_idle(questions):
    players = make_players(questions, capacity=1, idle=0.2)

    async def play(url):
        async with http_client(url, terminate_on_close=False) as client:
            await read(client, "start")
        await until(lambda: not len(players) and not players.seats.taken.total())

    with serving(app_of(players)) as url:
        asyncio.run(play(url))


def bad_requests():
    call = dict(jsonrpc="2.0", id=2, method="tools/call", params=dict(name="start", arguments={}))
    yield dict(content=b"{", headers=BOTH), 400
    yield dict(content=b"[1]", headers=BOTH), 400
    yield dict(content=b"[" * 100_000, headers=BOTH), 422
    yield dict(json=call, headers=BOTH), 400  # without a session
    yield dict(json=call, headers=BOTH | {"mcp-session-id": "nobody"}), 404
    yield dict(json=OPENING, headers={"accept": "text/html"}), 406
    yield dict(json=OPENING, headers=BOTH | {"host": "evil.example"}), 403
    yield dict(json=OPENING, headers=BOTH | {"origin": "https://evil.example"}), 403
    yield dict(content=b"x" * (MAX_MESSAGE_BYTES + 1), headers=BOTH), 413
    yield dict(content=(b"x" * 2**16 for _ in range(40)), headers=BOTH), 413


def test_wrong_requests_are_refused_harm_nobody_and_huge_arguments_get_a_short_answer(site):
    _, url = site

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
    app = app_of(make_players(questions, reveal="verdict"))

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
def test_the_command_over_stdio(questions, tmp_path):
    log = tmp_path / "agent.jsonl"
    (command, *options), environment = stdio_command("--split", "test", "--log", str(log))
    question = questions.split("test")[0]

    async def play():
        parameters = StdioServerParameters(command=command, args=options, env=environment)
        async with stdio_client(parameters) as streams, ClientSession(*streams) as client:
            await client.initialize()
            assert len((await client.list_tools()).tools) == 5
            first = await read(client, "start", question_id=question.question_id)
            assert question.question_text in first[0]
            assert (await read(client, "query", sql="SELECT name FROM sqlite_master"))[1]
            await read(client, "query", sql=question.gold_sql)
            return await read(client, "answer", value="@last")

    assert asyncio.run(play()) == ("The answer was submitted.", False)
    _, [trajectory] = read_log(log)
    assert trajectory.correct and trajectory.episode.robust


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


@pytest.fixture(scope="module")
def openenv_site(questions):
    pytest.importorskip("openenv")
    from sql_env.server.app import create_app

    with serving(create_app(Settings(web=False, capacity=2, split="test"))) as url:
        yield url


def test_openenv_client_plays_over_mcp(openenv_site, questions):
    from openenv.core.mcp_client import MCPToolClient

    question = questions.split("test")[3]

    async def play():
        async with MCPToolClient(openenv_site) as env:
            names = [tool.name for tool in await env.list_tools()]
            assert names == ["start", *(s["function"]["name"] for s in tool_schemas())]
            assert "call start" in await env.call_tool("query", sql="SELECT 1")
            await env.reset(question_id=question.question_id)  # the trainer's way to begin
            assert "error" in await env.call_tool("query", sql="SELECT * FROM sqlite_master")
            assert "Tools: " in await env.call_tool("look")
            await env.call_tool("query", sql=question.gold_sql)
            state = await env.state()
            assert state.step_count == 2
            assert await env.call_tool("answer", value="@last") == "The answer was submitted."
            assert "call start" in await env.call_tool("answer", value="1")
            begun = await env.call_tool("start", question_id=question.question_id)  # the agent's
            assert question.question_text in begun
            assert "must be a whole number" in await env.call_tool("start", seed="x")

    asyncio.run(play())


def rpc(url, method, **params):
    body = dict(jsonrpc="2.0", id=1, method=method, params=params)
    return httpx.post(f"{url}/mcp", json=body).json()


def test_openenv_sessions_over_http_take_seats_and_bad_requests_get_errors_of_json_rpc(openenv_site):
    made = [rpc(openenv_site, "openenv/session/create")["result"]["session_id"] for _ in range(2)]
    assert "capacity" in rpc(openenv_site, "openenv/session/create")["error"]["message"]
    for body in (b"{", b"[]", b"[" * 100_000, b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "method": "x"}'):
        assert httpx.post(f"{openenv_site}/mcp", content=body).json()["error"]["code"] < 0, body[:20]
    start, query = dict(name="start", arguments={}), dict(name="query", arguments=dict(sql="SELECT 1"))
    one, other = (dict(session_id=session_id) for session_id in made)
    for session, call, is_error in ((one, start, False), (one, query, False), (other, query, True), ({}, query, True)):
        assert rpc(openenv_site, "tools/call", **session, **call)["result"]["is_error"] is is_error
    for session_id in made:
        assert rpc(openenv_site, "openenv/session/close", session_id=session_id)["result"]["closed"]
    again = rpc(openenv_site, "openenv/session/create")["result"]["session_id"]
    rpc(openenv_site, "openenv/session/close", session_id=again)


def test_reference_clients_use_the_same_address_and_the_same_seats(openenv_site, questions):
    question = questions.split("test")[5]

    async def play():
        async with http_client(openenv_site) as client, http_client(openenv_site) as other:
            await read(client, "start", question_id=question.question_id)
            await read(other, "start")
            third = await asyncio.to_thread(rpc, openenv_site, "openenv/session/create")
            assert "capacity" in third["error"]["message"]
            await read(client, "query", sql=question.gold_sql)
            return await read(client, "answer", value="@last")

    assert asyncio.run(play()) == ("The answer was submitted.", False)


def test_results_of_openenv_mcp_are_written_down(questions, tmp_path):
    pytest.importorskip("openenv")
    from sql_env.server.app import create_app

    path = tmp_path / "results.jsonl"

    async def play(url):
        async with http_client(url) as client:
            await read(client, "start", question_id=QUESTION)
            await read(client, "answer", value="3")
            await read(client, "start", question_id="vet_clinic-03")

    with serving(create_app(Settings(web=False, results=str(path)))) as url:
        asyncio.run(play(url))
    found = map(json.loads, path.read_text().splitlines())
    assert [(line["question_id"], line["steps"]) for line in found] == [(QUESTION, 1), ("vet_clinic-03", 0)]


def test_an_endpoint_that_does_not_run_says_so(questions):
    with pytest.raises(RuntimeError, match="run"):
        asyncio.run(mcp_tools.HttpEndpoint(make_players(questions))({}, None, None))


@pytest.mark.slow
def test_the_tools_need_mcp_and_nothing_of_openenv():
    missing = 'import sys; sys.modules |= dict.fromkeys(("openenv", "fastapi", "fastmcp", "gradio"))\n'
    run(sys.executable, "-c", f"{missing}import sql_env.server.mcp_tools", cwd=ROOT)
