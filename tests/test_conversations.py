"Conversations: what an episode of several questions shows, pays and judges, and how worlds and files make them."

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
from databases import forgetful
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from made_rows import replay_problems
from tables import cases
from test_reward import RIGHT, RIGHTLY, WRONG, result, shaped, total, turns, undiscounted

from sql_env import Database, Episode, EpisodeEnv, audit_questions, evaluate, hack_floor, load
from sql_env.database.database import build_database
from sql_env.evaluation.logs import read_log, rescore_log
from sql_env.evaluation.results import result_texts, results_markdown, summary
from sql_env.play.acts import ACTIONS, EXTRA_ACTIONS
from sql_env.play.reward import RewardConfig, RewardMeter, TurnFacts
from sql_env.policies import OraclePolicy, ScriptedPolicy, play_episode
from sql_env.questions.question_set import Question, QuestionSet, question_from_fields, question_to_json
from sql_env.worlds import worlds
from sql_env.worlds.conversations import EDITS, ConversationWorld
from sql_env.worlds.words import load_wordings

laws = law(40)
PAID = "SELECT count(*) FROM bill WHERE paid = 'yes'"
SQL = [PAID, PAID + " AND town = 'Bonn'", "SELECT town, count(*) FROM bill WHERE paid = 'yes' GROUP BY town"]
WORDS = ["How many bills are paid?", "Only those of Bonn.", "And per town?"]
PLAIN = dict(question="How many bills are there?", sql="SELECT count(*) FROM bill")


# --- rewards
@st.composite
def talks(draw, config):
    "A configuration, gold, a budget, and the turns of each question; the first without an answer is the last."
    budget, n = draw(st.integers(1, 20)), draw(st.integers(1, 5))
    questions = [draw(turns((RIGHT, RIGHTLY, WRONG, None), min(budget, 8))) for _ in range(n)]
    return draw(config), draw(result()), budget, questions


def pay(config, gold, budget, questions):
    "The parts of the rewards of each question that was reached, and how many were answered rightly."
    n, paid, right = len(questions), [], 0
    for i, walk in enumerate(questions):
        meter = RewardMeter(config, gold, ("a", "b"), budget, n, n - i - 1)
        paid.append([meter.score(replace(t)) for t in walk])
        if walk[-1].verdict is None:
            return paid, right
        right += walk[-1].verdict.correct
    return paid, right


@laws
@given(talks(undiscounted), st.data())
def test_more_right_answers_are_always_worth_more(talk, data):
    config, gold, budget, questions = talk
    other = [data.draw(turns((RIGHT, WRONG, None), min(budget, 8))) for _ in questions]
    (a, more), (b, fewer) = pay(*talk), pay(config, gold, budget, other)
    worth = [sum(map(total, paid)) for paid in (a, b)]
    for earned, right in zip(worth, (more, fewer)):
        most = config.correct * right / len(questions) + config.most_without_answer / len(questions)
        assert earned <= min(most, config.correct) + 1e-9, "more than all right answers could earn"
    least = config.correct - config.slowness - config.costs - config.most_without_answer
    if more < fewer:
        (more, fewer), worth = (fewer, more), worth[::-1]
    if more > fewer:
        assert worth[0] > worth[1] and worth[0] - worth[1] >= (more - fewer) * least / len(questions) - 1e-9


@laws
@given(talks(shaped() | shaped(st.just(1.0))))
def test_shaping_telescopes_over_the_questions(talk):
    for parts in pay(*talk)[0]:
        assert abs(sum(talk[0].gamma ** t * p.get("shaping", 0) for t, p in enumerate(parts))) < 1e-7


@laws
@given(talks(st.sampled_from([RewardConfig.sparse(), RewardConfig.partial()])))
def test_a_wrong_answer_is_no_worse_than_silence(talk):
    assert sum(map(total, pay(*talk)[0])) >= 0


def test_questions_that_are_not_reached_cost_their_steps():
    config, silent = RewardConfig.shaped(), [TurnFacts()] * 4 + [TurnFacts(done=True)]
    wrong = [TurnFacts(verdict=WRONG, done=True)]
    for reached in range(3):
        paid, _ = pay(config, [(1,)], 5, [wrong] * reached + [silent] * (3 - reached))
        assert sum(total(parts, "step") for parts in paid) == pytest.approx(-config.step_cost / 3)
    meter = RewardMeter(config, [(1,)], (), 5, 3, 2)
    assert meter.if_stopped == pytest.approx(-config.step_cost / 3)


# --- episodes
@pytest.fixture(scope="module")
def db(tmp_path_factory):
    schema = "CREATE TABLE bill (bill_id INTEGER PRIMARY KEY, town TEXT, paid TEXT, euros INT)"
    rows = [(i, "Bonn" if i % 3 else "Kiel", "yes" if i % 4 else "no", i * 10) for i in range(40)]
    return Database(build_database(tmp_path_factory.mktemp("db") / "bills.sqlite", schema, dict(bill=rows)))


@pytest.fixture(scope="module")
def talk(db):
    golds = [(sql, tuple(db.query(sql).rows)) for sql in SQL]
    first, *later = (Question(f"b.{i}", WORDS[i - 1], "bills", *gold) for i, gold in enumerate(golds, 1))
    return first.with_fields(question_id="b", follow_ups=tuple(later))


def begun(talk, db, *queries, **options):
    "An episode in which some queries gave the answers, and what is seen last."
    episode = Episode(talk, db, **options)
    first = episode.reset(seed=0)
    return episode, answered(episode, *queries) or first


def answered(episode, *queries):
    o = None
    for sql in queries:
        episode.step("QUERY", sql)
        o = episode.step("ANSWER", "@last")
    return o


def test_an_answer_shows_the_next_question_and_tells_no_verdict_and_no_gold(talk, db):
    for answer in ("30", "31"):  # right and wrong
        episode, obs = begun(talk, db)
        assert obs.question == WORDS[0] and obs.budget_remaining == 15
        episode.step("DESCRIBE", "bill")
        obs = episode.step("ANSWER", answer)
        assert (obs.done, obs.question, obs.error) == (False, WORDS[1], "")
        assert obs.result == f"The answer was submitted. You have 15 steps again. The next question: {WORDS[1]}"
        assert (obs.step_count, obs.budget_remaining) == (2, 15)
        assert [v.correct for v in episode.turn_verdicts] == [answer == "30"]
        assert episode.verdict is None and not episode.correct
        assert "bill(" in obs.schema_info, "what was learnt stays"
        for seen in (begun(talk, db)[1], obs, episode.step("SAMPLE", "bill")):
            assert "SELECT" not in str(seen) and "count(" not in str(seen)


def test_all_right_is_right_and_each_has_its_verdicts(talk, db):
    for verify in ("value", "robust", "certified"):
        episode, obs = begun(talk, db, *SQL, verify=verify, reward=RewardConfig.partial())
        assert obs.done and obs.result == "The answer was submitted."
        assert episode.correct and episode.grounded and episode.robust
        assert [v.reason for v in episode.turn_verdicts] == ["match"] * 3
        assert [part.judged("robust").correct for part in episode.finished] == [True] * 3
        assert episode.judged("certified").reason == "proved"
        assert 0.9 < episode.total_reward < 1
        assert "episode_over" in episode.step("ANSWER", "1").error


def test_one_wrong_answer_makes_the_whole_wrong(talk, db):
    episode, _ = begun(talk, db, SQL[0], SQL[0], SQL[2])
    assert episode.done and not episode.correct and not episode.robust
    assert [v.correct for v in episode.turn_verdicts] == [True, False, True]
    assert episode.verdict == episode.turn_verdicts[1], "the first that is wrong"
    assert episode.total_reward == pytest.approx(2 / 3)
    assert episode.judged("certified") == episode.verdict and not episode.finished[1].judged("robust").correct


def test_a_lucky_answer_is_not_robust_whatever_came_later(talk, db):
    "Each answer is judged by the queries up to it: the right query of a later turn does not help an earlier one."
    episode, _ = begun(talk, db, "SELECT 30 FROM bill LIMIT 1")
    for sql in SQL[1:]:
        episode.step("QUERY", SQL[0])
        answered(episode, sql)
    assert episode.correct and not episode.robust and not episode.grounded
    assert [part.judged("robust").correct for part in episode.finished] == [False, True, True]


def test_the_last_result_is_of_the_question_at_hand(talk, db):
    "An earlier query does not answer by @last, and what it showed still grounds a value that is written down."
    again = talk.with_fields(follow_ups=(talk.follow_ups[0], talk.conversation[0]))
    episode, _ = begun(again, db, SQL[0])
    assert not episode.has_result and episode.last is None
    refused = episode.step("ANSWER", "@last")
    assert "unreadable_answer" in refused.error and refused.question == WORDS[1]
    answered(episode, SQL[1])
    episode.step("ANSWER", "30")
    assert episode.correct and episode.grounded and episode.robust


def test_who_runs_out_of_steps_has_not_answered_the_rest(talk, db):
    episode, _ = begun(talk, db, SQL[0], budget=3, reward=RewardConfig.shaped())
    for left in (2, 1, 0):
        obs = episode.step("SAMPLE", "bill")
        assert (obs.budget_remaining, obs.question) == (left, WORDS[1])
    assert obs.done and [v.reason for v in episode.turn_verdicts] == ["match", *["no_answer"] * 2]
    assert not episode.correct and episode.verdict.reason == "no_answer"
    assert not episode.grounded and not episode.robust and episode.max_steps == 9
    episode, _ = begun(talk, db, budget=1)
    rows = [db.query(sql).text().split("\n", 1)[1] for sql in SQL]
    done = [episode.step("ANSWER", text).done for text in rows]
    assert done == [False, False, True], "the last step of a budget may answer and the talk goes on"
    assert episode.correct and not episode.grounded


def test_abstaining_works_within_a_turn(talk, db):
    lacking = dict(gold_sql="", gold_answer=(), answerable=False, missing="weight")
    lacks = talk.follow_ups[0].with_fields(question_text="And their weight?", **lacking)
    asking, actions = talk.with_fields(follow_ups=(lacks, talk.follow_ups[1])), [*ACTIONS, *EXTRA_ACTIONS]
    episode, _ = begun(asking, db, actions=actions)
    answered(episode, SQL[0])
    episode.step("DESCRIBE", "bill")
    obs = episode.step("ABSTAIN", "There is no weight.")
    assert (obs.done, obs.question) == (False, WORDS[2])
    assert answered(episode, SQL[2]).done and episode.correct and episode.grounded and episode.robust
    assert [v.reason for v in episode.turn_verdicts] == ["match", "abstained", "match"]
    env = EpisodeEnv(QuestionSet([asking], {"bills": db.path}), actions=actions)
    play_episode(env, OraclePolicy([asking]), env.reset())
    assert env.episode.correct


def test_repeats_are_of_a_question(talk, db):
    episode, _ = begun(talk, db, reward=RewardConfig.shaped())
    answered(episode, SQL[0], SQL[0])
    episode.step("SAMPLE", "bill")
    episode.step("SAMPLE", "bill")
    assert ["repeat" in turn.reward for turn in episode.turns] == [False] * 5 + [True]


def test_an_episode_begins_anew_and_a_single_question_has_one_verdict(talk, db):
    episode, _ = begun(talk, db, *SQL)
    assert episode.reset(seed=0) == begun(talk, db)[1]
    assert episode.turn_verdicts == () and episode.finished == [] and episode.ask.question == talk.conversation[0]
    episode, _ = begun(talk.conversation[0], db)
    assert episode.turn_verdicts == ()
    episode.step("ANSWER", "1")
    assert episode.turn_verdicts == (episode.verdict,) and episode.finished == []


# --- JSON, folders, audits
def write(folder, db, *lines):
    (folder / "bills.sqlite").write_bytes(db.path.read_bytes())
    (folder / "talks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_own_conversations_are_read_with_short_names(tmp_path, db):
    follow_ups = [dict(question=t, sql=s) for t, s in zip(WORDS[1:], SQL[1:])]
    asked = dict(question=WORDS[0], sql=SQL[0], follow_ups=follow_ups)
    qs = load("folder", write(tmp_path, db, PLAIN, asked))
    later = qs[1].follow_ups
    assert [q.question_id for q in qs] == ["bills-0001", "bills-0002"]
    assert [q.question_id for q in later] == ["bills-0002.2", "bills-0002.3"]
    assert [q.gold_answer for q in later] == [((20,),), (("Bonn", 20), ("Kiel", 10))]
    assert evaluate(EpisodeEnv(qs), OraclePolicy(qs), progress=False).success_rate == 1
    assert question_from_fields(json.loads(question_to_json(qs[1]))) == qs[1]
    assert "follow_ups" not in question_to_json(qs[0])


def test_what_is_wrong_with_a_conversation_is_told_with_its_line(tmp_path, db):
    for follow_ups, says in cases("conversations_wrong", list):
        folder = write(tmp_path, db, PLAIN, PLAIN | {"id": "x", "follow_ups": follow_ups})
        with pytest.raises(Exception, match=rf"talks.jsonl, line 2: .*{says}"):
            load("folder", folder)


def test_one_bad_gold_sets_the_conversation_aside_and_an_audit_checks_each_question(tmp_path, db):
    bad = [dict(question="And?", sql=SQL[1]), dict(question="What?", sql="SELECT nothing FROM bill")]
    qs = load("folder", write(tmp_path, db, PLAIN, PLAIN | {"id": "x", "follow_ups": bad}))
    assert len(qs) == 1 and "error" in qs.quarantined[0].flags
    assert qs.quarantined[0].reason("error").startswith("Question 3: ")
    report = audit_questions(qs, progress=False)
    assert "Question 3: " in next(q for q in report.questions if q.follow_ups).reason("error")
    tied = "SELECT bill_id FROM bill ORDER BY paid LIMIT 1"
    asked = dict(question=WORDS[0], sql=SQL[0], follow_ups=[dict(question="One of them?", sql=tied)])
    report = audit_questions(load("folder", write(tmp_path, db, asked)), progress=False)
    [first] = report.questions
    assert "tie_at_limit" in first.flags and "Question 2: " in first.reason("tie_at_limit")
    assert "unanswerable" not in first.flags


# --- published sets
def interactions(*turns):
    return [dict(utterance=f" {t.replace(' ', '  ')} ", query=sql, utterance_toks=t.split()) for t, sql in turns]


@pytest.mark.parametrize("source, stem", [("sparc", "sparc/"), ("cosql", "cosql_dataset/sql_state_tracking/cosql_")])
@pytest.mark.parametrize("beside", [True, False])
def test_published_conversations(tmp_path, db, source, stem, beside):
    files = {split: f"{stem}{split}.json" for split in ("dev", "train")}
    odd = [sql.replace("=", " > = ").replace("(*)", " ( * ) ") + " ;" for sql in SQL]
    whole = interactions(*zip(WORDS, odd))
    rows = [
        dict(database_id="bills", interaction=whole, final=whole[-1]),
        dict(database_id="bills", interaction=whole[:1], final={}),
        dict(database_id="bills", interaction=interactions((WORDS[0], SQL[0]), ("?", "SELECT x")), final={}),
        dict(database_id="lost", interaction=whole, final={}),
    ]
    for split, file in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(json.dumps(rows if split == "dev" else rows[:1]))
    near = (tmp_path / files["dev"]).parent if source == "sparc" else tmp_path / "cosql_dataset"
    spider = near if beside else tmp_path / "elsewhere"
    (spider / "database" / "bills").mkdir(parents=True)
    (spider / "database" / "bills" / "bills.sqlite").write_bytes(db.path.read_bytes())
    (spider / "dev.json").exists() or (spider / "dev.json").write_text("[]")
    options = {} if beside else dict(databases=spider)
    qs = load(source, tmp_path, split="dev", **options)
    assert [len(q.conversation) for q in qs] == [3, 1]
    assert [q.question_text for q in qs[0].conversation] == WORDS
    assert qs[0].question_id == f"{source}-dev-0000"
    assert "Question 2" in qs.quarantined[0].reason("error")
    assert sum(qs.left_out.values()) == 1
    numbers = summary(evaluate(EpisodeEnv(qs), OraclePolicy(qs), progress=False))
    assert (numbers["interaction_match"], numbers["question_match"]) == (1, 1)
    assert len(load(source, tmp_path, **options)) == 3
    (tmp_path / files["dev"]).write_text(json.dumps([dict(database_id="bills", interaction=[])]))
    with pytest.raises(Exception, match=f"{source}-dev-0000 is no conversation"):
        load(source, tmp_path, split="dev", **options)
    with pytest.raises(Exception, match="has no split 'test'"):
        load(source, tmp_path, split="test")


# --- worlds
@pytest.fixture(scope="module")
def made(tmp_path_factory):
    "Twenty worlds of each of some levels and splits."
    which = (1, "train"), (3, "test"), (4, "test_vocabulary"), (5, "train")
    return {(n, split): list(islice(worlds(n, 3, split, kind=ConversationWorld), 12)) for n, split in which}


def all_of(made):
    return [(w, q) for some in made.values() for w in some for q in w.questions]


def test_worlds_are_the_same_for_a_seed_and_conversations_of_two_to_five_questions_of_many_kinds(made):
    one, two = (ConversationWorld(7, level=3) for _ in range(2))
    assert one.questions == two.questions and one.image == two.image
    assert [t.bare for t in one.turns.values()] == [t.bare for t in two.turns.values()]
    assert ConversationWorld(8, level=3).questions != one.questions
    lengths = Counter(len(q.conversation) for _, q in all_of(made))
    assert set(lengths) == {2, 3, 4, 5} and min(lengths.values()) > 15
    kinds = Counter(w.turns[f.question_id].kind for w, q in all_of(made) for f in q.follow_ups)
    assert set(kinds) == set(EDITS) and len(EDITS) >= 5


def test_each_follow_up_needs_the_turns_before_and_no_answer_comes_twice_unless_it_was_undone(made):
    for world, q in all_of(made):
        for turn in q.follow_ups:
            bare = Counter(world.database.query(world.turns[turn.question_id].bare).rows)
            assert bare != Counter(turn.gold_answer), turn.question_id
        answers = [sorted(map(repr, turn.gold_answer)) for turn in q.conversation]
        for i, turn in enumerate(q.conversation):
            if world.turns[turn.question_id].kind == "undo":
                assert answers[i] == answers[i - 2]
            else:
                assert answers[i] not in answers[:i], turn.question_id


def said(text, word):
    return re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)


def test_words_of_a_follow_up_name_nothing_twice(made):
    "Neither the rows, nor a column or a value of a turn before."
    for world, q in all_of(made):
        columns = {c.name: c for t in world.tables.values() for c in t.columns if c.kind != "label"}
        for i, turn in enumerate(q.follow_ups, 1):
            before = " ".join(t.gold_sql for t in q.conversation[:i])
            new = set(re.findall(r"\w+", turn.gold_sql)) - set(re.findall(r"\w+", before))
            for table in world.tables.values():
                if re.search(rf"FROM {table.name}\b", before):
                    assert not said(turn.question_text, table.plural), turn
            for name in set(re.findall(r"\w+", before)) & columns.keys() - new:
                text = columns[name].text
                others = [c.text for key, c in columns.items() if key in new]
                if not any(said(other, text) for other in others):
                    assert not said(turn.question_text, f"the {text}"), turn


def test_splits_share_no_database_and_test_vocabulary_has_words_of_its_own(made):
    forms = load_wordings("conversations")
    assert set(forms) == set(EDITS)
    assert all(len(phrase.forms) > 1 and phrase.unseen for phrase in forms.values())
    texts: dict = {split: set() for _, split in made}
    for (_, split), some in made.items():
        texts[split] |= {f.question_text for w in some for q in w.questions for f in q.follow_ups}
    unseen = {text for phrase in forms.values() for text in phrase.unseen if "{" not in text}
    assert unseen & texts["test_vocabulary"] and not unseen & (texts["train"] | texts["test"])

    names = [{w.name for w in some} for some in made.values()]
    assert not set.intersection(*names)
    for options, says in [(dict(split="dev"), "no split 'dev'"), (dict(level=6), "level 6")]:
        with pytest.raises(Exception, match=says):
            load("conversations", n=1, **options)


def test_gold_is_sound(made, tmp_path):
    "A check of a set that was loaded like anybody's finds nothing that would set a conversation aside."
    some = made[3, "test"]
    qs = QuestionSet([q for w in some for q in w.questions][:25], {w.name: w.save(tmp_path) for w in some})
    flags = Counter(flag for q in audit_questions(qs, progress=False).questions for flag in q.flags)
    bad = {"error", "empty", "order_dependent", "unanswerable", "guessable", "tie_at_limit", "stale"}
    assert not bad & set(flags), flags


@pytest.fixture(scope="module")
def played(made, tmp_path_factory):
    folder, some = tmp_path_factory.mktemp("worlds"), made[1, "train"]
    bare = {key: turn.bare for w in some for key, turn in w.turns.items()}
    return QuestionSet([q for w in some for q in w.questions], {w.name: w.save(folder) for w in some}), bare


def test_who_forgets_is_right_nowhere_after_the_first_question(played):
    qs, bare = played
    oracle = evaluate(EpisodeEnv(qs), OraclePolicy(qs), progress=False)
    assert (oracle.success_rate, oracle.robust_rate, summary(oracle)["question_match"]) == (1, 1, 1)
    forgets = evaluate(EpisodeEnv(qs), forgetful(qs, bare), progress=False, robust=False)
    assert forgets.success_rate == 0
    first, *later = summary(forgets)["match_by_turn"]
    assert first == 1 and set(later) == {0}
    assert max(hack_floor(qs).values()) == 0


# --- logs and reports
def test_figures_logs_and_grading_again(played, tmp_path):
    qs, bare = played
    env = EpisodeEnv(qs, reward=RewardConfig.partial())
    result = evaluate(env, forgetful(qs, bare), 12, log=tmp_path / "a.jsonl", progress=False)
    text = result_texts(result)["conversations"]
    assert "question match" in text and "interaction match 0.0%" in text and "12 conversations" in text
    assert text in results_markdown([result])
    _, found = read_log(tmp_path / "a.jsonl")
    for t in found:
        q = qs.get(t.question_id)
        assert t.turns_correct == (True, *[False] * len(q.follow_ups))
        assert [f["gold_sql"] for f in t.follow_ups] == [f.gold_sql for f in q.follow_ups]
    assert replay_problems(tmp_path / "a.jsonl", qs) == {}
    again = rescore_log(tmp_path / "a.jsonl", qs)
    assert not again.changed and not again.differences
    assert again.trajectories == found


def test_a_single_question_leaves_no_trace_of_conversations(tmp_path):
    qs = load("bundled", split="train").sample(3)
    log = tmp_path / "a.jsonl"
    result = evaluate(EpisodeEnv(qs), ScriptedPolicy([("ANSWER", "1")]), log=log, progress=False)
    text = log.read_text()
    assert "turns_correct" not in text and "follow_ups" not in text
    assert not {"conversations"} & set(result_texts(result)) and "question_match" not in summary(result)
