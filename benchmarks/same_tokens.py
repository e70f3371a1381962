"""The same episode, token for token, by each way in: `python benchmarks/same_tokens.py [--model FILE]`.

One small chat model plays one question greedily through `evaluate`, TRL's trainer, a server of chat completions,
Inspect and SkyRL, and through verifiers where `--verifiers` names an environment that has it. Of each of its messages
the token ids of what it read and of what it wrote are kept. A row says by turn whether they are those of `evaluate`, or
which token is the first that differs. The model is the tiny one of the tests, which has learned one question by heart,
or a GGUF file or folder; `--out benchmarks/same_tokens.json` keeps the rows.

The server renders messages and tools by the model's template as vLLM does: arguments of calls as objects, words that
are None as empty ones. SkyRL's trainer can't be installed beside the others, so its loop (skyrl/train/generators,
`agent_loop` with `use_conversation_multi_turn`) is played by the lines of `by_skyrl` below.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

import tiny_trl  # noqa: E402
from fake_server import FakeServer, completion  # noqa: E402

from sql_env import evaluate, load  # noqa: E402
from sql_env.play.chat import tool_schemas  # noqa: E402
from sql_env.policies import ChatPolicy, LocalModel  # noqa: E402
from sql_env.policies.local import _generate_batch, parse_assistant_text  # noqa: E402
from sql_env.questions.question_set import QuestionSet  # noqa: E402

Tokens = list[int]


class Turn(NamedTuple):
    "What a model read before a message, and the message, without the token that ends it."

    read: Tokens
    wrote: Tokens


class Speaker:
    "A model that writes the likeliest token, and keeps what it read and wrote."

    def __init__(self, model: Any, tok: Any, limit: int = 200, template: str | None = None):
        self.model, self.tok, self.limit, self.template = model, tok, limit, template
        self.turns: list[Turn] = []

    def write(self, read: Tokens) -> str:
        [wrote] = _generate_batch(self.model, self.tok, [read], self.limit)
        self.turns.append(Turn(list(read), wrote))
        return self.tok.decode(wrote, skip_special_tokens=False)

    def render(
        self, messages: Sequence[dict], tools: Sequence[dict] = (), **options: Any
    ) -> Tokens:
        options = dict(add_generation_prompt=True, chat_template=self.template) | options
        text = self.tok.apply_chat_template(
            list(messages), tools=list(tools) or None, tokenize=False, **options
        )
        return self.tok(text, add_special_tokens=False)["input_ids"]

    def answer(self, body: dict) -> dict:
        "What a server of chat completions answers."
        messages = json.loads(json.dumps(body["messages"]))
        for message in messages:
            message["content"] = message.get("content") or ""
            if isinstance(message["content"], list):
                message["content"] = "".join(part["text"] for part in message["content"])
            for call in message.get("tool_calls") or ():
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        read = self.render(
            messages, body.get("tools") or (), **body.get("chat_template_kwargs", {})
        )
        said = parse_assistant_text(self.write(read), self.tok)
        if messages[-1]["content"].startswith("Call describe."):
            self.turns.pop()  # a probe, which is no part of the episode
        for i, call in enumerate(said.get("tool_calls") or ()):
            call["id"] = f"call-{len(self.turns)}-{i}"
            if not isinstance(call["function"]["arguments"], str):
                call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
        return completion(said, "tool_calls" if said.get("tool_calls") else "stop")


NO_THOUGHTS = dict(enable_thinking=False)


def by_evaluate(speaker: Speaker, one: QuestionSet) -> list[Turn]:
    about = dict(max_new_tokens=speaker.limit, keep_tokens=True, template=speaker.template)
    local = LocalModel(speaker.model, speaker.tok, **about)
    turns, batch = [], local._complete_batch

    def spy(prompts, seed):
        found = batch(prompts, seed)
        turns.extend(
            Turn(list(read), done.message["token_ids"]) for read, done in zip(prompts, found)
        )
        return found

    local._complete_batch = spy  # type: ignore[method-assign]
    evaluate(one, ChatPolicy(local), progress=False, robust=False)
    return turns


def by_own_template(speaker: Speaker, one: QuestionSet) -> list[Turn]:
    return by_evaluate(Speaker(speaker.model, speaker.tok, speaker.limit), one)


def by_trl(speaker: Speaker, one: QuestionSet) -> list[Turn]:
    "The first rollout of one step of GRPO; its model reads tokens, and is never asked to render a second turn."
    from sql_env.integrations.trl import SQLEnvTRL, prompt_rows

    ends, turns = set(_ends(speaker)), []
    options = dict(n=2, steps=1, learning_rate=0.0, generation_kwargs=dict(do_sample=False))
    with tempfile.TemporaryDirectory() as out:
        made = partial(SQLEnvTRL, one)
        trainer = tiny_trl.grpo(speaker.tok, speaker.model, prompt_rows(one), made, out, **options)
        original = trainer.model.generate

        def spy(*args: Any, input_ids: Any = None, attention_mask: Any = None, **rest: Any) -> Any:
            found = original(*args, input_ids=input_ids, attention_mask=attention_mask, **rest)
            read = input_ids[0][attention_mask[0].bool()].tolist()
            wrote = found[0, input_ids.shape[1] :].tolist()
            stop = next((i for i, token in enumerate(wrote) if token in ends), len(wrote))
            turns.append(Turn(read, wrote[:stop]))
            return found

        with patch.object(trainer.model, "generate", spy):
            trainer.train()
    return turns


def _ends(speaker: Speaker) -> list[int]:
    ends = speaker.model.generation_config.eos_token_id
    return [speaker.tok.eos_token_id, *(ends if isinstance(ends, list) else [ends])]


def by_server(speaker: Speaker, one: QuestionSet, **options: Any) -> list[Turn]:
    options = dict(extra_body=dict(chat_template_kwargs=NO_THOUGHTS)) | options
    with FakeServer(speaker.answer) as server:
        policy = ChatPolicy("m", server.url, protocol="tools", max_retries=0, **options)
        evaluate(one, policy, progress=False, robust=False)
    return speaker.turns


def by_inspect(speaker: Speaker, one: QuestionSet) -> list[Turn]:
    import inspect_ai
    from inspect_ai.model import GenerateConfig, get_model

    from sql_env.integrations.inspect_ai import question_task

    with FakeServer(speaker.answer) as server, tempfile.TemporaryDirectory() as logs:
        about = dict(base_url=server.url, api_key="none", memoize=False)
        config = GenerateConfig(extra_body=dict(chat_template_kwargs=NO_THOUGHTS))
        model = get_model("openai-api/local/m", config=config, **about)
        [log] = inspect_ai.eval(question_task(one), model, display="none", log_dir=logs)
    assert log.status == "success", log.error
    return speaker.turns


def by_skyrl(
    speaker: Speaker, one: QuestionSet, tools: Sequence[dict] = (), **settings: Any
) -> list[Turn]:
    "SkyRL's `agent_loop`: messages become tokens once, by the template with `generator.chat_template_kwargs`."
    from sql_env.integrations.skyrl import SkyRLEnv

    env = SkyRLEnv(one, extras=dict(question_id=one[0].question_id), **settings)
    render = partial(speaker.render, tools=tools, **NO_THOUGHTS)
    base = [
        dict(role="user", content="I am a user."),
        dict(role="assistant", content="I am an assistant."),
    ]
    before = render(base, add_generation_prompt=False)
    end = speaker.tok.eos_token_id
    before = before[: len(before) - before[::-1].index(end)]  # up to its last end, as SkyRL cuts it
    messages, _ = env.init([])
    read, done = render(messages), False
    while not done:
        text = speaker.write(read)
        step = env.step(text)
        done = step["done"]
        if not done:
            read = (
                read
                + [*speaker.turns[-1].wrote, end]
                + render([*base, *step["observations"]])[len(before) :]
            )
    return speaker.turns


TASKSET = "from sql_env.integrations.verifiers import SQLTaskset\n\n__all__ = ['SQLTaskset']\n"


def by_verifiers(speaker: Speaker, one: QuestionSet, environment: str) -> list[Turn]:
    "`vf-eval` in an environment of its own, which can't be this one."
    from sql_env.questions.question_set import save_question_set

    home = Path(tempfile.mkdtemp())
    (home / "sql_questions.py").write_text(TASKSET)
    save_question_set(one, home / "one")
    paths = {
        "PYTHONPATH": f"{home}{os.pathsep}{ROOT}",
        "PATH": f"{environment}/bin{os.pathsep}{os.environ['PATH']}",
    }
    with FakeServer(
        lambda body: speaker.answer({"chat_template_kwargs": NO_THOUGHTS} | body)
    ) as server:
        command = [
            f"{environment}/bin/vf-eval",
            "sql_questions",
            "--env.taskset.play.source",
            "folder",
        ]
        command += ["--env.taskset.play.path", str(home / "one"), "--env.agent.harness.id", "null"]
        command += [
            "--env.agent.runtime.type",
            "subprocess",
            "--model",
            "m",
            "--client.base-url",
            server.url,
        ]
        command += ["--no-push", "--no-rich", "-n", "1", "-o", str(home), "--run.name", "run"]
        subprocess.run(
            command, cwd=home, env=os.environ | paths, check=True, capture_output=True, timeout=300
        )
    return speaker.turns


def first_difference(tok: Any, wanted: Tokens, found: Tokens) -> str:
    "The first token that differs, with a few before it; '' if none does."
    if wanted == found:
        return ""
    at = next(
        (i for i, (a, b) in enumerate(zip(wanted, found)) if a != b), min(len(wanted), len(found))
    )
    before, a, b = (
        tok.decode(x) for x in (found[max(at - 6, 0) : at], wanted[at : at + 8], found[at : at + 8])
    )
    return f"token {at}: after {before!r} {a!r} in evaluate, {b!r} here"


def compare(tok: Any, wanted: Sequence[Turn], found: Sequence[Turn]) -> list[dict]:
    "By turn: how many tokens were read and written, and the first that differs."
    rows = []
    for mine, theirs in zip(wanted, found):
        rows.append(
            dict(
                read=len(theirs.read),
                wrote=len(theirs.wrote),
                read_differs=first_difference(tok, mine.read, theirs.read),
                wrote_differs=first_difference(tok, mine.wrote, theirs.wrote),
            )
        )
    return rows


def ways(verifiers: str = "") -> dict[str, Callable[[Speaker, QuestionSet], list[Turn]]]:
    "Each way in, as it comes and with what makes its tokens those of `evaluate`."
    found: dict[str, Callable] = {
        "evaluate, the template of the model": by_own_template,
        "TRL": by_trl,
        "server": by_server,
        "server, as_trained": partial(by_server, as_trained=True),
        "SkyRL": by_skyrl,
        "SkyRL, tools in the template": partial(
            by_skyrl, tools=tool_schemas(), tools_in_text=False
        ),
        "Inspect": by_inspect,
    }
    if verifiers:
        found["verifiers"] = partial(by_verifiers, environment=verifiers)
    return found


def play_all(
    model: Any, tok: Any, one: QuestionSet, limit: int = 200, verifiers: str = ""
) -> Iterator[tuple[str, dict]]:
    "Each way in with its turns; `evaluate`, the first, is what the others are compared with."
    template = training_template(tok)
    wanted = by_evaluate(Speaker(model, tok, limit, template), one)
    yield "evaluate", dict(turns=len(wanted), by_turn=compare(tok, wanted, wanted))
    for name, play in ways(verifiers).items():
        try:
            turns = play(Speaker(model, tok, limit, template), one)
        except ImportError as e:
            yield name, dict(missing=str(e))
            continue
        by_turn = compare(tok, wanted, turns)
        same = len(turns) >= len(wanted)  # TRL asks once more after the end
        same = same and not any(r["read_differs"] or r["wrote_differs"] for r in by_turn)
        yield name, dict(turns=len(turns), equal=same, by_turn=by_turn)


def training_template(tok: Any) -> str | None:
    "The template by which TRL trains where it replaces the model's own, which cuts thoughts out of old messages."
    from trl.chat_template_utils import qwen3_chat_template, qwen3_training_chat_template

    return qwen3_training_chat_template if tok.chat_template == qwen3_chat_template else None


def tiny() -> tuple[Any, Any]:
    texts = [q.question_text + q.gold_sql for q in load("bundled")]
    tok = tiny_trl.make_tokenizer([*texts, str(tool_schemas())])
    return tiny_trl.learned(tok), tok


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="a GGUF file, or a folder")
    parser.add_argument("--verifiers", default="", help="a virtual environment that has verifiers")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    if options.model:
        from sql_env.policies.local import load_weights

        model, tok = load_weights(options.model)
        name = Path(options.model).name
    else:
        (model, tok), name = tiny(), "the tiny model of the tests"
    one = load("bundled").filter(question_id="vet_clinic-02")
    about = model, tok, one, 60 if options.model else 200, options.verifiers
    kept = dict(command="python benchmarks/same_tokens.py --out benchmarks/same_tokens.json")
    before: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        before = json.loads(options.out.read_text())["models"] if options.out else {}
    rows: dict[str, Any] = {}
    for way, row in play_all(*about):
        rows[way] = row
        word = row.get("missing") or ("equal" if row.get("equal", True) else "differs")
        print(f"{way}: {word}, {row.get('turns')} turns", flush=True)
        for i, turn in enumerate(row.get("by_turn", ())):
            for what in ("read", "wrote"):
                if said := turn[f"{what}_differs"]:
                    print(f"  turn {i + 1}, {what} {turn[what]}: {said}")
        if options.out:
            models = {**before, name: {**before.get(name, {}), **rows}}
            options.out.write_text(
                json.dumps(kept | dict(models=models), indent=1, ensure_ascii=False) + "\n"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
