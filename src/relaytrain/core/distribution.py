"""Distributions of loss changes, and exact quantiles of weighted sums of independent ones.

`weighted_sum` chooses the frequencies for the sum at hand: the period so long that next to nothing lies further than
half of it from the mean (heavier tails get a longer one), and as many points as the characteristic function needs to
die out.

Paper: DepL section VI-A, equation (8): x is inverse-gamma, the loss change at a switch Student's t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np

from .errors import UsageError
from .fourier import Complex, Frequencies, Label, Real
from .transforms import log_laplace_inverse_gamma, log_laplace_log_normal

TAIL = 1e-11
"""Mass allowed further than half a period from the mean."""
DEAD = -36.0
"""log of a characteristic function too small to count."""
MOST_POINTS = 1 << 14
"""Frequencies kept at most. A tail of order 3 or less asks for more and gets a shorter period: quantiles to 1e-4."""
_KNOTS = 900
_GROWTH: Real = np.array([1.2**i for i in range(6)])


class Distribution(Protocol):
    """A random variable with a mean and a variance."""

    @property
    def mean(self) -> float:
        """Expected value."""

    @property
    def variance(self) -> float:
        """Variance, finite."""

    @property
    def positive(self) -> bool:
        """Never below zero, surely."""

    def log_cf(self, t: Real) -> Complex:
        """Log E exp(i t (X - mean)), any real t."""

    def reach(self, tail: float) -> float:
        """A distance from the mean beyond which at most about `tail` of the mass lies."""

    def sample(self, random: np.random.Generator, size: int) -> Real:
        """Independent draws."""


@dataclass(frozen=True)
class Normal:
    """Normal with a mean and a standard deviation."""

    mean: float
    deviation: float
    positive: bool = False

    @property
    def variance(self) -> float:
        """Square of the deviation."""
        return self.deviation**2

    def log_cf(self, t: Real) -> Complex:
        """Exact: -(deviation t)^2 / 2."""
        return (-0.5 * (self.deviation * t) ** 2).astype(np.complex128)

    def reach(self, tail: float) -> float:
        """By the normal quantile."""
        return -NormalDist().inv_cdf(tail / 2) * self.deviation

    def sample(self, random: np.random.Generator, size: int) -> Real:
        """Independent draws."""
        return random.normal(self.mean, self.deviation, size)


class Tabulated:
    """A variable whose log characteristic function is dear: kept as a spline, made once for each."""

    @property
    def spline(self) -> Spline:
        """For t >= 0, where the variance is not 0."""
        return _table(self)

    def log_cf(self: Any, t: Real) -> Complex:
        """By the spline; frequencies at which nothing is left get DEAD."""
        if self.variance == 0:
            return np.zeros(t.shape, np.complex128)
        logs: Complex = self.spline(np.abs(t))
        np.negative(logs.imag, out=logs.imag, where=t < 0)
        return logs


class Spline:
    """Quintic polynomials between knots crowded at 0, each through the six knots around; found by a cube root."""

    def __init__(self, top: float, function: Any) -> None:
        self.top = top
        self.knots = top * (np.arange(_KNOTS + 1) / _KNOTS) ** 3  # a power tail leaves few derivatives at 0
        values = np.asarray(function(self.knots), np.complex128)
        first = np.clip(np.arange(_KNOTS) - 2, 0, _KNOTS - 5)
        around = first[:, None] + np.arange(6)
        width = np.diff(self.knots)[:, None]
        at = (self.knots[around] - self.knots[:-1, None]) / width
        powers = at[:, :, None] ** np.arange(6)
        solved = np.linalg.solve(powers.astype(np.complex128), values[around][:, :, None])[:, :, 0]
        self.coefficients = np.ascontiguousarray((solved / width ** np.arange(6)).T)

    def __call__(self, size: Real) -> Complex:
        """Values at 0 <= size; DEAD from the top on."""
        near = np.minimum(size, self.top)
        interval = np.minimum((_KNOTS * np.cbrt(near / self.top)).astype(np.int64), _KNOTS - 1)
        at = near - self.knots[interval]
        polynomial = self.coefficients[5][interval]
        for order in (4, 3, 2, 1, 0):
            polynomial *= at
            polynomial += self.coefficients[order][interval]
        polynomial[size >= self.top] = DEAD
        return np.asarray(polynomial, np.complex128)


@lru_cache(maxsize=256)
def _table(of: Any) -> Spline:
    top = 8.0 / math.sqrt(of.variance)
    while of.exact_log_cf(np.array([top]))[0].real > DEAD:
        top *= 1.3
    return Spline(top, of.exact_log_cf)


@dataclass(frozen=True)
class _UnitT(Tabulated):
    """Student's t without location and scale, so that one table serves all that share nu."""

    nu: float
    variance: float = 1.0

    def exact_log_cf(self, t: Real) -> Complex:
        """The Laplace transform of the mixing inverse-gamma at t^2 / 2; real."""
        return log_laplace_inverse_gamma((0.5 * t**2).astype(np.complex128), self.nu / 2, self.nu / 2)


@dataclass(frozen=True)
class StudentT:
    """location + scale * t with nu > 2 degrees of freedom; a normal whose variance is inverse-gamma."""

    location: float
    scale: float
    nu: float
    positive: bool = False

    def __post_init__(self) -> None:
        if not self.nu > 2 or self.scale < 0:
            raise UsageError(f"Student's t: got scale {self.scale}, nu {self.nu}; expected scale >= 0 and nu > 2")

    @property
    def mean(self) -> float:
        """The location."""
        return self.location

    @property
    def variance(self) -> float:
        """scale^2 nu / (nu - 2)."""
        return self.scale**2 * self.nu / (self.nu - 2)

    @property
    def unit(self) -> Tabulated:
        """Without location and scale: the same for all that share nu."""
        return _UnitT(self.nu)

    def log_cf(self, t: Real) -> Complex:
        """That of the unit t, at scale * t."""
        return _UnitT(self.nu).log_cf(self.scale * t)

    def reach(self, tail: float) -> float:
        """By the power law that bounds the density, x^(-nu-1)."""
        nu = self.nu
        log_c = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
        log_x = (math.log(2.0 / (nu * tail)) + log_c + 0.5 * (nu + 1) * math.log(nu)) / nu
        return self.scale * math.exp(log_x)

    def sample(self, random: np.random.Generator, size: int) -> Real:
        """Independent draws."""
        return self.location + self.scale * random.standard_t(self.nu, size)


@dataclass(frozen=True)
class InverseGamma(Tabulated):
    """Inverse-gamma given by its mean and variance; a variance of 0 is the constant."""

    mean: float
    variance: float
    positive: bool = True

    def __post_init__(self) -> None:
        if not self.mean > 0 or not 0 <= self.variance < math.inf:
            raise UsageError(
                f"inverse-gamma: got mean {self.mean}, variance {self.variance}; expected mean > 0 and variance >= 0"
            )

    @cached_property
    def shape(self) -> float:
        """Alpha: the order of the right tail."""
        return 2.0 + self.mean**2 / self.variance

    @property
    def scale(self) -> float:
        """Beta."""
        return self.mean * (self.shape - 1.0)

    def exact_log_cf(self, t: Real) -> Complex:
        """By integration, t >= 0."""
        raised = log_laplace_inverse_gamma(
            np.asarray(1j * t, np.complex128), self.shape, self.scale
        )  # of exp(-i t X): the conjugate
        return (raised + 1j * self.mean * t).conj()

    def reach(self, tail: float) -> float:
        """P(X > scale/z) = P(gamma < z), bounded by the first terms of its series; solved for log z from below."""
        if self.variance == 0:
            return 0.0
        shape = self.shape
        log_z = start = (math.log(tail) + math.lgamma(shape + 1)) / shape
        for _ in range(20):
            z = math.exp(log_z)
            log_z = start + (z + math.log1p(-z / (shape + 1))) / shape
        return max(self.scale / math.exp(log_z) - self.mean, 0.0)

    def sample(self, random: np.random.Generator, size: int) -> Real:
        """Independent draws."""
        if self.variance == 0:
            return np.full(size, self.mean)
        return self.scale / random.gamma(self.shape, 1.0, size)


@dataclass(frozen=True)
class LogNormal(Tabulated):
    """Log-normal given by its mean and variance."""

    mean: float
    variance: float
    positive: bool = True

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        return math.sqrt(math.log1p(self.variance / self.mean**2))

    @property
    def location(self) -> float:
        """Mean of the logarithm."""
        return math.log(self.mean) - 0.5 * self.sigma**2

    def exact_log_cf(self, t: Real) -> Complex:
        """By integration, t >= 0."""
        raised = log_laplace_log_normal(np.asarray(1j * t, np.complex128), self.location, self.sigma)
        return (raised + 1j * self.mean * t).conj()

    def reach(self, tail: float) -> float:
        """By the normal quantile of the logarithm."""
        return math.exp(self.location - NormalDist().inv_cdf(tail / 2) * self.sigma) - self.mean

    def sample(self, random: np.random.Generator, size: int) -> Real:
        """Independent draws."""
        return random.lognormal(self.location, self.sigma, size)


@dataclass(frozen=True)
class Empirical:
    """Observed values, smoothed by normal kernels of Silverman's width and drawn together to keep the variance."""

    values: tuple[float, ...]
    positive: bool = False

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise UsageError(f"empirical distribution: got {len(self.values)} value(s), expected at least 2")

    @property
    def mean(self) -> float:
        """Mean of the values."""
        return float(np.mean(self.values))

    @property
    def variance(self) -> float:
        """Variance of the values."""
        return float(np.var(self.values))

    @cached_property
    def _kernel(self) -> tuple[Real, float]:
        """Centres relative to the mean, and the kernels' deviation."""
        share = (4.0 / (3.0 * len(self.values))) ** 0.2
        share = share / math.sqrt(1.0 + share**2)
        centres = (np.asarray(self.values) - self.mean) * math.sqrt(1.0 - share**2)
        return centres, share * math.sqrt(self.variance)

    def log_cf(self, t: Real) -> Complex:
        """Exact for the mixture of kernels."""
        centres, width = self._kernel
        mixed = np.exp(1j * np.multiply.outer(t, centres)).mean(axis=-1)
        logs = np.log(np.where(np.abs(mixed) < 1e-300, 1e-300, mixed)) - 0.5 * (width * t) ** 2
        return np.asarray(logs, np.complex128)

    def reach(self, tail: float) -> float:
        """The furthest centre and the kernel's own reach."""
        centres, width = self._kernel
        return float(np.abs(centres).max()) - NormalDist().inv_cdf(tail / 2) * width

    def sample(self, random: np.random.Generator, size: int) -> Real:
        """Independent draws."""
        centres, width = self._kernel
        return self.mean + random.choice(centres, size) + random.normal(0.0, width, size)


Term = tuple[float, Distribution]
"""A factor and the variable it multiplies."""


def frequencies_for(terms: Sequence[Term], *, least: Sequence[Term] | None = None) -> Frequencies:
    """A period for the sum of all `terms`, and points for the sum of `least` (default: all), which dies out last."""
    return frequencies_of(_grouped(terms), least=None if least is None else _grouped(least))


def frequencies_of(
    groups: Sequence[tuple[Distribution, Real]],
    *,
    tail: float = TAIL,
    least: Sequence[tuple[Distribution, Real]] | None = None,
    reaches: float = 2.0,
) -> Frequencies:
    """`frequencies_for` sums given by distribution: each with its factors.

    The period is `reaches` times the sum's reach: 2 serves any x, 1 those near the mean (the rule errs by the mass that
    lies further than a period from x).
    """
    fewest = groups if least is None else least
    count = sum(len(f) for _, f in groups)
    furthest = max((float(np.abs(f).max()) * d.reach(tail / count) for d, f in groups if len(f)), default=0.0)
    period = reaches * (9.0 * _deviation(groups) + furthest) or 1.0
    spread = _deviation(fewest)
    if spread == 0:
        return Frequencies(period, 1)
    top = 8.0 / spread
    while len(dead := np.flatnonzero(_decay(fewest, top * _GROWTH) <= DEAD + 2.0)) == 0:
        top *= 1.2 * _GROWTH[-1]
    top *= float(_GROWTH[dead[0]])
    period = min(period, 2.0 * math.pi * MOST_POINTS / top)
    return Frequencies(period, math.ceil(top * period / (2.0 * math.pi)))


def _deviation(groups: Sequence[tuple[Distribution, Real]]) -> float:
    return math.sqrt(sum(float(f @ f) * d.variance for d, f in groups))


def _decay(groups: Sequence[tuple[Distribution, Real]], t: Real) -> Real:
    """The logarithm of the sum's characteristic function's size, at each t."""
    parts = [d.log_cf(np.multiply.outer(f, t)).real.sum(axis=0) for d, f in groups]
    return np.asarray(np.sum(parts, axis=0), np.float64)


def _grouped(terms: Sequence[Term]) -> list[tuple[Distribution, Real]]:
    """The factors of each distribution that occurs: sums of many epochs repeat few."""
    groups: dict[int, tuple[Distribution, list[float]]] = {}
    for factor, of in terms:  # by identity: to hash a distribution takes longer than to add it once more
        groups.setdefault(id(of), (of, []))[1].append(factor)
    return [(of, np.array(factors)) for of, factors in groups.values()]


def weighted_sum(terms: Sequence[Term], constant: float = 0.0) -> Label:
    """The label of constant + sum of factor * variable, all independent."""
    frequencies = frequencies_for(terms)
    log_cf = np.zeros(frequencies.points, np.complex128)
    for of, factors in _grouped(terms):
        log_cf += of.log_cf(np.multiply.outer(factors, frequencies.at)).sum(axis=0)
    return Label(constant + sum(f * d.mean for f, d in terms), log_cf, frequencies)


def partial_sums(terms: Sequence[Term], constant: float = 0.0) -> list[Label]:
    """The labels of constant + the first term, the first two, and so on, all independent, at the same frequencies."""
    random = [term for term in terms if term[0] ** 2 * term[1].variance > 0]
    frequencies = frequencies_for(terms, least=random[:1] or None)
    rows = np.zeros((len(terms), frequencies.points), np.complex128)
    where: dict[Distribution, list[int]] = {}
    for i, (_, of) in enumerate(terms):
        where.setdefault(of, []).append(i)
    factors = np.array([factor for factor, _ in terms])
    for of, at in where.items():
        rows[at] = of.log_cf(np.multiply.outer(factors[at], frequencies.at))
    means = constant + np.cumsum([factor * of.mean for factor, of in terms])
    return [Label(float(mean), row, frequencies) for mean, row in zip(means, np.cumsum(rows, axis=0), strict=True)]
