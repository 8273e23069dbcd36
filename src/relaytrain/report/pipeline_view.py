"""A pipeline for a page: who takes which layers, the schedule as a grid, and each stage's memory against its cap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import InfeasibleError, UsageError
from ..core.explain import say_time
from ..costs.devices import DeviceProfile, load_devices
from ..costs.pipelined import pipeline_epoch, stage_devices
from ..planners.pipeline.partition import Device, PipelinePlan
from ..planners.pipeline.schedules import async_1f1b
from ..planners.pipeline.stage_picture import PARTS
from ..scenario.model import Scenario
from .canvas import FAINT, INK, MUTED, PALETTE, PAPER, AxisScale, Canvas, text_width

WIDTH, LEFT = 960.0, 120.0
CELL_H = 26.0
MOST_SLOTS = 64
MIB = 2**20
NAMES = {"versions": "weight versions", "in_flight": "in flight"}


@dataclass(frozen=True)
class PipelineView:
    """A version split over the nodes of a set; `reason` says why it cannot be, and there is no plan then."""

    title: str
    plan: PipelinePlan | None
    devices: tuple[Device, ...]
    epoch: tuple[float, float] | None = None
    reason: str = ""


def pipelines_of(scenario: Scenario) -> list[PipelineView]:
    """Every version with a known chain on every pipeline node set of a scenario."""
    problem = scenario.problem
    own = scenario.resolved.get("devices") or {}
    profiles = load_devices() | {name: DeviceProfile(name, **_figures(row)) for name, row in own.items()}
    nodes = {node.name: node for node in problem.nodes}
    versions = {version.name: version for version in problem.versions}
    views = []
    for group in problem.node_sets:
        members = [(nodes[name], profiles.get(nodes[name].device or "")) for name in group.nodes if name in nodes]
        known = [(node, profile) for node, profile in members if profile is not None]
        if group.mode != "pipeline" or len(known) != len(group.nodes):
            continue
        for pair in problem.pairs:
            chain = versions[pair.version].chain if pair.version in versions else None
            if pair.nodes != group.name or chain is None:
                continue
            devices = tuple(stage_devices(known))
            try:
                epoch = pipeline_epoch(chain, group, known, state_tensors=_state_tensors(scenario))
            except (InfeasibleError, UsageError) as error:
                views.append(PipelineView(str(pair), None, devices, reason=str(error)))
            else:
                views.append(PipelineView(str(pair), epoch.plan, devices, (epoch.seconds, epoch.joules)))
    return views


def stage_rows(plan: PipelinePlan, say: Callable[[float], str]) -> list[dict[str, Any]]:
    """One row a stage; `say` words its bytes."""
    rows = []
    for stage in plan.stages:
        size = stage.choice.size
        held = (size.weights, size.versions, size.optimizer, size.in_flight, size.transient, size.total)
        demanded = sum(policy.value == "on-demand" for policy in stage.choice.policies.values())
        rows.append(
            {
                "device": stage.device,
                "units": f"{stage.first}–{stage.end - 1}",
                "compute": say_time(stage.compute_s),
                "link": say_time(stage.link_s),
                "sizes": [say(count) for count in held],
                "policies": f"{demanded} of {len(stage.choice.policies)} layers"
                + (", activations twice" if stage.choice.checkpoint else ""),
            }
        )
    return rows


def say_bytes(count: float) -> str:
    """Bytes with a prefix."""
    if not math.isfinite(count):
        return "no cap"
    for size, name in ((2**30, "GiB"), (MIB, "MiB"), (2**10, "KiB")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:.0f} B"


def memory_svg(plan: PipelinePlan, devices: Sequence[Device]) -> str:
    """Each stage's bytes part by part, against what its device has."""
    caps = {device.name: device.memory_bytes for device in devices}
    full = max([stage.choice.size.total for stage in plan.stages] + [c for c in caps.values() if math.isfinite(c)])
    canvas = Canvas(WIDTH, 46 + 34 * len(plan.stages) + 34, "Memory of each stage against its device's")
    x = AxisScale(0.0, full * 1.08, LEFT, WIDTH - 120)
    left = LEFT
    for index, (_, part) in enumerate(PARTS):
        words = NAMES.get(part, part)
        canvas.rect(left, 10, 12, 12, fill=PALETTE[index])
        canvas.text((left + 17, 20), words, size=11.5)
        left += text_width(words, 11.5) + 38
    for row, stage in enumerate(plan.stages):
        top, size, begun = 38 + 34 * row, stage.choice.size, 0
        canvas.text((LEFT - 10, top + 17), stage.device[:18], anchor="end")
        for index, (_, part) in enumerate(PARTS):
            count = getattr(size, part)
            canvas.rect(
                x(begun),
                top,
                x(begun + count) - x(begun),
                24,
                fill=PALETTE[index],
                tip=f"{stage.device}: {NAMES.get(part, part)} {say_bytes(count)}",
            )
            begun += count
        canvas.text((x(begun) + 6, top + 16), say_bytes(size.total), size=11, bold=True, halo=True)
        cap = caps[stage.device]
        if math.isfinite(cap):
            canvas.line((x(cap), top - 3), (x(cap), top + 27), stroke=INK, width=2)
            if row == 0:
                canvas.text((x(cap), top - 8), "cap", size=11, fill=MUTED, anchor="middle")
    return canvas.svg()


def schedule_svg(plan: PipelinePlan) -> str:
    """The first slots of the schedule: a row a stage, forwards light, backwards with their update dark."""
    schedule = async_1f1b(len(plan.stages), 2 * plan.m + 2, plan.m, plan.window)
    slots = min(schedule.slots, MOST_SLOTS)
    canvas = Canvas(WIDTH, 34 + (CELL_H + 6) * len(plan.stages) + 26, "The schedule, slot by slot")
    x = AxisScale(0.0, slots, LEFT, WIDTH - 16)
    for row, (placed_row, stage) in enumerate(zip(schedule.rows, plan.stages, strict=True)):
        top = 30 + (CELL_H + 6) * row
        canvas.text((LEFT - 10, top + 17), stage.device[:18], anchor="end")
        canvas.rect(LEFT, top, WIDTH - 16 - LEFT, CELL_H, fill=FAINT, opacity=0.35)
        for placed in placed_row:
            if placed.start >= slots:
                continue
            forward = placed.action.kind.value == "F"
            wide = x(min(placed.start + placed.length, slots)) - x(placed.start) - 1.5
            name = f"{placed.action.kind.value}{placed.action.index}"
            fill = PALETTE[placed.action.index % len(PALETTE)]
            what = "forward" if forward else "backward and update"
            canvas.rect(
                x(placed.start),
                top,
                wide,
                CELL_H,
                fill=fill,
                opacity=0.55 if forward else 1.0,
                tip=f"{stage.device}, slot {placed.start}: {what} of minibatch {placed.action.index}",
            )
            if text_width(name, 11) + 2 <= wide:
                ink = INK if forward else PAPER
                canvas.text((x(placed.start) + wide / 2, top + 17), name, size=11, fill=ink, anchor="middle", bold=True)
    canvas.text(
        (LEFT, 18), "F forward of a minibatch, B its backward with the update; a colour a minibatch", fill=MUTED
    )
    canvas.text(
        (LEFT, 30 + (CELL_H + 6) * len(plan.stages) + 18),
        f"slots 0 to {slots - 1} of the schedule",
        fill=MUTED,
        size=11,
    )
    return canvas.svg()


def _figures(row: Any) -> dict[str, Any]:
    return {key: value for key, value in dict(row).items() if key != "name" and value is not None}


def _state_tensors(scenario: Scenario) -> int:
    """Tensors of the weights' size that the optimizer keeps."""
    training = scenario.training
    if not training:
        return 1
    return (1 if training.get("momentum") else 0) if training.get("optimizer") == "sgd" else 2
