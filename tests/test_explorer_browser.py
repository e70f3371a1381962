"""The explorer in JupyterLab and Voila, and its static page, in a real browser.

SQL_ENV_SCREENSHOTS names a folder to keep pictures in.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest
from test_explorer import EVIL, QS, hostile, hostile_view, played  # noqa: F401

from sql_env.play import EpisodeEnv, RewardConfig
from sql_env.policies import OraclePolicy, play_episode
from sql_env.view.episode import view_episode
from sql_env.view.page import episode_page_html

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def script(name):
    return (Path(__file__).parent / "data" / f"{name}.js").read_text(encoding="utf-8").partition("\n")[2]


TIMED = script("timed")


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("no chromium: apt-get install chromium")
    with playwright.sync_playwright() as p:
        b = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield b
        b.close()


def open_page(browser, size=(1100, 1000), scheme="light"):
    "A page that reaches nothing but this machine, and what it complained about."
    page, errors = (browser.new_page(viewport=dict(width=size[0], height=size[1]), color_scheme=scheme), [])
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.on("dialog", lambda d: (errors.append(f"dialog {d.message}"), d.dismiss()))
    page.route(re.compile("^https?://(?!127\\.0\\.0\\.1)"), lambda r: r.abort())
    return page, errors


def picture(page, name, **options):
    if folder := os.environ.get("SQL_ENV_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", **options)


class Started:
    "A Jupyter server or Voila on a port of its own, in an empty home."

    def __init__(self, home, command, ready):
        port = socket.create_server(("127.0.0.1", 0)).getsockname()[1]
        self.url, self.ready = f"http://127.0.0.1:{port}", ready
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = os.environ | dict(HOME=str(home), PATH=path, PYTHONPATH=str(Path(__file__).resolve().parent.parent))
        env |= dict(JUPYTERLAB_SETTINGS_DIR=str(home / "settings"), JUPYTER_PLATFORM_DIRS="1")
        self.log = open(home / "server.log", "w")  # noqa: SIM115 (the process writes to it)
        command = [sys.executable, "-m", *command, f"--port={port}"]
        self.process = subprocess.Popen(command, cwd=home, env=env, stdout=self.log, stderr=self.log)

    def __enter__(self):
        end = time.monotonic() + 300
        while time.monotonic() < end and self.process.poll() is None:
            try:
                return urllib.request.urlopen(self.url + self.ready, timeout=10) and self
            except urllib.error.HTTPError:
                return self  # it answers
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"it did not start: {Path(self.log.name).read_text()[-2000:]}")

    def __exit__(self, *args):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def write_notebook(path, *cells):
    nb = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    nb.metadata["kernelspec"] = dict(name="python3", display_name="python3", language="python")
    nbformat.write(nb, path)


IMPORTED = "from sql_env.view.explorer import EpisodeExplorer\nimport ipywidgets"
SHOW = "{0} = EpisodeExplorer(question_id='vet_clinic-12')\n{0}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    pytest.importorskip("jupyterlab", reason="no jupyterlab: pip install jupyterlab voila")
    home = tmp_path_factory.mktemp("lab")
    write_notebook(home / "a.ipynb", IMPORTED, SHOW.format("ex"))
    quiet = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    options = ["--no-browser", "--ip=127.0.0.1", "--allow-root", "--IdentityProvider.token=", "--expose-app-in-browser"]
    with Started(home, ["jupyterlab", *options], "/api/status") as s:
        yield s


NOTEBOOK = "window.jupyterapp?.shell.currentWidget"


def in_lab(page, statement):
    "Do something to the open notebook; does not wait for it."
    page.evaluate(f"() => {{ const notebook = {NOTEBOOK}; {statement} }}")


def is_idle(page):
    page.wait_for_function(f"{NOTEBOOK}.sessionContext.kernelDisplayStatus === 'idle'", timeout=120000)


RUN_CELL = "jupyterapp.commands.execute('notebook:run-cell')"


def click(page, text, sign, nth=0):
    "Click the visible button and wait for the sign; milliseconds from the click to the painted view."
    same = f"b => b.offsetParent && b.textContent.trim() === {text!r}"
    return page.evaluate(TIMED, [f"[...document.querySelectorAll('button')].filter({same})[{nth}].click()", sign])


def said(times):
    return ", ".join(f"{t:.0f}" for t in times) + " ms"


def open_lab(browser, lab):
    "The notebook, once its kernel has answered: before that, run-all may hang."
    page, errors = open_page(browser, (1100, 1700))
    page.goto(lab.url + "/lab/tree/a.ipynb")
    status = f"{NOTEBOOK}?.sessionContext?.session?.kernel?.connectionStatus"
    page.wait_for_function(f"{status} === 'connected'", timeout=120000)
    page.evaluate(f"() => {NOTEBOOK}.sessionContext.session.kernel.requestKernelInfo().then(() => 1)")
    is_idle(page)
    in_lab(page, f"notebook.content.activeCellIndex = 0; {RUN_CELL};")
    page.wait_for_function(f"{NOTEBOOK}.content.widgets[0].model.executionCount > 0")
    is_idle(page)
    in_lab(page, "jupyterapp.commands.execute('application:toggle-left-area');")
    return page, errors


@pytest.mark.full
@pytest.mark.slow
def test_the_keyboard_alone(browser, lab):
    "A whole episode in JupyterLab, whose own Ctrl+Enter runs the cell, without a mouse."
    page, errors = open_lab(browser, lab)
    in_lab(page, f"notebook.content.activeCellIndex = 1; {RUN_CELL};")
    page.wait_for_selector(".sx-takes textarea")
    press, keys = page.keyboard.press, page.keyboard
    query = page.locator(".sx-takes-QUERY textarea")

    def left(n):
        page.wait_for_selector(f".sx-status >> text={n} of 15 steps left")

    def enter(button):
        page.locator("button:visible", has_text=button).first.focus()
        press("Enter")

    def write(text, key="Control+Enter"):
        press("Control+a")
        keys.type(text)
        press(key)

    count = page.evaluate(f"{NOTEBOOK}.content.widgets[1].model.executionCount")
    for _ in range(2):  # the second one is free
        enter("animal")
    left(14)
    query.focus()
    for text, key in (("SELECT nme FROM animal", "Control+Enter"), ("SELECT 1", "Shift+Enter")):
        write(text, key)
        page.wait_for_function("t => document.querySelector('[data-past]').dataset.past.includes(t)", arg=text)
    left(12)
    keys.type("23")  # a draft
    past = ["SELECT 1", "SELECT nme FROM animal", "SELECT nme FROM animal", "SELECT 1", "SELECT 123"]
    for i, text in enumerate(past):
        press("ArrowUp" if i < 3 else "ArrowDown")
        assert query.input_value() == text
    press("Control+Enter")
    left(11)
    picture(page, "lab_keys")
    press("Alt+z")
    left(12)
    page.locator("[data-go]:visible").last.focus()
    press("ArrowUp")
    left(13)
    page.wait_for_function("document.activeElement.dataset.go === '2'")
    press("Home")
    left(15)
    page.locator("[data-go]:visible").last.focus()
    press("End")
    left(12)
    query.focus()
    write("SELECT * FROM visit")
    page.wait_for_selector("text=20 shown to an agent")
    picture(page, "lab_more_rows")
    page.locator(".sx-takes-ANSWER textarea").focus()
    write("CN | 77")
    page.wait_for_selector(".sx-wrong:visible")
    enter("How would gold have gone?")
    page.wait_for_selector(".sx-about >> text=played by gold")
    assert page.locator(".sx-status:visible").first.inner_text().startswith("14 of 15")
    picture(page, "lab_gold")
    assert page.evaluate(f"{NOTEBOOK}.content.widgets[1].model.executionCount") == count
    assert not errors


@pytest.mark.full
@pytest.mark.slow
def test_jupyterlab(browser, lab, tell):
    page, errors = open_lab(browser, lab)
    first = []
    for _ in range(3):  # the last one stays
        clear = "jupyterapp.commands.execute('notebook:clear-cell-output')"
        in_lab(page, f"notebook.content.activeCellIndex = 1; {clear};")
        page.wait_for_function("!document.querySelector('.sx-schema')")
        first.append(page.evaluate(TIMED, [RUN_CELL, [".sx-schema", "code_list"]]))
    picture(page, "lab_start")
    steps = [click(page, "animal", [".sx-verb", "DESCRIBE"]), click(page, "animal", [".sx-verb", "SAMPLE"], 1)]
    box = page.locator("textarea:visible").nth(0)
    for sql, sign, name in (
        ("SELECT species FROM animal", [".sx-bare .sx-error", "unknown column"], "lab_error"),
        ("SELECT type, count(*) FROM animal GROUP BY type", [".sx-scroll td", "77"], "lab_middle"),
    ):
        box.fill(sql)
        box.press("Tab")
        steps.append(click(page, "Run query", sign))
        picture(page, name)
    steps.append(click(page, "Answer with last result", [".sx-wrong", "not in gold"]))
    picture(page, "lab_wrong")
    page.locator("button:visible:disabled", has_text="Run query").wait_for()
    assert "code_list" in page.locator(".sx-part:visible", has_text="gold query").inner_text()
    assert not page.locator(".sx-bare .sx-error").count()
    page.get_by_role("tab", name="Watch").click()
    watch_buttons = page.locator("button:visible", has_text=re.compile("^Watch$")).count()
    click(page, "Watch", [".sx-about", "played by greedy"], 1 if watch_buttons > 1 else 0)
    turns = [click(page, "Next", [".sx-status", f"{15 - i} of 15 steps left"]) for i in (2, 3, 4)]
    picture(page, "lab_watch")
    page.get_by_role("tab", name="Compare").click()
    click(page, "Compare", [".sx-about", "played by oracle"])
    picture(page, "lab_compare")
    in_lab(page, "jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'});")
    page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    background = "getComputedStyle(document.querySelector('.sx')).backgroundColor"
    page.wait_for_function(f"{background} !== 'rgb(255, 255, 255)'")
    picture(page, "lab_compare_dark")
    page.get_by_role("tab", name="Play", exact=True).click()
    picture(page, "lab_wrong_dark")
    tell(f"JupyterLab: first view {said(first)}; steps {said(steps)}; slider {said(turns)}")
    assert not errors


@pytest.fixture(scope="module")
def voila(tmp_path_factory):
    pytest.importorskip("voila", reason="no voila: pip install jupyterlab voila")
    home = tmp_path_factory.mktemp("voila")
    write_notebook(home / "b.ipynb", IMPORTED, SHOW.format("one"), SHOW.format("two"))
    with Started(home, ["voila", "b.ipynb", "--no-browser", "--Voila.ip=127.0.0.1"], "/no-such-page") as s:
        yield s


@pytest.mark.full
@pytest.mark.slow
def test_voila(browser, voila):
    "Two explorers on one page do not meet, and it fits the width of Colab."
    page, errors = open_page(browser, (800, 1500))
    page.goto(voila.url)
    page.wait_for_function("document.querySelectorAll('.sx-schema').length === 2", timeout=120000)
    click(page, "owner", [".sx-verb", "DESCRIBE"])
    click(page, "code_list", [".sx-verb", "SAMPLE"], 1)
    page.get_by_role("tab", name="Watch").nth(1).click()
    page.locator("button:visible", has_text=re.compile("^Watch$")).click()
    page.wait_for_selector(".sx-about:visible >> text=played by greedy")
    page.locator("button:visible", has_text=re.compile("^Next$")).nth(1).click()
    shown = "[...document.querySelectorAll('.sx-status')].filter(e => e.offsetParent)"
    after_two = "e => e.textContent.includes('13 of 15 steps left')"
    page.wait_for_function(f"{shown}.filter({after_two}).length === 2")
    assert page.locator(".sx-status:visible").all_inner_texts()[0].startswith("13 of 15 steps left")
    picture(page, "voila_800")
    for box in page.locator(".sx:visible").all():
        inside = box.bounding_box()
        assert inside["x"] >= 0 and inside["x"] + inside["width"] <= 800
    assert page.evaluate("document.documentElement.scrollWidth") <= 800 and not errors


@pytest.fixture(scope="module")
def views():
    oracle, env = OraclePolicy(QS), EpisodeEnv(QS, reward=RewardConfig.shaped())
    play_episode(env, oracle, env.reset(question_id="vet_clinic-12"))
    return view_episode(played(), "hasty"), view_episode(env.episode, "oracle")


def offline(browser, tmp_path, views, size=(1000, 900), scheme="light", **options):
    "A page of views opened without any network, and everything it asked for."
    path = tmp_path / "page.html"
    path.write_text(episode_page_html(*views), encoding="utf-8")
    viewport = dict(width=size[0], height=size[1])
    context = browser.new_context(offline=True, viewport=viewport, color_scheme=scheme, **options)
    page, asked = context.new_page(), []
    page.on("request", lambda r: asked.append(r.url))
    page.on("pageerror", lambda e: asked.append(str(e)))
    page.on("console", lambda m: asked.append(m.text))
    page.on("dialog", lambda d: (asked.append(f"dialog {d.message}"), d.dismiss()))
    page.goto(path.as_uri())
    return page, asked


def test_the_page_plays_offline(browser, views, tmp_path, tell):
    page, asked = offline(browser, tmp_path, views[:1])
    position, step = page.locator(".sx-player output"), page.locator(".sx-step:visible")
    assert position.inner_text() == "step 0 of 5" and "Nothing is known" in step.inner_text()
    assert page.locator(".sx-table.sx-on").count() == 0
    press = "document.querySelector('[data-go=next]').click()"
    times = [page.evaluate(TIMED, [press, [".sx-player output", f"step {i} of 5"]]) for i in (1, 2, 3)]
    assert "unknown column" in step.inner_text() and page.locator(".sx-table.sx-on").count() == 1
    picture(page, "page_step3")
    for key, at in (("ArrowRight", 4), ("ArrowLeft", 3), ("End", 5), ("Home", 0), ("ArrowLeft", 0)):
        page.keyboard.press(key)
        assert position.inner_text() == f"step {at} of 5"
    page.locator(".sx-player input").fill("4")
    assert "77" in step.inner_text() and page.locator("[aria-current=step]").inner_text().startswith("4")
    page.locator(".sx-steps button").nth(1).click()
    assert position.inner_text() == "step 2 of 5"
    page.keyboard.press("End")
    assert "Row 1, CN | 77, is not in gold" in step.inner_text() and page.locator(".sx-step").count() == 6
    assert step.count() == 1
    page.locator("[data-go=play]").click()
    assert page.locator("[data-go=play]").inner_text() == "Pause" and position.inner_text() == "step 0 of 5"
    page.locator(".sx-player output", has_text="step 1 of 5").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.locator("[data-go=play]").click()
    assert page.locator("[data-go=play]").inner_text() == "Play"
    tell(f"static page: a step {said(times)}")
    assert asked == [(tmp_path / "page.html").as_uri()]


@pytest.mark.slow
def test_the_page_in_the_dark_on_a_phone_and_without_scripts(browser, views, tmp_path):
    def ended(name, *options):
        page, _ = offline(browser, tmp_path, views, *options)
        page.keyboard.press("End")
        picture(page, name, full_page=True)
        return page

    dark, light = ended("page_pair_dark", (1400, 1000), "dark"), ended("page_pair_light", (1400, 1000))
    assert dark.locator(".sx-wrong, .sx-right").all_inner_texts()[0].startswith("Wrong")
    assert dark.locator(".sx-right:visible").count() == 1
    colours = [p.evaluate("getComputedStyle(document.querySelector('article')).backgroundColor") for p in (dark, light)]
    assert colours[0] != colours[1]
    assert ended("page_phone", (390, 844)).evaluate("document.documentElement.scrollWidth") <= 390
    plain, _ = offline(browser, tmp_path, views, java_script_enabled=False)
    assert plain.locator(".sx-step:visible").count() == 6 + 5 and not plain.locator(".sx-controls:visible").count()


PARTS = "h2,h3,.sx-about span,.sx-status span,.sx-note,td,th,.sx-sql,.sx-error,.sx-error b,.sx-wrong,.sx-wrong b"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(browser, views, tmp_path, scheme):
    page, _ = offline(browser, tmp_path, views[:1], scheme=scheme)
    for step in ("3", "5"):
        page.goto(f"{(tmp_path / 'page.html').as_uri()}#{step}")
        page.reload()
        for selector in [*PARTS.split(","), ".sx-pay span", ".sx-verb", ".sx-now *", "button"]:
            contrast = page.evaluate(script("lowest_contrast"), selector)
            assert contrast >= 4.5, (selector, contrast)


@pytest.mark.slow
def test_hostile_pages_are_tame(browser, hostile, tmp_path):  # noqa: F811
    page, asked = offline(browser, tmp_path, [hostile_view(hostile)])
    for i in range(7):
        picture(page, f"page_hostile_{i}")
        page.keyboard.press("ArrowRight")
    assert page.locator("h2").inner_text() == " ".join(f"How many {EVIL}?".split()) and page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 1000
    assert asked == [(tmp_path / "page.html").as_uri()]
