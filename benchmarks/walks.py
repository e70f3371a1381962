"""Through how many packages a thing passes, and how often it moves between them: `python benchmarks/walks.py`.

Four walks: the argument of a QUERY, gold from its file to the set, gold to the first robust verdict, and a model's
reply from HTTP to the log. Counted are the calls of the package's own functions, each once (loops and repeated calls
don't count again): packages that take part, and calls that go from one package into another; with an empty cache, and
once more.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

from fake_server import FakeServer  # noqa: E402

from sql_env import ChatPolicy, EpisodeEnv, evaluate, load  # noqa: E402
from sql_env.grading import judge_evidence  # noqa: E402
from sql_env.policies import Endpoint  # noqa: E402

PACKAGE = str(ROOT / "sql_env") + "/"


def package_of(filename: str) -> str:
    "The package of a file, empty if it is not ours."
    if not filename.startswith(PACKAGE):
        return ""
    return filename[len(PACKAGE) :].partition("/")[0].removesuffix(".py")


def walk(run: Callable[[], object]) -> dict[str, int]:
    "Packages and moves between them while `run` runs, in this thread."
    calls: set[tuple] = set()

    def trace(frame):
        here, back = package_of(frame.f_code.co_filename), frame.f_back
        while back is not None and not package_of(back.f_code.co_filename):
            back = back.f_back
        if here and back is not None:
            calls.add(
                (
                    package_of(back.f_code.co_filename),
                    back.f_code.co_qualname,
                    here,
                    frame.f_code.co_qualname,
                )
            )
        elif here:
            calls.add(("", "", here, frame.f_code.co_qualname))

    sys.setprofile(lambda frame, event, arg: trace(frame) if event == "call" else None)
    try:
        run()
    finally:
        sys.setprofile(None)
    packages = {here for _, _, here, _ in calls}
    return dict(packages=len(packages), moves=sum(a != b and a != "" for a, _, b, _ in calls))


def walks() -> dict[str, dict[str, int]]:
    env = EpisodeEnv(load("bundled"))
    env.reset(question_id="vet_clinic-02")
    found = {"a QUERY's argument": walk(lambda: env.step("QUERY", "SELECT count(*) FROM visit"))}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "questions.jsonl").write_text(
            json.dumps(
                {
                    "question": "How many visits?",
                    "sql": "SELECT count(*) FROM visit",
                    "database": "vet_clinic",
                }
            )
        )
        (Path(folder) / "vet_clinic.sqlite").write_bytes(
            (ROOT / "sql_env/bundled/vet_clinic.sqlite").read_bytes()
        )
        found["gold, from file to set"] = walk(lambda: load("folder", folder))
        one = load("folder", folder)
        question, database = one[0], one.database("vet_clinic")
        sql = "SELECT count(*) AS n FROM visit"
        found["gold, to the robust verdict"] = walk(
            lambda: judge_evidence(question.gold_sql, database, sql)
        )
        with FakeServer(lambda body: [("answer", {"value": "0"})]) as server:
            policy = ChatPolicy(Endpoint("m", server.url, api_key="none"))
            log = Path(folder) / "log.jsonl"
            found["a model's reply, from HTTP to log"] = walk(
                lambda: evaluate(one, policy, 1, log=log, progress=False)
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.json and "SQL_ENV_CACHE" in os.environ:
        print(json.dumps(walks()))
        return
    found = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first", "again"):  # the second process finds gold and instances in the cache
            command, env = (
                [sys.executable, __file__, "--json"],
                os.environ | {"SQL_ENV_CACHE": cache},
            )
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            found[name] = json.loads(done.stdout)
    if args.json:
        print(json.dumps(found, indent=1))
        return
    for name, counts in found["first"].items():
        again = found["again"][name]
        print(
            f"{name:40}{counts['packages']:>3} packages {counts['moves']:>3} moves; "
            f"again {again['packages']:>3} and {again['moves']:>3}"
        )


if __name__ == "__main__":
    main()
