"""The loss after a schedule of versions: means, variances and log characteristic functions as prefix sums over epochs.

An epoch's term depends on its version and its index k alone, so prefix sums over k for each version make any schedule
with p segments a sum of 2p rows and its switches. More data multiplies every epoch's progress by the same h(D), and
the transform of h X at t / h is that of X at t: one table serves every choice of data at its own frequencies.

Paper: DepL section IV-B, with the exact distribution in place of a rounded quantile.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...core.distribution import StudentT, Term, frequencies_for, weighted_sum
from ...core.fourier import Complex, Frequencies
from .enumeration import SLACK, Goal, Losses
from .instance import Instance

Real = NDArray[np.float64]
_SEARCH_TAIL = 1e-8
MARGIN = 2e-7
"""By which a search may underrate what it looks for; every answer is checked exactly."""


class LossTable:
    """Prefix sums of one instance's loss terms, in units of the data gain; for schedules of at most `switches` switches."""

    def __init__(self, instance: Instance, gains: Sequence[float], switches: int) -> None:
        self.instance = instance
        self._gains, self._switches = gains, switches
        k = instance.epochs_done + np.arange(1, instance.target.max_epochs + 1)
        self._factors = [-m.progress(k) for m in instance.models]
        pairs = list(zip(self._factors, instance.models, strict=True))
        self.mean = np.array([_prefix(f * m.noise.mean) for f, m in pairs])
        self.variance = np.array([_prefix(f**2 * m.noise.variance) for f, m in pairs])
        self._re = self._im = np.zeros((len(pairs), 0, 0))

    @cached_property
    def frequencies(self) -> Frequencies:
        """Good for the widest schedule's period and for the narrowest one's decay, whatever the data."""
        pairs = list(zip(self._factors, self.instance.models, strict=True))
        widest = max(pairs, key=lambda p: float((p[0] ** 2).sum()) * p[1].noise.variance)
        terms: list[Term] = [(float(f), widest[1].noise) for f in widest[0]]
        terms += [(float(f[0]), m.noise) for f, m in pairs]
        jumps = [jump for jump in self.instance.jumps if jump.variance > 0]
        if jumps:
            heaviest = max(jumps, key=lambda jump: jump.reach(_SEARCH_TAIL))
            terms += [(1.0 / min(self._gains), heaviest)] * self._switches
        return frequencies_for(terms, tail=_SEARCH_TAIL, least=self._least(jumps))

    def _least(self, jumps: Sequence[StudentT]) -> list[Term]:
        """The narrowest sum whose distribution may matter: the fewest epochs there can be, of the steadiest versions."""
        noises = [m.noise for m in self.instance.models]
        random = [i for i, noise in enumerate(noises) if noise.variance > 0]
        if not random:
            narrow = min(jumps, key=lambda jump: jump.variance, default=None)
            return [] if narrow is None else [(1.0 / max(self._gains), narrow)]
        fewest = 1
        if len(random) == len(noises):
            fewest = fewest_epochs(self.instance, max(self._gains), self._switches) or len(self._factors[0])
        return [
            min(((float(self._factors[i][k]), noises[i]) for i in random), key=lambda t: t[0] ** 2 * t[1].variance)
            for k in (range(fewest) if fewest > 1 else [-1])
        ]

    def log_cf(self, epochs: int) -> tuple[Real, Real]:
        """Prefix sums of log characteristic functions, real and imaginary parts, each (models, epochs + 1 or more, points).

        Made as far as asked for and kept: most searches never look at the last epochs allowed.
        """
        have = self._re.shape[1] - 1
        if have < epochs:
            t = self.frequencies.at
            pairs = zip(self._factors, self.instance.models, strict=True)
            more = np.array([m.noise.log_cf(np.multiply.outer(f[max(have, 0) : epochs], t)) for f, m in pairs])
            before = np.zeros((len(more), 1, len(t))) if have < 0 else None
            for name, part in (("_re", more.real), ("_im", more.imag)):
                old = getattr(self, name) if before is None else before
                setattr(self, name, np.concatenate([old, old[:, -1:] + np.cumsum(part, axis=1)], axis=1))
        return self._re, self._im


class DataLosses:
    """The losses under one choice of data, ready for compiled searches."""

    def __init__(self, instance: Instance, chosen: Sequence[int], switches: int, table: LossTable | None = None) -> None:
        self.instance, self.gain = instance, instance.data_gain(chosen)
        self.sure = all(m.noise.positive and self.gain * m.gain > 0 for m in instance.models)
        if self.gain <= 0:  # no frequencies to share: this gain becomes the versions' own
            instance, self.gain = instance.with_gain(self.gain), 1.0
            table = None
        self.table = LossTable(instance, [self.gain], switches) if table is None else table
        self.mean, self.variance = self.gain * self.table.mean, self.gain**2 * self.table.variance
        self._jumps: dict[StudentT, Complex] = {}

    def losses(self, structures: Sequence[Sequence[int]], epochs: int, *, by_mean: bool = False) -> Losses:
        """The arrays for schedules of these structures up to so many epochs, switches (from `before` too) added up."""
        points = 1 if by_mean else self.table.frequencies.points
        before = self.instance.before
        mean, variance = np.full(len(structures), float(self.instance.initial_loss)), np.zeros(len(structures))
        added = np.zeros((len(structures), points), np.complex128)
        for i, structure in enumerate(structures):
            for a, b in itertools.pairwise(structure if before in (None, structure[0]) else (before, *structure)):
                of = self.instance.jump(a, b)
                mean[i] += of.mean
                variance[i] += of.variance
                if not by_mean:
                    added[i] += self.jump(a, b)[2]
        if by_mean:
            empty = np.zeros((len(self.instance.models), 1, 1))
            return Losses(self.mean, self.variance, empty, empty, added.real.copy(), added.imag.copy(), mean, variance, 1.0)
        re, im = self.table.log_cf(epochs)
        return Losses(self.mean, self.variance, re, im, added.real.copy(), added.imag.copy(), mean, variance, self.step)

    @property
    def step(self) -> float:
        """Between frequencies."""
        return 2.0 * math.pi / (self.table.frequencies.period * self.gain)

    def jump(self, before: int, now: int) -> tuple[float, float, Complex]:
        """Mean, variance and log characteristic function of a switch."""
        of = self.instance.jump(before, now)
        if of not in self._jumps:
            self._jumps[of] = of.log_cf(self.table.frequencies.at / self.gain)
        return of.mean, of.variance, self._jumps[of]

    def goal(self, *, expected: float | None = None) -> Goal:
        """The instance's target, or an expected loss of at most `expected` in its place."""
        target = self.instance.target
        odds = (1.0 - target.probability) / target.probability
        if expected is not None:
            return Goal(float(expected), 0.5, odds, True, self.sure)
        return Goal(float(target.loss), target.probability - MARGIN, odds, False, self.sure)


def fewest_epochs(instance: Instance, gain: float, switches: int) -> int | None:
    """So many epochs at least: the largest expected progress with the largest variance must pass Cantelli's inequality."""
    target = instance.target
    k = instance.epochs_done + np.arange(1, target.max_epochs + 1)
    factors = [gain * m.progress(k) for m in instance.models]
    noises = [m.noise for m in instance.models]
    progress = np.max([f * d.mean for f, d in zip(factors, noises, strict=True)], axis=0).cumsum()
    variance = np.max([f**2 * d.variance for f, d in zip(factors, noises, strict=True)], axis=0).cumsum()
    variance += switches * max((jump.variance for jump in instance.jumps), default=0.0)
    lowest = instance.initial_loss + switches * min((0.0, *(jump.mean for jump in instance.jumps))) - progress
    odds = (1 - target.probability) / target.probability
    enough = np.flatnonzero(lowest - target.loss <= np.sqrt(variance * odds) + SLACK)
    return int(enough[0]) + 1 if len(enough) else None


def _prefix(values: Real) -> Real:
    return np.concatenate([[0.0], np.cumsum(values)])


def exact_probability(instance: Instance, chosen: Sequence[int], models: Sequence[int]) -> float:
    """P(loss after `models` <= target), with frequencies chosen for this very sum."""
    terms = instance.terms(chosen, models)
    label = weighted_sum(terms, instance.initial_loss)
    if not any(f * f * d.variance > 0 for f, d in terms):
        return float(label.mean <= instance.target.loss + SLACK)
    return label.cdf(instance.target.loss)
