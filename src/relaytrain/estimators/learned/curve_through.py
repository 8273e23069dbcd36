"""Paths made a law: curves a + b (1 + x/s)^-alpha that pass through predicted losses, expected and at 0.95.

A learned estimator predicts losses at some epochs ahead; the searches need a law that is Markov in the loss. Each
pair's expected path becomes a curve that meets the first epoch exactly and the later ones in the least-squares sense;
its 0.95 path becomes the robust twin, and what that has above the expected one already at the first epoch is scatter:
it is seen every epoch and does not add up.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from ...core.curve import Array, along, followed
from ...core.law import ROBUST_LEVEL
from .tail import HORIZONS

POWERS = (0.5, 1.0, 2.0, 4.0)
FLOORS = 15
STEADY = 1e-4
"""The least progress of an epoch, as a share of what is above the floor: a curve must move to be one."""

TINY = 1e-3
Z_ROBUST = NormalDist().inv_cdf(ROBUST_LEVEL)
"""Not `core.law.Z_ROBUST`, whose last digit is another: laws stay the same bit for bit."""

_AT = np.array(HORIZONS, dtype=np.float64)
_WEIGHT = 1.0 / np.sqrt(_AT)


def curve_through(start: float, path: Array, *, room: float = math.inf, exact: bool = True) -> Array:
    """The row a, b, s, alpha of the curve from `start` that meets path[0] and comes nearest to the rest of `path`.

    `start` has position 0: b = start - a. Where the path does not fall at first, it meets the first epoch at which it
    has; a path that never falls gives a curve that hardly moves. One epoch before `start` the curve stood at most
    `room` times as high above its floor. Not `exact`: it may meet any epoch of the path, whichever brings it nearest to
    all. So for a version just entered: its first epoch brings little and says nothing about how fast it falls
    afterwards.
    """
    start = max(start, TINY)
    path = np.maximum(path, TINY)
    below = np.flatnonzero(path < start * (1.0 - 1e-9))
    if not len(below):
        return np.array([start * 0.5, start * 0.5, 1e9, 1.0])
    first = int(below[0])
    met = below[:1] if exact else below
    alpha, a, at = (
        part.ravel()
        for part in np.meshgrid(POWERS, np.linspace(0.0, 0.98, FLOORS) * min(path.min(), start), met, indexing="ij")
    )
    left = np.maximum((path[at] - a) / (start - a), 1e-9)
    scale = _AT[at] / np.maximum(left ** (-1.0 / alpha) - 1.0, STEADY)
    if math.isfinite(room):
        scale = np.maximum(scale, 1.0 / (1.0 - room ** (-1.0 / alpha)))
    reached = along([column[:, None] for column in (a, start - a, scale, alpha)], _AT)
    error = (((np.log(reached) - np.log(path)) * _WEIGHT) ** 2)[:, first:].sum(axis=1)
    best = int(error.argmin())
    return np.array([a[best], start - a[best], scale[best], alpha[best]])


def robust_twin(curve: Array, start: float, high: Array) -> tuple[Array, float, float]:
    """Robust curve, factor on progress, and scatter of one pair, whose expected curve is `curve` and 0.95 path `high`.

    The twin keeps b, s and alpha, for levels in between mix the figures one by one; its floor and its progress are
    searched. Scatter is the logarithm's standard deviation that brings the twin's first epoch to `high[0]` exactly.
    """
    high = np.maximum(high, TINY)
    a, b, s, alpha = curve
    first = float(np.log(high[0] / max(float(along(curve, 1.0)), TINY)))
    lift = max(first, 0.0)
    wanted = np.log(high) - lift
    top = max(min(start * 0.999, float(np.exp(wanted).max())), a)
    floors = np.repeat(np.linspace(a, top, FLOORS), FLOORS)
    slows = np.tile(np.exp(np.linspace(np.log(0.05), 0.0, FLOORS)), FLOORS)
    reached = followed((floors, b, s, alpha), np.full(len(floors), start), slows[:, None], HORIZONS)
    error = (((np.log(np.maximum(reached, TINY)) - wanted) * _WEIGHT) ** 2).sum(axis=1)
    best = int(error.argmin())
    twin = np.array([floors[best], b, s, alpha])
    scatter = max(float(np.log(high[0] / max(float(reached[best, 0]), TINY))), 0.0) / Z_ROBUST
    return twin, float(slows[best]), scatter
