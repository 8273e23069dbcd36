"""What an epoch of a decision costs on the run's emulated clock: seconds and joules, resources and data counted in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .cost import CostTable
from .outcome import EpochOutcome
from .plan import Decision
from .problem import Problem


class Prices(Protocol):
    """Seconds and joules of running a decision; a handover's come on top, from the cost table."""

    def run(self, decision: Decision, history: Sequence[EpochOutcome]) -> tuple[float, float]:
        """Of one epoch, after the epochs of `history`."""
        ...


@dataclass(frozen=True)
class TablePrices:
    """The cost table's own figures: all data, full resources."""

    problem: Problem
    costs: CostTable

    def run(self, decision: Decision, history: Sequence[EpochOutcome] = ()) -> tuple[float, float]:
        """Of the decision's pair."""
        now = self.problem.index(decision.pair)
        return float(self.costs.run_s[now]), float(self.costs.run_j[now])
