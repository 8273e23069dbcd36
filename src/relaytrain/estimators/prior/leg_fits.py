"""Curves fitted to recorded legs, those of a pair together: how floor and pace depend on experience and on the seed.

A leg's curve has a start, a floor and a pace of its own. Floor and pace are drawn towards what the pair does at the
experience with which the leg began, and to what its seed does; those follow in turn from the legs (empirical Bayes, a
few rounds). So a short leg, whose floor and pace could trade off, borrows from others, and what is left between legs
and between seeds is measured. Squares of residuals have heavy tails: one odd epoch moves a curve little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...core.curve import Array
from ...traces.atlas import LegKey

POWER = 4.0
TAIL = 4.0
"""Degrees of freedom of the scatter, as in re-weighting."""
FLOOR, PACE = 1, 2
"""Columns of a leg's figures, all logarithms: start, floor, epochs of the curve's scale that an epoch is."""
ALONE = (0.5, 0.5, 0.7)
"""Spread of a leg's figures as long as nothing is known of others'."""
USUAL_PACE, LIFTED = 0.12, 0.1
FLOOR_GUESSES = (0.5, 0.8, 0.95)
"""Of the lowest loss, where fits begin."""
ROUNDS, STEPS, MORE_STEPS = 6, 40, 12
BEND, LEAN = 4.0, 1.0
"""How smooth figures are over experience: inverse spreads of second and of first differences between knots."""
LEAST_SPREAD = 0.02


@dataclass
class FittedLeg:
    """A leg, the experience with which it began, and its curve."""

    seed: int
    key: LegKey
    losses: Array
    experience: float
    start: float = 0.0
    curve: Array = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class OverExperience:
    """Logarithms of a figure: `at` every knot of experience, by seed beside that; the spreads of seeds and of legs."""

    at: Array
    seeds: dict[int, float]
    between: float
    within: float

    @property
    def spread(self) -> float:
        """Of a leg of a seed that is not among these: mean and spread themselves are only known as far as there are
        seeds (the deviation of Student's t)."""
        seeds = len(self.seeds)
        known = (1.0 + 1.0 / seeds) * (seeds - 1.0) / max(seeds - 3.0, 1.0)
        return float(np.hypot(self.between * np.sqrt(max(known, 1.0)), self.within))


@dataclass(frozen=True)
class PairFit:
    """What the legs of a pair showed; paces are by epoch, on a curve of scale 1."""

    floor: OverExperience
    pace: OverExperience
    legs: list[FittedLeg]


Scatter = Callable[[Sequence[FittedLeg]], Array]
"""Of losses by epoch of a leg, once curves are known."""


def fit_legs(legs: Sequence[FittedLeg], drop: float, knots: Array, scatter: Scatter) -> PairFit:
    """Fit all legs of one pair, and what they have in common."""
    batch = LegBatch(legs, drop)
    figures = batch.alone()
    seeds = sorted({leg.seed for leg in legs})
    basis = np.hstack([_between(np.array([leg.experience for leg in legs]), knots), batch.of_seeds(seeds)])
    spreads = dict.fromkeys((FLOOR, PACE), (0.15, 0.1))
    trends: dict[int, OverExperience] = {}
    for _ in range(ROUNDS):
        batch.keep(figures)
        batch.sigma = np.maximum(scatter(legs)[: batch.epochs], 1e-3)[None, :]
        mean, precision = batch.mean.copy(), np.tile(1.0 / np.square(ALONE), (len(legs), 1))
        doubt = batch.doubt(figures)
        for column in (FLOOR, PACE):
            common, mean[:, column] = _common(
                figures[:, column], doubt[:, column], basis, knots, seeds, spreads[column]
            )
            trends[column], spreads[column] = common, (common.between, common.within)
            precision[:, column] = 1.0 / common.within**2
        figures = batch.fit(figures, mean, precision, MORE_STEPS)
    batch.keep(figures)
    return PairFit(trends[FLOOR], trends[PACE], list(legs))


class LegBatch:
    """Legs fitted side by side: Levenberg-Marquardt with three figures each."""

    def __init__(self, legs: Sequence[FittedLeg], drop: float) -> None:
        self.legs, self.drop, self.epochs = legs, drop, max(len(leg.losses) for leg in legs)
        self.logs, self.there = np.zeros((len(legs), self.epochs)), np.zeros((len(legs), self.epochs))
        for row, leg in enumerate(legs):
            self.logs[row, : len(leg.losses)], self.there[row, : len(leg.losses)] = np.log(leg.losses), 1.0
        self.sigma = (0.03 + 0.1 * np.exp(-np.arange(self.epochs) / 4.0))[None, :]
        first, low = self.logs[:, 0], np.where(self.there > 0.0, self.logs, np.inf).min(axis=1)
        self.mean = np.stack([first + LIFTED, low + np.log(0.8), np.full(len(legs), np.log(USUAL_PACE))], axis=1)

    def of_seeds(self, seeds: Sequence[int]) -> Array:
        """One (L, S) where a leg is of the seed."""
        return np.array([[float(leg.seed == seed) for seed in seeds] for leg in self.legs])

    def curves(self, figures: Array) -> Array:
        """Logarithms (L, epochs)."""
        start, floor, pace = np.exp(figures).T[:, :, None]
        rest = (np.maximum(start - floor, 1e-6) / self.drop) ** (-1.0 / POWER)
        return np.asarray(np.log(floor + self.drop * (rest + pace * np.arange(1, self.epochs + 1)) ** -POWER))

    def keep(self, figures: Array) -> None:
        """Give the legs their curves."""
        for leg, row, start in zip(self.legs, np.exp(self.curves(figures)), np.exp(figures[:, 0]), strict=True):
            leg.start, leg.curve = float(start), row[: len(leg.losses)]

    def slopes(self, figures: Array) -> tuple[Array, Array, Array]:
        """Residuals, their weights, and derivatives of the curves, in units of the scatter."""
        curves = self.curves(figures)
        residual = (self.logs - curves) / self.sigma
        moved = np.stack([self.curves(figures + 1e-4 * unit) for unit in np.eye(3)], axis=2)
        weights = self.there * (TAIL + 1.0) / (TAIL + residual**2)
        return residual, weights, (moved - curves[:, :, None]) / 1e-4 / self.sigma[:, :, None]

    def doubt(self, figures: Array) -> Array:
        """Variance (L, 3) of the figures, as their own losses have it beside `ALONE`."""
        _, weights, slopes = self.slopes(figures)
        curvature = np.einsum("lnk,ln,lnm->lkm", slopes, weights, slopes) + np.diag(1.0 / np.square(ALONE))
        return np.asarray(np.einsum("lkk->lk", np.linalg.inv(curvature)))

    def misfit(self, figures: Array, mean: Array, precision: Array) -> Array:
        """How far the losses seen (L,) lie from the curves, and the curves from what is expected."""
        residual = (self.logs - self.curves(figures)) / self.sigma
        seen = 0.5 * (TAIL + 1.0) * (np.log1p(residual**2 / TAIL) * self.there).sum(axis=1)
        return np.asarray(seen + 0.5 * ((figures - mean) ** 2 * precision).sum(axis=1))

    def fit(self, figures: Array, mean: Array, precision: Array, steps: int) -> Array:
        """The figures that explain the losses best, drawn towards `mean`."""
        damping, misfit = np.full(len(figures), 1e-2), self.misfit(figures, mean, precision)
        for _ in range(steps):
            residual, weights, slopes = self.slopes(figures)
            curvature = np.einsum("lnk,ln,lnm->lkm", slopes, weights, slopes) + precision[:, :, None] * np.eye(3)
            slope = np.einsum("lnk,ln,ln->lk", slopes, weights, residual) - precision * (figures - mean)
            held = curvature + damping[:, None, None] * np.einsum("lkk->lk", curvature)[:, :, None] * np.eye(3)
            tried = figures + np.clip(np.linalg.solve(held, slope[:, :, None])[:, :, 0], -0.5, 0.5)
            other = self.misfit(tried, mean, precision)
            better = other < misfit
            figures, misfit = np.where(better[:, None], tried, figures), np.where(better, other, misfit)
            damping = np.clip(np.where(better, damping / 3.0, damping * 4.0), 1e-6, 1e6)
        return figures

    def alone(self) -> Array:
        """The figures of every leg by itself, from several floors."""
        precision = np.tile(1.0 / np.square(ALONE), (len(self.legs), 1))
        best, least = self.mean, np.full(len(self.legs), np.inf)
        for guess in FLOOR_GUESSES:
            begun = self.mean.copy()
            begun[:, FLOOR] += np.log(guess / 0.8)
            fitted = self.fit(begun, self.mean, precision, STEPS)
            misfit = self.misfit(fitted, self.mean, precision)
            best, least = np.where((misfit < least)[:, None], fitted, best), np.minimum(misfit, least)
        return best


def _between(experience: Array, knots: Array) -> Array:
    """Weights (L, K) of the knots, in proportion between two of them."""
    return np.array([np.interp(experience, knots, unit) for unit in np.eye(len(knots))]).T


def _common(
    figures: Array, doubt: Array, basis: Array, knots: Array, seeds: Sequence[int], spreads: tuple[float, float]
) -> tuple[OverExperience, Array]:
    """What legs do by experience and seed, smooth over knots, and the spreads of both; the same for every leg."""
    between, within = spreads
    count = len(knots)
    weights = 1.0 / (doubt + within**2)
    smooth = np.zeros((basis.shape[1],) * 2)
    if count > 1:
        lean, bend = LEAN * np.diff(np.eye(count), axis=0), BEND * np.diff(np.eye(count), 2, axis=0)
        smooth[:count, :count] = lean.T @ lean + bend.T @ bend
    smooth[count:, count:] = np.eye(len(seeds)) / between**2
    inverse = np.linalg.inv(basis.T @ (weights[:, None] * basis) + smooth)
    coefficients = inverse @ (basis.T @ (weights * figures))
    expected = basis @ coefficients
    own = coefficients[count:]
    # What a leg is drawn to leaves it the doubt that its losses and that pull have together.
    left = 1.0 / (1.0 / np.maximum(doubt, 1e-9) + 1.0 / within**2)
    between = max(float(np.sqrt(np.mean(own**2 + np.diag(inverse)[count:]))), LEAST_SPREAD)
    within = max(float(np.sqrt(np.mean((figures - expected) ** 2 + left))), LEAST_SPREAD)
    return OverExperience(coefficients[:count], dict(zip(seeds, own.tolist(), strict=True)), between, within), expected
