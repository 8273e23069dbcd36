"""Beyond five epochs: an inverse-square-root tail anchored at the last learned point, with widths as measured.

Measured on real curves the two-parameter form A / sqrt(k + B) extrapolates better than power laws with an asymptote.
From the newest and the predicted losses 1/l^2 grows by a constant rate an epoch; bands widen with a power of the
horizon that is fitted to how forecasts of this tail missed on the traces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .curves import Curve
from .features import AHEAD, Seen, rows_of, sqrt_ahead, sqrt_rate
from .metrics import Bands, ordered

HORIZONS = (1, 2, 3, 4, 5, 8, 13, 21, 34, 55)
"""Epochs ahead at which paths are known."""

PLAIN_POWER = 0.6
"""Growth of widths when traces are too short to measure it."""


def paths(seen: Seen, changes: Bands, power: float = PLAIN_POWER) -> Bands:
    """Losses at `HORIZONS`, (N, len(HORIZONS)) each, from the learned changes (N, AHEAD) of the next five epochs."""
    loss = seen.loss[:, None]
    near = Bands(loss + changes.mean, loss + changes.low, loss + changes.high)
    far = np.array(HORIZONS[AHEAD:], dtype=np.float64)
    known = np.concatenate([seen.history[:, -3:], near.mean], axis=1)
    rate = sqrt_rate(known, last=known.shape[1])[:, None]
    last = np.maximum(near.mean[:, -1:], 1e-3)
    mean = sqrt_ahead(last, rate, far[None, :] - AHEAD)
    growth = (far[None, :] / AHEAD) ** power
    below, above = (near.mean - near.low)[:, -1:] * growth, (near.high - near.mean)[:, -1:] * growth
    joined = [np.concatenate(parts, axis=1) for parts in ((near.mean, mean), (near.low, mean - below), (near.high, mean + above))]
    return ordered(Bands(joined[0], np.maximum(joined[1], 0.0), np.maximum(joined[2], 0.0)))


def growth_power(curves: Sequence[Curve]) -> float:
    """The power of the horizon with which the tail's misses grow on these curves."""
    by_horizon: dict[int, list[float]] = {h: [] for h in (AHEAD, 2 * AHEAD, 4 * AHEAD)}
    for curve in curves:
        for end in range(4, len(curve.losses) - 2 * AHEAD + 1, 3):
            history = rows_of([curve.losses[:end]])
            rate = sqrt_rate(history)
            for h, misses in by_horizon.items():
                if end + h <= len(curve.losses):
                    found = sqrt_ahead(history[:, -1], rate, float(h))[0]
                    misses.append(abs(float(curve.losses[end + h - 1]) - float(found)))
    widths = {h: float(np.quantile(m, 0.9)) for h, m in by_horizon.items() if len(m) >= 10}
    if AHEAD not in widths or len(widths) < 2 or widths[AHEAD] <= 0.0:
        return PLAIN_POWER
    ratios = np.array([np.log(max(widths[h] / widths[AHEAD], 1e-3)) for h in widths if h > AHEAD])
    spans = np.array([np.log(h / AHEAD) for h in widths if h > AHEAD])
    return float(np.clip((ratios * spans).sum() / (spans**2).sum(), 0.3, 1.5))
