"""A plan by whoever plans: a planner that decides over worlds is given those that an estimator draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def plan_over(planner: Planner, draw: Draw, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
    """The plan of `planner`, over as many worlds as it wants, if it decides over worlds at all."""
    if not isinstance(planner, WorldPlanner):
        return planner.plan(problem, costs, law, state)
    return planner.plan(problem, costs, law, state, draw(planner.worlds))


def drawn_by(
    estimator: Estimator, history: Sequence[EpochOutcome], pairs: Sequence[Pair], count: int, seed: int
) -> Worlds | None:
    """So many worlds of what `estimator` believes after `history`; None where it has only a law."""
    return estimator.sample(history, pairs, count, seed) if isinstance(estimator, Belief) else None
