"""Operating records of the (fictional) Sarnland Regional Railway: its network, trains, crews and 2023 run log."""

from datetime import date, timedelta

SPLIT = "train"

SCHEMA = """
CREATE TABLE station (
  code TEXT PRIMARY KEY, name TEXT NOT NULL, zone TEXT NOT NULL, opened INTEGER NOT NULL, closed INTEGER,
  step_free TEXT NOT NULL, car_park INTEGER);
CREATE TABLE line (
  line_no INTEGER PRIMARY KEY, name TEXT NOT NULL, from_station TEXT NOT NULL REFERENCES station(code),
  to_station TEXT NOT NULL REFERENCES station(code), electrified TEXT NOT NULL);
CREATE TABLE calling_point (
  line_no INTEGER NOT NULL REFERENCES line(line_no), seq INTEGER NOT NULL,
  station TEXT NOT NULL REFERENCES station(code), km REAL NOT NULL, PRIMARY KEY (line_no, seq));
CREATE TABLE rolling_stock (
  unit_no TEXT PRIMARY KEY, type TEXT NOT NULL, built INTEGER NOT NULL, seats INTEGER NOT NULL,
  nickname TEXT, depot TEXT NOT NULL REFERENCES station(code));
CREATE TABLE crew (
  crew_id INTEGER PRIMARY KEY, name TEXT NOT NULL, grade TEXT NOT NULL, depot TEXT NOT NULL REFERENCES station(code),
  joined TEXT NOT NULL, left_on TEXT, mentor_id INTEGER REFERENCES crew(crew_id));
CREATE TABLE cause (code TEXT PRIMARY KEY, meaning TEXT NOT NULL, type TEXT NOT NULL);
CREATE TABLE run (
  run_id INTEGER PRIMARY KEY, line_no INTEGER NOT NULL REFERENCES line(line_no), run_date TEXT NOT NULL,
  departs TEXT NOT NULL, dir TEXT NOT NULL, lead_unit TEXT REFERENCES rolling_stock(unit_no),
  tail_unit TEXT REFERENCES rolling_stock(unit_no), driver_id INTEGER REFERENCES crew(crew_id),
  guard_id INTEGER REFERENCES crew(crew_id), status TEXT NOT NULL, boarded INTEGER, remark TEXT);
CREATE TABLE delay_attribution (
  entry_id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL REFERENCES run(run_id),
  station TEXT NOT NULL REFERENCES station(code), lost INTEGER NOT NULL, cause TEXT NOT NULL REFERENCES cause(code));
"""

# code, name, zone, year of opening, year of closing, step-free (Y yes, P partly, N no), spaces in the car park
STATIONS = [
    ("PEL", "Port Ellery", "A", 1847, None, "Y", 620),
    ("SWK", "Sandwick", "A", 1852, None, "Y", 85),
    ("GPT", "Gull's Point", "B", 1852, None, "N", 24),
    ("CMA", "Castel Mare", "B", 1853, None, "P", 110),
    ("WSC", "Weston", "B", 1861, None, "Y", 40),
    ("ALM", "Almaria", "B", 1853, None, "Y", 150),
    ("CNV", "Costa Nova", "C", 1868, None, "P", 64),
    ("SMH", "Saltmarsh Halt", "C", 1931, None, "N", None),
    ("ERV", "Ervik", "C", 1869, None, "Y", 95),
    ("THV", "Thornhaven", "C", 1870, None, "Y", 240),
    ("OBR", "Oldbridge", "A", 1849, None, "Y", 310),
    ("ASV", "Ashvale", "A", 1849, None, "Y", 72),
    ("TWM", "Two Mills", "B", 1851, None, "P", 45),
    ("UAV", "Upper Ashvale", "B", 1856, None, "N", None),
    ("SJO", "San Jorge", "B", 1974, None, "Y", 58),
    ("KAR", "Karsten", "C", 1857, None, "Y", 280),
    ("PNW", "Pinewater", "C", 1880, None, "N", 18),
    ("HOF", "Hochfeld", "C", 1881, None, "P", 130),
    ("BMH", "Blackmoor Halt", "B", 1884, None, "N", None),
    ("SBR", "St Brannoc", "B", 1884, None, "N", 20),
    ("WSM", "Weston", "C", 1884, None, "P", None),
    ("NYT", "Ny Torp", "C", 1885, None, "Y", 30),
    ("WEX", "Wether's Cross", "C", 1886, None, "N", None),
    ("DUN", "Duneglen", "C", 1886, None, "Y", 66),
    ("LGV", "Lago Verde", "C", 1898, None, "P", 90),
    ("LKS", "Lakeside", "C", 1898, None, "Y", 175),
    ("ISO", "Isola", "C", 1902, None, "N", None),
    ("ZST", "Zell am Steig", "C", 1902, None, "P", 52),
    ("MIR", "Mirador", "C", 1903, None, "N", 12),
    ("EXP", "Exhibition Park", "A", 1998, None, "Y", None),
    ("APT", "Airport", "A", 2003, None, "Y", 1450),
    ("SLQ", "Slate Quarry", "B", 1863, None, "N", None),
    ("NKR", "Nowa Karsta", "C", 1926, None, "Y", 38),
    ("FJD", "Fjordgate", "C", 1927, None, "P", 33),
    ("OLH", "Old Harbour", "A", 1847, 1968, "N", None),
    ("MRS", "Marsh Lane", "B", 1890, 1959, "N", None),
    ("TIN", "Tinner's Row", "B", 1866, 1983, "N", None),
]
NAMES = {s[0]: s[1] for s in STATIONS}
# number, name, electrified (P: in part), stops with the kilometres from the start, share of all runs
LINES = [
    (
        10,
        "Coast Line",
        "Y",
        "PEL 0 SWK 5.2 GPT 9.8 CMA 15.1 WSC 24.6 ALM 31.0 CNV 43.7 SMH 47.9 ERV 56.3 THV 68.4",
        32,
    ),
    (
        20,
        "Valley Line",
        "Y",
        "PEL 0 OBR 4.4 ASV 11.7 TWM 18.2 UAV 22.9 SJO 31.5 KAR 42.8 PNW 55.0 HOF 63.6",
        25,
    ),
    (30, "Moor Line", "N", "OBR 0 BMH 8.3 SBR 15.9 WSM 21.4 NYT 33.0 WEX 38.5 DUN 49.2", 12),
    (40, "Lake Line", "N", "KAR 0 LGV 7.1 LKS 12.6 ISO 16.0 ZST 24.8 MIR 32.3", 9),
    (50, "Fjord Line", "P", "THV 0 ERV 12.1 NKR 23.4 FJD 37.7", 5),
    (60, "Airport Shuttle", "Y", "PEL 0 OBR 4.4 EXP 8.0 APT 13.5", 17),
    (70, "Quarry Branch", "N", "TWM 0 SLQ 6.7", 0),
]
# unit, type, built, seats, nickname, depot
UNITS = [
    ("407 001", "EMU", 2006, 172, None, "PEL"),
    ("407 002", "EMU", 2006, 172, "Lady Thorn", "PEL"),
    ("407 003", "EMU", 2006, 172, None, "PEL"),
    ("407 004", "EMU", 2007, 172, None, "PEL"),
    ("407 005", "EMU", 2007, 168, "The Gull", "PEL"),
    ("407 006", "EMU", 2007, 168, None, "KAR"),
    ("412 101", "EMU", 2017, 214, "Sarn Spirit", "PEL"),
    ("412 102", "EMU", 2017, 214, None, "PEL"),
    ("412 103", "EMU", 2018, 214, None, "THV"),
    ("412 104", "EMU", 2018, 210, None, "THV"),
    ("150 210", "DMU", 1986, 124, None, "OBR"),
    ("150 211", "DMU", 1986, 124, "Old Faithful", "OBR"),
    ("150 214", "DMU", 1987, 120, None, "OBR"),
    ("150 219", "DMU", 1988, 120, None, "KAR"),
    ("158 701", "DMU", 1991, 138, None, "OBR"),
    ("158 702", "DMU", 1991, 138, "Moor Hen", "OBR"),
    ("158 705", "DMU", 1992, 134, None, "KAR"),
    ("630 001", "BEMU", 2021, 156, None, "KAR"),
    ("630 002", "BEMU", 2021, 156, "Quiet Giant", "KAR"),
    ("630 003", "BEMU", 2022, 156, None, "THV"),
    ("630 004", "BEMU", 2022, 160, None, "THV"),
    ("128 900", "railcar", 1959, 52, "Grandma", "KAR"),
]
NOT_IN_USE = ["128 900", "150 219"]
CAUSES = [
    ("A1", "signal failure", "network"),
    ("A2", "points frozen or stuck", "network"),
    ("A4", "track defect", "network"),
    ("B1", "train fault", "own"),
    ("B3", "doors not closing", "own"),
    ("C1", "crew late or missing", "own"),
    ("C2", "waiting for a connection", "own"),
    ("D1", "boarding took too long", "own"),
    ("W1", "storm or flooding", "outside"),
    ("W2", "leaves on the rails", "outside"),
    ("X1", "animals on the line", "outside"),
    ("X2", "trespassers", "outside"),
    ("X5", "level crossing misuse", "outside"),
    ("Z9", "volcanic ash", "outside"),
]
FIRST = """Anouk Bartosz Carmen Dagny Esteban Folake Gwen Hamid Isolde Jorge Katya Luca Mireille Nils Oyelaran Pilar
Rashid Sigrid Tadeo Ulrike Vikram Wendy Ximena Yusuf Zofia Agnes Bilal Chiara Dilip Eirik Femke Gonzalo""".split()
LAST = """Almeida Bakke Conteh De_Vries Eklund Ferrari Gallagher Hossain Iyer Jokinen Kovacs Laurent Mbala Mendoza Nwosu
O'Rourke Paulsen Quispe Romano Sato Thorne Urbina Vance Weiss Yamada Zielinski""".split()
CANCELLED = [
    "cancelled: no driver",
    "cancelled: no driver",
    "cancelled: unit failed",
    "cancelled: flooded track",
    "Cancelled: strike",
    "cancelled: signal fault",
]
BUS = [
    "replaced by bus: Track works",
    "replaced by bus: bridge repair",
    "replaced by bus: flooding",
]
CROWD = {10: 96, 20: 84, 30: 37, 40: 41, 50: 22, 60: 118}


def stops(line):
    words = line[3].split()
    return [(i, words[2 * i - 2], float(words[2 * i - 1])) for i in range(1, len(words) // 2 + 1)]


def make_crew(rng):
    "Drivers, driver instructors, guards and trainees; later joiners may have an earlier one as mentor."
    names = [f"{f} {rng.choice(LAST).replace('_', ' ')}" for f in rng.sample(FIRST, 30)]
    names.insert(7, "Ana Silva")
    names.insert(22, "Ana Silva")
    days = sorted(date(1995, 1, 9) + timedelta(days=rng.randrange(10000)) for _ in names)
    crew = []
    for i, (name, day) in enumerate(zip(names, days), 1):
        grade = ["driver", "guard", "driver", "driver", "guard"][i % 5]
        if i > 29:
            day = date(2022, 3, 7) + timedelta(days=150 * (i - 30) + rng.randrange(90))
        grade = "driver instructor" if i in (2, 5, 9) else "trainee driver" if i > 29 else grade
        depot = rng.choices(["PEL", "OBR", "KAR", "THV"], [5, 3, 3, 2])[0]
        family = [
            c[0]
            for c in crew
            if c[2] == grade or (c[2] == "driver instructor" and grade != "guard")
        ]
        family = [c for c in family if c < 30]
        mentor = rng.choice(family[:4]) if family and i > 4 and rng.random() < 0.8 else None
        left = (
            str(date(2023, 1, 31) + timedelta(days=rng.randrange(300)))
            if i in (1, 6, 13, 18)
            else None
        )
        crew.append((i, name, grade, depot, str(day), left, mentor))
    return crew


def at_work(crew, grades, day):
    return [c[0] for c in crew if c[2] in grades and c[4] <= day and (c[5] is None or day <= c[5])]


def timetable(rng):
    "The year's logged runs, in order of day and time: (day, departure, line)."
    days, found = [date(2023, 1, 1) + timedelta(days=i) for i in range(365)], []
    for day in days:
        trains = rng.choice([1, 2, 2, 3, 3, 4] if day.weekday() < 5 else [1, 2])
        for line in rng.choices(LINES, [known[4] for known in LINES], k=trains):
            first, last = rng.choices([(310, 560), (560, 930), (930, 1380)], [4, 3, 5])[0]
            minute = rng.randrange(first, last)
            found.append((str(day), f"{minute // 60:02}:{minute % 60:02}", line))
    return sorted(found, key=lambda f: (f[0], f[1], f[2][0]))


def pick_units(rng, line, taken):
    "One unit, or two coupled ones on busy lines; diesels or batteries where the wires do not reach."
    kinds = {"Y": ("EMU", "EMU", "BEMU"), "P": ("BEMU",), "N": ("DMU", "DMU", "BEMU")}[line[2]]
    free = [
        u[0]
        for k in kinds
        for u in UNITS
        if u[1] == k and u[0] not in NOT_IN_USE and u[0] not in taken
    ]
    lead = rng.choice(free)
    rest = [u for u in free if u != lead]
    tail = (
        rng.choice(rest)
        if rng.random() < {10: 0.3, 20: 0.25, 60: 0.1, 30: 0.08}.get(line[0], 0)
        else None
    )
    taken += [lead, tail]
    return lead, tail


def make_run(rng, i, day, departs, line, crew, taken):
    month, head = int(day[5:7]), (i, line[0], day, departs, rng.choice("UD"))
    rough = 2 if line[0] == 30 or month in (1, 2, 12) else 1
    luck = rng.random()
    if luck < 0.035 * rough:
        return head + (None, None, None, None, "NR", None, rng.choice(CANCELLED))
    if luck < 0.055 * rough and line[0] != 60:
        return head + (None, None, None, None, "RB", None, rng.choice(BUS))
    lead, tail = pick_units(rng, line, taken)
    driver = rng.choice(
        [c for c in at_work(crew, ("driver", "driver instructor"), day) if c not in taken]
    )
    guards = [c for c in at_work(crew, ("guard",), day) if c not in taken]
    guard = None if rng.random() < (0.85 if line[0] == 60 else 0.2) else rng.choice(guards)
    taken += [driver, guard]
    peak = 1.5 if departs < "09:00" or "16:00" < departs < "18:30" else 0.8
    crowd = max(
        3, round(CROWD[line[0]] * peak * rng.lognormvariate(0, 0.45) * (1.4 if tail else 1))
    )
    status, remark = "OK", None
    if luck > 0.96:
        place = rng.choice(stops(line)[1:-1])[1]
        status, remark = "PC", "turned back at " + NAMES[place]
    return head + (
        lead,
        tail,
        driver,
        guard,
        status,
        None if rng.random() < 0.07 else crowd,
        remark,
    )


def make_delays(rng, runs):
    lines, found = {line[0]: line for line in LINES}, []
    for r in runs:
        month = int(r[2][5:7])
        if r[5] is None or rng.random() > (0.5 if r[1] == 30 or month in (1, 10, 11, 12) else 0.32):
            continue
        places = [s[1] for s in stops(lines[r[1]]) if s[1] not in ("MIR", "FJD", "SWK")]
        if r[9] == "PC":
            places = [p for p in places if r[11].endswith(" at " + NAMES[p])] or places[:1]
        autumn, winter = month in (10, 11), month in (1, 2, 12)
        weights = [
            14,
            12 if winter else 2,
            4,
            10,
            5,
            9,
            11,
            13,
            4 + 6 * winter,
            24 if autumn else 0,
            3,
            2,
            2,
            0,
        ]
        for _ in range(rng.choices([1, 2, 3], [7, 3, 1])[0]):
            cause = rng.choices(CAUSES, weights)[0][0]
            lost = 2 + round(rng.expovariate(1 / (4 if cause in ("D1", "C2", "B3") else 10)))
            found.append((len(found) + 1, r[0], rng.choice(places), lost, cause))
    return found


def rows(rng):
    crew, runs, day, taken = make_crew(rng), [], "", []
    for i, (when, departs, line) in enumerate(timetable(rng), 1):
        taken = taken if when == day else []
        day = when
        runs.append(make_run(rng, i, when, departs, line, crew, taken))
    return {
        "station": STATIONS,
        "line": [
            (line[0], line[1], stops(line)[0][1], stops(line)[-1][1], line[2]) for line in LINES
        ],
        "calling_point": [(line[0], *stop) for line in LINES for stop in stops(line)],
        "rolling_stock": UNITS,
        "crew": crew,
        "cause": CAUSES,
        "run": runs,
        "delay_attribution": make_delays(rng, runs),
    }


QUESTIONS = [
    # one table
    (
        "Which of our units carries the nickname Moor Hen? I need its number.",
        "SELECT unit_no FROM rolling_stock WHERE nickname = 'Moor Hen'",
    ),
    (
        "How many trains in the log were cancelled outright, that is, neither ran nor were replaced by a bus?",
        "SELECT COUNT(*) FROM run WHERE status = 'NR'",
    ),
    (
        "A wheelchair user asks: which stations are only partly step-free? Give their names.",
        "SELECT name FROM station WHERE step_free = 'P'",
    ),
    (
        "How many seats does one of our plain electric multiple units (not the battery ones) have on average, to "
        "two decimals?",
        "SELECT ROUND(AVG(seats), 2) FROM rolling_stock WHERE type = 'EMU'",
    ),
    (
        "What is the highest number of passengers that we ever counted on a single train of line 60?",
        "SELECT MAX(boarded) FROM run WHERE line_no = 60",
    ),
    (
        "How many passengers were counted in total on all logged trains of 18 October 2023?",
        "SELECT SUM(boarded) FROM run WHERE run_date = '2023-10-18'",
    ),
    (
        "Controllers keep writing W2 when a train loses time. What does that stand for?",
        "SELECT meaning FROM cause WHERE code = 'W2'",
    ),
    (
        "How many delay entries are there that cost half an hour or more each?",
        "SELECT COUNT(*) FROM delay_attribution WHERE lost >= 30",
    ),
    (
        "What is the earliest departure time of the day anywhere in the log for a train of line 20, whether it ran "
        "or not?",
        "SELECT MIN(departs) FROM run WHERE line_no = 20",
    ),
    (
        "How many of all our stations, closed ones included, were opened in 1900 or earlier?",
        "SELECT COUNT(*) FROM station WHERE opened <= 1900",
    ),
    # two tables, or two conditions
    (
        "How many stations does each line call at, both ends included? Give the name of the line, then the number.",
        "SELECT l.name, COUNT(*) FROM line l JOIN calling_point c ON c.line_no = l.line_no GROUP BY l.name",
    ),
    (
        "Who is Jorge Mendoza's mentor?",
        "SELECT m.name FROM crew c JOIN crew m ON m.crew_id = c.mentor_id WHERE c.name = 'Jorge Mendoza'",
    ),
    (
        "Where can most cars be parked? Name the three stations with the most spaces, the biggest car park first.",
        "SELECT name FROM station WHERE car_park IS NOT NULL ORDER BY car_park DESC LIMIT 3",
    ),
    (
        "How many of the trains that ran all the way, as planned, had no guard on board?",
        "SELECT COUNT(*) FROM run WHERE status = 'OK' AND guard_id IS NULL",
    ),
    (
        "Where do we lose time? Name every station with delay entries and the total minutes lost "
        "there, keeping stations "
        "of the same name apart.",
        "SELECT s.name, SUM(d.lost) FROM station s "
        "JOIN delay_attribution d ON d.station = s.code GROUP BY s.code, s.name",
    ),
    (
        "How many minutes were lost altogether through ourselves, through the network and through outside influences? "
        "Give our records' word for each, then the minutes.",
        "SELECT c.type, SUM(d.lost) FROM cause c JOIN delay_attribution d ON d.cause = c.code GROUP BY c.type",
    ),
    (
        "At which station does the Lake Line start? Its name, please, not the abbreviation.",
        "SELECT s.name FROM line l JOIN station s ON s.code = l.from_station WHERE l.name = 'Lake Line'",
    ),
    (
        "How long is the Moor Line from end to end, in kilometres?",
        "SELECT MAX(c.km) FROM line l JOIN calling_point c ON c.line_no = l.line_no WHERE l.name = 'Moor Line'",
    ),
    (
        "Which guards have Oldbridge as their home depot? Just their names, please.",
        "SELECT c.name FROM crew c JOIN station s ON s.code = c.depot WHERE s.name = 'Oldbridge' AND c.grade = 'guard'",
    ),
    (
        "How many minutes were lost in each month of 2023? Write the month like 2023-01, then the minutes.",
        "SELECT substr(r.run_date, 1, 7), SUM(d.lost) FROM run r JOIN delay_attribution d ON d.run_id = r.run_id "
        "GROUP BY substr(r.run_date, 1, 7)",
    ),
    (
        "On which days was a train stopped by flooding, going by the remarks in the log and with or without a bus "
        "instead? Each date once, please.",
        "SELECT DISTINCT run_date FROM run WHERE remark LIKE '%flood%'",
    ),
    (
        "I need every train that had to turn back short of its destination: its date, departure time and line number.",
        "SELECT run_date, departs, line_no FROM run WHERE status = 'PC'",
    ),
    (
        "How many different people have driven a train on the Airport Shuttle?",
        "SELECT COUNT(DISTINCT r.driver_id) FROM run r "
        "JOIN line l ON l.line_no = r.line_no WHERE l.name = 'Airport Shuttle'",
    ),
    # more
    (
        "Which stations date back to the very first year of our network, counting any that have closed since? "
        "Names, please.",
        "SELECT name FROM station WHERE opened = (SELECT MIN(opened) FROM station)",
    ),
    (
        "Which stations that are still open do not show up in a single delay entry? Just their names, please.",
        "SELECT name FROM station WHERE closed IS NULL AND code NOT IN (SELECT station FROM delay_attribution)",
    ),
    (
        "Which of our driver instructors drove the most trains in the log?",
        "SELECT c.name FROM crew c JOIN run r ON r.driver_id = c.crew_id "
        "WHERE c.grade = 'driver instructor' GROUP BY c.crew_id, c.name ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "What percentage of all logged Moor Line trains was cancelled outright, without even a bus? To one decimal.",
        "SELECT ROUND(100.0 * SUM(CASE WHEN r.status = 'NR' THEN 1 ELSE 0 END) / COUNT(*), 1) "
        "FROM run r JOIN line l ON l.line_no = r.line_no WHERE l.name = 'Moor Line'",
    ),
    (
        "At which stations can you change trains because at least two lines serve them? Just the "
        "names, and stations of "
        "the same name count separately.",
        "SELECT s.name FROM station s JOIN calling_point c ON c.station = s.code GROUP BY s.code, s.name "
        "HAVING COUNT(DISTINCT c.line_no) >= 2",
    ),
    (
        "What is the name of the line for which the log does not hold a single train?",
        "SELECT name FROM line WHERE line_no NOT IN (SELECT line_no FROM run)",
    ),
    (
        "Two of our drivers have exactly the same name and the mail keeps getting mixed up. What is that name?",
        "SELECT name FROM crew WHERE grade = 'driver' GROUP BY name HAVING COUNT(*) > 1",
    ),
    (
        "On how many trains were more passengers counted than there were seats, adding both units "
        "where two were coupled?",
        "SELECT COUNT(*) FROM run r JOIN rolling_stock a ON a.unit_no = r.lead_unit "
        "LEFT JOIN rolling_stock b ON b.unit_no = r.tail_unit WHERE r.boarded > a.seats + COALESCE(b.seats, 0)",
    ),
    (
        "How many kilometres is the longest stretch between two neighbouring stations on the "
        "Coast Line, to one decimal?",
        "SELECT ROUND(MAX(b.km - a.km), 1) FROM calling_point a JOIN calling_point b ON b.line_no = a.line_no "
        "AND b.seq = a.seq + 1 JOIN line l ON l.line_no = a.line_no WHERE l.name = 'Coast Line'",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="Weston station gets the code WST in place of WSM. Carry that through to everything that uses the code.",
        gold=[
            "INSERT INTO station SELECT 'WST', name, zone, opened, closed, step_free, car_park FROM station "
            "WHERE code = 'WSM'",
            "UPDATE calling_point SET station = 'WST' WHERE station = 'WSM'",
            "UPDATE delay_attribution SET station = 'WST' WHERE station = 'WSM'",
            "DELETE FROM station WHERE code = 'WSM'",
        ],
        writes="station line calling_point rolling_stock crew delay_attribution",
        wrong=[["UPDATE station SET code = 'WST' WHERE code = 'WSM'"]],
    ),
    dict(
        ask="Nobody can be mentored by someone who is gone: blank the mentor of all crew whose mentor has left us.",
        gold=[
            "UPDATE crew SET mentor_id = NULL "
            "WHERE mentor_id IN (SELECT crew_id FROM crew WHERE left_on IS NOT NULL)"
        ],
        writes="crew",
        rule=True,
        wrong=[["UPDATE crew SET mentor_id = NULL WHERE left_on IS NOT NULL"]],
    ),
    dict(
        ask="Ana Silva of the Karsten depot moves to the one at Thornhaven.",
        gold=[
            "UPDATE crew SET depot = (SELECT code FROM station WHERE name = 'Thornhaven') "
            "WHERE name = 'Ana Silva' AND depot = (SELECT code FROM station WHERE name = 'Karsten')"
        ],
        writes="crew",
        wrong=[["UPDATE crew SET depot = 'THV' WHERE name = 'Ana Silva'"]],
    ),
    dict(
        ask="If a run is still down for a driver on a day after that driver left us, take the driver off the run.",
        gold=[],
        writes="run",
        wrong=[
            [
                "UPDATE run SET driver_id = NULL "
                "WHERE driver_id IN (SELECT crew_id FROM crew WHERE left_on IS NOT NULL)"
            ]
        ],
    ),
]
