"A Ray cluster of two nodes on this machine, one of which dies while episodes run: none is lost, none counts twice."

import os
import threading
import time
from collections import Counter
from itertools import cycle

import pytest
from conftest import ROOT
from ray_executor import RayExecutor

from sql_env import EpisodeEnv, GreedyPolicy, Session, evaluate, load
from sql_env.evaluation import read_log

pytestmark = [pytest.mark.slow, pytest.mark.full]


def note(folder, text: str) -> None:
    import ray

    with open(folder / ray.get_runtime_context().get_node_id(), "a") as file:
        file.write(f"{text}\n")
    time.sleep(0.3)


def noted(folder) -> dict[str, list[str]]:
    return {path.name: path.read_text().splitlines() for path in folder.iterdir()}


class Slow(GreedyPolicy):
    "Right sometimes and wrong mostly, and it notes where each episode begins."

    def __init__(self, folder):
        self.folder = folder

    def select_action(self, observation):
        if observation.step_count == 0 and self.folder is not None:
            note(self.folder, observation.question)
        return super().select_action(observation)


def play(session, question, folder):
    note(folder, question.question_id)
    session.begin(question.question_id)
    session.call("query", dict(sql=session.episode.question.gold_sql))
    session.call("answer", dict(value="@last"))
    return question.question_id, session.verdict().correct


@pytest.fixture
def nodes():
    "Two nodes that work, beside a head that does not; the function kills the second one for good."
    ray = pytest.importorskip("ray", reason="ray: pip install 'sql_env[cluster]'")
    from ray.cluster_utils import Cluster

    size = dict(object_store_memory=100 * 2**20, include_dashboard=False)
    cluster = Cluster(initialize_head=True, head_node_args=dict(num_cpus=0, **size))
    cluster.add_node(num_cpus=1, **size)
    second = cluster.add_node(num_cpus=1, **size)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    ray.init(cluster.address, log_to_driver=False, runtime_env=dict(env_vars=dict(PYTHONPATH=paths)))

    def kill_later(folder) -> threading.Thread:
        def wait():
            while len(noted(folder).get(second.node_id, ())) <= 3:
                time.sleep(0.02)
            cluster.remove_node(second, allow_graceful=False)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        return thread

    try:
        yield second.node_id, kill_later
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_node_that_dies_during_an_evaluation(nodes, tmp_path):
    second, kill_later = nodes
    (folder := tmp_path / "noted").mkdir()
    questions = load("bundled", split="test")
    alone = evaluate(questions, Slow(None), progress=False)
    killer = kill_later(folder)
    result = evaluate(questions, Slow(folder), executor=RayExecutor(), log=tmp_path / "a.jsonl", progress=False)
    killer.join(60)
    begun = noted(folder)
    assert len(begun) == 2 and len(begun[second]) > 3, "both played"
    assert sum(map(len, begun.values())) > len(questions), "what the dead node had was begun again"
    assert result == alone and result.n_completed == len(questions)
    assert 0 < sum(e.correct for e in result.episodes) < len(questions)
    written = Counter(t.episode_index for t in read_log(tmp_path / "a.jsonl")[1])
    assert written == Counter(range(len(questions)))


def test_a_node_that_dies_under_actors(nodes, tmp_path):
    import ray

    (folder := tmp_path / "noted").mkdir()
    questions = load("bundled", split="test")
    Worker = ray.remote(Session).options(max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD")
    workers = [Worker.remote(EpisodeEnv(questions)) for _ in range(4)]
    asked = [worker.__ray_call__.remote(play, q, folder) for worker, q in zip(cycle(workers), questions)]
    killer = nodes[1](folder)
    results = ray.get(asked, timeout=240)
    killer.join(60)
    assert sum(map(len, noted(folder).values())) > len(questions) and len(noted(folder)) == 2
    assert results == [(q.question_id, True) for q in questions]
