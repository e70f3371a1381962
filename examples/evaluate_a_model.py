"""Evaluate a language model behind an OpenAI-style server, beside the baselines.

python examples/evaluate_a_model.py gpt-4.1-mini            # the key is read from OPENAI_API_KEY
python examples/evaluate_a_model.py qwen3 http://localhost:8000/v1 10
"""

import sys

from sql_env import ChatPolicy, GreedyPolicy, evaluate, hack_floor, load, results_markdown

model = sys.argv[1]
base_url = sys.argv[2] if len(sys.argv) > 2 else "https://api.openai.com/v1"
n_episodes = int(sys.argv[3]) if len(sys.argv) > 3 else 10

questions = load("bundled", split="test")
policies = [GreedyPolicy(), ChatPolicy(model, base_url=base_url)]
results = [evaluate(questions, policy, n_episodes) for policy in policies]
print(results_markdown(results, hack_floor(questions)))
