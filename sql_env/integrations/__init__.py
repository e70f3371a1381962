"Other people's tools: TRL, Inspect, verifiers, SkyRL, Gymnasium, Harbor; a module each, behind an extra each."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "trl": "SQLEnvTRL SQLEnvTRLRemote prompt_rows sql_env_reward_func",
        "gymnasium": "GymEnv",
        "skyrl": "SkyRLEnv register_skyrl skyrl_rows",
    },
    {"gymnasium": "gymnasium", "skyrl": "skyrl_gym"},
)
