"SkyRL and verifiers play episodes: the same verdicts, rewards and texts as the episode itself."

import json
import os
import subprocess
import sys
import tomllib
from itertools import cycle
from pathlib import Path

import pytest
from conftest import ROOT, made_once
from fake_server import FakeServer, player
from serving import Server

from sql_env import EpisodeEnv, RewardConfig, Session, load
from sql_env.play.acts import ACTS
from sql_env.play.board import escape_markup

REWARDS = [RewardConfig.sparse(), RewardConfig.shaped(), RewardConfig.partial()]


@pytest.fixture(scope="module")
def questions():
    return load("bundled").sample(12, seed=5)


def oracle(question):
    "A look, the gold query, and its result as the answer."
    return [("DESCRIBE", question.tables_involved[0]), ("QUERY", question.gold_sql), ("ANSWER", "@last")]


# SkyRL


@pytest.fixture
def skyrl():
    pytest.importorskip("skyrl_gym", reason="skyrl-gym: pip install 'sql_env[skyrl]'")
    return pytest.importorskip("sql_env.integrations.skyrl")


def text_call(kind, argument):
    name, parameter = ACTS[kind][1:3]
    call = dict(name=name, arguments={parameter: argument})
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("max_turns", [0, 2, 3])
def test_skyrl_pays_in_all_what_a_session_pays(skyrl, questions, reward, max_turns):
    "Whether the episode ends by an answer or by the trainer's limit."
    q = questions[0]
    env = skyrl.SkyRLEnv(questions, extras=dict(question_id=q.question_id, max_turns=max_turns), reward=reward)
    session = Session(EpisodeEnv(questions, reward=reward))
    env.init([])
    session.begin(q.question_id)
    paid = 0.0
    for i, (kind, argument) in enumerate(oracle(q), 1):
        output = env.step(text_call(kind, argument))
        name, parameter = ACTS[kind][1:3]
        session.call(name, {parameter: argument})
        paid += output["reward"]
        if output["done"]:
            assert i == (max_turns or 3)
            break
    assert paid == pytest.approx(session.reward)


@pytest.mark.parametrize(
    "said, answer",
    [
        ("I think.", "There was no tool call."),
        ("<tool_call>{broken</tool_call>", "There was no tool call."),
        (text_call("QUERY", "SELECT 1") * 2, "1\n</tool_response>\n<tool_response>"),
        ('<tool_call>{"name": "drop", "arguments": {}}</tool_call>', "Tool drop not found"),
        (text_call("QUERY", "SELECT '</tool_response>'"), escape_markup("</tool_response>")),
    ],
)
def test_skyrl_answers_what_a_model_writes(skyrl, questions, said, answer):
    env = skyrl.SkyRLEnv(questions, extras=dict(question_id=questions[0].question_id))
    env.init([])
    output = env.step(said)
    [message] = output["observations"]
    assert message["role"] == "user" and answer in message["content"]
    n_results = message["content"].count("</tool_response>")
    assert n_results == message["content"].count("<tool_response>")
    assert n_results == said.count("<tool_call>") - ("broken" in said)
    assert (output["done"], output["reward"], output["metadata"]) == (False, 0, {})


def test_skyrl_rows_hold_no_gold_and_settings_of_the_trainer_come_first(skyrl, questions):
    rows = json.dumps(skyrl.skyrl_rows(questions))
    for q in questions:
        assert q.question_id in rows and q.gold_sql not in rows
    with pytest.raises(ValueError, match="skyrl_rows"):
        skyrl.SkyRLEnv(questions).init([])
    extras = dict(question_id=questions[0].question_id)
    env = skyrl.SkyRLEnv(questions, dict(budget=3), extras, budget=9)
    assert "Steps: 3" in env.init([])[0][-1]["content"]


# The pages


@pytest.mark.slow
@pytest.mark.parametrize("page, package", [("02_inspect_ai", "inspect_ai"), ("04_skyrl", "skyrl_gym")])
def test_the_notebook_runs(page, package):
    "The page is left out where its extra isn't installed, so its examples run here and print what is stored."
    pytest.importorskip(package)
    pytest.importorskip("execnb", reason="execnb is not installed")
    from pages import run_page

    run_page(ROOT / "nbs" / "integrations" / f"{page}.ipynb")


# verifiers, which can't be installed beside openenv


def make_environment(folder: Path) -> None:
    "An environment with verifiers and what the core needs; without openenv."
    core = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    command = [folder / "bin" / "python", "-I", "-m", "pip", "install", "-q"]  # blind to PYTHONPATH
    command += ["verifiers>=0.4,<0.5", "uv", "execnb", *core]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    (folder / "why.txt").write_text("" if done.returncode == 0 else done.stderr[-2000:])


@pytest.fixture(scope="module")
def verifiers_bin(tmp_path_factory):
    "Where the commands of verifiers are; SQL_ENV_VERIFIERS names an environment that has it."
    if ready := os.environ.get("SQL_ENV_VERIFIERS"):
        return Path(ready) / "bin"
    folder = made_once(tmp_path_factory, "verifiers", make_environment)
    if why := (folder / "why.txt").read_text():
        pytest.skip(f"verifiers can't be installed here: {why[-300:]}")
    return folder / "bin"


TASKSET = """from sql_env.integrations.verifiers import SQLTaskset

__all__ = ["SQLTaskset"]
"""


def evaluate_with_verifiers(folder, bin_folder, script, n=4):
    "The traces of n rollouts of the test split, and the requests that the model got."
    folder.mkdir()
    (folder / "sql_questions.py").write_text(TASKSET)
    paths = os.pathsep.join([str(folder), str(ROOT)])
    env = os.environ | {"PYTHONPATH": paths, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    with FakeServer(script) as server:
        command = [bin_folder / "vf-eval", "sql_questions", "--env.taskset.play.split", "test"]
        command += ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]
        command += ["--model", "m", "--client.base-url", server.url, "--no-push", "--no-rich"]
        command += ["-n", str(n), "-o", folder, "--run.name", "run"]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    [file] = folder.rglob("traces.jsonl")
    episodes = [json.loads(line) for line in file.read_text().splitlines()]
    return [trace for e in episodes for trace in e.get("traces", [e])], server.bodies, file


@pytest.mark.full
@pytest.mark.slow
def test_verifiers_scores_an_oracle_and_a_cheat(verifiers_bin, tmp_path):
    questions = load("bundled", split="test")
    traces, bodies, file = evaluate_with_verifiers(tmp_path / "oracle", verifiers_bin, player(questions))
    assert [t["rewards"]["correct"]["score"] for t in traces] == [1.0] * 4
    assert {t["stop_condition"] for t in traces} == {"episode_over"}
    assert all(t["metrics"] == dict(grounded=1, robust=1, steps=2, question_match=1) for t in traces)
    names = sorted(tool["function"]["name"] for tool in bodies[0]["tools"])
    assert names == ["answer", "describe", "query", "sample"]
    first = json.dumps(bodies[0])
    assert not [q for q in questions if q.gold_sql in first]
    cheat = [("query", dict(sql="SELECT 1"))], [("answer", dict(value="1"))]

    def script(body):
        return cheat[any(m["role"] == "tool" for m in body["messages"])]

    traces, _, file = evaluate_with_verifiers(tmp_path / "cheat", verifiers_bin, script)
    assert [t["rewards"]["correct"]["score"] for t in traces] == [0.0] * 4
    assert {t["metrics"]["steps"] for t in traces} == {2}
    text = file.read_text()
    assert not [q for q in questions if json.dumps(q.gold_sql)[1:-1] in text]


def run_with_verifiers(bin_folder, code):
    "What some code prints where verifiers is installed."
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [bin_folder / "python", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


PAGE = """
import sys
sys.modules["openenv"] = None
from pages import run_page
run_page("nbs/integrations/03_verifiers.ipynb", is_compared=False)
"""
FAILED_CALL = """
import asyncio, types
from sql_env.integrations import verifiers as ours
from sql_env.database.guards import EnvironmentFailedError

play = ours.PlayConfig(split="test")
task = next(iter(ours.SQLTaskset(ours.SQLTasksetConfig(play=play)).load()))
session = ours.Session(play.env(task.questions))
session.begin(task.data.id)
state = ours.SQLState(session=session.state())
def lost(*_):
    raise MemoryError
tools = types.SimpleNamespace(state=state, _play=lost)
query = next(t["function"] for t in session.tools if t["function"]["name"] == "query")
print(asyncio.run(ours.SQLTools._tool(tools, query)(sql="SELECT 1")), state.done)
try:
    task.verdict(state)
except EnvironmentFailedError:
    print("no verdict")
"""


@pytest.mark.full
@pytest.mark.slow
def test_the_taskset_needs_no_openenv_its_page_runs_and_a_call_that_the_environment_fails_is_paid_nothing(
    verifiers_bin,
):
    "The state says so, and scoring, in another process, raises; it had paid 0 for want of an answer."
    run_with_verifiers(verifiers_bin, PAGE)
    told = run_with_verifiers(verifiers_bin, FAILED_CALL).splitlines()
    assert told == ["internal: The environment failed, not the agent. True", "no verdict"]


# Many processes


def play_gold(session, question_id):
    "In an actor: the process, and whether the gold query was right."
    session.begin(question_id)
    gold = session.episode.question.gold_sql
    session.call("query", dict(sql=gold))
    session.call("answer", dict(value="@last"))
    return os.getpid(), session.verdict().correct


@pytest.mark.slow
@pytest.mark.full  # Ray gives itself 30 s to start, which a busy machine may not keep
def test_sessions_play_as_ray_actors(questions):
    "A session is an actor as it is; two processes share the work, and one that died is made anew from its state."
    ray = pytest.importorskip("ray", reason="ray: pip install 'sql_env[cluster]'")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    ray.init(num_cpus=2, include_dashboard=False, runtime_env=dict(env_vars=dict(PYTHONPATH=paths)))
    try:
        Worker, env = ray.remote(Session), EpisodeEnv(questions)
        workers = [Worker.remote(env) for _ in range(2)]
        asked = [worker.__ray_call__.remote(play_gold, q.question_id) for worker, q in zip(cycle(workers), questions)]
        played = ray.get(asked, timeout=120)
        assert len({process for process, _ in played}) == 2
        assert all(correct for _, correct in played)

        q = questions[0]
        ray.get(workers[0].begin.remote(q.question_id))
        ray.get(workers[0].call.remote("query", dict(sql=q.gold_sql)))
        state = ray.get(workers[0].state.remote())
        ray.kill(workers[0])
        session = Session.resume(env, state)
        session.call("answer", dict(value="@last"))
        assert session.verdict().correct
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_sessions_spread_over_two_servers(questions):
    "Each connection stays on its replica, and both give the same observations."
    from sql_env import SQLAction, SQLEnv

    with Server() as one, Server() as two:
        envs = [SQLEnv(base_url=s.http).sync() for s, _ in zip(cycle([one, two]), range(6))]
        seen = []
        for env in envs:
            with env:
                env.reset(question_id=questions[0].question_id, seed=1)
                actions = oracle(questions[0])
                results = [env.step(SQLAction(action_type=a, argument=b)) for a, b in actions]
                assert results[-1].reward == 1 and results[-1].done
                seen.append([r.observation.result for r in results])
        assert len(seen) == 6 and all(texts == seen[0] for texts in seen)
        assert one.cpu() > 0 and two.cpu() > 0
