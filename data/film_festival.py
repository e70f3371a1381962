"""The programme office of the (fictional) Halcyon Bay film festival: its eleven days in September 2024."""

from datetime import date, timedelta

SPLIT = "test"
SCHEMA = """
CREATE TABLE strand (
  code TEXT PRIMARY KEY, title TEXT NOT NULL, sponsor TEXT);
CREATE TABLE person (
  person_id INTEGER PRIMARY KEY, full_name TEXT NOT NULL, country TEXT NOT NULL, born INTEGER);
CREATE TABLE entry (
  entry_id INTEGER PRIMARY KEY, title TEXT NOT NULL, original_title TEXT, country TEXT NOT NULL,
  minutes INTEGER NOT NULL, director_id INTEGER NOT NULL REFERENCES person(person_id),
  writer_id INTEGER REFERENCES person(person_id), received TEXT NOT NULL, fee INTEGER,
  status TEXT NOT NULL, strand_code TEXT REFERENCES strand(code));
CREATE TABLE venue (
  venue_id INTEGER PRIMARY KEY, name TEXT NOT NULL, district TEXT NOT NULL, seats INTEGER NOT NULL,
  step_free TEXT NOT NULL);
CREATE TABLE screening (
  screening_id INTEGER PRIMARY KEY, entry_id INTEGER NOT NULL REFERENCES entry(entry_id),
  opener_id INTEGER REFERENCES entry(entry_id), venue_id INTEGER NOT NULL REFERENCES venue(venue_id),
  day TEXT NOT NULL, starts TEXT NOT NULL, q_and_a INTEGER NOT NULL);
CREATE TABLE ticket_sale (
  sale_id INTEGER PRIMARY KEY, screening_id INTEGER NOT NULL REFERENCES screening(screening_id),
  sold_on TEXT NOT NULL, type TEXT NOT NULL, seats INTEGER NOT NULL, rate INTEGER NOT NULL, refunded_on TEXT);
CREATE TABLE jury_seat (
  strand_code TEXT NOT NULL REFERENCES strand(code), person_id INTEGER NOT NULL REFERENCES person(person_id),
  role TEXT NOT NULL, fee INTEGER, PRIMARY KEY (strand_code, person_id));
CREATE TABLE award (
  award_id INTEGER PRIMARY KEY, name TEXT NOT NULL, strand_code TEXT REFERENCES strand(code),
  purse INTEGER NOT NULL, entry_id INTEGER REFERENCES entry(entry_id), person_id INTEGER REFERENCES person(person_id));
"""

FIRST_DAY, DAYS = date(2024, 9, 5), 11
STRANDS = [
    ("C1", "Main Competition", "Banco Meridian"),
    ("C2", "New Directors", "Lighthouse Beer"),
    ("D1", "True Stories", None),
    ("K1", "Small Waves", "Orchard Dairies"),
    ("N1", "Midnight Tide", None),
    ("R1", "Rediscovered", "The Pike Foundation"),
    ("S1", "Short Cuts", "Lighthouse Beer"),
    ("X1", "Open Air", None),
]
VENUES = [
    (1, "Grand Lido", "Seafront", 168, "Y"),
    (2, "The Odeon", "Old Town", 132, "Y"),
    (3, "Fisherman's Hall", "Harbour", 84, "N"),
    (4, "Studio 9", "Old Town", 46, "N"),
    (5, "Kino Mercado", "Market Quarter", 72, "Y"),
    (6, "University Theatre", "Hillside", 110, "Y"),
    (7, "Cap Rouge Cinema", "Seafront", 58, "N"),
    (8, "The Bandstand", "Seafront", 150, "Y"),
]
HOME = {
    "C1": [1, 1, 2, 6],
    "C2": [2, 5, 6],
    "D1": [3, 5, 6],
    "K1": [6, 5],
    "N1": [4, 7],
    "R1": [7, 3, 2],
}
# country: weight, women, men, family names
COUNTRIES = {
    "France": (
        9,
        "Claire Helene Manon Sylvie",
        "Antoine Baptiste Luc Remi",
        "Berthier Cazenave Delorme Marchand Vasseur",
    ),
    "Brazil": (
        6,
        "Ana Luiza Renata",
        "Caio Thiago Vinicius",
        "Barreto Moura Pereira Queiroz Tavares",
    ),
    "Portugal": (
        5,
        "Ana Leonor Margarida",
        "Afonso Goncalo Vasco",
        "Almada Brandao Pereira Sequeira",
    ),
    "South Korea": (
        6,
        "Eun-ji Ha-neul Soo-min",
        "Dong-hyun Jae-won Tae-sik",
        "Baek Cho Kwon Noh Yoon",
    ),
    "Iran": (5, "Golnaz Mahsa Parisa", "Behrouz Kaveh Navid", "Farahani Jalali Rostami Tehrani"),
    "Nigeria": (5, "Amaka Bisi Zainab", "Dele Kelechi Musa", "Abubakar Danjuma Ogunleye Uche"),
    "Argentina": (
        5,
        "Carla Malena Valentina",
        "Esteban Facundo Julian",
        "Aguirre Benitez Ledesma Rossi",
    ),
    "Japan": (5, "Ayaka Keiko Naomi", "Daisuke Kenji Shota", "Fujimoto Hayashi Morita Ueno"),
    "India": (
        7,
        "Kavita Nandini Priya Rukmini",
        "Aditya Girish Manoj Prakash",
        "Banerjee Deshpande Kulkarni Nair Sen",
    ),
    "Poland": (
        4,
        "Kasia Malgorzata Ola",
        "Bartek Krzysztof Wojtek",
        "Dabrowski Kolodziej Mazur Sikora",
    ),
    "Morocco": (3, "Hanane Salma Zineb", "Amine Driss Younes", "Benjelloun El_Alaoui Tazi"),
    "Mexico": (
        5,
        "Guadalupe Paulina Ximena",
        "Arturo Emiliano Rodrigo",
        "Cisneros Ibarra Montes Zavala",
    ),
    "Canada": (4, "Emily Kaya Odile", "Derek Etienne Liam", "Beaudry Fraser Lalonde MacLeod"),
    "Georgia": (3, "Ketevan Nino Tamar", "Giorgi Levan Zurab", "Beridze Gelashvili Kobalia"),
    "Norway": (3, "Astrid Ingrid Solveig", "Eirik Haakon Magnus", "Dahl Fossum Lindberg"),
    "Kenya": (3, "Achieng Njeri Wanjiru", "Juma Kamau Otieno", "Kariuki Mwangi Odhiambo"),
    "Ireland": (3, "Grainne Roisin Sinead", "Cathal Donal Ruairi", "Hanrahan O'Shea Tierney"),
    "Lebanon": (2, "Joumana Rima Yara", "Elias Nabil Ziad", "Chidiac Khoury Saab"),
}
TITLES = (
    "Salt|The Ferryman's Daughter|nowhere, slowly|Glass Harvest|A House for Ravens|Seven Kinds of Rain|"
    "Paper Moons|Dust and Honey|The Last Projectionist|Low Tide|Orchard Street|What the River Kept|Blue Hour|"
    "Mother Tongue|The Beekeeper's Debt|Night Bus to Tlemcen|Winter Coats|The Sleeping Mayor|Unsent|"
    "Border Radio|Cold Kitchen|Letters to Nobody|The Weight of Bread|Everyone Leaves Tomorrow|Hinterland|"
    "Ghost Notes|A Minor Saint|Tin Roofs|The Cartographer|Small Hours|Quiet Engines|Second Language|"
    "The Lemon Thieves|Ash Wednesday|Half a Sky|Aunt Nadia's Piano|Fever Garden|The Long Receipt|Slow Dogs|"
    "The Monsoon Band|Echo Park Elegy|Seedlings|The Ninth Floor|Gravel|Red Thread|The Understudy|"
    "A Season Without Birds|Iron Lullaby|Wolves of Rue Cassin|Foreign Coins|The Swimmers' Club|Afterlight|"
    "Kite Weather|No Signal|Thirst|The Apprentice Liar|Marble|Two Left Shoes|The Island Says No|Static|"
    "Harbour Lights|Bone China|Our Lady of Ladders|Pomegranate|Dry Season|The Clockmaker's Twin|Migrations|"
    "Lullaby for Machines|The Empty Chair|Sparrow Hotel|Black Ice|Tender Math|Don't Wake the Goats|Kin|"
    "Saltwater Saints|Terminal B|The Goodbye Rehearsal|Velvet|Wild Mint|Understory|The Ministry of Fog|"
    "Petrichor|Rust Belt Romance|Sister Cities|Tomorrow's Weather|Open Water|Bitter Orange|Eleven Windows|"
    "The Quarry|Homesick|Lanterns|Neon Psalm|The Translator's Sleep|Mango Court|Undertow|Last Tram|Cinder|"
    "A Map of Scars|Big Sister|Faraway Noon|Moth|Parallel Lines|The Inheritance of Dust|Whale Song|"
    "Yellow Line|Zero Street|The Tailor of Batumi|Driftwood|Every Other Sunday|Featherweight|Guest House|"
    "Hush|Inland Sea|Jackdaw|Keepers|Limestone|The Night Shift|Overcast|Pillow Talk for Ghosts|Roots & Wires|"
    "Skipping Stones|The Tenants"
)
ORIGINAL = {  # films from abroad that kept the title they have at home
    "The Ferryman's Daughter": ("La Fille du passeur", "France"),
    "Blue Hour": ("L'Heure bleue", "France"),
    "Everyone Leaves Tomorrow": ("Tout le monde part demain", "France"),
    "Red Thread": ("Le Fil rouge", "France"),
    "Every Other Sunday": ("Un dimanche sur deux", "France"),
    "Paper Moons": ("Luas de papel", "Portugal"),
    "Letters to Nobody": ("Cartas a ninguém", "Portugal"),
    "Cold Kitchen": ("Cozinha fria", "Brazil"),
    "Dry Season": ("Estiagem", "Brazil"),
    "Low Tide": ("Marea baja", "Argentina"),
    "Moth": ("Polilla", "Argentina"),
    "The Empty Chair": ("La silla vacía", "Argentina"),
    "Slow Dogs": ("Perros lentos", "Mexico"),
    "The Ninth Floor": ("El noveno piso", "Mexico"),
    "Bone China": ("Porcelana", "Mexico"),
    "Thirst": ("Pragnienie", "Poland"),
    "Winter Coats": ("Płaszcze na zimę", "Poland"),
    "Big Sister": ("Didi", "India"),
    "The Monsoon Band": ("Barsaat", "India"),
    "Lanterns": ("Chochin", "Japan"),
    "Small Hours": ("Yofukashi", "Japan"),
    "Pomegranate": ("Anar", "Iran"),
    "Whale Song": ("Hvalsang", "Norway"),
    "Inland Sea": ("Innhav", "Norway"),
}
AWARDS = [  # name, strand, purse, what it goes to: F film, D film and its director, W film and its writer, - nobody
    ("Golden Heron", "C1", 40000, "D"),
    ("Silver Heron", "C1", 15000, "F"),
    ("Best Director", "C1", 10000, "D"),
    ("Best Screenplay", "C1", 8000, "W"),
    ("Special Mention", "C1", 0, "F"),
    ("Special Mention", "C1", 0, "F"),
    ("First Light Prize", "C2", 12000, "D"),
    ("Critics' Choice", "C2", 5000, "F"),
    ("Special Mention", "C2", 0, "F"),
    ("True Stories Award", "D1", 10000, "D"),
    ("Archive Prize", "D1", 3000, "-"),
    ("Starfish", "K1", 4000, "F"),
    ("Night Owl", "N1", 2500, "F"),
    ("Best Short", "S1", 3000, "D"),
    ("Best Short", "S1", 3000, "D"),
    ("Audience Award", None, 6000, "F"),
    ("Green Screen Award", None, 5000, "-"),
    ("Lifetime Pearl", None, 0, "P"),
]


def iso(day):
    return day.isoformat() if day else None


def day_between(rng, first, last):
    return first + timedelta(days=rng.randrange((last - first).days + 1))


def make_people(rng):
    "Directors, writers and jurors; two of them are called Ana Pereira."
    out, used = [], ["Ana Pereira"]

    def add(name, country):
        born = None if rng.random() < 0.14 else min(1999, max(1938, int(rng.gauss(1977, 12))))
        out.append((len(out) + 1, name, country, born))

    names, weights = list(COUNTRIES), [c[0] for c in COUNTRIES.values()]
    while len(out) < 166:
        country = rng.choices(names, weights)[0]
        _, women, men, family = COUNTRIES[country]
        name = f"{rng.choice((women if rng.random() < 0.48 else men).split())} {rng.choice(family.split())}"
        if name not in used:
            used.append(name)
            add(name.replace("_", " "), country)
        if len(out) in (40, 90):
            add("Ana Pereira", "Brazil" if len(out) == 40 else "Portugal")
    return out


def length(rng, strand):
    if strand == "S1":
        return rng.randrange(4, 29)
    low, high = {"K1": (62, 95), "R1": (78, 160), "N1": (78, 112)}.get(strand, (74, 178))
    return max(low, min(high, int(rng.gauss((low + high) / 2 - 12, 20))))


def make_entries(rng, people):
    "All films sent in: about two in five were taken, and those have a strand."
    titles, out = TITLES.split("|"), []
    rng.shuffle(titles)
    titles += ["Salt", "Homesick", "Undertow"]  # three titles that came in twice
    taken = (
        ["C1"] * 12 + ["C2"] * 9 + ["D1"] * 9 + ["K1"] * 4 + ["N1"] * 6 + ["R1"] * 5 + ["S1"] * 14
    )
    rest = len(titles) - len(taken)
    others = [("REJ", None), ("WDN", None), ("WAIT", None)]
    plan = [("SEL", s) for s in taken] + rng.choices(others, [80, 14, 6], k=rest)
    rng.shuffle(plan)
    makers = people[:128]
    for title, (status, strand) in zip(titles, plan):
        original, country = ORIGINAL.get(title, (None, None))
        director = rng.choice([p for p in makers if p[2] == country] if country else makers)
        kind = strand or rng.choices(["C1", "S1"], [70, 30])[0]
        writer = None
        if strand != "D1" and rng.random() < 0.88:
            same = [p for p in makers if p[2] == director[2]]
            writer = director[0] if rng.random() < 0.42 else rng.choice(same)[0]
        country = country or (director[2] if rng.random() < 0.9 else rng.choice(list(COUNTRIES)))
        received = day_between(rng, date(2024, 1, 8), date(2024, 5, 31))
        if rng.random() < 0.35:
            received = day_between(rng, date(2024, 5, 20), date(2024, 5, 31))
        fee = (
            0
            if strand == "R1"
            else 25
            if kind == "S1"
            else 40
            if received < date(2024, 3, 1)
            else 60
        )
        fee = 0 if rng.random() < 0.12 else None if status == "WDN" and rng.random() < 0.7 else fee
        out.append(
            (
                len(out) + 1,
                title,
                original,
                country,
                length(rng, kind),
                director[0],
                writer,
                iso(received),
                fee,
                status,
                strand,
            )
        )
    return out


def make_screenings(rng, entries):
    "One to four showings for every selected feature (two of them lost theirs); shorts open for features."
    chosen = [e for e in entries if e[9] == "SEL" and e[10] != "S1"]
    shorts = [e for e in entries if e[10] == "S1"][1:]
    lost = [e for e in chosen if e[10] in ("D1", "C2")][4:6]
    busy, out = [], []
    for e in chosen:
        if e in lost:
            continue
        for _ in range(
            rng.choices([1, 2, 3, 4], [10, 35, 40, 15] if e[10] == "C1" else [30, 45, 20, 5])[0]
        ):
            starts = {"N1": ["23:15"], "K1": ["10:30", "14:00"]}.get(
                e[10], ["14:00", "17:15", "20:30", "20:30"]
            )
            while True:
                place = (rng.choice(HOME[e[10]]), rng.randrange(DAYS), rng.choice(starts))
                if place not in busy and ("film", e[0], *place[1:]) not in busy:
                    break
            busy += [place, ("film", e[0], *place[1:])]  # hall and film are both taken at that hour
            opener = (
                rng.choice(shorts)[0]
                if e[10] in ("C1", "C2", "D1") and rng.random() < 0.45
                else None
            )
            venue, n, start = place
            talk = int(rng.random() < {"C1": 0.7, "C2": 0.65, "D1": 0.65}.get(e[10], 0.25))
            out.append((n, start, venue, e[0], opener, talk))
    out.sort()
    return [
        (i, e, o, v, iso(FIRST_DAY + timedelta(days=n)), s, t)
        for i, (n, s, v, e, o, t) in enumerate(out, 1)
    ]


def make_sales(rng, screenings, entries):
    "Ticket sales, 0 to sold out; prices in cents, press and guests free."
    hype = {e[0]: rng.choice([0.25, 0.4, 0.5, 0.65, 0.8, 1.0]) for e in entries}
    out = []
    for number, entry, _, venue, day, start, talk in screenings:
        seats, day = VENUES[venue - 1][3], date.fromisoformat(day)
        pull = (
            hype[entry] * (0.75 + 0.3 * rng.random() + 0.15 * talk) * (0.75 if start < "17" else 1)
        )
        goal = int(seats * min(1, pull))
        sold = 0
        while sold < goal:
            kind = rng.choices(["F", "C", "G", "P"], [62, 26, 5, 7])[0]
            n = 1 if kind == "P" else rng.choices([1, 2, 3, 4, 6, 8], [16, 50, 10, 16, 6, 2])[0]
            n = min(n, goal - sold)
            price = {"F": 1150, "C": 800}.get(kind, 0)
            price -= 300 if price and start < "17" else 0
            ahead = min(20, int(rng.expovariate(0.25)))
            bought = max(date(2024, 8, 19), day - timedelta(days=ahead))
            back = day_between(rng, bought, day) if price and rng.random() < 0.035 else None
            sold += 0 if back else n
            out.append((bought, number, kind, n, price, back))
    out.sort(key=lambda s: (s[0], s[1]))
    return [(i, n, iso(b), k, c, p, iso(r)) for i, (b, n, k, c, p, r) in enumerate(out, 1)]


def make_juries(rng, people, entries):
    "Three to five jurors a strand; nobody judges a strand with a film of their own; three people sit on two juries."
    out, pool = [], people[100:]
    rng.shuffle(pool)
    for strand, size in (("C1", 5), ("C2", 4), ("D1", 4), ("K1", 3), ("N1", 3), ("S1", 4)):
        own = [p for e in entries if e[10] == strand for p in (e[5], e[6])]
        free = [p for p in pool if p[0] not in own][:size]
        if strand in ("D1", "K1", "S1"):
            seats = [j[1] for j in out]
            again = rng.choice([n for n in seats if n not in own and seats.count(n) == 1])
            free = free[:-1] + [people[again - 1]]
        pool = [p for p in pool if p not in free]  # so the only repeats are the ones made above
        for i, p in enumerate(free):
            fee = (
                None if rng.random() < 0.3 else 900 if i == 0 else rng.choice([400, 500, 500, 600])
            )
            out.append((strand, p[0], "chair" if i == 0 else "member", fee))
    return out


def make_awards(rng, entries, screenings, people):
    shown = [s[1] for s in screenings] + [s[2] for s in screenings]
    out, stars, given = [], [], []
    for name, strand, purse, goes in AWARDS:
        film = person = None
        if goes in "FDW":
            able = [
                e
                for e in entries
                if e[10]
                and e[0] in shown
                and (strand is None or e[10] == strand)
                and e[0] not in stars
                and (name, e[0]) not in given
                and (goes != "W" or e[6])
            ]
            film = rng.choice(able)
            given.append((name, film[0]))
            if rng.random() < 0.75:  # a few films win twice
                stars.append(film[0])
            person = {"D": film[5], "W": film[6]}.get(goes)
        if goes == "P":
            person = min((p for p in people if p[3]), key=lambda p: p[3])[0]
        out.append((len(out) + 1, name, strand, purse, film and film[0], person))
    return out


def rows(rng):
    "Rows of every table: {table: [tuples in column order]}; `rng` is a random.Random."
    people = make_people(rng)
    entries = make_entries(rng, people)
    screenings = make_screenings(rng, entries)
    sales = make_sales(rng, screenings, entries)
    juries = make_juries(rng, people, entries)
    awards = make_awards(rng, entries, screenings, people)
    return {
        "strand": STRANDS,
        "person": people,
        "entry": entries,
        "venue": VENUES,
        "screening": screenings,
        "ticket_sale": sales,
        "jury_seat": juries,
        "award": awards,
    }


QUESTIONS = [
    (
        "A visitor in a wheelchair is asking: which of our halls can't be reached without steps? Names, please.",
        "SELECT name FROM venue WHERE step_free = 'N'",
    ),
    (
        "How many of the films sent to us were turned down?",
        "SELECT COUNT(*) FROM entry WHERE status = 'REJ'",
    ),
    (
        "For how many films did we waive the submission fee (charged nothing, as opposed to no fee on record)?",
        "SELECT COUNT(*) FROM entry WHERE fee = 0",
    ),
    (
        "Who is the sponsor of Rediscovered?",
        "SELECT sponsor FROM strand WHERE title = 'Rediscovered'",
    ),
    (
        "What is the running time of The Last Projectionist, in minutes?",
        "SELECT minutes FROM entry WHERE title = 'The Last Projectionist'",
    ),
    (
        "How many people in our files have no year of birth recorded?",
        "SELECT COUNT(*) FROM person WHERE born IS NULL",
    ),
    (
        "How many seats in all have been given out on press tickets?",
        "SELECT SUM(seats) FROM ticket_sale WHERE type = 'P'",
    ),
    (
        "What is Slow Dogs called in its own country?",
        "SELECT original_title FROM entry WHERE title = 'Slow Dogs'",
    ),
    ("On which date did we sell the very first tickets?", "SELECT MIN(sold_on) FROM ticket_sale"),
    (
        "How many of our screenings went ahead with no other film before the main one?",
        "SELECT COUNT(*) FROM screening WHERE opener_id IS NULL",
    ),
    (
        "How many screenings were followed by a talk with the audience?",
        "SELECT COUNT(*) FROM screening WHERE q_and_a = 1",
    ),
    (
        "For the brochure: how many selected films does each strand have? Give the strand's title and the number, and "
        "skip empty strands.",
        "SELECT s.title, COUNT(*) FROM strand AS s JOIN entry AS e ON e.strand_code = s.code GROUP BY s.title",
    ),
    (
        "Of everything sent in, selected or not, which film is the longest? I need its English title.",
        "SELECT title FROM entry ORDER BY minutes DESC LIMIT 1",
    ),
    (
        "Who chaired the jury of the Main Competition?",
        "SELECT p.full_name FROM jury_seat AS j JOIN person AS p ON p.person_id = j.person_id "
        "JOIN strand AS s ON s.code = j.strand_code WHERE s.title = 'Main Competition' AND j.role = 'chair'",
    ),
    (
        "Who directed The Ninth Floor?",
        "SELECT p.full_name FROM entry AS e JOIN person AS p ON p.person_id = e.director_id "
        "WHERE e.title = 'The Ninth Floor'",
    ),
    (
        "Somebody keeps asking about Iron Lullaby: what is the title of the strand it is in?",
        "SELECT s.title FROM entry AS e JOIN strand AS s ON s.code = e.strand_code WHERE e.title = 'Iron Lullaby'",
    ),
    (
        "How much did concession tickets bring in, in euros, leaving out the ones we refunded?",
        "SELECT SUM(seats * rate) / 100.0 FROM ticket_sale WHERE type = 'C' AND refunded_on IS NULL",
    ),
    (
        "How many seats went out on each kind of ticket, refunded sales aside? Give the ticket code and the number of "
        "seats.",
        "SELECT type, SUM(seats) FROM ticket_sale WHERE refunded_on IS NULL GROUP BY type",
    ),
    (
        "Chairs aside, what is the average fee per jury seat, ignoring seats with no fee "
        "recorded? Two decimals, please.",
        "SELECT ROUND(AVG(fee), 2) FROM jury_seat WHERE role = 'member' AND fee IS NOT NULL",
    ),
    (
        "How many different films were shown as the main film at the Odeon?",
        "SELECT COUNT(DISTINCT s.entry_id) FROM screening AS s JOIN venue AS v ON v.venue_id = s.venue_id "
        "WHERE v.name = 'The Odeon'",
    ),
    (
        "What are the names of our awards that were not given to anybody or anything this year?",
        "SELECT name FROM award WHERE entry_id IS NULL AND person_id IS NULL",
    ),
    (
        "Looking at everything sent in, who directed a film from their own script? Each name once, please.",
        "SELECT DISTINCT p.full_name FROM entry AS e JOIN person AS p ON p.person_id = e.director_id "
        "WHERE e.writer_id = e.director_id",
    ),
    (
        "How many films reached us in the last ten days before the deadline, from 22 to 31 May 2024?",
        "SELECT COUNT(*) FROM entry WHERE received BETWEEN '2024-05-22' AND '2024-05-31'",
    ),
    (
        "What percentage of the films sent in did we select? One decimal, please.",
        "SELECT ROUND(100.0 * SUM(CASE WHEN status = 'SEL' THEN 1 ELSE 0 END) / COUNT(*), 1) FROM entry",
    ),
    (
        "This is embarrassing: what are the titles of the selected films that were never shown, "
        "neither as the main film "
        "nor before another?",
        "SELECT title FROM entry WHERE status = 'SEL' AND entry_id NOT IN (SELECT entry_id FROM screening) "
        "AND entry_id NOT IN (SELECT opener_id FROM screening WHERE opener_id IS NOT NULL)",
    ),
    (
        "Which of this year's jurors, in any jury, also have a selected film that they directed? "
        "Each name once, please.",
        "SELECT full_name FROM person WHERE person_id IN (SELECT person_id FROM jury_seat) "
        "AND person_id IN (SELECT director_id FROM entry WHERE status = 'SEL')",
    ),
    (
        "Which screenings were full, counting free tickets but not refunded ones? Give the main "
        "film's title and the day.",
        "SELECT e.title, s.day FROM screening AS s JOIN entry AS e ON e.entry_id = s.entry_id "
        "JOIN venue AS v ON v.venue_id = s.venue_id JOIN ticket_sale AS t ON t.screening_id = s.screening_id "
        "WHERE t.refunded_on IS NULL GROUP BY s.screening_id, e.title, s.day, v.seats HAVING SUM(t.seats) >= v.seats",
    ),
    (
        "How many submissions reached us in each month of 2024? Give the month like 2024-03 and "
        "the number of films, in "
        "date order.",
        "SELECT strftime('%Y-%m', received) AS month, COUNT(*) FROM entry GROUP BY month ORDER BY month",
    ),
    (
        "How many screenings had fewer than half the hall's seats taken, free tickets counted but not refunded ones?",
        "SELECT COUNT(*) FROM screening AS s JOIN venue AS v ON v.venue_id = s.venue_id "
        "WHERE (SELECT SUM(t.seats) FROM ticket_sale AS t "
        "WHERE t.screening_id = s.screening_id AND t.refunded_on IS NULL) < v.seats / 2.0",
    ),
    (
        "Which directors sent us three films or more, and how many? Give me name and number.",
        "SELECT p.full_name, COUNT(*) FROM entry AS e JOIN person AS p ON p.person_id = e.director_id "
        "GROUP BY p.person_id, p.full_name HAVING COUNT(*) >= 3",
    ),
    (
        "Which country's films took home the most prize money, over all the awards that name a film?",
        "SELECT e.country FROM award AS a JOIN entry AS e ON e.entry_id = a.entry_id "
        "GROUP BY e.country ORDER BY SUM(a.purse) DESC LIMIT 1",
    ),
    (
        "Which films had an audience talk after at least one screening where they were the main film? Give each title "
        "once, even if two films share it.",
        "SELECT DISTINCT e.title FROM screening AS s JOIN entry AS e ON e.entry_id = s.entry_id WHERE s.q_and_a = 1",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="On 15 September at 20:30 the Odeon and Fisherman's Hall swap their films. Change the venues.",
        gold=[
            "UPDATE screening SET venue_id = CASE venue_id WHEN 2 THEN 3 ELSE 2 END "
            "WHERE day = '2024-09-15' AND starts = '20:30' AND venue_id IN (2, 3)"
        ],
        writes="screening",
        wrong=[
            [
                "UPDATE screening SET venue_id = 3 WHERE day = '2024-09-15' AND starts = '20:30' AND venue_id = 2",
                "UPDATE screening SET venue_id = 2 WHERE day = '2024-09-15' AND starts = '20:30' AND venue_id = 3",
            ]
        ],
    ),
    dict(
        ask="The screening of 14 September, 14:00, in the Grand Lido broke off. All its tickets are refunded on "
        "16 September 2024; those refunded earlier keep their day.",
        gold=[
            "UPDATE ticket_sale SET refunded_on = '2024-09-16' WHERE refunded_on IS NULL AND screening_id = "
            "(SELECT screening_id FROM screening WHERE day = '2024-09-14' AND starts = '14:00' "
            "AND venue_id = (SELECT venue_id FROM venue WHERE name = 'Grand Lido'))"
        ],
        writes="ticket_sale",
        wrong=[["UPDATE ticket_sale SET refunded_on = '2024-09-16' WHERE screening_id = 88"]],
    ),
    dict(
        ask="Entries that were withdrawn get their fee back: where one is noted, it becomes 0.",
        gold=["UPDATE entry SET fee = 0 WHERE status = 'WDN' AND fee IS NOT NULL"],
        writes="entry",
        rule=True,
        wrong=[
            ["UPDATE entry SET fee = 0 WHERE status = 'WDN'"],
            ["UPDATE entry SET fee = NULL WHERE status = 'WDN'"],
        ],
    ),
    dict(
        ask="Homesick, the Norwegian film, leaves its strand for Open Air.",
        gold=[
            "UPDATE entry SET strand_code = (SELECT code FROM strand WHERE title = 'Open Air') "
            "WHERE title = 'Homesick' AND country = 'Norway'"
        ],
        writes="entry",
        wrong=[["UPDATE entry SET strand_code = 'X1' WHERE title = 'Homesick'"]],
    ),
]
