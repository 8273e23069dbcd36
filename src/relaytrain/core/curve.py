"""The curve of a pair, floor + drop (1 + x/scale)^-power over epochs x, and a step along it from any loss.

A loss is a position on the curve: u = 1 + x/scale = ((l - floor) / drop)^(-1/power). Everything here is elementwise, so
figures of a curve may be numbers or arrays of any shapes that go together: `curve` is a row of four or four columns
(`curves.T`). `planners.search.kernels` has the same step compiled, for one loss at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Curve = Array | Sequence[Array | float]
"""Floor (a), drop (b), scale (s) and power (alpha)."""


def along(curve: Curve, epochs: Array | float) -> Array:
    """Losses after `epochs` from the curve's own beginning, floor + drop."""
    floor, drop, scale, power = curve
    return np.asarray(floor + drop * (1.0 + np.asarray(epochs) / scale) ** -power)


def position(curve: Curve, loss: Array | float) -> Array:
    """Where on the curve a loss above its floor stands: u = 1 + x/scale."""
    floor, drop, _, power = curve
    return np.asarray(((np.asarray(loss) - floor) / drop) ** (-1.0 / power))


def onward(curve: Curve, loss: Array | float, epochs: Array | float = 1.0) -> Array:
    """Losses after `epochs` more on the curve; at or below its floor, or infinite, a loss stays as it is."""
    floor, drop, scale, power = curve
    above = (loss > floor) & (loss < np.inf)
    moved = floor + drop * (position(curve, np.where(above, loss, floor + drop)) + epochs / scale) ** -power
    return np.where(above, moved, loss)


def step(curve: Curve, loss: Array | float, progress: Array | float = 1.0) -> Array:
    """The loss after one epoch of `progress` times the curve's: l + progress (curve(x + 1) - l), never below 0."""
    with np.errstate(invalid="ignore"):  # infinite losses stay
        moved = loss + progress * (onward(curve, loss) - loss)
    return np.maximum(np.where(np.isfinite(loss), moved, loss), 0.0)


def whence(curve: Curve, wanted: float, progress: float, low: float, high: float) -> float:
    """The logarithm, from `low` to `high`, of the loss whence one step leads to `wanted`: a step is monotone."""
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if step(curve, np.exp(middle), progress) < wanted else (low, middle)
    return 0.5 * (low + high)


def followed(curve: Curve, loss: Array, progress: Array, epochs: Iterable[int]) -> Array:
    """Losses (..., len(epochs)) after each of `epochs` (ascending) steps from `loss`.

    `progress` (..., K): of every epoch, the last row holding on.
    """
    wanted, seen = tuple(epochs), []
    for epoch in range(1, wanted[-1] + 1):
        loss = step(curve, loss, progress[..., min(epoch, progress.shape[-1]) - 1])
        if epoch in wanted:
            seen.append(loss)
    return np.stack(seen, axis=-1)
