"""The audit: every planted flaw is found, nothing else is; reports, exit codes, mutants."""

import json
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import mutation_study
import pytest
from mutants import one_edit_mutants
from tables import cases

from sql_env.database import Database, Limits, build_database
from sql_env.evaluation import audit
from sql_env.evaluation.audit import audit_markdown, audit_questions, audit_summary, save_report
from sql_env.grading.variants.pairs import instance_generator
from sql_env.questions.question_set import QUARANTINE_FLAGS, QUESTION_FLAGS, Question, QuestionSet
from sql_env.sources.files import Drafts
from sql_env.sources.loading import _complete_questions, load
from sql_env.sql.analysis import parse_sql
from sql_env.sql.shapes import SHAPE_RULES

SCHEMA = """
CREATE TABLE captain (captain_id INTEGER PRIMARY KEY, name TEXT, home TEXT);
CREATE TABLE ship (ship_id INTEGER PRIMARY KEY, name TEXT, captain_id INTEGER REFERENCES captain,
                   tonnes REAL, note TEXT);"""
CAPTAINS = [(1, "Ines", "Porto"), (2, "Max", "Bremen"), (3, "Mia", "Porto")]
SHIPS = [(1, "Aurora", 1, 0.1, None), (2, "Bora", 2, 0.2, "x"), (3, "Cirrus", 1, 0.7, "y")]
SHIPS += [(4, "Dione", 2, 0.7, "z"), (5, "Eos", None, 0.3, "z")]
PLANTED = dict(cases("audit_planted", list))


@pytest.fixture(scope="module")
def harbour(tmp_path_factory):
    rows = {"captain": CAPTAINS, "ship": SHIPS}
    path = build_database(tmp_path_factory.mktemp("harbour") / "harbour.sqlite", SCHEMA, rows)
    questions = [
        Question(f"q{i:02}", f"Question number {i} about {sql[-9:]}?", "harbour", sql, split="train")
        for i, sql in enumerate(PLANTED)
    ]
    return _complete_questions(Drafts(questions, {"harbour": path}, "harbour"))


@pytest.fixture(scope="module")
def report(harbour):
    return audit_questions(harbour, progress=False)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SQL_ENV_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("i, sql", list(enumerate(PLANTED)))
def test_planted_flaws(report, i, sql):
    (q,) = (q for q in report.questions if q.question_id == f"q{i:02}")
    flags, planted = set(q.flags), set(PLANTED[sql])
    assert flags - {"guessable"} == planted - {"guessable"} and planted <= flags


def test_counts_exit_code_and_files(report, harbour, tmp_path):
    "The same in processes."
    n = Counter(f for q in report.questions for f in q.flags)
    assert report.counts() == {f: n[f] for f in QUESTION_FLAGS if n[f]}
    assert report.exit_code == 1
    assert len(report.bad) == sum(bool(QUARANTINE_FLAGS & set(q.flags)) for q in report.questions)
    save_report(report, tmp_path)
    lines = [json.loads(x) for x in (tmp_path / "flags.jsonl").read_text().splitlines()]
    assert {d["question_id"] for d in lines} == {q.question_id for q in report.questions if q.flags}
    text = (tmp_path / "audit.md").read_text()
    assert all(f"| {f} | {c} |" in text and f"## {f}" in text for f, c in report.counts().items())
    assert json.loads((tmp_path / "audit.json").read_text())["flags"] == report.counts()
    clean = audit_questions(harbour.filter(lambda q: q.question_id in ("q00", "q01")), progress=False)
    assert clean.exit_code == 0 and "set aside" in audit_markdown(clean)
    with ProcessPoolExecutor(2) as pool:
        assert audit_questions(harbour, executor=pool, progress=False) == report


def test_questions_that_nobody_could_check_do_not_pass(harbour):
    clean = harbour.filter(lambda q: q.question_id in ("q00", "q01"))
    partly = QuestionSet([*clean], clean.databases, "x", left_out={"database lost is missing": 6})
    assert audit_questions(partly, progress=False).exit_code == 1
    assert audit_questions(clean.with_questions([]), progress=False).exit_code == 1, "none was checked"


def test_stored_answers_that_gold_no_longer_gives(harbour):
    a = harbour.get("q00")
    stale = QuestionSet([replace(a, gold_answer=(("Oslo",),))], harbour.databases, "stale")
    report = audit_questions(stale, progress=False)
    assert report.questions[0].flags == ("stale",) and report.exit_code == 1


@pytest.fixture
def two(tmp_path):
    "A folder of questions on two databases."
    for name in ("north", "south"):
        build_database(tmp_path / f"{name}.sqlite", SCHEMA, {"captain": CAPTAINS, "ship": SHIPS})
    questions = [
        dict(question=f"Where does {who} of the {name} live?", sql=sql, database=name)
        for name in ("north", "south")
        for who, sql in [("Ines", next(iter(PLANTED))), ("Max", BY_MAX)]
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(q) + "\n" for q in questions))
    return load("folder", tmp_path)


BY_MAX = "SELECT home FROM captain WHERE name = 'Max'"


def test_a_database_or_gold_without_variants_is_flagged_with_the_reason(two, monkeypatch):
    why = "Its tables can't be copied."
    with monkeypatch.context() as patch:
        patch.setattr(audit, "why_no_instances", lambda path: why if "south" in str(path) else "")
        report = audit_questions(two, progress=False)
    for q in report.questions:
        assert ("no_variants" in q.flags) == (q.database_name == "south")
        assert q.reason("no_variants") == (why if q.database_name == "south" else "")
    assert not report.bad and not report.failed
    # gold is looked at where variants are asked for
    monkeypatch.setattr(audit, "why_no_variants", lambda path, sql: "Gold can't be parsed." if sql == BY_MAX else "")
    monkeypatch.setattr(audit, "pair_variants", lambda path, sql: [] if sql == BY_MAX else [1, 2])
    report = audit_questions(two, variants=5, progress=False)
    assert report.counts()["no_variants"] == report.counts()["few_variants"] == 2
    assert audit_questions(two, progress=False).counts().get("no_variants", 0) == 0


def test_a_database_that_fails_is_reported_and_the_audit_keeps_to_the_limits_of_the_set(harbour, two):
    sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT max(i) FROM n"
    alone = harbour.with_questions([Question("q", "How far do we count?", "harbour", sql)])
    (q,) = audit_questions(alone, progress=False).questions
    assert "over_limits" not in q.flags
    (q,) = audit_questions(alone.with_limits(Limits(operations=10_000)), progress=False).questions
    assert q.flags == ("over_limits",) and "operations" in q.reason("over_limits")
    # the audit goes on where a database fails
    two.databases["south"].write_bytes(b"no database" * 100)
    report = audit_questions(two, progress=False)
    assert list(report.failed) == ["south"] and "SQLite" in report.failed["south"]
    assert report.exit_code == 1 and not report.bad
    assert {q.database_name for q in report.questions} == {"north", "south"}
    assert "Not checked: database south." in audit_markdown(report)
    assert audit_summary(report)["failed"] == report.failed


SHAPES_SCHEMA = """
CREATE TABLE lab (lab_id INTEGER PRIMARY KEY, name TEXT, size TEXT, staff INTEGER, rent REAL, opened TEXT,
                  closed TEXT);
CREATE TABLE test (test_id INTEGER PRIMARY KEY, lab_id INTEGER REFERENCES lab, kind TEXT, is_done TEXT,
                   score INTEGER);"""
LABS = [(1, "Nord", "90", 7, 1.5, "August 8, 1986", "2001-02-03")]
LABS += [(2, "Sued", "120", 3, 2.5, "May 3, 1979", "2001-12-24"), (3, "Ost", "n/a", 4, None, "May 4, 1980", None)]
TESTS = [(1, 1, "blood", "yes", 5), (2, 1, "bone", "no", 6), (3, 2, "blood", "yes", 6)]
SHAPES = cases("audit_shapes")


@pytest.fixture(scope="module")
def labs(tmp_path_factory):
    path = tmp_path_factory.mktemp("labs") / "labs.sqlite"
    return Database(build_database(path, SHAPES_SCHEMA, {"lab": LABS, "test": TESTS}))


@pytest.mark.parametrize("text, sql, flags", SHAPES)
def test_faults_that_the_shape_of_gold_shows(labs, text, sql, flags):
    q = Question("q", text, "labs", sql, gold_answer=tuple(labs.query(sql).rows))
    doubts = audit._shape_doubts(labs, q)
    assert doubts.keys() == set(flags.split())
    for flag in doubts:
        assert f"({SHAPE_RULES[flag].severity}; `" in doubts[flag] and "line 1" in doubts[flag]
    every = {flag for case in SHAPES for flag in case[2].split()}
    assert SHAPE_RULES.keys() <= every & QUESTION_FLAGS.keys(), "each rule has cases and a flag"


ANSWERS = (("What is the mean?", 58.75, True), ("To two decimals?", 58.75, False), ("What is the mean?", 58.745, False))


@pytest.mark.parametrize("text, value, is_rounded", [*ANSWERS, ("How many?", 58, False), ("How many?", 58.0, False)])
def test_an_answer_without_a_query_may_be_rounded(text, value, is_rounded):
    q = audit._check_gold(None, None, Question("q", text, "labs", "", gold_answer=((value,),)))
    assert ("rounded" in q.flags) == is_rounded


def test_bundled_leaves_no_doubt():
    qs = load("bundled")
    doubts = {q.question_id: audit._shape_doubts(qs.database(q.database_name), q) for q in qs}
    assert not {question_id: found for question_id, found in doubts.items() if found}


@pytest.mark.parametrize("operator", ["! =", "> =", "<  =", "!\n="])
def test_gold_with_blanks_within_operators_is_read(harbour, operator):
    sql = f"SELECT name FROM ship WHERE ship_id {operator} 2 AND name <> 'a ! = b'"
    path = harbour.databases["harbour"]
    (q,) = _complete_questions(Drafts([Question("q", "Which?", "harbour", sql)], {"harbour": path}, "x"))
    assert q.gold_answer and "'a ! = b'" in q.gold_sql and not q.flags


@pytest.mark.slow
def test_bundled_is_clean():
    report = audit_questions(load("bundled"), progress=False)
    assert report.exit_code == 0, [(q.question_id, q.flags) for q in report.bad]
    assert max(report.hacks_correct.values()) <= 0.02 * 384
    assert max(report.hacks_robust.values()) <= 0.01 * 384
    assert "tie_at_limit" not in report.counts(), report.counts()


class TestMutants:
    SQL = (
        "SELECT DISTINCT c.home FROM captain c JOIN ship s ON s.captain_id = c.captain_id "
        "WHERE s.tonnes > 0.5 AND c.name <> 'Mia' ORDER BY c.home LIMIT 3"
    )

    def test_edits(self):
        found = Counter(name for name, _ in one_edit_mutants(self.SQL))
        kinds = "drop_distinct drop_where left_join drop_order flip_order drop_limit limit drop_term and_or operator"
        assert set(found) == {*kinds.split(), "literal"}
        assert found["drop_term"] == 2 and found["operator"] == 3
        more = (
            "SELECT a, max(b), count(c), count(DISTINCT d) FROM t WHERE NOT x LIKE '%y' AND z IN (1, 2) "
            "GROUP BY a, e HAVING sum(f) >= 3 UNION SELECT 1, 2, 3, 4 FROM u"
        )
        kinds = "aggregate count_distinct count_star drop_not add_not drop_having drop_group_key union_all"
        assert {*kinds.split(), "set_operation", "drop_branch"} <= {name for name, _ in one_edit_mutants(more)}
        texts = [s for _, s in one_edit_mutants(self.SQL)]
        assert len(texts) == len(set(texts)) and self.SQL not in texts
        assert one_edit_mutants(self.SQL) == one_edit_mutants(self.SQL), "the tree is whole"

    def test_not_like_is_the_opposite_of_like(self):
        sql = "SELECT a FROM t WHERE b {}LIKE 'x!%' ESCAPE '!'"
        mutants = one_edit_mutants(sql.format("NOT "))
        assert ("drop_not", sql.format("")) in mutants
        assert parse_sql(sql.format("NOT ")) == parse_sql(sql.format("").replace(" b ", " NOT b "))

    @pytest.mark.parametrize("rows, gold, ranks, passed", cases("audit_passed_comparisons"))
    def test_passes(self, rows, gold, ranks, passed):
        found = mutation_study._passed_comparisons([(x, 1) for x in rows], [(x, 1) for x in gold], ranks)
        assert [name for name, passes in found.items() if passes] == passed.split()

    def test_equivalent_mutants_survive_random_instances_and_others_do_not(self, harbour):
        generator = instance_generator(harbour.databases["harbour"], False)
        gold = "SELECT c.name FROM ship s JOIN captain c ON c.captain_id = s.captain_id WHERE s.tonnes > 0.5"
        same = "SELECT c.name FROM captain c JOIN ship s ON s.captain_id = c.captain_id WHERE NOT s.tonnes <= 0.5"
        assert mutation_study._survives(generator, gold, same)
        assert not mutation_study._survives(generator, gold, gold.replace(">", ">="))

    def test_study_adds_up(self, harbour):
        study = mutation_study.mutation_study(harbour, progress=False)
        total, share = sum(study.count.values(), Counter()), study.share
        assert study.golds == len({q.gold_sql for q in harbour})
        assert not [kind for kind in study.count if kind.startswith("failed")]
        assert share("set") >= share("bag") >= share("order")
        assert share("robust") < 0.1 < share("set") and share("robust") <= share("value")
        assert total["value="] == total["equivalent"] == total["robust="]
        assert "| robust |" in mutation_study.mutation_study_markdown(study)
        assert mutation_study.mutation_study_json(study)["count"]["operator"]["n"] == study.count["operator"]["n"]


@pytest.mark.slow
def test_spider_dev(spider_path):
    qs = load("spider", spider_path, "dev")
    report = audit_questions(qs, progress=False)
    assert max(report.hacks_robust.values()) <= 0.01 * len(qs)
    assert report.counts()["empty"] == 12
    assert report.counts()["double_quoted"] >= 100 and report.counts()["text_as_number"] == 20
