"Empty, because `openenv push` asks for it; the package is `sql_env/`."
