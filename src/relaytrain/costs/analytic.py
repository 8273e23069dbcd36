"""Seconds and joules from FLOPs, bytes, devices and links.

Federated epoch of version m on nodes N, each passing once over its data, then one average:

    compute_i = samples_i * flops(m) / flops_per_s_i          exchange_i = 2 * 8 * bytes(m) / bits_per_s_i
    seconds   = max_i (compute_i + exchange_i)
    joules    = sum_i busy_i * compute_i + idle_i * (seconds - compute_i) + 2 * 8 * bytes(m) * j_per_bit_i

Pipeline epoch: of the exact partition where the version's chain is known (see `pipelined`). Else an estimate: the nodes
share one copy in proportion to their speed, so compute = samples * flops / sum of speeds; activations cross every inner
boundary forth and back meanwhile, so the epoch takes the longer of the two.

A version with nested ones inside it trains these in turns with itself: flops(m) is the mean over its batches then.

Handover into (m', N'): the bytes of m' go to every node of N' (the slowest link decides, every bit is paid for);
a change of version adds the compression's own seconds and joules, unless it is a slice, up or down. What does not fit a
memory costs infinity.

Where a share of a set's nodes is drawn for every epoch, both are the expectation over all draws (see `sampled`), and
how far a draw's seconds scatter is part of the spread. The version has to fit each node, for each may be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..core.cost import CostTable
from ..core.curve import Array
from ..core.problem import Node, NodeSet, Pair, Version
from .devices import DeviceProfile
from .sampled import sampled_cost

BYTES_PER_PARAMETER = 4


@dataclass(frozen=True)
class AnalyticSettings:
    """What the model cannot read off versions and devices; a scenario's `[costs]` table.

    `weight_copies`: copies of the weights held while training (weights, gradients, momentum). `batch`: samples whose
    activations are held at once. `spread`: relative standard deviation of an epoch's seconds. `state_tensors`: tensors
    of the weights' size that the optimizer keeps, for pipelines whose chain is known.
    """

    spread: float
    batch: int
    weight_copies: float
    compress_s: float
    compress_j: float
    grow_back: bool
    state_tensors: int = 1


Members = Sequence[tuple[Node, DeviceProfile]]
"""The nodes of a set with their profiles."""


@dataclass
class _Model:
    versions: Mapping[str, Version]
    sets: Mapping[str, NodeSet]
    members: Mapping[str, Members]
    settings: AnalyticSettings
    reasons: dict[tuple[int, ...], str] = field(default_factory=dict)


def missing_for(version: Version, group: NodeSet, nodes: Mapping[str, Node]) -> str | None:
    """What an analytic cost of this pair lacks, or None when it can be modelled."""
    if version.flops_per_sample is None:
        return f"versions.{version.name}.flops_per_sample"
    if weight_bytes(version) is None:
        return f"versions.{version.name}.parameters"
    if not group.nodes:
        return f"node_sets.{group.name}.nodes"
    for name in group.nodes:
        node = nodes[name]
        if node.device is None:
            return f"nodes.{name}.device"
        if node.samples is None:
            return f"nodes.{name}.samples"
    return None


def weight_bytes(version: Version) -> int | None:
    """Bytes of the weights: as given, else four for each parameter."""
    if version.weight_bytes is not None:
        return version.weight_bytes
    return None if version.parameters is None else BYTES_PER_PARAMETER * version.parameters


def analytic_costs(
    pairs: Sequence[Pair],
    versions: Mapping[str, Version],
    sets: Mapping[str, NodeSet],
    members: Mapping[str, Members],
    settings: AnalyticSettings,
) -> CostTable:
    """The cost table of `pairs`. `members` holds each set's nodes with their profiles; pairs it lacks cost infinity."""
    model = _Model(versions, sets, members, settings)
    count = len(pairs)
    run_s, run_j = np.full(count, math.inf), np.full(count, math.inf)
    change_s, change_j = np.zeros((count, count)), np.zeros((count, count))
    spread: Array = np.full(count, settings.spread)
    for now, pair in enumerate(pairs):
        if pair.nodes not in members:
            continue
        run_s[now], run_j[now], drawn_sd = _epoch(model, now, pair)
        if drawn_sd:
            spread[now] = math.hypot(settings.spread, drawn_sd / run_s[now])
        sending = _sending(model, pair)
        for before, old in enumerate(pairs):
            if before != now:
                change_s[before, now], change_j[before, now] = _handover(model, (before, now), old, pair, sending)
    return CostTable(run_s, change_s, run_j, change_j, spread, model.reasons, "modelled")


def _epoch(model: _Model, index: int, pair: Pair) -> tuple[float, float, float]:
    """Seconds and joules, and how far the draw of nodes makes the seconds scatter."""
    version, members = model.versions[pair.version], model.members[pair.nodes]
    size, flops = weight_bytes(version), version.flops_per_sample
    if size is None or flops is None or not members:
        return math.inf, math.inf, 0.0
    group = model.sets[pair.nodes]
    pipeline = group.mode == "pipeline"
    if pipeline and version.chain is not None:
        from .pipelined import try_pipeline_epoch  # only where a pipeline is asked for: `validate` has half a second

        state_tensors = model.settings.state_tensors
        seconds, joules, reason = try_pipeline_epoch(version.chain, group, members, state_tensors=state_tensors)
        if reason is not None:
            model.reasons[index,] = f"{version.name} on {pair.nodes}: {reason}"
        return seconds, joules, 0.0
    speed = sum(device.flops_per_s for _, device in members)
    shares = [device.flops_per_s / speed if pipeline else 1.0 for _, device in members]
    held = version.fixed_bytes + size * model.settings.weight_copies
    held += model.settings.batch * (version.activation_bytes_per_sample or 0)
    for (node, device), share in zip(members, shares, strict=True):
        if held * share > device.memory_bytes:
            needs, has = _gb(held * share), _gb(device.memory_bytes)
            model.reasons[index,] = f"{version.name} needs {needs}, {node.name} of {pair.nodes} has {has}"
            return math.inf, math.inf, 0.0
    if pipeline:
        return (*_pipeline_epoch(version, group, members, flops), 0.0)
    each = {name: v.flops_per_sample or flops for name, v in model.versions.items()}
    mean = version.trained(lambda name: each[name])
    compute = [(node.samples or 0) * mean / device.flops_per_s for node, device in members]
    exchange = [2 * 8 * size / device.bits_per_s for _, device in members]
    if group.sampled < len(members):
        own = [
            (d.busy_w - d.idle_w) * c + 2 * 8 * size * d.j_per_bit for (_, d), c in zip(members, compute, strict=True)
        ]
        taken = [c + x for c, x in zip(compute, exchange, strict=True)]
        return sampled_cost(taken, own, [d.idle_w for _, d in members], group.sampled)
    seconds = max(c + x for c, x in zip(compute, exchange, strict=True))
    joules = sum(
        d.busy_w * c + d.idle_w * (seconds - c) + 2 * 8 * size * d.j_per_bit
        for (_, d), c in zip(members, compute, strict=True)
    )
    return seconds, joules, 0.0


def _pipeline_epoch(version: Version, group: NodeSet, members: Members, flops: float) -> tuple[float, float]:
    samples = sum(node.samples or 0 for node, _ in members if node.name in group.owners)
    devices = [device for _, device in members]
    compute = samples * flops / sum(d.flops_per_s for d in devices)
    boundaries = len(members) - 1
    # The bytes at a cut are not known here; an even share of all activations is the estimate, forth and back.
    bits = 2 * 8 * samples * (version.activation_bytes_per_sample or 0) / len(members) if boundaries else 0.0
    seconds = max([compute, *(bits / d.bits_per_s for d in devices)])
    joules = sum(d.busy_w * compute + d.idle_w * (seconds - compute) for d in devices)
    return seconds, joules + bits * sum(d.j_per_bit for d in devices[:boundaries])


def _sending(model: _Model, new: Pair) -> tuple[float, float]:
    """Seconds and joules of bringing a pair's version to the nodes that train; a pipeline's nodes get a share each."""
    size = weight_bytes(model.versions[new.version])
    if size is None:
        return math.inf, math.inf
    devices, group = [device for _, device in model.members[new.nodes]], model.sets[new.nodes]
    if group.sampled < len(devices):
        own = [8 * size * d.j_per_bit for d in devices]
        taken = [8 * size / d.bits_per_s for d in devices]
        return sampled_cost(taken, own, [d.idle_w for d in devices], group.sampled)[:2]
    share = 1.0 / len(devices) if group.mode == "pipeline" else 1.0
    seconds = max(8 * size * share / d.bits_per_s for d in devices)
    joules = sum(8 * size * share * d.j_per_bit + d.idle_w * seconds for d in devices)
    return seconds, joules


def _handover(
    model: _Model, key: tuple[int, int], old: Pair, new: Pair, sending: tuple[float, float]
) -> tuple[float, float]:
    new_version, old_version = model.versions[new.version], model.versions[old.version]
    size, before = weight_bytes(new_version), weight_bytes(old_version)
    if size is None:
        return math.inf, math.inf
    if new_version.is_around(old_version):
        return sending
    both_ways = model.settings.grow_back or (new_version.rank and old_version.rank)
    if before is not None and size > before and not both_ways:
        model.reasons[key] = (
            f"{new.version} is larger than {old.version}: going back needs costs.grow_back = true, "
            "or a [[changes]] entry with seconds and energy"
        )
        return math.inf, math.inf
    seconds, joules = sending
    if old.version != new.version:
        seconds, joules = seconds + model.settings.compress_s, joules + model.settings.compress_j
    return seconds, joules


def _gb(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"
