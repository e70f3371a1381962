"Whether SQL is right by more than luck: one query explained, rewards for trainers, files of predictions."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "explaining": "explain",
        "judgement": "Judgement judge",
        "predictions": "PredictionError",
        "rewards": "compute_score reward sql_of sql_reward_func sql_rubric",
    },
)
