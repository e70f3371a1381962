"""From SQL to the normal form"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from sqlglot import exp

from .algebra import (
    FALSE, NULL, TRUE, Aggregate, Bag, Block, Call, Choice, Column, Compare, Constant, Exists, Identity, Node, Row,
    RowNumbers, Test, conjunction, disjunction, free_rows, negation, replace_nodes,
)
from .dependencies import determines
from .facts import Knowledge
from .values import Truth, Unproved, Values

MAX_BLOCKS = 12  # of one query
FUNCTIONS = frozenset("""abs lower upper length round trim ltrim rtrim replace instr substr substring typeof hex unicode
    sign date time_to_str ts_or_ds_to_timestamp ts_or_ds_to_date datetime julianday strftime unixepoch""".split())
BARE = Constant("a column outside of aggregates", "bare")
COMPARISONS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
UNSTABLE = frozenset("random randomblob changes total_changes last_insert_rowid sqlite_version current_date current_time "
                     "current_timestamp now".split())
DATE_FUNCTIONS = frozenset("date time datetime julianday unixepoch strftime".split())


@dataclass
class Scope:
    "What names mean at a place of a query."

    sources: dict[str, dict[str, Node]]  # terms of columns, by the alias of their source
    outer: Scope | None = None
    merged: dict[str, Node] = field(default_factory=dict)  # columns that USING has merged
    aliases: dict[str, exp.Expression] = field(default_factory=dict)  # of result columns
    ctes: dict[str, exp.Expression] = field(default_factory=dict)
    aggregate: Callable | None = None
    window: Callable | None = None


@dataclass
class Partial:
    "A block in the making: what FROM gives before anything is selected."

    rows: tuple[Row, ...] = ()
    where: tuple[Node, ...] = ()
    key: tuple[Node, ...] = ()
    sources: dict[str, dict[str, Node]] = field(default_factory=dict)
    merged: dict[str, Node] = field(default_factory=dict)


@dataclass(frozen=True)
class SortKey:
    "The direction of a sorting key."

    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Relation:
    "The meaning of a query. The last `len(order)` terms that each block gives are its sorting keys."

    names: tuple[str, ...]
    bag: Bag
    order: tuple[SortKey, ...] = ()
    limit: int | None = None

    @property
    def width(self) -> int:
        return len(self.names)


class Translator:
    "Turns queries into normal forms, under what is known of a schema."

    def __init__(self, values: Values, is_gold: bool, is_cut_of_gold: Callable | None = None):
        self.values = values
        self.known, self.numbers = values.known, values.numbers
        self.is_gold = is_gold
        self.is_cut_of_gold = is_cut_of_gold
        self.cuts: list[tuple[Relation, int]] = []
        self.has_arithmetic = False
        self.has_limit = False

    # conditions

    def truth(self, e: exp.Expression, scope: Scope) -> Truth:
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
                relation = self.query(e.this, scope)
                there = self.values.exists_in(relation.bag, lambda out: TRUE)
                return Truth(there, negation(there))
            case exp.Like() | exp.Glob() | exp.Escape():
                return self.pattern(e, scope)
            case exp.Boolean():
                return Truth(TRUE, FALSE) if e.this else Truth(FALSE, TRUE)
        if type(e) in COMPARISONS:
            return self.comparison(e, scope)
        return self.truth_of_term(self.term(e, scope))

    def comparison(self, e: exp.Expression, scope: Scope) -> Truth:
        operator = COMPARISONS[type(e)]
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

    def is_condition(self, e: exp.Expression, scope: Scope) -> Truth:
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
            relation = self.query(query, scope)
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

    def pattern(self, e: exp.Expression, scope: Scope) -> Truth:
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

    # terms

    def term(self, e: exp.Expression, scope: Scope) -> Node:
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
                    result = self.choice(self.values.is_null(term), result, term)
                return result
            case exp.Nullif():
                a, b = self.term(e.this, scope), self.term(e.expression, scope)
                return self.choice(self.values.compare("=", a, b).true, NULL, a)
            case exp.DPipe():
                a, b = self.term(e.this, scope), self.term(e.expression, scope)
                if all(isinstance(x, Constant) and x.kind == "text" for x in (a, b)):
                    return Constant(a.value + b.value, "text")
                return Call("||", (a, b))
            case exp.Collate():
                raise Unproved("COLLATE")
        if type(e) in ARITHMETIC:
            return self.arithmetic(ARITHMETIC[type(e)], self.term(e.this, scope), self.term(e.expression, scope))
        if isinstance(e, (exp.Predicate, exp.Not, exp.Connector)):
            truth = self.truth(e, scope)
            one, zero = Constant(1, "integer"), Constant(0, "integer")
            return self.choice(truth.true, one, self.choice(truth.false, zero, NULL))
        if isinstance(e, exp.Func):
            return self.function(e, scope)
        raise Unproved(f"an expression of kind {type(e).__name__}")

    def choice(self, condition: Node, then: Node, otherwise: Node) -> Node:
        if condition == TRUE or then == otherwise:
            return then
        return otherwise if condition == FALSE else Choice(condition, then, otherwise)

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
        self.has_arithmetic = True
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

    def case(self, e: exp.Expression, scope: Scope) -> Node:
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
            result = self.choice(self.truth(condition, scope).true, then, result)
        return result

    def cast(self, e: exp.Cast, scope: Scope) -> Node:
        from .facts import column_affinity

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
        if name not in FUNCTIONS:
            raise Unproved(f"the function {name}")
        if name in UNSTABLE or isinstance(e, (exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Rand)):
            raise Unproved(f"{name} is not the same each time")
        args, extras = [], []
        for key, value in e.args.items():
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, exp.Expression) and not isinstance(part, (exp.Var, exp.DataType, exp.Identifier)):
                    args.append(self.term(part, scope))
                elif part is not None and not (isinstance(e, exp.Anonymous) and key == "this"):
                    extras.append(f"{key}={part}")
        if any(isinstance(a, Constant) and "now" in str(a.value).lower() for a in args) or not args:
            raise Unproved(f"{name} may depend on the time")
        return Call(":".join([name, *extras]), tuple(args))

    def aggregate(self, e: exp.Expression, scope: Scope, condition: exp.Expression | None) -> Node:
        at: Scope | None = scope
        if at is None or at.aggregate is None:
            raise Unproved("an aggregate where none can be")
        return at.aggregate(e, condition)

    def scalar(self, e: exp.Expression, scope: Scope) -> Node:
        "The value of a subquery that has one row, or none: then NULL."
        extreme = self.as_extreme(e, scope)
        if extreme is not None:
            return extreme
        relation = self.query(e, scope)
        if relation.width != 1:
            raise Unproved("a subquery with several columns as a value")
        blocks = relation.bag.blocks
        if len(blocks) == 1 and not blocks[0].rows and not blocks[0].where:
            return blocks[0].out[0]
        if len(blocks) == 1 and not blocks[0].rows:
            return self.choice(conjunction(blocks[0].where), blocks[0].out[0], NULL)
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

    def as_extreme(self, e: exp.Expression, scope: Scope) -> Node | None:
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
        relation = self.query(plain, scope)
        nulls = disjunction(self.values.is_null(block.out[0]) for block in relation.bag.blocks)
        key = sort_key(keys[0])
        if key.nulls_first and nulls != FALSE:
            return None
        return self.extreme("max" if key.descending else "min", relation.bag.blocks)

    def extreme(self, name: str, blocks: Iterable[Block]) -> Node:
        "max or min of what some blocks give, NULL left out."
        found = []
        for block in split_choices(blocks, self.values):
            there = self.values.block(block.rows, [*block.where, self.values.not_null(block.out[0])],
                                      block.out[:1], block.out[:1])
            if there is not None:
                found.append(there)
        return Aggregate(name, Bag(tuple(found), True)) if found else NULL

    # queries

    def query(self, e: exp.Expression, outer: Scope | None, is_top: bool = False) -> Relation:
        "The relation that a query is; sorting keys are kept for the outermost one and where LIMIT needs them."
        while isinstance(e, (exp.Subquery, exp.Paren)) and not e.args.get("with_"):
            if isinstance(e, exp.Subquery) and (e.args.get("limit") or e.args.get("order")):
                raise Unproved("a query in brackets with ORDER BY or LIMIT")
            e = e.this
        if e.args.get("with_"):
            outer = self.with_ctes(e.args["with_"], outer)
        if isinstance(e, exp.SetOperation):
            relation = self.set_operation(e, outer, is_top)
        elif isinstance(e, exp.Select):
            relation = self.select(e, outer, is_top)
        else:
            raise Unproved(f"a statement of kind {type(e).__name__}")
        self.has_limit |= relation.limit is not None
        if is_top or not relation.order and relation.limit is None:
            return relation
        return self.cut(relation)

    def with_ctes(self, with_: exp.With, outer: Scope | None) -> Scope:
        if with_.args.get("recursive"):
            raise Unproved("WITH RECURSIVE")
        scope = Scope({}, outer)
        for cte in with_.expressions:
            before = Scope({}, outer, ctes=dict(scope.ctes))
            scope.ctes[cte.alias.lower()] = (cte.this, before, [c.name.lower() for c in cte.args["alias"].columns])
        return scope

    def set_operation(self, e: exp.SetOperation, outer: Scope | None, is_top: bool) -> Relation:
        left, right = self.query(e.this, outer), self.query(e.expression, outer)
        if left.width != right.width:
            raise Unproved("a set operation of different widths")
        if isinstance(e, exp.Union):
            if e.args.get("distinct"):
                bag = distinct_bag((*left.bag.blocks, *right.bag.blocks))
            else:
                bag = Bag((*self.disjoint(left.bag), *self.disjoint(right.bag)))
        else:
            if not e.args.get("distinct", True):
                raise Unproved("EXCEPT ALL")
            bag = self.filtered(left.bag, right.bag, isinstance(e, exp.Except))
        names = left.names
        keys = e.args["order"].expressions if e.args.get("order") else []
        order, places = [], []
        for key in keys:
            place = self.result_place(key.this, names)
            if place is None:
                raise Unproved("ORDER BY of a set operation by something else than a result column")
            order.append(sort_key(key))
            places.append(place)
        if order:
            bag = Bag(tuple(replace(b, out=b.out + tuple(b.out[p] for p in places)) for b in bag.blocks), bag.is_set)
        return Relation(names, bag, tuple(order), limit_of(e))

    def result_place(self, e: exp.Expression, names: Sequence[str]) -> int | None:
        if is_int(e):
            return int(e.name) - 1
        if isinstance(e, exp.Column) and not e.table and names.count(e.name.lower()) == 1:
            return names.index(e.name.lower())
        return None

    def filtered(self, left: Bag, right: Bag, is_except: bool) -> Bag:
        "INTERSECT and EXCEPT: the rows of one bag that the other has, or has not, once each."
        found = []
        for block in left.blocks:
            def same(out, block=block):
                return conjunction(self.values.same(a, b) for a, b in zip(block.out, out))

            there = self.values.exists_in(right, same)
            made = self.values.block(block.rows, [*block.where, negation(there) if is_except else there],
                                     block.out, block.out)
            found += [] if made is None else [made]
        return distinct_bag(found)

    def disjoint(self, bag: Bag) -> tuple[Block, ...]:
        "The blocks of a bag as a plain sum: of a union, each without what the earlier ones give."
        if not bag.is_set or len(bag.blocks) < 2:
            return bag.blocks
        found: list[Block] = []
        for n, block in enumerate(bag.blocks):
            def same(out, block=block):
                return conjunction(self.values.same(a, b) for a, b in zip(block.out, out))

            earlier = self.values.exists_in(Bag(bag.blocks[:n]), same)
            made = self.values.block(block.rows, [*block.where, negation(earlier)], block.key, block.out)
            found += [] if made is None else [self.numbers.fresh(made)]
        return tuple(found)

    def sources(self, e: exp.Select, outer: Scope | None) -> list[Partial]:
        "What FROM gives: each part a block without a selection."
        partials = [Partial()]
        first = e.args.get("from_") or e.args.get("from")
        if first is None:
            return partials
        items = [(first.this, None), *((join.this, join) for join in e.args.get("joins") or [])]
        for item, join in items:
            partials = self.joined(partials, item, join, outer)
            if len(partials) > MAX_BLOCKS:
                raise Unproved("too many cases")
        return partials

    def joined(self, partials: list[Partial], item, join, outer: Scope | None) -> list[Partial]:
        side = (join.side or "").upper() if join is not None else ""
        kind = (join.kind or "").upper() if join is not None else ""
        method = (join.args.get("method") or "").upper() if join is not None else ""
        if side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER") or method not in ("", "NATURAL"):
            raise Unproved(f"{side} {kind} {method} JOIN".strip())
        alias, alternatives = self.source(item, outer)
        found = []
        for partial in partials:
            matched = [self.on(partial, alias, self.numbers.fresh(b), join, outer, method) for b in alternatives]
            found += [p for p, _ in matched if p is not None]
            if side == "LEFT":
                found += self.unmatched(partial, alias, alternatives, matched)
        return found

    def source(self, e: exp.Expression, outer: Scope | None) -> tuple[str, list]:
        "The alias of a source and its blocks, each with the names of what it gives."
        if e.args.get("joins"):
            raise Unproved("a join in brackets")
        if isinstance(e, exp.Table):
            name, alias = e.name.lower(), e.alias_or_name.lower()
            if e.args.get("db"):
                raise Unproved("a table with a schema")
            at = outer
            while at is not None:
                if name in at.ctes:
                    query, scope, columns = at.ctes[name]
                    return alias, self.derived(self.query(query, scope), columns)
                at = at.outer
            if name not in self.known.schema.tables:
                raise Unproved(f"there is no table {name}, or it is a view")
            row = self.numbers.row(name)
            names = tuple(self.known.schema.tables[name].columns)
            block = Block((row,), (), (Identity(row),), tuple(Column(row, c) for c in names))
            return alias, [NamedBlock(names, block)]
        if isinstance(e, exp.Subquery):
            columns = [c.name.lower() for c in e.args["alias"].columns] if e.args.get("alias") else []
            alias = e.alias.lower() or f"({self.numbers.last}"
            return alias, self.derived(self.query(e.this, outer), columns)
        raise Unproved(f"FROM {type(e).__name__}")

    def derived(self, relation: Relation, columns: Sequence[str]) -> list:
        names = tuple(columns) or relation.names
        if len(names) != relation.width:
            raise Unproved("column names of another number")
        blocks = self.disjoint(relation.bag)
        for terms in zip(*(b.out for b in blocks)):
            if len({self.values.affinity(t) for t in terms if t != NULL}) > 1:
                raise Unproved("a column of several affinities")
        return [NamedBlock(names, replace(b, out=b.out[: relation.width])) for b in blocks]

    def on(self, partial: Partial, alias: str, source, join, outer, method: str):
        "A partial joined with a block, and the condition of the join; None if it is false."
        columns = source.columns()
        if alias in partial.sources:
            raise Unproved(f"{alias} occurs twice in FROM")
        sources, merged, conditions = {**partial.sources, alias: columns}, dict(partial.merged), []
        using = [c.name.lower() for c in (join.args.get("using") or [])] if join is not None else []
        if method == "NATURAL":
            using = [c for c in columns if any(c in s for s in partial.sources.values())]
        for name in using:
            left = self.column_here("", name, Scope(partial.sources, merged=merged))
            if left is None or name not in columns:
                raise Unproved("USING of an unknown column")
            conditions.append(self.values.compare("=", left, columns[name]).true)
            merged[name] = left
        if join is not None and join.args.get("on") is not None:
            conditions.append(self.truth(join.args["on"], Scope(sources, outer, merged)).true)
        condition = conjunction(conditions)
        block = source.block
        if condition == FALSE:
            return None, (block, condition)
        made = Partial(partial.rows + block.rows, (*partial.where, *block.where, condition),
                       partial.key + block.key, sources, merged)
        return made, (block, condition)

    def unmatched(self, partial: Partial, alias: str, alternatives, matched) -> list[Partial]:
        "The rows of a LEFT JOIN that find no partner: all columns of the other side are NULL."
        there = []
        for _, (block, condition) in matched:
            there.append(self.values.exists(self.values.block(block.rows, [*block.where, condition], (), ())))
        none = negation(disjunction(there))
        if none == FALSE:
            return []
        names = alternatives[0].names if alternatives else ()
        sources = {**partial.sources, alias: dict.fromkeys(names, NULL)}
        merged = dict(matched[0][0].merged) if matched and matched[0][0] is not None else dict(partial.merged)
        return [Partial(partial.rows, (*partial.where, none), partial.key, sources, merged)]

    def select(self, e: exp.Select, outer: Scope | None, is_top: bool) -> Relation:
        "A SELECT."
        for part in ("windows", "qualify", "cluster", "distribute", "sort", "laterals", "into", "connect"):
            if e.args.get(part):
                raise Unproved(f"the clause {part}")
        partials = self.sources(e, outer)
        limit = limit_of(e)
        sort = e.args["order"].expressions if e.args.get("order") and (is_top or limit is not None) else []
        if self.is_aggregating(e) and not e.args.get("group"):
            sort = []  # one row
        outputs = self.outputs(e, partials)
        names = tuple(name for name, _ in outputs)
        aliases = {x.alias.lower(): x.this for x in reversed(e.expressions) if isinstance(x, exp.Alias)}
        kept = []
        for partial in partials:
            scope = Scope(partial.sources, outer, partial.merged, aliases)
            where = e.args.get("where")
            condition = self.truth(where.this, scope).true if where is not None else TRUE
            block = self.values.block(partial.rows, [*partial.where, condition], partial.key, ())
            if block is not None:
                kept.append((block, scope))
        if self.is_aggregating(e):
            blocks = list(self.grouped(e, kept, outputs, sort, outer, aliases, names))
        else:
            blocks = list(self.plain(e, kept, outputs, sort, names))
        width = len(outputs)
        if e.args.get("distinct"):
            if isinstance(e.args["distinct"], exp.Distinct) and e.args["distinct"].args.get("on"):
                raise Unproved("DISTINCT ON")
            blocks = [self.made_distinct(b, width) for b in blocks]
            if len(blocks) > 1 and sort:
                raise Unproved("DISTINCT with ORDER BY in several cases")
            bag = Bag(tuple(blocks), len(blocks) > 1)
        else:
            bag = Bag(tuple(blocks))
        return Relation(names, bag, tuple(sort_key(k) for k in sort), limit)

    def made_distinct(self, block: Block, width: int) -> Block:
        out = block.out[:width]
        hidden = [t for t in block.out[width:] if t not in out]
        made = replace(block, key=out)
        if hidden and not determines(self.values, made, out, tuple(hidden), outer=free_rows(block)):
            raise Unproved("DISTINCT sorted by what it drops")
        return made

    def outputs(self, e: exp.Select, partials: list[Partial]) -> list[tuple[str, Callable]]:
        "Names of the result columns, each with a function from a scope to its term."
        found: list[tuple[str, Callable]] = []
        for x in e.expressions:
            if isinstance(x, exp.Star) or isinstance(x, exp.Column) and isinstance(x.this, exp.Star):
                if any(x.args.get(k) for k in ("except_", "except", "replace", "rename")):
                    raise Unproved("a star with exceptions")
                only = x.table.lower() if isinstance(x, exp.Column) else ""
                if not partials:
                    raise Unproved("a star over nothing")
                if partials[0].merged and not only:
                    raise Unproved("a star after USING")
                for alias, columns in partials[0].sources.items():
                    if not only or alias == only:
                        found += [(name, starred(self, alias, name)) for name in columns]
            else:
                found.append((x.alias_or_name.lower(), expressed(self, x)))
        return found

    def is_aggregating(self, e: exp.Select) -> bool:
        if e.args.get("group") or e.args.get("having"):
            return True
        parts = [*e.expressions, *(e.args["order"].expressions if e.args.get("order") else [])]
        return any(owns(e, a) for part in parts for a in part.find_all(exp.AggFunc))

    def plain(self, e, kept, outputs, sort, names) -> Iterator[Block]:
        "The blocks of a SELECT without aggregates."
        for block, scope in kept:
            scope.window = self.windows(kept, scope)
            out = [term(scope) for _, term in outputs]
            keys = [self.sorting_term(k.this, scope, out, names) for k in sort]
            yield replace(block, out=(*out, *keys))

    def sorting_term(self, e: exp.Expression, scope: Scope, out: Sequence[Node], names: Sequence[str]) -> Node:
        "The value of a sorting key: a result column by its place or name, else an expression."
        place = self.result_place(e, names)
        if place is not None:
            return out[place]
        return self.term(e, scope)

    def grouped(self, e, kept, outputs, sort, outer, aliases, names) -> Iterator[Block]:
        "The blocks of a SELECT with aggregates: one for each case of the rows that are grouped."
        group = e.args.get("group")
        if group is not None and any(group.args.get(k) for k in ("rollup", "cube", "grouping_sets", "totals", "all")):
            raise Unproved("GROUP BY of another form")
        by = [e.expressions[int(x.name) - 1].unalias() if is_int(x) else x for x in group.expressions] if group else []
        having = e.args.get("having")
        if not by:
            template = {a: dict.fromkeys(c, BARE) for a, c in (kept[0][1].sources if kept else {}).items()}
            scope = Scope(template, outer, aliases=aliases)
            scope.aggregate = Grouping(self, kept, (), by).aggregate
            yield from self.group_block(Block((), (), (), ()), scope, (), having, outputs, sort, names)
            return
        all_keys = [tuple(self.term(x, scope) for x in by) for _, scope in kept]
        for n, (block, scope) in enumerate(kept):
            keys, earlier = all_keys[n], []
            for (other, _), other_keys in zip(kept[:n], all_keys):
                same = [self.values.same(a, b) for a, b in zip(keys, other_keys)]
                earlier.append(self.values.exists(self.values.block(other.rows, [*other.where, *same], (), ())))
            scope.aggregate = Grouping(self, kept, keys, by).aggregate
            made = self.values.block(block.rows, [*block.where, negation(disjunction(earlier))], keys, ())
            if made is not None:
                yield from self.group_block(made, scope, keys, having, outputs, sort, names)

    def group_block(self, block, scope, keys, having, outputs, sort, names) -> Iterator[Block]:
        out = [term(scope) for _, term in outputs]
        hidden = [self.sorting_term(k.this, scope, out, names) for k in sort]
        condition = self.truth(having.this, scope).true if having is not None else TRUE
        needed = (*out, *hidden, condition)
        if not determines(self.values, block, keys, needed, outer=set().union(*self.outer_rows(scope.outer))):
            raise Unproved("a column that the group does not determine")
        made = self.values.block(block.rows, [*block.where, condition], keys, (*out, *hidden))
        if made is not None:
            yield made

    def outer_rows(self, scope: Scope | None) -> Iterator[set[Row]]:
        yield set()
        while scope is not None:
            for columns in scope.sources.values():
                yield free_rows(tuple(columns.values()))
            scope = scope.outer

    def windows(self, kept, scope: Scope) -> Callable:
        "Window functions over all rows of a SELECT: those that are aggregates of a partition, rank and dense_rank."
        def window(e: exp.Window) -> Node:
            if e.args.get("spec") or e.args.get("over") not in (None, "OVER"):
                raise Unproved("a window with a frame")
            by = e.args.get("partition_by") or []
            keys = tuple(self.term(x, scope) for x in by)
            grouping = Grouping(self, kept, keys, by)
            order = e.args["order"].expressions if e.args.get("order") else []
            if not order:
                if not isinstance(e.this, exp.AggFunc):
                    raise Unproved("a window without ORDER BY")
                return grouping.aggregate(e.this, None)
            name = type(e.this).__name__.lower()
            if name not in ("rank", "denserank", "rownumber"):
                raise Unproved("a running window")
            own = [self.term(k.this, scope) for k in order]
            return grouping.rank(name, own, order, scope)

        return window

    # LIMIT

    def cut(self, relation: Relation) -> Relation:
        "A relation without sorting keys, cut as LIMIT says."
        if relation.limit is not None and relation.order:
            self.check_ties(relation)
        relation = self.sliced(relation)
        return replace(relation, order=(), bag=visible(relation))

    def sliced(self, relation: Relation) -> Relation:
        "What LIMIT keeps, as a condition: fewer than that many rows come before. Right if no tie is cut."
        if relation.limit is None:
            return relation
        if not relation.order:
            if relation.limit >= 1 and self.has_one_row(relation.bag):
                return replace(relation, limit=None)
            raise Unproved("LIMIT without ORDER BY")
        blocks = []
        for block in self.disjoint(relation.bag):
            condition = self.is_among_first(block, relation)
            made = self.values.block(block.rows, [*block.where, condition], block.key, block.out)
            blocks += [] if made is None else [made]
        return replace(relation, bag=Bag(tuple(blocks)))

    def check_ties(self, relation: Relation) -> None:
        "Raise unless no tie can be cut: by an assumption about gold, or because the keys tell rows apart."
        if self.is_gold:
            self.cuts.append(relation)
            return
        blocks = relation.bag.blocks
        if len(blocks) == 1 and relation.order:
            block = blocks[0]
            hidden = block.out[relation.width :]
            if determines(self.values, block, hidden, block.key, outer=free_rows(block)):
                return
        if self.is_cut_of_gold is None or not self.is_cut_of_gold(relation):
            raise Unproved("LIMIT may cut a tie")

    def is_among_first(self, block: Block, relation: Relation) -> Node:
        own = block.out[relation.width :]
        before = []
        for other in self.disjoint(relation.bag):
            other = self.numbers.fresh(other)
            theirs = other.out[relation.width :]
            made = self.values.block(other.rows, [*other.where, self.comes_before(theirs, own, relation.order)],
                                     other.key, ())
            before += [] if made is None else [made]
        if relation.limit == 1:
            return negation(disjunction(map(self.values.exists, before)))
        count = count_of(before)
        return self.values.compare_plain("<", count, Constant(relation.limit, "integer")).true

    def comes_before(self, theirs: Sequence[Node], own: Sequence[Node], order: Sequence[SortKey]) -> Node:
        "That a row is sorted strictly before another."
        cases, values = [], self.values
        for n, (a, b, key) in enumerate(zip(theirs, own, order)):
            same = [values.same(x, y) for x, y in zip(theirs[:n], own[:n])]
            less = values.compare_plain(">" if key.descending else "<", a, b).true
            first, last = (a, b) if key.nulls_first else (b, a)
            null = conjunction([values.is_null(first), negation(values.is_null(last))])
            cases.append(conjunction([*same, disjunction([less, null])]))
        return disjunction(cases)


@dataclass(frozen=True)
class NamedBlock(Node):
    "A block with names for what it gives."

    names: tuple[str, ...]
    block: Block

    def columns(self) -> dict[str, Node]:
        columns: dict[str, Node] = {}
        for name, term in zip(self.names, self.block.out):
            columns.setdefault(name, term)
        return columns


@dataclass
class Grouping:
    "The rows of a group, and aggregates over them."

    translator: Translator
    kept: list  # of (block, scope): the rows before they are grouped
    keys: tuple[Node, ...]  # of the group, in terms of one of its rows
    by: Sequence[exp.Expression]

    def rows(self, argument: exp.Expression | None, condition: exp.Expression | None, extra=()) -> Iterator[Block]:
        "Copies of the rows of the group, each giving the argument."
        t = self.translator
        for block, scope in self.kept:
            scope = replace(scope, aggregate=None, window=None)
            own = tuple(t.term(x, scope) for x in self.by)
            out = (t.term(argument, scope),) if argument is not None else ()
            where = [t.truth(condition, scope).true] if condition is not None else []
            more = tuple(t.term(x, scope) for x in extra)
            mapping = {row: t.numbers.row(row.table) for row in block.rows}
            block, own, out, where, more = replace_nodes((block, own, out, tuple(where), more), mapping)
            if free_rows(out) and not free_rows(out) & set(block.rows):
                raise Unproved("an aggregate of columns from outside")
            same = [t.values.same(a, b) for a, b in zip(self.keys, own)]
            made = t.values.block(block.rows, [*block.where, *where, *same], block.key, out + more)
            if made is not None:
                yield made

    def aggregate(self, e: exp.Expression, condition: exp.Expression | None) -> Node:
        t = self.translator
        name, argument = type(e).__name__.lower(), e.this
        distinct = isinstance(argument, exp.Distinct)
        if distinct:
            if len(argument.expressions) != 1:
                raise Unproved("DISTINCT of several values in an aggregate")
            argument = argument.expressions[0]
        if isinstance(argument, exp.Star) or argument is None:
            argument = None
        if any(e.args.get(k) for k in ("order", "expressions")) or name not in ("count", "sum", "avg", "max", "min"):
            raise Unproved(f"the aggregate {name}")
        blocks = list(self.rows(argument, condition))
        if name in ("max", "min"):
            return t.extreme(name, blocks)
        always = bool(self.keys) and condition is None
        return aggregate_of(t, name, blocks, distinct, argument is not None, always)

    def rank(self, name: str, own: Sequence[Node], order: Sequence[exp.Expression], scope: Scope) -> Node:
        "One more than the rows, or the different keys, that come before."
        t = self.translator
        before, n = [], len(order)
        keys = [sort_key(k) for k in order]
        for block in self.rows(None, None, [k.this for k in order]):
            theirs = block.out[-n:]
            made = t.values.block(block.rows, [*block.where, t.comes_before(theirs, own, keys)],
                                  theirs if name == "denserank" else block.key, ())
            before += [] if made is None else [made]
        if name == "rownumber":
            for block, _ in self.kept:
                if len(self.kept) > 1 or not determines(t.values, block, tuple(own), block.key, outer=free_rows(block)):
                    raise Unproved("row_number among ties")
        if name == "denserank" and len(before) > 1:
            raise Unproved("dense_rank in several cases")
        count = count_of(before)
        return Call("+", (count, Constant(1, "integer")))


def aggregate_of(t: Translator, name: str, blocks: list[Block], distinct: bool, has_argument: bool, always: bool):
    "count, sum or avg of what some blocks give."
    values = t.values
    nonempty = TRUE
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
        kept = list(t.disjoint(Bag(tuple(replace(b, key=b.out) for b in kept), True)))
    count = count_of(kept)
    if name == "count":
        return count
    t.has_arithmetic = True
    total = sum_of(t, kept, nonempty)
    return total if name == "sum" else quotient(t, total, count)


def count_of(blocks: Sequence[Block]) -> Node:
    "How many rows some blocks give."
    bag = Bag(tuple(replace(b, out=()) for b in blocks))
    return Aggregate("count", bag) if blocks else Constant(0, "integer")


def sum_of(t: Translator, blocks: Sequence[Block], nonempty: Node) -> Node:
    "A sum; what adds 0 adds nothing, what adds 1 counts."
    plain = [b for b in blocks if not isinstance(b.out[0], Constant) or b.out[0].kind != "integer"]
    ones = [b for b in blocks if b.out == (Constant(1, "integer"),)]
    zeros = [b for b in blocks if b.out == (Constant(0, "integer"),)]
    if not blocks:
        return NULL
    if len(ones) + len(zeros) == len(blocks):
        return t.choice(nonempty, count_of(ones), NULL)
    if len(plain) + len(zeros) == len(blocks) and zeros:
        total = Aggregate("sum", Bag(tuple(plain)))
        return t.choice(nonempty, t.choice(t.values.is_null(total), Constant(0, "integer"), total), NULL)
    return Aggregate("sum", Bag(tuple(blocks)))


def quotient(t: Translator, total: Node, count: Node) -> Node:
    "avg: the sum as a real number by the count."
    if isinstance(total, Choice):
        return t.choice(total.condition, quotient(t, total.then, count), quotient(t, total.otherwise, count))
    return NULL if total == NULL else Call("fdiv", (total, count))


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


def distinct_bag(blocks: Iterable[Block]) -> Bag:
    "The union of some blocks without duplicates."
    found = tuple(replace(b, key=b.out) for b in blocks)
    return Bag(found, len(found) > 1)


def visible(relation: Relation) -> Bag:
    "The bag of a relation without sorting keys."
    bag, width = relation.bag, relation.width
    return replace(bag, blocks=tuple(replace(b, out=b.out[:width]) for b in bag.blocks))


def sort_key(e: exp.Ordered) -> SortKey:
    return SortKey(bool(e.args.get("desc")), bool(e.args.get("nulls_first")))


def is_int(e: exp.Expression, value: int | None = None) -> bool:
    return isinstance(e, exp.Literal) and e.is_int and (value is None or int(e.name) == value)


def limit_of(e: exp.Expression) -> int | None:
    limit = e.args.get("limit")
    if e.args.get("offset") is not None or isinstance(limit, exp.Fetch):
        raise Unproved("OFFSET")
    if limit is None:
        return None
    if not is_int(limit.expression):
        raise Unproved("LIMIT by something else than a number")
    if limit.args.get("offset") is not None:
        raise Unproved("OFFSET")
    return int(limit.expression.name)


def owns(select: exp.Select, aggregate: exp.Expression) -> bool:
    "Whether an aggregate belongs to a SELECT itself, and not to a window or a subquery."
    if isinstance(aggregate.parent, exp.Window) or isinstance(aggregate, (exp.Max, exp.Min)) and aggregate.expressions:
        return False
    if isinstance(aggregate.parent, exp.Filter) and isinstance(aggregate.parent.parent, exp.Window):
        return False
    return aggregate.parent_select is select


def starred(t: Translator, alias: str, name: str) -> Callable:
    return lambda scope: t.column_here(alias, name, scope)


def expressed(t: Translator, e: exp.Expression) -> Callable:
    return lambda scope: t.term(e, scope)
