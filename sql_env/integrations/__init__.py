"Other people's tools: TRL, Inspect, verifiers, SkyRL, Harbor; a module each, behind an extra each."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "trl": "SQLEnvTRL SQLEnvTRLRemote prompt_rows sql_env_reward_func",
        "skyrl": "SkyRLEnv register_skyrl skyrl_rows",
    },
    {"skyrl": "skyrl_gym"},
)
