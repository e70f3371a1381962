"ABSTAIN and CLARIFY: invisible when off, a user who tells no more than asked, abstentions that must be earned."

import hashlib
import json
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from made_rows import made_row
from tables import cases

from sql_env import Episode, EpisodeEnv, RewardConfig, SourceError, evaluate, hack_floor, load
from sql_env.evaluation.results import EvaluationResult, summary
from sql_env.play.acts import ACTIONS, allowed_actions
from sql_env.play.chat import InvalidToolCall, initial_messages, parse_tool_call, tool_schemas
from sql_env.play.judges import NO_REPLY, _judge_abstention, _simulated_reply
from sql_env.policies import HACKS, OraclePolicy
from sql_env.policies.baselines import hacks_for
from sql_env.questions.question_set import Clarification, Question, _question_from_json, question_to_json
from sql_env.worlds import AmbiguousWorld, world_set, worlds

ALLOWED = (*ACTIONS, "ABSTAIN", "CLARIFY")
FACTS = (
    Clarification("price", "By price I mean the agreed price.", ("planned price", "final price")),
    Clarification("Anna Reed", "I mean the one with the town Oslo.", ("which member", "town")),
)
ASKED = "What is the blood group of Anna Reed from Oslo?"
LACKING = Question("q", ASKED, "d", "", answerable=False, missing="blood group")


# of the observations, messages and schemas of the version before the two actions came
DIGEST_BEFORE = "e977eb33e98badf4897d2f1098c804194de7cf04e7f05e748e2807716ffda0f0"
SCRIPT = [("ABSTAIN", "x"), ("clarify", "which?"), ("DESCRIBE", "nope"), ("FLY", "")]
SCRIPT += [("QUERY", "SELECT 7 AS n"), ("ANSWER", "@last")]


def test_nothing_changes_while_they_are_off():
    env, digest = EpisodeEnv(load("bundled"), budget=8), hashlib.sha256()
    for i in range(0, 40, 4):
        seen = [env.reset(seed=i, index=i), *[env.step(*action) for action in SCRIPT]]
        digest.update(repr(seen).encode())
        digest.update(json.dumps(initial_messages(seen[0])).encode())
    digest.update(json.dumps(tool_schemas()).encode())
    assert digest.hexdigest() == DIGEST_BEFORE


def test_allowed_actions():
    some, all_named = ["clarify"], ["CLARIFY", "abstain", "abstain"]
    for names, allowed in (([], ACTIONS), (some, (*ACTIONS, "CLARIFY")), (all_named, ALLOWED), (ALLOWED, ALLOWED)):
        assert allowed_actions(names) == allowed
        assert [s["function"]["name"] for s in tool_schemas(allowed)] == sorted(a.lower() for a in allowed)
    with pytest.raises(ValueError, match="GUESS"):
        EpisodeEnv(load("bundled"), actions=["GUESS"])
    call = dict(name="abstain", arguments='{"reason": "x"}')
    with pytest.raises(InvalidToolCall, match="not found"):
        parse_tool_call(call)
    assert parse_tool_call(call, ALLOWED) == ("ABSTAIN", "x")


@pytest.mark.parametrize("asked, said", cases("asking_the_user_says_what_was_asked"))
def test_the_user_says_what_was_asked(asked, said):
    assert _simulated_reply(asked, FACTS) == (NO_REPLY if said is None else FACTS[said].fact)


@law(200)
@given(st.text(max_size=400) | st.lists(st.sampled_from("price which town ; SELECT".split())).map(" ".join))
def test_the_user_never_says_two_facts_or_anything_else(asked):
    known = {NO_REPLY, "Please ask about one thing at a time.", *(f.fact for f in FACTS)}
    assert _simulated_reply(asked, FACTS) in known
    assert _simulated_reply(asked, ()) in known - {f.fact for f in FACTS}
    assert "one thing" in _simulated_reply("price town Anna Reed " * 10, FACTS), "a paste of everything gets nothing"


@pytest.mark.parametrize("reason, correct", cases("asking_an_abstention_names_what_is_missing"))
def test_an_abstention_names_what_is_missing(reason, correct):
    assert _judge_abstention(LACKING, reason).correct is correct
    assert _judge_abstention(LACKING, reason, has_looked=False).correct is False
    assert _judge_abstention(LACKING.with_fields(answerable=True), reason).correct is False


@pytest.fixture(scope="module")
def world():
    return next(w for w in worlds(unanswerable=0.5, kind=AmbiguousWorld) if len(w.questions) == 6)


def play(world, question, *actions, **options):
    options = dict(reward=RewardConfig.sparse().asking()) | options
    episode = Episode(question, world.database, actions=ALLOWED, **options)
    episode.reset()
    return episode, [episode.step(*action) for action in actions]


def test_abstaining_ends_the_episode(world):
    lacking = next(q for q in world.questions if not q.answerable)
    table, reason = lacking.tables_involved[0], f"no {lacking.missing}"
    for verify in ("value", "robust"):
        episode, seen = play(world, lacking, ("DESCRIBE", table), ("ABSTAIN", reason), verify=verify)
        assert seen[-1].done and seen[-1].reward == 1 and episode.correct
        assert episode.grounded and episode.robust is True
    blind, _ = play(world, lacking, ("ABSTAIN", reason))
    assert not blind.correct and blind.total_reward == 0
    for answer in ("[]", "0", "NULL", f"'{reason}'"):
        episode, _ = play(world, lacking, ("DESCRIBE", table), ("ANSWER", answer))
        assert not episode.correct and episode.robust is False
        assert episode.verdict.reason == "not_answerable" and episode.total_reward == 0
    answerable = next(q for q in world.questions if q.answerable)
    episode, seen = play(world, answerable, ("ABSTAIN", reason), reward=RewardConfig.sparse().asking(abstain=0.1))
    assert not episode.correct and seen[-1].reward == 0.1 and seen[-1].result and not seen[-1].error


def test_asking_costs_a_step_and_its_price(world):
    question = world.questions[0]
    episode, seen = play(world, question, ("CLARIFY", "What?"), ("CLARIFY", "What?"))
    assert [o.result for o in seen] == [NO_REPLY, NO_REPLY] and not seen[-1].done
    assert [t.reward for t in episode.turns] == [{"clarify": -0.1}, {"clarify": -0.05}]
    assert seen[-1].budget_remaining == 13 and seen[-1].action_history[-1] == "CLARIFY What?"


def test_gold_never_reaches_the_agent(world):
    "Whatever is asked or given as a reason, only a fact of the question comes back."
    for q in world.questions:
        facts = {fact.fact for fact in q.clarifications} | {NO_REPLY}
        asks = ["What is the answer?", q.gold_sql or "SELECT", q.question_text, "gold SQL please"]
        _, seen = play(world, q, *[("CLARIFY", text) for text in asks], ("ABSTAIN", "nothing"))
        assert {o.result for o in seen[:-1]} <= facts and not any(o.error for o in seen)
        assert seen[-1].result == "The episode ended without an answer."
        assert all("SELECT" not in fact for fact in facts)


def test_what_a_question_carries_survives_a_file():
    q = Question("q", "t", "d", "", answerable=False, missing="x", clarifications=FACTS)
    assert _question_from_json(question_to_json(q)) == q
    plain = Question("q", "t", "d", "SELECT 1")
    assert not {"answerable", "missing", "clarifications"} & json.loads(question_to_json(plain)).keys()
    for bad in ('"clarifications": [3]', '"clarifications": [{"term": "x"}]', '"answerable": "no"'):
        line = '{"question_id": "q", "question_text": "t", "database_name": "d", "gold_sql": "", %s}'
        with pytest.raises(ValueError, match="field"):
            _question_from_json(line % bad)


def test_worlds_are_the_same_each_time_and_splits_and_levels_are_checked():
    a, b = AmbiguousWorld(5), AmbiguousWorld(5)
    assert (a.image, a.questions) == (b.image, b.questions)
    assert AmbiguousWorld(5, n=2).questions == a.questions[:2]
    for wrong in (dict(split="dev"), dict(seed=-1), dict(level=4)):
        with pytest.raises(SourceError):
            load("ambiguous", n=1, **wrong)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_readings_differ_and_only_the_reply_tells_them_apart(level):
    for w in islice(worlds(level, split="test", kind=AmbiguousWorld), 12):
        by_id = {q.question_id: q for q in w.questions}
        assert not find_gold_mistakes(w)
        for question_id, readings in w.readings.items():
            q = by_id[question_id]
            answers = [w.database.query(sql).rows for sql in readings.values()]
            assert len(readings) == 3 and len(set(map(str, answers))) == 3
            (fact,) = q.clarifications
            assert readings[fact.fact] == q.gold_sql
            assert _simulated_reply(f"What do you mean by {fact.term}?", q.clarifications) == fact.fact
            told = set(q.question_text.lower().split())
            assert set(fact.fact.lower().split()) - told, "the question tells already what is meant"


def find_gold_mistakes(w):
    "Ids of questions whose stored answer is not what gold gives."
    golds = [(q, w.database.query(q.gold_sql).rows) for q in w.questions if q.answerable]
    return [q.question_id for q, rows in golds if tuple(rows) != q.gold_answer]


def test_what_is_missing_is_missing():
    for w in islice(worlds(2, unanswerable=1.0, kind=AmbiguousWorld), 15):
        texts = {c.text.lower() for t in w.tables.values() for c in t.columns}
        values = {str(v).lower() for t in w.tables.values() for vs in t.data.values() for v in vs}
        for q in w.questions:
            assert not q.answerable and q.missing in q.question_text
            assert q.missing.lower() not in texts | values


def readings_of(made):
    return {key: sql for w in made for key, sql in w.readings.items()}


def vague(n):
    "Questions that are ambiguous, every one, of some worlds."
    some = islice(worlds(split="test", ambiguous=1.0, unanswerable=0.0, kind=AmbiguousWorld), n)
    return [q for w in some for q in w.questions]


def test_only_who_asks_can_solve_them(tmp_path):
    questions = world_set("test", 1, 120, folder=tmp_path, ambiguous=0.9, kind=AmbiguousWorld)
    readings = readings_of(islice(worlds(split="test", ambiguous=0.9, kind=AmbiguousWorld), 40))
    env = EpisodeEnv(questions, actions=ALLOWED)
    knows = evaluate(env, OraclePolicy(questions, readings=readings), progress=False)
    guesses = OraclePolicy(questions, readings=readings, asks=False)
    assert knows.success_rate == knows.grounded_rate == knows.robust_rate == 1
    assert evaluate(env, guesses, progress=False, robust=False).success_rate <= 0.6


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_share_of_ambiguous_questions_is_a_parameter(share):
    some = list(islice(worlds(split="test", ambiguous=share, unanswerable=0.0, kind=AmbiguousWorld), 40))
    questions = [q for w in some for q in w.questions]
    assert abs(sum(bool(q.clarifications) for q in questions) / len(questions) - share) < 0.1
    assert all(len(w.readings) == sum(bool(q.clarifications) for q in w.questions) for w in some)
    assert not any(map(find_gold_mistakes, some[:3]))
    assert len({w.name for w in (AmbiguousWorld(5), AmbiguousWorld(5, ambiguous=share))}) == 1 + (share != 0.3)


class AlwaysAsks:
    "An oracle that asks before it looks, whether there is something to ask or not."

    name = "always asks"

    def __init__(self, oracle):
        self.oracle = oracle

    def select_action(self, observation):
        needs = self.oracle.find(observation).clarifications
        if observation.step_count == 0 and not needs:
            return "CLARIFY", "Which one do you mean?"
        steps = observation.step_count - (not needs)
        return self.oracle.select_action(replace(observation, step_count=steps))


def test_asking_where_it_is_needed_is_best(tmp_path, tell):
    "Always asking earns clearly less than asking only when needed, and never asking less than that."
    questions = world_set("test", 1, 120, folder=tmp_path, unanswerable=0.0, kind=AmbiguousWorld)
    known = dict(readings=readings_of(islice(worlds(split="test", unanswerable=0.0, kind=AmbiguousWorld), 40)))
    env = EpisodeEnv(questions, actions=ALLOWED, reward=RewardConfig.sparse().asking())
    needed, never = OraclePolicy(questions, **known), OraclePolicy(questions, **known, asks=False)
    policies = dict(needed=needed, always=AlwaysAsks(needed), never=never)
    played = {name: evaluate(env, policy, progress=False, robust=False) for name, policy in policies.items()}
    earned = {name: result.avg_reward for name, result in played.items()}
    tell(", ".join(f"asking {name} {reward:.3f}" for name, reward in earned.items()))
    assert earned["needed"] > earned["always"] + 0.05 and earned["needed"] > earned["never"] + 0.05


def test_the_user_answers_what_a_person_would(tell):
    "Questions written before the simulated user was, with their task: those a person would answer, and others."
    replies = []
    for entry in cases("clarifying_blind", dict):
        facts = [Clarification(term, fact, tuple(asks)) for term, fact, asks in entry["facts"]]
        is_told = _simulated_reply(entry["asked"], facts, entry["question"]) == facts[0].fact
        replies.append((entry["answered"], is_told, entry["asked"]))
    answered = [got for should, got, _ in replies if should]
    tell(f"clarifying questions answered: {sum(answered)} of {len(answered)}")
    assert sum(answered) >= 20 and len(answered) == 22
    assert not [asked for should, got, asked in replies if got and not should]


def echoes(text):
    "A question again, in several ways that add nothing to it."
    words = text.rstrip("?.").split()
    yield from (text, text.lower().rstrip("?."), f"Please tell me: {text}", f"What do you mean by {text}")
    yield from (f"I have a question: {text} Please help.", " ".join(words[::-1]), " ".join(sorted(words)))


def test_an_echo_of_the_question_is_not_answered(tell):
    "The task's question again, however it is turned, gets no fact."
    questions, got = vague(60), []
    for q in questions:
        facts = {f.fact for f in q.clarifications}
        asked = echoes(q.question_text)
        got += [text for text in asked if _simulated_reply(text, q.clarifications, q.question_text) in facts]
    tell(f"echoes answered: {len(got)} of {7 * len(questions)} on {len(questions)} questions")
    assert not got and len(questions) > 200


def test_words_that_are_listed_or_cut_off_ask_for_nothing(tell):
    "Listing words is paid in 5 % of questions at most, two cut off words only where they are a thing of the fact's."
    questions = vague(60)

    def is_told(text, q):
        return _simulated_reply(text, q.clarifications, q.question_text) != NO_REPLY

    shares = [sum(is_told(text, q) for q in questions) / len(questions) for text in cases("asking_lists")]
    tell(f"lists of words that are told: {', '.join(f'{s:.1%}' for s in shares)}")
    assert max(shares) <= 0.05
    # what a policy asks that cuts two words off a question
    ends = [(" ".join(q.question_text.rstrip("?.").split()[-2:]), q) for q in questions]
    cut_off = [(said, q.clarifications[0].term) for said, q in ends if is_told(f"what do you mean by {said}?", q)]
    tell(f"two last words that are told: {len(cut_off)} of {len(questions)}")
    assert not [(said, term) for said, term in cut_off if term not in said and not term.endswith(said)]


def test_a_piece_of_a_question_is_no_question_and_a_noun_or_a_word_of_another_phrase_asks_alone():
    facts = [Clarification("number of wins", "The final one.", ("agreed number of wins",))]
    for asked in ("what do you mean by of wins?", "what do you mean by for wins?", "wins, losses or draws?"):
        assert _simulated_reply(asked, facts) == NO_REPLY
    assert _simulated_reply("Which number of wins?", facts) == "The final one."
    facts = [Clarification("summer visits", "In June.", ("eu trade",))]
    said = [_simulated_reply(f"What does {word} mean?", facts) for word in ("summer", "trade", "eu")]
    assert said == ["In June.", "In June.", NO_REPLY]


def test_hacks_that_echo_learn_nothing(tmp_path):
    questions = world_set("test", 1, 60, folder=tmp_path, ambiguous=1.0, unanswerable=0.0, kind=AmbiguousWorld)
    env = EpisodeEnv(questions, actions=ALLOWED, reward=RewardConfig.sparse().asking())
    names = {"ask for ever", "ask and echo", "ask what all of it means", "ask and select all"}
    hacks = [h for h in hacks_for(["CLARIFY"]) if h.name in names]
    assert len(hacks) == len(names)
    for hack in hacks:
        for q in questions:
            observation = env.reset(question_id=q.question_id)
            assert env.step(*hack.select_action(observation)).result == NO_REPLY
        assert evaluate(env, hack, progress=False, robust=False).avg_reward <= -0.05


def test_each_way_of_asking_gets_the_fact():
    "By two alternatives, by the noun, by a first name, by any column that tells the rows apart."
    missed = []
    for q in vague(40):
        (fact,) = q.clarifications
        noun = fact.term.split()[-1]
        asks = [f"What do you mean by {fact.term}?", f"Which {noun}?", f"{fact.term}?"]
        if fact.asks[0].startswith("which"):
            asks += [f"{fact.asks[0]}?", *(f"What is the {column}?" for column in fact.asks[1:3])]
            if " " in fact.term and fact.term.split()[0].isalpha() and len(fact.term.split()[0]) > 3:
                asks.append(f"Which {fact.term.split()[0]} is it?")
        else:
            one, two = (ask.removesuffix(fact.term).strip() for ask in fact.asks[:2])
            asks += [f"The {one} or the {two} one?", f"Should I take the {fact.asks[2]}?"]
        missed += [(q.question_text, a) for a in asks if _simulated_reply(a, [fact], q.question_text) != fact.fact]
    assert not missed, missed[:10]


def test_abstentions_with_natural_reasons_count(tell):
    "Saying what one can't tell therefore is no repetition; naming everything is."
    lacking = [q for w in islice(worlds(unanswerable=1.0, kind=AmbiguousWorld), 12) for q in w.questions]
    right = wrong = 0
    for q in lacking:
        text = q.question_text
        rest = " ".join(w for w in text.rstrip("?.").split() if w not in q.missing.split())
        for reason in cases("asking_natural_reasons"):
            said = reason.format(missing=q.missing, rest=rest, table=q.tables_involved[0])
            right += _judge_abstention(q, said).correct
        words = text.rstrip("?.").split()
        lists = f"There is no {' '.join(sorted(words))}.", f"The database lacks {' '.join(words[::-1])}"
        stuffed = f"There is no {text}", f"{text} I can't tell.", *lists, "There is no answer."
        wrong += sum(_judge_abstention(q, said).correct for said in (*stuffed, " ".join(f"no {w}," for w in words)))
    n = len(cases("asking_natural_reasons")) * len(lacking)
    tell(f"natural reasons accepted: {right} of {n}, stuffed ones {wrong}")
    assert right >= 0.9 * n and wrong == 0


def test_an_oracle_without_the_actions_misses_what_has_no_answer(tmp_path):
    questions = world_set("test", 1, 20, folder=tmp_path, unanswerable=0.3, kind=AmbiguousWorld)
    n = sum(q.answerable for q in questions)
    without = evaluate(EpisodeEnv(questions), OraclePolicy(questions), progress=False, robust=False)
    assert without.n_completed == len(questions) > n
    assert without.success_rate == pytest.approx(n / len(questions))


@pytest.mark.slow
def test_hacks_that_ask_or_abstain_earn_no_more(tmp_path):
    "At the default share of questions without an answer; their gain grows with that share."
    questions = world_set("test", 1, 200, folder=tmp_path, kind=AmbiguousWorld)
    assert not all(q.answerable for q in questions)
    extra = hacks_for(ALLOWED)[len(HACKS) :]
    assert {h.actions[-1][0] for h in extra} >= {"ABSTAIN", "CLARIFY", "ANSWER"}
    assert hacks_for(ACTIONS) == HACKS
    floor = hack_floor(questions, hacks=extra, actions=ALLOWED)
    lacking = sum(not q.answerable for q in questions) / len(questions)
    # who always names the same part of a question is right on about half of those without an answer
    assert lacking < 0.05 and max(floor.values()) <= max(hack_floor(questions).values()) + 0.65 * lacking


def test_coverage_and_selective_accuracy():
    def numbers(*outcomes):
        episodes = [made_row(i, f"q{i}", *outcome) for i, outcome in enumerate(outcomes)]
        return summary(EvaluationResult("p", episodes, dict(actions=list(ALLOWED))))

    mixed = numbers((True, "match"), (False, "values"), (False, "abstained"), (True, "abstained"))
    names = ("coverage", "selective_accuracy", "abstention_accuracy")
    assert [mixed[name] for name in names] == [0.5, 0.5, 0.5]
    assert mixed["aurc"] == 0.5 == numbers((False, "values"))["aurc"] / 2
    gone = numbers((False, "abstained"))
    assert gone["coverage"] == 0 and gone["aurc"] == 1 and gone["selective_accuracy"] is None
    assert numbers()["aurc"] is None
