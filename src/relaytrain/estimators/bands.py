"""A forecast: an expected value between two quantiles. What models predict, calibration widens and judges score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.curve import Array

LEVELS = (0.05, 0.95)
ALPHA = 0.1
"""What the two quantiles leave outside."""


@dataclass(frozen=True)
class Bands:
    """A forecast: expected value and the 0.05 and 0.95 quantiles, arrays of one shape."""

    mean: Array
    low: Array
    high: Array

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """Mean, low and high."""
        return self.mean, self.low, self.high

    def each(self, change: Callable[[Array], Array]) -> Bands:
        """The same change made to all three."""
        return Bands(*(change(part) for part in self.parts))

    def take(self, at: NDArray[np.generic]) -> Bands:
        """Some of the rows."""
        return self.each(lambda part: part[at])

    def put(self, at: NDArray[np.generic] | int, rows: Bands) -> Bands:
        """The same with some rows from elsewhere."""
        changed = self.each(np.copy)
        for part, values in zip(changed.parts, rows.parts, strict=True):
            part[at] = values
        return changed

    def widened(self, by: Array | float) -> Bands:
        """Both quantiles moved outwards by `by` (inwards where negative, but never past each other)."""
        return ordered(Bands(self.mean, self.low - by, self.high + by))


def ordered(bands: Bands) -> Bands:
    """The same with quantiles that do not cross: where they would, both are their midpoint; the mean lies between."""
    middle = (bands.low + bands.high) / 2.0
    low, high = np.minimum(bands.low, middle), np.maximum(bands.high, middle)
    return Bands(np.clip(bands.mean, low, high), low, high)


def stacked(bands: Sequence[Bands], axis: int = 0) -> Bands:
    """Forecasts one after another."""
    return Bands(*(np.concatenate(parts, axis=axis) for parts in zip(*(b.parts for b in bands), strict=True)))


def averaged(weighted: Sequence[tuple[float, Bands]]) -> Bands:
    """The weighted sum of forecasts, quantile by quantile; their quantiles do not cross afterwards."""
    sums = [sum(weight * bands.parts[i] for weight, bands in weighted) for i in range(3)]
    return ordered(Bands(*(np.asarray(part) for part in sums)))
