"""A tokenizer and a model small enough for tests: Qwen3's architecture and chat template, nothing downloaded."""

import os

os.environ.update(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    TRL_EXPERIMENTAL_SILENCE="1",
    TOKENIZERS_PARALLELISM="false",
)


def tiny_recipe():
    "`nano` in a few seconds: one stage of each method on a few questions."
    from dataclasses import replace

    from sql_env.nano.training import NANO
    from sql_env.training.recipes import Stage

    often = dict(save_steps=2, logging_steps=1, warmup_steps=1)
    few = dict(per_device_train_batch_size=4, num_generations=4, max_completion_length=60)
    stages = (
        Stage("sft", "sft", "worlds:1=60,3=12", often),
        Stage("grpo", "grpo", "worlds:1=4", dict(max_steps=1, **few)),
    )
    return replace(NANO, stages=stages)


def make_tokenizer(texts, vocab: int = 1024):
    "A byte-level BPE tokenizer with the tokens and the template of Qwen3."
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    from trl.chat_template_utils import qwen3_chat_template

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    raw.train_from_iterator([*texts, qwen3_chat_template], trainer)
    marks = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
    raw.add_tokens([AddedToken(t, special=False, normalized=False) for t in marks])
    tok = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
        truncation_side="left",
        model_max_length=4096,
    )
    tok.chat_template = qwen3_chat_template
    return tok


def make_model(tok, width: int = 64, layers: int = 2, seed: int = 0):
    "A random Qwen3 of some 100,000 parameters; one thread, because more only hurt at this size."
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tok),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=width // 4,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tok.eos_token_id,
        pad_token_id=tok.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = tok.eos_token_id
    model.generation_config.pad_token_id = tok.pad_token_id
    return model


def save_tiny_qwen(folder):
    "A random Qwen3 with its tokenizer in a folder, as `from_pretrained` takes it; returns the folder."
    from sql_env.worlds.world import world_set

    texts = [q.question_text + q.gold_sql for q in world_set("train", level=1, n=8)]
    tok = make_tokenizer(texts)
    make_model(tok).save_pretrained(folder)
    tok.save_pretrained(folder)
    return folder


def warm(model, tok, rows, steps: int = 130, lr: float = 1e-2) -> None:
    "Supervised steps on what an assistant says in a few conversations, learned by heart."
    import json

    import torch
    from trl.chat_template_utils import qwen3_training_chat_template as template

    options = dict(tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    examples = []
    for r in rows:
        tools = json.loads(r["tools"])
        row = tok.apply_chat_template(r["messages"], tools=tools, chat_template=template, **options)
        ids, said = (torch.tensor([row[key]]) for key in ("input_ids", "assistant_masks"))
        examples.append(dict(input_ids=ids, labels=ids.masked_fill(said == 0, -100)))
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(steps):
        for example in examples:
            model(**example).loss.backward()
        opt.step()
        opt.zero_grad()


def learned(tok):
    "A model that answers one question in three calls; and a server's probe, or it would write calls that are no JSON."
    from sql_env.policies.endpoint import _PROBE
    from sql_env.sources.loading import load
    from sql_env.training.experts import ExpertPolicy, ExpertTrajectories
    from sql_env.training.recipes import sft_rows

    one = load("bundled").filter(question_id="vet_clinic-02")
    made = ExpertTrajectories(one, 1, policy=ExpertPolicy(one, ["direct"]))
    rows, model = sft_rows(made.env, made), make_model(tok)
    call = dict(name="describe", arguments='{"table_name": "visit"}')
    asked = dict(role="assistant", content="", tool_calls=[dict(type="function", function=call)])
    warm(model, tok, [*rows, rows[0] | dict(messages=[*_PROBE, asked])])
    return model


def grpo(tok, model, rows, factory, out, n: int = 4, steps: int = 2, **options):
    "A GRPOTrainer on the CPU with all groups in one batch."
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    funcs = options.pop("reward_funcs", [])
    args = GRPOConfig(
        output_dir=str(out),
        **dict(
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=n,
            num_generations=n,
            max_steps=steps,
            learning_rate=1e-4,
            max_completion_length=600,
            max_tool_calling_iterations=8,
            chat_template_kwargs={"enable_thinking": False},
            temperature=1.0,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            shuffle_dataset=False,
        )
        | options,
    )
    return GRPOTrainer(
        model=model,
        reward_funcs=funcs,
        args=args,
        train_dataset=None if rows is None else Dataset.from_list(rows),
        processing_class=tok,
        environment_factory=factory,
    )


class Scripted:
    "Stands in for `model.generate` and writes what a script says: one list of turns per rollout."

    def __init__(self, tok, script):
        self.tok, self.script, self.alive, self.turn = tok, script, None, [0] * len(script)

    def __call__(self, *args, input_ids=None, **kwargs):
        import torch

        rows = self.alive if self.alive is not None else range(len(self.script))
        said = [self.script[r][min(self.turn[r], len(self.script[r]) - 1)] for r in rows]
        for r in rows:
            self.turn[r] += 1
        self.alive = [r for r, s in zip(rows, said) if "<tool_call>" in s] or None
        if self.alive is None:
            self.turn = [0] * len(self.script)
        ids = [self.tok(s + "<|im_end|>", add_special_tokens=False)["input_ids"] for s in said]
        width = max(map(len, ids))
        return torch.cat(
            [input_ids, torch.tensor([i + [self.tok.pad_token_id] * (width - len(i)) for i in ids])], dim=1
        )
