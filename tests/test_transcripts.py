"""What an agent reads in episodes of all kinds, held to the byte by the files of `data/transcripts`.

A text that has changed on purpose is written anew, and the difference is read before it is committed:

    python tests/test_transcripts.py --write            # all of them
    python tests/test_transcripts.py --write worlds_1   # some of them

A line that begins with | is a line of a text as the agent reads it; `>` is what it does.
"""

import argparse
import difflib
import inspect
import json
import sqlite3
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from sql_env import ChatPolicy, EpisodeEnv, Limits, RewardConfig, Session, load
from sql_env.policies import GreedyPolicy, OraclePolicy, RandomPolicy
from sql_env.policies.requests import Completion, RolloutAborted

FOLDER = Path(__file__).parent / "data" / "transcripts"
KINDS = {}


def transcript(play):
    "Registers a function whose lines are a transcript by its name."
    KINDS[play.__name__] = play
    return play


def quoted(text: str) -> list[str]:
    return [f"|{line}" for line in text.split("\n")]


def observed(seen, before=None) -> list[str]:
    "The fields of an observation that tell something new."
    lines = []
    for name in ("question", "schema_info", "result", "error"):
        text = getattr(seen, name)
        if text != (getattr(before, name) if before and name in ("question", "schema_info") else ""):
            lines += [name, *quoted(text)]
    if before is not None and seen.action_history and seen.action_history != before.action_history:
        lines += [f"action_history, entry {len(seen.action_history)}", *quoted(seen.action_history[-1])]
    end = ", done" if seen.done else ""
    return [*lines, f"steps {seen.step_count}, {seen.budget_remaining} left, reward {seen.reward!r}{end}", ""]


def played(env, question_id: str, moves, seed: int = 0, title: str = "") -> list[str]:
    "An episode of the moves, each a verb and an argument, or of a policy."
    seen = env.reset(question_id=question_id, seed=seed)
    lines = [f"## {title or question_id}", "", *observed(seen)]
    moves, policy = ([*moves], None) if isinstance(moves, list) else ([], moves)
    if hasattr(policy, "reset"):
        policy.reset(seed)
    while moves or (policy and not seen.done):
        verb, argument = policy.select_action(seen) if policy else moves.pop(0)
        before, seen = seen, env.step(verb, argument)
        did = f"{argument!a}"
        did = did if len(did) <= 400 else f"{did[:200]}... ({len(did)} characters)"
        lines += [f"> {verb} {did}", *observed(seen, before)]
    lines += ["action_history at the end"]
    return [*lines, *(part for entry in seen.action_history for part in quoted(entry)), ""]


def messages_text(messages) -> list[str]:
    "Messages as they are sent: their fields as JSON, and their words."
    lines = []
    for message in messages:
        rest = {name: value for name, value in message.items() if name != "content"}
        lines += [json.dumps(rest, ensure_ascii=False), *quoted(str(message.get("content"))), ""]
    return lines


def as_json(value) -> list[str]:
    return json.dumps(value, indent=1, ensure_ascii=False).split("\n")


@cache
def bundled():
    return load("bundled")


ODD_SCHEMA = """
CREATE TABLE thing (id INTEGER PRIMARY KEY, label TEXT, weight REAL, picture BLOB, note TEXT, "made on" DATE);
CREATE TABLE "order" ("from" TEXT, "it's" TEXT, "x.y" INT, "select" INT REFERENCES thing(id),
    PRIMARY KEY ("from", "x.y"));
CREATE TABLE many (id INTEGER PRIMARY KEY, word TEXT, n INT);
CREATE TABLE empty (a, b TEXT NOT NULL DEFAULT 'none', UNIQUE (a, b));
CREATE TABLE "Grüße" (wort TEXT COLLATE NOCASE, menge NUMERIC CHECK (menge >= 0));
CREATE VIEW heavy AS SELECT label, weight FROM thing WHERE weight > 1;
"""
ODD_QUESTIONS = [
    dict(question="How many things are there?", sql="SELECT count(*) FROM thing", question_id="odd-1"),
    dict(question="List all labels.", sql="SELECT label FROM thing WHERE label > ''", question_id="odd-2"),
    dict(question="Which words of 'many' come first?", sql="SELECT word, n FROM many WHERE n < 3", question_id="odd-3"),
    dict(
        question="How many words are there? <|im_end|>",
        sql="SELECT count(*) FROM many",
        question_id="odd-4",
        follow_ups=[
            dict(question="And of those with n = 1?", sql="SELECT count(*) FROM many WHERE n = 1"),
            dict(question="Name two of them.", sql="SELECT word FROM many WHERE n = 1 AND id < 20"),
        ],
    ),
    dict(question="Which words have an n above 5?", sql="SELECT word FROM many WHERE n > 5", question_id="odd-5"),
]


@cache
def odd(**limits):
    "Questions on a database with odd names and values."
    folder = Path(tempfile.mkdtemp()) / "odd"
    folder.mkdir()
    con = sqlite3.connect(folder / "odd.sqlite")
    con.executescript(ODD_SCHEMA)
    things = [
        (1, "plain", 1.5, b"\x00\xff\x10", "a note", "2024-01-02"),
        (2, None, None, None, None, None),
        (3, "", 0.1 + 0.2, b"", "two\nlines and\ta tab", "2024-02-30"),
        (4, "it's | a bar", 1e300, bytes(range(64)), "long " * 400, "yesterday"),
        (5, "<|im_start|>system", -0.0, b"<tool_call>", "[INST] obey [/INST] \x1b[31m\x00 end", ""),
        (6, "NULL", float("inf"), None, "Ünïcödé 😀 \u202e x", "2024-01-02"),
        (7, "12", 123456789012345680.0, b"x", "12", 20240102),
    ]
    con.executemany("INSERT INTO thing VALUES (?, ?, ?, ?, ?, ?)", things)
    con.executemany('INSERT INTO "order" VALUES (?, ?, ?, ?)', [("a", "b", i, i) for i in range(1, 8)])
    words = [(i, f"word {i} " + "abc" * (i % 40), i % 7) for i in range(1, 3001)]
    con.executemany("INSERT INTO many VALUES (?, ?, ?)", words)
    con.execute('INSERT INTO "Grüße" VALUES (?, ?)', ("Käse", 3))
    con.execute("INSERT INTO \"Grüße\" VALUES (CAST(x'ff41' AS TEXT), 4)")
    con.commit()
    con.close()
    lines = [json.dumps(row | dict(database="odd", split="train")) for row in ODD_QUESTIONS]
    (folder / "questions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return load("folder", path=folder, limits=Limits(**limits) if limits else None)


@transcript
def bundled_easy_none():
    "The level that shows nothing; SAMPLE by two seeds; names in other cases and in quotes."
    env = EpisodeEnv(bundled(), schema_level="none")
    moves = [("DESCRIBE", "visit"), ("SAMPLE", "VISIT"), ("SAMPLE", '"owner"'), ("DESCRIBE", "visits")]
    moves += [("QUERY", "SELECT count(*) FROM visit WHERE paid_on IS NULL"), ("ANSWER", "44")]
    again = [("sample", "[visit]"), ("query", "SELECT nam FROM ownr"), ("answer", "wrong")]
    return played(env, "vet_clinic-02", moves) + played(env, "vet_clinic-02", again, seed=7, title="another seed")


@transcript
def bundled_medium_names():
    "The usual settings; the reward with costs and shaping."
    q = bundled().get("vet_clinic-12")
    moves = [("DESCRIBE", "animal"), ("DESCRIBE", "code_list"), ("SAMPLE", "animal"), ("QUERY", "SELECT * FROM animal")]
    moves += [("QUERY", "SELECT * FROM animal"), ("QUERY", q.gold_sql), ("ANSWER", "@last")]
    return played(EpisodeEnv(bundled(), reward="shaped"), q.question_id, moves)


@transcript
def bundled_hard_columns():
    "Names of columns at the start; a table as the answer, part of it right."
    q = bundled().get("research_vessel-29")
    moves = [("DESCRIBE", "leg"), ("QUERY", q.gold_sql), ("ANSWER", "Nowhere | 3\nAnywhere | 4")]
    return played(EpisodeEnv(bundled(), schema_level="columns", reward="partial"), q.question_id, moves)


@transcript
def bundled_full():
    "Types, keys and row counts at the start, of three databases."
    lines = []
    for question_id in ("hospital_ward-01", "film_festival-01", "regional_railway-01"):
        q = bundled().get(question_id)
        moves = [("DESCRIBE", q.tables_involved[0]), ("QUERY", q.gold_sql), ("ANSWER", "@last")]
        lines += played(EpisodeEnv(bundled(), schema_level="full"), question_id, moves)
    return lines


@transcript
def policies():
    "What the baselines see, by seeds."
    lines = []
    for policy in (RandomPolicy(3), GreedyPolicy(), OraclePolicy(bundled())):
        for question_id in ("football_league-03", "museum_loans-20"):
            title = f"{policy.name} on {question_id}"
            lines += played(EpisodeEnv(bundled(), budget=8), question_id, policy, 5, title)
    return lines


NAMES = """
SELECT nmae FROM animal
SELECT animal.nam, owner.twn FROM animal JOIN owner
SELECT * FROM anmial
SELECT a.x FROM animal AS a
SELECT name FROM animal JOIN owner
SELECT count(*) FROM Visits JOIN nowhere
SELECT zzzzzz FROM visit
SELECT lenght(name) FROM animal
SELECT substr(name) FROM animal
SELECT median(fee_eur) FROM visit
SELECT "nmae" FROM animal
SELECT main.anmial.name FROM animal
SELECT other.animal.name FROM other.animal
SELECT name FROM animal WHERE count(*) > 1
SELECT name FROM animal ORDER BY 3
SELECT name FROM animal UNION SELECT name, born FROM animal
"""


@transcript
def errors_of_names():
    "Unknown tables, columns and functions, with near names, on two levels."
    moves = [("QUERY", sql) for sql in NAMES.strip().split("\n")]
    moves += [
        (verb, name) for verb in ("DESCRIBE", "SAMPLE") for name in ("anmial", "xyz", "animal; owner", "main.animal")
    ]
    lines = played(EpisodeEnv(bundled(), budget=40), "vet_clinic-01", moves, title="names")
    few = [move for move in moves if move[0] == "DESCRIBE"] + moves[:4]
    return lines + played(EpisodeEnv(bundled(), schema_level="none"), "vet_clinic-01", few, title="none")


STATEMENTS = """
SELEC 1
SELECT FROM animal
SELECT name FROM animal WHERE (
SELECT 'it's' FROM animal
DELETE FROM animal
UPDATE animal SET name = 'x'
INSERT INTO animal VALUES (1)
WITH x AS (SELECT 1) DELETE FROM animal
DROP TABLE animal
CREATE TABLE x (a)
PRAGMA table_info(animal)
ATTACH 'x.db' AS x
EXPLAIN SELECT 1
BEGIN
VACUUM
SELECT 1; SELECT 2
SELECT 1; -- an end
SELECT 1;;
-- nothing else
/* open
SELECT * FROM sqlite_master
SELECT * FROM sqlite_schema
SELECT * FROM sqlite_temp_master
SELECT * FROM pragma_table_list
SELECT * FROM pragma_table_info('animal')
SELECT * FROM dbstat
SELECT * FROM json_each('[1]')
SELECT load_extension('x')
SELECT random()
SELECT randomblob(4)
SELECT readfile('/etc/passwd')
SELECT sqlite_version()
SELECT datetime('now')
SELECT datetime('now', 'localtime')
SELECT date('2024-01-01', 'utc')
SELECT ?
SELECT :name
SELECT abs(-9223372036854775808)
SELECT 9223372036854775807 + 1
SELECT 1 / 0, NULL || 'a', 7 / 2, 1e308 * 10
SELECT json('{')
"""


@transcript
def errors_of_statements():
    "Syntax, forbidden statements, doors to the catalog, several statements, values that are none."
    moves = [("QUERY", sql) for sql in STATEMENTS.strip().split("\n")]
    return played(EpisodeEnv(bundled(), budget=60), "vet_clinic-01", moves)


@transcript
def errors_of_limits():
    "What is too long, too deep, too large, or takes too many operations."
    count = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {}) SELECT {} FROM t"
    texts = [
        "SELECT '" + "x" * 5000 + "'",
        "SELECT " + "(" * 60 + "1" + ")" * 60,
        "SELECT " + "+".join("1" * 60),
        " UNION ALL ".join(["SELECT 1"] * 30),
        " UNION ALL ".join(["SELECT 1"] * 15),
        "SELECT " + ", ".join(["1"] * 250),
        "SELECT " + ", ".join(["*"] * 60) + " FROM many",
        count.format(10**9, "count(*)"),
        count.format(50_000, "n"),
        count.format(3_000, "hex(n) || printf('%.2000c', 'x')"),
        "SELECT printf('%.*c', 30000, 'x')",
        "SELECT group_concat(word) FROM many",
        'SELECT wort FROM "Grüße"',
        'SELECT hex(wort), menge FROM "Grüße"',
        "SELECT a.id FROM many a, many b, many c WHERE a.n + b.n + c.n < 0",
        "SELECT 'a\0b'",
        "SELECT '\ud800'",
    ]
    lines = played(EpisodeEnv(odd(), budget=40), "odd-1", [("QUERY", text) for text in texts], title="usual limits")
    small = odd(rows=50, text=2000, cells=100, operations=20_000, cell=1000)
    moves = [("QUERY", "SELECT id FROM many"), ("ANSWER", "@last"), ("ANSWER", " @LAST ")]
    moves += [("QUERY", "SELECT word FROM many WHERE n = 1")]
    moves += [("QUERY", "SELECT id, n, n FROM many"), ("QUERY", "SELECT count(*) FROM many a, many b"), ("ANSWER", "7")]
    return lines + played(EpisodeEnv(small), "odd-1", moves, title="small limits")


@transcript
def errors_of_actions():
    "Unknown actions, empty, long and wrong arguments, repeats; after the end, and before the beginning."
    env = EpisodeEnv(bundled(), budget=40, reward="shaped")
    fresh = env.step("QUERY", "SELECT 1")
    lines = ["## before reset", "", *observed(fresh)]
    moves = [(verb, "") for verb in ("DESCRIBE", "SAMPLE", "QUERY", "ANSWER")]
    moves += [
        ("DESCRIBE", "   "),
        ("LOOK", "animal"),
        ("", ""),
        ("SELECT name FROM animal", ""),
        (" query ", "SELECT 1"),
    ]
    moves += [("EXECUTE", "DELETE FROM animal"), ("ABSTAIN", "no"), (None, "x"), ("QUERY", None), ("QUERY", 7)]
    moves += [("DESCRIBE", ["animal"]), ("ANSWER", 44), ("SAMPLE", "\ud800"), ("<|im_end|>", "<|im_start|>")]
    moves += [("DESCRIBE", "animal"), ("DESCRIBE", "ANIMAL"), ("DESCRIBE", "animal "), ("SAMPLE", "animal")]
    moves += [("SAMPLE", "animal"), ("QUERY", "SELECT 1"), ("QUERY", "select  1"), ("QUERY", "x" * 700)]
    moves += [("ANSWER", "@last"), ("QUERY", "SELECT 1"), ("ANSWER", "44")]
    return lines + played(env, "vet_clinic-02", moves)


@transcript
def budget_spent():
    "Few steps, the last of them used for a look; and an answer with the last step."
    looks = [("DESCRIBE", "animal"), ("QUERY", "SELECT nam FROM animal"), ("SAMPLE", "owner"), ("ANSWER", "1")]
    env = EpisodeEnv(bundled(), budget=3, reward=RewardConfig.shaped())
    return (
        played(env, "vet_clinic-01", looks, title="no answer")
        + played(env, "vet_clinic-02", [*looks[:2], ("ANSWER", "44")], title="the last step")
        + played(
            EpisodeEnv(bundled(), budget=1), "vet_clinic-02", [("ANSWER", "?")], title="one step, unreadable or not"
        )
        + played(
            EpisodeEnv(bundled(), budget=34),
            "vet_clinic-02",
            [("QUERY", f"SELECT {i}") for i in range(34)],
            title="long",
        )
    )


@transcript
def truncated_results():
    "Many rows, wide rows, long texts, and results without a row."
    moves = [
        ("QUERY", "SELECT id FROM many WHERE id <= 20"),
        ("QUERY", "SELECT id FROM many WHERE id <= 21"),
        ("QUERY", "SELECT id, word FROM many"),
        ("QUERY", "SELECT * FROM many WHERE 0"),
        ("QUERY", "SELECT * FROM empty"),
        ("SAMPLE", "many"),
        ("SAMPLE", "empty"),
        ("SAMPLE", "heavy"),
        ("DESCRIBE", "heavy"),
        ("DESCRIBE", "empty"),
        ("QUERY", "SELECT " + ", ".join(f"word AS w{i}" for i in range(40)) + " FROM many"),
        ("QUERY", "SELECT note FROM thing"),
        ("QUERY", "SELECT 1 AS a, 2 AS a, 3, 3, count(*), '' FROM thing"),
        ("QUERY", "VALUES (1, 'a'), (2, NULL)"),
        ("ANSWER", "@last"),
    ]
    return played(EpisodeEnv(odd(), budget=20), "odd-3", moves)


@transcript
def values():
    "NULL, blobs, numbers, odd texts and names, on all levels."
    moves = [("DESCRIBE", name) for name in ("thing", "order", '"order"', "`order`", "Grüße", "[many]")]
    moves += [("SAMPLE", "thing"), ("SAMPLE", "order"), ("QUERY", "SELECT * FROM thing")]
    moves += [("QUERY", 'SELECT "from", "it\'s", "x.y" FROM "order"'), ("QUERY", "SELECT from FROM order")]
    moves += [("QUERY", "SELECT weight, typeof(weight), round(weight, 2), weight * 3 FROM thing")]
    moves += [("QUERY", "SELECT 1e16, 1e15, 0.1 + 0.2, 100.0, -0.0, 1e-7, 2e400, 9007199254740993, x'00ff', ''")]
    moves += [
        ("QUERY", "SELECT '<|im_end|>' AS \"<think>\", '</tool_call>', '[INST]', 'a¦b', 'a | b'"),
        ("ANSWER", "7"),
    ]
    lines = played(EpisodeEnv(odd(), budget=30), "odd-1", moves, title="names")
    for level in ("none", "columns", "full"):
        lines += played(EpisodeEnv(odd(), schema_level=level), "odd-1", moves[:2], title=level)
    return lines


TOLD = ["@last", "I think it is 7, or maybe 8.", "SELECT count(*) FROM thing", "between 6 and 8", "seven things"]
TOLD += ["The answer depends on what is meant.", "7 or 8", "not 7", '{"a": 1, "b": [1, {"c": 2}]}', "[[1, 2], 3]"]
TOLD += ["I don't know", "about 7", "| a | b |\n|---|\n| 1 |", "```\n7\n```\n8", "7\n8 | 9", "x" * 20_500]


@transcript
def answers_told_back():
    "Answers that can't be read beyond doubt; the episode goes on after them if they are told."
    lines = []
    for text in TOLD:
        title = text[:40].encode("unicode_escape").decode()
        env = EpisodeEnv(odd(), reward="shaped")
        lines += played(env, "odd-1", [("QUERY", "SELECT 1, 2"), ("ANSWER", text)], title=title)
    return lines


ANSWERS = {
    "odd-1": ["7", "7.0", " 7 ", "**7**", "7 things", "NULL", "[]", "[7]", '{"answer": 7}', "1,007", "8"],
    "odd-2": ["plain, NULL, 12", "NULL\n12\nplain\nit's | a bar\n<|im_start|>system", '["plain", "NULL"]', "@last"],
    "odd-3": [
        '[["word 1 abc", 1]]',
        "word | n\nword 1 abc | 1",
        "| word | n |\n|---|---|\n| word 1 abc | 1 |",
        "@LAST",
    ],
}


@transcript
def answers_taken():
    "Values, lists, tables and JSON, each the first answer of an episode after a query."
    lines = []
    for question_id, texts in ANSWERS.items():
        look = ("QUERY", odd().get(question_id).gold_sql)
        for text in texts:
            title = f"{question_id}: {text}".encode("unicode_escape").decode()
            lines += played(EpisodeEnv(odd()), question_id, [look, ("ANSWER", text)], title=title)
    return lines


@transcript
def abstain():
    "The action that ends an episode without an answer."
    env = EpisodeEnv(bundled(), actions="abstain", reward="partial")
    session = Session(env)
    lines = messages_text(session.begin("vet_clinic-02")) + as_json(session.tools)
    moves = [("DESCRIBE", "visit"), ("ABSTAIN", "There is no column for payments.")]
    return (
        lines + played(env, "vet_clinic-02", moves) + played(env, "vet_clinic-02", [("abstain", "")], title="no reason")
    )


@transcript
def conversation():
    "A question with two follow-ups: right and wrong answers, an answer that is told, a spent budget."
    moves = [("DESCRIBE", "many"), ("QUERY", "SELECT count(*) FROM many"), ("ANSWER", "@last"), ("ANSWER", "@last")]
    moves += [("QUERY", "SELECT count(*) FROM many WHERE n = 1"), ("ANSWER", "1"), ("DESCRIBE", "thing")]
    moves += [("QUERY", "SELECT word FROM many WHERE n = 1 AND id < 20"), ("ANSWER", "@last"), ("ANSWER", "x")]
    env = EpisodeEnv(odd(), budget=6, reward="shaped")
    spent = [("ANSWER", "3000"), *[("SAMPLE", "many")] * 7]
    session = Session(env)
    lines = played(env, "odd-4", moves) + played(env, "odd-4", spent, title="the budget is spent")
    lines += ["## as a chat", "", *messages_text(session.begin("odd-4"))]
    for sql in ("SELECT count(*) FROM many", "SELECT count(*) FROM many WHERE n = 1"):
        session.call("query", dict(sql=sql))
        session.call("answer", dict(value="@last"))
    return lines + messages_text(session.messages[2:])


BAD_CHANGES = """
UPDATE animal SET died = 'x' WHERE animal_id = -1
DELETE FROM owner
UPDATE nowhere SET a = 1
UPDATE animal SET dyed = 1
SELECT * FROM animal
DROP TABLE animal
INSERT INTO animal (animal_id, name) VALUES (1, 'x')
UPDATE animal SET animal_id = NULL
UPDATE animal SET died = random()
UPDATE animal SET died = '2024-06-30' WHERE name = 'Coco'; UPDATE owner SET name = 'x'
UPDATE animal SET died =
BEGIN; COMMIT
DELETE FROM animal
CREATE TABLE x (a)
ATTACH 'x' AS y
"""


@transcript
def task():
    "Rows are changed: refused statements, changes, looks at what was changed, the end."
    tasks = load("bundled_tasks")
    q, other = tasks.get("vet_clinic-t01"), tasks.get("farm_coop-t01")
    env = EpisodeEnv(tasks, actions="execute", budget=40, reward="shaped")
    session = Session(env)
    lines = messages_text(session.begin(q.question_id)) + as_json(session.tools)
    moves = [("DESCRIBE", "animal"), ("EXECUTE", ""), *(("EXECUTE", sql) for sql in BAD_CHANGES.strip().split("\n"))]
    moves += [("EXECUTE", sql) for sql in (*q.gold_statements, *q.gold_statements)]
    moves += [("QUERY", "SELECT name, died FROM animal WHERE died > '2024-06'"), ("DESCRIBE", "animal")]
    moves += [("ANSWER", "done"), ("EXECUTE", "DELETE FROM animal")]
    lines += played(env, q.question_id, moves)
    moves = [
        ("EXECUTE", ";\n".join(other.gold_statements)),
        ("QUERY", "SELECT count(*) FROM member"),
        ("DESCRIBE", "member"),
        ("SAMPLE", "member"),
        ("ANSWER", "@last"),
    ]
    lines += played(env, other.question_id, moves)
    few = [("EXECUTE", "DELETE FROM docket; DELETE FROM field"), ("EXECUTE", "INSERT INTO payout SELECT * FROM payout")]
    return lines + played(EpisodeEnv(tasks, actions="execute", budget=2), other.question_id, few, title="no answer")


def of_worlds(source: str, n: int = 3, seed: int = 4, **options) -> list[str]:
    "Episodes of generated questions; what is drawn may change with the families there are."
    questions = load(source, n=n, seed=seed, **options)
    actions = "execute" if any(q.writes for q in questions) else ""
    env, lines = EpisodeEnv(questions, actions=actions), []
    for q in questions:
        lines += played(env, q.question_id, OraclePolicy([q]), 1)
    return lines


@transcript
def worlds_1():
    return of_worlds("worlds", level=1)


@transcript
def worlds_3():
    return of_worlds("worlds", level=3)


@transcript
def worlds_tasks():
    return of_worlds("tasks", level=1, seed=8)  # several statements, one, and a task with nothing to be done


@transcript
def worlds_conversations():
    return of_worlds("conversations", level=2, n=2)


def call(name, arguments, **more):
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return dict(type="function", function=dict(name=name, arguments=arguments), **more)


REPLIES = [
    "Let me think about it.",
    dict(
        content="<think>tables</think> I look. <|im_end|>",
        tool_calls=[call("describe", dict(table_name="visit"), id="a1")],
    ),
    dict(content=None, tool_calls=[call("functions.QUERY", dict(sql="SELECT nam FROM animal")), call("look", {})]),
    dict(content="", tool_calls=[call("query", "{"), call("query", dict(q="SELECT 1")), call("query", "[]"), "?"]),
    dict(
        content="",
        tool_calls=[call("sample", json.dumps('{"table_name": "animal"}')), call("describe", dict(table_name=7))],
    ),
    dict(
        content="",
        tool_calls=[call("query", dict(sql="SELECT * FROM visit")), call("query", dict(sql="SELECT * FROM visit"))],
    ),
    dict(
        content="",
        tool_calls=[
            call("answer", dict(value="I think 40 or 44")),
            call("answer", dict(value="44")),
            call("query", {}),
        ],
    ),
]


@transcript
def chat():
    "A session: system prompts, tools, messages, nudges, malformed, late and refused calls, the last steps."
    lines = []
    for actions in ("", "abstain,execute"):
        session = Session(EpisodeEnv(bundled(), actions=actions))
        lines += [f"## tools {actions}", "", *as_json(session.tools), *messages_text(session.begin("vet_clinic-02"))]
    for level in ("none", "columns", "full"):
        session = Session(EpisodeEnv(bundled(), schema_level=level))
        lines += [f"## level {level}", "", *messages_text(session.begin("furniture_workshop-05"))]
    session = Session(EpisodeEnv(bundled(), budget=9))
    session.begin("vet_clinic-02", seed=2)
    for reply in REPLIES:
        session.reply(reply)
    late = session.reply(dict(tool_calls=[call("query", dict(sql="SELECT 1"), id="late")]))
    lines += ["## an episode", "", *messages_text(session.messages[2:]), "## late", "", *messages_text(late)]
    silent = Session(EpisodeEnv(bundled()), max_nudges=2)
    silent.begin("vet_clinic-02")
    for cut in (False, True, False):
        silent.reply("The answer is 44.", truncated=cut)
    lines += ["## without a call", "", *messages_text(silent.messages[2:]), *quoted(silent.conversation.given_up)]
    tools = Session(EpisodeEnv(bundled()), max_chars=120)
    tools.begin("vet_clinic-02")
    calls = [
        ("query", dict(sql="SELECT * FROM animal")),
        ("answer", dict(value="40 or 44")),
        ("describe", "{"),
        ("fly", {}),
    ]
    lines += ["## calls", ""]
    for name, arguments in [*calls, ("describe", {}), ("answer", dict(value=44)), ("query", dict(sql="SELECT 1"))]:
        lines += [f"> {name} {arguments}", *quoted(tools.call(name, arguments))]
    return lines


class ScriptedModel:
    "A backend that says what stands in a list, and keeps what it was sent."

    name, settings = "scripted", {"model": "scripted"}

    def __init__(self, replies):
        self.replies, self.sent = list(replies), []

    def complete(self, messages, tools, seed):
        self.sent.append((list(messages), tools))
        reply = self.replies[min(len(self.sent), len(self.replies)) - 1]
        return Completion(reply if isinstance(reply, dict) else dict(role="assistant", content=reply))


@transcript
def chat_policy():
    "What is sent to a model: examples, tools, nudges, its own words; and one that never calls a tool."
    lines = []
    for title, replies, options in (
        ("two examples", REPLIES, dict(shots=2, nudges=5)),
        ("no call", ["44", "The answer is 44."], dict(nudges=2)),
        ("own prompt, short results", REPLIES[1:], dict(system="Play.", max_chars=100, keep_reasoning=False)),
    ):
        questions = bundled().split("test")
        question_id = next(q.question_id for q in questions)
        model = ScriptedModel(replies)
        policy, env = ChatPolicy(model, **options), EpisodeEnv(questions, budget=6)
        policy.check_questions(questions)
        policy.reset(1)
        seen = env.reset(question_id=question_id)
        try:
            while not seen.done:
                seen = env.step(*policy.select_action(seen))
            end = "done"
        except RolloutAborted as e:
            end = str(e)
        messages, tools = model.sent[-1]
        lines += [f"## {title}", "", *messages_text(messages), *as_json(tools if title == "no call" else []), end, ""]
    return lines


@transcript
def trl():
    "Descriptions of the tools, rows of prompts, what reset shows, results and errors."
    from sql_env.integrations.trl import SQLEnvTRL, prompt_rows

    lines, names = [], ("describe", "sample", "query", "answer", "execute", "abstain")
    whole = SQLEnvTRL(bundled(), actions="execute,abstain")
    for name in names:
        tool = getattr(whole, name)
        lines += [f"## {name}{inspect.signature(tool)}", "", *quoted(inspect.getdoc(tool)), ""]
    chosen = [q for q in bundled() if q.question_id in ("vet_clinic-02", "farm_coop-10")]
    lines += as_json(prompt_rows(chosen)) + as_json(prompt_rows(load("bundled_tasks")[:1], actions="execute"))
    env = SQLEnvTRL(bundled(), max_chars=300, budget=8)
    lines += ["## an episode", "", *quoted(env.reset(**prompt_rows(chosen)[-1]))]
    calls = [
        ("describe", "visit"),
        ("sample", "visit"),
        ("query", "SELECT * FROM vist"),
        ("query", "SELECT * FROM visit"),
    ]
    calls += [
        ("answer", "44 or 45"),
        ("query", "SELECT count(*) FROM visit WHERE paid_on IS NULL"),
        ("answer", "@last"),
    ]
    for name, argument in [*calls, ("query", "SELECT 1")]:
        lines.append(f"> {name} {argument}")
        try:
            lines += quoted(getattr(env, name)(argument))
        except ValueError as e:
            lines += [type(e).__name__, *quoted(str(e))]
    group = SQLEnvTRL(bundled().split("test"), group=2)
    return [*lines, f"reward {env.get_reward()!r}", "## without a data set", "", *quoted(group.reset())]


@transcript
def server():
    "The JSON of a server's environment: what actions it takes, observations, states, tasks; with and without verdicts."
    from sql_env.models import SQLAction, SQLObservation
    from sql_env.server import SQLEnvironment

    lines = ["## schemas", "", *as_json(SQLAction.model_json_schema()), *as_json(SQLObservation.model_json_schema())]
    moves = [
        ("DESCRIBE", "visit"),
        ("QUERY", "SELECT * FROM vist"),
        ("LOOK", "x"),
        ("ANSWER", "40 or 44"),
        ("ANSWER", "44"),
    ]
    for reveal in ("verdict", "none"):
        env = SQLEnvironment(bundled(), step_budget=9, reveal=reveal, reward="shaped")
        lines += [f"## reveal {reveal}", ""]
        seen = env.reset(question_id="vet_clinic-02", episode_id="e1", seed=3)
        lines += as_json(seen.model_dump(mode="json"))
        for verb, argument in [*moves, ("QUERY", "SELECT 1")]:
            seen = env.step(SQLAction(action_type=verb, argument=argument))
            lines += [f"> {verb} {argument}", *as_json(seen.model_dump(mode="json"))]
        lines += as_json(env.state.model_dump(mode="json"))
    lines += ["## tasks", "", *as_json(env.get_task("test", 3)), "## wrong resets", ""]
    for wrong in (dict(question_id="x-1"), dict(split="x"), dict(index=10**6), dict(colour=1), dict(seed="x")):
        with pytest.raises((ValueError, LookupError)) as refused:
            env.reset(**wrong)
        lines += quoted(str(refused.value))
    return lines


def text_of(name: str) -> str:
    return "\n".join([f"# {name}: {KINDS[name].__doc__ or ''}".rstrip(" :"), "", *KINDS[name]()]).rstrip("\n") + "\n"


def file_of(name: str) -> Path:
    return FOLDER / f"{name}.txt"


@pytest.mark.parametrize("name", KINDS)
def test_agents_read_what_they_read_before(name):
    kept, made = file_of(name).read_bytes().decode(), text_of(name)
    if kept == made:
        return
    differ = difflib.unified_diff(kept.split("\n"), made.split("\n"), "kept", "now", lineterm="", n=2)
    shown = "\n".join(line for line, _ in zip(differ, range(60)))
    todo = f"if that is meant: python tests/test_transcripts.py --write {name}"
    pytest.fail(f"{name}: the text that an agent reads has changed; {todo}\n{shown}", pytrace=False)


def test_no_transcript_is_left_over():
    assert {p.stem for p in FOLDER.iterdir()} == set(KINDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", nargs="*", metavar="NAME", required=True, choices=[*KINDS, []])
    names = parser.parse_args().write or list(KINDS)
    FOLDER.mkdir(exist_ok=True)
    for name in names:
        made, path = text_of(name).encode(), file_of(name)
        state = "the same" if path.is_file() and path.read_bytes() == made else "written"
        path.write_bytes(made)
        print(f"{name}: {len(made):,} bytes, {state}")
    for path in set(FOLDER.iterdir()) - set(map(file_of, KINDS)):
        path.unlink()


if __name__ == "__main__":
    sys.exit(main())
