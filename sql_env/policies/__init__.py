"Who plays: baselines, exploits of rewards, language models behind an API or here."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "base": "Completion ModelError Policy RolloutAborted ScriptedPolicy play_episode",
        "baselines": "ForgetfulOracle GreedyPolicy HACKS OraclePolicy RandomPolicy named_policy policy_names",
        "chat": "ChatPolicy",
        "endpoint": "Endpoint",
        "local": "LocalModel",
    },
)
