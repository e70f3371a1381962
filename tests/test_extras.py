"Without the extras: what the base install can do and imports, and what to install for the rest."

import json
import os
import subprocess
import sys

import pytest

from sql_env.plugins import EXTRAS, MissingExtraError, needs_extra

ABSENT = """openenv openai fastapi uvicorn gradio fastmcp mcp pydantic_settings websockets httpx torch transformers trl
    datasets huggingface_hub nbdev inspect_ai skyrl_gym verifiers""".split()  # what the base install does not bring
BLOCK = f"""
import atexit, sys
class Absent:
    "Imports of what the base install does not bring fail as if it were not there."
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Absent)
atexit.register(sys.meta_path.remove, Absent)  # the interpreter's end imports as usual
"""
SERVER = 'pip install "sql_env[server]"'


def without_extras(code, *args):
    "What some code prints in a process where the packages of all extras are missing."
    command = [sys.executable, "-c", BLOCK + code, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


SENTENCES = """
import contextlib, importlib, io, json, sys
import sql_env
from sql_env.cli import main
from sql_env.policies.endpoint import Endpoint
from sql_env.policies.local import LocalModel
from sql_env.questions.question_set import Question
from sql_env.integrations.trl import SQLEnvTRLRemote
said = {}
def tell(name, use):
    try: use(); said[name] = "no error"
    except ModuleNotFoundError as e: said[name] = str(e)
for module in ("client", "server.environment", "models", "server.app", "server.page", "server.mcp_tools"):
    tell(module, lambda: importlib.import_module("sql_env." + module))
for name in ("SQLEnv", "SQLAction", "SessionLostError", "list_questions"):
    tell(name, lambda: getattr(sql_env, name))
tell("SQLEnvTRLRemote", lambda: SQLEnvTRLRemote("http://localhost:1").reset())
tell("openai", lambda: Endpoint("m", "http://localhost:1/v1").client)
tell("inspect", lambda: importlib.import_module("sql_env.integrations.inspect_ai"))
for name in ("skyrl", "verifiers"):
    tell(name, lambda: importlib.import_module("sql_env.integrations." + name))
tell("train", lambda: LocalModel("m").load())
for command in (["serve"], ["mcp"], ["train", "nano"]):
    sys.argv, err = ["sql_env", *command], io.StringIO()
    with contextlib.redirect_stderr(err):
        try: main()
        except SystemExit as e: said[" ".join(["command", *command])] = f"{e.code} {' '.join(err.getvalue().split())}"
print(json.dumps(said))
"""


def test_every_way_to_what_is_missing_says_what_to_install():
    said = json.loads(without_extras(SENTENCES))
    sentence = 'inspect_ai is not installed. For the tasks of Inspect AI: pip install "sql_env[inspect]"'
    assert said.pop("inspect") == sentence
    packages = dict(skyrl="skyrl_gym", verifiers="verifiers")
    for extra, package in packages.items():
        told = f'{package} is not installed. For {EXTRAS[extra]}: pip install "sql_env[{extra}]"'
        assert said.pop(extra) == told
    openai, train, exits = said.pop("openai"), said.pop("train"), said.pop("command train nano")
    assert openai == ('openai is not installed. For a model behind an API: pip install "sql_env[openai]"')
    assert 'pip install "sql_env[train]"' in train
    assert exits.startswith("2 sql_env: ") and 'pip install "sql_env[train]"' in exits
    for command in ("serve", "mcp"):
        assert SERVER in said.pop(f"command {command}")
    sentence = f"openenv is not installed. For {EXTRAS['server']}: {SERVER}"
    assert said and set(said.values()) == {sentence}, said


NEEDS_OPENENV = {"client", "models"}
NEEDS_OPENENV |= {f"server.{name}" for name in ("app", "environment", "mcp_tools", "page", "settings")}
NEEDS_MORE = {f"integrations.{name}" for name in ("inspect_ai", "skyrl", "verifiers")}
NEEDS_MORE |= {"nano.training"}
IMPORT_ALL = """
import importlib, pkgutil, sql_env
for found in pkgutil.walk_packages(sql_env.__path__, "sql_env."):
    try: importlib.import_module(found.name)
    except ModuleNotFoundError: print(found.name.removeprefix("sql_env."))
"""


def test_all_other_modules_need_no_extra():
    assert set(without_extras(IMPORT_ALL).split()) == NEEDS_OPENENV | NEEDS_MORE


PLAY = """
from sql_env import EpisodeEnv, GreedyPolicy, OraclePolicy, evaluate, load, results_frame
from sql_env import audit_questions, episode_html, plot_success_rates, results_markdown, view_episode
qs = load("bundled").sample(12)
results = [evaluate(qs, policy, progress=False) for policy in (GreedyPolicy(), OraclePolicy(qs))]
assert results[1].success_rate == 1
print(results_frame(results).shape, results_markdown(results), plot_success_rates(results))
env = EpisodeEnv(qs)
env.reset(question_id=qs[0].question_id)
env.step("QUERY", qs[0].gold_sql)
assert env.step("ANSWER", "@last").reward == 1
from sql_env.view.explorer import EpisodeExplorer
EpisodeExplorer(qs)
audit_questions(qs, progress=False)
from sql_env.cli import app
from typer.testing import CliRunner
for command in (["doctor", "-n", "5"], ["evaluate", "-n", "5"], ["data"], ["demo"]):
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, (command, done.output)
print("played")
"""


@pytest.mark.slow
def test_playing_evaluating_and_exploring_need_no_extra():
    assert without_extras(PLAY).endswith("played\n")


def test_what_is_there_passes_other_errors_are_kept_and_threads_of_torch_sleep_while_they_wait(monkeypatch):
    with needs_extra("train"):
        import json as found
    assert found is json
    with pytest.raises(KeyError), needs_extra("train"):
        {}["x"]
    missing = pytest.raises(MissingExtraError, match=r"sql_env\[openai\]")
    with missing as caught, needs_extra("server"), needs_extra("openai"):
        import no_such_package.part  # noqa: F401
    assert isinstance(caught.value, ImportError) and caught.value.name == "no_such_package"
    with pytest.raises(ImportError, match="no_such_name.*known to work: openenv 0.10.*trl 1.16"), needs_extra("server"):
        from json import no_such_name  # noqa: F401
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with needs_extra("train"):
        assert os.environ["OMP_WAIT_POLICY"] == "passive"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")  # one that the user has chosen
    with needs_extra("train"):
        assert os.environ["OMP_WAIT_POLICY"] == "active"


def loaded(code):
    "Names of the modules that some code adds to a fresh Python."
    code = f"import sys; before = set(sys.modules); {code}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


TRAINERS = "torch trl transformers openenv datasets openai".split()
LIBRARIES = [*TRAINERS, *"pandas matplotlib mpmath numpy sqlglot IPython ipywidgets fastapi rich typer".split()]
POLICIES = "import sql_env.policies as p; p.ChatPolicy('m', 'http://h/v1'); p.LocalModel('x')"


@pytest.mark.parametrize(
    "code, heavy",
    [
        ("import sql_env; sql_env.Session", [*LIBRARIES, "asyncio"]),
        (POLICIES, LIBRARIES),
        ("import sql_env.integrations.trl, sql_env.training.experts, sql_env.training.recipes", TRAINERS),
        ("import sql_env.view.explorer", [*TRAINERS, "ipywidgets", "IPython", "pandas"]),
    ],
)
def test_nothing_heavy_is_imported(code, heavy):
    assert not loaded(code) & set(heavy)


def test_imports_are_few():
    "Modules beside our own, those of the standard library and of apsw, as a measure of time; 75 are pydantic's."
    for module, most in {"sql_env.play.episode": 120, "sql_env.evaluation.harness": 200}.items():
        found = loaded(f"import {module}")
        assert len([name for name in found if not name.startswith("sql_env")]) < most, module
        assert not found & set(LIBRARIES), module
