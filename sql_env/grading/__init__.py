"From an answer to a verdict: by value, by what was seen, and on variants of the database."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "readings": "UnreadableAnswerError parse_answer",
        "answers": "Verdict read_answer verify",
        "variants.robust": "judge_evidence verify_robust",
    },
)
