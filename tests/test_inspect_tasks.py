"The tasks of Inspect AI: with its mock model, and against `evaluate` on the same server."

# ruff: noqa: E402

import json
import sys

import pytest
from fake_server import FakeServer

REASON = "inspect_ai is not installed: pip install 'sql_env[inspect]'"
inspect_ai = pytest.importorskip("inspect_ai", reason=REASON)
pytestmark = pytest.mark.slow

from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from sql_env import ChatPolicy, evaluate, load
from sql_env.integrations.inspect_ai import SCORERS, question_task
from sql_env.play.session import Session

VERDICTS = ("correct", "robust", "grounded")


def play(task, model, folder, **options):
    "The log of a task."
    [log] = inspect_ai.eval(task, model, display="none", log_dir=str(folder), **options)
    assert log.status == "success", log.error
    return log


def rates(log):
    "Each rate and its standard error, 'nan' if there is none."
    scores = [s for s in log.results.scores if s.name in VERDICTS]
    values = ((s.name, s.metrics["accuracy"].value, s.metrics["stderr"].value) for s in scores)
    return {name: (rate, error if error == error else "nan") for name, rate, error in values}


def mock(say):
    "Inspect's mock model; `say(messages)` returns text or the name and arguments of a call."

    def outputs(messages, *_):
        said = say(messages)
        if isinstance(said, str):
            output = ModelOutput.from_content("mock", said)
        else:
            output = ModelOutput.for_tool_call("mock", *said)
        output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
        return output

    return get_model("mockllm/model", custom_outputs=outputs, memoize=False)


@pytest.fixture(scope="module")
def questions():
    return load("bundled").sample(10, seed=3)


@pytest.fixture(scope="module")
def golds(questions):
    return {q.question_text: q.gold_sql for q in questions}


def asked(text, golds):
    return next((gold for question, gold in golds.items() if question in text), None)


def right(golds):
    "A model that runs the gold query and answers with its result."

    def say(messages):
        if messages[-1].role == "user":
            return "query", {"sql": asked(messages[-1].text, golds)}
        return "answer", {"value": "@last"}

    return mock(say)


def test_an_oracle_gets_everything_right_and_its_log_can_be_scored_again(questions, golds, tmp_path):
    log = play(question_task(questions), right(golds), tmp_path)
    assert rates(log) == dict.fromkeys(VERDICTS, (1.0, "nan"))
    sample = read_eval_log(log.location).samples[0]
    assert {"database", "difficulty", "gold_sql"} <= sample.metadata.keys()
    assert sample.store["sql_env_outcome"]["steps"] == 2
    assert [m.role for m in sample.messages] == "system user assistant tool assistant tool".split()
    log = play(question_task(questions[:2]), right(golds), tmp_path, message_limit=5)
    assert rates(log) == dict.fromkeys(VERDICTS, (1.0, "nan"))
    sample = read_eval_log(log.location).samples[0]
    assert sample.limit.type == "message"
    assert [m.role for m in sample.messages] == "system user assistant tool assistant".split()
    log = play(question_task(questions[:3]), right(golds), tmp_path)
    scorers = [SCORERS[name]() for name in VERDICTS]
    again = inspect_ai.score(read_eval_log(log.location), scorers, action="overwrite")
    assert rates(again) == rates(log)


def test_the_task_needs_no_openai(questions, tmp_path, monkeypatch):
    # On ada7898 every sample failed where openai was not installed: the dev extra hides it
    monkeypatch.setitem(sys.modules, "openai", None)
    log = play(question_task(questions[:2]), mock(lambda messages: ("answer", {"value": "0"})), tmp_path)
    assert rates(log)["correct"][0] == 0 and all(not sample.error for sample in log.samples)


def test_standard_errors_are_clustered_by_database(questions, golds, tmp_path):
    "Right on all questions of some databases and wrong on the others: the clustered error is the larger one."
    wrong = sorted({q.database_name for q in questions})[::2]
    easy = {q.question_text for q in questions if q.database_name not in wrong}

    def say(messages):
        if messages[-1].role == "user":
            return "query", {"sql": asked(messages[-1].text, golds)}
        is_easy = any(text in messages[1].text for text in easy)
        return "answer", {"value": "@last" if is_easy else "no such value"}

    log = play(question_task(questions), mock(say), tmp_path)
    rate, error = rates(log)["correct"]
    values = [float(q.question_text in easy) for q in questions]
    assert rate == sum(values) / len(values)
    by_database = {}
    for q, value in zip(questions, values):
        by_database.setdefault(q.database_name, []).append(value - rate)
    clustered = sum(sum(part) ** 2 for part in by_database.values()) ** 0.5 / len(values)
    g = len(by_database)
    assert error == pytest.approx(clustered, rel=1e-6) or error == pytest.approx(
        clustered * (g / (g - 1)) ** 0.5, rel=1e-6
    )


def test_on_one_database_the_standard_error_is_by_gold_query_and_of_one_there_is_none(tmp_path):
    "Six questions on one database, each second wrong: 0.000 was printed beside 50 %."
    one = load("bundled").filter(database_name="vet_clinic")[:6]
    golds = {q.question_text: q.gold_sql for q in one}
    wrong = {q.question_text for q in one[::2]}

    def say(messages):
        if messages[-1].role == "user":
            return "query", {"sql": asked(messages[-1].text, golds)}
        return "answer", {"value": "no such value" if any(t in messages[1].text for t in wrong) else "@last"}

    rate, error = rates(play(question_task(one), mock(say), tmp_path))["correct"]
    assert rate == 0.5 and error == pytest.approx((0.25 / 5) ** 0.5)
    log = play(question_task(one[:1]), mock(say), tmp_path)
    assert rates(log)["correct"] == (0, "nan"), "one question alone says nothing of others"
    again = inspect_ai.score(read_eval_log(log.location), [SCORERS["correct"]()], action="overwrite")
    assert rates(again)["correct"] == (0, "nan")


def test_an_episode_without_an_answer_is_wrong_and_the_budget_ends_it(questions, tmp_path):
    log = play(question_task(questions[:2]), mock(lambda messages: "I don't know."), tmp_path)
    assert rates(log)["correct"][0] == 0
    sample = read_eval_log(log.location).samples[0]
    assert sample.scores["correct"].explanation == "no_answer"
    assert sum(m.role == "assistant" for m in sample.messages) == 4  # three reminders
    log = play(question_task(questions[:2], budget=3), mock(lambda messages: ("query", {"sql": "SELECT 1"})), tmp_path)
    sample = read_eval_log(log.location).samples[0]
    assert sample.store["sql_env_outcome"]["steps"] == 3
    assert sample.scores["correct"].value == 0 and sample.scores["correct"].explanation == "no_answer"


def test_what_was_not_judged_is_left_out_of_its_rate(questions, golds, tmp_path, monkeypatch):
    real, seen = Session.verdict, []

    def verdict(session, robust=True):
        seen.append(session)
        hidden = dict(robust=None, robust_reason="no_variants") if len(seen) == 1 else {}
        return real(session, robust)._replace(**hidden)

    monkeypatch.setattr(Session, "verdict", verdict)

    log = play(question_task(questions[:4]), right(golds), tmp_path)
    scores = {s.name: s for s in log.results.scores}
    assert scores["robust"].scored_samples == 3 and scores["robust"].unscored_samples == 1
    assert scores["robust"].metrics["accuracy"].value == 1 and scores["correct"].scored_samples == 4


@pytest.mark.parametrize("actions", ["ABSTAIN", ["abstain", "execute"], "abstain,execute", ("ABSTAIN", "EXECUTE")])
def test_extra_actions_are_tools_that_come_as_text_or_as_a_list(questions, tmp_path, actions):
    "`-T actions=abstain,execute` is a list; on ada7898: TypeError."
    model = mock(lambda messages: ("abstain", {"reason": "There is no such column."}))
    [sample] = play(question_task(questions[:1], actions=actions), model, tmp_path).samples
    assert sample.store["sql_env_outcome"]["reason"].startswith("abstain")
    assert sample.store["sql_env_outcome"]["steps"] == 1


def scripted(golds):
    "A model of the fake server: each question gets its own kind of play, by what it has said so far."

    def say(body):
        messages = body["messages"]
        text = next(m["content"] for m in messages if m["role"] == "user")
        gold = asked(text, golds)
        if gold is None:  # a request that belongs to no episode
            return [("describe", {"table_name": "t"})]
        kind = sorted(golds.values()).index(gold) % 5
        turn = sum(m["role"] == "assistant" for m in messages)
        plays = [
            [[("query", {"sql": gold})], [("answer", {"value": "@last"})]],
            ["Let me think.", [("query", {"sql": gold})], [("answer", {"value": "@last"})]],
            [[("describe", {"table_name": "nonsense"})], [("query", {"sql": "SELEC"})], [("answer", {"value": 0})]],
            [[("query", {"sql": gold}), ("answer", {"value": "@last"}), ("query", {"sql": gold})]],
            [[("sample", {"table": "x"})], [("look", {})], "?", [("nothing", {})], "never"],
        ]
        return plays[kind][min(turn, len(plays[kind]) - 1)]

    return say


def test_rates_and_words_are_those_of_evaluate(questions, golds, tmp_path):
    "Both play the same server: verdicts and steps agree question by question, and so do tools and first messages."
    pytest.importorskip("openai", reason="openai is not installed: pip install 'sql_env[openai]'")
    with FakeServer(scripted(golds)) as server:
        ours = evaluate(questions, ChatPolicy("m", server.url, "none"), progress=False)
        bodies = server.bodies
    with FakeServer(scripted(golds)) as server:
        model = get_model("openai/m", base_url=server.url, api_key="none", responses_api=False)
        log = play(question_task(questions), model, tmp_path)
        others = server.bodies
    by_id = {e.question_id: e for e in ours.episodes}
    assert {e.steps for e in ours.episodes} > {2} and 0 < ours.success_rate < 1
    for sample in read_eval_log(log.location).samples:
        mine = by_id[sample.id]
        outcome = sample.store.get("sql_env_outcome") or dict.fromkeys(VERDICTS, False)
        assert outcome["correct"] == mine.correct and outcome["robust"] == bool(mine.robust)
        assert outcome["grounded"] == mine.grounded
        assert outcome.get("steps", mine.steps) == mine.steps

    def first(found):
        return {b["messages"][1]["content"]: b["messages"][:2] for b in found if len(b["messages"]) == 2}

    def words(message):
        parts = message["content"]
        return parts if isinstance(parts, str) else "".join(p["text"] for p in parts)

    a, b = first(bodies), first(others)
    assert b.keys() <= a.keys() and len(b) == len(questions)
    assert [words(m) for k in b for m in a[k]] == [words(m) for k in b for m in b[k]]
    tools = [
        {f["name"]: (f["description"], f["parameters"]["properties"]) for f in (t["function"] for t in body["tools"])}
        for body in (bodies[-1], others[-1])
    ]
    assert json.dumps(tools[0], sort_keys=True) == json.dumps(tools[1], sort_keys=True)
