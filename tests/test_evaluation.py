"Evaluation: the same numbers whoever computes them, no episode lost, logs that survive a kill, intervals that cover."

import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from sql_env.episode import Action, EpisodeEnv
from sql_env.evaluation import EvaluationResult, evaluate, hack_floor
from sql_env.logs import EpisodeResult, gold_key
from sql_env.policies.base import ScriptedPolicy
from sql_env.policies.baselines import OraclePolicy, RandomPolicy
from sql_env.policies.hacks import HACKS
from sql_env.questions import Question, QuestionSet
from sql_env.reports import (
    load_result,
    plot_success_rates,
    results_frame,
    results_markdown,
    save_result,
)
from sql_env.reward import RewardConfig
from sql_env.rollouts import plan_episodes
from sql_env.sources import load

CONSTANT = HACKS[2]


@lru_cache(None)
def bundled():
    return load("bundled")


def env(n=60, **settings):
    return EpisodeEnv(bundled().sample(n, 3), **settings)


def same(a, b):
    "Equal bit for bit, nan included."
    return (
        repr(a.episodes) == repr(b.episodes)
        and a.settings == b.settings
        and a.policy == b.policy
        and repr(a.interval()) == repr(b.interval())
    )


class Slow(RandomPolicy):
    "A random policy that sleeps, so that a run can be killed in the middle."

    name = "slow"

    def select_action(self, observation):
        time.sleep(0.003)
        return super().select_action(observation)


class Broken(RandomPolicy):
    "Raises on every third question."

    name = "broken"

    def select_action(self, observation):
        if len(observation.question) % 3 == 0 and observation.step_count == 2:
            raise RuntimeError("I give up")
        return Action("DESCRIBE", "x") if observation.step_count < 3 else Action("ANSWER", "1")


class Deadly(RandomPolicy):
    "Ends its process on one question."

    name = "deadly"

    def __init__(self, victim):
        self.victim, self.pid = victim, os.getpid()

    def reset(self, seed):
        pass

    def select_action(self, observation):
        if observation.question == self.victim and os.getpid() != self.pid:
            os._exit(3)
        return Action("ANSWER", "1")


class BrokenEnv(EpisodeEnv):
    "Raises at some resets and at some steps."

    def reset(self, **options):
        if options["question_id"].endswith("1"):
            raise OSError("the disk is gone")
        return super().reset(**options)

    def step(self, *action):
        if self.episode.question.question_id.endswith("2") and self.episode.steps == 1:
            raise MemoryError
        return super().step(*action)


# ---- the result


def test_the_fields_of_results_are_the_contract():
    assert {"episode_index", "correct", "total_reward", "steps", "error"} <= {
        f.name for f in fields(EpisodeResult)
    }
    result = evaluate(env(), RandomPolicy(0), 5, progress=False)
    for name in (
        "success_rate",
        "avg_reward",
        "avg_steps",
        "n_episodes",
        "n_completed",
        "episodes",
    ):
        assert getattr(result, name) is not None
    assert isinstance(result, EvaluationResult) and [
        e.episode_index for e in result.episodes
    ] == list(range(5))


def test_rates_are_means_over_completed_episodes():
    episodes = [
        EpisodeResult(0, "a", True, 1.0, 3, grounded=True),
        EpisodeResult(1, "b", False, 0.5, 5),
        EpisodeResult(2, "c", True, 1.0, 4),
        EpisodeResult(3, "d", error="E: x"),
    ]
    result = EvaluationResult("p", episodes)
    assert (result.n_episodes, result.n_completed) == (4, 3)
    assert (
        result.success_rate == 2 / 3
        and result.avg_steps == 4
        and result.avg_reward == 2.5 / 3
        and result.grounded_rate == 1 / 3
    )
    assert "1 crashed" in repr(result)


def test_a_result_without_completed_episodes_is_nan():
    result = EvaluationResult("p", [EpisodeResult(0, "a", error="E: x")])
    assert (
        math.isnan(result.success_rate)
        and all(map(math.isnan, result.interval()))
        and "1 crashed" in repr(result)
    )


def test_numbers_agree_with_a_count_by_hand():
    e = env(reward=RewardConfig.shaped())
    result = evaluate(e, OraclePolicy(bundled()), progress=False)
    assert result.success_rate == result.grounded_rate == 1 and result.n_completed == 60
    one = result.episodes[7]
    q = bundled().get(one.question_id)
    e.reset(question_id=q.question_id, seed=0)
    policy, o = OraclePolicy(bundled()), e.episode.reset(0)
    total = 0.0
    while not o.done:
        o = e.step(*policy.select_action(o))
        total += o.reward
    assert one.total_reward == pytest.approx(total, abs=1e-12) and one.steps == o.step_count
    assert (one.database, one.difficulty, one.gold) == (q.database_name, q.difficulty, gold_key(q))


def test_every_question_is_played_once_by_default():
    result = evaluate(env(), CONSTANT, progress=False)
    assert sorted(e.question_id for e in result.episodes) == sorted(
        q.question_id for q in env().questions
    )


@pytest.mark.parametrize("n", [1, 59, 60, 61, 150])
def test_more_episodes_than_questions_play_them_again_with_other_seeds(n):
    plan = plan_episodes(env(), n, 5)
    assert (
        [p[0] for p in plan] == list(range(n))
        and len({(p[1]["question_id"], p[1]["seed"]) for p in plan}) == n
        and len({p[2] for p in plan}) == n
    )
    result = evaluate(env(), RandomPolicy(0), n, 5, progress=False)
    assert result.n_episodes == result.n_completed == n
    counts = np.unique([e.question_id for e in result.episodes], return_counts=True)[1]
    assert counts.max() - counts.min() <= 1 and counts.max() == -(-n // 60)


def test_the_seed_decides_everything():
    a, b, c = (evaluate(env(), RandomPolicy(0), 60, s, progress=False) for s in (1, 1, 2))
    assert same(a, b) and [e.question_id for e in a.episodes] != [e.question_id for e in c.episodes]
    assert {e.question_id: e.steps for e in a.episodes} != {
        e.question_id: e.steps for e in c.episodes
    }


def test_a_question_set_is_an_environment_too():
    assert same(
        evaluate(bundled().sample(60, 3), RandomPolicy(0), progress=False),
        evaluate(env(), RandomPolicy(0), progress=False),
    )


def test_an_empty_set_is_an_error():
    with pytest.raises(ValueError, match="no questions"):
        evaluate(QuestionSet([], {}, "void"), RandomPolicy(0))


def test_by_difficulty_database_and_error_kind():
    result = evaluate(bundled(), RandomPolicy(0), 200, progress=False)
    for name in ("difficulty", "database"):
        frame = result.by(name)
        assert frame.episodes.sum() == 200 and set(frame.index) == {
            getattr(e, name) for e in result.episodes
        }
        for key, row in frame.iterrows():
            mine = [e.correct for e in result.episodes if getattr(e, name) == key]
            assert (
                row.success == round(sum(mine) / len(mine), 3)
                and row.low <= row.success <= row.high
            )
    errors = evaluate(
        env(),
        ScriptedPolicy([("NOPE", ""), ("QUERY", "DROP TABLE x"), ("ANSWER", "1")]),
        progress=False,
    ).error_kinds()
    assert errors == {"unknown_action": 60, "not_read_only": 60}
    assert len(result.frame()) == 200


# ---- executors


@pytest.mark.parametrize(
    "policy, context",
    [
        (RandomPolicy(4), "fork"),
        (OraclePolicy(bundled()), "fork"),
        (CONSTANT, "fork"),
        (CONSTANT, "spawn"),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_processes_give_the_same_result_bit_for_bit(policy, context):
    e = env(60, reward=RewardConfig.shaped())
    with ProcessPoolExecutor(2, multiprocessing.get_context(context)) as pool:
        parallel = evaluate(e, policy, 130, 3, executor=pool, progress=False)
    assert same(parallel, evaluate(e, policy, 130, 3, progress=False))
    assert parallel.n_completed == 130


def test_threads_give_the_same_result_bit_for_bit():
    serial = evaluate(env(reward=RewardConfig.shaped()), RandomPolicy(4), 200, 3, progress=False)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            assert same(
                evaluate(
                    env(reward=RewardConfig.shaped()),
                    RandomPolicy(4),
                    200,
                    3,
                    executor=pool,
                    progress=False,
                ),
                serial,
            )


def test_one_episode_in_an_executor():
    with ThreadPoolExecutor(2) as pool:
        assert evaluate(env(), RandomPolicy(0), 1, executor=pool, progress=False).n_completed == 1


def test_logs_of_an_executor_resume_in_the_same_result(tmp_path):
    with ThreadPoolExecutor(3) as pool:
        a = evaluate(
            env(), RandomPolicy(4), 60, executor=pool, log=tmp_path / "a.jsonl", progress=False
        )
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert len(lines) == 61
    (tmp_path / "a.jsonl").write_text("\n".join(lines[:30]) + "\n")
    assert same(evaluate(env(), RandomPolicy(4), 60, log=tmp_path / "a.jsonl", progress=False), a)


# ---- nothing is lost


def test_a_policy_that_raises_loses_no_episode():
    result = evaluate(env(), Broken(), progress=False)
    crashed = [e for e in result.episodes if e.error]
    assert (
        result.n_episodes == 60
        and 0 < len(crashed) < 60
        and result.n_completed == 60 - len(crashed)
    )
    for e in crashed:
        q = bundled().get(e.question_id)
        assert (
            e.error == "RuntimeError: I give up"
            and len(q.question_text) % 3 == 0
            and (e.database, e.difficulty) == (q.database_name, q.difficulty)
            and not e.correct
        )
    assert result.avg_steps == 4, "crashed episodes don't enter the means"
    with ProcessPoolExecutor(2) as pool:
        assert same(evaluate(env(), Broken(), executor=pool, progress=False), result)


def test_an_environment_that_raises_loses_no_episode():
    result = evaluate(BrokenEnv(bundled().sample(60, 3)), RandomPolicy(0), progress=False)
    errors = {e.question_id[-1]: e.error for e in result.episodes}
    assert (
        result.n_episodes == 60
        and errors["1"] == "OSError: the disk is gone"
        and errors["2"].startswith("MemoryError")
        and errors["3"] is None
    )
    assert result.n_completed == sum(e.question_id[-1] not in "12" for e in result.episodes)
    assert all(e.question_id in bundled().by_id for e in result.episodes)


@pytest.mark.parametrize("bad", [None, 3, ("ANSWER",) * 3, "AB", Action(None, None), (b"x", 1.5)])
def test_a_policy_that_returns_nonsense_loses_no_episode(bad):
    class Nonsense:
        def select_action(self, observation):
            return bad

    result = evaluate(env(), Nonsense(), 5, progress=False)
    assert result.n_episodes == 5 and all(
        e.error or e.reason == "no_answer" for e in result.episodes
    )


def test_a_policy_whose_reset_raises_loses_no_episode():
    class NoReset(RandomPolicy):
        def reset(self, seed):
            if hasattr(self, "rng"):
                raise ValueError("no reset")
            super().reset(seed)

    result = evaluate(env(), NoReset(), 5, progress=False)
    assert result.n_episodes == 5 and all(
        e.error == "ValueError: no reset" for e in result.episodes
    )


def test_a_worker_that_dies_loses_no_episode():
    e = env()
    victim = e.questions.get(plan_episodes(e, None, 0)[40][1]["question_id"]).question_text
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        result = evaluate(e, Deadly(victim), executor=pool, progress=False)
    assert result.n_episodes == 60 and [x.episode_index for x in result.episodes] == list(range(60))
    crashed = [x for x in result.episodes if x.error]
    assert (
        crashed
        and victim in {bundled().get(x.question_id).question_text for x in crashed}
        and all("BrokenProcessPool" in x.error for x in crashed)
    )


def test_episodes_of_a_dead_worker_are_played_again_when_a_log_resumes(tmp_path):
    e, log = env(), tmp_path / "a.jsonl"
    policy = Deadly(e.questions[5].question_text)
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        assert evaluate(e, policy, executor=pool, log=log, progress=False).n_completed < 60
    result = evaluate(e, policy, log=log, progress=False)  # it dies in workers only
    assert result.n_completed == 60, "what the machine lost must not stay lost"


# ---- logs (their format: test_logs.py)


def run_slow(log):
    return evaluate(env(40), Slow(1), 80, 2, log=log, progress=False)


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    log = tmp_path / "run.jsonl"
    process = subprocess.Popen([sys.executable, __file__, str(log)])
    end = time.monotonic() + 30
    while time.monotonic() < end and not (log.exists() and log.read_bytes().count(b"\n") > 8):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = log.read_bytes()
    done = before.count(b"\n") - 1
    assert 8 <= done < 80, "killed in the middle"
    with log.open("ab") as f:
        f.write(
            b'{"episode": {"episode_index": 79, "question_id": "x", "corr'
        )  # half a line, as a crash of the machine leaves it
    resumed = run_slow(log)
    assert same(resumed, run_slow(None)) and resumed.n_completed == 80
    lines = log.read_bytes().split(b"\n")
    assert (
        lines[-1] == b""
        and len(lines) == 82
        and b"\n".join(lines).startswith(before[: before.rindex(b"\n") + 1])
    ), "what was done is kept as it was"
    assert sorted(json.loads(x)["episode"]["episode_index"] for x in lines[1:-1]) == list(range(80))


def test_crashed_episodes_stay_in_the_log(tmp_path):
    log = tmp_path / "a.jsonl"
    a = evaluate(env(), Broken(), log=log, progress=False)
    assert same(evaluate(env(), Broken(), log=log, progress=False), a) and a.n_completed < 60


# ---- reports


@pytest.fixture(scope="module")
def results():
    return [
        evaluate(env(), p, progress=False)
        for p in (RandomPolicy(0), OraclePolicy(bundled()), Broken())
    ]


def test_a_result_is_saved_and_read_back(tmp_path, results):
    for r in results:
        r = replace(r, hack_floor={"empty": 0.0, "constant 1": 0.01})
        back = load_result(save_result(r, tmp_path / f"{r.policy}.json"))
        assert back == r and same(back, r)
        d = json.loads((tmp_path / f"{r.policy}.json").read_text())
        assert (
            d["summary"]["success_rate"] == r.success_rate
            and (d["summary"]["low"], d["summary"]["high"]) == r.interval()
        )
        assert d["settings"]["questions"] == "bundled" and d["settings"]["budget"] == 15


def test_a_table_has_a_row_for_each_result(results):
    t = results_frame(results)
    assert list(t.index) == ["random", "oracle", "broken"]
    assert (
        t.loc["oracle", "success"] == 1
        and t.loc["broken", "completed"] < t.loc["broken", "episodes"] == 60
    )


def test_markdown_is_a_table_with_the_floor_below(results):
    lines = results_markdown(results, {"empty": 0.004, "constant 1": 0.0}).split("\n")
    assert (
        lines[0].startswith("| policy | success |")
        and len(lines) == 7
        and all(x.count("|") == lines[0].count("|") for x in lines[:5])
    )
    assert "100.0%" in lines[3] and lines[-1] == "Hack floor: 0.4% (empty)."
    assert "Hack floor" not in results_markdown(results)


def test_markdown_survives_an_awkward_name(results):
    lines = results_markdown([replace(results[0], policy="a|b\nc")]).split("\n")
    assert len(lines) == 3 and lines[2].replace("\\|", "").count("|") == lines[0].count("|")


def test_a_plot_is_drawn_and_written(tmp_path, results):
    import matplotlib

    matplotlib.use("Agg")
    for some, floor in (
        (results, {"empty": 0.1}),
        (results[:1], None),
        ([EvaluationResult("none", [EpisodeResult(0, "a", error="E")])], {}),
    ):
        ax = plot_success_rates(some, floor)
        assert [t.get_text() for t in ax.get_yticklabels()] == [r.policy for r in some]
        assert ("hack floor" in str([x.get_label() for x in ax.lines])) == bool(floor)
        ax.figure.savefig(tmp_path / "a.png")
        assert (tmp_path / "a.png").stat().st_size > 2000
        matplotlib.pyplot.close(ax.figure)


def test_the_hack_floor_names_each_hack_the_best_first():
    floor = hack_floor(bundled().sample(40, 2))
    assert len(floor) == len(HACKS) + 1 and list(floor.values()) == sorted(
        floor.values(), reverse=True
    )
    guessable = QuestionSet(
        [Question(str(i), "How many?", "vet_clinic", "SELECT 1", ((1,),)) for i in range(5)],
        bundled().databases,
    )
    found = hack_floor(guessable)
    assert (
        found["constant 1"] == found["select 1"] == found["most frequent answer"] == 1
        and found["empty"] == 0
    )


def test_progress_is_silent_when_it_is_told_to_be(capfd):
    evaluate(env(20), Slow(1), 60, progress=False)
    evaluate(env(20), RandomPolicy(1), 3, progress=True)
    assert capfd.readouterr() == ("", "")


def test_results_can_be_asdict(results):
    assert json.loads(json.dumps(asdict(results[0])))["policy"] == "random"


def test_a_pool_that_is_already_broken_loses_no_episode():
    class Broken(Executor):
        def submit(self, *args, **kwargs):
            raise RuntimeError("the pool is broken")

    result = evaluate(load("bundled"), RandomPolicy(1), 40, executor=Broken(), progress=False)
    assert (
        result.n_episodes == 40 and result.n_completed == 0 and "broken" in result.episodes[0].error
    )


if __name__ == "__main__":
    run_slow(Path(sys.argv[1]))
