"""FedAvg: one average of the nodes' weights and optimizer state, weighted by samples, ordered by node id.

Updates are checked before they count: names, shapes, kinds, finite values, and a norm that is not absurd.

Paper: PACT section II (an epoch ends with one average); McMahan et al. 2017, FedAvg.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.errors import RelayTrainError
from .checkpoint import Checkpoint
from .task import NodeResult

MOST_GROWTH = 1e3
"""An update with a value beyond so many times the largest one before (plus one) is refused: its norm is absurd."""
NOT_FINITE, EXPLODED = "non-finite", "weights grew"
"""Beginnings of the reasons that speak of training gone wild rather than of a node that cannot be trusted."""


Updates = dict[str, tuple[int, Checkpoint]]
"""By node: its samples and its weights."""


def open_updates(results: Sequence[NodeResult], global_checkpoint: Checkpoint) -> tuple[Updates, dict[str, str]]:
    """The updates that pass the checks, and for the other nodes why not."""
    accepted: Updates = {}
    refused: dict[str, str] = {}
    for result in sorted(results, key=lambda result: result.node):
        update = open_update(result, global_checkpoint)
        if isinstance(update, str):
            refused[result.node] = update
        else:
            accepted[result.node] = (result.samples, update)
    return accepted, refused


def average(updates: Updates, global_checkpoint: Checkpoint) -> Checkpoint:
    """The sample-weighted mean of checked updates.

    Sums are made in float64 in the order of node names, so the bits do not depend on who answered first; whole
    numbers (such as batch norm's counter of batches) take the largest.
    """
    ordered = [updates[node] for node in sorted(updates)]
    weights = _mean([(samples, update.weights) for samples, update in ordered])
    optimizer = _mean([(samples, update.optimizer) for samples, update in ordered])
    return Checkpoint(global_checkpoint.spec, weights, optimizer, global_checkpoint.version)


def open_update(result: NodeResult, global_checkpoint: Checkpoint) -> Checkpoint | str:
    """The update in a result, or why it does not count."""
    if result.error is not None or result.checkpoint is None:
        return result.error or "no weights"
    if result.samples < 1:
        return f"{result.samples} samples, expected at least one"
    try:
        update = Checkpoint.opened(result.checkpoint, where=f"update of {result.node}")
    except RelayTrainError as error:
        return str(error)
    return check_update(update, global_checkpoint) or update


def check_update(update: Checkpoint, before: Checkpoint) -> str | None:
    """Why `update` cannot be a step from `before`, or None when it can."""
    if update.spec != before.spec:
        return "weights of another version"
    for name, tensor in update.weights.items():
        old = before.weights[name]
        if tensor.dtype != old.dtype or tensor.shape != old.shape:
            return f"{name} is {tensor.dtype} {list(tensor.shape)}, expected {old.dtype} {list(old.shape)}"
    largest = {name: _largest(tensor) for name, tensor in update.weights.items()}
    state = {f"the optimizer's {name}": _largest(tensor) for name, tensor in update.optimizer.items()}
    for name, value in {**largest, **state}.items():
        if not math.isfinite(value):
            return f"{NOT_FINITE} values in {name}"
    bound = MOST_GROWTH * (max((_largest(tensor) for tensor in before.weights.values()), default=0.0) + 1.0)
    name, value = max(largest.items(), key=lambda item: item[1])
    if value > bound:
        return f"{EXPLODED} to {value:.3g} in {name}, more than {MOST_GROWTH:g} times the largest before"
    return None


def _largest(tensor: Tensor) -> float:
    """The largest absolute value, NaN or infinity when there is one; one pass, nothing allocated. Counters are 0."""
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return 0.0
    low, high = (float(end) for end in torch.aminmax(tensor))
    return low if math.isnan(low) else max(abs(low), abs(high))


def _mean(parts: list[tuple[int, dict[str, Tensor]]]) -> dict[str, Tensor]:
    names = set(parts[0][1])
    if any(set(tensors) != names for _, tensors in parts):
        names = set.intersection(*(set(tensors) for _, tensors in parts))
    if len(parts) == 1:
        return {name: tensor for name, tensor in parts[0][1].items() if name in names}
    count = sum(samples for samples, _ in parts)
    mean: dict[str, Tensor] = {}
    for name in sorted(names):
        first = parts[0][1][name]
        if not first.is_floating_point():
            mean[name] = torch.stack([tensors[name] for _, tensors in parts]).amax(dim=0)
            continue
        total = torch.zeros(first.shape, dtype=torch.float64)
        for samples, tensors in parts:
            total.add_(tensors[name], alpha=samples / count)
        mean[name] = total.to(first.dtype)
    return mean
