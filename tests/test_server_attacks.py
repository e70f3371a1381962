"Attacks on a server that got through once: requests, sessions of MCP, logs, queries; and a neighbour beside each."

import asyncio
import json
import os
import re
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import IncompleteRead

import pytest
import websockets
from mcp_words import BOTH, OPENING
from serving import Server, Session, ask, benchmark, quantile
from test_server_package import dockerfile

from sql_env.paths import BUNDLED

pytestmark = pytest.mark.slow  # each starts a server


def connect(server, first=b""):
    "A socket that said this, and then nothing more."
    s = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    with suppress(OSError):  # it was closed already
        s.sendall(first)
    return s


def other(server, *what, **headers):
    return ask(server.port, *what, address="127.0.0.9", **headers)


def request_text(method="GET", path="/health", host="localhost", **headers):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


HALF_BODIES = dict(
    refused_host=request_text("POST", "/reset", "evil.example", Content_Length="10"),
    refused_origin=request_text("POST", "/reset", Origin="http://evil.example", Content_Length="9"),
    refused_upload=request_text("POST", "/web/gradio_api/upload", Content_Length="10"),
    refused_chunks=request_text("POST", "/web/upload", Transfer_Encoding="chunked"),
)


@pytest.mark.parametrize("name", HALF_BODIES)
def test_a_refused_request_is_answered_and_closed_without_its_body(name, shared):
    s = connect(shared, HALF_BODIES[name])
    said = b"".join(iter(lambda: s.recv(4096), b""))
    assert re.match(rb"HTTP/1.1 40[34] ", said) and b"detail" in said


@pytest.fixture(scope="module")
def shared():
    with Server(ENABLE_WEB_INTERFACE="true") as s:
        yield s


async def begins(session):
    "Whether a session that was opened has a seat."
    with suppress(websockets.ConnectionClosed):
        return (await session.call("reset"))["type"] == "observation"
    return False


def mcp(server, body, address="127.0.0.1", session=None, method="POST"):
    headers = BOTH | ({"mcp-session-id": session} if session else {})
    status, text, got = ask(server.port, "/mcp", method, body, address, **headers)
    return status, text, got.get("mcp-session-id", "")


def call_tool(server, session, name, address="127.0.0.1", **arguments):
    body = dict(jsonrpc="2.0", id=2, method="tools/call", params=dict(name=name, arguments=arguments))
    return mcp(server, body, address, session)[:2]


@pytest.fixture(scope="module")
def mcp_server():
    with Server(MAX_CONCURRENT_ENVS="4", SQL_ENV_SHARE="3") as s:
        yield s


def test_clients_that_leave_without_a_word_take_no_seats(mcp_server):
    "As the official client in JavaScript does: an episode, and the connection is closed."
    for i in range(12):
        session = mcp(mcp_server, OPENING)[2]
        begun = call_tool(mcp_server, session, "start", question_id="vet_clinic-02")[1]
        assert "Tables:" in begun, (i, begun)
        assert "submitted" in call_tool(mcp_server, session, "answer", value="3")[1] or i


def test_what_a_stranger_breaks_gives_no_orders_to_who_reads_the_log(tmp_path):
    log = tmp_path / "log"
    with open(log, "w") as f, Server(ENABLE_WEB_INTERFACE="true", stderr=f) as s:
        for i in range(5):
            with suppress(IncompleteRead):  # of a stream that there is not
                other(s, f"/web/gradio_api/queue/data?session_hash=un%1b[2Jknown{i}")
            other(s, "/mcp", "POST", '{"id": "\\u001b[2J", "jsonrpc": "2.0", "method": "\\u001b[2J"}', **BOTH)
        time.sleep(0.2)
    assert "\x1b" not in log.read_text()


def test_the_page_has_no_frames(shared):
    policy = other(shared, "/web/")[2]["content-security-policy"]
    assert {"frame-src 'none'", "frame-ancestors 'self'", "object-src 'none'"} <= set(policy.split("; "))


def test_an_address_that_is_only_claimed_is_not_believed(root):
    """Eight sessions under made-up addresses are those of one client; a proxy that is named is believed, and so is that
    of a Space, where the image runs: of what a client says there before its own address, nothing is."""

    async def main(server, said):
        claimed = [{"X-Forwarded-For": said.format(i)} for i in range(8)]
        opened = [await Session.open(server.ws, additional_headers=headers) for headers in claimed]
        granted = sum([await begins(session) for session in opened])
        for session in opened:
            session.ws.transport.abort()
        return granted

    image = dockerfile(root)
    ours = dict(PATH=os.environ["PATH"], SQL_ENV_PATH=str(BUNDLED), ENABLE_WEB_INTERFACE="false", SQL_ENV_SHARE="2")
    image["env"] |= ours | dict(command=[sys.executable, *image["cmd"][1:]])
    del image["env"]["PORT"]
    in_space = image["env"] | dict(SPACE_HOST="me-sql-env.hf.space")
    for named, said in (
        (dict(SQL_ENV_SHARE="2"), {"203.0.113.{}": 2}),
        (dict(SQL_ENV_SHARE="2", FORWARDED_ALLOW_IPS="127.0.0.1"), {"203.0.113.{}": 8}),
        (image["env"], {"203.0.113.{}": 2}),
        (in_space, {"203.0.113.{}, 10.16.3.80": 8, "203.0.113.{}, 198.51.100.7": 2}),
        (in_space | dict(FORWARDED_ALLOW_IPS="192.0.2.1"), {"203.0.113.{}": 2}),
    ):
        with Server(**named) as s:
            assert {claim: asyncio.run(main(s, claim)) for claim in said} == said, named


def test_a_server_on_all_addresses_answers_to_numbers_only():
    with Server(HOST="0.0.0.0") as s:
        assert other(s)[0] == 200
        status, text, _ = other(s, Host="evil.example")
        assert status == 403 and "SQL_ENV_HOSTS" in text
        assert other(s, "/reset", "POST", "{}", Host="evil.example", Origin="http://evil.example")[0] == 403


async def times_of_a_neighbour(server, steps):
    session = await Session.open(server.ws, local_addr=("127.0.0.9", 0))
    for i in range(steps):
        if i % 10 == 0:
            assert "question" in json.dumps(await session.call("reset", question_id="vet_clinic-02", seed=i))
        else:
            await session.call("step", action_type="QUERY", argument=f"SELECT {i}")
        await asyncio.sleep(0.002)
    await session.ws.close()
    return session.times[20:]


def hold_and_close(server, first):
    with connect(server, first):
        time.sleep(0.01)


NEIGHBOURS = dict(
    silent=lambda s: hold_and_close(s, b""),
    refused=lambda s: hold_and_close(s, HALF_BODIES["refused_host"]),
    heartbeat=lambda s: hold_and_close(s, request_text(path="/web/gradio_api/heartbeat/x")),
    initialize=lambda s: mcp(s, OPENING),
    wrong=lambda s: ask(s.port, "/reset", "POST", "["),
)


@pytest.mark.full
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_neighbour_is_served_beside_an_attack(name, shared):
    asyncio.run(times_of_a_neighbour(shared, 300))  # caches fill
    over = threading.Event()

    def attack():
        while not over.is_set():
            with suppress(OSError):
                NEIGHBOURS[name](shared)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(attack)
        try:
            beside = asyncio.run(times_of_a_neighbour(shared, 300))
        finally:
            over.set()
    assert quantile(beside, 0.5) < 0.05 and quantile(beside, 0.99) < 0.5


@pytest.mark.full
def test_honest_sessions_beside_forty_hostile_ones_lose_nothing():
    "Endless queries, and answers that are judged on variants; the figures in time are in benchmarks/server.json."
    found = benchmark.run(["beside"], quick=True)["beside"]
    assert [found[kind] for kind in ("errors", "different", "wrong_verdicts", "lost")] == [0] * 4, found
    assert found["hostile_answers"] > 40 and found["calls"] > 100, found
