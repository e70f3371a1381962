"""Load on a server, on the loopback only, beside a bare OpenEnv echo environment that sends as many bytes.

python benchmarks/server.py                 all figures, about a quarter of an hour, into benchmarks/server.json
python benchmarks/server.py --only latency  one of: latency, load, memory, hostile_memory, growth, hostile, equal,
                                            beside
python benchmarks/server.py --quick         smaller numbers, for tests; writes nothing
"""

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def echo_app():
    "The bare environment: it answers with as many characters as it is asked for."
    from openenv.core.env_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State

    class EchoAction(Action):
        text: str = ""
        size: int = 0

    class EchoObservation(Observation):
        text: str = ""

    class Echo(Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def reset(self, seed=None, episode_id=None, size=0, **kwargs):
            return EchoObservation(text="x" * size)

        def step(self, action, timeout_s=None, **kwargs):
            return EchoObservation(text="x" * action.size, reward=0.0)

        @property
        def state(self):
            return State()

    return create_fastapi_app(Echo, EchoAction, EchoObservation, max_concurrent_envs=2000)


ECHO = f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
import server, uvicorn
options = dict(ws_max_size=2**20, ws_per_message_deflate=False, log_level="error", access_log=False)
uvicorn.run(server.echo_app(), port=int(os.environ["PORT"]), **options)
"""


OURS = "from sql_env.server.app import main; main()"


class Server:
    "A server in a process of its own: ours, or `echo`, or what a command starts."

    start_with: dict = {}  # further arguments of `Popen`

    def __init__(self, kind="sql", stderr=subprocess.DEVNULL, command=None, port=0, **env):
        self.port = port or socket.create_server(("127.0.0.1", 0)).getsockname()[1]
        self.env = {
            **os.environ,
            "PORT": str(self.port),
            "HOST": "127.0.0.1",
            "MAX_CONCURRENT_ENVS": "2000",
            "ENABLE_WEB_INTERFACE": "false",
            "PYTHONPATH": str(HERE.parent),
            "MALLOC_ARENA_MAX": "2",
            **env,
        }
        code = OURS if kind == "sql" else ECHO
        self.process = self.start(command or [sys.executable, "-c", code], stderr)
        self.http, self.ws = f"http://127.0.0.1:{self.port}", f"ws://127.0.0.1:{self.port}/ws"

    def start(self, command, stderr):
        options = dict(stdout=subprocess.DEVNULL, stderr=stderr, **self.start_with)
        return subprocess.Popen(command, env=self.env, **options)

    def __enter__(self):
        end = time.monotonic() + 300  # a busy machine
        while time.monotonic() < end and self.process.poll() is None:
            try:
                return urllib.request.urlopen(self.http + "/health", timeout=10) and self
            except OSError:
                time.sleep(0.1)
        self.process.kill()
        raise RuntimeError("the server did not start")

    def __exit__(self, *args):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def cpu(self):
        "Seconds of processor time that the process has used, all threads."
        return sum(
            map(
                int, open(f"/proc/{self.process.pid}/stat").read().rpartition(")")[2].split()[11:13]
            )
        ) / os.sysconf("SC_CLK_TCK")

    def rss(self):
        "Resident memory in kB."
        return int(
            next(
                line
                for line in open(f"/proc/{self.process.pid}/status")
                if line.startswith("VmRSS")
            ).split()[1]
        )


class Session:
    "A raw WebSocket client: cheap enough to load a server from one process."

    def __init__(self, ws):
        self.ws, self.times = ws, []

    @classmethod
    async def open(cls, url, **options):
        import websockets

        return cls(
            await websockets.connect(
                url,
                compression=None,
                proxy=None,
                ping_interval=None,
                open_timeout=60,
                max_size=2**24,
                **options,
            )
        )

    async def raw(self, text):
        start = time.perf_counter()
        await self.ws.send(text)
        answer = await self.ws.recv()
        self.times.append(time.perf_counter() - start)
        return answer

    async def call(self, kind, **data):
        return json.loads(await self.raw(json.dumps({"type": kind, "data": data})))


def wire(obs):
    return dict(
        question=obs.question,
        schema_info=obs.schema_info,
        result=obs.result,
        error=obs.error,
        step_count=obs.step_count,
        budget_remaining=obs.budget_remaining,
        action_history=list(obs.action_history),
    )


def plans(n, seed=0, **rules):
    "Episodes to play: what reset gets, the actions, and what each call must return, computed in this process."
    from sql_env.grading.answers import format_rows
    from sql_env.play.episode import EpisodeEnv
    from sql_env.sources.loading import load

    env, rng, out = EpisodeEnv(load("bundled"), **rules), random.Random(seed), []
    for i in range(n):
        q = rng.choice(env.questions)
        table = rng.choice(q.tables_involved)
        right = (
            [("QUERY", q.gold_sql), ("ANSWER", "@last")]
            if i % 2
            else [("ANSWER", format_rows(q.gold_answer))]
        )
        wrong = [("QUERY", f"SELECT * FROM {table} LIMIT 5"), ("ANSWER", "-98765.4321")]
        actions = [
            ("DESCRIBE", table),
            ("SAMPLE", table),
            ("QUERY", f"SELECT count(*) FROM {table}"),
            *(wrong if rng.random() < 0.4 else right),
        ]
        reset = dict(question_id=q.question_id, seed=i)
        first = env.reset(**reset)
        expected = [(wire(first), None, False)]
        for a in actions:
            o = env.step(*a)
            expected.append((wire(o), o.reward, o.done))
        out.append((reset, actions, expected, env.episode.verdict.correct))
    return out


async def play(session, plan, faults, pause=0.0):
    "Play one episode, with seconds between calls, and compare all that it gives with the same episode in process."
    reset, actions, expected, correct = plan
    answers = [await session.call("reset", **reset)]
    for kind, argument in actions:
        await asyncio.sleep(pause)
        answers.append(await session.call("step", action_type=kind, argument=argument))
    for answer, (obs, reward, done) in zip(answers, expected):
        d = answer["data"]
        if answer["type"] != "observation":
            faults["errors"] += 1
        elif (
            {k: d["observation"][k] for k in obs} != obs
            or d["reward"] != reward
            or d["done"] != done
        ):
            faults["different"] += 1
    if answers[-1]["data"].get("metadata", {}).get("correct") is not correct:
        faults["wrong_verdicts"] += 1


def echo_messages(plan, lengths):
    "The messages of a plan for the echo environment, asking for answers of the same length."
    reset, actions, *_ = plan
    out = [json.dumps({"type": "reset", "data": {"size": lengths[0], **reset}})]
    return out + [
        json.dumps({"type": "step", "data": {"text": a[1], "size": n}})
        for a, n in zip(actions, lengths[1:])
    ]


def quantile(times, q):
    return sorted(times)[min(len(times) - 1, int(q * len(times)))]


def ms(seconds):
    return round(seconds * 1000, 3)


async def latency(n=3000):
    "p50 of a QUERY (bundled gold queries) beside that of an echo of equal length, one message to each in turn."
    from sql_env.sources.loading import load

    questions, rng, at = list(load("bundled")), random.Random(0), dict(sql=[], echo=[])
    with Server() as sql, Server("echo") as echo:
        a, b = await Session.open(sql.ws), await Session.open(echo.ws)
        empty = len(await b.raw(json.dumps({"type": "step", "data": {"text": "", "size": 0}})))
        for _ in range(n + 200):
            q = rng.choice(questions)
            await asyncio.gather(a.call("reset", question_id=q.question_id), b.call("reset"))
            answer = await a.raw(
                json.dumps(
                    {"type": "step", "data": {"action_type": "QUERY", "argument": q.gold_sql}}
                )
            )
            at["sql"].append(a.times[-1])
            got = await b.raw(
                json.dumps(
                    {"type": "step", "data": {"text": q.gold_sql, "size": len(answer) - empty}}
                )
            )
            at["echo"].append(b.times[-1])
        sql_p50, echo_p50 = (statistics.median(at[k][200:]) for k in ("sql", "echo"))
        return dict(
            query_p50_ms=ms(sql_p50),
            echo_p50_ms=ms(echo_p50),
            ratio=round(sql_p50 / echo_p50, 3),
            bytes=len(answer),
            echo_bytes=len(got),
            query_p99_ms=ms(quantile(at["sql"][200:], 0.99)),
            echo_p99_ms=ms(quantile(at["echo"][200:], 0.99)),
        )


async def _all(url, sessions, work):
    "Open `sessions` sockets, run `work(session, i)` on all at once; returns the seconds it took and all times."
    opened = []
    for i in range(0, sessions, 32):
        opened += await asyncio.gather(*[Session.open(url) for _ in range(min(32, sessions - i))])
    start = time.perf_counter()
    await asyncio.gather(*[work(s, i) for i, s in enumerate(opened)])
    seconds = time.perf_counter() - start
    await asyncio.gather(*[s.ws.close() for s in opened])
    return seconds, [t for s in opened for t in s.times]


async def load(sessions=64, episodes=20, repeat=3):
    "Errors, wrong verdicts and throughput of many sessions at once; the echo environment carries the same messages."
    work = plans(sessions * episodes)
    faults, rates, tail, cpu = (
        dict(errors=0, different=0, wrong_verdicts=0),
        dict(sql=[], echo=[]),
        {},
        dict(sql=[], echo=[]),
    )
    with Server() as sql, Server("echo") as echo:
        s = await Session.open(sql.ws)
        e = await Session.open(echo.ws)
        empty = len(await e.raw(json.dumps({"type": "step", "data": {"size": 0}})))
        messages = []
        for plan in work:
            sizes = []
            for m in [json.dumps({"type": "reset", "data": plan[0]})] + [
                json.dumps({"type": "step", "data": {"action_type": k, "argument": v}})
                for k, v in plan[1]
            ]:
                sizes.append((m, max(0, len(await s.raw(m)) - empty)))
            messages.append(([m for m, _ in sizes], echo_messages(plan, [n for _, n in sizes])))
        await s.ws.close()
        n = sum(len(m[0]) for m in messages)

        async def check(session, i):
            for p in work[i * episodes : (i + 1) * episodes]:
                await play(session, p, faults)

        await _all(sql.ws, sessions, check)
        for _ in range(repeat):
            for k, server, which in (("sql", sql, 0), ("echo", echo, 1)):

                async def run(session, i, which=which):
                    for m in messages[i * episodes : (i + 1) * episodes]:
                        for text in m[which]:
                            await session.raw(text)

                before = server.cpu()
                seconds, times = await _all(server.ws, sessions, run)
                cpu[k].append(1e6 * (server.cpu() - before) / n)
                rates[k].append(n / seconds)
                tail[k] = ms(quantile(times, 0.99))
    best = {k: max(v) for k, v in rates.items()}
    least = {k: round(min(v)) for k, v in cpu.items()}
    return dict(
        sessions=sessions,
        episodes=len(work),
        calls=n,
        **faults,
        cpu_us_per_call=least["sql"],
        echo_cpu_us_per_call=least["echo"],
        calls_per_second=round(best["sql"]),
        echo_calls_per_second=round(best["echo"]),
        ratio=round(best["sql"] / best["echo"], 3),
        p99_ms=tail["sql"],
        echo_p99_ms=tail["echo"],
    )


async def memory(sessions=400):
    "Memory of a session that has played an episode and is idle."
    with Server() as server:

        async def one():
            s = await Session.open(server.ws)
            await s.call("reset", question_id="vet_clinic-05")
            await s.call("step", action_type="QUERY", argument="SELECT * FROM owner")
            return s

        warm = [await one() for _ in range(40)]
        before = server.rss()
        idle = [await one() for _ in range(sessions)]
        after = server.rss()
        await asyncio.gather(*[s.ws.close() for s in warm + idle])
        return dict(sessions=sessions, kb_per_session=round((after - before) / sessions, 1))


async def hostile_memory(sessions=64, queries=14):
    "Memory that hostile sessions add with legal queries of long texts, and what stays when they are gone."
    # 790 rows of 4,970 characters that take four bytes each
    sql = (
        "WITH k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k LIMIT 790) "
        "SELECT n || {i} || replace(printf('%04970d', 0), '0', char(128512)) FROM k"
    )
    with Server() as server:
        warm = [await Session.open(server.ws) for _ in range(8)]
        for s in warm:
            await s.call("reset", question_id="vet_clinic-05")
            await s.call("step", action_type="QUERY", argument="SELECT * FROM owner")
            await s.ws.close()
        before, rows = server.rss(), 0
        taken = []
        for _ in range(sessions):
            s = await Session.open(server.ws)
            await s.call("reset", question_id="vet_clinic-05")
            for i in range(queries):
                got = await s.call("step", action_type="QUERY", argument=sql.format(i=i))
                rows += not got["data"]["observation"]["error"]
            taken.append(s)
        full = server.rss()
        await asyncio.gather(*[s.ws.close() for s in taken])
        for _ in range(50):
            await asyncio.sleep(0.1)
            after = server.rss()
        return dict(
            sessions=sessions,
            queries_that_ran=rows,
            mb_before=round(before / 1024, 1),
            mb_added=round((full - before) / 1024, 1),
            mb_kept=round((after - before) / 1024, 1),
        )


async def growth(episodes=10_000, sessions=16):
    "Memory after a fifth of the episodes and after all."
    work, faults = plans(64), dict(errors=0, different=0, wrong_verdicts=0)
    with Server() as server:

        async def run(session, i, n):
            for j in range(n // sessions):
                await play(session, work[(i + j) % len(work)], faults)

        await _all(server.ws, sessions, lambda s, i: run(s, i, episodes // 5))
        before = server.rss()
        await _all(server.ws, sessions, lambda s, i: run(s, i, episodes - episodes // 5))
        after = server.rss()
    return dict(
        episodes=episodes,
        mb_before=round(before / 1024, 1),
        mb_after=round(after / 1024, 1),
        growth_mb=round((after - before) / 1024, 1),
        **faults,
    )


def attacks():
    "What a hostile client sends: messages, or raw text."
    many = "WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM k) "
    thousand = "WITH k(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM k LIMIT 1000)"
    zeros, cells = (
        "printf('%019000d',0)",
        "WITH k(n) AS (SELECT 1000 UNION ALL SELECT n+1 FROM k LIMIT 20000) ",
    )
    sql = dict(
        endless=many + "SELECT count(*) FROM k",
        endless_rows=many + "SELECT n FROM k",
        cross="SELECT count(*) FROM " + ",".join(f"owner o{i}" for i in range(9)),
        doubling="WITH RECURSIVE d(s) AS (SELECT 'xy' UNION ALL SELECT s||s FROM d) SELECT max(length(s)) FROM d",
        blob="SELECT zeroblob(2000000000)",
        instr=f"{thousand} SELECT sum(instr({zeros}, printf('%09500d',0)||'b'||n)) FROM k",
        trim=f"{thousand} SELECT sum(length(trim(substr({zeros},n), replace(printf('%01600d',0),'0','b')||'0')))"
        " FROM k",
        like=f"SELECT count(*) FROM owner a, owner b WHERE {zeros} LIKE '%0%0%0%0%0%0%1%'",
        sort=f"{cells}SELECT count(*) FROM (SELECT DISTINCT printf('%015000d',n) FROM k)",
        wide=cells + "SELECT " + ",".join(["n+.5"] * 90) + " FROM k",
        text=cells + "SELECT printf('%0190d',n) FROM k",
        nested="SELECT " + "(" * 1900 + "1" + ")" * 1900,
        bomb="WITH a0(x) AS (SELECT 1)"
        + "".join(f",a{i}(x) AS (SELECT p.x FROM a{i - 1} p,a{i - 1} q)" for i in range(1, 20))
        + " SELECT x FROM a19",
        catalog="SELECT * FROM sqlite_master",
        write="DELETE FROM owner",
        attach="ATTACH 'x' AS y",
        extension="SELECT load_extension('x')",
        several="SELECT 1; DROP TABLE owner",
        concat=f"{cells}SELECT group_concat(n) OVER (ORDER BY n) FROM k",
        json="SELECT json_pretty(replace(printf('%0900d',0),'0','[')||replace(printf('%0900d',0),'0',']'))",
    )

    def step(kind, argument):
        return json.dumps({"type": "step", "data": {"action_type": kind, "argument": argument}})

    out = {k: [step("QUERY", v)] for k, v in sql.items()}
    out |= {
        f"answer_{k}": [step("QUERY", cells + "SELECT n+.5 FROM k"), step("ANSWER", v)]
        for k, v in dict(
            near=", ".join(f"{i + 1000}.499999" for i in range(8000)),
            lines="a\n" * 49999,
            deep="[" * 50000,
            pipes="|" * 99999,
            digits="9" * 99999,
            quotes="'" * 99999,
            objects="[" + ",".join(['{"a": 1}'] * 9000) + "]",
        ).items()
    }
    out |= dict(
        unknown=[step("DROP", "owner")],
        long=[step("QUERY", "SELECT '" + "a" * 99000 + "'")],
        over=[step("ANSWER", "a" * 900_000)],
        half=['{"type": "st'],
        list=["[1, 2]"],
        number=["7"],
        nested_json=["[" * 100_000],
        surrogate=['{"type": "step", "data": {"action_type": "QUERY", "argument": "\\ud800"}}'],
        keys=[json.dumps({"type": "reset", "data": {f"k{i}": i for i in range(20_000)}})],
        kind=[json.dumps({"type": "\x00" * 1000})],
        mcp=[json.dumps({"type": "mcp", "data": {"method": "openenv/session/create"}})],
        flood=[json.dumps({"type": "reset", "data": {}})] * 300,
        huge=["x" * 10_000_000],
    )
    return out


async def attack_all(url, seconds):
    "Carry out all attacks, again and again for so long, and print each one's name before it and its seconds after."
    import websockets

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, messages in attacks().items():
            start = time.monotonic()
            print(json.dumps([name]), flush=True)
            try:
                s = await Session.open(url)
                await s.call("reset", question_id="vet_clinic-05")
                for m in messages:
                    await asyncio.wait_for(s.raw(m), 30)
                await s.ws.close()
                took = round(time.monotonic() - start, 2)
            except websockets.ConnectionClosed as e:
                took = f"closed {e.rcvd.code if e.rcvd else ''}".strip()
            print(json.dumps([name, took]), flush=True)


async def hostile(neighbours=63, seconds=30.0, pause=0.05, rounds=5):
    """Latency of neighbours that take a step every `pause` seconds: `rounds` times in peace, then beside a hostile
    client, which is a process of its own, so that its work does not hold up those that measure."""
    work = plans(neighbours * 4)
    faults, survived, worst = dict(errors=0, different=0, wrong_verdicts=0), {}, {}
    with Server() as server:
        sessions = await asyncio.gather(*[Session.open(server.ws) for _ in range(neighbours)])

        async def neighbour(s, i, live):
            j = 0
            while live():
                await asyncio.sleep(pause * random.random())
                reset, actions, expected, correct = work[i * 4 + j % 4]
                got = [await s.call("reset", **reset)]
                for kind, argument in actions:
                    await asyncio.sleep(pause * 2 * random.random())
                    got.append(await s.call("step", action_type=kind, argument=argument))
                if got[-1]["data"].get("metadata", {}).get("correct") is not correct:
                    faults["wrong_verdicts"] += 1
                faults["different"] += sum(
                    {k: g["data"]["observation"][k] for k in e[0]} != e[0]
                    for g, e in zip(got, expected)
                )
                j += 1

        async def measure(during):
            for s in sessions:
                s.times.clear()
            live, cpu = True, server.cpu()

            async def until():
                nonlocal live
                await during()
                live = False

            await asyncio.gather(
                until(), *[neighbour(s, i, lambda: live) for i, s in enumerate(sessions)]
            )
            return [t for s in sessions for t in s.times], server.cpu() - cpu

        async def all_attacks():
            command = [sys.executable, __file__, "--attack", server.ws, str(seconds)]
            child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            before = []
            async for line in child.stdout:
                name, *took = json.loads(line)
                if took:
                    slowest = [t for s, n in zip(sessions, before) for t in s.times[n:]]
                    worst[name] = max([worst.get(name, 0.0), *slowest])
                    survived[name] = took[0]
                before = [len(s.times) for s in sessions]
            await child.wait()

        found = dict(peace=([], []), war=([], []))
        for _ in range(rounds):
            for kind, during in dict(peace=lambda: asyncio.sleep(seconds), war=all_attacks).items():
                times, cpu = await measure(during)
                found[kind][0].extend(times)
                found[kind][1].append(cpu)
        healthy = urllib.request.urlopen(server.http + "/health").status == 200
        await asyncio.gather(*[s.ws.close() for s in sessions])
    shown = {
        kind: dict(
            calls=len(times),
            p50_ms=ms(statistics.median(times)),
            p99_ms=ms(quantile(times, 0.99)),
            max_ms=ms(max(times)),
            server_cpu_us_per_call=round(1e6 * sum(cpu) / len(times)),
        )
        for kind, (times, cpu) in found.items()
    }
    return dict(
        neighbours=neighbours,
        attacks=len(survived),
        **shown,
        rounds=rounds,
        seconds=seconds,
        p99_ratio=round(shown["war"]["p99_ms"] / shown["peace"]["p99_ms"], 3),
        healthy=healthy,
        **faults,
        attack_seconds=survived,
        slowest_neighbour_ms={
            k: ms(v) for k, v in sorted(worst.items(), key=lambda kv: -kv[1])[:8]
        },
    )


def statements(n, seed=0):
    "Statements of every size, up to far beyond what is allowed."
    rng, made = random.Random(seed), []
    rows = "WITH k(n) AS (SELECT {a} UNION ALL SELECT n+1 FROM k LIMIT {n}) "
    zeros = "printf('%0{w}d',0)"
    kinds = [
        rows + f"SELECT sum(instr({zeros}, printf('%0{{v}}d',0)||'b'||n)) FROM k",
        rows + f"SELECT length(json_group_array(replace({zeros}, '0', n))) FROM k",
        rows + f"SELECT sum(length(trim(substr({zeros}, n % 50 + 1), '0b'))) FROM k",
        rows + f"SELECT count(*) FROM k WHERE {zeros}||n LIKE '%0%0%0%1%{{v}}'",
        rows + "SELECT count(*) FROM (SELECT DISTINCT printf('%0{w}d', n) FROM k)",
        rows + "SELECT group_concat(n) OVER (ORDER BY n % 7, n) FROM k",
        rows + "SELECT n, printf('%0{v}d', n) FROM k ORDER BY n % 13, n",
        rows + "SELECT count(*) FROM k a, k b WHERE (a.n * b.n) % 7 = {a} % 7",
        "SELECT count(*), max(o.owner_id + {a}) FROM owner o, owner p, owner q LIMIT {n}",
    ]
    for i in range(n):
        size = round(10 ** rng.uniform(0.5, 4.2))
        width, other = (round(10 ** rng.uniform(0.5, 3.8)) for _ in "ab")
        made.append(kinds[i % len(kinds)].format(a=rng.randrange(1000), n=size, w=width, v=other))
    return made


async def equal(n=1000, hostile=4, seed=0):
    "Statements asked once alone and cold, and once more, in another order, beside hostile sessions."
    asked, bad = statements(n, seed), [*attacks().values()]

    async def ask(server, order, live):
        session, seen = await Session.open(server.ws), {}
        for at, i in enumerate(order):
            if at % 14 == 0:
                await session.call("reset", question_id="vet_clinic-05")
            told = await session.call("step", action_type="QUERY", argument=asked[i])
            seen[i] = tuple(told["data"]["observation"][k] for k in ("result", "error"))
        live.clear()
        await session.ws.close()
        return seen

    async def disturb(server, i, live):
        while live:
            try:
                session = await Session.open(server.ws)
                await session.call("reset", question_id="vet_clinic-05")
                for message in bad[i % len(bad)][:20]:
                    await session.raw(message)
                await session.ws.close()
            except Exception:  # it may be thrown out
                await asyncio.sleep(0.01)
            i += hostile

    with Server() as server:
        alone = await ask(server, range(n), [1])
        order, live = random.Random(seed).sample(range(n), n), [1]
        others = [disturb(server, i, live) for i in range(hostile)]
        beside, *_ = await asyncio.gather(ask(server, order, live), *others)
    kinds = Counter((error or "answered").split(":")[0].strip() for _, error in alone.values())
    same = sum(alone[i] == beside[i] for i in range(n))
    return dict(statements=n, hostile_sessions=hostile, same=same, alone=dict(kinds))


ENDLESS = "WITH RECURSIVE k(n) AS (SELECT {i} UNION ALL SELECT n + 1 FROM k) SELECT max(n) FROM k"
CAREFUL = "SELECT count(*) FROM visit WHERE paid_on IS NULL AND {i} = {i}"  # of vet_clinic-02


async def endless(url, sessions, seconds):
    "Hostile sessions: four queries without an end, then a right answer, again and again."
    answers, end = 0, time.monotonic() + seconds

    async def attack(number):
        nonlocal answers
        session, i = await Session.open(url), number * 10**6
        while time.monotonic() < end:
            await session.call("reset", question_id="vet_clinic-02")
            for sql in (ENDLESS, ENDLESS, ENDLESS, ENDLESS, CAREFUL):
                i += 1
                told = await session.call("step", action_type="QUERY", argument=sql.format(i=i))
                answers += told["type"] == "observation"
            await session.call("step", action_type="ANSWER", argument="@last")

    print("begun", flush=True)
    await asyncio.gather(*[attack(number) for number in range(sessions)])
    print(answers, flush=True)


async def beside(hostile=40, honest=16, seconds=60.0, pause=0.25):
    """Latency of honest sessions on a server that judges robustly, beside hostile ones, a process of their own.
    Each honest one plays known episodes and makes some four calls a second."""
    work = plans(honest * 4, verify="robust")
    faults, times, lost = dict(errors=0, different=0, wrong_verdicts=0), [], 0
    with Server(SQL_ENV_VERIFY="robust") as server:
        for plan in work:  # the verdicts of honest answers are made once
            session = await Session.open(server.ws)
            await play(session, plan, dict(faults))
            await session.ws.close()
        command = [sys.executable, __file__, "--endless", server.ws, str(hostile), str(seconds)]
        child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        await child.stdout.readline()
        await asyncio.sleep(1)  # all of them are in a query

        async def neighbour(i):
            nonlocal lost
            try:
                session, j = await Session.open(server.ws), 0
                while child.returncode is None:
                    await play(session, work[i * 4 + j % 4], faults, pause * 2 * random.random())
                    j += 1
                times.extend(session.times)
                await session.ws.close()
            except Exception as e:
                print("lost", type(e).__name__, e, file=sys.stderr)
                lost += 1

        async def ended():
            said = await child.stdout.read()
            await child.wait()
            return int(said)

        answers, *_ = await asyncio.gather(ended(), *[neighbour(i) for i in range(honest)])
    return dict(
        hostile=hostile,
        honest=honest,
        seconds=seconds,
        calls=len(times),
        hostile_answers=answers,
        p50_ms=ms(statistics.median(times)),
        p99_ms=ms(quantile(times, 0.99)),
        max_ms=ms(max(times)),
        lost=lost,
        **faults,
    )


FIGURES = dict(
    latency=latency,
    load=load,
    load_512=lambda **k: load(512, 2, repeat=1),
    memory=memory,
    hostile_memory=hostile_memory,
    growth=growth,
    hostile=hostile,
    equal=equal,
    beside=beside,
)
QUICK = dict(
    latency=dict(n=600),
    load=dict(sessions=16, episodes=4, repeat=1),
    memory=dict(sessions=60),
    hostile_memory=dict(sessions=8),
    growth=dict(episodes=800),
    hostile=dict(neighbours=31, seconds=3.0, rounds=1),
    equal=dict(n=60),
    beside=dict(honest=4, seconds=5.0, pause=0.05),
)


def run(names, quick=False):
    "The named figures as a dictionary."
    return {n: asyncio.run(FIGURES[n](**(QUICK.get(n, {}) if quick else {}))) for n in names}


if __name__ == "__main__":
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--only", choices=FIGURES, action="append")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--attack", nargs=2, help=argparse.SUPPRESS)  # an address, and seconds
    p.add_argument(
        "--endless", nargs=3, help=argparse.SUPPRESS
    )  # an address, sessions, and seconds
    args = p.parse_args()
    if args.attack:
        sys.exit(asyncio.run(attack_all(args.attack[0], float(args.attack[1]))))
    if args.endless:
        url, sessions, seconds = args.endless
        sys.exit(asyncio.run(endless(url, int(sessions), float(seconds))))
    found = {}
    for name in args.only or FIGURES:
        found |= run([name], args.quick)
        print(name, json.dumps(found[name]), flush=True)
    if not args.quick and not args.only:
        about = dict(
            command="python benchmarks/server.py",
            cpus=os.cpu_count(),
            python=sys.version.split()[0],
        )
        (HERE / "server.json").write_text(json.dumps(about | found, indent=1) + "\n")
