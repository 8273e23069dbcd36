"""The prior: what was known before a run, re-weighted by the run's own losses. Needs no traces.

`belief`: the prior as arrays, from a scenario's `[prior]` and `[law]`. `reweighting`: `Prior`, the estimator,
hypotheses about every pair weighed by what its legs showed; `finished_legs`: what is not worked out again before every
decision; `shared_prior`: what pairs have in common. `robust_twin`: the 0.95 side of a curve. `drawing`: worlds of it.
`epoch_tables`: the same idea for laws that are tables by epoch. `fitting` and its `leg_fits`: the `[prior]` that
recorded relays teach.
"""
