"Generated worlds ask for SQL that people write: every form is right, fair, and met."

import re
from collections import Counter
from contextlib import suppress
from itertools import islice

import apsw
import pytest
import sqlglot
from databases import memory
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from sql_env.worlds import FAMILIES, worlds
from sql_env.worlds.phrases import DraftRejected, Sampler, _in_period, _sample_clause, _sample_joined

NAMES = [f.name for f in FAMILIES.values() if f.level > 1]
LEVELS = range(2, 6)
YEARS = ("substr", "strftime", "LIKE", "BETWEEN")


def some(level, many, seed=6, **options):
    return list(islice(worlds(level, seed, **options), many))


@pytest.fixture(scope="module")
def asked():
    "Questions of the families of these modules, by family: world, question, draft."
    found = {name: [] for name in NAMES}
    for w in (w for level in LEVELS for w in some(level, 14, n=40)):
        for q, (family, draft) in zip(w.questions, w.drafts):
            if family.name in found:
                found[family.name].append((w, q, draft))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_family_is_asked_and_worded_in_hundreds_of_ways(name, asked):
    assert len(asked[name]) >= 3
    assert FAMILIES[name].level > 1, "level 1 is for simple questions about one table"
    texts = [q.question_text for _, q, _ in asked[name]]
    assert len(set(texts)) == len(texts)
    for text in texts:
        assert not re.search(r"[{}|]|  | [,.?]|\bthe the\b|\ba [aeio](?!ne)", text), text


def test_gold_has_the_forms_that_people_write(asked):
    golds = [q.gold_sql for found in asked.values() for _, q, _ in found]
    for form, pattern in cases("worlds_sql_forms"):
        assert sum(bool(re.search(pattern, sql)) for sql in golds) >= 2, form


def test_gold_shows_what_is_asked_for_and_orders_where_the_question_does(asked):
    golds = [q for _, q, _ in asked["per_value_of_parent"]]
    assert any("only" in q.question_text for q in golds)
    assert all(len(sqlglot.parse_one(q.gold_sql).expressions) == 2 for q in golds)
    sorted_lists = asked["sorted_list"]
    assert all(q.ranks == tuple(range(len(q.gold_answer))) for _, q, _ in sorted_lists)
    assert all(re.search("first|from A to Z", q.question_text) for _, q, _ in sorted_lists)
    assert not any(q.ranks for _, q, _ in asked["list_columns"])


def test_the_lowest_value_is_of_a_column_without_null():
    "SQLite sorts NULL before all values, so the first row would be one whose value nobody knows."
    found = 0
    for w in some(3, 12, seed=9, n=1):
        for i in range(12):
            with suppress(DraftRejected):
                by = FAMILIES["columns_of_top_row"].draft(Sampler(w.tables, "lowest", i)).query.order_by
                found += not by.endswith("DESC")
                assert not any(None in table.data.get(by, ()) for table in w.tables.values())
    assert found > 30


def test_each_world_has_one_author():
    ws = some(3, 30, seed=9, n=1)
    samplers = [Sampler(w.tables, "habits", i) for i, w in enumerate(ws)]
    assert all(s.habits == s.habits for s in samplers)
    for habit in samplers[0].habits:
        assert len({s.habits[habit] for s in samplers}) > 1


DAYS = st.dates().map(lambda day: day.isoformat())


@given(DAYS, st.integers(1, 12), st.sampled_from((1999, 2019, 2020)), st.booleans())
def test_the_ways_to_test_a_period_agree(day, month, year, is_month):
    period = f"{year}-{month:02}" if is_month else str(year)
    con = apsw.Connection(":memory:")
    told = {con.execute(f"SELECT {_in_period(repr(day), period, way)}").get for way in YEARS}
    assert told == {int(day.startswith(period))}


@pytest.mark.parametrize("level", (2, 4))
def test_conditions_of_one_database_hold_for_some_rows_only(level):
    "A condition that all or no rows meet asks nothing; most must tell rows apart."
    telling = Counter()
    for i, w in enumerate(some(level, 12, seed=3, n=1)):
        s = Sampler(w.tables, "clauses", i)
        for first, last in (("event", "member"), ("event", "thing"), ("member", "event")):
            try:
                selection = _sample_joined(s, first, last, 1)
            except DraftRejected:
                continue
            count = f"SELECT COUNT(*) FROM {selection.source.sql}"
            met = memory(w.image).execute(f"{count} WHERE {selection.where}").get
            telling[0 < met < memory(w.image).execute(count).get] += 1
    assert telling[True] > 2 * telling[False]


def test_clauses_never_name_a_column_twice():
    for i, w in enumerate(some(3, 10, seed=4, n=1)):
        s = Sampler(w.tables, "twice", i)
        try:
            selection = _sample_joined(s, "event", "member", 1, 1)
            clause = _sample_clause(s, selection.table, selection.source, selection.columns)
        except DraftRejected:
            continue
        assert clause.column not in selection.columns
