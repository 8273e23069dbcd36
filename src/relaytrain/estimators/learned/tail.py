"""Beyond five epochs: the learned changes applied again to where they lead, then an inverse-square-root tail.

Models that have seen legs long enough are rolled out by themselves for up to twenty epochs: on seeds left out that
halves the error 15 epochs ahead of a tail that starts after five (0.32 to 0.17 of the loss on legs of v16s, 0.91 to
0.51 after a handover of digits), for how fast a leg falls depends on its nodes, which a tail does not know. From there
the tail goes on from the last point. Measured on real curves the two-parameter form A / sqrt(k + B) extrapolates better
than power laws with an asymptote. From the newest and the predicted losses 1/l^2 grows by a constant rate an epoch;
bands widen, relative to the loss, with a power of the horizon that is fitted to how forecasts missed on runs left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...core.curve import Array
from ..bands import Bands, ordered, stacked
from .bundle import LegCurve
from .features import AHEAD, Seen, seen_of, sqrt_ahead, sqrt_rate

HORIZONS = (1, 2, 3, 4, 5, 8, 13, 21, 34, 55)
"""Epochs ahead at which paths are known."""

MOST_ROUNDS = 3
"""Times that a model is applied to its own forecast."""

LEAST = 1e-3
WIDEST = 3.0
"""Bands end this far from the middle, in logarithms."""
LEAST_MISSES = 10
PLAIN_POWER = 0.6
"""Growth of widths when traces are too short to measure it."""


def paths(seen: Seen, changes: Bands, power: float = PLAIN_POWER, rolled: Array | None = None) -> Bands:
    """Losses at `HORIZONS`, (N, len(HORIZONS)) each, from the learned changes (N, AHEAD) of the next five epochs.

    `rolled`: expected losses (N, R) of the epochs after those, from `rolled_out`; the tail begins behind them.
    """
    loss = seen.loss[:, None]
    near = changes.each(lambda part: loss + part)
    far = np.array(HORIZONS[AHEAD:], dtype=np.float64)
    later = np.zeros((len(seen), 0)) if rolled is None else rolled
    known = np.concatenate([seen.history[:, -3:], near.mean, later], axis=1)[:, -(AHEAD + 3) :]
    rate = sqrt_rate(known, last=known.shape[1])[:, None]
    last = np.maximum(known[:, -1:], 1e-3)
    reach = AHEAD + later.shape[1]
    mean = sqrt_ahead(last, rate, np.maximum(far[None, :] - reach, 0.0))
    for at, h in enumerate(HORIZONS[AHEAD:]):
        if h <= reach:
            mean[:, at] = later[:, h - AHEAD - 1]
    growth = (far[None, :] / AHEAD) ** power
    low, middle, high = (np.log(np.maximum(part[:, -1:], LEAST)) for part in (near.low, near.mean, near.high))
    below, above = np.minimum((middle - low) * growth, WIDEST), np.minimum((high - middle) * growth, WIDEST)
    whole = stacked([near, Bands(mean, mean * np.exp(-below), mean * np.exp(above))], axis=1)
    return ordered(Bands(whole.mean, np.maximum(whole.low, 0.0), np.maximum(whole.high, 0.0)))


def rolled_out(raw: Callable[[Seen], Bands], seen: Seen, mean: Array, rounds: int) -> Array | None:
    """Expected losses (N, AHEAD * rounds) from AHEAD epochs ahead on: the model applied to its own forecast.

    Args:
        raw: changes of the next AHEAD epochs from histories.
        seen: the histories now.
        mean: their expected changes (N, AHEAD).
        rounds: how often; none gives None.
    """
    if rounds < 1:
        return None
    losses, parts = np.maximum(seen.loss[:, None] + mean, LEAST), []
    for _ in range(rounds):
        grown = np.concatenate([seen.history[:, AHEAD:], losses], axis=1)
        seen = Seen(grown, seen.position + AHEAD, seen.fixed, seen.stage)
        losses = np.maximum(seen.loss[:, None] + raw(seen).mean, LEAST)
        parts.append(losses)
    return np.concatenate(parts, axis=1)


def rounds_of(curves: Sequence[LegCurve]) -> int:
    """How often a model that learned from curves may be applied to its own forecast: as far as the long ones go."""
    longest = max((len(curve.losses) for curve in curves), default=0)
    return min(max((longest - AHEAD) // AHEAD, 0), MOST_ROUNDS)


def growth_power(ahead: Callable[[Seen], Array], curves: Sequence[LegCurve], *, with_start: bool = False) -> float:
    """The power of the horizon with which relative misses of forecasts grow on curves that the model has not seen.

    Args:
        ahead: expected losses (N, len(HORIZONS)) from histories.
        curves: runs left out.
        with_start: histories begin with the forward loss before the first epoch.
    """
    histories, positions, origin, rest = [], [], [], []
    for curve in curves:
        losses, lead = curve.history(with_start=with_start)
        for end in range(max(3, lead), len(losses) - 2 * AHEAD + 1, 2):
            histories.append(losses[:end])
            positions.append(float(end - lead))
            origin.append(curve)
            rest.append(losses[end:])
    if len(histories) < LEAST_MISSES:
        return PLAIN_POWER
    expected = ahead(seen_of(histories, positions, [c.fixed for c in origin], [c.stage for c in origin]))
    widths = {}
    for at, h in enumerate(HORIZONS):
        known = [i for i, after in enumerate(rest) if len(after) >= h] if h >= AHEAD else []
        if len(known) >= LEAST_MISSES:
            truth = np.array([rest[i][h - 1] for i in known])
            misses = np.abs(np.log(np.maximum(expected[known, at], LEAST)) - np.log(np.maximum(truth, LEAST)))
            widths[h] = float(np.quantile(misses, 0.9))
    spans = np.array([np.log(h / AHEAD) for h in widths if h > AHEAD])
    if not len(spans) or widths.get(AHEAD, 0.0) <= 0.0:
        return PLAIN_POWER
    ratios = np.array([np.log(max(widths[h] / widths[AHEAD], 1e-3)) for h in widths if h > AHEAD])
    return float(np.clip((ratios * spans).sum() / (spans**2).sum(), 0.3, 1.5))
