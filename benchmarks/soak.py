"""A server under mixed clients, on the loopback only: memory, latency of the honest ones, and whether anything is lost.

python benchmarks/soak.py                  an hour, into benchmarks/soak.json
python benchmarks/soak.py --seconds 60     shorter; prints, writes nothing

Honest clients play episodes whose every observation is known, and keep a list of those that were done. Beside them are
silent sockets, requests that are refused and send no body, hostile queries and messages, floods of MCP sessions, and
clients that are killed in the middle of a step. In between the server is stopped with SIGTERM, and killed; the next one
listens on the same port. At the end each episode that a client saw end must be in the file of results, once.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import server as load  # noqa: E402, benchmarks/server.py

GONE = (OSError, EOFError)
REFUSED = b"POST /reset HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 10\r\n\r\n"
PAUSE = 0.05  # seconds between two calls of a client, at most twice that


def hostile_messages():
    "Queries and messages of the hostile clients; those that take all the time a query may are left to one in ten."
    slow = {"endless", "cross", "doubling", "like", "nested_json", "flood", "huge"}
    found = load.attacks()
    return [v for k, v in found.items() if k not in slow], [
        v for k, v in found.items() if k in slow
    ]


class Soak:
    "The clients of one run."

    def __init__(self, port, work, seed=0):
        self.port, self.work, self.rng = port, work, random.Random(seed)
        self.ws = f"ws://127.0.0.1:{port}/ws"
        self.is_running, self.is_mixed = True, False
        self.times = dict(alone=[], mixed=[])
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
        got = [await session.call("reset", episode_id=episode_id, **reset)]
        for kind, argument in actions:
            await asyncio.sleep(2 * PAUSE * self.rng.random())
            got.append(await session.call("step", action_type=kind, argument=argument))
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
            self.times["mixed" if self.is_mixed else "alone"] += session.times
            session.times.clear()
        if session is not None:
            await session.ws.close()

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
            await asyncio.sleep(PAUSE)

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
    servers, memory, restarts = [first.__enter__()], [], []
    clients = [asyncio.create_task(soak.honest(n)) for n in range(honest)]
    for act in (soak.silent, soak.refused, soak.hostile, soak.killed, soak.mcp_flood):
        clients += [asyncio.create_task(soak.beside(act)) for _ in range(2)]

    async def phase(share, is_mixed):
        soak.is_mixed = is_mixed
        samples, end = [], time.monotonic() + share * seconds
        while time.monotonic() < end:
            await asyncio.sleep(min(1, share * seconds / 8))
            samples.append(servers[-1].rss() / 1024)
        if is_mixed:
            memory.append(samples)

    async def restart(number):
        soak.is_mixed = False
        await _stop(servers[-1].process, number)
        began = time.monotonic()
        fresh = load.Server(port=first.port, **options)
        servers.append(await asyncio.to_thread(fresh.__enter__))
        restarts.append(round(time.monotonic() - began, 1))

    try:
        await asyncio.sleep(2)
        soak.times["alone"].clear()
        await phase(0.2, False)
        await phase(0.35, True)
        await restart(signal.SIGTERM)
        await phase(0.2, True)
        await restart(signal.SIGKILL)
        await phase(0.25, True)
        soak.is_mixed, soak.is_running = False, False
        await asyncio.gather(*clients)
    finally:
        for task in clients:
            task.cancel()
        for one in servers:
            one.__exit__()
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return soak, Counter(line["episode_id"] for line in lines), memory, restarts


def run(seconds=3600.0, honest=6):
    "The figures of one run."
    with tempfile.TemporaryDirectory() as folder:
        soak, written, memory, restarts = asyncio.run(_run(seconds, honest, folder))
    alone, mixed = (load.quantile(soak.times[k], 0.99) for k in ("alone", "mixed"))
    longest = max(memory, key=len)
    settled = longest[len(longest) // 3 :]
    return dict(
        seconds=seconds,
        honest_clients=honest,
        calls=dict(alone=len(soak.times["alone"]), mixed=len(soak.times["mixed"])),
        p50_ms={k: load.ms(load.quantile(v, 0.5)) for k, v in soak.times.items()},
        p99_ms=dict(alone=load.ms(alone), mixed=load.ms(mixed)),
        p99_ratio=round(mixed / alone, 2),
        episodes_done=len(soak.done),
        lost=sum(written[i] == 0 for i in soak.done),
        twice=sum(written[i] > 1 for i in soak.done),
        different=soak.counts.pop("different"),
        wrong_verdicts=soak.counts.pop("wrong verdicts"),
        beside=dict(soak.counts),
        mb=[
            round(settled[0], 1),
            round(max(settled), 1),
            round(settled[-1], 1),
        ],  # first, most, last
        seconds_to_restart=restarts,
    )


if __name__ == "__main__":
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--seconds", type=float, default=3600)
    p.add_argument("--honest", type=int, default=6)
    args = p.parse_args()
    found = run(args.seconds, args.honest)
    print(json.dumps(found, indent=1))
    if args.seconds >= 3600:
        about = dict(command="python benchmarks/soak.py", cpus=os.cpu_count())
        (HERE / "soak.json").write_text(json.dumps(about | found, indent=1) + "\n")
