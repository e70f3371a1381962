"""The episode: its rules sentence by sentence, determinism to the byte, fuzzing, and no gold in any observation."""

import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from random import Random

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from laws import law
from made_sets import bundled
from tables import cases

from sql_env import EpisodeEnv, Limits, Question, QuestionSet, RewardConfig, load
from sql_env.database.database import Database, build_database
from sql_env.grading.answers import format_rows
from sql_env.play.acts import ACTIONS, SCHEMA_LEVELS
from sql_env.play.board import MAX_SCHEMA_CHARS
from sql_env.play.episode import MAX_HISTORY_ACTIONS, Episode, Observation
from sql_env.policies.baselines import HACKS, RandomPolicy, most_frequent_answer, parse_schema_info
from sql_env.sql.text import normalize_sql

REWARDS = {
    "sparse": RewardConfig.sparse(),
    "shaped": RewardConfig.shaped(),
    "shaped 0.9": RewardConfig.shaped(0.9),
    "partial": RewardConfig.partial(),
}


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


def start(db, q=None, seed=None, **settings):
    episode = Episode(q or question(), db, **settings)
    return episode, episode.reset(seed)


# ---- the fields of an observation
def test_the_fields_of_an_observation_are_the_contract():
    assert [
        f.name for f in fields(Observation)
    ] == "question schema_info result error step_count budget_remaining action_history done reward".split()


def test_actions_and_levels_are_the_contract():
    assert ACTIONS == ("DESCRIBE", "SAMPLE", "QUERY", "ANSWER")
    assert list(SCHEMA_LEVELS) == ["none", "names", "columns", "full"]


# ---- reset
def test_reset_reveals_the_question_and_the_names_of_tables_only(db):
    _, o = start(db)
    assert o.question == "How many pets are there?"
    assert o.schema_info.split("\n") == ["Owner", "pet", "Vet Visit"]
    assert (o.result, o.error, o.step_count, o.action_history, o.done, o.reward) == ("", "", 0, (), False, None)


def test_the_budget_is_15_by_default(db):
    assert start(db)[1].budget_remaining == 15
    assert EpisodeEnv(bundled()).reset(seed=0).budget_remaining == 15


def test_reset_by_id_finds_exactly_that_question():
    env = EpisodeEnv(bundled())
    for q in bundled().sample(20, 1):
        assert env.reset(question_id=q.question_id).question == q.question_text
        assert env.episode.question is q


def test_reset_by_index_counts_within_split_and_difficulty():
    qs, env = bundled(), EpisodeEnv(bundled())
    env.reset(index=0)
    assert env.episode.question is qs[0]
    env.reset(index=len(qs) - 1)
    assert env.episode.question is qs[len(qs) - 1]
    hard = [q for q in qs if q.split == "test" and q.difficulty == "hard"]
    for i in (0, 3, len(hard) - 1):
        env.reset(index=i, split="test", difficulty="hard")
        assert env.episode.question.question_id == hard[i].question_id


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("difficulty", [None, "easy", "medium", "hard"])
def test_reset_by_split_and_difficulty_stays_within(split, difficulty):
    env, seen = EpisodeEnv(bundled()), set()
    for seed in range(30):
        env.reset(seed=seed, split=split, difficulty=difficulty)
        q = env.episode.question
        assert q.split == split and difficulty in (None, q.difficulty)
        seen.add(q.question_id)
    assert len(seen) > 8, "a seed must choose among the questions"


def test_reset_is_deterministic_in_its_seed_and_its_order():
    def ids(env, seeds):
        return [(env.reset(seed=s), env.episode.question.question_id)[1] for s in seeds]

    seeds = [5, None, None, 7, None, 5, None]
    a, b = ids(EpisodeEnv(bundled()), seeds), ids(EpisodeEnv(bundled()), seeds)
    assert a == b
    assert a[0] == a[5] and a[1] == a[6], "the same seed begins the same sequence"
    assert ids(EpisodeEnv(bundled()), [None] * 5) == ids(EpisodeEnv(bundled()), [None] * 5)
    assert len({i for s in range(40) for i in ids(EpisodeEnv(bundled()), [s])}) > 20


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


def test_reset_keeps_an_episode_id():
    env = EpisodeEnv(bundled())
    env.reset(seed=1, episode_id="mine")
    assert env.episode_id == "mine"
    env.reset(seed=1)
    assert env.episode_id


def test_reset_begins_anew_whatever_was_played(db):
    episode, first = start(db, seed=4, reward=RewardConfig.shaped())

    def play():
        return [
            asdict(episode.step(*a))
            for a in (("SAMPLE", "pet"), ("QUERY", "SELECT 1 AS n"), ("SAMPLE", "pet"), ("ANSWER", "@last"))
        ]

    one = play()
    assert episode.reset(4) == first
    assert episode.verdict is None and episode.turns == [] and episode.total_reward == 0
    assert episode.step("ANSWER", "@last").error.startswith("unreadable"), (
        "the last result of an earlier episode is gone"
    )
    assert episode.reset(4) == first and play() == one


@pytest.mark.parametrize("wrong", [dict(budget=0), dict(budget=-3), dict(verify="no"), dict(schema_level="all")])
def test_settings_that_make_no_sense_are_refused_at_once(db, wrong):
    with pytest.raises(ValueError):
        Episode(question(), db, **wrong).reset()
    with pytest.raises(ValueError):
        EpisodeEnv(bundled(), **wrong).reset(seed=0)


def test_an_empty_set_of_questions_is_refused():
    with pytest.raises(ValueError, match="no questions"):
        EpisodeEnv(bundled().filter(difficulty="nothing"))


# ---- DESCRIBE and SAMPLE
def test_describe_shows_columns_types_keys_and_the_row_count(db):
    episode, _ = start(db)
    assert episode.step("DESCRIBE", "pet").result.split("\n") == [
        "pet: 300 rows",
        "pet_id INTEGER, primary key",
        "owner_id INTEGER, references Owner.owner_id",
        "nickname TEXT",
        "weight REAL",
    ]
    assert episode.step("DESCRIBE", "vet visit").result.split("\n") == [
        "Vet Visit: 2 rows",
        "visit INTEGER",
        "Total Cost NUMERIC",
        "note",
    ]


def test_sample_shows_five_rows_of_the_table_the_same_for_a_seed(db):
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


def test_sample_of_a_small_table_shows_all_of_it(db):
    episode, _ = start(db)
    assert episode.step("SAMPLE", "Vet Visit").result == "visit | Total Cost | note\n1 | 2.5 | it's\n2 | NULL | x'00ff'"


@pytest.mark.parametrize(
    "name",
    [
        "pet",
        "PET",
        "Pet",
        '"pet"',
        "'pet'",
        "`Pet`",
        "[PET]",
        "  pet  ",
        "pet;",
        ' "Pet" ; ',
        "vet visit",
        "[VET VISIT]",
    ],
)
@pytest.mark.parametrize("action", ["DESCRIBE", "SAMPLE"])
def test_names_are_case_insensitive_and_may_be_quoted(db, action, name):
    o = start(db)[0].step(action, name)
    shown = "pet(pet_id, owner_id, nickname, weight)", "Vet Visit(visit, Total Cost, note)"
    assert not o.error and set(shown) & set(o.schema_info.split("\n")) == {shown["vet" in name.lower()]}


@pytest.mark.parametrize("action", [" describe", "Describe", "DESCRIBE\n", "describe"])
def test_action_types_are_case_insensitive(db, action):
    episode, _ = start(db)
    assert not episode.step(action, "pet").error
    assert episode.turns[0].action == ("DESCRIBE", "pet")


@pytest.mark.parametrize("action", ["DESCRIBE", "SAMPLE"])
@pytest.mark.parametrize(
    "name, near", [("pets", "pet"), ("owners", "Owner"), ("vet_visit", "Vet Visit"), ("oner", "Owner")]
)
def test_an_unknown_table_is_answered_with_the_nearest_names(db, action, name, near):
    o = start(db)[0].step(action, name)
    assert o.error.startswith("unknown_table: ") and f"Did you mean {near}" in o.error and not o.result


def test_an_unknown_table_without_a_near_name_is_answered_with_all(db):
    o = start(db)[0].step("DESCRIBE", "zzzzzz")
    assert "Owner, pet, Vet Visit" in o.error


def test_an_unknown_column_is_answered_with_the_nearest_names(db):
    o = start(db)[0].step("QUERY", "SELECT nicknam FROM pet")
    assert o.error.startswith("unknown_column") and "Did you mean nickname?" in o.error
    assert "Did you mean Owner?" in start(db)[0].step("QUERY", "SELECT * FROM owners").error


# ---- QUERY
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "select 1;",
        "WITH t(n) AS (SELECT 3) SELECT n FROM t",
        "VALUES (1, 'a'), (2, NULL)",
        "-- hello\nSELECT 1",
        "/* a */ SELECT 1 /* b */",
        "  \n SELECT 1 ; ",
        "SELECT ';' -- ; \n",
    ],
)
def test_reading_statements_are_accepted(db, sql):
    assert not start(db)[0].step("QUERY", sql).error


@pytest.mark.parametrize("sql", cases("episode_all_else_is_refused_and_costs_a"))
def test_all_else_is_refused_and_costs_a_step(db, sql):
    episode, _ = start(db)
    o = episode.step("QUERY", sql)
    kind = o.error.partition(":")[0]
    assert kind in ("not_read_only", "syntax", "forbidden") and not o.result and o.step_count == 1 and not o.done
    assert db.query("SELECT count(*) FROM pet").rows == [(300,)]


@pytest.mark.parametrize(
    "n, last",
    [
        (1, "1"),
        (19, "19"),
        (20, "20"),
        (21, "... 21 rows, 20 shown"),
        (300, "... 300 rows, 20 shown"),
        (20_000, "... 20000 rows, 20 shown"),
        (20_001, "... 20000 or more rows, 20 shown"),
    ],
)
def test_twenty_rows_are_shown_and_how_many_were_cut(db, n, last):
    o = start(db)[0].step(
        "QUERY", f"WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {n}) SELECT n FROM t"
    )
    lines = o.result.split("\n")
    assert lines[0] == "n" and lines[-1] == last
    assert lines[1:21] == [str(i) for i in range(1, min(n, 20) + 1)] + (
        [last] if n < 20 and lines[-1].startswith("...") else []
    )


def test_no_rows_are_said_in_words(db):
    assert start(db)[0].step("QUERY", "SELECT nickname FROM pet WHERE 0").result == "nickname\n(no rows)"


def test_a_result_is_never_longer_than_an_observation_may_be(db):
    wide = (
        "SELECT "
        + ", ".join(
            f"replace(hex(pet_id) || '{i}', '0', 'some words ') || printf('%250d', pet_id) AS c{i}" for i in range(30)
        )
        + " FROM pet"
    )
    o = start(db)[0].step("QUERY", wide)
    assert not o.error and len(o.result) < 8200 and "cut after 8000 characters" in o.result


# ---- the hidden schema
CATALOG_TABLES = cases("episode_catalog_tables")


@pytest.mark.parametrize("table", CATALOG_TABLES)
def test_the_catalog_is_closed(db, table):
    episode, _ = start(db)
    o = episode.step("QUERY", f"SELECT * FROM {table}")
    assert o.error and not o.result
    seen = o.error + o.schema_info
    assert not any(c in seen for c in ("pet_id", "nickname", "Total Cost", "city", '.sqlite"', "/"))
    assert episode.step("DESCRIBE", table).error and episode.step("SAMPLE", table).error


# ---- ANSWER


@pytest.mark.parametrize("gold, answer", cases("episode_an_answer_may_be_a_value"))
def test_an_answer_may_be_a_value_a_list_rows_or_json(db, gold, answer):
    episode, _ = start(db, question(gold))
    o = episode.step("ANSWER", answer)
    assert (o.done, o.reward, o.error, o.step_count) == (True, 1.0, "", 1)
    assert episode.verdict.correct and not episode.grounded


@pytest.mark.parametrize("answer", ["301", "299.9", "NULL", "[]", "''", "'300'x", "300 | 300", "300\n300"])
def test_a_wrong_answer_ends_the_episode_and_pays_nothing(db, answer):
    episode, _ = start(db)
    o = episode.step("ANSWER", answer)
    assert (o.done, o.reward) == (True, 0.0) and not episode.verdict.correct


def test_last_is_the_full_result_of_the_last_successful_query(db):
    gold = tuple(db.query("SELECT pet_id, nickname FROM pet").rows)
    episode, _ = start(db, question(gold, "SELECT pet_id, nickname FROM pet"))
    assert "300 rows, 20 shown" in episode.step("QUERY", "SELECT pet_id, nickname FROM pet").result
    for between in (
        ("DESCRIBE", "pet"),
        ("SAMPLE", "pet"),
        ("QUERY", "SELECT nope FROM pet"),
        ("QUERY", "DROP TABLE pet"),
    ):
        episode.step(*between)
    o = episode.step("ANSWER", "@last")
    assert (o.done, o.reward) == (True, 1.0) and episode.grounded


@pytest.mark.parametrize("written", ["@last", "@LAST", " @last \n"])
def test_last_may_be_written_loosely(db, written):
    episode, _ = start(db)
    episode.step("QUERY", "SELECT 1")
    episode.step("QUERY", "SELECT count(*) FROM pet")
    assert episode.step("ANSWER", written).reward == 1.0, "the last one is meant, not an earlier one"


@pytest.mark.parametrize(
    "before",
    [
        [],
        [("DESCRIBE", "pet"), ("SAMPLE", "pet")],
        [("QUERY", "SELECT nope FROM pet")],
        [("QUERY", "SELECT a.pet_id FROM pet a, pet b")],  # cut
    ],
)
def test_last_without_a_whole_result_is_an_error_that_does_not_end_the_episode(db, before):
    episode, _ = start(db)
    for a in before:
        episode.step(*a)
    o = episode.step("ANSWER", "@last")
    assert o.error.startswith("unreadable_answer") and not o.done and o.reward == 0 and o.step_count == len(before) + 1
    assert episode.step("ANSWER", "300").reward == 1.0


@pytest.mark.parametrize("answer", ["", "   ", "\n", "x" * 100_001])
def test_an_answer_that_cannot_be_read_costs_a_step_and_does_not_end(db, answer):
    o = start(db)[0].step("ANSWER", answer)
    assert o.error.startswith("unreadable_answer: ") and not o.done and o.step_count == 1


IN_DOUBT = ["300 or 301", "about 300", "300%", "There are 300 pets.", "It is 300, not 301.", "300 km"]


@pytest.mark.parametrize("answer", IN_DOUBT)
def test_an_answer_in_doubt_is_told_costs_a_step_and_does_not_end(db, answer):
    "The agent learns what to send instead, the same whatever gold is, and may still be right."
    told = set()
    for gold in (((300,),), ((301,),), ((answer,),), (), ((None,),)):
        episode, _ = start(db, question(gold))
        o = episode.step("ANSWER", answer)
        assert o.error.startswith("unreadable_answer: ") and not o.done and o.step_count == 1
        assert episode.verdict is None and not episode.answered
        told.add((o.error, o.reward))
    assert len(told) == 1 and "alone" in o.error
    episode, _ = start(db)
    episode.step("ANSWER", answer)
    assert episode.step("ANSWER", "300").reward == 1.0


def test_a_text_that_was_seen_is_that_text(db):
    "What settles the doubt is what the agent saw itself, or quotes, never gold."
    for gold in ((("2 or more",),), (("1 or more",),), ((2,),)):
        right = gold == (("2 or more",),)
        for before, answer in (
            (("QUERY", "SELECT '2 or more' UNION SELECT 'x'"), "2 or more"),
            (("DESCRIBE", "pet"), "'2 or more'"),
        ):
            episode, _ = start(db, question(gold))
            episode.step(*before)
            assert episode.step("ANSWER", answer).done and episode.correct is right
        episode, _ = start(db, question(gold))
        episode.step("DESCRIBE", "pet")
        assert not episode.step("ANSWER", "2 or more").done


def test_a_percent_sign_fits_a_question_about_a_share(db):
    for text, sql, done in (
        ("What percentage is it?", "SELECT 1", True),
        ("How many are there?", "SELECT 44.7 AS share", True),
        ("How many are there?", "SELECT 44.7 AS n", False),
    ):
        q = question(((44.7,),)).with_fields(question_text=text)
        episode, _ = start(db, q)
        episode.step("QUERY", sql)
        assert episode.step("ANSWER", "44.7%").done is done and episode.correct is done


def test_grounded_says_whether_the_answer_was_seen(db):
    for seen, answer, grounded in (
        (("DESCRIBE", "pet"), "300", True),
        (("QUERY", "SELECT count(*) FROM pet"), "300", True),
        (("QUERY", "SELECT 299"), "300", False),
        (("DESCRIBE", "Owner"), "300", False),
        (("QUERY", "SELECT 1"), "@last", False),
        (("QUERY", "SELECT count(*) FROM pet"), "@last", True),
    ):
        episode, _ = start(db)
        episode.step(*seen)
        episode.step("ANSWER", answer)
        assert episode.grounded is grounded, (seen, answer)


def test_order_counts_only_if_gold_says_so(db):
    gold = ((3,), (2,), (1,))
    for ranks, answer, right in (
        (None, "1, 2, 3", True),
        ((0, 1, 2), "1, 2, 3", False),
        ((0, 1, 2), "3, 2, 1", True),
        ((0, 1, 1), "3, 1, 2", True),
        ((0, 0, 1), "3, 1, 2", False),
    ):
        episode, _ = start(db, question(gold, ranks=ranks))
        episode.step("ANSWER", answer)
        assert episode.verdict.correct is right, (ranks, answer)


# ---- the budget
@pytest.mark.parametrize(
    "action",
    [
        ("DESCRIBE", "pet"),
        ("SAMPLE", "pet"),
        ("QUERY", "SELECT 1"),
        ("DESCRIBE", "nope"),
        ("QUERY", "DROP TABLE pet"),
        ("ANSWER", ""),
        ("NOPE", "x"),
        (None, None),
    ],
)
def test_every_action_costs_exactly_one_step(db, action):
    episode, _ = start(db, budget=6)
    for i in range(1, 6):
        o = episode.step(*action)
        assert (o.step_count, o.budget_remaining, o.done, len(o.action_history)) == (i, 6 - i, False, i)
    o = episode.step("ANSWER", "300")
    assert (o.step_count, o.budget_remaining, o.done, o.reward) == (6, 0, True, 1.0), "the last step may be ANSWER"


@pytest.mark.parametrize(
    "last",
    [("DESCRIBE", "pet"), ("QUERY", "SELECT 300"), ("NOPE", ""), *(("ANSWER", t) for t in ("", "@last", "about 300"))],
)
@pytest.mark.parametrize("budget", [1, 4])
def test_out_of_budget_is_done_without_an_answer(db, last, budget):
    episode, _ = start(db, budget=budget)
    for _ in range(budget - 1):
        episode.step("DESCRIBE", "Owner")
    o = episode.step(*last)
    assert (o.done, o.budget_remaining, o.reward) == (True, 0, 0.0)
    assert episode.verdict.reason == "no_answer" and not episode.verdict.correct and not episode.grounded


@pytest.mark.parametrize("config", REWARDS.values(), ids=REWARDS)
@pytest.mark.parametrize("ending", [[("ANSWER", "300")], [("ANSWER", "1")], [("DESCRIBE", "pet")] * 3])
def test_after_done_nothing_changes_and_nothing_is_paid(db, config, ending):
    episode, _ = start(db, reward=config, budget=3)
    for a in ending:
        end = episode.step(*a)
    assert end.done
    before = (
        episode.verdict,
        episode.grounded,
        [asdict(t) for t in episode.turns],
        episode.total_reward,
        episode.steps,
        str(episode.schema),
        len(episode.board.evidence.seen),
    )
    for a in (
        ("DESCRIBE", "Owner"),
        ("QUERY", "SELECT 1"),
        ("ANSWER", "300"),
        ("ANSWER", "1"),
        (None, None),
        ("", b"x"),
    ):
        o = episode.step(*a)
        assert o.done and o.reward == 0 and o.error.startswith("episode_over") and not o.result
        assert (o.step_count, o.budget_remaining, o.action_history, o.schema_info) == (
            end.step_count,
            end.budget_remaining,
            end.action_history,
            end.schema_info,
        )
    assert before == (
        episode.verdict,
        episode.grounded,
        [asdict(t) for t in episode.turns],
        episode.total_reward,
        episode.steps,
        str(episode.schema),
        len(episode.board.evidence.seen),
    )


def test_step_before_reset_is_an_error_not_an_exception(db):
    for env in (Episode(question(), db), EpisodeEnv(bundled())):
        o = env.step("DESCRIBE", "pet")
        assert o.done and o.reward == 0 and "reset" in o.error
        assert o == env.step("ANSWER", "300")
    assert not EpisodeEnv(bundled()).reset(seed=0).error


def test_the_history_is_what_was_done(db):
    episode, _ = start(db)
    episode.step("describe", "pet")
    episode.step("QUERY", "SELECT 1")
    assert episode.step("NOPE", "x").action_history == ("DESCRIBE pet", "QUERY SELECT 1", "NOPE x")


def test_the_argument_may_be_left_out(db):
    assert start(db)[0].step("DESCRIBE").error.startswith("unknown_table")


# ---- schema levels
def test_level_none_shows_nothing_but_the_question(db):
    episode, o = start(db, schema_level="none")
    assert o.schema_info == ""
    for action in (
        ("DESCRIBE", "pe"),
        ("SAMPLE", "owners"),
        ("QUERY", "SELECT * FROM ptes"),
        ("QUERY", "SELECT nicknam FROM nope"),
        ("QUERY", "SELECT nicknam"),
        ("DESCRIBE", ""),
        ("QUERY", "SELECT * FROM sqlite_master"),
    ):
        o = episode.step(*action)
        words = o.error.replace(action[1], "")
        assert o.error and o.schema_info == "" and not any(w in words for w in ("pet", "Owner", "Vet", "nickname")), (
            o.error
        )
    assert episode.step("DESCRIBE", "pet").schema_info == "pet(pet_id, owner_id, nickname, weight)", (
        "what was found out is kept"
    )


def test_level_columns_shows_names_of_tables_and_columns(db):
    _, o = start(db, schema_level="columns")
    assert o.schema_info.split("\n") == [
        "Owner(owner_id, name, city)",
        "pet(pet_id, owner_id, nickname, weight)",
        "Vet Visit(visit, Total Cost, note)",
    ]


def test_level_full_shows_types_keys_and_row_counts(db):
    episode, o = start(db, schema_level="full")
    text = o.schema_info
    for part in (
        "pet(pet_id, owner_id, nickname, weight)",
        "pet: 300 rows",
        "pet_id INTEGER, primary key",
        "owner_id INTEGER, references Owner.owner_id",
        "city VARCHAR(20)",
        "Vet Visit: 2 rows",
    ):
        assert part in text
    assert episode.step("DESCRIBE", "pet").schema_info == text


@pytest.mark.parametrize("level", SCHEMA_LEVELS)
def test_no_level_shows_values(db, level):
    assert not any(v in start(db, schema_level=level)[1].schema_info for v in ("nick1", "name 1", "city 1"))


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
            o = episode.step(
                kind,
                rng.choice([f'SELECT count(*) FROM "{t}"', f"SELECT nope FROM {t}", "SELECT nope"])
                if kind == "QUERY"
                else t,
            )
            if kind != "QUERY":
                known.add(t)


# ---- determinism
def script(q, database, seed):
    "A fixed random list of actions for a question, with everything that an agent does."
    rng = Random(f"{q.question_id}:{seed}")
    tables = database.tables
    t, u = rng.choice(tables), rng.choice(tables)
    c = rng.choice([c.name for c in database.columns(t)])
    choices = [
        ("DESCRIBE", t),
        ("sample", u),
        ("SAMPLE", t[:-1]),
        ("DESCRIBE", "zzz"),
        ("QUERY", q.gold_sql),
        ("QUERY", f'SELECT * FROM "{t}"'),
        ("QUERY", f"SELECT {c[:-1]}x FROM {t}"),
        ("QUERY", f'SELECT "{c}", count(*) FROM "{t}" GROUP BY 1 ORDER BY 2 DESC, 1'),
        ("QUERY", f'SELECT * FROM "{t}", "{u}"' + ("" if rng.random() < 0.1 else " LIMIT 30")),
        ("QUERY", "SELECT datetime('now'), 1/3.0, 1e300*1e10"),
        ("QUERY", "SELECT random()"),
        ("QUERY", f"SELECT avg(length({c})), group_concat({c}) FROM {t}"),
        ("ANSWER", ""),
        ("ANSWER", "@last"),
        ("ANSWER", format_rows(q.gold_answer)),
        ("NOPE", None),
        ("QUERY", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT max(n) FROM r")
        if rng.random() < 0.05
        else ("DESCRIBE", u),
    ]
    return [choices[min(int(rng.random() * len(choices)), len(choices) - 1)] for _ in range(15)]


def play_all(qs, seed=7, order=None, n=24):
    "All observations of `n` episodes, as JSON bytes."
    out = {}
    env = EpisodeEnv(qs, reward=RewardConfig.shaped())
    some = list(qs.sample(n, 11))
    for q in order(some) if order else some:
        o = env.reset(seed=seed, question_id=q.question_id)
        seen = [asdict(o)]
        for a in script(q, env.episode.database, seed):
            seen.append(asdict(env.step(*a)))
        out[q.question_id] = seen
    return json.dumps(out, sort_keys=True).encode()


def test_same_seed_and_actions_give_the_same_bytes_across_processes_and_hash_seeds():
    here = play_all(bundled())
    assert len(here) > 80_000
    run = [
        subprocess.Popen(
            [sys.executable, __file__],
            stdout=subprocess.PIPE,
            cwd=cwd,
            env=os.environ | {"PYTHONHASHSEED": h, "TZ": tz, "LC_ALL": lang},
        )
        for h, tz, lang, cwd in (("0", "UTC", "C", "/"), ("4242", "Asia/Tokyo", "C.UTF-8", None))
    ]
    for process in run:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0 and out == here


def test_the_order_of_episodes_and_what_was_played_before_change_nothing():
    qs = load("bundled")  # databases that are not open yet
    assert play_all(qs, order=lambda some: some[::-1], n=12) == play_all(qs, n=12) == play_all(bundled(), n=12)


def test_threads_that_share_databases_give_the_same_bytes():
    here, shared = play_all(bundled(), n=10), load("bundled")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: play_all(shared, order=lambda some: some[i:] + some[:i], n=10), range(8)))
    assert all(f == here for f in found)


# ---- steps that are certain to be brief
def snapshot(episode):
    "All that a step could change."
    e = episode.board.evidence
    seen = len(e.seen), e.last_seen, e.cells
    return (
        episode.steps,
        episode.done,
        episode.verdict,
        len(episode.turns),
        episode.history,
        str(episode.schema),
        seen,
    )


def test_a_step_that_is_tried_is_the_same_step_or_none():
    qs = bundled()
    outcomes = {"taken": 0, "missed": 0}
    for q in qs.sample(40, 3):
        database = qs.database(q.database_name)
        plain, tried = (Episode(q, database, reward=RewardConfig.shaped()) for _ in range(2))
        plain.reset(7), tried.reset(7)
        for action in script(q, database, 7):
            before = snapshot(tried)
            o = tried.try_step(*action)
            outcomes["missed" if o is None else "taken"] += 1
            if o is None:
                assert snapshot(tried) == before
                o = tried.step(*action)
            assert o == plain.step(*action)
        assert [asdict(t) for t in plain.turns] == [asdict(t) for t in tried.turns]
    assert outcomes["taken"] > 100 and outcomes["missed"] > 50, outcomes


@pytest.mark.parametrize(
    "action, settings",
    [
        (("ANSWER", "1, " * 100), {}),
        (("ANSWER", "300"), dict(verify="robust")),
        (("QUERY", "SELECT " + "1 + " * 200 + "1"), {}),
        (("QUERY", "SELECT count(*) FROM pet a, pet b, pet c"), {}),
        (("DESCRIBE", "x" * 10_000), {}),
    ],
)
def test_what_may_take_long_is_not_tried(db, action, settings):
    episode, _ = start(db, **settings)
    assert episode.try_step(*action) is None
    assert episode.steps == 0 and not episode.turns


# ---- anything may come in
plain = st.sampled_from([*ACTIONS, "describe", " Query ", "answer"])
junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=50),
    st.text(max_size=50),
    st.lists(st.integers(), max_size=3),
    st.text(st.characters(), max_size=30),
    st.sampled_from(
        [
            10**5000,
            -(10**400),
            float("nan"),
            float("inf"),
            "\ud800",
            "\0",
            "x" * 2**20,
            b"\xff" * 2**20,
            object(),
            {},
            Exception("x"),
            len,
        ]
    ),
)
sensible = st.one_of(
    st.sampled_from(
        [
            "pet",
            "Owner",
            "Vet Visit",
            "@last",
            "300",
            "SELECT * FROM pet",
            "SELECT nope FROM pet",
            "SELECT 1",
            "SELECT '\ud800'",
            "SELECT 9223372036854775807 + 1",
            "9" * 400,
            "9" * 5000,
            "[" + "9" * 400 + "]",
            "-1e999",
            "nan",
            "Infinity",
            "[" * 50_000,
            '{"a": [1, {"b": 2}]}',
            "1e400",
            "'|" * 20_000,
            "١٢٣",
            "0x10",
            "1_000",
            "SELECT " + "(" * 500,
            "SELECT 1e999",
            "SELECT x'00ff', NULL, ''",
            "VALUES (1)",
            "SELECT * FROM pet a, pet b, pet c, pet d",
            "🦊",
            "SELECT '🦊' AS 狐",
        ]
    ),
    st.text(max_size=40).map(lambda t: f"SELECT '{t}'"),
    st.from_regex(r"SELECT [a-z*]{1,5} FROM (pet|owner)( WHERE [a-z]{1,3} [<>=] '?[0-9a-z]')?", fullmatch=True),
)
actions = st.lists(
    st.tuples(st.one_of(plain, plain, plain, junk), st.one_of(sensible, sensible, junk)), min_size=1, max_size=8
)
GOLDS = [
    ((300,),),
    ((2.5,),),
    ((None,),),
    (("nick1",),),
    ((b"\x00\xff",),),
    ((1.5, "a"), (float("inf"), None)),
    ((10**18,),),
    tuple((i / 3,) for i in range(50)),
]


class Hostile:
    "An object that can't even be printed."

    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __hash__ = __str__


@law(150, suppress_health_check=list(HealthCheck))
@given(
    actions=actions,
    gold=st.sampled_from(GOLDS),
    config=st.sampled_from(list(REWARDS.values())),
    level=st.sampled_from(list(SCHEMA_LEVELS)),
    budget=st.integers(1, 8),
)
@example(actions=[("QUERY", 10**5000)], gold=GOLDS[0], config=REWARDS["sparse"], level="names", budget=3)
@example(actions=[(10**5000, "x")], gold=GOLDS[0], config=REWARDS["sparse"], level="names", budget=3)
@example(actions=[("QUERY", "SELECT '\ud800'")], gold=GOLDS[0], config=REWARDS["sparse"], level="names", budget=3)
@example(
    actions=[("DESCRIBE", "\ud800"), ("ANSWER", "\ud800")],
    gold=GOLDS[0],
    config=REWARDS["sparse"],
    level="names",
    budget=3,
)
@example(actions=[("ANSWER", "9" * 400)], gold=GOLDS[1], config=REWARDS["sparse"], level="names", budget=3)
@example(actions=[("ANSWER", "[" + "9" * 400 + "]")], gold=GOLDS[1], config=REWARDS["partial"], level="names", budget=3)
@example(
    actions=[("QUERY", "SELECT 2.5"), ("ANSWER", "-" + "9" * 380)],
    gold=GOLDS[7],
    config=REWARDS["partial"],
    level="names",
    budget=3,
)
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


@pytest.mark.parametrize(
    "action", [("QUERY", Hostile()), (Hostile(), "pet"), (Hostile(), Hostile()), ("ANSWER", Hostile())]
)
def test_what_cannot_even_be_printed_is_an_error_too(db, action):
    o = start(db)[0].step(*action)
    assert o.error.partition(":")[0] in ("bad_type", "unknown_action") and o.step_count == 1 and not o.done


def test_answers_of_ten_thousand_cells_are_graded_without_comparing_all_pairs(db, monkeypatch):
    from sql_env.grading import answers

    episode, _ = start(db, question(tuple((f" {i}a",) for i in range(1, 10_001))))
    calls, equal = [], answers._cells_equal
    monkeypatch.setattr(answers, "_cells_equal", lambda *a, **k: calls.append(1) or equal(*a, **k))
    episode.step("QUERY", "SELECT ' ' || (a.pet_id * 300 + b.pet_id) || 'a' FROM pet a, pet b LIMIT 10000 OFFSET 1")
    o = episode.step("ANSWER", "\n".join(f"{i}a" for i in range(1, 10_001)))
    assert o.done and o.reward == 1 and episode.grounded
    assert len(calls) < 1_000_000


# ---- gold never reaches an observation
def texts(o):
    "What an observation says beyond the question and the agent's own words."
    return o.schema_info, o.result, o.error


def players(qs):
    return [RandomPolicy(1), RandomPolicy(2), *HACKS, most_frequent_answer(qs)]


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


def database_text(database, action):
    "What the database itself says to an action."
    if action is None:
        return ""
    kind, argument = action
    if kind == "DESCRIBE":
        return str(database.describe(argument))
    if kind == "SAMPLE":
        return database.sample(argument, seed=5).text()
    if kind == "QUERY":
        return database.query(argument).text()
    return "The answer was submitted."


def schema_names(database):
    "Names of tables and columns, lower case."
    columns = [c.name for t in database.tables for c in database.columns(t)]
    return {name.lower() for name in (*database.tables, *columns)}


def test_gold_sql_and_gold_rows_are_in_no_observation():
    qs = bundled()
    env, some = EpisodeEnv(qs, reward=RewardConfig.shaped()), qs.sample(30, 5)
    for i, q in enumerate(some):
        rows = [format_rows([row]) for row in q.gold_answer]
        secrets = {r for r in rows if len(r) > 3 and r.lower() not in schema_names(qs.database(q.database_name))}
        sql = normalize_sql(q.gold_sql)
        for policy in (players(qs)[i % 3 % 2], HACKS[i % len(HACKS)], HACKS[(i + 7) % len(HACKS)]):
            observations, taken = play_with(env, policy, seed=5, question_id=q.question_id)
            for o, action in zip(observations, [None, *taken]):
                assert not any(sql in normalize_sql(t) or q.gold_sql in t for t in texts(o))
                expected = "" if o.error else database_text(env.episode.database, action)
                assert o.result == expected or o.result.startswith(expected[:4000]), (
                    "a result is what the database says, no more"
                )
                own_words = action.argument if action else ""
                leaked = [r for r in secrets if (r in o.error or r in o.schema_info) and r not in own_words]
                assert not leaked, (q.question_id, leaked)
            assert observations[-1].action_history == tuple(str(a)[:500] for a in taken)


@pytest.mark.parametrize("level", SCHEMA_LEVELS)
def test_observations_do_not_depend_on_gold(level):
    "The same play on a question with another gold: every byte but the reward is the same."
    qs = bundled()
    for i, q in enumerate(qs.sample(24, 9)):
        fake = replace(
            q,
            gold_sql="SELECT 'nothing of the kind'",
            gold_answer=(("nothing of the kind", 77.25), ("nothing", -1)),
            tables_involved=("nowhere",),
            ranks=(0, 1),
            difficulty="hard",
            answer_type="table",
        )
        for policy in (RandomPolicy(i), HACKS[i % len(HACKS)], HACKS[(i + 5) % len(HACKS)]):
            plays = [
                play_with(
                    Episode(x, qs.database(q.database_name), reward=RewardConfig.sparse(), schema_level=level), policy
                )[0]
                for x in (q, fake)
            ]
            assert [replace(o, reward=None) for o in plays[0]] == [replace(o, reward=None) for o in plays[1]]


def test_the_breakdown_of_rewards_is_not_in_an_observation(db):
    episode, _ = start(db, reward=RewardConfig.shaped())
    o = episode.step("QUERY", "SELECT count(*) FROM pet")
    assert "shaping" in episode.turns[-1].reward
    assert not any(w in json.dumps(asdict(o)) for w in ("shaping", "outcome", "repeat"))


def test_a_wrong_answer_is_not_explained(db):
    for answer in ("299", "1 | 2", "[]", "300\n300"):
        assert start(db)[0].step("ANSWER", answer).result == "The answer was submitted."
        assert start(db)[0].step("ANSWER", answer).error == ""


# ---- memory
def test_a_further_episode_costs_little():
    import tracemalloc

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


def test_small_limits_end_in_an_error_not_in_an_exception(tmp_path):
    path = build_database(tmp_path / "a.sqlite", "CREATE TABLE t(x)", {"t": [(i,) for i in range(500)]})
    episode, _ = start(Database(path, Limits(operations=2000, rows=10, text=500)), question(((1,),)))
    assert episode.step("QUERY", "SELECT count(*) FROM t a, t b").error.startswith("operations")
    assert "10 or more rows" in episode.step("QUERY", "SELECT x FROM t").result
    assert not episode.step("SAMPLE", "t").error


# ---- observations stay small
def test_the_history_of_an_observation_is_bounded_and_the_episode_has_the_whole(db):
    episode, _ = start(db, budget=1001)
    for i in range(1000):
        o = episode.step("QUERY", f"SELECT {i}, '" + "x" * 600 + "'")
        assert len(o.action_history) == min(i + 1, MAX_HISTORY_ACTIONS)
    assert len(json.dumps(asdict(o))) < 40_000
    assert o.action_history == episode.history[-MAX_HISTORY_ACTIONS:]
    assert len(episode.history) == len(episode.turns) == o.step_count == 1000
    assert episode.history[0].startswith("QUERY SELECT 0, 'xx")


@pytest.fixture(scope="module")
def wide_db(tmp_path_factory):
    "500 tables of ten columns, and one row in each."
    columns = ", ".join(f"a_longer_name_{i} INTEGER" for i in range(10))
    schema = ";".join(f"CREATE TABLE table_number_{i} ({columns})" for i in range(500))
    path = tmp_path_factory.mktemp("wide") / "wide.sqlite"
    return Database(build_database(path, schema, {"table_number_7": [tuple(range(10))]}))


@pytest.mark.parametrize("level", SCHEMA_LEVELS)
def test_the_schema_of_500_tables_is_cut_and_says_so(wide_db, level):
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


def test_only_what_is_shown_in_full_is_counted(wide_db, monkeypatch):
    "Row counts of 500 tables are not asked for when there is room for eighty."
    asked, describe = [], Database.describe
    monkeypatch.setattr(Database, "describe", lambda *a, **k: asked.append(a) or describe(*a, **k))
    start(wide_db, schema_level="full")
    assert 20 < len(asked) < 150


def test_many_described_tables_stay_within_the_room(wide_db):
    episode, _ = start(wide_db, budget=500)
    for i in range(300):
        o = episode.step("DESCRIBE", f"table_number_{i}")
    assert len(o.schema_info) <= MAX_SCHEMA_CHARS + 200
    assert "table_number_299(" in o.schema_info and "table_number_0(" not in o.schema_info
    assert "columns of" in o.schema_info and "table_number_0\n" in o.schema_info


# ---- a query that shows a table
ALL = "SELECT * FROM Owner, pet, [Vet Visit] LIMIT 1"
SHOWN = cases("episode_shown", list)


@pytest.mark.parametrize("sql, tables", SHOWN)
def test_a_query_that_shows_a_table_counts_as_describing_it(db, sql, tables):
    episode, first = start(db, reward=RewardConfig.shaped())
    o = episode.step("QUERY", sql)
    known = [name for name, line in episode.schema.lines.items() if "(" in line]
    assert known == tables
    assert (o.schema_info != first.schema_info) == bool(tables)


def test_looking_by_describe_or_by_a_query_is_worth_the_same(db):
    q = question(tables_involved=("pet", "owner"))
    shaping = []
    for action in (("DESCRIBE", "pet"), ("QUERY", "SELECT * FROM pet WHERE 0")):
        episode, _ = start(db, q, reward=RewardConfig.shaped())
        episode.step(*action)
        shaping.append(episode.turns[-1].reward["shaping"])
    assert shaping[0] == shaping[1] > 0
    episode, _ = start(db, q, reward=RewardConfig.shaped())
    episode.step("QUERY", ALL)
    episode.step("DESCRIBE", "pet")
    assert "shaping" not in episode.turns[-1].reward, "it was shown already"


# ---- limits and verdicts that can't be made
def test_limits_are_a_setting_of_the_environment():
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


@pytest.fixture
def two_databases(tmp_path, db):
    "A set with a database of tables, one that has but a view, and a gold query without variants."
    path = build_database(tmp_path / "view.sqlite", "CREATE VIEW one AS SELECT 1 AS x", {})
    rows = {"pet": [(i, f"n{i}") for i in range(30)]}
    pets = build_database(tmp_path / "pets.sqlite", "CREATE TABLE pet (id INTEGER, name TEXT)", rows)
    questions = [
        Question("pets-1", "How many pets?", "pets", "SELECT count(*) FROM pet", ((30,),)),
        Question("pets-2", "Which?", "pets", "SELECT nothing FROM pet", ((30,),)),
        Question("view-1", "Which one?", "view", "SELECT x FROM one", ((1,),)),
    ]
    return QuestionSet(questions, {"pets": pets, "view": path})


def test_robust_verdicts_are_never_a_guess_for_want_of_variants(two_databases):
    env = EpisodeEnv(two_databases, verify="robust")
    assert [q.question_id for q in env.questions] == ["pets-1", "pets-2"]
    (out,) = env.questions.quarantined
    assert out.flags == ("no_variants",) and out.reason("no_variants")
    with pytest.raises(KeyError, match="pets-2.*be graded with verify=.*: Gold fails"):
        env.reset(question_id="pets-2")
    with pytest.raises(KeyError, match="view-1"):
        env.reset(question_id="view-1")
    with pytest.raises(KeyError, match="be graded"):
        env.reset(index=1)
    assert {env.reset(seed=i).question for i in range(12)} == {"How many pets?"}
    assert env.why_refused(env.questions[1]) and not env.why_refused(env.questions[0])
    env.step("QUERY", "SELECT count(*) FROM pet")
    assert env.step("ANSWER", "30").reward == 1 and env.episode.robust is True
    assert not env.sampler.is_ready(question_id="pets-1"), "variants may have to be made"


def test_a_set_without_any_variants_is_refused_with_the_reason(two_databases):
    only = two_databases.filter(database_name="view")
    with pytest.raises(ValueError, match="no question can be graded robustly: "):
        EpisodeEnv(only, verify="robust")
    EpisodeEnv(only).reset()


def test_robust_is_none_where_it_can_not_be_judged(two_databases):
    env = EpisodeEnv(two_databases)
    env.reset(question_id="pets-2")
    assert env.episode.robust is False, "there is no answer yet"
    env.step("QUERY", "SELECT count(*) FROM pet")
    assert env.step("ANSWER", "@last").reward == 1
    assert env.episode.correct and env.episode.robust is None
    env.reset(question_id="pets-2")
    env.step("ANSWER", "2")
    assert env.episode.robust is False, "a wrong answer is wrong everywhere"
    episode = Episode(two_databases[1], two_databases.database("pets"), verify="robust")
    with pytest.raises(ValueError, match="can't be graded"):
        episode.reset()


if __name__ == "__main__":
    sys.stdout.buffer.write(play_all(load("bundled")))


def test_last_and_the_same_text_have_one_verdict(tmp_path):
    "The number 9 for a gold text '9', by value and on variants of the database."
    path = build_database(
        tmp_path / "pets.sqlite",
        "CREATE TABLE pet (name TEXT, age VARCHAR)",
        {"pet": [("Ada", "3"), ("Bo", "9"), ("Cy", "5")]},
    )
    db = Database(path)
    q = Question("p", "How old is Bo?", "pets", "SELECT age FROM pet WHERE name = 'Bo'", [("9",)])
    verdicts = []
    for answer in ("@last", "9", "'9'", "[9]"):
        episode = Episode(q, db)
        episode.reset()
        episode.step("QUERY", "SELECT CAST(age AS INTEGER) FROM pet WHERE name = 'Bo'")
        episode.step("ANSWER", answer)
        verdicts.append((episode.correct, episode.robust_verdict.reason))
    assert verdicts[0][0] and len(set(verdicts)) == 1, verdicts
