"SQL as text: how values are written, what a query reads, its one-edit mutants. Alone imports sqlglot."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "values": "Result format_value",
        "analysis": "classify_difficulty referenced_tables",
        "text": "normalize_sql",
        "mutants": "one_edit_mutants",
    },
)
