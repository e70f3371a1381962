"Packages of somebody else, found by their entry points: source, verdict and action are played on every face."

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sql_env import EpisodeEnv, OraclePolicy, Session, evaluate, load
from sql_env.database.database import build_database
from sql_env.paths import BUNDLED, SourceError
from sql_env.play.acts import ACTIONS, allowed_actions, find_act, prompt, read_settings
from sql_env.play.chat import InvalidToolCall, parse_tool_call, tool_schemas
from sql_env.play.judges import _find_judge, judge_chain
from sql_env.plugins import find, names
from sql_env.sources.loading import _findings_of, _read_findings, _with_findings

PLUGIN = Path(__file__).parent.parent / "examples" / "plugin"
TABLE, _COMMAND = "name | flag\nAlma | NO", "evaluate --source harbour --policy peek_first".split()


@pytest.fixture
def stranger(monkeypatch):
    monkeypatch.syspath_prepend(str(PLUGIN))
    yield
    find_act.cache_clear()
    judge_chain.cache_clear()
    sys.modules.pop("stranger", None)


@pytest.fixture
def questions(stranger):
    return load("harbour")


def played(env, queries=1):
    env.reset(question_id="harbour-NO")
    for _ in range(queries):
        env.step("QUERY", "SELECT count(*) FROM ship WHERE flag = 'NO'")
    return env.step("ANSWER", "@last"), env.episode


def test_nothing_is_known_without_the_package():
    assert "peek" not in names("actions") and "frugal" not in names("verdicts")
    with pytest.raises(ValueError, match="no action 'PEEK'"):
        allowed_actions("peek")
    with pytest.raises(ValueError, match="no way to verify 'frugal'"):
        read_settings(dict(verify="frugal"))


def test_the_package_is_found_by_its_entry_points_and_what_can_be_chosen_names_it(stranger, monkeypatch):
    assert "harbour" in names("sources") and "frugal" in names("verdicts")
    assert find("actions", "peek") is find_act("PEEK") is find_act("peek")
    assert [judge.name for judge in judge_chain("frugal")] == ["value", "frugal"]
    assert _find_judge("frugal").needs == ("value",)
    with pytest.raises(LookupError, match="known are: .*peek"):
        find("actions", "dance")
    with pytest.raises(ValueError, match="no action 'DANCE'.*PEEK"):
        allowed_actions("dance")
    with pytest.raises(ValueError, match="no way to verify 'pretty'.*frugal"):
        read_settings(dict(verify="pretty"))
    import stranger as module

    find_act.cache_clear()
    monkeypatch.setattr(module, "PEEK", module.PEEK._replace(gives="nonsense"))
    with pytest.raises(ValueError, match="PEEK gives 'nonsense'"):
        allowed_actions("peek")


@pytest.mark.parametrize("verify", ["value", "frugal"])
def test_steps_count_the_answer_whenever_a_judge_asks(questions, monkeypatch, verify):
    import stranger as module

    counted = module.FRUGAL._replace(judge=lambda ask: seen.append(ask.steps) or ask.verdict)
    monkeypatch.setattr(module, "FRUGAL", counted)
    seen: list[int] = []
    _, episode = played(EpisodeEnv(questions, verify=verify), queries=2)
    assert episode.judged("frugal") and seen == [3]


def test_its_source_is_loaded_as_any_other_and_its_verdict_is_paid(questions):
    from sql_env.database import Database
    from sql_env.database.writing import WritableCopy

    database = Database(questions.databases["harbour"])
    sources = database, WritableCopy(database, ["ship"])
    assert [[t.name for t in s.infos] for s in sources] == [["ship"]] * 2
    assert [q.gold_answer for q in questions] == [((3,),), ((2,),)]
    assert not questions.quarantined and questions[0].tables_involved == ("ship",)
    env = EpisodeEnv(questions, verify="frugal")
    last, episode = played(env)
    assert last.reward == 1 and {*episode.verdicts} == {"value", "frugal"}
    last, episode = played(env, queries=2)
    assert last.reward == 0 and episode.correct
    verdict = episode.judged("frugal")
    assert (verdict.correct, verdict.reason, verdict.blame) == (False, "wasteful", "model")


def test_its_action_is_an_action_like_the_others_and_a_tool_of_models(questions):
    env = EpisodeEnv(questions, actions="peek", schema_level="none")
    assert env.actions == (*ACTIONS, "PEEK")
    first = env.reset(question_id="harbour-PT")
    seen = env.step("peek", "SHIP")
    assert (seen.result, first.schema_info, seen.schema_info) == (TABLE, "", "ship(name, flag)")
    assert env.step("PEEK", "ship").result == TABLE
    assert "unknown_table" in env.step("PEEK", "boat").error
    fork = env.episode.fork()
    assert fork.step("PEEK", "ship").result == TABLE and len(env.episode.turns) == 3
    for actions in ("", "peek"):
        env = EpisodeEnv(questions, actions=actions)
        env.reset()
        assert ("PEEK" in env.step("DANCE", "").error) == bool(actions)
        assert ("unknown_action" in env.step("PEEK", "ship").error) != bool(actions)
    env = EpisodeEnv(questions, actions="peek")
    session = Session(env)
    system, _ = session.begin("harbour-NO")
    assert "query, peek at a row." in system["content"] and system["content"] == prompt(questions[0], env.actions)
    assert [t["function"]["name"] for t in session.tools] == sorted(["answer", "describe", "peek", "query", "sample"])
    assert session.call("peek", {"table_name": "ship"}) == TABLE
    again = Session.resume(env, session.state())
    assert again.messages == session.messages
    with pytest.raises(InvalidToolCall):
        parse_tool_call(dict(name="peek", arguments={}), ACTIONS)


def test_its_policy_plays_by_its_name_and_an_action_that_is_not_allowed_is_told(questions, sql_env):
    played = [sql_env(*_COMMAND, *more)[:2] for more in (["--actions", "peek"], [])]
    assert [(code, "took 2 actions not allowed here" in text) for code, text in played] == [(0, False), (0, True)]


def test_trl_offers_it_with_the_schemas_of_transformers(questions, stranger):
    from sql_env.integrations.trl import SQLEnvTRL, prompt_rows

    env = SQLEnvTRL(questions, actions="peek")
    env.reset(question_id="harbour-NO")
    assert env.peek(table_name="ship") == TABLE and "Name of the table." in env.peek.__doc__
    assert type(env) is type(SQLEnvTRL(questions, actions=["PEEK"]))
    assert "peek at a row" in prompt_rows(questions, actions="peek")[0]["prompt"][0]["content"]
    transformers = pytest.importorskip("transformers.utils")
    tools = {schema["function"]["name"]: schema for schema in tool_schemas(allowed_actions("peek"))}
    for name, schema in tools.items():
        assert transformers.get_json_schema(getattr(env, name)) == schema


def test_a_server_tells_of_it(questions):
    pytest.importorskip("openenv")
    from sql_env.models import action_model
    from sql_env.server import SQLEnvironment

    schema = action_model(allowed_actions("peek")).model_json_schema()["properties"]["action_type"]
    assert schema["enum"][-1] == "PEEK" and "PEEK: Show the first row" in schema["description"]
    env = SQLEnvironment(questions, actions="peek", verify="frugal")
    env.reset(question_id="harbour-NO")
    assert env.step(action_model(("PEEK",))(action_type="PEEK", argument="ship")).result == TABLE


@pytest.fixture
def kaggledbqa(monkeypatch):
    monkeypatch.syspath_prepend(str(PLUGIN.parent / "kaggledbqa"))
    yield
    sys.modules.pop("kaggledbqa", None)


def test_a_published_set_in_its_own_layout_and_flat(kaggledbqa, tmp_path):
    schema = "CREATE TABLE ship (name TEXT, tonnes REAL)"
    heavy = dict(question="How heavy?", query="SELECT max(tonnes) FROM ship", db_id="harbour")
    many = dict(question="How many?", query="SELECT count(*) FROM ship", db_id="harbour")
    for folder, inner in ((tmp_path / "whole", "databases/harbour"), (tmp_path / "flat", ".")):
        examples = folder / ("examples" if inner != "." else ".")
        for path in (examples, folder / inner):
            path.mkdir(parents=True, exist_ok=True)
        rows = dict(harbour=[heavy, many], harbour_test=[heavy], harbour_fewshot=[many])
        for name, some in rows.items():
            (examples / f"{name}.json").write_text(json.dumps(some))
        with pytest.raises(SourceError, match="Download the databases"):
            load("kaggledbqa", folder)
        build_database(folder / inner / "harbour.sqlite", schema, {"ship": [("Bora", 300.0), ("Alma", 120.5)]})
        found = load("kaggledbqa", folder)
        ids = [("kaggledbqa-harbour-000", "test", ((300.0,),)), ("kaggledbqa-harbour-001", "fewshot", ((2,),))]
        assert [(q.question_id, q.split, q.gold_answer) for q in found] == ids


def test_a_real_published_set_with_its_findings(kaggledbqa, kaggledbqa_path):
    "Findings are given by id and hash."
    qs = load("kaggledbqa", kaggledbqa_path)
    assert len({q.database_name for q in qs}) == 2 and len(qs) + len(qs.quarantined) == 59
    some = qs.sample(20)
    result = evaluate(some, OraclePolicy(some), progress=False)
    assert result.success_rate == result.robust_rate == 1.0
    found = _findings_of([*qs, *qs.quarantined])
    shipped = json.loads((BUNDLED / "audits.json").read_text())["sets"]["kaggledbqa"]["questions"]
    assert found == shipped, "load gives what the audit found"
    flagged = next(q for q in qs if q.question_id in found)
    bare, known = flagged.with_fields(flags=()), _read_findings()
    assert _with_findings(bare, known).flags
    for changed in (dict(question_text="Other?"), dict(gold_sql="SELECT 1"), dict(question_id="x")):
        assert _with_findings(bare.with_fields(**changed), known).flags == ()


def test_the_core_scans_no_packages_for_what_it_has():
    code = (
        "import importlib.metadata as m\ndef fail(*args, **kw): raise AssertionError('scanned')\n"
        "m.entry_points = fail\nfrom sql_env import Episode, load\n"
        "qs = load('bundled'); q = qs[0]\n"
        "ep = Episode(q, qs.database(q.database_name), verify='robust', actions='abstain')\n"
        "ep.reset(); ep.step('ANSWER', '1'); ep.robust\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
