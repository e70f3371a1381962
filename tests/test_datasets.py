"Published sets in their own layouts, hints, descriptions, dialects, gold rows, shipped findings, and what is broken."

import json
import os
import shutil
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest
import typer
from test_sources import zipped
from typer.testing import CliRunner

from sql_env import EpisodeEnv, Limits, OraclePolicy, audit_questions, evaluate, sources
from sql_env.cli import app
from sql_env.cli.app import SourceOptions
from sql_env.database.database import build_database
from sql_env.paths import BUNDLED, SourceError
from sql_env.questions import question_set as sets
from sql_env.sources.loading import SHIPPED_FLAGS, SOURCES, _findings_of, _with_findings, load
from sql_env.sql.text import translate_sql

SHIPS = [(1, "Aurora", 120.5), (2, "Bora", 300.0), (3, "Cirrus", 300.0)]
HEAVY = "SELECT tonnes FROM ship WHERE name = 'Bora'"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:75e94a2c\nsize 237568\n"
ASKED = dict(question="How heavy is the Bora?", db_id="harbour", query=HEAVY, SQL=HEAVY)
HINT = "Weight means tonnes."


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SQL_ENV_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SQL_ENV_SPIDER", raising=False)


def harbour(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = "CREATE TABLE ship (ship_id INTEGER PRIMARY KEY, name TEXT, tonnes REAL)"
    return build_database(path, schema, {"ship": SHIPS})


def put(path: Path, content) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def mini(tmp_path) -> Path:
    "MINIDEV's layout: three dialects side by side."
    root = tmp_path / "minidev" / "MINIDEV"
    harbour(root / "dev_databases/harbour/harbour.sqlite")
    head = "original_column_name,column_name,column_description,data_format,value_description"
    about = root / "dev_databases/harbour/database_description/ship.csv"
    put(about, f"{head}\ntonnes,,weight of the ship,real,in metric tonnes\n")
    mysql = "SELECT `tonnes` FROM `ship` WHERE `name` = 'Bora'"
    golds = dict(mysql=mysql, postgresql="SELECT tonnes::numeric FROM ship WHERE name = 'Bora'", sqlite=HEAVY)
    for end, gold in golds.items():
        row = ASKED | dict(question_id=7, SQL=gold, evidence=HINT, difficulty="moderate")
        put(root / f"mini_dev_{end}.json", [row])
    put(root / "dev_tables.json", [])
    return root


def test_of_three_dialects_that_of_sqlite_is_taken_and_others_are_translated(mini):
    for beside in ("backup/mini_dev_sqlite.json", ".ipynb_checkpoints/mini_dev-checkpoint.json", "._dev.json"):
        put(mini / beside, [])
    for path in (mini, mini.parent):
        qs = load("bird", path)
        assert qs.name == "mini_dev_sqlite" and qs[0].gold_sql == HEAVY
        assert qs[0].question_id == "mini_dev_sqlite-7" and qs[0].difficulty == "medium"
    assert load("bird", mini, split="mini_dev").name == "mini_dev_sqlite"
    for dialect in ("mysql", "postgres", "PostgreSQL"):
        qs = load("bird", mini, dialect=dialect)
        assert qs.name in ("mini_dev_mysql", "mini_dev_postgresql")
        assert qs[0].gold_answer == ((300.0,),) and not qs.quarantined
    for beside in ("backup", "."):
        (mini / beside / "mini_dev_sqlite.json").unlink()
    for options, says in (
        ({}, "no gold for SQLite.*mini_dev_sqlite.json.*--dialect"),
        (dict(split="mini_dev_mysql"), "no gold for SQLite.*dialect='mysql'"),
        (dict(dialect="mysqll"), "no SQL dialect 'mysqll'; the nearest are mysql"),
    ):
        with pytest.raises(SourceError, match=says):
            load("bird", mini, **options)
    put(mini / "mini_dev_mysql.json", [ASKED | dict(SQL="SELECT FROM WHERE"), ASKED | dict(SQL=HEAVY)])
    qs = load("bird", mini, dialect="mysql")
    assert qs.name == "mini_dev_mysql" and len(qs) == 1
    assert [q.flags for q in qs.quarantined] == [("untranslated",)]
    assert "mysql" in qs.quarantined[0].reason("untranslated")
    assert "untranslated" in sets.QUARANTINE_FLAGS & set(sets.QUESTION_FLAGS)
    # a dev folder, and several files
    for path in mini.glob("mini_dev*"):
        path.unlink()
    put(mini / "dev.json", [ASKED])
    put(mini / "dev_tied_append.json", [ASKED])
    assert load("bird", mini).name == "dev"
    (mini / "dev.json").rename(mini / "mine.json")
    with pytest.raises(SourceError, match="which of dev_tied_append, mine.*split="):
        load("bird", mini)


def test_evidence_is_a_field_and_a_switch(mini, tmp_path):
    shown, hidden = load("bird", mini), load("bird", mini, evidence=False)
    assert shown[0].question_text == f"{ASKED['question']} {HINT}"
    assert hidden[0].question_text == ASKED["question"]
    assert shown[0].evidence == hidden[0].evidence == HINT
    for qs in (shown, hidden):
        env = EpisodeEnv(qs)
        assert (HINT in env.reset().question) == (qs is shown)
        assert sets._question_from_json(sets.question_to_json(qs[0])) == qs[0]
    saved = sets.save_question_set(shown, tmp_path / "saved")
    assert load("folder", saved)[0] == shown[0], "the hint is not added twice"
    # descriptions are shown by DESCRIBE if wished
    for wished in (False, True):
        qs = load("bird", mini, descriptions=wished)
        for copy in (qs, qs.filter(difficulty="medium"), qs.with_limits(Limits(rows=99))):
            env = EpisodeEnv(copy)
            env.reset()
            seen = env.step("DESCRIBE", "ship")
            assert ("weight of the ship; in metric tonnes" in seen.result) == wished
            assert "weight of" not in env.step("QUERY", "SELECT * FROM ship").result


@pytest.mark.slow
def test_the_real_superhero(bird_path):
    qs = load("bird", bird_path)
    assert len(qs) + len(qs.quarantined) == 52 and sum(qs.left_out.values()) == 448
    assert [q.flags for q in qs.quarantined] == [("over_limits",)] * 2
    more = load("bird", bird_path, limits=Limits(operations=100_000_000, seconds=20))
    assert len(more) == 52 and all(q.evidence and q.evidence in q.question_text for q in more)
    some = qs.sample(20)
    result = evaluate(some, OraclePolicy(some), progress=False)
    assert result.success_rate == result.robust_rate == 1.0


@pytest.fixture
def lite(tmp_path) -> Path:
    root = tmp_path / "Spider2" / "spider2-lite"
    rows = [
        dict(instance_id="local001", db="Harbour", question="How heavy is the Bora?"),
        dict(instance_id="local002", db="Harbour", question="Ships?", external_knowledge="fleet.md"),
        dict(instance_id="local003", db="Harbour", question="Names?"),
        dict(instance_id="local004", db="Lost", question="What?"),
        dict(instance_id="local005", db="Harbour", question="Nothing known?"),
        dict(instance_id="bq001", db="ga360", question="Visits?"),
    ]
    put(root / "spider2-lite.jsonl", "\n".join(map(json.dumps, rows)))
    put(root / "resource/documents/fleet.md", "A fleet is all ships.")
    harbour(root / "resource/databases/spider2-localdb/harbour.sqlite")
    gold = root / "evaluation_suite/gold"
    put(gold / "exec_result/local001_a.csv", "tonnes\n300.0\n")
    put(gold / "exec_result/local001_b.csv", "name,tonnes\nBora,300.0\n")
    put(gold / "sql/local002.sql", "SELECT count(*) FROM ship")
    put(gold / "exec_result/local003.csv", "id,name\n1,Aurora\n2,Bora\n3,Cirrus\n")
    put(gold / "exec_result/local004.csv", "a\n1\n")
    rule = dict(instance_id="local003", condition_cols=[1], ignore_order=False)
    put(gold / "spider2lite_eval.jsonl", json.dumps(rule))
    return root


def test_spider2_lite_reads_queries_and_results(lite):
    qs = load("spider2_lite", lite.parent)
    assert qs.left_out == {"the task needs BigQuery or Snowflake": 1, "no gold": 1, "database Lost is missing": 1}
    one, two, three = qs
    assert one.gold_answer == ((300.0,),) and one.other_answers == ((("Bora", 300.0),),)
    assert two.gold_sql and two.gold_answer == ((3,),) and two.question_text.endswith("all ships.")
    assert three.gold_answer == (("Aurora",), ("Bora",), ("Cirrus",)) and three.ranks == (0, 1, 2)
    assert load("spider2_lite", lite, evidence=False).get("local002").question_text == "Ships?"
    assert [sets._question_from_json(sets.question_to_json(q)) for q in qs] == [*qs]
    result = evaluate(qs, OraclePolicy(qs), progress=False)
    assert result.success_rate == 1.0 and dict(result.unjudged()) == {"no_gold_sql": 2}
    report = audit_questions(qs, progress=False)
    assert not report.bad and not report.failed
    assert len(load("spider2_lite", lite, limits=Limits(rows=50))) == 3, "limits run only gold that is a query"
    with pytest.raises(KeyError, match="no gold query"):
        EpisodeEnv(qs.filter(question_id="local001"), verify="robust").reset()
    # each accepted result is right, and robust is not judged
    for sql, correct in ((HEAVY, True), ("SELECT name, tonnes FROM ship WHERE ship_id = 2", True), ("SELECT 5", False)):
        env = EpisodeEnv(qs)
        env.reset(question_id="local001")
        env.step("QUERY", sql)
        env.step("ANSWER", "@last")
        assert (env.episode.correct, env.episode.robust) == (correct, None if correct else False), sql


def test_data_sets_of_the_hub_are_read_from_its_cache(mini, lite, tmp_path):
    "The Hub's own library finds the files in its cache, without a network; what it has not is an error."
    files = dict(bird=mini, lite=lite, own=tmp_path / "own")
    sets.save_question_set(load("bird", mini), files["own"])
    for name, folder in files.items():
        home = tmp_path / "hub" / "hub" / f"datasets--sea--{name}"
        shutil.copytree(folder, home / "snapshots" / "abc")
        put(home / "refs" / "main", "abc")
    code = f"from sql_env import load; print(*(len(load('hf', f'sea/{{name}}')) for name in {list(files)}))"
    code += "; load('hf', 'sea/ships')"
    about = dict(HF_HOME=str(tmp_path / "hub"), HF_HUB_OFFLINE="1", SQL_ENV_CACHE=str(tmp_path / "c"))
    run = subprocess.run([sys.executable, "-c", code], env=os.environ | about, capture_output=True, text=True)
    assert run.stdout.split() == [str(len(load("hf", folder))) for folder in files.values()], run.stderr
    assert "SourceError: hf: the Hub can't be reached" in run.stderr


def test_options_go_to_the_layout_and_what_the_hub_has_not_is_an_error(mini, tmp_path):
    assert load("hf", mini, evidence=False)[0].question_text == ASKED["question"]
    harbour(tmp_path / "spider/database/harbour/harbour.sqlite")
    for name in ("dev", "train_spider"):
        put(tmp_path / f"spider/{name}.json", [ASKED])
    assert load("hf", tmp_path / "spider", split="dev").name == "spider dev"
    (tmp_path / "empty").mkdir()
    for path, options, says in (
        (tmp_path / "spider", dict(evidence=False), "layout spider, which has no evidence"),
        (tmp_path / "empty", {}, "none of the layouts"),
        ("/no/such/folder", {}, "no data set of the Hub"),
    ):
        with pytest.raises(SourceError, match=says):
            load("hf", path, **options)


def test_pointers_of_git_lfs_are_told_and_cost_no_other_database(mini):
    put(mini / "dev_databases/port/port.sqlite", POINTER)
    put(mini / "mini_dev_sqlite.json", [ASKED, ASKED | dict(db_id="port")])
    qs = load("bird", mini)
    assert len(qs) == 1 and "git lfs pull" in next(iter(qs.left_out))
    put(mini / "dev_databases/harbour/harbour.sqlite", POINTER)
    with pytest.raises(SourceError, match="harbour.sqlite is a pointer of Git LFS.*git lfs pull"):
        load("bird", mini)
    put(mini / "mini_dev_sqlite.json", POINTER)
    with pytest.raises(SourceError, match="mini_dev_sqlite.json is a pointer of Git LFS"):
        load("bird", mini)


ANOTHER = {  # a value for each option of a source that is not the usual one
    "split": "dev",
    "level": 2,
    "seed": 7,
    "n": 3,
    "unanswerable": 1.0,
    "evidence": False,
    "descriptions": True,
    "dialect": "mysql",
    "revision": "v2",
    "download": True,
}
FLAGS = dict(seed="--worlds-seed", n="-n")  # on the command line, where they are not called as in Python


@pytest.fixture
def published(mini, lite, tmp_path):
    "A small set for each source that takes a path, in which each of its options has something to do."
    asked = [
        dict(question="How heavy?", db_id="harbour", query=HEAVY),
        dict(question="?", db_id="harbour", query="SELECT 1"),
    ]
    for root in ("spider", "sparc", "cosql/sql_state_tracking"):
        harbour(tmp_path / root / "database/harbour/harbour.sqlite")
    for name in ("dev", "train_spider"):
        put(tmp_path / f"spider/{name}.json", asked)
    turn = dict(database_id="harbour", interaction=[dict(utterance="How heavy?", query=HEAVY)])
    for name in ("sparc/", "cosql/sql_state_tracking/cosql_"):
        put(tmp_path / f"{name}dev.json", [turn])
        put(tmp_path / f"{name}train.json", [turn])
    harbour(tmp_path / "own/harbour.sqlite")
    gold = "SELECT `name` FROM `ship` WHERE `name` RLIKE 'o'"
    lines = [dict(question="Which?", sql=gold, evidence=HINT, split=split) for split in ("dev", "train")]
    put(tmp_path / "own/questions.jsonl", "\n".join(map(json.dumps, lines)))
    put(tmp_path / "own/README.md", "")
    paths = {name: tmp_path / name for name in ("spider", "sparc", "cosql")}
    return paths | dict(bird=mini, spider2_lite=lite, folder=tmp_path / "own", hf=tmp_path / "own")


def seen(questions):
    "All that an option of a source can change."
    return [*questions], questions.quarantined, questions.left_out, questions.descriptions


@pytest.mark.parametrize("source", SOURCES)
def test_each_option_has_an_effect_on_a_source_or_is_refused_by_its_name(source, published):
    path = published.get(source)
    usual = seen(load(source, path))
    for name, value in ANOTHER.items():
        try:
            assert seen(load(source, path, **{name: value})) != usual, f"{name}={value!r} of {source} is ignored"
        except SourceError as e:
            names = f"{name}=", f"{name!r}", f"no {name}", f"no {value}.json"
            assert any(said in str(e) for said in names), (name, str(e))
    if path is None:  # a folder that is not there is never the bundled set
        with pytest.raises(SourceError, match="takes no path="):
            load(source, "nowhere")
        with pytest.raises(SourceError, match="nothing at 'nowhere'"):
            SourceOptions(path=Path("nowhere")).load()


def test_an_option_without_effect_beside_others_is_refused(published, tmp_path, monkeypatch):
    (published["bird"] / "dev_databases/harbour/database_description/ship.csv").unlink()
    for name, line in dict(plain={}, gone=dict(database="port")).items():
        harbour(tmp_path / name / "harbour.sqlite")
        put(tmp_path / name / "questions.jsonl", dict(question="?", sql="SELECT 1") | line)
    cases = [
        ("bird", published["bird"], dict(descriptions=True), "there are no descriptions"),
        ("hf", published["hf"], dict(revision="v2"), "is a folder, which has no revision"),
        ("hf", published["hf"], dict(split="test"), "no split 'test'; it has 'dev', 'train'"),
        ("folder", published["folder"], dict(split="test"), "no split 'test'; it has 'dev', 'train'"),
        ("folder", tmp_path / "plain", dict(split="train"), "its questions name none: leave out the split"),
        ("folder", tmp_path / "gone", dict(split="train"), "gone: 1 x database port is missing"),
        ("spider", published["spider"], dict(download=True), "Leave out download="),
    ]
    for source, path, options, says in cases:
        with pytest.raises(SourceError, match=says):
            load(source, path, **options)
    monkeypatch.setenv("SQL_ENV_SPIDER", str(published["spider"]))
    with pytest.raises(SourceError, match="which SQL_ENV_SPIDER may hold"):
        load("spider", download=True)


def test_each_command_passes_the_options_of_its_source_on(tmp_path, monkeypatch):
    "To `load`, which refuses those without an effect, or it has no such option."
    log = tmp_path / "log.jsonl"
    questions = load("bundled", split="test").sample(1)
    evaluate(EpisodeEnv(questions), OraclePolicy(questions), log=log, progress=False)
    asked = {}

    def spy(source, path=None, split=None, **options):
        asked.update(options, source=source, path=path, split=split)
        raise SourceError("that will do")

    monkeypatch.setattr(sources, "load", spy)
    beside = {
        "export": ["vet_clinic-12"],
        "judge": [str(log)],
        "rescore": [str(log)],
        "view": [str(log), "--out", str(tmp_path / "runs.html"), "--no-open"],
        "trajectories": ["--out", str(tmp_path / "a")],
        "evaluate": ["--log", str(tmp_path / "b")],
    }
    told = dict(ANOTHER, path=Path("mine"), source="hf")
    n = 0
    for command, click in typer.main.get_command(app).commands.items():
        flags = {flag: option for option in click.params for flag in option.opts}
        if "--source" not in flags or command in ("train", "serve", "mcp"):
            continue
        for name, value in told.items():
            flag = FLAGS.get(name, f"--{name}")
            option = flags.get(flag)
            if not option or flag == "-n" and command not in ("data", "audit"):
                continue  # elsewhere -n is how much is played
            given = [f"--no-{name}"] if value is False else [flag] if option.is_flag else [flag, str(value)]
            asked.clear()
            said = CliRunner().invoke(app, [command, *beside.get(command, []), *given])
            is_told = isinstance(said.exception, SourceError) or "that will do" in said.output  # view goes on without
            assert is_told and asked.get(name) == value, (command, given, said.output)
            n += 1
    assert n > 60


WITH_PATH = [name for name, read in SOURCES.items() if name != "hf" and "path" in signature(read).parameters]


@pytest.mark.parametrize("source", SOURCES)
def test_an_option_that_a_source_does_not_take_is_refused_and_none_is_ignored(source, tmp_path):
    takes = signature(SOURCES[source]).parameters
    for name, field in dict(level="level", seed="worlds_seed").items():
        if name not in takes:
            asked = SourceOptions(source, tmp_path if "path" in takes else None, **{field: 40})
            with pytest.raises(
                SourceError, match=f"no option '{name}' .on the command line --{field.replace('_', '-')}."
            ):
                asked.load()
    if "path" not in takes:
        for refused in (lambda: load(source, tmp_path), SourceOptions(source, tmp_path).load):
            with pytest.raises(SourceError, match="takes no path"):
                refused()


@pytest.mark.parametrize("source", WITH_PATH)
def test_wrong_folders_and_files_are_told(source, tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "nowhere", tmp_path / "empty", put(tmp_path / "a.json", "[]")):
        with pytest.raises(SourceError) as e:
            load(source, path)
        assert len(str(e.value)) > 30 and str(e.value).endswith(".")


def test_a_zip_will_do_and_another_layout_is_recognised(mini, tmp_path):
    assert len(load("bird", zipped(mini, tmp_path / "m.zip", "MINIDEV"))) == 1
    own = sets.save_question_set(load("bird", mini), tmp_path / "own")
    for inside in ("", "own"):
        archive = zipped(own, tmp_path / f"own{inside}.zip", inside)
        assert len(load("folder", archive)) == 1
    with pytest.raises(SourceError, match="layout of bird.*--source bird"):
        load("folder", mini)


def test_a_folder_takes_evidence_rows_and_dialects(tmp_path):
    harbour(tmp_path / "h.sqlite")
    lines = [
        dict(question="How heavy is the Bora?", sql="SELECT `tonnes` FROM `ship` LIMIT 1, 1", evidence=HINT),
        dict(question="Names?", gold_answer=[["Aurora"], ["Bora"], ["Cirrus"]]),
    ]
    put(tmp_path / "questions.jsonl", "\n".join(map(json.dumps, lines)))
    heavy, names = load("folder", tmp_path, dialect="mysql")
    assert heavy.gold_answer == ((300.0,),) and heavy.question_text.endswith(HINT)
    assert not names.gold_sql and len(names.gold_answer) == 3
    wrong = dict(question="?", sql="SELECT count(*) FROM `ship`", gold_answer=[[4]])
    put(tmp_path / "questions.jsonl", json.dumps(wrong))
    report = audit_questions(load("folder", tmp_path, dialect="mysql"), progress=False)
    assert "stale" in report.questions[0].flags, "the audit compares with the known result"


def test_fields_of_a_wrong_kind_are_named_and_translation_says_why_not():
    given = dict(question_id="q", question_text="?", database_name="d", gold_answer=[[1]])
    for field in ("evidence", "other_answers", "gold_sql"):
        with pytest.raises(ValueError, match=field):
            sets._question_from_json(json.dumps(given | {field: 5}))
    for sql, dialect, says in (
        ("", "mysql", "0 statements"),
        ("SELECT 1; SELECT 2", "mysql", "2 statements"),
        ("SELECT (" * 3000, "postgres", "could not be translated"),
    ):
        with pytest.raises(ValueError, match=says):
            translate_sql(sql, dialect)


def test_findings_hold_no_text_and_name_flags_only():
    text = (BUNDLED / "audits.json").read_text()
    assert len(text) < 200_000
    for audit in json.loads(text)["sets"].values():
        for line in audit["questions"].values():
            digest, *flags = line.split()
            assert len(digest) == 12 and int(digest, 16) >= 0
            assert flags and set(flags) <= set(SHIPPED_FLAGS) <= set(sets.QUESTION_FLAGS)
    # what hangs on limits is not given under others
    q = load("bundled")[0]
    known = {(q.question_id, _findings_of([q.with_flag("unanswerable")])[q.question_id][:12]): ("unanswerable",)}
    assert _with_findings(q, known).flags == ("unanswerable",)
    assert _with_findings(q, known, usual_limits=False).flags == ()
