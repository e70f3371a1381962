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

# --- Every way to write, to everything that is not of the task ---
OTHERS = dict(  # a table and one of its columns
    bill="cents",
    vault="bilby",
    log="what",
    extra="what",
    rich="name",
    names="name",
    note="body",
    note_data="block",
    note_content="c0",
    note_config="v",
    sqlite_master="sql",
    sqlite_schema="sql",
    sqlite_sequence="seq",
    sqlite_temp_master="sql",
    sqlite_stat1="stat",
    json_each="value",
    pragma_table_info="name",
    dbstat="name",
)
WAYS = cases("write_attacks_ways")
BY_TABLE = {f"{way} on {t}": way.format(t=t, c=c) for t, c in OTHERS.items() for way in WAYS}

# --- Statements that are no change of rows ---
DEFINITIONS = cases("write_attacks_definitions")
PRAGMAS = cases("write_attacks_pragmas")
TRANSACTIONS = cases("write_attacks_transactions")

# --- Statements on the right tables ---
FUNCTIONS = cases("write_attacks_functions")
RETURNING = [
    "DELETE FROM booking RETURNING *",
    "INSERT INTO guest(name) VALUES ('x') RETURNING id",
    "UPDATE guest SET years = 1 RETURNING (SELECT group_concat(quoll) FROM vault)",
    "UPDATE guest SET years = 1 RETURNING replace(printf('%09999d', 0), '0', 'xx')",
    'DELETE FROM booking RETURNING "id" -- ;',
]
RULES = cases("write_attacks_rules")
COUNT = "WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k{limit}) "
BOMBS = [
    COUNT.format(limit="") + "INSERT INTO guest(name) SELECT n FROM k",
    COUNT.format(limit=" LIMIT 100000") + "INSERT INTO guest(name) SELECT n FROM k",
    COUNT.format(limit="") + "DELETE FROM booking WHERE id IN (SELECT n FROM k)",
    COUNT.format(limit="") + "UPDATE booking SET nights = (SELECT max(n) FROM k)",
    "INSERT INTO guest(name) SELECT a.name FROM guest a, guest b, guest c, guest d, guest e, guest f, guest g, guest h",
    "; ".join(["INSERT INTO guest(name) SELECT name FROM guest"] * 30),
    "UPDATE guest SET name = replace(printf('%09999d', 0), '0', 'xxxxxxxx')",
    "UPDATE guest SET name = printf('%0100000d', 0)",
    "UPDATE guest SET name = group_concat(name) OVER ()",
    COUNT.format(limit=" LIMIT 3000") + "UPDATE guest SET name = (SELECT group_concat(printf('%0900d', n)) FROM k)",
    COUNT.format(limit=" LIMIT 30000") + "INSERT INTO guest(name) SELECT printf('%09000d', n) FROM k",
    "DELETE FROM guest WHERE name LIKE '" + "%a" * 60 + "'",
    "UPDATE guest SET name = " + "abs(" * 200 + "1" + ")" * 200,
    "DELETE FROM booking WHERE " + " AND ".join(["NOT 1"] * 300),
    "DELETE FROM booking WHERE id IN (" + ",".join(["(SELECT 1)"] * 60) + ")",
    "UPDATE booking SET nights = 1" + "; " * 4000 + "DELETE FROM vault",
    "x" * 20_000,
    "INSERT INTO guest(name) VALUES " + ",".join(["('x')"] * 1500),
    "INSERT INTO guest(name) VALUES " + ",".join(["(printf('%09999d', 1))"] * 250),
    "WITH "
    + ", ".join(
        ["a0(x) AS (SELECT 1)"] + [f"a{i}(x) AS (SELECT p.x FROM a{i - 1} p, a{i - 1} q)" for i in range(1, 20)]
    )
    + " DELETE FROM booking WHERE id IN (SELECT x FROM a19)",
]
TEXTS = cases("write_attacks_texts")
ATTACKS = {
    name: sql
    for kind, sqls in dict(
        definition=DEFINITIONS,
        pragma=PRAGMAS,
        transaction=TRANSACTIONS,
        function=FUNCTIONS,
        returning=RETURNING,
        rule=RULES,
        bomb=BOMBS,
        text=TEXTS,
    ).items()
    for name, sql in ((f"{kind} {i}: {sql[:50]!a}", sql) for i, sql in enumerate(sqls))
} | BY_TABLE
