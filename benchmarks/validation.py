"""What OpenEnv's validator names and does not try, tried here: `python benchmarks/validation.py [--write]`.

RFC 008 of OpenEnv lists checks of an environment; the installed version tries a few and skips the others as "not
implemented in this build". Each function below tries one of them, on the package in this process and on a running
server, and says how often it tried and what came out. A check that fails stays in the table. `--write` keeps the rows
in benchmarks/validation.json, beside the validator's own report, and writes the canaries that openenv.yaml declares.
`--quick` tries everything less often; the tests do. Not tried: what needs Docker (image hygiene, limits and network
of a container) and what takes a model (the hub's pass@k).
"""

import argparse
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from attacks import ATTACKS  # noqa: E402
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser  # noqa: E402
from openenv.validation.policy import load_policy  # noqa: E402
from openenv.validation.runner import run_validation  # noqa: E402
from openenv.validation.types import ProviderCapability  # noqa: E402
from server import Server  # noqa: E402, benchmarks/server.py

from sql_env import EpisodeEnv, OraclePolicy, RandomPolicy, evaluate, load  # noqa: E402
from sql_env.client import SQLEnv, list_questions  # noqa: E402
from sql_env.evaluation.logs import read_log, replay_trajectory  # noqa: E402
from sql_env.grading.answers import format_rows  # noqa: E402
from sql_env.models import SQLAction, SQLObservation  # noqa: E402
from sql_env.play.acts import ACTIONS  # noqa: E402
from sql_env.play.chat import tool_schemas  # noqa: E402
from sql_env.policies import HACKS  # noqa: E402
from sql_env.policies.baselines import parse_schema_info  # noqa: E402
from sql_env.server.environment import SQLEnvironment  # noqa: E402

CANARIES = ROOT / ".openenv" / "canaries.jsonl"
KEPT = ROOT / "benchmarks" / "validation.json"
PROBE = json.loads((ROOT / ".openenv" / "runtime.json").read_text())
MANIFEST = OpenEnvYamlParser().parse(ROOT)
QUESTIONS = load("bundled")
QUICK = False  # try everything, but less often


def some(n: int, quick: int) -> int:
    return quick if QUICK else n


class Package:
    "Sessions of the environment in this process."

    name = "package"
    stop = None

    @contextmanager
    def session(self):
        env = SQLEnvironment(QUESTIONS)
        yield env
        env.close()

    @contextmanager
    def player(self):
        yield EpisodeEnv(QUESTIONS)

    def state(self, env) -> dict:
        return env.state.model_dump()

    def tools(self) -> list[str]:
        from fastmcp import Client

        from sql_env.server.mcp_tools import Players, make_mcp_server

        return mcp_tools(
            Client(make_mcp_server(Players(lambda: SQLEnvironment(QUESTIONS)), ACTIONS))
        )

    def counts(self) -> dict[str, int]:
        env = SQLEnvironment(QUESTIONS)
        return {split: env.num_tasks(split) for split in env.list_splits()}

    def tells(self) -> str:
        "All that it tells of itself without an episode."
        env = SQLEnvironment(QUESTIONS)
        tasks = [env.list_tasks(split) for split in env.list_splits()]
        return json.dumps([env.get_metadata().model_dump(), tasks, env.state.model_dump()])

    def memory_mb(self) -> float:
        return peak_mb(os.getpid())

    def starts(self) -> str:
        return f"{len(SQLEnvironment().questions)} questions"


class Connection:
    "A client's connection that answers as an environment in this process does."

    def __init__(self, client):
        self.client = client

    def reset(self, **choose) -> SQLObservation:
        return self.client.reset(**choose).observation

    def step(self, action) -> SQLObservation:
        return self.client.step(action).observation


class Running(Package):
    "A server, reached over its own address."

    name = "server"

    def __init__(self, server):
        self.server, self.http = server, server.http

    @contextmanager
    def session(self):
        with SQLEnv(base_url=self.http).sync() as client:
            yield Connection(client)

    @contextmanager
    def player(self):
        with SQLEnv(base_url=self.http).sync() as client:
            yield client

    def state(self, env) -> dict:
        return env.client.state().model_dump()

    def tools(self) -> list[str]:
        from fastmcp import Client

        return mcp_tools(Client(f"{self.http}/mcp"))

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for q in list_questions(self.http):
            found[q.split] = found.get(q.split, 0) + 1
        return found

    def tells(self) -> str:
        paths = (
            "health",
            "metadata",
            "schema",
            "openapi.json",
            "list_environments",
            "sql_env/splits",
        )
        told = [get(f"{self.http}/{path}") for path in paths]
        return "\n".join(told) + repr(list_questions(self.http))

    def memory_mb(self) -> float:
        return peak_mb(self.server.process.pid)

    def starts(self) -> str:
        return get(f"{self.http}/health")


def get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.read().decode()
    except urllib.error.HTTPError as e:
        return str(e.code)


def mcp_tools(client) -> list[str]:
    import asyncio

    async def names():
        async with client:
            return [tool.name for tool in await client.list_tools()]

    return asyncio.run(names())


def peak_mb(pid: int) -> float:
    return int(re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def seen(obs: SQLObservation) -> dict:
    "An observation without the id that is drawn anew for each episode."
    told = obs.model_dump(mode="json")
    told["metadata"].pop("episode_id", None)
    return told


def act(env, verb: str, argument: str = "") -> SQLObservation:
    return env.step(SQLAction(action_type=verb, argument=argument))


def play(env, actions, **choose) -> list[SQLObservation]:
    "All observations of an episode, the first one too, up to its end."
    found = [env.reset(**choose)]
    for verb, argument in actions:
        if found[-1].done:
            break
        found.append(act(env, verb, argument))
    return found


def probe_actions() -> list[tuple[str, str]]:
    return [(a["action_type"], a["argument"]) for a in PROBE["actions"]]


def gold_actions(question) -> list[tuple[str, str]]:
    return [("QUERY", question.gold_sql), ("ANSWER", "@last")]


def drawn(n: int) -> list:
    "Questions in equal steps through the set, of all splits and databases."
    return QUESTIONS[:: max(1, len(QUESTIONS) // n)][:n] if n < len(QUESTIONS) else list(QUESTIONS)


def hack_actions(hack, first: SQLObservation, env) -> list[dict]:
    "What a hack does in an episode, played so that what it fills in is filled in."
    obs, done = first, []
    while not obs.done:
        verb, argument = hack.select_action(obs)
        done.append(dict(action_type=verb, argument=argument))
        obs = act(env, verb, argument)
    return done


def canaries() -> list[dict]:
    "Trajectories that must earn nothing: the hacks on the probe's question, and each attack that is short."
    reset, env = PROBE["reset"], SQLEnvironment(QUESTIONS)
    rows = []
    for hack in HACKS:
        first = env.reset(**reset["options"])
        rows.append(
            dict(name=f"hack: {hack.name}", reset=reset, actions=hack_actions(hack, first, env))
        )
    answer = dict(action_type="ANSWER", argument="@last")
    for name, sql, _ in ATTACKS:
        if isinstance(sql, str) and len(sql) <= 400:
            query = dict(action_type="QUERY", argument=sql)
            rows.append(dict(name=f"attack: {name}", reset=reset, actions=[query, answer]))
    return rows


def canary_text() -> str:
    return "".join(json.dumps(row) + "\n" for row in canaries())


# ---- the checks

CHECKS: dict[str, tuple[str, Callable]] = {}
Found = tuple[int, bool, str]


def check(name: str, tried: str):
    "Register a check, by the validator's name where it has one; it says how often it tried, if it holds, what it saw."

    def register(function: Callable[[Any], Found | None]):
        CHECKS[name] = tried, function
        return function

    return register


@check("static.layout", "files that the manifest names are there, inside the package, and no link")
def layout(face) -> Found | None:
    if face.name != "package":
        return None
    m = MANIFEST
    named = [m.capabilities.oracle.location, m.capabilities.canaries]
    named += [m.execution.probe_path, m.execution.dockerfile]
    bad = [p for p in named if not (ROOT / p).is_file() or (ROOT / p).is_symlink()]
    return len(named), not bad, f"missing: {', '.join(bad)}" if bad else "all there"


@check("static.dependency_pinning", "each requirement of the image, and its base, is one version")
def dependency_pinning(face) -> Found | None:
    if face.name != "package":
        return None
    import configparser

    ini = configparser.ConfigParser()
    ini.read(ROOT / "settings.ini", encoding="utf-8")
    wanted = f"{ini['DEFAULT']['requirements']} {ini['DEFAULT']['server_requirements']}".split()
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.M)
    loose = [r for r in wanted if "==" not in r] + [b for b in bases if "@sha256:" not in b]
    return (
        len(wanted) + len(bases),
        not loose,
        f"{len(loose)} are ranges or tags, as a library's are",
    )


@check(
    "static.task_distribution_pinning",
    "the digest of the bundled questions and databases is the declared one",
)
def task_distribution(face) -> Found | None:
    if face.name != "package":
        return None
    declared = MANIFEST.task_distribution and MANIFEST.task_distribution.dataset_version
    return 1, declared == content_digest(), str(declared)


def content_digest() -> str:
    "Of the questions and databases that a server plays if nothing else is set."
    digest = hashlib.sha256((ROOT / "sql_env" / "bundled" / "questions.jsonl").read_bytes())
    for name in sorted(QUESTIONS.databases):
        digest.update(QUESTIONS.databases[name].read_bytes())
    return f"sha256:{digest.hexdigest()[:16]}"


@check("static.oci_labels", "the image is labelled with its title, source, licence and version")
def oci_labels(face) -> Found | None:
    if face.name != "package":
        return None
    text = (ROOT / "Dockerfile").read_text()
    wanted = "title source licenses version".split()
    missing = [w for w in wanted if f"org.opencontainers.image.{w}=" not in text]
    if f'image.version="{MANIFEST.version}"' not in text:
        missing.append(f"version {MANIFEST.version}")
    return len(wanted), not missing, f"missing: {', '.join(missing)}" if missing else "all there"


@check("static.sbom", "the package ships a bill of materials")
def sbom(face) -> Found | None:
    if face.name != "package":
        return None
    found = [p.name for p in ROOT.glob("*.cdx.json")] + [p.name for p in ROOT.glob("*.spdx*")]
    return (
        1,
        bool(found),
        ", ".join(found) or "none: make it of the built image, with syft for example",
    )


@check("static.reproducible_build", "two wheels of the same files are the same bytes")
def reproducible(face) -> Found | None:
    if face.name != "package" or QUICK:
        return None
    digests = set()
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-m",
                "build",
                "--wheel",
                "--no-isolation",
                "--outdir",
                folder,
            ]
            env = os.environ | dict(SOURCE_DATE_EPOCH="1700000000")
            subprocess.run([*command, str(built_from())], check=True, capture_output=True, env=env)
            [wheel] = Path(folder).glob("*.whl")
            digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    return (
        2,
        len(digests) == 1,
        f"{len(digests)} digest{'s'[: len(digests) - 1]}; the image was not built",
    )


def built_from() -> Path:
    "A copy of the files in git, so that a build leaves nothing behind."
    folder = Path(tempfile.mkdtemp())
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


@check("runtime.startup", "it starts and says that it is well")
def startup(face) -> Found:
    return 1, True, face.starts()


@check(
    "runtime.reward_well_formed",
    "every reward is a finite number in the declared range, the sum of an episode too",
)
def reward_well_formed(face) -> Found:
    low, high = MANIFEST.reward.range
    n = some(60, 6)
    with face.player() as player:
        episodes = evaluate(player, RandomPolicy(1), n, progress=False, robust=False).episodes
    rewards = [e.total_reward for e in episodes]
    rewards += [sum(turn.reward.values()) for e in episodes for turn in e.turns]
    return len(rewards), all(low <= r <= high for r in rewards), f"{min(rewards)} to {max(rewards)}"


@check("runtime.rubric_introspectable", "the rubric names its parts")
def rubric(face) -> Found | None:
    if face.name != "package":
        return None
    names = [name for name, _ in SQLEnvironment(QUESTIONS).rubric.named_rubrics()]
    return 1, {"correct", "grounded", "robust"} <= set(names), ", ".join(filter(None, names))


@check(
    "runtime.reward_attribution",
    "the reward of an episode is the verdict `correct` that came with its end",
)
def attribution(face) -> Found:
    bad, chosen = 0, drawn(some(40, 6))
    with face.session() as env:
        for i, q in enumerate(chosen):
            actions = gold_actions(q) if i % 2 else [("QUERY", "SELECT 'x'"), ("ANSWER", "@last")]
            found = play(env, actions, question_id=q.question_id)
            bad += sum(obs.reward or 0 for obs in found) != float(found[-1].metadata["correct"])
    return len(chosen), not bad, f"{bad} differ"


@check(
    "runtime.observation_schema",
    "every observation is valid by the declared schema and has no other field",
)
def schema(face) -> Found:
    n = bad = 0
    with face.session() as env:
        for q in drawn(some(30, 4)):
            for obs in play(env, gold_actions(q), question_id=q.question_id):
                n += 1
                bad += SQLObservation.model_validate(obs.model_dump()) != obs
    return n, not bad, f"{bad} are not"


@check("runtime.state_contract", "the state has the episode's id and counts its steps")
def state(face) -> Found:
    n = bad = 0
    with face.session() as env:
        for i in range(some(10, 2)):
            first = env.reset(episode_id=f"probe-{i}", **PROBE["reset"]["options"])
            obs = first
            for verb, argument in [("", ""), *probe_actions()]:
                obs = act(env, verb, argument) if verb else obs
                told = face.state(env)
                n += 1
                bad += (told["episode_id"], told["step_count"]) != (f"probe-{i}", obs.step_count)
    return n, not bad, f"{bad} differ"


@check(
    "runtime.trajectory_record",
    "a log holds every action, observation, reward and verdict of an episode",
)
def record(face) -> Found:
    n = some(20, 4)
    with tempfile.TemporaryDirectory() as folder, face.player() as player:
        path = Path(folder) / "log.jsonl"
        result = evaluate(
            player, OraclePolicy(QUESTIONS), n, progress=False, robust=False, log=path
        )
        _, kept = read_log(path)
    whole = all(e.turns and e.verdicts and e.reset.get("question_id") for e in kept)
    same = [(e.turns, e.total_reward) for e in kept] == [
        (e.turns, e.total_reward) for e in result.episodes
    ]
    return len(kept), whole and same and len(kept) == n, "all there" if same else "the log differs"


@check("runtime.tool_declaration_accuracy", "the tools over MCP are the declared ones")
def tools(face) -> Found:
    declared, found = sorted(MANIFEST.capabilities.declared_tools), sorted(face.tools())
    own = sorted(["start", *(t["function"]["name"] for t in tool_schemas(ACTIONS))])
    return len(found), found == declared == own, ", ".join(found)


@check("runtime.task_declaration_accuracy", "each split has as many tasks as declared")
def tasks(face) -> Found:
    found = face.counts()
    return len(found), found == MANIFEST.capabilities.declared_task_count, str(found)


@check("runtime.seed_control", "a seed chooses the same episode again, and seeds differ")
def seeds(face) -> Found:
    n = some(30, 5)
    with face.session() as env, face.session() as other:
        pairs = [(seen(env.reset(seed=i)), seen(other.reset(seed=i))) for i in range(n)]
    different = len({a["metadata"]["question_id"] for a, _ in pairs})
    return (
        n,
        all(a == b for a, b in pairs) and different > n // 2,
        f"{different} questions by {n} seeds",
    )


@check(
    "runtime.episode_determinism",
    "the same actions are observed in the same way, in another session too",
)
def determinism(face) -> Found:
    n = some(10, 3)
    runs = []
    for _ in range(n):
        with face.session() as env:
            runs.append(
                [
                    seen(obs)
                    for obs in play(env, probe_actions(), seed=0, **PROBE["reset"]["options"])
                ]
            )
    return n, all(run == runs[0] for run in runs), f"{len(runs[0])} observations each"


@check(
    "runtime.network_policy",
    "no socket is opened to anywhere while episodes run (an audit hook of Python)",
)
def network(face) -> Found | None:
    if face.name != "package":
        return None
    opened, mine = [], threading.get_ident()
    watching = [True]

    def watch(event, args):
        if (
            watching[0]
            and threading.get_ident() == mine
            and event in ("socket.connect", "socket.getaddrinfo")
        ):
            opened.append(event)

    sys.addaudithook(watch)
    with suppress(OSError), socket.socket() as s:  # the hook sees one that is opened
        s.settimeout(1)
        s.connect(("127.0.0.1", 9))
    hears, opened[:] = bool(opened), []
    n = some(40, 5)
    evaluate(EpisodeEnv(QUESTIONS), OraclePolicy(QUESTIONS), n, progress=False)
    watching[0] = False
    return n, hears and not opened, f"{len(opened)} sockets"


@check(
    "runtime.host_containment",
    "statements that would read, write or load a file are refused, and no file changes",
)
def containment(face) -> Found:
    path = QUESTIONS.databases[QUESTIONS.get("public_library-01").database_name]
    before, folder = hashlib.sha256(path.read_bytes()).digest(), tempfile.mkdtemp()
    statements = [
        f"ATTACH DATABASE '{folder}/x.sqlite' AS x",
        f"VACUUM INTO '{folder}/x.sqlite'",
        "SELECT readfile('/etc/passwd')",
        f"SELECT writefile('{folder}/x', 'x')",
        "SELECT load_extension('x')",
        "SELECT * FROM fsdir('/')",
        "PRAGMA journal_mode = WAL",
        "PRAGMA writable_schema = ON",
        "DELETE FROM reader",
        "DROP TABLE reader",
        "CREATE TABLE x(y)",
        "SELECT 1; SELECT readfile('/etc/passwd')",
    ]
    allowed = []
    with face.session() as env:
        for i, sql in enumerate(statements):
            if i % 10 == 0:
                env.reset(**PROBE["reset"]["options"])
            if not act(env, "QUERY", sql).error:
                allowed.append(sql)
    same = hashlib.sha256(path.read_bytes()).digest() == before and not os.listdir(folder)
    return (
        len(statements),
        same and not allowed,
        f"{len(allowed)} ran, files {'as before' if same else 'changed'}",
    )


@check(
    "runtime.resource_bounds",
    "statements that never end or fill the memory are stopped within the declared limits",
)
def bounds(face) -> Found:
    names = "cartesian-60 wide-emoji".split()
    endless = (
        "WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k) SELECT count(*) FROM k"
    )
    dear = [endless, *(sql for name, sql, _ in ATTACKS if name in names)]
    begun, slowest, held = time.monotonic(), 0.0, face.memory_mb()
    with face.session() as env:
        env.reset(**PROBE["reset"]["options"])
        for sql in dear:
            started = time.monotonic()
            act(env, "QUERY", sql)
            slowest = max(slowest, time.monotonic() - started)
    whole, mb = (
        time.monotonic() - begun,
        face.memory_mb() - held,
    )  # a test process may hold much before
    limits = MANIFEST.resources
    fits = whole < limits.episode_timeout_s and mb < limits.memory_mb
    size = "under" if mb < limits.memory_mb else "over"
    return (
        len(dear),
        fits and slowest < 30,
        f"each stopped within 30 s; {size} {limits.memory_mb} MB",
    )


@check("runtime.episode_isolation", "sessions whose steps take turns see what each sees alone")
def isolation(face) -> Found:
    n, chosen = 0, drawn(some(8, 3))
    alone = []
    for q in chosen:
        with face.session() as env:
            alone.append([seen(o) for o in play(env, gold_actions(q), question_id=q.question_id)])
    sessions = [face.session() for _ in chosen]
    envs = [s.__enter__() for s in sessions]
    beside = [[seen(env.reset(question_id=q.question_id))] for env, q in zip(envs, chosen)]
    for turn in range(2):
        for env, q, found in zip(envs, chosen, beside):
            act_of = gold_actions(q)[turn]
            found.append(seen(act(env, *act_of)))
            n += 1
    for s in sessions:
        s.__exit__(None, None, None)
    return n, alone == beside, "the same" if alone == beside else "they differ"


@check(
    "runtime.oracle_containment", "gold, oracle and canaries are in nothing that is told or served"
)
def oracle_containment(face) -> Found:
    text = face.tells()
    leaks = [q.question_id for q in QUESTIONS if q.gold_sql in text]
    paths = [".openenv/oracle.py", ".openenv/canaries.jsonl", "sql_env/bundled/questions.jsonl"]
    if face.name == "server":
        served = [p for p in paths if not get(f"{face.http}/{p}").startswith("4")]
    else:
        shipped = (ROOT / "MANIFEST.in").read_text() + (ROOT / ".dockerignore").read_text()
        served = [p for p in paths[:2] if ".openenv" in shipped]
    return (
        len(QUESTIONS) + len(paths),
        not leaks and not served,
        f"{len(leaks)} gold queries told, {len(served)} files",
    )


@check("semantic.oracle_max", "the gold query of a question earns the maximum")
def oracle_max(face) -> Found:
    n = some(len(QUESTIONS), 12)
    with face.player() as player:
        episodes = evaluate(
            player, OraclePolicy(QUESTIONS), n, progress=False, robust=False
        ).episodes
    rewards = [e.total_reward for e in episodes]
    top = MANIFEST.reward.range[1] - MANIFEST.reward.oracle_tolerance
    return (
        n,
        min(rewards) >= top,
        f"{sum(r >= top for r in rewards)} of {n} at {MANIFEST.reward.range[1]}",
    )


@check(
    "semantic.floor_gap",
    "an episode in which nothing is done lies below the maximum by the declared margin",
)
def floor_gap(face) -> Found:
    chosen, found = drawn(some(40, 4)), []
    with face.session() as env:
        for q in chosen:
            found.append(
                sum(
                    o.reward or 0
                    for o in play(env, [("DESCRIBE", "")] * 15, question_id=q.question_id)
                )
            )
    gap = MANIFEST.reward.range[1] - max(found)
    return len(chosen), gap >= MANIFEST.reward.floor_margin, f"floor {max(found)}, gap {gap}"


@check("semantic.canary_floor", "the declared canaries earn no more than doing nothing")
def canary_floor(face) -> Found:
    rows = [json.loads(line) for line in CANARIES.read_text().splitlines()]
    rows = rows[:: some(1, 4)]
    paid = []
    with face.session() as env:
        for row in rows:
            moves = [(a["action_type"], a["argument"]) for a in row["actions"]]
            reset = row["reset"]
            found = play(env, moves, seed=reset["seed"], **reset["options"])
            if sum(o.reward or 0 for o in found) > 0:
                paid.append(row["name"])
    return len(rows), not paid, f"paid: {', '.join(paid) or 'none'}"


@check(
    "hacks on all questions",
    "no hack is paid for any question, whatever its answer is",
)
def hacks(face) -> Found | None:
    if face.name != "package":
        return None
    n, paid, most = some(len(QUESTIONS), 96), 0, ("", 0.0)
    for hack in HACKS:
        result = evaluate(EpisodeEnv(QUESTIONS), hack, n, progress=False, robust=False)
        paid += sum(e.total_reward > 0 for e in result.episodes)
        most = max(most, (hack.name, result.avg_reward), key=lambda pair: pair[1])
    return n * len(HACKS), not paid, f"{paid} paid; most by '{most[0]}', {most[1]:.2%}"


@check(
    "semantic.no_solution_leakage",
    "nothing that is observed before a query holds the gold query or the gold rows",
)
def leakage(face) -> Found:
    chosen, sql, rows = drawn(some(120, 12)), 0, 0
    with face.session() as env:
        for q in chosen:
            first = env.reset(question_id=q.question_id)
            tables = sorted(parse_schema_info(first.schema_info))[:3]
            found = [first, *(act(env, "DESCRIBE", t) for t in tables)]
            text = json.dumps([o.model_dump() for o in found], default=str)
            answer = format_rows(q.gold_answer)
            sql += q.gold_sql in text
            rows += len(answer) > 12 and answer in text  # shorter ones stand there by chance
    return len(chosen), not sql and not rows, f"{sql} queries, {rows} answers"


@check("semantic.verifier_determinism", "the same answer is judged and paid alike every time")
def verifier_determinism(face) -> Found:
    times, chosen, bad = some(5, 3), drawn(some(12, 3)), 0
    with face.session() as env:
        for q in chosen:
            ends = set()
            for _ in range(times):
                last = play(env, gold_actions(q), question_id=q.question_id)[-1]
                ends.add((last.reward, last.metadata["correct"], last.metadata["grounded"]))
            bad += len(ends) > 1
    return times * len(chosen), not bad, f"{bad} questions differ"


@check(
    "semantic.verifier_portability",
    "other process, folder, time zone, language and hash seed: the same verdicts",
)
def portability(face) -> Found | None:
    if face.name != "package":
        return None
    code = "from sql_env import *; q = load('bundled'); r = evaluate(EpisodeEnv(q), %s, 40, progress=False); print("
    code += "[(e.question_id, e.total_reward, {k: v.reason for k, v in e.verdicts.items()}) for e in r.episodes])"
    said = set()
    for policy in ("OraclePolicy(q)", "GreedyPolicy()"):
        heard = set()
        for seed, zone, language in (("0", "UTC", "C"), ("7", "Asia/Tokyo", "C.UTF-8")):
            env = os.environ | dict(
                PYTHONHASHSEED=seed, TZ=zone, LC_ALL=language, PYTHONPATH=str(ROOT)
            )
            command = [sys.executable, "-c", code % policy]
            heard.add(
                subprocess.check_output(command, text=True, env=env, cwd=tempfile.gettempdir())
            )
        said.add(len(heard))
    return 160, said == {1}, "the same" if said == {1} else "they differ"


@check("semantic.resource_envelope", "whole episodes stay within the declared memory and time")
def envelope(face) -> Found:
    n, limits = some(100, 6), MANIFEST.resources
    begun = time.monotonic()
    with face.player() as player:
        evaluate(player, OraclePolicy(QUESTIONS), n, progress=False, robust=False)
    each, mb = (time.monotonic() - begun) / n, face.memory_mb()
    fits = each < limits.episode_timeout_s and mb < limits.memory_mb
    word = "under" if fits else "over"
    return n, fits, f"{word} {limits.memory_mb} MB and {limits.episode_timeout_s:g} s an episode"


@check(
    "semantic.replayability",
    "the actions of a log, taken again, give its observations, rewards and verdicts",
)
def replayability(face) -> Found:
    n, told = some(40, 5), []
    with face.player() as player:
        episodes = evaluate(player, RandomPolicy(3), n, progress=False, robust=False).episodes
    if face.name == "server":  # a client knows no reasons: what it saw is compared
        again = evaluate(
            EpisodeEnv(QUESTIONS), RandomPolicy(3), n, progress=False, robust=False
        ).episodes
        told = [
            a
            for a, b in zip(episodes, again)
            if (a.turns, a.total_reward) != (b.turns, b.total_reward)
        ]
    else:
        for e in episodes:
            told += replay_trajectory(EpisodeEnv(QUESTIONS), e, robust=None)[1]
    return n, not told, f"{len(told)} differences"


@check(
    "statistical.difficulty_separation", "policies of rising skill earn more: random, greedy, gold"
)
def separation(face) -> Found | None:
    if face.name != "package":
        return None
    from sql_env import GreedyPolicy

    n, env = some(len(QUESTIONS), 48), EpisodeEnv(QUESTIONS)
    policies = RandomPolicy(0), GreedyPolicy(), OraclePolicy(QUESTIONS)
    rates = [evaluate(env, p, n, progress=False, robust=False).success_rate for p in policies]
    return 3 * n, rates == sorted(set(rates)), ", ".join(f"{rate:.1%}" for rate in rates)


@check("concurrent sessions", "sessions in threads, all at once, see what each sees alone")
def concurrent(face) -> Found:
    chosen = drawn(some(32, 6))

    def one(q):
        with face.session() as env:
            return [seen(o) for o in play(env, gold_actions(q), question_id=q.question_id)]

    alone = list(map(one, chosen))
    with ThreadPoolExecutor(len(chosen)) as pool:
        beside = list(pool.map(one, chosen))
    return len(chosen), alone == beside, "the same" if alone == beside else "they differ"


@check(
    "bad input", "wrong verbs, options and arguments are answered in words, and the episode goes on"
)
def bad_input(face) -> Found:
    wrong = [
        ("QUERY", ""),
        ("QUERY", "?" * 5000),
        ("QUERY", "SELECT \x00"),
        ("DESCRIBE", "no_such_table"),
    ]
    wrong += [
        ("SAMPLE", "'; DROP TABLE reader; --"),
        ("EXECUTE", "DELETE FROM reader"),
        ("ANSWER", "@last"),
    ]
    mute, n = [], 0
    with face.session() as env:
        for verb, argument in wrong:
            env.reset(**PROBE["reset"]["options"])
            with_error = None
            try:
                obs = act(env, verb, argument)
                with_error = obs.error
            except Exception as e:  # a server refuses a verb that it does not declare
                with_error = str(e)
            n += 1
            if not with_error:
                mute.append(f"{verb} {argument[:20]}")
        for options in (dict(spilt="test"), dict(index="1"), dict(question_id="none")):
            n += 1
            try:
                env.reset(**options)
                mute.append(str(options))
            except Exception as e:
                if not str(e):
                    mute.append(str(options))
        obs = play(env, probe_actions(), **PROBE["reset"]["options"])[-1]
    return n, not mute and obs.done, f"without words: {', '.join(mute) or 'none'}"


@check(
    "budget end",
    "the last step of the budget ends the episode, without reward, and a further one is refused",
)
def budget(face) -> Found:
    with face.session() as env:
        found = play(env, [("DESCRIBE", "reader")] * 20, **PROBE["reset"]["options"])
        after = act(env, "DESCRIBE", "reader")
    good = len(found) == 16 and found[-1].done and not found[-1].budget_remaining
    return (
        len(found),
        good and bool(after.error) and not (after.reward or 0),
        f"ended after {len(found) - 1} steps",
    )


@check("reset mid-episode", "a reset drops what was seen, done and paid before")
def reset_midway(face) -> Found:
    n, bad = some(10, 3), 0
    with face.session() as env:
        clean = seen(env.reset(**PROBE["reset"]["options"]))
        for i in range(n):
            for verb, argument in probe_actions()[: i % 4 + 1]:
                act(env, verb, argument)
            bad += seen(env.reset(**PROBE["reset"]["options"])) != clean
    return n, not bad, f"{bad} differ"


@check("step before reset", "an action without an episode is answered in words and pays nothing")
def before_reset(face) -> Found:
    with face.session() as env:
        try:
            obs = act(env, "QUERY", "SELECT 1")
            said, paid = obs.error, obs.reward or 0
        except Exception as e:
            said, paid = str(e), 0
    return 1, bool(said) and not paid, said[:80]


def run_check(name: str, face) -> dict | None:
    "A row of a face: how often it was tried, and what came out."
    try:
        found = CHECKS[name][1](face)
    except Exception as e:
        found = 0, False, f"{type(e).__name__}: {e}"[:200]
    if found is None:
        return None
    n, holds, saw = found
    return dict(times=n, holds=bool(holds), saw=saw)


class ProcessProvider:
    "The server in a process of its own where OpenEnv's validator wants a container: nothing is built or sealed off."

    name, supported_network_modes = "process", frozenset({"no-network", "public"})
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})

    def build(self, root, execution) -> str:
        return "sha256:" + "0" * 64

    def start(self, spec) -> "ProcessProvider":
        self.server = Server().__enter__()
        self.base_url = self.server.http
        return self

    def inspect(self) -> dict:
        return {"sandbox": "none"}

    def stop(self) -> None:
        self.server.__exit__()


def upstream_package() -> list[dict]:
    "The validator's own report of this package."
    report = run_validation(ROOT, provider=ProcessProvider())
    return [
        dict(check=r.check_id, status=r.status.value, why=r.evidence[0]) for r in report.results
    ]


def upstream_server(url: str) -> dict:
    "The validator's own report of a running server."
    command = [
        sys.executable,
        "-m",
        "openenv.cli",
        "validate",
        "--url",
        url,
        "--json",
        "--timeout",
        "60",
    ]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout
    report = json.loads(said[said.index("{") :])
    return dict(
        passed=report["passed"], criteria={c["id"]: c["passed"] for c in report["criteria"]}
    )


def table(faces, names) -> list[dict]:
    known = {e.check_id: e for e in load_policy("v2").entries}
    rows = []
    for name in names:
        tried, _ = CHECKS[name]
        row = dict(check=name, tried=tried, lane=known[name].lane.value if name in known else "own")
        for face in faces:
            row[face.name] = run_check(name, face)
        rows.append(row)
    return rows


def main(argv=None) -> int:
    global QUICK
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep rows and canaries")
    parser.add_argument("--quick", action="store_true", help="try everything less often")
    parser.add_argument("names", nargs="*", help="only these; the other rows stay as they are")
    options = parser.parse_args(argv)
    QUICK = options.quick
    if options.write or not CANARIES.exists():
        CANARIES.write_text(canary_text(), encoding="utf-8")
    with Server() as server:
        rows = table([Package(), Running(server)], options.names or CHECKS)
        reports: dict[str, Any] = dict(server=upstream_server(server.http))
    reports["package"] = upstream_package()
    for row in rows:
        for face in ("package", "server"):
            if found := row[face]:
                word, times = "holds" if found["holds"] else "FAILS", found["times"]
                print(f"{word}  {row['check']} ({face}, {times}): {found['saw']}")
    if options.write:
        before = json.loads(KEPT.read_text())["rows"] if KEPT.exists() else []
        by_name = {row["check"]: row for row in [*before, *rows]}
        whole = [by_name[name] for name in CHECKS if name in by_name]
        command = "python benchmarks/validation.py --write"
        kept = dict(command=command, openenv=version("openenv"), rows=whole, validator=reports)
        KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
