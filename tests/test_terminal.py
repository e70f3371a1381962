"Text of strangers in a terminal: every command shows control characters instead of sending them."

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sql_env import cli
from sql_env.cli.app import Console, make_table, print_text
from sql_env.database.database import build_database
from sql_env.progress import terminal_text
from sql_env.view.html import element, render_html

CLI = Path(cli.__file__).parent
EVIL = "a\x1b[2Jb\x9b31mc\rd\u202ee\u2066f\x07g\u2028h"
OBEYED = set("\x1b\x9b\r\u202e\u2066\x07\u2028")


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
    table = make_table(EVIL, name="left")
    table.add_row(EVIL)
    console.print(table)
    print_text(EVIL)
    out = capsys.readouterr().out
    assert "\\x1b[2Jb" in out and not (OBEYED - {"\x1b", "\r"}) & set(out)
    assert "\x1b[2J" not in out and "\x1b[1m" in out, "rich's own colours are there"
    assert not OBEYED & set(render_html(element("p", EVIL, title=EVIL)))


@pytest.fixture(scope="module")
def evil_folder(tmp_path_factory):
    "A folder of questions whose every name and text has orders for a terminal in it."
    folder = tmp_path_factory.mktemp("evil")
    quoted = '"' + EVIL + '"'
    build_database(
        folder / "evil.sqlite",
        f"CREATE TABLE {quoted} ({quoted} TEXT, n INTEGER)",
        {EVIL: [(f"{EVIL}{i}", i) for i in range(7)]},
    )
    lines = [
        dict(
            question=f"How many {EVIL}?",
            sql=f"SELECT count(*) FROM {quoted}",
            id=f"{EVIL}-1",
            split="train",
        ),
        dict(
            question=f"Which {EVIL}?",
            sql=f"SELECT {quoted} FROM {quoted} WHERE n = 3",
            id="2",
            split="train",
        ),
        dict(
            question="Broken?", sql=f"SELECT {quoted} FROM nowhere", id=f"{EVIL}-3", split="train"
        ),
    ]
    (folder / "q.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "demo --policy oracle",
        "demo --policy greedy --seed 2",
        "data",
        "audit",
        "evaluate --policy greedy -n 2",
        "trajectories --n 2 --out {out}",
        "doctor",
    ],
)
def test_no_command_sends_orders_to_a_terminal(command, evil_folder, tmp_path):
    words = command.format(out=tmp_path / "out.jsonl").split()
    if words[0] != "doctor":
        words += ["--source", "folder", "--path", str(evil_folder)]
    run = CliRunner().invoke(cli.app, words)
    said = run.output + str(run.exception or "")
    assert run.exit_code in (0, 1, 2) and len(said) > 20
    assert not OBEYED & set(run.output), (command, run.output[:500])


def test_commands_print_by_two_functions_only():
    for path in CLI.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
                assert path.name == "app.py", path
            if isinstance(node, ast.ImportFrom) and node.module == "rich.console":
                assert "Console" not in [name.name for name in node.names], path
