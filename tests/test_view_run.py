"Logs as runs, and the page of runs: what it holds, and how it behaves in a real browser."

import json
import re
import shutil
from base64 import b64decode
from dataclasses import replace
from zlib import decompress

import pytest
from test_explorer_browser import browser, open_page, picture  # noqa: F401

from sql_env import ChatPolicy, OraclePolicy, evaluate
from sql_env.evaluation import read_log
from sql_env.policies.requests import Completion
from sql_env.view.episode import EpisodeView, conversation
from sql_env.view.page import find_runs, player_html, read_runs, run_page_html, show_runs, write_run_page

N = 14  # episodes of each run
HOSTILE = "</script><script>document.title = 'taken'</script><img src=x onerror=alert(1)>"


def call(name, arguments):
    return dict(type="function", function=dict(name=name, arguments=arguments))


class Talker:
    "A backend that thinks, errs, crashes, and is right on every other question."

    name, settings, model, base_url = "talker", {}, "talker-1", ""

    def __init__(self, unseen, right=2):
        self.gold = {q.question_text: q.gold_sql for q in unseen}
        self.right = right
        self.number = {q.question_text: i for i, q in enumerate(unseen)}

    def complete(self, messages, tools, seed):
        asked = next(q for q in self.gold if messages[1]["content"].startswith(q))
        said = sum(m["role"] == "assistant" for m in messages)
        number = self.number[asked]
        if number % 7 == 3 and said:
            raise RuntimeError("the server answered 503")
        sql = self.gold[asked] if number % self.right == 0 else "SELECT 1"
        turns = [
            dict(content="I look around.", reasoning_content=HOSTILE, tool_calls=[call("query", "{sql: 1")]),
            dict(content="", tool_calls=[call("query", json.dumps(dict(sql=sql)))]),
            dict(content="Done.", tool_calls=[call("answer", '{"value": "@last"}')]),
        ]
        usage = dict(prompt_tokens=900 + 10 * said, completion_tokens=20, seconds=0.5)
        return Completion(dict(role="assistant", **turns[min(said, 2)]), usage, stop_reason="tool_calls")


@pytest.fixture(scope="module")
def logs(unseen, tmp_path_factory):
    "Logs of two models on the same questions."
    folder = tmp_path_factory.mktemp("runs")
    for name, right in (("first", 2), ("second", 3)):
        policy = ChatPolicy(Talker(unseen, right), name=f"maker/{name}-of-a-long-name", price=(1, 2))
        evaluate(unseen, policy, N, log=folder / f"{name}.jsonl", progress=False, robust=False)
    return folder / "first.jsonl", folder / "second.jsonl"


@pytest.fixture(scope="module")
def page_file(unseen, logs, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "runs.html"
    write_run_page(path, read_runs(logs), unseen)
    return path


def unpack(page):
    "The episodes of a page of runs, as HTML."
    return [decompress(b64decode(pack)).decode() for pack in re.findall(r'data-pack="e\d+">(.*?)</script>', page)]


BAD = {
    "": "it has no line about the run",
    '{"text": "of somebody else"}\n': "line 1: this is not a log of episodes",
    "a line of text\n": "line 1: this is not a log of episodes",
    "[" * 100_000 + "\n": "bad.jsonl: ",
    '{"policy": "x", "format": 4}\n': "holds no episode yet",
    '{"policy": "x", "format": 3, "sql_env": "0.9"}\n': "or read it with 0.9",
    '{"policy": "x", "format": 4}\n{"episode_index": "a"}\n': "line 2: this is not a log of episodes",
}


@pytest.mark.parametrize("content", BAD)
def test_a_bad_log_is_left_out_with_a_word(logs, tmp_path, content):
    shutil.copy(logs[0], tmp_path / "first.jsonl")
    (tmp_path / "bad.jsonl").write_text(content)
    runs, [said] = find_runs([tmp_path])
    assert len(runs) == 1 and said.startswith("bad.jsonl: ") and said.endswith(".") and BAD[content] in said
    with pytest.warns(UserWarning, match="bad.jsonl"):
        assert len(read_runs([tmp_path])) == 1
    (tmp_path / "first.jsonl").unlink()
    with pytest.raises(ValueError, match="There is no run in .* bad.jsonl: "):
        read_runs([tmp_path])
    (tmp_path / "bad.jsonl").rename(tmp_path / "bad.eval")
    assert "see it with: inspect view" in find_runs([tmp_path])[1][0]


def test_names_are_never_equal_and_runs_may_have_other_lengths(unseen, logs, tmp_path):
    for folder in ("a", "b"):
        shutil.copytree(logs[0].parent, tmp_path / folder)
    assert {run.name for run in read_runs([tmp_path])} == {
        f"maker/{name}-of-a-long-name@{at}/{name}" for name in ("first", "second") for at in "ab"
    }
    assert len(read_runs([logs[0], logs[0], *logs])) == 2
    with pytest.raises(ValueError, match="no run"):
        run_page_html([])
    log = tmp_path / "oracle.jsonl"
    evaluate(unseen, OraclePolicy(unseen), 6, log=log, progress=False, robust=False)
    page = run_page_html(read_runs([logs[0], log]), unseen)
    assert [text.count("<article") for text in unpack(page)] == [2] * 6 + [1] * (N - 6)


def test_every_episode_is_in_the_page_with_what_the_model_said(page_file, logs):
    page = page_file.read_text()
    films, trajectories = unpack(page), read_log(logs[0])[1]
    assert len(films) == N == page.count("<tr id=")
    states = re.findall(r'data-run="maker/first[^>]*data-sort="(\w+)"', page)
    assert {"right", "wrong", "crashed"} <= set(states)
    right = ["crashed" if t.error else "right" if t.correct else "wrong" for t in trajectories]
    assert states == right
    first, _ = films[0].split("<article")[1:]
    for text in (
        "<b>Wrong.</b>",
        "<h3>answer</h3>",
        "<h3>its last query</h3>",
        "<h3>gold query</h3>",
        "prompt, 2 messages",
    ):
        assert text in first, text
    assert "0.5 s · 900 in · 20 out" in first and "I look around." in first and "are not JSON" in first
    assert first.index("<summary>reasoning") < first.index("I look around.") < first.index("{sql: 1")
    assert "&lt;/script&gt;" in first and "<script" not in first and "<img" not in first
    assert "i look around." in re.search(r'data-find="(.*?)"', page)[1]


def test_a_page_is_one_file_and_nothing_in_it_ends_its_data(page_file):
    "And a thousand episodes are under ten megabytes: bytes of an episode of each of two runs."
    page = page_file.read_text()
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    assert page.count("<script") == page.count("</script>") == 1 + N
    assert "default-src 'none'" in page and page.count("'sha256-") == 1 and HOSTILE not in page
    data = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", page, flags=re.S)
    assert len(data) / N / 2 < 5_000


def test_without_questions_text_and_gold_come_from_the_log_and_a_frame_reaches_nothing(logs):
    page = run_page_html(read_runs([logs[0]]))
    film = unpack(page)[0]
    assert "gold query" in film and "neither schema nor gold" in film and "sx-schema" not in film
    html = show_runs(logs[0]).data
    assert 'sandbox="allow-scripts"' in html and "allow-same-origin" not in html


def test_half_of_a_surrogate_pair_and_messages_of_another_program_do_no_harm(logs, tmp_path):
    [run] = read_runs([logs[0]])
    said = dict(role="assistant", content="half \ud83d of it", reasoning_content="\udc00")
    changed = run.trajectories[0].model_copy(
        update=dict(messages=[said], notes=["no_call: \ud83d"], question_text="\ud83d?")
    )
    write_run_page(tmp_path / "page.html", [replace(run, name="model \ud83d", trajectories=[changed])])
    assert "model" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_old_page_stays_if_a_new_one_fails(logs, tmp_path, monkeypatch):
    page, runs = tmp_path / "runs.html", read_runs([logs[0]])
    assert write_run_page(page, runs) == len(page.read_bytes())
    before = page.read_bytes()
    monkeypatch.setattr("sql_env.view.page._run_data", lambda run, first: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_run_page(page, runs)
    assert page.read_bytes() == before and list(tmp_path.iterdir()) == [page]


def test_steps_of_messages_with_shots_nudges_and_parallel_calls():
    def said(role, content="", *calls):
        return dict(role=role, content=content) | (dict(tool_calls=list(calls)) if calls else {})

    messages = [
        said("system", "s"),
        said("user", "another question"),
        said("assistant", "", call("answer", '{"value": "1"}')),
        said("user", "how many?\n\nSteps: 15"),
        said("assistant", "", call("describe", '{"table_name": "t"}'), call("x", "{}")),
        *(said("tool", "t: 3 rows"), said("tool", "no such tool"), said("assistant", "hm")),
        *(said("user", "There was no tool call."), said("assistant", "", call("answer", '{"value": "3"}'))),
    ]
    records = [dict(message=4, seconds=1.0), dict(error="ModelError: 503")]
    view = EpisodeView("how many?", messages=messages, calls=records)
    first, *others = conversation(view)
    assert (first.role, first.step, first.took) == ("assistant", 1, "1.0 s")
    assert [part.kind for part in first.parts] == ["act", "act", "error"]
    steps = [("tool", 0), ("assistant", 0), ("user", 0), ("assistant", 2), ("error", 0)]
    assert [(s.role, s.step) for s in others] == steps and "ModelError: 503" in player_html(view)


def until(page, condition):
    "Wait for a condition; the page's policy forbids what Playwright's own waiting does."
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


@pytest.mark.slow
def test_in_a_browser(browser, page_file):  # noqa: F811
    page, errors = open_page(browser, (1300, 900))
    page.goto(page_file.as_uri())
    rows, position = page.locator("#rx-rows tr:visible"), page.locator(".sx-player output")
    assert rows.count() == N
    picture(page, "run_light")
    for chip in page.locator("[data-words]").all():
        chip.click()
        assert rows.count() == int(chip.locator("small").inner_text()) > 0, chip.inner_text()
        assert chip.get_attribute("aria-pressed") == "true"
    page.fill("#rx-find", "film_festival easy")
    assert 0 < rows.count() < N and page.locator("#rx-count").inner_text().startswith(f"{rows.count()} of {N}")
    page.fill("#rx-find", "")
    for _ in range(2):
        page.click("th >> text=question")
        asked = page.locator(".rx-ask").all_inner_texts()
        is_down = page.locator("th[aria-sort=descending]").count() == 1
        assert asked == sorted(asked, key=str.lower, reverse=is_down)
    page.click("th >> text=#")
    rows.nth(1).click()
    page.wait_for_selector("#rx-stage article")
    assert page.locator("#rx-where").inner_text().startswith(f"2 of {N}") and not rows.count()
    last = position.inner_text()
    page.keyboard.press("Home")
    assert position.inner_text() != last and page.locator(".sx-talk").count()
    picture(page, "run_film")
    page.click("#rx-following")
    until(page, "document.querySelector('#rx-where').textContent.startsWith('3 of ')")
    page.keyboard.press("Escape")
    until(page, "!document.querySelector('#rx-overview').hidden")
    assert rows.count() == N and page.title().startswith("sql_env") and not errors


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_cut(browser, page_file, scheme):  # noqa: F811
    page, errors = open_page(browser, (390, 800), scheme)
    page.goto(page_file.as_uri() + "#e2")
    page.wait_for_selector("#rx-stage article")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.keyboard.press("Escape")
    page.wait_for_selector("#rx-rows tr:visible")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390 and not errors
    cut = "[...document.querySelectorAll('#rx-rows td')].filter(e => e.getBoundingClientRect().right > 391)"
    assert page.evaluate(f"{cut}.length") == 0
    picture(page, f"run_phone_{scheme}")


@pytest.mark.slow
def test_in_the_frame_of_a_notebook(browser, logs):  # noqa: F811
    page, errors = open_page(browser)
    page.set_content(show_runs(*logs).data)
    frame = page.frame_locator("iframe")
    frame.locator("#rx-rows tr").nth(1).click()
    frame.locator("#rx-stage article").first.wait_for()
    page.keyboard.press("Escape")
    frame.locator("#rx-overview").wait_for()
    assert not errors
