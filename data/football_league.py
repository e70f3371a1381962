"""The office of the Port Callan Sunday League: two amateur football seasons on and off the pitch (fictional)."""

from datetime import date, timedelta

SPLIT = "train"
SCHEMA = """
CREATE TABLE ground (ground_id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL, capacity INTEGER NOT NULL,
    surface TEXT NOT NULL, floodlit TEXT NOT NULL);
CREATE TABLE club (club_id INTEGER PRIMARY KEY, name TEXT NOT NULL, founded INTEGER NOT NULL, colours TEXT NOT NULL,
    home_ground INTEGER NOT NULL REFERENCES ground(ground_id), folded_on TEXT);
CREATE TABLE player (player_id INTEGER PRIMARY KEY, name TEXT NOT NULL, born TEXT NOT NULL, pos TEXT NOT NULL,
    foot TEXT NOT NULL, club_id INTEGER REFERENCES club(club_id));
CREATE TABLE referee (referee_id INTEGER PRIMARY KEY, name TEXT NOT NULL, level INTEGER NOT NULL,
    since INTEGER NOT NULL, mentor_id INTEGER REFERENCES referee(referee_id));
CREATE TABLE fixture (fixture_id INTEGER PRIMARY KEY, season TEXT NOT NULL, round INTEGER NOT NULL, day TEXT NOT NULL,
    home_club INTEGER NOT NULL REFERENCES club(club_id), away_club INTEGER NOT NULL REFERENCES club(club_id),
    ground_id INTEGER NOT NULL REFERENCES ground(ground_id), referee_id INTEGER REFERENCES referee(referee_id),
    status TEXT NOT NULL, home_goals INTEGER, away_goals INTEGER, gate INTEGER);
CREATE TABLE goal (goal_id INTEGER PRIMARY KEY, fixture_id INTEGER NOT NULL REFERENCES fixture(fixture_id),
    player_id INTEGER NOT NULL REFERENCES player(player_id), credited_to INTEGER NOT NULL REFERENCES club(club_id),
    minute INTEGER NOT NULL, type TEXT NOT NULL);
CREATE TABLE booking (booking_id INTEGER PRIMARY KEY, fixture_id INTEGER NOT NULL REFERENCES fixture(fixture_id),
    player_id INTEGER NOT NULL REFERENCES player(player_id), minute INTEGER NOT NULL, card TEXT NOT NULL, reason TEXT);
CREATE TABLE transfer (transfer_id INTEGER PRIMARY KEY, player_id INTEGER NOT NULL REFERENCES player(player_id),
    from_club INTEGER REFERENCES club(club_id), to_club INTEGER REFERENCES club(club_id), moved_on TEXT NOT NULL,
    type TEXT NOT NULL, fee INTEGER);
"""

GROUNDS = [
    ("Harbour Road", "Port Callan", 1850, "grass", "Y"),
    ("The Gasworks", "Port Callan", 900, "3G", "Y"),
    ("St Brendan's Park", "Port Callan", 1200, "grass", "N"),
    ("Mill Meadow", "Tarrick", 650, "grass", "N"),
    ("Quarry Bank", "Slatehill", 720, "grass", "N"),
    ("King's Acre", "Old Marden", 1400, "grass", "Y"),
    ("The Cowpatch", "Ewesbridge", 300, "grass", "N"),
    ("Station Lane", "Tarrick", 480, "ash", "N"),
    ("Lido Field", "Sandrey", 560, "3G", "Y"),
    ("Windmill End", "Sandrey", 410, "grass", "N"),
    ("Cathedral Green", "Old Marden", 500, "grass", "N"),
    ("Council Pitch No. 4", "Slatehill", 250, "ash", "N"),
    ("University Dome", "Port Callan", 1000, "3G", "Y"),
]
# name, founded, colours, home ground, strength
CLUBS = [
    ("Port Callan Dockers", 1921, "red and black", 1, 1.9),
    ("Gasworks Athletic", 1934, "yellow and blue", 2, 1.5),
    ("St Brendan's Celtic", 1908, "green and white", 3, 1.75),
    ("Tarrick Millers", 1947, "white and navy", 4, 1.2),
    ("Slatehill Quarrymen", 1899, "grey and orange", 5, 1.45),
    ("Old Marden Town", 1888, "claret and gold", 6, 1.8),
    ("Ewesbridge Rovers", 1971, "green and white", 7, 0.8),
    ("Tarrick Railway", 1926, "black and white", 8, 1.0),
    ("Sandrey Lions", 1963, "sky blue and white", 9, 1.55),
    ("Windmill End Rangers", 1979, "red and white", 10, 1.1),
    ("Bishop's Wanderers", 1902, "purple and white", 11, 1.3),
    ("FC Lusitânia", 1986, "red and green", 2, 1.4),
    ("Slatehill United", 1958, "orange and white", 12, 0.7),
    ("Callan Phoenix", 2023, "black and gold", 3, 1.25),
    ("Night Shift FC", 2024, "dark blue", 13, 1.0),
]
GIVEN = """Aidan Bilal Cormac Diego Eduardo Farid Gareth Hakan Ivo Jamie Kofi Liam Mehmet Niall Omar Piotr Quim Ryan
Samir Tendai Umar Viktor Wesley Xabi Yannick Zeki Abdul Bogdan Callum Danilo Emre Felipe Giorgos Hugo Isaac Joao Kenji
Luca Marek Nnamdi Oisin Patryk Rhys Stefan Tariq Uche Vasile Will Yusuf Zdenek""".split()
FAMILY = """Abara Bello Costa Doyle Evans Fonseca Gallagher Hughes Ionescu Jansen Kaya Lopes Mbeki Nowak O'Neill Pires
Quinn Rossi Silva Tanaka Ural Varga Walsh Xhaka Yilmaz Zielinski Adeleke Byrne Cissé D'Souza Ekström Farrell Gomes
Hossain Ivanov Joyce Kelleher Lindqvist Moyo Nkosi O'Brien Popescu Rashid Sheehan Tavares Usman Vieira Whelan
Yeboah Zammit""".split()
REFEREES = [
    ("Bernadette Coyle", 1),
    ("Anselm Okoro", 1),
    ("Tiago Marques", 2),
    ("Margaret Hsu", 2),
    ("Owen Pritchard", 2),
    ("Leszek Wrona", 2),
    ("Shabnam Akhtar", 3),
    ("Patrick O'Hara", 3),
    ("Dieter Klein", 3),
    ("Yewande Cole", 3),
    ("Jonas Berg", 4),
    ("Carla Mancini", 4),
    ("Ross McTavish", 4),
    ("Ines Duarte", 4),
    ("Patrick O'Hara", 4),
    ("Huw Bevan", 5),
    ("Senga Muir", 5),
]
MENTORS = [None, None, 1, 1, 2, 1, 3, 3, 2, 4, 3, 4, 7, 1, 8, 3, None]
REASONS = [
    "foul",
    "foul",
    "foul",
    "foul",
    "dissent",
    "dissent",
    "time wasting",
    "handball",
    "shirt pulling",
    "language",
]
SHARP = {"FW": 4, "MF": 1.4, "DF": 0.5, "GK": 0.01}  # how often each position scores
SENT_OFF = ["second yellow", "second yellow", "violent conduct", "denying a goal", "language"]


def people(rng, count):
    "Player names: nearly all different, three pairs of namesakes."
    names = rng.sample([f"{g} {f}" for g in GIVEN for f in FAMILY], count)
    for a, b in ((5, 120), (33, 170), (78, 201)):
        names[b] = names[a]
    return names


def players(rng):
    "Squads of 16 to 20, keepers first; the last few only sign on later or never."
    out, squads = [], {c: [] for c in range(1, 16)}
    names = people(rng, 262)
    for club, squad in squads.items():
        for k in range(0 if club > 13 else rng.choice([16, 17, 18, 18, 19, 20])):
            squad.append(add_player(rng, out, names, "GK" if k < 2 else None))
    while len(out) < len(names):
        add_player(rng, out, names)
    return out, squads


def add_player(rng, out, names, pos=None):
    "Register one player and give back the number."
    pos = pos or rng.choices(["DF", "MF", "FW"], [7, 7, 4])[0]
    born = date(1982, 1, 1) + timedelta(days=round(8900 * (1 - rng.random() ** 1.5)))
    out.append(
        [len(out) + 1, names[len(out)], str(born), pos, rng.choices("RLB", [70, 24, 6])[0], None]
    )
    return len(out)


def referees():
    "The list of referees with the mentor who brought them on."
    years = [
        1996,
        2001,
        2004,
        2006,
        2009,
        2005,
        2012,
        2013,
        2008,
        2015,
        2017,
        2018,
        2019,
        2014,
        2021,
        2022,
        2023,
    ]
    return [(i + 1, *r, years[i], MENTORS[i]) for i, r in enumerate(REFEREES)]


def calendar(rng, clubs, start):
    "Double round robin (circle method) on Sundays: [(round, day, home, away)]."
    ring, games = list(clubs), []
    rng.shuffle(ring)
    for r in range(11):
        for i in range(6):
            pair = (ring[i], ring[11 - i]) if (r + i) % 2 else (ring[11 - i], ring[i])
            games.append((r + 1, *pair))
            games.append((r + 12, *pair[::-1]))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    games.sort()
    weeks = {r: r - 1 + 5 * (r > 11) for r in range(1, 23)}  # the winter break comes after round 11
    return [(r, start + timedelta(days=7 * weeks[r]), home, away) for r, home, away in games]


def how_many(rng, mean):
    "A Poisson draw by multiplication."
    n, p = 0, rng.random()
    while p > 2.718281828**-mean:
        n, p = n + 1, p * rng.random()
    return n


class League:
    "Plays the seasons in order, moving players between the windows."

    def __init__(self, rng):
        self.rng = rng
        self.roll, self.squads = players(rng)
        self.fixtures, self.goals, self.bookings, self.moves, self.lent = [], [], [], [], {}
        self.flair = [rng.random() ** 3 * SHARP[p[3]] for p in self.roll]
        self.temper = [rng.random() ** 2 + 0.02 if rng.random() < 0.9 else 0 for _ in self.roll]

    def home_of(self, player):
        return next((c for c, squad in self.squads.items() if player in squad), None)

    def move(self, player, to, day, kind, fee=None):
        "One transfer: leave the old club, join the new one (None: outside the league)."
        old = self.home_of(player)
        if old:
            self.squads[old].remove(player)
        if to:
            self.squads[to].append(player)
        self.moves.append((player, old, to, str(day), kind, fee))

    def loans_end(self, day):
        "Everybody on loan goes back to the lending club."
        for player, lender in self.lent.items():
            self.move(player, lender, day, "BACK")
        self.lent = {}

    def window(self, start, days, count, open_clubs):
        "A transfer window: most move within the league, some come from or go outside it."
        rng, done = self.rng, []  # nobody moves twice in one window
        for shift in sorted(rng.randrange(days) for _ in range(count)):
            day = start + timedelta(days=shift)
            dice = rng.random()
            busy = [c for c in open_clubs if len(self.squads[c]) > 14]
            if dice < 0.2 or not busy:
                newcomers = [
                    p[0] for p in self.roll[:-9] if self.home_of(p[0]) is None and p[0] not in done
                ]
                if newcomers:
                    done.append(rng.choice(newcomers))
                    self.move(done[-1], rng.choice(open_clubs), day, "FREE")
                continue
            source = rng.choice(busy)
            player = rng.choice(
                [p for p in self.squads[source][2:] if p not in self.lent and p not in done]
            )
            done.append(player)
            if dice < 0.3:
                self.move(player, None, day, "FREE")
                continue
            others = [c for c in open_clubs if c != source]
            to = rng.choices(others, [CLUBS[c - 1][4] for c in others])[0]
            kind = rng.choices(["PERM", "LOAN", "FREE"], [5, 3, 4])[0]
            if kind == "LOAN":
                self.lent[player] = source
            fee = rng.choice([50, 80, 100, 120, 150, 200, 250, 300, 450, 600]) + 5 * rng.randrange(
                4
            )
            self.move(player, to, day, kind, fee if kind == "PERM" else None)

    def season(self, name, clubs, start, winter):
        "Every match of one season, with a window in the winter break."
        done = False
        for rnd, day, home, away in calendar(self.rng, clubs, start):
            if rnd > 11 and not done:
                done = True
                self.window(winter, 24, 16, clubs)
            self.match(name, rnd, day, home, away)

    def match(self, season, rnd, day, home, away):
        rng, fid = self.rng, len(self.fixtures) + 1
        status = rng.choices(["FT", "PP", "AB", "WO"], [226, 17, 5, 6])[0]
        referee = None if status in ("PP", "WO") or rng.random() < 0.03 else self.official(rnd)
        ground = CLUBS[home - 1][3] if rng.random() < 0.95 else 13
        score, gate = (None, None), None
        if status == "WO":
            score = (3, 0) if rng.random() < 0.8 else (0, 3)
        if status == "FT":
            mine, theirs = CLUBS[home - 1][4], CLUBS[away - 1][4]
            score = (
                how_many(rng, 1.25 * mine / theirs**0.5),
                how_many(rng, 0.95 * theirs / mine**0.5),
            )
            if rng.random() < 0.88:
                crowd = rng.gauss(95, 24) * (mine + theirs) / 2 + 8 * rng.random() * rnd
                gate = min(GROUNDS[ground - 1][2], round(crowd))
        self.fixtures.append(
            (fid, season, rnd, str(day), home, away, ground, referee, status, *score, gate)
        )
        if status == "FT":
            self.score(fid, home, away, score)
        if status in ("FT", "AB"):
            self.cards(fid, home, away, 40 if status == "AB" else 90)

    def official(self, rnd):
        "Better levels whistle more; the newest referee has not had a match yet."
        return self.rng.choices(range(1, 17), [6 - r[1] + (r[1] == 2) for r in REFEREES[:16]])[0]

    def score(self, fid, home, away, score):
        rng, sides = self.rng, [home] * score[0] + [away] * score[1]
        rng.shuffle(sides)
        for minute, club in zip(sorted(rng.randrange(2, 95) for _ in sides), sides):
            other = away if club == home else home
            kind = rng.choices(["PLAY", "PEN", "FK", "HD", "OG"], [62, 10, 6, 18, 4])[0]
            team = self.squads[other if kind == "OG" else club]
            weights = [1] * len(team) if kind == "OG" else [self.flair[p - 1] + 0.005 for p in team]
            scorer = rng.choices(team, weights)[0]
            self.goals.append((len(self.goals) + 1, fid, scorer, club, minute, kind))

    def cards(self, fid, home, away, until):
        rng, shown, gone = self.rng, {}, []
        both = self.squads[home] + self.squads[away]
        for minute in sorted(
            rng.randrange(4, until + 4) for _ in range(how_many(rng, 2.7 if until == 90 else 5))
        ):
            player = rng.choices(both, [self.temper[p - 1] for p in both])[0]
            if player in gone:
                continue
            scored = max((g[4] for g in self.goals if g[1] == fid and g[2] == player), default=0)
            straight = rng.random() < 0.04
            reason = (
                None if rng.random() < 0.07 else rng.choice(SENT_OFF[2:] if straight else REASONS)
            )
            if minute <= scored and (straight or player in shown):
                continue  # still on the pitch for a goal later on
            if straight:
                gone.append(player)
            self.bookings.append((fid, player, minute, "R" if straight else "Y", reason))
            if not straight and player in shown:
                gone.append(player)
                self.bookings.append((fid, player, minute, "R", "second yellow"))
            shown[player] = True


def rows(rng):
    "Rows of every table: {table: [tuples in column order]}."
    league = League(rng)
    league.season("2022/23", range(1, 13), date(2022, 9, 4), date(2022, 11, 25))
    league.loans_end(date(2023, 6, 4))
    summer = date(2023, 6, 12)
    for player in list(league.squads[7]):  # Ewesbridge Rovers fold, Slatehill United come up
        to = rng.choice([13, 13, 13, 4, 8, 10, None, None])
        league.move(player, to, summer + timedelta(days=rng.randrange(20)), "FREE")
    league.window(date(2023, 7, 3), 50, 46, [*range(1, 7), *range(8, 14)])
    league.season("2023/24", [*range(1, 7), *range(8, 14)], date(2023, 9, 3), date(2023, 11, 24))
    league.loans_end(date(2024, 6, 2))
    for player in rng.sample(league.squads[1] + league.squads[9] + league.squads[12], 13):
        league.move(player, 14, date(2024, 6, 3) + timedelta(days=rng.randrange(20)), "FREE")
    for p in league.roll:
        p[5] = league.home_of(p[0])
    clubs = [(i, *c[:4], "2023-06-10" if i == 7 else None) for i, c in enumerate(CLUBS, 1)]
    moves = sorted(league.moves, key=lambda m: m[3])
    return {
        "ground": [(i, *g) for i, g in enumerate(GROUNDS, 1)],
        "club": clubs,
        "player": [tuple(p) for p in league.roll],
        "referee": referees(),
        "fixture": league.fixtures,
        "goal": league.goals,
        "booking": [(i, *b) for i, b in enumerate(league.bookings, 1)],
        "transfer": [(i, *m) for i, m in enumerate(moves, 1)],
    }


QUESTIONS = [
    (
        "How many goals have come from the penalty spot in the two seasons?",
        "SELECT COUNT(*) FROM goal WHERE type = 'PEN'",
    ),
    (
        "What are the colours of the Sandrey Lions?",
        "SELECT colours FROM club WHERE name = 'Sandrey Lions'",
    ),
    ("What is the biggest crowd we have ever counted at a match?", "SELECT MAX(gate) FROM fixture"),
    (
        "How many of the registered players are without a club at the moment?",
        "SELECT COUNT(*) FROM player WHERE club_id IS NULL",
    ),
    (
        "We want to try a Friday evening match: which grounds have floodlights?",
        "SELECT name FROM ground WHERE floodlit = 'Y'",
    ),
    (
        "How many spectators does the average grass ground hold, to one decimal?",
        "SELECT ROUND(AVG(capacity), 1) FROM ground WHERE surface = 'grass'",
    ),
    (
        "On what date did Ewesbridge Rovers fold?",
        "SELECT folded_on FROM club WHERE name = 'Ewesbridge Rovers'",
    ),
    (
        "How many different players have seen a red card so far?",
        "SELECT COUNT(DISTINCT player_id) FROM booking WHERE card = 'R'",
    ),
    (
        "What is the total of all the transfer fees we have on record?",
        "SELECT SUM(fee) FROM transfer",
    ),
    (
        "What is the date of birth of the oldest player registered with us?",
        "SELECT MIN(born) FROM player",
    ),
    (
        "We keep mixing up the player cards of namesakes: which names are shared by more than one player?",
        "SELECT name FROM player GROUP BY name HAVING COUNT(*) > 1",
    ),
    (
        "How many home wins did the 2022/23 season bring, walkovers included?",
        "SELECT COUNT(*) FROM fixture WHERE season = '2022/23' AND home_goals > away_goals",
    ),
    (
        "How many matches ended level in each season? Give me the season and the number.",
        "SELECT season, COUNT(*) FROM fixture WHERE home_goals = away_goals GROUP BY season",
    ),
    (
        "Who is the youngest player in the whole league, club or no club?",
        "SELECT name FROM player ORDER BY born DESC LIMIT 1",
    ),
    (
        "The Old Marden Town coach needs left-footers. Which of his present players are left-footed, "
        "not counting two-footed ones?",
        "SELECT p.name FROM player AS p JOIN club AS c ON c.club_id = p.club_id "
        "WHERE c.name = 'Old Marden Town' AND p.foot = 'L'",
    ),
    (
        "Where do Bishop's Wanderers play at home? Just the name of the ground.",
        "SELECT g.name FROM club AS c JOIN ground AS g ON g.ground_id = c.home_ground "
        "WHERE c.name = 'Bishop''s Wanderers'",
    ),
    (
        "How many goals has Ryan Vieira scored, own goals not counted?",
        "SELECT COUNT(*) FROM goal AS g JOIN player AS p ON p.player_id = g.player_id "
        "WHERE p.name = 'Ryan Vieira' AND g.type <> 'OG'",
    ),
    (
        "What do referees show cards for? I'd like every reason written down, with the number of cards, yellow and red "
        "together.",
        "SELECT reason, COUNT(*) FROM booking WHERE reason IS NOT NULL GROUP BY reason",
    ),
    (
        "Which referee is the mentor of Ross McTavish?",
        "SELECT m.name FROM referee AS r JOIN referee AS m ON m.referee_id = r.mentor_id WHERE "
        "r.name = 'Ross McTavish'",
    ),
    (
        "What was the average crowd at Old Marden Town's home matches, where one was counted? One decimal, please.",
        "SELECT ROUND(AVG(f.gate), 1) FROM fixture AS f JOIN club AS c ON c.club_id = f.home_club "
        "WHERE c.name = 'Old Marden Town'",
    ),
    (
        "Who has ever scored straight from a free kick? Each name once, please.",
        "SELECT DISTINCT p.name FROM goal AS g JOIN player AS p ON p.player_id = g.player_id WHERE g.type = 'FK'",
    ),
    (
        "How many headed goals were scored in the 75th minute or later?",
        "SELECT COUNT(*) FROM goal WHERE type = 'HD' AND minute >= 75",
    ),
    (
        "Of the moves made in the calendar year 2023, how many involved a fee?",
        "SELECT COUNT(*) FROM transfer WHERE fee IS NOT NULL AND moved_on BETWEEN '2023-01-01' AND '2023-12-31'",
    ),
    (
        "Which three clubs topped the 2022/23 table, best first, and on how many points? It's "
        "three for a win, walkovers "
        "too, and one for a draw.",
        "SELECT c.name, SUM(CASE WHEN r.own > r.other THEN 3 WHEN r.own = r.other THEN 1 ELSE 0 END) AS points FROM "
        "(SELECT season, home_club AS club_id, home_goals AS own, away_goals AS other FROM fixture UNION ALL "
        "SELECT season, away_club, away_goals, home_goals FROM fixture) AS r JOIN club AS c ON c.club_id = r.club_id "
        "WHERE r.season = '2022/23' GROUP BY c.club_id, c.name ORDER BY points DESC LIMIT 3",
    ),
    (
        "Which players have scored for three different clubs, own goals aside?",
        "SELECT p.name FROM goal AS g JOIN player AS p ON p.player_id = g.player_id WHERE g.type <> 'OG' "
        "GROUP BY p.player_id, p.name HAVING COUNT(DISTINCT g.credited_to) = 3",
    ),
    (
        "Of the matches that were really played to the end, what percentage did the home side "
        "win? One decimal, please.",
        "SELECT ROUND(100.0 * SUM(CASE WHEN home_goals > away_goals THEN 1 ELSE 0 END) / COUNT(*), 1) "
        "FROM fixture WHERE status = 'FT'",
    ),
    (
        "Which clubs on our books do not appear in a single fixture, home or away?",
        "SELECT name FROM club WHERE club_id NOT IN (SELECT home_club FROM fixture UNION SELECT "
        "away_club FROM fixture)",
    ),
    (
        "Who has managed to score and get a red card in the same match? Own goals don't count, and each name once, "
        "please.",
        "SELECT DISTINCT p.name FROM goal AS g JOIN booking AS b ON b.fixture_id = g.fixture_id "
        "AND b.player_id = g.player_id JOIN player AS p ON p.player_id = g.player_id "
        "WHERE b.card = 'R' AND g.type <> 'OG'",
    ),
    (
        "Who scored the most goals in 2022/23, own goals left out? If several are level at the top, give me all their "
        "names.",
        "WITH tally AS (SELECT p.player_id, p.name, COUNT(*) AS goals FROM goal AS g "
        "JOIN fixture AS f ON f.fixture_id = g.fixture_id JOIN player AS p ON p.player_id = g.player_id "
        "WHERE f.season = '2022/23' AND g.type <> 'OG' GROUP BY p.player_id, p.name) "
        "SELECT name FROM tally WHERE goals = (SELECT MAX(goals) FROM tally)",
    ),
    (
        "Which matches were won by five goals or more? Home club and away club, please.",
        "SELECT h.name, a.name FROM fixture AS f JOIN club AS h ON h.club_id = f.home_club "
        "JOIN club AS a ON a.club_id = f.away_club WHERE ABS(f.home_goals - f.away_goals) >= 5",
    ),
    (
        "How many goals were actually scored on the pitch in each month of 2023/24? Give the "
        "month, like 2023-10, and the "
        "goals.",
        "SELECT strftime('%Y-%m', f.day), COUNT(*) FROM goal AS g JOIN fixture AS f ON f.fixture_id = g.fixture_id "
        "WHERE f.season = '2023/24' GROUP BY strftime('%Y-%m', f.day)",
    ),
    (
        "One of our referees has never been given a match. Who is it?",
        "SELECT r.name FROM referee AS r WHERE NOT EXISTS "
        "(SELECT 1 FROM fixture AS f WHERE f.referee_id = r.referee_id)",
    ),
]

# Tasks that change the database: gold, the tables they may change, and mistakes that must show.
TASKS = [
    dict(
        ask="Ewesbridge Rovers folded before their postponed home match against Gasworks Athletic could be "
        "played. Score "
        "it as a walkover, 3-0 for the visitors.",
        gold=[
            "UPDATE fixture SET status = 'WO', home_goals = 0, away_goals = 3 WHERE status = 'PP' "
            "AND home_club = (SELECT club_id FROM club WHERE name = 'Ewesbridge Rovers') "
            "AND away_club = (SELECT club_id FROM club WHERE name = 'Gasworks Athletic')"
        ],
        writes="fixture",
        wrong=[
            [
                "UPDATE fixture SET status = 'WO', home_goals = 3, away_goals = 0 WHERE fixture_id = 130"
            ]
        ],
    ),
    dict(
        ask="Oisin Ionescu, the one born in 2003 who has no club, signs for Night Shift FC. Note his club, "
        "and his move on "
        "2024-07-01 as a free transfer without a fee.",
        gold=[
            "UPDATE player SET club_id = (SELECT club_id FROM club WHERE name = 'Night Shift FC') "
            "WHERE name = 'Oisin Ionescu' AND born LIKE '2003-%'",
            "INSERT INTO transfer (player_id, from_club, to_club, moved_on, type, fee) "
            "SELECT player_id, NULL, club_id, '2024-07-01', 'FREE', NULL FROM player "
            "WHERE name = 'Oisin Ionescu' AND born LIKE '2003-%'",
        ],
        writes="player transfer",
        wrong=[
            ["UPDATE player SET club_id = 15 WHERE player_id = 121"],
            [
                "UPDATE player SET club_id = 15 WHERE player_id = 6",
                "INSERT INTO transfer (player_id, to_club, moved_on, type) VALUES (6, 15, '2024-07-01', 'FREE')",
            ],
        ],
    ),
    dict(
        ask="Of our two referees called Patrick O'Hara, the one from 2013 no longer mentors the other. His own mentor "
        "takes over from him.",
        gold=[
            "UPDATE referee SET mentor_id = (SELECT mentor_id FROM referee WHERE name = 'Patrick O''Hara' "
            "AND since = 2013) WHERE mentor_id = (SELECT referee_id FROM referee WHERE name = 'Patrick O''Hara' "
            "AND since = 2013)"
        ],
        writes="referee",
        wrong=[["UPDATE referee SET mentor_id = NULL WHERE mentor_id = 8"]],
    ),
]
