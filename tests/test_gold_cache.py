"Gold in another order of rows, and what an agent can not compute."

from pathlib import Path

import apsw
import pytest
from tables import cases

from sql_env.database import Database, Limits, build_database
from sql_env.database.catalog import StatementReader
from sql_env.questions.gold import GoldRunner, _filters_only, _ShuffledCopy, gold_results, same_rows
from sql_env.sql.text import has_order_by

SHIPS = "CREATE TABLE ship(id INTEGER PRIMARY KEY, name TEXT, kind TEXT COLLATE NOCASE, tonnes REAL)"
ROWS = [(1, "Ada", "tug", 5.0), (2, "Bora", "Tug", 5.0), (3, "Cid", "bark", 2.0), (4, None, "bark", None)]


@pytest.fixture
def ship(tmp_path) -> Path:
    return build_database(tmp_path / "ship.sqlite", SHIPS, {"ship": ROWS})


def test_what_goes_wrong_with_one_query_costs_no_other(ship, monkeypatch):
    judge = GoldRunner.judge

    def broken(self, sql):
        if "name" in sql:
            raise apsw.CorruptError("a broken page")
        return judge(self, sql)

    monkeypatch.setattr(GoldRunner, "judge", broken)
    found = gold_results(ship, ["SELECT name FROM ship", "SELECT max(id) FROM ship"])
    assert [r.flags for r in found.values()] == [("error",), ()]
    assert dict(found["SELECT name FROM ship"].reasons)["error"]


def test_a_copy_keeps_types_collations_and_generated_columns(tmp_path):
    path = tmp_path / "odd.sqlite"
    con = apsw.Connection(str(path))
    con.execute("""
        CREATE TABLE "a b"(x INTEGER, t TEXT COLLATE NOCASE, g AS (x * 2), s TEXT AS (t || x) STORED, n);
        CREATE TABLE pair(p TEXT, q INT, PRIMARY KEY (p, q)) WITHOUT ROWID;
        CREATE TABLE hidden(rowid TEXT, oid TEXT, _rowid_ TEXT);
        CREATE TABLE strict_one(x ANY, y BLOB) STRICT;
        CREATE VIEW seen AS SELECT g, s FROM "a b" WHERE x > 1;
        INSERT INTO "a b"(x, t, n) VALUES (1, 'A', 1.5), (2, 'b', '7'), (3, 'a', x'00'), (4, 'c', NULL);
        INSERT INTO pair VALUES ('z', 1), ('y', 2), ('y', 1), ('x', 5);
        INSERT INTO hidden VALUES ('1', 'a', 'b'), ('2', 'c', 'd'), ('3', 'e', 'f');
        INSERT INTO strict_one VALUES (1, x'01'), ('1', x'02'), (1.5, NULL)""")
    con.close()
    reader = StatementReader(path)
    gold = Database(path, Limits.gold())
    orders = []
    for seed in range(4):
        copy = _ShuffledCopy(reader, seed)
        for sql in (
            'SELECT *, typeof(n) FROM "a b"',
            "SELECT * FROM pair",
            "SELECT rowid, oid FROM hidden",
            "SELECT x, y, typeof(x) FROM strict_one",
            "SELECT s FROM seen",
            "SELECT x FROM \"a b\" WHERE t = 'A'",
        ):
            tables = reader.tables_read(sql)
            assert copy.hold(tables) and copy.tables >= set(tables)
            assert same_rows(copy.rows(sql, 99), gold.query(sql).rows), sql
        orders.append(tuple(tuple(copy.rows(f"SELECT * FROM {t}", 9)) for t in ("pair", "hidden")))
        copy.close()
    pairs, hidden = orders[0]
    assert pairs == (("z", 1), ("y", 2), ("y", 1), ("x", 5)), "turned round"
    assert hidden == (("3", "e", "f"), ("2", "c", "d"), ("1", "a", "b")) and len(set(orders)) > 2
    reader.close()


def test_only_tables_that_gold_reads_are_copied(tmp_path):
    tables = {f"t{i}": [(n, "x" * 500) for n in range(200)] for i in range(5)}
    schema = "".join(f"CREATE TABLE {t}(a INT, b TEXT);" for t in tables)
    schema += "CREATE VIEW v AS SELECT a FROM t3; CREATE VIEW w AS SELECT a FROM v JOIN t1 USING (a)"
    reader = StatementReader(build_database(tmp_path / "five.sqlite", schema, tables))
    for sql, tables_read in cases("gold_cache_tables_read", list):
        assert reader.tables_read(sql) == tables_read, sql
    copy = _ShuffledCopy(reader, 0, max_bytes=300_000)
    assert copy.hold(["t0", "t1"]) and copy.tables == {"t0", "t1"}
    assert copy.hold(["t2"]) and copy.tables == {"t2"}, "others make room"
    assert not copy.hold(["t0", "t1", "t2"]) and copy.hold(["t2", "t4"])
    assert not _ShuffledCopy(reader, 1, max_bytes=50_000).hold(["t0"])


def test_beyond_the_size_a_flag(tmp_path):
    rows = [(i, f"n{i}", i % 7, "x" * 300) for i in range(400)]
    schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, k INT, pad TEXT); CREATE INDEX k ON t(k)"
    path = build_database(tmp_path / "large.sqlite", schema, {"t": rows})
    runner = GoldRunner(path, max_copy_bytes=20_000)
    for sql, flags in cases("gold_cache_beyond_the_size"):
        found = runner.judge(sql)
        assert found.flags == flags, sql
        assert bool(dict(found.reasons).get("order_unchecked")) == bool(flags)
    runner.close()


@pytest.mark.parametrize("sql, flag, says", cases("gold_cache_a_flag_keeps_its_reason"))
def test_a_flag_keeps_its_reason(ship, sql, flag, says):
    runner = GoldRunner(ship)
    found = runner.judge(sql)
    assert flag in found.flags and says in dict(found.reasons).get(flag, "")
    assert runner.judge("SELECT count(*) FROM ship WHERE name != 'now'").flags == ()
    assert runner.judge("SELECT date('2020-01-01', '+1 day')").flags == ()
    runner.close()


def test_what_an_agent_can_not_compute_has_the_figure_it_needs(ship):
    cross = "SELECT count(*) FROM ship a, ship b, ship c, ship d, ship e, ship f WHERE a.id + b.id > 1"
    figures = []
    for operations in (2000, 8000):
        runner = GoldRunner(ship, Limits(operations=operations))
        found = runner.judge(cross)
        reason = dict(found.reasons)["over_limits"]
        figures.append(int(reason.split()[2].replace(",", "")))
        assert found.flags == ("over_limits",) and found.rows == ((4**6,),)
        assert f"; {operations:,} are allowed." in reason
        runner.close()
    assert figures[0] == figures[1] > 8000
    enough = GoldRunner(ship, Limits(operations=figures[0] + 1000))
    assert enough.judge(cross).flags == ()
    enough.close()
    few = GoldRunner(ship, Limits(rows=2, cells=3, sql=60))
    wide = few.judge("SELECT * FROM ship WHERE id < 3")
    assert wide.flags in ((), ("over_limits",))
    assert few.judge("SELECT name FROM ship").flags == ("over_cap",)
    long = few.judge("SELECT count(*) FROM ship WHERE id > 0 AND id > 0 AND id > 0 AND id > 0")
    assert long.flags == ("over_limits",) and "60 are allowed" in dict(long.reasons)["over_limits"]
    few.close()


@pytest.mark.parametrize("sql, plain, is_ordered", cases("gold_cache_words_of_a_query"))
def test_words_of_a_query(sql, plain, is_ordered):
    assert (_filters_only(sql), has_order_by(sql)) == (plain, is_ordered)
