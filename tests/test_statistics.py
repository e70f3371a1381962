"Statistics and executors: published and hand-computed cases, calibration by simulation, executors that change nothing."

import math
import random
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from sql_env.evaluation.harness import (
    EvaluationResult,
    RunStopped,
    compare,
    evaluate,
    hack_floor,
    pass_rates,
)
from sql_env.evaluation.logs import EpisodeResult
from sql_env.evaluation.reports import results_frame, results_markdown
from sql_env.evaluation.statistics import (
    _cluster_bootstrap_interval,
    _paired_power,
    paired_permutation_test,
    pass_at_k,
    pass_hat_k,
    questions_needed,
    rate_interval,
)
from sql_env.evaluation.workers import RayExecutor
from sql_env.play.environment import EpisodeEnv
from sql_env.policies.baselines import GreedyPolicy, OraclePolicy, RandomPolicy
from sql_env.policies.hacks import HackPolicy
from sql_env.sources.loading import load


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
        "Paraphrases with one gold query flip together: p is that of half as many questions."
        a, b = [0] * 20, [1] * 12 + [0] * 8
        single = compare(result("a", a[:10]), result("b", [1] * 6 + [0] * 4))
        pairs = compare(
            result("a", a, golds=[f"g{i // 2}" for i in range(20)]),
            result("b", b, golds=[f"g{i // 2}" for i in range(20)]),
        )
        naive = compare(result("a", a), result("b", b))
        assert (
            naive.p_value
            < 0.001
            < single.p_value
            == pytest.approx(pairs.p_value, abs=1e-9)
            == pytest.approx(2 / 2**6)
        )

    def test_is_calibrated(self):
        "Without a difference, p below 5 % comes at most 5 % of the time, pairs or not."
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
        "The mean over samples of n tries is the true value; that of (c/n)^k would not be."
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
            assert _paired_power(questions_needed(d, f), d, f) == pytest.approx(0.8, abs=0.005)

    def test_by_simulation(self):
        "The promised share of simulated comparisons finds the difference."
        n, rng, hits = questions_needed(0.1, 0.2), random.Random(1), 0
        for _ in range(400):
            flips = rng.choices((1, -1, 0), weights=(0.15, 0.05, 0.8), k=n)
            up, down = flips.count(1), flips.count(-1)
            hits += (up - down) ** 2 > 3.8415 * (up + down)
        assert hits / 400 == pytest.approx(0.8, abs=0.06)


# ---- intervals


def wilson(k, n, z=1.959963984540054):
    p = k / n
    middle, half = (
        (p + z * z / (2 * n)) / (1 + z * z / n),
        z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)),
    )
    return middle - half, middle + half


@pytest.mark.parametrize("n", [1, 5, 20, 384])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_intervals_of_unanimous_values_are_wilsons(n, value):
    low, high = rate_interval([value] * n, ["d"] * n, [str(i) for i in range(n)])
    assert (low, high) == pytest.approx(wilson(n * value, n), abs=1e-12)
    assert value in (low, high) or n == 1


def test_wilson_values_from_the_literature():
    "Newcombe 1998, table I: 0 of 20 gives 0 to 0.1611."
    assert rate_interval([0.0] * 20, ["d"] * 20, list(map(str, range(20)))) == (
        0.0,
        pytest.approx(0.1611, abs=5e-5),
    )
    assert rate_interval([1.0] * 20, ["d"] * 20, list(map(str, range(20))))[0] == pytest.approx(
        0.8389, abs=5e-5
    )


def test_repeated_questions_make_nobody_surer():
    once = rate_interval([0.0] * 10, ["d"] * 10, list(map(str, range(10))))
    again = rate_interval([0.0] * 100, ["d"] * 100, [str(i % 10) for i in range(100)])
    assert once == again
    rng = np.random.default_rng(0)
    values, golds = rng.integers(0, 2, 50).astype(float), [str(i) for i in range(50)]
    assert rate_interval([*values] * 4, ["d"] * 200, golds * 4) == pytest.approx(
        rate_interval([*values], ["d"] * 50, golds), abs=1e-9
    )


def test_cluster_interval_by_hand():
    assert _cluster_bootstrap_interval([1, 0], ["a", "b"]) == (0.0, 1.0)
    assert _cluster_bootstrap_interval([0.5, 0.5, 0.5], ["a", "b", "c"]) == (0.5, 0.5)
    assert _cluster_bootstrap_interval([1, 0, 1, 0], ["a", "a", "b", "b"]) == (0.5, 0.5), (
        "clusters that agree leave no doubt"
    )
    low, high = _cluster_bootstrap_interval(
        [1, 1, 1, 0], ["a", "a", "a", "b"], 0.4
    )  # means 0, 3/4, 1 with probability 1/4, 1/2, 1/4
    assert (low, high) == (0.75, 0.75)
    # three clusters of size one with one success: the mean is B(3, 1/3) / 3;
    # P(0) = 8/27 = 0.296, P(<= 1/3) = 20/27 = 0.741, P(<= 2/3) = 26/27 = 0.963
    assert _cluster_bootstrap_interval([1, 0, 0], list("abc"), 0.95) == (0.0, 1.0)
    assert _cluster_bootstrap_interval([1, 0, 0], list("abc"), 0.90) == (0.0, pytest.approx(2 / 3))
    assert _cluster_bootstrap_interval([1, 0, 0], list("abc"), 0.30) == (
        pytest.approx(1 / 3),
        pytest.approx(1 / 3),
    )


def test_cluster_interval_is_deterministic_whatever_the_order_and_grows_with_level():
    rng = np.random.default_rng(1)
    values, clusters = rng.integers(0, 2, 200), rng.integers(0, 20, 200)
    a = _cluster_bootstrap_interval(values, clusters)
    order = rng.permutation(200)
    assert (
        a
        == _cluster_bootstrap_interval(values, clusters)
        == pytest.approx(_cluster_bootstrap_interval(values[order], clusters[order]))
    )
    widths = [
        np.subtract(*_cluster_bootstrap_interval(values, clusters, level)[::-1])
        for level in (0.5, 0.8, 0.95, 0.99)
    ]
    assert widths == sorted(widths) and a[0] < values.mean() < a[1]


def test_clusters_make_intervals_wider_than_single_episodes_do():
    values = [float(c % 2) for c in range(20) for _ in range(20)]  # all episodes of a cluster agree
    by_cluster = _cluster_bootstrap_interval(values, [c for c in range(20) for _ in range(20)])
    by_episode = _cluster_bootstrap_interval(values, range(400))
    assert by_cluster[1] - by_cluster[0] > 3 * (by_episode[1] - by_episode[0])


def coverage(interval, clusters, size, runs=200):
    hits = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        rates = rng.beta(3, 2, clusters)  # mean 0.6
        names = np.repeat(np.arange(clusters), rng.integers(1, 2 * size, clusters))
        low, high = interval((rng.random(len(names)) < rates[names]).astype(float), names)
        hits += low <= 0.6 <= high
    return hits / runs


def test_the_interval_covers_the_truth_as_often_as_it_says():
    assert (
        0.90 <= coverage(lambda v, c: _cluster_bootstrap_interval(v, c, draws=1000), 30, 8) <= 0.99
    )
    assert (
        0.45
        <= coverage(lambda v, c: _cluster_bootstrap_interval(v, c, 0.6, draws=1000), 40, 8)
        <= 0.72
    )
    naive = coverage(
        lambda v, c: _cluster_bootstrap_interval(v, range(len(v)), draws=200), 30, 15, 100
    )
    assert naive < 0.90, "the simulation must tell: episodes as their own clusters cover too seldom"


def test_the_wider_of_the_two_intervals_is_reported():
    rng = np.random.default_rng(2)
    databases, golds = np.repeat(np.arange(12), 30), np.arange(360)
    values = (rng.random(360) < rng.beta(1, 1, 12)[databases]).astype(float)
    both = (
        _cluster_bootstrap_interval(values, databases),
        _cluster_bootstrap_interval(values, golds),
    )
    found = rate_interval([*values], [*map(str, databases)], [*map(str, golds)])
    assert (
        found == pytest.approx(max(both, key=lambda i: i[1] - i[0])) and found[1] - found[0] > 0.2
    )


def test_no_values_and_one_cluster_are_said_honestly():
    assert all(map(math.isnan, rate_interval([], [], [])))
    assert rate_interval([1.0, 0.0], ["d", "d"], ["g", "g"]) == (0.0, 1.0)


# ---- results and executors


@pytest.fixture(scope="module")
def qs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as m:
        m.setenv("SQL_ENV_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield load("bundled").filter(split="test")


def test_robust_is_reported(qs):
    oracle = evaluate(qs, OraclePolicy(qs), n_episodes=30)
    assert oracle.success_rate == oracle.robust_rate == 1
    lucky = evaluate(qs, WritesAnswers(qs), n_episodes=30)
    assert (lucky.success_rate, lucky.robust_rate) == (1, 0)
    assert "robust" in results_frame([lucky]).columns and "| 0.0% |" in results_markdown([lucky])


class WritesAnswers(OraclePolicy):
    "Knows the answers and shows a query that merely writes them down."

    name = "writes answers"

    def select_action(self, observation):
        from sql_env.grading.answers import format_rows
        from sql_env.play.episode import Action

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

    @pytest.mark.slow
    def test_dask(self, qs, serial):
        distributed = pytest.importorskip("distributed", reason="pip install sql_env[cluster]")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            self.check(qs, serial, client.get_executor())

    @pytest.mark.slow
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
        with ProcessPoolExecutor(1) as pool, pytest.raises(RunStopped, match="none is left") as e:
            evaluate(
                EpisodeEnv(qs), KillsItsProcess(), n_episodes=10, executor=pool, progress=False
            )
        assert e.value.result.n_episodes == 0, "what nobody could play is no failed episode"


class KillsItsProcess:
    "Ends the process that plays it."

    name = "kills its process"

    def select_action(self, observation):
        import os

        os._exit(1)
