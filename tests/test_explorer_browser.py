"The explorer in JupyterLab and Voila, and its static page, in a real browser; SQL_ENV_SCREENSHOTS names a folder to keep pictures in."
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

from sql_env import sources
from sql_env.database import build_database
from sql_env.episode import EpisodeEnv
from sql_env.explorer import film_of, page_html
from sql_env.policies import OraclePolicy, ScriptedPolicy, play
from sql_env.questions import Question, QuestionSet
from sql_env.reward import RewardConfig

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
pytest.importorskip("jupyterlab", reason="no jupyterlab: pip install jupyterlab voila")
pytest.importorskip("voila", reason="no voila: pip install jupyterlab voila")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

TIMED = """async ([act, sign]) => {
  const seen = () => [...document.querySelectorAll(sign[0])].some(e => e.offsetParent !== null && e.textContent.includes(sign[1]));
  if (seen()) throw new Error('already there: ' + sign);
  const start = performance.now();
  await new Promise((done, fail) => {
    const watch = new MutationObserver(() => { if (seen()) { watch.disconnect(); done(); } });
    watch.observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
    setTimeout(() => fail(new Error('never came: ' + sign)), 20000);
    eval(act);
  });
  await new Promise(f => requestAnimationFrame(() => setTimeout(f, 0)));
  return performance.now() - start;
}"""


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM: pytest.skip("no chromium: apt-get install chromium")
    with playwright.sync_playwright() as p:
        b = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield b
        b.close()


def open_page(browser, size=(1100, 1000), scheme="light"):
    "A page that reaches nothing but this machine, and what it complained about."
    page, errors = browser.new_page(viewport=dict(width=size[0], height=size[1]), color_scheme=scheme), []
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.on("dialog", lambda d: (errors.append(f"dialog {d.message}"), d.dismiss()))
    page.route(re.compile("^https?://(?!127\\.0\\.0\\.1)"), lambda r: r.abort())
    return page, errors


def picture(page, name, **options):
    if folder := os.environ.get("SQL_ENV_SCREENSHOTS"): page.screenshot(path=Path(folder) / f"{name}.png", **options)


class Started:
    "A Jupyter server or Voila on a port of its own, in an empty home."
    def __init__(self, home, command, ready):
        port = socket.create_server(("127.0.0.1", 0)).getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        env = {**os.environ, "HOME": str(home), "PYTHONPATH": str(Path(__file__).resolve().parent.parent), "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
               "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "JUPYTER_PLATFORM_DIRS": "1"}
        self.log = open(home / "server.log", "w")
        self.process = subprocess.Popen([sys.executable, "-m", *command, f"--port={port}"], cwd=home, env=env, stdout=self.log, stderr=self.log)
        self.ready = ready

    def __enter__(self):
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try: return urllib.request.urlopen(self.url + self.ready, timeout=2) and self
            except OSError: time.sleep(0.1)
        raise RuntimeError(f"it did not start: {Path(self.log.name).read_text()[-2000:]}")

    def __exit__(self, *args):
        self.process.terminate()
        try: self.process.wait(15)
        except subprocess.TimeoutExpired: self.process.kill()
        self.log.close()


def write_notebook(path, *cells):
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nb.metadata["kernelspec"] = dict(name="python3", display_name="python3", language="python")
    nbformat.write(nb, path)


SHOW = "ex = EpisodeExplorer(question_id='vet_clinic-12')\nex"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    home = tmp_path_factory.mktemp("lab")
    write_notebook(home / "a.ipynb", "from sql_env.explorer import EpisodeExplorer\nimport ipywidgets", SHOW)
    quiet = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    options = ["--no-browser", "--ip=127.0.0.1", "--allow-root", "--IdentityProvider.token=", "--expose-app-in-browser"]
    with Started(home, ["jupyterlab", *options], "/api/status") as s: yield s


def ready_kernel(page):
    "Wait until the kernel of the open notebook has answered; before that, run-all may hang."
    page.wait_for_function("window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.connectionStatus === 'connected'", timeout=40000)
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestKernelInfo().then(() => 1)")
    page.wait_for_function("jupyterapp.shell.currentWidget.sessionContext.kernelDisplayStatus === 'idle'", timeout=40000)


def run_cell(page, i):
    "Run one cell of the open notebook; does not wait for it."
    page.evaluate(f"() => {{ jupyterapp.shell.currentWidget.content.activeCellIndex = {i}; jupyterapp.commands.execute('notebook:run-cell'); }}")


def click(page, text, sign, value=""):
    "Click the visible button and wait for the sign; milliseconds from the click to the painted view."
    act = f"[...document.querySelectorAll('button')].filter(b => b.offsetParent && b.textContent.trim() === {text!r})[{value or 0}].click()"
    return page.evaluate(TIMED, [act, sign])


def test_jupyterlab(browser, lab, capsys):
    page, errors = open_page(browser, (1100, 1700))
    page.goto(lab.url + "/lab/tree/a.ipynb")
    ready_kernel(page)
    run_cell(page, 0)
    page.wait_for_function("jupyterapp.shell.currentWidget.content.widgets[0].model.executionCount > 0 && jupyterapp.shell.currentWidget.sessionContext.kernelDisplayStatus === 'idle'")
    page.evaluate("() => { jupyterapp.commands.execute('application:toggle-left-area'); }")
    act = "jupyterapp.shell.currentWidget.content.activeCellIndex = 1; jupyterapp.commands.execute('notebook:run-cell')"
    first = page.evaluate(TIMED, [act, [".sx-schema", "code_list"]])
    picture(page, "lab_start")
    steps = [click(page, "animal", [".sx-verb", "DESCRIBE"]), click(page, "animal", [".sx-verb", "SAMPLE"], "1")]
    box = page.locator("textarea:visible")
    box.nth(0).fill("SELECT species FROM animal")
    box.nth(0).press("Tab")
    steps.append(click(page, "Run query", [".sx-bare .sx-error", "unknown column"]))
    picture(page, "lab_error")
    box.nth(0).fill("SELECT type, count(*) FROM animal GROUP BY type")
    box.nth(0).press("Tab")
    steps.append(click(page, "Run query", [".sx-scroll td", "77"]))
    picture(page, "lab_middle")
    steps.append(click(page, "Answer with last result", [".sx-wrong", "not in gold"]))
    picture(page, "lab_wrong")
    assert page.locator("button:visible", has_text="Run query").is_disabled() and "code_list" in page.locator(".sx-gold:visible").inner_text()
    assert not page.locator(".sx-bare .sx-error").count()
    page.get_by_role("tab", name="Watch").click()
    click(page, "Watch", [".sx-about", "played by greedy"], 1 if page.locator("button:visible", has_text=re.compile("^Watch$")).count() > 1 else 0)
    turns = [click(page, "Next", [".sx-status", f"{15 - i} of 15 steps left"]) for i in (1, 2, 3)]
    picture(page, "lab_watch")
    page.get_by_role("tab", name="Compare").click()
    click(page, "Compare", [".sx-about", "played by oracle"])
    picture(page, "lab_compare")
    page.evaluate("() => jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    page.wait_for_function("getComputedStyle(document.querySelector('.sx')).backgroundColor !== 'rgb(255, 255, 255)'")
    picture(page, "lab_compare_dark")
    page.get_by_role("tab", name="Play").click()
    picture(page, "lab_wrong_dark")
    with capsys.disabled(): print(f"\nJupyterLab: first view {first:.0f} ms; steps {', '.join(f'{t:.0f}' for t in steps)} ms; slider {', '.join(f'{t:.0f}' for t in turns)} ms")
    assert first < 2000 and min(steps) < 150 and min(turns) < 150
    assert not errors
