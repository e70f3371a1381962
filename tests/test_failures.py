"Kinds of failures: a hundred labelled ones, and the spellings that must not look like a difference."

import json
from collections import Counter
from pathlib import Path

from made_rows import made_row
from mutants import one_edit_mutants

from sql_env import ChatPolicy, EpisodeEnv, evaluate
from sql_env.evaluation import read_log, rows
from sql_env.play import ACTIONS, Action
from sql_env.play.episode import Turn
from sql_env.policies.requests import Completion, RolloutAborted
from sql_env.sql.clauses import differing_clauses
from sql_env.view.logs import JsonlLog

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
    assert not trajectory.correct and not trajectory.episode.error, label
    return trajectory


def test_at_least_ninety_of_a_hundred_labelled_failures_get_the_kind_a_person_named(questions, tmp_path):
    missed = []
    for number, label in enumerate(LABELS):
        kind = rows.classify_failure(play_label(label, questions, tmp_path, number))
        if kind != label["kind"]:
            missed.append((label["kind"], kind, label.get("sql") or label["says"]))
    print(len(LABELS) - len(missed), "of", len(LABELS), missed)
    assert len(LABELS) == 100 and len(missed) <= 10, missed


EDITS = dict(
    filter="drop_where operator literal drop_term and_or drop_not add_not drop_having",
    aggregate="aggregate count_distinct count_star",
    order="drop_order flip_order",
    rows="drop_limit limit add_distinct drop_distinct set_operation union_all",
    tables="left_join drop_branch",
)
CLAUSE_OF_EDIT = {edit: clause for clause, edits in EDITS.items() for edit in edits.split()}


def test_an_edited_gold_query_differs_in_the_clause_that_was_edited(questions):
    "Labels of another origin: the edits of `one_edit_mutants`. Those in subqueries of conditions count as filters."
    right = n = 0
    for question in questions[::5]:
        for edit, sql in one_edit_mutants(question.gold_sql):
            if wanted := CLAUSE_OF_EDIT.get(edit):
                differs = differing_clauses(sql, question.gold_sql)
                n, right = n + 1, right + (differs[:1] == [wanted])
    print(right, "of", n)
    assert right / n >= 0.93


def test_other_spellings_do_not_look_like_another_filter():
    gold = "SELECT COUNT(*) FROM batch JOIN beer ON beer.beer_id = batch.beer_id WHERE beer.name = 'Lantern'"
    for sql in (
        "select COUNT(1) from Batch as b inner join beer on b.beer_id = beer.beer_id where 'Lantern' = beer.Name",
        "SELECT COUNT(*) FROM beer, batch WHERE beer.name IN ('Lantern') AND batch.beer_id = beer.beer_id",
        "WITH x AS (SELECT * FROM beer WHERE name = 'Lantern') SELECT COUNT(*) FROM batch b JOIN x USING (beer_id)",
    ):
        assert "filter" not in differing_clauses(sql, gold), sql


def wrong(reason="values", gold="SELECT a FROM t", sql=""):
    turns = [Turn(Action("QUERY", sql))] if sql else []
    return rows.Trajectory(made_row(0, reason=reason), {}, turns, gold_sql=gold)


def test_nothing_is_known_where_a_server_tells_nothing_and_nested_queries_are_not_read_to_the_end():
    assert rows.classify_failure(wrong(sql="SELECT " + "(" * 3000 + "1" + ")" * 3000)) == "wrong_rows"
    assert rows.classify_failure(wrong("undisclosed", "", "SELECT 1")) == "wrong_answer"
    assert rows.classify_failure(wrong("columns", "", "SELECT 1")) == "wrong_columns"
    assert rows.classify_failure(wrong("rows", sql="SELECT ((( nothing")) == "wrong_rows"


def test_right_and_crashed_episodes_have_no_kind_and_each_kind_has_words():
    right = rows.Trajectory(made_row(0, correct=True), {}, [])
    crashed = rows.Trajectory(rows.EpisodeResult(0, "q", error="E: x"), {}, [])
    assert rows.classify_failure(right) == rows.classify_failure(crashed) == "" == rows.answer_query(right)
    counts = rows.count_failures([right, crashed, wrong(), wrong("not_answerable"), wrong()])
    assert counts == dict(ungrounded=2, unanswerable=1) and set(counts) <= set(rows.FAILURES)
    assert rows.failures_text(counts) == "2 no query behind it, 1 answered the unanswerable"
    assert Counter(label["kind"] for label in LABELS).keys() <= rows.FAILURES.keys()


def test_a_log_is_counted_line_by_line_and_the_last_try_counts(tmp_path):
    crashed = rows.Trajectory(rows.EpisodeResult(0, "q", error="E: x"), {}, [])
    lines = [dict(policy="p"), crashed.to_dict(), wrong().to_dict(), dict(episode=3)]
    log = tmp_path / "a.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"half')
    found = JsonlLog(log)
    found.update()
    assert rows.count_failures(map(found.read, range(len(found.episodes)))) == dict(ungrounded=1)
