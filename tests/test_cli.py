"The command line: exit codes that mean something, JSON that parses, errors that say what to do, tables that fit."

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter, namedtuple
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from fake_server import FAULTS, FakeServer, completion
from tables import cases

from sql_env import Limits, load
from sql_env.cli.app import app
from sql_env.database.database import Database, build_database
from sql_env.evaluation.harness import evaluate
from sql_env.evaluation.logs import read_log
from sql_env.grading.answers import Verdict
from sql_env.paths import BUNDLED
from sql_env.plugins import EXTRAS
from sql_env.policies import baselines
from sql_env.policies.local import load_model_settings
from sql_env.policies.requests import Completion

SPIDER = Path(os.environ.get("SQL_ENV_SPIDER") or Path(__file__).resolve().parents[2] / "shared" / "spider")
HAS_SPIDER = (SPIDER / "dev.json").is_file()
needs_spider = pytest.mark.skipif(not HAS_SPIDER, reason="Spider is not here: set SQL_ENV_SPIDER to its folder")
SCRIPT = shutil.which("sql_env", path=str(Path(sys.executable).parent))
COMMANDS = """demo evaluate compare export data audit doctor trajectories train serve mcp""".split()


class Run(namedtuple("Run", "code out err")):
    "What a command printed and how it ended."

    def __repr__(self):
        return f"exit {self.code}\n{self.out}\n--- stderr\n{self.err}"


def words(args):
    "The words of a command: texts are split at blanks, paths and numbers are not."
    return [word for a in args for word in (a.split() if isinstance(a, str) else [str(a)])]


def timeless(log):
    "The last header of a log and its episodes, without time stamps."
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    headers = [line for line in lines if "policy" in line]
    lines = headers[-1:] + [line for line in lines if "policy" not in line]
    return [{k: v for k, v in line.items() if k not in ("started", "ended")} for line in lines]


@pytest.fixture
def sql_env(run_command, monkeypatch):
    "`run_command` without Spider; arguments may be one text."
    monkeypatch.delenv("SQL_ENV_SPIDER", raising=False)
    return lambda *args: Run(*run_command(*words(args)))


def shell(*args, timeout=60, **env):
    if not SCRIPT:
        pytest.skip("the console script sql_env is not installed: pip install -e .")
    env = os.environ | dict(COLUMNS="80", NO_COLOR="1") | env
    p = subprocess.run([SCRIPT, *words(args)], capture_output=True, text=True, timeout=timeout, env=env)
    return Run(p.returncode, p.stdout, p.stderr)


def helpful(run, code=2):
    "An error: nothing on stdout but help, a sentence on stderr, no traceback."
    assert run.code == code, run
    assert run.err.strip() and "Traceback" not in run.err + run.out, run
    assert not run.out.strip(), run
    return " ".join(run.err.split())


def failed(run):
    "The lines of the doctor that fail."
    return "\n".join(line for line in run.out.split("\n") if "FAIL" in line)


def fits(run, width=80):
    lines = (run.out + run.err).split("\n")
    assert max(len(x) for x in lines if not x.startswith("next:")) <= width, run
    return run


def strict(text):
    "JSON as the standard has it: without NaN."
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def make_folder(path, lines, database=None):
    path.mkdir(exist_ok=True)
    if database is None:
        tables = """CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price REAL);
            CREATE TABLE sale(item_id REFERENCES item, n INTEGER)"""
        items = [(i, f"thing {i}", i * 1.25 + 0.37) for i in range(1, 21)]
        sales = [(i % 20 + 1, i % 7 + 3) for i in range(90)]
        build_database(path / "shop.sqlite", tables, dict(item=items, sale=sales))
    else:
        (path / "shop.sqlite").write_bytes(database)
    (path / "questions.jsonl").write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + "\n")
    return path


GOOD = cases("cli_good")
GUESSABLE = [{"question": f"Is {i} there?", "sql": f"SELECT count(*) FROM item WHERE id = {i}"} for i in range(1, 9)]
UNANSWERABLE = [dict(question=f"Which cost {i}?", sql=f"SELECT name FROM item WHERE price = {i}000") for i in range(5)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("data") / "shop", GOOD)


@pytest.mark.parametrize("command", ["demo", "evaluate", "data", "doctor", "export"])
def test_the_example_of_each_command_works(sql_env, command, tmp_path, folder, monkeypatch):
    said = re.split(r"\n\s*\n|╭", sql_env(command, "--help").out)  # paragraphs of the help
    line = " ".join(next(p for p in said if p.strip().startswith("Example:")).split())
    example = re.search(rf"sql_env {command}[^`]*", line.removeprefix("Example:"))[0].split()[1:]
    args = [str(folder) if a == "mydata" else a for a in example if a.strip()]
    if "spider" in args and not HAS_SPIDER:
        pytest.skip("Spider is not here")
    monkeypatch.setenv("SQL_ENV_SPIDER", str(SPIDER))
    if command == "evaluate":
        args += ["-n", "20", "--no-floor"]
    if command == "export":
        args += ["--out", tmp_path / "episode.html"]
    assert sql_env(*args).code == 0, args


def test_help_lists_the_commands_each_has_an_example_and_every_option_a_help_text(sql_env):
    for command in COMMANDS:
        run = sql_env(command, "--help")
        assert run.code == 0 and "xample" in run.out and f"sql_env {command}" in run.out, command
        assert command in ("serve", "mcp") or fits(run)  # theirs is written by pydantic
        assert "<bool>" not in run.out, command
    run = fits(sql_env("--help"))
    assert run.code == 0 and all(c in run.out for c in COMMANDS)
    assert all(c in sql_env().out + sql_env().err for c in COMMANDS), "and so does the bare command"
    assert sql_env("--version").out == f"sql_env {version('sql_env')}\n"
    assert "--install-completion" in sql_env("--help").out
    assert "<bool>" not in sql_env("--help").out + sql_env("data", "import", "--help").out
    complete = dict(_SQL_ENV_COMPLETE="complete_bash", COMP_WORDS="sql_env demo --sou", COMP_CWORD="2")
    assert shell(**complete).out.split() == ["--source"]
    for name, command in typer.main.get_command(app).commands.items():
        assert [p.name for p in command.params if not p.help] == [], name


def test_help_reads_only_declarations():
    "The help comes at once: what carries a command out is imported when it runs."
    code = (
        "import sys, runpy; sys.argv = ['sql_env', '--help']\n"
        "try: runpy.run_module('sql_env', run_name='__main__')\n"
        "except SystemExit as e: assert not e.code\n"
        "heavy = 'numpy openai openenv torch trl transformers matplotlib mpmath pandas openpyxl'.split()\n"
        "print([m for m in heavy if m in sys.modules])\n"
        "print(*sorted(m for m in sys.modules if m.startswith('sql_env.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    *_, heavy, own = done.stdout.splitlines()
    assert heavy == "[]" and len(own.split()) <= 24, done
    assert "grading" not in own and "questions" not in own and "sources.loading" not in own, own


def test_misspelt_commands_end_with_2(sql_env):
    for args in ("nonsense", "demo --nope", "evaluate -n many", "demo --budget 0", "demo --budget x", "data bundled"):
        assert "Error" in helpful(sql_env(args)), args
    assert "Error" in helpful(sql_env("evaluate --policy"))


def test_the_console_script_ends_with_the_code_of_the_command():
    ok = shell("evaluate -n 5 --no-floor --policy oracle")
    assert ok.code == 0 and "oracle" in ok.out and not ok.err
    helpful(shell("demo --question nothing-01"))


@pytest.mark.slow
def test_the_console_script_knows_the_variable_of_spider_and_the_order_of_a_pipe_is_kept(tmp_path):
    assert "dev.json" in helpful(shell("data --source spider", SQL_ENV_SPIDER=str(tmp_path)))
    if HAS_SPIDER:
        assert shell("data --source spider --split dev", SQL_ENV_SPIDER=str(SPIDER)).code == 0
    # Nothing but JSON on stdout, even where a bar would be shown
    run = shell("evaluate -n 6 --no-floor --json --out", tmp_path / "o", "--log", tmp_path / "l")
    assert run.code == 0 and [r["policy"] for r in strict(run.out)] == ["random", "greedy", "oracle"]
    assert all(line.startswith(("Log: ", "  what went wrong: ")) for line in run.err.splitlines())


def test_demo_plays_each_policy_by_seed_and_budget_and_keeps_brackets(sql_env, tmp_path, monkeypatch):
    for policy, ends in (("oracle", "Right."), ("greedy", "Wrong."), ("random", "Wrong.")):
        run = fits(sql_env("demo --policy", policy, "--question museum_loans-20"))
        assert run.code == 0 and ends in run.out, policy
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert "--model" in helpful(sql_env("demo --policy chat"))
    with FakeServer(lambda body: completion([("answer", dict(value="no such value"))])) as server:
        args = ("demo", "--policy", "chat", "--model", "m", "--base-url", server.url)
        run = fits(sql_env(*args, "--question museum_loans-20"))
    assert run.code == 0 and "played by m" in run.out and "Wrong." in run.out
    a, b, c = (sql_env("demo --policy random --seed", s).out for s in (5, 5, 6))
    assert a == b != c
    run = sql_env("demo --policy oracle --budget 1")
    assert run.code == 0 and "Wrong." in run.out
    line = {"question": "Which [bold]thing[/bold] is [red]first[/]?", "sql": "SELECT '[bold]x[/bold] [/nope]'"}
    run = sql_env("demo --source folder --path", make_folder(tmp_path / "f", [line]))
    assert run.code == 0 and "[bold]thing[/bold] is [red]first[/]" in run.out and "[bold]x[/bold] [/nope]" in run.out


@pytest.mark.parametrize("command", ["serve", "mcp"])
def test_servers_take_every_setting(sql_env, monkeypatch, command):
    "Each setting has an option, which goes before the variable; what is left out keeps the variable's."
    app = pytest.importorskip("sql_env.server.app", reason="no openenv: install sql_env[server]")
    served = []
    monkeypatch.setattr(app, {"serve": "serve", "mcp": "serve_mcp"}[command], served.append)
    monkeypatch.setattr(app.main, "__defaults__", (None, app.serve, app.main.__defaults__[2]))
    given = dict(source="worlds", path="here", split="test", level=3, n=44, budget=7, actions="abstain")
    given |= dict(schema_level="full", reward="shaped", verify="robust", reveal="verdict")
    given |= dict(capacity=5, share=4, idle=61, hosts="a.org", origins="*", host="0.0.0.0", port=8123)
    assert given.keys() == app.Settings.model_fields.keys() - {"web"}
    words = [w for k, v in given.items() for w in ("-n" if k == "n" else f"--{k.replace('_', '-')}", v)]
    assert sql_env(command, *words, "--no-web").code == 0
    assert {name: getattr(served[0], name) for name in given} == given and not served[0].web
    monkeypatch.setenv("SQL_ENV_IDLE", "77")
    assert sql_env(command).code == 0 and served[1].idle == 77
    assert served[1].reveal == {"serve": "verdict", "mcp": "none"}[command]
    assert "reward" in helpful(sql_env(command, "--reward much"))


def test_evaluate_prints_a_table_that_fits_and_json(sql_env):
    run = fits(sql_env("evaluate --split test"))
    n = len(load("bundled", split="test"))
    assert run.code == 0 and not run.err
    head = next(x for x in run.out.split("\n") if "policy" in x)
    assert all(w in head for w in ("success", "95 % interval", "easy", "medium", "hard", "grounded", "robust", "n"))
    rows = {p: next(x for x in run.out.split("\n") if x.strip().startswith(p)) for p in ("random", "greedy", "oracle")}
    assert "100.0%" in rows["oracle"] and rows["oracle"].rstrip().endswith(f" {n}") and "…" not in run.out
    floor = float(re.search(r"Hack floor ([\d.]+)%", run.out)[1])
    assert floor < 6, "a split of this size lets a hack win a few"
    run = sql_env("evaluate --split validation -n 30 --json --policy oracle --policy random")
    assert run.code == 0 and not run.err
    oracle, chance = strict(run.out)
    of_all = dict(policy="oracle", success_rate=1.0, n_episodes=30, n_completed=30)
    assert {name: oracle[name] for name in of_all} == of_all
    assert chance["policy"] == "random" and 0 <= chance["low"] <= chance["success_rate"] <= chance["high"] <= 1
    assert set(oracle["hack_floor"]) >= {"empty", "select 1"} and oracle["settings"]["questions"] == "bundled"


@needs_spider
def test_evaluation_and_data_of_spider_name_what_is_missing(sql_env):
    run = fits(sql_env("evaluate --source spider --path", SPIDER, "--split dev -n 60 --policy oracle --no-floor"))
    assert run.code == 0 and "100.0%" in run.out and "Left out: 62 questions, database wta_1 is missing" in run.out
    assert "In quarantine: " in run.out
    run = fits(sql_env("data --source spider --path", SPIDER, "--split dev"))
    assert run.code == 0 and "wta_1" in run.out and "62" in run.out
    d = strict(sql_env("data --source spider --path", SPIDER, "--split dev --json").out)
    assert d["left_out"] == {"database wta_1 is missing": 62} and d["questions"] + sum(d["left_out"].values()) <= 595


def test_evaluate_writes_results_and_resumes_its_logs(sql_env, tmp_path):
    out = tmp_path / "deep" / "out"
    assert sql_env("evaluate -n 12 --no-floor --out", out).code == 0
    assert {p.name for p in out.iterdir()} == {"results.md", "results.png"}
    assert (out / "results.md").read_text().startswith("| policy |")
    assert (out / "results.png").read_bytes()[:4] == b"\x89PNG"
    args = ["evaluate -n 20 --no-floor --policy random --log", tmp_path / "log", "--json"]
    whole = strict(sql_env(*args).out)
    log = tmp_path / "log" / "random.jsonl"
    lines = log.read_bytes().split(b"\n")
    assert len(lines) == 22
    log.write_bytes(b"\n".join(lines[:8]) + b'\n{"half')
    assert strict(sql_env(*args).out) == whole and log.read_bytes().split(b"\n")[:8] == lines[:8]


def test_evaluate_without_robust_shows_a_dash_and_says_what_was_not_judged(sql_env, tmp_path, monkeypatch):
    args = ["evaluate -n 4 --no-floor --policy oracle --no-robust"]
    run = fits(sql_env(*args, "--out", tmp_path))
    row = next(x for x in run.out.split("\n") if x.strip().startswith("oracle"))
    assert row.split()[-2:] == ["-", "4"] and "not judged" not in run.out
    (r,) = strict(sql_env(*args, "--json").out)
    assert (r["robust_rate"], r["n_not_judged"], r["not_judged"]) == (None, 4, {"off": 4})
    assert "| - |" in (tmp_path / "results.md").read_text()
    monkeypatch.setattr("sql_env.play.judges.verify_robust", lambda *args, **options: Verdict(False, "no_variants"))
    args = ["evaluate -n 4 --no-floor --policy oracle"]
    assert "oracle: robust -, 4 not judged: " in " ".join(sql_env(*args).out.split())
    (r,) = strict(sql_env(*args, "--json").out)
    assert (r["robust_rate"], r["not_judged"]) == (None, {"no_variants": 4})


def test_limits_and_schema_levels_are_options_and_numbers_are_the_same_for_a_seed_and_with_workers(sql_env):
    args = ["evaluate -n 4 --no-floor --policy oracle --json"]
    (r,) = strict(sql_env(*args, "--operations 9000000 --memory 128").out)
    assert r["settings"]["limits"] == json.loads(json.dumps(asdict(Limits(operations=9_000_000, heap=128 * 2**20))))
    assert "limits" not in strict(sql_env(*args).out)[0]["settings"]
    args = ["evaluate -n 40 --no-floor --policy random --json --seed"]
    a, b, c = (strict(sql_env(*args, seed).out) for seed in ("1", "1 --workers 2", "2"))
    assert a == b and a[0]["avg_steps"] != c[0]["avg_steps"]
    for level in ("none", "full"):
        (r,) = strict(sql_env("evaluate -n 10 --no-floor --policy oracle --schema-level", level, "--json").out)
        assert r["success_rate"] == 1 and r["settings"]["schema_level"] == level
    assert "Hack floor" not in sql_env("evaluate -n 3 --no-floor").out


def test_evaluate_says_when_episodes_crash(sql_env, monkeypatch):
    class Broken:
        name = "broken"

        def select_action(self, observation):
            raise RuntimeError("[red]boom[/]")

    monkeypatch.setattr(baselines, "RandomPolicy", Broken)
    run = sql_env("evaluate -n 4 --no-floor --policy random")
    assert run.code == 1 and "4 episodes crashed, and nothing was measured" in run.out
    assert "RuntimeError: [red]boom[/]" in " ".join(run.out.split()) and "nan" not in run.out
    assert "Traceback" not in run.err
    (r,) = strict(sql_env("evaluate -n 4 --no-floor --policy random --json").out)
    assert r["n_completed"] == 0 and r["n_episodes"] == 4


class Silent:
    "A backend whose model never calls a tool."

    name, settings, client = "silent", {}, None

    def __init__(self, *args, **options):
        self.args, self.options = args, options
        Silent.made = self

    def complete(self, messages, tools, seed):
        return Completion(dict(content="Let me think."))


def test_a_model_folder_carries_its_settings_and_a_model_on_a_server_has_the_defaults(sql_env, tmp_path, monkeypatch):
    class SilentModel(Silent):
        def __init__(self, path, **options):
            super().__init__(path, **options)
            self.model_settings = load_model_settings(path)

    def settings(*args):
        "Settings of the environment and of the policy that a result reports."
        (result,) = strict(sql_env("evaluate --split test --policy chat -n 1 --no-floor --json --no-log", *args).out)
        both = result["settings"] | result["settings"]["policy_settings"]
        return {name: both[name] for name in ("budget", "schema_level", "nudges", "max_chars", "shots")}

    monkeypatch.setattr("sql_env.policies.local.LocalModel", SilentModel)
    stored = dict(nudges=1, max_chars=77, schema_level="columns", budget=4)
    (tmp_path / "sql_env.json").write_text(json.dumps(stored))
    found = settings("--model", tmp_path)
    assert found == dict(budget=4, schema_level="columns", nudges=1, max_chars=77, shots=0)
    # Only what is given overrides it
    found = settings("--model", tmp_path, "--budget 5 --schema-level none --nudges 0 --shots 1 --temperature 0.5")
    assert found == dict(budget=5, schema_level="none", nudges=0, max_chars=77, shots=1)
    assert Silent.made.options == dict(max_new_tokens=None, temperature=0.5)
    monkeypatch.setattr("sql_env.policies.endpoint.Endpoint", Silent)
    found = settings("--model a/b --base-url http://x/v1 --max-tokens 9")
    assert found == dict(budget=15, schema_level="names", nudges=3, max_chars=1000, shots=0)
    assert Silent.made.args == ("a/b", "http://x/v1")
    assert Silent.made.options == dict(as_trained=False, max_tokens=9)


@pytest.mark.parametrize("args, says", cases("cli_cannot_be_done"))
def test_what_cannot_be_done_says_what_to_do(sql_env, args, says):
    assert says in helpful(fits(sql_env(args)))


def test_advice_names_options_that_exist_and_files_that_are_something_else_stay(sql_env, tmp_path):
    for args in (["data", "--source", "spider"], ["demo", "--source", "folder"], ["data", "--source", "bird"]):
        advice = set(re.findall(r"--[a-z][a-z-]+", helpful(sql_env(*args))))
        assert advice
        assert not [o for o in advice if o not in sql_env(args[0], "--help").out], "the advice can't be followed"
    few, file = "evaluate -n 3 --no-floor", tmp_path / "file"
    args = [few, "--policy random --log", tmp_path / "log"]
    assert sql_env(*args).code == 0
    assert "another run" in helpful(sql_env(*args, "--seed 9"))
    file.write_text("precious")
    for args in ([few, "--log"], [few, "--out"], ["data --out"]):
        assert "file" in helpful(sql_env(*args, file)), args
        assert file.read_text() == "precious"
    assert "is a folder; name one log" in helpful(sql_env("rescore", tmp_path / "log"))


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_an_error_not_a_traceback(sql_env, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    assert sql_env("data --out", tmp_path / "locked" / "x").code == 2


def test_data_are_shown_and_written_into_a_new_folder_which_is_a_source_again(sql_env, tmp_path):
    d = strict(sql_env("data --json").out)
    assert d["questions"] == 384 == sum(d["databases"].values()) == sum(d["difficulty"].values())
    assert d["left_out"] == {}
    out = tmp_path / "copy"
    assert sql_env("data --split test --out", out).code == 0
    again = strict(sql_env("data --source folder --path", out, "--json").out)
    assert again["questions"] == len(load("bundled", split="test")) < 384
    assert "100.0%" in sql_env("evaluate --source folder --path", out, "--policy oracle -n 20 --no-floor").out
    kept = (out / "questions.jsonl").read_bytes()
    assert "not empty" in helpful(sql_env("data --source bundled --out", out))
    assert (out / "questions.jsonl").read_bytes() == kept
    # A malformed line is named by its number; a mark and Windows' line ends are read
    folder = make_folder(tmp_path / "f", [*GOOD, "not json"])
    for command in ("doctor", "data"):
        assert "questions.jsonl, line 5:" in helpful(sql_env(command, "--source folder --path", folder))
    folder = make_folder(tmp_path / "marked", GOOD)
    file = folder / "questions.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert strict(sql_env("data --source folder --path", folder, "--json").out)["questions"] == 4


WHOLE = (BUNDLED / "vet_clinic.sqlite").read_bytes()
DAMAGED = {
    "empty": b"",
    "text": b"hello " * 500,
    "cut": WHOLE[:5000],
    "header only": WHOLE[:100],
    "noise": WHOLE[:4096] + bytes(i * 7 % 256 for i in range(len(WHOLE) - 4096)),
}


@pytest.mark.parametrize("bytes_", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_database_fails_the_doctor_and_is_named(sql_env, tmp_path, bytes_):
    folder = make_folder(tmp_path / "f", [{"question": "q?", "sql": "SELECT 1"}], bytes_)
    run = sql_env("doctor --source folder --path", folder)
    assert run.code == 1 and "Traceback" not in run.err + run.out and failed(run), run
    assert "shop.sqlite" in run.out
    if bytes_ is DAMAGED["noise"]:
        return  # header and catalog are sound, and no query has met the damage yet
    run = sql_env("data --source folder --path", folder)
    assert "shop.sqlite" in " ".join(run.out.split()) and "Left out: 1" in run.out
    for command in ("evaluate --no-floor", "demo"):
        assert "no questions" in helpful(sql_env(command, "--source folder --path", folder))


def test_doctor_finds_nothing_wrong_with_bundled_questions_and_tasks_and_names_the_extras(sql_env, monkeypatch):
    run = fits(sql_env("doctor"))
    assert run.code == 0 and "FAIL" not in run.out and not run.err
    checks = "Python 3.11|SQLite 3.54|catalog is closed|writing is refused|endless queries stop|oracle answers"
    for check in f"{checks}|hacks earn|variants for the robust verdict".split("|"):
        assert any(line.startswith("ok") and check in line for line in run.out.split("\n")), check
    # On 91dee7d: all are tasks, which need the action EXECUTE
    run = sql_env("doctor --source bundled_tasks -n 4")
    assert run.code == 0 and "100.0% of 4" in run.out and "FAIL" not in run.out
    # On 91dee7d with what each is for: ten lines
    monkeypatch.setattr("sql_env.cli.train._installed", lambda *names: [])
    checks = strict(sql_env("doctor -n 2 --json").out)
    [said] = [c["detail"] for c in checks if c["check"] == "optional packages"]
    assert len(said) < 160 and all(extra in said for extra in EXTRAS)


def test_doctor_fails_on_what_measures_nothing_on_other_gold_and_on_an_open_guard(sql_env, tmp_path, monkeypatch):
    faulty = [dict(question="q?", sql="SELECT nope FROM item")]
    other_gold = [GOOD[0] | {"gold_answer": [[99.5]]}, *GOOD[1:]]
    checks = [(GUESSABLE, "hacks earn"), (UNANSWERABLE, "questions to play"), (faulty, "questions to play")]
    for i, (lines, check) in enumerate([*checks, (other_gold, "oracle")]):
        args = "doctor --source folder --path", make_folder(tmp_path / str(i), lines)
        run = sql_env(*args)
        assert run.code == 1 and "Traceback" not in run.err + run.out and check in failed(run), run
        run = sql_env(*args, "--json")
        assert run.code == 1 and not all(c["ok"] for c in strict(run.out)), run
    honest, closed = Database.query, "sqlite_master"
    monkeypatch.setattr(Database, "query", lambda self, sql: honest(self, "SELECT 1" if closed in sql else sql))
    run = sql_env("doctor -n 3")
    assert run.code == 1 and "catalog" in failed(run)


def test_doctor_tries_one_variant_of_each_database(sql_env, monkeypatch):
    asked = []

    def why_no_variants(path, sql):
        asked.append(path.stem)
        return "No table has a key." if path.stem == "vet_clinic" else ""

    monkeypatch.setattr("sql_env.grading.variants.pairs.why_no_variants", why_no_variants)
    run = sql_env("doctor -n 3 --json")
    (check,) = (c for c in strict(run.out) if "variants" in c["check"])
    assert run.code == 1 and not check["ok"]
    assert check["detail"] == "11 of 12 databases; vet_clinic: No table has a key."
    assert Counter(asked) == Counter(set(asked)) + Counter(vet_clinic=2)


def test_checks_keep_to_limits_that_are_given(sql_env, tmp_path):
    count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 20000) SELECT max(i) FROM n"
    folder = make_folder(tmp_path / "f", [{"question": "How far?", "sql": count}])
    options = ["--source folder --path", folder, "--json"]
    for command in ("doctor", "audit"):
        few, many = sql_env(command, *options, "--operations 10000"), sql_env(command, *options)
        assert few.code == 1 and few.out != many.out
        assert "over_limits" not in many.out and ("over_limits" in few.out) == (command == "audit")


def test_your_own_folder_works_in_every_command_and_nothing_is_written(sql_env, tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    for args in ("demo", "evaluate -n 3 --no-floor", "data", "doctor -n 3"):
        assert sql_env(args).code == 0
    assert list(tmp_path.iterdir()) == []
    empty = make_folder(tmp_path / "f", UNANSWERABLE)
    for command in ("evaluate --no-floor", "demo"):
        assert "no questions" in helpful(sql_env(command, "--source folder --path", empty)), "all are in quarantine"
    own = ["--source folder --path", folder]
    assert "Right." in fits(sql_env("demo", *own)).out
    assert "100.0%" in fits(sql_env("evaluate", *own, "--policy oracle --no-floor")).out
    assert "4 questions" in fits(sql_env("data --source folder --path", folder)).out
    run = fits(sql_env("doctor", *own))
    assert run.code == 0 and "FAIL" not in run.out


def test_export_of_a_question_and_of_a_log_and_what_is_wrong(sql_env, tmp_path):
    out = tmp_path / "two.html"
    r = sql_env("export vet_clinic-12 --policy greedy --policy oracle --out", out)
    assert r.code == 0 and "oracle, 4 steps, right." in r.out
    page = out.read_text()
    assert page.startswith("<!doctype html>") and page.count("<article") == 2
    assert "http://" not in page and "https://" not in page
    d = json.loads(sql_env("export vet_clinic-12 vet_clinic-02 --out", out, "--json").out)
    assert [e["policy"] for e in d["episodes"]] == ["greedy"] * 2 and d["characters"] == len(out.read_text())
    sql_env("evaluate --policy random -n 5 --log", tmp_path, "--no-floor --json")
    log, out = tmp_path / "random.jsonl", tmp_path / "e.html"
    ids = [json.loads(line)["question_id"] for line in log.read_text().splitlines()[1:]]
    for pick, wanted in ((["--episode", "3"], ids[3]), (["--question", ids[2]], ids[2]), ([], ids[0])):
        r = sql_env("export", log, *pick, "--out", out)
        assert r.code == 0 and wanted in r.out and wanted in out.read_text()
    assert "neither schema nor gold" in sql_env("export", log, "--out", out, "--source worlds").out
    (tmp_path / "x.jsonl").write_text("no log\n")
    wrong = {"evaluate --log": [tmp_path / "none.jsonl"], "line 1": [tmp_path / "x.jsonl"]}
    wrong |= {"no such episode; there are 5": [log, "--episode 9"], "vet_clinic-12": ["vet_clinic-120"]}
    wrong |= {"name a file": ["vet_clinic-12 --out", tmp_path]}
    for says, args in (wrong | {"random, greedy, oracle": ["vet_clinic-12 --policy nobody"]}).items():
        assert says in helpful(sql_env("export", *args))


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_console_without_arrows_shows_what_it_can(encoding):
    "What it lacks is a question mark, and the command does not end."
    code = "from sql_env.cli import main; main()"
    words_ = ["demo", "--policy", "greedy", "--question", "vet_clinic-05"]
    env = os.environ | {"PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", code, *words_], capture_output=True, env=env)
    assert done.returncode == 0 and b"?" in done.stdout, done.stderr


@pytest.fixture
def shop(sql_env, tmp_path, monkeypatch):
    "A folder of one's own, and the logs of two policies that played it."
    monkeypatch.chdir(tmp_path)
    folder = make_folder(tmp_path / "shop", GOOD)
    for policy in ("greedy", "oracle"):
        run = sql_env("evaluate --path shop --no-floor --log runs --policy", policy)
        assert run.code == 0, run
    return folder


def test_a_log_knows_where_its_questions_are(sql_env, shop, tmp_path):
    about, _ = read_log(tmp_path / "runs" / "greedy.jsonl")
    assert about["source"] == dict(source="folder", path="shop")
    assert "log:" in sql_env("rescore", "runs/greedy.jsonl").out
    run = sql_env("export runs/oracle.jsonl --question", "shop-0001")
    assert run.code == 0 and "not among those that are loaded" not in run.out, run
    assert sql_env("evaluate --source worlds --policy oracle -n 3 --no-floor --log runs/w.jsonl").code == 0
    run = sql_env("view runs --no-open")  # of two sources
    assert run.code == 0 and "Without schemas" not in run.err, run
    shop.rename(tmp_path / "moved")
    assert "--path" in helpful(sql_env("rescore", "runs/greedy.jsonl"))
    assert "shop" in sql_env("view runs --no-open").err
    assert sql_env("rescore runs/greedy.jsonl --path moved").code == 0
    about, _ = read_log(tmp_path / "runs" / "w.jsonl")
    assert about["source"] == dict(source="worlds", split="test", n=3)


PRINTED = re.compile(r"^(?:next:| ) (sql_env .*)$", re.M)


@pytest.fixture
def follow(run_command, tmp_path, monkeypatch):
    "Run a command, and what it and the following ones tell to run; the commands, in their order."
    monkeypatch.chdir(tmp_path)

    def run(line, code=0, then=lambda: None):
        lines = [line]
        for number, line in enumerate(lines):
            run = Run(*run_command(*shlex.split(line.removeprefix("sql_env "))))
            assert run.code == (0 if number else code) and "Traceback" not in run.err, (line, run)
            lines += [new for new in PRINTED.findall(run.out + run.err) if new not in lines]
            then()
        return [line.removeprefix("sql_env ") for line in lines]

    return run


NEXT = [
    ("evaluate --policy oracle -n 3 --no-floor", 0, ["evaluate", "view"]),
    ("evaluate --path 'my shop' --policy greedy --no-floor --log 'my runs'", 0, ["view"]),
    ("evaluate --source worlds --level 2 --policy oracle -n 3 --no-floor --log r/w.jsonl", 0, ["view"]),
    ("view --no-open", 2, ["evaluate", "view"]),
    ("export runs/none.jsonl", 2, ["evaluate", "view"]),
]


@pytest.mark.parametrize("line, code, names", NEXT)
def test_the_next_command_works(follow, tmp_path, line, code, names):
    make_folder(tmp_path / "my shop", GOOD)
    assert [then.split()[0] for then in follow(line, code)[1:]] == names


def test_the_next_command_of_a_comparison_works(follow, shop):
    assert follow("compare runs/greedy.jsonl runs/oracle.jsonl")[1].startswith("export runs/greedy.jsonl ")


def test_the_next_command_of_an_import_works_when_there_are_questions(follow, tmp_path):
    (tmp_path / "ships.csv").write_text("ship,tons\n" + "".join(f"S{i},{i * 7 + 3}\n" for i in range(30)))
    questions = tmp_path / "a harbour" / "questions.jsonl"
    asked = dict(question="How heavy is S4?", sql="SELECT tons FROM ships WHERE ship = 'S4'")
    found = follow("data import ships.csv --out 'a harbour'", 0, lambda: questions.write_text(json.dumps(asked)))
    assert found[1:] == ["audit --source folder --path 'a harbour'"]


def test_the_next_command_of_a_run_with_crashes_works(follow):
    lines = iter([FAULTS["busy"]] * 2)
    with FakeServer(lambda body: next(lines, completion([("answer", dict(value="1"))]))) as server:
        where = f"--model m --base-url {server.url} --max-retries 0 --wait 0"
        again, view = follow(f"evaluate {where} -n 3 --no-floor --split test", 1)[1:]
    assert again.startswith("evaluate --model m") and view.startswith("view runs/")


@pytest.mark.slow
def test_the_next_command_of_a_training_works(follow):
    pytest.importorskip("trl")
    _, evaluate, *_ = follow("train first --scale 0.005 --evals none --out r")
    assert evaluate == "evaluate --policy r/imitate/model --source worlds"


def test_a_terminal_of_50_columns_shows_names_and_numbers(sql_env, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    for args in ("evaluate --policy oracle -n 3 --no-floor", "data --questions 1"):
        run = sql_env(args)
        table = [x for x in run.out.split("\n") if "─" in x or "%  " in x]
        assert table and "…" not in run.out and max(map(len, table)) <= 50, run
    assert "oracle" in sql_env("evaluate --policy oracle -n 3 --no-floor").out


def test_one_of_a_kind_is_no_plural_and_nothing_is_shown_as_python_or_the_system_say_it(sql_env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path / "shop", GOOD[:1])
    (tmp_path / "one.csv").write_text("a,b\n1,x\n")
    said = [sql_env(f"{command} --path shop") for command in ("data", "audit", "doctor")]
    said.append(sql_env("evaluate --path shop --policy oracle --no-floor --log runs"))
    said += [sql_env("view --no-open"), sql_env("rescore runs/oracle.jsonl"), sql_env("data import one.csv --out made")]
    said = "\n".join(run.out + run.err for run in said)
    assert not re.findall(r"(?<![\d.,] of )(?<![\d.,])\b1 [a-z ]*(?:s|queries)\b(?! with| of| in)", said)
    assert "EvaluationResult" not in said and "oracle: 100.0% right" in said
    (tmp_path / "afile").touch()
    for args in ("evaluate --policy oracle -n 2 --no-floor --log afile", "view --no-open --out afile/runs.html"):
        run = sql_env(args)
        assert run.code == 2 and "Errno" not in run.err and "afile" in run.err and "--out" in run.err, run


def test_many_runs_are_sorted_and_compared_with_one(sql_env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    questions = load("bundled", split="test")
    for seed in range(6):
        evaluate(questions, baselines.RandomPolicy(), 4, log=f"runs/{seed}.jsonl", progress=False)
    evaluate(questions, baselines.OraclePolicy(questions), 4, log="runs/oracle.jsonl", progress=False)
    run = sql_env("compare runs")
    assert run.out.startswith("oracle: 100.0%") and "--against" in run.out and len(run.out.split("\n")) < 12, run
    run = sql_env("compare runs --against oracle")
    assert run.out.count(" - oracle: ") == 6 and "random@1 - random@2" not in run.out, run
    assert "there are" in helpful(sql_env("compare runs --against none"))


def test_no_type_of_an_option_is_shown_as_python_writes_it(sql_env):
    group = typer.main.get_command(app)
    for command in group.commands:
        assert not re.findall(r"<(?:bool|list\[\w+\])>", sql_env(command, "--help").out), command


def test_an_audit_may_allow_what_a_source_leaves_out(sql_env, tmp_path):
    missing = GOOD[0] | dict(question="And thing 8?", database="elsewhere")
    folder = make_folder(tmp_path / "shop", [GOOD[0] | dict(database="shop"), missing])
    codes = [sql_env("audit --path", folder, *more).code for more in ((), ("--allow-missing",))]
    assert codes == [1, 0]
