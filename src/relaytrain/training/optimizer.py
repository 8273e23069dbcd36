"""The optimizer and its state under the names of the weights, so that it can be averaged, pruned and stored."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..core.errors import ScenarioError
from .settings import TrainingSettings


def make_optimizer(model: nn.Module, settings: TrainingSettings, epoch: int) -> torch.optim.Optimizer:
    """The optimizer of `settings` over the model's trainable parameters, at the learning rate of `epoch`."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    lr, decay = settings.lr_at(epoch), settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=settings.momentum, weight_decay=decay)
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=lr, weight_decay=decay)
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=lr, weight_decay=decay)
    raise ScenarioError(f"training.optimizer: got {settings.optimizer!r}, expected sgd, adam or adamw")


def load_state(optimizer: torch.optim.Optimizer, model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Put `state` (`BUFFER/PARAMETER` -> tensor) into the optimizer; tensors are copied."""
    named = dict(model.named_parameters())
    for key, tensor in state.items():
        buffer, _, name = key.partition("/")
        parameter = named.get(name)
        if parameter is None:
            continue  # of a buffer of the model, which is not trained
        # A step counter stays on the CPU, where torch keeps it.
        place = parameter.device if tensor.ndim else torch.device("cpu")
        optimizer.state[parameter][buffer] = tensor.to(place, copy=True)


def read_state(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's tensors as `BUFFER/PARAMETER`."""
    state: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        for buffer, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                state[f"{buffer}/{name}"] = value
    return state
