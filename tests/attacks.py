"""Attacks on `sql_env.database.database`: hostile statements and hostile files. Each must be refused or harmless.

A comment `once a hole` says what went wrong before the hole was closed; its test keeps it closed.
"""

import hashlib

import apsw
from tables import cases

from sql_env.database.database import build_database
from sql_env.sql.text import quote_identifier

HONEST = "SELECT wombat, kilos FROM animal WHERE kilos > 20 ORDER BY wombat LIMIT 3"
SCHEMA = """CREATE TABLE animal(quokka INTEGER PRIMARY KEY, wombat TEXT, kilos REAL);
    CREATE TABLE vault(numbat INTEGER PRIMARY KEY, bilby TEXT REFERENCES animal);
    CREATE INDEX dunnart ON vault(bilby);
    CREATE VIEW heavy AS SELECT wombat FROM animal WHERE kilos > 100;"""
COLUMNS = {"animal": ("quokka", "wombat", "kilos"), "vault": ("numbat", "bilby", "dunnart")}  # and an index


# --- Building blocks of statements ---
def repeat(char, n):
    "A text of `n` times the same character."
    return f"replace(printf('%0{n}d', 0), '0', '{char}')"


def loop(n):
    "A CTE `k` of the numbers from 1 to `n`."
    return f"k(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM k LIMIT {n})"


def over(x, y, expression, n=1000):
    "An expression of two long values `x` and `y` and a counter `n`, on each row of a loop."
    values = f"t(x) AS MATERIALIZED (SELECT {x}), u(y) AS MATERIALIZED (SELECT {y})"
    return f"WITH RECURSIVE {loop(n)}, {values} SELECT {expression} FROM k, t, u"


def copies(x, y, expression, terms, columns):
    "A sum of `terms` expressions that SQLite copies into each of `columns` columns: code without a jump."
    total, selected = " + ".join([expression] * terms), ", ".join(["z"] * columns)
    values = f"t(x) AS MATERIALIZED (SELECT {x}), u(y) AS MATERIALIZED (SELECT {y})"
    return f"WITH {values} SELECT {selected} FROM (SELECT {total} AS z FROM t, u)"


def times(expression, n=50):
    return ", ".join(expression.replace("#", str(i)) for i in range(n))


def keys(form, n):
    members = f"WITH RECURSIVE {loop(n)} SELECT printf('{form}', n) s FROM k"
    return f"(SELECT '{{' || group_concat(s) || '}}' FROM ({members}))"


def doubling(n):
    "`n` CTEs, each a join of the one before with itself."
    return (
        "WITH a0(x) AS (SELECT 1)"
        + "".join(f", a{i}(x) AS (SELECT p.x FROM a{i - 1} p, a{i - 1} q)" for i in range(1, n))
        + f" SELECT x FROM a{n - 1}"
    )


ZEROS = "printf('%019000d', 0)"
TRIMMED = repeat("b", 1600) + "|| '0'"
WILD = "'%0%0%0%0%0%0%0%0%0%0%0%00000000000000000000000b'"
SLOW = ("operations", "timeout")
DENIED = (*SLOW, "forbidden", "unknown_table", "unknown_function")
BIG = ("memory", "too_large", "operations")
LONG = ("too_long", "syntax", "memory")
ANY = tuple("operations timeout memory too_large too_long syntax forbidden value ok".split())
OK = ("ok",)


def nested(levels, first, expression):
    "A SELECT of `expression` of `x` from the one before, `levels` times."
    sql = f"SELECT {first} AS x FROM animal"
    for _ in range(levels):
        sql = f"SELECT {expression} AS x FROM ({sql})"
    return sql


def animals(n, between=", "):
    "A SELECT from a table `n` times."
    return f"SELECT 1 FROM {between.join(f'animal a{i}' for i in range(n))}"


UNIONS = "".join(f", a{i} AS (SELECT * FROM a{i - 1} UNION ALL SELECT * FROM a{i - 1})" for i in range(1, 9))
ORS = " AND ".join(f"(a{i}.quokka = a{(i * 7 + 3) % 30}.quokka OR a{i}.quokka = {i})" for i in range(30))
PATCH = times("sum(length(json_patch(x || substr('     ', 1, # % 5), y)))")
PRETTY = "sum(length(json_pretty(x, y || n)))"
DISTINCT = times("count(DISTINCT s || #)", 90)
# Name, statement, kinds that are right; those that can be written out are data
ATTACKS = [
    *cases("attacks_plain"),
    ("wide-integers", f"WITH {loop(20000)} SELECT {times('n + 1000', 100)} FROM k", BIG + OK),
    # once a hole: 399 MB. Characters are counted, cells are not; one emoji is 1 character and 88 bytes of Python
    ("wide-emoji", f"WITH {loop(19999)} SELECT {times(chr(39) + '😀' + chr(39), 200)} FROM k", BIG + SLOW + OK),
    ("cartesian-60", animals(60).replace("1", "count(*)", 1), SLOW),
    (
        "replace-straight",
        over(ZEROS, "printf('%09500d', 0) || 'b'", times("sum(length(replace(x, y || #, '')))")),
        SLOW,
    ),
    ("like", over(ZEROS, WILD, times("sum(x || # LIKE y)")), SLOW + OK),
    ("like-long", "SELECT 'a' LIKE " + repeat("%", 60), ("too_long",)),
    ("json-pretty-loop", over(repeat("[", 900) + "||" + repeat("]", 900), "'  '", PRETTY), DENIED[2:]),
    ("json-patch", over(keys('"%x":1', 1900), keys('"z%x":null', 1400), PATCH, 100), DENIED + OK),
    # once a hole, all six: SQLite looks at the budget only where a program jumps back, so all calls in one row run to
    # the end. Trimming 19,000 characters by a set of 1,600 takes 40 ms, unhex with a long second argument 200 ms,
    # instr 1.4 ms, LIKE 0.3 ms
    ("trim", over(ZEROS, TRIMMED, times("length(trim(x, y || #))")), (*DENIED, "memory")),
    ("rtrim", over(ZEROS, TRIMMED, times("length(rtrim(x, y || #))")), (*DENIED, "memory")),
    ("unhex", over(repeat("z", 10000), repeat("y", 10000) + "|| 'z0123'", times("unhex(x, y) IS #", 80)), DENIED),
    ("trim-copies", copies(ZEROS, TRIMMED, "length(trim(x, y))", 2, 40), (*DENIED, "memory")),
    ("instr-copies", copies(ZEROS, "printf('%09500d', 0) || 'b'", "instr(x, y)", 12, 180), (*SLOW, "memory")),
    ("like-copies", copies(ZEROS, WILD, "(x LIKE y)", 20, 190), (*SLOW, "memory")),
    ("prepare-bomb", doubling(22), LONG),
    ("prepare-bomb-union", f"WITH a0(x) AS (SELECT 1){UNIONS} SELECT * FROM a8", LONG + OK),
    (
        "prepare-bomb-expression",
        "SELECT x FROM " + "(SELECT x + x AS x FROM " * 22 + "(SELECT kilos AS x FROM animal)" + ")" * 22,
        LONG,
    ),
    ("prepare-selects", doubling(40), ("too_long",)),
    ("prepare-in-list", "SELECT 1 IN (" + ",".join("1" * 1900) + ")", LONG + OK),
    ("prepare-join-64", animals(65), LONG),
    ("prepare-natural", animals(60, " NATURAL JOIN "), LONG + OK),
    ("prepare-or", f"{animals(30)} WHERE {ORS} LIMIT 1", ANY),
    ("prepare-case", "SELECT " + "CASE WHEN 1 THEN " * 200 + "1" + " END" * 200, LONG),
    ("prepare-windows", f"SELECT {times('sum(kilos + #) OVER (ORDER BY kilos + #)', 70)} FROM animal", LONG + OK),
    ("compound-500", " UNION ALL ".join(["SELECT 1"] * 24), LONG),
    ("columns-300", "SELECT " + times("#", 300), LONG),
    ("arguments-200", "SELECT max(" + times("#", 200) + ")", ("unknown_function", "too_long")),
    ("parentheses", "SELECT " + "(" * 1900 + "1" + ")" * 1900, LONG + OK),
    ("parentheses-first", "(" * 1900 + "SELECT 1" + ")" * 1900, LONG),
    ("not-chain", "SELECT " + "NOT " * 900 + "1", LONG),
    ("minus-chain", "SELECT " + "- " * 1900 + "1", LONG),
    ("and-chain", "SELECT 1 FROM animal WHERE " + " AND ".join(["quokka > 1"] * 250), LONG),
    ("megabyte", "SELECT '" + "x" * 10**6 + "'", ("too_long",)),
    ("megabyte-spaces", " " * 10**6 + "SELECT 1", ("too_long",)),
    ("megabyte-parentheses", "(" * 10**6, ("too_long",)),
    ("list", ["SELECT 1"], ("bad_type",)),
    # once a hole: UnicodeEncodeError instead of QueryError
    ("surrogate", "SELECT '\ud800'", ("syntax", "encoding", "bad_type")),
    ("long-name", 'SELECT 1 AS "' + "x" * 3900 + '"', OK),
    ("many-distinct", f"WITH {loop(600)} SELECT {DISTINCT} FROM (SELECT printf('%05000d', n) s FROM k)", BIG + LONG),
    ("prepare-bomb-wide", nested(3, "kilos", "+".join(["x"] * 40)), BIG + LONG),
    ("prepare-bomb-function", nested(9, "kilos", "max(x, x, x, x, x, x, x)"), BIG + LONG),
    (
        "prepare-bomb-alias",
        nested(0, "+".join(["kilos"] * 45), "") + f" ORDER BY {'+'.join(['x'] * 45)}",
        BIG + LONG + OK,
    ),
]


def write_home(folder):
    "The database that the statements attack."
    rows = dict(
        animal=[(i, f"wombat {i}", i * 7 % 300 + 0.5) for i in range(200)],
        vault=[(i, f"secret {i}") for i in range(20)],
    )
    return build_database(folder / "hidden.sqlite", SCHEMA, rows)


# --- Files ---
def make(path, *statements):
    "A file written by SQLite without guards, one statement at a time."
    con = apsw.Connection(str(path))
    for sql in statements:
        con.execute(sql).fetchall()
    con.close()
    return path


ROWS = f"WITH {loop(3000)} INSERT INTO t SELECT n, printf('row %d', n) FROM k"
PLAIN = ("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)", ROWS)
JUNK = hashlib.shake_128(b"junk").digest(60_000)


def changed(change):
    "A plain file whose bytes are changed."
    return lambda path: path.write_bytes(change(make(path, *PLAIN, "CREATE INDEX i ON t(b)").read_bytes()))


def damage(at, length=64):
    return changed(lambda data: data[:at] + bytes(range(7, 7 + length)) + data[at + length :])


def cut(keep):
    return changed(lambda data: data[:keep])


def junk(head):
    return changed(lambda data: data[:head] + JUNK)


def sql(*statements):
    return lambda path: make(path, *statements)


def crashed(path, beside, *statements):
    "A file and the one beside it as they are when a process ends in the middle of a change."
    con = apsw.Connection(str(path))
    for statement in statements:
        con.execute(statement).fetchall()
    saved = {p: p.read_bytes() for p in (path, path.with_name(path.name + beside))}
    con.close()
    for p, data in saved.items():
        p.write_bytes(data)


def wal(path):
    "The last change is only in the write-ahead log."
    crashed(path, "-wal", "PRAGMA journal_mode=WAL", "CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")


def journal(path):
    "A journal would undo the last change."
    make(path, *PLAIN)
    crashed(path, "-journal", "PRAGMA cache_size=5", "BEGIN", "UPDATE t SET b = 'hal' || substr(b, 4)")


def wal_behind_a_link(path):
    "A symbolic link to a database whose last change is only in its write-ahead log."
    folder = path.with_name("elsewhere")
    folder.mkdir()
    wal(folder / "real.sqlite")
    path.symlink_to(folder / "real.sqlite")


NAMES = tuple(cases("attacks_names"))
QUOTED = [quote_identifier(name) for name in NAMES]
KINDS_OF_STEPS = tuple(cases("attacks_kinds_of_steps"))
DOUBLED = (f"CREATE VIEW v{i} AS SELECT p.x FROM v{i - 1} p, v{i - 1} q" for i in range(1, 26))
NAMED = ((f'CREATE TABLE {q}("c d" INT, {q} TEXT)', f"INSERT INTO {q} VALUES (1, 'x')") for q in QUOTED)
WIDER = f"UPDATE sqlite_schema SET sql = 'CREATE TABLE t({times('c#', 3000)})'"
BAD_UTF8 = "INSERT INTO t(c0) VALUES (CAST(x'ff41' AS TEXT))"


def columns(n, *statements):
    return sql(f"CREATE TABLE t({times('c#', n)})", *statements)


# name, how to write the file, what opening it gives
FILES_TO_OPEN = [
    ("zero-length", lambda path: path.write_bytes(b""), "bad_database"),
    ("directory", lambda path: path.mkdir(), "bad_database"),
    ("missing", lambda path: None, "bad_database"),
    ("magic", changed(lambda data: b"SQLite format 4\0" + data[16:]), "bad_database"),
    ("junk", junk(0), "bad_database"),
    ("encrypted", junk(16), "bad_database"),
    ("encrypted-header-kept", junk(100), "bad_database"),
    ("text", lambda path: path.write_text("CREATE TABLE t(a);\n" * 900), "bad_database"),
    ("cut-header", cut(50), "bad_database"),
    ("cut-page", cut(4096), "bad_database"),
    ("cut-middle", cut(30_000), "bad_database"),
    ("wal", wal, "bad_database"),
    # once a hole: opens, and serves rows of the unfinished change that SQLite would undo
    ("journal", journal, "bad_database"),
    *((f"damage-{at}", damage(at), None) for at in (16, 28, 52, 100, 108, 4096, 8192, 20_000, 50_000, 61_000)),
    *((name, sql(*statements), opened) for name, statements, opened in cases("attacks_files")),
    ("view-bomb", sql("CREATE VIEW v0 AS SELECT 1 x", *DOUBLED), None),
    ("view-of-300", columns(150, "CREATE VIEW v AS SELECT * FROM t a, t b"), None),
    ("names", sql(*(statement for both in NAMED for statement in both)), "ok"),
    ("bad-utf8-wide", columns(150, BAD_UTF8), "ok"),
    # once a hole: 511 of 3,001 tables were not there, and 20,000 were called damage
    ("tables-3001", sql("BEGIN", *(f"CREATE TABLE t{i}(a, b)" for i in range(3001)), "COMMIT"), "ok"),
    ("columns-3000", sql("CREATE TABLE t(a)", "PRAGMA writable_schema=ON", WIDER), None),
    ("columns-250", columns(250, "INSERT INTO t(c1) VALUES (1)"), "ok"),
    # once a hole: "damaged", because SQLite's limit on columns held for the definitions too
    ("columns-1999", columns(1999, "INSERT INTO t(c1) VALUES (1)"), "ok"),
    # once a hole: what the log beside the target holds was not seen, and rows were missing
    ("wal-behind-a-link", wal_behind_a_link, "bad_database"),
    ("columns-2000", columns(2000), None),
    ("long-schema", sql(f"CREATE TABLE t(a /* {'x' * 30_000} */)"), None),
]
BUILDERS = {name: build for name, build, _ in FILES_TO_OPEN}
