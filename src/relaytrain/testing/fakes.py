"""Stand-ins for the seams, simple enough to be obviously right."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..core.cost import CostTable
from ..core.errors import UsageError
from ..core.law import LossLaw
from ..core.plan import Nearest, Plan, path_fields
from ..core.problem import Problem
from ..core.state import TOLERANCE, State
from ..costs.meters import Mark, Reading
from .brute_force import plain_step


@dataclass(frozen=True)
class StayPlanner:
    """Trains the present pair until the target, the deadline or `patience` epochs: a planner in thirty lines."""

    patience: int = 500
    name: str = "stay"

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
        """The plan that never changes anything."""
        target, pair = problem.target, state.pair
        seconds, joules = float(costs.run_s[pair]), float(costs.run_j[pair])
        last = self.patience if problem.max_epochs is None else min(self.patience, problem.max_epochs)
        losses: list[float] = []
        loss, elapsed = state.loss, state.elapsed_s
        while loss > target.loss + TOLERANCE and state.epoch + len(losses) < last:
            later = elapsed + seconds
            if not (later <= target.deadline_s + TOLERANCE and math.isfinite(seconds + joules)):
                break
            loss, elapsed = plain_step(law, state.epoch + len(losses) + 1, loss, pair, pair), later
            losses.append(loss)
        count = len(losses)
        met = loss <= target.loss + TOLERANCE and elapsed <= target.deadline_s + TOLERANCE
        table = {"seconds": [seconds] * count, "joules": [joules] * count, "loss": losses}
        return Plan(
            problem=problem.name,
            planner=self.name,
            feasible=met,
            **path_fields(problem, state, [pair] * count, table),
            guaranteed=tuple(losses),
            asked=target.probability,
            rung=0.5 if met else 0.0,
            probability=0.5 if met else 0.0,
            bound_j=0.0 if met else math.inf,
            gap=0.0,
            target_loss=target.loss,
            deadline_s=target.deadline_s,
            start_loss=state.loss,
            nearest=() if met or not losses else (Nearest(min(losses), target.deadline_s),),
        )


class ReplayMeter:
    """Readings prepared beforehand, one a window, in the order in which windows are closed: for tests."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._left = list(readings)

    def begin(self) -> Mark:
        """Open a window."""
        return Mark(0.0, 0.0)

    def end(self, mark: Mark, *, cpu_s: float | None = None) -> Reading:
        """The next reading."""
        if not self._left:
            raise UsageError("replay: no reading left, expected one for every window")
        return self._left.pop(0)
