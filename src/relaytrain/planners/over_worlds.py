"""A plan by whoever plans: a planner that decides over worlds is given those that an estimator draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..core.cost import CostTable
from ..core.law import LossLaw
from ..core.outcome import EpochOutcome
from ..core.plan import Plan
from ..core.problem import Pair, Problem
from ..core.protocols import Belief, Estimator, Planner, WorldPlanner
from ..core.state import State
from ..core.worlds import Worlds

Draw = Callable[[int], Worlds | None]
"""So many worlds of an estimator; None of one that has only a law."""


def plan_over(
    planner: Planner,
    draw: Draw,
    problem: Problem,
    costs: CostTable,
    law: LossLaw,
    state: State,
    *,
    guess: bool = False,
    way_out: bool = True,
) -> Plan:
    """The plan of `planner`, over as many worlds as it wants, if it decides over worlds at all.

    `guess`: no loss was ever measured, and the plan says so. Without `way_out`, and for a guess, which names none, the
    rule `sampled` does not look for targets in reach where the one that was asked is not: that takes it longer than the
    plan. Other planners look all the same.
    """
    over: tuple[Worlds | None, ...] = ()
    if count := worlds_wanted(planner):
        over, planner = (draw(count),), _looking(planner, way_out and not guess)
    plan = planner.plan(problem, costs, law, state, *over)
    return plan.guessed() if guess else plan


def worlds_wanted(planner: Planner) -> int:
    """How many worlds `planner` decides over; 0 where it plans by the law alone."""
    return (planner.worlds or 0) if isinstance(planner, WorldPlanner) else 0


def _looking(planner: Planner, far: bool) -> Planner:
    """The rule `sampled` looking for targets in reach only where it is to; any other planner as it is."""
    from .pact.sampled import Sampled  # compiled code that planners by the law alone do without

    return replace(planner, way_out=planner.way_out and far) if isinstance(planner, Sampled) else planner


def drawn_by(
    estimator: Estimator, history: Sequence[EpochOutcome], pairs: Sequence[Pair], count: int, seed: int
) -> Worlds | None:
    """So many worlds of what `estimator` believes after `history`; None where it has only a law."""
    return estimator.sample(history, pairs, count, seed) if isinstance(estimator, Belief) else None
