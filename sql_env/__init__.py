"""An environment for language-model agents that explore a hidden SQL database.

Everything a user needs can be imported from here; a name loads its module when it is first used.
"""

import sys

__version__ = "0.2.0"


def meanings(text: str) -> dict[str, str]:
    "Names with what they mean, from a line for each: `name: meaning`."
    return dict(line.split(": ", 1) for line in text.strip().splitlines())


def lazy_names(
    package: str, names_of: dict[str, str], needs: dict[str, str] | None = None
) -> tuple:
    """`__getattr__` and `__dir__` of a package that promises names of its modules, each loaded when it is first used.

    `needs` has the library that a module can't be imported without; `from package import *` leaves out what is missing.
    """
    module_of = {name: module for module, names in names_of.items() for name in names.split()}
    namespace = sys.modules[package].__dict__

    def importable() -> list[str]:
        from importlib.util import find_spec

        missing = {
            module for module, library in (needs or {}).items() if find_spec(library) is None
        }
        return [name for name, module in module_of.items() if module not in missing]

    def load_name(name: str):
        "Import `name` from its module when it is first used."
        if name == "__all__":
            return importable()
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = namespace[name] = getattr(import_module(f"{package}.{module_of[name]}"), name)
        return value

    return load_name, lambda: sorted({*namespace, *module_of})


_MODULES = {
    "database": "Database Limits QueryError",
    "questions": "Question QuestionSet find_split_leaks",
    "grading": "verify",
    "sources": "load",
    "worlds": "World",
    "paths": "SourceError benchmark_results",
    "play": "Action Episode EpisodeEnv RewardConfig Session",
    "policies": (
        "ChatPolicy GreedyPolicy OraclePolicy Policy RandomPolicy ScriptedPolicy play_episode"
    ),
    "evaluation": (
        "audit_markdown audit_questions compare evaluate hack_floor plot_success_rates "
        "questions_needed results_frame results_markdown"
    ),
    "view": "EpisodeExplorer embed_page episode_html view_episode",
    "judging": "explain judge reward",
    "models": "SQLAction",
    "client": "SQLEnv SessionLostError list_questions",
    "integrations.trl": "SQLEnvTRL prompt_rows sql_env_reward_func",
    "training": "evaluate_checkpoint train",
}
__getattr__, __dir__ = lazy_names(__name__, _MODULES, {"client": "openenv", "models": "openenv"})
