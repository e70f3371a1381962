"The server's own failures: a disk that is full, gone or held by a half line; nobody is punished, nothing is lost."

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

pytest.importorskip("openenv", reason="openenv is not installed: pip install 'sql_env[server]'")
from fastapi.testclient import TestClient
from serving import Server, act, tell
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from sql_env import EpisodeEnv, ScriptedPolicy, SQLAction, evaluate, load
from sql_env.client import SessionLostError, _RemoteEpisodeEnv
from sql_env.database import build_database
from sql_env.database.guards import EnvironmentFailedError
from sql_env.database.workers import Workers
from sql_env.evaluation.logs import read_log
from sql_env.grading.variants.pairs import _generator
from sql_env.models import SQLObservation
from sql_env.play import Observation, Session, ToolError
from sql_env.questions.question_set import save_question_set
from sql_env.server import SQLEnvironment
from sql_env.server.app import create_app
from sql_env.server.harness import HarnessSession
from sql_env.server.settings import Journal, Seats, Settings, _as_line


@contextmanager
def full_disk(path: Path, room: int = 0):
    "No file of this process may grow beyond what `path` has now and some bytes more."
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


@contextmanager
def gone(path: Path, folder: bool = False):
    "A file or a folder is away for a while; a folder may stand where the file was."
    away = path.rename(path.with_name("away"))
    if folder:
        path.mkdir()
    yield
    if folder:
        path.rmdir()
    away.rename(path)


FAULTS = {
    "full disk": full_disk,
    "full after half a line": lambda path: full_disk(path, 20),
    "gone": lambda path: gone(path.parent),
    "a folder": lambda path: gone(path, folder=True),
}


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def fails(error):
    def raises(*_: object) -> None:
        raise error

    return raises


def moves(questions) -> list[tuple[str, str]]:
    return [("QUERY", questions[0].gold_sql), ("ANSWER", "@last")]


def tool_calls(questions) -> list[tuple[str, dict]]:
    return [("query", dict(sql=questions[0].gold_sql)), ("answer", dict(value="@last"))]


def make_players(questions, reveal="verdict", on_end=None, **rules):
    tools = pytest.importorskip("sql_env.server.mcp_tools")
    env = EpisodeEnv(questions, **rules)
    players = tools.Players(lambda: tools.Player(Session(env), reveal, on_end), Seats(1))
    return players, players.enter()


@pytest.fixture
def questions():
    found = [q for q in load("bundled") if len(q.gold_answer) == len(q.gold_answer[0]) == 1]
    return load("bundled").with_questions(found[:1])


@pytest.fixture
def path(tmp_path):
    "Of a file of results, in a folder that may go away."
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "results.jsonl"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_disk_that_fails_pays_nobody_zero(fault, path, questions):
    "The answer is right, `/health` says what is wrong, and every line is there once the disk is."
    app = create_app(Settings(web=False, hosts="*", results=str(path)), questions)
    numbers = count()
    with TestClient(app, base_url="http://localhost") as client:

        def play(n: int) -> None:
            with client.websocket_connect("/ws") as ws:
                for _ in range(n):
                    assert tell(ws, "reset", episode_id=f"episode-{next(numbers)}")["type"] == "observation"
                    for verb, text in moves(questions):
                        said = tell(ws, "step", action_type=verb, argument=text)["data"]
                    assert said["reward"] == 1.0 and said["done"]
                    assert said["metadata"]["correct"] and "blame" not in said["metadata"]

        play(2)
        with FAULTS[fault](path):
            play(3)
            health = client.get("/health").json()
            assert health["status"] == "degraded" and "results wait" in health["reason"]
        play(1)
        assert client.get("/health").json()["status"] == "healthy"
    found = [line["episode_id"] for line in lines_of(path)]
    assert len(found) == len(set(found)) == 6
    assert all(line["correct"] for line in lines_of(path))


def test_a_statement_that_the_clock_stops_is_counted_and_logged(questions, capfd):
    app = create_app(Settings(web=False, hosts="*", seconds=0.01), questions)
    sql = "WITH k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k LIMIT 200000) SELECT count(*) FROM k"
    with TestClient(app, base_url="http://localhost") as client:
        with client.websocket_connect("/ws") as ws:
            tell(ws, "reset")
            said = tell(ws, "step", action_type="QUERY", argument=sql)["data"]["observation"]
        assert said["error"].startswith("timeout")
        assert client.get("/health").json() == dict(status="healthy", emergency_stops=1)
    assert "emergency stop of a statement" in capfd.readouterr().err


@pytest.mark.parametrize("end, kept", [('{"n": 2, "corr', [1]), ('{"n": 2}', [1, 2]), ("\x00" * 40, [1]), ("", [1])])
def test_the_end_of_a_file_is_mended(end, kept, path):
    "Half a line goes, a whole one that lacks its end stays; then lines follow as if nothing had been."
    path.write_text('{"n": 1}\n' + end)
    Journal(str(path)).add(dict(n=9))
    assert [line["n"] for line in lines_of(path)] == [*kept, 9]


WRITES = """
import sys
from sql_env.server.settings import Journal
journal = Journal(sys.argv[1])
for i in range(100_000):
    journal.add(dict(name=int(sys.argv[2]), i=i, text="x" * (i % 3000)))
"""


@pytest.mark.slow
def test_processes_that_are_killed_leave_whole_lines(path):
    "Four processes write one file and are killed one after the other: each has a run of lines without a gap."
    command = [sys.executable, "-c", WRITES, str(path)]
    processes = [subprocess.Popen([*command, str(n)]) for n in range(4)]
    path.touch()
    while len({line.split(b",")[0] for line in path.read_bytes().splitlines()[:-1]}) < 4:
        assert all(process.poll() is None for process in processes), "one has ended by itself"
        time.sleep(0.05)
    for process in processes:
        process.kill()
        process.wait()
    Journal(str(path)).add(dict(name=9, i=0))
    found: dict[int, list[int]] = {}
    for line in lines_of(path):
        found.setdefault(line["name"], []).append(line["i"])
    assert found.keys() == {0, 1, 2, 3, 9}
    assert all(numbers == list(range(len(numbers))) for numbers in found.values())


def test_no_episode_begins_whose_result_could_not_be_kept(path, questions, monkeypatch):
    monkeypatch.setattr(Journal.__init__, "__defaults__", (2, _as_line))
    app = create_app(Settings(web=False, hosts="*", results=str(path)), questions)
    with TestClient(app, base_url="http://localhost") as client:
        with gone(path.parent), client.websocket_connect("/ws") as ws:
            for _ in range(2):
                assert tell(ws, "reset")["type"] == "observation"
                assert tell(ws, "step", action_type="ANSWER", argument="7")["data"]["reward"] == 0.0
            refused = client.post("/reset", json={})
            assert refused.status_code == 503 and "could not be kept" in refused.json()["detail"]
            assert tell(ws, "reset")["type"] == "error"
        assert client.post("/reset", json={}).status_code == 200
    assert len(lines_of(path)) == 2


def test_what_fails_after_an_episode_is_no_part_of_it(questions):
    "A listener that raises loses its record, not the agent its reward."
    env = SQLEnvironment(questions, on_end=fails(OSError(28, "No space left on device")))
    env.reset()
    sent = [act(env, *move) for move in moves(questions)][-1]
    assert sent.done and sent.reward == 1.0 and sent.metadata["correct"]


@pytest.mark.parametrize("error", (MemoryError(), ZeroDivisionError("division by zero")))
def test_a_step_that_the_environment_fails_has_no_reward_and_hides_what_broke(error, questions, monkeypatch):
    env = SQLEnvironment(questions)
    env.reset()
    monkeypatch.setattr(env.episode_env, "step", fails(error))
    sent = act(env, "QUERY", "SELECT 1")
    assert sent.done and sent.reward is None and sent.metadata["blame"] == "environment"
    assert sent.error.startswith("internal") and "not the agent" in sent.error and "division" not in sent.error
    monkeypatch.undo()
    assert not env.reset().done, "another episode can begin"


ENDLESS = "WITH k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k) SELECT sum(instr(hex(n), 'x')) FROM k"


def began(server):
    "A session on the only seat, once there is one, in the middle of a statement."
    while True:
        client = connect(server.ws, compression=None, proxy=None).__enter__()
        with suppress(ConnectionClosed):
            client.send(json.dumps(dict(type="reset", data={})))
            if json.loads(client.recv())["type"] == "observation":
                break
        time.sleep(0.05)
    client.send(json.dumps(dict(type="step", data=dict(action_type="QUERY", argument=ENDLESS))))
    while not running(server):
        time.sleep(0.05)
    return client


def running(server) -> list[int]:
    "The processes of a server that work now, and did so for a while; a thread or one that just ended is none."
    working = []
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            for pid in (task / "children").read_text().split():
                with suppress(FileNotFoundError, ProcessLookupError):
                    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    working += [int(pid)] * (state[0] == "R" and int(state[11]) > 50)
    return working


@pytest.mark.slow
def test_a_killed_worker_is_a_failure_of_the_environment_and_who_leaves_meanwhile_leaves_its_seat():
    "On a server with one seat, on which a statement may run for days."
    options = dict(MAX_CONCURRENT_ENVS="1", SQL_ENV_OPERATIONS=str(10**12), SQL_ENV_SECONDS="100000")
    with Server(**options) as narrow:
        client = began(narrow)
        for pid in running(narrow):
            os.kill(pid, signal.SIGKILL)
        said = json.loads(client.recv())["data"]
        assert said["done"] and said["reward"] is None and said["metadata"]["blame"] == "environment"
        assert said["observation"]["error"].startswith("internal: The environment failed, not the agent")
        for kind, data in (("reset", {}), ("step", dict(action_type="QUERY", argument="SELECT 1 -- " + "x" * 600))):
            client.send(json.dumps(dict(type=kind, data=data)))
            said = json.loads(client.recv())["data"]
        assert said["observation"]["result"] and not said["observation"]["error"]
        client.close()
        # Three clients begin a statement of days on the only seat, one after the other, and are gone
        for _ in range(3):
            client = began(narrow)
            client.socket.shutdown(socket.SHUT_RDWR)
        began(narrow).close()
        while running(narrow):  # the last one was stopped too
            time.sleep(0.05)


def cut(path: Path) -> None:
    os.truncate(path, 4096)


def overwritten(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def replaced(path: Path) -> None:
    os.replace(build_database(path.with_name("other"), "CREATE TABLE animal (id)", dict(animal=[(1,)])), path)


def play_openenv(questions, spoil, **rules) -> list:
    env = SQLEnvironment(questions, **rules)
    env.reset(question_id=questions[0].question_id)
    spoil(env.episode.database)
    sent = (act(env, *move) for move in moves(questions))
    return [one.reward for one in sent if one.done][:1]


def play_trl(questions, spoil, **rules) -> list:
    trl = pytest.importorskip("sql_env.integrations.trl")
    env = trl.SQLEnvTRL(questions, reward="sparse", **rules)
    env.reset(question_id=questions[0].question_id)
    spoil(env.episode.database)
    for verb, text in moves(questions):
        with suppress(Exception):  # as its trainers do
            getattr(env, verb.lower())(text)
    metrics = trl.rollout_metrics([env])
    assert (env.get_reward() is None) == ("correct" not in metrics)
    return [env.get_reward()] + [part([env])[0] for part in trl.reward_parts("correct")]


def play_mcp(questions, spoil, **rules) -> list:
    kept = []
    players, client = make_players(questions, on_end=kept.append, **rules)
    players.call(client, "", "start", dict(question_id=questions[0].question_id))
    spoil(client.player.session.episode.database)
    for name, arguments in tool_calls(questions):
        players.call(client, "", name, arguments)
    assert not players.seats.taken.total()
    players.leave(client)
    return [episode.total_reward for episode in kept]


def play_harness(questions, spoil, **rules) -> list:
    session = Session(EpisodeEnv(questions, **rules))
    session.begin(questions[0].question_id)
    harness = HarnessSession(session)
    spoil(session.episode.database)
    assert [harness.call_tool(*call).done for call in tool_calls(questions)][-1]
    return [harness.verify([]).env_reward]


def play_evaluation(questions, spoil, **rules) -> list:
    class Policy(ScriptedPolicy):
        def select_action(self, observation):
            if observation.step_count == 0:
                spoil(questions.database(questions[0].database_name))
            return super().select_action(observation)

    (episode,) = evaluate(EpisodeEnv(questions, **rules), Policy(moves(questions)), 1).episodes
    return [None if episode.blame == "environment" else episode.total_reward]


IDIOMS = (play_openenv, play_trl, play_mcp, play_harness, play_evaluation)


@pytest.mark.parametrize("fault", (cut, overwritten, replaced, os.remove))
@pytest.mark.parametrize("is_warm", (False, True))
@pytest.mark.parametrize("play", IDIOMS)
def test_nobody_is_paid_zero_for_a_file_that_broke(play, is_warm, fault, tmp_path, questions):
    "A right query and answer: paid as what they are where the file could be read, and no number otherwise."
    save_question_set(questions, tmp_path)
    found = load("folder", tmp_path)

    def spoil(database) -> None:
        if is_warm:
            database.query(found[0].gold_sql)
        else:
            database.pool.close()
            database.pool.free = []
        fault(database.path)

    assert set(play(found, spoil)) <= {None, 1.0}


ERRORS = MemoryError(), apsw.NoMemError("out of memory"), EnvironmentFailedError("a worker died")


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", ("Sandbox.load", "Sandbox.__init__", "InstanceGenerator.__init__"))
@pytest.mark.parametrize("play", IDIOMS)
def test_nobody_is_paid_for_evidence_that_could_not_be_judged(play, place, error, questions, monkeypatch):
    "The machine has no memory left while the query behind a right answer runs on other contents."
    fresh = questions.with_limits(replace(questions.limits, seconds=29.0))  # no sandbox is kept for them
    module = "instances" if place.startswith("Inst") else "sandbox"

    def spoil(database) -> None:
        _generator.cache_clear()
        monkeypatch.setattr(f"sql_env.grading.variants.{module}.{place}", fails(error))

    assert set(play(fresh, spoil, verify="robust")) <= {None}


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="there are no limits of other processes here")
def test_a_worker_without_memory_is_a_failure_of_the_environment(questions):
    "A real limit, which the process that judges meets; the next one judges."
    workers = Workers(1)
    env = SQLEnvironment(questions.with_workers(workers), verify="robust")
    workers.start()
    for is_full in (True, False):
        env.reset()
        act(env, *moves(questions)[0])
        for worker in workers._lanes[4].free if is_full else ():  # where verdicts begin
            size = int(Path(f"/proc/{worker.process.pid}/statm").read_text().split()[0]) * resource.getpagesize()
            resource.prlimit(worker.process.pid, resource.RLIMIT_AS, (size // 2, size // 2))
        sent = act(env, "ANSWER", "@last")
        assert (sent.reward, sent.metadata.get("blame")) == ((None, "environment") if is_full else (1.0, None))
    workers.close()


def test_an_episode_over_mcp_waits_for_a_full_disk(questions, tmp_path):
    "What the client was told is what the log says, once there is room again; and `/health` says what is wrong."
    path = tmp_path / "agent.jsonl"
    tools = pytest.importorskip("sql_env.server.mcp_tools")
    with tools._log_journal(path, EpisodeEnv(questions)) as journal:
        players, client = make_players(questions, on_end=journal.add)

        def play() -> None:
            for name, arguments in [("start", {}), *tool_calls(questions)]:
                said = players.call(client, "", name, arguments)[0]
            assert "is right" in said

        play()
        with full_disk(path, 20):
            play()
            play()
            assert journal.waiting == 2 and "2 results wait" in journal.problem
        play()
        assert not journal.problem
        with full_disk(path):
            play()
    assert [t.episode.episode_index for t in read_log(path)[1]] == [0, 1, 2, 3, 4]


def test_a_server_that_failed_is_an_error_of_its_client(questions):
    failed = SQLObservation(error="internal: failed", done=True, metadata=dict(blame="environment"))
    client = SimpleNamespace(step=lambda action: SimpleNamespace(observation=failed))
    with pytest.raises(SessionLostError, match="internal"):
        _RemoteEpisodeEnv(SimpleNamespace(client=client), []).step("QUERY", "SELECT 1")
    trl = pytest.importorskip("sql_env.integrations.trl")
    env = trl.SQLEnvTRLRemote("http://localhost")
    env._env.client = client
    env.session.observation = Observation("", "")
    with pytest.raises(ToolError):
        env.query("SELECT 1")
    assert env.get_reward() is None


def test_mcp_begins_no_episode_whose_result_could_not_be_kept(questions):
    (players, client), full = make_players(questions), ["the journal is full"]
    players.journal = SimpleNamespace(refusal=lambda: full[0])
    assert "the journal is full" in players.call(client, "", "start", {})[0]
    full[0] = ""
    assert not players.call(client, "", "start", {})[1]


def test_what_the_server_ends_is_no_result_over_mcp(questions):
    "An episode is in the middle when the server stops; a client that leaves one is another matter."
    kept = []
    players, stays = make_players(questions, on_end=kept.append)

    async def main() -> None:
        async with pytest.importorskip("sql_env.server.mcp_tools").HttpEndpoint(players).run():
            leaves = players.enter()
            for client in (leaves, stays):
                players.call(client, "", "start", {})
                players.leave(leaves)
        players.leave(stays)

    asyncio.run(main())
    assert len(kept) == 1


def test_a_disk_that_hangs_keeps_nobody_else_waiting(questions):
    "The one who has answered waits until the result is written; the loop goes on."
    written = threading.Event()
    env = SQLEnvironment(questions, on_end=lambda record: written.wait(60))

    async def main() -> SQLObservation:
        await env.reset_async()
        answer = asyncio.create_task(env.step_async(SQLAction(action_type="ANSWER", argument="7")))
        for _ in range(3):
            await asyncio.sleep(0.05)
            assert not answer.done()
        written.set()
        return await answer

    assert asyncio.run(main()).done
