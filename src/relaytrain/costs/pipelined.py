"""Seconds, joules and memory of an epoch on a pipeline node set, from the partition that it would run with.

The version's chain is split over the nodes in their order, exactly (see `planners.pipeline.partition`): memories are
caps, speeds and links are those of the devices. With `step` the slowest stage or link and n minibatches,

    seconds = (n - 1) step + sum over stages of (compute + link)          the first minibatch fills the pipeline
    joules  = sum over nodes of busy * n compute + idle * (seconds - n compute) + bits sent * joules per bit

Pooled data (`share_data`) reach the first node over its owners' links while the pipeline works: the slowest of these is
a link like the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.errors import InfeasibleError, UsageError
from ..core.problem import Chain, Node, NodeSet
from ..planners.pipeline.chain import of_chain
from ..planners.pipeline.partition import Device, PipelinePlan, partition
from ..planners.pipeline.policy_choice import Keeping
from .devices import DeviceProfile
from .profiled import minibatches


@dataclass(frozen=True)
class PipelineEpoch:
    """One epoch, and the split it was reckoned with."""

    seconds: float
    joules: float
    minibatches: int
    plan: PipelinePlan


def stage_devices(members: Sequence[tuple[Node, DeviceProfile]]) -> list[Device]:
    """The nodes of a set as the devices of its stages, in order."""
    return [Device(node.name, d.flops_per_s, d.memory_bytes, d.bits_per_s / 8) for node, d in members]


def pipeline_epoch(
    chain: Chain, group: NodeSet, members: Sequence[tuple[Node, DeviceProfile]], *, state_tensors: int
) -> PipelineEpoch:
    """The epoch of `chain` on `group`, whose nodes are `members`.

    Raises:
        InfeasibleError: no split fits the memories; UsageError: more nodes than units.
    """
    way = group.pipeline
    if len(members) > len(chain.weight_bytes):
        raise UsageError(f"{len(members)} nodes, but only {len(chain.weight_bytes)} units to share")
    units, m, keeping = of_chain(chain), way.in_flight or len(members), Keeping(way.keep)
    plan = partition(
        units, stage_devices(members), m=m, keeping=keeping, state_tensors=state_tensors, checkpoint=way.checkpoint
    )
    owners = [(node, device) for node, device in members if node.name in group.owners]
    samples = sum(node.samples or 0 for node, _ in owners)
    count = max(1, minibatches(samples, chain.batch))
    foreign = [(node.samples or 0, device) for node, device in owners if node.name != members[0][0].name]
    input_bytes = chain.input_bytes / chain.batch
    input_s = max((n * input_bytes * 8 / d.bits_per_s for n, d in foreign), default=0.0)
    latency = sum(stage.compute_s + stage.link_s for stage in plan.stages)
    seconds = max(latency + (count - 1) * plan.step_s, input_s)
    joules = sum(n * input_bytes * 8 * d.j_per_bit for n, d in foreign)
    for stage, (_, device) in zip(plan.stages, members, strict=True):
        busy = count * stage.compute_s
        last = stage.end == len(units)
        bits = 0.0 if last else 8.0 * 2 * count * units[stage.end - 1].output[1]
        joules += device.busy_w * busy + device.idle_w * max(0.0, seconds - busy) + bits * device.j_per_bit
    return PipelineEpoch(seconds, joules, count, plan)


def try_pipeline_epoch(
    chain: Chain, group: NodeSet, members: Sequence[tuple[Node, DeviceProfile]], *, state_tensors: int
) -> tuple[float, float, str | None]:
    """Seconds and joules, or infinity twice and the reason."""
    try:
        epoch = pipeline_epoch(chain, group, members, state_tensors=state_tensors)
    except (InfeasibleError, UsageError) as error:
        return math.inf, math.inf, str(error)
    return epoch.seconds, epoch.joules, None
