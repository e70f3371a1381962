"""Variants: possible databases only, the same everywhere, telling wrong SQL from right, under all guards."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest
from databases import in_threads, memory
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from laws import law
from mutants import one_edit_mutants
from tables import cases

from sql_env import Episode, Limits, Question, RewardConfig, load
from sql_env.database.database import Database, build_database
from sql_env.grading import Verdict, judge_evidence, verify_robust
from sql_env.grading.variants.instances import InstanceGenerator
from sql_env.grading.variants.pairs import _PairMaker, pair_variants

SCHEMA = (Path(__file__).parent / "data" / "variants_harbour.sql").read_text()
GOLDS = cases("variants_golds")
EVERY_TABLE = "SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name"


@pytest.fixture(scope="module")
def harbour(tmp_path_factory):
    rng = random.Random(0)
    ports = [("OSL", "Oslo", 12.5), ("ROM", "Rome", 8.0), ("BRE", "Bremen", 9.5), ("POR", "Porto", 20.0)]
    ports.append(("KIE", "Kiel", 7.5))
    ships = []
    for i, name in enumerate("Aurora Bora Cirrus Dione Eos Flora Gaia Hera Iris Juno".split(), 1):
        home = rng.choice(["OSL", "ROM", "BRE", None])
        built = f"200{rng.randint(0, 4)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}"
        ships.append((i, name, home, built, i - 3 if i > 4 else None))
    berths = [(code, n, rng.randint(30, 90)) for code, _, _ in ports for n in range(1, 6)]
    stays, seen = [], set()
    while len(stays) < 40:
        row = (rng.randint(1, 9), *rng.choice(berths)[:2], rng.choice("POC"))
        if row not in seen:
            seen.add(row)
            stays.append((len(stays) + 1, *row, rng.randint(50, 150)))
    path = tmp_path_factory.mktemp("harbour") / "harbour.sqlite"
    build_database(path, SCHEMA, {"port": ports, "ship": ships, "berth": berths})
    with apsw.Connection(str(path)) as con:
        con.executemany(
            "INSERT INTO stay (stay_id, ship_id, port, number, state, paid) VALUES (?, ?, ?, ?, ?, ?)", stays
        )
        con.execute("CREATE TRIGGER t AFTER INSERT ON ship BEGIN DELETE FROM port; END")
    return path


@pytest.fixture
def still_clock(monkeypatch):
    "The clock of the guards moves only when a test says so: operations are counted, however slow the machine."
    clock = SimpleNamespace(now=0.0)
    fake = SimpleNamespace(monotonic=lambda: clock.now, thread_time=lambda: clock.now)
    monkeypatch.setattr("sql_env.database.connection.time", fake)
    return clock


def agrees_with_itself(db, gold):
    "Whether gold passes on its instances; with a space more, since gold to the letter is not run."
    return judge_evidence(gold, db, f"{gold} ").correct


def has_cycle(parents):
    "Whether a way from child to parent comes back, or is longer than 100."
    for at in [*parents]:
        steps = 0
        while at in parents and (steps := steps + 1) < 100:
            at = parents[at]
        if steps == 100:
            return True
    return False


@pytest.mark.parametrize("gold", GOLDS)
def test_instances_are_possible_databases(harbour, gold):
    """Schema unchanged; integrity, foreign keys, CHECK, NOT NULL and UNIQUE hold; no circles, codes as in data or gold.

    What is kept as gold's rows is what gold gives."""
    v = pair_variants(harbour, gold)
    schema = apsw.Connection(str(harbour)).execute(EVERY_TABLE).fetchall()
    assert len(v) >= 12
    for image, rows, ranks in v.instances:
        con = memory(image)
        assert con.execute(EVERY_TABLE).fetchall() == schema
        assert con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert con.execute("PRAGMA foreign_key_check").fetchall() == []
        mothers = dict(con.execute("SELECT ship_id, mother FROM ship WHERE mother IS NOT NULL"))
        assert not has_cycle(mothers), "ships are their own ancestors"
        states = {"P", "O", "C"} | ({"Ps", "Os"} if "state" in gold else set())
        assert {s for (s,) in con.execute("SELECT DISTINCT state FROM stay")} <= states
        for (built,) in con.execute("SELECT built FROM ship WHERE built IS NOT NULL"):
            assert time.strptime(built, "%Y-%m-%d")
        assert con.execute(gold).fetchall() == rows
        assert ranks is None or len(ranks) == len(rows)


def test_natural_keys_are_kept_only_when_inferred(harbour):
    "Names never repeat in the data of ten ships: instances keep that, unless only what is declared counts."

    def repeated(infer):
        sql = "SELECT count(name) > count(DISTINCT name) FROM ship"
        made = _PairMaker(InstanceGenerator(harbour, infer), GOLDS[0]).instances(GOLDS[0])
        return any(memory(image).execute(sql).fetchone()[0] for image, *_ in made)

    assert not repeated(True) and repeated(False)


@pytest.mark.parametrize("gold", GOLDS)
def test_gold_agrees_with_itself_and_mutants_are_told_apart(harbour, gold):
    db = Database(harbour)
    assert agrees_with_itself(db, gold)
    mutants = [sql for name, sql in one_edit_mutants(gold) if name not in ("add_distinct", "left_join")]
    passed = [sql for sql in mutants if judge_evidence(gold, db, sql).correct]
    assert len(passed) <= 0.2 * len(mutants), passed


def test_same_seed_same_bytes_in_every_process(harbour):
    "Hash seeds, order of calls and other questions change nothing."
    code = f"""
import hashlib, sys
from sql_env.grading.variants.pairs import pair_variants
path, golds = {str(harbour)!r}, {GOLDS!r}
if sys.argv[1] == "1":
    pair_variants(path, golds[3])
found = [image for g in golds[:3] for image, *_ in pair_variants(path, g).instances]
print(hashlib.sha256(b"".join(found)).hexdigest())"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command, asked = [sys.executable, "-c", code], dict(capture_output=True, text=True, check=True)
    done = [subprocess.run([*command, seed], env=env | {"PYTHONHASHSEED": seed}, **asked) for seed in "012"]
    assert len({d.stdout for d in done}) == 1
    assert pair_variants(harbour, GOLDS[0]) == pair_variants(harbour, GOLDS[0], GOLDS[0])
    assert pair_variants(harbour, GOLDS[0]) != pair_variants(harbour, GOLDS[0], GOLDS[1])


@pytest.mark.parametrize("gold, other", cases("variants_equal"))
def test_equal_queries_agree(harbour, gold, other):
    v = judge_evidence(gold, Database(harbour), other)
    assert v.correct, v


def ask(db, gold, answer, *queries, ranks=None, verdict=Verdict(True, "match")):
    q = Question("q", "?", "harbour", gold, db.query(gold).rows, ranks=ranks)
    return verify_robust(q, db, answer, [(s, db.query(s)) for s in queries], verdict)


def test_evidence(harbour):
    "Which query counts, and how an answer may lie in its result."
    db = Database(harbour)
    gold = "SELECT name FROM ship WHERE home = 'OSL'"
    names = "\n".join(r[0] for r in db.query(gold).rows)
    assert ask(db, gold, "@last", gold).correct
    assert ask(db, gold, names, gold).correct
    wide = gold.replace("name", "ship_id, home, name", 1)
    assert ask(db, gold, names, wide).correct, "a column of the result"
    assert ask(db, gold, "@last", wide).reason == "no_evidence", "@last is the whole result"
    assert ask(db, gold, names, gold, "SELECT 1", "SELECT count(*) FROM ship").correct, "the last that holds the answer"
    assert ask(db, gold, "@last", gold, "SELECT 1").reason == "no_evidence", "@last is the last"
    literal = "VALUES " + ", ".join(f"('{n}')" for n in names.split("\n"))
    assert ask(db, gold, names, gold, literal).reason == "differs", "a later query that only repeats the answer counts"
    assert ask(db, gold, names).reason == "no_evidence"
    assert ask(db, gold, names, "SELECT name FROM ship").reason == "no_evidence", "picked by eye"
    top = "SELECT name FROM ship ORDER BY built LIMIT 1"
    first = db.query(top).rows[0][0]
    assert ask(db, top, first, "SELECT built, name FROM ship ORDER BY built").correct, "the first of a sorted list"
    assert ask(db, top, "@last", "SELECT name FROM ship ORDER BY built").reason == "no_evidence"
    wrong = Verdict(False, "values")
    assert ask(db, gold, "x", gold, verdict=wrong) is wrong
    # what may be written in an answer may stand in its evidence
    value = f"{db.query('SELECT avg(paid) FROM stay').rows[0][0]:.2f}"
    for sql in ("SELECT round(avg(paid), 2) FROM stay", "SELECT CAST(avg(paid) AS TEXT) FROM stay"):
        assert ask(db, "SELECT avg(paid) FROM stay", value, sql).correct
    # of columns that hold the answer the first is read: a row of guesses is worth no more than one of them
    db = Database(harbour)
    gold = "SELECT count(*) FROM ship WHERE home = 'OSL'"
    value = str(db.query(gold).rows[0][0])
    other = f"(SELECT {value})"
    assert ask(db, gold, value, f"SELECT ({gold}), {other}").correct
    assert ask(db, gold, value, f"SELECT {other}, ({gold})").reason == "differs"
    guesses = ", ".join([*(f"(SELECT {n})" for n in range(7)), f"({gold})"])
    assert ask(db, gold, value, f"SELECT {guesses}").reason == "differs"
    pairs = "SELECT home, count(*) FROM ship WHERE home IS NOT NULL GROUP BY home"
    written = "\n".join(f"{home} | {n}" for home, n in db.query(pairs).rows)
    wide = pairs.replace("count(*)", "count(*), count(ship_id)")
    assert ask(db, pairs, written, wide).correct, "one reading for each answered column"


@pytest.mark.parametrize("sql, kind", cases("variants_agent_sql_is_guarded_on"))
def test_agent_sql_is_guarded_on_variants(harbour, sql, kind, still_clock):
    v = judge_evidence(GOLDS[0], Database(harbour), sql)
    assert (v.correct, v.reason) == (False, "fails")
    assert kind in v.detail, v


def test_bombs_that_wake_up_on_variants_are_stopped(harbour, still_clock):
    "A query may be cheap on the real database and endless elsewhere: the third such instance ends the verdict."
    db = Database(harbour)
    n = db.query("SELECT count(*) FROM ship").rows[0][0]
    bomb = f"""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE
        i < CASE WHEN (SELECT count(*) FROM ship) = {n} THEN 2 ELSE 100000000 END)
        SELECT name FROM ship WHERE home = 'OSL' AND (SELECT count(*) FROM n) > 0"""
    assert db.query(bomb).rows == db.query(GOLDS[0]).rows
    verdict = judge_evidence(GOLDS[0], db, bomb)
    assert (verdict.reason, verdict.detail) == ("fails", "instance 3: operations")
    # limits of the database apply
    strict, sql = Database(harbour, Limits(rows=1, operations=2000)), "SELECT s.name FROM ship s, stay, stay t"
    assert judge_evidence(GOLDS[0], strict, f"{sql} WHERE home = 'OSL'").reason in ("fails", "differs")


def test_a_variant_is_not_changed_by_the_agent_and_shares_nothing(harbour):
    "The next verdict sees the same instance, whatever the last one tried; the real file is untouched."
    before, db = harbour.read_bytes(), Database(harbour)
    v = pair_variants(harbour, GOLDS[0])
    for sql in (
        "CREATE TEMP TABLE ship AS SELECT 1",
        "PRAGMA writable_schema = ON",
        "SELECT * FROM ship",
        "WITH ship AS (SELECT 'x' AS name) SELECT name FROM ship",
    ):
        judge_evidence(GOLDS[0], db, sql)
        assert agrees_with_itself(db, GOLDS[0])
    assert pair_variants(harbour, GOLDS[0]) == v and harbour.read_bytes() == before
    # many verdicts at once give what they give alone
    db, wrong = Database(harbour), [one_edit_mutants(g)[0][1] for g in GOLDS[:4]]
    jobs = [(g, s) for g, w in zip(GOLDS, wrong) for s in (f"{g} ", w)] * 4
    alone, found = [judge_evidence(g, db, s) for g, s in jobs], [None] * len(jobs)

    def work(first):
        for i in range(first, len(jobs), 6):
            gold, sql = jobs[i]
            found[i] = judge_evidence(gold, db, sql)

    in_threads(work, 6)
    assert found == alone


def test_a_sandbox_may_rest_between_verdicts(tmp_path, still_clock):
    "A guarded connection that is used again later loads its next image without the clock of its last query."
    columns = ", ".join(f"c{i} INTEGER NOT NULL DEFAULT (1 + {i})" for i in range(150))
    many = ";".join(f"CREATE TABLE x{i} (id INTEGER PRIMARY KEY, name TEXT)" for i in range(120))
    schema = f"CREATE TABLE t7 (id INTEGER PRIMARY KEY, name TEXT, {columns});{many}"
    path = build_database(tmp_path / "wide.sqlite", schema, {"t7": [(i, "ab"[i % 2], *range(150)) for i in range(9)]})
    db, gold = Database(path), "SELECT name FROM t7 WHERE id > 1"
    for sql in ("SELECT 1", gold, gold):
        assert judge_evidence(gold, db, sql).correct == (sql == gold)
        still_clock.now += 3600


def test_a_changed_database_is_read_anew(harbour, tmp_path):
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(harbour.read_bytes())
    v = pair_variants(copy, GOLDS[0])
    assert pair_variants(copy, GOLDS[0]) == v == pair_variants(harbour, GOLDS[0])
    with apsw.Connection(str(copy)) as con:
        con.execute("UPDATE ship SET name = name || '!'")
    assert pair_variants(copy, GOLDS[0]) != v


def play(harbour, verify, *actions):
    db = Database(harbour)
    q = Question("q", "How many ships stayed for more than 100?", "harbour", GOLDS[1], db.query(GOLDS[1]).rows)
    ep = Episode(q, db, reward=RewardConfig.sparse(), verify=verify)
    ep.reset()
    for a in actions:
        obs = ep.step(*a)
    return ep, obs


def test_the_reward_of_an_episode_follows_the_mode_and_all_three_are_reported(harbour):
    n = str(Database(harbour).query(GOLDS[1]).rows[0][0])
    lucky, honest = ("QUERY", f"SELECT {n}"), ("QUERY", GOLDS[1])
    for verify, pays in (("value", 1.0), ("robust", 0.0)):
        ep, obs = play(harbour, verify, lucky, ("ANSWER", "@last"))
        assert (obs.reward, ep.correct, ep.grounded, ep.robust) == (pays, True, False, False)
        assert ep.verdict.correct and ep.robust_verdict.reason == "differs"
    ep, obs = play(harbour, "robust", honest)
    assert ep.robust_verdict is None and not ep.robust and not ep.correct, "before the end"
    ep, obs = play(harbour, "robust", *[honest] * 15)
    assert obs.done and ep.robust_verdict.reason == "no_answer" and not ep.robust
    ep, obs = play(harbour, "robust", honest, ("ANSWER", "@last"))
    assert (obs.reward, ep.correct, ep.robust) == (1.0, True, True)
    ep.reset()
    assert not ep.robust and ep.robust_verdict is None, "it forgets"
    ep.step("ANSWER", n)
    assert ep.correct and ep.robust_verdict.reason == "no_evidence"
    # observations of a lucky and of an honest answer differ in nothing but the reward and the history
    one, other = (play(harbour, "robust", query, ("ANSWER", n))[1] for query in (lucky, honest))
    for name in ("question", "schema_info", "result", "error", "done", "step_count"):
        assert getattr(one, name) == getattr(other, name)
    with pytest.raises(ValueError, match="value, robust"):
        play(harbour, "strict")


@law(25, suppress_health_check=list(HealthCheck))
@given(
    table=st.sampled_from(["ship", "stay", "port", "berth"]),
    column=st.integers(0, 3),
    sign=st.sampled_from(["=", ">", "<>", "<="]),
    value=st.sampled_from(["3", "'OSL'", "'2001-02-11'", "90.5", "NULL"]),
    what=st.sampled_from(["*", "count(*)", "min({c})", "DISTINCT {c}"]),
    order=st.booleans(),
)
def test_any_gold_can_be_fuzzed(harbour, table, column, sign, value, what, order):
    "Random gold: variants exist, gold agrees with itself, SELECT 1 does not."
    with apsw.Connection(str(harbour)) as con:
        columns = [c[1] for c in con.execute(f"PRAGMA table_info({table})")]
    c = columns[column % len(columns)]
    end = f" ORDER BY {c}" if order and "(" not in what else ""
    gold = f"SELECT {what.format(c=c)} FROM {table} WHERE {c} {sign} {value}{end}"
    db = Database(harbour)
    assert pair_variants(harbour, gold)
    assert agrees_with_itself(db, gold)
    assert value == "NULL" or not judge_evidence(gold, db, "SELECT 'no such thing'").correct


def test_bundled_golds_have_variants_and_agree():
    "Of each bundled database."
    qs = load("bundled")
    for name in dict.fromkeys(q.database_name for q in qs):
        for q in qs.filter(database_name=name).sample(2, seed=5):
            assert agrees_with_itself(qs.database(name), q.gold_sql), q.question_id
            assert len(pair_variants(qs.databases[name], q.gold_sql)) >= 12, q.question_id


@pytest.mark.slow
def test_spider_golds_agree_with_themselves(spider_path):
    qs = load("spider", spider_path, "dev")
    for q in qs.sample(60, seed=1):
        assert agrees_with_itself(qs.database(q.database_name), q.gold_sql), q.gold_sql
