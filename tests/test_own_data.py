"Questions of your own: from JSONL, CSV and Excel, with several right queries; what is said where nothing fits."

import datetime as dt
import json
import re
import shlex
import shutil
import unicodedata
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sql_env import EpisodeEnv, SourceError
from sql_env.cli import app
from sql_env.database.database import Database, build_database
from sql_env.evaluation.harness import evaluate
from sql_env.policies.baselines import OraclePolicy
from sql_env.questions.question_set import save_question_set
from sql_env.sources import files, loading
from sql_env.sources.loading import load
from sql_env.sources.tables import import_files
from sql_env.view import explorer

ROWS = {"ship": [(1, "Sea Fox", 12), (2, "Orca", 7), (3, "Bora", 12)]}
ASKED = [
    ("How many ships are there?", "SELECT count(*) FROM ship"),
    ("Which ships have a crew of 12?", "SELECT name FROM ship WHERE crew = 12"),
]


@pytest.fixture
def harbour(tmp_path):
    schema = "CREATE TABLE ship (id INTEGER PRIMARY KEY, name TEXT, crew INTEGER)"
    build_database(tmp_path / "harbour.sqlite", schema, ROWS)
    return tmp_path


def write(folder, form, head, rows):
    "A file of questions in a form."
    if form == "jsonl":
        (folder / "asked.jsonl").write_text("\n".join(json.dumps(dict(zip(head, row))) for row in rows))
    elif form == "xlsx":
        book = pytest.importorskip("openpyxl", reason="pip install 'sql_env[data]'").Workbook()
        for row in (head, *rows):
            book.active.append(list(row))
        book.save(folder / "asked.xlsx")
    else:
        gap = {"csv": ",", "csv2": ";", "tsv": "\t"}[form]
        lines = [gap.join(map(str, row)) for row in (head, *rows)]
        (folder / f"asked.{form[:3]}").write_text("\n".join(lines))


@pytest.mark.parametrize("form", ["jsonl", "csv", "csv2", "tsv", "xlsx"])
@pytest.mark.parametrize("head", [("question", "sql"), ("Question", "SQL")])
def test_questions_come_from_tables_as_from_jsonl(harbour, form, head):
    if form == "jsonl":
        head = ("question", "sql")
    write(harbour, form, head, ASKED)
    (harbour / "crew.csv").write_text("name,age\nIda,40\n")  # data, and no questions
    found = load("folder", harbour)
    assert [(q.question_text, q.gold_sql) for q in found] == ASKED
    assert found[1].gold_answer == (("Sea Fox",), ("Bora",))
    assert [q.question_id for q in found] == ["harbour-0001", "harbour-0002"]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_table_may_give_answers_and_ids_and_mistakes_name_the_line(harbour, form):
    write(harbour, form, ("id", "question", "answer"), [("7", "How many?", 3), ("a", "Who?", "Orca")])
    found = load("folder", harbour)
    assert [(q.question_id, q.gold_answer) for q in found] == [("7", ((3,),)), ("a", (("Orca",),))]
    write(harbour, form, ("question", "sql", "colour"), [("How many?", "SELECT 1", "blue")])
    line = 2 if form == "csv" else 1
    with pytest.raises(SourceError, match=f"asked.{form}, line {line}: unknown field 'colour'"):
        load("folder", harbour)
    write(harbour, form, ("id", "question", "sql"), [("a", "How?", "SELECT 1"), ("a", "Who?", "SELECT 2")])
    with pytest.raises(SourceError, match=f"line {line + 1}: question_id 'a' occurs twice"):
        load("folder", harbour)


TWO = ["SELECT name FROM ship WHERE crew = 12", "SELECT id, name FROM ship WHERE crew = 12"]


def played(env, sql):
    "The verdicts on the result of a query: correct, robust."
    env.reset(index=0)
    env.step("QUERY", sql)
    env.step("ANSWER", "@last")
    return env.episode.correct, env.episode.robust


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_several_queries_may_be_right(harbour, form, tmp_path_factory):
    "On ada7898 a list was refused: field 'gold_sql' is missing or not text."
    head, row = ("question", "sql"), ("Who has 12?", TWO)
    if form == "csv":
        head, row = ("question", "sql", "sql_2"), tuple(f'"{part}"' for part in ("Who has 12?", *TWO))
    write(harbour, form, head, [row])
    [q] = found = load("folder", harbour)
    assert q.other_golds == (TWO[1],) and q.other_answers == (((1, "Sea Fox"), (3, "Bora")),)
    env = EpisodeEnv(found)
    assert [played(env, sql) for sql in TWO] == [(True, True)] * 2
    assert played(env, "SELECT id, name FROM ship WHERE crew > 7") == (True, False)
    assert played(env, "SELECT crew FROM ship") == (False, False)
    assert [*load("folder", save_question_set(found, tmp_path_factory.mktemp("saved")))] == [q]


def test_a_line_without_a_database_is_told_which_there_are(harbour):
    "On 91dee7d: field 'database_name' is missing or not text."
    write(harbour, "csv", ("question", "sql"), [("How many?", "SELECT 1")])
    assert len(load("folder", harbour)) == 1, "there is one"
    shutil.copy(next(harbour.glob("*.sqlite")), harbour / "other.sqlite")
    with pytest.raises(SourceError, match="line 2: field 'database' is missing: which of .*other"):
        load("folder", harbour)


def test_all_reasons_are_told_where_nothing_can_be_played(harbour):
    "On ada7898: there are no questions to play."
    write(harbour, "jsonl", ("question", "sql"), [("Who?", [TWO[0], "SELECT nam FROM ship"])])
    found = load("folder", harbour)
    assert not len(found)
    assert found.quarantined[0].reason("error").startswith("Query 2: no such column: nam")
    (harbour / "asked.jsonl").unlink()
    rows = [*[(f"{i}?", "SELECT nam FROM ship") for i in range(2)], ("None?", "SELECT 1 WHERE 0")]
    write(harbour, "csv", ("question", "sql"), rows)
    with pytest.raises(ValueError) as caught:
        EpisodeEnv(load("folder", harbour))
    assert "2 x error, no such column: nam" in str(caught.value)
    assert "1 x empty, gold has no rows" in str(caught.value)
    with pytest.raises(ValueError, match="there are no questions to play: 2 x error"):
        explorer.EpisodeExplorer(load("folder", harbour))


APPLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        \x00\x02\x0e\xb0"
NOT_FOR_PEOPLE = {  # files and folders that programs and people leave beside data, and what they hold
    "old/harbour.sqlite": "database",
    "backup/harbour 2024.db": "database",
    ".ipynb_checkpoints/harbour-checkpoint.sqlite": "database",
    ".git/port.sqlite3": "database",
    ".port.db": "database",
    "__MACOSX/port.sqlite": "database",
    "old.sqlite": "folder",
    "old.jsonl": "folder",
    "Thumbs.db": b"\xd0\xcf\x11\xe0" * 100,
    "new.db3": b"",
    "._port.sqlite": APPLE,
    "._asked.jsonl": APPLE,
    "~$asked.xlsx": APPLE,
    "._harbour.md": APPLE,
    "documents/._rules.md": APPLE,
    ".asked.jsonl": b'{"question": "?", "sql": "SELECT 1"}',
}
OURS = [  # the first lines of a log, a server's results, conversations to learn from, and flags
    dict(policy="greedy", budget=15, format=4),
    dict(episode_id=None, question_id="a", correct=True),
    dict(messages=[], tools="[]"),
    dict(question_id="a", flags=["empty"]),
]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_what_lies_beside_data_is_no_database_and_no_question(harbour, form):
    "On 1b9098ee a backup took the place of the database, and other files stopped the load or were read as questions."
    write(harbour, form, ("question", "sql"), ASKED)
    before = load("folder", harbour)
    for name, content in NOT_FOR_PEOPLE.items():
        (harbour / name).parent.mkdir(exist_ok=True)
        if content == "database":
            build_database(harbour / name, "CREATE TABLE ship (name TEXT)", {"ship": [("Old",)]})
        elif content == "folder":
            (harbour / name).mkdir()
        else:
            (harbour / name).write_bytes(content)
    for i, line in enumerate(OURS):
        (harbour / f"run{i}.jsonl").write_text(json.dumps(line) + "\n{}\n")
    after = load("folder", harbour)
    assert [*after] == [*before] and not after.left_out and not after.quarantined
    (harbour / f"asked.{form}").unlink()
    with pytest.raises(SourceError, match="no .jsonl file of questions"):
        load("folder", harbour)


@pytest.mark.parametrize(
    "names, found",
    [
        (["a.sqlite", "b.DB", "c.db3", "d.sqlite3"], {"a": "a.sqlite", "b": "b.DB", "c": "c.db3", "d": "d.sqlite3"}),
        (["a.sqlite", "a/a.sqlite", "z/a.sqlite"], {"a": "a.sqlite"}),
        (["0/a.sqlite", "a/a.sqlite", "z/a.sqlite"], {"a": "a/a.sqlite"}),
        (["0/a.sqlite", "z/b.sqlite", "z/z.sqlite"], {"a": "0/a.sqlite", "z": "z/z.sqlite"}),
        (["a.sqlite", "b/b.sqlite", "old/c.sqlite"], {"a": "a.sqlite", "b": "b/b.sqlite"}),
        (["a.db", "a.sqlite3"], "a.db and a.sqlite3"),
        (["0/a.sqlite", "z/a.sqlite"], "0/a.sqlite and z/a.sqlite"),
    ],
)
def test_the_nearest_file_of_a_name_is_the_database_and_two_are_refused(tmp_path, names, found):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    if isinstance(found, str):
        with pytest.raises(SourceError, match=f"Which file is the database 'a': {found}"):
            files._database_files(tmp_path)
    else:
        assert files._database_files(tmp_path) == {name: tmp_path / path for name, path in found.items()}


def test_questions_of_a_copied_renamed_or_zipped_folder_have_the_same_ids(harbour, tmp_path_factory):
    "So logs can be compared, and a run goes on: ids came from the name of the folder."
    write(harbour, "csv", ("question", "sql"), ASKED)
    moved, name = tmp_path_factory.mktemp("moved") / "by Ida", unicodedata.normalize("NFD", "havnà")
    shutil.copytree(harbour, moved)
    archive = Path(shutil.make_archive(str(moved), "zip", moved))
    sets = [
        load("folder", path) for path in (harbour, moved, archive, shutil.copy(archive, moved.with_suffix(".data")))
    ]
    assert [[*questions] for questions in sets] == 4 * [[*sets[0]]]
    assert [questions.name for questions in sets] == [harbour.name, "by Ida", "by Ida", "by Ida"]
    log = moved.parent / "log.jsonl"
    for questions in sets:
        evaluate(EpisodeEnv(questions), OraclePolicy(questions), log=log, progress=False)
    assert len(log.read_text().splitlines()) == 3
    # a database whose name macOS has written, and what JSON has for no value
    (moved / "harbour.sqlite").rename(moved / f"{name}.sqlite")
    write(moved, "jsonl", ("question", "sql", "id", "database"), [(*ASKED[0], None, None), (*ASKED[1], 7, "havnà")])
    (moved / "asked.csv").unlink()
    assert [q.question_id for q in load("folder", moved)] == ["havnà-0001", "7"]


def test_a_broken_archive_is_refused(harbour, tmp_path_factory):
    write(harbour, "csv", ("question", "sql"), ASKED)
    mine = Path(shutil.make_archive(str(tmp_path_factory.mktemp("zip") / "mine"), "zip", harbour))
    whole = mine.read_bytes()
    for at in (80, whole.index(b"PK\1\2") + 8):  # within the content, and the flag of a password
        mine.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(SourceError, match="mine.zip can't be unpacked: .* Unpack it yourself"):
            load("folder", mine)


def test_a_second_file_with_the_same_questions_is_refused(harbour):
    write(harbour, "jsonl", ("question", "sql"), ASKED)
    (harbour / "more.JSONL").write_text('{"question": "How many?", "sql": "SELECT 1"}')
    assert len(load("folder", harbour)) == 3
    shutil.copy(harbour / "asked.jsonl", harbour / "asked (copy).jsonl")
    with pytest.raises(SourceError, match="asked.jsonl, line 1: the question stands in asked .copy..jsonl too"):
        load("folder", harbour)


def test_a_hidden_folder_beside_the_only_one_with_questions_is_none(harbour, tmp_path_factory):
    write(harbour, "jsonl", ("question", "sql"), ASKED)
    root = tmp_path_factory.mktemp("root")
    shutil.copytree(harbour, root / "mine")
    (root / ".ipynb_checkpoints").mkdir()
    assert len(load("folder", root)) == 2


@pytest.fixture
def sheets(tmp_path):
    ships = "id;name;price\n1;Sea Fox;12,50\n2;Orca;1.200,00\n"
    visits = "ship_id;day;home_ship_id\n1;2024-05-01;2\n1;2024-05-02;\n"
    for name, text in dict(ships=ships, visits=visits).items():
        (tmp_path / f"{name}.csv").write_text(text)
    return [tmp_path / "ships.csv", tmp_path / "visits.csv"]


def described(path, table):
    return str(Database(path).describe(table))


def test_keys_and_references_are_proposed_and_declared_if_confirmed(sheets, tmp_path):
    asked = []
    path = import_files(sheets, tmp_path / "no", confirm=asked.extend)
    wanted = ["ships.id is the key", "visits.ship_id refers to ships.id", "visits.home_ship_id refers to ships.id"]
    assert asked == wanted and "key" not in described(path, "ships")
    path = import_files(sheets, tmp_path / "yes", confirm=lambda found: True)
    assert "id INTEGER, primary key" in described(path, "ships")
    for name in ("ship_id", "home_ship_id"):
        assert f"{name} INTEGER, references ships.id" in described(path, "visits")
    sheets[1].write_text("ship_id;day\n1;2024-05-01\n9;2024-05-02\n")
    asked.clear()
    import_files(sheets, tmp_path / "out", confirm=asked.extend)
    assert asked == ["ships.id is the key"], "a column with other values is no reference"
    for n, text in enumerate(["id;name\n1;a\n1;b\n", "id;name\n1;a\n;b\n", "size;name\n1;a\n2;b\n"]):
        (tmp_path / f"t{n}.csv").write_text(text)
        import_files([tmp_path / f"t{n}.csv"], tmp_path / f"out{n}", confirm=asked.extend)
    assert asked == ["ships.id is the key"], "values or names speak against another one"


def test_excel_sheets_become_tables(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="pip install 'sql_env[data]'")
    book = openpyxl.Workbook()
    book.active.title = "ship"
    for row in [("id", "built", None, "note"), (1, dt.datetime(1998, 5, 1), 2.5), (None,), (2, None, 3, "x")]:
        book.active.append(list(row))
    book.create_sheet("empty")
    book.create_sheet("crew").append(["name"])
    book.save(tmp_path / "right.xlsx")
    with zipfile.ZipFile(tmp_path / "right.xlsx") as right, zipfile.ZipFile(tmp_path / "port.xlsx", "w") as port:
        for name in right.namelist():  # what WPS and SAP write
            port.writestr(name, re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1"', right.read(name)))
    path = import_files([tmp_path / "port.xlsx"], tmp_path / "out")
    assert Database(path).tables == ["ship", "crew"]
    rows = Database(path).query("SELECT * FROM ship").rows
    assert rows == [(1, "1998-05-01", 2.5, None), (2, None, 3.0, "x")]


def test_the_command_shows_what_it_found(sheets, tmp_path):
    "Without a terminal nothing is declared unless an option says so."
    command = ["data", "import", *map(str, sheets), "--out"]
    said = CliRunner().invoke(app, [*command, str(tmp_path / "a")])
    assert said.exit_code == 0 and "visits.ship_id refers to ships.id" in said.output
    assert "--keys declares them" in said.output and "as for '12,50'" in said.output
    assert "primary key" not in described(tmp_path / "a" / "a.sqlite", "ships")
    said = CliRunner().invoke(app, [*command, str(tmp_path / "b"), "--keys", "--json"])
    report = json.loads(said.output)
    assert "ships.id is the key" in report["keys"] and report["notes"]
    assert "primary key" in described(tmp_path / "b" / "b.sqlite", "ships")


def test_spider_plays_dev_where_there_is_no_train_file(tmp_path):
    "On ada7898: There is no file train_spider.json."
    folder = tmp_path / "database" / "shop"
    folder.mkdir(parents=True)
    build_database(folder / "shop.sqlite", "CREATE TABLE t (a INTEGER)", {"t": [(1,)]})
    rows = json.dumps([dict(question="How many?", query="SELECT count(*) FROM t", db_id="shop")])
    (tmp_path / "dev.json").write_text(rows)
    assert [q.split for q in load("spider", tmp_path)] == ["dev"]
    with pytest.raises(SourceError, match="train_spider.json"):
        load("spider", tmp_path, split="train")


@pytest.fixture
def many(harbour, monkeypatch):
    "A folder with 60 questions on two databases."
    monkeypatch.setenv("SQL_ENV_CACHE", str(harbour / "cache"))
    schema = "CREATE TABLE t (a INTEGER)"
    build_database(harbour / "other.sqlite", schema, {"t": [(i,) for i in range(9)]})
    lines = [
        dict(question=f"{i}?", sql=f"SELECT count(*) FROM {t} WHERE {i} = {i}", database=name)
        for i in range(30)
        for name, t in (("harbour", "ship"), ("other", "t"))
    ]
    lines.append(dict(question="Lost?", sql="SELECT 1", database="lost"))
    (harbour / "asked.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return harbour


def test_processes_load_what_one_loads(many, monkeypatch):
    monkeypatch.setattr(loading, "_AT_ONCE", 7)
    one = load("folder", many)
    two = load("folder", many, workers=2)
    assert list(one) == list(two) and one.left_out == two.left_out == {"database lost is missing": 1}
    assert len(two) == 60


def test_lines_of_any_layout_are_read_alike(harbour):
    "The names of a line are looked up once for all lines with the same keys."
    question, sql = ASKED[0]
    lines = [
        dict(question=question, sql=sql),
        dict(query=sql, question=question),
        dict(question_text=question, gold_sql=sql, split=None),
        dict(question=question, sql=[sql]),
        dict(db_id="harbour", question=question, SQL=sql),
        dict(question=question, sql=sql, database="harbour", evidence=""),
    ]
    for some in (lines, lines[::-1]):
        (harbour / "asked.jsonl").write_text("\n".join(map(json.dumps, some)))
        found = load("folder", harbour)
        assert {(q.question_text, q.gold_sql, q.gold_answer) for q in found} == {(question, sql, ((3,),))}
        assert len(found) == len(lines) and all(len(q.__dict__) == 5 for q in found)
    # questions keep what differs from the default; on ada7898 each held all fields
    questions = load("bundled")
    assert max(len(q.__dict__) for q in questions) < 14
    q = questions[0]
    changed = q.with_fields(split="", flags=("error",)).with_fields(flags=())
    assert changed.flags == () and changed.split == "" and "flags" not in changed.__dict__
    assert changed == q.with_fields(split="") and changed.difficulty == q.difficulty


def test_each_command_that_is_printed_works_on_the_state_that_printed_it(tmp_path, monkeypatch):
    "From a table to a comparison in folders with blanks, by nothing but what the commands print."
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "50")
    Path("all ships.csv").write_text("ship_id,name,crew\n1,Aurora,12\n2,Bora,7\n3,Orca,12\n")
    done = []

    def run(*words, code=0):
        "The output of a command; the commands that it prints are run too."
        result = CliRunner().invoke(app, [*map(str, words)])
        said = result.output + (str(result.exception) if result.exception else "")
        assert result.exit_code == code, (words, said)
        for line in said.splitlines():
            if found := re.search(r"(?:next: |: |^  )(sql_env .*)", line):
                done.append(found[1].replace("FOLDER", "kept").rstrip("."))
                command = shlex.split(done[-1])[1:]
                run(*command, *["-n", "3", "--no-floor"] * (command[0] == "evaluate"))
        return said

    said = CliRunner().invoke(app, ["data", "import", "all ships.csv", "--out", "my harbour"]).output
    line = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    asked = [line, dict(question="Which ships have a crew of 12?", sql='SELECT name FROM "all ships" WHERE crew = 12')]
    Path("my harbour/questions.jsonl").write_text("\n".join(map(json.dumps, asked)))
    checked = said.splitlines()[-1].partition(": ")[2]
    assert "2 questions" in run(*shlex.split(checked)[1:])
    own = ["--path", "my harbour", "--policy", "oracle", "--policy", "greedy"]
    run("evaluate", *own, "--log", "my runs")
    run("evaluate", "--source", "worlds", "--level", 2, "-n", 3, "--policy", "oracle", "--log", "other runs")
    run("compare", "my runs/oracle.jsonl", "my runs/greedy.jsonl")
    run("view", "no runs", code=1)
    kinds = [" ".join(shlex.split(command)[1:2]) for command in done]
    assert kinds.count("view") >= 3 and "export" in kinds and "evaluate" in kinds, done
