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
from sql_env.policies.baselines import (
    HACKS,
    GreedyPolicy,
    OraclePolicy,
    Policy,
    RandomPolicy,
    ScriptedPolicy,
    answer_from_result,
    most_frequent_answer,
    parse_schema_info,
    play_episode,
)
from sql_env.sql.text import quote_identifier


@pytest.fixture(scope="module")
def spider(spider_path):
    return load("spider", spider_path, split="dev")


def everyone():
    return [
        RandomPolicy(3),
        OraclePolicy(bundled()),
        ScriptedPolicy([("DESCRIBE", "x"), ("ANSWER", "1")]),
        GreedyPolicy(),
        *HACKS,
        most_frequent_answer(bundled()),
    ]


def record(env, policy, seed=0, **reset):
    "The actions and the last observation of one episode."
    if hasattr(policy, "reset"):
        policy.reset(seed)
    o, taken = env.reset(**reset), []
    while not o.done:
        taken.append(policy.select_action(o))
        o = env.step(*taken[-1])
    return taken, o


# ---- the protocol
@pytest.mark.parametrize("policy", everyone(), ids=lambda p: p.name)
def test_every_policy_keeps_the_protocol(policy):
    assert isinstance(policy, Policy) and isinstance(policy.name, str) and policy.name
    env = EpisodeEnv(bundled())
    for q in bundled().sample(12, 2):
        taken, o = record(env, copy.copy(policy), question_id=q.question_id)
        assert all(isinstance(a, Action) and a.action_type in ACTIONS and isinstance(a.argument, str) for a in taken)
        assert o.done and len(taken) == o.step_count <= 15


def test_names_are_unique():
    names = [p.name for p in everyone()]
    assert len(set(names)) == len(names)


def test_play_stops_when_done():
    env = EpisodeEnv(bundled())
    o = play_episode(env, ScriptedPolicy([("DESCRIBE", "x")]), env.reset(seed=0))
    assert o.done and o.step_count == 15
    assert play_episode(env, None, o) is o, "an episode that is over is not played"


def test_a_scripted_policy_plays_its_list_and_repeats_the_last():
    script = [("DESCRIBE", "a"), ("QUERY", "SELECT 1"), ("SAMPLE", "b")]
    env = EpisodeEnv(bundled(), budget=5)
    taken, _ = record(env, ScriptedPolicy(script), seed=1)
    assert taken == [*script, script[-1], script[-1]]
    assert record(env, ScriptedPolicy(script), seed=2)[0] == taken


# ---- random
def test_random_policy_is_determined_by_its_seeds():
    env = EpisodeEnv(bundled())
    ids = [q.question_id for q in bundled().sample(25, 4)]

    def run(seed):
        policy = RandomPolicy(seed)
        return [record(env, policy, seed=i, question_id=k)[0] for i, k in enumerate(ids)]

    assert run(1) == run(1)
    assert sum(a != b for a, b in zip(run(1), run(2))) > 20


def test_random_policy_does_not_depend_on_what_it_played_before():
    env, policy = EpisodeEnv(bundled()), RandomPolicy(9)
    ids = [(i, q.question_id) for i, q in enumerate(bundled().sample(30, 6))]
    forth = {i: record(env, policy, seed=i, question_id=k)[0] for i, k in ids}
    back = {i: record(env, policy, seed=i, question_id=k)[0] for i, k in reversed(ids)}
    alone = {i: record(EpisodeEnv(bundled()), RandomPolicy(9), seed=i, question_id=k)[0] for i, k in ids}
    assert forth == back == alone


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


# ---- the oracle
def assert_oracle_gets_all(questions, budget, level):
    environment = EpisodeEnv(questions, budget=budget, schema_level=level)
    result = evaluate(environment, OraclePolicy(questions), progress=False)
    wrong = [(e.question_id, e.reason, e.error) for e in result.episodes if not e.correct]
    assert not wrong and result.n_completed == len(questions)
    assert result.grounded_rate == 1, "from what was observed only"


MATRIX = [(budget, level) for budget in (15, 3, 2) for level in SCHEMA_LEVELS]


@pytest.mark.parametrize("budget, level", MATRIX)
def test_oracle_gets_some_questions_in_any_setting(budget, level):
    assert_oracle_gets_all(bundled().sample(48, budget), budget, level)


@pytest.mark.slow
@pytest.mark.parametrize("budget, level", MATRIX)
def test_oracle_gets_every_bundled_question_in_any_setting(budget, level):
    assert_oracle_gets_all(bundled(), budget, level)


def test_oracle_cannot_answer_with_a_single_step():
    result = evaluate(EpisodeEnv(bundled(), budget=1), OraclePolicy(bundled()), 60, progress=False)
    assert result.n_completed == 60 and result.success_rate == 0


@pytest.mark.parametrize("describe_first", [0, 1, 5])
def test_oracle_may_describe_fewer_or_more_tables(describe_first):
    policy = OraclePolicy(bundled(), describe_first)
    assert evaluate(bundled(), policy, 60, progress=False).success_rate == 1


@pytest.mark.slow
@pytest.mark.parametrize("budget", [2, 15])
def test_oracle_gets_every_runnable_question_of_spider_dev(spider, budget):
    assert len(spider) >= 450 and sum(spider.left_out.values()) == 62
    assert_oracle_gets_all(spider, budget, "names")


def test_oracle_answers_from_what_it_saw(tmp_path):
    "On a database whose data changed it gives the new value, not the gold one."
    path = build_database(tmp_path / "a.sqlite", "CREATE TABLE t(x)", {"t": [(1,), (2,)]})
    q = Question("q", "How many?", "a", "SELECT count(*) FROM t", ((77,),))
    episode = Episode(q, Database(path))
    o = episode.reset()
    play_episode(episode, OraclePolicy([q]), o)
    assert episode.turns[-1].action == ("ANSWER", "2") and not episode.verdict.correct


def test_oracle_finds_the_right_one_of_two_equal_questions(tmp_path):
    one = Question("a", "How many?", "a", "SELECT count(*) FROM apple", ((1,),))
    two = Question("b", "How many?", "b", "SELECT count(*) FROM pear", ((2,),))
    for q, table, rows in ((one, "apple", 1), (two, "pear", 2)):
        episode = Episode(
            q,
            Database(build_database(tmp_path / f"{table}.sqlite", f"CREATE TABLE {table}(x)", {table: [(1,)] * rows})),
        )
        play_episode(episode, OraclePolicy([one, two]), episode.reset())
        assert episode.verdict.correct


@pytest.mark.parametrize(
    "result, answer",
    [
        ("n\n3", "3"),
        ("a | b\n1 | x\n2 | y", "1 | x\n2 | y"),
        ("n\n(no rows)", "[]"),
        ("", "@last"),
        ("n", "@last"),
        ("n\n1\n... 25 rows, 20 shown", "@last"),
        ("n\nlong text... (900 characters)", "@last"),
    ],
)
def test_reading_a_result(result, answer):
    assert answer_from_result(result) == answer


@pytest.mark.parametrize("rows", cases("policies_oracle_reads_awkward_values"))
def test_oracle_reads_awkward_values(tmp_path, rows):
    columns = ", ".join(f"c{i}" for i in range(len(rows[0])))
    db = Database(build_database(tmp_path / "a.sqlite", f"CREATE TABLE t({columns})", {"t": rows}))
    q = Question("q", "What?", "a", "SELECT * FROM t", tuple(rows))
    episode = Episode(q, db)
    play_episode(episode, OraclePolicy([q]), episode.reset())
    assert episode.verdict.correct and episode.grounded, episode.turns


# ---- reward-hacking baselines
@pytest.mark.slow
def test_no_hack_earns_more_than_one_percent_on_bundled():
    floor = hack_floor(bundled())
    assert len(floor) == len(HACKS) + 1
    assert max(floor.values()) <= 0.01, {k: v for k, v in floor.items() if v > 0.01}


def test_the_hacks_are_those_that_were_planned():
    names = (
        "do nothing, empty, constant, row count, select 1, repeat describe, oscillate, delete, dump catalog, select all"
    )
    assert all(any(h.name.startswith(n) for h in HACKS) for n in names.split(", "))
    assert most_frequent_answer(bundled()).name == "most frequent answer"


def test_hacks_can_win_where_a_question_lets_them(tmp_path):
    "A floor that can't rise measures nothing: each kind of guessable question is found."
    db = Database(build_database(tmp_path / "a.sqlite", "CREATE TABLE t(x, y)", {"t": [(1, "a"), (7, "b"), (9, "c")]}))

    def winners(gold):
        q = Question("q", "How many t?", "a", "SELECT 1", gold)
        out = set()
        for h in HACKS:
            episode = Episode(q, db)
            play_episode(episode, h, episode.reset())
            if episode.verdict.correct:
                out.add(h.name)
        return out

    assert winners(((3,),)) == {"row count", "constant 3"}
    assert winners(((1,),)) == {"constant 1", "select 1"}
    assert winners(()) == {"empty", "delete", "select nothing"}
    assert winners(tuple(db.query("SELECT * FROM t").rows)) == {"select all"}
    assert winners((("yes",),)) == {"constant yes"} and winners(((None,),)) == {"constant NULL"}
    assert winners(((12345,),)) == set()


def test_most_frequent_answer_is_the_most_frequent_one():
    qs = [
        Question(str(i), "?", "a", "SELECT 1", gold)
        for i, gold in enumerate([((5,),), ((5,),), (("x",),), (("x",),), ((7,),)])
    ]
    hack = most_frequent_answer(qs)
    env = Observation("?", "t")
    assert hack.select_action(env) == ("ANSWER", "5"), "the smaller text wins a tie, whatever the order"
    assert most_frequent_answer(qs[::-1]).select_action(env) == ("ANSWER", "5")
    assert hack.select_action(env).argument in {format_rows(q.gold_answer) for q in qs}


# ---- reading a schema
AWKWARD = cases("policies_awkward")


def table_schema(name, columns):
    return f"CREATE TABLE {quote_identifier(name)} ({', '.join(map(quote_identifier, columns))})"


def awkward_database(path, names, columns=None):
    schema = ";".join(table_schema(name, columns or [name, name + " 2", "x " + name]) for name in names)
    return Database(build_database(path, schema, {}))


@pytest.mark.parametrize("level", ["names", "columns", "full"])
@pytest.mark.parametrize("name", AWKWARD)
def test_parse_schema_info_reads_any_name_at_any_level(tmp_path, level, name):
    db = awkward_database(tmp_path / "a.sqlite", ["zebra", name, "after"])
    names = ["zebra", name, "after"]
    episode = Episode(Question("q", "?", "a", "SELECT 1", ((1,),)), db, schema_level=level)
    o = episode.reset()
    known = parse_schema_info(o.schema_info)
    assert list(known) == names
    everything = {n: [n, n + " 2", "x " + n] for n in names}
    assert known == (everything if level != "names" else {n: [] for n in names})
    assert not episode.step("DESCRIBE", quote_identifier(name)).error
    assert parse_schema_info(episode.step("SAMPLE", quote_identifier(name)).schema_info)[name] == everything[name]


def test_parse_schema_info_at_level_none_knows_what_was_described(tmp_path):
    db = awkward_database(tmp_path / "a.sqlite", ["a b", "c"])
    episode = Episode(Question("q", "?", "a", "SELECT 1", ((1,),)), db, schema_level="none")
    assert parse_schema_info(episode.reset().schema_info) == {}
    assert parse_schema_info(episode.step("DESCRIBE", "a b").schema_info) == {"a b": ["a b", "a b 2", "x a b"]}


@pytest.mark.parametrize("level", SCHEMA_LEVELS)
def test_parse_schema_info_reads_every_bundled_database(level):
    qs = bundled()
    for name in qs.databases:
        db = qs.database(name)
        episode = Episode(qs[0], db, schema_level=level)
        known = parse_schema_info(episode.reset().schema_info)
        assert known == {
            t: [c.name for c in db.columns(t)] if level in ("columns", "full") else []
            for t in db.tables
            if level != "none"
        }


@pytest.mark.slow
def test_parse_schema_info_reads_every_database_of_spider_dev(spider):
    for name in sorted({q.database_name for q in spider}):
        db = spider.database(name)
        known = parse_schema_info(Episode(spider[0], db, schema_level="full").reset().schema_info)
        assert known == {t: [c.name for c in db.columns(t)] for t in db.tables}


names_of = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12).filter(
    lambda s: not s.lower().startswith("sqlite_")
)


@law(60, suppress_health_check=list(HealthCheck))
@given(table=names_of, columns=st.lists(names_of, min_size=1, max_size=4, unique_by=lambda s: s.casefold()))
def test_parse_schema_info_reads_what_schema_info_wrote(tmp_path, table, columns):
    db = awkward_database(tmp_path / "h.sqlite", [table], columns)
    assert parse_schema_info(
        Episode(Question("q", "?", "h", "SELECT 1", ((1,),)), db, schema_level="columns").reset().schema_info
    ) == {table: columns}


# ---- greedy
@pytest.mark.slow
def test_greedy_never_crashes_and_beats_random_on_bundled():
    for level in SCHEMA_LEVELS:
        result = evaluate(EpisodeEnv(bundled(), schema_level=level), GreedyPolicy(), 100, progress=False)
        assert result.n_completed == 100, [e.error for e in result.episodes if e.error][:3]
    greedy, chance = (evaluate(bundled(), p, progress=False) for p in (GreedyPolicy(), RandomPolicy(0)))
    assert greedy.n_completed == chance.n_completed == len(bundled()) and greedy.success_rate > chance.success_rate


@pytest.mark.slow
def test_greedy_never_crashes_and_beats_random_on_spider(spider):
    greedy = evaluate(spider, GreedyPolicy(), progress=False)
    chance = evaluate(spider, RandomPolicy(0), progress=False)
    assert greedy.n_completed == chance.n_completed == len(spider)
    assert greedy.success_rate > chance.success_rate + 0.03
    assert greedy.interval()[0] > 0.01


@pytest.mark.parametrize("budget", [1, 2, 3, 4, 5])
def test_small_budgets_crash_nobody(budget):
    env = EpisodeEnv(bundled(), budget=budget)
    for policy in everyone():
        result = evaluate(env, policy, 8, progress=False)
        assert result.n_completed == 8, (policy.name, [e.error for e in result.episodes if e.error][:1])


def test_greedy_on_names_that_need_quotes(tmp_path):
    db = awkward_database(tmp_path / "a.sqlite", AWKWARD)
    for text in (
        "How many 'single' are there?",
        "average Height (cm) over 3",
        "",
        "(((",
        "select [bracket] \\ at least 5 in 2020",
        "it's most | . * + ?",
    ):
        episode = Episode(Question("q", text, "a", "SELECT 1", ((1,),)), db, schema_level="columns")
        play_episode(episode, GreedyPolicy(), episode.reset())
        assert episode.verdict is not None
        assert not any(t.error for t in episode.turns if t.action.action_type in ("DESCRIBE", "SAMPLE")), episode.turns


anything = st.text(max_size=60)


@law(200, suppress_health_check=list(HealthCheck))
@given(
    question=anything,
    schema=st.one_of(anything, st.lists(anything, max_size=4).map("\n".join), st.just("a(b, c)\nd")),
    result=st.one_of(anything, st.lists(anything, max_size=4).map("\n".join)),
    error=anything,
    left=st.integers(0, 15),
)
def test_policies_cope_with_any_observation(question, schema, result, error, left):
    for policy in (RandomPolicy(1), GreedyPolicy(), *HACKS):
        if hasattr(policy, "reset"):
            policy.reset(0)
        for step in range(4):
            o = Observation(question, schema, result, error, step, left, ("SAMPLE x",) * step, False, 0.0)
            action = policy.select_action(o)
            assert action.action_type in ACTIONS and isinstance(action.argument, str)
