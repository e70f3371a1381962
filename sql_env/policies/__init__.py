"Who plays: baselines, exploits of rewards, language models behind an API or here, nano."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "base": "Completion ModelError Policy RolloutAborted ScriptedPolicy play_episode",
        "baselines": "ForgetfulOracle GreedyPolicy OraclePolicy RandomPolicy",
        "hacks": "HACKS HackPolicy",
        "chat": "ChatPolicy",
        "endpoint": "Endpoint",
        "local": "LocalModel",
        "cache": "ResponseCache",
        "nano.text": "render_transcript",
        "nano.model": "NanoModel NanoPolicy find_nano",
    },
)
