"The exam for graders: what it holds is true, and a grader is examined as its page says."

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
exam_graders = pytest.importorskip("exam_graders")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return list(exam_graders.read_exam(folder=tmp_path_factory.mktemp("exam")))


def test_each_pair_is_as_it_says(pairs, tmp_path):
    assert exam_graders.PAIRS.stat().st_size < 5_000_000 and len({p["id"] for p in pairs}) == len(pairs) > 4000
    hidden = {"one edit", "careless slip", "deceiving pair"}
    for p in pairs[::20]:
        same = exam_graders.by_sets(p["sql"], p["gold"], p["path"])
        assert same if p["right"] or p["kind"] in hidden else "witness" not in p
        if "witness" in p:
            rows, gold = exam_graders.results(exam_graders.witness_file(p, tmp_path), p["sql"], p["gold"])
            assert rows != gold, p["id"]


def test_the_page_and_the_result_count_what_is_there(pairs):
    card, kinds = (BENCHMARKS / "exam" / "README.md").read_text(), Counter(p["kind"] for p in pairs)
    assert f"{len(pairs):,} pairs" in card and all(f"| {kind} | {n} |" in card for kind, n in kinds.items())
    result = json.loads((BENCHMARKS / "exam_graders.json").read_text())
    assert result["pairs"] == len(pairs)
    for found in result["graders"].values():
        assert {kind: row["pairs"] for kind, row in found["kinds"].items()} == kinds


def test_a_function_is_examined(tmp_path):
    (tmp_path / "mine.py").write_text("def yes(sql, gold, path):\n    if 'LIKE' in sql: raise KeyError\n    return 1\n")
    command = [sys.executable, "-I", BENCHMARKS / "exam_graders.py", "mine:yes", "--out", "found.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())["graders"]["mine:yes"]
    assert found["raised"]["KeyError"] and found["right_refused"]["n"] < found["wrong_accepted"]["n"]
