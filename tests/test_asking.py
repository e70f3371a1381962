"ABSTAIN and CLARIFY: invisible when off, a user who tells no more than asked, abstentions that must be earned."

import hashlib
import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import apsw
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


# --- off

# of the observations, messages and schemas of the version before the two actions came
DIGEST_BEFORE = "e977eb33e98badf4897d2f1098c804194de7cf04e7f05e748e2807716ffda0f0"
SCRIPT = [
    ("ABSTAIN", "x"),
    ("clarify", "which?"),
    ("DESCRIBE", "nope"),
    ("FLY", ""),
    ("QUERY", "SELECT 7 AS n"),
    ("ANSWER", "@last"),
]


def test_nothing_changes_while_they_are_off():
    env, digest = EpisodeEnv(load("bundled"), budget=8), hashlib.sha256()
    for i in range(0, 40, 4):
        seen = [env.reset(seed=i, index=i), *[env.step(*action) for action in SCRIPT]]
        digest.update(repr(seen).encode())
        digest.update(json.dumps(initial_messages(seen[0])).encode())
    digest.update(json.dumps(tool_schemas()).encode())
    assert digest.hexdigest() == DIGEST_BEFORE


@pytest.mark.parametrize(
    "names, allowed",
    [
        ([], ACTIONS),
        (["clarify"], (*ACTIONS, "CLARIFY")),
        (["CLARIFY", "abstain", "abstain"], ALLOWED),
        (ALLOWED, ALLOWED),
    ],
)
def test_allowed_actions(names, allowed):
    assert allowed_actions(names) == allowed
    assert [s["function"]["name"] for s in tool_schemas(allowed)] == sorted(a.lower() for a in allowed)


def test_unknown_actions_are_refused():
    with pytest.raises(ValueError, match="GUESS"):
        EpisodeEnv(load("bundled"), actions=["GUESS"])
    call = dict(name="abstain", arguments='{"reason": "x"}')
    with pytest.raises(InvalidToolCall, match="not found"):
        parse_tool_call(call)
    assert parse_tool_call(call, ALLOWED) == ("ABSTAIN", "x")


# --- the user
FACTS = (
    Clarification("price", "By price I mean the agreed price.", ("planned price", "final price")),
    Clarification("Anna Reed", "I mean the one with the town Oslo.", ("which member", "town")),
)


@pytest.mark.parametrize("asked, said", cases("asking_the_user_says_what_was_asked"))
def test_the_user_says_what_was_asked(asked, said):
    assert _simulated_reply(asked, FACTS) == (NO_REPLY if said is None else FACTS[said].fact)


@law(200)
@given(st.text(max_size=400) | st.lists(st.sampled_from("price which town ; SELECT".split())).map(" ".join))
def test_the_user_never_says_two_facts_or_anything_else(asked):
    known = {NO_REPLY, "Please ask about one thing at a time.", *(f.fact for f in FACTS)}
    assert _simulated_reply(asked, FACTS) in known
    assert _simulated_reply(asked, ()) in known - {f.fact for f in FACTS}


def test_a_paste_of_everything_gets_nothing():
    assert "one thing" in _simulated_reply("price town Anna Reed " * 10, FACTS)


# --- abstaining
ASKED = "What is the blood group of Anna Reed from Oslo?"
LACKING = Question("q", ASKED, "d", "", answerable=False, missing="blood group")


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
    paid = RewardConfig.sparse().asking(abstain=0.1)
    episode, seen = play(world, answerable, ("ABSTAIN", reason), reward=paid)
    assert not episode.correct and seen[-1].reward == 0.1 and seen[-1].result
    assert not seen[-1].error


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


# --- worlds
def test_worlds_are_the_same_each_time():
    a, b = AmbiguousWorld(5), AmbiguousWorld(5)
    assert (a.image, a.questions) == (b.image, b.questions)
    assert AmbiguousWorld(5, n=2).questions == a.questions[:2]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_readings_differ_and_only_the_reply_tells_them_apart(level):
    for w in islice(worlds(level, split="test", kind=AmbiguousWorld), 12):
        con = apsw.Connection(":memory:")
        con.deserialize("main", w.image)
        by_id = {q.question_id: q for q in w.questions}
        assert not find_gold_mistakes(con, w.questions)
        for question_id, readings in w.readings.items():
            q = by_id[question_id]
            answers = [con.execute(sql).fetchall() for sql in readings.values()]
            assert len(readings) == 3 and len(set(map(str, answers))) == 3
            (fact,) = q.clarifications
            assert readings[fact.fact] == q.gold_sql
            assert _simulated_reply(f"What do you mean by {fact.term}?", q.clarifications) == fact.fact
            said = set(fact.fact.lower().split()) - set(q.question_text.lower().split())
            assert said, "the question tells already what is meant"


def find_gold_mistakes(con, questions):
    "Ids of questions whose stored answer is not what gold gives."
    answerable = [q for q in questions if q.answerable]
    return [q.question_id for q in answerable if tuple(con.execute(q.gold_sql)) != q.gold_answer]


def test_what_is_missing_is_missing():
    for w in islice(worlds(2, unanswerable=1.0, kind=AmbiguousWorld), 15):
        texts = {c.text.lower() for t in w.tables.values() for c in t.columns}
        values = {str(v).lower() for t in w.tables.values() for vs in t.data.values() for v in vs}
        for q in w.questions:
            assert not q.answerable and q.missing in q.question_text
            assert q.missing.lower() not in texts | values


def test_splits_and_levels_are_checked():
    for wrong in (dict(split="dev"), dict(seed=-1), dict(level=4)):
        with pytest.raises(SourceError):
            load("ambiguous", n=1, **wrong)


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    "Questions, and readings of each."
    folder = tmp_path_factory.mktemp("worlds")
    questions = world_set("test", 1, 120, folder=folder, ambiguous=0.9, kind=AmbiguousWorld)
    made = islice(worlds(split="test", ambiguous=0.9, kind=AmbiguousWorld), 40)
    return questions, {key: sql for w in made for key, sql in w.readings.items()}


def test_only_who_asks_can_solve_them(asking, tmp_path):
    questions, readings = asking
    env = EpisodeEnv(questions, actions=ALLOWED)
    knows = evaluate(env, OraclePolicy(questions, readings=readings), progress=False)
    guesses = OraclePolicy(questions, readings=readings, asks=False)
    assert knows.success_rate == knows.grounded_rate == knows.robust_rate == 1
    assert evaluate(env, guesses, progress=False, robust=False).success_rate <= 0.6


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_share_of_ambiguous_questions_is_a_parameter(share):
    some = list(islice(worlds(split="test", ambiguous=share, unanswerable=0.0, kind=AmbiguousWorld), 40))
    questions = [q for w in some for q in w.questions]
    vague = sum(bool(q.clarifications) for q in questions) / len(questions)
    assert abs(vague - share) < 0.1
    assert all(len(w.readings) == sum(bool(q.clarifications) for q in w.questions) for w in some)
    for w in some[:3]:
        golds = [(q, w.database.query(q.gold_sql).rows) for q in w.questions]
        assert not [q.question_id for q, rows in golds if tuple(rows) != q.gold_answer]
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
    readings = {
        key: sql
        for w in islice(worlds(split="test", unanswerable=0.0, kind=AmbiguousWorld), 40)
        for key, sql in w.readings.items()
    }
    env = EpisodeEnv(questions, actions=ALLOWED, reward=RewardConfig.sparse().asking())
    needed = OraclePolicy(questions, readings=readings)
    never = OraclePolicy(questions, readings=readings, asks=False)
    earned = {
        name: evaluate(env, policy, progress=False, robust=False).avg_reward
        for name, policy in dict(needed=needed, always=AlwaysAsks(needed), never=never).items()
    }
    tell(", ".join(f"asking {name} {reward:.3f}" for name, reward in earned.items()))
    assert earned["needed"] > earned["always"] + 0.05 and earned["needed"] > earned["never"] + 0.05


# --- what a person would answer
def clarifying():
    "Questions written before the simulated user was, with their task: those a person would answer, and others."
    path = Path(__file__).with_name("data") / "clarifying_blind.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        facts = [Clarification(term, fact, tuple(asks)) for term, fact, asks in entry["facts"]]
        yield entry["answered"], entry["asked"], facts, entry["question"]


def test_the_user_answers_what_a_person_would(tell):
    replies = [
        (should, _simulated_reply(asked, facts, task) == facts[0].fact, asked)
        for should, asked, facts, task in clarifying()
    ]
    answered = [got for should, got, _ in replies if should]
    tell(f"clarifying questions answered: {sum(answered)} of {len(answered)}")
    assert sum(answered) >= 20 and len(answered) == 22
    assert not [asked for should, got, asked in replies if got and not should]


def echoes(text):
    "A question again, in several ways that add nothing to it."
    words = text.rstrip("?.").split()
    yield text
    yield text.lower().rstrip("?.")
    yield f"Please tell me: {text}"
    yield f"What do you mean by {text}"
    yield f"I have a question: {text} Please help."
    yield " ".join(words[::-1])
    yield " ".join(sorted(words))


def test_an_echo_of_the_question_is_not_answered(tell):
    "The task's question again, however it is turned, gets no fact."
    some = islice(worlds(split="test", ambiguous=1.0, unanswerable=0.0, kind=AmbiguousWorld), 60)
    questions = [q for w in some for q in w.questions if q.clarifications]
    got = [
        text
        for q in questions
        for text in echoes(q.question_text)
        if _simulated_reply(text, q.clarifications, q.question_text) in {f.fact for f in q.clarifications}
    ]
    tell(f"echoes answered: {len(got)} of {7 * len(questions)} on {len(questions)} questions")
    assert not got and len(questions) > 200


LISTS = [
    "which column, name, city, code, date, number, count, year do you mean?",
    "which column name city code date number count year do you mean?",
    "Which one: name, town, code, price, date, status?",
    "Which is the code, the date, the price, the count or the name?",
    "which name, city or date?",
    "Planned, agreed, final, estimated, measured, corrected, lowest, usual or highest?",
]


def last_two_words(q):
    "What a policy asks that cuts two words off a question."
    return f"what do you mean by {' '.join(q.question_text.rstrip('?.').split()[-2:])}?"


def test_words_that_are_listed_or_cut_off_ask_for_nothing(tell):
    "Listing words is paid in 5 % of questions at most, two cut off words only where they are a thing of the fact's."
    some = islice(worlds(split="test", ambiguous=1.0, unanswerable=0.0, kind=AmbiguousWorld), 60)
    questions = [q for w in some for q in w.questions if q.clarifications]

    def share(ask):
        told = (_simulated_reply(ask(q), q.clarifications, q.question_text) != NO_REPLY for q in questions)
        return sum(told) / len(questions)

    shares = [share(lambda q, text=text: text) for text in LISTS]
    tell(f"lists of words that are told: {', '.join(f'{s:.1%}' for s in shares)}")
    assert max(shares) <= 0.05
    cut_off = [
        (words, q.clarifications[0].term)
        for q in questions
        for words in [last_two_words(q)]
        if _simulated_reply(words, q.clarifications, q.question_text) != NO_REPLY
    ]
    tell(f"two last words that are told: {len(cut_off)} of {len(questions)}")
    assert not [(said, term) for said, term in cut_off if term not in said and not term.endswith(said[20:-1])]


@pytest.mark.parametrize(
    "asked", ["what do you mean by of wins?", "what do you mean by for wins?", "wins, losses or draws?"]
)
def test_a_piece_of_a_question_is_no_question(asked):
    facts = [Clarification("number of wins", "The final one.", ("agreed number of wins",))]
    assert _simulated_reply(asked, facts) == NO_REPLY
    assert _simulated_reply("Which number of wins?", facts) == "The final one."


def test_a_noun_of_a_term_or_a_word_of_another_phrase_asks_alone():
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
    some = list(islice(worlds(split="test", ambiguous=1.0, unanswerable=0.0, kind=AmbiguousWorld), 40))
    missed = []
    for q in (q for w in some for q in w.questions):
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


NATURAL = [
    "There is no {missing}.",
    "The database has no {missing}, so I cannot tell {rest}.",
    "I looked for {missing} but there is none.",
    "{missing} does not exist in the table, therefore I can't give {rest}.",
    "No row is called {missing}; because of that it is impossible to answer for {rest}.",
    "The table {table} has nothing named {missing}.",
    "Nothing here is called {missing}, so I am not able to say {rest}",
]


def test_abstentions_with_natural_reasons_count(tell):
    "Saying what one can't tell therefore is no repetition; naming everything is."
    lacking = [q for w in islice(worlds(unanswerable=1.0, kind=AmbiguousWorld), 12) for q in w.questions]
    right = wrong = 0
    for q in lacking:
        text = q.question_text
        rest = " ".join(w for w in text.rstrip("?.").split() if w not in q.missing.split())
        for reason in NATURAL:
            said = reason.format(missing=q.missing, rest=rest, table=q.tables_involved[0])
            right += _judge_abstention(q, said).correct
        words = text.rstrip("?.").split()
        stuffed = [
            f"There is no {text}",
            f"{text} I can't tell.",
            f"There is no {' '.join(sorted(words))}.",
            f"The database lacks {' '.join(words[::-1])}",
            "There is no answer.",
            *([" ".join(f"no {w}," for w in words)]),
        ]
        wrong += sum(_judge_abstention(q, said).correct for said in stuffed)
    tell(f"natural reasons accepted: {right} of {len(NATURAL) * len(lacking)}, stuffed ones {wrong}")
    assert right >= 0.9 * len(NATURAL) * len(lacking) and wrong == 0


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


# --- reports
def result(*outcomes):
    "A result of (correct, reason) pairs."
    episodes = [made_row(i, f"q{i}", *outcome) for i, outcome in enumerate(outcomes)]
    return EvaluationResult("p", episodes, dict(actions=list(ALLOWED)))


def test_coverage_and_selective_accuracy():
    mixed = result((True, "match"), (False, "values"), (False, "abstained"), (True, "abstained"))
    names = ("coverage", "selective_accuracy", "abstention_accuracy")
    assert [summary(mixed)[name] for name in names] == [0.5, 0.5, 0.5]
    assert summary(mixed)["aurc"] == 0.5 == summary(result((False, "values")))["aurc"] / 2
    gone = summary(result((False, "abstained")))
    assert gone["coverage"] == 0 and gone["aurc"] == 1 and gone["selective_accuracy"] is None
    assert summary(result())["aurc"] is None


# --- faces


# --- mini-interact
@pytest.fixture
def mini(tmp_path):
    "A folder in the published layout, made by hand."
    shop = tmp_path / "shop"
    shop.mkdir()
    for name in ("shop", "shop_template"):
        con = apsw.Connection(str(shop / f"{name}.sqlite"))
        con.execute("CREATE TABLE sales (id INTEGER, total REAL); INSERT INTO sales VALUES (1, 900), (2, 30)")
        con.close()
    entry = dict(id=3, knowledge="Loyal customer", description="Buys often.", definition="More than 5 times")
    (shop / "shop_kb.jsonl").write_text(json.dumps(entry) + "\n")
    ambiguity = dict(
        critical_ambiguity=[dict(term="big sales", sql_snippet="s.total >= 500", is_mask=False)],
        non_critical_ambiguity=[],
    )
    rows = [
        dict(
            instance_id=f"shop_{i}",
            selected_database="shop",
            amb_user_query="How many big sales do loyal people make?",
            user_query_ambiguity=ambiguity,
            knowledge_ambiguity=[dict(term="loyal", deleted_knowledge=3)],
            sol_sql=[],
        )
        for i in (1, 2)
    ]
    (tmp_path / "mini_interact.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    gold = dict(instance_id="shop_1", sol_sql=["SELECT count(*) FROM sales WHERE total >= 500;"])
    (tmp_path / "mini_interact_GTs_1.jsonl").write_text(json.dumps(gold) + "\n")
    return tmp_path


def test_mini_interact_is_read(mini):
    questions = load("mini_interact", mini)
    (q,) = questions
    assert q.gold_answer == ((1,),)
    assert questions.left_out == {"gold is missing; its authors send mini_interact_GTs by mail": 1}
    assert _simulated_reply("What are big sales?", q.clarifications) == ('By "big sales" I mean: total at least 500.')
    assert _simulated_reply("Who is loyal?", q.clarifications).startswith("Loyal customer: Buys often.")
    env = EpisodeEnv(questions, actions=ALLOWED)
    assert evaluate(env, OraclePolicy(questions), progress=False).success_rate == 1


def test_mini_interact_says_what_is_wrong(mini):
    (mini / "mini_interact.jsonl").write_text('{"instance_id": "a"}\n')
    with pytest.raises(SourceError, match="amb_user_query"):
        load("mini_interact", mini)
    (mini / "mini_interact.jsonl").unlink()
    with pytest.raises(SourceError, match=r"no mini_interact\.jsonl"):
        load("mini_interact", mini)
