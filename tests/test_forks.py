"Going back: a fork and its origin are episodes of their own, of the same small size anywhere; states need no replay."

import gc
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law
from made_sets import bundled

from sql_env import Episode, EpisodeEnv, RandomPolicy, RewardConfig, Session, load, play_episode
from sql_env.grading import answers
from sql_env.play.acts import ACTS, Action

ID = "vet_clinic-02"
GOLD = "SELECT count(*) FROM visit WHERE paid_on IS NULL"
QUERIES = "SELECT * FROM owner", "SELECT group_concat(name) FROM animal", "SELECT nothing FROM visit", "SELECT 44"
ACTIONS = [Action("DESCRIBE", "visit"), Action("DESCRIBE", "owner"), Action("SAMPLE", "animal")]
ACTIONS += [Action("QUERY", sql) for sql in (GOLD, *QUERIES)] + [Action("SAMPLE", "nowhere")]
ACTIONS += [Action("ANSWER", text) for text in ("@last", "44", "847")]
REWARDS = dict(shaped=RewardConfig.shaped(), partial=RewardConfig.partial())
MOVES = st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.sampled_from(ACTIONS))), max_size=40)


def begun(reward="shaped", budget=8, seed=3, after=()):
    q = bundled().get(ID)
    episode = Episode(q, bundled().database(q.database_name), reward=REWARDS[reward], budget=budget)
    episode.reset(seed)
    for action in after:
        episode.step(*action)
    return episode


def facts(episode):
    "All that can be asked of an episode."
    asked, evidence = episode.ask, episode.board.evidence
    paid = episode.turns, episode.total_reward, asked.meter.if_stopped, episode.verdict, episode.grounded
    known = episode.last, episode.queries, asked.has_looked, evidence.size, str(episode.schema)
    return paid, known, episode.history, episode.state_key


def play_branches(moves, root, take):
    "Branches of one episode in which actions are taken in turns; `None` forks. Each with its actions and observations."
    branches = [(root, [], [])]
    for place, action in moves:
        branch, taken, seen = branches[place % len(branches)]
        if action is None:
            branches.append((branch.fork(), list(taken), list(seen)))
        else:
            seen.append(take(branch, action))
            taken.append(action)
    return branches


def check_branches(moves, reward):
    "Byte for byte what a fresh episode gives that was played by the same actions."
    for episode, taken, seen in play_branches(moves, begun(reward), lambda it, action: it.step(*action)):
        fresh = begun(reward)
        assert [fresh.step(*action) for action in taken] == seen
        assert facts(episode) == facts(fresh)


@given(MOVES, st.sampled_from(sorted(REWARDS)))
@law(60)
def test_each_branch_is_an_episode_of_its_own(moves, reward):
    check_branches(moves, reward)


@given(MOVES)
@law(25)
def test_branches_that_forget_results_do_not_forget_for_others(moves):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "MAX_RESULT_BYTES", 2_000)
        check_branches(moves, "partial")


def test_a_reward_asks_the_evidence_of_its_branch():
    "What a branch forgets, its reward no longer compares; the other branch has it still."
    large = Action("QUERY", "SELECT 44, group_concat(name || name || name) FROM animal")
    first = begun("partial", after=[large])
    second = first.fork()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "MAX_RESULT_BYTES", first.board.evidence.size + 100)
        second.step("SAMPLE", "owner")
        assert second.board.evidence.seen[0].result is None and second.board.evidence.last_seen.result is None
        assert first.board.evidence.seen[0].result is not None and first.last is not None
        fresh = begun("partial", after=[large, ("SAMPLE", "owner")])
        for episode in (second, fresh):
            episode.step("ANSWER", "45")
    first.step("ANSWER", "45")
    assert second.turns == fresh.turns and facts(second) == facts(fresh)


@pytest.mark.parametrize("kind", ["episode", "session"])
def test_a_fork_costs_the_same_anywhere(kind):
    sizes = []
    for depth in (1, 20):
        session = Session(EpisodeEnv(bundled(), budget=100, reward=RewardConfig.shaped()))
        session.begin(ID)
        for i in range(depth):
            session.call("query", dict(sql=f"SELECT name, {i} FROM animal LIMIT 5"))
        origin = session if kind == "session" else session.episode
        origin.fork()
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        kept = [origin.fork() for _ in range(100)]
        sizes.append((tracemalloc.get_traced_memory()[0] - before) / len(kept))
        tracemalloc.stop()
    most = 2000 if sys.version_info < (3, 13) else 2400  # which has larger objects
    assert max(sizes) < most and max(sizes) - min(sizes) < 50, sizes


@given(MOVES)
@law(30)
def test_sessions_fork_with_what_was_said(moves):
    env = EpisodeEnv(bundled(), budget=8, reward=RewardConfig.shaped())

    def reply(session, action):
        call = dict(name=ACTS[action.action_type].tool, arguments={ACTS[action.action_type].parameter: action.argument})
        return session.reply(dict(tool_calls=[dict(function=call)]))

    root = Session(env)
    root.begin(ID, 3)
    for session, taken, seen in play_branches(moves, root, reply):
        fresh = Session(env)
        fresh.begin(ID, 3)
        assert [reply(fresh, action) for action in taken] == seen
        assert (session.messages, session.rewards) == (fresh.messages, fresh.rewards)
        assert session.state() == fresh.state() and session.state_key == fresh.state_key
        assert session.verdict(robust=False) == fresh.verdict(robust=False)


def test_forks_go_on_in_threads():
    root = begun(budget=30, after=ACTIONS[:1])

    def play(seed):
        policy, branch = RandomPolicy(seed), root.fork()
        play_episode(branch, policy, branch._observe())
        return facts(branch)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(play, range(40))) == [play(seed) for seed in range(40)]
    assert len(root.turns) == 1


def test_a_fork_that_is_reset_leaves_the_other():
    root = begun(after=ACTIONS[:1])
    branch = root.fork()
    branch.reset()
    assert (len(root.turns), len(branch.turns)) == (1, 0)
    with pytest.raises(ValueError, match="after reset"):
        Episode(root.question, root.database).fork()
    with pytest.raises(ValueError, match="call begin first"):
        Session(EpisodeEnv(bundled())).fork()


def test_equal_states_have_equal_keys():
    def keys(*orders):
        return {begun(after=order).state_key for order in orders}

    same = keys(ACTIONS[:3], ACTIONS[2::-1])
    assert len(same) == 1
    others = keys(ACTIONS[:2], [*ACTIONS[:2], ACTIONS[0]], ACTIONS[:4], [ACTIONS[3], *ACTIONS[:3]])
    assert len(same | others) == 4, "what @last answers with does not depend on what is looked at later"


def test_verdicts_of_forks_are_their_own():
    env = EpisodeEnv(load("bundled"))
    env.reset(question_id="vet_clinic-02")
    right, wrong = env.episode, env.episode.fork()
    assert right.step("ANSWER", "44").reward == 1 and right.verdicts["value"]
    assert wrong.step("ANSWER", "43").reward == 0 and not wrong.verdicts["value"]
