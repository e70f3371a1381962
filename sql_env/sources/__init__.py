"Where questions come from: bundled, published sets, own folders, the Hub, generated worlds."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "loading": "SOURCES load load_batches",
        "tables": "import_files",
        "generated": "World export_worlds worlds",
    },
)
