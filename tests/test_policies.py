"Policies: a protocol, randomness that depends on the seed only, an oracle that proves answerability, hacks in vain."

import copy

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from laws import law
from made_sets import bundled
from tables import cases

from sql_env import EpisodeEnv, Question, evaluate, hack_floor, load
from sql_env.database.database import Database, build_database
from sql_env.grading.answers import format_rows
from sql_env.play import ACTIONS, Action, Episode, Observation
from sql_env.play.acts import SCHEMA_LEVELS
from sql_env.policies import GreedyPolicy, OraclePolicy, RandomPolicy, ScriptedPolicy, play_episode
from sql_env.policies.baselines import HACKS, Policy, answer_from_result, most_frequent_answer, parse_schema_info
from sql_env.sql.text import quote_identifier


@pytest.fixture(scope="module")
def spider(spider_path):
    return load("spider", spider_path, split="dev")


def everyone():
    scripted = ScriptedPolicy([("DESCRIBE", "x"), ("ANSWER", "1")])
    played = [RandomPolicy(3), OraclePolicy(bundled()), scripted, GreedyPolicy()]
    return [*played, *HACKS, most_frequent_answer(bundled())]


def asked(gold=((1,),), sql="SELECT 1", text="?"):
    return Question("q", text, "a", sql, gold)


def opened(path, schema, rows=()):
    return Database(build_database(path / "a.sqlite", schema, dict(rows)))


def playing(policy, question, database, **options):
    "The episode of a policy."
    episode = Episode(question, database, **options)
    play_episode(episode, policy, episode.reset())
    return episode


def record(env, policy, seed=0, **reset):
    "The actions and the last observation of one episode."
    if hasattr(policy, "reset"):
        policy.reset(seed)
    o, taken = env.reset(**reset), []
    while not o.done:
        taken.append(policy.select_action(o))
        o = env.step(*taken[-1])
    return taken, o


@pytest.mark.parametrize("policy", everyone(), ids=lambda p: p.name)
def test_every_policy_keeps_the_protocol(policy):
    assert isinstance(policy, Policy) and isinstance(policy.name, str) and policy.name
    env = EpisodeEnv(bundled())
    for q in bundled().sample(12, 2):
        taken, o = record(env, copy.copy(policy), question_id=q.question_id)
        assert all(isinstance(a, Action) and a.action_type in ACTIONS and isinstance(a.argument, str) for a in taken)
        assert o.done and len(taken) == o.step_count <= 15


def test_names_are_unique_and_the_hacks_those_that_were_planned():
    names = [p.name for p in everyone()]
    assert len(set(names)) == len(names) and names[-1] == "most frequent answer"
    planned = "do nothing, empty, constant, row count, select 1, repeat describe, oscillate, delete, dump catalog"
    for name in (*planned.split(", "), "select all"):
        assert any(h.name.startswith(name) for h in HACKS), name


def test_a_scripted_policy_plays_its_list_and_repeats_the_last_until_the_end():
    script = [("DESCRIBE", "a"), ("QUERY", "SELECT 1"), ("SAMPLE", "b")]
    env = EpisodeEnv(bundled(), budget=5)
    taken, o = record(env, ScriptedPolicy(script), seed=1)
    assert taken == [*script, script[-1], script[-1]]
    assert record(env, ScriptedPolicy(script), seed=2)[0] == taken
    assert play_episode(env, None, o) is o, "an episode that is over is not played"


def test_random_policy_depends_on_its_seeds_and_not_on_what_it_played_before():
    env, ids = EpisodeEnv(bundled()), [(i, q.question_id) for i, q in enumerate(bundled().sample(30, 6))]

    def run(seed, ids=ids):
        policy = RandomPolicy(seed)
        return {i: record(env, policy, seed=i, question_id=k)[0] for i, k in ids}

    alone = {i: record(EpisodeEnv(bundled()), RandomPolicy(9), seed=i, question_id=k)[0] for i, k in ids}
    assert run(9) == run(9, ids[::-1]) == alone
    other = run(2)
    assert sum(alone[i] != other[i] for i in alone) > 24


def test_random_policy_uses_every_action_and_answers_what_it_saw():
    env, policy, kinds, grounded = EpisodeEnv(bundled()), RandomPolicy(0), set(), 0
    for i, q in enumerate(bundled().sample(60, 1)):
        taken, o = record(env, policy, seed=i, question_id=q.question_id)
        kinds |= {a.action_type for a in taken}
        grounded += env.episode.grounded
        assert taken[-1].action_type == "ANSWER" or o.error
    assert kinds == set(ACTIONS) and grounded > 30


def test_random_policy_forgets_when_a_new_episode_begins_without_reset():
    policy, env = RandomPolicy(0), EpisodeEnv(bundled())
    for q in bundled().sample(5, 1):
        o = env.reset(question_id=q.question_id)
        policy.select_action(o)
        assert policy.values == [] and policy.last_step == 0
        play_episode(env, policy, env.step("SAMPLE", next(iter(parse_schema_info(o.schema_info)))))


def assert_oracle_gets_all(questions, budget, level):
    environment = EpisodeEnv(questions, budget=budget, schema_level=level)
    result = evaluate(environment, OraclePolicy(questions), progress=False)
    wrong = [(e.question_id, e.reason, e.error) for e in result.episodes if not e.correct]
    assert not wrong and result.n_completed == len(questions)
    assert result.grounded_rate == 1, "from what was observed only"


@pytest.mark.parametrize("n", [48, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("budget, level", [(budget, level) for budget in (15, 3, 2) for level in SCHEMA_LEVELS])
def test_oracle_gets_bundled_questions_in_any_setting(budget, level, n):
    assert_oracle_gets_all(bundled().sample(n, budget) if n else bundled(), budget, level)


def test_oracle_cannot_answer_with_a_single_step_and_may_describe_fewer_or_more_tables():
    result = evaluate(EpisodeEnv(bundled(), budget=1), OraclePolicy(bundled()), 60, progress=False)
    assert result.n_completed == 60 and result.success_rate == 0
    for describe_first in (0, 1, 5):
        policy = OraclePolicy(bundled(), describe_first)
        assert evaluate(bundled(), policy, 60, progress=False).success_rate == 1


@pytest.mark.slow
@pytest.mark.parametrize("budget", [2, 15])
def test_oracle_gets_every_runnable_question_of_spider_dev(spider, budget):
    assert len(spider) >= 450 and sum(spider.left_out.values()) == 62
    assert_oracle_gets_all(spider, budget, "names")


def test_oracle_answers_from_what_it_saw(tmp_path):
    "On a database whose data changed it gives the new value, not the gold one."
    q = asked(((77,),), "SELECT count(*) FROM t", "How many?")
    episode = playing(OraclePolicy([q]), q, opened(tmp_path, "CREATE TABLE t(x)", {"t": [(1,), (2,)]}))
    assert episode.turns[-1].action == ("ANSWER", "2") and not episode.verdict.correct


def test_oracle_finds_the_right_one_of_two_equal_questions(tmp_path):
    sql = "SELECT count(*) FROM "
    both = [
        Question("a", "How many?", "a", sql + "apple", ((1,),)),
        Question("b", "How many?", "b", sql + "pear", ((2,),)),
    ]
    for n, (q, table) in enumerate(zip(both, ("apple", "pear")), 1):
        db = Database(build_database(tmp_path / f"{n}.sqlite", f"CREATE TABLE {table}(x)", {table: [(1,)] * n}))
        assert playing(OraclePolicy(both), q, db).verdict.correct


@pytest.mark.parametrize("result, answer", cases("policies_results"))
def test_reading_a_result(result, answer):
    assert answer_from_result(result) == answer


@pytest.mark.parametrize("rows", cases("policies_oracle_reads_awkward_values"))
def test_oracle_reads_awkward_values(tmp_path, rows):
    columns = ", ".join(f"c{i}" for i in range(len(rows[0])))
    q = asked(tuple(rows), "SELECT * FROM t", "What?")
    episode = playing(OraclePolicy([q]), q, opened(tmp_path, f"CREATE TABLE t({columns})", {"t": rows}))
    assert episode.verdict.correct and episode.grounded, episode.turns


@pytest.mark.slow
def test_no_hack_earns_more_than_one_percent_on_bundled():
    floor = hack_floor(bundled())
    assert len(floor) == len(HACKS) + 1
    assert max(floor.values()) <= 0.01, {k: v for k, v in floor.items() if v > 0.01}


def test_hacks_can_win_where_a_question_lets_them(tmp_path):
    "A floor that can't rise measures nothing: each kind of guessable question is found."
    db = opened(tmp_path, "CREATE TABLE t(x, y)", {"t": [(1, "a"), (7, "b"), (9, "c")]})

    def winners(*gold):
        q = asked(gold, text="How many t?")
        return {h.name for h in HACKS if playing(h, q, db).verdict.correct}

    assert winners((3,)) == {"row count", "constant 3"}
    assert winners((1,)) == {"constant 1", "select 1"}
    assert winners() == {"empty", "delete", "select nothing"}
    assert winners(*db.query("SELECT * FROM t").rows) == {"select all"}
    assert winners(("yes",)) == {"constant yes"} and winners((None,)) == {"constant NULL"}
    assert winners((12345,)) == set()


def test_most_frequent_answer_is_the_most_frequent_one():
    qs = [Question(str(i), "?", "a", "SELECT 1", ((v,),)) for i, v in enumerate([5, 5, "x", "x", 7])]
    for questions in (qs, qs[::-1]):
        said = most_frequent_answer(questions).select_action(Observation("?", "t"))
        assert said == ("ANSWER", "5"), "the smaller text wins a tie, whatever the order"
    assert said.argument in {format_rows(q.gold_answer) for q in qs}


AWKWARD = cases("policies_awkward")


def awkward_database(path, names, columns=None):
    listed = [(n, columns or [n, n + " 2", "x " + n]) for n in names]
    schema = [f"CREATE TABLE {quote_identifier(n)} ({', '.join(map(quote_identifier, cs))})" for n, cs in listed]
    return opened(path, ";".join(schema))


@pytest.mark.parametrize("level", ["names", "columns", "full"])
@pytest.mark.parametrize("name", AWKWARD)
def test_parse_schema_info_reads_any_name_at_any_level(tmp_path, level, name):
    names = ["zebra", name, "after"]
    episode = Episode(asked(), awkward_database(tmp_path, names), schema_level=level)
    known = parse_schema_info(episode.reset().schema_info)
    assert list(known) == names
    everything = {n: [n, n + " 2", "x " + n] for n in names}
    assert known == (everything if level != "names" else {n: [] for n in names})
    assert not episode.step("DESCRIBE", quote_identifier(name)).error
    assert parse_schema_info(episode.step("SAMPLE", quote_identifier(name)).schema_info)[name] == everything[name]


def test_parse_schema_info_at_level_none_knows_what_was_described(tmp_path):
    episode = Episode(asked(), awkward_database(tmp_path, ["a b", "c"]), schema_level="none")
    assert parse_schema_info(episode.reset().schema_info) == {}
    assert parse_schema_info(episode.step("DESCRIBE", "a b").schema_info) == {"a b": ["a b", "a b 2", "x a b"]}


def assert_schemas_are_read(questions, level):
    for db in map(questions.database, sorted({q.database_name for q in questions})):
        known = parse_schema_info(Episode(questions[0], db, schema_level=level).reset().schema_info)
        has_columns, tables = level in ("columns", "full"), db.tables if level != "none" else ()
        assert known == {t: [c.name for c in db.columns(t)] if has_columns else [] for t in tables}


@pytest.mark.parametrize("level", SCHEMA_LEVELS)
def test_parse_schema_info_reads_every_bundled_database(level):
    assert_schemas_are_read(bundled(), level)


@pytest.mark.slow
def test_parse_schema_info_reads_every_database_of_spider_dev(spider):
    assert_schemas_are_read(spider, "full")


names_of = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
names_of = names_of.filter(lambda s: not s.lower().startswith("sqlite_"))


@law(60, suppress_health_check=list(HealthCheck))
@given(table=names_of, columns=st.lists(names_of, min_size=1, max_size=4, unique_by=lambda s: s.casefold()))
def test_parse_schema_info_reads_what_schema_info_wrote(tmp_path, table, columns):
    episode = Episode(asked(), awkward_database(tmp_path, [table], columns), schema_level="columns")
    assert parse_schema_info(episode.reset().schema_info) == {table: columns}


@pytest.mark.slow
def test_greedy_never_crashes_and_beats_random_on_bundled():
    for level in SCHEMA_LEVELS:
        result = evaluate(EpisodeEnv(bundled(), schema_level=level), GreedyPolicy(), 100, progress=False)
        assert result.n_completed == 100, [e.error for e in result.episodes if e.error][:3]
    greedy, chance = (evaluate(bundled(), p, progress=False) for p in (GreedyPolicy(), RandomPolicy(0)))
    assert greedy.n_completed == chance.n_completed == len(bundled()) and greedy.success_rate > chance.success_rate


@pytest.mark.slow
def test_greedy_never_crashes_and_beats_random_on_spider(spider):
    greedy, chance = (evaluate(spider, policy, progress=False) for policy in (GreedyPolicy(), RandomPolicy(0)))
    assert greedy.n_completed == chance.n_completed == len(spider)
    assert greedy.success_rate > chance.success_rate + 0.03
    assert greedy.interval()[0] > 0.01


@pytest.mark.parametrize("budget", [1, 2, 3, 4, 5])
def test_small_budgets_crash_nobody(budget):
    env = EpisodeEnv(bundled(), budget=budget)
    for policy in everyone():
        result = evaluate(env, policy, 8, progress=False)
        assert result.n_completed == 8, (policy.name, [e.error for e in result.episodes if e.error][:1])


@pytest.mark.parametrize("text", cases("policies_texts"))
def test_greedy_on_names_that_need_quotes(tmp_path, text):
    db = awkward_database(tmp_path, AWKWARD)
    episode = playing(GreedyPolicy(), asked(text=text), db, schema_level="columns")
    assert episode.verdict is not None
    assert not any(t.error for t in episode.turns if t.action.action_type in ("DESCRIBE", "SAMPLE")), episode.turns


anything = st.text(max_size=60)
lines = st.one_of(anything, st.lists(anything, max_size=4).map("\n".join))
schemas = st.one_of(lines, st.just("a(b, c)\nd"))


@law(200, suppress_health_check=list(HealthCheck))
@given(question=anything, schema=schemas, result=lines, error=anything, left=st.integers(0, 15))
def test_policies_cope_with_any_observation(question, schema, result, error, left):
    for policy in (RandomPolicy(1), GreedyPolicy(), *HACKS):
        if hasattr(policy, "reset"):
            policy.reset(0)
        for step in range(4):
            o = Observation(question, schema, result, error, step, left, ("SAMPLE x",) * step, False, 0.0)
            action = policy.select_action(o)
            assert action.action_type in ACTIONS and isinstance(action.argument, str)
