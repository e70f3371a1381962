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
from sql_env.grading.changes import _start_states, judge_changes, judge_replay
from sql_env.play import ACTIONS, Episode, EpisodeEnv, RewardConfig, Session
from sql_env.policies import OraclePolicy, RandomPolicy
from sql_env.policies.baselines import hacks_for
from sql_env.questions.gold import judge_task
from sql_env.questions.question_set import (
    Question,
    QuestionSet,
    question_from_fields,
    question_to_json,
    read_questions,
    save_question_set,
)
from sql_env.sql.text import split_statements
from sql_env.view.page import episode_page_html

EXECUTE = (*ACTIONS, "EXECUTE")
PRESETS = dict(
    sparse=RewardConfig.sparse(),
    shaped=RewardConfig.shaped(),
    discounted=RewardConfig.shaped(0.9),
    partial=RewardConfig.partial(),
)
SCHEMA = """CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT);
    CREATE TABLE account(id INTEGER PRIMARY KEY, customer_id INT REFERENCES customer(id), cents INT CHECK (cents >= 0));
    CREATE TABLE entry(id INTEGER PRIMARY KEY, account_id INT REFERENCES account(id), what TEXT);"""
ROWS = dict(
    customer=[(1, "Ada", "Oslo"), (2, "Ben", "Riga"), (3, "Cleo", "Oslo"), (4, "Dan", "Rome")],
    account=[(1, 1, 100), (2, 1, 250), (3, 2, 400), (4, 3, 90), (5, 3, 700), (6, 4, 20)],
    entry=[(i, 1 + i % 6, "x") for i in range(1, 10)],
)
FEE = Question(
    "bank-fee",
    "Take 10 cents from every account of customers in Oslo that holds 100 cents or more.",
    "bank",
    "",
    gold_statements=(
        "UPDATE account SET cents = cents - 10 WHERE cents >= 100 AND customer_id IN "
        "(SELECT id FROM customer WHERE city = 'Oslo')",
    ),
    writes=("account",),
    states_rule=True,
    invariants=("SELECT count(*) FROM account",),
)
OPEN = Question(
    "bank-open",
    "Eve of Oslo opens an account with 5 cents; note 'new' for it.",
    "bank",
    "",
    gold_statements=(
        "INSERT INTO customer(name, city) VALUES ('Eve', 'Oslo')",
        "INSERT INTO account(customer_id, cents) VALUES (last_insert_rowid(), 5)",
        "INSERT INTO entry(account_id, what) VALUES (last_insert_rowid(), 'new')",
    ),
    writes=("customer", "account", "entry"),
)
NOTHING = Question("bank-none", "Close all empty accounts.", "bank", "", writes=("account",))


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
ODD = """CREATE TABLE plain(a, b TEXT);
    CREATE TABLE keyed(k INTEGER PRIMARY KEY, a, double AS (k * 2), b BLOB);
    CREATE TABLE texts(k TEXT PRIMARY KEY, a REAL, long AS (k || a) STORED);
    CREATE TABLE pairs(a, b, c, PRIMARY KEY (a, b)) WITHOUT ROWID;
    CREATE TABLE hidden(rowid TEXT, oid TEXT, _rowid_ TEXT, a PRIMARY KEY);
    CREATE TABLE "odd name"("a b" PRIMARY KEY, "select" INT, rowid INT);
    CREATE TABLE noted(what TEXT);
    CREATE TRIGGER t AFTER DELETE ON plain BEGIN INSERT INTO noted VALUES (old.a); END;"""
ODD_ROWS = dict(
    plain=[(1, "x"), (1, "x"), (None, None), (2, "y")],
    texts=[],
    pairs=[(1, 2, b"\0\1"), (1, 3, None), ("k", 2.5, "z")],
    hidden=[("r", "o", "w", 1), ("r", "o", "w", None), ("r", "o", "w", None)],
    noted=[],
)
ODD_ROWS["odd name"] = [("a", 1, 5), (None, 2, 5), (b"k", 3, 5)]
STATEMENTS = cases("tasks_statements")


def rows_of(source, table):
    return sorted(map(repr, source.query(f'SELECT * FROM "{table}"').rows))


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    path = build_database(tmp_path_factory.mktemp("odd") / "odd.sqlite", ODD, ODD_ROWS)
    con = apsw.Connection(str(path))
    con.execute("INSERT INTO keyed(k, a, b) VALUES (1, 'a', NULL), (2, 2.5, x'ff'), (3, NULL, 'c')")
    con.close()
    return Database(path)


@pytest.mark.parametrize("small, seed", product([2**30, 0], range(25)))
def test_changes_are_what_whole_tables_differ_in(odd, monkeypatch, small, seed):
    monkeypatch.setattr(writing, "_SMALL_BYTES", small)
    rng = Random(seed)
    with odd.writer(odd.tables) as copy:
        for sql in rng.choices(STATEMENTS, k=rng.randint(1, 8)):
            with suppress(QueryError):
                copy.execute(sql)
        found = copy.changes()
        for table in odd.tables:
            before, after = rows_of(odd, table), rows_of(copy, table)
            for change in found:
                if change.table == table:
                    assert change.old != change.new
                    if change.old is not None:
                        before.remove(repr(change.old))
                    if change.new is not None:
                        before.append(repr(change.new))
            assert sorted(before) == after
    assert copy.changes() == found  # once closed, too


def test_pages_and_copies_answer_alike(odd, monkeypatch):
    for sql in STATEMENTS:
        seen = []
        for small in (2**30, 0):
            monkeypatch.setattr(writing, "_SMALL_BYTES", small)
            with odd.writer(odd.tables) as copy:
                counts = list(map(str, copy.execute(sql)))
                shown = [str(copy.describe(t)) + copy.sample(t).text() for t in odd.tables]
                seen.append((counts, shown, copy.changes()))
        assert seen[0] == seen[1]


def test_a_database_with_a_log_can_be_written_to(tmp_path, monkeypatch):
    path = tmp_path / "log.sqlite"
    con = apsw.Connection(str(path))
    con.execute("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    con.execute("PRAGMA journal_mode=WAL").fetchall()
    con.close()
    assert path.read_bytes()[18] == 2
    for small in (2**30, 0):
        monkeypatch.setattr(writing, "_SMALL_BYTES", small)
        with Database(path).writer(["t"]) as copy:
            copy.execute("UPDATE t SET a = 2")
            assert copy.changes()[0].new == (2,)


def test_references_that_a_file_declares_wrongly_do_not_stop_writing(tmp_path):
    schema = "CREATE TABLE a(x); CREATE TABLE b(y REFERENCES a(x), z REFERENCES none(q));"
    path = build_database(tmp_path / "w.sqlite", schema, dict(a=[(1,)], b=[(1, 1)]))
    with Database(path).writer(["a", "b"]) as copy:
        copy.execute("DELETE FROM a; INSERT INTO b VALUES (5, 5)")
        assert len(copy.changes()) == 2


def test_what_is_done_in_one_go_is_done_or_not(bank):
    with bank.writer(["account"]) as copy:
        with pytest.raises(QueryError) as e:
            copy.execute("UPDATE account SET cents = 1; UPDATE account SET cents = -1")
        assert e.value.kind == "constraint" and copy.changes() == []


# --- the verdict
VERDICTS = [
    (FEE, FEE.gold_statements[0], "match"),
    (FEE, "UPDATE account SET cents = cents - 10 WHERE id IN (1, 2, 5)", "match"),
    (FEE, "DELETE FROM entry; REPLACE INTO account SELECT id, customer_id, 90 FROM account", None),
    (FEE, "UPDATE account SET cents = cents - 10 WHERE id IN (1, 2)", "missing"),
    (FEE, "UPDATE account SET cents = cents - 10", "collateral"),
    (FEE, "UPDATE account SET cents = cents - 9 WHERE id IN (1, 2, 5)", "wrong"),
    (FEE, "UPDATE account SET cents = cents", "missing"),
    (OPEN, ";".join(OPEN.gold_statements), "match"),
    (
        OPEN,
        "INSERT INTO customer VALUES (77, 'Eve', 'Oslo'); INSERT INTO account VALUES (88, 77, 5);"
        "INSERT INTO entry VALUES (99, 88, 'new')",
        "match",
    ),
    (
        OPEN,
        "INSERT INTO customer VALUES (77, 'Eve', 'Oslo'); INSERT INTO account VALUES (88, 1, 5);"
        "INSERT INTO entry VALUES (99, 88, 'new')",
        "wrong",
    ),
    (
        OPEN,
        "INSERT INTO customer VALUES (77, 'Eve', 'Oslo'); INSERT INTO account VALUES (88, 77, 5);"
        "INSERT INTO entry VALUES (99, 1, 'new')",
        "wrong",
    ),
    (
        OPEN,
        "INSERT INTO customer VALUES (7, 'Eve', 'Oslo'), (8, 'Eve', 'Oslo');"
        "INSERT INTO account VALUES (88, 7, 5); INSERT INTO entry VALUES (99, 88, 'new')",
        "collateral",
    ),
    (NOTHING, "DELETE FROM account WHERE cents = 0", "match"),
    (NOTHING, "UPDATE account SET cents = 21 WHERE id = 6", "collateral"),
]


@pytest.mark.parametrize("q, sql, reason", VERDICTS)
def test_verdict_on_a_state(bank, q, sql, reason):
    try:
        found = changed(bank, q, sql)
    except QueryError:
        assert reason is None
        return
    verdict = judge_changes(q, bank, found)
    assert (verdict.reason, verdict.correct) == (reason, reason == "match")
    assert verdict.correct or verdict.detail


def test_removed_and_added_again_is_changed(bank):
    again = "DELETE FROM entry WHERE id = 4; INSERT INTO entry VALUES (4, 5, 'y')"
    q = OPEN.with_fields(gold_statements=("UPDATE entry SET what = 'y' WHERE id = 4",))
    assert judge_changes(q, bank, changed(bank, q, again))


def test_numbers_that_gold_chooses_are_kept(bank):
    q = OPEN.with_fields(gold_statements=("INSERT INTO customer VALUES (50, 'Eve', 'Oslo')",))
    other = "INSERT INTO customer(name, city) VALUES ('Eve', 'Oslo')"
    assert not judge_changes(q, bank, changed(bank, q, other))


def test_last_digits_of_floats_do_not_matter(tmp_path):
    path = build_database(tmp_path / "f.sqlite", "CREATE TABLE t(x REAL);", dict(t=[(0.3,), (7.0,)]))
    q = Question("f", "?", "f", "", gold_statements=("UPDATE t SET x = x * 1.1",), writes=("t",))
    found = changed(Database(path), q, "UPDATE t SET x = x + x / 10")
    assert judge_changes(q, Database(path), found)


ROBUST = cases("tasks_robust")


@pytest.mark.parametrize("sql, correct, reason", ROBUST)
def test_verdict_on_other_contents(bank, sql, correct, reason):
    assert judge_changes(FEE, bank, changed(bank, FEE, sql))
    verdict = judge_replay(FEE, bank, [sql])
    assert (verdict.correct, verdict.reason) == (correct, reason)


def test_a_right_verdict_parses_no_statement_and_splits_each_once(bank, monkeypatch):
    gold = list(FEE.gold_statements)
    assert judge_replay(FEE, bank, gold)
    monkeypatch.setattr("sql_env.grading.changes.named_values", None)  # can't be called
    misses = split_statements.cache_info().misses
    assert judge_replay(FEE, bank, gold) and split_statements.cache_info().misses == misses


def test_statements_given_one_by_one_are_replayed_in_their_order(bank):
    parts = [
        "UPDATE account SET cents = cents - 5 WHERE cents >= 100 AND customer_id IN "
        "(SELECT id FROM customer WHERE city = 'Oslo')",
        "UPDATE account SET cents = cents - 5 WHERE cents >= 95 AND customer_id IN "
        "(SELECT id FROM customer WHERE city = 'Oslo')",
    ]
    assert judge_changes(FEE, bank, changed(bank, FEE, *parts))
    assert judge_replay(FEE, bank, parts).reason == "differs"  # 95 to 99 lose 5


def test_tasks_without_a_rule_are_judged_on_other_contents(bank):
    assert judge_replay(OPEN, bank, list(OPEN.gold_statements)).reason == "match"
    assert judge_replay(OPEN, bank, []).reason == "by_keys"  # it does not say whom it means
    assert judge_replay(NOTHING, bank, [])  # who does nothing does nothing anywhere
    assert judge_replay(NOTHING, bank, ["UPDATE account SET cents = 0 WHERE cents < 0"]).reason == "no_rule"


def test_a_reference_that_fails_is_named(bank):
    with bank.writer(("customer", "account")) as copy:
        for sql in ("DELETE FROM customer WHERE id = 1", "UPDATE account SET customer_id = 99"):
            with pytest.raises(QueryError) as e:
                copy.execute(sql)
            assert "account.customer_id refers to customer" in str(e.value)


@pytest.mark.parametrize(
    ("look", "is_grounded"),
    [
        (("SAMPLE", "account"), True),
        (("QUERY", "SELECT cents FROM account"), True),
        (("DESCRIBE", "account"), False),
        (("SAMPLE", "customer"), False),
        (("QUERY", "SELECT name FROM customer"), False),
        (("QUERY", "SELECT 1"), False),
    ],
)
def test_a_task_is_grounded_if_rows_that_it_may_change_were_seen(bank, look, is_grounded):
    assert play(FEE, bank, [look, ("EXECUTE", FEE.gold_statements[0]), DONE]).grounded is is_grounded


@pytest.mark.parametrize("gold, wrong", cases("tasks_each_condition_has_a_row_that"))
def test_each_condition_has_a_row_that_fails_it_alone(bank, gold, wrong):
    tables = ("account", "customer")
    task = FEE.with_fields(gold_statements=(gold,), writes=tables, tables_involved=tables)
    states = _start_states(task, bank)
    assert states.conditions and all(states.conditions.values()), states.witnessed
    assert judge_replay(task, bank, [gold]) and judge_replay(task, bank, [wrong]).reason == "differs"


MOVE = "UPDATE customer SET city = 'Oslo' WHERE name = 'Dan' AND city = 'Rome'"
KEEP = (
    "INSERT INTO entry (id, account_id, what) VALUES (40, 2, 'new') ON CONFLICT (id) DO UPDATE SET what = excluded.what"
)


@pytest.mark.parametrize(
    "gold, wrong",
    [
        (MOVE, MOVE.replace("= 'Dan'", "LIKE '%Dan%'")),
        (MOVE, MOVE.replace("= 'Dan'", "<= 'Dan'")),
        (MOVE, MOVE.replace("= 'Rome'", "LIKE 'Rom%'")),
        (MOVE, MOVE.replace(" AND city = 'Rome'", "")),
        (KEEP, KEEP.replace("what = excluded.what", "account_id = 2")),
        (KEEP, KEEP.replace("UPDATE SET what = excluded.what", "NOTHING")),
    ],
)
def test_who_is_named_is_not_alone_on_other_contents(bank, gold, wrong):
    task = OPEN.with_fields(question_text=gold, gold_statements=(gold,), writes=("customer", "entry"))
    assert judge_changes(task, bank, changed(bank, task, wrong))
    assert judge_replay(task, bank, [gold]) and judge_replay(task, bank, [wrong]).reason == "differs"


def test_all_conditions_of_all_tasks_by_hand_are_witnessed():
    tasks = load("bundled_tasks")
    for q in filter(lambda q: q.gold_statements, tasks):
        database = tasks.database(q.database_name)
        states = _start_states(q, database)
        assert all(states.conditions.values()), (q.question_id, states.witnessed)
        assert judge_replay(q, database, list(q.gold_statements)).reason == "match", q.question_id


ALL = "3 of 3 conditions witnessed"  # of FEE


# --- loading
BAD = cases("tasks_bad")


@pytest.mark.parametrize("fields, flag", BAD)
def test_bad_gold_is_set_aside(questions, bank, fields, flag):
    judged = judge_task(FEE.with_fields(**fields), bank)
    assert judged.flags == (flag,)
    assert len(questions.with_questions([judged])) == 0


def test_a_folder_of_tasks_loads_and_saves(questions, tmp_path):
    save_question_set(questions, tmp_path)
    loaded = load("folder", path=tmp_path)
    assert list(loaded) == list(questions) == read_questions(tmp_path / "questions.jsonl")
    fields = json.loads(question_to_json(FEE))
    assert question_from_fields(fields) == FEE
    for name, value in dict(writes="account", gold_statements=[1], states_rule=1, invariants={}).items():
        with pytest.raises(ValueError, match=name):
            question_from_fields(fields | {name: value})
    with pytest.raises(ValueError, match="writes"):
        question_from_fields({k: v for k, v in fields.items() if k != "writes"} | {"gold_sql": ""})


def test_audit_of_tasks(questions):
    audit = audit_questions(questions, progress=False)
    assert not [q.flags for q in audit.questions if set(q.flags) & {"unanswerable", "error", "unwitnessed"}]
    assert audit.coverage == {"bank-fee": ALL}
    assert f"* `bank-fee` {ALL}" in audit_markdown(audit)
    assert audit_summary(audit)["coverage"] == audit.coverage


def test_audit_flags_a_condition_that_no_row_fails_alone(questions):
    never = FEE.gold_statements[0].replace("cents >= 100", "cents >= 100 AND cents >= -5")
    audit = audit_questions(questions.with_questions([FEE.with_fields(gold_statements=(never,))]), progress=False)
    (task,) = audit.questions
    assert "unwitnessed" in task.flags and task.reason("unwitnessed") == "3 of 4 conditions witnessed"
    assert audit.exit_code == 0  # it can be played


def test_a_log_tells_how_many_conditions_were_witnessed(questions, tmp_path):
    log = tmp_path / "log.jsonl"
    evaluate(EpisodeEnv(questions, actions=EXECUTE), OraclePolicy(questions), log=log, progress=False)
    found = {t.episode.question_id: t.episode.verdicts for t in read_log(log)[1]}
    assert found["bank-fee"]["robust"].coverage == ALL
    lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    kept = {line["episode"]["question_id"]: line["episode"]["verdicts"]["robust"] for line in lines}
    assert kept["bank-fee"]["witnessed"] == [3, 3] and "witnessed" not in kept["bank-none"]


# --- the episode
def play(q, bank, actions, reward="sparse", verify="value", **settings):
    episode = Episode(q, bank, reward=PRESETS[reward], verify=verify, actions=EXECUTE, **settings)
    episode.reset()
    for action in actions:
        episode.step(*action)
    return episode


DONE = ("ANSWER", "done")
DEEDS = dict(  # (question, actions): is it right
    right=(FEE, [("EXECUTE", FEE.gold_statements[0]), DONE], True),
    in_two=(
        FEE,
        [("EXECUTE", f"UPDATE account SET cents = cents - 10 WHERE id {ids}") for ids in ("< 3", "= 5")] + [DONE],
        True,
    ),
    after_mistakes=(
        FEE,
        [
            ("QUERY", "SELECT * FROM account"),
            ("EXECUTE", "DELETE FROM account"),
            ("EXECUTE", "UPDATE account SET cents = 0 WHERE id = 6"),
            ("EXECUTE", "UPDATE account SET cents = 20 WHERE id = 6"),
            ("EXECUTE", FEE.gold_statements[0]),
            DONE,
        ],
        True,
    ),
    looked_and_nothing=(NOTHING, [("QUERY", "SELECT count(*) FROM account WHERE cents = 0"), DONE], True),
    nothing_unseen=(NOTHING, [DONE], False),
    looked_elsewhere=(NOTHING, [("QUERY", "SELECT count(*) FROM customer"), DONE], False),
    described_only=(NOTHING, [("DESCRIBE", "account"), DONE], False),
    nothing=(FEE, [DONE], False),
    looked=(FEE, [("QUERY", "SELECT * FROM account"), DONE], False),
    write_back=(FEE, [("EXECUTE", "UPDATE account SET cents = cents"), DONE], False),
    replace_by_itself=(FEE, [("EXECUTE", "REPLACE INTO account SELECT * FROM account"), DONE], False),
    there_and_back=(FEE, [("EXECUTE", f"UPDATE account SET cents = cents {s} 7") for s in "+-"] + [DONE], False),
    delete_all=(OPEN, [("EXECUTE", "DELETE FROM entry"), DONE], False),
    delete_more=(OPEN, [("EXECUTE", "DELETE FROM entry; DELETE FROM account"), DONE], False),
    too_much=(FEE, [("EXECUTE", "UPDATE account SET cents = cents - 10 WHERE cents >= 10"), DONE], False),
    right_and_more=(
        FEE,
        [("EXECUTE", FEE.gold_statements[0]), ("EXECUTE", "UPDATE account SET cents = 0 WHERE id = 6"), DONE],
        False,
    ),
    half=(FEE, [("EXECUTE", "UPDATE account SET cents = cents - 10 WHERE id = 5"), DONE], False),
    right_without_end=(FEE, [("EXECUTE", FEE.gold_statements[0])] * 1 + [("DESCRIBE", "entry")] * 20, False),
)
PAID_IN_PART = {"half"}  # under `partial`: nothing but what was asked for, though not all of it


@pytest.mark.parametrize("name, reward", product(DEEDS, PRESETS))
def test_rewards_of_deeds(bank, name, reward):
    q, actions, is_right = DEEDS[name]
    episode = play(q, bank, actions, reward)
    assert episode.done and episode.correct == is_right
    total = episode.total_reward
    if reward == "discounted":
        total = sum(sum(t.reward.values()) * 0.9**i for i, t in enumerate(episode.turns))
    if is_right:
        assert total > PRESETS[reward].most_without_answer
        assert total > 0
    elif reward == "partial" and name in PAID_IN_PART:
        assert 0 < total <= PRESETS["partial"].credit
    else:
        assert total <= 1e-9
    if reward == "sparse":
        assert total == is_right


POOL = cases("tasks_pool")


@pytest.mark.parametrize("reward", PRESETS)
def test_a_searching_adversary_earns_nothing_by_harm(bank, reward):
    config, right, wrong = PRESETS[reward], [], []
    for seed in range(60):
        rng = Random(seed)
        actions = rng.choices(POOL, k=rng.randint(0, 12))
        episode = play(FEE, bank, [*actions, DONE][-12:], reward)
        total = sum(sum(t.reward.values()) * config.gamma**i for i, t in enumerate(episode.turns))
        (right if episode.correct else wrong).append(total)
        if not episode.correct:
            assert total <= config.most_without_answer + 1e-9
            if episode.verdict.reason in ("collateral", "wrong"):
                assert total <= 1e-9
    assert min(right) > max(wrong)


def test_a_broken_invariant_is_named(bank):
    q = FEE.with_fields(invariants=("SELECT sum(cents) FROM account WHERE id = 6",))
    for cents, reason in ((0, "invariant"), (20, "missing")):
        episode = play(q, bank, [("EXECUTE", f"UPDATE account SET cents = {cents} WHERE id = 6"), DONE])
        assert episode.verdict.reason == reason and not episode.correct


def test_reads_see_writes_and_the_next_episode_does_not(bank):
    episode = play(FEE, bank, [("EXECUTE", "UPDATE account SET cents = 1 WHERE id = 6")])
    assert "1" in episode.step("QUERY", "SELECT cents FROM account WHERE id = 6").result
    assert len(episode.changes) == 1
    episode.step(*DONE)
    assert len(episode.changes) == 1 and episode.work.copy.is_closed
    episode.reset()
    assert episode.changes == []
    assert "20" in episode.step("QUERY", "SELECT cents FROM account WHERE id = 6").result


def test_execute_is_off_unless_the_question_is_a_task(bank):
    plain = Question("p", "How many accounts?", "bank", "SELECT count(*) FROM account", ((6,),))
    seen = []
    for actions in (ACTIONS, EXECUTE):
        episode = Episode(plain, bank, actions=actions)
        observations = [episode.reset()]
        for action in [("DESCRIBE", "account"), ("EXECUTE", "DELETE FROM account"), ("ANSWER", "6")]:
            observations.append(episode.step(*action))
        seen.append(observations)
        assert episode.correct and "unknown_action" in observations[2].error
    assert seen[0] == seen[1]


def test_tasks_need_execute(questions):
    with pytest.raises(ValueError, match="EXECUTE"):
        EpisodeEnv(questions)
    plain = Question("p", "How many accounts?", "bank", "SELECT count(*) FROM account", ((6,),))
    mixed = questions.with_questions([*questions, plain])
    assert [q.question_id for q in EpisodeEnv(mixed).questions] == ["p"]
    assert len(EpisodeEnv(mixed, actions=EXECUTE).questions) == 4


def test_a_task_that_asks_a_question_too(bank):
    both = FEE.with_fields(
        gold_sql="SELECT count(*) FROM account WHERE cents >= 100", gold_answer=((4,),), answer_type="integer"
    )
    do = ("EXECUTE", FEE.gold_statements[0])
    ask = ("QUERY", both.gold_sql)
    assert play(both, bank, [ask, do, ("ANSWER", "@last")]).correct
    assert play(both, bank, [do, ("ANSWER", "4")]).correct
    assert not play(both, bank, [do, ("ANSWER", "3")]).correct
    assert not play(both, bank, [("ANSWER", "4")]).correct
    assert OraclePolicy([both])
    assert (
        evaluate(
            EpisodeEnv(QuestionSet([both], {"bank": bank.path}), actions=EXECUTE),
            OraclePolicy([both]),
            1,
            progress=False,
        ).success_rate
        == 1
    )


@pytest.mark.parametrize("verify", ["value", "robust", "certified"])
def test_robust_rewards(bank, verify):
    lucky = FEE.gold_statements[0].replace(">= 100", "> 95")
    by_key = "UPDATE account SET cents = cents - 10 WHERE id IN (1, 2, 5)"
    for sql, held in ((FEE.gold_statements[0], True), (lucky, False), (by_key, None)):
        episode = play(FEE, bank, [("EXECUTE", sql), DONE], verify=verify)
        assert episode.correct and episode.robust is held
        assert episode.total_reward == (0 if held is False and verify != "value" else 1)
        assert episode.judged("certified").correct is None


def test_an_episode_can_be_copied_while_it_is_played(bank):
    episode = play(FEE, bank, [("EXECUTE", "UPDATE account SET cents = 240 WHERE id = 2")])
    twin = pickle.loads(pickle.dumps(episode))
    other = deepcopy(episode.work)
    for sql in ("UPDATE account SET cents = cents - 10 WHERE id IN (1, 5)",):
        assert twin.step("EXECUTE", sql).error == ""
    assert twin.step(*DONE).done and twin.correct and not episode.done
    assert episode.changes == other.changes != twin.changes
    assert pickle.loads(pickle.dumps(twin)).changes == twin.changes


def test_gold_that_fails_tells_nothing(bank):
    q = FEE.with_fields(gold_statements=("UPDATE account SET cents = -77",))
    for reward in PRESETS:
        episode = play(q, bank, [("EXECUTE", "UPDATE account SET cents = 1 WHERE id = 6")], reward)
        assert episode.turns[-1].error == "" and len(episode.changes) == 1
        with pytest.raises(QueryError, match="^The task can't be judged.$"):  # no mistake of who plays
            episode.step(*DONE)


def test_session_is_resumed_with_its_changes(questions):
    env = EpisodeEnv(questions, actions=EXECUTE)
    session = Session(env)
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


def test_run_is_logged_checked_and_judged_again(questions, tmp_path):
    env = EpisodeEnv(questions, actions=EXECUTE, reward=RewardConfig.partial())
    log = tmp_path / "run.jsonl"
    result = evaluate(env, OraclePolicy(questions), 3, log=log, progress=False)
    assert result.success_rate == 1
    assert result.unjudged() == {}
    assert replay_problems(log, questions) == {}
    for verify in ("value", "robust"):
        assert rescore_log(log, questions, verify).changed == ()
    assert "UPDATE account" in read_log(log)[1][0].gold_sql


def test_lazy_policies_earn_nothing(questions):
    asked = questions.with_questions([FEE, OPEN])
    env = EpisodeEnv(asked, actions=EXECUTE)
    for hack in [*hacks_for(EXECUTE), RandomPolicy(1, EXECUTE)]:
        assert evaluate(env, hack, 2, progress=False).success_rate == 0
    assert max(hack_floor(asked, actions=EXECUTE).values()) == 0


def test_page_of_an_episode_shows_what_changed(bank):
    episode = play(FEE, bank, [("EXECUTE", "UPDATE account SET cents = 91 WHERE id = 1")])
    live = episode_page_html(episode_view(episode))
    assert "100 → 91" in live and "changes of gold" not in live
    episode.step(*DONE)
    page = episode_page_html(episode_view(episode))
    assert "100 → 91" in page and "100 → 90" in page and "250 → 240" in page


def episode_view(episode):
    from sql_env.view.episode import view_episode

    return view_episode(episode)


def test_a_task_is_explored_as_fast_as_a_question(questions):
    "Looks are brief until the first change; then they read a copy that is the session's own."
    env = EpisodeEnv(questions, actions=EXECUTE)
    env.reset(question_id="bank-fee")
    env.step("DESCRIBE", "account")  # the database is open from now on
    assert env.try_step("SAMPLE", "account") and env.try_step("QUERY", "SELECT max(cents) FROM account")
    change = "EXECUTE", "UPDATE account SET cents = 90 WHERE id = 1"
    assert env.try_step(*change) is None and not env.step(*change).error
    assert env.try_step("QUERY", "SELECT max(cents) FROM account") is None
