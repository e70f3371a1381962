"What nano learns from: transcripts with other words for names, and tokens that do not know the names."

import copy
import json
import re
from random import Random

import pytest

from sql_env.training.nano.expert import world_transcripts
from sql_env.training.nano.model import nano_tokenizer
from sql_env.training.nano.recipe import (
    FIRST,
    NANO,
    _nano_rows,
    _rename_schema,
    _schema_names,
    _schema_words,
    _stage_transcripts,
)
from sql_env.training.recipes import Stage

PIECES = ["ket", "or", "time", "last", "zu"]


@pytest.fixture(scope="module")
def transcripts():
    return list(world_transcripts(dict.fromkeys((1, 2, 3, 4, 5), 25), seed=3))


def question_of(messages):
    return messages[1]["content"].partition("\n\n")[0]


def calls_of(messages):
    calls = [c["function"] for m in messages for c in m.get("tool_calls") or ()]
    return [(c["name"], json.loads(c["arguments"])) for c in calls]


def test_names_are_replaced_everywhere_alike(transcripts):
    "Each name that a call writes is replaced by what stands in its place in the schema."
    replaced = 0
    for seed, messages in enumerate(transcripts):
        before = copy.deepcopy(messages)
        renamed = _rename_schema(messages, Random(seed), PIECES)
        assert messages == before
        assert [m["role"] for m in renamed] == [m["role"] for m in messages]
        old, new = _schema_names(messages), _schema_names(renamed)
        assert len(old) == len(new)
        table = dict(zip(old, new))
        assert all(table[a] == b for a, b in zip(old, new))
        for (tool, written), (other, rewritten) in zip(calls_of(messages), calls_of(renamed)):
            assert tool == other and written.keys() == rewritten.keys()
            for key in written:
                pairs = zip(
                    *(re.findall(r"\w+", x[key]) for x in (written, rewritten)), strict=True
                )
                assert all(table.get(a, b) == b for a, b in pairs)
        replaced += old != new
    assert replaced > 0.9 * len(transcripts)


def test_a_word_that_nothing_tells_keeps_its_meaning(transcripts):
    "The expert writes it and the question does not mention it: it can only be known."
    kept = 0
    for seed, messages in enumerate(transcripts):
        question = question_of(messages).lower()
        written = " ".join(v for _, given in calls_of(messages) for v in given.values())
        for word in _schema_words(messages):
            is_written = re.search(rf"(?<![A-Za-z]){word}(?:s|es)?(?![A-Za-z])", written)
            forms = f"{word}|{word.removesuffix('s')}"
            if is_written and not re.search(rf"(?<![a-z])(?:{forms})(?:s|es)?(?![a-z])", question):
                renamed = _rename_schema(messages, Random(seed), PIECES, share=1.0)
                assert word in _schema_words(renamed)
                kept += 1
    assert kept > 20


def test_a_mentioned_word_is_replaced_in_the_question_too(transcripts):
    changed = 0
    for seed, messages in enumerate(transcripts):
        renamed = _rename_schema(messages, Random(seed), PIECES, share=1.0)
        left = _schema_words(messages) & _schema_words(renamed)
        for word in _schema_words(messages) - left - set(PIECES):
            assert not re.search(rf"(?<![a-z]){word}(?![a-z])", question_of(renamed).lower())
        changed += question_of(renamed) != question_of(messages)
    assert changed > 0.8 * len(transcripts)


def test_a_share_of_the_rows_is_renamed(transcripts):
    tokenizer = nano_tokenizer(transcripts)
    texts = {}
    for share in (0.0, 0.5, 1.0):
        stage = Stage("few", "sft", "worlds:1=40", options=dict(renamed=share))
        rows = _nano_rows(NANO, stage, tokenizer, 5)
        texts[share] = [tokenizer.decode(row["input_ids"]) for row in rows]
    as_it_was = [sum(a == b for a, b in zip(texts[0.0], texts[s])) for s in (0.5, 1.0)]
    assert 8 <= as_it_was[0] <= 32 and as_it_was[1] <= 4


def test_no_word_of_a_name_is_a_token_of_the_wording(transcripts):
    "As one token with its space, a noun would say nothing about the table of that name."
    vocabulary = nano_tokenizer(transcripts).get_vocab()
    nouns = {word for messages in transcripts for word in _schema_words(messages)}
    tokens = {token[1:] for token in vocabulary if token.startswith("Ġ")}
    frequent = {"number", "name", "date", "of", "code"}  # of which the wording has far more
    assert not {w for w in nouns if {w, w + "s"} & tokens} - frequent


@pytest.mark.parametrize("options, times", [({}, 1), (dict(repeat=1), 1), (dict(repeat=3), 3)])
def test_questions_are_played_once_or_as_often_as_is_said(options, times):
    "Worlds never repeat, so only other sources do; a default of two went unnoticed."
    made = {}
    for source in ("bundled:train=4", "worlds:1=8"):
        stage = Stage("x", "sft", source)
        made[source] = list(_stage_transcripts(NANO, stage, dict(options), seed=1))
    asked = [
        question_of([None, m[0]] if m[0]["role"] == "user" else m) for m in made["bundled:train=4"]
    ]
    assert len(made["worlds:1=8"]) <= 8
    assert 0 < len(set(asked)) <= 4 and all(asked.count(q) == times for q in asked)


def test_the_first_training_is_small_and_needs_no_tokenizer_of_its_own(tmp_path):
    "Its work is counted in steps: two minutes on two cores, measured once; not what a clock leaves of it."
    from sql_env.policies.nano.model import find_nano

    [stage] = FIRST.stages
    assert "minutes" not in stage.options
    model, tokenizer = FIRST.model(0)
    assert 1e6 < model.num_parameters() < 1.2e6
    assert (
        tokenizer.get_vocab()
        == json.loads((find_nano() / "tokenizer.json").read_text())["model"]["vocab"]
        | tokenizer.get_added_vocab()
    )
    assert FIRST.expected and "level 1" in FIRST.expected
