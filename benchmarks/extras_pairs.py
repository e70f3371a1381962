"Which two extras can't be installed together: `python benchmarks/extras_pairs.py` asks uv, writes extras_pairs.json."

import configparser
import json
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def requirements() -> dict[str, list[str]]:
    "What each extra but `dev` needs beside the core, by settings.ini; one that names another has its too."
    found = configparser.ConfigParser()
    found.read(ROOT / "settings.ini")
    known = found["DEFAULT"]
    core = known["requirements"].split()
    own = {
        k.removesuffix("_requirements"): v.split()
        for k, v in known.items()
        if k.endswith("_requirements")
    }
    own.pop("dev", None)
    for extra, needs in own.items():
        for named in [need for need in needs if need.startswith("sql_env[")]:
            needs.remove(named)
            needs += own[named[8:-1]]
        own[extra] = core + needs
    return own


def problem(needs: list[str], version: str = "3.11") -> str:
    "Why uv finds no set of versions; empty if it finds one."
    command = ["uv", "pip", "compile", "-", "-q", "--python-version", version]
    done = subprocess.run(command, input="\n".join(needs), capture_output=True, text=True)
    why = re.sub(r"\s+", " ", done.stderr).partition("cause: ")[2][:420]
    return why.rpartition(", we can conclude")[0] or why if done.returncode else ""


if __name__ == "__main__":
    needs = requirements()
    alone = {extra: why for extra in needs if (why := problem(needs[extra]))}
    if alone:
        sys.exit(f"not to be had by themselves, so nothing is known of pairs: {alone}")
    pairs = list(combinations(sorted(needs), 2))
    refused = {f"{a},{b}": why for a, b in pairs if (why := problem(needs[a] + needs[b]))}
    command = "python benchmarks/extras_pairs.py"
    matrix = dict(command=command, pairs=len(pairs), extras=sorted(needs), refused=refused)
    (ROOT / "benchmarks" / "extras_pairs.json").write_text(json.dumps(matrix, indent=1) + "\n")
