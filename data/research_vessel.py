"""The logbook of the research ship Marguerite Osei: legs, people, stations, casts and sample jars (fictional)."""

from datetime import date, datetime, timedelta

SPLIT = "test"

SCHEMA = """
CREATE TABLE scientist (
  scientist_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, institute TEXT NOT NULL,
  country TEXT NOT NULL, field TEXT NOT NULL, supervisor_id INTEGER REFERENCES scientist(scientist_id),
  medical_until TEXT);
CREATE TABLE leg (
  leg_code TEXT PRIMARY KEY, title TEXT NOT NULL, from_port TEXT NOT NULL, to_port TEXT NOT NULL,
  sailed TEXT NOT NULL, docked TEXT, chief_id INTEGER NOT NULL REFERENCES scientist(scientist_id),
  co_chief_id INTEGER REFERENCES scientist(scientist_id), miles INTEGER, fuel_tonnes REAL);
CREATE TABLE berth (
  berth_id INTEGER PRIMARY KEY, leg_code TEXT NOT NULL REFERENCES leg(leg_code),
  scientist_id INTEGER NOT NULL REFERENCES scientist(scientist_id), cabin TEXT NOT NULL, bunk TEXT NOT NULL,
  role TEXT NOT NULL, watch TEXT);
CREATE TABLE station (
  station_id INTEGER PRIMARY KEY, leg_code TEXT NOT NULL REFERENCES leg(leg_code), number INTEGER NOT NULL,
  type TEXT NOT NULL, lat REAL NOT NULL, lon REAL NOT NULL, arrived TEXT NOT NULL, bottom_m INTEGER,
  wind INTEGER NOT NULL);
CREATE TABLE instrument (
  instrument_id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, maker TEXT NOT NULL,
  price_cents INTEGER NOT NULL, bought TEXT NOT NULL, calibrated TEXT, status TEXT NOT NULL, note TEXT);
CREATE TABLE lowering (
  lowering_id INTEGER PRIMARY KEY, station_id INTEGER NOT NULL REFERENCES station(station_id),
  instrument_id INTEGER NOT NULL REFERENCES instrument(instrument_id),
  operator_id INTEGER NOT NULL REFERENCES scientist(scientist_id), in_water TEXT NOT NULL, minutes INTEGER NOT NULL,
  deepest_m INTEGER NOT NULL, outcome TEXT NOT NULL, remark TEXT);
CREATE TABLE species (
  species_id INTEGER PRIMARY KEY, latin_name TEXT NOT NULL, common_name TEXT, taxon TEXT NOT NULL,
  red_list TEXT NOT NULL);
CREATE TABLE sample_jar (
  jar_no INTEGER PRIMARY KEY, lowering_id INTEGER NOT NULL REFERENCES lowering(lowering_id), kind TEXT NOT NULL,
  species_id INTEGER REFERENCES species(species_id), headcount INTEGER, salinity REAL, store TEXT NOT NULL,
  shipped TEXT);
"""

# first name | last name | country | field (P physics, B biology, G geology, C chemistry, T technology, O observers)
SENIORS = """
Ingrid|Solheim|Norway|P
Rafael|Quintanilla|Chile|B
Thandiwe|Mokoena|South Africa|B
Hiroshi|Tanabe|Japan|G
Aoife|O'Dwyer|Ireland|B
Maria|Santos|Portugal|C
Kwabena|Asante|Ghana|P
Elena|Voskresenskaya|Norway|G
Pieter|van der Merwe|South Africa|P
Lucía|Ferreyra|Argentina|B
Wei|Chen|China|C
Margit|Lepik|Estonia|P
Samuel|Nakamura-Hill|New Zealand|G
Chiara|Bonfanti|Italy|C
Olafur|Einarsson|Iceland|P
Nadia|Benhaddou|Morocco|B
Jean-Luc|Kermarrec|France|G
Priya|Raghunathan|India|C
Duncan|MacAskill|United Kingdom|B
Sofía|Arancibia|Chile|P
Matthias|Hollenbeck|Germany|P
Beatriz|Tavares|Cabo Verde|B
Anneli|Korhonen|Finland|C
Carlos|Iturralde|Ecuador|B
Ruth|Amutenya|Namibia|B
Gunnar|Dahlberg|Sweden|G
Tomasz|Wrona|Poland|T
Fatou|Diop|Senegal|T
Keith|Brannigan|Ireland|T
Marisol|Pacheco|Peru|T
Sven|Aune|Norway|T
Lerato|Dlamini|South Africa|T
Hamish|Drummond|United Kingdom|O
Colette|D'Aubigny|France|O
Yusuf|Khamis|Kenya|O
Valentina|Rojas|Chile|O
Erik|Solheim|Norway|B
Grace|Oyelowo|Nigeria|C
Hannelore|Petersen|Germany|G
Diego|Villanueva|Peru|P
"""
JUNIORS = """
Maria|Santos|Brazil|B
Wei|Chen|Singapore|P
Niamh|Gallagher|Ireland|B
Tobias|Reinholt|Denmark|C
Zanele|Khumalo|South Africa|B
Ignacio|Cárcamo|Chile|P
Yuki|Morimoto|Japan|G
Freya|Lindqvist|Sweden|B
Abdou|Ndiaye|Senegal|B
Camille|Le Goff|France|C
Arjun|Menon|India|C
Paula|Echeverría|Argentina|B
Mikkel|Rasmussen|Denmark|P
Helena|Nangolo|Namibia|C
Oliver|Whitcombe|United Kingdom|G
Katrin|Saar|Estonia|P
Joaquim|Évora|Cabo Verde|B
Daniela|Mendoza|Peru|B
Leon|Brandt|Germany|G
Siiri|Laine|Finland|B
Ximena|Paredes|Ecuador|C
Emeka|Obi|Nigeria|P
Giulia|Marchetti|Italy|B
Bjarni|Jónsson|Iceland|G
"""
FIELDS = {
    "P": "physical oceanography",
    "B": "marine biology",
    "G": "marine geology",
    "C": "ocean chemistry",
    "T": "ship technology",
    "O": "bird and whale watch",
}
INSTITUTES = {
    "Norway": "Tromsø Polar Institute",
    "Chile": "Universidad Austral del Mar",
    "South Africa": "Cape Ocean Centre",
    "Japan": "Sagami Bay Institute",
    "Ireland": "Galway Deep Sea Lab",
    "Portugal": "Instituto do Mar Profundo",
    "Germany": "Kiel Shelf Institute",
    "France": "Station Marine de Concarneau",
    "Iceland": "Reykjavik Sea Institute",
    "United Kingdom": "Oban Marine Station",
    "Peru": "Callao Fisheries Institute",
    "Brazil": "Universidade de Cabo Frio",
    "Denmark": "Øresund Laboratory",
    "Namibia": "Henties Bay Centre",
    "Cabo Verde": "Mindelo Ocean Centre",
    "Ghana": "Tema Coastal Centre",
    "Argentina": "Centro Oceánico Madryn",
    "China": "Zhoushan Ocean College",
    "Estonia": "Tallinn Sea Laboratory",
    "New Zealand": "Kaikoura Deep Water Trust",
    "Italy": "Istituto Mare Ligure",
    "Morocco": "Institut d'Agadir",
    "India": "Kochi Ocean Institute",
    "Finland": "Turku Archipelago Station",
    "Ecuador": "Instituto Galápagos",
    "Sweden": "Kristineberg Laboratory",
    "Poland": "Gdynia Sea School",
    "Senegal": "Centre Marin de Dakar",
    "Kenya": "Lamu Bird Trust",
    "Nigeria": "Lagos Ocean Laboratory",
    "Singapore": "Straits Marine Institute",
}

# code | title | from | to | sailed | days | lat | lon | usual depth | usual wind
LEGS = """
RV21-01|Iceland Overflow Revisited|Reykjavik|Tromsø|2021-04-12|24|66|-20|900|6
RV21-02|Barents Bloom|Tromsø|Tromsø|2021-05-20|18|74|28|320|4
RV21-03|Cold Corals of the Rockall Bank|Tromsø|Galway|2021-07-03|29|57|-15|850|5
RV21-04|Azores' Hidden Vents|Galway|Ponta Delgada|2021-09-08|26|38|-29|1700|4
RV21-05|Canary Upwelling I|Ponta Delgada|Las Palmas|2021-11-02|21|25|-17|1100|4
RV22-01|Canary Upwelling II|Las Palmas|Mindelo|2022-01-15|19|20|-19|1900|4
RV22-02|Equatorial Line|Mindelo|Walvis Bay|2022-03-02|34|0|-10|4300|3
RV22-03|Benguela Low Oxygen|Walvis Bay|Cape Town|2022-04-25|27|-22|11|600|5
RV22-04|Agulhas Rings|Cape Town|Cape Town|2022-06-20|30|-37|17|3900|6
RV22-05|Walvis Ridge Seamounts|Cape Town|Walvis Bay|2022-08-22|28|-28|4|2100|5
RV22-06|The Whales' Larder|Walvis Bay|Cape Town|2022-10-24|16|-31|14|1500|5
RV23-01|Edge of the Ice|Cape Town|Punta Arenas|2023-01-06|41|-62|-20|3800|6
RV23-02|Drake Passage Repeat Line|Punta Arenas|Punta Arenas|2023-03-01|20|-59|-63|3500|7
RV23-03|Fjords of Patagonia|Punta Arenas|Valparaíso|2023-04-10|25|-48|-76|450|4
RV23-04|Humboldt Squid Hunt|Valparaíso|Callao|2023-06-12|23|-20|-73|2600|3
RV23-05|Nazca Plate Heat Flow|Callao|Valparaíso|2023-08-15|32|-24|-85|3700|4
RV23-06|Atacama Trench Deep|Valparaíso|Antofagasta|2023-10-18|26|-23|-71.5|6400|4
RV24-01|Gear Trials|Antofagasta|Callao|2024-01-22|8|-14|-77.5|1200|3
RV24-02|Galápagos' Eastern Slope|Callao|Guayaquil|2024-02-20|30|-1|-89|2300|3
RV24-03|Caribbean Sargassum|Colón|Willemstad|2024-04-15|14|14|-72|2900|4
RV24-04|Cayman Trough|Willemstad|Bridgetown|2024-06-10|22|18.5|-80|4700|4
RV24-05|Sargasso Eddies|Bridgetown|Hamilton|2024-08-05||28|-60|4300|4
"""
# chief and co-chief of each leg, as numbers in the list of people (seniors 1-40, juniors 41-64; 0: nobody)
LEADERS = [
    (1, 15),
    (12, 1),
    (5, 19),
    (6, 17),
    (16, 6),
    (22, 16),
    (7, 0),
    (3, 25),
    (9, 7),
    (13, 39),
    (3, 5),
    (9, 1),
    (20, 10),
    (2, 10),
    (10, 2),
    (4, 17),
    (8, 4),
    (27, 0),
    (24, 40),
    (16, 14),
    (17, 52),
    (43, 11),
]

# nickname | type | maker | price in euros | bought | calibrated | status | note | last leg
INSTRUMENTS = """
Old Faithful|CTD rosette|Seabright|184500|2014-03-10|2024-01-15|S||
Young Faithful|CTD rosette|Seabright|236800|2021-02-22|2024-01-15|S||
Neptune's Ear|CTD rosette|Halvorsen|91250|2017-06-01|2021-03-05|L|wire parted south of Cape Town|RV22-04
mini rosette|CTD rosette|Halvorsen|48900|2023-01-02|2023-12-11|S||
Big Bertha|box corer|Stahlbau Ems|31400|2011-05-19||S||
Little Bertha|box corer|Stahlbau Ems|17900|2016-09-30||W|frame bent, back in autumn|RV24-02
The Spear|gravity corer|Stahlbau Ems|26350|2012-04-04||S||
The Long Spear|gravity corer|Tarrafal Marine|58700|2022-02-14||S||
Multi Octopus|multi corer|Kaikoura Works|74100|2019-08-08|2023-05-09|S||
Gossamer|plankton net|Hydro-Lin|6450|2018-02-27|2022-11-21|S||
Cobweb|plankton net|Hydro-Lin|6450|2018-02-27|2022-11-21|S||
gossamer II|plankton net|Hydro-Lin|7980|2022-07-15|2023-11-20|S||
Mrs O'Malley|multi net|Kaikoura Works|112600|2020-01-13|2023-02-20|S||
Fat Goose|bottom trawl|Nordnet|22700|2015-10-02||S||
Lean Goose|bottom trawl|Nordnet|19850|2019-10-11||L|torn off on a seamount|RV22-05
Midnight Goose|midwater trawl|Nordnet|34900|2017-03-21|2020-04-02|S||
The Dustpan|rock dredge|Tarrafal Marine|8300|2009-11-16||S||
Crab Comb|rock dredge|Tarrafal Marine|9150|2020-12-01||S||
Cyclops|towed camera|Seabright|67300|2018-05-05|2022-09-12|S||
Argus|towed camera|Kaikoura Works|143000|2023-03-15|2024-02-06|S||
Periscope|towed camera|Halvorsen|38600|2010-06-23|2019-01-30|X|housing flooded, sold for parts|RV21-05
Sea Snail|lander|Halvorsen|88400|2019-04-17|2023-07-24|S||
Lost Sheep|lander|Halvorsen|86100|2019-04-17|2022-05-03|L|did not answer its release, Atacama|RV23-06
Whisper|hydrophone|Hydro-Lin|12750|2021-09-14|2021-09-14|S||
Ruby|lidar buoy|Seabright|205000|2024-05-27||S||
Moon Pool Minnow|glider|Kaikoura Works|121500|2024-03-04|2024-03-04|W|waiting for new batteries|
"""
# latin name | common name | taxon | Red List
SPECIES = """
Calanus finmarchicus||copepod|NE
Calanoides natalis||copepod|NE
Euphausia superba|Antarctic krill|krill|LC
Meganyctiphanes norvegica|northern krill|krill|NE
Periphylla periphylla|helmet jellyfish|jellyfish|NE
Pelagia noctiluca|mauve stinger|jellyfish|NE
Atolla wyvillei|alarm jellyfish|jellyfish|NE
Salpa thompsoni||salp|NE
Clione limacina|sea angel|sea snail|NE
Limacina helicina|sea butterfly|sea snail|NE
Dosidicus gigas|Humboldt squid|cephalopod|DD
Illex argentinus|Argentine shortfin squid|cephalopod|LC
Vampyroteuthis infernalis|vampire squid|cephalopod|LC
Graneledone boreopacifica||cephalopod|LC
Sebastes norvegicus|golden redfish|fish|NT
Hoplostethus atlanticus|orange roughy|fish|VU
Coryphaenoides rupestris|roundnose grenadier|fish|CR
Macrourus holotrachys|bigeye grenadier|fish|LC
Merluccius capensis|shallow-water Cape hake|fish|LC
Merluccius paradoxus|deep-water Cape hake|fish|LC
Engraulis ringens|Peruvian anchoveta|fish|LC
Dissostichus eleginoides|Patagonian toothfish|fish|NE
Centroscymnus coelolepis|Portuguese dogfish|shark|NT
Centrophorus squamosus|leafscale gulper shark|shark|EN
Etmopterus spinax|velvet belly|shark|VU
Somniosus microcephalus|Greenland shark|shark|VU
Dipturus batis|blue skate|ray|CR
Amblyraja hyperborea|Arctic skate|ray|LC
Munida gregaria|squat lobster|crustacean|NE
Nephrops norvegicus|Norway lobster|crustacean|LC
Eurythenes gryllus||crustacean|NE
Pasiphaea multidentata|pink glass shrimp|crustacean|NE
Brisaster fragilis|heart urchin|echinoderm|NE
Psolus phantapus||echinoderm|NE
Elpidia atakama||echinoderm|NE
Ophiomusa lymani||echinoderm|NE
Lophelia pertusa|cockscomb cup coral|coral|NE
Madrepora oculata|zigzag coral|coral|NE
Paragorgia arborea|bubblegum coral|coral|NE
Geodia barretti||sponge|NE
Pheronema carpenteri|bird's nest sponge|sponge|NE
Euplectella aspergillum|Venus' flower basket|sponge|NE
"""
TAKES = {
    "plankton net": "copepod krill jellyfish salp",
    "multi net": "copepod krill jellyfish sea snail",
    "bottom trawl": "fish shark ray crustacean cephalopod",
    "midwater trawl": "fish cephalopod krill jellyfish",
    "rock dredge": "coral sponge echinoderm",
    "box corer": "echinoderm crustacean",
    "lander": "crustacean fish",
}
NO_CATCH = (
    "Euplectella aspergillum",
    "Somniosus microcephalus",
    "Clione limacina",
    "Dipturus batis",
    "Vampyroteuthis infernalis",
)
WHERE_CAUGHT = {  # legs (or the year, before a leg's own number) where a species lives; the others live everywhere
    "Euphausia superba": ("RV23-01", "RV23-02"),
    "Salpa thompsoni": ("RV23-01", "RV23-02"),
    "Limacina helicina": ("RV21-01", "RV21-02", "RV23-01"),
    "Dosidicus gigas": ("RV23-04", "RV23-05", "RV24-02"),
    "Engraulis ringens": ("RV23-04", "RV24-01"),
    "Elpidia atakama": ("RV23-06",),
    "Illex argentinus": ("RV23-02",),
    "Calanus finmarchicus": ("RV21-01", "RV21-02", "RV21-03"),
    "Calanoides natalis": ("RV21-05", "RV22"),
    "Meganyctiphanes norvegica": ("RV21",),
    "Sebastes norvegicus": ("RV21-01", "RV21-02", "RV21-03"),
    "Coryphaenoides rupestris": ("RV21",),
    "Nephrops norvegicus": ("RV21-01", "RV21-03"),
    "Amblyraja hyperborea": ("RV21-01", "RV21-02"),
    "Merluccius capensis": ("RV22-03", "RV22-04", "RV22-05", "RV22-06"),
    "Merluccius paradoxus": ("RV22-03", "RV22-04", "RV22-05", "RV22-06"),
    "Centroscymnus coelolepis": ("RV21", "RV22"),
    "Centrophorus squamosus": ("RV21", "RV22"),
    "Etmopterus spinax": ("RV21", "RV22"),
    "Macrourus holotrachys": ("RV22", "RV23"),
    "Dissostichus eleginoides": ("RV23-01", "RV23-02", "RV23-03"),
    "Munida gregaria": ("RV23-02", "RV23-03"),
    "Graneledone boreopacifica": ("RV23", "RV24"),
    "Psolus phantapus": ("RV21",),
    "Geodia barretti": ("RV21",),
    "Pasiphaea multidentata": ("RV21", "RV22"),
}
TRAWL_LIMIT = 2500  # metres of wire
ABORTED = [
    "aborted: winch alarm",
    "aborted: swell too high",
    "aborted: swell too high",
    "aborted: lost telemetry",
    "aborted: wire spooled badly",
]
EMPTY = {
    "C": "no sample: bottles did not close",
    "B": "no sample: came up empty",
    "V": "no sample: no images recorded",
}


def table(text):
    return [line.split("|") for line in text.strip().splitlines()]


def people(rng):
    seniors, out = table(SENIORS), []
    for i, (first, last, country, f) in enumerate(seniors + table(JUNIORS), 1):
        home = INSTITUTES[country]
        boss = None
        if i > 40:
            same = [k for k, s in enumerate(seniors, 1) if s[3] == f]
            boss = rng.choices(same, [6, 4] + [1] * (len(same) - 2))[0]
        elif i in (19, 24, 37, 40):
            boss = {19: 5, 24: 2, 37: 1, 40: 20}[i]
        until = (
            None
            if rng.random() < 0.12
            else str(date(2023, 1, 1) + timedelta(days=rng.randrange(1100)))
        )
        out.append((i, first, last, home, country, FIELDS[f], boss, until))
    return out


def legs(rng):
    out = []
    for line, (chief, co) in zip(table(LEGS), LEADERS):
        code, title, start, end, sailed, days = line[:6]
        docked = str(date.fromisoformat(sailed) + timedelta(days=int(days))) if days else None
        miles = int(days) * rng.randrange(95, 150) if days else None
        fuel = round(int(days) * rng.uniform(7.5, 11.5), 1) if days else None
        out.append((code, title, start, end, sailed, docked, chief, co or None, miles, fuel))
    return out


def crew_list(rng, leg, k):
    "Scientist numbers and roles of one leg; from 2023 on some former students sail as scientists."
    lead = [(leg[6], "CS")] + ([(leg[7], "CO")] if leg[7] else [])
    taken = [i for i, _ in lead]

    def draw(pool, n):
        got = rng.sample([i for i in pool if i not in taken], n)
        taken.extend(got)
        return got

    regulars = [i for i in list(range(1, 27)) + [37, 38, 40] if i not in (18, 21, 26)]
    students = [i for i in range(41, 61) if k % 3 or i % 2]
    out = lead + [(i, "SC") for i in draw(regulars, rng.randrange(4, 7))]
    out += [(i, "TE") for i in draw([27, 28, 29, 30, 31], rng.randrange(1, 3))]
    grown = (42, 43, 45, 52) if k > 11 else ()
    out += [(i, "SC" if i in grown else "ST") for i in draw(students, rng.randrange(3, 6))]
    if rng.random() < 0.6:
        out += [(i, "OB") for i in draw([33, 34, 35], 1)]
    return out


def berths(rng, all_legs):
    out, sailing = [], {}
    for k, leg in enumerate(all_legs):
        crew = crew_list(rng, leg, k)
        sailing[leg[0]] = [(i, r) for i, r in crew if r in ("SC", "TE", "ST")]
        beds = [(f"{deck}{n:02d}", b) for deck in (2, 3) for n in range(1, 8) for b in "UL"]
        for i, role in crew:
            cabin, bunk = (
                ("401", "S") if role == "CS" else beds.pop(0 if rng.random() < 0.7 else -1)
            )
            watch = (
                rng.choices(["00-04", "04-08", "08-12"], [3, 4, 5])[0]
                if role in ("SC", "TE", "ST")
                else None
            )
            out.append((len(out) + 1, leg[0], i, cabin, bunk, role, watch))
            if role != "CS" and rng.random() < 0.04:  # moved to another cabin on the way
                cabin, bunk = beds.pop(len(beds) // 2)
                out.append((len(out) + 1, leg[0], i, cabin, bunk, role, watch))
    return out, sailing


def stations(rng, all_legs):
    out = []
    for leg, line in zip(all_legs, table(LEGS)):
        days, lat, lon, deep, wind = (
            int(line[5] or 20),
            float(line[6]),
            float(line[7]),
            int(line[8]),
            int(line[9]),
        )
        n = max(3, round(days * rng.uniform(0.3, 0.5)))
        start = datetime.fromisoformat(leg[4]) + timedelta(days=1)
        step = (days - 2) * 1440 // (n + 1)
        for no in range(1, n + 1):
            when = start + timedelta(minutes=no * step - rng.randrange(0, step // 2))
            kind = (
                "test" if no == 1 else rng.choices(["transect", "process", "mooring"], [7, 3, 1])[0]
            )
            bottom = max(35, round(deep * rng.lognormvariate(-0.05, 0.22)))
            out.append(
                (
                    len(out) + 1,
                    leg[0],
                    no,
                    kind,
                    round(lat + rng.gauss(0, 0.9), 3),
                    round(lon + rng.gauss(0, 0.7), 3),
                    when.isoformat(" ", "minutes"),
                    None if rng.random() < 0.06 else bottom,
                    max(0, min(11, round(rng.gauss(wind, 1.7)))),
                )
            )
    return out


def instruments():
    out = []
    for i, (name, kind, maker, price, bought, cal, status, note, _) in enumerate(
        table(INSTRUMENTS), 1
    ):
        out.append(
            (i, name, kind, maker, int(price) * 100, bought, cal or None, status, note or None)
        )
    return out


def reach(rng, kind, bottom):
    "Depth of a full cast in metres."
    if kind in ("plankton net", "multi net"):
        return min(bottom - 5, rng.choice([100, 200, 200, 300, 500, 1000]))
    if kind == "midwater trawl":
        return min(bottom - 10, rng.randrange(150, 900))
    return bottom - 10 if kind in ("CTD rosette", "towed camera") else bottom


def lowerings(rng, all_stations, sailing):
    usual = {line[0]: int(line[8]) for line in table(LEGS)}
    weight = {
        "CTD rosette": 7,
        "plankton net": 4,
        "lander": 1,
        "towed camera": 1.5,
        "hydrophone": 0,
        "lidar buoy": 0,
        "glider": 0,
        "bottom trawl": 1.5,
        "rock dredge": 1.5,
    }
    out = []
    for sid, code, _, _, _, _, arrived, bottom, wind in all_stations:
        gear = [
            (i, g)
            for i, g in enumerate(table(INSTRUMENTS), 1)
            if g[4] < arrived[:10] and (not g[8] or code <= g[8])
        ]
        gear = [
            x for x in gear if (bottom or usual[code]) < TRAWL_LIMIT or x[1][1] != "bottom trawl"
        ]
        crew = [
            i for i, r in sailing[code] for _ in range(4 if r == "TE" else 2 if r == "SC" else 1)
        ]
        when = datetime.fromisoformat(arrived)
        for _ in range(rng.choices([0, 1, 2, 3, 4, 5], [2, 4, 7, 6, 3, 2])[0]):
            i, g = rng.choices(gear, [weight.get(g[1], 2) for _, g in gear])[0]
            deep = max(20, reach(rng, g[1], bottom or usual[code]))
            x = rng.random()
            outcome = "A" if x < 0.03 + 0.03 * max(0, wind - 4) else "F" if x > 0.94 else "C"
            remark = None
            if outcome == "A":
                deep, remark = round(deep * rng.uniform(0.1, 0.8)), rng.choice(ABORTED)
            if outcome == "F":
                remark = EMPTY[
                    "C" if g[1] == "CTD rosette" else "V" if g[1] == "towed camera" else "B"
                ]
            minutes = round(deep / rng.uniform(22, 32) + rng.randrange(12, 50))
            out.append(
                (
                    len(out) + 1,
                    sid,
                    i,
                    rng.choice(crew),
                    when.isoformat(" ", "minutes"),
                    minutes,
                    deep,
                    outcome,
                    remark,
                )
            )
            when += timedelta(minutes=minutes + rng.randrange(20, 90))
    return out


def jars(rng, all_lowerings, all_stations, all_legs):
    leg_of = {s[0]: s[1] for s in all_stations}
    docked = {leg[0]: leg[5] for leg in all_legs}
    tools, kinds = table(INSTRUMENTS), table(SPECIES)
    out = []

    def add(low, kind, species, head, salt, store):
        home = docked[leg_of[low[1]]]
        sent = None
        if home and rng.random() < 0.88:
            sent = str(date.fromisoformat(home) + timedelta(days=rng.choice([4, 4, 4, 33])))
        out.append((4000 + len(out) + 1, low[0], kind, species, head, salt, store, sent))

    for low in all_lowerings:
        if low[7] != "C":
            continue
        gear = tools[low[2] - 1][1]
        if gear == "CTD rosette":
            for _ in range(rng.randrange(1, 5)):
                salt = None if rng.random() < 0.05 else round(rng.gauss(34.9, 0.55), 3)
                add(low, "W", None, None, salt, rng.choices(["RT", "4C", "F20"], [5, 3, 2])[0])
        if "corer" in gear:
            for _ in range(rng.randrange(1, 4)):
                add(low, "S", None, None, None, rng.choices(["4C", "F20"], [4, 1])[0])
        groups = TAKES.get(gear)
        pool = [
            (i, s)
            for i, s in enumerate(kinds, 1)
            if groups
            and s[2] in groups
            and s[0] not in NO_CATCH
            and leg_of[low[1]].startswith(WHERE_CAUGHT.get(s[0], "RV"))
        ]
        for _ in range(rng.choices([1, 2, 3, 4], [4, 4, 2, 1])[0] if pool else 0):
            i, s = rng.choices(pool, [5 if s[0] in WHERE_CAUGHT else 2 for _, s in pool])[0]
            head = (
                None if s[2] in ("coral", "sponge") else max(1, round(rng.lognormvariate(1.3, 1)))
            )
            if s[2] in ("copepod", "krill", "salp"):
                head = head * rng.randrange(8, 30)
            add(low, "B", i, head, None, rng.choices(["F20", "F80", "RT"], [4, 3, 3])[0])
    return out


def rows(rng):
    "Rows of every table: {table: [tuples in column order]}; `rng` is a random.Random."
    scientists, trips = people(rng), legs(rng)
    beds, sailing = berths(rng, trips)
    stops = stations(rng, trips)
    casts = lowerings(rng, stops, sailing)
    species = [(i, s[0], s[1] or None, s[2], s[3]) for i, s in enumerate(table(SPECIES), 1)]
    return {
        "scientist": scientists,
        "leg": trips,
        "berth": beds,
        "station": stops,
        "instrument": instruments(),
        "lowering": casts,
        "species": species,
        "sample_jar": jars(rng, casts, stops, trips),
    }


QUESTIONS = [
    # easy
    (
        "How many casts did we have to break off early?",
        "SELECT COUNT(*) FROM lowering WHERE outcome = 'A'",
    ),
    (
        "What is the greatest depth, in metres, that any of our gear has been lowered to?",
        "SELECT MAX(deepest_m) FROM lowering",
    ),
    (
        "Which of our instruments have been lost? Give their names.",
        "SELECT name FROM instrument WHERE status = 'L'",
    ),
    (
        "What was the title of the expedition leg that finished in Ponta Delgada?",
        "SELECT title FROM leg WHERE to_port = 'Ponta Delgada'",
    ),
    (
        "How many jars are still on board, waiting to be shipped?",
        "SELECT COUNT(*) FROM sample_jar WHERE shipped IS NULL",
    ),
    (
        "Over all the water samples that have a reading, what is the mean salinity, to two decimals?",
        "SELECT ROUND(AVG(salinity), 2) FROM sample_jar",
    ),
    (
        "Which species on our list have no common name? Latin names, please.",
        "SELECT latin_name FROM species WHERE common_name IS NULL",
    ),
    (
        "What did we pay for all our instruments together, in euros?",
        "SELECT SUM(price_cents) / 100.0 FROM instrument",
    ),
    ("Who built the Multi Octopus?", "SELECT maker FROM instrument WHERE name = 'Multi Octopus'"),
    (
        "How many different people have ever had a berth on the ship?",
        "SELECT COUNT(DISTINCT scientist_id) FROM berth",
    ),
    # medium
    (
        "Who was chief scientist on Fjords of Patagonia? First name and last name.",
        "SELECT s.first_name, s.last_name FROM leg AS l JOIN scientist AS s ON s.scientist_id = l.chief_id "
        "WHERE l.title = 'Fjords of Patagonia'",
    ),
    (
        "How many minutes did a cast with Big Bertha take on average, aborted and empty ones included? Two decimals, "
        "please.",
        "SELECT ROUND(AVG(w.minutes), 2) FROM lowering AS w JOIN instrument AS i ON i.instrument_id = w.instrument_id "
        "WHERE i.name = 'Big Bertha'",
    ),
    (
        "For the insurers I need the names of our five most expensive instruments, dearest first.",
        "SELECT name FROM instrument ORDER BY price_cents DESC LIMIT 5",
    ),
    (
        "Where is the station with the deepest sea floor we have on record? Give the latitude, then the longitude.",
        "SELECT lat, lon FROM station ORDER BY bottom_m DESC LIMIT 1",
    ),
    (
        "For each of the three watches, how many different people have ever stood it? Give the watch and the number of "
        "people.",
        "SELECT watch, COUNT(DISTINCT scientist_id) FROM berth WHERE watch IS NOT NULL GROUP BY watch",
    ),
    (
        "Which instruments have no calibration on record although they are in service? Names, please.",
        "SELECT name FROM instrument WHERE calibrated IS NULL AND status = 'S'",
    ),
    (
        "At how many stations south of the equator was the sea floor deeper than 3500 metres?",
        "SELECT COUNT(*) FROM station WHERE lat < 0 AND bottom_m > 3500",
    ),
    (
        "Two of our people are called Wei Chen. How many casts did the one from China run?",
        "SELECT COUNT(*) FROM lowering AS w JOIN scientist AS s ON s.scientist_id = w.operator_id "
        "WHERE s.first_name = 'Wei' AND s.last_name = 'Chen' AND s.country = 'China'",
    ),
    (
        "Which leg burned the most fuel? Its title will do.",
        "SELECT title FROM leg ORDER BY fuel_tonnes DESC LIMIT 1",
    ),
    (
        "How many orange roughy have we counted into jars altogether?",
        "SELECT SUM(j.headcount) FROM sample_jar AS j JOIN species AS p ON p.species_id = j.species_id "
        "WHERE p.common_name = 'orange roughy'",
    ),
    (
        "Zanele Khumalo is after a signature: what is the last name of her supervisor?",
        "SELECT b.last_name FROM scientist AS a JOIN scientist AS b ON b.scientist_id = a.supervisor_id "
        "WHERE a.last_name = 'Khumalo'",
    ),
    (
        "Which jars of sediment went into the freezer at minus 20, whether shipped since or not? Jar numbers, please.",
        "SELECT jar_no FROM sample_jar WHERE kind = 'S' AND store = 'F20'",
    ),
    (
        "Of all voyages that have ended, which was the longest in days from sailing to docking? Give me the title.",
        "SELECT title FROM leg ORDER BY julianday(docked) - julianday(sailed) DESC LIMIT 1",
    ),
    # hard
    (
        "Which was the cheapest instrument we ever bought? If several share the lowest price, name them all.",
        "SELECT name FROM instrument WHERE price_cents = (SELECT MIN(price_cents) FROM instrument)",
    ),
    (
        "Which species on our list have never ended up in one of our jars? Latin names, please.",
        "SELECT latin_name FROM species AS p WHERE NOT EXISTS "
        "(SELECT 1 FROM sample_jar AS j WHERE j.species_id = p.species_id)",
    ),
    (
        "Who has led one leg as chief scientist and served as co-chief on another? First and last names.",
        "SELECT first_name, last_name FROM scientist WHERE scientist_id IN "
        "(SELECT chief_id FROM leg INTERSECT SELECT co_chief_id FROM leg)",
    ),
    (
        "Of the casts made at stations where the wind blew force 7 or more, what percentage was aborted? One decimal, "
        "please.",
        "SELECT ROUND(100.0 * SUM(CASE WHEN w.outcome = 'A' THEN 1 ELSE 0 END) / COUNT(*), 1) FROM lowering AS w "
        "JOIN station AS s ON s.station_id = w.station_id WHERE s.wind >= 7",
    ),
    (
        "How many casts took longer than the average cast made with the same type of instrument?",
        "WITH c AS (SELECT w.minutes, i.type FROM lowering AS w JOIN instrument AS i "
        "ON i.instrument_id = w.instrument_id), a AS (SELECT type, AVG(minutes) AS usual FROM c GROUP BY type) "
        "SELECT COUNT(*) FROM c JOIN a ON a.type = c.type WHERE c.minutes > a.usual",
    ),
    (
        "For the legs that sailed in 2023, how many different species did each bring up in jars? "
        "Give title and number, "
        "leaving out legs that brought none.",
        "SELECT l.title, COUNT(DISTINCT j.species_id) FROM leg AS l JOIN station AS s ON s.leg_code = l.leg_code "
        "JOIN lowering AS w ON w.station_id = s.station_id JOIN sample_jar AS j ON j.lowering_id = w.lowering_id "
        "WHERE l.sailed LIKE '2023-%' AND j.species_id IS NOT NULL GROUP BY l.leg_code, l.title",
    ),
    (
        "Who has run the most casts of all? Just the last name, please.",
        "SELECT s.last_name FROM lowering AS w JOIN scientist AS s ON s.scientist_id = w.operator_id "
        "GROUP BY s.scientist_id, s.last_name ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "What remark is written most often against aborted casts? Please quote it word for word from the log.",
        "SELECT remark FROM lowering WHERE outcome = 'A' GROUP BY remark ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "On which legs that sailed in 2024 did somebody berthed as a student have their own supervisor aboard? "
        "Each title once.",
        "SELECT DISTINCT l.title FROM berth AS b JOIN scientist AS s ON s.scientist_id = b.scientist_id "
        "JOIN berth AS c ON c.leg_code = b.leg_code AND c.scientist_id = s.supervisor_id "
        "JOIN leg AS l ON l.leg_code = b.leg_code WHERE b.role = 'ST' AND l.sailed LIKE '2024-%'",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="Little Bertha is back from the workshop and in service again. The note about her can go.",
        gold=["UPDATE instrument SET status = 'S', note = NULL WHERE name = 'Little Bertha'"],
        writes="instrument",
        wrong=[
            [
                "UPDATE instrument SET status = 'S', note = NULL WHERE name LIKE '%Bertha%' OR status = 'W'"
            ]
        ],
    ),
    dict(
        ask="On leg RV24-05 the Maria Santos from Brazil falls ill. Wei Chen from Singapore takes her bunk, "
        "with the same "
        "duties.",
        gold=[
            "UPDATE berth SET scientist_id = (SELECT scientist_id FROM scientist WHERE first_name = 'Wei' "
            "AND last_name = 'Chen' AND country = 'Singapore') WHERE leg_code = 'RV24-05' AND scientist_id = "
            "(SELECT scientist_id FROM scientist WHERE first_name = 'Maria' AND last_name = 'Santos' "
            "AND country = 'Brazil')"
        ],
        writes="berth",
        wrong=[
            ["UPDATE berth SET scientist_id = 42 WHERE scientist_id = 41"],
            ["UPDATE berth SET scientist_id = 11 WHERE scientist_id = 41 AND leg_code = 'RV24-05'"],
        ],
    ),
    dict(
        ask="All jars kept at room temperature that are still on board were sent off on 2 September 2024. "
        "Note the day.",
        gold=[
            "UPDATE sample_jar SET shipped = '2024-09-02' WHERE store = 'RT' AND shipped IS NULL"
        ],
        writes="sample_jar",
        rule=True,
        wrong=[["UPDATE sample_jar SET shipped = '2024-09-02' WHERE store = 'RT'"]],
    ),
]
