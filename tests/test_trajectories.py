"Trajectories: logs that reproduce, experts that explore, conversations that train what they should."

import json
import pickle
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from random import Random

import apsw
import pytest
from made_rows import made_row, replay_problems
from made_sets import bundled
from rendering import check_rendering, qwen_assistant_turn

from sql_env import EpisodeEnv, RewardConfig, evaluate, load
from sql_env.evaluation.logs import _log_env, read_log, replay_trajectory, write_log
from sql_env.evaluation.rows import Trajectory
from sql_env.integrations.trl import SQLEnvTRL, prompt_rows
from sql_env.play.acts import ACTS, SCHEMA_LEVELS, Action
from sql_env.play.chat import action_message, tool_schemas
from sql_env.play.episode import Turn
from sql_env.policies.baselines import HACKS, GreedyPolicy, OraclePolicy, RandomPolicy, ScriptedPolicy
from sql_env.questions.question_set import QuestionSet, save_question_set
from sql_env.sql.analysis import TokenizedSql, compared_values
from sql_env.training import experts
from sql_env.training.experts import ExpertPolicy, ExpertTrajectories, _record_trajectory
from sql_env.training.recipes import sft_rows, trajectory_messages


def but(trajectory, **fields):
    "The trajectory with other fields."
    return trajectory.model_copy(update=fields)


@lru_cache(None)
def some():
    return tuple(ExpertTrajectories(bundled(), 400, seed=7))


class Crash:
    name = "crash"

    def select_action(self, o):
        if o.step_count == 2:
            raise RuntimeError("no more")
        return Action("DESCRIBE", "x")


POLICIES = [RandomPolicy(2), GreedyPolicy(), OraclePolicy(bundled()), ExpertPolicy(bundled()), Crash()]
ENVS = dict(default={}, other=dict(budget=4, schema_level="full", reward=RewardConfig.shaped()))


@pytest.mark.parametrize("policy", [*POLICIES, *HACKS[:3], HACKS[-3]], ids=lambda p: p.name)
@pytest.mark.parametrize("env", ENVS.values(), ids=ENVS)
def test_every_log_of_the_evaluation_reads_and_reproduces(tmp_path, policy, env):
    path = tmp_path / "log.jsonl"
    evaluate(EpisodeEnv(bundled(), **env), policy, 25, seed=3, log=path, progress=False)
    about, trajectories = read_log(path)
    assert len(trajectories) == 25 and replay_problems(path, bundled()) == {}
    again = tmp_path / "again.jsonl"
    assert write_log(again, about, trajectories) == 25 and again.read_bytes() == path.read_bytes()
    assert write_log(again, about, trajectories) == 0
    assert _log_env(about, bundled()).settings == EpisodeEnv(bundled(), **env).settings


def test_replay_finds_any_change_in_a_log_and_in_a_database_and_none_in_a_rollout_of_a_trainer(tmp_path):
    env, t = EpisodeEnv(bundled(), reward=RewardConfig.partial()), some()[3]
    assert replay_trajectory(env, t, robust=None) == (t, [])

    def told(env, trajectory):
        "What differs when the actions are taken again."
        return "\n".join(replay_trajectory(env, trajectory, robust=None)[1])

    def changed(i, **kw):
        return but(t, turns=[replace(x, **kw) if j == i else x for j, x in enumerate(t.turns)])

    for i, turn in enumerate(t.turns):
        assert f"turns.{i}.result is" in told(env, changed(i, result=turn.result + " "))
        assert f"turns.{i}.error is" in told(env, changed(i, error="syntax: x"))
        assert f"turns.{i}.reward" in told(env, changed(i, reward={"outcome": 0.123}))
    assert "turns.0" in told(env, changed(0, action=Action("DESCRIBE", "nothing")))
    assert "'missing' when" in told(env, but(t, turns=[*t.turns, t.turns[-1]]))
    other = but(t, verdicts=made_row(0).verdicts)
    assert "verdicts.value.correct is 'False'" in told(env, other)
    assert "verdicts.value.correct is 'True'" in told(env, but(t, turns=t.turns[:-1]))
    assert "turns." in told(EpisodeEnv(bundled(), reward=RewardConfig.shaped()), t)
    assert len(told(env, changed(0, result="x" * 5000))) < 200
    t = next(t for t in some() if t.database == "vet_clinic" and t.style == "direct")
    copy = tmp_path / "vet_clinic.sqlite"
    copy.write_bytes(bundled().databases["vet_clinic"].read_bytes())
    con = apsw.Connection(str(copy))
    for table in bundled().get(t.question_id).tables_involved:
        con.execute(f"DELETE FROM {table} WHERE rowid % 2")
    con.close()
    with_copy = QuestionSet(bundled(), bundled().databases | {"vet_clinic": copy})
    assert told(EpisodeEnv(with_copy, reward=RewardConfig.partial()), t).startswith("turns.")
    rollout = SQLEnvTRL(bundled())
    rollout.reset(question_id="vet_clinic-02")
    rollout.describe("visit")
    rollout.answer("44")
    t = Trajectory.from_episode(rollout.episode)
    assert t.correct and told(env, t) == ""


def test_a_trajectory_knows_what_is_robust():
    "As the evaluation has it, with the short way for answers that rest on gold."
    env = EpisodeEnv(bundled(), reward=RewardConfig.partial())
    for policy in (ExpertPolicy(bundled()), GreedyPolicy(), ExpertPolicy(bundled(), ["wrong_value"], copy_rows=0)):
        for q in bundled().sample(20, 3):
            t = _record_trajectory(env, policy, 0, {"question_id": q.question_id, "seed": 0}, 1)
            assert t.verdicts == Trajectory.from_episode(env.episode).verdicts
            assert (t.blame is None) == t.correct


def test_a_misspelling_changes_every_use_and_nothing_else_and_is_no_column_that_exists():
    sql = TokenizedSql("SELECT visit_day, 'visit_day' FROM v WHERE v.visit_day > 'x'")
    assert set(experts._misspelled_names(sql, {"visit_day"}, Random(0))) == {
        "SELECT visit, 'visit_day' FROM v WHERE v.visit > 'x'",
        "SELECT day, 'visit_day' FROM v WHERE v.day > 'x'",
    }
    sql = TokenizedSql("SELECT weight_kg FROM t")
    assert experts._misspelled_names(sql, {"weight_kg", "weight", "kg"}, Random(0)) == []
    for name in ("a", "s", "fooBar", "x_id", "name", "_x", "paid_on"):
        wrong = experts._near_misses(name)
        assert wrong and name.lower() not in [w.lower() for w in wrong], name
    sql = TokenizedSql(
        "SELECT 'no' FROM t WHERE a = 'x' AND b LIKE 'y%' AND \"c d\" IN ('p', 'q') "
        "AND 'z' = e AND f <> 'w' AND lower(g) = 'v'"
    )
    compared = [(column, token.text) for column, token in compared_values(sql)]
    assert compared == [("a", "x"), ("b", "y%"), ("c d", "p"), ("f", "w")]


MISTAKES = {"column": 300, "value": 40}  # at least so many


@pytest.mark.parametrize("kind", MISTAKES)
def test_mistakes_can_be_noticed(kind):
    env, found = EpisodeEnv(bundled()), 0
    for q in bundled():
        mistake = experts._GoldQuery(q, bundled().database(q.database_name)).mistake(kind, Random(1))
        if not mistake:
            continue
        found += 1
        env.reset(question_id=q.question_id)
        observation = env.step(*mistake[0])
        assert bool(observation.error) == (kind == "column"), (q.question_id, mistake)
        if kind == "value":
            assert not any(any(row) for row in env.episode.last.rows)
            assert not env.step(*mistake[1]).error
    assert found > MISTAKES[kind]


def test_all_experts_reproduce_are_right_and_resume(tmp_path):
    made = ExpertTrajectories(bundled(), 2 * len(bundled()), seed=11)
    n = Counter(t.style for t in made)
    assert n.total() == 768 and made.dropped == {}
    explores = {name for name, style in experts.EXPERT_STYLES.items() if not style.search}
    assert set(n) == explores and min(n.values()) >= 15, n
    made = ExpertTrajectories(bundled(), 30, seed=3)
    made.save(tmp_path / "whole.jsonl")
    whole = (tmp_path / "whole.jsonl").read_bytes()
    (tmp_path / "part.jsonl").write_bytes(whole[: len(whole) // 2])
    ExpertTrajectories(bundled(), 30, seed=3).save(tmp_path / "part.jsonl")
    assert (tmp_path / "part.jsonl").read_bytes() == whole
    for other in (dict(seed=4), dict(seed=3, policy=ExpertPolicy(bundled(), ["direct"], seed=3))):
        with pytest.raises(ValueError, match="another run"):
            ExpertTrajectories(bundled(), 30, **other).save(tmp_path / "part.jsonl")
    assert read_log(tmp_path / "whole.jsonl")[1] == list(made)


@pytest.mark.slow
def test_experts_on_spider(spider_path):
    qs = load("spider", spider_path, split="dev")
    made = ExpertTrajectories(qs, seed=1)
    assert len(list(made)) / len(qs) > 0.98, list(made.dropped.values())[:5]


@pytest.mark.parametrize("level", SCHEMA_LEVELS)
@pytest.mark.parametrize("budget", [2, 3, 4, 6])
def test_experts_fit_any_budget_and_schema_level(level, budget):
    kept = list(ExpertTrajectories(bundled(), 60, seed=2, budget=budget, schema_level=level))
    assert len(kept) == 60 and max(t.steps for t in kept) <= budget
    if level == "full":
        assert not any(t.turns[0].action.action_type == "DESCRIBE" for t in kept)


def test_experts_look_before_they_ask_and_read_answers_off_the_result():
    "What the query names was seen before: its tables, and for careful styles its values."
    for t in some():
        q = bundled().get(t.question_id)
        actions = [x.action for x in t.turns]
        looked = {a.argument.lower() for a in actions if a.action_type in ("DESCRIBE", "SAMPLE")}
        assert looked >= set(q.tables_involved), (t.style, actions)
        assert actions[-2] == ("QUERY", q.gold_sql) and actions[-1].action_type == "ANSWER"
        assert any(x.error for x in t.turns) == (t.style == "misspelt"), t.style
        if t.style in ("wrong_value", "thorough"):
            assert any(a.argument.startswith("SELECT DISTINCT") for a in actions[:-2])
        answer, shown = t.turns[-1].action.argument, t.turns[-2].result
        assert t.grounded and (answer == "@last" or shown.split("\n", 1)[1] == answer)
    assert {t.turns[-1].action.argument == "@last" for t in some()} == {True, False}
    by_last = ExpertTrajectories(bundled(), 20, policy=ExpertPolicy(bundled(), copy_rows=0))
    assert {t.turns[-1].action.argument for t in by_last} == {"@last"}


def test_experts_are_determined_by_their_seed_and_what_does_not_reproduce_is_dropped_and_named():
    def run(seed, n=60):
        return [(t.style, t.turns) for t in ExpertTrajectories(bundled(), n, seed=seed)]

    assert run(5) == run(5) != run(6)
    assert run(5, 30) == run(5)[:30], "an episode does not depend on how many follow"

    class Wrong(ExpertPolicy):
        def select_action(self, observation):
            action = super().select_action(observation)
            return Action("ANSWER", "no such thing") if action.action_type == "ANSWER" else action

    made = ExpertTrajectories(bundled(), 5, policy=Wrong(bundled()))
    assert list(made) == [] and len(made.dropped) == 5
    assert all("-" in problem for problem in made.dropped.values()), "question ids are named"


def test_an_expert_is_a_policy_for_the_evaluation_and_takes_a_set_of_any_source(tmp_path):
    expert = ExpertPolicy(bundled())
    plain = evaluate(bundled(), expert, 40, seed=1, progress=False)
    assert plain.success_rate == 1
    with ProcessPoolExecutor(2) as pool:
        options = dict(seed=1, executor=pool, log=tmp_path / "log.jsonl", progress=False)
        spread = evaluate(bundled(), expert, 40, **options)
    assert spread.episodes == plain.episodes
    assert replay_problems(tmp_path / "log.jsonl", bundled()) == {}
    assert pickle.loads(pickle.dumps(expert)).styles == expert.styles
    with pytest.raises(ValueError, match="misspelt"):
        ExpertPolicy(bundled(), ["mispelt"])
    folder = save_question_set(bundled().filter(database_name="vet_clinic"), tmp_path / "mine")
    made = ExpertTrajectories(load("folder", folder), 32)
    assert len(list(made)) == 32 and made.dropped == {}
    first = list(islice(ExpertTrajectories(bundled(), seed=1), 3))
    assert [type(t) for t in first] == [Trajectory] * 3 and isinstance(first[0].turns[0], Turn)


def rows_of():
    return sft_rows(EpisodeEnv(bundled(), reward=RewardConfig.partial()), some()[:60])


def calls_of(rows):
    return [c for r in rows for m in r["messages"] for c in m.get("tool_calls", ())]


def test_a_conversation_has_the_words_of_a_rollout_and_its_arguments_and_tools_are_text():
    "Each message of an expert conversation is what TRL would show for the same calls."
    env = SQLEnvTRL(bundled(), max_chars=300)
    plain = EpisodeEnv(bundled(), reward=RewardConfig.partial())
    reset = {"question_id": "vet_clinic-02", "seed": 0}
    wrong = ScriptedPolicy([("QUERY", "SELECT x FROM visit"), ("DESCRIBE", "visit")] * 8)  # refused by turns
    wrong.reset = lambda seed: None
    others = [_record_trajectory(plain, p, 0, reset, 0) for p in (RandomPolicy(4), wrong)]
    for t in [*some()[:80], *others]:
        row = prompt_rows([bundled().get(t.question_id)])[0]
        start = env.reset(**row, seed=t.reset["seed"])
        messages = trajectory_messages(plain, t, max_chars=300)
        assert messages[0] == row["prompt"][0]
        assert messages[1]["content"] == row["prompt"][1]["content"] + start
        for call, result in zip(messages[2:-1:2], messages[3:-1:2]):
            function = call["tool_calls"][0]["function"]
            tool = getattr(env, function["name"])
            try:
                text = tool(**json.loads(function["arguments"]))
            except ValueError as e:
                text = str({"error": str(e)})
            assert result == dict(role="tool", name=function["name"], content=text)
        assert messages[-1] == dict(role="assistant", content="Done.")
        assert len(messages) == 2 + 2 * len(t.turns) + 1
    assert all(json.loads(row["tools"]) == tool_schemas() for row in rows_of())
    for c in calls_of(rows_of()):
        ((name, value),) = json.loads(c["function"]["arguments"]).items()
        assert isinstance(value, str) and (c["function"]["name"], name) in {a[1:3] for a in ACTS.values()}
    with pytest.raises(ValueError, match="DANCE"):
        action_message(Action("DANCE", ""))


def test_through_arrow_a_json_file_and_the_template(tiny, tmp_path):
    "The whole way: rows, Dataset, file, template, mask."
    from datasets import Dataset, load_dataset
    from trl.chat_template_utils import qwen3_training_chat_template as template

    tok, data = tiny[1], Dataset.from_list(rows_of())
    said, row = check_rendering(data, tok), data[5]
    assert said["rows"] == 60 and 0.05 < said["trained"] < 0.5
    tools = json.loads(row["tools"])
    text = tok.apply_chat_template(row["messages"], tools=tools, tokenize=False, chat_template=template)
    assert "null" not in text and "None" not in text
    assert text.count("<tool_call>\n{") == len(some()[5].turns) + 1, "one per turn, and one in the instructions"
    path = tmp_path / "sft.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in rows_of()))
    data = load_dataset("json", data_files=str(path), split="train", cache_dir=str(tmp_path))
    assert check_rendering(data, tok)["rows"] == 60


def test_the_self_test_finds_a_wrong_mask_and_the_null_trap(tiny):
    from datasets import Dataset
    from trl.chat_template_utils import qwen3_training_chat_template as template

    wide = template.replace("{%- generation %}", "").replace(
        "{{- '<|im_start|>' + message.role + '\\n' }}\n        \n",
        "{%- generation %}{{- '<|im_start|>' + message.role + '\\n' }}",
    )
    assert wide != template and "generation %}" in wide
    narrow = template.replace(
        "{{- '<|im_end|>\\n' }}\n        {%- endgeneration %}", "{%- endgeneration %}{{- '<|im_end|>\\n' }}"
    )
    assert narrow != template
    for bad in (wide, narrow):
        with pytest.raises(ValueError, match="row 0: the trained text"):
            check_rendering(rows_of()[:1], tiny[1], bad)
    row, rows = rows_of()[0], rows_of()
    row["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{"sql": "SELECT 1", "value": null}'
    with pytest.raises(ValueError, match="without nulls"):
        check_rendering([row], tiny[1])
    for c in calls_of(rows):
        c["function"] = dict(c["function"], arguments=json.loads(c["function"]["arguments"]))
    try:
        data = Dataset.from_list(rows)
    except Exception:
        pytest.skip("this version of datasets refuses such rows")
    with pytest.raises(ValueError, match="without nulls"):
        check_rendering(data, tiny[1])


@pytest.mark.slow
def test_sft_trainer_trains_exactly_the_assistant(tiny, tmp_path):
    "TRL's own trainer on our rows: the labels that reach the loss, decoded, are the assistant's turns."
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    kit, tok = tiny
    rows = rows_of()[:8]
    size = dict(per_device_train_batch_size=4, max_steps=2, max_length=4096, assistant_only_loss=True)
    args = SFTConfig(str(tmp_path), **kit.QUIET, **size)
    data = Dataset.from_list(rows)
    trainer = SFTTrainer(model=kit.make_model(tok), args=args, train_dataset=data, processing_class=tok)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(8)])
    labels = [[t for t in row if t != -100] for row in batch["labels"].tolist()]
    wanted = ["".join(qwen_assistant_turn(m) for m in r["messages"] if m["role"] == "assistant") for r in rows]
    assert [tok.decode(x, skip_special_tokens=False) for x in labels] == wanted
    trainer.train()
    losses = [h["loss"] for h in trainer.state.log_history if "loss" in h]
    assert len(losses) == 2 and all(x > 0 for x in losses)


def test_grpo_prompts_are_the_beginning_of_sft_texts(tiny):
    "A rollout begins with the very tokens that supervised training saw before the first turn."
    from transformers.utils import get_json_schema
    from trl.chat_template_utils import qwen3_training_chat_template as template

    _, tok = tiny
    env = SQLEnvTRL(bundled())
    for t, row in zip(some()[:5], rows_of()):
        prompt = prompt_rows([bundled().get(t.question_id)])[0]
        *before, asked = prompt["prompt"]
        messages = [*before, asked | dict(content=asked["content"] + env.reset(**prompt))]
        tools = [get_json_schema(m) for m in (env.answer, env.describe, env.query, env.sample)]
        text = dict(add_generation_prompt=True, enable_thinking=False, tokenize=False)
        start = tok.apply_chat_template(messages, tools=tools, **text)
        tools = json.loads(row["tools"])
        whole = tok.apply_chat_template(row["messages"], tools=tools, tokenize=False, chat_template=template)
        assert whole.startswith(start)
