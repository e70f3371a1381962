"""Train a language model on the bundled questions with TRL's GRPO: pip install "sql_env[train]" first.

python examples/grpo.py Qwen/Qwen3-0.6B 200    # model, steps
"""

import sys

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from sql_env import SQLEnvTRL, load, prompt_rows, sql_env_reward_func

model = sys.argv[1]
max_steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200

questions = load("bundled", split="train")
gpu = torch.cuda.is_available()
config = GRPOConfig(
    output_dir="runs/grpo",
    max_steps=max_steps,
    bf16=gpu,
    use_cpu=not gpu,
    per_device_train_batch_size=4,
    num_generations=4,
    max_completion_length=1024,
    max_tool_calling_iterations=15,
    chat_template_kwargs={"enable_thinking": False},
)
trainer = GRPOTrainer(
    model=model,
    args=config,
    train_dataset=Dataset.from_list(prompt_rows(questions)),
    environment_factory=lambda: SQLEnvTRL(questions),
    reward_funcs=sql_env_reward_func,
)
trainer.train()
trainer.save_model("runs/grpo/model")
