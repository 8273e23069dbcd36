"""Problem, costs, law and state -> plan. Pure: no clock, no files, no torch.

`search` finds least-energy paths, `pact` chooses among them and states a plan, `depl` plans under distributions,
`pipeline` splits models into stages; `front` is the trade-off of energy, deadline and loss, `registry` knows planners
by name.
"""
