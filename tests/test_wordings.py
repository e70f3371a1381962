"Wordings of the generated questions: forms, exams, and agreement."

import re
from collections import Counter
from functools import cache
from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import cases

from sql_env.worlds import FAMILIES, World, worlds
from sql_env.worlds import words as world_words
from sql_env.worlds.phrases import _with_article
from sql_env.worlds.words import EXAMS, Rng, load_vocabulary, load_wordings

LEVELS = range(1, 6)


def expansions(sequence):
    "All texts of a parsed form."
    choices = [
        [piece] if isinstance(piece, str) else [t for option in piece for t in expansions(option)] for piece in sequence
    ]
    return ["".join(parts) for parts in product(*choices)]


def all_texts(form):
    return [world_words._tidy(text) for text in expansions(world_words._parse_form(form))]


def words_of(texts):
    return {word for text in texts for word in re.findall(r"(?<!\{)\b[a-z'-]+\b(?!\})", text.lower())}


def own_forms():
    "Forms of conditions in the vocabulary, and those for test_vocabulary."
    abouts = [
        about for kind in ("numbers", "categories", "dates", "flags") for about in load_vocabulary()[kind].values()
    ]
    keys = ("forms", "on", "since", "before", "over", "under", "ask")
    lists = [about[key] for about in abouts for key in keys if not isinstance(about.get(key, ""), str)]
    return [form for forms in lists for form in forms], [form for about in abouts for form in about.get("unseen", ())]


@cache
def training_texts():
    "Of all phrases, and of conditions."
    forms = [*(form for phrase in phrases() for form in phrase.forms), *own_forms()[0]]
    return {text for form in forms for text in all_texts(form)}


def phrases():
    return [*load_wordings().values(), *load_wordings("conditions").values()]


def test_a_space_stands_between_a_slot_and_a_word():
    for phrase in (*phrases(), *load_wordings("selections").values()):
        for form in phrase.forms:
            for text in {world_words._expand(form, Rng(seed)) for seed in range(12)}:
                assert not re.search(r"\}(?!e?s\b)[A-Za-z]", text), text


def test_forms_and_their_texts_of_which_each_family_has_many():
    for form, *texts in cases("wordings_forms"):
        assert {world_words._expand(form, Rng(seed)) for seed in range(80)} == set(texts) == set(all_texts(form)), form
        assert world_words._count_forms(form) == len(texts)
    for name, family in FAMILIES.items():
        assert len({text for form in family.wordings.forms for text in all_texts(form)}) >= 50, name


@given(st.recursive(st.sampled_from(["a", "b ", "{x}"]), lambda s: st.lists(s, min_size=1, max_size=3)))
def test_any_form_is_counted(tree):
    def write(node):
        return node if isinstance(node, str) else "(" + "|".join(map(write, node)) + ")"

    form = write(tree)
    assert world_words._count_forms(form) == len(expansions(world_words._parse_form(form)))
    assert world_words._expand(form, Rng(1)) in all_texts(form)


@pytest.mark.parametrize("form", ("a (b", "a) b", "a | b", "(a|b))", "((a|b)"))
def test_broken_forms_are_refused(form):
    with pytest.raises(ValueError, match="parenthes"):
        world_words._expand(form, Rng(0))


def test_exam_words_are_all_training_words():
    "New combinations: each word that test_wording uses stands in a training wording too."
    exam, training = set(), {text for form in own_forms()[0] for text in all_texts(form)}
    for form in (form for phrase in phrases() for form in phrase.forms):
        kept = {text for text in all_texts(form) if world_words._is_kept_for_exam(form, text)}
        exam |= kept
        training |= set(all_texts(form)) - kept
    assert len(exam) > 1200 and len(exam & training) < len(exam) / 100
    assert words_of(exam) <= words_of(training)


def test_unseen_vocabulary_is_unseen():
    "Each form for test_vocabulary is new as a whole, and nearly all have a word that no other wording uses."
    unseen = [*own_forms()[1], *(form for phrase in phrases() for form in phrase.unseen)]
    texts = {text for form in unseen for text in all_texts(form)}
    assert not texts & training_texts()
    known = words_of(training_texts())
    assert sum(bool(words_of([text]) - known) for text in texts) / len(texts) > 0.6


def synonyms(side):
    words = [s for group in world_words._load_synonyms().values() for s in group.values()]
    return {text for s in words for text in getattr(s, side)}


def test_held_out_synonyms_stand_in_no_training_text():
    held_out, train = synonyms("exam"), synonyms("train")
    new = {word for s in held_out for word in re.findall("[a-z]+", s)} - words_of(train)
    assert len(held_out) > 40 < len(train) and all(set(re.findall("[a-z]+", s)) & new for s in held_out)
    either = "|".join(map(re.escape, held_out))
    pattern = re.compile(rf"(?<![a-z])({either})(s|es)?(?![a-z])", re.IGNORECASE)
    asked = {q.question_text for level in LEVELS for w in islice(worlds(level, 8), 15) for q in w.questions}
    assert not [text for text in training_texts() | train | asked if pattern.search(text)]


def test_synonyms_are_drawn():
    "Of tables and columns, in training and more often in the exam; values and gold stay."
    found = Counter()
    for side, split in (("train", "train"), ("exam", "test_vocabulary")):
        pattern = re.compile("|".join(rf"\b{re.escape(s)}" for s in synonyms(side)), re.IGNORECASE)
        for w in islice(worlds(1, 9, split), 60):
            found[side] += sum(bool(pattern.search(q.question_text)) for q in w.questions)
    assert 3 < found["train"] < found["exam"]


def test_synonyms_in_forms_and_articles():
    for text, wording, *said in cases("wordings_synonyms"):
        assert {world_words._use_synonym(text, Rng(seed), wording) for seed in range(20)} == set(said), text
    said = ["a price", "an age", "an hour count", "a unit cost", "a number of seats"]
    assert [_with_article(text.partition(" ")[2]) for text in said] == said
    assert _with_article("recorded supply") == "recorded supply"


def test_exams_ask_the_questions_of_test_in_other_words():
    for level in (1, 3):
        for a in islice(worlds(level, 3, "test"), 5):
            gold = {q.gold_sql: q.question_text for q in a.questions}
            for exam in ("test_wording", "test_vocabulary"):
                b = World(a.seed, level, wording=exam)
                assert a.image == b.image and b.split == exam
                same = [q.question_text == gold[q.gold_sql] for q in b.questions]
                assert len(same) >= 4 and sum(same) <= 1


def test_made_up_exam_has_made_up_names():
    nouns = [n for field in load_vocabulary()["fields"].values() for n in field.values() if isinstance(n, dict)]
    real = {word for n in nouns for word in n["words"]}
    names = {
        split: [t.singular for w in islice(worlds(1, 1, split), 20) for t in w.tables.values()]
        for split in ("test_made_up", "test")
    }
    made_up = names["test_made_up"]
    assert sum(name.split()[-1] not in real for name in made_up) / len(made_up) > 0.5
    assert all(name.endswith(tuple(real)) for name in names["test"])


# ---- the English
QUESTION = r" *(What|Which|How|Who|When|Where|Could|Can|Would|Do|Does|Is|Are) [a-z]"
ORDER = r" *(Give|List|Count|Find|Name|Report|Tell|Show|Please) (?!of)[a-z]"
NOT_A = r"\b[Aa] (?!uni|use|eu|one\b)[aeio][a-z]|\ban [bcdfgjklmnpqrstvwz]"


def bad_english(question, tables):
    "Rules that a question breaks."
    text = question.question_text
    rules = (r"[{}<>|]", r"  ", r" [,.?!]", r"\b(a|the|of|is|are|with|in|for) \1\b", NOT_A)
    broken = [rule for rule in rules if re.search(rule, text)]
    for table in tables:
        many, one = re.escape(table.plural), re.escape(table.singular)
        if many == one or table.role == "codes":
            continue
        if re.search(rf"\b(each|every|a|an|any single|one) {many}\b", text):
            broken.append(f"singular article before {many}")
        before_one = rf"\b(many|all|these|different|those) {one}\b(?! [a-z]+s\b)(?!'?s)"
        if re.search(before_one, text) and not many.startswith(one):
            broken.append(f"plural before {one}")
        if re.search(rf"(?<!of )(?<!of the )(?<!of all )(?<!by )\b(the|all|our) {many} (is|was|has)\b", text):
            broken.append(f"{many} with a singular verb")
        if table.role != "member" and re.search(rf"\b{many} who\b", text):
            broken.append(f"{many} who")
    for sentence in re.findall(r"[^.?]+[.?]", re.sub(r"(\d)\.(\d)|St\.", r"\1\2", text)):
        is_asked = sentence[-1] == "?"
        if re.match(QUESTION, sentence) and not is_asked and ":" not in sentence and "," not in sentence:
            broken.append("a question without a question mark")
        if re.match(ORDER, sentence) and is_asked and ":" not in sentence:
            broken.append("an order with a question mark")
    return broken


@pytest.mark.parametrize("split", ("train", "test", "test_wording"))
@pytest.mark.parametrize("level", LEVELS)
def test_english(level, split):
    "Agreement, articles, punctuation: over 2,000 questions in all."
    asked = [(q, w.tables.values()) for w in islice(worlds(level, 5, split, n=9), 16) for q in w.questions]
    found = [(q.question_text, bad_english(q, tables)) for q, tables in asked]
    assert [about for about in found if about[1]] == []


def test_splits_share_no_words():
    vocabulary = load_vocabulary()
    fields = vocabulary["fields"].values()
    nouns = [field[role]["words"] for field in fields for role in ("group", "member", "thing", "event")]
    kinds = [vocabulary[kind].values() for kind in ("numbers", "categories", "dates", "flags", "codes")]
    for words in [*nouns, *(about["words"] for abouts in kinds for about in abouts)]:
        assert {world_words._split_of_word(word) for word in words} == {"train", "validation", "test"}, words
    assert len(fields) >= 40 and len({word for field in fields for word in field["thing"]["words"]}) > 400
    assert list(EXAMS) == ["test_wording", "test_vocabulary", "test_made_up"]
