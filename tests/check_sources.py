"""Find in the notebooks what Quarto would change or leave unreadable: `python tests/check_sources.py [nbs]`.

Quarto makes a dash of two hyphens outside code, a figure without alternative text of a picture with a caption, and a
page with a hole of an empty cell; an aside leaves its box for the margin. nbdev makes a link of each name in backticks
that the package defines, meant or not.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Words that name a definition and something else too, with the pages that mean the definition
MEANT = {
    "train": {"training/05_run", "cli/04_train"},
    "data": {"cli/04_train"},
    "worlds": {"worlds/08_world"},
    "main": {"cli/01_app"},
    "verify()": set(),
    "environment_factory": {"server/08_app"},
}


def without_code(text: str) -> str:
    "Markdown without code, addresses of links and attributes of pictures."
    text = re.sub(r"^```.*?^```|`(?:(?!\n\n)[^`])*`|<[^>\n]*>", "", text, flags=re.M | re.S)
    return re.sub(r"\]\([^)]*\)", "]", text)


def block_faults(text: str) -> Iterator[str]:
    "Blocks of code that do not end, which takes the rest of the page with it, or that Python can't read."
    fences = re.findall(r"^[ \t]*```", text, re.M)
    if len(fences) % 2 or re.search(r"^[^`\n]*[^`\s][^`\n]*```$", text, re.M):
        yield "a block of code without an end"
    for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        try:
            ast.parse(re.sub(r"^[%!].*", "", block, flags=re.M))
        except SyntaxError as e:
            yield f"a block that Python can't read: {e.text or block[:40]}".strip()


def markdown_faults(text: str, page: str) -> Iterator[str]:
    "What is wrong in Markdown that somebody wrote, or that a cell printed."
    yield from block_faults(text)
    for found in re.findall(r"(?:^|[\s(|])(--[a-z]\S*)", without_code(text), re.M):
        yield f"two hyphens outside code: {found}"
    for caption, attributes in re.findall(r"!\[([^\]]*)\]\([^)]*\)(\{[^}]*\})?", text):
        if not re.search(r'fig-alt="[^"]+"', attributes):
            yield f"a picture without fig-alt: {caption}"
    for tag in re.findall(r"<img\b[^>]*>", text):
        if not re.search(r'\balt="[^"]+"', tag):
            yield f"a picture without alt: {tag}"
    for name in re.findall(r"(?<![\[`\w])`([\w.]+(?:\(\))?)`(?!`)", text):
        if page not in MEANT.get(name, {page}):
            yield f"a link to the wrong `{name}`"


def output_faults(output: dict, source: str, page: str) -> Iterator[str]:
    "What is wrong in an output of a cell."
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
    if any(kind.startswith("image/") for kind in data) and not re.search(r"^#\| fig-alt: \S", source, re.M):
        yield "a picture without #| fig-alt"
    yield from markdown_faults(data.get("text/markdown", ""), page)
    shown = re.sub(r'srcdoc="[^"]*"', "", data.get("text/html", ""))
    if re.search(r"<aside\b|class=\"[^\"]*\b(?:aside|column-\w+|page-columns)\b", shown):
        yield "an element that Quarto moves to the margin"
    if "__main__." in json.dumps(data):
        yield "a name of the notebook's own process: __main__."


def cell_faults(cell: dict, page: str) -> Iterator[str]:
    source = "".join(cell["source"])
    if not source.strip():
        yield "an empty cell"
    if cell["cell_type"] == "markdown":
        yield from markdown_faults(source, page)
    for output in cell.get("outputs", ()):
        yield from output_faults(output, source, page)


def check(folder: Path) -> list[str]:
    "What is wrong, one line each with page and number of the cell."
    paths = sorted(p for p in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
    if not paths:
        return [f"no notebooks in {folder}"]
    return [
        f"{path.relative_to(folder)}, cell {i}: {fault}"
        for path in paths
        for i, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"])
        for fault in cell_faults(cell, path.relative_to(folder).with_suffix("").as_posix())
    ]


if __name__ == "__main__":
    found = check(Path(sys.argv[1] if len(sys.argv) > 1 else "nbs"))
    print("\n".join(found) or "nothing that Quarto would change")
    raise SystemExit(bool(found))
