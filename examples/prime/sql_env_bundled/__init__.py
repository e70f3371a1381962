"The questions that come with sql_env; other sources by `--env.taskset.play.source`."

from sql_env.integrations.verifiers import SQLTaskset

__all__ = ["SQLTaskset"]
