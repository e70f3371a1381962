"""Size and style of package, notebooks and tests: `python tests/style.py [ROOT] [--json]`.

The table has a line per measure with its target; `tests/test_project.py` holds the targets, and the budget of tokens
that stands in `benchmarks/style.json`.
"""

import argparse
import ast
import io
import json
import re
import tokenize
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
LAYOUT_TOKENS = {"NL", "NEWLINE", "INDENT", "DEDENT", "COMMENT", "ENCODING", "ENDMARKER"}
SATELLITES = ("worlds", "proofs", "nano")
ACTION = "ABSTAIN"  # an action that few files may name: what others need of it, they ask of its `Act`
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
TARGETS = {
    "private base classes with one child": "0",
    "forward annotations": "0",
    "import circles": "0",
    "modules over 700 lines": "0",
    "tokens, core": "<= 178,000",
    "tokens, worlds": "<= 37,000",
    "tokens, proofs": "<= 36,500",
    "tokens, nano": "<= 10,000",
    "tokens, all": "<= 261,500",
    "modules": "<= 130",
    "modules flat at the top": "<= 7",
    "lines": "",
    "notebooks": "<= 95",
    "lines of tests": "<= 22,000",
    "public names": "<= 560",
    "promised names": "<= 140",
    "files that name an action": "<= 3",
    "core modules that import a satellite": "0",
    "words of prose for a line of code": ">= 2",
    "tokens a line": "<= 10",
    "lines over 120, package": "0",
    "lines over 120, tests and benchmarks": "0",
    "exported cells with one definition": ">= 80 %",
    "public definitions followed by an example": ">= 75 %",
    "public definitions with a docstring": "100 %",
    "hidden cells": "<= 5 %",
    "markdown cells": "30-40 %",
}


def modules(root: Path) -> dict[str, str]:
    "Source of each module of the package by its dotted name."
    paths = [p for p in (root / "sql_env").rglob("*.py") if p.name != "_modidx.py"]
    return {name_of(p.relative_to(root)): p.read_text(encoding="utf-8") for p in sorted(paths)}


def name_of(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def code_lines(source: str) -> list[str]:
    "Lines that are neither blank nor a comment."
    lines = (line.strip() for line in source.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@cache
def count_tokens(source: str) -> int:
    "Tokens beside layout; an f-string is one, as Python reads it before 3.12."
    count = depth = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        count += not depth and name not in LAYOUT_TOKENS
        depth += (name == "FSTRING_START") - (name == "FSTRING_END")
    return count


def class_ladders(trees: dict[str, ast.Module]) -> list[str]:
    "Private classes that serve as base of a single class."
    children, defined = defaultdict(list), set()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                defined.add(node.name)
                for base in node.bases:
                    if isinstance(base, ast.Name):
                        children[base.id].append(node.name)
    return sorted(b for b, kids in children.items() if b in defined and b[0] == "_" and len(kids) == 1)


def is_record(node: ast.ClassDef) -> bool:
    "Whether annotations of a class are its fields; `node` is the dataclass decorator of proofs."
    marks = [*node.decorator_list, *node.bases]
    text = " ".join(ast.unparse(m) for m in marks)
    fields = r"dataclass|\bnode\b|BaseModel|Trajectory|NamedTuple|TypedDict|Protocol|Action|Observation|State"
    return bool(re.search(fields, text))


def forward_annotations(trees: dict[str, ast.Module]) -> int:
    "Bare annotations in classes whose annotations are no fields."
    count = 0
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not is_record(node):
                count += sum(isinstance(n, ast.AnnAssign) and n.value is None for n in node.body)
    return count


def import_circles(sources: dict[str, str], root: Path) -> int:
    "Circles among the imports of modules, those inside functions included."
    graph = {}
    for name, source in sources.items():
        is_package = (root / Path(*name.split("."), "__init__.py")).is_file()
        package = name.split(".") if is_package else name.split(".")[:-1]
        found = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                target = ".".join([*base, *([node.module] if node.module else [])])
                found |= {target, *(f"{target}.{a.name}" for a in node.names)} & sources.keys()
        graph[name] = found - {name, "sql_env"}
    circles = 0
    while True:
        try:
            list(TopologicalSorter(graph).static_order())
            return circles
        except CycleError as e:
            circles += 1
            after, before = e.args[1][:2]
            graph[before].discard(after)
            graph[after].discard(before)


def public_names(trees: dict[str, ast.Module]) -> int:
    "Functions and classes without an underscore, at module level."
    return sum(isinstance(n, DEFINITIONS) and n.name[0] != "_" for t in trees.values() for n in t.body)


def promised_names(root: Path) -> int:
    "Different names that the front doors of the packages list, each in a text of names with blanks between them."
    found: set[str] = set()
    for path in sorted((root / "sql_env").glob("*/__init__.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_names":
                table = ast.literal_eval(node.args[1])
                found |= {name for names in table.values() for name in names.split()}
    return len(found)


def flat_modules(sources: dict[str, str]) -> int:
    "Modules that stand in no package, the front door itself left out."
    return sum(name.count(".") == 1 and not any(n.startswith(f"{name}.") for n in sources) for name in sources)


def prose_share(root: Path) -> float:
    "Words of prose in the notebooks of modules and packages for each line that they export."
    words = lines = 0
    for path in sorted((root / "nbs").rglob("*.ipynb")):
        if path.parent.name in ("tutorials", "concepts", "blog") or ".ipynb_checkpoints" in path.parts:
            continue
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                words += len(re.findall(r"\b\w+\b", source_of(cell)))
            elif is_exported(cell):
                lines += len(code_lines(source_of(cell)))
    return words / lines


def is_exported(cell: dict) -> bool:
    return cell["cell_type"] == "code" and bool(re.match(r"#\|\s*exports?\b", source_of(cell)))


def source_of(cell: dict) -> str:
    return "".join(cell["source"])


def definitions(cell: dict) -> list[ast.stmt]:
    return [n for n in ast.parse(source_of(cell)).body if isinstance(n, DEFINITIONS)]


def shows(cell: dict) -> bool:
    "Whether a code cell is an example: not exported, not hidden."
    hidden = re.match(r"#\|\s*(hide|default_exp)\b", source_of(cell))
    return cell["cell_type"] == "code" and not is_exported(cell) and not hidden


def has_example(cells: list[dict], i: int) -> bool:
    "Whether an example comes after cell `i` and before the next definition of a public name."
    for cell in cells[i + 1 :]:
        if shows(cell):
            return True
        if is_exported(cell) and any(n.name[0] != "_" for n in definitions(cell)):
            return False
    return False


def notebook_measures(root: Path) -> dict[str, str]:
    "Measures of the notebooks that export a module, all together."
    exported = single = public = followed = documented = hidden = markdown = total = 0
    for path in sorted((root / "nbs").rglob("[0-9]*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        total += len(cells)
        markdown += sum(c["cell_type"] == "markdown" for c in cells)
        hidden += sum(source_of(c).startswith("#| hide") for c in cells)
        for i, cell in enumerate(cells):
            found = definitions(cell) if is_exported(cell) else []
            if not found:
                continue
            exported += 1
            single += len(found) == 1
            names = [n for n in found if n.name[0] != "_"]
            public += len(names)
            documented += sum(bool(ast.get_docstring(n)) for n in names)
            followed += len(names) if has_example(cells, i) else 0
    return {
        "exported cells with one definition": f"{single / exported:.0%}",
        "public definitions followed by an example": f"{followed / public:.0%}",
        "public definitions with a docstring": f"{documented / public:.0%}",
        "hidden cells": f"{hidden / total:.0%}",
        "markdown cells": f"{markdown / total:.0%}",
    }


def package_of(name: str) -> str:
    "The package that a module belongs to, empty for those at the top."
    parts = name.split(".")
    return parts[1] if len(parts) > 2 or (HERE / "sql_env" / parts[-1]).is_dir() else ""


def tokens_of(sources: dict[str, str]) -> dict[str, int]:
    "Tokens of the core, of each satellite, of all, and of each package of the core; `root` is what stands in none."
    found: dict[str, int] = defaultdict(int)
    for name, source in sources.items():
        is_package = any(other.startswith(f"sql_env.{package_of(name)}.") for other in sources)
        found[package_of(name) if is_package else "root"] += count_tokens(source)
    satellites = {s: found.pop(s) for s in SATELLITES}
    core = sum(found.values())
    return {"core": core, **satellites, "all": core + sum(satellites.values()), **dict(sorted(found.items()))}


def satellite_imports(sources: dict[str, str]) -> list[str]:
    "Modules of the core that import a satellite."
    pattern = rf"^\s*(?:from|import) +(?:sql_env\.|\.+)(?:{'|'.join(SATELLITES)})\b"
    return [
        name
        for name, source in sources.items()
        if package_of(name) not in SATELLITES and re.search(pattern, source, re.M)
    ]


def files_naming(sources: dict[str, str], action: str) -> list[str]:
    "Modules that name an action, those of policies and sources left out: a policy chooses it, a source asks for it."
    exempt = ("policies", "sources", *SATELLITES)
    return [
        name
        for name, source in sources.items()
        if package_of(name) not in exempt and re.search(rf"\b{action}\b", source)
    ]


def over_120(texts: list[str]) -> int:
    lines = (line for text in texts for line in text.splitlines())
    return sum(len(line) > 120 and not line.startswith("__all__") for line in lines)


def measure(root: Path = HERE) -> dict[str, str]:
    "All measures of a checkout."
    sources = modules(root)
    trees = {name: ast.parse(source) for name, source in sources.items()}
    lines = {name: len(code_lines(source)) for name, source in sources.items()}
    folders = ("tests", "benchmarks", "data", "examples")
    others = [p.read_text(encoding="utf-8") for f in folders for p in (root / f).glob("*.py")]
    tokens = tokens_of(sources)
    return {
        "private base classes with one child": str(len(class_ladders(trees))),
        "forward annotations": str(forward_annotations(trees)),
        "import circles": str(import_circles(sources, root)),
        "modules over 700 lines": str(sum(n > 700 for n in lines.values())),
        **{f"tokens, {name}": str(n) for name, n in tokens.items()},
        "modules": str(sum(not (root / Path(*n.split("."), "__init__.py")).is_file() for n in sources)),
        "modules flat at the top": str(flat_modules(sources)),
        "lines": str(sum(source.count("\n") for source in sources.values())),
        "notebooks": str(sum(1 for p in (root / "nbs").rglob("*.ipynb") if p.parent.name[0] != ".")),
        "lines of tests": str(sum(p.read_text(encoding="utf-8").count("\n") for p in (root / "tests").glob("*.py"))),
        "public names": str(public_names(trees)),
        "promised names": str(promised_names(root)),
        "files that name an action": str(len(files_naming(sources, ACTION))),
        "core modules that import a satellite": str(len(satellite_imports(sources))),
        "words of prose for a line of code": f"{prose_share(root):.2f}",
        "tokens a line": f"{tokens['all'] / sum(lines.values()):.1f}",
        "lines over 120, package": str(over_120(list(sources.values()))),
        "lines over 120, tests and benchmarks": str(over_120(others)),
        **notebook_measures(root),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=HERE)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = measure(args.root)
    if args.json:
        print(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        print(f"{name:45}{value:>8}   {TARGETS.get(name, '')}")


if __name__ == "__main__":
    main()
