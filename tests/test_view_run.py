"The page of runs: what it holds, and how it behaves in a real browser."

import json
import re
from base64 import b64decode
from zlib import decompress

import pytest
from test_explorer_browser import browser, open_page, picture  # noqa: F401

from sql_env.evaluation.harness import evaluate
from sql_env.policies.base import Completion
from sql_env.policies.baselines import OraclePolicy
from sql_env.policies.chat import ChatPolicy
from sql_env.sources.loading import load
from sql_env.view.html import render_html
from sql_env.view.messages import _conversation, words_html
from sql_env.view.run import _episode_state, _read_run, read_runs, run_page_html, show_runs

N = 14  # episodes of each run
HOSTILE = "</script><script>document.title = 'taken'</script><img src=x onerror=alert(1)>"


def call(name, arguments):
    return dict(type="function", function=dict(name=name, arguments=arguments))


class Talker:
    "A backend that thinks, errs, crashes, and is right on every other question."

    name, settings, model, base_url = "talker", {}, "talker-1", ""

    def __init__(self, questions, right=2):
        self.gold = {q.question_text: q.gold_sql for q in questions}
        self.right = right
        self.number = {q.question_text: i for i, q in enumerate(questions)}

    def complete(self, messages, tools, seed):
        asked = next(q for q in self.gold if messages[1]["content"].startswith(q))
        said = sum(m["role"] == "assistant" for m in messages)
        number = self.number[asked]
        if number % 7 == 3 and said:
            raise RuntimeError("the server answered 503")
        sql = self.gold[asked] if number % self.right == 0 else "SELECT 1"
        turns = [
            dict(
                content="I look around.",
                reasoning_content=HOSTILE,
                tool_calls=[call("query", "{sql: 1")],
            ),
            dict(content="", tool_calls=[call("query", json.dumps(dict(sql=sql)))]),
            dict(content="Done.", tool_calls=[call("answer", '{"value": "@last"}')]),
        ]
        usage = dict(prompt_tokens=900 + 10 * said, completion_tokens=20, seconds=0.5)
        return Completion(
            dict(role="assistant", **turns[min(said, 2)]), usage, stop_reason="tool_calls"
        )


@pytest.fixture(scope="module")
def questions():
    return load("bundled", split="test")


@pytest.fixture(scope="module")
def logs(questions, tmp_path_factory):
    "Logs of two models on the same some questions."
    folder = tmp_path_factory.mktemp("runs")
    for name, right in (("first", 2), ("second", 3)):
        policy = ChatPolicy(
            Talker(questions, right), name=f"maker/{name}-of-a-long-name", price=(1, 2)
        )
        evaluate(questions, policy, N, log=folder / f"{name}.jsonl", progress=False, robust=False)
    return folder / "first.jsonl", folder / "second.jsonl"


@pytest.fixture(scope="module")
def page_file(questions, logs, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "runs.html"
    path.write_text(run_page_html(read_runs(logs), questions), encoding="utf-8")
    return path


def data_of(page):
    return json.loads(re.search(r'id="rx-data">(.*?)</script>', page, re.S)[1])


def test_every_episode_is_in_the_page_with_what_the_model_said(page_file, logs):
    page = page_file.read_text()
    data = data_of(page)
    assert len(data["rows"]) == len(data["films"]) == N
    states = [_episode_state(t.episode) for t in _read_run(logs[0]).trajectories]
    assert [row["runs"][0]["state"] for row in data["rows"]] == states
    assert {"right", "wrong", "crashed"} <= set(states)
    film = decompress(b64decode(data["films"][0])).decode()
    for words in (
        "I look around.",
        "are not JSON",
        "{sql: 1",
        "0.5 s · 900 in · 20 out",
        "prompt, 2 messages",
        "gold query",
    ):
        assert words in film, words
    assert film.count("<article") == 2 and "<script" not in film
    assert "i look around." in data["rows"][0]["text"]


def test_a_page_is_one_file_and_nothing_in_it_ends_its_data(page_file):
    page = page_file.read_text()
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    assert page.count("<script") == page.count("</script>") == 3
    assert "default-src 'none'" in page and page.count("'sha256-") == 2


def test_without_questions_text_and_gold_come_from_the_log(logs):
    data = data_of(run_page_html([_read_run(logs[0])]))
    assert all(row["question"] for row in data["rows"])
    assert "gold query" in decompress(b64decode(data["films"][0])).decode()


def test_runs_of_other_lengths_stand_side_by_side(questions, logs, tmp_path):
    log = tmp_path / "oracle.jsonl"
    evaluate(questions, OraclePolicy(questions), 6, log=log, progress=False, robust=False)
    rows = data_of(run_page_html(read_runs([logs[0], log]), questions))["rows"]
    assert len(rows) == N and rows[0]["runs"][1] and rows[N - 1]["runs"][1] is None


def test_names_are_never_equal_and_an_empty_log_is_said(logs, tmp_path):
    assert len({run.name for run in read_runs([logs[0], logs[0], *logs])}) == 4
    (tmp_path / "a.jsonl").write_text('{"policy": "x"}\n')
    with pytest.raises(ValueError, match="holds no episode yet"):
        read_runs([tmp_path])
    with pytest.raises(ValueError, match="no run"):
        run_page_html([])


def test_a_thousand_episodes_are_under_ten_megabytes(page_file):
    "A few episodes of two runs stand for them: bytes an episode, the data alone."
    assert len(page_file.read_text()) / N / 2 < 10_000


def test_a_notebook_shows_the_page_in_a_frame_that_reaches_nothing(logs):
    html = show_runs(logs[0]).data
    assert 'sandbox="allow-scripts"' in html and "allow-same-origin" not in html


def test_steps_of_messages_with_shots_nudges_and_parallel_calls():
    messages = [
        dict(role="system", content="s"),
        dict(role="user", content="another question"),
        dict(role="assistant", content="", tool_calls=[call("answer", '{"value": "1"}')]),
        dict(role="user", content="how many?\n\nSteps: 15"),
        dict(
            role="assistant",
            content="",
            tool_calls=[call("describe", '{"table_name": "t"}'), call("x", "{}")],
        ),
        dict(role="tool", content="t: 3 rows"),
        dict(role="tool", content="no such tool"),
        dict(role="assistant", content="hm"),
        dict(role="user", content="There was no tool call."),
        dict(role="assistant", content="", tool_calls=[call("answer", '{"value": "3"}')]),
    ]
    records = [dict(message=4, seconds=1.0), dict(error="ModelError: 503")]
    said = list(_conversation(messages, records, "how many?"))
    assert [(s.role, s.step) for s in said] == [
        ("assistant", 1), ("tool", 0), ("assistant", 0), ("user", 0), ("assistant", 2), ("error", 0),
    ]  # fmt: skip
    assert said[0].took == records[0] and said[0].calls[1].problem
    assert "ModelError: 503" in render_html(words_html(messages, records))


@pytest.mark.slow
def test_in_a_browser(browser, page_file):  # noqa: F811
    page, errors = open_page(browser, (1300, 900))
    page.goto(page_file.as_uri())
    rows = page.locator("#rx-rows tr")
    assert rows.count() == N
    picture(page, "run_light")

    def chip(name):
        page.click(f"#rx-chips button[value={name}]")
        return rows.count()

    counts = {
        name: chip(name)
        for name in ("right", "wrong", "crashed", "flipped", "only0", "only1", "all")
    }
    assert (
        counts["flipped"]
        and counts["only0"] + counts["only1"] == counts["flipped"]
        and counts["all"] == N
    )
    page.select_option("#rx-difficulty", "easy")
    assert 0 < rows.count() < N
    page.select_option("#rx-difficulty", "")
    page.keyboard.press("/")
    page.keyboard.type("film_festival-0")
    assert 0 < rows.count() < N
    page.keyboard.press("Control+A")
    page.keyboard.type("no such words anywhere")
    assert rows.count() == 0 and page.locator("#rx-none").is_visible()
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.press("Escape")
    page.click("th[data-key=tokens] button")
    tokens = [
        int(t.replace(",", "")) for t in page.locator("#rx-rows td:nth-child(7)").all_inner_texts()
    ]
    assert tokens == sorted(tokens, reverse=True)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#rx-stage article")
    assert page.locator("#rx-where").inner_text().startswith(f"2 of {N}")
    last = page.locator("#sx-position").inner_text()
    page.keyboard.press("Home")
    assert page.locator("#sx-position").inner_text() != last
    assert page.locator(".sx-talk").count() and not page.locator("#rx-overview").is_visible()
    picture(page, "run_film")
    page.keyboard.press("j")
    page.wait_for_function("document.querySelector('#rx-where').textContent.startsWith('3 of ')")
    page.keyboard.press("Escape")
    assert page.locator("#rx-overview").is_visible() and rows.count() == N
    assert page.title().startswith("sql_env") and not errors


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_cut(browser, page_file, scheme):  # noqa: F811
    page, errors = open_page(browser, (390, 800), scheme)
    page.goto(page_file.as_uri() + "#e2")
    page.wait_for_selector("#rx-stage article")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.keyboard.press("Escape")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390 and not errors
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
