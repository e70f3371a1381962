"Kinds of failures: each is told of labelled episodes as a person named it."

import json
from pathlib import Path

from made_rows import made_row

from sql_env import ChatPolicy, EpisodeEnv, evaluate
from sql_env.evaluation import read_log, rows
from sql_env.play import ACTIONS, Action
from sql_env.play.episode import Turn
from sql_env.policies.requests import Completion, RolloutAborted

LABELS = [json.loads(line) for line in (Path(__file__).parent / "labelled_failures.jsonl").read_text().splitlines()]
PARAMETERS = dict(describe="table_name", sample="table_name", query="sql", answer="value", abstain="reason")


class Scripted:
    "A model that says what a label tells, the last message again and again."

    name, settings, model, base_url = "scripted", {}, "scripted", ""

    def __init__(self, says, **words):
        self.says, self.words = says, words

    def fill(self, text):
        for name, value in self.words.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def complete(self, messages, tools, seed):
        n = sum(m["role"] == "assistant" for m in messages)
        said = self.says[min(n, len(self.says) - 1)]
        kind, *rest = ["text", said] if isinstance(said, str) else said
        if kind == "full":
            raise RolloutAborted(f"the conversation is too long for the model: {rest[0]}")
        message, stop = dict(role="assistant", content=""), "stop"
        if kind == "text":
            message["content"] = self.fill(rest[0])
        elif kind == "stop":
            stop, message["content"] = rest
        else:
            name, argument = rest if kind == "bad" else (kind, self.fill(rest[0]))
            written = argument if kind == "bad" else json.dumps({PARAMETERS[name]: argument})
            message["tool_calls"] = [dict(type="function", function=dict(name=name, arguments=written))]
            stop = "tool_calls"
        truncated = stop in ("length", "max_tokens")
        return Completion(message, dict(completion_tokens=5), stop_reason=stop, truncated=truncated)


def play_label(label, questions, folder, number):
    "The trajectory of a label, as a log has it after it was written and read."
    question = questions.get(label["question"])
    says = label.get("says") or [["query", label["sql"]], ["answer", "@last"]]
    model = Scripted(says, table=question.tables_involved[0], gold=question.gold_sql)
    env = EpisodeEnv(questions.with_questions([question]), actions=(*ACTIONS, "ABSTAIN"))
    log = folder / f"{number}.jsonl"
    evaluate(env, ChatPolicy(model, actions=(*ACTIONS, "ABSTAIN")), log=log, progress=False, robust=False)
    [trajectory] = read_log(log)[1]
    assert not trajectory.correct and not trajectory.error, label
    return trajectory


def test_each_labelled_failure_gets_the_kind_a_person_named(questions, tmp_path):
    for number, label in enumerate(LABELS):
        assert rows.classify_failure(play_label(label, questions, tmp_path, number)) == label["kind"], label


def wrong(reason="values", gold="SELECT a FROM t", sql=""):
    turns = [Turn(Action("QUERY", sql))] if sql else []
    return made_row(0, reason=reason, turns=turns, gold_sql=gold)


def test_a_query_that_cannot_be_read_and_a_server_that_tells_nothing_give_a_wrong_answer():
    for sql in "SELECT " + "(" * 3000 + "1" + ")" * 3000, "SELECT ((( nothing":
        assert rows.classify_failure(wrong("rows", sql=sql)) == "wrong_answer"
    assert rows.classify_failure(wrong("undisclosed", "", "SELECT 1")) == "wrong_answer"


def test_right_and_crashed_episodes_have_no_kind_and_each_kind_has_words():
    right = made_row(0, correct=True)
    crashed = rows.Trajectory(episode_index=0, question_id="q", error="E: x")
    assert rows.classify_failure(right) == rows.classify_failure(crashed) == "" == rows.answer_query(right)
    counts = rows.count_failures([right, crashed, wrong(), wrong("not_answerable"), wrong()])
    assert counts == dict(ungrounded=2, unanswerable=1)
    assert rows.failures_text(counts) == "2 no query behind it, 1 answered the unanswerable"
    assert {label["kind"] for label in LABELS} <= rows.FAILURES.keys()


def test_a_log_is_counted_line_by_line_and_the_last_try_counts(tmp_path):
    crashed = rows.Trajectory(episode_index=0, question_id="q", error="E: x")
    lines = [dict(policy="p", format=4), crashed.model_dump(), wrong().model_dump()]
    log = tmp_path / "a.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"half')
    assert rows.count_failures(read_log(log)[1]) == dict(ungrounded=1)
