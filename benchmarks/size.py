"""How cost grows with databases, questions and processes: `python benchmarks/size.py [PART ...] [--out FILE]`.

Parts: robust, load, questions, distinct, processes, first, counts, superhero, picture. Every measurement of memory or
of a first use runs in a process of its own with an empty cache; its CPU time and its peak memory beyond the imports are
given. Big files are made here in seconds and deleted at the end. Spider and BIRD are read from SQL_ENV_SPIDER,
SQL_ENV_BIRD or ../shared; a part that lacks its data says so. Results of the parts that ran replace those in the file.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

import apsw

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "benchmarks" / "size.json"
SIZES = (1, 9, 93, 951)  # megabytes
BYTES_OF_A_ROW = 76  # in the file

TABLE = """
CREATE TABLE t{t} (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES t{parent}(id), city TEXT, kind TEXT,
    amount REAL, day TEXT, n INTEGER, label TEXT, flag INTEGER, note TEXT)"""
ROWS = """
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {rows})
INSERT INTO t{t} SELECT i, 1 + (i * 7919) % {rows}, 'city ' || ((i * 31) % 200), substr('ABCDEF', 1 + (i * 13) % 6, 1),
    ((i * 104729) % 100000) / 7.0, date('2001-01-01', '+' || ((i * 17) % 7000) || ' days'), (i * 37) % 1000,
    'label ' || i, i % 2, 'note ' || ((i * 11) % 5000) || ' of row' FROM c"""
QUESTIONS = {
    "How many of the first 1,000 rows of t0 have kind A?": "SELECT count(*) FROM t0 WHERE id <= 1000 AND kind = 'A'",
    "What is the label of the row of t1 with the smallest id?": "SELECT label FROM t1 ORDER BY id LIMIT 1",
    "Which label has id 5 in t2?": "SELECT label FROM t2 WHERE id = 5",
    "Which city does the parent of row 7 of t3 have?": (
        "SELECT b.city FROM t3 a JOIN t2 b ON a.parent = b.id WHERE a.id = 7"
    ),
    "What are the labels of the rows of t4 with an id below 4?": "SELECT label FROM t4 WHERE id < 4",
    "What is the largest id of t5?": "SELECT max(id) FROM t5",
    "How many of the first 100 rows of t6 have flag 1?": "SELECT count(*) FROM t6 WHERE id <= 100 AND flag = 1",
    "What is the mean of n over the rows of t7 with an id up to 50?": "SELECT avg(n) FROM t7 WHERE id <= 50",
    "Which kinds occur among the first 200 rows of t8?": "SELECT DISTINCT kind FROM t8 WHERE id <= 200",
    "How many of the first 300 rows of t9 are in each city?": (
        "SELECT city, count(*) FROM t9 WHERE id <= 300 GROUP BY city"
    ),
}


def make_folder(folder: Path, megabytes: float) -> Path:
    "A database of ten tables with ten columns, and ten questions an agent can answer at any size."
    folder.mkdir(parents=True)
    con = apsw.Connection(str(folder / "data.sqlite"))
    con.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
    rows = round(megabytes * 1e6 / 10 / BYTES_OF_A_ROW)
    with con:
        for t in range(10):
            con.execute(TABLE.format(t=t, parent=max(t - 1, 0)))
            con.execute(ROWS.format(t=t, rows=rows))
    con.close()
    lines = [json.dumps(dict(question=q, sql=sql)) + "\n" for q, sql in QUESTIONS.items()]
    (folder / "questions.jsonl").write_text("".join(lines))
    return folder


def shared(name: str) -> Path | None:
    "The folder of a data set, None if it is not there."
    path = Path(os.environ.get(f"SQL_ENV_{name.upper()}") or ROOT.parent / "shared" / name)
    return path if path.is_dir() else None


MEASURE = """
import json, resource, sys, time
def usage():
    u, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime + below.ru_utime + below.ru_stime, u.ru_maxrss
{setup}
cpu, peak = usage(); wall = time.perf_counter()
{code}
end_cpu, end_peak = usage()
print(json.dumps(dict(cpu_s=round(end_cpu - cpu, 3), wall_s=round(time.perf_counter() - wall, 3),
    peak_MB=round((end_peak - peak) / 1024, 1), result=result)))
"""


def measure(setup: str, code: str, cache: Path, *args: str) -> dict:
    "What a piece of code costs in a process of its own: CPU, wall clock, peak memory beyond the set-up; its `result`."
    text = MEASURE.format(setup=setup, code=code)
    env = {**os.environ, "SQL_ENV_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", text, *args], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


IMPORTS = """
from sql_env.evaluation.harness import evaluate
from sql_env.policies.baselines import OraclePolicy, RandomPolicy
from sql_env.sources.loading import load
from sql_env.grading.variants.robust import judge_evidence
from sql_env.database.database import Database
"""
FIRST_VERDICT = """
sql = "SELECT b.city, count(*) FROM t3 a JOIN t2 b ON a.parent = b.id WHERE a.n > 500 GROUP BY b.city"
other = "SELECT t2.city, count(*) FROM t2 JOIN t3 ON t3.parent = t2.id WHERE t3.n > 500 GROUP BY 1"
db = Database(sys.argv[1] + "/data.sqlite")
result = judge_evidence(sql, db, other).reason
"""
ORACLE = """
qs = load("folder", sys.argv[1])
r = evaluate(qs, OraclePolicy(qs), progress=False)
result = dict(success=r.success_rate, robust=r.robust_rate, not_judged=r.unjudged().total(), questions=len(qs))
"""
LOAD = """
qs = load("folder", sys.argv[1])
result = len(qs)
"""


def part_robust(folders: dict[int, Path], work: Path) -> dict:
    "The first robust verdict, and the oracle's rates, by the size of the file in megabytes."
    found = {}
    for mb, folder in folders.items():
        first = measure(IMPORTS, FIRST_VERDICT, work / f"cache-r{mb}", str(folder))
        oracle = measure(IMPORTS, ORACLE, work / f"cache-o{mb}", str(folder))
        size = round((folder / "data.sqlite").stat().st_size / 1e6, 1)
        found[str(mb)] = dict(file_MB=size, first_verdict=first, oracle=oracle["result"])
    return found


def part_load(folders: dict[int, Path], work: Path) -> dict:
    "Loading a folder with ten questions, by the size of the file in megabytes."
    found = {}
    for mb, folder in folders.items():
        cache = work / f"cache-l{mb}"
        found[str(mb)] = dict(
            first=measure(IMPORTS, LOAD, cache, str(folder)),
        )
    return found


PLAY_FIRST = """
from sql_env.play.episode import EpisodeEnv
qs = load("folder", sys.argv[1])
env = EpisodeEnv(qs)
env.reset(seed=0)
result = len(qs)
"""


def make_many(folder: Path, spider: Path, n: int) -> Path:
    "A folder with `n` questions that repeat those of Spider's training set on its databases."
    folder.mkdir(parents=True)
    rows = json.loads((spider / "train_spider.json").read_text())
    names = {p.parent.name for p in (spider / "database").glob("*/*.sqlite")}
    rows = [row for row in rows if row["db_id"] in names]
    for name in sorted({row["db_id"] for row in rows}):
        source = spider / "database" / name / f"{name}.sqlite"
        (folder / f"{name}.sqlite").symlink_to(source.resolve())
    with (folder / "questions.jsonl").open("w") as file:
        for i in range(n):
            row = rows[i % len(rows)]
            text = dict(question=row["question"], sql=row["query"], database=row["db_id"])
            file.write(json.dumps(text) + "\n")
    return folder


SHAPES = (  # of about the mix of Spider's golds: a quarter sorts, groups; a third joins
    "SELECT {c} FROM {t} WHERE {d} = {v}",
    "SELECT count(*) FROM {t} WHERE {d} <> {v}",
    "SELECT DISTINCT {c} FROM {t} WHERE {d} >= {v}",
    "SELECT {c}, {d} FROM {t} WHERE {d} <= {v} ORDER BY {e} DESC",
    "SELECT {c} FROM {t} WHERE {d} <= {v} ORDER BY {e}, {c} LIMIT {n}",
    "SELECT {c}, count(*) FROM {t} WHERE {d} <> {v} GROUP BY {c} HAVING count(*) >= {n}",
    "SELECT {c} FROM {t} WHERE {d} >= (SELECT min({d}) FROM {t} WHERE {c} <> {v})",
    "SELECT a.{c}, b.{pc} FROM {t} AS a JOIN {p} AS b ON a.{f} = b.{pk} WHERE a.{d} = {v}",
    "SELECT b.{pc}, count(*) FROM {t} AS a JOIN {p} AS b ON a.{f} = b.{pk} WHERE a.{d} <> {v} GROUP BY b.{pc}",
    "SELECT b.{pc}, count(*) FROM {t} AS a JOIN {p} AS b ON a.{f} = b.{pk} WHERE a.{d} <> {v} "
    "GROUP BY b.{pc} ORDER BY count(*) DESC LIMIT 1",
)


def draw_golds(path: Path, n: int, draw: Random) -> list[str]:
    "About `n` distinct queries in the shapes above on tables and values of a database; fewer if it is small."
    con = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    names = [name for (name,) in con.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    columns = {t: [row[1] for row in con.execute(f'PRAGMA table_info("{t}")')] for t in names}
    parents = {t: con.execute(f'PRAGMA foreign_key_list("{t}")').fetchall() for t in names}
    rows = {t: con.execute(f'SELECT * FROM "{t}" LIMIT 500').fetchall() for t in names}
    full = [t for t in names if rows[t]]
    found: dict[str, None] = {}
    for _ in range(3 * n if full else 0):
        t = draw.choice(full)
        i = draw.randrange(len(columns[t]))
        words = dict(
            zip("cde", (draw.choice(columns[t]), columns[t][i], draw.choice(columns[t]))), t=t
        )
        several = {row[0] for row in parents[t] if row[1]}  # keys of more than one column
        linked = [
            row for row in parents[t] if row[4] and row[2] in columns and row[0] not in several
        ]
        if linked:
            _, _, p, f, pk, *_ = draw.choice(linked)
            words |= dict(p=p, f=f, pk=pk, pc=draw.choice(columns[p]))
        shape = draw.choice(SHAPES if linked else SHAPES[:7])
        quoted = {key: name if name.isidentifier() else f"`{name}`" for key, name in words.items()}
        value = apsw.format_sql_value(draw.choice(rows[t])[i])
        found[shape.format(**quoted, v=value, n=draw.randrange(1, 9))] = None
        if len(found) == n:
            break
    con.close()
    return list(found)


def make_distinct(folder: Path, spider: Path, n: int) -> Path:
    "A folder with `n` distinct questions on Spider's databases, drawn from one seed; raises if they give fewer."
    folder.mkdir(parents=True)
    files = sorted((spider / "database").glob("*/*.sqlite"))
    golds = {p: draw_golds(p, 2 * n // len(files) + 9, Random(p.stem)) for p in files}
    lines = []
    for path, sqls in golds.items():
        (folder / path.name).symlink_to(path.resolve())
        for i, sql in enumerate(sqls):
            question = (
                f"What is number {i} of {path.stem} in words that another question does not have?"
            )
            lines.append(json.dumps(dict(question=question, sql=sql, database=path.stem)) + "\n")
    (folder / "questions.jsonl").write_text("".join(Random(0).sample(lines, n)))
    return folder


def part_distinct(work: Path, n: int) -> dict:
    "From a folder of distinct questions to the first observation, by one process and by two."
    spider = shared("spider")
    if spider is None:
        return {"skipped": "Spider is not there"}
    with ProcessPoolExecutor(
        1
    ) as pool:  # a process inherits the peak memory of the one that starts it
        folder = pool.submit(make_distinct, work / "distinct", spider, n).result()
    cache = work / "cache-d"
    two = PLAY_FIRST.replace("])", "], workers=2)", 1)
    return {
        "questions": n,
        "first": measure(IMPORTS, PLAY_FIRST, cache, str(folder)),
        "first, two processes": measure(IMPORTS, two, work / "cache-2", str(folder)),
    }


def part_questions(work: Path) -> dict:
    "From a folder of 1,000 to 100,000 questions, which repeat 3,926 golds, to the first observation."
    spider = shared("spider")
    if spider is None:
        return {"skipped": "Spider is not there"}
    found = {}
    for n in (1_000, 10_000, 100_000):
        folder = make_many(work / f"many{n}", spider, n)
        cache = work / f"cache-q{n}"
        found[str(n)] = dict(
            first=measure(IMPORTS, PLAY_FIRST, cache, str(folder)),
        )
    return found


def timed_evaluate(qs, policy, workers: int, n: int | None, robust: bool) -> float:
    "Wall clock of one evaluation, start of the workers included."
    from sql_env.evaluation.harness import evaluate

    start = time.perf_counter()
    if workers == 1:
        evaluate(qs, policy, n, robust=robust, progress=False)
    else:
        with ProcessPoolExecutor(workers) as pool:
            evaluate(qs, policy, n, executor=pool, robust=robust, progress=False)
    return time.perf_counter() - start


class OtherWords:
    "The oracle with a blank behind its SQL: a query that is gold letter by letter needs no variants."

    name = "oracle, other text"

    def __init__(self, oracle):
        self.oracle = oracle

    def select_action(self, observation):
        action_type, argument = self.oracle.select_action(observation)
        return action_type, f"{argument} " if action_type == "QUERY" else argument


def part_processes(work: Path) -> dict:
    "Wall clock of `evaluate` with two processes, as a share of that with one, start-up included; the best of three."
    from sql_env.policies.baselines import OraclePolicy, RandomPolicy
    from sql_env.sources.loading import load

    spider = shared("spider")
    if spider is None:
        return {"skipped": "Spider is not there"}
    os.environ["SQL_ENV_CACHE"] = str(work / "cache-p")
    train = load("spider", spider, "train")
    dev = load("spider", spider, "dev")
    timed_evaluate(dev.sample(50), RandomPolicy(), 2, None, False)
    found = {}
    for name, qs, policy, robust in (
        ("random", train, RandomPolicy(), True),
        ("random, no robust", train, RandomPolicy(), False),
        ("oracle, other text, robust", dev, OtherWords(OraclePolicy(dev)), True),
        ("oracle, other text, no robust", dev, OtherWords(OraclePolicy(dev)), False),
    ):
        wall: dict[int, float] = {}
        for _ in range(3):
            for workers in (1, 2):
                seconds = timed_evaluate(qs, policy, workers, None, robust)
                wall[workers] = min(seconds, wall.get(workers, seconds))
        found[name] = dict(
            questions=len(qs), serial_s=round(wall[1], 2), ratio=round(wall[2] / wall[1], 2)
        )
    return found


FIRST_EVALUATE = """
import os, subprocess
u = resource.getrusage(resource.RUSAGE_CHILDREN)
command = os.path.join(os.path.dirname(sys.executable), "sql_env")
subprocess.run([command, "evaluate", *sys.argv[1:]], capture_output=True, check=True)
after = resource.getrusage(resource.RUSAGE_CHILDREN)
result = round(after.ru_utime + after.ru_stime - u.ru_utime - u.ru_stime, 2)
"""


def part_first(work: Path) -> dict:
    "CPU seconds of the first `sql_env evaluate` after installation, of the second, and without robust verdicts."
    cache = work / "cache-f"
    return dict(
        first_cpu_s=measure("", FIRST_EVALUATE, cache)["result"],
        second_cpu_s=measure("", FIRST_EVALUATE, cache)["result"],
        no_robust_cpu_s=measure("", FIRST_EVALUATE, work / "cache-n", "--no-robust")["result"],
    )


SUPERHERO = """
qs = load("bird", sys.argv[1])
r = evaluate(qs, OraclePolicy(qs), progress=False)
from collections import Counter
flags = Counter(flag for q in qs.quarantined for flag in q.flags)
result = dict(played=len(qs), quarantined=dict(flags), success=r.success_rate, robust=r.robust_rate,
    not_judged=r.unjudged().total())
"""


def part_superhero(work: Path) -> dict:
    "The oracle on BIRD's superhero database: of the questions that are not flagged."
    bird = shared("bird")
    if bird is None:
        return {"skipped": "BIRD is not there"}
    return measure(IMPORTS, SUPERHERO, work / "cache-b", str(bird))["result"]


COUNTED_ROWS = 50_000_000  # of two columns, about 600 MB
COUNTED_TABLES = """
CREATE TABLE big (id INTEGER PRIMARY KEY, n INTEGER);
CREATE TABLE small (id INTEGER PRIMARY KEY, big_id INTEGER REFERENCES big(id));
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {rows})
INSERT INTO big SELECT i, (i * 7919) % 1000 FROM c;
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 100000)
INSERT INTO small SELECT i, 1 + (i * 104729) % {rows} FROM c"""
COUNTED = {
    "four counts": lambda db: db.query(f"SELECT {', '.join(['(SELECT count(*) FROM big)'] * 4)}"),
    "eight counts": lambda db: db.query(f"SELECT {', '.join(['(SELECT count(*) FROM big)'] * 8)}"),
    "sum": lambda db: db.query("SELECT sum(n) FROM big"),
    "join": lambda db: db.query(
        "SELECT count(*), sum(n) FROM small JOIN big ON big.id = small.big_id"
    ),
    "describe": lambda db: db.describe("big"),
    "sample": lambda db: db.sample("big"),
}


def read_or_drop(path: Path, is_warm: bool) -> None:
    "Bring a file into the system's cache, or take it out."
    with path.open("rb", buffering=0) as file:
        if is_warm:
            while file.read(2**20):
                pass
        else:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def part_counts(work: Path) -> dict:
    "What statements on a table of 50 million rows cost and answer, with the file out of the system's cache and in it."
    from sql_env.database.database import Database
    from sql_env.database.guards import Limits, QueryError

    path = work / "counted.sqlite"
    con = apsw.Connection(str(path))
    con.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
    with con:
        con.execute(COUNTED_TABLES.format(rows=COUNTED_ROWS))
    con.close()
    found: dict = dict(limit_s=Limits.seconds, file_MB=round(path.stat().st_size / 1e6), same={})
    for name, act in COUNTED.items():
        answers, found[name] = set(), {}
        for state in ("cold", "warm"):
            os.environ["SQL_ENV_CACHE"] = str(work / f"cache-{name}-{state}")
            read_or_drop(path, state == "warm")
            with Database(path) as db:
                before, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
                try:
                    answer = str(getattr(act(db), "rows", ""))
                except QueryError as e:
                    answer = f"{e.kind}: {e}"
                wall, after = (
                    time.perf_counter() - wall,
                    resource.getrusage(resource.RUSAGE_SELF),
                )
            answers.add(answer)
            found[name][state] = dict(
                wall_s=round(wall, 2),
                user_s=round(after.ru_utime - before.ru_utime, 2),
                system_s=round(after.ru_stime - before.ru_stime, 2),
                read_MB=round((after.ru_inblock - before.ru_inblock) / 2048),
            )
        cpu = [c["user_s"] + c["system_s"] for c in found[name].values()]
        found[name] |= dict(answer=answer[:60], cpu_of_limit=round(max(cpu) / Limits.seconds, 2))
        found["same"][name] = len(answers) == 1
    return found


def picture(results: dict) -> Path:
    "Curves of cost against size, as a picture."
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.style.use("default")
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    sizes = [int(mb) for mb in results["robust"]]
    verdict = [results["robust"][str(mb)]["first_verdict"] for mb in sizes]
    loads = [results["load"][str(mb)] for mb in sizes]
    curves = {
        "CPU seconds": (
            ("load, ten questions", [v["first"]["cpu_s"] for v in loads], "#0072B2"),
            ("first robust verdict", [v["cpu_s"] for v in verdict], "#D55E00"),
        ),
        "peak memory, MB": (
            ("load, ten questions", [v["first"]["peak_MB"] for v in loads], "#0072B2"),
            ("first robust verdict", [v["peak_MB"] for v in verdict], "#D55E00"),
        ),
    }
    for ax, (what, lines) in zip(axes, curves.items()):
        for label, values, color in lines:
            ax.plot(sizes, values, "o-", label=label, color=color)
        ax.set(xscale="log", xlabel="size of the database, MB", title=what)
        ax.set_xticks(sizes, [str(mb) for mb in sizes])
        ax.minorticks_off()
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False, fontsize=8)
    ax, many = axes[2], results["questions"]
    if "skipped" not in many:
        numbers = [int(n) for n in many]
        for label, key, color in (("first", "first", "#0072B2"),):
            ax.plot(
                numbers,
                [many[str(n)][key]["cpu_s"] for n in numbers],
                "o-",
                label=label,
                color=color,
            )
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="questions",
            title="CPU seconds until the first episode",
        )
        ax.legend(frameon=False, fontsize=8)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25)
    path = ROOT / "nbs" / "images" / "size.png"
    figure.savefig(path, dpi=130, metadata={"Software": None})
    return path


PARTS = (
    "robust",
    "load",
    "questions",
    "distinct",
    "processes",
    "first",
    "counts",
    "superhero",
    "picture",
)


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    args.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="megabytes")
    args.add_argument("--distinct", type=int, default=30_000, help="distinct questions")
    args.add_argument("--out", type=Path, default=OUT)
    given = args.parse_args()
    parts = given.parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        args.error(f"no part {min(unknown)!r}; there are {', '.join(PARTS)}")
    results = json.loads(given.out.read_text()) if given.out.is_file() else {}
    results["command"] = "python benchmarks/size.py"
    results["machine"] = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    with tempfile.TemporaryDirectory(prefix="sql_env_size") as temporary:
        work = Path(temporary)
        folders = {}
        if {"robust", "load"} & set(parts):
            folders = {mb: make_folder(work / f"mb{mb}", mb) for mb in given.sizes}
        for part in parts:
            if part == "picture":
                continue
            function = globals()[f"part_{part}"]
            first = [folders] if part in ("robust", "load") else []
            last = [given.distinct] if part == "distinct" else []
            results[part] = function(*first, work, *last)
            print(part, json.dumps(results[part], indent=1), flush=True)
            given.out.write_text(json.dumps(results, indent=1) + "\n")
    if "picture" in parts:
        print(picture(results))


if __name__ == "__main__":
    main()
