"""The `sql_env` command.

Each module registers its commands with `app` when it is imported; what a command needs is imported when it runs.
"""

from sql_env.cli.app import app, main
from sql_env.cli import play, evaluate, judge, train  # the help lists commands in this order

__all__ = ["app", "evaluate", "judge", "main", "play", "train"]
