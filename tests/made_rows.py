"Rows of logs made by hand, and whether those of a log come out again."

from sql_env.evaluation.logs import _log_env, read_log, replay_trajectory
from sql_env.evaluation.rows import Trajectory
from sql_env.grading.answers import Verdict


def made_row(index: int, question_id: str = "q", correct=False, reason="", **fields) -> Trajectory:
    "The result of an episode; `robust` and `certified` are True, False, or the reason why there is no verdict."
    by_value = Verdict(correct, reason or ("match" if correct else "values"))
    verdicts = {} if fields.get("error") else dict(value=by_value)
    for judge in ("robust", "certified"):
        found = fields.pop(judge, "")
        if found != "":
            right = found if isinstance(found, bool) else dict(proved=True, refuted=False).get(found)
            verdicts[judge] = Verdict(right, "" if isinstance(found, bool) else found)
    return Trajectory(episode_index=index, question_id=question_id, verdicts=verdicts, **fields)


def replay_problems(path, questions, robust=None) -> dict[int, list[str]]:
    "What differs when the actions of a log are taken again, by episode; nothing of a run of its own machine."
    about, trajectories = read_log(path)
    env = _log_env(about, questions)
    told = {t.episode_index: replay_trajectory(env, t, robust)[1] for t in trajectories}
    return {index: said for index, said in told.items() if said}
