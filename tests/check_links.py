"""Find what is broken in a built site: `python tests/check_links.py _docs/check`.

Internal links and their anchors (doclinks are such), pictures and their alternative texts, the form of external
addresses, the order of headings, and pages without navigation or that nothing leads to.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

NO_ALT = "No description has been provided"  # what nbconvert writes
CODE = ("pre", "code", "script", "style", "svg")
SIDEBAR = "quarto-sidebar"  # its id on the real site


class Page(HTMLParser):
    "Ids, links and pictures of a page."

    def __init__(self, text: str):
        super().__init__()
        self.ids, self.is_text, self.n_code = {"", "top"}, False, 0
        self.links, self.pictures, self.without_alt, self.unread = ([] for _ in range(4))
        self.levels: list[int] = []  # of the headings of the text
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        at = dict(attrs)
        if at.get("id"):
            self.ids.add(at["id"])
        if tag == "main":
            self.is_text = True
        self.n_code += tag in CODE
        if self.is_text and re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag == "a" and at.get("href") is not None:
            self.links.append(at["href"])
        if tag in ("img", "iframe", "source") and at.get("src"):
            self.pictures.append(at["src"])
        if tag == "img" and at.get("alt", NO_ALT).startswith(NO_ALT):
            self.without_alt.append(at.get("src", "")[:60])

    def handle_endtag(self, tag):
        self.n_code -= tag in CODE
        if tag == "main":
            self.is_text = False

    def handle_data(self, data):
        if self.is_text and not self.n_code and re.search(r"\]\(\S*(?:/|$)|^:::|\*\*\w", data, re.M):
            self.unread.append(" ".join(data.split())[:60])

    @property
    def jumps(self) -> list[str]:
        "Headings that leave a level out."
        pairs = zip(self.levels, self.levels[1:])
        return [f"h{before} to h{after}" for before, after in pairs if after > before + 1]


def is_external(url: str) -> bool:
    return bool(re.match(r"[a-z][a-z0-9+.-]*:|//", url, re.I))


def bad_address(url: str) -> bool:
    "Whether an external address can't be one."
    parts = urlsplit(url)
    if parts.scheme in ("mailto", "data"):
        return parts.scheme == "mailto" and "@" not in parts.path
    has_host = "." in parts.netloc or parts.hostname == "localhost"
    return parts.scheme not in ("http", "https") or not has_host or bool(re.search(r"[\s<>\"{}]", url))


def check(site: Path, home: str = "index.html") -> list[str]:
    "What is wrong, one line each."
    site = site.resolve()
    if not (site / home).is_file():
        return [f"no page {site / home}: build the site first"]
    pages = {p: Page(p.read_text(encoding="utf-8")) for p in sorted(site.rglob("*.html"))}
    has_sidebars = any(SIDEBAR in page.ids for page in pages.values())
    faults, reached, todo = [], set(), [site / home]
    for path, page in pages.items():
        here = path.relative_to(site)
        external = [url for url in (*page.links, *page.pictures) if is_external(url)]
        faults += [f"{here}: no address: {url[:60]}" for url in external if bad_address(url)]
        for url in page.links:
            if is_external(url):
                continue
            target, _, anchor = url.partition("#")
            goal = (path.parent / unquote(target)).resolve() if target else path
            if not goal.is_relative_to(site) or not goal.is_file():
                faults.append(f"{here}: no page {url}")
            elif goal in pages and unquote(anchor) not in pages[goal].ids:
                faults.append(f"{here}: no anchor {url}")
        pictures = [url for url in page.pictures if not is_external(url)]
        faults += [f"{here}: no picture {u}" for u in pictures if not (path.parent / unquote(u)).is_file()]
        faults += [f"{here}: no alternative text: {url}" for url in page.without_alt]
        faults += [f"{here}: Markdown that stayed text: {text}" for text in page.unread]
        faults += [f"{here}: a level of headings left out: {jump}" for jump in page.jumps]
        if has_sidebars and SIDEBAR not in page.ids:
            faults.append(f"{here}: no sidebar")
    while todo:
        path = todo.pop()
        if path in pages and path not in reached:
            reached.add(path)
            targets = [u.partition("#")[0] for u in pages[path].links if not is_external(u)]
            todo += [(path.parent / unquote(target)).resolve() for target in targets if target]
    return faults + [f"{p.relative_to(site)}: nothing leads to this page" for p in pages if p not in reached]


if __name__ == "__main__":
    found = check(Path(sys.argv[1]))
    print("\n".join(found) or "all links lead somewhere")
    raise SystemExit(bool(found))
