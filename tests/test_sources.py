"The bundled collection keeps its promises; Spider, BIRD and own folders are read; what they lack is named."

import functools
import http.server
import json
import os
import shutil
import sys
import threading
import zipfile
from collections import Counter
from itertools import combinations, count
from pathlib import Path

import apsw
import pytest
from conftest import run
from tables import cases

from sql_env.database import Limits, build_database
from sql_env.grading.answers import format_rows, verify
from sql_env.paths import BUNDLED, SourceError, download_file
from sql_env.questions.gold import GoldRunner
from sql_env.questions.question_set import QUARANTINE_FLAGS, QuestionSet, find_split_leaks, save_question_set
from sql_env.sources import published as datasets
from sql_env.sources.loading import _read_findings, _with_findings, load
from sql_env.sql.text import normalize_sql

SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def bundled() -> QuestionSet:
    return load("bundled")


def test_twelve_databases_of_thirty_questions_are_split_by_database_without_leaks(bundled):
    counts = Counter(q.database_name for q in bundled)
    assert min(counts.values()) >= 30 and not bundled.quarantined and not bundled.left_out
    assert all(bundled.databases[name].is_file() for name in counts)
    for field in ("question_id", "question_text"):
        assert len({getattr(q, field) for q in bundled}) == len(bundled)
    splits = [bundled.split(s) for s in SPLITS]
    names = [{q.database_name for q in part} for part in splits]
    assert [*map(len, names)] == [6, 3, 3] and len(set().union(*names)) == len(counts) == 12
    assert len(load("bundled", split="test")) == len(bundled.split("test"))
    assert find_split_leaks(*splits) == []
    for one, other in combinations(splits, 2):
        assert not {q.question_text.lower() for q in one} & {q.question_text.lower() for q in other}
        same = {normalize_sql(q.gold_sql) for q in one} & {normalize_sql(q.gold_sql) for q in other}
        assert not same, "the same SQL on two databases would be a leak too"
    # difficulty is spread
    shares = {k: 100 * n / len(bundled) for k, n in Counter(q.difficulty for q in bundled).items()}
    assert all(abs(shares[k] - n) <= 7 for k, n in dict(easy=35, medium=40, hard=25).items()), shares
    assert all({q.difficulty for q in bundled.split(s)} == {"easy", "medium", "hard"} for s in SPLITS)


@pytest.mark.parametrize("name", sorted(p.stem for p in BUNDLED.glob("*.sqlite")))
def test_gold_runs_again_and_gives_the_stored_rows(bundled, name):
    runner = GoldRunner(bundled.databases[name])
    for q in bundled.filter(database_name=name):
        again = runner.complete(q)
        assert not {*QUARANTINE_FLAGS, "order_unknown"} & set(again.flags), q.question_id
        assert _with_findings(again, _read_findings()) == q, q.question_id
        assert [[type(v) for v in r] for r in again.gold_answer] == [[type(v) for v in r] for r in q.gold_answer]
        assert runner.agent.query(q.gold_sql).rows == list(q.gold_answer), "an agent's smaller limits will do"
    runner.close()


def test_answers_are_short_and_can_not_be_guessed_and_questions_read_like_people_talk(bundled):
    "No single value is the size of a table, and no text answers more than one question in a hundred."
    fixed = ["0", "1", "2", "3", "10", "100", "NULL", "[]", "yes", "no", "true", "''", "unknown"]
    common = [format_rows(rows) for rows, _ in Counter(q.gold_answer for q in bundled).most_common(25)]
    hits = {t: [q.question_id for q in bundled if verify(t, q.gold_answer).correct] for t in [*fixed, *common]}
    assert {t: ids for t, ids in hits.items() if len(ids) > len(bundled) / 100} == {}
    assert not [t for t in fixed if len(hits[t]) > 2]
    for q in bundled:
        text = format_rows(q.gold_answer)
        assert verify(text, q.gold_answer, False if q.ranks is None else q.ranks).correct, q.question_id
        assert len(text) < 8000, q.question_id
        db = bundled.database(q.database_name)
        for t in db.tables:
            is_size = len(q.gold_answer) == 1 and verify(str(db.describe(t).rows), q.gold_answer).correct
            assert not is_size, (q.question_id, t)
            rows = db.query(f'SELECT * FROM "{t}"').rows
            assert not verify("@last", q.gold_answer, last=rows).correct, (q.question_id, t)
        assert 3 <= len(q.question_text.split()) <= 34, q.question_id
        first, last = q.question_text[0], q.question_text[-1]
        assert (first.isupper() or first.isdigit() or first in "'\"") and last in "?.", q.question_id
        words = {w.strip("?.,:;()").lower() for w in q.question_text.split()}
        assert not {"sql", "null", "column", "columns"} & words, q.question_id


def contents(path: Path) -> dict:
    con = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    schema = con.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
    rows = {n: con.execute(f'SELECT * FROM "{n}"').fetchall() for t, n, _ in schema if t in ("table", "view")}
    con.close()
    return {"": schema, **rows}


@pytest.mark.parametrize("hashseed", ["4711", pytest.param("0", marks=pytest.mark.slow)])
def test_build_gives_the_same_collection(root, tmp_path, hashseed):
    if not (root / "data" / "build.py").is_file():
        pytest.skip("not a checkout: data/build.py is missing")
    about = dict(PYTHONHASHSEED=hashseed, PYTHONDONTWRITEBYTECODE="1", TZ="Asia/Tokyo", LC_ALL="C")
    env = os.environ | about | {"PYTHONPATH": str(root)}
    run(sys.executable, root / "data" / "build.py", tmp_path, env=env, cwd=tmp_path)
    assert (tmp_path / "questions.jsonl").read_bytes() == (BUNDLED / "questions.jsonl").read_bytes()
    others = ("__pycache__", "audits.json")  # of Python, and of benchmarks/question_sets.py
    made = {p.name for p in BUNDLED.iterdir() if p.suffix != ".py" and p.name not in others}
    assert {p.name for p in tmp_path.iterdir()} == made
    for p in tmp_path.glob("*.sqlite"):
        assert contents(p) == contents(BUNDLED / p.name), p.name


def test_spider_dev_counts_what_is_missing_and_names_its_split_as_others_do(spider_path):
    dev = load("spider", spider_path, split="dev")
    assert dev.left_out == {"database wta_1 is missing": 62}
    together = [*dev, *dev.quarantined]
    assert len(together) == len({q.question_id for q in together}) == 533 and len(dev) > 450
    assert len({q.database_name for q in together}) == 11
    assert {q.split for q in dev} == {"dev"} and all(q.gold_answer for q in dev)
    assert all(QUARANTINE_FLAGS & set(q.flags) for q in dev.quarantined)
    ids = [q.question_id for q in dev]
    assert ids == sorted(ids), "in the order of the file"
    with pytest.raises(SourceError, match="no split 'test'; it has train and dev"):
        load("spider", spider_path, split="test")
    above = load("spider", str(spider_path.parent), split="validation")
    assert above.left_out == dev.left_out, "a folder above will do"


@pytest.fixture
def small_spider(tmp_path) -> Path:
    "A folder in Spider's layout: two databases, three questions on them and one on a third that is missing."
    folder = tmp_path / "spider"
    for name in ("pets", "farm"):
        (folder / "database" / name).mkdir(parents=True)
        path = folder / "database" / name / f"{name}.sqlite"
        build_database(path, "CREATE TABLE animal(name TEXT, age INTEGER)", {"animal": [("Rex", 3), ("Tom", 5)]})
    asked = [
        ("pets", "SELECT name FROM animal WHERE age > 3"),
        ("lost", "SELECT 1"),
        ("farm", "SELECT max(age) FROM animal"),
        ("farm", "SELECT nothing FROM animal"),
        ("lost", "SELECT 2"),
    ]
    rows = [dict(db_id=db, question=f"What about {db}?", query=sql) for db, sql in asked]
    (folder / "dev.json").write_text(json.dumps(rows))
    (folder / "train_spider.json").write_text(json.dumps(rows[:1]))
    return folder


def check_small(qs):
    found = [(q.question_id, q.gold_answer) for q in qs]
    assert found == [("spider-dev-0000", (("Tom",),)), ("spider-dev-0002", ((5,),))]
    assert [q.flags for q in qs.quarantined] == [("error",)] and qs.left_out == {"database lost is missing": 2}


def zipped(folder: Path, target: Path, inside: str = "spider_data") -> Path:
    with zipfile.ZipFile(target, "w") as z:
        for p in sorted(folder.rglob("*")):
            if p.is_file():
                z.write(p, f"{inside}/{p.relative_to(folder)}" if inside else p.relative_to(folder))
    return target


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SQL_ENV_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SQL_ENV_SPIDER", raising=False)
    return tmp_path / "cache"


def test_spider_from_a_folder(small_spider, monkeypatch):
    check_small(load("spider", small_spider, split="dev"))
    assert len(load("spider", small_spider)) == 3, "both splits"
    monkeypatch.setenv("SQL_ENV_SPIDER", str(small_spider))
    check_small(load("spider", split="dev"))
    # a damaged database is named and counted
    (small_spider / "database" / "farm" / "farm.sqlite").write_bytes(b"not a database" * 100)
    qs = load("spider", small_spider, split="dev")
    assert [q.database_name for q in qs] == ["pets"] and sum(qs.left_out.values()) == 4
    assert any("farm" in reason and "SQLite" in reason for reason in qs.left_out)
    assert not any(str(small_spider) in r for r in qs.left_out)


@pytest.mark.parametrize("inside", ["spider_data", ""])
def test_spider_from_a_zip(small_spider, tmp_path, cache, inside):
    archive = zipped(small_spider, tmp_path / "s.zip", inside)
    check_small(load("spider", archive, split="dev"))
    stamp = {p: p.stat().st_mtime_ns for p in cache.rglob("*") if p.is_file()}
    check_small(load("spider", archive, split="dev"))
    assert stamp and stamp == {p: p.stat().st_mtime_ns for p in cache.rglob("*") if p.is_file()}, "unpacked once"
    text, size = (small_spider / "dev.json").read_text(), archive.stat().st_size
    (tmp_path / "other").mkdir()
    for word, target in (("Tell", tmp_path / "other" / "s.zip"), ("Whom", archive)):
        (small_spider / "dev.json").write_text(
            text.replace("age > 3", "age > 4").replace("What about", f"{word} about")
        )
        qs = load("spider", zipped(small_spider, target, inside), split="dev")
        assert target.stat().st_size == size
        assert qs[0].question_text == f"{word} about pets?" and "age > 4" in qs[0].gold_sql, "of the same name and size"


@pytest.mark.parametrize("path, content, says", cases("sources_errors_of_spider"))
def test_errors_of_spider(small_spider, cache, path, content, says):
    if content is not None:
        (small_spider / path).write_bytes(content)
    where = small_spider if path == "dev.json" else path and small_spider / path
    with pytest.raises(SourceError) as e:
        load("spider", where)
    assert says in str(e.value)


@pytest.fixture
def server(tmp_path):
    "A web server on this machine: (its address, the folder it serves, the paths asked for)."
    folder, asked = tmp_path / "www", []
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{s.server_port}", folder, asked
        s.shutdown()


def test_download_is_cached(small_spider, server, cache, monkeypatch):
    url, folder, asked = server
    zipped(small_spider, folder / "data.zip")
    monkeypatch.setattr(datasets, "_SPIDER_URL", f"{url}/data.zip")
    for _ in range(2):
        check_small(load("spider", download=True, split="dev"))
    assert len(asked) == 1 and (cache / "spider_data.zip").is_file()
    found = download_file(f"{url}/gone.zip", "spider_data.zip")
    assert found == cache / "spider_data.zip", "what is there is not asked for"


@pytest.mark.parametrize("name", ["page.html", "nothing", "empty", "cut.zip", None])
def test_a_bad_download_is_an_error_and_leaves_nothing(small_spider, server, cache, name):
    url, folder, _ = server
    (folder / "page.html").write_text("<html>Please sign in</html>")
    (folder / "empty").write_bytes(b"")
    (folder / "cut.zip").write_bytes(zipped(small_spider, folder / "data.zip").read_bytes()[:-400])
    with pytest.raises(SourceError, match="download of s.zip failed: .*Download it in a browser and give its path"):
        download_file(f"{url}/{name}" if name else "http://127.0.0.1:9/s.zip", "s.zip")
    assert not [p for p in cache.rglob("*.*") if p.suffix != ".lock"]


def test_a_zip_may_not_write_outside_its_folder(tmp_path, cache):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as z:
        for name in ("../../outside.txt", "/tmp/sql_env-absolute-outside.txt", "dev.json", "train_spider.json"):
            z.writestr(name, "[]")
    assert len(load("spider", tmp_path / "evil.zip")) == 0
    assert not (tmp_path / "outside.txt").exists() and not Path("/tmp/sql_env-absolute-outside.txt").exists()
    assert all(cache in p.parents for p in tmp_path.rglob("outside.txt"))


@pytest.fixture
def own(tmp_path) -> Path:
    (tmp_path / "mine").mkdir()
    rows = {"item": [("pen", 1.5), ("ink", 4.0)]}
    return build_database(tmp_path / "mine" / "shop.sqlite", "CREATE TABLE item(name TEXT, price REAL)", rows).parent


def write_lines(folder: Path, *lines) -> Path:
    text = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines)
    (folder / "questions.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_folder(own, bundled, tmp_path):
    price = "SELECT price FROM item WHERE name = '{}'".format
    lines = [
        dict(question="What is the pen?", sql=price("pen")),
        dict(question="And the ink?", query=price("ink"), db_id="shop", id="ink", split="test"),
        dict(question="All?", SQL="SELECT x", database="shop"),
        dict(question="Where?", sql="SELECT 1", database="moon"),
    ]
    qs = load("folder", write_lines(own, *lines))
    found = [(q.question_id, q.gold_answer, q.split) for q in qs]
    assert found == [("shop-0001", ((1.5,),), ""), ("ink", ((4.0,),), "test")]
    assert [q.flags for q in qs.quarantined] == [("error",)] and qs.left_out == {"database moon is missing": 1}
    assert [q.question_id for q in load("folder", own, split="test")] == ["ink"]
    with pytest.raises(SourceError, match="no split 'dev'; it has"):
        load("folder", own, split="dev")
    # saving keeps gold, so loading runs nothing and changes nothing
    some = bundled.filter(database_name=("vet_clinic", "public_library"))
    again = load("folder", save_question_set(some, tmp_path / "part"))
    assert list(again) == list(some) and {q.database_name for q in again} == {"vet_clinic", "public_library"}


@pytest.mark.parametrize("lines, says", cases("sources_malformed"), ids=count())
def test_a_malformed_line_of_a_folder_is_named(own, lines, says):
    with pytest.raises(SourceError) as e:
        load("folder", write_lines(own, *lines))
    assert says in str(e.value)


def test_errors_of_a_folder(own, tmp_path):
    (tmp_path / "bare").mkdir()
    bare = write_lines(tmp_path / "bare", {"question": "?", "sql": "SELECT 1"})
    for path, says in (
        (own, "no .jsonl file"),
        (own / "shop.sqlite", "neither a folder nor a zip"),
        (tmp_path / "nowhere", "nothing at"),
        (None, "needs path="),
        (bare, "no .sqlite or .db file"),
    ):
        with pytest.raises(SourceError, match=says):
            load("folder", path)
    (own / "questions.jsonl").write_bytes(b'{"question": "\xff"}')
    with pytest.raises(SourceError, match="questions.jsonl"):
        load("folder", own)


@pytest.fixture
def bird_folder(small_spider, tmp_path) -> Path:
    folder = tmp_path / "bird" / "dev_20240627"
    shutil.copytree(small_spider / "database", folder / "dev_databases")
    old = dict(question="Who is old?", evidence="old refers to age > 3", SQL="SELECT name FROM animal WHERE age > 3")
    many = dict(question="How many?", evidence="", SQL="SELECT count(*) FROM animal")
    rows = [
        dict(question_id=7, db_id="pets", difficulty="challenging", **old),
        dict(db_id="farm", difficulty="simple", **many),
        dict(db_id="lost", question="?", SQL="SELECT 1"),
    ]
    (folder / "dev.json").write_text(json.dumps(rows))
    (folder / "dev_tables.json").write_text("[]")
    return folder.parent


def test_bird_and_its_errors(bird_folder, tmp_path, cache):
    for path in (bird_folder, bird_folder / "dev_20240627", zipped(bird_folder, tmp_path / "bird.zip", "")):
        qs = load("bird", path)
        found = [(q.question_id, q.difficulty, q.gold_answer) for q in qs]
        assert found == [("dev-7", "hard", (("Tom",),)), ("dev-1", "easy", ((2,),))]
        assert qs[0].question_text == "Who is old? old refers to age > 3"
        assert qs.left_out == {"database lost is missing": 1}
    with pytest.raises(SourceError, match="no train.json .*there are"):
        load("bird", bird_folder, split="train")
    (tmp_path / "none").mkdir()
    (bird_folder / "dev_20240627" / "dev.json").write_text('[{"question": "?", "db_id": "pets"}]')
    for path, says in ((None, "needs path="), (bird_folder, "no field 'SQL'"), (tmp_path / "none", "BIRD: no .json")):
        with pytest.raises(SourceError, match=says):
            load("bird", path)


@pytest.mark.parametrize("source, options, says", cases("sources_load_says"))
def test_load_says_what_it_does_not_know(bundled, source, options, says):
    with pytest.raises(SourceError, match=says):
        load(source, **options)
    assert len(load()) == len(bundled)


def test_only_the_questions_of_some_ids(bundled, tmp_path):
    ids = [q.question_id for q in bundled.split("train")][3:6]
    (tmp_path / "ids.txt").write_text("\n".join(ids) + "\n")
    for given in (ids, set(ids), tmp_path / "ids.txt", str(tmp_path / "ids.txt")):
        assert [q.question_id for q in load(split="train", ids=given)] == ids
    with pytest.raises(SourceError, match="lacks 3 of these ids.*give the options"):
        load(split="test", ids=ids)


def bad_databases(folder: Path) -> None:
    "Databases of all kinds in a folder."
    wide = ", ".join(f"c{i} INT" for i in range(1500))
    generated = "CREATE TABLE t(c0 INT, g AS (c0 + 1), s AS (c0 + 2) STORED); INSERT INTO t(c0) VALUES (0)"
    odd = "CREATE TABLE t(c0); CREATE VIEW v AS SELECT x FROM gone; CREATE VIRTUAL TABLE f USING fts5(x)"
    for name, schema, rows in (
        ("wide", f"CREATE TABLE t({wide})", {"t": [tuple(range(1500))]}),
        ("generated", generated, {}),
        ("damaged", "CREATE TABLE t(c0)", {"t": [(i,) for i in range(9999)]}),
        ("odd", odd, {"t": [(0,)]}),
        ("good", "CREATE TABLE t(c0)", {"t": [(0,)]}),
    ):
        build_database(folder / f"{name}.sqlite", schema, rows)
    data = (folder / "damaged.sqlite").read_bytes()
    (folder / "damaged.sqlite").write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    (folder / "text.sqlite").write_text("no database")
    (folder / "empty.sqlite").write_bytes(b"")
    (folder / "folder.sqlite").mkdir()


def test_a_bad_database_never_costs_the_others(tmp_path, cache):
    folder = tmp_path / "all"
    folder.mkdir()
    bad_databases(folder)
    names = "wide generated damaged text empty folder odd good goood".split()
    lines = [dict(question=n, sql="SELECT c0 FROM t", database=n, id=n) for n in names]
    for _ in range(2):
        qs = load("folder", write_lines(folder, *lines))
        assert {q.question_id for q in qs} >= {"wide", "generated", "odd", "good"}
        assert all(q.gold_answer == ((0,),) for q in qs)
        assert all(name in " ".join(qs.left_out) for name in ("text", "empty"))
        assert "database goood is missing; the nearest name is good" in qs.left_out
        there = len(qs) + len(qs.quarantined) + sum(qs.left_out.values())
        assert there == len(lines), "each question is somewhere"


def test_limits_are_a_setting_of_every_source(own, cache, small_spider, bird_folder):
    tables = ", ".join(f"item i{i}" for i in range(10))
    line = {"question": "How many?", "sql": f"SELECT count(*) FROM {tables}"}
    few = load("folder", write_lines(own, line), limits=Limits(operations=2000))
    assert not few and "2,000 are allowed" in few.quarantined[0].reason("over_limits")
    assert few.limits.operations == 2000
    saved = save_question_set(few, own.parent / "saved")
    assert load("folder", saved).quarantined[0].reason("over_limits")
    assert len(load("folder", saved, limits=Limits())) == 1, "larger limits bring it back"
    assert len(load("folder", own)) == 1 and load("folder", own).limits == Limits()
    limits = Limits(operations=3_000_000)
    for source, path in (("spider", small_spider), ("bird", bird_folder), ("bundled", None)):
        qs = load(source, path, limits=limits)
        assert qs.limits == limits and len(qs), source
    made = load("worlds", n=3, limits=limits)
    assert len(made) == 3 and made.limits == limits
