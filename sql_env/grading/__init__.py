"From an answer to a verdict: by value, by what was seen, and on variants of the database."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "answer_forms": "UnreadableAnswerError parse_answer",
        "answers": "VERDICT_REASONS Verdict compare_rows format_rows verify",
        "grounding": "Evidence is_grounded",
        "variants.robust": "ROBUST_REASONS judge_evidence verify_robust",
        "variants.selection": "variants_for",
    },
)
