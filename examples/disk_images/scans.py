"""Images that never fit in memory as a whole; nothing of RelayTrain in here.

One file holds raw images one after the other. A `Dataset` reads each when it is asked for, turns and brightens it at
random, and forgets it: what is in memory is a batch, however large the file is.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

SIDE, KINDS = 24, 3
FOLDER = Path(os.environ.get("SCANS_FOLDER", "scans"))
COUNTS = {"train": int(os.environ.get("SCANS_COUNT", "900")), "test": 240}


def write(folder: Path, which: str, count: int, block: int = 500) -> Path:
    """Make up `count` images of discs, bars and crosses in noise, a block at a time."""
    file = folder / f"{which}-{count}.raw"
    if file.exists():
        return file
    folder.mkdir(parents=True, exist_ok=True)
    draws = np.random.default_rng(sorted(COUNTS).index(which))
    down, across = np.mgrid[0:SIDE, 0:SIDE]
    with file.with_suffix(".part").open("wb") as out:
        for begin in range(0, count, block):
            kinds = np.arange(begin, min(begin + block, count)) % KINDS
            y, x = draws.uniform(8, 16, (2, len(kinds), 1, 1))
            near, level, plumb = np.hypot(down - y, across - x) < 5, abs(down - y) < 2, abs(across - x) < 2
            shapes = np.stack([near, level, level | plumb])[kinds, np.arange(len(kinds))]
            noise = draws.normal(60, 30, shapes.shape)
            out.write((noise + 90 * shapes).clip(0, 255).astype(np.uint8).tobytes())
    return file.with_suffix(".part").rename(file)


class Scans(Dataset[tuple[Tensor, int]]):
    """(image, kind), read from disk one by one."""

    def __init__(self, file: Path, augment: bool) -> None:
        self.file, self.augment = file, augment
        self.count = file.stat().st_size // SIDE**2
        self.targets = np.arange(self.count) % KINDS
        self._open = os.open(file, os.O_RDONLY)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        pixels = os.pread(self._open, SIDE**2, index * SIDE**2)
        image = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(1, SIDE, SIDE) / 255
        if self.augment:
            image = image.flip(2) if torch.rand(()) < 0.5 else image
            image = image * np.random.uniform(0.8, 1.2)
        return image.float(), int(self.targets[index])


def scans(which: str) -> Scans:
    """The images of "train" or "test", made up when they are asked for first."""
    return Scans(write(FOLDER, which, COUNTS[which]), augment=which == "train")


def network() -> nn.Module:
    """Two convolutions and a decision."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12), nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, KINDS),
    )  # fmt: skip
