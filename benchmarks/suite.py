"""The table of a suite, from the logs of its runs: `python benchmarks/suite.py LOGS [--out benchmarks/suite.json]`.

The floor and the ceiling: `sql_env evaluate --suite v1 --policy random --policy oracle --no-floor --log LOGS`. Any
other policy takes the same command, `--model` or `--policy FOLDER`, with the same folder. `sql_env rescore` judges its
actions again.

Small models on two cores play a sample of each part: `python benchmarks/suite.py LOGS --play MODEL --name NAME -n 20`,
where MODEL is nano, a folder, or a GGUF file; an adapter's base is found by SQL_ENV_BASE_MODEL. Rows whose logs are not
in the folder stay as they were.
"""

import argparse
import json
import time
from pathlib import Path

from sql_env.evaluation.harness import check_part, suite_parts
from sql_env.evaluation.results import EvaluationResult, load_result
from sql_env.sources.loading import load, takes_option


def row(part, result: EvaluationResult) -> dict:
    "The figures of a policy on a part."
    low, high = result.interval()
    return dict(
        part=part["name"],
        digest=part["digest"],
        policy=result.policy,
        episodes=result.n_completed,
        success=round(result.success_rate, 4),
        low=round(low, 4),
        high=round(high, 4),
        robust=None if result.robust_rate != result.robust_rate else round(result.robust_rate, 4),
    )


def parts_with_questions(suite: str):
    "Each part that can be played here, with its questions."
    for part in suite_parts(suite):
        options = dict(part["source"])
        source = options.pop("source")
        if takes_option(source, "n"):
            options["n"] = part["n"]
        try:
            yield part, check_part(part, load(source, progress=False, **options))
        except ValueError as e:
            if not part["databases"]:
                raise
            print(f"{part['name']} is left out: {e}")


def play(suite: str, logs: Path, model: str, name: str, n: int, only: list[str]) -> None:
    "Play the first `n` episodes of each part's plan, greedy; a log that is there already goes on."
    import torch

    from sql_env.evaluation import evaluate
    from sql_env.play import EpisodeEnv
    from sql_env.policies.chat import ChatPolicy
    from sql_env.policies.local import LocalModel

    torch.set_num_threads(1)
    if model == "nano":
        from sql_env.nano import NanoPolicy

        policy = NanoPolicy()
    else:
        backend = LocalModel(model, batch_size=min(n, 32), max_new_tokens=96)
        backend.probe()
        policy = ChatPolicy(
            backend
        )  # by its folder's settings, as `sql_env evaluate --model` plays it
    policy.name = name
    for part, questions in parts_with_questions(suite):
        if only and part["name"] not in only:
            continue
        env, log = EpisodeEnv(questions, **part["play"]), logs / part["name"] / f"{name}.jsonl"
        batch = min(n, 32) if hasattr(policy, "select_actions") else 1
        began = time.process_time()
        result = evaluate(env, policy, min(n, part["n"]), log=log, progress=False, batch=batch)
        print(part["name"], result, f"{time.process_time() - began:.0f} s of CPU", flush=True)


def rows(suite: str, logs: Path) -> list[dict]:
    "A row for each log of each part; raises `ValueError` if a log is not of the part's questions."
    made = []
    for part, questions in parts_with_questions(suite):
        for path in sorted((logs / part["name"]).glob("*.jsonl")):
            result = load_result(path)
            ids = {e.question_id for e in result.episodes}
            if not ids <= {q.question_id for q in questions}:
                raise ValueError(f"{path} is not a log of {part['name']}")
            made.append(row(part, result))
    return made


def main() -> None:
    "Print the table, and write it."
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--suite", default="v1")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--play", help="a model that plays before")
    parser.add_argument("--name")
    parser.add_argument("-n", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    if given.play:
        name = given.name or Path(given.play).stem
        play(given.suite, given.logs, given.play, name, given.n, given.only)
    found = rows(given.suite, given.logs)
    for r in found:
        rate = f"{r['success']:6.1%} [{r['low']:.1%}, {r['high']:.1%}]"
        print(f"{r['part']:14} {r['policy']:28} {r['episodes']:4} {rate}")
    if given.out:
        digests = {part["name"]: part["digest"] for part in suite_parts(given.suite)}
        command = "python benchmarks/suite.py runs/v1 --out benchmarks/suite.json"
        known = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
        made = {
            (r["part"], r["policy"]): r
            for r in [*known, *found]
            if r["digest"] == digests[r["part"]]
        }
        order = {part["name"]: i for i, part in enumerate(suite_parts(given.suite))}
        all_rows = sorted(made.values(), key=lambda r: (order[r["part"]], r["policy"]))
        saved = dict(command=command, suite=given.suite, digests=digests, rows=all_rows)
        given.out.write_text(json.dumps(saved, indent=1) + "\n")


if __name__ == "__main__":
    main()
