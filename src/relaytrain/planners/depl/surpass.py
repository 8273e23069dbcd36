"""By how much one noise must be enlarged to surpass another, all but surely: what lets a search judge many schedules at once.

rho a surpasses b, but for a mass `short`, when its distribution function is nowhere more than `short` above that of b:
then the two can be drawn together so that rho a >= b except with that probability. (First-order dominance outright would
ask for far larger factors, for the sake of values that never occur.)
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.distribution import InverseGamma, LogNormal

Real = NDArray[np.float64]

_LEVELS = 400
_STEPS = 4_000


@lru_cache(maxsize=1024)
def surpassing(a: Any, b: Any, short: float) -> float:
    """The factor rho; infinite where one of the two is of a kind whose quantiles are not known here."""
    ours, theirs = _quantiles(a, short), _quantiles(b, short)
    if ours is None or theirs is None:
        return math.inf
    return float((theirs[1:] / ours[:-1]).max())  # the next quantile of b: nothing between the levels is missed


@lru_cache(maxsize=256)
def _quantiles(of: Any, short: float) -> Real | None:
    """Quantiles at levels from `short` to 1 - `short`."""
    edge = -NormalDist().inv_cdf(short)
    z = np.linspace(-edge, edge, _LEVELS)
    if of.positive and of.variance == 0:
        return np.full(_LEVELS, of.mean)
    if isinstance(of, LogNormal):
        return np.exp(of.location + of.sigma * z)
    if isinstance(of, InverseGamma):
        width = 12.0 / math.sqrt(of.shape)
        middle = math.log(of.scale / of.shape)
        y = np.linspace(middle - width, middle + width - math.log(short) / of.shape, _STEPS)
        density = np.exp(of.shape * (math.log(of.scale) - y) - of.scale * np.exp(-y) - math.lgamma(of.shape))
        below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * (y[1] - y[0]))])
        levels = np.array([NormalDist().cdf(float(at)) for at in z])
        return np.exp(np.interp(levels, below, y))
    return None
