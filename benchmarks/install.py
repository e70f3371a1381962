"""What `pip install sql_env` brings: `python benchmarks/install.py [EXTRA ...] [--out FILE]`.

Prints distributions and megabytes on disk as JSON, for the base install and for each extra that is named, without pip
and setuptools, which are there before; and the largest packages, each with its `.libs`. Installing takes a minute and
the network."""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SEEDED = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")


def make_environment(folder: Path) -> Path:
    "An empty virtual environment; returns its Python."
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def install(python: Path, source: Path = ROOT, extra: str = "") -> None:
    "Install a copy of the repository, or a wheel, with an extra."
    what = f"{source}[{extra}]" if extra else str(source)
    command = [python, "-I", "-m", "pip", "install", "-q", "--disable-pip-version-check", what]
    subprocess.run(command, check=True, timeout=900)


def megabytes(path: Path) -> float:
    "Space on disk of a file or folder."
    files = [path] if path.is_file() else [p for p in path.rglob("*") if not p.is_symlink()]
    return sum(p.stat().st_blocks for p in files) * 512 / 2**20


def measure(python: Path) -> dict[str, Any]:
    "Number of distributions and megabytes of an environment, without what it was made with, and its largest parts."
    (packages,) = python.parent.parent.glob("lib/python*/site-packages")
    own = [path for path in packages.iterdir() if not path.name.startswith(SEEDED)]
    distributions = [path for path in own if path.suffix == ".dist-info"]
    sizes: Counter[str] = Counter()
    for path in own:
        sizes[path.name.removesuffix(".libs")] += megabytes(path)
    largest = {name: round(size) for name, size in sizes.most_common(9)}
    return dict(
        distributions=len(distributions), megabytes=round(sum(sizes.values())), largest=largest
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found: dict = dict(command=" ".join(["python", "benchmarks/install.py", *sys.argv[1:]]))
    with tempfile.TemporaryDirectory() as folder:
        python = make_environment(Path(folder) / "env")
        for extra in ("", *args.extras):
            install(python, extra=extra)
            found[extra or "base"] = measure(python)
    print(json.dumps(found, indent=1))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
