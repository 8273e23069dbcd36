"""`run_epoch`, written once above every transport: send tasks, collect, retry, average, evaluate, measure.

    tasks -> transport -> results --checks--> average --> loss on the declared set --> outcome
               ^              | failed
               +---- once ----+

Only results with the key of the present attempt count; late, repeated or foreign ones are dropped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.cost import Provenance
from ..core.errors import NonFiniteTraining, RelayTrainError, WorkerLost
from ..core.outcome import EpochOutcome, EpochResult, Evaluation, LostEpoch, NodeReport
from ..core.plan import Decision
from ..core.problem import Pair
from ..core.protocols import Transport
from ..core.user_code import UserCodeError
from ..costs.meters import Meter
from ..training.aggregate import EXPLODED, NOT_FINITE, average, open_updates
from ..training.checkpoint import Checkpoint
from ..training.evaluate import evaluate
from ..training.local import Site
from ..training.setup import TrainingSetup
from ..training.task import FailureKind, NodeResult, NodeTask
from ..training.workbench import loaded

RETRIES = 1
SLACK_FACTOR, SLACK_S = 5.0, 30.0
"""The deadline of an epoch, once one like it was seen: so many times as long, and so much more."""


class EpochWindow:
    """Wall seconds of an epoch, and its joules where there is a meter. Opened when it is made."""

    def __init__(self, meter: Meter | None) -> None:
        self.meter = meter
        self._mark = None if meter is None else meter.begin()
        self._began = time.monotonic()

    def close(self, cpu_s: float) -> Metered:
        """What `cpu_s` CPU seconds of the nodes have taken."""
        wall_s = time.monotonic() - self._began
        if self.meter is None or self._mark is None:
            return Metered(wall_s, 0.0, cpu_s)
        reading = self.meter.end(self._mark, cpu_s=cpu_s)
        return Metered(wall_s, reading.energy_j, cpu_s, reading.provenance, metered=True)


@dataclass(frozen=True)
class Metered:
    """A closed window; its joules belong to the nodes by their CPU seconds."""

    wall_s: float
    energy_j: float
    cpu_s: float
    provenance: Provenance = "modelled"
    metered: bool = False

    def share_j(self, cpu_s: float) -> float:
        """Of work that took `cpu_s` of the CPU seconds."""
        return (self.energy_j / self.cpu_s if self.cpu_s > 0.0 else 0.0) * cpu_s


class _Costly(RelayTrainError):
    """`lost` says what the epoch cost."""

    def __init__(self, message: str, lost: LostEpoch) -> None:
        super().__init__(message)
        self.lost = lost

    def __reduce__(self) -> tuple[Any, ...]:
        """Experiments run in pools of processes, and errors have to come back whole."""
        return type(self), (str(self), self.lost)


class EpochLost(_Costly, WorkerLost):
    """Too few nodes answered; `lost` says who failed how, and what it cost."""


class EpochStopped(_Costly, UserCodeError):
    """The user's own code failed on nodes that the quorum cannot do without; `lost` says what it cost."""


class EpochNonFinite(_Costly, NonFiniteTraining):
    """Updates or the averaged model hold NaN or infinity; `lost` says what it cost."""


@dataclass
class _Collected:
    good: dict[str, NodeResult] = field(default_factory=dict)
    failures: list[NodeResult] = field(default_factory=list)
    retry_wall_s: float = 0.0

    @property
    def lost_cpu_s(self) -> float:
        return sum(result.cpu_s for result in self.failures)

    @property
    def cpu_s(self) -> float:
        return sum(self.good[node].cpu_s for node in sorted(self.good)) + self.lost_cpu_s


class FederatedEpoch:
    """Runs decided epochs: every node passes over its data, then one average.

    Args:
        setup: data, settings, versions.
        transport: moves tasks and results.
        meter: of the run's clock; without one only seconds are measured.
    """

    def __init__(self, setup: TrainingSetup, transport: Transport, meter: Meter | None = None) -> None:
        self.setup, self.transport, self.meter = setup, transport, meter
        self._loss = setup.loss()
        self._site: Site | None = None
        self._walls: dict[Pair, float] = {}

    def run_epoch(
        self, decision: Decision, checkpoint: Checkpoint, *, run: str = "run", attempt: int = 0
    ) -> EpochResult:
        """Train, average, evaluate.

        Args:
            decision: what this epoch does; its version is the checkpoint's.
            checkpoint: what every node starts from, after the handover if there was one.
            run: the run's name, part of every task's key.
            attempt: number of the first attempt; a repeated epoch takes a higher one.

        Raises:
            EpochLost: fewer nodes than the quorum answered, after one retry.
            EpochStopped: likewise, because the user's own code failed.
            EpochNonFinite: what was left to average, or the average itself, is not finite.
        """
        nodes = self.setup.nodes_of(decision.nodes)
        window = EpochWindow(self.meter)
        collected = self._collect(decision, checkpoint, nodes, run, attempt)
        self._check_quorum(decision, nodes, collected, window)
        updates, refused = open_updates(list(collected.good.values()), checkpoint)
        for node, reason in refused.items():
            collected.failures.append(_as_failed(collected.good.pop(node), reason))
        self._check_quorum(decision, nodes, collected, window)
        averaged = average(updates, checkpoint)
        metered = window.close(collected.cpu_s)
        self._walls[decision.pair] = metered.wall_s
        evaluation = self.evaluate(averaged)
        if not math.isfinite(evaluation.loss):
            raise EpochNonFinite(
                f"epoch {decision.epoch}: the averaged model's loss is {evaluation.loss}",
                self._lost(collected, metered),
            )
        return self._result(decision, averaged, collected, evaluation, metered)

    def evaluate(self, checkpoint: Checkpoint) -> Evaluation:
        """Loss and accuracy on the set that the target is read on; not charged."""
        if self._site is None:
            self._site = Site.of(self.setup.target_set())
        model = loaded(checkpoint, resolve=self.setup.resolve)
        return evaluate(model, self._site, loss=self._loss, thread_count=self.setup.settings.threads)

    def _collect(
        self, decision: Decision, checkpoint: Checkpoint, nodes: Sequence[str], run: str, attempt: int
    ) -> _Collected:
        collected = _Collected()
        waiting = list(nodes)
        for number in range(attempt, attempt + RETRIES + 1):
            began = time.monotonic()
            tasks = [self._task(decision, checkpoint, node, run, number) for node in waiting]
            expected = {task.key: task for task in tasks}
            for result in self.transport.send(tasks):
                if expected.pop(result.key, None) is None:
                    continue  # late, twice, or nobody's
                if result.error is None:
                    collected.good[result.node] = result
                else:
                    collected.failures.append(result)
            for task in expected.values():  # a transport that forgot some
                collected.failures.append(_missing(task))
            if number > attempt:
                collected.retry_wall_s += time.monotonic() - began
            waiting = self._worth_retrying(nodes, collected, number)
            if not waiting:
                break
        return collected

    def _worth_retrying(self, nodes: Sequence[str], collected: _Collected, number: int) -> list[str]:
        """Failed nodes, but for NaN, which would come again, and stragglers that the quorum can do without."""
        enough = len(collected.good) >= self._needed(nodes)
        fails = [r for r in collected.failures if r.attempt == number]
        return [r.node for r in fails if r.kind != "non-finite" and not (enough and r.kind == "late")]

    def _needed(self, nodes: Sequence[str]) -> int:
        return max(1, math.ceil(self.setup.settings.quorum * len(nodes) - 1e-9))

    def _task(self, decision: Decision, checkpoint: Checkpoint, node: str, run: str, attempt: int) -> NodeTask:
        settings = self.setup.settings
        timeout = settings.epoch_timeout_s
        if timeout is None and decision.pair in self._walls:
            timeout = SLACK_FACTOR * self._walls[decision.pair] + SLACK_S
        return NodeTask(
            run, decision.epoch, attempt, node, checkpoint, settings, decision.resources, timeout, decision.datasets
        )

    def _check_quorum(
        self, decision: Decision, nodes: Sequence[str], collected: _Collected, window: EpochWindow
    ) -> None:
        needed = self._needed(nodes)
        if len(collected.good) >= needed:
            return
        lost = self._lost(collected, window.close(collected.cpu_s))
        last = {r.node: r for r in collected.failures if r.node not in collected.good}
        reasons = "; ".join(f"{node}: {result.error}" for node, result in sorted(last.items()))
        message = (
            f"epoch {decision.epoch}: {len(collected.good)} of {len(nodes)} nodes of {decision.nodes} answered, "
            f"expected at least {needed} ({reasons})"
        )
        if last and all(result.kind == "non-finite" for result in last.values()):
            raise EpochNonFinite(message, lost)
        of_user = next((result.error for _, result in sorted(last.items()) if result.kind == "user"), None)
        if of_user is not None:
            raise EpochStopped(f"{of_user}; epoch {decision.epoch} on {decision.pair}, those before it are kept", lost)
        raise EpochLost(message, lost)

    def _lost(self, collected: _Collected, metered: Metered) -> LostEpoch:
        return LostEpoch(self._failed(collected), collected.cpu_s, metered.wall_s, metered.energy_j)

    def _failed(self, collected: _Collected) -> tuple[NodeReport, ...]:
        return tuple(
            replace(_report(result), samples=len(self.setup.datasets.get(result.node, ())))
            for result in collected.failures
        )

    def _result(
        self,
        decision: Decision,
        checkpoint: Checkpoint,
        collected: _Collected,
        evaluation: Evaluation,
        metered: Metered,
    ) -> EpochResult:
        good = [collected.good[node] for node in sorted(collected.good)]
        samples = sum(r.samples for r in good)
        train_loss = sum((r.train_loss or 0.0) * r.samples for r in good) / samples
        failed_nodes = sorted({r.node for r in collected.failures} - set(collected.good))
        outcome = EpochOutcome(
            decision,
            evaluation.metric(self.setup.problem.target.metric),
            metered.wall_s,
            metered.energy_j,
            metered.provenance,
            cpu_s=sum(r.cpu_s for r in (*good, *collected.failures)),
            wall_s=metered.wall_s,
            wasted_j=metered.share_j(collected.lost_cpu_s),
            wasted_s=collected.retry_wall_s if metered.metered else 0.0,
            failed_nodes=tuple(failed_nodes),
        )
        reports = tuple(replace(_report(r), elapsed_s=metered.wall_s, energy_j=metered.share_j(r.cpu_s)) for r in good)
        return EpochResult(outcome, checkpoint, evaluation, reports, self._failed(collected), train_loss)


def _report(result: NodeResult) -> NodeReport:
    return NodeReport(
        result.node, result.attempt, result.samples, result.train_loss, result.cpu_s, result.wall_s,
        error=result.error, kind=result.kind,
    )  # fmt: skip


def _as_failed(result: NodeResult, reason: str) -> NodeResult:
    kind: FailureKind = "non-finite" if reason.startswith((NOT_FINITE, EXPLODED)) else "refused"
    return NodeResult(
        result.run, result.node, result.epoch, result.attempt,
        cpu_s=result.cpu_s, wall_s=result.wall_s, error=reason, kind=kind,
    )  # fmt: skip


def _missing(task: NodeTask) -> NodeResult:
    return NodeResult(task.run, task.node, task.epoch, task.attempt, error="no answer", kind="lost")
