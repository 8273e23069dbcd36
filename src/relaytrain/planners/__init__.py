"""Problem, costs, law and state -> plan. Pure: no clock, no files, no torch.

`search` finds least-energy paths, `pact` chooses among them and states a plan, `depl` plans under distributions,
`pipeline` splits models into stages. `registry` knows planners by name, `over_worlds` gives worlds to those that want
them, `plan_size` says what a plan takes; `front` is the trade-off of energy, deadline and loss, `edge` finds where a no
turns into a yes.
"""
