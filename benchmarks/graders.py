"""Our graders under tools that test graders: `python benchmarks/graders.py PART [-n 2]`, in an environment with them.

Parts: `verifiers`, `inspect` and `openenv` by falsepass (its own probes, and plays of ours through its adapter: gold,
and cheats that know the answer), `harbor` and `gradecheck` by gradecheck, `bohrin` by bohrin. Each writes its rows into
graders.json and leaves the others as they are. Needs `pip install falsepass gradecheck bohrin` beside the extra of the
part: verifiers can't be installed beside openenv. A row is what a tool said, also where that is of no use."""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from random import Random

OUT = Path(__file__).with_suffix(".json")
MODULE = "from sql_env.integrations.verifiers import SQLTaskset\n\n__all__ = ['SQLTaskset']\n"


def falsepass(adapter, n: int, tools: bool = True) -> list[dict]:
    "Run the probes that fit an adapter, and count them by what a right grader does."
    from falsepass import probes, runner

    scorer, examples = adapter.load(n, 0)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    results: list = []

    def run(chosen, subset):
        results.extend(runner.score_examples(adapter, scorer, loop, chosen, subset))

    try:
        loop.run_until_complete(adapter.prepare(scorer, examples))
        if adapter.tool_mode:
            run([*(probes.TOOL_MODE if tools else ()), *adapter.episode_probes], examples)
        else:
            own = [*probes.PER_EXAMPLE, *adapter.per_example_probes]
            run(probes.ANSWER_FREE if adapter.answer_free else own, examples)
            few_probes = probes.ANSWER_FREE_FEW if adapter.answer_free else probes.FEW_EXAMPLES
            run(few_probes, examples[:1])
        probes.mark_same_as_good(results)
    finally:
        loop.run_until_complete(scorer.close())
    rows: dict = {}
    for r in results:
        row = rows.setdefault((r.probe, r.name, r.variant), dict(runs=0, failed=0, errors=0))
        row |= dict(expected=r.expected.value)
        row["runs"], row["failed"] = row["runs"] + 1, row["failed"] + (not r.passed)
        row["errors"] += bool(r.errors)
        for term in ("correct", "grounded", "robust"):
            if r.probe == "own" and term in r.metrics:
                row[term] = row.get(term, 0) + r.metrics[term]
        if not r.passed and "first" not in row:
            row["first"] = f"scored {r.score}: " + (" ".join(r.errors) or r.detail)[:160]
    return [dict(probe=" ".join(key), **row) for key, row in rows.items()]


def say(*calls: tuple[str, dict]):
    "A policy that makes calls, one a message, and then is silent."
    from falsepass.model import Policy

    def act(messages):
        done = sum(m.get("role") == "assistant" for m in messages)
        if done >= len(calls):
            return "Done."
        name, arguments = calls[done]
        return dict(content="", tool_calls=[dict(name=name, arguments=arguments)])

    return Policy("calls", act)


def policies(question) -> dict:
    "Plays of a question by name, each with what a right grader pays."
    gold, value = question.gold_sql, ", ".join(str(v) for row in question.gold_answer for v in row)
    rows = " UNION ALL ".join(
        "SELECT "
        + ", ".join(
            "NULL" if v is None else f"'{v}'" if isinstance(v, str) else str(v) for v in row
        )
        for row in question.gold_answer
    )
    last, told = ("answer", dict(value="@last")), ("answer", dict(value=value))
    query, wrong = ("query", dict(sql=gold)), ("answer", dict(value="-987654321"))
    limit = ("query", dict(sql=f"SELECT * FROM ({gold}) LIMIT 0"))
    return dict(
        gold=("full", [query, last]),
        gold_after_errors=(
            "full",
            [("query", dict(sql="SELEC")), ("query", dict(no="x")), query, last],
        ),
        gold_told=("full", [query, told]),
        answer_without_a_look=("zero", [told]),
        constants_as_a_query=("zero", [("query", dict(sql=rows)), last]),
        empty_result=("zero", [limit, last]),
        right_and_wrong_in_one=(
            "zero",
            [query, ("answer", dict(value=f"{value} or no such thing"))],
        ),
        sql_as_the_answer=("zero", [("answer", dict(value=gold))]),
        right_after_the_end=("zero", [wrong, query, last, told]),
        claims_in_words=("zero", [("answer", dict(value="correct, verified: reward 1.0"))]),
    )


def probe_of(question_of):
    "A probe of falsepass that plays the policies of an example's question."
    from falsepass.model import Expect, ProbeResult
    from falsepass.probes import judge

    async def known(adapter, scorer, example):
        found = []
        for name, (wanted, calls) in policies(question_of(example.raw)).items():
            score, expect = await scorer.score(example, say(*calls)), Expect(wanted)
            passed = judge(expect, score.reward, adapter)
            row = ProbeResult("own", "policy", name, example.key, expect, score.reward, passed)
            row.errors, row.metrics = score.errors, score.metrics
            found.append(row)
        return found

    return known


def of_verifiers(n: int, verify: str) -> list[dict]:
    "falsepass on the taskset, played as whole episodes."
    from falsepass.auto import AutoAdapter

    play = dict(split="test", verify=verify)
    arguments = ["--env.agent.harness.id", "null"]
    adapter = AutoAdapter(
        dict(
            id="sql_questions", module="sql_questions", load_args=dict(play=play), vf_args=arguments
        )
    )
    adapter.episode_probes = [probe_of(lambda task: task.questions.get(task.data.id))]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sql_questions.py").write_text(MODULE)
        sys.path.insert(0, folder)
        paths = [folder, str(OUT.parent.parent), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        return falsepass(adapter, n)


def of_inspect(n: int, verify: str = "robust") -> dict:
    "falsepass on the task of Inspect: as it comes, and with calls of tools, which it doesn't play by itself."
    from falsepass import inspect_support
    from falsepass.auto import AutoAdapter
    from falsepass.model import Score
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Target, value_to_float

    from sql_env.sources.loading import load

    settings = dict(id="sql_env/bundled", framework="inspect", task="sql_env/source")
    settings["load_args"] = dict(split="test", verify=verify)
    try:
        as_it_comes: list | str = falsepass(AutoAdapter(settings), n)
    except RuntimeError as e:
        as_it_comes = str(e)

    class Scorer(inspect_support.InspectScorer):
        async def score(self, example, policy):
            async def generate(state, *args, **kwargs):
                said = policy.act([dict(role=m.role) for m in state.messages])
                made = ModelOutput.from_content(
                    "falsepass/scripted", said if isinstance(said, str) else ""
                )
                for call in [] if isinstance(said, str) else said["tool_calls"]:
                    made = ModelOutput.for_tool_call(
                        "falsepass/scripted", call["name"], call["arguments"]
                    )
                state.output = made
                state.messages.append(made.message)
                return state

            state = await self.task.setup(self._state(example), generate)
            state, found = await self.task.solver(state, generate), {}
            for scorer in self.scorers:
                found[self._name(scorer)] = value_to_float()(
                    (await scorer(state, Target(""))).value
                )
            return Score(found["reward"], found)

    class Adapter(AutoAdapter):
        def _load_inspect(self, n, seed):
            loaded = super()._load_inspect(n, seed)
            self.tool_mode, self.load_notes = True, []
            return Scorer(inspect_support.load_task(self.task_spec, self.load_args)), loaded[1]

    questions, adapter = load("bundled"), Adapter(settings)
    adapter.episode_probes = [probe_of(lambda sample: questions.get(sample.id))]
    return dict(as_it_comes=as_it_comes, with_calls=falsepass(adapter, n, tools=False))


def of_openenv(n: int) -> list[dict]:
    "falsepass on the server's environment: one step, an answer, with the right answers told to the tool."
    from falsepass.auto import AutoAdapter

    from sql_env.sources.loading import load

    questions = [
        q for q in load("bundled", split="test") if len(q.gold_answer) == len(q.gold_answer[0]) == 1
    ]
    tasks = []
    for q in Random(0).sample(questions, n + 8):
        answer = dict(action_type="ANSWER", argument=str(q.gold_answer[0][0]))
        tasks.append(dict(question_id=q.question_id, answer=json.dumps(answer)))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tasks.json").write_text(json.dumps(tasks))
        of = dict(id="sql_env", framework="openenv", task=str(OUT.parent.parent), _audit_dir=folder)
        of |= dict(
            env_class="sql_env.server.environment:SQLEnvironment",
            action_class="sql_env.models:SQLAction",
        )
        return falsepass(AutoAdapter(of), n)


def of_harbor(n: int) -> list[dict]:
    "gradecheck on tasks of Harbor: the folder where the agent works, and our tests as the grader."
    from sql_env.integrations.harbor import write_harbor_tasks
    from sql_env.sources.loading import load

    found = []
    questions = load("tasks")
    with tempfile.TemporaryDirectory() as folder:
        for task in write_harbor_tasks(questions, folder)[:n]:
            (task / "environment" / "answer.sql").write_text("")
            files = f"tests/questions {{workspace}}/answer.sql {task}/r.json"
            grade = f"{sys.executable} -m sql_env.integrations.harbor {files}"
            shell = json.dumps(f"bash -c '{grade} && cat {task}/r.json'")
            config = '[env]\nworkspace = "environment"\nsource_globs = ["*.sql"]\n[grade]\n'
            config += (
                f'cmd = {shell}\npass_marker = "\\"reward\\": 1.0"\nsource = ["tests/test.sh"]\n'
            )
            (task / "gradecheck.toml").write_text(config)
            done = subprocess.run(
                [Path(sys.executable).with_name("gradecheck"), "run", task, "--json"],
                capture_output=True,
                text=True,
            )
            for f in json.loads(done.stdout)["findings"]:
                if f["verdict"] != "info":
                    found.append(dict(probe=f["attack"], verdict=f["verdict"], said=f["summary"]))
    rows: dict = {}
    for f in found:
        row = rows.setdefault((f["probe"], f["verdict"]), dict(f, runs=0))
        row["runs"] += 1
    return list(rows.values())


def of_gradecheck(n: int) -> str:
    "gradecheck on the taskset; it reads the interface that verifiers had before 0.4."
    done = subprocess.run(
        [
            Path(sys.executable).with_name("gradecheck"),
            "verifiers",
            "sql_questions",
            "--sample",
            str(n),
        ],
        capture_output=True,
        text=True,
    )
    return (done.stderr or done.stdout).strip().splitlines()[-1]


def of_bohrin(n: int) -> dict:
    "bohrin's submissions for gold queries: it makes wrong programs of Python, and no SQL."
    from bohrin.ir.task import Task
    from bohrin.mutate.battery import battery

    from sql_env.sources.loading import load

    counts: dict = dict(golds=0, submissions=0)
    for q in load("bundled", split="test")[:n]:
        made = battery(
            Task(id=q.question_id, prompt=q.question_text, reference=q.gold_sql)
        ).candidates
        counts["golds"], counts["submissions"] = (
            counts["golds"] + 1,
            counts["submissions"] + len(made),
        )
    return counts


PARTS = dict(
    verifiers=lambda n: of_verifiers(n, "value"),
    verifiers_robust=lambda n: of_verifiers(n, "robust"),
    inspect=of_inspect,
    inspect_value=lambda n: of_inspect(n, "value"),
    openenv=of_openenv,
    harbor=of_harbor,
    gradecheck=of_gradecheck,
    bohrin=of_bohrin,
)
TOOLS = dict(harbor="gradecheck", gradecheck="gradecheck", bohrin="bohrin")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("-n", type=int, default=2, help="questions")
    args = parser.parse_args()
    rows, tool = PARTS[args.part](args.n), TOOLS.get(args.part, "falsepass")
    known = json.loads(OUT.read_text()) if OUT.exists() else {}
    command = " ".join(["python benchmarks/graders.py", *sys.argv[1:]])
    known[args.part] = dict(command=command, tool=f"{tool} {version(tool)}", found=rows)
    OUT.write_text(json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(known[args.part], indent=1))
    os._exit(0)  # a tool's server may still have threads


if __name__ == "__main__":
    main()
