"SQL as text: how values are written, what a query reads, what a statement writes. Alone imports sqlglot."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "analysis": "classify_difficulty referenced_tables",
        "text": "Result format_value normalize_sql",
    },
)
