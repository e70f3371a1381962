"""How many small faults in our own code the tests notice: `python benchmarks/own_mutants.py -n 60 --out FILE`.

Places in `sql`, `database`, `grading` and `play` are drawn at random; one operator, constant or statement is changed
there, and the tests that import the module (or its package) run until one fails; then its notebook, whose stored
outputs must stay as they are. A mutant that survives is printed; whether it changes what the module does is for a
person to say (`judged` in the file, kept when the command runs again).
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sql", "database", "grading", "play")
FAR = 12  # files that import only the package, the smallest: what others would find is not counted
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
}  # fmt: skip


def changed(node: ast.AST) -> ast.AST | None:
    "The node with one fault, None if it is no place for one."
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        return ast.Compare(node.left, [SWAPS[type(node.ops[0])]()], node.comparators)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(SWAPS[type(node.op)](), node.values)
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        return ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return ast.Constant(node.value + 1)
    if (
        isinstance(node, ast.Return)
        and node.value is not None
        and not isinstance(node.value, ast.Constant)
    ):
        return ast.Return(ast.Constant(None))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.Pass()
    return None


def places(tree: ast.Module) -> list[ast.AST]:
    "Nodes of function bodies that can be changed."
    found = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            found += [
                n
                for statement in function.body
                for n in ast.walk(statement)
                if changed(n) is not None
            ]
    return list({(n.lineno, n.col_offset, type(n)): n for n in found}.values())


def replaced(source: str, node: ast.AST, text: str) -> str:
    "The source with the text of a node replaced."
    lines = source.splitlines(keepends=True)
    start = sum(len(line.encode()) for line in lines[: node.lineno - 1]) + node.col_offset
    end = sum(len(line.encode()) for line in lines[: node.end_lineno - 1]) + node.end_col_offset
    raw = source.encode()
    return (raw[:start] + text.encode() + raw[end:]).decode()


def tests_of(module: str) -> list[str]:
    "Test files that import a module, then those that import its package; small ones first."
    package = module.rpartition(".")[0]
    files = sorted((ROOT / "tests").glob("test_*.py"), key=lambda p: p.stat().st_size)
    near = [
        p for p in files if re.search(rf"\b{re.escape(module)}\b", p.read_text(encoding="utf-8"))
    ]
    far = [p for p in files if p not in near and f"{package}." in p.read_text(encoding="utf-8")]
    return [str(p.relative_to(ROOT)) for p in [*near, *far[:FAR]]]


def run_tests(folder: Path, tests: list[str], seconds: float) -> tuple[str, str]:
    "`killed`, `survived` or `timeout`, and the test that failed."
    command = [
        Path(sys.executable).with_name("pytest"),
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    env = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return "timeout", ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    return ("survived", "") if done.returncode == 0 else ("killed", failed[1] if failed else "")


def code_of_cells(source: str) -> dict[str, str]:
    "What a module has from each cell of its notebook, by the id of the cell."
    parts = re.split(r"^# %% \S+ #(\w+)\n", source, flags=re.M)[1:]
    return {name: code.strip() for name, code in zip(parts[::2], parts[1::2])}


def outputs_of(path: Path) -> list[str]:
    "The text that the cells of a notebook print and show."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    found = []
    for output in [o for cell in cells for o in cell.get("outputs", [])]:
        shown = output.get("data", {}).get("text/plain", output.get("text", ""))
        found.append("".join(shown))
    return found


def run_notebook(folder: Path, module: str, source: str) -> tuple[str, str]:
    "`killed` if the notebook of a mutated module fails or shows something else."
    path = ROOT / "sql_env" / Path(*module.split(".")[1:]).with_suffix(".py")
    original = path.read_text(encoding="utf-8")
    named = re.search(r"File to edit: (\S+?)\.? *$", original, re.M)
    if not named:
        return "survived", ""
    notebook = (path.parent / named[1]).resolve()
    old, new = code_of_cells(original), code_of_cells(source)
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        before = old.get(cell["id"])
        if before and before != new[cell["id"]]:
            text = "".join(cell["source"])
            if before not in text:
                return "survived", ""
            cell["source"] = text.replace(before, new[cell["id"]]).splitlines(keepends=True)
    copy = folder / notebook.name
    copy.write_text(json.dumps(content), encoding="utf-8")
    env = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [
        Path(sys.executable).with_name("nbdev-test"),
        "--save",
        "--n-workers",
        "1",
        copy,
    ]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=600)
    is_same = done.returncode == 0 and outputs_of(copy) == outputs_of(notebook)
    return ("survived", "") if is_same else ("killed", str(notebook.relative_to(ROOT)))


def draw_mutants(n: int, seed: int) -> list[dict]:
    "Mutants as records, drawn evenly over the lines of the packages."
    draw, everything = random.Random(seed), []
    for package in PACKAGES:
        for path in sorted((ROOT / "sql_env" / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            everything += [(path, source, node) for node in places(ast.parse(source))]
    found = []
    for path, source, node in draw.sample(everything, n):
        before, after = ast.get_source_segment(source, node) or "", ast.unparse(changed(node))
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        new = replaced(source, node, f"({after})" if isinstance(node, ast.expr) else after)
        found.append(dict(module=name, line=node.lineno, before=before, after=after, source=new))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    judged = {}
    if args.out and args.out.exists():
        rows = json.loads(args.out.read_text(encoding="utf-8"))["mutants"]
        judged = {(r["module"], r["before"], r["after"]): r.get("judged", "") for r in rows}
    rows = []
    for mutant in draw_mutants(args.n, args.seed):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "sql_env", Path(folder, "sql_env"))
            source = mutant.pop("source")
            Path(folder, *mutant["module"].split(".")).with_suffix(".py").write_text(source)
            outcome, test = run_tests(Path(folder), tests_of(mutant["module"]), args.seconds)
            if outcome == "survived":
                outcome, test = run_notebook(Path(folder), mutant["module"], source)
        key = (mutant["module"], mutant["before"], mutant["after"])
        rows.append(
            mutant
            | dict(outcome=outcome, test=test)
            | ({"judged": judged[key]} if judged.get(key) else {})
        )
        print(
            outcome,
            mutant["module"],
            mutant["line"],
            mutant["before"][:60],
            "->",
            mutant["after"][:60],
            flush=True,
        )
    survived = [r for r in rows if r["outcome"] != "killed"]
    same = sum(r.get("judged") == "equivalent" for r in survived)
    shares = dict(drawn=len(rows), survived=len(survived), equivalent=same)
    shares["killed_of_those_that_differ"] = round(
        1 - (len(survived) - same) / max(len(rows) - same, 1), 3
    )
    print(shares)
    if args.out:
        command = (
            f"python benchmarks/own_mutants.py -n {args.n} --seed {args.seed} --out {args.out.name}"
        )
        values = dict(command=command, **shares, mutants=rows)
        args.out.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
