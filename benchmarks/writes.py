"""Measure verdicts on tasks that write: `python benchmarks/writes.py [--per 12] [--out benchmarks/writes.json]`.

The WHERE of gold queries becomes that of an UPDATE or a DELETE. Counted are wrong one-edit statements that pass on one
state and on generated ones, honest other statements that are accepted, lazy agents, and the time and memory of it. What
is wrong is said by `benchmarks/realistic.py`, which shares nothing with the generator of the package, on contents whose
dates are dates and whose references are NULL only where the data has that. What only other contents show is counted
apart.
"""

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from datetime import date
from pathlib import Path
from random import Random

import apsw
from realistic import read_tables, realistic_rows, write_mutants
from sqlglot import exp

from sql_env.database.database import Database
from sql_env.database.guards import Limits, QueryError
from sql_env.grading.changes import (
    GoldChanges,
    TaskSchema,
    _make_states,
    judge_changes,
    judge_replay,
)
from sql_env.questions.gold import judge_task
from sql_env.questions.question_set import Question
from sql_env.sources.loading import load
from sql_env.sql.analysis import parse_sql
from sql_env.sql.text import quote_identifier
from sql_env.sql.writes import read_part

N_INSTANCES = 40  # realistic contents that say whether a statement is wrong


class Rule:
    "The rows that a gold query looks at, of its first table, as the condition of a change."

    def __init__(self, q: Question, database: Database):
        tree = parse_sql(q.gold_sql)
        if not isinstance(tree, exp.Select) or tree.args.get("with_") or not tree.args.get("where"):
            raise ValueError("no condition")
        source = tree.args["from_"].this
        if not isinstance(source, exp.Table):
            raise ValueError("no table")
        self.table, self.alias = source.name, source.alias_or_name
        info = database.describe(self.table)
        keys = [c.name for c in info.columns if c.primary_key]
        if len(keys) != 1:
            raise ValueError("no key")
        self.key, self.info, joins = keys[0], info, tree.args.get("joins") or []
        inner = exp.select(f"{self.alias}.{self.key}", dialect="sqlite").from_(source.copy())
        inner.set("joins", [j.copy() for j in joins])
        inner.set("where", tree.args["where"].copy())
        self.inner = inner.sql("sqlite")
        self.where = f"{self.key} IN ({self.inner})"
        if not joins:
            self.where = tree.args["where"].this.sql("sqlite")

    def changes(self):
        "Ways to change these rows: an UPDATE of each plain column, or a DELETE."
        for column in self.info.columns:
            if not (column.primary_key or column.references):
                is_number = column.type.upper().startswith(("INT", "REAL", "NUM"))
                name = quote_identifier(column.name)
                yield column.name, f"{name} + 1" if is_number else f"{name} || 'x'"
        yield "", ""

    def statement(self, column: str, value: str, where: str = "") -> str:
        target = f"{self.table} AS {self.alias}" if self.alias != self.table else self.table
        where = where or self.where
        if not column:
            return f"DELETE FROM {target} WHERE {where}"
        return f"UPDATE {target} SET {quote_identifier(column)} = {value} WHERE {where}"

    def alternatives(self, column: str, value: str, keys: list) -> dict[str, str]:
        "Other statements that do the same."
        name, key = quote_identifier(column), self.key
        pick = f"SELECT {self.alias}.{key} {self.inner[self.inner.index('FROM') :]}"
        found = {
            "in": self.statement(column, value, f"{key} IN ({pick})"),
            "not_not_in": self.statement(
                column,
                value,
                f"{key} NOT IN (SELECT {key} FROM {self.table} WHERE {key} NOT IN ({pick}))",
            ),
            "exists": self.statement(
                column,
                value,
                f"EXISTS (SELECT 1 FROM ({pick}) AS z WHERE z.{key} = {self.alias}.{key})",
            ),
            "with": f"WITH picked AS ({pick}) "
            + self.statement(column, value, f"{key} IN (SELECT {key} FROM picked)"),
            "keys": self.statement(column, value, f"{key} IN ({', '.join(map(literal, keys))})"),
        }
        if column:
            found["case"] = (
                f"UPDATE {self.table} SET {name} = CASE WHEN {key} IN ({pick}) THEN {value} ELSE {name} END"
            )
            found["from"] = (
                f"UPDATE {self.table} SET {name} = s.v FROM (SELECT {key} AS k, {value} AS v FROM {self.table} "
                f"WHERE {key} IN ({pick})) AS s WHERE s.k = {self.table}.{key}"
            )
        if "SELECT" not in self.where.upper():
            halves = (
                f"({self.where}) AND {self.alias}.rowid % 2 = 0",
                f"({self.where}) AND {self.alias}.rowid % 2",
            )
            found["halves"] = "; ".join(self.statement(column, value, half) for half in halves)
        return found


def literal(value) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def tasks(per: int):
    "Tasks of the bundled databases, at most so many of each, with their rules."
    questions, count = load("bundled"), Counter()
    for q in questions:
        if count[q.database_name] >= per:
            continue
        database = questions.database(q.database_name)
        try:
            rule = Rule(q, database)
        except (ValueError, QueryError):
            continue
        ways = list(rule.changes())
        ways = ways[-1:] + ways[:-1] if count[q.database_name] % 2 else ways  # DELETE first
        for column, value in ways:
            sql = rule.statement(column, value)
            task = Question(
                f"w-{q.question_id}", q.question_text, q.database_name, "",
                gold_statements=(sql,), writes=(rule.table,), states_rule=True,
            )  # fmt: skip
            if not judge_task(task, database).flags:
                count[q.database_name] += 1
                yield task, database, rule, column, value
                break


def changes_of(sql: str, task: Question, database: Database):
    with database.writer(task.writes) as copy:
        copy.execute(sql)
        return copy.changes()


def is_date(value) -> bool:
    "Whether a value is the text of a day, such as 2024-02-29."
    try:
        return str(date.fromisoformat(value)) == value
    except (TypeError, ValueError):
        return False


def rows_as_in_data(database: Database) -> dict:
    "For each table what its rows keep: columns of dates, and references that are never NULL."
    rules = {}
    for info in database.infos:
        rows = database.query(f"SELECT * FROM {quote_identifier(info.name)}").rows
        columns = list(zip(*rows)) or [()] * len(info.columns)
        dates = [bool(c) and all(v is None or is_date(v) for v in c) for c in columns]
        full = [bool(k.references) and None not in c for k, c in zip(info.columns, columns)]
        rules[info.name] = [*zip(dates, full)]
    return rules


def keeps(line: tuple, rule: list) -> bool:
    "Whether a row is as those of the data are."
    return all(
        (not of_dates or value is None or is_date(value)) and (not is_full or value is not None)
        for value, (of_dates, is_full) in zip(line, rule)
    )


def realistic_images(task: Question, database: Database, as_in_data: bool):
    "Contents of the tables by another generator, as images."
    rules = rows_as_in_data(database) if as_in_data else {}
    schema = []
    con = apsw.Connection(str(database.path), apsw.SQLITE_OPEN_READONLY)
    for (sql,) in con.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'"
    ):
        schema.append(sql)
    con.close()
    tables = read_tables(database.path)
    for number in range(N_INSTANCES):
        rng = Random(f"{number}:{task.question_id}")
        rows = realistic_rows(tables, read_part(task.gold_statements[0]), rng)
        con = apsw.Connection(":memory:")
        for sql in schema:
            con.execute(sql)
        for table, lines in rows.items():
            marks = ",".join("?" * len(lines[0])) if lines else ""
            for line in lines:
                if table in rules and not keeps(line, rules[table]):
                    continue
                con.execute(
                    f"INSERT OR IGNORE INTO {quote_identifier(table)} VALUES ({marks})", line
                )
        yield con.serialize("main")
        con.close()


def wrong_statements(
    task: Question, database: Database, mutants: list[str], as_in_data: bool
) -> set[str]:
    "Those of some statements that realistic contents, or the database itself, tell from gold."
    schema, wrong = TaskSchema.read(database), set()
    images = [None, *realistic_images(task, database, as_in_data)]
    with database.writer(task.writes, Limits.gold()) as copy:
        path = database.path.read_bytes()
        for image in images:
            copy.load(image or path)
            try:
                gold = GoldChanges.run(copy, task, schema)
            except QueryError:
                continue
            for sql in mutants:
                if sql in wrong:
                    continue
                copy.load(image or path)
                try:
                    copy.execute(sql)
                    lacking, beyond = gold.differences(copy.changes())
                except QueryError:
                    lacking = True
                if lacking or (lacking is not True and beyond):
                    wrong.add(sql)
    return wrong


def judge(sql: str, task: Question, database: Database) -> tuple[bool, bool | None, str]:
    "Right on the state, robust (None if it could not be judged), and why."
    try:
        state = judge_changes(task, database, changes_of(sql, task, database)).correct
    except QueryError as e:
        return False, False, e.kind
    robust = judge_replay(task, database, [sql])
    unknown = robust.reason in ("no_variants", "by_keys", "no_rule")
    return state, None if unknown else robust.correct, robust.reason


def measure_statements(per: int) -> dict:
    "Wrong and honest statements."
    count, honest, kinds, missed = Counter(), Counter(), Counter(), []
    state_ms, robust_ms = [], []
    for task, database, rule, column, value in tasks(per):
        count["tasks"] += 1
        count["updates" if column else "deletes"] += 1
        states = _make_states(task, database)
        count["tasks_without_states"] += bool(states.why_none)
        mutants = [sql for _, sql in write_mutants(task.gold_statements[0])]
        wrong = wrong_statements(task, database, mutants, as_in_data=True)
        odd = wrong_statements(task, database, [m for m in mutants if m not in wrong], False)
        count["mutants"] += len(mutants)
        for sql in mutants:
            if sql not in wrong and sql not in odd:
                count["never_told_apart"] += 1
                continue
            state, robust, why = judge(sql, task, database)
            if sql in odd:
                count["wrong_on_odd_contents_only"] += 1
                count["of_these_pass_robust"] += state and robust is not False
                continue
            count["wrong"] += 1
            count["wrong_passes_state"] += state
            if state and robust is not False:
                count["wrong_passes_robust"] += 1
                missed.append([task.question_id, sql, task.gold_statements[0], why])
        gold = changes_of(task.gold_statements[0], task, database)
        keys = [change.key[0] for change in gold][:60]
        for kind, sql in rule.alternatives(column, value, keys).items():
            if kind == "keys" and len(gold) > 60:
                continue
            state, robust, why = judge(sql, task, database)
            honest["tried"] += 1
            honest["right_by_state"] += state
            accepted = state and robust is not False
            honest["accepted"] += accepted
            honest["robust_unknown"] += state and robust is None
            kinds[f"{kind}: {'accepted' if accepted else why}"] += 1
            if not accepted:
                missed.append([task.question_id, sql, task.gold_statements[0], f"honest, {why}"])
        start = time.process_time()
        judge_changes(task, database, gold)
        state_ms.append(1000 * (time.process_time() - start))
        start = time.process_time()
        judge_replay(task, database, list(task.gold_statements))
        robust_ms.append(1000 * (time.process_time() - start))
        lazy = {
            "nothing": "DELETE FROM {t} WHERE 0",
            "delete_all": "DELETE FROM {t}",
            "write_back": "INSERT OR REPLACE INTO {t} SELECT * FROM {t}",
        }
        for name, sql in lazy.items():
            count[f"lazy_{name}"] += judge(sql.format(t=task.writes[0]), task, database)[0]
    count["wrong_passes_robust"] += 0  # it is told, if none does
    rate = round(100 * count["wrong_passes_robust"] / max(count["wrong"], 1), 2)
    return dict(
        count,
        wrong_passes_state_percent=round(
            100 * count["wrong_passes_state"] / max(count["wrong"], 1), 1
        ),
        wrong_passes_robust_percent=rate,
        honest=dict(honest),
        honest_accepted_percent=round(100 * honest["accepted"] / max(honest["tried"], 1), 1),
        honest_kinds=dict(sorted(kinds.items())),
        state_verdict_cpu_ms_p50=round(statistics.median(state_ms), 3),
        robust_verdict_cpu_ms_p50=round(statistics.median(robust_ms), 2),
        missed=missed,
    )


def measure_memory(folder: Path) -> dict:
    "What an open session takes on a database of 10 MB, which it copies."
    path = folder / "big.sqlite"
    con = apsw.Connection(str(path))
    con.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, n INT); CREATE TABLE u(a, b)")
    numbers = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 90000)"
    with con:
        con.execute(
            f"INSERT INTO t SELECT i, printf('%095d', i), i % 1000 FROM ({numbers} SELECT i FROM c)"
        )
    con.close()
    database = Database(path)
    database.query("SELECT n FROM t WHERE id = 5")
    database.writer(["t", "u"]).close()
    gc.collect()
    tracemalloc.start()
    before, python = apsw.memory_used(), tracemalloc.get_traced_memory()[0]
    start = time.process_time()
    copy = database.writer(["t", "u"])
    opened = 1000 * (time.process_time() - start)
    copy.execute(
        "UPDATE t SET n = n + 1 WHERE id BETWEEN 5000 AND 5099; INSERT INTO u VALUES (1, 2)"
    )
    copy.execute("DELETE FROM t WHERE id = 90000")
    copy.query("SELECT count(*) FROM t WHERE n > 500")
    gc.collect()
    taken = (apsw.memory_used() - before) + (tracemalloc.get_traced_memory()[0] - python)
    start = time.process_time()
    changes = len(copy.changes())
    listed = 1000 * (time.process_time() - start)
    tracemalloc.stop()
    copy.close()
    return dict(
        file_mb=round(path.stat().st_size / 1e6),
        session_kb=round(taken / 1000),
        changes=changes,
        open_cpu_ms=round(opened, 2),
        changes_cpu_ms=round(listed, 2),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--per", type=int, default=12, help="tasks of each database")
    parser.add_argument("--show", action="store_true", help="print statements that were misjudged")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    command = "python benchmarks/writes.py " + " ".join(a for a in sys.argv[1:] if a != "--show")
    start = time.process_time()
    result = dict(command=command.strip(), statements=measure_statements(args.per))
    missed = result["statements"].pop("missed")
    with tempfile.TemporaryDirectory() as folder:
        result["memory"] = measure_memory(Path(folder))
    result["cpu_seconds"] = round(time.process_time() - start, 1)
    for line in missed if args.show else ():
        print(*line, sep="\n    ")
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
