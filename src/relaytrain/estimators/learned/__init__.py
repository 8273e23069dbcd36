"""What is learned from traces: models that are fitted once, and the law that a run makes of them.

From traces to a file: `bundle` (legs and switches) -> `splits`, `features` (windows) -> `auto` and `paper` (lambda_run;
its parts `trees` and `lstm`), `change_model` (lambda_change; its part `change_net`), `calibration`, `misses`
-> `fit` -> `fitted`, the file (its parts: `fitted_parts`). `zero_trace` is the one that ships.

From a file to a law: `pair_facts` and a history -> `own_epochs` (what the run says of the models), `bounds`, `tail`
(beyond five epochs), `handovers` -> `curve_through` and `late_handovers` (paths made curves) -> `learned_law`;
with the misses, to worlds: `learned_worlds`.
"""
