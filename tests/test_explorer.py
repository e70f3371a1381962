"Room 22 without a browser: films, diagrams, pages, and widgets clicked from Python."

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql_env.catalog import Column, TableInfo
from sql_env.database import build_database
from sql_env.episode import Action, Episode, EpisodeEnv, Turn
from sql_env.evaluation import evaluate
from sql_env.explorer import EpisodeExplorer, EpisodePlayer
from sql_env.html import element, parse_result_table, render_html, text_html
from sql_env.logs import Trajectory, read_log
from sql_env.policies.base import ScriptedPolicy, play_episode
from sql_env.policies.baselines import OraclePolicy, RandomPolicy
from sql_env.questions import Question, QuestionSet
from sql_env.reward import RewardConfig
from sql_env.sources import load
from sql_env.values import Result, quote_identifier
from sql_env.view.diagram import discovered_columns, layer_tables, layout_tables, schema_svg
from sql_env.view.episode import (
    EpisodeView,
    read_recordings,
    to_episode_view,
    view_episode,
    view_recording,
)
from sql_env.view.page import (
    SCRIPT,
    embed_page,
    episode_html,
    episode_page_html,
    episode_view_html,
    unmatched_rows,
)

EVIL = """</script><script>alert(1)</script><img src=x onerror="alert(2)"> ' " & `"""
QS = load("bundled")
COUNTS = "SELECT type, count(*) FROM animal GROUP BY type"
MOVES = [
    ("DESCRIBE", "animal"),
    ("SAMPLE", "animal"),
    ("QUERY", "SELECT species FROM animal"),
    ("QUERY", COUNTS),
    ("ANSWER", "@last"),
]


def played(moves=MOVES, question_id="vet_clinic-12", **options):
    env = EpisodeEnv(QS, reward=RewardConfig.shaped(), **options)
    env.reset(question_id=question_id)
    for m in moves:
        env.step(*m)
    return env.episode


class Tree(HTMLParser):
    "Elements, their attributes and the text of a page, as a browser reads them."

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, name, attrs):
        self.tags.append(name)
        self.attributes += [(name, k, v) for k, v in attrs]

    handle_startendtag = handle_starttag

    def handle_data(self, data):
        self.text.append(data)


# Films


def test_a_film_holds_gold_only_after_the_end():
    e = played(MOVES[:4])
    assert view_episode(e).ending is None
    gold = html.escape(QS.get("vet_clinic-12").gold_sql, quote=False)
    assert gold not in episode_page_html(view_episode(e)) and "guinea pig" not in episode_page_html(
        view_episode(e, fog=True)
    )
    e.step("ANSWER", "@last")
    assert (
        view_episode(e).ending.gold_sql
        and gold in episode_page_html(view_episode(e))
        and "guinea pig" in episode_page_html(view_episode(e))
    )


def test_an_episode_without_an_answer_ends_too():
    e = played([("DESCRIBE", "animal")] * 3, budget=3)
    film = view_episode(e)
    assert film.ending.verdict.reason == "no_answer" and film.ending.answer is None
    assert "used up without an answer" in render_html(
        episode_view_html(film, 3)
    ) and film.ending.gold_sql in html.unescape(render_html(episode_view_html(film, 3)))


def test_films_do_not_change():
    e = played(MOVES[:2])
    film = view_episode(e)
    before = render_html(episode_view_html(film, 2))
    e.step(*MOVES[2])
    assert len(film.turns) == 2 and render_html(episode_view_html(film, 2)) == before


@pytest.mark.parametrize(
    "answer, marked",
    [("CN | 77", ["CN"]), ("dog | 77\ncat | 66", ["cat"]), ("dog | 77\ndog | 77", [])],
)
def test_the_row_that_differs_is_marked(answer, marked):
    page = render_html(episode_view_html(view_episode(played([("ANSWER", answer)])), 1))
    mine = page.split("<h3>gold</h3>")[0]
    assert re.findall(r'class="sx-marked"><td>(.*?)</td>', mine) == marked
    assert 'class="sx-wrong"' in page


def test_strangers_know_numbers_as_the_judge_does():
    assert unmatched_rows([("a", 1.0000000001), ("b", 2)], [("b", 2.0), ("a", 1)]) == []
    assert unmatched_rows([("x",), ("a", 1)], [("a", 1)]) == [0]


def test_every_episode_of_a_policy_can_be_shown():
    for policy in (RandomPolicy(3), OraclePolicy(QS)):
        env = EpisodeEnv(QS, reward=RewardConfig.shaped())
        for q in list(QS)[::23]:
            if hasattr(policy, "reset"):
                policy.reset(1)
            play_episode(env, policy, env.reset(question_id=q.question_id))
            film = view_episode(env.episode, policy.name)
            page = episode_page_html(film)
            assert len(page) < 300_000 and page.count('class="sx-step"') == len(film.turns) + 1
            assert ('class="sx-right"' in page) == env.episode.verdict.correct


# Reading results back

cells = st.one_of(
    st.none(),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.binary(max_size=6),
    st.sampled_from([EVIL, "a | b", "'x'", "... 9 rows, 2 shown", "NULL"]),
)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda n: st.tuples(
            st.lists(st.text(max_size=12), min_size=n, max_size=n),
            st.lists(st.lists(cells, min_size=n, max_size=n), max_size=30),
        )
    )
)
def test_a_table_is_read_as_it_was_written(data):
    names, rows = data
    text = Result(tuple(names), [tuple(r) for r in rows]).text()
    found = parse_result_table(text)
    assert found is not None
    head, body, note = found
    shown = rows[:20] if rows else []
    if len(names) == 1 and shown and "... 9 rows" in text.split("\n")[-1]:
        return  # a value that looks like a note is taken for one
    from sql_env.values import format_value

    assert head == [format_value(c, 80) for c in names] and body == [
        [format_value(v, 300) for v in r] for r in shown
    ]


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_shown_as_it_is(text):
    found = parse_result_table(text)
    tree = Tree(render_html(text_html(text)))
    assert set(tree.tags) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "p"}
    if found is None:
        assert "".join(tree.text).replace("\r", "\n") == text.replace("\r", "\n")


# The diagram


def test_tables_are_discovered_by_looking():
    film = view_episode(played())
    assert discovered_columns(film) == {"animal": 1}
    assert (
        render_html(schema_svg(film, 0)).count("sx-table sx-on") == 0
        and render_html(schema_svg(film, 1)).count("sx-table sx-on") == 1
    )
    assert len(discovered_columns(view_episode(played(schema_level="full")))) == 8


def test_fog_hides_what_was_not_found():
    e = played(MOVES[:1])
    foggy, clear = (
        render_html(schema_svg(view_episode(e, fog=True), 1)),
        render_html(schema_svg(view_episode(e), 1)),
    )
    assert (
        "dam_id" in foggy
        and "price_cents" not in foggy
        and "price_cents" in clear
        and "line_item" in foggy
    )
    nameless = render_html(
        schema_svg(view_episode(played(MOVES[:1], schema_level="none"), fog=True), 1)
    )
    assert "line_item" not in nameless and "animal" in nameless


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(names, st.lists(st.tuples(names, st.integers(0, 7)), min_size=1, max_size=20)),
        max_size=8,
        unique_by=lambda t: t[0].lower(),
    )
)
def test_boxes_never_overlap(spec):
    from sql_env.values import format_value

    tables = [
        TableInfo(
            t,
            tuple(
                Column(
                    c,
                    "TEXT",
                    False,
                    f"{format_value(spec[k % len(spec)][0])}.{format_value('x')}" if k % 3 else "",
                )
                for c, k in columns
            ),
        )
        for t, columns in spec
    ]
    boxes = layout_tables(tables)
    assert sorted(b.table.name for b in boxes) == sorted(t.name for t in tables)
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert (
                a.x + a.width < b.x
                or b.x + b.width < a.x
                or a.y + a.height < b.y
                or b.y + b.height < a.y
            )
    Tree(render_html(schema_svg(EpisodeView("q", tables=tuple(tables)), 0)))


def test_keys_point_left():
    for name in QS.databases:
        where = {b.table.name: b for b in layout_tables(QS.database(name).infos)}
        depth = {
            t.name: i
            for i, layer in enumerate(layer_tables(QS.database(name).infos))
            for t in layer
        }
        assert len(where) == len(QS.database(name).tables) and max(depth.values()) >= 1


# Escaping


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    "A database whose names and values are tags and scripts."
    folder = tmp_path_factory.mktemp("hostile")
    t, c = quote_identifier(EVIL), quote_identifier(EVIL + "c")
    build_database(
        folder / "evil.sqlite",
        f"CREATE TABLE {t} ({c} TEXT PRIMARY KEY, n INTEGER REFERENCES {t}({c}))",
        {EVIL: [(f"{EVIL}{i}", i) for i in range(7)]},
    )
    q = Question(
        f"evil{EVIL}",
        f"How many {EVIL}?",
        "evil",
        f"SELECT count(*) AS {c} FROM {t}",
        ((7,),),
        split="train",
    )
    return QuestionSet([q], {"evil": folder / "evil.sqlite"}, EVIL)


def hostile_film(questions):
    e = Episode(questions[0], questions.database("evil"), RewardConfig.shaped())
    e.reset()
    t = quote_identifier(EVIL)
    for m in (
        ("DESCRIBE", t),
        ("SAMPLE", t),
        ("QUERY", f"SELECT * FROM {t}"),
        ("QUERY", f"SELECT '{EVIL.replace(chr(39), chr(39) * 2)}' FROM {t}"),
        ("QUERY", f"SELECT x FROM no{EVIL}"),
        ("ANSWER", EVIL),
    ):
        e.step(*m)
    return view_episode(e, EVIL)


def harmless(page, scripts=0):
    "Nothing of the hostile text became an element or an attribute, and nothing is fetched."
    tree = Tree(page)
    assert tree.tags.count("script") == scripts and not {
        "img",
        "link",
        "object",
        "iframe",
        "a",
        "form",
    } & set(tree.tags)
    assert not [
        a
        for a in tree.attributes
        if a[1].startswith("on") or a[1] in ("src", "href", "srcset", "action")
    ]
    assert EVIL in html.unescape("".join(tree.text)) or EVIL[:19] in "".join(tree.text)
    return tree


def test_hostile_names_and_values_stay_text(hostile):
    film = hostile_film(hostile)
    assert not film.ending.verdict and len(film.turns) == 6
    tree = harmless(episode_page_html(film, title=EVIL), scripts=1)
    assert "".join(tree.text).count("alert(1)") > 10
    harmless(episode_html(film).data)
    for step in range(7):
        harmless(render_html(episode_view_html(film, step)))
    frame = Tree(embed_page(film).data)
    assert frame.tags == ["div", "iframe"] and dict((k, v) for _, k, v in frame.attributes)[
        "srcdoc"
    ] == episode_page_html(film)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_survives_an_attribute_and_an_element(text):
    tree = Tree(render_html(element("p", text, title=text)))
    assert tree.tags == ["p"] and {k for _, k, _ in tree.attributes} <= {"title"}
    assert "".join(tree.text).replace("\r", "\n") == text.replace("\r", "\n")
    if text:
        assert tree.attributes[0][2] == text


def test_the_page_forbids_everything_but_its_script():
    page = episode_page_html(view_episode(played()))
    policy = re.search(r'content="(default-src[^"]*)"', page)[1]
    import base64
    import hashlib

    script = re.search(r"<script>(.*?)</script>", page, re.S)[1]
    assert (
        script == SCRIPT
        and base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    )
    assert "default-src 'none'" in policy and "http" not in re.sub(
        r"<meta[^>]*>", "", page.replace(SCRIPT, "")
    )


def test_a_long_episode_is_a_small_file(tell):
    wide = "SELECT * FROM visit v JOIN animal a USING (animal_id) JOIN line_item USING (visit_id)"
    moves = (
        [
            (verb, t)
            for t in ("animal", "visit", "owner", "code_list")
            for verb in ("DESCRIBE", "SAMPLE")
        ]
        + [("QUERY", f"{wide} LIMIT {i}") for i in range(20, 26)]
        + [("ANSWER", "1")]
    )
    film = view_episode(played(moves))
    size = len(episode_page_html(film).encode())
    tell(f"15 steps, wide results: {size / 1000:.0f} kB")
    assert len(film.turns) == 15 and size <= 300_000


# Recordings


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "random.jsonl"
    evaluate(QS, RandomPolicy(1), 4, log=path, progress=False)
    return path


def test_a_log_is_read_like_room_31_reads_it(log):
    about, mine = read_recordings(log)
    theirs_about, theirs = read_log(log)
    assert about == theirs_about and [t.turns for t in theirs] == [r.turns for r in mine]
    for r, t in zip(mine, theirs):
        film = view_recording(r, QS, about)
        assert (
            film == view_recording(t, QS, about)
            and not film.note
            and film.who == "random"
            and film.ending.gold_sql
        )


def test_a_log_without_its_questions_can_be_watched(log):
    about, (first, *_) = read_recordings(log)
    film = view_recording(first, None, about)
    assert film.turns == tuple(first.turns) and not film.tables and "not among those" in film.note
    episode_page_html(film)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "[]\n",
        '{"policy": "x"}\n{"episode": 7}\n',
        '{"policy": "x"}\n{"turns": []}\n',
        '{"a": 1}\n',
    ],
)
def test_what_is_no_log_is_refused(tmp_path, text):
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(ValueError, match="x.jsonl"):
        read_recordings(tmp_path / "x.jsonl")


def test_half_a_line_at_the_end_is_left_out(log, tmp_path):
    (tmp_path / "cut.jsonl").write_bytes(log.read_bytes()[:-40])
    assert len(read_recordings(tmp_path / "cut.jsonl")[1]) == 3


def test_a_crash_and_an_unfinished_episode_can_be_shown():
    crashed = dict(
        episode_index=0,
        question_id="vet_clinic-12",
        correct=False,
        reason="",
        error="ValueError: no",
        grounded=False,
    )
    from types import SimpleNamespace

    film = view_recording(
        SimpleNamespace(episode=SimpleNamespace(**crashed), reset={}, turns=[]), QS
    )
    assert "crashed: ValueError: no" in film.note and film.ending is None
    assert to_episode_view(Trajectory.from_episode(played(MOVES[:2])), questions=QS).ending is None


# Widgets


@pytest.fixture
def ex():
    return EpisodeExplorer(question_id="vet_clinic-12")


def test_playing_by_hand(ex):
    b = ex.hand.board
    assert b.last.disabled and len(b.buttons) == 16
    b.buttons["DESCRIBE", "animal"].click()
    b.sql.value = "SELECT species FROM animal"
    b.run.click()
    assert (
        "unknown column" in b.errors["QUERY"].value
        and not b.errors["ANSWER"].value
        and b.last.disabled
    )
    b.submit.click()
    assert "unreadable answer" in b.errors["ANSWER"].value and not b.errors["QUERY"].value
    b.sql.value = COUNTS
    b.run.click()
    assert (
        not b.errors["ANSWER"].value
        and "77" in b.screen.value
        and "guinea pig" not in b.screen.value
    )
    b.last.click()
    assert "guinea pig" in b.screen.value and 'class="sx-wrong"' in b.screen.value
    assert (
        b.run.disabled
        and b.submit.disabled
        and b.last.disabled
        and all(x.disabled for x in b.buttons.values())
        and not b.again.disabled
    )
    b.again.click()
    assert not ex.films[0].turns and not b.run.disabled and b.sql.value == ""


def test_a_mistake_at_a_table_is_said_there():
    e = EpisodeExplorer(schema_level="none")
    (_, box, *_), b = e.hand.board.tables.children[0].children, e.hand.board
    box.value = "no such"
    b.buttons["SAMPLE", ""].click()
    assert "unknown table" in b.errors["TABLE"].value and len(e.films[0].turns) == 1


def test_choosing(ex):
    c = ex.chooser
    c.split.value, c.difficulty.value = "test", "hard"
    ids = [v for _, v in c.question.options]
    assert (
        ids
        and all((QS.get(i).split, QS.get(i).difficulty) == ("test", "hard") for i in ids)
        and ex.hand.episode.question.question_id == c.question.value == ids[0]
    )
    c.search.value = "nothing is called like this"
    assert "no question" in c.said.value and c.question.value == ids[0]
    ex.choose("vet_clinic-12")
    assert ex.hand.episode.question.question_id == "vet_clinic-12" and not c.said.value
    with pytest.raises(KeyError, match="vet_clinic-12"):
        ex.choose("vet_clinic-120")


def test_other_sources(ex, hostile):
    ex.chooser.source.value = "worlds"
    assert (
        ex.chooser.questions.name != QS.name
        and ex.hand.episode.question.question_id == ex.chooser.question.value
    )
    before = ex.chooser.questions
    ex.chooser.source.value, ex.chooser.path.value = "folder", "nowhere"
    ex.chooser.load.click()
    assert "nowhere" in ex.chooser.said.value and ex.chooser.questions is before
    e = EpisodeExplorer(hostile)
    for b in e.hand.board.buttons.values():
        b.click()
    harmless(e.hand.board.screen.value)
    e.watch("random")
    harmless(e.rooms[0].player.screens.children[0].value)
    assert e.chooser.source.value == EVIL


def test_watching_with_the_slider(ex):
    ex.policy.value = "oracle"
    ex.go_watch.click()
    p = ex.rooms[0].player
    assert (
        ex.tabs.selected_index == 1
        and p.slider.max == p.play.max == len(ex.films[0].turns) == 4
        and p.slider.value == 0
    )
    assert "Nothing is known yet" in p.screens.children[0].value
    for i in range(1, 6):
        p.next.click()
        assert p.slider.value == min(i, 4)
    assert 'class="sx-right"' in p.screens.children[0].value
    p.back.click()
    p.slider.value = 1
    assert "14 of 15 steps left" in p.screens.children[0].value


def test_two_policies_side_by_side(ex, tmp_path):
    ex.compare("greedy", "oracle")
    p = ex.rooms[1].player
    p.slider.value = p.slider.max
    a, b = (c.value for c in p.screens.children)
    assert (
        "played by greedy" in a
        and 'class="sx-wrong"' in a
        and "played by oracle" in b
        and 'class="sx-right"' in b
    )
    page = ex.to_html(tmp_path / "two.html").read_text()
    assert page.count("<article") == 2 and Tree(ex.html().data).tags.count("article") == 2
    ex.choose("vet_clinic-02")
    assert ex.films[0].about.startswith("vet_clinic-02")  # the open tab follows
    ex.tabs.selected_index = 1
    with pytest.raises(ValueError, match="watch"):
        ex.to_html(tmp_path / "none.html")


def test_policies_of_ones_own():
    class Slow(ScriptedPolicy):
        def select_action(self, o):
            import time

            time.sleep(0.3)
            return super().select_action(o)

    class Broken:
        name = "broken"

        def select_action(self, o):
            raise RuntimeError(EVIL)

    seen = []
    e = EpisodeExplorer(
        question_id="vet_clinic-12",
        policies={"slow": Slow(MOVES[:2] + MOVES[4:] + [("ANSWER", "1")]), "broken": Broken()},
    )
    screens = e.rooms[0].player
    show = screens.show
    screens.show = lambda *f, **k: (seen.append(len(f[-1].turns)), show(*f, **k))
    e.watch("slow")
    assert seen[-1] == 4 and len(seen) > 1  # it was seen while it played
    e.watch("broken")
    assert (
        "The policy crashed: RuntimeError"
        in harmless(screens.screens.children[0].value).text.__str__()
    )
    with pytest.raises(ValueError, match="random, greedy, oracle, slow, broken"):
        e.watch("nobody")


def test_replaying(ex, log, tmp_path):
    ex.file.value = str(log)
    ex.go_replay.click()
    assert (
        ex.tabs.selected_index == 3
        and len(ex.recording.options) == 4
        and ex.films[0].who == "random"
    )
    ex.recording.value = 2
    assert (
        ex.films[0].question == QS.get(read_recordings(log)[1][2].episode.question_id).question_text
    )
    ex.replay(read_log(log)[1], episode=1)
    assert ex.recording.value == 1
    for wrong in (str(tmp_path / "none.jsonl"), str(tmp_path), ""):
        ex.file.value = wrong
        ex.go_replay.click()
        assert "no log" in ex.rooms[2].said.value
    with pytest.raises(ValueError, match="no episodes"):
        ex.replay([])


def test_two_explorers_share_nothing(tmp_path):
    one, two = (
        EpisodeExplorer(question_id="vet_clinic-12"),
        EpisodeExplorer(question_id="vet_clinic-12"),
    )
    still = [s.value for s in (two.hand.board.head, two.hand.board.screen)]
    for m in MOVES:
        one.play(*m)
    one.compare("random", "oracle")
    one.choose("vet_clinic-02")
    assert (
        [s.value for s in (two.hand.board.head, two.hand.board.screen)] == still
        and two.tabs.selected_index in (0, None)
        and not two.rooms[1].player.films
    )
    mine, theirs = ({id(x) for x in everything(e.box)} for e in (one, two))
    assert not mine & theirs and len(mine) > 60
    from sql_env import explorer

    state = [
        k
        for c in vars(explorer).values()
        if isinstance(c, type) and c.__module__ == "sql_env.explorer"
        for k, v in vars(c).items()
        if isinstance(v, (list, dict, set)) and not k.startswith("__")
    ]
    assert not state


def everything(w):
    yield w
    for c in getattr(w, "children", ()):
        yield from everything(c)


def test_player_takes_films_of_different_length():
    p = EpisodePlayer(view_episode(played()), view_episode(played(MOVES[:2])))
    p.slider.value = 5
    assert (
        'class="sx-wrong"' in p.screens.children[0].value
        and "13 of 15 steps left" in p.screens.children[1].value
    )
    p.show(view_episode(played(MOVES[:1])), step=-1)
    assert len(p.screens.children) == 1 and p.slider.value == p.slider.max == 1


def test_still_pictures_have_no_style_sheet():
    page = episode_html(played(), "hasty").data
    tree = Tree(page)
    assert not {"script", "style", "svg"} & set(tree.tags) and not [
        a for a in tree.attributes if a[1] == "class"
    ]
    assert (
        "200 rows: animal_id, name, type" in page
        and "gold" in page
        and "SELECT c.meaning" not in episode_html(played(), gold=False).data
    )
    assert "SELECT c.meaning" not in episode_html(played(MOVES[:4])).data
    assert (
        episode_html([Turn(Action("QUERY", "SELECT 1"), "1\n1", "", {})]).data.count("<table") == 1
    )


def test_import_is_light():
    import subprocess
    import sys

    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, sql_env.explorer; print([m for m in ('ipywidgets', 'IPython', 'openenv', 'torch', 'pandas') if m in sys.modules])",
        ],
        capture_output=True,
        text=True,
    )
    assert said.stdout.strip() == "[]", said
