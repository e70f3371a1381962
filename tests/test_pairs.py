"""Wrong SQL that is right on twelve rows: a search driven by the constants of both statements finds each difference."""

from random import Random

import logic_pairs
import pytest
from tables import cases

from sql_env import Database, load
from sql_env.database.database import build_database
from sql_env.grading.answers import compare_rows
from sql_env.grading.variants.robust import judge_evidence
from sql_env.grading.variants.selection import VARIANT_STORE

pytestmark = pytest.mark.usefixtures("kept_variants")

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
    pairs = [*CASES, *HONEST]
    found = [judge_evidence(gold, Database(firm), sql) for gold, sql in pairs]
    VARIANT_STORE.clear()
    assert found[::-1] == [judge_evidence(gold, Database(firm), sql) for gold, sql in pairs[::-1]]


DECLARED = [  # an order by a key has no ties, each trip has its employee, and no column of numbers holds texts
    ("SELECT count(*) FROM trip", "SELECT count(*) FROM trip AS t JOIN emp AS e ON e.emp_id = t.emp_id"),
    ("SELECT count(*) FROM emp", "SELECT count(DISTINCT emp_id) FROM emp"),
    ("SELECT max(age) FROM emp", "SELECT max(CAST(age AS INTEGER)) FROM emp"),
]


@pytest.mark.parametrize("gold, sql", [*HONEST, *DECLARED])
def test_honest_sql_passes(firm, gold, sql):
    verdict = judge_evidence(gold, Database(firm), sql)
    assert verdict.correct, verdict


@pytest.mark.slow
def test_pairs_of_sqlancers_kind():
    "A pair that must agree is never called different, one with a part left out never proved; all kinds, other seeds."
    faults: list = []
    database = load("bundled").database("vet_clinic")
    n = 2 * len(logic_pairs.KINDS)
    counts = logic_pairs.measure(database, Random("of the test"), n, faults)
    assert not faults and {key[0] for key in counts} == {"equal", "left out"}
    assert sum(n for key, n in counts.items() if key[2] == "proved") > 3
