"""Pairs of queries that look equal and are not, and small databases that show it.

Each pair differs on at least one of the databases, so no pair may ever be proved equal under the facts of that one.
"""

import apsw

SCHEMA = """
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, s TEXT, r REAL, x);
CREATE TABLE u (
    id INTEGER PRIMARY KEY, t_id INTEGER REFERENCES t(id), c INTEGER, s TEXT COLLATE NOCASE, w TEXT, n NUMERIC);
CREATE TABLE k (p INTEGER NOT NULL, q INTEGER NOT NULL, v TEXT, PRIMARY KEY (p, q));
CREATE TABLE n (c INTEGER UNIQUE, d TEXT);
CREATE TABLE e (id INTEGER PRIMARY KEY, a INTEGER, s TEXT);
"""

# rows of each database, by table
DATABASES = {
    "messy": {  # NULLs, duplicates, ties, other storage classes than declared
        "t": [
            (1, 1, 2, "a", 1.0, 1),
            (2, 1, 3, "A", 2.5, 1.0),
            (3, None, 2, None, None, "1"),
            (4, 3, None, "a ", 2.5, "a"),
            (5, 3, 5, "b%", -1.5, None),
            (6, 7, 2, "10", 3.0, 10),
            (7, "many", 1, "9", 0.0, "10"),
            (8, -3, 2, "", 2.0, 2.5),
        ],
        "u": [
            (1, 1, 5, "x", "1", 1),
            (2, 1, 5, "X", "01", 2),
            (3, 2, None, "y", "x", 2.5),
            (4, None, 2, None, None, None),
            (5, 3, 1, "x", "2", "n"),
            (6, 1, 0, "z", "1.0", 0),
        ],
        "k": [(1, 1, "a"), (1, 2, "a"), (2, 1, "b"), (2, 2, None), (3, 1, "A")],
        "n": [(1, "a"), (None, "b"), (None, "b"), (2, None)],
        "e": [],
    },
    "tidy": {  # no NULL, each column of one storage class, no broken reference
        "t": [
            (1, 1, 2, "a", 1.5, 1),
            (2, 1, 3, "b", 2.5, 2),
            (3, 2, 2, "A", 2.5, 3),
            (4, 7, 5, "ab", 0.5, 4),
            (5, 6, 9, "a", 0.5, 4),
        ],
        "u": [
            (1, 1, 5, "x", "p", 1),
            (2, 1, 4, "y", "q", 2),
            (3, 2, 4, "x", "p", 1),
            (4, 4, 9, "z", "r", 3),
            (5, 4, 1, "z", "r", 3),
        ],
        "k": [(1, 1, "a"), (1, 2, "b"), (2, 1, "a"), (2, 3, "c")],
        "e": [(1, 1, "a")],
    },
    "bare": {"t": [(1, 3, 3, "a", 1.0, 1)], "u": [], "k": [], "e": []},
    "empty": {"t": [], "u": [], "k": [], "e": []},
}

NULLS = [
    (
        "SELECT id FROM t WHERE a = (SELECT a FROM t ORDER BY a LIMIT 1)",
        "SELECT id FROM t WHERE a = (SELECT min(a) FROM t)",
    ),
    (
        "SELECT id FROM t WHERE NOT (a = 1 OR b = 2)",
        "SELECT id FROM t WHERE NOT a = 1 OR NOT b = 2",
    ),
    ("SELECT id FROM t WHERE date(s) IS NULL", "SELECT id FROM t WHERE s IS NULL"),
    ("SELECT id FROM t WHERE a = 1", "SELECT id FROM t WHERE NOT a <> 1 OR a IS NULL"),
    ("SELECT id FROM t WHERE a <> 1", "SELECT id FROM t WHERE a <> 1 OR a IS NULL"),
    ("SELECT id FROM t", "SELECT id FROM t WHERE a = a"),
    ("SELECT id FROM t", "SELECT id FROM t WHERE a > 2 OR a <= 2"),
    ("SELECT id FROM t", "SELECT id FROM t WHERE s LIKE '%'"),
    ("SELECT id FROM t WHERE a IS NULL", "SELECT id FROM t WHERE a = NULL"),
    (
        "SELECT id FROM t WHERE NOT (a = 1 AND b = 2)",
        "SELECT id FROM t WHERE a <> 1 OR b <> 2 OR a IS NULL",
    ),
    ("SELECT id FROM t WHERE a IN (1, 3)", "SELECT id FROM t WHERE a IN (1, 3) OR a IS NULL"),
    ("SELECT id FROM t WHERE a NOT IN (1, NULL)", "SELECT id FROM t WHERE a NOT IN (1)"),
    (
        "SELECT id FROM t WHERE id NOT IN (SELECT t_id FROM u)",
        "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE t_id = t.id)",
    ),
    (
        "SELECT id FROM t WHERE a NOT IN (SELECT c FROM u)",
        "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE c = a)",
    ),
    (
        "SELECT id FROM t WHERE id NOT IN (SELECT t_id FROM u)",
        "SELECT id FROM t EXCEPT SELECT t_id FROM u",
    ),
    ("SELECT count(a) FROM t", "SELECT count(*) FROM t"),
    ("SELECT count(DISTINCT a) FROM t", "SELECT count(*) FROM (SELECT DISTINCT a FROM t)"),
    ("SELECT count(DISTINCT a) FROM t", "SELECT count(*) FROM (SELECT a FROM t GROUP BY a)"),
    ("SELECT avg(a) FROM t WHERE id < 4", "SELECT sum(a) * 1.0 / count(*) FROM t WHERE id < 4"),
    ("SELECT avg(b) FROM t", "SELECT avg(coalesce(b, 0)) FROM t"),
    ("SELECT a, b FROM t", "SELECT coalesce(a, 0), b FROM t"),
    ("SELECT a FROM t WHERE id = 3", "SELECT a FROM t WHERE id = 3 AND a IS NOT NULL"),
    ("SELECT a FROM t GROUP BY a", "SELECT a FROM t WHERE a IS NOT NULL GROUP BY a"),
    ("SELECT min(a) FROM t", "SELECT a FROM t ORDER BY a LIMIT 1"),
    ("SELECT id FROM t WHERE s IS NOT 'a'", "SELECT id FROM t WHERE s <> 'a'"),
    ("SELECT id FROM t WHERE s IS s", "SELECT id FROM t WHERE s = s"),
    ("SELECT t.id FROM t JOIN t AS o ON t.a IS o.a", "SELECT t.id FROM t JOIN t AS o ON t.a = o.a"),
    ("SELECT a FROM t INTERSECT SELECT c FROM u", "SELECT DISTINCT a FROM t JOIN u ON a = c"),
    (
        "SELECT a FROM t EXCEPT SELECT c FROM u",
        "SELECT DISTINCT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE c = a)",
    ),
    (
        "SELECT b FROM t UNION SELECT c FROM u",
        "SELECT b FROM t WHERE b IS NOT NULL UNION SELECT c FROM u WHERE c IS NOT NULL",
    ),
    (
        "SELECT id FROM t WHERE CASE WHEN a > 1 THEN 1 ELSE 0 END = 0",
        "SELECT id FROM t WHERE NOT a > 1",
    ),
    (
        "SELECT id FROM t WHERE (a > 1) = (b > 1)",
        "SELECT id FROM t WHERE a > 1 AND b > 1 OR NOT a > 1 AND NOT b > 1 OR a IS NULL",
    ),
    ("SELECT sum(a) + sum(b) FROM t", "SELECT sum(a + b) FROM t"),
    (
        "SELECT t.s || w FROM t JOIN u ON t.id = u.t_id",
        "SELECT coalesce(t.s, '') || w FROM t JOIN u ON t.id = u.t_id",
    ),
    (
        "SELECT id FROM t ORDER BY a DESC, id",
        "SELECT id FROM t ORDER BY a IS NULL DESC, a DESC, id",
    ),
    ("SELECT id, a FROM t ORDER BY a", "SELECT id, a FROM t ORDER BY a NULLS LAST"),
    (
        "SELECT max(a) FROM t WHERE a < 0 OR a IS NULL",
        "SELECT max(coalesce(a, 0)) FROM t WHERE a < 0 OR a IS NULL",
    ),
    ("SELECT nullif(a, 1) FROM t", "SELECT CASE WHEN a <> 1 THEN a ELSE 1 END FROM t"),
    ("SELECT count(*) FROM t WHERE a <> b", "SELECT count(*) FROM t WHERE NOT a IS b"),
]

DUPLICATES = [
    ("SELECT c FROM n", "SELECT DISTINCT c FROM n"),
    (
        "SELECT a FROM t WHERE b = 2 GROUP BY a UNION ALL SELECT a FROM t WHERE b <> 2 GROUP BY a",
        "SELECT a FROM t WHERE b IS NOT NULL GROUP BY a",
    ),
    (
        "SELECT count(*) FROM (SELECT b FROM t UNION SELECT c FROM u)",
        "SELECT count(*) FROM (SELECT DISTINCT b FROM t UNION ALL SELECT DISTINCT c FROM u)",
    ),
    ("SELECT a FROM t", "SELECT DISTINCT a FROM t"),
    ("SELECT s FROM t", "SELECT s FROM t GROUP BY s"),
    ("SELECT a FROM t UNION SELECT c FROM u", "SELECT a FROM t UNION ALL SELECT c FROM u"),
    (
        "SELECT a FROM t UNION SELECT b FROM t",
        "SELECT a FROM t WHERE a > 0 UNION ALL SELECT b FROM t",
    ),
    (
        "SELECT id FROM t WHERE a = 1 OR b = 2",
        "SELECT id FROM t WHERE a = 1 UNION ALL SELECT id FROM t WHERE b = 2",
    ),
    (
        "SELECT t.s FROM t WHERE id IN (SELECT t_id FROM u)",
        "SELECT t.s FROM t JOIN u ON t.id = u.t_id",
    ),
    (
        "SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t_id = t.id)",
        "SELECT t_id FROM u WHERE t_id IS NOT NULL",
    ),
    (
        "SELECT t.s FROM t JOIN u ON t.id = u.t_id",
        "SELECT DISTINCT t.s FROM t JOIN u ON t.id = u.t_id",
    ),
    (
        "SELECT t.r FROM t JOIN u ON t.a = u.t_id GROUP BY t.id",
        "SELECT DISTINCT t.r FROM t JOIN u ON t.a = u.t_id",
    ),
    (
        "SELECT count(*) FROM t JOIN u ON t.id = u.t_id",
        "SELECT count(DISTINCT t.id) FROM t JOIN u ON t.id = u.t_id",
    ),
    ("SELECT sum(a) FROM t", "SELECT sum(DISTINCT a) FROM t"),
    ("SELECT avg(b) FROM t", "SELECT avg(DISTINCT b) FROM t"),
    ("SELECT sum(t.b) FROM t", "SELECT sum(t.b) FROM t JOIN u ON t.id = u.t_id"),
    (
        "SELECT sum(t.b) FROM t WHERE id IN (SELECT t_id FROM u)",
        "SELECT sum(t.b) FROM t JOIN u ON t.id = u.t_id",
    ),
    ("SELECT count(v) FROM k", "SELECT count(DISTINCT v) FROM k"),
    ("SELECT p FROM k", "SELECT DISTINCT p FROM k"),
    ("SELECT p, count(*) FROM k GROUP BY p", "SELECT p, count(DISTINCT v) FROM k GROUP BY p"),
    ("SELECT k.v FROM k", "SELECT k.v FROM k JOIN k AS o ON k.p = o.p"),
    (
        "SELECT k.v FROM k JOIN k AS o ON k.p = o.p AND k.q = o.q",
        "SELECT k.v FROM k JOIN k AS o ON k.p = o.p",
    ),
    (
        "SELECT t.id FROM t JOIN t AS o ON t.id = o.id",
        "SELECT t.id FROM t JOIN t AS o ON t.a = o.a",
    ),
    (
        "SELECT s FROM t EXCEPT SELECT w FROM u",
        "SELECT s FROM t WHERE s NOT IN (SELECT w FROM u WHERE w IS NOT NULL) OR s IS NULL",
    ),
    ("SELECT s FROM t INTERSECT SELECT s FROM t", "SELECT s FROM t"),
    ("SELECT b FROM t WHERE b > 1", "SELECT b FROM t WHERE b > 1 GROUP BY b"),
    ("SELECT count(*) FROM (SELECT a FROM t UNION ALL SELECT a FROM t)", "SELECT count(*) FROM t"),
    ("SELECT count(*) FROM (SELECT a FROM t UNION SELECT a FROM t)", "SELECT count(*) FROM t"),
    ("SELECT t.a FROM t, e", "SELECT t.a FROM t"),
    ("SELECT t.a FROM t CROSS JOIN k", "SELECT t.a FROM t WHERE EXISTS (SELECT 1 FROM k)"),
    ("SELECT c FROM u GROUP BY t_id, c", "SELECT c FROM u GROUP BY c"),
    ("SELECT max(b) FROM t GROUP BY a", "SELECT DISTINCT max(b) FROM t GROUP BY a"),
]

EMPTY = [
    (
        "SELECT id FROM t WHERE (SELECT count(*) FROM u WHERE t_id = t.id) >= 0",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t_id = t.id)",
    ),
    ("SELECT max(a) FROM e", "SELECT a FROM e ORDER BY a DESC LIMIT 1"),
    ("SELECT sum(a) FROM e", "SELECT coalesce(sum(a), 0) FROM e"),
    ("SELECT count(*) FROM e", "SELECT count(*) FROM e GROUP BY a"),
    ("SELECT count(*) FROM e", "SELECT count(*) FROM e HAVING count(*) > 0"),
    (
        "SELECT count(*) FROM u WHERE c > 100",
        "SELECT sum(CASE WHEN c > 100 THEN 1 ELSE 0 END) FROM u WHERE c > 100",
    ),
    ("SELECT count(*) FROM e WHERE a = 1", "SELECT sum(CASE WHEN a = 1 THEN 1 ELSE 0 END) FROM e"),
    ("SELECT count(*) FROM t WHERE a = 1", "SELECT sum(a = 1) FROM t WHERE a = 1"),
    (
        "SELECT min(a) FROM t WHERE a > 100",
        "SELECT a FROM t WHERE a > 100 AND a = (SELECT min(a) FROM t WHERE a > 100)",
    ),
    (
        "SELECT id FROM t WHERE a > (SELECT max(a) FROM e)",
        "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM e WHERE e.a >= t.a)",
    ),
    (
        "SELECT id FROM t WHERE NOT a <= (SELECT max(a) FROM e)",
        "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM e WHERE e.a >= t.a) AND a IS NOT NULL",
    ),
    (
        "SELECT id FROM t WHERE a NOT IN (SELECT a FROM e)",
        "SELECT id FROM t WHERE a NOT IN (SELECT a FROM e) AND a IS NOT NULL",
    ),
    ("SELECT t.id FROM t, e", "SELECT t.id FROM t LEFT JOIN e ON 1 = 1"),
    (
        "SELECT t.id, count(u.id) FROM t LEFT JOIN u ON t.id = u.t_id GROUP BY t.id",
        "SELECT t.id, count(u.id) FROM t JOIN u ON t.id = u.t_id GROUP BY t.id",
    ),
    (
        "SELECT t.id, count(*) FROM t LEFT JOIN u ON t.id = u.t_id GROUP BY t.id",
        "SELECT t.id, count(u.id) FROM t LEFT JOIN u ON t.id = u.t_id GROUP BY t.id",
    ),
    (
        "SELECT t.id, (SELECT count(*) FROM u WHERE t_id = t.id) FROM t",
        "SELECT t_id, count(*) FROM u GROUP BY t_id",
    ),
    (
        "SELECT t.id, sum(u.c) FROM t LEFT JOIN u ON t.id = u.t_id GROUP BY t.id",
        "SELECT t.id, coalesce(sum(u.c), 0) FROM t LEFT JOIN u ON t.id = u.t_id GROUP BY t.id",
    ),
    (
        "SELECT a FROM t GROUP BY a HAVING count(*) < 2",
        "SELECT a FROM t GROUP BY a HAVING count(b) < 2",
    ),
    (
        "SELECT id FROM t WHERE (SELECT count(*) FROM u WHERE t_id = t.id) < 2",
        "SELECT t.id FROM t JOIN u ON t.id = u.t_id GROUP BY t.id HAVING count(*) < 2",
    ),
    (
        "SELECT id FROM t WHERE id >= (SELECT max(t_id) FROM u)",
        "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.t_id > t.id)",
    ),
    ("SELECT avg(a) FROM e", "SELECT sum(a) / count(a) FROM t WHERE 0"),
    ("SELECT max(c) FROM u WHERE t_id = 2", "SELECT max(c) FROM u GROUP BY t_id HAVING t_id = 2"),
    ("SELECT 1 FROM e", "SELECT 1"),
    ("SELECT 1 WHERE EXISTS (SELECT 1 FROM k)", "SELECT 1 FROM k GROUP BY p"),
    ("SELECT count(*) FROM e", "SELECT 0 FROM e"),
    ("SELECT count(*) > 0 FROM e", "SELECT 1 FROM e LIMIT 1"),
]

NUMBERS = [
    ("SELECT sum(CAST(b AS REAL)) / 2 FROM t", "SELECT sum(b) / 2 FROM t"),
    ("SELECT id FROM u WHERE 5 / c IS NULL", "SELECT id FROM u WHERE c IS NULL"),
    ("SELECT a / 2 FROM t", "SELECT a / 2.0 FROM t"),
    ("SELECT b / a FROM t", "SELECT b * 1.0 / a FROM t"),
    ("SELECT sum(b) / count(b) FROM t", "SELECT avg(b) FROM t"),
    ("SELECT id FROM t WHERE a / 2 = 1", "SELECT id FROM t WHERE a = 2"),
    ("SELECT id FROM t WHERE a / 2 > 1", "SELECT id FROM t WHERE a > 2"),
    ("SELECT b / 2 * 2 FROM t", "SELECT b FROM t"),
    ("SELECT (a + b) / 2 FROM t", "SELECT a / 2 + b / 2 FROM t"),
    ("SELECT b % 2 FROM t", "SELECT b - b / 2.0 * 2 FROM t"),
    ("SELECT r / 2 FROM t", "SELECT CAST(r AS INTEGER) / 2 FROM t"),
    ("SELECT CAST(r AS INTEGER) FROM t", "SELECT round(r) FROM t"),
    ("SELECT round(r) FROM t", "SELECT r FROM t"),
    ("SELECT id FROM t WHERE r > 1", "SELECT id FROM t WHERE r >= 2"),
    ("SELECT id FROM t WHERE r > 1", "SELECT id FROM t WHERE CAST(r AS INTEGER) > 1"),
    ("SELECT id FROM t WHERE r BETWEEN 1 AND 2", "SELECT id FROM t WHERE r IN (1, 2)"),
    ("SELECT abs(a) FROM t", "SELECT a FROM t"),
    ("SELECT id FROM t WHERE abs(a) = 3", "SELECT id FROM t WHERE a = 3"),
    ("SELECT id FROM t WHERE a * a = 9", "SELECT id FROM t WHERE a = 3"),
    ("SELECT id FROM t WHERE a > 2", "SELECT id FROM t WHERE a >= 2"),
    ("SELECT id FROM t WHERE a BETWEEN 1 AND 3", "SELECT id FROM t WHERE a > 1 AND a < 3"),
    ("SELECT id FROM t WHERE a BETWEEN 3 AND 1", "SELECT id FROM t WHERE a BETWEEN 1 AND 3"),
    ("SELECT x / 2 FROM t", "SELECT x / 2.0 FROM t"),
    ("SELECT x / 2 FROM t WHERE x = 1", "SELECT 1 / 2 FROM t WHERE x = 1"),
    ("SELECT n / 2 FROM u", "SELECT n * 0.5 FROM u"),
    ("SELECT count(*) * 100 / 3 FROM t", "SELECT count(*) * 100.0 / 3 FROM t"),
    ("SELECT sum(a > 1) / count(*) FROM t", "SELECT avg(a > 1) FROM t"),
    ("SELECT -a FROM t", "SELECT a FROM t"),
    ("SELECT a - b FROM t", "SELECT b - a FROM t"),
    ("SELECT max(a, b) FROM t", "SELECT max(a) FROM t"),
    ("SELECT length(a) FROM t", "SELECT length(a * 1.0) FROM t"),
    ("SELECT typeof(r) FROM t", "SELECT typeof(CAST(r AS INTEGER)) FROM t"),
    ("SELECT a || '' FROM t", "SELECT a FROM t"),
    ("SELECT CAST(a AS TEXT) FROM t", "SELECT CAST(a * 1.0 AS TEXT) FROM t"),
]

TYPES = [
    (
        "SELECT count(*) FROM (SELECT DISTINCT x, x / 2 FROM t WHERE x IS NOT NULL)",
        "SELECT count(DISTINCT x) FROM t",
    ),
    (
        "SELECT t.id, o.id FROM t JOIN t AS o ON t.x = o.x WHERE t.x / 2 = 0",
        "SELECT t.id, o.id FROM t JOIN t AS o ON t.x = o.x WHERE o.x / 2 = 0",
    ),
    ("SELECT id FROM t WHERE s = 10", "SELECT id FROM t WHERE s = 11"),
    ("SELECT id FROM t WHERE a = '1'", "SELECT id FROM t WHERE a = '7'"),
    ("SELECT id FROM t WHERE s > 9", "SELECT id FROM t WHERE CAST(s AS INTEGER) > 9"),
    ("SELECT id FROM t WHERE s = 10", "SELECT id FROM t WHERE s = 10.0"),
    ("SELECT id FROM t WHERE s < '9'", "SELECT id FROM t WHERE s + 0 < 9"),
    ("SELECT id FROM t WHERE x = 1", "SELECT id FROM t WHERE x = '1'"),
    ("SELECT id FROM t WHERE x = 1", "SELECT id FROM t WHERE CAST(x AS INTEGER) = 1"),
    ("SELECT id FROM t WHERE x > 5", "SELECT id FROM t WHERE x + 0 > 5"),
    ("SELECT id FROM t WHERE x IN (1, 10)", "SELECT id FROM t WHERE x IN ('1', '10')"),
    ("SELECT id FROM u WHERE w = 1", "SELECT id FROM u WHERE CAST(w AS INTEGER) = 1"),
    ("SELECT id FROM u WHERE w = t_id", "SELECT id FROM u WHERE w = CAST(t_id AS TEXT)"),
    ("SELECT id FROM u WHERE w = '1'", "SELECT id FROM u WHERE w = 1.0"),
    ("SELECT id FROM t WHERE a > 5", "SELECT id FROM t WHERE a > 5 AND typeof(a) = 'integer'"),
    ("SELECT max(a) FROM t", "SELECT max(CAST(a AS INTEGER)) FROM t"),
    ("SELECT s FROM t ORDER BY s", "SELECT s FROM t ORDER BY s + 0"),
    ("SELECT max(s) FROM t", "SELECT max(s + 0) FROM t"),
    ("SELECT x FROM t GROUP BY x", "SELECT CAST(x AS TEXT) FROM t GROUP BY CAST(x AS TEXT)"),
    ("SELECT count(DISTINCT x) FROM t", "SELECT count(DISTINCT x || '') FROM t"),
    ("SELECT id FROM u WHERE n > 1", "SELECT id FROM u WHERE n > 1 AND n < 100"),
    ("SELECT id FROM t WHERE (SELECT 1) = '1'", "SELECT id FROM t WHERE 1 = 1"),
    ("SELECT id FROM t WHERE '1' = 1", "SELECT id FROM t WHERE '1' = '1'"),
    ("SELECT id FROM t WHERE +s = 10", "SELECT id FROM t WHERE s = 10"),
    ("SELECT id FROM t WHERE s || '' = 10", "SELECT id FROM t WHERE s = 10"),
    ("SELECT id FROM t WHERE coalesce(s, '') = 10", "SELECT id FROM t WHERE s = 10"),
    ("SELECT u.id FROM t JOIN u ON u.w = t.id", "SELECT u.id FROM t JOIN u ON u.w = t.id || ''"),
    ("SELECT sum(s) FROM t", "SELECT sum(length(s)) FROM t"),
    ("SELECT id FROM t WHERE s", "SELECT id FROM t WHERE s IS NOT NULL"),
    ("SELECT id FROM t WHERE a", "SELECT id FROM t WHERE a > 0"),
    ("SELECT id FROM t WHERE NOT a", "SELECT id FROM t WHERE a IS NULL OR a = 0"),
]

TEXTS = [
    ("SELECT id FROM t WHERE s LIKE 'a'", "SELECT id FROM t WHERE s GLOB 'a'"),
    ("SELECT id FROM u WHERE s = 'x'", "SELECT id FROM u WHERE s = 'x' AND s NOT IN ('X')"),
    ("SELECT id FROM t WHERE s = 'a'", "SELECT id FROM t WHERE s LIKE 'a'"),
    ("SELECT id FROM t WHERE s = 'a'", "SELECT id FROM t WHERE lower(s) = 'a'"),
    ("SELECT id FROM t WHERE s = 'a'", "SELECT id FROM t WHERE trim(s) = 'a'"),
    ("SELECT id FROM t WHERE s = 'a'", "SELECT id FROM t WHERE s COLLATE NOCASE = 'a'"),
    ("SELECT id FROM t WHERE s LIKE 'a%'", "SELECT id FROM t WHERE s GLOB 'a*'"),
    ("SELECT id FROM t WHERE s LIKE '%a%'", "SELECT id FROM t WHERE instr(s, 'a') > 0"),
    ("SELECT id FROM t WHERE s LIKE 'a%'", "SELECT id FROM t WHERE s >= 'a' AND s < 'b'"),
    ("SELECT id FROM t WHERE s LIKE 'a%'", "SELECT id FROM t WHERE substr(s, 1, 1) = 'a'"),
    (
        "SELECT id FROM t WHERE s LIKE 'b%'",
        "SELECT id FROM t WHERE s LIKE 'b%%' AND s LIKE 'b!%' ESCAPE '!'",
    ),
    ("SELECT id FROM t WHERE s LIKE 'b_'", "SELECT id FROM t WHERE s LIKE 'b'"),
    ("SELECT id FROM u WHERE s = 'x'", "SELECT id FROM u WHERE s = 'x' COLLATE BINARY"),
    ("SELECT id FROM u WHERE s = 'x'", "SELECT id FROM u WHERE s || '' = 'x'"),
    ("SELECT count(DISTINCT s) FROM u", "SELECT count(DISTINCT s || '') FROM u"),
    ("SELECT lower(s) FROM t GROUP BY lower(s)", "SELECT s FROM t GROUP BY s"),
    ("SELECT upper(s) FROM t", "SELECT s FROM t"),
    ("SELECT id FROM t WHERE s <> ''", "SELECT id FROM t WHERE length(s) > 1"),
    ("SELECT s FROM t WHERE s >= 'a'", "SELECT s FROM t WHERE lower(s) >= 'a'"),
    ("SELECT replace(s, 'a', 'b') FROM t", "SELECT s FROM t"),
    ("SELECT id FROM t WHERE s IN ('a', 'A')", "SELECT id FROM t WHERE s IN ('a')"),
    ("SELECT v FROM k WHERE v = 'a'", "SELECT v FROM k WHERE v >= 'a'"),
    ("SELECT id FROM t WHERE s LIKE 'A'", "SELECT id FROM t WHERE s LIKE 'a' AND s = 'A'"),
    (
        "SELECT id FROM t WHERE s NOT LIKE 'a%'",
        "SELECT id FROM t WHERE NOT s LIKE 'a%' OR s IS NULL",
    ),
]

JOINS = [
    (
        "SELECT id FROM t WHERE a = (SELECT c FROM u)",
        "SELECT id FROM t WHERE a IN (SELECT c FROM u)",
    ),
    ("SELECT b FROM t EXCEPT SELECT c FROM u", "SELECT b FROM t INTERSECT SELECT c FROM u"),
    (
        "SELECT a.id, b.id FROM u AS a JOIN t ON a.w = t.id JOIN u AS b ON b.w = t.id",
        "SELECT a.id, b.id FROM u AS a JOIN t ON a.w = t.id JOIN u AS b ON b.w = a.w",
    ),
    (
        "SELECT t.id, u.id FROM t LEFT JOIN u ON t.id = u.t_id AND u.c > 4",
        "SELECT t.id, u.id FROM t LEFT JOIN u ON t.id = u.t_id WHERE u.c > 4",
    ),
    (
        "SELECT t.id, u.id FROM t LEFT JOIN u ON t.id = u.t_id AND t.a = 1",
        "SELECT t.id, u.id FROM t LEFT JOIN u ON t.id = u.t_id WHERE t.a = 1",
    ),
    (
        "SELECT t.id FROM t LEFT JOIN u ON t.id = u.t_id",
        "SELECT t.id FROM t JOIN u ON t.id = u.t_id",
    ),
    ("SELECT t.id FROM t LEFT JOIN u ON t.id = u.t_id", "SELECT id FROM t"),
    (
        "SELECT u.id FROM u LEFT JOIN t ON t.id = u.t_id",
        "SELECT u.id FROM u JOIN t ON t.id = u.t_id",
    ),
    ("SELECT u.id FROM u JOIN t ON t.id = u.t_id", "SELECT u.id FROM u"),
    (
        "SELECT t.id FROM t LEFT JOIN u ON t.id = u.t_id WHERE u.c IS NULL",
        "SELECT t.id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id)",
    ),
    (
        "SELECT t.id FROM t LEFT JOIN u ON t.id = u.t_id AND u.c = 5 WHERE u.id IS NULL",
        "SELECT t.id FROM t LEFT JOIN u ON t.id = u.t_id WHERE u.c <> 5",
    ),
    (
        "SELECT t.id FROM t LEFT JOIN u ON t.id = u.t_id WHERE u.c <> 5",
        "SELECT t.id FROM t LEFT JOIN u ON t.id = u.t_id WHERE u.c <> 5 OR u.c IS NULL",
    ),
    (
        "SELECT t.id FROM t JOIN u ON t.id = u.t_id AND t.id = 1 OR u.c = 1",
        "SELECT t.id FROM t JOIN u ON t.id = u.t_id AND (t.id = 1 OR u.c = 1)",
    ),
    ("SELECT a.id FROM t a JOIN t b ON a.a = b.b", "SELECT b.id FROM t a JOIN t b ON a.a = b.b"),
    (
        "SELECT t.id, t.a FROM t JOIN u ON t.id = u.t_id",
        "SELECT u.t_id, u.c FROM t JOIN u ON t.id = u.t_id",
    ),
    ("SELECT a, b FROM t", "SELECT b, a FROM t"),
    ("SELECT t.id FROM t JOIN u ON t.id = u.id", "SELECT t.id FROM t JOIN u ON t.id = u.t_id"),
    ("SELECT t.s FROM t JOIN k ON t.a = k.p", "SELECT t.s FROM t JOIN k ON t.a = k.q"),
    (
        "SELECT id FROM t WHERE id IN (SELECT t_id FROM u WHERE c = 5) AND id IN (SELECT t_id FROM u "
        "WHERE c = 4)",
        "SELECT id FROM t WHERE id IN (SELECT t_id FROM u WHERE c = 5 AND c = 4)",
    ),
    (
        "SELECT id FROM t WHERE id IN (SELECT t_id FROM u WHERE c = 5 AND w = 'q')",
        "SELECT id FROM t WHERE id IN (SELECT t_id FROM u WHERE c = 5) AND id IN (SELECT t_id FROM u "
        "WHERE w = 'q')",
    ),
    (
        "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE t_id = t.id AND c = 5)",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t_id = t.id AND c <> 5)",
    ),
    (
        "SELECT s FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE t_id = t.id)",
        "SELECT s FROM t EXCEPT SELECT t.s FROM t JOIN u ON t.id = u.t_id",
    ),
    (
        "SELECT s FROM t WHERE a = 1 INTERSECT SELECT s FROM t WHERE b = 9",
        "SELECT DISTINCT s FROM t WHERE a = 1 AND b = 9",
    ),
    (
        "SELECT id FROM t WHERE a > (SELECT avg(a) FROM t)",
        "SELECT id FROM t WHERE a >= (SELECT avg(a) FROM t)",
    ),
    (
        "SELECT id FROM t WHERE b = (SELECT max(b) FROM t)",
        "SELECT id FROM t WHERE b = (SELECT max(b) FROM t AS o WHERE o.a = t.a)",
    ),
    (
        "SELECT id FROM t WHERE b < (SELECT max(b) FROM t WHERE a = 1)",
        "SELECT id FROM t WHERE b < (SELECT min(b) FROM t WHERE a = 1)",
    ),
    (
        "SELECT t.id FROM t, u WHERE t.id = u.t_id AND u.c = 5",
        "SELECT t.id FROM t, u WHERE t.id = u.t_id OR u.c = 5",
    ),
    ("SELECT id FROM t NATURAL JOIN k", "SELECT t.id FROM t JOIN k ON t.id = k.p"),
    ("SELECT id FROM t JOIN e USING (id)", "SELECT t.id FROM t JOIN e ON t.a = e.a"),
]

GROUPS = [
    ("SELECT min(a) FROM t", "SELECT (SELECT a FROM t ORDER BY a LIMIT 1)"),
    ("SELECT a FROM t GROUP BY a", "SELECT a FROM t GROUP BY a HAVING count(*) > 1"),
    (
        "SELECT t.id FROM t LEFT JOIN u ON t.id = u.t_id GROUP BY t.id",
        "SELECT t.id FROM t JOIN u ON t.id = u.t_id GROUP BY t.id UNION ALL SELECT id FROM t "
        "WHERE NOT EXISTS (SELECT 1 FROM u WHERE t_id = t.id) AND NOT EXISTS (SELECT 1 FROM t JOIN u ON "
        "t.id = u.t_id)",
    ),
    (
        "SELECT count(*) FROM (SELECT DISTINCT t.a FROM t LEFT JOIN u ON t.id = u.t_id)",
        "SELECT (SELECT count(DISTINCT a) FROM t WHERE id IN (SELECT t_id FROM u))",
    ),
    ("SELECT avg(b) FROM t", "SELECT sum(b) FROM t"),
    ("SELECT max(b) FROM t", "SELECT min(b) FROM t"),
    ("SELECT count(b) FROM t", "SELECT sum(b) FROM t"),
    (
        "SELECT p FROM k WHERE v IN ('a', 'b', 'c') GROUP BY p HAVING count(DISTINCT v) = 2",
        "SELECT p FROM k WHERE v IN ('a', 'b', 'c') AND p IN (SELECT p FROM k WHERE v = 'a') AND p IN "
        "(SELECT p FROM k WHERE v = 'b') AND p IN (SELECT p FROM k WHERE v = 'c') GROUP BY p",
    ),
    ("SELECT a, count(*) FROM t GROUP BY a", "SELECT a, count(*) FROM t GROUP BY a, b"),
    ("SELECT a, count(*) FROM t GROUP BY a", "SELECT a, count(a) FROM t GROUP BY a"),
    (
        "SELECT a FROM t GROUP BY a HAVING count(*) > 1",
        "SELECT a FROM t GROUP BY a HAVING count(DISTINCT b) > 1",
    ),
    (
        "SELECT a FROM t GROUP BY a HAVING max(b) > 2",
        "SELECT a FROM t GROUP BY a HAVING min(b) > 2",
    ),
    (
        "SELECT a FROM t WHERE b > 2 GROUP BY a HAVING count(*) > 1",
        "SELECT a FROM t GROUP BY a HAVING count(*) > 1 AND max(b) > 2",
    ),
    ("SELECT a, sum(b) FROM t GROUP BY a", "SELECT a, b FROM t"),
    (
        "SELECT t.r, count(*) FROM t JOIN u ON t.a = u.t_id GROUP BY t.id",
        "SELECT t.r, count(*) FROM t JOIN u ON t.a = u.t_id GROUP BY t.r",
    ),
    ("SELECT count(*) FROM t GROUP BY a", "SELECT count(*) FROM t"),
    (
        "SELECT count(*), a FROM t GROUP BY a HAVING count(*) >= 2",
        "SELECT count(*), a FROM t GROUP BY a HAVING count(*) > 2",
    ),
    (
        "SELECT p FROM k GROUP BY p HAVING count(*) = 2",
        "SELECT p FROM k GROUP BY p HAVING count(DISTINCT v) = 2",
    ),
    (
        "SELECT p FROM k GROUP BY p HAVING sum(v = 'a') > 0",
        "SELECT p FROM k GROUP BY p HAVING sum(v = 'a') >= 0",
    ),
    (
        "SELECT avg(n) FROM (SELECT count(*) AS n FROM u GROUP BY t_id)",
        "SELECT avg(n) FROM (SELECT count(u.id) AS n FROM t LEFT JOIN u ON t.id = u.t_id GROUP BY t.id)",
    ),
    ("SELECT max(n) FROM (SELECT count(*) AS n FROM u GROUP BY t_id)", "SELECT count(*) FROM u"),
    ("SELECT sum(b) FROM t WHERE a = 1", "SELECT sum(b) FROM t HAVING max(a) = 1"),
    ("SELECT a, max(b) FROM t GROUP BY a", "SELECT a, b FROM t WHERE b = (SELECT max(b) FROM t)"),
    ("SELECT b, avg(r) FROM t GROUP BY b", "SELECT b, sum(r) / count(*) FROM t GROUP BY b"),
    (
        "SELECT count(CASE WHEN a = 1 THEN 1 END) FROM t",
        "SELECT count(CASE WHEN a = 1 THEN 1 ELSE 0 END) FROM t",
    ),
    ("SELECT count(*) FILTER (WHERE a = 1) FROM t", "SELECT count(a = 1) FROM t"),
    ("SELECT count(DISTINCT a) FROM t", "SELECT count(DISTINCT b) FROM t"),
    (
        "SELECT b FROM t WHERE x IN (1, 1.0) GROUP BY b HAVING count(DISTINCT x) = 2",
        "SELECT DISTINCT b FROM t AS o WHERE EXISTS (SELECT 1 FROM t WHERE b = o.b AND x = 1) AND "
        "EXISTS (SELECT 1 FROM t WHERE b = o.b AND x = 1.0)",
    ),
    (
        "SELECT p FROM k WHERE v IN ('a', 'b') GROUP BY p HAVING count(DISTINCT v) = 2",
        "SELECT p FROM k WHERE v IN ('a', 'b') GROUP BY p HAVING count(v) = 2",
    ),
    ("SELECT count(DISTINCT p) FROM k", "SELECT count(DISTINCT q) FROM k"),
]

ORDER = [
    ("SELECT id FROM t ORDER BY -a, id", "SELECT id FROM t ORDER BY a, id"),
    ("SELECT id, s FROM t ORDER BY -s, id", "SELECT id, s FROM t ORDER BY s DESC, id"),
    ("SELECT id, a FROM t ORDER BY -a, id", "SELECT id, a FROM t ORDER BY a DESC, id"),
    (
        "SELECT id FROM t ORDER BY id LIMIT 2",
        "SELECT id FROM t WHERE (SELECT count(*) FROM t AS o WHERE o.id < t.id) < 3 ORDER BY id",
    ),
    (
        "SELECT id, rank() OVER (ORDER BY a) FROM t",
        "SELECT id, (SELECT count(*) FROM t AS o WHERE o.a < t.a) + 1 FROM t",
    ),
    (
        "SELECT id, rank() OVER (ORDER BY b, id) FROM t",
        "SELECT id, (SELECT count(*) FROM t AS o WHERE o.b < t.b OR o.id < t.id) + 1 FROM t",
    ),
    ("SELECT id FROM t ORDER BY a, id", "SELECT id FROM t ORDER BY id"),
    ("SELECT id FROM t ORDER BY a DESC, id", "SELECT id FROM t ORDER BY a, id"),
    ("SELECT id FROM t ORDER BY id", "SELECT id FROM t ORDER BY id DESC"),
    ("SELECT s FROM t ORDER BY b, a", "SELECT s FROM t ORDER BY b"),
    ("SELECT id FROM t ORDER BY b, r, id", "SELECT id FROM t ORDER BY b, id"),
    ("SELECT id FROM t ORDER BY id LIMIT 2", "SELECT id FROM t ORDER BY id LIMIT 3"),
    ("SELECT id FROM t ORDER BY id LIMIT 1", "SELECT max(id) FROM t"),
    ("SELECT id FROM t ORDER BY id DESC LIMIT 1", "SELECT min(id) FROM t"),
    ("SELECT id FROM t ORDER BY id LIMIT 2", "SELECT id FROM t ORDER BY id DESC LIMIT 2"),
    (
        "SELECT id FROM t ORDER BY id DESC LIMIT 2",
        "SELECT id FROM (SELECT id FROM t ORDER BY id LIMIT 2) ORDER BY id DESC",
    ),
    (
        "SELECT id FROM t WHERE a > 1 ORDER BY id LIMIT 1",
        "SELECT id FROM (SELECT id, a FROM t ORDER BY id LIMIT 1) WHERE a > 1",
    ),
    (
        "SELECT s FROM t WHERE a = (SELECT max(a) FROM t WHERE a < 7)",
        "SELECT s FROM t WHERE a < 7 ORDER BY a DESC LIMIT 1",
    ),
    (
        "SELECT id FROM t WHERE b = (SELECT max(b) FROM t)",
        "SELECT id FROM t ORDER BY b DESC, id LIMIT 2",
    ),
    (
        "SELECT id FROM t WHERE r = (SELECT max(r) FROM t WHERE r < 3)",
        "SELECT id FROM t WHERE id = (SELECT id FROM t WHERE r < 3 ORDER BY r DESC LIMIT 1)",
    ),
    (
        "SELECT p FROM k GROUP BY p HAVING count(*) = (SELECT max(n) FROM (SELECT count(*) AS n FROM k "
        "GROUP BY p))",
        "SELECT p FROM k GROUP BY p ORDER BY count(*) DESC LIMIT 1",
    ),
    ("SELECT a FROM t GROUP BY a ORDER BY a", "SELECT a FROM t GROUP BY a ORDER BY a DESC"),
    (
        "SELECT id, rank() OVER (ORDER BY b) FROM t",
        "SELECT id, dense_rank() OVER (ORDER BY b) FROM t",
    ),
    ("SELECT id FROM t WHERE a = 1", "SELECT id FROM t WHERE a = 1 LIMIT 1"),
    ("SELECT max(id) FROM t", "SELECT id FROM t"),
    ("SELECT id FROM t ORDER BY lower(s), id", "SELECT id FROM t ORDER BY s, id"),
    ("SELECT s FROM t ORDER BY id", "SELECT s FROM (SELECT s, id FROM t ORDER BY id DESC)"),
]

CONSTANTS = [
    (
        "SELECT CASE WHEN a > 0 THEN 'y' WHEN a > 1 THEN 'x' END FROM t",
        "SELECT CASE WHEN a > 1 THEN 'x' ELSE CASE WHEN a > 0 THEN 'y' END END FROM t",
    ),
    ("SELECT id FROM t WHERE a = 1", "SELECT id FROM t WHERE a = 2"),
    (
        "SELECT id FROM t WHERE a IN (1, 2, 3)",
        "SELECT id FROM t WHERE a BETWEEN 0 AND 3 AND a <> 3",
    ),
    ("SELECT 1 FROM t", "SELECT '1' FROM t"),
    ("SELECT 'a' FROM t", 'SELECT "a" FROM t'),
    ("SELECT id FROM t WHERE s = 'b'", 'SELECT id FROM t WHERE s = "b"'),
    (
        "SELECT id FROM t WHERE a = 1 OR a = 3 AND b = 5",
        "SELECT id FROM t WHERE (a = 1 OR a = 3) AND b = 5",
    ),
    ("SELECT id FROM t WHERE NOT a = 1 AND b = 2", "SELECT id FROM t WHERE NOT (a = 1 AND b = 2)"),
    (
        "SELECT CASE WHEN a > 1 THEN 'x' WHEN a > 0 THEN 'y' END FROM t",
        "SELECT CASE WHEN a > 0 THEN 'y' WHEN a > 1 THEN 'x' END FROM t",
    ),
    (
        "SELECT CASE a WHEN 1 THEN 'x' ELSE 'y' END FROM t",
        "SELECT CASE WHEN a <> 1 THEN 'y' ELSE 'x' END FROM t",
    ),
    ("SELECT id, a FROM t", "SELECT id FROM t"),
    ("SELECT * FROM k", "SELECT p, v, q FROM k"),
    ("SELECT id AS a FROM t ORDER BY a", "SELECT id FROM t ORDER BY t.a"),
    ("SELECT -id AS id FROM t ORDER BY id", "SELECT -id FROM t ORDER BY t.id"),
    ("SELECT a AS b, b AS a FROM t WHERE a = 1", "SELECT a, b FROM t WHERE b = 1"),
    ("SELECT b AS a, count(*) FROM t GROUP BY a", "SELECT b, count(*) FROM t GROUP BY b"),
]

PAIRS = [*NULLS, *DUPLICATES, *EMPTY, *NUMBERS, *TYPES, *TEXTS, *JOINS, *GROUPS, *ORDER, *CONSTANTS]


class Filled:
    "A database of this file, as the judge of counterexamples asks for it."

    def __init__(self, rows):
        self.con = apsw.Connection(":memory:")
        self.con.execute(SCHEMA)
        for table, some in rows.items():
            for row in some:
                marks = ", ".join("?" * len(row))
                self.con.execute(f"INSERT INTO {table} VALUES ({marks})", row)

    def run(self, sql):
        return self.con.execute(sql).fetchall()


def differing():
    "Each pair in either direction, with the facts of each database on which the results differ."
    from sql_env.grading.proofs.counterexamples import Judge
    from sql_env.grading.proofs.facts import read_facts

    databases = {name: Filled(rows) for name, rows in DATABASES.items()}
    facts = {name: read_facts(filled.con) for name, filled in databases.items()}
    for pair in PAIRS:
        for gold, sql in (pair, pair[::-1]):
            judge = Judge(gold, sql)
            for name, filled in databases.items():
                if judge.differ(filled):
                    yield gold, sql, facts[name]


def false_proofs():
    "Pairs that are proved equal under the facts of a database on which they differ."
    from sql_env.grading.proofs.decision import prove

    for gold, sql, facts in differing():
        if prove(gold, sql, facts, tries=0):
            yield gold, sql
