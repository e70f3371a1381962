"ABSTAIN where people and programs meet them: the page, the explorer, the run page, the command, TRL."

import html
import inspect
import json
import pickle
from functools import partial

import pytest
from fake_server import FakeServer, completion
from serving import act
from test_cli import sql_env  # noqa: F401

from sql_env import Episode, EpisodeEnv, EpisodeExplorer, OraclePolicy, RewardConfig, ScriptedPolicy, evaluate, load
from sql_env.evaluation.logs import read_log
from sql_env.integrations.trl import SQLEnvTRL, SQLEnvTRLRemote
from sql_env.play import ACTIONS, tool_schemas
from sql_env.server.app import Settings, _load_questions
from sql_env.server.environment import SQLEnvironment
from sql_env.server.mcp_tools import Players
from sql_env.server.page import _page_html, build_page
from sql_env.view.episode import EpisodeView, conversation, view_trajectory
from sql_env.view.page import _end_data, _run_data, player_html, read_runs
from sql_env.worlds import world_set

ALLOWED = (*ACTIONS, "ABSTAIN")
FOUR = {"describe", "sample", "query", "answer"}


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    "Questions, and some without an answer."
    folder = tmp_path_factory.mktemp("worlds")
    return world_set("train", 1, 24, folder=folder, unanswerable=0.4)


@pytest.fixture(scope="module")
def asks(questions):
    return next(q for q in questions if q.answerable)


@pytest.fixture(scope="module")
def lacks(questions):
    return next(q for q in questions if not q.answerable)


def abstain(question):
    "The actions that look for what is missing and then say so."
    return [("DESCRIBE", question.tables_involved[0]), ("ABSTAIN", f"There is no {question.missing}.")]


def tools_of(cls):
    "The tools that TRL reads off a class."
    found = {name for name, _ in inspect.getmembers(cls, predicate=inspect.isfunction) if not name.startswith("_")}
    return found - {"reset", "get_reward"}


def test_each_allowed_action_is_a_tool_of_trl(questions):
    one, both = (["abstain"], {"abstain"}), ((*ALLOWED, "execute"), {"abstain", "execute"})
    for actions, more in ((ACTIONS, set()), one, both):
        remote = SQLEnvTRLRemote("http://127.0.0.1:9", actions=actions)
        for env in (SQLEnvTRL(questions, actions=actions), remote):
            schemas = tool_schemas(env.session.env.actions)
            assert tools_of(type(env)) == {s["function"]["name"] for s in schemas} == FOUR | more
            assert all(getattr(env, name).__doc__ for name in more)
            assert type(env).__name__ in ("SQLEnvTRL", "SQLEnvTRLRemote")
    assert tools_of(SQLEnvTRL) == tools_of(SQLEnvTRLRemote) == FOUR, "the class itself is as it was"

    one, two = (SQLEnvTRL(questions, actions=a) for a in (["ABSTAIN"], ("abstain",)))
    assert type(one) is type(two) and isinstance(one, SQLEnvTRL), "not each of a class of its own"
    assert type(SQLEnvTRL(questions)) is SQLEnvTRL and issubclass(SQLEnvTRLRemote, SQLEnvTRL), "one body for both"


def test_an_action_that_nobody_knows_is_refused(questions):
    remote = partial(SQLEnvTRLRemote, "http://127.0.0.1:9")
    for make in (partial(SQLEnvTRL, questions), remote, partial(EpisodeExplorer, questions)):
        with pytest.raises(ValueError, match="GUESS"):
            make(actions=["GUESS"])


def test_trl_pays_what_the_plain_episode_pays(questions, asks, lacks):
    reward = RewardConfig(credit=0.3, slowness=0.1, abstain=0.1)
    env = pickle.loads(pickle.dumps(partial(SQLEnvTRL, reward=reward, actions=ALLOWED)))(questions)
    for q, moves in ((lacks, abstain(lacks)), (asks, [("ABSTAIN", "unclear")])):
        env.reset(question_id=q.question_id)
        episode = Episode(q, questions.database(q.database_name), reward=reward, actions=ALLOWED)
        episode.reset()
        for kind, argument in moves:
            assert getattr(env, kind.lower())(argument) == episode.step(kind, argument).result
        assert env.session.done and env.get_reward() == pytest.approx(episode.total_reward)
        assert env.correct == (q is lacks)


@pytest.mark.parametrize("actions", [ACTIONS, ALLOWED])
def test_the_page_has_boxes_for_what_is_allowed(questions, actions):
    page = build_page(Players(lambda: SQLEnvironment(questions, actions=actions)))
    labels = {c["props"].get("elem_id") for c in page.config["components"]}
    assert ({"se-abstain", "se-abstain-send"} <= labels) == ("ABSTAIN" in actions)
    clicks = [e for e in page.config["dependencies"] if e["targets"][0][1] == "click"]
    assert len(clicks) == 2 + len(actions)
    start = max(clicks, key=lambda e: len(e["inputs"]))
    [values] = {len(e["outputs"]) for e in clicks if e is not start}
    assert len(start["outputs"]) == values + len(actions) - 2  # and the boxes, which are cleared


def visited(questions, question, *moves, reveal="verdict"):
    "A visitor of the page who has made some moves."
    env = SQLEnvironment(questions, actions=ALLOWED, reveal=reveal)
    env.reset(question_id=question.question_id)
    for move in moves:
        act(env, *move)
    return env


def shown(env):
    return "".join(_page_html(env))


def test_a_visitor_abstains(questions, asks, lacks):
    visit = visited(questions, asks, ("ABSTAIN", "It is unclear."))
    assert "Wrong" in shown(visit) and "budget" not in shown(visit)
    visit = visited(questions, lacks, *abstain(lacks))
    assert "Right." in shown(visit) and "names what is missing" in shown(visit)


def test_a_page_without_verdicts_tells_abstentions_apart_by_nothing(questions, asks, lacks):
    pages = []
    for reason in (f"There is no {lacks.missing}.", "I can't tell."):
        visit = visited(questions, lacks, abstain(lacks)[0], ("ABSTAIN", reason), reveal="none")
        pages.append(html.unescape(shown(visit)).replace(reason, ""))
    assert pages[0] == pages[1] and "shows no verdicts" in pages[0]
    said = shown(visited(questions, asks, ("ABSTAIN", "It is unclear."), reveal="gold"))
    assert "The question has an answer." in said and "gold query" in said, "a practice page says why"


def test_a_server_knows_the_level_of_a_source():
    for source, level in (("worlds", 1), ("worlds", 3), ("conversations", 2)):
        found = _load_questions(Settings(source=source, level=level))
        assert {q.database_name.split("_")[1] for q in found} == {str(level)}


def test_playing_by_hand_with_one_more_box(questions, asks, lacks):
    ex = EpisodeExplorer(questions, question_id=asks.question_id, actions=ALLOWED)
    board = ex.human

    def click(verb, text):
        board.boxes[verb].value = text
        board.buttons[verb, ""].click()
        return ex.human.player.box.value

    assert "The question has an answer" in click("ABSTAIN", "It is unclear.")
    assert all(button.disabled for button in board.buttons.values())
    board.reset_button.click()
    assert not board.boxes["ABSTAIN"].value and not board.buttons["ABSTAIN", ""].disabled
    ex.choose(lacks.question_id)
    for move in abstain(lacks):
        ex.play(*move)
    assert "the reason names what is missing" in ex.human.player.box.value


def test_an_explorer_has_the_boxes_that_its_questions_can_use(questions):
    "A set that holds what can't be answered has a box for that; others have not."
    assert "ABSTAIN" in set(EpisodeExplorer(questions).human.boxes)
    plain = EpisodeExplorer(load("bundled"))
    assert set(plain.human.boxes) == {"QUERY", "ANSWER"}
    tasks = EpisodeExplorer(load("tasks", n=1))
    assert "EXECUTE" in tasks.human.boxes and tasks.human.episode.question.writes
    assert set(EpisodeExplorer(questions, actions=()).human.boxes) == {"QUERY", "ANSWER"}


def test_an_empty_box_costs_no_step():
    board = (ex := EpisodeExplorer(load("bundled"))).human
    for verb in ("QUERY", "ANSWER"):
        board.buttons[verb, ""].click()
        assert "no step was taken" in board.errors[verb].value
    assert not ex.views[0].turns
    board.boxes["QUERY"].value = "SELECT 1"
    board.buttons["QUERY", ""].click()
    assert len(ex.views[0].turns) == 1 and not board.errors["QUERY"].value


@pytest.fixture(scope="module")
def log(questions, tmp_path_factory):
    "A run of the oracle, and one that abstains at once."
    folder = tmp_path_factory.mktemp("logs")
    env, options = EpisodeEnv(questions, actions=ALLOWED), dict(progress=False, robust=False)
    evaluate(env, OraclePolicy(questions), log=folder / "oracle.jsonl", **options)
    evaluate(env, ScriptedPolicy([("ABSTAIN", "I don't know.")], "never"), log=folder / "never.jsonl", **options)
    return folder


def test_a_log_is_shown_as_it_was_played(questions, log):
    for path in sorted(log.iterdir()):
        about, found = read_log(path)
        for trajectory in found:
            view = view_trajectory(trajectory, questions, about)
            assert not view.note and view.actions == ALLOWED
            assert view.outcome.verdict.correct == trajectory.correct
            page = player_html(view)
            assert "sx-fail" not in page
            if path.stem == "oracle":
                assert "names what is missing" in page or "came out of a table" in page


def test_a_run_page_tells_abstentions_from_wrong_answers(questions, log):
    first, second = read_runs([log / "oracle.jsonl", log / "never.jsonl"])
    states = [_end_data(t) for t in first.trajectories]
    assert {s["state"] for s in states} == {"right"}
    assert any("abstained" in tag for s in states for tag in s["tags"])
    never = [_end_data(t) for t in second.trajectories]
    assert {s["state"] for s in never} == {"abstained"}
    assert any("coverage" in text for text in _run_data(second, second)["texts"])


@pytest.mark.parametrize("actions, steps", [(ACTIONS, [0, 1]), (ALLOWED, [1, 2])])
def test_a_call_of_a_model_is_an_action_where_it_was_allowed(actions, steps):
    def call(name, **arguments):
        function = dict(name=name, arguments=json.dumps(arguments))
        return dict(role="assistant", content="", tool_calls=[dict(function=function)])

    asked, reply = dict(role="user", content="How many?"), dict(role="tool", content="This.")
    messages = [asked, call("abstain", reason="What?"), reply, call("answer", value="1")]
    said = list(conversation(EpisodeView("How many?", messages=messages, actions=actions)))
    assert [s.step for s in said if s.role == "assistant"] == steps
    assert ("This." in [part.text for s in said for part in s.parts]) == (actions == ACTIONS)


def test_demo_abstains_where_it_may(sql_env):  # noqa: F811
    about = ("--source", "worlds", "--unanswerable", 0.5)
    some = load("worlds", n=20, unanswerable=0.5)
    question = next(q for q in some if not q.answerable)
    asked = ("demo", *about, "--question", question.question_id, "--policy", "oracle")
    run = sql_env(*asked, "--actions", "abstain")
    assert run.code == 0 and f"ABSTAIN There is no {question.missing}" in run.out and "unknown action" not in run.out
    assert "unknown action" in sql_env(*asked).out
    assert "GUESS" in sql_env(*asked, "--actions", "guess").err


def test_evaluate_prints_coverage_where_abstaining_is_allowed(sql_env):  # noqa: F811
    asked = ("evaluate", "--source", "worlds", "--unanswerable", 0.3, "-n", 12, "--policy", "oracle", "--no-floor")
    run = sql_env(*asked, "--actions", "abstain")
    assert run.code == 0
    for word in ("coverage", "selective accuracy", "right abstentions"):
        assert word in " ".join(run.out.split())
    assert "coverage" not in sql_env(*asked).out
    numbers = json.loads(sql_env(*asked, "--actions", "abstain", "--json").out)[0]
    assert {"coverage", "selective_accuracy"} <= set(numbers)


@pytest.mark.parametrize("command", ["evaluate", "demo"])
def test_a_language_model_is_offered_what_is_allowed(sql_env, monkeypatch, command):  # noqa: F811
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    offered = []

    def abstains(body):
        offered.append({tool["function"]["name"] for tool in body.get("tools", ())})
        return completion([("abstain", dict(reason="There is no such column."))])

    with FakeServer(abstains) as server:
        model = ("--policy", "chat", "--model", "m", "--base-url", server.url)
        more = ("-n", 1, "--no-floor") if command == "evaluate" else ()
        run = sql_env(command, *model, "--actions", "abstain", *more)
    assert run.code == 0 and offered[-1] == FOUR | {"abstain"}
    assert ("coverage 0.0%" if command == "evaluate" else "ABSTAIN There is no") in run.out
