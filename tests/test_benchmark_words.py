"Words that compare, on the page of benchmarks and in the posts, held against the data."

import json
import re
from pathlib import Path

import pytest
from tables import cases

from sql_env.nano.model import find_nano
from sql_env.paths import benchmark_files
from sql_env.paths import benchmark_results as data
from sql_env.sources.loading import load

COMPARING = (
    "faster|slower|fewer|less|more|most|mostly|least|longer|shorter|larger|smaller|better|worse|"
    "best|worst|none|nothing|never|always|only|half|twice|different|same|above|below|must|no"
)
# Sentences that compare nothing measured: reasons, and what was not measured
REASONS = cases("benchmark_words_reasons")


def texts(path):
    "What a page says: its Markdown cells and what cells print, without tables; each as one line."
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        found = ["".join(cell["source"])] if cell["cell_type"] == "markdown" else []
        for output in cell.get("outputs", ()):
            found.append("".join(output.get("data", {}).get("text/markdown", "")))
        yield from (" ".join(text.split()) for text in found if not text.startswith("|"))


def page_text(root, name):
    return " ".join(texts(root / "nbs" / f"{name}.ipynb"))


def server(part):
    return data("server")[part]


def levels():
    return {int(level): c for level, c in data("worlds")["curve"].items()}


def faults(part):
    return sum(server(part)[k] for k in ("errors", "different", "wrong_verdicts"))


def more_calls(text):
    many = server("load_512")
    more = many["calls_per_second"] > many["echo_calls_per_second"]
    return f"answered {'more' if more else 'fewer'} calls than" in text


def long_waits(text):
    war = server("hostile")
    calmer = war["peace"]["p99_ms"] <= war["war"]["p99_ms"]
    return ("waits grew too" if calmer else "waits were longer still without them") in text


def above_both(text):
    "Counts anew in how many suites the last stage is above word matching and the best hack."
    stage = re.search(r"After \*(\w+)\* the model is above", text)[1]
    rows = [e for r in data("nano")["runs"].values() for e in r["evals"]]
    simple = data("nano_baselines")["rows"]
    wins = compared = 0
    for suite in {e["suite"] for e in rows if e["stage"] == stage} & {e["suite"] for e in simple}:
        rates = [e["success"] for e in rows if (e["stage"], e["suite"]) == (stage, suite)]
        rivals = ("greedy", "best cheat", "best hack")
        others = [e["success"] for e in simple if e["suite"] == suite and e["policy"] in rivals]
        compared += 1
        wins += sum(rates) / len(rates) > max(others)
    return f"is above both policies in {wins} of {compared} suites" in text


def at_most_seeds(text):
    runs = data("nano")["runs"]
    return f"that took a suite, at most {sum(bool(r['evals']) for r in runs.values())};" in text


def tuned_apart(name):
    halves = (set(data(name)[half]["databases"]) for half in ("tuning", "reporting"))
    return set.intersection(*halves) == set()


# What a page says, and whether the data say it too; a check may look at the text
CLAIMS = {
    "benchmarks": {
        "A guard that made queries much slower": lambda t: data("core")["executors"]["guarded_to_raw"] < 1.5,
        "sends back as many bytes": lambda t: server("latency")["bytes"] == server("latency")["echo_bytes"],
        "calls than the echo": more_calls,
        "no answer may be lost, mixed up or judged wrongly": lambda t: (
            not any(map(faults, ("load", "load_512", "growth", "hostile")))
        ),
        "The rare long waits": long_waits,
        "right in all, and the best hack in less than one of a hundred": lambda t: all(
            c["oracle"] == 1 and c["best_hack"][1] < 0.01 for c in levels().values()
        ),
        "finds a foothold on the two easy ones only": lambda t: all(
            (c["greedy"] > 0.1) == (level <= 2) for level, c in levels().items()
        ),
        "some two million parameters": lambda t: (
            1.8e6 < json.loads((find_nano() / "nano.json").read_text())["parameters"] < 2.4e6
        ),
        "is above both policies in": above_both,
        "at most": at_most_seeds,
        "here two shared cores": lambda t: server("cpus") == 2,
        "Generated worlds have five levels": lambda t: sorted(levels()) == [1, 2, 3, 4, 5],
        "each file but two, judged by hand": lambda t: without_command() == ["alternatives_judged", "proofs_judged"],
        "over 42 databases": lambda t: len({pair["db"] for pair in pairs_of("benchmarks/careless_blind.jsonl")}) == 42,
        "Published sets have flaws": lambda t: data("audit_spider_train")["set_aside"] > 0,
        "Each set that `load` knows": lambda t: all(
            found["oracle"] > 0.99 and found["hack_floor"] < 0.1 for found in data("question_sets")["sets"].values()
        ),
        "after four trainings by imitation on two cores": lambda t: len(data("real_model")["trainings"]) == 4,
        "The oracle is right through each": lambda t: all(r["oracle"] == 1 for r in data("adapters")["rows"]),
    },
    "blog/small_model": {
        "Examples in the conversation gave nothing": lambda t: (
            not any(r["success"] for r in data("real_model")["rows"] if r["model"] == "base")
        ),
        "cannot tell from no change": lambda t: paired_p("SFT 163 min", "spider dev") >= 0.05,
        "Better than word matching: generated, one table; generated, harder; Spider dev.": lambda t: (
            max(paired_p("greedy", suite) for suite in ("level 1", "level 2", "spider dev")) < 0.05
        ),
        "No suite has a database that was trained on": lambda t: (
            data("worlds")["overlap_with_train"]["test"]["gold"] == 0
        ),
    },
}


def pairs_of(path):
    path = Path(__file__).parent.parent / path
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def paired_p(before, suite):
    "The p-value by database of the last training beside another policy on a suite."
    [p] = [r["p"] for r in data("real_model")["paired"] if (r["before"], r["suite"]) == (before, suite)]
    return p


def without_command():
    "Files that do not hold the command that wrote them, or wrote each of their parts."
    files = {name: json.loads(path.read_text()) for name, path in benchmark_files().items()}
    assert all(s["command"] for s in files.pop("question_sets")["sets"].values())
    plain = {name: content.values() for name, content in files.items() if "command" not in content}
    return [n for n, parts in plain.items() if not all(isinstance(p, dict) and "command" in p for p in parts)]


@pytest.mark.parametrize("name, claim", [(n, c) for n, claims in CLAIMS.items() for c in claims])
def test_what_a_page_says_is_what_the_data_say(root, name, claim):
    text = page_text(root, name)
    assert claim in text, "the sentence is gone or changed: so must be its check"
    assert CLAIMS[name][claim](text)


def test_each_comparing_sentence_of_the_benchmarks_is_checked(root):
    known = (*CLAIMS["benchmarks"], *REASONS)
    comparing = [
        sentence
        for text in texts(root / "nbs/benchmarks.ipynb")
        for sentence in re.split(r"(?<=[.:?!]) (?=[A-Z*`])", text)
        if re.search(rf"\b({COMPARING})\b", sentence, re.I)
    ]
    assert len(comparing) > 10
    assert [s for s in comparing if not any(k in s for k in known)] == []


def test_a_wrong_word_is_found(monkeypatch, root):
    "Other data, and the checks fail: a slower echo, a level that word matching opens."
    text = page_text(root, "benchmarks")
    changed = {
        "calls than the echo": (("server", "load_512", "echo_calls_per_second"), 1),
        "no answer may be lost, mixed up or judged wrongly": (("server", "growth", "different"), 1),
        "finds a foothold on the two easy ones only": (("worlds", "curve", "4", "greedy"), 0.3),
        "A guard that made queries much slower": (("core", "executors", "guarded_to_raw"), 3.0),
    }
    for claim, ((name, *keys, last), value) in changed.items():
        content = data(name)
        part = content
        for key in keys:
            part = part[key]
        part[last] = value
        monkeypatch.setitem(globals(), "data", lambda n, c=content: c)
        assert not CLAIMS["benchmarks"][claim](text), claim
        monkeypatch.undo()


def test_different_gold_queries_are_counted(spider_path):
    "504 questions were once called as many different queries."
    gold = load("spider", spider_path, "dev")
    counted = data("core")["executors"]
    assert counted["queries"] == len(gold)
    assert counted["different"] == len({q.gold_sql for q in gold}) < len(gold)
