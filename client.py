"Where `openenv push` looks for the client; the client itself is `sql_env.client`."

from sql_env.client import SQLEnv  # noqa: F401
