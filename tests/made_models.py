"""Models of loopback servers that count tokens as a real one does: pieces of words, of all that is sent and written."""

import json
import re

from fake_server import FakeServer, completion, player

from sql_env.policies.chat import ChatPolicy
from sql_env.sources.loading import load

QUESTIONS = load("bundled").split("test")
PIECE = re.compile(r" ?[A-Za-z]{1,6}|\d{1,3}|\s+|[^\sA-Za-z\d]")


def tokens(*values):
    return sum(len(PIECE.findall(json.dumps(value, ensure_ascii=False))) for value in values)


def talks(body):
    "No call ever: it talks, is nudged, and gives up."
    return "To find out how many visits there are, we can use the following steps. " * 6


def wanders(body):
    "Small: it looks at a table again and again, with errors, until its steps are used up."
    n = sum(m["role"] == "assistant" for m in body["messages"])
    tables = re.findall(r"^[a-z_]+$", body["messages"][1]["content"], re.M) or ["visit"]
    sql = f"SELECT id, name, total FROM {tables[n % len(tables)]} WHERE total > {n}"
    return [("describe", dict(table_name=tables[n % len(tables)])), ("query", dict(sql=sql))][n % 2 :][:1]


def plans(body):
    "Larger: three looks with a reason each, then gold and the answer."
    n = sum(m["role"] == "assistant" for m in body["messages"])
    asked = body["messages"][1]["content"]
    tables = re.findall(r"^[a-z_]+$", asked, re.M) or ["visit"]
    calls = [("describe", dict(table_name=tables[n % len(tables)]))]
    if n >= 3:
        calls = player(QUESTIONS)(dict(messages=body["messages"][:2] + body["messages"][8:]))
    said = "The question needs the columns of this table and the way in which they are joined. " * 2
    call = dict(name=calls[0][0], arguments=json.dumps(calls[0][1]))
    return dict(role="assistant", content=said, tool_calls=[dict(type="function", id="x", function=call)])


MODELS = dict(talks=talks, wanders=wanders, plans=plans)


def counted(model):
    "A server of a model, with real numbers of tokens."

    def script(body):
        said = completion(model(body))
        prompt = tokens(body["messages"], body.get("tools", []))
        written = tokens(said["choices"][0]["message"])
        return said | dict(usage=dict(prompt_tokens=prompt, completion_tokens=written))

    return FakeServer(script)


def estimates(name, n=12):
    "What a run told of its tokens, in and out, at the start and after three episodes, over what they took."
    from sql_env.evaluation import harness

    told, plain = [], harness._estimate_text

    def kept(env, policy, todo, known, **options):
        text = plain(env, policy, todo, known, **options)
        found = re.search(r"about ([\d,]+) tokens in and ([\d,]+) out", text)
        told.append(([p.episode_index for p in todo], [int(x.replace(",", "")) for x in found.groups()]))
        return text

    harness._estimate_text = kept
    try:
        with counted(MODELS[name]) as server:
            result = harness.evaluate(QUESTIONS, ChatPolicy("m", server.url, "k"), n, progress=False)
    finally:
        harness._estimate_text = plain
    made = []
    for todo, guess in told:
        took = [
            sum(e.usage[f"{kind}_tokens"] for e in result.episodes if e.episode_index in todo)
            for kind in ("prompt", "completion")
        ]
        made.append([round(g / t, 2) for g, t in zip(guess, took)])
    steps = sum(e.usage["calls"] for e in result.episodes) / n
    return dict(model=name, calls=round(steps, 1), at_start=made[0], after_three=made[1])
