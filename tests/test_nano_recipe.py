"What nano learns from: other words for names, what it plays, what of that is imitated, and once."

import copy
import json
import re
from dataclasses import replace
from random import Random

import pytest

from sql_env import EpisodeEnv, Question, QuestionSet, load
from sql_env.database.database import build_database
from sql_env.nano import training as nano_training
from sql_env.nano.model import NANO_WEIGHTS
from sql_env.nano.text import render_transcript
from sql_env.nano.training import FIRST, NANO, nano_tokenizer, new_nano
from sql_env.play.acts import Action
from sql_env.training.experts import missing_mention
from sql_env.training.recipes import Stage, right_trajectories, trajectory_messages
from sql_env.training.run import train
from sql_env.worlds.world import world_set

PIECES = ["ket", "or", "time", "last", "zu"]


@pytest.fixture(scope="module")
def transcripts():
    return list(nano_training.world_transcripts(dict.fromkeys((1, 2, 3, 4, 5), 25), seed=3))


def question_of(messages):
    return next(m["content"] for m in messages if m["role"] == "user").partition("\n")[0]


def calls_of(messages):
    calls = [c["function"] for m in messages for c in m.get("tool_calls") or ()]
    return [(c["name"], json.loads(c["arguments"])) for c in calls]


def test_names_are_replaced_everywhere_alike(transcripts):
    "Each name that a call writes is replaced by what stands in its place in the schema."
    replaced = 0
    for seed, messages in enumerate(transcripts):
        before = copy.deepcopy(messages)
        renamed = nano_training._rename_schema(messages, Random(seed), PIECES)
        assert messages == before and [m["role"] for m in renamed] == [m["role"] for m in messages]
        old, new = nano_training._schema_names(messages), nano_training._schema_names(renamed)
        assert len(old) == len(new)
        table = dict(zip(old, new))
        assert all(table[a] == b for a, b in zip(old, new))
        for (tool, written), (other, rewritten) in zip(calls_of(messages), calls_of(renamed)):
            assert tool == other and written.keys() == rewritten.keys()
            for key in written:
                pairs = zip(*(re.findall(r"\w+", x[key]) for x in (written, rewritten)), strict=True)
                assert all(table.get(a, b) == b for a, b in pairs)
        replaced += old != new
    assert replaced > 0.9 * len(transcripts)


def test_a_mentioned_word_is_replaced_in_the_question_too_and_one_that_nothing_tells_stays(transcripts):
    "The expert writes it and the question does not mention it: it can only be known."
    kept = changed = 0
    for seed, messages in enumerate(transcripts):
        renamed = nano_training._rename_schema(messages, Random(seed), PIECES, share=1.0)
        before, after = map(nano_training._schema_words, (messages, renamed))
        written = " ".join(v for _, given in calls_of(messages) for v in given.values())
        for word in before:
            is_written = re.search(rf"(?<![A-Za-z]){word}(?:s|es)?(?![A-Za-z])", written)
            told = rf"(?<![a-z])(?:{word}|{word.removesuffix('s')})(?:s|es)?(?![a-z])"
            if is_written and not re.search(told, question_of(messages).lower()):
                assert word in after
                kept += 1
        for word in before - after - set(PIECES):
            assert not re.search(rf"(?<![a-z]){word}(?![a-z])", question_of(renamed).lower())
        changed += question_of(renamed) != question_of(messages)
    assert kept > 20 and changed > 0.8 * len(transcripts)


def texts_of(rows):
    tokenizer = nano_tokenizer()
    return [tokenizer.decode(row["input_ids"]) for row in rows]


def test_a_share_of_the_rows_is_renamed(monkeypatch, transcripts):
    "Of the model's own too."
    monkeypatch.setattr(nano_training, "_stage_transcripts", lambda *args: transcripts[:40])
    texts = {}
    for share in (0.0, 0.5, 1.0):
        stage = Stage("few", "sft", options=dict(renamed=share))
        texts[share] = texts_of(nano_training._nano_rows(NANO, stage, nano_tokenizer(), 5, own=transcripts[40:80]))
        assert len(texts[share]) == 53
    for part in (slice(40), slice(40, 53)):
        kept = [sum(a == b for a, b in zip(texts[0.0][part], texts[s][part])) for s in (0.5, 1.0)]
        n = len(texts[0.0][part])
        assert 0.2 * n <= kept[0] <= 0.8 * n and kept[1] <= 0.1 * n


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5])
def test_own_rows_are_a_share(monkeypatch, transcripts, share):
    monkeypatch.setattr(nano_training, "_stage_transcripts", lambda *args: transcripts[:40])
    monkeypatch.setattr(nano_training, "_OWN_SHARE", share)
    stage, own = Stage("few", "sft"), transcripts[:3]
    rows = nano_training._nano_rows(NANO, stage, nano_tokenizer(), 0)
    found = nano_training._nano_rows(NANO, stage, nano_tokenizer(), 0, own=own)
    added = found[len(rows) :]
    assert found[: len(rows)] == rows and len(added) == round(len(rows) * share / (1 - share))
    counts = [added.count(row) for row in rows[:3]]
    assert sum(counts) == len(added) and max(counts) - min(counts) <= 1


@pytest.mark.parametrize("options, times", [({}, 1), (dict(repeat=1), 1), (dict(repeat=3), 3)])
def test_questions_are_played_once_or_as_often_as_is_said(options, times):
    "Worlds never repeat, so only other sources do; a default of two went unnoticed."
    stages = [Stage("x", "sft", source) for source in ("bundled:train=4", "worlds:1=8")]
    bundled, worlds = (list(nano_training._stage_transcripts(NANO, stage, dict(options), seed=1)) for stage in stages)
    asked = [question_of(m) for m in bundled]
    assert len(worlds) <= 8 and 0 < len(set(asked)) <= 4 and all(asked.count(q) == times for q in asked)


def test_the_first_training_is_small():
    "Its work is counted in steps: two minutes on two cores, measured once; not what a clock leaves of it."
    [stage] = FIRST.stages
    assert "minutes" not in stage.options
    model, tokenizer = FIRST.model(0)
    assert 1e6 < model.num_parameters() < 1.2e6
    shipped = json.loads((NANO_WEIGHTS / "tokenizer.json").read_text())["model"]["vocab"]
    assert tokenizer.get_vocab() == shipped | tokenizer.get_added_vocab()
    assert FIRST.expected and "level 1" in FIRST.expected


def test_played_are_questions_that_name_no_column(tmp_path):
    questions = nano_training._untold_questions(5, 60, 60, tmp_path)
    sets = [world_set("train", level, 60, 5, tmp_path, mix=nano_training._NAMES) for level in (1, 2)]
    untold = {q.question_id for qs in sets for q in qs if missing_mention(q) == "column"}
    assert {missing_mention(q) for q in questions} == {"column"} and {q.question_id for q in questions} == untold


class Tries:
    "Plays each question in four ways: wrong, with a refused call, right by a detour, right at once."

    def __init__(self, questions, hopeless=()):
        self.questions, self.hopeless, self.settings = questions, hopeless, {}

    def reset(self, seed):
        self.kind = seed % 4

    def select_action(self, observation):
        question = next(q for q in self.questions if q.question_text == observation.question)
        gold = [("QUERY", question.gold_sql), ("ANSWER", "@last")]
        table = observation.schema_info.splitlines()[-1].strip("- ")
        detour = [("QUERY", f"SELECT COUNT(*) FROM {table}"), *gold]
        ways = [[("ANSWER", "nothing of the kind")], [("QUERY", "SELECT nix"), *gold], detour, gold]
        kind = self.kind % 2 if question.question_id in self.hopeless else self.kind
        return Action(*ways[kind][observation.step_count])


def test_one_short_right_episode_of_a_question_is_kept_and_none_with_an_error():
    questions = load("bundled").sample(6, 0)
    hopeless = {q.question_id for q in questions[:2]}
    own = right_trajectories(EpisodeEnv(questions), Tries(questions, hopeless), tries=4)
    gold = {q.question_id: q.gold_sql for q in questions if q.question_id not in hopeless}
    actions = {t.question_id: [turn.action for turn in t.turns] for t in own}
    assert actions == {k: [("QUERY", sql), ("ANSWER", "@last")] for k, sql in gold.items()}
    never = Tries(questions, {q.question_id for q in questions})
    assert right_trajectories(EpisodeEnv(questions), never, tries=4) == []


def test_what_is_kept_reads_as_what_the_expert_plays(tmp_path):
    "A model's episode and the expert's, with the same calls, are the same text."
    questions = world_set("train", 1, 6, 3, tmp_path)[1:2]
    [theirs] = nano_training.expert_transcripts(questions, seed=1, budgets=(15, 15))
    assert "'error'" not in str(theirs)
    actions = [(name.upper(), *given.values()) for name, given in calls_of(theirs)]

    class Same(Tries):
        def select_action(self, observation):
            return Action(*actions[observation.step_count])

    env = EpisodeEnv(questions)
    [mine] = right_trajectories(env, Same(()), tries=1)
    messages = trajectory_messages(env, mine, "", 600, last_message="")
    assert render_transcript(messages) == render_transcript(theirs)


def small():
    "A recipe whose first stage copies, and whose second one plays."
    options = dict(play=dict(level_1=40, level_2=40), keep_untold=0.0)
    second = Stage("play", "expert_iteration", "worlds:1=12", options=options)
    stages = Stage("copy", "sft", options=dict(copy=20)), second
    return replace(NANO, stages=stages, model=lambda seed: new_nano(seed, width=64))


@pytest.mark.slow
def test_a_stage_imitates_what_its_model_got_right(transcripts, tmp_path, monkeypatch):
    "And plays once, also if it is stopped before it has learned."
    played, learned = [], []

    def play_round(recipe, stage, model, tokenizer, seed):
        played.append(seed)
        yield from transcripts[:2]

    make = nano_training.nano_trainer

    def trainer(recipe, stage, model, tokenizer, *rest):
        rows = recipe.make_rows(recipe, stage, tokenizer, rest[1])
        learned.append([tokenizer.decode(row["input_ids"]) for row in rows])
        if stage.name == "play" and len(played) == len(learned) - 1 == 1:
            raise KeyboardInterrupt
        return make(recipe, stage, model, tokenizer, *rest)

    monkeypatch.setattr(nano_training, "_play_round", play_round)
    monkeypatch.setattr(nano_training, "nano_trainer", trainer)
    makers = dict(sft=trainer, expert_iteration=nano_training._expert_iteration_trainer)
    recipe = replace(small(), make_trainers=makers)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path)
    run = train(recipe, tmp_path)
    assert played == [100] and learned[1] == learned[2]
    assert (run.model_path("play") / "model.safetensors").exists()
    kept = json.loads((tmp_path / "play" / "own_transcripts.json").read_text(encoding="utf-8"))
    assert kept == transcripts[:2]
    pieces = [render_transcript(messages) for messages in transcripts[:2]]
    mine = set(texts_of(nano_training._tokenize_transcript(p, nano_tokenizer()) for p in pieces))
    assert mine & set(learned[1]) and len(learned[1]) > 8


def test_a_round_plays_with_the_weights_that_it_got(monkeypatch):
    "On untold questions in pieces, each with one budget; a share of the stage plays a share of them."
    seen = []

    def own(env, policy, seed, batch):
        played, _ = policy.backend.load()
        seen.append((seed, env.reset().budget_remaining, played.get_input_embeddings().weight.detach().numpy()))
        assert {missing_mention(q) for q in env.questions} <= {"column"}
        assert policy.max_chars == 600 and policy.backend.max_new_tokens == 100
        return []

    monkeypatch.setattr(nano_training, "right_trajectories", own)
    monkeypatch.setattr(nano_training, "_PLAYED_AT_ONCE", 60)
    stage, (model, tokenizer) = small().stages[1], new_nano(3, width=64)
    assert not list(nano_training._play_round(NANO, stage, model, tokenizer, 7))
    weights = model.get_input_embeddings().weight.detach().numpy()
    assert len(seen) == len({seed for seed, *_ in seen}) == 2
    assert all((w == weights).all() and 6 <= budget <= 20 for _, budget, w in seen)
    seen.clear()
    list(nano_training._play_round(NANO, replace(stage, share=0.5), model, tokenizer, 7))
    assert len(seen) == 1


def test_a_query_names_a_table_that_sql_could_misread(tmp_path):
    path = tmp_path / "shop.sqlite"
    build_database(path, 'CREATE TABLE "order" ("paid on" TEXT)', {"order": [("May",)]})
    about = dict(gold_sql='SELECT 1 FROM "order"', gold_answer=((1,),), tables_involved=("order",))
    env = nano_training._NumberedSQLEnv(QuestionSet([Question("q", "When?", "shop", **about)], {"shop": path}))
    env.reset(question_id="q")
    env.describe(env._names.tokens["order"])
    table, column = (env._names.tokens[name] for name in ("order", "paid on"))
    assert "May" in env.query(f"SELECT {column} FROM {table}")
