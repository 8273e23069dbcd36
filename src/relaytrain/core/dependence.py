"""Noise that hangs together over epochs: AR(1), and what all epochs of a version have in common.

The paper adds independent x. Real curves do not: a run that learns slowly in one epoch does so in the next, and a sum
of such x scatters far more than convolution says. Here every x keeps its own distribution F and gets a standard normal
z with x = F^-1(Phi(z)); the z of a run are jointly normal with

    corr(z_j, z_k) = common [same version] + (1 - common) correlation^|j - k|.

Both figures 0 is the paper's independence. How much of each there is, is estimated from runs of the same process as
weights over a grid: with twenty runs it stays uncertain, and paths are drawn with that uncertainty in them. What the
run at hand has shown so far conditions the draws, so planning again uses what is left to be feared, no more.

Paper: DepL section IV-B convolves, which presumes independence; this module is what that leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .distribution import InverseGamma, LogNormal, Normal
from .errors import UsageError
from .fourier import Real

Whole = Sequence[int] | NDArray[np.int64]

_REACH = 7.0
_KNOTS = 4001
GRID = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Values of both figures that `estimate` weighs."""


@dataclass(frozen=True)
class Dependence:
    """`correlation` of neighbouring epochs (AR(1)) and the share `common` to all epochs of a version."""

    correlation: float = 0.0
    common: float = 0.0

    def __post_init__(self) -> None:
        if not (0.0 <= self.correlation < 1.0 and 0.0 <= self.common <= 1.0):
            raise UsageError(
                f"dependence: got correlation {self.correlation}, common {self.common}; expected 0 to 1 (correlation "
                "below 1)"
            )

    def matrix(self, epochs: Whole, versions: Whole) -> Real:
        """Correlations of z over epochs of the given versions."""
        k, m = np.asarray(epochs), np.asarray(versions)
        apart = np.abs(k[:, None] - k[None, :])
        decaying = np.where(apart == 0, 1.0, self.correlation ** np.maximum(apart, 1))
        return np.asarray(self.common * (m[:, None] == m[None, :]) + (1.0 - self.common) * decaying, np.float64)


INDEPENDENT = Dependence()


@dataclass(frozen=True)
class NoiseBelief:
    """What is known of the dependence: possibilities and their weights, which sum to 1."""

    possible: tuple[Dependence, ...] = (INDEPENDENT,)
    weights: tuple[float, ...] = (1.0,)

    @property
    def independent(self) -> bool:
        """Surely the paper's assumption."""
        return self.possible == (INDEPENDENT,)

    @property
    def mean(self) -> Dependence:
        """The weighted mean of both figures."""
        w = np.asarray(self.weights)
        return Dependence(
            float(w @ [d.correlation for d in self.possible]), float(w @ [d.common for d in self.possible])
        )

    def __str__(self) -> str:
        mean = self.mean
        return (
            "independent epochs"
            if self.independent
            else f"correlation {mean.correlation:.2g}, common {mean.common:.2g}"
        )


def sure(dependence: Dependence) -> NoiseBelief:
    """The belief that holds `dependence` for certain."""
    return NoiseBelief((dependence,), (1.0,))


@dataclass(frozen=True)
class NoisePast:
    """z of epochs that are done, as far as they are known."""

    epochs: tuple[int, ...] = ()
    versions: tuple[int, ...] = ()
    z: tuple[float, ...] = ()


def estimate(runs: Sequence[NoisePast], *, prior: NoiseBelief | None = None) -> NoiseBelief:
    """Weights of all values on the grid given runs of the same process; flat beforehand unless `prior` says more."""
    if prior is None:
        possible = tuple(Dependence(rho, common) for rho in GRID for common in GRID)
        prior = NoiseBelief(possible, tuple(np.full(len(possible), 1.0 / len(possible)).tolist()))
    logs = np.log(np.maximum(prior.weights, 1e-300))
    for i, dependence in enumerate(prior.possible):
        logs[i] += sum(_log_likelihood(dependence, run) for run in runs if run.z)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    kept = np.flatnonzero(weights > 1e-4)
    share = weights[kept] / weights[kept].sum()
    return NoiseBelief(tuple(prior.possible[i] for i in kept), tuple(share.tolist()))


def _log_likelihood(dependence: Dependence, run: NoisePast) -> float:
    root = _root(dependence, run.epochs, run.versions)
    white = np.linalg.solve(root, np.asarray(run.z))
    return float(-0.5 * white @ white - np.log(np.diag(root)).sum())


@lru_cache(maxsize=4096)
def _root(dependence: Dependence, epochs: tuple[int, ...], versions: tuple[int, ...]) -> Real:
    matrix = dependence.matrix(epochs, versions)
    return np.asarray(np.linalg.cholesky(matrix + 1e-9 * np.eye(len(matrix))), np.float64)


def spread_by_epoch(deviations: Real, dependence: Dependence) -> Real:
    """Standard deviation of the sum up to each epoch, for one version with these deviations by epoch."""
    d, rho = np.asarray(deviations, np.float64), dependence.correlation
    earlier = np.zeros(len(d))  # the covariance of each epoch's part with all before it, but for its own deviation
    if rho > 0.0:
        onward = accumulate(d.tolist(), lambda before, here: rho * before + here)
        earlier[1:] = rho * np.fromiter(onward, np.float64, len(d))[:-1]
    decaying = np.cumsum(d * d + 2.0 * d * earlier)
    variance = dependence.common * np.cumsum(d) ** 2 + (1.0 - dependence.common) * decaying
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)), np.float64)


# --- between x and z


def from_normal(of: Any, z: Real) -> Real:
    """x = F^-1(Phi(z)) of a `Distribution`, by a table made once for each."""
    if of.variance == 0:
        return np.full(np.shape(z), of.mean)
    if isinstance(of, Normal):
        return of.mean + of.deviation * z
    values = _table(of)[1]
    place = np.clip((z + _REACH) * ((_KNOTS - 1) / (2.0 * _REACH)), 0.0, _KNOTS - 1.0)  # the knots are evenly spaced
    knot = np.minimum(place.astype(np.intp), _KNOTS - 2)
    return np.asarray(values[knot] + (place - knot) * np.diff(values)[knot], np.float64)


def to_normal(of: Any, x: Real) -> Real:
    """z = Phi^-1(F(x)) of a `Distribution`, within 7 of the middle."""
    if of.variance == 0:
        return np.zeros(np.shape(x))
    if isinstance(of, Normal):
        return np.clip((x - of.mean) / of.deviation, -_REACH, _REACH)
    at, values = _table(of)
    return np.interp(x, values, at)


def quantiles_by_normal(of: Any) -> tuple[float, Real]:
    """x at evenly spaced z, and how far they reach to either side of 0."""
    return _REACH, from_normal(of, np.linspace(-_REACH, _REACH, _KNOTS))


@lru_cache(maxsize=256)
def _table(of: Any) -> tuple[Real, Real]:
    from scipy.special import gammainccinv, gammaincinv, ndtr

    at = np.linspace(-_REACH, _REACH, _KNOTS)
    if isinstance(of, LogNormal):
        return at, np.exp(of.location + of.sigma * at)
    if isinstance(of, InverseGamma):  # X = scale / gamma; the lower tail of one is the upper of the other
        gamma = np.where(at < 0, gammainccinv(of.shape, ndtr(at)), gammaincinv(of.shape, ndtr(-at)))
        return at, of.scale / gamma
    drawn = np.sort(of.sample(np.random.default_rng(0), 200_000))
    return at, np.quantile(drawn, ndtr(at))


# --- paths


class Latent(NamedTuple):
    """Drawn z in two parts: `common` (samples, versions) + `moving` (samples, epochs), and which dependence held."""

    common: Real
    moving: Real
    held: NDArray[np.int64]
    """By sample, a number in the belief's `possible`."""


def draw_latent(
    belief: NoiseBelief, past: NoisePast, epochs: Sequence[int], versions: int, *, samples: int, seed: int = 0
) -> Real:
    """z of the epochs to come for every version, were it trained then: shape (samples, versions, epochs)."""
    drawn = draw_parts(believed(belief, past), past, tuple(epochs), versions, samples=samples, seed=seed)
    return np.asarray(drawn.common[:, :, None] + drawn.moving[:, None, :], np.float64)


def believed(belief: NoiseBelief, past: NoisePast) -> NoiseBelief:
    """The belief as the past has re-weighted it."""
    return estimate([past], prior=belief) if past.z and len(belief.possible) > 1 else belief


def draw_parts(
    belief: NoiseBelief, past: NoisePast, epochs: tuple[int, ...], versions: int, *, samples: int, seed: int = 0
) -> Latent:
    """z of the epochs to come. Each sample draws the dependence from the belief, then z given the past.

    A draw of past and future together is moved by the regression of the future on what the past turned out to be
    (Matheron).
    """
    random = np.random.default_rng(seed)
    counts = _shares(np.asarray(belief.weights), samples)
    parts = [
        _latent(dependence, past, epochs, versions, int(n), random)
        for dependence, n in zip(belief.possible, counts, strict=True)
        if n
    ]
    common, moving = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return Latent(common, moving, np.repeat(np.arange(len(counts)), counts))


def given_past(
    dependence: Dependence, past: NoisePast, epochs: Sequence[int], versions: Sequence[int]
) -> tuple[Real, Real]:
    """Mean (epochs,) and covariance of z in epochs to come, of the versions that train in them."""
    ahead = len(epochs)
    if not past.z:
        return np.zeros(ahead), dependence.matrix(epochs, versions)
    whole = dependence.matrix((*epochs, *past.epochs), (*versions, *past.versions))
    across, behind = whole[:ahead, ahead:], whole[ahead:, ahead:] + 1e-9 * np.eye(len(past.z))
    regression = np.linalg.solve(behind, across.T).T
    return regression @ np.asarray(past.z), whole[:ahead, :ahead] - regression @ across.T


def _shares(weights: Real, samples: int) -> NDArray[np.int64]:
    """Whole numbers of samples, as near to the weights as they go."""
    exact = weights * samples
    counts = np.floor(exact).astype(np.int64)
    for i in np.argsort(counts - exact, kind="stable")[: samples - counts.sum()]:
        counts[i] += 1
    return counts


def _latent(
    dependence: Dependence,
    past: NoisePast,
    epochs: tuple[int, ...],
    versions: int,
    samples: int,
    random: np.random.Generator,
) -> tuple[Real, Real]:
    rho, common = dependence.correlation, dependence.common
    every = (*past.epochs, *epochs)
    moving = np.empty((samples, len(every)))
    last = 0
    for i, k in enumerate(every):
        fresh = random.standard_normal(samples)
        keep = 0.0 if i == 0 else rho ** (k - last)
        moving[:, i] = fresh if i == 0 else keep * moving[:, i - 1] + math.sqrt(1.0 - keep**2) * fresh
        last = k
    factor = random.standard_normal((samples, versions))
    if past.z:
        done = len(past.epochs)
        held = np.asarray(past.versions)
        mine = math.sqrt(common) * factor[:, held] + math.sqrt(1.0 - common) * moving[:, :done]
        covariance = dependence.matrix(past.epochs, past.versions) + 1e-9 * np.eye(done)
        moved = np.linalg.solve(covariance, (np.asarray(past.z) - mine).T)  # (past, samples)
        apart = np.abs(np.asarray(epochs)[:, None] - np.asarray(past.epochs)[None, :])
        decaying = np.where(apart == 0, 1.0, rho ** np.maximum(apart, 1))
        moving[:, done:] += (math.sqrt(1.0 - common) * decaying @ moved).T
        same = (np.arange(versions)[:, None] == held[None, :]).astype(np.float64)
        factor = factor + (math.sqrt(common) * same @ moved).T
    ahead = moving[:, len(past.epochs) :]
    return math.sqrt(common) * factor, math.sqrt(1.0 - common) * ahead


def normal_level(probability: float) -> float:
    """z of a probability."""
    return NormalDist().inv_cdf(probability)
