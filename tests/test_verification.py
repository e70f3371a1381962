"A log that is played and judged again: honest ones pass whatever they hold, tampered ones never do."

import copy
import json
import random

import pytest

from sql_env import EpisodeEnv, OraclePolicy, RandomPolicy, evaluate, load
from sql_env.evaluation.logs import _OUTSIDE, _fields
from sql_env.evaluation.verification import verify_result

N_TAMPERED = 200
HONEST = dict(
    value=dict(split="test", n=24),
    robust=dict(split="test", n=24, env=dict(verify="robust", reward="shaped")),
    plain=dict(split="test", n=24, run=dict(robust=False)),
    epochs=dict(split="test", n=8, run=dict(epochs=3)),
    shard=dict(split="test", n=24, run=dict(shard=(2, 3))),
    again=dict(split="validation", n=None),
    conversations=dict(source="conversations", n=10),
    tasks=dict(source="tasks", n=10, env=dict(actions=["EXECUTE"])),
    unanswerable=dict(source="ambiguous", n=10, env=dict(actions=["CLARIFY", "ABSTAIN"])),
)


class Careless(OraclePolicy):
    "An oracle that answers 0 to every second question."

    def select_action(self, observation):
        if len(observation.question) % 2:
            return "ANSWER", "0"
        return super().select_action(observation)


def play(path, policy, source="bundled", split=None, n=None, env=None, run=None):
    questions = load(source, split=split) if split else load(source)
    made = policy() if policy is RandomPolicy else policy(questions)
    evaluate(EpisodeEnv(questions, **env or {}), made, n, log=path, progress=False, **run or {})
    return questions


@pytest.mark.parametrize("policy", [OraclePolicy, RandomPolicy])
@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_log_is_verified(kind, policy, tmp_path):
    questions = play(tmp_path / "a.jsonl", policy, **HONEST[kind])
    found = verify_result(tmp_path / "a.jsonl", questions)
    assert found and not found.notes, found.problems
    assert found.result.success_rate == found.claimed.success_rate


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    "Questions, header and lines of a log with right and wrong episodes."
    path = tmp_path_factory.mktemp("honest") / "a.jsonl"
    questions = play(path, Careless, split="test", n=24, env=dict(verify="robust"))
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert {line["episode"]["verdicts"]["value"]["correct"] for line in lines} == {True, False}
    return questions, header, lines


def places(line):
    "The places in a line that a replay can show, as lists of keys."
    for place, _ in _fields(line):
        keys = place.split(".")
        if keys[0] not in _OUTSIDE and "usage" not in keys and keys[1:3] != ["hashes", "prompt"]:
            yield keys


def other(value, r):
    "Another value of the same kind."
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, (int, float)):
        return value + r.choice((1, -1, 0.5))
    if isinstance(value, str):
        return value[1:] if value and r.random() < 0.5 else f"{value}x"
    return {"value": True}


def change_field(lines, r):
    line = r.choice(lines)
    *keys, last = r.choice(list(places(line)))
    inner = line
    for key in keys:
        inner = inner[int(key) if isinstance(inner, list) else key]
    last = int(last) if isinstance(inner, list) else last
    inner[last] = other(inner[last], r)


def call_right(lines, r):
    wrong = [x for x in lines if not x["episode"]["verdicts"]["value"]["correct"]]
    verdicts = r.choice(wrong)["episode"]["verdicts"]
    verdicts["value"] = dict(correct=True, reason="match")


def call_robust(lines, r):
    verdicts = r.choice(lines)["episode"]["verdicts"]
    verdicts["certified"] = dict(correct=True, reason="proved")


def call_crashed(lines, r):
    r.choice(lines)["episode"]["error"] = "ConnectionError: the server is gone"


def drop(lines, r):
    lines.remove(r.choice(lines))


def play_twice(lines, r):
    right = [x for x in lines if x["episode"]["verdicts"]["value"]["correct"]]
    wrong = [x for x in lines if x not in right]
    lines[lines.index(r.choice(wrong))] = copy.deepcopy(r.choice(right))


def take_the_place(lines, r):
    a, b = r.sample(lines, 2)
    numbers = a["episode"]["episode_index"], b["episode"]["episode_index"]
    b["episode"]["episode_index"], a["episode"]["episode_index"] = numbers


def another_seed(lines, r):
    r.choice(lines)["reset"]["seed"] += 1


def drop_a_turn(lines, r):
    turns = r.choice(lines)["turns"]
    turns.pop(r.randrange(len(turns)))


def add_a_turn(lines, r):
    turns = r.choice(lines)["turns"]
    turns.insert(r.randrange(len(turns) + 1), copy.deepcopy(turns[0]))


def other_gold(lines, r):
    r.choice(lines)["gold_sql"] += " LIMIT 1"


TAMPERED = [
    *(change_field, call_right, call_robust, call_crashed, drop),
    *(play_twice, take_the_place, another_seed, drop_a_turn, add_a_turn, other_gold),
]


def of_header(header, r):
    "A change of what a header says about the run."
    name = r.choice(["episodes", "seed", "ids", "n_questions", "questions", "reward"])
    value = header[name]
    header[name] = {**value, "correct": 2.0} if name == "reward" else other(value, r)


@pytest.mark.parametrize(
    "number",
    [n if n % 7 == 0 else pytest.param(n, marks=pytest.mark.slow) for n in range(N_TAMPERED)],
)
def test_a_tampered_log_is_found(number, honest, tmp_path):
    questions, (header, lines) = honest[0], copy.deepcopy(honest[1:])
    r = random.Random(number)
    if number % 10 == 0:
        of_header(header, r)
    else:
        TAMPERED[number % len(TAMPERED)](lines, r)
    assert (header, lines) != honest[1:]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in [header, *lines]))
    try:
        found = verify_result(path, questions)
    except ValueError as e:
        assert str(e)
        return
    assert found.problems, TAMPERED[number % len(TAMPERED)].__name__


def test_a_rate_can_not_be_raised_by_what_is_missing(honest, tmp_path):
    questions, header, lines = honest
    right = [x for x in lines if x["episode"]["verdicts"]["value"]["correct"]]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in [header, *right]))
    found = verify_result(path, questions)
    assert found.claimed.success_rate == 1 and found.result.success_rate == len(right) / len(lines)


def test_another_database_is_told(honest, tmp_path):
    "Content that changed is named by its hash, episode by episode."
    questions, header, lines = honest
    lines = copy.deepcopy(lines)
    for line in lines:
        line["episode"]["hashes"]["database"] = "0" * 32
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in [header, *lines]))
    found = verify_result(path, questions)
    assert len(found.problems) == len(lines) and "hashes.database" in found.problems[0]
