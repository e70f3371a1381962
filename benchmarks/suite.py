"""The table of a suite, from the logs of its runs: `python benchmarks/suite.py LOGS [--out benchmarks/suite.json]`.

The floor and the ceiling: `sql_env evaluate --suite v1 --policy random --policy oracle --no-floor --log LOGS`. Any
other policy takes the same command, `--model` or `--policy FOLDER`, with the same folder. Whether a log says what its
actions lead to shows `sql_env verify-result`.
"""

import argparse
import json
from pathlib import Path

from sql_env.evaluation.results import EvaluationResult, load_result
from sql_env.evaluation.suites import check_part, suite_parts, why_left_out
from sql_env.sources.loading import load, takes_option


def row(part, result: EvaluationResult) -> dict:
    "The figures of a policy on a part."
    low, high = result.interval()
    return dict(
        part=part.name,
        policy=result.policy,
        episodes=result.n_completed,
        success=round(result.success_rate, 4),
        low=round(low, 4),
        high=round(high, 4),
        robust=None if result.robust_rate != result.robust_rate else round(result.robust_rate, 4),
    )


def rows(suite: str, logs: Path) -> list[dict]:
    "A row for each log of each part; raises `ValueError` if a log is not of the part's questions."
    made = []
    for part in suite_parts(suite):
        if why := why_left_out(part):
            print(why)
            continue
        options = dict(part.source)
        source = options.pop("source")
        if takes_option(source, "n"):
            options["n"] = part.n
        questions = check_part(part, load(source, progress=False, **options))
        for path in sorted((logs / part.name).glob("*.jsonl")):
            result = load_result(path)
            ids = {e.question_id for e in result.episodes}
            if ids != {q.question_id for q in questions}:
                raise ValueError(f"{path} is not a log of {part.name}")
            made.append(row(part, result))
    return made


def main() -> None:
    "Print the table, and write it."
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--suite", default="v1")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = rows(given.suite, given.logs)
    for r in found:
        rate = f"{r['success']:6.1%} [{r['low']:.1%}, {r['high']:.1%}]"
        print(f"{r['part']:14} {r['policy']:28} {r['episodes']:4} {rate}")
    if given.out:
        digests = {part.name: part.digest for part in suite_parts(given.suite)}
        command = "python benchmarks/suite.py runs/v1 --out benchmarks/suite.json"
        saved = dict(command=command, suite=given.suite, digests=digests, rows=found)
        given.out.write_text(json.dumps(saved, indent=1) + "\n")


if __name__ == "__main__":
    main()
