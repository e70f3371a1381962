"""The books of Tamm & Okafor, a furniture workshop: parts lists, orders, bench work and complaints (fictional)."""

from datetime import date, timedelta

SPLIT = "test"

SCHEMA = """
CREATE TABLE worker (
  worker_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, trade TEXT NOT NULL,
  hired TEXT NOT NULL, left_on TEXT, wage_cents INTEGER NOT NULL, master_id INTEGER REFERENCES worker(worker_id));
CREATE TABLE item (
  item_no TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, wood TEXT, unit TEXT NOT NULL, sale_cents INTEGER,
  cost_cents INTEGER, supplier TEXT, stock INTEGER, designer_id INTEGER REFERENCES worker(worker_id), launched TEXT,
  retired TEXT);
CREATE TABLE bom (
  parent_no TEXT NOT NULL REFERENCES item(item_no), child_no TEXT NOT NULL REFERENCES item(item_no),
  qty REAL NOT NULL, PRIMARY KEY (parent_no, child_no));
CREATE TABLE customer (
  customer_id INTEGER PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, city TEXT NOT NULL, country TEXT NOT NULL,
  discount INTEGER NOT NULL, referred_by INTEGER REFERENCES customer(customer_id));
CREATE TABLE sales_order (
  order_no INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customer(customer_id), ordered TEXT NOT NULL,
  promised TEXT NOT NULL, delivered TEXT, status TEXT NOT NULL, rush TEXT NOT NULL);
CREATE TABLE order_line (
  line_id INTEGER PRIMARY KEY, order_no INTEGER NOT NULL REFERENCES sales_order(order_no),
  item_no TEXT NOT NULL REFERENCES item(item_no), quantity INTEGER NOT NULL, finish TEXT, unit_cents INTEGER NOT NULL);
CREATE TABLE work_step (
  step_id INTEGER PRIMARY KEY, line_id INTEGER NOT NULL REFERENCES order_line(line_id), task TEXT NOT NULL,
  worker_id INTEGER NOT NULL REFERENCES worker(worker_id), checked_by INTEGER REFERENCES worker(worker_id),
  day TEXT NOT NULL, minutes INTEGER NOT NULL, redo INTEGER NOT NULL);
CREATE TABLE complaint (
  complaint_id INTEGER PRIMARY KEY, line_id INTEGER NOT NULL REFERENCES order_line(line_id), reported TEXT NOT NULL,
  reason TEXT NOT NULL, note TEXT, settled TEXT, refund_cents INTEGER);
"""

TODAY = date(2024, 6, 28)

# first name | last name | trade | hired | left | wage per hour in euros | master (place in this list)
WORKERS = """
Liisa|Tamm|designer|2009-03-01||38.50|
Chidi|Okafor|joiner|2009-03-01||36.00|
Marek|Nowicki|joiner|2011-05-16||29.80|
Anna|Lind|joiner|2014-09-01||28.40|
Rui|Pestana|joiner|2017-02-13||26.75|
Kaisa|Rebane|joiner|2019-08-19|2023-03-31|25.10|
Joost|de Wit|machinist|2012-01-09||27.90|
Svetlana|Orlova|machinist|2016-04-04||26.20|
Petter|Haugen|machinist|2021-10-11||23.60|
Amara|Nwosu|finisher|2013-06-03||28.00|
Elio|Zanetti|finisher|2018-03-19||25.30|
Tõnu|Kask|finisher|2020-01-20|2022-11-30|24.40|
Brigid|O'Shea|upholsterer|2015-10-05||27.60|
Yasmin|Haddad|upholsterer|2020-09-14||24.90|
Anna|Lind|upholsterer|2022-05-02||23.80|
Kofi|Mensah|packer|2016-11-28||19.40|
Laura|Sepp|packer|2021-03-15||18.20|
Dmitri|Belov|packer|2018-07-02|2023-09-15|18.90|
Hanna|Vesk|apprentice|2021-09-01||13.50|3
Tomás|Arrieta|apprentice|2022-09-01||12.90|2
Mia|Jokinen|apprentice|2022-09-01||12.90|10
Jonas|Pärn|apprentice|2023-09-04||12.20|3
Aiko|Mori|designer|2018-01-08||33.20|
Felix|Brandt|designer|2021-06-07|2023-12-22|30.50|
Noor|van Dijk|apprentice|2023-09-04||12.20|13
Sulev|Ilves|bookkeeper|2010-02-15||24.00|
"""
# number | name | wood | price in euros | designer | launched | retired | parts list
PRODUCTS = """
CH-01|Emajõgi chair|oak|420|1|2012-04-01||S-01:1 S-06:1 B-22:4 B-14:8
CH-02|Emajõgi armchair|oak|585|1|2013-09-01||S-02:1 S-06:1 B-22:4 B-14:10
CH-03|Kiosk stool|birch|165|2|2014-02-01||S-03:1 B-22:3 B-12:6
CH-04|Kiosk bar stool|birch|210|2|2014-02-01||S-03:1 B-12:8 B-22:4 B-08:0.5
CH-05|Harmattan lounge chair|walnut|1180|23|2019-05-01||S-02:1 S-07:2 B-32:2.5 B-14:12 B-22:4
CH-06|Ladder-back chair|ash|355|3|2011-01-15|2022-12-31|S-04:1 B-33:3 B-22:4
CH-07|Pip child's chair|birch|120|23|2020-10-01||S-03:1 B-12:4 B-22:4
CH-08|Sirocco desk chair|walnut|890|24|2022-03-01||S-05:1 S-06:1 B-34:5 B-15:4
TB-01|Emajõgi table 180|oak|1650|1|2012-04-01||S-10:1 S-12:1 B-15:8 B-22:4
TB-02|Emajõgi table 220|oak|1980|1|2012-04-01||S-11:1 S-12:1 B-15:8 B-22:4
TB-03|Ferry folding table|ash|740|4|2015-06-01||S-13:1 B-26:4 B-14:16 B-22:4
TB-04|Harmattan coffee table|walnut|690|23|2019-05-01||B-05:1.2 B-16:6 B-22:4 B-12:12
TB-05|Round table Orbit|ash|1420|24|2022-09-01||S-14:1 S-12:1 B-15:10 B-22:4
TB-06|Scribe desk|oak|1290|23|2021-02-01||S-10:1 S-20:2 B-15:8 B-22:4
TB-07|scribe desk, small|oak|980|23|2021-02-01|2024-01-31|S-15:1 S-20:1 B-15:8 B-22:4
BD-01|Night Heron bed 160|oak|1890|1|2016-01-10||S-16:1 S-17:1 B-17:16 B-09:14
BD-02|Night Heron bed 180|oak|2090|1|2016-01-10||S-16:1 S-17:1 B-17:16 B-09:16
BD-03|Bothy bunk bed|birch|1540|2|2018-11-01|2023-06-30|S-16:2 B-17:24 B-09:24 B-08:2
BD-04|Lullaby cot|birch|610|23|2020-10-01||S-17:1 B-12:20 B-09:9
SH-01|Archive bookcase|oak|1340|1|2013-02-01||S-18:1 B-18:20 B-14:24
SH-02|Archive bookcase, low|oak|890|1|2013-02-01||S-19:1 B-18:12 B-14:16
SH-03|Lattice wall shelf|ash|260|24|2022-03-01||B-03:0.6 B-12:8 B-19:2
SH-04|Tideline sideboard|walnut|2450|23|2019-11-01||S-19:1 S-21:2 S-20:3 B-23:4 B-27:5
SH-05|Tideline cabinet|walnut|2780|23|2019-11-01||S-18:1 S-21:2 B-23:6 B-27:2
SH-06|Doorstep shoe bench|birch|330|4|2017-08-01||B-02:0.9 B-12:12 B-14:8 B-22:4
SH-07|Peddler's chest|oak|1120|3|2010-06-01|2022-06-30|B-01:2 B-24:2 B-14:20 B-22:4
SF-01|Long Sunday sofa|oak|3250|23|2018-09-01||S-22:1 S-07:6 B-30:9 B-22:6
SF-02|Long Sunday footstool|oak|480|23|2018-09-01||S-07:1 B-30:1.2 B-22:4 B-12:8
SF-03|Window seat Alcove|ash|760|24|2023-04-01||S-07:2 B-03:1.5 B-31:2.4 B-14:14
SF-04|Marram daybed|ash|1870|1|2023-11-01||S-16:1 S-07:3 B-31:5 B-17:8
"""
SUBASSEMBLIES = """
S-01|chair frame|oak|B-01:0.7 B-12:16 B-20:0.1
S-02|armchair frame|oak|B-01:1.1 B-12:22 B-20:0.15
S-03|stool frame|birch|B-02:0.4 B-12:8 B-20:0.05
S-04|ladder-back frame|ash|B-03:0.8 B-12:18 B-20:0.1
S-05|swivel frame|walnut|B-05:0.6 B-35:1 B-15:4
S-06|seat pad|| B-40:0.5 B-30:0.7 B-41:2
S-07|sofa cushion||B-42:1 B-43:1
S-10|table top 180|oak|B-04:1.9 B-12:24 B-20:0.4
S-11|table top 220|oak|B-04:2.3 B-12:28 B-20:0.5
S-12|trestle pair|oak|B-04:1.2 B-15:8 B-12:12
S-13|folding leaf set|ash|B-03:1.5 B-26:4 B-20:0.2
S-14|round top 130|ash|B-03:2.1 B-12:20 B-20:0.4
S-15|desk top 120|oak|B-01:1.3 B-12:16 B-20:0.3
S-16|slatted base|birch|B-02:1.4 B-09:6 B-14:28
S-17|headboard|oak|B-01:1 B-12:14
S-18|tall carcass|oak|B-06:2.4 B-12:40 B-18:8
S-19|low carcass|oak|B-06:1.5 B-12:28 B-18:4
S-20|drawer box|birch|B-07:0.5 B-25:1 B-13:12
S-21|door panel|walnut|B-05:0.8 B-24:2 B-13:8
S-22|sofa frame|oak|B-01:3.5 B-15:18 B-44:12 B-16:6
S-23|lectern frame|oak|B-01:0.9 B-12:10
"""
# number | name | wood | unit | cost in euros | supplier | stock
BOUGHT = """
B-01|board 27 mm|oak|m2|92.00|Võru Timber|64
B-02|board 27 mm|birch|m2|48.50|Võru Timber|120
B-03|board 27 mm|ash|m2|71.00|Võru Timber|38
B-04|board 40 mm|oak|m2|131.00|Holz Eckhardt|41
B-05|board 27 mm|walnut|m2|188.00|Holz Eckhardt|17
B-06|veneered panel|oak|m2|63.50|Holz Eckhardt|55
B-07|plywood 12 mm|birch|m2|29.90|Võru Timber|90
B-08|steel foot rail||m|14.20|Kovář a syn|33
B-09|bed slat|birch|pc|3.10|Võru Timber|540
B-10|cork disc||pc|0.22|Alentejo Cortiças|800
B-12|dowel 8 mm|beech|pc|0.06|Schraub & Söhne|9400
B-13|screw 3.5x16||pc|0.03|Schraub & Söhne|7200
B-14|screw 4x40||pc|0.05|Schraub & Söhne|11800
B-15|bolt M8||pc|0.48|Schraub & Söhne|1350
B-16|bolt M6||pc|0.36|Schraub & Söhne|620
B-17|bed bolt||pc|1.15|Schraub & Söhne|410
B-18|shelf pin||pc|0.11|Schraub & Söhne|2600
B-19|hidden bracket||pc|4.90|Kovář a syn|74
B-20|wood glue||l|8.60|Dripsey Adhesives|46
B-22|felt glide||pc|0.18|Schraub & Söhne|5100
B-23|brass foot||pc|11.40|Kovář a syn|88
B-24|brass hinge||pc|6.80|Kovář a syn|0
B-25|drawer runner pair||pc|13.70|Kovář a syn|96
B-26|folding hinge||pc|7.95|Kovář a syn|61
B-27|leather pull||pc|9.20|Curtiduría Robles|52
B-28|glass pane, smoked||pc|84.00||0
B-30|wool cloth, moss||m|58.00|Weaver's Yard|73
B-31|linen cloth, sand||m|46.50|Weaver's Yard|80
B-32|leather, cognac||m2|149.00|Curtiduría Robles|12
B-33|paper cord||m|1.90|Weaver's Yard|0
B-34|castor||pc|3.85|Kovář a syn|150
B-35|swivel base||pc|67.00|Kovář a syn|22
B-40|foam 40 mm||m2|17.30|Espuma Norte|66
B-41|webbing||m|1.35|Weaver's Yard|310
B-42|cushion core||pc|36.00|Espuma Norte|45
B-43|zip cover||pc|15.80|Weaver's Yard|57
B-44|serpentine spring||pc|2.75|Kovář a syn|280
B-45|caster||pc|4.40||16
"""
# name | kind (P private, H hotels and restaurants, O offices, S shops) | city | country
CUSTOMERS = """
Jonas Berg|P|Uppsala|Sweden
Hotel Kolm Kuldnokka|H|Tartu|Estonia
Restaurant L'Écluse|H|Ghent|Belgium
Bergman & Rask Advokater|O|Stockholm|Sweden
Good Grain|S|Edinburgh|United Kingdom
Triin Kivimäe|P|Tallinn|Estonia
Café Ó Briain|H|Cork|Ireland
Studio Nordlicht|S|Hamburg|Germany
Helmi Aaltonen|P|Helsinki|Finland
Marta Wójcik|P|Kraków|Poland
Raamat ja Ruum|S|Tallinn|Estonia
Hotel d'Orsignac|H|Lyon|France
Peter Saar|P|Tartu|Estonia
Lumen Software|O|Tallinn|Estonia
Akua Boateng|P|London|United Kingdom
The Quiet Room|S|Dublin|Ireland
Ilze Ozola|P|Riga|Latvia
Gasthaus zum Anker|H|Lübeck|Germany
Kenji Watanabe|P|Copenhagen|Denmark
City Library of Narva|O|Narva|Estonia
Jonas Berg|P|Bergen|Norway
Maison Tilleul|S|Brussels|Belgium
Andres Põder|P|Pärnu|Estonia
Osteria del Molo|H|Trieste|Italy
Freja Holm|P|Aarhus|Denmark
Väike Karu Kindergarten|O|Tartu|Estonia
Dr. Eva Lindner|P|Vienna|Austria
Birgitta Sandström|P|Malmö|Sweden
Hotel Hafnarhús|H|Reykjavik|Iceland
Piotr Zieliński|P|Gdańsk|Poland
Oak & Ember|S|London|United Kingdom
Ahmed El Idrissi|P|Rotterdam|Netherlands
Mari-Liis Tamm|P|Tartu|Estonia
Van Houten Notarissen|O|Utrecht|Netherlands
Sean Fitzgerald|P|Galway|Ireland
Clara Meunier|P|Nantes|France
Ravintola Kaisla|H|Turku|Finland
Giorgos Pappas|P|Berlin|Germany
Kaupmees & Ko|S|Pärnu|Estonia
Lotta Nieminen|P|Tampere|Finland
Tartu Chamber Choir|O|Tartu|Estonia
Ewa Lis|P|Warsaw|Poland
Hotel Sõprus|H|Narva|Estonia
Janis Kalnins|P|Riga|Latvia
Marguerite Dupont|P|Lille|France
Fjord & Fell|S|Bergen|Norway
Siim Kuusk|P|Viljandi|Estonia
Oluwaseun Adeyemi|P|Manchester|United Kingdom
Bistro Zwei Raben|H|Leipzig|Germany
Karin Ljung|P|Gothenburg|Sweden
Nordic Patents|O|Copenhagen|Denmark
Rasa Petrauskaitė|P|Vilnius|Lithuania
Urmas Teder|P|Tallinn|Estonia
Ines Carvalho|P|Porto|Portugal
Hotel Zum weißen Hirsch|H|Salzburg|Austria
Tiiu Raudsepp|P|Haapsalu|Estonia
Hugo Verstraete|P|Antwerp|Belgium
Ljósmynd Gallery|O|Reykjavik|Iceland
Sofia Marinelli|P|Bologna|Italy
Margus Lepp|P|Rakvere|Estonia
Kontor 12|O|Helsinki|Finland
Nadia Rahmani|P|Paris|France
Villa Margarethe|H|Haapsalu|Estonia
Johanna Weiss|P|Munich|Germany
Erki Mets|P|Tartu|Estonia
Home of Larch|S|Oslo|Norway
Bridget Lawlor|P|Limerick|Ireland
Kristjan Oja|P|Võru|Estonia
Agnes Thorsen|P|Oslo|Norway
Little Harbour School|O|Tallinn|Estonia
Paulo Antunes|P|Lisbon|Portugal
Eliis Kallas|P|Kuressaare|Estonia
Rooftop Sauna Club|H|Helsinki|Finland
Mathilde Roux|P|Strasbourg|France
Tomáš Dvořák|P|Prague|Czechia
"""
REASONS = {
    "SCR": ["scratch on the top", "scratched corner", "two scratches near the edge"],
    "WOB": ["wobbles on a level floor", "rocks when leaned on", "one leg loose"],
    "COL": ["darker than the sample", "tone does not match earlier order", "stain shows lap marks"],
    "MIS": ["bag of fittings missing", "one cushion missing", "feet not in the parcel"],
    "SQK": ["squeaks at night", "creaks when sitting down"],
}
TRADE_OF = {
    "cut": "machinist",
    "join": "joiner",
    "sand": "joiner",
    "surface": "finisher",
    "upholster": "upholsterer",
    "pack": "packer",
}
BASE_MINUTES = {"cut": 35, "join": 70, "sand": 40, "surface": 45, "upholster": 80, "pack": 18}


def table(text):
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


def cents(euros):
    return round(float(euros) * 100)


def workers():
    return [
        (i, first, last, trade, hired, left or None, cents(wage), int(master) if master else None)
        for i, (first, last, trade, hired, left, wage, master) in enumerate(table(WORKERS), 1)
    ]


def items():
    out = [
        (no, name, "F", wood, "pc", cents(price), None, None, None, int(who), start, end or None)
        for no, name, wood, price, who, start, end, _ in table(PRODUCTS)
    ]
    out += [
        (no, name, "S", wood or None, "pc", None, None, None, None, None, None, None)
        for no, name, wood, _ in table(SUBASSEMBLIES)
    ]
    out += [
        (
            no,
            name,
            "B",
            wood or None,
            unit,
            None,
            cents(cost),
            maker or None,
            int(stock),
            None,
            None,
            None,
        )
        for no, name, wood, unit, cost, maker, stock in table(BOUGHT)
    ]
    return out


def parts_lists():
    out = []
    for line in table(PRODUCTS) + table(SUBASSEMBLIES):
        for entry in line[-1].split():
            child, qty = entry.split(":")
            out.append((line[0], child, float(qty)))
    return out


def customers(rng):
    out = []
    for i, (name, kind, city, country) in enumerate(table(CUSTOMERS), 1):
        discount = {"P": [0, 0, 0, 5], "H": [5, 10, 12], "O": [0, 5, 10], "S": [15, 20, 25]}[kind]
        friend = rng.randrange(1, i) if i > 5 and rng.random() < 0.22 else None
        out.append((i, name, kind, city, country, rng.choice(discount), friend))
    return out


def sales_orders(rng, all_customers):
    buyers = [c for c in all_customers if c[0] % 9 != 4]  # the others only asked for a catalogue
    weight = [
        rng.lognormvariate({"P": -0.4, "H": 0.5, "O": 0, "S": 0.9}[c[2]], 0.6) for c in buyers
    ]
    days = sorted(rng.randrange(0, 905) for _ in range(190))
    out = []
    for no, d in enumerate(days, 2201):
        ordered = date(2022, 1, 4) + timedelta(days=d)
        rush = "Y" if rng.random() < 0.14 else "N"
        promised = ordered + timedelta(
            days=rng.randrange(14, 25) if rush == "Y" else rng.randrange(40, 85)
        )
        delivered = promised + timedelta(days=round(rng.gauss(-2, 8)))
        status = "X" if rng.random() < 0.06 else "D" if delivered < TODAY else "W"
        out.append(
            (
                no,
                rng.choices(buyers, weight)[0][0],
                str(ordered),
                str(promised),
                str(delivered) if status == "D" else None,
                status,
                rush,
            )
        )
    return out


def order_lines(rng, orders, all_customers):
    made = table(PRODUCTS)
    popular = [rng.lognormvariate(0, 0.8) for _ in made]
    out = []
    for no, who, ordered, *_ in orders:
        kind, discount = all_customers[who - 1][2], all_customers[who - 1][5]
        known = [
            (p, w)
            for p, w in zip(made, popular)
            if p[5] <= ordered and (not p[6] or ordered <= p[6]) and p[0] != "SH-07"
        ]
        for _ in range(rng.choices([1, 2, 3, 4], [9, 6, 3, 1])[0]):
            p = rng.choices([p for p, _ in known], [w for _, w in known])[0]
            n = (
                rng.choice([4, 6, 8, 12, 20])
                if kind == "H" and p[0][:2] == "CH"
                else rng.choices(
                    [1, 2, 4, 6], [10, 4, 2, 2] if p[0][:2] == "CH" else [10, 2, 0, 0]
                )[0]
            )
            finish = rng.choices(["OIL", "SOAP", "LAC", "WAX", None], [9, 4, 4, 2, 2])[0]
            out.append((len(out) + 1, no, p[0], n, finish, cents(p[3]) * (100 - discount) // 100))
    return out


def work_steps(rng, lines, orders):
    staff, by_no, out = workers(), {o[0]: o for o in orders}, []
    for line, no, item, n, finish, _ in lines:
        order = by_no[no]
        if order[5] == "X":
            continue
        soft = item[:2] == "SF" or item in ("CH-01", "CH-02", "CH-05", "CH-08")
        tasks = (
            ["cut", "join", "sand"] + ["surface"] * bool(finish) + ["upholster"] * soft + ["pack"]
        )
        start, end = date.fromisoformat(order[2]), date.fromisoformat(order[4] or order[3])
        gap = max(1, (end - start).days // (len(tasks) + 1))
        for k, task in enumerate(tasks, 1):
            day = start + timedelta(days=k * gap)
            if (
                day >= min(end, TODAY)
                or day.weekday() == 6
                and (day := day - timedelta(days=1)) <= start
            ):
                continue
            able = [
                w
                for w in staff
                if (staff[w[7] - 1] if w[7] else w)[3] == TRADE_OF[task]  # apprentices: as master
                and w[4] <= str(day)
                and (not w[5] or str(day) <= w[5])
            ]
            doer = rng.choices(able, [1 + (w[0] * 7) % 4 for w in able])[0]
            peers = [w[0] for w in staff if w[0] in (2, 3, 7, 10, 13) and w[0] != doer[0]]
            checked = (
                rng.choices(peers, [6, 3, 1, 3, 1][: len(peers)])[0]
                if rng.random() < 0.55
                else None
            )
            minutes = round(BASE_MINUTES[task] * (n**0.7) * rng.lognormvariate(0.1, 0.35))
            out.append(
                (
                    len(out) + 1,
                    line,
                    task,
                    doer[0],
                    checked,
                    str(day),
                    max(5, minutes),
                    int(rng.random() < (0.12 if doer[3] == "apprentice" else 0.05)),
                )
            )
    return out


def complaints(rng, lines, orders):
    by_no, out = {o[0]: o for o in orders}, []
    for line, no, _, _, _, price in lines:
        order = by_no[no]
        if order[5] != "D" or rng.random() > 0.17:
            continue
        for _ in range(rng.choices([1, 2], [6, 1])[0]):
            reason = rng.choices(list(REASONS), [5, 4, 3, 2, 2])[0]
            seen = date.fromisoformat(order[4]) + timedelta(
                days=rng.choice([0, 1, 2, 5, 9, 20, 70])
            )
            seen = min(seen, TODAY)
            done = seen + timedelta(days=rng.randrange(1, 40))
            settled = str(done) if done <= TODAY and rng.random() < 0.85 else None
            refund = round(price * rng.choice([0.05, 0.1, 0.1, 0.2, 0.5]) / 100) * 100
            note = rng.choice(REASONS[reason]) if rng.random() < 0.8 else None
            out.append(
                [
                    line,
                    str(seen),
                    reason,
                    note,
                    settled,
                    refund if settled and rng.random() < 0.4 else None,
                ]
            )
    return [(i, *c) for i, c in enumerate(sorted(out, key=lambda c: (c[1], c[0])), 1)]


def rows(rng):
    "Rows of every table: {table: [tuples in column order]}; `rng` is a random.Random."
    clients = customers(rng)
    orders = sales_orders(rng, clients)
    lines = order_lines(rng, orders, clients)
    return {
        "worker": workers(),
        "item": items(),
        "bom": parts_lists(),
        "customer": clients,
        "sales_order": orders,
        "order_line": lines,
        "work_step": work_steps(rng, lines, orders),
        "complaint": complaints(rng, lines, orders),
    }


QUESTIONS = [
    # easy
    (
        "How many of our orders were cancelled?",
        "SELECT COUNT(*) FROM sales_order WHERE status = 'X'",
    ),
    (
        "When a complaint ends in a refund, how much do we pay back on average? In euros, to two decimals, please.",
        "SELECT ROUND(AVG(refund_cents) / 100.0, 2) FROM complaint",
    ),
    (
        "How many complaints are still waiting to be settled?",
        "SELECT COUNT(*) FROM complaint WHERE settled IS NULL",
    ),
    (
        "What is the longest anybody has ever spent on a single step at the bench, in minutes?",
        "SELECT MAX(minutes) FROM work_step",
    ),
    (
        "Which pieces have we taken out of the range? Their names will do.",
        "SELECT name FROM item WHERE retired IS NOT NULL",
    ),
    (
        "I need to send a courier to Gasthaus zum Anker: which city are they in?",
        "SELECT city FROM customer WHERE name = 'Gasthaus zum Anker'",
    ),
    (
        "Which bought-in parts have we run out of completely? Give me the names.",
        "SELECT name FROM item WHERE stock = 0",
    ),
    (
        "Counting every order ever placed, cancelled ones too, how many pieces were to get a soap finish?",
        "SELECT SUM(quantity) FROM order_line WHERE finish = 'SOAP'",
    ),
    (
        "Which orders reached the customer later than we had promised? Order numbers, please.",
        "SELECT order_no FROM sales_order WHERE delivered > promised",
    ),
    ("Who supplies our wood glue?", "SELECT supplier FROM item WHERE name = 'wood glue'"),
    (
        "On what date did the very first complaint about wobbly furniture come in?",
        "SELECT MIN(reported) FROM complaint WHERE reason = 'WOB'",
    ),
    # medium
    (
        "Who drew the Tideline sideboard? First name and last name.",
        "SELECT w.first_name, w.last_name FROM item AS i JOIN worker AS w ON w.worker_id = i.designer_id "
        "WHERE i.name = 'Tideline sideboard'",
    ),
    (
        "The insurers want the three bought-in parts with the highest cost per unit: just the item numbers, dearest "
        "first, please.",
        "SELECT item_no FROM item ORDER BY cost_cents DESC LIMIT 3",
    ),
    (
        "For each kind of task in the workshop, how many minutes does one step take on average? Give the task and the "
        "minutes, to one decimal.",
        "SELECT task, ROUND(AVG(minutes), 1) FROM work_step GROUP BY task",
    ),
    (
        "Rush jobs aside, how many orders did we take in during 2023, whatever became of them?",
        "SELECT COUNT(*) FROM sales_order WHERE rush = 'N' AND ordered BETWEEN '2023-01-01' AND '2023-12-31'",
    ),
    (
        "Some customers in our address book have never ordered anything, though a namesake may have. What are their "
        "names?",
        "SELECT c.name FROM customer AS c LEFT JOIN sales_order AS o ON o.customer_id = c.customer_id "
        "WHERE o.order_no IS NULL",
    ),
    (
        "Kontor 12 came to us on a recommendation. Which customer had referred them?",
        "SELECT b.name FROM customer AS a JOIN customer AS b ON b.customer_id = a.referred_by "
        "WHERE a.name = 'Kontor 12'",
    ),
    (
        "How many hours of bench work has our apprentice Hanna Vesk logged altogether, to one decimal?",
        "SELECT ROUND(SUM(s.minutes) / 60.0, 1) FROM work_step AS s JOIN worker AS w ON w.worker_id = s.worker_id "
        "WHERE w.last_name = 'Vesk'",
    ),
    (
        "Which orders contain at least one Long Sunday footstool? Every order number once, cancelled orders included.",
        "SELECT DISTINCT l.order_no FROM order_line AS l JOIN item AS i ON i.item_no = l.item_no "
        "WHERE i.name = 'Long Sunday footstool'",
    ),
    (
        "Two of our people are called Anna Lind. How many work steps has the upholsterer of that name carried out?",
        "SELECT COUNT(*) FROM work_step AS s JOIN worker AS w ON w.worker_id = s.worker_id "
        "WHERE w.first_name = 'Anna' AND w.last_name = 'Lind' AND w.trade = 'upholsterer'",
    ),
    (
        "One of the packers no longer works here. What is the last name?",
        "SELECT last_name FROM worker WHERE trade = 'packer' AND left_on IS NOT NULL",
    ),
    # hard
    (
        "How many pieces of furniture have hotels, restaurants and the like ordered from us, "
        "cancelled orders included?",
        "SELECT SUM(l.quantity) FROM order_line AS l JOIN sales_order AS o ON o.order_no = l.order_no "
        "JOIN customer AS c ON c.customer_id = o.customer_id WHERE c.kind = 'H'",
    ),
    (
        "Who are our regulars, with six orders or more to date, cancelled ones included? Give the name and number of "
        "orders.",
        "SELECT c.name, COUNT(*) FROM sales_order AS o JOIN customer AS c ON c.customer_id = o.customer_id "
        "GROUP BY c.customer_id, c.name HAVING COUNT(*) >= 6",
    ),
    (
        "How many shelf pins go into one Archive bookcase (the tall one), counting those inside its sub-assemblies?",
        "WITH p AS (SELECT item_no FROM item WHERE name = 'Archive bookcase'), "
        "n AS (SELECT b.child_no, b.qty FROM bom AS b JOIN p ON b.parent_no = p.item_no UNION ALL "
        "SELECT c.child_no, b.qty * c.qty FROM bom AS b JOIN p ON b.parent_no = p.item_no "
        "JOIN bom AS c ON c.parent_no = b.child_no) "
        "SELECT SUM(n.qty) FROM n JOIN item AS i ON i.item_no = n.child_no WHERE i.name = 'shelf pin'",
    ),
    (
        "Which parts and sub-assemblies does no parts list call for? Item numbers, please, "
        "leaving finished pieces aside.",
        "SELECT item_no FROM item WHERE kind <> 'F' AND item_no NOT IN (SELECT child_no FROM bom)",
    ),
    (
        "From which supplier do we get the greatest number of different parts?",
        "SELECT supplier FROM item WHERE supplier IS NOT NULL GROUP BY supplier ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "Of the rush orders already delivered, what percentage came after the promised day? One decimal, please.",
        "SELECT ROUND(100.0 * SUM(CASE WHEN delivered > promised THEN 1 ELSE 0 END) / COUNT(*), 1) FROM sales_order "
        "WHERE rush = 'Y' AND delivered IS NOT NULL",
    ),
    (
        "Cancelled orders aside, who has ordered goods for the most money, going by the prices on the orders? Give the "
        "name and the total in euros.",
        "SELECT c.name, SUM(l.quantity * l.unit_cents) / 100.0 FROM customer AS c "
        "JOIN sales_order AS o ON o.customer_id = c.customer_id JOIN order_line AS l ON l.order_no = o.order_no "
        "WHERE o.status <> 'X' GROUP BY c.customer_id, c.name ORDER BY 2 DESC LIMIT 1",
    ),
    (
        "Who is on the lowest hourly wage we pay? First and last names of everyone it applies to.",
        "SELECT first_name, last_name FROM worker WHERE wage_cents = (SELECT MIN(wage_cents) FROM worker)",
    ),
    (
        "How many of the steps done by apprentices were checked by the apprentice's own master?",
        "SELECT COUNT(*) FROM work_step AS s JOIN worker AS w ON w.worker_id = s.worker_id "
        "WHERE w.trade = 'apprentice' AND s.checked_by = w.master_id",
    ),
    (
        "In which month of 2023 did the most orders come in, cancelled ones included? Write it like 2023-01.",
        "SELECT strftime('%Y-%m', ordered) AS m FROM sales_order WHERE ordered LIKE '2023-%' "
        "GROUP BY m ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "How long do customers wait, rush against normal? Give the Y/N mark for each and the "
        "average days from order to "
        "delivery, to one decimal.",
        "SELECT rush, ROUND(AVG(julianday(delivered) - julianday(ordered)), 1) FROM sales_order "
        "WHERE delivered IS NOT NULL GROUP BY rush",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="Anna Lind, the upholsterer, earns 25 euros an hour from now on.",
        gold=[
            "UPDATE worker SET wage_cents = 2500 "
            "WHERE first_name = 'Anna' AND last_name = 'Lind' AND trade = 'upholsterer'"
        ],
        writes="worker",
        wrong=[
            ["UPDATE worker SET wage_cents = 2500 WHERE first_name = 'Anna' AND last_name = 'Lind'"]
        ],
    ),
    dict(
        ask="Order 2375 was a test of the new form. Remove it without a trace, its lines and the work booked on them "
        "included.",
        gold=[
            "DELETE FROM work_step WHERE line_id IN (SELECT line_id FROM order_line WHERE order_no = 2375)",
            "DELETE FROM order_line WHERE order_no = 2375",
            "DELETE FROM sales_order WHERE order_no = 2375",
        ],
        writes="sales_order order_line work_step",
        wrong=[
            ["DELETE FROM sales_order WHERE order_no = 2375"],
            ["DELETE FROM order_line WHERE order_no = 2375"],
        ],
    ),
    dict(
        ask="Felix Brandt has left. Whatever of his design we still sell is credited to Aiko Mori.",
        gold=[
            "UPDATE item SET designer_id = (SELECT worker_id FROM worker WHERE first_name = 'Aiko' AND "
            "last_name = 'Mori') "
            "WHERE retired IS NULL AND designer_id = "
            "(SELECT worker_id FROM worker WHERE first_name = 'Felix' AND last_name = 'Brandt')"
        ],
        writes="item",
        wrong=[["UPDATE item SET designer_id = NULL WHERE designer_id = 24"]],
    ),
    dict(
        ask="We settle all open complaints about scratches: 20 euros each, on 15 July 2024.",
        gold=[
            "UPDATE complaint SET settled = '2024-07-15', refund_cents = 2000 WHERE reason = 'SCR' AND settled IS NULL"
        ],
        writes="complaint",
        rule=True,
        wrong=[
            [
                "UPDATE complaint SET settled = '2024-07-15', refund_cents = 20 WHERE reason = 'SCR' AND "
                "settled IS NULL"
            ],
            [
                "UPDATE complaint SET settled = '2024-07-15', refund_cents = 2000 WHERE reason = 'SCR'"
            ],
        ],
    ),
]
