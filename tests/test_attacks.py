"Attacks on `sql_env.database`: each statement and file of attacks.py is refused or harmless, and so is what it leaves."

import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import apsw
import pytest
from attack_process import Child
from attacks import ATTACKS, COLUMNS, FILES_TO_OPEN, KINDS_OF_STEPS, doubling, loop, write_home
from tables import cases

from sql_env.database.connection import _Budget
from sql_env.database.database import Database
from sql_env.database.guards import Limits, QueryError
from sql_env.paths import BUNDLED
from sql_env.sources.loading import load

MEGABYTES = 150  # what one statement may cost
HONEST_ROWS = [["wombat 10", 70.5], ["wombat 100", 100.5], ["wombat 101", 107.5]]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    "A folder that holds nothing but the database, with its bytes."
    path = write_home(tmp_path_factory.mktemp("attacked"))
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def child(home):
    child = Child(home[0])
    yield child
    child.close()


@pytest.fixture(scope="module")
def db(home):
    with Database(home[0]) as db:
        yield db


def leaks(text, sql, folder):
    "Words in `text` that the agent must not learn from it."
    said = str(sql).lower()
    secrets = [c for t, columns in COLUMNS.items() if t not in said for c in columns]
    secrets += ["create table", "create view", "create index", str(folder), folder.name, "hidden.sqlite", "sql_env"]
    return [s for s in secrets if s.lower() in text.lower() and s.lower() not in said]


def test_the_list_is_long_and_names_are_unique():
    assert len(ATTACKS) >= 80 and len({a[0] for a in ATTACKS}) == len(ATTACKS)


# Each does work of seconds in one function of SQLite; `like` and `glob` stand for them in the fast set
DEAR = {"rtrim", "trim", "trim-copies", "replace", "replace-straight", "instr"}


def marked(*attack):
    marks = [pytest.mark.slow] if attack[0] in DEAR else []
    return pytest.param(*attack[1:], id=attack[0], marks=marks)


@pytest.mark.parametrize("sql,kinds", [marked(*a) for a in ATTACKS])
def test_statement(sql, kinds, home, child):
    "Refused or harmless, within its budget of operations and of memory, and the next agent notices nothing."
    path, digest = home
    answer = child.ask(sql=sql)
    assert answer["kind"] in kinds, answer["text"][:300]
    assert not leaks(answer["text"], sql, path.parent)
    assert answer["honest"] == HONEST_ROWS
    assert answer["pool"] == 1
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    assert answer["operations"] <= Limits().operations + 2 * _Budget.every
    assert answer["megabytes"] <= MEGABYTES


@pytest.mark.parametrize("build,expected", [pytest.param(*f[1:], id=f[0]) for f in FILES_TO_OPEN])
def test_file(build, expected, child, tmp_path):
    path = tmp_path / "hostile.sqlite"
    build(path)
    before = {p: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    answer = child.ask(file=str(path))
    assert answer["kind"] in ((expected,) if expected else ("ok", "bad_database")), answer["text"]
    assert answer["megabytes"] <= MEGABYTES
    assert {p: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before
    is_open = answer["kind"] == "ok"
    steps = [step for table in answer["text"].values() for step in table] if is_open else []
    assert all(step["kind"] in KINDS_OF_STEPS for step in steps), steps
    for text in [step["text"] for step in steps] if is_open else [answer["text"]]:
        assert str(tmp_path) not in text and "CREATE" not in text.upper()


def changed_by_guards(path, queries, limits):
    "Queries over the budget of operations, and those that give other rows than without guards."
    over, wrong = [], []
    unguarded = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    with Database(path, limits) as db:
        for sql in queries:
            try:
                expected = unguarded.execute(sql).fetchall()
            except apsw.Error:
                continue  # gold that does not run has nothing to keep
            try:
                result = db.query(sql)
            except QueryError as e:
                (over if e.kind == "operations" else wrong).append((path.stem, sql, str(e)))
                continue
            if repr(result.rows) != repr(expected) or result.truncated:
                wrong.append((path.stem, sql, "rows"))
    unguarded.close()
    return over, wrong


def test_bundled_gold_runs_unchanged():
    golds = defaultdict(set)
    for question in load("bundled"):
        golds[question.database_name].add(question.gold_sql)
    for name, queries in golds.items():
        assert changed_by_guards(BUNDLED / f"{name}.sqlite", queries, Limits()) == ([], [])


@pytest.mark.slow
def test_spider_gold_runs_unchanged(spider_path):
    "All gold of Spider gives the same rows with and without guards; one query is over the budget of operations."
    golds, over, wrong = defaultdict(set), [], []
    for name in ("dev.json", "train_spider.json"):
        for row in json.loads((spider_path / name).read_text()):
            golds[row["db_id"]].add(row["query"])
    for name, queries in golds.items():
        path = spider_path / "database" / name / f"{name}.sqlite"
        more = changed_by_guards(path, queries, Limits(quoted_text=True)) if path.is_file() else ([], [])
        over, wrong = over + more[0], wrong + more[1]
    assert not wrong, wrong[:5]
    assert len(over) == 1, over


CLOCKS = """SELECT date('now'), datetime(), CURRENT_TIMESTAMP, julianday('now'), strftime('%s %f', 'now'),
    unixepoch('now', 'subsec')"""
# once a hole: the time zone of the machine showed
LOCAL = "SELECT datetime('2024-06-01', 'localtime'), datetime('2024-06-01', 'utc')"
ASK = """
try: print(Database(sys.argv[1]).query(sys.argv[2]).rows)
except QueryError as e: print(e.kind)
"""


def python(code, *args, **env):
    "What a fresh Python prints; fails if it does."
    code = f"import sys\nfrom sql_env.database.database import *\n{code}"
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("sql", [CLOCKS, LOCAL], ids=["now", "localtime"])
def test_clocks_stand_still_everywhere(home, sql):
    runs = [python(ASK, home[0], sql, TZ=zone) for zone in ("UTC", "America/New_York", "Asia/Tokyo")]
    assert runs[0] and len(set(runs)) == 1, runs


# --- What one agent leaves to the next ---
# once a hole: 64 cached statements of nearly 1 MB each filled the heap that all connections share
NEIGHBOUR = f"""db = Database(sys.argv[1])
honest = "WITH {loop(1500)} SELECT count(*) FROM (SELECT DISTINCT printf('%018000d', n) FROM k)"
first = db.query(honest).rows
for i in range(70):
    expression = "||".join(["abs(kilos)"] * 25)
    columns = ",".join(["x"] * 150)
    try: db.query(f"WITH d(x) AS (SELECT {{i}} + {{expression}} FROM animal) SELECT {{columns}} FROM d LIMIT 1")
    except QueryError: pass
assert db.query(honest + " -- again").rows == first"""
# once a hole: 300 MB; the names of 500 statements were kept, however long
OLD_STATEMENTS = """sys.path.insert(0, sys.argv[2])
from attack_process import memory
db = Database(sys.argv[1])
columns = ",".join(["a.*"] * 180)
def ask(i): db.query(f'WITH c("{"A" * 3000}{i}") AS (VALUES (1)) SELECT {columns} FROM c a')
ask(0)
before = memory("VmRSS")
for i in range(490): ask(i)
sys.exit(memory("VmRSS") - before > 100)"""
# once a hole: the heap limit belongs to the process, so an agent's limit also held for the grader
GRADER = f"""agent, grader = Database(sys.argv[1]), Database(sys.argv[1], Limits.gold())
sql = "WITH {loop(6000)} SELECT count(*) FROM (SELECT DISTINCT printf('%018000d', n) FROM k)"
assert grader.query(sql).rows == [(6000,)]"""


@pytest.mark.parametrize("code", [NEIGHBOUR, OLD_STATEMENTS, GRADER], ids=["heap", "names", "limits of gold"])
def test_what_one_agent_leaves_harms_no_other(home, code):
    python(code, home[0], Path(__file__).parent)


SERIES = f"WITH RECURSIVE series{loop(9)[1:].replace(' k ', ' series ')} SELECT count(*) FROM series"
FAIR = [
    pytest.param(SERIES, "ok", id="a name that begins like a module's"),
    pytest.param("SELECT '" + "船" * 1500 + "'", "ok", id="characters are counted, not bytes"),
    pytest.param(doubling(22), "too_long", id="nested"),  # once a hole: "syntax"
    ("SELECT near function function", "syntax"),  # once a hole: "unknown_function"
    ("SELECT near overflow overflow", "syntax"),  # once a hole: "value"
]


@pytest.mark.parametrize("sql,kind", FAIR)
def test_kind_fits(db, sql, kind):
    try:
        found = db.query(sql) and "ok"
    except QueryError as e:
        found = e.kind
    assert found == kind


@pytest.mark.parametrize("name", ["x" * 10**6, *cases("attacks_describe_of_anything")])
def test_describe_of_anything_is_a_clear_error(db, name):
    for action in (db.describe, db.sample):
        with pytest.raises(QueryError) as e:
            action(name)
        assert e.value.kind in ("unknown_table", "bad_type") and len(str(e.value)) < 500
        str(e.value).encode()  # once a hole for a surrogate: the message could not be sent
