"A published suite: its content is fixed by hash, and its table comes from logs."

import json
import runpy
from contextlib import nullcontext

import pytest
from test_cli import sql_env  # noqa: F401  a fixture

from sql_env import QuestionSet, load
from sql_env.evaluation.harness import check_part, suite_parts

BUNDLED = suite_parts("v1")[0]


def test_a_part_is_its_content():
    "With a change of one question of 96."
    first, *others = load("bundled", split="test")
    for fields in ({}, dict(difficulty="hard"), dict(gold_sql="SELECT 1")):
        questions = QuestionSet([first.with_fields(**fields), *others], load("bundled").databases)
        is_same = not fields or "difficulty" in fields
        with nullcontext() if is_same else pytest.raises(ValueError, match="another content here"):
            check_part(BUNDLED, questions)
    questions = load("bundled")
    with pytest.raises(ValueError, match="another content"):
        check_part(BUNDLED, questions)


def test_all_parts_are_played(sql_env, root, tmp_path, monkeypatch):  # noqa: F811
    short = [part for part in suite_parts("v1") if part["name"] in ("worlds-1", "tasks", "spider-dev")]
    monkeypatch.setattr("sql_env.evaluation.harness.read_asset", lambda name: json.dumps(dict(v1=short)))
    run = sql_env("evaluate --suite v1 --policy oracle --no-floor --log", str(tmp_path))
    assert run.code == 0 and "spider-dev is left out: " in run.err, run
    rows = runpy.run_path(str(root / "benchmarks" / "suite.py"))["rows"]("v1", tmp_path)
    assert [(r["part"], r["episodes"], r["success"]) for r in rows] == [("worlds-1", 60, 1), ("tasks", 11, 1)]
    run = sql_env("evaluate --suite v9")
    assert run.code == 2 and "there are v1" in run.err


def test_the_table_on_record_is_of_this_suite(root):
    saved = json.loads((root / "benchmarks" / "suite.json").read_text())
    assert saved["digests"] == {part["name"]: part["digest"] for part in suite_parts("v1")}
    assert all(r["digest"] == saved["digests"][r["part"]] for r in saved["rows"]), "no rate on other questions"
    assert {r["success"] for r in saved["rows"] if r["policy"] == "oracle"} == {1.0}
    assert all(r["success"] <= 0.05 for r in saved["rows"] if r["policy"] == "random")
