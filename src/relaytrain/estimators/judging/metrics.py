"""How good a forecast was: error, width, coverage, the upper side, and Winkler's score that weighs them together.

PACT section VI-A: MAE, mean interval length (MIL) and interval coverage percentage (ICP) of the 90 % interval.
Winkler's score of an interval is its width plus 20 times what a value lies outside it (2 / alpha with alpha = 0.1): the
one figure that neither too wide nor too narrow intervals can win. Windows of one seed are not independent, so every
interval of doubt here draws whole seeds (cluster bootstrap).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ..bands import ALPHA, Bands

DRAWS = 1000


@dataclass(frozen=True)
class Score:
    """The figures of PACT's Table I and those it lacks, over `count` values."""

    mae: float
    mil: float
    icp: float
    upper: float
    winkler: float
    count: int

    def to_dict(self) -> dict[str, float]:
        """Plain values."""
        return dict(vars(self))


def winkler_of(truth: Array, bands: Bands) -> Array:
    """Winkler's score of every value."""
    below, above = np.maximum(bands.low - truth, 0.0), np.maximum(truth - bands.high, 0.0)
    return np.asarray(bands.high - bands.low + 2.0 / ALPHA * (below + above))


def score(truth: Array, bands: Bands) -> Score:
    """All figures over all values."""
    inside = (truth >= bands.low) & (truth <= bands.high)
    return Score(
        float(np.abs(truth - bands.mean).mean()),
        float((bands.high - bands.low).mean()),
        float(inside.mean()),
        float((truth <= bands.high).mean()),
        float(winkler_of(truth, bands).mean()),
        int(truth.size),
    )


@dataclass(frozen=True)
class ForecastInterval:
    """A figure with the 5 % and 95 % quantiles of its cluster bootstrap."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def by_clusters(
    figure: Callable[[NDArray[np.int64]], float], clusters: NDArray[np.generic], *, draws: int = DRAWS, seed: int = 0
) -> ForecastInterval:
    """`figure` of all rows, and its spread when whole clusters are drawn with replacement.

    Args:
        figure: From indexes of rows to a figure; rows of a cluster drawn twice come twice.
        clusters: The cluster of every row: the seed of the campaign.
        draws: Bootstrap samples.
        seed: Of the draws.
    """
    names = np.unique(clusters)
    members = [np.flatnonzero(clusters == name) for name in names]
    value = figure(np.arange(len(clusters)))
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(draws):
        chosen = rng.integers(len(names), size=len(names))
        drawn.append(figure(np.concatenate([members[i] for i in chosen])))
    low, high = np.quantile(drawn, (0.05, 0.95))
    return ForecastInterval(float(value), float(low), float(high))


def mean_by_clusters(values: Array, clusters: NDArray[np.generic], **options: int) -> ForecastInterval:
    """`by_clusters` of a mean, by sums over each cluster (quick)."""
    rows = values.reshape(len(clusters), -1)
    names, at = np.unique(clusters, return_inverse=True)
    sums, counts = np.zeros(len(names)), np.zeros(len(names))
    np.add.at(sums, at, rows.sum(axis=1))
    np.add.at(counts, at, rows.shape[1])
    return by_clusters(lambda i: float(sums[i].sum() / counts[i].sum()), np.arange(len(names)), **options)


def mean_and_spread(scores: Sequence[Score], name: str) -> tuple[float, float]:
    """Mean and standard deviation of a figure over folds."""
    values = np.array([getattr(one, name) for one in scores])
    return float(values.mean()), float(values.std())
