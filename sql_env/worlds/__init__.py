"Generated databases and questions: the public names of the package's modules."

from sql_env.worlds import (  # noqa: F401  they register their families
    families_basic,
    families_joins,
    families_nested,
    families_advanced,
    families_lists,
    families_groups,
    families_figures,
    families_membership,
)
from sql_env.worlds.phrases import FAMILIES
from sql_env.worlds.words import SPLITS, NameMix
from sql_env.worlds.world import (
    World,
    export_worlds,
    guessing_statistics,
    show_family,
    world_set,
    worlds,
)

__all__ = [
    "FAMILIES",
    "SPLITS",
    "NameMix",
    "World",
    "export_worlds",
    "guessing_statistics",
    "show_family",
    "world_set",
    "worlds",
]
