"""A named network on named devices: its split under each way of keeping versions, and the stages as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from ..core.errors import InfeasibleError, UsageError
from ..planners.pipeline.chain import Unit
from ..planners.pipeline.partition import Device, PipelinePlan, partition
from ..planners.pipeline.policy_choice import Keeping
from ..planners.pipeline.schedules import Window, async_1f1b
from ..planners.pipeline.stage_memory import StageBytes
from .networks import chain, network
from .unit_counter import measure

STATE_TENSORS = {"sgd": 0, "momentum": 1, "adam": 2}
"""Tensors of the weights' size that an optimizer keeps."""
BAR = 48
PARTS = (("W", "weights"), ("V", "versions"), ("O", "optimizer"), ("A", "in_flight"), ("T", "transient"))


@dataclass(frozen=True)
class Planned:
    """The plan asked for, and what each way of keeping versions would reach; None where nothing fits."""

    network: str
    units: tuple[Unit, ...]
    devices: tuple[Device, ...]
    plan: PipelinePlan
    others: dict[Keeping, PipelinePlan | None]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        ways = {
            k.value: None if p is None else {"step_s": p.step_s, "speedup": p.speedup} for k, p in self.others.items()
        }
        units = [
            {"name": u.name, "weight_bytes": u.weight_bytes, "train_flops": u.train_flops, "output_bytes": u.output[1]}
            for u in self.units
        ]
        return {**self.plan.to_dict(), "network": self.network, "keeping": ways, "units": units}


def plan_network(
    name: str,
    devices: Sequence[Device],
    *,
    width: float = 1.0,
    input: tuple[int, int, int] = (3, 32, 32),
    classes: int = 10,
    batch: int = 8,
    m: int | None = None,
    window: Window = Window.one_f_one_b,
    keeping: Keeping = Keeping.best_of,
    optimizer: str = "sgd",
    checkpoint: bool = False,
) -> Planned:
    """Split `name` over `devices`; `m` is the number of devices unless given, `checkpoint` allows activations twice.

    Raises:
        UsageError: an argument is out of range.
        InfeasibleError: `keeping` fits no split into the devices' memory.
    """
    for key, value in (("batch", batch), ("m", 1 if m is None else m)):
        if value < 1:
            raise UsageError(f"{key}: got {value}, expected at least 1")
    if optimizer not in STATE_TENSORS:
        raise UsageError(f"optimizer: got {optimizer[:40]!r}, expected one of {', '.join(STATE_TENSORS)}")
    modules = chain(network(name, width=width, input=input, classes=classes))
    labels = torch.empty(batch, dtype=torch.long, device="meta")
    units = measure(modules, torch.empty(batch, *input, device="meta"), F.cross_entropy, labels)
    found: dict[Keeping, PipelinePlan | None] = {}
    failure: InfeasibleError | None = None
    for way in Keeping:
        try:
            found[way] = partition(
                units, devices, m=m or len(devices), window=window, keeping=way,
                state_tensors=STATE_TENSORS[optimizer], checkpoint=checkpoint,
            )  # fmt: skip
        except InfeasibleError as error:
            found[way] = None
            failure = error if way is keeping else failure
    plan = found[keeping]
    if plan is None:
        fits = [way.value for way, other in found.items() if other is not None]
        raise InfeasibleError(f"{failure}" + (f"; what fits: {', '.join(fits)}" if fits else ""))
    return Planned(name, units, tuple(devices), plan, found)


def picture(planned: Planned) -> str:
    """Each stage's memory as a bar against its cap, and the first slots of the schedule."""
    plan = planned.plan
    caps = {device.name: device.memory_bytes for device in planned.devices}
    largest = max(stage.choice.size.total for stage in plan.stages)
    wide = max(len(stage.device) for stage in plan.stages)
    lines = []
    for stage in plan.stages:
        cap = caps[stage.device]
        lines.append(f"{stage.device:<{wide}} |{_bar(stage.choice.size, cap if math.isfinite(cap) else largest)}|")
    legend = "W weights  V versions  O optimizer  A in flight  T transient  . free"
    grid = async_1f1b(len(plan.stages), 2 * plan.m, plan.m, plan.window).draw()
    return "\n".join([*lines, legend, "", grid])


def _bar(size: StageBytes, full: float) -> str:
    """Cumulative rounding, so that the parts together are as long as the whole."""
    text, total = "", 0
    for letter, part in PARTS:
        total += getattr(size, part)
        text += letter * (round(BAR * total / full) - len(text))
    return f"{text:.<{BAR}}"
