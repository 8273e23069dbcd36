"""The loss after a schedule of versions, for many schedules at once: means, variances and log characteristic functions.

An epoch's term depends on its version and its index k alone, so prefix sums over k for each version make any schedule
with p segments a sum of 2p rows and p - 1 switches.

Paper: DepL section IV-B, with the exact distribution in place of a rounded quantile.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.distribution import StudentT, Term, frequencies_for, weighted_sum
from ...core.fourier import Complex, Frequencies, cdf_many
from .instance import Instance

Real = NDArray[np.float64]
Counts = NDArray[np.int64]

SLACK = 1e-9
"""By which a probability may fall short, as in all comparisons."""
_SEARCH_TAIL = 1e-8
_GONE = -26.0
_CUTS = (16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
_CHUNK = 1 << 21


@dataclass(frozen=True)
class Rows:
    """Schedules of one structure by their prefixes; the last segment is added when asked for."""

    structure: tuple[int, ...]
    mean: Real
    variance: Real
    starts: Counts
    """Epochs before each segment, shape (n, segments)."""

    @property
    def end(self) -> Counts:
        """Epochs before the last segment."""
        return self.starts[:, -1]

    def take(self, at: NDArray[np.generic]) -> Rows:
        """Some of the rows."""
        return Rows(self.structure, self.mean[at], self.variance[at], self.starts[at])


class LossTable:
    """Prefix sums of one instance's loss terms with the chosen data."""

    def __init__(self, instance: Instance, chosen: Sequence[int], switches: int) -> None:
        epochs, gain = instance.target.max_epochs, instance.data_gain(chosen)
        self.instance = instance
        self.target = instance.target.loss
        self.omega = instance.target.probability
        self.sure = all(m.noise.positive and gain * m.gain > 0 for m in instance.models)
        k = instance.epochs_done + np.arange(1, epochs + 1)
        factors = [-gain * m.progress(k) for m in instance.models]
        self.frequencies = _frequencies(instance, factors, switches)
        self.mean = np.array([_prefix(f * m.noise.mean) for f, m in zip(factors, instance.models, strict=True)])
        self.variance = np.array(
            [_prefix(f**2 * m.noise.variance) for f, m in zip(factors, instance.models, strict=True)]
        )
        t = self.frequencies.at
        self.log_cf = np.array(
            [_prefix(m.noise.log_cf(np.outer(f, t))) for f, m in zip(factors, instance.models, strict=True)]
        )
        self.jump_cf: dict[tuple[int | None, int], Complex] = {
            (a, b): jump.log_cf(t)
            for a, row in enumerate(instance.switches)
            for b, jump in enumerate(row)
            if jump is not None and a != b
        }

    @property
    def most_rows(self) -> int:
        """Schedules to hold at once."""
        return max(64, _CHUNK // self.frequencies.points)

    def rows(self, structure: Sequence[int], lengths: Counts) -> Rows:
        """Prefixes with these segment lengths, shape (n, segments - 1), the switch into the last segment included."""
        starts = np.hstack([np.zeros((len(lengths), 1), np.int64), np.cumsum(lengths, axis=1)])
        first = self._first_jump(structure[0])
        mean = np.full(len(lengths), self.instance.initial_loss + (first.mean if first else 0.0))
        variance = np.full(len(lengths), first.variance if first else 0.0)
        for i, (m, after) in enumerate(itertools.pairwise(structure)):
            start, end = starts[:, i], starts[:, i + 1]
            jump = self.instance.jump(m, after)
            mean += self.mean[m, end] - self.mean[m, start] + jump.mean
            variance += self.variance[m, end] - self.variance[m, start] + jump.variance
        return Rows(tuple(structure), mean, variance, starts)

    def _first_jump(self, first: int) -> StudentT | None:
        before = self.instance.before
        return None if before is None or before == first else self.instance.jump(before, first)

    def hopeful(self, rows: Rows, last: int, length: Counts) -> NDArray[np.bool_]:
        """False where mean and variance alone rule the target out, by Cantelli's inequality."""
        return self._hope(*self._with_last(rows, last, length))

    def _with_last(self, rows: Rows, last: int, length: Counts) -> tuple[Real, Real]:
        end = rows.end + length
        gained = self.mean[last, end] - self.mean[last, rows.end]
        return rows.mean + gained, rows.variance + self.variance[last, end] - self.variance[last, rows.end]

    def _hope(self, mean: Real, variance: Real) -> NDArray[np.bool_]:
        return mean - self.target <= np.sqrt(variance * (1 - self.omega) / self.omega) + SLACK

    def probability(self, rows: Rows, last: int, length: Counts) -> Real:
        """P(loss <= target) when the last segment, of version `last`, has these lengths."""
        mean, variance = self._with_last(rows, last, length)
        offset = self.target - mean
        found = np.where(variance > 0, 0.0, (offset >= -SLACK).astype(np.float64))
        at = np.flatnonzero(self._hope(mean, variance) & (variance > 0))
        for part in (at[i : i + self.most_rows] for i in range(0, len(at), self.most_rows)):
            ends = np.hstack([rows.starts[part], (rows.end + length)[part, None]])
            found[part] = self._cdf(rows.structure, ends, offset[part])
        return found

    def _log_cf(self, structure: Sequence[int], ends: Counts, points: slice) -> Complex:
        """Log characteristic functions at some of the frequencies; `ends` (n, segments + 1) starts with 0."""
        found = np.zeros((len(ends), len(range(*points.indices(self.frequencies.points)))), np.complex128)
        for i, m in enumerate(structure):
            table = self.log_cf[m][:, points]
            found += table[ends[:, i + 1]]
            if i:
                found -= table[ends[:, i]]
                found += self.jump_cf[structure[i - 1], m][points]
            elif self._first_jump(m) is not None:
                found += self.jump_cf[self.instance.before, m][points]
        return found

    def _cdf(self, structure: Sequence[int], ends: Counts, offset: Real) -> Real:
        """The inversion sum, cut where nothing is left of any of these characteristic functions."""
        cut = self.frequencies.points
        for trial in _CUTS:
            if trial >= cut:
                break
            if self._log_cf(structure, ends, slice(trial, trial + 1)).real.max() < _GONE:
                cut = trial
        return cdf_many(offset, self._log_cf(structure, ends, slice(cut)), Frequencies(self.frequencies.period, cut))


class MeanTable(LossTable):
    """The same for an expected-loss target: `probability` is 1 where the mean meets `limit` and 0 elsewhere."""

    limit: float = math.inf

    def probability(self, rows: Rows, last: int, length: Counts) -> Real:
        """Whether the expected loss is at most the limit, as 1 or 0."""
        mean, variance = self._with_last(rows, last, length)
        return self._hope(mean, variance).astype(np.float64)

    def _hope(self, mean: Real, variance: Real) -> NDArray[np.bool_]:
        return mean <= self.limit


def _prefix(values: NDArray[np.generic]) -> NDArray[np.generic]:
    zero = np.zeros((1, *values.shape[1:]), values.dtype)
    return np.concatenate([zero, np.cumsum(values, axis=0)])  # type: ignore[arg-type]


def _frequencies(instance: Instance, factors: list[Real], switches: int) -> Frequencies:
    """Good for the widest schedule's period and for the narrowest one's decay."""
    pairs = list(zip(factors, instance.models, strict=True))
    widest = max(pairs, key=lambda p: float((p[0] ** 2).sum()) * p[1].noise.variance)
    terms: list[Term] = [(float(f), widest[1].noise) for f in widest[0]]
    terms += [(float(f[0]), m.noise) for f, m in pairs]
    jumps = [jump for row in instance.switches for jump in row if jump is not None]
    if jumps:
        heaviest = max(jumps, key=lambda jump: jump.reach(_SEARCH_TAIL))
        terms += [(1.0, heaviest)] * switches
    random = [p for p in pairs if p[1].noise.variance > 0]
    if not random:
        return frequencies_for(terms, tail=_SEARCH_TAIL)
    least = min(random, key=lambda p: p[0][0] ** 2 * p[1].noise.variance)
    return frequencies_for(terms, tail=_SEARCH_TAIL, least=[(float(least[0][0]), least[1].noise)])


def exact_probability(instance: Instance, chosen: Sequence[int], models: Sequence[int]) -> float:
    """P(loss after `models` <= target), with frequencies chosen for this very sum."""
    terms = instance.terms(chosen, models)
    label = weighted_sum(terms, instance.initial_loss)
    if not any(f * f * d.variance > 0 for f, d in terms):
        return float(label.mean <= instance.target.loss + SLACK)
    return label.cdf(instance.target.loss)
