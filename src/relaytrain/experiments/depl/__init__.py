"""Figures 2, 4 and 5 to 9 of DepL, and its Table I.

From traces: `fits` (equation (8) and the switches) -> `fig2`, `fig4`, `table1`. From plans: `study` (four strategies at
every target) -> `cost_figures` with `fig5` and `fig6`, `bars` with `fig7` and `fig8`, `fig9`; `measured` puts what was
fitted in the place of the stand-in curves.
"""
