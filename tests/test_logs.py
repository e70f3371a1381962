"The log format: one writer and one reader, logs that survive a kill, rows that know their content."

import json
from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath
from types import SimpleNamespace

import pytest
from made_rows import made_row, replay_problems
from made_sets import bundled
from tables import cases

from sql_env import EpisodeEnv, Question, RewardConfig, evaluate, load
from sql_env.database.guards import _file_uri
from sql_env.evaluation import compare, logs
from sql_env.evaluation.logs import EpisodeLog, _log_env, read_log
from sql_env.evaluation.results import summary
from sql_env.evaluation.rows import BLAMES, Trajectory, question_hashes
from sql_env.grading.answers import Verdict
from sql_env.play.episode import Action, Turn
from sql_env.policies import HACKS, ModelError, OraclePolicy, RandomPolicy, RolloutAborted, ScriptedPolicy

CONSTANT = HACKS[2]


def env(n=60, **settings):
    return EpisodeEnv(bundled().sample(n, 3), **settings)


def run(log, episodes=20, policy=None, environment=None, **options):
    "Evaluate on a log."
    policy = policy or RandomPolicy(1)
    return evaluate(environment or env(episodes), policy, log=log, progress=False, **options)


# ---- logs of earlier versions
def test_a_log_of_another_format_says_what_to_do(tmp_path):
    log = tmp_path / "old.jsonl"
    log.write_text('{"policy": "x", "sql_env": "0.0.9", "format": 2}\n{"episode_index": 0}\n')
    for read in (read_log, lambda path: run(path, 5), lambda path: replay_problems(path, bundled())):
        with pytest.raises(ValueError, match="old.jsonl has format 2.*format 4: play it again.*0.0.9"):
            read(log)


# ---- what a row knows
def changed(row, path, **fields):
    "The hashes that differ after a change of the question."
    question = bundled().get("vet_clinic-02")
    new = question_hashes(question.with_fields(**fields), path)
    return {name for name in row.hashes if row.hashes[name] != new.get(name)}


def test_a_row_knows_the_content_and_not_the_name_and_golds_are_equal_for_equal_sql_only(tmp_path):
    run(tmp_path / "a.jsonl", environment=EpisodeEnv(bundled().filter(question_id="vet_clinic-02")))
    row = read_log(tmp_path / "a.jsonl")[1][0]
    assert set(row.hashes) == {"question", "gold", "database"}
    there = bundled().databases["vet_clinic"]
    copy = tmp_path / "copied.sqlite"
    copy.write_bytes(there.read_bytes())
    assert changed(row, copy) == set(), "a copy under another name is the same database"
    assert changed(row, copy, question_id="other", database_name="x", difficulty="hard") == set()
    assert changed(row, copy, question_text="How many visits?") == {"question"}
    assert changed(row, copy, gold_sql="SELECT 1") == {"gold"}
    with copy.open("r+b") as file:
        file.seek(60)
        file.write(b"\x07")
    assert changed(row, copy) == {"database"}
    mended = bundled().get("vet_clinic-02").with_fields(other_answers=(((1,),),))
    assert question_hashes(mended)["gold"] != row.hashes["gold"]
    said = "SELECT  x FROM t", "select x\nfrom T ;", "SELECT y FROM t"
    a, b, c = (question_hashes(Question("q", "?", "db", sql, ((1,),)))["gold"] for sql in said)
    assert a == b != c
    one, other = (made_row(0, database=name, hashes=dict(gold=a)).gold for name in ("db", "other"))
    assert one != other, "the same text on two databases is no one gold"


class Blamed(RandomPolicy):
    "Ends each episode in another way, by its number."

    def reset(self, seed):
        super().reset(seed)
        self.number = seed % 7 if seed < 7 else -1

    def select_action(self, observation):
        too_long = RolloutAborted("the conversation is too long for the model")
        errors = {3: ModelError("503"), 4: RolloutAborted("no usable call"), 5: too_long, 6: OSError("no disk")}
        if self.number in errors:
            raise errors[self.number]
        moves = {0: ("ANSWER", "987654.321"), 1: ("DESCRIBE", "x"), 2: ("ANSWER", "@last")}
        if self.number == 2 and observation.step_count == 0:
            return Action("QUERY", self.gold[observation.question])
        return Action(*moves[self.number])


def test_blame_says_whose_fault_it_was(tmp_path):
    e, policy = env(7), Blamed()
    policy.gold = {q.question_text: q.gold_sql for q in e.questions}
    result = run(tmp_path / "a.jsonl", 7, policy, e)
    blamed = ["model", "limit", None, "server", "model", "limit", "environment"]
    assert [x.blame for x in result.episodes] == blamed
    assert [x.error is None for x in result.episodes] == [True, True, True, False, True, True, False]
    counts = dict(model=2, limit=2, server=1, environment=1)
    assert summary(result)["blame"] == counts and set(counts) == set(BLAMES)
    assert "2 by model, 2 by limit" in result.blame_text
    again = logs.rescore_log(tmp_path / "a.jsonl", e.questions)
    assert [t.blame for t in again.trajectories] == blamed
    assert all(set(t.versions) == {"sql_env", "sqlite"} for t in read_log(tmp_path / "a.jsonl")[1])


# ---- results and trajectories
def test_an_unfinished_episode_has_no_reason_and_gold_that_is_trusted_is_not_judged():
    e = EpisodeEnv(bundled())
    e.reset(question_id="vet_clinic-02", seed=4)
    e.step("DESCRIBE", "visit")
    e.step("SAMPLE", "nothing")
    result = Trajectory.from_episode(e.episode, episode_index=3, usage={"calls": 2})
    assert (result.episode_index, result.correct, result.reason, result.steps) == (3, False, "", 2)
    assert result.error_kinds == ("unknown_table",) and result.usage == {"calls": 2}
    trajectory = Trajectory.from_episode(e.episode)
    assert trajectory.reset == {"question_id": "vet_clinic-02", "seed": 4}
    assert not trajectory.correct
    e.reset(question_id="vet_clinic-02")
    e.step("QUERY", e.episode.question.gold_sql)
    e.step("ANSWER", "@last")
    assert Trajectory.from_episode(e.episode, trust_gold=True).robust
    assert "robust" not in e.episode.ask._judged, "no variant was made"
    assert Trajectory.from_episode(e.episode) == Trajectory.from_episode(e.episode, trust_gold=True)


# ---- writing and resuming
def test_results_of_a_log_keep_every_field(tmp_path):
    about = {"policy": "x"}
    fields = dict(total_reward=0.1 + 0.2, steps=4, blame="limit", grounded=True, env_seconds=0.25)
    fields |= dict(database="db", difficulty="easy", hashes=dict(gold="g"), usage={"calls": 2})
    fields |= dict(robust="no_variants", certified=False, turns_correct=(True, False))
    one, two = made_row(3, correct=True, **fields), made_row(4, "ü\n😀", error="E: \x00", reset={"seed": 1}, seed=7)
    turn = Turn(Action("QUERY", "SELECT 1"), "1", "syntax: x", {"step": -0.5})
    one.turns, one.style, one.notes = [turn], "direct", ["a note"]
    rows = [one, two]
    with EpisodeLog(tmp_path / "a.jsonl", about) as log:
        for row in rows:
            log.append(row)
    again = EpisodeLog(tmp_path / "a.jsonl", about)
    assert (again.done, again.crashed) == ({3: one}, {4: two})
    assert read_log(tmp_path / "a.jsonl")[1] == rows


@pytest.mark.parametrize("keep", [0, 1, 17, 20])
@pytest.mark.parametrize("tail", [b"", b'{"ep', b"\x00\x00\xff"])
def test_a_log_cut_anywhere_resumes_in_the_same_result(tmp_path, keep, tail):
    log = tmp_path / "a.jsonl"
    whole = run(log)
    lines = log.read_bytes().split(b"\n")[:-1]
    log.write_bytes(b"".join(x + b"\n" for x in lines[:keep]) + tail)
    assert run(log) == whole
    headers = 2 if keep else 1  # one for each start
    assert log.read_bytes().count(b"\n") == 20 + headers


def test_a_finished_log_plays_nothing_again_and_that_of_another_run_is_refused_and_kept(tmp_path):
    log = tmp_path / "a.jsonl"
    whole = run(log)

    class Never(RandomPolicy):
        def select_action(self, observation):
            raise AssertionError("played again")

    assert run(log, policy=Never(1)) == whole
    before = log.read_bytes()
    others = [
        dict(policy=CONSTANT),
        dict(seed=1),
        dict(policy=RandomPolicy(2)),
        dict(environment=env(21)),
        dict(environment=env(20, budget=5)),
        dict(environment=env(20, schema_level="full")),
        dict(environment=env(20, reward=RewardConfig.shaped())),
    ]
    for other in others:
        with pytest.raises(ValueError, match="a.jsonl is the log of another run"):
            run(log, **other)
        assert log.read_bytes() == before


def test_a_file_that_is_no_log_is_refused_and_kept_and_a_wrong_line_is_named(tmp_path):
    log = tmp_path / "notes.jsonl"
    for text in cases("logs_a_file_that_is_no_log"):
        log.write_bytes(text)
        for read in (read_log, lambda path: run(path, 5, CONSTANT)):
            with pytest.raises(ValueError, match="notes.jsonl"):
                read(log)
        assert log.read_bytes() == text
    (tmp_path / "x.jsonl").write_text("")
    with pytest.raises(ValueError, match="x.jsonl is not a log of episodes"):
        read_log(tmp_path / "x.jsonl")
    run(tmp_path / "a.jsonl", 3)
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    (tmp_path / "a.jsonl").write_text("\n".join([*lines[:2], "{}", *lines[2:], ""]))
    with pytest.raises(ValueError, match="a.jsonl, line 3"):
        read_log(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match="SomeClient"):
        _log_env({"environment": "SomeClient"}, bundled())


def test_a_log_holds_every_turn_and_an_episode_without_an_answer_replays(tmp_path):
    "An answer that never came has the reason no_answer on record; played again it is only unfinished."
    log = tmp_path / "sub" / "a.jsonl"
    result = run(log, 10)
    about, (first, *_) = read_log(log)
    no_answer, values = (dict(value=Verdict(False, why)) for why in ("no_answer", "values"))
    given_up = first.model_copy(update=dict(turns=[], verdicts=no_answer))
    differs = logs.replay_trajectory(_log_env(about, bundled()), given_up, robust=None)[1]
    assert not [said for said in differs if "reason" in said or said.startswith("turns")]
    wrong = given_up.model_copy(update=dict(verdicts=values))
    assert "value.reason" in str(logs.replay_trajectory(_log_env(about, bundled()), wrong)[1])
    about, *lines = map(json.loads, log.read_text().splitlines())
    assert {name: about[name] for name in result.settings} == result.settings and len(lines) == 10
    for line, episode in zip(lines, result.episodes):
        assert line["question_id"] == line["reset"]["question_id"] == episode.question_id
        assert len(line["turns"]) == episode.steps and line["turns"][-1]["action"][0] == "ANSWER"


# ---- tries, growth
class Unlucky(RandomPolicy):
    "Crashes in every third episode until its server is well."

    is_well = False

    def reset(self, seed):
        super().reset(seed)
        self.seed_now = seed

    def select_action(self, observation):
        if self.seed_now % 3 == 0 and not self.is_well:
            raise ConnectionError("busy")
        return super().select_action(observation)


def test_a_crashed_episode_is_played_again_and_its_row_stays_as_history(tmp_path):
    log = tmp_path / "a.jsonl"
    first = run(log, policy=Unlucky(1))
    crashed = [e.episode_index for e in first.episodes if e.error]
    assert crashed and len(crashed) < 20
    well = Unlucky(1)
    well.is_well = True
    second = run(log, policy=well)
    assert second.n_completed == 20
    assert second == run(tmp_path / "b.jsonl", policy=well), "as if nothing had happened"
    lines = log.read_bytes().split(b"\n")[:-1]
    assert len(lines) == 2 + 20 + len(crashed), "each completed episode was played once"
    about, trajectories = read_log(log)
    assert sorted(t.episode_index for t in trajectories) == list(range(20))
    assert not any(t.error for t in trajectories)
    assert about["started"] == json.loads(lines[0])["started"]


def test_a_run_grows_and_a_part_of_it_is_no_other_run(tmp_path):
    log = tmp_path / "a.jsonl"
    e = env(20)
    run(log, environment=e, n_episodes=5)
    before = log.read_bytes()
    whole = run(log, environment=e, n_episodes=12)
    assert log.read_bytes().startswith(before) and log.read_bytes().count(b"\n") == 14
    assert read_log(log)[0]["episodes"] == 12
    assert [x.episode_index for x in whole.episodes] == list(range(12))
    before = log.read_bytes()
    part = run(log, environment=e, n_episodes=7)
    assert part.episodes == whole.episodes[:7] and log.read_bytes() == before


DIFFERENCES = (
    ({"policy_settings": {"top_p": 1}}, {"policy_settings": {"top_p": 2}}, "settings.top_p was 1"),
    ({"a": 1, "b": 1}, {"a": 2, "b": 2}, "a was 1 there and is 2 now (and b differ)"),
    ({"robust": False}, {}, "robust was false there and is null now"),
    ({"started": 1, "sql_env": "1", "commit": "a"}, {"started": 2}, ""),
    ({"policy_settings": {"price": None}}, {"policy_settings": {"price": (1, 2)}}, ""),
)


def test_two_runs_differ_by_what_decides_their_results_and_details_tell_no_key(tmp_path):
    for old, new, said in DIFFERENCES:
        difference = logs.run_difference(old, new)
        assert said in difference and bool(said) == bool(difference), (old, new)
    url = "https://me:sk-secret@host:8000/v1?key=sk-secret"
    details = logs.run_details(SimpleNamespace(backend=SimpleNamespace(model="org/m", base_url=url)))
    assert details["model"] == "org/m" and details["base_url"] == "https://host:8000/v1"
    assert "secret" not in json.dumps(details)
    with EpisodeLog(tmp_path / "a.jsonl", {"policy": "x"}, logs.run_details()) as log:
        log.append(Trajectory(episode_index=0, question_id="q"))
        log.add_details(hack_floor={"constant": 0.1})
        log.add_details(hack_floor={"constant": 0.1})
    assert log.path.read_bytes().count(b"\n") == 3
    assert read_log(log.path)[0]["hack_floor"] == {"constant": 0.1}
    assert EpisodeLog(log.path, {"policy": "x"}).about["hack_floor"] == {"constant": 0.1}


def test_other_texts_are_another_run_and_compare_tells_them(tmp_path, monkeypatch):
    log, few = tmp_path / "a.jsonl", bundled().sample(6, 3)
    first = evaluate(few, RandomPolicy(1), 3, log=log, progress=False)
    about, _ = read_log(log)
    assert len(about["text_hash"]) == len(about["suite_hash"]) == 32
    assert not compare(first, evaluate(few, OraclePolicy(few), 3, progress=False)).differs
    monkeypatch.setattr("sql_env.evaluation.rows.tool_schemas", lambda actions: [*actions, "other words"])
    said = "the texts that an agent reads"
    with pytest.raises(ValueError, match=f"a.jsonl is the log of another run: {said}"):
        evaluate(few, RandomPolicy(1), 6, log=log)
    second = evaluate(few, RandomPolicy(1), 6, progress=False)
    assert said in " ".join(compare(first, second).notes)
    other = evaluate(few[:5], RandomPolicy(1), 5, progress=False)
    assert "the questions (" in " ".join(compare(second, other).notes)


def test_half_a_line_at_the_end_is_dropped_and_told(tmp_path, capsys):
    log, few = tmp_path / "a.jsonl", bundled().sample(4, 3)
    whole = evaluate(few, RandomPolicy(1), log=log, progress=False)
    log.write_bytes(log.read_bytes()[:-20])
    assert evaluate(few, RandomPolicy(1), log=log).episodes == whole.episodes
    assert "half a line" in capsys.readouterr().err
    assert evaluate(few, RandomPolicy(1), log=log).episodes == whole.episodes
    assert "half a line" not in capsys.readouterr().err


# ---- a line is a trajectory
def test_every_line_fits_the_schema_and_pandas_reads_it(tmp_path):
    check = pytest.importorskip("jsonschema").Draft202012Validator(Trajectory.model_json_schema())
    run(tmp_path / "a.jsonl", 5, Unlucky(1))
    run(tmp_path / "b.jsonl", 3, OraclePolicy(bundled()), env(3, verify="robust"))
    talks = EpisodeEnv(load("conversations", n=2))
    run(tmp_path / "c.jsonl", 2, ScriptedPolicy([("ANSWER", "1")]), talks)
    rows = [json.loads(row) for path in tmp_path.glob("*.jsonl") for row in path.read_text().splitlines()[1:]]
    for row in rows:
        check.validate(row)
    assert len(rows) == 10 and not check.is_valid({"turns": []}) and not check.is_valid(rows[-1] | {"x": 1})
    frame = pytest.importorskip("pandas").read_json(tmp_path / "b.jsonl", lines=True)
    played = frame[frame.question_id.notna()]
    assert len(played) == 3 and played.question_text.str.len().min() > 5 and (played.env_seconds > 0).all()
    assert played.gold_sql.str.contains("SELECT").all() and played.started.notna().all()


# ---- grading again
def test_rescoring_gives_what_playing_would_have_given(tmp_path):
    log, e = tmp_path / "a.jsonl", env(12)
    policy = OraclePolicy(e.questions)
    run(log, policy=policy, environment=e, robust=False)
    rescored = logs.rescore_log(log, bundled(), "robust")
    robust = run(tmp_path / "b.jsonl", policy=policy, environment=env(12, verify="robust"))
    assert rescored.trajectories == robust.episodes
    assert rescored.changed == tuple(range(12)) and rescored.differences == {}
    about, trajectories = read_log(logs.replace_log(tmp_path / "c.jsonl", rescored.about, rescored.trajectories))
    assert trajectories == rescored.trajectories and "robust" not in about
    assert (about["verify"], about["rescored"]["verify"]) == ("robust", "value")
    with pytest.raises(ValueError, match="rescored.log was"):
        run(tmp_path / "c.jsonl", policy=policy, environment=env(12, verify="robust"))


def test_rescoring_uses_gold_of_today_says_what_went_otherwise_and_wants_the_questions_of_the_log(tmp_path):
    log, e = tmp_path / "a.jsonl", env(8)
    run(log, policy=OraclePolicy(e.questions), environment=e, robust=False)
    about, (first, second, *_) = read_log(log)
    lines = log.read_text().splitlines()
    first.turns[0].result, second.error, second.turns = "other", "E: x", []
    lines[1:3] = [t.model_dump_json() for t in (first, second)]
    log.write_text("\n".join(lines) + "\n")
    third, another = read_log(log)[1][2].question_id, dict(gold_sql="SELECT 'another'")
    another |= dict(gold_answer=(("another",),))
    corrected = [replace(q, **another) if q.question_id == third else q for q in e.questions]
    rescored = logs.rescore_log(log, e.questions.with_questions(corrected, []))
    assert [*rescored.differences] == [0] and "turns.0.result is" in rescored.differences[0]
    assert rescored.trajectories[0].turns[0].result == "other", "what the model saw stays"
    assert rescored.trajectories[1].error == "E: x"
    assert not rescored.trajectories[2].correct and 2 in rescored.changed
    assert rescored.trajectories[2].gold_sql == "SELECT 'another'"
    with pytest.raises(ValueError, match="questions of a.jsonl are not in .*, such as"):
        logs.rescore_log(tmp_path / "a.jsonl", bundled().sample(3, 0))


# ---- paths
PATHS = (
    (PureWindowsPath(r"C:\data\my pets.db"), "file:///C%3A/data/my%20pets.db"),
    (PureWindowsPath(r"\\server\share\a?b#.db"), "file:////server/share/a%3Fb%23.db"),
    (PurePosixPath("/data/100%.db"), "file:///data/100%25.db"),
)


def test_sqlite_finds_files_of_all_systems():
    for path, uri in PATHS:
        assert _file_uri(path).partition("?")[0] == uri
