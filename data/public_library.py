"""The public library of Port Alder, a fictional harbour town: titles, copies, readers, loans, holds and fines."""

from datetime import date, timedelta

SPLIT = "train"

SCHEMA = """
CREATE TABLE branch (
    branch_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    street TEXT,
    opened INTEGER NOT NULL,
    floor_area INTEGER,
    phone TEXT
);
CREATE TABLE reader (
    reader_id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    born TEXT NOT NULL,
    joined TEXT NOT NULL,
    category TEXT NOT NULL,
    guarantor_id INTEGER REFERENCES reader(reader_id),
    home_branch_id INTEGER NOT NULL REFERENCES branch(branch_id),
    town TEXT NOT NULL,
    email TEXT,
    blocked TEXT NOT NULL
);
CREATE TABLE title (
    title_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    author TEXT,
    published INTEGER NOT NULL,
    medium TEXT NOT NULL,
    language TEXT NOT NULL,
    audience TEXT NOT NULL,
    pages INTEGER
);
CREATE TABLE item (
    item_id INTEGER PRIMARY KEY,
    barcode TEXT NOT NULL,
    title_id INTEGER NOT NULL REFERENCES title(title_id),
    branch_id INTEGER NOT NULL REFERENCES branch(branch_id),
    acquired TEXT NOT NULL,
    price REAL,
    state TEXT NOT NULL
);
CREATE TABLE loan (
    loan_id INTEGER PRIMARY KEY,
    item_id INTEGER NOT NULL REFERENCES item(item_id),
    reader_id INTEGER NOT NULL REFERENCES reader(reader_id),
    out_branch_id INTEGER NOT NULL REFERENCES branch(branch_id),
    in_branch_id INTEGER REFERENCES branch(branch_id),
    lent_on TEXT NOT NULL,
    due_on TEXT NOT NULL,
    back_on TEXT,
    renewals INTEGER NOT NULL
);
CREATE TABLE hold (
    hold_id INTEGER PRIMARY KEY,
    reader_id INTEGER NOT NULL REFERENCES reader(reader_id),
    title_id INTEGER NOT NULL REFERENCES title(title_id),
    branch_id INTEGER NOT NULL REFERENCES branch(branch_id),
    placed_on TEXT NOT NULL,
    ready_on TEXT,
    status TEXT NOT NULL
);
CREATE TABLE fine_line (
    line_id INTEGER PRIMARY KEY,
    loan_id INTEGER NOT NULL REFERENCES loan(loan_id),
    reason TEXT NOT NULL,
    amount INTEGER NOT NULL,
    charged_on TEXT NOT NULL,
    settled_on TEXT,
    settled_by TEXT
);
CREATE TABLE code_list (
    field TEXT NOT NULL,
    code TEXT NOT NULL,
    meaning TEXT NOT NULL,
    PRIMARY KEY (field, code)
);
"""

LAST_DAY = date(2024, 6, 29)  # the day the data was taken from the library system

BRANCHES = [
    (1, "Central Library", "12 Harbour Street", 1931, 2400, "555-0140"),
    (2, "Old Cannery", "3 Wharf Lane", 2009, 860, "555-0152"),
    (3, "Northgate", "201 Cedar Avenue", 1974, 640, "555-0167"),
    (4, "St. Brigid's Reading Room", "8 Chapel Hill", 1958, 190, None),
    (5, "Bookmobile", None, 1988, None, "555-0171"),
    (6, "Juniper Flats", "45 Prairie Road", 2024, 410, "555-0189"),
]

CODES = [
    ("reader.category", "AD", "adult"),
    ("reader.category", "JU", "junior, under 16 when joining"),
    ("reader.category", "ST", "student"),
    ("reader.category", "SR", "senior, 65 and over"),
    ("reader.category", "HB", "housebound, books are brought home"),
    ("title.medium", "BK", "printed book"),
    ("title.medium", "GN", "graphic novel"),
    ("title.medium", "AB", "audiobook"),
    ("title.medium", "DV", "film on DVD"),
    ("title.medium", "BG", "board game"),
    ("title.audience", "A", "adults"),
    ("title.audience", "Y", "young adults"),
    ("title.audience", "C", "children"),
    ("item.state", "OK", "in use"),
    ("item.state", "RP", "at the bindery for repair"),
    ("item.state", "LO", "lost"),
    ("item.state", "WD", "withdrawn from stock"),
    ("hold.status", "W", "waiting in the queue"),
    ("hold.status", "R", "ready on the pick-up shelf"),
    ("hold.status", "C", "collected by the reader"),
    ("hold.status", "X", "cancelled by the reader"),
    ("hold.status", "E", "expired, not collected in time"),
    ("fine_line.reason", "OD", "overdue"),
    ("fine_line.reason", "DM", "damage"),
    ("fine_line.reason", "LP", "lost, replacement price"),
    ("fine_line.amount", "*", "in cents"),
    ("loan.renewals", "*", "times extended, at most 3"),
    ("item.price", "*", "in dollars, empty for gifts"),
    ("fine_line.settled_by", "CA", "paid in cash"),
    ("fine_line.settled_by", "CD", "paid by card"),
    ("fine_line.settled_by", "WV", "waived, nothing paid"),
]

# name | author | published | medium | language | audience
TITLES = """
The Salt Ledger|Okafor, Ngozi|2019|BK|English|A
The Salt Ledger|Okafor, Ngozi|2020|AB|English|A
A Winter in Batumi|Lomidze, Tamar|2014|BK|English|A
The Crossing|Haldorsen, Brit|2008|BK|English|A
The Crossing|Quispe, Rosaura|2021|BK|English|A
Eleven Doors|Whitlock, Adrian|2017|BK|English|A
Eleven Doors||2020|DV|English|A
The Lantern Keepers|MacAskill, Fergus|2011|BK|English|A
The Lantern Keepers|MacAskill, Fergus|2013|AB|English|A
The Lantern Keepers||2016|DV|English|A
Ordinary Weather|Sandhu, Harpreet|2022|BK|English|A
Tell the Bees Nothing|O'Rourke, Deirdre|2020|BK|English|A
The Cartographer's Widow|D'Angelo, Livia|2015|BK|English|A
The Cartographer's Widow|D'Angelo, Livia|2016|AB|English|A
What the Tide Owes Us|Whitlock, Adrian|2023|BK|English|A
Half a Kingdom of Rain|Nakagawa, Emi|2018|BK|English|A
The Glass Orchard|Petrosyan, Anahit|2012|BK|English|A
Night Bus to Oaxaca|Villanueva, Marisol|2016|BK|English|A
Noche en Oaxaca|Villanueva, Marisol|2015|BK|Spanish|A
La casa de los relojes|Ibarra, Celestino|2010|BK|Spanish|A
El mapa y la marea|Quispe, Rosaura|2019|BK|Spanish|A
Le dernier phare|Tremblay, Odile|2018|BK|French|A
Le dernier phare|Tremblay, Odile|2019|AB|French|A
Les voisins d'en haut|Benali, Karim|2021|BK|French|A
L'hiver des autres|Tremblay, Odile|2014|BK|French|A
L'hiver des autres||2017|DV|French|A
Sutlej De Kande|Sandhu, Harpreet|2013|BK|Punjabi|A
Chiththiyan|Gill, Balwinder|2009|BK|Punjabi|A
Mitti Di Mehak|Gill, Balwinder|2020|BK|Punjabi|A
Ang Huling Barko|Salonga, Ligaya|2017|BK|Tagalog|A
Mga Bituin sa Tondo|Salonga, Ligaya|2022|BK|Tagalog|A
The Herring Murders|Brandvold, Sigrid|2013|BK|English|A
The Ferry Murders|Brandvold, Sigrid|2015|BK|English|A
The Orchard Murders|Brandvold, Sigrid|2018|BK|English|A
The Chapel Murders|Brandvold, Sigrid|2021|BK|English|A
The Herring Murders|Brandvold, Sigrid|2014|AB|English|A
The Herring Murders||2019|DV|English|A
Blood on the Breakwater|Castellane, Hugo|2016|BK|English|A
A Quiet Man in Reykjavik|Castellane, Hugo|2019|BK|English|A
Station Zero|Adeyemi-Clarke, Femi|2020|BK|English|A
Station Zero|Adeyemi-Clarke, Femi|2022|GN|English|A
Orbit of Ash|Adeyemi-Clarke, Femi|2023|BK|English|A
The Long Thaw|Virtanen, Aino|2021|BK|English|A
Signals from Ceres|Raghunathan, Meera|2017|BK|English|A
Bread for a Small Kitchen|Lindqvist, Maja|2018|BK|English|A
The Dumpling Year|Tan, Siew Ling|2021|BK|English|A
Pickles, Brine and Patience|Yoon, Ji-ho|2019|BK|English|A
Knots, Nets and Lines|Mercer, Gordon|2002|BK|English|A
The Coastal Gardener|Baptiste, Eulalie|2010|BK|English|A
Mushrooms of the Alder Coast|Mercer, Gordon|2006|BK|English|A
Seabirds in All Seasons|Kowalczuk, Teodor|2004|BK|English|A
A Town Built on Salmon|Pelletier, Rose|1998|BK|English|A
Port Alder in Photographs|Pelletier, Rose|1987|BK|English|A
Mending: A Handbook|Abubakar, Zainab|2020|BK|English|A
Your First Beehive|O'Rourke, Deirdre|2015|BK|English|A
Chess After Sixty|Abramov, Lev|2011|BK|English|A
Learn Canadian French at Home|Tremblay, Odile|2007|AB|French|A
Walking the Inlet|Mercer, Gordon|2013|BK|English|A
The Cellist of Tartu|Kask, Liis|2016|BK|English|A
The Cellist of Tartu||2021|DV|English|A
Dust and Marigolds|Raghunathan, Meera|2022|BK|English|A
Monsoon Wedding Cake||2018|DV|English|A
Three Brothers and a Boat||2012|DV|English|A
The Ice Road||2015|DV|English|A
Kitchens of Penang||2022|DV|English|A
Whales of the Strait||2010|DV|English|C
Raven Girl|Charlie, Edna|2019|GN|English|Y
Raven Girl Returns|Charlie, Edna|2021|GN|English|Y
Raven Girl and the Drowned Bell|Charlie, Edna|2023|GN|English|Y
Skate Ghost|Moreau, Zéphyr|2020|GN|English|Y
Patins fantômes|Moreau, Zéphyr|2020|GN|French|Y
The Girl Who Mapped the Wind|Oyelaran, Bisi|2018|BK|English|Y
The Girl Who Sold the Storm|Oyelaran, Bisi|2020|BK|English|Y
Nobody Leaves Ferris Island|Whitlock, Adrian|2014|BK|English|Y
My Year of Small Fires|Hashemi, Parisa|2022|BK|English|Y
Lockers|Beaulieu, Jordan|2017|BK|English|Y
Second String|Beaulieu, Jordan|2021|BK|English|Y
The Algorithm of Us|Hashemi, Parisa|2023|BK|English|Y
Otters Don't Wear Socks|Pettigrew, Molly|2016|BK|English|C
Otters Don't Do Homework|Pettigrew, Molly|2018|BK|English|C
Otters Don't Like Mondays|Pettigrew, Molly|2021|BK|English|C
Captain Turnip|Van der Merwe, Anneke|2012|BK|English|C
Captain Turnip at Sea|Van der Merwe, Anneke|2014|BK|English|C
Captain Turnip||2019|DV|English|C
Goodnight, Tugboat|Hemmings, Clive|2005|BK|English|C
The Dragon in Row Nine|Nguyen, Thuy|2019|BK|English|C
Bonne nuit, petit phare|Tremblay, Odile|2011|BK|French|C
Le chat du boulanger|Benali, Karim|2016|BK|French|C
Si Pagong at ang Dagat|Salonga, Ligaya|2014|BK|Tagalog|C
Nani's Blue Scooter|Sandhu, Harpreet|2017|BK|English|C
Hundred and One Paper Boats|Nakagawa, Emi|2013|BK|English|C
A Moose Came to Math Class|Pettigrew, Molly|2020|BK|English|C
Volcano, Volcano|Tupou, Sione|2015|BK|English|C
Spiders at Breakfast|Tupou, Sione|2022|BK|English|C
The Lost Mitten Club|Kask, Liis|2018|BK|English|C
The Lost Mitten Club|Kask, Liis|2019|AB|English|C
Harbour Traders||2016|BG|English|A
Lighthouse Builders||2019|BG|English|C
Kings of the Compost||2021|BG|English|C
Nine Hungry Raccoons||2018|BG|English|C
The Great Ferry Race||2014|BG|English|Y
"""

FIRST = """Amara Agnes Ahmed Aiko Alejandra Anton Arjun Beatriz Bogdan Brigitte Callum Carmen Chidi Claire
Dmitri Dolores Edward Elif Emeka Esther Farah Fiona Gabriel Gurpreet Hana Harold Ines Ivan Jasmine Jomar
Joseph Kamala Katarina Kenji Kwame Leila Liam Lourdes Lucas Magda Marcus Maria Mateo Mei Mohammed Nadia Nina
Olga Owen Padma Patrick Priya Rafael Ruth Samuel Simone Sofia Stefan Thandiwe Tomasz Valentina Vikram Wei
Winifred Yusuf Zofia""".split()
LAST = """Abara|Anand|Arsenault|Bui|Campbell|Chen|Cho|Cruz|Dhaliwal|Duarte|Farouk|Fitzgerald|Fontaine|Gagnon|Grewal
|Haddad|Hansen|Ivanova|Jack|Johal|Kaplan|Kim|Kowalski|Laliberté|Le Roux|MacLeod|Mbeki|McAllister|Mendoza|Moffat
|Nair|Novak|O'Brien|O'Shea|Okonkwo|Osei|Papadakis|Park|Pereira|Petrov|Ramos|Reyes|Santos|Sato|Sidhu|Silva|Singh
|Steiner|Tanaka|Thomas|Toivonen|Turgut|Vance|Wallace|Williams|Wong|Yamamoto|Zhang""".replace(
    "\n", ""
).split("|")
TOWNS = ["Port Alder", "Nether Cove", "St. Anne's Ferry", "Coldwater", "Juniper Flats"]


def day(text):
    return date.fromisoformat(text)


def between(rng, first, last):
    "An opening day from `first` to `last`."
    return open_day(first + timedelta(days=rng.randrange((last - first).days + 1)))


def open_day(d):
    "The day itself or the next on which the library opens: not on Sundays, at Christmas or on New Year's Day."
    while d.weekday() == 6 or (d.month, d.day) in ((12, 25), (12, 26), (1, 1)):
        d += timedelta(days=1)
    return d


def make_titles(rng):
    out = []
    for i, line in enumerate(TITLES.strip().split("\n"), 1):
        name, author, year, medium, language, audience = line.split("|")
        pages = None
        if medium in ("BK", "GN"):
            low, high = (
                (24, 160) if audience == "C" else (96, 220) if medium == "GN" else (180, 620)
            )
            pages = rng.randrange(low, high, 4)
        out.append((i, name, author or None, int(year), medium, language, audience, pages))
    return out


def make_readers(rng):
    out, adults = [], []
    dates = [between(rng, date(2012, 3, 1), date(2021, 12, 1)) for _ in range(95)]
    dates = sorted(dates + [between(rng, date(2022, 1, 3), date(2024, 6, 14)) for _ in range(95)])
    for i, joined in enumerate(dates, 1):
        category = (
            "AD" if i <= 25 else rng.choices(["AD", "JU", "ST", "SR", "HB"], [46, 30, 10, 16, 4])[0]
        )
        low, high = {"AD": (24, 64), "JU": (5, 16), "ST": (17, 25), "SR": (65, 86), "HB": (58, 90)}[
            category
        ]
        born = joined - timedelta(days=int(365.25 * (low + rng.random() * (high - low))))
        name, guarantor = f"{rng.choice(FIRST)} {rng.choice(LAST)}", None
        town = rng.choices(TOWNS, [60, 14, 11, 9, 6])[0]
        home = rng.choices([1, 2, 3, 4, 5], [46, 20, 18, 9, 7])[0]
        if category == "JU" and rng.random() < 0.85:
            parent = rng.choice([a for a in adults if a[3] <= joined.isoformat()])
            guarantor, home, town = parent[0], parent[6], parent[7]
            if rng.random() < 0.8:
                name = f"{rng.choice(FIRST)} {parent[1].split(' ', 1)[1]}"
        name = {41: "Maria Santos", 118: "Maria Santos", 77: "Wei Chen", 152: "Wei Chen"}.get(
            i, name
        )
        mail = None
        if rng.random() < (0.85 if category in ("AD", "ST") else 0.35):
            mail = "".join(
                c
                for c in name.lower().replace(" ", ".")
                if c.isascii() and (c.isalpha() or c == ".")
            )
            mail += f"{i}@{rng.choice(['aldermail.example', 'inlet.example', 'postbox.example'])}"
        blocked = "Y" if rng.random() < 0.07 else "N"
        row = (
            i,
            name,
            born.isoformat(),
            joined.isoformat(),
            category,
            guarantor,
            home,
            town,
            mail,
            blocked,
        )
        out.append(row)
        if category == "AD":
            adults.append(row)
    return out


def make_items(rng, titles, popularity):
    out = []
    for t in titles:
        copies = 1 + int(rng.random() * 2) + int(popularity[t[0]] * 5)
        if t[4] in ("BG", "AB"):
            copies = min(copies, 2)
        for _ in range(copies):
            first = max(date(2010, 1, 4), date(t[3], 2, 1) if t[3] >= 2010 else date(2010, 1, 4))
            acquired = between(rng, first, min(date(2024, 2, 1), first + timedelta(days=2200)))
            base = {"BK": 24, "GN": 21, "AB": 34, "DV": 19, "BG": 45}[t[4]]
            price = None if rng.random() < 0.12 else round(base + rng.randrange(-8, 12) + 0.95, 2)
            state = rng.choices(["OK", "RP", "LO", "WD"], [86, 3, 4, 7])[0]
            n = len(out) + 1
            branch = rng.choices([1, 2, 3, 4, 5], [44, 20, 19, 9, 8])[0]
            out.append(
                (
                    n,
                    f"PA{30000 + 7 * n + rng.randrange(7)}",
                    t[0],
                    branch,
                    acquired.isoformat(),
                    price,
                    state,
                )
            )
    return out


def suits(audience, category, rng):
    if audience == "C":
        return category == "JU" or category == "AD" and rng.random() < 0.3
    if audience == "Y":
        return category in ("ST", "JU") or rng.random() < 0.2
    return category != "JU"


def pick_reader(rng, readers, activity, audience, when):
    "A reader who had joined by then, likelier the more active she is."
    for _ in range(400):
        r = rng.choices(readers, activity)[0]
        if r[3] <= when.isoformat() and suits(audience, r[4], rng):
            return r
    return None


def make_loans(rng, titles, items, readers, popularity):
    activity = [0 if rng.random() < 0.13 else 0.08 + rng.random() ** 3 for _ in readers]
    out = []
    for item in items:
        title, state = titles[item[2] - 1], item[6]
        weeks = {"DV": 7, "BG": 14}.get(title[4], 21)
        stop = LAST_DAY if state == "OK" else between(rng, date(2023, 1, 9), date(2024, 3, 9))
        when = max(day(item[4]), date(2022, 1, 3))
        while True:
            when = open_day(
                when + timedelta(days=3 + int(rng.random() * 420 * (1.05 - popularity[item[2]])))
            )
            if when > stop:
                break
            r = pick_reader(rng, readers, activity, title[6], when)
            if r is None:
                continue
            renewals = rng.choices([0, 1, 2, 3], [72, 18, 7, 3])[0]
            due = open_day(when + timedelta(days=weeks * (1 + renewals)))
            late = rng.random() < 0.15
            back = (
                due + timedelta(days=1 + int(40 * rng.random() ** 3))
                if late
                else due - timedelta(days=int(rng.random() ** 2 * weeks * 0.9))
            )
            back = max(open_day(back), when)
            out_branch = r[6] if rng.random() < 0.15 else item[3]
            in_branch = rng.choices([out_branch, 1, 2, 3, 4], [75, 12, 6, 5, 2])[0]
            out.append([item[0], r[0], out_branch, in_branch, when, due, back, renewals])
            when = back
        lend = [x for x in out if x[0] == item[0]]
        if lend and (state == "LO" or lend[-1][6] > LAST_DAY and state == "OK"):
            lend[-1][3] = lend[-1][6] = None
    out.sort(key=lambda x: (x[4], x[0]))
    return [
        (i, *x[:4], x[4].isoformat(), x[5].isoformat(), x[6] and x[6].isoformat(), x[7])
        for i, x in enumerate(out, 1)
    ]


def make_holds(rng, titles, readers, popularity):
    weights, out = [popularity[t[0]] ** 2 for t in titles], []
    while len(out) < 136:
        r, t = rng.choice(readers), rng.choices(titles, weights)[0]
        placed = between(rng, date(2023, 1, 3), LAST_DAY - timedelta(days=1))
        if placed.isoformat() < r[3] or not suits(t[6], r[4], rng):
            continue
        recent = placed >= date(2024, 5, 6)
        status = rng.choices("WRX", [6, 3, 1])[0] if recent else rng.choices("CXE", [66, 20, 14])[0]
        ready = placed + timedelta(days=2 + int(60 * rng.random() ** 2))
        ready = None if status in "WX" else open_day(min(ready, LAST_DAY))
        branch = rng.choice([1, 2, 3]) if rng.random() < 0.3 else r[6]
        out.append((r[0], t[0], branch, placed, ready, status))
        if (
            status in "XE" and placed < date(2024, 2, 1) and rng.random() < 0.4
        ):  # the same reader tries again
            again = between(rng, placed + timedelta(days=20), placed + timedelta(days=60))
            out.append(
                (
                    r[0],
                    t[0],
                    branch,
                    again,
                    open_day(again + timedelta(days=rng.randrange(4, 40))),
                    "C",
                )
            )
    out.sort(key=lambda h: (h[3], h[0]))
    return [
        (i, *h[:3], h[3].isoformat(), h[4] and h[4].isoformat(), h[5]) for i, h in enumerate(out, 1)
    ]


def make_fines(rng, loans, items, readers):
    out = []

    def charge(loan_id, reason, cents, when):
        settled = how = None
        if rng.random() < 0.68:
            paid = open_day(when + timedelta(days=int(120 * rng.random() ** 3)))
            if paid <= LAST_DAY:
                settled, how = paid.isoformat(), rng.choices(["CA", "CD", "WV"], [34, 50, 16])[0]
        out.append((loan_id, reason, cents, when.isoformat(), settled, how))

    for loan_id, item_id, reader_id, _, _, _, due, back, _ in loans:
        price = items[item_id - 1][5] or 20.0
        if items[item_id - 1][6] == "LO" and back is None:
            charge(
                loan_id,
                "LP",
                round(price * 100),
                min(open_day(day(due) + timedelta(days=60)), LAST_DAY),
            )
            continue
        if back is None:
            continue
        days = (day(back) - day(due)).days
        if days > 0 and readers[reader_id - 1][4] != "JU":
            charge(loan_id, "OD", min(25 * days, 800), day(back))
        if rng.random() < 0.03:
            charge(loan_id, "DM", rng.choice([200, 350, 500, 500, 750, 1200]), day(back))
    out.sort(key=lambda f: (f[3], f[0]))
    return [(i, *f) for i, f in enumerate(out, 1)]


def rows(rng):
    "Rows of every table: {table: [tuples in column order]}."
    titles = make_titles(rng)
    popularity = {t[0]: round(rng.random() ** 2, 3) for t in titles}
    popularity.update({t[0]: round(popularity[t[0]] * 0.6, 3) for t in titles if t[5] != "English"})
    readers = make_readers(rng)
    items = make_items(rng, titles, popularity)
    loans = make_loans(rng, titles, items, readers, popularity)
    holds = make_holds(rng, titles, readers, popularity)
    fines = make_fines(rng, loans, items, readers)
    return {
        "branch": BRANCHES,
        "reader": readers,
        "title": titles,
        "item": items,
        "loan": loans,
        "hold": holds,
        "fine_line": fines,
        "code_list": CODES,
    }


QUESTIONS = [
    (
        "How many of our readers have not given us an e-mail address?",
        "SELECT COUNT(*) FROM reader WHERE email IS NULL",
    ),
    (
        "What number do I dial to reach the Old Cannery?",
        "SELECT phone FROM branch WHERE name = 'Old Cannery'",
    ),
    (
        "How many copies came to us as gifts rather than purchases?",
        "SELECT COUNT(*) FROM item WHERE price IS NULL",
    ),
    (
        "A boy at the desk asks who wrote Captain Turnip at Sea. What name does our catalogue give?",
        "SELECT author FROM title WHERE name = 'Captain Turnip at Sea'",
    ),
    (
        "Which copies are out of service, be they lost, withdrawn or away for repair? I need their barcodes.",
        "SELECT barcode FROM item WHERE state <> 'OK'",
    ),
    (
        "Somebody found one of our copies on the bus, barcode PA30351. What is the work called?",
        "SELECT title.name FROM item JOIN title ON title.title_id = item.title_id WHERE item.barcode = 'PA30351'",
    ),
    ("How many loans were never renewed?", "SELECT COUNT(*) FROM loan WHERE renewals = 0"),
    (
        "What is the highest price we have paid for a single copy, in dollars?",
        "SELECT MAX(price) FROM item",
    ),
    (
        "How many different readers have borrowed something at least once?",
        "SELECT COUNT(DISTINCT reader_id) FROM loan",
    ),
    (
        "How much have we charged readers for damage altogether, settled or not, in dollars?",
        "SELECT SUM(amount) / 100.0 FROM fine_line WHERE reason = 'DM'",
    ),
    (
        "In which month of 2023 did we lend the most? Write it like 2023-01.",
        "SELECT strftime('%Y-%m', lent_on) FROM loan WHERE lent_on BETWEEN '2023-01-01' AND '2023-12-31' "
        "GROUP BY strftime('%Y-%m', lent_on) ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    ("Who is our oldest reader?", "SELECT full_name FROM reader ORDER BY born LIMIT 1"),
    (
        "How many copies are at home in St. Brigid's Reading Room, whatever shape they are in?",
        "SELECT COUNT(*) FROM item JOIN branch ON branch.branch_id = item.branch_id "
        "WHERE branch.name = 'St. Brigid''s Reading Room'",
    ),
    (
        "How do our readers divide into adults, juniors and so on? Give each category in the "
        "words of our code list, with "
        "its number of readers.",
        "SELECT code_list.meaning, COUNT(*) FROM reader JOIN code_list ON code_list.field = 'reader.category' "
        "AND code_list.code = reader.category GROUP BY code_list.meaning",
    ),
    (
        "Of the loans that were due during 2023, how many were brought back after their due date?",
        "SELECT COUNT(*) FROM loan WHERE due_on BETWEEN '2023-01-01' AND '2023-12-31' AND back_on > due_on",
    ),
    (
        "Which readers from Port Alder itself are blocked? Their names will do.",
        "SELECT full_name FROM reader WHERE town = 'Port Alder' AND blocked = 'Y'",
    ),
    (
        "On average, how many pages does a printed book for children have? Two decimals, please.",
        "SELECT ROUND(AVG(pages), 2) FROM title WHERE medium = 'BK' AND audience = 'C'",
    ),
    (
        "What is the name of the thickest volume in the catalogue, going by its page count?",
        "SELECT name FROM title ORDER BY pages DESC LIMIT 1",
    ),
    (
        "There are two novels called The Crossing. For the one by Rosaura Quispe, which barcodes are on file?",
        "SELECT item.barcode FROM item JOIN title ON title.title_id = item.title_id "
        "WHERE title.name = 'The Crossing' AND title.author = 'Quispe, Rosaura'",
    ),
    (
        "Two readers are called Maria Santos. On what date did the younger one sign up?",
        "SELECT joined FROM reader WHERE full_name = 'Maria Santos' ORDER BY born DESC LIMIT 1",
    ),
    (
        "For the stocktaking I need the barcode of every copy that was lent and has not been brought back so far.",
        "SELECT item.barcode FROM loan JOIN item ON item.item_id = loan.item_id WHERE loan.back_on IS NULL",
    ),
    (
        "How much is still unsettled for each reason we charge for? Give the short code of the reason and the sum "
        "in dollars.",
        "SELECT reason, SUM(amount) / 100.0 FROM fine_line WHERE settled_on IS NULL GROUP BY reason",
    ),
    (
        "How many loans did we hand out in each calendar year? Give me the year and the number.",
        "SELECT strftime('%Y', lent_on), COUNT(*) FROM loan GROUP BY strftime('%Y', lent_on)",
    ),
    (
        "How many of our readers in the adult category have never borrowed anything?",
        "SELECT COUNT(*) FROM reader WHERE category = 'AD' AND reader_id NOT IN (SELECT reader_id FROM loan)",
    ),
    (
        "Which works do we own both as a printed book and as a film of the same name?",
        "SELECT name FROM title WHERE medium = 'BK' INTERSECT SELECT name FROM title WHERE medium = 'DV'",
    ),
    (
        "Some people reserved the very same title more than once. Who? Name each person once.",
        "SELECT full_name FROM reader WHERE reader_id IN "
        "(SELECT reader_id FROM hold GROUP BY reader_id, title_id HAVING COUNT(*) > 1)",
    ),
    (
        "Of all loans that came back, what percentage was handed in at another branch than the "
        "lending one? One decimal, "
        "please.",
        "SELECT ROUND(100.0 * SUM(CASE WHEN in_branch_id <> out_branch_id THEN 1 ELSE 0 END) / COUNT(*), 1) "
        "FROM loan WHERE back_on IS NOT NULL",
    ),
    (
        "When things come back late, how many days late are they on average? Two decimals, please.",
        "SELECT ROUND(AVG(julianday(back_on) - julianday(due_on)), 2) FROM loan WHERE back_on > due_on",
    ),
    (
        "Late returns aren't always charged: how many loans came back after the due date without "
        "any overdue charge being "
        "entered, not even one waived later?",
        "SELECT COUNT(*) FROM loan WHERE back_on > due_on AND NOT EXISTS "
        "(SELECT 1 FROM fine_line WHERE fine_line.loan_id = loan.loan_id AND fine_line.reason = 'OD')",
    ),
    (
        "How many loans did each branch hand out in 2024? Give its name and the number, including any branch that lent "
        "nothing.",
        "SELECT branch.name, COUNT(loan.loan_id) FROM branch LEFT JOIN loan ON loan.out_branch_id = branch.branch_id "
        "AND loan.lent_on >= '2024-01-01' GROUP BY branch.branch_id, branch.name",
    ),
    (
        "Little Arjun Osei has lost his card. Which grown-up stands surety for him?",
        "SELECT g.full_name FROM reader AS r JOIN reader AS g ON g.reader_id = r.guarantor_id "
        "WHERE r.full_name = 'Arjun Osei'",
    ),
    (
        "Which reader owes us the most in unsettled charges, and how much is it in dollars?",
        "SELECT reader.full_name, SUM(fine_line.amount) / 100.0 FROM fine_line "
        "JOIN loan ON loan.loan_id = fine_line.loan_id JOIN reader ON reader.reader_id = loan.reader_id "
        "WHERE fine_line.settled_on IS NULL GROUP BY reader.reader_id, reader.full_name "
        "ORDER BY SUM(fine_line.amount) DESC LIMIT 1",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="Holds that have been ready for pick-up since before 1 June 2024 have expired. Mark them so.",
        gold=["UPDATE hold SET status = 'E' WHERE status = 'R' AND ready_on < '2024-06-01'"],
        writes="hold",
        rule=True,
        wrong=[
            ["UPDATE hold SET status = 'E' WHERE status = 'R' AND placed_on < '2024-06-01'"],
            ["UPDATE hold SET status = 'E' WHERE ready_on < '2024-06-01'"],
        ],
    ),
    dict(
        ask="We waive all unsettled overdue fines of readers who live in Juniper Flats, as of 1 July 2024. Fines for "
        "damage stay.",
        gold=[
            "UPDATE fine_line SET settled_on = '2024-07-01', settled_by = 'WV' "
            "WHERE reason = 'OD' AND settled_on IS NULL AND loan_id IN (SELECT loan_id FROM loan JOIN reader "
            "ON loan.reader_id = reader.reader_id WHERE town = 'Juniper Flats')"
        ],
        writes="fine_line",
        rule=True,
        wrong=[
            [
                "UPDATE fine_line SET settled_on = '2024-07-01', settled_by = 'WV' "
                "WHERE settled_on IS NULL AND loan_id IN (SELECT loan_id FROM loan JOIN reader "
                "ON loan.reader_id = reader.reader_id WHERE town = 'Juniper Flats')"
            ]
        ],
    ),
    dict(
        ask="The Tanakas: young Joseph, the junior, has moved to Coldwater. His father still lives where he did.",
        gold=[
            "UPDATE reader SET town = 'Coldwater' WHERE full_name = 'Joseph Tanaka' AND category = 'JU'"
        ],
        writes="reader",
        wrong=[["UPDATE reader SET town = 'Coldwater' WHERE full_name = 'Joseph Tanaka'"]],
    ),
    dict(
        ask="Delete the withdrawn copies that nobody ever borrowed. Those with loans must stay for the statistics.",
        gold=["DELETE FROM item WHERE state = 'WD' AND item_id NOT IN (SELECT item_id FROM loan)"],
        writes="item",
        rule=True,
        wrong=[["DELETE FROM item WHERE state = 'WD'"]],
    ),
]
