"What nano writes is checked against what it has read: calls that can't be right are not sent."

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from tables import cases

from sql_env import EpisodeEnv, evaluate, load
from sql_env.evaluation.logs import read_log
from sql_env.nano.engine import NANO_WEIGHTS, ConversationState, NanoEngine, NanoModel, NanoPolicy, TurnWriter
from sql_env.nano.text import NanoTokenizer, call_objection, conversation_facts
from sql_env.nano.training import expert_transcripts, world_transcripts
from sql_env.play.acts import Action
from sql_env.play.chat import action_message, error_result_text
from sql_env.sql.analysis import has_repeated_part, value_tests
from sql_env.training.run import evaluate_checkpoint

QUESTION = "How many readers of 'New Bergen' born in May 1984 have borrowed over 1,500 books, or three?"
READER = "reader: 85 rows\nid INTEGER, primary key\nname TEXT\ncity TEXT\nborn DATE\nage INTEGER\nbooks int(8)"


def tool(text):
    return dict(role="tool", content=text)


def call(action_type, argument):
    return action_message(Action(action_type, argument))


def opening(tables, steps=15, question=QUESTION):
    return dict(role="user", content=f"{question}\n\nTables:\n{tables}\n\nSteps: {steps}")


START = [opening("loan\nreader"), call("DESCRIBE", "reader"), tool(READER)]
COUNT = "SELECT COUNT(*) FROM reader WHERE "


@pytest.mark.parametrize("sql, objection", cases("nano_check_what_speaks_against_a_query"))
def test_what_speaks_against_a_query(sql, objection, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = call_objection(call("QUERY", sql), conversation_facts(START))
    assert (objection in found) if objection else not found
    assert not list(tmp_path.iterdir())  # nothing was run


def test_what_speaks_against_other_calls():
    facts = conversation_facts(START)
    messages = [(call(*made), objection) for *made, objection in cases("nano_check_other_calls")]
    for message, objection in [*messages, (dict(role="assistant", content="I don't know."), "no call")]:
        found = call_objection(message, facts)
        assert (objection in found) if objection else not found
    asked = [*START, call("QUERY", "SELECT 1"), tool(error_result_text("no"))]
    assert "no result" in call_objection(call("ANSWER", "@last"), conversation_facts(asked))
    assert "before" in call_objection(call("QUERY", " SELECT 1 "), conversation_facts(asked))
    asked = [*START, call("QUERY", "SELECT 1"), tool("1\n1")]
    assert not call_objection(call("ANSWER", "@last"), conversation_facts(asked))


@pytest.mark.parametrize("read", [READER + "\nplace geometry", READER + "\n... 4 more columns", "reader: 85 rows", ""])
def test_what_was_not_read_in_full_is_not_held_against_a_query(read):
    messages = [START[0], call("DESCRIBE", "reader"), tool(read)] if read else [opening("reader(id, town)")]
    more_tables = [opening("... 9 more tables", 5), *START[1:]]
    for told in (messages, more_tables):
        assert not call_objection(call("QUERY", COUNT + "town = 'New Bergen'"), conversation_facts(told))


def test_what_descriptions_and_results_say_counts():
    said = READER + "\nstatus TEXT: A is active, C is closed\nactive BOOLEAN\n(3 steps left)"
    messages = [START[0], call("DESCRIBE", "reader"), tool(said)]
    facts = conversation_facts(messages)
    assert facts.is_whole and not call_objection(call("QUERY", COUNT + "status = 'C'"), facts)
    assert "type" in call_objection(call("QUERY", COUNT + "active = 'Bergen'"), facts)
    messages += [call("SAMPLE", "reader"), tool("active\nBergen")]
    assert not call_objection(call("QUERY", COUNT + "active = 'Bergen'"), conversation_facts(messages))


def test_a_number_must_have_been_shown_as_people_write_it():
    asked = opening("reader", 9, "above 2.50, over 1,500, the 7th, 5kg, 40% or 2019,2020?")
    messages = [asked, *START[1:]]
    for number in ("2.5", "1500", "7", "5", "0.4", "40", "2019", "2020"):
        assert not call_objection(call("QUERY", COUNT + f"books > {number}"), conversation_facts(messages)), number
    for number in (25, 41):
        assert "number" in call_objection(call("QUERY", COUNT + f"books > {number}"), conversation_facts(messages))
    messages += [call("SAMPLE", "reader"), tool("id | age\n7 | 41")]
    assert not call_objection(call("QUERY", COUNT + "age > 41"), conversation_facts(messages))


def test_an_earlier_episode_says_nothing_of_this_one():
    other = opening("loan", question="How many loans?")
    facts = conversation_facts([*START, call("QUERY", "SELECT 1"), tool("1\n1"), other])
    assert not facts.has_result and not facts.calls and not facts.columns
    assert "no table" in call_objection(call("DESCRIBE", "reader"), facts)


@pytest.mark.parametrize("text", ["SELECT 1\0", "SELECT '\ud800'", "SELECT \0 FROM reader"])
def test_what_sqlite_cannot_take_is_ruled_out_quietly(text):
    message = dict(tool_calls=[dict(function=dict(name="query", arguments=dict(sql=text)))])
    assert call_objection(message, conversation_facts(START))


@law(300)
@given(st.text(max_size=60), st.sampled_from(("DESCRIBE", "SAMPLE", "QUERY", "ANSWER")))
def test_no_text_breaks_the_check(text, action_type):
    for argument in (text, f"SELECT {text} FROM reader", f"{COUNT} name = '{text}'"):
        assert isinstance(call_objection(call(action_type, argument), conversation_facts(START)), str)


def objections(transcripts):
    "How many calls of experts there are, and the objections to them, by whether the environment refused them."
    calls, found = Counter(), Counter()
    for messages in transcripts:
        for i, (message, following) in enumerate(zip(messages, [*messages[1:], {}])):
            if message.get("tool_calls"):
                was_refused = following.get("content", "").startswith("{'error'")
                calls[was_refused] += 1
                found[was_refused] += bool(call_objection(message, conversation_facts(messages[:i])))
    return calls, found


@pytest.mark.slow
def test_experts_on_worlds_are_never_stopped_but_where_the_environment_refuses():
    mix = dict.fromkeys((1, 2, 3, 4, 5), 80)
    calls, found = objections(world_transcripts(mix, 77, max_chars=600, schema_level="names"))
    assert calls[False] > 1000 and found[False] == 0
    assert calls[True] > 50 and found[True] > 0.95 * calls[True]  # all but where a description was cut


@pytest.mark.slow
def test_experts_on_questions_of_people_are_seldom_stopped(spider_path):
    bundled, spider = load("bundled"), load("spider", split="train", path=spider_path)
    for questions in (bundled, spider.sample(200, 3)):
        calls, found = objections(expert_transcripts(questions, 77, max_chars=600, schema_level="names"))
        assert calls[False] > 500 and found[False] <= 0.01 * calls[False]
        assert found[True] > 0.9 * calls[True]


@pytest.fixture(scope="module")
def shipped():
    tokenizer = NanoTokenizer(NANO_WEIGHTS / "tokenizer.json")
    return TurnWriter(NanoEngine.from_folder(NANO_WEIGHTS), tokenizer.end), NanoModel().tokens([START[0]])


@pytest.mark.slow
def test_other_turns_depart_at_one_token_and_go_on_as_the_model_would(shipped):
    writer, prompt = shipped
    [(turn, _)] = writer.write([prompt], 60)
    others = list(writer.alternatives(prompt, turn, 10, 60))
    whole = [*turn, writer.end]
    assert len(others) == 10 == len(set(map(tuple, others))) and turn not in others
    for other in others:
        other = [*other, writer.end]
        place = next(i for i, token in enumerate(whole) if other[i] != token)
        if other[place] != writer.end:
            [(rest, _)] = TurnWriter(writer.engine, writer.end).write([[*prompt, *other[: place + 1]]], 60)
            assert other == [*other[: place + 1], *rest, writer.end][: len(other)]


def test_other_turns_than_one_that_was_cut_are_others(shipped):
    writer, prompt = shipped
    for limit in (1, 2):
        [(turn, _)] = writer.write([prompt], limit)
        others = list(writer.alternatives(prompt, turn, 12, limit))
        assert turn not in others and all(len(other) <= limit for other in others)


def test_logits_of_every_token_are_those_of_one_after_the_other(shipped):
    engine, tokens = shipped[0].engine, NanoModel().tokens(START)[:40]
    once = engine.read(engine.start([ConversationState()]), [tokens], every=True)[0]
    batch = engine.start([ConversationState()])
    apart = [engine.read(batch, [[token]])[0] for token in tokens]
    assert np.abs(once - np.array(apart)).max() < 1e-3


def refused_and_repeated(tmp_path, questions, check):
    "Refused queries, and calls made a second time, of the shipped model."
    log = tmp_path / f"{check}.jsonl"
    policy = NanoPolicy(check=check)
    evaluate(EpisodeEnv(questions), policy, log=log, progress=False, batch=64, robust=False)
    refused = repeated = 0
    for trajectory in read_log(log)[1]:
        actions = [turn.action for turn in trajectory.turns if turn.action.action_type != "ANSWER"]
        refused += sum(bool(turn.error) for turn in trajectory.turns)
        repeated += len(actions) - len(set(actions))
    return refused, repeated


@pytest.mark.slow
def test_the_shipped_model_does_not_repeat_itself(tmp_path):
    questions = load("worlds", level=2, split="test", n=60, seed=1234)
    before = refused_and_repeated(tmp_path, questions, check=False)
    after = refused_and_repeated(tmp_path, questions, check=True)
    assert before[1] > 5 and after[1] == 0 and after[0] <= 1, (before, after)


def test_checkpoints_are_evaluated_by_what_their_weights_write(monkeypatch):
    import sql_env.training.run as run

    made = []
    monkeypatch.setattr(run, "evaluate", lambda env, policy, **rest: made.append(policy.backend))
    evaluate_checkpoint(NANO_WEIGHTS, ["bundled"], 2)
    assert made[0].settings["check"] is False and NanoModel().settings["check"] is True


# ---- what the check asks of a query


def test_a_part_that_stands_twice_and_comparisons_of_aggregates_can_be_told():
    for sql, wanted in cases("nano_check_repeated"):
        assert has_repeated_part(sql) is wanted, sql
    sql = "SELECT city FROM reader WHERE age > 40 GROUP BY city HAVING COUNT(name) > 5 AND MAX(age) < 60"
    assert [test.value for test in value_tests(sql)] == [40, 5, 60]
    assert [test.value for test in value_tests(sql, aggregates=False)] == [40]
