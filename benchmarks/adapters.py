"""What an adapter costs: `python benchmarks/adapters.py [NAME ...] [--out benchmarks/adapters.json]`.

Each adapter plays the same actions on the bundled questions: those of the oracle, and those of the best cheat (the one
with most right answers, `most_frequent_answer` included). A row says how many steps it takes in a second of CPU, the
median of rounds in which the adapters take turns, what share of that of the bare episode this is, what share of the
questions it scores as right, and how many lines of code it is: neither blank nor comment nor docstring. The databases
are open and gold has run before the clock starts. Rows of adapters that were not named, or can't be imported here, stay
in the file as they are.

A new adapter is a function below with `@adapter(name, "module", ...)`: it gets the questions and returns what plays
a question's actions and says whether the answer counted as right.

`--query` measures one step of an agent, a small query, where episodes may stand: in this process, in another one behind
a pipe, and on a server. A row of verifiers comes from an environment that has verifiers and not openenv."""

import argparse
import ast
import json
import os
import platform
import statistics
import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, distribution
from multiprocessing import get_context
from pathlib import Path

from packaging.requirements import Requirement

from sql_env.evaluation.harness import hack_floor
from sql_env.play.acts import ACTS, Action
from sql_env.play.chat import action_message
from sql_env.play.episode import EpisodeEnv
from sql_env.play.session import Session
from sql_env.policies import HACKS, play_episode
from sql_env.policies.baselines import most_frequent_answer
from sql_env.policies.chat import ChatPolicy
from sql_env.policies.requests import Completion
from sql_env.questions.question_set import QuestionSet
from sql_env.sources.loading import load

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 5
Actions = Sequence[Action]
Player = Callable[[str, Actions], bool]
ADAPTERS: dict[str, tuple[Callable[[QuestionSet], Player], tuple[str, ...]]] = {}


PACKAGES: dict[str, tuple[str, ...]] = {}


def adapter(name: str, *modules: str, packages: tuple[str, ...] = ()):
    "Register an adapter, the modules of the package that it consists of, and what it needs installed."

    def register(make: Callable[[QuestionSet], Player]):
        ADAPTERS[name] = make, modules
        PACKAGES[name] = packages
        return make

    return register


@adapter("EpisodeEnv", "play.episode")
def bare(questions: QuestionSet) -> Player:
    env = EpisodeEnv(questions)

    def play(question_id: str, actions: Actions) -> bool:
        env.reset(question_id=question_id)
        for action in actions:
            env.step(*action)
        return env.episode.correct

    return play


@adapter("Session, calls", "play.session")
def session_calls(questions: QuestionSet) -> Player:
    session = Session(EpisodeEnv(questions))

    def play(question_id: str, actions: Actions) -> bool:
        session.begin(question_id)
        for kind, argument in actions:
            name, parameter = ACTS[kind][1:3]
            session.call(name, {parameter: argument})
        return session.verdict(robust=False).correct

    return play


@adapter("Session, messages", "play.session")
def session_messages(questions: QuestionSet) -> Player:
    session = Session(EpisodeEnv(questions))

    def play(question_id: str, actions: Actions) -> bool:
        session.begin(question_id)
        for action in actions:
            session.reply(action_message(action))
        return session.verdict(robust=False).correct

    return play


@adapter("ChatPolicy", "policies.chat")
def chat_policy(questions: QuestionSet) -> Player:
    "With a backend that says what it is told; examples, usage and records of calls as in an evaluation."

    class Scripted:
        name, settings, actions = "scripted", {}, iter(())

        def complete(self, messages, tools, seed):
            return Completion(action_message(next(self.actions)))

    env, backend = EpisodeEnv(questions), Scripted()
    policy = ChatPolicy(backend)

    def play(question_id: str, actions: Actions) -> bool:
        policy.reset(0)
        backend.actions = iter(actions)
        play_episode(env, policy, env.reset(question_id=question_id))
        return env.episode.correct

    return play


@adapter("SQLEnvTRL", "integrations.trl")
def trl(questions: QuestionSet) -> Player:
    from sql_env.integrations.trl import SQLEnvTRL, ToolError

    env = SQLEnvTRL(questions)

    def play(question_id: str, actions: Actions) -> bool:
        env.reset(question_id=question_id)
        for kind, argument in actions:
            with suppress(ToolError):
                getattr(env, ACTS[kind].tool)(argument)
        env.get_reward()
        return env.correct

    return play


@adapter("MCP, in memory", "server.mcp_tools", packages=("fastmcp",))
def mcp(questions: QuestionSet) -> Player:
    "A connection for each episode, with the reference client and its server in this process."
    import asyncio

    from mcp.shared.memory import create_connected_server_and_client_session as connect

    from sql_env.server.environment import SQLEnvironment
    from sql_env.server.mcp_tools import Players, make_mcp_server

    env, runner = SQLEnvironment(questions), asyncio.Runner()
    server = make_mcp_server(Players(lambda: env), env.episode_env.actions)._mcp_server

    async def play_all(question_id: str, actions: Actions) -> None:
        async with connect(server) as client:
            await client.call_tool("start", {"question_id": question_id})
            for kind, argument in actions:
                name, parameter = ACTS[kind][1:3]
                await client.call_tool(name, {parameter: argument})

    def play(question_id: str, actions: Actions) -> bool:
        runner.run(play_all(question_id, actions))
        return env.episode.correct

    return play


@adapter("skyrl-gym", "integrations.skyrl", packages=("skyrl-gym",))
def skyrl(questions: QuestionSet) -> Player:
    "With an environment for each trajectory, and calls in the text of a message."
    from sql_env.integrations.skyrl import SkyRLEnv

    def text(action: Action) -> str:
        name, parameter = ACTS[action.action_type][1:3]
        call = dict(name=name, arguments={parameter: action.argument})
        return f"<tool_call>{json.dumps(call)}</tool_call>"

    def play(question_id: str, actions: Actions) -> bool:
        env = SkyRLEnv(questions, extras=dict(question_id=question_id))
        env.init([])
        for action in actions:
            env.step(text(action))
        return bool(env.get_metrics()["correct"])

    return play


@adapter("verifiers", "integrations.verifiers", packages=("verifiers", "uv"))
def verifiers(questions: QuestionSet) -> Player:
    "What the package does for a rollout: state, tools and verdict, without the processes of verifiers."
    from verifiers.v1 import TaskData

    from sql_env.integrations.verifiers import PlayConfig, SQLState, SQLTask

    config = PlayConfig()

    def play(question_id: str, actions: Actions) -> bool:
        session = Session(config.env(questions))
        session.begin(question_id)
        state = session.state()
        for kind, argument in actions:
            name, parameter = ACTS[kind][1:3]
            resumed = Session.resume(
                config.env(questions), state
            )  # as the process of the tools does
            resumed.call(name, {parameter: argument})
            state = resumed.state()
        task = SQLTask(TaskData(id=question_id), play=config, questions=questions)
        return task.verdict(SQLState(session=state)).correct

    return play


def oracle_actions(questions: QuestionSet) -> dict[str, list[Action]]:
    "A look at a table, the gold query, and its result as the answer."
    played = {}
    for q in questions:
        look = Action("DESCRIBE", q.tables_involved[0])
        played[q.question_id] = [look, Action("QUERY", q.gold_sql), Action("ANSWER", "@last")]
    return played


def cheat_actions(questions: QuestionSet) -> tuple[str, dict[str, list[Action]]]:
    "The best cheat and its actions."
    hacks = [*HACKS, most_frequent_answer(questions)]
    best = next(iter(hack_floor(questions, hacks=hacks)))
    [hack] = [h for h in hacks if h.name == best]
    env, played = EpisodeEnv(questions), {}
    for q in questions:
        play_episode(env, hack, env.reset(question_id=q.question_id))
        played[q.question_id] = [turn.action for turn in env.episode.turns]
    return best, played


def code_lines(module: str) -> int:
    "Lines of a module that are neither blank nor comment nor docstring."
    path = ROOT / "sql_env" / Path(*module.split(".")).with_suffix(".py")
    source = path.read_text()
    docs = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docs.update(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(map(str.strip, source.splitlines()), 1)
    return sum(bool(line) and line[0] != "#" and i not in docs for i, line in lines)


def score(player: Player, played: dict[str, list[Action]]) -> float:
    "Share of the questions that count as right."
    return round(sum(player(*item) for item in played.items()) / len(played), 4)


def steps_per_second(
    players: dict[str, Player], played: dict[str, list[Action]]
) -> dict[str, float]:
    "Of each player, in seconds of CPU."
    n_steps, seconds = sum(map(len, played.values())), {name: [] for name in players}
    for _ in range(ROUNDS):
        for name, player in players.items():
            start = time.process_time()
            for item in played.items():
                player(*item)
            seconds[name].append(time.process_time() - start)
    return {name: n_steps / statistics.median(found) for name, found in seconds.items()}


def needed(packages: Sequence[str], known: frozenset[str] = frozenset()) -> set[str]:
    "Names of packages and of all that they need, apart from those that are known."
    found: set[str] = set()
    waiting = list(packages)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found or name in known:
            continue
        with suppress(PackageNotFoundError):
            requirements = distribution(name).requires or []
            found.add(name)
            wanted = [Requirement(text) for text in requirements]
            waiting += [
                r.name for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})
            ]
    return found


def added_megabytes(packages: Sequence[str]) -> float:
    "What packages add to an installation of the core, in MB on disk."
    text = (ROOT / "pyproject.toml").read_text()
    core = [Requirement(r).name for r in tomllib.loads(text)["project"]["dependencies"]]
    added = needed(packages, frozenset(needed(core)))
    files = [file for name in added for file in distribution(name).files or ()]
    paths = {Path(file.locate()) for file in files if not file.name.endswith(".pyc")}
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def _answer_pipe(pipe) -> None:
    "In a process of its own: an episode whose actions come over a pipe."
    env = EpisodeEnv(load("bundled"))
    while (message := pipe.recv()) is not None:
        pipe.send(env.step(*message) if message else env.reset(question_id=QUERIED))


QUERIED = "vet_clinic-02"
QUERY = "SELECT name, phone FROM owner WHERE owner_id = {}"
EPISODES, STEPS = 200, 14


@contextmanager
def in_process():
    env = EpisodeEnv(load("bundled"))
    yield lambda: env.reset(question_id=QUERIED), env.step


@contextmanager
def behind_a_pipe():
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_answer_pipe, args=(theirs,), daemon=True)
    process.start()

    def ask(*message):
        ours.send(message)
        return ours.recv()

    yield ask, ask
    ours.send(None)
    process.join()


@contextmanager
def on_a_server():
    from server import Server

    from sql_env import SQLAction, SQLEnv

    with Server() as server, SQLEnv(base_url=server.http).sync() as env:

        def step(kind, argument):
            return env.step(SQLAction(action_type=kind, argument=argument)).observation

        yield lambda: env.reset(question_id=QUERIED), step


PLACES = {
    "in this process": in_process,
    "another process, over a pipe": behind_a_pipe,
    "our server, over a WebSocket of the loopback": on_a_server,
}


def query_times(place) -> list[float]:
    "Seconds of each step, as the caller waits for them."
    times = []
    with place() as (reset, step):
        for episode in range(EPISODES + 5):
            reset()
            for i in range(STEPS):
                start = time.perf_counter()
                seen = step("QUERY", QUERY.format(i + 1))
                if episode >= 5:
                    times.append(time.perf_counter() - start)
                assert not seen.error, seen.error
    return times


def query_rows() -> dict:
    "One small query where episodes may stand."
    rows = []
    for where, place in PLACES.items():
        cuts = statistics.quantiles(query_times(place), n=100)
        rows.append(
            dict(where=where, median_us=round(cuts[49] * 1e6), p99_us=round(cuts[98] * 1e6))
        )
        print(json.dumps(rows[-1]))
    command = "python benchmarks/adapters.py --query --out benchmarks/adapters.json"
    return dict(command=command, sql=QUERY, queries=EPISODES * STEPS, rows=rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="adapters to measure; all that can be imported")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--query", action="store_true", help="one query in each place, and no more")
    options = parser.parse_args()
    known = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    if options.query:
        known["query"] = query_rows()
        if options.out:
            options.out.write_text(json.dumps(known, indent=1) + "\n")
        return
    questions = load("bundled")
    oracle, (cheat, cheats) = oracle_actions(questions), cheat_actions(questions)
    players = {}
    for name in {"EpisodeEnv": 0} | dict.fromkeys(options.names or ADAPTERS):
        try:
            players[name] = ADAPTERS[name][0](questions)
        except ImportError as e:
            print(f"{name} is left out: {e}")
    scores = {name: (score(p, oracle), score(p, cheats)) for name, p in players.items()}
    speed = steps_per_second(players, oracle)
    rows = {row["adapter"]: row for row in known.get("rows", ())}
    for name in players:
        if name in rows and options.names and name not in options.names:
            continue  # only what others are compared with
        rows[name] = dict(
            adapter=name,
            modules=ADAPTERS[name][1],
            lines=sum(map(code_lines, ADAPTERS[name][1])),
            installs_mb=round(added_megabytes(PACKAGES[name]), 1),
            steps_per_second=round(speed[name]),
            share_of_bare=round(speed[name] / speed["EpisodeEnv"], 3),
            oracle=scores[name][0],
            cheat=scores[name][1],
        )
        print(json.dumps(rows[name]))
    about = dict(
        command="python benchmarks/adapters.py --out benchmarks/adapters.json",
        python=platform.python_version(),
        cores=os.cpu_count(),
        questions=len(questions),
        best_cheat=cheat,
    )
    if options.out:
        options.out.write_text(
            json.dumps(known | about | dict(rows=list(rows.values())), indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
