"""`run_epoch`, written once above every transport: send tasks, collect, retry, average, evaluate, measure.

    tasks -> transport -> results --checks--> average --> loss on the declared set --> outcome
               ^              | failed                      | no training arrives there
               +---- once ----+-----------------------------+

Only results with the key of the present attempt count; late, repeated or foreign ones are dropped. A result is held
against its task before it counts: samples as declared, CPU and wall seconds that can have passed, weights that training
can have made. One that fails costs its node that attempt.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.cost import Provenance
from ..core.errors import ImplausibleTraining, NonFiniteTraining, RelayTrainError, WorkerLost
from ..core.outcome import EpochOutcome, EpochResult, Evaluation, LostEpoch, NodeReport, most_plausible
from ..core.plan import Decision
from ..core.problem import Pair
from ..core.protocols import Transport
from ..core.user_code import UserCodeError, is_evident
from ..costs.meters import Meter, weakest
from ..data.held import Held, held_of
from ..training.aggregate import EXPLODED, NOT_FINITE, Updates, average, open_update
from ..training.checkpoint import Checkpoint
from ..training.server import server_step
from ..training.setup import TrainingSetup
from ..training.task import FailureKind, NodeResult, NodeTask, failed
from ..training.workbench import loaded

RETRIES = 1
SLACK_FACTOR, SLACK_S = 5.0, 30.0
"""The deadline of an epoch, once one like it was seen: so many times as long, and so much more."""
FIRST_FACTOR, FIRST_SLACK_S = 20.0, 240.0
"""Before that: so many times what the cost model expects, and so much more, in which workers start."""
MOST_W = 1e5
"""Watts beyond which a node's joules are not believed."""
CLOCK_SLACK_S = 1.0
"""By how much the seconds that a node states may exceed those that have passed here."""


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

    def by_meters_of(self, good: Sequence[NodeResult], failures: Sequence[NodeResult]) -> Metered:
        """On a clock that meters: joules as the nodes' own meters have them, where every node that counts has one."""
        if not self.metered or any(result.energy_j is None for result in good):
            return self
        answers = [*good, *failures]
        joules = sum(result.energy_j or 0.0 for result in answers)
        provenance = weakest(result.provenance for result in answers if result.provenance is not None)
        return replace(self, energy_j=joules, provenance=provenance)


def cpu_s_so_far() -> float:
    """CPU seconds of this process and of those that it started and that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


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


class EpochImplausible(_Costly, ImplausibleTraining):
    """Every update leads to a loss that no training arrives at; `lost` says what it cost."""


Span = tuple[float, float]
"""From when to when, in monotonic seconds."""


@dataclass
class _Collected:
    """Answers so far. `hopeless`: nodes whose own training gave NaN, which would come again.

    `worked`, `wasted`: when good attempts and those that failed were at work.
    """

    good: dict[str, NodeResult] = field(default_factory=dict)
    updates: Updates = field(default_factory=dict)
    failures: list[NodeResult] = field(default_factory=list)
    hopeless: set[str] = field(default_factory=set)
    worked: dict[str, Span] = field(default_factory=dict)
    wasted: list[Span] = field(default_factory=list)

    def take(self, result: NodeResult, update: Checkpoint, span: Span) -> None:
        """A node's update that counts."""
        self.good[result.node], self.updates[result.node] = result, (result.samples, update)
        self.worked[result.node] = span

    def fail(self, result: NodeResult, span: Span) -> None:
        """An attempt that does not count."""
        self.failures.append(result)
        self.wasted.append(span)

    def take_back(self, node: str, reason: str) -> None:
        """An update that counted does not any more."""
        del self.updates[node]
        self.fail(_as_failed(self.good.pop(node), reason), self.worked.pop(node))

    @property
    def wasted_s(self) -> float:
        """Seconds in which attempts that failed were at work and no good one was."""
        good = list(self.worked.values())
        return _covered([*good, *self.wasted]) - _covered(good)

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
        expected_s: wall seconds that an epoch may be expected to take, for the deadline of the first one of a pair;
            without it that one has none but the transport's own.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        transport: Transport,
        meter: Meter | None = None,
        expected_s: Callable[[Decision], float] | None = None,
    ) -> None:
        self.setup, self.transport, self.meter = setup, transport, meter
        self._expected_s = expected_s
        self._held: Held | None = None
        self._walls: dict[Pair, float] = {}
        self._trainable: dict[str, frozenset[str]] = {}

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
            EpochImplausible: all that was left to average leads to a loss that no training arrives at, twice.
        """
        nodes = self.setup.nodes_in(decision)
        window = EpochWindow(self.meter)
        collected, waiting = _Collected(), list(nodes)
        for number in range(attempt, attempt + RETRIES + 1):
            last = number == attempt + RETRIES
            self._ask([self._task(decision, checkpoint, node, run, number) for node in waiting], checkpoint, collected)
            waiting = self._worth_retrying(nodes, collected, number)
            if waiting and not last:
                continue
            self._check_quorum(decision, nodes, collected, window)
            averaged = self._averaged(collected.updates, checkpoint)
            metered = window.close(collected.cpu_s).by_meters_of(list(collected.good.values()), collected.failures)
            evaluation = self.evaluate(averaged)
            if not math.isfinite(evaluation.loss):
                raise EpochNonFinite(
                    f"epoch {decision.epoch}: the averaged model's loss is {evaluation.loss}",
                    self._lost(collected, metered),
                )
            culprits = self._culprits(evaluation.loss, checkpoint, collected)
            if not culprits:
                break
            if last and len(culprits) == len(collected.good):
                reasons = "; ".join(f"{node}: {reason}" for node, reason in culprits.items())
                raise EpochImplausible(f"epoch {decision.epoch} ({reasons})", self._lost(collected, metered))
            for node, reason in culprits.items():
                collected.take_back(node, reason)
            waiting = [node for node in culprits if not last]
            if not waiting:
                self._check_quorum(decision, nodes, collected, window)
                averaged = self._averaged(collected.updates, checkpoint)
                evaluation = self.evaluate(averaged)
        wall_s, drawn = metered.wall_s - collected.wasted_s, len(nodes) < len(self.setup.nodes_of(decision.nodes))
        self._walls[decision.pair] = max(wall_s, self._walls.get(decision.pair, 0.0)) if drawn else wall_s
        return self._result(decision, averaged, collected, evaluation, metered)

    def _averaged(self, updates: Updates, before: Checkpoint) -> Checkpoint:
        """What the server makes of the nodes' updates."""
        averaged, settings = average(updates, before), self.setup.settings
        if settings.strategy == "fedavg":
            return averaged
        if before.version not in self._trainable:
            model = loaded(before, resolve=self.setup.resolve)
            named = model.named_parameters(remove_duplicate=False)
            self._trainable[before.version] = frozenset(name for name, weight in named if weight.requires_grad)
        return server_step(before, averaged, settings, self._trainable[before.version])

    def evaluate(self, checkpoint: Checkpoint) -> Evaluation:
        """Loss and accuracy on the set that the target is read on; not charged."""
        if self._held is None:
            self._held = held_of(self.setup.target_set())
        return self.setup.evaluate(loaded(checkpoint, resolve=self.setup.resolve), self._held)

    def _ask(self, tasks: Sequence[NodeTask], checkpoint: Checkpoint, collected: _Collected) -> None:
        """Send tasks, and hold every answer against its own."""
        began = time.monotonic()
        for task, result in one_answer_each(tasks, self.transport.send(tasks)):
            now = time.monotonic()
            cores = max(os.cpu_count() or 1, task.settings.threads)
            most_s = now - began + CLOCK_SLACK_S
            if result.error is not None:
                result = believable(self.setup, result, most_s, cores)
                collected.hopeless |= {result.node} if result.kind in ("non-finite", "user") else set()
                collected.fail(result, (now - (result.wall_s or now - began), now))
                continue
            update = open_update(result, checkpoint, task.settings)
            declared = self.setup.samples_at(task.node, task.datasets)
            if declared is None and result.samples < 1:
                update = "no samples at all"
            elif declared is not None and result.samples != declared:
                update = f"{result.samples} samples, but it holds {declared}"
            elif not can_draw(result, most_s):
                update = f"{result.energy_j:.3g} J in {now - began:.3g} s, which no node can draw"
            elif result.wall_s > most_s or result.cpu_s > most_s * cores:
                update = (
                    f"{result.cpu_s:.3g} CPU and {result.wall_s:.3g} wall seconds, but {now - began:.3g} have passed"
                )
            result = believable(self.setup, result, most_s, cores)
            span = (now - min(result.wall_s or now - began, now - began), now)
            if isinstance(update, str):
                collected.fail(_as_failed(result, update), span)
            else:
                collected.take(result, update, span)

    def _worth_retrying(self, nodes: Sequence[str], collected: _Collected, number: int) -> list[str]:
        """Failed nodes, but for those that would fail again, and stragglers that the quorum can do without."""
        enough = len(collected.good) >= self._needed(nodes)
        fails = [r for r in collected.failures if r.attempt == number]
        return [r.node for r in fails if r.node not in collected.hopeless and not (enough and r.kind == "late")]

    def _culprits(self, loss: float, checkpoint: Checkpoint, collected: _Collected) -> dict[str, str]:
        """Of an average with this loss, the nodes whose updates brought it where no training does; all if none alone.

        What is looked at is looked at only when the loss is far off: honest epochs pay nothing.
        """
        if loss <= most_plausible(0.0):
            return {}
        before = self.evaluate(checkpoint).loss
        allowed = most_plausible(before)
        if loss <= allowed:
            return {}
        alone = {node: self.evaluate(update).loss for node, (_, update) in sorted(collected.updates.items())}
        guilty = {node: reached for node, reached in alone.items() if not reached <= allowed}
        if not guilty and self.setup.settings.strategy != "fedavg":
            return {}  # it was the server's own step
        guilty = guilty or alone
        words = f"expected at most {allowed:.3g} from training"
        return {
            node: f"its update brings the loss from {before:.3g} to {reached:.3g}, {words}"
            for node, reached in guilty.items()
        }

    def _needed(self, nodes: Sequence[str]) -> int:
        return max(1, math.ceil(self.setup.settings.quorum * len(nodes) - 1e-9))

    def _task(self, decision: Decision, checkpoint: Checkpoint, node: str, run: str, attempt: int) -> NodeTask:
        return NodeTask(
            run,
            decision.epoch,
            attempt,
            node,
            checkpoint.for_nodes,
            self.setup.settings,
            decision.resources,
            self.deadline_s(decision, attempt),
            decision.datasets,
            self.setup.slices_of(decision.version),
        )

    def deadline_s(self, decision: Decision, attempt: int = 0) -> float | None:
        """How long after it was sent a task of `decision` is waited for: as the scenario says, as seen, as expected."""
        timeout = self.setup.settings.epoch_timeout_s
        if timeout is not None:
            return timeout
        if decision.pair in self._walls:
            return SLACK_FACTOR * self._walls[decision.pair] + SLACK_S
        expected_s = math.inf if self._expected_s is None else self._expected_s(decision)
        return FIRST_FACTOR * expected_s + FIRST_SLACK_S if math.isfinite(expected_s) else None

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
        raise users_error([last[node] for node in sorted(last)], decision, lost) or EpochLost(message, lost)

    def _lost(self, collected: _Collected, metered: Metered) -> LostEpoch:
        return LostEpoch(self._failed(collected), collected.cpu_s, metered.wall_s, metered.energy_j)

    def _failed(self, collected: _Collected) -> tuple[NodeReport, ...]:
        return tuple(
            replace(report_of(result), samples=self.setup.samples_at(result.node) or 0) for result in collected.failures
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
            wasted_s=collected.wasted_s if metered.metered else 0.0,
            failed_nodes=tuple(failed_nodes),
        )
        flops = self.setup.version_facts()[decision.version].flops_per_sample * self.setup.settings.local_epochs
        reports = tuple(
            replace(
                report_of(r),
                elapsed_s=metered.wall_s,
                energy_j=metered.share_j(r.cpu_s) if r.energy_j is None else r.energy_j,
                provenance=r.provenance or (metered.provenance if metered.metered else None),
                flops=flops * r.samples,
            )
            for r in good
        )
        return EpochResult(outcome, checkpoint, evaluation, reports, self._failed(collected), train_loss)


def one_answer_each(tasks: Iterable[NodeTask], sent: Iterable[NodeResult]) -> Iterator[tuple[NodeTask, NodeResult]]:
    """Every task with its one answer, as they arrive; at the end those that the transport forgot, as failures."""
    waiting = {task.key: task for task in tasks}
    for result in sent:
        task = waiting.pop(result.key, None)
        if task is not None:  # else late, twice, or nobody's
            yield task, result
    for task in waiting.values():
        yield task, failed(task, "lost", "no answer")


def believable(setup: TrainingSetup, result: NodeResult, most_s: float, cores: int) -> NodeResult:
    """An answer without what cannot be: seconds, joules, a failure of user's code that is not here.

    Of more than `most_s` seconds on `cores` so many are left: nobody is booked less for claiming what is impossible.
    """
    result = _rightly_blamed(setup, result)
    result = replace(result, cpu_s=min(result.cpu_s, most_s * cores), wall_s=min(result.wall_s, most_s))
    return result if can_draw(result, most_s) else replace(result, energy_j=None, provenance=None)


def can_draw(result: NodeResult, most_s: float) -> bool:
    """Whether a node can have drawn the joules that it states in so many seconds."""
    return (result.energy_j or 0.0) <= most_s * MOST_W


def _rightly_blamed(setup: TrainingSetup, result: NodeResult) -> NodeResult:
    """A failure, as the node's own where it is laid on user's code that is not here: only code that is ends a run."""
    own = (*setup.references, *setup.settings.own, *setup.sources, *(("in_memory:",) if setup.models else ()))
    if result.error is None or result.kind != "user" or is_evident(result.error, own, setup.folder):
        return result
    words = f"says that the user's code failed, but names none that is here: {result.error}"
    return replace(result, kind="refused", error=words)


def users_error(failures: Iterable[NodeResult], decision: Decision, lost: LostEpoch) -> EpochStopped | None:
    """The error that ends the run, if one of the failures is that of user's code."""
    words = next((result.error for result in failures if result.kind == "user"), None)
    if words is None:
        return None
    return EpochStopped(f"{words}; epoch {decision.epoch} on {decision.pair}, those before it are kept", lost)


def report_of(result: NodeResult) -> NodeReport:
    """An answer as it came, before anything is booked."""
    return NodeReport(
        result.node,
        result.attempt,
        result.samples,
        result.train_loss,
        result.cpu_s,
        result.wall_s,
        error=result.error,
        kind=result.kind,
    )


def _as_failed(result: NodeResult, reason: str) -> NodeResult:
    kind: FailureKind = "non-finite" if reason.startswith((NOT_FINITE, EXPLODED)) else "corrupt"
    return replace(result, samples=0, checkpoint=None, train_loss=None, error=reason, kind=kind)


def _covered(spans: Iterable[Span]) -> float:
    """Seconds that lie in at least one of the spans."""
    total, reached = 0.0, -math.inf
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, reached))
        reached = max(reached, last)
    return total
