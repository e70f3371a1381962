"The viewer without a browser: views of episodes, diagrams, pages, and widgets clicked from Python."

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from laws import law

from sql_env.database.database import build_database
from sql_env.evaluation import evaluate, read_log
from sql_env.evaluation.rows import Trajectory
from sql_env.paths import read_asset, terminal_text
from sql_env.play import Action, EpisodeEnv, RewardConfig
from sql_env.play.episode import Episode, Turn
from sql_env.policies import OraclePolicy, RandomPolicy, ScriptedPolicy, play_episode
from sql_env.questions.question_set import Question, QuestionSet
from sql_env.sources.loading import load
from sql_env.sql.text import Result, format_value, quote_identifier
from sql_env.view import episode as view_module
from sql_env.view.episode import view_episode, view_trajectory, watch_policy
from sql_env.view.explorer import EpisodeExplorer, EpisodePlayer, HumanPlayer, _QuestionPicker, _Tab
from sql_env.view.page import (
    embed_page,
    episode_data,
    episode_html,
    episode_page_html,
    part_html,
    player_html,
    stylesheet,
)

EVIL = """</script><script>alert(1)</script><img src=x onerror="alert(2)"> ' " & `"""
QS = load("bundled")
COUNTS = "SELECT type, count(*) FROM animal GROUP BY type"
WRONG = "SELECT species FROM animal"
MOVES = [("DESCRIBE", "animal"), ("SAMPLE", "animal"), ("QUERY", WRONG), ("QUERY", COUNTS), ("ANSWER", "@last")]
DIFFERENT = [("CN | 77", ["CN"]), ("dog | 77\ncat | 66", ["cat"]), ("dog | 77\ndog | 77", [])]
ODD = [EVIL, "a | b", "'x'", "... 9 rows, 2 shown", "NULL"]
numbers = [st.none(), st.integers(-(10**9), 10**9), st.floats(allow_nan=False)]
cells = st.one_of(*numbers, st.text(max_size=20), st.binary(max_size=6), st.sampled_from(ODD))
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10)
columns = st.lists(st.tuples(names, st.integers(0, 7)), min_size=1, max_size=20)


def played(moves=MOVES, question_id="vet_clinic-12", **options):
    env = EpisodeEnv(QS, reward=RewardConfig.shaped(), **options)
    env.reset(question_id=question_id)
    for m in moves:
        env.step(*m)
    return env.episode


def step(page, i):
    "The panel of a step, in a player's HTML."
    return re.search(rf'<section class="sx-step" data-step="{i}".*?</section>', page, re.S)[0]


def hidden(page, i):
    return " hidden>" in step(page, i).partition("\n")[0]


def still(view, i):
    return step(player_html(view, step=i), i)


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


def test_a_view_does_not_change_and_holds_gold_only_after_the_end():
    e = played(MOVES[:4])
    view, gold = view_episode(e), html.escape(QS.get("vet_clinic-12").gold_sql)
    before = still(view, 4)
    assert view.outcome is None and gold not in episode_page_html(view)
    assert "guinea pig" not in episode_page_html(view_episode(e, hide_unexplored=True))
    e.step("ANSWER", "@last")
    assert len(view.turns) == 4 and still(view, 4) == before
    assert view_episode(e).outcome.gold_sql and gold in episode_page_html(view_episode(e))
    assert "guinea pig" in episode_page_html(view_episode(e))
    # an episode without an answer ends too
    view = view_episode(played([("DESCRIBE", "animal")] * 3, budget=3))
    assert view.outcome.verdict.reason == "no_answer" and view.outcome.answer is None
    assert "used up without an answer" in still(view, 3) and view.outcome.gold_sql in html.unescape(still(view, 3))


@pytest.mark.parametrize("answer, marked", DIFFERENT)
def test_the_row_that_differs_is_marked(answer, marked):
    page = still(view_episode(played([("ANSWER", answer)])), 1)
    mine = page.split("<h3>gold</h3>")[0]
    assert re.findall(r'class="sx-marked"><td>(.*?)</td>', mine) == marked and 'class="sx-wrong"' in page
    # numbers are compared as the grader does
    assert view_module._unmatched_rows([("a", 1.0000000001), ("b", 2)], [("b", 2.0), ("a", 1)]) == []
    assert view_module._unmatched_rows([("x",), ("a", 1)], [("a", 1)]) == [0]


@pytest.mark.parametrize("policy", [RandomPolicy(3), OraclePolicy(QS)])
def test_every_episode_of_a_policy_can_be_shown(policy):
    env = EpisodeEnv(QS, reward=RewardConfig.shaped())
    for q in list(QS)[::23]:
        if hasattr(policy, "reset"):
            policy.reset(1)
        play_episode(env, policy, env.reset(question_id=q.question_id))
        view = view_episode(env.episode, policy.name)
        page = episode_page_html(view)
        assert len(page) < 300_000 and page.count('class="sx-step"') == len(view.turns) + 1
        assert ('class="sx-right"' in page) == env.episode.verdict.correct


def tables_of(n):
    "Names of columns, and rows."
    rows = st.lists(st.lists(cells, min_size=n, max_size=n), max_size=30)
    return st.tuples(st.lists(st.text(max_size=12), min_size=n, max_size=n), rows)


@law(100)
@given(st.integers(1, 4).flatmap(tables_of))
@example((["n"], [["... 9 rows, 2 shown"]]))
def test_a_table_is_read_as_it_was_written(data):
    names, rows = data
    found = view_module._parse_result(Result(tuple(names), [tuple(r) for r in rows]).text())
    assert found.columns == [format_value(c, 80) for c in names]
    assert [*found.rows] == [[format_value(v, 300) for v in r] for r in rows[:20]]


@law(150)
@given(st.text(max_size=200))
def test_any_text_is_shown_as_it_is(text):
    found = view_module._parse_result(text)
    tree = Tree(part_html(view_module._result_part(text)))
    assert set(tree.tags) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "p"}
    if found is None:
        assert "".join(tree.text) == terminal_text(text)


def test_tables_are_discovered_by_looking_and_others_are_hidden():
    def drawn(moves, hides=True, **options):
        tables = episode_data(view_episode(played(moves, **options), hide_unexplored=hides))["tables"]
        return {t["name"]: t for t in tables}, json.dumps(tables)

    found, clear = drawn(MOVES[:4], False)
    assert {name: t["known"] for name, t in found.items() if t["known"]} == {"animal": 1}
    assert found["animal"]["touched"] == [1, 2, 4] and not found["owner"]["touched"]  # step 3 failed
    _, text = drawn(MOVES[:1])
    assert "dam_id" in text and "price_cents" not in text and "price_cents" in clear and "line_item" in text
    _, nameless = drawn(MOVES[:1], schema_level="none")
    assert "line_item" not in nameless and "animal" in nameless


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    "A database whose names and values are tags and scripts."
    t, c = quote_identifier(EVIL), quote_identifier(EVIL + "c")
    schema = f"CREATE TABLE {t} ({c} TEXT PRIMARY KEY, n INTEGER REFERENCES {t}({c}))"
    rows = [(f"{EVIL}{i}", i) for i in range(7)]
    path = build_database(tmp_path_factory.mktemp("hostile") / "evil.sqlite", schema, {EVIL: rows})
    q = Question(f"evil{EVIL}", f"How many {EVIL}?", "evil", f"SELECT count(*) AS {c} FROM {t}", ((7,),), split="train")
    return QuestionSet([q], {"evil": path}, EVIL)


def hostile_view(questions):
    e = Episode(questions[0], questions.database("evil"), reward=RewardConfig.shaped())
    e.reset()
    t, quoted = quote_identifier(EVIL), EVIL.replace("'", "''")
    queries = f"SELECT * FROM {t}", f"SELECT '{quoted}' FROM {t}", f"SELECT x FROM no{EVIL}"
    for m in (*(("QUERY", sql) for sql in queries), ("DESCRIBE", t), ("SAMPLE", t), ("ANSWER", EVIL)):
        e.step(*m)
    return view_episode(e, EVIL)


def harmless(page, scripts=0):
    "Nothing of the hostile text became an element or an attribute, and nothing is fetched."
    tree = Tree(page)
    assert tree.tags.count("script") == scripts
    assert not {"img", "link", "object", "iframe", "a", "form"} & set(tree.tags)
    assert not [a for a in tree.attributes if a[1].startswith("on") or a[1] in ("src", "href", "srcset", "action")]
    assert EVIL in html.unescape("".join(tree.text)) or EVIL[:19] in "".join(tree.text)
    return tree


def test_hostile_names_and_values_stay_text(hostile):
    view = hostile_view(hostile)
    assert not view.outcome.verdict and len(view.turns) == 6
    tree = harmless(episode_page_html(view, title=EVIL), scripts=1)
    assert "".join(tree.text).count("alert(1)") > 10
    for page in (episode_html(view).data, player_html(view)):
        harmless(page)
    frame = Tree(embed_page(view).data)
    attributes = {name: value for _, name, value in frame.attributes}
    assert frame.tags == ["div", "iframe"] and attributes["srcdoc"] == episode_page_html(view)


def test_style_sheets_are_well_formed_and_touch_nothing_outside():
    "And dark colours are the same in both places."
    tinycss2 = pytest.importorskip("tinycss2")
    for name in ("episode.css", "page.css"):
        rules = tinycss2.parse_stylesheet(read_asset(name), skip_comments=True, skip_whitespace=True)
        assert rules and not [rule for rule in rules if rule.type == "error"], name
        assert read_asset(name).count("{") == read_asset(name).count("}")
        for rule in rules:
            assert name == "page.css" or rule.type != "qualified-rule" or ".sx" in tinycss2.serialize(rule.prelude)
    assert "/*" not in stylesheet("episode.css", "page.css")
    dark = re.findall(r"\{\s*(--sx-fg0: #e6edf3;.*?)\}", read_asset("episode.css"), re.S)
    one, two = (re.findall(r"--[\w-]+: \S+;", block) for block in dark)
    light = re.search(r"\.sx \{\s*(--sx-fg0: #1f2328;.*?)\}", read_asset("episode.css"), re.S)[1]
    assert one == two and re.findall(r"--[\w-]+", light) == re.findall(r"--[\w-]+", dark[0])


@pytest.mark.skipif(not shutil.which("node"), reason="no node: apt-get install nodejs")
def test_the_script_is_valid_and_short():
    path = files("sql_env").joinpath("assets", "player.js")
    checked = subprocess.run(["node", "--check", str(path)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    scripts = [*files("sql_env").joinpath("assets").glob("*.js")]
    assert scripts == [path] and len(path.read_text().splitlines()) <= 150


def test_the_page_has_styled_classes_only_forbids_everything_but_its_script_and_is_a_small_file(tell):
    page = episode_page_html(view_episode(played()), view_episode(played(MOVES[:1])))
    styles = read_asset("episode.css") + read_asset("page.css") + read_asset("player.js")
    used = {name for value in re.findall(r'class="([^"]*)"', page) for name in value.split()}
    assert {name for name in used if f".{name}" not in styles} <= {"sx-page"}
    policy = re.search(r'content="(default-src[^"]*)"', page)[1]
    script = re.search(r"<script>(.*?)</script>", page, re.S)[1]
    assert script == read_asset("player.js") and "default-src 'none'" in policy
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert "http" not in re.sub(r"<meta[^>]*>", "", page.replace(script, ""))
    # nor is that of a long episode large
    wide = "SELECT * FROM visit v JOIN animal a USING (animal_id) JOIN line_item USING (visit_id) LIMIT"
    moves = [(verb, t) for t in ("animal", "visit", "owner", "code_list") for verb in ("DESCRIBE", "SAMPLE")]
    view = view_episode(played([*moves, *(("QUERY", f"{wide} {i}") for i in range(20, 26)), ("ANSWER", "1")]))
    size = len(episode_page_html(view).encode())
    tell(f"15 steps, wide results: {size / 1000:.0f} kB")
    assert len(view.turns) == 15 and size <= 300_000


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "random.jsonl"
    evaluate(QS, RandomPolicy(1), 4, log=path, progress=False)
    return path


def test_episodes_of_a_log_are_shown_as_they_were_played(log):
    about, trajectories = read_log(log)
    for trajectory in trajectories:
        view = view_trajectory(trajectory, QS, about)
        assert view.turns == tuple(trajectory.turns) and view.note == "" and view.tables
        assert view.policy == "random" and view.outcome.gold_sql
        alone = view_trajectory(trajectory, None, about)  # without its questions
        assert alone.turns == view.turns and not alone.tables and "not among those" in alone.note
        episode_page_html(alone)
    crashed = view_trajectory(Trajectory(episode_index=0, question_id="vet_clinic-12", error="ValueError: no"), QS)
    assert "crashed: ValueError: no" in crashed.note and crashed.outcome is None
    unfinished = Trajectory(episode_index=0, question_id="vet_clinic-12", turns=played(MOVES[:2]).turns)
    assert view_module._to_episode_view(unfinished, questions=QS).outcome is None


@pytest.fixture
def ex():
    return EpisodeExplorer(question_id="vet_clinic-12")


def shown(player):
    return player.box.value


def test_playing_by_hand(ex):
    "A mistake is said once, at what made it."
    b, p = ex.human, ex.human.player
    errors = lambda: {verb: screen.value for verb, screen in b.errors.items()}  # noqa: E731
    query = lambda sql: (setattr(b.boxes["QUERY"], "value", sql), b.buttons["QUERY", ""].click())  # noqa: E731
    assert b.answer_last.disabled and len(b.buttons) == 18
    b.buttons["DESCRIBE", "animal"].click()
    query(WRONG)
    assert "unknown column" in errors()["QUERY"] and "unknown column" not in step(shown(p), 2)
    assert not errors()["ANSWER"] and b.answer_last.disabled
    ex.play("ANSWER", "I think 7 or 8")
    assert "unreadable answer" in errors()["ANSWER"] and not errors()["QUERY"]
    query(COUNTS)
    assert not errors()["ANSWER"] and "77" in shown(p) and "guinea pig" not in shown(p)
    b.answer_last.click()
    assert "guinea pig" in shown(p) and 'class="sx-wrong"' in shown(p)
    assert all(x.disabled for x in [*b.buttons.values(), b.answer_last]) and not b.reset_button.disabled
    b.reset_button.click()
    assert not ex.views[0].turns and not b.buttons["QUERY", ""].disabled and not b.boxes["QUERY"].value
    ex.play("QUERY", QS.get("vet_clinic-12").gold_sql)
    ex.play("ANSWER", "@last")
    assert ex.human.view.outcome.verdicts["robust"].correct and "<b>robust</b> right on variants" in shown(p)


def test_what_tells_nothing_new_costs_no_step(ex):
    h, b = ex.human, ex.human
    for _ in range(2):
        b.buttons["DESCRIBE", "animal"].click()
    assert len(h.view.turns) == 1 and "Step 1 told this" in b.errors["DESCRIBE"].value
    for verb in ("QUERY", "ANSWER"):
        b.buttons[verb, ""].click()
        assert "no step was taken" in b.errors[verb].value
    for sql in ("SELECT 1", " SELECT 1 ", "SELECT x", "SELECT x", "SELECT 1"):
        ex.play("QUERY", sql)
    assert len(h.view.turns) == 3 and 'data-now="2"' in shown(h.player)
    ex.play("QUERY", "SELECT 2")  # now @last is another result, so asking again is a step
    ex.play("QUERY", "SELECT 1")
    assert len(h.view.turns) == 5 and h.episode.last.rows == [(1,)]
    ex.play("ANSWER", "1")
    b.buttons["ANSWER", ""].click()
    assert len(h.view.turns) == 6
    e = EpisodeExplorer(schema_level="none")  # without buttons for tables: a mistake is said there, and costs one
    e.human.boxes["SAMPLE"].value = "no such"
    e.human.buttons["SAMPLE", ""].click()
    assert "unknown table" in e.human.errors["SAMPLE"].value and len(e.views[0].turns) == 1


def test_a_step_is_taken_back_by_a_fork(ex):
    h, b = ex.human, ex.human
    ex.play("DESCRIBE", "animal")
    one, key = h.view.turns, h.episode.state_key
    ex.play("QUERY", COUNTS)
    ex.play("ANSWER", "@last")
    assert b.gold_button.layout.display == "" and h.episode.done
    b.gold_button.click()
    assert [v.policy for v in h.player.views] == ["gold", "you"] and h.player.views[0].outcome.verdict
    for _ in range(2):
        b.undo_button.click()
    assert (h.view.turns, h.episode.state_key) == (one, key)
    assert "2 steps taken back, one of them" in h.view.note
    assert len(h.player.views) == 1 and b.gold_button.layout.display == "none" and not b.buttons["QUERY", ""].disabled
    ex.play("QUERY", COUNTS)
    assert [t.action.action_type for t in h.view.turns] == ["DESCRIBE", "QUERY"]
    b.reset_button.click()
    assert not h.view.note and not h.view.turns and b.undo_button.disabled


def test_any_step_and_more_rows_than_an_agent_sees_can_be_looked_at(ex):
    for move in (MOVES[0], ("QUERY", "SELECT x"), ("QUERY", "SELECT animal_id, name FROM animal ORDER BY 1")):
        ex.play(*move)
    page = shown(ex.human.player)
    assert page.count('class="sx-step"') == 4 and "unknown column" in step(page, 2) and 'data-now="3"' in page
    assert step(page, 3).count("<tr>") == 201 and "200 rows, 20 shown to an agent" in step(page, 3)
    assert [hidden(page, i) for i in range(4)] == [True, True, True, False]


def test_keys_reach_python_as_lines(ex):
    h = ex.human
    for n, line in enumerate(["DESCRIBE animal", "QUERY SELECT 1 AS a,\n  2", "QUERY "]):
        h.wire.value = f"{n}.5 {line}"
    assert [t.action.argument for t in h.view.turns] == ["animal", "SELECT 1 AS a,\n  2"]
    assert h.inputs == {"QUERY": ["SELECT 1 AS a,\n  2"]}
    assert json.loads(Tree(h.past.value).attributes[0][2]) == h.inputs
    h.wire.value = "9 undo "
    assert len(h.view.turns) == 1


@pytest.mark.parametrize("source", ["tasks", "conversations"])
def test_the_actions_follow_the_source_and_gold_can_go(source):
    e = EpisodeExplorer(source, n=12)
    for entry in e.picker.question.options[::4]:
        e.choose(entry[1])
        for turn in e._play_gold().turns:
            box = e.human.boxes.get(turn.action.action_type)
            if box is None:
                e.human.act(*turn.action)
            else:
                box.value = turn.action.argument
                e.human.buttons[turn.action.action_type, ""].click()
        assert e.human.view.outcome.verdict, (entry, e.human.view.turns)
    if source == "conversations":  # the next question has not been told anything
        e = EpisodeExplorer("conversations", n=4)
        answer = next(t.action.argument for t in e._play_gold().turns if t.action[0] == "ANSWER")
        for verb, text in (("QUERY", "SELECT 1"), ("ANSWER", answer), ("QUERY", "SELECT 1")):
            e.play(verb, text)
        assert len(e.human.view.turns) == 3 and e.human.episode.has_result


def test_a_task_is_taken_back_as_well():
    e = EpisodeExplorer("tasks", n=4)
    h, box = e.human, e.human.boxes["EXECUTE"]
    sql = next(t.action.argument for t in e._play_gold().turns if t.action[0] == "EXECUTE")
    for text in (sql, box.value):  # a double click
        box.value = text
        h.buttons["EXECUTE", ""].click()
    done = h.view.changes
    assert done and len(h.view.turns) == 1
    h.undo()
    assert not h.view.changes
    table = h.episode.database.tables[0]
    for n, verb in enumerate(("SAMPLE", "EXECUTE", "EXECUTE", "SAMPLE"), 1):  # none is a repeat
        e.play(verb, sql if verb == "EXECUTE" else table)
        assert len(h.view.turns) == n
    h.undo()
    h.undo()
    e.play("ANSWER", "done")
    assert h.view.changes == done and h.view.outcome.verdict


def test_choosing_questions_and_the_next_one(ex, hostile):
    c = ex.picker
    c.split.value, c.difficulty.value = "test", "hard"
    ids = [v for _, v in c.question.options]
    assert ids and all((QS.get(i).split, QS.get(i).difficulty) == ("test", "hard") for i in ids)
    assert ex.human.episode.question.question_id == c.question.value == ids[0]
    c.search.value = "nothing is called like this"
    assert "no question" in c.error.value and c.question.value == ids[0]
    ex.choose("vet_clinic-12")
    assert ex.human.episode.question.question_id == "vet_clinic-12" and not c.error.value
    board = ex.human
    shown_now = lambda: board.next_button.layout.display == ""  # noqa: E731
    assert not shown_now()
    ids = [v for _, v in c.question.options]
    ex.choose(ids[-1])
    ex.play("ANSWER", "0")
    assert shown_now()
    board.next_button.click()
    assert board.episode.question.question_id == ids[0] and not shown_now()
    e = EpisodeExplorer(hostile)
    for b in list(e.human.buttons.values()):
        b.click()
    harmless(shown(e.human.player))
    e.watch("random")
    harmless(shown(e.watched))


def test_watching(ex):
    ex.watching.controls[0].value = "oracle"
    ex.watching.button.click()
    page = shown(ex.watched)
    assert ex.tabs.selected_index == 1 and len(ex.views[0].turns) == 4
    assert 'data-last="4" data-now="1"' in page and not hidden(page, 1) and hidden(page, 4)
    assert "Nothing is known yet" in step(page, 0) and "14 of 15 steps left" in step(page, 1)
    assert "<b>robust</b> right on variants" in step(page, 4) and 'class="sx-right"' in step(page, 4)


def test_two_policies_side_by_side(ex, tmp_path):
    ex.compare("greedy", "oracle")
    a, b = shown(ex.compared).split("<article")[1:]
    assert "played by greedy" in a and 'class="sx-wrong"' in a and "played by oracle" in b and 'class="sx-right"' in b
    page = ex.to_html(tmp_path / "two.html").read_text()
    assert page.count("<article") == 2 and Tree(ex.html().data).tags.count("article") == 2
    ex.choose("vet_clinic-02")
    assert ex.views[0].about.startswith("vet_clinic-02")  # the open tab follows
    ex.tabs.selected_index = 1
    with pytest.raises(ValueError, match="watch"):
        ex.to_html(tmp_path / "none.html")


def test_a_slow_policy_is_seen_while_it_plays_and_policies_may_be_ones_own():
    episode, policy = played([]), ScriptedPolicy(MOVES)
    views = list(watch_policy(episode, policy, "slow", interval=0))
    assert [len(view.turns) for view in views] == [1, 2, 3, 4, 5, 5]
    assert [view.outcome is None for view in views[:4]] == [True] * 4 and views[-1].outcome
    assert len(list(watch_policy(episode, policy, "fast", interval=1e9))) == 1

    class Broken:
        name = "broken"

        def select_action(self, o):
            raise RuntimeError(EVIL)

    own = {"hasty": ScriptedPolicy(MOVES), "broken": Broken()}
    e = EpisodeExplorer(question_id="vet_clinic-12", policies=own)
    e.watch("hasty")
    assert len(e.views[0].turns) == 5
    e.watch("broken")
    page = harmless(shown(e.watched))
    assert "The policy crashed: RuntimeError" in str(page.text)
    with pytest.raises(ValueError, match="random, greedy, oracle, nano, hasty, broken"):
        e.watch("nobody")


def test_replaying(ex, log, tmp_path):
    ex.replaying.controls[0].value = str(log)
    ex.replaying.button.click()
    page = ex.log_page
    assert ex.tabs.selected_index == 3 and ex.views == () and 'id="rx-rows"' in page
    assert "iframe" in ex.logged.value and "iframe" in ex.html().data
    assert ex.to_html(tmp_path / "log.html").read_text() == page
    ex.replay(read_log(log)[1])
    assert ex.log_page != page
    (tmp_path / "empty").mkdir()
    for wrong in ("none.jsonl", "empty"):
        ex.replaying.controls[0].value = str(tmp_path / wrong)
        ex.replaying.button.click()
        assert "There is no run" in ex.replaying.error.value
    with pytest.raises(ValueError, match="There is no run"):
        ex.replay([])


def test_two_explorers_share_nothing():
    one, two = EpisodeExplorer(question_id="vet_clinic-12"), EpisodeExplorer(question_id="vet_clinic-12")
    before = [two.human.head.value, shown(two.human.player)]
    for m in MOVES:
        one.play(*m)
    one.compare("random", "oracle")
    one.choose("vet_clinic-02")
    assert [two.human.head.value, shown(two.human.player)] == before and two.tabs.selected_index in (0, None)
    assert not two.compared.views
    mine, theirs = ({id(x) for x in everything(e.box)} for e in (one, two))
    assert not mine & theirs and len(mine) > 50
    for widget in (EpisodeExplorer, EpisodePlayer, HumanPlayer, _QuestionPicker, _Tab):
        shared = [name for name, x in vars(widget).items() if isinstance(x, (list, dict, set))]
        assert not [name for name in shared if not name.startswith("__")]


def everything(w):
    yield w
    for c in getattr(w, "children", ()):
        yield from everything(c)


def test_player_takes_episodes_of_different_length_and_still_pictures_have_no_style_sheet():
    p = EpisodePlayer(view_episode(played()), view_episode(played(MOVES[:2])))
    one, two = shown(p).split("<article")[1:]
    assert not hidden(one, 5) and 'class="sx-wrong"' in one and "13 of 15 steps left" in step(two, 2)
    assert not hidden(two, 2)  # the shorter one waits at its end
    p.show(view_episode(played(MOVES[:1])), step=-1)
    assert shown(p).count("<article") == 1 and 'data-last="1" data-now="1"' in shown(p)
    page = episode_html(played(), "hasty").data
    tree = Tree(page)
    assert not {"script", "style", "svg"} & set(tree.tags) and not [a for a in tree.attributes if a[1] == "class"]
    assert "200 rows: animal_id, name, type" in page and "gold" in page
    assert "SELECT c.meaning" not in episode_html(played(), gold=False).data
    assert "SELECT c.meaning" not in episode_html(played(MOVES[:4])).data
    assert episode_html([Turn(Action("QUERY", "SELECT 1"), "1\n1", "", {})]).data.count("<table") == 1
