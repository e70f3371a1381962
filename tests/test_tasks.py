"Tasks that change the database: the copy, the changes, the verdict, the episode and its rewards."

import json
import pickle
from contextlib import suppress
from copy import deepcopy
from itertools import product
from random import Random

import apsw
import pytest
from made_rows import replay_problems
from tables import cases

import sql_env.database.writing as writing
from sql_env import load
from sql_env.database import Database, QueryError, build_database
from sql_env.evaluation import evaluate, hack_floor, read_log, rescore_log
from sql_env.evaluation.audit import audit_markdown, audit_questions, audit_summary
from sql_env.grading.changes import _make_states, judge_changes, judge_replay
from sql_env.play import ACTIONS, Episode, EpisodeEnv, RewardConfig, Session
from sql_env.policies import OraclePolicy, RandomPolicy
from sql_env.policies.baselines import hacks_for
from sql_env.questions import question_set as sets
from sql_env.questions.gold import judge_task
from sql_env.questions.question_set import Question, QuestionSet
from sql_env.sql.text import split_statements
from sql_env.view.episode import view_episode
from sql_env.view.page import episode_page_html

EXECUTE = (*ACTIONS, "EXECUTE")
PRESETS = {kind: getattr(RewardConfig, kind)() for kind in ("sparse", "shaped", "partial")}
PRESETS["discounted"] = RewardConfig.shaped(0.9)
SCHEMA = """CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT);
    CREATE TABLE account(id INTEGER PRIMARY KEY, customer_id INT REFERENCES customer(id), cents INT CHECK (cents >= 0));
    CREATE TABLE entry(id INTEGER PRIMARY KEY, account_id INT REFERENCES account(id), what TEXT);"""
ROWS = dict(
    customer=[(1, "Ada", "Oslo"), (2, "Ben", "Riga"), (3, "Cleo", "Oslo"), (4, "Dan", "Rome")],
    account=[(1, 1, 100), (2, 1, 250), (3, 2, 400), (4, 3, 90), (5, 3, 700), (6, 4, 20)],
    entry=[(i, 1 + i % 6, "x") for i in range(1, 10)],
)
OF_OSLO = "customer_id IN (SELECT id FROM customer WHERE city = 'Oslo')"
FEE = Question(
    "bank-fee",
    "Take 10 cents from every account of customers in Oslo that holds 100 cents or more.",
    "bank",
    "",
    gold_statements=(f"UPDATE account SET cents = cents - 10 WHERE cents >= 100 AND {OF_OSLO}",),
    writes=("account",),
    states_rule=True,
    invariants=("SELECT count(*) FROM account",),
)
OPENED = (
    "INSERT INTO customer(name, city) VALUES ('Eve', 'Oslo')",
    "INSERT INTO account(customer_id, cents) VALUES (last_insert_rowid(), 5)",
    "INSERT INTO entry(account_id, what) VALUES (last_insert_rowid(), 'new')",
)
EVE = "Eve of Oslo opens an account with 5 cents; note 'new' for it."
OPEN = Question("bank-open", EVE, "bank", "", gold_statements=OPENED, writes=("customer", "account", "entry"))
NOTHING = Question("bank-none", "Close all empty accounts.", "bank", "", writes=("account",))
TASKS = dict(fee=FEE, open=OPEN, none=NOTHING)
DONE = ("ANSWER", "done")
DEEDS = {name: deed for name, *deed in cases("tasks_deeds")}
ALL = "3 of 3 conditions witnessed"  # of FEE
MOVE = "UPDATE customer SET city = 'Oslo' WHERE name = 'Dan' AND city = 'Rome'"
KEEP = (
    "INSERT INTO entry (id, account_id, what) VALUES (40, 2, 'n') ON CONFLICT (id) DO UPDATE SET what = excluded.what"
)
WRONGS = [("= 'Dan'", "LIKE '%Dan%'"), ("= 'Dan'", "<= 'Dan'"), ("= 'Rome'", "LIKE 'Rom%'"), (" AND city = 'Rome'", "")]
OTHERS = [("what = excluded.what", "account_id = 2"), ("UPDATE SET what = excluded.what", "NOTHING")]
ODD = """CREATE TABLE plain(a, b TEXT);
    CREATE TABLE keyed(k INTEGER PRIMARY KEY, a, double AS (k * 2) STORED, b BLOB);
    CREATE TABLE texts(k TEXT PRIMARY KEY, a REAL, long AS (k || a) STORED);
    CREATE TABLE pairs(a, b, c, PRIMARY KEY (a, b)) WITHOUT ROWID;
    CREATE TABLE hidden(rowid TEXT, oid TEXT, _rowid_ TEXT, a PRIMARY KEY);
    CREATE TABLE "odd name"("a b" PRIMARY KEY, "select" INT, rowid INT);
    CREATE TABLE noted(what TEXT);
    CREATE TRIGGER t AFTER DELETE ON plain BEGIN INSERT INTO noted VALUES (old.a); END;"""
PAIRS = [(1, 2, b"\0\1"), (1, 3, None), ("k", 2.5, "z")]
ODD_ROWS = dict(plain=[(1, "x"), (1, "x"), (None, None), (2, "y")], texts=[], noted=[], pairs=PAIRS)
ODD_ROWS["hidden"] = [("r", "o", "w", 1), ("r", "o", "w", None), ("r", "o", "w", None)]
ODD_ROWS["odd name"] = [("a", 1, 5), (None, 2, 5), (b"k", 3, 5)]
STATEMENTS = cases("tasks_statements")


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    path = build_database(tmp_path_factory.mktemp("bank") / "bank.sqlite", SCHEMA, ROWS)
    return QuestionSet([FEE, OPEN, NOTHING], {"bank": path}, "bank")


@pytest.fixture(scope="module")
def bank(questions):
    return questions.database("bank")


def changed(database, q, *batches):
    with database.writer(q.writes) as copy:
        for batch in batches:
            copy.execute(batch)
        return copy.changes()


# --- the copy: what it lists is what two whole tables differ in
@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    path = build_database(tmp_path_factory.mktemp("odd") / "odd.sqlite", ODD, ODD_ROWS)
    con = apsw.Connection(str(path))
    con.execute("INSERT INTO keyed(k, a, b) VALUES (1, 'a', NULL), (2, 2.5, x'ff'), (3, NULL, 'c')")
    con.close()
    return Database(path)


@pytest.mark.parametrize("seed", range(25))
def test_changes_are_what_whole_tables_differ_in(odd, seed):
    rng = Random(seed)
    with odd.writer(odd.tables) as copy:
        for sql in rng.choices(STATEMENTS, k=rng.randint(1, 8)):
            with suppress(QueryError):
                copy.execute(sql)
        found = copy.changes()
        for table in odd.tables:
            rows = (source.query(f'SELECT * FROM "{table}"').rows for source in (odd, copy))
            before, after = (sorted(map(repr, r)) for r in rows)
            for change in (c for c in found if c.table == table):
                assert change.old != change.new
                if change.old is not None:
                    before.remove(repr(change.old))
                if change.new is not None:
                    before.append(repr(change.new))
            assert sorted(before) == after
    assert copy.changes() == found  # once closed, too


@pytest.mark.parametrize("sql, changes", cases("tasks_net_changes"))
def test_each_row_is_listed_with_its_first_values_and_its_last(odd, sql, changes):
    with odd.writer(odd.tables) as copy:
        copy.execute(sql)
        assert tuple(map(tuple, copy.changes())) == changes


def test_what_a_copy_can_not_hold_is_refused_in_words(tmp_path, monkeypatch):
    schema = "CREATE TABLE t(a, b AS (a + 1)); CREATE TABLE u(a)"
    path = build_database(tmp_path / "virtual.sqlite", schema, dict(u=[(1,)]))
    with Database(path) as database:
        with database.writer(["t", "u"]) as copy:
            with pytest.raises(QueryError, match="t has virtual generated columns"):
                copy.execute("UPDATE u SET a = 2; INSERT INTO t(a) VALUES (1)")
            assert copy.changes() == []
        monkeypatch.setattr(writing, "_MOST_BYTES", 2**12)
        with pytest.raises(QueryError, match="Only a database of at most 0 MB can be changed"):
            database.writer(["u"])


def test_a_database_with_a_log_or_wrong_references_can_be_written_to(tmp_path):
    path = tmp_path / "log.sqlite"
    con = apsw.Connection(str(path))
    con.execute("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    con.execute("PRAGMA journal_mode=WAL").fetchall()
    con.close()
    with Database(path).writer(["t"]) as copy:
        copy.execute("UPDATE t SET a = 2")
        assert copy.changes()[0].new == (2,)
    # nor do references that a file declares wrongly stop writing
    schema = "CREATE TABLE a(x); CREATE TABLE b(y REFERENCES a(x), z REFERENCES none(q));"
    path = build_database(tmp_path / "w.sqlite", schema, dict(a=[(1,)], b=[(1, 1)]))
    with Database(path).writer(["a", "b"]) as copy:
        copy.execute("DELETE FROM a; INSERT INTO b VALUES (5, 5)")
        assert len(copy.changes()) == 2


def test_what_is_done_in_one_go_is_done_or_not_and_a_reference_that_fails_is_named(bank):
    with bank.writer(["customer", "account"]) as copy:
        with pytest.raises(QueryError) as e:
            copy.execute("UPDATE account SET cents = 1; UPDATE account SET cents = -1")
        assert e.value.kind == "constraint" and copy.changes() == []
        for sql in ("DELETE FROM customer WHERE id = 1", "UPDATE account SET customer_id = 99"):
            with pytest.raises(QueryError, match="account.customer_id refers to customer"):
                copy.execute(sql)


# --- the verdict
@pytest.mark.parametrize("name, sql, reason", cases("tasks_verdicts"))
def test_verdict_on_a_state(bank, name, sql, reason):
    q = TASKS[name]
    try:
        found = changed(bank, q, sql or ";".join(q.gold_statements))
    except QueryError:
        assert reason is None
        return
    verdict = judge_changes(q, bank, found)
    assert (verdict.reason, verdict.correct) == (reason, reason == "match")
    assert verdict.correct or verdict.detail


def test_removed_and_added_again_is_changed_numbers_that_gold_chooses_are_kept_and_last_digits_are_not(bank, tmp_path):
    again, number = "DELETE FROM entry WHERE id = 4; ", "INSERT INTO customer VALUES (50, 'Eve', 'Oslo')"
    for gold, other, right in (
        ("UPDATE entry SET what = 'y' WHERE id = 4", again + "INSERT INTO entry VALUES (4, 5, 'y')", True),
        (number, "INSERT INTO customer(name, city) VALUES ('Eve', 'Oslo')", False),
    ):
        q = OPEN.with_fields(gold_statements=(gold,))
        assert bool(judge_changes(q, bank, changed(bank, q, other))) is right
    path = build_database(tmp_path / "f.sqlite", "CREATE TABLE t(x REAL);", dict(t=[(0.3,), (7.0,)]))
    q = Question("f", "?", "f", "", gold_statements=("UPDATE t SET x = x * 1.1",), writes=("t",))
    found = changed(Database(path), q, "UPDATE t SET x = x + x / 10")
    assert judge_changes(q, Database(path), found)


@pytest.mark.parametrize("sql, correct, reason", cases("tasks_robust"))
def test_verdict_on_other_contents(bank, sql, correct, reason):
    assert judge_changes(FEE, bank, changed(bank, FEE, sql))
    verdict = judge_replay(FEE, bank, [sql])
    assert (verdict.correct, verdict.reason) == (correct, reason)


def test_statements_are_replayed_in_their_order_also_without_a_rule_and_a_right_verdict_parses_none(bank, monkeypatch):
    parts = [f"UPDATE account SET cents = cents - 5 WHERE cents >= {n} AND {OF_OSLO}" for n in (100, 95)]
    assert judge_changes(FEE, bank, changed(bank, FEE, *parts))
    assert judge_replay(FEE, bank, parts).reason == "differs"  # 95 to 99 lose 5

    assert judge_replay(OPEN, bank, list(OPEN.gold_statements)).reason == "match"
    assert judge_replay(OPEN, bank, []).reason == "by_keys"  # it does not say whom it means
    assert judge_replay(NOTHING, bank, [])  # who does nothing does nothing anywhere
    assert judge_replay(NOTHING, bank, ["UPDATE account SET cents = 0 WHERE cents < 0"]).reason == "no_rule"

    gold = list(FEE.gold_statements)  # and each is split once
    assert judge_replay(FEE, bank, gold)
    monkeypatch.setattr("sql_env.grading.changes.named_values", None)  # can't be called
    misses = split_statements.cache_info().misses
    assert judge_replay(FEE, bank, gold) and split_statements.cache_info().misses == misses


def test_a_task_is_grounded_if_rows_that_it_may_change_were_seen(bank):
    def is_grounded(*look):
        return play(FEE, bank, [look, ("EXECUTE", FEE.gold_statements[0]), DONE]).grounded

    assert is_grounded("SAMPLE", "account") and is_grounded("QUERY", "SELECT cents FROM account")
    queries = (("QUERY", sql) for sql in ("SELECT name FROM customer", "SELECT 1"))
    for look in (("DESCRIBE", "account"), ("SAMPLE", "customer"), *queries):
        assert not is_grounded(*look), look


@pytest.mark.parametrize("gold, wrong", cases("tasks_each_condition_has_a_row_that"))
def test_each_condition_has_a_row_that_fails_it_alone(bank, gold, wrong):
    tables = ("account", "customer")
    task = FEE.with_fields(gold_statements=(gold,), writes=tables, tables_involved=tables)
    states = _make_states(task, bank)
    assert states.conditions and all(states.conditions.values()), states.witnessed
    assert judge_replay(task, bank, [gold]) and judge_replay(task, bank, [wrong]).reason == "differs"


@pytest.mark.parametrize("gold, old, new", [*((MOVE, *w) for w in WRONGS), *((KEEP, *w) for w in OTHERS)])
def test_who_is_named_is_not_alone_on_other_contents(bank, gold, old, new):
    wrong = gold.replace(old, new)
    task = OPEN.with_fields(question_text=gold, gold_statements=(gold,), writes=("customer", "entry"))
    assert judge_changes(task, bank, changed(bank, task, wrong))
    assert judge_replay(task, bank, [gold]) and judge_replay(task, bank, [wrong]).reason == "differs"


def test_all_conditions_of_all_tasks_by_hand_are_witnessed():
    tasks = load("bundled_tasks")
    for q in filter(lambda q: q.gold_statements, tasks):
        database = tasks.database(q.database_name)
        states = _make_states(q, database)
        assert all(states.conditions.values()), (q.question_id, states.witnessed)
        assert judge_replay(q, database, list(q.gold_statements)).reason == "match", q.question_id


# --- loading
@pytest.mark.parametrize("fields, flag", cases("tasks_bad"))
def test_bad_gold_is_set_aside(questions, bank, fields, flag):
    judged = judge_task(FEE.with_fields(**fields), bank)
    assert judged.flags == (flag,)
    assert len(questions.with_questions([judged])) == 0


def test_a_folder_of_tasks_loads_and_saves(questions, tmp_path):
    sets.save_question_set(questions, tmp_path)
    loaded = load("folder", path=tmp_path)
    assert list(loaded) == list(questions) == sets.read_questions(tmp_path / "questions.jsonl")
    fields = json.loads(sets.question_to_json(FEE))
    assert sets.question_from_fields(fields) == FEE
    for name, value in dict(writes="account", gold_statements=[1], states_rule=1, invariants={}).items():
        with pytest.raises(ValueError, match=name):
            sets.question_from_fields(fields | {name: value})
    with pytest.raises(ValueError, match="writes"):
        sets.question_from_fields({k: v for k, v in fields.items() if k != "writes"} | {"gold_sql": ""})


def test_audit_of_tasks_flags_a_condition_that_no_row_fails_alone(questions):
    audit = audit_questions(questions, progress=False)
    assert not [q.flags for q in audit.questions if set(q.flags) & {"unanswerable", "error", "unwitnessed"}]
    assert audit.coverage == {"bank-fee": ALL}
    assert f"* `bank-fee` {ALL}" in audit_markdown(audit)
    assert audit_summary(audit)["coverage"] == audit.coverage
    never = FEE.gold_statements[0].replace("cents >= 100", "cents >= 100 AND cents >= -5")
    audit = audit_questions(questions.with_questions([FEE.with_fields(gold_statements=(never,))]), progress=False)
    (task,) = audit.questions
    assert "unwitnessed" in task.flags and task.reason("unwitnessed") == "3 of 4 conditions witnessed"
    assert audit.exit_code == 0  # it can be played


# --- the episode
def play(q, bank, actions, reward="sparse", verify="value", **settings):
    episode = Episode(q, bank, reward=PRESETS[reward], verify=verify, actions=EXECUTE, **settings)
    episode.reset()
    for action in actions:
        episode.step(*action)
    return episode


@pytest.mark.parametrize("name, reward", product(DEEDS, PRESETS))
def test_rewards_of_deeds(bank, name, reward):
    task, moves, is_right = DEEDS[name]
    q = TASKS[task]
    actions = [(verb, q.gold_text if text == "GOLD" else text) for verb, text in moves]
    episode = play(q, bank, [*actions, DONE], reward)
    assert episode.done and episode.correct == is_right
    total = episode.total_reward
    if reward == "discounted":
        total = sum(sum(t.reward.values()) * 0.9**i for i, t in enumerate(episode.turns))
    if is_right:
        assert total > max(PRESETS[reward].most_without_answer, 0)
    elif reward == "partial" and name == "half":  # nothing but what was asked for, though not all of it
        assert 0 < total <= PRESETS["partial"].credit
    else:
        assert total <= 1e-9
    if reward == "sparse":
        assert total == is_right


@pytest.mark.parametrize("reward", PRESETS)
def test_a_searching_adversary_earns_nothing_by_harm(bank, reward):
    config, right, wrong = PRESETS[reward], [], []
    for seed in range(60):
        rng = Random(seed)
        actions = rng.choices(cases("tasks_pool"), k=rng.randint(0, 12))
        episode = play(FEE, bank, [*actions, DONE][-12:], reward)
        total = sum(sum(t.reward.values()) * config.gamma**i for i, t in enumerate(episode.turns))
        (right if episode.correct else wrong).append(total)
        if not episode.correct:
            assert total <= config.most_without_answer + 1e-9
            if episode.verdict.reason in ("collateral", "wrong"):
                assert total <= 1e-9
    assert min(right) > max(wrong)


def test_a_broken_invariant_is_named_and_gold_that_fails_tells_nothing(bank):
    q = FEE.with_fields(invariants=("SELECT sum(cents) FROM account WHERE id = 6",))
    for cents, reason in ((0, "invariant"), (20, "missing")):
        episode = play(q, bank, [("EXECUTE", f"UPDATE account SET cents = {cents} WHERE id = 6"), DONE])
        assert episode.verdict.reason == reason and not episode.correct
    q = FEE.with_fields(gold_statements=("UPDATE account SET cents = -77",))
    for reward in PRESETS:
        episode = play(q, bank, [("EXECUTE", "UPDATE account SET cents = 1 WHERE id = 6")], reward)
        assert episode.turns[-1].error == "" and len(episode.changes) == 1
        with pytest.raises(QueryError, match="^The task can't be judged.$"):  # no mistake of who plays
            episode.step(*DONE)


def test_reads_see_writes_and_the_next_episode_does_not_and_it_can_be_copied_while_it_is_played(bank):
    episode = play(FEE, bank, [("EXECUTE", "UPDATE account SET cents = 1 WHERE id = 6")])
    assert "1" in episode.step("QUERY", "SELECT cents FROM account WHERE id = 6").result
    assert len(episode.changes) == 1
    episode.step(*DONE)
    assert len(episode.changes) == 1 and episode.work.copy.is_closed
    episode.reset()
    assert episode.changes == []
    assert "20" in episode.step("QUERY", "SELECT cents FROM account WHERE id = 6").result
    episode = play(FEE, bank, [("EXECUTE", "UPDATE account SET cents = 240 WHERE id = 2")])
    twin, other = pickle.loads(pickle.dumps(episode)), deepcopy(episode.work)
    assert twin.step("EXECUTE", "UPDATE account SET cents = cents - 10 WHERE id IN (1, 5)").error == ""
    assert twin.step(*DONE).done and twin.correct and not episode.done
    assert episode.changes == other.changes != twin.changes
    assert pickle.loads(pickle.dumps(twin)).changes == twin.changes


def test_execute_is_off_unless_the_question_is_a_task_and_tasks_need_it(questions, bank):
    plain = Question("p", "How many accounts?", "bank", "SELECT count(*) FROM account", ((6,),))
    seen = []
    for actions in (ACTIONS, EXECUTE):
        episode = Episode(plain, bank, actions=actions)
        moves = ("DESCRIBE", "account"), ("EXECUTE", "DELETE FROM account"), ("ANSWER", "6")
        seen.append([episode.reset(), *(episode.step(*move) for move in moves)])
        assert episode.correct and "unknown_action" in seen[-1][2].error
    assert seen[0] == seen[1]
    with pytest.raises(ValueError, match="EXECUTE"):
        EpisodeEnv(questions)
    mixed = questions.with_questions([*questions, plain])
    assert [q.question_id for q in EpisodeEnv(mixed).questions] == ["p"]
    assert len(EpisodeEnv(mixed, actions=EXECUTE).questions) == 4


def test_a_task_that_asks_a_question_too(bank):
    asked = dict(gold_sql="SELECT count(*) FROM account WHERE cents >= 100", gold_answer=((4,),), answer_type="integer")
    both = FEE.with_fields(**asked)
    do, ask = ("EXECUTE", FEE.gold_statements[0]), ("QUERY", both.gold_sql)
    assert play(both, bank, [ask, do, ("ANSWER", "@last")]).correct
    assert play(both, bank, [do, ("ANSWER", "4")]).correct
    assert not play(both, bank, [do, ("ANSWER", "3")]).correct
    assert not play(both, bank, [("ANSWER", "4")]).correct
    env = EpisodeEnv(QuestionSet([both], {"bank": bank.path}), actions=EXECUTE)
    assert evaluate(env, OraclePolicy([both]), 1, progress=False).success_rate == 1


@pytest.mark.parametrize("verify", ["value", "robust", "certified"])
def test_robust_rewards(bank, verify):
    lucky = FEE.gold_statements[0].replace(">= 100", "> 95")
    by_key = "UPDATE account SET cents = cents - 10 WHERE id IN (1, 2, 5)"
    for sql, held in ((FEE.gold_statements[0], True), (lucky, False), (by_key, None)):
        episode = play(FEE, bank, [("EXECUTE", sql), DONE], verify=verify)
        assert episode.correct and episode.robust is held
        assert episode.total_reward == (0 if held is False and verify != "value" else 1)
        assert episode.judged("certified").correct is None


def test_session_is_resumed_with_its_changes(questions):
    session = Session(EpisodeEnv(questions, actions=EXECUTE))
    session.begin("bank-fee")
    session.call("execute", dict(sql="UPDATE account SET cents = 90 WHERE id = 1"))
    session.call("query", dict(sql="SELECT cents FROM account WHERE id = 1"))
    state = session.state()
    assert "Oslo" not in json.dumps(state["actions"]) and "gold" not in json.dumps(state)
    again = Session.resume(EpisodeEnv(questions, actions=EXECUTE), state)
    assert again.episode.changes == session.episode.changes
    for s in (session, again):
        s.call("execute", dict(sql="UPDATE account SET cents = cents - 10 WHERE id IN (2, 5)"))
        s.call("answer", dict(value="done"))
        assert s.verdict().correct and s.verdict().robust is None
    session.close()
    assert session.episode is None


def test_run_is_logged_with_its_conditions_checked_and_judged_again_and_lazy_policies_earn_nothing(questions, tmp_path):
    env = EpisodeEnv(questions, actions=EXECUTE, reward=RewardConfig.partial())
    log = tmp_path / "run.jsonl"
    result = evaluate(env, OraclePolicy(questions), 3, log=log, progress=False)
    assert result.success_rate == 1 and result.unjudged() == {}
    assert replay_problems(log, questions) == {}
    for verify in ("value", "robust"):
        assert rescore_log(log, questions, verify).changed == ()
    assert "UPDATE account" in read_log(log)[1][0].gold_sql
    found = {t.question_id: t.verdicts for t in read_log(log)[1]}
    assert found["bank-fee"]["robust"].coverage == ALL
    lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    kept = {line["question_id"]: line["verdicts"]["robust"] for line in lines}
    assert kept["bank-fee"]["witnessed"] == [3, 3] and "witnessed" not in kept["bank-none"]
    asked = questions.with_questions([FEE, OPEN])
    env = EpisodeEnv(asked, actions=EXECUTE)
    for hack in [*hacks_for(EXECUTE), RandomPolicy(1, EXECUTE)]:
        assert evaluate(env, hack, 2, progress=False).success_rate == 0
    assert max(hack_floor(asked, actions=EXECUTE).values()) == 0


def test_page_of_an_episode_shows_what_changed(bank):
    episode = play(FEE, bank, [("EXECUTE", "UPDATE account SET cents = 91 WHERE id = 1")])
    live = episode_page_html(view_episode(episode))
    assert "100 → 91" in live and "changes of gold" not in live
    episode.step(*DONE)
    page = episode_page_html(view_episode(episode))
    assert "100 → 91" in page and "100 → 90" in page and "250 → 240" in page
