"""A table and a network that predicts a number from it; nothing of RelayTrain in here.

Eight columns describe a house, one number is its price. The office knows many houses, two branches know some of their
own quarter. The table is made up, so that the example needs no download.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

COLUMNS = 8
SIZES = {"train": 1600, "test": 400}


class Houses(Dataset[tuple[Tensor, Tensor]]):
    """Rows of a table: (columns, price), the price a float."""

    def __init__(self, which: str, count: int) -> None:
        draws = torch.Generator().manual_seed(sorted(SIZES).index(which))
        self.rows = torch.randn(count, COLUMNS, generator=draws)
        size, rooms, age, *_ = self.rows.T
        noise = 0.1 * torch.randn(count, generator=draws)
        self.prices = size + 0.5 * rooms * size.sign() - 0.6 * torch.sin(2 * age) + noise

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.rows[index], self.prices[index]


def houses(which: str) -> Houses:
    """The table of "train" or "test"."""
    return Houses(which, SIZES[which])


def network() -> nn.Module:
    """Three layers; its output is one number a row."""
    return nn.Sequential(
        nn.Linear(COLUMNS, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1), nn.Flatten(0)
    )
