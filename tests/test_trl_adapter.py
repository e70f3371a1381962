"The TRL adapter: its contract by hand, and against TRL itself where that is installed."

import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from types import ModuleType, SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from laws import json_values, law
from made_sets import bundled

from sql_env import EpisodeEnv, RewardConfig
from sql_env.integrations import trl as adapter
from sql_env.integrations.trl import SQLEnvTRL, SQLEnvTRLRemote, prompt_rows, sql_env_reward_func
from sql_env.play import chat
from sql_env.play.acts import ACTS
from sql_env.play.chat import argument_text, question_messages, tool_schemas
from sql_env.play.episode import Episode, Observation

ID = "vet_clinic-02"
GOLD = "SELECT COUNT(*) FROM visit WHERE paid_on IS NULL"
BOTH = f"{GOLD} UNION SELECT count(*) FROM visit"
WRONG = [("query", BOTH), ("answer", "847")]  # out of a result that holds gold
KINDS = {act.tool: verb for verb, act in ACTS.items()}
ASKED = "How many of our visits, from whatever year, are still waiting to be paid?"
ROW = {"question_id": ID, "prompt": question_messages(ASKED)}


def started(**kw):
    env = SQLEnvTRL(bundled(), **kw)
    env.reset(**ROW)
    return env


def played(actions, ends_at=None, **settings):
    "The plain episode after these actions, and what they showed; its budget ends at a step."
    q = bundled().get(ID)
    episode = Episode(q, bundled().database(q.database_name), **settings)
    episode.reset()
    episode.budget = ends_at or episode.budget
    return episode, [episode.step(*a) for a in actions]


def play_tools(env, calls):
    "Call tools as TRL does: what the model reads after each."
    out = []
    for name, value in calls:
        try:
            out.append(getattr(env, name)(value))
        except Exception as e:
            out.append(str({"error": str(e)}))
    return out


CALLS = [("describe", "visit"), ("query", "SELECT naem FROM visit"), *[("sample", "owner")] * 2]
CALLS += [("query", GOLD), ("answer", "44")]


CONFIGS = [RewardConfig.sparse(), RewardConfig.shaped(), RewardConfig.shaped(0.9), RewardConfig.partial()]
PLAYS = dict(right=CALLS, wrong=[*CALLS[:2], ("answer", "43")], empty=[("answer", "[]")], budget=[CALLS[0]] * 15)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("calls", PLAYS.values(), ids=PLAYS)
def test_rewards_are_those_of_the_plain_episode(config, calls):
    env = started(reward=config)
    play_tools(env, calls)
    episode, plain = played([(KINDS[n], v) for n, v in calls], reward=config)
    assert env.session.done and env.session.rewards == [o.reward for o in plain]
    assert env.get_reward() == pytest.approx(episode.total_reward)
    assert env.correct == bool(episode.verdict)


def test_the_default_reward_is_partial_and_robust_grading_pays_no_lucky_answer():
    env = started()
    assert env.episode.config == RewardConfig.partial()
    play_tools(env, WRONG)
    assert 0 < env.get_reward() <= RewardConfig.partial().credit
    for query, answer in (("SELECT 1", "9"), (GOLD, "9")):
        env = started()
        play_tools(env, [("query", query), ("describe", "visit"), ("answer", answer)])
        assert env.get_reward() == 0
    env = SQLEnvTRL(bundled(), verify="robust")
    paid = []
    for sql in (GOLD, "SELECT 44"):
        env.reset(**ROW)
        play_tools(env, [("query", sql), ("answer", "@last")])
        paid.append(env.get_reward())
    assert paid[0] > 0.9 and paid[1] <= 0.3, paid


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_who_stops_in_the_middle_keeps_no_progress(gamma):
    "Every unfinished rollout is worth what the same actions are worth when the budget ends there."
    for k in range(1, 6):
        env = started(reward=RewardConfig.shaped(gamma))
        play_tools(env, CALLS[:k])
        # The costs per step stay those of 15
        cut, _ = played([(KINDS[n], v) for n, v in CALLS[:k]], ends_at=k, reward=RewardConfig.shaped(gamma), budget=15)
        assert env.get_reward() == pytest.approx(cut.total_reward), k


def test_after_the_end_every_tool_says_so_late_calls_cost_a_share_and_reset_wipes_everything():
    env = started()
    play_tools(env, CALLS)
    before = env.get_reward(), list(env.session.rewards), env.episode.steps
    for name in ("describe", "sample", "query", "answer"):
        with pytest.raises(ValueError, match="^Episode is over.$"):
            getattr(env, name)("visit")
    assert (env.get_reward(), env.session.rewards, env.episode.steps) == before
    assert env.late_calls == 4
    right, wrong, nothing = (started(late_call_penalty=0.1) for _ in range(3))
    play_tools(right, [*CALLS, ("query", "SELECT 1")])
    play_tools(wrong, [*WRONG, ("query", "SELECT 1")])
    plain = started()
    play_tools(plain, CALLS)
    assert right.get_reward() == pytest.approx(0.9 * plain.get_reward())
    assert right.get_reward() > wrong.get_reward() > nothing.get_reward() == 0
    with pytest.raises(ValueError, match="share"):
        SQLEnvTRL(bundled(), late_call_penalty=2)
    new = SQLEnvTRL(bundled())
    with pytest.raises(adapter.ToolError, match="Call reset first"):
        new.query("SELECT 1")
    assert new.get_reward() == 0
    unpaid, remote = started(pays=False), SQLEnvTRLRemote("http://localhost:8000", pays=False)
    play_tools(unpaid, CALLS)
    assert unpaid.get_reward() is None is remote.get_reward() and unpaid.correct
    assert sql_env_reward_func([unpaid]) == [before[0]], "the reward function pays where it is asked for"
    env = started()
    seen = play_tools(env, CALLS)
    play_tools(env, CALLS[:3])
    sql_env_reward_func([env], trainer_state=object())
    env.reset(**ROW)
    assert (env.session.rewards, env.late_calls) == ([], 0)
    assert (env.session.done, env.correct, env.get_reward()) == (False, False, 0)
    assert play_tools(env, CALLS) == seen
    env._close()
    env._close()
    assert env.episode is None and "Steps: 15" in env.reset(**ROW)


def test_a_row_chooses_question_and_sample_and_settings_reach_the_episode():
    env = SQLEnvTRL(bundled())
    with pytest.raises(ValueError, match="prompt_rows"):
        env.reset(prompt=ROW["prompt"])
    with pytest.raises(KeyError, match="vet_clinic-02"):
        env.reset(question_id="vet_clinic-002")
    assert "Tables" in env.reset(seed=3), "by hand, as EpisodeEnv"
    assert "Tables" in env.reset(split="test", index=0)
    env.reset(question_id=ID, difficulty="hard", split="test", extra=[1], prompt=ROW["prompt"])
    assert env.episode.question.question_id == ID, "the id wins over other columns of the dataset"
    a, b, c = (SQLEnvTRL(bundled()) for _ in range(3))
    for env, seed in ((a, 1), (b, 1), (c, 2)):
        env.reset(question_id=ID, seed=seed)
    assert a.sample("visit") == b.sample("visit") != c.sample("visit")
    for bad in (dict(budget=0), dict(schema_level="some"), dict(verify="luck")):
        with pytest.raises(ValueError):
            SQLEnvTRL(bundled(), **bad)
    with pytest.raises(ValueError, match="no questions"):
        SQLEnvTRL(bundled().filter(question_id="none"))
    with pytest.raises(ValueError, match="reward_funcs, with pays=False"):
        SQLEnvTRL(bundled(), reward=lambda episode: 1.0)
    for no_set in ("mydata", list(bundled()[:2])):
        with pytest.raises(TypeError, match=r"not a (str|list): load\('folder'.*with_questions"):
            SQLEnvTRL(no_set, group=2)
    with pytest.raises(KeyError, match="no question 'vet_clinic-02'.*eval_dataset"):
        SQLEnvTRL(bundled().split("train").filter(database_name="craft_brewery")).reset(**ROW)
    with patch("sql_env.integrations.trl.EpisodeEnv", wraps=EpisodeEnv) as made:
        SQLEnvTRL(bundled(), verify="robust", schema_level="full", budget=7)
    assert made.call_args.kwargs == dict(reward="partial", verify="robust", schema_level="full", budget=7)
    assert "visit(visit_id" in SQLEnvTRL(bundled(), schema_level="columns").reset(**ROW)


def test_what_reset_adds_to_the_prompt_and_gold_is_nowhere_in_it():
    env = SQLEnvTRL(bundled())
    text = env.reset(**ROW)
    assert text.startswith("\n\nTables:\n") and text.endswith("Steps: 15")
    assert ROW["prompt"][-1]["content"] not in text
    other = env.reset(question_id=ID, prompt=[{"role": "user", "content": "Answer the question."}])
    assert other == f"\n\nQuestion: {ROW['prompt'][-1]['content']}" + text
    assert chat.initial_view(Observation("Q?", "", budget_remaining=3)) == "\n\nQuestion: Q?\n\nSteps: 3"
    for q in bundled().sample(60, 5):
        env = SQLEnvTRL(bundled(), schema_level="full")
        [row] = prompt_rows([q])
        start = env.reset(**row)
        calls = [("describe", q.tables_involved[0]), ("answer", ""), ("answer", "nothing")]
        assert q.gold_sql not in json.dumps([row, start, *play_tools(env, calls)])


def test_any_json_argument_gets_a_string_or_an_error_and_numbers_and_rows_are_answers():
    for value in (7, 7.5, None, True, ["visit"], {"a": 1}, [["a", 3]], "\ud800", "", "x" * 200_000):
        for name in ("describe", "sample", "query", "answer"):
            env = started()
            [text] = play_tools(env, [(name, value)])
            assert isinstance(text, str) and text and len(text) < chat.MAX_TOOL_RESULT_CHARS + 100, (name, value)
            assert env.episode.steps == 1
    q = next(q for q in bundled() if q.answer_type == "table" and len(q.gold_answer) < 6)
    env = SQLEnvTRL(bundled())
    for value, question_id in ((44, ID), ("44", ID), ([list(r) for r in q.gold_answer], q.question_id)):
        env.reset(question_id=question_id)
        env.answer(value)
        assert env.correct, value
    assert argument_text("a\ud800b") == "a?b" and argument_text(["\udfff"]) == '["?"]'


@given(json_values())
@law(60)
def test_as_text_takes_all_of_json(value):
    text = argument_text(value)
    text.encode()
    if isinstance(value, str):
        assert text == value.encode("utf-8", "replace").decode()


long = st.builds(lambda s, n: s * n, st.text(max_size=40), st.integers(0, 90))


@given(long, long, st.integers(0, 15), st.booleans(), st.integers(20, 500))
@example("seen", "", 3, False, 99)
@example("seen", "", 4, False, 99)
@law(150)
def test_tool_text_is_short(result, error, left, done, limit):
    o = Observation("?", "", result, error, 1, left, (), done)
    text = chat._observation_text(o, limit)
    assert len(text) <= limit + 60
    says_left = "left)" in text.removeprefix((error or result)[:limit])
    assert says_left == (left <= 3 and not done) or "left)" in error + result
    assert chat.tool_result_text(o, limit) == (str({"error": text}) if error else text)


def test_the_factory_survives_another_process_and_long_results_are_cut_at_a_line(tmp_path):
    factory = partial(SQLEnvTRL, bundled().split("train"), reward=RewardConfig.shaped(), budget=9)
    (tmp_path / "f.pkl").write_bytes(pickle.dumps(factory))
    code = f"import pickle; env = pickle.load(open({str(tmp_path / 'f.pkl')!r}, 'rb'))()"
    code += f"; print(env.reset(question_id={ID!r})[-8:]); print(env.query({GOLD!r}))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "Steps: 9\nCOUNT(*)\n44\n"
    env = started(max_chars=300)
    text = env.query("SELECT * FROM owner")
    assert len(text) < 340 and text.split("\n")[-1] == "... cut after 300 characters"
    whole = started().query("SELECT * FROM owner")
    assert text.split("\n")[:2] == whole.split("\n")[:2]
    long_line = Observation("?", "", "x" * 999, budget_remaining=9)
    assert chat._observation_text(long_line, 50) == "x" * 50 + "\n... cut after 50 characters"


def test_reward_func_pays_once_and_logs_means_over_rollouts():
    right, idle, other = started(), started(), object()
    play_tools(right, CALLS)
    logged = {}
    passed = dict(prompts=None, completions=None, log_metric=logged.__setitem__)
    rewards = sql_env_reward_func(environments=[right, idle, other], **passed)
    assert rewards == [right.get_reward(), 0.0, None]
    assert logged["sql_env/correct"] == logged["sql_env/answered"] == 0.5
    assert logged["sql_env/steps"] == 3
    with pytest.raises(ValueError, match="get_reward"):
        sql_env_reward_func(prompts=[], completions=[])
    assert sql_env_reward_func([right], trainer_state=object())[0] > 0.9
    assert right.get_reward() is None
    right.reset(**ROW)
    assert right.get_reward() == 0
    env = started(budget=2)
    play_tools(env, [("describe", "visit"), ("describe", "visit")])
    sql_env_reward_func([env], logged.__setitem__)
    nothing = dict(correct=0, answered=0, steps=2, late_calls=0, unfinished=0)
    assert env.session.done and logged == {f"sql_env/{name}": value for name, value in nothing.items()}


def test_environments_of_a_set_give_each_question_to_a_whole_group(monkeypatch):
    questions = bundled()
    n = len(questions)

    def asked(environments, times):
        took = []
        for e in environments * times:
            e.reset(prompt=[])
            took.append(e.episode.question.question_id)
        return took

    make = partial(SQLEnvTRL, questions, group=4)
    some = [make() for _ in range(4)]
    took = asked(some, 2 * n)
    assert took[::4] == took[1::4] == took[3::4]
    first, second = took[: 4 * n : 4], took[4 * n :: 4]
    assert sorted(first) == sorted(second) == sorted(q.question_id for q in questions)
    assert first != second
    other = questions.filter()
    assert asked([SQLEnvTRL(other, group=4)], 4) == took[:4], "another set has an order of its own"
    some[0].reset(prompt=[])  # a run that is given up in the middle of a group
    some.clear()
    assert asked([make() for _ in range(4)], 1) == took[:4], "the order is forgotten with its run"
    orders = {}
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        for seed in (None, 0, 1):
            again, other = (asked([partial(make, seed=seed)() for _ in range(4)], n) for _ in range(2))
            assert again == other and again[::4] == again[1::4] == again[2::4] == again[3::4], "groups are whole"
            orders[rank, seed] = tuple(again)
    assert orders["0", None] == tuple(took[: 4 * n]) and len(set(orders.values())) == 6
    with pytest.raises(ValueError, match="seed .* give group"):
        SQLEnvTRL(questions, seed=1)
    with pytest.raises(ValueError, match="a group has at least one"):
        SQLEnvTRL(questions, group=0)
    with pytest.raises(ValueError, match="name the questions"):
        SQLEnvTRL(group=4)


class FakeClient:
    "A server that is an `EpisodeEnv`; breaks after some calls."

    def __init__(self, made, breaks_at=None):
        self.env = EpisodeEnv(bundled(), reward=RewardConfig.partial())
        self.calls, self.breaks_at, self.closed = 0, breaks_at, False
        made.append(self)

    def sync(self):
        return self

    def _result(self, observation):
        self.calls += 1
        if self.breaks_at and self.calls >= self.breaks_at:
            raise ConnectionError("gone")
        return SimpleNamespace(observation=observation)

    def reset(self, **kw):
        return self._result(self.env.reset(**kw))

    def step(self, action):
        return self._result(self.env.step(action.action_type, action.argument))

    def close(self):
        self.closed = True


def test_the_remote_environment_shows_the_same_and_a_lost_connection_ends_a_rollout_without_reward(monkeypatch):
    made, breaks, module = [], [], ModuleType("sql_env.client")
    module.SQLAction = lambda action_type, argument: SimpleNamespace(action_type=action_type, argument=argument)
    module.SQLEnv = lambda base_url, **kw: FakeClient(made, breaks.pop(0) if breaks else None)
    monkeypatch.setitem(sys.modules, "sql_env.client", module)
    local, remote = started(), SQLEnvTRLRemote("http://localhost:1")
    assert remote.reset(**ROW) == local.reset(**ROW)
    assert play_tools(remote, CALLS) == play_tools(local, CALLS)
    assert remote.session.rewards == local.session.rewards and remote.session.done
    assert remote.get_reward() == local.get_reward()
    assert sql_env_reward_func([remote, local]) == [local.get_reward()] * 2
    remote.reset(**ROW)
    assert len(made) == 2 and made[0].closed, (
        "each rollout has a connection of its own, so a restarted server does no harm"
    )
    breaks[:] = [3]
    remote.reset(**ROW)
    lost, over = play_tools(remote, CALLS[:3])[1:]
    assert lost == over == str({"error": "gone"}), "whoever calls on is told the same"
    assert remote.get_reward() is None and sql_env_reward_func([remote]) == [None]
    assert "Steps" in remote.reset(**ROW)
    assert play_tools(remote, CALLS)[-1] == "The answer was submitted."
    assert remote.get_reward() > 0.9
    remote._close()
    assert all(client.closed for client in made)


@pytest.mark.slow
def test_the_remote_environment_on_a_real_server():
    from serving import Server

    local = started()
    seen = play_tools(local, CALLS)
    with Server(MAX_CONCURRENT_ENVS="8", SQL_ENV_REWARD="partial") as server, ThreadPoolExecutor(8) as threads:
        envs = [SQLEnvTRLRemote(server.http) for _ in range(8)]
        starts = [e.reset(**ROW) for e in envs]
        out = list(threads.map(lambda e: play_tools(e, CALLS), envs))
        assert starts == [started().reset(**ROW)] * 8 and out == [seen] * 8
        assert [e.session.rewards for e in envs] == [local.session.rewards] * 8
        for e in envs:
            e._close()


def tool_call(name, **arguments):
    return f"<tool_call>\n{json.dumps(dict(name=name, arguments=arguments))}\n</tool_call>"


def completions_of(trainer):
    "Run a trainer and keep what its reward step saw: prompts and completions of each batch."
    seen, original = [], trainer._calculate_rewards

    def spy(inputs, prompts, completions, ids):
        envs = [(e.session.rewards, e.correct, e._reward()) for e in trainer.environments]
        seen.append((prompts, completions, envs))
        return original(inputs, prompts, completions, ids)

    trainer._calculate_rewards = spy
    return seen


def test_schemas_are_those_of_transformers(tiny):
    from transformers.utils import get_json_schema

    for cls in (SQLEnvTRL, SQLEnvTRLRemote):
        tools = [getattr(cls, name) for name in ("answer", "describe", "query", "sample")]
        assert [get_json_schema(tool) for tool in tools] == tool_schemas()


REFUSED = [tool_call("nope", x=1), tool_call("query", sql="SELECT naem FROM visit")]
REFUSED += [tool_call("query", statement="SELECT 1"), tool_call("sample", table_name=7)]
SCRIPT = [
    [tool_call("describe", table_name="visit"), tool_call("query", sql=GOLD), tool_call("answer", value="44"), "Done."],
    [tool_call("answer", value=43), tool_call("query", sql="SELECT 1"), "Done."],
    [*REFUSED, "I give up."],
    ["No tools."],
]
ACTIONS = [
    [("DESCRIBE", "visit"), ("QUERY", GOLD), ("ANSWER", "44")],
    [("ANSWER", "43")],
    [("QUERY", "SELECT naem FROM visit"), ("SAMPLE", "7")],
    [],
]


def test_scripted_rollouts_have_the_rewards_of_plain_episodes(tiny, tmp_path):
    kit, tok = tiny
    made = partial(SQLEnvTRL, bundled())
    trainer = kit.grpo(tok, kit.make_model(tok), [ROW] * 2, made, tmp_path, lr_scheduler_type="constant")
    seen, before = completions_of(trainer), [p.detach().clone() for p in trainer.model.parameters()]
    with patch.object(trainer.model, "generate", kit.Scripted(tok, SCRIPT)):
        trainer.train()
    plain = [[o.reward for o in played(actions, reward=RewardConfig.partial())[1]] for actions in ACTIONS]
    assert len(seen) == 2, "two steps, the same pool twice"
    for prompts, completions, envs in seen:
        assert [e[0] for e in envs] == plain and [e[1] for e in envs] == [True, False, False, False]
        texts = [p[1]["content"] for p in prompts]
        assert all("Tables:\n" in text and text.endswith("Steps: 15") for text in texts)
        said = [[m["content"] for m in c if m["role"] == "tool"] for c in completions]
        assert said[0][1:] == ["COUNT(*)\n44", "The answer was submitted."]
        assert said[1] == ["The answer was submitted.", "{'error': 'Episode is over.'}"]
        unknown_tool, unknown_column, unknown_argument, unknown_table = said[2]
        assert unknown_tool == "{'error': 'Tool nope not found.'}"
        assert "unknown_column" in unknown_column and "Did you mean name" not in unknown_column
        assert "unexpected keyword" in unknown_argument and "unknown_table" in unknown_table
        assert said[3] == []
    log = next(h for h in trainer.state.log_history if "reward" in h)
    mean = pytest.approx(sum(map(sum, plain)) / 4, abs=1e-6)
    assert log["rewards/SQLEnvTRL/mean"] == mean and log["reward"] == mean
    assert log["tools/call_frequency"] == 9 / 4
    assert log["tools/failure_frequency"] == pytest.approx(5 / 9)
    assert any((a != b).any() for a, b in zip(before, trainer.model.parameters())), "it learned"


@pytest.mark.parametrize(
    "limits, cut",
    [
        (dict(max_tool_calling_iterations=1), 0.5),  # of two rollouts one waits for the result of a second call
        (dict(max_completion_length=40), 0.5),  # the result of the first call does not fit, and is dropped
        (dict(), 0),
    ],
)
def test_a_rollout_that_a_limit_cut_is_counted_apart(tiny, tmp_path, limits, cut):
    kit, tok = tiny
    paid, script = dict(reward_funcs=[sql_env_reward_func]), [SCRIPT[0], ["Done."]]
    made = partial(SQLEnvTRL, bundled())
    trainer = kit.grpo(tok, kit.make_model(tok), [ROW], made, tmp_path, n=2, steps=1, **(paid | limits))
    with patch.object(trainer.model, "generate", kit.Scripted(tok, script)):
        trainer.train()
    [log] = [line for line in trainer.state.log_history if "reward" in line]
    assert log["sql_env/cut"] == cut and log["sql_env/unfinished"] == (1 if cut else 0.5)


@pytest.mark.slow
def test_the_reward_function_alone_pays(tiny, tmp_path):
    kit, tok = tiny
    made, paid = partial(SQLEnvTRL, bundled()), dict(reward_funcs=[sql_env_reward_func])
    trainer = kit.grpo(tok, kit.make_model(tok), [ROW], made, tmp_path, steps=1, **paid)
    with patch.object(trainer.model, "generate", kit.Scripted(tok, SCRIPT)):
        trainer.train()
    log = next(h for h in trainer.state.log_history if "reward" in h)
    assert log["reward"] == pytest.approx(log["rewards/sql_env_reward_func/mean"]) and 0.2 < log["reward"] < 0.4
    assert log["sql_env/correct"] == log["sql_env/late_calls"] == 0.25 == log["sql_env/answered"] / 2


@pytest.mark.slow
def test_a_reward_of_ones_own_is_the_only_one(tiny, tmp_path):
    kit, tok = tiny
    made, paid = partial(SQLEnvTRL, bundled(), pays=False), dict(reward_funcs=lambda environments, **_: [0.25, 0, 0, 0])
    trainer = kit.grpo(tok, kit.make_model(tok), [ROW], made, tmp_path, steps=1, **paid)
    with patch.object(trainer.model, "generate", kit.Scripted(tok, SCRIPT)):
        trainer.train()
    log = next(h for h in trainer.state.log_history if "reward" in h)
    assert log["reward"] == 0.0625


@pytest.mark.slow
def test_no_dataset_and_two_rewards_of_ones_own(tiny, tmp_path):
    "The environment owns the data: a group shares a question, and its rollouts are paid part by part."

    def right(environments, **_):
        return [float(e.correct) for e in environments]

    def grounded(environments, **_):
        return [float(bool(e.correct) and e.episode.grounded) for e in environments]

    kit, tok = tiny
    made, size = (
        partial(SQLEnvTRL, bundled(), group=2, pays=False),
        dict(steps=1, num_generations=2, max_completion_length=2000),
    )
    paid = dict(reward_funcs=[right, grounded], multi_objective_aggregation="normalize_then_sum")
    trainer = kit.grpo(tok, kit.make_model(tok), None, made, tmp_path, **size, **paid)
    asked = []

    def script(*args, **kwargs):
        asked.append([e.session.episode.question for e in trainer.environments])
        gold = [q.gold_sql for q in asked[-1]]
        turns = [[tool_call("query", sql=sql), tool_call("answer", value="@last")] for sql in gold]
        turns[1::2] = [["Hm."], ["Hm."]]
        trainer.model.generate = kit.Scripted(tok, turns)
        return trainer.model.generate(*args, **kwargs)

    seen = completions_of(trainer)
    trainer.model.generate = script
    trainer.train()
    (prompts, _, envs), [questions] = seen[0], asked
    ids = [q.question_id for q in questions]
    assert ids[0] == ids[1] and ids[2] == ids[3] and ids[0] != ids[2]
    assert all(q.question_text in p[0]["content"] for p, q in zip(prompts, questions))
    assert [e[1] for e in envs] == [True, False, True, False]
    log = next(h for h in trainer.state.log_history if "reward" in h)
    assert log["rewards/right/mean"] == log["rewards/grounded/mean"] == 0.5
    assert "nan" not in str(log["reward"]) and log["loss"] == log["loss"]


@pytest.mark.slow
def test_two_trainers_at_once(tiny, tmp_path):
    "Two trainers with different settings train in two threads; each has its own pool and budget."
    kit, tok = tiny
    trainers = []
    for settings in (dict(budget=15), dict(budget=2, reward=RewardConfig.sparse())):
        made, folder = partial(SQLEnvTRL, bundled(), **settings), tmp_path / str(len(trainers))
        trainers.append(kit.grpo(tok, kit.make_model(tok), [ROW], made, folder, steps=1))
    seen = [completions_of(t) for t in trainers]
    for t in trainers:
        t.model.generate = kit.Scripted(tok, [SCRIPT[0]] * 4)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda t: t.train(), trainers))
    (_, _, long), (_, _, short) = seen[0][0], seen[1][0]
    assert [e[1] for e in long] == [True] * 4 and [e[1] for e in short] == [False] * 4, "two steps are too few"
    pools = [t._environment_pool[None] for t in trainers]
    assert [len(p) for p in pools] == [4, 4] and len({id(e) for p in pools for e in p}) == 8


@pytest.mark.slow
def test_pool_grows_once_and_is_reused(tiny, tmp_path):
    kit, tok = tiny
    made = []

    def factory():
        made.append(SQLEnvTRL(bundled()))
        return made[-1]

    trainer = kit.grpo(tok, kit.make_model(tok), prompt_rows(bundled()[:4]), factory, tmp_path, n=4, steps=3)
    with patch.object(trainer.model, "generate", kit.Scripted(tok, [["Hm."]] * 4)):
        trainer.train()
    assert len(made) == 4 and all(not e.session.done and e.get_reward() == 0 for e in made)


@pytest.mark.slow
def test_a_warm_model_calls_tools_by_itself(tiny, tiny_model, tmp_path, tell):
    "Two GRPO steps, real generation, real tool calls."
    kit, (model, tok) = tiny[0], tiny_model
    one, paid = bundled().filter(question_id=ID), dict(reward_funcs=[sql_env_reward_func], temperature=0.7)
    trainer = kit.grpo(tok, deepcopy(model), prompt_rows(one), partial(SQLEnvTRL, one), tmp_path, n=8, **paid)
    trainer.train()
    logs = [line for line in trainer.state.log_history if "reward" in line]
    calls = [line["tools/call_frequency"] for line in logs]
    rewards = [round(line["reward"], 2) for line in logs]
    tell(f"TRL smoke: calls per rollout {calls}, rewards {rewards}")
    assert len(calls) == 2 and min(calls) >= 1
