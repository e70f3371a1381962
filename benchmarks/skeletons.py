"""How much of the SQL that people write worlds cover: `python benchmarks/skeletons.py` writes skeletons.json.

The share of gold queries of Spider dev and of the bundled questions whose skeleton occurs among questions of worlds.
A skeleton is a query without its words: names are numbered in order, literals are 1. It is taken in three ways.

* strict: of the text as it stands (`sql_skeleton`), so that a lower-case keyword or an alias makes another.
* rendered: the same after sqlglot has written the query anew, which settles case, blanks and quotes.
* plain: of the syntax tree. Tables and columns are numbered each in order of appearance and without qualifiers;
  aliases of tables go, an alias of a column is put back into what refers to it; the key equality of a join is one
  mark, as is a list of literals after IN; a text in double quotes is a literal; `<>` and `!=` are the same.

The databases of Spider dev are in two halves: the families were written with one half and bundled's train split at
hand, the rest was only counted. It takes some minutes on one core. `--missing 40` prints the most frequent skeletons
of the first half and of bundled's train split that worlds lack, instead of writing.
"""

import argparse
import json
import platform
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from sqlglot import exp
from sqlglot.errors import SqlglotError

from sql_env.sources.loading import load
from sql_env.sql.analysis import parse_sql
from sql_env.worlds import worlds
from sql_env.worlds.world import sql_skeleton

SPIDER = Path(__file__).parent.parent.parent / "shared" / "spider"
LEVELS = range(1, 6)


def inline_aliases(tree: exp.Expression) -> None:
    "Put what an alias of a column stands for where the alias is used, and drop the alias."
    for select in list(tree.find_all(exp.Select)):
        named = {e.alias.lower(): e.this for e in select.selects if isinstance(e, exp.Alias)}
        for part in ("group", "having", "order"):
            clause = select.args.get(part)
            for column in list(clause.find_all(exp.Column)) if clause else ():
                if not column.table and column.name.lower() in named:
                    column.replace(named[column.name.lower()].copy())
        for e in list(select.selects):
            if isinstance(e, exp.Alias):
                e.replace(e.this)


def mark_join_keys(tree: exp.Expression) -> None:
    "Write the equality of two columns in a join as one mark."
    for join in tree.find_all(exp.Join):
        on = join.args.get("on")
        for equal in list(on.find_all(exp.EQ)) if on else ():
            if isinstance(equal.this, exp.Column) and isinstance(equal.expression, exp.Column):
                mark = exp.Var(this="KEYS")
                if equal is on:
                    join.set("on", mark)
                else:
                    equal.replace(mark)


def number_names(tree: exp.Expression) -> None:
    "Number tables and columns in order of appearance; literals become 1."
    tables: dict[str, str] = {}
    columns: dict[str, str] = {}
    for node in list(tree.walk(bfs=False)):
        if isinstance(node, exp.Table):
            number = tables.setdefault(node.name.lower(), f"t{len(tables)}")
            node.replace(exp.to_table(number))
        elif isinstance(node, exp.Subquery):
            node.set("alias", None)
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            node.replace(exp.Star())
        elif isinstance(node, exp.Column) and node.this.quoted and not node.table:
            node.replace(exp.Literal.number(1))
        elif isinstance(node, exp.Column):
            number = columns.setdefault(node.name.lower(), f"c{len(columns)}")
            node.replace(exp.column(number))
        elif isinstance(node, exp.Literal):
            node.replace(exp.Literal.number(1))
        elif isinstance(node, exp.Ordered) and not node.args.get("desc"):
            node.set("desc", None)


def plain_skeleton(sql: str) -> str:
    "`sql` with names numbered, literals as 1, and without differences of style."
    try:
        tree = parse_sql(sql)
    except SqlglotError:
        return sql
    inline_aliases(tree)
    mark_join_keys(tree)
    number_names(tree)
    for node in tree.find_all(exp.In):
        if node.expressions:
            node.set("expressions", [exp.Literal.number(1)])
    return tree.sql(dialect="sqlite").removesuffix(";")


def rendered_skeleton(sql: str) -> str:
    "`sql_skeleton` of what sqlglot makes of the query; a text in double quotes is a literal."
    try:
        tree = parse_sql(sql)
    except SqlglotError:
        return sql_skeleton(sql)
    for column in list(tree.find_all(exp.Column)):
        if column.this.args.get("quoted") and not column.table:
            column.replace(exp.Literal.number(1))
    return sql_skeleton(tree.sql(dialect="sqlite"))


def halves(queries: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    "Gold of the first, third, ... and of the other databases by number of questions."
    queries = list(queries)
    sizes = Counter(database for database, _ in queries)
    order = sorted(sizes, key=lambda database: (-sizes[database], database))
    first = set(order[::2])
    return (
        [sql for database, sql in queries if database in first],
        [sql for database, sql in queries if database not in first],
    )


def people_queries() -> dict[str, list[str]]:
    "Gold queries by the name of the set."
    rows = json.loads((SPIDER / "dev.json").read_text())
    tuning, other = halves((row["db_id"], row["query"]) for row in rows)
    bundled = load("bundled")
    by_split = {
        split: [q.gold_sql for q in bundled if q.split == split] for split in ("train", "test")
    }
    return {
        "spider_dev": tuning + other,
        "spider_dev_tuning_half": tuning,
        "spider_dev_other_half": other,
        "bundled": [q.gold_sql for q in bundled],
        "bundled_train": by_split["train"],
        "bundled_test": by_split["test"],
    }


def world_queries(level: int, n: int, n_in_world: int = 12) -> list[str]:
    "Gold of n questions of a level, of the train split."
    questions = (q for w in worlds(level, seed=17, n=n_in_world) for q in w.questions)
    return [q.gold_sql for q in islice(questions, n)]


def coverage(queries: dict[str, list[str]], known: set[str], skeleton) -> dict[str, float]:
    "Share of the queries of each set whose skeleton is known."
    return {
        name: round(sum(skeleton(sql) in known for sql in sqls) / len(sqls), 4)
        for name, sqls in queries.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("-n", type=int, default=3000, help="questions of worlds a level")
    parser.add_argument("--missing", type=int, default=0, help="print so many, write nothing")
    args = parser.parse_args()
    queries = people_queries()
    generated = {level: world_queries(level, args.n) for level in LEVELS}
    every = [sql for sqls in generated.values() for sql in sqls]
    plain = {level: {plain_skeleton(sql) for sql in set(sqls)} for level, sqls in generated.items()}
    known = set().union(*plain.values())
    figures: dict = dict(
        command=f"python benchmarks/skeletons.py -n {args.n}",
        python=platform.python_version(),
        world_questions=len(every),
        people_queries={name: len(sqls) for name, sqls in queries.items()},
        skeletons_a_level={level: len(found) for level, found in plain.items()},
        plain=coverage(queries, known, plain_skeleton),
        rendered=coverage(
            queries, {rendered_skeleton(sql) for sql in set(every)}, rendered_skeleton
        ),
        strict=coverage(queries, {sql_skeleton(sql) for sql in every}, sql_skeleton),
    )
    print(json.dumps(figures, indent=1))
    if not args.missing:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")
        return
    for name in ("spider_dev_tuning_half", "bundled_train"):
        lacking = Counter(plain_skeleton(sql) for sql in queries[name])
        for skeleton in known:
            lacking.pop(skeleton, None)
        print(f"\n{name}: {lacking.total()} of {len(queries[name])} lacking")
        for skeleton, count in lacking.most_common(args.missing):
            print(f"{count:4} {skeleton}")


if __name__ == "__main__":
    main()
