"Cells of the tutorials on training, run as they stand: with the recipe for Colab and a tiny random Qwen3."

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")
from tiny_trl import save_tiny_qwen

from sql_env.training import run
from sql_env.training.recipes import COLAB, change_recipe

pytestmark = pytest.mark.slow
TUTORIALS = Path(__file__).parents[1] / "nbs" / "tutorials"


def cells(name):
    "The code of a tutorial, but for installing and what is never run, with fewer episodes."
    notebook = json.loads((TUTORIALS / f"{name}.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and "#| eval: false" not in source:
            code = source.replace('RECIPE = "small"', 'RECIPE = "colab"').replace("batch=32", "n_episodes=2")
            yield code.replace("HERE if Path(HERE).is_dir() else THERE", "RECIPES['colab'].model")


@pytest.fixture
def colab(tmp_path, monkeypatch):
    "The recipe for Colab, with a tiny model, twelve questions and one step a stage; and the folder to work in."
    model = save_tiny_qwen(tmp_path / "qwen")
    few = dict(per_device_train_batch_size=2, gradient_accumulation_steps=1, logging_steps=1)
    alone = dict(gradient_checkpointing=False, save_steps=1)
    short = dict(num_generations=2, steps_per_generation=1, max_completion_length=60)
    made = change_recipe(COLAB, data="bundled:train=48", model=str(model), max_steps=4)
    small = replace(
        made,
        validation=2,
        turn_tokens=20,
        sft=made.sft | few | alone | dict(warmup_steps=0),
        grpo=made.grpo | few | alone | short | dict(log_completions=False),
    )
    monkeypatch.setitem(run.RECIPES, "colab", small)
    monkeypatch.setenv("MPLBACKEND", "agg")
    folder = tmp_path / "nbs" / "tutorials"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return small


def test_the_tutorials_run_with_the_recipe_for_colab(colab):
    "On a8720f3: `ValueError: colab has no stage 'copy'`."
    trained, compared = {}, {}
    for code in cells("own_model"):
        exec(code, trained)
    assert len(trained["kept"]) == 32 and trained["own"].name == "colab"
    assert list(Path("runs/own/sft/model").glob("*model.safetensors"))
    assert trained["after"].n_episodes == 2
    for code in cells("compare_methods"):
        exec(code, compared)
    assert compared["MODEL"].parent.name == "sft" and compared["mine"].n_episodes == 100
