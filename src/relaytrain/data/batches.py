"""The order in which a pass takes its samples: torch's random state decides, so a seed gives the same bits."""

from __future__ import annotations

import torch
from torch import Tensor


def batches(count: int, size: int) -> list[Tensor]:
    """Positions 0 to count - 1 in torch's random order, in batches of `size`."""
    return in_batches(torch.randperm(count), size)


def in_batches(rows: Tensor, size: int) -> list[Tensor]:
    """Rows as they follow each other, in batches of `size`; a lone last one joins its neighbour."""
    parts = list(torch.split(rows, size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts
