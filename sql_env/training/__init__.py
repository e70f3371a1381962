"Recipes that teach a model to explore databases: the public names of the package's modules."

from sql_env.training.card import model_card, push_to_hub
from sql_env.training.evals import (
    EVAL_SUITES,
    evaluate_checkpoint,
    run_evals,
    suite_questions,
    suite_row,
)
from sql_env.training.metrics import plot_metrics, read_metrics
from sql_env.training.nano.expert import expert_transcripts, world_transcripts
from sql_env.policies.nano.text import render_transcript
from sql_env.training.nano.model import nano_model, nano_tokenizer
from sql_env.training.nano.recipe import NANO
from sql_env.training.recipes import (
    CLUSTER,
    COLAB,
    Recipe,
    Stage,
    change_recipe,
    describe_recipe,
    scale_recipe,
)
from sql_env.training.run import RECIPES, Run, train

__all__ = [
    "CLUSTER",
    "COLAB",
    "EVAL_SUITES",
    "NANO",
    "RECIPES",
    "Recipe",
    "Run",
    "Stage",
    "change_recipe",
    "describe_recipe",
    "evaluate_checkpoint",
    "expert_transcripts",
    "model_card",
    "nano_model",
    "nano_tokenizer",
    "plot_metrics",
    "push_to_hub",
    "read_metrics",
    "render_transcript",
    "run_evals",
    "scale_recipe",
    "suite_questions",
    "suite_row",
    "train",
    "world_transcripts",
]
