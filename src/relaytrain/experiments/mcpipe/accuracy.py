"""mcPipe figures 2 to 4: accuracy over time of six ways of training VGG16, trained for real on an emulated clock.

Each distinct update rule is trained once for every number of workers, data set and seed (`pipeline.comparison`); what
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

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...core.errors import ScenarioError
from ...pipeline.choice import Keeping, choose
from ...pipeline.facts import Policy, Unit
from ...pipeline.lifetimes import Alive, steady_peaks
from ...pipeline.memory import all_by, replay_flops, smallest, stage_bytes
from ...pipeline.partition import Device, partition, split
from ...store.files import make_dir, write_atomic

if TYPE_CHECKING:
    from ...pipeline.comparison import Task

Progress = Callable[[str], None]
Way = Literal["local", "data", "delayed", "greedy"]
RULES: dict[str, Way] = {
    "Local": "local", "data-distributed": "data", "PipeDream": "delayed", "mcPipe": "delayed", "best-of": "delayed",
    "GreedyUpdates": "greedy",
}  # fmt: skip
FLOPS_PER_S = (1e9, 1e9, 0.6e9)
"""Two equal workers and a slower third, as the paper's two computers and a laptop."""
LINK_BITS_PER_S = 20e6
UPDATES = 160
SEEDS = 3


@dataclass(frozen=True)
class Scale:
    """How much is trained; `quick` is only to see that it runs."""

    updates: int = UPDATES
    seeds: int = SEEDS
    images: int = 6000
    test_images: int = 400
    every: int = 20


FULL, QUICK = Scale(), Scale(6, 1, 120, 40, 3)


@dataclass(frozen=True)
class Curve:
    """Accuracy over emulated seconds: mean over seeds, and each seed's last value."""

    method: str
    seconds: tuple[float, ...]
    accuracy: tuple[float, ...]
    step_s: float
    last: tuple[float, ...]

    def at(self, second: float) -> float:
        """Accuracy at a moment, along straight lines."""
        return float(np.interp(second, self.seconds, self.accuracy))

    def reaches(self, level: float) -> float:
        """When the curve first gets to `level`; infinity if it does not."""
        for (t0, a0), (t1, a1) in zip(self._points, self._points[1:], strict=False):
            if a1 >= level > a0:
                return t0 + (t1 - t0) * (level - a0) / (a1 - a0)
        return math.inf

    @property
    def _points(self) -> list[tuple[float, float]]:
        return list(zip(self.seconds, self.accuracy, strict=True))


@dataclass(frozen=True)
class Steps:
    """Seconds of an update by method, of the first minibatch through the pipeline, and where the stages are cut."""

    seconds: Mapping[str, float]
    fill_s: float
    cuts: tuple[int, ...]


def steps(units: tuple[Unit, ...], workers: int, *, state_tensors: int = 1) -> Steps:
    """What an update takes by each method with `workers` of the devices."""
    devices = [Device(f"worker {i + 1}", speed, math.inf, LINK_BITS_PER_S / 8) for i, speed in enumerate(FLOPS_PER_S[:workers])]
    plan = partition(units, devices, m=workers, keeping=Keeping.stash, state_tensors=state_tensors)
    flops = sum(unit.train_flops for unit in units)
    weights = sum(unit.weight_bytes for unit in units)
    link = max(stage.link_s for stage in plan.stages)
    made = {"Local": flops / max(FLOPS_PER_S), "PipeDream": plan.step_s, "GreedyUpdates": plan.step_s}
    ring = 2 * (workers - 1) / workers * weights * 8 / LINK_BITS_PER_S
    made["data-distributed"] = flops / min(device.flops_per_s for device in devices) + ring
    alive = steady_peaks(workers, workers)
    made["mcPipe"] = made["best-of"] = link
    for at, (part, device) in enumerate(zip(split(units, plan.cuts), devices, strict=True)):
        layers, flops = [layer for unit in part for layer in unit.layers], sum(unit.train_flops for unit in part)
        all_pairs = sum(replay_flops(layer, Policy.on_demand, alive[at]) for layer in layers)
        made["mcPipe"] = max(made["mcPipe"], (flops + all_pairs) / device.flops_per_s)
        half = _half(part, alive[at], state_tensors, last=at == workers - 1)
        made["best-of"] = max(made["best-of"], (flops + half) / device.flops_per_s)
    return Steps(made, sum(stage.compute_s + stage.link_s for stage in plan.stages), plan.cuts)


def _half(part: Sequence[Unit], alive: Alive, state_tensors: int, *, last: bool) -> int:
    """FLOPs that best-of adds to a stage for half of the bytes that it can save there."""
    layers = [layer for unit in part for layer in unit.layers]
    kinds = (all_by(Policy.stash, layers), smallest(layers, alive))
    most, least = (stage_bytes(part, kind, alive, state_tensors=state_tensors, last=last).total for kind in kinds)
    if least >= most:
        return 0
    chosen = choose(part, alive, (most + least) / 2, Keeping.best_of, state_tensors=state_tensors, last=last)
    assert chosen is not None
    return chosen.extra_flops


def curves(
    out_dir: Path, source: str, workers: int, scale: Scale, progress: Progress | None = None
) -> tuple[dict[str, Curve], Steps]:
    """All methods with `workers` workers on one data set, trained or taken from an earlier call."""
    from ...pipeline.comparison import Bench

    tasks = [_task(source, scale, seed) for seed in range(scale.seeds)]
    units = Bench.of(replace(tasks[0], images=tasks[0].batch, test_images=2)).units()
    clock = steps(units, workers)
    horizon = clock.fill_s + scale.updates * clock.seconds["PipeDream"]
    made = {}
    for method, way in RULES.items():
        step, fill = clock.seconds[method], 0.0 if way in ("local", "data") else clock.fill_s
        fitting = scale.updates if way in ("delayed", "greedy") else math.ceil(horizon / step / scale.every) * scale.every
        rows = [_trained(out_dir, task, way, min(fitting, scale.updates), clock.cuts, workers, progress) for task in tasks]
        mean = np.mean(rows, axis=0)
        times = tuple(0.0 if i == 0 else fill + i * scale.every * step for i in range(len(mean)))
        made[method] = Curve(method, times, tuple(float(a) for a in mean), step, tuple(float(row[-1]) for row in rows))
    return made, clock


def _task(source: str, scale: Scale, seed: int) -> Task:
    from ...pipeline.comparison import Task

    small = 1 if source == "digits" else 2
    return Task(source, images=scale.images, test_images=scale.test_images, every=scale.every, seed=seed, shrink=small)


def _trained(
    out_dir: Path, task: Task, way: Way, updates: int, cuts: tuple[int, ...], workers: int, progress: Progress | None
) -> tuple[float, ...]:
    """One training, or what is kept of it; its file is named after all that it depends on."""
    used: dict[str, Any] = {**asdict(task), "way": way, "updates": updates}
    used |= {"cuts": cuts} if way in ("delayed", "greedy") else {}
    used |= {"workers": workers} if way == "data" else {}
    digest = hashlib.sha256(json.dumps(used, sort_keys=True).encode()).hexdigest()[:16]
    path = out_dir / "mcpipe-trainings" / f"{task.source}-{way}-{task.seed}-{digest}.json"
    try:
        kept = json.loads(path.read_text("utf-8"))
        if kept["of"] == json.loads(json.dumps(used)):
            return tuple(kept["accuracy"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    from ...pipeline.comparison import Bench, accuracies

    if progress is not None:
        progress(f"training {task.source}, {way}, {workers} workers, seed {task.seed}, {updates} updates")
    found = accuracies(Bench.of(task), way, updates, cuts=cuts, workers=workers)
    make_dir(path.parent)
    write_atomic(path, json.dumps({"of": used, "accuracy": found}))
    return found


def data_set(wanted: tuple[str, ...]) -> tuple[str, str | None]:
    """The first of `wanted` on this machine, and what to do to get the first of all, where that is another."""
    from ...data.source import read

    why = None
    for name in wanted:
        try:
            read(name, split="test")
        except (ScenarioError, ModuleNotFoundError) as error:
            why = why or f"{wanted[0]} is not here ({error})"
            continue
        return name, why
    return "digits", why
