"""DepL: datasets, versions, node sets and resources such that a loss quantile is reached in time at least cost.

Read in this order: `instance` (what is chosen from), `losses` (distributions along a schedule), `versions` (which
version for how many epochs), `allocation` (node sets and resources), `datasets` (which data), `joint` (all together),
`baselines` and `paper` (what others do), `procedures` (all of them by name), `planner` (the product's planner).
Nothing is imported here: a scenario needs `instance` alone, without the compiled searches.
"""
