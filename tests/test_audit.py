"""The audit: every planted flaw is found, nothing else is; reports, exit codes, mutants."""

import json
import re
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import combinations
from random import Random

import mutation_study
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from tables import cases

from sql_env.database import Database, Limits, build_database
from sql_env.evaluation import audit
from sql_env.evaluation.audit import audit_markdown, audit_questions, audit_summary, near_duplicates, save_report
from sql_env.evaluation.contradictions import WordingCheck
from sql_env.grading.variants.selection import instance_generator
from sql_env.questions.question_set import QUARANTINE_FLAGS, QUESTION_FLAGS, Question, QuestionSet
from sql_env.sources.files import Drafts
from sql_env.sources.loading import _complete_questions, load
from sql_env.sql.analysis import parse_sql
from sql_env.sql.mutants import one_edit_mutants
from sql_env.sql.shapes import SHAPE_RULES, bare_columns

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


def test_duplicates_and_stored_answers_that_gold_no_longer_gives(harbour):
    a = harbour.get("q00")
    stale = QuestionSet([replace(a, gold_answer=(("Oslo",),))], harbour.databases, "stale")
    report = audit_questions(stale, progress=False)
    assert report.questions[0].flags == ("stale",) and report.exit_code == 1
    text, spelt = "Where does the captain called Ines live", a.gold_sql.replace("SELECT", "select ")
    twins = [
        replace(a, question_id="a", question_text=f"{text}?"),
        replace(a, question_id="b", question_text=f"{text} now?", gold_sql=spelt, split="dev"),
        replace(harbour.get("q01"), question_id="c", question_text="Something quite different"),
    ]
    report = audit_questions(QuestionSet(twins, harbour.databases, "twins"), progress=False)
    flags = {q.question_id: set(q.flags) - {"guessable"} for q in report.questions}
    assert flags == {"a": {"duplicate_gold", "near_duplicate"}, "b": {"duplicate_gold", "near_duplicate"}, "c": set()}
    assert [(p.first, p.second) for p in report.near_duplicates] == [("a", "b")]
    assert not near_duplicates([replace(t, split="train") for t in twins]), "only across splits"


def square_near_duplicates(questions, threshold):
    "All pairs of two splits, compared one by one: what the blocking must not change."
    words = [set(re.findall(r"\w+", q.question_text.lower())) for q in questions]
    found = {}
    for (i, p), (j, q) in combinations(enumerate(questions), 2):
        if p.split != q.split and words[i] | words[j]:
            similarity = len(words[i] & words[j]) / len(words[i] | words[j])
            if similarity >= threshold:
                found[p.question_id, q.question_id] = round(similarity, 3)
    return found


@law(60)
@given(
    st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=9).map(" ".join), max_size=25),
    st.sampled_from([0.2, 0.5, 0.7, 0.85, 0.9, 1.0]),
)
def test_blocking_loses_no_pair(texts, threshold):
    questions = [Question(f"q{i}", text, "x", "SELECT 1", split="ab"[i % 2]) for i, text in enumerate(texts)]
    found = near_duplicates(questions, threshold)
    assert {(p.first, p.second): p.similarity for p in found} == square_near_duplicates(questions, threshold)
    assert len(found) == len({p[:2] for p in found})


@pytest.mark.parametrize("source, threshold", [("bundled", 0.85), pytest.param("spider", 0.6, marks=pytest.mark.slow)])
def test_blocking_finds_what_the_square_finds(source, threshold, request, tell):
    if source == "bundled":
        some = load("bundled")
        again = [replace(q, question_id=f"{q.question_id}+", question_text=f"{q.question_text} Now") for q in some]
        questions = [replace(q, split="ab"[i % 2]) for half in (some, again) for i, q in enumerate(half)]
    else:
        dev = load("spider", request.getfixturevalue("spider_path"), "dev")
        questions = [replace(q, split="ab"[i % 2]) for i, q in enumerate(dev)]
    found = {p[:2] for p in near_duplicates(questions, threshold)}
    square = set(square_near_duplicates(questions, threshold))
    tell(f"near-duplicates of {source}: {len(found)} of {len(square)} that all pairs give")
    assert found == square and (source == "bundled" or len(found) > 10)


def work_of_blocking(texts, monkeypatch):
    "Keys that are made and pairs that are compared."
    counts, keys = Counter(), audit._blocking_keys

    class CountedSet(frozenset):
        def __and__(self, other):
            counts["pairs"] += 1
            return frozenset.__and__(self, other)

    def counted(*args):
        for key in keys(*args):
            counts["keys"] += 1
            yield key

    with monkeypatch.context() as patch:
        patch.setattr(audit, "_blocking_keys", counted)
        sets = dict.fromkeys(CountedSet(re.findall(r"\w+", text.lower())) for text in texts)
        list(audit._similar_sets(list(sets), 0.85))
    return counts.total()


def test_the_audit_of_words_grows_linearly(tell, monkeypatch):
    """Four times as many questions take four times as much work, where the square would take 16 times.

    The questions have 12 words of a vocabulary whose frequencies fall as they do in English."""
    rng, words, weights = Random(0), [f"w{i}" for i in range(600)], [1 / (i + 3) for i in range(600)]
    texts = [" ".join(rng.choices(words, weights, k=12)) for _ in range(4000)]
    small, large = (work_of_blocking(some, monkeypatch) for some in (texts[:1000], texts))
    tell(f"near-duplicates: {small / 1000:.1f} operations a question of 1,000, {large / 4000:.1f} of 4,000")
    assert large < 1.3 * 4 * small


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
    monkeypatch.setattr(audit, "variants_for", lambda path, sql: [] if sql == BY_MAX else [1, 2])
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


@pytest.mark.parametrize("sql, bare", cases("audit_bare_columns"))
def test_bare_columns(harbour, sql, bare):
    assert len(bare_columns(sql, instance_generator(harbour.databases["harbour"]).shapes)) == bare


SHAPES_SCHEMA = """
CREATE TABLE lab (lab_id INTEGER PRIMARY KEY, name TEXT, size TEXT, staff INTEGER, rent REAL, opened TEXT,
                  closed TEXT);
CREATE TABLE test (test_id INTEGER PRIMARY KEY, lab_id INTEGER REFERENCES lab, kind TEXT, is_done TEXT,
                   score INTEGER);"""
LABS = [(1, "Nord", "90", 7, 1.5, "August 8, 1986", "2001-02-03")]
LABS += [(2, "Sued", "120", 3, 2.5, "May 3, 1979", "2001-12-24")]
TESTS = [(1, 1, "blood", "yes", 5), (2, 1, "bone", "no", 6), (3, 2, "blood", "yes", 6)]
SHAPES = cases("audit_shapes")


@pytest.fixture(scope="module")
def labs(tmp_path_factory):
    path = tmp_path_factory.mktemp("labs") / "labs.sqlite"
    return Database(build_database(path, SHAPES_SCHEMA, {"lab": LABS, "test": TESTS}))


@pytest.mark.parametrize("text, sql, flags", SHAPES)
def test_faults_that_the_shape_of_gold_shows(labs, text, sql, flags):
    q = Question("q", text, "labs", sql, gold_answer=tuple(labs.query(sql).rows))
    doubts = WordingCheck(labs).doubts(q)
    assert doubts.keys() - {"unused_value"} == set(flags.split())
    for flag in doubts.keys() & SHAPE_RULES.keys():
        assert f"({SHAPE_RULES[flag].severity}; `" in doubts[flag] and "line 1" in doubts[flag]
    every = {flag for case in SHAPES for flag in case[2].split()}
    assert SHAPE_RULES.keys() <= every & QUESTION_FLAGS.keys(), "each rule has cases and a flag"


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
    assert not {"near_duplicate", "tie_at_limit"} & set(report.counts()), report.counts()


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
        assert mutation_study._surviving_mutants(generator, gold, [same, gold.replace(">", ">=")], n=80) == {0}

    def test_study_adds_up(self, harbour):
        study = mutation_study.mutation_study(harbour, ks=(1, 20), n_random=30, progress=False)
        total, share = sum(study.count.values(), Counter()), study.share
        assert study.golds == len({q.gold_sql for q in harbour})
        assert not [kind for kind in study.count if kind.startswith("failed")]
        assert share("set") >= share("bag") >= share("order")
        assert share("value") >= share("robust 1") >= share("robust 20")
        assert share("robust 20") < 0.1 < share("set")
        assert total["value="] == total["equivalent"] == total["robust 20="]
        assert "| robust 20 |" in mutation_study.mutation_study_markdown(study)
        assert mutation_study.mutation_study_json(study)["count"]["operator"]["n"] == study.count["operator"]["n"]


@pytest.mark.slow
def test_spider_dev(spider_path):
    qs = load("spider", spider_path, "dev")
    report = audit_questions(qs, progress=False)
    assert max(report.hacks_robust.values()) <= 0.01 * len(qs)
    assert report.counts()["empty"] == 12
    assert report.counts()["double_quoted"] >= 100
