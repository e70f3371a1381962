"""A process that runs attacks and reports what they did to it, so that a crash or a hang fails one attack only.

`test_attacks.py` looks at kinds, counts of operations and memory; `benchmarks/attacks.py` at the seconds too.
"""

import ctypes
import gc
import json
import select
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from attacks import HONEST

from sql_env.database.connection import _Budget
from sql_env.database.database import Database
from sql_env.database.guards import QueryError
from sql_env.sql.text import quote_identifier


def measure(work):
    "What `work` returned or raised, with its seconds of processor time and the megabytes that it added."
    gc.collect()
    with suppress(AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak of memory starts anew
    before, start = memory("VmRSS"), time.process_time()
    try:
        kind, text = "ok", work()
    except QueryError as e:
        kind, text = e.kind, str(e)
    except BaseException as e:
        kind, text = f"UNCAUGHT {type(e).__name__}", str(e)
    seconds = time.process_time() - start
    return dict(kind=kind, text=text, seconds=seconds, megabytes=memory("VmHWM") - before)


def memory(key):
    "Megabytes of a line of /proc/self/status, where there is one."
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(key)), 0)


def serve(path):
    "Answer requests, one JSON line each: a statement for the database at `path`, or another file to look at."
    database = Database(path)
    for line in sys.stdin:
        request = json.loads(line)
        if "file" in request:
            answer = measure(lambda: look(request["file"]))  # noqa: B023
        else:
            answer = measure(lambda: database.query(request["sql"]).text())  # noqa: B023
            answer["operations"] = sum(con.budget.ticks for con in database.pool.free) * _Budget.every
            answer["honest"] = database.query(HONEST).rows
            answer["pool"] = len(database.pool.free)
        print(json.dumps(answer), flush=True)


def look(path):
    "Use every table of a file like an agent; what came of each step."
    with Database(path) as db:
        steps = (
            lambda t: str(db.describe(t)),
            lambda t: db.sample(t, 3).text(),
            lambda t: db.query(f"SELECT * FROM {quote_identifier(t)} LIMIT 3").text(),
            lambda t: db.query(f"SELECT count(*) FROM {quote_identifier(t)}").text(),
        )
        return {table: [measure(partial(step, table)) for step in steps] for table in db.tables[:8]}


class Child:
    "The process; a new one is started after it died."

    def __init__(self, path):
        self.path, self.process = path, None

    def ask(self, seconds=60, **request):
        "The answer to a request; a process that hangs is killed, and `RuntimeError` raised."
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(self.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        ready = select.select([self.process.stdout], [], [], seconds)[0]
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.close()
            raise RuntimeError("the child died" if ready else "the child hangs")
        return json.loads(line)

    def close(self):
        if self.process:
            self.process.kill()
            self.process.communicate()
        self.process = None


if __name__ == "__main__":
    serve(sys.argv[1])
