"What is trained is what is evaluated, token for token: one episode of a small model by each way in."

import json
import os

import pytest
from conftest import ROOT
from serving import load_benchmark

from sql_env import load

KEPT = json.loads((ROOT / "benchmarks" / "same_tokens.json").read_text())["models"]
EQUAL = ["TRL", "server, as_trained", "SkyRL, tools in the template"]
OTHERS = {  # and the first token that differs, in words of the page
    "evaluate, the template of the model": "<think>",
    "server": "return",
    "Inspect": "return",
    "SkyRL": "Tools",
}


def says(row):
    "The first difference of a way in."
    return next(
        (t[f"{what}_differs"] for t in row["by_turn"] for what in ("read", "wrote") if t[f"{what}_differs"]), ""
    )


def check(rows):
    assert rows["evaluate"]["turns"] == 3
    for way in EQUAL:
        assert rows[way].get("missing") or rows[way]["equal"], says(rows[way])
    for way, word in OTHERS.items():
        assert rows[way].get("missing") or word in says(rows[way]), way


def test_the_committed_rows_say_which_token_differs():
    check(KEPT["the tiny model of the tests"])


@pytest.mark.slow
def test_a_small_model_reads_and_writes_the_same_tokens(tiny_model):
    one = load("bundled").filter(question_id="vet_clinic-02")
    check(dict(load_benchmark("same_tokens").play_all(*tiny_model, one)))


@pytest.mark.full
@pytest.mark.slow
def test_a_real_model_does_too():
    "Told by SQL_ENV_GGUF, such as SmolLM2-135M-Instruct.Q4_1.gguf."
    if not (path := os.environ.get("SQL_ENV_GGUF")):
        pytest.skip("SQL_ENV_GGUF names no file")
    from sql_env.policies.local import load_weights

    one = load("bundled").filter(question_id="vet_clinic-02")
    rows = dict(load_benchmark("same_tokens").play_all(*load_weights(path), one, limit=40))
    assert rows["server, as_trained"]["equal"], says(rows["server, as_trained"])
