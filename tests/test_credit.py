"Credit for turns: weights and baselines of trees, the tokens that are learned, and rows for other trainers."

import json
import math
from functools import lru_cache

import pytest

from sql_env import EpisodeEnv, RewardConfig, Session
from sql_env.evaluation import tree_rollouts
from sql_env.evaluation.logs import EpisodeResult, Trajectory
from sql_env.evaluation.trees import TreeNode
from sql_env.play.chat import TOOLS
from sql_env.play.episode import Action, Episode, Turn
from sql_env.policies.base import Completion
from sql_env.policies.chat import ChatPolicy
from sql_env.sources.generated.world import World
from sql_env.sources.loading import load
from sql_env.training.credit import gigpo_credit, sibling_credit
from sql_env.training.turn_rows import (
    hindsight_trajectories,
    preference_rows,
    trace_info,
    turn_places,
    turn_reward_rows,
)

ID = "vet_clinic-02"
GOLD = "SELECT count(*) FROM visit WHERE paid_on IS NULL"


def made(*children, reward=0.0, key="", error=None):
    "A node of a tree; paths are filled in by `rooted`."
    node = TreeNode((), Turn(Action("QUERY", "SELECT 1")), reward, key, list(children))
    if not children:
        node.trajectory = Trajectory(EpisodeResult(0, "", error=error), {}, [])
    return node


def rooted(*children, key="start"):
    root = made(*children, key=key)

    def fill(node, path):
        node.path = path
        for i, child in enumerate(node.children):
            fill(child, (*path, i))

    fill(root, ())
    return root


def told(credits):
    return {c.node.path: (round(c.weight, 4), round(c.advantage, 4)) for c in credits}


def test_siblings_are_compared_and_their_tails_inherit():
    root = rooted(made(made(reward=1.0)), made(made(reward=0.0)), made(made(reward=0.5)))
    third = round(1 / 3, 4)
    assert told(sibling_credit(root)) == {
        (0,): (third, 0.75),
        (0, 0): (third, 0.75),
        (1,): (third, -0.75),
        (1, 0): (third, -0.75),
        (2,): (third, 0.0),
        (2, 0): (third, 0.0),
    }


def test_the_value_of_a_try_is_the_mean_of_its_own_tries():
    root = rooted(made(made(reward=1.0), made(reward=0.0)), made(reward=0.25))
    assert root.value == pytest.approx((0.5 + 0.25) / 2)
    assert told(sibling_credit(root)) == {
        (0,): (0.5, 0.25),
        (0, 0): (0.25, 1.0),
        (0, 1): (0.25, -1.0),
        (1,): (0.5, -0.25),
    }


def test_what_crashed_does_not_count():
    root = rooted(made(reward=1.0), made(reward=0.0), made(error="ModelError: gone"))
    assert told(sibling_credit(root)) == {(0,): (0.5, 1.0), (1,): (0.5, -1.0)}
    lost = rooted(made(error="ModelError: gone"))
    assert sibling_credit(lost) == [] and math.isnan(lost.value)


def test_a_turn_before_the_first_branching_gets_its_return():
    root = rooted(made(made(reward=1.0), made(reward=0.5), reward=0.1))
    assert told(sibling_credit(root))[(0,)] == (1.0, 0.85)


def test_equal_states_are_compared_across_paths():
    root = rooted(
        made(made(reward=1.0), key="same"), made(made(reward=0.0), key="same"), made(reward=0.5)
    )
    pure = told(gigpo_credit([root], 1))
    assert pure[(0, 0)][1] == 1.0 and pure[(1, 0)][1] == -1.0
    half = told(gigpo_credit([root]))
    assert half[(0, 0)][1] == pytest.approx((1.0 + 0.75) / 2)
    alone = rooted(made(made(reward=1.0), key="a"), made(made(reward=0.0), key="b"))
    assert told(gigpo_credit([alone], 1))[(0, 0)][1] == 1.0, "it keeps what it has among tries"


def test_trees_of_one_question_share_their_states():
    one, other = rooted(made(reward=1.0)), rooted(made(reward=0.0))
    assert told(gigpo_credit([one, other], 1))[(0,)] == (0.5, -1.0)


# ---- rows


@lru_cache(None)
def bundled():
    return load("bundled")


def said(*action, content=""):
    name, parameter = TOOLS[action[0]]
    function = dict(name=name, arguments=json.dumps({parameter: action[1]}))
    return dict(
        role="assistant", content=content, tool_calls=[dict(type="function", function=function)]
    )


class Chooser:
    "A backend that describes, thinks aloud now and then, and answers right where its seed is even."

    name, settings, max_new_tokens = "chooser", {}, 9

    def complete_many(self, conversations, tools, seeds):
        return [self._say(c, s) for c, s in zip(conversations, seeds)]

    def _say(self, messages, seed):
        tokens = dict(token_ids=[seed % 5, len(messages)])
        if messages[-1]["role"] == "user" and len(messages) == 2:
            message = dict(content="Let me see.") if seed % 3 == 0 else said("DESCRIBE", "visit")
        elif messages[-1]["role"] == "user":
            message = said("DESCRIBE", "visit")
        elif messages[-1]["name"] == "describe":
            message = said("QUERY", GOLD if seed % 2 else "SELECT count(*) FROM visit")
        else:
            message = said("ANSWER", "@last")
        return Completion(message | tokens)

    def tokens(self, messages, tools=()):
        "A conversation as this model reads it: 100 and the length of each message of others, and its own tokens."
        read = []
        for m in messages:
            own = m["role"] == "assistant"
            read += [*m["token_ids"], 99] if own else [100, len(m["content"] or "")]
        return read


def grown(width=3, depth=2, budget=6):
    env = EpisodeEnv(bundled(), budget, RewardConfig.sparse())
    session = Session(env)
    session.begin(ID)
    policy = ChatPolicy(Chooser(), nudges=2)
    return tree_rollouts(session, policy, width, depth, seed=2), env, policy


def test_turns_of_a_conversation():
    bad = dict(
        role="assistant", content="", tool_calls=[dict(function=dict(name="x", arguments="{}"))]
    )
    twice = said("DESCRIBE", "visit")
    twice["tool_calls"] *= 2
    messages = [
        dict(role="user", content=""),
        bad,
        twice,
        dict(role="assistant", content="Hm."),
        twice,
    ]
    assert turn_places(messages) == [(1, 0), (2, 0), (3, 2), (4, 2)]


def test_preference_pairs_part_at_one_turn():
    root, env, _ = grown()
    rows = preference_rows([root], env)
    assert rows
    for row in rows:
        assert row["prompt"][-1]["role"] in ("user", "tool") and len(row["chosen"]) == 1
        assert row["chosen"][0]["role"] == row["rejected"][0]["role"] == "assistant"
        assert row["chosen"] != row["rejected"]
        assert not any("token_ids" in m for m in [*row["prompt"], *row["chosen"]])
        assert "query" in row["tools"] and json.loads(row["tools"])
    queries = [json.dumps(r["chosen"]) for r in rows if "query" in json.dumps(r["chosen"])]
    assert queries and all("IS NULL" in q for q in queries)
    assert preference_rows([root], env, margin=2) == []


def test_rows_with_scores_have_one_for_each_message():
    root, env, _ = grown()
    for row in turn_reward_rows([root], env):
        n = sum(m["role"] == "assistant" for m in row["messages"])
        assert len(row["turn_rewards"]) == len(row["turn_advantages"]) == n
        assert row["turn_rewards"][-1] in (0, 1) and not any(row["turn_rewards"][:-1])
    for leaf in root.leaves:
        scores = trace_info(root, leaf)["turn_rewards"]
        assert len(scores) == len(leaf.path)
        assert scores[-1] == leaf.trajectory.episode.total_reward


def test_rows_take_trees_of_policies_without_messages():
    from sql_env.policies.baselines import RandomPolicy

    env = EpisodeEnv(bundled(), 4, RewardConfig.shaped())
    session = Session(env)
    session.begin(ID)
    root = tree_rollouts(session, RandomPolicy(), 4, 2, seed=1)
    rows = turn_reward_rows([root], env)
    assert len(rows) == len(root.leaves) and rows[0]["messages"][0]["role"] == "system"
    assert preference_rows([root], env, margin=0.01)


def test_hindsight_finds_the_question_that_was_answered():
    world = World(11, 1, n=40)
    asked, others = world.questions[0], world.questions[1:]
    found = []
    for other in others[:6]:
        episode = Episode(asked, world.database)
        episode.reset(3)
        for action in (
            ("DESCRIBE", other.tables_involved[0]),
            ("QUERY", "SELECT nothing"),
            ("QUERY", other.gold_sql.replace("SELECT", "select  ")),
            ("ANSWER", "nothing of this"),
        ):
            episode.step(*action)
        found.append(Trajectory.from_episode(episode))
    right = Episode(asked, world.database)
    right.reset()
    _ = right.step("QUERY", asked.gold_sql), right.step("ANSWER", "@last")
    made = hindsight_trajectories(world, [Trajectory.from_episode(right), *found, *found])
    ids = {q.question_id for q in others[:6]}
    assert {t.episode.question_id for t in made} == ids and len(made) == 6
    for t in made:
        assert t.correct and len(t.turns) == 4 and t.turns[-1].action == ("ANSWER", "@last")


# ---- tokens


def test_tokens_of_a_tree_count_each_turn_once():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from sql_env.training.tree_trainer import token_rows

    root, _, policy = grown()
    credits = sibling_credit(root)
    rows = token_rows(root, credits, policy.backend, end=99, limit=9)
    for row in rows:
        assert len(row.tokens) == len(row.written) == len(row.credit)
        assert all(w or not c for w, c in zip(row.written, row.credit))
    by_path = {n.path: n for n in root.walk()}
    earned = {id(c.node): c.weight * c.advantage for c in credits}
    counted, wanted = set(), 0.0
    for leaf in root.leaves:
        for place, taken in turn_places(leaf.trajectory.messages):
            node = by_path[leaf.path[: taken + 1]]
            if (id(node), place) not in counted:
                counted.add((id(node), place))
                wanted += 3 * earned[id(node)]  # two tokens and the end
    assert sum(map(sum, (r.written for r in rows))) == 3 * len(counted)
    assert sum(map(sum, (r.credit for r in rows))) == pytest.approx(wanted)


def test_a_turn_that_was_told_in_other_words_begins_a_row():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from sql_env.training.tree_trainer import TokenRow

    row = TokenRow([], [], [])
    assert row.add([1, 2], [3, 9], 0.5, True) and row.add([1, 2, 3, 9, 4], [5], -1.0, True)
    assert row.tokens == [1, 2, 3, 9, 4, 5] and row.credit == [0, 0, 0.5, 0.5, 0, -1.0]
    assert row.written == [False, False, True, True, False, True]
    assert not row.add([1, 2, 7, 9, 4, 5, 6], [8], 1.0, True) and len(row.tokens) == 6
