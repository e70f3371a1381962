"""An environment for language-model agents that explore a hidden SQL database.

Everything a user needs can be imported from here; a name loads its module when it is first used.
"""

__version__ = "0.1.0"

_MODULE_OF = {
    "ChatPolicy": "policies",
    "Database": "database.database",
    "Limits": "database.database",
    "Episode": "play.episode",
    "EpisodeEnv": "play.episode",
    "EpisodeExplorer": "view.explorer",
    "GreedyPolicy": "policies",
    "OraclePolicy": "policies",
    "Policy": "policies",
    "QueryError": "database.database",
    "Question": "questions.question_set",
    "QuestionSet": "questions.question_set",
    "RandomPolicy": "policies",
    "RewardConfig": "play.reward",
    "SQLAction": "models",
    "SQLEnv": "client",
    "SQLEnvTRL": "integrations.trl",
    "ScriptedPolicy": "policies",
    "Session": "play.session",
    "SessionLostError": "client",
    "SourceError": "paths",
    "World": "sources.worlds",
    "audit_markdown": "evaluation.audit",
    "audit_questions": "evaluation.audit",
    "benchmark_results": "paths",
    "compare": "evaluation.harness",
    "embed_page": "view.page",
    "episode_html": "view.page",
    "evaluate": "evaluation.harness",
    "evaluate_checkpoint": "training",
    "find_split_leaks": "questions.question_set",
    "hack_floor": "evaluation.harness",
    "list_questions": "client",
    "load": "sources.loading",
    "play_episode": "policies",
    "plot_success_rates": "evaluation.reports",
    "prompt_rows": "integrations.trl",
    "questions_needed": "evaluation.statistics",
    "results_frame": "evaluation.reports",
    "results_markdown": "evaluation.reports",
    "sql_env_reward_func": "integrations.trl",
    "train": "training",
    "verify": "grading.answers",
    "view_episode": "view.episode",
}
_NEEDS_OPENENV = ("client", "models")


def _importable() -> list[str]:
    "Names for `from sql_env import *`: without the extra `server` those that need it are left out."
    from importlib.util import find_spec

    has_openenv = find_spec("openenv") is not None
    names = [name for name, m in _MODULE_OF.items() if has_openenv or m not in _NEEDS_OPENENV]
    return ["__version__", *names]


def __getattr__(name: str):
    "Import `name` from its module when it is first used."
    if name == "__all__":
        return _importable()
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'sql_env' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"sql_env.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
