"What people look at: pages of episodes and runs, widgets, the explorer. Holds the one HTML toolkit."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "episode": "view_episode watch_policy",
        "page": "embed_page episode_html",
        "logs": "read_runs",
        "run": "show_runs",
        "explorer": "EpisodeExplorer",
    },
)
