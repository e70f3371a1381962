"Names of a schema as numbers: what is shown, what is written, and that nothing is lost on the way."

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from sql_env import EpisodeEnv, load
from sql_env.integrations.trl import prompt_rows
from sql_env.nano import text as nano_text
from sql_env.nano.text import MARKS, NumberedNames, render_transcript
from sql_env.nano.training import _NumberedSQLEnv, nano_tokenizer, world_transcripts
from sql_env.play.chat import episode_messages
from sql_env.play.session import ToolError
from sql_env.policies.local import parse_assistant_text
from sql_env.sql.text import quote_identifier

OPENING = "{}\n\nTables:\n{}\n\nSteps: 9"


def shown(*names, question="How many?"):
    numbered = NumberedNames()
    numbered.opening(OPENING.format(question, "\n".join(names)))
    return numbered


@pytest.mark.parametrize(("line", "wanted"), cases("nano_text_columns"))
def test_a_column_is_shown_by_its_words_its_token_and_a_simple_type(line, wanted):
    names = shown("singer")
    singer = names.tokens["singer"]
    _, text, restated = names.result(f"singer: 3 rows\n{line}").split("\n")
    own = [token for name, token in names.tokens.items() if name != "singer"]
    assert text == wanted.format(*own, singer, *own)
    assert restated == "How many?"


def test_a_name_keeps_its_token_and_the_sixty_fifth_is_spelled():
    names = shown(*(f"t{i}" for i in range(70)))
    assert sorted(names.tokens.values()) == sorted(nano_text.NAME_TOKENS)
    assert names.numbered("SELECT a FROM t64") == "SELECT a FROM t64"
    before = dict(names.tokens)
    names.opening(OPENING.format("How many?", "t3"))
    assert names.tokens == before


@pytest.mark.parametrize(("sql", "spelled"), cases("nano_text_numbered"))
def test_names_are_numbered_outside_texts_and_calls(sql, spelled):
    names = shown("song", "Top Song", "order")
    assert names.numbered(sql) == re.sub(r"\{(.*?)\}", lambda m: names.tokens[m[1]], spelled)


_NAMES = st.lists(st.text(st.sampled_from("aBé_1 '\"([%"), min_size=1, max_size=6), max_size=6)
_TEXTS = st.lists(st.text(st.sampled_from("aB1 '"), max_size=5), max_size=3)


@given(names=_NAMES, texts=_TEXTS)
def test_sql_survives_numbering(names, texts):
    numbered = shown(*(n.strip() or "x" for n in names))
    numbered.values = dict(zip(dict.fromkeys(texts), nano_text.VALUE_TOKENS))
    parts = [quote_identifier(name) for name in numbered.tokens]
    parts += ["'" + text.replace("'", "''") + "'" for text in texts]
    sql = "SELECT " + ", ".join(parts)
    again = numbered.spelled(numbered.numbered(sql), in_sql=True)
    plain = re.sub(r'"([A-Za-z_]\w*)"', r"\1", sql)
    assert again.replace('"', "") == plain.replace('"', "")


def call_read(written, names):
    "The call in what the model wrote, with names for numbers."
    message = parse_assistant_text(written, nano_tokenizer())
    return nano_text.spelled_message(message, names)["tool_calls"][0]["function"]


def test_a_token_inside_a_text_is_a_name_and_an_unknown_one_stays():
    names = shown("song title")
    token = names.tokens["song title"]
    other = next(t for t in nano_text.NAME_TOKENS if t != token)
    for written, key, read in (
        (f"<query sql>SELECT {token}, '{token}', {other}", "sql", f"SELECT \"song title\", 'song title', {other}"),
        (f"<describe table_name>{token}", "table_name", "song title"),
    ):
        assert call_read(written, names)["arguments"][key] == read


def test_calls_of_transcripts_are_read_back_as_they_were():
    for messages in world_transcripts({1: 20, 3: 20, 5: 20}, seed=8):
        for i, message in enumerate(messages):
            if not message.get("tool_calls"):
                continue
            names = NumberedNames()
            render_transcript(messages[:i], names)
            piece = render_transcript(messages[: i + 1], NumberedNames())[-1].text
            call = call_read(piece.removesuffix("<|end|>"), names)
            arguments = message["tool_calls"][0]["function"]["arguments"]
            assert str(call["arguments"]) == str(json.loads(arguments))


def test_play_reads_what_the_policy_reads():
    questions = load("bundled")
    for question in questions[::40]:
        [row] = prompt_rows([question], "")
        env = _NumberedSQLEnv(questions, max_chars=600)
        told = [row["prompt"][-1]["content"] + env.reset(**row)]
        table = next(iter(env._names.tokens.values()))
        told += [env.describe(table), env.query(f"SELECT * FROM {table} LIMIT 1")]
        with pytest.raises(ToolError, match="no such column"):
            env.query(f"SELECT nix FROM {table}")
        start = EpisodeEnv(questions).reset(question_id=question.question_id)
        messages = episode_messages(start, env.episode.turns[:2], "", 600)
        read = [piece.text for piece in render_transcript(messages) if not piece.is_learned]
        read = [text for text in read if not text.startswith("<|a")]
        assert read == [f"<|{'tool' if i else 'user'}|>{text}<|end|>" for i, text in enumerate(told)]
        assert table in read[0] and table in read[1] and "<|n" in read[2]
        env._close()


@pytest.mark.parametrize(("question", "marks"), cases("nano_text_marks"))
def test_a_mark_says_whether_and_where_the_question_has_a_name(question, marks):
    assert nano_text._mention_marks(question, list(marks)) == list(marks.values())


@pytest.mark.parametrize(("question", "values"), cases("nano_text_values_are_what_is_quoted", list))
def test_values_are_what_is_quoted_or_has_capital_letters(question, values):
    names = NumberedNames()
    opening = names.opening(OPENING.format(question, "t"))
    values = values.split("|") if isinstance(values, str) else values
    assert list(names.values) == values
    lines = "".join(f"\n{value}{token}" for value, token in zip(values, nano_text.VALUE_TOKENS))
    told = f"t{names.tokens['t']}" + (f"\n\nValues:{lines}" if values else "")
    assert opening == OPENING.format(question, told)


@pytest.mark.parametrize(("question", "restated"), cases("nano_text_restated"))
def test_a_description_ends_with_the_question_in_tokens(question, restated):
    names = shown("club", question=question)
    text = names.result("club: 2 rows\nage INT\nwins INT\nyear_of_birth INT\nyear INT")
    assert text.rpartition("\n")[2] == restated.format(**names.tokens)


@pytest.mark.parametrize(("sql", "numbered"), cases("nano_text_values_in_sql"))
def test_a_text_that_is_a_value_is_written_by_its_token(sql, numbered):
    names = shown("t", question="Is Bo O'Hara in Oslo?")
    assert names.numbered(sql) == numbered
    assert names.spelled(numbered, in_sql=True) == sql
    assert names.spelled("<|v1|> of <|v9|>") == "Bo O'Hara of <|v9|>"


@given(question=st.text(st.sampled_from("ab s_")), names=st.lists(st.text(st.sampled_from("ab s_")), max_size=8))
def test_places_are_counted_from_one_without_a_gap(question, names):
    found = set(nano_text._mention_marks(question, names)) - {"", " ~"}
    assert found == set(MARKS[: len(found)])


def test_a_refused_call_is_not_learned_whatever_columns_are_called():
    tool = dict(role="tool", content="log: 2 rows\nerror TEXT")
    call = dict(function=dict(name="query", arguments=dict(sql="SELECT eror FROM log")))
    asked = dict(role="user", content=OPENING.format("How many?", "log"))
    refusal = dict(role="tool", content="{'error': 'no such column: eror. Did you mean error?'}")
    written = dict(role="assistant", content="", tool_calls=[call])
    pieces = render_transcript([asked, tool, written, refusal])
    assert not any(piece.is_learned for piece in pieces)
    assert "eror FROM <|n" in pieces[-2].text and "mean <|n" in pieces[-1].text
