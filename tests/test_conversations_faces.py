"A conversation where people, programs and trainers meet it: each shows the next question and the same verdicts."

import json
from itertools import islice

import pytest
from databases import forgetful
from fake_server import FakeServer, completion
from serving import act
from test_cli import sql_env  # noqa: F401

from sql_env import worlds as generated
from sql_env.client import RemoteEpisode
from sql_env.evaluation import evaluate, read_log
from sql_env.evaluation.results import summary
from sql_env.evaluation.rows import Trajectory
from sql_env.integrations.trl import SQLEnvTRL
from sql_env.models import SQLAction
from sql_env.play import Action, EpisodeEnv, RewardConfig, Session
from sql_env.play.acts import ACTS
from sql_env.play.chat import episode_messages
from sql_env.policies import ChatPolicy, OraclePolicy, play_episode
from sql_env.questions.question_set import QuestionSet
from sql_env.server.environment import SQLEnvironment
from sql_env.server.page import _page_html
from sql_env.training.experts import ExpertPolicy
from sql_env.view.episode import view_episode, view_trajectory
from sql_env.view.explorer import EpisodeExplorer
from sql_env.view.page import _run_data, episode_html, player_html, read_runs
from sql_env.worlds import ConversationWorld


@pytest.fixture(scope="module")
def worlds():
    return list(islice(generated.worlds(1, 5, kind=ConversationWorld), 3))


@pytest.fixture(scope="module")
def questions(worlds, tmp_path_factory):
    folder = tmp_path_factory.mktemp("worlds")
    return QuestionSet([q for w in worlds for q in w.questions], {w.name: w.save(folder) for w in worlds})


@pytest.fixture(scope="module")
def talk(questions):
    return next(q for q in questions if len(q.conversation) == 4)


def moves(talk):
    "The actions that answer every question rightly."
    return [m for q in talk.conversation for m in (("QUERY", q.gold_sql), ("ANSWER", "@last"))]


def texts(talk):
    return [q.question_text for q in talk.conversation]


def begun(questions, talk, **settings):
    session = Session(EpisodeEnv(questions, **settings))
    session.begin(talk.question_id)
    return session


def call(session, kind, argument):
    return session.call(ACTS[kind].tool, {ACTS[kind].parameter: argument})


def test_a_session_shows_the_next_question_and_goes_on_after_a_pause(questions, talk):
    session = begun(questions, talk)
    for i, move in enumerate(moves(talk)):
        said, asked = call(session, *move), texts(talk)[i // 2 + 1 :]
        if move[0] == "ANSWER" and asked:
            assert said == f"The answer was submitted. You have 15 steps again. The next question: {asked[0]}"
            state = json.loads(json.dumps(session.state()))
            session = Session.resume(EpisodeEnv(questions), state)
            assert session.observation.question == asked[0]
    verdict = session.verdict()
    assert session.done and verdict.correct and verdict.robust and verdict.grounded
    assert verdict.turns_correct == (True,) * 4 and verdict.question_match == 1
    over = begun(questions, talk).verdict()
    assert over.turns_correct == (False,) * 4, "those that were not reached are wrong"


def test_a_long_question_is_not_cut_in_a_tool_result(questions, talk):
    long = talk.follow_ups[0].with_fields(question_text="And of those? " + "Only the paid ones. " * 200)
    longer = talk.with_fields(follow_ups=(long, *talk.follow_ups[1:]))
    session = Session(EpisodeEnv(questions.with_questions([longer])), max_chars=300)
    session.begin()
    assert session.call("answer", {"value": "1"}).endswith(long.question_text)


def test_messages_of_a_finished_episode_are_those_of_the_session(questions, talk):
    session = begun(questions, talk, budget=4)
    first = session.observation
    for move in [("SAMPLE", talk.tables_involved[0]), *moves(talk)]:
        call(session, *move)
    told = [m["content"] for m in session.messages if m["role"] == "tool"]
    again = episode_messages(first, session.episode.turns)
    assert [m["content"] for m in again if m["role"] == "tool"] == told
    assert sum("steps left" in text for text in told) > 1


def test_trl_pays_what_the_episode_pays(questions, talk):
    env = SQLEnvTRL(questions, reward=RewardConfig.partial())
    env.reset(question_id=talk.question_id)
    for kind, argument in moves(talk):
        getattr(env, kind.lower())(argument)
    assert env.correct and 0.9 < env.get_reward() <= 1


@pytest.mark.parametrize("reveal", ["verdict", "none"])
def test_a_server_and_its_client(questions, talk, reveal):
    env = SQLEnvironment(questions, reveal=reveal)
    obs = env.reset(question_id=talk.question_id)
    episode = RemoteEpisode(talk)
    for i, (kind, argument) in enumerate(moves(talk)):
        obs = env.step(SQLAction(action_type=kind, argument="1" if i == 3 else argument))
        if kind == "ANSWER" and not obs.done:
            assert obs.question == texts(talk)[i // 2 + 1] and "correct" not in obs.metadata
        if reveal == "verdict":
            episode.add(Action(kind, argument), obs)
    assert obs.done and env.state.done and ("correct" in obs.metadata) == (reveal == "verdict")
    if reveal == "verdict":
        result = Trajectory.from_episode(episode)
        assert not result.correct and result.turns_correct == (True, False, True, True)
    else:
        assert "turns_correct" not in obs.metadata


def test_inspect_has_a_verdict_for_each_question(questions, talk):
    inspect_ai = pytest.importorskip("sql_env.integrations.inspect_ai", reason="no inspect_ai")
    assert len(json.loads(inspect_ai._question_sample(talk).target)) == 4
    plain = inspect_ai._question_sample(talk.conversation[0])
    assert json.loads(plain.target) == [list(row) for row in talk.gold_answer]


def test_a_language_model_reads_the_next_question(questions, talk):
    golds, steps = {q.question_text: q.gold_sql for q in talk.conversation}, []

    def plays(body):
        steps.append(1)
        if len(steps) % 2 == 0:
            return completion([("answer", dict(value="@last"))])
        said = str(body["messages"][-1]["content"])
        return completion([("query", dict(sql=next(gold for text, gold in golds.items() if text in said)))])

    with FakeServer(plays) as server:
        policy = ChatPolicy("m", server.url)
        result = evaluate(EpisodeEnv(questions.with_questions([talk])), policy, progress=False, robust=False)
    assert result.success_rate == 1 and result.episodes[0].turns_correct == (True,) * 4


@pytest.fixture(scope="module")
def log(questions, worlds, tmp_path_factory):
    bare = {key: turn.bare for w in worlds for key, turn in w.turns.items()}
    path = tmp_path_factory.mktemp("logs") / "forgets.jsonl"
    evaluate(EpisodeEnv(questions), forgetful(questions, bare), log=path, progress=False)
    return path


@pytest.mark.parametrize("known", [True, False])
def test_pages_show_each_question_with_its_verdict(questions, log, known):
    about, found = read_log(log)
    for trajectory in found[:3]:
        view = view_trajectory(trajectory, questions if known else None, about)
        asked = texts(questions.get(trajectory.question_id))
        assert [text for text, _ in view.outcome.turns] == asked
        assert [bool(o.verdict) for _, o in view.outcome.turns] == [True] + [False] * (len(asked) - 1)
        for html in (player_html(view), episode_html(view).data):
            assert html.count("Right.") == 1 and html.count("Wrong.") == len(asked)


def test_gold_is_on_no_page_before_the_end(questions):
    talk = next(q for q in questions if len({each.gold_sql for each in q.conversation}) == 4)
    env = EpisodeEnv(questions)
    env.reset(question_id=talk.question_id)
    for kind, argument in moves(talk)[:-2]:
        env.step(kind, argument)
    view = view_episode(env.episode)
    assert view.outcome is None and view.question == texts(talk)[-1]
    assert talk.follow_ups[-1].gold_sql not in player_html(view)


def test_a_run_page_has_the_figures(log):
    [run] = read_runs([log])
    card = str(_run_data(run, run))
    assert "question match" in card and "interaction match 0.0%" in card


def test_a_visitor_of_the_page_and_a_player_in_the_explorer(questions, talk):
    env = SQLEnvironment(questions, reveal="gold")
    env.reset(question_id=talk.question_id)
    ex = EpisodeExplorer(questions, question_id=talk.question_id)
    for i, (kind, argument) in enumerate(moves(talk)):
        obs = act(env, kind, argument)
        ex.play(kind, argument)
        shown = "".join(_page_html(env))
        assert ("Right." in shown) == (i == 7)
        if kind == "ANSWER" and i < 7:
            asked = texts(talk)[i // 2 + 1]
            assert obs.question == asked and asked in shown.replace("&#39;", "'")
    assert "Right." in ex.human.player.box.value


def test_demo_and_evaluate(sql_env):  # noqa: F811
    run = sql_env("demo", "--source", "conversations")
    assert run.code == 0 and run.out.count("Right.") == run.out.count("gold query") + 1 > 2
    asked = ("evaluate", "--source", "conversations", "-n", 8, "--policy", "oracle", "--no-floor")
    run = sql_env(*asked)
    assert run.code == 0 and "interaction match 100.0%" in " ".join(run.out.split())
    [numbers] = json.loads(sql_env(*asked, "--json").out)
    assert (numbers["question_match"], numbers["interaction_match"]) == (1, 1)


def test_the_oracle_tells_follow_ups_of_the_same_words_apart(questions):
    same = [tuple(f.with_fields(question_text="Go on.") for f in q.follow_ups) for q in questions]
    go_on = [q.with_fields(follow_ups=later) for q, later in zip(questions, same)]
    env, policy = EpisodeEnv(questions.with_questions(go_on)), OraclePolicy(go_on)
    for q in go_on:
        play_episode(env, policy, env.reset(question_id=q.question_id))
        assert env.episode.correct
    result = evaluate(EpisodeEnv(questions), ExpertPolicy(questions), progress=False, robust=False)
    assert result.success_rate == 1 and summary(result)["question_match"] == 1, "experts answer every question"
