"""Figures 2 and 4 to 9 of PACT and its Table I, and beyond them Algorithm 3 with its repairs and a sweep of gamma_T.

In the smart factory without noise: `smart_factory_runs`, `panels` and `sweep` (what figures share) -> `fig6`, `fig7`,
`fig8`, `fig9`, `gamma_t`, `algorithm3`; `graph` -> `fig5`. From traces: `fig4`, `table1`, `table1_mixed`;
`measured_factory` (relays that were trained) -> `measured`, `measured_figures`. Trained anew: `fig2`.
"""
