"""What a query means: blocks from FROM, WHERE, GROUP BY, set operations and LIMIT"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from .aggregates import SortKey, aggregate_of, comes_before, count_of, disjoint, extreme
from .comparisons import Unproved, Values
from .dependencies import determines
from .expressions import BARE, Expressions, Scope, is_int, sort_key
from .normal_form import (
    FALSE, NULL, TRUE, Bag, Block, Call, Column, Constant, Identity, Node, Row, conjunction, disjunction, free_rows,
    negation, replace_nodes,
)

_MAX_BLOCKS = 12  # of one query


@dataclass
class _Partial:
    "A block in the making: what FROM gives before anything is selected."

    rows: tuple[Row, ...] = ()
    where: tuple[Node, ...] = ()
    key: tuple[Node, ...] = ()
    sources: dict[str, dict[str, Node]] = field(default_factory=dict)
    merged: dict[str, Node] = field(default_factory=dict)


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


@dataclass(frozen=True)
class _NamedBlock(Node):
    "A block with names for what it gives."

    names: tuple[str, ...]
    block: Block

    def columns(self) -> dict[str, Node]:
        columns: dict[str, Node] = {}
        for name, term in zip(self.names, self.block.out):
            columns.setdefault(name, term)
        return columns


@dataclass
class _Grouping:
    "The rows of a group, and aggregates over them."

    expressions: Expressions
    kept: list  # of (block, scope): the rows before they are grouped
    keys: tuple[Node, ...]  # of the group, in terms of one of its rows
    by: Sequence[exp.Expr]

    def rows(self, argument: exp.Expr | None, condition: exp.Expr | None, extra=()) -> Iterator[Block]:
        "Copies of the rows of the group, each giving the argument."
        t = self.expressions
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

    def aggregate(self, e: exp.Expr, condition: exp.Expr | None) -> Node:
        t = self.expressions
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
            return extreme(t.values, name, blocks)
        always = bool(self.keys) and condition is None
        return aggregate_of(t.values, name, blocks, distinct, argument is not None, always)

    def rank(self, name: str, own: Sequence[Node], order: Sequence[exp.Expr], scope: Scope) -> Node:
        "One more than the rows, or the different keys, that come before."
        t = self.expressions
        before, n = [], len(order)
        keys = [sort_key(k) for k in order]
        for block in self.rows(None, None, [k.this for k in order]):
            theirs = block.out[-n:]
            made = t.values.block(block.rows, [*block.where, comes_before(t.values, theirs, own, keys)],
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


def distinct_bag(blocks: Iterable[Block]) -> Bag:
    "The union of some blocks without duplicates."
    found = tuple(replace(b, key=b.out) for b in blocks)
    return Bag(found, len(found) > 1)


def visible(relation: Relation) -> Bag:
    "The bag of a relation without sorting keys."
    bag, width = relation.bag, relation.width
    return replace(bag, blocks=tuple(replace(b, out=b.out[:width]) for b in bag.blocks))


def _limit_of(e: exp.Expr) -> int | None:
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


def _owns(select: exp.Select, aggregate: exp.Expr) -> bool:
    "Whether an aggregate belongs to a SELECT itself, and not to a window or a subquery."
    if isinstance(aggregate.parent, exp.Window) or isinstance(aggregate, (exp.Max, exp.Min)) and aggregate.expressions:
        return False
    if isinstance(aggregate.parent, exp.Filter) and isinstance(aggregate.parent.parent, exp.Window):
        return False
    return aggregate.parent_select is select


def _starred(t: Expressions, alias: str, name: str) -> Callable:
    return lambda scope: t.column_here(alias, name, scope)


def _expressed(t: Expressions, e: exp.Expr) -> Callable:
    return lambda scope: t.term(e, scope)


class Translator:
    "Turns queries into normal forms, under what is known of a schema."

    def __init__(self, values: Values, is_gold: bool, is_cut_of_gold: Callable | None = None):
        self.values = values
        self.known, self.numbers = values.known, values.numbers
        self.expressions = Expressions(values, self.query)
        self.is_gold = is_gold
        self.is_cut_of_gold = is_cut_of_gold
        self.cuts: list[Relation] = []
        self.has_limit = False

    def query(self, e: exp.Expr, outer: Scope | None, is_top: bool = False) -> Relation:
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
                bag = Bag((*disjoint(self.values, left.bag), *disjoint(self.values, right.bag)))
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
        return Relation(names, bag, tuple(order), _limit_of(e))

    def result_place(self, e: exp.Expr, names: Sequence[str]) -> int | None:
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

    def sources(self, e: exp.Select, outer: Scope | None) -> list[_Partial]:
        "What FROM gives: each part a block without a selection."
        partials = [_Partial()]
        first = e.args.get("from_") or e.args.get("from")
        if first is None:
            return partials
        items = [(first.this, None), *((join.this, join) for join in e.args.get("joins") or [])]
        for item, join in items:
            partials = self.joined(partials, item, join, outer)
            if len(partials) > _MAX_BLOCKS:
                raise Unproved("too many cases")
        return partials

    def joined(self, partials: list[_Partial], item, join, outer: Scope | None) -> list[_Partial]:
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

    def source(self, e: exp.Expr, outer: Scope | None) -> tuple[str, list]:
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
            return alias, [_NamedBlock(names, block)]
        if isinstance(e, exp.Subquery):
            columns = [c.name.lower() for c in e.args["alias"].columns] if e.args.get("alias") else []
            alias = e.alias.lower() or f"({self.numbers.last}"
            return alias, self.derived(self.query(e.this, outer), columns)
        raise Unproved(f"FROM {type(e).__name__}")

    def derived(self, relation: Relation, columns: Sequence[str]) -> list:
        names = tuple(columns) or relation.names
        if len(names) != relation.width:
            raise Unproved("column names of another number")
        blocks = disjoint(self.values, relation.bag)
        for terms in zip(*(b.out for b in blocks)):
            if len({self.values.affinity(t) for t in terms if t != NULL}) > 1:
                raise Unproved("a column of several affinities")
        return [_NamedBlock(names, replace(b, out=b.out[: relation.width])) for b in blocks]

    def on(self, partial: _Partial, alias: str, source, join, outer, method: str):
        "A partial joined with a block, and the condition of the join; None if it is false."
        columns = source.columns()
        if alias in partial.sources:
            raise Unproved(f"{alias} occurs twice in FROM")
        sources, merged, conditions = {**partial.sources, alias: columns}, dict(partial.merged), []
        using = [c.name.lower() for c in (join.args.get("using") or [])] if join is not None else []
        if method == "NATURAL":
            using = [c for c in columns if any(c in s for s in partial.sources.values())]
        for name in using:
            left = self.expressions.column_here("", name, Scope(partial.sources, merged=merged))
            if left is None or name not in columns:
                raise Unproved("USING of an unknown column")
            conditions.append(self.values.compare("=", left, columns[name]).true)
            merged[name] = left
        if join is not None and join.args.get("on") is not None:
            conditions.append(self.expressions.truth(join.args["on"], Scope(sources, outer, merged)).true)
        condition = conjunction(conditions)
        block = source.block
        if condition == FALSE:
            return None, (block, condition)
        made = _Partial(partial.rows + block.rows, (*partial.where, *block.where, condition),
                       partial.key + block.key, sources, merged)
        return made, (block, condition)

    def unmatched(self, partial: _Partial, alias: str, alternatives, matched) -> list[_Partial]:
        "The rows of a LEFT JOIN that find no partner: all columns of the other side are NULL."
        there = []
        for _, (block, condition) in matched:
            there.append(self.values.exists(self.values.block(block.rows, [*block.where, condition], (), ())))
        none = negation(disjunction(there))
        if none == FALSE:
            return []
        names = alternatives[0].names if alternatives else ()
        missing: dict[str, Node] = dict.fromkeys(names, NULL)
        sources = {**partial.sources, alias: missing}
        merged = dict(matched[0][0].merged) if matched and matched[0][0] is not None else dict(partial.merged)
        return [_Partial(partial.rows, (*partial.where, none), partial.key, sources, merged)]

    def select(self, e: exp.Select, outer: Scope | None, is_top: bool) -> Relation:
        "A SELECT."
        for part in ("windows", "qualify", "cluster", "distribute", "sort", "laterals", "into", "connect"):
            if e.args.get(part):
                raise Unproved(f"the clause {part}")
        partials = self.sources(e, outer)
        limit = _limit_of(e)
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
            condition = self.expressions.truth(where.this, scope).true if where is not None else TRUE
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

    def outputs(self, e: exp.Select, partials: list[_Partial]) -> list[tuple[str, Callable]]:
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
                        found += [(name, _starred(self.expressions, alias, name)) for name in columns]
            else:
                found.append((x.alias_or_name.lower(), _expressed(self.expressions, x)))
        return found

    def is_aggregating(self, e: exp.Select) -> bool:
        if e.args.get("group") or e.args.get("having"):
            return True
        parts = [*e.expressions, *(e.args["order"].expressions if e.args.get("order") else [])]
        return any(_owns(e, a) for part in parts for a in part.find_all(exp.AggFunc))

    def plain(self, e, kept, outputs, sort, names) -> Iterator[Block]:
        "The blocks of a SELECT without aggregates."
        for block, scope in kept:
            scope.window = self.windows(kept, scope)
            out = [term(scope) for _, term in outputs]
            keys = [self.sorting_term(k.this, scope, out, names) for k in sort]
            yield replace(block, out=(*out, *keys))

    def sorting_term(self, e: exp.Expr, scope: Scope, out: Sequence[Node], names: Sequence[str]) -> Node:
        "The value of a sorting key: a result column by its place or name, else an expression."
        place = self.result_place(e, names)
        if place is not None:
            return out[place]
        return self.expressions.term(e, scope)

    def grouped(self, e, kept, outputs, sort, outer, aliases, names) -> Iterator[Block]:
        "The blocks of a SELECT with aggregates: one for each case of the rows that are grouped."
        group = e.args.get("group")
        if group is not None and any(group.args.get(k) for k in ("rollup", "cube", "grouping_sets", "totals", "all")):
            raise Unproved("GROUP BY of another form")
        by = [e.expressions[int(x.name) - 1].unalias() if is_int(x) else x for x in group.expressions] if group else []
        having = e.args.get("having")
        if not by:
            template: dict[str, dict[str, Node]] = {
                a: dict.fromkeys(c, BARE) for a, c in (kept[0][1].sources if kept else {}).items()
            }
            scope = Scope(template, outer, aliases=aliases)
            scope.aggregate = _Grouping(self.expressions, kept, (), by).aggregate
            yield from self.group_block(Block((), (), (), ()), scope, (), having, outputs, sort, names)
            return
        all_keys = [tuple(self.expressions.term(x, scope) for x in by) for _, scope in kept]
        for n, (block, scope) in enumerate(kept):
            keys, earlier = all_keys[n], []
            for (other, _), other_keys in zip(kept[:n], all_keys):
                same = [self.values.same(a, b) for a, b in zip(keys, other_keys)]
                earlier.append(self.values.exists(self.values.block(other.rows, [*other.where, *same], (), ())))
            scope.aggregate = _Grouping(self.expressions, kept, keys, by).aggregate
            made = self.values.block(block.rows, [*block.where, negation(disjunction(earlier))], keys, ())
            if made is not None:
                yield from self.group_block(made, scope, keys, having, outputs, sort, names)

    def group_block(self, block, scope, keys, having, outputs, sort, names) -> Iterator[Block]:
        out = [term(scope) for _, term in outputs]
        hidden = [self.sorting_term(k.this, scope, out, names) for k in sort]
        condition = self.expressions.truth(having.this, scope).true if having is not None else TRUE
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
            keys = tuple(self.expressions.term(x, scope) for x in by)
            grouping = _Grouping(self.expressions, kept, keys, by)
            order = e.args["order"].expressions if e.args.get("order") else []
            if not order:
                if not isinstance(e.this, exp.AggFunc):
                    raise Unproved("a window without ORDER BY")
                return grouping.aggregate(e.this, None)
            name = type(e.this).__name__.lower()
            if name not in ("rank", "denserank", "rownumber"):
                raise Unproved("a running window")
            own = [self.expressions.term(k.this, scope) for k in order]
            return grouping.rank(name, own, order, scope)

        return window

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
            if relation.limit >= 1 and self.expressions.has_one_row(relation.bag):
                return replace(relation, limit=None)
            raise Unproved("LIMIT without ORDER BY")
        blocks = []
        for block in disjoint(self.values, relation.bag):
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
        for other in disjoint(self.values, relation.bag):
            other = self.numbers.fresh(other)
            theirs = other.out[relation.width :]
            made = self.values.block(other.rows, [*other.where, comes_before(self.values, theirs, own, relation.order)],
                                     other.key, ())
            before += [] if made is None else [made]
        if relation.limit == 1:
            return negation(disjunction(map(self.values.exists, before)))
        count = count_of(before)
        return self.values.compare_plain("<", count, Constant(relation.limit, "integer")).true

