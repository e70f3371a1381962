"""Pairs of SQLancer's kind on our verdicts: `python benchmarks/logic_pairs.py [-n 40] [--out FILE]`.

SQLancer finds faults of databases by pairs of statements that must agree: a table is its rows where a predicate holds,
where it doesn't and where it is NULL (TLP: rows, DISTINCT, an aggregate, groups by HAVING); a count by WHERE is the sum
of the predicate (NoREC); a pivot row is found through a subquery too (after PQS). Here each is a pair of gold and an
answer, in either direction, and beside it one with a part left out, kept only where the two give different rows on the
database itself. `hidden` pairs leave the predicate out where the pivot keeps it: they agree on the file, and differ on
the same file with two keys swapped. Predicates are random over the columns, values and references of the bundled
databases and of generated ones; nothing was tuned on them. An equal pair called different, or a pair with a part left
out called proved, is a fault; an open one is not."""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import apsw

from sql_env.database.database import Database
from sql_env.database.guards import QueryError
from sql_env.grading.answers import compare_rows
from sql_env.grading.variants.robust import NOT_JUDGED, judge_evidence
from sql_env.proofs.decision import prove_on
from sql_env.proofs.facts import read_facts
from sql_env.sources.loading import load

OUT = Path(__file__).with_suffix(".json")


def literal(value) -> str:
    "A value as SQL writes it."
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


class Statements:
    "Random tables, columns and predicates of a database."

    def __init__(self, db: Database, rng: Random):
        self.db, self.rng = db, rng
        con = apsw.Connection(str(db.path), flags=apsw.SQLITE_OPEN_READONLY)
        self.tables = {t: f for t, f in read_facts(con).tables.items() if len(f.columns) > 1}

    def values(self, table: str, column: str) -> list:
        "Some values of a column, without NULL."
        sql = f'SELECT DISTINCT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL LIMIT 60'
        return [v for (v,) in self.db.query(sql).rows if isinstance(v, (int, float, str))]

    def draw(self) -> None:
        "Choose what stands after FROM: a table, or one beside a table that it refers to."
        rng, table = self.rng, self.rng.choice(sorted(self.tables))
        facts = self.tables[table]
        self.table, self.source, used = table, f'"{table}" AS a', {"a": table}
        if facts.references and rng.random() < 0.4:
            reference = rng.choice(sorted(facts.references, key=str))
            pairs = zip(reference.columns, reference.parent_columns)
            on = " AND ".join(f'a."{c}" = b."{p}"' for c, p in pairs)
            self.source += f' {rng.choice(["", "LEFT "])}JOIN "{reference.parent}" AS b ON {on}'
            used["b"] = reference.parent
        self.columns = [(a, t, c) for a, t in used.items() for c in self.tables[t].columns]

    def column(self, without: str = "") -> tuple[str, str, str]:
        return self.rng.choice([c for c in self.columns if not (c[0] == "a" and c[2] == without)])

    def predicate(self, depth: int = 2, without: str = "") -> str:
        "A random predicate, that does not name column `without` of the first table."
        rng = self.rng
        if depth and rng.random() < 0.5:
            left, right = (self.predicate(depth - 1, without) for _ in range(2))
            word = rng.choice(["AND", "OR"])
            return f"NOT ({left})" if rng.random() < 0.15 else f"({left}) {word} ({right})"
        alias, table, name = self.column(without)
        column, values = f'{alias}."{name}"', self.values(table, name)
        if not values or rng.random() < 0.12:
            return f"{column} IS {rng.choice(['', 'NOT '])}NULL"
        kind, (one, two, three) = rng.random(), rng.choices(values, k=3)
        if kind < 0.12:
            return f"{column} IN ({literal(one)}, {literal(two)}, {literal(three)})"
        if kind < 0.24:
            low, high = sorted((one, two), key=lambda v: (isinstance(v, str), v))
            return f"{column} BETWEEN {literal(low)} AND {literal(high)}"
        if kind < 0.34 and isinstance(one, str):
            return f"{column} LIKE {literal(rng.choice(['%', '']) + one[:3] + '%')}"
        return f"{column} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {literal(one)}"

    def pair(self, kind: str) -> tuple[str, str, str]:
        "Two statements that agree, and one like the second with a part left out."
        self.draw()
        rng, source = self.rng, self.source
        key = next((k[0] for k in sorted(self.tables[self.table].keys) if len(k) == 1), "")
        p = self.predicate(without=key if kind in ("pivot", "hidden") else "")
        picked = [self.column() for _ in range(rng.randint(1, 3))]
        out = ", ".join(f'{a}."{c}"' for a, _, c in dict.fromkeys(picked))
        parts = [f"({p})", f"NOT ({p})", f"({p}) IS NULL"]
        left = list(parts)
        del left[rng.randrange(2)]  # the part of NULL is empty too often
        if kind == "rows":
            made = [
                " UNION ALL ".join(f"SELECT {out} FROM {source} WHERE {x}" for x in xs)
                for xs in (parts, left)
            ]
            return f"SELECT {out} FROM {source}", *made
        if kind == "distinct":
            made = [
                " UNION ".join(f"SELECT {out} FROM {source} WHERE {x}" for x in xs)
                for xs in (parts, left)
            ]
            return f"SELECT DISTINCT {out} FROM {source}", *made
        if kind == "aggregate":
            whole = [
                (a, t, c)
                for a, t, c in self.columns
                if all(isinstance(v, int) for v in self.values(t, c))
            ]
            a, _, c = rng.choice(whole or self.columns)
            f, over = rng.choice(
                [
                    ("COUNT", "SUM"),
                    ("MAX", "MAX"),
                    ("MIN", "MIN"),
                    *([("SUM", "SUM")] if whole else []),
                ]
            )
            one = f'SELECT {f}({a}."{c}") AS x FROM {source}'
            made = [" UNION ALL ".join(f"{one} WHERE {x}" for x in xs) for xs in (parts, left)]
            return one, *(f"SELECT {over}(x) FROM ({text})" for text in made)
        if kind == "groups":
            a, _, c = self.column()
            n, group = (
                rng.randint(1, 4),
                f'SELECT {a}."{c}", COUNT(*) FROM {source} GROUP BY {a}."{c}"',
            )
            parts = [f"COUNT(*) > {n}", f"NOT (COUNT(*) > {n})", f"(COUNT(*) > {n}) IS NULL"]
            del (left := list(parts))[rng.randrange(2)]
            made = [" UNION ALL ".join(f"{group} HAVING {x}" for x in xs) for xs in (parts, left)]
            return group, *made
        if kind == "norec":
            count = f"SELECT COUNT(*) FROM {source} WHERE {p}"
            value = rng.choice([f"({p}) IS TRUE", f"CASE WHEN {p} THEN 1 ELSE 0 END"])
            total = "SELECT COALESCE(SUM({}), 0) FROM {}"
            return count, total.format(value, source), total.format("1", source)
        if not key:
            raise LookupError
        row = f'a."{key}" = {literal(rng.choice(self.values(self.table, key)))}'
        inner = f"SELECT {out} FROM {source} WHERE {row}"
        if kind == "pivot":
            of = f'(SELECT * FROM "{self.table}") AS a' + source.partition(" AS a")[2]
            return f"{inner} AND ({p})", f"SELECT {out} FROM {of} WHERE ({p}) AND {row}", inner
        return f"{inner} AND ({p})", f"SELECT {out} FROM {source} WHERE ({p}) AND {row}", inner

    def that_run(self, kind: str) -> Iterator[tuple[tuple[str, str, str], list[list[tuple]]]]:
        "Up to 40 pairs of a kind that SQLite runs: gold, its equal, the one with a part left out; and rows of each."
        for _ in range(40):
            try:
                pair = self.pair(kind)
                rows = [self.db.query(sql).rows for sql in pair]
            except (QueryError, LookupError, TypeError):
                continue
            yield pair, rows

    def holds_both(self, gold: str) -> bool:
        "Whether the predicate of a hidden pair holds for this pivot and not for another row."
        p = gold.partition(" AND (")[2][:-1]
        found = {v for (v,) in self.db.query(f"SELECT ({p}) IS TRUE FROM {self.source}").rows}
        return found == {0, 1}


KINDS = ("rows", "distinct", "aggregate", "groups", "norec", "pivot", "hidden")


def judged(db: Database, gold: str, sql: str) -> tuple[str, str]:
    "What robust and the prover say."
    robust = judge_evidence(gold, db, sql)
    said = (
        "not judged" if robust.reason in NOT_JUDGED else "equal" if robust.correct else "different"
    )
    return said, prove_on(db, gold, sql).outcome


def measure(db: Database, rng: Random, n: int, faults: list) -> Counter:
    "Counts of what was said, by the kind of pair and whether its statements are equal."
    statements, counts = Statements(db, rng), Counter()
    for i in range(n):
        kind = KINDS[i % len(KINDS)]
        for pair, rows in statements.that_run(kind):
            gold, same, less = pair
            differs = not compare_rows(rows[2], rows[0], False).correct
            if statements.holds_both(gold) and not differs if kind == "hidden" else differs:
                break
        else:
            counts["none found", kind] += 1
            continue
        if not compare_rows(rows[1], rows[0], False).correct:
            faults.append(dict(kind=kind, of="value", pair=[gold, same]))
        for truth, sql in (("equal", same), ("left out", less))[kind == "hidden" :]:
            pair = (gold, sql) if rng.random() < 0.5 or kind == "hidden" else (sql, gold)
            robust, proof = judged(db, *pair)
            counts[truth, kind, "robust " + robust] += 1
            counts[truth, kind, proof] += 1
            wrong = dict(equal=robust == "different" or proof == "refuted")
            wrong["left out"] = proof.startswith("proved")
            if wrong[truth]:
                faults.append(dict(kind=kind, of=truth, robust=robust, proof=proof, pair=pair))
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=42, help="pairs of each sort for a database")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    sets = [
        load("bundled"),
        load("worlds", n=40, seed=args.seed),
        load("worlds", n=40, level=5, seed=args.seed),
    ]
    start, counts, faults, names = time.process_time(), Counter(), [], 0
    for number, questions in enumerate(sets):
        for name in sorted(questions.databases)[:12]:
            rng = Random(f"{args.seed} {number} {name}")
            counts += measure(questions.database(name), rng, args.n, faults)
            names += 1
    said: dict = {}
    for key, count in sorted(counts.items()):
        place = said
        for word in key[:-1]:
            place = place.setdefault(word, {})
        place[key[-1]] = count
    totals: dict = {truth: Counter() for truth in ("equal", "left out")}
    for truth, of in totals.items():
        for kinds in said[truth].values():
            of.update(kinds)
    found = dict(
        command=" ".join(["python benchmarks/logic_pairs.py", *sys.argv[1:]]), databases=names
    )
    found |= dict(totals=totals, kinds=said, faults=faults)
    found |= dict(cpu_seconds=round(time.process_time() - start))
    args.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(found | dict(faults=len(faults)), indent=1))


if __name__ == "__main__":
    main()
