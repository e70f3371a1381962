"A running server: what it promises, what it survives, what it never says."

import asyncio
import concurrent.futures
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from conftest import run
from serving import Server, Session, ask, benchmark

from sql_env import EpisodeEnv, OraclePolicy, RandomPolicy, SQLAction, evaluate
from sql_env.client import SessionLostError, SQLEnv, list_questions
from sql_env.grading.answers import format_rows
from sql_env.paths import BUNDLED
from sql_env.questions.question_set import save_question_set

pytestmark = pytest.mark.slow  # a server in a process of its own


@pytest.fixture(scope="module")
def server():
    with Server(ENABLE_WEB_INTERFACE="true") as s:
        yield s


def http(server, path, data=None):
    return ask(server.port, path, "GET" if data is None else "POST", data, **{"Content-Type": "application/json"})[:2]


def test_questions_are_listed_under_every_address_that_a_client_takes(server, questions):
    named = (f"{server.http}/", f"localhost:{server.port}", f"ws://127.0.0.1:{server.port}/")
    for address in named:
        with SQLEnv(address).sync() as client:
            client.reset()
        assert len(list_questions(address)) == len(questions), address


def query(sql="SELECT 1"):
    return SQLAction(action_type="QUERY", argument=sql)


def test_endpoints(server):
    found = {path: json.loads(http(server, path)[1]) for path in ("/health", "/metadata", "/schema", "/sql_env/splits")}
    assert found["/health"] == {"status": "healthy"}
    assert found["/metadata"]["name"] == "sql_env"
    action = found["/schema"]["action"]["properties"]
    assert action["action_type"]["enum"] == ["DESCRIBE", "SAMPLE", "QUERY", "ANSWER"] and "argument" in action
    assert "step_budget" in found["/schema"]["state"]["properties"]
    assert found["/sql_env/splits"][0] == {"name": "train", "type": "train"}
    assert http(server, "/docs")[0] == http(server, "/state")[0] == 200
    assert "explore a hidden" in http(server, "/web/")[1]
    status, body = http(server, "/reset", {"split": "test", "index": 3})
    assert status == 200 and json.loads(body)["reward"] is None and json.loads(body)["observation"]["question"]


def test_wrong_requests_get_4xx(server):
    for path, data, status, says in [
        ("/reset", {"spilt": "test"}, 422, "spilt"),
        ("/step", {"action": {"action_type": "DROP"}}, 422, "DESCRIBE"),
        ("/sql_env/num_tasks", {"split": "dev"}, 422, "train"),
        ("/sql_env/task", {"split": "test", "index": 10**9}, 400, "index"),
        ("/step", b"{", 422, "JSON"),
        ("/web/step", {"action": {"action_type": "DROP"}}, 404, "Not Found"),
        ("/step", b"x" * 2_000_000, 413, "1048576"),
        ("/web/gradio_api/upload", b"x", 404, "does not use"),
        ("/mcp", {"jsonrpc": "2.0", "method": "tools/delete", "id": 1, "params": {}}, 200, '"code":-32601'),
    ]:
        found, said = http(server, path, data)
        assert found == status and says in said.replace(" ", "" if path == "/mcp" else " "), path


def test_no_file_of_gold_is_served(server):
    secret = str(BUNDLED / "questions.jsonl")
    for path in (
        f"/web/gradio_api/file={secret}",
        f"/web/file={secret}",
        "/web/gradio_api/file=/proc/self/environ",
        "/web/static/../../questions.jsonl",
        "/web/gradio_api/proxy=http://127.0.0.1:1/x",
        "/sql_env/bundled/questions.jsonl",
    ):
        status, body = http(server, path)
        assert status >= 400 and "gold" not in body and "PATH=" not in body, path


def test_upstream_validation_of_the_running_server(server):
    said = run(sys.executable, "-m", "openenv.cli", "validate", "--url", server.http, cwd=".")
    assert "Verdict: PASS" in said, said


def told(e):
    "What a result says of an episode, as far as a client can know it."
    verdict = e.question_id, e.correct, e.grounded, e.robust, e.total_reward
    return *verdict, e.steps, e.error, e.error_kinds, e.database


def test_evaluate_is_the_same_here_and_there(server, questions):
    for policy in (OraclePolicy(questions), RandomPolicy(3)):
        here = evaluate(EpisodeEnv(questions), policy, 40, seed=5, progress=False, robust=False)
        with SQLEnv(base_url=server.http).sync() as client:
            there = evaluate(client, policy, 40, seed=5, progress=False)
        assert [told(e) for e in here.episodes] == [told(e) for e in there.episodes]
        assert len({e.gold for e in there.episodes}) > 20, "questions without gold are not one cluster"
    with SQLEnv(base_url=server.http).sync() as client, concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert evaluate(client, OraclePolicy(questions), 40, seed=5, executor=pool, progress=False).success_rate == 1


def test_robust_verdicts_travel_where_answers_are_graded_so(questions):
    here = evaluate(EpisodeEnv(questions, verify="robust"), OraclePolicy(questions), 10, progress=False)
    with Server(SQL_ENV_VERIFY="robust") as s, SQLEnv(base_url=s.http).sync() as client:
        there = evaluate(client, OraclePolicy(questions), 10, progress=False)
    assert [told(e) for e in here.episodes] == [told(e) for e in there.episodes]
    assert there.robust_rate > 0


def test_a_restarted_server_is_an_error_of_its_episode(questions):
    at = {}

    class Cut(OraclePolicy):
        "Stops and starts the server in the middle of the third episode."

        def reset(self, seed):
            at["episode"] = at.get("episode", -1) + 1

        def select_action(self, obs):
            if at["episode"] == 2 and obs.step_count == 1 and not at.get("cut"):
                at["cut"] = True
                at["server"].__exit__()
                at["server"].process = at["server"].start([benchmark.OURS], subprocess.DEVNULL)
                at["server"].__enter__()
            return super().select_action(obs)

    with Server() as at["server"], SQLEnv(base_url=at["server"].http).sync() as client:
        result = evaluate(client, Cut(questions), 6, progress=False)
    assert at["cut"] and [bool(e.error) for e in result.episodes] == [False, False, True, False, False, False]
    assert "SessionLostError" in result.episodes[2].error and result.success_rate == 1 and result.n_completed == 5


def test_two_clients_with_one_episode_id_share_nothing(server):
    with SQLEnv(base_url=server.http).sync() as a, SQLEnv(base_url=server.http).sync() as b:
        a.reset(question_id="vet_clinic-05", episode_id="same")
        b.reset(question_id="film_festival-04", episode_id="same")
        a.step(query())
        assert a.state().question_id == "vet_clinic-05" and a.state().step_count == 1
        assert b.state().question_id == "film_festival-04" and b.state().step_count == 0


def eventually(what, seconds=120):
    "The value of `what()` once it neither raises nor is false."
    end = time.monotonic() + seconds
    while True:
        try:
            if found := what():
                return found
        except Exception:
            if time.monotonic() > end:
                raise
        if time.monotonic() > end:
            return None
        time.sleep(0.1)


def test_messages_that_are_not_messages(server):
    async def main():
        import websockets

        s = await Session.open(server.ws)
        await s.call("reset", question_id="vet_clinic-05")
        for code, kind, data in [
            ("UNKNOWN_TYPE", "fly", {}),
            ("VALIDATION_ERROR", "step", dict(action_type="DROP", argument="owner")),
            ("VALIDATION_ERROR", "step", dict(action_type="ANSWER", argument="a" * 100_001)),
            ("VALIDATION_ERROR", "step", dict(action_type="QUERY", argument="\ud800")),
            ("EXECUTION_ERROR", "reset", dict(spilt="test")),
        ]:
            answer = await s.call(kind, **data)
            assert answer["type"] == "error" and answer["data"]["code"] == code, (kind, str(data)[:60])
        assert json.loads(await s.raw('{"type": "st'))["data"]["code"] == "INVALID_JSON"
        assert json.loads(await s.raw('{"type": "state"}'))["data"]["step_count"] == 0
        with pytest.raises(websockets.ConnectionClosed) as e:
            await s.raw("x" * 10_000_000)
        assert e.value.rcvd.code == 1009
        half = await asyncio.open_connection("127.0.0.1", server.port)
        half[1].write(b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgr")
        half[1].close()
        flood = await Session.open(server.ws)
        for _ in range(500):
            await flood.ws.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
        flood.ws.transport.abort()  # a client that waits for nothing
        calm = await Session.open(server.ws)
        assert (await calm.call("reset", seed=1))["data"]["observation"]["question"]

    asyncio.run(main())
    assert http(server, "/health")[0] == 200


def test_a_client_that_times_out_knows_that_its_episode_is_lost(server):
    env = SQLEnv(base_url=server.http, message_timeout_s=0.3).sync()
    eventually(lambda: env.reset(question_id="vet_clinic-05"))
    server.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(SessionLostError, match="0.3 seconds"):
            env.step(query())
    finally:
        server.process.send_signal(signal.SIGCONT)
    with pytest.raises(SessionLostError):
        env.step(query())
    assert eventually(lambda: env.reset(question_id="vet_clinic-05").observation.question)
    env.close()


def test_a_full_server_says_so_and_idle_sessions_are_closed():
    with Server(SQL_ENV_IDLE="5", MAX_CONCURRENT_ENVS="1") as s, SQLEnv(base_url=s.http).sync() as idle:
        idle.reset(seed=1)
        other, third = SQLEnv(base_url=s.http).sync(), SQLEnv(base_url=s.http).sync()
        with pytest.raises(RuntimeError, match="capacity"):
            other.reset(seed=1)
        assert eventually(lambda: other.reset(seed=1).observation.question)
        with pytest.raises(SessionLostError):
            idle.step(query())
        other.close()
        assert eventually(lambda: third.reset(seed=1).observation.question)
        third.close()


def traffic(server, plans):
    "All text that the server sends for some episodes, as a list per episode."

    async def main():
        out = []
        s = await Session.open(server.ws)
        for reset, actions in plans:
            steps = (dict(type="step", data=dict(action_type=kind, argument=text)) for kind, text in actions)
            messages = [dict(type="reset", data=reset), *steps]
            out.append([await s.raw(json.dumps(m)) for message in messages for m in (message, dict(type="state"))])
        await s.ws.close()
        return out

    return asyncio.run(main())


def leak_plans(questions, n=200):
    "Episodes of an agent that never computes gold: it looks, errs, and answers wrongly."
    out = []
    for i, q in enumerate((list(questions) * 2)[:n]):
        t = q.tables_involved[i % len(q.tables_involved)]
        ends = [("ANSWER", "wrong"), ("ANSWER", "@last"), ("ANSWER", "["), ("ANSWER", "1 | 2\n3 | 4")][i % 4]
        asked = [f"SELECT count(*) AS n FROM {t}", f"SELECT nothing FROM {t}", "SELECT * FROM sqlite_master"]
        actions = [("DESCRIBE", t), *[("QUERY", sql) for sql in asked], ends, ("QUERY", "SELECT 1")]
        out.append((dict(question_id=q.question_id, episode_id=f"e{i}", seed=i), actions))
    return out


def test_traffic_of_200_episodes_holds_no_gold(server, questions):
    plans, searched = leak_plans(questions), 0
    for (reset, actions), texts in zip(plans, traffic(server, plans)):
        q, sent = questions.get(reset["question_id"]), " ".join(texts)
        db = questions.database(q.database_name)
        seen = [*map(db.describe, db.tables), *(text for _, text in actions), db.query(actions[1][1]).text()]
        own = " ".join(map(str, [q.question_text, *seen]))
        assert q.gold_sql not in sent and json.dumps(q.gold_sql)[1:-1] not in sent
        assert "gold" not in sent.lower().replace(q.question_text.lower(), "")
        for row in q.gold_answer:
            shown = format_rows([row])
            if len(shown) > 3 and shown not in own:
                searched += 1
                assert shown not in sent and json.dumps(shown)[1:-1] not in sent, (q.question_id, shown)
    assert searched > 500


def test_gold_does_not_influence_what_is_sent(server, questions, tmp_path):
    "The same episodes on a set whose gold was replaced: every byte is the same but the verdict's."
    poison = dict(gold_sql="SELECT 'poison'", answer_type="string", ranks=None)
    other = [replace(q, gold_answer=(("poison",),) * (1 + i % 3), **poison) for i, q in enumerate(questions)]
    folder = save_question_set(questions.with_questions(other), tmp_path / "poisoned")
    plans = leak_plans(questions)
    with Server(SQL_ENV_SOURCE="folder", SQL_ENV_PATH=str(folder)) as poisoned:
        for mine, theirs in zip(traffic(server, plans), traffic(poisoned, plans)):
            assert list(map(blank, mine)) == list(map(blank, theirs))


def blank(text):
    d = json.loads(text)
    for part in (d["data"], d["data"].get("observation") or {}):
        part.pop("reward", None)
        for key in ("correct", "grounded"):
            (part.get("metadata") or {}).pop(key, None)
    return d


@pytest.mark.full
def test_load_and_hostility_in_small(server):
    "The load generator's own checks without its times; the figures are in benchmarks/server.json."
    found = benchmark.run(["load", "memory", "hostile"], quick=True)
    for name in ("load", "hostile"):
        wrong = [found[name][kind] for kind in ("errors", "different", "wrong_verdicts")]
        assert wrong == [0, 0, 0], found[name]
    assert found["memory"]["kb_per_session"] < 200 and found["hostile"]["healthy"]


def test_the_comparison_can_fail(server):
    faults, plan = dict(errors=0, different=0, wrong_verdicts=0), benchmark.plans(1)[0]
    wrong = (*plan[:2], [(dict(o, result="other"), r, d) for o, r, d in plan[2]], not plan[3])

    async def main():
        s = await Session.open(server.ws)
        await benchmark.play(s, wrong, faults)
        await s.ws.close()

    asyncio.run(main())
    assert faults["different"] > 1 and faults["wrong_verdicts"] == 1
