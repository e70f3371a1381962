"Runs of any folder: bad logs, half lines, and logs that grow."

import json
import shutil
from dataclasses import replace

import pytest
from tables import cases

from sql_env import GreedyPolicy, OraclePolicy, evaluate
from sql_env.evaluation.logs import EpisodeLog, read_log
from sql_env.evaluation.rows import Trajectory
from sql_env.view.logs import JsonlLog, RunReader, read_runs
from sql_env.view.run import RowMaker, run_page_html, write_run_page

N = 6


@pytest.fixture(scope="module")
def good(unseen, tmp_path_factory):
    "Logs of two policies."
    folder = tmp_path_factory.mktemp("good")
    for policy in (GreedyPolicy(), OraclePolicy(unseen)):
        log = folder / f"{policy.name}.jsonl"
        evaluate(unseen, policy, N, log=log, progress=False, robust=False)
    return folder


@pytest.fixture
def folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / "runs")


def read_now(path):
    reader = RunReader([path])
    reader.update()
    return reader


@pytest.mark.parametrize("content", ["HEADER\n", "HALF", "[" * 100_000 + "\n", *cases("view_reading_bad_logs")])
def test_a_bad_log_is_left_out_with_a_word(folder, content):
    header = (folder / "greedy.jsonl").read_text().splitlines()[0]
    (folder / "bad.jsonl").write_text(content.replace("HEADER", header).replace("HALF", header[:40]))
    reader = read_now(folder)
    assert [run.name for run in reader.runs] == ["greedy", "oracle"]
    [said] = reader.skipped
    assert said.startswith("bad.jsonl: ") and said.endswith(".")
    assert "There is no run" not in run_page_html(reader.runs)


def test_lines_that_can_not_be_read_are_left_out_and_counted(folder, sql_env):
    log = folder / "greedy.jsonl"
    header, *lines = log.read_text().splitlines()
    lines[2], lines[4] = lines[2][:50], '{"episode": 7}'
    log.write_text("\n".join([header, *lines, lines[0][:30]]))
    reader = read_now(log)
    assert [e.episode_index for e in reader.runs[0].episodes] == [0, 1, 3, 5] and len(reader.runs) == 1
    assert reader.skipped == ["greedy.jsonl: 2 lines can't be read and are left out."]
    assert reader.skipped[0] in " ".join(sql_env("compare", log, log.with_name("oracle.jsonl"))[2].split())


def test_half_of_a_surrogate_pair_and_bytes_of_another_encoding_do_no_harm(folder, tmp_path):
    log, page = folder / "greedy.jsonl", tmp_path / "page.html"
    header, first, *lines = log.read_text().splitlines()
    said = dict(role="assistant", content="half \ud83d of it", reasoning_content="\udc00")
    changes = dict(messages=[said], notes=["no_call: \ud83d"], question_text="\ud83d?")
    header = json.dumps(json.loads(header) | dict(policy="model \ud83d"))
    content = "\n".join([header, json.dumps(json.loads(first) | changes), *lines, ""]).encode()
    log.write_bytes(content.replace(b'"started"', b'"st\xff"', 1))
    runs = read_runs([log])
    write_run_page(page, RowMaker(runs))
    assert "model" in page.read_text(encoding="utf-8")
    assert "\ud83d" in runs[0].read(0).messages[0]["content"]


@pytest.mark.parametrize("name, content, words", cases("view_reading_no_run"))
def test_a_folder_without_a_run_says_why(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=words):
        read_runs([tmp_path])


def test_what_is_left_out_is_warned_of(folder):
    (folder / "z.jsonl").write_text("text\n")
    with pytest.warns(UserWarning, match="z.jsonl: is not a log of sql_env"):
        assert len(read_runs([folder])) == 2


def test_a_log_is_read_on_from_where_it_ended(folder, tmp_path, monkeypatch):
    whole = (folder / "greedy.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "growing.jsonl"
    path.write_bytes(b"")
    log, parsed, seen = JsonlLog(path), [], []
    monkeypatch.setattr("sql_env.view.logs.parse_line", lambda line: parsed.append(1) or json.loads(line))
    assert not log.update() and log.problem
    with path.open("ab", buffering=0) as file:
        for line in whole:
            file.write(line[:20])  # half a line is not taken in
            assert not log.update()
            file.write(line[20:])
            assert log.update()
            seen.append(len(log.episodes))
    assert seen == [0, *range(1, N + 1)] and len(parsed) == N + 1  # each line once
    path.write_bytes(b"".join(whole[:3]))  # another run under the same name
    assert log.update() and len(log.episodes) == 2


def test_a_second_try_takes_the_place_of_a_crash_and_prices_are_of_the_last_start(folder):
    about, (first, second, *_) = read_log(folder / "greedy.jsonl")
    usage = dict(usage=dict(prompt_tokens=1000, cost=9))
    crashed = replace(first.episode, error="E: x", verdicts={})
    results = [crashed, replace(second.episode, **usage), replace(first.episode, **usage)]
    log = folder / "priced.jsonl"
    starts = [about | dict(policy_settings=dict(price=[price, price])) for price in (5, 2)]
    lines = [starts[0], *[Trajectory(r, {}, []).to_dict() for r in results], starts[1]]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    [run] = read_runs([log])
    strict = sorted((t.episode for t in read_log(log)[1]), key=lambda e: e.episode_index)
    assert list(run.episodes) == strict and run.episodes[0].usage["cost"] == 0.002
    assert [t.episode for t in run.trajectories] == strict


def test_a_log_that_is_written_now_is_seen_with_its_episodes_so_far(good, tmp_path):
    log = EpisodeLog(tmp_path / "a.jsonl", dict(policy="p", episodes=3))
    reader = read_now(tmp_path)
    assert not reader.runs and reader.skipped == ["a.jsonl: holds no episode yet."]
    for n, trajectory in enumerate(read_log(good / "greedy.jsonl")[1][:3], 1):
        log.append(trajectory)
        reader = read_now(tmp_path / "a.jsonl")
        assert len(reader.runs[0].episodes) == n and not reader.skipped


def test_a_file_that_is_gone_is_named_and_its_episodes_show_what_is_known(folder, unseen):
    reader = read_now(folder)
    runs = reader.runs
    (folder / "greedy.jsonl").unlink()
    reader.update()
    row = RowMaker(runs, unseen).row([0, 0])
    assert row.row["runs"][0]["state"] == "wrong" and len(row.films[0]["steps"]) == 1
