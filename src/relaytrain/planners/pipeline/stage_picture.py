"""A planned pipeline as text: each stage's memory as a bar against its cap, and the first slots of the schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .partition import Device, PipelinePlan
from .schedules import async_1f1b
from .stage_memory import StageBytes

BAR = 48
PARTS = (("W", "weights"), ("V", "versions"), ("O", "optimizer"), ("A", "in_flight"), ("T", "transient"))


def picture(plan: PipelinePlan, devices: Sequence[Device]) -> str:
    """One line a stage, what the letters mean, one line of the schedule a stage."""
    caps = {device.name: device.memory_bytes for device in devices}
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
