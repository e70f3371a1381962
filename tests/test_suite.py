"A published suite: its content is fixed by hash, and its table comes from logs."

import json
import runpy

import pytest
from test_cli import sql_env  # noqa: F401  a fixture

from sql_env import QuestionSet, load
from sql_env.evaluation.verification import check_part, questions_digest, suite_parts

BUNDLED = suite_parts("v1")[0]
CHANGES = (  # of one question of 96: what is refused, and what is the same content
    ("nothing", {}, True),
    ("a difficulty", dict(difficulty="hard"), True),
    ("a word", dict(question_text="How many?"), False),
    ("a gold", dict(gold_sql="SELECT 1"), False),
)


@pytest.mark.parametrize("what, fields, is_same", CHANGES, ids=[c[0] for c in CHANGES])
def test_a_part_is_its_content(what, fields, is_same):
    first, *others = load("bundled", split="test")
    questions = QuestionSet([first.with_fields(**fields), *others], load("bundled").databases)
    assert (questions_digest(questions) == BUNDLED.digest) == is_same
    if not is_same:
        with pytest.raises(ValueError, match="another content here"):
            check_part(BUNDLED, questions)


def test_a_part_is_found_inside_of_more():
    "Who has all of a published set plays the databases that the suite names."
    questions = load("bundled")
    names = {q.database_name for q in questions.split("test")}
    part = BUNDLED._replace(databases=names)
    assert len(check_part(part, questions)) == BUNDLED.n < len(questions)
    with pytest.raises(ValueError, match="another content"):
        check_part(BUNDLED, questions)


def test_all_parts_are_played(sql_env, root, tmp_path, monkeypatch):  # noqa: F811
    short = tuple(part for part in suite_parts("v1") if part.name in ("worlds-1", "tasks", "spider-dev"))
    monkeypatch.setattr("sql_env.evaluation.verification.SUITES", dict(v1=short))
    run = sql_env("evaluate --suite v1 --policy oracle --no-floor --log", str(tmp_path))
    assert run.code == 0 and "spider-dev is left out: " in run.err, run
    rows = runpy.run_path(str(root / "benchmarks" / "suite.py"))["rows"]("v1", tmp_path)
    assert [(r["part"], r["episodes"], r["success"]) for r in rows] == [("worlds-1", 60, 1), ("tasks", 11, 1)]
    run = sql_env("evaluate --suite v9")
    assert run.code == 2 and "there are v1" in run.err


def test_the_table_on_record_is_of_this_suite(root):
    saved = json.loads((root / "benchmarks" / "suite.json").read_text())
    assert saved["digests"] == {part.name: part.digest for part in suite_parts("v1")}
    assert all(r["digest"] == saved["digests"][r["part"]] for r in saved["rows"]), "no rate on other questions"
    assert {r["success"] for r in saved["rows"] if r["policy"] == "oracle"} == {1.0}
    assert all(r["success"] <= 0.05 for r in saved["rows"] if r["policy"] == "random")
