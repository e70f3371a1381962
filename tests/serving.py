"Servers in processes of their own, and the load generator that `benchmarks/server.py` is."

import http.client
import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import closing
from functools import cache
from types import ModuleType

import pytest
from conftest import ROOT

pytest.importorskip("openenv", reason="openenv is not installed: pip install 'sql_env[server]'")

from sql_env.models import SQLAction


def ask(port, path="/health", method="GET", body=None, address="127.0.0.1", **headers):
    "Status, text and headers of a request from an address of this machine; what is no text or bytes goes as JSON."
    body = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120, source_address=(address, 0))
    with closing(connection):
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode(), dict(response.getheaders())


def act(env, action_type, argument):
    return env.step(SQLAction(action_type=action_type, argument=argument))


def tell(ws, kind, **data):
    "What a WebSocket of the test client gets for a message."
    ws.send_json(dict(type=kind, data=data))
    return ws.receive_json()


def load_benchmark(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


benchmark = load_benchmark("server")
Session, quantile = benchmark.Session, benchmark.quantile
# Importing a server takes most of its start; here one process does it, and forks
FORKS = """
import json, os, signal, socket, sys
from sql_env.server.app import main

asked = socket.socket(fileno=int(sys.argv.pop()))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who has ended is gone
while True:
    text, fds, *_ = socket.recv_fds(asked, 2**20, 1)
    if not text:
        break
    if pid := os.fork():
        os.close(fds[0])
        asked.send(str(pid).encode())
        continue
    asked.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(fds[0], 2)
    folder, env = json.loads(text)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    main()
    break
"""


@cache
def forking() -> socket.socket:
    "Where to ask for a server; the process behind it ends with this one."
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    subprocess.Popen(
        [sys.executable, "-c", FORKS, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdout=subprocess.DEVNULL,
        env=os.environ | dict(PYTHONPATH=str(ROOT), MALLOC_ARENA_MAX="2"),
    )
    theirs.close()
    return mine


class Forked:
    "A forked process, with what tests use of `Popen`."

    def __init__(self, env: dict, stderr: int):
        asked = json.dumps([os.getcwd(), env]).encode()
        socket.send_fds(forking(), [asked], [stderr])
        self.pid = int(forking().recv(64))
        self.handle = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        return 0 if select.select([self.handle], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> None:
        if not select.select([self.handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("the server", timeout)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self.handle, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Server(benchmark.Server):
    "Ours is forked off a process that has imported it; others, and one with options, start as they do."

    def start(self, command, stderr):
        if command[-1] != benchmark.OURS or self.start_with:
            return super().start(command, stderr)
        if not isinstance(stderr, int):
            return Forked(self.env, stderr.fileno())
        with open(os.devnull, "w") as nowhere:
            return Forked(self.env, nowhere.fileno())

    def __exit__(self, *args):
        "One that was forked is not asked to stop, for it would wait for the pages that a browser has open."
        if not isinstance(self.process, Forked):
            return super().__exit__(*args)
        self.process.kill()
        return self.process.wait()
