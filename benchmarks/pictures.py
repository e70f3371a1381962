"""Draw the pictures of README and home page: `python benchmarks/pictures.py` writes nbs/images/."""
from io import StringIO
from pathlib import Path

import matplotlib
from rich.console import Console
from rich.terminal_theme import MONOKAI

from sql_env import sources
from sql_env.cli import show_episode
from sql_env.episode import EpisodeEnv
from sql_env.evaluation import evaluate, hack_floor, plot
from sql_env.policies import GreedyPolicy, OraclePolicy, RandomPolicy, ScriptedPolicy, play
from sql_env.reward import RewardConfig

OUT = Path(__file__).resolve().parent.parent / "nbs" / "images"
SCRIPT = [("DESCRIBE", "visit"), ("QUERY", "SELECT count(*) FROM visit WHERE paid_at IS NULL"),
          ("QUERY", "SELECT count(*) FROM visit WHERE paid_on IS NULL"), ("ANSWER", "44")]


def episode() -> None:
    "An episode in the terminal, as an SVG."
    qs = sources.load("bundled")
    env = EpisodeEnv(qs, reward=RewardConfig.shaped())
    play(env, ScriptedPolicy(SCRIPT), env.reset(question_id="vet_clinic-02"))
    console = Console(record=True, width=100, file=StringIO(), force_terminal=True, color_system="truecolor")
    show_episode(console, env.episode, "a person")
    console.save_svg(str(OUT / "episode.svg"), title="sql_env demo", theme=MONOKAI, unique_id="sql-env")


def scores() -> None:
    "The baselines on the bundled collection, with the hack floor."
    matplotlib.use("Agg")
    qs = sources.load("bundled")
    results = [evaluate(qs, p, progress=False) for p in (RandomPolicy(), GreedyPolicy(), OraclePolicy(qs))]
    plot(results, hack_floor(qs)).figure.savefig(OUT / "baselines.png", dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    episode()
    scores()
