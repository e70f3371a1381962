"Generated databases and questions: the public names of the package's modules."

from sql_env.sources.generated import (  # noqa: F401  they register their families
    families_basic,
    families_joins,
    families_nested,
    families_advanced,
    families_lists,
    families_groups,
    families_figures,
    families_membership,
)
from sql_env.sources.generated.ambiguity import AmbiguousWorld
from sql_env.sources.generated.conversations import ConversationWorld
from sql_env.sources.generated.manual import ManualWorld
from sql_env.sources.generated.changes import ChangeWorld, twins
from sql_env.sources.generated.phrases import FAMILIES
from sql_env.sources.generated.wide import WideWorld, wide_set, wide_worlds
from sql_env.sources.generated.words import SPLITS, NameMix
from sql_env.sources.generated.world import (
    World,
    export_worlds,
    guessing_statistics,
    show_family,
    world_set,
    worlds,
)

__all__ = [
    "FAMILIES",
    "AmbiguousWorld",
    "ConversationWorld",
    "ManualWorld",
    "WideWorld",
    "ChangeWorld",
    "SPLITS",
    "NameMix",
    "World",
    "export_worlds",
    "guessing_statistics",
    "show_family",
    "wide_set",
    "wide_worlds",
    "twins",
    "world_set",
    "worlds",
]
