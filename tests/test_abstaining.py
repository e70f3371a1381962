"ABSTAIN: invisible when off, and an abstention must be earned."

import hashlib
import json
from itertools import islice

import pytest
from made_rows import made_row
from tables import cases

from sql_env import Episode, EpisodeEnv, RewardConfig, evaluate, hack_floor, load
from sql_env.evaluation.results import EvaluationResult, summary
from sql_env.play.acts import ACTIONS, allowed_actions
from sql_env.play.chat import InvalidToolCall, initial_messages, parse_tool_call, tool_schemas
from sql_env.play.judges import _judge_abstention
from sql_env.policies import HACKS, OraclePolicy
from sql_env.policies.baselines import hacks_for
from sql_env.questions.question_set import Question, _question_from_json, question_to_json
from sql_env.worlds import World, world_set, worlds

ALLOWED = (*ACTIONS, "ABSTAIN")
ASKED = "What is the blood group of Anna Reed from Oslo?"
LACKING = Question("q", ASKED, "d", "", answerable=False, missing="blood group")


# of the observations, messages and schemas of the version before extra actions came
DIGEST_BEFORE = "7b34668a6f0f20f0f2bc2e4ff8abcd6d1149f6bd32695f7b0c3be9f33b15c987"
SCRIPT = [("ABSTAIN", "x"), ("clarify", "which?"), ("DESCRIBE", "nope"), ("FLY", "")]
SCRIPT += [("QUERY", "SELECT 7 AS n"), ("ANSWER", "@last")]


def test_nothing_changes_while_it_is_off():
    env, digest = EpisodeEnv(load("bundled"), budget=8), hashlib.sha256()
    for i in range(0, 40, 4):
        seen = [env.reset(seed=i, index=i), *[env.step(*action) for action in SCRIPT]]
        digest.update(repr(seen).encode())
        digest.update(json.dumps(initial_messages(seen[0])).encode())
    digest.update(json.dumps(tool_schemas()).encode())
    assert digest.hexdigest() == DIGEST_BEFORE


def test_allowed_actions():
    both = (*ALLOWED, "EXECUTE")
    for names, allowed in (([], ACTIONS), (["abstain", "ABSTAIN"], ALLOWED), (["execute", "abstain"], both)):
        assert allowed_actions(names) == allowed
        assert [s["function"]["name"] for s in tool_schemas(allowed)] == sorted(a.lower() for a in allowed)
    with pytest.raises(ValueError, match="GUESS"):
        EpisodeEnv(load("bundled"), actions=["GUESS"])
    call = dict(name="abstain", arguments='{"reason": "x"}')
    with pytest.raises(InvalidToolCall, match="not found"):
        parse_tool_call(call)
    assert parse_tool_call(call, ALLOWED) == ("ABSTAIN", "x")


@pytest.mark.parametrize("reason, correct", cases("abstaining_names_what_is_missing"))
def test_an_abstention_names_what_is_missing(reason, correct):
    assert _judge_abstention(LACKING, reason).correct is correct
    assert _judge_abstention(LACKING, reason, has_looked=False).correct is False
    assert _judge_abstention(LACKING.with_fields(answerable=True), reason).correct is False


@pytest.fixture(scope="module")
def world():
    return next(w for w in worlds(unanswerable=0.5) if any(not q.answerable for q in w.questions))


def play(world, question, *actions, **options):
    episode = Episode(question, world.database, actions=ALLOWED, **options)
    episode.reset()
    return episode, [episode.step(*action) for action in actions]


def test_abstaining_ends_the_episode(world):
    lacking = next(q for q in world.questions if not q.answerable)
    (table,), reason = lacking.tables_involved, f"no {lacking.missing}"
    named = "_".join(lacking.missing.split())
    for verify in ("value", "robust"):
        episode, seen = play(world, lacking, ("DESCRIBE", table), ("ABSTAIN", reason), verify=verify)
        assert seen[-1].done and seen[-1].reward == 1 and episode.correct
        assert episode.grounded and episode.robust is True
    asked, _ = play(world, lacking, ("QUERY", f"SELECT 1 AS {named}"), ("ABSTAIN", reason))
    assert asked.correct, "who asks for it in a query has looked as well"
    blind, seen = play(world, lacking, ("ABSTAIN", reason))
    assert not blind.correct and blind.total_reward == 0
    assert seen[-1].result == "The episode ended without an answer."
    for answer in ("[]", "0", "NULL", f"'{reason}'"):
        episode, _ = play(world, lacking, ("DESCRIBE", table), ("ANSWER", answer))
        assert not episode.correct and episode.robust is False
        assert episode.verdict.reason == "not_answerable" and episode.total_reward == 0
    answerable = next(q for q in world.questions if q.answerable)
    episode, seen = play(world, answerable, ("ABSTAIN", reason), reward=RewardConfig(abstain=0.1))
    assert not episode.correct and seen[-1].reward == 0.1 and seen[-1].result and not seen[-1].error


def test_what_a_question_carries_survives_a_file():
    q = Question("q", "t", "d", "", answerable=False, missing="x")
    assert _question_from_json(question_to_json(q)) == q
    plain = Question("q", "t", "d", "SELECT 1")
    assert not {"answerable", "missing"} & json.loads(question_to_json(plain)).keys()
    line = '{"question_id": "q", "question_text": "t", "database_name": "d", "gold_sql": "", "answerable": "no"}'
    with pytest.raises(ValueError, match="field"):
        _question_from_json(line)


def test_abstentions_with_natural_reasons_count(tell):
    "Saying what one can't tell therefore is no repetition; naming everything is."
    some = [w for level in (1, 3, 5) for w in islice(worlds(level, unanswerable=1.0), 12)]
    lacking = [q for w in some for q in w.questions if not q.answerable]
    right = wrong = 0
    for q in lacking:
        text = q.question_text
        rest = " ".join(w for w in text.rstrip("?.").split() if w not in q.missing.split())
        for reason in cases("abstaining_natural_reasons"):
            said = reason.format(missing=q.missing, rest=rest, table=q.tables_involved[0])
            right += _judge_abstention(q, said).correct
        words = text.rstrip("?.").split()
        lists = f"There is no {' '.join(sorted(words))}.", f"The database lacks {' '.join(words[::-1])}"
        stuffed = f"There is no {text}", f"{text} I can't tell.", *lists, "There is no answer."
        wrong += sum(_judge_abstention(q, said).correct for said in (*stuffed, " ".join(f"no {w}," for w in words)))
    n = len(cases("abstaining_natural_reasons")) * len(lacking)
    tell(f"natural reasons accepted: {right} of {n}, stuffed ones {wrong}")
    assert len(lacking) > 20 and right >= 0.9 * n and wrong == 0


def test_an_oracle_without_the_action_misses_what_has_no_answer(tmp_path):
    questions = world_set("test", 1, 20, folder=tmp_path, unanswerable=0.5)
    n = sum(q.answerable for q in questions)
    without = evaluate(EpisodeEnv(questions), OraclePolicy(questions), progress=False, robust=False)
    assert without.n_completed == len(questions) > n
    assert without.success_rate == pytest.approx(n / len(questions))


@pytest.mark.slow
def test_hacks_that_abstain_earn_no_more(tmp_path):
    "Their gain is at most the share of questions without an answer."
    questions = world_set("test", 1, 200, folder=tmp_path, unanswerable=0.1, kind=World)
    extra = hacks_for(ALLOWED)[len(HACKS) :]
    assert {h.actions[-1][0] for h in extra} == {"ABSTAIN"} and hacks_for(ACTIONS) == HACKS
    floor = hack_floor(questions, hacks=extra, actions=ALLOWED)
    lacking = sum(not q.answerable for q in questions) / len(questions)
    assert 0 < lacking < 0.1 and max(floor.values()) <= lacking


def test_coverage_and_selective_accuracy():
    def numbers(*outcomes):
        episodes = [made_row(i, f"q{i}", *outcome) for i, outcome in enumerate(outcomes)]
        return summary(EvaluationResult("p", episodes, dict(actions=list(ALLOWED))))

    mixed = numbers((True, "match"), (False, "values"), (False, "abstained"), (True, "abstained"))
    names = ("coverage", "selective_accuracy", "abstention_accuracy")
    assert [mixed[name] for name in names] == [0.5, 0.5, 0.5]
    gone = numbers((False, "abstained"))
    assert gone["coverage"] == 0 and gone["selective_accuracy"] is None
    assert numbers()["coverage"] is None
