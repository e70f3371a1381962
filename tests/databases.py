"Small databases for the tests of the database layer, and what came of a statement."

import threading
from contextlib import contextmanager

import apsw
import pytest

from sql_env.database.connection import _memory
from sql_env.database.database import build_database
from sql_env.database.guards import ERROR_KINDS, QueryError

COUNT = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {}) SELECT count(*), max(n) FROM t"


def forgetful(questions, bare):
    "An oracle that plays the query that a follow-up's words have alone, by the id of the follow-up."
    from sql_env import OraclePolicy

    def turns(q):
        return tuple(f.with_fields(gold_sql=bare[f.question_id]) for f in q.follow_ups)

    return OraclePolicy([q.with_fields(follow_ups=turns(q)) for q in questions])


def work_database(folder):
    "Persons and their jobs."
    schema = """CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, boss REFERENCES person, secret_wage REAL);
        CREATE TABLE job (person_id INTEGER REFERENCES person(id), title TEXT, hidden_code BLOB)"""
    rows = {
        "person": [(i, f"name {i}", i // 2 or None, i / 4) for i in range(1, 101)],
        "job": [(i % 100 + 1, f"title {i % 7}", bytes([i])) for i in range(200)],
    }
    return build_database(folder / "work.sqlite", schema, rows)


def memory(image):
    "A connection without guards to a copy of the bytes of a database."
    con = apsw.Connection(":memory:")
    con.deserialize("main", image)
    return con


def in_threads(work, n):
    "Runs `work` with the numbers below `n`, in a thread each."
    threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def kind(f, *args):
    "The kind of the `QueryError` that a call raises."
    with pytest.raises(QueryError) as e:
        f(*args)
    assert e.value.kind in ERROR_KINDS
    return e.value.kind


def outcome(db, sql):
    "Rows or error of a statement, as text."
    try:
        return repr(db.query(sql).rows)
    except QueryError as e:
        return f"{e.kind}: {e}"


@contextmanager
def somebody_compiles():
    "Another thread holds the lock under which statements are compiled."
    begun, over = threading.Event(), threading.Event()

    def compile_long():
        with _memory.compile_lock:
            begun.set()
            over.wait(60)

    thread = threading.Thread(target=compile_long)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()
