"Every shell block of README and of the documentation: its options exist, and its commands do what they say."

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import typer
from fake_server import FakeServer, completion
from openpyxl import Workbook

from sql_env.cli.app import app
from sql_env.database.database import build_database
from sql_env.server.settings import Settings
from sql_env.sources.loading import load

ROOT = Path(__file__).resolve().parent.parent
SPIDER = Path(os.environ.get("SQL_ENV_SPIDER") or ROOT.parent / "shared" / "spider")
BIN = Path(sys.executable).parent
TEXTS = [ROOT / name for name in ("README.md", "AGENTS.md", "skills/sql-env/SKILL.md")]
BLOCK = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```", re.M | re.S)
# What is not run here: installing (the first lines of README are run by whoever builds it), and programs of others
ELSEWHERE = ("pip", "python3", "uv", "git", "docker", "export", "inspect", "vf-eval", "vllm", "llama-server", "claude")
# Less of the same, so that a line takes seconds
LESS = dict(evaluate=["-n", "4", "--no-floor"], audit=["--workers", "1"])
LESS |= dict(trajectories=["-n", "4"], serve=["--port", "0"])


def texts():
    "What README and each page say, with where it stands."
    for path in (*TEXTS, *sorted((ROOT / "nbs").rglob("*.ipynb"))):
        if path.suffix != ".ipynb":
            yield path, path.read_text()
        elif path.name != "index.ipynb":  # README is made of it
            cells = json.loads(path.read_text())["cells"]
            yield from ((path, "".join(c["source"])) for c in cells if c["cell_type"] == "markdown")


def shell_blocks():
    "The shell blocks of README and of each page."
    for path, text in texts():
        for i, block in enumerate(BLOCK.findall(text)):
            yield pytest.param(block, id=f"{path.stem}-{i}")


BLOCKS = list(shell_blocks())
assert len(BLOCKS) >= 6


def commands(block):
    "The lines of a block as lists of words, without comments; a line may go on after a backslash."
    for line in block.replace("\\\n", " ").splitlines():
        if words := shlex.split(line.removeprefix("$ "), comments=True):
            yield words


def own_arguments(words):
    "The arguments of `sql_env`, behind variables or other commands; None if another program is called."
    for i, word in enumerate(words):
        is_first = i == 0 or words[i - 1] in ("&&", ";", "--") or "=" in words[i - 1]
        if is_first and Path(word).name == "sql_env":
            return words[i + 1 :]
    return None


def test_commands_and_options_in_messages_and_help_exist():
    group, found = typer.main.get_command(app), 0
    for path in sorted((ROOT / "sql_env").rglob("*.py")):
        for name, rest in re.findall(r"\bsql_env ([a-z]+)( [^`'\"\n]*)?[`'\"\n]", path.read_text()):
            if name not in group.commands:  # words of a sentence
                continue
            known = {flag for option in group.commands[name].params for flag in (*option.opts, *option.secondary_opts)}
            own = getattr(group.commands[name], "commands", {})
            known |= {flag for command in own.values() for option in command.params for flag in option.opts}
            if name in ("serve", "mcp"):  # which have options of their own
                known |= {f"--{field.replace('_', '-')}" for field in Settings.model_fields}
            given = re.findall(r"(?<!\w)--[a-z][a-z-]*", rest)
            assert known.issuperset(given), (path.name, name, rest)
            found += 1
    assert found > 40


@pytest.mark.parametrize("block", BLOCKS)
def test_commands_and_options_of_a_block_exist(block):
    group = typer.main.get_command(app)
    for words in commands(block):
        arguments = own_arguments(words)
        if arguments is None:
            names = [word for word in words if "=" not in word]
            assert Path(names[0]).name in ELSEWHERE, f"nobody tests this line: {' '.join(words)}"
            continue
        name, *rest = arguments
        group.commands[name].make_context(name, rest)  # raises for what does not exist


def answers(body):
    return completion([("answer", dict(value="1"))])


@pytest.fixture
def home(tmp_path):
    "A folder as the documentation supposes it: questions of one's own, and two results."
    table = "CREATE TABLE sale (id INTEGER PRIMARY KEY, drink TEXT, cups INTEGER)"
    sales = [(i, "tea" if i % 3 else "coffee", 1 + i % 4) for i in range(40)]
    tea = ("How many cups of tea were sold?", "SELECT sum(cups) FROM sale WHERE drink = 'tea'")
    coffee = ("How many sales of coffee were there?", "SELECT count(*) FROM sale WHERE drink = 'coffee'")
    lines = [json.dumps(dict(question=q, sql=sql, database="cafe")) for q, sql in (tea, coffee)]
    for name in ("mydata", "cafe"):
        folder = tmp_path / name
        folder.mkdir()
        build_database(folder / "cafe.sqlite", table, dict(sale=sales))
        (folder / "questions.jsonl").write_text("\n".join(lines))
    (tmp_path / "ships.csv").write_text("id,ship,tons\n1,Aurora,120\n2,Bora,80\n")
    visits = Workbook()
    for row in (("id", "ship_id", "day"), (1, 1, "2024-03-05"), (2, 1, "2024-04-06")):
        visits.active.append(row)
    visits.save(tmp_path / "visits.xlsx")
    return tmp_path


def environment():
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    known = dict(OPENAI_API_KEY="none", SQL_ENV_SPIDER=str(SPIDER))  # as after a download
    return os.environ | known | dict(PATH=path, PYTHONPATH=str(ROOT))


def run_line(line, home, timeout=300):
    pipes = dict(stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
    done = subprocess.run(["bash", "-c", line], cwd=home, env=environment(), **pipes)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr


def run_server(line, home):
    "A server has started when it says where; then it is stopped as by Ctrl+C."
    command, pipes = ["bash", "-c", f"exec {line}"], dict(stderr=subprocess.PIPE, text=True)
    process = subprocess.Popen(command, cwd=home, env=environment(), **pipes)
    said = []
    try:
        for text in process.stderr:
            said.append(text)
            if found := re.search(r"running on (http://\S+)", text):
                with urllib.request.urlopen(f"{found[1]}/health", timeout=120) as answer:
                    assert answer.status == 200
                return
        pytest.fail(f"{line}\n{''.join(said)}")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def less_of(arguments):
    "A command that takes seconds: fewer questions, a part of the training, any free port."
    name, *rest = arguments
    if "-n" in rest and "-n" in LESS.get(name, ()):
        at = rest.index("-n")
        rest[at : at + 2] = []
    if name == "evaluate" and not {"--policy", "--model"} & set(rest):
        rest += ["--policy", "random"]
    if "--http" in rest:
        rest += ["--port", "0"]
    return [name, *rest, *LESS.get(name, ())]


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS)
def test_the_commands_of_a_block_work(block, home):
    with FakeServer(answers) as model:
        for words in commands(block):
            arguments = own_arguments(words)
            if arguments is None or "..." in " ".join(words) or "<" in " ".join(words):
                continue
            name, *rest = less_of(arguments)
            trained = ("runs/nano-0", "runs/first-0", "runs/small-0")  # in minutes; test_training trains
            if name == "train" or any(word.startswith(trained) for word in rest):
                continue
            is_untrained = name == "view" and not (home / rest[0]).exists()  # a log of a model not trained here
            if is_untrained or "spider" in rest and not (SPIDER / "dev.json").is_file():
                continue
            if name == "judge" and not (home / rest[0]).exists():  # gold, as a file of predictions
                golds = [" ".join(q.gold_sql.split()) for q in load("spider", SPIDER, "dev").in_order]
                (home / rest[0]).write_text("\n".join(golds))
            if {"chat", "--model"} & set(rest) and name == "evaluate" and "--base-url" not in rest:
                rest += ["--base-url", model.url]
            rest = [
                model.url
                if before == "--base-url"
                else str(SPIDER)
                if "shared/spider" in word or (before, word) == ("--path", "spider")
                else word
                for before, word in zip(["", *rest], rest)
            ]
            if name == "compare":
                for policy, file in zip(("random", "oracle"), [w for w in rest if w.endswith(".jsonl")]):
                    if not (home / file).exists():
                        run_line(f"sql_env evaluate --policy {policy} -n 4 --no-floor --log made", home)
                        (home / file).parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy(home / "made" / f"{policy}.jsonl", home / file)
            line = "sql_env " + " ".join([name, *[w if "*" in w else shlex.quote(w) for w in rest]])
            is_server = name == "serve" or "--http" in rest
            (run_server if is_server else run_line)(line, home)


def test_what_the_pages_for_agents_name_is_there_and_the_python_of_the_skill_works(capsys):
    group = typer.main.get_command(app)
    named = [words for _, text in texts() for words in re.findall(r"`sql_env ([a-z][^`]+)`", text)]
    assert len(named) >= 40
    for name, *rest in map(shlex.split, named):
        if len(rest) > 1:  # else it names a command
            group.commands[name].make_context(name, rest)
    for path in TEXTS[1:]:
        text = path.read_text()
        names = re.findall(r"\]\((?!http)([^)]+)\)|`((?:tests|benchmarks|nbs|skills)/[\w./-]+)`", text)
        assert all((ROOT / (a or b)).exists() for a, b in names), (path.name, names)
    (block,) = re.findall(r"^```python\n(.*?)^```", TEXTS[2].read_text(), re.M | re.S)
    exec(block, {})
    assert capsys.readouterr().out == "1.0\n"
