"A session: what a model reads, what it may send, what a state keeps, and what an event loop notices of it."

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from laws import law
from made_sets import bundled
from tables import cases

from sql_env import ChatPolicy, EpisodeEnv, QuestionSet, RewardConfig, Session, evaluate
from sql_env.database.guards import EnvironmentFailedError
from sql_env.integrations.trl import SQLEnvTRL
from sql_env.play.acts import ACTIONS, ACTS, EXTRA_ACTIONS, SCHEMA_LEVELS, Action
from sql_env.play.chat import action_message, initial_messages, openai_tools, tool_schemas
from sql_env.play.session import (
    EPISODE_OVER,
    MAX_CALLS,
    MAX_MESSAGE_CHARS,
    TRUNCATED_MESSAGE,
    ToolError,
    _nudge_text,
    replay,
)
from sql_env.policies.baselines import play_episode
from sql_env.policies.requests import Completion

ID = "vet_clinic-02"
GOLD = "SELECT count(*) FROM visit WHERE paid_on IS NULL"


def begun(question_id=ID, max_nudges=3, seed=None, **kw):
    session = Session(EpisodeEnv(bundled(), **kw), max_nudges=max_nudges)
    session.begin(question_id, seed)
    return session


def call(name, arguments, **more):
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return dict(type="function", function=dict(name=name, arguments=written), **more)


def said(*calls, content=None):
    return dict(role="assistant", content=content, tool_calls=list(calls))


DESCRIBE = call("describe", {"table_name": "visit"})
QUERY, ANSWER = call("query", {"sql": GOLD}), call("answer", {"value": "@last"})


# ---- an episode
def test_a_conversation_from_begin_to_verdict():
    session = Session(EpisodeEnv(bundled()))
    first = session.begin(ID)
    assert [m["role"] for m in first] == ["system", "user"] and "Steps: 15" in first[1]["content"]
    assert session.call("query", {"sql": GOLD}) == "count(*)\n44" and not session.done
    assert session.reply(said(ANSWER))[0]["content"] == "The answer was submitted."
    assert session.done and session.observation.done and session.episode.done
    verdict = session.verdict()
    assert (verdict.correct, verdict.grounded, verdict.robust) == (True, True, True)
    assert (verdict.reward, verdict.reason, verdict.steps) == (1, "match", 2)
    assert session.verdict(robust=False).robust is None
    assert [m["role"] for m in session.messages] == "system user assistant tool assistant tool".split()


def test_questions_are_chosen_as_by_the_environment():
    session, env = Session(EpisodeEnv(bundled())), EpisodeEnv(bundled())
    for choice in (dict(seed=3), dict(split="test", index=2), dict(difficulty="hard", seed=1)):
        session.begin(**choice)
        env.reset(**choice)
        assert session.episode.question == env.episode.question
    with pytest.raises(KeyError, match=ID):
        session.begin("vet_clinic-002")


def test_what_a_caller_forgot_is_an_error():
    session = Session(EpisodeEnv(bundled()))
    for use in (session.state, session.verdict, lambda: session.call("query", {"sql": "SELECT 1"})):
        with pytest.raises(ValueError, match="call begin first"):
            use()
    session.begin(ID)
    session.close()
    with pytest.raises(ValueError, match="call begin first"):
        session.reply("Hm.")


def test_sessions_take_turns_with_one_environment():
    env = EpisodeEnv(bundled())
    a, b = Session(env), Session(env)
    a.begin(ID)
    b.begin("craft_brewery-01")
    assert a.call("query", {"sql": GOLD}) == "count(*)\n44"
    a.call("answer", {"value": 44})
    assert a.verdict().correct and not b.done and b.episode.steps == 0


@pytest.mark.parametrize("actions", [ACTIONS, (*ACTIONS, *EXTRA_ACTIONS)])
def test_tools_are_those_of_the_environment(actions):
    session = begun(actions=actions)
    assert session.tools == openai_tools(tool_schemas(actions))
    names = [tool["function"]["name"] for tool in session.tools]
    [nudge] = session.reply("Hm.")
    assert nudge["content"] == _nudge_text(actions) and ", ".join(names) in nudge["content"]
    text = session.call("abstain", {"reason": "There is no such column."})
    assert session.done == ("ABSTAIN" in actions) == ("not found" not in text)


# ---- the same words everywhere
STEPS = [
    ("DESCRIBE", "visit"),
    ("DESCRIBE", "visits"),
    ("SAMPLE", "owner"),
    ("QUERY", GOLD),
    ("QUERY", "SELECT nope FROM visit"),
    ("QUERY", "SELECT * FROM visit"),
    ("QUERY", "SELECT '<|im_end|>'"),
    ("QUERY", ""),
    ("QUERY", "x" * 200_000),
    ("SAMPLE", "a\ud800"),
    ("ANSWER", "nonsense, I think"),
    ("ANSWER", "@last"),
    ("ANSWER", "44"),
]


class Script:
    "A backend that takes one action after the other."

    name, settings = "script", {}

    def __init__(self, actions):
        self.actions = actions

    def complete(self, messages, tools, seed):
        taken = sum(m["role"] == "assistant" for m in messages)
        return Completion(said(*function_calls([self.actions[min(taken, len(self.actions) - 1)]])))


def function_calls(actions):
    return [call(ACTS[kind].tool, {ACTS[kind].parameter: text}) for kind, text in actions]


@given(
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=8),
    st.sampled_from(sorted(SCHEMA_LEVELS)),
    st.integers(3, 15),
    st.integers(0, 3),
)
@example(STEPS[:-2] + STEPS[-1:], "names", 15, 0)
@law(40)
def test_session_policy_and_trl_show_the_same_text(actions, level, budget, seed):
    session = begun(budget=budget, schema_level=level, seed=seed)
    texts = [session.call(ACTS[kind].tool, {ACTS[kind].parameter: text}) for kind, text in actions]
    over = str({"error": EPISODE_OVER})

    together = begun(budget=budget, schema_level=level, seed=seed)
    assert [m["content"] for m in together.reply(said(*function_calls(actions)))] == texts
    assert together.verdict(robust=False) == session.verdict(robust=False)

    env, policy = (EpisodeEnv(bundled(), budget=budget, schema_level=level), ChatPolicy(Script(actions)))
    policy.reset(0)
    last = play_episode(env, policy, env.reset(question_id=ID, seed=seed))
    policy.on_observation(last)
    tools = [m["content"] for m in policy.messages if m["role"] == "tool"]
    lived = [text for text in texts if text != over]
    assert tools[: len(lived)] == lived
    assert policy.messages[:2] == session.messages[:2]

    trl = SQLEnvTRL(bundled(), budget=budget, schema_level=level)
    shown = trl.reset(question_id=ID, seed=seed, prompt=[dict(content=session.observation.question)])
    assert session.messages[1]["content"].endswith(shown)
    read = []
    for kind, text in actions:
        try:
            read.append(getattr(trl, ACTS[kind].tool)(text))
        except ToolError as e:
            read.append(str({"error": str(e)}))
    assert read == texts
    trl_session = begun(budget=budget, schema_level=level, seed=seed, reward=RewardConfig.partial())
    for kind, text in actions:
        trl_session.call(ACTS[kind].tool, {ACTS[kind].parameter: text})
    assert trl.get_reward() == trl_session.verdict(robust=False).reward


def test_scores_are_those_of_evaluate():
    some = bundled().split("test").sample(8)
    by_text = {q.question_text: q for q in some}

    class Model:
        name, settings = "model", {}

        def complete(self, messages, tools, seed):
            q = by_text[messages[1]["content"].partition("\n\n")[0]]
            is_first = len(messages) == 2
            if q.difficulty == "hard":
                return Completion(said(call("answer", {"value": "7"})))
            return Completion(said(call("query", {"sql": q.gold_sql}) if is_first else ANSWER))

    model = Model()
    result = evaluate(some, ChatPolicy(model), progress=False)
    session = Session(EpisodeEnv(some))
    for e in result.episodes:
        session.begin(e.question_id)
        while not session.done:
            session.reply(model.complete(session.messages, session.tools, 0).message)
        v = session.verdict()
        assert (v.correct, v.robust, v.reason, v.steps) == (e.correct, e.robust, e.reason, e.steps)
        assert v.grounded == e.grounded and v.reward == e.total_reward


# ---- whatever a model sends

# a message, the roles of what answers it, and what was counted
MESSAGES = dict(cases("session_messages", list))


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name):
    message, roles, counts = MESSAGES[name]
    session = begun()
    answers = session.reply(message)
    assert [m["role"] for m in answers] == roles and session.messages[-len(answers) :] == answers
    found = session.conversation.counts
    assert {k: found[k] for k in counts} == counts and ("nudges" in counts or not found["nudges"])
    assert_well_formed(session)


def assert_well_formed(session):
    "Every call has its result by its id, and all of it can be sent."
    json.dumps(session.messages, ensure_ascii=False).encode()
    waiting = []
    for m in session.messages:
        if m["role"] == "tool":
            assert m["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting, "a call without a result"
        waiting = [c["id"] for c in m.get("tool_calls", ())]
        assert len(set(waiting)) == len(waiting)
        for c in m.get("tool_calls", ()):
            assert isinstance(json.loads(c["function"]["arguments"]), dict)
    assert not waiting


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=8), x, max_size=3),
    max_leaves=6,
)
ANY_CALL = st.one_of(
    st.sampled_from([DESCRIBE, QUERY, ANSWER, call("sample", {"table_name": "owner"})]),
    st.builds(
        lambda name, arguments, more: dict(function=dict(name=name, arguments=arguments)) | more,
        st.sampled_from(["query", "answer", "look", "", None, 3]),
        JSON | st.builds(lambda v: {"sql": v}, JSON) | st.builds(lambda v: {"value": v}, JSON),
        st.dictionaries(st.sampled_from(["id", "index", "extra"]), JSON, max_size=2),
    ),
    JSON,
)
ANY_MESSAGE = st.one_of(
    st.text(st.characters(), max_size=20),
    st.builds(
        lambda content, calls, more: dict(content=content, tool_calls=calls) | more,
        JSON,
        st.lists(ANY_CALL, max_size=4) | JSON,
        st.dictionaries(st.sampled_from(["reasoning", "role", "refusal"]), JSON, max_size=2),
    ),
)


@given(st.lists(ANY_MESSAGE, max_size=5))
@law(120)
def test_no_message_breaks_a_session(messages):
    session = begun()
    for message in messages:
        answers = session.reply(message)
        assert all(m["role"] in ("tool", "user") and isinstance(m["content"], str) for m in answers)
    assert_well_formed(session)
    json.dumps(session.state(), allow_nan=True)


@given(st.sampled_from(["query", "answer", "describe", "look", ""]), JSON)
@law(80)
def test_no_call_raises(name, arguments):
    session = begun()
    assert isinstance(session.call(name, arguments), str)
    with pytest.raises(ToolError):
        session.call_or_raise("query", {"sql": "SELECT nope"})


def test_what_is_no_json_is_no_call():
    circle: list = []
    circle.append(circle)
    session = begun()
    for arguments in ({(1, 2): 3}, {"sql": circle}, "[" * 100_000, {"sql": object()}):
        assert "error" in session.call("query", arguments)
    assert_well_formed(session)


def test_too_many_messages_without_a_call_end_it():
    session = begun(max_nudges=2)
    assert session.reply("Hm.", truncated=True)[0]["content"] == TRUNCATED_MESSAGE
    session.reply(said(call("look", {})))
    session.reply(said(DESCRIBE))
    assert not session.done and session.reply("No.") == [] and session.done
    assert session.conversation.given_up == "no usable tool call in 3 messages"
    assert session.call("query", {"sql": "SELECT 1"}) == str({"error": EPISODE_OVER})
    verdict = session.verdict()
    assert (verdict.correct, verdict.reason, verdict.steps) == (False, "no_answer", 1)
    start = session.env.reset(seed=1)
    session.conversation.start(initial_messages(start))
    assert not session.conversation.given_up and not session.conversation.counts


def test_ids_are_those_of_the_server():
    session = begun()
    [a, b] = session.reply(said(DESCRIBE | dict(id="c7"), QUERY | dict(id="c7")))
    assert a["tool_call_id"] == "c7" != b["tool_call_id"]
    late = session.reply(said(ANSWER | dict(id="c8"), QUERY | dict(id="c9")))
    assert [m["tool_call_id"] for m in late] == ["c8", "c9"]
    assert session.reply(said(QUERY | dict(id="c1")))[0]["tool_call_id"] == "c1"
    assert session.conversation.counts["late_calls"] == 2


def test_a_failure_of_the_environment_leaves_the_conversation_whole(monkeypatch):
    session = begun()

    def fail(*_):
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(session.episode, "step", fail)
        session.reply(said(DESCRIBE, QUERY))
    assert_well_formed(session)
    assert session.actions == [] and session.call("query", {"sql": GOLD}) == "count(*)\n44"
    with pytest.raises(EnvironmentFailedError):
        session.verdict()


# ---- states
@given(st.lists(ANY_MESSAGE, max_size=6), st.integers(0, 6), st.integers(0, 9))
@example([said(DESCRIBE), said(call("sample", {"table_name": "owner"})), said(QUERY), said(ANSWER)], 2, 3)
@example(["Hm.", said(call("look", {})), "No.", "Never."], 3, 0)
@law(60)
def test_a_state_goes_on_as_the_session_would(messages, cut, seed):
    "Cut anywhere and resumed elsewhere: the same answers, verdict and reward."
    env = dict(reward=RewardConfig.shaped(), budget=6)
    session = begun(seed=seed, **env)
    for message in messages[:cut]:
        session.reply(message)
    text = json.dumps(session.state())
    other = Session.resume(EpisodeEnv(bundled(), **env), json.loads(text))
    assert other.state() == json.loads(text)
    assert (other.observation, other.done) == (session.observation, session.done)
    for message in [*messages[cut:], said(QUERY, ANSWER)]:
        assert session.reply(message) == other.reply(message)
    assert other.observation == session.observation and other.rewards == session.rewards
    assert other.verdict(robust=False) == session.verdict(robust=False)
    assert other.state() == session.state()


def test_a_state_survives_a_process(tmp_path):
    session = begun(seed=4, budget=7)
    session.reply(said(call("sample", {"table_name": "owner"}), QUERY))
    (tmp_path / "state.json").write_text(json.dumps(session.state()))
    code = (
        "import json, sys; from sql_env import EpisodeEnv, Session, load\n"
        "state = json.load(open(sys.argv[1]))\n"
        "s = Session.resume(EpisodeEnv(load('bundled'), budget=7), state)\n"
        "s.call('answer', dict(value='@last')); print(json.dumps([s.verdict(), s.messages]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "state.json")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    session.call("answer", dict(value="@last"))
    verdict, messages = json.loads(out)
    assert tuple(verdict) == session.verdict() and messages == session.messages


def test_a_state_has_bounds():
    "A model that writes as much as it can."
    session = begun()
    for size in (10, MAX_MESSAGE_CHARS, 2 * MAX_MESSAGE_CHARS):
        long = "x" * size
        for _ in range(5):
            bad = call("look", {"y": long}, id=long, extra=long)
            session.reply(said(*[bad] * 999, call("query", {"sql": long}), content=long) | dict(reasoning=long))
            session.reply(said(call("query", {"sql": long}), *[bad] * 99) | dict(thoughts=[long]))
    assert session.done
    per_message = 4 * MAX_MESSAGE_CHARS + 600 * MAX_CALLS
    assert len(json.dumps(session.state())) < 20 * per_message
    size = len(json.dumps(session.state()))
    for _ in range(50):
        session.reply(said(QUERY, content="y" * 1000))
    assert len(json.dumps(session.state())) <= size + 9, "what comes late is counted, not kept"


def test_no_gold_in_a_state():
    for q in bundled().sample(40, 2):
        session = begun(q.question_id, schema_level="full", reward=RewardConfig.shaped())
        session.call("describe", {"table_name": q.tables_involved[0]})
        session.call("answer", {"value": "wrong"})
        text = json.dumps(session.state())
        assert q.gold_sql not in text and json.dumps(q.gold_answer, default=str) not in text


def test_a_state_does_not_say_who_was_right():
    "States after a right and after a wrong answer differ in the answer alone."
    states = [begun(reward=RewardConfig.shaped()) for _ in range(2)]
    for session, value in zip(states, ("44", "45")):
        session.call("answer", {"value": value})
    right, wrong = (json.dumps(session.state()) for session in states)
    assert states[0].verdict().correct and right.replace("44", "45") == wrong.replace("44", "45")


def changed(question_id=ID, text="", database=None):
    "The bundled questions with one that was changed, or with other databases."
    found = [replace(q, question_text=text) if text and q.question_id == question_id else q for q in bundled()]
    databases = bundled().databases | ({"vet_clinic": database} if database else {})
    return QuestionSet(found, databases, "bundled")


def test_a_state_of_other_data_is_refused(tmp_path):
    state = begun().state()
    copy = shutil.copy(bundled().databases["vet_clinic"], tmp_path / "copy.sqlite")
    assert Session.resume(EpisodeEnv(changed(database=copy)), state), "content counts, not the path"
    with sqlite3.connect(copy) as con:
        con.execute("UPDATE visit SET paid_on = NULL")
    con.close()
    refused = {
        "the database of vet_clinic-02 has changed": dict(questions=changed(database=copy)),
        "the question of vet_clinic-02 has changed": dict(questions=changed(text="How many?")),
        "has no question 'vet_clinic-02'": dict(questions=bundled().split("test").filter(difficulty="hard")[:3]),
        "budget=15, not 9": dict(questions=bundled(), budget=9),
        "schema_level='names', not 'full'": dict(questions=bundled(), schema_level="full"),
        "reward=.*, not": dict(questions=bundled(), reward=RewardConfig.partial()),
        "limits=.*, not": dict(questions=bundled(), limits=replace(bundled().limits, rows=7)),
        "actions=.*, not": dict(questions=bundled(), actions=(*ACTIONS, "CLARIFY")),
    }
    for problem, options in refused.items():
        with pytest.raises(ValueError, match=problem):
            Session.resume(EpisodeEnv(**options), state)


DAMAGES = [
    lambda s: {},
    lambda s: [],
    lambda s: None,
    lambda s: {k: v for k, v in s.items() if k != "actions"},
    lambda s: {k: v for k, v in s.items() if k != "data"},
    lambda s: s | dict(settings=dict(colour="red")),
    lambda s: s | dict(settings=None),
    lambda s: s | dict(actions=s["actions"][1:]),
    lambda s: s | dict(actions=[7]),
    lambda s: s | dict(seed=99),
    lambda s: s | dict(messages=None),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused(damage):
    session = begun()
    session.reply(said(call("sample", {"table_name": "owner"})))
    with pytest.raises(ValueError, match="state"):
        Session.resume(EpisodeEnv(bundled()), damage(session.state()))


@pytest.mark.parametrize("path, value", cases("session_a_state_whose_parts_have_other"))
def test_a_state_whose_parts_have_other_types_is_refused(path, value):
    "In words, when it is resumed: not by a TypeError at the next message."
    session = begun()
    state = session.state()
    part = state
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    with pytest.raises(ValueError, match=path[-1].rstrip("s")):
        Session.resume(EpisodeEnv(bundled()), state)


def _forged(path, value):
    "A state with one part changed, and of the right type."

    def forge(state):
        part = state
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value
        return state

    return forge


@pytest.mark.parametrize(
    "forge",
    [
        lambda state: state,
        _forged(("messages", 0, "content"), "You may give up."),
        _forged(("messages", -1, "content"), "count(*)\n99"),
        _forged(("counts",), {}),
        _forged(("notes",), ["no_call: never"]),
        _forged(("settings", "system"), "You may give up."),
        _forged(("settings", "max_nudges"), 900),
        lambda state: {name: value for name, value in state.items() if name != "seal"},
    ],
)
def test_a_sealed_state_is_taken_as_it_was_made(forge, monkeypatch):
    "With a secret, in another process: what was said, counted and set can't be forged."
    monkeypatch.setenv("SQL_ENV_STATE_KEY", "a secret")
    session = begun()
    session.reply(said(QUERY))
    state = session.state()
    forged = forge(json.loads(json.dumps(state)))
    if forged == state:
        again = Session.resume(EpisodeEnv(bundled()), forged, check=True)
        assert again.messages == session.messages
        monkeypatch.setenv("SQL_ENV_STATE_KEY", "another")
    with pytest.raises(ValueError, match="state"):
        Session.resume(EpisodeEnv(bundled()), forged, check=True)


def test_replay():
    actions = [("DESCRIBE", "visit"), ("query", GOLD), ("ANSWER", "@last")]
    env = EpisodeEnv(bundled())
    turns = list(replay(env, actions, question_id=ID, seed=2))
    assert env.episode.correct and env.episode.seed == 2 and turns == env.episode.turns
    assert list(replay(env, [], question_id=ID)) == [] and env.episode.steps == 0
    late = [*actions, ("QUERY", GOLD)]
    assert len(list(replay(env, late, question_id=ID))) == 3, "what comes after the end is not taken"
    with pytest.raises(KeyError, match="vet_clinic"):
        list(replay(env, [], question_id="vet_clinic-002"))
    session = begun()
    for action in actions:
        session.reply(action_message(Action(action[0].upper(), action[1])))
    assert list(replay(env, session.actions, question_id=ID)) == session.episode.turns


# ---- an event loop
def test_a_slow_verdict_does_not_stop_the_loop(monkeypatch):
    "The verdict waits for a coroutine that ticks meanwhile; if it held the loop, both would wait for ever."
    import sql_env.play.judges as episodes

    ticked, real = threading.Event(), episodes.verify_robust

    def slow(*args, **options):
        assert ticked.wait(30), "the loop stood still"
        return real(*args, **options)

    monkeypatch.setattr(episodes, "verify_robust", slow)

    async def main():
        session = begun()
        assert await asyncio.to_thread(session.call, "query", {"sql": GOLD}) == "count(*)\n44"
        [submitted] = await asyncio.to_thread(session.reply, said(ANSWER))
        verdict = asyncio.ensure_future(asyncio.to_thread(session.verdict))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not verdict.done() and submitted["content"] == "The answer was submitted."
        ticked.set()
        return await verdict

    assert asyncio.run(main()).robust is True


def test_who_is_cancelled_leaves_the_session_whole(monkeypatch):
    "A call is cancelled while its query runs; it has been taken all the same, and the next one waits for it."
    begins, may_end = threading.Event(), threading.Event()

    async def main():
        session = begun()
        real = session.episode.step

        def slow(*action):
            begins.set()
            assert may_end.wait(30)
            return real(*action)

        monkeypatch.setattr(session.episode, "step", slow)
        lost = asyncio.ensure_future(asyncio.to_thread(session.call, "query", {"sql": GOLD}))
        while not begins.is_set():
            await asyncio.sleep(0.001)
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
        following = asyncio.ensure_future(asyncio.to_thread(session.call, "answer", {"value": "@last"}))
        await asyncio.sleep(0)
        may_end.set()
        assert await following == "The answer was submitted."
        return session

    session = asyncio.run(main())
    assert [a.action_type for a in session.actions] == ["QUERY", "ANSWER"]
    assert_well_formed(session)
    assert session.verdict().correct and Session.resume(EpisodeEnv(bundled()), session.state()).done


def test_calls_at_once_are_taken_one_by_one():
    session = begun(budget=15)
    barrier = threading.Barrier(5)

    def play():
        barrier.wait(30)
        for _ in range(3):
            session.reply(said(QUERY, DESCRIBE))

    threads = [threading.Thread(target=play) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.episode.steps == len(session.actions) == 15
    assert session.conversation.counts["late_calls"] == 15
    assert_well_formed(session)
