"Recipes that teach a model to explore databases: the public names of the package's modules."

from sql_env.training.card import push_to_hub
from sql_env.training.evals import EVAL_SUITES, evaluate_checkpoint, run_evals
from sql_env.training.recipes import NANO, RECIPES, Recipe, Stage
from sql_env.training.run import Run, train

__all__ = [
    "EVAL_SUITES",
    "NANO",
    "RECIPES",
    "Recipe",
    "Run",
    "Stage",
    "evaluate_checkpoint",
    "push_to_hub",
    "run_evals",
    "train",
]
