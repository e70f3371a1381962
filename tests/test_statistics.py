"""Room 21, statistics and distribution: published and hand-computed cases, calibration by simulation, executors that change nothing."""

import math
import random
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from sql_env.episode import EpisodeEnv
from sql_env.evaluation import (
    EvaluationResult,
    RayExecutor,
    compare,
    evaluate,
    hack_floor,
    pass_rates,
)
from sql_env.logs import EpisodeResult
from sql_env.policies.baselines import GreedyPolicy, OraclePolicy, RandomPolicy
from sql_env.policies.hacks import HackPolicy
from sql_env.reports import results_frame, results_markdown
from sql_env.sources import load
from sql_env.statistics import (
    cluster_bootstrap_interval,
    paired_permutation_test,
    paired_power,
    pass_at_k,
    pass_hat_k,
    questions_needed,
    rate_interval,
)


def result(name, right, robust=None, databases=None, golds=None, ids=None):
    n = len(right)
    ids, robust = ids or [f"q{i}" for i in range(n)], robust or right
    return EvaluationResult(
        name,
        [
            EpisodeResult(
                i,
                ids[i],
                bool(right[i]),
                database=(databases or ["a", "b"] * n)[i],
                gold=(golds or ids)[i],
                robust=bool(robust[i]),
            )
            for i in range(n)
        ],
    )


class TestCompare:
    def test_by_hand(self):
        c = compare(result("a", [1, 0, 0, 1, 0]), result("b", [1, 1, 1, 0, 0]))
        assert (c.n, c.difference, c.gained, c.lost) == (
            5,
            pytest.approx(0.2),
            ("q1", "q2"),
            ("q3",),
        )
        assert c.p_value == 1.0 and c.low <= 0.2 <= c.high
        assert "+20.0%" in repr(c)

    def test_mcnemar_of_agresti(self):
        "Agresti (Categorical Data Analysis): 150 against 86 of 1600: z squared 17.36, p 3.1e-5; exact 3.7e-5."
        a, b = (
            [1] * 150 + [0] * 86 + [1] * 794 + [0] * 570,
            [0] * 150 + [1] * 86 + [1] * 794 + [0] * 570,
        )
        c = compare(result("a", a), result("b", b))
        assert c.p_value == pytest.approx(3.716e-5, rel=1e-3) and c.difference == pytest.approx(
            -0.04
        )
        assert c.low == pytest.approx(-0.0587, abs=0.002) and c.high == pytest.approx(
            -0.0213, abs=0.002
        ), "Agresti's interval: -0.059 to -0.021"

    def test_pairs_are_not_counted_twice(self):
        "Twins with one gold query flip together: p is that of half as many questions."
        a, b = [0] * 20, [1] * 12 + [0] * 8
        single = compare(result("a", a[:10]), result("b", [1] * 6 + [0] * 4))
        twins = compare(
            result("a", a, golds=[f"g{i // 2}" for i in range(20)]),
            result("b", b, golds=[f"g{i // 2}" for i in range(20)]),
        )
        naive = compare(result("a", a), result("b", b))
        assert (
            naive.p_value
            < 0.001
            < single.p_value
            == pytest.approx(twins.p_value, abs=1e-9)
            == pytest.approx(2 / 2**6)
        )

    def test_is_calibrated(self):
        "Without a difference, p below 5 % comes at most 5 % of the time, twins or not."
        rng, hits = random.Random(0), 0
        for _ in range(200):
            flips = [rng.choice((-1, 0, 0, 1)) for _ in range(40)]
            hits += (
                paired_permutation_test(
                    [f for f in flips for _ in (0, 1)], [i // 2 for i in range(80)], draws=499
                )
                < 0.05
            )
        assert hits <= 20

    def test_same_and_foreign(self):
        a = result("a", [1, 0])
        same = compare(a, a)
        assert (same.difference, same.p_value) == (0, 1) and same.low == -same.high < 0, (
            "no flip in two questions proves little"
        )
        with pytest.raises(ValueError, match="share no episode"):
            compare(a, result("b", [1], ids=["other"]))

    def test_order_of_arguments_and_metric(self):
        a, b = (
            result("a", [1, 1, 0, 1], robust=[1, 0, 0, 0]),
            result("b", [0, 1, 1, 1], robust=[0, 1, 1, 1]),
        )
        there, back = compare(a, b), compare(b, a)
        assert (
            there.difference == -back.difference
            and there.p_value == back.p_value
            and there.gained == back.lost
        )
        assert compare(a, b, by="robust").difference == pytest.approx(0.5)

    def test_crashed_episodes_are_left_out(self):
        b = result("b", [1, 1])
        b.episodes[1] = EpisodeResult(1, "q1", error="RuntimeError: x")
        assert compare(result("a", [0, 0]), b).n == 1


class TestTries:
    def test_by_hand(self):
        "Chen et al. 2021: 1 - C(n-c, k) / C(n, k)."
        assert [pass_at_k(5, 2, k) for k in (1, 2, 4, 5)] == pytest.approx([0.4, 0.7, 1.0, 1.0])
        assert [pass_hat_k(5, 2, k) for k in (1, 2, 3)] == pytest.approx([0.4, 0.1, 0.0])
        assert pass_at_k(200, 0, 100) == 0 and pass_hat_k(200, 200, 100) == 1
        for k in (0, 6):
            with pytest.raises(ValueError, match="between 1 and"):
                pass_at_k(5, 2, k)

    def test_unbiased(self):
        "The mean over samples of n tries is the true value; playing k of them as they come would be right too, but (c/n)^k would not."
        p, n, k, rng = 0.3, 6, 3, np.random.default_rng(0)
        c = rng.binomial(n, p, 40_000)
        assert np.mean([pass_at_k(n, x, k) for x in c]) == pytest.approx(1 - (1 - p) ** k, abs=0.01)
        assert np.mean([pass_hat_k(n, x, k) for x in c]) == pytest.approx(p**k, abs=0.003)
        assert abs(np.mean((c / n) ** k) - p**k) > 0.02

    def test_of_a_result(self):
        r = result("a", [1, 0, 1, 1, 0, 0], ids=["x", "x", "y", "y", "z", "z"])
        t = pass_rates(r, (1, 2))
        assert t["pass@k"].tolist() == pytest.approx([0.5, 0.6667]) and t[
            "pass^k"
        ].tolist() == pytest.approx([0.5, 0.3333])


class TestPower:
    def test_formula(self):
        "Connor 1987, by hand: flips 0.2, difference 0.1, 80 %: ((1.96 * 0.4472 + 0.8416 * 0.4359) / 0.1)^2 = 154.6."
        assert questions_needed(0.1, 0.2) == 155
        assert questions_needed(0.1, 0.2, design=2) == 310
        with pytest.raises(ValueError, match="flips"):
            questions_needed(0.3, 0.2)

    def test_inverse(self):
        for d, f in ((0.03, 0.1), (0.05, 0.3), (0.1, 0.2)):
            assert paired_power(questions_needed(d, f), d, f) == pytest.approx(0.8, abs=0.005)

    def test_by_simulation(self):
        "The promised share of simulated comparisons finds the difference."
        n, rng, hits = questions_needed(0.1, 0.2), random.Random(1), 0
        for _ in range(400):
            flips = rng.choices((1, -1, 0), weights=(0.15, 0.05, 0.8), k=n)
            up, down = flips.count(1), flips.count(-1)
            hits += (up - down) ** 2 > 3.8415 * (up + down)
        assert hits / 400 == pytest.approx(0.8, abs=0.06)


class TestIntervals:
    def test_wilson(self):
        assert rate_interval([0] * 50, ["a"] * 50, range(50)) == pytest.approx(
            (0, 0.0714), abs=1e-3
        )

    def test_coverage(self):
        "A 95 % cluster interval holds the true rate about 95 % of the time; one that ignores the clusters does not."
        rng, kept, naive = np.random.default_rng(0), 0, 0
        for _ in range(150):
            rates = rng.beta(2, 2, 40)
            values = np.concatenate([rng.binomial(1, r, 10) for r in rates]).astype(float)
            low, high = cluster_bootstrap_interval(values, np.repeat(np.arange(40), 10), draws=600)
            kept += low <= 0.5 <= high
            low, high = cluster_bootstrap_interval(values, np.arange(400), draws=600)
            naive += low <= 0.5 <= high
        assert kept / 150 > 0.88 > 0.85 > naive / 150


@pytest.fixture(scope="module")
def qs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as m:
        m.setenv("SQL_ENV_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield load("bundled").filter(split="test")


def test_robust_is_reported(qs):
    oracle = evaluate(qs, OraclePolicy(qs), n_episodes=30)
    assert oracle.success_rate == oracle.robust_rate == 1
    lucky = evaluate(qs, Cheat(qs), n_episodes=30)
    assert (lucky.success_rate, lucky.robust_rate) == (1, 0)
    assert "robust" in results_frame([lucky]).columns and "| 0.0% |" in results_markdown([lucky])


class Cheat(OraclePolicy):
    "Knows the answers and shows a query that merely writes them down."

    name = "cheat"

    def select_action(self, observation):
        from sql_env.answers import format_rows
        from sql_env.episode import Action

        q = self.find(observation)
        literal = ", ".join(
            "("
            + ", ".join(
                "NULL"
                if v is None
                else repr(v)
                if not isinstance(v, str)
                else "'" + v.replace("'", "''") + "'"
                for v in r
            )
            + ")"
            for r in q.gold_answer
        )
        return (
            Action("QUERY", f"VALUES {literal}")
            if observation.step_count == 0
            else Action("ANSWER", format_rows(q.gold_answer))
        )


def test_hack_floors(qs):
    value, robust = hack_floor(qs), hack_floor(qs, robust=True)
    assert value.keys() == robust.keys() and all(robust[k] <= value[k] for k in value)
    assert max(robust.values()) <= 0.01
    assert list(value.values()) == sorted(value.values(), reverse=True)
    assert hack_floor(qs, hacks=[HackPolicy("zero", ("ANSWER", "0"))]).keys() == {"zero"}


class TestExecutors:
    "The same result to the last bit, wherever it is played."

    @pytest.fixture
    def serial(self, qs):
        return [
            evaluate(EpisodeEnv(qs), p, n_episodes=60, seed=3)
            for p in (RandomPolicy(), GreedyPolicy())
        ]

    def check(self, qs, serial, executor):
        for p, s in zip((RandomPolicy(), GreedyPolicy()), serial):
            r = evaluate(
                EpisodeEnv(qs), p, n_episodes=60, seed=3, executor=executor, progress=False
            )
            assert r == s and not [e for e in r.episodes if e.error]

    def test_processes(self, qs, serial):
        with ProcessPoolExecutor(2) as pool:
            self.check(qs, serial, pool)

    def test_dask(self, qs, serial):
        distributed = pytest.importorskip("distributed", reason="pip install sql_env[cluster]")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            self.check(qs, serial, client.get_executor())

    def test_ray(self, qs, serial):
        ray = pytest.importorskip("ray", reason="pip install sql_env[cluster]")
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            log_to_driver=False,
            object_store_memory=100 * 2**20,
            runtime_env={
                "env_vars": {"PYTHONPATH": __import__("os").environ.get("PYTHONPATH", "")}
            },
        )
        try:
            self.check(qs, serial, RayExecutor())
        finally:
            ray.shutdown()

    def test_a_dead_worker_loses_no_episode(self, qs):
        with ProcessPoolExecutor(1) as pool:
            r = evaluate(EpisodeEnv(qs), Suicide(), n_episodes=10, executor=pool, progress=False)
        assert r.n_episodes == 10 and r.n_completed == 0 and math.isnan(r.success_rate)


class Suicide:
    "Kills its process."

    name = "suicide"

    def select_action(self, observation):
        import os

        os._exit(1)
