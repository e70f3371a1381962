"""Data that just miss what gold asks for: they refute queries that let them pass, and no honest way of writing gold."""

from itertools import islice

import pytest
from databases import memory
from mutants import one_edit_mutants
from tables import cases

from sql_env.database.database import Database, build_database
from sql_env.grading.variants.columns import Unlike, _values_like, possible_values
from sql_env.grading.variants.pairs import _generator, pair_variants
from sql_env.grading.variants.robust import judge_evidence
from sql_env.grading.variants.sandbox import ScratchDatabase
from sql_env.grading.variants.shapes import _is_name
from sql_env.sql.analysis import reads_once

SCHEMA = """
CREATE TABLE region (region_id INTEGER PRIMARY KEY, label TEXT, coast TEXT);
CREATE TABLE club (club_id INTEGER PRIMARY KEY, club_name TEXT, town TEXT, region_id INTEGER REFERENCES region);
CREATE TABLE member (member_id INTEGER PRIMARY KEY, club_id INTEGER REFERENCES club, first TEXT, last TEXT,
                     street TEXT, role TEXT, fee INTEGER);
"""
TOWNS = ("Oslo", "Bergen", "Moss")
ROLES = ("Player", "Trainer", "Treasurer", "Guest")
STREETS = ("7 Harbour Street", "12 Mill Lane", "7 Station Road", "3 Church Square")
FIRST = "Ada Bo Cleo Dag Eva Finn Gro Hans Ida Jon Kai Lea Max Nora Odd Pia".split()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    clubs = [(1, "Tennis", "Oslo", 1), (2, "Chess", "Moss", 2), (3, "Rowing", "Oslo", 3)]
    others = ("Chess", "Judo", "Golf", "Skiing", "Go")
    clubs += [(i, name, TOWNS[i % 3], i % 8 + 1) for i, name in enumerate(others, 4)]
    names = [FIRST[i % 16] for i in range(31)]
    members = [(i, i % 8 + 1, names[i], f"{names[i]}son{i}", STREETS[i % 4], ROLES[i % 3], i) for i in range(1, 31)]
    rows = {"region": [(i, f"Region {i}", "NS"[i % 2]) for i in range(1, 9)], "club": clubs, "member": members}
    return build_database(tmp_path_factory.mktemp("near") / "near.sqlite", SCHEMA, rows)


@pytest.mark.parametrize("gold, other", cases("near_misses_honest"))
def test_a_name_that_one_row_has_may_be_taken_for_one_row(path, gold, other):
    assert judge_evidence(gold, Database(path), other).correct


@pytest.mark.parametrize("gold, other", cases("near_misses_wrong"))
def test_what_nearly_meets_gold_refutes(path, gold, other):
    assert judge_evidence(gold, Database(path), other).reason == "differs"


def test_groups_that_lack_one_literal_are_found(path):
    "A town with a club in region 1 and one in region 3, but none in region 2: rare by chance, so it is looked for."
    gold = "SELECT town FROM club WHERE region_id = 2 INTERSECT SELECT town FROM club WHERE region_id = 3"
    wrong = gold.replace("= 2", "<= 2")
    passed = [n for n in range(90, 102) if judge_evidence(gold, Database(path), f"{wrong} LIMIT {n}").correct]
    assert len(passed) <= 6  # each text has instances of its own


def test_a_text_with_a_number_varies_at_both_ends_and_keeps_its_sign():
    "And the first values of a form are the same ones."
    for text, near in (
        ("7 Harbour Street", {"8 Harbour Street", "6 Harbour Street", "7 Harbour Streetx"}),
        ("Club 07", {"Club 08", "Club 06", "xClub 07"}),
        ("10:30 am", {"10:31 am", "10:29 am"}),
        ("12 September", {"13 September", "11 September", "12 Septembe"}),
    ):
        assert near <= {*possible_values(["some other text"], "text", [text])[1]}
    near = possible_values(["10.5%", "3.2%"], "text", ["4.5%"])[1]
    assert {*near} == {"4.5%", "4.6%", "4.4%", "4.7%", "4.3%"}
    for value in ("Oslo", "Club 07", "OSL", 3, 3.5, "2020-01-02"):
        unlike = Unlike([value])
        found = [unlike.another(value) for _ in range(60)]  # more than are kept
        expected = [v for v in dict.fromkeys(islice(_values_like(value), 70)) if v != value][:60]
        assert found == expected and list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize(
    "sql, added",
    [
        ("SELECT a FROM t WHERE b = 'x'", {"b <= 'x'", "b >= 'x'"}),
        ("SELECT a FROM t WHERE b <> 3", {"b < 3", "b > 3"}),
        ("SELECT a FROM t JOIN u ON t.a = u.a WHERE b > 3", set()),
    ],
)
def test_mutants_beyond_a_literal(sql, added):
    plain, wider = one_edit_mutants(sql), one_edit_mutants(sql, beyond=True)
    new = [m for m in wider if m not in plain]
    assert [m for m in wider if m in plain] == plain
    assert {name for name, _ in new} <= {"beyond"}
    assert {text.partition("WHERE ")[2] for _, text in new} == added


def test_reading_one_table_once_and_what_is_called_a_name():
    assert reads_once("SELECT a FROM t WHERE b = 1")
    assert not reads_once("SELECT a FROM t WHERE b = (SELECT max(b) FROM t)")
    assert not reads_once("SELECT t.a FROM t JOIN u ON t.a = u.a")
    assert not reads_once("SELECT a FROM t UNION SELECT a FROM t")
    columns = "name club_name CName Title first_name last_name type_code motto id".split()
    assert [c for c in columns if _is_name(c)] == ["name", "club_name", "CName", "Title"]


def test_tables_that_gold_does_not_read_are_filled_once(path, monkeypatch):
    "Their rows are those of all instances, unless they hold what gold names."
    inserted, insert = [], ScratchDatabase.insert
    monkeypatch.setattr(
        ScratchDatabase, "insert", lambda self, sql, rows: inserted.append(sql) or insert(self, sql, rows)
    )

    def times(gold, table):
        inserted.clear()
        _generator.cache_clear()
        v = pair_variants(path, gold)
        assert len(v) >= 20 and not v.why_none
        return sum(f'INTO "{table}"' in sql for sql in inserted), v

    filled, v = times("SELECT count(*) FROM member WHERE role = 'Guest'", "club")
    images = {tuple(memory(image).execute("SELECT * FROM club")) for image, *_ in v.instances}
    assert filled == len(images) == 1 and len(images.pop()) >= 8
    assert times("SELECT last FROM member WHERE club_id = 3", "club")[0] >= 20
    assert times("SELECT town FROM club", "region")[0] == 1
    assert times("SELECT town FROM club", "club")[0] >= 20
