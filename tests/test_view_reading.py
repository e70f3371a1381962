"Runs of any folder: bad logs, half lines, logs that grow, and Inspect's files."

import json
import shutil
import sys
import zipfile
from dataclasses import replace
from importlib.util import find_spec

import pytest

from sql_env.evaluation.harness import evaluate
from sql_env.evaluation.logs import EpisodeLog, read_log
from sql_env.evaluation.rows import Trajectory
from sql_env.policies.baselines import GreedyPolicy, OraclePolicy
from sql_env.sources.loading import load
from sql_env.view.logs import InspectLog, JsonlLog, RunReader, read_runs
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
    monkeypatch.setattr(
        "sql_env.view.logs.parse_line", lambda line: parsed.append(1) or json.loads(line)
    )
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


# Inspect


def call(name, value, id):
    parameter = dict(describe="table_name", query="sql", answer="value")[name]
    return dict(id=id, function=name, arguments={parameter: value})


NO_TABLE = "{'error': 'unknown_table: no such table'}"


def sample(id, epoch=1, correct=1, **changes):
    "A sample of Inspect."
    messages = [
        dict(role="system", content="You answer <b>questions</b>."),
        dict(role="user", content="How many?\n\nTables:\nentry\n\nSteps: 15"),
        dict(
            role="assistant",
            content=[dict(type="reasoning", reasoning="hm"), dict(type="text", text="Look.")],
            tool_calls=[call("describe", "nothing", "1"), call("query", "SELECT 1", "2")],
        ),
        dict(role="tool", tool_call_id="1", function="describe", content=NO_TABLE),
        dict(role="tool", tool_call_id="2", function="query", content="1\n1\n(3 steps left)"),
        dict(role="assistant", content="It is one.", tool_calls=[]),
        dict(role="user", content="There was no tool call."),
        dict(role="assistant", content="", tool_calls=[call("answer", "@last", "3")]),
        dict(role="tool", tool_call_id="3", function="answer", content="The answer was submitted."),
    ]
    usage = dict(input_tokens=100, output_tokens=10, total_tokens=110)
    said = dict(message=dict(role="assistant", content=""), stop_reason="stop")
    event = dict(event="model", model="gpt", input=[], tools=[], tool_choice="auto", config={})
    event["output"] = dict(model="gpt", usage=usage, time=0.5, choices=[said])
    score = dict(value=correct, answer="@last", explanation="match" if correct else "values")
    about = dict(database="film_festival", difficulty="easy", gold_sql="SELECT COUNT(*) FROM entry")
    values = dict(
        id=id, epoch=epoch, input="How many?", target="", messages=messages, metadata=about
    )
    scores = dict(correct=score, robust=score | dict(value=float("nan")), grounded=score)
    return values | dict(scores=scores, events=[event] * 3, store={}) | changes


def write_eval(path, samples, is_whole=True):
    "A log as Inspect writes it; one that is not whole has no header yet."
    from inspect_ai.log import EvalLog, write_eval_log

    config = dict(
        dataset=dict(name="bundled", sample_ids=["film_festival-02", "film_festival-05"]), config={}
    )
    run = dict(model="openai/gpt", created="2026-11-25T03:00:00+00:00", task="bundled") | config
    plan = dict(steps=[dict(solver="sql_env/start_episode", params=dict(budget=9))])
    write_eval_log(EvalLog.model_validate(dict(eval=run, plan=plan, samples=samples)), str(path))
    if not is_whole:
        with zipfile.ZipFile(path) as archive:
            files = {n: archive.read(n) for n in archive.namelist() if n.startswith("samples/")}
            header = json.loads(archive.read("header.json"))
        with zipfile.ZipFile(path, "w") as archive:
            start = dict(version=2, eval=header["eval"], plan=header["plan"])
            archive.writestr("_journal/start.json", json.dumps(start))
            for name, content in files.items():
                archive.writestr(name, content)
    return path


with_inspect = pytest.mark.skipif(
    find_spec("inspect_ai") is None, reason="no inspect_ai: install sql_env[inspect]"
)


@with_inspect
@pytest.mark.parametrize("is_whole", [True, False])
def test_samples_of_inspect_are_episodes(questions, tmp_path, is_whole):
    samples = [
        sample("film_festival-05", correct=0),
        sample("film_festival-02"),
        sample(
            "film_festival-02",
            epoch=2,
            error=dict(message="Timeout", traceback="", traceback_ansi=""),
        ),
    ]
    path = write_eval(tmp_path / "a.eval", samples, is_whole=is_whole)
    [run] = read_runs([path])
    assert run.name == "openai/gpt" and run.about["budget"] == 9
    assert [e.episode_index for e in run.episodes] == [0, 1, 2]
    first, second, third = run.episodes
    assert first.correct and first.robust is None and first.grounded and first.reason == "match"
    assert third.error == "Timeout" and second.reason == "values"
    assert second.usage == dict(
        calls=3, prompt_tokens=300, completion_tokens=30, seconds=1.5, no_call=1
    )
    trajectory = run.read(1)
    assert [t.action.action_type for t in trajectory.turns] == ["DESCRIBE", "QUERY", "ANSWER"]
    assert trajectory.turns[0].error == "unknown_table: no such table"
    assert trajectory.turns[1].result == "1\n1" and second.error_kinds == ("unknown_table",)
    assert trajectory.messages[0]["content"] == "You answer <b>questions</b>."
    assert trajectory.messages[2]["reasoning_content"] == "hm"
    film = RowMaker([run], questions).films([1])[0]
    assert film["fail"] == "wrong join" and len(film["said"]) == 4  # a reminder among them
    assert film["said"][0].took == "0.5 s · 100 in · 10 out"
    assert "<b>" not in run_page_html([run], questions)


@with_inspect
def test_runs_of_inspect_and_ours_stand_side_by_side(folder, questions, tmp_path):
    write_eval(folder / "b.eval", [sample("film_festival-02")])
    reader = RunReader([folder])
    reader.update()
    assert [run.name for run in reader.runs] == ["openai/gpt", "greedy", "oracle"]
    assert len(run_page_html(reader.runs, questions)) > 1000


@with_inspect
@pytest.mark.parametrize(
    "make, said",
    [
        (lambda path: path.write_bytes(b"PK no zip"), "not a log of Inspect"),
        (lambda path: path.write_bytes(b""), "not a log of Inspect"),
        (lambda path: write_eval(path, []), "holds no sample yet"),
        (lambda path: write_eval(path, [sample("a", scores=dict(match=dict(value=1)))]), "another task"),
        (lambda path: path.write_bytes((write_eval(path, []), path.read_bytes()[:99])[1]), "not whole yet"),
    ],
)  # fmt: skip
def test_other_files_of_that_name_are_left_out_with_a_word(folder, make, said):
    make(folder / "x.eval")
    reader = RunReader([folder])
    reader.update()
    assert len(reader.runs) == 2 and said in reader.skipped[0]


@with_inspect
def test_a_file_that_grows_is_read_again_and_half_of_one_keeps_what_was_there(tmp_path):
    path = write_eval(tmp_path / "a.eval", [sample("film_festival-02")], is_whole=False)
    log = InspectLog(path)
    assert log.update() and not log.update() and len(log.episodes) == 1
    path.write_bytes(path.read_bytes()[:-30])
    assert log.update() and len(log.episodes) == 1 and not log.problem
    write_eval(path, [sample("film_festival-02"), sample("film_festival-05")])
    assert log.update() and len(log.episodes) == 2


def test_without_inspect_the_word_is_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.eval").write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    log = InspectLog(tmp_path / "a.eval")
    log.update()
    assert 'pip install "sql_env[inspect]"' in log.problem


@pytest.mark.slow
@with_inspect
def test_what_inspect_wrote_is_what_inspect_reads(questions, tmp_path):
    import inspect_ai
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from sql_env.integrations.inspect_ai import question_task

    some = questions.with_questions(list(questions)[:4])
    gold = {q.question_text: q.gold_sql for q in some}

    def say(messages, *_):
        asked = next(q for q in gold if messages[1].text.startswith(q))
        said = sum(m.role == "assistant" for m in messages)
        is_right = list(gold).index(asked) % 2
        steps = [
            ("query", {"sql": gold[asked] if is_right else "SELECT 'x'"}),
            ("answer", {"value": "@last"}),
        ]
        output = ModelOutput.for_tool_call("mock", *steps[min(said, 1)])
        output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
        return output

    model = get_model("mockllm/model", custom_outputs=say, memoize=False)
    [log] = inspect_ai.eval(
        question_task(some), model, display="none", log_dir=str(tmp_path), epochs=2
    )
    [run] = read_runs([tmp_path])
    assert len(run.episodes) == 8 and run.result.success_rate == 0.5
    theirs = {(s.id, s.epoch): s.scores["correct"].value for s in log.samples}
    assert len(theirs) == 8
    for place, result in enumerate(run.episodes):
        trajectory = run.read(place)
        assert result.correct == theirs[result.question_id, trajectory.reset["seed"] + 1]
        assert [t.action.action_type for t in trajectory.turns] == ["QUERY", "ANSWER"]
        assert result.usage["prompt_tokens"] == 200 and result.robust is result.correct
