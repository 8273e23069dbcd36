"""`run_pipeline`: train a network as a pipeline, in processes or in the simulator, from one call with one result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from ..core.errors import UsageError
from ..models.spec import Spec
from ..planners.pipeline.chain import Policy, Unit
from ..planners.pipeline.partition import Device, PipelinePlan, partition, split
from ..planners.pipeline.policy_choice import Keeping
from ..planners.pipeline.schedules import PipelineSchedule, Window, async_1f1b, gpipe, sync_1f1b
from ..planners.pipeline.stage_memory import stage_bytes
from ..planners.pipeline.version_lifetimes import peak
from ..training.losses import loss_named
from .blueprint import names_in
from .factors import Tensors
from .job_file import Owner
from .networks import chain
from .simulator import simulate
from .unit_counter import measure
from .update_rules import OptimizerState, Rule

Batches = Sequence[tuple[Tensor, Tensor]]
Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Training:
    """How to train. `m` minibatches under way, by default one a device; for synchronous schedules those of an update.

    `checkpoint` allows stages to compute activations again where memory is short.
    """

    rule: Rule
    loss: str = "cross-entropy"
    m: int | None = None
    window: Window = Window.one_f_one_b
    keeping: Keeping = Keeping.best_of
    schedule: Literal["async", "1f1b", "gpipe"] = "async"
    checkpoint: bool = False

    def rows(self, stages: int, minibatches: int) -> PipelineSchedule:
        """The schedule of so many stages and minibatches."""
        m = self.m or stages
        if self.schedule == "async":
            return async_1f1b(stages, minibatches, m, self.window)
        if minibatches % m:
            raise UsageError(
                f"batches: got {minibatches}, expected a multiple of m = {m}: an update waits for {m} of them"
            )
        return (sync_1f1b if self.schedule == "1f1b" else gpipe)(stages, minibatches // m, m)

    @property
    def flush(self) -> bool:
        """Whether updates wait for several minibatches."""
        return self.schedule != "async"


@dataclass(frozen=True)
class Emulation:
    """Devices and links slower than this machine: `links` and `compute` take the devices' own figures.

    `speeds` (FLOP/s by device) are the true ones where they differ from those that the plan believes in; `delay_s` is
    the range of a random delay of every message; `data_bits_per_s` the speed of a master's link; `seconds` (forward,
    backward, by device) say outright how long a stage's computing lasts.
    """

    links: bool = False
    compute: bool = False
    delay_s: tuple[float, float] = (0.0, 0.0)
    data_bits_per_s: float | None = None
    speeds: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Runtime:
    """Where to train and what to watch for.

    `folder` keeps snapshots, so that a run that was killed goes on from there; without one a temporary folder is used.
    With `rebalance` a persistently slow stage is given less to do, and the result depends on when that was noticed.
    """

    where: Literal["processes", "simulator"] = "processes"
    owner: Owner = "first"
    folder: Path | None = None
    snapshot_every: int = 0
    bind: str = "localhost"
    trusted_network: bool = False
    rendezvous: Literal["file", "tcp"] = "file"
    emulation: Emulation = Emulation()
    rebalance: bool = False
    count_bytes: bool = False
    silent_s: float = 4.0
    group_s: float = 10.0
    restarts: int = 5


@dataclass(frozen=True)
class Split:
    """Where the chain is cut, how each stage's layers keep versions, on which device each runs, which compute again."""

    cuts: tuple[int, ...]
    policies: tuple[dict[str, Policy], ...]
    devices: tuple[str, ...]
    checkpoint: tuple[bool, ...] = ()

    def again(self, stage: int) -> bool:
        """Whether `stage` computes its activations again in the backward."""
        return stage < len(self.checkpoint) and self.checkpoint[stage]


@dataclass(frozen=True)
class PipelineResult:
    """What came out. Weights (with buffers) and optimizer states go by the model's own names.

    `peak_bytes` are the most that each stage of the last attempt held between actions, where counted, `predicted_bytes`
    what the closed form allows it, what an action needs while it runs included;
    `history` tells of every start, loss and change.
    """

    weights: Tensors
    states: dict[str, OptimizerState]
    losses: tuple[float, ...]
    elapsed_s: float
    link_bytes: int
    peak_bytes: tuple[int, ...]
    predicted_bytes: tuple[int, ...]
    splits: tuple[Split, ...]
    history: tuple[dict[str, Any], ...] = ()
    workers: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class PipelineWork:
    """A checked call of `run_pipeline`."""

    model: nn.Module
    chain: tuple[nn.Module, ...]
    units: tuple[Unit, ...]
    batches: Batches
    training: Training
    runtime: Runtime
    spec: Spec | None
    states: Mapping[str, OptimizerState]
    progress: Progress

    def plan(self, devices: Sequence[Device]) -> PipelinePlan:
        """The split over `devices`."""
        t = self.training
        return partition(
            self.units, devices, m=t.m or len(devices), window=t.window, keeping=t.keeping,
            state_tensors=t.rule.state_tensors, checkpoint=t.checkpoint,
        )  # fmt: skip


def run_pipeline(
    model: nn.Module,
    batches: Batches,
    devices: Sequence[Device],
    training: Training,
    runtime: Runtime | None = None,
    *,
    spec: Spec | None = None,
    states: Mapping[str, OptimizerState] | None = None,
    split: Split | None = None,
    progress: Progress | None = None,
) -> PipelineResult:
    """Train `model`, which is not changed, on `batches` (inputs, labels), stage by stage over `devices`.

    Args:
        model: an `nn.Sequential` of plain layers, or any model of this package's families with its `spec`.
        batches: in order; every minibatch is one update, or `m` of them are in a synchronous schedule.
        devices: in the order of the stages; the split is planned for their speed, memory and links.
        training: optimizer, loss, minibatches under way, how weight versions are kept.
        runtime: processes or simulator, snapshots, emulated devices.
        spec: how other processes build the model, when it is no plain chain.
        states: the optimizer's, to go on from an earlier result's.
        split: instead of a planned one; after the loss of a device the rest is planned.
        progress: told of everything that happens, as it happens.

    Raises:
        UsageError: arguments that do not fit each other.
        InfeasibleError: no split fits the devices' memory.
        WorkerLost: no device is left, or more restarts than allowed.
    """
    runtime = runtime or Runtime()
    if not batches:
        raise UsageError("batches: got none, expected at least one")
    if runtime.snapshot_every < 0 or not runtime.silent_s > 0 or not runtime.group_s > 0:
        raise UsageError("runtime: got a negative number, expected snapshot_every >= 0 and times above 0")
    units = chain(model)
    loss = loss_named(training.loss)
    facts = measure(units, batches[0][0], loss, batches[0][1])
    work = PipelineWork(
        model, units, facts, batches, training, runtime, spec, states or {}, progress or (lambda _: None)
    )
    split = split or split_of(work.plan(devices))
    if runtime.where == "simulator":
        return _simulated(work, split)
    from .supervisor import supervise

    return supervise(work, devices, split)


def split_of(plan: PipelinePlan) -> Split:
    """A plan's split."""
    stages = plan.stages
    again = tuple(stage.choice.checkpoint for stage in stages)
    return Split(plan.cuts, tuple(stage.policies for stage in stages), tuple(stage.device for stage in stages), again)


def letters(schedule: PipelineSchedule) -> tuple[str, ...]:
    """Each stage's actions in order, a letter each; their indexes count up by themselves."""
    return tuple("".join(p.action.kind.value for p in row) for row in schedule.rows)


def _simulated(work: PipelineWork, chosen: Split) -> PipelineResult:
    training, began_s = work.training, time.monotonic()
    parts = [nn.Sequential(*part) for part in split(work.chain, chosen.cuts)]
    schedule = training.rows(len(parts), len(work.batches))
    names = names_in(work.chain, work.model)
    inner = {theirs: ours for ours, theirs in names.items()}
    edges = (0, *chosen.cuts, len(work.chain))
    states: list[dict[str, OptimizerState]] = [{} for _ in parts]
    for name, state in work.states.items():
        unit, _, rest = inner[name].partition(".")
        at = next(s for s in range(len(parts)) if edges[s] <= int(unit) < edges[s + 1])
        states[at][f"{int(unit) - edges[at]}.{rest}"] = state
    batches = [(_aligned(inputs), labels) for inputs, labels in work.batches]
    again = [chosen.again(at) for at in range(len(parts))]
    run = simulate(
        parts,
        schedule,
        batches,
        loss_named(training.loss),
        training.rule,
        chosen.policies,
        checkpoint=again,
        states=states,
    )
    weights: Tensors = {}
    left: dict[str, OptimizerState] = {}
    for at in range(len(parts)):
        for name, tensor in run.weights[at].items():
            weights[names[_outer(name, edges[at])]] = tensor
        for name, state in run.states[at].items():
            left[names[_outer(name, edges[at])]] = state
    peaks = tuple(run.peak_total(at) for at in range(len(parts)))
    sent = len(work.batches) * 2 * sum(work.units[cut - 1].output[1] for cut in chosen.cuts)
    return PipelineResult(
        weights, left, run.losses, time.monotonic() - began_s, sent, peaks, predicted(work, chosen), (chosen,)
    )  # fmt: skip


def _aligned(tensor: Tensor) -> Tensor:
    """As fresh memory is: products round differently where rows begin elsewhere."""
    return tensor if tensor.data_ptr() % 64 == 0 else tensor.clone()


def _outer(name: str, first: int) -> str:
    unit, dot, rest = name.partition(".")
    return f"{int(unit) + first}{dot}{rest}"


def predicted(work: PipelineWork, chosen: Split) -> tuple[int, ...]:
    """The closed form's bytes of each stage."""
    schedule = work.training.rows(len(chosen.cuts) + 1, len(work.batches))
    made = []
    for at, part in enumerate(split(work.units, chosen.cuts)):
        first, last = (0, *chosen.cuts)[at], at == len(chosen.cuts)
        policies = {_outer(name, first): policy for name, policy in chosen.policies[at].items()}
        choice = {layer.name: policies.get(layer.name, Policy.stash) for unit in part for layer in unit.layers}
        state_tensors = work.training.rule.state_tensors
        size = stage_bytes(
            part, choice, peak(schedule, at), state_tensors=state_tensors, last=last, checkpoint=chosen.again(at)
        )
        made.append(size.total)
    return tuple(made)
