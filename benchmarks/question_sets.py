"""Audit the known data sets and let the oracle play them: `python benchmarks/question_sets.py [SET ...]`.

Writes what the table of data sets shows into benchmarks/question_sets.json, and the flags that `load` gives to
questions of published sets into sql_env/bundled/audits.json: ids, hashes and flags, no text. Without names all sets
are measured; others keep what was measured before. Spider is read from SQL_ENV_SPIDER or ../shared/spider, BIRD and
KaggleDBQA from ../shared/bird and ../shared/kaggledbqa.
"""

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from sql_env import __version__
from sql_env.evaluation.audit import AuditReport, audit_questions
from sql_env.evaluation.harness import evaluate
from sql_env.policies.baselines import OraclePolicy
from sql_env.questions.question_set import QUARANTINE_FLAGS, QuestionSet
from sql_env.sources.loading import _findings_of, load

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"  # data that does not belong to the project
FIGURES = Path(__file__).with_suffix(".json")
sys.path.insert(0, str(ROOT / "examples" / "kaggledbqa"))  # whose entry point is that source
AUDITS = ROOT / "sql_env" / "bundled" / "audits.json"
SPIDER = os.environ.get("SQL_ENV_SPIDER") or SHARED / "spider"
SETS = {
    "bundled": dict(source="bundled"),
    **{
        f"worlds level {i}": dict(source="worlds", level=i, n=200, split="test")
        for i in range(1, 6)
    },
    "spider dev": dict(source="spider", path=SPIDER, split="dev"),
    "spider train": dict(source="spider", path=SPIDER, split="train"),
    "bird superhero": dict(source="bird", path=SHARED / "bird"),
    "bird superhero, no evidence": dict(source="bird", path=SHARED / "bird", evidence=False),
    "kaggledbqa": dict(source="kaggledbqa", path=SHARED / "kaggledbqa"),
}


def playable(qs: QuestionSet, report: AuditReport) -> QuestionSet:
    "The questions that can be played, those included that turned out to be unanswerable."
    aside = QUARANTINE_FLAGS - {"unanswerable"}
    kept = [q for q in report.questions if not aside & set(q.flags)]
    return qs.with_questions([q.with_fields(flags=(), reasons=()) for q in kept])


def measure(name: str, pool) -> tuple[dict, dict[str, str]]:
    "Figures of a set, and what is shipped of its audit."
    qs = load(**SETS[name], progress=True)
    report = audit_questions(qs, executor=pool)
    played = playable(qs, report)
    oracle = evaluate(played, OraclePolicy(played), executor=pool)
    best = max(report.hacks_correct, key=lambda hack: report.hacks_correct[hack])
    figures = dict(
        command=f'python benchmarks/question_sets.py "{name}"',
        questions=len(report.questions),
        databases=report.n_databases,
        left_out=sum(report.left_out.values()),
        set_aside=len(report.bad),
        flags=report.counts(),
        hack_floor=round(report.hacks_correct[best] / len(played), 4),
        best_hack=best,
        hack_floor_robust=round(max(report.hacks_robust.values()) / len(played), 4),
        oracle=oracle.success_rate,
        oracle_robust=oracle.robust_rate,
        not_judged=oracle.unjudged().total(),
    )
    return figures, _findings_of(report.questions)


def update(path: Path, key: str, name: str, value: dict) -> None:
    "Put a set into a JSON file, the others left as they are."
    content = json.loads(path.read_text()) if path.is_file() else {}
    content["version"] = __version__
    sets = content.setdefault(key, {}) | {name: value}
    content[key] = {known: sets[known] for known in SETS if known in sets}
    path.write_text(json.dumps(content, indent=1 if path == FIGURES else None) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(SETS)}")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    for name in args.sets or SETS:
        with ProcessPoolExecutor(args.workers) as pool:
            figures, findings = measure(name, pool)
        print(name, json.dumps(figures))
        update(FIGURES, "sets", name, figures)
        if findings and not name.startswith("worlds"):
            update(AUDITS, "sets", name, {"questions": findings})


if __name__ == "__main__":
    main()
