"""Play on a running server as its users would: `python tests/play_server.py http://127.0.0.1:8000`.

Health, the page for people, OpenEnv's own validation, a wrong and a right episode by the client, two sessions at once.
"""

import subprocess
import sys
from urllib.request import urlopen

from sql_env import SQLAction, SQLEnv

address = sys.argv[1]


def play(env, answer: str):
    "An episode about the unpaid visits; its last result."
    env.reset(question_id="vet_clinic-02")
    for action_type, argument in (
        ("DESCRIBE", "visit"),
        ("QUERY", "SELECT count(*) FROM visit WHERE paid_on IS NULL"),
        ("ANSWER", answer),
    ):
        result = env.step(SQLAction(action_type=action_type, argument=argument))
    return result


with urlopen(f"{address}/health", timeout=60) as response:
    assert b"healthy" in response.read()
with urlopen(f"{address}/web", timeout=120) as response:
    assert response.status == 200 and b"<" in response.read()
subprocess.run([sys.executable, "-m", "openenv.cli", "validate", "--url", address], check=True)
with SQLEnv(base_url=address).sync() as first, SQLEnv(base_url=address).sync() as second:
    wrong, right = play(first, "43"), play(second, "@last")
    assert wrong.done and wrong.reward == 0 and right.done and right.reward == 1
print("played: health, page, validation, two sessions")
