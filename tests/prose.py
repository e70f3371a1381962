"""Spelling and words of the prose: `python tests/prose.py`.

Reads the Markdown cells of the notebooks, the docstrings of the package and the texts beside them. Codespell finds
misspelt words; its list of British and American forms serves backwards, since this project writes British English.
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from codespell_lib import __file__ as codespell

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
# American forms that are British words too, or names of the field
NEUTRAL = {"catalog", "program", "programs", "practice", "practices", "story", "stories", "check"}
NEUTRAL |= {"meter", "meters", "draft", "drafts", "tire", "curb", "license", "licenses", "disk"}
KNOWN = {"ines", "sortings", "fro"}  # a name, a plural, and a part of a word
# Words that this project once had for what the field calls otherwise
WORDS = {
    r"lessons?": "transcript",
    r"exams?": "evaluation suite, test set",
    r"teachers?|pupils?": "expert, policy",
    r"cheat(s|ed|ing|ers?)?": "reward hack",
    r"thermometer": "progress bar, measure",
    r"up (its|his|their) sleeve": "knows",
    r"this room|rooms? \d+": "this project",
    r"leverag\w+|seamless(ly)?|delve\w*|utili[sz]e[sd]?": "a plain word",
}


def american_forms() -> dict[str, str]:
    "British forms by the American ones, from codespell's list."
    lines = (Path(codespell).parent / "data" / "dictionary_en-GB_to_en-US.txt").read_text()
    pairs = (line.split("->") for line in lines.splitlines() if "->" in line)
    found = {us.strip(): gb for gb, forms in pairs for us in forms.split(",") if us.strip()}
    return {us: gb for us, gb in found.items() if us not in NEUTRAL and len(us) > 3}


def plain(text: str) -> str:
    "Text without code, addresses and quotations in double quotes."
    text = re.sub(r"^```.*?^```|`(?:(?!\n\n)[^`])*`", " ", text, flags=re.M | re.S)
    return re.sub(r"\]\([^)]*\)|https?://\S+|\"[^\"\n]*\"", " ", text)


def passages(root: Path) -> Iterator[tuple[str, str]]:
    "The prose of a checkout, each piece with where it stands."
    for path in sorted((root / "nbs").rglob("*.ipynb")):
        if ".ipynb_checkpoints" not in path.parts:
            for i, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
                if cell["cell_type"] == "markdown":
                    yield f"{path.relative_to(root)}, cell {i}", plain("".join(cell["source"]))
    for path in sorted((root / "sql_env").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = getattr(node, "name", "")
                yield f"{path.relative_to(root)} {name}", plain(ast.get_docstring(node) or "")
    for name in TEXTS:
        if (root / name).exists():
            yield name, plain((root / name).read_text(encoding="utf-8"))


def word_faults(text: str, american: dict[str, str]) -> Iterator[str]:
    "American forms, and words for which the field has another."
    for word in re.findall(r"[A-Za-z]+", text):
        if british := american.get(word.lower()):
            yield f"{word}: write {british}"
    for pattern, better in WORDS.items():
        for found in re.finditer(rf"\b(?:{pattern})\b", text, re.I):
            yield f"{found[0]}: write {better}"


def misspelt(pieces: list[tuple[str, str]]) -> list[str]:
    "What codespell finds, with where it stands."
    lines = [(where, line) for where, text in pieces for line in text.splitlines()]
    command = [sys.executable, "-m", "codespell_lib", "--builtin", "clear", "-"]
    command += ["--ignore-words-list", ",".join(KNOWN)]
    text = "\n".join(line for _, line in lines)
    said = subprocess.run(command, input=text, capture_output=True, text=True).stdout
    found = re.findall(r"^(\d+): .*\n\s*(\S+ ==> .*)", said, re.M)
    return [f"{lines[int(number) - 1][0]}: {fault}" for number, fault in found]


def check(pieces: list[tuple[str, str]]) -> list[str]:
    "What is wrong, one line each."
    american = american_forms()
    words = [f"{where}: {f}" for where, text in pieces for f in word_faults(text, american)]
    return words + misspelt(pieces)


if __name__ == "__main__":
    found = check(list(passages(ROOT)))
    print("\n".join(found) or "nothing to mend")
    raise SystemExit(bool(found))
