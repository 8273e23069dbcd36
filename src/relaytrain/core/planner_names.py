"""Names of planners and rules, as the command line, scenarios and plans write them: the one list there is.

What each name stands for is in `planners/registry.py`. No numpy, so that a shell can offer them at once.
"""

from __future__ import annotations

from typing import Literal, get_args

Rule = Literal["adaptive", "robust", "expected", "literal", "clamped", "opportunity"]
"""PACT's rules for the next action."""
AnyRule = Literal[Rule, "sampled"]
PactPlanner = Literal["pact", "optimum", "one-switch", "static-learn", "single", "fixed"]
DeplPlanner = Literal[
    "depl",
    "depl-sweep",
    "depl-per-cluster",
    "depl-proxy",
    "depl-merged",
    "depl-literal",
    "best-exp",
    "best-exp-greedy",
]
"""Planners that read the scenario's `[depl]`."""
PlannerName = Literal[PactPlanner, DeplPlanner]

RULES: tuple[Rule, ...] = get_args(Rule)
SAMPLED = "sampled"
"""The rule that decides over worlds; the others are PACT's own."""
ALL_RULES: tuple[str, ...] = get_args(AnyRule)
DEPL_PLANNERS: tuple[str, ...] = get_args(DeplPlanner)
ALL_PLANNERS: tuple[str, ...] = get_args(PlannerName)
PLAN_ONCE = ("one-switch", "static-learn", "single", "fixed")
"""Baselines: they plan once and keep to it, as in the papers."""
