"""What a run is made of: the runner that trains, how the run is to be carried out, and what it tells while it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ..core.cost import CostTable
from ..core.errors import InfeasibleError, StoppedByUser, TargetMissed
from ..core.law import LossLaw
from ..core.outcome import EpochOutcome, RunResult
from ..core.plan import Decision, Plan
from ..core.prices import Prices
from ..core.problem import Clock, Pair, Problem
from ..core.protocols import Estimator, Planner

Earlier = Callable[[str], bytes | None]
"""The last checkpoint of a version that the run has kept."""


@dataclass(frozen=True)
class Probe:
    """A forward pass: loss on the set and by the metric of the target (or on the test set), accuracy where there is one.

    `prediction_sets`: coverage and size of conformal sets, of a classifier on the test set.
    """

    loss: float
    accuracy: float | None = None
    prediction_sets: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Handed:
    """A checkpoint handed over to another pair, not trained there yet; seconds and joules as measured.

    `probe`: forward losses on the new node set's data, of the network before and of the one made.
    """

    checkpoint: Any
    kind: str = "same"
    reached_ratio: float | None = None
    elapsed_s: float = 0.0
    energy_j: float = 0.0
    cpu_s: float = 0.0
    probe: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EpochResult:
    """A trained epoch: what it came to, the averaged checkpoint, and what the event keeps of each node.

    `failures` are (node, attempt, reason) of answers that did not count.
    """

    outcome: EpochOutcome
    checkpoint: Any
    details: Mapping[str, Any] = field(default_factory=dict)
    failures: tuple[tuple[str, int, str], ...] = ()


class Runner(Protocol):
    """What trains. Checkpoints are its own; here they are only passed on, and kept as bytes."""

    def first(self) -> Any:
        """The checkpoint before epoch 1."""
        ...

    def to_bytes(self, checkpoint: Any) -> bytes:
        """The durable form of a checkpoint."""
        ...

    def from_bytes(self, data: bytes) -> Any:
        """The checkpoint of `data`."""
        ...

    def probe(self, checkpoint: Any) -> Probe:
        """Loss on the target's set, by the target's metric."""
        ...

    def test(self, checkpoint: Any) -> Probe | None:
        """Loss and accuracy on the test set, if there is one."""
        ...

    def hand_over(self, checkpoint: Any, before: Pair, decision: Decision, earlier: Earlier) -> Handed:
        """The network of `before` as the decision's version, ready to be trained on its nodes."""
        ...

    def run_epoch(self, decision: Decision, checkpoint: Any, *, run: str, attempt: int = 0) -> EpochResult:
        """Train on every node, average, evaluate.

        Raises:
            WorkerLost: too few nodes answered.
            NonFiniteTraining: no node's update was finite.
        """
        ...


@dataclass(frozen=True)
class Settings:
    """How a run is to be carried out. `when_infeasible`: go on as well as possible, or stop once no plan is feasible."""

    clock: Clock = "emulated"
    when_infeasible: Literal["continue", "stop"] = "continue"
    charge_lost_work: bool = False
    replan: bool = True
    thin: bool = True
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True)
class Job:
    """One run's parts. `estimator` is made once l(0) was probed; `manifest` goes into `run_started` as it is.

    `prices`: what a decision's resources and data make of an epoch's cost; without it the cost table says it all.
    """

    problem: Problem
    costs: CostTable
    law: LossLaw
    estimator: Callable[[Problem], Estimator]
    planner: Planner
    runner: Runner
    settings: Settings = field(default_factory=Settings)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    prices: Prices | None = None


@dataclass(frozen=True)
class Line:
    """What a watcher is told after every epoch that is safe."""

    run: str
    epoch: int
    pair: Pair
    loss: float
    guaranteed: float
    level: float
    energy_j: float
    planned_j: float
    elapsed_s: float
    deadline_s: float
    next_handover: tuple[Pair, int] | None
    plan: Plan | None
    units: tuple[str, str] = ("s", "J")


@dataclass(frozen=True)
class Ended(RunResult):
    """How a run ended, with what it lost on the way; `exit_status` is the command line's."""

    wasted_j: float = 0.0
    infeasible: bool = False
    prediction_sets: Mapping[str, Any] | None = None

    @property
    def exit_status(self) -> int:
        """0 met, 4 given up as infeasible, 5 missed, 6 stopped, 1 failed (the error itself says more)."""
        if self.verdict == "missed":
            return InfeasibleError.exit_status if self.infeasible else TargetMissed.exit_status
        return {"met": 0, "stopped": StoppedByUser.exit_status}.get(self.verdict, 1)


Told = Callable[[Line], None]
StopAsked = Callable[[], bool]
