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
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_rows import made_row, replay_problems
from made_sets import bundled

from sql_env import EpisodeEnv, Limits, RewardConfig, ScriptedPolicy, load
from sql_env.database.database import build_database
from sql_env.evaluation import RunStopped, evaluate, hack_floor, results
from sql_env.evaluation.rollouts import plan_episodes
from sql_env.evaluation.rows import Trajectory, question_hashes
from sql_env.grading.answers import Verdict
from sql_env.grading.variants.robust import ROBUST_REASONS
from sql_env.play.acts import Action
from sql_env.policies.baselines import HACKS, GreedyPolicy, OraclePolicy, RandomPolicy
from sql_env.questions.question_set import Question, QuestionSet

CONSTANT = HACKS[2]


def env(n=60, **settings):
    return EpisodeEnv(bundled().sample(n, 3), **settings)


def timeless(log):
    "The lines of a log without time stamps."
    lines = map(json.loads, log.read_text().splitlines())
    return [{k: v for k, v in line.items() if k not in ("started", "ended", "env_seconds")} for line in lines]


def same(a, b):
    "Equal bit for bit, nan included."
    one, other = ((r.episodes, r.settings, r.policy, repr(r.interval())) for r in (a, b))
    return one == other


class Slow(RandomPolicy):
    "A random policy that stands still in the middle of a run, so that it can be killed there."

    name, stops_in, chunk_size = "slow", 0, 1  # each episode is logged at once

    def reset(self, seed):
        super().reset(seed)
        self.stops_in -= 1
        if self.stops_in == 0:
            signal.pause()


class Broken(RandomPolicy):
    "Raises on every third question."

    name = "broken"

    def select_action(self, observation):
        if len(observation.question) % 3 == 0 and observation.step_count == 2:
            raise RuntimeError("I give up")
        return Action("DESCRIBE", "x") if observation.step_count < 3 else Action("ANSWER", "1")


class Deadly(RandomPolicy):
    "Ends its process on one question; on each if the victim is an empty text."

    name = "deadly"

    def __init__(self, victim):
        self.victim, self.pid = victim, os.getpid()

    def reset(self, seed):
        pass

    def select_action(self, observation):
        if self.victim in observation.question and os.getpid() != self.pid:
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


def test_the_fields_of_results_are_the_contract():
    result = evaluate(env(), RandomPolicy(0), 5, progress=False)
    first = result.episodes[0]
    assert first.error is None and None not in (first.episode_index, first.correct, first.total_reward, first.steps)
    for name in ("success_rate", "avg_reward", "avg_steps", "n_episodes", "n_completed", "episodes"):
        assert getattr(result, name) is not None
    assert isinstance(result, results.EvaluationResult) and [e.episode_index for e in result.episodes] == list(range(5))
    with pytest.raises(ValueError, match="no questions"):
        evaluate(QuestionSet([], {}, "void"), RandomPolicy(0))


def test_rates_are_means_over_completed_episodes():
    episodes = [
        made_row(0, "a", True, total_reward=1.0, steps=3, grounded=True),
        made_row(1, "b", total_reward=0.5, steps=5),
        made_row(2, "c", True, total_reward=1.0, steps=4),
        Trajectory(episode_index=3, question_id="d", error="E: x"),
    ]
    result = results.EvaluationResult("p", episodes)
    assert (result.n_episodes, result.n_completed) == (4, 3)
    assert result.success_rate == 2 / 3 and result.avg_steps == 4 and result.avg_reward == 2.5 / 3
    assert result.grounded_rate == 1 / 3
    assert "1 crashed" in repr(result)
    result = results.EvaluationResult("p", [Trajectory(episode_index=0, question_id="a", error="E: x")])
    assert math.isnan(result.success_rate) and all(map(math.isnan, result.interval())) and "1 crashed" in repr(result)


@pytest.mark.parametrize("n", [1, 59, 60, 61, 150])
def test_more_episodes_than_questions_play_them_again_with_other_seeds(n):
    plan = plan_episodes(env(), n, 5)
    assert [p[0] for p in plan] == list(range(n)) and len({(p[1]["question_id"], p[1]["seed"]) for p in plan}) == n
    assert len({p[2] for p in plan}) == n
    result = evaluate(env(), RandomPolicy(0), n, 5, progress=False)
    assert result.n_episodes == result.n_completed == n
    counts = np.unique([e.question_id for e in result.episodes], return_counts=True)[1]
    assert counts.max() - counts.min() <= 1 and counts.max() == -(-n // 60)


def test_the_seed_decides_everything_and_numbers_agree_with_a_count_by_hand():
    a, b, c = (evaluate(env(), RandomPolicy(0), 60, s, progress=False) for s in (1, 1, 2))
    assert same(a, b) and [e.question_id for e in a.episodes] != [e.question_id for e in c.episodes]
    assert {e.question_id: e.steps for e in a.episodes} != {e.question_id: e.steps for e in c.episodes}
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
    hashes = question_hashes(q, bundled().databases[q.database_name])
    assert (one.database, one.difficulty, one.hashes) == (q.database_name, q.difficulty, hashes)


def test_by_difficulty_database_and_error_kind():
    result = evaluate(bundled(), RandomPolicy(0), 200, progress=False)
    for name in ("difficulty", "database"):
        frame = result.by(name)
        assert frame.episodes.sum() == 200 and set(frame.index) == {getattr(e, name) for e in result.episodes}
        for key, row in frame.iterrows():
            mine = [e.correct for e in result.episodes if getattr(e, name) == key]
            assert row.success == round(sum(mine) / len(mine), 3) and row.low <= row.success <= row.high
    script = ScriptedPolicy([("NOPE", ""), ("QUERY", "DROP TABLE x"), ("ANSWER", "1")])
    errors = evaluate(env(), script, progress=False).error_kinds()
    assert errors == {"unknown_action": 60, "not_read_only": 60} and len(result.frame()) == 200


POLICIES = [RandomPolicy(4), GreedyPolicy(), OraclePolicy(bundled()), CONSTANT]


@pytest.mark.parametrize("policy, context", [(CONSTANT, "spawn"), *((policy, "fork") for policy in POLICIES)])
def test_processes_give_the_same_result_bit_for_bit(policy, context):
    e = env(60, reward=RewardConfig.shaped())
    with ProcessPoolExecutor(2, multiprocessing.get_context(context)) as pool:
        parallel = evaluate(e, policy, 130, 3, executor=pool, progress=False)
    assert same(parallel, evaluate(e, policy, 130, 3, progress=False)) and parallel.n_completed == 130
    with ThreadPoolExecutor(2) as pool:
        assert evaluate(env(), policy, 1, executor=pool, progress=False).n_completed == 1, "one episode"


def test_a_policy_that_raises_loses_no_episode():
    result = evaluate(env(), Broken(), progress=False)
    crashed = [e for e in result.episodes if e.error]
    assert result.n_episodes == 60 and 0 < len(crashed) < 60 and result.n_completed == 60 - len(crashed)
    for e in crashed:
        q = bundled().get(e.question_id)
        assert e.error == "RuntimeError: I give up" and len(q.question_text) % 3 == 0
        assert (e.database, e.difficulty) == (q.database_name, q.difficulty) and not e.correct
    assert result.avg_steps == 4, "crashed episodes don't enter the means"
    with ProcessPoolExecutor(2) as pool:
        assert same(evaluate(env(), Broken(), executor=pool, progress=False), result)


def test_an_environment_that_raises_loses_no_episode():
    result = evaluate(BrokenEnv(bundled().sample(60, 3)), RandomPolicy(0), progress=False)
    errors = {e.question_id[-1]: e.error for e in result.episodes}
    assert result.n_episodes == 60 and errors["1"] == "OSError: the disk is gone"
    assert errors["2"].startswith("MemoryError") and errors["3"] is None
    assert result.n_completed == sum(e.question_id[-1] not in "12" for e in result.episodes)
    assert all(e.question_id in bundled().by_id for e in result.episodes)


@pytest.mark.parametrize("bad", [None, 3, ("ANSWER",) * 3, "AB", Action(None, None), (b"x", 1.5)])
def test_a_policy_that_returns_nonsense_or_whose_reset_raises_loses_no_episode(bad):
    class Nonsense:
        def select_action(self, observation):
            return bad

    class NoReset(RandomPolicy):
        def reset(self, seed):
            if hasattr(self, "rng"):
                raise ValueError("no reset")
            super().reset(seed)

    for policy in (Nonsense(), NoReset()):
        result = evaluate(env(), policy, 5, progress=False)
        assert result.n_episodes == 5 and all(e.error or e.reason == "no_answer" for e in result.episodes)
    assert all(e.error == "ValueError: no reset" for e in result.episodes)


def test_episodes_of_a_dead_worker_are_played_again_when_a_log_resumes(tmp_path):
    e, log = env(), tmp_path / "a.jsonl"
    policy = Deadly(e.questions.get(plan_episodes(e, None, 0)[40][1]["question_id"]).question_text)
    pool = ProcessPoolExecutor(2, multiprocessing.get_context("fork"))
    with pool, pytest.raises(RunStopped, match="a worker failed") as stopped:
        evaluate(e, policy, executor=pool, log=log, progress=False)
    result = stopped.value.result
    assert result.n_completed == result.n_episodes < 60 and not any(x.error for x in result.episodes)
    result = evaluate(e, policy, log=log, progress=False)  # it dies in workers only
    assert result.n_completed == 60, "what the machine lost must not stay lost"
    with ProcessPoolExecutor(1) as pool, pytest.raises(RunStopped, match="a worker failed") as stopped:
        evaluate(e, Deadly(""), n_episodes=10, executor=pool, progress=False)
    assert stopped.value.result.n_episodes == 0, "what nobody could play is no failed episode"


def count_judgements(monkeypatch, reason="match"):
    "The golds that are judged, in order; each verdict has this reason."
    judged = []

    def judge(q, db, answer, queries, verdict, *args, **options):
        judged.extend([(q.database_name, q.gold_sql)] * verdict.correct)
        return Verdict(reason == "match", reason) if verdict.correct else verdict

    monkeypatch.setattr("sql_env.play.judges.verify_robust", judge)
    return judged


def test_nothing_is_judged_when_it_is_off(monkeypatch, tmp_path):
    "What the reward was made of is reported even then."
    result = evaluate(env(10, verify="robust"), OraclePolicy(bundled()), robust=False, progress=False)
    assert result.robust_rate == 1 and not result.unjudged()
    judged = count_judgements(monkeypatch)
    log = tmp_path / "a.jsonl"
    e = env()
    result = evaluate(e, OraclePolicy(bundled()), robust=False, log=log, progress=False)
    assert judged == [] and math.isnan(result.robust_rate) and result.success_rate == 1
    assert result.unjudged() == {"off": 60}
    assert {x.robust for x in result.episodes} == {None} and result.settings["robust"] is False
    with pytest.raises(ValueError, match="another run"):
        evaluate(e, OraclePolicy(bundled()), log=log, progress=False)


def test_a_verdict_that_can_t_be_made_is_a_third_state(monkeypatch, tmp_path):
    count_judgements(monkeypatch, "no_variants")
    result = evaluate(env(), Broken(), 10, progress=False)
    oracle = evaluate(env(), OraclePolicy(bundled()), 10, progress=False)
    assert oracle.unjudged() == {"no_variants": 10} and math.isnan(oracle.robust_rate)
    half = replace(oracle, episodes=[*oracle.episodes[:4], *result.episodes[4:]])
    wrong = sum(not x.error for x in result.episodes[4:])
    assert half.unjudged().total() == 4 and half.robust_rate == (0 if wrong else None)
    judged = Verdict(True, "match")
    right = [x.model_copy(update=dict(verdicts=dict(value=judged, robust=judged))) for x in oracle.episodes[:7]]
    most = replace(oracle, episodes=[*right, *oracle.episodes[7:]])
    assert most.robust_rate == 0.7 and most.unjudged().total() == 3
    text = f"robust 70.0%, 3 not judged: {ROBUST_REASONS['no_variants']} (3)"
    assert results.result_texts(most)["robust"] == text and text in results.results_markdown([most])
    assert results.results_frame([most]).loc["oracle", "not_judged"] == 3
    figures = results.summary(most)
    assert figures["robust_rate"] == 0.7 and figures["not_judged"] == {"no_variants": 3}
    json.dumps(results.summary(oracle), allow_nan=False)
    compared = results.compare(most, replace(most, policy="other"), by="robust")
    assert compared.n == 7 and compared.difference == 0
    assert results.pass_rates(most, by="robust").loc[1, "pass@k"] == 1
    assert "robust" not in results.result_texts(replace(most, episodes=right))


def test_limits_belong_to_a_run(tmp_path):
    few = bundled().sample(10, 3)
    log = tmp_path / "a.jsonl"
    wide = few.with_limits(Limits(operations=20_000_000))
    result = evaluate(wide, RandomPolicy(), log=log, progress=False)
    assert result.settings["limits"]["operations"] == 20_000_000
    assert replay_problems(log, few) == {}
    with pytest.raises(ValueError, match="another run"):
        evaluate(few, RandomPolicy(), log=log, progress=False)
    assert "limits" not in evaluate(few, RandomPolicy(), progress=False).settings


def run_slow(log, stops_in=0):
    policy = Slow(1)
    policy.stops_in = stops_in
    return evaluate(env(40), policy, 80, 2, log=log, progress=False)


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    log = tmp_path / "run.jsonl"
    process = subprocess.Popen([sys.executable, __file__, str(log)])
    while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") > 19):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = log.read_bytes()
    done = before.count(b"\n") - 1
    assert 19 <= done < 80, "killed in the middle"
    with log.open("ab") as f:  # half a line, as a crash of the machine leaves it
        f.write(b'{"episode_index": 79, "question_id": "x", "corr')
    resumed = run_slow(log)
    assert same(resumed, run_slow(None)) and resumed.n_completed == 80
    lines = log.read_bytes().split(b"\n")
    assert lines[-1] == b"" and len(lines) == 83
    assert log.read_bytes().startswith(before[: before.rindex(b"\n") + 1]), "what was done is kept as it was"
    rows = [json.loads(x) for x in lines[:-1]]
    episodes = [row["episode_index"] for row in rows if "episode_index" in row]
    assert sorted(episodes) == list(range(80)) and "policy" in rows[done + 1], "a header of each start"


@pytest.fixture(scope="module")
def played():
    return [evaluate(env(), p, progress=False) for p in (RandomPolicy(0), OraclePolicy(bundled()), Broken())]


def test_tables_have_a_row_for_each_result_and_the_floor_below(played):
    t = results.results_frame(played)
    assert list(t.index) == ["random", "oracle", "broken"]
    assert t.loc["oracle", "success"] == 1 and t.loc["broken", "completed"] < t.loc["broken", "episodes"] == 60
    lines = results.results_markdown(played, {"empty": 0.004, "constant 1": 0.0}).split("\n")
    assert lines[0].startswith("| policy | success |") and len(lines) == 7
    assert all(x.count("|") == lines[0].count("|") for x in lines[:5])
    assert "100.0%" in lines[3] and lines[-1] == "Hack floor: 0.4% (empty)."
    assert "Hack floor" not in results.results_markdown(played)
    lines = results.results_markdown([replace(played[0], policy="a|b\nc")]).split("\n")
    assert len(lines) == 3 and lines[2].replace("\\|", "").count("|") == lines[0].count("|"), "an awkward name"


def test_a_plot_is_drawn_and_written(tmp_path, played):
    import matplotlib

    matplotlib.use("Agg")
    none = [results.EvaluationResult("none", [Trajectory(episode_index=0, question_id="a", error="E")])]
    for some, floor in ((played, {"empty": 0.1}), (played[:1], None), (none, {})):
        ax = results.plot_success_rates(some, floor)
        assert [t.get_text() for t in ax.get_yticklabels()] == [r.policy for r in some]
        assert ("hack floor" in str([x.get_label() for x in ax.lines])) == bool(floor)
        ax.figure.savefig(tmp_path / "a.png")
        assert (tmp_path / "a.png").stat().st_size > 2000
        matplotlib.pyplot.close(ax.figure)


def test_the_hack_floor_names_each_hack_the_best_first():
    floor = hack_floor(bundled().sample(40, 2))
    assert len(floor) == len(HACKS) + 1 and list(floor.values()) == sorted(floor.values(), reverse=True)
    guessable = [Question(str(i), "How many?", "vet_clinic", "SELECT 1", ((1,),)) for i in range(5)]
    found = hack_floor(QuestionSet(guessable, bundled().databases))
    assert found["constant 1"] == found["select 1"] == found["most frequent answer"] == 1 and found["empty"] == 0


def test_progress_is_silent_when_it_is_told_to_be(capfd):
    evaluate(env(20), Slow(1), 60, progress=False)
    evaluate(env(20), RandomPolicy(1), 3, progress=True)
    assert capfd.readouterr() == ("", "")


def test_a_pool_that_is_already_broken_loses_no_episode():
    class Broken(Executor):
        def submit(self, *args, **kwargs):
            raise RuntimeError("the pool is broken")

    with pytest.raises(RunStopped, match="the pool is broken") as stopped:
        evaluate(load("bundled"), RandomPolicy(1), 40, executor=Broken(), progress=False)
    assert stopped.value.result.n_episodes == 0


if __name__ == "__main__":
    run_slow(Path(sys.argv[1]), stops_in=21)


def test_questions_that_cannot_be_judged_are_not_played(tmp_path):
    "With verify='robust' a gold without variants is passed over: no episode crashes, and none is paid 0."
    rows = {"pet": [(i, f"n{i}") for i in range(30)]}
    path = build_database(tmp_path / "pets.sqlite", "CREATE TABLE pet (id INTEGER, name TEXT)", rows)
    golds = {"counts": "SELECT count(*) FROM pet", "has none": "SELECT nothing FROM pet"}
    asked = [Question(name, "How many?", "pets", sql, ((30,),)) for name, sql in golds.items()]
    qs = QuestionSet(asked, {"pets": path})
    result = evaluate(EpisodeEnv(qs, verify="robust"), OraclePolicy(qs), progress=False)
    assert [(e.question_id, e.correct, e.error) for e in result.episodes] == [("counts", True, None)]
    with pytest.raises(ValueError, match="no variants"):
        evaluate(EpisodeEnv(qs.filter(question_id="has none"), verify="robust"), OraclePolicy(qs))
