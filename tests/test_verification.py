"A log that is played and judged again: honest ones pass whatever they hold, tampered ones never do."

import copy
import json
import random
import re

import pytest
from fake_server import FakeServer, player
from tables import cases

from sql_env import ChatPolicy, EpisodeEnv, OraclePolicy, RandomPolicy, evaluate, load
from sql_env.evaluation.logs import _OUTSIDE, _fields
from sql_env.evaluation.verification import verify_result
from sql_env.policies.endpoint import Endpoint

N_TAMPERED = 200


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
@pytest.mark.parametrize("kind, how", cases("verification_honest"))
def test_an_honest_log_is_verified(kind, how, policy, tmp_path):
    questions = play(tmp_path / "a.jsonl", policy, **how)
    found = verify_result(tmp_path / "a.jsonl", questions)
    assert found and not found.notes, (kind, found.problems)
    assert found.result.success_rate == found.claimed.success_rate


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    "Questions, header and lines of a log with right and wrong episodes."
    path = tmp_path_factory.mktemp("honest") / "a.jsonl"
    questions = play(path, Careless, split="test", n=24, env=dict(verify="robust"))
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert set(map(right, lines)) == {True, False}
    return questions, header, lines


@pytest.fixture
def tampered(honest):
    "The same, to be changed."
    return honest[0], *copy.deepcopy(honest[1:])


def right(line):
    return line["episode"]["verdicts"]["value"]["correct"]


def write(path, *lines):
    path.write_text("".join(json.dumps(x) + "\n" for x in lines))
    return path


def check(path, questions, *lines):
    "Whether the tampering with a log is told, or the log refused in words."
    try:
        found = verify_result(write(path, *lines), questions)
    except ValueError as e:
        return bool(str(e))
    return bool(found.problems or found.notes)


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


def put(values, place, value=...):
    "Another value at a place, or none."
    *keys, last = place if isinstance(place, list) else place.split(".")
    for key in keys:
        values = values[int(key) if isinstance(values, list) else key]
    last = int(last) if isinstance(values, list) else last
    value = value(values[last]) if callable(value) else value
    values.pop(last) if value is ... else values.__setitem__(last, value)


TAMPERED = "field right robust crashed drop twice place seed less more gold".split()


def tamper_with(kind, lines, r):
    good, wrong = list(filter(right, lines)), [x for x in lines if not right(x)]
    line = r.choice(wrong if kind in ("right", "twice") else lines)
    turns, copied = line["turns"], copy.deepcopy(line["turns"][0])
    match kind:
        case "field":
            put(line, r.choice(list(places(line))), lambda value: other(value, r))
        case "right":
            put(line, "episode.verdicts.value", dict(correct=True, reason="match"))
        case "robust":
            put(line, "episode.verdicts.certified", dict(correct=True, reason="proved"))
        case "crashed":
            put(line, "episode.error", "ConnectionError: the server is gone")
        case "drop":
            lines.remove(line)
        case "twice":
            lines[lines.index(line)] = copy.deepcopy(r.choice(good))
        case "place":
            a, b = (x["episode"] for x in r.sample(lines, 2))
            a["episode_index"], b["episode_index"] = b["episode_index"], a["episode_index"]
        case "seed":
            put(line, "reset.seed", lambda seed: seed + 1)
        case "less":
            turns.pop(r.randrange(len(turns)))
        case "more":
            turns.insert(r.randrange(len(turns) + 1), copied)
        case "gold":
            put(line, "gold_sql", lambda sql: f"{sql} LIMIT 1")


def of_header(header, r):
    "A change of what a header says about the run."
    name = r.choice(["episodes", "seed", "ids", "n_questions", "questions", "reward"])
    value = header[name]
    header[name] = {**value, "correct": 2.0} if name == "reward" else other(value, r)


NUMBERS = [n if n % 7 == 0 else pytest.param(n, marks=pytest.mark.slow) for n in range(N_TAMPERED)]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_tampered_log_is_found(number, honest, tampered, tmp_path):
    questions, header, lines = tampered
    r, kind = random.Random(number), TAMPERED[number % len(TAMPERED)]
    if number % 10 == 0:
        of_header(header, r)
    else:
        tamper_with(kind, lines, r)
    assert (header, lines) != honest[1:]
    path = write(tmp_path / "a.jsonl", header, *lines)
    try:
        assert verify_result(path, questions).problems, kind
    except ValueError as e:
        assert str(e)


CHANGES = [(part, change) for part in ("headers", "lines") for change in cases(f"verification_{part}", list)]


@pytest.mark.parametrize("part, change", CHANGES, ids=str)
def test_a_header_or_a_line_that_no_run_writes_is_found(part, change, tampered, tmp_path):
    questions, header, lines = tampered
    if change[0] == "reward.correct":
        header["reward.correct"] = 1
    else:
        put(header if part == "headers" else lines[3], *change)
    assert check(tmp_path / "a.jsonl", questions, header, *lines)


def begin_again(header, lines):
    "A try that ended badly stands before the one that counts."
    wrong = copy.deepcopy(next(x for x in lines if right(x)))
    wrong["turns"] = wrong["turns"][:1]
    lines.insert(0, wrong)


def crash_later(header, lines):
    lines.append(copy.deepcopy(lines[0]))
    lines[-1]["episode"] |= dict(error="ConnectionError: gone", verdicts={})


def ask_less(header, lines):
    lines[:] = [x for x in lines if x["episode"]["episode_index"] < 12]
    lines.append(header | dict(episodes=12))


def one_part_of_one(header, lines):
    header["shard"] = [1, 1]
    lines[:] = filter(right, lines)


@pytest.mark.parametrize("tamper", [begin_again, crash_later, ask_less, one_part_of_one])
def test_a_run_that_was_not_played_so_is_found(tamper, tampered, tmp_path):
    questions, header, lines = tampered
    rate = sum(map(right, lines)) / len(lines)
    tamper(header, lines)
    assert check(path := tmp_path / "a.jsonl", questions, header, *lines)
    if tamper is one_part_of_one:  # a rate can't be raised by what is missing
        found = verify_result(path, questions)
        assert found.claimed.success_rate == 1 and found.result.success_rate == rate


TEXTS = {  # what two readers of JSON take for different things, or pass over
    "a name twice": lambda text: text.replace('{"episode": {', '{"episode": {"steps": 1, ', 1),
    "words before a line": lambda text: text.replace('\n{"episode"', '\n100 % {"episode"', 1),
    "half a header": lambda text: text.replace('\n{"episode"', '\n{"policy": "x", {"episode"', 1),
    "half a line at the end": lambda text: text + '{"episode": {"verd',
    "no end": lambda text: text[:-1],
    "zeros": lambda text: text + "\0\0\n",
    "spaces": lambda text: text.replace('{"episode": ', '{"episode":   ', 1),
    "letters as codes": lambda text: text.replace('"value"', '"v\\u0061lue"', 1),
    "no bytes of UTF-8": lambda text: text.replace('"oracle"', '"\udcff"', 1),
    "as deep as can be": lambda text: text.replace('"seed": ', f'"x": {"[" * 9**5}, "seed": ', 1),
}


@pytest.mark.parametrize("tamper", TEXTS.values(), ids=TEXTS)
def test_a_text_that_no_run_writes_is_found(tamper, honest, tmp_path):
    path = write(tmp_path / "a.jsonl", honest[1], *honest[2])
    path.write_bytes(tamper(path.read_text()).encode(errors="surrogateescape"))
    try:
        assert verify_result(path, honest[0]).problems
    except ValueError as e:
        assert str(e)


@pytest.mark.parametrize("verify", ["value", "robust"])
def test_robust_is_not_taken_from_a_log_that_did_not_judge_it(verify, tmp_path):
    path, run = tmp_path / "a.jsonl", dict(robust=False)
    questions = play(path, Careless, "bundled", "test", 12, dict(verify=verify), run)
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert verify_result(path, questions)
    for line in lines:
        put(line, "episode.verdicts.robust", dict(correct=True, reason="match"))
    assert check(path, questions, header, *lines)
    assert verify == "robust" or not verify_result(path, questions).result.robust_rate > 0


@pytest.fixture(scope="module")
def of_a_model(tmp_path_factory):
    path, questions = tmp_path_factory.mktemp("model") / "a.jsonl", load("bundled", split="test")
    with FakeServer(player(questions)) as server:
        model = ChatPolicy(Endpoint("m", base_url=server.url, api_key="none"))
        evaluate(EpisodeEnv(questions), model, 6, log=path, progress=False)
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert verify_result(path, questions)
    return questions, header, lines


SENT = [
    *(("messages", []), ("messages.0.content", "Look it up."), ("messages.1.content", "Hi")),
    *(("calls", []), ("episode.hashes.prompt", ...), ("calls.0.message", 1)),
]


@pytest.mark.parametrize("place, value", [("budget", 9), ("schema_level", "none"), ("actions", ["EXECUTE"]), *SENT])
def test_what_a_model_was_sent_first_is_compared(place, value, of_a_model, tmp_path):
    questions, (header, lines) = of_a_model[0], copy.deepcopy(of_a_model[1:])
    put(header if place in ("budget", "schema_level", "actions") else lines[2], place, value)
    assert check(tmp_path / "a.jsonl", questions, header, *lines)


def test_the_command_reads_a_source_as_evaluate_does(sql_env):
    "The first result of the skill, and what it says to run before a rate is published."
    for words in ("evaluate -n 4 --policy oracle --log runs", "verify-result runs/oracle.jsonl"):
        assert sql_env(*words.split())[0] == 0


def test_worlds_of_a_seed_that_was_drawn_later_are_verified_by_the_command(sql_env, tmp_path):
    source, log = "--source worlds --split test --worlds-seed 8153".split(), tmp_path / "a.jsonl"
    assert sql_env("evaluate", *source, *"-n 6 --policy greedy --log a.jsonl".split())[0] == 0
    code, said, _ = sql_env("verify-result", "a.jsonl", *source)
    assert code == 0 and "'greedy': verified, " in said and '"questions": "worlds level 1 test seed 8153"' in said
    log.write_text(re.sub('("most frequent answer": )[0-9.]+', r"\g<1>0.99", log.read_text()))
    for seed, wrong in ((8153, "hack_floor"), (8154, "questions")):
        code, said, _ = sql_env("verify-result", "a.jsonl", *source[:-1], seed)
        assert code == 1 and f"the run: {wrong} is" in said


def test_a_rate_can_not_be_raised_by_what_is_missing(honest, tmp_path):
    questions, header, lines = honest
    found = verify_result(write(tmp_path / "a.jsonl", header, *filter(right, lines)), questions)
    assert found.claimed.success_rate == 1 and found.result.success_rate == sum(map(right, lines)) / len(lines)


def test_another_database_is_told(tampered, tmp_path):
    "Content that changed is named by its hash, episode by episode."
    questions, header, lines = tampered
    for line in lines:
        put(line, "episode.hashes.database", "0" * 32)
    found = verify_result(write(tmp_path / "a.jsonl", header, *lines), questions)
    assert len(found.problems) == len(lines) and "hashes.database" in found.problems[0]
