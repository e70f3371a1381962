"""The practice records of Kestermill Veterinary Surgery, a (fictional) small-town clinic for pets, horses and goats."""

from datetime import date, timedelta

SPLIT = "train"

SCHEMA = """
CREATE TABLE code_list (code TEXT PRIMARY KEY, used_for TEXT NOT NULL, meaning TEXT NOT NULL);
CREATE TABLE owner (
  owner_id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL, phone TEXT,
  newsletter TEXT NOT NULL, registered TEXT NOT NULL, referred_by INTEGER REFERENCES owner(owner_id));
CREATE TABLE animal (
  animal_id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL REFERENCES code_list(code), breed TEXT,
  sex TEXT NOT NULL REFERENCES code_list(code), born TEXT, died TEXT, dam_id INTEGER REFERENCES animal(animal_id));
CREATE TABLE keeper (
  animal_id INTEGER NOT NULL REFERENCES animal(animal_id), owner_id INTEGER NOT NULL REFERENCES owner(owner_id),
  main INTEGER NOT NULL, PRIMARY KEY (animal_id, owner_id));
CREATE TABLE staff (
  staff_id INTEGER PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL REFERENCES code_list(code),
  hired TEXT NOT NULL, left_on TEXT);
CREATE TABLE visit (
  visit_id INTEGER PRIMARY KEY, animal_id INTEGER NOT NULL REFERENCES animal(animal_id),
  vet_id INTEGER NOT NULL REFERENCES staff(staff_id), nurse_id INTEGER REFERENCES staff(staff_id),
  visited_on TEXT NOT NULL, reason TEXT NOT NULL REFERENCES code_list(code), complaint TEXT,
  weight_kg REAL, fee_eur INTEGER NOT NULL, paid_on TEXT);
CREATE TABLE formulary (
  drug_id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, unit TEXT NOT NULL,
  rate INTEGER NOT NULL, rx TEXT NOT NULL);
CREATE TABLE line_item (
  line_id INTEGER PRIMARY KEY, visit_id INTEGER NOT NULL REFERENCES visit(visit_id),
  drug_id INTEGER NOT NULL REFERENCES formulary(drug_id), units INTEGER NOT NULL, price_cents INTEGER NOT NULL);
"""

CODES = [
    ("CN", "animal.type", "dog"),
    ("FL", "animal.type", "cat"),
    ("LG", "animal.type", "rabbit"),
    ("EQ", "animal.type", "horse"),
    ("CP", "animal.type", "goat"),
    ("PS", "animal.type", "parrot"),
    ("TS", "animal.type", "tortoise"),
    ("CV", "animal.type", "guinea pig"),
    ("F", "animal.sex", "female"),
    ("FN", "animal.sex", "female, neutered"),
    ("M", "animal.sex", "male"),
    ("MN", "animal.sex", "male, neutered"),
    ("R1", "visit.reason", "check-up"),
    ("R2", "visit.reason", "vaccination"),
    ("R3", "visit.reason", "emergency"),
    ("R4", "visit.reason", "surgery"),
    ("R5", "visit.reason", "follow-up"),
    ("R6", "visit.reason", "dental"),
    ("VS", "staff.role", "veterinary surgeon"),
    ("LV", "staff.role", "locum veterinary surgeon"),
    ("RN", "staff.role", "nurse"),
    ("FD", "staff.role", "front desk"),
    ("ST", "staff.role", "student"),
]
# type: (share, breeds with a usual weight in kg, years an animal may live, chance of being weighed)
TYPES = {
    "CN": (
        40,
        {
            "Labrador": 30,
            "Border Collie": 19,
            "Beagle": 12,
            "Dachshund": 8,
            "German Shepherd": 34,
            "Jack Russell": 7,
            "Greyhound": 29,
            "Galgo": 26,
            "Shih Tzu": 6,
            "St. Bernard": 68,
            "Shiba Inu": 10,
            "crossbreed": 17,
        },
        14,
        0.85,
    ),
    "FL": (
        34,
        {
            "domestic shorthair": 4.4,
            "domestic longhair": 4.8,
            "Siamese": 3.9,
            "Maine Coon": 7.2,
            "British Shorthair": 5.3,
            "Norwegian Forest": 6.1,
        },
        17,
        0.8,
    ),
    "LG": (8, {"Dutch": 2.2, "Lionhead": 1.6, "Flemish Giant": 6.4}, 9, 0.7),
    "EQ": (6, {"Haflinger": 460, "Connemara": 385, "Trakehner": 560, "Percheron": 830}, 25, 0.35),
    "CP": (4, {"Saanen": 66, "Boer": 84, "Pygmy": 29}, 14, 0.4),
    "PS": (3, {"African grey": 0.43, "cockatiel": 0.09}, 30, 0.6),
    "TS": (2, {"Hermann's": 3.1, "spur-thighed": 3.9}, 60, 0.6),
    "CV": (4, {"Abyssinian": 0.95, "Peruvian": 1.02}, 7, 0.8),
}
FIRST = """Amara Bjorn Celeste Dmitri Elif Farid Greta Hiroshi Ines Jamal Keira Lars Mei Nadia Oscar Priya Quentin Rosa
Samir Tove Ursula Viktor Wanjiru Xavier Yara Zoltan Aoife Bruno Chidi Dalia Emeka Fiona Giulia Henrik Ilse Joaquin
Kofi Leilani Marek Noor Olga Pedro""".split()
LAST = """Abara Bergstrom Costa D'Angelo Eriksen Fontaine Gupta Hallam Ivanova Jansen Kowalski Lindqvist Moreau Nakamura
O'Malley Pereira Quiroga Rossi Santos Tanaka Usman Vargas Whitlock Yilmaz Zeller O'Dowd Mbeki Novak Petrov Singh
Castellanos Hargreaves Dlamini Okafor Brandt Farouk""".split()
TOWNS = {
    "Kestermill": 44,
    "Oxley Bridge": 21,
    "St Orrin's": 14,
    "Little Tarn": 9,
    "Upper Fennick": 7,
    "Lower Fennick": 7,
    "Mossgate": 4,
}
PET = {
    "F": "Luna Bella Coco Daisy Nala Molly Lola Ruby Rosie Poppy Ginger".split(),
    "M": "Max Charlie Milo Rocky Simba Oscar Leo Toby Felix Buddy Shadow Smokey Tiger".split(),
}
RARE = """Professor Whiskers|Sir Barksalot|Queen Mab|Mrs. O'Leary|Captain Hook|Paprika|Quixote|Wasabi|Zephyr|Banshee
Tchaikovsky|Marzipan|Gandalf|Umbra|Pickles|Bramble|Juno|Sputnik|Halloumi|Nutmeg|Odin|Persephone|Rumpus|Saffron|Tofu
Velcro|Widget|Yoda|Bandit|Caramel|Dumpling|Espresso|Figaro|Gizmo|Hopscotch|Inky|Jinx|Kiwi|Lentil|Maple|Noodle|Olive
Pancake|Quill|Ravioli|Sesame|Truffle|Ursa|Vesper|Waffle|Xena|Yam|Ziggy|Atlas|Biscuit|Clementine|Domino|Echo|Fable
Gouda|Hazel|Iris|Jasper|Koala|Latte|Mango|Nimbus|Onyx|Pesto|Radish|Scout|Thistle|Tango|Uno|Violet|Willow|Yuki|Zorro
Aslan|Boots|Cosmo|Dante|Elvis|Freya|Gumbo|Hugo|Indigo|Jupiter|Kobold|Loki""".replace(
    "\n", "|"
).split("|")
FITS = {  # names that want a certain kind of animal or a certain sex
    "Sir Barksalot": "CN M",
    "Professor Whiskers": "FL M",
    "Captain Hook": "PS M",
    "Mrs. O'Leary": "CN F",
    "Queen Mab": "F",
    "Gandalf": "M",
    "Odin": "M",
    "Zorro": "M",
    "Elvis": "M",
    "Hugo": "M",
    "Dante": "M",
    "Loki": "M",
    "Jasper": "M",
    "Figaro": "M",
    "Tchaikovsky": "M",
    "Persephone": "F",
    "Juno": "F",
    "Freya": "F",
    "Xena": "F",
    "Olive": "F",
    "Hazel": "F",
    "Iris": "F",
    "Violet": "F",
    "Clementine": "F",
    "Saffron": "F",
}
STAFF = [
    ("Ingrid Halvorsen", "VS", "2009-03-02", None),
    ("Tomasz Wilk", "VS", "2015-09-14", None),
    ("Adaeze Obi", "VS", "2019-01-07", None),
    ("Rui Carvalho", "VS", "2012-05-21", "2022-08-31"),
    ("Sunita Rao", "VS", "2022-09-05", None),
    ("Callum Reid", "LV", "2021-06-01", "2021-09-30"),
    ("Yasmin Haddad", "LV", "2023-07-03", "2023-10-27"),
    ("Bridget O'Shea", "RN", "2010-11-15", None),
    ("Kenji Mori", "RN", "2018-04-09", None),
    ("Paula Ferrer", "RN", "2016-02-01", "2023-03-31"),
    ("Lucy Tran", "RN", "2023-04-03", None),
    ("Mateusz Baran", "RN", "2023-11-06", None),
    ("Hannah Whitlock", "FD", "2011-08-22", None),
    ("Gareth Pugh", "FD", "2017-10-02", "2023-10-31"),
    ("Soraya Amiri", "FD", "2023-11-06", None),
]
DRUGS = [
    ("Carprofen", "painkiller", "tablet", 85, "Y"),
    ("Meloxidyl", "painkiller", "ml", 140, "Y"),
    ("Buprenex", "painkiller", "ml", 690, "Y"),
    ("Gabapentin", "painkiller", "tablet", 60, "Y"),
    ("Phenylbutazone", "painkiller", "sachet", 175, "Y"),
    ("Amoxiclav", "antibiotic", "tablet", 95, "Y"),
    ("Doxiver", "antibiotic", "tablet", 110, "Y"),
    ("Enrosol", "antibiotic", "ml", 320, "Y"),
    ("Cephalex", "antibiotic", "tablet", 125, "Y"),
    ("Metrovet", "antibiotic", "tablet", 70, "Y"),
    ("Chloram eye drops", "antibiotic", "bottle", 1180, "Y"),
    ("Milbetab", "wormer", "tablet", 890, "N"),
    ("Panacur paste", "wormer", "syringe", 1250, "N"),
    ("Equimax gel", "wormer", "syringe", 2150, "N"),
    ("Pyrantel syrup", "wormer", "ml", 45, "N"),
    ("FleaStop", "flea and tick", "pipette", 975, "N"),
    ("TickAway", "flea and tick", "collar", 2890, "N"),
    ("Bravexa", "flea and tick", "tablet", 2640, "Y"),
    ("Rabivax", "vaccine", "dose", 2400, "Y"),
    ("Canivax 5", "vaccine", "dose", 3150, "Y"),
    ("Felovax 3", "vaccine", "dose", 2950, "Y"),
    ("Myxo-RHD", "vaccine", "dose", 2700, "Y"),
    ("Equiflu-T", "vaccine", "dose", 3800, "Y"),
    ("Clostri-7", "vaccine", "dose", 520, "Y"),
    ("Isoflurane", "anaesthetic", "ml", 210, "Y"),
    ("Propofol", "anaesthetic", "ml", 380, "Y"),
    ("Ketavet", "anaesthetic", "ml", 450, "Y"),
    ("Probiotic paste", "supplement", "syringe", 1490, "N"),
    ("Joint-Ease chews", "supplement", "chew", 55, "N"),
    ("Critical care feed", "supplement", "sachet", 640, "N"),
    ("Ear cleanser", "care", "bottle", 1120, "N"),
    ("Calming spray", "care", "bottle", 1690, "N"),
    ("Hoof balm", "care", "tin", 1375, "N"),
    ("Insulin NPH", "hormone", "ml", 960, "Y"),
    ("Thyronorm", "hormone", "ml", 230, "Y"),
]
NEVER_USED = ["Calming spray", "Ketavet", "Pyrantel syrup", "TickAway"]
VACCINES = {
    "CN": ["Canivax 5", "Rabivax"],
    "FL": ["Felovax 3"],
    "LG": ["Myxo-RHD"],
    "EQ": ["Equiflu-T"],
    "CP": ["Clostri-7"],
}
COMPLAINTS = {
    "R1": [
        "weight loss",
        "Itching",
        "itching, both ears",
        "drinks a lot",
        "bad breath",
        "limping",
        None,
        None,
        None,
    ],
    "R3": [
        "vomiting",
        "Vomiting since last night",
        "ate chocolate",
        "hit by a car",
        "bite wound",
        "can't breathe well",
        "swallowed a sock",
        "limping, won't put weight on leg",
        "seizure",
        "colic",
    ],
    "R4": ["neutering", "lump removal", "cruciate ligament", "neutering", "abscess"],
    "R5": ["stitches out", "still limping", "blood sugar", "better, no more vomiting", None],
    "R6": ["tartar", "broken tooth", "loose tooth", "overgrown teeth"],
}
ONLY_FOR = {  # complaints and goods that make sense for some animals only
    "vomiting": "CN FL",
    "Vomiting since last night": "CN FL",
    "ate chocolate": "CN FL",
    "swallowed a sock": "CN FL",
    "hit by a car": "CN FL",
    "better, no more vomiting": "CN FL",
    "blood sugar": "CN FL",
    "cruciate ligament": "CN",
    "itching, both ears": "CN FL LG",
    "bad breath": "CN FL",
    "tartar": "CN FL",
    "colic": "EQ",
    "seizure": "CN FL LG",
    "overgrown teeth": "LG CV EQ CP",
    "limping, won't put weight on leg": "CN FL EQ CP",
    "FleaStop": "CN FL",
    "Bravexa": "CN",
    "Insulin NPH": "CN FL",
    "Thyronorm": "CN FL",
    "Ear cleanser": "CN FL LG",
    "Milbetab": "CN FL",
    "Panacur paste": "CN FL LG EQ CP",
    "Joint-Ease chews": "CN FL",
    "Phenylbutazone": "EQ",
    "Equimax gel": "EQ",
    "Hoof balm": "EQ CP",
}
FEES = {
    "R1": [42, 42, 42, 48, 55],
    "R2": [35],
    "R3": [95, 110, 125, 140, 165, 190, 240],
    "R4": [150, 180, 210, 260, 320, 390, 480, 620, 760],
    "R5": [20, 28, 28],
    "R6": [85, 120, 160, 215],
}
DAY0, LAST_DAY = date(2021, 1, 4), date(2024, 6, 28)


def between(rng, first, last):
    return first + timedelta(days=rng.randrange((last - first).days + 1))


def working_day(day):
    "The clinic is closed on Sundays except for emergencies."
    return day - timedelta(days=1) if day.weekday() == 6 else day


def make_owners(rng):
    names = [f"{rng.choice(FIRST)} {rng.choice(LAST)}" for _ in range(118)]
    names = list(dict.fromkeys(names))
    names[40:40] = ["Maria Santos"]
    names[77:77] = ["Maria Santos"]
    days = sorted(between(rng, date(2010, 1, 4), date(2024, 3, 29)) for _ in names)
    towns, owners = list(TOWNS), []
    for i, (name, day) in enumerate(zip(names, days), 1):
        town = rng.choices(towns, list(TOWNS.values()))[0]
        phone = None if rng.random() < 0.08 else f"555-{rng.randrange(1000, 10000)}"
        friend = rng.randrange(1, i) if i > 6 and rng.random() < 0.3 else None
        if friend and rng.random() < 0.35:
            friend = 5
        owners.append(
            (
                i,
                name,
                town,
                phone,
                "Y" if rng.random() < 0.55 else "N",
                str(working_day(day)),
                friend,
            )
        )
    return owners


def find_dam(rng, animals, kind, breed, born):
    "A possible mother among the animals already on file: same breed, adult, not too old, not neutered."
    for a in animals:
        if a[2] == kind and a[3] == breed and a[4] == "F" and a[5] and rng.random() < 0.7:
            years = (born - date.fromisoformat(a[5])).days / 365
            if 1.5 < years < 8:
                return a[0]
    return None


def pick_name(rng, rare, kind, sex):
    "A common name of that sex, or the next unusual one that fits; every unusual name is used once."
    for name in rare if rng.random() < 0.5 else ():
        if set(FITS.get(name, "").split()) <= {kind, sex}:
            rare.remove(name)
            return name
    return rng.choice(PET[sex])


def make_animals(rng):
    animals, kinds, rare = [], list(TYPES), RARE[:]
    rng.shuffle(rare)
    for i in range(1, 201):
        kind = rng.choices(kinds, [TYPES[k][0] for k in kinds])[0]
        breeds, years = list(TYPES[kind][1]), TYPES[kind][2]
        top = date(2023, 10, 31)
        born = between(rng, date(2021 - min(years, 24) + 2, 1, 1), top)
        if rng.random() < 0.4:
            born = between(rng, date(2019, 1, 1), top)
        breed = rng.choices(
            breeds, [9, 7, 6, 5] + [3] * (len(breeds) - 4) if len(breeds) > 3 else None
        )[0]
        if kind in ("CN", "FL") and rng.random() < 0.07:
            breed = None
        sex = rng.choice("FM") + ("N" if kind in ("CN", "FL", "LG") and rng.random() < 0.6 else "")
        dam = find_dam(rng, animals, kind, breed, born) if breed else None
        unknown = dam is None and rng.random() < 0.1
        name = pick_name(rng, rare, kind, sex[0])
        died = None
        if rng.random() < 0.3 and born < date(2016, 1, 1):
            died = str(between(rng, date(2021, 6, 1), LAST_DAY))
        animals.append((i, name, kind, breed, sex, None if unknown else str(born), died, dam))
    return animals


def make_keepers(rng, animals, owners):
    weights = [0 if o[0] % 13 == 4 else rng.choice([2, 2, 3, 3, 4, 9]) for o in owners]
    keepers, by_id, waiting = [], {}, [o[0] for o, w in zip(owners, weights) if w]
    rng.shuffle(waiting)
    for a in animals:
        home = by_id[a[7]] if a[7] and rng.random() < 0.6 else rng.choices(owners, weights)[0][0]
        if home not in waiting and waiting and rng.random() < 0.45 and not a[7]:
            home = waiting[-1]
        if home in waiting:
            waiting.remove(home)
        by_id[a[0]] = home
        keepers.append((a[0], home, 1))
        if rng.random() < 0.2:
            other = rng.choices(owners, weights)[0][0]
            if other != home:
                keepers.append((a[0], other, 0))
    return keepers


def on_duty(roles, day):
    day = str(day)
    return [
        i
        for i, (_, role, hired, left) in enumerate(STAFF, 1)
        if role in roles and hired <= day and (left is None or day <= left)
    ]


def make_visits(rng, animals, keepers, owners):
    since = {k[0]: owners[k[1] - 1][5] for k in keepers if k[2]}
    raw = []
    for a in animals:
        first = max(
            DAY0, date.fromisoformat(max(a[5] or "2000-01-01", since[a[0]])) + timedelta(days=50)
        )
        last = date.fromisoformat(a[6]) if a[6] else LAST_DAY
        if first >= last or a[0] % 17 == 5:
            continue
        for _ in range(
            rng.choices([1, 2, 3, 4, 5, 6, 8, 11, 16], [10, 14, 14, 12, 10, 8, 6, 4, 2])[0]
        ):
            reason = rng.choices(["R1", "R2", "R3", "R4", "R5", "R6"], [30, 27, 14, 9, 14, 6])[0]
            if reason == "R2" and a[2] not in VACCINES:
                reason = "R1"
            day = between(rng, first, last)
            raw.append((str(day if reason == "R3" else max(first, working_day(day))), a, reason))
    raw.sort(key=lambda v: (v[0], v[1][0]))
    base = {
        a[0]: TYPES[a[2]][1].get(a[3], 12 if a[2] == "CN" else 4.5) * rng.uniform(0.8, 1.25)
        for a in animals
    }
    return [make_visit(rng, i, *v, base) for i, v in enumerate(raw, 1)]


def suits(what, kind):
    return kind in ONLY_FOR.get(what, kind)


def growth(animal, day):
    "Young animals weigh less: the share of the adult weight reached on that day."
    if animal[5] is None or animal[2] == "TS":
        return 1
    return min(1, 0.3 + 0.7 * (date.fromisoformat(day) - date.fromisoformat(animal[5])).days / 365)


def make_visit(rng, i, day, animal, reason, base):
    vets, nurses = on_duty(("VS", "LV"), day), on_duty(("RN",), day)
    vet = rng.choices(vets, [5, 4, 3, 2, 2, 2, 2][: len(vets)])[0]
    alone = {"R4": 0, "R6": 0.1, "R3": 0.3, "R1": 0.55, "R2": 0.45, "R5": 0.6}[reason]
    nurse = None if rng.random() < alone else rng.choice(nurses)
    weight = None
    if rng.random() < TYPES[animal[2]][3]:
        weight = base[animal[0]] * growth(animal, day) * rng.uniform(0.95, 1.06)
        weight = round(weight, 2 if weight < 10 else 1)
    paid, delay = day, rng.random()
    if delay > 0.72:
        paid = str(date.fromisoformat(day) + timedelta(days=rng.randrange(3, 61)))
    if delay > 0.95 or paid > str(LAST_DAY):
        paid = None
    pool = [c for c in COMPLAINTS.get(reason, [None]) if suits(c, animal[2])]
    if not animal[4].endswith("N"):
        pool = [c for c in pool if c != "neutering"]
    return (
        i,
        animal[0],
        vet,
        nurse,
        day,
        reason,
        rng.choice(pool),
        weight,
        rng.choice(FEES[reason]),
        paid,
    )


def drugs_for(rng, kind, reason):
    "Names of what is given at one visit; now and then the same thing is written down twice."
    if reason == "R2":
        return VACCINES[kind][: rng.choice([1, 1, 2])]
    kinds = {
        "R1": ["wormer", "flea and tick", "supplement", "care"],
        "R3": ["painkiller", "antibiotic", "supplement"],
        "R4": ["anaesthetic", "painkiller", "antibiotic"],
        "R5": ["painkiller", "antibiotic", "hormone"],
        "R6": ["anaesthetic", "painkiller"],
    }[reason]
    names = [d[0] for d in DRUGS if d[1] in kinds and suits(d[0], kind) and d[0] not in NEVER_USED]
    n = {
        "R1": rng.choice([0, 0, 1, 1, 2]),
        "R3": rng.choice([1, 2, 3]),
        "R4": rng.choice([2, 3, 4]),
        "R5": rng.choice([0, 0, 1]),
        "R6": rng.choice([1, 2]),
    }[reason]
    picked = rng.sample(names, min(n, len(names)))
    return picked + picked[:1] if rng.random() < 0.04 else picked


def make_lines(rng, visits, animals):
    ids = {d[0]: i for i, d in enumerate(DRUGS, 1)}
    lines = []
    for v in visits:
        for name in drugs_for(rng, animals[v[1] - 1][2], v[5]):
            drug = DRUGS[ids[name] - 1]
            units = {
                "tablet": rng.choice([5, 7, 10, 14, 20, 28]),
                "ml": rng.choice([1, 2, 3, 5, 10]),
                "chew": 30,
                "sachet": rng.choice([3, 6, 10]),
            }.get(drug[2], 1)
            if drug[3] > 2000 and drug[2] == "tablet":
                units = rng.choice([1, 3])
            full = units * drug[3]
            price = full * 8 // 10 if rng.random() < 0.12 else full
            lines.append((len(lines) + 1, v[0], ids[name], units, price))
    return lines


def rows(rng):
    owners, animals = make_owners(rng), make_animals(rng)
    keepers = make_keepers(rng, animals, owners)
    visits = make_visits(rng, animals, keepers, owners)
    return {
        "code_list": CODES,
        "owner": owners,
        "animal": animals,
        "keeper": keepers,
        "staff": [(i, *s) for i, s in enumerate(STAFF, 1)],
        "visit": visits,
        "formulary": [(i, *d) for i, d in enumerate(DRUGS, 1)],
        "line_item": make_lines(rng, visits, animals),
    }


QUESTIONS = [
    # one table
    (
        "What breed is Professor Whiskers?",
        "SELECT breed FROM animal WHERE name = 'Professor Whiskers'",
    ),
    (
        "How many of our visits, from whatever year, are still waiting to be paid?",
        "SELECT COUNT(*) FROM visit WHERE paid_on IS NULL",
    ),
    ("Of all the animals on our books, how many have died?", "SELECT COUNT(died) FROM animal"),
    (
        "What's the most we ever charged as the visit fee for an emergency, in euros?",
        "SELECT MAX(fee_eur) FROM visit WHERE reason = 'R3'",
    ),
    (
        "Which owners can't we ring because they never left a phone number? Names, please.",
        "SELECT name FROM owner WHERE phone IS NULL",
    ),
    (
        "Going only by vaccination visits where the animal was put on the scales, what is the average weight in "
        "kilos, to two decimals?",
        "SELECT ROUND(AVG(weight_kg), 2) FROM visit WHERE reason = 'R2'",
    ),
    (
        "A client wants to know: what does one Cephalex tablet cost according to our price list, in euros?",
        "SELECT rate / 100.0 FROM formulary WHERE name = 'Cephalex'",
    ),
    (
        "Which products from our pharmacy list may be sold without a prescription?",
        "SELECT name FROM formulary WHERE rx = 'N'",
    ),
    (
        "How many neutered males do we have on file, all species together and whether still alive or not?",
        "SELECT COUNT(*) FROM animal WHERE sex = 'MN'",
    ),
    (
        "On what date did the very first of our nurses start here, counting former ones too?",
        "SELECT MIN(hired) FROM staff WHERE role = 'RN'",
    ),
    (
        "What do all the reductions add up to in euros, that is, list price minus what we really charged, over "
        "everything ever dispensed?",
        "SELECT SUM(l.units * f.rate - l.price_cents) / 100.0 FROM line_item l JOIN formulary f "
        "ON f.drug_id = l.drug_id",
    ),
    # two tables, or two conditions
    (
        "How many animals of each species do we have on file, dead ones included? Give the species in plain words "
        "and the number.",
        "SELECT c.meaning, COUNT(*) FROM animal a JOIN code_list c ON c.code = a.type GROUP BY c.meaning",
    ),
    (
        "Who is the mother of Professor Whiskers?",
        "SELECT d.name FROM animal a JOIN animal d ON d.animal_id = a.dam_id WHERE a.name = 'Professor Whiskers'",
    ),
    (
        "Name the three items with the highest list price per unit, the dearest first.",
        "SELECT name FROM formulary ORDER BY rate DESC LIMIT 3",
    ),
    (
        "How many visits did Adaeze Obi handle as the vet in 2023?",
        "SELECT COUNT(*) FROM visit v JOIN staff s ON s.staff_id = v.vet_id "
        "WHERE s.name = 'Adaeze Obi' AND v.visited_on LIKE '2023-%'",
    ),
    (
        "At how many visits does the noted complaint mention vomiting, in whatever wording and with or without a "
        "capital letter?",
        "SELECT COUNT(*) FROM visit WHERE LOWER(complaint) LIKE '%vomiting%'",
    ),
    (
        "For each kind of visit, described in plain words, what is the average visit fee in euros, to two decimals?",
        "SELECT c.meaning, ROUND(AVG(v.fee_eur), 2) FROM visit v "
        "JOIN code_list c ON c.code = v.reason GROUP BY c.meaning",
    ),
    (
        "Which of our patients have ever weighed in at more than 450 kilos? Give me each name once.",
        "SELECT DISTINCT a.name FROM visit v JOIN animal a ON a.animal_id = v.animal_id WHERE v.weight_kg > 450",
    ),
    (
        "Olga Usman keeps recommending us: which owners came to us through her? Just the names, please.",
        "SELECT o.name FROM owner o JOIN owner r ON r.owner_id = o.referred_by WHERE r.name = 'Olga Usman'",
    ),
    (
        "When was Captain Hook last in for a visit?",
        "SELECT MAX(v.visited_on) FROM visit v JOIN animal a ON a.animal_id = v.animal_id WHERE "
        "a.name = 'Captain Hook'",
    ),
    (
        "Reminders go out today: for every unpaid visit I need the animal's name, the day of the "
        "visit and the visit fee.",
        "SELECT a.name, v.visited_on, v.fee_eur FROM visit v JOIN animal a ON a.animal_id = v.animal_id "
        "WHERE v.paid_on IS NULL",
    ),
    (
        "We're planning a fun run for grown-up dogs: what are the names and birth dates of all "
        "dogs born before 2021 that "
        "are still alive?",
        "SELECT name, born FROM animal WHERE type = 'CN' AND born < '2021-01-01' AND died IS NULL",
    ),
    # more
    (
        "Which things in our pharmacy have never once been dispensed?",
        "SELECT name FROM formulary WHERE drug_id NOT IN (SELECT drug_id FROM line_item)",
    ),
    (
        "In which month of 2023 did the fees of that month's visits, paid or not, add up to the most? Answer like "
        "2023-01.",
        "SELECT strftime('%Y-%m', visited_on) FROM visit WHERE visited_on LIKE '2023-%' "
        "GROUP BY strftime('%Y-%m', visited_on) ORDER BY SUM(fee_eur) DESC LIMIT 1",
    ),
    (
        "How many owners have both a dog and a cat with us, counting shared animals and animals that have died?",
        "SELECT COUNT(*) FROM (SELECT k.owner_id FROM keeper k JOIN animal a ON a.animal_id = k.animal_id "
        "WHERE a.type = 'CN' INTERSECT SELECT k.owner_id FROM keeper k JOIN animal a ON a.animal_id = k.animal_id "
        "WHERE a.type = 'FL')",
    ),
    (
        "What percentage of emergency visits did the vet have to manage without a nurse? One decimal, please.",
        "SELECT ROUND(100.0 * SUM(CASE WHEN nurse_id IS NULL THEN 1 ELSE 0 END) / COUNT(*), 1) "
        "FROM visit WHERE reason = 'R3'",
    ),
    (
        "Among visits of 2023 that were paid on a later day, how many days passed on average until payment, to one "
        "decimal?",
        "SELECT ROUND(AVG(julianday(paid_on) - julianday(visited_on)), 1) FROM visit "
        "WHERE visited_on LIKE '2023-%' AND paid_on > visited_on",
    ),
    (
        "Who are our regulars, the animals that have been in more than ten times? Give the name, "
        "species in plain words "
        "and number of visits.",
        "SELECT a.name, c.meaning, COUNT(*) FROM visit v JOIN animal a ON a.animal_id = v.animal_id "
        "JOIN code_list c ON c.code = a.type GROUP BY a.animal_id, a.name, c.meaning HAVING COUNT(*) > 10",
    ),
    (
        "At how many visits was one and the same medicine or product written on the bill more than once?",
        "SELECT COUNT(DISTINCT visit_id) FROM (SELECT visit_id FROM line_item GROUP BY visit_id, drug_id "
        "HAVING COUNT(*) > 1)",
    ),
    (
        "Of the cats still alive whose birth date we know, which one is the oldest? Just the name.",
        "SELECT name FROM animal WHERE type = 'FL' AND died IS NULL AND born IS NOT NULL ORDER BY born LIMIT 1",
    ),
    (
        "In which town does the main keeper of Queen Mab live?",
        "SELECT o.town FROM animal a JOIN keeper k ON k.animal_id = a.animal_id JOIN owner o ON "
        "o.owner_id = k.owner_id "
        "WHERE a.name = 'Queen Mab' AND k.main = 1",
    ),
    (
        "Who joined the team on the most recent day that we took anyone on?",
        "SELECT name FROM staff WHERE hired = (SELECT MAX(hired) FROM staff)",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="Amara Petrov rang: her Coco died on 30 June 2024. Please enter it.",
        gold=[
            "UPDATE animal SET died = '2024-06-30' WHERE name = 'Coco' AND animal_id IN (SELECT animal_id FROM keeper "
            "WHERE owner_id = (SELECT owner_id FROM owner WHERE name = 'Amara Petrov'))"
        ],
        writes="animal",
        wrong=[["UPDATE animal SET died = '2024-06-30' WHERE name = 'Coco' AND died IS NULL"]],
    ),
    dict(
        ask="All wormers get 10 percent dearer. Raise their rates, rounded to whole cents.",
        gold=[
            "UPDATE formulary SET rate = CAST(ROUND(rate * 1.1) AS INTEGER) WHERE type = 'wormer'"
        ],
        writes="formulary",
        rule=True,
        wrong=[["UPDATE formulary SET rate = rate + 10 WHERE type = 'wormer'"]],
    ),
    dict(
        ask="Maria Santos from Lower Fennick asks not to get the newsletter. See that she does not.",
        gold=[],
        writes="owner",
        wrong=[["UPDATE owner SET newsletter = 'N' WHERE name = 'Maria Santos'"]],
    ),
    dict(
        ask="Keira Vargas paid for Ruby's emergency of 28 June 2024 on the 1st of July. Enter the payment.",
        gold=[
            "UPDATE visit SET paid_on = '2024-07-01' WHERE visited_on = '2024-06-28' AND animal_id IN "
            "(SELECT a.animal_id "
            "FROM animal AS a JOIN keeper AS k ON k.animal_id = a.animal_id JOIN owner AS o ON o.owner_id = k.owner_id "
            "WHERE a.name = 'Ruby' AND o.name = 'Keira Vargas')"
        ],
        writes="visit",
        wrong=[["UPDATE visit SET paid_on = '2024-07-01' WHERE visited_on = '2024-06-28'"]],
    ),
]
