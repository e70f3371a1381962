"What people look at: an episode as HTML from one template, pages of episodes and runs, the explorer."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "episode": "view_episode watch_policy",
        "page": "embed_page episode_html read_runs show_runs",
        "explorer": "EpisodeExplorer",
    },
)
