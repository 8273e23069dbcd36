"""A pipeline set's epoch on nodes of their own: every node gets its stage as a task, and stages link directly.

    split --tasks, each with its part of the network--> transport --> nodes link, train --> parts --> checkpoint

A task says rank, places and a one-time key (`stage_order`). All stages are needed: an attempt in which one fails is
made once more, from the epoch's beginning; a node set that fails again is lost for this epoch, and the loop decides.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from ..core.errors import StoreDamaged, WorkerLost
from ..core.outcome import LostEpoch
from ..core.plan import Decision
from ..pipeline.blueprint import names_in
from ..pipeline.factors import Tensors
from ..pipeline.host_links import StagePlace
from ..pipeline.job_writer import make_job, start_content
from ..pipeline.pipeline_work import PipelineWork, Split
from ..pipeline.snapshots import SnapshotContent, part_pieces, read
from ..pipeline.update_rules import OptimizerState, Rule
from ..planners.pipeline.partition import Device
from ..store.files import make_dir, write_atomic
from ..training.setup import TrainingSetup
from ..training.task import FailureKind, NodeResult, NodeTask, as_bytes
from .epoch import (
    CLOCK_SLACK_S,
    RETRIES,
    EpochLost,
    EpochNonFinite,
    EpochWindow,
    believable,
    can_draw,
    one_answer_each,
    report_of,
    users_error,
)
from .stage_order import orders

NOT_FINITE = "its weights are not finite"
IN_VAIN = "another stage did not get through"
MOST_CORES = 1024
"""Of a node: more CPU seconds than these can have spent are not believed."""


@runtime_checkable
class StageTransport(Protocol):
    """A transport to nodes that can link to each other."""

    def send(self, tasks: Iterable[NodeTask]) -> Iterator[NodeResult]:
        """Results as they arrive."""
        ...

    def stage_places(self, nodes: Sequence[str]) -> list[StagePlace]:
        """Where each of them listens.

        Raises:
            WorkerLost: one is not there, or cannot be reached by the others.
        """
        ...


@dataclass
class PipelinePass:
    """What all stages together came to; by node in `good`, with attempts that did not count in `failures`."""

    weights: Tensors
    states: dict[str, OptimizerState]
    train_loss: float
    good: dict[str, NodeResult] = field(default_factory=dict)
    failures: list[NodeResult] = field(default_factory=list)
    flops: Mapping[str, float] = field(default_factory=dict)
    wasted_s: float = 0.0

    @property
    def cpu_s(self) -> float:
        """Of all attempts."""
        return sum(result.cpu_s for result in (*self.good.values(), *self.failures))


@dataclass(frozen=True)
class StagesOnNodes:
    """Sends stages as tasks; `deadline_s` says how long one of a decision is waited for."""

    setup: TrainingSetup
    transport: StageTransport
    deadline_s: Callable[[Decision], float | None]

    def train(
        self,
        decision: Decision,
        work: PipelineWork,
        devices: Sequence[Device],
        window: EpochWindow,
        key: tuple[str, int],
    ) -> PipelinePass:
        """One epoch of `work`, split over `devices`, which are nodes by their names; `key`: run and first attempt.

        Raises:
            EpochLost: stages failed in every attempt. EpochStopped: by the user's own code. EpochNonFinite: by NaN.
        """
        split, content = Split.of(work.plan(devices)), start_content(work)
        run, first = key
        done = PipelinePass({}, {}, 0.0, flops=_flops(work, split))
        for attempt in range(first, first + RETRIES + 1):
            began = time.monotonic()
            job = replace(make_job(work, split, devices, Path()), attempt=attempt)
            try:
                places = self.transport.stage_places(split.devices)
            except WorkerLost as error:
                who = decision.nodes
                done.failures.append(NodeResult(run, who, decision.epoch, attempt, error=str(error), kind="lost"))
                continue
            parts = {node: content.part(*job.bounds(rank)) for rank, node in enumerate(split.devices)}
            tasks = [
                NodeTask(
                    run,
                    decision.epoch,
                    attempt,
                    split.devices[order.rank],
                    b"".join(part_pieces(parts[split.devices[order.rank]])),
                    self.setup.settings,
                    decision.resources,
                    self.deadline_s(decision),
                    stage=order.to_dict(),
                )
                for order in orders(decision.nodes, places, job)
            ]
            answers = self._answers(tasks, parts, work.training.rule)
            lost = [result for result, _ in answers.values() if result.error is not None]
            if not lost:
                return _together(done, answers, work, split.devices[-1])
            done.failures += lost
            spent = [result for result, _ in answers.values() if result.error is None]
            done.failures += [replace(result, checkpoint=None, error=IN_VAIN, kind="lost") for result in spent]
            done.wasted_s += time.monotonic() - began
            if any(result.kind in ("user", "non-finite") for result in lost):
                break
        raise self._lost(decision, done, window)

    def _answers(
        self, tasks: Sequence[NodeTask], parts: Mapping[str, SnapshotContent], rule: Rule
    ) -> dict[str, tuple[NodeResult, SnapshotContent]]:
        """Every node's answer, held against its task; one that is none of a stage's is a failure."""
        began, answers = time.monotonic(), {}
        for _, result in one_answer_each(tasks, self.transport.send(tasks)):
            most_s = time.monotonic() - began + CLOCK_SLACK_S
            content = SnapshotContent()
            if result.error is None:
                words, content = _opened(result, parts[result.node], rule, most_s)
                if words is not None:
                    kind: FailureKind = "non-finite" if words == NOT_FINITE else "corrupt"
                    result = replace(result, checkpoint=None, error=words, kind=kind)
            answers[result.node] = believable(self.setup, result, most_s, MOST_CORES), content
        return answers

    def _lost(self, decision: Decision, done: PipelinePass, window: EpochWindow) -> Exception:
        metered = window.close(done.cpu_s)
        lost = LostEpoch(tuple(map(report_of, done.failures)), done.cpu_s, metered.wall_s, metered.energy_j)
        number = done.failures[-1].attempt
        last = [result for result in done.failures if result.attempt == number and result.error != IN_VAIN]
        reasons = "; ".join(f"{result.node}: {result.error}" for result in last)
        message = f"epoch {decision.epoch}: the pipeline {decision.nodes} did not get through ({reasons})"
        stopping = users_error(last, decision, lost)
        if stopping is not None:
            return stopping
        if any(result.kind == "non-finite" for result in last):
            return EpochNonFinite(message, lost)
        return EpochLost(message, lost)


def _opened(result: NodeResult, sent: SnapshotContent, rule: Rule, most_s: float) -> tuple[str | None, SnapshotContent]:
    """A stage's part, or what is wrong with it: it has to hold what was sent, as other numbers."""
    if not can_draw(result, most_s):
        return f"{result.energy_j:.3g} J in {most_s:.3g} s, which no node can draw", sent
    with tempfile.TemporaryDirectory(prefix="rtp-") as folder:
        place = make_dir(Path(folder) / "part")
        write_atomic(place / "part.safetensors", as_bytes(result.checkpoint or b""), durable=False)
        try:
            part = read(place)
        except (StoreDamaged, OSError, ArithmeticError, ValueError, LookupError, TypeError, RuntimeError) as error:
            return f"its part is none: {str(error)[-120:]}", sent
    for mine, theirs in ((sent.weights, part.weights), (sent.buffers, part.buffers)):
        if mine.keys() != theirs.keys():
            return f"its part has {len(theirs)} tensors, expected {len(mine)} of other names", sent
        for name, tensor in mine.items():
            if theirs[name].shape != tensor.shape or theirs[name].dtype != tensor.dtype:
                return f"its {name} is {tuple(theirs[name].shape)}, expected {tuple(tensor.shape)}", sent
    tensors = [*part.weights.values(), *part.buffers.values(), *(t for s in part.states.values() for t in s.tensors)]
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        return NOT_FINITE, sent
    for name, state in part.states.items():
        if name not in part.weights:
            return f"its optimizer's state is of {name}, which is no weight of its own", sent
        form = part.weights[name].shape, part.weights[name].dtype
        if any((tensor.shape, tensor.dtype) != form for tensor in state.tensors):
            return f"its optimizer's state of {name} is of another shape or kind", sent
        if len(state.tensors) != rule.state_tensors and (state.steps or state.tensors):
            return f"its optimizer keeps {len(state.tensors)} tensors of {name}, expected {rule.state_tensors}", sent
    return None, part


def _together(
    done: PipelinePass,
    answers: Mapping[str, tuple[NodeResult, SnapshotContent]],
    work: PipelineWork,
    last: str,
) -> PipelinePass:
    names = names_in(work.chain, work.model)
    for result, part in answers.values():
        done.good[result.node] = result
        done.weights |= {names[name]: tensor for name, tensor in (part.weights | part.buffers).items()}
        done.states |= {names[name]: state for name, state in part.states.items()}
    loss = done.good[last].train_loss
    done.train_loss = float("nan") if loss is None else loss
    return done


def _flops(work: PipelineWork, split: Split) -> dict[str, float]:
    """Of each node's stage, in the whole epoch."""
    edges, size = (0, *split.cuts, len(work.units)), len(work.batches[0][1])
    samples = sum(len(labels) for _, labels in work.batches)
    return {
        node: sum(unit.train_flops for unit in work.units[edges[at] : edges[at + 1]]) * samples / size
        for at, node in enumerate(split.devices)
    }
