"""Draw the modules of each package and their imports: `python benchmarks/module_maps.py` writes nbs/images/modules/.

A module stands above those that it imports; an arrow that follows from others is left out. `tests/test_project.py`
holds the pictures equal to the imports of today.
"""

import ast
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = """sql database questions grading sources play policies evaluation view judging server integrations training
cli worlds nano""".split()
STYLE = """text { font: 600 13px system-ui, sans-serif; fill: #1f2933 }
.job { font-weight: 400; font-size: 10.5px; fill: #52606d }
rect { fill: #eef3f8; stroke: #7b8794; rx: 5 }
path { stroke: #7b8794; fill: none; marker-end: url(#a) }
.head { fill: #7b8794 }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb } .job { fill: #b8c2cc } rect { fill: #2b3540; stroke: #9aa5b1 }
}"""
WIDTH, BOX, ROW = 200, 46, 76  # pixels of a column, of a box's height and of a row's


def module_files(folder: Path) -> dict[str, Path]:
    "Files of a package by the name of the module within it."
    files = sorted(p for p in folder.rglob("*.py") if p.name != "__init__.py")
    return {".".join(p.relative_to(folder).with_suffix("").parts): p for p in files}


def imported(path: Path) -> set[str]:
    "Dotted names that a module of the package imports, those inside functions included."
    parts = path.relative_to(ROOT).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = list(parts[: len(parts) - node.level]) if node.level else []
            target = ".".join([*base, *([node.module] if node.module else [])])
            found |= {target, *(f"{target}.{a.name}" for a in node.names)}
    return found


def module_graph(package: str) -> dict[str, set[str]]:
    "Which modules of a package each of them imports."
    files = module_files(ROOT / "sql_env" / package)
    graph = {}
    for name, path in files.items():
        names = imported(path)
        graph[name] = {n for n in files if n != name and f"sql_env.{package}.{n}" in names}
    return graph


def package_graph() -> dict[str, set[str]]:
    "Which packages each package imports."
    graph = {}
    for package in PACKAGES:
        files = module_files(ROOT / "sql_env" / package).values()
        names = {n.split(".")[1] for p in files for n in imported(p) if n.startswith("sql_env.")}
        graph[package] = (names & set(PACKAGES)) - {package}
    return graph


def depth(name: str, graph: dict[str, set[str]]) -> int:
    return 1 + max((depth(n, graph) for n in graph[name]), default=-1)


def reach(name: str, graph: dict[str, set[str]]) -> set[str]:
    return graph[name] | {m for n in graph[name] for m in reach(n, graph)}


def needed(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    "The graph without arrows that follow from others."
    return {
        name: {n for n in below if not any(n in reach(m, graph) for m in below - {n})}
        for name, below in graph.items()
    }


def summary(path: Path) -> str:
    "The first line of a module's docstring."
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0].rstrip(".").replace("`", "")


def shown_name(name: str) -> str:
    "A name as it fits into its box: without the subpackage if that makes it too long."
    return name if len(name) <= 24 else name.rpartition(".")[2]


def two_lines(text: str, most: int = 29) -> list[str]:
    "A text cut into at most two lines at a blank, the rest left out."
    words, lines = text.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > most:
            if len(lines) == 2:
                lines[-1] += " …"
                break
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def place(graph: dict[str, set[str]], most: int = 4) -> dict[str, tuple[float, int]]:
    "Column and row of each module: the deepest stand at the bottom, in the middle; a row that is too long is cut."
    rows: list[list[str]] = []
    for level in range(max(depth(n, graph) for n in graph), -1, -1):
        names = sorted(n for n in graph if depth(n, graph) == level)
        rows += [names[i : i + most] for i in range(0, len(names), most)]
    widest = max(map(len, rows))
    return {
        name: ((widest - len(names)) / 2 + x, y)
        for y, names in enumerate(rows)
        for x, name in enumerate(names)
    }


def draw(graph: dict[str, set[str]], jobs: dict[str, str]) -> str:
    "The picture of a graph, as SVG."
    at, graph = place(graph), needed(graph)
    wide = round((1 + max(x for x, _ in at.values())) * WIDTH)
    high = max(y for _, y in at.values()) * ROW + BOX + 10
    size = f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f"<style>{STYLE}</style>",
    ]
    head = '<path class="head" d="M0 0 L8 4 L0 8 z" style="marker-end: none"/>'
    arrow = f'<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">{head}'
    out.append(f"<defs>{arrow}</marker></defs>")
    for name, below in sorted(graph.items()):
        x, y = round(at[name][0] * WIDTH + WIDTH / 2), at[name][1] * ROW + BOX + 5
        for other in sorted(below):
            u, v = round(at[other][0] * WIDTH + WIDTH / 2), at[other][1] * ROW + 5
            out.append(f'<path d="M{x} {y} C{x} {y + 25} {u} {v - 25} {u} {v - 1}"/>')
    for name, (x, y) in at.items():
        left, top = round(x * WIDTH + 5), y * ROW + 5
        out.append(f'<rect x="{left}" y="{top}" width="{WIDTH - 10}" height="{BOX}"/>')
        out.append(f'<text x="{left + 8}" y="{top + 15}">{escape(shown_name(name))}</text>')
        for i, line in enumerate(two_lines(jobs[name])):
            out.append(
                f'<text class="job" x="{left + 8}" y="{top + 28 + 12 * i}">{escape(line)}</text>'
            )
    return "\n".join([*out, "</svg>", ""])


def pictures() -> dict[str, str]:
    "The text of each picture by its name."
    jobs = {p: summary(ROOT / "sql_env" / p / "__init__.py") for p in PACKAGES}
    found = {"packages": draw(package_graph(), jobs)}
    for package in PACKAGES:
        files = module_files(ROOT / "sql_env" / package)
        found[package] = draw(module_graph(package), {n: summary(p) for n, p in files.items()})
    return found


def main() -> None:
    folder = ROOT / "nbs" / "images" / "modules"
    folder.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (folder / f"{name}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
