"Many episodes: rollouts, logs, statistics, reports, rescoring, audits."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "harness": "EvaluationResult RunStopped compare evaluate hack_floor",
        "logs": "EpisodeResult Trajectory merge_logs read_log write_log",
        "failures": "classify_failure count_failures",
        "trees": "step_values tree_rollouts",
        "workers": "ProcessWorkers RayExecutor",
        "rescoring": "rescore_log",
        "statistics": "pass_at_k pass_hat_k questions_needed rate_interval",
        "reports": "load_result plot_success_rates results_frame results_markdown save_result",
        "audit": "audit_markdown audit_questions",
    },
)
