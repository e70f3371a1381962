"""What the conditions and values of a query mean"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from .aggregates import SortKey, choose_term, extreme
from .comparisons import Truth, Unproved, Values
from .dependencies import determines
from .facts import column_affinity
from .normal_form import (
    FALSE, NULL, TRUE, Aggregate, Bag, Block, Call, Choice, Column, Constant, Node, Test, conjunction, disjunction,
    free_rows, negation,
)

_FUNCTIONS = frozenset("""abs lower upper length round trim ltrim rtrim replace instr substr substring typeof hex unicode
    sign date time_to_str ts_or_ds_to_timestamp ts_or_ds_to_date datetime julianday strftime unixepoch""".split())
BARE = Constant("a column outside of aggregates", "bare")
_COMPARISONS: dict[type, str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ARITHMETIC: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_UNSTABLE = frozenset("random randomblob changes total_changes last_insert_rowid sqlite_version current_date current_time "
                     "current_timestamp now".split())


@dataclass
class Scope:
    "What names mean at a place of a query."

    sources: dict[str, dict[str, Node]]  # terms of columns, by the alias of their source
    outer: "Scope | None" = None
    merged: dict[str, Node] = field(default_factory=dict)  # columns that USING has merged
    aliases: dict[str, exp.Expr] = field(default_factory=dict)  # of result columns
    ctes: dict[str, tuple] = field(default_factory=dict)
    aggregate: Callable | None = None
    window: Callable | None = None


def is_int(e: exp.Expr, value: int | None = None) -> bool:
    return isinstance(e, exp.Literal) and e.is_int and (value is None or int(e.name) == value)


def sort_key(e: exp.Expr) -> SortKey:
    return SortKey(bool(e.args.get("desc")), bool(e.args.get("nulls_first")))


class Expressions:
    "Turns the expressions of a query into terms and formulas."

    def __init__(
        self,
        values: Values,
        translate: Callable,  # from a subquery and its scope to a relation
    ):
        self.values, self.known, self.numbers = values, values.known, values.numbers
        self.translate = translate

    def truth(self, e: exp.Expr, scope: Scope) -> Truth:
        "When a condition is true, and when it is false."
        match e:
            case exp.Paren():
                return self.truth(e.this, scope)
            case exp.And() | exp.Or():
                parts = [self.truth(part, scope) for part in e.flatten()]
                true, false = [p.true for p in parts], [p.false for p in parts]
                if isinstance(e, exp.And):
                    return Truth(conjunction(true), disjunction(false))
                return Truth(disjunction(true), conjunction(false))
            case exp.Not():
                inner = self.truth(e.this, scope)
                return Truth(inner.false, inner.true)
            case exp.Between():
                low = exp.GTE(this=e.this, expression=e.args["low"])
                high = exp.LTE(this=e.this, expression=e.args["high"])
                if e.args.get("symmetric"):
                    raise Unproved("BETWEEN SYMMETRIC")
                a, b = self.comparison(low, scope), self.comparison(high, scope)
                return Truth(conjunction([a.true, b.true]), disjunction([a.false, b.false]))
            case exp.Is() | exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self.is_condition(e, scope)
            case exp.In():
                return self.membership(e, scope)
            case exp.Exists():
                relation = self.translate(e.this, scope)
                there = self.values.exists_in(relation.bag, lambda out: TRUE)
                return Truth(there, negation(there))
            case exp.Like() | exp.Glob() | exp.Escape():
                return self.pattern(e, scope)
            case exp.Boolean():
                return Truth(TRUE, FALSE) if e.this else Truth(FALSE, TRUE)
        if type(e) in _COMPARISONS:
            return self.comparison(e, scope)
        return self.truth_of_term(self.term(e, scope))

    def comparison(self, e: exp.Expr, scope: Scope) -> Truth:
        operator = _COMPARISONS[type(e)]
        left, right = e.this.unnest(), e.expression.unnest()
        if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple) and operator == "=":
            pairs = [exp.EQ(this=a, expression=b) for a, b in zip(left.expressions, right.expressions, strict=True)]
            parts = [self.comparison(pair, scope) for pair in pairs]
            return Truth(conjunction(p.true for p in parts), disjunction(p.false for p in parts))
        return self.values.compare(operator, self.term(left, scope), self.term(right, scope))

    def truth_of_term(self, term: Node) -> Truth:
        "A value where a condition stands: true if it is a number other than 0."
        values = self.values
        if isinstance(term, Choice):
            return Truth(values.choose(term, lambda t: self.truth_of_term(t).true),
                         values.choose(term, lambda t: self.truth_of_term(t).false))
        if values.is_number(term):
            return values.compare_plain("<>", term, Constant(0, "integer"))
        there, test = values.not_null(term), Test("truth", (term,))
        return Truth(conjunction([there, test]), conjunction([there, negation(test)]))

    def is_condition(self, e: exp.Expr, scope: Scope) -> Truth:
        if isinstance(e.expression, exp.Boolean) or isinstance(e.expression, exp.Not):
            raise Unproved("IS TRUE")
        left, right = self.term(e.this, scope), self.term(e.expression, scope)
        if right == NULL:
            holds = self.values.is_null(left)
        else:
            holds = self.values.same(*self.values.with_affinity(left, right))
        truth = Truth(holds, negation(holds))
        return Truth(truth.false, truth.true) if isinstance(e, exp.NullSafeNEQ) else truth

    def membership(self, e: exp.In, scope: Scope) -> Truth:
        "x IN (...): true if one is equal, false if all differ."
        query, values = e.args.get("query"), self.values
        lefts = e.this.unnest().expressions if isinstance(e.this.unnest(), exp.Tuple) else [e.this]
        terms = [self.term(left, scope) for left in lefts]
        if query is not None:
            relation = self.translate(query, scope)
            if relation.width != len(terms):
                raise Unproved("IN with another number of columns")

            def equal(out) -> Truth:
                parts = [values.compare("=", a, b) for a, b in zip(terms, out)]
                return Truth(conjunction(p.true for p in parts), disjunction(p.false for p in parts))

            found = values.exists_in(relation.bag, lambda out: equal(out).true)
            possible = values.exists_in(relation.bag, lambda out: negation(equal(out).false))
            return Truth(found, negation(possible))
        if not e.expressions or len(terms) > 1:
            raise Unproved("IN with a list of another form")
        elements = [self.term(x, scope) for x in e.expressions]
        if not all(isinstance(x, Constant) for x in elements):
            raise Unproved("IN with a list that is not of literals")
        parts = [values.compare("=", terms[0], x) for x in elements]
        return Truth(disjunction(p.true for p in parts), conjunction(p.false for p in parts))

    def pattern(self, e: exp.Expr, scope: Scope) -> Truth:
        "LIKE and GLOB: a test about which only this is known, that LIKE has no regard to the case of ASCII letters."
        escape = None
        if isinstance(e, exp.Escape):
            escape, e = self.term(e.expression, scope), e.this
        if not isinstance(e, (exp.Like, exp.Glob)):
            raise Unproved("ESCAPE")
        name = type(e).__name__.lower()
        left, right = self.term(e.this, scope), self.term(e.expression, scope)
        if isinstance(right, Constant) and right.kind == "text" and name == "like":
            right = Constant("".join(c.lower() if c.isascii() else c for c in right.value), "text")
        args = (left, right) if escape is None else (left, right, escape)
        test, there = Test(name, args), self.values.not_null(*args)
        return Truth(conjunction([there, test]), conjunction([there, negation(test)]))

    def term(self, e: exp.Expr, scope: Scope) -> Node:
        "The value of an expression."
        match e:
            case exp.Paren() | exp.Alias():
                return self.term(e.this, scope)
            case exp.Column():
                return self.column(e, scope)
            case exp.Literal():
                return self.literal(e)
            case exp.Null():
                return NULL
            case exp.Boolean():
                return Constant(int(e.this), "integer")
            case exp.Neg():
                inner = self.term(e.this, scope)
                if isinstance(inner, Constant) and inner.kind in ("integer", "real"):
                    return Constant(-inner.value, inner.kind)
                return Call("neg", (inner,))
            case exp.Filter():
                return self.aggregate(e.this, scope, e.expression.this)
            case exp.Window():
                if scope.window is None:
                    raise Unproved("a window where none can be")
                return scope.window(e)
            case exp.Max() | exp.Min() if e.expressions:
                raise Unproved("max of several values")
            case exp.AggFunc():
                return self.aggregate(e, scope, None)
            case exp.Subquery() | exp.Select() | exp.SetOperation():
                return self.scalar(e, scope)
            case exp.Case() | exp.If():
                return self.case(e, scope)
            case exp.Cast():
                return self.cast(e, scope)
            case exp.Coalesce():
                terms = [self.term(x, scope) for x in (e.this, *e.expressions)]
                result = terms[-1]
                for term in reversed(terms[:-1]):
                    result = choose_term(self.values.is_null(term), result, term)
                return result
            case exp.Nullif():
                a, b = self.term(e.this, scope), self.term(e.expression, scope)
                return choose_term(self.values.compare("=", a, b).true, NULL, a)
            case exp.DPipe():
                a, b = self.term(e.this, scope), self.term(e.expression, scope)
                if isinstance(a, Constant) and isinstance(b, Constant) and a.kind == b.kind == "text":
                    return Constant(a.value + b.value, "text")
                return Call("||", (a, b))
            case exp.Collate():
                raise Unproved("COLLATE")
        if type(e) in _ARITHMETIC:
            return self.arithmetic(_ARITHMETIC[type(e)], self.term(e.this, scope), self.term(e.expression, scope))
        if isinstance(e, (exp.Predicate, exp.Not, exp.Connector)):
            truth = self.truth(e, scope)
            one, zero = Constant(1, "integer"), Constant(0, "integer")
            return choose_term(truth.true, one, choose_term(truth.false, zero, NULL))
        if isinstance(e, exp.Func):
            return self.function(e, scope)
        raise Unproved(f"an expression of kind {type(e).__name__}")

    def literal(self, e: exp.Literal) -> Constant:
        if e.is_string:
            return Constant(e.this, "text")
        text = e.this.lower()
        if text.isdecimal():
            if int(text) >= 2**53:
                raise Unproved("a large number")
            return Constant(int(text), "integer")
        try:
            value = float(text)
        except ValueError:
            raise Unproved("a literal of another form") from None
        if abs(value) >= 2**53:
            raise Unproved("a large number")
        return Constant(value, "real")

    def column(self, e: exp.Column, scope: Scope) -> Node:
        "What a name means: a column here, a result column, or a column further out."
        if isinstance(e.this, exp.Star):
            raise Unproved("a star where a value is wanted")
        if e.args.get("db"):
            raise Unproved("a name with a schema")
        table, name = e.table.lower(), e.name.lower()
        at: Scope | None = scope
        while at is not None:
            found = self.column_here(table, name, at)
            if found is not None:
                return found
            if not table and name in at.aliases:
                inner = replace(at, aliases={k: v for k, v in at.aliases.items() if k != name})
                return self.term(at.aliases[name], inner)
            at = at.outer
        columns = (t.columns for t in self.known.schema.tables.values())
        if not table and e.this.quoted and not any(name in c for c in columns):
            return Constant(e.name, "text")
        raise Unproved(f"there is no column {name}")

    def column_here(self, table: str, name: str, scope: Scope) -> Node | None:
        if table:
            found = [scope.sources[table][name]] if name in scope.sources.get(table, {}) else []
        elif name in scope.merged:
            return scope.merged[name]
        else:
            found = [columns[name] for columns in scope.sources.values() if name in columns]
        if len(found) > 1:
            raise Unproved(f"{name} is ambiguous")
        if BARE in found:
            raise Unproved("a column that the group does not determine")
        if found and isinstance(found[0], Column):
            row = found[0].row
            if self.known.column(row.table, found[0].name).collation != "BINARY":
                raise Unproved(f"{row.table}.{found[0].name} has a collation of its own")
        return found[0] if found else None

    def arithmetic(self, name: str, left: Node, right: Node) -> Node:
        "Arithmetic; a quotient is one of integers, or one of real numbers, or not known to be either."
        self.values.has_arithmetic = True
        values = self.values
        if NULL in (left, right):
            return NULL
        if name == "*":
            for number, factor in ((left, right), (right, left)):
                if factor == Constant(1.0, "real") and values.is_number(number):
                    return Call("real", (number,))
        if name == "/":
            left_real, right_real = values.is_real(left), values.is_real(right)
            if left_real or right_real:
                return Call("fdiv", (self.unreal(left), self.unreal(right)))
        return Call(name, (left, right))

    def unreal(self, term: Node) -> Node:
        "A number whose kind does not matter any more."
        if isinstance(term, Call) and term.name == "real" and self.values.is_number(term.args[0]):
            return term.args[0]
        if isinstance(term, Constant) and term.kind == "real" and term.value.is_integer():
            return Constant(int(term.value), "integer")
        return term

    def case(self, e: exp.Expr, scope: Scope) -> Node:
        if isinstance(e, exp.If):
            branches, default = [e], e.args.get("false")
        else:
            branches, default = e.args["ifs"], e.args.get("default")
        result = NULL if default is None else self.term(default, scope)
        for branch in reversed(branches):
            condition = branch.this
            if isinstance(e, exp.Case) and e.this is not None:
                condition = exp.EQ(this=e.this, expression=branch.this)
            then = self.term(branch.args["true"], scope)
            result = choose_term(self.truth(condition, scope).true, then, result)
        return result

    def cast(self, e: exp.Cast, scope: Scope) -> Node:
        affinity, inner = column_affinity(e.to.sql("sqlite")), self.term(e.this, scope)
        if affinity == "REAL" and self.values.is_number(inner):
            return Call("real", (inner,))
        if affinity == "INTEGER" and isinstance(inner, Column) and self.values.affinity(inner) == "INTEGER":
            if self.values.is_integer(inner):
                return inner
        return Call(f"cast:{affinity}", (inner,))

    def function(self, e: exp.Func, scope: Scope) -> Node:
        "A function of which only this is known, that equal arguments give equal results."
        name = e.name.lower() if isinstance(e, exp.Anonymous) else e.sql_name().lower()
        known = {"stringposition": "instr", "strposition": "instr", "str_position": "instr"}
        name = known.get(name, name)
        if name not in _FUNCTIONS:
            raise Unproved(f"the function {name}")
        if name in _UNSTABLE or isinstance(e, (exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Rand)):
            raise Unproved(f"{name} is not the same each time")
        args, extras = [], []
        for key, value in e.args.items():
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, exp.Expr) and not isinstance(part, (exp.Var, exp.DataType, exp.Identifier)):
                    args.append(self.term(part, scope))
                elif part is not None and not (isinstance(e, exp.Anonymous) and key == "this"):
                    extras.append(f"{key}={part}")
        if any(isinstance(a, Constant) and "now" in str(a.value).lower() for a in args) or not args:
            raise Unproved(f"{name} may depend on the time")
        return Call(":".join([name, *extras]), tuple(args))

    def aggregate(self, e: exp.Expr, scope: Scope, condition: exp.Expr | None) -> Node:
        at: Scope | None = scope
        if at is None or at.aggregate is None:
            raise Unproved("an aggregate where none can be")
        return at.aggregate(e, condition)

    def scalar(self, e: exp.Expr, scope: Scope) -> Node:
        "The value of a subquery that has one row, or none: then NULL."
        extreme = self.as_extreme(e, scope)
        if extreme is not None:
            return extreme
        relation = self.translate(e, scope)
        if relation.width != 1:
            raise Unproved("a subquery with several columns as a value")
        blocks = relation.bag.blocks
        if len(blocks) == 1 and not blocks[0].rows and not blocks[0].where:
            return blocks[0].out[0]
        if len(blocks) == 1 and not blocks[0].rows:
            return choose_term(conjunction(blocks[0].where), blocks[0].out[0], NULL)
        if not blocks:
            return NULL
        if relation.limit == 1 or self.has_one_row(relation.bag):
            bag = Bag(tuple(Block(b.rows, b.where, b.out[:1], b.out[:1]) for b in blocks), len(blocks) > 1)
            return Aggregate("value", bag)
        raise Unproved("a subquery as a value that may have several rows")

    def has_one_row(self, bag: Bag) -> bool:
        "Whether a bag has at most one row, whatever the rows outside are."
        if len(bag.blocks) != 1:
            return False
        block = bag.blocks[0]
        return determines(self.values, block, (), block.key, outer=free_rows(block))

    def as_extreme(self, e: exp.Expr, scope: Scope) -> Node | None:
        "SELECT x ... ORDER BY x LIMIT 1 as max or min; NULL comes first where x ascends."
        select = e.unnest()
        if not isinstance(select, exp.Select) or not select.args.get("order") or len(select.selects) != 1:
            return None
        if any(select.args.get(part) for part in ("group", "having", "distinct", "offset", "with_")):
            return None
        keys = select.args["order"].expressions
        column = select.selects[0].unalias()
        limit = select.args.get("limit")
        if limit is None or len(keys) != 1 or keys[0].this != column or not is_int(limit.expression, 1):
            return None
        plain = select.copy()
        plain.set("order", None)
        plain.set("limit", None)
        relation = self.translate(plain, scope)
        nulls = disjunction(self.values.is_null(block.out[0]) for block in relation.bag.blocks)
        key = sort_key(keys[0])
        if key.nulls_first and nulls != FALSE:
            return None
        return extreme(self.values, "max" if key.descending else "min", relation.bag.blocks)

