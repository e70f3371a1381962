"""Look at the pages of a built site in Chromium: `python tests/check_pages.py _docs [PAGE ...] [--measures FILE]`.

On a phone and on a screen, light and dark: nothing scrolls sideways, contrast is that of WCAG AA, headings come in
order, no page is too long or too large. With --pictures FOLDER each view is kept as a picture of its first screens.
"""

import argparse
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS, SCHEMES = (1280, 390), ("light", "dark")
RULES = ["color-contrast", "heading-order", "image-alt", "link-name", "label", "frame-title"]
AXE = dict(runOnly=RULES, resultTypes=["violations"], iframes=False, preload=False)
MAX_HEIGHT = 18_000  # px on a screen of 1280 px
MAX_BYTES = 1_500_000

# What is wider than the window, by the innermost elements that stand out
WIDE = """() => [...document.querySelectorAll('main *')].filter(e => {
  const right = e.getBoundingClientRect().right + scrollX;
  if (right <= innerWidth + 1) return false;
  for (let p = e.parentElement; p; p = p.parentElement)
    if (/auto|scroll|hidden/.test(getComputedStyle(p).overflowX) && p !== document.body) return false;
  return true;
}).slice(0, 3).map(e => e.tagName.toLowerCase() + ' ' + e.textContent.trim().slice(0, 40))"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    "A folder on a port of this machine."
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def measure(page: Page) -> dict:
    "What a view shows: height and width in px, and what stands out."
    height = page.evaluate("document.documentElement.scrollHeight")
    page.evaluate("() => document.querySelectorAll('details').forEach(d => d.open = true)")
    over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    wide = page.evaluate(WIDE) if over > 0 else []
    page.evaluate("() => document.querySelectorAll('details').forEach(d => d.open = false)")
    return dict(height=height, over=over, wide=wide)


def rules_broken(page: Page) -> dict[str, list[str]]:
    "What axe has against a page with everything unfolded, by rule."
    page.evaluate("() => document.querySelectorAll('details').forEach(d => d.open = true)")
    said = Axe().run(page, options=AXE).response["violations"]
    page.evaluate("() => document.querySelectorAll('details').forEach(d => d.open = false)")
    return {v["id"]: [node_text(n) for n in v["nodes"]] for v in said}


def node_text(node: dict) -> str:
    "An element that axe names, and what it says of it."
    why = node["any"][0]["message"][:140] if node["any"] else ""
    return f"{node['html'][:100]} {why}".strip()


def views(page: Page, url: str, picture: str = "") -> dict[str, dict]:
    "Every view of a page; contrast is looked at where the most is seen."
    found = {}
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(dict(width=WIDTHS[0], height=900))
        page.goto(url)
        for width in WIDTHS:
            page.set_viewport_size(dict(width=width, height=900))
            if picture:
                clip = dict(x=0, y=0, width=width, height=2500)
                page.screenshot(path=f"{picture}_{width}_{scheme}.png", full_page=True, clip=clip)
            found[f"{width} {scheme}"] = measure(page)
            if width == WIDTHS[0]:
                found[f"{width} {scheme}"]["axe"] = rules_broken(page)
    return found


def faults(name: str, size: int, views: dict[str, dict]) -> Iterator[str]:
    "What is wrong with a page, one line each."
    if size > MAX_BYTES:
        yield f"{name}: {size:,} bytes"
    for where, found in views.items():
        if where.startswith("1280") and found["height"] > MAX_HEIGHT:
            yield f"{name}, {where}: {found['height']:,} px high"
        if found["over"] > 0:
            yield f"{name}, {where}: {found['over']} px wider than the window: {found['wide']}"
        for rule, nodes in found.get("axe", {}).items():
            yield f"{name}, {where}: {rule}, {len(nodes)} times: {nodes[0]}"


def look(site: Path, names=(), pictures: Path | None = None) -> dict[str, dict]:
    "Every page of a site, or the named ones: size in bytes and what each view shows."
    names = names or sorted(str(p.relative_to(site)) for p in site.rglob("*.html"))
    out = {}
    with served(site) as url, sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.route(re.compile("^https?://(?!127\\.0\\.0\\.1)"), lambda r: r.abort())
        for name in names:
            picture = str(pictures / name.replace("/", "_")[:-5]) if pictures else ""
            out[name] = dict(bytes=(site / name).stat().st_size, views=views(page, f"{url}/{name}", picture))
        browser.close()
    return out


def check(site: Path, names=()) -> list[str]:
    "What is wrong, one line each."
    return [fault for name, page in look(site, names).items() for fault in faults(name, page["bytes"], page["views"])]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("names", nargs="*", metavar="PAGE")
    parser.add_argument("--measures", type=Path, help="keep the measures in this JSON file")
    parser.add_argument("--pictures", type=Path, help="keep pictures in this folder")
    args = parser.parse_args()
    seen = look(args.site, args.names, pictures=args.pictures)
    if args.measures:
        args.measures.write_text(json.dumps(seen, indent=1), encoding="utf-8")
    found = [f for name, page in seen.items() for f in faults(name, page["bytes"], page["views"])]
    print("\n".join(found) or f"{len(seen)} pages are fine")
    raise SystemExit(bool(found))
