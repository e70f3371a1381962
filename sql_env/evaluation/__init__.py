"Many episodes: rollouts, logs, statistics, reports, rescoring, audits."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "harness": "RunStopped evaluate hack_floor",
        "results": (
            "EvaluationResult compare load_result pass_at_k pass_hat_k plot_success_rates questions_needed "
            "results_frame results_markdown"
        ),
        "rows": "EpisodeResult suite_hash text_hash",
        "logs": "read_log rescore_log write_log",
        "rollouts": "tree_rollouts",
        "audit": "audit_markdown audit_questions",
    },
)
