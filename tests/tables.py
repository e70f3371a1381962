"Tables of cases that stand as data: `data/NAME.jsonl` has one on each line, and remarks behind a #."

import json
from pathlib import Path


def fixed(value):
    'A value of JSON with tuples for its lists, and bytes for {"bytes": "00ff"}.'
    if isinstance(value, dict):
        if value.keys() == {"bytes"}:
            return bytes.fromhex(value["bytes"])
        return {key: fixed(v) for key, v in value.items()}
    return tuple(map(fixed, value)) if isinstance(value, list) else value


def cases(name: str, read=fixed) -> list:
    lines = (Path(__file__).parent / "data" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [read(json.loads(line)) for line in lines.split("\n") if line and line[0] != "#"]


def alternatives(name: str) -> list:
    "Pairs of a gold query and one of the others that stand beside it."
    return [(gold, other) for gold, others in cases(name) for other in others]
