"Tasks where people and programs meet them: server, page, explorer, TRL, MCP, Inspect, the command."

import html
import importlib.util
import json
import re

import pytest
from test_cli import sql_env  # noqa: F401
from test_tasks import ALL, DONE, EXECUTE, FEE, NOTHING, OPEN, ROWS, SCHEMA
from test_view_run import unpack

from sql_env import EpisodeEnv, EpisodeExplorer, Session
from sql_env.database.database import build_database
from sql_env.integrations.trl import prompt_rows
from sql_env.models import SQLAction
from sql_env.play.acts import ACTIONS, prompt
from sql_env.questions.question_set import QuestionSet, save_question_set
from sql_env.server.environment import SQLEnvironment
from sql_env.server.mcp_tools import Players
from sql_env.server.page import _page_html, build_page

DO = FEE.gold_statements[0]
HALF = "UPDATE account SET cents = cents - 10 WHERE id = 5"
PLAIN = FEE.with_fields(gold_statements=(), writes=(), gold_sql="SELECT 7", gold_answer=((7,),))
PLAIN = PLAIN.with_fields(answer_type="integer", states_rule=False)
CHANGE = "Change rows with execute; only these tables may be changed: account. At most 20,000 rows"
KINDS = [  # question, actions, what its prompt says, what it must not say
    (PLAIN, ACTIONS, "answer, once", "execute"),
    (PLAIN, EXECUTE, "answer, once", "may be changed"),
    (FEE, EXECUTE, CHANGE, "You answer"),
    (FEE, (*EXECUTE, "ABSTAIN"), "call abstain", "answer, once"),
    (PLAIN.with_fields(follow_ups=(PLAIN,)), ACTIONS, "the next question may follow", "once"),
]


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    path = build_database(tmp_path_factory.mktemp("bank") / "bank.sqlite", SCHEMA, ROWS)
    return QuestionSet([FEE, OPEN, NOTHING], {"bank": path}, "bank")


def played(questions, *moves, question_id="bank-fee", **options):
    "A server's environment in which some moves were made, and what it said."
    env = SQLEnvironment(questions, actions=EXECUTE, **options)
    seen = [env.reset(question_id=question_id)]
    return env, [*seen, *(env.step(SQLAction(action_type=verb, argument=text)) for verb, text in moves)]


def visited(questions, *moves, **options):
    "A visitor of the page who made some moves, and the page."
    env = SQLEnvironment(questions, actions=EXECUTE, **options)
    env.reset(question_id="bank-fee")
    return env, moved(env, *moves)


def moved(env, *moves):
    for verb, text in moves:
        env.step(SQLAction(action_type=verb, argument=text))
    return "".join(_page_html(env))


@pytest.mark.parametrize("sql, right", [(DO, True), (HALF, False)])
def test_a_server_plays_tasks(questions, sql, right):
    env, (_, did, end) = played(questions, ("EXECUTE", sql), DONE, verify="robust")
    assert re.fullmatch(r"account: \d rows? updated", did.result) and "correct" not in did.metadata
    assert end.done and end.reward == right
    assert end.metadata["correct"] == right and end.metadata["robust"] is right
    copy = env.episode.work.copy
    env.close()
    assert copy.is_closed


def test_no_gold_leaves_a_server_and_a_closed_one_leaves_no_copy_open(questions):
    env, seen = played(questions, ("EXECUTE", HALF), ("EXECUTE", "DROP TABLE x"), DONE)
    text = "".join(o.model_dump_json() for o in seen) + env.state.model_dump_json()
    assert "Oslo'" not in text and "cents >= 100" not in text and "missing" not in text
    env, _ = played(questions, ("EXECUTE", HALF))
    copy = env.episode.work.copy
    env.reset(question_id="bank-open")
    assert copy.is_closed


def test_the_page_for_people(questions):
    players = Players(lambda: SQLEnvironment(questions, actions=EXECUTE))
    ids = {c["props"].get("elem_id") for c in build_page(players).config["components"]}
    assert {"se-execute", "se-execute-send"} <= ids
    visit, page = visited(questions, ("EXECUTE", HALF))
    assert "700 → 690" in page and "100 → 90" not in page
    page = moved(visit, DONE)
    assert "Wrong" in page and "100 → 90" not in page and "Oslo'" not in page
    assert "100 → 90" in visited(questions, DONE, reveal="gold")[1]
    for reveal, told in (("gold", True), ("verdict", False), ("none", False)):
        page = visited(questions, ("EXECUTE", DO), DONE, reveal=reveal, verify="robust")[1]
        assert (ALL in page) == told, "who practises is told the conditions, and no other"


def test_the_page_of_a_log_tells_the_conditions(sql_env, questions, tmp_path):  # noqa: F811
    folder, log = save_question_set(questions, tmp_path / "bank"), tmp_path / "log.jsonl"
    asked = ("--source", "folder", "--path", folder)
    sql_env("evaluate", *asked, "--actions", "execute", "--policy", "oracle", "--no-floor", "--log", log)
    sql_env("view", log, *asked, "--out", tmp_path / "page.html")
    assert html.escape(ALL) in "".join(unpack((tmp_path / "page.html").read_text()))
    assert f"`bank-fee` {ALL}" in sql_env("audit", *asked).out


def test_the_explorer(questions):
    ex = EpisodeExplorer(questions, question_id="bank-fee")
    board = ex.human
    board.boxes["EXECUTE"].value = DO
    board.buttons["EXECUTE", ""].click()
    assert "250 → 240" in board.player.box.value
    ex.play(*DONE)
    page = board.player.box.value
    assert "The rows are as they should be" in page and html.escape(ALL) in page
    ex.watch("oracle")
    assert ex.views[0].outcome.verdict.correct and "removed" not in ex.html().data


def test_mcp(questions):
    players = Players(lambda: SQLEnvironment(questions, actions=EXECUTE))
    for sql, said in ((DO, "The task is done."), (HALF, "The rows are not as they should be.")):
        players.call(test_mcp, "start", dict(question_id="bank-fee"))
        assert players.call(test_mcp, "execute", dict(sql=sql))[0].endswith("updated")
        assert said in players.call(test_mcp, "answer", dict(value="done"))[0]


@pytest.mark.parametrize("question, actions, says, never", KINDS)
def test_every_face_says_the_job_of_a_question(questions, question, actions, says, never):
    one = QuestionSet([question], dict(questions.databases), "one")
    session = Session(EpisodeEnv(one, actions=actions))
    expected = prompt(question, session.env.actions)
    assert says in expected and never not in expected
    session.begin(question.question_id)
    players = Players(lambda: SQLEnvironment(one, actions=actions))
    seen = dict(
        session=session.messages[0]["content"],
        trl=prompt_rows(one, actions=actions)[0]["prompt"][0]["content"],
        mcp=players.call(test_mcp, "start", dict(question_id=question.question_id))[0],
    )
    if importlib.util.find_spec("skyrl_gym"):
        from sql_env.integrations.skyrl import skyrl_rows

        seen["skyrl"] = skyrl_rows(one, actions=actions)[0]["prompt"][0]["content"]
    if importlib.util.find_spec("verifiers"):
        from sql_env.integrations.verifiers import _question_data

        seen["verifiers"] = _question_data(question, EpisodeEnv(one, actions=actions)).system_prompt
    assert {face: expected in text for face, text in seen.items()} == dict.fromkeys(seen, True)


def test_the_command(sql_env, questions, tmp_path):  # noqa: F811
    folder = save_question_set(questions, tmp_path / "bank")
    asked = ("--source", "folder", "--path", folder, "--actions", "execute")
    run = sql_env("demo", *asked, "--question", "bank-fee")
    assert run.code == 0 and "Right. The rows are as they should be" in run.out and "100 → 90" in run.out
    run = sql_env("evaluate", *asked, "--policy", "oracle", "--no-floor", "--json")
    assert run.code == 0 and json.loads(run.out)[0]["success_rate"] == 1
    run = sql_env("demo", "--source", "folder", "--path", folder)
    assert run.code and "EXECUTE" in run.err
