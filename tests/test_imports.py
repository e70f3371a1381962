"Imports: what the package loads is counted; `benchmarks/core.py` measures the seconds."

import subprocess
import sys

import pytest


def loaded(code):
    "Names of the modules that some code adds to a fresh Python."
    code = f"import sys; before = set(sys.modules); {code}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


TRAINERS = "torch trl transformers openenv datasets openai".split()
LIBRARIES = [*TRAINERS, *"pandas matplotlib scipy numpy sqlglot IPython ipywidgets fastapi rich typer".split()]
POLICIES = "import sql_env.policies as p; p.ChatPolicy('m', 'http://h/v1'); p.LocalModel('x')"


@pytest.mark.parametrize(
    "code, heavy",
    [
        ("import sql_env; sql_env.Session", [*LIBRARIES, "asyncio"]),
        (POLICIES, LIBRARIES),
        ("import sql_env.integrations.trl, sql_env.training.experts, sql_env.training.recipes", TRAINERS),
        ("import sql_env.view.explorer", [*TRAINERS, "ipywidgets", "IPython", "pandas"]),
    ],
)
def test_nothing_heavy_is_imported(code, heavy):
    assert not loaded(code) & set(heavy)


@pytest.mark.parametrize("module", ["sql_env.play.episode", "sql_env.evaluation.harness"])
def test_imports_are_few(module):
    "Modules beside our own, those of the standard library and of apsw, as a measure of time that no machine changes."
    found = loaded(f"import {module}")
    assert len([name for name in found if not name.startswith("sql_env")]) < 120
    assert not found & set(LIBRARIES)
