"""The episode: its rules sentence by sentence, determinism to the byte, fuzzing, and no gold in any observation."""

import json
import math
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from itertools import product
from random import Random

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from laws import law
from made_sets import bundled
from tables import cases

from sql_env import EpisodeEnv, Limits, Question, QuestionSet, RewardConfig, load
from sql_env.database.database import Database, build_database
from sql_env.grading import answers
from sql_env.grading.answers import format_rows
from sql_env.play.acts import ACTIONS, SCHEMA_LEVELS
from sql_env.play.board import MAX_SCHEMA_CHARS
from sql_env.play.episode import MAX_HISTORY_ACTIONS, Episode, Observation
from sql_env.policies.baselines import HACKS, RandomPolicy, parse_schema_info
from sql_env.sql.text import normalize_sql

REWARDS = {kind: getattr(RewardConfig, kind)() for kind in ("sparse", "shaped", "partial")}
REWARDS["shaped 0.9"] = RewardConfig.shaped(0.9)
DOUBTS = "300 or 301", "about 300", "300%", "There are 300 pets.", "It is 300, not 301.", "300 km"
SCHEMA = """CREATE TABLE Owner (owner_id INTEGER PRIMARY KEY, name TEXT NOT NULL, city VARCHAR(20));
CREATE TABLE pet (pet_id INTEGER PRIMARY KEY, owner_id INTEGER REFERENCES Owner(owner_id), nickname TEXT, weight REAL);
CREATE TABLE "Vet Visit" (visit INTEGER, "Total Cost" NUMERIC, note)"""


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    rows = {
        "Owner": [(i, f"name {i}", None if i == 3 else f"city {i % 4}") for i in range(1, 13)],
        "pet": [(i, i % 12 + 1, f"nick{i}", i / 8) for i in range(300)],
        "Vet Visit": [(1, 2.5, "it's"), (2, None, b"\x00\xff")],
    }
    return Database(build_database(tmp_path_factory.mktemp("db") / "pets.sqlite", SCHEMA, rows))


def question(gold=((300,),), sql="SELECT count(*) FROM pet", **more):
    return Question("q1", "How many pets are there?", "pets", sql, gold, **more)


def start(db, q=None, seed=None, after=(), **settings):
    "An episode after some actions, and what is seen last."
    episode = Episode(q or question(), db, **settings)
    o = episode.reset(seed)
    for action in after:
        o = episode.step(*action)
    return episode, o


def test_fields_actions_and_levels_are_the_contract_and_reset_reveals_question_names_of_tables_and_budget_only(db):
    names = "question schema_info result error step_count budget_remaining action_history done reward"
    assert [f.name for f in fields(Observation)] == names.split()
    assert ACTIONS == ("DESCRIBE", "SAMPLE", "QUERY", "ANSWER")
    assert list(SCHEMA_LEVELS) == ["none", "names", "columns", "full"]
    _, o = start(db)
    assert o.question == "How many pets are there?"
    assert o.schema_info.split("\n") == ["Owner", "pet", "Vet Visit"]
    assert (o.result, o.error, o.step_count, o.action_history, o.done, o.reward) == ("", "", 0, (), False, None)
    assert o.budget_remaining == EpisodeEnv(bundled()).reset(seed=0).budget_remaining == 15


# ---- reset
def test_reset_by_id_or_index_finds_exactly_that_question_and_by_split_and_difficulty_stays_within():
    qs, env = bundled(), EpisodeEnv(bundled())
    for q in qs.sample(20, 1):
        assert env.reset(question_id=q.question_id).question == q.question_text
        assert env.episode.question is q
    for i in (0, len(qs) - 1):
        env.reset(index=i)
        assert env.episode.question is qs[i]
    hard = [q for q in qs if q.split == "test" and q.difficulty == "hard"]
    for i in (0, 3, len(hard) - 1):
        env.reset(index=i, split="test", difficulty="hard", episode_id="mine")
        assert env.episode.question.question_id == hard[i].question_id and env.episode_id == "mine"
    env.reset(seed=1)
    assert env.episode_id != "mine" and env.episode_id
    for split, difficulty in product(("train", "validation", "test"), (None, "easy", "medium", "hard")):
        seen = set()
        for seed in range(30):
            env.reset(seed=seed, split=split, difficulty=difficulty)
            q = env.episode.question
            assert q.split == split and difficulty in (None, q.difficulty)
            seen.add(q.question_id)
        assert len(seen) > 8, "a seed must choose among the questions"


def test_reset_is_deterministic_in_its_seed_and_its_order():
    def ids(*seeds):
        env = EpisodeEnv(bundled())
        return [(env.reset(seed=s), env.episode.question.question_id)[1] for s in seeds]

    seeds = [5, None, None, 7, None, 5, None]
    a = ids(*seeds)
    assert a == ids(*seeds)
    assert a[0] == a[5] and a[1] == a[6], "the same seed begins the same sequence"
    assert ids(*[None] * 5) == ids(*[None] * 5)
    assert len({i for s in range(40) for i in ids(s)}) > 20


@pytest.mark.parametrize("wrong, says", cases("episode_an_unknown_id_says_what_exists"))
def test_an_unknown_id_says_what_exists(wrong, says):
    env = EpisodeEnv(bundled())
    env.reset(seed=3)
    before = env.episode
    if wrong.get("index") == 96:
        wrong = wrong | {"index": len(bundled().split("test"))}
    with pytest.raises((KeyError, IndexError), match=says):
        env.reset(**wrong)
    assert env.episode is before, "a reset that fails changes nothing"


def test_reset_begins_anew_whatever_was_played(db):
    episode, first = start(db, seed=4, reward=RewardConfig.shaped())

    def play():
        actions = ("SAMPLE", "pet"), ("QUERY", "SELECT 1 AS n"), ("SAMPLE", "pet"), ("ANSWER", "@last")
        return [asdict(episode.step(*a)) for a in actions]

    one = play()
    assert episode.reset(4) == first
    assert episode.verdict is None and episode.turns == [] and episode.total_reward == 0
    error = episode.step("ANSWER", "@last").error
    assert error.startswith("unreadable"), "the last result of an earlier episode is gone"
    assert episode.reset(4) == first and play() == one


def test_settings_that_make_no_sense_are_refused_at_once_and_a_step_before_reset_is_an_error(db):
    for wrong in (dict(budget=0), dict(budget=-3), dict(verify="no"), dict(schema_level="all")):
        with pytest.raises(ValueError):
            Episode(question(), db, **wrong).reset()
        with pytest.raises(ValueError):
            EpisodeEnv(bundled(), **wrong).reset(seed=0)
    with pytest.raises(ValueError, match="no questions"):
        EpisodeEnv(bundled().filter(difficulty="nothing"))
    for env in (Episode(question(), db), EpisodeEnv(bundled())):
        o = env.step("DESCRIBE", "pet")
        assert o.done and o.reward == 0 and "reset" in o.error
        assert o == env.step("ANSWER", "300")
    assert not EpisodeEnv(bundled()).reset(seed=0).error


# ---- DESCRIBE and SAMPLE
def test_describe_shows_columns_types_keys_and_the_row_count_and_sample_five_rows_the_same_for_a_seed(db):
    episode, _ = start(db)
    pet = "pet: 300 rows\npet_id INTEGER, primary key\nowner_id INTEGER, references Owner.owner_id"
    assert episode.step("DESCRIBE", "pet").result == f"{pet}\nnickname TEXT\nweight REAL"
    visit = "Vet Visit: 2 rows\nvisit INTEGER\nTotal Cost NUMERIC\nnote"
    assert episode.step("DESCRIBE", "vet visit").result == visit
    stored = db.query("SELECT * FROM pet").rows
    shown = {}
    for seed in (None, 0, 1, 2, 3, 10**30, -5):
        episode, _ = start(db, seed=seed)
        o = episode.step("SAMPLE", "pet")
        lines = o.result.split("\n")
        assert lines[0] == "pet_id | owner_id | nickname | weight" and len(lines) == 6 and not o.error
        rows = set(episode.board.evidence.seen[-1].result.rows)
        assert rows <= set(stored) and len(rows) == 5
        assert episode.step("sample", '"PET"').result == o.result, "and when it is asked again"
        shown[seed] = o.result
    assert shown[None] == shown[0] and len(set(shown.values())) >= 5
    small = "visit | Total Cost | note\n1 | 2.5 | it's\n2 | NULL | x'00ff'"
    assert start(db)[0].step("SAMPLE", "Vet Visit").result == small, "all of a small one"


@pytest.mark.parametrize("name", cases("episode_names"))
@pytest.mark.parametrize("action", ["DESCRIBE", "SAMPLE"])
def test_names_are_case_insensitive_and_may_be_quoted(db, action, name):
    o = start(db)[0].step(action, name)
    shown = "pet(pet_id, owner_id, nickname, weight)", "Vet Visit(visit, Total Cost, note)"
    assert not o.error and set(shown) & set(o.schema_info.split("\n")) == {shown["vet" in name.lower()]}


@pytest.mark.parametrize("action", ["DESCRIBE", "SAMPLE"])
def test_an_unknown_name_is_answered_with_the_nearest_names_or_all(db, action):
    for name, near in (("pets", "pet"), ("owners", "Owner"), ("vet_visit", "Vet Visit"), ("oner", "Owner")):
        o = start(db)[0].step(action, name)
        assert o.error.startswith("unknown_table: ") and f"Did you mean {near}" in o.error and not o.result
    assert "Owner, pet, Vet Visit" in start(db)[0].step(action, "zzzzzz").error
    o = start(db)[0].step("QUERY", "SELECT nicknam FROM pet")
    assert o.error.startswith("unknown_column") and "Did you mean nickname?" in o.error
    assert "Did you mean Owner?" in start(db)[0].step("QUERY", "SELECT * FROM owners").error


# ---- QUERY
@pytest.mark.parametrize("sql", cases("episode_reads"))
def test_reading_statements_are_accepted(db, sql):
    assert not start(db)[0].step("QUERY", sql).error


@pytest.mark.parametrize("sql", cases("episode_all_else_is_refused_and_costs_a"))
def test_all_else_is_refused_and_costs_a_step(db, sql):
    o = start(db)[0].step("QUERY", sql)
    kind = o.error.partition(":")[0]
    assert kind in ("not_read_only", "syntax", "forbidden") and not o.result and o.step_count == 1 and not o.done
    assert db.query("SELECT count(*) FROM pet").rows == [(300,)]


def test_twenty_rows_are_shown_and_how_many_were_cut(db):
    many = {21: "21", 300: "300", 20_000: "20000", 20_001: "20000 or more"}
    for n, said in {1: "", 19: "", 20: "", **many}.items():
        sql = f"WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {n}) SELECT n FROM t"
        cut = [f"... {said} rows, 20 shown"] if said else []
        assert start(db)[0].step("QUERY", sql).result.split("\n") == ["n", *map(str, range(1, min(n, 20) + 1)), *cut]
    assert start(db)[0].step("QUERY", "SELECT nickname FROM pet WHERE 0").result == "nickname\n(no rows)"
    # nor is a result longer than an observation may be
    column = "replace(hex(pet_id) || '{0}', '0', 'some words ') || printf('%250d', pet_id) AS c{0}"
    o = start(db)[0].step("QUERY", f"SELECT {', '.join(column.format(i) for i in range(30))} FROM pet")
    assert not o.error and len(o.result) < 8200 and "cut after 8000 characters" in o.result


@pytest.mark.parametrize("table", cases("episode_catalog_tables"))
def test_the_catalog_is_closed(db, table):
    episode, o = start(db, after=[("QUERY", f"SELECT * FROM {table}")])
    assert o.error and not o.result
    seen = o.error + o.schema_info
    assert not any(c in seen for c in ("pet_id", "nickname", "Total Cost", "city", '.sqlite"', "/"))
    assert episode.step("DESCRIBE", table).error and episode.step("SAMPLE", table).error


# ---- ANSWER
@pytest.mark.parametrize("gold, answer", cases("episode_an_answer_may_be_a_value"))
def test_an_answer_may_be_a_value_a_list_rows_or_json(db, gold, answer):
    episode, o = start(db, question(gold), after=[("ANSWER", answer)])
    assert (o.done, o.reward, o.error, o.step_count) == (True, 1.0, "", 1)
    assert episode.verdict.correct and not episode.grounded


def test_a_wrong_answer_ends_the_episode_pays_nothing_and_is_not_explained(db):
    for answer in ("301", "299.9", "299", "NULL", "[]", "''", "1 | 2", "300 | 300", "300\n300"):
        episode, o = start(db, after=[("ANSWER", answer)])
        assert (o.done, o.reward, episode.verdict.correct) == (True, 0.0, False), answer
        assert (o.result, o.error) == ("The answer was submitted.", ""), answer


def test_last_is_the_full_result_of_the_last_successful_query_and_without_one_an_error_that_does_not_end_it(db):
    sql = "SELECT pet_id, nickname FROM pet"
    episode, o = start(db, question(tuple(db.query(sql).rows), sql), after=[("QUERY", "SELECT 1"), ("QUERY", sql)])
    assert "300 rows, 20 shown" in o.result
    wrong = ("QUERY", "SELECT nope FROM pet"), ("QUERY", "DROP TABLE pet")
    for between in (("DESCRIBE", "pet"), ("SAMPLE", "pet"), *wrong):
        episode.step(*between)
    o = episode.step("ANSWER", "@last")
    assert (o.done, o.reward) == (True, 1.0) and episode.grounded
    for written in ("@last", "@LAST", " @last \n", "`@last`", "@last.", '"@last"', "**@last**."):
        looks = [("QUERY", s) for s in ("SELECT 1", "SELECT count(*) FROM pet")]
        assert start(db, after=[*looks, ("ANSWER", written)])[1].reward == 1.0, written
        played = start(db, after=[*looks, ("ANSWER", written)])[0]
        assert played.grounded and played.robust, "each judge reads it so"
    cut = "SELECT a.pet_id FROM pet a, pet b"
    queries = ([("QUERY", sql)] for sql in ("SELECT nope FROM pet", cut))
    for before in ([], [("DESCRIBE", "pet"), ("SAMPLE", "pet")], *queries):
        episode, o = start(db, after=[*before, ("ANSWER", "@last")])
        assert o.error.startswith("unreadable_answer") and not o.done and o.reward == 0, before
        assert o.step_count == len(before) + 1 and episode.step("ANSWER", "300").reward == 1.0, before


@pytest.mark.parametrize("answer", [*DOUBTS, "", "   ", "\n", "x" * 100_001])
def test_an_answer_in_doubt_or_that_cannot_be_read_is_told_costs_a_step_and_does_not_end(db, answer):
    "The agent learns what to send instead, the same whatever gold is, and may still be right."
    told = set()
    for gold in (((300,),), ((301,),), ((answer,),), (), ((None,),)):
        episode, o = start(db, question(gold), after=[("ANSWER", answer)])
        assert o.error.startswith("unreadable_answer: ") and not o.done and o.step_count == 1
        assert episode.verdict is None and not episode.answered
        told.add((o.error, o.reward))
    assert len(told) == 1 and ("alone" in o.error or answer not in DOUBTS)
    assert start(db, after=[("ANSWER", answer), ("ANSWER", "300")])[1].reward == 1.0


def test_a_text_that_was_seen_is_that_text_and_a_percent_sign_fits_a_question_about_a_share(db):
    "What settles the doubt is what the agent saw itself, or quotes, never gold."
    describe = "DESCRIBE", "pet"
    for gold in ((("2 or more",),), (("1 or more",),), ((2,),)):
        seen = "QUERY", "SELECT '2 or more' UNION SELECT 'x'"
        for before, answer in ((seen, "2 or more"), (describe, "'2 or more'")):
            episode, o = start(db, question(gold), after=[before, ("ANSWER", answer)])
            assert o.done and episode.correct is (gold == (("2 or more",),))
        assert not start(db, question(gold), after=[describe, ("ANSWER", "2 or more")])[1].done
    many, share = "How many are there?", "What percentage is it?"
    for text, sql, done in (
        (share, "SELECT 44.7", 1),
        (share, "SELECT 1", 0),
        (many, "SELECT 44.7 AS share", 1),
        (many, "SELECT 44.7 AS n", 0),
    ):
        q = question(((44.7,),)).with_fields(question_text=text)
        episode, o = start(db, q, after=[("QUERY", sql), ("ANSWER", "44.7%")])
        assert o.done == bool(episode.verdict) == done


def test_grounded_says_whether_the_answer_was_seen_and_order_counts_only_if_gold_says_so(db):
    count = "QUERY", "SELECT count(*) FROM pet"
    seen = (("DESCRIBE", "pet"), "300"), (count, "300"), (count, "@last")
    unseen = (("QUERY", "SELECT 299"), "300"), (("DESCRIBE", "Owner"), "300"), (("QUERY", "SELECT 1"), "@last")
    for look, answer in seen + unseen:
        episode, _ = start(db, after=[look, ("ANSWER", answer)])
        assert episode.grounded is ((look, answer) in seen), (look, answer)
    right = (None, "1, 2, 3"), ((0, 1, 2), "3, 2, 1"), ((0, 1, 1), "3, 1, 2")
    for ranks, answer in (*right, ((0, 1, 2), "1, 2, 3"), ((0, 0, 1), "3, 1, 2")):
        episode, _ = start(db, question(((3,), (2,), (1,)), ranks=ranks), after=[("ANSWER", answer)])
        assert episode.verdict.correct is ((ranks, answer) in right), (ranks, answer)


# ---- the budget
def test_every_action_costs_exactly_one_step_and_out_of_budget_is_done_without_an_answer(db):
    plain = ("DESCRIBE", "pet"), ("SAMPLE", "pet"), ("QUERY", "SELECT 1")
    wrong = ("DESCRIBE", "nope"), ("QUERY", "DROP TABLE pet"), ("ANSWER", ""), ("NOPE", "x"), (None, None)
    for action in plain + wrong:
        episode, _ = start(db, budget=6)
        for i in range(1, 6):
            o = episode.step(*action)
            found = o.step_count, o.budget_remaining, o.done, len(o.action_history)
            assert found == (i, 6 - i, False, i), action
        o = episode.step("ANSWER", "300")
        found = o.step_count, o.budget_remaining, o.done, o.reward
        assert found == (6, 0, True, 1.0), "the last step may be ANSWER"
    answers = (("ANSWER", text) for text in ("", "@last", "about 300"))
    lasts = ("DESCRIBE", "pet"), ("QUERY", "SELECT 300"), ("NOPE", ""), *answers
    for budget, last in product((1, 4), lasts):
        episode, o = start(db, budget=budget, after=[("DESCRIBE", "Owner")] * (budget - 1) + [last])
        assert (o.done, o.budget_remaining, o.reward) == (True, 0, 0.0), last
        assert (episode.verdict.reason, episode.verdict.correct, episode.grounded) == ("no_answer", False, False), last


def snapshot(episode):
    "All that a step could change."
    e = episode.board.evidence
    seen = len(e.seen), e.last_seen, e.size
    turns = [asdict(t) for t in episode.turns]
    graded = episode.verdict, episode.grounded, episode.total_reward
    return episode.steps, episode.done, graded, turns, episode.history, str(episode.schema), seen


@pytest.mark.parametrize("config", REWARDS.values(), ids=REWARDS)
@pytest.mark.parametrize("ending", [[("ANSWER", "300")], [("ANSWER", "1")], [("DESCRIBE", "pet")] * 3])
def test_after_done_nothing_changes_and_nothing_is_paid(db, config, ending):
    episode, end = start(db, reward=config, budget=3, after=ending)
    assert end.done
    before = snapshot(episode)
    answers = (("ANSWER", text) for text in ("300", "1"))
    for a in (("DESCRIBE", "Owner"), ("QUERY", "SELECT 1"), *answers, (None, None), ("", b"x")):
        o = episode.step(*a)
        assert o.error.startswith("episode_over") and o == replace(end, result="", reward=0.0, error=o.error)
    assert before == snapshot(episode)


def test_the_history_is_what_was_done_and_the_argument_may_be_left_out(db):
    _, o = start(db, after=[("describe", "pet"), ("QUERY", "SELECT 1"), ("NOPE", "x")])
    assert o.action_history == ("DESCRIBE pet", "QUERY SELECT 1", "NOPE x")
    assert start(db)[0].step("DESCRIBE").error.startswith("unknown_table")
    for action in (" describe", "Describe", "DESCRIBE\n", "describe"):
        episode, o = start(db, after=[(action, "pet")])
        assert not o.error and episode.turns[0].action == ("DESCRIBE", "pet")


# ---- schema levels
def test_level_none_shows_the_question_only_others_names_of_columns_and_types_keys_and_counts_but_no_values(db):
    episode, o = start(db, schema_level="none")
    assert o.schema_info == ""
    queries = "SELECT * FROM ptes", "SELECT nicknam FROM nope", "SELECT nicknam", "SELECT * FROM sqlite_master"
    for action in (("DESCRIBE", "pe"), ("SAMPLE", "owners"), ("DESCRIBE", ""), *(("QUERY", sql) for sql in queries)):
        o = episode.step(*action)
        assert o.error and o.schema_info == ""
        assert not any(w in o.error.replace(action[1], "") for w in ("pet", "Owner", "Vet", "nickname")), o.error
    pet = episode.step("DESCRIBE", "pet").schema_info
    assert pet == "pet(pet_id, owner_id, nickname, weight)", "what was found out is kept"
    owner, pet, visit = "Owner(owner_id, name, city)", "pet(pet_id, owner_id, nickname, weight)", "Vet Visit: 2 rows"
    _, o = start(db, schema_level="columns")
    assert o.schema_info.split("\n") == [owner, pet, "Vet Visit(visit, Total Cost, note)"]
    episode, o = start(db, schema_level="full")
    keys = "pet_id INTEGER, primary key", "owner_id INTEGER, references Owner.owner_id"
    for part in (pet, "pet: 300 rows", *keys, "city VARCHAR(20)", visit):
        assert part in o.schema_info
    assert episode.step("DESCRIBE", "pet").schema_info == o.schema_info
    for level in SCHEMA_LEVELS:
        assert not any(v in start(db, schema_level=level)[1].schema_info for v in ("nick1", "name 1", "city 1")), level


def test_no_column_is_named_before_its_table_was_described():
    qs, rng = bundled(), Random(3)
    for name in sorted(qs.databases):
        database = qs.database(name)
        columns = {t: [c.name for c in database.columns(t)] for t in database.tables}
        episode, o = start(database, next(q for q in qs if q.database_name == name), budget=40)
        known = set()
        for _ in range(30):
            assert parse_schema_info(o.schema_info) == {t: columns[t] if t in known else [] for t in database.tables}
            assert not any("(" in line for line in o.schema_info.split("\n") if line.partition("(")[0] not in known)
            t = rng.choice(database.tables)
            kind = rng.choice(("DESCRIBE", "SAMPLE", "QUERY", "QUERY"))
            sql = rng.choice([f'SELECT count(*) FROM "{t}"', f"SELECT nope FROM {t}", "SELECT nope"])
            o = episode.step(kind, sql if kind == "QUERY" else t)
            if kind != "QUERY":
                known.add(t)


# ---- determinism
def script(q, database, seed):
    "A fixed random list of actions for a question, with everything that an agent does."
    rng = Random(f"{q.question_id}:{seed}")
    tables = database.tables
    t, u = rng.choice(tables), rng.choice(tables)
    c = rng.choice([c.name for c in database.columns(t)])
    queries = [
        q.gold_sql,
        f'SELECT * FROM "{t}"',
        f"SELECT {c[:-1]}x FROM {t}",
        f'SELECT "{c}", count(*) FROM "{t}" GROUP BY 1 ORDER BY 2 DESC, 1',
        f'SELECT * FROM "{t}", "{u}"' + ("" if rng.random() < 0.1 else " LIMIT 30"),
        "SELECT datetime('now'), 1/3.0, 1e300*1e10",
        "SELECT random()",
        f"SELECT avg(length({c})), group_concat({c}) FROM {t}",
    ]
    if rng.random() < 0.05:
        queries += ["WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT max(n) FROM r"]
    others = [("DESCRIBE", t), ("sample", u), ("SAMPLE", t[:-1]), ("DESCRIBE", "zzz"), ("DESCRIBE", u), ("NOPE", None)]
    answers = [("ANSWER", text) for text in ("", "@last", format_rows(q.gold_answer))]
    return rng.choices([*others, *answers, *(("QUERY", sql) for sql in queries)], k=15)


def play_all(qs, seed=7, order=None, n=24):
    "All observations of `n` episodes, as JSON bytes."
    out = {}
    env = EpisodeEnv(qs, reward=RewardConfig.shaped())
    some = list(qs.sample(n, 11))
    for q in order(some) if order else some:
        o = env.reset(seed=seed, question_id=q.question_id)
        played = script(q, env.episode.database, seed)
        out[q.question_id] = [asdict(o), *(asdict(env.step(*a)) for a in played)]
    return json.dumps(out, sort_keys=True).encode()


def test_same_seed_and_actions_give_the_same_bytes_across_processes_and_hash_seeds():
    here, run = play_all(bundled()), []
    assert len(here) > 80_000
    for h, tz, lang, cwd in (("0", "UTC", "C", "/"), ("4242", "Asia/Tokyo", "C.UTF-8", None)):
        env = os.environ | {"PYTHONHASHSEED": h, "TZ": tz, "LC_ALL": lang}
        run.append(subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, cwd=cwd, env=env))
    for process in run:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0 and out == here


def test_neither_order_nor_threads_nor_what_was_played_before_change_anything():
    here, shared = play_all(bundled(), n=12), load("bundled")  # databases that are not open yet
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: play_all(shared, order=lambda some: some[i:] + some[:i], n=12), range(8)))
    assert all(f == here for f in found)
    assert play_all(load("bundled"), order=lambda some: some[::-1], n=12) == here


# ---- anything may come in
plain = st.sampled_from([*ACTIONS, "describe", " Query ", "answer"])
ODD = 10**5000, -(10**400), math.nan, math.inf, "\ud800", "\0", "x" * 2**20, b"\xff" * 2**20
odd = st.sampled_from([*ODD, object(), {}, Exception("x"), len])
simple = st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=50) | st.text(max_size=50)
junk = simple | st.lists(st.integers(), max_size=3) | st.text(st.characters(), max_size=30) | odd
LONG = "9" * 400, "9" * 5000, "[" + "9" * 400 + "]", "[" * 50_000, "'|" * 20_000, "SELECT " + "(" * 500
sensible = st.one_of(
    st.sampled_from([*cases("episode_sensible"), *LONG]),
    st.text(max_size=40).map(lambda t: f"SELECT '{t}'"),
    st.from_regex(r"SELECT [a-z*]{1,5} FROM (pet|owner)( WHERE [a-z]{1,3} [<>=] '?[0-9a-z]')?", fullmatch=True),
)
action = st.tuples(st.one_of(plain, plain, plain, junk), st.one_of(sensible, sensible, junk))
ONES = [((x,),) for x in (300, 2.5, None, "nick1", b"\x00\xff", 10**18)]
GOLDS = [*ONES, ((1.5, "a"), (math.inf, None)), tuple((i / 3,) for i in range(50))]
PLAIN = dict(gold=GOLDS[0], config=REWARDS["sparse"], level="names", budget=3)
FRACTIONS = PLAIN | dict(gold=GOLDS[-1], config=REWARDS["partial"])


@law(150, suppress_health_check=list(HealthCheck))
@given(
    actions=st.lists(action, min_size=1, max_size=8),
    gold=st.sampled_from(GOLDS),
    config=st.sampled_from(list(REWARDS.values())),
    level=st.sampled_from(list(SCHEMA_LEVELS)),
    budget=st.integers(1, 8),
)
@example(actions=[("QUERY", 10**5000)], **PLAIN)
@example(actions=[(10**5000, "x")], **PLAIN)
@example(actions=[("QUERY", "SELECT '\ud800'")], **PLAIN)
@example(actions=[("DESCRIBE", "\ud800"), ("ANSWER", "\ud800")], **PLAIN)
@example(actions=[("ANSWER", "9" * 400)], **PLAIN | dict(gold=GOLDS[1]))
@example(actions=[("ANSWER", "[" + "9" * 400 + "]")], **PLAIN | dict(gold=GOLDS[1], config=REWARDS["partial"]))
@example(actions=[("QUERY", "SELECT 2.5"), ("ANSWER", "-" + "9" * 380)], **FRACTIONS)
def test_nothing_raises_everything_ends_and_rewards_stay_in_range(db, actions, gold, config, level, budget):
    episode, o = start(db, question(gold), reward=config, schema_level=level, budget=budget)
    low, high = config.range
    for i in range(budget + 2):
        done = o.done
        o = episode.step(*actions[i % len(actions)])
        assert isinstance(o, Observation)
        assert math.isfinite(o.reward) and low - 1e-9 <= o.reward <= high + 1e-9
        assert 0 <= o.step_count <= budget and o.step_count + o.budget_remaining == budget == episode.budget
        assert (o.error or o.result) and not (o.error and o.result)
        assert o.done or not done
        assert len(o.result) < 8200 and len(o.error) < 2500 and all(len(h) <= 500 for h in o.action_history)
        json.dumps(asdict(o), ensure_ascii=False).encode()  # it can be sent
    assert o.done and episode.verdict is not None
    assert abs(episode.total_reward - sum(sum(t.reward.values()) for t in episode.turns)) < 1e-9
    assert "/tmp" not in json.dumps(asdict(o)) and "Traceback" not in json.dumps(asdict(o))


def test_what_cannot_even_be_printed_is_an_error_too(db):
    class Hostile:
        def __str__(self):
            raise RuntimeError("no")

        __repr__ = __hash__ = __str__

    for action in (("QUERY", Hostile()), (Hostile(), "pet"), (Hostile(), Hostile()), ("ANSWER", Hostile())):
        o = start(db)[0].step(*action)
        assert o.error.partition(":")[0] in ("bad_type", "unknown_action") and o.step_count == 1 and not o.done


def test_answers_of_ten_thousand_cells_are_graded_without_comparing_all_pairs(db, monkeypatch):
    episode, _ = start(db, question(tuple((f" {i}a",) for i in range(1, 10_001))))
    calls, equal = [], answers._cells_equal
    monkeypatch.setattr(answers, "_cells_equal", lambda *a, **k: calls.append(1) or equal(*a, **k))
    episode.step("QUERY", "SELECT ' ' || (a.pet_id * 300 + b.pet_id) || 'a' FROM pet a, pet b LIMIT 10000 OFFSET 1")
    o = episode.step("ANSWER", "\n".join(f"{i}a" for i in range(1, 10_001)))
    assert o.done and o.reward == 1 and episode.grounded
    assert len(calls) < 1_000_000


# ---- gold never reaches an observation
def play_with(env, policy, **reset):
    if hasattr(policy, "reset"):
        policy.reset(5)
    o = env.reset(**reset) if isinstance(env, EpisodeEnv) else env.reset(5)
    out, taken = [o], []
    while not o.done:
        action = policy.select_action(o)
        taken.append(action)
        o = env.step(*action)
        out.append(o)
    return out, taken


def test_gold_sql_and_gold_rows_are_in_no_observation():
    def database_text(kind, argument):
        if kind == "DESCRIBE":
            return str(database.describe(argument))
        if kind in ("SAMPLE", "QUERY"):
            return (database.sample(argument, seed=5) if kind == "SAMPLE" else database.query(argument)).text()
        return "The answer was submitted." if kind else ""

    qs = bundled()
    some, players = qs.sample(30, 5), [RandomPolicy(1), RandomPolicy(2)]
    env = EpisodeEnv(qs, reward=RewardConfig.shaped())
    for i, q in enumerate(some):
        rows = [format_rows([row]) for row in q.gold_answer]
        database = qs.database(q.database_name)
        names = {name.lower() for t in database.tables for name in (t, *(c.name for c in database.columns(t)))}
        secrets = {r for r in rows if len(r) > 3 and r.lower() not in names}
        sql = normalize_sql(q.gold_sql)
        for policy in (players[i % 3 % 2], HACKS[i % len(HACKS)], HACKS[(i + 7) % len(HACKS)]):
            observations, taken = play_with(env, policy, seed=5, question_id=q.question_id)
            for o, action in zip(observations, [None, *taken]):
                said = o.schema_info, o.result, o.error
                assert not any(sql in normalize_sql(t) or q.gold_sql in t for t in said)
                expected = "" if o.error else database_text(*(action or (None, "")))
                assert o.result == expected or o.result.startswith(expected[:4000]), "what the database says, no more"
                own_words = action.argument if action else ""
                leaked = [r for r in secrets if (r in o.error or r in o.schema_info) and r not in own_words]
                assert not leaked, (q.question_id, leaked)
            assert observations[-1].action_history == tuple(str(a)[:500] for a in taken)


@pytest.mark.parametrize("level", SCHEMA_LEVELS)
def test_observations_do_not_depend_on_gold(level):
    "The same play on a question with another gold: every byte but the reward is the same."
    qs = bundled()
    rows, more = (("nothing of the kind", 77.25), ("nothing", -1)), dict(tables_involved=("nowhere",), ranks=(0, 1))
    other = dict(gold_sql="SELECT 'nothing of the kind'", gold_answer=rows, difficulty="hard", answer_type="table")
    for i, q in enumerate(qs.sample(24, 9)):
        for policy in (RandomPolicy(i), HACKS[i % len(HACKS)], HACKS[(i + 5) % len(HACKS)]):
            rules = dict(reward=RewardConfig.sparse(), schema_level=level)
            found = [
                play_with(Episode(x, qs.database(q.database_name), **rules), policy)[0]
                for x in (q, replace(q, **other, **more))
            ]
            assert [replace(o, reward=None) for o in found[0]] == [replace(o, reward=None) for o in found[1]]


def test_a_further_episode_costs_little():
    env, q = EpisodeEnv(bundled()), bundled()[0]

    def episode():
        env.reset(question_id=q.question_id)
        for a in (("DESCRIBE", env.episode.database.tables[0]), ("QUERY", "SELECT 1"), ("ANSWER", "1")):
            env.step(*a)
        return env.episode

    episode()
    tracemalloc.start()
    kept = [episode() for _ in range(50)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept) == 50 and size / 50 < 100_000


def test_the_history_of_an_observation_is_bounded_and_the_episode_has_the_whole(db):
    episode, _ = start(db, budget=1001)
    for i in range(1000):
        o = episode.step("QUERY", f"SELECT {i}, '" + "x" * 600 + "'")
        assert len(o.action_history) == min(i + 1, MAX_HISTORY_ACTIONS)
    assert len(json.dumps(asdict(o))) < 40_000
    assert o.action_history == episode.history[-MAX_HISTORY_ACTIONS:]
    assert len(episode.history) == len(episode.turns) == o.step_count == 1000
    assert episode.history[0].startswith("QUERY SELECT 0, 'xx")


def test_the_schema_of_500_tables_is_cut_and_says_so_and_only_what_is_shown_in_full_is_counted(tmp_path, monkeypatch):
    columns = ", ".join(f"a_longer_name_{i} INTEGER" for i in range(10))
    schema = ";".join(f"CREATE TABLE table_number_{i} ({columns})" for i in range(500))
    wide_db = Database(build_database(tmp_path / "wide.sqlite", schema, {"table_number_7": [tuple(range(10))]}))
    for level in SCHEMA_LEVELS:
        episode, o = start(wide_db, schema_level=level)
        assert len(o.schema_info) <= MAX_SCHEMA_CHARS + 200
        lines = o.schema_info.split("\n")
        if level in ("columns", "full"):
            assert "a_longer_name_9" in lines[0] and "table_number_499" in o.schema_info
            assert "are not shown here; DESCRIBE shows them" in lines[-1]
        o = episode.step("DESCRIBE", "table_number_499")
        shown = [line for line in o.schema_info.split("\n") if line.startswith("table_number_499(")]
        assert len(shown) == (level != "full") and len(o.schema_info) <= MAX_SCHEMA_CHARS + 200
        assert "table_number_499" in episode.schema.lines
    # row counts of 500 tables are not asked for when there is room for eighty
    asked, describe = [], Database.describe
    monkeypatch.setattr(Database, "describe", lambda *a, **k: asked.append(a) or describe(*a, **k))
    start(wide_db, schema_level="full")
    assert 20 < len(asked) < 150
    _, o = start(wide_db, budget=500, after=[("DESCRIBE", f"table_number_{i}") for i in range(300)])
    assert len(o.schema_info) <= MAX_SCHEMA_CHARS + 200
    assert "table_number_299(" in o.schema_info and "table_number_0(" not in o.schema_info
    assert "columns of" in o.schema_info and "table_number_0\n" in o.schema_info


@pytest.mark.parametrize("sql, tables", cases("episode_shown", list))
def test_a_query_that_shows_a_table_counts_as_describing_it(db, sql, tables):
    episode, first = start(db, reward=RewardConfig.shaped())
    o = episode.step("QUERY", sql)
    known = [name for name, line in episode.schema.lines.items() if "(" in line]
    assert known == tables
    assert (o.schema_info != first.schema_info) == bool(tables)


def test_looking_by_describe_or_by_a_query_is_worth_the_same_and_once(db):
    def shaping(*after):
        q = question(tables_involved=("pet", "owner"))
        return start(db, q, after=after, reward=RewardConfig.shaped())[0].turns[-1].reward.get("shaping")

    look = "DESCRIBE", "pet"
    assert shaping(look) == shaping(("QUERY", "SELECT * FROM pet WHERE 0")) > 0
    everything = "QUERY", "SELECT * FROM Owner, pet, [Vet Visit] LIMIT 1"
    assert shaping(everything, look) is None, "it was shown already"
    o = start(db, after=[look], reward=RewardConfig.shaped())[1]
    assert not any(w in json.dumps(asdict(o)) for w in ("shaping", "outcome", "repeat"))


# ---- limits and verdicts that can't be made
def test_limits_are_a_setting_of_the_environment_and_small_ones_end_in_an_error(tmp_path):
    qs = bundled()
    q = qs[0]
    tight = EpisodeEnv(qs, limits=Limits(operations=300))
    tight.reset(question_id=q.question_id)
    table = tight.episode.database.tables[0]
    join = f'SELECT count(*) FROM "{table}" a, "{table}" b'
    assert tight.step("QUERY", join).error.startswith("operations")
    plain = EpisodeEnv(qs)
    plain.reset(question_id=q.question_id)
    assert not plain.step("QUERY", join).error and plain.questions is qs
    assert EpisodeEnv(qs, limits=Limits()).questions is qs
    assert tight.questions.limits.operations == 300 and qs.limits == Limits()
    path = build_database(tmp_path / "a.sqlite", "CREATE TABLE t(x)", {"t": [(i,) for i in range(500)]})
    episode, _ = start(Database(path, Limits(operations=2000, rows=10, text=500)), question(((1,),)))
    assert episode.step("QUERY", "SELECT count(*) FROM t a, t b").error.startswith("operations")
    assert "10 or more rows" in episode.step("QUERY", "SELECT x FROM t").result
    assert not episode.step("SAMPLE", "t").error


def test_robust_verdicts_are_never_a_guess_for_want_of_variants_and_none_where_they_can_not_be_judged(tmp_path):
    "A set with a database of tables, one that has but a view, and a gold query without variants."
    path = build_database(tmp_path / "view.sqlite", "CREATE VIEW one AS SELECT 1 AS x", {})
    rows = {"pet": [(i, f"n{i}") for i in range(30)]}
    pets = build_database(tmp_path / "pets.sqlite", "CREATE TABLE pet (id INTEGER, name TEXT)", rows)
    questions = [
        Question("pets-1", "How many pets?", "pets", "SELECT count(*) FROM pet", ((30,),)),
        Question("pets-2", "Which?", "pets", "SELECT nothing FROM pet", ((30,),)),
        Question("view-1", "Which one?", "view", "SELECT x FROM one", ((1,),)),
    ]
    two_databases = QuestionSet(questions, {"pets": pets, "view": path})
    env = EpisodeEnv(two_databases, verify="robust")
    assert [q.question_id for q in env.questions] == ["pets-1", "pets-2"]
    (out,) = env.questions.quarantined
    assert out.flags == ("no_variants",) and out.reason("no_variants")
    fails = "pets-2.*be graded with verify=.*: Gold fails"
    choices = {fails: dict(question_id="pets-2"), "view-1": dict(question_id="view-1"), "be graded": dict(index=1)}
    for says, choice in choices.items():
        with pytest.raises(KeyError, match=says):
            env.reset(**choice)
    assert {env.reset(seed=i).question for i in range(12)} == {"How many pets?"}
    assert env.why_refused(env.questions[1]) and not env.why_refused(env.questions[0])
    env.step("QUERY", "SELECT count(*) FROM pet")
    assert env.step("ANSWER", "30").reward == 1 and env.episode.robust is True
    only = two_databases.filter(database_name="view")
    with pytest.raises(ValueError, match="no question can be graded robustly: "):
        EpisodeEnv(only, verify="robust")
    EpisodeEnv(only).reset()
    env = EpisodeEnv(two_databases)
    env.reset(question_id="pets-2")
    assert env.episode.robust is False, "there is no answer yet"
    env.step("QUERY", "SELECT count(*) FROM pet")
    assert env.step("ANSWER", "@last").reward == 1
    assert env.episode.correct and env.episode.robust is None
    env.reset(question_id="pets-2")
    env.step("ANSWER", "2")
    assert env.episode.robust is False, "a wrong answer is wrong everywhere"
    with pytest.raises(ValueError, match="can't be graded"):
        Episode(two_databases[1], two_databases.database("pets"), verify="robust").reset()


def test_last_and_the_same_text_have_one_verdict(tmp_path):
    "The number 9 for a gold text '9', by value and on variants of the database."
    schema, rows = "CREATE TABLE pet (name TEXT, age VARCHAR)", [("Ada", "3"), ("Bo", "9"), ("Cy", "5")]
    db = Database(build_database(tmp_path / "pets.sqlite", schema, {"pet": rows}))
    q = Question("p", "How old is Bo?", "pets", "SELECT age FROM pet WHERE name = 'Bo'", [("9",)])
    query = "QUERY", "SELECT CAST(age AS INTEGER) FROM pet WHERE name = 'Bo'"
    played = [start(db, q, after=[query, ("ANSWER", answer)])[0] for answer in ("@last", "9", "'9'", "[9]")]
    verdicts = [(episode.correct, episode.robust_verdict.reason) for episode in played]
    assert verdicts[0][0] and len(set(verdicts)) == 1, verdicts


if __name__ == "__main__":
    sys.stdout.buffer.write(play_all(load("bundled")))
