"The episode in plain Python: actions, the schema shown, reward, simulated user, session."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "reward": "RewardConfig",
        "environment": "EpisodeEnv",
        "acts": "ACTIONS Act Action Said prompt",
        "judges": "Ask Judge",
        "episode": "Episode Observation",
        "settings": "Settings",
        "chat": "initial_messages tool_schemas",
        "session": "Session ToolError",
    },
)
