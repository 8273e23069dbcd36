"""Targets that can be met instead of one that cannot: a higher loss by the same deadline, the same loss later.

Both are found by bisection over plans with at most one switch, so they can be met, though a little less might do too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from ...core.depl import DeplProblem
from ...core.plan import Nearest
from .exact.joint import plan
from .solution import DeplPlan

_ROUNDS = 12
_LONGEST = 1e6
Solve = Callable[[DeplProblem], DeplPlan]


def nearest(instance: DeplProblem, solve: Solve) -> tuple[Nearest, ...]:
    """Nearest feasible targets at the probability asked; `solve` has the last word on each."""
    target, ways = instance.target, []
    loss = _bisected(instance, target.loss, instance.initial_loss, _with_loss)
    if loss is not None:
        ways.append(Nearest(_sure(instance, loss, _with_loss, solve, instance.initial_loss), target.deadline_s))
    if math.isfinite(target.deadline_s):
        start = max(target.deadline_s, 1e-9)
        late = start
        while not _feasible(_with_deadline(instance, late)) and late < start * _LONGEST:
            late *= 4.0
        deadline = _bisected(instance, start, late, _with_deadline)
        if deadline is not None:
            ways.append(Nearest(target.loss, _sure(instance, deadline, _with_deadline, solve, late)))
    return tuple(ways)


def _bisected(
    instance: DeplProblem, low: float, high: float, at: Callable[[DeplProblem, float], DeplProblem]
) -> float | None:
    if not _feasible(at(instance, high)):
        return None
    for _ in range(_ROUNDS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _feasible(at(instance, middle)) else (middle, high)
    return high


def _sure(
    instance: DeplProblem, value: float, at: Callable[[DeplProblem, float], DeplProblem], solve: Solve, most: float
) -> float:
    """`value`, moved on where the planner itself (more careful about dependence) does not agree yet."""
    step = 0.01 * (most - value)
    for _ in range(8):
        if value >= most or solve(at(instance, value)).feasible:
            return value
        value, step = min(value + step, most), step * 2.0
    return most


def _feasible(instance: DeplProblem) -> bool:
    return plan(instance, switches=1).feasible


def _with_loss(instance: DeplProblem, loss: float) -> DeplProblem:
    return replace(instance, target=replace(instance.target, loss=loss))


def _with_deadline(instance: DeplProblem, deadline_s: float) -> DeplProblem:
    return replace(instance, target=replace(instance.target, deadline_s=deadline_s))
