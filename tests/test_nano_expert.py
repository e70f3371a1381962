"The expert of nano: it looks for tables and columns as the model will have to, and every transcript ends right."

import json
import re
from collections import Counter

import pytest
from tables import cases

from sql_env.database.database import build_database
from sql_env.nano.text import render_transcript
from sql_env.nano.training import expert_transcripts, world_transcripts
from sql_env.questions.question_set import Question
from sql_env.sources.files import Drafts
from sql_env.sources.loading import _complete_questions
from sql_env.sql.analysis import TokenizedSql
from sql_env.training import experts
from sql_env.training.experts import missing_mention
from sql_env.worlds.world import world_set


def question_of(transcript):
    return transcript[1]["content"].partition("\n")[0]


def calls_of(transcript):
    "Tools and arguments of the calls, in order."
    calls = [c["function"] for m in transcript for c in m.get("tool_calls") or ()]
    return [(c["name"], *json.loads(c["arguments"]).values()) for c in calls]


def results_of(transcript):
    return [m["content"] for m in transcript if m["role"] == "tool"]


def answered_queries(transcript):
    "Queries that were not refused."
    played = zip(calls_of(transcript), results_of(transcript), strict=True)
    return [argument for (tool, argument), result in played if tool == "query" and not result.startswith("{'error'")]


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_transcripts_end_right_and_are_terse(level, tmp_path):
    questions = world_set("train", level, 40, 11, tmp_path)
    transcripts = list(expert_transcripts(questions, 0))
    assert len(transcripts) == len(questions)
    for transcript in transcripts:
        refused = [text for text in results_of(transcript) if text.startswith("{'error'")]
        assert len(refused) <= 1
        assert all(re.search("unknown_column|syntax|ambiguous", text) for text in refused)
        assert calls_of(transcript)[-1] == ("answer", "@last") and transcript[0]["content"] == ""
        assert transcript[-1] == {"role": "assistant", "content": ""}


@pytest.mark.parametrize("level, share", [(1, 0.05), pytest.param(4, 0.03, marks=pytest.mark.slow)])
def test_tables_that_a_question_does_not_mention_are_searched(level, share, tmp_path):
    "Needed tables that are mentioned, or that a table seen refers to; else as listed. None after the last needed."
    questions = world_set("train", level, 200, 12, tmp_path)
    searched = 0
    transcripts = expert_transcripts(questions, 0, max_chars=10**6)
    for question, transcript in zip(questions, transcripts, strict=True):
        needed, seen = set(question.tables_involved), {}
        listed = experts._GoldQuery(question, questions.database(question.database_name)).columns
        for (tool, table), text in zip(calls_of(transcript), results_of(transcript)):
            if tool == "describe":
                told = {x for x in needed - seen.keys() if is_told(x, question, seen)}
                unseen = [x.lower() for x in listed if x.lower() not in seen]
                assert table.lower() in (told or unseen[:1])
                seen[table.lower()] = text.lower()
        assert needed <= seen.keys() and list(seen)[-1] in needed
        searched += len(seen) > len(needed)
    assert share < searched / len(questions) < 0.3


def is_told(table, question, seen):
    "Whether a question mentions a table, or a description that was seen refers to it."
    is_referenced = any(f"references {table}." in text for text in seen.values())
    return is_referenced or experts._mentions_name(table, question.question_text)


def test_a_query_on_a_wrong_table_is_refused_and_not_learned(tmp_path):
    "What is learned is the next call: describe another table."
    too_early = 0
    for transcript in expert_transcripts(world_set("train", 1, 200, 23, tmp_path), probe_columns=True):
        calls = calls_of(transcript)
        for i, (before, call, after) in enumerate(zip(calls, calls[1:], calls[2:]), 1):
            if (before[0], call[0], after[0]) == ("describe", "query", "describe"):
                too_early += 1
                assert before[1] in call[1] and after[1] not in call[1]
                pieces = render_transcript(transcript)
                written = [b for a, b in zip(pieces, pieces[1:]) if a.text == "<|assistant|>"]
                assert written[i].text.startswith("<query sql>") and not written[i].is_learned
    assert too_early > 8


def test_what_a_question_mentions_and_how_a_query_is_shortened():
    for table, question, mentioned in cases("nano_expert_mentions_name"):
        assert experts._mentions_name(table, question) is mentioned, (table, question)
    for condition, question, columns in cases("nano_expert_columns_that_a_question_does", list):
        sql = TokenizedSql(f"SELECT COUNT(*) FROM pump WHERE {condition}")
        assert experts._unmentioned_columns(sql, question) == columns, question
    for sql, short in cases("nano_expert_a_column_has_its_table"):  # where two have a column of its name
        assert experts._short_query(sql, dict(x={"id", "a"}, y={"id", "c"})) == short


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_search_goes_down_the_table_and_ends_where_something_is_found(level, tmp_path):
    questions = world_set("train", level, 1400, 21, tmp_path)
    transcripts = list(expert_transcripts(questions, probe_columns=True))
    assert len(transcripts) >= 0.98 * len(questions)
    by_text, searched = {q.question_text: q for q in questions}, Counter()
    for transcript in transcripts:
        question, queries = by_text[question_of(transcript)], answered_queries(transcript)
        if missing_mention(question) != "column" or len(queries) < 3:
            continue
        database = questions.database(question.database_name)
        assert database.query(queries[-1]).rows == database.query(question.gold_sql).rows
        looks = [sql for sql in queries if sql.endswith(" LIMIT 3")]
        if looks:
            check_looks(question, database, looks)
        elif "DISTINCT" not in "".join(queries):
            rows = [row for sql in queries[:-1] for row in database.query(sql).rows]
            assert not any(any(row) for row in rows)
        searched[bool(looks)] += 1
    assert min(searched.values()) >= 6 and len(searched) == 2, searched


def check_looks(question, database, looks):
    "SELECT DISTINCT column FROM table LIMIT 3: columns in the order of the table, the right one last."
    columns, table = [sql.split()[2] for sql in looks], looks[0].split()[4]
    hidden = experts._unmentioned_columns(TokenizedSql(question.gold_sql), question.question_text)
    assert columns[-1] in question.gold_sql
    order = [column.name for column in database.columns(table)][2:]  # after the key and the name
    assert columns == order[: order.index(columns[-1]) + 1]
    assert columns[-1] == next(column for column in hidden if column in order)


PUMPS = """CREATE TABLE yard (yard_id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE day (day TEXT PRIMARY KEY);
    CREATE TABLE pump (pump_id INTEGER PRIMARY KEY, name TEXT, yard_id INTEGER REFERENCES yard(yard_id), state TEXT,
        size INTEGER, price REAL, maker TEXT, origin TEXT, used INTEGER)"""


@pytest.fixture
def pumps(tmp_path):
    "Makes a set of one question about pumps."
    new, old = (1, "A", 1, "new", 5, 2.5, "Elm", "Elm", 1), (2, "B", 1, "old", 6, 2020.5, "Oak", "2020-01-03", 0)
    rows = dict(yard=[(1, "Y")], pump=[new, old], day=[("Monday",)])
    path = build_database(tmp_path / "pumps.sqlite", PUMPS, rows)

    def make(text, sql):
        question = Question("q", text, "pumps", sql, split="train")
        return _complete_questions(Drafts([question], {"pumps": path}, "pumps"))

    return make


@pytest.mark.parametrize("text, sql, probe, columns", cases("nano_expert_a_search_in_one_table"))
def test_a_search_in_one_table(pumps, text, sql, probe, columns):
    questions = pumps(text, sql)
    [transcript] = expert_transcripts(questions, probe_columns=True)
    *probes, last = answered_queries(transcript)
    assert probes == [probe.format(column) for column in columns.split()]
    database = questions.database("pumps")
    assert database.query(last).rows == database.query(sql).rows


def test_a_wrong_table_may_have_no_second_column(pumps):
    questions = pumps("What is the size of A?", "SELECT size FROM pump WHERE name = 'A'")
    gold = experts._GoldQuery(questions[0], questions.database("pumps"))
    assert experts._swap_table(gold, "pump", "day") == "SELECT size FROM day WHERE name = 'A'"
    assert len(list(expert_transcripts(questions, probe_columns=True))) == 1


def test_fully_specified_questions_can_be_thinned(tmp_path):
    "And those that leave a column out."
    questions = world_set("train", 1, 120, 22, tmp_path)
    missing = {q.question_text: missing_mention(q) for q in questions}
    assert set(missing.values()) == {"", "table", "column"}
    kept = {
        share: [question_of(t) for t in expert_transcripts(questions, keep_fully_specified=share)]
        for share in (1, 0.5, 0)
    }
    assert kept[1] == [q.question_text for q in questions]
    assert kept[0] == [text for text in kept[1] if missing[text]]
    assert set(kept[0]) < set(kept[0.5]) < set(kept[1])
    told = [question_of(t) for t in expert_transcripts(questions, keep_untold=0)]
    assert told == [text for text in kept[1] if missing[text] != "column"] and len(told) < len(kept[1])


def test_short_queries_keep_the_result(tmp_path):
    found = Counter()
    for questions in (world_set("train", level, 120, seed, tmp_path) for level, seed in ((5, 3), (4, 6), (3, 4))):
        for question in questions:
            database = questions.database(question.database_name)
            short = experts._short_query(question.gold_sql, experts._GoldQuery(question, database).columns)
            is_same = database.query(short).rows == database.query(question.gold_sql).rows
            found[is_same, short != question.gold_sql] += 1
    assert found[True, True] > 100 > 50 * found[False, True], found


def test_a_schema_that_is_shown_is_not_described_and_transcripts_follow_from_the_seed(tmp_path):
    for transcript in expert_transcripts(world_set("train", 1, 12, 5, tmp_path), schema_level="full"):
        assert "describe" not in [tool for tool, _ in calls_of(transcript)]
    a, b, c = (list(world_transcripts({2: 10}, seed)) for seed in (1, 1, 2))
    assert a == b != c
