"""How often intervals hold what they should: `python benchmarks/interval_coverage.py [--out FILE]`.

Databases drawn at random, each with 16 to 48 questions, whose log odds of a right answer lie a standard deviation
apart. `covered` is the share of runs in which `rate_interval` at 95 % holds the mean of all databases; `rejected` the
share in which two policies that are equally good on average, each with databases of its own liking, differ by p < 5 %.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from sql_env.evaluation.results import _paired_t, rate_interval

DATABASES, SPREADS, MEANS = (3, 8, 20), (0.0, 0.5, 1.0), (0.5, 0.8)  # means where spreads are 0


def sigmoid(x):
    "The rate of some log odds."
    return 1 / (1 + np.exp(-x))


def answers(rng, databases: int, spread: float, middle: float, n_policies: int):
    "The databases of the questions, and for each policy 1 for a right answer."
    names = np.repeat(np.arange(databases), rng.integers(16, 49, databases))
    rates = sigmoid(middle + spread * rng.standard_normal((n_policies, databases)))
    return names, (rng.random((n_policies, len(names))) < rates[:, names]).astype(float)


def covered(databases: int, spread: float, mean: float = 0.5, runs: int = 2000) -> float:
    "The share of intervals that hold the rate of all databases there could be."
    rng, middle, hits = np.random.default_rng(0), np.log(mean / (1 - mean)), 0
    truth = sigmoid(middle + spread * np.random.default_rng(1).standard_normal(400_000)).mean()
    for _ in range(runs):
        names, (right,) = answers(rng, databases, spread, middle, 1)
        low, high = rate_interval(right, names.tolist(), range(len(names)))
        hits += low <= truth <= high
    return hits / runs


def rejected(databases: int, spread: float, mean: float = 0.5, runs: int = 2000) -> float:
    "The share of differences that are taken for real, where there is none."
    rng, middle, hits = np.random.default_rng(0), np.log(mean / (1 - mean)), 0
    for _ in range(runs):
        names, (a, b) = answers(rng, databases, spread, middle, 2)
        hits += _paired_t((b - a).tolist(), names.tolist(), range(len(names))).p_value < 0.05
    return hits / runs


def main() -> None:
    "Print, or write, the shares of all cells."
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    cells = [
        dict(
            databases=n,
            spread=spread,
            mean=mean,
            covered=covered(n, spread, mean),
            rejected=rejected(n, spread, mean),
        )
        for mean in MEANS
        for n in DATABASES
        for spread in SPREADS
    ]
    command = "python benchmarks/interval_coverage.py --out benchmarks/interval_coverage.json"
    text = json.dumps(dict(command=command, runs=2000, cells=cells), indent=1)
    print(text) if out is None else out.write_text(text + "\n")


if __name__ == "__main__":
    main()
