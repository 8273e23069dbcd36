"""Sums of independent variables as labels that add: a mean and the log characteristic function at fixed frequencies.

Quantiles do not add and Student's t has no moment generating function, so the label of a schedule is Fourier's. The
distribution function is read off a label by the midpoint rule in Gil-Pelaez's inversion formula,

    F(x) = 1/2 - sum_j Im(exp(-i t_j (x - mean)) phi(t_j)) / (pi (j + 1/2)),      t_j = (j + 1/2) 2 pi / period,

whose only errors are the mass further than half a period from the mean and the frequencies left out. Beyond half a
period the rule repeats itself with the opposite sign, so there the answer is 0 or 1 and not the formula's.

Paper: DepL section IV-B, "function transforms", steps 1-3.
Deviations: characteristic functions in place of Laplace transforms, which do not exist once a version is switched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from .errors import UsageError

Real = NDArray[np.float64]
Complex = NDArray[np.complex128]
Counts = NDArray[np.int64]

SLACK = 1e-9
"""By which a loss or a probability may fall short, in all comparisons."""
_ROUNDS = 200
_CLOSE = 1e-13
_NEAR = 1e-7
_GONE = -45.0
"""log of a characteristic function too small to change a sum."""
_FAINT = -30.0
"""The same for a mean, whose sum falls with the square of the frequency besides."""


@dataclass(frozen=True)
class Frequencies:
    """The frequencies t_j = (j + 1/2) 2 pi / period, j < points, at which labels are kept."""

    period: float
    points: int

    @cached_property
    def at(self) -> Real:
        """t_j, shape (points,)."""
        return np.asarray((np.arange(self.points) + 0.5) * (2.0 * math.pi / self.period), np.float64)

    @cached_property
    def weights(self) -> Real:
        """1 / (pi (j + 1/2)), shape (points,)."""
        return np.asarray(1.0 / (math.pi * (np.arange(self.points) + 0.5)), np.float64)


@dataclass(frozen=True)
class Label:
    """A random variable: its mean and the log characteristic function of (variable - mean) at the frequencies."""

    mean: float
    log_cf: Complex
    frequencies: Frequencies

    def __add__(self, other: Label) -> Label:
        """The sum of two independent variables."""
        if self.frequencies != other.frequencies:
            raise UsageError(f"labels at different frequencies do not add: {self.frequencies}, {other.frequencies}")
        return Label(self.mean + other.mean, self.log_cf + other.log_cf, self.frequencies)

    @property
    def random(self) -> bool:
        """Whether it is anything but its mean."""
        return bool(self.log_cf[0]) or bool(self.log_cf.any())  # the first frequency nearly always tells

    def cdf(self, x: float) -> float:
        """P(variable <= x)."""
        if not self.random:
            return float(self.mean <= x + SLACK)
        return float(cdf_many(np.array([x - self.mean]), self.log_cf[None], self.frequencies)[0])

    def quantile(self, omega: float) -> float:
        """The x with P(variable <= x) = omega, by Newton's method kept inside a shrinking bracket."""
        if not 0.0 < omega < 1.0:
            raise UsageError(f"omega: got {omega}, expected a probability strictly between 0 and 1")
        if not self.random:
            return self.mean
        alive = np.flatnonzero(self.log_cf.real > _GONE)
        few = slice(int(alive[-1]) + 1 if len(alive) else 1)
        t, weights, step = self.frequencies.at[few], self.frequencies.weights[few], 2.0 / self.frequencies.period
        cf = np.exp(self.log_cf[few])
        rows = np.array([cf.imag * weights, cf.real, cf.real * weights, cf.imag])
        low, high = -self.frequencies.period / 2, self.frequencies.period / 2
        deviation = math.sqrt(max(-2.0 * float(self.log_cf[0].real), 0.0)) / float(t[0])
        x = min(max(self._guess(omega, deviation), 0.9 * low), 0.9 * high)
        for _ in range(_ROUNDS):
            by_cos, by_sin = rows[:2] @ np.cos(t * x), rows[2:] @ np.sin(t * x)
            excess = 0.5 - float(by_cos[0] - by_sin[0]) - omega
            low, high = (low, x) if excess > 0 else (x, high)
            slope = step * float(by_cos[1] + by_sin[1])
            ahead = x - excess / slope if slope > 0 else math.inf
            newton = low <= ahead <= high
            ahead = ahead if newton else 0.5 * (low + high)
            moved = abs(ahead - x)
            x = ahead
            # Newton's error is about the square of its last step
            if moved <= _CLOSE * self.frequencies.period or (newton and moved <= _NEAR * deviation):
                break
        return self.mean + x

    def mean_at_least(self, least: float) -> float:
        """E max(variable, least): the mean, and the integral of the distribution function up to `least`.

        Gil-Pelaez's sum is integrated term by term from half a period below the mean on, where it is exact already.
        """
        reach, half = least - self.mean, self.frequencies.period / 2
        if not self.random or abs(reach) >= half:
            return max(self.mean, least)
        alive = np.flatnonzero(self.log_cf.real > _FAINT)
        few = slice(int(alive[-1]) + 1 if len(alive) else 1)
        t, signs = self.frequencies.at[few], np.ones(few.stop)
        signs[1::2] = -1.0  # exp(i t_j period / 2) = i (-1)^j
        cf = np.exp(self.log_cf[few])
        ends = cf.real * np.cos(t * reach) + cf.imag * (np.sin(t * reach) + signs)
        below = 0.5 * (reach + half) - float(ends @ (self.frequencies.weights[few] / t))
        return max(self.mean + below, self.mean, least)

    def _guess(self, omega: float, deviation: float) -> float:
        """The normal quantile corrected for skewness, which the first frequency tells."""
        z = NormalDist().inv_cdf(omega)
        if deviation == 0.0:
            return 0.0
        skewness = -6.0 * float(self.log_cf[0].imag) / (float(self.frequencies.at[0]) * deviation) ** 3
        return deviation * (z + min(max(skewness, -1.0), 1.0) * (z * z - 1.0) / 6.0)


def cdf_many(offset: Real, log_cf: Complex, frequencies: Frequencies) -> Real:
    """P(variable - mean <= offset) for many labels; offset (n,), log_cf (n, points)."""
    turned = np.exp(log_cf - 1j * offset[:, None] * frequencies.at)
    inside = 0.5 - turned.imag @ frequencies.weights
    half = frequencies.period / 2
    inside = np.clip(inside, 0.0, 1.0)
    return np.where(offset >= half, 1.0, np.where(offset <= -half, 0.0, inside))
