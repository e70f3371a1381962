"The page of runs: what it holds, and how it behaves in a real browser."

import json
import re
import shutil
import weakref
from base64 import b64decode
from collections import Counter
from dataclasses import replace
from zlib import decompress

import pytest
from test_explorer_browser import browser, open_page, picture, script  # noqa: F401

from sql_env import ChatPolicy, OraclePolicy, evaluate
from sql_env.evaluation.rows import FAILURES
from sql_env.policies.requests import Completion
from sql_env.view import run as view_run
from sql_env.view.episode import EpisodeView, conversation, view_logged
from sql_env.view.html import render_html
from sql_env.view.page import _words_html, episode_view_html
from sql_env.view.run import read_runs, run_page_html, show_runs, write_run_page

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
    path.write_text(run_page_html(read_runs(logs), unseen), encoding="utf-8")
    return path


def unpack(page, name):
    "The values of all packs of a name."
    packs = re.findall(rf'data-pack="{name}">(.*?)</script>', page)
    return [json.loads(decompress(b64decode(pack))) for pack in packs]


def data_of(page):
    data = json.loads(re.search(r'id="rx-data">(.*?)</script>', page, re.S)[1])
    for name in ("rows", "texts", "films"):
        data[name] = [value for chunk in unpack(page, name) for value in chunk]
    return data


def test_every_episode_is_in_the_page_with_what_the_model_said(page_file, logs):
    page = page_file.read_text()
    data = data_of(page)
    assert len(data["rows"]) == len(data["films"]) == N
    states = [view_run._episode_state(e) for e in read_runs([logs[0]])[0].episodes]
    assert [row["runs"][0]["state"] for row in data["rows"]] == states
    assert {"right", "wrong", "crashed"} <= set(states)
    films = data["films"][0]
    ended = [(kind, title) for kind, text, title, *_ in films[0]["steps"][-1][2] if text]
    assert len(films) == 2 and ended[0] == ("wrong", "Wrong.") and ended[-1] == ("sql", "gold query")
    assert {title for _, title in ended} == {"Wrong.", "answer", "gold", "its last query", "gold query"}
    role, step, took, parts = films[0]["said"][0]
    assert (role, step, took) == ("assistant", 0, "0.5 s · 900 in · 20 out")
    assert [part[:3] for part in parts[:3]] == [
        ["closed", HOSTILE, "reasoning"], ["words", "I look around.", ""], ["act", "{sql: 1", "query"],
    ]  # fmt: skip
    assert len(films[0]["prompt"]) == 2 and parts[3][0] == "error" and "are not JSON" in parts[3][1]
    assert "i look around." in data["texts"][0]


def test_a_page_is_one_file_and_nothing_in_it_ends_its_data(page_file):
    "And a thousand episodes are under ten megabytes: bytes of an episode of each of two runs, the data alone."
    page = page_file.read_text()
    assert not re.findall(r'(?:src|href)="(?!#)', page)
    assert page.count("<script") == page.count("</script>") == 3 + page.count('type="text/plain"')
    assert "default-src 'none'" in page and page.count("'sha256-") == 2
    assert "connect-src" not in page and HOSTILE not in page
    data = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", page, flags=re.S)
    assert len(data) / N / 2 < 3_000


def test_without_questions_text_and_gold_come_from_the_log_and_a_frame_reaches_nothing(logs):
    data = data_of(run_page_html(read_runs([logs[0]])))
    assert all(row["question"] for row in data["rows"])
    [film] = data["films"][0]
    assert film["steps"][-1][2][-1][2] == "gold query" and "neither schema nor gold" in film["note"]
    html = show_runs(logs[0]).data
    assert 'sandbox="allow-scripts"' in html and "allow-same-origin" not in html


def test_names_are_never_equal_a_log_is_read_once_and_runs_may_have_other_lengths(unseen, logs, tmp_path):
    for folder in ("a", "b"):
        shutil.copytree(logs[0].parent, tmp_path / folder)
    assert len({run.name for run in read_runs([tmp_path])}) == 4
    assert len(read_runs([logs[0], logs[0], *logs])) == 2
    with pytest.raises(ValueError, match="no run"):
        run_page_html([])
    log = tmp_path / "oracle.jsonl"
    evaluate(unseen, OraclePolicy(unseen), 6, log=log, progress=False, robust=False)
    rows = data_of(run_page_html(read_runs([logs[0], log]), unseen))["rows"]
    assert len(rows) == N and rows[0]["runs"][1] and rows[N - 1]["runs"][1] is None


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
    assert [(s.role, s.step) for s in others] == steps and "ModelError: 503" in render_html(_words_html(view))


def test_episodes_are_read_one_by_one_and_packed_in_chunks(logs):
    "However long a run is, a chunk of it is in memory."
    [run] = read_runs([logs[0]])
    alive = []

    def read(place):
        trajectory = run.read(place % N)
        alive.append(weakref.ref(trajectory))
        assert sum(ref() is not None for ref in alive) <= 2, "earlier episodes are kept"
        return trajectory

    many = [replace(result, episode_index=i) for i, result in enumerate(list(run.episodes) * 20)]
    parts = list(view_run._run_page_parts(view_run.RowMaker([replace(run, episodes=many, read=read)])))
    assert len(alive) == len(many)  # each one once
    chunks = [part for part in parts if 'data-pack="films"' in part]
    assert len(chunks) == -(-len(many) // 24) and max(map(len, chunks)) < 30_000
    assert "<article" not in "".join(json.dumps(unpack(part, "films")) for part in chunks)  # data, not HTML


def test_failures_are_counted_for_terminal_and_chips_and_an_old_page_stays_if_a_new_one_fails(logs, tmp_path):
    maker, page = view_run.RowMaker(read_runs(logs)), tmp_path / "runs.html"
    write_run_page(page, maker)
    text = page.read_text()
    kinds = Counter(row["runs"][0]["fail"] for row in data_of(text)["rows"])
    assert dict(maker.failures[0]) == {kind: n for kind, n in kinds.items() if kind}
    assert maker.failures[0] and set(maker.failures[0]) <= FAILURES.keys()

    def read(place):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_run_page(page, view_run.RowMaker([replace(read_runs([logs[0]])[0], read=read)]))
    assert page.read_text() == text and list(tmp_path.iterdir()) == [page]


def until(page, condition):
    "Wait for a condition; the page's policy forbids what Playwright's own waiting does."
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def opened(browser, path, run_first=""):  # noqa: F811
    page, errors = open_page(browser, (1300, 900))
    page.add_init_script(run_first)
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]", state="attached")
    return page, errors


@pytest.mark.slow
def test_in_a_browser(browser, page_file):  # noqa: F811
    page, errors = opened(browser, page_file)
    press = page.keyboard.press
    rows, position = page.locator("#rx-rows tr"), page.locator("#sx-position")
    assert rows.count() == N
    picture(page, "run_light")
    counts = {}
    for name in ("right", "wrong", "crashed", "flipped", "only0", "only1", "all"):
        page.click(f"#rx-chips button[value={name}]")
        counts[name] = rows.count()
    assert counts["flipped"] and counts["only0"] + counts["only1"] == counts["flipped"] and counts["all"] == N
    page.select_option("#rx-difficulty", "easy")
    assert 0 < rows.count() < N
    page.select_option("#rx-difficulty", "")
    kind = page.locator("#rx-fails button:not([hidden])").first
    kind.click()
    assert rows.count() == int(kind.locator("small").inner_text())
    kind.click()
    assert rows.count() == N
    press("/")
    page.keyboard.type("film_festival-0")
    until(page, f"document.querySelectorAll('#rx-rows tr').length < {N}")
    assert 0 < rows.count() < N
    press("Control+A")
    page.keyboard.type("no such words anywhere")
    assert rows.count() == 0 and page.locator("#rx-none").is_visible()
    for key in ("Control+A", "Delete", "Escape"):
        press(key)
    page.click("th[data-key=tokens] button")
    tokens = [int(t.replace(",", "")) for t in page.locator("#rx-rows td:nth-child(7)").all_inner_texts()]
    assert tokens == sorted(tokens, reverse=True)
    for key in ("j", "j", "Enter"):
        press(key)
    page.wait_for_selector("#rx-stage article")
    assert page.locator("#rx-where").inner_text().startswith(f"2 of {N}")
    last = position.inner_text()
    press("Home")
    assert position.inner_text() != last
    assert page.locator(".sx-talk").count() and not page.locator("#rx-overview").is_visible()
    picture(page, "run_film")
    press("j")
    until(page, "document.querySelector('#rx-where').textContent.startsWith('3 of ')")
    press("Escape")
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
    page.wait_for_selector("#rx-rows tr")
    cut = "[...document.querySelectorAll('#rx-rows td')].filter(e => e.getBoundingClientRect().right > 391)"
    assert page.evaluate(f"{cut}.length") == 0
    picture(page, f"run_phone_{scheme}")


@pytest.mark.full
@pytest.mark.slow
def test_of_ten_thousand_episodes_only_what_is_looked_at_is_unpacked(browser, unseen, logs, tmp_path):  # noqa: F811
    [run] = read_runs([logs[0]])
    episodes = [replace(run.episodes[i % N], episode_index=i) for i in range(10_000)]
    many = replace(run, episodes=episodes, read=lambda place: run.read(place % N))
    assert write_run_page(tmp_path / "runs.html", view_run.RowMaker([many], unseen)) < 12_000_000
    page, errors = opened(browser, tmp_path / "runs.html", run_first=script("count_unpacked"))
    chunks_of_rows = page.evaluate("window.unpacked")
    assert chunks_of_rows == page.locator("[data-pack=rows]").count() <= 21
    rows = page.locator("#rx-rows tr")
    assert rows.count() == 200  # the others come when somebody scrolls
    page.click("#rx-chips button[value=wrong]")
    rows.nth(150).click()
    page.wait_for_selector("#rx-stage article")
    assert page.evaluate("window.unpacked") == chunks_of_rows + 2  # schemas, a chunk of films
    page.keyboard.press("j")
    until(page, "document.querySelector('#rx-where').textContent.startsWith('152 of ')")
    page.keyboard.press("Escape")
    page.click("#rx-chips button[value=all]")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    until(page, "document.querySelectorAll('#rx-rows tr').length >= 400")
    page.fill("#rx-search", run.episodes[2].question_id)
    until(page, "document.querySelector('#rx-count').textContent.startsWith('7')")
    assert not errors


@pytest.mark.slow
def test_the_script_draws_an_episode_as_python_does(browser, unseen, logs, page_file):  # noqa: F811
    "Part by part: text, the steps of each table of the schema, and marked cells."
    run, look = read_runs(logs)[0], script("drawn")
    page, errors = opened(browser, page_file)
    states = [view_run._episode_state(result) for result in run.episodes]
    places = [i for state in ("right", "wrong", "crashed") for i, s in enumerate(states) if s == state][-9:]
    assert {states[i] for i in places} == {"right", "wrong", "crashed"}
    for place in places:
        played = run.read(place)
        question = unseen.get(played.episode.question_id)
        tables = unseen.database(question.database_name).infos
        view = view_logged(played, run.about, run.name, question, tables)
        page.evaluate(f"location.hash = '#e{place}'")
        until(page, f"location.hash === '#e{place}' && document.querySelector('#rx-stage article')")
        until(page, f"document.querySelector('#rx-where').textContent.includes('{question.question_id}')")
        drawn = page.evaluate(f"({look})(document.querySelector('#rx-stage article'))")
        other = browser.new_page(color_scheme="light")
        other.set_content(render_html(episode_view_html(view)))
        wanted = other.evaluate(f"({look})(document.querySelector('article'))")
        other.close()
        assert drawn == wanted
    assert not errors


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
