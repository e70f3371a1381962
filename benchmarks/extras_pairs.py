"""Which two extras go together: `python benchmarks/extras_pairs.py [--install]` asks uv, writes extras_pairs.json.

Without an option it asks for versions that fit. `--install` makes an environment for each pair as well, installs both,
does a first thing with each in one process and keeps what came of it. PyTorch is what plain pip gives
(UV_FIND_LINKS names a folder of its wheels). vLLM brings gigabytes for a GPU: its pairs are resolved alone."""

import argparse
import configparser
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "benchmarks" / "extras_pairs.json"
UV = "uv", "pip"
FIRST = dict(  # a thing that each extra is for
    cluster="import ray; from distributed import Client",
    data="""
import huggingface_hub, openpyxl, pandas
pandas.DataFrame(dict(a=[1])).to_parquet("a.parquet")
from sql_env.sources.tables import import_files
assert import_files(["a.parquet"], "a.sqlite")""",
    inspect="from sql_env.integrations.inspect_ai import source_task; assert source_task(split='test').dataset",
    openai="from openai import OpenAI",
    prove="""
from sql_env.proofs import prove
import apsw
from sql_env.proofs.facts import read_facts
con = apsw.Connection(":memory:"); con.execute("CREATE TABLE t (a)")
assert prove("SELECT a FROM t WHERE a > 1", "SELECT a FROM t WHERE 1 < a", read_facts(con)).outcome == "proved" """,
    server="""
from sql_env.server.environment import SQLEnvironment
from sql_env.server.mcp_tools import Players
assert SQLEnvironment(questions).reset(seed=0).question""",
    skyrl="from sql_env.integrations.skyrl import register_skyrl; register_skyrl(questions)",
    train="""
from trl import GRPOTrainer
from sql_env.integrations.trl import SQLEnvTRL
import sql_env.nano.training
assert SQLEnvTRL(questions).reset(question_id=questions[0].question_id)""",
    verifiers="""
from sql_env.integrations.verifiers import PlayConfig, SQLTaskset, SQLTasksetConfig
assert next(iter(SQLTaskset(SQLTasksetConfig(play=PlayConfig(split="test"))).load()))""",
)
LOAD = "from sql_env.sources.loading import load; questions = load('bundled', split='test')\n"


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
    command = [*UV, "compile", "-", "-q", "--python-version", version]
    done = subprocess.run(command, input="\n".join(needs), capture_output=True, text=True)
    why = re.sub(r"\s+", " ", done.stderr).partition("cause: ")[2][:420]
    return why.rpartition(", we can conclude")[0] or why if done.returncode else ""


def trouble(needs: list[str], extras: tuple[str, ...]) -> str:
    "What goes wrong if extras are installed into an environment of their own and used; empty if nothing does."
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "env" / "bin" / "python"
        torch = ["torch==2.13.0"] if "train" in extras else []  # as README's second command
        for command in (
            ["uv", "venv", "-q", "-p", sys.executable, Path(folder) / "env"],
            [*UV, "install", "-q", "-p", python, *torch, *needs],
            [python, "-c", LOAD + "\n".join(FIRST[extra] for extra in extras)],
        ):
            env = os.environ | dict(PYTHONPATH=str(ROOT))
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
            if done.returncode:
                return done.stderr.strip()[-400:]
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true")
    args = parser.parse_args()
    needs = requirements()
    if alone := {extra: why for extra in needs if (why := problem(needs[extra]))}:
        sys.exit(f"not to be had by themselves, so nothing is known of pairs: {alone}")
    pairs = list(combinations(sorted(needs), 2))
    refused = {f"{a},{b}": why for a, b in pairs if (why := problem(needs[a] + needs[b]))}
    matrix = json.loads(OUT.read_text()) if OUT.exists() else {}
    command = "python benchmarks/extras_pairs.py"
    matrix |= dict(command=command, pairs=len(pairs), extras=sorted(needs), refused=refused)
    if args.install:
        left = [p for p in pairs if "vllm" not in p and ",".join(p) not in refused]
        began, found = time.monotonic(), {}
        for a, b in left:
            found[f"{a},{b}"] = why = trouble(needs[a] + needs[b], (a, b))
            print(a, b, why or "together", flush=True)
        versions = subprocess.run(["uv", "--version"], capture_output=True, text=True).stdout
        matrix["installed"] = dict(
            command=f"{command} --install",
            uv=versions.split()[1],
            minutes=round((time.monotonic() - began) / 60, 1),
            together=[pair for pair, why in found.items() if not why],
            failed={pair: why for pair, why in found.items() if why},
        )
    OUT.write_text(json.dumps(matrix, indent=1) + "\n")


if __name__ == "__main__":
    main()
