"Two replicas behind a proxy: the configuration in `examples`, with two processes of this machine."

import asyncio
import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager

import pytest
import yaml
from conftest import ROOT
from serving import Server

pytestmark = pytest.mark.slow
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
SERVICES = yaml.safe_load((ROOT / "examples" / "compose.yaml").read_text())["services"]
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
OPENING = dict(
    jsonrpc="2.0",
    id=1,
    method="initialize",
    params=dict(protocolVersion="2025-06-18", capabilities={}, clientInfo=dict(name="test", version="1")),
)


def configuration(ports, port, folder):
    "The proxy's file with addresses of this machine, and with a folder that anybody may write."
    text = (ROOT / "examples" / "nginx.conf").read_text()
    changes = {f"replica-{i}:8000": f"127.0.0.1:{p}" for i, p in enumerate(ports, 1)}
    changes["listen 8000;"] = f"listen 127.0.0.1:{port};"
    changes["http {\n"] = "http {\n" + "".join(f"{x}_temp_path {folder}/{x};\n" for x in TEMPORARY)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return f"daemon off;\npid {folder}/pid;\nerror_log stderr;\n{text}".replace("http {\n", "http {\naccess_log off;\n")


@contextmanager
def proxy(ports, folder):
    "The port of a proxy before servers."
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(configuration(ports, port, folder))
    command = [NGINX, "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(300):
            if process.poll() is not None or answers(port):
                break
            time.sleep(0.1)
        assert process.poll() is None, process.stderr.read()
        yield port
    finally:
        process.terminate()
        process.wait(10)


def answers(port):
    try:
        return ask(port, "GET", "/health")[0] == 200
    except OSError:
        return False


def ask(port, method, path, body=None, address="127.0.0.1", **headers):
    "Status and headers of a request from an address."
    connection = http.client.HTTPConnection("127.0.0.1", port, 30, source_address=(address, 0))
    both = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    connection.request(method, path, body and json.dumps(body), both | headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, dict(response.getheaders())


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    "The ports of the proxy and of two servers with two seats each, one for each client."
    if not NGINX:
        pytest.skip("no nginx: apt-get install nginx-light")
    settings = dict(MAX_CONCURRENT_ENVS="2", SQL_ENV_SHARE="1")
    settings["FORWARDED_ALLOW_IPS"] = SERVICES["replica-1"]["environment"]["FORWARDED_ALLOW_IPS"]
    with Server(**settings) as first, Server(**settings) as second:
        ports = (first.port, second.port)
        with proxy(ports, tmp_path_factory.mktemp("proxy")) as port:
            yield port, ports


def test_sessions_stay_where_they_began_and_are_spread(replicas):
    "Four seats of two replicas for two clients, and none more: replicas know who the client is."
    import websockets

    async def connect(address):
        url = f"ws://127.0.0.1:{replicas[0]}/ws"
        return await websockets.connect(url, proxy=None, local_addr=(address, 0), open_timeout=60)

    async def begin(address, seed):
        opened = await connect(address)
        return opened, await say(opened, "reset", seed=seed)

    async def say(opened, kind, **data):
        message = dict(type=kind, data=data) if data else dict(type=kind)
        await opened.send(json.dumps(message))
        return json.loads(await asyncio.wait_for(opened.recv(), 30))

    async def main():
        clients = ["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"]
        begun = [await begin(address, seed) for seed, address in enumerate(clients)]
        questions = [reply["data"]["observation"]["question"] for _, reply in begun]
        assert len(set(questions)) == 4
        for step in range(1, 4):
            for opened, _ in begun:
                action = dict(action_type="QUERY", argument=f"SELECT {step}")
                reply = await say(opened, "step", **action)
                assert str(step) in reply["data"]["observation"]["result"]
        for opened, _ in begun:
            assert (await say(opened, "state"))["data"]["step_count"] == 3
        for address in ("127.0.0.1", "127.0.0.3"):
            refused = await connect(address)
            reply = json.loads(await asyncio.wait_for(refused.recv(), 30))
            assert reply["type"] == "error" and "capacity" in reply["data"]["message"]
            await refused.close()
        for opened, _ in begun:
            await opened.close()

    asyncio.run(main())


def test_requests_of_one_client_go_to_one_replica(replicas):
    "A session of MCP is known to the replica that opened it, and to no other."
    pytest.importorskip("mcp", reason="mcp is not installed: pip install 'sql_env[mcp]'")
    port, ports = replicas
    listing = dict(jsonrpc="2.0", id=2, method="tools/list")
    homes = []
    for i in range(10, 22):
        address = f"127.0.0.{i}"
        status, headers = ask(port, "POST", "/mcp", OPENING, address)
        assert status == 200
        session = {"mcp-session-id": headers["mcp-session-id"]}
        for _ in range(4):
            assert ask(port, "POST", "/mcp", listing, address, **session)[0] == 200
        known = [ask(p, "POST", "/mcp", listing, **session)[0] for p in ports]
        assert sorted(known) == [200, 404]
        homes.append(known.index(200))
        assert ask(port, "DELETE", "/mcp", None, address, **session)[0] == 200
    assert set(homes) == {0, 1}


def test_compose_starts_the_replicas_that_the_proxy_knows():
    text = (ROOT / "examples" / "nginx.conf").read_text()
    known = {name for name in SERVICES if f"server {name}:8000;" in text}
    assert known == SERVICES.keys() - {"proxy"} == SERVICES["proxy"]["depends_on"].keys()
    for name in known:
        assert SERVICES[name]["build"] == ".." and (ROOT / "Dockerfile").is_file()
    assert (ROOT / "examples" / SERVICES["proxy"]["volumes"][0].split(":")[0]).is_file()
