"Two replicas behind a proxy: the configuration in `examples`, with two processes of this machine."

import asyncio
import json
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager, suppress

import pytest
import yaml
from conftest import ROOT
from mcp_words import BOTH, OPENING
from serving import Server, Session, ask

pytestmark = pytest.mark.slow
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
SERVICES = yaml.safe_load((ROOT / "examples" / "compose.yaml").read_text())["services"]
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


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
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(configuration(ports, port, folder))
    command = [NGINX, "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(300):
            with suppress(OSError):
                if process.poll() is not None or ask(port)[0] == 200:
                    break
            time.sleep(0.1)
        assert process.poll() is None, process.stderr.read()
        yield port
    finally:
        process.terminate()
        process.wait(10)


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
    async def opened(number):
        return await Session.open(f"ws://127.0.0.1:{replicas[0]}/ws", local_addr=(f"127.0.0.{number}", 0))

    async def main():
        sessions = [await opened(number) for number in (1, 1, 2, 2)]
        replies = [await session.call("reset", seed=seed) for seed, session in enumerate(sessions)]
        assert len({reply["data"]["observation"]["question"] for reply in replies}) == 4
        for step in range(1, 4):
            for session in sessions:
                reply = await session.call("step", action_type="QUERY", argument=f"SELECT {step}")
                assert str(step) in reply["data"]["observation"]["result"]
        for session in sessions:
            assert json.loads(await session.raw('{"type": "state"}'))["data"]["step_count"] == 3
        for number in (1, 3):
            refused = await opened(number)
            reply = json.loads(await refused.ws.recv())
            assert reply["type"] == "error" and "capacity" in reply["data"]["message"]
            await refused.ws.close()
        for session in sessions:
            await session.ws.close()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_requests_of_one_client_go_to_one_replica(replicas):
    pytest.importorskip("mcp", reason="mcp is not installed: pip install 'sql_env[mcp]'")
    port, ports = replicas
    listing = dict(jsonrpc="2.0", id=2, method="tools/list")
    homes = []
    for i in range(10, 22):
        address = f"127.0.0.{i}"
        status, _, headers = ask(port, "/mcp", "POST", OPENING, address, **BOTH)
        assert status == 200
        session = BOTH | {"mcp-session-id": headers["mcp-session-id"]}
        for _ in range(4):
            assert ask(port, "/mcp", "POST", listing, address, **session)[0] == 200
        known = [ask(p, "/mcp", "POST", listing, **session)[0] for p in ports]
        assert sorted(known) == [200, 404]
        homes.append(known.index(200))
        assert ask(port, "/mcp", "DELETE", None, address, **session)[0] == 200
    assert set(homes) == {0, 1}


def test_compose_starts_the_replicas_that_the_proxy_knows():
    text = (ROOT / "examples" / "nginx.conf").read_text()
    known = {name for name in SERVICES if f"server {name}:8000;" in text}
    assert known == SERVICES.keys() - {"proxy"} == SERVICES["proxy"]["depends_on"].keys()
    for name in known:
        assert SERVICES[name]["build"] == ".." and (ROOT / "Dockerfile").is_file()
    assert (ROOT / "examples" / SERVICES["proxy"]["volumes"][0].split(":")[0]).is_file()
