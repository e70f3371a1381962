"""Measure conversations: `python benchmarks/conversations.py [--n 900] [--out benchmarks/conversations.json]`.

Of each level `n` conversations of the test split. One oracle knows gold of every turn; the forgetful one plays each
follow-up as its words read on the bare table. The cheats are all hacks, and those that repeat an answer: the last one,
or the one before it. Repeating after a first question that an oracle answered is no cheat but shows what memory of
answers alone is worth. The floor is the best hack on single questions of worlds of the same level.
"""

import argparse
import json
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path

from sql_env.evaluation.harness import evaluate, hack_floor
from sql_env.evaluation.results import EvaluationResult, summary
from sql_env.play.acts import Action
from sql_env.play.episode import EpisodeEnv
from sql_env.policies import GreedyPolicy, OraclePolicy
from sql_env.policies.baselines import HACKS, most_frequent_answer, question_start
from sql_env.worlds import ConversationWorld, worlds
from sql_env.worlds.world import world_set


class Repeats:
    "Answers the first question as another policy does, and each follow-up with an earlier answer of its own."

    def __init__(self, first, back: int):
        self.first, self.back, self.start = first, back, (0, 0)
        self.name = f"{first.name}, then the answer {back} before"

    def select_action(self, observation):
        self.start = question_start(observation, self.start)
        place = self.start[1]
        if observation.step_count == 0:
            self.answers = []
        if place == 0:
            action = self.first.select_action(observation)
        else:
            action = Action("ANSWER", self.answers[max(0, place - self.back)])
        if action.action_type == "ANSWER":
            self.answers = [*self.answers[:place], action.argument]
        return action


def numbers(result: EvaluationResult) -> dict:
    "Rates of a result, in percent."
    later = [right for e in result.completed for right in e.turns_correct[1:]]
    rates = dict(
        interaction_match=summary(result)["interaction_match"],
        question_match=summary(result)["question_match"],
        follow_up_match=sum(later) / len(later),
    )
    found = {name: round(100 * x, 2) for name, x in rates.items()}
    return found | dict(steps=round(result.avg_steps, 2))


def measure(level: int, n: int, folder: str) -> dict:
    "Oracles and hacks on the conversations of one level."
    questions = world_set("test", level, n, folder=folder, kind=ConversationWorld)
    some = list(
        islice(worlds(level, split="test", kind=ConversationWorld), len(questions.databases) + 20)
    )
    bare = {key: turn.bare for w in some for key, turn in w.turns.items()}
    kinds = {key: turn.kind for w in some for key, turn in w.turns.items()}
    env, oracle = EpisodeEnv(questions), OraclePolicy(questions)

    def play(policy, robust=False):
        return evaluate(env, policy, progress=False, robust=robust)

    forgets = [
        q.with_fields(
            follow_ups=tuple(f.with_fields(gold_sql=bare[f.question_id]) for f in q.follow_ups)
        )
        for q in questions
    ]
    gold = play(oracle, robust=True)
    hacks = [*HACKS, most_frequent_answer(questions)]
    counted = next(hack for hack in HACKS if hack.name == "row count")
    hacks += [Repeats(counted, back) for back in (1, 2)]
    cheats = {hack.name: numbers(play(hack)) for hack in hacks}
    best = max(cheats, key=lambda name: cheats[name]["question_match"])
    floor = max(hack_floor(world_set("test", level, n, folder=folder)).values())
    asked = Counter(kinds[f.question_id] for q in questions for f in q.follow_ups)
    return dict(
        conversations=len(questions),
        questions=sum(len(q.conversation) for q in questions),
        lengths=dict(sorted(Counter(len(q.conversation) for q in questions).items())),
        edits=dict(asked.most_common()),
        oracle=numbers(gold) | dict(robust=round(100 * gold.robust_rate, 2)),
        forgetful_oracle=numbers(play(OraclePolicy(forgets))),
        greedy=numbers(play(GreedyPolicy())),
        oracle_then_repeats={back: numbers(play(Repeats(oracle, back))) for back in (1, 2)},
        floor=round(100 * floor, 2),
        best_hack=dict(name=best) | cheats[best],
        above_floor=round(cheats[best]["question_match"] - 100 * floor, 2),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=900)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    command = f"python benchmarks/conversations.py --n {args.n}"
    with tempfile.TemporaryDirectory() as folder:
        levels = {str(level): measure(level, args.n, folder) for level in (1, 2, 3)}
    text = json.dumps(dict(command=command, levels=levels), indent=1)
    args.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
