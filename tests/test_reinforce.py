"Reinforcement on a processor: what a group teaches, gradients as if nothing were shared, steps that can be repeated."

import copy
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")
import torch

from sql_env import EpisodeEnv, load
from sql_env.play.chat import MAX_TOOL_RESULT_CHARS, SYSTEM_PROMPT
from sql_env.training import reinforce
from sql_env.training.reinforce import PAID_BY, Try, group_rows, learn_group, play_tries, reinforce_trainer_class

SETTINGS = dict(system=SYSTEM_PROMPT, max_chars=MAX_TOOL_RESULT_CHARS, nudges=0, patience=3, max_new_tokens=80)
ASKED = "vet_clinic-02"  # that the tiny model knows by heart


@pytest.mark.parametrize(
    "turns, segments",
    [
        ([([1, 2], [3])], [([1, 2, 3], [0, 0, 1])]),
        ([([1, 2], [3]), ([1, 2, 3, 4], [5, 6])], [([1, 2, 3, 4, 5, 6], [0, 0, 1, 0, 1, 1])]),
        # a message that comes back as other tokens begins another row
        ([([1, 2], [3]), ([1, 2, 9, 4], [5])], [([1, 2, 3], [0, 0, 1]), ([1, 2, 9, 4, 5], [0, 0, 0, 0, 1])]),
    ],
)
def test_a_try_is_what_the_model_read_and_wrote(turns, segments):
    one = Try("q")
    for prompt, written in turns:
        one.add(prompt, written)
    assert one.segments == segments


def tried(paid, *written, prompt=tuple(range(50, 90))):
    one = Try("q", paid=paid)
    one.add(list(prompt), list(written))
    return one


@pytest.mark.parametrize(
    "group, advantages",
    [
        ([(1, 7), (0, 8)], [0.5, -0.5]),
        ([(1, 7), (1, 8)], []),  # nothing to learn
        ([(1, 7), (1, 7), (0, 8), (0, 9)], [1.0, -0.5, -0.5]),  # what was written twice is one row
        ([(1, 7), (0, 7)], []),  # the same text, paid differently: no row is left
        ([(0.97142857,), (0.97142857,), (0.97142857,)], []),  # a mean that is none of them
    ],
)
def test_advantages_are_what_was_paid_above_the_mean(group, advantages):
    assert [round(a, 6) for _, _, a in group_rows([tried(*one) for one in group])] == advantages


def plain_gradients(model, rows, n):
    model.zero_grad()
    for tokens, mask, advantage in rows:
        scores = torch.log_softmax(model(input_ids=torch.tensor([tokens])).logits[0].float(), -1)
        places = [i for i, written in enumerate(mask) if written]
        chosen = sum(scores[i - 1, tokens[i]] for i in places)
        (-advantage * chosen / n).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("shared", [0, 3, 40], ids="no few many".split())
def test_a_beginning_that_is_read_once_gives_the_gradients_of_reading_it_each_time(tiny, shared):
    kit, tok = tiny
    model = kit.make_model(tok).float().train()
    group = []
    for i, written in enumerate(((5, 6, 7), (5, 9), (8, 8, 3, 2))):
        prompt = [*range(60, 60 + shared), *([20 + i] * (4 - bool(shared))), 11, 12]
        group.append(tried(float(i == 1), *written, prompt=prompt))
    rows = group_rows(group)
    n = sum(sum(mask) for _, mask, _ in rows)
    wanted = plain_gradients(model, rows, n)
    model.zero_grad()
    sums = learn_group(model, rows, n, start=copy.deepcopy(model))
    for name, p in model.named_parameters():
        if name in wanted:
            assert torch.allclose(p.grad, wanted[name], atol=1e-5), name
    assert sums["written"] == n == 9 and sums["entropy"] > 0
    assert abs(sums["kl"]) < 1e-4, "a model is at no distance from itself"


def test_the_distance_from_the_start_is_pulled_back(tiny):
    "With nothing paid but the distance, a step brings the model nearer to where it began."
    kit, tok = tiny
    start, model = kit.make_model(tok).float().eval(), kit.make_model(tok, seed=1).float().train()
    rows, gone = group_rows([tried(1.0, 5, 6), tried(0.0, 7, 8)]), []
    rows = [(tokens, mask, 0.0) for tokens, mask, _ in rows]
    optimiser = torch.optim.SGD(model.parameters(), 0.005)
    for _ in range(5):
        optimiser.zero_grad()
        gone.append(learn_group(model, rows, 4, start, beta=1.0)["kl"])
        optimiser.step()
    assert gone == sorted(gone, reverse=True) and gone[0] > 2 * gone[-1] > 0


@pytest.fixture
def game(tiny_model):
    model, tok = tiny_model
    from trl.chat_template_utils import qwen3_training_chat_template

    model, tok = copy.deepcopy(model), copy.deepcopy(tok)
    tok.chat_template = qwen3_training_chat_template
    questions = load("bundled").filter(lambda q: q.database_name == "vet_clinic")
    player = reinforce._Player(model, tok, 80)
    return SimpleNamespace(model=model, tok=tok, env=EpisodeEnv(questions), player=player, questions=questions)


def test_tries_are_episodes_and_are_paid_by_their_verdict(game):
    "What was written stands in the segments; a greedy try of the question known by heart is right."

    def played(asked, **options):
        return play_tries(game.player.backend, game.player.writer(0), game.env, asked, SETTINGS, **options)

    right, other = played([ASKED, "vet_clinic-01"], temperature=0)
    assert (right.paid, right.turns, right.refused) == (1.0, 3, 0)
    [(tokens, mask)] = right.segments
    written = game.tok.decode([t for t, m in zip(tokens, mask) if m])
    assert written.count("<|im_end|>") == 3 and '"answer"' in written
    assert other.paid == 0.0
    [robust] = played([ASKED], temperature=0, by="robust")
    [reward] = played([ASKED], temperature=0, by="reward")
    assert robust.paid == 1.0 and 0.5 < reward.paid <= 1.5 and set(PAID_BY) == {"value", "robust", "reward"}
    [short] = played([ASKED], temperature=0, max_turns=2)
    assert (short.turns, short.paid) == (2, 0.0)
    hot = [played([ASKED] * 4, temperature=3.0, seed=seed) for seed in (1, 1, 2)]
    first, again, third = [[one.segments for one in tries] for tries in hot]
    assert first == again != third


def make_trainer(game, folder, steps, kept=None, **options):
    from trl import GRPOConfig

    settings = dict(max_steps=steps, num_generations=4, per_device_train_batch_size=8, learning_rate=3e-3)
    settings |= dict(logging_steps=1, save_steps=1, report_to="none", use_cpu=True, bf16=False, beta=0.0)
    settings |= dict(gradient_checkpointing=False)
    settings |= dict(eval_strategy="steps", eval_steps=1) if kept else {}
    own = {k: options.pop(k) for k in ("first_tries", "by") if k in options}
    return reinforce_trainer_class()(
        game.env,
        SETTINGS,
        model=copy.deepcopy(game.model),
        args=GRPOConfig(output_dir=str(folder), seed=3, **settings | options),
        train_dataset=[q.question_id for q in game.questions][:8],
        eval_dataset=kept,
        processing_class=game.tok,
        **own,
    )


def pay_for_short_ones(monkeypatch):
    "What a try is paid, whatever it answers: more for fewer tokens."

    def paid(*args, **options):
        tries = play_tries(*args, **options)
        for one in tries:
            one.paid = 1.0 / (1 + sum(sum(mask) for _, mask in one.segments))
        return tries

    monkeypatch.setattr(reinforce, "play_tries", paid)


def measured(trainer, name="reward"):
    return [line[name] for line in trainer.state.log_history if name in line]


def test_what_is_paid_becomes_more_likely(game, tmp_path, monkeypatch):
    pay_for_short_ones(monkeypatch)
    game.questions = [game.questions.get("vet_clinic-01")]  # which it does not know
    trainer = make_trainer(game, tmp_path, 10, num_generations=8, learning_rate=1e-2, max_grad_norm=1.0)
    trainer.train()
    paid = measured(trainer)
    assert len(paid) == 10 and sum(paid[-3:]) > 1.5 * sum(paid[:3]), paid
    assert measured(trainer, "tries") == [8] * 10 and set(measured(trainer, "groups_that_differ")) <= {0, 1}


@pytest.mark.slow
def test_a_step_is_the_same_again_and_a_run_goes_on_where_it_was_stopped(game, tmp_path, monkeypatch):
    pay_for_short_ones(monkeypatch)
    whole = make_trainer(game, tmp_path / "a", 4)
    whole.train()
    stopped = make_trainer(game, tmp_path / "b", 4)
    stopped.callback_handler.add_callback(_StopAt(2))
    stopped.train()
    assert measured(stopped) == measured(whole)[:2]
    gone_on = make_trainer(game, tmp_path / "b", 4)
    gone_on.train(resume_from_checkpoint=str(tmp_path / "b" / "checkpoint-2"))
    assert measured(gone_on) == measured(whole)
    for (name, one), other in zip(whole.model.named_parameters(), gone_on.model.parameters()):
        assert torch.equal(one, other), name


def test_questions_are_tried_on_where_the_first_tries_differ(game, tmp_path, monkeypatch):
    "Of four questions that are tried twice, one has two tries that differ: it gets two more."
    asked = []

    def paid(backend, writer, env, ids, *args, **options):
        asked.append(list(ids))
        tries = []
        for i, question_id in enumerate(ids):
            one = tried(float(question_id == asked[0][2] and i % 2), 5 + i)
            one.question_id = question_id
            tries.append(one)
        return tries

    monkeypatch.setattr(reinforce, "play_tries", paid)
    trainer = make_trainer(game, tmp_path, 1, first_tries=2)
    trainer.train()
    first, more = asked
    assert len(first) == 8 and first[::2] == first[1::2] and len(set(first)) == 4
    assert more == [first[2]] * 2
    assert measured(trainer, "tries") == [10] and measured(trainer) == [1 / 8]
    assert measured(trainer, "groups_that_differ") == [1]


def test_questions_that_were_kept_out_are_played_greedily(game, tmp_path):
    trainer = make_trainer(game, tmp_path, 1, kept=[ASKED], learning_rate=0.0)
    trainer.train()
    assert measured(trainer, "eval_reward") == [1.0]


@pytest.mark.slow
def test_an_adapter_is_merged_into_the_copy_that_plays(game, tmp_path, monkeypatch):
    "After each step the copy writes what the model with its adapter would, and the start stays as it was."
    from peft import LoraConfig, get_peft_model

    pay_for_short_ones(monkeypatch)
    game.model = get_peft_model(game.model, LoraConfig(task_type="CAUSAL_LM", r=4, target_modules="all-linear"))
    trainer = make_trainer(game, tmp_path, 2, learning_rate=1e-2)
    ids = torch.tensor([[5, 6, 7, 8]])
    begun = trainer.start(input_ids=ids).logits
    trainer.train()
    trainer.player.writer(2)
    learned, plays = trainer.model.eval()(input_ids=ids).logits, trainer.player.model(input_ids=ids).logits
    assert torch.allclose(learned, plays, atol=1e-4) and not torch.allclose(begun, plays, atol=1e-3)
    assert torch.equal(begun, trainer.start(input_ids=ids).logits)
    assert measured(trainer, "kl")[1] > measured(trainer, "kl")[0] >= 0


def _StopAt(step):
    from transformers import TrainerCallback

    class StopAt(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step >= step

    return StopAt()
