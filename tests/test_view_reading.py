"Runs of any folder: bad logs, half lines, and logs that grow."

import json
import shutil
from dataclasses import replace

import pytest

from sql_env import GreedyPolicy, OraclePolicy, evaluate, load
from sql_env.evaluation.logs import EpisodeLog, read_log
from sql_env.evaluation.rows import Trajectory
from sql_env.view.logs import JsonlLog, RunReader, read_runs
from sql_env.view.run import RowMaker, run_page_html, write_run_page

N = 6


@pytest.fixture(scope="module")
def questions():
    return load("bundled", split="test")


@pytest.fixture(scope="module")
def good(questions, tmp_path_factory):
    "Logs of two policies."
    folder = tmp_path_factory.mktemp("good")
    for policy in (GreedyPolicy(), OraclePolicy(questions)):
        log = folder / f"{policy.name}.jsonl"
        evaluate(questions, policy, N, log=log, progress=False, robust=False)
    return folder


@pytest.fixture
def folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / "runs")


def spoil(text, **changes):
    "A line of a log with other values."
    return json.dumps(json.loads(text) | changes)


BAD = dict(
    header_only=lambda lines: lines[0] + "\n",
    empty=lambda lines: "",
    half_a_header=lambda lines: lines[0][:40],
    foreign=lambda lines: '{"text": "of somebody else"}\n',
    no_json=lambda lines: "a line of text\n",
    a_list=lambda lines: "[1, 2]\n",
    a_number=lambda lines: "3\n",
    another_form=lambda lines: '{"policy": "x"}\n{"episode": {"a": 1}}\n',
    nested=lambda lines: "[" * 100_000 + "\n",
)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_log_is_left_out_with_a_word(folder, name):
    lines = (folder / "greedy.jsonl").read_text().splitlines()
    content = BAD[name](lines)
    (folder / f"{name}.jsonl").write_text(content)
    reader = RunReader([folder])
    reader.update()
    assert [run.name for run in reader.runs] == ["greedy", "oracle"]
    [said] = reader.skipped
    assert said.startswith(f"{name}.jsonl: ") and said.endswith(".")
    assert "There is no run" not in run_page_html(reader.runs)


def test_lines_that_can_not_be_read_are_left_out_and_counted(folder):
    log = folder / "greedy.jsonl"
    header, *lines = log.read_text().splitlines()
    lines[2] = lines[2][:50]
    lines[4] = '{"episode": 7}'
    log.write_text("\n".join([header, *lines, lines[0][:30]]))
    reader = RunReader([log])
    reader.update()
    [run] = reader.runs
    assert [e.episode_index for e in run.episodes] == [0, 1, 3, 5]
    assert reader.skipped == ["greedy.jsonl: 2 lines can't be read and are left out."]


def test_half_of_a_surrogate_pair_and_bytes_of_another_encoding_do_no_harm(folder, tmp_path):
    log = folder / "greedy.jsonl"
    header, first, *lines = log.read_text().splitlines()
    said = dict(role="assistant", content="half \ud83d of it", reasoning_content="\udc00")
    first = spoil(first, messages=[said], notes=["no_call: \ud83d"], question_text="\ud83d?")
    header = spoil(header, policy="model \ud83d")
    content = "\n".join([header, first, *lines, ""]).encode()
    log.write_bytes(content.replace(b'"started"', b'"st\xff"', 1))
    runs = read_runs([log])
    page = tmp_path / "page.html"
    write_run_page(page, RowMaker(runs))
    assert "model" in page.read_text(encoding="utf-8")
    assert "\ud83d" in runs[0].read(0).messages[0]["content"]


def test_a_folder_without_a_run_says_why(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"policy": "x"}\n')
    with pytest.raises(ValueError, match="There is no run .* a.jsonl: holds no episode yet."):
        read_runs([tmp_path])


def test_what_is_left_out_is_warned_of(folder):
    (folder / "z.jsonl").write_text("text\n")
    with pytest.warns(UserWarning, match="z.jsonl: is not a log of sql_env"):
        assert len(read_runs([folder])) == 2


def test_a_log_is_read_on_from_where_it_ended(folder, tmp_path, monkeypatch):
    whole = (folder / "greedy.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "growing.jsonl"
    path.write_bytes(b"")
    log, parsed = JsonlLog(path), []
    monkeypatch.setattr("sql_env.view.logs.parse_line", lambda line: parsed.append(1) or json.loads(line))
    assert not log.update() and log.problem
    seen = []
    with path.open("ab") as file:
        for line in whole:
            file.write(line[:20])  # half a line is not taken in
            file.flush()
            assert not log.update()
            file.write(line[20:])
            file.flush()
            assert log.update()
            seen.append(len(log.episodes))
    assert seen == [0, *range(1, N + 1)] and len(parsed) == N + 1  # each line once
    path.write_bytes(b"".join(whole[:3]))  # another run under the same name
    assert log.update() and len(log.episodes) == 2


def test_a_second_try_takes_the_place_of_a_crash_and_prices_are_of_the_last_start(folder):
    about, found = read_log(folder / "greedy.jsonl")
    usage = dict(prompt_tokens=1000, cost=9)
    results = [
        replace(found[0].episode, error="E: x", verdicts={}),
        replace(found[1].episode, usage=usage),
        replace(found[0].episode, usage=usage),
    ]
    log = folder / "priced.jsonl"
    about["policy_settings"] = dict(price=[5, 5])
    other = about | dict(policy_settings=dict(price=[2, 2]))
    lines = [about, *[Trajectory(r, {}, []).to_dict() for r in results], other]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    [run] = read_runs([log])
    strict = sorted((t.episode for t in read_log(log)[1]), key=lambda e: e.episode_index)
    assert list(run.episodes) == strict and run.episodes[0].usage["cost"] == 0.002
    assert [t.episode for t in run.trajectories] == strict


def test_a_log_that_is_written_now_is_seen_with_its_episodes_so_far(questions, tmp_path):
    log = EpisodeLog(tmp_path / "a.jsonl", dict(policy="p", episodes=3))
    reader = RunReader([tmp_path])
    reader.update()
    assert not reader.runs and reader.skipped == ["a.jsonl: holds no episode yet."]
    _, found = read_log(evaluate_log(questions, tmp_path / "other"))
    for n, trajectory in enumerate(found, 1):
        log.append(trajectory)
        reader = RunReader([tmp_path / "a.jsonl"])
        reader.update()
        assert len(reader.runs[0].episodes) == n and not reader.skipped


def evaluate_log(questions, folder):
    evaluate(questions, GreedyPolicy(), 3, log=folder / "g.jsonl", progress=False, robust=False)
    return folder / "g.jsonl"


def test_a_file_that_is_gone_is_named_and_its_episodes_show_what_is_known(folder, questions):
    reader = RunReader([folder])
    reader.update()
    runs = reader.runs
    (folder / "greedy.jsonl").unlink()
    reader.update()
    row = RowMaker(runs, questions).row([0, 0])
    assert row.row["runs"][0]["state"] == "wrong" and len(row.films[0]["steps"]) == 1


def test_a_log_of_inspect_is_left_out_with_a_word(tmp_path):
    (tmp_path / "a.eval").write_bytes(b"PK\x03\x04\n")
    with pytest.raises(ValueError, match="a.eval: is not a log of sql_env evaluate; see it with: inspect view"):
        read_runs([tmp_path])
