"Statistics and executors: published and hand-computed cases, calibration by simulation, executors that change nothing."

import json
import math
import os
import random
import runpy

import apsw
import numpy as np
import pytest
from made_rows import made_row
from ray_executor import RayExecutor

from sql_env import EpisodeEnv, load
from sql_env.evaluation import evaluate, hack_floor, results
from sql_env.evaluation.rows import Trajectory
from sql_env.grading.answers import format_rows
from sql_env.play.acts import Action
from sql_env.policies.baselines import GreedyPolicy, HackPolicy, OraclePolicy, RandomPolicy


def result(name, right, robust=None, golds=None, ids=None):
    ids, robust = ids or [f"q{i}" for i in range(len(right))], robust or right
    golds = golds or ids
    names = "ab" if golds is ids else "aa"
    episodes = [
        made_row(i, ids[i], bool(x), robust=bool(y), database=names[i % 2], hashes=dict(gold=golds[i]))
        for i, (x, y) in enumerate(zip(right, robust))
    ]
    return results.EvaluationResult(name, episodes)


class TestCompare:
    def test_by_hand(self):
        c = results.compare(result("a", [1, 0, 0, 1, 0]), result("b", [1, 1, 1, 0, 0]))
        assert (c.n, c.difference, c.gained, c.lost) == (5, pytest.approx(0.2), ("q1", "q2"), ("q3",))
        assert c.p_value == pytest.approx(0.633, abs=1e-3) and c.low <= 0.2 <= c.high, "two databases"
        assert c.rates == (pytest.approx(0.4), pytest.approx(0.6)) and "b - a: 60.0% - 40.0% = +20.0%" in repr(c)
        # of the questions that both played; the first is right in 83 % of its own
        c = results.compare(result("a", [1, 0, 1, 1, 1, 1]), result("b", [1, 1]))
        assert c.rates == (0.5, 1) and c.n == 2
        # crashed episodes are left out
        b = result("b", [1, 1])
        b.episodes[1] = Trajectory(episode_index=1, question_id="q1", error="RuntimeError: x")
        assert results.compare(result("a", [0, 0]), b).n == 1
        # order of arguments and metric
        a, b = result("a", [1, 1, 0, 1], robust=[1, 0, 0, 0]), result("b", [0, 1, 1, 1], robust=[0, 1, 1, 1])
        there, back = results.compare(a, b), results.compare(b, a)
        assert there.difference == -back.difference and there.p_value == back.p_value and there.gained == back.lost
        assert results.compare(a, b, by="robust").difference == pytest.approx(0.5)
        # the same result, and a foreign one
        a = result("a", [1, 0])
        same = results.compare(a, a)
        assert (same.difference, same.p_value) == (0, 1) and same.low == -same.high < 0, "no flip proves little"
        with pytest.raises(ValueError, match="share no episode"):
            results.compare(a, result("b", [1], ids=["other"]))

    def test_mcnemar_of_agresti(self):
        "Agresti (Categorical Data Analysis): 150 against 86 of 1600: z squared 17.36, p 3.1e-5; exact 3.7e-5."
        a, b = ([x] * 150 + [1 - x] * 86 + [1] * 794 + [0] * 570 for x in (1, 0))
        ids = [f"q{i}" for i in range(1600)]
        c = results.compare(*(result(name, x, golds=[*ids]) for name, x in (("a", a), ("b", b))))
        assert c.p_value == pytest.approx(3.2e-5, rel=0.05) and c.difference == pytest.approx(-0.04)
        # Agresti's interval: -0.059 to -0.021
        assert c.low == pytest.approx(-0.0587, abs=0.002) and c.high == pytest.approx(-0.0213, abs=0.002)

    def test_pairs_are_not_counted_twice(self):
        "Paraphrases with one gold query flip together: p is that of half as many questions."
        a, b = [0] * 20, [1] * 12 + [0] * 8
        ids = [f"q{i}" for i in range(20)]
        twice = [f"g{i // 2}" for i in range(20)]
        single, pairs, naive = (
            results.compare(result("a", a[:n], golds=golds), result("b", right, golds=golds)).p_value
            for n, right, golds in ((10, [1] * 6 + [0] * 4, ids[:10]), (20, b, twice), (20, b, [*ids]))
        )
        assert single == pytest.approx(pairs)
        assert naive < 0.005 < single < 0.05, "2 / 2**6 by McNemar"

    def test_few_databases_say_what_would_do(self):
        "Three databases on which a policy is better by 0, 2 and 6 of ten."
        rows = [[0] * 30, [*([0] * 10), *([1] * 2), *([0] * 8), *([1] * 6), *([0] * 4)]]
        a, b = (result(name, right) for name, right in zip("ab", rows))
        for r in (a, b):
            r.episodes = [e.model_copy(update=dict(database=f"d{i // 10}")) for i, e in enumerate(r.episodes)]
        c = results.compare(a, b)
        assert c.low < 0 < c.high and c.p_value > 0.05 and c.n_databases == 3
        assert c.n_needed == 13 and "3 databases don't tell" in " ".join(c.notes)


class TestTries:
    def test_by_hand(self):
        "Chen et al. 2021: 1 - C(n-c, k) / C(n, k)."
        assert [results.pass_at_k(5, 2, k) for k in (1, 2, 4, 5)] == pytest.approx([0.4, 0.7, 1.0, 1.0])
        assert [results.pass_hat_k(5, 2, k) for k in (1, 2, 3)] == pytest.approx([0.4, 0.1, 0.0])
        assert results.pass_at_k(200, 0, 100) == 0 and results.pass_hat_k(200, 200, 100) == 1
        for k in (0, 6):
            with pytest.raises(ValueError, match="between 1 and"):
                results.pass_at_k(5, 2, k)
        r = result("a", [1, 0, 1, 1, 0, 0], ids=["x", "x", "y", "y", "z", "z"])
        t = results.pass_rates(r, (1, 2))
        assert t["pass@k"].tolist() == pytest.approx([0.5, 0.6667])
        assert t["pass^k"].tolist() == pytest.approx([0.5, 0.3333])

    def test_what_is_always_sometimes_and_never_right(self):
        "Of 3 questions in two databases: x in no try, y in one of two, z in both."
        r = result("a", [0, 0, 1, 0, 1, 1], ids=["x", "x", "y", "y", "z", "z"])
        places = dict(x=("d0", "easy"), y=("d1", "easy"), z=("d1", "hard"))
        told = [dict(zip(("database", "difficulty"), places[e.question_id])) for e in r.episodes]
        r.episodes = [e.model_copy(update=at) for e, at in zip(r.episodes, told)]
        band = results.learnable_band(r)
        assert list(band.index) == ["all", "easy", "hard"] and band["questions"].tolist() == [3, 2, 1]
        shares = band[["always", "sometimes", "never", "pass@1", "pass@2"]]
        assert shares.loc["all"].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0.5, 2 / 3], abs=1e-4)
        assert shares.loc["easy"].tolist() == pytest.approx([0, 0.5, 0.5, 0.25, 0.5])
        low, high = results.rate_interval([0, 0.5, 1], ["d0", "d1", "d1"], ["x", "y", "z"])
        assert band.loc["all", ["low@1", "high@1"]].tolist() == pytest.approx([low, high], abs=1e-4)
        assert list(results.learnable_band(r, "database").index) == ["all", "d0", "d1"]
        assert results.band_ids(r) == ["y"]

    def test_unbiased(self):
        "The mean over samples of n tries is the true value; that of (c/n)^k would not be."
        p, n, k, rng = 0.3, 6, 3, np.random.default_rng(0)
        c = rng.binomial(n, p, 40_000)
        assert np.mean([results.pass_at_k(n, x, k) for x in c]) == pytest.approx(1 - (1 - p) ** k, abs=0.01)
        assert np.mean([results.pass_hat_k(n, x, k) for x in c]) == pytest.approx(p**k, abs=0.003)
        assert abs(np.mean((c / n) ** k) - p**k) > 0.02


class TestPower:
    def test_formula(self):
        "Connor 1987, by hand: flips 0.2, difference 0.1, 80 %: ((1.96 * 0.4472 + 0.8416 * 0.4359) / 0.1)^2 = 154.6."
        assert results.questions_needed(0.1, 0.2) == 155
        # three databases: t 4.3027 and 1.0607 in place of 1.96 and 0.8416
        assert results.questions_needed(0.1, 0.2, databases=3) == 570
        with pytest.raises(ValueError, match="10 databases or more"):
            results.questions_needed(0.1, 0.2, databases=3, spread=0.1)
        with pytest.raises(ValueError, match="flips"):
            results.questions_needed(0.3, 0.2)

    def test_by_simulation(self):
        "The promised share of simulated comparisons finds the difference."
        n, rng, hits = results.questions_needed(0.1, 0.2), random.Random(1), 0
        for _ in range(400):
            flips = rng.choices((1, -1, 0), weights=(0.15, 0.05, 0.8), k=n)
            up, down = flips.count(1), flips.count(-1)
            hits += (up - down) ** 2 > 3.8415 * (up + down)
        assert hits / 400 == pytest.approx(0.8, abs=0.06)


def wilson(k, n, z=1.959963984540054):
    p = k / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return middle - half, middle + half


@pytest.mark.parametrize("n", [1, 5, 20, 384])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_intervals_of_unanimous_values_are_wilsons(n, value):
    low, high = results.rate_interval([value] * n, ["d"] * n, [str(i) for i in range(n)])
    assert (low, high) == pytest.approx(wilson(n * value, n), abs=1e-12)
    assert value in (low, high) or n == 1


def test_wilson_values_from_the_literature():
    "Newcombe 1998, table I: 0 of 20 gives 0 to 0.1611."
    golds = list(map(str, range(20)))
    assert results.rate_interval([0.0] * 20, ["d"] * 20, golds) == (0.0, pytest.approx(0.1611, abs=5e-5))
    assert results.rate_interval([1.0] * 20, ["d"] * 20, golds)[0] == pytest.approx(0.8389, abs=5e-5)
    for values in ([0.0] * 10, [1.0, 0.0, 1.0, 1.0, 0.0] * 2):  # repeated questions make nobody surer
        once = results.rate_interval(values, ["d"] * 10, golds[:10])
        assert once == pytest.approx(results.rate_interval(values * 10, ["d"] * 100, golds[:10] * 10))
    assert all(map(math.isnan, results.rate_interval([], [], []))) and results.rate_interval(
        [1.0, 0.0], ["d"] * 2, ["g"] * 2
    ) == (0, 1)


INTERVALS = (  # values by database, the interval by hand
    # rate 0.5, e = (1, 0, -1), error sqrt(3/2 * 2) / 6 = 0.2887, t(2) = 4.3027: log odds 0 +- 4.969
    ([[1, 1], [1, 0], [0, 0]], (0.0069, 0.9931)),
    # rate 0.75, e = (1/2, -1/2), error sqrt(2 * 1/2) / 4 = 0.25, t(1) = 12.706: log odds 1.0986 +- 16.94
    ([[1, 1], [1, 0]], (1.3e-7, 1.0)),
    ([[1, 0]] * 3, wilson(3, 6)),  # databases that agree: what six questions leave possible
    ([[1, 1, 1]] * 2, wilson(6, 6)),
    ([[1, 1, 0, 0]], (0.0670, 0.9330)),  # one database: by gold, error 0.2887, t(3) = 3.1824, 0 +- 3.675
)


@pytest.mark.parametrize("values, interval", INTERVALS)
def test_intervals_by_hand(values, interval):
    flat = [float(v) for group in values for v in group]
    databases = [str(i) for i, group in enumerate(values) for _ in group]
    found = results.rate_interval(flat, databases, [str(i) for i in range(len(flat))])
    if len(values) == 1:
        interval = tuple(1 / (1 + math.exp(-x)) for x in (-3.6748, 3.6748))
    assert found == pytest.approx(interval, abs=2e-4)


def test_interval_and_test_never_disagree():
    rng = np.random.default_rng(3)
    for n in (1, 2, 3, 5, 8):
        for _ in range(60):
            d = rng.choice((-1, 0, 1), size=12 * n, p=(0.1, 0.6, 0.3))
            found = results._paired_t([*d], [i // 12 for i in range(12 * n)], range(12 * n))
            assert (found.low > 0 or found.high < 0) == (found.p_value < 0.05), (n, found)


@pytest.mark.parametrize("up, down, is_sure", [(6, 0, True), (5, 0, False), (7, 1, False), (9, 1, True)])
def test_few_flips_are_chance(up, down, is_sure):
    "Of ten questions on one database: at most as sure as the exact test of McNemar."
    d = [1] * up + [-1] * down + [0] * (10 - up - down)
    assert (results._paired_t(d, ["d"] * 10, range(10)).p_value < 0.05) == is_sure


@pytest.mark.parametrize("cell", [(3, 1.0), (8, 0.5), (20, 0.0)])
def test_the_interval_covers_the_truth_as_often_as_it_says(root, cell):
    coverage = runpy.run_path(str(root / "benchmarks" / "interval_coverage.py"))
    assert 0.92 <= coverage["covered"](*cell, runs=400) <= 0.98
    assert coverage["rejected"](*cell, runs=200) <= 0.08
    kept = json.loads((root / "benchmarks" / "interval_coverage.json").read_text())["cells"]
    assert len(kept) == 18 and all(0.93 <= c["covered"] <= 0.975 and c["rejected"] <= 0.06 for c in kept)


@pytest.fixture(scope="module")
def qs():
    return load("bundled").filter(split="test")


def test_robust_is_reported(qs):
    oracle = evaluate(qs, OraclePolicy(qs), n_episodes=30)
    assert oracle.success_rate == oracle.robust_rate == 1
    lucky = evaluate(qs, WritesAnswers(qs), n_episodes=30)
    assert (lucky.success_rate, lucky.robust_rate) == (1, 0)
    assert "robust" in results.results_frame([lucky]).columns and "| 0.0% |" in results.results_markdown([lucky])


class WritesAnswers(OraclePolicy):
    "Knows the answers and shows a query that merely writes them down."

    name = "writes answers"

    def select_action(self, observation):
        q = self.find(observation)
        if observation.step_count:
            return Action("ANSWER", format_rows(q.gold_answer))
        rows = [", ".join(apsw.format_sql_value(v) for v in row) for row in q.gold_answer]
        return Action("QUERY", f"VALUES {', '.join(f'({row})' for row in rows)}")


@pytest.mark.slow
def test_hack_floors(qs):
    value, robust = hack_floor(qs), hack_floor(qs, robust=True)
    assert value.keys() == robust.keys() and all(robust[k] <= value[k] for k in value)
    assert max(robust.values()) <= 0.01
    assert list(value.values()) == sorted(value.values(), reverse=True)
    assert hack_floor(qs, hacks=[HackPolicy("zero", ("ANSWER", "0"))]).keys() == {"zero"}


class TestExecutors:
    "The same result to the last bit, wherever it is played; processes are in test_evaluation.py."

    def check(self, qs, executor):
        for policy in (RandomPolicy(), GreedyPolicy()):
            r, serial = (
                evaluate(EpisodeEnv(qs), policy, n_episodes=60, seed=3, progress=False, **more)
                for more in (dict(executor=executor), {})
            )
            assert r == serial and not [e for e in r.episodes if e.error]

    @pytest.mark.slow
    def test_dask(self, qs):
        distributed = pytest.importorskip("distributed", reason="pip install sql_env[cluster]")
        about = dict(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
        with distributed.LocalCluster(**about) as cluster, distributed.Client(cluster) as client:
            self.check(qs, client.get_executor())

    @pytest.mark.slow
    @pytest.mark.full  # Ray gives itself 30 s to start, which a busy machine may not keep
    def test_ray(self, qs):
        ray = pytest.importorskip("ray", reason="pip install sql_env[cluster]")
        env = {"env_vars": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}}
        quiet = dict(include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
        ray.init(num_cpus=2, object_store_memory=100 * 2**20, runtime_env=env, **quiet)
        try:
            self.check(qs, RayExecutor())
        finally:
            ray.shutdown()
