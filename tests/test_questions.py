"Ranks and ties, checks of gold, a question as JSON, and sets that save, split and travel."

import math
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from tables import cases

from sql_env.database import Database, Limits, build_database
from sql_env.questions import question_set as sets
from sql_env.questions.gold import GoldRunner, fix_double_quotes, rank_rows
from sql_env.sources.loading import load

laws = law(150)


def question(sql, database_name="d", **fields) -> sets.Question:
    given = dict(question_id="q", question_text="?") | fields
    return sets.Question(database_name=database_name, gold_sql=sql, **given)


@pytest.fixture(scope="module")
def cities(tmp_path_factory):
    schema = """CREATE TABLE city(name TEXT, land TEXT, size INTEGER, area REAL); CREATE TABLE empty(x);
                CREATE TABLE word("group" TEXT, note TEXT); CREATE VIEW large AS SELECT * FROM city WHERE size > 2"""
    cities = [("Oslo", "no", 3, 1.5), ("Rome", "it", 4, 2.5), ("Bonn", "de", 3, 0.5), ("Bern", "ch", 1, None)]
    rows = dict(city=[*cities, ("Bari", "it", 3, 1.25)], word=[("a", "it's"), ("b", 'say "hi"')])
    return build_database(tmp_path_factory.mktemp("questions") / "cities.sqlite", schema, rows)


@pytest.fixture(scope="module")
def runner(cities):
    r = GoldRunner(cities, Limits(rows=4))
    yield r
    r.close()


def complete(runner, sql, **fields) -> sets.Question:
    return runner.complete(question(sql, "cities", **fields))


@pytest.mark.parametrize("sql, ranks", cases("questions_ranks"))
def test_ranks_tell_ties(runner, sql, ranks):
    q = complete(runner, sql)
    assert q.ranks == ranks and len(q.ranks or q.gold_answer) == len(q.gold_answer)
    with pytest.raises(ValueError, match="the keys changed the result"):
        rank_rows([(1,), (2,)], [(2, 5), (1, 6)], [1])


@pytest.mark.parametrize("sql, flags", cases("questions_flags"))
def test_flags(runner, sql, flags):
    q = complete(runner, sql)
    assert q.flags == flags and set(flags) <= set(sets.QUESTION_FLAGS)
    assert "error" not in flags or q.gold_answer == ()


def test_complete_fills_in_what_follows_from_gold(runner, cities):
    q = complete(runner, "SELECT name, size FROM city WHERE land = 'it' ORDER BY size DESC")
    assert q.gold_answer == (("Rome", 4), ("Bari", 3)) and q.answer_type == "table" and q.tables_involved == ("city",)
    assert q.difficulty == "medium"
    assert complete(runner, "SELECT 1", difficulty="hard").difficulty == "hard", "what the source says is kept"
    golds = ("count(*) FROM city", "name FROM city WHERE size = 3 LIMIT 1", 'count(*) FROM city WHERE land = "it"')
    asked = [replace(complete(runner, f"SELECT {sql}"), question_id=f"q{i}") for i, sql in enumerate(golds)]
    qs = sets.QuestionSet(asked, {"cities": cities})
    assert ids(qs) == ["q0", "q2"] and ids(qs.quarantined) == ["q1"]
    assert "double_quoted" not in sets.QUARANTINE_FLAGS and "order_unknown" not in sets.QUARANTINE_FLAGS


@pytest.mark.parametrize("sql, expected", cases("questions_double_quoted_texts_become"))
def test_double_quoted_texts_become_single_quoted(cities, sql, expected):
    with Database(cities) as db:
        assert fix_double_quotes(db, sql) == expected


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
value = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.binary(max_size=3) | texts


@laws
@given(st.lists(st.tuples(value, value), max_size=3), texts.filter(bool), st.booleans())
def test_a_line_of_json_brings_a_question_back(rows, words, ordered):
    ranks = tuple(range(len(rows))) if ordered and rows else None
    fields = dict(gold_answer=tuple(rows), split="train", ranks=ranks, flags=("double_quoted",))
    q = question("SELECT a, b FROM t", question_text=words, **fields)
    line = sets.question_to_json(q)
    assert "\n" not in line and sets._question_from_json(line) == q
    assert [[type(v) for v in r] for r in sets._question_from_json(line).gold_answer] == [
        [type(v) for v in r] for r in rows
    ]


def test_what_is_left_out_follows_from_the_sql():
    q = question("SELECT a FROM T JOIN u USING (x)", gold_answer=[[1]])
    derived = (q.gold_answer, q.answer_type, q.difficulty, q.tables_involved)
    assert derived == (((1,),), "integer", "medium", ("t", "u"))
    assert question("this is not SQL (").difficulty == "hard", "what can't be parsed counts as hard"
    # other rows alone leave the type of an answer
    q = question("SELECT 1", gold_answer=((1,),))
    assert q.with_fields(gold_answer=(("a", 2),)).answer_type == "integer"
    rows = dict(
        empty=[], integer=[(1,)], float=[(1.5,)], string=[("a",)], null=[(None,)], list=[(1,), (2,)], table=[(1, 2)]
    )
    assert {name: sets.classify_answer(found) for name, found in rows.items()} == {name: name for name in rows}


GOOD = '{"question_id": "q%d", "question_text": "?", "database_name": "d", "gold_sql": "SELECT 1"}'


@pytest.mark.parametrize("bad, says", cases("questions_a_malformed_line_is_named_with"), ids=range(22))
def test_a_malformed_line_is_named_with_its_number(tmp_path, bad, says):
    (tmp_path / "mine.jsonl").write_text("\n".join([GOOD % 1, "", GOOD % 2, bad, GOOD % 3]), encoding="utf-8")
    with pytest.raises(ValueError, match="mine.jsonl, line 4: ") as e:
        sets.read_questions(tmp_path / "mine.jsonl")
    assert says in str(e.value) and str(tmp_path) not in str(e.value)
    # empty lines and line ends of Windows
    (tmp_path / "q.jsonl").write_bytes(("\r\n".join([GOOD % 1, "", GOOD % 2]) + "\r\n\r\n").encode())
    assert [q.question_id for q in sets.read_questions(tmp_path / "q.jsonl")] == ["q1", "q2"]


@pytest.fixture
def questions(cities):
    asked = [("train", "easy"), ("train", "hard"), ("test", "easy"), ("test", "medium"), ("", "medium")]
    about = dict(gold_answer=((2, 0.5, None, b"x", math.inf),))
    made = [
        question(
            f"SELECT count(*) FROM city WHERE size > {i}",
            "cities",
            question_id=f"q{i}",
            split=split,
            difficulty=level,
            flags=("empty",) if i == 3 else (),
            **about,
        )
        for i, (split, level) in enumerate(asked)
    ]
    return sets.QuestionSet(made, {"cities": cities}, "five", {"database x is missing": 3})


def ids(qs) -> list[str]:
    return [q.question_id for q in qs]


def test_filter_split_sample_and_get(questions):
    assert ids(questions) == ["q0", "q1", "q2", "q4"] and len(questions) == 4
    assert ids(questions.filter(split="train")) == ids(questions.split("train")) == ["q0", "q1"]
    assert ids(questions.filter(difficulty=("easy", "hard"))) == ["q0", "q1", "q2"]
    assert ids(questions.filter(lambda q: q.question_id > "q1", split="test")) == ["q2"]
    assert ids(questions.filter(split="test").quarantined) == ["q3"]
    assert ids(questions.filter(split="nothing")) == [] and ids(questions.split("")) == ["q4"]
    assert ids(questions[1:3]) == ["q1", "q2"] and questions[-1].question_id == "q4"
    with pytest.raises(AttributeError):
        questions.filter(colour="red")
    with pytest.raises(KeyError, match="no split 'dev'; it has 'train', 'test'"):
        questions.split("dev")
    assert ids(questions.sample(2, seed=1)) == ids(questions.sample(2, seed=1))
    assert [len(questions.sample(n)) for n in (0, 2, 99)] == [0, 2, 4]
    assert ids(questions.sample(99)) == ids(questions)
    assert ids(questions.sample(3, 5)) == sorted(ids(questions.sample(3, 5)))
    assert len({tuple(ids(questions.sample(2, seed=s))) for s in range(30)}) > 3
    # what is near is named, and a database is opened once
    assert questions.get("q2").question_id == "q2" and not questions.is_open("cities")
    for get, name, says in (
        (questions.get, "q22", "no question 'q22'; the nearest are q2"),
        (questions.get, "###", "q0, q1"),
        (questions.database, "citys", "no database 'citys'; the nearest are cities"),
    ):
        with pytest.raises(KeyError, match=says):
            get(name)
    assert questions.database("cities") is questions.database("cities")
    assert questions.is_open("cities") and not questions[:1].is_open("cities")


def test_saved_loaded_and_pickled(questions, tmp_path):
    folder = sets.save_question_set(questions, tmp_path / "new" / "set")
    again = load("folder", folder)
    assert list(again) == list(questions) and again.quarantined == questions.quarantined
    assert again.database("cities").query("SELECT count(*) FROM city").rows == [(5,)]
    sets.save_question_set(again, tmp_path / "second")
    for name in ("questions.jsonl", "cities.sqlite"):
        assert (tmp_path / "second" / name).read_bytes() == (folder / name).read_bytes()
    sets.save_question_set(again, folder)
    assert list(load("folder", folder)) == list(questions), "saving a set over itself keeps it"
    questions.database("cities")
    again = pickle.loads(pickle.dumps(questions))
    one, other = ([[*qs], qs.quarantined, qs.name, qs.left_out, qs.databases] for qs in (again, questions))
    assert one == other and again.name == "five"
    assert again.database("cities").tables and repr(again) == "QuestionSet('five': 4 questions, 1 databases)"


def test_find_split_leaks():
    train = [question("SELECT x FROM t WHERE y = 1", "a"), question("SELECT 1", "a")]
    both = [("database", "a"), ("gold", "a: select x from t where y = ?")]
    assert sets.find_split_leaks(train, [question("SELECT x FROM t WHERE y = 1", "b")]) == []
    assert sets.find_split_leaks(train, [question("SELECT z FROM t", "a")]) == [("database", "a")]
    assert sets.find_split_leaks(train, train[:1]) == both
    spelt = [question("select  X from T\nwhere y=2 ;", "a")]
    assert sets.find_split_leaks(train, spelt) == both, "other spelling and other numbers are the same gold"
    assert sets.find_split_leaks(train * 2) == [], "a repetition inside one split is no leak"


def test_gold_runs_where_columns_are_generated_and_without_an_end_is_flagged(tmp_path):
    "A view that never ends, in somebody's own file: the check on shuffled copies must not read it for ever."
    schema = """CREATE TABLE t(a, b AS (a + 1), c AS (a + 2) STORED); INSERT INTO t(a) VALUES (1), (2);
        CREATE TABLE guest (name TEXT); INSERT INTO guest VALUES ('Ann'); CREATE VIEW endless AS
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"""
    runner = GoldRunner(build_database(tmp_path / "trap.sqlite", schema, {}))
    q = complete(runner, "SELECT a, b, c FROM t ORDER BY b DESC")
    assert (q.gold_answer, q.ranks, q.flags) == (((2, 3, 4), (1, 2, 3)), (0, 1), ())
    assert complete(runner, "SELECT name FROM guest").flags == ()
    assert complete(runner, "SELECT i FROM endless").flags == ("over_cap",)


def test_nothing_is_parsed_until_it_is_asked_for():
    q = question("SELECT count(*) FROM City")
    derived = {"difficulty", "tables_involved"}
    assert not derived & q.__dict__.keys()
    for same in (q.with_flag("empty"), pickle.loads(pickle.dumps(q))):
        assert not derived & same.__dict__.keys()
    assert (q.difficulty, q.tables_involved) == ("easy", ("city",)) and derived <= q.__dict__.keys()
    given = question("SELECT 1", difficulty="hard", tables_involved=("x",))
    assert (given.difficulty, given.tables_involved) == ("hard", ("x",))
    odd = question("this is no SQL (")
    assert (odd.difficulty, odd.tables_involved) == ("hard", ())
    assert q == question("SELECT count(*) FROM City") and hash(q) == hash(pickle.loads(pickle.dumps(q)))
    # a flag has a reason that travels
    q = question("SELECT 1").with_flag("over_limits", "It needs 7.").with_flag("null")
    assert q.flags == ("over_limits", "null") and q.reason("null") == q.reason("empty") == ""
    assert q.with_flag("over_limits", "It needs 8.").reasons == (("over_limits", "It needs 8."),)
    assert sets._question_from_json(sets.question_to_json(q)) == q and "7" in sets.question_to_json(q)
    for bad in ('["x"]', '{"a": 5}', '"x"'):
        line = sets.question_to_json(q)[:-1].replace(', "reasons": {"over_limits": "It needs 7."}', "")
        with pytest.raises(ValueError, match="reasons"):
            sets._question_from_json(f'{line}, "reasons": {bad}}}')


def test_a_set_opens_its_databases_with_its_limits(questions):
    few = questions.with_limits(Limits(rows=2))
    for qs in (few, few[:1], few.filter(split="train"), pickle.loads(pickle.dumps(few)), few.sample(1)):
        assert qs.limits.rows == 2 and qs.database("cities").query("SELECT name FROM city").truncated
    assert ids(few) == ids(questions) and few.quarantined == questions.quarantined
    assert not questions.database("cities").query("SELECT name FROM city").truncated
