"A small model that plays without torch, and its training: text, engine, check, backend, recipe."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "text": "render_transcript",
        "engine": "NanoPolicy find_nano",
        "training": "NANO expert_transcripts new_nano",
    },
)
