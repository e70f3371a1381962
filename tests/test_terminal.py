"Text of strangers in a terminal: every command shows control characters instead of sending them."

import ast
import html
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env import Episode, EpisodeEnv, Question, cli, load, view_episode
from sql_env.cli.app import Console, _make_table, _print_text
from sql_env.cli.play import show_episode
from sql_env.database.database import Database, build_database
from sql_env.paths import terminal_text
from sql_env.view.episode import Part
from sql_env.view.page import episode_html, part_html, player_html

EVIL = "a\x1b[2Jb\x9b31mc\rd\u202ee\u2066f\x07g\u2028h\u200bi\ufeffj\u2060k"
OBEYED = set("\x1b\x9b\r\u202e\u2066\x07\u2028\u200b\ufeff\u2060")


@given(st.text(st.characters(codec=None)))
def test_any_text_is_harmless_in_a_terminal(text):
    shown = terminal_text(text)
    shown.encode()
    assert all(c.isprintable() or c in "\t\n" or c not in OBEYED for c in shown)
    assert not {c for c in shown if ord(c) < 32} - {"\t", "\n"}
    if text.isprintable():
        assert shown == text


def test_the_console_and_pages_show_what_they_would_obey(capsys):
    console = Console(force_terminal=True, width=200)
    console.print(f"[bold]{EVIL}[/]")
    table = _make_table(EVIL, name="left")
    table.add_row(EVIL)
    console.print(table)
    _print_text(EVIL)
    out = capsys.readouterr().out
    assert "\\x1b[2Jb" in out and not (OBEYED - {"\x1b", "\r"}) & set(out)
    assert "\x1b[2J" not in out and "\x1b[1m" in out, "rich's own colours are there"
    assert not OBEYED & set(part_html(Part("error", EVIL, EVIL)))
    for text in ("می\u200cخواهم", "\U0001f469\u200d\U0001f4bb", "क्\u200dष"):
        assert terminal_text(text) == text, "joiners stay where words and emoji need them"
    assert terminal_text("pay\u200dpal") == "pay\\u200dpal"


ADDRESS = "<ann@example.org>"


def test_every_medium_shows_the_same_text(capsys):
    "An e-mail address as it is; what nobody sees, shown; markup as text."
    questions = load("bundled")
    env = EpisodeEnv(questions)
    env.reset(question_id="vet_clinic-02")
    env.step("QUERY", f"SELECT '{ADDRESS}' AS mail, '{EVIL}' AS evil")
    env.step("ANSWER", ADDRESS)
    assert ADDRESS in env.episode.turns[0].result, "it is no mark of a chat"
    view = view_episode(env.episode)
    show_episode(Console(width=300), env.episode, "a person")
    shown = [player_html(view), episode_html(view).data, capsys.readouterr().out]
    for text in map(html.unescape, shown):
        assert ADDRESS in text and "¦" not in text and not OBEYED & set(text), text[:300]
        assert "a\\x1b" in text.replace("\\\\", "\\")


@pytest.fixture(scope="module")
def evil_folder(tmp_path_factory):
    "A folder of questions whose every name and text has orders for a terminal in it."
    folder = tmp_path_factory.mktemp("evil")
    quoted = '"' + EVIL + '"'
    schema = f"CREATE TABLE {quoted} ({quoted} TEXT, n INTEGER)"
    build_database(folder / "evil.sqlite", schema, {EVIL: [(f"{EVIL}{i}", i) for i in range(7)]})
    lines = [
        dict(question=f"How many {EVIL}?", sql=f"SELECT count(*) FROM {quoted}", id=f"{EVIL}-1", split="train"),
        dict(question=f"Which {EVIL}?", sql=f"SELECT {quoted} FROM {quoted} WHERE n = 3", id="2", split="train"),
        dict(question="Broken?", sql=f"SELECT {quoted} FROM nowhere", id=f"{EVIL}-3", split="train"),
    ]
    (folder / "q.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    return folder


COMMANDS = "demo --policy oracle, demo --policy greedy --seed 2, data, audit, evaluate --policy greedy -n 2, "
COMMANDS += "trajectories --n 2 --out out.jsonl, doctor"


@pytest.mark.parametrize("command", COMMANDS.split(", "))
def test_no_command_sends_orders_to_a_terminal(command, evil_folder, sql_env):
    where = [] if command == "doctor" else ["--source", "folder", "--path", evil_folder]
    code, out, err = sql_env(*command.split(), *where)
    assert code in (0, 1, 2) and len(out + err) > 20
    assert not OBEYED & set(out + err), (command, out[:500], err[:500])


def test_commands_print_by_two_functions_only():
    for path in Path(cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
                assert path.name == "app.py", path
            if isinstance(node, ast.ImportFrom) and node.module == "rich.console":
                assert "Console" not in [name.name for name in node.names], path


def test_text_of_a_database_obeys_nobody_wherever_it_is_shown(tmp_path):
    "Cells, names, comments, descriptions: all are shown alike; a cell can be answered as it is shown."
    evil = "a\x1b[2Jb\x9bc\u202ed\u2066e\u200bf\ufeffg\u200dh\U000e0041"
    schema = f'CREATE TABLE "t{evil}" (name /* what {evil} is */, wombat)'
    path = tmp_path / "evil.sqlite"
    build_database(path, schema, {f"t{evil}": [(evil, "Olga <olga@post.example.org>")]})
    described = {f"t{evil}".lower(): dict(wombat=f"a wombat {evil}")}
    database = Database(path, descriptions=described)
    q = Question("q", "Which?", "evil", "SELECT name", ((evil,),), answer_type="string")
    episode = Episode(q, database, schema_level="full")
    episode.reset()
    about = [f"t{evil}", f"t{evil}", f'SELECT * FROM "t{evil}"']
    for step in zip(("DESCRIBE", "SAMPLE", "QUERY"), about):
        obs = episode.step(*step)
        shown = obs.result + obs.schema_info
        assert not obs.error and not OBEYED & set(shown) and "\u200d" not in shown, step
    query = episode.turns[2].result
    assert "Olga <olga@post.example.org>" in query
    cell = query.splitlines()[1].rpartition(" | ")[0]
    assert r"\x1b" in cell and r"\u202e" in cell and r"\U000e0041" in cell
    episode.step("ANSWER", cell)
    assert episode.correct
