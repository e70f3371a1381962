"Models, environment, client, settings and the page's HTML, all in this process."

import asyncio
import json
from dataclasses import fields
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from pydantic import ValidationError
from serving import act
from tables import cases

from sql_env import EpisodeEnv, Question, QuestionSet, load
from sql_env.client import RemoteEpisode, VerdictWithheldError
from sql_env.grading.answers import VERDICT_REASONS
from sql_env.grading.readings import MAX_ANSWER_CHARS
from sql_env.models import SQLAction, SQLObservation, SQLState, action_model
from sql_env.play import Observation
from sql_env.play.acts import ACTIONS, EXTRA_ACTIONS, Action
from sql_env.server import app as server
from sql_env.server.environment import ResetError, SQLEnvironment
from sql_env.server.page import _page_html
from sql_env.server.settings import setting_errors, settings_table
from sql_env.view.episode import Part
from sql_env.view.page import part_html


def test_models_follow_the_episode():
    verbs = (*ACTIONS, *EXTRA_ACTIONS)
    for allowed in (ACTIONS, verbs):
        schema = action_model(allowed).model_json_schema()["properties"]
        assert schema["action_type"]["enum"] == [*allowed]
    assert "enum" not in SQLAction.model_json_schema()["properties"]["action_type"]
    assert schema["argument"]["maxLength"] == MAX_ANSWER_CHARS
    assert {f.name for f in fields(Observation)} | {"metadata"} == set(SQLObservation.model_fields)


@pytest.mark.parametrize("action, observation, reason", cases("server_reasons"))
def test_a_client_gives_reasons_that_exist(action, observation, reason):
    episode = RemoteEpisode(Question("q", "How many?", "db", ""))
    episode.add(Action(*action), SQLObservation(done=True, **observation))
    assert episode.verdict.reason == reason and reason in VERDICT_REASONS
    assert episode.verdict.correct == bool(observation["reward"])


@pytest.mark.parametrize("action", ["ANSWER", "ABSTAIN"])
def test_a_withheld_verdict_is_unknown_and_not_wrong(action):
    episode = RemoteEpisode(Question("q", "How many?", "db", ""))
    with pytest.raises(VerdictWithheldError, match="unknown"):
        episode.add(Action(action, "x"), SQLObservation(done=True, reward=0.0))
    assert episode.verdict is None


text = st.text(st.characters(codec=None), max_size=60)
arguments = st.one_of(text, st.sampled_from(["owner", "@last", "SELECT 1", "SELECT name FROM owner", ""]))
options = st.dictionaries(
    st.sampled_from(["seed", "episode_id", "split", "index", "question_id", "difficulty", "x"]),
    st.one_of(st.none(), st.integers(), text, st.booleans(), st.lists(st.integers(), max_size=2)),
    max_size=3,
).map(lambda d: {k: v for k, v in d.items() if v is not None or k not in ("seed", "episode_id")})  # None draws one
calls = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.sampled_from(ACTIONS), arguments),
        st.tuples(st.just("reset"), options),
        st.tuples(st.just("close")),
        st.tuples(st.just("state")),
    ),
    max_size=12,
)


@law(60)
@given(calls)
def test_a_server_gets_what_plain_calls_get(todo):
    "At once or in a thread, `step_async` and `reset_async` return what `step` and `reset` do, and raise the same."

    async def outcomes(in_thread):
        env, said = SQLEnvironment(SHARED.questions), []
        for what, *args in [("reset", dict(seed=1, episode_id="x", question_id="vet_clinic-05")), *todo]:
            if what == "close":
                env.close()
            elif what == "reset":
                given = dict(seed=5, episode_id="x") | args[0]
                try:
                    said.append(await env.reset_async(**given) if in_thread else env.reset(**given))
                except ResetError as e:
                    said.append(str(e))
            elif what == "step":
                action = SQLAction(action_type=args[0], argument=args[1])
                said.append(await env.step_async(action) if in_thread else env.step(action))
        return said

    assert asyncio.run(outcomes(True)) == asyncio.run(outcomes(False))


def test_steps_of_every_question_are_the_same_in_a_server_and_in_a_plain_episode(questions):
    "Gold queries, random walks and refused statements, in databases that other threads are using."
    env, here, plain = SQLEnvironment(questions), SQLEnvironment(questions), EpisodeEnv(questions)
    heavy = "WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k) SELECT count(*) FROM k"

    async def served(reset, actions):
        return [await env.reset_async(**reset)] + [await env.step_async(a) for a in actions]

    for i, q in enumerate(list(questions)[::21]):
        table = q.tables_involved[0]
        said = [
            ("DESCRIBE", table),
            ("SAMPLE", table),
            ("DESCRIBE", "nothing"),
            ("QUERY", f"SELECT * FROM {table}"),
            ("QUERY", "SELECT printf('%d', 1)"),
            *[("QUERY", heavy)] * (i % 10 == 0),
            ("QUERY", f"SELECT nmae FROM {table}"),
            ("QUERY", "SELEC"),
            ("QUERY", q.gold_sql),
            ("ANSWER", "@last"),
            ("QUERY", "SELECT 1"),
        ]
        actions = [SQLAction(action_type=k, argument=a) for k, a in said]
        reset = dict(seed=3, episode_id="x", question_id=q.question_id)
        expected = [here.reset(**reset)] + [here.step(a) for a in actions]
        assert asyncio.run(served(reset, actions)) == expected
        played = [plain.reset(**reset)] + [plain.step(*move) for move in said[:-1]]
        for a, b in zip(expected[:-1], played, strict=True):
            for name in Observation.__dataclass_fields__:
                x, y = getattr(a, name), getattr(b, name)
                assert (tuple(x) if name == "action_history" else x) == y
        told = expected[-2].metadata
        assert (told["correct"], told["grounded"]) == (plain.episode.verdict.correct, plain.episode.grounded)


@law(120)
@given(calls)
def test_any_order_of_calls_is_survived(todo):
    env = SHARED
    env.close()
    for what, *args in todo:
        if what == "close":
            env.close()
        elif what == "state":
            assert isinstance(env.state, SQLState) and json.dumps(env.state.model_dump())
        elif what == "reset":
            try:
                obs = env.reset(**args[0])
            except ResetError as e:
                assert str(e)
            else:
                assert obs.reward is None and not obs.done and obs.model_dump_json()
        else:
            obs = act(env, *args)
            assert obs.reward is not None and obs.model_dump_json()
            assert env.episode is not None or obs.done and obs.error.startswith("not_started")


SHARED = SQLEnvironment()


@pytest.mark.parametrize("verify, answer", [("value", "@last"), ("robust", "@last"), ("value", "0")])
def test_the_rubric_returns_the_verdicts(questions, verify, answer):
    "OpenEnv's rubric says of each step what the observation says: nothing before the end, then verdicts and reward."
    env, ids = SQLEnvironment(questions, verify=verify), {"episode_id", "question_id"}
    assert [name for name, _ in env.rubric.named_rubrics()] == ["correct", "grounded", "robust"]
    assert set(env.reset(question_id=questions[0].question_id).metadata) == ids
    assert set(act(env, "QUERY", questions[0].gold_sql).metadata) == ids
    assert [r.last_score for _, r in env.rubric.named_rubrics()] == [None] * 3
    said = act(env, "ANSWER", answer)
    scores = {name: r.last_score for name, r in env.rubric.named_rubrics()}
    assert set(said.metadata) == ids | {"correct", "grounded"} | ({"robust"} if verify == "robust" else set())
    assert scores["correct"] == env.rubric.last_score == said.reward == float(answer == "@last")
    assert scores["grounded"] == said.metadata["grounded"]
    assert scores["robust"] == said.metadata.get("robust")  # told where it is judged


def test_tasks_and_resets_agree(questions):
    env = SQLEnvironment(questions)
    for split in env.list_splits():
        tasks = env.list_tasks(split)
        assert len(tasks) == env.num_tasks(split) and tasks[2:5] == env.get_task_range(split, 2, 5)
        for i in (0, len(tasks) - 1):
            assert env.get_task(split, i) == tasks[i]
            assert env.reset(split=split, index=i).question == tasks[i]["question"]
    for bad in (-1, env.num_tasks("train")):
        with pytest.raises(IndexError, match="is not in 0 to"):
            env.get_task("train", bad)


def test_settings_come_from_the_environment(monkeypatch):
    told = "SQL_ENV_BUDGET=7 SQL_ENV_REWARD=shaped MAX_CONCURRENT_ENVS=3 ENABLE_WEB_INTERFACE=false PORT=9000"
    for each in f"{told} SQL_ENV_SPLIT=test HOST=".split():
        monkeypatch.setenv(*each.split("="))
    s = server.Settings()
    assert server.Settings(port=2).port == 2 and s.host == "127.0.0.1"
    assert s == server.Settings(budget=7, reward="shaped", capacity=3, web=False, port=9000, split="test")
    assert len(settings_table().splitlines()) == 2 + len(server.Settings.model_fields)
    bad = "SQL_ENV_SOURCE=x PORT=70000 MAX_CONCURRENT_ENVS=0 SQL_ENV_VERIFY=luck SQL_ENV_SCHEMA_LEVEL=all"
    for name, value in (each.split("=") for each in f"{bad} SQL_ENV_REVEAL=all SQL_ENV_SHARE=-1".split()):
        with monkeypatch.context() as patch, pytest.raises(ValidationError) as e:
            patch.setenv(name, value)
            server.Settings()
        assert setting_errors(e.value).split(":")[0].lower() in name.lower(), setting_errors(e.value)
    env = server.environment_factory(s)()
    obs = env.reset(seed=0)
    assert obs.budget_remaining == 7 and env.list_splits() == ["test"]
    assert act(env, "QUERY", "SELEC").reward < 0


class Tags(HTMLParser):
    "All tags of a page."

    def __init__(self, page):
        super().__init__()
        self.seen = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


MARKUP = "<script>x</script>|\"><img src=x onerror=y>|</td></table><svg onload=z>|&lt;|'|<!--|</style>".split("|")
nasty = st.one_of(st.text(max_size=30), st.sampled_from(MARKUP))
cells = st.one_of(nasty, st.none(), st.integers(), st.binary(max_size=5))


@law(150)
@given(
    st.lists(nasty, min_size=1, max_size=4), st.lists(st.lists(cells, min_size=4, max_size=4), max_size=4), nasty, nasty
)
def test_nothing_on_the_page_becomes_markup(columns, rows, question, error):
    table = part_html(Part("table", "", "", (columns * 4)[:4], [[str(value) for value in row] for row in rows]))
    SHARED.reset(question_id="vet_clinic-05")
    SHARED.episode.ask.text = question
    act(SHARED, "QUERY", f"SELECT '{error}'")
    page = table + "".join(_page_html(SHARED))
    allowed = "div table thead tbody tr th td p b i span h2 h3 ol ul li code small details summary"
    allowed += " article section header nav button input output"
    assert {t for t, _ in Tags(page).seen} <= set(allowed.split())
    harmless = "class scope tabindex role aria- data- hidden title type min max step value"
    for _, attributes in Tags(page).seen:
        for name in attributes:
            assert name.startswith(tuple(harmless.split())), name


def test_the_page_shows_what_happened(questions):
    env = SQLEnvironment(questions)
    show = lambda: "".join(_page_html(env))  # noqa: E731
    assert "New question" in show()
    env.reset(question_id="vet_clinic-05")
    assert "15 of 15" in show() and "none yet" in show()
    act(env, "DESCRIBE", '"Owner"')
    assert all(word in show() for word in ("owner_id", "name", "town", "key")), show()
    act(env, "QUERY", "SELECT name FROM owner WHERE phone IS NULL")
    assert "Ursula Quiroga" in show()
    act(env, "ANSWER", "@last")
    assert "Right." in show() and "ended after " in show() and "+1.000" in show()
    env = SQLEnvironment(questions, reveal="gold")
    env.reset(question_id="vet_clinic-05")
    act(env, "QUERY", "SELECT name FROM owner WHERE phone IS NULL")
    act(env, "ANSWER", "@last")
    assert "<h3>answer</h3>" in show() and "<h3>gold</h3>" in show(), "a right answer stands beside gold too"
    env = SQLEnvironment(questions, step_budget=1)
    env.reset()
    act(env, "QUERY", "SELEC 1")
    assert "sx-error" in show() and "The budget is used up" in show()


def test_an_empty_set_is_refused_before_serving(questions):
    with pytest.raises(ValueError, match="no questions"):
        server.create_app(server.Settings(web=False), QuestionSet([], questions.databases, "empty"))


def test_the_document_says_what_this_server_takes(questions):
    "Any object was an action, with an example that is refused; verbs, options and ways to talk were missing."
    from fastapi.testclient import TestClient

    app = server.create_app(server.Settings(web=False, actions="abstain"), questions)
    document = app.openapi()
    schemas = document["components"]["schemas"]
    action = schemas["StepRequest"]["properties"]["action"]
    verbs = action["properties"]["action_type"]["enum"]
    assert verbs == [*ACTIONS, "ABSTAIN"] and "keep nothing" in document["info"]["description"]
    assert "schema_info" in schemas["StepResponse"]["properties"]["observation"]["properties"]
    with TestClient(app, base_url="http://localhost") as client:
        for path, name in (("/reset", "ResetRequest"), ("/step", "StepRequest")):
            for example in schemas[name]["examples"]:
                assert client.post(path, json=example).status_code == 200, example
        for seed in ("NaN", "1e999", "true", '"x"', "1.5"):
            assert client.post("/reset", content=f'{{"seed": {seed}}}').status_code == 422, seed
        assert client.get("/docs").status_code == 200


def test_a_page_that_nobody_uses_costs_next_to_nothing(monkeypatch):
    "Gradio looked a thousand times a second for something to do, and each stream gave a sign of life every 15 s."
    routes = pytest.importorskip("gradio.routes")
    monkeypatch.delenv("GRADIO_HEARTBEAT_INTERVAL", raising=False)
    app = server.create_app(server.Settings(web=True), load("bundled"))
    page = next(r.app for r in app.routes if isinstance(getattr(r, "app", None), routes.App))
    assert "/ws/ui" not in {getattr(r, "path", "") for r in app.routes}, "no session is shared"
    queue = page.get_blocks()._queue
    assert min(queue.sleep_when_free, queue.progress_update_sleep_when_free) >= 0.02
    assert routes.utils.get_heartbeat_rate() == 30
