"The page for people, played in a real browser."

import json
import re
import shutil

import pytest
from serving import Server

from sql_env.database.database import build_database
from sql_env.play.board import escape_markup

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
pytestmark = pytest.mark.slow  # a server and a browser
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("no chromium: apt-get install chromium")
    with playwright.sync_playwright() as p:
        b = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield b
        b.close()


@pytest.fixture(scope="module")
def server():
    with Server(ENABLE_WEB_INTERFACE="true") as s:
        yield s


def open_page(browser, url, size=(1280, 1000), theme="light"):
    "The page, ready to play, and what it complained about."
    page, errors = browser.new_page(viewport=dict(width=size[0], height=size[1])), []
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.on("dialog", lambda d: (errors.append(f"dialog {d.message}"), d.dismiss()))
    page.route(re.compile("^https?://(?!127\\.0\\.0\\.1)"), lambda r: r.abort())
    page.goto(f"{url}/web/?__theme={theme}")
    page.wait_for_selector("body[data-keys=heard]")
    return page, errors


def new_question(page, seed=None, question_id=None):
    name, text = ("seed", str(seed)) if question_id is None else ("id", question_id)
    page.locator(f"#se-{name}").locator("input, textarea").fill(text)
    click(page, "new", "text=15 of 15 steps left")


def run_sql(page, sql, expected, key=""):
    "Write a statement, run it by the button or by a key, and wait for what shows that it ran."
    page.locator("#se-query .cm-content").fill(sql)
    page.keyboard.press(key) if key else page.click("#se-query-send")
    page.wait_for_selector(expected)


def click(page, name, expected):
    page.click(f"#se-{name}")
    page.wait_for_selector(expected)


def submit(page, text, expected):
    page.fill("#se-answer textarea, #se-answer input", text)
    click(page, "answer-send", expected)


def test_an_episode_is_played_by_hand(browser, server):
    page, errors = open_page(browser, server.http)
    new_question(page, 5)
    first = page.locator(".sx h2").inner_text()
    tables = page.locator("#se-tables label").all_inner_texts()
    assert len(first) > 20 and len(tables) > 3
    click(page, "describe-send", "th:has-text('column')")
    page.locator("#se-tables label").nth(1).click()
    click(page, "sample-send", ".sx-steps > li:nth-child(2)")
    assert "SAMPLE" in page.locator(".sx-steps").inner_text()
    page.click(".sx-steps > li:nth-child(1) button")  # what was described is kept
    page.wait_for_selector(".sx-step:visible th:has-text('column')")
    submit(page, "  ", "text=Write an answer first")
    assert page.locator("text=13 of 15 steps left").count()
    run_sql(page, f"SELECT * FROM {tables[1]}", ".sx-steps > li:nth-child(3)", "Control+Enter")
    run_sql(page, "SELECT nonsense", ".sx-error", "Meta+Enter")  # Cmd on a Mac
    click(page, "last", ".sx-wrong")
    assert page.locator("#se-query-send").is_disabled() and "outcome" not in page.locator(".sx-steps").inner_text()
    new_question(page, 5)
    assert page.locator(".sx h2").inner_text() == first and not page.locator(".sx-error, .sx-wrong").count()
    submit(page, "SELECT is not an answer", ".sx-error")  # it can't be read: that is told, and the episode goes on
    assert page.locator("#se-query-send").is_enabled() and not page.locator(".sx-wrong").count()
    submit(page, "12345", ".sx-wrong")
    assert not errors


def test_what_is_typed_right_after_a_new_question_stays(browser, server):
    """A click once sent a second event, which cleared the text boxes: on a busy machine it came after the visitor
    had typed, and the answer that was submitted was empty. Events after the first are delayed here."""
    page, errors = open_page(browser, server.http)
    events = []

    def delay(route):
        events.append(route.request.url)
        if len(events) > 1:
            page.wait_for_timeout(500)
        route.continue_()

    page.route(re.compile("/queue/join"), delay)
    new_question(page, 5)
    page.fill("#se-answer textarea, #se-answer input", "12345")
    page.wait_for_timeout(1000)
    click(page, "answer-send", ".sx-wrong")
    assert len(events) == 2 and not errors


def test_right_answers_are_welcome_and_visitors_do_not_meet(browser, server, questions):
    (one, errors), (two, more) = open_page(browser, server.http), open_page(browser, server.http)
    new_question(one, 5)
    new_question(two, 6)
    question = one.locator(".sx h2").inner_text()
    run_sql(one, next(q for q in questions if q.question_text == question).gold_sql, ".sx-scroll")
    click(two, "describe-send", "text=14 of 15 steps left")
    click(one, "last", ".sx-right")
    assert "+1.00" in one.locator(".sx-steps").inner_text()
    assert "14 of 15" in two.locator(".sx-status:visible").inner_text()
    assert two.locator(".sx h2").inner_text() != question
    assert not errors and not more


def test_hostile_names_and_values_stay_text(browser, tmp_path):
    evil = '<img src=x onerror="alert(1)">'
    quoted = '"' + evil.replace('"', '""') + '"'
    build_database(
        tmp_path / "evil.sqlite",
        f"CREATE TABLE {quoted} ({quoted} TEXT, n INTEGER)",
        {evil: [(f"<script>alert({i})</script>{evil}", i) for i in range(7)]},
    )
    question = dict(question=f"How many {evil} <b>are</b> there?", sql=f"SELECT count(*) FROM {quoted}")
    (tmp_path / "q.jsonl").write_text(json.dumps(question | dict(id="evil-1", split="train")))
    with Server(ENABLE_WEB_INTERFACE="true", SQL_ENV_SOURCE="folder", SQL_ENV_PATH=str(tmp_path)) as s:
        page, errors = open_page(browser, s.http)
        new_question(page, 1)
        click(page, "describe-send", ".sx-steps > li:nth-child(1)")
        click(page, "sample-send", ".sx-steps > li:nth-child(2)")
        run_sql(page, f"SELECT {quoted} AS {quoted}, '{evil}' FROM {quoted}", ".sx-steps > li:nth-child(3)")
        run_sql(page, f"SELECT {quoted} FROM no_{evil}", ".sx-error")
        submit(page, evil, ".sx-wrong")
        assert escape_markup(evil) in page.locator(".sx h2").inner_text()
        assert evil in page.locator("#se-tables").inner_text()
        assert page.locator(".sx img, .sx script").count() == 0 and not errors


@pytest.mark.parametrize("theme, width", [("light", 1280), ("dark", 390)])
def test_a_practice_server_shows_gold_at_the_end(browser, theme, width):
    with Server(ENABLE_WEB_INTERFACE="true", SQL_ENV_REVEAL="gold") as s:
        page, errors = open_page(browser, s.http, (width, 1000), theme)
        page.locator("#se-id").locator("input, textarea").fill("vet_clinic-12")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=15 of 15 steps left")
        assert "vet_clinic-12" in page.locator(".sx-about").inner_text()
        click(page, "describe-send", ".sx-schema")
        sql = "SELECT type, count(*) FROM animal GROUP BY type"
        run_sql(page, sql, ".sx-steps > li:nth-child(2)", "Control+Enter")
        page.fill("#se-answer textarea, #se-answer input", '[["dog", 77], ["cat", 66]]')
        page.keyboard.press("Enter")
        page.wait_for_selector(".sx-step .sx-marked")
        assert page.locator(".sx-part", has_text="gold query").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width + 10 and not errors
        page.locator("#se-id").locator("input, textarea").fill("vet_clinic-1222")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=no question")


def test_a_visitor_abstains(browser):
    with Server(ENABLE_WEB_INTERFACE="true", SQL_ENV_ACTIONS="abstain") as s:
        page, errors = open_page(browser, s.http)
        new_question(page, 5)
        page.fill("#se-abstain textarea, #se-abstain input", "It is unclear.")
        click(page, "abstain-send", ".sx-wrong")
        assert page.locator("#se-abstain-send").is_disabled() and not errors
        click(page, "new", "text=15 of 15 steps left")
        assert page.locator("#se-abstain textarea, #se-abstain input").input_value() == ""


def test_with_all_actions_results_are_in_sight_and_boxes_are_those_of_the_question(browser):
    "The result lay under six boxes, and EXECUTE was offered where there is nothing to change."
    every = "abstain,execute"
    with Server(ENABLE_WEB_INTERFACE="true", SQL_ENV_ACTIONS=every) as s:
        page, errors = open_page(browser, s.http, (1280, 800))
        new_question(page, 5)
        page.wait_for_selector("#se-abstain")
        assert page.locator("#se-execute, #se-execute-send").count() == 0
        click(page, "sample-send", ".sx-scroll")
        box = page.locator(".sx-scroll").first.bounding_box()
        assert box["y"] + 40 < 800 and not errors, box
