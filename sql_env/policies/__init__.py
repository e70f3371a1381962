"Who plays: baselines, exploits of rewards, language models behind an API or here."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "baselines": (
            "GreedyPolicy HACKS OraclePolicy Policy RandomPolicy ScriptedPolicy "
            "named_policy play_episode policy_names"
        ),
        "requests": "Completion ModelError RolloutAborted",
        "chat": "ChatPolicy",
        "endpoint": "Endpoint",
        "local": "LocalModel load_weights",
    },
)
