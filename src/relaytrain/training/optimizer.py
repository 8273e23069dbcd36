"""The optimizer and its state under the names of the weights, so that it can be averaged, pruned and stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..core.errors import ScenarioError
from .own_training import MakeOptimizer
from .settings import TrainingSettings

NUMBER = "number:"
"""Before the name of a buffer that is a plain number and no tensor."""


def make_optimizer(
    model: nn.Module, settings: TrainingSettings, own: MakeOptimizer | None = None
) -> torch.optim.Optimizer:
    """The optimizer of `settings` over the model's trainable parameters, at the whole learning rate."""
    if own is not None:
        return own(model)
    parameters = [p for p in model.parameters() if p.requires_grad]
    lr, decay = settings.lr, settings.weight_decay
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
        value: Any = tensor.item() if buffer.startswith(NUMBER) else tensor.to(place, copy=True)
        optimizer.state[parameter][buffer.removeprefix(NUMBER)] = value


def read_state(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's tensors and numbers as `BUFFER/PARAMETER`.

    Raises:
        ScenarioError: an optimizer of the user's own keeps what is neither.
    """
    state: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        for buffer, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                state[f"{buffer}/{name}"] = value
            elif isinstance(value, int | float):
                kind = torch.float64 if isinstance(value, float) else torch.int64
                state[f"{NUMBER}{buffer}/{name}"] = torch.tensor(value, dtype=kind)
            elif value is not None:
                raise ScenarioError(
                    f"training.optimizer: {type(optimizer).__name__} keeps a {type(value).__name__} as {buffer!r}, "
                    'which no checkpoint holds; expected tensors and numbers, or optimizer_state = "reset"'
                )
    return state
