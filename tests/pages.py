"Pages: what their cell for Colab installs, and a run of one that is left out where its extra isn't installed."

import re
from pathlib import Path

from execnb.shell import CaptureShell
from fastcore.nbio import read_nb


def asked_extras(path: Path, otherwise: str | None = None) -> str | None:
    "The extras that a page's cell for Colab installs; `otherwise` without such a cell."
    found = re.search(r"pip install -Uqq \S*sql_env(?:\[([\w,]+)\])? @", path.read_text(encoding="utf-8"))
    return (found[1] or "") if found else otherwise


def printed(cell) -> list[str]:
    found = [o.get("text") or o["data"]["text/plain"] for o in cell.outputs]
    return ["".join(text) for text in found]


def run_page(path: Path | str, is_compared: bool = True) -> None:
    "Run the code cells of a notebook; they print what is stored."
    capture = CaptureShell()
    for cell in read_nb(path).cells:
        if cell.cell_type != "code" or "eval: false" in cell.source or "default_exp" in cell.source:
            continue
        stored = printed(cell)
        capture.cell(cell)
        assert not capture.exc, capture.exc
        assert printed(cell) == stored or not is_compared, cell.source
