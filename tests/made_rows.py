"Rows of logs made by hand."

from sql_env.evaluation.rows import EpisodeResult
from sql_env.grading.answers import Verdict


def made_row(
    index: int, question_id: str = "q", correct=False, reason="", **fields
) -> EpisodeResult:
    "The result of an episode; `robust` and `certified` are True, False, or the reason why there is no verdict."
    by_value = Verdict(correct, reason or ("match" if correct else "values"))
    verdicts = {} if fields.get("error") else dict(value=by_value)
    for judge in ("robust", "certified"):
        found = fields.pop(judge, "")
        if found != "":
            right = (
                found if isinstance(found, bool) else dict(proved=True, refuted=False).get(found)
            )
            verdicts[judge] = Verdict(right, "" if isinstance(found, bool) else found)
    return EpisodeResult(index, question_id, verdicts, **fields)
