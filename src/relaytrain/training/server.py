"""What the server makes of the nodes' average: takes it (FedAvg), or a step of its own optimizer towards it.

With x the weights that the nodes began with and d = average - x,

    fedavgm     m = momentum m + d                                          x = x + server_lr m
    fedadam     m = momentum m + (1 - momentum) d
                v = beta2 v + (1 - beta2) d^2,  v = tau^2 at first          x = x + server_lr m / (sqrt(v) + tau)

Only trainable weights move so; statistics of batch norm, counters and the nodes' optimizer state are averaged. m and v
are kept in the checkpoint under the names of the weights: they follow them through pruning, like momentum does.

Paper: Hsu et al. 2019 (FedAvgM); Reddi et al. 2021, Algorithm 2 (FedAdam; no correction of the bias of m and v).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from ..models.travel import Tensors
from .checkpoint import Checkpoint
from .settings import Strategy, TrainingSettings

SERVER_LR: dict[Strategy, float] = {"fedavg": 1.0, "fedavgm": 1.0, "fedadam": 0.1}
"""Where the scenario names none."""


def server_step(
    before: Checkpoint, averaged: Checkpoint, settings: TrainingSettings, trainable: Collection[str]
) -> Checkpoint:
    """The checkpoint after an epoch whose nodes began with `before` and average to `averaged`.

    Args:
        before: with the server's state, which is empty before the first epoch.
        averaged: the same version.
        settings: strategy, rate and decays.
        trainable: names of the weights that training moves.
    """
    if settings.strategy == "fedavg":
        return averaged
    weights, server = dict(averaged.weights), Tensors()
    for name in sorted(trainable):
        old, mean = before.weights[name], averaged.weights[name]
        if not old.is_floating_point():
            continue
        step, state = _step(mean.double() - old.double(), _state(before, name), settings)
        weights[name] = (old.double() + step).to(old.dtype)
        server |= {f"{buffer}/{name}": tensor.to(old.dtype) for buffer, tensor in state.items()}
    return replace(averaged, weights=weights, server=server)


def _step(change: Tensor, state: Tensors, settings: TrainingSettings) -> tuple[Tensor, Tensors]:
    """How far the weights move, and the state after it; in float64."""
    lr = SERVER_LR[settings.strategy] if settings.server_lr is None else settings.server_lr
    decay, first = settings.server_momentum, state.get("first", torch.zeros_like(change)).double()
    if settings.strategy == "fedavgm":
        first = decay * first + change
        return lr * first, {"first": first}
    tau = settings.server_tau
    second = state.get("second", torch.full_like(change, tau**2)).double()
    first = decay * first + (1.0 - decay) * change
    second = settings.server_beta2 * second + (1.0 - settings.server_beta2) * change.square()
    return lr * first / (second.sqrt() + tau), {"first": first, "second": second}


def _state(checkpoint: Checkpoint, name: str) -> Tensors:
    """What the server keeps of a weight."""
    keys = {buffer: f"{buffer}/{name}" for buffer in ("first", "second")}
    buffers = {buffer: checkpoint.server[key] for buffer, key in keys.items() if key in checkpoint.server}
    return {buffer: tensor for buffer, tensor in buffers.items() if tensor.shape == checkpoint.weights[name].shape}
