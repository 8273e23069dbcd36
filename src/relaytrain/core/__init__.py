"""The centre: the words of the design as frozen values. Standard library and numpy; no files, no clock, no torch.

Read `problem`, `state`, `plan` and `outcome` (what is to be decided, where a run stands, what is answered, what came of
it), `cost`, `curve`, `law` and `worlds` (what an epoch takes and does), then `protocols`, the seams between folders.
Details of a problem: `nesting`, `sampling`; names: `planner_names`, `families`, `head_names`; `loopback`, which
addresses nobody else reaches. Settings of simulations: `world_settings`, `random_world`.

DepL: `transforms`, `fourier` and `distribution` (quantiles of sums), `dependence` (epochs that hang together), `depl`
(the problem), `depl_settings`, `increments` (its law). As text and bytes: `explain`, `display`, `law_json`, `npz`. What
goes wrong: `errors`, `user_code`, `notices`.
"""
