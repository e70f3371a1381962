"""The registrar's office of the (fictional) Aldermoor Museum: its collection and the loans it sends to other houses."""

from datetime import date, timedelta

SPLIT = "validation"

SCHEMA = """
CREATE TABLE code (
    field TEXT NOT NULL,
    code TEXT NOT NULL,
    meaning TEXT NOT NULL,
    PRIMARY KEY (field, code)
);
CREATE TABLE maker (
    maker_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    country TEXT NOT NULL,
    born INTEGER NOT NULL,
    died INTEGER,
    teacher_id INTEGER REFERENCES maker (maker_id)
);
CREATE TABLE accession (
    accession_id INTEGER PRIMARY KEY,
    inv_no TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    type TEXT NOT NULL,
    maker_id INTEGER REFERENCES maker (maker_id),
    year_made INTEGER,
    acquired_on TEXT NOT NULL,
    value_keur INTEGER NOT NULL,
    gallery TEXT
);
CREATE TABLE venue (
    venue_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    city TEXT NOT NULL,
    country TEXT NOT NULL,
    climate TEXT
);
CREATE TABLE courier (
    courier_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    firm TEXT,
    home_city TEXT NOT NULL
);
CREATE TABLE loan (
    loan_id INTEGER PRIMARY KEY,
    show TEXT NOT NULL,
    venue_id INTEGER NOT NULL REFERENCES venue (venue_id),
    type TEXT NOT NULL,
    starts TEXT NOT NULL,
    ends TEXT NOT NULL,
    fee INTEGER,
    registrar TEXT NOT NULL
);
CREATE TABLE loan_item (
    loan_id INTEGER NOT NULL REFERENCES loan (loan_id),
    accession_id INTEGER NOT NULL REFERENCES accession (accession_id),
    status TEXT NOT NULL,
    insured INTEGER,
    out_courier INTEGER REFERENCES courier (courier_id),
    back_courier INTEGER REFERENCES courier (courier_id),
    PRIMARY KEY (loan_id, accession_id)
);
CREATE TABLE condition_report (
    report_id INTEGER PRIMARY KEY,
    loan_id INTEGER NOT NULL,
    accession_id INTEGER NOT NULL,
    stage TEXT NOT NULL,
    grade INTEGER NOT NULL,
    checked_on TEXT NOT NULL,
    conservator TEXT NOT NULL,
    note TEXT,
    FOREIGN KEY (loan_id, accession_id) REFERENCES loan_item (loan_id, accession_id)
);
"""

LAST_DAY = date(2025, 3, 31)

CODES = [
    ("accession.type", "PT", "painting"),
    ("accession.type", "WP", "work on paper"),
    ("accession.type", "SC", "sculpture"),
    ("accession.type", "CE", "ceramics"),
    ("accession.type", "TX", "textile"),
    ("accession.type", "FU", "furniture"),
    ("accession.type", "PH", "photograph"),
    ("accession.type", "MI", "musical instrument"),
    ("loan.type", "X", "temporary exhibition"),
    ("loan.type", "T", "stop of a touring exhibition"),
    ("loan.type", "L", "long-term deposit"),
    ("loan_item.status", "RT", "returned to us"),
    ("loan_item.status", "AW", "still away"),
    ("loan_item.status", "WD", "withdrawn, never left the house"),
    ("venue.climate", "A", "full climate control"),
    ("venue.climate", "B", "partial climate control"),
    ("venue.climate", "C", "no climate control"),
    ("condition_report.stage", "OUT", "before leaving our house"),
    ("condition_report.stage", "ARR", "on arrival at the venue"),
    ("condition_report.stage", "IN", "after coming home"),
    ("condition_report.grade", "1", "excellent"),
    ("condition_report.grade", "2", "good"),
    ("condition_report.grade", "3", "fair"),
    ("condition_report.grade", "4", "poor"),
    ("condition_report.grade", "5", "unfit for travel"),
]

# name, country, born, died, position of the teacher in this list (1 = first), main types
MAKERS = [
    ("Pieter van Ommen", "Netherlands", 1612, 1671, None, "PT WP"),
    ("Adriaen Brouck", "Netherlands", 1634, 1690, 1, "PT"),
    ("Josina Leemans", "Netherlands", 1651, 1718, 2, "PT WP"),
    ("Caterina Molteni", "Italy", 1668, 1741, None, "PT"),
    ("Giacomo Serravalle", "Italy", 1702, 1766, 4, "PT SC"),
    ("Étienne Courvoisier", "France", 1711, 1783, None, "FU"),
    ("Luc Courvoisier", "France", 1745, 1809, 6, "FU"),
    ("Johann Adam Reutter", "Germany", 1739, 1802, None, "MI"),
    ("Margarethe Zoll", "Germany", 1770, 1846, None, "WP"),
    ("Thomas Fairweather", "United Kingdom", 1774, 1839, None, "PT WP"),
    ("Thomas Fairweather", "United Kingdom", 1806, 1881, 10, "PT"),
    ("Eliza Pomfret", "United Kingdom", 1811, 1890, 10, "WP PT"),
    ("Hokuyo Tanabe", "Japan", 1789, 1858, None, "WP"),
    ("Seirin Tanabe", "Japan", 1821, 1887, 13, "WP"),
    ("Kichizo Murase", "Japan", 1852, 1924, None, "CE"),
    ("Anatol Wierzbicki", "Poland", 1833, 1901, None, "PT"),
    ("Sigrid Aaltonen", "Finland", 1862, 1938, None, "TX"),
    ("Nils Hedberg", "Sweden", 1858, 1929, None, "FU CE"),
    ("Amparo Quiroga", "Spain", 1866, 1944, None, "PT"),
    ("Joaquim Vilanova", "Spain", 1889, 1967, 19, "PT SC"),
    ("Odette Lamarque", "France", 1871, 1953, None, "CE SC"),
    ("Marcel D'Aubigny", "France", 1883, 1951, None, "PT"),
    ("Ferenc Halmos", "Hungary", 1890, 1972, None, "PH"),
    ("Lotte Brandis", "Germany", 1901, 1989, None, "TX FU"),
    ("Otto Kesselring", "Germany", 1896, 1961, None, "SC"),
    ("Irina Volkonskaya", "Russia", 1887, 1959, None, "PT WP"),
    ("Agnes O'Dowd", "Ireland", 1904, 1993, 22, "PT"),
    ("Hester Lindqvist", "Sweden", 1908, 1999, 24, "TX"),
    ("Ruben Azevedo", "Brazil", 1912, 1988, None, "SC"),
    ("Consuelo Ibarra", "Mexico", 1915, 2004, 20, "PT WP"),
    ("Walter Nakashige", "United States", 1918, 1996, None, "FU"),
    ("Dorothy Caldwell Pruitt", "United States", 1922, 2011, None, "PH"),
    ("Kwabena Asante-Mills", "Ghana", 1927, 2009, None, "SC"),
    ("Yusuf Karaman", "Türkiye", 1931, 2016, None, "CE"),
    ("Meera Subramaniam", "India", 1934, None, None, "TX PT"),
    ("Bram Teunissen", "Netherlands", 1938, 2019, None, "CE"),
    ("Halina Sobczak", "Poland", 1941, None, 28, "TX"),
    ("Naoko Ishimura", "Japan", 1946, None, 34, "CE"),
    ("Tendai Marufu", "Zimbabwe", 1949, None, 33, "SC"),
    ("Paula Achterberg", "Netherlands", 1953, None, 36, "CE PH"),
    ("Carlos Ibarra Luna", "Mexico", 1957, None, 30, "PT"),
    ("Siobhán O'Rourke", "Ireland", 1960, None, 27, "PT PH"),
    ("Mei-Ling Tsao", "Taiwan", 1963, None, None, "PH"),
    ("Ahmed El-Sayigh", "Egypt", 1968, None, None, "PH WP"),
    ("Lerato Mokoena", "South Africa", 1974, None, 39, "SC TX"),
    ("Jonas Achterberg", "Netherlands", 1981, None, 40, "CE"),
    ("Ines Figueroa", "Chile", 1985, None, None, "TX"),
    ("Paavo Rautio", "Finland", 1876, 1949, None, "MI"),
]
NO_WORKS = {16, 26, 47}  # makers on file whose works have all left the collection

TITLES = {
    "PT": (
        [
            "Harbour",
            "Orchard",
            "Frozen Canal",
            "Market Square",
            "Salt Flats",
            "Mill Pond",
            "Fisherman's Daughter",
            "Card Players",
            "Still Life with Quinces",
            "Widow's Kitchen",
            "Self-Portrait",
            "River Crossing",
            "The Ferry",
            "Girl with a Goldfinch",
        ],
        ["at Dusk", "in Winter", "", "after Rain", "II", "by Candlelight", "in Blue", "III"],
    ),
    "WP": (
        [
            "Study of Hands",
            "Sheet of Herons",
            "View of a Bridge",
            "Old Beggar",
            "Carp and Iris",
            "Travellers",
            "Plan of a Garden",
            "Sleeping Dog",
            "Thunder over the Pass",
        ],
        ["", "in Red Chalk", "(verso)", "I", "II", "III", "in Snow"],
    ),
    "SC": (
        [
            "Kneeling Woman",
            "Torso",
            "Bird",
            "Mother and Child",
            "Untitled",
            "Shepherd's Head",
            "Standing Form",
        ],
        ["", "in Bronze", "in Limewood", "No. 2", "No. 5", "in Soapstone"],
    ),
    "CE": (
        [
            "Moon Jar",
            "Tea Bowl",
            "Tile Panel",
            "Lidded Vase",
            "Fish Dish",
            "Pilgrim Flask",
            "Charger",
            "Tall Vase",
        ],
        ["with Ash Glaze", "with Cranes", "", "in Celadon", "with Tulips", "in Black Slip"],
    ),
    "TX": (
        ["Wall Hanging", "Coverlet", "Bridal Shawl", "Prayer Rug", "Untitled", "Banner", "Sampler"],
        ["with Pomegranates", "", "in Indigo", "No. 7", "with Deer", "of the Weavers' Guild"],
    ),
    "FU": (
        [
            "Writing Desk",
            "Armchair",
            "Collector's Cabinet",
            "Folding Screen",
            "Console Table",
            "Child's Chair",
        ],
        ["in Walnut", "", "with Marquetry", "in Birch", "in Rosewood"],
    ),
    "PH": (
        [
            "Tram Stop",
            "Laundry Day",
            "Steelworkers",
            "Untitled",
            "Night Bus",
            "Grandmother's House",
            "Wedding",
        ],
        ["", "No. 1", "No. 3", "No. 12", "(contact print)", "in Fog"],
    ),
    "MI": (
        ["Harpsichord", "Viola d'amore", "Basset Horn", "Kantele", "Lute", "Chamber Organ"],
        ["", "in Painted Case", "in Maple", "in Pear Wood"],
    ),
}
ANONYMOUS_TYPES = ["TX"] * 8 + ["CE"] * 7 + ["FU"] * 3 + ["WP"] * 3 + ["MI"] * 2 + ["SC"] * 3
BASE_VALUE = {"PT": 260, "WP": 35, "SC": 140, "CE": 30, "TX": 22, "FU": 60, "PH": 9, "MI": 85}
GALLERIES = [
    "Long Gallery",
    "North Wing",
    "Print Room",
    "Founders' Hall",
    "Garden Court",
    "Attic Rooms",
]

VENUES = [
    ("Kunsthal Vesterbro", "Copenhagen", "Denmark", "A"),
    ("Musée des Tisserands", "Lyon", "France", "B"),
    ("St Brannoc's Gallery", "Bristol", "United Kingdom", "B"),
    ("Museo Casa Arriaga", "Bilbao", "Spain", "A"),
    ("Haus am Lindenufer", "Cologne", "Germany", "A"),
    ("Stedelijk Paviljoen", "Ghent", "Belgium", "A"),
    ("Palazzo Morandini", "Bologna", "Italy", "C"),
    ("Muzeum Nad Wartą", "Poznań", "Poland", "B"),
    ("Hoshino Museum of Craft", "Kyoto", "Japan", "A"),
    ("Civic Art Centre", "Dunedin", "New Zealand", "B"),
    ("Civic Art Centre", "Galway", "Ireland", "C"),
    ("Museu da Ribeira", "Porto", "Portugal", "B"),
    ("Lakeshore Art Museum", "Milwaukee", "United States", "A"),
    ("The Carraway Collection", "Boston", "United States", "A"),
    ("Galería Tres Ríos", "Puebla", "Mexico", None),
    ("Ateneum Pohjola", "Turku", "Finland", "A"),
    ("Bosphorus Arts Foundation", "Istanbul", "Türkiye", "B"),
    ("Fabrika 9", "Sofia", "Bulgaria", None),
    ("National Gallery of Tamale", "Tamale", "Ghana", "C"),
    ("Museum Zuiderkade", "Rotterdam", "Netherlands", "A"),
    ("Huis ten Eik", "Utrecht", "Netherlands", "B"),
    ("Pavilion of the Book", "Seoul", "South Korea", "A"),
    ("Fondation Beauregard", "Geneva", "Switzerland", "A"),
    ("Old Customs House", "Valparaíso", "Chile", None),
    ("Landesmuseum Traunsee", "Linz", "Austria", "B"),
    ("Museum of the North Sea", "Esbjerg", "Denmark", "C"),
]
VENUE_WEIGHTS = [9, 4, 5, 4, 6, 6, 3, 3, 5, 2, 2, 2, 3, 5, 1, 2, 1, 0, 1, 8, 5, 2, 3, 0, 2, 1]

# title of the show, and what it borrows: types of object, or countries of the makers
SHOWS = [
    ("Dutch Light", "@Netherlands"),
    ("The Weaver's Hand", "TX"),
    ("Clay and Fire", "CE"),
    ("Silent Rooms", "PT PH"),
    ("Women of the North", "@Sweden @Finland @Poland"),
    ("Paper Worlds", "WP"),
    ("Facing the Sea", "PT WP"),
    ("After the Bauhaus", "FU TX SC"),
    ("Ghosts of the Guild", "TX FU CE"),
    ("Blue and White", "CE"),
    ("The Fairweather Circle", "@United-Kingdom"),
    ("Strings Attached", "MI"),
    ("Father and Son", "PT SC"),
    ("Winter Pictures", "PT"),
    ("The Cabinet Opened", "FU CE MI"),
    ("Bronze Age of the Moderns", "SC"),
    ("Street Life", "PH"),
    ("Nets and Tides", "PT PH"),
    ("Ibarra: Two Generations", "@Mexico @Spain"),
    ("A Chair is a Person", "FU"),
    ("Flower, Fruit, Fish", "PT CE"),
    ("Line and Wash", "WP"),
    ("The Tanabe School", "@Japan"),
    ("Thread Count", "TX"),
    ("Night Work", "PH PT"),
    ("Out of Africa's Workshops", "@Ghana @Zimbabwe @South-Africa @Egypt"),
    ("Hearth and Home", "FU TX CE"),
    ("Touching Wood", "FU SC MI"),
    ("Portraits without Names", "PT PH"),
    ("Tea", "CE"),
    ("The Colour of Rain", "PT WP"),
    ("Masters at Work", "PT WP SC"),
    ("Weights and Measures", "SC CE"),
    ("Borrowed Views", "PT WP PH"),
    ("Long Exposures", "PH"),
    ("On the Road to Edo", "@Japan"),
    ("The Quiet Loom", "TX"),
    ("Stone, Bone, Bronze", "SC"),
    ("Music for Small Rooms", "MI PT"),
    ("Animals in Art", "WP SC CE"),
    ("Red", "PT TX"),
    ("The Kitchen Table", "PT CE FU"),
    ("Modern Nordic", "@Sweden @Finland"),
    ("Earthly Paradise", "PT TX"),
]
REGISTRARS = (
    ["Wilhelmina Groot"] * 8 + ["Osei Boateng"] * 5 + ["Clara Vidal"] * 4 + ["Tom Ashgrove"] * 2
)
CONSERVATORS = (
    ["Beatrix Noordhof"] * 6 + ["Rashid Anwar"] * 5 + ["Yuki Hayama"] * 3 + ["Lena O'Hara"] * 2
)

COURIERS = [
    ("Marit Dekker", None, "Aldermoor"),
    ("Sven Okkerse", None, "Aldermoor"),
    ("Pilar Estévez", "Transarte", "Madrid"),
    ("Gianni Rossetti", "Transarte", "Milan"),
    ("Hugo Lambrecht", "Lambrecht & Zoon", "Antwerp"),
    ("Femke Lambrecht", "Lambrecht & Zoon", "Antwerp"),
    ("Aylin Demir", "Kervan Fine Art", "Istanbul"),
    ("Joe Pritchard", "Gantry Fine Art Logistics", "London"),
    ("Nkechi Obi", "Gantry Fine Art Logistics", "London"),
    ("Daisuke Mori", "Hakobu KK", "Osaka"),
    ("Ingrid Solheim", "Nordkasse AS", "Oslo"),
    ("Ruth Abelman", None, "Utrecht"),
    ("Kurt Weidinger", "Nordkasse AS", "Hamburg"),
    ("Teresa Pinho", "Transarte", "Lisbon"),
    ("Samuel Adeyemi", "Gantry Fine Art Logistics", "Leeds"),
]
COURIER_WEIGHTS = [10, 7, 4, 3, 6, 5, 1, 5, 4, 3, 3, 4, 2, 1, 0]
NOTES = {
    "PT": ["Frame loose at the corner", "Old varnish yellowed", "Flaking paint, consolidated"],
    "WP": ["Foxing, unchanged", "Mount replaced", "Corner creased"],
    "SC": ["Slight abrasion at the base", "Hairline crack, stable"],
    "CE": ["Glaze flaking", "Hairline crack, stable", "Old repair discoloured"],
    "TX": [
        "Fibres brittle; keep below 50 lux",
        "Moth damage on the reverse",
        "Loose thread secured",
    ],
    "FU": ["Veneer lifting", "Hinge loose", "Woodworm, old and inactive"],
    "PH": ["Silvering at the edges", "Corner creased", "Mount replaced"],
    "MI": ["One string missing", "Hinge loose", "Soundboard crack, stable"],
}
ANY_NOTE = ["Surface dust removed", "New scratch, photographed", "Crate padding renewed"]


def day(rng, first, last):
    return first + timedelta(days=rng.randrange((last - first).days + 1))


def accessions(rng):
    "Objects: about one in six without a known maker, few makers with many works."
    works, used = [], {}
    for number, (_, _, born, died, _, types) in enumerate(MAKERS, 1):
        if number in NO_WORKS:
            continue
        for _ in range(min(16, 1 + int(rng.expovariate(0.22)))):
            works.append(
                (
                    number,
                    rng.choice(types.split()),
                    rng.randrange(born + 20, min(died or 2019, 2019) + 1),
                )
            )
    for _ in range(44):
        works.append((None, rng.choice(ANONYMOUS_TYPES), rng.randrange(1640, 1905)))
    rng.shuffle(works)
    found = []
    for maker, kind, made in works:
        bought = day(rng, date(max(made + 1, 1898), 1, 1), date(2023, 12, 20))
        heads, tails = TITLES[kind]
        title = (rng.choice(heads) + " " + rng.choice(tails)).strip()
        worth = max(
            1, round(BASE_VALUE[kind] * rng.lognormvariate(0, 0.8) * (1.6 if made < 1800 else 1))
        )
        undated = rng.random() < (0.3 if maker is None else 0.05)
        found.append((bought, title, kind, maker, None if undated else made, worth))
    found.sort(key=lambda work: work[0])
    result = []
    for number, (bought, title, kind, maker, made, worth) in enumerate(found, 1):
        used[bought.year] = used.get(bought.year, 0) + 1
        inv_no = f"{bought.year}.{used[bought.year]:02d}"
        gallery = rng.choices(GALLERIES, [6, 5, 3, 4, 2, 2])[0] if rng.random() < 0.42 else None
        result.append(
            (number, inv_no, title, kind, maker, made, bought.isoformat(), worth, gallery)
        )
    return result


def loans(rng):
    "Loan agreements; some shows tour and stop at several venues."
    made = []
    for show, _ in SHOWS:
        kind = rng.choices("XTL", [62, 26, 12])[0]
        venues = []
        for _ in range(rng.choice([2, 3, 3]) if kind == "T" else 1):
            venue = rng.choices(range(1, len(VENUES) + 1), VENUE_WEIGHTS)[0]
            if venue not in venues:
                venues.append(venue)
        start = day(rng, date(2015, 2, 1), date(2025, 1, 31))
        for venue in venues:
            length = rng.randrange(700, 1500) if kind == "L" else rng.randrange(60, 170)
            end = start + timedelta(days=length)
            if start <= LAST_DAY - timedelta(days=20):
                fee = (
                    None
                    if rng.random() < 0.3
                    else rng.choice([250, 400, 500, 500, 750, 1000, 1200, 1500, 2400])
                )
                made.append((show, venue, kind, start, end, fee, rng.choice(REGISTRARS)))
            start = end + timedelta(days=rng.randrange(25, 60))
    made.sort(key=lambda loan: (loan[3], loan[0]))
    return [(number, *loan) for number, loan in enumerate(made, 1)]


def suits(obj, theme):
    "Whether an object fits the theme of a show."
    country = MAKERS[obj[4] - 1][1] if obj[4] else "unknown"
    return obj[3] in theme.split() or "@" + country.replace(" ", "-") in theme.split()


def at_home(trips, start, end):
    gap = timedelta(days=14)
    return all(end < left - gap or start > back + gap for left, back in trips)


def loan_items(rng, objects, agreements):
    "Which object went with which loan: never to two places at once, favourites again and again."
    busy, favour = {}, {obj[0]: rng.paretovariate(1.1) for obj in objects}
    stay_home, themes, toured = set(rng.sample(range(1, len(objects) + 1), 60)), dict(SHOWS), {}
    items = []
    for loan_id, show, _, _, start, end, _, _ in agreements:
        wanted = min(11, 1 + int(rng.expovariate(0.22)))
        free = [
            obj
            for obj in objects
            if obj[0] not in stay_home
            and suits(obj, themes[show])
            and obj[6] < (start - timedelta(days=30)).isoformat()
            and at_home(busy.get(obj[0], []), start, end)
        ]
        chosen = [obj for obj in free if obj[0] in toured.get(show, []) and rng.random() < 0.7]
        free = [obj for obj in free if obj not in chosen]
        while free and len(chosen) < wanted:
            pick = rng.choices(free, [favour[obj[0]] for obj in free])[0]
            free.remove(pick)
            chosen.append(pick)
        toured[show] = [obj[0] for obj in chosen]
        for obj in sorted(chosen, key=lambda obj: obj[0]):
            items.append(one_item(rng, loan_id, obj, end))
            if items[-1][2] != "WD":
                busy.setdefault(obj[0], []).append(
                    (start, end if items[-1][2] == "RT" else date(2099, 1, 1))
                )
    return items


def one_item(rng, loan_id, obj, end):
    insured = (
        None
        if rng.random() < 0.07
        else round(obj[7] * rng.choice([0.9, 1, 1, 1, 1.1, 1.25]) * 1000)
    )
    if rng.random() < 0.08:
        return loan_id, obj[0], "WD", insured, None, None
    who = range(1, len(COURIERS) + 1)
    out = rng.choices(who, COURIER_WEIGHTS)[0] if rng.random() < 0.88 else None
    if end > LAST_DAY - timedelta(days=10) or (end.year == 2024 and rng.random() < 0.15):
        return loan_id, obj[0], "AW", insured, out, None
    back = (
        out
        if rng.random() < 0.35
        else rng.choices(who, COURIER_WEIGHTS)[0]
        if rng.random() < 0.85
        else None
    )
    return loan_id, obj[0], "RT", insured, out, back


def reports(rng, items, agreements, kinds):
    "Condition reports: always before leaving, sometimes on arrival, nearly always after coming home."
    dates = {loan[0]: (loan[4], loan[5]) for loan in agreements}
    found = []
    for loan_id, accession_id, status, *_ in items:
        if status == "WD":
            continue
        start, end = dates[loan_id]
        grade = rng.choices([1, 2, 3, 4], [30, 45, 20, 5])[0]
        found.append(
            (start - timedelta(days=rng.randrange(6, 25)), loan_id, accession_id, "OUT", grade)
        )
        if rng.random() < 0.3:
            found.append(
                (start - timedelta(days=rng.randrange(1, 5)), loan_id, accession_id, "ARR", grade)
            )
        if status == "RT" and rng.random() < 0.94:
            grade = min(5, grade + rng.choices([0, 1, 2], [82, 15, 3])[0])
            found.append(
                (end + timedelta(days=rng.randrange(3, 40)), loan_id, accession_id, "IN", grade)
            )
    found.sort()
    result = []
    for number, (checked, loan_id, accession_id, stage, grade) in enumerate(found, 1):
        checked = min(checked, LAST_DAY) if stage == "IN" else checked
        note, who = rng.choice(NOTES[kinds[accession_id]] * 2 + ANY_NOTE), rng.choice(CONSERVATORS)
        if rng.random() > (0.15, 0.25, 0.6, 0.95, 1)[grade - 1]:
            note = None
        result.append((number, loan_id, accession_id, stage, grade, checked.isoformat(), who, note))
    return result


def clear_galleries(objects, items):
    "What is away at the moment cannot hang in a gallery."
    away = {item[1] for item in items if item[2] == "AW"}
    return [obj[:8] + (None,) if obj[0] in away else obj for obj in objects]


def rows(rng):
    "Rows of every table: {table: [tuples in column order]}."
    objects = accessions(rng)
    agreements = loans(rng)
    items = loan_items(rng, objects, agreements)
    return {
        "code": CODES,
        "maker": [(n, *maker[:5]) for n, maker in enumerate(MAKERS, 1)],
        "accession": clear_galleries(objects, items),
        "venue": [(n, *venue) for n, venue in enumerate(VENUES, 1)],
        "courier": [(n, *courier) for n, courier in enumerate(COURIERS, 1)],
        "loan": [
            loan[:4] + (loan[4].isoformat(), loan[5].isoformat()) + loan[6:] for loan in agreements
        ],
        "loan_item": items,
        "condition_report": reports(rng, items, agreements, {obj[0]: obj[3] for obj in objects}),
    }


QUESTIONS = [
    (
        "How many objects in our collection have no known year of making?",
        "SELECT COUNT(*) FROM accession WHERE year_made IS NULL",
    ),
    (
        "What are all our paintings together worth, in thousands of euros?",
        "SELECT SUM(value_keur) FROM accession WHERE type = 'PT'",
    ),
    (
        "St Brannoc's Gallery has written to us again: which city is it in?",
        "SELECT city FROM venue WHERE name = 'St Brannoc''s Gallery'",
    ),
    (
        "Give me the names of the Japanese makers we have on file.",
        "SELECT name FROM maker WHERE country = 'Japan'",
    ),
    (
        "On what date did the object with inventory number 1907.02 enter the collection?",
        "SELECT acquired_on FROM accession WHERE inv_no = '1907.02'",
    ),
    (
        "Which firm does our courier Ingrid Solheim travel for?",
        "SELECT firm FROM courier WHERE name = 'Ingrid Solheim'",
    ),
    (
        "What is the highest sum, in euros, for which one of our objects was ever insured on a single loan?",
        "SELECT MAX(insured) FROM loan_item",
    ),
    (
        "When we do charge a loan fee, how high is it on average per loan agreement, in euros to two decimals?",
        "SELECT ROUND(AVG(fee), 2) FROM loan",
    ),
    (
        "How many condition reports, whatever the occasion, came to the verdict 'poor'?",
        "SELECT COUNT(*) FROM condition_report WHERE grade = 4",
    ),
    (
        "I'd like the names of the venues whose climate control nobody has assessed yet.",
        "SELECT name FROM venue WHERE climate IS NULL",
    ),
    (
        "How many different objects of ours have really left the house on loan at least once?",
        "SELECT COUNT(DISTINCT accession_id) FROM loan_item WHERE status <> 'WD'",
    ),
    (
        "Who are the makers born before 1950 that, as far as our files go, are still alive?",
        "SELECT name FROM maker WHERE died IS NULL AND born < 1950",
    ),
    (
        "How many objects are on show in each gallery? Give gallery and number, from the fullest "
        "to the emptiest, please.",
        "SELECT gallery, COUNT(*) FROM accession WHERE gallery IS NOT NULL GROUP BY gallery ORDER BY COUNT(*) DESC",
    ),
    (
        "What is the inventory number of the most valuable piece we own?",
        "SELECT inv_no FROM accession ORDER BY value_keur DESC LIMIT 1",
    ),
    (
        "Which conservator wrote how many of the reports made after objects came home? Give me "
        "name and number, please.",
        "SELECT conservator, COUNT(*) FROM condition_report WHERE stage = 'IN' GROUP BY conservator",
    ),
    (
        "Of the loans that began in 2018, which shows paid us no fee? Each title once.",
        "SELECT DISTINCT show FROM loan WHERE starts LIKE '2018-%' AND fee IS NULL",
    ),
    (
        "For how many euros in total were the objects we lent to 'Facing the Sea' insured, as far as noted?",
        "SELECT SUM(i.insured) FROM loan_item AS i JOIN loan AS l ON l.loan_id = i.loan_id "
        "WHERE l.show = 'Facing the Sea'",
    ),
    (
        "There are two Thomas Fairweathers. What are our works by the older one worth together, in thousands of euros?",
        "SELECT SUM(a.value_keur) FROM accession AS a JOIN maker AS m ON m.maker_id = a.maker_id "
        "WHERE m.name = 'Thomas Fairweather' AND m.born = 1774",
    ),
    (
        "A visitor asks about the Collector's Cabinet in Walnut: who made it?",
        "SELECT m.name FROM maker AS m JOIN accession AS a ON a.maker_id = m.maker_id "
        "WHERE a.title = 'Collector''s Cabinet in Walnut'",
    ),
    (
        "What are the three oldest dated objects in our collection, in the house or away? Give "
        "title and year, starting "
        "with the oldest.",
        "SELECT title, year_made FROM accession WHERE year_made IS NOT NULL ORDER BY year_made LIMIT 3",
    ),
    (
        "How often did the same courier take an object out and bring it back again on that same loan?",
        "SELECT COUNT(*) FROM loan_item WHERE out_courier = back_courier",
    ),
    (
        "Our insurer needs the inventory numbers of all objects that are still away at the moment.",
        "SELECT a.inv_no FROM accession AS a JOIN loan_item AS i ON i.accession_id = a.accession_id "
        "WHERE i.status = 'AW'",
    ),
    (
        "Which show had loan agreements with us for the most venues? If several share first place, name them all.",
        "SELECT show FROM loan GROUP BY show HAVING COUNT(DISTINCT venue_id) = (SELECT MAX(stops) FROM "
        "(SELECT COUNT(DISTINCT venue_id) AS stops FROM loan GROUP BY show) AS tours)",
    ),
    (
        "Who took objects out to a venue most often, counting every object accompanied?",
        "SELECT c.name FROM courier AS c JOIN loan_item AS i ON i.out_courier = c.courier_id "
        "GROUP BY c.courier_id, c.name ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "Which pupils came from a different country from their teacher? Name the pupil first, then the teacher.",
        "SELECT p.name, t.name FROM maker AS p JOIN maker AS t ON t.maker_id = p.teacher_id WHERE "
        "p.country <> t.country",
    ),
    (
        "What are the inventory numbers of our paintings that were never put down for any loan, "
        "not even a withdrawn one?",
        "SELECT a.inv_no FROM accession AS a WHERE a.type = 'PT' AND NOT EXISTS "
        "(SELECT 1 FROM loan_item AS i WHERE i.accession_id = a.accession_id)",
    ),
    (
        "Which courier on our list has never accompanied anything, neither out nor back?",
        "SELECT name FROM courier WHERE courier_id NOT IN "
        "(SELECT out_courier FROM loan_item WHERE out_courier IS NOT NULL UNION "
        "SELECT back_courier FROM loan_item WHERE back_courier IS NOT NULL)",
    ),
    (
        "How many times did an object come home in a worse grade than it had before leaving on that loan?",
        "SELECT COUNT(*) FROM condition_report AS o JOIN condition_report AS b ON b.loan_id = o.loan_id "
        "AND b.accession_id = o.accession_id WHERE o.stage = 'OUT' AND b.stage = 'IN' AND b.grade > o.grade",
    ),
    (
        "What percentage of our loan agreements came without a fee? One decimal, please.",
        "SELECT ROUND(100.0 * SUM(CASE WHEN fee IS NULL THEN 1 ELSE 0 END) / COUNT(*), 1) FROM loan",
    ),
    (
        "How many of our paintings are valued higher than our average painting?",
        "SELECT COUNT(*) FROM accession WHERE type = 'PT' AND value_keur > "
        "(SELECT AVG(value_keur) FROM accession WHERE type = 'PT')",
    ),
    (
        "In which countries have both Clara Vidal and Osei Boateng handled loan agreements with a venue there, not "
        "necessarily the same one?",
        "SELECT v.country FROM loan AS l JOIN venue AS v ON v.venue_id = l.venue_id "
        "WHERE l.registrar = 'Clara Vidal' INTERSECT "
        "SELECT v.country FROM loan AS l JOIN venue AS v ON v.venue_id = l.venue_id "
        "WHERE l.registrar = 'Osei Boateng'",
    ),
    (
        "For every registrar, which show was the last to start among those he or she handled? Give the registrar, then "
        "the show.",
        "SELECT registrar, show FROM (SELECT registrar, show, ROW_NUMBER() OVER "
        "(PARTITION BY registrar ORDER BY starts DESC) AS place FROM loan) AS ranked WHERE place = 1",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="The show Paper Worlds was called off. All its pieces count as withdrawn, and no courier "
        "travels with them.",
        gold=[
            "UPDATE loan_item SET status = 'WD', out_courier = NULL, back_courier = NULL "
            "WHERE loan_id = (SELECT loan_id FROM loan WHERE show = 'Paper Worlds')"
        ],
        writes="loan_item",
        wrong=[["UPDATE loan_item SET status = 'WD' WHERE loan_id = 62"]],
    ),
    dict(
        ask="Tom Ashgrove retired on 30 June 2024. Those of his loans that end after that day go to Clara Vidal.",
        gold=[],
        writes="loan",
        wrong=[["UPDATE loan SET registrar = 'Clara Vidal' WHERE registrar = 'Tom Ashgrove'"]],
    ),
    dict(
        ask="Self-Portrait in Winter, number 1899.01, is not by the older Thomas Fairweather but by the younger one. "
        "Correct the maker.",
        gold=[
            "UPDATE accession SET maker_id = (SELECT maker_id FROM maker WHERE name = 'Thomas Fairweather' "
            "ORDER BY born DESC LIMIT 1) WHERE inv_no = '1899.01'"
        ],
        writes="accession",
        wrong=[
            ["UPDATE accession SET maker_id = 11 WHERE maker_id = 10"],
            [
                "UPDATE accession SET maker_id = (SELECT min(maker_id) FROM maker WHERE name = 'Thomas Fairweather') "
                "WHERE inv_no = '1899.01'"
            ],
        ],
    ),
]
