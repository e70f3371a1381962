"Where the tests find the repository, real Spider data, and a copy of the repository that they may change."

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import laws
import pytest
from filelock import FileLock

if "PYTEST_XDIST_WORKER" in os.environ:
    # The processes share the cores; set before torch is loaded
    os.environ.setdefault("OMP_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Begun in the background of a shell, what tests start would ignore Ctrl-C too
    signal.signal(signal.SIGINT, signal.default_int_handler)
ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))  # behind tests, which has an attacks.py too
HAND_WRITTEN = {"__init__.py", "__main__.py"}


def pytest_addoption(parser):
    parser.addoption("--runslow", action="store_true", help="run the tests marked slow too")


def pytest_configure(config):
    laws.PART = 1 if config.getoption("--runslow") else 0.2


FIRST = ("test_notebooks_run_clean_and_fresh", "test_readme_is_the_index", "test_types")


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: item.name not in FIRST)  # the longest, which others run beside
    if config.getoption("--runslow"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: runs with --runslow"))


def run(*args, cwd, **kw) -> str:
    "Run a command; its output, or a failure that shows it."
    r = subprocess.run(list(map(str, args)), cwd=cwd, capture_output=True, text=True, **kw)
    assert r.returncode == 0, f"{' '.join(map(str, args))}\n{r.stdout[-6000:]}\n{r.stderr[-6000:]}"
    return r.stdout


@pytest.fixture
def tell(request):
    "Say a figure at the end of the run, whichever process measured it."
    return lambda text: request.node.user_properties.append(("told", text))


def pytest_terminal_summary(terminalreporter):
    reports = (r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind))
    told = [text for r in reports for kind, text in r.user_properties if kind == "told"]
    if told:
        terminalreporter.section("measured")
    for text in told:
        terminalreporter.write_line(text)


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def notebooks(root: Path) -> list[Path]:
    return sorted(p for p in (root / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)


def modules(root: Path) -> dict[str, str]:
    written = (p for p in (root / "sql_env").rglob("*.py") if p.name not in HAND_WRITTEN)
    return {str(p.relative_to(root)): p.read_text() for p in written}


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def questions():
    from made_sets import bundled

    return bundled()


@pytest.fixture(scope="session")
def spider_path() -> Path:
    path = Path(os.environ.get("SQL_ENV_SPIDER") or ROOT.parent / "shared" / "spider")
    if not (path / "dev.json").is_file():
        pytest.skip("no Spider data: set SQL_ENV_SPIDER or put it into ../shared/spider")
    return path


def shared(name: str) -> Path:
    "A folder of real data that does not belong to the project."
    path = ROOT.parent / "shared" / name
    if not path.is_dir():
        pytest.skip(f"no real data: put it into ../shared/{name}")
    return path


@pytest.fixture(scope="session")
def bird_path() -> Path:
    return shared("bird")


@pytest.fixture(scope="session")
def kaggledbqa_path() -> Path:
    return shared("kaggledbqa")


def tracked(root: Path) -> list[str]:
    "Files of the repository: those git knows and new ones it does not ignore; without git, all but caches."
    try:
        command = ["git", "ls-files", "-co", "--exclude-standard"]
        out = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
        return [f for f in out.stdout.splitlines() if (root / f).is_file()]
    except (OSError, subprocess.CalledProcessError):
        skip = {".git", ".venv", ".boot", "__pycache__", "build", "dist", "_docs", "_proc"}
        return [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and not skip & set(p.parts)]


def made_once(tmp_path_factory, name: str, make) -> Path:
    "A folder that the first of the test processes fills and the others use."
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, done = shared / name, shared / f"{name}.done"
    with FileLock(shared / f"{name}.lock"):
        if not done.exists():
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def copy_repository(folder: Path) -> None:
    for name in tracked(ROOT):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)


@pytest.fixture(scope="session")
def repo_copy(tmp_path_factory) -> Path:
    "A copy of the repository's files, for tests that build."
    return made_once(tmp_path_factory, "repo", copy_repository)


def export_repository(folder: Path) -> None:
    copy_repository(folder)
    for path in (folder / "sql_env").rglob("*.py"):
        if path.name not in HAND_WRITTEN:
            path.unlink()
    run(tool("nbdev-export"), cwd=folder)


@pytest.fixture(scope="session")
def exported(tmp_path_factory) -> Path:
    "A copy whose modules were deleted and exported anew, so that a stale module shows."
    return made_once(tmp_path_factory, "exported", export_repository)


@pytest.fixture
def run_command(monkeypatch, capfd):
    "Run the command in this process, as the console script does: its exit code, and what it printed."
    from sql_env.cli.app import main

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["sql_env", *map(str, args)])
        capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as e:
            code = e.code or 0
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def sql_env(run_command, monkeypatch, tmp_path):
    "`run_command`, in an empty folder."
    monkeypatch.chdir(tmp_path)
    return run_command


@pytest.fixture(scope="session")
def unseen():
    "Of the bundled split that nothing is trained on."
    from sql_env.sources.loading import load

    return load("bundled", split="test")


@pytest.fixture(scope="session")
def tiny():
    "The kit for tests with TRL, and a tokenizer trained on this package's texts."
    for name in ("torch", "trl", "transformers", "datasets"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'sql_env[train]'")
    import tiny_trl

    from sql_env.integrations.trl import SQLEnvTRL
    from sql_env.play.chat import tool_schemas
    from sql_env.sources.loading import load

    qs = load("bundled")
    shown = [SQLEnvTRL(qs).reset(question_id=q.question_id) for q in qs[::32]]
    texts = [*(q.gold_sql for q in qs), str(tool_schemas()), *shown]
    return tiny_trl, tiny_trl.make_tokenizer(texts)


@pytest.fixture(scope="session")
def tiny_model(tiny, tmp_path_factory):
    "A model that has learned the episode of one question and a server's probe by heart, made by one test process."
    import torch

    kit, tok = tiny

    def make(folder: Path) -> None:
        torch.save(kit.learned(tok).state_dict(), folder / "weights.pt")

    model = kit.make_model(tok)
    model.load_state_dict(torch.load(made_once(tmp_path_factory, "learned", make) / "weights.pt"))
    return model, tok


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    "The recipe `nano` made tiny, trained once: one stage of imitation and one of play."
    pytest.importorskip("torch")
    pytest.importorskip("trl")
    from tiny_trl import tiny_recipe

    from sql_env.training.run import train

    def make(folder: Path) -> None:
        train(tiny_recipe(), folder, threads=1)

    own = tmp_path_factory.mktemp("tiny") / "run"  # tests write into it
    shutil.copytree(made_once(tmp_path_factory, "tiny_run", make), own)
    return train(tiny_recipe(), own, threads=1)  # nothing is left to do
