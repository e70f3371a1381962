"Runs are found and told apart: folders, files and mixtures of them, by `compare` and `view`; `--log` of one file."

import json
import shutil

import pytest
from tables import cases

from sql_env import EpisodeEnv, GreedyPolicy, OraclePolicy, evaluate, load


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


@pytest.mark.parametrize("given, names", cases("runs_found"))
def test_files_folders_and_mixtures(sql_env, place, given, names):
    given = [place / word for word in given.split()]
    code, out, err = sql_env("compare", *given)
    if isinstance(names, str):
        assert code == 2 and names in " ".join(err.split())
        return
    n = len(names)
    assert code == 0 and sorted(line.split(":")[0] for line in out.split("\n")[:n]) == sorted(names)
    assert all(" " not in name for name in names)
    assert out.count(" gained and") + out.count(" gained \nand") <= n * (n - 1) // 2
    assert max(map(len, out.split("\n"))) <= 80 and "…" not in out
    pairs = json.loads(sql_env("compare", *given, "--json")[1])
    assert (1 if n == 2 else len(pairs)) == n * (n - 1) // 2


def test_view_names_runs_apart(sql_env, place, tmp_path):
    _, out, _ = sql_env("view", place, "--out", tmp_path / "v.html", "--json")
    assert set(json.loads(out)["episodes"]) == {"greedy@mon", "greedy@tue", "oracle@mon", "oracle@saved"}


def test_a_log_judged_again_is_no_run_of_its_own_unless_it_is_named(sql_env, tmp_path):
    for policy in ("oracle", "greedy"):
        assert sql_env(*f"evaluate -n 3 --no-floor --split test --log runs --policy {policy}".split())[0] == 0
    assert sql_env("rescore", "runs/oracle.jsonl")[0] == 0
    again = tmp_path / "runs" / "oracle.rescored.jsonl"
    assert again.is_file()

    def seen(*paths):
        return list(json.loads(sql_env("view", *paths, "--out", tmp_path / "v.html", "--json")[1])["episodes"])

    for copy in (".ipynb_checkpoints/oracle.jsonl", "._oracle.jsonl"):
        (tmp_path / "runs" / copy).parent.mkdir(exist_ok=True)
        (tmp_path / "runs" / copy).write_bytes((tmp_path / "runs/oracle.jsonl").read_bytes())
    assert seen("runs") == ["greedy", "oracle"] and len(seen("runs", again)) == 3
    code, out, err = sql_env("compare", "runs")
    assert code == 0 and "@" not in out and "oracle.rescored.jsonl: " in err
    (tmp_path / "runs" / "oracle.jsonl").unlink()
    assert seen("runs") == ["greedy", "oracle"], "what it was made of is gone"


def test_a_log_is_the_file_that_is_named(sql_env, tmp_path):
    args = "evaluate -n 3 --no-floor --log".split()
    assert sql_env(*args, "runs/o.jsonl", "--policy", "oracle")[0] == 0
    assert (tmp_path / "runs" / "o.jsonl").is_file()
    code, _, err = sql_env(*args, "runs/o.jsonl")
    assert code == 2 and "3 policies: give a folder" in " ".join(err.split())
    code, _, err = sql_env(*args, "runs", "--policy", "oracle", "--policy", "oracle")
    assert code == 2 and "two policies are named oracle" in " ".join(err.split())
    assert sql_env(*args, "runs", "--policy", "oracle")[0] == 0
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["o.jsonl", "oracle.jsonl"]
