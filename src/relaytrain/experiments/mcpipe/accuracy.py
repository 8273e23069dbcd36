"""mcPipe figures 2 to 4: accuracy over time of six ways of training VGG16, trained for real on an emulated clock.

Each distinct update rule is trained once for every number of workers, data set and seed (`comparison`); what
each way takes for an update follows from the network's counted units, the devices and the link:

    Local              all FLOPs on the fastest device
    data-distributed   a minibatch on each device, then a ring all-reduce of all weights over the link
    PipeDream          the slowest stage or link of the fastest split
    mcPipe             the same split, every layer replayed on demand
    best-of            the same split, layers replayed as far as half of what that can save asks for it
    GreedyUpdates      as PipeDream, without versions

Finished trainings are kept beside the figures, so that an interrupted reproduction goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...planners.pipeline.chain import Policy, Unit, layers_of
from ...planners.pipeline.partition import Device, partition, split
from ...planners.pipeline.policy_choice import Keeping, PolicyChoice
from ...planners.pipeline.stage_memory import all_by, replay_flops, stage_bytes
from ...planners.pipeline.version_lifetimes import Alive, steady_peaks
from ..kept import kept
from ..over_seeds import Interval
from ..trainings import Progress
from .savings import saving

if TYPE_CHECKING:
    from .comparison import ComparisonTask, Way

RULES: dict[str, Way] = {"Local": "local", "data-distributed": "data"}
RULES |= {"PipeDream": "delayed", "mcPipe": "delayed", "best-of": "delayed", "GreedyUpdates": "greedy"}
FLOPS_PER_S = (1e9, 1e9, 0.6e9)
"""Two equal workers and a slower third, as the paper's two computers and a laptop."""
LINK_BITS_PER_S = 20e6
IN_FLIGHT = 4
"""Minibatches under way: the window of the paper's Example 2; its experiments do not say theirs."""
STATE_TENSORS = 1
"""Of the update rule for each weight: momentum."""


@dataclass(frozen=True)
class AccuracyScale:
    """How much is trained; `quick` is only to see that it runs."""

    updates: int = 2000
    seeds: int = 6
    images: int = 6000
    test_images: int = 600
    every: int = 50


FULL, QUICK = AccuracyScale(), AccuracyScale(6, 1, 120, 40, 3)


@dataclass(frozen=True)
class AccuracyCurve:
    """Accuracy over emulated seconds, a row for each initialisation."""

    method: str
    seconds: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]
    step_s: float

    @property
    def accuracy(self) -> tuple[float, ...]:
        """The mean over initialisations."""
        return tuple(float(a) for a in np.mean(self.rows, axis=0))

    def at(self, second: float) -> float:
        """Mean accuracy at a moment, along straight lines."""
        return float(np.mean(self.each((second,))))

    def each(self, seconds: Sequence[float]) -> tuple[float, ...]:
        """For each initialisation the mean accuracy over some moments."""
        return tuple(float(np.mean(np.interp(seconds, self.seconds, row))) for row in self.rows)

    def reaches(self, level: float) -> float:
        """When the mean first gets to `level`; infinity if it does not."""
        points = list(zip(self.seconds, self.accuracy, strict=True))
        for (t0, a0), (t1, a1) in pairwise(points):
            if a1 >= level > a0:
                return t0 + (t1 - t0) * (level - a0) / (a1 - a0)
        return math.inf


def gap(one: AccuracyCurve, other: AccuracyCurve, seconds: Sequence[float]) -> Interval:
    """How far one curve is above another over some moments, in points; initialisations are compared in pairs."""
    pairs = zip(one.each(seconds), other.each(seconds), strict=True)
    return Interval.of([100 * (a - b) for a, b in pairs])


@dataclass(frozen=True)
class UpdateSteps:
    """Seconds of an update by method and of the first minibatch, where stages are cut, and how they keep versions."""

    seconds: Mapping[str, float]
    fill_s: float
    cuts: tuple[int, ...]
    devices: tuple[Device, ...]
    choices: Mapping[str, tuple[PolicyChoice, ...]]


def steps(units: tuple[Unit, ...], workers: int) -> UpdateSteps:
    """What an update takes by each method with `workers` of the devices."""
    devices = tuple(
        Device(f"worker {i + 1}", speed, math.inf, LINK_BITS_PER_S / 8) for i, speed in enumerate(FLOPS_PER_S[:workers])
    )
    plan = partition(units, devices, m=IN_FLIGHT, keeping=Keeping.stash, state_tensors=STATE_TENSORS)
    flops = sum(unit.train_flops for unit in units)
    weights = sum(unit.weight_bytes for unit in units)
    ring = 2 * (workers - 1) / workers * weights * 8 / LINK_BITS_PER_S
    seconds = {
        "Local": flops / max(FLOPS_PER_S),
        "data-distributed": flops / min(device.flops_per_s for device in devices) + ring,
    }
    parts, alive = split(units, plan.cuts), steady_peaks(workers, IN_FLIGHT)
    choosing: dict[str, Callable[..., PolicyChoice]] = {
        "PipeDream": partial(_all, Policy.stash),
        "GreedyUpdates": partial(_all, Policy.greedy),
        "mcPipe": partial(_all, Policy.on_demand),
        "best-of": partial(saving, share=0.5),
    }
    choices = {
        method: tuple(
            choose(part, alive[at], state_tensors=STATE_TENSORS, last=at == workers - 1)
            for at, part in enumerate(parts)
        )
        for method, choose in choosing.items()
    }
    link = max(stage.link_s for stage in plan.stages)
    for method, chosen in choices.items():
        times = [
            (sum(unit.train_flops for unit in part) + choice.extra_flops) / device.flops_per_s
            for part, choice, device in zip(parts, chosen, devices, strict=True)
        ]
        seconds[method] = max(link, *times)
    return UpdateSteps(
        seconds, sum(stage.compute_s + stage.link_s for stage in plan.stages), plan.cuts, devices, choices
    )


def _all(policy: Policy, part: Sequence[Unit], alive: Alive, *, state_tensors: int, last: bool) -> PolicyChoice:
    """The same policy for every layer of a stage."""
    layers = layers_of(part)
    policies = all_by(policy, layers)
    size = stage_bytes(part, policies, alive, state_tensors=state_tensors, last=last)
    return PolicyChoice(policies, size, sum(replay_flops(x, policy, alive) for x in layers))


def curves(
    out_dir: Path, source: str, workers: int, scale: AccuracyScale, progress: Progress | None = None
) -> tuple[dict[str, AccuracyCurve], UpdateSteps]:
    """All methods with `workers` workers on one data set, trained or taken from an earlier call."""
    from .comparison import PipelineBench

    tasks = [task_of(source, scale, seed) for seed in range(scale.seeds)]
    units = PipelineBench.of(replace(tasks[0], images=tasks[0].batch, test_images=2)).units()
    clock = steps(units, workers)
    horizon = clock.fill_s + scale.updates * clock.seconds["PipeDream"]
    by_method = {}
    for method, way in RULES.items():
        step, fill = clock.seconds[method], 0.0 if way in ("local", "data") else clock.fill_s
        fitting = math.ceil(horizon / step / scale.every) * scale.every if way in ("local", "data") else scale.updates
        updates = min(fitting, scale.updates)
        rows = [_trained(out_dir, task, way, updates, clock.cuts, workers, progress) for task in tasks]
        times = tuple(0.0 if i == 0 else fill + i * scale.every * step for i in range(len(rows[0])))
        by_method[method] = AccuracyCurve(method, times, tuple(rows), step)
    return by_method, clock


def task_of(source: str, scale: AccuracyScale, seed: int) -> ComparisonTask:
    """What one initialisation trains."""
    from .comparison import ComparisonTask

    task = ComparisonTask(source, seed=seed, shrink=1 if source == "digits" else 2, in_flight=IN_FLIGHT)
    return replace(task, images=scale.images, test_images=scale.test_images, every=scale.every)


def _trained(
    out_dir: Path,
    task: ComparisonTask,
    way: Way,
    updates: int,
    cuts: tuple[int, ...],
    workers: int,
    progress: Progress | None,
) -> tuple[float, ...]:
    """One training, or what is kept of it, or of a longer one; its file is named after all else that it depends on."""
    used: dict[str, Any] = {**asdict(task), "way": way}
    used |= {"cuts": cuts} if way in ("delayed", "greedy") else {}
    used |= {"workers": workers} if way == "data" else {}
    points = 1 + math.ceil(updates / task.every)

    def train() -> tuple[float, ...]:
        from .comparison import PipelineBench, accuracies

        if progress is not None:
            progress(f"training {task.source}, {way}, {workers} workers, seed {task.seed}, {updates} updates")
        return accuracies(PipelineBench.of(task), way, updates, cuts=cuts, workers=workers)

    name = f"{task.source}-{way}-{task.seed}"
    result = kept(out_dir / "mcpipe-trainings", name, used, train, lambda accuracy: len(accuracy) >= points)
    return tuple(result[:points])
