"""Proofs that two queries give the same rows on every database that keeps some assumptions"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import apsw


from .algebra import Bag, RowNumbers
from .facts import Assumption, Knowledge, Schema
from .implication import Prover
from .translation import Relation, Translator, visible
from .values import Unproved, Values

NO_TIES, EXACT = Assumption("no_ties"), Assumption("exact")


@dataclass(frozen=True)
class Proof:
    "Whether two queries are proved equal, refuted, or open, and under which assumptions or why."

    outcome: str  # proved, refuted or open
    assumptions: tuple[Assumption, ...] = ()
    reason: str = ""

    def __bool__(self):
        return self.outcome == "proved"


class Attempt:
    "One attempt at a proof, with or without what only the data shows."

    def __init__(self, schema: Schema, data: bool):
        self.known = Knowledge(schema, data)
        self.values = Values(self.known, RowNumbers())
        self.prover = Prover(self.values)
        self.gold = Translator(self.values, True)
        self.other = Translator(self.values, False, self.is_cut_of_gold)

    def is_cut_of_gold(self, relation: Relation) -> bool:
        "Whether LIMIT cuts the same sorted rows as one of gold does."
        for cut in self.gold.cuts:
            if cut.limit == relation.limit and cut.order == relation.order[: len(cut.order)]:
                width = len(cut.order)
                hidden = [Bag(tuple(replace(b, out=b.out[r.width : r.width + width]) for b in r.bag.blocks), r.bag.is_set)
                          for r in (cut, relation)]
                if self.prover.equal(*hidden):
                    return True
        return False

    def run(self, gold_tree, tree) -> bool:
        "Whether both are proved equal; raises `Unproved` with the reason if that can't be decided."
        gold = self.gold.query(gold_tree, None, True)
        other = self.other.query(tree, None, True)
        if gold.width != other.width:
            raise Unproved("another number of columns")
        if gold.limit is not None and not gold.order:
            gold = self.gold.sliced(gold)
        if gold.limit is not None and gold.limit == other.limit and is_refined(gold, other):
            if self.same(gold, other):
                return True
        return self.same_slices(gold, other)

    def same_slices(self, gold: Relation, other: Relation) -> bool:
        "Equality of what LIMIT keeps, written as a condition."
        one_row = gold.limit == 1 or self.gold.has_one_row(gold.bag)
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
        if not is_refined(gold, other):
            raise Unproved("another order")
        return self.same(gold, other)

    def same(self, gold: Relation, other: Relation) -> bool:
        "Equality of two relations with their sorting keys, as far as gold is sorted."
        width = gold.width + len(gold.order)
        bags = [Bag(tuple(replace(b, out=b.out[:width]) for b in r.bag.blocks), r.bag.is_set) for r in (gold, other)]
        return self.prover.equal(*bags)

    def assumptions(self) -> tuple[Assumption, ...]:
        used = dict(self.known.used)
        if self.gold.cuts or self.gold.has_limit:
            used[NO_TIES] = None
        if self.gold.has_arithmetic or self.other.has_arithmetic:
            used[EXACT] = None
        return tuple(used)


def is_refined(gold: Relation, other: Relation) -> bool:
    "Whether what gold sorts by, the other query sorts by first."
    return other.order[: len(gold.order)] == gold.order


def compile_error(schema: Schema, sql: str) -> str:
    try:
        schema.empty().execute(f"EXPLAIN {sql}").fetchall()
    except apsw.Error as e:
        return str(e)
    return ""


def prove(gold: str, sql: str, schema: Schema) -> Proof:
    "Whether `sql` is proved equal to gold on every database that keeps the assumptions."
    from ..sqltext import parse_sql

    for text in (gold, sql):
        if error := compile_error(schema, text):
            return Proof("open", reason=f"SQLite refuses it: {error}")
    reason = ""
    for data in (False, True):
        attempt = Attempt(schema, data)
        try:
            if attempt.run(parse_sql(gold), parse_sql(sql)):
                return Proof("proved", attempt.assumptions())
            reason = "no proof found"
        except Unproved as e:
            reason = str(e)
        except RecursionError:
            reason = "too deep"
    return Proof("open", reason=reason)
