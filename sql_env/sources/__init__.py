"Where questions come from: bundled, published sets, own folders, the Hub."

from sql_env import lazy_names
from sql_env.plugins import KINDS

# by name only, as the help of the command lists them; `SOURCES` has what reads them
SOURCE_NAMES = (
    *"bundled spider sparc cosql bird spider2_lite folder hf bundled_tasks".split(),
    *KINDS["sources"],
)

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "loading": "SOURCES load",
        "tables": "import_files",
    },
)
