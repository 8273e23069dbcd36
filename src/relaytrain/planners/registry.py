"""Planners by the names used on the command line and in scenarios."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.errors import UsageError
from ..core.planner_names import ALL_PLANNERS, ALL_RULES, DEPL_PLANNERS, SAMPLED
from ..core.protocols import Planner
from ..core.state import Grid
from ..scenario.model import PlannerSettings, Scenario
from .pact.baselines import OneSwitch, Single, StaticLearn
from .pact.fixed import OTHER_TRAINING, FixedRelay
from .pact.planner import Optimum, Pact

if TYPE_CHECKING:
    from ..core.depl_settings import DeplSettings

PLANNERS: dict[str, Callable[[Any, Grid | None], Planner]] = {
    "pact": lambda rule, grid: _sampled() if rule == SAMPLED else Pact(rule, grid),
    "optimum": lambda rule, grid: Optimum(grid),
    "one-switch": lambda rule, grid: OneSwitch(),
    "static-learn": lambda rule, grid: StaticLearn(),
    "single": lambda rule, grid: Single(),
    "fixed": lambda rule, grid: FixedRelay(),
}


def _sampled() -> Planner:
    from .pact.sampled import Sampled  # compiled code that the other rules do without

    return Sampled()


def planner_for(
    scenario: Scenario | None = None, planner: str | Planner | None = None, rule: str | None = None
) -> Planner:
    """Who plans: `planner` itself, or the one of that name; name and rule are the scenario's unless they are given."""
    if planner is not None and not isinstance(planner, str):
        return planner
    if scenario is None:
        return planner_named(planner or PlannerSettings().name, rule=rule or "adaptive")
    settings = scenario.planner
    if (planner or settings.name) == "fixed":
        from ..traces.atlas_scenario import atlas_for, same_training

        held = atlas_for(scenario)
        same = held is None or same_training(held, scenario)
        return FixedRelay(held, () if same else (OTHER_TRAINING,))
    return planner_named(planner or settings.name, rule=rule or scenario.rule, grid=settings.grid, depl=scenario.depl)


def planner_named(
    name: str, *, rule: str = "adaptive", grid: Grid | None = None, depl: DeplSettings | None = None
) -> Planner:
    """The planner called `name` (hyphens or underscores), with PACT's `rule`, an optional grid, DepL's settings."""
    key = name.replace("_", "-")
    if key in DEPL_PLANNERS:
        if depl is None:
            raise UsageError(
                f"planner: {key} needs the scenario's table [depl] (docs/formats.md), and this scenario has none; "
                "see `relaytrain plan depl_alexnet`"
            )
        from .depl.planner import Depl

        return Depl(depl, key)
    if key not in PLANNERS:
        raise UsageError(f"planner: got '{name}', expected one of {', '.join(ALL_PLANNERS)}")
    if rule not in ALL_RULES:
        raise UsageError(f"rule: got '{rule}', expected one of {', '.join(ALL_RULES)}")
    return PLANNERS[key](rule, grid)
