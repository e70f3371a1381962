"""Which small faults in our own code the tests notice: `python benchmarks/own_mutants.py FILE [--map] [--run]`.

1. Without FILE, `-n` places are drawn with a seed over all packages; one operator, constant or statement is changed at
   each. A place is known by its function and its text, not by its line, so the list outlives a move of the code.
2. `--map` runs the fast tests once (or only the files named behind it) on a copy of the package with a probe at each
   place and writes into FILE the tests that come by.
3. `--run` runs, for each place, those tests (at most 20, for at most 60 seconds of processor time) on a copy of the
   package with the fault. A mutant that was killed and now survives is printed at the end, and the exit code is 1.
   `--of` runs only the places that come by in some files of tests, `--new` only those that were never run.

A place whose function or text is gone is counted as gone: a test that needed it can't be asked.
"""

import argparse
import ast
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_TESTS, SECONDS = 20, 60
NOT_MAPPED = ("project", "docs", "docs_commands", "tutorials", "explorer_browser", "ray_nodes")
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
}  # fmt: skip
PROBE = """
import builtins, os

seen = set()

def came_by(place):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if test and (place, test) not in seen:
        seen.add((place, test))
        with open(f"{os.environ['CAME_BY']}/{os.getpid()}", "a") as f:
            f.write(f"{place} {test}\\n")

builtins._came_by = came_by
"""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def changed(node: ast.AST) -> ast.AST | None:
    "The node with one fault, None if it is no place for one."
    match node:
        case ast.Compare(left, [op], comparators) if type(op) in SWAPS:
            return ast.Compare(left, [SWAPS[type(op)]()], comparators)
        case ast.BoolOp(op, values):
            return ast.BoolOp(SWAPS[type(op)](), values)
        case ast.BinOp(left, op, right) if type(op) in SWAPS:
            return ast.BinOp(left, SWAPS[type(op)](), right)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
        case ast.Constant(int() as value):
            return ast.Constant(value + 1)
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            return ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call()):
            return ast.Pass()
    return None


def functions(tree: ast.Module) -> dict[str, ast.AST]:
    "Functions of a module and methods of its classes by their qualified names."
    found = {}
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{n.name}": n for n in node.body if isinstance(n, FUNCTIONS)}
    return found


@cache
def line_starts(source: str) -> list[int]:
    return [0, *accumulate(map(len, source.encode().splitlines(keepends=True)))]


def span(source: str, node: ast.AST) -> tuple[int, int]:
    "Where a node begins and ends, in bytes."
    before = line_starts(source)
    start = before[node.lineno - 1] + node.col_offset
    return start, before[node.end_lineno - 1] + node.end_col_offset


@cache
def places(source: str) -> dict[tuple[str, str, str, int], ast.AST]:
    "Nodes that can be changed, by function, text, text with the fault, and how often both stood before it."
    found, seen, raw = {}, Counter(), source.encode()
    for name, function in functions(ast.parse(source)).items():
        nodes = [n for part in function.body for n in ast.walk(part) if changed(n) is not None]
        for node in sorted(nodes, key=lambda n: (n.lineno, n.col_offset, n.end_lineno)):
            start, end = span(source, node)
            key = name, raw[start:end].decode(), ast.unparse(changed(node))
            found[*key, seen[key]] = node
            seen[key] += 1
    return found


@cache
def package(root: Path = ROOT) -> dict[str, str]:
    "Sources of the package by their path."
    paths = [p for p in (root / "sql_env").rglob("*.py") if p.name != "_modidx.py"]
    return {str(p.relative_to(root)): p.read_text(encoding="utf-8") for p in sorted(paths)}


def with_fault(source: str, node: ast.AST, after: str) -> str:
    "The source with the text of a node replaced."
    start, end = span(source, node)
    text = f"({after})" if isinstance(node, ast.expr) else after
    return (source.encode()[:start] + text.encode() + source.encode()[end:]).decode()


def draw(n: int, seed: int) -> list[dict]:
    "Places drawn evenly over all of the package."
    everything = [(path, key) for path, source in package().items() for key in places(source)]
    names = ("function", "before", "after", "nth")
    chosen = sorted(random.Random(seed).sample(everything, n))
    return [dict(path=path) | dict(zip(names, key)) for path, key in chosen]


def find(mutant: dict) -> tuple[str, ast.AST] | None:
    "Where a mutant's place is today: its path if it is there, else the only other module that has it."
    key = tuple(mutant[k] for k in ("function", "before", "after", "nth"))
    sources = dict(package())
    own = sources.pop(mutant["path"], "")
    if own and (node := places(own).get(key)):
        return mutant["path"], node
    there = [(path, node) for path, s in sources.items() if (node := places(s).get(key))]
    return there[0] if len(there) == 1 else None


def probed(folder: Path, mutants: list[dict]) -> None:
    "A copy of the package in which each place writes down the test that comes by, in whichever process."
    shutil.copytree(ROOT / "sql_env", folder / "sql_env")
    marks = defaultdict(list)
    for i, mutant in enumerate(mutants):
        if place := find(mutant):
            path, node = place
            source = (ROOT / path).read_text(encoding="utf-8")
            start, end = span(source, node)
            value = isinstance(node, ast.expr)
            marks[path].append((start, f"(_came_by({i}) or (" if value else f"_came_by({i}); "))
            marks[path].append((end, "))" if value else ""))
    for path, found in marks.items():
        raw = (ROOT / path).read_bytes()
        for at, text in sorted(found, reverse=True):
            raw = raw[:at] + text.encode() + raw[at:]
        (folder / path).write_bytes(raw)
    (folder / "sitecustomize.py").write_text(PROBE)


def map_tests(mutants: list[dict], files: list[str], workers: int) -> None:
    "Run fast tests on the package with probes and write into each mutant which of them run its place."
    left_out = {f"tests/test_{name}.py" for name in NOT_MAPPED}
    everything = {str(p.relative_to(ROOT)) for p in (ROOT / "tests").glob("test_*.py")}
    asked = files or sorted(everything - left_out)
    # Not by xdist: its processes have the folder they run in on their path, before the package with probes
    command = [Path(sys.executable).with_name("pytest"), "-q", "-p", "no:xdist"]
    command += ["-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        probed(folder, mutants)
        seen = folder / "seen"
        seen.mkdir()
        env = os.environ | {"PYTHONPATH": name, "CAME_BY": str(seen), "OMP_NUM_THREADS": "1"}
        parts = [asked[i::workers] for i in range(workers)]
        running = [subprocess.Popen([*command, *p], cwd=ROOT, env=env) for p in parts if p]
        for process in running:
            process.wait()
        came: dict[int, set[str]] = defaultdict(set)
        for path in seen.iterdir():
            for line in path.read_text(encoding="utf-8").splitlines():
                number, _, test = line.partition(" ")
                came[int(number)].add(test)
    for i, mutant in enumerate(mutants):
        kept = [t for t in mutant.get("tests", []) if files and t.partition("::")[0] not in files]
        mutant["tests"] = spread({*kept, *came[i]})


def spread(tests: set[str]) -> list[str]:
    "At most `MOST_TESTS` of many tests, in turn from each file and each function, the file with most of them first."
    by_file = defaultdict(list)
    for test in sorted(tests):
        by_file[test.partition("::")[0]].append(test)
    for file, named in by_file.items():
        turns, number = Counter(), {}
        for test in named:
            function = test.partition("[")[0]
            number[test] = turns[function]
            turns[function] += 1
        by_file[file] = sorted(named, key=number.get)
    files = sorted(by_file.values(), key=len, reverse=True)
    deep = max(map(len, files), default=0)
    return [f[i] for i in range(deep) for f in files if i < len(f)][:MOST_TESTS]


def tests_failed(tests: list[str], root: Path, env: dict, seconds: int) -> tuple[str, str]:
    "killed, survived or timeout, and the first test that failed, of tests that run in `root` for so long each."
    command = [Path(sys.executable).with_name("pytest"), "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=root,
            env=env,
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1)),
            timeout=15 * seconds,
        )
    except subprocess.TimeoutExpired:
        return "timeout", ""
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "timeout", ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    if done.returncode in (0, 5):
        return "survived", ""
    return ("killed", failed[1]) if failed else ("killed", done.stdout[-200:])


def outcome(mutant: dict) -> tuple[str, str]:
    "killed, survived, timeout, gone or not covered; and the test that failed."
    place = find(mutant)
    if place is None:
        return "gone", ""
    if not mutant.get("tests"):
        return "not covered", ""
    path, node = place
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "sql_env", Path(folder, "sql_env"))
        source = (ROOT / path).read_text(encoding="utf-8")
        Path(folder, path).write_text(with_fault(source, node, mutant["after"]), encoding="utf-8")
        env = os.environ | {"PYTHONPATH": folder, "OMP_NUM_THREADS": "1"}
        return tests_failed(mutant["tests"], ROOT, env, SECONDS)


def run(mutants: list[dict], workers: int) -> list[dict]:
    "Outcome of each mutant, and those that were killed before and survive now."
    alive = []
    with ThreadPoolExecutor(workers) as pool:
        for mutant, (said, test) in zip(mutants, pool.map(outcome, mutants)):
            was, mutant["outcome"], mutant["killed_by"] = mutant.get("outcome", ""), said, test
            if was == "killed" and said in ("survived", "not covered"):
                alive.append(mutant)
            print(said, mutant["path"], mutant["function"], repr(mutant["before"][:60]), flush=True)
    return alive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="list of mutants, drawn if it does not exist")
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--map", nargs="*", help="find the tests that run each place, of these files or of all"
    )
    parser.add_argument("--run", action="store_true", help="run them on each mutant")
    parser.add_argument("--of", nargs="+", default=[""], help="only what these files of tests run")
    parser.add_argument("--new", action="store_true", help="only what was never run")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if args.file.exists():
        record = json.loads(args.file.read_text(encoding="utf-8"))
    else:
        options = f"benchmarks/{args.file.name} -n {args.n} --seed {args.seed} --map --run"
        command = f"python benchmarks/own_mutants.py {options}"
        record = dict(command=command, mutants=draw(args.n, args.seed))
    mutants = record["mutants"]
    if args.map is not None:
        map_tests(mutants, args.map, args.workers)
    asked = [m for m in mutants if any(t.startswith(tuple(args.of)) for t in m.get("tests", []))]
    if args.new:
        asked = [m for m in asked if m.get("outcome", "not run") == "not run"]
    alive = run(asked, args.workers) if args.run else []
    record["outcomes"] = dict(Counter(m.get("outcome", "") for m in mutants))
    args.file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(record["outcomes"])
    for mutant in alive:
        print("alive again:", mutant["path"], mutant["function"], mutant["before"])
    sys.exit(bool(alive))


if __name__ == "__main__":
    main()
