"""A package of a stranger: a network and data of its own, nothing of RelayTrain in it.

Three kinds of waves, written as images of one row, to be told apart. The laboratory has many of them, but sensors in
the field hear them fainter and off centre, and it is there that the network has to work. What RelayTrain asks for is
two functions: one that makes the network, one that gives (images, labels) by who holds them.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

LENGTH, KINDS = 32, 3


class WaveNet(nn.Module):
    """Two convolutions along the wave with a residual sum between them, then one layer that decides."""

    def __init__(self, channels: int = 24) -> None:
        super().__init__()
        self.lift = nn.Conv2d(1, channels, (1, 5), padding=(0, 2))
        self.norm = nn.BatchNorm2d(channels)
        self.refine = nn.Conv2d(channels, channels, (1, 5), padding=(0, 2))
        self.decide = nn.Linear(channels, KINDS)

    def forward(self, waves: Tensor) -> Tensor:
        """Scores (batch, kinds) of waves (batch, 1, 1, length)."""
        seen = torch.relu(self.norm(self.lift(waves)))
        seen = seen + torch.relu(self.refine(seen))
        return self.decide(seen.mean(dim=(2, 3)))


def network() -> nn.Module:
    """The network, untrained."""
    return WaveNet()


def waves() -> dict[str, tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """600 waves of the laboratory, 240 heard in the field, and what is judged by: 200 and 300 more of the field."""
    counts = {"lab": 600, "field": 240, "validation": 200, "test": 300}
    return {place: _heard(place, count, seed) for seed, (place, count) in enumerate(counts.items())}


def _heard(place: str, count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Sine, square and saw-tooth waves of random pitch and phase, in noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, KINDS, count)
    turns = rng.uniform(1.5, 3.0, (count, 1)) * np.linspace(0, 1, LENGTH) + rng.uniform(0, 1, (count, 1))
    shapes = np.stack([np.sin(2 * np.pi * turns), np.sign(np.sin(2 * np.pi * turns)), 2 * (turns % 1) - 1])
    gain, offset, noise = (1.0, 0.0, 0.3) if place == "lab" else (0.6, 0.4, 0.2)
    chosen = gain * shapes[labels, np.arange(count)] + offset + noise * rng.standard_normal((count, LENGTH))
    return chosen[:, None, None, :].astype(np.float32), labels.astype(np.int64)
