"Runs are found and told apart: folders, files and mixtures of them, by `compare` and `view`; `--log` of one file."

import json
import shutil

import pytest
from test_cli import sql_env  # noqa: F401  a fixture

from sql_env import EpisodeEnv, GreedyPolicy, OraclePolicy, evaluate, load
from sql_env.evaluation.results import EvaluationResult, compare


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    "Two runs of greedy and one of oracle, which is there twice."
    folder = tmp_path_factory.mktemp("runs")
    qs = load("bundled", split="test")
    for where, policy in (("mon", GreedyPolicy()), ("tue", GreedyPolicy()), ("mon", OraclePolicy(qs))):
        log = folder / where / f"{policy.name}.jsonl"
        evaluate(EpisodeEnv(qs), policy, 9, log=log, progress=False)
    shutil.copy(log, folder / "saved.jsonl")
    (folder / "mon" / "other.json").write_text("{}")
    return folder


CASES = (  # what is given, the names of the runs that are compared
    ("mon", ["greedy", "oracle"]),
    (".", ["greedy@mon", "oracle@mon", "oracle@saved", "greedy@tue"]),
    ("mon tue", ["greedy@mon", "oracle", "greedy@tue"]),
    ("tue saved.jsonl", ["greedy", "oracle"]),
    ("mon/greedy.jsonl tue/greedy.jsonl saved.jsonl", ["greedy@mon", "greedy@tue", "oracle"]),
    ("mon/oracle.jsonl saved.jsonl", ["oracle@mon", "oracle@saved"]),
)


@pytest.mark.parametrize("given, names", CASES)
def test_files_folders_and_mixtures(sql_env, place, given, names):  # noqa: F811
    run = sql_env("compare", *[str(place / word) for word in given.split()])
    n = len(names)
    assert run.code == 0 and [line.split(":")[0] for line in run.out.split("\n")[:n]] == names
    assert all(" " not in name for name in names)
    assert run.out.count(" gained and") + run.out.count(" gained \nand") <= n * (n - 1) // 2
    assert max(map(len, run.out.split("\n"))) <= 80 and "…" not in run.out
    pairs = json.loads(sql_env("compare", *[str(place / w) for w in given.split()], "--json").out)
    assert (1 if n == 2 else len(pairs)) == n * (n - 1) // 2


WRONG = (
    ("tue", "nothing to compare with"),
    ("mon/other.json saved.jsonl", "not a log of episodes"),
    ("nowhere saved.jsonl", "no file"),
)


@pytest.mark.parametrize("given, said", WRONG)
def test_what_is_no_run_is_said(sql_env, place, given, said):  # noqa: F811
    run = sql_env("compare", *[str(place / word) for word in given.split()])
    assert run.code == 2 and said in " ".join(run.err.split())


def test_view_names_runs_apart(sql_env, place, tmp_path):  # noqa: F811
    run = sql_env("view", str(place), "--out", str(tmp_path / "v.html"), "--json")
    assert set(json.loads(run.out)["episodes"]) == {"greedy@mon", "greedy@tue", "oracle@mon", "oracle@saved"}


def test_models_may_differ_and_their_settings_are_told():
    def result(name, **settings):
        episodes = evaluate(load("bundled")[:4], GreedyPolicy(), progress=False).episodes
        return EvaluationResult(name, episodes, dict(policy=name, policy_settings=settings))

    base = result("a", model="a", temperature=0)
    assert compare(base, result("b", model="b", temperature=0)).differs == ()
    assert compare(base, result("b", model="b", temperature=1)).differs == ("temperature (0, 1)",)
    assert compare(base, result("a", model="b", temperature=0)).differs == ("model (a, b)",)


def test_a_log_is_the_file_that_is_named(sql_env, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    args = "evaluate -n 3 --no-floor --log runs/o.jsonl"
    assert sql_env(args, "--policy oracle").code == 0
    assert (tmp_path / "runs" / "o.jsonl").is_file()
    run = sql_env(args)
    assert run.code == 2 and "3 policies: give a folder" in " ".join(run.err.split())
    assert sql_env("evaluate -n 3 --no-floor --log runs --policy oracle").code == 0
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["o.jsonl", "oracle.jsonl"]
    shutil.rmtree(tmp_path / "runs")
