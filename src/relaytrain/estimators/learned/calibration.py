"""Honest widths: a conformal step from held-out runs, and adaptive conformal inference while a run goes on.

A value's score is how far it lies outside its band, in units of the band's width (negative inside):

    score = max(low - y, y - high) / (high - low)

`conformal_factor`: bands widened by the 0.9 quantile of the scores cover 0.9 of the windows of a *new run* when runs
are exchangeable. Windows of a run are not, so every run has weight one, however long it is, and n runs are asked for
the 0.9 (n + 1) / n quantile, as the new one counts too. Fewer than `LEAST_RUNS` runs: no step, and the bands are called
empirical.

`category_factors`: the same for each category of windows (stage of the relay; legs just begun and others). The coverage
that a step reaches scatters the more, the fewer the runs it is taken from; the level is raised by `DOUBT` standard
deviations of that scatter, so that three of four calibrations reach what they promise, to 0.95 at most. Runs of one
seed behind the same first switch are counted as one there.

`Adaptive`: Gibbs and Candes' update alpha <- alpha + gamma (0.1 - missed) after every epoch, one epoch ahead, with a
buffer of scores that starts with those of the calibration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ..bands import ALPHA, Bands

LEAST_RUNS = 20
GAMMA = 0.05
DOUBT = 0.674
"""Standard deviations: the 0.75 quantile of a normal distribution."""

BUFFER = 200
"""Scores kept for `Adaptive`; each of the run's own counts like several of the calibration's."""

OWN_WEIGHT = 4.0
TINY = 1e-6


def scores(truth: Array, bands: Bands) -> Array:
    """How far each value lies outside its band, in widths of the band; negative inside."""
    width = np.maximum(bands.high - bands.low, TINY)
    return np.asarray(np.maximum(bands.low - truth, truth - bands.high) / width)


def weighted_quantile(values: Array, weights: Array, level: float) -> float:
    """The smallest value with at least `level` of the total weight at or below it; infinity may be one."""
    order = np.argsort(values, kind="stable")
    heaped = np.cumsum(weights[order])
    at = int(np.searchsorted(heaped, level * heaped[-1] - 1e-12))
    return float(values[order[min(at, len(order) - 1)]])


def conformal_factor(
    values: Array, runs: NDArray[np.generic], *, alpha: float = ALPHA, independent: int | None = None
) -> float | None:
    """By how many widths bands must grow on each side to cover 1 - alpha of a new run's windows; None: too few runs.

    `independent`: how many of the runs are; the fewer, the higher the level.
    """
    names, counts = np.unique(runs, return_counts=True)
    if len(names) < LEAST_RUNS:
        return None
    weight = 1.0 / counts[np.searchsorted(names, runs)]
    level = 1.0 - alpha + (0.0 if independent is None else DOUBT * np.sqrt(alpha * (1.0 - alpha) / independent))
    level *= (len(names) + 1.0) / len(names)
    return weighted_quantile(
        values, weight, min(level, 1.0 - alpha / 2.0)
    )  # higher, the widest score of few would rule


def category_factors(
    values: Array, category: NDArray[np.int64], runs: NDArray[np.generic], origin: NDArray[np.generic]
) -> dict[int, float]:
    """`conformal_factor` of every category that has enough runs.

    Args:
        values: (N, H) scores of bands that were made without their truth.
        category: (N,) of each row.
        runs: (N,) the run of each row.
        origin: (N,) which runs stand or fall together: their doubt counts them as one.
    """
    factors = {}
    for one in np.unique(category):
        at = category == one
        each = np.repeat(runs[at], values.shape[1])
        factor = conformal_factor(values[at].reshape(-1), each, independent=len(np.unique(origin[at])))
        if factor is not None:
            factors[int(one)] = factor
    return factors


def grown(bands: Bands, factor: Array | float) -> Bands:
    """Bands with `factor` widths more on each side (fewer where negative)."""
    return bands.widened(factor * (bands.high - bands.low))


@dataclass
class Adaptive:
    """Adaptive conformal inference for one epoch ahead.

    `warm` are scores of the calibration; `level` is where alpha starts and `most_narrow` what it never exceeds. Legs
    are short and their misses come before anything was learned of them, so it starts at half of `alpha` and only a run
    that misses moves it (`benchmarks/estimators.py`, on whose closed loops this was chosen).
    """

    warm: Array
    alpha: float = ALPHA
    gamma: float = GAMMA
    most_narrow: float = ALPHA / 2.0
    own: list[float] = field(default_factory=list)
    level: float = ALPHA / 2.0

    def factor(self) -> float:
        """Widths to add on each side for the next epoch."""
        pool = np.append(self.warm[-BUFFER:], self.own)
        if not len(pool):
            return 0.0
        weights = np.append(np.ones(min(len(self.warm), BUFFER)), np.full(len(self.own), OWN_WEIGHT))
        if self.level <= 0.0:
            return max(float(pool.max()) * 1.5, float(pool.max()))
        return weighted_quantile(pool, weights, 1.0 - self.level)

    def tell(self, score: float) -> None:
        """The epoch's score against the band as the model gave it."""
        missed = score > self.factor()
        self.level = min(self.level + self.gamma * (self.alpha - missed), self.most_narrow)
        self.own.append(float(score))
