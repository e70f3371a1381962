"""What an adapter costs: `python benchmarks/adapters.py [NAME ...] [--out benchmarks/adapters.json]`.

Each adapter plays the same actions on the bundled questions: those of the oracle, and those of the best cheat (the one
with most right answers, `most_frequent_answer` included). A row says how many steps it takes in a second of CPU, the
median of rounds in which the adapters take turns, what share of that of the bare episode this is, what share of the
questions it scores as right, and how many lines of code it is: neither blank nor comment nor docstring. The databases
are open and gold has run before the clock starts. Rows of adapters that were not named, or can't be imported here, stay
in the file as they are.

A new adapter is a function below with `@adapter(name, "module", ...)`: it gets the questions and returns what plays
a question's actions and says whether the answer counted as right."""

import argparse
import ast
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sql_env.chat import TOOLS, action_message
from sql_env.episode import Action, EpisodeEnv
from sql_env.evaluation import hack_floor
from sql_env.policies import HACKS, most_frequent_answer, play_episode
from sql_env.policies.base import Completion
from sql_env.policies.chat import ChatPolicy
from sql_env.questions import QuestionSet
from sql_env.session import Session
from sql_env.sources import load

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 5
Actions = Sequence[Action]
Player = Callable[[str, Actions], bool]
ADAPTERS: dict[str, tuple[Callable[[QuestionSet], Player], tuple[str, ...]]] = {}


def adapter(name: str, *modules: str):
    "Register an adapter and the modules of the package that it consists of."

    def register(make: Callable[[QuestionSet], Player]):
        ADAPTERS[name] = make, modules
        return make

    return register


@adapter("EpisodeEnv", "episode")
def bare(questions: QuestionSet) -> Player:
    env = EpisodeEnv(questions)

    def play(question_id: str, actions: Actions) -> bool:
        env.reset(question_id=question_id)
        for action in actions:
            env.step(*action)
        return env.episode.correct

    return play


@adapter("Session, calls", "session")
def session_calls(questions: QuestionSet) -> Player:
    session = Session(EpisodeEnv(questions))

    def play(question_id: str, actions: Actions) -> bool:
        session.begin(question_id)
        for kind, argument in actions:
            name, parameter = TOOLS[kind]
            session.call(name, {parameter: argument})
        return session.verdict(robust=False).correct

    return play


@adapter("Session, messages", "session")
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


@adapter("SQLEnvTRL", "trl_adapter")
def trl(questions: QuestionSet) -> Player:
    from sql_env.trl_adapter import SQLEnvTRL, ToolError

    env = SQLEnvTRL(questions)

    def play(question_id: str, actions: Actions) -> bool:
        env.reset(question_id=question_id)
        for kind, argument in actions:
            with suppress(ToolError):
                getattr(env, TOOLS[kind][0])(argument)
        env.get_reward()
        return env.correct

    return play


@adapter("MCP, in memory", "server.mcp_tools")
def mcp(questions: QuestionSet) -> Player:
    "A connection for each episode, with the reference client and its server in this process."
    import asyncio

    from mcp.shared.memory import create_connected_server_and_client_session as connect

    from sql_env.server.guard import Seats
    from sql_env.server.mcp_tools import Player as Client
    from sql_env.server.mcp_tools import Players, make_mcp_server

    ended: list = []
    env, runner = EpisodeEnv(questions), asyncio.Runner()
    server = make_mcp_server(Players(lambda: Client(Session(env), on_end=ended.append), Seats(1)))

    async def play_all(question_id: str, actions: Actions) -> None:
        async with connect(server) as client:
            await client.call_tool("start", {"question_id": question_id})
            for kind, argument in actions:
                name, parameter = TOOLS[kind]
                await client.call_tool(name, {parameter: argument})

    def play(question_id: str, actions: Actions) -> bool:
        runner.run(play_all(question_id, actions))
        return ended.pop().correct

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="adapters to measure; all that can be imported")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
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
    rows = {}
    if options.out and options.out.exists():
        rows = {row["adapter"]: row for row in json.loads(options.out.read_text())["rows"]}
    for name in players:
        rows[name] = dict(
            adapter=name,
            modules=ADAPTERS[name][1],
            lines=sum(map(code_lines, ADAPTERS[name][1])),
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
        options.out.write_text(json.dumps(about | dict(rows=list(rows.values())), indent=1) + "\n")


if __name__ == "__main__":
    main()
