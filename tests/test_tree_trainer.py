"The trainer of trees: what it learns from, on nano and on a transformers model with a chat template."

import json
import math
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

import torch
from tiny_trl import make_model, make_tokenizer, warm

from sql_env import RewardConfig
from sql_env.sources.loading import load
from sql_env.training.recipes import COLAB, Recipe, Stage
from sql_env.training.run import train
from sql_env.training.tree_trainer import TokenRow, _batches, _token_losses


def tokens_of(texts):
    return make_tokenizer(texts)


@pytest.mark.slow
def test_probabilities_are_those_of_the_tokens_that_were_written():
    tok = tokens_of(["SELECT count(*) FROM visit"] * 20)
    model = make_model(tok).eval()
    rows = [
        TokenRow([5, 6, 7, 8, 9], [False, False, True, True, False], [0, 0, 0.5, 0.5, 0]),
        TokenRow([5, 9, 7], [False, True, True], [0, -1.0, -1.0]),
    ]
    chosen, entropy, credit = _token_losses(model, rows, tok.pad_token_id)
    wanted = []
    for row in rows:
        logs = model(input_ids=torch.tensor([row.tokens])).logits[0].log_softmax(-1)
        wanted += [logs[i - 1, t].item() for i, t in enumerate(row.tokens) if row.written[i]]
    assert chosen.tolist() == pytest.approx(wanted, abs=1e-4) and credit.tolist() == [
        0.5,
        0.5,
        -1,
        -1,
    ]
    assert entropy.min() > 0 and entropy.max() <= math.log(len(tok)) + 1e-4


def test_batches_hold_no_more_tokens_than_they_may():
    rows = [TokenRow([0] * n, [True] * n, [0.0] * n) for n in (5, 90, 7, 40, 6)]
    made = _batches(rows, 100)
    assert sorted(len(r.tokens) for b in made for r in b) == [5, 6, 7, 40, 90]
    assert all(len(b) * max(len(r.tokens) for r in b) <= 100 for b in made)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tree", "gigpo"])
def test_a_transformers_model_learns_from_trees(tmp_path, method):
    "A tiny Qwen that knows two conversations by heart plays, and its step changes it."
    from sql_env.training.experts import ExpertTrajectories
    from sql_env.training.sft import sft_rows

    questions = load("bundled", split="train").sample(2, 1)
    made = ExpertTrajectories(questions, seed=1)
    rows = sft_rows(made.env, made)
    tok = tokens_of([json.dumps(r) for r in rows])
    model = make_model(tok, seed=3)
    warm(model, tok, rows, 60)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    stage = Stage(
        "play",
        method,
        questions,
        dict(max_steps=1, per_device_train_batch_size=2, learning_rate=1e-2, warmup_steps=0),
        env=dict(reward=RewardConfig.shaped(), budget=4),
        options=dict(width=3, depth=1, beta=0.01),
    )
    own = dict(use_cpu=True, bf16=False, report_to="none", logging_steps=1)
    recipe = Recipe("tiny", "a test", (stage,), lambda seed: (model, tok), grpo=own, turn_tokens=60)
    run = train(recipe, tmp_path / "run", threads=1)
    (line, *_) = [json.loads(x) for x in run.metrics.read_text().splitlines() if "reward" in x]
    assert (
        line["sampled_tokens"] > 0
        and "entropy" in line
        and line["kl"] == pytest.approx(0, abs=1e-4)
    )
    assert any((before[k] != v).any() for k, v in model.state_dict().items())
    assert (run.model_path("play") / "config.json").exists()


@pytest.mark.slow
def test_nano_learns_from_trees(tmp_path):
    from sql_env.sources.generated.world import world_set
    from sql_env.training.nano.recipe import NANO, shipped_nano

    questions = world_set("train", 2, 4, 7, tmp_path / "worlds")
    args = dict(max_steps=2, per_device_train_batch_size=2, save_steps=100)
    stage = Stage("play", "tree", questions, args, options=dict(width=2, depth=2, batch=2))
    recipe = replace(NANO, name="tiny", stages=(stage,), model=shipped_nano)
    lines = []
    for name in ("one", "two"):
        run = train(recipe, tmp_path / name, threads=1)
        told = [json.loads(x) for x in run.metrics.read_text().splitlines() if '"reward"' in x]
        lines.append([{k: v for k, v in line.items() if k != "seconds"} for line in told])
    assert lines[0] == lines[1] and len(lines[0]) == 2, "the same seed, the same trees"
    assert lines[0][1]["sampled_tokens"] > lines[0][0]["sampled_tokens"]


def test_the_methods_have_names_beside_grpo():
    from sql_env.training.nano.recipe import NANO

    assert {"tree", "gigpo", "grpo"} <= set(NANO.make_trainers)
    stage = Stage("play", "gigpo", "worlds:1=4")
    assert replace(COLAB, stages=(stage,)).stages[0].method == "gigpo"
