"""Networks as a stranger would write them: no family of ours, some of them awkward on purpose."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Branches(nn.Module):
    """Two branches joined by concatenation, a grouped and a depthwise convolution, a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Conv2d(3, 16, 3, padding=1)
        self.right = nn.Conv2d(3, 8, 5, padding=2, bias=False)
        self.norm = nn.BatchNorm2d(24)
        self.grouped = nn.Conv2d(24, 24, 3, padding=1, groups=4)
        self.depthwise = nn.Conv2d(24, 24, 3, padding=1, groups=24)
        self.mix = nn.Conv2d(24, 24, 1)
        self.head = nn.Linear(24, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(torch.cat([self.left(x), self.right(x)], dim=1)))
        x = x + self.mix(torch.relu(self.depthwise(self.grouped(x))))
        return self.head(x.mean(dim=(2, 3)))


class Hard(nn.Module):
    """A size fixed in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.free = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8 * 8 * 8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.free(self.conv(x)).view(-1, 512))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 12)
        self.second = nn.Linear(12, 12)
        self.second.weight = self.first.weight
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.second(torch.relu(self.first(x)))))


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + 0.1 * torch.randn_like(x))


class Scaled(nn.Module):
    """A parameter that belongs to no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(12, 16)
        self.scale = nn.Parameter(torch.ones(16))
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.hidden(x)) * self.scale)


class Recurrent(nn.Module):
    """An LSTM between linear layers: it has more attributes than its tensors' shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(12, 16)
        self.memory = nn.LSTM(16, 16, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.memory(self.enter(x)[:, None])
        return self.head(states[:, -1])


WIDTHS = (8, 16)


def make_branches() -> nn.Module:
    return Branches()
