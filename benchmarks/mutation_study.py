"""How many wrong queries each comparison lets pass.

Take a gold query, make one edit, and ask whether a comparison notices: rows as a set, as a bag, as a bag with order,
by value as `sql_env` does it, and on variants of the database. `verdicts.py mutants` runs it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from realistic import wrong_column_mutants

from sql_env.grading.variants.instances import InstanceGenerator
from sql_env.grading.variants.selection import (
    Variants,
    build_variants,
    candidate_instances,
    instance_generator,
    results_agree,
    selection_task,
)
from sql_env.paths import ProgressBar
from sql_env.questions.question_set import Question, QuestionSet
from mutants import one_edit_mutants
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


def _surviving_mutants(
    generator: InstanceGenerator,
    sql: str,  # gold
    mutants: Sequence[str],
    n: int = 200,  # random instances
    seed: int = 1,
) -> set[int]:
    "Which of some mutants `n` random instances can't tell from gold, by index."
    left = set(range(len(mutants)))
    with generator.lock:
        task = selection_task(generator, sql, mutants)
        for candidate in islice(candidate_instances(generator, task, seed), n):
            left -= candidate.killed
            if not left:
                break
    return left


def _first_kills(
    generator: InstanceGenerator, variants: Variants, mutants: Sequence[str]
) -> list[int | None]:
    "For each mutant the first variant (from 1) that tells it from gold, None if none does."
    first: list[int | None] = [None] * len(mutants)
    scratch = generator.scratch
    with generator.lock:
        for number, (image, (gold, ranks)) in enumerate(zip(variants.images, variants.golds), 1):
            scratch.load(image)
            for i, mutant in enumerate(mutants):
                if first[i] is None and not results_agree(scratch.run(mutant), gold, ranks):
                    first[i] = number
    return first


@dataclass
class MutantStudy:
    "How many mutants there were, by kind of edit, and how many passed what."

    name: str
    ks: tuple[int, ...]  # numbers of variants
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
    passed: dict[str, bool]  # comparisons on the database itself
    survives_random: bool = False  # no random instance tells it from gold
    killed_by: int | None = None  # first variant that tells it from gold
    killed_by_held_out: int | None = None  # first variant that was chosen without it

    @property
    def equivalent(self) -> bool:
        return self.survives_random and self.killed_by is None and self.killed_by_held_out is None

    def passed_names(self, ks: Iterable[int]) -> list[str]:
        "Names of the comparisons that it passes, variants included."
        names = [name for name, passes in self.passed.items() if passes]
        if self.passed["value"]:
            for label, first in (("robust", self.killed_by), ("held out", self.killed_by_held_out)):
                names += [f"{label} {k}" for k in ks if first is None or first > k]
        return names


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


def _study_held_out(
    generator: InstanceGenerator, gold_sql: str, mutants: Sequence[_StudiedMutant], k: int
) -> None:
    "Judge each half of the mutants on variants that were chosen by the other half."
    halves = (mutants[0::2], mutants[1::2])
    for judged, others in (halves, halves[::-1]):
        choosing = [m.sql for m in others if m.kind != "wrong_column"]
        variants = build_variants(generator, gold_sql, k, mutants=choosing)
        close = [m for m in judged if m.passed["value"]]
        kills = _first_kills(generator, variants, [m.sql for m in close])
        for mutant, first in zip(close, kills):
            mutant.killed_by_held_out = first


def _study_gold(
    path: Path,
    q: Question,
    max_k: int,  # number of variants
    n_random: int,  # random instances that decide what is equivalent
) -> list[_StudiedMutant]:
    "The mutants of one gold query, and what notices them."
    generator, loose = instance_generator(path), instance_generator(path, infer=False)
    mutants = _runnable_mutants(generator, q)
    close = [m for m in mutants if m.passed["value"]]
    texts = [m.sql for m in close]
    if close:
        for i in _surviving_mutants(loose, q.gold_sql, texts, n_random):
            close[i].survives_random = True
    variants = build_variants(generator, q.gold_sql, max_k)
    for mutant, first in zip(close, _first_kills(generator, variants, texts)):
        mutant.killed_by = first
    _study_held_out(generator, q.gold_sql, mutants, max_k)
    return mutants


def mutation_study(
    qs: QuestionSet,
    ks: Sequence[int] = (1, 2, 3, 5, 10, 20),  # numbers of variants
    n_random: int = 200,  # random instances that decide what is equivalent
    progress: bool = True,
) -> MutantStudy:
    "Make all one-edit mutants of the gold queries of a set and see which comparison notices."
    start = time.monotonic()
    study = MutantStudy(qs.name, tuple(ks))
    golds = {(q.database_name, normalize_sql(q.gold_sql)): q for q in qs}
    for q in ProgressBar("Mutants", len(golds), progress).watch(golds.values()):
        study.golds += 1
        try:
            mutants = _study_gold(qs.databases[q.database_name], q, max(ks), n_random)
        except Exception as e:
            study.add(f"failed: {type(e).__name__}", [], False)
            continue
        for mutant in mutants:
            study.add(mutant.kind, mutant.passed_names(ks), mutant.equivalent)
    study.seconds = time.monotonic() - start
    return study


KIND_GROUPS: dict[str, Callable[[str], bool]] = {
    "without add DISTINCT": lambda kind: kind not in ("add_distinct", "wrong_column"),
    "all edits": lambda kind: kind != "wrong_column",
    "wrong column": lambda kind: kind == "wrong_column",
}


def comparison_names(study: MutantStudy) -> list[str]:
    "The comparisons of a study, from the weakest to the strongest."
    labels = ("robust", "held out")
    suites = [f"{label} {k}" for label in labels for k in study.ks]
    return ["set", "bag", "order", "value", *suites]


def mutation_study_markdown(study: MutantStudy) -> str:
    "Shares that pass, as a Markdown table."
    header = " | ".join(f"{group} | with equivalents" for group in KIND_GROUPS)
    lines = [f"| comparison | {header} |", "|---|" + "---:|" * 2 * len(KIND_GROUPS)]
    for name in comparison_names(study):
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
        ks=study.ks,
        count={kind: dict(count) for kind, count in sorted(study.count.items())},
    )
