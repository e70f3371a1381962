"A session: what a model reads, what it may send, what a state keeps, and what an event loop notices of it."

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from laws import law
from made_sets import bundled
from tables import cases

from sql_env import ChatPolicy, EpisodeEnv, RewardConfig, Session, evaluate
from sql_env.database.guards import EnvironmentFailedError
from sql_env.integrations.trl import SQLEnvTRL
from sql_env.play import judges
from sql_env.play.acts import ACTIONS, ACTS, EXTRA_ACTIONS, SCHEMA_LEVELS, Action
from sql_env.play.chat import action_message, initial_messages, openai_tools, tool_schemas
from sql_env.play.session import EPISODE_OVER, MAX_CALLS, MAX_MESSAGE_CHARS, TRUNCATED_MESSAGE, ToolError, replay
from sql_env.play.session import _nudge_text as nudge_text
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
READS = "SELECT nope FROM visit", "SELECT * FROM visit", "SELECT '<|im_end|>'", "", "x" * 200_000
LOOKS = [("DESCRIBE", "visit"), ("DESCRIBE", "visits"), ("SAMPLE", "owner"), ("SAMPLE", "a\ud800")]
ANSWERS = [("ANSWER", "nonsense, I think"), ("ANSWER", "@last"), ("ANSWER", "44")]
STEPS = [*LOOKS, ("QUERY", GOLD), *(("QUERY", sql) for sql in READS), *ANSWERS]
PLAYS = st.lists(st.sampled_from(STEPS), min_size=1, max_size=8), st.sampled_from(sorted(SCHEMA_LEVELS))


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


def test_questions_are_chosen_as_by_the_environment_and_what_a_caller_forgot_is_an_error():
    session, env = Session(EpisodeEnv(bundled())), EpisodeEnv(bundled())
    for use in (session.state, session.verdict, lambda: session.call("query", {"sql": "SELECT 1"})):
        with pytest.raises(ValueError, match="call begin first"):
            use()
    for choice in (dict(seed=3), dict(split="test", index=2), dict(difficulty="hard", seed=1)):
        session.begin(**choice)
        env.reset(**choice)
        assert session.episode.question == env.episode.question
    with pytest.raises(KeyError, match=ID):
        session.begin("vet_clinic-002")
    one, other = session, Session(session.env)  # they take turns with one environment
    one.begin(ID)
    other.begin("craft_brewery-01")
    assert one.call("query", {"sql": GOLD}) == "count(*)\n44"
    one.call("answer", {"value": 44})
    assert one.verdict().correct and not other.done and other.episode.steps == 0
    session.close()
    with pytest.raises(ValueError, match="call begin first"):
        session.reply("Hm.")


@pytest.mark.parametrize("actions", [ACTIONS, (*ACTIONS, *EXTRA_ACTIONS)])
def test_tools_are_those_of_the_environment(actions):
    session = begun(actions=actions)
    assert session.tools == openai_tools(tool_schemas(actions))
    names = [tool["function"]["name"] for tool in session.tools]
    [nudge] = session.reply("Hm.")
    assert nudge["content"] == nudge_text(actions) and ", ".join(names) in nudge["content"]
    text = session.call("abstain", {"reason": "There is no such column."})
    assert session.done == ("ABSTAIN" in actions) == ("not found" not in text)


# ---- the same words everywhere
@given(*PLAYS, st.integers(3, 15), st.integers(0, 3))
@example(STEPS[:-2] + STEPS[-1:], "names", 15, 0)
@law(40)
def test_session_policy_and_trl_show_the_same_text(actions, level, budget, seed):
    rules = dict(budget=budget, schema_level=level)
    session, together = (begun(**rules, seed=seed) for _ in range(2))
    calls = [(ACTS[kind].tool, {ACTS[kind].parameter: text}) for kind, text in actions]

    class Script:
        "A backend that takes one action after the other."

        name, settings = "script", {}

        def complete(self, messages, tools, seed):
            taken = sum(m["role"] == "assistant" for m in messages)
            return Completion(said(call(*calls[min(taken, len(calls) - 1)])))

    texts, over = [session.call(*c) for c in calls], str({"error": EPISODE_OVER})
    assert [m["content"] for m in together.reply(said(*(call(*c) for c in calls)))] == texts
    assert together.verdict(robust=False) == session.verdict(robust=False)

    env, policy = EpisodeEnv(bundled(), **rules), ChatPolicy(Script())
    policy.reset(0)
    policy.on_observation(play_episode(env, policy, env.reset(question_id=ID, seed=seed)))
    tools = [m["content"] for m in policy.messages if m["role"] == "tool"]
    lived = [text for text in texts if text != over]
    assert tools[: len(lived)] == lived
    assert policy.messages[:2] == session.messages[:2]

    trl, read = SQLEnvTRL(bundled(), **rules), []
    shown = trl.reset(question_id=ID, seed=seed, prompt=[dict(content=session.observation.question)])
    assert session.messages[1]["content"].endswith(shown)
    for kind, text in actions:
        try:
            read.append(getattr(trl, ACTS[kind].tool)(text))
        except ToolError as e:
            read.append(str({"error": str(e)}))
    assert read == texts
    trl_session = begun(**rules, seed=seed, reward=RewardConfig.partial())
    for c in calls:
        trl_session.call(*c)
    assert trl.get_reward() == trl_session.verdict(robust=False).reward


def test_scores_are_those_of_evaluate():
    some = bundled().split("test").sample(8)
    by_text = {q.question_text: q for q in some}

    class Model:
        name, settings = "model", {}

        def complete(self, messages, tools, seed):
            q = by_text[messages[1]["content"].partition("\n\n")[0]]
            if q.difficulty == "hard":
                return Completion(said(call("answer", {"value": "7"})))
            return Completion(said(call("query", {"sql": q.gold_sql}) if len(messages) == 2 else ANSWER))

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


# a message, the roles of what answers it, and what was counted
@pytest.mark.parametrize("name, sent", cases("session_messages", list))
def test_messages(name, sent):
    message, roles, counts = sent
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
TOOLS = st.sampled_from(["query", "answer", "look", "", None, 3])
ARGUMENTS = JSON | st.fixed_dictionaries({"sql": JSON}) | st.fixed_dictionaries({"value": JSON})
FUNCTION = st.fixed_dictionaries(dict(function=st.fixed_dictionaries(dict(name=TOOLS, arguments=ARGUMENTS))))
MORE = st.dictionaries(st.sampled_from(["id", "index", "extra"]), JSON, max_size=2)
GOOD_CALL = st.sampled_from([DESCRIBE, QUERY, ANSWER, call("sample", {"table_name": "owner"})])
ANY_CALL = GOOD_CALL | st.builds(dict.__or__, FUNCTION, MORE) | JSON
CONTENT = st.fixed_dictionaries(dict(content=JSON, tool_calls=st.lists(ANY_CALL, max_size=4) | JSON))
OTHER = st.dictionaries(st.sampled_from(["reasoning", "role", "refusal"]), JSON, max_size=2)
ANY_MESSAGE = st.text(st.characters(), max_size=20) | st.builds(dict.__or__, CONTENT, OTHER)


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


def test_ids_are_those_of_the_server_and_what_is_no_json_is_no_call():
    circle: list = []
    circle.append(circle)
    session = begun()
    [a, b] = session.reply(said(DESCRIBE | dict(id="c7"), QUERY | dict(id="c7")))
    assert a["tool_call_id"] == "c7" != b["tool_call_id"]
    late = session.reply(said(ANSWER | dict(id="c8"), QUERY | dict(id="c9")))
    assert [m["tool_call_id"] for m in late] == ["c8", "c9"]
    assert session.reply(said(QUERY | dict(id="c1")))[0]["tool_call_id"] == "c1"
    assert session.conversation.counts["late_calls"] == 2
    session = begun()
    for arguments in ({(1, 2): 3}, {"sql": circle}, "[" * 100_000, {"sql": object()}):
        assert "error" in session.call("query", arguments)
    assert_well_formed(session)


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
    code = """import json, sys; from sql_env import EpisodeEnv, Session, load
s = Session.resume(EpisodeEnv(load("bundled"), budget=7), json.load(open(sys.argv[1])))
s.call("answer", dict(value="@last")); print(json.dumps([s.verdict(), s.messages]))"""
    command = [sys.executable, "-c", code, str(tmp_path / "state.json")]
    verdict, messages = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    session.call("answer", dict(value="@last"))
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
    per_message, size = 4 * MAX_MESSAGE_CHARS + 600 * MAX_CALLS, len(json.dumps(session.state()))
    assert size < 20 * per_message
    for _ in range(50):
        session.reply(said(QUERY, content="y" * 1000))
    assert len(json.dumps(session.state())) <= size + 9, "what comes late is counted, not kept"


def test_a_state_holds_no_gold_and_does_not_say_who_was_right():
    "States after a right and after a wrong answer differ in the answer alone."
    for q in bundled().sample(40, 2):
        session = begun(q.question_id, schema_level="full", reward=RewardConfig.shaped())
        session.call("describe", {"table_name": q.tables_involved[0]})
        session.call("answer", {"value": "wrong"})
        text = json.dumps(session.state())
        assert q.gold_sql not in text and json.dumps(q.gold_answer, default=str) not in text
    states = [begun(reward=RewardConfig.shaped()) for _ in range(2)]
    for session, value in zip(states, ("44", "45")):
        session.call("answer", {"value": value})
    right, wrong = (json.dumps(session.state()) for session in states)
    assert states[0].verdict().correct and right.replace("44", "45") == wrong.replace("44", "45")


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


# ---- threads
def test_a_slow_verdict_stops_nobody(monkeypatch):
    "The verdict waits for a session that goes on meanwhile; if it held what that needs, both would wait for ever."
    ticked, real = threading.Event(), judges.verify_robust

    def slow(*args, **options):
        assert ticked.wait(30), "the others stood still"
        return real(*args, **options)

    monkeypatch.setattr(judges, "verify_robust", slow)
    session, other = begun(), begun()
    assert session.reply(said(QUERY, ANSWER))[1]["content"] == "The answer was submitted."
    with ThreadPoolExecutor(1) as pool:
        verdict = pool.submit(session.verdict)
        assert other.call("query", {"sql": GOLD}) == "count(*)\n44" and not verdict.done()
        ticked.set()
        assert verdict.result().robust is True


def test_a_call_that_nobody_waits_for_is_taken_and_the_next_one_comes_after_it(monkeypatch):
    begins, may_end, session = threading.Event(), threading.Event(), begun()
    real = session.episode.step

    def slow(*action):
        begins.set()
        assert may_end.wait(30)
        return real(*action)

    monkeypatch.setattr(session.episode, "step", slow)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(session.call, "query", {"sql": GOLD})
        assert begins.wait(30)
        following = pool.submit(session.call, "answer", {"value": "@last"})
        may_end.set()
        assert following.result() == "The answer was submitted."
    assert [a.action_type for a in session.actions] == ["QUERY", "ANSWER"]
    assert_well_formed(session)
    assert session.verdict().correct and Session.resume(EpisodeEnv(bundled()), session.state()).done


def test_calls_at_once_are_taken_one_by_one():
    session = begun()
    barrier = threading.Barrier(5)

    def play():
        barrier.wait(30)
        for _ in range(3):
            session.reply(said(QUERY, DESCRIBE))

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda _: play(), range(5)))
    assert session.episode.steps == len(session.actions) == 15
    assert session.conversation.counts["late_calls"] == 15
    assert_well_formed(session)
