"""The loss after a schedule of versions: means, variances and log characteristic functions as prefix sums over epochs.

An epoch's term depends on its version and its index k alone, so prefix sums over k for each version make any schedule
with p segments a sum of 2p rows and its switches. More data multiplies every epoch's progress by the same h(D), and
the transform of h X at t / h is that of X at t: one table serves every choice of data at its own frequencies.

Paper: DepL section IV-B, with the exact distribution in place of a rounded quantile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ....core.depl import DeplProblem
from ....core.distribution import DEAD, Distribution, StudentT, Tabulated, frequencies_of, partial_sums, weighted_sum
from ....core.fourier import Complex, Frequencies, Label
from ...search.kernels import jit
from .cumulants import fourth_cumulant
from .reach import COARSE, FEW, GONE, NARROW, SLACK, Goal, Losses, glances

Real = NDArray[np.float64]
_SEARCH_TAIL = 1e-8
MOST = 400
"""Frequencies of a search at most, as long as no close call asks for all."""
MARGIN = 2e-7
"""By which a search may underrate what it looks for; every answer is checked exactly."""


class LossTable:
    """Prefix sums of one instance's loss terms, in units of the data gain; for schedules of at most `switches` switches."""

    def __init__(self, instance: DeplProblem, gains: Sequence[float], switches: int) -> None:
        self.instance = instance
        self._gains, self.switches = gains, switches
        self.noises = [m.noise for m in instance.models]
        k = instance.epochs_done + np.arange(1, instance.target.max_epochs + 1)
        self._factors = -np.array([m.progress(k) for m in instance.models], np.float64)
        noises = np.array([(d.mean, d.variance, fourth_cumulant(d)) for d in self.noises]).T[:, :, None]
        square = self._factors**2
        self.steps = np.array([self._factors, square, square * square]) * noises
        self.moments = np.zeros((3, len(self.noises) + 1, len(k) + 1))
        np.cumsum(self.steps, axis=2, out=self.moments[:, :-1, 1:])
        self._re = self._im = np.zeros((len(self.noises), 0, 0))

    @cached_property
    def jumps(self) -> Real:
        """Mean, variance and fourth cumulant of switches, (3, models, models); 0 where there is none."""
        count = len(self.noises)
        found = np.zeros((3, count, count))
        for a, row in enumerate(self.instance.switches):
            for b, jump in enumerate(row):
                if jump is not None:
                    found[:, a, b] = jump.mean, jump.variance, fourth_cumulant(jump)
        return found

    @cached_property
    def reach(self) -> float:
        """How far a single term may lie from its mean."""
        count = self._factors.shape[1] + len(self.noises) + self.switches
        first = [
            abs(float(f[0])) * d.reach(_SEARCH_TAIL / count) for f, d in zip(self._factors, self.noises, strict=True)
        ]
        jumps = {(jump.scale, jump.nu): jump for jump in self.instance.jumps if jump.variance > 0}.values()
        return max(*first, *(jump.reach(_SEARCH_TAIL / count) / min(self._gains) for jump in jumps), 0.0)

    def fewest(self, gain: float) -> int | None:
        """So many epochs at least: the largest expected progress with the largest variance must pass Cantelli's inequality."""
        target, switches = self.instance.target, self.switches
        progress, variance = self.steps[0].min(axis=0).cumsum(), self.steps[1].max(axis=0).cumsum()
        lowest = self.instance.initial_loss + switches * self.jumps[0].min() + gain * progress
        variance = gain**2 * variance + switches * self.jumps[1].max()
        odds = (1 - target.probability) / target.probability
        enough = np.flatnonzero(lowest - target.loss <= np.sqrt(variance * odds) + SLACK)
        return int(enough[0]) + 1 if len(enough) else None

    @cached_property
    def frequencies(self) -> Frequencies:
        """Good for the widest schedule's period and for the narrowest one's decay, whatever the data."""
        widest = int(self.moments[1, :-1, -1].argmax())
        terms = [
            (noise, self._factors[m] if m == widest else self._factors[m, :1]) for m, noise in enumerate(self.noises)
        ]
        jumps = [jump for jump in self.instance.jumps if jump.variance > 0]
        if jumps:
            heaviest = max(jumps, key=lambda jump: jump.reach(_SEARCH_TAIL))
            terms.append((heaviest, np.full(self.switches, 1.0 / min(self._gains))))
        return frequencies_of(terms, tail=_SEARCH_TAIL, least=self._least(jumps), reaches=1.0)

    def _least(self, jumps: Sequence[StudentT]) -> list[tuple[Distribution, Real]]:
        """The narrowest sum whose distribution may matter: the fewest epochs there can be, of the steadiest versions."""
        variance = self.steps[1]
        random = [m for m, noise in enumerate(self.noises) if noise.variance > 0]
        if not random:
            narrow = min(jumps, key=lambda jump: jump.variance, default=None)
            return [] if narrow is None else [(narrow, np.array([1.0 / max(self._gains)]))]
        fewest = 1
        if len(random) == len(self.noises):
            fewest = self.fewest(max(self._gains)) or variance.shape[1]
        epochs = slice(fewest) if fewest > 1 else slice(-1, None)
        steadiest = np.array(random)[variance[random, epochs].argmin(axis=0)]
        return [(self.noises[m], self._factors[m, epochs][steadiest == m]) for m in random if (steadiest == m).any()]

    def log_cf(self, epochs: int) -> tuple[Real, Real]:
        """Prefix sums of log characteristic functions, real and imaginary parts, each (models, epochs + 1 or more, points).

        Made as far as asked for and kept: most searches never look at the last epochs allowed.
        """
        if self.epochs < epochs:
            self._re, self._im = self.log_cf_at(self.frequencies.at, epochs, self._re, self._im)
        return self._re, self._im

    def log_cf_at(
        self, t: Real, epochs: int, known_re: Real | None = None, known_im: Real | None = None
    ) -> tuple[Real, Real]:
        """The same at frequencies `t`, going on from what is known of them."""
        have = 0 if known_re is None else max(known_re.shape[1] - 1, 0)
        re, im = np.zeros((2, len(self._factors), epochs + 1, len(t)))
        if have:
            re[:, : have + 1], im[:, : have + 1] = known_re, known_im
        for m, noise in enumerate(self.noises):
            new = self._factors[m, have:epochs]
            if isinstance(noise, Tabulated) and noise.variance > 0:
                table = noise.spline
                add_splined(table.top, table.knots, table.coefficients, new, t, re[m, have:], im[m, have:])
            else:
                logs = noise.log_cf(np.multiply.outer(new, t))
                re[m, have + 1 :], im[m, have + 1 :] = np.cumsum(logs.real, axis=0), np.cumsum(logs.imag, axis=0)
                re[m, have + 1 :] += re[m, have]
                im[m, have + 1 :] += im[m, have]
        return re, im

    @property
    def epochs(self) -> int:
        """As far as it is made."""
        return max(self._re.shape[1] - 1, 0)


@jit
def add_splined(top: float, knots: Real, coefficients: Complex, factors: Real, t: Real, re: Real, im: Real) -> None:
    """Goes on with prefix sums of a spline's values at factor * t: row i + 1 is row i and those of factor i."""
    count = knots.shape[0] - 1
    roots = np.cbrt(t)  # that of a product is the product of those
    for i in range(factors.shape[0]):
        sign, scale = (1.0 if factors[i] >= 0.0 else -1.0), abs(factors[i])
        root = count * np.cbrt(scale / top)
        for j in range(t.shape[0]):
            size = scale * t[j]
            if size >= top:
                re[i + 1, j], im[i + 1, j] = re[i, j] + DEAD, im[i, j]
                continue
            k = min(int(root * roots[j]), count - 1)
            near = size - knots[k]
            real, imaginary = coefficients[5, k].real, coefficients[5, k].imag
            for order in range(4, -1, -1):
                real = real * near + coefficients[order, k].real
                imaginary = imaginary * near + coefficients[order, k].imag
            re[i + 1, j], im[i + 1, j] = re[i, j] + real, im[i, j] + sign * imaginary


class DataLosses:
    """The losses under one choice of data, ready for compiled searches."""

    def __init__(
        self, instance: DeplProblem, chosen: Sequence[int], switches: int, table: LossTable | None = None
    ) -> None:
        self.instance, self.gain = instance, instance.data_gain(chosen)
        self.sure = helps_surely(instance, chosen)
        if self.gain <= 0:  # no frequencies to share: this gain becomes the versions' own
            instance, self.gain = instance.with_gain(self.gain), 1.0
            table = None
        self.table = LossTable(instance, [self.gain], switches) if table is None else table
        powers = np.array([[[self.gain]], [[self.gain**2]], [[self.gain**4]]])
        self.moments = self.table.moments if self.gain == 1.0 else self.table.moments * powers
        self.mean, self.variance = self.moments[0, :-1], self.moments[1, :-1]
        self._made: dict[tuple[int, bool, int], Losses] = {}

    @cached_property
    def fewest(self) -> int | None:
        """Fewer epochs cannot do, by means and variances alone; None if no number can."""
        return self.table.fewest(self.gain)

    def losses(self, epochs: int, *, by_mean: bool = False, level: int = 0) -> Losses:
        """The arrays for schedules of up to so many epochs.

        Level 0 has frequencies for a first look alone, which mostly suffices; 1 those of the full sum for schedules that
        may well meet the target; 2 those for any.
        """
        key = (epochs, by_mean, level)
        if key not in self._made:
            self._made[key] = self._losses(epochs, by_mean, level)
        return self._made[key]

    @property
    def epochs(self) -> int:
        """As far as arrays were made for searches by probability."""
        return max((epochs for epochs, by_mean, _ in self._made if not by_mean), default=0)

    def _losses(self, epochs: int, by_mean: bool, level: int) -> Losses:
        before = -1 if self.instance.before is None else self.instance.before
        few = points = np.zeros(0)
        if not by_mean:
            narrow = self._narrow(epochs)
            few = self._few(epochs, narrow)
            points = points if level == 0 else self._points(epochs, narrow) if level == 1 else self.table.frequencies.at
        t = np.concatenate([few, points])
        if by_mean:
            re = im = np.zeros((len(self.instance.models), epochs + 1, 0))
        else:
            re, im = self.table.log_cf_at(t, epochs)
        jumps = self._jumps_at(t)
        few_step, step = (2.0 * float(part[0]) / self.gain if len(part) else 1.0 for part in (few, points))
        return Losses(
            self.moments, self.table.jumps, float(self.instance.initial_loss), before, len(few), few_step, step, level == 2,
            re, im, np.ascontiguousarray(jumps.real), np.ascontiguousarray(jumps.imag),
            *glances(re, im, self.moments, len(few)),
        )  # fmt: skip

    def _narrow(self, epochs: int) -> float:
        """The least variance, in units of the gain, of a version alone when it reaches the target on average.

        Schedules that may well meet the target are hardly narrower.
        """
        alone = (self.mean[:, : epochs + 1] > self.instance.target.loss - self.instance.initial_loss).sum(axis=1)
        return float(self.table.moments[1, np.arange(len(alone)), np.minimum(alone, epochs)].min())

    def _few(self, epochs: int, narrow: float) -> Real:
        """Frequencies for a first look, whose period suits schedules of middling width."""
        middling = (
            float(self.table.moments[1, :-1, epochs // 2 + 1].mean()) + float(self.table.jumps[1].max()) / self.gain**2
        )
        return _up_to(COARSE, narrow, NARROW * math.sqrt(middling), FEW)

    def _points(self, epochs: int, narrow: float) -> Real:
        """Frequencies for the full sum of schedules that may well meet the target."""
        table = self.table
        widest = float(table.steps[1, :, :epochs].max(axis=0).sum())
        widest += table.switches * float(table.jumps[1].max()) / self.gain**2
        return _up_to(GONE, narrow, table.reach + 9.0 * math.sqrt(widest), MOST)

    @property
    def step(self) -> float:
        """Between frequencies."""
        return 2.0 * math.pi / (self.table.frequencies.period * self.gain)

    def jump(self, before: int, now: int) -> tuple[float, float, Complex]:
        """Mean, variance and log characteristic function of a switch."""
        mean, variance, _ = self.table.jumps[:, before, now]
        return float(mean), float(variance), self._jumps[before, now]

    @cached_property
    def _jumps(self) -> Complex:
        """Log characteristic functions of all switches, (models, models, points)."""
        return self._jumps_at(self.table.frequencies.at)

    def _jumps_at(self, t: Real) -> Complex:
        """The same at frequencies `t` in units of the gain."""
        count = len(self.instance.models)
        logs = np.zeros((count, count, len(t)), np.complex128)
        t, known = t / self.gain, {}
        for a, row in enumerate(self.instance.switches):
            for b, jump in enumerate(row):
                if jump is not None:
                    key = (jump.scale, jump.nu)  # the location is in the mean alone
                    if key not in known:
                        table, sums = jump.unit.spline, np.zeros((2, 2, len(t)))
                        add_splined(
                            table.top, table.knots, table.coefficients, np.array([jump.scale]), t, sums[0], sums[1]
                        )
                        known[key] = sums[0, 1]  # no imaginary part: Student's t is symmetric
                    logs[a, b] = known[key]
        return logs

    def goal(self, *, expected: float | None = None) -> Goal:
        """The instance's target, or an expected loss of at most `expected` in its place."""
        target = self.instance.target
        odds = (1.0 - target.probability) / target.probability
        if expected is not None:
            return Goal(float(expected), 0.5, odds, True, self.sure, 0.0, 0.0)
        deviations = max(NormalDist().inv_cdf(target.probability), 0.0)
        return Goal(float(target.loss), target.probability - MARGIN, odds, False, self.sure, deviations, MARGIN)


def _up_to(size: float, variance: float, period: float, most: int) -> Real:
    """Frequencies (j + 1/2) 2 pi / period until the logarithm of a characteristic function falls to about `size`."""
    period = period or 1.0
    top = math.sqrt(-2.2 * size / variance) if variance > 0 else math.inf
    points = min(top * period / (2.0 * math.pi) + 3.0, most)
    return np.asarray((np.arange(int(points)) + 0.5) * (2.0 * math.pi / period), np.float64)


def helps_surely(instance: DeplProblem, chosen: Sequence[int]) -> bool:
    """Another epoch of any version surely lowers the loss."""
    gain = instance.data_gain(chosen)
    return all(m.noise.positive and gain * m.gain > 0 and min(m.steps, default=1.0) > 0 for m in instance.models)


def exact_loss(instance: DeplProblem, chosen: Sequence[int], models: Sequence[int]) -> tuple[Label, bool]:
    """The loss after `models`, with frequencies chosen for this very sum, and whether it is random at all."""
    terms = instance.terms(chosen, models)
    return weighted_sum(terms, instance.initial_loss), any(f * f * d.variance > 0 for f, d in terms)


def losses_by_epoch(instance: DeplProblem, chosen: Sequence[int], models: Sequence[int]) -> list[Label]:
    """The loss after each epoch of `models`, all at the same frequencies."""
    before = [models[0] if instance.before is None else instance.before, *models[:-1]]
    terms = np.cumsum(
        [1 if a == b else 2 for a, b in zip(before, models, strict=True)]
    )  # an epoch, and the switch into it
    sums = partial_sums(instance.terms(chosen, models), instance.initial_loss)
    return [sums[count - 1] for count in terms]


def exact_probability(instance: DeplProblem, chosen: Sequence[int], models: Sequence[int]) -> float:
    """P(loss after `models` <= target)."""
    label, random = exact_loss(instance, chosen, models)
    return label.cdf(instance.target.loss) if random else float(label.mean <= instance.target.loss + SLACK)
