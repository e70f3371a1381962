"""Faults put in by hand into code that is to stay, and whether the tests find them: `python benchmarks/hand_faults.py`.

`hand_faults.json` says each fault in words, so that it can be put in again where the code was written anew: then its
`module`, `old`, `new` and `tests` are changed, and `id` and `says` are not. Each is put into a copy of the repository
under a temporary folder, and its files of tests run there until one of them fails (SECONDS of processor time each). It
is found if the test that failed passes without it, not found if no test fails, and does not apply if the old text is
no longer there once. `hand_faults_found.json` holds what came of each, and in `first` what came of it the first time.
The exit code is 1 if one that was found before is not found now.
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from own_mutants import ROOT, tests_failed

SECONDS = 180
LIST, FOUND = (ROOT / "benchmarks" / f"hand_faults{end}.json" for end in ("", "_found"))
COMMAND = "python benchmarks/hand_faults.py"


def scratch_copy(parent: Path) -> Path:
    "The repository's files under a folder, beside it the data that tests look for there."
    sys.path.append(str(ROOT / "tests"))
    from conftest import copy_repository

    copy_repository(parent / "repository")
    if (ROOT.parent / "shared").is_dir():
        (parent / "shared").symlink_to(ROOT.parent / "shared")
    return parent / "repository"


def put(path: Path, text: str) -> None:
    "Write a module; what was compiled from the text before is forgotten, which may be of the same size and second."
    path.write_text(text, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def outcome(fault: dict, root: Path) -> tuple[str, str]:
    "found, not found, time limit or does not apply; and the test that failed."
    path = root / fault["module"]
    plain = path.read_text(encoding="utf-8") if path.is_file() else ""
    if plain.count(fault["old"]) != 1:
        return "does not apply", ""
    said = "not found"
    for file in fault["tests"]:
        if not (root / file).is_file():
            continue
        with (
            tempfile.TemporaryDirectory() as cache
        ):  # nothing that was kept without the fault hides it
            environment = dict(PYTHONPATH=str(root), SQL_ENV_CACHE=cache, OMP_NUM_THREADS="1")
            try:
                put(path, plain.replace(fault["old"], fault["new"]))
                kind, test = tests_failed([file], root, os.environ | environment, SECONDS)
            finally:
                put(path, plain)
            if kind == "timeout":
                said = "time limit"
            elif kind == "killed":
                again = [test.partition("[")[0]] if "::" in test else [file]
                if tests_failed(again, root, os.environ | environment, SECONDS)[0] == "survived":
                    return "found", test
    return said, ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ids", nargs="*", help="only these")
    args = parser.parse_args()
    faults = json.loads(LIST.read_text(encoding="utf-8"))["faults"]
    if unknown := {*args.ids} - {fault["id"] for fault in faults}:
        parser.error(f"there is no fault {min(unknown)}")
    before = json.loads(FOUND.read_text(encoding="utf-8"))["faults"] if FOUND.is_file() else {}
    found = {fault["id"]: before[fault["id"]] for fault in faults if fault["id"] in before}
    lost = []
    with tempfile.TemporaryDirectory() as folder:
        root = scratch_copy(Path(folder))
        for fault in faults:
            if args.ids and fault["id"] not in args.ids:
                continue
            start = time.monotonic()
            said, test = outcome(fault, root)
            old = found.get(fault["id"], {})
            if old.get("now") == "found" and said != "found":
                lost.append(fault["id"])
            found[fault["id"]] = dict(first=old.get("first", said), now=said, test=test)
            print(f"{said}: {fault['id']} {test} ({time.monotonic() - start:.0f} s)", flush=True)
            in_order = {f["id"]: found[f["id"]] for f in faults if f["id"] in found}
            counts = {
                when: dict(Counter(f[when] for f in found.values())) for when in ("first", "now")
            }
            record = dict(command=COMMAND, **counts, faults=in_order)
            FOUND.write_text(
                json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
    for fault in faults:
        if fault["id"] in lost:
            print(f"no longer found: {fault['id']}: {fault['says']}")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
