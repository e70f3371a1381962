"""The books of the Orrin Vale Growers' Co-op: fruit and vegetables from field to weighbridge to payout (fictional)."""

from datetime import date, timedelta

SPLIT = "train"
SCHEMA = """
CREATE TABLE member (member_no INTEGER PRIMARY KEY, name TEXT NOT NULL, village TEXT NOT NULL, joined_on TEXT NOT NULL,
    left_on TEXT, sponsor_no INTEGER REFERENCES member(member_no), shares INTEGER NOT NULL);
CREATE TABLE field (field_id INTEGER PRIMARY KEY, member_no INTEGER NOT NULL REFERENCES member(member_no),
    name TEXT NOT NULL, type TEXT NOT NULL, hectares REAL NOT NULL, organic_since TEXT, irrigated INTEGER NOT NULL);
CREATE TABLE crop (crop_id INTEGER PRIMARY KEY, name TEXT NOT NULL, variety TEXT, type TEXT NOT NULL,
    rate INTEGER NOT NULL);
CREATE TABLE planting (planting_id INTEGER PRIMARY KEY, field_id INTEGER NOT NULL REFERENCES field(field_id),
    crop_id INTEGER NOT NULL REFERENCES crop(crop_id), planted_on TEXT NOT NULL, area_ha REAL NOT NULL, note TEXT);
CREATE TABLE grade_key (code TEXT PRIMARY KEY, meaning TEXT NOT NULL, pay_pct INTEGER NOT NULL);
CREATE TABLE docket (docket_no INTEGER PRIMARY KEY, planting_id INTEGER NOT NULL REFERENCES planting(planting_id),
    brought_by INTEGER REFERENCES member(member_no), delivered_on TEXT NOT NULL, crates INTEGER NOT NULL,
    kg INTEGER NOT NULL, grade TEXT REFERENCES grade_key(code));
CREATE TABLE payout (payout_no INTEGER PRIMARY KEY, member_no INTEGER NOT NULL REFERENCES member(member_no),
    season INTEGER NOT NULL, kind TEXT NOT NULL, amount REAL NOT NULL, paid_on TEXT);
CREATE TABLE committee_seat (seat_id INTEGER PRIMARY KEY, member_no INTEGER NOT NULL REFERENCES member(member_no),
    committee TEXT NOT NULL, role TEXT NOT NULL, since TEXT NOT NULL, until TEXT);
"""

GIVEN = """Agnes Tomasz Ngozi Hamish Pilar Ravi Mei Oluwaseun Ingrid Yusuf Bettina Carlos Dilnoza Eamon Fatima Goran
Hana Ibrahim Jolanta Kwame Lucinda Mateus Nadia Orla Pavel Quentin Rosa Sunil Tamsin Ulrike Vikram Wanjiru Xavier
Yara Zoltan Amina Bruno Chidi Delphine Emeka Freya Giulia Henrik Isla Jamal Keiko Leif Marisol Nils Oksana""".split()
FAMILY = """O'Donnell Adeyemi Kowalska Fraser Ortega Menon Lin Balogun Nyström Demir Hofmann Ferreira Karimova Quirke
Haddad Petrović Sato Diallo Mazur Boateng Whitlock Sousa Rahman D'Angelo Novák Blackwood Jiménez Perera Trelawny
Brandt Iyer Kamau O'Shea Nasser Szabó Warsame Ricci Okafor Marchand Eze Halvorsen Bianchi Lund MacRae Toure
Tanaka Vestergaard Cruz Pettersson Shevchenko""".split()
VILLAGES = {
    "Upper Orrin": 22,
    "Quillbeck": 18,
    "Saint Odo": 15,
    "Lower Orrin": 13,
    "Hask": 9,
    "Pennywell": 9,
    "O'Dell's Cross": 7,
    "Brayford Mill": 4,
}
FIELD_NAMES = """Long Acre|Miller's Piece|The Knoll|Crow Park|Bottom Meadow|Widow's Patch|Far Close|Stony Bit|Top Field
Gander Green|The Paddock|Church Side|Ten Rods|Hollow Way|Nettle Corner|Old Brickworks|Lamb's Ley|Sandy Lane|The Shelf
Chapel Ground|River Strip|Foxholes|Beggar's Bush|The Triangle|Windy Bank|Behind the Barn|Ash Hill|Pump Field
Bee Garden|Mother's Garden|Sunday Field|Toll House|Pightle|Kiln Croft|Badger Dene|Lady's Mantle"""
FIELD_NAMES = FIELD_NAMES.replace("\n", "|").split("|")
# name: type, kind of land, planting month, picking months, kilos a crate, [(variety, cents per kilo)]
CROPS = {
    "Apple": (
        "top fruit",
        "orchard",
        11,
        (8, 11),
        13,
        [
            ("Bramley", 88),
            ("Discovery", 112),
            ("Egremont Russet", 134),
            ("Ashmead's Kernel", 151),
            ("Jonagold", 95),
        ],
    ),
    "Pear": (
        "top fruit",
        "orchard",
        11,
        (8, 10),
        12,
        [("Conference", 118), ("Comice", 146), ("Williams", 109)],
    ),
    "Plum": (
        "top fruit",
        "orchard",
        12,
        (7, 9),
        9,
        [("Victoria", 162), ("Marjorie's Seedling", 139)],
    ),
    "Cherry": ("top fruit", "orchard", 12, (6, 7), 5, [("Stella", 415), ("Morello", 372)]),
    "Quince": ("top fruit", "orchard", 12, (10, 11), 10, [(None, 175)]),
    "Strawberry": (
        "soft fruit",
        "tunnel",
        3,
        (5, 9),
        4,
        [("Elsanta", 480), ("Mara des Bois", 655), ("Honeoye", 445)],
    ),
    "Raspberry": (
        "soft fruit",
        "tunnel",
        3,
        (6, 10),
        3,
        [("Autumn Bliss", 720), ("Tulameen", 765)],
    ),
    "Gooseberry": ("soft fruit", "open", 2, (6, 7), 5, [("Invicta", 390)]),
    "Blackcurrant": ("soft fruit", "open", 2, (7, 8), 5, [("Ben Sarek", 365)]),
    "Potato": (
        "root",
        "open",
        4,
        (7, 10),
        18,
        [("Charlotte", 74), ("King Edward", 62), ("Désirée", 58), ("Pink Fir Apple", 129)],
    ),
    "Carrot": (
        "root",
        "open",
        4,
        (7, 11),
        14,
        [("Nantes", 71), ("Purple Haze", 104), ("Autumn King", 66)],
    ),
    "Beetroot": ("root", "open", 4, (7, 11), 13, [("Boltardy", 83), ("Chioggia", 121)]),
    "Parsnip": ("root", "open", 4, (9, 11), 12, [("Tender and True", 97)]),
    "Horseradish": ("root", "open", 3, (10, 11), 8, [(None, 540)]),
    "Lettuce": (
        "leaf",
        "open",
        3,
        (5, 10),
        6,
        [("Little Gem", 192), ("Lollo Rossa", 205), ("Webb's Wonderful", 168)],
    ),
    "Kale": ("leaf", "open", 5, (8, 11), 5, [("Nero di Toscana", 214), ("Red Russian", 223)]),
    "Chard": ("leaf", "open", 4, (6, 10), 6, [("Bright Lights", 187)]),
    "Spinach": ("leaf", "open", 3, (5, 10), 5, [("Bloomsdale", 236)]),
    "Tomato": (
        "vine",
        "glasshouse",
        3,
        (6, 10),
        8,
        [("Gardener's Delight", 310), ("San Marzano", 265), ("Brandywine", 345), ("Sungold", 398)],
    ),
    "Cucumber": ("vine", "glasshouse", 4, (6, 9), 9, [("Telegraph", 171)]),
    "Pepper": ("vine", "glasshouse", 3, (7, 10), 6, [("Corno di Toro", 352), ("Padrón", 488)]),
    "Aubergine": ("vine", "glasshouse", 3, (7, 9), 7, [("Black Beauty", 287)]),
    "Pumpkin": ("vine", "open", 5, (9, 11), 22, [("Crown Prince", 92), ("Jack of All Trades", 54)]),
    "Courgette": ("vine", "open", 5, (6, 9), 8, [("Zephyr", 143)]),
    "Broad bean": ("pod", "open", 3, (6, 8), 7, [("Aquadulce", 178)]),
    "Runner bean": ("pod", "open", 5, (7, 9), 6, [("Painted Lady", 249)]),
    "Pea": ("pod", "open", 3, (6, 7), 6, [("Kelvedon Wonder", 231), ("Alderman", 242)]),
    "Leek": ("bulb", "open", 4, (9, 11), 10, [("Musselburgh", 127)]),
    "Onion": ("bulb", "open", 3, (7, 9), 15, [("Sturon", 69), ("Red Baron", 81)]),
    "Garlic": ("bulb", "open", 2, (6, 8), 6, [("Solent Wight", 610)]),
    "Basil": ("herb", "tunnel", 4, (6, 9), 2, [("Genovese", 905)]),
    "Saffron": ("herb", "open", 8, (10, 11), 1, [(None, 245000)]),
    "Lovage": ("herb", "open", 4, (5, 8), 2, [(None, 830)]),
}
UNPLANTED = ("Saffron", "Lovage", "Aubergine")  # in the price list, but nobody has dared yet
GRADES = [
    ("X1", "Extra", 112),
    ("X2", "Class I", 100),
    ("X3", "Class II", 76),
    ("JP", "Juice and pulp only", 35),
    ("NR", "Not received: turned away at the gate", 0),
]
NOTES = [
    "Hail in June",
    "lost a third to hail",
    "Replanted after hail",
    "slug damage",
    "frost at blossom time",
    "late blight",
    "trial for the school kitchen",
    "sown late, field too wet",
    "deer got in",
    "seed from neighbour",
    "Under fleece until May",
    "carrot fly again",
    "HAIL, insurance informed",
    "pigeons",
]
COMMITTEES = {
    "Board": 5,
    "Packhouse": 3,
    "Seeds and Plants": 2,
    "Water Rights": 3,
    "Harvest Supper": 4,
}
FAILED = {2021: 0.1, 2022: 0.14, 2023: 0.2}  # part of the plantings that gave nothing that year
LOADS = [3, 5, 6, 5, 3, 2, 1, 1]  # how often a planting gives 1, 2, ... loads


def a_day(rng, year, month, last_month=None):
    "Any day from the first of `month` to the 28th of `last_month`."
    start, end = date(year, month, 1), date(year, last_month or month, 28)
    return start + timedelta(days=rng.randrange((end - start).days + 1))


def members(rng):
    "Members in order of joining; two pairs share a name, later ones were mostly sponsored by an older one."
    names = [f"{g} {f}" for g, f in zip(rng.sample(GIVEN * 2, 86), rng.sample(FAMILY * 2, 86))]
    for i, name in {
        3: "Hamish O'Donnell",
        9: "Ngozi Adeyemi",
        17: "Pilar Jiménez",
        30: "Rosa Ferreira",
        44: "Wanjiru Kamau",
        52: "Tomasz Mazur",
        61: "Rosa Ferreira",
        78: "Tomasz Mazur",
    }.items():
        names[i] = name
    names = list(dict.fromkeys(names)) + ["Rosa Ferreira", "Tomasz Mazur"]
    joined = sorted(
        a_day(rng, rng.choices(range(1996, 2024), [14] + [1.5] * 17 + [4] * 10)[0], 1, 12)
        for _ in names
    )
    out, patrons = [], []
    for no, (name, day) in enumerate(zip(names, joined), 1):
        sponsor = None
        if no > 12 and rng.random() < 0.72:
            sponsor = rng.choice([p for p in patrons if out[p - 1][4] is None])
        if no == 1 or rng.random() < 0.3:
            patrons += [no] * rng.choice([1, 1, 2, 5])
        left = None
        if rng.random() < 0.24 and day.year < 2020 and no not in patrons:
            left = str(a_day(rng, rng.randrange(max(day.year + 2, 2009), 2024), 1, 12))
        village = rng.choices(list(VILLAGES), list(VILLAGES.values()))[0]
        shares = rng.choices([1, 2, 5, 10, 20], [30, 25, 20, 10, 4])[0] + rng.randrange(
            3
        ) * rng.randrange(4)
        out.append((no, name, village, str(day), left, sponsor, shares))
    return out


def fields(rng, people):
    "A few growers have much land, some members have none; glass and tunnels are small."
    out, size = (
        [],
        {
            "open": (0.8, 6.5),
            "orchard": (0.5, 4.0),
            "tunnel": (0.08, 0.6),
            "glasshouse": (0.04, 0.3),
        },
    )
    for person in people:
        count = rng.choices([0, 1, 2, 3, 4, 7], [14, 30, 26, 14, 8, 3])[0]
        for name in rng.sample(FIELD_NAMES, count):
            kind = rng.choices(list(size), [52, 22, 16, 10])[0]
            low, high = size[kind]
            hectares = round(low + (high - low) * rng.random() ** 1.7, 2)
            organic = (
                str(a_day(rng, rng.randrange(2004, 2022), 3, 10)) if rng.random() < 0.27 else None
            )
            wet = int(kind in ("tunnel", "glasshouse") or rng.random() < 0.3)
            out.append((len(out) + 1, person[0], name, kind, hectares, organic, wet))
    return out


def crops():
    "The price list, one row per variety; also the growing facts by crop number."
    out, facts = [], {}
    for name, (kind, land, month, picking, crate, varieties) in CROPS.items():
        for variety, rate in varieties:
            out.append((len(out) + 1, name, variety, kind, rate))
            facts[len(out)] = (land, month, picking, crate)
    return out, facts


def season_end(person):
    "The last season a member can deliver in (members who left stop the year before)."
    return int(person[4][:4]) - 1 if person[4] else 2023


def plantings(rng, people, land, price_list, facts):
    "Orchards are planted once, everything else every year; some fields lie fallow."
    out = []
    for field_id, owner, _, kind, hectares, _, _ in land:
        if rng.random() < 0.07 or season_end(people[owner - 1]) < 2021:
            continue
        pool = [c[0] for c in price_list if facts[c[0]][0] == kind and c[1] not in UNPLANTED]
        first = max(2021, int(people[owner - 1][3][:4]) + 1)
        years = (
            [rng.randrange(1994, 2019)]
            if kind == "orchard"
            else range(first, season_end(people[owner - 1]) + 1)
        )
        for year in years:
            if kind != "orchard" and rng.random() < 0.12:
                continue
            picks = rng.sample(pool, rng.choices([1, 2, 3], [6, 3, 1])[0])
            for crop_id in picks:
                area = round(hectares / len(picks) * rng.choice([1, 1, 0.9, 0.75]), 2)
                day = a_day(rng, year, facts[crop_id][1])
                note = rng.choice(NOTES) if rng.random() < 0.2 else None
                out.append((len(out) + 1, field_id, crop_id, str(day), max(area, 0.02), note))
    return out


def dockets(rng, people, land, planted, facts):
    "One docket per load over the weighbridge, in order of delivery."
    loads, care = [], [rng.choice([0.6, 1, 1, 1.6]) for _ in people]
    for planting_id, field_id, crop_id, day, area, _ in planted:
        owner = people[land[field_id - 1][1] - 1]
        fresh = land[field_id - 1][3] != "orchard"
        for year in (
            [int(day[:4])]
            if fresh
            else range(max(2021, int(owner[3][:4]) + 1), season_end(owner) + 1)
        ):
            if rng.random() < FAILED[year]:
                continue
            _, _, (start, end), crate = facts[crop_id]
            for _ in range(rng.choices(range(1, 9), LOADS)[0]):
                when = a_day(rng, year, start, end)
                crates = max(3, round(rng.gauss(14, 5) * (1 + area / 3)))
                driver = carrier(rng, people, owner, when)
                mark = grading(rng, care[owner[0] - 1], when)
                kg = round(crates * crate * rng.uniform(0.85, 1.12))
                loads.append((str(when), planting_id, driver, crates, max(kg, 2), mark))
    loads.sort(key=lambda r: (r[0], r[1]))
    return [
        (20100 + i, p, who, day, crates, kg, mark)
        for i, (day, p, who, crates, kg, mark) in enumerate(loads, 1)
    ]


def carrier(rng, people, owner, when):
    "The grower, a neighbour from the village, or nobody (our own lorry fetched it)."
    dice = rng.random()
    if dice < 0.57:
        return owner[0]
    near = [
        p for p in people if p[2] == owner[2] and p[0] != owner[0] and p[3] < str(when) and not p[4]
    ]
    return near[int(len(near) * rng.random() ** 3)][0] if near and dice < 0.8 else None


def grading(rng, care, when):
    "Extra to turned away; the last loads of 2023 are partly still ungraded."
    if rng.random() < (0.3 if when > date(2023, 10, 20) else 0.006):
        return None
    return rng.choices([g[0] for g in GRADES], [18 * care, 46, 22 / care, 8 / care, 5 / care])[0]


def payouts(rng, land, price_list, planted, loads):
    "Advance in late summer, final payment in winter, bonus for organic growers; some are still to be paid."
    worth, share = {}, {g[0]: g[2] for g in GRADES}
    for _, planting_id, _, day, _, kg, mark in loads:
        planting = planted[planting_id - 1]
        key = (int(day[:4]), land[planting[1] - 1][1])
        worth[key] = (
            worth.get(key, 0) + kg * price_list[planting[2] - 1][4] * share.get(mark, 0) / 1e4
        )
    organic = [f[1] for f in land if f[5]]
    out = []
    for (season, member), value in sorted(worth.items()):
        early = value * rng.choice([0.5, 0.6, 0.6])
        parts = [0.5, 0.5] if rng.random() < 0.12 else [1]
        for n, part in enumerate(parts):
            out.append(
                (member, season, "ADV", round(early * part, 2), str(a_day(rng, season, 9 + n)))
            )
        waiting = season == 2023 and rng.random() < 0.45
        out.append(
            (
                member,
                season,
                "FIN",
                round(value - early, 2),
                None if waiting else str(a_day(rng, season, 12)),
            )
        )
        if member in organic and rng.random() < 0.8:
            late = season == 2023 and rng.random() < 0.6
            out.append(
                (
                    member,
                    season,
                    "BON",
                    round(value * 0.05, 2),
                    None if late else str(a_day(rng, season, 12)),
                )
            )
    out = [r for r in out if r[3] >= 1]
    return [(i, *r) for i, r in enumerate(out, 1)]


def seats(rng, people):
    "Chairs follow one another; other seats come and go, and some people sit on several committees."
    out, stay = [], [p for p in people if not p[4] and p[0] < 60]

    def sit(committee, role, start, end):
        able = [p for p in stay if p[3] < start]
        out.append((able[int(len(able) * rng.random() ** 1.4)][0], committee, role, start, end))

    for committee, size in COMMITTEES.items():
        year = rng.randrange(2004, 2009)
        while year < 2024:
            end = year + rng.randrange(2, 6)
            sit(committee, "chair", f"{year}-02-01", f"{end}-01-31" if end < 2024 else None)
            year = end
        for role in ["treasurer", "secretary"] * (committee in ("Board", "Harvest Supper")) + [
            "ordinary"
        ] * size:
            start = rng.randrange(2008, 2022)
            end = start + rng.randrange(2, 9)
            sit(committee, role, f"{start}-02-01", f"{end}-01-31" if end < 2024 else None)
    out.sort(key=lambda r: r[3])
    return [(i, *r) for i, r in enumerate(out, 1)]


def rows(rng):
    "Rows of every table: {table: [tuples in column order]}."
    people = members(rng)
    land = fields(rng, people)
    price_list, facts = crops()
    planted = plantings(rng, people, land, price_list, facts)
    loads = dockets(rng, people, land, planted, facts)
    paid = payouts(rng, land, price_list, planted, loads)
    return {
        "member": people,
        "field": land,
        "crop": price_list,
        "planting": planted,
        "grade_key": GRADES,
        "docket": loads,
        "payout": paid,
        "committee_seat": seats(rng, people),
    }


QUESTIONS = [
    (
        "How many people have left the co-op over the years?",
        "SELECT COUNT(*) FROM member WHERE left_on IS NOT NULL",
    ),
    (
        "How many hectares of orchard do we have on our books in all, to two decimals?",
        "SELECT ROUND(SUM(hectares), 2) FROM field WHERE type = 'orchard'",
    ),
    (
        "A driver asks what it means when his load is marked JP. What do we tell him?",
        "SELECT meaning FROM grade_key WHERE code = 'JP'",
    ),
    (
        "Which varieties of apple are on our price list?",
        "SELECT variety FROM crop WHERE name = 'Apple'",
    ),
    (
        "How many kilos was the heaviest load that ever went over the weighbridge?",
        "SELECT MAX(kg) FROM docket",
    ),
    (
        "For how many loads is nobody noted as having brought them in?",
        "SELECT COUNT(*) FROM docket WHERE brought_by IS NULL",
    ),
    ("On what date did the very first of our members join?", "SELECT MIN(joined_on) FROM member"),
    (
        "Which village is Ngozi Adeyemi from?",
        "SELECT village FROM member WHERE name = 'Ngozi Adeyemi'",
    ),
    (
        "What do all the bonuses we have granted so far add up to, paid out already or not? Two decimals, please.",
        "SELECT ROUND(SUM(amount), 2) FROM payout WHERE kind = 'BON'",
    ),
    (
        "The packhouse wants to look into it: which docket numbers belong to loads turned away at the gate?",
        "SELECT docket_no FROM docket WHERE grade = 'NR'",
    ),
    (
        "Our prices are kept in cents a kilo. How many euros would one kilo of saffron bring?",
        "SELECT rate / 100.0 FROM crop WHERE name = 'Saffron'",
    ),
    (
        "How many loads got each grade, all years together? Give the grade's code and the number of loads, leaving out "
        "loads without a grade.",
        "SELECT grade, COUNT(*) FROM docket WHERE grade IS NOT NULL GROUP BY grade",
    ),
    (
        "Who are the four biggest shareholders in the co-op? Just the names, in any order.",
        "SELECT name FROM member ORDER BY shares DESC LIMIT 4",
    ),
    (
        "Village by village, how many fields do our members own, former members included? Give me the village and the "
        "number.",
        "SELECT m.village, COUNT(*) FROM member AS m JOIN field AS f ON f.member_no = m.member_no GROUP BY m.village",
    ),
    (
        "How many plantings have hail mentioned in the remarks?",
        "SELECT COUNT(*) FROM planting WHERE note LIKE '%hail%'",
    ),
    (
        "How often did a grower get more than one advance for the same season? Each grower and season counts once.",
        "SELECT COUNT(*) FROM (SELECT member_no, season FROM payout WHERE kind = 'ADV' "
        "GROUP BY member_no, season HAVING COUNT(*) > 1) AS twice",
    ),
    (
        "Who is chairing the Water Rights people these days?",
        "SELECT m.name FROM committee_seat AS s JOIN member AS m ON m.member_no = s.member_no "
        "WHERE s.committee = 'Water Rights' AND s.role = 'chair' AND s.until IS NULL",
    ),
    (
        "How much money, whatever it is for, do we still owe our growers for the 2023 season? To two decimals.",
        "SELECT ROUND(SUM(amount), 2) FROM payout WHERE season = 2023 AND paid_on IS NULL",
    ),
    (
        "Of the fields certified organic, how many have no irrigation?",
        "SELECT COUNT(*) FROM field WHERE organic_since IS NOT NULL AND irrigated = 0",
    ),
    (
        "Tamsin Tanaka says she talked half the valley into joining. Who are the members she sponsored?",
        "SELECT m.name FROM member AS m JOIN member AS s ON s.member_no = m.sponsor_no WHERE s.name = 'Tamsin Tanaka'",
    ),
    (
        "How many crates has Fatima Karimova driven in herself, her own and other people's together?",
        "SELECT SUM(d.crates) FROM docket AS d JOIN member AS m ON m.member_no = d.brought_by "
        "WHERE m.name = 'Fatima Karimova'",
    ),
    (
        "Who vouched for Pilar Jiménez when she became a member?",
        "SELECT s.name FROM member AS m JOIN member AS s ON s.member_no = m.sponsor_no WHERE m.name = 'Pilar Jiménez'",
    ),
    (
        "I'm writing to everybody who owns organic land, former members too. Who are they? Each name once.",
        "SELECT DISTINCT m.name FROM member AS m JOIN field AS f ON f.member_no = m.member_no "
        "WHERE f.organic_since IS NOT NULL",
    ),
    (
        "How many kilos went over the weighbridge in each month of 2023, loads turned away "
        "included? Give the month, like "
        "2023-07, and the kilos.",
        "SELECT strftime('%Y-%m', delivered_on), SUM(kg) FROM docket WHERE delivered_on >= '2023-01-01' "
        "AND delivered_on < '2024-01-01' GROUP BY strftime('%Y-%m', delivered_on)",
    ),
    (
        "Who is still a member but has no field at all? Names, please.",
        "SELECT m.name FROM member AS m WHERE m.left_on IS NULL AND NOT EXISTS "
        "(SELECT 1 FROM field AS f WHERE f.member_no = m.member_no)",
    ),
    (
        "Of the 2022 loads that got any grade, turned-away ones included, what percentage was "
        "good for nothing but juice "
        "and pulp? One decimal, please.",
        "SELECT ROUND(100.0 * SUM(CASE WHEN grade = 'JP' THEN 1 ELSE 0 END) / COUNT(*), 1) FROM docket "
        "WHERE grade IS NOT NULL AND strftime('%Y', delivered_on) = '2022'",
    ),
    (
        "Which entries on the price list has nobody ever planted? Give crop and variety, leaving the variety blank if "
        "there is none.",
        "SELECT name, variety FROM crop WHERE crop_id NOT IN (SELECT crop_id FROM planting)",
    ),
    (
        "Which members have planted both top fruit and soft fruit on their fields?",
        "SELECT m.name FROM member AS m WHERE m.member_no IN (SELECT f.member_no FROM field AS f "
        "JOIN planting AS p ON p.field_id = f.field_id JOIN crop AS c ON c.crop_id = p.crop_id "
        "WHERE c.type = 'top fruit' "
        "INTERSECT SELECT f.member_no FROM field AS f JOIN planting AS p ON p.field_id = f.field_id "
        "JOIN crop AS c ON c.crop_id = p.crop_id WHERE c.type = 'soft fruit')",
    ),
    (
        "What were the graded loads of tomatoes delivered in 2022 worth in euros, given our prices in cents a kilo and "
        "what each grade pays? Two decimals, please.",
        "SELECT ROUND(SUM(d.kg * c.rate * g.pay_pct) / 10000.0, 2) FROM docket AS d "
        "JOIN grade_key AS g ON g.code = d.grade JOIN planting AS p ON p.planting_id = d.planting_id "
        "JOIN crop AS c ON c.crop_id = p.crop_id "
        "WHERE c.name = 'Tomato' AND d.delivered_on BETWEEN '2022-01-01' AND '2022-12-31'",
    ),
    (
        "Half the fields round here seem to be called the same: which names occur at least six times, and how often?",
        "SELECT name, COUNT(*) FROM field GROUP BY name HAVING COUNT(*) >= 6",
    ),
    (
        "Which member drove in the most loads in 2023, no matter whose fields they came from?",
        "SELECT m.name FROM docket AS d JOIN member AS m ON m.member_no = d.brought_by "
        "WHERE strftime('%Y', d.delivered_on) = '2023' GROUP BY m.member_no, m.name ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "There is a complaint about docket 20773. What is the name of the member who owns the field it came from?",
        "SELECT m.name FROM docket AS d JOIN planting AS p ON p.planting_id = d.planting_id "
        "JOIN field AS f ON f.field_id = p.field_id JOIN member AS m ON m.member_no = f.member_no "
        "WHERE d.docket_no = 20773",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="Tomasz Mazur of Saint Odo joined a second time in 2023. His new membership takes over his "
        "field, his dockets "
        "and his payouts; the old record goes.",
        gold=[
            "UPDATE field SET member_no = 85 WHERE member_no = 52",
            "UPDATE docket SET brought_by = 85 WHERE brought_by = 52",
            "UPDATE payout SET member_no = 85 WHERE member_no = 52",
            "DELETE FROM member WHERE member_no = 52",
        ],
        writes="member field docket payout",
        wrong=[
            ["DELETE FROM member WHERE member_no = 52"],
            ["DELETE FROM member WHERE member_no = 85"],
        ],
    ),
    dict(
        ask="Dockets from before 2023 that were never graded count as Class II. Enter that grade.",
        gold=[
            "UPDATE docket SET grade = 'X3' WHERE grade IS NULL AND delivered_on < '2023-01-01'",
        ],
        writes="docket",
        rule=True,
        wrong=[
            ["UPDATE docket SET grade = 'X2' WHERE grade IS NULL AND delivered_on < '2023-01-01'"]
        ],
    ),
    dict(
        ask="All payouts of the season 2023 that are still outstanding left the bank on 15 March 2024. Enter the day.",
        gold=["UPDATE payout SET paid_on = '2024-03-15' WHERE season = 2023 AND paid_on IS NULL"],
        writes="payout",
        rule=True,
        wrong=[["UPDATE payout SET paid_on = '2024-03-15' WHERE season = 2023"]],
    ),
    dict(
        ask="Rosa Ferreira of Quillbeck passes 8 of her shares to Fatima Karimova. Book it.",
        gold=[
            "UPDATE member SET shares = shares - 8 WHERE name = 'Rosa Ferreira' AND village = 'Quillbeck'",
            "UPDATE member SET shares = shares + 8 WHERE name = 'Fatima Karimova'",
        ],
        writes="member",
        keeps=["SELECT sum(shares) FROM member"],
        wrong=[
            [
                "UPDATE member SET shares = shares - 8 WHERE name = 'Rosa Ferreira'",
                "UPDATE member SET shares = shares + 8 WHERE name = 'Fatima Karimova'",
            ],
            ["UPDATE member SET shares = shares + 8 WHERE name = 'Fatima Karimova'"],
        ],
    ),
]
