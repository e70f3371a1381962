"""The learning curve that anyone can reproduce: `nano` from random weights, evaluated on schemas it never saw.

python benchmarks/nano.py run --seed 0  # trains and evaluates in runs/nano-0; start it again to go on
python benchmarks/nano.py baselines     # random, greedy, oracle and the best reward-hacking baseline
python benchmarks/nano.py collect       # benchmarks/nano.json, and the figures in nbs/images
python benchmarks/nano.py misses        # right answers by what a question does not mention, from nano.json
"""

import json
import os
import platform
import time
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", TOKENIZERS_PARALLELISM="false")
app = typer.Typer(add_completion=False, help=__doc__)
HERE = Path(__file__).parent
LEVELS = ("level 1", "level 2", "level 3")
COMPARED = (*LEVELS, "level 1, eight steps", "level 2, eight steps")
KEPT = (
    "stage",
    "step",
    "seconds",
    "loss",
    "mean_token_accuracy",
    "num_tokens",
    "reward",
    "frac_reward_zero_std",
    "step_time",
    "sql_env/correct",
    "sql_env/steps",
    "sql_env/errors",
    "sql_env/answered",
    "sql_env/late_calls",
    "entropy",
    "grad_norm",
)
COLOURS = {
    "copy": "#8c8c8c",
    "few": "#4c72b0",
    "grpo": "#dd8452",
    "full": "#8172b3",
    "all": "#55a868",
}
Stages = Annotated[list[str] | None, typer.Option("--stage", help="All if left out.")]


def suites_of(stage: str) -> tuple[str, ...]:
    "The best model takes all suites, the others some."
    from sql_env.training.evals import EVAL_SUITES

    if stage == "all":
        return tuple(EVAL_SUITES)
    return COMPARED if stage in ("few", "grpo") else LEVELS


def adapted(share: float, epochs: int, more: str, minutes: str):
    "NANO with a share of its rows, read several times, with more data in its last stage, and other minutes."
    from dataclasses import replace

    from sql_env.training.nano_recipe import NANO
    from sql_env.training.recipes import scale_recipe

    given = dict(part.split("=") for part in minutes.split(",") if part)
    recipe, stages = scale_recipe(NANO, share) if share != 1 else NANO, []
    for stage in recipe.stages:
        options, args, data = dict(stage.options), dict(stage.args), stage.data
        if stage.name in given:
            options["minutes"] = float(given[stage.name])
        if stage.name == "all":
            args["num_train_epochs"] = epochs
            data = f"{data} + {more}" if more else data
        stages.append(replace(stage, options=options, args=args, data=data))
    return replace(recipe, stages=tuple(stages))


@app.command()
def run(
    seed: int = 0,
    folder: Path = Path("runs"),
    threads: int = 0,
    stages: Stages = None,
    share: float = 1.0,
    epochs: int = 1,
    more: Annotated[str, typer.Option(help="Data besides worlds, such as spider:train.")] = "",
    minutes: Annotated[str, typer.Option(help="Of stages, such as few=10,all=30.")] = "",
):
    "Train one seed."
    from sql_env.training.run import train

    start = time.perf_counter()
    recipe = adapted(share, epochs, more, minutes)
    trained = train(recipe, folder / f"nano-{seed}", seed, stages, threads or None)
    line = dict(
        seconds=round(time.perf_counter() - start),
        cpu_seconds=round(time.process_time()),
        stages=stages or "all",
        threads=threads or os.cpu_count(),
        machine=platform.processor() or platform.machine(),
    )
    with (trained.folder / "wall.jsonl").open("a") as f:
        f.write(json.dumps(line) + "\n")


@app.command()
def baselines(out: Path = HERE / "nano_baselines.json", n: int = 500):
    "Policies without a model in the same suites."
    from sql_env.episode import EpisodeEnv
    from sql_env.evaluation import evaluate, hack_floor
    from sql_env.policies.baselines import GreedyPolicy, OraclePolicy, RandomPolicy
    from sql_env.training.evals import EVAL_SUITES, suite_questions, suite_row

    rows = []
    for name, suite in EVAL_SUITES.items():
        questions, budget = suite_questions(name, n), suite.get("budget", 15)
        for policy in (RandomPolicy(0), GreedyPolicy(), OraclePolicy(questions)):
            result = evaluate(EpisodeEnv(questions, budget), policy, progress=False)
            rows.append(suite_row(result, policy=policy.name, exam=name))
        best = max(hack_floor(questions, budget).values())
        rows.append(dict(policy="best cheat", exam=name, success=round(best, 4), n=len(questions)))
    write_rows(out, "baselines", rows)


@app.command()
def collect(
    folder: Path = Path("runs"),
    out: Path = HERE / "nano.json",
    images: Path = HERE.parent / "nbs/images",
):
    "Put the results and the thinned metrics of all seeds into one file, and draw them."
    from sql_env.training.metrics import read_metrics

    runs = {}
    for path in sorted(folder.glob("nano-*")):
        seed = path.name.rpartition("-")[2]
        runs[seed] = dict(
            exams=read_metrics(path / "exams.jsonl"),
            wall=read_metrics(path / "wall.jsonl"),
            metrics=thin(read_metrics(path / "metrics.jsonl")),
        )
    content = dict(command="python benchmarks/nano.py run --seed N", runs=runs)
    out.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    draw_curves(runs, images / "nano_curves.png")
    draw_results(runs, images / "nano_exams.png")


def thin(lines: list[dict]) -> list[dict]:
    "The metrics worth keeping; of the long stages each fifth line."
    from sql_env.training.metrics import ERROR_METRIC

    reported = [line for line in lines if "loss" in line or "reward" in line]
    kept = [
        line for i, line in enumerate(reported) if line["stage"] not in ("few", "all") or i % 5 == 0
    ]
    return [
        {k: v for k, v in line.items() if k in KEPT or k.startswith(ERROR_METRIC)} for line in kept
    ]


@app.command()
def misses(
    runs: Path = HERE / "nano.json",
    out: Path = HERE / "nano_misses.json",
    stages: Stages = None,
):
    "How often a model is right where the question mentions its tables and columns, and where not."
    results = json.loads(runs.read_text(encoding="utf-8"))["runs"]
    rows = []
    for suite in LEVELS:
        missing = missing_in_order_of_play(suite)
        for seed, run in results.items():
            for line in run["exams"]:
                if line["exam"] == suite and line["stage"] in (stages or ("few", "all")):
                    rows += miss_rows(line, int(seed), missing)
    write_rows(out, "misses", rows)


def missing_in_order_of_play(suite: str) -> list[str]:
    "What each question of a suite does not mention."
    from sql_env.episode import EpisodeEnv
    from sql_env.rollouts import plan_episodes
    from sql_env.training.evals import suite_questions
    from sql_env.training.nano_expert import missing_mention

    questions = suite_questions(suite)
    plan = plan_episodes(EpisodeEnv(questions), None, 0)
    return [missing_mention(questions.get(reset["question_id"])) for _, reset, _ in plan]


def miss_rows(line: dict, seed: int, missing: list[str]) -> list[dict]:
    "The share of right answers for each kind of question."
    right = defaultdict(list)
    for kind, correct in zip(missing, line["correct"], strict=True):
        right[kind].append(correct == "1")
    about = dict(exam=line["exam"], stage=line["stage"], seed=seed)
    return [
        dict(about, untold=kind, n=len(answers), success=round(sum(answers) / len(answers), 4))
        for kind, answers in sorted(right.items())
    ]


def write_rows(out: Path, command: str, rows: list[dict]) -> None:
    "Write rows, a line each, with the command that made them."
    head = f'{{"command": "python benchmarks/nano.py {command}", "rows": [\n'
    out.write_text(head + ",\n".join(map(json.dumps, rows)) + "\n]}\n", encoding="utf-8")


def legend_entries(ax) -> dict:
    "Label and handle of each curve, once, in the order of the stages."
    handles, labels = ax.get_legend_handles_labels()
    found = dict(zip(labels, handles))
    return {stage: found[stage] for stage in COLOURS if stage in found}


def draw_curves(runs: dict, path: Path) -> None:
    "Loss while imitating; right answers and refused actions while playing."
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    panels = (
        ("loss", ("few", "all"), "imitation: loss"),
        ("sql_env/correct", ("grpo",), "play: right answers"),
        ("sql_env/errors", ("grpo",), "play: refused actions per episode"),
    )
    fig, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
    for ax, (metric, stages, title) in zip(axes, panels):
        for run in runs.values():
            draw_run(ax, run["metrics"], metric, stages)
        ax.set(title=title, xlabel="step")
        if metric == "loss":
            ax.set_yscale("log")
        else:
            ax.set_ylim(0, 1 if "correct" in metric else None)
        ax.spines[["top", "right"]].set_visible(False)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        entries = legend_entries(ax)
        if len(entries) > 1:
            ax.legend(entries.values(), entries.keys(), frameon=False)
    fig.savefig(path, dpi=110)


def draw_run(ax, metrics: list[dict], metric: str, stages: tuple[str, ...]) -> None:
    "A curve for each stage, one after the other."
    from sql_env.training.metrics import running_mean

    done, window = 0, 8 if metric == "loss" else 3
    for stage in stages:
        lines = [line for line in metrics if line["stage"] == stage and metric in line]
        if lines:
            steps = [done + line["step"] for line in lines]
            values = running_mean([line[metric] for line in lines], window)
            ax.plot(steps, values, color=COLOURS[stage], alpha=0.8, label=stage)
            done = steps[-1]


def draw_results(runs: dict, path: Path) -> None:
    "Right answers in each suite after each stage, a dot with its interval per seed."
    import matplotlib.pyplot as plt

    from sql_env.training.evals import EVAL_SUITES

    lines = [line for run in runs.values() for line in run["exams"]]
    suites = [name for name in EVAL_SUITES if any(line["exam"] == name for line in lines)]
    fig, ax = plt.subplots(figsize=(11, 3.6), layout="constrained")
    for place, suite in enumerate(suites):
        draw_suite(ax, place, [line for line in lines if line["exam"] == suite])
        if place:
            ax.axvline(place - 0.5, color="#e5e5e5", lw=0.8, zorder=0)
    entries = legend_entries(ax)
    outside = dict(loc="upper left", bbox_to_anchor=(1, 1), title="after stage")
    ax.legend(entries.values(), entries.keys(), frameon=False, **outside)
    labels = [name.replace(", ", ",\n").replace("unseen ", "unseen\n") for name in suites]
    ax.set_xticks(range(len(suites)), labels)
    ax.set(
        xlim=(-0.5, len(suites) - 0.5),
        ylim=(0, 1),
        ylabel="right answers",
        title="suites on schemas never seen: each seed with its 95 % interval",
    )
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=110)


def draw_suite(ax, place: int, lines: list[dict]) -> None:
    "Dots side by side, a dot's width between two stages."
    positions, position, previous = [], 0, None
    drawn = [line for stage in ("few", "grpo", "full", "all") for line in of_stage(lines, stage)]
    for line in drawn:
        position += previous not in (None, line["stage"])
        positions.append(position)
        position, previous = position + 1, line["stage"]
    for x, line in zip(positions, drawn):
        x = place + 0.06 * (x - positions[-1] / 2)
        style = dict(color=COLOURS[line["stage"]])
        ax.plot(
            [x, x], [line["low"], line["high"]], lw=3, alpha=0.4, solid_capstyle="round", **style
        )
        ax.plot(x, line["success"], "o", ms=4, label=line["stage"], **style)


def of_stage(lines: list[dict], stage: str) -> list[dict]:
    return [line for line in lines if line["stage"] == stage]


if __name__ == "__main__":
    app()
