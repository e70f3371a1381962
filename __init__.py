"Empty: `openenv push` asks for this file; the package is `sql_env/`."
