"""Runs for other people's tools: they read a run's events, live or afterwards, and are never in its way.

Read `log_entries` (what an event gives to log), then one tool a file (`tensorboard_log`, `mlflow_log`, `wandb_log`),
`log_kinds` (a tool by its name), `replaying` (a run from its first event), `tail` (the process that follows a live run)
and `live_logs` (what starts it).
"""
