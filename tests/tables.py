"Tables of cases that stand as data: `data/NAME.jsonl` has one on each line, and remarks behind a #."

import json
from pathlib import Path


def fixed(value):
    "A value of JSON with tuples for its lists."
    if isinstance(value, dict):
        return {key: fixed(v) for key, v in value.items()}
    return tuple(map(fixed, value)) if isinstance(value, list) else value


def cases(name: str) -> list:
    lines = (Path(__file__).parent / "data" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [fixed(json.loads(line)) for line in lines.splitlines() if line and line[0] != "#"]
