"Doubts about gold that contradicts the words of its question: planted ones are found, nothing else is."

from collections import Counter

import pytest
from tables import cases

from sql_env import Question, load
from sql_env.database.database import Database, build_database
from sql_env.evaluation.contradictions import WordingCheck, _stated_bounds
from sql_env.sql.analysis import sorted_columns, value_tests
from sql_env.sql.mutants import one_edit_mutants

SCHEMA = """
CREATE TABLE pet (pet_id INTEGER PRIMARY KEY, kind TEXT, name TEXT, weight TEXT, born TEXT, owner_id INTEGER);
CREATE TABLE owner (owner_id INTEGER PRIMARY KEY, name TEXT, city TEXT);"""
ROWS = {
    "owner": [(1, "Ada", "Porto"), (2, "Bo", "Oslo")],
    "pet": [
        (1, "Cat", "Milo", "9", "2019", 1),
        (2, "Dog", "Rex", "12", "2020", 1),
        (3, "Dog", "Bella", "100", "2021", 2),
    ],
}


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    path = build_database(tmp_path_factory.mktemp("pets") / "pets.sqlite", SCHEMA, ROWS)
    return WordingCheck(Database(path))


def test_bounds_that_a_question_states_and_doubts(check):
    for text, bounds in cases("wording_bounds"):
        assert sorted((b.operator, b.value) for b in _stated_bounds(text)) == sorted(bounds), text
    for text, sql, flags in cases("wording_doubts"):
        doubts = check.doubts(Question("q", text, "pets", sql))
        assert set(doubts) == set(flags), (text, sql)
        assert all(reason.endswith(".") for reason in doubts.values())


def test_comparisons_of_a_query_and_columns_that_are_put_in_order():
    for sql, tests in cases("wording_comparisons"):
        assert tuple(value_tests(sql)) == tests, sql
    sql = "SELECT max(x.a), min(1), count(b) FROM t x GROUP BY c ORDER BY d, a + 1"
    assert set(sorted_columns(sql)) == {("t", "d"), ("t", "a")}


def test_bundled_leaves_no_doubt():
    qs = load("bundled")
    checks = {name: WordingCheck(qs.database(name)) for name in {q.database_name for q in qs}}
    doubts = {q.question_id: checks[q.database_name].doubts(q) for q in qs}
    assert not {question_id: found for question_id, found in doubts.items() if found}


@pytest.mark.slow
def test_doubts_about_spider_dev_and_how_many_planted_ones_are_found(spider_path, tell):
    "Flags of the real golds were read one by one; faults planted in them are found to the share that is told."
    qs = load("spider", spider_path, "dev")
    names = {q.database_name for q in (*qs, *qs.quarantined)}
    checks = {name: WordingCheck(qs.database(name)) for name in names}
    both = [*qs, *qs.quarantined]
    real = Counter(flag for q in both for flag in checks[q.database_name].doubts(q))
    assert real["wrong_bound"] <= 2 and real["unused_value"] <= 1 and real["text_as_number"] == 16
    planted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for q in qs:
        named = {t.value for t in value_tests(q.gold_sql) if str(t.value) in q.question_text}
        for kind, sql in one_edit_mutants(q.gold_sql):
            gone = [v for v in named - {t.value for t in value_tests(sql)} if isinstance(v, str)]
            flag = {"drop_where": "unused_value", "drop_term": "unused_value"}.get(kind, "")
            if kind == "operator" and _stated_bounds(q.question_text):
                flag = "wrong_bound"
            if flag and (gone or flag == "wrong_bound"):
                planted[kind] += 1
                mutant = q.with_fields(gold_sql=sql, tables_involved=q.tables_involved)
                found[kind] += flag in checks[q.database_name].doubts(mutant)
    tell(f"doubts: {dict(real)}; of planted faults found: {dict(found)} of {dict(planted)}")
    assert found["operator"] >= 0.65 * planted["operator"]
    assert found["drop_where"] >= 0.6 * planted["drop_where"]
