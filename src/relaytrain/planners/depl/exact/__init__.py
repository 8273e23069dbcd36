"""DepL solved exactly: `joint` over data, `version_search` over schedules, each with its bound; and beyond the paper.

`version_search` calls `branch_and_bound`, which asks `meets_target` with the arrays of `search_losses`. `sweep` allows
any number of switches, `data_placement` data of each node set's own, `by_epoch` work that hangs on epoch and data,
`dependent_epochs` epochs that hang together (on `sampled_paths`). `brute_force` tries everything, for small problems.
"""
