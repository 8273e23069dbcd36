"""What tests of RelayTrain and of its plug-ins share: conformance suites, random problems, oracles.

Read in this order: `brute_force` (every path of a small problem), `strategies` (random problems), `fakes`,
`small_training` (a scenario that trains in a second), `planner_suite`, `transport_suite` with its `lying_node`,
`estimator_suite` and `belief_suite` (what every one of these must do).
"""
