"""A user's network for adapters: a residual layer to adapt, a head to train."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 32)
        self.mix = nn.Linear(32, 32)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.body(x.flatten(1)))
        return self.head(x + torch.relu(self.mix(x)))


def make() -> nn.Module:
    return Net()


def make_other() -> nn.Module:
    """The same network after somebody trained it on."""
    net = Net()
    with torch.no_grad():
        net.mix.bias += 1e-3
    return net
