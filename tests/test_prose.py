"The prose of notebooks, docstrings and texts: its spelling, and the words of the field."

import prose
import pytest

AMERICAN = prose.american_forms()
FAULTS = {
    "The behavior of an agent": "behavior: write behaviour",
    "Colors are chosen": "Colors: write colours",
    "normalized text": "normalized: write normalised",
    "a lesson for the model": "lesson: write transcript",
    "The exams of a run": "exams: write evaluation suite, test set",
    "has it up its sleeve": "up its sleeve: write knows",
    "we leverage this": "leverage: write a plain word",
}
FINE = (
    "The catalog of a program, for practice",
    "`color` is the name of a column, and so is `center`",
    "```\nnormalize(behavior)\n```",
    "[a page](https://example.org/color) about colour",
    'They wrote "lessons" there',
    "There is room for more",
)


@pytest.mark.parametrize("text", FAULTS)
def test_a_word_that_is_not_ours_is_found(text):
    assert list(prose.word_faults(prose.plain(text), AMERICAN)) == [FAULTS[text]]


@pytest.mark.parametrize("text", FINE)
def test_other_words_pass(text):
    assert list(prose.word_faults(prose.plain(text), AMERICAN)) == []


def test_a_misspelt_word_is_found_where_it_stands():
    pieces = [("a page", "All is well.\nIt is seperate."), ("another", "It recieves."), ("c", "")]
    assert prose.misspelt(pieces) == ["a page: seperate ==> separate", "another: recieves ==> receives"]


def test_the_prose_is_right(root):
    pieces = list(prose.passages(root))
    assert len(pieces) > 3000 and {where.split(" ")[0] for where, _ in pieces} >= {"README.md"}
    assert prose.check(pieces) == []
