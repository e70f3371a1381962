"""Which terms of a block are determined by others"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from .normal_form import Block, Call, Column, Compare, Constant, Identity, IsNull, Node, Not, Or, Row, free_terms
from .comparisons import Values


def equal_pairs(where: Iterable[Node]) -> Iterator[tuple[Node, Node]]:
    "Terms that a condition makes the same: by =, or by = or both NULL."
    for part in where:
        if isinstance(part, Compare) and part.operator == "=":
            yield part.left, part.right
        elif isinstance(part, Or) and len(part.parts) == 2:
            first, second = part.parts
            equal = [p for p in getattr(first, "parts", (first,)) if isinstance(p, Compare) and p.operator == "="]
            nulls = set(getattr(second, "parts", (second,)))
            if isinstance(first, Or) or isinstance(second, Or):
                continue
            if len(equal) == 1 and nulls == {IsNull(equal[0].left), IsNull(equal[0].right)}:
                yield equal[0].left, equal[0].right


class Classes:
    "Terms that are the same where a condition holds, as a union-find."

    def __init__(self, where: Iterable[Node], values: Values):
        self.parent: dict[Node, Node] = {}
        self.terms: dict[Node, None] = {}
        for left, right in equal_pairs(where):
            self.join(left, right)
        self._join_numerals(values)

    def join(self, left: Node, right: Node) -> None:
        "Note that two terms are the same."
        self.terms.update({left: None, right: None})
        a, b = self.find(left), self.find(right)
        if a != b:
            if isinstance(a, Constant):
                a, b = b, a
            self.parent[a] = b

    def _join_numerals(self, values: Values) -> None:
        "Texts that are plain numerals are the same where their numbers are."
        numbers = [t for t in self.terms if isinstance(t, Call) and t.name == "as_number" and isinstance(t.args[0], Column)]
        for n, first in enumerate(numbers):
            for second in numbers[:n]:
                a, b = first.args[0], second.args[0]
                if self.same(a, b):
                    self.join(first, second)
                elif self.same(first, second) and is_numeral(values, a) and is_numeral(values, b):
                    self.join(a, b)

    def find(self, term: Node) -> Node:
        while term in self.parent:
            term = self.parent[term]
        return term

    def same(self, left: Node, right: Node) -> bool:
        return left == right or self.find(left) == self.find(right)


def is_numeral(values: Values, term: Node) -> bool:
    "Whether a term is a column of plainly written whole numbers as texts."
    return isinstance(term, Column) and values.known.numerals(term.row.table, term.name)


class Closure:
    "What some terms determine in a block: equal values of theirs mean equal values of what is in here."

    def __init__(self, values: Values, block: Block, start: Iterable[Node], outer: Collection[Row], given: Sequence[Node]):
        self.values = values
        self.where = {*block.where, *given}
        self.classes = Classes([*block.where, *given], values)
        self.known = {self.classes.find(t) for t in start}
        self.rows = set(outer) | {t.row for t in start if isinstance(t, Identity)}
        self._close(block)

    def _close(self, block: Block) -> None:
        left = [row for row in block.rows if row not in self.rows]
        changed = True
        while changed:
            changed = False
            for term in self.classes.terms:
                root = self.classes.find(term)
                if root not in self.known and self.has(term):
                    self.known.add(root)
                    changed = True
            for row in [row for row in left if row not in self.rows]:
                if self._has_key(row):
                    self.rows.add(row)
                    changed = True

    def _has_key(self, row: Row) -> bool:
        known = self.values.known
        for key in known.keys(row.table):
            columns = [Column(row, name) for name in key]
            if all(self.has(c) and self._is_there(c) for c in columns):
                return known.use_key(row.table, key)
        return False

    def _is_there(self, column: Column) -> bool:
        return Not(IsNull(column)) in self.where or self.values.known.not_null(column.row.table, column.name)

    def has(self, term: Node) -> bool:
        "Whether a term, or all that a formula is about, is determined."
        if isinstance(term, Constant) or term in self.known or self.classes.find(term) in self.known:
            return True
        if isinstance(term, Identity):
            return term.row in self.rows
        if isinstance(term, Column):
            number = self.classes.find(Call("as_number", (term,)))
            return term.row in self.rows or number in self.known and is_numeral(self.values, term)
        return all(self._has_exactly(t) for t in free_terms(term))

    def _has_exactly(self, term: Column | Identity) -> bool:
        "Whether a term is determined to the way in which it is written, 3 or 3.0."
        if term.row in self.rows:
            return True
        return isinstance(term, Column) and bool(self.values.written_form(term)) and self.has(term)


def determines(
    values: Values,
    block: Block,
    start: Iterable[Node],
    needed: Iterable[Node],
    outer: Collection[Row] = (),
    given: Sequence[Node] = (),
) -> bool:
    "Whether rows of a block that agree in some terms agree in others."
    needed = list(needed)
    closure = Closure(values, block, list(start), outer, given)
    return all(closure.has(term) for term in needed)
