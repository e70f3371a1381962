"""An exam for graders of SQL: `python benchmarks/exam_graders.py [module:function] [--pairs FILE] [--out FILE]`.

The function gets a query, gold and the path of a SQLite file, and says whether the query is right (true, or 0.5 and
more); a call that raises counts as no. Printed for each kind of pair: how many there are, and on how many the grader
errs. Without a function the known graders are examined, this package's own among them, and exam_graders.json is
written. `read_exam` and the exam itself need nothing but Python, with its sqlite3.
"""

import argparse
import importlib
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAIRS = HERE / "exam" / "pairs.jsonl"
BUNDLED = (
    HERE.parent / "sql_env" / "bundled"
)  # the databases; those of a pip install will do as well
MOST_TICKS = 3000  # thousands of operations of a query in our own graders by rows
# What tuned the verdicts of this package: nothing of a kind, edits of that kind on other databases, or these very pairs
TUNED = {
    "law": "no",
    "law, a part left out": "no",
    "rewrite": "kind",
    "one edit": "kind",
    "one edit, shown by the database": "kind",
    "careless slip": "kind",
    "deceiving pair": "pairs",
}


def read_exam(
    pairs: Path = PAIRS, bundled: Path = BUNDLED, folder: Path | None = None
) -> Iterator[dict]:
    "Each pair with the path of its database; small databases that the exam brings are written into a folder."
    first, *lines = pairs.read_text(encoding="utf-8").splitlines()
    folder = Path(folder or tempfile.mkdtemp())
    made = json.loads(first)["made_databases"]
    for name, about in made.items():
        with closing(sqlite3.connect(folder / f"{name}.sqlite")) as con:
            con.executescript(about["schema"])
            put(con, about["rows"])
    for line in lines:
        pair = json.loads(line)
        name = pair["database"]
        pair["path"] = str((folder if name in made else bundled) / f"{name}.sqlite")
        yield pair


def put(con: sqlite3.Connection, tables: dict[str, list]) -> None:
    "Insert rows, by table."
    for table, rows in tables.items():
        for row in rows:
            con.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)
    con.commit()


def witness_file(pair: dict, folder: Path) -> Path:
    "A database with the schema of a pair's and the rows of its witness alone, on which gold and the query differ."
    path = Path(folder) / f"{pair['id']}.sqlite"
    with closing(sqlite3.connect(f"file:{pair['path']}?mode=ro", uri=True)) as con:
        made = [
            sql
            for (sql,) in con.execute("SELECT sql FROM sqlite_master WHERE sql > '' ORDER BY rowid")
        ]
    with closing(sqlite3.connect(path)) as con:
        for sql in made:
            con.execute(sql)
        put(con, pair["witness"])
    return path


def results(path: str | Path, *queries: str) -> list[list[tuple] | None]:
    "The rows of each query, None for one that fails or takes too long."
    found: list[list[tuple] | None] = []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as con:
        for sql in queries:
            ticks = iter(range(MOST_TICKS))
            con.set_progress_handler(lambda left=ticks: next(left, None) is None, 1000)
            try:
                found.append(con.execute(sql).fetchall())
            except sqlite3.Error:
                found.append(None)
    return found


def by_sets(sql: str, gold: str, path: str) -> bool:
    "Equal sets of rows on the database, as BIRD compares."
    rows, wanted = results(path, sql, gold)
    return rows is not None and wanted is not None and set(rows) == set(wanted)


def by_bags(sql: str, gold: str, path: str) -> bool:
    "The same rows as often on the database, in their order if gold has one."
    rows, wanted = results(path, sql, gold)
    if rows is None or wanted is None:
        return False
    return rows == wanted if "order by" in gold.lower() else Counter(rows) == Counter(wanted)


def by_tree(sql: str, gold: str, path: str) -> bool:
    "Equal syntax trees of sqlglot, qualified by the schema."
    from sqlglot import parse_one
    from sqlglot.optimizer.qualify import qualify

    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as con:
        names = [n for (n,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        info = {n: con.execute(f'PRAGMA table_info("{n}")').fetchall() for n in names}
    schema = {n: {row[1]: row[2] or "TEXT" for row in rows} for n, rows in info.items()}
    try:
        one, two = (
            qualify(
                parse_one(text, read="sqlite"),
                dialect="sqlite",
                schema=schema,
                validate_qualify_columns=False,
            )
            for text in (sql, gold)
        )
    except Exception:  # the parser and the optimizer do not know all of SQLite
        return False
    return one == two


def by_text(sql: str, gold: str, path: str) -> bool:
    "Equal texts but for blanks and case."
    return " ".join(sql.lower().split()) == " ".join(gold.lower().split())


def ours(by: str) -> Callable[[str, str, str], float]:
    "A verdict of this package."
    from sql_env.judging import reward

    return lambda sql, gold, path: reward(sql, gold, path, by)


KNOWN: dict[str, Callable[[], Callable[[str, str, str], Any]]] = {
    "sets of rows": lambda: by_sets,
    "bags of rows": lambda: by_bags,
    "equal syntax trees": lambda: by_tree,
    "equal texts": lambda: by_text,
    "sql_env, by value": lambda: ours("value"),
    "sql_env, robust": lambda: ours("robust"),
    "sql_env, certified": lambda: ours("certified"),
}


def examine(grader: Callable[[str, str, str], Any], pairs: list[dict]) -> dict:
    "How often a grader errs: right queries refused, wrong ones accepted, by kind; and what it raised."
    kinds: dict[str, Counter] = defaultdict(Counter)
    raised, start, wrong = Counter(), time.process_time(), []
    for pair in pairs:
        try:
            said = float(grader(pair["sql"], pair["gold"], pair["path"])) >= 0.5
        except Exception as e:
            raised[type(e).__name__] += 1
            said = False
        found = kinds[pair["kind"]]
        found["pairs"] += 1
        found["errors"] += said != pair["right"]
        if said != pair["right"]:
            wrong.append(pair["id"])
    sides = Counter((p["right"], p["id"] in {*wrong}) for p in pairs)
    return dict(
        right_refused=dict(of=sides[True, True] + sides[True, False], n=sides[True, True]),
        wrong_accepted=dict(of=sides[False, True] + sides[False, False], n=sides[False, True]),
        kinds={
            kind: dict(found, tuned=TUNED.get(kind, "no")) for kind, found in sorted(kinds.items())
        },
        raised=dict(raised),
        cpu_seconds=round(time.process_time() - start, 1),
        wrong=wrong if len(wrong) <= 60 else len(wrong),
    )


def text_of(name: str, found: dict) -> str:
    "A table of what a grader did, as text."
    lines = [f"{name}: {found['cpu_seconds']} s, {sum(found['raised'].values())} calls raised"]
    for side in ("right_refused", "wrong_accepted"):
        n, of = found[side]["n"], found[side]["of"]
        lines.append(
            f"  {side.replace('_', ' '):38} {n:5} of {of:5}  {100 * n / max(of, 1):5.1f} %"
        )
    for kind, row in found["kinds"].items():
        n, of = row["errors"], row["pairs"]
        lines.append(f"    {kind:36} {n:5} of {of:5}  {100 * n / of:5.1f} %")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("function", nargs="?", help="module:function that grades")
    parser.add_argument("--pairs", type=Path, default=PAIRS)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    args = parser.parse_args()
    sys.path.insert(0, os.getcwd())
    with tempfile.TemporaryDirectory() as folder:
        pairs = list(read_exam(args.pairs, folder=Path(folder)))
        if args.function:
            module, _, own = args.function.partition(":")
            graders = {args.function: lambda: getattr(importlib.import_module(module), own)}
        else:
            sys.path.insert(0, str(HERE.parent))
            graders = KNOWN
        found = {}
        for name, make in graders.items():
            found[name] = examine(make(), pairs)
            print(text_of(name, found[name]), flush=True)
    out = args.out or (None if args.function else HERE / "exam_graders.json")
    if out:
        whole = dict(command="python benchmarks/exam_graders.py", pairs=len(pairs), graders=found)
        out.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
