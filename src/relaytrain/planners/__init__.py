"""Problem, costs, law and state -> plan. Pure: no clock, no files, no torch.

Read in this order: `kernels` (one step of a law), `thresholds`, `multipliers`, `layers` (three ways to bound what is
still to go), `labels` (exact forward search under those bounds), `search` (which of them a problem needs),
`pact` (the rules that choose an action), `baselines`, `front`.
"""
