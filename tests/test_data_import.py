"CSV, Parquet and DuckDB files become SQLite, and what was in them comes out again."

import csv
import datetime as dt
import io
import json
from decimal import Decimal
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from tables import cases
from typer.testing import CliRunner

from sql_env import Database, SourceError, load
from sql_env.cli import app
from sql_env.sources.tables import _column_names, _read_csv_table, _sqlite_value, import_files

duckdb = pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
COLUMN = st.sampled_from([INTS, TEXTS, FLOATS])


@st.composite
def tables(draw):
    "Rows of one to four columns, each of one kind of value or NULL."
    kinds = draw(st.lists(COLUMN, min_size=1, max_size=4))
    row = st.tuples(*(st.none() | kind for kind in kinds))
    return draw(st.lists(row, min_size=1, max_size=8))


def stored(path, table: str = "t") -> list[tuple]:
    return Database(path).query(f'SELECT * FROM "{table}"').rows


def fresh(folder, name: str = "x"):
    return folder / f"{name}{len(list(folder.iterdir()))}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("import")


@law(40)
@given(rows=tables())
def test_parquet_round_trip(folder, rows):
    columns = {f"c{i}": list(values) for i, values in enumerate(zip(*rows))}
    parquet.write_table(pyarrow.table(columns), folder / "t.parquet")
    assert stored(import_files([folder / "t.parquet"], fresh(folder))) == rows


@law(40)
@given(rows=tables())
def test_csv_round_trip_keeps_what_was_written(folder, rows):
    "Empty text and NULL are one in CSV; each other value reads as it is written, or as the number it is."
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow([f"c{i}" for i in range(len(rows[0]))])
    writer.writerows([["" if v is None else repr(v) if type(v) is float else v for v in row] for row in rows])
    (folder / "t.csv").write_bytes(text.getvalue().encode())
    again = stored(import_files([folder / "t.csv"], fresh(folder)))
    assert len(again) == len(rows)
    for before, after in zip(chain(*rows), chain(*again), strict=True):
        if before in (None, ""):
            assert after is None
        elif isinstance(after, (int, float)):
            assert after == (float(before) if isinstance(before, str) else before)
        else:
            assert after == (repr(before) if type(before) is float else str(before))


@law(25)
@given(rows=st.lists(st.tuples(st.none() | INTS, st.none() | TEXTS, st.none() | FLOATS), max_size=6))
def test_duckdb_round_trip(folder, rows):
    path = fresh(folder, "d").with_suffix(".duckdb")
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE t (a BIGINT, b VARCHAR, c DOUBLE)")
        if rows:
            con.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    assert stored(import_files([path], fresh(folder))) == rows


@law(100)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=8))
def test_names_are_unique_for_sqlite(names):
    found = _column_names(names)
    assert len({name.lower() for name in found}) == len(names) and all(found)


@pytest.mark.parametrize("text, rows", cases("data_import_csv_values"))
def test_csv_values(tmp_path, text, rows):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
    assert stored(import_files([tmp_path / "t.csv"], tmp_path / "out")) == [*rows]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path, encoding):
    (tmp_path / "t.tsv").write_text("städt\tx\nZürich\t1\n", encoding=encoding)
    table = _read_csv_table(tmp_path / "t.tsv")
    assert table.columns == ["städt", "x"] and table.rows == [("Zürich", 1)]


@pytest.mark.parametrize(
    "value, kept",
    [
        (True, 1),
        (2**64, str(2**64)),
        (Decimal("12.50"), 12.5),
        (Decimal("12345678901234567.89"), "12345678901234567.89"),
        (dt.date(2025, 3, 1), "2025-03-01"),
        (dt.datetime(2025, 3, 1, 9, 30, 0, 5), "2025-03-01 09:30:00.000005"),
        (dt.datetime(2025, 3, 1, tzinfo=dt.UTC), "2025-03-01 00:00:00+00:00"),
        (dt.time(9, 30), "09:30:00"),
        (float("nan"), None),
        (float("inf"), float("inf")),
        (b"\0x", b"\0x"),
        ({"a": [dt.date(2025, 3, 1), None]}, '{"a": ["2025-03-01", null]}'),
    ],
)
def test_values(value, kept):
    assert _sqlite_value(value) == kept and type(_sqlite_value(value)) is type(kept)


def test_integers_and_keys_of_duckdb_are_kept(tmp_path):
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute("CREATE TABLE ship (id INTEGER PRIMARY KEY)")
        con.execute("CREATE TABLE call (ship INTEGER REFERENCES ship (id), day TIMESTAMP)")
    described = Database(import_files([tmp_path / "d.duckdb"], tmp_path / "out"))
    assert described.columns("ship")[0].primary_key
    assert described.columns("call")[0].references == "ship.id"
    with duckdb.connect(str(tmp_path / "e.duckdb")) as con:  # integers beside fractions lose no digit
        con.execute("CREATE TABLE t AS SELECT '[9007199254740993, 1.5]'::JSON AS j, 2::HUGEINT ** 70 AS h")
    ((_, big),) = stored(import_files([tmp_path / "e.duckdb"], tmp_path / "other"))
    assert float(big) == 2.0**70


@pytest.mark.parametrize("name, content, says", cases("data_import_what_can_not_be_imported"))
def test_what_can_not_be_imported_is_told_and_nothing_is_written_over(tmp_path, name, content, says):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=says):
        import_files([tmp_path / name], tmp_path / "out")
    assert not (tmp_path / "out").exists(), "nothing is left behind"
    one, other = tmp_path / "a.csv", tmp_path / "A.tsv"
    for path in (one, other):
        path.write_text("x\n1\n")
    with pytest.raises(SourceError, match="Two tables"):
        import_files([one, other], tmp_path / "out")
    import_files([one], tmp_path / "out")
    with pytest.raises(SourceError, match="there already"):
        import_files([one], tmp_path / "out")


def test_the_command_makes_a_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ships.csv").write_text("name,tonnes\nBora,300\n")
    run = CliRunner().invoke(app, ["data", "import", "ships.csv", "--out", "port", "--json"])
    assert run.exit_code == 0 and json.loads(run.output)["rows"] == {"ships": 1}
    line = dict(question="How heavy is the Bora?", sql="SELECT tonnes FROM ships")
    (tmp_path / "port" / "questions.jsonl").write_text(json.dumps(line))
    assert load("folder", "port")[0].gold_answer == ((300,),)
