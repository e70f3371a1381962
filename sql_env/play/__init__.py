"The episode in plain Python: actions, the schema shown, reward, simulated user, session."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "reward": "RewardConfig",
        "acts": "ACTIONS Act Action Said Settings prompt",
        "judges": "Ask Judge",
        "episode": "Episode EpisodeEnv Observation",
        "chat": "initial_messages tool_schemas",
        "session": "Session ToolError",
    },
)
