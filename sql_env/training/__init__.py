"Recipes that teach a model to explore databases: experts, data, runs, checkpoints."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "experts": "ExpertPolicy ExpertTrajectories",
        "recipes": "Recipe Stage change_recipe describe_recipe scale_recipe sft_rows",
        "run": (
            "EVAL_SUITES RECIPES evaluate_checkpoint plot_history push_to_hub read_history suite_questions train"
        ),
    },
)
