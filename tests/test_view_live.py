"The page of runs that go on: what its server answers, to whom, and how the page takes it in."

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Thread

import pytest
from test_explorer_browser import browser, open_page, picture  # noqa: F401

from sql_env import GreedyPolicy, OraclePolicy, evaluate
from sql_env.view.logs import JsonlLog
from sql_env.view.run import RunFeed, run_server

N = 4


def play(unseen, folder, n=N, policy=None):
    "Play until there are `n` episodes in the log of a policy."
    policy = policy or GreedyPolicy()
    log = folder / f"{policy.name}.jsonl"
    evaluate(unseen, policy, n, log=log, progress=False, robust=False)
    return log


@contextmanager
def served(feed):
    server = run_server(feed)
    assert server.server_address[0] == "127.0.0.1"
    Thread(target=server.serve_forever, kwargs=dict(poll_interval=0.05), daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def get(port, path, **headers):
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    return response.status, response.read().decode(), dict(response.getheaders())


def test_only_what_changed_is_sent(unseen, tmp_path):
    feed = RunFeed([tmp_path], unseen)
    assert feed.news(0) == dict(version=0, runs=[], rows=[], figures="", skipped=[])
    play(unseen, tmp_path)
    first = feed.news(0)
    assert first["runs"] == ["greedy"] and [row["number"] for row in first["rows"]] == [0, 1, 2, 3]
    nothing = feed.news(first["version"])
    assert nothing["rows"] == [] and nothing["version"] == first["version"]
    play(unseen, tmp_path, N + 2)
    assert [row["number"] for row in feed.news(first["version"])["rows"]] == [4, 5]
    before = feed.news(first["version"])
    play(unseen, tmp_path, 2, OraclePolicy(unseen))  # another run begins other columns
    news = feed.news(before["version"])
    assert news["runs"] == ["greedy", "oracle"] and len(news["rows"]) == N + 2
    assert [bool(row["runs"][1]) for row in news["rows"]] == [True, True, *[False] * N]
    assert len(feed.films(0)) == 2 and len(feed.films(3)) == 1


def test_an_episode_is_read_once_however_often_the_page_asks(unseen, tmp_path, monkeypatch):
    log = play(unseen, tmp_path)
    feed, reads, read = RunFeed([tmp_path], unseen), [], JsonlLog.read
    monkeypatch.setattr(JsonlLog, "read", lambda self, i: reads.append(i) or read(self, i))
    for _ in range(5):
        feed.news(0)
    with log.open("a") as file:
        file.write('{"half": ')
    feed.news(0)
    assert reads == [0, 1, 2, 3]


def test_a_crash_that_is_played_again_changes_its_row(unseen, tmp_path):
    log = play(unseen, tmp_path)
    header, first, *rest = log.read_text().splitlines()
    crashed = json.loads(first)
    crashed["episode"] |= dict(error="ModelError: 503", verdicts={})
    log.write_text("\n".join([header, json.dumps(crashed), *rest, ""]))
    feed = RunFeed([tmp_path], unseen)
    before = feed.news(0)
    assert before["rows"][0]["runs"][0]["state"] == "crashed"
    with log.open("a") as file:
        file.write(first + "\n")
    [row] = feed.news(before["version"])["rows"]
    assert row["number"] == 0 and row["runs"][0]["state"] != "crashed"


def test_what_the_server_answers_and_that_a_web_site_can_not_read_along(unseen, tmp_path):
    "A name that points to 127.0.0.1 is not ours; nor is another port, or a frame."
    play(unseen, tmp_path)
    (tmp_path / "bad.jsonl").write_text("text\n")
    with served(RunFeed([tmp_path], unseen)) as port:
        status, page, headers = get(port, "/")
        assert status == 200 and headers["Cache-Control"] == "no-store"
        assert "connect-src 'self'" in page and '"live":true' in page
        assert 'type="text/plain"' not in page  # no episode is in it
        news = json.loads(get(port, "/news?since=0")[1])
        assert len(news["rows"]) == N and "rx-card" in news["figures"]
        assert news["skipped"] == ["bad.jsonl: is not a log of sql_env evaluate."]
        assert json.loads(get(port, "/films/1")[1])[0]["steps"][1:]
        assert len(json.loads(get(port, "/texts")[1])) == N
        assert "svg" in json.loads(get(port, "/schemas")[1])["film_festival"]
        for path in ("/films/99", "/films/-1", "/films/x", "/news", "/news?since=x", "/../etc/passwd", "/bad"):
            assert get(port, path)[0] == 404, path
        for host in (f"evil.example:{port}", "evil.example", f"127.0.0.1.evil.example:{port}", "127.0.0.1:1"):
            status, text, _ = get(port, "/news?since=0", Host=host)
            assert status == 403 and "greedy" not in text
        status, _, headers = get(port, "/", Host=f"localhost:{port}", Origin="http://evil.example")
        assert status == 200 and "Access-Control-Allow-Origin" not in headers
        assert headers["X-Frame-Options"] == "DENY"


@pytest.mark.slow
def test_the_command_ends_at_ctrl_c(unseen, tmp_path):
    play(unseen, tmp_path)
    code = "import sys; from sql_env.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "view", "--follow", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline().partition("http://127.0.0.1:")[2].partition("/")[0])
        assert get(port, "/")[0] == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "Traceback" not in err + out


@pytest.mark.slow
def test_new_episodes_appear_without_loading_the_page_again(browser, unseen, tmp_path):  # noqa: F811
    folder = tmp_path / "later"
    with served(RunFeed([folder], unseen)) as port:
        page, errors = open_page(browser, (1300, 900))
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("body[data-ready]", state="attached")
        assert page.locator("#rx-none").inner_text() == "No episode yet." and not errors
        folder.mkdir()
        play(unseen, folder, 2)
        rows = page.locator("#rx-rows tr")
        rows.nth(1).wait_for()
        assert not errors
        page.evaluate("window.kept = true")
        figures = page.locator("#rx-figures").inner_text()
        play(unseen, folder, 7)
        rows.nth(6).wait_for()
        assert page.locator("#rx-count").inner_text() == "7 of 7 episodes"
        assert page.locator("#rx-figures").inner_text() != figures
        picture(page, "run_live")
        rows.nth(0).click()
        page.wait_for_selector("#rx-stage article")
        play(unseen, folder, 9)
        page.wait_for_timeout(3000)
        assert page.locator("#rx-where").inner_text().startswith("1 of 9")  # it stays open
        page.keyboard.press("Escape")
        assert rows.count() == 9 and page.evaluate("window.kept")
        page.fill("#rx-search", "film_festival")
        page.wait_for_timeout(500)
        assert 0 < rows.count() <= 9
        page.fill("#rx-search", "")
        play(unseen, folder, 3, OraclePolicy(unseen))  # another run: other columns
        page.locator("th[data-key=run1]").wait_for()
        assert not page.evaluate("window.kept")
    page.wait_for_selector("#rx-live.rx-alarm")
    assert rows.count() == 9  # what is shown stays
    assert all("ERR_" in error or "Failed to" in error for error in errors)
