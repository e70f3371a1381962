"""The normal form of a query: a sum of blocks over terms and formulas"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, dataclass_transform


class Node:
    "A part of a normal form; as text it reads like a formula."

    __match_args__: tuple[str, ...] = ()

    def __str__(self):
        return node_text(self)


@dataclass_transform(frozen_default=True)
def node(cls: Any) -> Any:
    "Make a class a frozen dataclass that computes its hash once."
    made: Any = dataclass(frozen=True)(cls)
    compute = made.__hash__

    def cached(self) -> int:
        found = self.__dict__.get("_hash")
        if found is None:
            found = compute(self)
            object.__setattr__(self, "_hash", found)
        return found

    made.__hash__ = cached
    return made


@node
class Row(Node):
    "A row variable, which ranges over a table."

    number: int
    table: str


@node
class Column(Node):
    "The value of a column in a row."

    row: Row
    name: str


@node
class Identity(Node):
    "Which row a row variable stands for."

    row: Row


@node
class Constant(Node):
    "A literal; `kind` tells 2 from 2.0 and '2', which Python's equality does not."

    value: Any
    kind: str  # integer, real, text or null


@node
class Call(Node):
    "A deterministic function of terms."

    name: str
    args: tuple


@node
class Choice(Node):
    "One term if a formula holds, else another."

    condition: Node
    then: Node
    otherwise: Node


@node
class Aggregate(Node):
    "A function of a bag of values without NULL: count, sum, max, min; or `value`, of a bag of at most one row."

    name: str
    bag: "Bag"


@node
class Compare(Node):
    "Two values in SQLite's order, both not NULL."

    operator: str  # = < <=
    left: Node
    right: Node


@node
class IsNull(Node):
    "That a term is NULL."

    term: Node


@node
class Test(Node):
    "A property of values that are not NULL, about which nothing else is known."

    name: str
    args: tuple


@node
class Exists(Node):
    "That a block has a row."

    block: "Block"


@node
class And(Node):
    "All of some formulas; true if there are none."

    parts: tuple


@node
class Or(Node):
    "One of some formulas; false if there are none."

    parts: tuple


@node
class Not(Node):
    "The opposite of a formula."

    part: Node


@node
class Block(Node):
    "The result row `out`, once for each value of `key` among the rows for which `where` holds."

    rows: tuple[Row, ...]
    where: tuple  # formulas
    key: tuple  # terms
    out: tuple  # terms


@node
class Bag(Node):
    "The sum of some blocks; their union without duplicates if `is_set`."

    blocks: tuple[Block, ...]
    is_set: bool = False


TRUE, FALSE = And(()), Or(())
NULL = Constant(None, "null")


def conjunction(parts: Iterable[Node]) -> Node:
    "`and` of formulas, flat and without repetition."
    flat: dict[Node, None] = {}
    for part in parts:
        if part == FALSE:
            return FALSE
        for each in part.parts if isinstance(part, And) else (part,):
            flat[each] = None
    return next(iter(flat)) if len(flat) == 1 else And(tuple(flat))


def disjunction(parts: Iterable[Node]) -> Node:
    "`or` of formulas, flat and without repetition."
    flat: dict[Node, None] = {}
    for part in parts:
        if part == TRUE:
            return TRUE
        for each in part.parts if isinstance(part, Or) else (part,):
            flat[each] = None
    if any(isinstance(p, Not) and p.part in flat for p in flat):
        return TRUE
    return next(iter(flat)) if len(flat) == 1 else Or(tuple(flat))


def negation(part: Node) -> Node:
    "`not`, pushed inwards."
    if isinstance(part, Not):
        return part.part
    if isinstance(part, And):
        return disjunction(map(negation, part.parts))
    if isinstance(part, Or):
        return conjunction(map(negation, part.parts))
    return Not(part)


def children(node: Node) -> Iterator[Node]:
    "The nodes right below a node."
    for name in node.__match_args__:
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (part for part in value if isinstance(part, Node))


def walk(node: Node) -> Iterator[Node]:
    "A node and all below it."
    yield node
    for child in children(node):
        yield from walk(child)


def replace_nodes(node: Any, mapping: Mapping) -> Any:
    "A node in which others are replaced, from the top down."
    if isinstance(node, tuple):
        parts = tuple([replace_nodes(part, mapping) for part in node])
        return node if all(a is b for a, b in zip(node, parts)) else parts
    if not isinstance(node, Node):
        return node
    if node in mapping:
        return mapping[node]
    values = [getattr(node, name) for name in node.__match_args__]
    new = [replace_nodes(v, mapping) if isinstance(v, (Node, tuple)) else v for v in values]
    return node if all(a is b for a, b in zip(values, new)) else type(node)(*new)


def free_terms(node: Any, bound: frozenset = frozenset()) -> Iterator[Column | Identity]:
    "The columns and identities of rows that a node does not bind itself."
    if isinstance(node, tuple):
        for part in node:
            yield from free_terms(part, bound)
    elif isinstance(node, (Column, Identity)):
        if node.row not in bound:
            yield node
    elif isinstance(node, Block):
        bound = bound | set(node.rows)
        for part in (node.where, node.key, node.out):
            yield from free_terms(part, bound)
    elif isinstance(node, Node):
        for child in children(node):
            yield from free_terms(child, bound)


def free_rows(node: Any) -> set[Row]:
    return {term.row for term in free_terms(node)}


def bound_rows(node: Any) -> Iterator[Row]:
    "The rows that blocks below a node bind, in the order of the text."
    if isinstance(node, tuple):
        for part in node:
            yield from bound_rows(part)
    elif isinstance(node, Node):
        if isinstance(node, Block):
            yield from node.rows
        for child in children(node):
            yield from bound_rows(child)


class RowNumbers:
    "Gives out row variables, no number twice."

    def __init__(self):
        self.last = 0

    def row(self, table: str) -> Row:
        self.last += 1
        return Row(self.last, table)

    def fresh(self, node: Any) -> Any:
        "A copy of a node whose bound rows are new."
        return replace_nodes(node, {row: self.row(row.table) for row in dict.fromkeys(bound_rows(node))})


def canonical(node: Any) -> Any:
    "A node with its bound rows numbered in order, so that copies are equal."
    return replace_nodes(node, {row: Row(-n, row.table) for n, row in enumerate(dict.fromkeys(bound_rows(node)), 1)})


def node_text(node: Any) -> str:
    "A node in words and signs."
    match node:
        case Row():
            return f"{node.table}{node.number}".replace("-", "_")
        case Column():
            return f"{node.row}.{node.name}"
        case Identity():
            return str(node.row)
        case Constant():
            return "NULL" if node.value is None else repr(node.value)
        case Call():
            return f"{node.name}({_texts(node.args)})"
        case Choice():
            return f"({node.then} if {node.condition} else {node.otherwise})"
        case Aggregate():
            return f"{node.name}{node.bag}"
        case Block() | Bag():
            return _bag_text(node)
    return _formula_text(node)


def _texts(nodes: Iterable, sign: str = ", ") -> str:
    return sign.join(map(str, nodes))


def _formula_text(node: Node) -> str:
    match node:
        case Compare():
            return f"{node.left} {node.operator} {node.right}"
        case IsNull():
            return f"{node.term} is NULL"
        case Test():
            return f"{node.name}({_texts(node.args)})"
        case Exists():
            return f"some {node.block}"
        case And():
            return _texts(node.parts, " and ") or "true"
        case Or():
            return f"({_texts(node.parts, ' or ')})" if node.parts else "false"
        case Not():
            return f"not {node.part}"
    return repr(node)


def _bag_text(node: Block | Bag) -> str:
    if isinstance(node, Bag):
        return f"[{_texts(node.blocks, ' or ' if node.is_set else ' + ')}]"
    parts = [_texts(node.rows), _texts(node.where, " and ")]
    key = f" per {_texts(node.key)}" if node.key and node.key != tuple(map(Identity, node.rows)) else ""
    return f"{{{_texts(node.out)} : {' where '.join(p for p in parts if p)}{key}}}"
