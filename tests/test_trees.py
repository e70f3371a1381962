"Trees of rollouts: the same wherever they grow, written to logs and read back; values of states by continuations."

import json
from random import Random

import pytest
from made_sets import bundled

from sql_env import ChatPolicy, EpisodeEnv, OraclePolicy, RandomPolicy, RewardConfig, Session
from sql_env.evaluation import tree_rollouts
from sql_env.evaluation.rollouts import _fork_policy
from sql_env.play.acts import ACTS, Action
from sql_env.policies.requests import Completion, ModelError

ID = "vet_clinic-02"
GOLD = "SELECT count(*) FROM visit WHERE paid_on IS NULL"


def begun(question_id=ID, budget=6, reward="shaped", actions=()):
    session = Session(EpisodeEnv(bundled(), budget=budget, reward=getattr(RewardConfig, reward)()))
    session.begin(question_id, 2)
    for action in actions:
        session.reply(said(Action(*action)))
    return session


def said(action):
    act = ACTS[action[0]]
    function = dict(name=act.tool, arguments=json.dumps({act.parameter: action[1]}))
    return dict(role="assistant", content="", tool_calls=[dict(type="function", function=function)])


class Distracted:
    "The oracle, at some steps a random action."

    name = "distracted"

    def __init__(self, share=0.4):
        self.share, self.oracle, self.other, self.rng = share, OraclePolicy(bundled()), RandomPolicy(), Random(0)

    def select_action(self, observation):
        self.other.rng = self.rng
        return (self.other if self.rng.random() < self.share else self.oracle).select_action(observation)


class Writer:
    "A backend whose messages depend on the conversation and the seed; some are no calls."

    name, settings = "writer", {}

    def __init__(self, silent=0.0):
        self.silent, self.batches = silent, []

    def complete_many(self, conversations, tools, seeds):
        self.batches.append(len(conversations))
        return [self._say(c, s) for c, s in zip(conversations, seeds)]

    def complete(self, messages, tools, seed=0):
        return self._say(messages, seed)

    def _say(self, messages, seed):
        rng = Random(f"{seed}{len(messages)}")
        if rng.random() < self.silent:
            return Completion(dict(content="Hm."))
        choices = [("DESCRIBE", "visit"), ("QUERY", GOLD), ("QUERY", "SELECT 1"), ("ANSWER", "@last")]
        return Completion(said(Action(*rng.choice(choices))))


def told(root):
    "All that a tree says, but for the clock."
    nodes = list(root.walk())
    over = [(n.trajectory.messages, n.trajectory.episode) for n in nodes if n.trajectory]
    return str(root), over, [(n.path, n.state_key, n.reward, n.turn, n.trajectory is None) for n in nodes]


def test_a_tree_has_its_branches():
    session = begun()
    root = tree_rollouts(session, Distracted(), width=3, depth=2, seed=1)
    assert len(root.children) == 3 and session.actions == []
    for child in root.children:
        assert len(child.children) == (0 if child.trajectory else 3)
    for node in root.walk():
        if len(node.path) > 2:
            assert len(node.children) == (0 if node.trajectory else 1)
        assert node.trajectory is None or not node.children
    assert all(len(leaf.trajectory.turns) == len(leaf.path) for leaf in root.leaves)
    assert {leaf.trajectory.correct for leaf in root.leaves} == {True, False}
    for child in root.children:
        assert {str(leaf.trajectory.turns[0]) for leaf in child.leaves} == {str(child.turn)}


def test_values_are_means_over_children():
    root = tree_rollouts(begun(reward="partial"), Distracted(), width=2, depth=3, seed=5)
    for node in root.walk():
        worth = [c.reward + c.value for c in node.children]
        assert node.value == (pytest.approx(sum(worth) / len(worth)) if worth else 0)
    for leaf in root.leaves:
        path = [n for n in root.walk() if n.path and leaf.path[: len(n.path)] == n.path]
        assert sum(n.reward for n in path) == pytest.approx(leaf.trajectory.total_reward)
    (leaf,) = tree_rollouts(begun(), OraclePolicy(bundled()), width=1, depth=0).leaves
    assert leaf.trajectory.correct and leaf.path == (0, 0, 0), "a tree of one branch is a rollout"


def test_a_model_is_asked_once_for_all_branches():
    writer = Writer()
    tree_rollouts(begun(), ChatPolicy(writer), width=3, depth=2)
    assert writer.batches[0] == 3 and max(writer.batches) > 3 and len(writer.batches) <= 6


def test_a_model_goes_on_in_the_conversation_of_a_session():
    class Reader(Writer):
        def _say(self, messages, seed):
            self.last = list(messages)
            return Completion(said(Action("ANSWER", "@last")))

    session = begun(actions=[("DESCRIBE", "visit"), ("QUERY", GOLD)])
    reader = Reader()
    root = tree_rollouts(session, ChatPolicy(reader), 2, 1)
    assert reader.last == session.messages and len(session.messages) == 6
    assert [leaf.path for leaf in root.leaves] == [(0, 0, 0), (0, 0, 1)]
    assert all(leaf.trajectory.correct for leaf in root.leaves) and not session.done


def test_who_gives_up_pays_and_who_crashes_does_not_count():
    class Half(Writer):
        def _say(self, messages, seed):
            return ModelError("the server is gone") if seed % 2 else Completion(dict(content="Hm."))

    silent = tree_rollouts(begun(), ChatPolicy(Writer(1.0), nudges=0), 2, 1)
    stopped = begun().episode.ask.meter.if_stopped
    assert silent.value == pytest.approx(stopped) and stopped < 0
    assert [leaf.turn for leaf in silent.leaves] == [None, None]
    root = tree_rollouts(begun(), ChatPolicy(Half(), nudges=0), 8, 1)
    crashed = [leaf.trajectory.error is not None for leaf in root.leaves]
    assert any(crashed) and not all(crashed) and root.value == pytest.approx(stopped)
    assert "(gave up)" in str(root)


def test_forks_of_policies_do_not_share():
    policy = Distracted()
    one, other = _fork_policy(policy, 1), _fork_policy(policy, 2)
    assert one.rng is not policy.rng and one.rng.random() != other.rng.random()
    chat = ChatPolicy(Writer())
    chat.on_observation(begun().observation)
    twin = chat.fork(7)
    twin.on_completion(Completion(said(Action("QUERY", GOLD))))
    assert len(chat.messages) == 2 and len(twin.messages) == 3 and chat.usage["calls"] == 0
    assert (chat.seed, twin.seed) == (0, 7)


def test_what_can_not_be_a_tree():
    for arguments in ((0, 1), (2, -1), ([3, 0],), (2, 13)):
        with pytest.raises(ValueError, match="1 to 4096" if arguments == (2, 13) else "no tree"):
            tree_rollouts(begun(), RandomPolicy(), *arguments)
    for session in (begun(actions=[("ANSWER", "44")]), Session(EpisodeEnv(bundled()))):
        with pytest.raises(ValueError, match="not over"):
            tree_rollouts(session, RandomPolicy())
    assert tree_rollouts([], RandomPolicy()) == []
