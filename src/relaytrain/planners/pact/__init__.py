"""PACT and what it is compared with, on top of `planners.search`.

Read in this order: `level_tables` (instances by level), `lateness` (time at a level), `rules` (which action is next)
with `expanded_graph` and `time_layers` (all paths, for the rules of Algorithm 3), `least_loss` and `nearest` (what
could be reached instead), `compose` (a path becomes a plan) with `chance` and `value` (its probability, its state's
value), `planner`, `forecast` (what a run will still spend), `baselines`, `among` (rows of `compare`). Over worlds
instead of levels: `schedules` (what is followed through them), `sampled` (which is chosen), `sampled_plan` (what is
stated of it), `fixed` (one schedule kept to).
"""
