"""What it costs to check a log: `python benchmarks/replay.py`, 1,000 episodes of each log, writes replay.json.

A greedy policy and gold on generated databases, robust verdicts among those that are made again; then `verify_result`
in a process that has seen none of it: seconds of its processor.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from sql_env.evaluation import evaluate
from sql_env.policies import GreedyPolicy, OraclePolicy
from sql_env.sources.loading import load

OUT = Path(__file__).with_suffix(".json")
CHECK = """
import json, sys, time
from sql_env.evaluation.verification import verify_result
from sql_env.sources.loading import load
began = time.process_time()
questions = load("worlds", level=2, n=1000, seed=7, progress=False)
loaded = time.process_time()
found = verify_result(sys.argv[1], questions)
spent = time.process_time() - loaded
print(json.dumps(dict(cpu_s=round(spent, 1), questions_cpu_s=round(loaded - began, 1), episodes=found.result.n_episodes,
                      problems=len(found.problems), success=round(found.result.success_rate, 3))))
"""


def main() -> None:
    "Play, verify, print and write."
    questions = load("worlds", level=2, n=1000, seed=7, progress=False)
    rows = []
    for policy in (GreedyPolicy(), OraclePolicy(questions)):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log.jsonl"
            played = evaluate(questions, policy, 1000, log=log, progress=False)
            command = [sys.executable, "-c", CHECK, str(log)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            actions = sum(e.steps for e in played.episodes)
        rows.append(dict(policy=policy.name, actions=actions, **json.loads(done.stdout)))
        print(rows[-1])
    found = dict(command="python benchmarks/replay.py", rows=rows)
    OUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
