"""Digests of what a change of layout must keep to the byte: `python benchmarks/fingerprint.py [--json FILE]`.

Worlds and their gold, the bundled questions, verdicts of answers drawn at random, and every observation and reward of
the baselines and exploits. Two checkouts that print the same lines behave the same on all of this.
"""

import argparse
import hashlib
import json
import random
from pathlib import Path

from sql_env import (
    EpisodeEnv,
    GreedyPolicy,
    OraclePolicy,
    RandomPolicy,
    RewardConfig,
    World,
    load,
    verify,
)
from sql_env.policies import HACKS


def digest(values) -> str:
    text = "\n".join(map(repr, values))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def facts_of(question) -> tuple:
    "What a question is, its gold and its flags included."
    fields = ("question_id", "question_text", "database_name", "gold_sql", "gold_answer", "split")
    return *(getattr(question, f) for f in fields), sorted(question.flags)


def worlds() -> dict[str, str]:
    found = {}
    for level in range(1, 6):
        made = [World(seed, level=level, n=12) for seed in (3, 4, 5, 11, 12, 13)]
        rows = [facts_of(q) for world in made for q in world.questions]
        images = [hashlib.sha256(world.image).hexdigest() for world in made]
        found[f"worlds, level {level}"] = digest([*rows, *images])
    return found


def answers(gold_rows: list[tuple], others: list[str], draw: random.Random) -> list[str]:
    "Answers to a question: right ones in several forms, near misses, and those of other questions."
    flat = [str(v) for row in gold_rows[:5] for v in row]
    table = "\n".join(" | ".join(map(str, row)) for row in gold_rows[:30])
    near = [f"{v}1" for v in flat] + [v[:-1] for v in flat]
    return [
        table,
        ", ".join(flat),
        json.dumps(gold_rows[:30], default=str),
        *near,
        *draw.sample(others, 6),
    ]


def verdicts(questions) -> str:
    draw = random.Random(0)
    texts = [str(q.gold_answer) for q in questions]
    found = []
    for q in questions:
        rows = [tuple(row) for row in q.gold_answer]
        for text in answers(rows, texts, draw):
            for ordered in (False, True):
                v = verify(text, rows, ordered=ordered)
                found.append((q.question_id, text, v.correct, v.reason))
    return digest(found)


def episodes(questions, policies) -> dict[str, str]:
    "Every observation and reward of each policy on each third question."
    found = {}
    for mode in ("value", "robust"):
        for policy in policies:
            env = EpisodeEnv(questions, reward=RewardConfig.shaped(), verify=mode)
            seen = []
            for i in range(0, len(questions), 3):
                observation = env.reset(seed=i, index=i)
                if hasattr(policy, "reset"):
                    policy.reset(i)
                while not observation.done:
                    seen.append(observation)
                    observation = env.step(*policy.select_action(observation))
                seen.append(observation)
            found[f"{mode}, {policy.name}"] = digest(seen)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    bundled = load("bundled")
    questions = list(bundled)
    policies = [RandomPolicy(), GreedyPolicy(), OraclePolicy(questions), *HACKS]
    found = {
        "bundled": digest(map(facts_of, questions)),
        **worlds(),
        "verdicts": verdicts(questions),
    }
    found |= episodes(bundled, policies)
    for name, value in found.items():
        print(f"{name:40} {value}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
