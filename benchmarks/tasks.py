"""Tasks that change the database, judged: `python benchmarks/tasks.py [--json FILE]`.

Who does what gold does, who does nothing, deletes all that may be deleted or writes back what is there; one-edit
neighbours of gold, called wrong by contents of the tables that the verdict never saw; and honest alternatives, written
by hand. Seconds depend on the machine, all else does not.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from realistic import write_mutants

from sql_env import Episode, load
from sql_env.database.database import Database
from sql_env.database.guards import QueryError
from sql_env.grading.changes import judge_changes, judge_replay
from sql_env.questions.question_set import Question
from sql_env.worlds import ChangeWorld, worlds

HERE = Path(__file__).parent
ALTERNATIVES = HERE.parent / "tests" / "data" / "write_alternatives.jsonl"
STREAM = 77  # of the generated tasks
CONTENTS = 40  # on which a neighbour must do what gold does to be as right


def generated(n: int) -> Iterator[tuple[ChangeWorld, Question]]:
    "`n` tasks, as many of each level."
    for level in (1, 2, 3):
        found = ((w, q) for w in worlds(level, STREAM, kind=ChangeWorld) for q in w.questions)
        yield from islice(found, n // 3)


def everything(n: int) -> Iterator[tuple[Question, Database]]:
    "Generated tasks and the bundled ones, with their databases."
    for world, q in generated(n):
        yield q, world.database
    bundled = load("bundled_tasks")
    for q in bundled:
        yield q, bundled.database(q.database_name)


def names(database: Database, q: Question) -> list[str]:
    "The tables that a task may change, those that refer to others first."
    infos = [info for info in database.infos if info.name.lower() in q.writes]
    refers = {t.name: sum(bool(c.references) for c in t.columns) for t in infos}
    return sorted(refers, key=lambda name: -refers[name])


def echo(database: Database, q: Question) -> list[str]:
    "Statements that give each row what it has."
    columns = {info.name: info.columns[-1].name for info in database.infos}
    return [f'UPDATE "{t}" SET "{columns[t]}" = "{columns[t]}"' for t in names(database, q)]


AGENTS = {
    "gold": lambda database, q: list(q.gold_statements),
    "nothing": lambda database, q: [],
    "nothing, without looking": lambda database, q: [],
    "delete all": lambda database, q: [f'DELETE FROM "{t}"' for t in names(database, q)],
    "echo": echo,
}


def play(q: Question, database: Database, agent: str) -> bool:
    "Whether an agent that looks at each table it may change, writes and ends the task is right."
    episode = Episode(q, database, budget=40, actions=("EXECUTE",))
    episode.reset()
    if agent != "nothing, without looking":
        for table in names(database, q):
            episode.step("QUERY", f'SELECT * FROM "{table}" LIMIT 3')
    statements = AGENTS[agent](database, q)
    for sql in [";\n".join(statements)] if agent == "gold" else statements:
        if sql:
            episode.step("EXECUTE", sql)
    episode.step("ANSWER", "done")
    return bool(episode.verdict)


def agents(n: int) -> dict[str, dict]:
    "Tasks that each agent gets right, by whether there is something to do."
    counts: dict[str, Counter] = {name: Counter() for name in AGENTS}
    totals = Counter[str]()
    for q, database in everything(n):
        kind = "something to do" if q.gold_statements else "nothing to do"
        totals[kind] += 1
        for name in AGENTS:
            counts[name][kind] += play(q, database, name)
    return {"tasks": dict(totals)} | {name: dict(count) for name, count in counts.items()}


def changed(database: Database, q: Question, statements: list[str]):
    "What statements change, or None if one is refused."
    with database.writer(q.writes) as copy:
        try:
            copy.execute(";\n".join(statements))
        except QueryError:
            return None
        return copy.changes()


def neighbours(q: Question) -> list[tuple[tuple, list[str]]]:
    "Gold with one edit in one statement, each with its place and name."
    found = []
    for place, sql in enumerate(q.gold_statements):
        for number, (name, text) in enumerate(write_mutants(sql)):
            others = list(q.gold_statements)
            others[place] = text
            found.append(((place, number, name), others))
    return found


def same_rows_everywhere(world: ChangeWorld, q: Question, statements: list[str]) -> bool:
    "Whether statements do what gold does on other rows of a world, which the verdict never sees."
    for content in other_contents(world):
        gold = changed(content, q, list(q.gold_statements))
        if gold is not None and changed(content, q, statements) != gold:
            return False
    return True


KNOWN: dict[str, list[Database]] = {}


def other_contents(world: ChangeWorld) -> list[Database]:
    "The same tables with other rows, drawn as the worlds draw them."
    if world.name not in KNOWN:
        KNOWN.clear()
        numbers = range(10_001, 10_001 + CONTENTS)
        KNOWN[world.name] = [ChangeWorld(world.seed, world.level, rows=i).database for i in numbers]
    return KNOWN[world.name]


def wrong_writes(n: int, each: int) -> dict:
    "Wrong neighbours that pass on one state and with replay."
    counts, families = Counter[str](), Counter[str]()
    for world, q in generated(n):
        if not q.states_rule or not q.gold_statements:
            continue
        counts["tasks"] += 1
        edits = neighbours(q)
        edits = edits[:: max(1, len(edits) // each)][:each]
        for key, statements in [(None, list(q.gold_statements)), *edits]:
            changes = changed(world.database, q, statements)
            state = changes is not None and bool(judge_changes(q, world.database, changes))
            rule = state and bool(judge_replay(q, world.database, [";\n".join(statements)]))
            if key is None:
                counts["gold"] += 1
                counts["gold accepted"] += rule
                continue
            if state and same_rows_everywhere(world, q, statements):
                counts["as right as gold"] += 1
                counts["of these, refused by replay"] += not rule
                continue
            counts["wrong"] += 1
            counts["pass on one state"] += state
            counts["pass with replay"] += rule
            if rule:
                families[f"{world.families[q.question_id]}: {key[2]}"] += 1
    wrong = counts["wrong"]
    shares = {
        f"{k} (%)": round(100 * counts[k] / wrong, 2)
        for k in ("pass on one state", "pass with replay")
    }
    return dict(counts) | shares | {"passed with replay": dict(families)}


def alternatives() -> dict:
    "Honest alternatives accepted, on one state and with replay where the task states a rule."
    lines = [json.loads(line) for line in ALTERNATIVES.read_text(encoding="utf-8").splitlines()]
    bundled, worlds, counts = load("bundled_tasks"), dict[str, ChangeWorld](), Counter[str]()
    for line in lines:
        name, _, number = line["question_id"].rpartition("-")
        if name.startswith("changes_"):
            _, level, seed = name.split("_")
            world = worlds.setdefault(name, ChangeWorld(int(seed), int(level), n=7))
            q, database = world.questions[int(number) - 1], world.database
        else:
            q = bundled.get(line["question_id"])
            database = bundled.database(q.database_name)
        changes = changed(database, q, line["statements"])
        accepted = changes is not None and bool(judge_changes(q, database, changes))
        counts["written"] += 1
        counts["accepted on one state"] += accepted
        if q.states_rule:
            counts["of tasks that state a rule"] += 1
            counts["accepted with replay"] += bool(
                judge_replay(q, database, [";\n".join(line["statements"])])
            )
    return dict(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    parser.add_argument("--tasks", type=int, default=306, help="generated tasks that agents play")
    parser.add_argument(
        "--rules",
        type=int,
        default=240,
        help="generated tasks of which those with a rule get neighbours",
    )
    parser.add_argument("--each", type=int, default=12, help="neighbours of a task")
    given = parser.parse_args()
    start = time.perf_counter()
    found = dict(agents=agents(given.tasks), alternatives=alternatives())
    found["neighbours"] = wrong_writes(given.rules, given.each)
    found["seconds"] = round(time.perf_counter() - start)
    command = "python benchmarks/tasks.py --json benchmarks/tasks.json"
    text = json.dumps(dict(command=command) | found, indent=2)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
