"Whether exactly what the assistant writes is trained: from rows through template and mask, letter by letter."

import json
from collections.abc import Iterable
from typing import Any


def qwen_assistant_turn(message: dict[str, Any]) -> str:
    "What Qwen3's training template writes for a message of the assistant."
    parts = [message["content"]] if message["content"] else []
    for call in message.get("tool_calls") or ():
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        text = f'{{"name": "{name}", "arguments": {arguments}}}'
        parts.append(f"<tool_call>\n{text}\n</tool_call>")
    return "<think>\n\n</think>\n\n" + "\n".join(parts) + "<|im_end|>\n"


def _check_arguments(index: int, row: dict) -> None:
    "Raise `ValueError` if arguments of a call are not JSON text, or hold anything but text."
    for call in (c for m in row["messages"] for c in m.get("tool_calls") or ()):
        arguments = call["function"]["arguments"]
        values = json.loads(arguments).values() if isinstance(arguments, str) else [None]
        if not all(isinstance(v, str) for v in values):
            raise ValueError(f"row {index}: arguments {arguments!r} are not JSON text without nulls")


def check_rendering(rows: Iterable[dict], tokenizer: Any, template: str | None = None) -> dict[str, float]:
    "Number of rows and share trained, by TRL's template if none is given; `ValueError` if not just the assistant is."
    from trl.chat_template_utils import get_training_chat_template

    template = template or get_training_chat_template(tokenizer) or tokenizer.chat_template
    options = dict(chat_template=template, return_dict=True, return_assistant_tokens_mask=True)
    n_rows = n_tokens = n_trained = 0
    for i, row in enumerate(rows):
        _check_arguments(i, row)
        wanted = "".join(qwen_assistant_turn(m) for m in row["messages"] if m["role"] == "assistant")
        tools = json.loads(row["tools"]) if isinstance(row["tools"], str) else row["tools"]
        out = tokenizer.apply_chat_template(row["messages"], tools=tools, **options)
        ids = [t for t, trained in zip(out["input_ids"], out["assistant_masks"]) if trained]
        found = tokenizer.decode(ids, skip_special_tokens=False)
        if found != wanted:
            raise ValueError(f"row {i}: the trained text is\n{found!r}\nnot\n{wanted!r}")
        n_rows, n_tokens, n_trained = i + 1, n_tokens + len(out["input_ids"]), n_trained + len(ids)
    return dict(rows=n_rows, trained=n_trained / max(n_tokens, 1))
