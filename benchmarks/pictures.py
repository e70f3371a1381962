"""Draw the pictures of README and home page: `python benchmarks/pictures.py` writes nbs/images/."""

from io import StringIO
from pathlib import Path

import matplotlib
from rich.console import Console
from rich.terminal_theme import MONOKAI

from sql_env.cli.play import show_episode
from sql_env.episode import EpisodeEnv
from sql_env.evaluation import evaluate, hack_floor
from sql_env.policies.base import ScriptedPolicy, play_episode
from sql_env.policies.baselines import GreedyPolicy, OraclePolicy, RandomPolicy
from sql_env.reports import plot_success_rates
from sql_env.reward import RewardConfig
from sql_env.sources import load

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
    console = Console(
        record=True, width=100, file=StringIO(), force_terminal=True, color_system="truecolor"
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


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    episode()
    scores()
