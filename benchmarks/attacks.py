"""What attacks cost and what a neighbour notices: `python benchmarks/attacks.py [cost | neighbour] [--out FILE]`.

The tests count operations, because seconds depend on the machine. Here the seconds of processor time are measured: of
each hostile statement and file in tests/attacks.py in a process of its own, and of the same statements where a server
only tries them. For the neighbour a server plays questions on hostile databases: an honest client takes steps on
another one, alone, beside two clients that attack as fast as they can from a process of their own, and alone again. A
timer in the honest client's process tells by how much its own sleep is late, whatever the server does.
"""

import argparse
import asyncio
import http.client
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import apsw

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]

from attack_process import Child  # noqa: E402
from attacks import ATTACKS, FILES_TO_OPEN, write_home  # noqa: E402
from server import Server, Session, ms, quantile  # noqa: E402, benchmarks/server.py


def measure_attacks(home: Path, folder: Path) -> dict[str, tuple[float, float]]:
    "Seconds and megabytes by name."
    child, costs = Child(home), {}
    for name, sql, _ in ATTACKS:
        answer = child.ask(sql=sql)
        costs[name] = answer["seconds"], answer["megabytes"]
    for name, build, _ in FILES_TO_OPEN:
        path = folder / f"{name}.sqlite"
        build(path)
        answer = child.ask(file=str(path))
        costs[f"file {name}"] = answer["seconds"], answer["megabytes"]
    child.close()
    return costs


def worst(costs: dict[str, float], digits: int) -> dict[str, float]:
    "The six largest."
    names = sorted(costs, key=costs.__getitem__, reverse=True)[:6]
    return {name: round(costs[name], digits) for name in names}


# ---- a neighbour

SECONDS = 8.0  # beside an attack; before and after it the neighbour is alone for half of them
PAUSE = 0.01  # seconds between two steps of the neighbour
CHAIN = [f"CREATE VIEW v{i} AS SELECT p.x FROM v{i - 1} p, v{i - 1} q" for i in range(1, 14)]
NUMBERS = (
    "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {n}) INSERT INTO t "
)
DATABASES = dict(
    honest=["CREATE TABLE t(i INTEGER PRIMARY KEY, n)", NUMBERS + "SELECT i, i % 7 FROM c"],
    bombs=[
        "CREATE TABLE t(x)",
        "INSERT INTO t VALUES (1)",
        "CREATE VIEW v0 AS SELECT x FROM t",
        *CHAIN,
    ],
    wide=[f"CREATE TABLE t({', '.join(f'column_{i} TEXT' for i in range(190))})"],
    huge=["CREATE TABLE t(i INTEGER PRIMARY KEY, n)", NUMBERS + "SELECT i, i % 7 FROM c"],
    task=["CREATE TABLE t(i INTEGER PRIMARY KEY, n)", NUMBERS + "SELECT i, i % 7 FROM c"],
)
ROWS = dict(honest=2000, huge=6_000_000, task=18_000)


def write_questions(folder: Path) -> Path:
    "A folder with a database for each attack and one for the neighbour, and a question about each."
    lines = []
    for name, statements in DATABASES.items():
        con = apsw.Connection(str(folder / f"{name}.sqlite"))
        con.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        for sql in statements:
            con.execute(sql.replace("{n}", str(ROWS.get(name, 1))))
        con.close()
        question = dict(question_id=name, question="How many are there?", database=name)
        task = dict(writes=["t"], gold_statements=["UPDATE t SET n = 9 WHERE i = 1"])
        lines.append(question | (task if name == "task" else dict(sql="SELECT count(*) FROM t")))
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def bomb(i: int) -> str:
    "A query of views: of more tables than are allowed, or as many as that, in turn."
    names = (
        "v13 a, v13 b, v13 c",
        "v6 a, v6 b",
        "v5 a, v5 b",
        "v6 a",
        "v6 a UNION SELECT 0, x FROM v6",
    )
    return f"SELECT {i}, a.x FROM {names[i % len(names)]}"


TEXTS = """WITH k(n) AS (SELECT {} UNION ALL SELECT n + 1 FROM k LIMIT 1400) SELECT length(
    json_group_array(instr(printf('%019000d', 0), printf('%09500d', 0) || 'b' || n))) FROM k"""
COUNTS = ", ".join(["(SELECT count(*) FROM t)"] * 23)
STEPS = dict(  # by attack: the question, and the action of each number
    view_bombs=("bombs", lambda i: ("QUERY", bomb(i))),
    cross_joins=("honest", lambda i: ("QUERY", f"SELECT count(*) + {i} FROM t a, t b, t c, t d")),
    counts=("huge", lambda i: ("QUERY", f"SELECT {i}, {COUNTS}")),
    describes=("wide", lambda i: ("DESCRIBE", "t")),
    writes=("task", lambda i: ("EXECUTE", f"UPDATE t SET n = n + {i}")),
    long_answers=("honest", lambda i: ("ANSWER", "a\n" * 49_999)),
    json_texts=("huge", lambda i: ("QUERY", TEXTS.format(i))),
)
BODY = json.dumps(
    dict(
        jsonrpc="2.0",
        id=1,
        method="initialize",
        params=dict(
            protocolVersion="2025-06-18", capabilities={}, clientInfo=dict(name="x", version="1")
        ),
    )
)
STREAMS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
REQUESTS = dict(  # by attack: what `request` of a connection is given
    log_flood=lambda i: ("GET", f"/web/gradio_api/queue/data?session_hash=x{i}"),
    mcp_flood=lambda i: ("POST", "/mcp", BODY, STREAMS),
)


async def _leave(port: int) -> None:
    "Begin a statement that takes long, and be gone, again and again."
    for i in count():
        session = await Session.open(f"ws://127.0.0.1:{port}/ws", local_addr=("127.0.2.1", 0))
        await session.call("reset", question_id="huge")
        data = dict(action_type="QUERY", argument=TEXTS.format(i))
        await session.ws.send(json.dumps(dict(type="step", data=data)))
        await asyncio.sleep(0.3)
        session.ws.transport.abort()
        print("x", end="", flush=True)


async def _keys(port: int) -> None:
    "Messages with 20,000 keys."
    session = await Session.open(f"ws://127.0.0.1:{port}/ws", local_addr=("127.0.2.1", 0))
    for _ in count():
        await session.call("reset", **{f"key_{i}": i for i in range(20_000)})
        session.times.clear()
        print("x", end="", flush=True)


OTHERS = dict(leavers=_leave, many_keys=_keys)


async def _steps(port: int, name: str) -> None:
    question, act = STEPS[name]
    session = await Session.open(f"ws://127.0.0.1:{port}/ws", local_addr=("127.0.2.1", 0))
    done = True
    for i in count():
        if done:
            answer = await session.call("reset", question_id=question)
            assert answer["data"]["observation"]["question"], answer
        kind, argument = act(i)
        answer = await session.call("step", action_type=kind, argument=argument)
        done = answer["data"].get("done", True)
        session.times.clear()
        print("x", end="", flush=True)


def _requests(port: int, name: str) -> None:
    for i in count():
        con = http.client.HTTPConnection("127.0.0.1", port, source_address=("127.0.2.1", 0))
        with suppress(OSError, http.client.HTTPException):
            con.request(*REQUESTS[name](i))
            con.getresponse().read()
            print("x", end="", flush=True)
        con.close()


def attack(name: str, port: int) -> None:
    "Attack until killed, and print a letter for each attempt."
    if name in REQUESTS:
        _requests(port, name)
    asyncio.run(OTHERS[name](port) if name in OTHERS else _steps(port, name))


async def _late(times: list[float]) -> None:
    while True:
        start = time.perf_counter()
        await asyncio.sleep(PAUSE)
        times.append(time.perf_counter() - start - PAUSE)


async def _honest(session: Session, seconds: float, numbers: count) -> dict[str, float]:
    "Median and 99th percentile of the steps of the neighbour, in milliseconds, and of the timer."
    late: list[float] = []
    timer = asyncio.create_task(_late(late))
    session.times.clear()
    end, done, steps = time.monotonic() + seconds, True, []
    while time.monotonic() < end:
        await asyncio.sleep(PAUSE)
        if done:
            await session.call("reset", question_id="honest")
        i = next(numbers)
        sql = f"SELECT n, count(*) FROM t WHERE i > {i % 2000} GROUP BY n"
        acts = (("QUERY", sql), ("DESCRIBE", "t"), ("QUERY", f"{sql} -- {i}"), ("SAMPLE", "t"))
        kind, argument = acts[i % 4]
        answer = await session.call("step", action_type=kind, argument=argument)
        steps.append(session.times[-1])
        if answer["data"]["observation"]["error"]:
            raise RuntimeError(answer["data"]["observation"]["error"])
        done = answer["data"]["done"]
    timer.cancel()
    return dict(
        steps=len(steps),
        median_ms=ms(quantile(steps, 0.5)),
        p99_ms=ms(quantile(steps, 0.99)),
        timer_p99_ms=ms(quantile(late, 0.99)),
    )


async def _beside(server: Server, name: str, seconds: float, log: Path) -> dict:
    session = await Session.open(server.ws)
    await session.call("reset", question_id="honest")
    numbers, found = count(), {}
    await _honest(session, 1, numbers)
    found["alone"] = await _honest(session, seconds / 2, numbers)
    command = [sys.executable, __file__, "--attack", name, "--port", str(server.port)]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    await asyncio.gather(*[asyncio.to_thread(client.stdout.read, 1) for client in clients])
    lines = len(log.read_text().splitlines())
    found["beside"] = await _honest(session, seconds, numbers)
    lines = len(log.read_text().splitlines()) - lines
    for client in clients:
        client.kill()
    attempts = sum(len(client.communicate()[0]) for client in clients)
    await _honest(session, 2, numbers)  # what they began ends
    found["alone_again"] = await _honest(session, seconds / 2, numbers)
    await session.ws.close()
    return found | dict(attempts=attempts, log_lines=lines)


def measure_neighbour(
    seconds: float = SECONDS, names: tuple[str, ...] = (*STEPS, *OTHERS, *REQUESTS)
) -> dict:
    "Steps of an honest client alone, beside each attack, and alone again."
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        options = dict(
            SQL_ENV_SOURCE="folder",
            SQL_ENV_PATH=str(write_questions(Path(folder))),
            SQL_ENV_BUDGET="1000",
            SQL_ENV_ACTIONS="execute",
            SQL_ENV_CACHE=str(Path(folder) / "cache"),
            ENABLE_WEB_INTERFACE="true",
            MAX_CONCURRENT_ENVS="64",
        )
        with log.open("w") as stderr, Server(stderr=stderr, **options) as server:
            return {name: asyncio.run(_beside(server, name, seconds, log)) for name in names}


def measure_cost() -> dict:
    "The most expensive attacks."
    with tempfile.TemporaryDirectory() as home_folder, tempfile.TemporaryDirectory() as folder:
        home = write_home(Path(home_folder))
        costs = measure_attacks(home, Path(folder))
    return dict(
        attacks=len(costs),
        seconds=worst({name: cost[0] for name, cost in costs.items()}, 2),
        megabytes=worst({name: cost[1] for name, cost in costs.items()}, 0),
    )


def main() -> None:
    args = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    args.add_argument("part", nargs="?", choices=("cost", "neighbour"), help="both if left out")
    args.add_argument("--out", type=Path)
    args.add_argument("--seconds", type=float, default=SECONDS, help="beside each attack")
    args.add_argument(
        "--only", nargs="*", default=[], help="attacks on the neighbour; all if left out"
    )
    args.add_argument("--attack", choices=(*STEPS, *OTHERS, *REQUESTS), help=argparse.SUPPRESS)
    args.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = args.parse_args()
    if given.attack:
        attack(given.attack, given.port)
    figures = json.loads(given.out.read_text()) if given.out and given.out.is_file() else {}
    figures["command"] = "python benchmarks/attacks.py --out benchmarks/attacks.json"
    if given.part != "neighbour":
        figures |= measure_cost()
    if given.part != "cost":
        names = tuple(given.only) or (*STEPS, *OTHERS, *REQUESTS)
        figures["neighbour"] = measure_neighbour(given.seconds, names)
    print(json.dumps(figures, indent=1))
    if given.out:
        given.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
