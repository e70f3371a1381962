"""What is a fact of the data stays one, what a column can't hold never stands in it, and ties have several answers."""

import re
from random import Random

import apsw
import pytest
from databases import memory
from mutants import _replaced, one_edit_mutants
from sqlglot import exp, parse_one
from tables import alternatives, cases

from sql_env import Episode, Question
from sql_env.database.database import Database, build_database
from sql_env.grading.variants.columns import GROUPED, MIXED, Unlike, _moved_text, possible_values
from sql_env.grading.variants.instances import InstanceGenerator, RowSampler, plan_instances
from sql_env.grading.variants.pairs import pair_variants
from sql_env.grading.variants.robust import judge_evidence
from sql_env.grading.variants.sandbox import Sandbox, ScratchDatabase
from sql_env.questions.gold import GoldRunner

SCHEMA = """
CREATE TABLE airline (airline_id INTEGER PRIMARY KEY, name TEXT, hub TEXT);
CREATE TABLE flight (flight_id INTEGER PRIMARY KEY, airline_id INTEGER REFERENCES airline, hub TEXT, seats INTEGER);
CREATE TABLE city (city_id INTEGER PRIMARY KEY, name TEXT, state TEXT, code TEXT, share TEXT, rate TEXT, year INTEGER,
                   people INTEGER);
CREATE TABLE mayor (mayor_id INTEGER PRIMARY KEY, city_id INTEGER REFERENCES city, name TEXT, party TEXT);
"""
STATES = [("Texas", "TX"), ("Utah", "UT"), ("Ohio", "OH"), ("Maine", "ME")]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    airlines = [(1, "Aero", "AAA "), (2, "Bird", "BBB "), (3, "Cloud", "CCC ")]
    hubs = ["AAA", "BBB", "CCC"]
    flights = [(i, owner, hubs[owner - 1], 100 + i) for i, owner in enumerate([1, 1, 1, 2, 2, 2, 3], 1)]
    cities = []
    for i in range(1, 41):
        share, rate = f"{40 + i * 0.7:.1f}%", f"{4 + i * 0.013:.3f}"
        cities.append((i, f"Town {chr(64 + i % 26)}{i}", *STATES[i * 7 % 4], share, rate, 1990 + i % 20, i * 50))
    mayors = [(i, i * 3, f"Person {i}", "RD"[i % 2]) for i in range(1, 13)]
    rows = {"airline": airlines, "flight": flights, "city": cities, "mayor": mayors}
    return build_database(tmp_path_factory.mktemp("facts") / "facts.sqlite", SCHEMA, rows)


def completed(path, text, sql):
    runner = GoldRunner(path)
    q = runner.complete(Question("q", text, "facts", sql))
    runner.close()
    return q


MOST = "SELECT a.name FROM airline AS a JOIN flight AS f USING (airline_id) GROUP BY a.name "
MOST += "ORDER BY count(*) DESC LIMIT 1"
WHICH = "Which airline has the most flights?"


def test_a_tie_is_flagged_though_no_order_of_rows_shows_it(path):
    q = completed(path, WHICH, MOST)
    assert q.flags == ("tie_at_limit",) and q.gold_answer == (("Bird",),)
    assert q.other_answers == ((("Aero",),), (("Bird",), ("Aero",)))
    assert "2 rows" in q.reason("tie_at_limit")
    inner = "SELECT airline_id FROM flight GROUP BY airline_id ORDER BY count(*) DESC LIMIT 1"
    q = completed(path, WHICH, f"SELECT name FROM airline WHERE airline_id = ({inner})")
    assert "tie_at_limit" in q.flags and q.other_answers == (), "within a subquery"
    q = completed(path, "Which party is first?", "SELECT 'x' FROM mayor ORDER BY party LIMIT 1")
    assert q.flags == () and q.other_answers == (), "rows that tie and look the same are no tie"


@pytest.mark.parametrize("text, sql, others", cases("verdict_facts_other_answers"))
def test_other_answers_where_the_question_means_any(path, text, sql, others):
    q = completed(path, text, sql)
    assert ("tie_at_limit" in q.flags) == (others is not None)
    assert len(q.other_answers) == (others or 0)


ALL_TIED = "WITH c AS (SELECT name, count(*) AS n FROM airline JOIN flight USING (airline_id) GROUP BY name) "
ALL_TIED += "SELECT name FROM c WHERE n = (SELECT max(n) FROM c)"


@pytest.mark.parametrize("sql, answer, is_right", cases("verdict_facts_tied_answers"))
def test_each_tied_answer_is_right_and_robust_and_others_are_not(path, sql, answer, is_right):
    episode = Episode(completed(path, WHICH, MOST), Database(path))
    episode.reset()
    by_name = MOST.replace("count(*) DESC", "count(*) DESC, a.name")
    episode.step("QUERY", sql.format(MOST=MOST, ALL_TIED=ALL_TIED, BY_NAME=by_name))
    episode.step("ANSWER", answer)
    assert episode.correct is is_right
    assert bool(episode.robust) is is_right, episode.robust_verdict


@pytest.mark.parametrize("text, moved", cases("verdict_facts_a_text_keeps_its_form"))
def test_a_text_keeps_its_form(text, moved):
    assert _moved_text(text, 1) == moved


def test_values_like_others_are_never_seen_twice_and_stay_within_the_column():
    for value in ("9", "44.7%", "OSL", "Oslo", "2001-05-03", 7, 2.5):
        unlike = Unlike([value])
        assert len({unlike.another(value) for _ in range(300)}) == 300
    assert Unlike([float("inf")]).another(float("inf")) == float("inf")
    near = possible_values(list(range(1990, 2010)), "integer", [2008])[1]
    assert {2010, 2006, 2009, 2007} <= set(near) and max(near) < 2020 and min(near) > 1980
    assert {0, 87} <= set(possible_values(list(range(40)), "integer", [8])[0])


@pytest.mark.parametrize("gold, name, form", cases("verdict_facts_forms"))
def test_instances_hold_only_what_a_column_could_hold(path, gold, name, form):
    images = [instance.image for instance in pair_variants(path, gold).instances]
    values = [v for image in images for (v,) in memory(image).execute(f"SELECT {name} FROM city")]
    assert values and {v for v in values if not re.fullmatch(form, v)} == set()


@pytest.mark.parametrize("gold, other", alternatives("verdict_facts_honest"))
def test_a_query_that_relies_on_facts_of_the_data_passes(path, gold, other):
    verdict = judge_evidence(gold, Database(path), other)
    assert verdict.correct, verdict


@pytest.mark.parametrize("gold, other", alternatives("verdict_facts_wrong"))
def test_a_query_that_is_right_by_luck_fails(path, gold, other):
    db = Database(path)
    mine, others = (sorted(map(repr, db.query(sql).rows)) for sql in (gold, other))
    assert mine == others, "not lucky here"
    assert not judge_evidence(gold, db, other).correct


def counted_answer(path, monkeypatch, query, answer, verify="robust"):
    "What a robust ANSWER ran: loads of instances, and statements on them."
    q = completed(path, "How many cities lie in Texas?", TEXAS)
    db = Database(path)
    judge_evidence(q.gold_sql, db, "SELECT 1")  # the instances are made
    ran, load, run = [], Sandbox.load, Sandbox.run
    with monkeypatch.context() as patch:
        patch.setattr(Sandbox, "load", lambda self, image: (ran.append(len(image)), load(self, image))[1])
        patch.setattr(Sandbox, "run", lambda self, sql, **how: (ran.append(sql), run(self, sql, **how))[1])
        episode = Episode(q, db, verify=verify)
        episode.reset()
        episode.step("QUERY", query)
        episode.step("ANSWER", answer)
    return episode, ran


TEXAS, *_ = cases("verdict_facts_texas")


@pytest.mark.parametrize("query", cases("verdict_facts_texas"))
def test_an_answer_runs_the_same_whatever_comes_out(path, monkeypatch, query):
    right, ran_right = counted_answer(path, monkeypatch, query, "10")
    wrong, ran_wrong = counted_answer(path, monkeypatch, query, "11")
    assert right.correct and not wrong.correct and not wrong.robust
    assert ran_right == ran_wrong and len(ran_right) > 40, "all instances, in both"
    assert counted_answer(path, monkeypatch, query, "10", verify="value")[1] == [], "by value nothing is run"


def test_of_a_wide_table_only_what_is_named_is_filled(tmp_path, path, monkeypatch):
    "The columns of gold, of the query and of keys; all where a query means all."
    columns = ", ".join(f"c{i} INTEGER" for i in range(120))
    rows = {"wide": [(k, *((k * i) % 11 for i in range(120))) for k in range(40)]}
    wide = build_database(tmp_path / "wide.sqlite", f"CREATE TABLE wide (id INTEGER PRIMARY KEY, {columns})", rows)
    gold, db = "SELECT count(*) FROM wide WHERE c7 > 3", Database(wide)
    star = "SELECT count(*) FROM (SELECT * FROM wide WHERE c7 > 3) WHERE c110 IS NOT NULL"
    for sql in ("SELECT sum(c7 > 3) FROM wide", "SELECT count(c9) FROM wide WHERE c7 > 3", star):
        assert judge_evidence(gold, db, sql).correct
    assert not judge_evidence(gold, db, "SELECT count(*) FROM wide WHERE c8 > 3").correct
    generator = InstanceGenerator(wide)
    sizes = [len(plan_instances(generator, gold, sql).shapes[0].columns) for sql in ("", "c9", star)]
    assert sizes == [2, 3, 121]


def test_statements_on_an_instance_and_on_a_source_have_a_bound():
    "Our own connections stop a statement that would run for long."
    scratch = ScratchDatabase(max_ticks=50)
    bounded = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT max(i) FROM n"
    assert scratch.run(bounded.format(100_000)) is None and "50,000 operations" in scratch.error
    assert 50 < scratch.ticks < 55
    again = scratch.run(bounded.format(100))
    assert again == [(100,)] and scratch.ticks < 50, "the budget is that of one statement"
    scratch.load(ScratchDatabase().image() or apsw.Connection(":memory:").serialize("main"))
    assert scratch.run(bounded.format(100_000)) is None, "a connection on which an instance was laid has it too"
    con = apsw.Connection(":memory:")
    con.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3)")
    source = ScratchDatabase(con, max_ticks=5)
    product = "SELECT count(*) FROM t a, t b, t c, t d, t e, t f, t g, t h, t i"
    assert source.run(product) is None and source.some_rows(product) == []
    # rows refused midway are not written twice
    scratch = ScratchDatabase()
    scratch.con.execute("CREATE TABLE t (a INTEGER)")
    scratch.insert("INSERT INTO t VALUES (?)", [(1,), (2**70,), (2,)])
    assert scratch.run("SELECT a FROM t") == [(1,), (2,)]


def test_what_is_replaced_keeps_its_neighbours():
    tree = exp.Paren(this=parse_one("SELECT name FROM ship WHERE home IN ('a', 'b', 'c')"))
    before = tree.sql("sqlite")
    for place, expected in enumerate(("('x', 'b', 'c')", "('a', 'x', 'c')", "('a', 'b', 'x')")):
        with _replaced([*tree.find_all(exp.Literal)][place], exp.Literal.string("x")):
            assert expected in tree.sql("sqlite")
        assert tree.sql("sqlite") == before
    texts = [sql for kind, sql in one_edit_mutants("SELECT a FROM t WHERE b IN ('p', 'q', 'r')") if kind == "literal"]
    assert texts and all(sql.count("'") == 6 for sql in texts)
    assert "SELECT a FROM t WHERE b IN ('p', 'qs', 'r')" in texts


@pytest.mark.parametrize("end, is_grouped", [("GROUP BY state HAVING count(*) > 60", True), ("WHERE year > 60", False)])
@pytest.mark.parametrize("mode", [GROUPED, MIXED])
def test_tables_grow_for_groups_only(path, end, is_grouped, mode):
    "Only where gold compares the size of groups, and only in the mode for groups."
    generator = InstanceGenerator(path)
    plan = plan_instances(generator, f"SELECT state FROM city {end}")
    sampler = RowSampler(generator, plan)
    (shape,) = plan.shapes
    sizes = [len(sampler.rows(shape, mode, Random(n))) for n in range(30)]
    grows = is_grouped and mode is GROUPED
    assert (min(sizes) >= 62) == grows and (grows or max(sizes) <= mode.max_rows)
