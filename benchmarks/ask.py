"""Measure ambiguous worlds: `python benchmarks/ask.py [--n 900] [--out benchmarks/ask.json]`.

Two oracles know the SQL of every reading of a question; one may ask which is meant, the other guesses. The cheats are
all hacks, those that always ask or abstain included. The floor is the best hack that neither asks nor abstains.
"""

import argparse
import json
import tempfile
from itertools import islice
from pathlib import Path

from sql_env.evaluation.harness import evaluate, hack_floor
from sql_env.evaluation.results import EvaluationResult, summary
from sql_env.play.acts import ACTIONS
from sql_env.play.episode import EpisodeEnv
from sql_env.play.reward import RewardConfig
from sql_env.policies import GreedyPolicy, OraclePolicy
from sql_env.worlds import AmbiguousWorld, world_set, worlds

ALLOWED = (*ACTIONS, "ABSTAIN", "CLARIFY")


def numbers(result: EvaluationResult) -> dict:
    "Rates of a result, in percent."
    rates = dict(
        success=result.success_rate,
        coverage=summary(result)["coverage"],
        selective_accuracy=summary(result)["selective_accuracy"],
    )
    return {name: round(100 * x, 1) for name, x in rates.items()} | dict(
        reward=round(result.avg_reward, 3),
        steps=round(result.avg_steps, 2),
        aurc=round(summary(result)["aurc"], 3),
    )


def measure(level: int, n: int, folder: str) -> dict:
    "Oracles and hacks on the questions of one level."
    questions = world_set("test", level, n, folder=folder, kind=AmbiguousWorld)
    some = islice(worlds(level, split="test", kind=AmbiguousWorld), len(questions.databases) + 20)
    readings = {key: sql for w in some for key, sql in w.readings.items()}
    env = EpisodeEnv(questions, actions=ALLOWED, reward=RewardConfig.sparse().asking())
    players = dict(
        oracle=OraclePolicy(questions, readings=readings),
        oracle_without_clarify=OraclePolicy(questions, readings=readings, asks=False),
        greedy=GreedyPolicy(),
    )
    found = {
        name: numbers(evaluate(env, p, progress=False, robust=False)) for name, p in players.items()
    }
    plain = hack_floor(questions)
    every = hack_floor(questions, actions=ALLOWED)
    best = next(iter(every))
    floor = max(plain.values())
    return found | dict(
        questions=len(questions),
        ambiguous=sum(bool(q.clarifications) for q in questions),
        unanswerable=sum(not q.answerable for q in questions),
        floor=round(100 * floor, 2),
        best_cheat=dict(name=best, success=round(100 * every[best], 2)),
        above_floor=round(100 * (every[best] - floor), 2),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=900)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    command = f"python benchmarks/ask.py --n {args.n}"
    with tempfile.TemporaryDirectory() as folder:
        levels = {str(level): measure(level, args.n, folder) for level in (1, 2, 3)}
    text = json.dumps(dict(command=command, levels=levels), indent=1)
    args.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
