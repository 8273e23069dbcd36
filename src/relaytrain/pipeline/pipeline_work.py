"""What a pipeline is asked to do, where, and what came out: training, runtime, split, the checked work, the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from ..core.errors import UsageError
from ..models.spec import Spec
from ..planners.pipeline.chain import Policy, Unit, layers_of, renumbered
from ..planners.pipeline.partition import Device, PipelinePlan, partition, split
from ..planners.pipeline.policy_choice import Keeping
from ..planners.pipeline.schedules import PipelineSchedule, async_1f1b, gpipe, sync_1f1b
from ..planners.pipeline.stage_memory import stage_bytes
from ..planners.pipeline.version_lifetimes import peak
from ..training.losses import loss_named
from .addresses import interface_of
from .factors import Tensors
from .job_file import Owner
from .networks import chain
from .unit_counter import measure
from .update_rules import OptimizerState, Rule

Batches = Sequence[tuple[Tensor, Tensor]]
Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Training:
    """How to train. `m` minibatches under way, by default one a device; for synchronous schedules those of an update.

    `checkpoint` allows stages to compute activations again where memory is short. `code` is the folder in which a loss
    or a network of the user's own is looked for first.
    """

    rule: Rule
    loss: str = "cross-entropy"
    m: int | None = None
    keeping: Keeping = Keeping.best_of
    schedule: Literal["async", "1f1b", "gpipe"] = "async"
    checkpoint: bool = False
    code: Path | None = None

    def rows(self, stages: int, minibatches: int) -> PipelineSchedule:
        """The schedule of so many stages and minibatches."""
        m = self.m or stages
        if self.schedule == "async":
            return async_1f1b(stages, minibatches, m)
        if minibatches % m:
            raise UsageError(
                f"batches: got {minibatches}, expected a multiple of m = {m}: an update waits for {m} of them"
            )
        return (sync_1f1b if self.schedule == "1f1b" else gpipe)(stages, minibatches // m, m)

    def flush(self, stages: int) -> int | None:
        """How many minibatches an update waits for; None: for none, it is asynchronous."""
        return None if self.schedule == "async" else self.m or stages


@dataclass(frozen=True)
class Emulation:
    """Devices and links slower than this machine: `links` and `compute` take the devices' own figures.

    `speeds` (FLOP/s by device) are the true ones where they differ from those that the plan believes in; `delay_s` is
    the range of a random delay of every message; `seconds` (forward, backward, by device) say outright how long a
    stage's computing lasts.
    """

    links: bool = False
    compute: bool = False
    delay_s: tuple[float, float] = (0.0, 0.0)
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
    emulation: Emulation = Emulation()
    rebalance: bool = False
    count_bytes: bool = False
    silent_s: float = 4.0
    group_s: float = 10.0


@dataclass(frozen=True)
class Split:
    """Where the chain is cut, how each stage's layers keep versions, on which device each runs, which compute again."""

    cuts: tuple[int, ...]
    policies: tuple[dict[str, Policy], ...]
    devices: tuple[str, ...]
    checkpoint: tuple[bool, ...] = ()

    @classmethod
    def of(cls, plan: PipelinePlan) -> Split:
        """A plan's split."""
        stages = plan.stages
        again = tuple(stage.choice.checkpoint for stage in stages)
        return cls(plan.cuts, tuple(stage.policies for stage in stages), tuple(stage.device for stage in stages), again)

    def again(self, stage: int) -> bool:
        """Whether `stage` computes its activations again in the backward."""
        return stage < len(self.checkpoint) and self.checkpoint[stage]


@dataclass(frozen=True)
class PipelineResult:
    """What came out. Weights (with buffers) and optimizer states go by the model's own names.

    `peak_bytes` are the most that each stage of the last attempt held between actions, where counted, `predicted_bytes`
    what the closed form allows it, what an action needs while it runs included; `grown_bytes` are what the operating
    system saw each stage's process grow by, of them `code_bytes` program code, and what goes beyond the closed form is
    `LEFT_OUT` (`process_memory`); both are empty in the simulator. `history` tells of every start, loss and change.
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
    grown_bytes: tuple[int, ...] = ()
    code_bytes: tuple[int, ...] = ()


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

    @classmethod
    def of(
        cls,
        model: nn.Module,
        batches: Batches,
        training: Training,
        runtime: Runtime,
        *,
        spec: Spec | None = None,
        states: Mapping[str, OptimizerState] | None = None,
        progress: Progress | None = None,
    ) -> PipelineWork:
        """Check what was asked for, and count the network.

        Raises:
            UsageError: arguments that do not fit each other.
        """
        if not batches:
            raise UsageError("batches: got none, expected at least one")
        if runtime.snapshot_every < 0 or not runtime.silent_s > 0 or not runtime.group_s > 0:
            raise UsageError("runtime: got a negative number, expected snapshot_every >= 0 and times above 0")
        if runtime.where == "processes":
            interface_of(runtime.bind)  # before anything is written
        units = chain(model)
        facts = measure(units, batches[0][0], loss_named(training.loss, training.code), batches[0][1])
        return cls(model, units, facts, batches, training, runtime, spec, states or {}, progress or (lambda _: None))

    def plan(self, devices: Sequence[Device]) -> PipelinePlan:
        """The split over `devices`."""
        t = self.training
        m, state_tensors = t.m or len(devices), t.rule.state_tensors
        return partition(
            self.units,
            devices,
            m=m,
            keeping=t.keeping,
            state_tensors=state_tensors,
            checkpoint=t.checkpoint,
        )

    def predicted_bytes(self, chosen: Split) -> tuple[int, ...]:
        """The closed form's bytes of each stage of a split."""
        schedule = self.training.rows(len(chosen.cuts) + 1, len(self.batches))
        totals = []
        for at, part in enumerate(split(self.units, chosen.cuts)):
            first, last = (0, *chosen.cuts)[at], at == len(chosen.cuts)
            policies = {renumbered(name, first): policy for name, policy in chosen.policies[at].items()}
            choice = {layer.name: policies.get(layer.name, Policy.stash) for layer in layers_of(part)}
            state_tensors, again = self.training.rule.state_tensors, chosen.again(at)
            size = stage_bytes(
                part, choice, peak(schedule, at), state_tensors=state_tensors, last=last, checkpoint=again
            )
            totals.append(size.total)
        return tuple(totals)
