"""Wrong one-edit writes by a generator that shares nothing with the package: `python benchmarks/strange_writes.py`.

From the text of gold alone, parsed by sqlglot: a condition, bound, operator, constant, column, key of a join, SET
expression, column of an INSERT, order or limit is dropped or changed, in one statement or wherever it stands; half of
the key that people are merged by is one of these. Counted are edits that are right and robust and still wrong: other
rows of a world, and realistic contents, tell them from gold. What passes and is told apart by nothing is listed, to be
read by hand. Odd seeds are for tuning, even ones for the figures; those below 4,900 were looked at.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from sqlglot import exp, parse_one
from tasks import changed, other_contents
from writes import realistic_images

from sql_env import load
from sql_env.database.database import Database
from sql_env.database.guards import Limits, QueryError
from sql_env.grading.changes import GoldChanges, TaskSchema, judge_changes, judge_replay
from sql_env.questions.question_set import Question
from sql_env.worlds import ChangeWorld

UNKNOWN = ("no_variants", "by_keys", "no_rule")  # not judged: such an edit passes
OPPOSITE = {
    exp.LT: (exp.LTE, exp.GT),
    exp.LTE: (exp.LT, exp.GTE),
    exp.GT: (exp.GTE, exp.LT),
    exp.GTE: (exp.GT, exp.LTE),
    exp.EQ: (exp.NEQ, exp.GTE, exp.LTE),
    exp.NEQ: (exp.EQ, exp.LT, exp.GT),
    exp.Add: (exp.Sub,),
    exp.Sub: (exp.Add,),
    exp.Mul: (exp.Add, exp.Div),
    exp.Min: (exp.Max,),
    exp.Max: (exp.Min,),
    exp.And: (exp.Or,),
    exp.Or: (exp.And,),
}


def parsed(sql: str) -> Any:
    return parse_one(sql, read="sqlite")


def is_term(node: Any) -> bool:
    "Whether a node is one of the conditions that AND or OR joins."
    joined = (exp.And, exp.Or)
    return isinstance(node.parent, joined) and not isinstance(node, joined)


def in_condition(node: Any) -> bool:
    return node.find_ancestor(exp.Where, exp.Join) is not None


def sets_value(node: Any) -> bool:
    "Whether a node is `column = value` of a SET, which is no condition."
    return isinstance(node, exp.EQ) and isinstance(node.parent, (exp.Update, exp.OnConflict))


def around(literal: Any) -> Iterator[Any]:
    "Constants beside a constant."
    text = literal.name
    if not literal.is_string:
        number = float(text) if "." in text else int(text)
        for other in (number + 1, number - 1, number * 2 if number else 7):
            if other >= 0:
                yield exp.Literal.number(f"{other:.12g}")
        return
    try:
        day = date.fromisoformat(text)
        others = [str(day + timedelta(n)) for n in (1, -1)] + [f"{day.year + 1}{text[4:]}"]
    except ValueError:
        others = [text.swapcase(), text[:-1], f"{text} 2"]
    yield from (exp.Literal.string(other) for other in others if other != text)


def like_this(node: Any) -> Iterator[tuple[str, Any]]:
    "Other conditions in the place of one."
    left, right = (node.args.get(k) for k in ("this", "expression"))
    text = right.name if getattr(right, "is_string", False) else ""
    if isinstance(node, exp.EQ) and len(text) > 1:  # a flag of one letter is closed
        for pattern in (f"%{text}%", f"{text}%", f"%{text}", f"{text[: len(text) // 2]}%"):
            other = exp.Like(this=left.copy(), expression=exp.Literal.string(pattern))
            yield "LIKE for =", other
    if isinstance(node, (exp.EQ, exp.NEQ, *OPPOSITE)) and isinstance(node, exp.Predicate):
        null = exp.Is(this=left.copy(), expression=exp.Null())
        yield "NULL let in", exp.Paren(this=exp.Or(this=node.copy(), expression=null))
    if isinstance(node, exp.Is) and isinstance(right, exp.Null):
        blank = exp.EQ(this=left.copy(), expression=exp.Literal.string(""))
        yield "blank for NULL", blank
    if isinstance(node, (exp.Is, exp.In, exp.Exists, exp.Like)):
        is_not = isinstance(node.parent, exp.Not)
        if not is_not:
            yield "NOT", exp.Not(this=node.copy())
    if isinstance(node, exp.Between):
        low, high = node.args["low"], node.args["high"]
        yield "bound left out", exp.GTE(this=left.copy(), expression=low.copy())
        yield "bound left out", exp.LTE(this=left.copy(), expression=high.copy())
        yield "bound", exp.LT(this=left.copy(), expression=high.copy())
    if isinstance(node, exp.In) and len(node.expressions) > 1:
        for i in range(len(node.expressions)):
            other = node.copy()
            other.set("expressions", [e for j, e in enumerate(other.expressions) if j != i])
            yield "one of a list left out", other


def edits(node: Any, columns: dict[str, list[str]]) -> Iterator[tuple[str, Any]]:
    "What may stand in the place of a node; None where it is left out."
    if isinstance(node, exp.Where):
        yield "WHERE left out", None
    if is_term(node):
        yield "condition left out", None
    if isinstance(node, exp.Not) and not isinstance(node.this, exp.Not):
        yield "NOT left out", node.this.copy()
    if not sets_value(node):
        for kind in OPPOSITE.get(type(node), ()):
            what = "connective" if isinstance(node, exp.Connector) else "operator"
            yield what, kind(**{k: v.copy() for k, v in node.args.items() if hasattr(v, "copy")})
        yield from like_this(node)
    if isinstance(node, exp.Literal) and not isinstance(node.parent, (exp.Limit, exp.DataType)):
        yield from (("constant", other) for other in around(node))
    if isinstance(node, exp.Column):
        names = [name for found in columns.values() for name in found]
        for table in columns.values():
            if node.name.lower() in table:
                place = table.index(node.name.lower())
                names = [table[(place + i) % len(table)] for i in (1, 2, len(table) - 1)]
                break
        for name in dict.fromkeys(names[:3]):
            if name != node.name.lower():
                other = node.copy()
                other.set("this", exp.to_identifier(name))
                is_key = node.find_ancestor(exp.Join) or isinstance(node.parent, exp.In)
                yield "key" if is_key else "column", other
    if isinstance(node, (exp.Cast, exp.Round, exp.Coalesce)):
        yield "function left out", node.this.copy()
    if sets_value(node) and isinstance(node.expression, exp.Binary):
        other = node.copy()
        first = other.expression.this
        zero = exp.Coalesce(this=first.copy(), expressions=[exp.Literal.number(0)])
        first.replace(zero)
        yield "0 for NULL", other
        yield (
            "SET alone",
            exp.EQ(this=node.this.copy(), expression=node.expression.expression.copy()),
        )
    if isinstance(node, exp.Update) and len(node.expressions) > 1:
        for i in range(len(node.expressions)):
            other = node.copy()
            other.set("expressions", [e for j, e in enumerate(other.expressions) if j != i])
            yield "SET left out", other
    if isinstance(node, exp.Order):
        yield "order left out", None
    if isinstance(node, exp.Ordered):
        other = node.copy()
        other.set("desc", not node.args.get("desc"))
        yield "order", other
    if isinstance(node, exp.Limit):
        yield "limit left out", None
    if isinstance(node, exp.Insert) and isinstance(node.this, exp.Schema):
        yield from insert_edits(node)


def insert_edits(node: Any) -> Iterator[tuple[str, Any]]:
    "An INSERT without one of its columns, and with two of its values the other way round."

    def values(tree: Any) -> list:
        source = tree.expression
        return (
            source.expressions[0].expressions
            if isinstance(source, exp.Values)
            else source.expressions
        )

    n = len(node.this.expressions)
    for i in range(n):
        other = node.copy()
        other.this.expressions.pop(i)
        values(other).pop(i)
        yield "column left out", other
        if i + 1 < n:
            other = node.copy()
            found = values(other)
            found[i], found[i + 1] = found[i + 1], found[i]
            yield "values swapped", other
    if node.args.get("conflict"):
        text = node.sql("sqlite")
        yield "conflict", parsed(text[: text.upper().index("DO UPDATE")] + "DO NOTHING")


def with_edit(tree: Any, place: int, new: Any) -> str:
    "A statement with another node at a place of its walk."
    tree = exp.Paren(this=tree.copy())
    node = list(tree.this.walk())[place]
    if new is not None:
        node.replace(new.copy())
    elif isinstance(node, (exp.Where, exp.Order, exp.Limit)):
        node.pop()
    else:
        parent = node.parent
        other = parent.expression if node is parent.this else parent.this
        parent.replace(other.copy())
    return tree.this.sql("sqlite")


def neighbours(q: Question, database: Database) -> list[tuple[str, tuple[str, ...]]]:
    "Gold with one edit: its kind and the statements; no statements twice."
    columns = {t.name.lower(): [c.name.lower() for c in t.columns] for t in database.infos}
    trees = [parsed(sql) for sql in q.gold_statements]
    same = tuple(tree.sql("sqlite") for tree in trees)
    found: dict[tuple[str, ...], str] = {}

    def add(kind: str, *statements: str) -> None:
        if statements != same and statements:
            found.setdefault(statements, kind)

    for i, tree in enumerate(trees):
        used = {t.name.lower() for t in tree.find_all(exp.Table)}
        own = {name: columns[name] for name in columns if name in used}
        nodes = list(tree.walk())
        for place, node in enumerate(nodes):
            for kind, new in edits(node, own):
                text = with_edit(tree, place, new)
                add(kind, *same[:i], text, *same[i + 1 :])
                if len(trees) > 1 or is_term(node):
                    everywhere = [edit_all(other, node, new) for other in trees]
                    add(f"{kind} everywhere", *everywhere)
    for i in range(len(same)):
        if len(same) > 1:
            add("statement left out", *same[:i], *same[i + 1 :])
        if i + 1 < len(same):
            add("order of statements", *same[:i], same[i + 1], same[i], *same[i + 2 :])
    return [(kind, statements) for statements, kind in found.items()]


def edit_all(tree: Any, node: Any, new: Any) -> str:
    "A statement with an edit wherever the same text stands in the same kind of place."
    tree, text, above = tree.copy(), node.sql("sqlite"), type(node.parent)
    for _ in range(40):
        again = (i for i, n in enumerate(tree.walk()) if type(n) is type(node))
        nodes = list(tree.walk())
        here = next(
            (i for i in again if nodes[i].sql("sqlite") == text and type(nodes[i].parent) is above),
            None,
        )
        if here is None or new is not None and text in new.sql("sqlite"):
            break
        tree = parsed(with_edit(tree, here, new))
    return tree.sql("sqlite")


def generated(n: int, seeds: range) -> Iterator[tuple[Question, Database, ChangeWorld]]:
    "`n` tasks that change something, as many of each level."
    for level in (1, 2, 3):
        left = n // 3
        for seed in seeds:
            world = ChangeWorld(seed, level, n=7)
            for q in world.questions:
                if q.gold_statements and left:
                    left -= 1
                    yield q, world.database, world
            if not left:
                break


def bundled() -> Iterator[tuple[Question, Database, None]]:
    for name in ("bundled_tasks",):
        tasks = load(name)
        for q in tasks:
            if q.gold_statements:
                yield q, tasks.database(q.database_name), None


@cache
def on_disk(database: Database) -> Database:
    "A database in a file, which the other generator reads."
    if not isinstance(database.path, bytes):
        return database
    path = Path(tempfile.mkdtemp()) / "world.sqlite"
    path.write_bytes(database.path)
    return Database(path)


def told_apart(q: Question, database: Database, world: ChangeWorld | None, sql: str) -> bool:
    "Whether other contents, which the verdict never sees, tell statements from gold."
    if world is not None:
        for content in other_contents(world):
            gold = changed(content, q, list(q.gold_statements))
            if gold is not None and changed(content, q, [sql]) != gold:
                return True
    schema = TaskSchema.read(database)
    with database.writer(q.writes, Limits.gold()) as copy:
        for image in realistic_images(q, on_disk(database), as_in_data=True):
            copy.load(image)
            try:
                gold = GoldChanges.run(copy, q, schema)
            except QueryError:
                continue
            copy.load(image)
            try:
                copy.execute(sql)
            except QueryError:
                return True
            if any(gold.differences(copy.changes())):
                return True
    return False


def measure(tasks: Iterator[tuple], each: int, show: bool) -> dict:
    counts, kinds, listed, families = Counter[str](), Counter[str](), [], Counter[str]()
    for q, database, world in tasks:
        rule = "rule" if q.states_rule else "no rule"
        counts["tasks"] += 1
        counts[f"tasks, {rule}"] += 1
        found = neighbours(q, database)
        halves = [e for e in found if e[0] == "condition left out everywhere"]
        found = Random(q.question_id).sample(found, min(each, len(found)))
        family = world.families[q.question_id] if world else ""
        for kind, statements in dict.fromkeys([*found, *(halves if family == "merge_all" else ())]):
            sql = ";\n".join(statements)
            changes = changed(database, q, [sql])
            state = changes is not None and bool(judge_changes(q, database, changes))
            robust = judge_replay(q, database, [sql]) if state else None
            passes = robust is not None and (bool(robust) or robust.reason in UNKNOWN)
            is_wrong = not passes or told_apart(q, database, world, sql)
            if not is_wrong:
                counts["told apart by nothing"] += 1
            else:
                counts["wrong"] += 1
                counts[f"wrong, {rule}"] += 1
                counts["pass the state"] += state
                counts["pass"] += passes
                counts[f"pass, {rule}"] += passes
            if family == "merge_all" and kind == "condition left out everywhere":
                counts["merges by half a key"] += 1
                counts["of these, pass the state"] += state
                counts["of these, pass"] += passes
            if passes:
                if is_wrong:
                    kinds[kind] += 1
                    families[family or q.database_name] += 1
                edit = [
                    s for s, g in zip(statements, q.gold_statements) if parsed(g).sql("sqlite") != s
                ]
                listed.append(
                    (
                        q.question_id,
                        family,
                        kind,
                        robust.reason,
                        "WRONG" if is_wrong else "same",
                        *edit[:2],
                        "  gold:",
                        *q.gold_statements,
                    )
                )
                if show:
                    print(*listed[-1], sep="\n    ", flush=True)
    share = {"pass (%)": round(100 * counts["pass"] / max(counts["wrong"], 1), 2)}
    return dict(counts) | share | {"kinds": dict(kinds), "families": dict(families)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    parser.add_argument("--tasks", type=int, default=210, help="generated tasks")
    parser.add_argument("--each", type=int, default=24, help="edits of a task")
    parser.add_argument("--tune", action="store_true", help="odd seeds, which were looked at")
    parser.add_argument("--no-bundled", action="store_true")
    parser.add_argument("--show", action="store_true", help="print all that pass")
    args = parser.parse_args()
    start = time.process_time()
    seeds = range(4901 if args.tune else 4900, 5900, 2)
    found = dict(
        command="python benchmarks/strange_writes.py --json benchmarks/strange_writes.json"
    )
    found["generated"] = measure(generated(args.tasks, seeds), args.each, args.show)
    if not args.no_bundled:
        found["bundled"] = measure(bundled(), 10**6, args.show)
    found["cpu_seconds"] = round(time.process_time() - start)
    text = json.dumps(found, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
