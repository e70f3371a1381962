"Attacks on EXECUTE are refused, and neither the file, nor a neighbour, nor the next episode is another afterwards."

import hashlib

import apsw
import pytest
from databases import kind
from tables import cases
from write_attacks import ATTACKS, SCHEMA, WRITES

import sql_env.database.writing as writing
from sql_env import Episode, Question
from sql_env.database import Database, WritableCopy, build_database
from sql_env.database.guards import ERROR_KINDS, Limits, QueryError

LIMITS = Limits(operations=300_000, seconds=20)
SECRET = "wombat-in-the-vault"
WRITTEN = dict(gold_statements=("UPDATE booking SET nights = 777666 WHERE id = 2",), writes=WRITES)
TASK = Question("t", "Do it.", "hotel", "", **WRITTEN, invariants=("SELECT count(*) FROM vault",))
KEPT = ("bill", "vault", "log", "extra")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rows = dict(
        booking=[(1, 1, 2), (2, 1, 3), (3, 2, 1)],
        extra=[(1, "bed"), (2, "cot")],
        bill=[(1, 1, 900), (2, 3, 400)],
        vault=[(SECRET, b"1"), ("numbat", b"2")],
        log=[("start",)],
    )
    path = build_database(tmp_path_factory.mktemp("hotel") / "hotel.sqlite", SCHEMA, rows)
    con = apsw.Connection(str(path))
    people = [("Ada", "a@x", 36), ("Ben", "b@x", 60), ("Cleo", None, 20), ("Dan", None, None)]
    con.executemany("INSERT INTO guest(name, mail, years) VALUES (?, ?, ?)", people)
    con.execute("INSERT INTO note VALUES ('hidden words'); ANALYZE")
    con.close()
    return path


def begun(database, task=TASK, **options):
    episode = Episode(task, database, actions=["EXECUTE"], **options)
    episode.reset()
    return episode


def contents(source, tables=("guest", "booking", *KEPT)):
    return {t: source.query(f"SELECT * FROM {t} ORDER BY 1").rows for t in tables}


@pytest.fixture(scope="module")
def stage(path):
    "A database, and a neighbour's episode in which a change was made."
    database = Database(path, LIMITS)
    neighbour = begun(database)
    neighbour.step("EXECUTE", "UPDATE booking SET nights = 5 WHERE id = 1")
    yield database, neighbour, contents(database), contents(neighbour.work.copy)
    assert contents(database) == contents(Database(path, LIMITS))
    neighbour.close()
    database.close()


def test_there_are_many():
    assert len(ATTACKS) >= 300


@pytest.mark.parametrize("sql", ATTACKS.values(), ids=ATTACKS)
def test_attack_is_stopped(stage, path, sql):
    database, neighbour, before, beside = stage
    digest, names = hashlib.sha256(path.read_bytes()).digest(), sorted(path.parent.iterdir())
    episode = begun(database)
    observation = episode.step("EXECUTE", sql)
    assert observation.error.partition(":")[0] in ERROR_KINDS, observation
    seen = observation.error + observation.result
    assert not any(text in seen for text in (SECRET, "777666", str(path.parent)))
    assert "note_" not in observation.error.replace(sql, "") or "note_" in sql
    assert episode.changes == []
    if episode.work.copy is not None:
        assert contents(episode.work.copy) == before
        con = episode.work.copy._guarded.con
        assert not con.in_transaction and con.authorizer is not None
    # the same copy works on, and the episode ends as any other
    assert episode.step("EXECUTE", "UPDATE booking SET nights = 9 WHERE id = 3").error == ""
    assert {change.table for change in episode.changes} == {"booking", "log"}
    episode.step("ANSWER", "done")
    assert not episode.correct and len(episode.changes) == 2
    assert contents(neighbour.work.copy) == beside and contents(database) == before
    assert hashlib.sha256(path.read_bytes()).digest() == digest
    assert sorted(path.parent.iterdir()) == names


@pytest.mark.parametrize("sql, tables", cases("write_attacks_bounded"))
def test_what_is_allowed_stays_within_the_task(stage, sql, tables):
    database, _, before, _ = stage
    episode = begun(database)
    assert episode.step("EXECUTE", sql).error == ""
    assert {change.table for change in episode.changes} == set(tables)
    episode.close()
    assert contents(database) == before


def test_hidden_names_stay_hidden_and_a_writer_needs_tables_that_are_there(stage):
    database, *_ = stage
    episode = begun(database, schema_level="none")
    for sql in ("DROP TABLE x", "DELETE FROM x", "DELETE FROM bill", "UPDATE y SET z = 1"):
        error = episode.step("EXECUTE", sql).error
        assert error and not any(name in error.replace(sql, "") for name in ("guest", "booking"))
    with pytest.raises(Exception, match="There is no table"):
        database.writer(["note_data"])


def test_next_episode_begins_anew(stage):
    database, _, before, _ = stage
    episode = begun(database)
    for _ in range(3):
        episode.reset()
        assert episode.changes == []
        episode.step("EXECUTE", "DELETE FROM booking WHERE id = 2")
        assert episode.step("QUERY", "SELECT count(*) FROM booking").result.endswith("2")
        assert len(episode.changes) == 2
    assert contents(database) == before


@pytest.fixture
def many(tmp_path):
    "3,000 rows with numbers and as many without."
    schema = "CREATE TABLE t(i INTEGER PRIMARY KEY, n); CREATE TABLE w(i PRIMARY KEY, n) WITHOUT ROWID"
    rows = [(i, 0) for i in range(3000)]
    path = build_database(tmp_path / "many.sqlite", schema, dict(t=rows, w=rows))
    with Database(path) as database:
        yield database


def test_what_is_too_large_is_not_tried_again_while_others_wait(many, monkeypatch):
    tries, carry_out = [], WritableCopy._transaction
    counted = lambda copy, sql, is_long: (tries.append(is_long), carry_out(copy, sql, is_long))[1]  # noqa: E731
    monkeypatch.setattr(WritableCopy, "_transaction", counted)
    with many.writer(["t"], Limits(cell=10**6)) as copy:
        assert kind(copy.execute, "UPDATE t SET n = printf('%0100000d', i)") == "memory"
    assert tries == [False, True]


def test_all_changes_of_a_copy_are_bounded(many, monkeypatch):
    monkeypatch.setattr(writing, "_MOST_NUMBERS", 9000)
    with many.writer(["t"]) as copy:
        copy.execute("UPDATE t SET i = i + 3000")
        for _ in range(5):
            copy.execute("UPDATE t SET n = n + 1")  # the same rows
        copy.execute("UPDATE t SET i = i - 3500")
        with pytest.raises(QueryError, match="in all"):
            copy.execute("UPDATE t SET i = i + 3000")
        assert copy.query("SELECT count(*), min(i), max(n) FROM t").rows == [(3000, -500, 5)]


def views(n):
    "A table, and as many views, each a join of the one before with itself."
    chain = [f"CREATE VIEW v{i} AS SELECT p.a FROM v{i - 1} p, v{i - 1} q" for i in range(1, n)]
    return "; ".join(["CREATE TABLE t(a)", "CREATE VIEW v0 AS SELECT a FROM t", *chain])


@pytest.mark.parametrize("names", ["v9 a, v9 b, v9 c", "v6 a, v6 b, v6 c"])
def test_views_that_take_long_to_compile_are_refused_before(names, tmp_path, monkeypatch):
    with Database(build_database(tmp_path / "views.sqlite", views(10), {})) as database:
        copy = database.writer(["t"])
        monkeypatch.setattr(copy, "_guarded", None)  # nothing is compiled
        with pytest.raises(QueryError, match="view"):
            copy.execute(f"UPDATE t SET a = (SELECT count(*) FROM {names})")


def test_a_trigger_that_takes_long_to_compile_does_not(tmp_path):
    "All others would wait for it; it took 15 seconds."
    trigger = "CREATE TRIGGER bomb AFTER DELETE ON t BEGIN INSERT INTO t SELECT a FROM v13; END"
    path = build_database(tmp_path / "bomb.sqlite", f"{views(14)}; {trigger}", dict(t=[(1,)]))
    with Database(path) as database:
        used, _ = apsw.memory_used(), apsw.memory_high_water(True)
        with database.writer(["t"]) as copy:
            assert apsw.memory_high_water() - used < 5 * 2**20
            copy.execute("UPDATE t SET a = 2")
            with pytest.raises(QueryError, match="memory"):
                copy.execute("DELETE FROM t")
            assert copy.query("SELECT a FROM t").rows == [(2,)]


def test_names_and_triggers_of_a_file_forge_no_lines(tmp_path):
    name = "t\x1b[2J\nforged"
    schema = f"""CREATE TABLE "{name}"(i INTEGER PRIMARY KEY, "u\nforged" UNIQUE);
        CREATE TRIGGER g BEFORE DELETE ON "{name}" BEGIN SELECT RAISE(ABORT, 'x\nforged \x1b]0;y\x07'); END"""
    with Database(build_database(tmp_path / "forged.sqlite", schema, {name: [(1, 1)]})) as database:
        episode = begun(database, Question("f", "Do it.", "forged", "", **WRITTEN | dict(writes=(name,))))
        for sql in ("INSERT INTO {} VALUES (2, 2)", "INSERT INTO {} VALUES (3, 1)", "DELETE FROM {}", "DROP"):
            seen = episode.step("EXECUTE", sql.format(f'"{name}"'))
            assert (seen.result + seen.error).isprintable(), seen


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    "5,200 rows, each on a page of its own; the text of the first is none."
    path = tmp_path_factory.mktemp("wide") / "wide.sqlite"
    rows = [(i, "new", "x" * 3000) for i in range(5200)]
    build_database(path, "CREATE TABLE t(i INTEGER PRIMARY KEY, state, body)", dict(t=rows))
    con = apsw.Connection(str(path))
    con.execute("UPDATE t SET body = CAST(x'ff' AS TEXT) WHERE i = 0")
    con.close()
    with Database(path) as database:
        yield database


def test_rows_that_are_promised_can_be_changed_wherever_they_lie(wide):
    "And what is too much by far is undone, so that the next change has the same room."
    with wide.writer(["t"]) as copy:
        for _ in range(2):
            assert copy.execute("UPDATE t SET state = 'open' WHERE i") == ["t: 5199 rows updated"]
            with pytest.raises(QueryError, match="MB of growth. Nothing was changed"):
                copy.execute("INSERT INTO t(body) SELECT body || body FROM t WHERE i")
        assert len(copy.changes()) == 5199


@pytest.mark.parametrize("sql", cases("write_attacks_bad_texts"))
def test_text_that_nobody_can_read_is_not_written(sql, wide):
    "An answer could not be judged after it."
    with wide.writer(["t"]) as copy:
        with pytest.raises(QueryError, match="UTF-8. Nothing was changed") as e:
            copy.execute(sql)
        assert e.value.kind == "encoding" and copy.changes() == []
        copy.execute("UPDATE t SET state = 'ok' WHERE i = 1")
        assert copy.query("SELECT count(*) FROM t WHERE state = 'ok'").rows == [(1,)]


def test_a_change_is_counted_as_a_query_is(wide, monkeypatch):
    "The slow functions of a change are charged, and the clock decides nothing."
    monkeypatch.setattr("sql_env.database.connection._Budget._look_at_clock", lambda self: None)
    instr = "instr(printf('%019000d', 0), printf('%09500d', 0) || i)"
    slow = f"UPDATE t SET state = {instr} WHERE i BETWEEN 1 AND {{}}"
    with wide.writer(["t"], Limits(operations=200_000)) as copy:
        assert copy.execute(slow.format(50)) == ["t: 50 rows updated"]
        for _ in range(2):
            with pytest.raises(QueryError, match="too many operations. Nothing"):
                copy.execute(slow.format(100))


def test_no_error_quotes_the_data_as_it_stands(tmp_path):
    "A path that a cell holds, and a column that a view of the file lacks."
    evil = "\x1b[31m\x9b\u202e\u200b"
    schema = f"CREATE TABLE t(i INTEGER PRIMARY KEY, s); CREATE VIEW v AS SELECT [no{evil}] FROM t"
    path = build_database(tmp_path / "evil.sqlite", schema, dict(t=[(1, evil)]))
    with Database(path) as database, database.writer(["t"]) as copy:
        for sql in ("SELECT json_extract('{}', s) FROM t", "SELECT * FROM v", f"SELECT [{evil}] FROM t"):
            for ask in (database.query, copy.query):
                with pytest.raises(QueryError) as e:
                    ask(sql)
                assert str(e.value).isprintable() and r"\x1b[31m\x9b\u202e\u200b" in str(e.value)
        with pytest.raises(QueryError, match=r"\\u202e"):
            copy.execute("UPDATE t SET s = json_extract('{}', s)")
