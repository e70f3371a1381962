"Training: tokenizer, credit by turns, stages that survive a kill, evaluation suites, cards. Nothing is downloaded."

import inspect
import json
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")
import torch
import trl
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from tiny_trl import save_tiny_qwen, small_colab, tiny_recipe

from sql_env import ChatPolicy, EpisodeEnv, RewardConfig, SourceError, evaluate, load
from sql_env.integrations.trl import SQLEnvTRL, prompt_rows
from sql_env.nano import training as nano
from sql_env.nano.text import _number_messages, render_transcript
from sql_env.nano.training import NANO
from sql_env.play.acts import ACTIONS, ACTS
from sql_env.play.chat import SYSTEM_PROMPT
from sql_env.policies.local import MODEL_SETTINGS_FILE, as_template_reads, load_model_settings, local_model
from sql_env.policies.requests import Completion
from sql_env.questions.question_set import save_question_set
from sql_env.training import recipes
from sql_env.training import run as runs
from sql_env.training.recipes import CLUSTER, COLAB, SMALL, Stage, _stage_questions, change_recipe
from sql_env.training.run import (
    RECIPES,
    Run,
    _grpo_trainer_class,
    _trainer_settings,
    grpo_trainer,
    read_history,
    suite_questions,
    train,
)

TINY = tiny_recipe()


@pytest.fixture(scope="module")
def tok():
    return nano.nano_tokenizer()


def test_only_calls_that_were_not_refused_are_learned_and_the_template_writes_what_is_rendered(tok):
    transcripts, refused = list(nano.world_transcripts({1: 120, 2: 120, 3: 120})), 0
    for transcript in transcripts:
        pieces = render_transcript(transcript)
        row = nano._tokenize_transcript(pieces, tok)
        assert all(label in (i, nano.IGNORED) for i, label in zip(row["input_ids"], row["labels"]))
        assert tok.decode(row["input_ids"]) == "".join(p.text for p in pieces)
        learned = [label for label in row["labels"] if label != nano.IGNORED]
        assert tok.decode(learned) == "".join(p.text for p in pieces if p.is_learned)
        for piece, after in zip(pieces, pieces[1:]):
            if after.text.startswith("<|tool|>"):
                is_error = after.text.startswith("<|tool|>{'error'")
                assert piece.is_learned is not is_error
                refused += is_error
    assert refused > len(transcripts) * 0.08
    for transcript in transcripts[::7]:
        messages = as_template_reads(_number_messages(transcript), tok)
        out = tok.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
        pieces = render_transcript(transcript)
        assert tok.decode(out["input_ids"]) == "".join(p.text for p in pieces)
        written = [i for i, m in zip(out["input_ids"], out["assistant_masks"]) if m]
        by_assistant = [b.text for a, b in zip(pieces, pieces[1:]) if a.text == "<|assistant|>"]
        assert tok.decode(written) == "".join(by_assistant)
    from trl.chat_template_utils import get_training_chat_template, is_chat_template_prefix_preserving

    assert is_chat_template_prefix_preserving(tok) and get_training_chat_template(tok) is None


@law(150)
@given(kind=st.sampled_from(sorted(ACTIONS)), argument=st.text(max_size=60))
def test_every_call_is_read_back(tok, kind, argument):
    name, parameter = ACTS[kind][1:3]
    if "<|end|>" not in argument:
        message = tok.parse_response(f"<{name} {parameter}>{argument}<|end|>", prefix="")
        function = dict(name=name, arguments={parameter: argument})
        assert message["tool_calls"] == [dict(type="function", function=function)]


def test_the_private_methods_of_trl_are_as_we_know_them_and_another_trl_is_refused(monkeypatch):
    "If this fails, TRL has changed: look at EpisodeGRPO before you raise the bound of the train extra."
    method = getattr(trl.GRPOTrainer, "_generate_and_score_completions", None)
    assert method is not None, f"trl {trl.__version__} has lost the method"
    assert list(inspect.signature(method).parameters) == ["self", "inputs"]
    source = inspect.getsource(method)
    for name in ('"advantages"', '"completion_mask"', '"tool_mask"', '"num_items_in_batch"'):
        assert name in source, f"trl {trl.__version__}: no {name} in the method's output"
    for name in ("_metrics", "environments", "num_generations"):
        assert f"self.{name}" in inspect.getsource(trl.GRPOTrainer), f"trl {trl.__version__}: {name}"
    assert 'self._metrics[mode]["frac_reward_zero_std"]' in inspect.getsource(trl.GRPOTrainer)
    monkeypatch.delattr(trl.GRPOTrainer, "_generate_and_score_completions")
    with pytest.raises(ImportError, match="install the version it was tested with"):
        _grpo_trainer_class()


def play_without_a_model(monkeypatch, advantages):
    "A trainer after one batch whose rollouts had these advantages, five tokens each."
    mask = torch.ones(len(advantages), 5, dtype=torch.long)
    out = dict(advantages=torch.tensor(advantages), completion_mask=mask, num_items_in_batch=None)
    hook = "_generate_and_score_completions"
    monkeypatch.setattr(trl.GRPOTrainer, hook, lambda self, inputs: dict(out))
    trainer = object.__new__(_grpo_trainer_class())
    trainer.model = SimpleNamespace(training=True)
    trainer.accelerator = SimpleNamespace(gather=lambda x: x)
    trainer._metrics = {"train": {"frac_reward_zero_std": [0.0]}}
    rows = [dict(question_id=f"q{i // 4}") for i in range(len(advantages))]
    return trainer, getattr(trainer, hook)(rows)


def test_what_teaches_nothing_is_masked(monkeypatch):
    "Eight times 0.97142857 have a mean that is none of them."
    trainer, out = play_without_a_model(monkeypatch, [6e-4] * 4 + [-1.0, 1.0, 1.0, -1.0])
    assert out["num_items_in_batch"] == 20
    assert trainer._metrics["train"]["frac_reward_zero_std"] == [0.5]
    # Policy loss, KL term and their denominator speak of the same tokens
    _, out = play_without_a_model(monkeypatch, [0.0] * 4 + [-1.0, 1.0, 0.0, 0.0])
    assert out["tool_mask"].sum(1).tolist() == [0] * 4 + [5, 5, 0, 0]
    assert out["num_items_in_batch"] == out["tool_mask"].sum()


def small_grpo(trainer_class, folder, qwen, questions, reward, lora=None, **settings):
    "A trainer of TRL's kind without an environment."
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    quiet = dict(logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True)
    cpu = dict(bf16=False, gradient_checkpointing=False, per_device_train_batch_size=16)
    return trainer_class(
        model=AutoModelForCausalLM.from_pretrained(qwen),
        args=trl.GRPOConfig(output_dir=str(folder), **quiet, **cpu, **settings),
        train_dataset=Dataset.from_list(prompt_rows(questions)),
        processing_class=AutoTokenizer.from_pretrained(qwen),
        peft_config=lora,
        reward_funcs=[reward],
    )


def played_once(folder, qwen, told, trainer_class):
    "What is logged of one step: 4 groups of 8 rollouts of which `told` differ, LoRA away from zero."
    from peft import LoraConfig

    size = dict(gradient_accumulation_steps=2, num_generations=8, max_completion_length=24)
    trainer = small_grpo(
        trainer_class,
        folder,
        qwen,
        load("bundled", split="train")[:8],
        lambda prompts, **kw: [float(i % 2) if i < 8 * told else 0.0 for i in range(len(prompts))],
        LoraConfig(task_type="CAUSAL_LM", **COLAB.lora),
        **dict(size, max_steps=1, beta=0.02, max_grad_norm=1e9),
    )
    generator = torch.Generator().manual_seed(1)
    for name, weights in trainer.model.named_parameters():
        if "lora_B" in name:
            weights.data.copy_(torch.randn(weights.shape, generator=generator) * 0.02)
    torch.manual_seed(3)
    trainer.train()
    return next(line for line in trainer.state.log_history if "loss" in line)


@pytest.mark.slow
@pytest.mark.parametrize("told", [0, 1, 8])
def test_the_kl_term_does_not_explode_when_groups_tie(tmp_path, qwen, told):
    "With `told` groups of four that differ; on a8720f3 the gradient of none was 6,000 times that of TRL."
    ours, trls = (played_once(tmp_path, qwen, told, made) for made in (_grpo_trainer_class(), trl.GRPOTrainer))
    groups = 4 / max(told, 1) if told < 4 else 1
    assert ours["kl"] is None or abs(ours["kl"]) < 0.1
    assert ours["grad_norm"] <= trls["grad_norm"] * groups * 1.1 + 1e-6
    if told == 0:
        assert ours["grad_norm"] == 0 < trls["grad_norm"]


MACHINES = [(None, "fp32"), ((), "bf16"), ((7, 5), "fp16"), ((8, 9), "bf16"), ((9, 0), "bf16")]


@pytest.mark.parametrize("capability, precision", MACHINES)
def test_a_machine_computes_in_what_it_has(monkeypatch, capability, precision):
    "A T4 (7.5) has no bf16, a processor (none) may have it; trained weights are in float32 wherever."
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: capability is not None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(capability))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *a, **k: True)  # it emulates
    made = _trainer_settings(COLAB, COLAB.stages[-1])
    assert (made["bf16"], made["fp16"]) == (precision == "bf16", precision == "fp16")
    half = dict(fp32="float32", fp16="float16", bf16="bfloat16")[precision]
    assert (runs._weights_dtype(COLAB), runs._weights_dtype(CLUSTER)) == (half, "float32")


@pytest.mark.slow
def test_both_kinds_of_stage_leave_a_model_and_metrics_and_no_other_recipe_goes_on(tiny_run):
    lines = read_history(tiny_run.folder)
    assert {line["stage"] for line in lines} == {"sft", "grpo"}
    assert any("loss" in line for line in lines if line["stage"] == "sft")
    played = [line for line in lines if "frac_reward_zero_std" in line]
    assert played and all("sql_env/correct" in line for line in played)
    alike = [line for line in played if line["frac_reward_zero_std"] == 1]
    assert all(line["grad_norm"] == 0 for line in alike), "nothing in the denominator either"
    for stage in TINY.stages:
        folder = tiny_run.model_path(stage.name)
        assert (folder / "model.safetensors").exists()
        assert load_model_settings(folder) == recipes._evaluation_settings(TINY, stage)
    assert not [*tiny_run.folder.rglob("checkpoint-*"), *tiny_run.folder.glob("*/README.md")]
    train(TINY, tiny_run.folder, threads=1)  # nothing is left to do
    assert read_history(tiny_run.folder) == lines
    assert "trl" in (tiny_run.model_path("grpo") / "README.md").read_text()
    wrong = {"holds another run .other seed": dict(seed=1), "0 to 99, not 100": dict(seed=100)}
    wrong |= {"holds another run .other stages": dict(recipe=recipes.scale_recipe(TINY, 2))}
    for says, options in (wrong | {"no stage 'x'; there are sft, grpo": dict(stages=["x"])}).items():
        with pytest.raises(ValueError, match=says):
            train(**dict(recipe=TINY, folder=tiny_run.folder) | options)


def largest_difference(a: Run, b: Run) -> float:
    "Between the weights of two models of the stage sft."
    from safetensors.torch import load_file

    one, two = (load_file(r.model_path("sft") / "model.safetensors") for r in (a, b))
    assert one.keys() == two.keys()
    return max((one[k] - two[k]).abs().max().item() for k in one)


IMPORTS = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"


@pytest.mark.slow
@pytest.mark.full
def test_two_processes_learn_what_one_learns(tmp_path):
    "As on several GPUs; each has half of the batch, and one of them keeps model, metrics and checkpoints."
    at_random = dict(train_sampling_strategy="random")  # rows meet by chance, not by length
    whole, half = (
        replace(TINY, make_trainers={}, sft=TINY.sft | at_random | dict(per_device_train_batch_size=n))
        for n in (4, 2)  # with TRL's trainer: nano's own makes batches of equally many tokens
    )
    one = train(whole, tmp_path / "one", threads=1, stages=["sft"])
    (tmp_path / "recipe.pkl").write_bytes(pickle.dumps(half))
    script, recipe = tmp_path / "work.py", f"pickle.load(open({str(tmp_path / 'recipe.pkl')!r}, 'rb'))"
    code = f"train({recipe}, {str(tmp_path / 'two')!r}, threads=1)\n"
    script.write_text(f"{IMPORTS}import pickle, tiny_trl\nfrom sql_env.training.run import train\n{code}")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    subprocess.run([sys.executable, *launch], check=True)
    two = Run(half, tmp_path / "two")
    assert largest_difference(one, two) < 1e-3
    lines = [(m["stage"], m["step"]) for m in read_history(two.folder) if "loss" in m]
    assert lines == sorted(set(lines), key=lambda x: (x[0] == "grpo", x[1]))
    assert ("grpo", 1) in lines
    assert two.model_path("grpo").exists() and not list(two.folder.rglob("checkpoint-*"))


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_like_one_that_was_not(tiny_run, tmp_path):
    "kill -9 at the first checkpoint; the same command ends with the same weights."
    folder = tmp_path / "run"
    code = f"""{IMPORTS}
import os, tiny_trl
from transformers import TrainerCallback
from sql_env.training.run import train

class Killed(TrainerCallback):
    def on_save(self, *args, **kwargs):
        os.kill(os.getpid(), 9)

train(tiny_trl.tiny_recipe(), {str(folder)!r}, threads=1, stages=["sft"], callbacks=[Killed()])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == -9, done.stderr[-800:]
    (kept,) = folder.glob("sft/checkpoint-*")
    half = kept.with_name("checkpoint-9")  # Ctrl-C came while it was written
    half.mkdir()
    (half / "config.json").touch()
    assert not (folder / "sft/model").exists()
    again = train(TINY, folder, threads=1, stages=["sft"])
    assert largest_difference(tiny_run, again) < 1e-4
    steps = [m["step"] for m in read_history(folder) if "loss" in m]
    assert steps == sorted(set(steps))


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    "The folder of a tiny random Qwen3 with its tokenizer."
    return save_tiny_qwen(tmp_path_factory.mktemp("qwen"))


@pytest.mark.slow
def test_the_recipe_for_colab_with_a_tiny_qwen_and_own_questions(tmp_path, qwen):
    "LoRA, both stages: an adapter that the next one trains on, measured on questions kept out."
    from transformers import TrainerCallback  # slow to load

    from sql_env.policies.local import load_weights

    best = []

    class KeepsBest(TrainerCallback):
        "Notes the checkpoint that each stage ends with."

        def on_train_end(self, args, state, control, **kwargs):
            best.append(state.best_model_checkpoint)

    folder = save_question_set(load("bundled", split="train").sample(30), tmp_path / "mine")
    made = small_colab(qwen, **{"data": f"folder:{folder}=16", "args.max_steps": 1})
    made = replace(made, grpo=made.grpo | dict(max_tool_calling_iterations=2))
    run = train(made, tmp_path / "run", threads=1, callbacks=[KeepsBest()])
    assert len(best) == 2 and None not in best
    assert list(run.folder.glob("grpo/completions/*.parquet")), "what the model wrote can be read"
    folders = [qwen, run.model_path("sft"), run.model_path("grpo")]
    states = [load_weights(f, qwen)[0].state_dict() for f in folders]
    for before, after in zip(states, states[1:]):
        assert before.keys() == after.keys()
    assert any(not torch.equal(states[0][k], states[1][k]) for k in states[0])
    lines = read_history(run.folder)
    assert any("eval_loss" in line for line in lines if line["stage"] == "sft")
    assert any("eval_reward" in line for line in lines if line["stage"] == "grpo")
    assert runs.evaluate_checkpoint(run.model_path("grpo"), ["level 1"], 2)["level 1"].n_episodes == 2
    assert load_model_settings(run.model_path("grpo"))["system"] == SYSTEM_PROMPT


def test_a_turn_of_play_has_an_end_of_its_own_and_a_stage_may_play_by_other_rules(tmp_path):
    "A model that never stops writing is cut off in each turn, not first at the end of the episode."
    short = replace(TINY, turn_tokens=7)
    model, tok = Run(short, tmp_path).load_start(short.stages[0])
    trainer = grpo_trainer(short, short.stages[1], model, tok, tmp_path)
    assert trainer.generation_config.max_new_tokens == 7
    for recipe, stage in ((r, s) for r in RECIPES.values() for s in r.stages if s.method == "grpo"):
        name = "max_tokens" if recipe is CLUSTER else "max_new_tokens"
        assert _trainer_settings(recipe, stage)["generation_kwargs"] == {name: recipe.turn_tokens}
    stage = replace(TINY.stages[1], env=dict(budget=6))
    trainer = grpo_trainer(TINY, stage, model, tok, tmp_path)
    player = trainer.environment_factories[None]()
    player.reset(**trainer.train_dataset[0])
    assert player.session.observation.budget_remaining == 6


# Two stages continue `few`
STAGES = Stage("copy", "sft"), Stage("few", "sft"), Stage("grpo", "grpo"), Stage("all", "sft", start="few")
BRANCHED = replace(NANO, stages=STAGES)


def test_a_run_knows_its_stages_and_writes_down_json(tmp_path, own_folder):
    run = Run(BRANCHED, tmp_path)
    assert [[s.name for s in run.lineage(x)] for x in ("all", "copy")] == [["copy", "few", "all"], ["copy"]]
    assert [run.stage_seed(s) for s in BRANCHED.stages] == [0, 100, 200, 300]
    late = replace(BRANCHED.stages[1], seed=700)
    assert Run(BRANCHED, tmp_path / "b", seed=2).stage_seed(late) == 702
    # And `all` draws what it drew when the model that ships was trained
    run = Run(NANO, tmp_path / "nano")
    seeds = {stage.name: run.stage_seed(stage) for stage in NANO.stages}
    assert len(set(seeds.values())) == len(seeds) and seeds["all"] == 400
    assert NANO.stages[-1].name == "all", "trained if no stage is named"
    # Functions by their names, questions by a hash, and no gold
    mine = load("folder", own_folder)
    changed = change_recipe(NANO, dict(data=mine))
    text = json.dumps(recipes.describe_recipe(changed))
    assert "sql_env.nano" in text and "SELECT" not in text
    assert text != json.dumps(recipes.describe_recipe(change_recipe(NANO, dict(data=mine[:5]))))
    Run(NANO, tmp_path / "changed")
    Run(changed, tmp_path / "changed").model_path("copy").mkdir(parents=True)  # the other had not begun
    Run(changed, tmp_path / "changed")
    with pytest.raises(ValueError, match="holds another run .other stages"):
        Run(change_recipe(NANO, dict(data=mine[:5])), tmp_path / "changed")


def test_a_stage_brings_those_it_continues(tmp_path, monkeypatch):
    "Branches that nobody asked for are not trained, and nothing is trained twice."
    trained = []

    def run_stage(run, stage):
        trained.append(stage.name)
        run.model_path(stage.name).mkdir(parents=True)
        (run.model_path(stage.name) / "config.json").write_text("{}")

    monkeypatch.setattr("sql_env.training.run._run_stage", run_stage)
    train(BRANCHED, tmp_path)
    assert trained == ["copy", "few", "all"]
    train(BRANCHED, tmp_path, stages=["grpo", "few"])
    assert trained == ["copy", "few", "all", "grpo"]
    train(BRANCHED, tmp_path / "another", stages=["grpo"])
    assert trained[4:] == ["copy", "few", "grpo"]


def test_memory_advice_names_the_setting_and_vllm_is_missed_before_anything_is_trained(tmp_path):
    assert "max_completion_length" in runs._memory_advice(MemoryError(), "grpo")
    assert runs._memory_advice(ValueError("no"), "grpo") == ""
    with pytest.raises(ModuleNotFoundError, match=r"sql_env\[vllm\]"):
        train(change_recipe(COLAB, {"grpo.use_vllm": True}), tmp_path)
    assert not (tmp_path / "sft").exists()


def test_a_model_is_evaluated_by_the_settings_in_its_folder(monkeypatch, tmp_path):
    "By the defaults if it has none; and a suite may allow fewer steps."
    asked = []
    monkeypatch.setattr(runs, "evaluate", lambda env, policy, **options: asked.append((env.reset(), policy)))
    runs.evaluate_checkpoint(tmp_path, ["level 1"], 2)
    own = recipes._evaluation_settings(NANO, replace(NANO.stages[0], schema_level="full"))
    (tmp_path / MODEL_SETTINGS_FILE).write_text(json.dumps(own | dict(budget=11)))
    suites = ["level 1", "level 1, eight steps"]
    runs.evaluate_checkpoint(tmp_path, suites, 2)
    [(names, bare), (schema, policy), (few, _)] = asked
    assert "(" not in names.schema_info and "\n  " in schema.schema_info
    assert (bare.max_chars, bare.system) == (1000, SYSTEM_PROMPT)
    assert (policy.nudges, policy.patience, policy.max_chars, policy.system) == (0, 3, 600, "")
    assert policy.backend.max_new_tokens == 100, "as in play"
    assert (schema.budget_remaining, few.budget_remaining) == (11, 8)
    many, few = ([q.question_id for q in suite_questions(suite, 3)] for suite in suites)
    assert many == few
    with pytest.raises(ValueError, match="no evaluation suite 'x'; there are level 1"):
        suite_questions("x")


class StandIn:
    "Answers each question with the next of the messages that are given for it."

    name, settings = "stand-in", {}

    def __init__(self, messages):
        self.messages = messages

    def select_action(self, observation):
        return "ANSWER", ""

    def complete_many(self, conversations, tools, seeds=()):
        out = []
        for messages in conversations:
            turn = sum(m["role"] == "assistant" for m in messages)
            message = self.messages[messages[1]["content"]][turn]
            out.append(Completion(dict(message), {}, False))
        return out


def test_the_turns_of_the_expert_are_right_in_all_episodes():
    "Mistakes and repairs too."
    questions = suite_questions("level 2", 12)
    transcripts = nano.expert_transcripts(questions, budgets=(15, 15))
    messages = {t[1]["content"]: [m for m in t if m["role"] == "assistant"] for t in transcripts}
    policy = ChatPolicy(StandIn(messages), nudges=0, max_chars=600, system="")
    result = evaluate(EpisodeEnv(questions), policy, batch=12, progress=False)
    assert result.success_rate == 1 and set(runs._suite_row(result)["correct"]) == {"1"}


def test_a_card_holds_the_last_results_and_a_push_needs_a_model_and_a_token(tmp_path, monkeypatch):
    run = Run(NANO, tmp_path)
    run.model_path("few").mkdir(parents=True)
    card = run.model_path("few") / "README.md"
    card.write_text("---\nlibrary_name: transformers\n---\n")
    row = dict(suite="level 1", success=0.5, low=0.4, high=0.6, n=100)
    for rate in (0.25, 0.5):
        runs.write_card(run, "few", [row | dict(success=rate)])
    assert "50.0% | 40.0% to 60.0% | 100" in card.read_text() and "25.0%" not in card.read_text()
    assert card.read_text().startswith("---\nlibrary_name") and "`sql_env train nano --seed 0`" in card.read_text()
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(ValueError, match="no Hub token"):
        runs.push_to_hub(run, "few", "someone/x")


@pytest.mark.slow
def test_the_code_of_a_card_runs(tiny_run):
    runs.write_card(tiny_run, "sft", [])
    code = (tiny_run.model_path("sft") / "README.md").read_text().rpartition("again:")[2]
    code = code.replace("<this folder>", str(tiny_run.model_path("sft")))
    first, last = code.replace('["level 1"])', '["level 1"], 2)').split("\n", 3)[2:]
    exec(first.strip(), names := {})
    assert eval(last.strip(), names).n_episodes == 2


def unknown_settings(recipe):
    "Settings that TRL does not know."
    known = dict(sft=trl.SFTConfig, grpo=trl.GRPOConfig)
    given = [("grpo" if stage.method == "grpo" else "sft", stage.args) for stage in recipe.stages]
    return [k for m, args in given for k in getattr(recipe, m) | args if k not in known[m].__dataclass_fields__]


def test_recipes_know_only_settings_of_trl_and_batches_hold_whole_groups():
    for recipe in RECIPES.values():
        assert unknown_settings(recipe) == [], recipe.name
        for args in (recipe.grpo | stage.args for stage in recipe.stages if stage.method == "grpo"):
            batch = args["per_device_train_batch_size"] * args.get("gradient_accumulation_steps", 1)
            assert batch % args["num_generations"] == 0, f"{recipe.name}: no whole groups"
    assert list(RECIPES) == ["first", "nano", "small", "colab", "cluster"] and "nix" not in RECIPES


def test_a_stranger_s_recipe_and_model_are_found_by_name(tmp_path, monkeypatch):
    "In a package that was never heard of here: a module, and what its installation leaves beside it."
    (tmp_path / "theirs.py").write_text(
        "from dataclasses import replace\n"
        "from sql_env.training.recipes import COLAB\n"
        "RECIPE = replace(COLAB, name='theirs', mark='theirs.json')\n"
        "def load(folder):\n    return 'their player of ' + folder.name\n"
    )
    info = tmp_path / "theirs-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 0\n")
    kinds = {"recipes": "theirs = theirs:RECIPE", "models": "theirs.json = theirs:load"}
    points = (f"[sql_env.{kind}]\n{line}\n" for kind, line in kinds.items())
    (info / "entry_points.txt").write_text("".join(points))
    monkeypatch.syspath_prepend(tmp_path)
    assert "theirs" in RECIPES and RECIPES["theirs"].name == "theirs"
    with pytest.raises(ValueError, match="theirs has no stage 'x'"):
        train("theirs", tmp_path / "run", stages=["x"])
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "theirs.json").touch()
    assert local_model(tmp_path / "model") == "their player of model"


def test_a_scaled_stage_ends_with_its_rows_and_not_by_the_clock(tmp_path):
    "On ada7898 a fiftieth of the minutes was left too: 1 or 2 steps on a busy machine."
    stage = Stage("x", "sft", "worlds:1=400", options=dict(minutes=2))
    seconds = {}
    for share in (0.02, 1, 3):
        made = recipes.scale_recipe(replace(TINY, stages=(stage,)), share)
        model, tok = TINY.model(0)
        few = replace(made.stages[0], data="worlds:1=8")
        seconds[share] = nano.nano_trainer(TINY, few, model, tok, tmp_path).clock.seconds
    assert seconds == {0.02: 120, 1: 120, 3: 360}


def test_data_for_large_models_are_conversations_and_the_factory_of_a_cluster_can_be_pickled(tmp_path):
    data, kept = recipes.sft_datasets(COLAB, Stage("x", "sft", "worlds:1=4", schema_level="full"), None)
    assert set(data.column_names) == {"messages", "tools"} and len(data) == 4 and kept is None
    # On 91dee7d `train first --source tasks`: Column 'input_ids' doesn't exist
    empty = replace(COLAB, make_rows=lambda *_: [])
    with pytest.raises(SourceError, match="experts could play no question of stage 'x'"):
        recipes.sft_datasets(empty, Stage("x", "sft", "worlds:1=4"), None)
    stage = Stage("x", "grpo", "worlds:1=4")
    model, tok = TINY.model(0)
    factory = grpo_trainer(TINY, stage, model, tok, tmp_path).environment_factories[None]
    assert isinstance(pickle.loads(pickle.dumps(factory))(), SQLEnvTRL)


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory):
    "A folder of 40 questions with splits, as a user has it."
    questions = load("bundled", split="train").sample(40)
    return save_question_set(questions, tmp_path_factory.mktemp("data") / "mine")


def test_a_stage_learns_from_any_source_but_not_from_a_test_split_or_two_databases_of_one_name(own_folder, tmp_path):
    "Data are read from a text, and other texts say what to write."
    for text, parts in (
        ("bundled:train", [("bundled", dict(split="train"), None)]),
        ("spider:train=20", [("spider", dict(split="train"), 20)]),
        ("folder:my data=a=3", [("folder", dict(path="my data=a"), 3)]),
        ("bundled:train=20@a b.txt", [("bundled", dict(split="train", ids="a b.txt"), 20)]),
        ("folder:me@home", [("folder", dict(path="me@home"), None)]),
        ("worlds:1=3,2=4@x.txt", [("worlds", dict(level=k, ids="x.txt"), n) for k, n in ((1, 3), (2, 4))]),
        (" bird:x + folder:a+b ", [("bird", dict(path="x"), None), ("folder", dict(path="a+b"), None)]),
    ):
        assert recipes.parse_data(text) == parts
    for text in ("", "worlds", "worlds:6=3", "worlds:1", "spyder:train", "folder:"):
        with pytest.raises(SourceError, match="worlds:1=300,2=600"):
            recipes.parse_data(text)
    mine = load("folder", own_folder)
    sizes = {f"folder:{own_folder}": 40, f"folder:{own_folder}=7 + worlds:1=5": 12}
    sizes |= {"bundled:train=9": 9, "worlds:1=5,2=6": 11}
    assert {text: len(_stage_questions(Stage("x", "sft", text))) for text in sizes} == sizes
    assert _stage_questions(Stage("x", "sft", mine)) is mine
    assert len(_stage_questions(Stage("x", "sft", lambda seed: mine.sample(3 + seed)), 2)) == 5
    assert len(_stage_questions(Stage("x", "sft", mine, share=0.5))) == 20
    drawn = [q for k in (1, 2) for q in load("worlds", level=k, split="train", n=6, seed=17)]
    (tmp_path / "band.txt").write_text("\n".join(q.question_id for q in drawn[::3]) + "\n")
    found = _stage_questions(Stage("x", "grpo", f"worlds:1=6,2=6@{tmp_path / 'band.txt'}"), 3)
    assert list(found) == drawn[::3], "whatever the seed of the stage"
    made = [_stage_questions(Stage("x", m, "worlds:1=8"), 3) for m in ("sft", "grpo")]
    assert not {q.question_text for q in made[0]} & {q.question_text for q in made[1]}
    folder = save_question_set(load("bundled", split="test").sample(5), tmp_path / "tested")
    with pytest.raises(SourceError, match="only questions of the split 'test'"):
        _stage_questions(Stage("x", "sft", f"folder:{folder}"))
    shutil.copytree(own_folder, tmp_path / "copy")
    with pytest.raises(SourceError, match="have the id|have the name"):
        _stage_questions(Stage("x", "sft", f"folder:{own_folder} + folder:{tmp_path / 'copy'}"))


@law(40)
@given(n=st.integers(0, 60), size=st.integers(1, 40), seed=st.integers(0, 3))
def test_validation_takes_no_question_from_training(n, size, seed):
    questions = load("bundled", split="train").sample(size, seed)
    learned, kept = recipes._split_validation(questions, n, seed)
    assert len(kept) == min(n, size // 5)
    assert not {q.question_id for q in learned} & {q.question_id for q in kept}
    assert len(learned)


def test_rows_are_what_play_shows(own_folder):
    "The same system prompt, budget and length of tool results: on a8720f3 rows had the defaults."
    recipe = replace(COLAB, system="Be brief.", env=dict(max_chars=80, budget=9))
    stage = Stage("x", "sft", f"folder:{own_folder}=12")
    for row in recipes.sft_datasets(recipe, stage, None)[0]:
        first, asked, *rest = row["messages"]
        assert first["content"] == "Be brief." and "9" in asked["content"]
        assert all(len(m["content"]) <= 200 for m in rest if m["role"] == "tool")
    bare = recipes.sft_datasets(replace(recipe, system=""), stage, None)[0][0]
    assert bare["messages"][0]["content"] == ""


def test_a_recipe_is_changed_by_names_and_what_is_none_is_refused(own_folder):
    data = f"folder:{own_folder}"
    settings = {"data": data, "model": "me/mine", "sft.learning_rate": 1e-4, "grpo.learning_rate": 3e-6}
    settings |= {"args.max_steps": 7, "grpo.vllm_mode": "server", "env.budget": 9, "lora.r": 6, "options.minutes": 5}
    made = change_recipe(COLAB, settings | {"validation": 0})
    assert {(s.data, s.args["max_steps"], s.options["minutes"]) for s in made.stages} == {(data, 7, 5)}
    assert (made.sft["learning_rate"], made.grpo["learning_rate"]) == (1e-4, 3e-6)
    assert (made.model, made.env["budget"], made.grpo["vllm_mode"]) == ("me/mine", 9, "server")
    assert (made.lora["r"], made.lora["lora_alpha"], made.validation) == (6, COLAB.lora["lora_alpha"], 0)
    assert unknown_settings(made) == [] and change_recipe(COLAB, {}) == COLAB
    assert change_recipe(SMALL, dict(lora=None)).lora is None
    wrong = {"SFTConfig has no such setting": {"sft.lerning_rate": 1}, "there are model": {"modle": "x"}}
    wrong |= {"budget": {"env.budget": 0}}
    for says, settings in wrong.items():
        with pytest.raises(ValueError, match=says):
            change_recipe(COLAB, settings)
    with pytest.raises(ValueError, match="makes its own model"):
        change_recipe(NANO, dict(model="Qwen/Qwen3-0.6B"))


def test_two_trainings_do_not_share_a_folder(tmp_path, monkeypatch):
    "The second is refused while the first trains, whatever it trains, and changes nothing."
    refused = []

    def run_stage(run, stage):
        before = (tmp_path / "recipe.json").read_text()
        for other in (NANO, COLAB):
            with pytest.raises(ValueError, match="another training") as e:
                train(other, tmp_path)
            refused.append(str(e.value))
        assert (tmp_path / "recipe.json").read_text() == before

    monkeypatch.setattr(runs, "_run_stage", run_stage)
    train(NANO, tmp_path, stages=["copy"])
    assert len(refused) == 2
    train(NANO, tmp_path, stages=["copy"])  # the first is over
    assert len(refused) == 4


def test_a_checkpoint_is_written_each_minute_unless_that_takes_long(tmp_path):
    "Of several processes none does so by a clock of its own; a save of 30 s is not repeated before 10 minutes."
    now, control, args = [0.0], SimpleNamespace(should_save=False), SimpleNamespace(world_size=1)
    saver = runs._minute_callback(lambda: now[0])
    saver.on_train_begin(args, None, control)
    saved = []
    for seconds in range(10, 1300, 10):
        now[0] = float(seconds)
        saver.on_step_end(args, None, control)
        if control.should_save:
            saved.append(seconds)
            now[0] += 30 if len(saved) == 3 else 0
            saver.on_save(args, None, control)
            control.should_save = False
    assert saved[:4] == [60, 120, 180, 810]
    now[0] += 1000
    saver.on_step_end(SimpleNamespace(world_size=2), None, control)
    assert not control.should_save


@pytest.mark.parametrize(
    "kept, told", [((), "Nothing"), (("imitate/checkpoint-20", "imitate/checkpoint-250"), "step 250")]
)
def test_ctrl_c_says_what_is_kept_and_how_it_goes_on(monkeypatch, tmp_path, kept, told):
    from typer.testing import CliRunner

    from sql_env.cli import app

    def interrupted(recipe, folder, *rest):
        for name in kept:
            (folder / name).mkdir(parents=True)
            (folder / name / "trainer_state.json").touch()
        (folder / "imitate/checkpoint-260").mkdir(parents=True)  # its writing was stopped
        raise KeyboardInterrupt

    monkeypatch.setattr("sql_env.training.run.train", interrupted)
    monkeypatch.setattr(sys, "argv", ["sql_env", "train", "first", "--out", "r"])
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["train", "first", "--out", "r"])
    assert done.exit_code == 130 and told in done.output and "sql_env train first --out r" in done.output


def test_after_a_first_training_the_model_plays_what_it_learned(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    from sql_env.cli import app

    monkeypatch.setattr("sql_env.training.run.train", lambda recipe, folder, seed, *_: Run(recipe, folder, seed))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["train", "first", "--evals", "none"])
    assert "evaluate --policy runs/first-0/imitate/model --source worlds\n" in done.output


def test_the_command_trains_on_own_questions(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    from sql_env.cli import app

    asked = []

    def train(recipe, folder, seed, stages, threads):
        asked.append(recipe)
        return Run(recipe, folder, seed)

    monkeypatch.setattr("sql_env.training.run.train", train)
    monkeypatch.chdir(tmp_path)

    def run(*options):
        return CliRunner().invoke(app, ["train", "colab", "--evals", "none", *options])

    options = "--source folder --path mydata --model me/mine --set grpo.learning_rate=2e-6 --set args.max_steps=7"
    options += " --budget 10 --verify robust --actions abstain --reward sparse --schema-level full"
    save_question_set(load("bundled").sample(40), tmp_path / "mydata")
    played = run(*options.split())  # what it says to play next is what it did not learn from
    assert played.exit_code == 0 and "--source folder --path mydata --split=test" in played.output
    play = dict(budget=10, verify="robust", actions="abstain", reward="sparse")
    [recipe] = asked
    told = {"model": "me/mine", "data": "folder:mydata", "grpo.learning_rate": 2e-6, "args.max_steps": 7}
    told = change_recipe(COLAB, told | {"schema_level": "full"} | {f"env.{name}": x for name, x in play.items()})
    assert recipe == told
    assert {stage.schema_level for stage in recipe.stages} == {"full"}
    meant = play | dict(actions=(*ACTIONS, "ABSTAIN"), reward=RewardConfig.sparse())
    assert {name: recipe.env[name] for name in play} == meant
    for wrong in ("--source folder", "--source worlds", "--path nowhere", "--set x", "--set x=1", "--evals x"):
        assert run(*wrong.split()).exit_code != 0
    assert len(asked) == 1


def test_what_trainers_reported_is_read_and_drawn_also_of_a_stage_that_was_stopped(tmp_path):
    run = Run(replace(NANO, stages=(Stage("few", "sft"), Stage("all", "sft"))), tmp_path)
    reported = {"few": [1.0, 0.5], "all/checkpoint-9": [3.0], "all/checkpoint-10": [4.0, 2.0]}
    for name, losses in reported.items():
        (tmp_path / name).mkdir(parents=True)
        lines = [dict(step=i, loss=loss) for i, loss in enumerate(losses)]
        (tmp_path / name / "trainer_state.json").write_text(json.dumps(dict(log_history=lines)))
    found = [(line["stage"], line["loss"]) for line in read_history(run.folder)]
    assert found == [("few", 1.0), ("few", 0.5), ("all", 4.0), ("all", 2.0)]
    [axes] = runs.plot_history(run.folder).axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[1.0, 0.5], [4.0, 2.0]]
    assert runs.plot_history(Run(NANO, tmp_path / "none").folder).axes, "nothing is reported yet"


@pytest.mark.parametrize("epochs, warm", [(2, 1), (40, 10)])
def test_few_steps_are_not_all_warming_up(monkeypatch, tmp_path, epochs, warm):
    monkeypatch.setattr(runs, "_sft_trainer_class", lambda: lambda **given: given["args"])
    questions = load("bundled", split="train").sample(20)
    recipe = change_recipe(RECIPES["small"], {"data": questions, "sft.num_train_epochs": epochs, "validation": 0})
    stage = replace(recipe.stages[0], options={})
    assert runs._sft_trainer(recipe, stage, None, None, tmp_path).warmup_steps == warm


def tutorial_cells(name):
    "The code of a tutorial, but for installing and what is never run, with fewer episodes."
    path = Path(__file__).parents[1] / "nbs" / "tutorials" / f"{name}.ipynb"
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and "#| eval: false" not in source:
            code = source.replace('RECIPE = "small"', 'RECIPE = "colab"').replace("batch=32", "n_episodes=2")
            yield code.replace("HERE if Path(HERE).is_dir() else THERE", "RECIPES['colab'].model")


@pytest.mark.slow
def test_the_tutorials_run_with_the_recipe_for_colab(tmp_path, qwen, monkeypatch):
    "With a tiny model and few questions and steps; on a8720f3: `ValueError: colab has no stage 'copy'`."
    made = small_colab(qwen, **{"data": "bundled:train=48", "args.max_steps": 4})
    small = replace(made, turn_tokens=20, grpo=made.grpo | dict(log_completions=False))
    monkeypatch.setitem(RECIPES, "colab", small)
    monkeypatch.setenv("MPLBACKEND", "agg")
    folder = tmp_path / "nbs" / "tutorials"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    trained, compared = {}, {}
    for code in tutorial_cells("own_model"):
        exec(code, trained)
    assert len(trained["kept"]) == 32 and trained["own"].name == "colab"
    assert list(Path("runs/own/sft/model").glob("*model.safetensors"))
    assert trained["after"].n_episodes == 2
    for code in tutorial_cells("compare_methods"):
        exec(code, compared)
    assert compared["MODEL"].parent.name == "sft" and compared["mine"].n_episodes == 100
