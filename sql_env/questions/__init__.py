"A question, its gold, and sets that split without leaking."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "question_set": (
            "Question QuestionSet "
            "find_split_leaks read_questions save_question_set"
        ),
        "gold": "GoldRunner",
    },
)
