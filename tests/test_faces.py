"One table: each kind of question, played rightly and wrongly by each way in, is judged and paid as a plain episode is."

import importlib.util
import json
from typing import NamedTuple

import pytest
from serving import act

from sql_env import EpisodeEnv, EpisodeExplorer, QuestionSet, Session, load
from sql_env.integrations.trl import SQLEnvTRL
from sql_env.models import SQLAction
from sql_env.play.acts import ACTS, allowed_actions
from sql_env.server.environment import SQLEnvironment
from sql_env.server.mcp_tools import Players
from sql_env.server.page import _page_html
from sql_env.worlds import ConversationWorld, FollowUpWorld, World, world_set

VERBS = allowed_actions("execute,abstain")
LAST, DONE = ("ANSWER", "@last"), ("ANSWER", "done")


class Judged(NamedTuple):
    "What a way in says of an episode that is over; None where it does not say it."

    correct: bool
    reward: float | None = None
    each: tuple[bool, ...] | None = None  # the questions of a conversation


def query(q):
    return "QUERY", q.gold_sql


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    "By kind: its questions, one of them, and moves that are right and that are wrong."
    folder = tmp_path_factory.mktemp("worlds")
    bundled, tasks = map(load, ("bundled", "bundled_tasks"))
    talks = world_set("train", 1, 8, folder=folder, kind=ConversationWorld)
    unclear = world_set("train", 1, 24, folder=folder, unanswerable=0.4, kind=World)
    writing = world_set("train", 1, 4, folder=folder, kind=FollowUpWorld)
    those, talk = (next(q for q in some if len(q.conversation) > 2) for some in (writing, talks))
    plain, task = bundled.get("vet_clinic-02"), tasks[0]
    lacks = next(q for q in unclear if not q.answerable)
    writes = [("EXECUTE", sql) for sql in task.gold_statements]
    both = talk.conversation, those.conversation[:-1]
    turns, first = ([m for q in each for m in (query(q), LAST)] for each in both)
    change = ("EXECUTE", those.follow_ups[-1].gold_text)
    abstain = [("DESCRIBE", lacks.tables_involved[0]), ("ABSTAIN", f"There is no {lacks.missing}.")]
    return dict(
        question=(bundled, plain, [query(plain), LAST], [query(plain), ("ANSWER", "'x'")]),
        task=(tasks, task, [*writes, DONE], [DONE]),
        conversation=(talks, talk, turns, [*turns[:3], ("ANSWER", "'x'"), *turns[4:]]),
        writing=(writing, those, [*first, change, DONE], [*first, DONE]),
        unanswerable=(unclear, lacks, abstain, [("ANSWER", "0")]),
    )


def tool(verb: str, argument: str) -> tuple[str, dict]:
    "A tool call, by its name and its arguments."
    return ACTS[verb].tool, {ACTS[verb].parameter: argument}


def episode(questions: QuestionSet, q, moves) -> Judged:
    env = EpisodeEnv(questions, actions=VERBS)
    env.reset(question_id=q.question_id)
    paid = sum(env.step(*move).reward or 0 for move in moves)
    return Judged(env.episode.verdict.correct, paid, env.episode.turns_correct)


def begun(questions, q) -> Session:
    it = Session(EpisodeEnv(questions, actions=VERBS))
    it.begin(q.question_id)
    return it


def session(questions, q, moves) -> Judged:
    it = begun(questions, q)
    for move in moves:
        it.call(*tool(*move))
    verdict = it.verdict(robust=False)
    return Judged(verdict.correct, it.reward, verdict.turns_correct)


def resumed(questions, q, moves) -> Judged:
    "A session that is put away after each step, as Inspect and verifiers do."
    it = begun(questions, q)
    for move in moves:
        it = Session.resume(it.env, json.loads(json.dumps(it.state())))
        it.call(*tool(*move))
    return Judged(it.verdict(robust=False).correct, it.reward)


def server(questions, q, moves) -> Judged:
    env = SQLEnvironment(questions, actions=VERBS)
    env.reset(question_id=q.question_id)
    seen = [env.step(SQLAction(action_type=verb, argument=text)) for verb, text in moves]
    env.close()
    told = seen[-1].metadata
    return Judged(told["correct"], sum(obs.reward or 0 for obs in seen), told.get("turns_correct"))


def trl(questions, q, moves) -> Judged:
    env = SQLEnvTRL(questions, actions=VERBS, reward="sparse")
    env.reset(question_id=q.question_id)
    for verb, argument in moves:
        getattr(env, verb.lower())(argument)
    return Judged(env.correct, env.get_reward())


def mcp(questions, q, moves) -> Judged:
    "The tools of a player; the verdict is what its last result says."
    players = Players(lambda: SQLEnvironment(questions, actions=VERBS))
    players.call(mcp, "start", dict(question_id=q.question_id))
    for move in moves:
        players.call(mcp, *tool(*move))
    it = players._players[mcp].session
    return Judged(it.verdict(robust=False).correct, it.reward)


def page(questions, q, moves) -> Judged:
    "A visitor of the server's page."
    env = SQLEnvironment(questions, actions=VERBS)
    env.reset(question_id=q.question_id)
    for move in moves:
        act(env, *move)
    return Judged("Right." in _page_html(env)[1])


def explorer(questions, q, moves) -> Judged:
    it = EpisodeExplorer(questions, question_id=q.question_id, actions=VERBS)
    for move in moves:
        it.play(*move)
    return Judged(it.human.episode.verdict.correct)


def skyrl(questions, q, moves) -> Judged:
    module = pytest.importorskip("sql_env.integrations.skyrl", reason="no skyrl-gym")
    env = module.SkyRLEnv(questions, extras=dict(question_id=q.question_id), actions=VERBS)
    env.init([])
    calls = (json.dumps(dict(zip(("name", "arguments"), tool(*move)))) for move in moves)
    paid = sum(env.step(f"<tool_call>{call}</tool_call>")["reward"] for call in calls)
    return Judged(bool(env.get_metrics()["correct"]), paid)


def inspect(questions, q, moves) -> Judged:
    "A task of Inspect AI with its mock model, which needs no network."
    inspect_ai = pytest.importorskip("inspect_ai", reason="no inspect_ai")
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from sql_env.integrations.inspect_ai import question_task

    said = [ModelOutput.for_tool_call("mock", *tool(*move)) for move in moves]
    for output in said:  # else they would be counted by a tokenizer out of the network
        output.usage = ModelUsage(input_tokens=9, output_tokens=9, total_tokens=18)
    task = question_task(questions.with_questions([q]), actions=VERBS, reward="sparse")
    model = get_model("mockllm/model", custom_outputs=said, memoize=False)
    [log] = inspect_ai.eval(task, model, display="none")
    assert log.status == "success", log.error
    scores = {name: score.value for name, score in log.samples[0].scores.items()}
    return Judged(scores["correct"] == 1, scores["reward"])


def verifiers(questions, q, moves) -> Judged:
    pytest.importorskip("verifiers", reason="verifiers can't be installed beside openenv")
    from verifiers.v1 import TaskData

    from sql_env.integrations.verifiers import PlayConfig, SQLState, SQLTask

    play = PlayConfig(actions=",".join(VERBS))
    it = begun(questions, q)
    for move in moves:
        it.call(*tool(*move))
    task = SQLTask(TaskData(id=q.question_id), play=play, questions=questions)
    verdict = task.verdict(SQLState(session=it.state(), done=it.done), robust=False)
    return Judged(verdict.correct, verdict.reward)


FACES = [session, resumed, server, trl, mcp, page, explorer]
FACES += [skyrl, inspect, verifiers]
KINDS = "question task conversation writing unanswerable".split()


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_episode_of_each_kind(kinds, kind):
    "What the others are compared with: right moves are paid, wrong ones are not."
    questions, q, right, wrong = kinds[kind]
    good, bad = (episode(questions, q, moves) for moves in (right, wrong))
    assert good.correct and good.reward == 1
    assert not bad.correct and bad.reward < 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_every_way_in_judges_and_pays_as_the_episode_does(kinds, face, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where Inspect keeps its logs
    questions, q, *both = kinds[kind]
    for moves in both:
        expected, found = episode(questions, q, moves), face(questions, q, moves)
        assert found.correct is expected.correct
        assert found.reward is None or found.reward == pytest.approx(expected.reward)
        assert found.each is None or tuple(found.each) == expected.each


def test_the_table_has_every_module_of_integrations(root):
    "A new one comes with a row; Harbor's tasks are graded by a script, which its own tests play."
    modules = {p.stem for p in (root / "sql_env" / "integrations").glob("[a-z]*.py")}
    names = {face.__name__ for face in FACES} | {"inspect_ai", "harbor"}
    assert modules <= names and importlib.util.find_spec("sql_env.integrations.harbor")
