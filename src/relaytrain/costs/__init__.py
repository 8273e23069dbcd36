"""tau and epsilon, of running and of changing a pair: written out, modelled, or learned from what was measured.

Read `devices` and `analytic` (from FLOPs, bytes and links; `pipelined` and `sampled` for sets that train so),
`profiled` (from timing a few batches), `table` (what a run has measured); `meters` counts joules, `clock` says which
figures count.
"""
