"""Exact compiled searches over a law, costs and a deadline.

Read in this order: `allowance` (what searches may take, and how it is counted), `kernels` (one step of a law, forwards
and backwards), `best_first` (the one loop over labels), `togo` (what is still to go, one table for three bounds) with
`thresholds`, `line_bounds` and `epoch_layers` that make such tables, `instance` (a problem as arrays, and its tables),
`follow` (the path a table recommends), `staircase` and `labels` (forward search under those bounds), `dense` (its
fallback on a grid), `short_relays` (good plans at once), `solve` (which of them a problem needs). `world_walk` follows
schedules through worlds.
"""
