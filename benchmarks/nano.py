"""The learning curve that anyone can reproduce: `nano` from random weights, evaluated on schemas it never saw.

python benchmarks/nano.py run --seed 0  # trains in runs/nano-0; start it again to go on
python benchmarks/nano.py evals --seed 0 # evaluates what it trained
python benchmarks/nano.py play --seed 0 # told, play on untold columns, and its control
python benchmarks/nano.py ship --seed 0 # puts the model into the package
python benchmarks/nano.py tokenizer     # a tokenizer.json like the one that ships, from transcripts
python benchmarks/nano.py baselines     # random, greedy, oracle and the best reward-hacking baseline
python benchmarks/nano.py collect       # benchmarks/nano.json, and the figures in nbs/images
python benchmarks/nano.py misses        # right answers by what a question does not mention, from nano.json
python benchmarks/nano.py empty --seed 0 # what a model does next when its query found nothing
"""

import json
import os
import platform
import re
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", TOKENIZERS_PARALLELISM="false")
app = typer.Typer(add_completion=False, help=__doc__)
HERE = Path(__file__).parent
FIXED_PROMPT = (
    "<|user|>How many loans are there?\n\nTables:\nloan\nreader\n\nSteps: 12<|end|><|assistant|>"
    "<describe table_name>loan<|end|><|tool|>loan: 85 rows\nid INTEGER, primary key\nday TEXT<|end|><|assistant|>"
)
SHIPPED = (
    "model.safetensors",
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
LEVELS = ("level 1", "level 2", "level 3")
NOT_NAMED = ("level 1, column not named", "level 2, column not named")
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
    "told": "#937860",
    "more": "#8172b3",
    "grpo": "#c44e52",
    "play_1": "#e5ae38",
    "play_2": "#dd8452",
    "all": "#55a868",
}
TRUNK = ("few", "all")
BRANCH = ("told", "more", "grpo", "play_1", "play_2")  # trained when it is named
Stages = Annotated[
    list[str] | None,
    typer.Option("--stage", help="May be repeated; each command has its own if left out."),
]


def suites_of(stage: str) -> tuple[str, ...]:
    "The model that ships takes all suites, the others those that tell play from imitation."
    from sql_env.training.run import EVAL_SUITES

    return tuple(EVAL_SUITES) if stage == "all" else (*LEVELS, *NOT_NAMED)


def adapted(share: float, epochs: int, more: str, minutes: str):
    "NANO with a share of its rows, read several times, with more data in its last stage, and other minutes."
    from dataclasses import replace

    from sql_env.nano.training import NANO
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
    note_time(trained.folder, start, stages or [recipe.stages[-1].name], threads)


def note_time(folder: Path, start: float, stages: Sequence[str], threads: int) -> None:
    "Add to wall.jsonl how long stages took."
    line = dict(
        command=command_line(),
        seconds=round(time.perf_counter() - start),
        cpu_seconds=round(time.process_time()),
        stages=list(stages),
        threads=threads or os.cpu_count(),
        machine=platform.processor() or platform.machine(),
    )
    with (folder / "wall.jsonl").open("a") as f:
        f.write(json.dumps(line) + "\n")


def command_line() -> str:
    "The command that runs, but for the folder, which is one of this machine."
    words = ["python", "benchmarks/nano.py", *sys.argv[1:]]
    if "--folder" in words:
        at = words.index("--folder")
        del words[at : at + 2]
    return " ".join(words)


@app.command()
def evals(
    seed: int = 0,
    folder: Path = Path("runs"),
    stages: Stages = None,
    suites: Annotated[list[str] | None, typer.Option("--suite", help="All if left out.")] = None,
    n: int = 500,
):
    "Evaluate the models of a seed, on the suites of their stages; what is there already is left out."
    from sql_env.training.run import _suite_row, evaluate_checkpoint

    out = folder / f"nano-{seed}" / "evals.jsonl"
    for stage in stages or (*TRUNK, *BRANCH):
        model = folder / f"nano-{seed}" / stage / "model"
        if not model.exists():
            continue
        lines = read_lines(out)
        done = {line["suite"] for line in lines if (line["stage"], line["asked"]) == (stage, n)}
        for suite in (s for s in suites or suites_of(stage) if s not in done):
            result = evaluate_checkpoint(model, [suite], n)[suite]
            line = _suite_row(result, stage=stage, suite=suite, seed=seed, asked=n)
            print(stage, suite, line["success"], line["low"], line["high"], flush=True)
            with out.open("a", encoding="utf-8") as f:
                f.write(json.dumps(line) + "\n")


@app.command()
def play(seed: int = 0, folder: Path = Path("runs"), threads: int = 0, share: float = 1.0):
    "Play from `told` on, in two rounds; then, as a control, imitate as `told` does for as long."
    from dataclasses import replace

    from sql_env.training.run import train

    threads, path = threads or os.cpu_count() or 1, folder / f"nano-{seed}"
    recipe = adapted(share, 1, "", "")
    train(recipe, path, seed, ["told"], threads)
    start = time.perf_counter()
    train(recipe, path, seed, ["play_2"], threads)
    note_time(path, start, ["play_1", "play_2"], threads)
    minutes = (time.perf_counter() - start) / 60
    control = folder / f"control-{seed}"
    for stage in ("copy", "told"):
        shutil.copytree(path / stage, control / stage, dirs_exist_ok=True)
    told = next(stage for stage in recipe.stages if stage.name == "told")
    options = told.options | dict(minutes=minutes / told.share)
    twice = dict(num_train_epochs=2)  # more rows than there is time for
    more = replace(told, name="more", args=twice, start="told", options=options)
    stages = [more if stage.name == "play_1" else stage for stage in recipe.stages]
    stages = [stage for stage in stages if stage.name != "play_2"]
    made = train(replace(recipe, stages=tuple(stages)), control, seed, ["more"], threads)
    shutil.copytree(made.model_path("more"), path / "more/model", dirs_exist_ok=True)


@app.command()
def ship(
    seed: int = 0,
    folder: Path = Path("runs"),
    stage: str = "all",
    out: Path = HERE.parent / "sql_env/nano/weights",
):
    "Put a trained model into the package: two bytes a weight, its tokenizer, its settings and its card."
    import torch

    from sql_env.policies.local import load_weights
    from sql_env.training.run import EVAL_SUITES

    model = folder / f"nano-{seed}" / stage / "model"
    out.mkdir(parents=True, exist_ok=True)
    weights, tokenizer = load_weights(model, dtype="float32")
    weights.to(torch.float16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    shutil.copy(model / "sql_env.json", out)
    about = shipped_facts(model, out)
    path = folder / f"nano-{seed}" / "evals.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    order = list(EVAL_SUITES)
    results = [line for line in map(json.loads, lines) if line["stage"] == stage]
    results.sort(key=lambda line: order.index(line["suite"]))
    about |= dict(command=f"python benchmarks/nano.py ship --seed {seed} --stage {stage}")
    about |= dict(seed=seed, stage=stage)
    about["evaluations"] = {
        line["suite"]: dict(n=line["n"], success=line["success"]) for line in results
    }
    write_card(about, out)


def write_card(about: dict, out: Path) -> None:
    "Write what is known of the model that ships, for programs and for people."
    (out / "nano.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    (out / "README.md").write_text(shipped_card(about), encoding="utf-8")


def shipped_facts(model: Path, out: Path) -> dict:
    "Which weights were shipped, and what the trained model writes in a fixed conversation."
    import torch

    from sql_env.policies.local import load_weights

    trained, tokenizer = load_weights(model, dtype="float32")
    tokens = tokenizer(FIXED_PROMPT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = trained(tokens).logits[0, -1]
    written = trained.generate(tokens, max_new_tokens=60, do_sample=False)[0, tokens.shape[1] :]
    return dict(
        sha256={name: sha256((out / name).read_bytes()).hexdigest() for name in SHIPPED},
        trained_sha256=sha256((model / "model.safetensors").read_bytes()).hexdigest(),
        parameters=trained.num_parameters(),
        prompt=FIXED_PROMPT,
        written=tokenizer.decode(written).removesuffix("<|end|>"),
        logits={str(int(i)): round(float(logits[i]), 4) for i in logits.topk(5).indices},
    )


def shipped_card(about: dict) -> str:
    "The card beside the weights."
    rows = [
        f"| {name} | {of['success']:.1%} | {of['n']} |" for name, of in about["evaluations"].items()
    ]
    return "\n".join(
        [
            "# nano",
            "",
            f"{about['parameters']:,} weights, trained from random numbers on generated worlds by",
            "`sql_env train nano`; two bytes a weight.",
            "It plays by `sql_env demo --policy nano --source worlds --level 1`, with the extra `train`.",
            "It learned from generated worlds and from the train split of the bundled questions:",
            "on other databases and in other words it is mostly wrong.",
            "",
            "| suite | right | episodes |",
            "|---|---|---|",
            *rows,
            "",
            f"Made by `{about['command']}` (seed {about['seed']}, stage `{about['stage']}`).",
            "Licence: as the package.",
            "",
        ]
    )


SQL_PIECES = (
    "SELECT |SELECT DISTINCT |SELECT COUNT(*) FROM |SELECT a.|SELECT b.| FROM | WHERE | AND "
    "| IS NOT NULL| IS NULL| ORDER BY | DESC| LIMIT | GROUP BY | JOIN | ON | a JOIN | b ON a.| = b."
    "| c ON a.| c ON b.| = c.| BETWEEN | HAVING |COUNT(*)|COUNT(*)\n|SUM(|AVG(|MAX(|MIN(|substr("
    "|, 1, 4) = '|, 1, 4) < '|, 1, 4) >= '| = '| = | < | > | <= | >= |, b."
).split("|")
MESSAGE_PIECES = (
    "NULL| INTEGER| TEXT| REAL| INTEGER\n| TEXT\n| REAL\n| INTEGER, primary key\n|, references "
    "| rows\n| shown|... |\n\nTables:\n|\n\nSteps: |\n(| steps left)|1 step left)|@last"
    "|The answer was submitted.|{'error': '|{'error': 'unknown_column: no such column: | Did you mean "
    "| DESCRIBE a table to see its columns.'}"
).split("|")


def common_words(transcripts: Sequence[Sequence[dict]], most: int = 600) -> list[str]:
    "Words of the questions' wording: frequent there, and rare in results, also in the singular."
    in_questions: Counter[str] = Counter()
    in_results: Counter[str] = Counter()
    for messages in transcripts:
        first = next(m["content"] for m in messages if m["role"] == "user")
        in_questions.update(re.findall(r"[A-Za-z][a-z]+", first.partition("\n")[0]))
        for message in messages:
            if message["role"] == "tool":
                in_results.update(re.findall(r"[A-Za-z]+", message["content"]))
    words = []
    for word, count in in_questions.most_common(3 * most):
        is_frequent = count * 1000 > len(transcripts)
        names = in_results[word] + (in_results[word[:-1]] if word.endswith("s") else 0)
        is_rare_in_results = 20 * names < count
        if is_frequent and is_rare_in_results:
            words.append(word)
    return words[:most]


def train_merges(
    transcripts: Sequence[Sequence[dict]], fixed: Sequence[str], words: str, merges: int
):
    "The vocabulary and the merges of byte-pair encoding for what stands between fixed tokens and words."
    from tokenizers import Regex, Tokenizer, models, trainers
    from tokenizers import pre_tokenizers as pre

    from sql_env.nano.text import render_transcript

    raw = Tokenizer(models.BPE())
    split = pre.Split(Regex(r"[A-Za-z]+|[^A-Za-z]"), "isolated")
    raw.pre_tokenizer = pre.Sequence(
        [split, pre.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=258 + merges,  # 256 bytes and two special tokens
        initial_alphabet=sorted(pre.ByteLevel.alphabet()),
        max_token_length=12,
        show_progress=False,
        special_tokens=["<|pad|>", "<|end|>"],
    )
    longest_first = sorted(fixed, key=len, reverse=True)
    known = re.compile("|".join([*map(re.escape, longest_first), words]))
    pieces = (piece for messages in transcripts for piece in render_transcript(messages))
    raw.train_from_iterator((known.sub("\n", piece.text) for piece in pieces), trainer)
    model = json.loads(raw.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


@app.command()
def tokenizer(
    out: Path = Path("tokenizer.json"),
    seed: int = 900,  # more than any of a stage
    per_level: int = 1000,  # transcripts of each level of worlds
    merges: int = 1400,
):
    "Make a tokenizer like the one that ships; every model that was trained with another must be trained again."
    from sql_env.nano.text import (
        MARKS,
        NAME_TOKENS,
        ROLE_TOKENS,
        TOOL_TOKENS,
        VALUE_TOKENS,
    )
    from sql_env.nano.training import world_transcripts

    transcripts = list(world_transcripts(dict.fromkeys((1, 2, 3, 4, 5), per_level), seed))
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models
    from tokenizers import pre_tokenizers as pre

    fixed = [
        *ROLE_TOKENS,
        *TOOL_TOKENS,
        *NAME_TOKENS,
        *VALUE_TOKENS,
        *MARKS,
        *SQL_PIECES,
        *MESSAGE_PIECES,
        " | ",
        *(f"{i:02}" for i in range(100)),
    ]
    common = common_words(transcripts)
    any_word = "|".join(sorted(common)) or "(?!)"
    words = rf" ?(?<![A-Za-z])(?:{any_word})(?![A-Za-z])"
    vocab, pairs = train_merges(transcripts, fixed, words, merges)
    for word in (part + word for word in common for part in ("", "Ġ")):  # a blank in bytes
        vocab.setdefault(word, len(vocab))
    raw = Tokenizer(models.BPE(vocab, pairs, ignore_merges=True))
    split = pre.Split(Regex(rf"{words}|[A-Za-z]+|[^A-Za-z]"), "isolated")
    raw.pre_tokenizer = pre.Sequence(
        [split, pre.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens(["<|pad|>", "<|end|>"])
    raw.add_tokens([AddedToken(token, special=False, normalized=False) for token in fixed])
    raw.save(str(out))


@app.command()
def baselines(out: Path = HERE / "nano_baselines.json", n: int = 500):
    "Policies without a model in the same suites."
    from sql_env.evaluation.harness import evaluate, hack_floor
    from sql_env.play.episode import EpisodeEnv
    from sql_env.policies.baselines import GreedyPolicy, OraclePolicy, RandomPolicy
    from sql_env.training.run import EVAL_SUITES, _suite_row, suite_questions

    rows = []
    for name, suite in EVAL_SUITES.items():
        questions, budget = suite_questions(name, n), suite.get("budget", 15)
        for policy in (RandomPolicy(0), GreedyPolicy(), OraclePolicy(questions)):
            result = evaluate(EpisodeEnv(questions, budget=budget), policy, progress=False)
            rows.append(_suite_row(result, policy=policy.name, suite=name))
        best = max(hack_floor(questions, budget).values())
        rows.append(dict(policy="best hack", suite=name, success=round(best, 4), n=len(questions)))
    write_rows(out, "baselines", rows)


@app.command()
def collect(
    folder: Path = Path("runs"),
    out: Path = HERE / "nano.json",
    images: Path = HERE.parent / "nbs/images",
):
    "Put the results and the thinned metrics of all seeds into one file, and draw them."
    from sql_env.training.run import read_history

    runs = {}
    for path in sorted(folder.glob("nano-*")):
        seed = path.name.rpartition("-")[2]
        runs[seed] = dict(
            evals=read_lines(path / "evals.jsonl"),
            wall=read_lines(path / "wall.jsonl"),
            metrics=thin(read_history(path)),
        )
    content = dict(command="python benchmarks/nano.py collect", runs=runs)
    out.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    draw_curves(runs, images / "nano_curves.png")
    draw_results(runs, images / "nano_suites.png", TRUNK)
    if any(line["stage"] in BRANCH for run in runs.values() for line in run["evals"]):
        draw_results(runs, images / "nano_play.png", BRANCH)


def read_lines(path: Path) -> list[dict]:
    "The lines of a JSONL file; none if there is no file."
    return [*map(json.loads, path.read_text("utf-8").splitlines())] if path.exists() else []


def thin(lines: list[dict]) -> list[dict]:
    "The metrics worth keeping; of the long stages those of each 250th step."
    reported = [line for line in lines if "loss" in line or "reward" in line]
    kept = [x for x in reported if x["stage"] in ("copy", "grpo") or x["step"] % 250 == 0]
    return [
        {k: v for k, v in line.items() if k in KEPT or k.startswith("sql_env/error/")}
        for line in kept
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
    for suite in (*LEVELS, "bundled"):
        for seed, run in results.items():
            for line in run["evals"]:
                if line["suite"] == suite and line["stage"] in (stages or (*TRUNK, *BRANCH)):
                    missing = missing_in_order_of_play(suite, line["asked"])
                    rows += miss_rows(line, int(seed), missing)
    write_rows(out, "misses", rows)


@app.command()
def empty(
    seed: int = 0,
    folder: Path = Path("runs"),
    stages: Stages = None,
    n: int = 500,
    temperature: float = 1.0,
    out: Path = HERE / "nano_empty.json",
):
    "What models do after a query that found nothing, in sampled episodes: answer, or query again."
    import tempfile

    from sql_env.evaluation.harness import evaluate
    from sql_env.evaluation.logs import read_log
    from sql_env.nano.model import NanoPolicy
    from sql_env.play.episode import EpisodeEnv
    from sql_env.training.run import suite_questions

    rows = []
    for stage in stages or ("few", "told", "play_2", "all"):
        model = folder / f"nano-{seed}" / stage / "model"
        policy = NanoPolicy(model, temperature=temperature)
        for suite in NOT_NAMED:
            env = EpisodeEnv(suite_questions(suite, n))
            with tempfile.TemporaryDirectory() as logs:
                log = Path(logs) / "log.jsonl"
                result = evaluate(env, policy, batch=64, log=log, progress=False, robust=False)
                episodes = [trajectory.turns for trajectory in read_log(log)[1]]
            about = dict(seed=seed, stage=stage, suite=suite, temperature=temperature, n=n)
            rows.append(about | dict(success=round(result.success_rate, 4)) | after_empty(episodes))
            print(rows[-1], flush=True)
    write_rows(out, "empty", rows)


def after_empty(episodes: list) -> dict[str, int]:
    "How many queries found nothing, and how many actions of each kind followed."
    followed = [
        after.action.action_type
        for turns in episodes
        for turn, after in zip(turns, turns[1:])
        if turn.action.action_type == "QUERY" and not turn.error and found_nothing(turn.result)
    ]
    return dict(empty=len(followed)) | {
        kind.lower(): followed.count(kind) for kind in ("ANSWER", "QUERY", "DESCRIBE", "SAMPLE")
    }


def found_nothing(result: str) -> bool:
    "Whether a result has no rows, or a single row of nothing or of no things."
    lines = result.strip().split("\n")
    return (
        lines[-1] == "(no rows)" or len(lines) == 2 and set(lines[1].split(" | ")) <= {"NULL", "0"}
    )


@cache
def missing_in_order_of_play(suite: str, n: int) -> list[str]:
    "What each of `n` questions of a suite does not mention."
    from sql_env.evaluation.rollouts import plan_episodes
    from sql_env.play.episode import EpisodeEnv
    from sql_env.training.experts import missing_mention
    from sql_env.training.run import suite_questions

    questions = suite_questions(suite, n)
    plan = plan_episodes(EpisodeEnv(questions), None, 0)
    return [missing_mention(questions.get(reset["question_id"])) for _, reset, _ in plan]


def miss_rows(line: dict, seed: int, missing: list[str]) -> list[dict]:
    "The share of right answers for each kind of question."
    right = defaultdict(list)
    for kind, correct in zip(missing, line["correct"], strict=True):
        right[kind].append(correct == "1")
    about = dict(suite=line["suite"], stage=line["stage"], seed=seed)
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
        ("loss", TRUNK, "imitation: loss"),
        ("sql_env/correct", ("grpo",), "GRPO: right answers"),
        ("sql_env/errors", ("grpo",), "GRPO: refused actions per episode"),
    )
    lines = [line for run in runs.values() for line in run["metrics"]]
    panels = tuple(p for p in panels if any(line["stage"] in p[1] for line in lines))
    size = (5 + 3 * (len(panels) - 1), 3)
    fig, axes = plt.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)
    for ax, (metric, stages, title) in zip(axes[0], panels):
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
    import pandas as pd

    done, window = 0, 8 if metric == "loss" else 3
    for stage in stages:
        lines = [line for line in metrics if line["stage"] == stage and metric in line]
        if lines:
            steps = [done + line["step"] for line in lines]
            series = pd.Series([line[metric] for line in lines])
            values = series.rolling(window, min_periods=1).mean()
            ax.plot(steps, values, color=COLOURS[stage], alpha=0.8, label=stage)
            done = steps[-1]


def draw_results(runs: dict, path: Path, stages: tuple[str, ...]) -> None:
    "Right answers in each suite after each of some stages, a dot with its interval per seed."
    import matplotlib.pyplot as plt

    from sql_env.training.run import EVAL_SUITES

    lines = [line for run in runs.values() for line in run["evals"] if line["stage"] in stages]
    suites = [name for name in EVAL_SUITES if any(line["suite"] == name for line in lines)]
    of_suites = [[line for line in lines if line["suite"] == suite] for suite in suites]
    row_height = max(0.42, 0.07 * max(map(len, of_suites)))
    fig, ax = plt.subplots(figsize=(7, row_height * len(suites) + 1), layout="constrained")
    for place, of_suite in enumerate(of_suites):
        draw_suite(ax, place, sorted(of_suite, key=lambda line: stages.index(line["stage"])))
        if place:
            ax.axhline(place - 0.5, color="#e5e5e5", lw=0.8, zorder=0)
    entries = legend_entries(ax)
    ax.legend(entries.values(), entries.keys(), frameon=False, title="after stage")
    ax.set_yticks(range(len(suites)), suites)
    ax.set(xlim=(0, 1), ylim=(len(suites) - 0.5, -0.5), xlabel="right answers")
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=110)


def draw_suite(ax, place: int, lines: list[dict]) -> None:
    "Dots below each other, a dot's height between two stages."
    positions, position, previous = [], 0, None
    for line in lines:
        position += previous not in (None, line["stage"])
        positions.append(position)
        position, previous = position + 1, line["stage"]
    step = min(0.2, 0.8 / (positions[-1] + 1))
    for y, line in zip(positions, lines):
        y = place + step * (y - positions[-1] / 2)
        style = dict(color=COLOURS[line["stage"]])
        ax.plot(
            [line["low"], line["high"]], [y, y], lw=3, alpha=0.4, solid_capstyle="round", **style
        )
        ax.plot(line["success"], y, "o", ms=4, label=line["stage"], clip_on=False, **style)


if __name__ == "__main__":
    app()
