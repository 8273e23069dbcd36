"""Targets that can be met instead of one that cannot: a higher loss by the same deadline, the same loss later.

Both are found by bisection over plans with at most one switch, so they can be met, though a little less might do too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from ...core.depl import DeplProblem
from ...core.plan import Nearest
from .exact.joint import plan
from .solution import DeplPlan

_ROUNDS = 12
_LONGEST = 1e6
Solve = Callable[[DeplProblem], DeplPlan]
What = Literal["loss", "deadline_s"]


def nearest(instance: DeplProblem, solve: Solve) -> tuple[Nearest, ...]:
    """Nearest feasible targets at the probability asked; `solve` has the last word on each."""
    target, ways = instance.target, []
    loss = _bisected(instance, "loss", target.loss, instance.initial_loss)
    if loss is not None:
        ways.append(Nearest(_sure(instance, "loss", loss, instance.initial_loss, solve), target.deadline_s))
    if math.isfinite(target.deadline_s):
        start = max(target.deadline_s, 1e-9)
        late = start
        while not _feasible(_asking(instance, "deadline_s", late)) and late < start * _LONGEST:
            late *= 4.0
        deadline = _bisected(instance, "deadline_s", start, late)
        if deadline is not None:
            ways.append(Nearest(target.loss, _sure(instance, "deadline_s", deadline, late, solve)))
    return tuple(ways)


def _bisected(instance: DeplProblem, what: What, low: float, high: float) -> float | None:
    if not _feasible(_asking(instance, what, high)):
        return None
    for _ in range(_ROUNDS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _feasible(_asking(instance, what, middle)) else (middle, high)
    return high


def _sure(instance: DeplProblem, what: What, value: float, most: float, solve: Solve) -> float:
    """`value`, moved on where the planner itself (more careful about dependence) does not agree yet."""
    step = 0.01 * (most - value)
    for _ in range(8):
        if value >= most or solve(_asking(instance, what, value)).feasible:
            return value
        value, step = min(value + step, most), step * 2.0
    return most


def _feasible(instance: DeplProblem) -> bool:
    return plan(instance, switches=1).feasible


def _asking(instance: DeplProblem, what: What, value: float) -> DeplProblem:
    target = instance.target
    return replace(
        instance, target=replace(target, loss=value) if what == "loss" else replace(target, deadline_s=value)
    )
