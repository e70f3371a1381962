"Proofs of equivalence: what is proved, what is refuted, and that nothing wrong is ever proved."

import builtins
import json
from random import Random

import apsw
import pytest
import weakened_rules
from conftest import ROOT
from deceiving_pairs import DATABASES, PAIRS, SCHEMA, differing, false_proofs

from sql_env.evaluation.golds import normalized_gold
from sql_env.evaluation.harness import EvaluationResult
from sql_env.evaluation.logs import EpisodeResult, episode_result
from sql_env.evaluation.reports import certificate_text
from sql_env.grading.proofs.certificates import prove_on
from sql_env.grading.proofs.counterexamples import Filler, Judge, all_assumptions
from sql_env.grading.proofs.decision import prove
from sql_env.grading.proofs.facts import Assumption, read_facts
from sql_env.play.environment import EpisodeEnv
from sql_env.sources.loading import load
from sql_env.sql.analysis import parse_sql, referenced_tables
from sql_env.sql.mutants import one_edit_mutants

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


EQUAL = [
    ("SELECT name FROM singer", "select singer.name from singer AS singer"),
    ("SELECT name FROM singer WHERE age > 30", "SELECT name FROM singer WHERE age >= 31"),
    ("SELECT name FROM singer WHERE age > 30", "SELECT name FROM singer WHERE NOT age <= 30"),
    (
        "SELECT name FROM singer WHERE age IN (30, 41)",
        "SELECT name FROM singer WHERE age = 30 OR age = 41",
    ),
    (
        "SELECT name FROM singer WHERE age BETWEEN 30 AND 41",
        "SELECT name FROM singer WHERE 30 <= age AND NOT age > 41",
    ),
    ("SELECT DISTINCT country FROM singer", "SELECT country FROM singer GROUP BY country"),
    (
        "SELECT s.name FROM singer s JOIN song o ON s.id = o.singer_id",
        "SELECT name FROM song, singer WHERE singer_id = singer.id",
    ),
    ("SELECT o.id FROM song o", "SELECT o.id FROM song o JOIN singer s ON s.id = o.singer_id"),
    (
        "SELECT o.id, s.name FROM song o JOIN singer s ON s.id = o.singer_id",
        "SELECT id, (SELECT name FROM singer WHERE id = singer_id) FROM song",
    ),
    ("SELECT o.id FROM song o LEFT JOIN singer s ON s.id = o.singer_id", "SELECT id FROM song"),
    (
        "SELECT name FROM singer WHERE id IN (SELECT singer_id FROM song)",
        "SELECT name FROM singer s WHERE EXISTS (SELECT 1 FROM song WHERE singer_id = s.id)",
    ),
    (
        "SELECT name FROM singer WHERE id NOT IN (SELECT singer_id FROM song)",
        "SELECT s.name FROM singer s LEFT JOIN song o ON s.id = o.singer_id WHERE o.id IS NULL",
    ),
    (
        "SELECT s.name, count(*) FROM singer s JOIN song o ON s.id = o.singer_id GROUP BY s.id",
        "SELECT s.name, n FROM singer s JOIN (SELECT singer_id, count(*) AS n FROM song GROUP BY "
        "singer_id) ON s.id = singer_id",
    ),
    (
        "SELECT s.id, count(o.id) FROM singer s LEFT JOIN song o ON s.id = o.singer_id GROUP BY s.id",
        "SELECT id, (SELECT count(*) FROM song WHERE singer_id = singer.id) FROM singer",
    ),
    ("SELECT avg(age) FROM singer", "SELECT sum(age) * 1.0 / count(age) FROM singer"),
    (
        "SELECT count(*) FROM singer WHERE age = 30",
        "SELECT sum(CASE WHEN age = 30 THEN 1 ELSE 0 END) FROM singer",
    ),
    (
        "SELECT count(*) FROM singer WHERE age = 30",
        "SELECT count(CASE WHEN age = 30 THEN 1 END) FROM singer",
    ),
    (
        "SELECT count(DISTINCT country) FROM singer",
        "SELECT count(*) FROM (SELECT DISTINCT country FROM singer WHERE country IS NOT NULL)",
    ),
    (
        "SELECT name FROM singer ORDER BY age DESC LIMIT 1",
        "SELECT name FROM singer WHERE age = (SELECT max(age) FROM singer)",
    ),
    (
        "SELECT name FROM singer ORDER BY age DESC LIMIT 2",
        "SELECT name FROM singer s WHERE (SELECT count(*) FROM singer WHERE age > s.age) < 2 ORDER BY "
        "age DESC",
    ),
    (
        "SELECT name FROM singer WHERE age < (SELECT max(age) FROM singer)",
        "SELECT name FROM singer s WHERE EXISTS (SELECT 1 FROM singer WHERE age > s.age)",
    ),
    (
        "SELECT country FROM singer WHERE age = 30 INTERSECT SELECT country FROM singer WHERE age = 41",
        "SELECT country FROM singer a WHERE age = 30 AND EXISTS (SELECT 1 FROM singer WHERE age = 41 "
        "AND country IS a.country) GROUP BY country",
    ),
    (
        "SELECT singer_id FROM song GROUP BY singer_id HAVING count(*) > 1",
        "SELECT id FROM singer WHERE (SELECT count(*) FROM song WHERE singer_id = singer.id) >= 2",
    ),
    (
        "SELECT singer_id FROM song WHERE title = 'Sun' INTERSECT SELECT singer_id FROM song WHERE "
        "title = 'Moon'",
        "SELECT singer_id FROM song WHERE title IN ('Sun', 'Moon') GROUP BY singer_id HAVING "
        "count(DISTINCT title) = 2",
    ),
    (
        "SELECT id FROM song WHERE title = 'Sun' OR title = 'Moon'",
        "SELECT id FROM song WHERE title = 'Sun' UNION ALL SELECT id FROM song WHERE title = 'Moon'",
    ),
    (
        "SELECT name, rank() OVER (ORDER BY age) FROM singer",
        "SELECT name, 1 + (SELECT count(*) FROM singer WHERE age < s.age) FROM singer s",
    ),
    ("SELECT max(age) FROM singer", "SELECT (SELECT age FROM singer ORDER BY age DESC LIMIT 1)"),
    (
        "SELECT id FROM singer WHERE (SELECT count(*) FROM song WHERE singer_id = singer.id) >= 1",
        "SELECT DISTINCT s.id FROM singer s JOIN song o ON o.singer_id = s.id",
    ),
    (
        "WITH old AS (SELECT * FROM singer WHERE age > 30) SELECT name FROM old",
        "SELECT name FROM (SELECT name, age FROM singer) WHERE age > 30",
    ),
]


@pytest.mark.parametrize("gold, sql", EQUAL, ids=range(len(EQUAL)))
def test_equal_queries_are_proved(singers, gold, sql):
    proof = prove(gold, sql, singers)
    assert proof.outcome == "proved", proof
    assert disagreement(gold, sql, singers, proof.assumptions, 60) is None


def disagreement(gold, sql, facts, assumptions, tries):
    "Two results that differ on a random database which keeps some assumptions, None if there are none."
    tables = sorted({*referenced_tables(gold), *referenced_tables(sql)})
    filler = Filler(facts, tables, assumptions, [parse_sql(gold), parse_sql(sql)])
    judge = Judge(gold, sql)
    for n in range(tries):
        if filler.fill(Random(n)) and (found := judge.differ(filler)):
            return found, filler.rows()
    return None


@pytest.mark.parametrize("sql, reason", [
    ("SELECT name FROM singer WHERE name = 'a' COLLATE NOCASE", "COLLATE"),
    ("SELECT name FROM singer WHERE +name = 10", "SQLite may read it otherwise than the parser"),
    ("SELECT name FROM singer LIMIT 1", "LIMIT without ORDER BY"),
    ("SELECT name, country FROM singer GROUP BY country", "a column that the group does not determine"),
    ("SELECT group_concat(name) FROM singer", "the aggregate groupconcat"),
    ("SELECT random() FROM singer", "the function rand"),
    ("SELECT date('now')", "may depend on the time"),
    ("SELECT hair FROM singer", "SQLite refuses it: no such column: hair"),
    ("SELECT", "SQLite refuses it: incomplete input"),
])  # fmt: skip
def test_what_is_not_covered_is_open_with_the_reason(singers, sql, reason):
    proof = prove(sql, sql + " ", singers, tries=0)
    assert proof.outcome == "open"
    assert reason in proof.reason


def test_only_needed_assumptions_are_named(singers):
    same = prove(
        "SELECT name FROM singer WHERE age > 30",
        "SELECT name FROM singer WHERE NOT age <= 30",
        singers,
    )
    assert same.assumptions == ()
    join = prove(
        "SELECT id FROM song",
        "SELECT song.id FROM song JOIN singer ON singer.id = singer_id",
        singers,
    )
    assert {a.kind for a in join.assumptions} == {"not_null", "key", "reference"}
    assert all(a.declared for a in join.assumptions)
    ages = prove("SELECT count(*) FROM singer", "SELECT count(age) FROM singer", singers)
    assert Assumption("not_null", "singer", ("age",)) in ages.assumptions
    with_unknown_age = facts_of(SINGERS + "INSERT INTO singer VALUES (4, 'Di', NULL, NULL)")
    refuted = prove(
        "SELECT count(*) FROM singer", "SELECT count(age) FROM singer", with_unknown_age
    )
    assert refuted.outcome == "refuted"


def test_a_counterexample_keeps_the_assumptions_and_is_small(singers):
    gold = "SELECT s.name FROM singer s JOIN song o ON s.id = o.singer_id"
    proof = prove(gold, f"SELECT DISTINCT name FROM ({gold})", singers)
    assert proof.outcome == "refuted"
    rows = proof.counterexample.tables
    assert len(rows["singer"]) <= 2 and len(rows["song"]) == 2
    assert {song[1] for song in rows["song"]} <= {singer[0] for singer in rows["singer"]}
    assert "gold: " in str(proof.counterexample)


def test_proofs_are_the_same_each_time(singers):
    for gold, sql in EQUAL[:8] + PAIRS[:8]:
        first, again = (prove(gold, sql, singers, tries=0) for _ in range(2))
        assert first == again


def test_without_the_solver_nothing_is_proved_that_needs_it(singers, monkeypatch):
    import sys

    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "z3":
            raise ModuleNotFoundError("No module named 'z3'", name="z3")
        return original(name, *args, **kwargs)

    for module in [
        m for m in sys.modules if m == "z3" or m.startswith("z3.") or m.endswith("proofs.solver")
    ]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without)
    proof = prove(
        "SELECT name FROM singer WHERE age > 30",
        "SELECT name FROM singer WHERE age >= 31",
        singers,
        tries=0,
    )
    assert proof.outcome == "open" and 'pip install "sql_env[prove]"' in proof.reason


# ---- soundness


def test_each_deceiving_pair_is_shown_to_differ():
    shown = {frozenset((gold, sql)) for gold, sql, _ in differing()}
    assert len(PAIRS) >= 150
    assert [pair for pair in PAIRS if frozenset(pair) not in shown] == []


def test_no_deceiving_pair_is_proved():
    assert list(false_proofs()) == []


def test_each_database_of_the_pairs_keeps_its_own_facts():
    for rows in DATABASES.values():
        assert set(rows) <= set(facts_of(SCHEMA).tables)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(n, marks=[] if n % 4 == 0 else [pytest.mark.full])
        for n in range(len(weakened_rules.RULES))
    ],
)
def test_a_weakened_rule_is_caught(number):
    assert weakened_rules.is_caught(number), weakened_rules.RULES[number][0]


def test_some_weakened_rules_are_caught():
    for number in (0, 27, 47):
        assert weakened_rules.is_caught(number), weakened_rules.RULES[number][0]


def bundled_golds(step):
    "Every so many gold queries of the bundled databases, each with the facts of its database."
    questions = load("bundled")
    facts = {
        name: read_facts(apsw.Connection(str(path))) for name, path in questions.databases.items()
    }
    for q in sorted(questions, key=lambda q: q.question_id)[::step]:
        yield facts[q.database_name], q.gold_sql


def check_mutants(step, each, tries):
    "Mutants of gold that are proved agree with it on random databases; returns how many were, and of how many."
    proved = asked = 0
    for facts, gold in bundled_golds(step):
        mutants = [sql for _, sql in one_edit_mutants(gold)]
        for sql in Random(gold).sample(mutants, min(each, len(mutants))):
            proof = prove(gold, sql, facts, tries=0)
            asked += 1
            if proof:
                proved += 1
                for assumptions in (proof.assumptions, all_assumptions(facts)):
                    assert disagreement(gold, sql, facts, assumptions, tries) is None, (gold, sql)
    return proved, asked


def test_mutants_that_are_proved_agree_everywhere(tell):
    proved, asked = check_mutants(step=16, each=5, tries=40)
    tell(f"{proved} of {asked} mutants proved equal")
    assert asked > 80 and proved > 5


@pytest.mark.slow
@pytest.mark.full
def test_many_mutants_that_are_proved_agree_everywhere(tell):
    proved, asked = check_mutants(step=1, each=16, tries=200)
    tell(f"{proved} of {asked} mutants proved equal")
    assert asked > 2500


# ---- pairs by somebody who had not seen the rules


def blind_pairs():
    "Schemas, and pairs that look equal, each with rows on which it differs; those of kind `equal` are."
    first, *pairs = map(json.loads, (ROOT / "tests" / "data" / "blind_pairs.jsonl").open())
    return first["schemas"], pairs


def facts_of_pair(schemas, pair):
    return facts_of(";\n".join([*schemas[pair["schema"]], *pair.get("rows", [])]))


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 8))]
)
def test_no_blind_pair_is_proved_but_under_a_named_assumption(part):
    schemas, pairs = blind_pairs()
    for pair in [p for p in pairs if p["kind"] != "equal"][part::8]:
        facts = facts_of_pair(schemas, pair)
        for gold, sql in ((pair["gold"], pair["sql"]), (pair["sql"], pair["gold"])):
            proof = prove(gold, sql, facts, tries=0)
            named = {a.kind for a in proof.assumptions} & {"no_ties", "exact"}
            breaks_one = pair["kind"] in ("order: tie limit", "arith: overflow", "arith: big float")
            assert not proof or (named and breaks_one), (gold, sql, proof)


def test_most_blind_pairs_that_are_equal_are_proved():
    schemas, pairs = blind_pairs()
    equal = [p for p in pairs if p["kind"] == "equal"]
    proofs = [prove(p["gold"], p["sql"], facts_of_pair(schemas, p), tries=0) for p in equal]
    assert len(equal) == 71 and sum(map(bool, proofs)) >= 50


@pytest.mark.parametrize(
    "rows", ["singer", "(SELECT * FROM singer UNION ALL SELECT * FROM singer)"]
)
def test_row_numbers_among_ties_prove_nothing(singers, rows):
    sql = f"SELECT name, row_number() OVER (ORDER BY age) FROM {rows}"
    assert prove(sql, sql, singers, tries=0).outcome == "open"


def test_gold_is_proved_equal_to_itself():
    "Written in another form, so that the text alone does not show it."
    outcomes = [
        prove(gold, parse_sql(gold).sql("sqlite", pretty=True), facts)
        for facts, gold in bundled_golds(4)
    ]
    assert sum(map(bool, outcomes)) >= 0.9 * len(outcomes)
    assert not any(p.outcome == "refuted" for p in outcomes)


# ---- in the loop


def certified_episode(*queries):
    "An episode under `certified` that ends with `@last`, and its question."
    questions = load("bundled")
    question = next(
        q for q in sorted(questions, key=lambda q: q.question_id) if q.gold_sql.count("WHERE") == 1
    )
    env = EpisodeEnv(questions, verify="certified")
    env.reset(question_id=question.question_id)
    for sql in queries or (f"SELECT * FROM ({question.gold_sql.rstrip(';')})",):
        env.step("QUERY", sql.format(gold=question.gold_sql.rstrip(";")))
    return env.step("ANSWER", "@last"), env.episode


def test_a_proof_certifies_an_episode():
    last, episode = certified_episode()
    assert last.reward == 1 and episode.certificate.outcome == "proved"
    result = episode_result(episode)
    assert result.certificate == "proved"
    assert EpisodeResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_what_is_not_proved_is_rewarded_all_the_same():
    last, episode = certified_episode("SELECT * FROM ({gold}) WHERE random() IS NOT NULL OR 1 = 1")
    assert episode.certificate is None or episode.certificate.outcome != "refuted"
    assert last.reward == (episode.robust is True)


def test_a_wrong_answer_has_no_certificate():
    last, episode = certified_episode("SELECT 'nothing like it'")
    assert last.reward == 0 and episode.certificate is None


def test_a_kept_proof_costs_nothing(tmp_path):
    from timeit import timeit

    questions = load("bundled")
    q = questions[0]
    db = questions.database(q.database_name)
    first = prove_on(db, q.gold_sql, f"{q.gold_sql} ")
    assert prove_on(db, q.gold_sql, q.gold_sql) is first
    assert timeit(lambda: prove_on(db, q.gold_sql, q.gold_sql), number=20) / 20 < 0.005


def test_the_bounds_of_an_evaluation():
    outcomes = ["proved"] * 5 + ["open"] * 2 + ["refuted", "", ""]
    tries = [
        EpisodeResult(n, str(n), correct=bool(p), certificate=p) for n, p in enumerate(outcomes)
    ]
    result = EvaluationResult("a policy", tries)
    assert result.certified_bounds() == (0.5, 0.7)
    low, high = result.certified_bounds(level=0.95)
    assert low < 0.5 and high > 0.7
    assert "certified 50.0%, refuted 10.0%, open 20.0%" in certificate_text(result)
    assert certificate_text(EvaluationResult("a policy", tries[8:])) == ""


def test_what_a_certificate_rests_on_stands_in_log_and_page(tmp_path):
    from sql_env.evaluation import evaluate
    from sql_env.evaluation.logs import read_log
    from sql_env.play import EpisodeEnv
    from sql_env.policies import OraclePolicy
    from sql_env.sources import load
    from sql_env.view.episode import view_trajectory
    from sql_env.view.film import film_data
    from sql_env.view.page import outcome_html

    qs = load("bundled").sample(4, seed=1)
    log = tmp_path / "run.jsonl"
    evaluate(EpisodeEnv(qs, verify="certified"), OraclePolicy(qs), 4, log=log, progress=False)
    about, trajectories = read_log(log)
    trajectories = list(trajectories)
    assert [t.episode.certificate for t in trajectories] == ["proved"] * 4
    for t in trajectories:
        view = view_trajectory(t, qs, about)
        assert view.outcome.proof == t.episode.proof
        assert "proved equal to gold" in str(outcome_html(view.outcome))
        assert film_data(t, about)["end"]["proof"][1] == t.episode.proof


def test_golds_that_are_proved_equal_or_contradict_each_other_are_found():
    from sql_env.evaluation import audit_questions
    from sql_env.evaluation.golds import contradicting_golds, equal_golds
    from sql_env.sources import load

    qs = load("bundled")
    q = next(q for q in qs if "count ( * )" in str(normalized_gold(q)) and q.gold_answer[0][0] > 1)
    twin = q.with_fields(question_id="twin", gold_sql=f"SELECT * FROM ({q.gold_sql})")
    lucky = q.with_fields(question_id="lucky", gold_sql=f"SELECT {q.gold_answer[0][0]}")
    wrong = lucky.with_fields(question_id="wrong", gold_answer=((0,),), gold_sql="SELECT 0")
    [(alike, proof)] = equal_golds(qs, [q, twin, lucky, wrong])
    assert {q.question_id for q in alike} == {q.question_id, "twin"} and proof
    pairs = contradicting_golds(qs, [q, twin, lucky, wrong])
    assert {frozenset((a.question_id, b.question_id)) for a, b, _ in pairs} == {
        frozenset(pair)
        for pair in ((q.question_id, "lucky"), (q.question_id, "wrong"), ("twin", "lucky"),
                     ("twin", "wrong"), ("lucky", "wrong"))
    }  # fmt: skip
    report = audit_questions(qs.with_questions([q, twin, lucky]), progress=False)
    flags = {q.question_id: set(q.flags) for q in report.questions}
    assert "equal_gold" in flags["twin"] and "contradicted" not in report.counts().keys() - {
        "contradicted"
    }
    assert "contradicted" in flags["lucky"] and "equal_gold" not in flags["lucky"]


def test_tasks_with_other_statements_are_no_duplicates():
    "Tasks have no gold query and no gold rows; what tells them apart are their statements."
    from sql_env.evaluation.golds import contradicting_golds, equal_golds
    from sql_env.sources import load

    tasks = load("bundled_tasks")
    assert equal_golds(tasks) == contradicting_golds(tasks) == []
    one = next(q for q in tasks if q.gold_statements)
    twin = one.with_fields(question_id="twin")
    [group] = equal_golds(tasks, [*tasks, twin])
    assert [q.question_id for q in group.questions] == [one.question_id, "twin"]
