"""Makes the pairs of the exam for graders: `python benchmarks/exam_pairs.py` writes exam/pairs.jsonl (some minutes).

All pairs are of our own making: the gold queries of the bundled questions, rewritten by machine (`proofs.py`), changed
by one edit (`mutants.py`) or by a careless slip (`realistic.py`); SQLancer's laws on the same databases
(`logic_pairs.py`); and pairs that somebody wrote to deceive a prover (`tests/deceiving_pairs.py`), with their own small
databases. A rewrite stands in the exam as right if no realistic contents tell it from gold; a wrong query stands in it
if the database itself does, or realistic contents, whose rows, as few as show it, are its witness. The verdicts that
are examined have no part in this: they make other contents.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from sys import path as search_path

import apsw
from logic_pairs import KINDS, Statements
from mutants import one_edit_mutants
from proofs import facts, rewrites
from realistic import RealisticInstance, careless_mutants, read_tables, realistic_rows
from verdicts import proven_wrong, that_run

ROOT = Path(__file__).resolve().parent.parent
search_path.insert(0, str(ROOT / "tests"))

from deceiving_pairs import DATABASES, SCHEMA, Whole, cases, filled  # noqa: E402
from deceiving_pairs import KINDS as DECEIVING  # noqa: E402

from sql_env.database.database import Database  # noqa: E402
from sql_env.grading.answers import compare_rows  # noqa: E402
from sql_env.proofs.contents import Comparison  # noqa: E402
from sql_env.sources.loading import load  # noqa: E402
from sql_env.sql.text import quote_identifier, sql_tokens  # noqa: E402

OUT = Path(__file__).parent / "exam" / "pairs.jsonl"
PAIRS = 84  # by SQLancer's laws, for a database
SEEN = 2  # mutants of a gold query that the database itself shows to be wrong


def tables_of(con: apsw.Connection) -> list[str]:
    found = con.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    )
    return [name for (name,) in found]


def witness(path: Path, rows: dict[str, list], gold: str, sql: str) -> dict[str, list] | None:
    "As few of some rows as tell a query from gold, by table; None if they do not."
    with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as source:
        made = [
            s
            for (s,) in source.execute(
                "SELECT sql FROM sqlite_schema WHERE sql > '' ORDER BY rowid"
            )
        ]
    con = apsw.Connection(":memory:")
    for text in made:
        con.execute(text)
    words = {token.text.strip('"`[]').lower() for token in sql_tokens(f"{gold} {sql}")}
    for table in tables_of(con):
        for row in rows.get(table, ()) if table.lower() in words else ():
            con.execute(
                f"INSERT INTO {quote_identifier(table)} VALUES ({', '.join('?' * len(row))})", row
            )
    judge, whole = Comparison(gold, sql), Whole(con)

    def orphans() -> int:
        return sum(
            t.lower() in words and p.lower() in words
            for t, _, p, _ in con.execute("PRAGMA foreign_key_check")
        )

    most = orphans()
    if not judge.differ(whole):
        return None
    for size in (64, 16, 4, 1, 1):
        for table in map(quote_identifier, tables_of(con)):
            ids = [i for (i,) in con.execute(f"SELECT rowid FROM {table}")]
            for start in range(0, len(ids), size):
                con.execute("SAVEPOINT fewer")
                con.executemany(
                    f"DELETE FROM {table} WHERE rowid = ?",
                    [(i,) for i in ids[start : start + size]],
                )
                if orphans() > most or not judge.differ(whole):
                    con.execute("ROLLBACK TO fewer")
                con.execute("RELEASE fewer")
    kept = {
        t: list(map(list, con.execute(f"SELECT * FROM {quote_identifier(t)}")))
        for t in tables_of(con)
    }
    return {t: found for t, found in kept.items() if found}


def of_gold(q, db: Database, tables: list) -> Iterator[dict]:
    "The pairs of a gold query: rewrites, mutants and slips."
    named = [("rewrite", k, s) for k, s in rewrites(q.gold_sql, facts(db.path))]
    named += [("one edit", k, s) for k, s in one_edit_mutants(q.gold_sql)]
    named += [("careless slip", k, s) for k, s in careless_mutants(q.gold_sql, tables)]
    near, shown = [], []
    for (kind, edit, sql), is_near in that_run(db, q, named):
        if is_near:
            near.append((kind, edit, sql))
        elif kind == "one edit":
            shown.append(
                dict(kind="one edit, shown by the database", edit=edit, sql=sql, right=False)
            )
    proofs = proven_wrong(db.path, tables, q, [sql for *_, sql in near])
    for kind, edit, sql in near:
        about = dict(kind=kind, edit=edit, sql=sql, right=kind == "rewrite")
        if about["right"] and not proofs[sql]:
            yield about
        elif not about["right"] and proofs[sql]:
            for number in proofs[sql][:4]:
                rng = Random(f"{number}:{q.gold_sql}")
                instance = RealisticInstance(db.path, realistic_rows(tables, q.gold_sql, rng), rng)
                con = instance.copies[0]
                rows = {
                    n: con.execute(f"SELECT * FROM {quote_identifier(n)}").fetchall()
                    for n in tables_of(con)
                }
                instance.close()
                if found := witness(db.path, rows, q.gold_sql, sql):
                    yield about | dict(witness=found)
                    break
    yield from Random(q.question_id).sample(shown, min(SEEN, len(shown)))


def of_laws(name: str, db: Database) -> Iterator[dict]:
    "Pairs by SQLancer's laws; one whose part left out nothing shows has two keys swapped as its witness."
    rng = Random(f"exam {name}")
    statements = Statements(db, rng)
    for i in range(PAIRS):
        kind = KINDS[i % len(KINDS)]
        for (gold, same, less), rows in statements.that_run(kind):
            if not compare_rows(rows[1], rows[0], False).correct:
                raise AssertionError(f"a law does not hold: {gold} | {same}")
            if kind != "hidden" and not compare_rows(rows[2], rows[0], False).correct:
                yield dict(kind="law", edit=kind, gold=gold, sql=same, right=True)
                yield dict(kind="law, a part left out", edit=kind, gold=gold, sql=less, right=False)
                break


def deceiving() -> Iterator[dict]:
    "Pairs that look equal, on a small database on which they agree and gold finds something, with one that shows it."
    contents = {name: filled(rows) for name, rows in DATABASES.items()}
    for kind in DECEIVING:
        for gold, sql in cases(f"deceiving_pairs_{kind}"):
            judge = Comparison(gold, sql)
            shows = [n for n, whole in contents.items() if judge.differ(whole)]
            agree = [
                n
                for n, whole in contents.items()
                if n not in shows
                and (found := judge.results(whole))
                and found[0]
                and judge.agree(*found, whole)
            ]
            if shows and agree:
                about = dict(kind="deceiving pair", edit=kind, gold=gold, sql=sql, right=False)
                yield about | dict(database=f"deceiving_{agree[0]}", witness=DATABASES[shows[0]])


def main() -> None:
    questions, lines = load("bundled"), []
    for name in sorted(questions.databases):
        db = questions.database(name)
        tables = read_tables(db.path)
        for q in questions:
            if q.database_name == name:
                about = dict(database=name, question=q.question_text, gold=q.gold_sql)
                lines += [about | pair for pair in of_gold(q, db, tables)]
        lines += [dict(database=name, question="") | pair for pair in of_laws(name, db)]
        print(name, len(lines), flush=True)
    lines += [dict(question="") | pair for pair in deceiving()]
    made = {
        f"deceiving_{name}": dict(schema=SCHEMA.strip(), rows=rows)
        for name, rows in DATABASES.items()
    }
    used = {line["database"] for line in lines}
    head = dict(made_databases={name: found for name, found in made.items() if name in used})
    with OUT.open("w", encoding="utf-8") as file:
        for n, line in enumerate([head, *lines]):
            line = dict(id=f"pair-{n:04}") | line if n else line
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
