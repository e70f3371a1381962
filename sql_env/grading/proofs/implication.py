"""Whether a condition follows from others, and whether two bags are equal"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from time import thread_time

from .normal_form import (
    FALSE, TRUE, Aggregate, And, Bag, Block, Call, Choice, Column, Compare, Constant, Exists, IsNull, Node,
    Not, Or, Row, canonical, children, conjunction, disjunction, free_rows, negation, replace_nodes, walk,
)
from .dependencies import Classes, determines, equal_pairs
from .comparisons import Unproved, Values

_MAX_STEPS = 80  # containments and implications of one attempt
_MAX_SOLVED = 16  # implications of one attempt that z3 is asked
MAX_SECONDS = 0.1  # of processor time, for the case that the other limits do not hold
_MAX_HOMOMORPHISMS = 60
_MAX_TRIED = 6  # of these, those that need the least proof first
_MAX_DEPTH = 6  # of containments within each other
_MAX_CASES = 12
_MAX_CHASED = 4  # rows that foreign keys add to a block


def is_simple(formula: Node) -> bool:
    "Whether a formula has neither EXISTS nor an aggregate."
    return not any(isinstance(n, (Exists, Aggregate)) for n in walk(formula))


def _is_negated_exists(formula: Node) -> bool:
    return isinstance(formula, Not) and isinstance(formula.part, Exists)


def _exists_signs(formula: Node, sign: bool = True) -> set[bool]:
    "Whether EXISTS occurs in a formula, as it is (True) and denied (False); a count may say either."
    match formula:
        case Exists():
            return {sign}
        case Not():
            return _exists_signs(formula.part, not sign)
        case And() | Or():
            return set().union(*(_exists_signs(p, sign) for p in formula.parts))
        case Compare():
            return set() if is_simple(formula) else {True, False}
    return set()


class Prover:
    "Implications between conditions and containments between blocks."

    def __init__(self, values: Values, end: float):
        self.values = values
        self.steps = 0
        self.depth = 0
        self.end = end
        self.models: list = []  # (block, model): rows that show why an implication failed
        self.solved = 0
        self.answers: dict[tuple, bool] = {}

    def step(self) -> None:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise Unproved("too many steps")
        if thread_time() > self.end:
            raise Unproved("no time left")

    # blocks

    def merged(self, block: Block, outer: frozenset[Row] = frozenset(), given: Sequence[Node] = ()) -> Block:
        "A block in which rows that a key makes the same are one row, also in what its terms and formulas hold."
        pair = self._same_rows(block, outer, given)
        while pair is not None:
            block = self._with_one_row(block, *pair)
            pair = self._same_rows(block, outer, given)
        inner = outer | set(block.rows)
        context = (*given, *filter(is_simple, block.where))
        where = [self.settled(p, inner, context) for p in block.where]
        key, out = [tuple(self.settled(t, inner, context) for t in part) for part in (block.key, block.out)]
        if where == list(block.where) and (key, out) == (block.key, block.out):
            return block
        made = self.values.block(block.rows, where, key, out)
        return made if made is not None else Block(block.rows, (FALSE,), key, out)

    def settled(self, node: Node, outer: frozenset[Row], given: Sequence[Node]) -> Node:
        "A term or formula whose blocks are merged, with each other's rows and with those outside."
        if is_simple(node):
            return node
        match node:
            case Exists():
                return self.values.exists(self.merged(node.block, outer, given))
            case Aggregate():
                blocks = tuple(self.merged(b, outer, given) for b in node.bag.blocks)
                return Aggregate(node.name, Bag(blocks, node.bag.is_set))
            case Not():
                return negation(self.settled(node.part, outer, given))
            case And():
                return conjunction(self.settled(p, outer, given) for p in node.parts)
            case Or():
                return disjunction(self.settled(p, outer, given) for p in node.parts)
            case Call():
                return Call(node.name, tuple(self.settled(a, outer, given) for a in node.args))
            case Compare():
                return Compare(node.operator, self.settled(node.left, outer, given), self.settled(node.right, outer, given))
            case Choice():
                return Choice(*(self.settled(p, outer, given) for p in children(node)))
        return node

    def _same_rows(self, block: Block, outer: Collection[Row], given: Sequence[Node]) -> tuple[Row, Row] | None:
        "Two rows that a key makes the same: the one to keep, and one of the block."
        tables = [row.table for row in block.rows]
        others = [row for row in outer if row.table in tables]
        if len(set(tables)) == len(tables) and not others:
            return None
        classes = Classes([*block.where, *given], self.values)
        for n, second in enumerate(block.rows):
            for first in [*sorted(others, key=lambda r: r.number), *block.rows[:n]]:
                if first.table == second.table and self._is_same_row(first, second, classes, block, given):
                    return first, second
        return None

    def _is_same_row(self, first: Row, second: Row, classes: Classes, block: Block, given) -> bool:
        known = self.values.known
        for key in known.keys(first.table):
            pairs = [(Column(first, c), Column(second, c)) for c in key]
            if all(classes.same(a, b) for a, b in pairs):
                if all(self._is_there(c, block, given) for pair in pairs for c in pair):
                    return known.use_key(first.table, key)
        return False

    def _is_there(self, column: Column, block: Block, given) -> bool:
        present = Not(IsNull(column))
        return present in block.where or present in given or self.values.known.not_null(column.row.table, column.name)

    def _with_one_row(self, block: Block, kept: Row, dropped: Row) -> Block:
        where, key, out = replace_nodes((block.where, block.key, block.out), {dropped: kept})
        rows = tuple(row for row in block.rows if row != dropped)
        made = self.values.block(rows, [self.cleaned(p) for p in where], key, out)
        return made if made is not None else Block(rows, (FALSE,), key, out)

    def cleaned(self, formula: Node) -> Node:
        "A formula without comparisons of a term with itself."
        if isinstance(formula, Compare) and formula.left == formula.right:
            return FALSE if formula.operator == "<" else TRUE
        if isinstance(formula, Not):
            return negation(self.cleaned(formula.part))
        if isinstance(formula, And):
            return conjunction(map(self.cleaned, formula.parts))
        if isinstance(formula, Or):
            return disjunction(map(self.cleaned, formula.parts))
        return formula

    def chased(self, block: Block, tables: Collection[str], outer: Collection[Row], given: Sequence[Node]) -> Block:
        "A block with the rows that its rows refer to."
        rows, where = list(block.rows), list(block.where)
        todo = [*block.rows, *sorted(outer, key=lambda r: r.number)]
        there = set(where) | set(given)
        known = self.values.known
        added = 0
        while todo and added < _MAX_CHASED:
            row = todo.pop(0)
            for reference in known.references(row.table):
                if reference.parent not in tables:
                    continue
                columns = [Column(row, c) for c in reference.columns]
                classes = Classes([*where, *given], self.values)
                if self._has_parent(columns, reference, [*rows, *outer], classes):
                    continue
                if all(Not(IsNull(c)) in there or known.not_null(row.table, c.name) for c in columns):
                    known.use_reference(row.table, reference)
                    parent = self.values.numbers.row(reference.parent)
                    rows.append(parent)
                    todo.append(parent)
                    added += 1
                    targets = [Column(parent, c) for c in reference.parent_columns]
                    where += [self.values.compare("=", a, b).true for a, b in zip(columns, targets)]
        where += self.witnesses(block, tables)
        if not added and len(where) == len(block.where):
            return block
        made = self.values.block(rows, where, block.key, block.out)
        return made if made is not None else block

    def witnesses(self, block: Block, tables: Collection[str]) -> list[Node]:
        "That there is a row where a count of rows is positive."
        found = []
        for part in block.where:
            if isinstance(part, Compare) and isinstance(part.left, Constant) and isinstance(part.right, Aggregate):
                least = part.left.value + (part.operator == "<") if part.left.kind == "integer" else 0
                bag = part.right.bag
                if part.right.name == "count" and least >= 1 and len(bag.blocks) == 1:
                    if {row.table for row in bag.blocks[0].rows} & set(tables):
                        found.append(self.values.exists(bag.blocks[0]))
        return found

    def with_filled(self, block: Block, tables: Collection[str]) -> Block | None:
        "A block with a row of each of some tables that have one; None if that adds nothing."
        there = {row.table for row in block.rows}
        rows = [self.values.numbers.row(t) for t in sorted(set(tables) - there) if self.values.known.is_filled(t)]
        return replace(block, rows=(*block.rows, *rows)) if rows else None

    def _has_parent(self, columns, reference, rows, classes) -> bool:
        for row in rows:
            if row.table == reference.parent:
                targets = [Column(row, c) for c in reference.parent_columns]
                if all(classes.same(a, b) for a, b in zip(columns, targets)):
                    return True
        return False

    # containment

    def contained(
        self,
        a: Block,
        b: Block,
        outer: frozenset[Row] = frozenset(),
        given: tuple[Node, ...] = (),
        as_set: bool = False,
    ) -> bool:
        "Whether `b` gives each row that `a` gives, and if not `as_set` at least as often."
        question = (a, b, outer, given, as_set)
        if question not in self.answers:
            self.answers[question] = self._contained(*question)
        return self.answers[question]

    def _contained(self, a: Block, b: Block, outer: frozenset[Row], given: tuple[Node, ...], as_set: bool) -> bool:
        self.step()
        if len(a.out) != len(b.out) or self.depth > _MAX_DEPTH:
            return False
        self.depth += 1
        try:
            tables = {row.table for row in b.rows}
            a = self.chased(a, tables, outer, given)
            if self.maps_into(a, b, outer, given, as_set):
                return True
            filled = self.with_filled(a, tables)
            if filled is None:
                return False
            return self.maps_into(self.chased(filled, tables, outer, given), b, outer, given, as_set)
        finally:
            self.depth -= 1

    def maps_into(self, a: Block, b: Block, outer, given, as_set: bool) -> bool:
        "Whether some homomorphism shows containment."
        there = {*a.where, *given}

        def missing(mapping) -> int:
            return sum(replace_nodes(part, mapping) not in there for part in b.where)

        mappings = sorted(self.homomorphisms(a, b, outer, given), key=missing)
        return any(self.maps(a, b, mapping, outer, given, as_set) for mapping in mappings[:_MAX_TRIED])

    def maps(self, a: Block, b: Block, mapping, outer, given, as_set: bool) -> bool:
        "Whether a homomorphism carries the condition and result of `b` into those of `a`."
        where, key, out = replace_nodes((b.where, b.key, b.out), mapping)
        if not as_set and not determines(self.values, a, key, a.key, outer, given):
            return False
        classes, inner = Classes([*a.where, *given], self.values), frozenset({*a.rows, *outer})
        context = tuple(p for p in (*a.where, *given) if is_simple(p))
        pairs = [p for p in zip(a.out, out) if not self.same_terms(*p, classes, inner, context)]
        goals = [*where, *(self.values.same(x, y) for x, y in pairs)]
        return self.entails(a, goals, outer, given)

    def homomorphisms(self, a: Block, b: Block, outer, given) -> Iterator[dict[Row, Row]]:
        "Ways to map the rows of `b` to rows of `a` or outer ones that keep its equations between columns."
        classes = Classes([*a.where, *given], self.values)
        own = [*a.rows, *sorted(outer, key=lambda r: r.number)]
        equations = [
            (p.left, p.right) for p in b.where
            if isinstance(p, Compare) and p.operator == "=" and isinstance(p.left, Column) and isinstance(p.right, Column)
        ]
        count = 0

        def extend(n: int, mapping: dict[Row, Row]) -> Iterator[dict[Row, Row]]:
            nonlocal count
            if count > _MAX_HOMOMORPHISMS:
                return
            if n == len(b.rows):
                count += 1
                yield mapping
                return
            row = b.rows[n]
            for image in own:
                if image.table == row.table:
                    extended = {**mapping, row: image}
                    if self._keeps_equations(equations, extended, row, b, classes):
                        yield from extend(n + 1, extended)

        for mapping in extend(0, {}):
            if self._keeps_result(a, b, mapping, classes):
                yield mapping

    def _keeps_equations(self, equations, mapping, row: Row, b: Block, classes: Classes) -> bool:
        inner = set(b.rows)
        for left, right in equations:
            if row in (left.row, right.row):
                if all(c.row in mapping or c.row not in inner for c in (left, right)):
                    if not classes.same(*replace_nodes((left, right), mapping)):
                        return False
        return True

    def _keeps_result(self, a: Block, b: Block, mapping, classes: Classes) -> bool:
        for x, y in zip(a.out, b.out):
            if isinstance(x, Column) and isinstance(y, Column) and not classes.same(x, replace_nodes(y, mapping)):
                return False
        return True

    # implication

    def entails(self, a: Block, goals: Iterable[Node], outer: frozenset[Row], given: tuple[Node, ...]) -> bool:
        "Whether a condition holds wherever a block has a row."
        premises = [*a.where, *given]
        there, classes = set(premises), Classes(premises, self.values)
        inner = frozenset({*a.rows, *outer})
        context = tuple(p for p in premises if is_simple(p))
        left = []
        for goal in goals:
            for part in goal.parts if isinstance(goal, And) else (goal,):
                if not self.is_plain(part, a, there, classes, inner, context):
                    left.append(part)
        if not left:
            return True
        signs = set().union(*(_exists_signs(p) for p in premises))
        if any(not _exists_signs(p) <= signs for p in left if isinstance(p, Exists) or _is_negated_exists(p)):
            return False  # no premise speaks of other rows in that way, and none of those at hand is the one wanted
        return self.solve(premises, left, a, inner, context)

    def is_plain(self, goal: Node, a: Block, there, classes, inner, context) -> bool:
        "Whether a goal follows without a solver."
        if goal == TRUE or goal in there:
            return True
        if isinstance(goal, Compare):
            if goal.operator in ("=", "<=") and self.same_terms(goal.left, goal.right, classes, inner, context):
                return True
        if isinstance(goal, Or):
            if any(self.is_plain(p, a, there, classes, inner, context) for p in goal.parts):
                return True
            pairs = [p for p in goal.parts if isinstance(p, And)]
            return self._is_same(goal, classes, inner, context) if pairs else False
        if isinstance(goal, And):
            return all(self.is_plain(p, a, there, classes, inner, context) for p in goal.parts)
        if isinstance(goal, Exists):
            rows = Block(a.rows, a.where, (), ())
            return self.contained(rows, goal.block, inner - set(a.rows), context, True)
        if isinstance(goal, Not) and isinstance(goal.part, Exists):
            for premise in there:
                if isinstance(premise, Not) and isinstance(premise.part, Exists):
                    if self.contained(goal.part.block, premise.part.block, inner, context, True):
                        return True
        return False

    def _is_same(self, goal: Or, classes, inner, context) -> bool:
        "Whether a goal says that two terms are the same, and they are."
        return any(self.same_terms(x, y, classes, inner, context) for x, y in equal_pairs([goal]))

    def same_terms(self, x: Node, y: Node, classes: Classes, inner, context) -> bool:
        "Whether two terms are the same without a solver."
        if classes.same(x, y):
            return True
        if isinstance(x, Aggregate) and isinstance(y, Aggregate):
            return self.same_aggregates(x, y, inner, context)
        if isinstance(x, Call) and isinstance(y, Call) and x.name == y.name and len(x.args) == len(y.args):
            if all(a == b or self.is_congruent(a, b) for a, b in zip(x.args, y.args)):
                return all(self.same_terms(a, b, classes, inner, context) for a, b in zip(x.args, y.args))
        return False

    def is_congruent(self, x: Node, y: Node) -> bool:
        "Whether equal values of two terms are also written alike."
        form = self.values.written_form(x)
        return bool(form) and form == self.values.written_form(y)

    def same_aggregates(self, x: Aggregate, y: Aggregate, outer, given) -> bool:
        if x == y:
            return True
        as_set = x.name in ("max", "min", "value")
        return x.name == y.name and self.equal(x.bag, y.bag, outer, given, as_set)

    def solve(self, premises: Sequence[Node], goals: Sequence[Node], a: Block, inner, context) -> bool:
        "Whether goals follow from premises, asked of z3."
        from .solver import Encoding

        self.step()
        self.solved += 1
        if self.solved > _MAX_SOLVED:
            raise Unproved("too many steps")
        return Encoding(self, a, inner, context).follows(premises, goals)

    # bags

    def equal(self, a: Bag, b: Bag, outer: frozenset[Row] = frozenset(), given: tuple[Node, ...] = (), as_set: bool = False) -> bool:
        "Whether two bags have the same rows, each equally often unless `as_set`."
        if a == b or canonical(a) == canonical(b):
            return True
        left, right = [[self.merged(x, outer, given) for x in bag.blocks] for bag in (a, b)]
        sets = [as_set or bag.is_set or not blocks or len(blocks) == 1 and self.is_set(blocks[0], outer, given)
                for bag, blocks in ((a, left), (b, right))]
        if all(sets):
            return self.included(left, right, outer, given) and self.included(right, left, outer, given)
        if any(sets) and (a.is_set or b.is_set):
            return False
        if self.matched(left, right, outer, given):
            return True
        if len(left) == 1 == len(right):
            return False
        left, right = self.joined(left, outer, given), self.joined(right, outer, given)
        return self.matched(left, right, outer, given)

    def is_set(self, block: Block, outer, given) -> bool:
        return determines(self.values, block, block.out, block.key, outer, given)

    def matched(self, left: list[Block], right: list[Block], outer, given) -> bool:
        "Whether blocks can be paired so that each pair is equal."
        if len(left) != len(right):
            return False
        rest = list(right)
        for x in left:
            for y in rest:
                if self.contained(x, y, outer, given) and self.contained(y, x, outer, given):
                    rest.remove(y)
                    break
            else:
                return False
        return True

    def included(self, left: list[Block], right: list[Block], outer, given) -> bool:
        "Whether each row of some blocks is one of others."
        return all(self.covered(x, right, outer, given) for x in left)

    def covered(self, x: Block, right: list[Block], outer, given, cases: int = _MAX_CASES) -> bool:
        "Whether the rows of a block are among those of others, by cases of its OR if need be."
        if any(self.contained(x, y, outer, given, True) for y in right):
            return True
        choices = [p for p in x.where if isinstance(p, Or) and p.parts]
        if not choices or cases < len(choices[0].parts):
            return False
        rest = [p for p in x.where if p != choices[0]]
        for part in choices[0].parts:
            made = self.values.block(x.rows, [part, *rest], x.key, x.out)
            if made is not None and not self.covered(made, right, outer, given, cases // len(choices[0].parts)):
                return False
        return True

    # joining the blocks of a sum

    def joined(self, blocks: list[Block], outer, given) -> list[Block]:
        "The same sum in fewer blocks: those without rows are dropped, disjoint ones of one form are made one."
        kept = [self.pushed(b) for b in blocks if not self.is_empty(b, outer, given)]
        n = 0
        while n < len(kept):
            for other in kept[n + 1 :]:
                made = self.union(kept[n], other, outer, given)
                if made is not None:
                    kept[n] = made
                    kept.remove(other)
                    n = -1
                    break
            n += 1
        found = [self.values.block(b.rows, b.where, b.key, b.out) for b in kept]
        return [self.merged(b, outer, given) for b in found if b is not None]

    def is_empty(self, block: Block, outer, given) -> bool:
        "Whether no row can fulfil the condition of a block."
        return bool(block.where) and self.entails(block, [FALSE], outer, given)

    def pushed(self, block: Block) -> Block:
        "A block whose rows that are not in its key or result stand in EXISTS."
        needed = free_rows((block.key, block.out))
        loose = [row for row in block.rows if row not in needed]
        if not loose:
            return block
        inside = [p for p in block.where if free_rows(p) & set(loose)]
        outside = [p for p in block.where if not free_rows(p) & set(loose)]
        there = []
        for rows, parts in _components(loose, inside):
            there.append(Exists(Block(tuple(rows), tuple(parts), (), ())))
        return Block(tuple(r for r in block.rows if r in needed), (*outside, *there), block.key, block.out)

    def union(self, x: Block, y: Block, outer, given) -> Block | None:
        "Two blocks that differ in their conditions as one block; None if they may share rows."
        if [r.table for r in x.rows] != [r.table for r in y.rows]:
            return None
        if not all(determines(self.values, b, b.key, b.where, outer, given) for b in (x, y)):
            return None  # one value of the key might fulfil either condition
        y = replace_nodes(y, dict(zip(y.rows, x.rows)))
        if canonical((x.key, x.out)) != canonical((y.key, y.out)):
            return None
        first = {canonical(p): p for p in x.where}
        second = {canonical(p): p for p in y.where}
        common = [p for c, p in first.items() if c in second]
        only_first = [self.values.numbers.fresh(c) for c in first if c not in second]
        only_second = [self.values.numbers.fresh(c) for c in second if c not in first]
        if canonical(negation(conjunction(only_first))) == canonical(conjunction(only_second)):
            return Block(x.rows, tuple(common), x.key, x.out)
        opposites = {canonical(c) for c in only_second}
        if not any(canonical(negation(c)) in opposites for c in only_first):
            both = Block(x.rows, (*common, *only_first, *only_second), (), ())
            if not self.entails(both, [FALSE], outer, given):
                return None
        rest = disjunction([conjunction(only_first), conjunction(only_second)])
        return Block(x.rows, (*common, rest), x.key, x.out)


def _components(rows: Sequence[Row], parts: Sequence[Node]) -> Iterator[tuple[list[Row], list[Node]]]:
    "Rows and the conditions on them, apart where no condition connects them."
    left, rest = list(rows), list(parts)
    while left:
        group, grew = {left[0]}, True
        while grew:
            grew = False
            for part in rest:
                touched = free_rows(part) & set(left)
                if touched & group and not touched <= group:
                    group |= touched
                    grew = True
        yield [r for r in left if r in group], [p for p in rest if free_rows(p) & group]
        rest = [p for p in rest if not free_rows(p) & group]
        left = [r for r in left if r not in group]
