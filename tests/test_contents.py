"Runs known by content: what changed under the same names is told and played or judged anew, and only that."

import json
import shutil
import sqlite3

import pytest
from test_cli import sql_env  # noqa: F401  a fixture

from sql_env import EpisodeEnv, OraclePolicy, RandomPolicy, evaluate, load
from sql_env.database.database import build_database
from sql_env.evaluation.results import compare, load_result
from sql_env.questions.question_set import Question, QuestionSet, as_conversation
from sql_env.view.page import read_runs

CITIES = dict(a="Oslo", b="Rome", c="Bonn")
SHOPS = {name: f"SELECT city FROM shop WHERE id = {i + 1}" for i, name in enumerate(CITIES)}


def world(tmp_path, follow=None, **changed):
    "Three questions on two databases: a and b on one, a conversation c on the other; a or the follow-up is changed."
    paths = {name: tmp_path / f"{name}.sqlite" for name in ("one", "two")}
    for path in paths.values():
        if not path.exists():
            rows = [(i, city) for i, city in enumerate(CITIES.values(), 1)]
            build_database(path, "CREATE TABLE shop (id INTEGER PRIMARY KEY, city TEXT)", {"shop": rows})
    a, b, c = (
        Question(q, f"Where is shop {q}?", "two" if q == "c" else "one", sql, ((CITIES[q],),), answer_type="string")
        for q, sql in SHOPS.items()
    )
    d = a.with_fields(question_id="d", database_name="two", question_text="And shop a?").with_fields(**follow or {})
    asked = [a.with_fields(**changed), b, as_conversation([c, d])]
    return EpisodeEnv(QuestionSet(asked, paths, name="shops"), budget=4)


def sql(database, statement):
    def change(tmp_path):
        with sqlite3.connect(tmp_path / f"{database}.sqlite") as db:
            db.execute(statement)

    return change


CHANGES = (  # what is changed of the questions, or of a database; what is told of how many pairs
    ("a question", dict(question_text="Where is shop a now?"), None, "the question of 1"),
    ("a follow-up", dict(follow=dict(question_text="And the first?")), None, "the question of 1"),
    ("a gold query", dict(gold_sql=SHOPS["b"], gold_answer=(("Rome",),)), None, "the gold of 1"),
    ("gold rows", dict(gold_sql="", gold_answer=(("Rome",),)), None, "the gold of 1"),
    ("other right answers", dict(other_answers=((("Rome",),),)), None, "the gold of 1"),
    ("gold of a follow-up", dict(follow=dict(gold_sql=SHOPS["b"])), None, "the gold of 1"),
    ("a cell", {}, sql("one", "UPDATE shop SET city = 'Kiel' WHERE id = 3"), "the database of 2"),
    ("a table", {}, sql("two", "CREATE TABLE staff (name TEXT)"), "the database of 1"),
)  # fmt: skip


@pytest.mark.parametrize("what, changed, act, said", CHANGES, ids=[c[0] for c in CHANGES])
def test_changed_questions_are_another_run_and_their_pairs_are_not_compared(tmp_path, what, changed, act, said):
    log = tmp_path / "runs" / "m.jsonl"
    first = evaluate(world(tmp_path), OraclePolicy(world(tmp_path).questions), log=log, progress=False)
    before = log.read_bytes()
    if act:
        act(tmp_path)
    env = world(tmp_path, **changed)
    policy = OraclePolicy(env.questions)
    with pytest.raises(ValueError, match="m.jsonl is the log of another run: the questions"):
        evaluate(env, policy, log=log)
    assert log.read_bytes() == before
    found = compare(first, evaluate(env, policy, progress=False))
    assert said in " ".join(found.notes) and found.n == 3 - int(said[-1])


def test_runs_on_other_contents_are_not_compared(tmp_path):
    one = evaluate(world(tmp_path), RandomPolicy(), progress=False)
    for name in ("one", "two"):
        sql(name, "DELETE FROM shop WHERE id = 3")(tmp_path)
    with pytest.raises(ValueError, match="differs the database of 3"):
        compare(one, evaluate(world(tmp_path), RandomPolicy(), progress=False))


def test_rescoring_says_what_changed(sql_env, tmp_path):  # noqa: F811
    "On 90d960bd neither the command nor its JSON said a word."
    world(tmp_path)
    asked = [("Where is a?", "a"), ("Where is b?", "b")]
    for changed, told in ((None, ""), ("b", "the gold of 1")):
        golds = {i: dict(question=q, sql=SHOPS[changed or i]) for q, i in asked}
        text = "\n".join(json.dumps(row | {"database": "one"}) for row in golds.values())
        (tmp_path / "asked.jsonl").write_text(text)
        where = ["--source", "folder", "--path", tmp_path]
        if not changed:
            args = "--policy oracle --no-floor --log"
            assert sql_env("evaluate", *where, args, tmp_path / "runs" / "m.jsonl").code == 0
        run = sql_env("rescore", tmp_path / "runs" / "m.jsonl", *where)
        assert run.code == 0 and (told and f"changed since the log was written: {told}") in run.out
        assert bool(told) == ("changed since" in run.out)
    kept = json.loads(sql_env("rescore", tmp_path / "runs" / "m.jsonl", *where, "--json").out)
    assert [*kept["contents"].values()] == [["gold"]]


JOINED = (  # how a file is made of the lines of two runs, the episodes of the first that are read; none: refused
    ("twice", lambda a, b: a + a, 3),
    ("its beginning once more", lambda a, b: a + a[: a.index(b"\n", a.index(b"\n") + 1) + 1], 3),
    ("two policies", lambda a, b: a + b, None),
)


@pytest.mark.parametrize("what, join, n", JOINED, ids=[j[0] for j in JOINED])
def test_joined_logs_never_count_twice_and_keep_their_names(tmp_path, what, join, n):
    env, parts = world(tmp_path), []
    for policy in (OraclePolicy(env.questions), RandomPolicy()):
        evaluate(env, policy, log=tmp_path / "part.jsonl", progress=False)
        parts.append((tmp_path / "part.jsonl").read_bytes())
        (tmp_path / "part.jsonl").unlink()
    log = tmp_path / "joined" / "a.jsonl"
    log.parent.mkdir()
    log.write_bytes(join(*parts))
    if n is None:
        with pytest.raises(ValueError, match="another run begins here"):
            load_result(log)
        with pytest.raises(ValueError, match="another run begins here"):
            read_runs([log.parent])
        return
    found = load_result(log)
    (run,) = read_runs([log.parent])
    for result in (found, run.result):
        assert (result.policy, result.n_episodes, result.success_rate) == ("oracle", n, 1.0)
    before = log.read_bytes()
    assert evaluate(env, OraclePolicy(env.questions), log=log, progress=False).n_episodes == n
    assert log.read_bytes() == before, "nothing is played again"


def test_tasks_and_moved_files_are_the_same_content(tmp_path):
    tasks = EpisodeEnv(load("bundled_tasks")[:3], actions=["EXECUTE"])
    shops, moved, log = world(tmp_path), tmp_path / "moved", tmp_path / "t.jsonl"
    moved.mkdir()
    for name in ("one", "two"):
        shutil.copy(tmp_path / f"{name}.sqlite", moved)
    for first, second in ((tasks, tasks), (shops, world(moved))):  # a task's own copy is not its database
        log.unlink(missing_ok=True)
        evaluate(first, OraclePolicy(first.questions), log=log, progress=False)
        size = log.stat().st_size
        evaluate(second, OraclePolicy(second.questions), log=log, progress=False)
        assert log.stat().st_size == size
