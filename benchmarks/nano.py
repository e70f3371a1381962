"""The learning curve that anyone can reproduce: `nano` from random weights, examined on schemas it never saw.

python benchmarks/nano.py run --seed 0         # trains and examines in runs/nano-0; start it again to go on
python benchmarks/nano.py baselines            # what random, greedy, oracle and the best cheat do in the same exams
python benchmarks/nano.py collect              # benchmarks/nano.json, and the figures in nbs/images
python benchmarks/nano.py misses               # right answers by what a question leaves untold; from benchmarks/nano.json
"""

import json
import os
import platform
import time
from collections import defaultdict
from pathlib import Path

import typer

os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", TOKENIZERS_PARALLELISM="false")
app = typer.Typer(add_completion=False, help=__doc__)
HERE = Path(__file__).parent
COMPARED = ("level 1", "level 2", "level 3", "level 1, eight steps", "level 2, eight steps")
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


@app.command()
def run(
    seed: int = 0,
    folder: Path = Path("runs"),
    threads: int = 0,
    n: int = 500,
    stage: list[str] = [],
):
    "Train one seed and examine the model of every stage: the best in all exams, the others in some."
    from sql_env.training.evals import EVAL_SUITES, run_evals
    from sql_env.training.recipes import NANO
    from sql_env.training.run import train

    start = time.perf_counter()
    r = train(NANO, folder / f"nano-{seed}", seed, stage or None, threads or None)
    trained = time.perf_counter() - start
    for s in stage or [s.name for s in NANO.stages]:
        run_evals(
            r,
            [s],
            EVAL_SUITES if s == "all" else COMPARED if s in ("few", "grpo") else COMPARED[:3],
            n,
        )
    with (r.folder / "wall.jsonl").open("a") as f:
        f.write(
            json.dumps(
                dict(
                    seconds=round(trained),
                    exams=round(time.perf_counter() - start - trained),
                    stages=stage or "all",
                    threads=threads or os.cpu_count(),
                    machine=platform.processor() or platform.machine(),
                )
            )
            + "\n"
        )


@app.command()
def baselines(out: Path = HERE / "nano_baselines.json", n: int = 500):
    "Policies without a model in the same exams."
    from sql_env.episode import EpisodeEnv
    from sql_env.evaluation import evaluate, hack_floor
    from sql_env.policies.baselines import GreedyPolicy, OraclePolicy, RandomPolicy
    from sql_env.training.evals import EVAL_SUITES, suite_questions, suite_row

    rows = []
    for name in EVAL_SUITES:
        qs = suite_questions(name, n)
        for policy in (RandomPolicy(0), GreedyPolicy(), OraclePolicy(qs)):
            rows.append(
                suite_row(
                    evaluate(
                        EpisodeEnv(qs, EVAL_SUITES[name].get("budget", 15)), policy, progress=False
                    ),
                    policy=policy.name,
                    exam=name,
                )
            )
        floor = hack_floor(qs, EVAL_SUITES[name].get("budget", 15))
        rows.append(
            dict(policy="best cheat", exam=name, success=round(max(floor.values()), 4), n=len(qs))
        )
    keep(out, "baselines", rows)


@app.command()
def collect(
    folder: Path = Path("runs"),
    out: Path = HERE / "nano.json",
    images: Path = HERE.parent / "nbs/images",
):
    "Put the exams and the thinned metrics of all seeds into one file, and draw them."
    from sql_env.training.metrics import ERROR_METRIC, read_metrics

    runs = {}
    for f in sorted(folder.glob("nano-*")):
        metrics = [
            {k: v for k, v in m.items() if k in KEPT or k.startswith(ERROR_METRIC)}
            for m in read_metrics(f / "metrics.jsonl")
            if "loss" in m or "reward" in m
        ]
        thin = [m for i, m in enumerate(metrics) if m["stage"] not in ("few", "all") or i % 5 == 0]
        runs[f.name.rpartition("-")[2]] = dict(
            exams=read_metrics(f / "exams.jsonl"), wall=read_metrics(f / "wall.jsonl"), metrics=thin
        )
    out.write_text(
        json.dumps(
            dict(command="python benchmarks/nano.py run --seed N", runs=runs), separators=(",", ":")
        )
        + "\n",
        encoding="utf-8",
    )
    draw(runs, images)


@app.command()
def misses(
    runs: Path = HERE / "nano.json",
    out: Path = HERE / "nano_misses.json",
    stage: list[str] = ["few", "all"],
    exam: list[str] = list(COMPARED[:3]),
):
    "How often a model is right where the question names its tables and the columns of its conditions, and where it does not."
    from sql_env.episode import EpisodeEnv
    from sql_env.evaluation import plan_episodes
    from sql_env.training.evals import suite_questions
    from sql_env.training.nano_expert import missing_mention

    rows = []
    for name in exam:
        questions = suite_questions(name)
        by_id = {q.question_id: missing_mention(q) for q in questions}
        kinds = [
            by_id[where["question_id"]]
            for _, where, _ in plan_episodes(EpisodeEnv(questions), None, 0)
        ]  # in the order of play
        for seed, run in json.loads(runs.read_text(encoding="utf-8"))["runs"].items():
            for e in run["exams"]:
                if e["stage"] not in stage or e["exam"] != name:
                    continue
                right = defaultdict(list)
                for kind, c in zip(kinds, e["correct"], strict=True):
                    right[kind].append(c == "1")
                rows += [
                    dict(
                        exam=name,
                        stage=e["stage"],
                        seed=int(seed),
                        untold=k,
                        n=len(v),
                        success=round(sum(v) / len(v), 4),
                    )
                    for k, v in sorted(right.items())
                ]
    keep(out, "misses", rows)


def keep(out: Path, command: str, rows: list[dict]) -> None:
    "Write rows, a line each, with the command that made them."
    out.write_text(
        f'{{"command": "python benchmarks/nano.py {command}", "rows": [\n'
        + ",\n".join(map(json.dumps, rows))
        + "\n]}\n",
        encoding="utf-8",
    )


def draw(runs: dict, images: Path) -> None:
    "Two figures: the curves, and the exams after each stage."
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    from sql_env.training.evals import EVAL_SUITES
    from sql_env.training.metrics import running_mean

    colours = {
        "copy": "#8c8c8c",
        "few": "#4c72b0",
        "grpo": "#dd8452",
        "full": "#8172b3",
        "all": "#55a868",
    }
    panels = (
        ("loss", ("few", "all"), "imitation: loss"),
        ("sql_env/correct", ("grpo",), "play: right answers"),
        ("sql_env/errors", ("grpo",), "play: refused actions per episode"),
    )
    fig, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
    for ax, (column, stages, title) in zip(axes, panels):
        for r in runs.values():
            done = 0
            for stage in stages:
                points = [
                    (done + m["step"], m[column])
                    for m in r["metrics"]
                    if m["stage"] == stage and column in m
                ]
                if points:
                    steps, values = zip(*points)
                    ax.plot(
                        steps,
                        running_mean(values, 8 if column == "loss" else 3),
                        color=colours[stage],
                        alpha=0.8,
                        label=stage,
                    )
                    done = steps[-1]
        ax.set(
            title=title,
            xlabel="step",
            **dict(yscale="log")
            if column == "loss"
            else dict(ylim=(0, 1 if "correct" in column else None)),
        )
        ax.spines[["top", "right"]].set_visible(False)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        handles, labels = ax.get_legend_handles_labels()
        by = dict(zip(labels, handles))
        if len(by) > 1:
            ax.legend(by.values(), by.keys(), frameon=False)
    fig.savefig(images / "nano_curves.png", dpi=110)
    exams = [
        name
        for name in EVAL_SUITES
        if any(e["exam"] == name for r in runs.values() for e in r["exams"])
    ]
    fig, ax = plt.subplots(figsize=(11, 3.6), layout="constrained")
    for place, exam in enumerate(exams):
        taken = [
            (stage, e)
            for stage in ("few", "grpo", "full", "all")
            for r in runs.values()
            for e in r["exams"]
            if (e["exam"], e["stage"]) == (exam, stage)
        ]
        gaps = [
            i + sum(a != b for (a, _), (b, _) in zip(taken[:i], taken[1:]))
            for i in range(len(taken))
        ]  # a dot's width between two stages
        for (stage, e), gap in zip(taken, gaps):
            x = place + 0.06 * (gap - gaps[-1] / 2)
            ax.plot(
                [x, x],
                [e["low"], e["high"]],
                color=colours[stage],
                lw=3,
                alpha=0.4,
                solid_capstyle="round",
            )
            ax.plot(x, e["success"], "o", color=colours[stage], ms=4, label=stage)
        if place:
            ax.axvline(place - 0.5, color="#e5e5e5", lw=0.8, zorder=0)
    handles, labels = ax.get_legend_handles_labels()
    by = dict(zip(labels, handles))
    by = {stage: by[stage] for stage in colours if stage in by}
    ax.legend(
        by.values(),
        by.keys(),
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1, 1),
        title="after stage",
    )
    ax.set_xticks(
        range(len(exams)), [e.replace(", ", ",\n").replace("unseen ", "unseen\n") for e in exams]
    )
    ax.set(
        xlim=(-0.5, len(exams) - 0.5),
        ylim=(0, 1),
        ylabel="right answers",
        title="exams on schemas never seen: each seed with its 95 % interval",
    )
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(images / "nano_exams.png", dpi=110)


if __name__ == "__main__":
    app()
