"Whether exactly what the assistant writes is trained: from rows through template and mask, letter by letter."

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


def qwen_assistant_turn(message: dict[str, Any]) -> str:
    "What Qwen3's training template writes for a message of the assistant."
    parts = [message["content"]] if message["content"] else []
    for call in message.get("tool_calls") or ():
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        text = f'{{"name": "{name}", "arguments": {arguments}}}'
        parts.append(f"<tool_call>\n{text}\n</tool_call>")
    return "<think>\n\n</think>\n\n" + "\n".join(parts) + "<|im_end|>\n"


class _Rendered(NamedTuple):
    "A row as the trainer has it."

    trained_text: str
    n_tokens: int
    n_trained: int


def _render(row: dict, tokenizer: Any, template: str) -> _Rendered:
    "Tokens of a row by the chat template, and the text of those that are trained."
    tools = json.loads(row["tools"]) if isinstance(row["tools"], str) else row["tools"]
    out = tokenizer.apply_chat_template(
        row["messages"], tools=tools, chat_template=template, return_dict=True, return_assistant_tokens_mask=True
    )
    ids = [t for t, trained in zip(out["input_ids"], out["assistant_masks"]) if trained]
    text = tokenizer.decode(ids, skip_special_tokens=False)
    return _Rendered(text, len(out["input_ids"]), len(ids))


def _check_arguments(index: int, row: dict) -> None:
    "Raise `ValueError` if arguments of a call are not JSON text, or hold anything but text."
    calls = [c for m in row["messages"] for c in m.get("tool_calls") or ()]
    for call in calls:
        arguments = call["function"]["arguments"]
        values = json.loads(arguments).values() if isinstance(arguments, str) else [None]
        if not all(isinstance(v, str) for v in values):
            raise ValueError(f"row {index}: arguments {arguments!r} are not JSON text without nulls")


def check_rendering(
    rows: Iterable[dict],
    tokenizer: Any,
    template: str | None = None,  # chat template; TRL's training variant of the tokenizer's if None
    turn: Callable[[dict], str] = qwen_assistant_turn,  # the text of an assistant's message
) -> dict[str, float]:
    "Rows, tokens of the longest, share trained; `ValueError` if not just the assistant is trained."
    if template is None:
        from trl.chat_template_utils import get_training_chat_template

        template = get_training_chat_template(tokenizer) or tokenizer.chat_template
    sizes: list[int] = []
    trained = 0
    for i, row in enumerate(rows):
        _check_arguments(i, row)
        wanted = "".join(turn(m) for m in row["messages"] if m["role"] == "assistant")
        found = _render(row, tokenizer, template)
        if found.trained_text != wanted:
            raise ValueError(f"row {i}: the trained text is\n{found.trained_text!r}\nnot\n{wanted!r}")
        sizes.append(found.n_tokens)
        trained += found.n_trained
    share = round(trained / max(sum(sizes), 1), 3)
    return dict(rows=len(sizes), longest=max(sizes, default=0), trained=share)
