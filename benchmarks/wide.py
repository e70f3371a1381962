"""Measure wide worlds and worlds with a manual: `python benchmarks/wide.py [--out benchmarks/wide.json]`.

Wide: three players know the query of each question in the words of its branch, and not which tables are in use. One
reads the document and infers them; a hack searches for the branch and a table and takes the first that a regular
expression finds there, as one in use if anything says so; the last picks by name. Manual: the oracle, and two hacks
that know the query but for the value of the rule: they search for the question and take the value of the first rule
in force, or of the one whose dates hold that of the question; one without documents guesses.
Times are medians of processor time, of databases and processes that have not seen the question before.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path

from sql_env.database.database import Database
from sql_env.evaluation.harness import evaluate, hack_floor
from sql_env.grading.variants.selection import VARIANT_STORE, instance_generator
from sql_env.play.acts import ACTIONS, Action
from sql_env.play.episode import Episode, EpisodeEnv
from sql_env.policies import OraclePolicy
from sql_env.policies.baselines import answer_from_result, parse_schema_info
from sql_env.questions.question_set import save_question_set
from sql_env.sources.loading import load
from sql_env.worlds import ManualWorld, world_set, worlds
from sql_env.worlds.search import WideWorld, rename_words
from sql_env.worlds.world import _collect_questions

ALLOWED = (*ACTIONS, "SEARCH")
IN_USE = re.compile(r"[Ii]n use\b|use `(\w+)`|kept in `(\w+)`|`(\w+)` has been in use")


class Wide:
    "What both players know: of each question the branch, the words of its tables, and the query in those words."

    def __init__(self, some):
        self.known = {}
        for w in some:
            for q, (branch, i) in zip(w.questions, w.drafts):
                asked = branch.world.questions[i]
                used = [a.table for a in branch.tables if a.name.lower() in q.tables_involved]
                self.known[q.question_text] = branch, asked.gold_sql, used

    def query(self, obs, names):
        _, sql, _ = self.known[obs.question]
        return Action("QUERY", rename_words(sql, names))


class Searcher(Wide):
    "SEARCHes for each table of the question, takes the first found that is said to be in use, or the first of all."

    name = "search"

    def reset(self, seed):
        self.names = {}

    def select_action(self, obs):
        branch, _, used = self.known[obs.question]
        if obs.step_count and obs.action_history[-1].startswith("SEARCH"):
            self.read(obs.result, branch.code, used[obs.step_count - 1])
        if obs.step_count < len(used):
            return Action("SEARCH", f"{branch.site}: {used[obs.step_count].plural} in use")
        if obs.step_count == len(used):
            return self.query(obs, self.names)
        return Action("ANSWER", "0" if obs.error else answer_from_result(obs.result))

    def read(self, found, code, table):
        lines = [line for line in found.split("\n") if f"{code}_" in line and table.name in line]
        lines.sort(key=lambda line: not IN_USE.search(line))
        named = re.findall(rf"\w*{code}_\w*", " ".join(lines))
        self.names[table.name] = named[0] if named else f"{code}_{table.name}"


CLUES = dict(
    runs="SELECT table_name FROM job_runs WHERE outcome = 'ok' AND table_name IN ({0}) ORDER BY ended DESC LIMIT 1",
    moves="SELECT new_table FROM moves WHERE new_table IN ({0}) AND new_table NOT IN (SELECT old_table FROM moves)",
)


class Reader(Wide):
    "Reads how the tables of the branch are known, and finds out by one query for each that it needs."

    name = "reader"

    def reset(self, seed):
        self.names = {}

    def select_action(self, obs):
        branch, _, used = self.known[obs.question]
        if obs.step_count > 1 and len(self.names) < len(used):
            self.names[used[len(self.names)].name] = (
                answer_from_result(obs.result).split("|")[0].strip()
            )
        if not obs.step_count:
            return Action("SEARCH", f"{branch.site} tables look alike")
        if obs.step_count == 1:
            passage = next(line for line in obs.result.split("\n") if f"/ {branch.site}:" in line)
            self.by = next(way for way in ("job_runs", "moves", "stocktaking") if way in passage)
            self.said = passage
        if len(self.names) == len(used):
            if obs.action_history[-1].split()[0] == "QUERY" and obs.step_count > len(used) + 1:
                return Action("ANSWER", answer_from_result(obs.result))
            return self.query(obs, self.names)
        table = used[len(self.names)]
        alike = next(a for a in branch.tables if a.table is table)  # whose names the list shows
        names = sorted((alike.name, *alike.decoys))
        if self.by != "stocktaking":
            quoted = ", ".join(f"'{name}'" for name in names)
            return Action(
                "QUERY", CLUES["runs" if self.by == "job_runs" else "moves"].format(quoted)
            )
        count = re.search(rf"(\d+) {re.escape(table.plural)}\b", self.said)[1]
        counts = " UNION ALL ".join(f"SELECT '{n}' AS t, count(*) AS n FROM {n}" for n in names)
        return Action("QUERY", f"SELECT t FROM ({counts}) WHERE n = {count}")


class ListReader(Wide):
    "Reads the list of tables and picks, of those of the branch with the right word, the name that looks most in use."

    name = "list"
    prefers = ("_live", "_main", "_new", "_v3", "_v2", "", "_2021", "_all")

    def select_action(self, obs):
        branch, _, used = self.known[obs.question]
        if obs.step_count == 0:
            there = [*parse_schema_info(obs.schema_info)]
            names = {}
            for table in used:  # the code of the branch is given to it
                wanted = [f"{branch.code}_{table.name}{end}" for end in self.prefers]
                names[table.name] = next((n for n in wanted if n in there), wanted[0])
            return self.query(obs, names)
        return Action("ANSWER", "0" if obs.error else answer_from_result(obs.result))


def played(env, policy, n=None):
    result = evaluate(env, policy, n, progress=False)
    steps = [e.steps for e in result.episodes]
    return dict(
        success=round(100 * result.success_rate, 1),
        robust=round(100 * (result.robust_rate or 0), 1),
        steps=round(statistics.mean(steps), 1),
        most_steps=max(steps),
    )


def measure_wide(n_tables, n, seeds, folder):
    some = [*islice(worlds(n_tables, split="test", kind=WideWorld, n=n // seeds), seeds)]
    questions = _collect_questions(some, n, "wide", folder)
    env = EpisodeEnv(questions, actions=ALLOWED)
    cut = sum("SEARCH finds them" in env.reset(index=i).schema_info for i in range(len(questions)))
    return dict(
        questions=len(questions),
        cut_lists=cut,
        reader=played(env, Reader(some)),
        search=played(env, Searcher(some)),
        list=played(env, ListReader(some)),
        oracle=played(env, OraclePolicy(questions, searches=True)),
        best_cheat=round(100 * max(hack_floor(questions, actions=ALLOWED).values()), 1),
    )


class ManualHack:
    "SEARCHes for the question and takes the value of a rule that the first passages name, by regular expressions."

    span = re.compile(r"From (\S+) (?:to (\S+)|on): (.*)")
    value = re.compile(r"\d{4}-\d\d-\d\d|\d+(?:\.\d+)?")

    def __init__(self, questions, drafts, dated):
        self.dated, self.name = dated, "dated rule" if dated else "rule in force"
        self.known = {q.question_text: (q, draft) for q, draft in zip(questions, drafts)}

    def select_action(self, obs):
        q, draft = self.known[obs.question]
        if not obs.step_count:
            return Action("SEARCH", obs.question)
        if obs.step_count == 1:
            return Action("QUERY", self.query(q, draft, obs.result))
        return Action("ANSWER", "0" if obs.error else answer_from_result(obs.result))

    def query(self, q, draft, found):
        rule, sql = draft.rule, draft.sqls[0]
        lines = [line for line in found.split("\n") if rule.term in line.lower()]
        if rule.kind == "code":
            meaning = re.search(r"WHEN .* THEN '(\w+)' ELSE '(\w+)'", sql)
            said = draft.slots["value"]
            code = next(
                (c for c in meaning.groups() if f"`{c}` means {said}" in " ".join(lines[:1])), ""
            )
            return re.sub(r"CASE.*?END", f"'{code}'", sql)
        day = re.search(r"\d{4}-\d\d-\d\d", q.question_text) if self.dated else None
        for line in lines:
            for start, end, text in self.span.findall(line):
                holds = start <= day[0] <= (end or "9999") if day else not end
                if holds and (value := self.value.search(text)):
                    said = f"'{value[0]}'" if rule.kind == "period" else value[0]
                    return re.sub(r"CASE.*?END|(?<=>= )\S+(?=$| GROUP)|(?<=\+ )[\d.]+", said, sql)
        return sql.partition(" WHERE ")[0]


def measure_manual(level, n, folder):
    questions = world_set("test", level, n, folder=folder, kind=ManualWorld)
    made = islice(worlds(level, split="test", kind=ManualWorld), len(questions.databases) + 20)
    drafts = {q.question_id: draft for w in made for q, draft in zip(w.questions, w.drafts)}
    guesses = {q.question_id: {"": drafts[q.question_id].sqls[-1]} for q in questions}
    env, plain = EpisodeEnv(questions, actions=ALLOWED), EpisodeEnv(questions)
    known = [drafts[q.question_id] for q in questions]
    floor = hack_floor(questions)
    every = hack_floor(questions, actions=ALLOWED)
    return dict(
        questions=len(questions),
        oracle=played(env, OraclePolicy(questions, searches=True)),
        search_and_regex=played(env, ManualHack(questions, known, dated=False)),
        with_dates=played(env, ManualHack(questions, known, dated=True)),
        without_documents=played(plain, OraclePolicy(questions, readings=guesses)),
        floor=round(100 * max(floor.values()), 2),
        best_cheat=round(100 * max(every.values()), 2),
    )


def clock(f):
    start = time.process_time()
    f()
    return 1000 * (time.process_time() - start)


def times_once(n_tables, prepared):
    "Milliseconds of processor time of one process, for a world of so many tables that is saved."
    with tempfile.TemporaryDirectory() as folder:
        w = WideWorld(0, n_tables)
        path = w.save(folder)
        made = {}
        opened = []
        made["open"] = clock(lambda: opened.append(Database(path, documents=w.documents)))
        db = opened[0]
        q = w.questions[0]
        made["describe"] = clock(lambda: db.describe(q.tables_involved[0]))
        episode = Episode(q, db, actions=ALLOWED)
        made["reset"] = clock(episode.reset)
        made["first_search"] = clock(lambda: episode.step("SEARCH", q.question_text))
        made["search"] = clock(lambda: episode.step("SEARCH", w.questions[1].question_text))
        plain = Episode(q, db, budget=50)
        plain.reset()
        steps = [clock(partial(plain.step, "DESCRIBE", table)) for table in db.tables[1:16]]
        made["describe_step"] = statistics.median(steps)
        # a small verdict first, so that what Python imports is not counted
        small = WideWorld(7, 30)
        first = Episode(small.questions[0], Database(small.save(folder)))
        answer(first, small.questions[0].gold_sql)
        _ = first.robust
        if prepared:
            made["prepare"] = clock(lambda: instance_generator(path))
        episode = Episode(q, db)
        answer(episode, q.gold_sql)
        made["robust"] = clock(lambda: episode.robust)
        VARIANT_STORE.clear()
        return made


def answer(episode, gold):
    episode.reset()
    episode.step("QUERY", f"SELECT * FROM ({gold}) LIMIT 999")
    episode.step("ANSWER", "@last")


def measure_times(n_tables, runs):
    "Medians over processes, each with a cache of its own."
    found = []
    for i in range(2 * runs):
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, __file__, "--times", str(n_tables), "--prepared", str(i % 2)]
            out = subprocess.run(
                command, env=environment(cache), capture_output=True, text=True, check=True
            )
            found.append(json.loads(out.stdout))
    cold, prepared = found[::2], found[1::2]
    medians = {key: round(statistics.median(f[key] for f in cold), 2) for key in cold[0]}
    for key in ("prepare", "robust"):
        name = key if key == "prepare" else "robust_prepared"
        medians[name] = round(statistics.median(f[key] for f in prepared), 2)
    return medians


def environment(cache):
    return {**os.environ, "SQL_ENV_CACHE": cache}


def forget_gold(folder):
    "Leave question, database and gold query of each question, so that gold must run."
    file = Path(folder) / "questions.jsonl"
    kept = ("question_id", "question_text", "database_name", "gold_sql")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("\n".join(json.dumps({key: row[key] for key in kept}) for row in rows))


def measure_load(n_tables, runs):
    "Milliseconds of processor time of `load` for 100 questions: made anew, from a saved folder, with gold to run."
    made, read, gold = [], [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            found = load("wide", n_tables=n_tables, n=100)
            made.append(1000 * (time.process_time() - start))
            save_question_set(found, folder)
            read.append(clock(partial(load, "folder", folder)))
            forget_gold(folder)
            (Path(folder) / "cache").mkdir()
            before = os.environ.get("SQL_ENV_CACHE")
            os.environ["SQL_ENV_CACHE"] = str(Path(folder) / "cache")
            gold.append(clock(partial(load, "folder", folder)))
            os.environ.pop("SQL_ENV_CACHE") if before is None else os.environ.update(
                SQL_ENV_CACHE=before
            )
    found = dict(made=made, folder=read, folder_with_gold_to_run=gold)
    return {name: round(statistics.median(times)) for name, times in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=300, help="questions of each measurement")
    parser.add_argument("--runs", type=int, default=5, help="of each time")
    parser.add_argument("--times", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--prepared", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    if args.times:
        print(json.dumps(times_once(args.times, args.prepared)))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = dict(
            command=f"python benchmarks/wide.py --n {args.n} --runs {args.runs}",
            wide={str(size): measure_wide(size, args.n, 3, folder) for size in (100, 1000, 3000)},
            manual={str(level): measure_manual(level, args.n, folder) for level in (1, 2, 3)},
            milliseconds={str(size): measure_times(size, args.runs) for size in (30, 1000, 3000)},
            load_milliseconds={str(size): measure_load(size, 3) for size in (100, 1000, 3000)},
        )
    text = json.dumps(found, indent=1)
    args.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
