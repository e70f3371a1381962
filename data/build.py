"""Build the bundled collection: `python data/build.py` writes sql_env/bundled/ from the files beside this one.

Each file data/<name>.py holds SPLIT, SCHEMA, rows(rng), QUESTIONS and TASKS. Gold is run and stored. A finding,
a mistake that does what gold of a task does, or a leak between splits stops the build. The same sources give the same
content on every machine.
"""

import runpy
import sys
from collections import Counter
from pathlib import Path
from random import Random

from sql_env.database.database import Database, QueryError, build_database
from sql_env.grading.changes import judge_changes
from sql_env.questions.gold import GoldRunner, judge_task
from sql_env.questions.question_set import (
    QUARANTINE_FLAGS,
    Question,
    find_split_leaks,
    question_to_json,
)

HERE = Path(__file__).parent
SOURCES = sorted(p for p in HERE.glob("*.py") if p.stem not in ("build", "wordnet"))
FATAL_FLAGS = {*QUARANTINE_FLAGS, "order_unknown"}


def build(source: Path, out: Path) -> list[Question]:
    "Write the database of one source file and return its questions with gold answers."
    name, module = source.stem, runpy.run_path(str(source))
    rows = module["rows"](Random(f"sql_env:{name}"))
    path = build_database(out / f"{name}.sqlite", module["SCHEMA"], rows)
    runner = GoldRunner(path)
    questions = []
    for i, (text, sql) in enumerate(module["QUESTIONS"], 1):
        draft = Question(
            question_id=f"{name}-{i:02}",
            question_text=text,
            database_name=name,
            gold_sql=sql,
            split=module["SPLIT"],
        )
        questions.append(runner.complete(draft))
    runner.close()
    return questions


def mistakes_that_pass(task: Question, wrong: list[list[str]], database: Database) -> list[str]:
    "Those of some wrong statements that do what gold does."
    found = []
    for statements in wrong:
        with database.writer(task.writes) as copy:
            try:
                copy.execute(";\n".join(statements))
            except QueryError:  # a reference forbids it
                continue
            if judge_changes(task, database, copy.changes()):
                found.append("; ".join(statements))
    return found


def build_tasks(source: Path, out: Path, faults: list[str]) -> list[Question]:
    "The tasks of one source file, whose database is there; mistakes that pass become faults."
    name, module = source.stem, runpy.run_path(str(source))
    database, tasks = Database(out / f"{name}.sqlite"), []
    for i, given in enumerate(module["TASKS"], 1):
        draft = Question(
            question_id=f"{name}-t{i:02}",
            question_text=given["ask"],
            database_name=name,
            gold_sql="",
            split=module["SPLIT"],
            gold_statements=tuple(given["gold"]),
            writes=tuple(given["writes"].split()),
            states_rule=given.get("rule", False),
            invariants=tuple(given.get("keeps", ())),
        )
        task = judge_task(draft, database)
        tasks.append(task)
        passing = mistakes_that_pass(task, given.get("wrong", []), database)
        faults += [f"{task.question_id}: a mistake passes: {sql}" for sql in passing]
    return tasks


def main(out: Path = HERE.parent / "sql_env" / "bundled") -> None:
    out.mkdir(parents=True, exist_ok=True)
    questions = [q for source in SOURCES for q in build(source, out)]
    splits = {s: [q for q in questions if q.split == s] for s in ("train", "validation", "test")}
    faults: list[str] = []
    tasks = [task for source in SOURCES for task in build_tasks(source, out, faults)]
    for q in (*questions, *tasks):
        if FATAL_FLAGS & set(q.flags):
            faults.append(f"{q.question_id}: {', '.join(q.flags)}")
    for kind, value in find_split_leaks(*splits.values()):
        faults.append(f"leak: {kind} {value}")
    for name, chosen in (("questions", questions), ("tasks", tasks)):
        lines = [question_to_json(q) + "\n" for q in chosen]
        (out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    for s, chosen in splits.items():
        print(f"{s:10} {len(chosen):4} {dict(Counter(q.difficulty for q in chosen))}")
    print(f"tasks      {len(tasks):4} {dict(Counter(q.split for q in tasks))}")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
