CREATE TABLE port (code TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, depth REAL CHECK (depth > 0));
CREATE TABLE ship (ship_id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, home TEXT REFERENCES port(code),
                   built TEXT, mother INTEGER REFERENCES ship);
CREATE TABLE berth (port TEXT NOT NULL REFERENCES port, number INTEGER NOT NULL, length INTEGER,
                    PRIMARY KEY (port, number)) WITHOUT ROWID;
CREATE TABLE stay (stay_id INTEGER PRIMARY KEY, ship_id INTEGER NOT NULL REFERENCES ship, port TEXT NOT NULL,
                   number INTEGER NOT NULL, state TEXT, paid INTEGER,
                   total INTEGER GENERATED ALWAYS AS (paid * 2), FOREIGN KEY (port, number) REFERENCES berth);
CREATE UNIQUE INDEX one_a_day ON stay (ship_id, port, number, state);
CREATE VIEW busy AS SELECT port, count(*) AS n FROM stay GROUP BY port;
