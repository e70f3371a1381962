"""The customer office of the (fictional) municipal utility of the island town Port Lannick: power, gas and water."""

from datetime import date, datetime, timedelta

SPLIT = "validation"

SCHEMA = """
CREATE TABLE household (
    household_id INTEGER PRIMARY KEY,
    holder TEXT NOT NULL,
    street TEXT NOT NULL,
    house_no TEXT NOT NULL,
    district TEXT NOT NULL,
    type TEXT NOT NULL,
    persons INTEGER,
    email TEXT
);
CREATE TABLE tariff (
    tariff_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    service TEXT NOT NULL,
    rate INTEGER NOT NULL,
    base_fee INTEGER NOT NULL,
    from_date TEXT NOT NULL,
    successor INTEGER REFERENCES tariff (tariff_id)
);
CREATE TABLE contract (
    contract_id INTEGER PRIMARY KEY,
    household_id INTEGER NOT NULL REFERENCES household (household_id),
    tariff_id INTEGER NOT NULL REFERENCES tariff (tariff_id),
    signed_on TEXT NOT NULL,
    ended_on TEXT
);
CREATE TABLE meter (
    meter_no TEXT PRIMARY KEY,
    household_id INTEGER NOT NULL REFERENCES household (household_id),
    type TEXT NOT NULL,
    smart INTEGER NOT NULL,
    installed_on TEXT NOT NULL,
    removed_on TEXT,
    replaces TEXT REFERENCES meter (meter_no)
);
CREATE TABLE monthly_reading (
    meter_no TEXT NOT NULL REFERENCES meter (meter_no),
    month TEXT NOT NULL,
    used INTEGER,
    source TEXT NOT NULL,
    PRIMARY KEY (meter_no, month)
);
CREATE TABLE invoice (
    invoice_no INTEGER PRIMARY KEY,
    household_id INTEGER NOT NULL REFERENCES household (household_id),
    quarter TEXT NOT NULL,
    issued_on TEXT NOT NULL,
    due_on TEXT NOT NULL,
    amount INTEGER NOT NULL
);
CREATE TABLE payment (
    payment_id INTEGER PRIMARY KEY,
    invoice_no INTEGER NOT NULL REFERENCES invoice (invoice_no),
    paid_on TEXT NOT NULL,
    amount INTEGER NOT NULL,
    method TEXT NOT NULL
);
CREATE TABLE outage (
    outage_id INTEGER PRIMARY KEY,
    district TEXT NOT NULL,
    service TEXT NOT NULL,
    began_at TEXT NOT NULL,
    restored_at TEXT,
    cause TEXT NOT NULL,
    homes_hit INTEGER
);
"""

LAST_DAY = date(2025, 3, 31)

# street names by district; the weights say how many homes each district has
DISTRICTS = {
    "Old Harbour": ["Chandler's Row", "Ropewalk", "Customs Quay", "Mermaid Steps"],
    "Saint Brigid": ["Abbey Road", "Bell Lane", "Cloister Street"],
    "Northgate": ["Northgate Street", "Tannery Road", "Drover's Way", "Foundry Lane"],
    "Millbrook": ["Mill Lane", "Weir Close", "Brook Avenue"],
    "Station Quarter": ["Station Road", "Engine Street", "Signal Court"],
    "Upper Fields": ["Larkfield", "Beacon Hill", "Quarry Road"],
}
DISTRICT_WEIGHTS = [9, 6, 8, 5, 4, 3]
FIRST = [
    "Amina",
    "Bruno",
    "Ciara",
    "Dimitri",
    "Esther",
    "Farid",
    "Greta",
    "Hassan",
    "Ilse",
    "Javier",
    "Keiko",
    "Liam",
    "Mónica",
    "Nadia",
    "Oscar",
    "Priya",
    "Quentin",
    "Rosa",
    "Stefan",
    "Tomasz",
    "Ursula",
    "Viktor",
    "Wen",
    "Ximena",
    "Yonas",
    "Zofia",
    "Abel",
    "Bridget",
    "Chidi",
    "Dolores",
    "Emil",
    "Fatou",
]
LAST = [
    "Okafor",
    "O'Leary",
    "Nowak",
    "Haddad",
    "Lindgren",
    "Fernandes",
    "Kovács",
    "Banerjee",
    "Murphy",
    "Tanaka",
    "Papadakis",
    "Schuster",
    "Diallo",
    "van Rijn",
    "Castellano",
    "Petrov",
    "Nguyen",
    "MacAllister",
    "Yilmaz",
    "Bergström",
    "D'Souza",
    "Moreau",
    "Achebe",
    "Ruiz",
    "Kaur",
    "Pereira",
    "Byrne",
    "Zhang",
]
PLAIN = str.maketrans("áóö", "aoo", "'")
NAMESAKES = {17: 4, 52: 23, 70: 23}  # household number: has the same holder name as this one

# name, service, cents per kWh or cubic metre, base fee in cents per month, valid from, successor (position, 1 = first)
TARIFFS = [
    ("Basic Power", "electricity", 28, 890, "2015-01-01", 2),
    ("Basic Power", "electricity", 33, 990, "2022-01-01", None),
    ("Night Owl", "electricity", 24, 1290, "2018-04-01", 4),
    ("Night Owl Plus", "electricity", 27, 1390, "2023-04-01", None),
    ("Green Current", "electricity", 36, 790, "2019-06-01", None),
    ("Home Gas", "gas", 62, 1100, "2014-01-01", 7),
    ("Home Gas", "gas", 98, 1250, "2022-10-01", None),
    ("Biogas 20", "gas", 112, 1150, "2021-05-01", None),
    ("Harbour Water", "water", 245, 640, "2012-01-01", None),
    ("Garden Water", "water", 190, 980, "2020-03-01", None),
    ("Solar Share", "electricity", 31, 1650, "2024-09-01", None),
    ("Heat Pump Special", "electricity", 22, 1890, "2024-01-01", None),
]
CURRENT = {"E": ([2, 4, 5, 12], [30, 11, 14, 3]), "G": ([7, 8], [26, 9]), "W": ([9, 10], [40, 7])}
FORMER = {2: 1, 4: 3, 7: 6}  # tariff: its forerunner
SUMMER = {"E": 0.8, "G": 0.12, "W": 1.35}
CAUSES = {
    "electricity": ["STORM"] * 7 + ["EQUIP"] * 5 + ["DIG"] * 3 + ["PLAN"] * 4,
    "gas": ["DIG"] * 3 + ["PLAN"] * 3 + ["EQUIP"],
    "water": ["EQUIP"] * 5 + ["DIG"] * 3 + ["PLAN"] * 3,
}


def months(first, last):
    "Months from 'YYYY-MM' to 'YYYY-MM', both included."
    year, month = int(first[:4]), int(first[5:])
    while f"{year}-{month:02d}" <= last:
        yield f"{year}-{month:02d}"
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)


def day(rng, first, last):
    return first + timedelta(days=rng.randrange((last - first).days + 1))


def households(rng):
    found, addresses, names = [], [], []
    while len(found) < 98:
        number = len(found) + 1
        holder = f"{rng.choice(FIRST)} {rng.choice(LAST)}"
        if number in NAMESAKES:
            holder = found[NAMESAKES[number] - 1][1]
        elif holder in names:
            continue
        district = rng.choices(list(DISTRICTS), DISTRICT_WEIGHTS)[0]
        street = rng.choice(DISTRICTS[district])
        kind = rng.choices(["flat", "terraced house", "detached house"], [40, 30, 14])[0]
        house_no = str(rng.randrange(1, 70)) + (rng.choice("ABC") if kind == "flat" else "")
        if (street, house_no) in addresses:
            continue
        addresses.append((street, house_no))
        names.append(holder)
        persons = (
            None
            if rng.random() < 0.1
            else rng.choices([1, 2, 3, 4, 5, 6], [24, 28, 14, 14, 5, 2])[0]
        )
        first, last = holder.lower().translate(PLAIN).split(" ", 1)
        last = last.replace(" ", "")
        host = rng.choice(["postbox.example", "lannick.example", "mail.example"])
        email = f"{first}.{last}{number}@{host}"
        found.append(
            (
                number,
                holder,
                street,
                house_no,
                district,
                kind,
                persons,
                email if rng.random() < 0.7 else None,
            )
        )
    return found


def meters(rng, homes):
    "One to three meters a home; some were replaced; the newest homes have none yet."
    found, serial = [], {"E": 10417, "G": 3081, "W": 70225}

    def add(home, kind, smart, installed, removed=None, replaces=None):
        serial[kind] += rng.randrange(1, 9)
        found.append(
            (
                f"{kind}-{serial[kind]}",
                home,
                kind,
                smart,
                installed.isoformat(),
                removed.isoformat() if removed else None,
                replaces,
            )
        )
        return found[-1][0]

    for home in homes[:93]:
        for kind in ["E"] + ["G"] * (rng.random() < 0.42) + ["W"] * (rng.random() < 0.62):
            installed, smart = day(rng, date(2003, 1, 9), date(2013, 11, 30)), 0
            last, changes = None, []
            if rng.random() < 0.35:
                changes.append(day(rng, date(2015, 2, 3), date(2023, 10, 20)))
            if rng.random() < 0.13:
                changes.append(day(rng, date(2024, 2, 5), date(2024, 11, 20)))
            for change in changes:
                last = add(home[0], kind, smart, installed, change, last)
                installed, smart = change, int(change.year > 2016)
            add(home[0], kind, smart, installed, None, last)
    return found


def readings(rng, homes, all_meters):
    "Use per month of 2024, in kWh (E) or cubic metres (G, W)."
    size = {
        home[0]: ((home[6] or 2) + 1.2) * {"f": 0.8, "t": 1.0, "d": 1.35}[home[5][0]]
        for home in homes
    }
    habit, found = {}, []
    for meter_no, home, kind, smart, installed, removed, _ in all_meters:
        level = habit.setdefault((home, kind), rng.lognormvariate(0, 0.35))
        for month in months(
            max("2024-01", installed[:7]), min("2024-12", (removed or "2024-12")[:7])
        ):
            if removed and month == removed[:7]:
                continue  # the month of the change is read on the new meter only
            season = {"12": 1, "01": 1, "02": 0.9, "06": 0, "07": 0, "08": 0}.get(month[5:], 0.45)
            factor = (
                season * (1.25 if kind == "E" else 1.6 if kind == "G" else 0.8)
                + (1 - season) * SUMMER[kind]
            )
            base = {"E": 82, "G": 38, "W": 2.1}[kind]
            used = max(1, round(base * size[home] * level * factor * rng.gauss(1, 0.07)))
            chances = [96, 0, 2, 2] if smart else [0, 62, 28, 10]
            source = rng.choices(["remote", "customer", "estimate", "none"], chances)[0]
            found.append((meter_no, month, None if source == "none" else used, source))
    return found


def contracts(rng, all_meters):
    "One running contract for each service of a home, often an older one before it."
    found = []
    for home, kind in sorted({(meter[1], meter[2]) for meter in all_meters}):
        tariff = rng.choices(*CURRENT[kind])[0]
        begin = max(date.fromisoformat(TARIFFS[tariff - 1][4]), date(2014, 2, 1))
        signed = day(rng, max(begin, date(2016, 3, 1)), date(2024, 10, 31))
        former = FORMER.get(tariff)
        if former and rng.random() < 0.55:
            start = max(date.fromisoformat(TARIFFS[former - 1][4]), date(2014, 2, 1))
            found.append(
                (start + (signed - start) * rng.random(), home, former, signed - timedelta(days=1))
            )
        elif rng.random() < 0.1 and (signed - begin).days > 900:
            left = signed - timedelta(days=rng.randrange(200, 500))
            found.append((begin + (left - begin) * rng.random(), home, tariff, left))
        found.append((signed, home, tariff, None))
    found.sort(key=lambda contract: contract[:3])
    return [
        (number, home, tariff, signed.isoformat(), ended and ended.isoformat())
        for number, (signed, home, tariff, ended) in enumerate(found, 5001)
    ]


def invoices(rng, all_meters, used):
    "Quarterly invoices of 2024 in cents, roughly what was used."
    price = {"E": 33, "G": 95, "W": 240}
    sums, owner = {}, {meter[0]: (meter[1], meter[2]) for meter in all_meters}
    for meter_no, month, amount, _ in used:
        home, kind = owner[meter_no]
        key = (home, f"2024-Q{(int(month[5:]) + 2) // 3}")
        sums[key] = sums.get(key, 2900) + (amount or 0) * price[kind] + rng.randrange(60)
    found = []
    for (home, quarter), amount in sums.items():
        issued = date(
            2024 + (quarter[-1] == "4"),
            {"1": 4, "2": 7, "3": 10, "4": 1}[quarter[-1]],
            rng.randrange(4, 13),
        )
        found.append((issued, home, quarter, issued + timedelta(days=21), amount))
    found.sort()
    return [
        (number, home, quarter, issued.isoformat(), due.isoformat(), amount)
        for number, (issued, home, quarter, due, amount) in enumerate(found, 24001)
    ]


def payments(rng, bills):
    "Most pay in time, some late, some in two parts, some not at all (yet)."
    found, manner = [], {}
    for invoice_no, home, quarter, _, due, amount in bills:
        usual = rng.choices(["DD", "TR", "CASH", "CARD"], [45, 32, 8, 15])[0]
        method, care = manner.setdefault(home, (usual, rng.random()))
        due = date.fromisoformat(due)
        mood = rng.random() * (0.35 if care < 0.15 else 1)
        if mood < (0.14 if quarter == "2024-Q4" else 0.05):
            continue
        if method == "DD":
            found.append((due, invoice_no, amount, method))
        elif mood < 0.12:
            part = round(amount * rng.choice([0.3, 0.5, 0.6]))
            first = due + timedelta(days=rng.randrange(-6, 9))
            found.append((first, invoice_no, part, method))
            if rng.random() < 0.8:
                found.append(
                    (
                        first + timedelta(days=rng.randrange(14, 40)),
                        invoice_no,
                        amount - part,
                        method,
                    )
                )
        else:
            delay = rng.randrange(2, 45) if mood < 0.3 else -rng.randrange(0, 17)
            found.append(
                (
                    due + timedelta(days=delay),
                    invoice_no,
                    amount,
                    method if rng.random() < 0.9 else "CARD",
                )
            )
    found = sorted(payment for payment in found if payment[0] <= LAST_DAY)
    return [
        (number, invoice_no, paid.isoformat(), amount, method)
        for number, (paid, invoice_no, amount, method) in enumerate(found, 9001)
    ]


def outages(rng, homes):
    "Interruptions of supply; for a few, the end or the number of homes was never noted."
    found, spread = [], {"PLAN": 3.3, "STORM": 3.6, "EQUIP": 3.1, "DIG": 3.4}
    for _ in range(58):
        service = rng.choices(["electricity", "water", "gas"], [33, 18, 7])[0]
        cause = rng.choice(CAUSES[service])
        district = rng.choices(list(DISTRICTS), [6, 3, 9, 4, 2, 11])[0]
        began = datetime(2023, 1, 3) + timedelta(
            days=rng.randrange(800), minutes=5 * rng.randrange(288)
        )
        if cause == "PLAN":
            began = began.replace(hour=rng.choice([8, 9, 13]), minute=0)
        elif cause == "STORM":
            month = rng.choice([1, 2, 3, 10, 11, 12]) if began.year < 2025 else began.month
            began = began.replace(month=month, day=min(began.day, 28))
        ended = began + timedelta(minutes=5 * max(4, round(rng.lognormvariate(spread[cause], 0.6))))
        hit = (
            None
            if rng.random() < 0.12
            else rng.randrange(1, sum(home[4] == district for home in homes) + 1)
        )
        found.append((began, district, service, None if rng.random() < 0.07 else ended, cause, hit))
    found.sort(key=lambda outage: (outage[0], outage[1]))
    return [
        (
            number,
            district,
            service,
            began.isoformat(" ", "minutes"),
            ended and ended.isoformat(" ", "minutes"),
            cause,
            hit,
        )
        for number, (began, district, service, ended, cause, hit) in enumerate(found, 1)
    ]


def rows(rng):
    "Rows of every table: {table: [tuples in column order]}."
    homes = households(rng)
    all_meters = meters(rng, homes)
    used = readings(rng, homes, all_meters)
    bills = invoices(rng, all_meters, used)
    return {
        "household": homes,
        "tariff": [(n, *tariff) for n, tariff in enumerate(TARIFFS, 1)],
        "contract": contracts(rng, all_meters),
        "meter": all_meters,
        "monthly_reading": used,
        "invoice": bills,
        "payment": payments(rng, bills),
        "outage": outages(rng, homes),
    }


QUESTIONS = [
    (
        "How many of our homes have left us no e-mail address?",
        "SELECT COUNT(*) FROM household WHERE email IS NULL",
    ),
    (
        "How many smart meters have we put in over the years, counting any that were taken out again?",
        "SELECT COUNT(*) FROM meter WHERE smart = 1",
    ),
    (
        "In which streets of Northgate do we have homes on file? Name each street once, please.",
        "SELECT DISTINCT street FROM household WHERE district = 'Northgate'",
    ),
    (
        "What is the highest single invoice we ever sent, in cents as we book it?",
        "SELECT MAX(amount) FROM invoice",
    ),
    (
        "Fatou D'Souza is on the phone. What kind of home is hers?",
        "SELECT type FROM household WHERE holder = 'Fatou D''Souza'",
    ),
    (
        "For the archive I need the numbers of all meters that took the place of an older one.",
        "SELECT meter_no FROM meter WHERE replaces IS NOT NULL",
    ),
    (
        "How much have customers paid us in cash so far, in euros? Mind that we book in cents.",
        "SELECT SUM(amount) / 100.0 FROM payment WHERE method = 'CASH'",
    ),
    (
        "How many of the monthly readings were only estimated?",
        "SELECT COUNT(*) FROM monthly_reading WHERE source = 'estimate'",
    ),
    (
        "Which meter took the place of W-70232?",
        "SELECT meter_no FROM meter WHERE replaces = 'W-70232'",
    ),
    (
        "How many different homes have ever had a contract with us?",
        "SELECT COUNT(DISTINCT household_id) FROM contract",
    ),
    (
        "How many people live in a home on average, leaving out homes where we don't know? Two decimals, please.",
        "SELECT ROUND(AVG(persons), 2) FROM household",
    ),
    (
        "What has been behind our power cuts? Give each cause as noted and the number of "
        "electricity outages it led to.",
        "SELECT cause, COUNT(*) FROM outage WHERE service = 'electricity' GROUP BY cause",
    ),
    (
        "How high was the average invoice of each quarter, in euros to two decimals? Put the "
        "quarter first, and remember "
        "that we book in cents.",
        "SELECT quarter, ROUND(AVG(amount) / 100.0, 2) FROM invoice GROUP BY quarter",
    ),
    (
        "Which of all the meters in our register was installed last? I need its number.",
        "SELECT meter_no FROM meter ORDER BY installed_on DESC LIMIT 1",
    ),
    (
        "We are planning next year's rollout: how many electricity meters still in place are not smart yet?",
        "SELECT COUNT(*) FROM meter WHERE type = 'E' AND removed_on IS NULL AND smart = 0",
    ),
    (
        "I want to write to everybody on file who lives in a flat, contract or no contract: which "
        "e-mail addresses do we "
        "have?",
        "SELECT email FROM household WHERE type = 'flat' AND email IS NOT NULL",
    ),
    (
        "Which of our electricity tariffs, old ones included, has the lowest price per kilowatt hour?",
        "SELECT name FROM tariff WHERE service = 'electricity' ORDER BY rate LIMIT 1",
    ),
    (
        "How many payments reached us after the due date of their invoice?",
        "SELECT COUNT(*) FROM payment AS p JOIN invoice AS i ON i.invoice_no = p.invoice_no WHERE p.paid_on > i.due_on",
    ),
    (
        "How many monthly readings of electricity meters came to nothing, so that no use is known?",
        "SELECT COUNT(*) FROM monthly_reading AS r JOIN meter AS m ON m.meter_no = r.meter_no "
        "WHERE m.type = 'E' AND r.used IS NULL",
    ),
    (
        "Who signed the oldest contract in our files?",
        "SELECT h.holder FROM household AS h JOIN contract AS c ON c.household_id = h.household_id "
        "ORDER BY c.signed_on LIMIT 1",
    ),
    (
        "Of the outages whose end was noted, where was the longest one and what was cut off? Give "
        "the district, then the "
        "service.",
        "SELECT district, service FROM outage WHERE restored_at IS NOT NULL "
        "ORDER BY julianday(restored_at) - julianday(began_at) DESC LIMIT 1",
    ),
    (
        "Which names do we have as the holder of more than one home, and of how many homes each?",
        "SELECT holder, COUNT(*) FROM household GROUP BY holder HAVING COUNT(*) > 1",
    ),
    (
        "Which district has had the most outages, all services together?",
        "SELECT district FROM outage GROUP BY district ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "In which month did the whole town use the most gas? Write it as year and month, like 2024-07.",
        "SELECT r.month FROM monthly_reading AS r JOIN meter AS m ON m.meter_no = r.meter_no WHERE m.type = 'G' "
        "GROUP BY r.month ORDER BY SUM(r.used) DESC LIMIT 1",
    ),
    (
        "There is one tariff that nobody has ever signed up for. What is it called?",
        "SELECT t.name FROM tariff AS t WHERE NOT EXISTS (SELECT 1 FROM contract AS c WHERE c.tariff_id = t.tariff_id)",
    ),
    (
        "I need the numbers of the invoices that have been paid in part only: something has come in, but not the whole "
        "sum.",
        "SELECT i.invoice_no FROM invoice AS i JOIN payment AS p ON p.invoice_no = i.invoice_no "
        "GROUP BY i.invoice_no, i.amount HAVING SUM(p.amount) < i.amount",
    ),
    (
        "In which month did the most outages begin? Write it like 2024-07, and if several share "
        "the lead, give them all.",
        "WITH monthly AS (SELECT strftime('%Y-%m', began_at) AS month, COUNT(*) AS n FROM outage "
        "GROUP BY strftime('%Y-%m', began_at)) SELECT month FROM monthly WHERE n = (SELECT MAX(n) FROM monthly)",
    ),
    (
        "How long did storm outages last on average, counting only those whose end was noted? In "
        "minutes, to one decimal, "
        "please.",
        "SELECT ROUND(AVG((julianday(restored_at) - julianday(began_at)) * 1440), 1) FROM outage WHERE cause = 'STORM'",
    ),
    (
        "When a newer tariff succeeded an old one, by how many cents did the unit price rise? "
        "Give the old tariff's name "
        "and the rise.",
        "SELECT t.name, s.rate - t.rate FROM tariff AS t JOIN tariff AS s ON s.tariff_id = t.successor",
    ),
    (
        "How many homes have both a gas meter and a water meter in place today?",
        "SELECT COUNT(*) FROM (SELECT household_id FROM meter WHERE type = 'G' AND removed_on IS NULL INTERSECT "
        "SELECT household_id FROM meter WHERE type = 'W' AND removed_on IS NULL) AS both_kinds",
    ),
    (
        "In each district, whose home used the most water in 2024, all its meters together? Give "
        "district and holder, and "
        "if homes tie, name all of them.",
        "SELECT district, holder FROM (SELECT h.district, h.holder, RANK() OVER (PARTITION BY h.district "
        "ORDER BY SUM(r.used) DESC) AS place FROM household AS h JOIN meter AS m ON m.household_id = h.household_id "
        "JOIN monthly_reading AS r ON r.meter_no = m.meter_no WHERE m.type = 'W' AND r.month LIKE '2024-%' "
        "GROUP BY h.household_id, h.district, h.holder) AS ranked WHERE place = 1",
    ),
    (
        "In which of the districts where we have any homes on file has the gas never been off?",
        "SELECT district FROM household EXCEPT SELECT district FROM outage WHERE service = 'gas'",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="Whoever still has a running contract on the tariff Night Owl moves to its successor.",
        gold=[],
        writes="contract",
        wrong=[["UPDATE contract SET tariff_id = 4 WHERE tariff_id = 3"]],
    ),
    dict(
        ask="Yonas Nguyen of Larkfield wants us to forget his email address. His namesakes in Foundry Lane do not.",
        gold=[
            "UPDATE household SET email = NULL WHERE holder = 'Yonas Nguyen' AND street = 'Larkfield'"
        ],
        writes="household",
        wrong=[["UPDATE household SET email = NULL WHERE holder = 'Yonas Nguyen'"]],
    ),
    dict(
        ask="Invoices of the first quarter of 2024 for which we have not had a single payment cost 5 euros more. Add "
        "the fee to their amounts.",
        gold=[
            "UPDATE invoice SET amount = amount + 500 WHERE quarter = '2024-Q1' "
            "AND invoice_no NOT IN (SELECT invoice_no FROM payment)"
        ],
        writes="invoice",
        rule=True,
        wrong=[
            [
                "UPDATE invoice SET amount = amount + 5 WHERE quarter = '2024-Q1' "
                "AND invoice_no NOT IN (SELECT invoice_no FROM payment)"
            ]
        ],
    ),
    dict(
        ask="What was still open on invoice 24203 came in by transfer on 2024-11-20. Enter the payment.",
        gold=[
            "INSERT INTO payment (invoice_no, paid_on, amount, method) SELECT invoice_no, '2024-11-20', "
            "amount - (SELECT sum(amount) FROM payment WHERE invoice_no = 24203), 'TR' FROM invoice "
            "WHERE invoice_no = 24203"
        ],
        writes="payment",
        wrong=[
            [
                "INSERT INTO payment (invoice_no, paid_on, amount, method) "
                "SELECT invoice_no, '2024-11-20', amount, 'TR' FROM invoice WHERE invoice_no = 24203"
            ]
        ],
    ),
]
