"""Does play teach? nano from the model that ships: imitation continued, trajectory GRPO, GiGPO and trees.

python benchmarks/play.py run --folder runs/play  # all jobs in order; start it again to go on
python benchmarks/play.py noise --folder runs/play # how alike gradients are that are drawn again, at the start
python benchmarks/play.py equal --folder runs/play # trees at the learning rate of GRPO
python benchmarks/play.py show                    # the table, and paired differences, from benchmarks/play.json

Each arm begins with the same weights, plays (or imitates) the same questions, and ends after as many tokens that the
model wrote (or learned) as trajectory GRPO needs for its steps. Questions are those of level 2 that do not name the
column of a condition; those that four tries of the start all get right or all get wrong are left out. Learning rate
and weight of the distance to the start are chosen for each arm on validation questions first. The test is the suite
`level 2, column not named`, greedy.
"""

import json
import os
import random
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", TOKENIZERS_PARALLELISM="false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import typer

app = typer.Typer(add_completion=False, help=__doc__)
HERE = Path(__file__).parent
OUT = HERE / "play.json"
SUITE = "level 2, column not named"
SHAPES = {
    "grpo": ("tree", dict(width=8, depth=1)),
    "tree": (
        "tree",
        dict(width=3, depth=2),
    ),  # 9 endings, and an eighth more tokens than 8 rollouts
    "gigpo": ("gigpo", dict(width=8, depth=1)),
}
PLAY = ((1e-4, 0.0), (4e-4, 0.0), (4e-4, 0.03))  # learning rates, and weights of the distance
TRIED = dict(grpo=PLAY, tree=PLAY[:2], imitation=((1e-4, 0.0), (5e-4, 0.0)))
QUESTIONS_A_STEP = 8


def rows() -> list[dict]:
    "What was measured so far."
    return json.loads(OUT.read_text(encoding="utf-8"))["rows"] if OUT.exists() else []


def add(row: dict) -> None:
    "Keep a row."
    head = '{"command": "python benchmarks/play.py run", "rows": [\n'
    OUT.write_text(head + ",\n".join(map(json.dumps, [*rows(), row])) + "\n]}\n", encoding="utf-8")
    print(json.dumps({k: v for k, v in row.items() if k != "correct"}), flush=True)


def found(**about) -> dict | None:
    "The row of a job, if it was done."
    return next((r for r in rows() if all(r.get(k) == v for k, v in about.items())), None)


def untold(seed: int, folder: Path, n: int):
    "Questions of level 2 that do not name the column of a condition."
    from sql_env.nano.training import _untold_questions

    questions = _untold_questions(seed, level_1=10, level_2=n, folder=folder / f"worlds-{seed}")
    return questions.filter(lambda q: q.question_id.startswith("world_2"))


def doable(folder: Path, n: int):
    "Questions that the start gets right in some of four tries, and how many were tried."
    from sql_env import EpisodeEnv, Session
    from sql_env.evaluation import tree_rollouts
    from sql_env.nano.model import NanoPolicy

    path, questions = folder / "doable.json", untold(3, folder, n)
    if not path.exists():
        policy = NanoPolicy(temperature=1.0, batch_size=64, max_new_tokens=80)
        sessions = []
        for q in questions:
            sessions.append(Session(EpisodeEnv(questions, budget=8)))
            sessions[-1].begin(q.question_id, 0)
        trees = tree_rollouts(sessions, policy, 4, 1, batch=16)
        ids = [
            q.question_id
            for q, tree in zip(questions, trees)
            if len({leaf.trajectory.correct for leaf in tree.leaves}) == 2
        ]
        path.write_text(json.dumps(dict(ids=ids, tried=len(questions))))
    kept = json.loads(path.read_text())
    return questions.filter(lambda q: q.question_id in set(kept["ids"])), kept["tried"]


def expert_rows(questions, recipe, stage, tokenizer, seed):
    "What the control imitates: the expert that searches, on the questions that the others play."
    from sql_env.nano.text import render_transcript
    from sql_env.nano.training import _tokenize_transcript, expert_transcripts

    made, tokens, again = [], 0, 0
    while tokens < stage.options["tokens"]:
        for messages in expert_transcripts(questions, seed + again, probe_columns=True):
            row = _tokenize_transcript(render_transcript(messages), tokenizer)
            made.append(row)
            tokens += sum(label != -100 for label in row["labels"])
        again += 1
    return made


def recipe_of(arm: str, questions, rate: float, beta: float, steps: int, tokens: int):
    "The recipe of an arm; imitation has no steps but tokens."
    from branching import nano_trees

    from sql_env.nano.training import NANO, shipped_nano
    from sql_env.play.reward import RewardConfig
    from sql_env.training.recipes import Stage

    args = dict(learning_rate=rate, save_steps=10_000, logging_steps=1, warmup_steps=1)
    if arm == "imitation":
        stage = Stage("play", "sft", questions, args, options=dict(tokens=tokens, max_tokens=4000))
        rows_of = partial(expert_rows, questions)
        recipe = replace(NANO, make_rows=rows_of)
    else:
        method, shape = SHAPES[arm]
        options = shape | dict(batch=QUESTIONS_A_STEP, beta=beta)
        args |= dict(
            max_steps=steps,
            per_device_train_batch_size=QUESTIONS_A_STEP,
            lr_scheduler_type="constant_with_warmup",
        )
        env = dict(reward=RewardConfig.sparse(), budget=8)
        stage = Stage("play", method, questions, args, options=options, env=env)
        recipe = replace(NANO, make_trainers=dict(tree=nano_trees, gigpo=nano_trees))
    return replace(recipe, name=arm, stages=(stage,), model=shipped_nano, turn_tokens=80)


def distance(folder: Path) -> float:
    "How far the weights are from the start, as a share of their length."
    from sql_env.nano.model import find_nano
    from sql_env.policies.local import load_weights

    both = (load_weights(f, dtype="float32")[0] for f in (find_nano(), folder))
    old, new = (model.state_dict() for model in both)
    moved = sum(float(((new[k] - old[k]) ** 2).sum()) for k in old if k in new)
    return (moved / sum(float((w**2).sum()) for w in old.values())) ** 0.5


def judged(model, questions) -> dict:
    "The share of right answers of a model, greedy, and each answer."
    from sql_env import EpisodeEnv
    from sql_env.evaluation import evaluate
    from sql_env.nano.model import NanoPolicy

    policy = NanoPolicy(model, batch_size=64)
    result = evaluate(
        EpisodeEnv(questions, budget=15), policy, batch=64, robust=False, progress=False
    )
    right = "".join("1" if e.correct else "0" for e in result.episodes)
    return dict(success=round(result.success_rate, 4), n=len(right), correct=right)


def job(
    folder: Path,
    arm: str,
    seed: int,
    rate: float,
    beta: float,
    steps: int,
    tokens: int,
    test,
    kind: str,
):
    "Train an arm and judge it, unless it was done."
    from sql_env.training.run import read_history, train

    about = dict(kind=kind, arm=arm, seed=seed, rate=rate, beta=beta)
    if done := found(**about):
        return done
    began = time.process_time()
    questions, _ = doable(folder, 2400)
    recipe = recipe_of(arm, questions, rate, beta, steps, tokens)
    run = train(recipe, folder / f"{kind}-{arm}-{seed}-{rate:g}-{beta:g}", seed, threads=1)
    lines = [line for line in read_history(run.folder) if "loss" in line]
    told = {
        name: round(sum(line[name] for line in lines if name in line) / len(lines), 4)
        for name in ("frac_reward_zero_std", "entropy", "kl", "reward")
        if any(name in line for line in lines)
    }
    if arm == "imitation":
        told["tokens"] = tokens
    else:
        told |= dict(tokens=lines[-1]["sampled_tokens"], steps=len(lines))
        told["rewards"] = [round(line["reward"], 3) for line in lines]
    model = run.model_path("play")
    told |= dict(moved=round(distance(model), 4), cpu_seconds=round(time.process_time() - began))
    row = about | told | judged(model, test)
    add(row)
    return row


@app.command()
def run(
    folder: Path = Path("runs/play"),
    sweep_steps: int = 5,
    steps: int = 8,  # of trajectory GRPO; trees get one less, as theirs take more tokens
    n: Annotated[int, typer.Option(help="Questions of the test.")] = 200,
    seeds: int = 3,
):
    "All jobs in order; what is there already is left out."
    from sql_env.training.run import suite_questions

    folder.mkdir(parents=True, exist_ok=True)
    validation = untold(71, folder, 1200)
    validation = validation.sample(min(80, len(validation)), 1)
    test = suite_questions(SUITE, n)
    questions, tried = doable(folder, 2400)
    for kind, judge in (("start on validation", validation), ("start", test)):
        if not found(kind=kind):
            add(dict(kind=kind, doable=len(questions), tried=tried) | judged(None, judge))
    best = {}
    per_step = None
    for arm in ("grpo", "tree", "imitation"):
        tried_rows = []
        for rate, beta in TRIED[arm]:
            tokens = per_step * sweep_steps if per_step else 0
            row = job(folder, arm, 90, rate, beta, sweep_steps, tokens, validation, "sweep")
            per_step = per_step or round(row["tokens"] / sweep_steps)
            tried_rows.append(row)
        best[arm] = max(tried_rows, key=lambda r: r["success"])
    best["gigpo"] = best["grpo"]
    for arms in (("grpo", "tree"), ("imitation",), ("gigpo",)):
        for seed in range(seeds):
            for arm in arms:
                how = best[arm]["rate"], best[arm]["beta"]
                taken = steps - 1 if arm == "tree" else steps
                tokens = per_step * steps  # of imitation
                job(folder, arm, seed, *how, taken, tokens, test, "final")


@app.command()
def equal(folder: Path = Path("runs/play"), steps: int = 7, n: int = 200, seeds: int = 3):
    "Trees at the learning rate of GRPO, whose validation could not tell the two rates apart."
    from sql_env.training.run import suite_questions

    for seed in range(seeds):
        job(folder, "tree", seed, 4e-4, 0.0, steps, 0, suite_questions(SUITE, n), "equal rates")


@app.command()
def noise(folder: Path = Path("runs/play"), draws: int = 6, n: int = 6):
    "How alike two gradients of one method are on the same questions: the mean cosine, and the tokens that each cost."
    from itertools import combinations

    import torch
    from branching import gigpo_credit

    from sql_env.nano.training import shipped_nano

    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    questions, _ = doable(folder, 2400)
    ids = [q.question_id for q in questions.sample(n, 5)]
    for arm, shape in (("grpo", "grpo"), ("gigpo", "grpo"), ("tree", "tree")):
        if found(kind="noise", arm=arm):
            continue
        model, tokenizer = shipped_nano()
        recipe = recipe_of(shape, questions, 1e-4, 0.0, 1, 0)
        (stage,) = recipe.stages
        make = recipe.make_trainers["tree"]
        trainer = make(recipe, stage, model, tokenizer, folder / "noise", 0)
        if arm == "gigpo":
            trainer.credit = lambda root: gigpo_credit([root])
        vectors = []
        for draw in range(draws):
            trainer.state.global_step = draw  # the seed of the trees
            model.zero_grad()
            trainer.training_step(model, dict(question_id=ids))
            parts = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
            vectors.append(torch.cat(parts).clone())
        cosines = [torch.cosine_similarity(a, b, 0).item() for a, b in combinations(vectors, 2)]
        lengths = [v.norm().item() for v in vectors]
        mean = torch.stack(vectors).mean(0).norm().item()
        add(
            dict(
                kind="noise",
                arm=arm,
                draws=draws,
                questions=n,
                cosine=round(sum(cosines) / len(cosines), 4),
                length=round(sum(lengths) / draws, 3),
                length_of_mean=round(mean, 3),
                tokens=round(trainer.sampled / draws),
                without_gradient=round(trainer.told["frac_reward_zero_std"], 3),
            )
        )


@app.command()
def show():
    "The table and paired differences."
    done = [r for r in rows() if r["kind"] == "final"]
    start = found(kind="start")
    print(f"start {start['success']:.1%} of {start['n']}")
    for r in done:
        print(
            f"{r['arm']:10} seed {r['seed']}: {r['success']:.1%}, {r['tokens']} tokens, {r.get('frac_reward_zero_std')}"
        )
    for one, other in (
        ("grpo", "tree"),
        ("imitation", "grpo"),
        ("imitation", "tree"),
        ("grpo", "gigpo"),
    ):
        print(one, "->", other, paired(one, other))


def paired(one: str, other: str, draws: int = 4000) -> str:
    "The mean difference of two arms over seeds and questions, with a bootstrap interval over questions."
    pairs = []
    for seed in range(9):
        a, b = (found(kind="final", arm=arm, seed=seed) for arm in (one, other))
        if a and b:
            pairs.append([int(y) - int(x) for x, y in zip(a["correct"], b["correct"])])
    if not pairs:
        return "not played"
    means = [sum(column) / len(pairs) for column in zip(*pairs)]
    rng = random.Random(0)
    drawn = sorted(sum(rng.choices(means, k=len(means))) / len(means) for _ in range(draws))
    low, high = drawn[int(0.025 * draws)], drawn[int(0.975 * draws)]
    each = ", ".join(f"{sum(p) / len(p):+.1%}" for p in pairs)
    return f"{sum(means) / len(means):+.1%} [{low:+.1%}, {high:+.1%}], by seed {each}"


if __name__ == "__main__":
    sys.exit(app())
