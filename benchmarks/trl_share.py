"""Measure the environment's share of a GRPO step: `python benchmarks/trl_share.py [--out benchmarks/trl_share.json]`.

TRL's GRPOTrainer with 8 generations on the CPU and a model far smaller than any that is trained in earnest
(100,000 parameters, warmed up on expert conversations until it calls tools), which makes the share as large as
it can be. Time in `reset`, the four tools and the reward is summed over the 8 rollouts and divided by the time
of the steps.
"""

import argparse
import json
import platform
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import tiny_trl as kit

from sql_env.integrations.trl import SQLEnvTRL, prompt_rows, sql_env_reward_func
from sql_env.play.chat import tool_schemas
from sql_env.sources.loading import load
from sql_env.training.experts import ExpertPolicy, ExpertTrajectories
from sql_env.training.recipes import sft_rows

SPENT = [0.0]


def timed(f):
    def run(*args, **kwargs):
        start = time.perf_counter()
        try:
            return f(*args, **kwargs)
        finally:
            SPENT[0] += time.perf_counter() - start

    return run


class TimedEnv(SQLEnvTRL):
    "An environment that adds up the time spent in it."

    reset, _act, _reward = timed(SQLEnvTRL.reset), timed(SQLEnvTRL._act), timed(SQLEnvTRL._reward)


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--steps", type=int, default=10)
    args.add_argument("--out", type=Path)
    args = args.parse_args()
    qs = load("bundled").filter(
        question_id=["vet_clinic-02", "craft_brewery-01", "craft_brewery-03"]
    )
    made = ExpertTrajectories(qs, 6, policy=ExpertPolicy(qs, ["direct", "thorough"]))
    rows = sft_rows(made.env, made)
    tok = kit.make_tokenizer([str(rows), str(tool_schemas())])
    model = kit.make_model(tok)
    kit.warm(model, tok, rows, steps=400)
    with tempfile.TemporaryDirectory() as out:
        trainer = kit.grpo(
            tok,
            model,
            prompt_rows(qs),
            partial(TimedEnv, qs),
            out,
            n=8,
            steps=args.steps,
            reward_funcs=[sql_env_reward_func],
            learning_rate=1e-6,
        )
        SPENT[0] = 0
        start = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - start
    logs = [h for h in trainer.state.log_history if "reward" in h]
    calls = sum(h["tools/call_frequency"] for h in logs) / len(logs)
    figures = dict(
        command="python benchmarks/trl_share.py --out benchmarks/trl_share.json",
        python=platform.python_version(),
        generations=8,
        steps=len(logs),
        parameters=sum(p.numel() for p in model.parameters()),
        tool_calls_per_rollout=round(calls, 2),
        seconds_per_step=round(seconds / len(logs), 3),
        environment_ms_per_step=round(1000 * SPENT[0] / len(logs), 2),
        environment_share=round(SPENT[0] / seconds, 5),
        target_share=0.02,
    )
    print(json.dumps(figures, indent=1))
    if args.out:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
