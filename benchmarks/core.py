"""Measure the core: `python benchmarks/core.py [--out benchmarks/core.json]`.

Every figure is a ratio or a rate of one run on one machine: the guarded executor against bare APSW and against one of
the common kind (new connection, timeout thread, rollback), steps per second, memory per episode, import time.
Spider is read from SQL_ENV_SPIDER or ../shared/spider; without it the bundled gold is used and the output says so.
"""

import argparse
import gc
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
import tracemalloc
from functools import partial
from itertools import count
from pathlib import Path

import apsw

from sql_env.database.database import Database
from sql_env.database.guards import Limits
from sql_env.evaluation.harness import evaluate, hack_floor
from sql_env.play.episode import EpisodeEnv
from sql_env.policies.baselines import OraclePolicy, RandomPolicy
from sql_env.sources.loading import load

ROOT = Path(__file__).resolve().parent.parent


def spider() -> Path | None:
    path = Path(os.environ.get("SQL_ENV_SPIDER") or ROOT.parent / "shared" / "spider")
    return path if (path / "dev.json").is_file() else None


def median_time(f, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def fresh_executor(path: Path, sql: str, seconds: float = 5) -> list:
    "A new connection per query, a thread to time it out, BEGIN and ROLLBACK: the usual executor of trainers."
    out: list = []

    def work():
        con = sqlite3.connect(path, check_same_thread=False)
        try:
            con.execute("BEGIN")
            out.append(con.execute(sql).fetchall())
            con.rollback()
        finally:
            con.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(seconds)
    return out[0]


def run_raw(con, sql: str) -> list:
    return con.execute(sql).fetchall()


def quantiles(values: list[float]) -> dict:
    "The tenth, fiftieth and ninetieth of a hundred."
    values = sorted(values)
    return {f"p{p}": round(values[len(values) * p // 100], 2) for p in (10, 50, 90)}


def fastest(f, repeats: int) -> float:
    "The least time of some calls: what the work takes where nothing else interferes."
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def executors(qs, repeats: int = 40) -> dict:
    """Time of the gold queries behind all guards, as a ratio to bare APSW, and of a fresh connection to ours.

    The fastest of some calls is taken of each query, then quantiles over the queries. `new` is a statement that the
    connection has not seen: each call has a comment of its own.
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    raw = {
        n: apsw.Connection(f"file:{p.absolute()}?mode=ro&immutable=1", flags=flags)
        for n, p in qs.databases.items()
    }
    ours = {n: Database(p) for n, p in qs.databases.items()}
    to_raw, to_fresh, base, guarded, new = [], [], [], [], []
    number = count()
    gc.disable()
    for q in qs:
        con, db, path = raw[q.database_name], ours[q.database_name], qs.databases[q.database_name]
        a = fastest(partial(run_raw, con, q.gold_sql), repeats)
        b = fastest(partial(db.query, q.gold_sql), repeats)
        c = fastest(partial(fresh_executor, path, q.gold_sql), 3)

        def unseen(run, sql=q.gold_sql.rstrip("; \n")):
            run(f"{sql} -- {next(number)}")

        new_raw = fastest(partial(unseen, partial(run_raw, con)), 10)
        new.append(fastest(partial(unseen, db.query), 10) / new_raw)
        base.append(a)
        guarded.append(b)
        to_raw.append(b / a)
        to_fresh.append(c / b)
    gc.enable()
    return dict(
        queries=len(to_raw),
        different=len({q.gold_sql for q in qs}),
        raw_apsw_us=round(statistics.median(base) * 1e6, 1),
        guarded_us=round(statistics.median(guarded) * 1e6, 1),
        guarded_to_raw=quantiles(to_raw)["p50"],
        guarded_to_raw_quantiles=quantiles(to_raw),
        guarded_to_raw_in_all=round(sum(guarded) / sum(base), 2),
        new_statement_to_raw=quantiles(new),
        fresh_connection_to_guarded=round(statistics.median(to_fresh), 1),
    )


def replay(env, scripts) -> None:
    for question_id, script in scripts:
        env.reset(question_id=question_id)
        for action in script:
            env.step(*action)


def steps_per_second(qs, rounds: int = 5) -> dict:
    "Steps per second on one core: actions of the oracle and a random policy, recorded, then replayed and graded."
    env, rate = EpisodeEnv(qs), {}
    for policy in (OraclePolicy(qs), RandomPolicy()):
        scripts = []
        for i, q in enumerate(qs):
            observation, script = env.reset(question_id=q.question_id), []
            if hasattr(policy, "reset"):
                policy.reset(i)
            while not observation.done:
                script.append(policy.select_action(observation))
                observation = env.step(*script[-1])
            scripts.append((q.question_id, script))

        n = sum(len(s) for _, s in scripts)
        rate[policy.name] = round(
            n / min(median_time(partial(replay, env, scripts), 1) for _ in range(rounds))
        )
    return rate


def memory_per_episode(qs, n: int = 500) -> float:
    "kB that a further open episode costs, after DESCRIBE, SAMPLE and QUERY, on a database that is open already."
    q = qs[0]

    def start():
        env = EpisodeEnv(qs)
        env.reset(question_id=q.question_id)
        for a in (
            ("DESCRIBE", q.tables_involved[0]),
            ("SAMPLE", q.tables_involved[0]),
            ("QUERY", q.gold_sql),
        ):
            env.step(*a)
        return env

    start()
    gc.collect()
    tracemalloc.start()
    lite = apsw.memory_used()
    before = tracemalloc.get_traced_memory()[0]
    envs = [start() for _ in range(n)]
    used = tracemalloc.get_traced_memory()[0] - before + apsw.memory_used() - lite
    tracemalloc.stop()
    return round(used / len(envs) / 1000, 1)


def import_seconds() -> float:
    "Seconds that `import sql_env` takes beyond an empty Python."

    def run(code):
        return median_time(lambda: subprocess.run([sys.executable, "-c", code], check=True), 7)

    return round(run("import sql_env") - run("pass"), 3)


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--out", type=Path)
    out = args.parse_args().out
    bundled, folder = load("bundled"), spider()
    gold = load("spider", folder, "dev") if folder else bundled
    figures = dict(
        command="python benchmarks/core.py --out benchmarks/core.json",
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
        gold=gold.name,
        executors=executors(gold),
        steps_per_second=steps_per_second(bundled),
        kB_per_further_episode=memory_per_episode(bundled),
        import_seconds=import_seconds(),
        oracle={
            qs.name: round(evaluate(qs, OraclePolicy(qs), progress=False).success_rate, 4)
            for qs in {bundled.name: bundled, gold.name: gold}.values()
        },
        hack_floor={
            qs.name: {k: round(v, 4) for k, v in list(hack_floor(qs).items())[:3]}
            for qs in {bundled.name: bundled, gold.name: gold}.values()
        },
        limits=dict(operations=Limits().operations, seconds=Limits().seconds),
    )
    print(json.dumps(figures, indent=1))
    if out:
        out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
