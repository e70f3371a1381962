"Words that compare, on the page of benchmarks and in the posts, held against the data."

import ast
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from sql_env.nano.engine import find_nano
from sql_env.paths import benchmark_files, benchmark_results
from sql_env.sources.loading import load
from sql_env.training.evals import EVAL_SUITES

COMPARING = (
    "faster|slower|fewer|less|more|most|mostly|least|longer|shorter|larger|smaller|better|worse|"
    "best|worst|none|nothing|never|always|only|half|twice|different|same|above|below|must|no"
)
# Sentences that compare nothing measured: reasons, and what was not measured
REASONS = (
    "Absolute times belong to a machine",
    "held against the same work done plainly",
    "No work can be faster than none",
    "The row shows that nothing breaks, not how fast",
    "A larger model needs more time for the same step",
    "may shift it the other way, and were not measured",
    "an empty cell was not measured",
    "Those of SQLSolver are said to be equal",
    "beside ours, on honest alternatives and on careless slips",
    "a slip may be right in meaning",
)


def texts(path):
    "What a page says: its Markdown cells and what cells print, without tables; each as one line."
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        found = ["".join(cell["source"])] if cell["cell_type"] == "markdown" else []
        for output in cell.get("outputs", ()):
            found.append("".join(output.get("data", {}).get("text/markdown", "")))
        yield from (" ".join(text.split()) for text in found if not text.startswith("|"))


def page_text(root, name):
    return " ".join(texts(root / "nbs" / f"{name}.ipynb"))


def core():
    return benchmark_results("core")["executors"]


def server(part):
    return benchmark_results("server")[part]


def levels():
    return {int(level): c for level, c in benchmark_results("worlds")["curve"].items()}


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
    rows = [e for r in benchmark_results("nano")["runs"].values() for e in r["evals"]]
    simple = benchmark_results("nano_baselines")["rows"]
    wins = compared = 0
    for suite in {e["suite"] for e in rows if e["stage"] == stage} & {e["suite"] for e in simple}:
        rates = [e["success"] for e in rows if (e["stage"], e["suite"]) == (stage, suite)]
        others = [
            e["success"]
            for e in simple
            if e["suite"] == suite and e["policy"] in ("greedy", "best cheat", "best hack")
        ]
        compared += 1
        wins += sum(rates) / len(rates) > max(others)
    return f"is above both policies in {wins} of {compared} suites" in text


def at_most_seeds(text):
    runs = benchmark_results("nano")["runs"]
    return f"that took a suite, at most {sum(bool(r['evals']) for r in runs.values())};" in text


def tuned_apart(name):
    halves = (set(benchmark_results(name)[half]["databases"]) for half in ("tuning", "reporting"))
    return set.intersection(*halves) == set()


# What a page says, and whether the data say it too; a check may look at the text
CLAIMS = {
    "benchmarks": {
        "the one proved among them is equal": lambda t: (
            benchmark_results("yardsticks")["sets"]["VeriEQL literature different"]["proved"] == 1
        ),
        "A guard that made queries much slower": lambda t: core()["guarded_to_raw"] < 1.5,
        "sends back as many bytes": lambda t: (
            server("latency")["bytes"] == server("latency")["echo_bytes"]
        ),
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
        "each file but two, judged by hand": lambda t: (
            without_command() == ["alternatives_judged", "proofs_judged"]
        ),
        "Published sets have flaws": lambda t: (
            benchmark_results("audit_spider_train")["set_aside"] > 0
        ),
        "The oracle is right through each": lambda t: all(
            r["oracle"] == 1 for r in benchmark_results("adapters")["rows"]
        ),
    },
    "blog/certified_verdicts": {
        "databases on which nothing was tuned": lambda t: tuned_apart("wrong"),
        "In the last two rows nothing is proved by": lambda t: (
            "wrong_proved" not in benchmark_results("wrong")["reporting"]["counts"]
        ),
        "that is what a prover can use": lambda t: edits_that_pass("proved") > 0.5,
        "So most of what a test suite lets through is right": lambda t: (
            proved_of("reporting") > 0.5 and proved_of("tuning") > 0.5
        ),
        "71 equal and 575 not": lambda t: blind_pairs() == (71, 575),
        "that `LIMIT` cuts no tie": lambda t: (
            benchmark_results("proofs")["alternatives"]["spider reporting"]["counts"][
                "wrong proved if"
            ]
            > 0
        ),
        "The equal pair that we refute": lambda t: (
            benchmark_results("peer_proofs")["sql_env"]["equal"]["refuted"] == 1
        ),
        "in milliseconds": lambda t: all(
            benchmark_results("proofs")["alternatives"][k]["cpu_ms"]["p99"] < 200
            for k in ("spider reporting", "kaggledbqa")
        ),
    },
    "blog/small_model": {
        "**Imitation taught more than practice": lambda t: (
            max(practised("grpo") + practised("tree")) < min(practised("imitation"))
        ),
        "they are a few points above the start": lambda t: (
            0 < sum(practised("grpo") + practised("tree")) / 6 - practised(None, "start")[0] < 0.04
        ),
        "and there the order was another": lambda t: (
            max(practised("grpo", "sweep")) > max(practised("imitation", "sweep"))
        ),
        "for as many tokens each": lambda t: all(
            abs(r["tokens"] / 26264 - 1) < 0.2
            for r in benchmark_results("play")["rows"]
            if r["kind"] == "final"
        ),
        "the shapes of most queries are not": lambda t: (
            benchmark_results("worlds")["overlap_with_train"]["test"]["skeletons"] > 0.5
        ),
        "on databases that training never showed": lambda t: (
            benchmark_results("worlds")["overlap_with_train"]["test"]["gold"] == 0
        ),
    },
}


def proved_of(half):
    "The share of the edits that pass on several databases and are proved equal to gold."
    counts = benchmark_results("wrong")[half]["counts"]
    return counts["undecided_proved"] / counts["robust"]


def edits_that_pass(outcome):
    "The share of an outcome among added DISTINCTs and LEFT JOINs that pass on several databases."
    kinds = [
        benchmark_results("wrong")["reporting"]["by_kind"][k] for k in ("add_distinct", "left_join")
    ]
    return sum(k[f"undecided_{outcome}"] for k in kinds) / sum(k["robust"] for k in kinds)


def blind_pairs():
    "Pairs by somebody who had not seen the rules: how many are equal, and how many are not."
    path = Path(__file__).parent / "data" / "blind_pairs.jsonl"
    _, *pairs = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    equal = sum(p["kind"] == "equal" for p in pairs)
    return equal, len(pairs) - equal


def practised(arm, kind="final"):
    "What the seeds of an arm have right after practice."
    rows = benchmark_results("play")["rows"]
    return [r["success"] for r in rows if (r.get("arm"), r["kind"]) == (arm, kind)]


def has_command(content):
    "Whether a file, or each of its parts, holds the command that wrote it."
    return "command" in content or all(
        isinstance(part, dict) and "command" in part for part in content.values()
    )


def without_command():
    files = {name: json.loads(path.read_text()) for name, path in benchmark_files().items()}
    sets = files["question_sets"]["sets"].values()
    assert all(s["command"] for s in sets)
    return [n for n, content in files.items() if n != "question_sets" and not has_command(content)]


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
    "Other data, and the checks fail: a faster echo, a level that word matching opens."
    text = page_text(root, "benchmarks")
    changed = {
        "calls than the echo": (("server", "load_512", "echo_calls_per_second"), 10**6),
        "no answer may be lost, mixed up or judged wrongly": (("server", "growth", "different"), 1),
        "finds a foothold on the two easy ones only": (("worlds", "curve", "4", "greedy"), 0.3),
        "A guard that made queries much slower": (("core", "executors", "guarded_to_raw"), 3.0),
    }
    for claim, ((name, *keys, last), value) in changed.items():
        content = benchmark_results(name)
        part = content
        for key in keys:
            part = part[key]
        part[last] = value
        monkeypatch.setitem(globals(), "benchmark_results", lambda n, c=content: c)
        assert not CLAIMS["benchmarks"][claim](text), claim
        monkeypatch.undo()


def test_different_gold_queries_are_counted(spider_path):
    "504 questions were once called as many different queries."
    gold = load("spider", spider_path, "dev")
    assert core()["queries"] == len(gold)
    assert core()["different"] == len({q.gold_sql for q in gold}) < len(gold)


# The post on the small model with other data

STUB = "policy, env = NanoPolicy()"  # begins the cell that plays, which takes seconds


def said_with(root, monkeypatch, results):
    "What the post says if the benchmarks had these results."
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr("sql_env.paths.benchmark_results", results.__getitem__)
    space = dict(played=6, env=SimpleNamespace(episode=SimpleNamespace(correct=False)))
    said = []
    for cell in json.loads((root / "nbs/blog/small_model.ipynb").read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or "#| eval: false" in source or STUB in source:
            continue
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "post", "exec"), space)
        if last:
            value = eval(compile(ast.Expression(last.value), "post", "eval"), space)
            said.append(getattr(value, "data", "") or "")
    return "\n".join(said)


def run_of(*taken, n=4):
    "A run with these stages and suites, all with the same answers."
    evals = [
        dict(
            stage=stage,
            suite=suite,
            success=right.count("1") / n,
            low=0.0,
            high=1.0,
            n=n,
            correct=right,
        )
        for stage, suite, right in taken
    ]
    return dict(evals=evals, wall=[], metrics=[])


def baselines_of(*evals):
    rates = {"random": 0.0, "greedy": 0.3, "best cheat": 0.1, "oracle": 1.0}
    rows = [dict(policy=p, suite=e, success=rate) for e in evals for p, rate in rates.items()]
    return dict(rows=rows)


def results_of(runs, baselines, stage="all", again=0):
    row = dict(suite="level 1", stage=stage, seed=0, untold="column", n=4, success=0.5)
    empty = dict(rows=[dict(stage="few", empty=3, answer=3 - again, query=again)])
    misses = dict(rows=[row])
    check = dict(rows=[checked_row(check, right) for check, right in enumerate(("1000", "1100"))])
    return dict(
        nano=dict(runs=runs),
        nano_baselines=baselines,
        nano_misses=misses,
        nano_empty=empty,
        nano_check=check,
        play=benchmark_results("play"),
    )


def checked_row(check, right):
    success, about = right.count("1") / 4, dict(suite="level 1", errors={}, cpu_seconds=3 + check)
    return about | dict(check=bool(check), success=success, correct=right)


def test_the_post_tells_what_is_missing(root, monkeypatch):
    "Two seeds and one stage: no control, no curves, and marks at the figures."
    suite = ("all", "level 1", "1110")
    runs = {"4": run_of(suite), "5": run_of(suite, ("all", "level 2", "1000"))}
    said = said_with(root, monkeypatch, results_of(runs, baselines_of("level 1", "level 2")))
    assert "| level 1 | 0.0% | 10.0% | 30.0% | 75.0%² |" in said and "25.0%¹" in said
    assert "the model is not above both of them:** *level 2*" in said
    assert "No suite was taken by two of these stages" in said and "earlier recipe" not in said
    assert "nan" not in said.lower().replace("nano", "")


def test_the_post_compares_play_with_its_control(root, monkeypatch):
    "Three seeds, all stages, a suite without baselines; the model is above word matching."
    new = list(EVAL_SUITES)[-1]
    took = [("told", "1000"), ("play_2", "1100"), ("more", "1110"), ("all", "1111")]
    runs = {
        str(seed): run_of(*((s, e, right) for s, right in took for e in ("level 1", new)))
        for seed in range(3)
    }
    said = said_with(root, monkeypatch, results_of(runs, baselines_of("level 1")))
    gain, loss = "+25.0 (-24.0 to +74.0)", "-25.0 (-74.0 to +24.0)"
    assert f"| *told* to *play_2* | level 1 | {gain} | {gain} | {gain} |" in said
    assert f"| *more* to *play_2* | level 1 | {loss} | {loss} | {loss} |" in said
    assert (
        "*told* to *play_2*, in 3 of 3 seeds: above zero with the whole interval in each on no"
        in said
    )
    assert "above both of them in every suite that has both" in said
    assert f"For *{new}* the policies without a model were not measured" in said
    assert "earlier recipe" not in said
    assert "nan" not in said.lower().replace("nano", "")


def test_the_post_claims_what_all_seeds_show(root, monkeypatch):
    "A gain in two seeds of three is none; a loss in one is one."
    for third, better, worse in (
        ("1111", "*level 1*", "no suite"),
        ("0000", "no suite", "no suite"),
    ):
        rights = ["1111", "1111", third]
        runs = {
            str(i): run_of(("told", "level 1", "0000"), ("play_2", "level 1", right))
            for i, right in enumerate(rights)
        }
        said = said_with(root, monkeypatch, results_of(runs, baselines_of("level 1"), "told"))
        assert f"in each on {better}; below zero with the whole interval in any on {worse}." in said
    runs["0"] = run_of(("told", "level 1", "1111"), ("play_2", "level 1", "0000"))
    said = said_with(root, monkeypatch, results_of(runs, baselines_of("level 1"), "told"))
    assert "in each on no suite; below zero with the whole interval in any on *level 1*." in said


def test_the_post_says_what_sampling_tries_after_an_empty_result(root, monkeypatch):
    runs = {"0": run_of(("few", "level 1", "1110"), ("all", "level 1", "1110"))}
    for again, claims in ((0, True), (1, False)):
        results = results_of(runs, baselines_of("level 1"), again=again)
        said = said_with(root, monkeypatch, results)
        assert f"an answer in {3 - again} of 3 cases after *few*" in said
        assert ("sampling does not come upon it" in said) == claims


def test_the_post_compares_what_is_checked_with_the_weights_alone(root, monkeypatch):
    runs = {"0": run_of(("all", "level 1", "1110"))}
    for rights, better, worse in (
        (("1000", "1100"), "no suite", "no suite"),
        (("0000", "1111"), "*level 1*", "no suite"),
        (("1111", "0000"), "no suite", "*level 1*"),
    ):
        results = results_of(runs, baselines_of("level 1"))
        results["nano_check"] = dict(rows=[checked_row(c, r) for c, r in enumerate(rights)])
        said = said_with(root, monkeypatch, results)
        assert f"whole interval on {better}; below zero with the whole interval on {worse};" in said
    results["nano_check"]["rows"].pop()
    said = said_with(root, monkeypatch, results)
    assert "interval on no suite; below" in said


def test_the_post_says_which_rows_are_old(root, monkeypatch):
    runs = {"0": run_of(("few", "level 1", "1111"), ("play", "level 1", "1000"))}
    said = said_with(root, monkeypatch, results_of(runs, baselines_of("level 1"), "few"))
    assert "rows are of an earlier recipe" in said and "stages *play* are no longer" in said
