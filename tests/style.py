"""Style measures of the exporting notebooks: `python tests/style.py`. Targets: see the head of the table; nothing fails."""

import ast
import json
import re
import statistics
import sys
from pathlib import Path

TARGETS = {
    "markdown": "30-40 %",
    "words/line": "4-8",
    "cell median": "<= 8",
    "cell p90": "<= 22",
    "cell max": "<= 30",
    "def median": "<= 6",
    "followed": ">= 75 %",
    "hidden": "<= 5 %",
    "docstrings": "100 %",
    "wide": "0",
}


def measure(path: Path) -> dict[str, str]:
    "The measures of one notebook."
    cells = json.loads(path.read_text())["cells"]
    source = ["".join(c["source"]) for c in cells]
    is_code = [c["cell_type"] == "code" for c in cells]
    exported = [bool(re.match(r"#\|\s*exports?\b", s)) and code for s, code in zip(source, is_code)]
    lines = [
        len([x for x in s.split("\n") if x.strip() and not x.startswith("#|")])
        for s, e in zip(source, exported)
        if e
    ]
    tree = ast.parse("\n".join(s for s, e in zip(source, exported) if e))
    defs = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    public = [
        n
        for n in tree.body
        if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_")
    ]
    words = sum(len(s.split()) for s, code in zip(source, is_code) if not code)
    has_def = [e and re.search(r"^(def|class|@)", s, re.M) for s, e in zip(source, exported)]
    followed = [
        next((not exported[j] for j in range(i + 1, len(cells)) if is_code[j]), False)
        for i, d in enumerate(has_def)
        if d
    ]
    shown = [
        line
        for s, code, e in zip(source, is_code, exported)
        if code and not e and not s.startswith("#| hide")
        for line in s.split("\n")
    ]
    sizes = [n.end_lineno - n.lineno + 1 for n in defs if isinstance(n, ast.FunctionDef)]
    quantile = statistics.quantiles(lines, n=10)[-1] if len(lines) > 1 else lines[0]
    return {
        "markdown": f"{1 - sum(is_code) / len(cells):.0%}",
        "words/line": f"{words / max(sum(lines), 1):.1f}",
        "cell median": f"{statistics.median(lines):.0f}",
        "cell p90": f"{quantile:.0f}",
        "cell max": str(max(lines)),
        "def median": f"{statistics.median(sizes):.0f}" if sizes else "-",
        "followed": f"{sum(followed) / len(followed):.0%}" if followed else "-",
        "hidden": f"{sum(s.startswith('#| hide') for s in source) / len(cells):.0%}",
        "docstrings": f"{sum(bool(ast.get_docstring(n)) for n in public) / max(len(public), 1):.0%}",
        "wide": str(sum(len(x) > 80 for x in shown)),
    }


def main(root: Path = Path(__file__).resolve().parent.parent) -> None:
    print(
        f"{'':16}"
        + "".join(f"{k:>13}" for k in TARGETS)
        + "\n"
        + f"{'target':16}"
        + "".join(f"{v:>13}" for v in TARGETS.values())
    )
    for path in sorted((root / "nbs").glob("[0-9]*.ipynb")):
        m = measure(path)
        print(f"{path.stem:16}" + "".join(f"{m[k]:>13}" for k in TARGETS))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
