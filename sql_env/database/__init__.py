"One SQLite file that nobody can change, look behind or hang."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "guards": "Limits QueryError",
        "database": "Database build_database",
        "writing": "WritableCopy",
    },
)
