"Baselines, reward-hacking baselines and language models that play episodes: the public names of the modules."

from sql_env.policies.base import Policy, ScriptedPolicy, play_episode
from sql_env.policies.baselines import GreedyPolicy, OraclePolicy, RandomPolicy
from sql_env.policies.chat import ChatPolicy
from sql_env.policies.endpoint import Endpoint
from sql_env.policies.hacks import HACKS, HackPolicy, most_frequent_answer
from sql_env.policies.local import LocalModel

__all__ = [
    "HACKS",
    "ChatPolicy",
    "Endpoint",
    "GreedyPolicy",
    "HackPolicy",
    "LocalModel",
    "OraclePolicy",
    "Policy",
    "RandomPolicy",
    "ScriptedPolicy",
    "most_frequent_answer",
    "play_episode",
]
