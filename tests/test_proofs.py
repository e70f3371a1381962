"Proofs of equivalence: what is proved, what is refuted, and that nothing wrong is ever proved."

import builtins
import json
import sys
from datetime import date
from random import Random

import apsw
import pytest
import weakened_rules
from conftest import ROOT
from deceiving_pairs import DATABASES, PAIRS, SCHEMA, Whole, differing, kinds_of_false_proofs
from made_rows import made_row
from mutants import one_edit_mutants
from tables import cases

from sql_env import EpisodeEnv, OraclePolicy, evaluate, load
from sql_env.database.database import Database
from sql_env.evaluation.logs import read_log
from sql_env.evaluation.results import EvaluationResult, result_texts
from sql_env.evaluation.rows import Trajectory
from sql_env.grading.variants.robust import judge_evidence
from sql_env.proofs import decision
from sql_env.proofs.contents import Comparison, Contents
from sql_env.proofs.decision import kept_by, prove, prove_on
from sql_env.proofs.facts import Assumption, all_assumptions, read_facts
from sql_env.sql.analysis import parse_sql, referenced_tables
from sql_env.view.episode import view_trajectory
from sql_env.view.page import episode_data

SINGERS = """
CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, age INTEGER, country TEXT);
CREATE TABLE song (id INTEGER PRIMARY KEY, singer_id INTEGER NOT NULL REFERENCES singer(id), title TEXT, sales REAL);
INSERT INTO singer VALUES (1, 'Ada', 30, 'France'), (2, 'Bo', 41, NULL), (3, 'Cy', 30, 'Peru');
INSERT INTO song VALUES (1, 1, 'Sun', 10.5), (2, 1, 'Moon', 7.0), (3, 2, 'Sun', 3.5);
"""


def facts_of(script):
    con = apsw.Connection(":memory:")
    con.execute(script)
    return read_facts(con)


@pytest.fixture(scope="module")
def singers():
    return facts_of(SINGERS)


EQUAL = cases("proofs_equal")


@pytest.mark.parametrize("gold, sql", EQUAL, ids=range(len(EQUAL)))
def test_equal_queries_are_proved(singers, gold, sql):
    proof = prove(gold, sql, singers)
    assert proof, proof
    assert disagreement(gold, sql, singers, proof.assumptions, 60) is None


def disagreement(gold, sql, facts, assumptions, tries):
    "Two results that differ on a random database which keeps some assumptions, None if there are none."
    tables = sorted({*referenced_tables(gold), *referenced_tables(sql)})
    contents = Contents(facts.empty(), tables, (gold, sql), kept_by(assumptions, facts))
    judge = Comparison(gold, sql)
    for n in range(100, 100 + tries):
        contents.left = 10**6
        if contents.fill(n) and (found := judge.differ(contents)):
            return found, contents.rows()
    return None


@pytest.mark.parametrize("sql, reason", cases("proofs_what_is_not_covered_is_open_with"))
def test_what_is_not_covered_is_open_with_the_reason(singers, sql, reason):
    proof = prove(sql, sql + " ", singers, tries=0)
    assert proof.outcome == "open" and reason in proof.reason


def test_only_needed_assumptions_are_named(singers):
    same = prove("SELECT name FROM singer WHERE age > 30", "SELECT name FROM singer WHERE NOT age <= 30", singers)
    assert same.assumptions == ()
    join = prove("SELECT id FROM song", "SELECT song.id FROM song JOIN singer ON singer.id = singer_id", singers)
    assert {a.kind for a in join.assumptions} == {"not_null", "key", "reference"}
    assert all(a.declared for a in join.assumptions)
    ages = prove("SELECT count(*) FROM singer", "SELECT count(age) FROM singer", singers)
    assert Assumption("not_null", "singer", ("age",)) in ages.assumptions
    with_unknown_age = facts_of(SINGERS + "INSERT INTO singer VALUES (4, 'Di', NULL, NULL)")
    refuted = prove("SELECT count(*) FROM singer", "SELECT count(age) FROM singer", with_unknown_age)
    assert refuted.outcome == "refuted"
    # an empty table shows nothing
    facts = facts_of("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)")
    assert not prove("SELECT count(*) FROM t", "SELECT count(a) FROM t", facts, tries=0)
    assert {a.kind for a in all_assumptions(facts) if not a.declared} == {"key"}
    # proofs are the same each time
    for gold, sql in EQUAL[:8] + PAIRS[:8]:
        assert prove(gold, sql, singers, tries=0) == prove(gold, sql, singers, tries=0)


def test_a_counterexample_keeps_the_assumptions_and_is_small(singers):
    gold = "SELECT s.name FROM singer s JOIN song o ON s.id = o.singer_id"
    proof = prove(gold, f"SELECT DISTINCT name FROM ({gold})", singers)
    assert proof.outcome == "refuted"
    rows = proof.counterexample.tables
    assert len(rows["singer"]) <= 2 and len(rows["song"]) == 2
    assert {song[1] for song in rows["song"]} <= {singer[0] for singer in rows["singer"]}
    assert "gold: " in str(proof.counterexample)
    # and the kinds of values of a table that is only referred to
    facts = facts_of("""CREATE TABLE p (k INTEGER PRIMARY KEY, n NUMERIC, y);
        CREATE TABLE c (id INTEGER PRIMARY KEY, k INTEGER NOT NULL REFERENCES p(k), v INTEGER);
        INSERT INTO p VALUES (1, 5, 2), (2, 2.5, 3); INSERT INTO c VALUES (1, 1, 5), (2, 1, 6)""")
    for gold, sql in (("v = 5", "v IN (5, 6)"), ("v > 1", "v >= 1"), ("k < 3", "k <= 3"), ("id < 3", "id <= 3")):
        found = prove(f"SELECT v FROM c WHERE {gold}", f"SELECT v FROM c WHERE {sql}", facts).counterexample
        assert found.tables["p"]
        for _, n, y in found.tables["p"]:
            assert isinstance(n, (int, float)) and isinstance(y, int)


KEPT = {  # a parent, and rows of it and of the child
    "a computed column": ("(k INTEGER PRIMARY KEY, a INTEGER, b AS (a * 2) UNIQUE)", "(1, 1)", 1),
    "a computed key": ("(a INTEGER, k INTEGER AS (a * 2) STORED UNIQUE)", "(1)", 2),
    "a key of texts": ("(k TEXT PRIMARY KEY)", "('1')", 1),
    "a key with another collation": ("(k TEXT COLLATE NOCASE PRIMARY KEY)", "('1')", 1),
}
CHILD = "CREATE TABLE c (id INTEGER PRIMARY KEY, k INTEGER REFERENCES p(k), v INTEGER NOT NULL CHECK (abs(v) < 9));"


@pytest.mark.parametrize("parent", KEPT)
def test_a_counterexample_keeps_what_sqlite_checks(parent):
    columns, row, key = KEPT[parent]
    schema = f"{CHILD} CREATE TABLE p {columns};"
    facts = facts_of(f"{schema} INSERT INTO p VALUES {row}; INSERT INTO c VALUES (1, {key}, 5), (2, {key}, 6)")
    for gold, sql in (("v = 5", "v IN (5, 6)"), ("k > 1", "k >= 1"), ("id < 3", "id <= 3")):
        texts = [f"SELECT v FROM c WHERE {condition}" for condition in (gold, sql)]
        found = prove(*texts, facts).counterexample
        con = apsw.Connection(":memory:")
        con.execute(schema)
        for table, rows in found.tables.items() if found else ():
            for row in rows:
                marks = ", ".join("?" * len(row))
                con.execute(f"INSERT INTO {table} ({', '.join(found.columns[table])}) VALUES ({marks})", row)
        assert not con.execute("PRAGMA foreign_key_check").fetchall()
        assert found or parent != "a computed column" or "id" in gold
        kinds = {row[0] for row in con.execute("SELECT typeof(k) FROM c")}
        assert kinds <= {"integer", "null"} and (not found or Comparison(*texts).differ(Whole(con)))


def test_without_the_solver_nothing_is_proved_that_needs_it(singers, monkeypatch):
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "z3":
            raise ModuleNotFoundError("No module named 'z3'", name="z3")
        return original(name, *args, **kwargs)

    for module in [m for m in sys.modules if m == "z3" or m.startswith("z3.") or m.endswith("proofs.solver")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without)
    proof = prove("SELECT name FROM singer WHERE age > 30", "SELECT name FROM singer WHERE age >= 31", singers, tries=0)
    assert proof.outcome == "open" and 'pip install "sql_env[prove]"' in proof.reason


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_tested", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_kind_of_false_proof_is_left(is_tested, step, monkeypatch):
    "Neither with the tests that come before a proof counts, nor by the reasoning alone."
    con, pairs = kinds_of_false_proofs()
    facts = read_facts(con)
    if not is_tested:
        monkeypatch.setattr(decision, "tested", lambda *args: ("", 0))
    assert len(pairs) > 490 and len({p["kind"] for p in pairs}) > 60
    for pair in pairs[::step]:
        for gold, sql in ((pair["gold"], pair["sql"]), (pair["sql"], pair["gold"])):
            proof = prove(gold, sql, facts, tries=0)
            assert not proof, (pair["kind"], gold, sql, proof.words)


def test_what_fails_at_the_ends_of_numbers_names_them():
    "Infinity less itself is NULL, and a column of integers may hold -2^63 as a real number too."
    facts = read_facts(kinds_of_false_proofs()[0])
    for gold, sql in (
        ("SELECT id FROM v1 WHERE c - c IS NULL", "SELECT id FROM v1 WHERE c IS NULL"),
        ("SELECT sum(c) IS NULL FROM v1", "SELECT count(c) = 0 FROM v1"),
        ("SELECT a, typeof(a) FROM v1 GROUP BY a", "SELECT DISTINCT a, typeof(a) FROM v1"),
    ):
        proof = prove(gold, sql, facts, tries=0)
        assert "exact" in {a.kind for a in proof.assumptions} and "2^63" in proof.words
    # no proof is about texts that are sorted by the bytes of UTF-16
    con = apsw.Connection(":memory:")
    con.pragma("encoding", "UTF-16le")
    con.execute("CREATE TABLE t (b TEXT); INSERT INTO t VALUES ('a'), ('\u0100'), ('b')")
    gold = "SELECT b FROM t WHERE b > '\u0100'"
    assert len(con.execute(f"{gold} AND b <= 'a'").fetchall()) == 1
    assert not prove(gold, f"{gold} AND b > 'a'", read_facts(con), tries=0)


@pytest.mark.parametrize("of, own, is_found", cases("proofs_references"))
def test_a_foreign_key_counts_where_sqlite_finds_the_parent_by_equality(of, own, is_found):
    "SQLite looks for the parent with the parent's affinity and collation, and `=` with those of both."
    con = facts_of(f"""CREATE TABLE p (k {of} PRIMARY KEY);
        CREATE TABLE c (id INTEGER PRIMARY KEY, k {own} REFERENCES p(k));
        INSERT INTO p VALUES ('5'), ('7'); INSERT INTO c VALUES (1, '7')""")
    proof = prove("SELECT c.id FROM c, p WHERE p.k = c.k", "SELECT id FROM c WHERE k IS NOT NULL", con, tries=0)
    assert (proof.outcome == "proved") is is_found


def test_each_of_these_pairs_differs():
    con, pairs = kinds_of_false_proofs()
    for pair in pairs:
        texts = (pair["gold"], pair["sql"])
        for judge in (Comparison(*texts), Comparison(*texts[::-1])):
            contents = Contents(con, {t for text in texts for t in referenced_tables(text)}, texts)
            contents.left = 10**6
            if judge.differ(Whole(con)) or any(contents.fill(n) and judge.differ(contents) for n in range(800)):
                break
        else:
            raise AssertionError(pair)


def test_a_refuted_proof_is_open_and_reported(singers, monkeypatch, caplog):
    monkeypatch.setattr(decision.Prover, "equal", lambda *args: True)
    proof = prove("SELECT age FROM singer", "SELECT age + 1 FROM singer", singers, tries=0)
    assert proof.outcome == "open" and proof.reason == "a proof was found, and a test refutes it"
    assert "please report it: SELECT age FROM singer" in caplog.text
    caplog.clear()
    gold = "SELECT id FROM singer WHERE length(name) > 500"  # has always the same rows
    proof = prove(gold, f"{gold} AND age = 30", singers, tries=0)
    assert proof.outcome == "open" and proof.reason == "it could not be tested"
    assert "please report it" not in caplog.text
    proof = prove(MOST.format("", 1), MOST.format("", 1).replace("DESC", "ASC"), singers, tries=0)
    assert proof.outcome == "open" and "please report it" in caplog.text, "databases without ties still refute"


MOST = "SELECT {}country FROM singer GROUP BY country ORDER BY count(*) DESC LIMIT {}"


@pytest.mark.parametrize("gold, sql", [("", "DISTINCT "), ("DISTINCT ", "")])
@pytest.mark.parametrize("limit", [1, 2])
def test_a_proof_is_tested_on_what_keeps_its_assumption_on_ties(singers, gold, sql, limit, caplog):
    proof = prove(MOST.format(gold, limit), MOST.format(sql, limit), singers, tries=0)
    assert proof.outcome == "proved if" and proof.left_out > 0
    assert "no_ties" in {a.kind for a in proof.assumptions} and not caplog.text
    assert not prove(MOST.format(gold, limit), MOST.format(sql, 3), singers, tries=0)
    last = "SELECT name FROM singer WHERE id = (SELECT max(id) FROM singer)"
    proof = prove("SELECT name FROM singer ORDER BY id DESC LIMIT 1", last, singers)
    assert proof.outcome == "proved" and proof.left_out == 0, "without such an assumption no database is left out"


def test_a_difference_is_looked_for_where_no_proof_is(singers):
    many = "SELECT singer_id FROM song GROUP BY 1 HAVING count(*) > {}"
    for gold, sql in (
        ("SELECT name FROM singer NATURAL JOIN song", "SELECT name FROM singer"),
        ("SELECT group_concat(id) FROM singer", "SELECT group_concat(id) FROM singer WHERE age > 5"),
        (many.format(39), many.format(40)),
    ):
        assert prove(gold, sql, singers).outcome == "refuted", gold
    natural = "SELECT song.id FROM song NATURAL JOIN singer"
    assert prove(natural, "SELECT song.id FROM song JOIN singer USING (id)", singers)


@pytest.mark.parametrize("gold, sql", [("x > 7", "x IS NOT NULL"), ("x IN (5, 'a')", "x = 'a'")])
def test_that_a_column_holds_only_text_is_a_fact_to_grant(gold, sql):
    gold, sql = f"SELECT id FROM t WHERE {gold}", f"SELECT id FROM t WHERE {sql}"
    texts = "CREATE TABLE t (id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, '5'), (2, 'a'), (3, NULL);"
    proof = prove(gold, sql, facts_of(texts))
    assert proof.outcome == "proved if" and "t.x holds only text, as in the data" in proof.words
    assert proof.conditions == (Assumption("holds", "t", ("x",), ("text",)),)
    con = apsw.Connection(":memory:")
    con.execute(f"{texts} INSERT INTO t VALUES (4, 5)")
    assert Comparison(gold, sql).differ(Whole(con))
    assert prove(gold, sql, read_facts(con)).outcome == "refuted"


TIMES = """CREATE TABLE ask (id INTEGER PRIMARY KEY, at TEXT NOT NULL, due DATE, month TEXT, mark TEXT);
INSERT INTO ask VALUES (1, '2023-05-07 10:20:00', '2023-06-01', '2023-05', 'a'), (2, '2022-12-31 23:59:59',
    '2022-12-30', '2022-12', 'b'), (3, '2023-02-28 08:30:00', NULL, '2023-02', '2023-02-30'),
    (4, '2024-02-29 07:00:00', '2024-03-01', '2024-02', NULL)"""
SAME_DAYS = (
    ("strftime('%Y', at) = '2023'", "at >= '2023-01-01' AND at < '2024-01-01'"),
    ("at LIKE '2023-%'", "at >= '2023-01-01' AND at < '2024-01-01'"),
    ("substr(at, 1, 7) = '2023-05'", "strftime('%Y-%m', at) = '2023-05'"),
    ("due > '2022-12-30'", "due >= '2022-12-31'"),
    ("julianday(at) > julianday(due)", "at > due"),
    ("month = '2023-05'", "month || '-01' BETWEEN '2023-05-01' AND '2023-05-31'"),
)  # fmt: skip
OTHER_DAYS = (
    ("at <= '2023-12-31'", "at < '2024-01-01'"),
    ("due > '2022-12-30'", "due > '2022-12-31'"),
    ("month LIKE '2023%'", "month BETWEEN '2023-02' AND '2023-05'"),
    ("strftime('%Y', due) = '2023'", "due BETWEEN '2023-01-02' AND '2023-12-31'"),
)


@pytest.mark.parametrize("gold, sql", [*SAME_DAYS, *OTHER_DAYS])
def test_a_column_of_dates_holds_nothing_else_in_a_counterexample(gold, sql):
    proof = prove(f"SELECT id FROM ask WHERE {gold}", f"SELECT id FROM ask WHERE {sql}", facts_of(TIMES))
    assert (proof.outcome == "refuted") == ((gold, sql) in OTHER_DAYS), proof.words
    for _, at, due, month, _ in proof.counterexample.tables["ask"] if proof.counterexample else ():
        for day in (at[:10], due, f"{month}-01" if month else None):
            assert day is None or date.fromisoformat(day)


FORMED = {  # texts of one form: pairs that are one on all texts of it, and pairs that are not
    "'07:30', '11:30', '21:00'": (
        ("v < '09:00'", "CAST(substr(v, 1, 2) AS INTEGER) < 9", True),
        ("v LIKE '19:%'", "v BETWEEN '19:00' AND '19:59'", True),
        ("v < '09:00'", "v <= '09:00'", False),
        ("v LIKE '19:%'", "v LIKE '19:0%'", False),
    ),
    "'10/10/2021', '22/06/2023', '31/01/2022'": (
        ("v LIKE '%/2022'", "substr(v, -4) = '2022'", True),
        ("v LIKE '%/06/%'", "v LIKE '22/06/%'", False),
    ),
    "'2021/22', '2022/23', '2019/20'": (
        ("v = '2021/22'", "v LIKE '2021%'", True),
        ("v = '2021/22'", "v LIKE '202%'", False),
    ),
    "'2023-05-12', '2021-01-04', '2022-02-28'": (
        ("v LIKE '2023-08%'", "strftime('%Y-%m', v) = '2023-08'", True),
        ("v LIKE '2023-08%'", "v BETWEEN '2023-08-01' AND '2023-08-30'", False),
        ("v >= '2024-02-01' AND v < '2024-03-01'", "v BETWEEN '2024-02-01' AND '2024-02-28'", False),
    ),
}
FORMED_PAIRS = [(values, *pair) for values, pairs in FORMED.items() for pair in pairs]


@pytest.mark.parametrize("values, gold, sql, is_one", FORMED_PAIRS)
def test_made_texts_have_the_form_of_the_column(values, gold, sql, is_one, tmp_path):
    con = apsw.Connection(str(tmp_path / "formed.sqlite"))
    con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL)")
    for v in values.split(", ") * 4:
        con.execute(f"INSERT INTO t (v) VALUES ({v})")
    texts = [f"SELECT id FROM t WHERE {condition}" for condition in (gold, sql)]
    assert (prove(*texts, read_facts(con)).outcome == "refuted") == (not is_one)
    con.close()
    verdict = judge_evidence(texts[0], Database(tmp_path / "formed.sqlite"), texts[1])
    assert verdict.correct == is_one, verdict


UNDECLARED = (  # that a table has a row, and that numbers are exact
    ("SELECT name FROM singer", "SELECT name FROM singer WHERE EXISTS (SELECT 1 FROM song)", {"filled"}),
    ("SELECT count(*) FROM singer", "SELECT sum(1) FROM singer", {"filled", "exact"}),
    ("SELECT count(age) FROM singer", "SELECT count(age * 1.5) FROM singer", {"exact"}),
)


@pytest.mark.parametrize("gold, sql, kinds", UNDECLARED)
def test_what_nobody_declared_is_a_condition(singers, gold, sql, kinds):
    proof = prove(gold, sql, singers)
    assert proof.outcome == "proved if" and {a.kind for a in proof.conditions} == kinds


def some(form, n, gap=" "):
    return gap.join(form.format(i, i % 7, i % 5) for i in range(n))


WHENS = some("WHEN 'm{0}' THEN {0}", 12)
BOUNDED = {
    "CASE of 30 branches": f"SELECT max(CASE {some('WHEN age = {} THEN {}', 30)} END) FROM singer",
    "CASE in WHERE": f"SELECT name FROM singer WHERE CASE {some('WHEN age > {0} THEN {2}', 30)} END = 2",
    "CASE in ORDER BY": f"SELECT name FROM singer ORDER BY CASE name {WHENS} END LIMIT 1",
    "IN of 10,000": f"SELECT name FROM singer WHERE age IN ({some('{}', 10_000, ', ')})",
    "500 times OR": f"SELECT name FROM singer WHERE {some('age = {}', 500, ' OR ')}",
    "12 joins": f"SELECT s.name FROM singer s {some('JOIN song s{0} ON s{0}.singer_id = s.id', 12)}",
    "ten levels": "SELECT id FROM singer WHERE id IN (" * 10 + "SELECT id FROM singer" + ")" * 10,
    "ten unions": some("SELECT name FROM singer WHERE age = {}", 10, " UNION "),
    "six left joins": f"SELECT s.name FROM singer s {some('LEFT JOIN song s{0} ON s{0}.singer_id = s.id', 6)}",
    "a large number": "SELECT name FROM singer WHERE name < '12345678901234567890' AND age < 1e999",
    "a lone surrogate": "SELECT name FROM singer WHERE name = '\ud800'",
}


@pytest.mark.parametrize("name", BOUNDED)
def test_a_proof_stops_after_a_number_of_steps(singers, name, monkeypatch):
    "The same outcome each time; both attempts share the steps."
    sql, asked, original = BOUNDED[name], [], decision.counted
    first = prove(sql, sql + " ", singers, tries=0)
    monkeypatch.setattr(decision, "counted", lambda steps: asked.append(steps) or original(steps))
    assert prove(sql, sql + " ", singers, tries=0) == first
    assert name != "12 joins" or first.reason == "too many steps" and asked == [decision._STEPS]


def test_each_deceiving_pair_is_shown_to_differ():
    shown = {frozenset((gold, sql)) for gold, sql, _ in differing()}
    assert len(PAIRS) >= 150
    assert [pair for pair in PAIRS if frozenset(pair) not in shown] == []
    assert all(set(rows) <= set(facts_of(SCHEMA).tables) for rows in DATABASES.values()), "each keeps its own facts"


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_no_deceiving_pair_is_proved(step):
    for gold, sql, facts in differing(PAIRS[::step]):
        assert not prove(gold, sql, facts, tries=0), (gold, sql)


MARKS = [[pytest.mark.slow, pytest.mark.full][: 1 + (n % 4 > 0)] for n in range(len(weakened_rules.RULES))]


@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=marks) for n, marks in enumerate(MARKS) if n)])
def test_a_weakened_rule_is_caught(number):
    assert weakened_rules.what_catches(number), weakened_rules.RULES[number][0]


@pytest.mark.slow
def test_the_tests_before_a_proof_catch_a_weakened_rule():
    assert not weakened_rules.what_catches(0, is_tested=True)


def bundled_golds(step):
    "Every so many gold queries of the bundled databases, each with the facts of its database."
    questions = load("bundled")
    facts = {name: read_facts(apsw.Connection(str(path))) for name, path in questions.databases.items()}
    return [(facts[q.database_name], q.gold_sql) for q in sorted(questions, key=lambda q: q.question_id)[::step]]


@pytest.mark.parametrize(
    "step, each, tries, least",
    [(16, 5, 15, 80), pytest.param(1, 16, 200, 2500, marks=[pytest.mark.slow, pytest.mark.full])],
)
def test_mutants_that_are_proved_agree_everywhere(tell, step, each, tries, least):
    "Mutants of gold that are proved agree with it on random databases."
    proved = asked = 0
    for facts, gold in bundled_golds(step):
        mutants = [sql for _, sql in one_edit_mutants(gold)]
        for sql in Random(gold).sample(mutants, min(each, len(mutants))):
            proof = prove(gold, sql, facts, tries=0)
            asked, proved = asked + 1, proved + bool(proof)
            for assumptions in (proof.assumptions, all_assumptions(facts)) if proof else ():
                assert disagreement(gold, sql, facts, assumptions, tries) is None, (gold, sql)
    tell(f"{proved} of {asked} mutants proved equal")
    assert asked > least and proved > 5


def blind_pairs(are_equal):
    "Pairs that look equal with the facts of rows on which they differ; or those that are equal."
    first, *pairs = map(json.loads, (ROOT / "tests" / "data" / "blind_pairs.jsonl").open())
    for pair in pairs:
        if (pair["kind"] == "equal") == are_equal:
            script = ";\n".join([*first["schemas"][pair["schema"]], *pair.get("rows", [])])
            yield pair["kind"], pair["gold"], pair["sql"], script


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 8))])
def test_no_blind_pair_is_proved_but_under_a_named_assumption(part):
    for kind, *pair, script in [*blind_pairs(False)][part::8]:
        facts = facts_of(script)
        for gold, sql in (pair, pair[::-1]):
            proof = prove(gold, sql, facts, tries=0)
            named = {a.kind for a in proof.assumptions} & {"no_ties", "exact"}
            breaks_one = kind in ("order: tie limit", "arith: overflow", "arith: big float")
            assert not proof or (named and breaks_one), (gold, sql, proof)


def test_most_blind_pairs_that_are_equal_are_proved():
    proofs = [prove(gold, sql, facts_of(script), tries=0) for _, gold, sql, script in blind_pairs(True)]
    assert len(proofs) == 71 and sum(map(bool, proofs)) >= 50


def test_gold_is_proved_equal_to_itself():
    "Written in another form, so that the text alone does not show it."
    outcomes = [prove(gold, parse_sql(gold).sql("sqlite", pretty=True), facts) for facts, gold in bundled_golds(12)]
    assert sum(map(bool, outcomes)) >= 0.9 * len(outcomes)
    assert not any(p.outcome == "refuted" for p in outcomes)


def certified_episode(sql="SELECT * FROM ({})"):
    "An episode under `certified` that ends with `@last`, and its question."
    questions = load("bundled")
    question = next(q for q in sorted(questions, key=lambda q: q.question_id) if q.gold_sql.count("WHERE") == 1)
    env = EpisodeEnv(questions, verify="certified")
    env.reset(question_id=question.question_id)
    env.step("QUERY", sql.format(question.gold_sql.rstrip(";")))
    return env.step("ANSWER", "@last"), env.episode


def test_a_proof_certifies_an_episode_and_nothing_else_does(monkeypatch):
    "What is not proved is rewarded all the same; a wrong answer has no certificate."
    last, episode = certified_episode()
    assert last.reward == 1 and episode.judged("certified").reason == "proved"
    result = Trajectory.from_episode(episode)
    assert result.verdicts["certified"].reason == "proved" and result.verdict("certified")
    assert Trajectory.model_validate_json(result.model_dump_json()) == result
    last, episode = certified_episode("SELECT * FROM ({}) WHERE hex(1) IS NOT NULL OR 1 = 1")
    assert episode.judged("certified").reason != "refuted"
    assert last.reward == (episode.robust is True)
    last, episode = certified_episode("SELECT 'nothing like it'")
    assert last.reward == 0 and episode.judged("certified") == episode.verdict
    # a kept proof costs nothing
    questions = load("bundled")
    q = questions[0]
    db = questions.database(q.database_name)
    first = prove_on(db, q.gold_sql, f"SELECT * FROM ({q.gold_sql})")
    monkeypatch.setattr(decision, "prove", None)
    assert prove_on(db, q.gold_sql, f"SELECT * FROM ({q.gold_sql}) ") is first
    # and one text in two layouts needs none, whatever the prover knows of it
    odd = "SELECT group_concat(name, ';') FROM (SELECT 1 AS name) LIMIT 3"
    assert prove_on(db, odd, f"{odd.lower()} -- so\n;").outcome == "proved"


def test_the_bounds_of_an_evaluation():
    outcomes = ["proved"] * 5 + ["open"] * 2 + ["refuted", "", ""]
    tries = [made_row(n, str(n), bool(p), **(dict(certified=p) if p else {})) for n, p in enumerate(outcomes)]
    result = EvaluationResult("a policy", tries)
    assert result.bounds("certified") == (0.5, 0.7)
    said = "certified: 50.0% proved, 20.0% open, 10.0% refuted; between 50.0% and 70.0% are right"
    assert result_texts(result)["certified"] == said
    assert not result_texts(EvaluationResult("a policy", tries[8:]))


def test_what_a_certificate_rests_on_stands_in_log_and_page(tmp_path):
    qs = load("bundled").sample(4, seed=1)
    log = tmp_path / "run.jsonl"
    evaluate(EpisodeEnv(qs, verify="certified"), OraclePolicy(qs), 4, log=log, progress=False)
    about, trajectories = read_log(log)
    assert len(trajectories) == 4
    for t in trajectories:
        view, certified = view_trajectory(t, qs, about), t.verdicts["certified"]
        assert certified == view.outcome.verdicts["certified"] and certified.correct and certified.reason == "proved"
        for shown in (view, view_trajectory(t, None, about)):
            parts = episode_data(shown)["steps"][-1].parts
            assert [part.text for part in parts if part.title == "certified"] == ["right: proved"]
            assert certified.detail in [part.text for part in parts]
