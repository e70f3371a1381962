"""Saltbush Brewing, a fictional craft brewery on an invented southern coast: recipes, tanks, batches and deliveries."""

from datetime import date, timedelta

SPLIT = "train"

SCHEMA = """
CREATE TABLE beer (
    beer_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    style TEXT NOT NULL,
    line TEXT NOT NULL,
    strength INTEGER NOT NULL,
    ibu INTEGER,
    based_on INTEGER REFERENCES beer(beer_id),
    first_brewed TEXT,
    label_text TEXT
);
CREATE TABLE ingredient (
    ingredient_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    supplier TEXT NOT NULL,
    country TEXT NOT NULL,
    organic INTEGER NOT NULL,
    alpha_acid REAL,
    price_per_kg REAL
);
CREATE TABLE recipe_line (
    line_id INTEGER PRIMARY KEY,
    beer_id INTEGER NOT NULL REFERENCES beer(beer_id),
    ingredient_id INTEGER NOT NULL REFERENCES ingredient(ingredient_id),
    step TEXT NOT NULL,
    amount REAL NOT NULL,
    unit TEXT NOT NULL
);
CREATE TABLE vessel (
    vessel_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    litres INTEGER NOT NULL,
    bought INTEGER NOT NULL,
    maker TEXT
);
CREATE TABLE batch (
    batch_id INTEGER PRIMARY KEY,
    batch_no TEXT NOT NULL,
    beer_id INTEGER NOT NULL REFERENCES beer(beer_id),
    brewed_on TEXT NOT NULL,
    brewer TEXT NOT NULL,
    fermenter_id INTEGER NOT NULL REFERENCES vessel(vessel_id),
    bright_id INTEGER REFERENCES vessel(vessel_id),
    volume INTEGER NOT NULL,
    pitched_from INTEGER REFERENCES batch(batch_id),
    packed_on TEXT,
    grade TEXT,
    remark TEXT
);
CREATE TABLE pack (
    pack_code TEXT PRIMARY KEY,
    description TEXT NOT NULL,
    litres REAL NOT NULL,
    list_price REAL NOT NULL
);
CREATE TABLE outlet (
    outlet_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    town TEXT NOT NULL,
    customer_since TEXT NOT NULL,
    contact TEXT,
    active TEXT NOT NULL
);
CREATE TABLE delivery (
    delivery_id INTEGER PRIMARY KEY,
    outlet_id INTEGER NOT NULL REFERENCES outlet(outlet_id),
    batch_id INTEGER NOT NULL REFERENCES batch(batch_id),
    pack_code TEXT NOT NULL REFERENCES pack(pack_code),
    delivered_on TEXT NOT NULL,
    quantity INTEGER NOT NULL,
    rate INTEGER NOT NULL,
    driver TEXT NOT NULL,
    paid_on TEXT
);
"""

LAST_DAY = date(2024, 5, 31)  # the day the data was taken from the brewery's books

# name | style | line | strength | ibu | based on | words on the label | yeast | share of the batches
BEERS = """
Saltbush Lager|Lager|COR|46|22||Crisp, with a breath of sea salt|Y1|18
Lighthouse Pale|Pale ale|COR|48|35||Grapefruit and pine|Y2|17
Night Ferry|Stout|COR|62|41||Coffee, cocoa and roast|Y2|11
Drover's Dog|Brown ale|COR|44|24||Toffee and toast|Y3|8
Squall|IPA|COR|67|62||Mango, resin, a dry finish|Y2|13
Galah|Wheat beer|COR|49|14||Banana, clove and cloud|Y4|9
Gull's Breakfast|Pale ale|COR|35|28||Small beer, big hops|Y2|8
Ember Days|Smoked beer|SEA|57|27||Beechwood smoke and plum|Y1|3
Harvest Moon|IPA|SEA|65|55||Peach, hay and a long autumn evening|Y2|3
Bushfire Relief|Red ale|ONE|52|33||Every cent went to the brigade|Y3|1
Pomelo Sour|Sour|SEA|38|8||Tart, pink and cloudy|Y5|4
Quandong Sour|Sour|SEA|40|7|Pomelo Sour|Wild peach and lime|Y5|3
Night Ferry Reserve|Stout|SEA|91|45|Night Ferry|Finished on rum-soaked oak|Y2|2
Night Ferry Decaf|Stout|TRI|20|30|Night Ferry|For those who still have to drive|Y2|0
Double Squall|IPA|SEA|82|88|Squall|Twice the wind|Y2|3
Winter Wether|Barley wine|SEA|104|50||Dried fig and marmalade|Y3|2
Lantern|Wheat beer|RET|51|15||Orange peel and coriander|Y4|2
Harbourmaster|Porter|RET|55|31||Liquorice and dark bread|Y3|2
Saltbush Lager Unfiltered|Lager|SEA|46|22|Saltbush Lager|Straight from the tank|Y1|2
Two Brothers' Saison|Saison|ONE|63|29||Pepper, hay and pear|Y6|1
Ghost Gum|Herb beer|ONE|50|||Lemon myrtle, no hops at all|Y6|1
Longshore|Lager|TRI|52|||A pilot recipe, not brewed yet|Y1|0
"""

# code | name | kind | supplier | country | organic | alpha acid | price per kg
INGREDIENTS = """
M1|Pilsner malt|M|Weyerhof Mälzerei|Germany|0||1.65
M2|Pale malt|M|Tallow Plains Maltings|Australia|0||1.48
M3|Organic pale malt|M|Tallow Plains Maltings|Australia|1||2.10
M4|Munich malt|M|Weyerhof Mälzerei|Germany|0||1.82
M5|Wheat malt|M|Tallow Plains Maltings|Australia|0||1.61
M6|Crystal malt|M|Fenwick & Daughters|United Kingdom|0||2.05
M7|Chocolate malt|M|Fenwick & Daughters|United Kingdom|0||2.38
M8|Roasted malt|M|Fenwick & Daughters|United Kingdom|0||2.26
M9|Smoked malt|M|Weyerhof Mälzerei|Germany|0||2.49
M10|Oat malt|M|Tallow Plains Maltings|Australia|1||1.95
M11|Rye malt|M|Severin Slad|Czechia|0||1.90
H1|Saaz|H|Severin Slad|Czechia|0|3.4|31.00
H2|Cascade|H|Coldstream Hop Gardens|Australia|0|6.1|34.50
H3|Galaxy|H|Coldstream Hop Gardens|Australia|0|14.2|52.00
H4|Nelson Sauvin|H|Waimea Hop Co.|New Zealand|0|12.3|58.00
H5|Motueka|H|Waimea Hop Co.|New Zealand|1|7.0|49.00
H6|Fuggle|H|Fenwick & Daughters|United Kingdom|0|4.6|36.00
H7|Hallertau Tradition|H|Weyerhof Mälzerei|Germany|1|5.5|33.50
H8|Citra|H|Yakima Ridge Traders|United States|0|13.1|56.50
H9|Mosaic|H|Yakima Ridge Traders|United States|0|12.0|55.00
H10|Sorachi Ace|H|Yakima Ridge Traders|United States|0|13.0|51.50
Y1|Bavarian lager yeast|Y|Alpenhefe|Germany|0||
Y2|Western ale yeast|Y|Yakima Ridge Traders|United States|0||
Y3|English ale yeast|Y|Fenwick & Daughters|United Kingdom|0||
Y4|Weizen yeast|Y|Alpenhefe|Germany|0||
Y5|Kettle-sour culture|Y|Tallow Plains Maltings|Australia|0||
Y6|Farmhouse yeast|Y|Levures du Hainaut|Belgium|0||
Z1|Sea salt|Z|O'Leary's Salt Pans|Australia|1||4.20
Z2|Pomelo peel|Z|Nguyen Orchards|Australia|1||18.00
Z3|Quandong pulp|Z|Gidgee Wild Foods|Australia|1||27.50
Z4|Cold-brew coffee beans|Z|Café Bruma|Colombia|1||22.00
Z5|Lemon myrtle|Z|Gidgee Wild Foods|Australia|1||64.00
Z6|Orange peel|Z|Nguyen Orchards|Australia|0||9.80
Z7|Coriander seed|Z|Spice Quay Imports|India|0||7.40
Z8|Cocoa nibs|Z|Spice Quay Imports|Ghana|1||16.50
Z9|Yuzu juice|Z|Spice Quay Imports|Japan|0||38.00
"""

# beer: malts (kg), hops with step (g), others with step (g); all per 1,000 litres
RECIPES = """
1: M1 175, M4 15 | H1 boil 900, H7 boil 400, H1 boil 500 | Z1 boil 250
2: M2 180, M6 10 | H2 boil 700, H3 boil 500, H3 dry 1500 |
3: M2 190, M7 18, M8 14, M10 20 | H6 boil 1900 | Z4 dry 3000, Z8 dry 1200
4: M2 165, M6 22, M7 6 | H6 boil 1100 |
5: M2 215, M6 8 | H3 boil 900, H8 boil 1100, H8 dry 3500, H9 dry 2500 |
6: M5 110, M1 85 | H7 boil 600 |
7: M3 120, M10 12 | H5 boil 800, H4 dry 1200 |
8: M9 95, M1 90, M4 25 | H7 boil 1300 |
9: M2 210 | H2 boil 900, H2 dry 6000, H3 dry 1000 |
10: M2 175, M6 25, M11 15 | H2 boil 1200, H6 boil 500 |
11: M1 90, M5 55 | H5 boil 250 | Z2 boil 2200, Z1 boil 300
12: M1 95, M5 55 | H5 boil 250 | Z3 dry 9000, Z1 boil 300
13: M2 280, M7 25, M8 20, M10 30 | H6 boil 2400 | Z8 dry 2500
14: M2 75, M7 18, M8 14, M10 20 | H6 boil 1300 | Z8 dry 1200
15: M2 265, M6 8 | H3 boil 1500, H8 boil 1500, H8 dry 5000, H9 dry 4500, H4 dry 1500 |
16: M2 330, M6 30, M4 40 | H6 boil 3300 |
17: M5 100, M1 95 | H7 boil 500 | Z6 boil 700, Z7 boil 450
18: M2 185, M7 14, M6 18, M11 10 | H6 boil 1500 |
19: M1 175, M4 15 | H1 boil 1400, H7 boil 400 | Z1 boil 250
20: M1 180, M5 30, M11 12 | H1 boil 1200, H5 boil 400 |
21: M3 170, M5 25 | | Z5 boil 900, Z6 boil 400
22: M1 180, M5 20 | H1 boil 800, H10 dry 600 |
"""

# beers older than the brew log; for the others it is the date of their first batch
FIRST_BREWED = {
    "Saltbush Lager": "2014-05-19",
    "Lighthouse Pale": "2014-08-04",
    "Night Ferry": "2015-06-22",
    "Drover's Dog": "2016-03-07",
    "Squall": "2017-11-13",
    "Galah": "2018-10-01",
    "Gull's Breakfast": "2020-01-20",
    "Lantern": "2017-02-06",
    "Harbourmaster": "2014-09-15",
    "Pomelo Sour": "2020-11-16",
    "Quandong Sour": "2021-11-08",
}

VESSELS = [
    (1, "Big Bertha", "FV", 2400, 2019, "Inoxtal"),
    (2, "Clarence", "FV", 1800, 2016, "Inoxtal"),
    (3, "Dolly", "FV", 1800, 2016, "Inoxtal"),
    (4, "Ernie", "FV", 1200, 2014, "Mackie & Reid"),
    (5, "Fatima", "FV", 1200, 2014, "Mackie & Reid"),
    (6, "Little Gus", "FV", 600, 2021, "Hangzhou Steelworks"),
    (7, "Iris", "BT", 2400, 2019, "Inoxtal"),
    (8, "Jack", "BT", 1800, 2016, "Mackie & Reid"),
    (9, "Kev", "BT", 1200, 2013, None),
    (10, "Old Copper", "KT", 1200, 2013, None),
    (11, "New Copper", "KT", 2400, 2019, "Inoxtal"),
    (12, "Solera", "WC", 220, 2022, "Tonelería Ríos"),
    (13, "Perpetua", "WC", 220, 2022, "Tonelería Ríos"),
]

PACKS = [
    ("K50", "keg of 50 litres", 50.0, 245.0),
    ("K30", "keg of 30 litres", 30.0, 158.0),
    ("C24", "carton of 24 cans", 9.0, 84.0),
    ("B12", "box of 12 big bottles", 9.0, 102.0),
    ("M05", "mini keg of 5 litres", 5.0, 44.0),
]

# name | kind | town | weight as a customer
OUTLETS = """
The Anchor|PUB|Port Ellery|9
The Anchor|PUB|Wattle Creek|5
Ellery Arms|PUB|Port Ellery|8
The Drunken Wombat|PUB|Port Ellery|7
Railway Hotel|PUB|Mount Sorrow|5
Railway Hotel|PUB|Wattle Creek|3
Commercial Hotel|PUB|Mount Sorrow|4
O'Dowd's|PUB|O'Dowd's Landing|6
The Last Jetty|PUB|O'Dowd's Landing|3
Shearers' Rest|PUB|Tallow Plains|4
The Blue Heeler|PUB|Tallow Plains|2
Lady Franklin|PUB|Port Ellery|2
The Crooked Mast|PUB|Point Desolation|3
Whalebone Inn|PUB|Point Desolation|1
Exchange Hotel|PUB|Port Ellery|4
Royal Oak|PUB|Mount Sorrow|0
Gumtree Tavern|PUB|Wattle Creek|1
Hop & Barrel|BOT|Port Ellery|6
Cellar Door Eleven|BOT|Port Ellery|4
Creekside Cellars|BOT|Wattle Creek|4
Bottle & Cork|BOT|Mount Sorrow|3
Thirsty Camel Depot|BOT|Tallow Plains|2
The Landing Bottle Shop|BOT|O'Dowd's Landing|2
Grog & Co.|BOT|Port Ellery|0
Trattoria Bellini|RES|Port Ellery|2
Saffron Road|RES|Port Ellery|2
Pho Hanh|RES|Wattle Creek|1
Café Bruma|RES|Port Ellery|2
Table at the Mill|RES|Mount Sorrow|1
Izakaya Umi|RES|Port Ellery|3
The Oyster Shed|RES|Point Desolation|2
El Gaucho Feliz|RES|Tallow Plains|0
Ellery Folk Festival|EVT|Port Ellery|1
Sorrow Hill Races|EVT|Mount Sorrow|1
Tallow Plains Show|EVT|Tallow Plains|1
Surf Lifesaving Gala|EVT|Port Ellery|0
"""
CONTACTS = """Aroha Pene|Ben Castellano|Chau Pham|Dimitra Kostas|Ewan Birrell
|Fatou Sarr|Gino Marchetti|Hien Vo|Imran Qureshi|Jacinta Moore|Kylie Ormond
|Lachlan Dwyer|Marta Wójcik|Ngaire Tamatea|Oscar Lindgren|Paddy Quill|Qing Li
|Rosa Iglesias|Sione Vaka|Tess Whitaker|Sora Hayashi|Violet Namatjira|Ben Castellano
|Yvonne Adler""".replace("\n", "").split("|")
BREWERS = ["Maeve Sandilands", "Tariq Aziz", "Joanna Pruszko", "Koa Makani"]
DRIVERS = ["Bluey Hargreaves", "Linh Tran", "Stavros Pappas"]
FAULTS = [
    "infected, poured down the drain",
    "stuck fermentation, poured down the drain",
    "poured down the drain, butter taste",
]
CHATTER = [
    "a touch hazy",
    "brewed with the apprentices",
    "one day late, boiler trouble",
    "lovely aroma",
    "open day batch",
]


def between(rng, first, last):
    "A weekday from `first` to `last`."
    return weekday(first + timedelta(days=rng.randrange((last - first).days + 1)))


def weekday(d):
    "The day itself or the next working day: no weekends, no Christmas, no New Year's Day."
    while d.weekday() > 4 or (d.month, d.day) in ((12, 25), (12, 26), (1, 1)):
        d += timedelta(days=1)
    return d


def table(text):
    return [line.split("|") for line in text.strip().split("\n")]


def make_batches(rng, beers):
    "Batches one after the other; a vessel holds one batch at a time."
    free = {v[0]: date(2021, 12, 1) for v in VESSELS}
    size = {v[0]: v[3] for v in VESSELS}
    last, out, when, numbers = {}, [], date(2022, 1, 10), {}
    lagers = ("Lager", "Barley wine", "Smoked beer")
    while when <= LAST_DAY:
        tanks = [v for v in (1, 2, 3, 4, 5, 6) if free[v] <= when]
        if not tanks:
            when = weekday(when + timedelta(days=1))
            continue
        beer = rng.choices(beers, [int(b[8]) for b in beers])[0]
        number = beers.index(beer) + 1
        if beer[2] == "RET" and when > date(2023, 2, 28) or beer[2] == "ONE" and number in last:
            continue
        tank = max(tanks) if beer[2] == "ONE" else rng.choices(tanks, [size[v] for v in tanks])[0]
        days = rng.randrange(24, 38) if beer[1] in lagers else rng.randrange(11, 19)
        year = when.year % 100
        numbers[year] = numbers.get(year, 0) + 1
        packed, bright, grade, remark, parent = (
            weekday(when + timedelta(days=days)),
            None,
            "A",
            None,
            None,
        )
        previous = last.get(beer[7])
        if (
            previous
            and previous[1] <= when
            and (when - previous[1]).days < 25
            and previous[2] != "X"
        ):
            parent = previous[0] if rng.random() < 0.75 else None
        grade = rng.choices(["A", "B", "X"], [74, 19, 7])[0]
        if rng.random() < 0.2:
            remark = rng.choice(CHATTER)
        brights = [v for v in (7, 8, 9) if free[v] <= packed and size[v] >= size[tank]]
        free[tank] = packed + timedelta(days=1)
        if grade == "X":
            remark, stop = rng.choice(FAULTS), packed
        elif brights and rng.random() < 0.85:
            bright = brights[-1]
            stop = weekday(packed + timedelta(days=rng.randrange(2, 6)))
            free[bright] = stop + timedelta(days=1)
        else:
            stop = packed
        if stop > LAST_DAY:
            grade = bright = stop = None
            remark = None if remark in FAULTS else remark
        volume = int(size[tank] * (0.82 + 0.14 * rng.random())) // 10 * 10
        brewer = rng.choices(BREWERS, [44, 28, 20, 8])[0]
        n = len(out) + 1
        done = None if stop is None or grade == "X" else stop.isoformat()
        out.append(
            (
                n,
                f"B{year}-{numbers[year]:03}",
                number,
                when.isoformat(),
                brewer,
                tank,
                bright,
                volume,
                parent,
                done,
                grade,
                remark,
            )
        )
        if stop:
            last[beer[7]] = (n, packed, grade)
        last[number] = n
        when = weekday(when + timedelta(days=rng.randrange(3, 14)))
    return out


def make_beers(beers, batches):
    number = {b[0]: i for i, b in enumerate(beers, 1)}
    out = []
    for i, (name, style, line, strength, ibu, base, text, _, _) in enumerate(beers, 1):
        first = FIRST_BREWED.get(name) or min([b[3] for b in batches if b[2] == i], default=None)
        degree = f"{int(strength) // 10}.{int(strength) % 10} % vol. "
        bitter = int(ibu) if ibu else None
        out.append(
            (i, name, style, line, int(strength), bitter, number.get(base), first, degree + text)
        )
    return out


def make_recipes(beers, ingredients):
    number = {g[0]: i for i, g in enumerate(ingredients, 1)}
    out = []

    def add(beer, code, step, amount, unit):
        out.append((len(out) + 1, beer, number[code], step, float(amount), unit))

    for line in RECIPES.strip().split("\n"):
        beer, rest = line.split(":")
        malts, hops, others = rest.split("|")
        for part in malts.split(","):
            add(int(beer), part.split()[0], "mash", part.split()[1], "kg")
        for part in [p for p in (hops + "," + others).split(",") if p.strip()]:
            code, step, amount = part.split()
            add(int(beer), code, step, amount, "g")
        add(int(beer), beers[int(beer) - 1][7], "pitch", 500, "g")
    return out


def make_outlets(rng):
    out, contacts = [], CONTACTS[:]
    rng.shuffle(contacts)
    for i, (name, kind, town, weight) in enumerate(table(OUTLETS), 1):
        since = between(rng, date(2014, 6, 2), date(2021, 11, 30))
        if i % 4 == 0:
            since = between(rng, date(2022, 1, 10), date(2023, 8, 31))
        contact = contacts.pop() if contacts and rng.random() < 0.7 else None
        out.append(
            (
                i,
                name,
                kind,
                town,
                since.isoformat(),
                contact,
                "N" if weight == "0" or i in (11, 17) else "Y",
            )
        )
    return out


def make_deliveries(rng, batches, outlets):
    weights = [int(o[3]) for o in table(OUTLETS)]
    by_kind = {
        "PUB": [34, 52, 8, 3],
        "BOT": [0, 3, 66, 31],
        "RES": [2, 30, 42, 26],
        "EVT": [55, 45, 0, 0],
    }
    prices, litres = {p[0]: p[3] for p in PACKS}, {p[0]: p[2] for p in PACKS}
    out = []
    for batch in batches:
        if batch[9] is None:
            continue
        left, when = batch[7] * (0.80 + 0.14 * rng.random()), date.fromisoformat(batch[9])
        while True:
            when = weekday(
                when + timedelta(days=rng.choices([0, 1, 2, 4, 7], [30, 25, 20, 15, 10])[0])
            )
            outlet = rng.choices(outlets, weights)[0]
            if when > LAST_DAY or left < 60:
                break
            if outlet[4] > when.isoformat() or outlet[0] in (11, 17) and when > date(2023, 3, 31):
                continue
            code = rng.choices(["K50", "K30", "C24", "B12"], by_kind[outlet[2]])[0]
            quantity = rng.choices([1, 2, 3, 4, 6], [22, 34, 22, 14, 8])[0] * (
                1 if code[0] == "K" else 3
            )
            if quantity * litres[code] > left:
                quantity = 1
            left -= quantity * litres[code]
            cents = int(
                prices[code]
                * 100
                * (0.94 if batch[10] == "B" else 1)
                * (0.95 if quantity >= 6 else 1)
            )
            paid = weekday(when + timedelta(days=3 + int(70 * rng.random() ** 2)))
            paid = None if paid > LAST_DAY or rng.random() < 0.03 else paid.isoformat()
            driver = rng.choices(DRIVERS, [52, 33, 15])[0]
            out.append((outlet[0], batch[0], code, when.isoformat(), quantity, cents, driver, paid))
    out.sort(key=lambda d: (d[3], d[1], d[0]))
    return [(i, *d) for i, d in enumerate(out, 1)]


def rows(rng):
    "Rows of every table: {table: [tuples in column order]}."
    beers, ingredients = table(BEERS), table(INGREDIENTS)
    batches = make_batches(rng, beers)
    outlets = make_outlets(rng)
    stock = [
        (
            i,
            name,
            kind,
            supplier,
            country,
            int(organic),
            float(alpha) if alpha else None,
            float(price) if price else None,
        )
        for i, (_, name, kind, supplier, country, organic, alpha, price) in enumerate(
            ingredients, 1
        )
    ]
    return {
        "beer": make_beers(beers, batches),
        "ingredient": stock,
        "recipe_line": make_recipes(beers, ingredients),
        "vessel": VESSELS,
        "batch": batches,
        "pack": PACKS,
        "outlet": outlets,
        "delivery": make_deliveries(rng, batches, outlets),
    }


QUESTIONS = [
    (
        "How many deliveries are we still waiting to be paid for?",
        "SELECT COUNT(*) FROM delivery WHERE paid_on IS NULL",
    ),
    (
        "The printer lost the file: what exactly does it say on the label of Squall?",
        "SELECT label_text FROM beer WHERE name = 'Squall'",
    ),
    (
        "How many litres fit into our smallest fermenter?",
        "SELECT MIN(litres) FROM vessel WHERE kind = 'FV'",
    ),
    (
        "What do we buy from Fenwick & Daughters? I just need the names of the ingredients.",
        "SELECT name FROM ingredient WHERE supplier = 'Fenwick & Daughters'",
    ),
    (
        "How many kegs of 50 litres have we delivered in total?",
        "SELECT SUM(quantity) FROM delivery WHERE pack_code = 'K50'",
    ),
    (
        "For the excise form: how many litres did we brew in 2023, going by the brewing dates and "
        "counting every batch?",
        "SELECT SUM(volume) FROM batch WHERE brewed_on BETWEEN '2023-01-01' AND '2023-12-31'",
    ),
    (
        "Whom do I ask for when I ring Izakaya Umi?",
        "SELECT contact FROM outlet WHERE name = 'Izakaya Umi'",
    ),
    (
        "How strong is the strongest beer on our list, in per cent of alcohol?",
        "SELECT MAX(strength) / 10.0 FROM beer",
    ),
    (
        "How many of the places on our books became customers in 2020 or later?",
        "SELECT COUNT(*) FROM outlet WHERE customer_since >= '2020-01-01'",
    ),
    (
        "To how many different customers has Stavros Pappas ever driven a delivery?",
        "SELECT COUNT(DISTINCT outlet_id) FROM delivery WHERE driver = 'Stavros Pappas'",
    ),
    (
        "Which of the customers still marked as active have no contact person on file? Their names, please.",
        "SELECT name FROM outlet WHERE active = 'Y' AND contact IS NULL",
    ),
    (
        "What is the bitterest beer we have a recipe for?",
        "SELECT name FROM beer ORDER BY ibu DESC LIMIT 1",
    ),
    (
        "Leaving out the organic ones, what is the average price per kilo of the hops on our ingredient list? Two "
        "decimals, please.",
        "SELECT ROUND(AVG(price_per_kg), 2) FROM ingredient WHERE kind = 'H' AND organic = 0",
    ),
    (
        "How many batches of Lighthouse Pale are in the brew log?",
        "SELECT COUNT(*) FROM batch JOIN beer ON beer.beer_id = batch.beer_id WHERE beer.name = 'Lighthouse Pale'",
    ),
    (
        "Who has brewed how much? Name every brewer with the litres of all their batches together.",
        "SELECT brewer, SUM(volume) FROM batch GROUP BY brewer",
    ),
    (
        "According to the recipes, which of our beers get actual hops at the dry step, brewed "
        "already or not? Each beer "
        "once, please.",
        "SELECT DISTINCT beer.name FROM recipe_line JOIN beer ON beer.beer_id = recipe_line.beer_id "
        "JOIN ingredient ON ingredient.ingredient_id = recipe_line.ingredient_id "
        "WHERE recipe_line.step = 'dry' AND ingredient.kind = 'H'",
    ),
    (
        "I'm doing the drivers' yearly talks: how many deliveries did each of them make in 2023? Give me driver and "
        "number.",
        "SELECT driver, COUNT(*) FROM delivery WHERE delivered_on BETWEEN '2023-01-01' AND "
        "'2023-12-31' GROUP BY driver",
    ),
    (
        "Which of our beers were developed as variations on Night Ferry?",
        "SELECT v.name FROM beer AS v JOIN beer AS b ON b.beer_id = v.based_on WHERE b.name = 'Night Ferry'",
    ),
    (
        "Which tank did batch B23-019 ferment in? We call our tanks by their names.",
        "SELECT vessel.name FROM batch JOIN vessel ON vessel.vessel_id = batch.fermenter_id "
        "WHERE batch.batch_no = 'B23-019'",
    ),
    (
        "Of the batches that did get packed, how many went straight from the fermenter, without a "
        "bright tank in between?",
        "SELECT COUNT(*) FROM batch WHERE packed_on IS NOT NULL AND bright_id IS NULL",
    ),
    (
        "There are two places called Railway Hotel. How many deliveries has the one in Wattle Creek had?",
        "SELECT COUNT(*) FROM delivery JOIN outlet ON outlet.outlet_id = delivery.outlet_id "
        "WHERE outlet.name = 'Railway Hotel' AND outlet.town = 'Wattle Creek'",
    ),
    (
        "Give me the batch numbers of everything brewed in 2023 that was graded A, in the order of brewing.",
        "SELECT batch_no FROM batch WHERE brewed_on BETWEEN '2023-01-01' AND '2023-12-31' AND grade = 'A' "
        "ORDER BY brewed_on",
    ),
    (
        "Since what date has the Anchor over in Wattle Creek been our customer?",
        "SELECT customer_since FROM outlet WHERE name = 'The Anchor' AND town = 'Wattle Creek'",
    ),
    (
        "We often pitch yeast taken from an earlier batch. How many batches got theirs from a "
        "batch of a different beer?",
        "SELECT COUNT(*) FROM batch AS b JOIN batch AS p ON p.batch_id = b.pitched_from WHERE p.beer_id <> b.beer_id",
    ),
    (
        "For every place on our books, even those never delivered to, I'd like the name, the town and the number of "
        "deliveries.",
        "SELECT outlet.name, outlet.town, COUNT(delivery.delivery_id) FROM outlet "
        "LEFT JOIN delivery ON delivery.outlet_id = outlet.outlet_id "
        "GROUP BY outlet.outlet_id, outlet.name, outlet.town",
    ),
    (
        "What do all our deliveries of plain Night Ferry come to in dollars, at the price charged "
        "per pack, whether paid "
        "or not?",
        "SELECT SUM(delivery.quantity * delivery.rate) / 100.0 FROM delivery "
        "JOIN batch ON batch.batch_id = delivery.batch_id JOIN beer ON beer.beer_id = batch.beer_id "
        "WHERE beer.name = 'Night Ferry'",
    ),
    (
        "Port Ellery aside, which town did we deliver the most beer to in 2023, measured in litres?",
        "SELECT outlet.town FROM delivery JOIN outlet ON outlet.outlet_id = delivery.outlet_id "
        "JOIN pack ON pack.pack_code = delivery.pack_code "
        "WHERE delivery.delivered_on BETWEEN '2023-01-01' AND '2023-12-31' "
        "AND outlet.town <> 'Port Ellery' GROUP BY outlet.town "
        "ORDER BY SUM(delivery.quantity * pack.litres) DESC LIMIT 1",
    ),
    (
        "On average, how many days pass between brewing and packing for beers of the lager style? One decimal, please.",
        "SELECT ROUND(AVG(julianday(batch.packed_on) - julianday(batch.brewed_on)), 1) FROM batch "
        "JOIN beer ON beer.beer_id = batch.beer_id WHERE beer.style = 'Lager' AND batch.packed_on IS NOT NULL",
    ),
    (
        "Which beers on our list have no batch at all in the brew log?",
        "SELECT name FROM beer WHERE beer_id NOT IN (SELECT beer_id FROM batch)",
    ),
    (
        "Whose brews ended up down the drain most often?",
        "SELECT brewer FROM batch WHERE grade = 'X' GROUP BY brewer ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "Looking only at paid deliveries, which customer takes longest to pay on average? Give "
        "the name and the average "
        "days from delivery to payment, to two decimals.",
        "SELECT outlet.name, ROUND(AVG(julianday(delivery.paid_on) - julianday(delivery.delivered_on)), 2) "
        "FROM delivery JOIN outlet ON outlet.outlet_id = delivery.outlet_id WHERE delivery.paid_on IS NOT NULL "
        "GROUP BY outlet.outlet_id, outlet.name "
        "ORDER BY AVG(julianday(delivery.paid_on) - julianday(delivery.delivered_on)) DESC LIMIT 1",
    ),
    (
        "Which recipes call for four or more different malts? Give the beer and how many malts it has.",
        "SELECT beer.name, COUNT(DISTINCT ingredient.ingredient_id) FROM recipe_line "
        "JOIN ingredient ON ingredient.ingredient_id = recipe_line.ingredient_id "
        "JOIN beer ON beer.beer_id = recipe_line.beer_id WHERE ingredient.kind = 'M' "
        "GROUP BY beer.beer_id, beer.name HAVING COUNT(DISTINCT ingredient.ingredient_id) >= 4",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="The Anchor in Wattle Creek has a new contact, Noor Haddad. Please put her name in.",
        gold=[
            "UPDATE outlet SET contact = 'Noor Haddad' WHERE name = 'The Anchor' AND town = 'Wattle Creek'"
        ],
        writes="outlet",
        wrong=[["UPDATE outlet SET contact = 'Noor Haddad' WHERE name = 'The Anchor'"]],
    ),
    dict(
        ask="From today our two big kegs, those of 30 and 50 litres, cost 6 dollars more. The mini keg "
        "keeps its price.",
        gold=["UPDATE pack SET list_price = list_price + 6 WHERE pack_code IN ('K30', 'K50')"],
        writes="pack",
        wrong=[["UPDATE pack SET list_price = list_price + 6 WHERE description LIKE '%keg%'"]],
    ),
    dict(
        ask="Batch B24-015 went through the bright tank Jack and was packed on 3 June 2024; we graded it A. Bring its "
        "record up to date.",
        gold=[
            "UPDATE batch SET bright_id = (SELECT vessel_id FROM vessel WHERE name = 'Jack'), packed_on = "
            "'2024-06-03', "
            "grade = 'A' WHERE batch_no = 'B24-015'"
        ],
        writes="batch",
    ),
    dict(
        ask="We write off what outlets that we no longer serve still owe us: enter 2024-06-30 as the day of payment of "
        "all their unpaid deliveries.",
        gold=[
            "UPDATE delivery SET paid_on = '2024-06-30' WHERE paid_on IS NULL "
            "AND outlet_id IN (SELECT outlet_id FROM outlet WHERE active = 'N')"
        ],
        writes="delivery",
        rule=True,
        wrong=[
            [
                "UPDATE delivery SET paid_on = '2024-06-30' "
                "WHERE outlet_id IN (SELECT outlet_id FROM outlet WHERE active = 'N')"
            ]
        ],
    ),
]
