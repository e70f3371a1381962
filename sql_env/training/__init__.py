"Recipes that teach a model to explore databases: experts, data, runs, checkpoints, nano's trainer."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "experts": "ExpertPolicy ExpertTrajectories",
        "sft": "sft_rows",
        "recipes": "Recipe Stage describe_recipe scale_recipe",
        "run": "RECIPES Run train",
        "evals": "EVAL_SUITES evaluate_checkpoint run_evals suite_questions",
        "credit": "gigpo_credit sibling_credit",
        "turn_rows": "hindsight_trajectories preference_rows turn_reward_rows",
        "metrics": "plot_metrics read_metrics",
        "card": "model_card push_to_hub",
        "nano.expert": "expert_transcripts world_transcripts",
        "nano.model": "nano_model nano_tokenizer",
        "nano.recipe": "NANO",
    },
)
