"""Make the JSON Schema of a log from the dataclasses: `python benchmarks/log_schema.py`.

Field names and types come from `Trajectory`, `EpisodeResult` and `Verdict`, descriptions from the comments beside
them. What is no dataclass, the header of a log and a call to a model, is described here.
`--check` writes nothing and fails if a file is out of date."""

import json
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Any, Union, get_args, get_origin, get_type_hints

from fastcore.docments import docments

from sql_env.evaluation.rows import BLAMES, EpisodeResult, Trajectory
from sql_env.grading.answers import Verdict
from sql_env.play.episode import Turn

ASSETS = Path(__file__).parents[1] / "sql_env" / "assets"
NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}

HEADER = dict(
    policy=(str, "Name of the policy."),
    policy_settings=(dict, "Model, server, options, price; no key."),
    seed=(int, "Of the plan."),
    episodes=(int, "Length of the plan."),
    epochs=(int, "Times that each question is played, if more than once."),
    order=(str, "How the plan orders questions: interleaved, so that databases take turns."),
    questions=(str, "Name of the question set."),
    n_questions=(int, ""),
    ids=(str, "CRC-32 of the question ids in their order."),
    budget=(int, ""),
    schema_level=(str, ""),
    verify=(str, ""),
    robust=(bool, "False if answers are not judged on variants."),
    actions=(list[str], "Actions that are allowed, if they are more than the usual four."),
    reward=(dict, "Fields of `RewardConfig`."),
    limits=(dict, "Fields of `Limits` if they are not the default."),
    environment=(str, "Type of an environment that is not in this process."),
    format=(int, "Of the log."),
    sql_env=(str, "Version of the package."),
    commit=(str, "Commit of its checkout, if it runs from one."),
    python=(str, ""),
    started=(str, "Time stamp, ISO 8601 in UTC."),
    model=(str, ""),
    base_url=(str, ""),
    channel=(
        dict,
        "How tools reach the model, as the probe found: protocol, tools, call, usage, context, seconds.",
    ),
    text_hash=(str, "Of the system prompt and the descriptions of tools."),
    suite_hash=(str, "Of the questions, their golds and databases."),
    hack_floor=(dict[str, float], "Success rate of each reward-hacking baseline."),
    rescored=(dict, "Of which log, by which version, when; see `rescore_log`."),
)
CALL = dict(
    message=(int, "Place of the answer in `messages`; none if it failed."),
    seconds=(float, ""),
    usage=(dict, "Tokens and retries."),
    stop_reason=(str, ""),
    response_id=(str, ""),
    truncated=(bool, "Cut at the limit of tokens."),
    cached=(bool, "From the response cache."),
    received=(dict, "The message as it came, if another one stands in `messages`."),
    error=(str, "Why there is no answer."),
)


def type_schema(kind: Any) -> dict[str, Any]:
    "The JSON Schema of a type."
    args, origin = get_args(kind), get_origin(kind) or kind
    if kind in (EpisodeResult, Trajectory, Verdict, Turn):
        return class_schema(kind)
    if origin in (list, tuple):
        inner = type_schema(args[0]) if args else {}
        return dict(type="array") | ({"items": inner} if inner else {})
    if isinstance(origin, type) and issubclass(origin, tuple):  # an `Action`
        return dict(type="array", items=dict(type="string"))
    if origin is dict:
        inner = type_schema(args[1]) if args else {}
        return dict(type="object") | ({"additionalProperties": inner} if inner else {})
    if origin is Union or type(kind).__name__ == "UnionType":
        return dict(type=[type_schema(a)["type"] for a in args])
    return dict(type=NAMES[kind]) if kind in NAMES else {}


def class_schema(cls: type) -> dict[str, Any]:
    "The JSON Schema of a dataclass, without what its log form leaves out."
    hints, said = get_type_hints(cls), docments(cls)
    kinds = dict(hints, correct=bool | None) if cls is Verdict else hints
    properties = {}
    for f in fields(cls):
        if (cls, f.name) == (Verdict, "row"):
            continue
        about = said.get(f.name)
        properties[f.name] = type_schema(kinds[f.name])
        if isinstance(about, str) and about:
            first = about if "_" in about.split()[0] else about[0].upper() + about[1:]
            properties[f.name]["description"] = first + "."
    needed = [f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]
    required = [name for name in needed if (cls, name) != (Trajectory, "turns")]
    return dict(type="object", required=required, properties=properties, additionalProperties=False)


def table_schema(table: dict[str, tuple], required: list[str]) -> dict[str, Any]:
    "The JSON Schema of an object that a table describes."
    properties = {}
    for name, (kind, words) in table.items():
        properties[name] = type_schema(kind) | ({"description": words} if words else {})
    return dict(type="object", required=required, properties=properties)


def schemas() -> dict[str, dict[str, Any]]:
    "The schemas by the names of their files."
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    row = class_schema(Trajectory) | dict(title="episode")
    row["properties"]["calls"]["items"] = table_schema(CALL, ["usage"])
    blame = row["properties"]["episode"]["properties"]["blame"]
    blame["enum"] = [*BLAMES, None]
    header = table_schema(HEADER, ["policy", "format"]) | dict(title="header")
    return {
        "log.schema.json": draft | dict(title="A line of a log of sql_env", oneOf=[header, row]),
    }


if __name__ == "__main__":
    for file, schema in schemas().items():
        text = json.dumps(schema, indent=1) + "\n"
        if "--check" not in sys.argv:
            (ASSETS / file).write_text(text)
        elif (ASSETS / file).read_text() != text:
            sys.exit(f"{file} is out of date: run python benchmarks/log_schema.py")
