"The log format: one writer and one reader, logs that survive a kill, logs of earlier versions."

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from sql_env.episode import EpisodeEnv
from sql_env.evaluation import evaluate
from sql_env.logs import (
    EpisodeLog,
    EpisodeResult,
    Trajectory,
    _log_env,
    check_log,
    episode_result,
    gold_key,
    read_log,
    replay_trajectory,
    write_log,
)
from sql_env.policies.baselines import RandomPolicy
from sql_env.policies.hacks import HACKS
from sql_env.questions import Question
from sql_env.reward import RewardConfig
from sql_env.sources import load

OLD_LOGS = sorted((Path(__file__).parent / "data").glob("log_*.jsonl"))
CONSTANT = HACKS[2]


@lru_cache(None)
def bundled():
    return load("bundled")


def env(n=60, **settings):
    return EpisodeEnv(bundled().sample(n, 3), **settings)


def run(log, episodes=20, policy=None, environment=None, **options):
    "Evaluate on a log."
    policy = policy or RandomPolicy(1)
    return evaluate(environment or env(episodes), policy, log=log, progress=False, **options)


# ---- logs of earlier versions


@pytest.mark.parametrize("path", OLD_LOGS, ids=lambda p: p.stem)
def test_a_log_of_an_earlier_version_is_read_and_reproduces(path, tmp_path):
    "Written by the code of 22 November 2026, before modules were split and fields renamed."
    about, trajectories = read_log(path)
    assert len(trajectories) == {"log_chat": 8, "log_experts": 3}[path.stem]
    assert sum(len(t.turns) for t in trajectories) >= 6
    assert _log_env(about, bundled()).settings is not None
    assert check_log(path, bundled()) == {}
    copy = tmp_path / path.name
    write_log(copy, about, trajectories)
    assert copy.read_bytes().split(b"\n")[1:] == path.read_bytes().split(b"\n")[1:]
    assert read_log(copy) == (about, trajectories)


def test_fields_of_an_old_log():
    about, trajectories = read_log(OLD_LOGS[0])
    assert about["policy"] == "eager" and about["schema_level"] == "columns"
    third = trajectories[2]
    assert third.notes == ["no_call: Let me think."] and third.episode.usage["calls"] == 3
    assert third.reset == {"question_id": "film_festival-25", "seed": 2} and third.seed == 2000008
    crashed = [t for t in trajectories if t.episode.error]
    assert crashed and all(t.episode.error == "ValueError: no luck" for t in crashed)
    assert "no_answer" in {t.episode.reason for t in trajectories}
    styles = {t.style for t in read_log(OLD_LOGS[1])[1]}
    assert styles and "" not in styles


@pytest.mark.parametrize("path", OLD_LOGS, ids=lambda p: p.stem)
def test_an_old_log_can_be_resumed(path, tmp_path):
    copy = tmp_path / "log.jsonl"
    copy.write_bytes(path.read_bytes())
    about, trajectories = read_log(copy)
    log = EpisodeLog(copy, about)
    assert log.done == {t.episode.episode_index: t.episode for t in trajectories}


# ---- results and trajectories


def test_an_unfinished_episode_has_no_reason():
    e = EpisodeEnv(bundled())
    e.reset(question_id="vet_clinic-02", seed=4)
    e.step("DESCRIBE", "visit")
    e.step("SAMPLE", "nothing")
    result = episode_result(e.episode, 3, {"calls": 2})
    assert (result.episode_index, result.correct, result.reason, result.steps) == (3, False, "", 2)
    assert result.error_kinds == ("unknown_table",) and result.usage == {"calls": 2}
    trajectory = Trajectory.from_episode(e.episode)
    assert trajectory.reset == {"question_id": "vet_clinic-02", "seed": 4}
    assert not trajectory.correct and replay_trajectory(e, trajectory) == ""


def test_gold_that_is_trusted_is_not_judged():
    e = EpisodeEnv(bundled())
    e.reset(question_id="vet_clinic-02")
    e.step("QUERY", e.episode.question.gold_sql)
    e.step("ANSWER", "@last")
    assert episode_result(e.episode, trust_gold=True).robust
    assert e.episode._robust is None, "no variant was made"
    assert episode_result(e.episode) == episode_result(e.episode, trust_gold=True)


def test_gold_keys_are_equal_for_equal_sql_only_and_give_nothing_away():
    a, b, c = (
        Question("q", "?", "db", sql, ((1,),))
        for sql in ("SELECT  x FROM t", "select x\nfrom T ;", "SELECT y FROM t")
    )
    assert gold_key(a) == gold_key(b) != gold_key(c)
    assert gold_key(a) != gold_key(replace(a, database_name="other"))
    assert "select" not in gold_key(a).lower()


# ---- writing and resuming


def test_results_of_a_log_keep_every_field(tmp_path):
    about = {"policy": "x"}
    one = EpisodeResult(
        episode_index=3,
        question_id="q",
        correct=True,
        total_reward=0.1 + 0.2,
        steps=4,
        reason="match",
        grounded=True,
        error_kinds=("syntax", "value"),
        database="db",
        difficulty="easy",
        gold="g",
        robust=True,
        usage={"calls": 2},
    )
    two = EpisodeResult(4, "ü\n\ud800", error="E: \x00")
    log = EpisodeLog(tmp_path / "a.jsonl", about)
    log.append(Trajectory(one, {}, [], style="direct", notes=["a note"]))
    log.append(Trajectory(two, {"seed": 1}, [], seed=7))
    assert EpisodeLog(tmp_path / "a.jsonl", about).done == {3: one, 4: two}
    assert read_log(tmp_path / "a.jsonl")[1] == [
        Trajectory(one, {}, [], style="direct", notes=["a note"]),
        Trajectory(two, {"seed": 1}, [], seed=7),
    ]


@pytest.mark.parametrize("keep", [0, 1, 17, 20])
@pytest.mark.parametrize("tail", [b"", b'{"ep', b"\x00\x00\xff"])
def test_a_log_cut_anywhere_resumes_in_the_same_result(tmp_path, keep, tail):
    log = tmp_path / "a.jsonl"
    whole = run(log)
    lines = log.read_bytes().split(b"\n")[:-1]
    log.write_bytes(b"".join(x + b"\n" for x in lines[:keep]) + tail)
    assert run(log) == whole
    assert log.read_bytes().count(b"\n") == 21


def test_a_finished_log_plays_nothing_again(tmp_path):
    log = tmp_path / "a.jsonl"
    whole = run(log)

    class Never(RandomPolicy):
        def select_action(self, observation):
            raise AssertionError("played again")

    assert run(log, policy=Never(1)) == whole


def test_the_log_of_another_run_is_refused_and_kept(tmp_path):
    log = tmp_path / "a.jsonl"
    run(log)
    before = log.read_bytes()
    others = [
        (env(20), CONSTANT, {}),
        (env(20), RandomPolicy(1), dict(seed=1)),
        (env(20), RandomPolicy(2), {}),
        (env(20), RandomPolicy(1), dict(n_episodes=5)),
        (env(21), RandomPolicy(1), {}),
        (env(20, budget=5), RandomPolicy(1), {}),
        (env(20, schema_level="full"), RandomPolicy(1), {}),
        (env(20, reward=RewardConfig.shaped()), RandomPolicy(1), {}),
    ]
    for environment, policy, options in others:
        with pytest.raises(ValueError, match="a.jsonl is the log of another run"):
            run(log, policy=policy, environment=environment, **options)
        assert log.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        b"my precious notes\nsecond line\n",
        b"[1, 2]\n",
        b"\xff\xfe\n\x00\n",
        b'{"a": 1}\n',
        b'{"policy": "x"}\nnot json\n',
        b'{"policy": "x"}\n{"episode": 7}\n',
        b'{"policy": "x"}\n{"turns": []}\n',
        b'{"policy": "x"}\n[]\n',
        b'["policy"]\n',
        b'"policy"\n',
        b"3\n",
    ],
)
def test_a_file_that_is_no_log_is_refused_and_kept(tmp_path, text):
    log = tmp_path / "notes.jsonl"
    log.write_bytes(text)
    with pytest.raises(ValueError, match="notes.jsonl"):
        read_log(log)
    with pytest.raises(ValueError, match="notes.jsonl"):
        run(log, 5, CONSTANT)
    assert log.read_bytes() == text


def test_an_empty_file_is_no_log(tmp_path):
    (tmp_path / "x.jsonl").write_text("")
    with pytest.raises(ValueError, match="x.jsonl is not a log"):
        read_log(tmp_path / "x.jsonl")


def test_a_log_of_a_server_is_not_replayed():
    with pytest.raises(ValueError, match="SomeClient"):
        _log_env({"environment": "SomeClient"}, bundled())


def test_an_episode_without_an_answer_replays(tmp_path):
    "On record its reason is no_answer; played again it is only unfinished."
    log = tmp_path / "a.jsonl"
    run(log, 5)
    about, (first, *_) = read_log(log)
    given_up = replace(
        first, turns=[], episode=replace(first.episode, reason="no_answer", correct=False)
    )
    assert replay_trajectory(_log_env(about, bundled()), given_up) == ""
    wrong = replace(given_up, episode=replace(first.episode, reason="values"))
    assert "verdict" in replay_trajectory(_log_env(about, bundled()), wrong)


def test_a_log_holds_every_turn(tmp_path):
    result = run(tmp_path / "sub" / "a.jsonl", 10)
    about, *lines = map(json.loads, (tmp_path / "sub" / "a.jsonl").read_text().splitlines())
    assert about == result.settings and len(lines) == 10
    for line, episode in zip(lines, result.episodes):
        assert line["episode"]["question_id"] == line["reset"]["question_id"] == episode.question_id
        assert len(line["turns"]) == episode.steps and line["turns"][-1]["action"][0] == "ANSWER"
