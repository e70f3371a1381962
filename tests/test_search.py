"SEARCH, documents, wide worlds and worlds with a manual."

import pickle
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import apsw
import pytest
from databases import somebody_compiles
from tables import cases

import sql_env.database.database as database_module
from sql_env.database import search as searching
from sql_env.database.catalog import plain_table_names, read_catalog
from sql_env.database.database import Database, NotBrief, QueryError, build_database
from sql_env.database.search import MAX_DOCUMENT_BYTES, MAX_FOUND, SearchIndex, read_documents
from sql_env.evaluation import audit_questions, evaluate, hack_floor
from sql_env.grading.answers import _text_values
from sql_env.grading.variants.sandbox import read_schema
from sql_env.paths import SourceError
from sql_env.play import Episode, EpisodeEnv, RewardConfig
from sql_env.play.acts import ACTIONS, EXTRA_ACTIONS
from sql_env.play.board import MAX_SCHEMA_CHARS, SchemaView
from sql_env.play.chat import parse_tool_call, tool_schemas
from sql_env.policies import OraclePolicy
from sql_env.policies.baselines import hacks_for
from sql_env.questions.question_set import Question, QuestionSet, save_question_set
from sql_env.sources.loading import load
from sql_env.view.episode import touched_tables, view_episode
from sql_env.view.html import render_html
from sql_env.view.page import episode_html, episode_view_html
from sql_env.worlds import ManualWorld, world_set, worlds
from sql_env.worlds.search import WideWorld, rename_words

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
CLUES = dict(
    runs="SELECT table_name FROM job_runs WHERE outcome = 'ok' AND table_name IN ({}) ORDER BY ended DESC LIMIT 1",
    moves="SELECT new_table FROM moves WHERE new_table IN ({0}) AND new_table NOT IN (SELECT old_table FROM moves)",
)


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
    for source, options in (("wide", dict(n_tables=60)), ("manual", dict(level=2))):
        qs = load(source, n=6, split="test", **options)
        assert len(qs) == 6 and {q.split for q in qs} == {"test"} and qs.documents
        assert qs.database(qs[0].database_name).documents


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


@pytest.fixture(scope="module")
def wide():
    return WideWorld(0, 120, n=12)


def test_a_wide_world_has_as_many_tables_as_asked_for(wide):
    for n in (30, 31, 57, 120):
        w = wide if n == 120 else WideWorld(0, n, n=3)
        assert len(w.database.tables) == n == len({t.lower() for t in w.database.tables})
    assert WideWorld(0, 120, n=12).image == wide.image
    with pytest.raises(ValueError, match="levels are 30 to"):
        WideWorld(0, 29)
    made = (next(worlds(30, split=s, kind=WideWorld, n=2)) for s in ("train", "validation", "test"))
    assert len({w.branches[0].world.seed for w in made}) == 3, "splits share no world"


def test_gold_is_right_and_every_decoy_is_wrong(wide):
    assert len(wide.questions) == 12
    for q, (branch, i) in zip(wide.questions, wide.drafts):
        asked = branch.world.questions[i]
        assert tuple(wide.database.query(q.gold_sql).rows) == q.gold_answer == asked.gold_answer
        assert branch.site in q.question_text
        for alike in branch.tables:
            for decoy in alike.decoys if alike.name.lower() in q.tables_involved else ():
                sql = rename_words(asked.gold_sql, branch.names | {alike.table.name: decoy})
                assert sorted(map(repr, wide.database.query(sql).rows)) != sorted(map(repr, q.gold_answer))


def test_the_table_in_use_is_inferred_and_said_nowhere(wide):
    said, ways = wide.documents["tables.md"], set()
    for branch in wide.branches:
        ways.add(branch.known_by)
        for alike in branch.tables:
            names = [alike.name, *alike.decoys]
            assert not any(f"`{name}`" in said for name in names)
            about = re.findall(r"-- (.*)", "".join(wide.database.describe(n).text for n in names))
            assert len(set(about)) <= 1
            counts = {n: wide.database.query(f"SELECT count(*) FROM {n}").rows[0][0] for n in names}
            assert list(counts.values()).count(counts[alike.name]) == 1
            if branch.known_by == "rows":
                assert f"{counts[alike.name]} {alike.table.plural}" in said
                continue
            quoted = ", ".join(f"'{name}'" for name in names)
            found = wide.database.query(CLUES[branch.known_by].format(quoted)).rows
            assert found == [(alike.name,)], branch
    assert ways == {"runs", "rows", "moves"}


def test_an_oracle_finds_its_tables_by_search(tmp_path):
    questions = world_set("test", 1200, 6, folder=tmp_path, kind=WideWorld)
    env = EpisodeEnv(questions, actions=SEARCHING)
    first = env.reset(index=0)
    tables = env.episode.database.tables
    is_cut = "SEARCH finds them" in first.schema_info
    assert is_cut == (sum(len(t) + 1 for t in tables) > MAX_SCHEMA_CHARS)
    result = evaluate(env, OraclePolicy(questions, searches=True), progress=False)
    assert result.success_rate == result.robust_rate == 1 and max(e.steps for e in result.episodes) <= 15


def test_opening_knows_what_it_needs_without_reading_each_table(wide, tmp_path):
    con = apsw.Connection(":memory:")
    con.deserialize("main", wide.image)
    plain = plain_table_names(con)
    assert plain == frozenset(t.name.lower() for t in read_catalog(con).tables)
    parents = read_schema(con, plain).parents
    for name, above in parents.items():
        rows = con.execute(f"PRAGMA foreign_key_list({name})").fetchall()
        assert above == tuple(dict.fromkeys(row[2].lower() for row in reversed(rows)))
    con.execute(f"CREATE TABLE wide ({', '.join(f'c{i}' for i in range(101))})")
    assert plain_table_names(con) is None


@pytest.mark.parametrize("level", [1, 2, 3])
def test_manuals_decide(level):
    kinds, turns, dated = set(), set(), 0
    for w in islice(worlds(level, split="test", kind=ManualWorld), 12):
        assert len(w.offices) == 1 + (level == 3) and bool(w.documents.get("offices.md")) == (level == 3)
        for q, draft in zip(w.questions, w.drafts):
            answers = [w.database.query(sql).rows[0][0] for sql in draft.sqls]
            assert answers[0] == q.gold_answer[0][0] and len(answers) > 2
            assert f"{answers[0]:.4g}" not in {f"{a:.4g}" for a in answers[1:] if a is not None}
            kinds.add(draft.rule.kind)
            turns.add((bool(draft.rule.exception), bool(draft.rule.mark)))
            dated += bool(re.search(r"\d{4}-\d\d-\d\d", q.question_text))
    assert kinds == {"threshold", "period", "surcharge", "code"} and dated > 20
    wanted = {(True, False), (False, True)} if level == 1 else {(True, True)}
    assert turns == wanted | {(False, False)}  # codes change at one day, and that is all


def test_all_versions_stand_in_the_manual_of_each_office():
    w = ManualWorld(5, 3)
    for office in w.offices:
        said = w.documents[f"manual_{office}.md"]
        for rule in w.rules:
            values = rule.values[office]
            words = values[0].values() if rule.kind == "code" else map(rule.said, values)
            assert all(str(word) in said for word in words)
            assert said.count("(rule ") == len(w.rules) + sum(r.kind == "code" for r in w.rules)
    assert ManualWorld(5, 3).documents == w.documents and ManualWorld(5, 3).image == w.image
    with pytest.raises(ValueError, match="levels are 1 to 3"):
        ManualWorld(5, 4)


def test_who_has_not_read_it_is_wrong(tmp_path):
    questions = world_set("test", 1, 15, folder=tmp_path, kind=ManualWorld)
    made = islice(worlds(1, split="test", kind=ManualWorld), len(questions.databases) + 5)
    wrong = {q.question_id: d.sqls[-1] for w in made for q, d in zip(w.questions, w.drafts)}
    env = EpisodeEnv(questions, actions=SEARCHING)
    assert evaluate(env, OraclePolicy(questions, searches=True), progress=False).success_rate == 1
    guesser = OraclePolicy(questions, readings={key: {"": sql} for key, sql in wrong.items()})
    assert evaluate(EpisodeEnv(questions), guesser, progress=False).success_rate == 0
    floor, every = hack_floor(questions), hack_floor(questions, actions=SEARCHING)
    assert len(hacks_for(SEARCHING)) == len(hacks_for(ACTIONS)) + 3
    assert max(every.values()) <= max(floor.values()) + 0.01


def test_a_page_shows_what_was_found_and_no_thousand_tables():
    w = WideWorld(0, 300, n=3)
    episode = Episode(w.questions[0], w.database, actions=SEARCHING)
    policy, seen = OraclePolicy(w.questions, searches=True), episode.reset()
    while not seen.done:
        seen = episode.step(*policy.select_action(seen))
    view = view_episode(episode)
    shown = {table.name.lower() for table in view.tables}
    assert len(shown) == 200 and shown >= {*w.questions[0].tables_involved} and episode.correct
    found = touched_tables(view, view.turns[0])
    assert found and found <= shown & {*episode.schema.known_columns}
    page, still = render_html(episode_view_html(view)), episode_html(view).data
    assert "sx-text" in page and len(page) < 500_000
    assert "tables.md" in still or w.questions[0].tables_involved[0] in still
