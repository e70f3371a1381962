"""Our prover beside provensql: `python benchmarks/peer_proofs.py [--out FILE]`, after `pip install provensql`.

The pairs are those of tests/data/blind_pairs.jsonl, by somebody who knew neither: queries that are equal on every
database of a schema, and queries that look equal, each with rows on which they differ. provensql gets a catalog with
types, keys and references of the same schema; it is made for another dialect, so what it can't read counts as open.
"""

import argparse
import json
import statistics
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import apsw

from sql_env.proofs.decision import prove
from sql_env.proofs.facts import Schema, read_facts

PAIRS = Path(__file__).resolve().parent.parent / "tests" / "data" / "blind_pairs.jsonl"
TYPES = dict(INTEGER="INT64", REAL="FLOAT64", NUMERIC="NUMERIC", TEXT="STRING", BLOB="STRING")


def catalog_of(schema: Schema):
    "What provensql is told of a schema."
    from provensql.catalog import Catalog, _map_bq_type

    found = Catalog()
    for name, table in schema.tables.items():
        found.tables[name] = {c: _map_bq_type(TYPES[x.affinity]) for c, x in table.columns.items()}
        found.not_null[name] = {c for c, x in table.columns.items() if x.required}
        found.unique[name] = {key[0] for key in table.keys if len(key) == 1}
        found.foreign_keys[name] = {
            r.columns[0]: (r.parent, r.parent_columns[0])
            for r in table.references
            if len(r.columns) == 1
        }
    return found


def peer(gold: str, sql: str, catalog) -> str:
    "proved, refuted or open, as provensql says."
    from provensql import VerdictType, compare

    try:
        verdict = compare(gold, sql, catalog)
    except Exception:
        return "open"
    return {VerdictType.EQUIVALENT: "proved", VerdictType.UNKNOWN: "open"}.get(
        verdict.type, "refuted"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=5, help="of the pairs that differ")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    first, *pairs = map(json.loads, PAIRS.open())
    equal = [p for p in pairs if p["kind"] == "equal"]
    unequal = [p for p in pairs if p["kind"] != "equal"][:: args.every]
    counts = {who: {"equal": Counter(), "different": Counter()} for who in ("sql_env", "provensql")}
    seconds: dict[str, list[float]] = {who: [] for who in counts}
    for truth, some in (("equal", equal), ("different", unequal)):
        for pair in some:
            con = apsw.Connection(":memory:")
            for sql in [*first["schemas"][pair["schema"]], *pair.get("rows", [])]:
                con.execute(sql)
            schema = read_facts(con)
            catalog = catalog_of(schema)
            judges = {
                "sql_env": lambda a, b, schema=schema: prove(a, b, schema).outcome,
                "provensql": lambda a, b, catalog=catalog: peer(a, b, catalog),
            }
            for who, judge in judges.items():
                start = time.process_time()
                counts[who][truth][judge(pair["gold"], pair["sql"])] += 1
                seconds[who].append(time.process_time() - start)
    found = {"command": f"python benchmarks/peer_proofs.py --every {args.every}"}
    found["versions"] = {name: version(name) for name in ("provensql", "sqlglot", "z3-solver")}
    for who, by_truth in counts.items():
        ms = [1000 * s for s in seconds[who]]
        found[who] = {truth: dict(c) for truth, c in by_truth.items()}
        found[who]["cpu_ms"] = {
            "p50": round(statistics.median(ms), 2),
            "p99": round(statistics.quantiles(ms, n=100)[98], 2),
        }
    print(json.dumps(found, indent=1))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
