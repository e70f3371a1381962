"The documentation: built once without Quarto, then looked through for whatever leads nowhere."

import json
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

import prose
import pytest
from build_docs import navigation
from check_links import check
from check_sources import cell_faults
from check_sources import check as check_sources
from conftest import made_once, notebooks, run
from reference_docs import public_members
from site_files import ADDRESS
from tables import cases

from sql_env.plugins import MissingExtraError
from sql_env.server.settings import settings_table


@pytest.fixture(scope="session")
def site(root, exported, tmp_path_factory) -> Path:
    "The check build of the site, made in a copy of the repository; README is written there too."
    env = {"PYTHONPATH": str(exported), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(exported)}

    def build(_: Path) -> None:
        said = run(sys.executable, "tests/build_docs.py", "--readme", cwd=exported, env=env)
        assert f"{len(notebooks(root))} pages" in said

    made_once(tmp_path_factory, "site", build)
    return exported / "_docs" / "check"


@pytest.mark.slow
def test_readme_is_the_index(root, exported, site):
    here, there = ((folder / "README.md").read_text().split() for folder in (root, exported))
    assert here == there, "run python tests/build_docs.py --readme"
    for link in re.findall(r"\]\(([^)#:\s]+)\)", (root / "README.md").read_text()):
        assert (root / link).exists(), link


def public_classes(root: Path):
    "Public classes of the package with the file of their reference page."
    for path in sorted((root / "nbs").rglob("[0-9]*.ipynb")):
        code = "\n".join("".join(c["source"]) for c in cells(path) if c["cell_type"] == "code")
        module = re.search(r"^#\|\s*default_exp (\S+)", code, re.M)[1]
        try:
            found = import_module(f"sql_env.{module}")
        except MissingExtraError:  # its entries are read off the source, without methods
            continue
        for name in re.findall(r"^class ([A-Z]\w*)", code, re.M):
            if hasattr(found, name):
                yield getattr(found, name), module.replace(".", "/") + ".html"


@pytest.mark.slow
def test_every_public_method_has_an_entry(root, site):
    "The reference has a heading for each public class, method and property, and signatures are short."
    missing, entries = [], 0
    for cls, page in public_classes(root):
        text = (site / page).read_text()
        names = [cls.__name__, *(f"{cls.__name__}.{m}" for m, _ in public_members(cls))]
        missing += [f"{page}: {n}" for n in names if f'id="{n.lower()}"' not in text]
        entries += len(names)
    assert missing == [] and entries > 350
    for page in site.rglob("*.html"):
        signatures = re.findall(r"<pre>.*?</pre>", page.read_text(), re.S)
        assert not [s for s in signatures if "__main__." in s or " object at 0x" in s], page.name


BREAKS = dict(cases("docs_breaks"))


@pytest.mark.slow
def test_everything_leads_somewhere_and_the_check_finds_what_is_broken(site, tmp_path):
    "Nothing in the site; and every kind of fault put into a copy of it, and nothing else."
    assert check(site) == [], "links, anchors, pictures, addresses, and pages that nothing leads to"
    copy = shutil.copytree(site, tmp_path / "site")
    page = copy / "index.html"
    page.write_text(page.read_text().replace("</main>", "".join(html for html, _ in BREAKS.values()) + "</main>"))
    (copy / "lonely.html").write_text('<a href="index.html">home</a>')
    faults = [*(fault for _, fault in BREAKS.values()), "lonely.html: nothing leads to this page"]
    assert sorted(check(copy)) == sorted(faults)


def test_a_site_that_is_not_there_does_not_pass_and_what_is_published_has_the_files_for_programs(tmp_path, root):
    (said,) = check(tmp_path / "nowhere")
    assert "no page" in said and "build the site first" in said
    (said,) = check_sources(tmp_path / "nowhere")
    assert "no notebooks" in said
    workflow = (root / ".github" / "workflows" / "docs.yml").read_text()
    assert workflow.index("nbdev-docs") < workflow.index("tests/site_files.py _docs")
    assert "canonical-url: true" in (root / "_quarto.yml").read_text()


BAD_PAGE = """<html lang="en"><title>x</title><main><h1>x</h1><h3>y</h3>
<p style="color: #aaa">grey</p><div style="width: 800px">wide</div></main></html>"""


@pytest.mark.slow
def test_pages_in_a_browser(site, tmp_path):
    "Three kinds of page are fine on a phone and a screen, light and dark; a bad one is not."
    pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    pytest.importorskip("axe_playwright_python", reason="no axe: pip install axe-playwright-python")
    import check_pages

    if not check_pages.CHROMIUM:
        pytest.skip("no chromium: apt-get install chromium")
    assert check_pages.check(site, ["index.html", "view/explorer.html", "api_index.html"]) == []
    (tmp_path / "bad.html").write_text(BAD_PAGE)
    found = "\n".join(check_pages.check(tmp_path))
    for fault in ("color-contrast, 1 times", "heading-order, 1 times", "px wider than the window"):
        assert fault in found, found


PICTURE = dict(data={"image/png": "iVBOR", "text/plain": "<Figure>"})


def test_what_quarto_would_change_is_found_and_nothing_else():
    "In Markdown that somebody wrote, and in Markdown that a cell printed."
    for text, fault in cases("docs_changed"):
        faults = [fault] if fault else []
        assert list(cell_faults(dict(cell_type="markdown", source=text), "51_episode")) == faults, text
        printed = dict(cell_type="code", source="1", outputs=[dict(data={"text/markdown": text})])
        assert not text.strip() or list(cell_faults(printed, "51_episode")) == faults, text


def test_outputs_are_looked_at_and_sources_are_what_quarto_shows(root):
    drawn = dict(cell_type="code", source="plot()", outputs=[PICTURE])
    assert list(cell_faults(drawn, "x")) == ["a picture without #| fig-alt"]
    boxed = dict(data={"text/html": '<div class="sx"><aside>steps</aside></div>'})
    played = dict(cell_type="code", source="x", outputs=[boxed])
    assert list(cell_faults(played, "x")) == ["an element that Quarto moves to the margin"]
    assert not list(cell_faults(drawn | dict(source='#| fig-alt: "Dots"\nplot()'), "x"))
    shown = dict(data={"text/plain": ["<function __main__.f>"]})
    named = dict(cell_type="code", source="f", outputs=[shown])
    assert list(cell_faults(named, "x")) == ["a name of the notebook's own process: __main__."]
    assert not list(cell_faults(dict(cell_type="markdown", source="`train`"), "training/05_run"))
    assert check_sources(root / "nbs") == []


@pytest.mark.slow
def test_files_for_programs_name_every_page(root, exported, site):
    "llms.txt links each page once, llms-full.txt has no pictures, apilist.txt has the public definitions."
    short = (site / "llms.txt").read_text()
    links = re.findall(r"^- \[.+\]\((https://\S+)\): \S", short, re.M)
    pages = {str(p.relative_to(site)) for p in site.rglob("*.html")}
    assert {x.removeprefix(ADDRESS + "/").removesuffix(".md") for x in links} == pages
    assert len(links) == len(pages) == len(notebooks(root))
    whole = (site / "llms-full.txt").read_text()
    assert "# Evaluate a language model" in whole and "# Words, objects and rules" in whole
    assert not re.search(r"<img|!\[|data:image|srcdoc", whole) and len(whole) < 600_000
    names = (site / "apilist.txt").read_text()
    for name in ("EpisodeEnv(", "evaluate(", "Session.reply: ", "# sql_env.play.reward"):
        assert name in names, name


def test_navigation_is_complete_and_what_pages_install_and_name_is_there(root):
    "Each notebook stands in the sidebar once, and the sidebar names none that is missing."
    named = [p for _, section in navigation(root / "nbs") for p in section]
    assert sorted(named) == notebooks(root), "add the notebook to the sidebar in _quarto.yml and copy that file to nbs/"
    # No index has the package yet, so that every installation names the repository
    for path in notebooks(root):
        text = "\n".join("".join(c["source"]) for c in cells(path))
        for line in re.findall(r"pip install -\S*U\S* (.*sql_env.*)", text):
            assert "@ git+https://github.com/hjerpe/sql_env" in line, f"{path.name}: {line}"
    # A setting that is named on a page and read nowhere would be tried in vain
    folders = [root / name for name in ("sql_env", "tests", "benchmarks")]
    code = [p.read_text() for f in folders for p in f.rglob("*.py") if p.name != Path(__file__).name]
    known = set(re.findall(r"SQL_ENV_[A-Z_]+", " ".join(code)))
    known |= set(re.findall(r"SQL_ENV_[A-Z_]+", settings_table()))
    pages = [p for p in root.glob("*.md") if p.name != "CHANGELOG.md"]  # which names what has left
    for page in [*notebooks(root), *pages]:
        assert set(re.findall(r"SQL_ENV_[A-Z_]+", page.read_text(encoding="utf-8"))) <= known, page.name


def cells(path: Path) -> list[dict]:
    return json.loads(path.read_text())["cells"]


def test_tutorials_can_be_opened(root):
    "Tutorials and posts export nothing; the badge after the title opens this file, the hidden cell installs on Colab."
    for path in (*(root / "nbs" / "tutorials").glob("*.ipynb"), *(root / "nbs" / "blog").glob("*.ipynb")):
        sources = ["".join(c["source"]) for c in cells(path)]
        assert not [s for s in sources if re.search(r"#\|\s*(default_exp|exports?)\b", s)], path.name
        assert sources[0].startswith("# ") and "colab-badge.svg" in sources[1], path.name
        address = "colab.research.google.com/github/hjerpe/sql_env/blob/main/nbs"
        assert f'{address}/{path.parent.name}/{path.name}"' in sources[1]
        assert "#| hide\n#| eval: false\n! [ -e /content ]" in sources[2], path.name


def guides(root: Path) -> list[Path]:
    "Pages for people, in the order of the sidebar."
    text = (root / "nbs" / "_quarto.yml").read_text()
    section = text.partition("section: Guides")[2].partition("- section:")[0]
    return [root / "nbs" / name for name in re.findall(r"- (\S+\.ipynb)", section)]


def test_guides_begin_and_end_with_what_the_reader_holds(root):
    "Minutes for a reader of 200 words a minute, code included, within two; the FAQ is looked up and not read."
    numbers = "none One Two Three Four Five Six Seven Eight Nine Ten".split()
    pages = [p for p in guides(root) if p.stem != "faq"]
    assert len(pages) == 12
    for path in pages:
        badge = "".join(cells(path)[1]["source"])
        said = re.search(r'alt="Open in Colab"></a>\n\n(\w+) minutes.*\. At the end ', badge)
        assert said, path.name
        shown = ["".join(c["source"]) for c in cells(path)]
        words = sum(len(s.split()) for s in shown if not s.startswith("#| hide"))
        assert abs(numbers.index(said[1]) - words / 200) <= 2, (path.name, words / 200)
        assert re.search(r"You hold |What you hold", shown[-1]), path.name
        assert any("! [ -e /content ] && pip" in s for s in shown[:5]), path.name


def opening(path: Path) -> str:
    "What a reader sees of a page before the second paragraph of text: kinds of its first shown cells."
    shown = []
    for c in cells(path):
        s = "".join(c["source"])
        if c["cell_type"] == "code":
            if re.match(r"#\|\s*(hide|default_exp|export\n)", s):
                continue
            shown.append("result" if c.get("outputs") else "code")
        elif c["cell_type"] == "raw":
            continue
        elif s.startswith("#"):
            shown.append("heading")
        elif "colab-badge.svg" in s:
            shown.append("badge")
        elif re.search(r"^\|.*\|\n\|[-|: ]+\|$|^!\[|^```\n|<img|<table", s, re.M):
            shown.append("result")
        else:
            shown.append("text")
    return " ".join(shown[: shown.index("result") + 1] if "result" in shown else shown)


def test_pages_open_with_a_result(root):
    "A picture, a table or an episode comes before any definition and before the text goes on for long."
    early = r"heading (badge )?(text )?(heading )?(text )?(code )?result"
    assert [p.stem for p in notebooks(root) if not re.fullmatch(early, opening(p))] == []


def test_the_prose_is_right(root):
    "Its spelling, and the words of the field; and words that are not ours, or misspelt, are found."
    for text, faults in cases("prose_words", list):
        assert list(prose.word_faults(prose.plain(text), prose.american_forms())) == faults, text
    pieces = [("a page", "All is well.\nIt is seperate."), ("another", "It recieves."), ("c", "")]
    assert prose.misspelt(pieces) == ["a page: seperate ==> separate", "another: recieves ==> receives"]
    pieces = list(prose.passages(root))
    assert len(pieces) > 3000 and {where.split(" ")[0] for where, _ in pieces} >= {"README.md"}
    assert prose.check(pieces) == []
