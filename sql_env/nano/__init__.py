"A small model of transformers, and its training: text, model, recipe; needs the extra `train`."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "text": "render_transcript",
        "model": "NanoPolicy find_nano",
        "training": "NANO expert_transcripts new_nano",
    },
)
