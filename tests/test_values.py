"Values: one written form for each, which reads back; results as text; values in JSON."

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from tables import cases

from sql_env.grading.answers import _cells_equal
from sql_env.sql.text import (
    Result,
    format_identifier,
    format_value,
    is_sql_value,
    nearest_names,
    parse_cell,
    value_from_json,
    value_to_json,
)

VALUES = cases("values_values")


values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=20),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.sampled_from(VALUES),
    st.from_regex(r"['\"\\nxNUL0-9eE+. |@\[{-]{0,8}", fullmatch=True),
    st.integers().map(str).filter(lambda s: len(s) < 25),
    st.floats().map(str),
)


@law(800)
@given(v=values)
def test_a_written_value_is_one_line_and_reads_back(v):
    text = format_value(v)
    assert text and text == text.strip() and all(ord(c) > 31 and c != "\x7f" for c in text)
    assert "|" not in text or text[0] == text[-1] == "'", "a bar only between quotes"
    assert _cells_equal(parse_cell(text), v), "and is the value again"
    assert format_value(v) == text


@law(800)
@given(a=values, b=values)
def test_different_values_are_written_differently(a, b):
    if format_value(a) == format_value(b):
        assert a == b and type(a) is type(b)


@pytest.mark.parametrize("value, text", cases("values_written_forms"))
def test_written_forms(value, text):
    assert format_value(value) == text


def test_long_values_are_cut_and_say_how_long_they_are():
    assert format_value("x" * 400, 300) == "x" * 300 + "... (400 characters)"
    assert format_value(b"\xab" * 200, 300) == "x'" + "ab" * 150 + "'... (200 bytes)"
    assert format_value("x" * 300, 300) == "x" * 300 and format_value(b"\xab" * 150, 300) == "x'" + "ab" * 150 + "'"
    # a pattern that backtracks on this text would need ten thousand million steps and never end
    text = "1" * 200_000 + "x"
    assert format_value(text) == text


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_from_json(value):
    back = value_from_json(json.loads(json.dumps(value_to_json(value), allow_nan=False)))
    assert (type(back), repr(back)) == (type(value), repr(value)) and is_sql_value(back)
    assert not any(map(is_sql_value, [float("nan"), [1], object()])), "what SQLite can't hold"


def test_text_says_how_many_rows_are_not_shown():
    r = Result(("n",), [(i,) for i in range(25)])
    assert r.text().split("\n")[-1] == "... 25 rows, 20 shown" and len(r.text().split("\n")) == 22
    assert Result(("n",), [], False).text() == "n\n(no rows)"
    frame = Result(("n", "n"), [(1, "y"), (2, "x")]).frame()
    assert list(frame.columns) == ["n", "n"] and frame.values.tolist() == [[1, "y"], [2, "x"]]


def test_names_are_quoted_where_they_could_be_taken_for_two_and_the_nearest_are_found():
    names = ["ship", "port call", "price, net", "count(*)", "it's", "a\\,b", "NULL"]
    written = ["ship", "port call", "'price, net'", "'count(*)'", "'it''s'", r"'a\\,b'", "'NULL'"]
    assert [format_identifier(n) for n in names] == written
    names = ["bundled", "spider"]
    assert nearest_names("bondled", names) == "the nearest are bundled"
    assert nearest_names("x", names) == "there are bundled, spider"
    assert nearest_names("x", list("abcdefg")) == "there are a, b, c, d, e and 2 more"
    assert nearest_names(7, ["bundled"]) == "there are bundled"
