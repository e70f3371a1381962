"The page of integrations: its one line for each tool runs as it stands there, to a first rollout."

import json
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from conftest import ROOT
from fake_server import FakeServer, player
from typer.testing import CliRunner

from sql_env.sources.loading import load

PAGE = json.loads((ROOT / "nbs/integrations/index.ipynb").read_text())
ROW = re.compile(r"^\| \[(\w+)\]\([^)]+\) \| `?(\w+)`? \| (.+) \| `(.+)` \|$", re.M)
LINES = {tool: (names, line) for cell in PAGE["cells"] for tool, _, names, line in ROW.findall("".join(cell["source"]))}


def run_line(tool, **known):
    "What the line of a tool gives in Python."
    names, line = LINES[tool]
    found: dict = {}
    for module in re.findall(r"`([\w.]+)`", names):
        of = pytest.importorskip(module)
        found |= {n: getattr(of, n) for n in dir(of) if re.search(rf"\b{n}\b", line)}
        found[module.partition(".")[0]] = import_module(module.partition(".")[0])
    return eval(line, found | known)  # the page's own text


@pytest.fixture(scope="module")
def questions():
    return load("bundled", split="test")


def test_the_page_has_a_line_for_each_tool_and_what_was_measured_is_told():
    assert list(LINES) == "TRL Harbor verifiers Inspect SkyRL".split()
    # The matrix is of today's extras, and the page names each pair that it refuses
    matrix = json.loads((ROOT / "benchmarks/extras_pairs.json").read_text())
    settings = (ROOT / "settings.ini").read_text()
    extras = set(re.findall(r"^(\w+)_requirements", settings, re.M)) - {"dev"}
    assert set(matrix["extras"]) == extras and len(extras) * (len(extras) - 1) / 2 == matrix["pairs"]
    text = "".join(line for cell in PAGE["cells"] for line in cell["source"])
    told = text.partition("*Which extras go together?*")[2]
    refused = {extra for pair in matrix["refused"] for extra in pair.split(",")}
    assert f"All {matrix['pairs']} pairs but two" in told and len(matrix["refused"]) == 2
    assert all(f"`{extra}`" in told for extra in refused)
    installed, of_vllm = matrix["installed"], len(extras) - 1
    assert not installed["failed"] and not any("vllm" in pair for pair in installed["together"])
    left = [pair for pair in matrix["refused"] if "vllm" not in pair]
    assert len(installed["together"]) == matrix["pairs"] - of_vllm - len(left)
    assert f"{len(installed['together'])} pairs run" in told
    # The page has the figures of the files; gold is always paid, and robust pays nothing else
    found = json.loads((ROOT / "benchmarks/graders.json").read_text())
    for part, paid in (("verifiers_robust", 0), ("verifiers", 2), ("inspect", 0), ("inspect_value", 2)):
        rows = found[part]["found"]
        rows = rows if isinstance(rows, list) else rows["with_calls"]
        failed = [r for r in rows if r["failed"]]
        assert len(failed) == paid and not [r for r in failed if r["expected"] == "full"], part
        assert f"{len(rows)} plays of each of {rows[0]['runs']} questions" in text
    rows = found["openenv"]["found"]
    assert not [r for r in rows if r["failed"] or r["errors"]]
    assert f"{len(rows)} probes of 6 questions, {sum(r['runs'] for r in rows)} runs" in text
    pairs = json.loads((ROOT / "benchmarks/logic_pairs.json").read_text())
    equal, less = pairs["totals"]["equal"], pairs["totals"]["left out"]
    assert not pairs["faults"] and "robust different" not in equal and "proved" not in less
    judged, proved = equal["robust equal"], equal["proved"] + equal["proved if"]
    told = f"Of {judged} pairs that are equal none was called different, {proved} were proved"
    assert f"{told}, {equal['open']} stay open" in text
    told = f"{less['refuted']} were refuted by the prover, and {less['robust different']:,} by variants"
    assert told in text and f"of the {less['robust equal']} others" in text


@pytest.mark.slow
def test_trl(questions, tmp_path):
    "One step of a random model: eight rollouts of one question, which TRL asks the environment for."
    trl = pytest.importorskip("trl")
    tiny = pytest.importorskip("tiny_trl")
    few = dict(per_device_train_batch_size=8, num_generations=8, max_completion_length=64)
    quiet = dict(use_cpu=True, bf16=False, report_to="none", disable_tqdm=True, max_steps=1)
    args = trl.GRPOConfig(str(tmp_path / "out"), **few, **quiet, save_strategy="no")
    model = str(tiny.save_tiny_qwen(tmp_path / "model"))
    trainer = run_line("TRL", questions=questions, model=model, args=args)
    trainer.train()
    assert len({e.episode.question.question_id for e in trainer.environments}) == 1
    assert len(trainer.environments) == 8


def test_harbor(tmp_path, monkeypatch):
    from sql_env.cli import app

    monkeypatch.chdir(tmp_path)
    words = shlex.split(LINES["Harbor"][1].replace("-n 200", "-n 4"))
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == 0, done.output
    assert list(Path("OUT").rglob("instruction.md"))


@pytest.mark.slow
@pytest.mark.full
def test_verifiers(tmp_path):
    "Beside it no openenv can be installed: SQL_ENV_VERIFIERS names an environment that has it."
    if not (ready := os.environ.get("SQL_ENV_VERIFIERS")):
        pytest.skip("SQL_ENV_VERIFIERS names no environment with verifiers")
    taskset = "from sql_env.integrations.verifiers import SQLTaskset\n\n__all__ = ['SQLTaskset']\n"
    (tmp_path / "sql_questions.py").write_text(taskset)
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    env = os.environ | dict(PYTHONPATH=paths, PATH=f"{ready}/bin{os.pathsep}{os.environ['PATH']}")
    options = " --env.agent.runtime.type subprocess --no-push --no-rich"
    with FakeServer(player(load("bundled", split="test"))) as server:
        line = LINES["verifiers"][1].replace("MODEL", "m").replace("URL", server.url) + options
        words = shlex.split(f"{line} -n 2 -o . --run.name run")
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
    [file] = tmp_path.rglob("traces.jsonl")
    episodes = [json.loads(line) for line in file.read_text().splitlines()]
    traces = [trace for e in episodes for trace in e.get("traces", [e])]
    assert [t["rewards"]["correct"]["score"] for t in traces] == [1.0, 1.0]


@pytest.mark.slow
def test_inspect(tmp_path):
    "The command finds the task by name."
    pytest.importorskip("inspect_ai")
    if "sql_env" not in {e.name for e in entry_points(group="inspect_ai")}:
        pytest.skip("sql_env is not installed with its entry point: pip install -e '.[inspect]'")
    pytest.importorskip("openai", reason="openai is not installed: pip install 'sql_env[openai]'")
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    with FakeServer(lambda body: [("answer", dict(value="0"))]) as server:
        line = LINES["Inspect"][1].replace("openai/gpt-5-mini", "openai/m")
        line += f" -M responses_api=false --model-base-url {server.url} --log-dir . --limit 1"
        line += " -T budget=2 -T verify=robust -T actions=abstain --display none --log-format json"
        env |= dict(OPENAI_API_KEY="none")
        done = subprocess.run(shlex.split(line), cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [log] = [json.loads(p.read_text()) for p in tmp_path.glob("*.json")]
    assert log["eval"]["task"] == "sql_env/source"
    names = [s["name"] for s in log["results"]["scores"]]
    assert log["status"] == "success" and names == ["correct", "robust", "grounded", "reward"]


def test_skyrl(questions):
    skyrl_gym = pytest.importorskip("skyrl_gym")
    run_line("SkyRL", questions=questions)
    row = dict(question_id=questions[0].question_id)
    env = skyrl_gym.make("sql_env", env_config={}, extras=row)
    messages, _ = env.init([])
    assert questions[0].question_text in messages[-1]["content"]
    for name, arguments in (("query", dict(sql=questions[0].gold_sql)), ("answer", dict(value="@last"))):
        call = json.dumps(dict(name=name, arguments=arguments))
        last = env.step(f"<tool_call>\n{call}\n</tool_call>")
    assert last["reward"] == 1
