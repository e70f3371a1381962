"""Files of the site for programs that read it: `python tests/site_files.py _docs [--from _proc]`.

llms.txt holds the skill in `skills/` and names every page with its description, llms-full.txt holds the text of guides
and background, apilist.txt every public definition with its signature and docstring. See https://llmstxt.org for the
form of the first two.
"""

import argparse
import inspect
import re
from importlib import import_module
from pathlib import Path

import yaml
from build_docs import front, load, navigation
from nbconvert import MarkdownExporter
from reference_docs import ADDRESS, public_members, signature_text

from sql_env.plugins import MissingExtraError

ROOT = Path(__file__).resolve().parent.parent


def page_of(notebook: Path, folder: Path) -> str:
    "The address of a notebook's page in Markdown."
    relative = notebook.relative_to(folder)
    name = front(notebook).get("output-file", f"{relative.stem}.html")
    return f"{ADDRESS}/{relative.with_name(name).as_posix()}.md"


def short_list(proc: Path) -> str:
    "llms.txt: how an agent uses the package, and the pages with their descriptions, by section."
    about = yaml.safe_load((proc / "_quarto.yml").read_text())["website"]
    skill = (ROOT / "skills" / "sql-env" / "SKILL.md").read_text(encoding="utf-8")
    body = re.sub(r"^#+ (.*)$", r"**\1**", skill.partition("\n---\n")[2], flags=re.M)
    lines = [f"# {about['title']}", "", f"> {about['description']}", "", body.strip()]
    for section, notebooks in navigation(proc):
        if section:
            lines += ["", f"## {section}", ""]
        for notebook in notebooks:
            known = front(notebook)
            description = " ".join(str(known.get("description", "")).split())
            lines.append(f"- [{known['title']}]({page_of(notebook, proc)}): {description}")
    return "\n".join(lines) + "\n"


def full_text(proc: Path) -> str:
    "llms-full.txt: home, guides and background as one text, without pictures."
    texts = []
    for section, notebooks in navigation(proc):
        if section not in ("", "Guides", "Background"):
            continue
        for notebook in notebooks:
            body, _ = MarkdownExporter().from_notebook_node(load(notebook))
            body = re.sub(r"!\[[^\]]*\]\([^)]*\)|<img[^>]*>", "", body)
            body = re.sub(r"<iframe.*?</iframe>", "", body, flags=re.S)
            texts.append(re.sub(r"\n{3,}", "\n\n", body).strip())
    return "\n\n---\n\n".join(texts) + "\n"


def definitions(module: str):
    "Public definitions of a module, each as signature and docstring."
    try:
        found = import_module(module)
    except MissingExtraError:  # there is nothing to ask for signatures
        return
    for name in getattr(found, "__all__", ()):
        value = getattr(found, name, None)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        yield f"{signature_text(name, value)}\n    {inspect.getdoc(value) or ''}"
        for member, kind in public_members(value) if inspect.isclass(value) else ():
            doc = (inspect.getdoc(kind) or "").partition("\n")[0]
            yield f"    {name}.{member}: {doc}"


def api_list(package: Path) -> str:
    "apilist.txt: every public definition, by module."
    parts = []
    for path in package.rglob("*.py"):
        if made_from := re.search(r"nbs/(\S+)\.ipynb", path.read_text(encoding="utf-8")[:2000]):
            parts.append((made_from[1], ".".join(path.relative_to(package.parent).with_suffix("").parts)))
    found = [(name, list(definitions(name))) for _, name in sorted(parts)]
    texts = ["\n".join([f"# {name}", "", *entries]) for name, entries in found if entries]
    return "\n\n".join(texts) + "\n"


def write_files(out: Path, proc: Path) -> None:
    "Write the three files beside the pages."
    out.mkdir(parents=True, exist_ok=True)
    (out / "llms.txt").write_text(short_list(proc), encoding="utf-8")
    (out / "llms-full.txt").write_text(full_text(proc), encoding="utf-8")
    (out / "apilist.txt").write_text(api_list(proc.parent / "sql_env"), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--from", dest="proc", type=Path, default=Path("_proc"))
    args = parser.parse_args()
    write_files(args.out, args.proc)
