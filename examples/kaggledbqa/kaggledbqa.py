"KaggleDBQA as a source of a package of one's own: `load('kaggledbqa', folder)` once the package is installed."

import json
from pathlib import Path

from sql_env.paths import SourceError
from sql_env.questions.question_set import Question
from sql_env.sources.files import Drafts


def read_kaggledbqa(path: str | Path) -> Drafts:
    "The questions of each NAME.json that has a NAME.sqlite; NAME_test.json and NAME_fewshot.json say their splits."
    root, questions = Path(path), []
    databases = {file.stem: file for file in sorted(root.rglob("*.sqlite"))}
    for name in databases:
        for file in sorted(root.rglob(f"{name}.json")):
            splits = {}
            for split in ("fewshot", "test"):
                part = file.with_name(f"{name}_{split}.json")
                for row in json.loads(part.read_text()) if part.is_file() else ():
                    splits[row["question"], row["query"]] = split
            for i, row in enumerate(json.loads(file.read_text())):
                text, sql = row["question"], row["query"]
                split = splits.get((text, sql), "")
                number = f"kaggledbqa-{name}-{i:03}"
                questions.append(Question(number, text, name, sql, split=split))
    if not questions:
        why = f"{root.name} holds no NAME.json with a NAME.sqlite."
        raise SourceError(f"{why} Download the databases as well.")
    return Drafts(questions, databases, "kaggledbqa")
