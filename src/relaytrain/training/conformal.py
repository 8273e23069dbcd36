"""Split-conformal prediction sets of a trained classifier: how often they hold the truth, how large they are.

Half of the test set calibrates: the score of an image is 1 - p(its class), and the sets of the other half hold all
classes whose score is at most the ceil((n + 1) level) / n quantile of those. Whatever the network is worth, the truth
is in a set with probability `level`; a better network has smaller sets.

Paper: DepL sections I and VII point to conformal sets and claim that dependable training makes them smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..data.held import InMemory

LEVEL = 0.9
LEAST = 10
"""Images in either half below which nothing is said: nine have no finite 0.9 quantile of a tenth score."""


@dataclass(frozen=True)
class PredictionSets:
    """`coverage`: share of sets that hold the truth; `mean_size`: classes in a set; counts of both halves."""

    level: float
    coverage: float
    mean_size: float
    calibrated_on: int
    judged_on: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dict(vars(self))


def prediction_sets(
    model: nn.Module, held: InMemory, *, level: float = LEVEL, seed: int = 0, batch: int = 256
) -> PredictionSets | None:
    """Sets of `model` on a test set, halved at random by `seed`; None for a set too small to say anything."""
    was = model.training
    model.eval()
    try:
        with torch.no_grad():
            parts = [
                torch.softmax(model(held.images[i : i + batch]).double(), 1) for i in range(0, len(held.labels), batch)
            ]
    finally:
        model.train(was)
    return conformal(torch.cat(parts).cpu().numpy(), held.labels.cpu().numpy(), level=level, seed=seed)


def conformal(
    probabilities: NDArray[np.float64], labels: NDArray[np.int64], *, level: float = LEVEL, seed: int = 0
) -> PredictionSets | None:
    """Sets from class probabilities (n, classes) and labels (n,)."""
    order = np.random.default_rng(seed).permutation(len(labels))
    half = len(order) // 2
    calibrating, judged = order[:half], order[half:]
    if min(len(calibrating), len(judged)) < LEAST:
        return None
    scores = np.sort(1.0 - probabilities[calibrating, labels[calibrating]])
    rank = math.ceil((half + 1) * level)
    limit = float(scores[rank - 1]) if rank <= half else math.inf
    inside = 1.0 - probabilities[judged] <= limit + 1e-12
    held = inside[np.arange(len(judged)), labels[judged]]
    return PredictionSets(level, float(held.mean()), float(inside.sum(axis=1).mean()), half, len(judged))
