"""The seams. Everything that crosses one is a frozen value. Whoever brings an estimator, a belief, a planner or a
transport inherits its public test suite from `relaytrain.testing`.

::

    scenario -> costs -> estimators -> planners -> relay -> executors -> store -> report
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from .cost import CostTable
from .law import LossLaw
from .outcome import EpochOutcome, EpochResult, Evaluation, Handed
from .plan import Decision, Plan
from .problem import Pair, Problem
from .state import State

if TYPE_CHECKING:
    from .worlds import Worlds


class Prices(Protocol):
    """What an epoch of a decision costs on the run's emulated clock: resources and data counted in.

    A handover's seconds and joules come on top, from the cost table.
    """

    def run(self, decision: Decision, history: Sequence[EpochOutcome]) -> tuple[float, float]:
        """Seconds and joules of one epoch, after the epochs of `history`."""
        ...


@runtime_checkable
class Estimator(Protocol):
    """History -> loss law, once per re-plan. `pairs` are the problem's own, in its order."""

    def law(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair]) -> LossLaw:
        """A frozen law for the epochs to come."""
        ...


@runtime_checkable
class Belief(Estimator, Protocol):
    """An estimator that says what is not known, too: as worlds, each of which may be the true one."""

    def sample(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair], count: int, seed: int) -> Worlds:
        """So many equally likely worlds, joint over pairs; the same ones for the same history and seed."""
        ...


@runtime_checkable
class Planner(Protocol):
    """Problem, costs, law and state -> plan. Pure: no clock, no files, no torch."""

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
        """The best plan from `state`."""
        ...


@runtime_checkable
class WorldPlanner(Planner, Protocol):
    """A planner that decides over worlds where there are any."""

    @property
    def worlds(self) -> int:
        """How many it wants."""
        ...

    def plan(
        self, problem: Problem, costs: CostTable, law: LossLaw, state: State, worlds: Worlds | None = None
    ) -> Plan:
        """The best plan from `state` over `worlds`; without them, by the law alone."""
        ...


@runtime_checkable
class Transport(Protocol):
    """All that in-process, processes and Flower have to implement; a failure is a result, never an exception."""

    def send(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """Results as they arrive."""
        ...

    def close(self) -> None:
        """End what is its own; closing twice is closing once."""
        ...


Earlier = Callable[[str], Any]
"""The last checkpoint of a version that the run has kept, or None."""


class Runner(Protocol):
    """What trains, or plays it. Checkpoints are its own; the loop only passes them on, and a store keeps their bytes.

    Seconds and joules are as measured; what they count for, the run's clock says.
    """

    def first(self) -> Any:
        """The checkpoint before epoch 1."""
        ...

    def to_bytes(self, checkpoint: Any) -> bytes:
        """The durable form of a checkpoint."""
        ...

    def from_bytes(self, data: bytes) -> Any:
        """The checkpoint of `data`."""
        ...

    def probe(self, checkpoint: Any) -> Evaluation:
        """Loss and accuracy on the target's set."""
        ...

    def test(self, checkpoint: Any) -> Evaluation | None:
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
