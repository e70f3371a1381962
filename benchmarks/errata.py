"""Wrong golds that others published, against `audit`: `python benchmarks/errata.py FOLDER [--out FILE]`.

FOLDER holds checkouts of other people's repositories, of which nothing is part of this project: taoyds/spider as
`spider` (its commit of June 2020 corrected golds of the dev part: the old ones are audited), brownjuly2003-code/NL_SQL
as `nl_sql` (its data/ has Arcwise's corrections of BIRD's mini-dev) and HKUSTDial/NL2SQL-Bugs-Benchmark as `bugs`
(queries beside questions of BIRD, each judged right or wrong by people). Only the databases at hand count: nine of
Spider's dev part and BIRD's superhero. Of each set: how many wrong golds have a flag that says so, and how many of
the others have one too. A flag that needs other questions, or says nothing of gold's sense, does not count.
"""

import argparse
import json
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from verdicts import SHARED

from sql_env.database.guards import QueryError
from sql_env.evaluation.audit import audit_questions
from sql_env.grading.answers import compare_rows
from sql_env.sources.loading import load

OLD, NEW = "e0b7bc9", "25fcd85"  # of taoyds/spider: the dev part before and after
# flags of other questions, of how gold is written, and of what the environment can do with it
NOT_COUNTED = frozenset(
    """contradicted near_duplicate duplicate_gold equal_gold double_quoted guessable few_variants no_variants
    order_unchecked over_cap over_limits order_unknown unanswerable""".split()
)


def shown(repository: Path, name: str) -> str:
    "A file of a checkout, as `commit:path`."
    command = ["git", "-C", str(repository), "show", name]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def squeezed(text: str) -> str:
    "A text without spaces, quotes and case, by which two of them are compared."
    return re.sub(r"[\s;\"'`]+", "", text).lower()


def spider_golds(text: str) -> list[tuple[str, str, str]]:
    "Database, question and gold of each question of a dev.sql."
    pattern = r"^Question \d+:\s*(.*?)\s*\|\|\|\s*(\S+)\s*\nSQL:\s*(.*)$"
    return [(name, q, sql) for q, name, sql in re.findall(pattern, text, re.M)]


def laid_out(rows: list[dict], file: str, databases: Path, extra: list[Path]) -> Path:
    "A folder in the layout of a published set, with these rows."
    folder = Path(tempfile.mkdtemp())
    (folder / file).write_text(json.dumps(rows))
    for path in (databases, *extra):
        (folder / path.name).symlink_to(path.resolve())
    return folder


def spider_set(folder: Path):
    "Spider's dev part with the golds that were corrected later, and the ids of those questions."
    repository = folder / "spider"
    texts = [shown(repository, f"{c}:evaluation_examples/dev.sql") for c in (OLD, NEW)]
    old, new = map(spider_golds, texts)
    wrong = {
        (name, squeezed(now)): sql
        for (name, _, sql), (_, now, better) in zip(old, new)
        if squeezed(sql) != squeezed(better)
    }
    here = SHARED / "spider"
    rows = json.loads((here / "dev.json").read_text())
    names = set()
    for n, row in enumerate(rows):
        sql = wrong.get((row["db_id"], squeezed(row["question"])))
        if sql and squeezed(sql) != squeezed(row["query"]):
            row["query"] = sql
            names.add(f"spider-dev-{n:04}")
    made = laid_out(rows, "dev.json", here / "database", [here / "tables.json"])
    return load("spider", made, "dev"), load("spider", here, "dev"), names


def bird_set(rows: list[dict], numbers: list):
    "Questions of BIRD's superhero with these golds, and the set as it is published."
    here = SHARED / "bird"
    made = laid_out(rows, "mini_dev_sqlite.json", here / "dev_databases", [])
    return load("bird", made), load("bird", here), {f"mini_dev_sqlite-{n}" for n in numbers}


def arcwise_set(folder: Path):
    "Superhero's golds; those that Arcwise corrected are the wrong ones."
    better = json.loads(shown(folder / "nl_sql", "HEAD:data/arcwise_plat_sql_only.json"))
    corrected = {str(row["question_id"]): row["SQL"] for row in better}
    rows = json.loads((SHARED / "bird" / "mini_dev_sqlite.json").read_text())
    rows = [row for row in rows if row["db_id"] == "superhero"]
    pairs = [(row["question_id"], row["SQL"]) for row in rows]
    wrong = [n for n, sql in pairs if squeezed(sql) != squeezed(corrected[str(n)])]
    return bird_set(rows, wrong)


def bugs_set(folder: Path):
    "Queries of NL2SQL-Bugs on superhero as if they were golds; people said which are wrong."
    rows = json.loads(shown(folder / "bugs", "HEAD:data/NL2SQL-Bugs-with-evidence.json"))
    rows = [row for row in rows if row["db_id"] == "superhero"]
    made = [
        {
            "question_id": n,
            "db_id": row["db_id"],
            "question": row["question"],
            "evidence": row["evidence"],
            "SQL": row["sql"],
            "difficulty": "simple",
        }
        for n, row in enumerate(rows)
    ]
    return bird_set(made, [n for n, row in enumerate(rows) if not row["label"]])


def same_result(ours, published, q) -> bool:
    "Whether a wrong gold gives what the corrected one gives on the data."
    others = [x for x in published if x.question_text == q.question_text]
    db = published.database(q.database_name)
    try:
        rows = db.query(q.gold_sql).rows
        return any(compare_rows(rows, x.gold_answer, x.ranks or False).correct for x in others)
    except QueryError:
        return False


def measured(ours, published, names: set[str], is_spider: bool) -> dict:
    "Flags of the wrong golds and of the others."
    report = audit_questions(ours, progress=False)
    count: Counter = Counter()
    flags: dict[str, Counter] = {"wrong": Counter(), "other": Counter()}
    for q in report.questions:
        kind = "wrong" if q.question_id in names else "other"
        own = set(q.flags) - NOT_COUNTED
        count.update([kind, *([f"{kind}_flagged"] if own else [])])
        flags[kind].update(own)
        if kind == "wrong" and is_spider:
            same = same_result(ours, published, q)
            count.update(["wrong_same_result"] if same else [])
            count.update(["wrong_same_result_flagged"] if same and own else [])
    return {
        **dict(sorted(count.items())),
        "recall": round(count["wrong_flagged"] / count["wrong"], 3),
        "share_of_others": round(count["other_flagged"] / max(count["other"], 1), 3),
        "flags_of_wrong": dict(flags["wrong"].most_common()),
        "flags_of_others": dict(flags["other"].most_common()),
    }


SETS = {"Spider dev before June 2020": spider_set, "BIRD superhero by Arcwise": arcwise_set}
SETS |= {"NL2SQL-Bugs on superhero": bugs_set}


def main() -> None:
    "Audit each set and print its counts."
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = {
        "command": "python benchmarks/errata.py FOLDER",
        "commits": {
            "taoyds/spider": f"{OLD} and {NEW}",
            "brownjuly2003-code/NL_SQL": "f4117b16e1683da618af44c725efa14efefdc1f8",
            "HKUSTDial/NL2SQL-Bugs-Benchmark": "9cb75ddbf3f64120cdc254df6048601e85b039ee",
        },
        "sets": {
            name: measured(*make(args.folder), make is spider_set) for name, make in SETS.items()
        },
    }
    print(json.dumps(found, indent=1))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
