"The episode in plain Python: actions, the schema shown, reward, simulated user, session."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "schema_view": "SCHEMA_LEVELS",
        "reward": "RewardConfig",
        "environment": "EpisodeEnv",
        "episode": "ACTIONS Action EXTRA_ACTIONS Episode Observation Turn",
        "chat": "SYSTEM_PROMPT initial_messages parse_tool_call tool_schemas",
        "session": "Session ToolError ToolResult",
    },
)
