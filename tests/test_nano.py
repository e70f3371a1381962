"The small model: what plays without torch is what torch trained, and what ships is what was trained."

import json
import os
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from nano import save_int8
from safetensors.numpy import load_file
from tables import cases

from sql_env import ChatPolicy, EpisodeEnv, SourceError, evaluate, load
from sql_env.cli.app import make_policy
from sql_env.nano import engine as nano_engine
from sql_env.nano.engine import NANO_WEIGHTS, NanoEngine, NanoModel, NanoPolicy, load_weights
from sql_env.nano.text import ROLE_TOKENS, NanoTokenizer, parse_written, render_transcript
from sql_env.nano.training import NANO, new_nano, world_transcripts
from sql_env.play.chat import initial_messages
from sql_env.policies.local import LocalModel
from sql_env.training.run import save_model


@pytest.fixture(scope="module")
def transcripts():
    return list(world_transcripts({1: 40, 2: 40, 3: 20}, seed=4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    "A model of training's making, with random weights."
    path = tmp_path_factory.mktemp("nano") / "model"
    save_model(*new_nano(seed=3, width=64), path, NANO, NANO.stages[0])
    return path


@pytest.fixture(scope="module")
def library(folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    return model, AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def own(folder):
    return NanoEngine.from_folder(folder), NanoTokenizer(folder / "tokenizer.json")


def text_of(messages):
    return "".join(piece.text for piece in render_transcript(messages))


def test_tokens_are_those_of_the_library(transcripts, library, own):
    for transcript in transcripts:
        text = text_of(transcript)
        assert own[1].encode(text) == library[1](text)["input_ids"]
        assert own[1].decode(own[1].encode(text)) == text


@law(150)
@given(text=st.text(st.sampled_from("abehotw THW019_'|<>\n\té漢ß\u0301🙂"), max_size=40))
def test_any_text_has_the_library_s_tokens_and_survives(text, library, own):
    assert own[1].encode(text) == library[1](text)["input_ids"]
    assert own[1].decode(own[1].encode(text)) == text


def test_words_are_one_token_with_their_space_and_budgets_as_many_and_seen_in_lessons(own):
    "Words were written with `single_word`, under which none of them was ever found."
    tokens = [own[1].decode([t]) for t in own[1].encode("How many of which have")]
    assert {" many", " which", " have"} <= set(tokens)
    assert len({len(own[1].encode(f"\n\nSteps: {n}")) for n in range(10, 21)}) == 1
    found = {int(t[1]["content"].rpartition("Steps: ")[2]) for t in world_transcripts({1: 300})}
    assert found == set(range(5, 21))


def logits_of(engine, *parts):
    batch = engine.start([nano_engine.ConversationState()])
    for part in parts:
        logits = engine.read(batch, [part])
    return logits[0]


def test_logits_are_those_of_torch(transcripts, library, own):
    import torch

    for transcript in transcripts[::10]:
        ids = own[1].encode(text_of(transcript))
        with torch.no_grad():
            wanted = library[0](torch.tensor([ids])).logits[0, -1].numpy()
        np.testing.assert_allclose(logits_of(own[0], ids), wanted, atol=1e-5)
        np.testing.assert_allclose(logits_of(own[0], ids[:7], ids[7:9], ids[9:]), wanted, atol=1e-5)


def test_conversations_side_by_side_are_as_if_alone(transcripts, own):
    engine, tokenizer = own
    prompts = [tokenizer.encode(text_of(t[1 : 1 + k])) for t, k in zip(transcripts, (1, 3, 2, 5, 1))]
    empty = [nano_engine.ConversationState() for _ in prompts]
    together = engine.write(empty, prompts, tokenizer.end, 12)
    for prompt, (written, state) in zip(prompts, together):
        [(alone, _)] = engine.write([nano_engine.ConversationState()], [prompt], tokenizer.end, 12)
        assert written == alone and state.tokens == prompt + written
        more = tokenizer.encode("<|end|><|tool|>(no rows)<|end|>")
        [(after, _)] = engine.write([state], [more], tokenizer.end, 5)
        [(again, _)] = engine.write([nano_engine.ConversationState()], [state.tokens + more], tokenizer.end, 5)
        assert after == again


def test_one_byte_a_weight_keeps_each_row_s_scale(tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "x.safetensors"
    weights = dict(big=rng.normal(size=(4, 30)) * 100, small=rng.normal(size=(4, 30)) / 100, zero=np.zeros((2, 3)))
    weights["vector"] = rng.normal(size=5)
    weights = {name: values.astype(np.float32) for name, values in weights.items()}
    save_int8(weights, path)
    again = load_weights(path)
    for name, values in weights.items():
        step = np.abs(values).max(-1, keepdims=True) / 127
        assert (np.abs(again[name] - values) <= step * 0.51 + 1e-9).all(), name
    assert set(load_file(path)) >= set(weights)


@pytest.mark.parametrize("case", cases("nano_calls"))
def test_what_was_written_is_read_as_a_call_or_as_words(case):
    written, *call = case
    calls = [c["function"] for c in parse_written(written).get("tool_calls", [])]
    assert [x for c in calls for x in (c["name"], c["arguments"])] == call


class SameText(LocalModel):
    "The library's model, which reads what nano reads and not what the chat template makes of messages."

    def tokens(self, messages, tools):
        return self.load()[1](text_of(messages) + ROLE_TOKENS[2])["input_ids"]


@pytest.mark.slow
def test_numpy_and_transformers_play_the_same_episodes(folder):
    questions = load("worlds", level=1, split="test", n=6, seed=2)
    options = dict(nudges=0, patience=3, max_chars=600, system="")
    players = [NanoModel(folder, 20), SameText(folder, max_new_tokens=20)]
    played = []
    for backend in players:
        result = evaluate(EpisodeEnv(questions), ChatPolicy(backend, **options), progress=False, batch=4, robust=False)
        played.append([(e.steps, e.correct, e.reason) for e in result.episodes])
    assert played[0] == played[1]


def test_a_later_turn_reads_only_what_is_new(folder):
    nano, observation = NanoModel(folder, max_new_tokens=0), EpisodeEnv(load("bundled")).reset(seed=1)
    messages = initial_messages(observation, "")
    first = nano.complete(messages, [])
    second = nano.complete([*messages, first.message, dict(role="tool", content="loan: 3 rows")], [])
    assert first.usage["cached_tokens"] == 0
    assert second.usage["cached_tokens"] >= first.usage["prompt_tokens"]


def test_a_folder_is_a_policy_and_others_say_what_to_give(folder, tmp_path):
    bundled = load("bundled")
    assert make_policy(str(folder), bundled).backend.folder == folder
    run = tmp_path / "run"
    (run / "all").mkdir(parents=True)
    (run / "recipe.json").write_text(json.dumps(dict(recipe=dict(stages=[dict(name="few"), dict(name="all")]))))
    os.symlink(folder, run / "all/model")
    assert nano_engine.find_nano(run) == run / "all/model"
    assert make_policy(str(run), bundled).name == "run"
    with pytest.raises(ValueError, match="sql_env train nano"):
        make_policy(str(tmp_path), bundled)
    with pytest.raises(SourceError, match="nano"):
        make_policy("nani", bundled)


def test_what_ships_is_what_was_trained_small_and_with_its_card():
    about = json.loads((NANO_WEIGHTS / "nano.json").read_text(encoding="utf-8"))
    for name, digest in about["sha256"].items():
        assert sha256((NANO_WEIGHTS / name).read_bytes()).hexdigest() == digest, name
    engine, tokenizer = NanoEngine.from_folder(NANO_WEIGHTS), NanoTokenizer(NANO_WEIGHTS / "tokenizer.json")
    logits = logits_of(engine, tokenizer.encode(about["prompt"]))
    for token, wanted in about["logits"].items():
        assert logits[int(token)] == pytest.approx(wanted, abs=0.5)
    assert logits.argmax() == int(max(about["logits"], key=about["logits"].get))
    sizes = {path.name: path.stat().st_size for path in NANO_WEIGHTS.iterdir()}
    assert sum(sizes.values()) < 3_000_000 and "README.md" in sizes


WITHOUT_TORCH = """import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('torch', 'transformers', 'tokenizers'):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from sql_env.cli.app import main; sys.argv = ['sql_env', *sys.argv[1:]]; main()"""


@pytest.mark.slow
def test_the_shipped_model_plays_without_torch():
    options = "evaluate --policy nano -n 4 --no-floor --json --no-log".split()
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-800:]
    assert '"nano"' in done.stdout and NanoPolicy().name == "nano"
