"Files of predicted SQL: read, laid beside their questions, judged, compared, printed."

import json
import os
import random
import zipfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

import sql_env
from sql_env.evaluation.results import compare, compare_all
from sql_env.judging import PredictionError, judge
from sql_env.judging.judgement import RATES, RULES, find_cause, judgement_page_html
from sql_env.judging.predictions import BIRD_MARK, align, read_predictions
from sql_env.sources.loading import load

SPIDER = Path(os.environ.get("SQL_ENV_SPIDER", Path(__file__).parents[2] / "shared" / "spider"))
PREDICTIONS = Path(os.environ.get("SQL_ENV_PREDICTIONS", Path(__file__).parents[2] / "shared" / "predictions"))
LUCKY = "SELECT count(*) FROM visit WHERE paid_on IS NULL OR fee_eur > 900"


@pytest.fixture(scope="module")
def clinic():
    return load("bundled").filter(database_name="vet_clinic")


@pytest.fixture(scope="module")
def every():
    return load("bundled")


def sqls_of(questions) -> list[str]:
    return [" ".join(q.gold_sql.split()) for q in questions.in_order]


def written(folder: Path, form: str, questions) -> Path:
    "Gold in one of the forms that people write."
    golds, qs = sqls_of(questions), questions.in_order
    numbers = [q.question_id.rpartition("-")[2] for q in qs]
    texts = {
        "text.txt": "\n".join(golds),
        "crlf.sql": "\r\n".join([*golds, ""]),
        "tab.txt": "\n".join(f"{sql}\t{q.database_name}" for sql, q in zip(golds, qs)),
        "mark.txt": "\n".join(f"{sql}{BIRD_MARK}{q.database_name}" for sql, q in zip(golds, qs)),
        "list.json": json.dumps(golds),
        "objects.json": json.dumps([{"predicted_sql": s, "db_id": q.database_name} for s, q in zip(golds, qs)]),
        "bird.json": json.dumps({str(i): f"{s}{BIRD_MARK}vet_clinic" for i, s in enumerate(golds)}),
        "ids.json": "\ufeff" + json.dumps({q.question_id: s for s, q in reversed([*zip(golds, qs)])}),
        "numbers.jsonl": "\n".join(json.dumps({"question_id": n, "sql": s}) for n, s in zip(numbers, golds)),
        "chat.jsonl": "\n".join(json.dumps({"response": f"So:\n```sql\n{s}\n```"}) for s in golds),
        "table.csv": 'NLQ,PREDICTED SQL\n"'
        + '"\n"'.join(
            f'{q.question_text.replace(chr(34), chr(34) * 2)}","{s.replace(chr(34), chr(34) * 2)}'
            for s, q in zip(golds, qs)
        )
        + '"\n',
    }
    if form in texts:
        (folder / form).write_bytes(texts[form].encode())
        return folder / form
    for q, sql in zip(qs, golds):
        (folder / f"{q.question_id}.sql").write_text(sql)
    if form == "folder":
        return folder
    with zipfile.ZipFile(folder.with_suffix(".zip"), "w") as archive:
        for file in folder.glob("*.sql"):
            archive.write(file, file.name)
    return folder.with_suffix(".zip")


FORMS = (
    "text.txt crlf.sql tab.txt mark.txt list.json objects.json bird.json ids.json numbers.jsonl chat.jsonl table.csv "
    "folder zip"
).split()


@pytest.mark.parametrize("form", FORMS)
def test_what_people_write_is_read(tmp_path, clinic, form):
    found = align(read_predictions(written(tmp_path, form, clinic), {"vet_clinic"}), clinic.in_order)
    assert [p.sql for p in found] == sqls_of(clinic)
    assert [p.is_taken_out for p in found] == [form == "chat.jsonl"] * len(found)


@pytest.mark.parametrize(
    "name, text",
    {
        "a.json": ('{"0": "SELECT 1", "0": "SELECT 2"}', "'0' stands 2 times"),
        "b.json": ("{nonsense", "can't be read as .json"),
        "c.jsonl": ('{"answer": "SELECT 1"}', "there are answer. Name it with field="),
        "d.txt": ("", "holds no predictions"),
        "e.json": ("3", "can't be read as .json"),
    }.items(),
)
def test_what_is_no_file_of_predictions_is_said(tmp_path, name, text):
    (tmp_path / name).write_text(text[0])
    with pytest.raises(PredictionError, match=text[1]):
        read_predictions(tmp_path / name)
    with pytest.raises(PredictionError, match="nothing at"):
        read_predictions(tmp_path / "lost.txt")


def test_a_field_and_a_first_word_can_be_named():
    assert read_predictions([{"answer": "SELECT 1"}], field="answer")[0].sql == "SELECT 1"
    assert [p.sql for p in read_predictions(["a FROM t", "WITH x AS (SELECT 1) SELECT 2"], prefix="SELECT ")] == [
        "SELECT a FROM t",
        "WITH x AS (SELECT 1) SELECT 2",
    ]
    assert read_predictions([None, 0])[1].sql == ""  # calls that failed, as BIRD's own files have them


def broken(sqls: list[str], kind: str, databases: list[str], chance: random.Random) -> list[str]:
    "A list of queries that is out of step with its questions."
    n, s = len(sqls), list(sqls)
    k = chance.randrange(30, n - 60)
    match kind:
        case "lost":
            del s[k]
        case "doubled":
            s.insert(k, s[k])
        case "lost and padded":
            s[k:] = [*s[k + 1 :], "SELECT 1"]
        case "doubled and cut":
            s = [*s[: k + 1], *s[k:-1]]
        case "shifted by one":
            s = [*s[1:], s[0]]
        case "shifted by two":
            s = [*s[2:], *s[:2]]
        case "blocks swapped":
            s[k : k + 40] = [*s[k + 20 : k + 40], *s[k : k + 20]]
        case "sorted":
            s = [s[i] for i in sorted(range(n), key=lambda i: databases[i])]
        case "twice":
            s = s + s
        case "reversed":
            s = s[::-1]
        case "shuffled":
            chance.shuffle(s)
    return s


KINDS = (
    "lost,doubled,lost and padded,doubled and cut,shifted by one,shifted by two,blocks swapped,twice,reversed,shuffled"
).split(",")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_out_of_step_is_an_error_that_names_the_place(every, kind):
    golds, databases = sqls_of(every), [q.database_name for q in every.in_order]
    align(read_predictions(golds), every.in_order)
    for seed in range(3):
        wrong = broken(golds, kind, databases, random.Random(seed))
        with pytest.raises(PredictionError, match="entry|predictions for 384 questions|no better than others"):
            align(read_predictions(wrong), every.in_order)


@pytest.mark.parametrize("kind", [*KINDS, "sorted"])
def test_published_files_fit_and_broken_ones_are_found(kind):
    files = sorted(f for f in PREDICTIONS.glob("*") if f.suffix in (".txt", ".csv", ".sql"))
    if not files or not SPIDER.exists():
        pytest.skip("no published predictions here: set SQL_ENV_PREDICTIONS and SQL_ENV_SPIDER")
    from sql_env.sources.loading import SOURCES

    questions = SOURCES["spider"](path=SPIDER, split="dev").questions
    chance, databases = random.Random(1), [q.database_name for q in questions]
    for file in files[:: 1 if kind == "lost" else 5]:
        sqls = [p.sql for p in read_predictions(file)]
        align(read_predictions(file), questions)  # no false alarm
        with pytest.raises(PredictionError):
            align(read_predictions(broken(sqls, kind, databases, chance)), questions)


def test_ids_databases_and_questions_must_be_those_of_the_set(clinic):
    qs = clinic.in_order
    ids = {q.question_id: q.gold_sql for q in qs}
    cases = [
        (
            dict([*ids.items()][1:]),
            rf"31 predictions for 32 questions: 1 stand on one side only \({qs[0].question_id}\)",
        ),
        (ids | {"other-7": "SELECT 1"}, r"1 stand on one side only \(other-7\)"),
        ([{"id": "x", "sql": "SELECT 1"}] * 2, "'x' has 2 queries. Give each one"),
        ([{"sql": q.gold_sql, "db_id": "shop"} for q in qs], "entry 1: it is for .'shop'.*'vet_clinic'"),
        ([{"sql": q.gold_sql, "question": "Who?"} for q in qs], "entry 1: it is for .*'Who.'"),
    ]
    for given, words in cases:
        with pytest.raises(PredictionError, match=words):
            align(read_predictions(given), qs)


def test_verdicts_stand_side_by_side(clinic):
    given = {q.question_id: q.gold_sql for q in clinic.in_order}
    given["vet_clinic-02"] = LUCKY
    given["vet_clinic-01"] = "SELECT name FROM elsewhere"
    given["vet_clinic-03"] = "SELECT 'no'"
    found = judge(given, clinic, name="mine")
    rows = {e.question_id: e for e in found.rows}
    assert len(rows) == len(clinic.in_order) == found.n_episodes
    lucky = rows["vet_clinic-02"]
    assert (lucky.correct, lucky.robust, lucky.cause) == (True, False, "constant")
    assert rows["vet_clinic-01"].failed == "unknown_table"
    n = len(rows)
    assert found.rate() == found.rate("rule") == (n - 2) / n and found.rate("robust") == (n - 3) / n
    figures = json.loads(json.dumps(found.figures()))
    assert set(figures["rates"]) == set(figures["intervals"]) == set(RATES)
    assert figures["failed"] == {"unknown_table": 1} and figures["causes"] == {"constant": 1}
    assert found.explain("vet_clinic-02").smallest and not found.explain("vet_clinic-03")
    assert {"sql", "cause", "robust", "correct"} <= set(found.frame().columns)
    gold = judge(sqls_of(clinic), clinic, name="gold", proofs=False)
    assert "certified" not in gold.judges
    difference = compare(found, gold, by="robust")
    assert {*difference.gained} == {"vet_clinic-01", "vet_clinic-02", "vet_clinic-03"} and not difference.lost
    assert compare_all([found, gold, found], "robust")[0].p_holm >= difference.p_value
    page = judgement_page_html(found)
    assert page.count("<details") == 3 and "the smallest database" in page and "http://" not in page


def test_any_executor_finds_the_same(every):
    some = every.filter(split="test")
    given = [q.gold_sql if i % 3 else "SELECT 1" for i, q in enumerate(some.in_order)]
    told = []
    for executor in (None, ThreadPoolExecutor(2), ProcessPoolExecutor(2)):
        found = judge(given, some, proofs=False, executor=executor, check_order=False)
        told.append([(e.question_id, e.verdicts, e.cause) for e in found.rows])
        if executor:
            executor.shutdown()
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize(
    "rows, gold, is_sorted, sets, suite",
    [
        ([(1,), (1,)], [(1,)], False, True, False),
        ([("a", 1)], [(1, "a")], False, False, True),
        ([(1,), (2,)], [(2,), (1,)], False, True, True),
        ([(1,), (2,)], [(2,), (1,)], True, True, False),
        ([], [], False, True, True),
        ([(1,)], [], False, False, False),
        ([(1, 2)], [(1,)], False, False, False),
        ([(1, 1), (1, 2)], [(1, 1), (2, 1)], False, False, True),
    ],
)
def test_the_rules_of_the_sets(rows, gold, is_sorted, sets, suite):
    assert [RULES[name](rows, gold, is_sorted) for name in ("sets", "suite")] == [sets, suite]


@pytest.mark.parametrize(
    "gold, sql, asked, cause",
    [
        ("SELECT DISTINCT sex FROM animal", "SELECT sex FROM animal", "", "duplicates"),
        ("SELECT count(*) FROM visit WHERE paid_on IS NULL", LUCKY, "", "constant"),
        ("SELECT count(*) FROM visit WHERE paid_on IS NULL", LUCKY, "Unpaid, or over 900?", "stated"),
        ("SELECT count(*) FROM visit WHERE paid_on IS NULL", "SELECT count(fee_eur) FROM visit", "", "rows"),
    ],
)
def test_causes(clinic, gold, sql, asked, cause):
    from sql_env.judging.explaining import attempt, file_state, gold_question

    path = clinic.databases["vet_clinic"]
    tried = attempt(sql, gold_question(file_state(path), gold, asked), clinic.database("vet_clinic"))
    assert find_cause(tried) == cause


def test_questions_that_no_episode_plays_are_judged_and_told_apart(tmp_path, clinic):
    "Gold that finds nothing, gold that fails, and a question whose database is missing."
    import shutil

    shutil.copy(clinic.databases["vet_clinic"], tmp_path / "vet_clinic.sqlite")
    rows = [
        ("a", "vet_clinic", "SELECT count(*) FROM visit WHERE paid_on IS NULL"),
        ("b", "vet_clinic", "SELECT name FROM animal WHERE name = 'Nobody'"),
        ("c", "vet_clinic", "SELECT nothing FROM nowhere"),
        ("d", "elsewhere", "SELECT count(*) FROM staff"),
        ("e", "vet_clinic", "SELECT count(*) FROM staff"),
    ]
    fields = ("question_id", "database_name", "gold_sql")
    lines = [json.dumps(dict(zip(fields, row), question_text=f"Question {row[0]}?")) for row in rows]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines))
    qs = load("folder", tmp_path)
    assert [q.question_id for q in qs.in_order] == [*"abcde"]
    assert [q.question_id for q in qs.filter(split="").in_order] == [*"abcde"]
    found = judge([row[2] for row in rows], qs, name="gold")
    assert [e.question_id for e in found.episodes] == ["a", "e"]
    assert [(e.question_id, e.left_out) for e in found.aside.episodes] == [("b", "empty")]
    assert found.not_judged == {"gold can't be run": 1, "database elsewhere is missing": 1}


def test_misuse_is_said(clinic):
    assert sql_env.judge is judge
    with pytest.raises(ValueError, match="no rule 'bag'; there are sets and suite"):
        judge(sqls_of(clinic), clinic, rule="bag")
    with pytest.raises(PredictionError, match=r"check_order=False \(--no-order-check\)"):
        judge(sqls_of(load("bundled"))[::-1], load("bundled"))


def test_the_command(tmp_path, run_command):
    qs = load("bundled", split="test")
    good, lucky = tmp_path / "good.txt", tmp_path / "lucky.txt"
    good.write_text("\n".join(sqls_of(qs)))
    lucky.write_text("\n".join(["SELECT 1", *sqls_of(qs)[1:]]))
    code, out, err = run_command("judge", str(tmp_path), "--no-proofs", "--out", str(tmp_path / "out"))
    assert code == 0, err
    assert "good" in out and "100.0" in out and "robust, lucky - good" in out
    assert all(len(line) <= 80 for line in out.splitlines()[:8])
    names = {f.name for f in (tmp_path / "out").iterdir()}
    assert names == {"figures.json", "rates.png", "good.csv", "good.html", "lucky.csv", "lucky.html"}
    code, out, err = run_command("judge", str(good), "--no-proofs", "--json", "--workers", "2")
    assert code == 0 and json.loads(out)[0]["rates"]["value"] == 1
    good.write_text("\n".join(sqls_of(qs)[1:]))
    code, out, err = run_command("judge", str(good))
    assert code == 2 and "good.txt: 95 predictions for 96 questions. From about line 1 on" in " ".join(err.split())
