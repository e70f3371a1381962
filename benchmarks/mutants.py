"""Wrong queries that are one edit from a right one ([DeMillo et al. 1978](https://doi.org/10.1109/C-M.1978.218136) call
them mutants; the edits for SQL follow [Tuya et al. 2007](https://doi.org/10.1016/j.infsof.2006.06.009)).

A generator changes the tree of gold, yields the name of the edit while the change stands, and takes it back."""

from collections.abc import Iterator
from contextlib import contextmanager

from sql_env.sql.analysis import exp, parse_sql


@contextmanager
def _with_argument(node, key: str, value):
    "Set one argument of a node for a while."
    old = node.args.get(key)
    node.set(key, value)
    yield
    node.set(key, old)


@contextmanager
def _replaced(node, new):
    "Put `new` in the place of a node for a while."
    parent, key, index = node.parent, node.arg_key, node.index
    old = parent.args[key]
    parent.set(key, new if index is None else [*old[:index], new, *old[index + 1 :]])
    yield
    parent.set(key, old)


@contextmanager
def _retyped(node, kind, **others):
    "Put a node of another kind with the same parts, `others` apart, in the place of a node for a while."
    parts = dict(node.args)
    with _replaced(node, kind(**parts | others)):
        yield
    for name, part in parts.items():
        node.set(name, part)  # they are its own again


@contextmanager
def _replaced_by_part(node, name: str):
    "Put a part of a node in its place for a while."
    part = node.args[name]
    with _replaced(node, part):
        yield
    node.set(name, part)


def _takes_distinct(select) -> bool:
    "Whether DISTINCT might change the result of a SELECT."
    has_one_row = not select.args.get("group") and all(
        c.find(exp.AggFunc) for c in select.expressions
    )
    above = select.parent.parent if isinstance(select.parent, exp.Subquery) else select.parent
    return not has_one_row and not isinstance(above, (exp.In, exp.SetOperation))


def _clause_edits(node) -> Iterator[str]:
    "Edits of the clauses of a SELECT."
    if not isinstance(node, exp.Select):
        return
    if node.args.get("distinct"):
        with _with_argument(node, "distinct", None):
            yield "drop_distinct"
    elif _takes_distinct(node):
        with _with_argument(node, "distinct", exp.Distinct()):
            yield "add_distinct"
    for clause in ("where", "having"):
        if node.args.get(clause):
            with _with_argument(node, clause, None):
                yield f"drop_{clause}"
    for join in node.args.get("joins") or []:
        if not join.side and (join.args.get("on") or join.args.get("using")):
            with _with_argument(join, "side", "LEFT"):
                yield "left_join"
    group = node.args.get("group")
    keys = group.expressions if group else []
    for key in keys[1:]:
        others = [other for other in keys if other is not key]
        with _with_argument(key.parent, "expressions", others):
            yield "drop_group_key"


def _order_edits(node) -> Iterator[str]:
    "Edits of ORDER BY and LIMIT."
    if not isinstance(node, exp.Query) or isinstance(node, exp.Subquery):
        return
    order, limit = node.args.get("order"), node.args.get("limit")
    if order:
        with _with_argument(node, "order", None):
            yield "drop_order"
        for key in order.expressions:
            with _with_argument(key, "desc", not key.args.get("desc")):
                yield "flip_order"
    if limit:
        with _with_argument(node, "limit", None):
            yield "drop_limit"
        if limit.expression.is_int:
            one_more = exp.Literal.number(int(limit.expression.name) + 1)
            with _with_argument(limit, "expression", one_more):
                yield "limit"


_OTHER_OPERATORS = dict(
    GT=("GTE", "LT"),
    GTE=("GT", "LTE"),
    LT=("LTE", "GT"),
    LTE=("LT", "GTE"),
    EQ=("NEQ",),
    NEQ=("EQ",),
    Like=("EQ",),
)


def _condition_edits(node) -> Iterator[str]:
    "Edits of a condition."
    if isinstance(node, (exp.And, exp.Or)):
        for name in ("this", "expression"):
            with _replaced_by_part(node, name):
                yield "drop_term"
        with _retyped(node, exp.Or if isinstance(node, exp.And) else exp.And):
            yield "and_or"
    if isinstance(node, exp.Not):
        with _replaced_by_part(node, "this"):
            yield "drop_not"
    elif isinstance(node, (exp.In, exp.Like)) and not isinstance(node.parent, exp.Not):
        with _replaced(node, exp.Not(this=node.copy())):
            yield "add_not"
    if isinstance(node, exp.EQ) and node.expression.is_string:
        text = node.expression.name
        half = len(text) // 2
        for pattern in (f"{text[:half]}%", f"%{text[half:]}") if half > 1 else ():
            with (
                _with_argument(node, "expression", exp.Literal.string(pattern)),
                _retyped(node, exp.Like),
            ):
                yield "affix"
    if not node.find_ancestor(exp.Join):
        for name in _OTHER_OPERATORS.get(type(node).__name__, ()):
            with _retyped(node, getattr(exp, name)):
                yield "operator"


def _literal_edits(node) -> Iterator[str]:
    "Edits of a literal in a condition."
    if not isinstance(node, exp.Literal) or not node.find_ancestor(exp.Where, exp.Having, exp.Join):
        return
    if node.is_string:
        text = node.name
        longer = text[1:] if text.startswith("%") else text + "s"
        near = [x for x in dict.fromkeys([text.swapcase(), text[:-1], longer]) if x != text]
    else:
        number = float(node.name)
        near = [f"{x:.12g}" for x in (number + 1, number - 1) if x >= 0]
    for text in near:
        with _replaced(node, exp.Literal(this=text, is_string=node.is_string)):
            yield "literal"


_OTHER_AGGREGATE = dict(Max="Min", Min="Max", Avg="Sum", Sum="Avg")


def _aggregate_edits(node) -> Iterator[str]:
    "Edits of an aggregate."
    if other := _OTHER_AGGREGATE.get(type(node).__name__):
        with _retyped(node, getattr(exp, other)):
            yield "aggregate"
    if isinstance(node, exp.Count) and node.this and not isinstance(node.this, exp.Star):
        if isinstance(node.this, exp.Distinct):
            counted = node.this.expressions[0].copy()
        else:
            counted = exp.Distinct(expressions=[node.this.copy()])
        with _with_argument(node, "this", counted):
            yield "count_distinct"
        with _with_argument(node, "this", exp.Star()):
            yield "count_star"


def _set_operation_edits(node) -> Iterator[str]:
    "Edits of UNION, INTERSECT and EXCEPT."
    if not isinstance(node, exp.SetOperation):
        return
    if type(node) is exp.Union:
        with _with_argument(node, "distinct", not node.args.get("distinct")):
            yield "union_all"
    for kind in (exp.Union, exp.Intersect, exp.Except):
        if not isinstance(node, kind):
            with _retyped(node, kind, distinct=True):
                yield "set_operation"
    with _replaced_by_part(node, "this"):
        yield "drop_branch"


_EDITS = (
    _clause_edits,
    _order_edits,
    _condition_edits,
    _literal_edits,
    _aggregate_edits,
    _set_operation_edits,
)


def _beyond_edits(node) -> Iterator[str]:
    "What lies beyond a literal as well as what is equal to it."
    others = {exp.EQ: (exp.LTE, exp.GTE), exp.NEQ: (exp.LT, exp.GT)}
    if isinstance(node.args.get("expression"), exp.Literal):
        for kind in others.get(type(node), ()):
            with _retyped(node, kind):
                yield "beyond"


def one_edit_mutants(
    sql: str,
    beyond: bool = False,  # also `<=` and `>=` for `=` before a literal, `<` and `>` for `!=`
) -> list[tuple[str, str]]:
    "One-edit neighbours of a query: (name of the edit, SQL), no text twice; raises `sqlglot.ParseError`."
    from sqlglot import Dialect

    root = exp.Paren(this=parse_sql(sql))
    write = Dialect.get_or_raise("sqlite").generator().generate
    seen = {write(root.this, copy=False)}
    mutants = []
    for node in list(root.this.walk()):
        for edits in (*_EDITS, _beyond_edits) if beyond else _EDITS:
            for name in edits(node):
                text = write(root.this, copy=False)
                if text not in seen:
                    mutants.append((name, text))
                seen.add(text)
    return mutants
