"""Rollouts that branch, credit for single turns, and the trainer of both, for `play.py`

A turn's advantage is what its continuations earned, less the mean of the other tries of its state."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import Trainer, TrainingArguments

from sql_env.evaluation.rollouts import TreeNode, tree_rollouts
from sql_env.nano.model import NanoPolicy
from sql_env.play.acts import ACTIONS
from sql_env.play.chat import InvalidToolCall, parse_tool_call, tool_schemas
from sql_env.play.episode import EpisodeEnv
from sql_env.play.reward import RewardConfig
from sql_env.play.session import Session
from sql_env.policies.chat import ChatPolicy
from sql_env.policies.local import LocalModel
from sql_env.training.recipes import Recipe, Stage, _stage_questions
from sql_env.training.run import _lora_config, _precision

_RARER = 4.0  # each tie in a row makes a question that much rarer
_MOST_TIES = 3  # that count, so that an old failure is tried again


class _GroupRecord:
    "How many groups in a row ended without a difference, for each question."

    def __init__(self):
        self.ties: dict[str, int] = {}

    def add(self, question_ids: Iterable[str], differs: Iterable[bool]) -> None:
        "Note a batch of rollouts, several of each question; `differs` is true for those with an advantage."
        mixed: dict[str, bool] = {}
        for question_id, rollout_differs in zip(question_ids, differs):
            mixed[question_id] = mixed.get(question_id, False) or rollout_differs
        for question_id, is_mixed in mixed.items():
            self.ties[question_id] = 0 if is_mixed else self.ties.get(question_id, 0) + 1

    def weight(self, question_id: str) -> float:
        "How often the question is drawn, compared with one that has never been tried."
        return _RARER ** -min(self.ties.get(question_id, 0), _MOST_TIES)


def _success_sampler(
    question_ids: Sequence[str],  # of the rows of the dataset
    record: _GroupRecord,
    group_size: int,  # rollouts of each question
    batch_size: int,  # questions of a batch
    repeats: int = 1,  # how often a batch is yielded
    seed: int = 0,
) -> Any:
    "A sampler of row numbers, in TRL's order of groups."
    import torch
    from trl.trainer.utils import RepeatSampler

    class SuccessSampler(RepeatSampler):
        "Draws each batch by the weights of its record."

        def __iter__(self):
            for _ in range(self.num_samples // self.batch_size):
                weights = torch.tensor([record.weight(q) for q in question_ids])
                drawn = torch.multinomial(weights, self.batch_size, generator=self.generator)
                for _ in range(self.repeat_count):
                    for row in drawn.tolist():
                        yield from [row] * self.mini_repeat_count

    return SuccessSampler(question_ids, group_size, batch_size, repeats, seed=seed)


class _TurnCredit(NamedTuple):
    "What a turn earned; the sum of `weight * advantage * grad log pi` is the gradient of the expected return."

    node: TreeNode
    weight: float  # one over the number of tries of its state and of each state above
    advantage: float


def _tries(node: TreeNode) -> list[TreeNode]:
    "The tries of a state that count: those that did not crash."
    return [child for child in node.children if not child.has_crashed]


def _mean_of_others(values: Sequence[float], i: int) -> float:
    return (sum(values) - values[i]) / (len(values) - 1)


def sibling_credit(root: TreeNode) -> list[_TurnCredit]:
    "Each turn less the mean of the other tries of its state; without others, what the last turn got that had some."
    found: list[_TurnCredit] = []

    def visit(node: TreeNode, weight: float, inherited: float | None) -> None:
        tries = _tries(node)
        returns = [child.returns for child in tries]
        for i, child in enumerate(tries):
            advantage = returns[i] if inherited is None else inherited
            if len(tries) > 1:
                advantage = returns[i] - _mean_of_others(returns, i)
            found.append(_TurnCredit(child, weight / len(tries), advantage))
            visit(
                child,
                weight / len(tries),
                None if inherited is None and len(tries) == 1 else advantage,
            )

    visit(root, 1.0, None)
    return found


def gigpo_credit(
    roots: Sequence[TreeNode],  # of one question
    share: float = 0.5,  # of the mean over equal states; 1 for that alone
) -> list[_TurnCredit]:
    "`sibling_credit`, mixed with each turn less the mean of turns in equal states, where there are others."
    found = [c for root in roots for c in sibling_credit(root)]
    key_of = {
        id(child): state.state_key
        for root in roots
        for state in root.walk()
        for child in state.children
    }
    groups: dict[str, list[TreeNode]] = defaultdict(list)
    for node, _, _ in found:
        groups[key_of[id(node)]].append(node)
    mixed = []
    for node, weight, advantage in found:
        others = [other.returns for other in groups[key_of[id(node)]] if other is not node]
        if others:
            among = node.returns - sum(others) / len(others)
            advantage = (1 - share) * advantage + share * among
        mixed.append(_TurnCredit(node, weight / len(roots), advantage))
    return mixed


def _turn_places(
    messages: Sequence[dict[str, Any]], actions: Sequence[str] = ACTIONS
) -> list[tuple[int, int]]:
    "Each message of the model in a conversation: its place, and the number of its first action in the episode."
    places, taken = [], 0
    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        places.append((place, taken))
        for call in message.get("tool_calls") or ():
            try:
                parse_tool_call(call["function"], actions)
            except InvalidToolCall:
                continue
            taken += 1
    return places


def _path(root: TreeNode, leaf: TreeNode) -> list[TreeNode]:
    "The nodes from the first turn of a tree to one of its ends."
    nodes, node = [], root
    while len(node.path) < len(leaf.path):
        node = next(n for n in node.children if leaf.path[: len(n.path)] == n.path)
        nodes.append(node)
    return nodes


class TokenRow(NamedTuple):
    "A conversation, or the beginning of one, and what each of its tokens has earned."

    tokens: list[int]
    written: list[bool]  # the model wrote the token, and this row counts it
    credit: list[float]  # weight times advantage; 0 for what is not counted

    def add(self, prompt: Sequence[int], tokens: Sequence[int], credit: float | None) -> bool:
        "Add a turn, which counts if it has a credit, if its prompt goes on where the row ends; whether it did."
        n = len(self.tokens)
        if list(prompt[:n]) != self.tokens:
            return False
        read, counts = len(prompt) - n, credit is not None
        self.tokens.extend([*prompt[n:], *tokens])
        self.written.extend([False] * read + [counts] * len(tokens))
        self.credit.extend([0.0] * read + [credit or 0.0] * len(tokens))
        return True


def _token_rows(
    root: TreeNode,
    credits: Iterable[_TurnCredit],  # of its turns
    backend: Any,  # that wrote them, with `keep_tokens`: how it reads a conversation
    end: int,  # the token that ends a message
    limit: int,  # tokens of a message; one of that length was cut
    tools: Sequence[dict] = (),
) -> list[TokenRow]:
    "The episodes of a tree as tokens; a turn that several share counts in the first."
    earned = {id(c.node): c.weight * c.advantage for c in credits}
    by_path = {node.path: node for node in root.walk()}
    first, counted, rows = len(root.path), set(), []
    for leaf in root.leaves:
        if id(leaf) not in earned:
            continue  # it crashed
        messages = leaf.trajectory.messages  # type: ignore[union-attr]
        own: list[TokenRow] = []
        for place, taken in _turn_places(messages):
            if taken < first or "token_ids" not in messages[place]:
                continue  # of the session in which the tree began
            node = by_path[leaf.path[: min(taken + 1, len(leaf.path))]]
            written = list(messages[place]["token_ids"])
            written += [end] * (len(written) < limit)
            prompt = backend.tokens(messages[:place], tools)
            credit = None if (id(node), place) in counted else earned[id(node)]
            counted.add((id(node), place))
            if not own or not own[-1].add(prompt, written, credit):
                own.append(TokenRow([], [], []))
                own[-1].add(prompt, written, credit)
        rows += [row for row in own if any(row.written)]
    return rows


def _token_losses(model: Any, rows: Sequence[TokenRow], pad: int) -> tuple[Any, Any, Any]:
    "Of each token that was written: its logarithmic probability, the entropy there, and its credit."
    longest = max(len(row.tokens) for row in rows)
    shape, device = (len(rows), longest), next(model.parameters()).device
    ids, mask = torch.full(shape, pad), torch.zeros(shape, dtype=torch.long)
    written, credit = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape)
    for i, row in enumerate(rows):
        n = len(row.tokens)
        ids[i, :n], mask[i, :n] = torch.tensor(row.tokens), 1
        written[i, :n], credit[i, :n] = torch.tensor(row.written), torch.tensor(row.credit)
    ids, written = ids.to(device), written[:, 1:].to(device)
    core = model.get_base_model() if hasattr(model, "get_base_model") else model  # of an adapter
    base = getattr(core, core.base_model_prefix)
    hidden = base(input_ids=ids, attention_mask=mask.to(device), use_cache=False).last_hidden_state
    logits = core.get_output_embeddings()(hidden[:, :-1][written]).float()
    logs = logits.log_softmax(-1)
    chosen = logs.gather(-1, ids[:, 1:][written][:, None])[:, 0]
    entropy = -(logs.detach().exp() * logs.detach()).sum(-1)
    return chosen, entropy, credit[:, 1:].to(device)[written]


def _batches(rows: Sequence[TokenRow], most: int) -> list[list[TokenRow]]:
    "Rows in batches of at most so many tokens, filled up to their longest."
    found: list[list[TokenRow]] = []
    for row in sorted(rows, key=lambda row: len(row.tokens)):
        if not found or (len(found[-1]) + 1) * len(row.tokens) > most:
            found.append([])
        found[-1].append(row)
    return found


class _TreeTrainer(Trainer):
    "The policy gradient of trees: each step grows some, and learns from them once."

    def __init__(
        self,
        *args: Any,
        env: EpisodeEnv,
        make_policy: Callable[[Any], ChatPolicy],  # of the model
        grow: dict[str, Any],  # width, depth and batch of `tree_rollouts`
        credit: Callable[[TreeNode], list[_TurnCredit]],
        beta: float = 0.0,  # weight of the distance to the start
        max_tokens: int = 6000,  # of a forward pass
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.env, self.make_policy, self.grow, self.credit = env, make_policy, grow, credit
        self.beta, self.max_tokens = beta, max_tokens
        self.record = _GroupRecord()
        self.start = deepcopy(self.model).eval() if beta else None  # type: ignore[union-attr]
        self.sampled = 0  # tokens so far
        self.told: dict[str, float] = {}  # beside the loss

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        ids: Any = [row["question_id"] for row in self.train_dataset]  # type: ignore[union-attr]
        size = self.args.per_device_train_batch_size
        return _success_sampler(ids, self.record, 1, size, seed=self.args.seed)

    def trees(self, question_ids: Sequence[str], seed: int) -> tuple[list[TreeNode], ChatPolicy]:
        "Trees of some questions by the model as it is."
        model = self.accelerator.unwrap_model(self.model)
        was_training = model.training
        model.eval()
        policy, sessions = self.make_policy(model), []
        for question_id in question_ids:
            session = Session(self.env, policy.system, policy.max_chars, policy.nudges)
            session.begin(question_id, seed)
            sessions.append(session)
        roots = tree_rollouts(sessions, policy, seed=seed, **self.grow)
        model.train(was_training)
        return roots, policy

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        ids, seed = inputs["question_id"], self.args.seed * 1_000_003 + self.state.global_step
        roots, policy = self.trees(ids, seed)
        rows: list[TokenRow] = []
        differs, tokens = [], self.processing_class
        for root in roots:
            credits = self.credit(root)
            differs.append(any(c.advantage for c in credits))
            limit, end = policy.backend.max_new_tokens, tokens.eos_token_id  # type: ignore[union-attr]
            tools = tool_schemas(policy.actions)
            rows += _token_rows(root, credits, policy.backend, end, limit, tools)
        self.record.add(ids, differs)
        self._tell(roots, rows, differs)
        model.train()
        learned = [row for row in rows if self.beta or any(row.credit)]
        total, entropies, distance = torch.zeros(()), 0.0, 0.0
        n = max(sum(sum(r.written) for r in learned), 1)
        for batch in _batches(learned, self.max_tokens):
            with self.accelerator.autocast():
                chosen, entropy, credit = _token_losses(model, batch, tokens.pad_token_id)  # type: ignore[union-attr]
            loss = -(credit * chosen).sum() / len(roots)
            if self.start is not None:
                with torch.no_grad(), self.accelerator.autocast():
                    before, *_ = _token_losses(self.start, batch, tokens.pad_token_id)  # type: ignore[union-attr]
                gap = before - chosen
                kl = (gap.exp() - gap - 1).sum()
                distance += kl.item()
                loss = loss + self.beta * kl / len(roots)
            self.accelerator.backward(loss)
            total += loss.detach().cpu()
            entropies += entropy.sum().item()
        self.told["entropy"] = entropies / n
        if self.start is not None:
            self.told["kl"] = distance / n
        return total.to(self.args.device)

    def _tell(
        self, roots: Sequence[TreeNode], rows: Sequence[TokenRow], differs: Sequence[bool]
    ) -> None:
        "Note what a step has played."
        leaves = [leaf.trajectory.episode for root in roots for leaf in root.leaves]  # type: ignore[union-attr]
        self.sampled += sum(sum(row.written) for row in rows)
        means: dict[str, Sequence[float]] = {
            "reward": [root.value for root in roots if not root.has_crashed],
            "frac_reward_zero_std": [not d for d in differs],
            "sql_env/correct": [e.correct for e in leaves],
            "sql_env/steps": [e.steps for e in leaves],
        }
        self.told = {name: sum(values) / max(len(values), 1) for name, values in means.items()}
        self.told["sampled_tokens"] = self.sampled

    def log(self, logs: dict[str, float], *args: Any) -> None:
        super().log(logs | (self.told if "loss" in logs else {}), *args)


def _local_policy(recipe: Recipe, tokenizer: Any) -> Callable[[Any], ChatPolicy]:
    "What makes the policy of a transformers model."

    def make(model: Any) -> ChatPolicy:
        backend = LocalModel(model, tokenizer, recipe.turn_tokens, 1.0, keep_tokens=True)
        chars = recipe.env.get("max_chars")
        return ChatPolicy(backend, nudges=0, patience=3, max_chars=chars, system=recipe.system)

    return make


def tree_trainer(
    recipe: Recipe,
    stage: Stage,  # `options`: width, depth, batch, share, beta, max_tokens
    model: Any,
    tokenizer: Any,
    folder: Path,  # of the checkpoints
    seed: int = 0,
    callbacks: Sequence[Any] = (),
    make_policy: Callable[[Any], ChatPolicy] | None = None,  # of a model; `LocalModel`'s if None
) -> Any:
    "The trainer of a stage whose method is `tree` or `gigpo`; a batch is so many questions."
    shape = dict(width=2, depth=3) if stage.method == "tree" else dict(width=8, depth=1)
    own: dict[str, Any] = dict(shape, batch=1, share=0.5, beta=0.0, max_tokens=6000)
    own |= {k: v for k, v in stage.options.items() if k in own}
    questions = _stage_questions(stage, seed)
    settings = recipe.env | stage.env
    env = EpisodeEnv(
        questions,
        budget=settings.get("budget", 15),
        reward=settings.get("reward", RewardConfig.partial()),
        schema_level=stage.schema_level,
        verify=settings.get("verify", "value"),
    )
    credit = sibling_credit
    if stage.method == "gigpo":
        credit = lambda root: gigpo_credit([root], own["share"])  # noqa: E731
    precision, lora = _precision(recipe), _lora_config(recipe)
    args: dict[str, Any] = dict(bf16=precision == "bf16", fp16=precision == "fp16")
    args |= recipe.grpo | dict(per_device_train_batch_size=8, gradient_accumulation_steps=1)
    args = {
        k: v for k, v in (args | stage.args).items() if k in TrainingArguments.__dataclass_fields__
    }
    if lora is not None:
        from peft import get_peft_model

        model = get_peft_model(model, lora)
    return _TreeTrainer(
        model,
        TrainingArguments(output_dir=str(folder), seed=seed, remove_unused_columns=False, **args),
        train_dataset=[dict(question_id=q.question_id) for q in questions],
        data_collator=lambda rows: dict(question_id=[row["question_id"] for row in rows]),
        processing_class=tokenizer,
        callbacks=list(callbacks),
        env=env,
        make_policy=make_policy or _local_policy(recipe, tokenizer),
        grow=dict(width=own["width"], depth=own["depth"], batch=own["batch"]),
        credit=credit,
        beta=own["beta"],
        max_tokens=own["max_tokens"],
    )


def _nano_policy(recipe: Recipe, tokenizer: Any) -> Callable[[Any], NanoPolicy]:
    "What makes the policy of a model of nano as it is now, at temperature 1, for `tree_trainer`."

    def make(model: Any) -> NanoPolicy:
        options: dict[str, Any] = dict(max_new_tokens=recipe.turn_tokens, batch_size=64)
        policy = NanoPolicy(temperature=1.0, keep_tokens=True, **options)
        policy.max_chars = recipe.env["max_chars"]
        policy.backend._loaded = deepcopy(model), tokenizer
        return policy

    return make


def nano_trees(recipe: Recipe, stage: Stage, model: Any, tokenizer: Any, *args: Any) -> Any:
    "`tree_trainer` whose turns are written by a model of nano."
    play = partial(tree_trainer, make_policy=_nano_policy(recipe, tokenizer))
    return play(recipe, stage, model, tokenizer, *args)
