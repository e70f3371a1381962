"""Wrong SQL that is right on twelve rows: a search driven by the constants of both statements finds each difference."""

import re
from random import Random

import logic_pairs
import pytest
from tables import cases

from sql_env import Database, load
from sql_env.database.database import build_database
from sql_env.database.guards import QueryError
from sql_env.grading.answers import compare_rows
from sql_env.grading.variants import pairs
from sql_env.grading.variants.robust import NOT_JUDGED, find_evidence, judge_evidence
from sql_env.grading.variants.sandbox import Sandbox
from sql_env.questions.question_set import Question

FIRST = "Ada Ben Cleo Dan Eve Finn Gus Hal Ida Jon Kay Leo".split()
CITIES = "Oslo Rome Bern Lima Cairo Quito Paris Delhi Seoul Tunis Accra Dakar".split()
WRONG = dict(cases("pairs_wrong"))  # what is overlooked: gold and queries that give the same on the data
HONEST = cases("pairs_honest")


@pytest.fixture(scope="module")
def firm(tmp_path_factory):
    "Twelve employees of whom nothing repeats, and their trips."
    schema = """
        CREATE TABLE emp (emp_id INTEGER PRIMARY KEY, first TEXT, city TEXT, code TEXT, age INTEGER, pay REAL,
                          hired TEXT);
        CREATE TABLE trip (trip_id INTEGER PRIMARY KEY, emp_id INTEGER REFERENCES emp, city TEXT, km REAL);
        CREATE TABLE sale (sale_id INTEGER PRIMARY KEY, emp_id INTEGER NOT NULL REFERENCES emp, pieces VARCHAR(9),
                           price DECIMAL(8, 2), sold DATETIME, mail TEXT, state TEXT, note TEXT, gifts INTEGER,
                           samples INTEGER, is_paid CHAR(1))"""
    codes = "A1 B2 C3 D4 E5 F6 G7 H8 I9 J2 K3 L4".split()
    rows: dict = {"emp": [], "trip": [], "sale": []}
    for i, (first, city, code) in enumerate(zip(FIRST, CITIES, codes)):
        day = f"{2010 + i}-{i + 1:02}-{28 - 2 * i:02}"
        rows["emp"].append((i + 1, first, city, code, 48 + i, 1500.0 + 600 * i, day))
        rows["trip"].append((i + 1, i + 1, city, 10.5 + i))
    states = "sent by post", "sent by ship", "held back", "not yet packed"
    for i in range(130):
        day = f"{1890 + i}-0{i % 7 + 1}-{i % 28 + 1:02} 0{i % 9}:30:00"
        note = "a very rare note" if i == 77 else f"note {i % 40} of many"
        row = (i, i % 12 + 1, str(i % 9 + 1), 90 + i, day, f"{i}@firm.example", states[i % 4], note, i % 3, i % 7 + 1)
        rows["sale"].append((*row, "1" if i % 3 else ""))
    return build_database(tmp_path_factory.mktemp("firm") / "firm.sqlite", schema, rows)


CASES = [(gold, sql) for gold, others in WRONG.values() for sql in others]


@pytest.mark.parametrize("gold, sql", CASES)
def test_a_difference_is_found(firm, gold, sql):
    db = Database(firm)
    assert compare_rows(db.query(sql).rows, db.query(gold).rows, "ORDER" in gold).correct, "not lucky"
    assert judge_evidence(gold, db, sql).reason == "differs"


def test_a_verdict_is_the_same_each_time(firm):
    asked = [*CASES, *HONEST]
    found = [judge_evidence(gold, Database(firm), sql) for gold, sql in asked]
    pairs._generator.cache_clear()
    assert found[::-1] == [judge_evidence(gold, Database(firm), sql) for gold, sql in asked[::-1]]


DECLARED = [  # an order by a key has no ties, each trip has its employee, and no column of numbers holds texts
    ("SELECT count(*) FROM trip", "SELECT count(*) FROM trip AS t JOIN emp AS e ON e.emp_id = t.emp_id"),
    ("SELECT count(*) FROM emp", "SELECT count(DISTINCT emp_id) FROM emp"),
    ("SELECT max(age) FROM emp", "SELECT max(CAST(age AS INTEGER)) FROM emp"),
]


@pytest.mark.parametrize("gold, sql", [*HONEST, *DECLARED])
def test_honest_sql_passes(firm, gold, sql):
    verdict = judge_evidence(gold, Database(firm), sql)
    assert verdict.correct, verdict


def test_half_a_unit_is_rounded_as_sqlite_rounds(firm):
    "2.125 is 2.13 and not 2.12, its even neighbour."
    db, gold = Database(firm), "SELECT sum(age) / 8.0 FROM emp"
    q, sql = Question("q", "?", "firm", gold, db.query(gold).rows), "SELECT round(sum(age) / 8.0, 2) FROM emp"
    _, reading = find_evidence(q, "@last", [(sql, db.query(sql))])
    assert judge_evidence(gold, db, sql, reading).correct
    assert not judge_evidence(gold, db, sql.replace("sum(age)", "(sum(age) - 1)"), reading).correct


@pytest.mark.parametrize("gold, sql", CASES)
def test_layout_changes_no_verdict(firm, gold, sql):
    db = Database(firm)
    found = judge_evidence(gold, db, sql)
    for other in (f"  {sql} ; -- round(1.5, 1)", re.sub("SELECT|FROM|WHERE", lambda m: f"\n/**/ {m[0].lower()}", sql)):
        assert judge_evidence(gold, db, other) == found


LIES = "SELECT first FROM emp ORDER BY emp_id"


@pytest.mark.parametrize(
    "gold, sql, passes",
    [
        (LIES, "SELECT first FROM emp", False),
        (f"{LIES} LIMIT 3", "SELECT first FROM emp LIMIT 3", False),
        ("SELECT min(emp_id) FROM emp", "SELECT emp_id FROM emp LIMIT 1", False),
        (LIES.replace("ORDER BY emp_id", ""), "SELECT first FROM emp", True),
        ("SELECT sum(pay) FROM emp", "SELECT sum(pay) FROM (SELECT pay FROM emp ORDER BY pay)", True),
        ("SELECT group_concat(first) FROM emp", "SELECT group_concat(first, ',') FROM emp", True),
        (LIES.replace("emp_id", "age"), "SELECT first FROM (SELECT * FROM emp ORDER BY age)", True),
        (
            "SELECT city, max(age) FROM emp GROUP BY city",
            "SELECT city, age FROM (SELECT city, age, max(age) FROM emp GROUP BY 1)",
            True,
        ),
    ],
)
def test_rows_by_the_order_in_which_they_lie_differ(firm, gold, sql, passes):
    verdict = judge_evidence(gold, Database(firm), sql)
    assert verdict.correct == passes and ("how they lie" in verdict.detail) != passes, verdict


def test_to_agree_where_gold_finds_nothing_is_not_judged_and_a_difference_counts(firm):
    "No instance has groups of 300, and none a number beyond 5 and below 3."
    db, gold = Database(firm), "SELECT city FROM emp GROUP BY city HAVING count(*) > 300"
    for one, other in ((gold, gold.replace("300", "400")), ("SELECT sum(age) FROM emp WHERE age > 5 AND age < 3",) * 2):
        found = judge_evidence(one, db, other.replace("FROM emp", "FROM emp AS e"))
        assert found.reason == "nothing_found" and found.reason in NOT_JUDGED
        assert judge_evidence(one, db, one.lower()).correct, "gold itself"
        assert judge_evidence(one, db, "SELECT 'x'").reason == "differs"


@pytest.mark.slow
def test_pairs_of_sqlancers_kind():
    "A pair that must agree is never called different, one with a part left out never proved; all kinds, other seeds."
    faults: list = []
    database = load("bundled").database("vet_clinic")
    n = 2 * len(logic_pairs.KINDS)
    counts = logic_pairs.measure(database, Random("of the test"), n, faults)
    assert not faults and {key[0] for key in counts} == {"equal", "left out"}
    assert sum(n for key, n in counts.items() if key[2] == "proved") > 3


ART = """CREATE TABLE maker (id INTEGER PRIMARY KEY, name TEXT NOT NULL, born INTEGER NOT NULL);
    CREATE TABLE work (id INTEGER PRIMARY KEY, maker_id INTEGER NOT NULL REFERENCES maker(id), worth INTEGER NOT NULL);
    CREATE TABLE firm (title TEXT NOT NULL, town TEXT NOT NULL)"""
WHO, RICH = "name = 'Tom Fair' AND born = 1717", "SELECT id FROM work WHERE worth"
TOM = f"SELECT sum(worth) FROM work w JOIN maker m ON m.id = w.maker_id WHERE {WHO}"
NAMES = "SELECT name FROM maker EXCEPT SELECT title FROM firm"


@pytest.fixture(scope="module")
def art(tmp_path_factory):
    "Makers of whom two share a name; their works in steps of 50."
    names = "Ann Lee,Bo Chen,Cy Diaz,Di Patel,Eva Nova,Finn Berg,Gita Rao,Hugo Blanc,Tom Fair,Tom Fair".split(",")
    rows = {
        "maker": [(i, name, 1700 + 17 * i) for i, name in enumerate(names, -7)],
        "work": [(i, i % 10 - 7, 4000 + 50 * (i * 7 % 61)) for i in range(60) if i * 7 % 61 != 21],
        "firm": [(f"{name} & Co", "Oslo") for name in names[:9]],
    }
    return Database(build_database(tmp_path_factory.mktemp("art") / "art.sqlite", ART, rows))


@pytest.mark.parametrize(
    "gold, sql, passes",
    [
        (TOM, f"SELECT sum(worth) FROM work WHERE maker_id = (SELECT id FROM maker WHERE {WHO})", True),
        ("SELECT id FROM work WHERE worth / 100.0 > 50", f"{RICH} / 100 >= 50 AND worth <> 5000", True),
        ("SELECT id FROM work WHERE worth / 1000.0 > 5", f"{RICH} / 1000 >= 5 AND worth <> 5000", True),
        ("SELECT id FROM work WHERE worth / 100.0 >= 50.5", f"{RICH} / 100 >= 51", False),
        (NAMES, "SELECT DISTINCT name FROM maker", False),
        (NAMES, "SELECT DISTINCT name FROM maker m WHERE NOT EXISTS (SELECT 1 FROM firm WHERE title = m.name)", True),
    ],
)
def test_names_of_one_row_quotients_and_columns_of_set_operations(art, gold, sql, passes):
    assert compare_rows(art.query(sql).rows, art.query(gold).rows).correct, "not right by value"
    verdict = judge_evidence(gold, art, sql)
    assert verdict.correct == passes, verdict


def test_a_label_that_stands_for_its_row_may_come_twice(firm):
    gold = "SELECT e.first, count(*) FROM emp e JOIN trip t ON t.emp_id = e.emp_id GROUP BY e.emp_id"
    assert judge_evidence(gold, Database(firm), gold.replace("BY e.emp_id", "BY e.first")).reason == "differs"
    assert judge_evidence(gold, Database(firm), gold.replace("BY e.emp_id", "BY t.emp_id, e.first")).correct


def test_too_long_on_two_instances_is_no_refusal(firm, monkeypatch):
    run, gold = Sandbox.run, "SELECT count(*) FROM emp WHERE age > 50"
    for most, reason in ((2, "match"), (3, "fails")):
        numbers = iter(range(1000))

        def too_long_at_first(self, sql, backwards=False, numbers=numbers, most=most):
            if next(numbers) < most:
                raise QueryError("operations", "too much")
            return run(self, sql, backwards)

        monkeypatch.setattr(Sandbox, "run", too_long_at_first)
        found = judge_evidence(gold, Database(firm), gold.replace("age > 50", "NOT age <= 50"))
        assert found.reason == reason
