"""The solution of this package, for validators: answers every question of a running server with its gold query.

`python .openenv/oracle.py http://localhost:8000`, where the questions of the server can be read (SQL_ENV_SOURCE,
SQL_ENV_PATH). It is in no image, wheel or Space. Exits with 1 if an answer is not paid in full.
"""

import sys

from sql_env import OraclePolicy, evaluate
from sql_env.client import SQLEnv
from sql_env.server.app import Settings, _load_questions

with SQLEnv(base_url=sys.argv[1] if sys.argv[1:] else "http://localhost:8000").sync() as client:
    oracle = OraclePolicy(_load_questions(Settings()))
    rewards = [e.total_reward for e in evaluate(client, oracle, progress=False).episodes]
print(f"{len(rewards)} episodes, rewards {min(rewards)} to {max(rewards)}")
sys.exit(min(rewards) < 1)
