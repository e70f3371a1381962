"""Make a set of questions on a database of your own, and see how the baselines do.

python examples/own_data.py my_data    # the folder is made and filled with a small example
"""

import json
import sqlite3
import sys
from pathlib import Path

from sql_env import GreedyPolicy, OraclePolicy, evaluate, load

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "my_data")
folder.mkdir(exist_ok=True)

database = sqlite3.connect(folder / "harbour.sqlite")
database.execute(
    "CREATE TABLE IF NOT EXISTS ship (name TEXT PRIMARY KEY, captain TEXT, tonnes REAL)"
)
ships = [("Aurora", "Ines", 120.5), ("Bora", "Max", 80.0), ("Cirrus", "Ines", 300.0)]
database.executemany("INSERT OR REPLACE INTO ship VALUES (?, ?, ?)", ships)
database.commit()
database.close()

rows = [
    {
        "question": "How many ships does Ines command?",
        "sql": "SELECT count(*) FROM ship WHERE captain = 'Ines'",
    },
    {
        "question": "Which ship is the heaviest?",
        "sql": "SELECT name FROM ship ORDER BY tonnes DESC LIMIT 1",
    },
]
lines = [json.dumps(row | {"database": "harbour"}) for row in rows]
(folder / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

questions = load("folder", path=folder)
for policy in (GreedyPolicy(), OraclePolicy(questions)):
    print(evaluate(questions, policy, progress=False))
