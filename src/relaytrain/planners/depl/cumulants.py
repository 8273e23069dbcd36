"""Third cumulants, by which quantiles are skewed, and fourth ones, which bound the mass far from the mean (Markov)."""

from __future__ import annotations

import math

import numpy as np

from ...core.distribution import Distribution, Empirical, InverseGamma, LogNormal, Normal, StudentT

UNKNOWN = 1e30
"""Where there is none, or none is known here: so large that it bounds nothing."""


def fourth_cumulant(of: Distribution) -> float:
    """E (X - mean)^4 - 3 variance^2, or UNKNOWN."""
    if of.variance == 0 or isinstance(of, Normal):
        return 0.0
    square = of.variance**2
    if isinstance(of, StudentT) and of.nu > 4:
        return 6.0 * square / (of.nu - 4.0)
    if isinstance(of, InverseGamma) and of.shape > 4:
        return 6.0 * square * (5.0 * of.shape - 11.0) / ((of.shape - 3.0) * (of.shape - 4.0))
    if isinstance(of, LogNormal):
        w = math.exp(of.sigma**2)
        return square * (w**4 + 2.0 * w**3 + 3.0 * w**2 - 6.0)
    if isinstance(of, Empirical):
        raised = float(np.mean((np.asarray(of.values) - of.mean) ** 4))
        return max(raised - 3.0 * square, 0.0)  # at most: smoothing takes some of it away
    return UNKNOWN


def third_cumulant(of: Distribution) -> float:
    """The third cumulant, read off the characteristic function near 0 (so finite for heavy tails as well)."""
    if of.variance == 0:
        return 0.0
    t = 0.2 / math.sqrt(of.variance)
    return -6.0 * float(of.log_cf(np.array([t]))[0].imag) / t**3
