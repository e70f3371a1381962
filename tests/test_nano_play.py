"Play of nano: what it plays, what of it is imitated, and that a stopped round is not played again."

import json
from dataclasses import replace
from random import Random

import pytest

from sql_env.evaluation import harness as evaluation
from sql_env.play.episode import Action
from sql_env.policies.nano.text import render_transcript
from sql_env.sources.generated.world import world_set
from sql_env.sources.loading import load
from sql_env.training.nano import recipe as nano_recipe
from sql_env.training.nano.expert import expert_transcripts, missing_mention, world_transcripts
from sql_env.training.nano.model import nano_model, nano_tokenizer
from sql_env.training.nano.recipe import (
    NANO,
    _add_own_rows,
    _own_transcripts,
    _play_round,
    _tokenize_transcript,
    _untold_questions,
)
from sql_env.training.recipes import Stage
from sql_env.training.run import train


@pytest.fixture(scope="module")
def transcripts():
    return list(world_transcripts({1: 40, 2: 20}, seed=4))


@pytest.fixture(scope="module")
def tokenizer(transcripts):
    return nano_tokenizer(transcripts, merges=80)


def question_of(messages):
    return messages[1]["content"].partition("\n")[0]


def calls_of(messages):
    calls = [c["function"] for m in messages for c in m.get("tool_calls") or ()]
    return [tuple(json.loads(c["arguments"]).values()) for c in calls]


def test_played_are_questions_that_name_no_column(tmp_path):
    questions = _untold_questions(5, 60, 60, tmp_path)
    assert {missing_mention(q) for q in questions} == {"column"}
    assert {q.question_id for q in questions} == {
        q.question_id
        for level in (1, 2)
        for q in world_set("train", level, 60, 5, tmp_path, mix=nano_recipe._NAMES)
        if missing_mention(q) == "column"
    }


def test_imitation_can_leave_these_out(tmp_path):
    questions = world_set("train", 1, 120, 22, tmp_path)
    kept = {
        share: [question_of([None, t[1]]) for t in expert_transcripts(questions, keep_untold=share)]
        for share in (1, 0)
    }
    named = [q.question_text for q in questions if missing_mention(q) != "column"]
    assert kept[0] == named and len(named) < len(kept[1]) == len(questions)


class Tries:
    "Plays each question in four ways: wrong, with a refused call, right by a detour, right at once."

    def __init__(self, questions, hopeless=()):
        self.questions, self.hopeless = questions, hopeless
        self.settings = {}

    def reset(self, seed):
        self.kind = seed % 4

    def select_action(self, observation):
        question = next(q for q in self.questions if q.question_text == observation.question)
        gold = [("QUERY", question.gold_sql), ("ANSWER", "@last")]
        table = observation.schema_info.splitlines()[-1].strip("- ")
        ways = [
            [("ANSWER", "nothing of the kind")],
            [("QUERY", "SELECT nix"), *gold],
            [("QUERY", f"SELECT COUNT(*) FROM {table}"), *gold],
            gold,
        ]
        kind = self.kind % 2 if question.question_id in self.hopeless else self.kind
        return Action(*ways[kind][observation.step_count])


def scripted(monkeypatch, **options):
    "Let `_own_transcripts` play `Tries`."

    def evaluate(env, policy, batch, **given):
        return evaluation.evaluate(env, Tries(env.questions, **options), **given)

    monkeypatch.setattr(nano_recipe, "NanoPolicy", lambda *args, **given: None)
    monkeypatch.setattr(nano_recipe, "evaluate", evaluate)


def test_one_short_right_episode_of_a_question_is_kept_and_none_with_an_error(monkeypatch):
    questions = load("bundled").sample(6, 0)
    hopeless = {q.question_id for q in questions[:2]}
    scripted(monkeypatch, hopeless=hopeless)
    own = _own_transcripts(questions, "", tries=4)
    expected = [q for q in questions if q.question_id not in hopeless]
    assert sorted(map(question_of, own)) == sorted(q.question_text for q in expected)
    gold = {q.question_text: q.gold_sql for q in expected}
    for messages in own:
        assert calls_of(messages) == [(gold[question_of(messages)],), ("@last",)]
        assert messages[-1] == dict(role="assistant", content="")


def test_nothing_is_kept_of_a_model_that_is_never_right(monkeypatch):
    questions = load("bundled").sample(3, 0)
    scripted(monkeypatch, hopeless={q.question_id for q in questions})
    assert _own_transcripts(questions, "", tries=4) == []


def test_what_is_kept_reads_as_what_the_expert_plays(monkeypatch, tmp_path):
    "A model's episode and the expert's, with the same calls, are the same text."
    questions = world_set("train", 1, 6, 3, tmp_path)
    [theirs] = expert_transcripts(questions[:1], budgets=(15, 15))
    given = [call["function"] for m in theirs for call in m.get("tool_calls") or ()]
    actions = [(c["name"].upper(), *json.loads(c["arguments"]).values()) for c in given]

    class Same(Tries):
        def select_action(self, observation):
            return Action(*actions[observation.step_count])

    monkeypatch.setattr(nano_recipe, "NanoPolicy", lambda *args, **given: None)
    monkeypatch.setattr(
        nano_recipe,
        "evaluate",
        lambda env, policy, batch, **given: evaluation.evaluate(env, Same(()), **given),
    )
    [mine] = _own_transcripts(questions[:1], "", tries=1)
    assert render_transcript(mine) == render_transcript(theirs)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5])
def test_own_rows_are_a_share(transcripts, tokenizer, share):
    rows = [_tokenize_transcript(render_transcript(t), tokenizer) for t in transcripts]
    own = transcripts[:3]
    found = _add_own_rows(rows, own, tokenizer, Random(0), share, renamed=0.0)
    added = found[len(rows) :]
    assert found[: len(rows)] == rows
    assert len(added) == round(len(rows) * share / (1 - share))
    counts = [added.count(row) for row in rows[:3]]
    assert sum(counts) == len(added) and max(counts) - min(counts) <= 1
    assert _add_own_rows(rows, [], tokenizer, Random(0), share) == rows


def test_names_of_own_rows_are_replaced_too(transcripts, tokenizer):
    rows = [_tokenize_transcript(render_transcript(t), tokenizer) for t in transcripts]
    for renamed, least, most in ((0.0, 0, 0), (0.5, 3, 17), (1.0, 15, 20)):
        found = _add_own_rows(rows, transcripts, tokenizer, Random(1), 0.25, renamed)[len(rows) :]
        assert len(found) == 20
        assert least <= sum(row not in rows for row in found) <= most


def small(transcripts):
    "A recipe whose first stage copies, and whose second one plays."
    tokenizer = nano_tokenizer(transcripts, merges=80)
    play = dict(level_1=40, level_2=40)
    stages = (
        Stage("copy", "sft", options=dict(copy=20)),
        Stage("play", "expert_iteration", "worlds:1=8", options=dict(play=play, keep_untold=0.0)),
    )
    return replace(
        NANO, stages=stages, model=lambda seed: (nano_model(tokenizer, seed, width=64), tokenizer)
    )


def test_a_stage_imitates_what_its_model_got_right(transcripts, tmp_path, monkeypatch):
    "And plays once, also if it is stopped before it has learned."
    played, learned = [], []

    def play_round(recipe, stage, model, tokenizer, seed):
        played.append(seed)
        yield from transcripts[:2]

    make = nano_recipe._imitation_trainer

    def trainer(recipe, stage, model, tokenizer, *rest):
        rows = recipe.make_rows(recipe, stage, tokenizer, rest[1])
        learned.append([tokenizer.decode(row["input_ids"]) for row in rows])
        if stage.name == "play" and len(played) == len(learned) - 1 == 1:
            raise KeyboardInterrupt
        return make(recipe, stage, model, tokenizer, *rest)

    monkeypatch.setattr(nano_recipe, "_play_round", play_round)
    monkeypatch.setattr(nano_recipe, "_imitation_trainer", trainer)
    makers = dict(sft=trainer, expert_iteration=nano_recipe._expert_iteration_trainer)
    recipe = replace(small(transcripts), make_trainers=makers)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path)
    run = train(recipe, tmp_path)
    assert played == [100] and learned[1] == learned[2]
    assert (run.model_path("play") / "model.safetensors").exists()
    kept = json.loads((tmp_path / "play" / "own_transcripts.json").read_text(encoding="utf-8"))
    assert kept == transcripts[:2]
    mine = {tokenizer_text(run, render_transcript(messages)) for messages in transcripts[:2]}
    assert mine & set(learned[1]) and len(learned[1]) > 8


def tokenizer_text(run, pieces):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(run.model_path("play"))
    return tokenizer.decode(_tokenize_transcript(pieces, tokenizer)["input_ids"])


def test_a_round_plays_with_the_weights_that_it_got(transcripts, tokenizer, monkeypatch):
    "On untold questions in pieces, each with one budget; a share of the stage plays a share of them."
    seen = []

    def own(questions, folder, seed, **given):
        policy = nano_recipe.NanoPolicy(folder)
        writer, _ = policy.backend.load()
        seen.append((len(questions), seed, given["budget"], writer.engine.embedding))
        assert {missing_mention(q) for q in questions} <= {"column"}
        return iter(transcripts[:1])

    monkeypatch.setattr(nano_recipe, "_own_transcripts", own)
    monkeypatch.setattr(nano_recipe, "_PLAYED_AT_ONCE", 60)
    model = nano_model(tokenizer, 3, width=64)
    stage = small(transcripts).stages[1]
    found = list(_play_round(NANO, replace(stage, share=1.0), model, tokenizer, 7))
    assert len(found) == len(seen) == 2
    assert len({seed for _, seed, _, _ in seen}) == 2
    weights = model.get_input_embeddings().weight.detach().numpy()
    assert all((engine == weights).all() for *_, engine in seen)
    assert all(6 <= budget <= 20 for _, _, budget, _ in seen)
    seen.clear()
    list(_play_round(NANO, replace(stage, share=0.5), model, tokenizer, 7))
    assert len(seen) == 1
