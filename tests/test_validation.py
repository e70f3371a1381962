"What OpenEnv's validator names: each check of `benchmarks/validation.py`, here as in the committed table."

import json
import tomllib

import pytest
import yaml
from conftest import ROOT
from serving import Server, load_benchmark

validation = load_benchmark("validation")
KEPT = json.loads((ROOT / "benchmarks" / "validation.json").read_text())
ROWS = {row["check"]: row for row in KEPT["rows"]}
DEAR = {"static.reproducible_build", "runtime.resource_bounds"}


@pytest.fixture(scope="module")
def faces():
    validation.QUICK = True
    with Server() as server:
        yield dict(package=validation.Package(), server=validation.Running(server))


@pytest.mark.parametrize("face", ["package", "server"])
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in DEAR else []) for n in ROWS])
def test_each_check_comes_out_as_in_the_table(faces, name, face):
    kept, found = ROWS[name][face], validation.run_check(name, faces[face])
    if found is None or kept is None:
        pytest.skip("tried on the other face, or only in a whole run")
    assert found["holds"] == kept["holds"], found["saw"]
    assert found["times"] and kept["times"] >= found["times"]


def test_the_table_is_whole_and_says_what_fails():
    assert list(ROWS) == list(validation.CHECKS) and len(ROWS) >= 30
    known = {entry.check_id for entry in validation.load_policy("v2").entries}
    skipped = {r["check"] for r in KEPT["validator"]["package"] if r["why"].startswith("grader not implemented")}
    assert skipped <= ROWS.keys() and {n for n in ROWS if "." in n} <= known
    failing = {n for n, row in ROWS.items() for face in ("package", "server") if row[face] and not row[face]["holds"]}
    assert failing == {"static.dependency_pinning", "static.sbom"}
    statuses = {r["status"] for r in KEPT["validator"]["package"]}
    assert statuses == {"pass", "skip"} and KEPT["validator"]["server"]["passed"]


def test_the_declared_canaries_are_those_that_the_command_writes_and_nothing_ships_them():
    declared = yaml.safe_load((ROOT / "openenv.yaml").read_text())["validation"]["capabilities"]
    assert (ROOT / declared["oracle"]["location"]).is_file()
    assert (ROOT / declared["canaries"]).read_text() == validation.canary_text()
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert ".openenv" not in json.dumps(package) and ".openenv" in (ROOT / ".openenv" / "push.exclude").read_text()


def test_the_oracle_script_earns_the_maximum_on_a_running_server(faces, monkeypatch, capsys):
    import runpy
    import sys

    monkeypatch.setattr(sys, "argv", ["oracle.py", faces["server"].http])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / ".openenv" / "oracle.py"))
    assert not ended.value.code and "rewards 1.0 to 1.0" in capsys.readouterr().out
