"The package as a whole: configuration, exports, notebooks, style, layers, front door, wheel."

import configparser
import json
import os
import re
import shutil
import sys
import sysconfig
import tomllib
import venv
import zipfile
from difflib import unified_diff
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path

import module_maps
import pytest
import style
from conftest import ROOT, modules, notebooks, run, tool, tracked
from fake_server import FakeServer
from pages import asked_extras

import sql_env

# Of Colab: fastai wants a fastcore before 1.9, transformers 4 a huggingface-hub before 1.0
COLAB = ["ipywidgets==7.7.1", "ipython<8", "ipykernel==6.17.1", "fastcore==1.8.16", "sqlglot==25.20.2"]
COLAB += ["huggingface-hub==0.36.0", "nbclient==0.10.4", "setuptools<81"]


def test_settings_agree_and_no_file_is_large_or_a_link(root):
    ini = configparser.ConfigParser(delimiters=["="])
    ini.read(root / "settings.ini")
    cfg, toml = ini["DEFAULT"], tomllib.loads((root / "pyproject.toml").read_text())
    project, nbdev = toml["project"], toml["tool"]["nbdev"]
    assert cfg["lib_name"] == project["name"] and cfg["description"] == project["description"]
    assert f">={cfg['min_python']}" == project["requires-python"]
    assert cfg["requirements"].split() == project["dependencies"]
    assert all(cfg[k] == nbdev[k] for k in ("nbs_path", "doc_path", "tst_flags"))
    assert cfg["git_url"] == project["urls"]["Repository"]
    assert sql_env.__version__ == cfg["version"]
    assert f"version: {cfg['version']}\n" in (root / "CITATION.cff").read_text()
    assert (root / "_quarto.yml").read_bytes() == (root / "nbs" / "_quarto.yml").read_bytes()
    files = [root / f for f in tracked(root)]
    assert not [f for f in files if f.stat().st_size > 5_000_000]
    assert not [f for f in files if f.is_symlink()], "openenv validate refuses symbolic links"


def test_package_equals_notebooks(root, exported):
    here, there = modules(root), modules(exported)
    assert here.keys() == there.keys(), "run nbdev-export; delete modules without a notebook"
    assert not [k for k in here if here[k] != there[k]], "run nbdev-export"


def without_pixels(path: Path) -> list[str]:
    "Lines of a notebook without its pictures, whose pixels differ between machines."
    return re.sub(r'"image/png": "[^"]+"', '"image/png": "..."', path.read_text()).splitlines()


def test_notebooks_run_clean_and_fresh(root, exported):
    "Notebooks pass, are clean, and their stored outputs are what they print today."
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    env = dict(PYTHONPATH=str(exported), PATH=path, HOME=str(exported), OMP_NUM_THREADS="1")
    # One process: each more would import Torch, TRL and OpenEnv again
    run(tool("nbdev-test"), "--save", "--n-workers", "1", cwd=exported, env=env)
    run(tool("nbdev-clean"), cwd=exported, env=env)
    stale = {}
    for path in notebooks(root):
        old, new = without_pixels(path), without_pixels(exported / path.relative_to(root))
        if old != new:
            changes = list(unified_diff(old, new, n=0, lineterm=""))
            stale[path.name] = [line[:200] for line in changes[:12]]
    advice = "outputs are stale or not clean: nbdev-test --save and nbdev-clean"
    assert not stale, f"{advice}\n{json.dumps(stale, indent=1)}"


def test_outputs_hold_no_name_that_differs_at_each_run(root):
    "A folder of tempfile has eight random signs, so that a page that prints it is stale at once."
    named = {path.name: re.findall(r"tmp[a-z0-9_]{8}\b", path.read_text()) for path in notebooks(root)}
    assert not {name: found for name, found in named.items() if found}


def test_a_benchmark_hides_no_module(root):
    "A script's folder is searched first: benchmarks/datasets.py stood before the package that a trainer imports."
    installed = [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    names = {path.stem for path in (root / "benchmarks").glob("*.py")}
    assert not names & sys.stdlib_module_names
    assert not [name for name in names if PathFinder.find_spec(name, installed)]


def test_ruff_and_layers(root):
    run(tool("ruff"), "check", ".", cwd=root)
    run(tool("ruff"), "format", "--check", ".", cwd=root)
    # Imports point down, sqlglot and openenv stay where they belong; the list stands in pyproject.toml
    run(tool("lint-imports"), cwd=root)


@pytest.mark.slow
def test_types(root):
    run(tool("mypy"), "sql_env", cwd=root)


def test_each_package_has_a_first_page_with_the_imports_of_today_and_a_door(root):
    for name, text in module_maps.pictures().items():
        stored = (root / "nbs" / "images" / "modules" / f"{name}.svg").read_text()
        assert stored == text, f"{name}: run python benchmarks/module_maps.py"
    # A package says its job in one line and what it promises; its first page shows its modules
    for package in module_maps.PACKAGES:
        page = (root / "nbs" / package / "index.ipynb").read_text()
        assert f"images/modules/{package}.svg" in page
        door = import_module(f"sql_env.{package}")
        assert door.__doc__ and door.__all__
        for name in door.__all__:
            assert getattr(door, name) is not None


def test_style(root, tell):
    "The measures of the style, each at its target."
    found = style.measure(root)
    tell("\n".join(f"{k:45}{v:>8}" for k, v in found.items()))
    never = ["private base classes with one child", "forward annotations", "import circles", "modules over 700 lines"]
    for name in (*never, "lines over 120, package", "lines over 120, tests and benchmarks"):
        assert found[name] == "0", name
    assert float(found["tokens a line"]) <= 10
    assert int(found["exported cells with one definition"].rstrip("%")) >= 80
    assert int(found["public definitions followed by an example"].rstrip("%")) >= 75
    assert found["public definitions with a docstring"] == "100%"
    assert int(found["hidden cells"].rstrip("%")) <= 5


def test_the_budget_of_tokens(root):
    "Core and satellites stay within what `benchmarks/style.json` allows them."
    budget = json.loads((root / "benchmarks" / "style.json").read_text())["budget"]
    found = style.tokens_of(style.modules(root))
    said = "{} has {:,} tokens, {:,} over its budget of {:,}"
    over = [said.format(name, found[name], found[name] - n, n) for name, n in budget.items() if found[name] > n]
    advice = """What does the change replace? Merge what is double and delete what nobody uses
        (python tests/style.py shows the sizes); a higher budget in style.json needs its reason in CHANGELOG.md"""
    assert not over, f"{'; '.join(over)}. {advice}"


def test_the_front_door_is_lazy_and_offers_what_it_lists():
    "`import sql_env` imports no other module of the package and no library; names come when they are used."
    code = "import sys; old = set(sys.modules); import sql_env; print(*sorted(set(sys.modules) - old))"
    assert run(sys.executable, "-c", code, cwd=ROOT).split() == ["sql_env"]
    code = "import sys, sql_env; sql_env.load, sql_env.evaluate, sql_env.ChatPolicy; print(*sys.modules)"
    loaded = set(run(sys.executable, "-c", code, cwd=ROOT).split())
    assert "sql_env.evaluation.harness" in loaded
    assert not loaded & {"torch", "openenv", "transformers", "pandas", "matplotlib", "ipywidgets"}
    pytest.importorskip("openenv", reason="openenv is not installed: pip install 'sql_env[server]'")
    for name in sql_env.__all__:
        assert getattr(sql_env, name) is not None
        assert name in dir(sql_env)
    with pytest.raises(AttributeError, match="'sql_env' has no attribute 'lode'"):
        _ = sql_env.lode


FRONT_DOORS = {"sql_env", "sql_env.nano", "sql_env.policies", "sql_env.training"}


def imported_modules(path: Path) -> set[str]:
    "Modules of the package that the code cells of a notebook import from."
    cells = json.loads(path.read_text())["cells"]
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    return set(re.findall(r"^\s*(?:from|import) (sql_env[\w.]*)", code, re.M))


def test_tutorials_use_the_front_door(root):
    "Home and tutorials import from `sql_env` and from the packages that train and play."
    for path in [root / "nbs" / "index.ipynb", *(root / "nbs" / "tutorials").glob("*.ipynb")]:
        assert imported_modules(path) <= FRONT_DOORS, path.name
    for block in re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S):
        assert set(re.findall(r"^from (sql_env[\w.]*)", block, re.M)) <= {"sql_env"}, block


def test_examples_of_own_data_and_of_evaluation(root, tmp_path):
    said = run(sys.executable, root / "examples" / "own_data.py", "mine", cwd=tmp_path)
    assert "oracle" in said and "100.0%" in said
    command = [sys.executable, root / "examples" / "evaluate_a_model.py", "m"]
    with FakeServer(lambda body: [("answer", {"value": "0"})]) as server:
        env = os.environ | {"OPENAI_API_KEY": "none"}
        said = run(*command, server.url, "2", cwd=tmp_path, env=env)
    assert "| m |" in said and "Hack floor" in said and len(server.bodies) == 3  # a probe, and a call for each episode


@pytest.mark.slow
def test_example_of_grpo(root, tmp_path, tiny):
    tiny_trl, tokenizer = tiny
    model = tiny_trl.make_model(tokenizer)
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "tiny")
    run(sys.executable, root / "examples" / "grpo.py", tmp_path / "tiny", "1", cwd=tmp_path)
    assert (tmp_path / "runs" / "grpo" / "model" / "config.json").is_file()


@pytest.fixture(scope="module")
def wheel(repo_copy, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, cwd=repo_copy)
    assert list(out.glob("*.tar.gz"))
    return next(out.glob("*.whl"))


@pytest.mark.slow
def test_wheel_holds_the_data(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    bundled = [n for n in names if n.startswith("sql_env/bundled/") and n.endswith(".sqlite")]
    assert len(bundled) >= 12
    assets = [f"assets/{name}" for name in ("episode.html", "episode.css", "player.js", "runs.html")]
    for name in ("bundled/questions.jsonl", "worlds/vocabulary.toml", "py.typed", *assets):
        assert f"sql_env/{name}" in names
    assert not [n for n in names if n.startswith(("tests", "data", "nbs", "benchmarks", "examples"))]


@pytest.mark.slow
def test_links_of_readme_lead_somewhere_on_pypi(root, wheel):
    archive = zipfile.ZipFile(wheel)
    [about] = [n for n in archive.namelist() if n.endswith("METADATA")]
    links = re.findall(r"\]\(([^)\s]+)\)", archive.read(about).decode())
    assert len(links) > 20 and not [link for link in links if not link.startswith("https://")]
    paths = [link.split("/main/", 1)[1] for link in links if "hjerpe/sql_env" in link]
    assert len(paths) > 20 and not [path for path in paths if not (root / path).exists()]


RUN_ALL = """
import nbformat
from pathlib import Path
from nbclient import NotebookClient
skipped = ('eval: false', '[ -e /content', '#| slow')
for path in sorted(Path('.').rglob('*.ipynb')):
    nb = nbformat.read(path, as_version=4)
    nb.cells = [c for c in nb.cells if not any(mark in c.source for mark in skipped)]
    where = {'metadata': {'path': str(path.parent)}}
    NotebookClient(nb, timeout=300, kernel_name='python3', resources=where).execute()
    print('ok', path)
"""
# Pages beside those of tutorials, concepts and blog
MORE_PAGES = ("index", "faq", "view/03_explorer")
# The extra that a page needs; others run from the wheel as it is
EXTRA_OF = {"concepts/verification": "prove", "tutorials/evaluate_model": "openai", "tutorials/remote": "server"}
EXTRA_OF |= {"faq": "server"}


def rehearsed_pages(root: Path) -> dict[str, list[str]]:
    "Pages to run from the wheel, by the extra that they need; the plain ones come first."
    folders = ("tutorials", "concepts", "blog")
    found = [f"{f}/{p.stem}" for f in folders for p in sorted((root / "nbs" / f).glob("*.ipynb"))]
    pages: dict[str, list[str]] = {"": []}
    for name in (*found, *MORE_PAGES):
        pages.setdefault(EXTRA_OF.get(name, ""), []).append(name)
    return pages


def rehearse(root: Path, python: Path, folder: Path, names: list[str]) -> None:
    "Run notebooks of the documentation in an empty folder, beside the example that Colab's cell fetches."
    plugin = folder.parent / "examples" / "plugin"
    shutil.copytree(root / "examples" / "plugin", plugin, dirs_exist_ok=True)
    for name in names:
        target = folder / f"{name}.ipynb"
        target.parent.mkdir(exist_ok=True, parents=True)
        shutil.copyfile(root / "nbs" / f"{name}.ipynb", target)
    said = run(python, "-c", RUN_ALL, cwd=folder, timeout=1200)
    assert said.count("ok ") == len(names)


def test_every_page_is_rehearsed(root):
    "Colab's cell of a page names the extra that the rehearsal installs."
    for extra, names in rehearsed_pages(root).items():
        for name in names:
            asked = asked_extras(root / "nbs" / f"{name}.ipynb", extra)
            assert asked.split(",")[0] in (*extra.split(","), "train"), name


def empty_environment(folder: Path, *installed) -> Path:
    "The Python of a new virtual environment with these packages."
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", *installed, cwd=folder)
    return python


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("pages", ["tutorials", "all"])
def test_wheel_rehearsal(root, wheel, tmp_path, monkeypatch, pages):
    "All pages run from the wheel, those that need an extra with it; plain tutorials leave most of Colab's packages."
    monkeypatch.delenv("PYTHONPATH", raising=False)  # or pip may find this checkout installed
    python = empty_environment(tmp_path / "env", *COLAB)
    run(python, "-m", "pip", "install", "-q", wheel, cwd=tmp_path)
    if pages == "all":
        for extra, names in rehearsed_pages(root).items():
            if extra:
                run(python, "-m", "pip", "install", "-q", f"{wheel}[{extra}]", cwd=tmp_path)
            rehearse(root, python, tmp_path / f"work-{extra}", names)
        return
    names = [name for name in rehearsed_pages(root)[""] if name.startswith("tutorials")]
    rehearse(root, python, tmp_path / "work", names)
    said = run(tmp_path / "env" / "bin" / "sql_env", "doctor", "--json", cwd=tmp_path / "work")
    assert all(c["ok"] for c in json.loads(said))
    listed = run(python, "-m", "pip", "list", "--format=freeze", cwd=tmp_path).lower().split()
    kept = [pin for pin in COLAB if "==" in pin and not pin.startswith("sqlglot")]  # before 30 it misreads valid SQL
    assert set(kept) <= {line.replace("_", "-") for line in listed}, listed
    run(python, "-m", "pip", "check", cwd=tmp_path)


def test_a_clone_is_the_package_from_the_folder_above(root, tmp_path):
    "As on Colab, where a notebook runs beside the clone, and in processes that inherit pytest's path."
    (tmp_path / "sql_env").symlink_to(root)
    code = "import sql_env, sql_env.worlds; from sql_env import load"
    code += "; print(len(load('bundled')), sql_env.__spec__.origin == sql_env.__file__, sql_env.__version__)"
    n, is_its_file, _ = run(sys.executable, "-c", code, cwd=tmp_path).split()
    assert is_its_file == "True" and int(n) > 100
