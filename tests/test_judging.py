"SQL judged without an episode: explained, paid, and read out of what models write."

import shutil
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from inspect import signature

import pytest

import sql_env
from sql_env.database.guards import QueryError
from sql_env.judging import compute_score, explain, reward, sql_of, sql_reward_func, sql_rubric
from sql_env.judging.explaining import _fewer_rows
from sql_env.judging.rewards import reward_func, rewards
from sql_env.sources.loading import load

GOLD = "SELECT count(*) FROM visit WHERE paid_on IS NULL"
LUCKY = "SELECT count(*) FROM visit WHERE paid_on IS NULL OR fee_eur > 900"
EQUAL = "SELECT sum(paid_on IS NULL) FROM visit"
WRONG = "SELECT count(*) FROM visit"


@pytest.fixture(scope="module")
def bundled():
    return load("bundled")


@pytest.fixture(scope="module")
def clinic(bundled):
    return bundled.databases["vet_clinic"]


@pytest.mark.parametrize(
    "text, sql",
    {
        "SELECT 1": "SELECT 1",
        "  select a\n\nfrom t;": "select a\n\nfrom t;",
        "-- why\nWITH x AS (\nSELECT 1)\nSELECT * FROM x": "-- why\nWITH x AS (\nSELECT 1)\nSELECT * FROM x",
        "It is:\n```sql\nSELECT 1\n```\nor\n```SQL\nSELECT 2;\n```\nI think.": "SELECT 2;",
        "```sqlite\nSELECT 1\n```\nwhich gives\n```\n| 1 |\n```": "SELECT 1",
        "```sql\nSELECT 1": "SELECT 1",  # cut at the limit of tokens
        "``` SELECT 1 ```": "SELECT 1",
        "<think>SELECT 1</think><answer>SELECT 2</answer>": "SELECT 2",
        "thoughts whose tag the template opened\nSELECT 1\n</think>\nSELECT 2": "SELECT 2",
        "<think>SELECT 1, and on": "",
        "```sql\nSELECT 1\n```\n<answer>```sql\nSELECT 2\n```</answer>": "SELECT 2",
        "<sql>SELECT 3</sql>": "SELECT 3",
        "It is:\nSELECT a\nFROM t\nUNION\nSELECT b FROM u;\nBoth.": "SELECT a\nFROM t\nUNION\nSELECT b FROM u",
        "First:\nSELECT 1\n\nBetter:\nSELECT 2\n\nDone.": "SELECT 2",
        "I select nothing with this.": "",
        "": "",
        "DROP TABLE t": "",
    }.items(),
)
def test_sql_is_read_out_of_what_models_write(text, sql):
    assert sql_of(text) == sql


def test_a_reward_follows_its_judge(clinic):
    by = ("value", "robust", "certified", "rows")
    paid = {sql: [reward(sql, GOLD, clinic, judge) for judge in by] for sql in (GOLD, EQUAL, LUCKY, WRONG)}
    assert paid[GOLD] == paid[EQUAL] == [1, 1, 1, 1]
    assert paid[LUCKY] == [1, 0, 0, 1]
    assert paid[WRONG] == [0, 0, 0, 0]
    # Rows that gold has too are worth something to the soft score alone, and never as much as the right answer
    all_types = "SELECT DISTINCT type FROM animal"
    some = reward(f"{all_types} LIMIT 2", all_types, clinic, "rows")
    assert 0 < some < 0.9
    ordered = "SELECT name FROM animal ORDER BY name"
    assert reward("SELECT name FROM animal", ordered, clinic, "rows") == 0.9


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "nonsense",
        f"{GOLD}; DROP TABLE visit",
        "DELETE FROM visit",
        "SELECT load_extension('x')",
        "SELECT count(*) FROM visit a, visit b, visit c, visit d",
        "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r",
        "SELECT length(randomblob(1000000000))",
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "ATTACH 'x' AS y",
    ],
)
def test_hostile_sql_pays_nothing(clinic, sql):
    assert [reward(sql, GOLD, clinic, by) for by in ("value", "robust", "certified", "rows")] == [0, 0, 0, 0]


def test_a_fault_of_the_data_is_no_reward(clinic, tmp_path):
    for gold in ("SELECT nothing FROM nowhere", "", "DELETE FROM visit"):
        with pytest.raises(ValueError, match="Gold can't be run on vet_clinic.sqlite: .* Mend it or leave it out"):
            reward("SELECT 1", gold, clinic)
    with pytest.raises(ValueError, match="no database file.*Give the path"):
        reward("SELECT 1", GOLD, tmp_path / "lost.sqlite")
    (tmp_path / "text.sqlite").write_text("no database")
    with pytest.raises(QueryError, match="not a SQLite database"):
        reward("SELECT 1", GOLD, tmp_path / "text.sqlite")
    with pytest.raises(ValueError, match="there are value, robust, certified"):
        reward(GOLD, GOLD, clinic, by="luck")


def test_a_file_that_changes_is_read_again(clinic, tmp_path):
    import apsw

    copy = shutil.copy(clinic, tmp_path / "copy.sqlite")
    assert reward("SELECT 44", GOLD, copy, "value") == 1
    con = apsw.Connection(str(copy))
    con.execute("UPDATE visit SET paid_on = '2024-01-01'")
    con.close()
    assert reward("SELECT 44", GOLD, copy, "value") == 0


def test_trainers_call_the_same_function(clinic, bundled):
    texts = [f"```sql\n{sql}\n```" for sql in (GOLD, LUCKY, EQUAL)]
    messages = [[{"role": "user", "content": "?"}, {"role": "assistant", "content": text}] for text in texts]
    columns = dict(gold_sql=[GOLD] * 3, database=[str(clinic)] * 3)
    for completions in (texts, messages):  # TRL passes prompts, completions and the columns of the data set
        assert sql_reward_func(completions=completions, prompts=[""] * 3, completion_ids=[], **columns) == [1, 0, 1]
    by_value = reward_func("value")
    assert by_value.__name__ == "sql_reward_value" and by_value(messages, **columns) == [1, 1, 1]
    with pytest.raises(ValueError, match="columns gold_sql and database.*it has query, db"):
        sql_reward_func(completions=texts, query=[GOLD] * 3, db=[1] * 3)
    # verl passes these four by name
    assert [*signature(compute_score).parameters][:4] == ["data_source", "solution_str", "ground_truth", "extra_info"]
    about = {"database": str(clinic)}
    pay = partial(compute_score, data_source="spider", ground_truth=GOLD)
    assert pay(solution_str=texts[1], extra_info=about) == 0
    assert pay(solution_str=texts[1], extra_info=about | {"by": "value"}) == 1
    with pytest.raises(ValueError, match=r"extra_info\['database'\]"):
        pay(solution_str=texts[0], extra_info={"index": 3})
    # verifiers passes what a function names
    assert sql_rubric(completion=messages[1], answer=GOLD, info=about, state={}, prompt="") == 0
    assert sql_rubric(completion=messages[0], answer=GOLD, info=about) == 1
    with pytest.raises(ValueError, match=r"info\['database'\]"):
        sql_rubric(completion=messages[0], answer=GOLD)


def test_skyrl_pays_one_message(clinic):
    pytest.importorskip("skyrl_gym", reason="pip install 'sql_env[skyrl]'")
    from sql_env.integrations.skyrl import SQLTextEnv

    row = dict(reward_spec=dict(ground_truth=GOLD), database=str(clinic))
    paid = [SQLTextEnv(config, row).step(LUCKY) for config in ({}, {"by": "value"})]
    assert [(out["reward"], out["done"]) for out in paid] == [(0, True), (1, True)]
    with pytest.raises(ValueError, match="database"):
        SQLTextEnv({}, dict(reward_spec=row["reward_spec"])).step(GOLD)


def test_a_batch_of_two_processes_pays_what_one_does(bundled):
    golds = [q for q in bundled.questions[::16] if q.gold_sql]
    jobs = [(text, q.gold_sql, bundled.databases[q.database_name]) for q in golds for text in (q.gold_sql, "SELECT 1")]
    texts, sqls, files = map(list, zip(*jobs))
    with ProcessPoolExecutor(2) as pool:
        apart = rewards(texts, sqls, files, executor=pool)
    assert apart == rewards(texts, sqls, files)
    assert apart[::2] == [1.0] * len(golds) and sum(apart[1::2]) < 2


def test_the_smallest_database_shows_the_difference(clinic):
    assert sql_env.explain is explain and sql_env.reward is reward
    e = explain(LUCKY, GOLD, clinic)
    assert not e and e.verdict.reason == "differs" and e.tried.verdict
    rows = [row for table in e.smallest.tables.values() for row in table.rows]
    assert [*e.smallest.tables] == ["visit"] and len(rows) == 1  # that is paid and dear
    assert e.smallest.gold.rows == [(0,)] and e.smallest.result.rows == [(1,)]
    text = str(e)
    assert "not on other contents" in text and GOLD in text and LUCKY in text
    assert "<table" in e._repr_html_() and "&gt; 900" in e._repr_html_()  # texts are escaped


@pytest.mark.parametrize(
    "sql, correct, words, smallest",
    [
        (GOLD, True, "all other contents", False),
        (EQUAL, True, "all other contents", False),
        (WRONG, False, "Wrong on vet_clinic: a row that gold does not have", True),
        ("SELECT fee FROM visit", False, "fails on vet_clinic. no such column: fee", False),
        ("", False, "There is no SQL", False),
    ],
)
def test_an_explanation_says_what_it_found(clinic, sql, correct, words, smallest):
    e = explain(sql, GOLD, clinic)
    assert bool(e) is correct and words in str(e) and (e.smallest is not None) is smallest
    assert "DESCRIBE" not in str(e)  # an act of agents


def test_no_row_of_a_smallest_database_can_be_spared_and_none_loses_its_parent(bundled):
    needed = {3, 11, 12}
    found = _fewer_rows([*range(20)], lambda gone: needed.isdisjoint(gone) and {*range(20)} - {*gone})
    assert found == needed
    gold = "SELECT count(*) FROM visit WHERE fee_eur > 100"
    e = explain(
        gold.replace("visit", "visit JOIN animal USING (animal_id)") + " AND sex = 'F'",
        gold,
        bundled.databases["vet_clinic"],
    )
    visits, animals = (e.smallest.tables.get(name) for name in ("visit", "animal"))
    assert len(visits.rows) == 1 and len(animals.rows) == 1  # its animal stays, as the other query reads it
    assert visits.rows[0][visits.columns.index("animal_id")] == animals.rows[0][animals.columns.index("animal_id")]


def test_layout_changes_no_explanation(clinic):
    plain, wild = explain(LUCKY, GOLD, clinic), explain(f"\n  {LUCKY.lower()}  ;\n-- so", GOLD, clinic)
    assert plain.smallest.tables == wild.smallest.tables


@pytest.mark.slow
def test_trl_trains_on_it(tiny, clinic, tmp_path):
    "Two steps of TRL's own trainer, whose data set names gold and database."
    import datasets
    import trl

    kit, tok = tiny
    seen = []

    def reward_spy(completions, **columns):
        seen.append(sql_reward_func(completions, **columns))
        return seen[-1]

    row = dict(prompt=[dict(role="user", content="How many visits?")], gold_sql=GOLD, database=str(clinic))
    args = trl.GRPOConfig(
        output_dir=str(tmp_path),
        max_steps=2,
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=8,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
    )
    data = datasets.Dataset.from_list([row] * 4)
    trl.GRPOTrainer(kit.make_model(tok), reward_spy, args=args, train_dataset=data, processing_class=tok).train()
    assert seen == [[0.0, 0.0]] * 2
