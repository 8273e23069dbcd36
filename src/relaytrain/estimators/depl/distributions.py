"""Distributions of DepL's x and of switches, fitted by likelihood, with tests that know that they were fitted.

A Kolmogorov-Smirnov p-value against a distribution fitted to the same values is far too kind. `refitted_p` draws from
the fit, fits again and compares statistics (a parametric bootstrap); `crps` scores a fit on values it has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...core.curve import Array
from ...core.distribution import Distribution, Empirical, InverseGamma, LogNormal, Normal, StudentT
from ...core.errors import UsageError

Family = Literal["inverse-gamma", "log-normal", "normal", "empirical", "student-t"]
POSITIVE: tuple[Family, ...] = ("inverse-gamma", "log-normal")
EPOCH_FAMILIES: tuple[Family, ...] = ("inverse-gamma", "log-normal", "normal", "empirical")
REPLICATES = 199
GRID = (np.arange(400) + 0.5) / 400.0
NUS = (2.1, 2.5, 3.0, 4.0, 5.0, 8.0, 12.0, 20.0, 50.0, 200.0)


@dataclass(frozen=True)
class Fit:
    """A family with its parameters; `cdf` and `quantile` come from scipy, `distribution` is what planners take."""

    family: Family
    parameters: tuple[float, ...]

    def _frozen(self) -> Any:
        from scipy import stats

        p = self.parameters
        if self.family == "inverse-gamma":
            return stats.invgamma(p[0], scale=p[1])
        if self.family == "log-normal":
            return stats.lognorm(p[1], scale=np.exp(p[0]))
        if self.family == "normal":
            return stats.norm(p[0], p[1])
        return stats.t(p[2], p[0], p[1])

    def cdf(self, values: Array) -> Array:
        """P(X <= value)."""
        if self.family == "empirical":
            ranked = np.sort(np.array(self.parameters))
            return np.asarray(np.searchsorted(ranked, values, side="right") / len(ranked), dtype=np.float64)
        return np.asarray(self._frozen().cdf(values), dtype=np.float64)

    def quantile(self, levels: Array | float) -> Array:
        """The value with probability `levels` below it."""
        if self.family == "empirical":
            return np.asarray(np.quantile(np.array(self.parameters), levels), dtype=np.float64)
        return np.asarray(self._frozen().ppf(levels), dtype=np.float64)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Independent draws."""
        return self.quantile(rng.uniform(1e-12, 1.0, size))

    @property
    def distribution(self) -> Distribution:
        """For DepL's planners."""
        p = self.parameters
        if self.family == "empirical":
            return Empirical(p)
        if self.family == "student-t":
            return StudentT(p[0], p[1], p[2])
        frozen = self._frozen()
        mean, variance = float(frozen.mean()), float(frozen.var())
        if not np.isfinite(variance):
            raise UsageError(f"{self.family}: the fit has no finite variance (shape {p[0]:.2f}); choose another family")
        if self.family == "normal":
            return Normal(p[0], p[1])
        return InverseGamma(mean, variance) if self.family == "inverse-gamma" else LogNormal(mean, variance)


def fit_family(values: Array, family: Family) -> Fit:
    """The likeliest parameters of a family; locations of positive families are 0, as DepL has them.

    Raises:
        UsageError: a positive family for values that are not.
    """
    values = np.asarray(values, dtype=np.float64)
    if family in POSITIVE and not (values > 0.0).all():
        share = float((values <= 0.0).mean())
        raise UsageError(
            f"{family}: {share:.0%} of the values are not positive (losses rise); choose normal or empirical"
        )
    if family == "empirical":
        return Fit(family, tuple(float(v) for v in values))
    if family == "normal":
        return Fit(family, (float(values.mean()), max(float(values.std()), 1e-12)))
    if family == "log-normal":
        logs = np.log(values)
        return Fit(family, (float(logs.mean()), max(float(logs.std()), 1e-9)))
    if family == "inverse-gamma":
        shape, rate = _gamma(1.0 / values)
        return Fit(family, (shape, rate))
    return Fit(family, _student(values))


def _gamma(values: Array) -> tuple[float, float]:
    """Shape and rate of the likeliest gamma: Newton's method on log(shape) - digamma(shape)."""
    from scipy.special import digamma, polygamma

    s = max(float(np.log(values.mean()) - np.log(values).mean()), 1e-12)
    shape = (3.0 - s + np.sqrt((s - 3.0) ** 2 + 24.0 * s)) / (12.0 * s)
    for _ in range(30):
        step = (np.log(shape) - digamma(shape) - s) / (1.0 / shape - polygamma(1, shape))
        shape = max(float(shape - step), float(shape) / 3.0)
        if abs(step) < 1e-10 * shape:
            break
    return float(shape), float(shape / values.mean())


def _student(values: Array) -> tuple[float, float, float]:
    """Location, scale and degrees of freedom (above 2): EM for each of a few nu, the likeliest kept."""
    from scipy.special import gammaln

    best: tuple[float, tuple[float, float, float]] | None = None
    for nu in NUS:
        location, scale = float(np.median(values)), max(float(values.std()), 1e-9)
        for _ in range(60):
            weight = (nu + 1.0) / (nu + ((values - location) / scale) ** 2)
            location = float((weight * values).sum() / weight.sum())
            scale = max(float(np.sqrt((weight * (values - location) ** 2).mean())), 1e-9)
        z = (values - location) / scale
        density = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi) - np.log(scale)
        likelihood = float((density - (nu + 1) / 2 * np.log1p(z**2 / nu)).sum())
        if best is None or likelihood > best[0]:
            best = (likelihood, (location, scale, nu))
    assert best is not None
    return best[1]


def ks_statistic(values: Array, fit: Fit) -> float:
    """The largest distance between the empirical distribution and the fit's."""
    ranked = np.sort(values)
    below = fit.cdf(ranked)
    n = len(ranked)
    return float(np.maximum(np.arange(1, n + 1) / n - below, below - np.arange(n) / n).max())


def naive_p(values: Array, fit: Fit) -> float:
    """The p-value that forgets that the parameters were fitted to these values; for comparison alone."""
    from scipy import stats

    return float(stats.kstwo.sf(ks_statistic(values, fit), len(values)))


def refitted_p(values: Array, fit: Fit, *, replicates: int = REPLICATES, seed: int = 0) -> float:
    """The p-value by parametric bootstrap, parameters fitted again in every replicate."""
    rng = np.random.default_rng(seed)
    seen = ks_statistic(values, fit)
    above = 0
    for _ in range(replicates):
        drawn = fit.sample(rng, len(values))
        above += ks_statistic(drawn, fit_family(drawn, fit.family)) >= seen
    return (1.0 + above) / (1.0 + replicates)


def crps(values: Array, fit: Fit) -> float:
    """Mean continuous ranked probability score, by the fit's quantiles; lower is better."""
    grid = fit.quantile(np.asarray(GRID, dtype=np.float64))
    own = float(np.abs(grid[:, None] - grid[None, :]).mean()) / 2.0
    return float(np.abs(values[:, None] - grid[None, :]).mean()) - own


def best_family(
    train: Array, held_out: Array, families: tuple[Family, ...] = EPOCH_FAMILIES
) -> tuple[Family, dict[str, float]]:
    """The family with the least held-out CRPS, and all their scores; those that cannot hold the values are left out."""
    scored: dict[str, float] = {}
    best: tuple[float, Family] | None = None
    for family in families:
        try:
            score = crps(held_out, fit_family(train, family))
        except UsageError:
            continue
        scored[family] = score
        if best is None or score < best[0]:
            best = (score, family)
    if best is None:
        raise UsageError("families: none can hold these values; include normal or empirical")
    return best[1], scored
