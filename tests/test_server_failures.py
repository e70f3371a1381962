"The server's own failures: a file that broke, no memory left; nobody is punished."

import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

pytest.importorskip("openenv", reason="openenv is not installed: pip install 'sql_env[server]'")
from serving import act

from sql_env import EpisodeEnv, ScriptedPolicy, evaluate, load
from sql_env.client import SessionLostError, _RemoteEpisodeEnv
from sql_env.database import build_database
from sql_env.database.guards import EnvironmentFailedError
from sql_env.grading.variants.pairs import _generator
from sql_env.models import SQLObservation
from sql_env.play import Observation
from sql_env.questions.question_set import save_question_set
from sql_env.server import SQLEnvironment


def fails(error):
    def raises(*_: object) -> None:
        raise error

    return raises


def moves(questions) -> list[tuple[str, str]]:
    return [("QUERY", questions[0].gold_sql), ("ANSWER", "@last")]


def tool_calls(questions) -> list[tuple[str, dict]]:
    return [("query", dict(sql=questions[0].gold_sql)), ("answer", dict(value="@last"))]


@pytest.fixture
def questions():
    found = [q for q in load("bundled") if len(q.gold_answer) == len(q.gold_answer[0]) == 1]
    return load("bundled").with_questions(found[:1])


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
    assert (env.get_reward() is None) == (env.correct is None)
    return [env.get_reward(), *trl.sql_env_reward_func([env])]


class Client:
    "What stands for a session of MCP."


def play_mcp(questions, spoil, **rules) -> list:
    tools, client = pytest.importorskip("sql_env.server.mcp_tools"), Client()
    players = tools.Players(partial(SQLEnvironment, questions, **rules))
    players.call(client, "start", dict(question_id=questions[0].question_id))
    session = players._players[client].session
    spoil(session.episode.database)
    said = [players.call(client, *call) for call in tool_calls(questions)]
    assert not players.seats.taken.total()
    return [session.reward if "is right" in said[-1][0] else None]


def play_evaluation(questions, spoil, **rules) -> list:
    class Policy(ScriptedPolicy):
        def select_action(self, observation):
            if observation.step_count == 0:
                spoil(questions.database(questions[0].database_name))
            return super().select_action(observation)

    (episode,) = evaluate(EpisodeEnv(questions, **rules), Policy(moves(questions)), 1).episodes
    return [None if episode.blame == "environment" else episode.total_reward]


IDIOMS = (play_openenv, play_trl, play_mcp, play_evaluation)


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


ERRORS = MemoryError(), apsw.NoMemError("out of memory"), EnvironmentFailedError("the file is gone")


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


def test_a_server_that_failed_is_an_error_of_its_client(questions):
    failed = SQLObservation(error="internal: failed", done=True, metadata=dict(blame="environment"))
    client = SimpleNamespace(step=lambda action: SimpleNamespace(observation=failed))
    with pytest.raises(SessionLostError, match="internal"):
        _RemoteEpisodeEnv(SimpleNamespace(client=client), []).step("QUERY", "SELECT 1")
    trl = pytest.importorskip("sql_env.integrations.trl")
    env = trl.SQLEnvTRLRemote("http://localhost")
    env.session.env.client = client
    env.session.observation = Observation("", "")
    with pytest.raises(ConnectionError, match="internal"):
        env.query("SELECT 1")
    assert env.get_reward() is None
