"""The bed office of St Brannoc's, a small (fictional) seaside hospital that reopened in July 2023."""

from datetime import date, timedelta

SPLIT = "validation"
SCHEMA = """
CREATE TABLE ward (
  ward_id INTEGER PRIMARY KEY, name TEXT NOT NULL, specialty TEXT NOT NULL, floor INTEGER NOT NULL, phone TEXT);
CREATE TABLE bed (
  bed_id INTEGER PRIMARY KEY, ward_id INTEGER NOT NULL REFERENCES ward(ward_id),
  label TEXT NOT NULL, type TEXT NOT NULL, in_use TEXT NOT NULL);
CREATE TABLE staff (
  staff_id INTEGER PRIMARY KEY, full_name TEXT NOT NULL, role TEXT NOT NULL,
  home_ward_id INTEGER REFERENCES ward(ward_id), reports_to INTEGER REFERENCES staff(staff_id),
  started TEXT NOT NULL, left_on TEXT, hourly_rate INTEGER NOT NULL);
CREATE TABLE off_duty (
  entry_id INTEGER PRIMARY KEY, staff_id INTEGER NOT NULL REFERENCES staff(staff_id),
  ward_id INTEGER NOT NULL REFERENCES ward(ward_id),
  day TEXT NOT NULL, shift TEXT NOT NULL, hours REAL NOT NULL, sick INTEGER NOT NULL);
CREATE TABLE patient (
  patient_id INTEGER PRIMARY KEY, full_name TEXT NOT NULL, sex TEXT NOT NULL, born TEXT NOT NULL,
  town TEXT NOT NULL, allergies TEXT, mother_id INTEGER REFERENCES patient(patient_id));
CREATE TABLE spell (
  spell_id INTEGER PRIMARY KEY, patient_id INTEGER NOT NULL REFERENCES patient(patient_id),
  consultant_id INTEGER NOT NULL REFERENCES staff(staff_id), type TEXT NOT NULL,
  admitted TEXT NOT NULL, discharged TEXT, left_to TEXT);
CREATE TABLE bed_move (
  move_id INTEGER PRIMARY KEY, spell_id INTEGER NOT NULL REFERENCES spell(spell_id),
  from_bed_id INTEGER REFERENCES bed(bed_id), to_bed_id INTEGER NOT NULL REFERENCES bed(bed_id),
  moved_on TEXT NOT NULL, reason TEXT NOT NULL);
CREATE TABLE drug_chart (
  line_id INTEGER PRIMARY KEY, spell_id INTEGER NOT NULL REFERENCES spell(spell_id), drug TEXT NOT NULL,
  route TEXT NOT NULL, dose_mg REAL NOT NULL, times_a_day INTEGER, started TEXT NOT NULL, stopped TEXT,
  prescriber_id INTEGER NOT NULL REFERENCES staff(staff_id));
"""

OPENED, LAST_DAY = date(2023, 7, 3), date(2023, 12, 31)
ROTA_START, ROTA_DAYS = date(2023, 10, 2), 28

WARDS = [  # id, name, specialty, floor, phone
    (1, "St Agnes", "general medicine", 1, "ext. 4110"),
    (2, "O'Malley", "surgery", 2, "ext. 4127"),
    (3, "Lindqvist", "maternity", 3, "ext. 4133"),
    (4, "Heron", "children", 3, "ext. 4139"),
    (5, "Sea View", "care of the elderly", 0, "ext. 4105"),
    (6, "HDU", "high dependency", 2, "ext. 4128"),
    (7, "Snowdrop", "winter overflow", 0, None),
]
BEDS = {  # ward: (label prefix, [(type, how many)])
    1: ("AG", [("STD", 8), ("SIDE", 2)]),
    2: ("OM", [("STD", 7), ("SIDE", 2)]),
    3: ("LQ", [("STD", 5), ("SIDE", 2), ("COT", 6)]),
    4: ("HE", [("STD", 4), ("SIDE", 1), ("COT", 1)]),
    5: ("SV", [("STD", 9), ("SIDE", 2)]),
    6: ("HD", [("MON", 4)]),
}
BROKEN = ("AG-07", "OM-03", "LQ-05", "SV-09", "SV-10", "HE-02")

# name groups: weight, women, men, family names
PEOPLES = [
    (
        8,
        "Alice Bronwen Catherine Edith Hazel Jean Margaret Morwenna Olive Rosalind Tamsin Winifred",
        "Alfred Arthur Colin Denzil Edwin George Gerald Jago Leonard Ronald Stanley Walter",
        "Ashdown|Bray|Carlyon|Chenoweth|Dunstan|Fairweather|Hocking|Kitto|Marlowe|Pascoe|Penrose|Tremaine|Vosper|Yeo",
    ),
    (
        3,
        "Aoife Bridget Ciara Maeve Niamh Orla",
        "Brendan Cormac Declan Eoin Fergus Padraig",
        "Byrne|Gallagher|Kavanagh|O'Brien|O'Dowd|Sweeney",
    ),
    (
        2,
        "Agnieszka Ewa Halina Joanna Zofia",
        "Jacek Marek Piotr Tomasz Witold",
        "Gorski|Kaminski|Nowak|Wrobel|Zielinski",
    ),
    (
        2,
        "Beatriz Ines Lurdes Maria Teresa",
        "Duarte Henrique Joao Nuno Rui",
        "Carvalho|da Costa|Ferreira|Santos|Teixeira",
    ),
    (
        2,
        "Anjali Deepa Lakshmi Meera Sunita",
        "Arjun Harish Rajesh Sanjay Vikram",
        "Iyer|Kapoor|Menon|Pillai|Sharma",
    ),
    (
        2,
        "Adaeze Chiamaka Folake Ngozi Yetunde",
        "Chidi Emeka Obinna Segun Tunde",
        "Adeyemi|Balogun|Eze|Nwosu|Okafor",
    ),
    (
        2,
        "Aisha Farida Leyla Nasrin Samira",
        "Bilal Hassan Karim Omid Yusuf",
        "Aydin|Haddad|Karimi|Mansour|Rahman",
    ),
    (
        1,
        "Althea Divina Lourdes Maricel Rowena",
        "Benjie Crisanto Jun Ramil Rodel",
        "Bautista|de Leon|Ocampo|Reyes|Villanueva",
    ),
    (1, "Hui Min Lan Mei Thuy Yuki", "Hiroshi Jian Minh Quang Wei", "Chen|Ito|Nguyen|Tran|Zhao"),
]
TOWNS, TOWN_WEIGHTS = (
    [
        "Port Ellis",
        "St Brannoc",
        "Kirkwenna",
        "Hallow Bay",
        "Little Oare",
        "Morva Cross",
        "Upper Tregarth",
        "Seal's Landing",
    ],
    [30, 22, 16, 12, 8, 6, 4, 2],
)
ALLERGIES, ALLERGY_WEIGHTS = (
    [
        None,
        "NKDA",
        "Penicillin",
        "penicillin",
        "Latex",
        "codeine",
        "Penicillin, latex",
        "Ibuprofen",
        "nuts",
        "iodine; Penicillin",
    ],
    [26, 50, 7, 4, 4, 3, 2, 2, 2, 1],
)
CHILD_DRUGS = [
    ("paracetamol", ["PO"], [120, 250], [4, None], 6),
    ("amoxicillin", ["PO", "PO", "IV"], [125, 250], [3], 4),
    ("ondansetron", ["PO", "IV"], [2, 4], [None], 2),
    ("ceftriaxone", ["IV"], [500], [1], 1),
]
VITAMIN_K = ("vitamin K", ["IM"], [1], [1], 1)  # every newborn is offered it once
NOT_FOR_MOTHERS = (
    "haloperidol",
    "bisoprolol",
    "furosemide",
    "prednisolone",
    "octreotide",
    "vancomycin",
)
DRUGS = [  # name, routes, doses, times a day, weight
    ("paracetamol", ["PO", "PO", "PO", "IV"], [500, 1000], [4, 4, None], 30),
    ("amoxicillin", ["PO", "PO", "IV"], [250, 500], [3], 12),
    ("enoxaparin", ["SC"], [20, 40], [1], 14),
    ("omeprazole", ["PO", "PO", "IV"], [20, 40], [1, 2], 12),
    ("morphine", ["PO", "IV", "SC"], [2.5, 5, 10], [None], 9),
    ("ondansetron", ["PO", "IV"], [4, 8], [None, 3], 9),
    ("furosemide", ["PO", "IV"], [20, 40, 80], [1, 2], 8),
    ("bisoprolol", ["PO"], [1.25, 2.5, 5], [1], 7),
    ("co-codamol", ["PO"], [508, 1016], [None, 4], 6),
    ("ceftriaxone", ["IV"], [1000, 2000], [1], 6),
    ("prednisolone", ["PO"], [5, 30, 40], [1], 5),
    ("haloperidol", ["PO", "IM"], [0.5, 1], [None], 3),
    ("octreotide", ["SC"], [0.05, 0.1], [3], 1),
    ("vancomycin", ["IV"], [750, 1000], [2], 3),
]
STAY = {1: 8, 2: 5, 3: 3, 4: 3, 5: 21, 6: 9}  # typical nights by ward
PLANNED = {2: [35, 65], 5: [92, 8]}  # emergency and planned arrivals
HOURS = {"E": 7.5, "L": 7.5, "N": 10.5}


def iso(day):
    return day.isoformat() if day else None


def day_between(rng, first, last):
    return first + timedelta(days=rng.randrange((last - first).days + 1))


def new_name(rng, sex, taken):
    "A full name nobody has yet."
    while True:
        _, women, men, family = rng.choices(PEOPLES, [p[0] for p in PEOPLES])[0]
        name = (
            f"{rng.choice((women if sex == 'F' else men).split())} {rng.choice(family.split('|'))}"
        )
        if name not in taken:
            taken.append(name)
            return name


def baby_name(rng, sex, family, taken):
    "A first name that goes with the mother's family name; if it can be, one nobody has yet."
    _, girls, boys, _ = next(p for p in PEOPLES if family in p[3].split("|"))
    names = [f"{first} {family}" for first in (girls if sex == "F" else boys).split()]
    name = rng.choice([n for n in names if n not in taken] or names)
    taken.append(name)
    return name


def make_beds():
    out = []
    for ward, (prefix, kinds) in BEDS.items():
        types = [t for t, n in kinds for _ in range(n)]
        for i, t in enumerate(types, 1):
            label = f"{prefix}-{i:02}"
            out.append((len(out) + 1, ward, label, t, "N" if label in BROKEN else "Y"))
    return out


def make_staff(rng, taken):
    out = []

    def add(role, ward, boss, first, last, rate, left=None, name=None):
        sex = "F" if rng.random() < (0.5 if role == "DR" else 0.8) else "M"
        name = name or new_name(rng, sex, taken)
        out.append(
            (
                len(out) + 1,
                name,
                role,
                ward,
                boss,
                iso(day_between(rng, first, last)),
                iso(left),
                rate,
            )
        )
        return len(out)

    old, reopened = date(1998, 1, 1), date(2023, 6, 30)
    chief = add("RN", None, None, old, date(2004, 12, 31), 4125, name="Philippa Nankervis")
    medical = add("DR", None, None, old, date(2008, 12, 31), 7250, name="Oluwaseun Adebayo")
    sisters = {
        w: add("RN", w, chief, date(2005, 1, 1), date(2017, 12, 31), 2840 + 15 * rng.randrange(12))
        for w in range(1, 7)
    }
    for ward in (1, 1, 2, 2, 3, 4, 5, 6):
        add("DR", ward, medical, date(2006, 1, 1), reopened, 5400 + 50 * rng.randrange(20))
    for ward, nurses, helpers in ((1, 5, 3), (2, 4, 2), (3, 4, 2), (4, 3, 1), (5, 4, 4), (6, 4, 1)):
        for _ in range(nurses):
            add(
                "RN", ward, sisters[ward], date(2012, 1, 1), reopened, 1860 + 20 * rng.randrange(30)
            )
        for _ in range(helpers):
            add(
                "HCA",
                ward,
                sisters[ward],
                date(2015, 1, 1),
                reopened,
                1240 + 10 * rng.randrange(18),
            )
    autumn, left = date(2023, 11, 1), date(2023, 9, 30)
    add("RN", 2, sisters[2], autumn, date(2023, 12, 1), 1860)
    add("RN", 5, sisters[5], autumn, date(2023, 12, 1), 1880)
    add("HCA", 4, sisters[4], date(2016, 1, 1), date(2019, 1, 1), 1300, date(2023, 8, 25))
    add("RN", 1, sisters[1], date(2016, 1, 1), date(2019, 1, 1), 2150, left)
    add("RN", 6, sisters[6], date(2016, 1, 1), date(2019, 1, 1), 2230, left)
    for _ in range(3):
        add(
            "HCA", None, chief, date(2019, 1, 1), reopened, 1200 + 10 * rng.randrange(5)
        )  # the floating pool
    add("PT", None, medical, date(2014, 1, 1), reopened, 2310)
    add("PT", None, medical, date(2014, 1, 1), reopened, 2090)
    add("PHARM", None, medical, date(2014, 1, 1), reopened, 2745)
    return out


def make_rota(rng, staff):
    "Four weeks of shifts; nobody works the day after a night, a few people do an early and a late in one day."
    last = iso(ROTA_START + timedelta(days=ROTA_DAYS))
    team = [
        s
        for s in staff
        if s[2] in ("RN", "HCA") and s[0] != 1 and s[5] < iso(ROTA_START) and not s[6]
    ]
    on_leave = rng.choice([s for s in team if s[2] == "RN" and s[4] != 1])
    team = [s for s in team if s is not on_leave and s[5] < last]
    out, tired, load = [], [], {s[0]: 0 for s in team}
    for n in range(ROTA_DAYS):
        day, busy, nights = ROTA_START + timedelta(days=n), list(tired), []
        for ward in range(1, 7):
            slots = ["E", "E", "L", "N"] + (["L"] if ward in (1, 5) and day.weekday() < 5 else [])
            for shift in slots:
                free = [s for s in team if s[0] not in busy]
                own = [s for s in free if s[3] == ward]
                own = own if own and rng.random() < 0.85 else free
                who = min(rng.sample(own, min(3, len(own))), key=lambda s: load[s[0]])
                twice = [e for e in out if e[3] == iso(day) and e[2] == ward and e[4] == "E"]
                if shift == "L" and twice and rng.random() < 0.05:
                    who = staff[twice[0][1] - 1]
                busy.append(who[0])
                load[who[0]] += 1
                if shift == "N":
                    nights.append(who[0])
                sick = int(rng.random() < (0.12 if shift == "N" else 0.05))
                out.append((len(out) + 1, who[0], ward, iso(day), shift, HOURS[shift], sick))
        tired = nights
    return out


class House:
    "Day-by-day life of the hospital: fills patient, spell and bed_move."

    def __init__(self, rng, beds, doctors, taken):
        self.rng, self.beds, self.doctors, self.taken = rng, beds, doctors, taken
        self.patients, self.spells, self.moves = [], [], []
        self.at, self.ends, self.dead = {}, {}, []  # spell -> bed row, spell -> planned last day

    def free(self, ward, types):
        used = [b[0] for b in self.at.values()]
        return [
            b
            for b in self.beds
            if b[1] == ward and b[3] in types and b[4] == "Y" and b[0] not in used
        ]

    def register(self, ward, day, mother=None, name=None):
        rng = self.rng
        sex = "F" if name or (ward == 3 and not mother) else rng.choice("FM")
        years = {3: (19, 42), 4: (1, 15), 5: (71, 97)}.get(ward, (18, 88))
        born = (
            day
            if mother
            else day - timedelta(days=rng.randrange(years[0] * 365 + 60, years[1] * 365))
        )
        town = mother[4] if mother else rng.choices(TOWNS, TOWN_WEIGHTS)[0]
        if mother:
            name = baby_name(rng, sex, mother[1].split(" ", 1)[1], self.taken)
        allergy = None if mother else rng.choices(ALLERGIES, ALLERGY_WEIGHTS)[0]
        row = (
            len(self.patients) + 1,
            name or new_name(rng, sex, self.taken),
            sex,
            iso(born),
            town,
            allergy,
            mother[0] if mother else None,
        )
        self.patients.append(row)
        return row

    def admit(self, who, ward, kind, day, nights, bed):
        doctor = self.rng.choice([d for d in self.doctors if d[3] == ward])
        self.spells.append([len(self.spells) + 1, who[0], doctor[0], kind, day, None, None])
        number = len(self.spells)
        self.at[number], self.ends[number] = bed, day + timedelta(days=nights)
        self.moves.append((len(self.moves) + 1, number, None, bed[0], iso(day), "arrival"))
        return number

    def move(self, number, bed, day, reason):
        self.moves.append(
            (len(self.moves) + 1, number, self.at[number][0], bed[0], iso(day), reason)
        )
        self.at[number] = bed

    def leave(self, number, day):
        spell, rng = self.spells[number - 1], self.rng
        ward = self.at.pop(number)[1]
        weights = {5: [50, 32, 6, 11, 1], 3: [97, 0, 2, 0, 1], 6: [20, 4, 46, 30, 0]}.get(
            ward, [82, 5, 6, 3, 4]
        )
        goes = (
            "HOME"
            if spell[3] in ("NB", "MAT")
            else rng.choices(["HOME", "CARE", "TRF", "RIP", "AMA"], weights)[0]
        )
        spell[5], spell[6] = day, goes
        if goes == "RIP":
            self.dead.append(spell[1])

    def shuffle_beds(self, day):
        rng = self.rng
        for number in sorted(self.at):
            bed, age = self.at[number], (day - self.spells[number - 1][4]).days
            if age < 1 or bed[3] == "COT" or bed[1] == 4:
                continue
            chance = rng.random()
            if bed[1] == 6 and chance < 0.25:
                self.try_move(number, rng.choice((1, 1, 2)), ("STD",), day, "step-down")
            elif chance < 0.012 and bed[1] in (1, 2, 5):
                self.try_move(number, 6, ("MON",), day, "step-up")
            elif chance < 0.032 and bed[3] == "STD":
                self.try_move(number, bed[1], ("SIDE",), day, "infection control")
            elif chance < 0.047 and bed[1] == 1:
                self.try_move(number, 5, ("STD",), day, "rehabilitation")
            elif chance < 0.056:
                self.try_move(number, bed[1], ("STD",), day, "bed repair")
            elif chance < 0.062 and bed[1] == 2:
                self.try_move(number, 1, ("STD",), day, "ward full")

    def try_move(self, number, ward, types, day, reason):
        places = self.free(ward, types)
        if places:
            self.move(number, self.rng.choice(places), day, reason)

    def arrivals(self, day):
        rng = self.rng
        for _ in range(rng.choices([0, 1, 2, 3, 4], [15, 30, 29, 18, 8])[0]):
            ward = rng.choices([1, 2, 3, 4, 5, 6], [30, 26, 14, 12, 15, 4])[0]
            places = self.free(ward, ("STD", "SIDE", "MON"))
            if not places:
                continue
            who = self.someone_back(ward, day) or self.register(ward, day)
            kind = {3: "MAT", 6: "EM"}.get(ward) or rng.choices(
                ["EM", "EL"], PLANNED.get(ward, [80, 20])
            )[0]
            nights = int(rng.expovariate(1 / STAY[ward])) + (1 if kind != "EL" else 0)
            number = self.admit(who, ward, kind, day, nights, rng.choice(places))
            if kind == "MAT":
                self.birth(who, number, day)

    def birth(self, mother, number, day):
        for _ in range(2 if self.rng.random() < 0.08 else 1):
            cots = self.free(3, ("COT",))
            if cots and self.rng.random() < 0.9:
                nights = (self.ends[number] - day).days
                self.admit(self.register(3, day, mother), 3, "NB", day, nights, cots[0])

    def someone_back(self, ward, day):
        "Now and then a former patient (not a baby, not a mother) comes back."
        if ward in (3, 4) or self.rng.random() > 0.24:
            return None
        inside = [self.spells[n - 1][1] for n in self.at]
        known = [
            self.patients[s[1] - 1]
            for s in self.spells
            if s[3] in ("EM", "EL") and s[5] and s[5] < day
        ]
        known = [p for p in known if p[0] not in inside and p[0] not in self.dead and p[3] < "2005"]
        return self.rng.choice(known) if known else None

    def live(self):
        day = OPENED
        while day <= LAST_DAY:
            for number in sorted(n for n in self.at if self.ends[n] <= day):
                self.leave(number, day)
            self.shuffle_beds(day)
            self.arrivals(day)
            if day.day == 17:  # outpatients on the books, never admitted
                self.register(1, day)
                self.register(2, day)
            if (day.month, day.day) == (9, 5):  # two women of the same name
                for ward, nights in ((5, 12), (1, 4)):
                    maria = self.register(ward, day, name="Maria Santos")
                    self.admit(maria, ward, "EM", day, nights, self.free(ward, ("STD", "SIDE"))[0])
            day += timedelta(days=1)


def lines_for(rng, kind, ward):
    if kind == "NB":
        return [VITAMIN_K] if rng.random() < 0.8 else []
    choice = CHILD_DRUGS if ward == 4 else DRUGS
    if kind == "MAT":
        choice = [d for d in DRUGS if d[0] not in NOT_FOR_MOTHERS]
    wanted = rng.choices([0, 1, 2, 3, 4, 5], [10, 22, 28, 22, 12, 6])[0]
    return rng.choices(choice, [d[4] for d in choice], k=wanted)


def make_charts(rng, spells, doctors):
    out, ward_of = [], {d[0]: d[3] for d in doctors}
    for number, _, doctor, kind, admitted, discharged, _ in spells:
        end = discharged or LAST_DAY
        for drug, routes, doses, times, _ in lines_for(rng, kind, ward_of[doctor]):
            start = day_between(rng, admitted, min(end, admitted + timedelta(days=4)))
            stop = day_between(rng, start, end) if rng.random() < 0.5 else end
            stop = None if not discharged and stop == end else stop
            if kind == "NB":
                start = stop = admitted
            signed = doctor if rng.random() < 0.7 else rng.choice(doctors)[0]
            out.append(
                (
                    len(out) + 1,
                    number,
                    drug,
                    rng.choice(routes),
                    rng.choice(doses),
                    rng.choice(times),
                    iso(start),
                    iso(stop),
                    signed,
                )
            )
    return out


def rows(rng):
    "Rows of every table: {table: [tuples in column order]}; `rng` is a random.Random."
    taken, beds = ["Maria Santos"], make_beds()
    staff = make_staff(rng, taken)
    rota = make_rota(rng, staff)
    doctors = [s for s in staff if s[2] == "DR" and s[3]]
    house = House(rng, beds, doctors, taken)
    house.live()
    charts = make_charts(rng, house.spells, doctors)
    spells = [(*s[:4], iso(s[4]), iso(s[5]), s[6]) for s in house.spells]
    return {
        "ward": WARDS,
        "bed": beds,
        "staff": staff,
        "off_duty": rota,
        "patient": house.patients,
        "spell": spells,
        "bed_move": house.moves,
        "drug_chart": charts,
    }


QUESTIONS = [
    (
        "How many people on our patient register have nothing at all written down about allergies?",
        "SELECT COUNT(*) FROM patient WHERE allergies IS NULL",
    ),
    (
        "Which extension do I ring to get through to the O'Malley ward?",
        "SELECT phone FROM ward WHERE name = 'O''Malley'",
    ),
    (
        "How many stays have ended with the patient moving on to a care home?",
        "SELECT COUNT(*) FROM spell WHERE left_to = 'CARE'",
    ),
    (
        "What was the very first date on which somebody was moved for infection control?",
        "SELECT MIN(moved_on) FROM bed_move WHERE reason = 'infection control'",
    ),
    (
        "The engineers are coming tomorrow: which of our beds are out of use? Their labels are enough.",
        "SELECT label FROM bed WHERE in_use = 'N'",
    ),
    (
        "What is the best hourly wage among our healthcare assistants, in pounds?",
        "SELECT MAX(hourly_rate) / 100.0 FROM staff WHERE role = 'HCA'",
    ),
    (
        "How many night shifts are on the rota, including those where the person called in sick?",
        "SELECT COUNT(*) FROM off_duty WHERE shift = 'N'",
    ),
    (
        "On what date did Eoin Sweeney start working here?",
        "SELECT started FROM staff WHERE full_name = 'Eoin Sweeney'",
    ),
    (
        "How many prescriptions on the drug charts are only to be given when needed, with no "
        "fixed number of times a day?",
        "SELECT COUNT(*) FROM drug_chart WHERE times_a_day IS NULL",
    ),
    (
        "Leaving aside the first bed on arrival, for which reasons do our patients get moved? Each reason once.",
        "SELECT DISTINCT reason FROM bed_move WHERE reason <> 'arrival'",
    ),
    (
        "Counting each person once, how many different patients have come in as an emergency?",
        "SELECT COUNT(DISTINCT patient_id) FROM spell WHERE type = 'EM'",
    ),
    (
        "Of the colleagues who are still employed here, who has been with us the longest?",
        "SELECT full_name FROM staff WHERE left_on IS NULL ORDER BY started LIMIT 1",
    ),
    (
        "How many emergency admissions did we take from 1 October to 30 November 2023, both days included?",
        "SELECT COUNT(*) FROM spell WHERE type = 'EM' AND admitted BETWEEN '2023-10-01' AND '2023-11-30'",
    ),
    (
        "Where did people go when their stay was over? Each destination code with the number of stays, please.",
        "SELECT left_to, COUNT(*) FROM spell WHERE discharged IS NOT NULL GROUP BY left_to",
    ),
    (
        "Who is the oldest person on the patient register, going by date of birth? Just the name.",
        "SELECT full_name FROM patient ORDER BY born LIMIT 1",
    ),
    (
        "How many shifts were rostered on Sea View altogether, whether or not the person turned out to be ill?",
        "SELECT COUNT(*) FROM off_duty AS o JOIN ward AS w ON w.ward_id = o.ward_id WHERE w.name = 'Sea View'",
    ),
    (
        "Sickness is hurting the rota: how many shifts were lost to it for each shift code? Give "
        "the code and the number.",
        "SELECT shift, COUNT(*) FROM off_duty WHERE sick = 1 GROUP BY shift",
    ),
    (
        "Baby Ngozi Adeyemi's birth certificate has come back: what is the mother's full name?",
        "SELECT m.full_name FROM patient AS b JOIN patient AS m ON m.patient_id = b.mother_id "
        "WHERE b.full_name = 'Ngozi Adeyemi'",
    ),
    (
        "How many nights did finished elective stays last on average, from admission to "
        "discharge? Two decimals, please.",
        "SELECT ROUND(AVG(julianday(discharged) - julianday(admitted)), 2) FROM spell "
        "WHERE type = 'EL' AND discharged IS NOT NULL",
    ),
    (
        "How many hours did Hui Zhao actually work on the October rota, sick days not counted?",
        "SELECT SUM(o.hours) FROM off_duty AS o JOIN staff AS s ON s.staff_id = o.staff_id "
        "WHERE s.full_name = 'Hui Zhao' AND o.sick = 0",
    ),
    (
        "How many patients have penicillin in their allergy notes, on its own or with others, in whatever capitals?",
        "SELECT COUNT(*) FROM patient WHERE LOWER(allergies) LIKE '%penicillin%'",
    ),
    (
        "I'd like to thank all who turned up for at least one night shift instead of calling in sick. Names, please.",
        "SELECT DISTINCT s.full_name FROM staff AS s JOIN off_duty AS o ON o.staff_id = s.staff_id "
        "WHERE o.shift = 'N' AND o.sick = 0",
    ),
    (
        "Which ward does the nurse Thuy Zhao belong to?",
        "SELECT w.name FROM staff AS s JOIN ward AS w ON w.ward_id = s.home_ward_id WHERE s.full_name = 'Thuy Zhao'",
    ),
    (
        "Which of the registered nurses who have not left us never appear on the rota? Names, please.",
        "SELECT full_name FROM staff WHERE role = 'RN' AND left_on IS NULL "
        "AND staff_id NOT IN (SELECT staff_id FROM off_duty)",
    ),
    (
        "How many moves did each ward receive from a different ward? Give ward name and number, leaving out wards that "
        "had none.",
        "SELECT w.name, COUNT(*) FROM bed_move AS m JOIN bed AS a ON a.bed_id = m.from_bed_id "
        "JOIN bed AS b ON b.bed_id = m.to_bed_id JOIN ward AS w ON w.ward_id = b.ward_id "
        "WHERE a.ward_id <> b.ward_id GROUP BY w.name",
    ),
    (
        "How many babies were born with us month by month? Write the month like 2023-10, then the "
        "number, in date order.",
        "SELECT strftime('%Y-%m', born) AS month, COUNT(*) FROM patient WHERE mother_id IS NOT NULL "
        "GROUP BY month ORDER BY month",
    ),
    (
        "What percentage of finished emergency stays ended with the patient dying? One decimal, please.",
        "SELECT ROUND(100.0 * SUM(CASE WHEN left_to = 'RIP' THEN 1 ELSE 0 END) / COUNT(*), 1) FROM spell "
        "WHERE type = 'EM' AND discharged IS NOT NULL",
    ),
    (
        "Going by rota hours and hourly wages, what did the night shifts that were really worked cost us, in pounds?",
        "SELECT SUM(o.hours * s.hourly_rate) / 100.0 FROM off_duty AS o JOIN staff AS s ON s.staff_id = o.staff_id "
        "WHERE o.shift = 'N' AND o.sick = 0",
    ),
    (
        "Safety check: who has penicillin in their allergy notes and was still put on amoxicillin? Each name once.",
        "SELECT DISTINCT p.full_name FROM patient AS p JOIN spell AS s ON s.patient_id = p.patient_id "
        "JOIN drug_chart AS c ON c.spell_id = s.spell_id "
        "WHERE LOWER(p.allergies) LIKE '%penicillin%' AND c.drug = 'amoxicillin'",
    ),
    (
        "Some people keep coming back. Please give me the patient numbers of everyone with more than one stay.",
        "SELECT patient_id FROM spell GROUP BY patient_id HAVING COUNT(*) > 1",
    ),
    (
        "Who was down for more than one shift on the same day, and on which day? Give me name and date.",
        "SELECT s.full_name, o.day FROM off_duty AS o JOIN staff AS s ON s.staff_id = o.staff_id "
        "GROUP BY s.staff_id, s.full_name, o.day HAVING COUNT(*) > 1",
    ),
    (
        "What is the label of the bed that people were most often moved into for infection control?",
        "SELECT b.label FROM bed_move AS m JOIN bed AS b ON b.bed_id = m.to_bed_id "
        "WHERE m.reason = 'infection control' GROUP BY b.bed_id, b.label ORDER BY COUNT(*) DESC LIMIT 1",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="Jean Yeo went home on 2 January 2024. Close her stay, and let every drug that she was still on "
        "end that day.",
        gold=[
            "UPDATE drug_chart SET stopped = '2024-01-02' WHERE stopped IS NULL AND spell_id = (SELECT "
            "spell_id FROM spell "
            "WHERE discharged IS NULL AND patient_id = (SELECT patient_id FROM patient WHERE full_name = 'Jean Yeo'))",
            "UPDATE spell SET discharged = '2024-01-02', left_to = 'HOME' WHERE discharged IS NULL "
            "AND patient_id = (SELECT patient_id FROM patient WHERE full_name = 'Jean Yeo')",
        ],
        writes="spell drug_chart",
        wrong=[
            ["UPDATE spell SET discharged = '2024-01-02', left_to = 'HOME' WHERE spell_id = 318"],
            [
                "UPDATE spell SET discharged = '2024-01-02', left_to = 'HOME' WHERE spell_id = 318",
                "UPDATE drug_chart SET stopped = '2024-01-02' WHERE spell_id = 318",
            ],
        ],
    ),
    dict(
        ask="Allergies to penicillin are written now with a capital letter and now without. Write it small everywhere, "
        "also where other allergies stand beside it.",
        gold=[
            "UPDATE patient SET allergies = replace(allergies, 'Penicillin', 'penicillin') "
            "WHERE allergies GLOB '*Penicillin*'"
        ],
        writes="patient",
        rule=True,
        wrong=[
            ["UPDATE patient SET allergies = 'penicillin' WHERE allergies = 'Penicillin'"],
            ["UPDATE patient SET allergies = 'penicillin' WHERE allergies GLOB '*Penicillin*'"],
        ],
    ),
    dict(
        ask="Delete the beds that are out of use and that no move ever began or ended in.",
        gold=[
            "DELETE FROM bed WHERE in_use = 'N' AND bed_id NOT IN (SELECT to_bed_id FROM bed_move) "
            "AND bed_id NOT IN (SELECT from_bed_id FROM bed_move WHERE from_bed_id IS NOT NULL)"
        ],
        writes="bed",
        rule=True,
        wrong=[
            [
                "DELETE FROM bed WHERE in_use = 'N' AND bed_id NOT IN (SELECT from_bed_id FROM bed_move)"
            ]
        ],
    ),
]
