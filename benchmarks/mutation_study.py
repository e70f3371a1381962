"""How many wrong queries each comparison lets pass.

Take a gold query, make one edit, and ask whether a comparison notices: rows as a set, as a bag, as a bag with order,
by value as `sql_env` does it, and on instances that are made for the pair. `verdicts.py mutants` runs it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutants import one_edit_mutants
from realistic import results_agree, wrong_column_mutants

from sql_env.database.database import Database
from sql_env.grading.variants.instances import InstanceGenerator
from sql_env.grading.variants.pairs import _PairMaker, instance_generator
from sql_env.grading.variants.robust import judge_evidence
from sql_env.paths import ProgressBar
from sql_env.questions.question_set import Question, QuestionSet
from sql_env.sql.text import normalize_sql


def _passed_comparisons(
    rows: list[tuple],
    gold: list[tuple],
    ranks: Sequence[int] | None,  # of gold's rows, None without an order
) -> dict[str, bool]:
    "Whether a result passes each comparison on one database."
    same_bag = Counter(rows) == Counter(gold)
    return dict(
        set=set(rows) == set(gold),
        bag=same_bag,
        order=rows == gold if ranks is not None else same_bag,
        value=results_agree(rows, gold, ranks),
    )


def _survives(
    generator: InstanceGenerator,  # that keeps only what is declared
    sql: str,  # gold
    mutant: str,
) -> bool:
    "Whether no instance that is made for the two tells a mutant from gold."
    scratch = generator.scratch
    with generator.lock:
        for image, gold, ranks in _PairMaker(generator, sql, mutant).instances(mutant):
            scratch.load(image)
            if not results_agree(scratch.run(mutant), gold, ranks):
                return False
    return True


@dataclass
class MutantStudy:
    "How many mutants there were, by kind of edit, and how many passed what."

    name: str
    golds: int = 0
    seconds: float = 0.0  # wall clock
    count: dict[str, Counter] = field(default_factory=dict)  # of each kind: n, equivalent, passes

    def add(
        self,
        kind: str,  # of edit
        passed: Iterable[str],  # names of comparisons
        equivalent: bool,  # an equivalent mutant's passes are counted apart, with "=" after the name
    ) -> None:
        "Count a mutant."
        count = self.count.setdefault(kind, Counter())
        count["n"] += 1
        if equivalent:
            count["equivalent"] += 1
        for name in passed:
            count[f"{name}=" if equivalent else name] += 1

    def share(
        self,
        comparison: str,
        kinds: Callable[[str], bool] = lambda kind: True,  # which kinds of edit count
        equivalents: bool = False,  # count equivalent mutants as wrong; otherwise they are left out
    ) -> float:
        "Share of the mutants of some kinds that pass a comparison."
        total: Counter = Counter()
        for kind, count in self.count.items():
            if kinds(kind):
                total += count
        if equivalents:
            passed = total[comparison] + total[f"{comparison}="]
            return passed / max(total["n"], 1)
        return total[comparison] / max(total["n"] - total["equivalent"], 1)


@dataclass
class _StudiedMutant:
    "A mutant that runs, and what notices that it is wrong."

    kind: str
    sql: str
    passed: dict[str, bool]  # comparisons on the database itself, and on instances as `robust`
    equivalent: bool = (
        False  # no instance tells it from gold, not even one that keeps only what is declared
    )


_MAX_MUTANT_ROWS = 200_000  # rows of a mutant on the database itself; as for gold


def _runnable_mutants(generator: InstanceGenerator, q: Question) -> list[_StudiedMutant]:
    "Mutants of a gold query that run on the database itself."
    columns = {shape.lower_name: shape.columns for shape in generator.shapes}
    edits = one_edit_mutants(q.gold_sql)
    edits += [("wrong_column", sql) for sql in wrong_column_mutants(q.gold_sql, columns)]
    gold = list(q.gold_answer)
    mutants = []
    for kind, sql in edits:
        rows = generator.source.run(sql, _MAX_MUTANT_ROWS)
        if rows is not None:
            mutants.append(_StudiedMutant(kind, sql, _passed_comparisons(rows, gold, q.ranks)))
    return mutants


def _study_gold(path: Path, q: Question) -> list[_StudiedMutant]:
    "The mutants of one gold query, and what notices them."
    generator, loose, db = (
        instance_generator(path),
        instance_generator(path, infer=False),
        Database(path),
    )
    mutants = _runnable_mutants(generator, q)
    for mutant in mutants:
        robust = mutant.passed["value"] and judge_evidence(q.gold_sql, db, mutant.sql).correct
        mutant.passed["robust"] = bool(robust)
        mutant.equivalent = bool(robust) and _survives(loose, q.gold_sql, mutant.sql)
    return mutants


def mutation_study(qs: QuestionSet, progress: bool = True) -> MutantStudy:
    "Make all one-edit mutants of the gold queries of a set and see which comparison notices."
    start = time.monotonic()
    study = MutantStudy(qs.name)
    golds = {(q.database_name, normalize_sql(q.gold_sql)): q for q in qs}
    for q in ProgressBar("Mutants", len(golds), progress).watch(golds.values()):
        study.golds += 1
        try:
            mutants = _study_gold(qs.databases[q.database_name], q)
        except Exception as e:
            study.add(f"failed: {type(e).__name__}", [], False)
            continue
        for mutant in mutants:
            passed = [name for name, passes in mutant.passed.items() if passes]
            study.add(mutant.kind, passed, mutant.equivalent)
    study.seconds = time.monotonic() - start
    return study


KIND_GROUPS: dict[str, Callable[[str], bool]] = {
    "without add DISTINCT": lambda kind: kind not in ("add_distinct", "wrong_column"),
    "all edits": lambda kind: kind != "wrong_column",
    "wrong column": lambda kind: kind == "wrong_column",
}


COMPARISONS = ("set", "bag", "order", "value", "robust")  # from the weakest to the strongest


def mutation_study_markdown(study: MutantStudy) -> str:
    "Shares that pass, as a Markdown table."
    header = " | ".join(f"{group} | with equivalents" for group in KIND_GROUPS)
    lines = [f"| comparison | {header} |", "|---|" + "---:|" * 2 * len(KIND_GROUPS)]
    for name in COMPARISONS:
        cells = [name]
        for kinds in KIND_GROUPS.values():
            for equivalents in (False, True):
                cells.append(f"{study.share(name, kinds, equivalents):.1%}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def mutation_study_json(study: MutantStudy) -> dict:
    "The counts of a study, for a file."
    return dict(
        name=study.name,
        golds=study.golds,
        seconds=round(study.seconds, 1),
        count={kind: dict(count) for kind, count in sorted(study.count.items())},
    )
