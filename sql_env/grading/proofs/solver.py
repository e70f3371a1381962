"""Implications as questions to z3"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

from sql_env.extras import needs_extra

with needs_extra("prove"):
    import z3

from .normal_form import (
    Aggregate, And, Block, Call, Choice, Column, Compare, Constant, Exists, IsNull, Node, Not, Or, Test,
)
from .dependencies import Classes
from .comparisons import Unproved, Values

_SOLVER_LIMIT = 100_000  # z3's operations for one implication
_MAX_EXISTS = 8  # atoms of one question


class _Relations(Protocol):
    "What is asked about blocks and aggregates while a question is written."

    values: Values
    models: list

    def contained(self, a: Block, b: Block, outer: frozenset, given: tuple, as_set: bool) -> bool: ...

    def same_aggregates(self, x: Aggregate, y: Aggregate, outer: frozenset, given: tuple) -> bool: ...


class Encoding:
    "One question: values are real numbers in SQLite's order, EXISTS and aggregates are unknowns with what relates them."

    def __init__(self, prover: _Relations, a: Block, inner, context):
        self.prover, self.values = prover, prover.values
        self.block, self.inner, self.context = a, inner, context
        self.terms: dict[Node, Any] = {}
        self.texts: dict[str, Any] = {}
        self.aggregates: list[tuple[Aggregate, Any]] = []
        self.exists: list[tuple[Block, Any]] = []
        self.axioms: list = []
        self.top = z3.Real("texts")  # numbers lie below, texts above
        self.classes = Classes([*a.where, *context], self.values)

    def follows(self, premises: Sequence[Node], goals: Sequence[Node]) -> bool:
        solver = z3.SimpleSolver()
        solver.set("rlimit", _SOLVER_LIMIT)
        solver.set("timeout", 40)
        premise = [self.formula(p) for p in premises]
        goal = z3.And([self.formula(g) for g in goals])
        self.relate_exists()
        self.order_texts()
        solver.add(*premise, *self.axioms, z3.Not(goal))
        result = solver.check()
        if result == z3.sat:
            self.prover.models.append((self.block, dict(self.terms), dict(self.texts), solver.model()))
        return result == z3.unsat

    def order_texts(self) -> None:
        ordered = sorted(self.texts)
        for a, b in zip(ordered, ordered[1:]):
            self.axioms.append(self.texts[a] < self.texts[b])
        if ordered:
            self.axioms.append(self.top < self.texts[ordered[0]])

    # terms

    def term(self, term: Node) -> Any:
        if term not in self.terms:
            self.terms[term] = self.new_term(term)
        return self.terms[term]

    def new_term(self, term: Node) -> Any:
        match term:
            case Constant(_, "text"):
                return self.texts.setdefault(term.value, z3.Real(f"'{term.value}"))
            case Constant(_, "null"):
                return z3.Real("NULL")
            case Constant():
                number = z3.RealVal(Fraction(repr(term.value)))
                self.axioms.append(number < self.top)
                return number
            case Column():
                return self.column(term)
            case Aggregate():
                return self.aggregate(term)
            case Choice():
                return z3.If(self.formula(term.condition), self.term(term.then), self.term(term.otherwise))
            case Call():
                return self.call(term)
        raise Unproved(f"a term of kind {type(term).__name__}")

    def typed(self, term: Node, name: str) -> Any:
        "An unknown of the kind that a term has."
        if self.values.is_integer(term):
            unknown = z3.ToReal(z3.Int(name))
        else:
            unknown = z3.Real(name)
        if self.values.is_number(term):
            self.axioms.append(unknown < self.top)
        elif self.values.is_text(term):
            self.axioms.append(unknown > self.top)
        return unknown

    def column(self, term: Column) -> Any:
        return self.typed(term, f"{term.row.number}.{term.name}")

    def aggregate(self, term: Aggregate) -> Any:
        for other, unknown in self.aggregates:
            if self.prover.same_aggregates(other, term, self.inner, self.context):
                return unknown
        unknown = self.typed(term, f"aggregate {len(self.aggregates)}")
        if term.name == "count":
            self.axioms.append(unknown >= 0)
        self.aggregates.append((term, unknown))
        return unknown

    def call(self, term: Call) -> Any:
        "Arithmetic of numbers as it is; other functions as unknown ones, if equal values are written alike."
        numbers = all(map(self.values.is_number, term.args))
        if term.name in ("+", "-", "neg", "real") and numbers:
            args = [self.term(a) for a in term.args]
            return _arithmetic(term.name, args)
        if term.name in ("*", "fdiv") and numbers:
            a, b = (self.term(x) for x in term.args)
            if term.name == "*" and (z3.is_rational_value(a) or z3.is_rational_value(b)):
                return a * b
            if term.name == "fdiv" and z3.is_rational_value(b) and b.numerator_as_long() != 0:
                return a / b
            return z3.Function(term.name, z3.RealSort(), z3.RealSort(), z3.RealSort())(a, b)
        forms = [self.values.written_form(a) for a in term.args]
        if all(forms):
            sorts = [z3.RealSort()] * (len(term.args) + 1)
            return z3.Function(f"{term.name} {forms}", *sorts)(*map(self.term, term.args))
        return self.typed(term, f"call {len(self.terms)}")

    # formulas

    def formula(self, formula: Node) -> Any:
        match formula:
            case And():
                return z3.And([self.formula(p) for p in formula.parts])
            case Or():
                return z3.Or([self.formula(p) for p in formula.parts])
            case Not():
                return z3.Not(self.formula(formula.part))
            case Compare():
                a, b = self.term(formula.left), self.term(formula.right)
                return a == b if formula.operator == "=" else a < b if formula.operator == "<" else a <= b
            case IsNull():
                return self.is_null(formula.term)
            case Test():
                return self.test(formula)
            case Exists():
                return self.exists_atom(formula.block)
        raise Unproved(f"a formula of kind {type(formula).__name__}")

    def is_null(self, term: Node) -> Any:
        return z3.Bool(f"null {self.name(term)}")

    def name(self, term: Node) -> str:
        if isinstance(term, Column):
            return f"{term.row.number}.{term.name}"
        return repr(self.classes.find(term))

    def test(self, formula: Test) -> Any:
        forms = [self.values.written_form(a) for a in formula.args]
        if all(forms):
            sorts = [z3.RealSort()] * len(formula.args)
            return z3.Function(f"{formula.name} {forms}", *sorts, z3.BoolSort())(*map(self.term, formula.args))
        return z3.Bool(f"{formula.name} {formula.args!r}")

    def exists_atom(self, block: Block) -> Any:
        for other, atom in self.exists:
            if other == block:
                return atom
        if len(self.exists) >= _MAX_EXISTS:
            raise Unproved("too many subqueries")
        atom = z3.Bool(f"exists {len(self.exists)}")
        self.exists.append((block, atom))
        return atom

    def relate_exists(self) -> None:
        "Which EXISTS holds for the rows at hand, and which follows from another."
        own = Block(self.block.rows, self.block.where, (), ())
        prover, outside = self.prover, self.inner - set(self.block.rows)
        for block, atom in list(self.exists):
            if prover.contained(own, block, outside, self.context, True):
                self.axioms.append(atom)
            for other, implied in list(self.exists):
                if other is not block and prover.contained(block, other, self.inner, self.context, True):
                    self.axioms.append(z3.Implies(atom, implied))
        for term, unknown in self.aggregates:
            if term.name == "count" and self.exists and len(term.bag.blocks) == 1:
                counted = term.bag.blocks[0]
                counted = Block(counted.rows, counted.where, (), ())
                for block, atom in list(self.exists):
                    if prover.contained(block, counted, self.inner, self.context, True):
                        self.axioms.append(z3.Implies(atom, unknown >= 1))
                    if prover.contained(counted, block, self.inner, self.context, True):
                        self.axioms.append(z3.Implies(unknown >= 1, atom))


def _arithmetic(name: str, args: Sequence[Any]) -> Any:
    "A sum, a difference, a negative, or a number as it is."
    if name in ("+", "-"):
        return args[0] + args[1] if name == "+" else args[0] - args[1]
    return -args[0] if name == "neg" else args[0]
