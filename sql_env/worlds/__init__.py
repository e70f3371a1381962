"Generated databases and questions: worlds of four kinds, each made from a seed."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "world": "FAMILIES World world_set worlds",
        "conversations": "ConversationWorld",
        "changes": "ChangeWorld FollowUpWorld",
    },
)
