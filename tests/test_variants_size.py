"""Variants at any size: the cost of a shape does not grow with a file, and no odd table spoils the rest."""

import random
from pathlib import Path

import apsw
import pytest
from databases import memory
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from tables import cases

from sql_env import Database, Limits, QueryError
from sql_env.database.database import build_database
from sql_env.grading.variants.instances import InstanceGenerator, plan_instances
from sql_env.grading.variants.pairs import instance_generator, pair_variants, why_no_instances, why_no_variants
from sql_env.grading.variants.robust import NOT_JUDGED, judge_evidence
from sql_env.grading.variants.sandbox import MAX_TABLES, _choose_tables, read_schema
from sql_env.grading.variants.shapes import MAX_SAMPLE_ROWS, MAX_TEXT, _spread_keys, read_table_shape

KEYS = {
    "rowid": "id INTEGER PRIMARY KEY",
    "number": "id INTEGER PRIMARY KEY, WITHOUT",
    "text": "id TEXT PRIMARY KEY, WITHOUT",
}


def grown(kind, rows, tables=1, path=":memory:"):
    "Tables of so many rows that differ in nothing but the number of rows."
    con = apsw.Connection(str(path))
    key, _, without = KEYS[kind].partition(", ")
    value = "printf('k%07d', i)" if kind == "text" else "i"
    for t in range(tables):
        con.execute(f"""CREATE TABLE t{t} ({key}, parent INTEGER REFERENCES t{max(t - 1, 0)},
            city TEXT, kind TEXT, amount REAL, day TEXT, n INTEGER, label TEXT)
            {"WITHOUT ROWID" if without else ""}""")
        with con:
            con.execute(f"""WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {rows})
                INSERT INTO t{t} SELECT {value}, 1 + (i * 7919) % {rows}, 'city ' || ((i * 31) % 200),
                substr('ABCDEF', 1 + (i * 13) % 6, 1), ((i * 104729) % 100000) / 7.0,
                date('2001-01-01', '+' || ((i * 17) % 7000) || ' days'), (i * 37) % 1000, 'label ' || i FROM c""")
    return con


def operations(con, work):
    "Hundreds of operations of SQLite's virtual machine that `work` takes."
    ticks = []
    con.set_progress_handler(lambda: bool(ticks.append(1)), 100)
    work()
    con.set_progress_handler(None)
    return len(ticks)


@pytest.mark.parametrize("kind", KEYS)
def test_a_shape_costs_the_same_at_any_size(kind):
    "Ten times the rows, and no more operations; sampled rows come from the whole table."
    small, large = grown(kind, 8000), grown(kind, 80_000)
    cost_small = operations(small, lambda: read_table_shape(small, "t0"))
    cost_large = operations(large, lambda: read_table_shape(large, "t0"))
    assert cost_large <= 1.1 * cost_small
    shape = read_table_shape(large, "t0")
    assert shape.natural_keys == (7,), "labels are all different, cities are not"
    assert len(set(shape.sample_rows)) == MAX_SAMPLE_ROWS
    places = sorted(int(str(row[0]).lstrip("k")) for row in read_table_shape(small, "t0").sample_rows)
    assert places[0] == 1 and places[-1] == 8000
    assert {(place - 1) // 800 for place in places} == set(range(10)), "of each tenth"


def spread(keys):
    "The keys that are sampled of a table with these."
    con = apsw.Connection(":memory:")
    con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    con.executemany("INSERT INTO t VALUES (?)", [(i,) for i in keys])
    return _spread_keys(con, "t", "rowid")


def test_crowded_keys_are_followed():
    "Ids of 1 to 300, some around 10**12, and the two ends of the range: all crowds are sampled."
    crowded = [*range(1, 300), 2**63 - 1, -(2**63), *(2**40 + 1000 * i for i in range(300))]
    found = spread(crowded)
    assert len(set(found)) == MAX_SAMPLE_ROWS and set(found) <= set(crowded)
    assert sum(k >= 2**40 for k in found) > 20 and sum(0 < k < 300 for k in found) > 20


@law(60)
@given(keys=st.sets(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 200)), min_size=0, max_size=150))
def test_all_keys_of_a_small_table_are_found(keys):
    found = spread(keys)
    assert set(found) <= keys and len(found) == len(set(found)) == min(len(keys), MAX_SAMPLE_ROWS)


ANY = st.text(max_size=20) | st.integers(-5, 5) | st.floats(allow_nan=False) | st.binary(max_size=3)


@law(60)
@given(keys=st.sets(ANY, max_size=150), collation=st.sampled_from(["COLLATE NOCASE", ""]))
def test_any_keys_can_be_sampled(keys, collation):
    "Texts, numbers and blobs in one column, whatever the collation: rows of the table, none twice."
    con = apsw.Connection(":memory:")
    con.execute(f"CREATE TABLE t (id {collation} PRIMARY KEY, n) WITHOUT ROWID")
    con.executemany("INSERT OR IGNORE INTO t VALUES (?, 1)", [(k,) for k in keys])
    there = con.execute("SELECT * FROM t").fetchall()
    rows = read_table_shape(con, "t").sample_rows
    assert set(rows) <= set(there) and len(rows) == min(len(there), MAX_SAMPLE_ROWS)


@pytest.fixture
def ample_heap():
    "What other tests of this process hold in SQLite takes no pages from a cache."
    soft = apsw.soft_heap_limit(0)
    yield
    apsw.soft_heap_limit(soft)


def test_few_pages_of_a_large_table_are_read(tmp_path, ample_heap):
    "For variants of a query on 120,000 rows less than a third of the file is read."
    path = tmp_path / "large.sqlite"
    con = grown("rowid", 120_000, path=path)
    pages = con.execute("PRAGMA page_count").get
    con.close()
    generator = instance_generator(path)
    v = pair_variants(path, "SELECT label FROM t0 WHERE city = 'city 5' AND n > 400")
    read = generator.source.con.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
    assert len(v) >= 20 and pages > 1500 and read < pages / 3
    plan = plan_instances(generator, "SELECT label FROM t0 WHERE label = 'no such label'")
    read_more = generator.source.con.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] - read
    assert plan.matching_rows == {"t0": []} and read_more < pages, "a vain search ends early"


ODD = (Path(__file__).parent / "data" / "variants_size_odd.sql").read_text()


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    path = tmp_path_factory.mktemp("odd") / "odd.sqlite"
    ends = [-(2**63), 2**63 - 1, *range(1, 900, 7)]
    fill = {
        "berth": [("ABCDE"[i % 5], i, i * 31 % 90) for i in range(400)],
        "gen": [(i, i % 50) for i in range(1, 301)],
        "taken": [(str(i), str(i % 7), i) for i in range(300)],
        "bad": [(i, f"text {i}", i % 9) for i in range(300)],
        "mixed": [(i if i % 2 else f"k{i}", i) for i in range(300)],
        "blobs": [(i, b"x" * (2_000_000 if i == 3 else 5000), f"n{i}") for i in range(25)],
        "edge": [(i, "ABC"[i % 3]) for i in ends],
        "strict": [(i, i % 5) for i in range(300)],
        "doc": [(f"t{i}", "some words") for i in range(10)],
        'select "x" (y)': [(i, f"g{i % 4}") for i in range(200)],
        "orphan": [(i, i) for i in range(5)],
    }
    build_database(path, ODD, fill)
    with apsw.Connection(str(path)) as con:
        con.execute("UPDATE bad SET t = CAST(x'fffe' AS TEXT) WHERE id % 3 = 0")
    return path


@pytest.mark.parametrize("gold", cases("variants_size_odd_tables_do_not_spoil"))
def test_odd_tables_do_not_spoil_the_rest(odd, gold):
    v = pair_variants(odd, gold)
    assert len(v) and not v.why_none
    db = Database(odd)
    assert judge_evidence(gold, db, f"{gold} ").correct, "with another text, so that it is run"
    assert judge_evidence(gold, db, "SELECT 'no such thing'").reason == "differs"


def test_rows_that_cannot_be_read_are_left_out_and_views_lead_to_the_tables_below_them(odd):
    generator = InstanceGenerator(odd)
    bad, blobs = generator.shape("bad"), generator.shape("blobs")
    assert len(bad.sample_rows) > 60 and all(row[0] % 3 for row in bad.sample_rows)
    assert {row[0] for row in blobs.sample_rows} == set(range(25)) - {3}, "one is too long"
    assert max(len(row[1]) for row in blobs.sample_rows) == MAX_TEXT
    assert generator.shape("gen").columns == ("id", "a"), "generated columns can't be written"
    gold = "SELECT n FROM deeper WHERE port = 'A'"
    assert plan_instances(generator, gold).read == ("berth",)
    assert any(instance.rows for instance in pair_variants(odd, gold).instances)


@pytest.mark.parametrize("gold, why", cases("variants_size_no_variants"))
def test_no_variants_is_an_answer_of_its_own(odd, gold, why):
    "A sentence says why, no exception, and the verdict is marked as none."
    assert why in why_no_variants(odd, gold) and why_no_variants(odd, gold).endswith(".")
    verdict = judge_evidence(gold, Database(odd), "SELECT 1")
    assert verdict.reason in NOT_JUDGED and why in verdict.detail


def test_databases_without_instances(tmp_path, odd):
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"no database" * 1000)
    assert why_no_instances(odd) == ""
    assert "NotADBError" in why_no_instances(damaged) and "NotADBError" in why_no_variants(damaged, "SELECT 1")
    assert "CantOpenError" in why_no_instances(tmp_path / "missing.sqlite")
    with pytest.raises(QueryError, match="NotADBError"):
        instance_generator(damaged)
    with pytest.MonkeyPatch.context() as patch:  # gold itself needs none
        patch.setattr("sql_env.grading.variants.robust.pair_variants", None)
        gold = "SELECT title FROM doc WHERE body = 'x'"
        assert judge_evidence(gold, Database(odd), gold).correct


def many_tables(path, n, parents):
    "So many tables with a few rows; `parents` gives the tables that each refers to."
    rng, schema, rows = random.Random(1), [], {}
    for t in range(n):
        above = parents(t)
        columns = "".join(f", p{i} INTEGER REFERENCES t{p} (id)" for i, p in enumerate(above))
        schema.append(f"CREATE TABLE t{t} (id INTEGER PRIMARY KEY, kind TEXT{columns})")
        rows[f"t{t}"] = [(i, rng.choice("ABC"), *[rng.randint(1, 6) for _ in above]) for i in range(1, 7)]
    return build_database(path, ";".join(schema), rows)


def test_instances_of_500_tables_hold_those_near_gold(tmp_path):
    "Few shapes are read and few tables made; what refers to gold's table is there, and empty."
    path = many_tables(tmp_path / "many.sqlite", 500, lambda t: [t // 2, t // 3] if t else [])
    generator = instance_generator(path)
    gold = "SELECT count(*) FROM t100 WHERE kind = 'A'"
    v = pair_variants(path, gold)
    assert len(v) >= 20 and len(generator._shapes) <= 8
    names = {
        name for (name,) in memory(v.instances[0].image).execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    }
    assert len(names) == MAX_TABLES and {"t100", "t50", "t33", "t200", "t300"} <= names
    db = Database(path)
    left = "SELECT count(DISTINCT a.id) FROM t100 a LEFT JOIN t200 b ON b.p0 = a.id WHERE a.kind = 'A'"
    assert judge_evidence(gold, db, left).correct
    assert not judge_evidence(gold, db, left.replace("LEFT JOIN", "JOIN")).correct


def test_chains_and_circles_of_references_are_followed_for_a_while(tmp_path):
    path = many_tables(tmp_path / "chain.sqlite", 600, lambda t: [t - 1] if t else [])
    generator = InstanceGenerator(path)
    plan = plan_instances(generator, "SELECT count(*) FROM t599 WHERE kind = 'A'")
    assert plan.tables[:3] == ("t599", "t598", "t597") and len(plan.tables) == 8
    every = " UNION ALL ".join(f"SELECT id FROM t{t}" for t in range(0, 60, 2))
    assert len(plan_instances(generator, every).read) == 30, "all that gold reads"
    con = apsw.Connection(":memory:")
    con.execute("""CREATE TABLE a (id INTEGER PRIMARY KEY, b INTEGER REFERENCES b);
        CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES A, c INTEGER REFERENCES missing);
        CREATE TABLE d (x); CREATE VIEW loop AS SELECT * FROM loop2; CREATE VIEW loop2 AS SELECT * FROM loop;""")
    schema = read_schema(con, {"a", "b", "d", "loop", "loop2"})
    assert _choose_tables(schema, ["a"]).all == ("a", "b", "d")
    assert _choose_tables(schema, ["a"], most=1).all == ("a",)
    assert _choose_tables(schema, ["loop", "nowhere"]).read == ()
    assert _choose_tables(read_schema(con, {"a"}), ["a", "b"]).all == ("a",), "others may not be read"


def test_a_table_of_2000_columns(tmp_path):
    "It can be read, and it costs other tables nothing: it stands in their instances without rows."
    columns = ", ".join(f"c{i} TEXT" for i in range(1999))
    schema = f"CREATE TABLE wide (id INTEGER PRIMARY KEY, {columns}); CREATE TABLE t (id INTEGER, kind TEXT)"
    path = build_database(tmp_path / "wide.sqlite", schema, {"t": [(i, "ABC"[i % 3]) for i in range(30)]})
    with apsw.Connection(str(path)) as con:
        rows = [(f"x{i}", "ab"[i % 2], f"y{i % 4}") for i in range(150)]
        con.executemany("INSERT INTO wide (c0, c5, c1998) VALUES (?, ?, ?)", rows)
    generator = InstanceGenerator(path)
    plan = plan_instances(generator, "SELECT count(*) FROM t WHERE kind = 'A'")
    assert [shape.name for shape in plan.shapes] == ["t"] and "wide" not in generator._shapes
    gold = "SELECT count(*) FROM wide WHERE c5 = 'a' AND c1998 = 'y2'"
    assert judge_evidence(gold, Database(path), "SELECT count(*) FROM wide WHERE c5 = 'a'").reason == "differs"
    v = pair_variants(path, gold)
    with generator.sandboxes.borrow(Limits()) as sandbox:
        for image, rows, _ in v.instances:
            sandbox.load(image)
            assert sandbox.run(gold).rows == rows
