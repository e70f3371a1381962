"Whether two queries give the same rows on every database: proved, refuted by a database, or open."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "decision": "CERTIFIED Proof prove prove_on",
    },
)
