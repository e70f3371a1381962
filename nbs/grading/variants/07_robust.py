# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: -all
#     notebook_metadata_filter: kernelspec
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
# ---

# %%
#| default_exp grading.variants.robust

# %% [markdown]
# # Test-suite accuracy
#
# > Whether the query behind a right answer is right on other instances of the database too

# %% [markdown]
# A query can give the right rows for the wrong reason. It forgets a condition that all rows happen to meet, or counts
# ships where the question asks for captains. On one database nobody can tell. Four ships, three captains: how many
# captains command a ship of more than 100 tonnes?

# %%
#| hide
#| eval: false
! [ -e /content ] && pip install -Uqq "sql_env @ git+https://github.com/hjerpe/sql_env" # on Colab

# %%
#| export
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import apsw

from sql_env.database.database import Database
from sql_env.database.guards import QueryError, check_statement
from sql_env.grading.answers import (
    Verdict,
    align_columns_by_kind,
    as_written,
    compare_written,
    match_bag,
)
from sql_env.grading.variants.sandbox import Sandbox
from sql_env.grading.variants.selection import Variants, instance_generator, variants_for
from sql_env.questions.question_set import Question
from sql_env.sql.analysis import has_order_by
from sql_env.sql.values import Result

# %%
import os
import tempfile
from pathlib import Path

from sql_env.database.database import build_database

folder = tempfile.TemporaryDirectory()
os.environ["SQL_ENV_CACHE"] = folder.name + "/cache"
schema = """
CREATE TABLE captain (captain_id INTEGER PRIMARY KEY,
                      name TEXT NOT NULL UNIQUE, home TEXT);
CREATE TABLE ship (ship_id INTEGER PRIMARY KEY, name TEXT,
                   captain_id INTEGER REFERENCES captain, tonnes REAL);"""
captains = [(1, "Ines", "Porto"), (2, "Max", "Bremen"), (3, "Mia", None)]
ships = [
    (1, "Aurora", 1, 120.5),
    (2, "Bora", 2, 80.0),
    (3, "Cirrus", 2, 300.0),
    (4, "Dione", None, 12.0),
]
path = Path(folder.name) / "harbour.sqlite"
db = Database(build_database(path, schema, {"captain": captains, "ship": ships}))
gold = "SELECT count(DISTINCT captain_id) FROM ship WHERE tonnes > 100"
lucky = "SELECT count(*) FROM ship WHERE tonnes > 100"
db.query(gold).rows, db.query(lucky).rows


# %% [markdown]
# Both say two, and one of them counts ships. To compare results on the database itself is called *execution
# accuracy*; that is what `sql_env` calls `correct`. On a second database with the same tables and other rows the luck
# ends. To compare results on a suite of such databases is called *test-suite accuracy* ([Zhong et al.
# 2020](https://arxiv.org/abs/2010.02840)); that is what `sql_env` calls `robust`. The suite here is the `Variants` of
# a gold query.

# %% [markdown]
# *Why look for the query, and not ask the agent to hand one in?* Because the question asks for a value, and an answer
# is a value. The query behind it is among those that the episode ran, so it is found there and nothing new is asked of
# the agent. The price is that an answer put together by eye, from several results, has no single query to judge. It
# stays `correct`, and `robust` is False with the reason `no_evidence`.

# %% [markdown]
# ## What counts as evidence

# %% [markdown]
# An answer is robust if the SQL that it came from agrees with gold on all instances. Which SQL is that? With `@last`
# it is the last query. With a written answer it is the last query *whose result holds the answer*. Holding has a few
# honest readings: the result is the answer; the answer stands in some of its columns; or the answer is its first
# rows, and the query sorts them. If several columns hold the answer's values, the first of them is meant. Whoever puts
# eight guesses side by side and answers what some of them say is judged by one of them, as if each stood alone.

# %%
#| exports
@dataclass(frozen=True)
class _EvidenceReading:
    "How an answer lies in a result: in these columns, of the first `head` rows or all."

    columns: tuple[int, ...] | None = None
    head: int | None = None
    decimals: tuple[int | None, ...] = ()  # to which the query rounds each of gold's columns

    @property
    def is_whole(self) -> bool:
        "Whether the whole result is read as it stands."
        in_order = self.columns is None or self.columns == tuple(range(len(self.columns)))
        return in_order and self.head is None

    def read(self, rows: Sequence[tuple]) -> list[tuple]:
        "What is read from a result."
        rows = rows if self.head is None else rows[: self.head]
        if self.columns is None:
            return list(rows)
        return [tuple([row[i] for i in self.columns]) for row in rows]

    def rounded(self, gold: Sequence[tuple]) -> Sequence[tuple]:
        "Gold's rows to as many decimals as the query gives."
        if not any(n is not None for n in self.decimals):
            return gold
        return [tuple(map(_to_decimals, row, self.decimals)) for row in gold]


# %%
_EvidenceReading((1,), head=2).read([(1, "Aurora"), (2, "Bora"), (3, "Cirrus")])

# %% [markdown]
# In a written answer `3` and `'3'` look alike, so results are compared as an agent would write them.

# %%
#| export
_MAX_COLUMN_CHOICES = 64  # ways to choose columns that are tried


# %% [markdown]
# A query may round: 98.45 for 98.4512 is right. On an instance the same query gives 96.3 for 96.304, since a number has no
# zeros at its end. So it is read off the query, or else off its result, how many decimals it gives.

# %%
#| export
def _decimals(rows: Sequence[tuple], gold: Sequence[tuple], sql: str) -> tuple[int | None, ...]:
    "For each column the decimals to which a query rounds the numbers of gold; None where it doesn't."
    stated = max(map(int, _ROUNDS_TO.findall(sql)), default=None)
    found: list[int | None] = []
    for column, gold_column in zip(zip(*rows), zip(*gold)):
        known = {value for value in gold_column if isinstance(value, float)}
        floats = [value for value in column if isinstance(value, float)]
        others = [value for value in floats if value not in known and abs(value) < 1e15]
        places = [len(repr(value).partition(".")[2]) for value in floats if "e" not in repr(value)]
        most = max(places, default=_MOST_DECIMALS + 1)
        if stated is not None and most <= stated:
            found.append(stated)
        else:
            found.append(most if others and most <= _MOST_DECIMALS else None)
    return tuple(found)


# %%
#| export
_ROUNDS_TO = re.compile(r"\bround\s*\([^;]*?,\s*(\d)\s*\)", re.I)
_MOST_DECIMALS = 8  # that a query rounds to; more are the digits of a float


# %%
#| export
def _to_decimals(value: Any, decimals: int | None) -> Any:
    "A float with so many decimals; anything else as it is."
    return value if decimals is None or not isinstance(value, float) else round(value, decimals)


# %%
_decimals([(98.45,)], [(98.4512,)], "SELECT round(avg(paid), 2) FROM stay"), _to_decimals(96.304, 2)


# %%
#| export
def _same_values(
    rows: Iterable[tuple], column: int, gold: Iterable[tuple], gold_column: int
) -> bool:
    "Whether two columns hold the same values in any order."
    values = [(row[column],) for row in rows]
    return match_bag(values, [(row[gold_column],) for row in gold]) is None


# %%
#| export
def _column_choices(rows: Sequence[tuple], gold: Sequence[tuple]) -> Iterator[tuple[int, ...]]:
    "Ways to choose for each gold column one with the same values, no column twice; the first ones first."
    matching = []
    for gold_column in range(len(gold[0])):
        columns = range(len(rows[0]))
        matching.append([c for c in columns if _same_values(rows, c, gold, gold_column)])
    distinct = (choice for choice in product(*matching) if len(set(choice)) == len(choice))
    return islice(distinct, _MAX_COLUMN_CHOICES)


# %%
list(_column_choices([("x", 1, 1), ("y", 2, 2)], [(1,), (2,)]))


# %%
#| export
def _exact_choices(rows: Sequence[tuple], gold: Sequence[tuple]) -> Iterator[tuple[int, ...]]:
    "All columns as they stand, or in the order that their kinds of values suggest."
    if len(rows[0]) == len(gold[0]):
        yield tuple(range(len(gold[0])))
        aligned = align_columns_by_kind(rows, gold)
        if aligned:
            yield tuple(aligned)


# %% [markdown]
# Of these readings, the first that is true on the database itself counts.

# %%
#| exports
def _reading_of(
    gold: Sequence[tuple],
    ranks: Sequence[int] | None,  # of gold's rows, None if order is free
    result: Result,
    sql: str,  # that gave the result
    exact: bool,  # the whole result was the answer, as with `@last`
) -> _EvidenceReading | None:
    "The first way in which some rows lie in a result, None if there is none."
    rows = result.rows
    if result.truncated or len(rows) < len(gold):
        return None
    if not gold:
        return None if rows else _EvidenceReading()
    head = None
    if len(rows) > len(gold):
        if exact or not has_order_by(sql):
            return None
        head = len(gold)
    if exact:
        choices = _exact_choices(rows, gold)
    else:
        rows = as_written(rows)
        choices = _column_choices(rows[:head], gold)
    readings = (_EvidenceReading(columns, head) for columns in choices)
    order = False if ranks is None else ranks
    found = next((r for r in readings if compare_written(r.read(rows), gold, order).correct), None)
    return replace(found, decimals=_decimals(found.read(result.rows), gold, sql)) if found else None


# %% [markdown]
# Other answers that are as good as gold, such as a row that ties with it, have their evidence too.

# %%
#| export
def _evidence_reading(
    result: Result,
    q: Question,  # gold of the question is the right answer
    sql: str,  # that gave the result
    exact: bool = False,  # the whole result was the answer, as with `@last`
) -> _EvidenceReading | None:
    "The first way in which gold's rows, or those of another right answer, lie in a result, None if there is none."
    for gold, ranks in ((q.gold_answer, q.ranks), *((rows, None) for rows in q.other_answers)):
        reading = _reading_of(gold, ranks, result, sql, exact)
        if reading:
            return reading
    return None


# %%
q = Question(
    "harbour-1",
    "Which ship is the heaviest?",
    "harbour",
    "SELECT name FROM ship ORDER BY tonnes DESC LIMIT 1",
    [("Cirrus",)],
)
for sql in (
    q.gold_sql,
    "SELECT ship_id, name FROM ship WHERE tonnes = 300",
    "SELECT name, tonnes FROM ship ORDER BY 2 DESC",
    "SELECT name FROM ship",
):
    print(_evidence_reading(db.query(sql), q, sql), sql)

# %% [markdown]
# The last query holds the answer among others, and the agent picked it by eye: that is not evidence.

# %% [markdown]
# ## One query on all variants

# %% [markdown]
# The query runs on each variant in a `Sandbox`. The verdict falls at the first on which what is read differs.

# %%
#| exports
ROBUST_REASONS = dict(
    no_evidence="no single query of the episode holds the answer",
    differs="the query disagrees with gold on another instance",
    fails="the query fails on another instance",
    no_variants="no instance could be made for this gold query",
    no_gold_sql="the question has gold rows and no gold query",
    no_rule="the task names what is to be changed and states no rule",
    by_keys="the statements name rows by keys that were read, which mean nothing on other contents",
)

# %% [markdown]
# Where there are no variants, nothing was found out about the answer. That is neither right nor wrong, and who counts
# or pays must ask whether the reason is one of these:

# %%
#| exports
NOT_JUDGED = frozenset({"no_variants", "no_gold_sql", "no_rule", "by_keys"})  # reasons that mean: it could not be judged


# %%
#| export
def _judge_on(
    sandbox: Sandbox,
    variants: Variants,
    sql: str,
    reading: _EvidenceReading,
    to_the_end: bool,
) -> Verdict:
    "The verdict on a query that ran on all variants, or on those up to the first that refutes it."
    found = Verdict(True, "match")
    for number, (image, (gold, ranks)) in enumerate(zip(variants.images, variants.golds), 1):
        sandbox.load(image)
        try:
            rows = sandbox.run(sql).rows
        except QueryError as e:
            if found:
                found = Verdict(False, "fails", f"instance {number}: {e.kind}")
        else:
            order = False if ranks is None else ranks
            ours, theirs = reading.read(rows), reading.rounded(gold)
            verdict = compare_written(ours, theirs, order) if found else found
            if found and not verdict.correct:
                detail = f"instance {number}: {verdict.detail}"
                found = Verdict(False, "differs", detail, verdict.row)
        if not found and not to_the_end:
            break
    return found


# %% [markdown]
# A query that is gold, letter by letter, gives what gold gives on any instance, so none is made for it unless the time
# must not tell that it is.

# %%
#| exports
def judge_evidence(
    gold_sql: str,
    db: Database,
    sql: str,  # of the agent; any text
    reading: _EvidenceReading = _EvidenceReading(),
    k: int = 20,
    seed: int = 0,
    to_the_end: bool = False,  # on all variants, so that the time does not tell the outcome
) -> Verdict:
    "Whether a query agrees with gold on `k` variants of a database, as its result is read."
    is_gold = sql == gold_sql and reading.is_whole
    if is_gold and not to_the_end:
        return Verdict(True, "match")
    variants = variants_for(db.path, gold_sql, k, seed, sql)
    if is_gold and variants.why_none:
        return Verdict(True, "match")
    if variants.why_none:
        return Verdict(False, "no_variants", variants.why_none)
    try:
        check_statement(sql, db.limits)
        with instance_generator(db.path).sandboxes.borrow(db.limits) as sandbox:
            return _judge_on(sandbox, variants, sql, reading, to_the_end)
    except QueryError as e:
        return Verdict(False, "fails", e.kind)
    except (apsw.Error, MemoryError) as e:
        return Verdict(False, "fails", type(e).__name__)


# %%
through_table = """SELECT count(*) FROM captain WHERE captain_id IN
(SELECT captain_id FROM ship WHERE tonnes > 100)"""
for sql in (gold, lucky, "SELECT 2", "DROP TABLE ship", through_table):
    print(judge_evidence(gold, db, sql).reason, "|", sql)

# %%
judge_evidence(gold, db, lucky)

# %% [markdown]
# A query may look as different from gold as it likes, since only results are compared:

# %%
rewritten = """WITH heavy AS (
    SELECT DISTINCT captain_id AS c FROM ship
    WHERE tonnes > 100 AND captain_id IS NOT NULL),
numbered AS (SELECT c, row_number() OVER (ORDER BY c) AS n FROM heavy)
SELECT coalesce(max(n), 0) FROM numbered"""
judge_evidence(gold, db, rewritten)


# %% [markdown]
# ## The robust verdict

# %% [markdown]
# `verify_robust` takes the queries of an episode with their results. If the answer is not right on the database
# itself, nothing else need be asked. But then a right answer takes twenty times as long as a wrong one, and a server
# that keeps the verdict to itself tells it by its clock. So where the verdict is made before the reply, it is made
# `evenly`: the query that may be evidence, or else the last one, runs on all instances, whatever comes out.

# %%
#| export
def find_evidence(
    q: Question,
    answer: str,
    queries: Sequence[tuple[str, Result]],  # successful queries of the episode, oldest first
) -> tuple[str, _EvidenceReading] | None:  # None if no single query holds the answer
    "The latest query whose result holds a right answer, and how the answer lies in it."
    exact = answer.strip().lower() == "@last"
    latest_first = queries[::-1]
    for sql, result in latest_first[:1] if exact else latest_first:
        reading = _evidence_reading(result, q, sql, exact)
        if reading:
            return sql, reading
    return None


# %%
#| export
def _verify_by_gold(
    q: Question,
    db: Database,
    answer: str,
    queries: Sequence[tuple[str, Result]],
    k: int,
    seed: int,
    evenly: bool,
) -> Verdict:
    "Whether the query behind a right answer agrees with one gold query on variants."
    found = find_evidence(q, answer, queries)
    if found:
        return judge_evidence(q.gold_sql, db, *found, k, seed, evenly)
    if evenly and queries:
        judge_evidence(q.gold_sql, db, queries[-1][0], k=k, seed=seed, to_the_end=True)
    return Verdict(False, "no_evidence", ROBUST_REASONS["no_evidence"])


# %%
#| exports
def verify_robust(
    q: Question,
    db: Database,
    answer: str,
    queries: Sequence[tuple[str, Result]],  # successful queries of the episode, oldest first
    verdict: Verdict,  # of the answer on the database itself
    k: int = 20,
    seed: int = 0,
    evenly: bool = False,  # a query is judged whatever the verdict, on all variants
) -> Verdict:
    "Test-suite accuracy: is the query behind a right answer right on variants of the database too?"
    if not verdict.correct and not evenly:
        return verdict
    if not q.gold_sql:
        return (
            Verdict(False, "no_gold_sql", ROBUST_REASONS["no_gold_sql"])
            if verdict.correct
            else verdict
        )
    robust = _verify_by_gold(q, db, answer, queries, k, seed, evenly)
    for sql, others in zip(q.other_golds, q.other_answers):
        if robust.correct and not evenly:
            break
        other = q.with_fields(gold_sql=sql, gold_answer=others, ranks=None)
        found = _verify_by_gold(other, db, answer, queries, k, seed, evenly)
        robust = robust if robust.correct else found if found.correct else robust
    return robust if verdict.correct else verdict


# %% [markdown]
# A reward hack that knows the right number, or a row count that happens to be equal, has no evidence:

# %%
q = Question(
    "harbour-2",
    "How many captains command a ship of more than 100 tonnes?",
    "harbour",
    gold,
    [(2,)],
)


def reason(answer, *queries):
    results = [(sql, db.query(sql)) for sql in queries]
    return verify_robust(q, db, answer, results, Verdict(True, "match")).reason


[
    reason("2"),
    reason("2", "SELECT 2"),
    reason("@last", lucky),
    reason("2", gold, "SELECT name FROM ship"),
    reason("@last", gold),
    reason("2", f"SELECT ({lucky}), ({gold})"),
]
