"Faults of one operator or constant that no other test noticed, found by benchmarks/own_mutants.py."

from concurrent.futures import ThreadPoolExecutor
from random import Random

import apsw
import pytest
from tables import cases
from test_cli import sql_env  # noqa: F401

from sql_env import load
from sql_env.database.catalog import middle_key
from sql_env.database.database import Database
from sql_env.database.writing import Change
from sql_env.evaluation.audit import AuditReport, audit_markdown
from sql_env.grading.changes import RowFault, _value_key
from sql_env.grading.variants.columns import _fix_pair
from sql_env.grading.variants.shapes import ReferencePair, read_table_shape
from sql_env.play.episode import EpisodeEnv
from sql_env.play.judges import _judge_abstention
from sql_env.play.session import MAX_MESSAGE_CHARS, Session, _harmless_reasoning
from sql_env.proofs.decision import prove
from sql_env.proofs.facts import create_tables, read_facts
from sql_env.server.app import _load_questions
from sql_env.server.environment import SQLEnvironment, _episode_record
from sql_env.server.limits import Seats
from sql_env.server.mcp_tools import Players
from sql_env.server.settings import Settings
from sql_env.sql.origins import column_origins
from sql_env.sql.writes import leaves_out


def test_small_functions_at_their_limits():
    assert middle_key(1.0, 4.0) == 2.5 and middle_key(1, 2) is None and middle_key(1, 2.5) == 1.75
    # An EXISTS has no name and the tables it reads
    sql = "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.b = t.a) AS there FROM t"
    _, there = column_origins(sql, {"t": ["a"], "u": ["b"]})
    assert there.name == "there" and "u" in there.tables
    # Two references among two keys
    con = apsw.Connection(":memory:")
    con.execute("CREATE TABLE game (home REFERENCES team, away REFERENCES team)")
    shape, row = read_table_shape(con, "game"), [2, 2]
    assert _fix_pair(row, ReferencePair(0, 1, True), shape, [[1, 2]], Random(0)) and row == [1, 2]
    old, new = (1, "Ines"), (1, "Max")
    removed, changed = Change("captain", (1,), old, None), Change("captain", (1,), old, new)
    fault = RowFault("wrong", changed, removed, ("id", "name"))
    assert str(fault) == "captain 1 was removed and should have been changed"


def test_a_reason_may_say_half_of_the_words_of_its_question():
    asked = dict(question_text="Which captain sails Aurora northward in what mood", answerable=False, missing="mood")
    q = load("bundled")[0].with_fields(**asked)
    assert _judge_abstention(q, "No column has the mood of captain Aurora sails").correct  # three of six
    assert not _judge_abstention(q, "No column has the mood of captain Aurora sails northward").correct


def test_values_and_texts_are_compared_and_kept_to_a_length():
    assert _value_key(1.234567891) == _value_key(1.234567894) != _value_key(1.23456788)
    assert len(_harmless_reasoning(dict(reasoning="x" * (MAX_MESSAGE_CHARS + 5)))["reasoning"]) == MAX_MESSAGE_CHARS
    env = EpisodeEnv(load("bundled"))
    env.reset(seed=1)
    seen = env.step("QUERY", f"SELECT '{'x' * 600}'")
    assert len(seen.action_history[-1]) == len(env.episode.history[-1]) == 500
    for looks in (False, True):
        env.reset(question_id="vet_clinic-02")
        if looks:
            env.step("QUERY", env.episode.question.gold_sql)
        env.step("ANSWER", str(env.episode.question.gold_answer[0][0]))
        assert _episode_record(env.episode, "e")["grounded"] is looks and env.episode.correct


def test_a_seat_is_not_taken_away_during_a_call():
    now = [0.0]

    class Slow(SQLEnvironment):
        def counted(self):
            now[0] += 1000
            with ThreadPoolExecutor(1) as pool:  # another client asks for a seat
                pool.submit(players.end_idle).result()
            return super().counted()

    players = Players(Slow, Seats(1), clock=lambda: now[0])
    assert not players.call(Slow, "start", {})[1]
    assert not players.call(Slow, "query", dict(sql="SELECT 1"))[1]
    assert players.seats.taken.total() == 1


@pytest.mark.parametrize("sql, column, place, is_open", cases("small_faults_inserts"))
def test_whether_an_insert_leaves_a_column_open(sql, column, place, is_open):
    assert leaves_out(sql, "t", column, place) is is_open


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_pages_of_every_size_can_be_written(tmp_path, page_size):
    path = tmp_path / "t.sqlite"
    con = apsw.Connection(str(path))
    con.execute(f"PRAGMA page_size = {page_size}; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    con.close()
    with Database(path).writer(["t"]) as copy:
        copy.execute("UPDATE t SET a = 5")
        assert [change.new for change in copy.changes()] == [(5,)]


SINGERS = (
    "CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, age INTEGER NOT NULL, height REAL)",
    "CREATE TABLE band (id INTEGER PRIMARY KEY, age INTEGER NOT NULL)",
)
ALL = "(SELECT age FROM singer UNION ALL SELECT age FROM band)"


@pytest.fixture(scope="module")
def singers():
    return read_facts(create_tables(SINGERS))


def test_these_are_proved_and_a_refutation_shows_its_database(singers):
    for gold, sql in cases("small_faults_these_are_proved"):
        assert prove(gold, sql, singers, tries=0), (gold, sql)
    # Ranks of columns that may be NULL are not
    may_be_null = read_facts(create_tables([table.replace(" NOT NULL", "") for table in SINGERS]))
    gold = f"SELECT age, rank() OVER (ORDER BY age) FROM {ALL}"
    sql = f"SELECT a.age, 1 + (SELECT count(*) FROM {ALL} b WHERE b.age < a.age) FROM {ALL} a"
    assert not prove(gold, sql, may_be_null, tries=0)
    proof = prove("SELECT age FROM singer", "SELECT age + 1 FROM singer", singers)
    assert proof.outcome == "refuted" and proof.reason in proof.words and "singer(" in proof.words


def test_a_line_of_help_an_audit_without_flags_and_a_server_of_as_many_questions_as_it_is_told(sql_env):  # noqa: F811
    assert " -n " in sql_env("serve", "--help").out
    report = AuditReport("x", [load("bundled")[0].with_fields(flags=(), reasons=())])
    assert "No question has a flag." in audit_markdown(report) and "| flag" not in audit_markdown(report)
    assert len(_load_questions(Settings(source="tasks", n=5))) == 5
    for ignored in (
        dict(n=5),
        dict(level=2),
        dict(path="mine", source="bundled"),
    ):  # of bundled, which takes none of them
        with pytest.raises(ValueError, match=f"takes no path|no option '{min(ignored)}'"):
            _load_questions(Settings(**ignored))
    assert Settings(path="mine").source == "folder"


def test_a_fork_that_is_closed_leaves_the_session_it_came_from():
    tasks = load("bundled_tasks")
    task = tasks.get("craft_brewery-t01")
    session = Session(EpisodeEnv(tasks, actions=("EXECUTE",)))
    session.begin(question_id=task.question_id)
    session.episode.step("EXECUTE", task.gold_statements[0])
    fork = session.fork()
    fork.episode.step("EXECUTE", task.gold_statements[0])  # it goes on by itself
    work = fork.episode.work
    fork.close()
    assert session.env.episode is session.episode and work.copy.is_closed and not session.episode.work.copy.is_closed
