"Each extra, installed alone in an environment of its own, does the first thing that its page shows."

import json
import os
import re
import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path

import pytest
from conftest import ROOT, made_once, run
from fake_server import FakeServer, player
from pages import asked_extras

from sql_env import __version__
from sql_env.sources.loading import load

pytestmark = [pytest.mark.slow, pytest.mark.full]  # each downloads and installs hundreds of MB
TORCH = ["torch==2.13.0"]  # as README's second command


def pip(folder: Path, *wanted) -> None:
    "Install into an environment, blind to PYTHONPATH, where this checkout may be."
    run(folder / "bin" / "python", "-I", "-m", "pip", "install", "-q", *wanted, cwd=folder)


def size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if not p.is_symlink())


@pytest.fixture(scope="module")
def core(tmp_path_factory, repo_copy) -> Path:
    "An environment with what the package needs without extras, and beside it the wheel."
    pytest.importorskip("build", reason="build is not installed: pip install -e '.[dev]'")

    def make(folder: Path) -> None:
        run(sys.executable, "-m", "build", "-q", "-w", "-n", "-o", folder, cwd=repo_copy)
        venv.create(folder / "env", with_pip=True)
        pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
        pip(folder / "env", *pyproject["project"]["dependencies"], "nbclient", "ipykernel")

    return made_once(tmp_path_factory, "core", make)


@pytest.fixture
def alone(core, tmp_path, tell):
    """Makes an environment that has the wheel with one extra; the packages of the core are found in theirs.

    Tells how long the extra takes and how much it brings."""

    def make(extra: str) -> Path:
        folder = tmp_path / "env"
        venv.create(folder, with_pip=True)
        where = Path("lib") / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        (folder / where / "core.pth").write_text(str(core / "env" / where))
        [wheel] = core.glob("*.whl")
        before, began = size(folder), time.perf_counter()
        if extra == "train":
            pip(folder, *TORCH)
        pip(folder, f"{wheel}[{extra}]" if extra else wheel)
        seconds, brought = time.perf_counter() - began, size(folder) - before
        tell(f"extra {extra or 'none'}: {seconds:.0f} s to install, {brought / 1e6:,.0f} MB")
        return folder / "bin"

    return make


def prepared(folder: Path, *command, **env) -> tuple[list, dict]:
    "A command of an environment, and how to run it in an empty folder."
    work = folder.parent / "work"
    work.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    path = os.pathsep.join([str(folder), kept["PATH"]])
    return [folder / command[0], *command[1:]], dict(cwd=work, env=kept | env | {"PATH": path})


def said(folder: Path, *command, **env) -> str:
    "What a command of an environment says, in an empty folder."
    command, options = prepared(folder, *command, **env)
    return run(*command, **options)


INSPECT = """
import sys
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from sql_env.integrations.inspect_ai import source_task

def outputs(messages, *_):
    output = ModelOutput.for_tool_call("mock", "answer", {"value": "0"})
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output

model = get_model("mockllm/model", custom_outputs=outputs)
[log] = eval(source_task(split="test"), model, limit=3, display="none", log_dir="logs")
assert "openai" not in sys.modules
print(log.status, len(log.samples), [str(s.error) for s in log.samples if s.error])
"""


def test_openai(alone):
    questions = load("bundled", split="test")
    with FakeServer(player(questions)) as server:
        options = ["--policy", "chat", "--model", "m", "--base-url", server.url]
        command = ["sql_env", "evaluate", "--split", "test", "-n", "2", "--json", *options]
        assert '"success_rate": 1.0' in said(alone("openai"), *command, OPENAI_API_KEY="none")


def test_mcp(alone):
    "The server says our version, and five tools."
    hello = dict(protocolVersion="2025-06-18", capabilities={}, clientInfo=dict(name="t", version="1"))
    asked = [dict(id=1, method="initialize", params=hello), dict(method="notifications/initialized")]
    asked.append(dict(id=2, method="tools/list"))
    lines = "".join(json.dumps(dict(jsonrpc="2.0", **message)) + "\n" for message in asked)
    command, options = prepared(alone("server"), "sql_env", "mcp", "--split", "test")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options) as server:
        server.stdin.write(lines)
        server.stdin.flush()  # and left open: at its end mcp drops what it has not answered
        hello, listed = (json.loads(server.stdout.readline())["result"] for _ in range(2))
        server.stdin.close()
    assert hello["serverInfo"] == dict(name="sql_env", version=__version__)
    names = sorted(tool["name"] for tool in listed["tools"])
    assert names == ["answer", "describe", "query", "sample", "start"]


SKYRL = """
import skyrl_gym
from sql_env import load
from sql_env.integrations.skyrl import register_skyrl, skyrl_rows
questions = load("bundled", split="test")
register_skyrl(questions, id="sql_env")
[row] = skyrl_rows(questions[:1])
env = skyrl_gym.make("sql_env", env_config={}, extras=row)
print(env.init(row["prompt"])[0][0]["role"])
"""


DATA = """
import openpyxl, pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table(dict(id=[1, 2])), "ship.parquet")
book = openpyxl.Workbook()
book.active.append(["question", "sql"])
book.active.append(["How many?", "SELECT count(*) FROM ship"])
book.save("asked.xlsx")
"""


def test_data(alone):
    folder = alone("data")
    said(folder, "python", "-c", DATA)
    assert "ship (2 rows)" in said(folder, "sql_env", "data", "import", "ship.parquet", "--out", "mine")
    said(folder, "python", "-c", "import shutil; shutil.move('asked.xlsx', 'mine')")
    found = json.loads(said(folder, "sql_env", "data", "--source", "folder", "--path", "mine", "--json"))
    assert found["questions"] == 1


CLIENT = """
import sys
from sql_env import SQLAction, SQLEnv

with SQLEnv(base_url=sys.argv[1]).sync() as env:
    result = env.reset()
    table = result.observation.schema_info.split()[0]
    print(env.step(SQLAction(action_type="DESCRIBE", argument=table)).observation.result)
"""


def test_server(alone):
    "The command of README, and its client."
    folder = alone("server")
    command, options = prepared(folder, "sql_env", "serve", "--port", "0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options) as server:
        url = next(u[1] for line in server.stderr if (u := re.search(r"running on (\S+)", line)))
        assert "primary key" in said(folder, "python", "-c", CLIENT, url)
        server.terminate()


PROVE = """
from sql_env import EpisodeEnv, load
env = EpisodeEnv(load("bundled"), verify="certified")
env.reset(question_id="vet_clinic-02")
env.step("QUERY", "SELECT count(visit_id) FROM visit WHERE paid_on IS NULL")
env.step("ANSWER", "@last")
print(env.episode.judged("certified").reason)
"""


CLUSTER = """
import ray
from sql_env import RandomPolicy, evaluate, load
from concurrent.futures import Executor
class RayExecutor(Executor):
    def submit(self, fn, /, *args, **kwargs):
        return ray.remote(fn).remote(*args, **kwargs).future()
ray.init(num_cpus=1, include_dashboard=False)
print(evaluate(load('bundled').sample(4), RandomPolicy(), executor=RayExecutor(), progress=False).n_episodes)
"""
# On ada7898 every sample of Inspect failed: `messages_from_openai` imports openai
FIRST = dict(inspect=(INSPECT, "success 3 []"), skyrl=(SKYRL, "system"))
FIRST |= dict(prove=(PROVE, "proved"), cluster=(CLUSTER, "4"))


@pytest.mark.parametrize("extra", FIRST)
def test_the_first_thing_of_its_page(alone, extra):
    code, told = FIRST[extra]
    assert told in said(alone(extra), "python", "-c", code).splitlines()[-1]


def test_train(alone):
    command = ["sql_env", "train", "first", "--scale", "0.01", "--eval-questions", "4", "--json"]
    report = json.loads(said(alone("train"), *command).splitlines()[-1])
    assert [row["stage"] for row in report["evals"]] == ["imitate"]


def test_verifiers_as_a_package_of_its_own(alone, tmp_path):
    "The layout that Prime's hub takes, with all settings."
    folder = alone("verifiers")
    hub = tmp_path / "prime"
    subprocess.run(["cp", "-r", ROOT / "examples" / "prime", hub], check=True)
    pip(folder.parent, "--no-deps", hub)
    settings = dict(split="test", budget=7, reward="partial", schema_level="columns", n=2, actions="abstain")
    with FakeServer(player(load("bundled", split="test"))) as server:
        command = ["vf-eval", "sql-env-bundled", "--env.agent.harness.id", "null"]
        command += [part for k, v in settings.items() for part in (f"--env.taskset.play.{k}", str(v))]
        command += ["--env.agent.runtime.type", "subprocess", "--model", "m", "--no-push", "--no-rich"]
        command += ["--client.base-url", server.url, "-n", "2", "-o", tmp_path / "out", "--run.name", "run"]
        said(folder, *command)
        first = json.dumps(server.bodies[0])
    assert "Steps: 7" in first and "abstain" in first


RUN_ALL = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
notebook.cells = [c for c in notebook.cells if "/content" not in c.source]
shorter = {"SCALE = 0.5": "SCALE = 0.003", "n=100": "n=2", "epochs=2": "max_steps=2"}  # the same in minutes
for asked, run in {**shorter, "https://github.com/hjerpe/sql_env": sys.argv[2]}.items():
    for cell in notebook.cells:
        cell.source = cell.source.replace(asked, run)
NotebookClient(notebook, timeout=1200, kernel_name="python3").execute()
"""
TUTORIALS = sorted((ROOT / "nbs" / "tutorials").glob("*.ipynb"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_run_all_on_a_fresh_machine(alone, tmp_path, path):
    "Every cell of a tutorial, those that only show included, with the extra that it installs on Colab."
    extras = asked_extras(path)
    assert extras is not None, "no cell for Colab"
    said(alone(extras), "python", "-c", RUN_ALL, path, ROOT, HOME=tmp_path, MPLBACKEND="agg")
