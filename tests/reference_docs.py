"""How the reference shows a definition: short signatures, an entry for every public method, source folded.

nbdev finds the two by `renderer` and `doc_procs` in pyproject.toml; this folder must be on the path:
`PYTHONPATH=tests nbdev-docs`.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Annotated, Any, get_origin

from fastcore.docments import docments
from nbdev import processors
from nbdev.processors import Processor
from nbdev.showdoc import BasicMarkdownRenderer

from sql_env.plugins import MissingExtraError

# nbdev reads its settings anew for each cell, and Python 3.11 the whole module for the source of a class: a third each
processors.get_config = cache(processors.get_config)
inspect.getsource = cache(inspect.getsource)
sys.modules["fastcore.docments"].getsource = inspect.getsource
MAX_DEFAULT = 40  # characters of a default value in a signature
_module_prefix = re.compile(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")


def annotation_text(annotation: Any) -> str:
    "An annotation without the modules of its names, and without what a command line adds to it."
    if get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _module_prefix.sub("", text)


def default_text(value: Any) -> str:
    "A default value; a long one by the name of its type."
    if inspect.isfunction(value) or inspect.isclass(value):
        return value.__name__
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    if len(text) <= MAX_DEFAULT:
        return text
    return f"{type(value).__name__}()" if is_dataclass(value) else f"{type(value).__name__}(...)"


def parameter_text(p: inspect.Parameter) -> str:
    "A parameter as Python writes it."
    stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    text = stars + p.name
    if p.annotation is not p.empty:
        text += f": {annotation_text(p.annotation)}"
    if p.default is not p.empty:
        text += (" = " if ":" in text else "=") + default_text(p.default)
    return text


def help_texts(function: Callable) -> dict[str, str]:
    "What the command line says of the parameters of a command, by name."
    kinds = {p.name: p.annotation for p in inspect.signature(function).parameters.values()}
    options = {n: a.__metadata__[0] for n, a in kinds.items() if get_origin(a) is Annotated}
    return {n: o.help for n, o in options.items() if getattr(o, "help", None)}


def comments_of(function: Callable) -> dict[str, str]:
    "The comments beside the parameters of a function or class, by name."
    try:
        written = docments(function, returns=False)
        found = help_texts(function) | {name: text for name, text in written.items() if text}
    except Exception:
        return {}
    return {name: " ".join(text.split()) for name, text in found.items()}


def signature_text(name: str, function: Callable) -> str:
    "The signature of a function or class with its comments, on one line if it is short."
    try:
        s = inspect.signature(function)
    except (TypeError, ValueError):
        return name
    parameters = {p.name: parameter_text(p) for p in s.parameters.values() if p.name != "self"}
    comments = comments_of(function)
    silent = s.return_annotation is s.empty or inspect.isclass(function)
    result = "" if silent else f" -> {annotation_text(s.return_annotation)}"
    line = f"{name}({', '.join(parameters.values())}){result}"
    if len(line) <= 80 and not comments:
        return line
    lines = [f"    {text},  # {comments.get(n, '')}" for n, text in parameters.items()]
    body = "\n".join(line.removesuffix("  # ") for line in lines)
    return f"{name}(\n{body}\n){result}"


def public_members(cls: type) -> Iterator[tuple[str, Any]]:
    "Public methods and properties of a class and of its bases in this package."
    seen = set[str]()
    for base in cls.__mro__:
        if not base.__module__.startswith(("sql_env", "__main__")):
            continue
        for name, member in vars(base).items():
            kinds = (property, cached_property, classmethod, staticmethod)
            if name[0] == "_" or name in seen or not (isinstance(member, kinds) or inspect.isfunction(member)):
                continue
            seen.add(name)
            yield name, member


def member_function(member: Any) -> Callable:
    "The function behind a method or property."
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    return getattr(member, "__func__", member)


def member_entry(cls: type, name: str, member: Any, level: int) -> str:
    "Heading, signature and docstring of a public method or property."
    function = member_function(member)
    if isinstance(member, property | cached_property):
        result = inspect.signature(function).return_annotation
        shown = name if result is inspect.Signature.empty else f"{name}: {annotation_text(result)}"
    else:
        shown = signature_text(name, function)
    doc = inspect.getdoc(function) or ""
    if not function.__doc__:  # it is that of a base, perhaps of another package
        doc = doc.partition("\n\n")[0]
    heading = f"{'#' * level} {cls.__name__}.{name}"
    return f"{heading}\n\n```python\n{shown}\n```\n\n" + (f"*{doc}*\n\n" if doc else "")


class ReferenceRenderer(BasicMarkdownRenderer):
    "nbdev's entry of a definition with a short signature and, for a class, its public members."

    def _repr_markdown_(self) -> str:
        name = self.nm
        short = f"```python\n{signature_text(name, self.sym)}\n```"
        text = re.sub(r"```python\n.*?\n```", lambda _: short, super()._repr_markdown_(), count=1, flags=re.S)
        text = text.replace("#LNone", f"#L{inspect.getsourcelines(self.sym)[1]}")
        if not inspect.isclass(self.sym):
            return text
        level = self.title_level + 1
        entries = [member_entry(self.sym, n, m, level) for n, m in public_members(self.sym)]
        return text + "\n\n" + "".join(entries)


def entry_from_source(name: str, source: str, level: int) -> str:
    "The entry of a definition whose module can't be imported here, because an extra is missing."
    nodes = [n for n in ast.walk(ast.parse(source)) if getattr(n, "name", "") == name]
    shown, doc = name, ""
    for node in nodes[:1]:
        doc = ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef):
            shown = f"class {name}({', '.join(map(ast.unparse, node.bases))})"
        else:
            result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            shown = f"{name}({ast.unparse(node.args)}){result}"
    return f"---\n\n{'#' * level} {name}\n\n```python\n{shown}\n```\n\n*{doc}*\n"


ADDRESS = "https://hjerpe.github.io/sql_env"
# Private names have no entry; the other words name splits, extras, commands and sources more often than functions
NO_LINKS = re.compile(r"\[(`(?:_\w+|train|serve|doctor|worlds)`)\]\(/[^)]*\)")
# nbdev makes a link of a name that is one already
LINKED_TWICE = re.compile(r"\[(\[`[^`]+`\]\()[^)]*\)\]\(([^)]*\))")


def local_links(text: str) -> str:
    "Markdown whose links to this site lead to the pages beside it, and only to what is meant."
    text = LINKED_TWICE.sub(r"\1\2", text)
    return NO_LINKS.sub(r"\1", text.replace(f"]({ADDRESS}/", "](/"))


def import_type_names(module: Any) -> None:
    "Import what a module imports for its types only, so that its annotations can be read."
    for part in ast.parse(inspect.getsource(module)).body:
        if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(part.body, []), module.__file__, "exec"), vars(module))


class RenderDefinitions(Processor):
    "Entries of definitions are read off the installed package: no notebook runs for the documentation."

    def __init__(self, nb) -> None:
        super().__init__(nb)
        modules = [c.directives_["default_exp"] for c in nb.cells if "default_exp" in c.directives_]
        self.module, self.level = None, 2  # an entry before the first section is one itself
        with suppress(MissingExtraError):
            self.module = import_module(f"sql_env.{modules[0]}") if modules else None
        if self.module is not None:
            import_type_names(self.module)

    def entry(self, name: str) -> str:
        "The entry of a definition of this notebook."
        if self.module is not None:
            return ReferenceRenderer(getattr(self.module, name), title_level=self.level)._repr_markdown_()
        defining = rf"^(class|(async )?def) {name}\b"
        cells = [c.source for c in self.nb.cells if c.cell_type == "code"]
        found = [text for text in cells if re.search(defining, text, re.M)]
        return entry_from_source(name, "\n".join(found[:1]), self.level)

    def cell(self, cell) -> None:
        if cell.cell_type == "markdown":
            cell.source = local_links(cell.source)
            if re.search(r"^## ", cell.source, re.M):
                self.level = 3
        for output in cell.get("outputs", ()):
            if text := output.get("data", {}).get("text/markdown"):
                output["data"]["text/markdown"] = local_links("".join(text))
        found = re.search(r"^show_doc\((\w+)\)$", cell.source, re.M)
        if not cell.get("has_sd") or not found:
            return
        data = {"text/markdown": self.entry(found[1])}
        cell.outputs = [{"output_type": "display_data", "data": data, "metadata": {}}]


class FoldSource(Processor):
    "Exported source is folded, whatever nbdev's default."

    def cell(self, cell) -> None:
        cell.source = cell.source.replace("#| code-fold: show", "#| code-fold: true")
