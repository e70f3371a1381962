"""Wrong SQL that is right on twelve rows: a search driven by the constants of both statements finds each difference."""

from random import Random

import apsw
import logic_pairs
import pytest
from tables import cases

from sql_env.database.database import Database
from sql_env.grading.answers import compare_rows
from sql_env.grading.variants.robust import judge_evidence
from sql_env.grading.variants.selection import VARIANT_STORE
from sql_env.sources.loading import load

FIRST = "Ada Ben Cleo Dan Eve Finn Gus Hal Ida Jon Kay Leo".split()
CITIES = "Oslo Rome Bern Lima Cairo Quito Paris Delhi Seoul Tunis Accra Dakar".split()
WRONG = {  # what is overlooked: gold and queries that give the same on the data
    "between two constants": (
        "SELECT first FROM emp WHERE pay > 2000",
        [
            "SELECT first FROM emp WHERE pay >= 2000.5",
            "SELECT first FROM emp WHERE pay >= 2100",
            "SELECT first FROM emp WHERE pay > 2050.75",
            "SELECT first FROM emp WHERE round(pay) > 2000",
        ],
    ),
    "beyond the data": (
        "SELECT first FROM emp WHERE age > 50",
        [
            "SELECT first FROM emp WHERE age BETWEEN 51 AND 60",
            "SELECT first FROM emp WHERE age > 50 AND age < 100",
            "SELECT first FROM emp WHERE age IN (51, 52, 53, 54, 55, 56, 57, 58, 59)",
            "SELECT first FROM emp WHERE age > 50 AND age <> 60",
        ],
    ),
    "longer texts": (
        "SELECT first FROM emp WHERE code = 'A1'",
        [
            "SELECT first FROM emp WHERE code LIKE '%A1%'",
            "SELECT first FROM emp WHERE code LIKE 'A%'",
            "SELECT first FROM emp WHERE substr(code, 1, 1) = 'A'",
            "SELECT first FROM emp WHERE instr(code, 'A1') > 0",
        ],
    ),
    "equal prefixes": (
        "SELECT first FROM emp ORDER BY hired",
        [
            "SELECT first FROM emp ORDER BY substr(hired, 1, 4)",
            "SELECT first FROM emp ORDER BY substr(hired, 1, 7)",
            "SELECT first FROM emp ORDER BY strftime('%Y', hired)",
            "SELECT first FROM emp ORDER BY CAST(hired AS INTEGER)",
        ],
    ),
    "other magnitudes": (
        "SELECT first FROM emp ORDER BY pay",
        [
            "SELECT first FROM emp ORDER BY CAST(pay AS TEXT)",
            "SELECT first FROM emp ORDER BY '' || pay",
            "SELECT first FROM emp ORDER BY printf('%s', pay)",
            "SELECT first FROM emp ORDER BY substr(pay, 1)",
        ],
    ),
    "zeros": (
        "SELECT avg(km) FROM trip",
        [
            "SELECT avg(km) FROM trip WHERE km <> 0",
            "SELECT avg(km) FROM trip WHERE km > 0",
            "SELECT avg(nullif(km, 0)) FROM trip",
            "SELECT sum(km) * 1.0 / count(nullif(km, 0)) FROM trip",
        ],
    ),
    "groups at a bound": (
        "SELECT city FROM trip GROUP BY city HAVING count(*) < 200",
        [
            "SELECT city FROM trip GROUP BY city",
            "SELECT DISTINCT city FROM trip",
            "SELECT city FROM trip GROUP BY city HAVING count(*) <= 200",
            "SELECT city FROM trip GROUP BY city HAVING count(*) < 201",
        ],
    ),
    "groups at a bound of the query": (
        "SELECT city FROM trip GROUP BY city",
        [
            "SELECT city FROM trip GROUP BY city HAVING count(*) < 200",
            "SELECT city FROM trip GROUP BY city HAVING count(trip_id) <= 20",
            "SELECT city FROM trip GROUP BY city HAVING 50 > count(*)",
        ],
    ),
    "keys by coincidence": (
        "SELECT count(*) FROM emp",
        [
            "SELECT count(DISTINCT first) FROM emp",
            "SELECT count(DISTINCT city) FROM emp",
            "SELECT count(*) FROM (SELECT first FROM emp GROUP BY first)",
        ],
    ),
    "a name that gold gives": (
        "SELECT first FROM emp",
        ["SELECT DISTINCT first FROM emp", "SELECT first FROM emp GROUP BY first"],
    ),
    "a name for its row": (
        "SELECT first, sum(km) FROM emp JOIN trip USING (emp_id) GROUP BY emp_id",
        ["SELECT first, sum(km) FROM emp JOIN trip USING (emp_id) GROUP BY first"],
    ),
    "a name counted once": (
        "SELECT count(DISTINCT emp_id) FROM trip",
        ["SELECT count(DISTINCT e.first) FROM trip AS t JOIN emp AS e ON e.emp_id = t.emp_id"],
    ),
}
HONEST = cases("pairs_honest")


@pytest.fixture(scope="module")
def firm(tmp_path_factory):
    "Twelve employees of whom nothing repeats, and their trips."
    path = tmp_path_factory.mktemp("firm") / "firm.sqlite"
    con = apsw.Connection(str(path))
    con.execute("""
        CREATE TABLE emp (emp_id INTEGER PRIMARY KEY, first TEXT, city TEXT, code TEXT, age INTEGER, pay REAL,
                          hired TEXT);
        CREATE TABLE trip (trip_id INTEGER PRIMARY KEY, emp_id INTEGER REFERENCES emp, city TEXT, km REAL);""")
    codes = "A1 B2 C3 D4 E5 F6 G7 H8 I9 J2 K3 L4".split()
    for i, (first, city, code) in enumerate(zip(FIRST, CITIES, codes)):
        day = f"{2010 + i}-{i + 1:02}-{28 - 2 * i:02}"
        row = (i + 1, first, city, code, 48 + i, 1500.0 + 600 * i, day)
        con.execute("INSERT INTO emp VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        con.execute("INSERT INTO trip VALUES (?, ?, ?, ?)", (i + 1, i + 1, city, 10.5 + i))
    con.close()
    return path


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SQL_ENV_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


CASES = [(gold, sql) for gold, others in WRONG.values() for sql in others]


@pytest.mark.parametrize("gold, sql", CASES)
def test_a_difference_is_found(firm, gold, sql):
    db = Database(firm)
    assert compare_rows(db.query(sql).rows, db.query(gold).rows, "ORDER" in gold).correct, "not lucky"
    assert judge_evidence(gold, db, sql).reason == "differs"


@pytest.mark.parametrize("gold, sql", HONEST)
def test_honest_sql_passes(firm, gold, sql):
    verdict = judge_evidence(gold, Database(firm), sql)
    assert verdict.correct, verdict


def test_a_verdict_is_the_same_each_time(firm):
    pairs = [*CASES, *HONEST]
    found = [judge_evidence(gold, Database(firm), sql) for gold, sql in pairs]
    VARIANT_STORE.clear()
    assert found[::-1] == [judge_evidence(gold, Database(firm), sql) for gold, sql in pairs[::-1]]


def test_what_is_declared_is_kept(firm):
    "An order by a key has no ties, each trip has its employee, and no column of numbers holds texts."
    db = Database(firm)
    for gold, sql in [
        ("SELECT count(*) FROM trip", "SELECT count(*) FROM trip AS t JOIN emp AS e ON e.emp_id = t.emp_id"),
        ("SELECT count(*) FROM emp", "SELECT count(DISTINCT emp_id) FROM emp"),
        ("SELECT max(age) FROM emp", "SELECT max(CAST(age AS INTEGER)) FROM emp"),
    ]:
        assert judge_evidence(gold, db, sql).correct, sql


@pytest.mark.slow
def test_pairs_of_sqlancers_kind():
    "A pair that must agree is never called different, one with a part left out never proved; all kinds, other seeds."
    faults: list = []
    database = load("bundled").database("vet_clinic")
    n = 2 * len(logic_pairs.KINDS)
    counts = logic_pairs.measure(database, Random("of the test"), n, faults)
    assert not faults and {key[0] for key in counts} == {"equal", "left out"}
    assert sum(n for key, n in counts.items() if key[2] == "proved") > 3
