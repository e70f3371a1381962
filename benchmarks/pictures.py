"""Draw the pictures of README and home page: `python benchmarks/pictures.py` writes nbs/images/."""

from io import StringIO
from pathlib import Path

import matplotlib
import matplotlib.figure
from rich.console import Console
from rich.terminal_theme import MONOKAI

from sql_env.cli.play import show_episode
from sql_env.evaluation.harness import evaluate, hack_floor
from sql_env.evaluation.results import plot_success_rates
from sql_env.paths import benchmark_results
from sql_env.play.episode import EpisodeEnv
from sql_env.play.reward import RewardConfig
from sql_env.policies.baselines import (
    GreedyPolicy,
    OraclePolicy,
    RandomPolicy,
    ScriptedPolicy,
    play_episode,
)
from sql_env.sources.loading import load

OUT = Path(__file__).resolve().parent.parent / "nbs" / "images"
SCRIPT = [
    ("DESCRIBE", "visit"),
    ("QUERY", "SELECT count(*) FROM visit WHERE paid_at IS NULL"),
    ("QUERY", "SELECT count(*) FROM visit WHERE paid_on IS NULL"),
    ("ANSWER", "44"),
]


def episode() -> None:
    "An episode in the terminal, as an SVG."
    qs = load("bundled")
    env = EpisodeEnv(qs, reward=RewardConfig.shaped())
    play_episode(env, ScriptedPolicy(SCRIPT), env.reset(question_id="vet_clinic-02"))
    described = env.episode.turns[0]
    described.result = "\n".join([*described.result.splitlines()[:2], "..."])  # half as high
    console = Console(
        record=True, width=120, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    show_episode(console, env.episode, "a person")
    console.save_svg(
        str(OUT / "episode.svg"), title="sql_env demo", theme=MONOKAI, unique_id="sql-env"
    )


def scores() -> None:
    "The baselines on the bundled collection, with the hack floor."
    matplotlib.use("Agg")
    qs = load("bundled")
    results = [
        evaluate(qs, p, progress=False) for p in (RandomPolicy(), GreedyPolicy(), OraclePolicy(qs))
    ]
    plot_success_rates(results, hack_floor(qs)).figure.savefig(
        OUT / "baselines.png", dpi=130, metadata={"Software": None}
    )


CARD = """DESCRIBE visit
  visit_id INTEGER, primary key
  paid_on TEXT ...
QUERY    SELECT count(*) FROM visit WHERE paid_on IS NULL
  44
ANSWER   44"""


def card() -> None:
    "The picture that shows up where a link to the site is shared."
    matplotlib.use("Agg")
    figure = matplotlib.figure.Figure(figsize=(12, 6.3), facecolor="#10151c")
    figure.text(0.06, 0.8, "sql_env", size=54, color="white", weight="bold")
    tagline = "Explore a hidden database, answer a question,\nget a verdict you can trust"
    figure.text(0.06, 0.73, tagline, size=25, color="#c8d3e0", va="top")
    figure.text(0.06, 0.08, CARD, size=19, color="#7ad3a4", family="monospace", linespacing=1.4)
    figure.savefig(OUT / "card.png", dpi=100, metadata={"Software": None})


def _passing_shares() -> dict[str, float]:
    "Share of wrong one-edit SQL on Spider dev that each check calls right, from mutants_spider_dev.json."
    kinds = benchmark_results("mutants_spider_dev")["count"].items()
    counts = [c for kind, c in kinds if kind not in ("add_distinct", "wrong_column")]
    n_wrong = sum(c["n"] - c.get("equivalent", 0) for c in counts)
    checks = {
        "rows as a set,\none database": "set",
        "rows and order,\none database": "order",
        "sql_env:\nother contents too": "robust",
    }
    return {k: sum(c.get(name, 0) for c in counts) / n_wrong for k, name in checks.items()}


def _draw_luck(ax) -> None:
    shares = _passing_shares()
    colors = ["#9aa5b1"] * (len(shares) - 1) + ["#2780e3"]
    bars = ax.bar(list(shares), list(shares.values()), 0.6, color=colors)
    ax.bar_label(bars, [f"{s:.0%}" for s in shares.values()])
    ax.set_title("Wrong SQL that a check calls right", loc="left", size=11)
    ax.set_yticks([])
    ax.spines[["top", "right", "left"]].set_visible(False)


def _draw_real_model(ax) -> None:
    rows = {
        (r["model"] == "base", r["suite"]): r for r in benchmark_results("real_model")["rows"][::-1]
    }
    suites = {
        "level 1": "generated, level 1",
        "level 2": "generated, level 2",
        "bundled": "bundled databases",
        "spider dev": "Spider, unseen databases",
    }
    for place, suite in enumerate(suites):
        for is_base, shift, color in ((True, -0.19, "#9aa5b1"), (False, 0.19, "#2780e3")):
            if row := rows.get((is_base, suite)):
                error = [[row["success"] - row["low"]], [row["high"] - row["success"]]]
                ax.barh(place + shift, row["success"], 0.36, xerr=error, color=color, ecolor="#555")
                ax.text(row["high"] + 0.01, place + shift, f"{row['success']:.0%}", va="center")
    ax.set_yticks(range(len(suites)), suites.values())
    ax.invert_yaxis()
    ax.set_xlim(0, 0.8)
    ax.xaxis.set_major_formatter("{x:.0%}")
    for name, color in (("as published", "#9aa5b1"), ("after imitation", "#2780e3")):
        ax.barh(0, 0, color=color, label=name)
    ax.legend(frameon=False, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)


def real_model() -> None:
    "Right answers of a small language model before and after training, from real_model.json."
    matplotlib.use("Agg")
    figure = matplotlib.figure.Figure(figsize=(8.5, 3.2), layout="constrained")
    ax = figure.subplots()
    _draw_real_model(ax)
    ax.set_xlabel("right answers, table names only (95 % intervals)")
    figure.savefig(OUT / "real_model.png", dpi=130, metadata={"Software": None})


def first_page() -> None:
    "What luck passes, and what training gives: the picture of README."
    matplotlib.use("Agg")
    figure = matplotlib.figure.Figure(figsize=(11.5, 3.4), layout="constrained")
    luck, training = figure.subplots(1, 2, width_ratios=[1, 1.25])
    _draw_luck(luck)
    _draw_real_model(training)
    training.set_title("Right answers of SmolLM2-135M", loc="left", size=11)
    figure.savefig(OUT / "first_page.png", dpi=130, metadata={"Software": None})


def judging() -> None:
    "Published systems by plain execution accuracy and on other contents of the tables too, from predictions.json."
    matplotlib.use("Agg")
    found = benchmark_results("predictions")["systems"]
    found = sorted(found, key=lambda s: s["rates"]["value"])
    figure = matplotlib.figure.Figure(figsize=(8.5, 4.4), layout="constrained")
    ax = figure.subplots()
    for place, system in enumerate(found):
        value, robust = (100 * system["rates"][by] for by in ("value", "robust"))
        ax.plot([robust, value], [place, place], color="#c9a48f", lw=5, zorder=1)
        ax.text(value + 0.5, place, f"{robust - value:.1f}".replace("-", "−"), va="center", size=9)
    places = range(len(found))
    for by, color, name in (
        ("value", "#9aa5b1", "execution accuracy"),
        ("robust", "#2780e3", "right on other contents of the tables too"),
    ):
        rates = [100 * s["rates"][by] for s in found]
        ax.scatter(rates, places, color=color, s=55, zorder=2, label=name)
    ax.set_yticks(places, [s["system"].replace("_", " ") for s in found], size=9)
    ax.set_xlabel(f"% of the same {found[0]['n']} questions of Spider dev, published predictions")
    ax.legend(frameon=False, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(OUT / "judging.png", dpi=130, metadata={"Software": None})


def favicon() -> None:
    "A magnifying glass over a table."
    rows = "".join(f'<rect x="4" y="{y}" width="24" height="5" rx="1"/>' for y in (4, 11, 18))
    glass = '<circle cx="20" cy="19" r="6"/><path d="m24 24 5 5"/>'
    (OUT / "favicon.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
        f'<g fill="#2780e3">{rows}</g>'
        f'<g fill="#fff" stroke="#10151c" stroke-width="2.5" stroke-linecap="round">{glass}</g></svg>\n'
    )


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    card()
    favicon()
    episode()
    scores()
    real_model()
    first_page()
    judging()
