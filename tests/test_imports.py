"Imports: what the package loads is counted; `benchmarks/core.py` measures the seconds."

import subprocess
import sys

import pytest


def loaded(code):
    "Names of the modules that some code adds to a fresh Python."
    code = f"import sys; before = set(sys.modules); {code}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = """torch openenv pandas transformers trl matplotlib scipy numpy sqlglot IPython fastapi rich
    typer""".split()


@pytest.mark.parametrize(
    "module", ["sql_env", "sql_env.play.episode", "sql_env.policies", "sql_env.evaluation.harness"]
)
def test_nothing_heavy_is_imported(module):
    assert not loaded(f"import {module}") & set(HEAVY)


def test_the_package_alone_loads_nothing():
    assert loaded("import sql_env") == {"sql_env"}


@pytest.mark.parametrize("module", ["sql_env.play.episode", "sql_env.evaluation.harness"])
def test_imports_are_few(module):
    "Modules beside our own, those of the standard library and of apsw, as a measure of time that no machine changes."
    others = [name for name in loaded(f"import {module}") if not name.startswith("sql_env")]
    assert len(others) < 120
