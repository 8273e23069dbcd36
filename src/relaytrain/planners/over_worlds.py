"""A plan by whoever plans: a planner that decides over worlds is given those that an estimator draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.cost import CostTable
from ..core.law import LossLaw
from ..core.plan import Plan
from ..core.problem import Problem
from ..core.state import State
from ..core.worlds import Worlds

Draw = Callable[[int], Worlds | None]
"""So many worlds of an estimator; None of one that has only a law."""


def plan_over(planner: Any, draw: Draw, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
    """The plan of `planner`; its `worlds` says how many it wants, if it decides over worlds at all."""
    count = int(getattr(planner, "worlds", 0))
    plan: Plan = planner.plan(problem, costs, law, state, *([draw(count)] if count else []))
    return plan
