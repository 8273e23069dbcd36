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

import numpy as np

from ...core.depl import DeplProblem
from ...core.distribution import DEAD, Distribution, StudentT, Tabulated, frequencies_of, partial_sums, weighted_sum
from ...core.fourier import SLACK, Complex, Counts, Frequencies, Label, Real
from ..search.kernels import jit
from .cumulants import fourth_cumulant

_SEARCH_TAIL = 1e-8
_NEGLIGIBLE = 1e-5
"""Of a mean: less than plans print."""
_FAR = 27.0 / 256.0
"""Where the mean is above 0, -x is nowhere more than this times (x - mean)^4 / mean^3."""


class LossTable:
    """Prefix sums of an instance's loss terms, in units of the data gain; for at most `switches` switches."""

    def __init__(self, instance: DeplProblem, gains: Sequence[float], switches: int) -> None:
        self.instance = instance
        self._gains, self.switches = gains, switches
        self.noises = [m.noise for m in instance.versions]
        k = instance.epochs_done + np.arange(1, instance.max_epochs + 1)
        self._factors = -np.array([m.progress(k) for m in instance.versions], np.float64)
        noises = np.array([(d.mean, d.variance, fourth_cumulant(d)) for d in self.noises]).T[:, :, None]
        square = self._factors**2
        self.steps = np.array([self._factors, square, square * square]) * noises
        self.moments = np.zeros((3, len(self.noises) + 1, len(k) + 1))
        np.cumsum(self.steps, axis=2, out=self.moments[:, :-1, 1:])
        self._re = self._im = np.zeros((len(self.noises), 0, 0))

    @cached_property
    def jumps(self) -> Real:
        """Mean, variance and fourth cumulant of switches, (3, versions, versions); 0 where there is none."""
        count = len(self.noises)
        moments = np.zeros((3, count, count))
        for a, row in enumerate(self.instance.switches):
            for b, jump in enumerate(row):
                if jump is not None:
                    moments[:, a, b] = jump.mean, jump.variance, fourth_cumulant(jump)
        return moments

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
        """So many epochs at least: the most progress expected with the most variance must pass Cantelli's test."""
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
        """The narrowest sum whose distribution may matter: the fewest epochs possible, of the steadiest versions."""
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
        """Prefix sums of log characteristic functions, real and imaginary, each (versions, epochs + 1 or more, points).

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
    """The losses under one choice of data."""

    def __init__(
        self, instance: DeplProblem, chosen: Sequence[int], switches: int, table: LossTable | None = None
    ) -> None:
        self.instance, self.gain = instance, instance.data_gain(chosen)
        if self.gain <= 0:  # no frequencies to share: this gain becomes the versions' own
            instance, self.gain = instance.with_gain(self.gain), 1.0
            table = None
        self.table = LossTable(instance, [self.gain], switches) if table is None else table
        powers = np.array([[[self.gain]], [[self.gain**2]], [[self.gain**4]]])
        self.moments = self.table.moments if self.gain == 1.0 else self.table.moments * powers
        self.mean, self.variance = self.moments[0, :-1], self.moments[1, :-1]

    @cached_property
    def fewest(self) -> int | None:
        """Fewer epochs cannot do, by means and variances alone; None if no number can."""
        return self.table.fewest(self.gain)

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
        """Log characteristic functions of all switches, (versions, versions, points)."""
        return self._jumps_at(self.table.frequencies.at)

    def _jumps_at(self, t: Real) -> Complex:
        """The same at frequencies `t` in units of the gain."""
        count = len(self.instance.versions)
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


def helps_surely(instance: DeplProblem, chosen: Sequence[int]) -> bool:
    """Another epoch of any version surely lowers the loss."""
    gain = instance.data_gain(chosen)
    return all(m.noise.positive and gain * m.gain > 0 and min(m.steps, default=1.0) > 0 for m in instance.versions)


def exact_loss(instance: DeplProblem, chosen: Sequence[int], versions: Sequence[int]) -> Label:
    """The loss after `versions`, with frequencies chosen for this very sum."""
    return weighted_sum(instance.terms(chosen, versions), instance.initial_loss)


def losses_by_epoch(instance: DeplProblem, chosen: Sequence[int], versions: Sequence[int]) -> list[Label]:
    """The loss after each epoch of `versions`, all at the same frequencies."""
    sums = partial_sums(instance.terms(chosen, versions), instance.initial_loss)
    return [sums[last] for last in _last_terms(instance, versions)]


def _last_terms(instance: DeplProblem, versions: Sequence[int]) -> Counts:
    """Which of the instance's terms each epoch ends with: an epoch has its own and the switch into it."""
    before = [versions[0] if instance.before is None else instance.before, *versions[:-1]]
    return np.cumsum([1 + (a != b) for a, b in zip(before, versions, strict=True)]) - 1


def expected_by_epoch(
    instance: DeplProblem, chosen: Sequence[int], versions: Sequence[int], after: Sequence[Label]
) -> Real:
    """E max(loss, 0) after each epoch: no loss is below zero, though the additive model may put it there.

    It is the mean wherever Markov's inequality, with the second or the fourth moment, leaves nothing to speak of below.
    """
    terms = instance.terms(chosen, versions)
    kinds = {id(of): (of.variance, fourth_cumulant(of)) for of in {id(of): of for _, of in terms}.values()}
    cumulants = np.array([kinds[id(of)] for _, of in terms]).T
    square = np.array([factor * factor for factor, _ in terms])
    sums = np.cumsum(cumulants * [square, square * square], axis=1)
    variance, fourth = sums[:, _last_terms(instance, versions)]
    means = np.array([loss.mean for loss in after])
    with np.errstate(divide="ignore", invalid="ignore"):  # means of 0 are worked out below
        at_most = np.minimum(variance / (4.0 * means), _FAR * (3.0 * variance**2 + fourth) / means**3)
    for i in np.flatnonzero((means <= 0.0) | (at_most > _NEGLIGIBLE * means)).tolist():
        means[i] = after[i].mean_at_least(0.0)
    return means


def exact_probability(instance: DeplProblem, chosen: Sequence[int], versions: Sequence[int]) -> float:
    """P(loss after `versions` <= target)."""
    return exact_loss(instance, chosen, versions).cdf(instance.target.loss)
