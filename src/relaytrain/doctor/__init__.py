"""What stands in the way of a run, found before any training: this machine, the store, data, networks, memory.

Read in this order: `diagnosis` (what any look comes to), `machine_check`, `store_check`, `network_check`, `own_check`
(code of the user's own) and `scenario_check`, which asks the two before it; then `counted_scenario` and
`counted_text`, a scenario to start from.
"""
