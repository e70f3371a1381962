"""How SQLite compares values: NULL, affinity, and what an expression can give"""

from typing import NamedTuple

from .normal_form import (
    FALSE, NULL, TRUE, Aggregate, And, Bag, Block, Call, Choice, Column, Compare, Constant, Exists, IsNull, Node,
    Not, Or, RowNumbers, conjunction, disjunction, negation,
)
from .facts import Knowledge


class Unproved(Exception):
    "Why a proof was given up."


class Truth(NamedTuple):
    "When a condition is true and when it is false; otherwise it is unknown."

    true: Node
    false: Node


_STRICT = frozenset("+ - * || neg real as_number as_text lower upper length abs round trim ltrim rtrim replace instr substr substring".split())
_TEXT_RESULT = frozenset("|| lower upper trim ltrim rtrim replace substr substring".split())
_NUMERIC_AFFINITIES = frozenset({"INTEGER", "REAL", "NUMERIC"})


def _looks_numeric(text: str) -> Constant | None:
    "The number that NUMERIC affinity makes of a text."
    stripped = text.strip(" \t\n\v\f\r")
    if not stripped or set(stripped) - set("0123456789+-.eE"):
        return None
    try:
        value = float(stripped)
    except ValueError:
        return None
    if abs(value) >= 2**53:
        raise Unproved("a text with a large number")
    return Constant(int(value), "integer") if value.is_integer() else Constant(value, "real")


class Values:
    "Comparisons of terms under what is known of a schema."

    def __init__(self, known: Knowledge, numbers: RowNumbers):
        self.known = known
        self.numbers = numbers
        self.has_arithmetic = False  # whether a term holds arithmetic, a sum or an average

    # what a term can give

    def elements(self, term: Aggregate) -> list[Node]:
        return [block.out[0] for block in term.bag.blocks if block.out]

    def affinity(self, term: Node) -> str:
        "The affinity of an expression, '' for none."
        if isinstance(term, Column):
            return self.known.column(term.row.table, term.name).affinity
        if isinstance(term, Call) and term.name.startswith("cast:"):
            return term.name[5:]
        if isinstance(term, Call) and term.name == "real":
            return "REAL"
        if isinstance(term, Aggregate) and term.name == "value":
            found = {self.affinity(e) for e in self.elements(term)}
            if len(found) > 1:
                raise Unproved("a subquery with values of several affinities")
            return found.pop() if found else ""
        return ""

    def is_number(self, term: Node) -> bool:
        "Whether a term is always a number or NULL."
        match term:
            case Constant():
                return term.kind != "text"
            case Column():
                return self.known.only(term.row.table, term.name, "integer", "real")
            case Choice():
                return self.is_number(term.then) and self.is_number(term.otherwise)
            case Aggregate("count" | "sum"):
                return True
            case Aggregate():
                return all(map(self.is_number, self.elements(term)))
            case Call():
                name = term.name
                return name in ("+", "-", "*", "/", "%", "fdiv", "neg", "real", "abs", "round", "length", "instr",
                                "cast:INTEGER", "cast:REAL", "as_number:known")
        return False

    def is_integer(self, term: Node) -> bool:
        "Whether a term is always an integer or NULL."
        match term:
            case Constant():
                return term.kind in ("integer", "null")
            case Column():
                return self.known.only(term.row.table, term.name, "integer")
            case Choice():
                return self.is_integer(term.then) and self.is_integer(term.otherwise)
            case Aggregate("count"):
                return True
            case Aggregate():
                return all(map(self.is_integer, self.elements(term)))
            case Call("+" | "-" | "*" | "neg" | "abs" | "/" | "%"):
                return all(map(self.is_integer, term.args))
            case Call("length" | "instr" | "cast:INTEGER"):
                return True
        return False

    def is_real(self, term: Node) -> bool:
        "Whether a term is always a floating-point number or NULL."
        match term:
            case Constant():
                return term.kind == "real"
            case Column():
                if self.known.column(term.row.table, term.name).affinity == "INTEGER":
                    return False
                return self.known.only(term.row.table, term.name, "real")
            case Choice():
                return self.is_real(term.then) and self.is_real(term.otherwise)
            case Aggregate("sum" | "max" | "min" | "value"):
                return bool(term.bag.blocks) and all(map(self.is_real, self.elements(term)))
            case Call("fdiv" | "real"):
                return True
            case Call("+" | "-" | "*" | "/"):
                return any(map(self.is_real, term.args)) and all(map(self.is_number, term.args))
        return False

    def is_text(self, term: Node) -> bool:
        "Whether TEXT affinity changes nothing: texts, blobs and NULL."
        match term:
            case Constant():
                return term.kind in ("text", "null")
            case Column():
                return self.affinity(term) == "TEXT"
            case Choice():
                return self.is_text(term.then) and self.is_text(term.otherwise)
            case Aggregate("max" | "min" | "value"):
                return all(map(self.is_text, self.elements(term)))
            case Call():
                return term.name in _TEXT_RESULT
        return False

    def is_numeric(self, term: Node) -> bool:
        "Whether NUMERIC affinity changes nothing: it has been applied already, or there are only numbers."
        if isinstance(term, Constant):
            return term.kind != "text"
        if isinstance(term, Column) and self.affinity(term) in _NUMERIC_AFFINITIES:
            return True
        if isinstance(term, Aggregate) and term.name in ("max", "min", "value"):
            return all(map(self.is_numeric, self.elements(term)))
        if isinstance(term, Choice):
            return self.is_numeric(term.then) and self.is_numeric(term.otherwise)
        return self.is_number(term)

    def written_form(self, term: Node) -> str:
        "A name for terms of which equal values are also written alike; '' if 3 may stand beside 3.0."
        match term:
            case Constant():
                return {"integer": "canonical", "text": "text", "null": "null"}.get(term.kind, "real")
            case Column():
                affinity = self.affinity(term)
                if affinity in ("INTEGER", "NUMERIC"):
                    return "canonical"
                return {"REAL": "real", "TEXT": "text"}.get(affinity, "")
            case Aggregate("max" | "min" | "value"):
                forms = {self.written_form(e) for e in self.elements(term)}
                return forms.pop() if len(forms) == 1 else ""
        if self.is_integer(term):
            return "canonical"
        return "real" if self.is_real(term) else "text" if self.is_text(term) else ""

    # NULL

    def is_null(self, term: Node) -> Node:
        "When a term is NULL."
        match term:
            case Constant():
                return TRUE if term.kind == "null" else FALSE
            case Column():
                return FALSE if self.known.not_null(term.row.table, term.name) else IsNull(term)
            case Choice():
                return self.choose(term, self.is_null)
            case Aggregate("count"):
                return FALSE
            case Aggregate():
                return negation(self.exists_in(term.bag, lambda out: negation(self.is_null(out[0]))))
            case Call("fdiv" | "/" | "%"):
                dividend, divisor = term.args
                if not (self.is_number(divisor) if term.name != "%" else self.is_integer(divisor)):
                    return IsNull(term)
                zero = self.compare_plain("=", divisor, Constant(0, "integer")).true
                return disjunction([self.is_null(dividend), self.is_null(divisor), zero])
            case Call():
                if term.name in _STRICT or term.name.startswith("cast:"):
                    return disjunction(self.is_null(a) for a in term.args)
        return IsNull(term)

    def not_null(self, *terms: Node) -> Node:
        return conjunction(negation(self.is_null(t)) for t in terms)

    def choose(self, term: Choice, formula) -> Node:
        "A formula about a choice, by cases."
        then, otherwise = formula(term.then), formula(term.otherwise)
        if then == otherwise:
            return then
        return disjunction([conjunction([term.condition, then]),
                            conjunction([negation(term.condition), otherwise])])

    # blocks

    def block(self, rows, where, key, out) -> Block | None:
        "A block with the rows of positive EXISTS among its own; None if its condition is false."
        done: dict[Node, None] = {}
        rows, todo = list(rows), list(where)[::-1]
        while todo:
            part = todo.pop()
            if part == FALSE:
                return None
            if isinstance(part, And):
                todo.extend(reversed(part.parts))
            elif isinstance(part, Exists):
                inner = self.numbers.fresh(part.block)
                rows += inner.rows
                todo.extend(reversed(inner.where))
            else:
                done[part] = None
        return Block(tuple(rows), tuple(done), tuple(key), tuple(out))

    def exists(self, block: Block | None) -> Node:
        "That a block has a row."
        if block is None:
            return FALSE
        if not block.rows:
            return conjunction(block.where)
        if not block.where and all(self.known.is_filled(row.table) for row in block.rows):
            return TRUE
        return Exists(Block(block.rows, block.where, (), ()))

    def exists_in(self, bag: Bag, condition) -> Node:
        "That a bag has a row of which a condition holds."
        return disjunction(
            self.exists(self.block(b.rows, [*b.where, condition(b.out)], (), ())) for b in bag.blocks
        )

    # comparisons

    def with_affinity(self, left: Node, right: Node) -> tuple[Node, Node]:
        "Both sides of a comparison after SQLite has applied affinities."
        a, b = self.affinity(left), self.affinity(right)
        if a in _NUMERIC_AFFINITIES and b not in _NUMERIC_AFFINITIES:
            return left, self.as_number(right)
        if b in _NUMERIC_AFFINITIES and a not in _NUMERIC_AFFINITIES:
            return self.as_number(left), right
        if a == "TEXT" and b == "":
            return left, self.as_text(right)
        if b == "TEXT" and a == "":
            return self.as_text(left), right
        return left, right

    def as_number(self, term: Node) -> Node:
        if isinstance(term, Constant) and term.kind == "text":
            return _looks_numeric(term.value) or term
        return term if self.is_numeric(term) else Call("as_number", (term,))

    def as_text(self, term: Node) -> Node:
        if isinstance(term, Constant) and term.kind == "integer":
            return Constant(str(term.value), "text")
        return term if self.is_text(term) else Call("as_text", (term,))

    def compare(self, operator: str, left: Node, right: Node) -> Truth:
        "left operator right, as SQL has it."
        for value, other, at_left in ((left, right, True), (right, left, False)):
            if isinstance(value, Aggregate) and value.name == "value":
                return self.compare_value(operator, value, other, at_left)
        return self.compare_plain(operator, *self.with_affinity(left, right))

    def compare_value(self, operator: str, value: Aggregate, other: Node, at_left: bool) -> Truth:
        "A comparison with the only row of a subquery."
        def truth(element):
            return self.compare(operator, *((element, other) if at_left else (other, element)))

        return Truth(
            self.exists_in(value.bag, lambda out: truth(out[0]).true),
            self.exists_in(value.bag, lambda out: truth(out[0]).false),
        )

    def compare_plain(self, operator: str, left: Node, right: Node) -> Truth:
        "A comparison of values as they are."
        if operator == "<>":
            truth = self.compare_plain("=", left, right)
            return Truth(truth.false, truth.true)
        if operator in (">", ">="):
            return self.compare_plain({">": "<", ">=": "<="}[operator], right, left)
        for side, other, at_left in ((left, right, True), (right, left, False)):
            if isinstance(side, Choice):
                return self.compare_choice(operator, side, other, at_left)
        if left == NULL or right == NULL:
            return Truth(FALSE, FALSE)
        if isinstance(left, Constant) and isinstance(right, Constant):
            return Truth(TRUE, FALSE) if _compare_constants(operator, left, right) else Truth(FALSE, TRUE)
        for side, other, at_left in ((left, right, True), (right, left, False)):
            if isinstance(side, Aggregate) and side.name in ("max", "min"):
                if not (isinstance(other, Aggregate) and other.name in ("max", "min")):
                    return self.compare_extreme(operator, side, other, at_left)
        if operator in ("=", "<="):
            for count, number in ((left, right), (right, left)) if operator == "=" else ((right, left),):
                if isinstance(count, Aggregate) and count.name == "count" and isinstance(number, Constant):
                    values = self.counted_values(count)
                    if len(values) == number.value and len(values) > 1:
                        holds = self.all_occur(count, values)
                        return Truth(holds, negation(holds))
        atom = Compare(operator, left, right)
        if operator == "=" and repr(right) < repr(left):
            atom = Compare(operator, right, left)
        there = self.not_null(left, right)
        return Truth(conjunction([there, atom]), conjunction([there, Not(atom)]))

    def compare_choice(self, operator: str, choice: Choice, other: Node, at_left: bool) -> Truth:
        "A comparison with a choice, by cases."
        def truth(term: Node) -> Truth:
            return self.compare_plain(operator, *((term, other) if at_left else (other, term)))

        return Truth(self.choose(choice, lambda t: truth(t).true), self.choose(choice, lambda t: truth(t).false))

    def compare_extreme(self, operator: str, extreme: Aggregate, other: Node, at_left: bool) -> Truth:
        "A comparison with max or min, told by the values among which it is."
        if at_left:  # write it as: other operator' extreme
            operator = {"=": "=", "<": ">", "<=": ">="}[operator]

        def some(op):
            return self.exists_in(extreme.bag, lambda out: self.compare_plain(op, other, out[0]).true)

        if extreme.name == "min":
            reached = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
        else:
            reached = {op: op for op in ("<", "<=", ">", ">=", "=")}
        there = conjunction([self.not_null(other), self.exists_in(extreme.bag, lambda out: TRUE)])
        true = {
            "=": lambda: conjunction([some("="), negation(some(reached["<"]))]),
            reached["<"]: lambda: some(reached["<"]),
            reached["<="]: lambda: some(reached["<="]),
            reached[">"]: lambda: conjunction([there, negation(some(reached["<="]))]),
            reached[">="]: lambda: conjunction([there, negation(some(reached["<"]))]),
        }[operator]()
        return Truth(true, conjunction([there, negation(true)]))

    def counted_values(self, count: Aggregate) -> list[Node]:
        "The equations with literals of which one must hold for what count(DISTINCT x) counts; [] if there are none."
        if len(count.bag.blocks) != 1 or len(count.bag.blocks[0].key) != 1:
            return []
        block = count.bag.blocks[0]
        for part in block.where:
            if isinstance(part, Or):
                found = [_equation_of(p, block.key[0]) for p in part.parts]
                literals = {c for p in found if p is not None for c in (p.left, p.right) if isinstance(c, Constant)}
                if None not in found and len(literals) == len(found) and len({c.kind for c in literals}) == 1:
                    return [p for p in found if p is not None]
        return []

    def all_occur(self, count: Aggregate, equations: list[Node]) -> Node:
        "That each of the values which count(DISTINCT x) may count is there."
        block = count.bag.blocks[0]
        return conjunction(self.exists(self.block(block.rows, [*block.where, e], (), ())) for e in equations)

    def same(self, left: Node, right: Node) -> Node:
        "That two values are equal or both NULL, as DISTINCT, GROUP BY and UNION have it."
        if left == right:
            return TRUE
        for value, other in ((left, right), (right, left)):
            if isinstance(value, Choice):
                return self.choose(value, lambda t: self.same(t, other))
            if isinstance(value, Aggregate) and value.name == "value":
                some = self.exists_in(value.bag, lambda out: self.compare_plain("=", out[0], other).true)
                return disjunction([some, conjunction([self.is_null(value), self.is_null(other)])])
        equal = self.compare_plain("=", left, right).true
        return disjunction([equal, conjunction([self.is_null(left), self.is_null(right)])])


def _equation_of(formula: Node, term: Node) -> Compare | None:
    "The equation of a term with a literal that a formula is, the term's not being NULL left out."
    parts = formula.parts if isinstance(formula, And) else (formula,)
    rest = [p for p in parts if p != Not(IsNull(term))]
    if len(rest) == 1 and isinstance(rest[0], Compare) and rest[0].operator == "=":
        sides = (rest[0].left, rest[0].right)
        if term in sides and any(isinstance(side, Constant) for side in sides):
            return rest[0]
    return None


def _compare_constants(operator: str, left: Constant, right: Constant) -> bool:
    "A comparison of two literals that are not NULL: numbers come before texts."
    a, b = [(c.kind == "text", c.value) for c in (left, right)]
    if a[0] != b[0]:
        a, b = (a[0], 0), (b[0], 0)
    return {"=": a == b, "<": a < b, "<=": a <= b}[operator]
