"""Put the figures of benchmarks/core.json into the table of nbs/index.ipynb: `python benchmarks/fill_readme.py`."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def rows() -> dict[str, str]:
    "The right-hand cells of the table, by the start of the left-hand cell."
    f = json.loads((ROOT / "benchmarks" / "core.json").read_text())
    best = {name: max(v.values()) for name, v in f["hack_floor"].items()}
    oracle, steps, ex = f["oracle"], f["steps_per_second"], f["executors"]
    return {
        "guarded query": f"{ex['guarded_to_raw']} x the time",
        "against a new connection": f"{ex['fresh_connection_to_guarded']:.0f} x faster",
        "episode steps per second": f"{steps['oracle']:,}",
        "the same, random": f"{steps['random']:,}",
        "a further episode": f"{f['kB_per_further_episode']} kB",
        "oracle, from": ", ".join(f"{v:.0%}" for v in oracle.values()),
        "best hack": ", ".join(f"{v:.1%}" for v in best.values()),
    }


def fill(text: str) -> str:
    "`text` with the cells of the table replaced."
    for start, cell in rows().items():
        text = re.sub(rf"(\| {re.escape(start)}[^|]*\|)[^|\n]*\|", rf"\g<1> {cell} |", text)
    return text


if __name__ == "__main__":
    path = ROOT / "nbs" / "index.ipynb"
    nb = json.loads(path.read_text())
    for cell in nb["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = fill("".join(cell["source"])).splitlines(keepends=True)
    path.write_text(json.dumps(nb, indent=1, ensure_ascii=False) + "\n")
