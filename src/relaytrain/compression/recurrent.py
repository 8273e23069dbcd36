"""Recurrent layers: torch-pruning cannot narrow them, so they stay whole, and so does every layer that feeds one.

While torch-pruning looks at a network, each recurrent layer is out of its sight: what comes out of one is of a fixed
width, made of what goes in. So layers around it are coupled as they are in truth, and no channel is traced through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..data.nested import mapped, tensors

RECURRENT = (nn.RNNBase, nn.RNNCellBase)
MOST_OUTPUTS = 3
"""An LSTM gives outputs, hidden and cell state."""


class FixedWidth(nn.Module):
    """Passes a tensor on as one whose width nothing before it decides; in the graph it still comes of `inputs`."""

    width = 0

    def forward(self, made: Tensor, *inputs: Tensor) -> Tensor:
        """`made`, copied."""
        self.width = made.shape[-1]
        anchor = torch.zeros((), requires_grad=True)  # the first layer of a network has inputs without gradient
        passed: Tensor = _Passed.apply(made.detach(), anchor, *inputs)  # type: ignore[no-untyped-call]
        return passed


class _Passed(torch.autograd.Function):
    """The first tensor as it is; the others are there for the graph alone."""

    @staticmethod
    def forward(ctx: Any, made: Tensor, *_: Tensor) -> Tensor:
        return made.clone()


class FixedWidthRule:
    """What torch-pruning is told of a `FixedWidth`: how wide it is. It is to be ignored, so nothing is taken of it."""

    def prune_out_channels(self, layer: nn.Module, _indexes: Any) -> nn.Module:
        """Nothing is taken."""
        return layer

    def prune_in_channels(self, layer: nn.Module, _indexes: Any) -> nn.Module:
        """Nothing is taken; another method than the one above, since what goes in is not what comes out."""
        return layer

    def get_out_channels(self, layer: FixedWidth) -> int:
        """As wide as it was when the network ran."""
        return layer.width

    def get_in_channels(self, _layer: FixedWidth) -> None:
        """What goes in may be several tensors."""
        return

    def get_out_channel_groups(self, _layer: FixedWidth) -> int:
        """Channels lie in no groups."""
        return 1

    get_in_channel_groups = get_out_channel_groups


class _Unseen(nn.Module):
    """Stands in for a recurrent layer, which it holds where no walk over modules finds it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.held = (layer,)
        self.ends = nn.ModuleList(FixedWidth() for _ in range(MOST_OUTPUTS))

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.held[0], name)

    def forward(self, *given: Any, **named: Any) -> Any:
        inputs = [tensor for tensor in tensors((given, named)) if tensor.requires_grad]
        ends = iter(self.ends)
        return mapped(self.held[0](*given, **named), lambda t: next(ends)(t, *inputs) if t.is_floating_point() else t)


@contextmanager
def unseen(model: nn.Module) -> Iterator[list[nn.Module]]:
    """Recurrent layers of `model` are out of sight meanwhile; gives what stands for their outputs."""
    stand_ins: dict[nn.Module, _Unseen] = {}
    places = []
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, RECURRENT):
                stand_ins.setdefault(child, _Unseen(child))
                places.append((parent, name, child))
    for parent, name, child in places:
        setattr(parent, name, stand_ins[child])
    try:
        yield [end for each in stand_ins.values() for end in each.ends]
    finally:
        for parent, name, child in places:
            setattr(parent, name, child)


def recurrent_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The recurrent layers of a network by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, RECURRENT)}
