"""Who gets which units: an exact dynamic program over cuts, choosing split and policies together.

`best[s][j]` is the least time of the slowest part when the first s stages take the first j units::

    best[s][j] = min over i of max(best[s-1][i], link into i, time of units i..j-1 on device s)

where the time of a stage includes the replays that its memory cap forces on it (see `policy_choice`). A cap makes some
stages impossible; speeds and caps differ by device, and devices keep their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from ...core.errors import InfeasibleError, UsageError
from .chain import Policy, Unit
from .policy_choice import Keeping, PolicyChoice, choose, within_stage
from .schedules import Window
from .version_lifetimes import steady_peaks


@dataclass(frozen=True)
class Device:
    """What runs one stage: FLOPs a second, bytes of memory for training, bytes a second to the next device."""

    name: str
    flops_per_s: float
    memory_bytes: float = math.inf
    link_bytes_per_s: float = math.inf

    def __post_init__(self) -> None:
        for key, value in (("flops", self.flops_per_s), ("memory", self.memory_bytes), ("link", self.link_bytes_per_s)):
            if not value > 0:
                raise UsageError(f"device {self.name}: {key}: got {value:g}, expected more than 0")


@dataclass(frozen=True)
class StagePlan:
    """One stage: the units from `first` to before `end`, and what they cost a minibatch."""

    device: str
    first: int
    end: int
    choice: PolicyChoice
    compute_s: float
    link_s: float

    @property
    def policies(self) -> dict[str, Policy]:
        """The policies by the layers' names in `nn.Sequential(*units[first:end])`, as `Stage` wants them."""
        return within_stage(self.choice.policies, self.first)


@dataclass(frozen=True)
class PipelinePlan:
    """The split. `step_s` is the slowest of stages and links; `speedup` is over the fastest device alone, unlimited."""

    stages: tuple[StagePlan, ...]
    step_s: float
    alone_s: float
    window: Window
    m: int

    @property
    def speedup(self) -> float:
        """Minibatches a second against one device."""
        return self.alone_s / self.step_s

    @property
    def cuts(self) -> tuple[int, ...]:
        """Where the stages end, but for the last."""
        return tuple(stage.end for stage in self.stages[:-1])

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        rows = []
        for s in self.stages:
            size = s.choice.size
            rows.append(
                {
                    "device": s.device,
                    "first": s.first,
                    "end": s.end,
                    "compute_s": s.compute_s,
                    "link_s": s.link_s,
                    "weights_bytes": size.weights,
                    "versions_bytes": size.versions,
                    "optimizer_bytes": size.optimizer,
                    "in_flight_bytes": size.in_flight,
                    "transient_bytes": size.transient,
                    "total_bytes": size.total,
                    "checkpoint": s.choice.checkpoint,
                    "policies": {name: policy.value for name, policy in s.choice.policies.items()},
                }
            )
        head = {"schema": "relaytrain.pipeline-plan/1", "step_s": self.step_s, "speedup": self.speedup}
        return {**head, "window": self.window.value, "m": self.m, "stages": rows}


def partition(
    units: Sequence[Unit],
    devices: Sequence[Device],
    *,
    m: int,
    window: Window = Window.one_f_one_b,
    keeping: Keeping = Keeping.best_of,
    state_tensors: int = 0,
    checkpoint: bool = False,
) -> PipelinePlan:
    """The split with the shortest step over all `devices` in their order; `checkpoint` allows activations twice.

    Raises:
        UsageError: fewer units than devices.
        InfeasibleError: no split fits the memory of the devices.
    """
    count, stages = len(units), len(devices)
    if not 1 <= stages <= count:
        raise UsageError(f"devices: got {stages}, expected 1 to {count}, one unit each at least")
    alive = steady_peaks(stages, m, window)
    choosing = partial(choose, keeping=keeping, state_tensors=state_tensors, checkpoint=checkpoint)
    best: list[tuple[float, tuple[StagePlan, ...]] | None] = [(0.0, ())] + [None] * count
    for index, device in enumerate(devices):
        last = index == stages - 1
        after: list[tuple[float, tuple[StagePlan, ...]] | None] = [None] * (count + 1)
        for end in range(index + 1, count - (stages - 1 - index) + 1) if not last else (count,):
            for first in range(index, end):
                before = best[first]
                now = after[end]
                if before is None or (now is not None and before[0] >= now[0]):
                    continue
                choice = choosing(units[first:end], alive[index], device.memory_bytes, last=last)
                if choice is None:
                    continue
                stage = _stage(units, first, end, device, choice)
                slowest = max(before[0], stage.compute_s, stage.link_s)
                if now is None or slowest < now[0]:
                    after[end] = (slowest, (*before[1], stage))
        best = after
    fastest = best[count]
    if fastest is None:
        caps = ", ".join(f"{d.name} {d.memory_bytes / 2**20:.4g} MiB" for d in devices)
        raise InfeasibleError(
            f"memory: no split of {count} units fits {caps} with {keeping.value}; give more memory or devices"
        )
    alone = sum(unit.train_flops for unit in units) / max(device.flops_per_s for device in devices)
    return PipelinePlan(fastest[1], fastest[0], alone, window, m)


def _stage(units: Sequence[Unit], first: int, end: int, device: Device, choice: PolicyChoice) -> StagePlan:
    part = units[first:end]
    compute_s = (sum(unit.train_flops for unit in part) + choice.extra_flops) / device.flops_per_s
    link_s = 0.0 if end == len(units) else 2 * part[-1].output[1] / device.link_bytes_per_s
    return StagePlan(device.name, first, end, choice, compute_s, link_s)


def split(items: Sequence[Any], cuts: Sequence[int]) -> list[Any]:
    """`items` between the cuts."""
    return [items[a:b] for a, b in pairwise((0, *cuts, len(items)))]
