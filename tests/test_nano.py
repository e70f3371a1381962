"The small model: a model of transformers that reads numbered names, and what ships is what was trained."

import json
import os
from hashlib import sha256

import pytest
from tables import cases

from sql_env import ChatPolicy, EpisodeEnv, SourceError, evaluate, load
from sql_env.cli.app import ModelOptions, make_policy
from sql_env.nano.model import NANO_WEIGHTS, NanoModel, NanoPolicy, find_nano
from sql_env.nano.text import NumberedNames, _number_messages
from sql_env.play.chat import initial_messages
from sql_env.plugins import MissingExtraError, needs_extra

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from sql_env.nano.training import NANO, nano_tokenizer, new_nano, world_transcripts  # noqa: E402
from sql_env.policies.local import load_weights, parse_assistant_text  # noqa: E402
from sql_env.training.run import save_model  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    "A model of training's making, with random weights."
    path = tmp_path_factory.mktemp("nano") / "model"
    save_model(*new_nano(seed=3, width=64), path, NANO, NANO.stages[0])
    return path


def test_words_are_one_token_with_their_space_and_budgets_as_many_and_seen_in_lessons():
    "Words were written with `single_word`, under which none of them was ever found."
    tokenizer = nano_tokenizer()
    tokens = [tokenizer.decode([t]) for t in tokenizer("How many of which have")["input_ids"]]
    assert {" many", " which", " have"} <= set(tokens)
    assert len({len(tokenizer(f"\n\nSteps: {n}")["input_ids"]) for n in range(10, 21)}) == 1
    found = {int(t[1]["content"].rpartition("Steps: ")[2]) for t in world_transcripts({1: 300})}
    assert found == set(range(5, 21))


@pytest.mark.parametrize("case", cases("nano_calls"))
def test_what_was_written_is_read_as_a_call_or_as_words(case):
    written, *call = case
    calls = [c["function"] for c in parse_assistant_text(written, nano_tokenizer()).get("tool_calls", [])]
    assert [x for c in calls for x in (c["name"], c["arguments"])] == call


def test_calls_are_written_with_numbers_and_read_with_names(monkeypatch):
    messages = initial_messages(EpisodeEnv(load("bundled")).reset(seed=1), "")
    _number_messages(messages, names := NumberedNames())
    name, token = next(iter(names.tokens.items()))
    written = [f"<describe table_name>{token}", f"<query sql>SELECT COUNT(*) FROM {token}", "<|user|>"]
    tokens = [nano_tokenizer()(text)["input_ids"] for text in written]
    monkeypatch.setattr("sql_env.policies.local._generate_batch", lambda *_: tokens)
    described, asked, words = (c.message for c in NanoModel().complete_many([messages] * 3, []))
    assert described["tool_calls"][0]["function"] == dict(name="describe", arguments=dict(table_name=name))
    assert asked["tool_calls"][0]["function"]["arguments"] == dict(sql=f"SELECT COUNT(*) FROM {name}")
    assert words["content"] == "<|user|>" and not words.get("tool_calls")


def test_a_folder_is_a_policy_and_others_say_what_to_give(folder, tmp_path):
    bundled = load("bundled")
    assert make_policy(str(folder), bundled).backend.path == str(folder)
    [by_model] = ModelOptions(model=[str(folder)]).make_policies()
    assert isinstance(by_model.backend, NanoModel) and isinstance(ChatPolicy(folder).backend, NanoModel)
    assert by_model.max_chars == 600 and by_model.patience == 3
    run = tmp_path / "run"
    (run / "all").mkdir(parents=True)
    (run / "recipe.json").write_text(json.dumps(dict(recipe=dict(stages=[dict(name="few"), dict(name="all")]))))
    os.symlink(folder, run / "all/model")
    assert find_nano(run) == run / "all/model"
    assert make_policy(str(run), bundled).name == "run"
    with pytest.raises(ValueError, match="sql_env train nano"):
        make_policy(str(tmp_path), bundled)
    with pytest.raises(SourceError, match="nano"):
        make_policy("nani", bundled)


def test_what_ships_is_what_was_trained_small_and_with_its_card():
    about = json.loads((NANO_WEIGHTS / "nano.json").read_text(encoding="utf-8"))
    for name, digest in about["sha256"].items():
        assert sha256((NANO_WEIGHTS / name).read_bytes()).hexdigest() == digest, name
    model, tokenizer = load_weights(NANO_WEIGHTS, dtype="float32")
    with torch.no_grad():
        logits = model(tokenizer(about["prompt"], return_tensors="pt")["input_ids"]).logits[0, -1]
    for token, wanted in about["logits"].items():
        assert float(logits[int(token)]) == pytest.approx(wanted, abs=0.5)
    assert int(logits.argmax()) == int(max(about["logits"], key=about["logits"].get))
    sizes = {path.name: path.stat().st_size for path in NANO_WEIGHTS.iterdir()}
    assert sum(sizes.values()) < 5_000_000 and "README.md" in sizes


def test_the_shipped_model_plays_and_says_what_to_install_without_torch(monkeypatch):
    questions = load("worlds", level=1, split="test", n=12, seed=2)
    result = evaluate(EpisodeEnv(questions), NanoPolicy(), progress=False, batch=12, robust=False)
    assert result.success_rate > 0.6

    def missing(*args, **kwargs):
        with needs_extra("train"):
            raise ModuleNotFoundError(name="torch")

    monkeypatch.setattr("sql_env.nano.model.load_weights", missing)
    with pytest.raises(MissingExtraError, match=r"sql_env\[train\]"):
        NanoPolicy().backend.probe()
