"Training: tokenizer, credit by turns, stages that survive a kill, evaluation suites, cards. Nothing is downloaded."

import copy
import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")
import torch
import trl
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_trl import make_model, make_tokenizer, tiny_recipe

from sql_env.chat import SYSTEM_PROMPT, TOOLS
from sql_env.episode import EpisodeEnv
from sql_env.evaluation import evaluate
from sql_env.policies.base import Completion
from sql_env.policies.chat import ChatPolicy
from sql_env.policies.local import MODEL_SETTINGS_FILE, load_model_settings
from sql_env.training import evals
from sql_env.training.card import model_card, push_to_hub
from sql_env.training.data import sft_datasets, stage_questions
from sql_env.training.evals import (
    evaluate_checkpoint,
    run_evals,
    suite_questions,
    suite_row,
)
from sql_env.training.metrics import (
    MetricsWriter,
    metrics_callback,
    plot_metrics,
    read_metrics,
)
from sql_env.training.nano_expert import expert_transcripts, world_transcripts
from sql_env.training.nano_model import nano_tokenizer, render_transcript
from sql_env.training.nano_recipe import IGNORED, NANO, _tokenize_transcript
from sql_env.training.recipes import (
    CLUSTER,
    COLAB,
    Stage,
    check_recipe,
    evaluation_settings,
    scale_recipe,
)
from sql_env.training.run import RECIPES, Run, _memory_advice, train
from sql_env.training.trainers import (
    _grpo_trainer_class,
    grpo_trainer,
)
from sql_env.trl_adapter import SQLEnvTRL
from sql_env.worlds.world import world_set

TINY = tiny_recipe()


@pytest.fixture(scope="module")
def transcripts():
    return list(world_transcripts({1: 120, 2: 120, 3: 120}))


@pytest.fixture(scope="module")
def tok(transcripts):
    return nano_tokenizer(transcripts)


# ---- the words of the small model


def test_only_calls_that_were_not_refused_are_learned(transcripts, tok):
    refused = 0
    for transcript in transcripts:
        pieces = render_transcript(transcript)
        row = _tokenize_transcript(pieces, tok)
        assert all(label in (i, IGNORED) for i, label in zip(row["input_ids"], row["labels"]))
        assert tok.decode(row["input_ids"]) == "".join(p.text for p in pieces)
        learned = [label for label in row["labels"] if label != IGNORED]
        assert tok.decode(learned) == "".join(p.text for p in pieces if p.is_learned)
        for piece, after in zip(pieces, pieces[1:]):
            if after.text.startswith("<|tool|>"):
                is_error = after.text.startswith("<|tool|>{'error'")
                assert piece.is_learned is not is_error
                refused += is_error
    assert refused > len(transcripts) * 0.08


def with_dicts(message):
    "A message whose arguments are dictionaries, as the template takes them."
    message = copy.deepcopy(message)
    for call in message.get("tool_calls") or ():
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return message


def test_rendered_transcripts_are_what_the_template_writes(transcripts, tok):
    for transcript in transcripts[::7]:
        messages = [with_dicts(m) for m in transcript]
        out = tok.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
        pieces = render_transcript(transcript)
        assert tok.decode(out["input_ids"]) == "".join(p.text for p in pieces)
        written = [i for i, m in zip(out["input_ids"], out["assistant_masks"]) if m]
        by_assistant = [b.text for a, b in zip(pieces, pieces[1:]) if a.text == "<|assistant|>"]
        assert tok.decode(written) == "".join(by_assistant)


def test_trl_takes_the_template(tok):
    from trl.chat_template_utils import (
        get_training_chat_template,
        is_chat_template_prefix_preserving,
    )

    assert is_chat_template_prefix_preserving(tok) and get_training_chat_template(tok) is None


@pytest.fixture(scope="module")
def small_tok():
    return nano_tokenizer(list(world_transcripts({1: 20})))


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(sorted(TOOLS)), argument=st.text(max_size=60))
def test_every_call_is_read_back(small_tok, kind, argument):
    name, parameter = TOOLS[kind]
    if "<|end|>" in argument:
        return
    message = small_tok.parse_response(f"<{name} {parameter}>{argument}<|end|>", prefix="")
    function = dict(name=name, arguments={parameter: argument})
    assert message["tool_calls"] == [dict(type="function", function=function)]


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=80))
def test_any_text_survives_the_tokenizer(small_tok, text):
    assert small_tok.decode(small_tok(text)["input_ids"]) == text


@pytest.mark.parametrize("name", ["quorble", "vistle_no", "Mc Gonde", "WX-2369"])
def test_names_have_the_same_pieces_wherever_they_stand(tok, name):
    def pieces(text):
        out = tok(text, return_offsets_mapping=True)
        start = text.index(name)
        end = start + len(name)
        offsets = zip(out["input_ids"], out["offset_mapping"])
        return [i for i, (a, b) in offsets if start <= a and b <= end]

    for text in (f"SELECT {name} FROM", f"x.{name} = ", f"'{name}'", f"the {name}?"):
        assert pieces(text) == pieces(f"\n{name}\n")


# ---- the private part of TRL that EpisodeGRPO extends


def test_the_private_method_of_trl_is_as_we_know_it():
    "If this fails, TRL has changed: look at EpisodeGRPO before you raise the bound of the train extra."
    method = getattr(trl.GRPOTrainer, "_generate_and_score_completions", None)
    assert method is not None, f"trl {trl.__version__} has lost the method"
    assert list(inspect.signature(method).parameters) == ["self", "inputs"]
    source = inspect.getsource(method)
    for name in ('"advantages"', '"completion_mask"', '"tool_mask"', '"num_items_in_batch"'):
        assert name in source, f"trl {trl.__version__}: no {name} in the method's output"
    for name in ("_metrics", "environments", "num_generations"):
        assert f"self.{name}" in inspect.getsource(trl.GRPOTrainer), (
            f"trl {trl.__version__}: {name}"
        )
    assert 'self._metrics[mode]["frac_reward_zero_std"]' in inspect.getsource(trl.GRPOTrainer)


def test_another_trl_is_refused_in_plain_words(monkeypatch):
    monkeypatch.delattr(trl.GRPOTrainer, "_generate_and_score_completions")
    with pytest.raises(ImportError, match="install the version it was tested with"):
        _grpo_trainer_class()


def test_a_rounding_error_is_no_difference(monkeypatch):
    "Eight times 0.97142857 have a mean that is none of them."
    advantages = torch.tensor([6e-4] * 4 + [-1.0, 1.0, 1.0, -1.0])
    mask = torch.ones(8, 5, dtype=torch.long)
    out = dict(advantages=advantages, completion_mask=mask, num_items_in_batch=None)
    monkeypatch.setattr(
        trl.GRPOTrainer, "_generate_and_score_completions", lambda self, inputs: dict(out)
    )
    trainer = object.__new__(_grpo_trainer_class())
    trainer.model = SimpleNamespace(training=True)
    trainer.accelerator = SimpleNamespace(gather=lambda x: x)
    trainer._metrics = {"train": {"frac_reward_zero_std": [0.0]}}
    assert trainer._generate_and_score_completions([])["num_items_in_batch"] == 20
    assert trainer._metrics["train"]["frac_reward_zero_std"] == [0.5]


# ---- stages


def test_both_kinds_of_stage_leave_a_model_and_metrics(tiny_run):
    lines = read_metrics(tiny_run.metrics)
    assert {line["stage"] for line in lines} == {"sft", "grpo"}
    assert any("loss" in line for line in lines if line["stage"] == "sft")
    assert any("sql_env/correct" in line for line in lines)
    for stage in TINY.stages:
        folder = tiny_run.model_path(stage.name)
        assert (folder / "model.safetensors").exists()
        assert load_model_settings(folder) == evaluation_settings(TINY, stage)
    assert not list(tiny_run.folder.rglob("checkpoint-*"))
    before = tiny_run.metrics.read_text()
    train(TINY, tiny_run.folder, threads=1)  # nothing is left to do
    assert tiny_run.metrics.read_text() == before


def test_groups_without_differences_do_not_count(tiny_run):
    "All rewards alike: no gradient, and nothing in the denominator."
    lines = [m for m in read_metrics(tiny_run.metrics) if "frac_reward_zero_std" in m]
    assert lines and all(m["grad_norm"] == 0 for m in lines if m["frac_reward_zero_std"] == 1)


def test_another_recipe_does_not_go_on_in_the_same_folder(tiny_run):
    with pytest.raises(ValueError, match="holds another run .other stages"):
        train(scale_recipe(TINY, 2), tiny_run.folder)
    with pytest.raises(ValueError, match="holds another run .other seed"):
        train(TINY, tiny_run.folder, seed=1)
    with pytest.raises(ValueError, match="no stage 'x'; there are sft, grpo"):
        train(TINY, tiny_run.folder, stages=["x"])
    with pytest.raises(ValueError, match="0 to 99, not 100"):
        train(TINY, tiny_run.folder, seed=100)


def largest_difference(a: Run, b: Run) -> float:
    "Between the weights of two models of the stage sft."
    from safetensors.torch import load_file

    one, two = (load_file(r.model_path("sft") / "model.safetensors") for r in (a, b))
    assert one.keys() == two.keys()
    return max((one[k] - two[k]).abs().max().item() for k in one)


IMPORTS = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(tmp_path):
    "As on several GPUs; each has half of the batch, and one of them keeps model, metrics and checkpoints."
    at_random = dict(train_sampling_strategy="random")  # rows meet by chance, not by length
    whole, half = (
        replace(TINY, sft=TINY.sft | at_random | dict(per_device_train_batch_size=n))
        for n in (4, 2)
    )
    one = train(whole, tmp_path / "one", threads=1, stages=["sft"])
    (tmp_path / "recipe.pkl").write_bytes(pickle.dumps(half))
    script = tmp_path / "work.py"
    script.write_text(
        IMPORTS
        + "import pickle, tiny_trl\nfrom sql_env.training.run import train\n"
        + f"recipe = pickle.load(open({str(tmp_path / 'recipe.pkl')!r}, 'rb'))\n"
        + f"train(recipe, {str(tmp_path / 'two')!r}, threads=1)\n"
    )
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    subprocess.run([sys.executable, *launch], check=True)
    two = Run(half, tmp_path / "two")
    assert largest_difference(one, two) < 1e-3
    lines = [(m["stage"], m["step"]) for m in read_metrics(two.metrics) if "loss" in m]
    assert lines == sorted(set(lines), key=lambda x: (x[0] == "grpo", x[1]))
    assert ("grpo", 1) in lines
    assert two.model_path("grpo").exists() and not list(two.folder.rglob("checkpoint-*"))


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_like_one_that_was_not(tiny_run, tmp_path):
    "kill -9 after the first checkpoint; the same command ends with the same weights."
    folder = tmp_path / "run"
    code = (
        IMPORTS
        + "import tiny_trl\nfrom sql_env.training.run import train\n"
        + f"train(tiny_trl.tiny_recipe(), {str(folder)!r}, threads=1, stages=['sft'])"
    )
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process = subprocess.Popen([sys.executable, "-c", code], **quiet)
    while process.poll() is None and not list(folder.glob("sft/checkpoint-*/trainer_state.json")):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list(folder.glob("sft/checkpoint-*")) and not (folder / "sft/model").exists()
    again = train(TINY, folder, threads=1, stages=["sft"])
    assert largest_difference(tiny_run, again) < 1e-4
    steps = [m["step"] for m in read_metrics(again.metrics) if "loss" in m]
    assert steps == sorted(set(steps))


@pytest.mark.slow
def test_the_recipe_for_colab_with_a_tiny_qwen(tmp_path):
    "LoRA, all three stages: each leaves a merged model that the next one starts from and an evaluation can load."
    from transformers import AutoModelForCausalLM

    texts = [q.question_text + q.gold_sql for q in world_set("train", level=1, n=8)]
    tok = make_tokenizer(texts)
    make_model(tok).save_pretrained(tmp_path / "base")
    tok.save_pretrained(tmp_path / "base")
    cpu = dict(
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        gradient_accumulation_steps=1,
        max_steps=1,
    )
    small = scale_recipe(COLAB, 0.01)
    small = replace(
        small,
        model=str(tmp_path / "base"),
        stages=tuple(replace(s, args={}) for s in small.stages),
        sft=small.sft | cpu | dict(per_device_train_batch_size=2, warmup_steps=0),
        grpo=small.grpo | cpu | dict(max_completion_length=60, max_tool_calling_iterations=2),
    )
    run = train(small, tmp_path / "run")
    folders = [tmp_path / "base", run.model_path("full"), run.model_path("names")]
    states = [AutoModelForCausalLM.from_pretrained(f).state_dict() for f in folders]
    for before, after in zip(states, states[1:]):
        assert before.keys() == after.keys()
        assert any(not torch.equal(before[k], after[k]) for k in before)
    assert run_evals(run, ["grpo"], ["level 1"], n=2)[0]["n"] == 2


def test_a_turn_of_play_has_an_end_of_its_own(tmp_path):
    "A model that never stops writing is cut off in each turn, not first at the end of the episode."
    short = replace(TINY, grpo=TINY.grpo | dict(generation_kwargs=dict(max_new_tokens=7)))
    model, tok = Run(short, tmp_path).load_start(short.stages[0])
    trainer = grpo_trainer(short, short.stages[1], model, tok, tmp_path)
    assert trainer.generation_config.max_new_tokens == 7
    assert NANO.grpo["generation_kwargs"]["max_new_tokens"] == 100


def test_a_stage_may_play_by_other_rules(tmp_path):
    stage = replace(TINY.stages[1], env=dict(budget=6))
    model, tok = Run(TINY, tmp_path).load_start(TINY.stages[0])
    trainer = grpo_trainer(TINY, stage, model, tok, tmp_path)
    player = trainer.environment_factories[None]()
    player.reset(**trainer.train_dataset[0])
    assert player.rollout.observation.budget_remaining == 6


def test_a_run_knows_its_stages(tmp_path):
    run = Run(NANO, tmp_path)
    assert [s.name for s in run.lineage("all")] == ["copy", "few", "all"]
    assert [s.name for s in run.lineage("copy")] == ["copy"]
    assert [run.stage_seed(s) for s in NANO.stages] == [0, 100, 200, 300]


@pytest.mark.parametrize(
    "error, said",
    [
        (RuntimeError("CUDA out of memory. Tried"), "max_completion_length"),
        (MemoryError(), "max_completion_length"),
        (ValueError("no"), ""),
    ],
)
def test_memory_advice_names_the_setting(error, said):
    advice = _memory_advice(error, "grpo")
    assert said in advice and bool(advice) == bool(said)


# ---- evaluation suites


def test_results_are_kept_once_and_make_a_card(tiny_run):
    rows = run_evals(tiny_run, ["sft"], ["level 1"], n=6)
    assert [(r["exam"], r["n"], len(r["correct"])) for r in rows] == [("level 1", 6, 6)]
    assert run_evals(tiny_run, ["sft"], ["level 1"], n=6) == rows
    assert "| level 1 | 0.0%" in model_card(tiny_run, "sft")


def test_unknown_suites_are_named():
    with pytest.raises(ValueError, match="no evaluation suite 'x'; there are level 1"):
        suite_questions("x")


@pytest.fixture
def asked(monkeypatch):
    "What `evaluate` was asked to do by `evaluate_checkpoint`, which plays nothing."
    calls = []

    def evaluate(env, policy, **options):
        calls.append((env.reset(), policy))
        return

    monkeypatch.setattr(evals, "evaluate", evaluate)
    return calls


@pytest.fixture
def folder_with_settings(tmp_path):
    "A folder that holds settings and no model."

    def make(**settings):
        (tmp_path / MODEL_SETTINGS_FILE).write_text(json.dumps(settings))
        return tmp_path

    return make


def test_a_model_is_evaluated_by_the_settings_in_its_folder(asked, folder_with_settings):
    shown = replace(NANO.stages[0], schema_level="full")
    folder = folder_with_settings(**evaluation_settings(NANO, shown))
    evaluate_checkpoint(folder, ["level 1"], 2)
    [(observation, policy)] = asked
    assert "\n  " in observation.schema_info, "the whole schema is shown"
    assert (policy.nudges, policy.patience, policy.max_chars, policy.system) == (0, 3, 600, "")
    assert policy.backend.max_new_tokens == 100, "as in play"


def test_a_model_without_settings_is_evaluated_by_the_defaults(asked, tmp_path):
    evaluate_checkpoint(tmp_path, ["level 1"], 2)
    [(observation, policy)] = asked
    assert "(" not in observation.schema_info
    assert (policy.max_chars, policy.system) == (1000, SYSTEM_PROMPT)


def test_a_suite_may_allow_fewer_steps(asked, folder_with_settings):
    folder = folder_with_settings(**evaluation_settings(NANO, NANO.stages[0]), budget=11)
    suites = ["level 1", "level 1, eight steps"]
    evaluate_checkpoint(folder, suites, 2)
    assert [observation.budget_remaining for observation, _ in asked] == [11, 8]
    many, few = ([q.question_id for q in suite_questions(suite, 3)] for suite in suites)
    assert many == few


def test_each_stage_is_evaluated_as_it_was_trained(monkeypatch, tmp_path):
    asked = []

    def evaluate_checkpoint(model, suites, n, settings):
        asked.append((model.parent.name, settings["system"], settings["schema_level"]))
        return {suites[0]: result}

    result = evaluate(suite_questions("level 1", 2), StandIn({}), progress=False)
    monkeypatch.setattr(evals, "evaluate_checkpoint", evaluate_checkpoint)
    stages = (Stage("names", "sft"), Stage("full", "sft", schema_level="full"))
    run = Run(replace(NANO, stages=stages), tmp_path)
    rows = run_evals(run, ["names", "full"], ["level 1"], n=2)
    assert asked == [("names", "", "names"), ("full", "", "full")]
    assert [r["stage"] for r in rows] == ["names", "full"]
    assert "| level 1 | 0.0% | 0.0% to" in model_card(run, "full")


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
    messages = {
        transcript[1]["content"]: [m for m in transcript if m["role"] == "assistant"]
        for transcript in expert_transcripts(questions)
    }
    policy = ChatPolicy(StandIn(messages), nudges=0, max_chars=600, system="")
    result = evaluate(EpisodeEnv(questions), policy, batch=12, progress=False)
    assert result.success_rate == 1 and set(suite_row(result)["correct"]) == {"1"}


# ---- cards


def test_a_card_has_the_form_of_the_hub(tmp_path):
    shown = replace(NANO.stages[0], name="full", schema_level="full")
    card = model_card(Run(replace(NANO, stages=(shown,)), tmp_path), "full")
    assert card.startswith("---\nlibrary_name") and "the schema of a database" in card
    assert "`sql_env train nano --seed 0`" in card and "| not evaluated yet |" in card


def test_the_code_of_a_card_runs(tiny_run):
    code = model_card(tiny_run, "sft").rpartition("again:")[2]
    code = code.replace("<this folder>", str(tiny_run.model_path("sft")))
    first, last = code.replace('["level 1"])', '["level 1"], 2)').split("\n", 3)[2:]
    exec(first.strip(), names := {})
    assert eval(last.strip(), names).n_episodes == 2


def test_a_card_counts_the_stages_behind_its_model(tmp_path):
    run = Run(NANO, tmp_path)
    lines = [
        dict(stage=stage.name, step=1, seconds=60 * 10**i) for i, stage in enumerate(NANO.stages)
    ]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "in 1011 minutes" in model_card(run, "all")
    assert "in 111 minutes" in model_card(run, "grpo")


def test_push_needs_a_model_and_a_token(tmp_path, monkeypatch):
    run = Run(NANO, tmp_path)
    run.model_path("few").mkdir(parents=True)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(ValueError, match="no Hub token"):
        push_to_hub(run, "few", "someone/x")
    with pytest.raises(ValueError, match="no model of stage all"):
        push_to_hub(run, "all", "someone/x")


# ---- recipes


def test_recipes_know_only_settings_of_trl():
    assert [check_recipe(r) for r in RECIPES.values()] == [[], [], []]
    bad = replace(NANO, sft=NANO.sft | dict(nonsense=1))
    assert check_recipe(bad) == [f"{name}: nonsense" for name in ("copy", "few", "all")]


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda r: r.name)
def test_grpo_batches_hold_whole_groups(recipe):
    for stage in recipe.stages:
        if stage.method == "grpo":
            args = recipe.grpo | stage.args
            steps = args.get("gradient_accumulation_steps", 1)
            batch = args["per_device_train_batch_size"] * steps
            assert batch % args["num_generations"] == 0


def test_data_for_large_models_are_conversations():
    data, kept = sft_datasets(COLAB, Stage("x", "sft", "worlds:1=4", schema_level="full"), None)
    assert set(data.column_names) == {"messages", "tools"} and len(data) == 4 and kept is None


def test_the_factory_of_a_cluster_can_be_pickled():
    from sql_env.training.trainers import trl_environment_factory

    stage = Stage("x", "grpo", "worlds:1=4")
    factory = trl_environment_factory(CLUSTER, stage, stage_questions(stage))
    assert isinstance(pickle.loads(pickle.dumps(factory))(), SQLEnvTRL)


# ---- metrics


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_metrics_cut_off_in_a_line_are_read(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"stage": "a", "step": 1}\n{"stage": "a", "st')
    assert read_metrics(path) == [{"stage": "a", "step": 1}]
    assert plot_metrics(path).axes


def test_a_resumed_stage_drops_what_is_reported_again(tmp_path):
    lines = [dict(stage=s, step=i, seconds=10.0 * i) for s in ("few", "all") for i in (1, 2, 3)]
    path = write_lines(tmp_path / "m", lines)
    writer = MetricsWriter(path, "all")
    writer.begin(step=2)
    assert read_metrics(path) == lines[:5]
    assert writer.seconds >= 20


def test_kinds_of_errors_share_a_panel(tmp_path):
    "A kind that a step did not see counts as 0 there."
    kinds = {1: "unknown_column", 2: "syntax", 3: "unknown_column"}
    counts = dict(unknown_column=1.0, syntax=3.0)
    lines = [
        {"stage": "grpo", "step": i, "reward": 0.1 * i, f"sql_env/error/{kind}": counts[kind]}
        for i, kind in kinds.items()
    ]
    ax = plot_metrics(write_lines(tmp_path / "m", lines)).axes[-1]
    drawn = [list(line.get_ydata()) for line in ax.lines if line.get_alpha()]
    assert drawn == [[0, 3.0, 0], [1.0, 0, 1.0]]
    assert [x.get_text() for x in ax.get_legend().texts] == ["syntax", "unknown_column"]


def test_the_loss_of_play_is_not_drawn(tmp_path):
    lines = [dict(stage="few", step=1, loss=1.0), dict(stage="grpo", step=1, loss=0.1, reward=0.0)]
    loss, reward = plot_metrics(write_lines(tmp_path / "m", lines)).axes
    assert [len(ax.lines) // 2 for ax in (loss, reward)] == [1, 1]


def test_the_curve_says_how_long_it_takes(tmp_path):
    shown = []

    def show(path, title, now=False):
        shown.append((title, now))

    writer = MetricsWriter(tmp_path / "m", "few", show)
    callback = metrics_callback(writer)
    state = SimpleNamespace(global_step=0, max_steps=1000, is_world_process_zero=True)
    callback.on_train_begin(None, state, None)
    writer.start -= 600
    state.global_step = 250
    callback.on_log(None, state, None, {"loss": 1.0, "note": "no number"})
    callback.on_train_end(None, state, None)
    assert shown == [
        ("few: step 250 of 1,000, 30 min left", False),
        ("few: 250 steps in 10 min", True),
    ]
    assert set(read_metrics(writer.path)[0]) == {"stage", "step", "seconds", "loss"}


def test_other_processes_write_nothing(tmp_path):
    callback = metrics_callback(MetricsWriter(tmp_path / "m", "few"))
    state = SimpleNamespace(global_step=1, max_steps=9, is_world_process_zero=False)
    callback.on_train_begin(None, state, None)
    callback.on_log(None, state, None, {"loss": 1.0})
    callback.on_train_end(None, state, None)
    assert not os.path.exists(tmp_path / "m")
