"""Aggregates, and the order of rows, as terms and formulas"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from .comparisons import Values
from .normal_form import (
    FALSE, NULL, TRUE, Aggregate, Bag, Block, Call, Choice, Constant, Node, conjunction, disjunction, negation,
)


def choose_term(condition: Node, then: Node, otherwise: Node) -> Node:
    "A choice, or one of its terms if the condition is settled."
    if condition == TRUE or then == otherwise:
        return then
    return otherwise if condition == FALSE else Choice(condition, then, otherwise)


def split_choices(blocks: Iterable[Block], values: Values) -> Iterator[Block]:
    "Blocks that give no choice: one for each case."
    for block in blocks:
        term = block.out[0]
        if not isinstance(term, Choice):
            yield block
            continue
        for condition, out in ((term.condition, term.then), (negation(term.condition), term.otherwise)):
            made = values.block(block.rows, [*block.where, condition], block.key, (out, *block.out[1:]))
            if made is not None:
                made = values.numbers.fresh(made)
                yield from split_choices([made], values)


def disjoint(values: Values, bag: Bag) -> tuple[Block, ...]:
    "The blocks of a bag as a plain sum: of a union, each without what the earlier ones give."
    if not bag.is_set or len(bag.blocks) < 2:
        return bag.blocks
    found: list[Block] = []
    for n, block in enumerate(bag.blocks):
        def same(out, block=block):
            return conjunction(values.same(a, b) for a, b in zip(block.out, out))

        earlier = values.exists_in(Bag(bag.blocks[:n]), same)
        made = values.block(block.rows, [*block.where, negation(earlier)], block.key, block.out)
        found += [] if made is None else [values.numbers.fresh(made)]
    return tuple(found)



def extreme(values: Values, name: str, blocks: Iterable[Block]) -> Node:
    "max or min of what some blocks give, NULL left out."
    found = []
    for block in split_choices(blocks, values):
        there = values.block(block.rows, [*block.where, values.not_null(block.out[0])],
                                  block.out[:1], block.out[:1])
        if there is not None:
            found.append(there)
    return Aggregate(name, Bag(tuple(found), True)) if found else NULL



def count_of(blocks: Sequence[Block]) -> Node:
    "How many rows some blocks give."
    bag = Bag(tuple(replace(b, out=()) for b in blocks))
    return Aggregate("count", bag) if blocks else Constant(0, "integer")


def _sum_of(values: Values, blocks: Sequence[Block], nonempty: Node) -> Node:
    "A sum; what adds 0 adds nothing, what adds 1 counts."
    plain = [b for b in blocks if not isinstance(b.out[0], Constant) or b.out[0].kind != "integer"]
    ones = [b for b in blocks if b.out == (Constant(1, "integer"),)]
    zeros = [b for b in blocks if b.out == (Constant(0, "integer"),)]
    if not blocks:
        return NULL
    if len(ones) + len(zeros) == len(blocks):
        return choose_term(nonempty, count_of(ones), NULL)
    if len(plain) + len(zeros) == len(blocks) and zeros:
        total = Aggregate("sum", Bag(tuple(plain)))
        return choose_term(nonempty, choose_term(values.is_null(total), Constant(0, "integer"), total), NULL)
    return Aggregate("sum", Bag(tuple(blocks)))


def _quotient(values: Values, total: Node, count: Node) -> Node:
    "avg: the sum as a real number by the count."
    if isinstance(total, Choice):
        return choose_term(total.condition, _quotient(values, total.then, count), _quotient(values, total.otherwise, count))
    return NULL if total == NULL else Call("fdiv", (total, count))


def aggregate_of(values: Values, name: str, blocks: list[Block], distinct: bool, has_argument: bool, always: bool):
    "count, sum or avg of what some blocks give."
    nonempty: Node = TRUE
    if has_argument:
        filled = [values.block(b.rows, [*b.where, values.not_null(b.out[0])], (), ()) for b in blocks]
        if not always or any(values.is_null(b.out[0]) != FALSE for b in blocks):
            nonempty = disjunction(values.exists(b) for b in filled)
    kept = []
    for block in split_choices(blocks, values) if has_argument else blocks:
        where = [*block.where, values.not_null(block.out[0])] if has_argument else block.where
        key = block.out if distinct else block.key
        made = values.block(block.rows, where, key, block.out)
        kept += [] if made is None else [made]
    if distinct and len(kept) > 1:
        kept = list(disjoint(values, Bag(tuple(replace(b, key=b.out) for b in kept), True)))
    count = count_of(kept)
    if name == "count":
        return count
    values.has_arithmetic = True
    total = _sum_of(values, kept, nonempty)
    return total if name == "sum" else _quotient(values, total, count)


@dataclass(frozen=True)
class SortKey:
    "The direction of a sorting key."

    descending: bool
    nulls_first: bool


def comes_before(
    values: Values, theirs: Sequence[Node], own: Sequence[Node], order: Sequence[SortKey]
) -> Node:
    "That a row is sorted strictly before another."
    cases = []
    for n, (a, b, key) in enumerate(zip(theirs, own, order)):
        same = [values.same(x, y) for x, y in zip(theirs[:n], own[:n])]
        less = values.compare_plain(">" if key.descending else "<", a, b).true
        first, last = (a, b) if key.nulls_first else (b, a)
        null = conjunction([values.is_null(first), negation(values.is_null(last))])
        cases.append(conjunction([*same, disjunction([less, null])]))
    return disjunction(cases)


