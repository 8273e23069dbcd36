"""`run_epoch`, written once above every transport: send tasks, collect, retry, average, evaluate, charge.

    tasks -> transport -> results --checks--> average --> loss on the declared set --> outcome
               ^              | failed
               +---- once ----+

Only results with the key of the present attempt count; late, repeated or foreign ones are dropped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.cost import Provenance
from ..core.errors import NonFiniteTraining, WorkerLost
from ..core.outcome import EpochOutcome
from ..core.plan import Decision
from ..core.problem import Pair
from ..core.protocols import Transport
from ..costs.meters import Reading
from ..training.aggregate import average, open_updates
from ..training.checkpoint import Checkpoint
from ..training.evaluate import Evaluation, evaluate
from ..training.local import Site
from ..training.setup import TrainingSetup
from ..training.task import FailureKind, NodeResult, NodeTask
from ..training.workbench import loaded
from .clock import Bill, EpochWork, RunClock

RETRIES = 1
SLACK_FACTOR, SLACK_S = 5.0, 30.0
"""The deadline of an epoch, once one like it was seen: so many times as long, and so much more."""


@dataclass(frozen=True)
class NodeReport:
    """What one attempt of one node came to; seconds and joules on the run's clock, CPU and wall seconds measured."""

    node: str
    attempt: int
    samples: int = 0
    train_loss: float | None = None
    cpu_s: float = 0.0
    wall_s: float = 0.0
    elapsed_s: float = 0.0
    energy_j: float = 0.0
    error: str | None = None
    kind: FailureKind | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return dict(vars(self))


@dataclass(frozen=True)
class TrainedEpoch:
    """One epoch done: the outcome for planner and store, the new checkpoint, what each node did."""

    outcome: EpochOutcome
    checkpoint: Checkpoint
    nodes: tuple[NodeReport, ...]
    failures: tuple[NodeReport, ...]
    evaluation: Evaluation
    train_loss: float


@dataclass(frozen=True)
class LostEpoch:
    """What an epoch that did not count has cost."""

    failures: tuple[NodeReport, ...]
    cpu_s: float
    wall_s: float
    energy_j: float
    elapsed_s: float
    provenance: Provenance


class EpochLost(WorkerLost):
    """Too few nodes answered; `lost` says who failed how, and what it cost."""

    def __init__(self, message: str, lost: LostEpoch) -> None:
        super().__init__(message)
        self.lost = lost

    def __reduce__(self) -> tuple[Any, ...]:
        """Experiments run in pools of processes, and errors have to come back whole."""
        return type(self), (str(self), self.lost)


class EpochNonFinite(NonFiniteTraining):
    """Updates or the averaged model hold NaN or infinity; `lost` says what it cost."""

    def __init__(self, message: str, lost: LostEpoch) -> None:
        super().__init__(message)
        self.lost = lost

    def __reduce__(self) -> tuple[Any, ...]:
        """Experiments run in pools of processes, and errors have to come back whole."""
        return type(self), (str(self), self.lost)


@dataclass
class _Collected:
    good: dict[str, NodeResult] = field(default_factory=dict)
    failures: list[NodeResult] = field(default_factory=list)
    retry_wall_s: float = 0.0


class FederatedEpoch:
    """Runs decided epochs: every node passes over its data, then one average.

    Args:
        setup: data, settings, versions.
        transport: moves tasks and results.
        clock: what an epoch is charged.
    """

    def __init__(self, setup: TrainingSetup, transport: Transport, clock: RunClock) -> None:
        self.setup, self.transport, self.clock = setup, transport, clock
        self._loss = setup.loss()
        self._site: Site | None = None
        self._walls: dict[Pair, float] = {}

    def run_epoch(
        self,
        decision: Decision,
        checkpoint: Checkpoint,
        *,
        run: str = "run",
        attempt: int = 0,
        before: Pair | None = None,
        handover: Reading | None = None,
    ) -> TrainedEpoch:
        """Train, average, evaluate.

        Args:
            decision: what this epoch does; its version is the checkpoint's.
            checkpoint: what every node starts from, after the handover if there was one.
            run: the run's name, part of every task's key.
            attempt: number of the first attempt; a repeated epoch takes a higher one.
            before: the pair that held the network before, when a handover belongs to this epoch.
            handover: its metered seconds and joules, on the measured clock.

        Raises:
            EpochLost: fewer nodes than the quorum answered, after one retry.
            EpochNonFinite: what was left to average, or the average itself, is not finite.
        """
        nodes = self.setup.nodes_of(decision.nodes)
        mark, began = self.clock.begin(), time.monotonic()
        collected = self._collect(decision, checkpoint, nodes, run, attempt)
        self._check_quorum(decision, nodes, collected, mark, began)
        updates, refused = open_updates(list(collected.good.values()), checkpoint)
        for node, reason in refused.items():
            collected.failures.append(_as_failed(collected.good.pop(node), reason))
        self._check_quorum(decision, nodes, collected, mark, began)
        averaged = average(updates, checkpoint)
        wall_s = time.monotonic() - began
        work = self._work(decision, before, collected, wall_s, handover)
        bill = self.clock.bill(mark, work)
        self._walls[decision.pair] = wall_s
        evaluation = self.evaluate(averaged)
        loss = evaluation.metric(self.setup.problem.target.metric)
        if not math.isfinite(evaluation.loss):
            raise EpochNonFinite(
                f"epoch {decision.epoch}: the averaged model's loss is {evaluation.loss}",
                self._lost(collected, wall_s, bill),
            )
        return self._result(decision, averaged, collected, evaluation, (loss, wall_s, bill))

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
        self, decision: Decision, nodes: Sequence[str], collected: _Collected, mark: Any, began: float
    ) -> None:
        needed = self._needed(nodes)
        if len(collected.good) >= needed:
            return
        wall_s = time.monotonic() - began
        lost = [(r.node, r.cpu_s) for r in (*collected.failures, *collected.good.values())]
        work = EpochWork(decision, None, self._samples(nodes), {}, wall_s, lost, wall_s)
        costs = self._lost(collected, wall_s, self.clock.bill(mark, work))
        last = {r.node: r for r in collected.failures if r.node not in collected.good}
        reasons = "; ".join(f"{node}: {result.error}" for node, result in sorted(last.items()))
        message = (
            f"epoch {decision.epoch}: {len(collected.good)} of {len(nodes)} nodes of {decision.nodes} answered, "
            f"expected at least {needed} ({reasons})"
        )
        if last and all(result.kind == "non-finite" for result in last.values()):
            raise EpochNonFinite(message, costs)
        raise EpochLost(message, costs)

    def _work(
        self, decision: Decision, before: Pair | None, collected: _Collected, wall_s: float, handover: Reading | None
    ) -> EpochWork:
        good = collected.good
        return EpochWork(
            decision,
            before,
            self._samples(self.setup.nodes_of(decision.nodes)),
            {node: good[node].cpu_s for node in sorted(good)},
            wall_s,
            [(r.node, r.cpu_s) for r in collected.failures],
            collected.retry_wall_s,
            handover,
        )

    def _samples(self, nodes: Sequence[str]) -> dict[str, int]:
        return {node: len(self.setup.datasets[node]) for node in nodes}

    def _lost(self, collected: _Collected, wall_s: float, bill: Bill) -> LostEpoch:
        everything = (*collected.failures, *collected.good.values())
        timed = self.clock.meter is not None or self.setup.settings.charge_lost_work
        return LostEpoch(
            tuple(_report(r, {}) for r in collected.failures),
            sum(r.cpu_s for r in everything),
            wall_s,
            bill.energy_j,
            bill.elapsed_s if timed else 0.0,
            bill.provenance,
        )

    def _result(
        self,
        decision: Decision,
        checkpoint: Checkpoint,
        collected: _Collected,
        evaluation: Evaluation,
        charged: tuple[float, float, Bill],
    ) -> TrainedEpoch:
        loss, wall_s, bill = charged
        good = [collected.good[node] for node in sorted(collected.good)]
        samples = sum(r.samples for r in good)
        train_loss = sum((r.train_loss or 0.0) * r.samples for r in good) / samples
        failed_nodes = sorted({r.node for r in collected.failures} - set(collected.good))
        outcome = EpochOutcome(
            decision,
            loss,
            bill.elapsed_s,
            bill.energy_j,
            bill.provenance,
            cpu_s=sum(r.cpu_s for r in (*good, *collected.failures)),
            wall_s=wall_s,
            wasted_j=bill.wasted_j,
            wasted_s=bill.wasted_s,
            failed_nodes=tuple(failed_nodes),
        )
        reports = tuple(_report(r, bill.nodes) for r in good)
        failures = tuple(_report(r, {}) for r in collected.failures)
        return TrainedEpoch(outcome, checkpoint, reports, failures, evaluation, train_loss)


def _report(result: NodeResult, nodes: Mapping[str, tuple[float, float]]) -> NodeReport:
    elapsed, energy = nodes.get(result.node, (0.0, 0.0))
    return NodeReport(
        result.node, result.attempt, result.samples, result.train_loss, result.cpu_s, result.wall_s, elapsed, energy,
        result.error, result.kind,
    )  # fmt: skip


def _as_failed(result: NodeResult, reason: str) -> NodeResult:
    kind: FailureKind = "non-finite" if "non-finite" in reason else "refused"
    return NodeResult(
        result.run, result.node, result.epoch, result.attempt,
        cpu_s=result.cpu_s, wall_s=result.wall_s, error=reason, kind=kind,
    )  # fmt: skip


def _missing(task: NodeTask) -> NodeResult:
    return NodeResult(task.run, task.node, task.epoch, task.attempt, error="no answer", kind="lost")
