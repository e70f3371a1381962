"""A server under mixed clients, on the loopback only: memory, latency of the honest ones, and whether anything is lost.

python benchmarks/soak.py                  an hour, into benchmarks/soak.json
python benchmarks/soak.py --seconds 60     shorter; prints, writes nothing

Honest clients play episodes whose every observation is known, and keep a list of those that were done. A fifth of the
time they are alone; the rest of it there are beside them silent sockets, requests that are refused and send no body,
hostile queries and messages, floods of MCP sessions, and clients that are killed in the middle of a step. The two kinds
of windows alternate, so that what else the machine does meets both, and a timer in this process tells by how much its
own sleep is late: what is late there is no fault of the server. After the first window of mixed clients the server is
stopped with SIGTERM, after the second it is killed; the next one listens on the same port, and its memory is followed
to the end. Then each episode that a client saw end must be in the file of results, once.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import server as load  # noqa: E402, benchmarks/server.py

GONE = (OSError, EOFError)
REFUSED = b"POST /reset HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 10\r\n\r\n"
PAUSE = 0.1  # seconds between two calls of a client, at most twice that
PAUSE_BESIDE = 0.4  # seconds between two attacks of one kind, of two clients each
SLEEP = 0.01  # seconds of the timer
WARM_UP = 20  # seconds of a new server that are not measured
CYCLE = 300  # seconds of a window alone and one of mixed clients


def hostile_messages():
    "Queries and messages of the hostile clients; those that take all the time a query may are left to one in ten."
    slow = {"endless", "cross", "doubling", "like", "nested_json", "flood", "huge"}
    found = load.attacks()
    return [v for k, v in found.items() if k not in slow], [
        v for k, v in found.items() if k in slow
    ]


@dataclass
class Window:
    "What was measured while the clients were alone, or mixed."

    kind: str
    calls: list[float] = field(default_factory=list)  # seconds, of honest clients
    late: list[float] = field(default_factory=list)  # seconds, of the timer
    cpu: dict[str, float] = field(default_factory=dict)  # share of one core


class Soak:
    "The clients of one run."

    def __init__(self, port, work, seed=0):
        self.port, self.work, self.rng = port, work, random.Random(seed)
        self.ws = f"ws://127.0.0.1:{port}/ws"
        self.is_running, self.is_mixed = True, False
        self.now: Window | None = None  # the one that is measured
        self.done: list[str] = []  # ids of episodes that an honest client saw end
        self.counts = Counter()
        self.quick, self.slow = hostile_messages()

    async def open(self, address):
        import websockets

        try:
            return await load.Session.open(self.ws, local_addr=(address, 0))
        except (*GONE, websockets.WebSocketException):
            self.counts["could not connect"] += 1
            await asyncio.sleep(0.2)
            return None

    async def _episode(self, session, name, i):
        reset, actions, expected, correct = self.work[i % len(self.work)]
        episode_id = f"{name}-{i}"
        calls = [("reset", dict(episode_id=episode_id, **reset))]
        calls += [("step", dict(action_type=kind, argument=a)) for kind, a in actions]
        got = []
        for call, data in calls:
            await asyncio.sleep(2 * PAUSE * self.rng.random())
            began_in = self.now
            got.append(await session.call(call, **data))
            if began_in is not None:
                began_in.calls.append(session.times.pop())
        self.done.append(episode_id)
        for answer, (obs, _, _) in zip(got, expected):
            shown = answer["data"].get("observation", {})
            self.counts["different"] += {k: shown.get(k) for k in obs} != obs
        right = got[-1]["data"].get("metadata", {}).get("correct")
        self.counts["wrong verdicts"] += right is not correct

    async def honest(self, n):
        "Plays until the end; opens a new session when the server was stopped."
        import websockets

        i, session = 0, None
        while self.is_running:
            session = session or await self.open(f"127.0.1.{n + 1}")
            if session is None:
                continue
            i += 1
            try:
                await self._episode(session, f"honest{n}", i)
            except (*GONE, websockets.WebSocketException):
                self.counts["sessions ended by the server"] += 1
                session = None
                continue
            session.times.clear()
        if session is not None:
            await session.ws.close()

    async def timer(self):
        "Notes by how much each of its sleeps was late."
        while self.is_running:
            start = time.perf_counter()
            await asyncio.sleep(SLEEP)
            if self.now is not None:
                self.now.late.append(time.perf_counter() - start - SLEEP)

    async def beside(self, act):
        "Does something bad again and again, while the time for it is."
        import websockets

        while self.is_running:
            if not self.is_mixed:
                await asyncio.sleep(0.05)
                continue
            with contextlib.suppress(*GONE, asyncio.TimeoutError, websockets.WebSocketException):
                await act()
                self.counts[act.__name__] += 1
            await asyncio.sleep(2 * PAUSE_BESIDE * self.rng.random())

    async def _raw(self, first, seconds):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=("127.0.2.1", 0)
        )
        writer.write(first)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(), seconds)
        writer.close()

    async def silent(self):
        await self._raw(b"", 4)

    async def refused(self):
        await self._raw(REFUSED, 4)

    async def mcp_flood(self):
        opening = dict(jsonrpc="2.0", id=1, method="initialize")
        opening["params"] = dict(
            protocolVersion="2025-06-18", capabilities={}, clientInfo=dict(name="x", version="1")
        )
        body = json.dumps(opening).encode()
        head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        head += (
            f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        await self._raw(head.encode() + body, 4)

    async def hostile(self):
        session = await self.open("127.0.2.2")
        if session is None:
            return
        await session.call("reset", question_id="vet_clinic-05")
        chosen = self.slow if self.rng.random() < 0.1 else self.quick
        for message in self.rng.choice(chosen)[:20]:
            await asyncio.wait_for(session.raw(message), 30)
        await session.ws.close()

    async def killed(self):
        session = await self.open("127.0.2.3")
        if session is None:
            return
        await session.call("reset", question_id="vet_clinic-02")
        step = dict(action_type="QUERY", argument="SELECT count(*) FROM visit a, visit b")
        await session.ws.send(json.dumps({"type": "step", "data": step}))
        session.ws.transport.abort()


async def _stop(process, number):
    process.send_signal(number)
    await asyncio.to_thread(process.wait, 30)


async def _run(seconds, honest, folder):
    results = Path(folder) / "results.jsonl"
    options = dict(SQL_ENV_RESULTS=str(results), SQL_ENV_DEADLINE="3", MAX_CONCURRENT_ENVS="64")
    first = load.Server(**options)
    soak = Soak(first.port, load.plans(honest * 8))
    servers, windows, memory, restarts = [first.__enter__()], [], [], []
    clients = [asyncio.create_task(soak.honest(n)) for n in range(honest)]
    clients.append(asyncio.create_task(soak.timer()))
    for act in (soak.silent, soak.refused, soak.hostile, soak.killed, soak.mcp_flood):
        clients += [asyncio.create_task(soak.beside(act)) for _ in range(2)]

    async def window(kind, length):
        soak.is_mixed = kind == "mixed"
        await asyncio.sleep(min(5, length / 6))  # what went on before ends
        soak.now = window = Window(kind)
        start, server, own = time.monotonic(), servers[-1].cpu(), time.process_time()
        end = start + length - min(5, length / 6)
        while time.monotonic() < end:
            await asyncio.sleep(min(2, length / 4))
            memory.append((len(servers), servers[-1].rss() / 1024))
        took, soak.now = time.monotonic() - start, None
        window.cpu = dict(
            server=(servers[-1].cpu() - server) / took, clients=(time.process_time() - own) / took
        )
        windows.append(window)

    async def restart(number):
        soak.is_mixed = False
        await _stop(servers[-1].process, number)
        began = time.monotonic()
        fresh = load.Server(port=first.port, **options)
        servers.append(await asyncio.to_thread(fresh.__enter__))
        restarts.append(round(time.monotonic() - began, 1))

    cycles = max(3, round(seconds / CYCLE))
    try:
        for i in range(cycles):
            if i < 3:
                await asyncio.sleep(min(WARM_UP, seconds / 30))
            await window("alone", 0.2 * seconds / cycles)
            await window("mixed", 0.8 * seconds / cycles)
            if i < 2:
                await restart((signal.SIGTERM, signal.SIGKILL)[i])
        soak.is_mixed, soak.is_running = False, False
        await asyncio.gather(*clients)
    finally:
        for task in clients:
            task.cancel()
        for one in servers:
            one.__exit__()
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    last = [mb for server, mb in memory if server == len(servers)]
    return soak, Counter(line["episode_id"] for line in lines), windows, last, restarts


def _quantiles(times):
    return dict(
        n=len(times),
        p50_ms=load.ms(load.quantile(times, 0.5)),
        p99_ms=load.ms(load.quantile(times, 0.99)),
    )


def _about(windows):
    "The calls of all windows of a kind together, and what each window says."
    calls, late = ([t for w in windows for t in getattr(w, name)] for name in ("calls", "late"))
    each = [(_quantiles(w.calls), _quantiles(w.late)) for w in windows]
    cpu = {k: round(sum(w.cpu[k] for w in windows) / len(windows), 3) for k in windows[0].cpu}
    return dict(
        calls=_quantiles(calls),
        timer_late=_quantiles(late),
        cpu=cpu,
        windows=dict(
            p50_ms=[c["p50_ms"] for c, _ in each],
            p99_ms=[c["p99_ms"] for c, _ in each],
            late_p50_ms=[t["p50_ms"] for _, t in each],
            late_p99_ms=[t["p99_ms"] for _, t in each],
        ),
    )


def _memory(samples, seconds):
    "Megabytes of the last server: the median of its first ten minutes and of its last ten, the most, and each minute."
    per_minute = max(1, len(samples) // max(1, round(seconds / 60)))
    ten = min(10 * per_minute, len(samples) // 3)
    minutes = [samples[i : i + per_minute] for i in range(0, len(samples), per_minute)]
    return dict(
        first=round(statistics.median(samples[:ten]), 1),
        last=round(statistics.median(samples[-ten:]), 1),
        most=round(max(samples), 1),
        minutes=[round(statistics.median(m)) for m in minutes],
    )


def run(seconds=3600.0, honest=4):
    "The figures of one run."
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_run(seconds, honest, folder))
    soak, written, windows, memory, restarts = found
    kinds = {k: _about([w for w in windows if w.kind == k]) for k in ("alone", "mixed")}
    p99 = {k: v["windows"]["p99_ms"] for k, v in kinds.items()}
    followed = seconds * (1 - 2 / max(3, round(seconds / CYCLE)))
    return dict(
        seconds=seconds,
        honest_clients=honest,
        **kinds,
        p99_ratio=round(kinds["mixed"]["calls"]["p99_ms"] / kinds["alone"]["calls"]["p99_ms"], 2),
        p99_ratio_of_neighbouring_windows=round(
            statistics.median(b / a for a, b in zip(p99["alone"], p99["mixed"])), 2
        ),
        episodes_done=len(soak.done),
        lost=sum(written[i] == 0 for i in soak.done),
        twice=sum(written[i] > 1 for i in soak.done),
        different=soak.counts.pop("different"),
        wrong_verdicts=soak.counts.pop("wrong verdicts"),
        beside=dict(soak.counts),
        mb=_memory(memory, followed),
        seconds_to_restart=restarts,
    )


if __name__ == "__main__":
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--seconds", type=float, default=3600)
    p.add_argument("--honest", type=int, default=4)
    args = p.parse_args()
    found = run(args.seconds, args.honest)
    print(json.dumps(found, indent=1))
    if args.seconds >= 3600:
        about = dict(command="python benchmarks/soak.py", cpus=os.cpu_count())
        text = json.dumps(about | found, indent=1)
        text = re.sub(r"(?<=[\d\[,])\s+(?=[\d\]])", " ", text)  # a line for each list of numbers
        (HERE / "soak.json").write_text(text + "\n")
