"Whether SQL is right by more than luck: one query explained, rewards for trainers, files of predictions."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "explaining": "Explanation explain",
        "judgement": "Judgement judge judgement_page_html",
        "predictions": "PredictionError read_predictions",
        "rewards": "compute_score reward reward_func sql_of sql_reward_func sql_rubric",
    },
)
