"Many episodes: rollouts, logs, statistics, reports, rescoring, audits."

from sql_env import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "harness": "RunStopped evaluate hack_floor",
        "results": "EvaluationResult compare load_result plot_success_rates results_frame results_markdown",
        "rows": "EpisodeResult",
        "logs": "merge_logs read_log rescore_log write_log",
        "trees": "step_values tree_rollouts",
        "processes": "ProcessWorkers RayExecutor",
        "statistics": "pass_at_k pass_hat_k questions_needed",
        "audit": "audit_markdown audit_questions",
    },
)
