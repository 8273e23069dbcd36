"""The seams. Everything that crosses one is a frozen value; each seam has a public test suite in `relaytrain.testing`.

::

    scenario -> costs -> estimators -> planners -> executors -> store -> report
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from .cost import CostTable
from .law import LossLaw
from .outcome import EpochOutcome
from .plan import Decision, Plan
from .problem import Pair, Problem
from .state import State


@runtime_checkable
class CostModel(Protocol):
    """Seconds and joules of every pair and change, told of what was measured."""

    def table(self) -> CostTable:
        """The present belief."""
        ...

    def tell(self, outcome: EpochOutcome) -> None:
        """Learn from an epoch that was run."""
        ...


@runtime_checkable
class Estimator(Protocol):
    """History -> loss law, once per re-plan."""

    def law(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair]) -> LossLaw:
        """A frozen law for the epochs to come."""
        ...


@runtime_checkable
class Planner(Protocol):
    """Problem, costs, law and state -> plan. Pure: no clock, no files, no torch; reusable tables travel in `plan.warm`."""

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State, warm: Any = None) -> Plan:
        """The best plan from `state`."""
        ...


@runtime_checkable
class Transport(Protocol):
    """All that in-process, processes and Flower have to implement; a failure is a result, never an exception."""

    def send(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """Results as they arrive."""
        ...


class EpochRunner(Protocol):
    """Runs one decided epoch; written once above `Transport`, and once for pipeline node sets."""

    def run_epoch(self, decision: Decision, checkpoint: Any) -> EpochOutcome:
        """Train, average, evaluate."""
        ...
