"CSV, Excel and Parquet files become SQLite, and what was in them comes out again."

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
from sql_env.sources.tables import _table_of, import_files

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


@law(100)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=8))
def test_names_are_unique_for_sqlite(names):
    found = _table_of([names, ["x"] * len(names)], print)
    assert len({name.lower() for name in found}) == len(names) and all(found)


@pytest.mark.parametrize("text, rows", cases("data_import_csv_values"))
def test_csv_values(tmp_path, text, rows):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
    assert stored(import_files([tmp_path / "t.csv"], tmp_path / "out")) == [*rows]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path, encoding):
    told = []
    (tmp_path / "t.tsv").write_text("städt\tx\nZürich\t1\n", encoding=encoding)
    path = import_files([tmp_path / "t.tsv"], tmp_path / "out", tell=told.append)
    assert stored(path) == [("Zürich", 1)] and Database(path).columns("t")[0].name == "städt"
    assert ["cp1252 (Western European), such as 'städt'" in note for note in told] == [True] * (encoding == "cp1252")


VALUES = [
    (True, 1, "INTEGER"),
    (2**64 - 1, str(2**64 - 1), "TEXT"),
    (Decimal("12.50"), 12.5, "REAL"),
    (Decimal("12345678901234567.89"), "12345678901234567.89", "TEXT"),
    (dt.date(2025, 3, 1), "2025-03-01", "TEXT"),
    (dt.datetime(2025, 3, 1), "2025-03-01", "TEXT"),
    (dt.datetime(2025, 3, 1, 9, 30, 0, 5), "2025-03-01 09:30:00.000005", "TEXT"),
    (dt.datetime(2025, 3, 1, tzinfo=dt.UTC), "2025-03-01 00:00:00+00:00", "TEXT"),
    (dt.time(9, 30), "09:30:00", "TEXT"),
    (float("nan"), None, "TEXT"),
    (b"\0x", b"\0x", "TEXT"),
]


@pytest.mark.parametrize("value, kept, kind", VALUES)
def test_values_of_parquet(tmp_path, value, kept, kind):
    column = pyarrow.array([value, None], pyarrow.uint64() if kept == str(value) and type(value) is int else None)
    parquet.write_table(pyarrow.table(dict(a=column)), tmp_path / "t.parquet")
    path = import_files([tmp_path / "t.parquet"], tmp_path / "out")
    assert stored(path) == [(kept,), (None,)] and type(stored(path)[0][0]) is type(kept)
    assert Database(path).columns("t")[0].type == kind


@pytest.mark.parametrize(
    "name, columns, says",
    [
        ("t", dict(a=[[1]]), "type 'list' is not supported"),
        ("t", dict(a=pyarrow.array([3_000_000], pyarrow.date32())), "out of range"),
        ("t", {}, "t is empty"),
        ("t", {"a\0b": [1]}, "NUL"),
        ("sqlite_t", dict(a=[1]), "reserved for internal use"),
    ],
)
def test_what_sqlite_can_not_hold_is_told_and_no_file_is_left(tmp_path, name, columns, says):
    "On 1b9098ee a traceback, and a database of 0 bytes."
    parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet")
    with pytest.raises(SourceError, match=says):
        import_files([tmp_path / f"{name}.parquet"], tmp_path / "out")
    assert not [*tmp_path.glob("out/*")]


@pytest.mark.parametrize("rows, kind, says", cases("data_import_what_is_told_of_a_column"))
@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_what_a_mixed_column_became_is_told(tmp_path, form, rows, kind, says):
    "On 1b9098ee numbers became text without a word because of a blank, an NA, a sign."
    told, path = [], tmp_path / f"t.{form}"
    if form == "xlsx":
        book = pytest.importorskip("openpyxl", reason="pip install 'sql_env[data]'").Workbook()
        book.active.title = "t"
        for row in [["ship", "crew"], *([None, row] for row in rows)]:
            book.active.append(row)
        book.save(path)
    else:
        path.write_text(
            "ship, crew\n" + "".join(f",{row if ',' not in str(row) else json.dumps(row)}\n" for row in rows)
        )
    made = import_files([path], tmp_path / "out", tell=told.append)
    assert Database(made).columns("t")[1].type == kind
    assert [says in note for note in told] == [True] * bool(says), told


def test_formulas_without_kept_values_are_told(tmp_path):
    "On 1b9098ee a column of NULL without a word."
    book, told = pytest.importorskip("openpyxl", reason="pip install 'sql_env[data]'").Workbook(), []
    for row in [["a", "double"], [1, "=A2*2"], [2, "=A3*2"]]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    import_files([tmp_path / "t.xlsx"], tmp_path / "out", tell=told.append)
    assert [note.startswith("t.xlsx, column double: 2 formulas") for note in told] == [True]


@pytest.mark.parametrize(
    "rows, merged, says",
    [
        (
            [["Fleet 2024"], [], ["ship", "tons"], ["Aurora", "x"]],
            "",
            ["column 2 has no name. If names stand further down"],
        ),
        ([[7, "Aurora"], [8, "Bora"]], "", ["a column is called 7. If the first line is data"]),
        ([["port", "ship"], ["Oslo", "a"], [None, "b"]], "A2:A3", ["sheet Sheet: of merged cells (A2:A3) all but"]),
        ([["port", "ship"], ["Oslo", "a"], [None, "b"]], "", []),
    ],
)
def test_a_sheet_whose_first_line_is_no_head_and_merged_cells_are_told(tmp_path, rows, merged, says):
    book, told = pytest.importorskip("openpyxl", reason="pip install 'sql_env[data]'").Workbook(), []
    for row in rows:
        book.active.append(row)
    if merged:
        book.active.merge_cells(merged)
    book.save(tmp_path / "t.xlsx")
    import_files([tmp_path / "t.xlsx"], tmp_path / "out", tell=told.append)
    assert len(told) == len(says) and all(part in note for part, note in zip(says, told)), told


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
    with pytest.raises(SourceError, match="already exists"):
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
