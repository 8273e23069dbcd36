"""Planners by the names used on the command line and in scenarios."""

from __future__ import annotations

from collections.abc import Callable

from ..core.errors import UsageError
from ..core.protocols import Planner
from ..core.state import Grid
from .baselines import OneSwitch, Single, StaticLearn
from .pact import Optimum, Pact
from .rules import RULES, Rule

PLANNERS: dict[str, Callable[[Rule, Grid | None], Planner]] = {
    "pact": lambda rule, grid: Pact(rule, grid),
    "optimum": lambda rule, grid: Optimum(grid),
    "one-switch": lambda rule, grid: OneSwitch(),
    "static-learn": lambda rule, grid: StaticLearn(),
    "single": lambda rule, grid: Single(),
}


def planner_named(name: str, *, rule: str = "adaptive", grid: Grid | None = None) -> Planner:
    """The planner called `name` (hyphens or underscores), with PACT's `rule` and an optional grid."""
    key = name.replace("_", "-")
    if key not in PLANNERS:
        raise UsageError(f"planner: got '{name}', expected one of {', '.join(PLANNERS)}")
    if rule not in RULES:
        raise UsageError(f"rule: got '{rule}', expected one of {', '.join(RULES)}")
    return PLANNERS[key](rule, grid)
