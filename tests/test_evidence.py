"What an episode remembers: which values ground an answer, and how much memory it takes."

import gc
import subprocess
import sys
from dataclasses import fields, is_dataclass
from sys import getsizeof
from unittest.mock import Mock

import pytest
from made_sets import bundled
from tables import cases

from sql_env import Episode, EpisodeEnv, Question, QuestionSet, RewardConfig
from sql_env.database.database import Database, build_database
from sql_env.database.guards import EnvironmentFailedError
from sql_env.grading import answers
from sql_env.grading.answers import MAX_RESULT_BYTES, Evidence
from sql_env.play.board import _Board, _ResultOrigin

SCHEMA = "CREATE TABLE pet (id INTEGER PRIMARY KEY, name TEXT, age REAL); CREATE TABLE note (pet_id, long TEXT)"
FOX = "\U0001f98a"
HOSTILE = {
    "long texts": ("QUERY", "SELECT long || {i} FROM note"),
    "many cells": ("QUERY", "SELECT a.id + {i}.5, b.age, a.age, b.id + 1000 FROM pet a, pet b, pet c LIMIT 20000"),
    "many texts": ("QUERY", "SELECT a.name || b.id || {i} FROM pet a, pet b, pet c LIMIT 20000"),
    "answers that can't be read": ("ANSWER", "{i}" + FOX * 100_001),
    "long queries": ("QUERY", "SELECT '" + FOX * 990 + "', {i}"),
    "queries that are too long": ("QUERY", FOX * 99_990 + "{i}"),
    "wide rows": ("QUERY", "SELECT {i}, " + ", ".join(f"long AS x{{i}}{j}" for j in range(150)) + " FROM note LIMIT 4"),
}
QUICK = "answers that can't be read", "long queries", "queries that are too long", "long texts"


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    rows = {"pet": [(i, f"pet {i}", i / 4) for i in range(1, 43)], "note": [(i, FOX * 4980) for i in range(790)]}
    return Database(build_database(tmp_path_factory.mktemp("db") / "pets.sqlite", SCHEMA, rows))


def question(gold=((42,),), sql="SELECT count(*) FROM pet", **more):
    return Question("q1", "How many pets are there?", "pets", sql, gold, **more)


def played(db, *actions, q=None, **settings):
    episode = Episode(q or question(), db, **settings)
    episode.reset(0)
    for action in actions:
        episode.step(*action)
    return episode


def test_a_worker_that_dies_while_an_origin_is_looked_for_is_told(db, monkeypatch):
    "Nobody is paid or refused by a fault of the environment; a statement that fails without rows has no origin."
    board, sql = _Board(db), "SELECT count(*) FROM pet"
    board.evidence.add(db.query(sql), sql)
    assert list(board.result_origin().columns) == [0]
    monkeypatch.setattr(Database, "emptied", Mock(side_effect=[ValueError(), EnvironmentFailedError("gone")]))
    assert board.result_origin() == _ResultOrigin()
    with pytest.raises(EnvironmentFailedError):
        board.result_origin()


@pytest.mark.parametrize("sql", cases("evidence_written"))
def test_a_value_that_a_query_writes_itself_grounds_nothing(db, sql):
    for answer in ("42", "@last"):
        episode = played(db, ("QUERY", sql), ("ANSWER", answer))
        assert not episode.turns[0].error and episode.done and not episode.grounded


@pytest.mark.parametrize("sql", cases("evidence_read"))
def test_a_value_from_a_table_grounds_an_answer(db, sql):
    episode = played(db, ("QUERY", sql), ("ANSWER", "42"))
    assert not episode.turns[0].error and episode.grounded
    assert not played(db, ("QUERY", sql), ("ANSWER", "4242")).grounded


def test_all_gold_queries_ground_their_answers():
    for q in bundled().sample(80, 3):
        episode = played(bundled().database(q.database_name), ("QUERY", q.gold_sql), ("ANSWER", "@last"), q=q)
        assert episode.grounded and episode.correct, q.gold_sql
    q = bundled().get("vet_clinic-05")
    shown = played(bundled().database(q.database_name), ("QUERY", q.gold_sql), q=q).turns[0].result
    episode = played(bundled().database(q.database_name), ("QUERY", q.gold_sql), ("ANSWER", shown), q=q)
    assert episode.correct and episode.grounded, "rows copied with their header"


def test_an_empty_answer_is_grounded_in_a_table_without_such_rows(db):
    empty = "SELECT name FROM pet WHERE id > 99"
    for sql, grounded in ((empty, True), ("SELECT 1 WHERE 0", False), ("SELECT name FROM pet", False)):
        for answer in ("[]", "(no rows)"):
            episode = played(db, ("QUERY", sql), ("ANSWER", answer), q=question((), answer_type="empty"))
            assert episode.correct and episode.grounded is grounded, (sql, answer)


def memory(root) -> int:
    "Bytes of all objects that can be reached from an episode, without the question, the database and types."
    seen, todo, total = set(), [root], 0
    shared = {id(root.question), id(root.database), id(root.config)}
    while todo:
        x = todo.pop()
        if id(x) in seen or id(x) in shared or isinstance(x, (type, type(sys))) or callable(x):
            continue
        seen.add(id(x))
        total += getsizeof(x)
        if is_dataclass(x):
            todo += [getattr(x, f.name) for f in fields(x)]
        todo += gc.get_referents(x)
    return total


@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k in QUICK else pytest.mark.slow) for k in HOSTILE])
def test_an_episode_remembers_two_megabytes_whatever_is_asked(db, kind):
    verb, argument = HOSTILE[kind]
    n = 14 if "texts" not in kind and "cells" not in kind else 3
    actions = [(verb, argument.replace("{i}", str(i)).replace("{{", "{")) for i in range(n)]
    episode = played(db, *actions, reward=RewardConfig.partial())
    assert len(episode.turns) == n and memory(episode) < 2_000_000
    assert len(episode.history) == n and not episode.done
    episode.step("ANSWER", "42")
    assert episode.correct and memory(episode) < 2_000_000


@pytest.mark.slow
def test_mixed_attacks_stay_within_two_megabytes(db):
    actions = [(verb, argument.replace("{i}", str(i))) for i in range(2) for verb, argument in HOSTILE.values()]
    assert memory(played(db, *actions)) < 2_000_000


def test_results_too_large_to_keep_still_answer(db):
    "The last result, the query behind an answer and the values that ground it, though none of the results is kept."
    wide = "SELECT a.id, b.name, c.age FROM pet a, pet b, pet c LIMIT 15000"
    gold = tuple(db.query(wide).rows)
    q = question(gold, wide)
    episode = played(db, ("QUERY", wide))
    assert episode.board.evidence.seen[0].result is None and episode.has_result
    assert episode.last.rows == list(gold) and episode.queries == []
    last = played(db, ("QUERY", wide), ("ANSWER", "@last"), q=q)
    assert last.correct and last.grounded and last.queries[0][0] == wide
    both = [("QUERY", wide), ("QUERY", "SELECT long FROM note"), ("QUERY", "SELECT 777")]
    for answer, grounded in (("pet 3", True), ("8.25", True), ("pet 99", False), ("777", False)):
        assert played(db, *both, ("ANSWER", answer)).grounded is grounded


def test_small_results_are_kept_when_a_large_one_comes(db):
    small = "SELECT count(*) FROM pet"
    episode = played(db, ("QUERY", small), *[("QUERY", f"SELECT long, {i} FROM note") for i in range(4)])
    kept = [seen for seen in episode.board.evidence.seen if seen.result is not None]
    assert [seen.sql for seen in kept] == [small]
    assert sum(seen.size for seen in kept) <= MAX_RESULT_BYTES
    assert (small, db.query(small)) in episode.queries


def test_the_robust_verdict_knows_queries_whose_results_are_not_kept():
    qs = bundled()
    q = next(q for q in qs if len(q.gold_answer) == 1 and len(q.gold_answer[0]) == 1)
    database = qs.database(q.database_name)
    episode = played(database, ("QUERY", q.gold_sql), q=q)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "MAX_RESULT_BYTES", 0)
        episode.step("DESCRIBE", next(iter(database.tables)))
    assert episode.board.evidence.seen[0].result is None or episode.board.evidence.last_seen.result is None
    episode.step("ANSWER", "@last")
    assert episode.correct and episode.robust and episode.grounded


@pytest.mark.slow
def test_reruns_are_few(db, monkeypatch):
    "A verdict asks for at most four forgotten results again."
    wide = "SELECT a.name, {} FROM pet a, pet b, pet c ORDER BY a.name LIMIT 12000"
    episode = played(db, *[("QUERY", wide.format(i)) for i in range(6)])
    asked, query = [], episode.board.evidence.query
    monkeypatch.setattr(episode.board.evidence, "query", lambda sql: asked.append(sql) or query(sql))
    assert len(episode.queries) == len(asked) == 4
    assert Evidence(db).queries_for(((1,),)) == []


SESSIONS = """
import sys
from pathlib import Path
from weakref import ref
from sql_env.play.episode import EpisodeEnv
from sql_env.questions.question_set import Question, QuestionSet

def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

q = Question("q", "?", "pets", "SELECT count(*) FROM pet", ((42,),))
qs = QuestionSet([q], {"pets": sys.argv[1]})
warm = EpisodeEnv(qs)
warm.reset()
warm.step("QUERY", "SELECT long FROM note")
warm.step("QUERY", "SELECT a.id, b.age FROM pet a, pet b, pet c LIMIT 20000")
warm.close()
before, kept = rss(), []
for i in range(64):
    env = EpisodeEnv(qs)
    env.reset()
    for j in range(int(sys.argv[2])):
        kinds = f"SELECT long || {j} FROM note", f"SELECT a.id + {j}.5, b.age FROM pet a, pet b, pet c LIMIT 20000"
        assert not env.step("QUERY", kinds[j % 2]).error
    env.step("QUERY", f"SELECT a.id + {i}.5, b.name || c.id FROM pet a, pet b, pet c LIMIT 3300")
    env.step("QUERY", "SELECT " + ", ".join(f"'{k}{chr(0x1F98A) * 900}' AS c{k}" for k in range(3)))
    for j in range(3):
        assert env.step("ANSWER", str(j) + chr(0x1F98A) * 100_001).error
    kept.append(env)
episodes = [ref(env.episode) for env in kept]
added = rss() - before
for env in kept:
    env.close()
assert not any(episode() for episode in episodes)
print(added, rss() - before)
"""


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_64_hostile_sessions_add_at_most_200_megabytes(db, tell, root):
    run = subprocess.run([sys.executable, "-c", SESSIONS, str(db.path), "4"], cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    added, left = map(float, run.stdout.split())
    tell(f"64 hostile sessions add {added:.0f} MB, {left:.0f} MB are left when they are closed")
    assert left <= added <= 200


def test_closing_forgets_the_episode(db):
    env = EpisodeEnv(QuestionSet([question()], {"pets": db.path}))
    env.reset()
    env.step("QUERY", "SELECT long FROM note")
    env.close()
    assert env.episode is None and env.step("QUERY", "SELECT 1").error.startswith("not_started")
    assert not env.reset().error
