"Tasks for Harbor: gold passes, nothing and cheats fail, the agent sees no gold; and by Harbor itself."

import json
import os
import subprocess
from pathlib import Path

import pytest

from sql_env.integrations.harbor import _fits_harbor, _grade_sql, write_harbor_task, write_harbor_tasks
from sql_env.sources.loading import load

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def tasks():
    return load("tasks", n=30)


def gold(question):
    return ";\n".join(question.gold_statements) or question.gold_sql


def test_gold_passes_and_nothing_fails(tasks):
    for source in (tasks, load("bundled", split="test"), load("worlds", n=20)):
        questions = source.sample(20)
        fitting = [q for q in questions if _fits_harbor(q)]
        assert len(fitting) > 0.7 * len(questions)
        for q in fitting[:8]:
            assert _grade_sql(q, questions, gold(q)) == dict(reward=1, correct=1), q
            assert _grade_sql(q, questions, " \n") == dict(reward=0, correct=0), q


def test_what_no_file_can_answer_stays_behind_and_only_solution_and_tests_know_gold(tasks, tmp_path):
    some, talks = load("worlds", n=20, unanswerable=0.5), load("conversations", n=5)
    assert not any(map(_fits_harbor, talks)) and any(not q.answerable for q in some)
    assert not any(_fits_harbor(q) for q in some if not q.answerable)
    [idle, *_] = [q for q in tasks if q.writes and not q.gold_statements]
    with pytest.raises(ValueError, match="one file"):
        write_harbor_task(idle, tasks, "never")
    assert not Path("never").exists()
    folders = write_harbor_tasks(tasks, tmp_path)
    for folder, q in zip(folders, filter(_fits_harbor, tasks), strict=True):
        seen = [folder / "instruction.md", *(folder / "environment").rglob("*")]
        assert not [p for p in seen if gold(q).encode() in p.read_bytes()]
        assert "sql_env" not in (folder / "environment" / "Dockerfile").read_text()
        assert gold(q) in (folder / "solution" / "solve.sh").read_text()


def test_lucky_and_hostile_files_pay_nothing(tasks, tmp_path):
    bundled = load("bundled", split="train")
    count = next(q for q in bundled if _fits_harbor(q) and q.answer_type == "integer")
    [[value]] = count.gold_answer
    lucky = _grade_sql(count, bundled, f"SELECT {value}")
    assert lucky == dict(reward=0, correct=1), "right here only"
    hostile = ["ATTACH '/tmp/x' AS x", "PRAGMA writable_schema=1", "SELECT load_extension('x')", "\0", "x" * 10**6]
    for text in [*hostile, gold(count) + "; DROP TABLE x", "DELETE FROM " + count.tables_involved[0]]:
        assert _grade_sql(count, bundled, text)["reward"] == 0, text[:50]
    task = next(q for q in tasks if _fits_harbor(q))
    more = f"{gold(task)};\nDELETE FROM {task.writes[0]}"
    for text in [*hostile, more, gold(task) + "; oops"]:
        assert _grade_sql(task, tasks, text) == dict(reward=0, correct=0), text[:50]


@pytest.mark.slow
@pytest.mark.skipif("SQL_ENV_HARBOR" not in os.environ, reason="SQL_ENV_HARBOR names an environment with harbor")
def test_harbor_plays_gold_and_nothing(tasks, tmp_path):
    write_harbor_tasks(tasks.with_questions(tasks[:4]), tmp_path / "tasks")
    python = os.environ.get("SQL_ENV_PYTHON", HERE.parent / ".venv" / "bin" / "python")
    env = os.environ | dict(PYTHONPATH=f"{HERE}:{HERE.parent}", SQL_ENV_PYTHON=str(python))
    harbor = Path(os.environ["SQL_ENV_HARBOR"]) / "bin" / "harbor"
    for agent, reward in (("oracle", 1), ("nop", 0)):
        command = [harbor, "run", "-p", tmp_path / "tasks", "-a", agent, "-o", tmp_path / agent, "-n", "1"]
        command += ["-e", "harbor_without_docker:FolderEnvironment"]
        subprocess.run(command, env=env, check=True, capture_output=True, timeout=200)
        found = [json.loads(p.read_text()) for p in (tmp_path / agent).glob("*/*/result.json")]
        assert [trial["verifier_result"]["rewards"]["reward"] for trial in found] == [reward] * 3
