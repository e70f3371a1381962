"Tasks that change the database: generated, bundled, of a folder."

import json
from contextlib import suppress
from itertools import islice

import apsw
import pytest
from tables import cases

from sql_env import Episode, EpisodeEnv, OraclePolicy, SourceError, evaluate, load
from sql_env.cli.app import SourceOptions
from sql_env.database.database import build_database
from sql_env.grading.changes import judge_changes, judge_replay
from sql_env.questions.question_set import find_split_leaks, save_question_set
from sql_env.server.app import _load_questions
from sql_env.server.settings import Settings
from sql_env.worlds import ChangeWorld, FollowUpWorld, world_set, worlds
from sql_env.worlds.change_families import CHANGES
from sql_env.worlds.words import _lists, _split_of_word, load_wordings

SEEDS = [(seed, level) for level in (1, 2, 3) for seed in range(2)]
SHIPS = [(1, "Aurora", 120.5), (2, "Bora", 300.0), (3, "Cirrus", 300.0)]
SCHEMA = "CREATE TABLE ship (id INTEGER PRIMARY KEY, name TEXT, tonnes REAL)"
SCRAP = dict(question="Scrap the Bora.", statements="DELETE FROM ship WHERE name = 'Bora';", writes="ship")


def opened(world: ChangeWorld) -> apsw.Connection:
    "A copy of a world's database to write in, with references enforced."
    con = apsw.Connection(":memory:")
    con.deserialize("main", world.image)
    con.execute("PRAGMA foreign_keys = ON")
    return con


def content(con: apsw.Connection) -> dict[str, list]:
    "All rows of all tables."
    names = [name for (name,) in con.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    rows = {name.lower(): con.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    return {name: sorted(found, key=repr) for name, found in rows.items()}


def after(world: ChangeWorld, statements, reverse: bool = False, invariants=()) -> tuple:
    "The content before and after statements, and the rows of invariants before and after."
    con = opened(world)
    con.pragma("reverse_unordered_selects", reverse)
    start, kept = content(con), [con.execute(sql).fetchall() for sql in invariants]
    for sql in statements:
        con.execute(sql)
    assert con.execute("PRAGMA foreign_key_check").fetchall() == []
    assert con.pragma("integrity_check") == "ok"
    return start, content(con), kept, [con.execute(sql).fetchall() for sql in invariants]


def check_oracle(seed: int, level: int) -> None:
    "Gold of all tasks of a world does what it should, and each mistake something else."
    world = ChangeWorld(seed, level, n=12)
    for q, (draft, *_) in zip(world.questions, world.drafts):
        start, end, before, kept = after(world, q.gold_statements, invariants=q.invariants)
        changed = {name for name in end if end[name] != start[name]}
        assert changed <= set(q.writes) and bool(changed) == bool(q.gold_statements), q.question_id
        assert kept == before
        assert after(world, q.gold_statements, reverse=True)[1] == end, q.question_id
        assert bool(q.gold_statements) != draft.is_nothing and not (draft.is_nothing and q.states_rule)
        for wrong in draft.wrong:
            with suppress(apsw.ConstraintError):
                assert after(world, wrong)[1] != end, (q.question_id, wrong)


@pytest.mark.parametrize(("seed", "level"), SEEDS)
def test_gold_of_generated_tasks(seed, level):
    check_oracle(seed, level)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("level", (1, 2, 3))
def test_gold_of_many_generated_tasks(level):
    for seed in range(100, 200):
        check_oracle(seed, level)


def test_families_are_all_made_and_worded():
    made = {f for level in (1, 2, 3) for s in range(4) for f in ChangeWorld(s, level, n=12).families.values()}
    assert made == set(CHANGES) and len(made) >= 12
    phrases = load_wordings("changes")
    assert set(CHANGES) <= set(phrases)
    for name, phrase in phrases.items():
        assert len(phrase.forms) >= 2 and phrase.unseen, name
    for name, words in _lists()["task_words"].items():
        assert {_split_of_word(word) for word in words} == {"train", "validation", "test"}, name


def test_worlds_depend_on_the_seed_only():
    first, again = ChangeWorld(5, 2, n=4), ChangeWorld(5, 2, n=9)
    assert first.image == again.image and again.questions[:4] == first.questions
    assert ChangeWorld(6, 2, n=4).image != first.image
    assert ChangeWorld(5, 2, rows=1).image != first.image
    with pytest.raises(ValueError, match="levels are 1 to 3"):
        ChangeWorld(5, 4)
    with pytest.raises(ValueError, match="test split"):
        ChangeWorld(5, 1, wording="test_vocabulary")


def test_exams_ask_for_the_same_in_other_words_and_texts_are_whole_sentences():
    pairs = zip(*(worlds(1, 3, split, kind=ChangeWorld) for split in ("test", "test_vocabulary")))
    for world, unseen in islice(pairs, 3):
        for q, other in zip(world.questions, unseen.questions):
            assert (q.gold_statements, q.writes) == (other.gold_statements, other.writes)
            assert q.question_text != other.question_text and q.question_id != other.question_id
    tasks = world_set(level=3, n=120, seed=4, kind=ChangeWorld)
    for q in tasks:
        assert q.question_text[0].isupper() and q.question_text[-1] in ".!?", q.question_text
        assert not set("{}|") & set(q.question_text) and "  " not in q.question_text, q.question_text


def test_a_task_says_whether_archived_rows_are_meant():
    for world in (ChangeWorld(seed, level) for seed, level in SEEDS):
        events, closed = (world.tables[role] for role in ("event", "closed"))
        for q, family in ((q, world.families[q.question_id]) for q in world.questions):
            if events.name.lower() in q.writes and family != "enter":
                assert "archive of" in q.question_text or closed.plural in q.question_text, (family, q.question_text)


def test_sources_of_tasks():
    made = load("tasks", n=12, level=2, split="validation")
    assert len(made) == 12 and not made.quarantined and all(q.writes for q in made)
    assert made.questions == load("tasks", n=12, level=2, split="validation").questions
    bundled = load("bundled_tasks")
    assert len(bundled) >= 40 and not bundled.quarantined
    splits = [bundled.split(name) for name in ("train", "validation", "test")]
    assert all(splits) and find_split_leaks(*splits) == []
    questions = {q.database_name: q.split for q in load("bundled")}
    assert all(q.split == questions[q.database_name] for q in bundled)
    assert len({q.database_name for q in bundled}) == 12
    found = _load_questions(Settings(source="tasks", level=2))
    assert found[0].database_name.startswith("changes_2_")
    options = SourceOptions(source="tasks", level=3)
    assert [q.database_name[:10] for q in options.load(5, show_progress=False)] == ["changes_3_"] * 5


@pytest.mark.slow
def test_honest_alternatives_are_accepted():
    bundled, worlds, accepted = load("bundled_tasks"), {}, []
    for given in cases("write_alternatives", dict):
        name, _, number = given["question_id"].rpartition("-")
        if name.startswith("changes_"):
            _, level, seed = name.split("_")
            world = worlds[name] = worlds.get(name) or ChangeWorld(int(seed), int(level), n=7)
            q, database = world.questions[int(number) - 1], world.database
        else:
            q = bundled.get(given["question_id"])
            database = bundled.database(q.database_name)
        text = ";\n".join(given["statements"])
        with database.writer(q.writes) as copy:
            copy.execute(text)
            assert judge_changes(q, database, copy.changes()), given
        accepted.append(not q.states_rule or bool(judge_replay(q, database, [text])))
    assert len(accepted) >= 60 and sum(accepted) >= 0.95 * len(accepted)


@pytest.fixture
def harbour(tmp_path):
    (tmp_path / "mine").mkdir()
    return build_database(tmp_path / "mine" / "harbour.sqlite", SCHEMA, dict(ship=SHIPS)).parent


def loaded(harbour, *lines):
    (harbour / "questions.jsonl").write_text("\n" + "\n".join(map(json.dumps, lines)))
    return load("folder", harbour)


def test_tasks_of_a_folder_are_read_saved_and_read_again(harbour, tmp_path):
    total, double = "SELECT count(*) FROM ship", ["UPDATE ship SET tonnes = tonnes * 2"]
    lines = [dict(question="Double all.", gold_statements=double, writes=["Ship"], rule=True)]
    lines += [dict(question="Keep the Bora.", statements=[], writes=["ship"], invariants=total)]
    tasks = loaded(harbour, SCRAP, *lines, dict(question="How many?", sql=total))
    scrap, double, nothing, count = tasks
    assert scrap.gold_statements == ("DELETE FROM ship WHERE name = 'Bora'",) and scrap.writes == ("ship",)
    assert double.states_rule and double.writes == ("ship",) and double.answer_type == "changes"
    assert nothing.writes and not nothing.gold_statements and nothing.invariants == (total,)
    assert not count.writes and count.gold_answer == ((3,),)
    assert load("folder", save_question_set(tasks, tmp_path / "again")).questions == tasks.questions


def test_tasks_in_a_table(harbour):
    double = 'Double.,"UPDATE ship SET tonnes = 0; DELETE FROM ship",ship,yes'
    (harbour / "tasks.csv").write_text(f"question,statements,writes,rule\n{double}\nKeep.,,ship,no\n")
    first, keep = load("folder", harbour)
    assert len(first.gold_statements) == 2 and first.states_rule
    assert keep.writes == ("ship",) and not keep.gold_statements and not keep.states_rule


@pytest.mark.parametrize("change, said", cases("change_tasks_wrong", list))
def test_what_is_wrong_with_a_task_is_said_with_its_line(harbour, change, said):
    with pytest.raises(SourceError, match="questions.jsonl, line 2") as e:
        loaded(harbour, SCRAP | change)
    assert said in str(e.value)


@pytest.mark.parametrize("change, flag", cases("change_tasks_set_aside", list))
def test_tasks_that_cannot_be_judged_are_set_aside(harbour, change, flag):
    found = loaded(harbour, SCRAP | change)
    assert not len(found) and flag in found.quarantined[0].flags


def test_follow_ups_that_write_are_about_the_rows_of_the_answer_before():
    "The oracle is right on all contents, whoever forgets a turn is not; nothing is written before it is asked for."
    talks = world_set("train", 2, 12, seed=6, kind=FollowUpWorld)
    assert {len(q.conversation) for q in talks} == {2, 3}
    played = evaluate(EpisodeEnv(talks, actions="execute"), OraclePolicy(talks), progress=False)
    assert played.success_rate == played.robust_rate == 1
    for q in talks:
        episode = Episode(q, talks.database(q.database_name), actions="execute", budget=4)
        episode.reset()
        gold = q.follow_ups[-1].gold_text
        change, _, where = gold.partition(" WHERE ")
        assert episode.step("EXECUTE", gold).error.startswith("forbidden")
        for turn in q.conversation[:-1]:
            assert where.startswith(turn.gold_sql.partition(" WHERE ")[2])
            episode.step("QUERY", turn.gold_sql)
            episode.step("ANSWER", "@last")
        there = episode.fork()
        for it, sql in ((there, change), (episode, gold)):  # the first forgets all that was said
            it.step("EXECUTE", sql)
            it.step("ANSWER", "done")
            assert it.correct is (sql == gold) and it.turns_correct[:-1] == (True,) * len(q.follow_ups)


def test_a_second_task_comes_on_top_of_the_first():
    talks = world_set("train", 1, 2, seed=6, kind=FollowUpWorld)
    task = talks[0].follow_ups[-1]
    table = task.writes[0]
    more = task.with_fields(question_id="more", gold_statements=(f"DELETE FROM {table} WHERE rowid = 1",))
    q = task.with_fields(follow_ups=(more,))
    episode = Episode(q, talks.database(q.database_name), actions="execute")
    for moves in ([task, more], [task, None], [None, more]):
        episode.reset()
        for turn in moves:
            episode.step("EXECUTE", turn.gold_text if turn else f"DELETE FROM {table} WHERE FALSE")
            episode.step("ANSWER", "done")
        assert episode.correct is (None not in moves)
