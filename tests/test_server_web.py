"The page for people, played in a real browser; SQL_ENV_SCREENSHOTS names a folder to keep pictures in."

import os
import re
import shutil
from pathlib import Path

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


def picture(page, name):
    if folder := os.environ.get("SQL_ENV_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def new_question(page, seed):
    page.locator("#se-seed").locator("input, textarea").fill(str(seed))
    page.click("#se-new")
    page.wait_for_selector("text=15 of 15 steps left")


def write_sql(page, sql):
    page.locator("#se-sql .cm-content").fill(sql)


def test_an_episode_is_played_by_hand(browser, server):
    page, errors = open_page(browser, server.http)
    picture(page, "0_start")
    new_question(page, 5)
    first = page.locator(".sx h2").inner_text()
    tables = page.locator("#se-tables label").all_inner_texts()
    assert len(first) > 20 and len(tables) > 3
    page.click("#se-describe")
    page.wait_for_selector("th:has-text('column')")
    picture(page, "1_describe")
    page.locator("#se-tables label").nth(1).click()
    page.click("#se-sample")
    page.wait_for_selector(".sx-steps > li:nth-child(2)")
    assert "SAMPLE" in page.locator(".sx-steps").inner_text()
    page.click(".sx-steps > li:nth-child(1) summary")  # what was described is kept
    page.wait_for_selector(".sx-steps details[open] th:has-text('column')")
    page.fill("#se-answer textarea, #se-answer input", "  ")
    page.click("#se-submit")
    page.wait_for_selector("text=Write an answer first")
    assert page.locator("text=13 of 15 steps left").count()
    write_sql(page, f"SELECT * FROM {tables[1]}")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".sx-steps > li:nth-child(3)")
    picture(page, "2_query")
    write_sql(page, "SELECT nonsense")
    page.click("#se-run")
    page.wait_for_selector(".sx-error")
    picture(page, "3_error")
    page.click("#se-last")
    page.wait_for_selector(".sx-wrong")
    assert page.locator("#se-run").is_disabled() and "outcome" not in page.locator(".sx-steps").inner_text()
    picture(page, "4_wrong")
    new_question(page, 5)
    assert page.locator(".sx h2").inner_text() == first and not page.locator(".sx-error, .sx-wrong").count()
    page.fill("#se-answer textarea, #se-answer input", "SELECT is not an answer")
    page.click("#se-submit")
    page.wait_for_selector(".sx-error")  # it can't be read: that is told, and the episode goes on
    assert page.locator("#se-run").is_enabled() and not page.locator(".sx-wrong").count()
    page.fill("#se-answer textarea, #se-answer input", "12345")
    page.click("#se-submit")
    page.wait_for_selector(".sx-wrong")
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
    page.click("#se-submit")
    page.wait_for_selector(".sx-wrong")
    assert len(events) == 2 and not errors


def test_right_answers_are_welcome_and_visitors_do_not_meet(browser, server):
    (one, errors), (two, more) = open_page(browser, server.http), open_page(browser, server.http)
    new_question(one, 5)
    new_question(two, 6)
    question = one.locator(".sx h2").inner_text()
    from sql_env.sources.loading import load

    q = next(q for q in load("bundled") if q.question_text == question)
    write_sql(one, q.gold_sql)
    one.click("#se-run")
    one.wait_for_selector(".sx-scroll")
    two.click("#se-describe")
    two.wait_for_selector("text=14 of 15 steps left")
    one.click("#se-last")
    one.wait_for_selector(".sx-right")
    assert "+1.00" in one.locator(".sx-steps").inner_text()
    assert "14 of 15" in two.locator(".sx-status").inner_text() and two.locator(".sx h2").inner_text() != question
    picture(one, "5_right")
    assert not errors and not more


def test_hostile_names_and_values_stay_text(browser, tmp_path):
    evil = '<img src=x onerror="alert(1)">'
    quoted = '"' + evil.replace('"', '""') + '"'
    build_database(
        tmp_path / "evil.sqlite",
        f"CREATE TABLE {quoted} ({quoted} TEXT, n INTEGER)",
        {evil: [(f"<script>alert({i})</script>{evil}", i) for i in range(7)]},
    )
    import json

    (tmp_path / "q.jsonl").write_text(
        json.dumps(
            dict(
                question=f"How many {evil} <b>are</b> there?",
                sql=f"SELECT count(*) FROM {quoted}",
                id="evil-1",
                split="train",
            )
        )
    )
    with Server(ENABLE_WEB_INTERFACE="true", SQL_ENV_SOURCE="folder", SQL_ENV_PATH=str(tmp_path)) as s:
        page, errors = open_page(browser, s.http)
        new_question(page, 1)
        for button in ("#se-describe", "#se-sample"):
            page.click(button)
            page.wait_for_selector(f".sx-steps > li:nth-child({1 + (button != '#se-describe')})")
        write_sql(page, f"SELECT {quoted} AS {quoted}, '{evil}' FROM {quoted}")
        page.click("#se-run")
        page.wait_for_selector("text=7 rows")
        write_sql(page, f"SELECT {quoted} FROM no_{evil}")
        page.click("#se-run")
        page.wait_for_selector(".sx-error")
        page.fill("#se-answer textarea, #se-answer input", evil)
        page.click("#se-submit")
        page.wait_for_selector(".sx-wrong")
        assert escape_markup(evil) in page.locator(".sx h2").inner_text()
        assert evil in page.locator("#se-tables").inner_text()
        assert page.locator(".sx img, .sx script").count() == 0 and not errors
        picture(page, "6_hostile")


@pytest.mark.parametrize("theme, width", [("light", 1280), ("dark", 390)])
def test_a_practice_server_shows_gold_at_the_end(browser, theme, width):
    with Server(ENABLE_WEB_INTERFACE="true", SQL_ENV_REVEAL="gold") as s:
        page, errors = open_page(browser, s.http, (width, 1000), theme)
        page.locator("#se-id").locator("input, textarea").fill("vet_clinic-12")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=15 of 15 steps left")
        assert "vet_clinic-12" in page.locator(".sx-about").inner_text()
        page.click("#se-describe")
        page.wait_for_selector(".sx-schema")
        write_sql(page, "SELECT type, count(*) FROM animal GROUP BY type")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector(".sx-steps > li:nth-child(2)")
        picture(page, f"8_query_{theme}_{width}")
        page.fill("#se-answer textarea, #se-answer input", '[["dog", 77], ["cat", 66]]')
        page.keyboard.press("Enter")
        page.wait_for_selector(".sx-step .sx-marked")
        assert page.locator(".sx-part", has_text="gold query").count() == 1
        picture(page, f"9_gold_{theme}_{width}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width + 10 and not errors
        page.locator("#se-id").locator("input, textarea").fill("vet_clinic-1222")
        page.keyboard.press("Enter")
        page.wait_for_selector(".sx-error:has-text('no question')")


def test_the_page_fits_a_phone(browser, server):
    page, errors = open_page(browser, server.http, (390, 844))
    new_question(page, 5)
    page.click("#se-sample")
    page.wait_for_selector(".sx-scroll")
    picture(page, "7_phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400 and not errors


def test_a_visitor_asks_and_abstains(browser):
    from sql_env.sources.loading import load

    asks = next(q for q in load("ambiguous") if q.clarifications)
    with Server(ENABLE_WEB_INTERFACE="true", SQL_ENV_SOURCE="ambiguous", SQL_ENV_ACTIONS="abstain,clarify") as s:
        page, errors = open_page(browser, s.http)
        page.locator("#se-id").locator("input, textarea").fill(asks.question_id)
        page.click("#se-new")
        page.wait_for_selector("text=15 of 15 steps left")
        (fact,) = asks.clarifications
        page.fill("#se-clarify textarea, #se-clarify input", f"Which {fact.term}?")
        page.keyboard.press("Enter")
        page.wait_for_selector("blockquote")
        assert escape_markup(fact.fact) in page.locator("blockquote").first.inner_text()
        picture(page, "10_clarify")
        page.fill("#se-abstain textarea, #se-abstain input", "It is unclear.")
        page.click("#se-abstain-send")
        page.wait_for_selector(".sx-wrong")
        assert page.locator("#se-clarify-send").is_disabled() and not errors
        picture(page, "11_abstain")
        page.click("#se-new")
        page.wait_for_selector("text=15 of 15 steps left")
        assert page.locator("#se-abstain textarea, #se-abstain input").input_value() == ""


def test_with_all_actions_results_are_in_sight_and_boxes_are_those_of_the_question(browser):
    "The result lay under six boxes, and EXECUTE was offered where there is nothing to change."
    every = "abstain,clarify,search,execute"
    with Server(ENABLE_WEB_INTERFACE="true", SQL_ENV_ACTIONS=every) as s:
        page, errors = open_page(browser, s.http, (1280, 800))
        new_question(page, 5)
        page.wait_for_selector("#se-search")
        assert page.locator("#se-execute, #se-execute-send").count() == 0
        page.click("#se-sample")
        page.wait_for_selector(".sx-scroll")
        box = page.locator(".sx-scroll").first.bounding_box()
        picture(page, "12_all_actions")
        assert box["y"] + 40 < 800 and not errors, box
