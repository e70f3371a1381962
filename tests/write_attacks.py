"""Attacks on EXECUTE: statements that must be refused, or change nothing but rows of the tables of the task."""

from tables import cases

SCHEMA = """CREATE TABLE guest(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, mail TEXT UNIQUE,
      years INT CHECK (years < 200), twice INT AS (years * 2) STORED);
    CREATE TABLE booking(id INTEGER PRIMARY KEY, guest_id INT REFERENCES guest(id), nights INT);
    CREATE TABLE extra(booking_id INT REFERENCES booking(id) ON DELETE CASCADE, what TEXT);
    CREATE TABLE bill(id INTEGER PRIMARY KEY, booking_id INT REFERENCES booking(id), cents INT);
    CREATE TABLE vault(quoll TEXT PRIMARY KEY, bilby BLOB) WITHOUT ROWID;
    CREATE TABLE log(what TEXT);
    CREATE VIEW rich AS SELECT id, name FROM guest WHERE years > 50;
    CREATE VIEW names AS SELECT name FROM guest;
    CREATE TRIGGER named INSTEAD OF INSERT ON names BEGIN DELETE FROM vault; END;
    CREATE TRIGGER logged AFTER UPDATE OF nights ON booking BEGIN INSERT INTO log VALUES (new.nights); END;
    CREATE TRIGGER kept BEFORE DELETE ON guest WHEN old.name = 'Ada' BEGIN SELECT RAISE(ABORT, 'Ada stays'); END;
    CREATE INDEX by_nights ON booking(nights);
    CREATE VIRTUAL TABLE note USING fts5(body);"""
WRITES = ("guest", "booking")

# Every way to write, to everything that is not of the task
OTHERS = dict(cases("write_attacks_others"))  # a table and one of its columns
BY_TABLE = {f"{way} on {t}": way.format(t=t, c=c) for t, c in OTHERS.items() for way in cases("write_attacks_ways")}


DOUBLED = ", ".join(f"a{i}(x) AS (SELECT p.x FROM a{i - 1} p, a{i - 1} q)" for i in range(1, 20))
LONG_BOMBS = [
    "; ".join(["INSERT INTO guest(name) SELECT name FROM guest"] * 30),
    "UPDATE guest SET name = " + "abs(" * 200 + "1" + ")" * 200,
    "DELETE FROM booking WHERE " + " AND ".join(["NOT 1"] * 300),
    "DELETE FROM booking WHERE id IN (" + ",".join(["(SELECT 1)"] * 60) + ")",
    "UPDATE booking SET nights = 1" + "; " * 4000 + "DELETE FROM vault",
    "x" * 20_000,
    "INSERT INTO guest(name) VALUES " + ",".join(["('x')"] * 1500),
    "INSERT INTO guest(name) VALUES " + ",".join(["(printf('%09999d', 1))"] * 250),
    f"WITH a0(x) AS (SELECT 1), {DOUBLED} DELETE FROM booking WHERE id IN (SELECT x FROM a19)",
]
PLAIN = ("definition", "pragma", "transaction", "function", "returning", "rule")
KINDS = {kind: cases(f"write_attacks_{kind}s") for kind in PLAIN}
KINDS |= dict(bomb=[*cases("write_attacks_bombs"), *LONG_BOMBS], text=cases("write_attacks_texts"))
ATTACKS = {f"{kind} {i}: {sql[:50]!a}": sql for kind, sqls in KINDS.items() for i, sql in enumerate(sqls)} | BY_TABLE
