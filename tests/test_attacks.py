"""Attacks on `sql_env.database`: hostile statements, hostile files, races. Each must be refused or harmless, quick and small.

Statements and files run in a child process that reports time and memory, so that a crash or a hang fails one test only.
A comment `once a hole` says what went wrong before the hole was closed; its test keeps it closed.
"""

import ctypes
import gc
import hashlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import apsw
import pytest

from sql_env.database import Database, build_database
from sql_env.guards import FastPathMiss, Limits, QueryError, briefly
from sql_env.values import Result, format_value, quote_identifier

SECONDS, MEGABYTES = 2.0, 150  # what one statement may cost
HONEST = "SELECT wombat, kilos FROM animal WHERE kilos > 20 ORDER BY wombat LIMIT 3"
SCHEMA = """CREATE TABLE animal(quokka INTEGER PRIMARY KEY, wombat TEXT, kilos REAL);
    CREATE TABLE vault(numbat INTEGER PRIMARY KEY, bilby TEXT REFERENCES animal);
    CREATE INDEX dunnart ON vault(bilby);
    CREATE VIEW heavy AS SELECT wombat FROM animal WHERE kilos > 100;"""
COLUMNS = {
    "animal": ("quokka", "wombat", "kilos"),
    "vault": ("numbat", "bilby", "dunnart"),
}  # and an index

# --- Building blocks of statements ---


def repeat(char, n):
    return f"replace(printf('%0{n}d', 0), '0', '{char}')"


def loop(n):
    return f"k(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM k LIMIT {n})"


def over(x, y, expression, n=1000):
    "An expression of two long values `x` and `y` and a counter `n`, on each row of a loop."
    return f"WITH RECURSIVE {loop(n)}, t(x) AS MATERIALIZED (SELECT {x}), u(y) AS MATERIALIZED (SELECT {y}) SELECT {expression} FROM k, t, u"


def copies(x, y, expression, terms, columns):
    "A sum of `terms` expressions that SQLite copies into each of `columns` columns: straight code of one row, without a jump."
    return (
        f"WITH t(x) AS MATERIALIZED (SELECT {x}), u(y) AS MATERIALIZED (SELECT {y}) SELECT {', '.join(['z'] * columns)} "
        f"FROM (SELECT {' + '.join([expression] * terms)} AS z FROM t, u)"
    )


def times(expression, n=50):
    return ", ".join(expression.replace("#", str(i)) for i in range(n))


def keys(form, n):
    return f"(SELECT '{{' || group_concat(s) || '}}' FROM (WITH RECURSIVE {loop(n)} SELECT printf('{form}', n) s FROM k))"


def doubling(n):
    return (
        "WITH a0(x) AS (SELECT 1)"
        + "".join(f", a{i}(x) AS (SELECT p.x FROM a{i - 1} p, a{i - 1} q)" for i in range(1, n))
        + f" SELECT x FROM a{n - 1}"
    )


ZEROS = "printf('%019000d', 0)"
DENIED, CLOSED = ("not_read_only",), ("forbidden", "unknown_table", "unknown_function")
SLOW, BIG, LONG, WORDS = (
    ("operations", "timeout"),
    ("memory", "too_large", "operations"),
    ("too_long", "syntax", "memory"),
    ("syntax",),
)
ANY = tuple("operations timeout memory too_large too_long syntax forbidden value ok".split())
OK = ("ok",)

# --- The attacks: name, statement, kinds that are right ---

WRITES = [
    (f"write-{i}", sql, DENIED)
    for i, sql in enumerate(
        """DELETE FROM animal
DELETE FROM animal RETURNING *
INSERT INTO animal(wombat) VALUES ('x')
INSERT INTO animal(wombat) VALUES ('x') RETURNING quokka
REPLACE INTO animal(quokka) VALUES (1)
UPDATE animal SET kilos = 0
CREATE TABLE mine(a)
CREATE TABLE mine AS SELECT * FROM animal
CREATE TEMP TABLE animal(a)
CREATE TEMP VIEW animal AS SELECT 1
CREATE TRIGGER t AFTER INSERT ON animal BEGIN SELECT 1; END
CREATE INDEX i ON animal(wombat)
CREATE VIRTUAL TABLE temp.f USING fts5(a)
CREATE VIRTUAL TABLE temp.s USING dbstat
DROP TABLE animal
ALTER TABLE animal RENAME TO mine
REINDEX
ANALYZE
VACUUM
BEGIN EXCLUSIVE
SAVEPOINT s
ROLLBACK""".splitlines()
    )
] + [
    ("with-delete", "WITH x AS (SELECT 1) DELETE FROM animal", ("forbidden", "not_read_only")),
    (
        "with-insert",
        "WITH x(a) AS (SELECT 1) INSERT INTO animal(wombat) SELECT a FROM x RETURNING quokka",
        ("forbidden", "not_read_only"),
    ),
    (
        "with-update",
        "WITH x AS (SELECT 1) UPDATE animal SET kilos = 0 RETURNING *",
        ("forbidden", "not_read_only"),
    ),
    (
        "with-replace",
        "WITH x AS (SELECT 1) REPLACE INTO animal SELECT * FROM animal",
        ("forbidden", "not_read_only"),
    ),
    ("values-insert", "VALUES (1) INSERT INTO animal VALUES (1)", WORDS),
]

FILES = [
    ("vacuum-into", "VACUUM INTO 'stolen.sqlite'", DENIED),
    ("vacuum-into-comment", "/* SELECT */ VACUUM INTO 'stolen.sqlite'", DENIED),
    ("attach-new", "ATTACH 'stolen.sqlite' AS a", DENIED),
    ("attach-memory", "ATTACH ':memory:' AS a", DENIED),
    ("attach-uri", "ATTACH 'file:stolen.sqlite?mode=rwc' AS a", DENIED),
    ("detach", "DETACH main", DENIED),
    ("load-extension", "SELECT load_extension('/lib/evil.so')", CLOSED),
    ("load-extension-entry", "SELECT load_extension('evil', 'entry')", CLOSED),
    ("readfile", "SELECT readfile('/etc/passwd')", CLOSED),
    ("writefile", "SELECT writefile('stolen.txt', 'x')", CLOSED),
    ("edit", "SELECT edit('x', 'sh')", CLOSED),
    ("fts3-tokenizer", "SELECT fts3_tokenizer('simple')", CLOSED),
    ("fts3-tokenizer-set", "SELECT fts3_tokenizer('simple', x'4141414141414141')", CLOSED),
    ("rtreecheck", "SELECT rtreecheck('animal')", CLOSED),
    ("rtreenode", "SELECT rtreenode(2, zeroblob(9000))", CLOSED),
    ("sqlite-log", "SELECT sqlite_log(1, 'x')", CLOSED),
]

PRAGMAS = [
    (f"pragma-{i}", f"PRAGMA {p}", DENIED)
    for i, p in enumerate(
        (
            "writable_schema=ON",
            "query_only=OFF",
            "mmap_size=1000000000",
            "cache_size=-1000000",
            "journal_mode=WAL",
            "table_info(vault)",
            "database_list",
            "hard_heap_limit=0",
            "trusted_schema=ON",
            "temp_store_directory='.'",
            "user_version=7",
        )
    )
]

CATALOG = [
    (f"catalog-{i}", sql, CLOSED)
    for i, sql in enumerate(
        """SELECT * FROM sqlite_master
SELECT sql FROM sqlite_schema
SELECT sql FROM main.sqlite_schema
SELECT sql FROM main."sqlite_master"
SELECT sql FROM [SQLITE_MASTER]
SELECT sql FROM `sqlite_schema` AS animal
SELECT * FROM temp.sqlite_master
SELECT * FROM sqlite_temp_schema
SELECT count(*) FROM sqlite_master
SELECT 1 FROM temp.sqlite_schema
SELECT wombat FROM animal WHERE EXISTS (SELECT 1 FROM sqlite_master WHERE sql LIKE '%vault%')
SELECT wombat FROM animal WHERE 1 IN (SELECT rootpage FROM sqlite_master)
SELECT 1 IN sqlite_master
SELECT (SELECT group_concat(sql) FROM sqlite_master)
WITH animal AS (SELECT * FROM sqlite_master) SELECT * FROM animal
WITH a AS MATERIALIZED (SELECT sql FROM sqlite_schema) SELECT count(*) FROM a
SELECT wombat FROM animal UNION ALL SELECT sql FROM sqlite_master
SELECT * FROM animal NATURAL JOIN sqlite_master
SELECT * FROM animal LEFT JOIN main.sqlite_master AS vault ON 1
VALUES ((SELECT sql FROM sqlite_master LIMIT 1))
SELECT rowid FROM sqlite_master
SELECT max(length(sql)) OVER () FROM sqlite_master
SELECT * FROM pragma_table_info('vault')
SELECT * FROM pragma_table_xinfo('vault')
SELECT count(*) FROM pragma_table_info('vault')
SELECT 1 FROM pragma_table_list WHERE name = 'vault'
SELECT * FROM pragma_database_list
SELECT * FROM pragma_index_list('vault')
SELECT * FROM pragma_foreign_key_list('vault')
SELECT * FROM pragma_function_list
SELECT * FROM pragma_module_list
SELECT * FROM pragma_compile_options
SELECT * FROM animal, pragma_table_info(wombat)
SELECT * FROM dbstat
SELECT count(*) FROM dbstat
SELECT count(*) FROM dbstat('main')
SELECT * FROM sqlite_stmt
SELECT * FROM sqlite_dbpage
SELECT count(*) FROM sqlite_dbpage
SELECT * FROM bytecode('SELECT * FROM vault')
SELECT * FROM tables_used('SELECT * FROM heavy')
SELECT * FROM sqlite_stat1
SELECT * FROM sqlite_sequence
SELECT * FROM fts5vocab
SELECT * FROM json_each('[1]')
SELECT count(*) FROM json_tree('[1]')
SELECT * FROM generate_series(1, 10)
SELECT * FROM carray
SELECT * FROM sqlite_parameters""".splitlines()
    )
] + [
    (
        "json-each-huge",
        "SELECT count(*) FROM json_each((SELECT json_group_array(wombat) FROM animal))",
        CLOSED,
    ),
    (
        "catalog-cte-name",
        "WITH sqlite_master(sql) AS (SELECT 'mine') SELECT sql FROM sqlite_master",
        ("ok", "forbidden"),
    ),
    ("catalog-column", "SELECT sqlite_master.sql FROM animal", ("unknown_column",)),
    ("schema-typeof", "SELECT typeof(bilbi) FROM animal", ("unknown_column",)),
    ("hint-other-table", "SELECT bilbi, numbats FROM animal", ("unknown_column",)),
    ("hint-index", "SELECT wombat FROM animal INDEXED BY dunnar", ("syntax", "unknown_table")),
    ("hint-function", "SELECT bilby(1)", CLOSED),
    ("unknown-schema", "SELECT * FROM nowhere.vault", CLOSED),
    ("union-width", "SELECT * FROM animal UNION SELECT 1", WORDS),
    ("scalar-width", "SELECT (SELECT * FROM animal)", WORDS),
    (
        "ambiguous",
        "SELECT * FROM animal a JOIN animal b USING (quoka)",
        ("syntax", "unknown_column"),
    ),
]

MEMORY = [
    ("randomblob", "SELECT length(randomblob(1000000000))", CLOSED),
    ("zeroblob", "SELECT hex(zeroblob(1000000000))", CLOSED),
    ("printf-width", "SELECT printf('%999999999d', 1)", BIG),
    ("printf-precision", "SELECT length(printf('%.999999999f', 1))", ("memory", "ok")),
    ("printf-star", "SELECT length(printf('%.*c', 999999999, 'x'))", BIG),
    (
        "replace-growth",
        f"SELECT replace(replace({repeat('a', 900)}, 'a', {repeat('b', 900)}), 'b', {repeat('c', 900)})",
        BIG,
    ),
    (
        "doubling",
        "WITH RECURSIVE c(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM c) SELECT max(length(s)) FROM c",
        BIG,
    ),
    (
        "hex-doubling",
        "WITH RECURSIVE c(s) AS (SELECT 'x' UNION ALL SELECT hex(s) FROM c) SELECT max(length(s)) FROM c",
        BIG,
    ),
    (
        "quote-doubling",
        "WITH RECURSIVE c(s) AS (SELECT '''' UNION ALL SELECT quote(s) FROM c) SELECT max(length(s)) FROM c",
        BIG,
    ),
    (
        "json-doubling",
        "WITH RECURSIVE c(s) AS (SELECT '1' UNION ALL SELECT json_array(s, s) FROM c) SELECT max(length(s)) FROM c",
        BIG,
    ),
    ("group-concat", f"WITH {loop(10**9)} SELECT length(group_concat(n)) FROM k", BIG),
    ("json-group-array", f"WITH {loop(10**9)} SELECT length(json_group_array(n)) FROM k", BIG),
    ("json-group-object", f"WITH {loop(10**9)} SELECT length(json_group_object(n, n)) FROM k", BIG),
    (
        "distinct-wide",
        f"WITH {loop(10000)} SELECT count(*) FROM (SELECT DISTINCT printf('%018000d', n) FROM k)",
        BIG,
    ),
    ("sort-wide", f"WITH {loop(10000)} SELECT n FROM k ORDER BY printf('%018000d', -n)", BIG),
    (
        "materialize-wide",
        f"WITH {loop(10000)}, m AS MATERIALIZED (SELECT printf('%018000d', n) s FROM k) SELECT count(s) FROM m",
        BIG,
    ),
    ("percentile", f"WITH {loop(10**9)} SELECT median(n) FROM k", BIG),
    ("window-all", f"WITH {loop(10**9)} SELECT sum(n) OVER (ORDER BY n DESC) FROM k", BIG),
    (
        "window-concat",
        f"WITH {loop(3000)} SELECT group_concat(n) OVER (ORDER BY n) FROM k",
        BIG + OK,
    ),
    ("result-text", f"WITH {loop(10000)} SELECT printf('%018000d', n) FROM k", ("too_large",)),
    (
        "json-pretty",
        f"SELECT length(json_pretty({repeat('[', 900)} || {repeat(']', 900)}, printf('%018000d', 0)))",
        BIG,
    ),
    ("wide-integers", f"WITH {loop(20000)} SELECT {times('n + 1000', 100)} FROM k", BIG + OK),
    # once a hole: 399 MB. Characters are counted, cells are not; one emoji is 1 character and 88 bytes of Python
    (
        "wide-emoji",
        f"WITH {loop(19999)} SELECT {times(chr(39) + '😀' + chr(39), 200)} FROM k",
        BIG + SLOW + OK,
    ),
]

WORK = [
    (
        "endless-rows",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c",
        SLOW + OK,
    ),
    (
        "endless-silent",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c WHERE n < 0",
        SLOW,
    ),
    (
        "endless-distinct",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION SELECT n + 1 FROM c) SELECT count(*) FROM c",
        SLOW,
    ),
    (
        "endless-offset",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c LIMIT 1 OFFSET 999999999",
        SLOW,
    ),
    (
        "endless-fib",
        "WITH RECURSIVE c(a, b) AS (SELECT 1, 1 UNION ALL SELECT b, a + b FROM c) SELECT max(a) FROM c",
        SLOW + ("value",),
    ),
    ("cartesian", "SELECT count(*) FROM animal a, animal b, animal c, animal d, animal e", SLOW),
    ("cartesian-60", "SELECT count(*) FROM " + ", ".join(f"animal a{i}" for i in range(60)), SLOW),
    (
        "cartesian-sort",
        "SELECT a.wombat FROM animal a, animal b, animal c, animal d ORDER BY a.kilos * b.kilos",
        BIG,
    ),
    (
        "cartesian-group",
        "SELECT a.wombat, count(*) FROM animal a, animal b, animal c, animal d GROUP BY a.wombat || b.wombat || c.wombat",
        BIG,
    ),
    (
        "correlated",
        "SELECT (SELECT count(*) FROM animal b, animal c, animal d WHERE b.kilos < a.kilos) FROM animal a",
        SLOW,
    ),
    (
        "window-quadratic",
        f"WITH {loop(10000)} SELECT sum(n) OVER (ORDER BY n ROWS BETWEEN 5000 PRECEDING AND 5000 FOLLOWING EXCLUDE TIES) FROM k",
        SLOW,
    ),
    ("instr", over(ZEROS, "printf('%09500d', 0) || 'b'", "sum(instr(x, y || n))", 10000), SLOW),
    (
        "replace",
        over(ZEROS, "printf('%09500d', 0) || 'b'", "sum(length(replace(x, y || n, '')))", 10000),
        SLOW,
    ),
    (
        "replace-straight",
        over(ZEROS, "printf('%09500d', 0) || 'b'", times("sum(length(replace(x, y || #, '')))")),
        SLOW,
    ),
    (
        "like",
        over(
            ZEROS, "'%0%0%0%0%0%0%0%0%0%0%0%00000000000000000000000b'", times("sum(x || # LIKE y)")
        ),
        SLOW + OK,
    ),
    ("like-long", "SELECT 'a' LIKE " + repeat("%", 60), ("too_long",)),
    (
        "glob",
        over(ZEROS, "'*[0-9]*[0-9]*[0-9]*[0-9]*[0-9]*[0-9]*[0-9]*0b'", "sum(x || n GLOB y)", 5000),
        SLOW + OK,
    ),
    (
        "json-pretty-loop",
        over(
            repeat("[", 900) + "||" + repeat("]", 900),
            "'  '",
            "sum(length(json_pretty(x, y || n)))",
        ),
        BIG + SLOW,
    ),
    (
        "json-patch",
        over(
            keys('"%x":1', 1900),
            keys('"z%x":null', 1400),
            times("sum(length(json_patch(x || substr('     ', 1, # % 5), y)))"),
            100,
        ),
        SLOW + OK + CLOSED,
    ),
    # once a hole, all six: SQLite looks at the budget only where a program jumps back, so all calls in one row run to the end. Trimming
    # 19,000 characters by a set of 1,600 takes 40 ms, unhex with a long second argument 200 ms, instr 1.4 ms, LIKE 0.3 ms
    (
        "trim",
        over(ZEROS, repeat("b", 1600) + "|| '0'", times("length(trim(x, y || #))")),
        SLOW + CLOSED + ("memory",),
    ),
    (
        "rtrim",
        over(ZEROS, repeat("b", 1600) + "|| '0'", times("length(rtrim(x, y || #))")),
        SLOW + CLOSED + ("memory",),
    ),
    (
        "unhex",
        over(repeat("z", 10000), repeat("y", 10000) + "|| 'z0123'", times("unhex(x, y) IS #", 80)),
        SLOW + CLOSED,
    ),
    (
        "trim-copies",
        copies(ZEROS, repeat("b", 1600) + "|| '0'", "length(trim(x, y))", 2, 40),
        SLOW + CLOSED + ("memory",),
    ),
    (
        "instr-copies",
        copies(ZEROS, "printf('%09500d', 0) || 'b'", "instr(x, y)", 12, 180),
        SLOW + ("memory",),
    ),
    (
        "like-copies",
        copies(ZEROS, "'%0%0%0%0%0%0%0%0%0%0%0%00000000000000000000000b'", "(x LIKE y)", 20, 190),
        SLOW + ("memory",),
    ),
    (
        "nocase-sort",
        f"WITH {loop(3000)} SELECT count(*) FROM (SELECT printf('%018000d', n) s FROM k ORDER BY s COLLATE NOCASE LIMIT 9999 OFFSET 1)",
        BIG + SLOW + OK,
    ),
]

PREPARE = [
    ("prepare-bomb", doubling(22), LONG),
    (
        "prepare-bomb-union",
        "WITH a0(x) AS (SELECT 1)"
        + "".join(
            f", a{i} AS (SELECT * FROM a{i - 1} UNION ALL SELECT * FROM a{i - 1})"
            for i in range(1, 9)
        )
        + " SELECT * FROM a8",
        LONG + OK,
    ),
    (
        "prepare-bomb-expression",
        "SELECT x FROM "
        + "(SELECT x + x AS x FROM " * 22
        + "(SELECT kilos AS x FROM animal)"
        + ")" * 22,
        LONG,
    ),
    ("prepare-selects", doubling(40), ("too_long",)),
    ("prepare-in-list", "SELECT 1 IN (" + ",".join("1" * 1900) + ")", LONG + OK),
    ("prepare-join-64", "SELECT 1 FROM " + ", ".join(f"animal a{i}" for i in range(65)), LONG),
    (
        "prepare-natural",
        "SELECT 1 FROM " + " NATURAL JOIN ".join(f"animal a{i}" for i in range(60)),
        LONG + OK,
    ),
    (
        "prepare-or",
        "SELECT 1 FROM "
        + ", ".join(f"animal a{i}" for i in range(30))
        + " WHERE "
        + " AND ".join(
            f"(a{i}.quokka = a{(i * 7 + 3) % 30}.quokka OR a{i}.quokka = {i})" for i in range(30)
        )
        + " LIMIT 1",
        ANY,
    ),
    ("prepare-case", "SELECT " + "CASE WHEN 1 THEN " * 200 + "1" + " END" * 200, LONG),
    (
        "prepare-windows",
        "SELECT " + times("sum(kilos + #) OVER (ORDER BY kilos + #)", 70) + " FROM animal",
        LONG + OK,
    ),
    ("compound-500", " UNION ALL ".join(["SELECT 1"] * 24), LONG),
    ("columns-300", "SELECT " + times("#", 300), LONG),
    ("arguments-200", "SELECT max(" + times("#", 200) + ")", ("unknown_function", "too_long")),
]

TEXTS = [
    ("two-statements", "SELECT 1; DELETE FROM animal", DENIED),
    ("two-reads", "SELECT 1; SELECT * FROM sqlite_master", DENIED),
    ("two-comment", "SELECT 1; -- x\n DELETE FROM animal", DENIED),
    ("two-hidden", "SELECT '--'; DELETE FROM animal --'", DENIED),
    ("two-nested-comment", "SELECT 1 /* ; */ ; /* */ ATTACH 'x' AS y", DENIED),
    ("two-variable", "SELECT $a('); DELETE FROM animal; SELECT $a(')", LONG),
    ("two-bracket", "SELECT [a; DELETE FROM animal", WORDS + DENIED),
    ("explain", "EXPLAIN SELECT * FROM vault", DENIED),
    ("explain-plan", "EXPLAIN QUERY PLAN SELECT * FROM vault", DENIED),
    ("explain-comment", "/**/ -- SELECT\n EXPLAIN SELECT 1", DENIED),
    ("explain-later", "SELECT 1; EXPLAIN SELECT * FROM vault", DENIED),
    ("explain-with", "WITH x AS (SELECT 1) EXPLAIN SELECT 1", WORDS),
    ("parentheses", "SELECT " + "(" * 1900 + "1" + ")" * 1900, LONG + OK),
    ("parentheses-first", "(" * 1900 + "SELECT 1" + ")" * 1900, LONG),
    ("not-chain", "SELECT " + "NOT " * 900 + "1", LONG),
    ("minus-chain", "SELECT " + "- " * 1900 + "1", LONG),
    ("and-chain", "SELECT 1 FROM animal WHERE " + " AND ".join(["quokka > 1"] * 250), LONG),
    ("megabyte", "SELECT '" + "x" * 10**6 + "'", ("too_long",)),
    ("megabyte-spaces", " " * 10**6 + "SELECT 1", ("too_long",)),
    ("megabyte-parentheses", "(" * 10**6, ("too_long",)),
    ("nul-inside", "SELECT 1\0; DELETE FROM animal", WORDS),
    ("nul-literal", "SELECT 'a\0b'", WORDS),
    ("none", None, ("bad_type",)),
    ("number", 7, ("bad_type",)),
    ("list", ["SELECT 1"], ("bad_type",)),
    ("object", {"sql": "SELECT 1"}, ("bad_type",)),
    ("empty", "", DENIED),
    ("space", " \n\t", DENIED),
    ("semicolon", ";", DENIED),
    ("semicolon-first", ";SELECT 1", DENIED),
    ("comment-only", "-- SELECT 1", DENIED),
    ("comment-open", "/* SELECT 1", DENIED),
    ("comment-open-after", "SELECT 1 /* ; DELETE FROM animal", OK + DENIED),
    ("comment-split", "SEL/**/ECT 1", DENIED),
    ("string-open", "SELECT 'abc", WORDS),
    ("name-open", 'SELECT "abc', WORDS + ("unknown_column",)),
    ("byte-order-mark", "\ufeffDELETE FROM animal", DENIED),
    ("no-break-space", "\xa0SELECT 1", WORDS),
    ("fullwidth", "ＳＥＬＥＣＴ 1", DENIED),
    ("zero-width", "SEL\u200bECT 1", WORDS + DENIED),
    ("right-to-left", "SELECT 1 \u202e; DELETE FROM animal", DENIED),
    ("fullwidth-semicolon", "SELECT 1； DELETE FROM animal", WORDS + ("unknown_column",)),
    ("line-separator", "SELECT 1 -- x\u2028; DELETE FROM animal", OK + DENIED),
    ("turkish-i", "SELECT * FROM sqlıte_master", ("unknown_table", "syntax")),
    ("kelvin", "SELECT \u212ailos FROM animal", ("unknown_column",)),
    (
        "surrogate",
        "SELECT '\ud800'",
        ("syntax", "encoding", "bad_type"),
    ),  # once a hole: UnicodeEncodeError instead of QueryError
    ("parameter", "SELECT ?1, :a, @b", LONG),
    ("parameter-many", "SELECT ?999999999", WORDS + LONG),
    ("double-quoted", 'SELECT "no_such" FROM animal', ("unknown_column",)),
    ("shell", ".tables", DENIED),
    ("backslash", "\\dt", DENIED),
    ("use", "USE animal", DENIED),
    ("copy", "COPY animal TO 'x'", DENIED),
    ("bad-utf8", "SELECT CAST(x'fffe41' AS TEXT)", ("encoding",)),
    ("bad-utf8-name", "SELECT CAST(x'ff' AS TEXT) AS \"é\"", ("encoding",)),
    ("overflow", "SELECT abs(-9223372036854775808)", ("value",)),
    ("sum-overflow", "SELECT sum(9223372036854775807) FROM animal", ("value",)),
    ("infinity", "SELECT 9e999, -9e999", OK),
    ("nan", "SELECT 9e999 - 9e999, 0.0 / 0", OK),
    (
        "control-characters",
        "SELECT char(27) || '[2J', char(10, 13, 0, 8), 'a' || char(0) || 'b'",
        OK,
    ),
    ("fake-rows", "SELECT 'a | b' || char(10) || '... 900 rows, 20 shown'", OK),
    ("bad-json", "SELECT json('{')", ("value",)),
    ("bad-json-path", "SELECT json_extract('{}', 'x')", ("value",)),
    ("deep-json", f"SELECT json({repeat('[', 5000)} || {repeat(']', 5000)})", ("value", "memory")),
    ("long-name", 'SELECT 1 AS "' + "x" * 3900 + '"', OK),
]

CHANGING = [
    (f"changing-{i}", f"SELECT {f}", CLOSED)
    for i, f in enumerate(
        (
            "random()",
            "abs(random())",
            "wombat FROM animal ORDER BY random()",
            "changes()",
            "total_changes()",
            "last_insert_rowid()",
            "sqlite_version()",
            "sqlite_source_id()",
            "sqlite_offset(wombat) FROM animal",
            "sqlite_compileoption_get(0)",
            "sqlite_compileoption_used('THREADSAFE')",
            "hex(randomblob(8))",
        )
    )
] + [
    ("fts5-source-id", "SELECT fts5_source_id()", CLOSED)
]  # once a hole: tells the version of SQLite, as sqlite_source_id would

ATTACKS = WRITES + FILES + PRAGMAS + CATALOG + MEMORY + WORK + PREPARE + TEXTS + CHANGING

# --- The child process ---


def measure(work):
    "What `work` returned or raised, with its seconds and megabytes."
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:
        pass
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass
    before, start, cpu = memory("VmRSS"), time.monotonic(), time.process_time()
    try:
        kind, text = "ok", work()
    except QueryError as e:
        kind, text = e.kind, str(e)
    except BaseException as e:
        kind, text = f"UNCAUGHT {type(e).__name__}", str(e)
    wall, cpu = (
        time.monotonic() - start,
        time.process_time() - cpu,
    )  # on a busy machine, waiting for a core is not the attack's work
    return dict(
        kind=kind,
        text=text,
        seconds=min(wall, cpu + 0.05),
        wall=wall,
        megabytes=memory("VmHWM") - before,
    )


def memory(key):
    try:
        return next(
            int(line.split()[1]) / 1024
            for line in open("/proc/self/status")
            if line.startswith(key)
        )
    except OSError:
        return 0


def serve(path):
    "Answer requests, one JSON line each: a statement for the database at `path`, or another file to look at."
    database = Database(path)
    for line in sys.stdin:
        request = json.loads(line)
        if "file" in request:
            answer = measure(lambda: look(request["file"]))
        else:
            answer = measure(lambda: database.query(request["sql"]).text())
            answer["honest"] = database.query(HONEST).rows
            answer["pool"] = len(database._pool)
        print(json.dumps(answer), flush=True)


def look(path):
    "Use every table of a file like an agent; what came of each step."
    with Database(path) as database:
        return {
            t: [measure(lambda: str(step(t))) for step in steps(database)]
            for t in database.tables[:8]
        }


def steps(db):
    return (
        db.describe,
        lambda t: db.sample(t, 3).text(),
        lambda t: db.query(f"SELECT * FROM {quote_identifier(t)} LIMIT 3").text(),
        lambda t: db.query(f"SELECT count(*) FROM {quote_identifier(t)}").text(),
    )


class Child:
    def __init__(self, path):
        self.path, self.process = path, None

    def ask(self, seconds=30, **request):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(self.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        ready = select.select([self.process.stdout], [], [], seconds)[0]
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.close()
            pytest.fail("the child hangs" if not ready else "the child died")
        return json.loads(line)

    def close(self):
        if self.process:
            self.process.kill()
            self.process.communicate()
        self.process = None


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    "A folder that holds nothing but the database, with its bytes."
    folder = tmp_path_factory.mktemp("attacked")
    rows = dict(
        animal=[(i, f"wombat {i}", i * 7 % 300 + 0.5) for i in range(200)],
        vault=[(i, f"secret {i}") for i in range(20)],
    )
    path = build_database(folder / "hidden.sqlite", SCHEMA, rows)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def child(home):
    child = Child(home[0])
    yield child
    child.close()


@pytest.fixture(scope="module")
def costs():
    "Seconds and megabytes of each attack; the worst are printed with `pytest -n 0 -s`."
    found = []
    yield found
    for i, unit in ((1, "s"), (2, "MB")):
        print(
            "\nworst: "
            + ", ".join(f"{c[0]} {c[i]:.2f} {unit}" for c in sorted(found, key=lambda c: -c[i])[:6])
        )


def leaks(text, sql, folder):
    "Words in `text` that the agent must not learn from it."
    said = str(sql).lower()
    secrets = [c for t, columns in COLUMNS.items() if t not in said for c in columns] + [
        "create table",
        "create view",
        "create index",
        str(folder),
        folder.name,
        "hidden.sqlite",
        "sql_env",
    ]
    return [s for s in secrets if s.lower() in text.lower() and s.lower() not in said]


# --- Statements ---


def test_the_list_is_long_and_names_are_unique():
    assert len(ATTACKS) >= 80 and len({a[0] for a in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("sql,kinds", [pytest.param(*a[1:], id=a[0]) for a in ATTACKS])
def test_statement(sql, kinds, request, home, child, costs):
    path, digest = home
    answer = child.ask(sql=sql)
    costs.append((request.node.callspec.id, answer["seconds"], answer["megabytes"]))
    assert answer["kind"] in kinds, answer["text"][:300]
    assert not leaks(answer["text"], sql, path.parent)
    assert answer["honest"] == expected_honest()
    assert answer["pool"] == 1
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    assert answer["seconds"] <= SECONDS and answer["wall"] <= 5 * SECONDS
    assert answer["megabytes"] <= MEGABYTES


@pytest.mark.parametrize(
    "sql",
    [pytest.param(a[1], id=a[0]) for a in ATTACKS]
    + [
        pytest.param(
            "SELECT count(*) FROM "
            + ",".join(f"animal {chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(40)),
            id="brief-join",
        ),
        pytest.param("SELECT " + "+".join("abs(1)" for _ in range(65)), id="brief-sum"),
        pytest.param("SELECT " + "(" * 200 + "1" + ")" * 200, id="brief-nested"),
        pytest.param(f"SELECT '{'a' * 80}' LIKE '{'%a' * 6}%b'", id="brief-like"),
        pytest.param(
            "SELECT max(a.wombat || b.wombat || c.wombat) FROM animal a, animal b, animal c",
            id="brief-product",
        ),
    ],
)
def test_an_attempt_on_the_event_loop_is_brief(sql, home):
    "A server tries a statement where it answers everyone, so whatever is asked, the attempt ends at once, and an honest query works after it."

    def attempt():
        db = Database(home[0])
        db.query(HONEST)
        start = time.thread_time()
        try:
            with briefly:
                db.query(sql)
        except FastPathMiss:
            pass
        taken = time.thread_time() - start
        assert not briefly.on and db.query(HONEST).rows == [tuple(r) for r in expected_honest()]
        return taken

    assert min(attempt() for _ in range(3)) <= 0.03


def expected_honest():
    return [["wombat 10", 70.5], ["wombat 100", 100.5], ["wombat 101", 107.5]]


# --- Files ---


def make(path, *statements):
    "A file written by SQLite without guards, one statement at a time."
    con = apsw.Connection(str(path))
    for sql in statements:
        con.execute(sql).fetchall()
    con.close()
    return path


ROWS = f"WITH {loop(3000)} INSERT INTO t SELECT n, printf('row %d', n) FROM k"


def plain(path):
    return make(
        path, "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)", ROWS, "CREATE INDEX i ON t(b)"
    )


def damage(offset, length=64):
    def write_damage(path):
        data = bytearray(plain(path).read_bytes())
        data[offset : offset + length] = bytes(range(7, 7 + length))
        path.write_bytes(data)

    return write_damage


def cut(keep):
    return lambda path: path.write_bytes(plain(path).read_bytes()[:keep])


def junk(head):
    return lambda path: path.write_bytes(
        plain(path).read_bytes()[:head] + hashlib.shake_128(b"junk").digest(60_000)
    )


def magic(path):
    path.write_bytes(b"SQLite format 4\0" + plain(path).read_bytes()[16:])


def sql(*statements):
    return lambda path: make(path, *statements)


def wal(path):
    "A database whose last change is only in its write-ahead log, as after a crash."
    con = apsw.Connection(str(path))
    for statement in ("PRAGMA journal_mode=WAL", "CREATE TABLE t(a)", "INSERT INTO t VALUES (1)"):
        con.execute(statement).fetchall()
    saved = {p: p.read_bytes() for p in (path, path.with_name(path.name + "-wal"))}
    con.close()
    for p, data in saved.items():
        p.write_bytes(data)


def journal(path):
    "A database in the middle of a change, with the journal that would undo it, as after a crash."
    make(path, "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)", ROWS)
    con = apsw.Connection(str(path))
    for statement in ("PRAGMA cache_size=5", "BEGIN", "UPDATE t SET b = 'hal' || substr(b, 4)"):
        con.execute(statement).fetchall()
    saved = {p: p.read_bytes() for p in (path, path.with_name(path.name + "-journal"))}
    con.close()
    for p, data in saved.items():
        p.write_bytes(data)


NAMES = (
    'we"ird',
    "new\nline",
    "select",
    "a b",
    "semi;colon",
    "it's",
    "*",
    ";--",
    "[br]",
    "日本",
    "tab\tbed",
    "sqlite",
    "UPPER",
    "\u202eright",
)
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"
VIEWS = (
    "SELECT * FROM sqlite_master",
    "SELECT count(*) n FROM sqlite_schema",
    "SELECT random() n",
    ENDLESS,
    ENDLESS + " WHERE n < 0",
)
TWO = ("CREATE TABLE t(a)", "INSERT INTO t VALUES (1), (2)")
USED = (
    "ok",
    "operations",
    "timeout",
    "forbidden",
    "memory",
    "encoding",
    "too_long",
    "bad_database",
    "value",
    "syntax",
    "unknown_function",
    "unknown_table",
)

# name, how to write the file, what opening it gives
FILES_TO_OPEN = [
    ("zero-length", lambda path: path.write_bytes(b""), "bad_database"),
    ("directory", lambda path: path.mkdir(), "bad_database"),
    ("missing", lambda path: None, "bad_database"),
    ("no-tables", sql("CREATE TABLE t(a)", "DROP TABLE t"), "bad_database"),
    ("magic", magic, "bad_database"),
    ("junk", junk(0), "bad_database"),
    ("encrypted", junk(16), "bad_database"),
    ("encrypted-header-kept", junk(100), "bad_database"),
    ("text", lambda path: path.write_text("CREATE TABLE t(a);\n" * 900), "bad_database"),
    ("cut-header", cut(50), "bad_database"),
    ("cut-page", cut(4096), "bad_database"),
    ("cut-middle", cut(30_000), "bad_database"),
    ("wal", wal, "bad_database"),
    (
        "journal",
        journal,
        "bad_database",
    ),  # once a hole: opens, and serves rows of the unfinished change that SQLite would undo
    *(
        (f"damage-{offset}", damage(offset), None)
        for offset in (16, 28, 52, 100, 108, 4096, 8192, 20_000, 50_000, 61_000)
    ),
    ("views", sql(*TWO, *(f"CREATE VIEW v{i} AS {v}" for i, v in enumerate(VIEWS))), "ok"),
    (
        "view-bomb",
        sql(
            "CREATE VIEW v0 AS SELECT 1 x",
            *(f"CREATE VIEW v{i} AS SELECT p.x FROM v{i - 1} p, v{i - 1} q" for i in range(1, 26)),
        ),
        None,
    ),
    (
        "view-of-300",
        sql(f"CREATE TABLE t({times('c#', 150)})", "CREATE VIEW v AS SELECT * FROM t a, t b"),
        None,
    ),
    # once a hole: one view that can't be read (its table is gone) closes the whole file, as "damaged"
    ("view-broken", sql(*TWO, "CREATE VIEW v AS SELECT x FROM gone"), "ok"),
    (
        "view-pragma",
        sql(*TWO, "CREATE VIEW v AS SELECT * FROM pragma_database_list"),
        "ok",
    ),  # once a hole: same
    (
        "generated",
        sql(
            "CREATE TABLE t(a, b AS (printf('%.*c', a, 'x')), c AS (hex(zeroblob(a))))",
            "INSERT INTO t(a) VALUES (500000)",
        ),
        None,
    ),
    (
        "generated-slow",
        sql(
            "CREATE TABLE t(a, b AS (trim(a, a)) STORED, c AS (instr(a, a || 'x')))",
            f"INSERT INTO t(a) VALUES ({ZEROS})",
        ),
        None,
    ),
    (
        "check",
        sql(
            "CREATE TABLE t(a CHECK (length(printf('%.*c', a, 'x')) > 0))",
            "INSERT INTO t VALUES (500000)",
        ),
        "ok",
    ),
    (
        "trigger",
        sql(
            *TWO,
            "CREATE VIEW v AS SELECT * FROM t",
            "CREATE TRIGGER g INSTEAD OF DELETE ON v BEGIN DELETE FROM t; END",
            "CREATE TRIGGER h BEFORE INSERT ON t BEGIN SELECT load_extension('evil'); END",
        ),
        "ok",
    ),
    ("fts5-empty", sql(*TWO, "CREATE VIRTUAL TABLE docs USING fts5(body)"), "ok"),
    # once a hole: "damaged", because the check of virtual tables runs SQL with parameters, and VARIABLE_NUMBER is 0
    (
        "fts5",
        sql(
            *TWO,
            "CREATE VIRTUAL TABLE docs USING fts5(body)",
            "INSERT INTO docs VALUES ('secret words')",
        ),
        "ok",
    ),
    (
        "rtree",
        sql(*TWO, "CREATE VIRTUAL TABLE box USING rtree(id, low, high)"),
        "ok",
    ),  # once a hole: same
    ("dbstat", sql(*TWO, "CREATE VIRTUAL TABLE pages USING dbstat"), None),
    (
        "names",
        sql(
            *(
                s
                for n in NAMES
                for q in [quote_identifier(n)]
                for s in (
                    f'CREATE TABLE {q}("c d" INT, {q} TEXT)',
                    f"INSERT INTO {q} VALUES (1, 'x')",
                )
            )
        ),
        "ok",
    ),
    (
        "bad-utf8",
        sql(
            "CREATE TABLE t(a TEXT, b BLOB)", "INSERT INTO t VALUES (CAST(x'ff41' AS TEXT), x'ff')"
        ),
        "ok",
    ),
    (
        "bad-utf8-wide",
        sql(
            f"CREATE TABLE t({times('c#', 150)})",
            "INSERT INTO t(c0) VALUES (CAST(x'ff41' AS TEXT))",
        ),
        "ok",
    ),
    ("columns-3000", sql(), None),  # written in the test, for SQLite refuses it
    ("columns-2000", sql(f"CREATE TABLE t({times('c#', 2000)})"), None),
    (
        "huge-cell",
        sql("CREATE TABLE t(a)", "INSERT INTO t VALUES (printf('%.*c', 3000000, 'x')), ('small')"),
        "ok",
    ),
    ("long-schema", sql(f"CREATE TABLE t(a /* {'x' * 30_000} */)"), None),
    (
        "infinite",
        sql(
            "CREATE TABLE t(a)",
            "INSERT INTO t VALUES (9e999), (-9e999), (NULL), (''), (x''), (-0.0), (9223372036854775807)",
        ),
        "ok",
    ),
    (
        "utf16",
        sql("PRAGMA encoding='UTF-16le'", "CREATE TABLE t(a)", "INSERT INTO t VALUES ('日本😀')"),
        "ok",
    ),
    (
        "shadow-names",
        sql(
            "CREATE TABLE json_each(a)",
            "CREATE TABLE pragma_table_info(a)",
            "CREATE TABLE dbstat(a)",
        ),
        "ok",
    ),
]


def columns_3000(path):
    "Rewrite the schema by hand: a table of 3,000 columns."
    make(path, "CREATE TABLE t(a)")
    con = apsw.Connection(str(path))
    con.execute("PRAGMA writable_schema=ON").fetchall()
    con.execute("UPDATE sqlite_schema SET sql = ?", (f"CREATE TABLE t({times('c#', 3000)})",))
    con.close()


@pytest.mark.parametrize("build,expected", [pytest.param(*f[1:], id=f[0]) for f in FILES_TO_OPEN])
def test_file(build, expected, request, child, costs, tmp_path):
    name = request.node.callspec.id
    path = tmp_path / "hostile.sqlite"
    (columns_3000 if name == "columns-3000" else build)(path)
    before = {p: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    answer = child.ask(file=str(path))
    costs.append((name, answer["seconds"], answer["megabytes"]))
    assert answer["kind"] in ((expected,) if expected else ("ok", "bad_database")), answer["text"]
    assert answer["seconds"] <= 2 * SECONDS and answer["megabytes"] <= MEGABYTES
    assert {p: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before
    used = [s for table in answer["text"].values() for s in table] if answer["kind"] == "ok" else []
    for step in used:
        assert step["kind"] in USED and step["seconds"] <= SECONDS, step
    for text in [s["text"] for s in used] if used else [answer["text"]]:
        assert str(tmp_path) not in text and "CREATE" not in text.upper()


def test_names_that_need_quotes(tmp_path):
    path = make(
        tmp_path / "names.sqlite",
        *(f"CREATE TABLE {quote_identifier(n)}(a)" for n in (*NAMES, " lead", "É")),
    )
    with Database(path) as db:
        for n in (*NAMES, " lead", "É"):
            assert db.describe(n if n != " lead" else '" lead"').name == n
            assert (
                db.describe(quote_identifier(n)).name == n
            )  # once a hole for we"ird: doubled quotes are not read back


def test_errors_of_a_file_that_vanishes(tmp_path):
    path = plain(tmp_path / "t.sqlite")
    with Database(path) as db:
        path.unlink()
        with pytest.raises(QueryError) as e:
            db.query("SELECT * FROM t")
        assert (
            e.value.kind == "bad_database"
        )  # once a hole: "syntax: unable to open database file."
        assert str(tmp_path) not in str(e.value)


# --- Real data ---


def test_spider_gold_runs_unchanged(spider_path):
    "All gold of Spider gives the same rows with and without guards; one distinct query is over the budget of operations."
    limits, over, wrong, seen = Limits(quoted_text=True), set(), [], set()
    for name in ("dev.json", "train_spider.json"):
        for row in json.loads((spider_path / name).read_text()):
            seen.add((row["db_id"], row["query"]))
    for db_id in sorted({d for d, _ in seen}):
        path = spider_path / "database" / db_id / f"{db_id}.sqlite"
        if not path.is_file():
            continue
        plain_con = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        with Database(path, limits) as db:
            for query in sorted(q for d, q in seen if d == db_id):
                try:
                    expected = plain_con.execute(query).fetchall()
                except apsw.Error:
                    continue  # gold that does not run has nothing to keep
                try:
                    result = db.query(query)
                except QueryError as e:
                    if e.kind == "operations":
                        over.add((db_id, query))
                    else:
                        wrong.append((db_id, query, e.kind, str(e)))
                else:
                    if repr(result.rows) != repr(expected) or result.truncated:
                        wrong.append((db_id, query, "rows", ""))
        plain_con.close()
    assert not wrong, wrong[:5]
    assert len(over) == 1, over


# --- A process of its own ---


def test_stopped_child_is_killed(home):
    limits = Limits(seconds=0.5)
    with Database(home[0], limits, isolate=True) as db:
        db.query(HONEST)
        process = db._pool[0].process
        os.kill(process.pid, signal.SIGSTOP)
        start = time.monotonic()
        with pytest.raises(QueryError) as e:
            db.query(HONEST)
        assert time.monotonic() - start <= limits.seconds + db._pool[0].grace + 0.5
        assert e.value.kind == "timeout" and process.returncode is not None
        assert list(map(list, db.query(HONEST).rows)) == expected_honest()


def test_killed_child_is_replaced(home):
    with Database(home[0], isolate=True) as db:
        db.query(HONEST)
        os.kill(db._pool[0].process.pid, signal.SIGKILL)
        with pytest.raises(QueryError):
            db.query(HONEST)
        assert list(map(list, db.query(HONEST).rows)) == expected_honest()


@pytest.mark.parametrize(
    "sql",
    [
        HONEST,
        "SELECT 9e999, x'00ff', 'é😀', 1.5e300, -9223372036854775808, NULL",
        "SELECT womba FROM animal",
        "SELECT * FROM anima",
        "SELECT * FROM sqlite_master",
        "DELETE FROM animal",
        "SELECT 1; SELECT 2",
        "SELECT CAST(x'ff' AS TEXT)",
        ENDLESS,
        None,
        "SELECT 1 AS a; -- x",
        pytest.param(
            f"WITH {loop(10000)} SELECT printf('%018000d', n) FROM k", id="too-large"
        ),  # once a hole: the hint of the child is lost
        pytest.param("SELECT '\ud800'", id="surrogate"),
    ],
)  # once a hole: UnicodeEncodeError here, "memory" there
def test_isolated_answers_as_in_process(home, both, sql):
    answers = []
    for db in both:
        try:
            answers.append(db.query(sql))
        except QueryError as e:
            answers.append((e.kind, e.message, e.hint))
    assert answers[0] == answers[1]


@pytest.fixture(scope="module")
def both(home):
    with Database(home[0]) as a, Database(home[0], isolate=True) as b:
        yield a, b


FORK = """
import os, sys, time
from sql_env.database import Database, QueryError
db = Database(sys.argv[1], isolate=sys.argv[2] == "1")
db.query("SELECT 0")
pid = os.fork()
me, right, end = ("parent" if pid else "child"), 0, time.monotonic() + 3
for i in range(100):
    try: right += db.query(f"SELECT '{me}', {i}").rows == [(me, i)]
    except Exception: pass
    if time.monotonic() > end: break
if pid == 0: os._exit(0 if right == 100 else 1)
sys.exit(0 if right == 100 and os.waitpid(pid, 0)[1] == 0 else 1)
"""


# once a hole for "1": both processes talk to one child through one pipe, and get each other's rows
@pytest.mark.parametrize("isolate", ["0", "1"])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_keeps_answers_apart(home, isolate):
    assert (
        subprocess.run([sys.executable, "-c", FORK, str(home[0]), isolate], timeout=30).returncode
        == 0
    )


def test_pickle_opens_its_own_connections(home):
    with Database(home[0]) as db:
        db.query(HONEST)
        with pickle.loads(pickle.dumps(db)) as other:
            assert (
                other.query(HONEST).rows == db.query(HONEST).rows
                and other._pool[0] is not db._pool[0]
            )


# --- Races ---


def test_eight_threads_share_one_database(home):
    statements = [f"SELECT wombat FROM animal WHERE quokka = {i}" for i in range(60)] + [
        HONEST,
        "SELECT nope FROM animal",
        "SELECT * FROM sqlite_master",
        "DELETE FROM animal",
        "SELECT count(*) FROM animal a, animal b, animal c, animal d",
        "SELECT CAST(x'ff' AS TEXT)",
        f"WITH {loop(300)} SELECT printf('%018000d', n) FROM k",
    ]

    def outcome(db, sql):
        try:
            return db.query(sql).rows
        except QueryError as e:
            return e.kind, str(e)

    with Database(home[0]) as db:
        expected, samples = (
            {s: outcome(db, s) for s in statements},
            [db.sample("animal", seed=i).rows for i in range(300)],
        )
    wrong = []
    with Database(home[0]) as db:

        def work(j):
            for i in range(250):
                s, seed = statements[(i * 7 + j * 13) % len(statements)], (i * 11 + j * 37) % 300
                try:
                    if (found := outcome(db, s)) != expected[s]:
                        wrong.append((s, found))
                    if (found := db.sample("animal", seed=seed).rows) != samples[seed]:
                        wrong.append((seed, found))
                except Exception as e:
                    wrong.append(repr(e))

        threads = [threading.Thread(target=work, args=(j,)) for j in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(db._pool) <= 8
    assert not wrong, wrong[:3]


def test_close_while_others_read(home):
    for _ in range(20):
        db, odd = Database(home[0]), []

        def work():
            for i in range(60):
                try:
                    db.query(HONEST)
                except QueryError as e:
                    odd.extend([e] if e.kind != "closed" else [])
                except Exception as e:
                    odd.append(e)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        db.close()
        for t in threads:
            t.join()
        assert not odd


# --- The same answer every time ---


def test_verdict_at_the_edge_of_the_budget_is_the_same_cached_and_fresh(home):
    limits = Limits(operations=20_000)

    def verdict(db, n):
        try:
            return db.query(f"WITH {loop(n)} SELECT max(n) FROM k").rows
        except QueryError as e:
            return e.kind

    def fresh(n):
        with Database(home[0], limits) as db:
            return verdict(db, n)

    edge = next(n for n in range(1000, 3000) if fresh(n) == "operations")
    expected = {n: fresh(n) for n in range(edge - 12, edge + 12)}
    with Database(home[0], limits) as db:
        for i in range(3000):
            assert verdict(db, n := edge - 12 + i * i % 24) == expected[n]


CLOCKS = "SELECT date('now'), datetime(), CURRENT_TIMESTAMP, julianday('now'), strftime('%s %f', 'now'), unixepoch('now', 'subsec')"


# once a hole for localtime: the time zone of the machine shows
@pytest.mark.parametrize(
    "sql",
    [
        CLOCKS,
        pytest.param(
            "SELECT datetime('2024-06-01', 'localtime'), datetime('2024-06-01', 'utc')",
            id="localtime",
        ),
    ],
)
def test_clocks_stand_still_everywhere(home, sql):
    code = "import sys\nfrom sql_env.database import *\ntry: print(Database(sys.argv[1]).query(sys.argv[2]).rows)\nexcept QueryError as e: print(e.kind)"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code, str(home[0]), sql],
            env={**os.environ, "TZ": zone},
            capture_output=True,
            text=True,
        ).stdout
        for zone in ("UTC", "America/New_York", "Asia/Tokyo")
    ]
    assert runs[0] and len(set(runs)) == 1, runs


@pytest.mark.parametrize(
    "sql",
    [
        "/* x */ SELECT 1 AS a",
        " \n SELECT 1 AS a \n",
        "SELECT 1 AS a;",
        "SELECT 1 AS a ;; ",
        "SELECT 1 AS a -- x",
        "SELECT 1 AS a; -- x",
        "SELECT 1 AS a;\t/* x */;",
    ],
)  # once a hole for the last two: no column names
def test_comments_around_a_statement_change_nothing(both, sql):
    for _ in range(3):
        assert both[0].query(sql) == Result(("a",), [(1,)])


# --- What one agent leaves to the next ---


# once a hole: 64 cached statements of nearly 1 MB each fill the heap that all connections share, until they are evicted
def test_statements_of_one_agent_do_not_starve_another(home):
    code = f"""import sys
from sql_env.database import *
db, honest = Database(sys.argv[1]), "WITH {loop(1500)} SELECT count(*) FROM (SELECT DISTINCT printf('%018000d', n) FROM k)"
first = db.query(honest).rows
for i in range(70):
    try: db.query(f"WITH d(x) AS (SELECT {{i}} + " + "||".join(["abs(kilos)"] * 25) + " FROM animal) SELECT " + ",".join(["x"] * 150) + " FROM d LIMIT 1")
    except QueryError: pass
assert db.query(honest + " -- again").rows == first"""
    assert (
        subprocess.run([sys.executable, "-c", code, str(home[0])], capture_output=True).returncode
        == 0
    )


# once a hole: 300 MB; the names of 500 statements are kept, however long
def test_names_of_old_statements_are_forgotten(home):
    code = """import sys
sys.path.insert(0, sys.argv[2])
from sql_env.database import *
from test_attacks import memory
db = Database(sys.argv[1])
def ask(i): db.query(f'WITH c("{"A" * 3000}{i}") AS (VALUES (1)) SELECT ' + ",".join(["a.*"] * 180) + " FROM c a")
ask(0); before = memory("VmRSS")
for i in range(490): ask(i)
sys.exit(memory("VmRSS") - before > 100)"""
    assert (
        subprocess.run(
            [sys.executable, "-c", code, str(home[0]), str(Path(__file__).parent)],
            capture_output=True,
        ).returncode
        == 0
    )


# once a hole: the heap limit belongs to the process, so an agent's limit also holds for the grader (with isolate=True it does not)
def test_gold_limits_have_no_heap_limit(home):
    code = f"""import sys
from sql_env.database import *
agent, grader = Database(sys.argv[1]), Database(sys.argv[1], Limits.gold())
assert grader.query("WITH {loop(6000)} SELECT count(*) FROM (SELECT DISTINCT printf('%018000d', n) FROM k)").rows == [(6000,)]"""
    assert (
        subprocess.run([sys.executable, "-c", code, str(home[0])], capture_output=True).returncode
        == 0
    )


# --- Fair words for fair queries ---


@pytest.mark.parametrize(
    "sql,kind",
    [
        (
            f"WITH RECURSIVE series{loop(9)[1:].replace(' k ', ' series ')} SELECT count(*) FROM series",
            "ok",
        ),  # once a hole: a name that begins like a module's
        (
            "SELECT '" + "船" * 1500 + "'",
            "ok",
        ),  # once a hole: "memory"; characters are counted here, bytes in SQLite
        (doubling(22), "too_long"),  # once a hole: "syntax"
        ("SELECT near function function", "syntax"),  # once a hole: "unknown_function"
        ("SELECT near overflow overflow", "syntax"),  # once a hole: "value"
    ],
    ids=["count-of-series", "bytes", "nested", "function", "overflow"],
)
def test_kind_fits(both, sql, kind):
    try:
        found = both[0].query(sql) and "ok"
    except QueryError as e:
        found = e.kind
    assert found == kind


# once a hole: rows far into a big table are out of reach of the budget, so SAMPLE of such a table always fails
def test_sample_of_a_big_table(tmp_path):
    path = make(
        tmp_path / "big.sqlite",
        "CREATE TABLE big(id INTEGER PRIMARY KEY, v INT)",
        f"WITH {loop(100_000)} INSERT INTO big SELECT n, n FROM k",
    )
    with Database(
        path, Limits(operations=100_000)
    ) as db:  # like 5 million rows with the usual limits
        assert [len(db.sample("big", seed=s).rows) for s in range(3)] == [5, 5, 5]


@pytest.mark.parametrize(
    "name",
    [
        "x" * 10**6,
        "\ud800",
        "a\0b",
        "",
        " ",
        "'",
        '""',
        "; DROP TABLE animal",
        "animal; --",
        "sqlite_master",
        "main.animal",
        None,
        7,
        b"animal",
    ],
)
def test_describe_of_anything_is_a_clear_error(both, name):
    start = time.monotonic()
    for action in (both[0].describe, both[0].sample):
        with pytest.raises(QueryError) as e:
            action(name)
        assert e.value.kind in ("unknown_table", "bad_type") and len(str(e.value)) < 500
        str(e.value).encode()  # once a hole for a surrogate: the message can't be sent
    assert time.monotonic() - start < 1


def test_writing_a_long_number_is_quick():
    start = time.monotonic()
    format_value(
        "1" * 8000 + "x"
    )  # once a hole: 1.5 s, and 9 s for 20,000 characters; the pattern of numbers backtracks
    assert time.monotonic() - start < 0.2


if __name__ == "__main__":
    serve(sys.argv[1])
