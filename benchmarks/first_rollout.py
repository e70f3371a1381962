"""Minutes from an empty environment to a first rollout: `python benchmarks/first_rollout.py [TOOL ...]`.

For each line of the page of integrations: a virtual environment with nothing in it, `pip install` of the wheel of this
checkout with the extra, and the line itself, as the page has it, until one episode is over; a script or a random model
plays. Writes first_rollout.json; a row replaces the one of its tool. What pip has in its cache it takes from there. For
TRL PyTorch comes first, as plain pip gives it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from install import ROOT, install, make_environment, measure

sys.path.insert(0, str(ROOT / "tests"))
OUT = Path(__file__).with_suffix(".json")
COMMAND = "python benchmarks/first_rollout.py"

START = """
import sys; sys.path.insert(0, {tests!r})
import json, re, shlex, subprocess
from functools import partial
from pathlib import Path
from sql_env import load
from fake_server import FakeServer, player
line, questions = {line!r}, load("bundled", split="test")
gold = questions[0]
"""
PLAYED = "\nassert reward == 1, reward\nprint('played')\n"
TASKSET = "from sql_env.integrations.verifiers import SQLTaskset\n\n__all__ = ['SQLTaskset']\n"
RUN = """
    done = subprocess.run(shlex.split(words), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
"""
PLAYS = dict(
    TRL="""
import tiny_trl
from trl import GRPOConfig, GRPOTrainer
from sql_env.integrations.trl import SQLEnvTRL
model = str(tiny_trl.save_tiny_qwen("model"))
args = GRPOConfig("out", per_device_train_batch_size=8, num_generations=8, max_completion_length=64, use_cpu=True,
                  bf16=False, report_to="none", disable_tqdm=True, max_steps=1, save_strategy="no")
trainer = eval(line)
trainer.train()
reward = len({e.episode.question.question_id for e in trainer.environments})
""",
    Harbor="""
words = line.replace("-n 200", "-n 4")
if True:"""
    + RUN
    + """
task = next(Path("OUT").rglob("task.toml")).parent
answer = (task / "solution/solve.sh").read_text().split("<<'GOLD'\\n")[1].rsplit("GOLD", 1)[0]
Path("answer.sql").write_text(answer)
words = f"{sys.executable} -m sql_env.integrations.harbor {task}/tests/questions answer.sql reward.json"
if True:"""
    + RUN
    + """
reward = json.loads(Path("reward.json").read_text())["reward"]
""",
    verifiers=f"""
Path("sql_questions.py").write_text({TASKSET!r})
with FakeServer(player(questions)) as server:
    words = line.replace("MODEL", "m").replace("URL", server.url)
    words += " --env.agent.runtime.type subprocess --no-push --no-rich -n 1 -o . --run.name run"
{RUN}
[file] = Path().rglob("traces.jsonl")
episode = json.loads(file.read_text().splitlines()[0])
reward = episode.get("traces", [episode])[0]["rewards"]["correct"]["score"]
""",
    Inspect=f"""
with FakeServer(player(questions)) as server:
    words = line.replace("openai/gpt-5-mini", "openai/m") + " -M responses_api=false --limit 1 -T split=test"
    words += f" --model-base-url {{server.url}} --log-dir . --display none --log-format json"
{RUN}
log = json.loads(next(Path().glob("*.json")).read_text())
reward = log["results"]["scores"][0]["metrics"]["accuracy"]["value"]
""",
    SkyRL="""
import skyrl_gym
from sql_env.integrations.skyrl import register_skyrl
eval(line)
env = skyrl_gym.make("sql_env", env_config={}, extras=dict(question_id=gold.question_id))
env.init([])
for name, arguments in (("query", dict(sql=gold.gold_sql)), ("answer", dict(value="@last"))):
    call = json.dumps(dict(name=name, arguments=arguments))
    reward = env.step(f"<tool_call>\\n{call}\\n</tool_call>")["reward"]
""",
)
MORE = dict(Inspect="inspect,openai")  # its line names a model of that interface


def page_lines() -> dict[str, tuple[str, str]]:
    "Extra and line of each tool, as the page has them."
    page = json.loads((ROOT / "nbs/integrations/index.ipynb").read_text())
    rows = [r for c in page["cells"] for r in "".join(c["source"]).splitlines() if r[:3] == "| ["]
    cells = [[part.strip().strip("`") for part in r.strip("| ").split(" | ")] for r in rows]
    return {c[0][1:].partition("]")[0]: (c[1].replace("none", ""), c[3]) for c in cells}


def timed(do) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def first_rollout(tool: str, wheel: Path) -> dict:
    "Seconds of each part, and what was installed."
    extra, line = page_lines()[tool]
    extra = MORE.get(tool, extra)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = folder / "env" / "bin" / "python"
        seconds = dict(environment=timed(lambda: make_environment(folder / "env")))
        if tool == "TRL":
            seconds["torch"] = timed(lambda: install(python, Path("torch")))
        seconds["install"] = timed(lambda: install(python, wheel, extra))
        code = START.format(tests=str(ROOT / "tests"), line=line) + PLAYS[tool] + PLAYED
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        env |= dict(PATH=f"{python.parent}{os.pathsep}{env['PATH']}", OPENAI_API_KEY="none")
        env["PYTHONPATH"] = str(folder / "play")  # verifiers imports its taskset from there
        (folder / "play").mkdir()
        done = {}

        def play() -> None:
            command = [python, "-c", code]
            options = dict(cwd=folder / "play", env=env, capture_output=True, text=True)
            done["it"] = subprocess.run(command, timeout=900, **options)

        seconds["first rollout"] = timed(play)
        if not done["it"].stdout.endswith("played\n"):
            raise SystemExit(f"{tool}: {done['it'].stderr[-3000:]}")
        minutes = round(sum(seconds.values()) / 60, 2)
        parts = {part: round(s, 1) for part, s in seconds.items()}
        return dict(tool=tool, extra=extra, minutes=minutes, seconds=parts, **measure(python))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="*", choices=[*PLAYS, []], default=[])
    tools = parser.parse_args().tools or list(PLAYS)
    known = json.loads(OUT.read_text())["rows"] if OUT.exists() else []
    rows = {row["tool"]: row for row in known}
    about = dict(python=platform.python_version(), pip=version("pip"), cores=os.cpu_count())
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(ROOT)]
        subprocess.run(command, check=True)
        [wheel] = Path(folder).glob("sql_env-*.whl")
        for tool in tools:
            rows[tool] = first_rollout(tool, wheel)
            print(json.dumps(rows[tool]), flush=True)
            kept = [rows[name] for name in PLAYS if name in rows]
            OUT.write_text(
                json.dumps(dict(command=COMMAND, about=about, rows=kept), indent=1) + "\n"
            )


if __name__ == "__main__":
    main()
