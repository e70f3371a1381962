"SEARCH and documents."

import pickle
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from databases import somebody_compiles
from tables import cases

import sql_env.database.database as database_module
from sql_env.database import search as searching
from sql_env.database.database import Database, NotBrief, QueryError, build_database
from sql_env.database.search import MAX_DOCUMENT_BYTES, MAX_FOUND, SearchIndex, read_documents
from sql_env.evaluation import audit_questions
from sql_env.grading.answers import _text_values
from sql_env.paths import SourceError
from sql_env.play import Episode, RewardConfig
from sql_env.play.acts import ACTIONS, EXTRA_ACTIONS
from sql_env.play.board import MAX_SCHEMA_CHARS, SchemaView
from sql_env.play.chat import parse_tool_call, tool_schemas
from sql_env.questions.question_set import Question, QuestionSet, save_question_set
from sql_env.sources.loading import load

SCHEMA = """CREATE TABLE customer_v2 ( -- customers since 2021, in use
  id INTEGER PRIMARY KEY, name TEXT, -- as in the passport
  town TEXT DEFAULT 'secretdefault' /* where they live */);
CREATE TABLE cust_old ( -- customers until 2020
  id INTEGER, name TEXT);
CREATE TABLE tblShip (shipName TEXT, tonnes REAL);
CREATE VIEW heavy AS SELECT * FROM tblShip WHERE tonnes > 200;
CREATE VIRTUAL TABLE notes USING fts5(body)"""
ROWS = dict(customer_v2=[(1, "Aurora", "Zanzibar"), (2, "Mistral", "Quito")], cust_old=[(1, "Fjord")])
ROWS["tblShip"] = [("Bora", 80.5), ("Cirrus", 300.0)]
MANUAL = {"manual.md": "# Rule 4\n\nA client is `gold` from 1,250.5 EUR on.\n\n## Old\n\nUntil 900."}
SEARCHING = (*ACTIONS, "SEARCH")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return build_database(tmp_path_factory.mktemp("search") / "shop.sqlite", SCHEMA, ROWS)


@pytest.fixture
def db(path):
    with Database(path, documents=MANUAL) as opened:
        yield opened


def question(**fields):
    about = dict(gold_sql="SELECT town FROM customer_v2 WHERE name = 'Aurora'")
    about |= dict(gold_answer=(("Zanzibar",),), tables_involved=("customer_v2",)) | fields
    return Question("q", "Where does Aurora live?", "shop", **about)


def names(found):
    return [table.name for table in found.tables]


def looking(db, *moves, **options):
    "An episode with SEARCH, and what is seen last."
    episode = Episode(question(), db, actions=SEARCHING, **options)
    seen = episode.reset()
    for move in moves:
        seen = episode.step(*move)
    return episode, seen


@pytest.mark.parametrize("words, first", cases("search_words_find_tables"))
def test_words_find_tables(db, words, first):
    assert names(db.search(words))[0] == first


def test_a_stem_finds_short_and_long_forms_and_passages_come_with_their_headings(db):
    for words in ("customers", "customer", "Customer's"):
        assert {"customer_v2", "cust_old"} <= {*names(db.search(words))}
    found = db.search("gold client")
    assert found.text.split("\n")[0].startswith("manual.md, Rule 4: A client is `gold`")
    assert found.passages[0].line == 3


def test_no_row_and_no_definition_is_found_or_shown(db):
    values = {str(v) for rows in ROWS.values() for row in rows for v in row if isinstance(v, str)}
    for words in (*values, "secretdefault", "notes", "sqlite_schema"):
        found = db.search(words)
        assert found.text == "(nothing found)" and not found.tables, words
    everything = "".join(db.search(words).text for words in ("customer", "ship", "heavy town", "gold"))
    assert not [value for value in (*values, "secretdefault", "> 200") if value in everything]


def test_what_can_not_be_searched_for(db):
    for words in ("", " \n", "?!*", "\0", "x" * 1001):
        with pytest.raises(QueryError) as e:
            db.search(words)
        assert e.value.kind == ("too_long" if len(words) > 1000 else "no_words") and str(e.value).count(".") == 2


@pytest.mark.parametrize("words", [*cases("search_hostile"), "customer\0ship", "zzzzzz", "é" * 900, "_" * 900])
def test_operators_are_words_or_nothing(db, words):
    try:
        assert len(db.search(words).text) < 5000
    except QueryError as e:
        assert e.kind == "no_words"
    assert names(db.search("ships"))[0] == "tblShip"  # the index is as it was


def test_what_is_found_is_bounded(tmp_path):
    wide = ", ".join(f"column_with_a_long_name_{i}" for i in range(300))
    tables = ";".join(f"CREATE TABLE part_{i} ( -- {'word ' * 200}\n {wide})" for i in range(30))
    with Database(build_database(tmp_path / "w.sqlite", tables, {}), documents={"a.md": "part " * 5000}) as db:
        found = db.search("part")
        assert len(found.tables) + len(found.passages) == MAX_FOUND and len(found.text) < 8000
        assert found.tables and found.passages


def test_the_same_words_find_the_same_in_copies_and_threads(db):
    expected = db.search("customers in use")
    assert pickle.loads(pickle.dumps(db)).search("customers in use") == expected
    with ThreadPoolExecutor(4) as pool:
        seen = [*pool.map(db.search, ["customers in use"] * 80)]
    assert len(seen) == 80 and all(found == expected for found in seen)


def test_a_search_waits_for_nobody_who_compiles(db):
    "Neither in a server's event loop nor in a thread, nor while all there is to find is read."
    found = []
    with somebody_compiles():
        for look in (db.search, db.search, db.brief.search):
            thread = threading.Thread(target=lambda: found.append(look("customer")), daemon=True)  # noqa: B023
            thread.start()
            thread.join(20)
    assert len(found) == 3 and len({f.text for f in found}) == 1


def test_what_may_take_long_is_not_searched_in_an_event_loop(path):
    text = "\n\n".join(f"# Part {i}\n\nThe ship is number {i}." for i in range(600))
    with Database(path, documents={"long.md": text}) as large, Database(path) as small:
        for db in (large, small):
            with pytest.raises(NotBrief):
                db.brief.search("ship")
            assert db.search("ship").text
        with pytest.raises(NotBrief):
            large.brief.search("ship")
        assert small.brief.search("ship") == small.search("ship")
        with small._index._lock, pytest.raises(NotBrief):  # another thread searches
            small.brief.search("ship")


def test_who_searches_at_the_same_time_reads_all_there_is_once(path, monkeypatch):
    made = []

    class Noted(SearchIndex):
        def __init__(self, *args):
            made.append(self)
            time.sleep(0.1)
            super().__init__(*args)

    monkeypatch.setattr(database_module, "SearchIndex", Noted)
    with Database(path) as db:
        with ThreadPoolExecutor(5) as pool:
            [*pool.map(db.search, ["ship"] * 5)]
        assert len(made) == 1 and len(pickle.loads(pickle.dumps(db)).search("ship").tables) == 2


def test_comments_of_definitions_and_words_of_names():
    for sql, comments in {
        "CREATE TABLE t (a, b)": [],
        "CREATE TABLE t ( -- one\n a, -- two\n b)": ["one", "a: two"],
        'CREATE TABLE t (\n [a] TEXT, /* x\n y */ "b" -- z\n)': ["a: x y", "b: z"],
        "CREATE TABLE t (a TEXT DEFAULT '-- no', \"--b\" INT)": [],
        "CREATE TABLE t (a /* open": ["a: open"],
    }.items():
        assert searching._definition_comments(sql, ["a", "b"]) == comments
    assert searching._split_words("tblShip_nameV2 x-1") == ["tbl", "ship", "name", "v2", "x", "1"]


def test_off_unless_asked_for_and_errors_say_what_to_do(db):
    episode = Episode(question(), db)
    episode.reset()
    assert episode.step("SEARCH", "customer").error.startswith("unknown_action: ")
    assert not db.is_indexed and len(tool_schemas()) == 4
    _, seen = looking(db, ("SEARCH", "?"))
    assert seen.error.startswith("no_words: There is no word") and seen.step_count == 1


@pytest.mark.parametrize("level", ["none", "names", "columns", "full"])
def test_tables_that_were_found_are_known(db, level):
    episode, seen = looking(db, ("SEARCH", "customers"), schema_level=level, reward=RewardConfig.shaped())
    assert "customer_v2(id, name, town)" in seen.schema_info and not seen.error
    assert episode.turns[0].reward["shaping"] > 0  # it counts as looked into
    assert episode.step("SEARCH", "customers").error == "" and "repeat" in episode.turns[1].reward


def test_a_value_of_a_passage_that_was_shown_is_grounded_and_a_name_is_not(db):
    for answer, grounded in (("gold", True), ("1250.5", True), ("1,250.5", True), ("900", False), ("silver", False)):
        episode, _ = looking(db, ("SEARCH", "gold client"), ("ANSWER", answer))
        assert episode.grounded is grounded, answer
    assert not looking(db, ("SEARCH", "customers since 2021"), ("ANSWER", "2021"))[0].grounded, "names ground nothing"
    assert {"K-3", "on loan", 1200.0, 12.5} <= {*_text_values("`K-3` means *on loan*, 1,200 EUR or 12.5 %.")}


def test_a_server_s_loop_searches_only_where_the_index_is_there(db):
    episode, _ = looking(db)
    assert episode.try_step("SEARCH", "customers") is None and episode.steps == 0
    first = episode.step("SEARCH", "customers")
    assert looking(db)[0].try_step("SEARCH", "customers") == first


def test_more_tables_than_fit(tmp_path):
    tables = ";".join(f"CREATE TABLE a_table_of_the_branch_{i:05} (a, b)" for i in range(1500))
    with Database(build_database(tmp_path / "many.sqlite", tables, {})) as db:
        for level, searchable in (("names", True), ("columns", True), ("names", False)):
            view = SchemaView(db, level, searchable)
            for i in (1499, 1498):
                view.add(db.describe(f"a_table_of_the_branch_{i:05}"))
            lines = str(view).split("\n")
            assert len(str(view)) <= MAX_SCHEMA_CHARS + 150
            if searchable:
                assert lines[0] == "a_table_of_the_branch_01498(a, b)" and len(set(lines)) == len(lines)
                said = r"\.\.\. 1500 tables in all, \d+ of them not shown here; SEARCH finds them"
                assert re.fullmatch(said, lines[-1])
            else:
                assert lines[-1].endswith("more tables are not shown here") and "SEARCH" not in str(view)


def test_every_face_knows_the_action():
    call = dict(name="search", arguments={"words": "customers"})
    assert parse_tool_call(call, SEARCHING) == ("SEARCH", "customers")
    with pytest.raises(ValueError, match="not found"):
        parse_tool_call(call)
    pytest.importorskip("openenv")
    from sql_env.models import SQLAction

    assert SQLAction(action_type="SEARCH", argument="x").action_type == "SEARCH"


@pytest.mark.slow
def test_the_page_knows_the_action():
    pytest.importorskip("gradio")
    from sql_env.server.page import _KEYS, _request_text

    assert all(" first" in _request_text(action) for action in (*ACTIONS, *EXTRA_ACTIONS))
    assert all(f'"se-{action.lower()}-send"' in _KEYS for action in EXTRA_ACTIONS)


def test_a_document_that_can_not_be_read_is_named_with_its_line(path, tmp_path):
    folder = save_question_set(QuestionSet([question()], {"shop": path}), tmp_path)
    (folder / "documents").mkdir()
    for data, says in (
        (b"# A\n\nna\xefve", "rules.md, line 3: byte 7 is no UTF-8"),
        (b"one\ntwo\0", "rules.md, line 2: it holds a NUL character"),
        (b" \n# Title\n", "rules.md is empty"),
        (b"x" * (MAX_DOCUMENT_BYTES + 1), "rules.md is too large: 1,048,577 bytes"),
    ):
        (folder / "documents" / "rules.md").write_bytes(data)
        with pytest.raises(SourceError, match=says):
            load("folder", folder)


def test_documents_are_saved_loaded_and_audited_and_sources_come_with_theirs(path, tmp_path):
    qs = QuestionSet([question()], {"shop": path}, documents={"shop": MANUAL})
    folder = save_question_set(qs, tmp_path / "saved")
    again = load("folder", folder)
    assert again.documents == {"shop": MANUAL}
    assert pickle.loads(pickle.dumps(again.sample(1))).database("shop").search("gold").passages
    assert audit_questions(again, progress=False).exit_code == 0


def test_which_files_belong_to_a_database(tmp_path):
    for name in ("a.md", "b.md", "documents/all.md", "documents/a/own.md", "documents/b/other.md", "documents/a/x.txt"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    assert [*read_documents(tmp_path / "a.sqlite")] == ["a.md", "all.md", "own.md"]
    assert [*read_documents(tmp_path / "c.sqlite")] == ["all.md"]


def test_passages_hold_all_words_once():
    for text in ("", "a", "# a\n# b\nc", "a\n\n" * 500, "word " * 900, "x" * 3000, "# a\n\nb\n## c\nd\n# e\nf"):
        passages = [*searching._split_passages("x.md", text)]
        said = " ".join(p.text for p in passages)
        body = " ".join(line for line in text.splitlines() if not line.startswith("#"))
        assert "".join(said.split()) == "".join(body.split()) and all(len(p.text) <= 600 for p in passages)
