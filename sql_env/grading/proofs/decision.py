"""Proofs that two queries give the same rows on every database that keeps some assumptions"""

from dataclasses import dataclass, replace
from time import thread_time

import apsw
from sqlglot import exp

from ...extras import MissingExtraError


from .normal_form import Bag, RowNumbers
from .counterexamples import Counterexample, model_rows, search
from .facts import Assumption, Knowledge, Schema
from .implication import MAX_SECONDS, Prover
from .queries import Relation, Translator, visible
from .comparisons import Unproved, Values

_MAX_MODELS = 6  # failed implications that databases are built around
_NO_TIES, _EXACT = Assumption("no_ties"), Assumption("exact")


@dataclass(frozen=True)
class Proof:
    "Whether two queries are proved equal, refuted, or open, and under which assumptions or why."

    outcome: str  # proved, refuted or open
    assumptions: tuple[Assumption, ...] = ()
    reason: str = ""
    counterexample: Counterexample | None = None

    def __bool__(self):
        return self.outcome == "proved"


class _Attempt:
    "One attempt at a proof, with or without what only the data shows."

    def __init__(self, schema: Schema, data: bool, end: float):
        self.known = Knowledge(schema, data)
        self.values = Values(self.known, RowNumbers())
        self.prover = Prover(self.values, end)
        self.gold = Translator(self.values, True)
        self.other = Translator(self.values, False, self.is_cut_of_gold)

    def is_cut_of_gold(self, relation: Relation) -> bool:
        "Whether LIMIT cuts the same sorted rows as one of gold does."
        for cut in self.gold.cuts:
            if cut.limit == relation.limit and cut.order == relation.order[: len(cut.order)]:
                width = len(cut.order)
                theirs, own = (_with_out(r.bag, r.width, r.width + width) for r in (cut, relation))
                if self.prover.equal(theirs, own):
                    return True
        return False

    def run(self, gold_tree, tree) -> bool:
        "Whether both are proved equal; raises `Unproved` with the reason if that can't be decided."
        gold = self.gold.query(gold_tree, None, True)
        if gold.limit is not None and gold.order:
            self.gold.cuts.append(gold)
        other = self.other.query(tree, None, True)
        if gold.width != other.width:
            raise Unproved("another number of columns")
        if gold.limit is not None and not gold.order:
            gold = self.gold.sliced(gold)
        if gold.limit is not None and gold.limit == other.limit and _is_refined(gold, other):
            if self.same(gold, other):
                return True
        return self.same_slices(gold, other)

    def same_slices(self, gold: Relation, other: Relation) -> bool:
        "Equality of what LIMIT keeps, written as a condition."
        one_row = gold.limit == 1 or self.gold.expressions.has_one_row(gold.bag)
        if other.limit is not None and other.order:
            enough = 1 if one_row else gold.limit
            if enough is None or other.limit < enough:
                self.other.check_ties(other)
        if gold.limit is not None:
            gold = self.gold.sliced(gold)
        if other.limit is not None:
            other = self.other.sliced(other)
        if one_row:
            gold = replace(gold, order=(), bag=visible(gold))
        if not _is_refined(gold, other):
            raise Unproved("another order")
        return self.same(gold, other)

    def same(self, gold: Relation, other: Relation) -> bool:
        "Equality of two relations with their sorting keys, as far as gold is sorted."
        width = gold.width + len(gold.order)
        return self.prover.equal(_with_out(gold.bag, 0, width), _with_out(other.bag, 0, width))

    def assumptions(self) -> tuple[Assumption, ...]:
        used = dict(self.known.used)
        if self.gold.cuts or self.gold.has_limit:
            used[_NO_TIES] = None
        if self.values.has_arithmetic:
            used[_EXACT] = None
        return tuple(used)


def _with_out(bag: Bag, start: int, end: int) -> Bag:
    "A bag that gives only some of its terms."
    return Bag(tuple(replace(b, out=b.out[start:end]) for b in bag.blocks), bag.is_set)


def _is_refined(gold: Relation, other: Relation) -> bool:
    "Whether what gold sorts by, the other query sorts by first."
    return other.order[: len(gold.order)] == gold.order


def _parenthesised(tree: exp.Expression, crossed: bool = False) -> str:
    "A query with brackets around each operation, as it was read; CROSS JOIN is a comma unless `crossed`."
    for node in list(tree.find_all(exp.Binary, exp.Unary, exp.Between, exp.In)):
        if isinstance(node, (exp.Paren, exp.Dot, exp.AggFunc)) or node.parent is None:
            continue
        if not isinstance(node.parent, (exp.Paren, exp.Escape, exp.Window)):
            node.replace(exp.Paren(this=node.copy()))
    for join in tree.find_all(exp.Join):
        if join.kind == "CROSS" and not crossed:
            join.set("kind", None)
    return tree.sql("sqlite")


def _program(schema: Schema, sql: str) -> list[tuple]:
    "SQLite's _program of a query; raises `apsw.Error`."
    return [row[1:7] for row in schema.empty().execute(f"EXPLAIN {sql}")]


def read_query(schema: Schema, sql: str) -> exp.Expression:
    "The tree of a query; raises `Unproved` if SQLite refuses it, or reads it otherwise."
    from ...sql.analysis import parse_sql

    try:
        original = _program(schema, sql)
    except apsw.Error as e:
        raise Unproved(f"SQLite refuses it: {e}") from None
    try:
        if original != _program(schema, _parenthesised(parse_sql(sql))):
            if original != _program(schema, _parenthesised(parse_sql(sql), crossed=True)):
                raise Unproved("SQLite may read it otherwise than the parser")
        return parse_sql(sql)
    except Unproved:
        raise
    except Exception:
        raise Unproved("it can't be parsed") from None


def prove(
    gold: str,
    sql: str,
    schema: Schema,
    tries: int = 64,  # databases on which a difference is looked for
) -> Proof:
    "Whether `sql` is proved equal to gold on every database that keeps the assumptions."
    try:
        trees = [read_query(schema, text) for text in (gold, sql)]
    except Unproved as e:
        return Proof("open", reason=str(e))
    reason, models = "", []
    start = thread_time()
    for data, seconds in ((False, MAX_SECONDS / 2), (True, MAX_SECONDS)):
        attempt = _Attempt(schema, data, start + seconds)
        try:
            if attempt.run(*trees):
                return Proof("proved", attempt.assumptions())
            reason = "no proof found"
        except Unproved as e:
            reason = str(e)
        except RecursionError:
            reason = "too deep"
        except MissingExtraError as e:
            return Proof("open", reason=str(e))
        models = attempt.prover.models
    wanted = [model_rows(*model) for model in models[:_MAX_MODELS]]
    found = search(gold, sql, schema, trees, wanted, tries) if tries else None
    if found is not None:
        return Proof("refuted", (), "they differ on a small database", found)
    return Proof("open", reason=reason)
