"""Build the bundled collection: `python data/build.py` writes sql_env/bundled/ from the files beside this one.

Each file data/<name>.py holds SPLIT, SCHEMA, rows(rng) and QUESTIONS. Gold is run, checked and stored; a question with
a finding, or a leak between splits, stops the build. The same sources give the same content on every machine.
"""

import runpy
import sys
from collections import Counter
from pathlib import Path
from random import Random

from sql_env.database.database import build_database
from sql_env.questions.gold import GoldRunner
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


def main(out: Path = HERE.parent / "sql_env" / "bundled") -> None:
    out.mkdir(parents=True, exist_ok=True)
    questions = [q for source in SOURCES for q in build(source, out)]
    splits = {s: [q for q in questions if q.split == s] for s in ("train", "validation", "test")}
    faults = []
    for q in questions:
        if FATAL_FLAGS & set(q.flags):
            faults.append(f"{q.question_id}: {', '.join(q.flags)}")
    for kind, value in find_split_leaks(*splits.values()):
        faults.append(f"leak: {kind} {value}")
    lines = [question_to_json(q) + "\n" for q in questions]
    (out / "questions.jsonl").write_text("".join(lines), encoding="utf-8")
    for s, chosen in splits.items():
        print(f"{s:10} {len(chosen):4} {dict(Counter(q.difficulty for q in chosen))}")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
