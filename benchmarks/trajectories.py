"""Measure the generator of expert trajectories.

`python benchmarks/trajectories.py [--n 3000] [--out benchmarks/trajectories.json]`

Validated trajectories per second on one core, of processor time and of the clock: each episode is played, played again
in an environment of its own, compared byte for byte, and kept if its answer is right. Then the same with the
conversation for supervised training. Bundled questions, and generated worlds (a new database for every few questions).
"""

import argparse
import json
import platform
import time
from collections import Counter
from pathlib import Path

from sql_env.sources.loading import SOURCES, load
from sql_env.training.experts import ExpertTrajectories
from sql_env.training.recipes import sft_rows


def rate(made: ExpertTrajectories, convert: bool = False) -> tuple[dict, Counter]:
    "Trajectories per second of processor time and of the clock, and the styles."
    cpu, clock = time.process_time(), time.perf_counter()
    kept = list(made)
    if convert:
        sft_rows(made.env, kept)
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    return dict(
        per_second_of_cpu=round(len(kept) / cpu),
        per_second_of_clock=round(len(kept) / clock),
        kept=len(kept),
        dropped=len(made.dropped),
    ), Counter(t.style for t in kept)


def measure(qs, n: int) -> dict:
    "First a cold run, one trajectory per question; then `n`."
    cold, _ = rate(ExpertTrajectories(qs, seed=1))
    warm, styles = rate(ExpertTrajectories(qs, n, seed=2))
    rows, _ = rate(ExpertTrajectories(qs, n, seed=3), convert=True)
    return dict(
        questions=len(qs),
        one_per_question=cold,
        many=warm,
        with_conversations=rows,
        styles=dict(sorted(styles.items())),
    )


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--n", type=int, default=3000)
    args.add_argument("--out", type=Path)
    args = args.parse_args()
    load("bundled").database("vet_clinic").query("SELECT 1")  # imports are not measured
    list(ExpertTrajectories(load("bundled")[:5]))
    figures = dict(
        command="python benchmarks/trajectories.py --out benchmarks/trajectories.json",
        python=platform.python_version(),
        target_per_second=500,
        bundled=measure(load("bundled"), args.n),
    )
    if "worlds" in SOURCES:
        for level in (1, 3, 5):
            figures[f"worlds level {level}"] = measure(load("worlds", level=level, n=600), args.n)
    print(json.dumps(figures, indent=1))
    if args.out:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
