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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.distribution import DEAD, StudentT, Tabulated, Term, frequencies_for, partial_sums, weighted_sum
from ...core.fourier import Complex, Frequencies, Label
from ..kernels import jit
from .enumeration import FEW, NARROW, SLACK, Goal, Losses
from .instance import Instance
from .surpass import surpassing

Real = NDArray[np.float64]
_SEARCH_TAIL = 1e-8
MARGIN = 2e-7
"""By which a search may underrate what it looks for; every answer is checked exactly."""
LOOSE = 0.03
"""The share of 1 - omega by which less is asked of what surpasses many schedules all but surely."""


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
        self._either: dict[tuple[int, int], tuple[Real, Real, Real]] = {}

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
        return frequencies_for(terms, tail=_SEARCH_TAIL, least=self._least(jumps), reaches=1.0)

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
        have = max(self._re.shape[1] - 1, 0)
        if have < epochs:
            t = self.frequencies.at
            re, im = np.zeros((2, len(self._factors), epochs + 1, len(t)))
            if have:
                re[:, : have + 1], im[:, : have + 1] = self._re, self._im
            for m, (f, model) in enumerate(zip(self._factors, self.instance.models, strict=True)):
                noise, new = model.noise, f[have:epochs]
                if isinstance(noise, Tabulated) and model.noise.variance > 0:
                    table = noise.spline
                    add_splined(table.top, table.knots, table.coefficients, new, t, re[m, have:], im[m, have:])
                else:
                    logs = noise.log_cf(np.multiply.outer(new, t))
                    re[m, have + 1 :], im[m, have + 1 :] = np.cumsum(logs.real, axis=0), np.cumsum(logs.imag, axis=0)
                    re[m, have + 1 :] += re[m, have]
                    im[m, have + 1 :] += im[m, have]
            self._re, self._im = re, im
        return self._re, self._im

    @property
    def epochs(self) -> int:
        """As far as it is made."""
        return max(self._re.shape[1] - 1, 0)

    def either(self, epochs: int, few: slice) -> tuple[Real, Real, Real]:
        """Of epochs that surpass both of two versions: prefix sums of mean, variance and log characteristic function.

        Of the two, the version is taken that has to be enlarged less; where neither can be, both count.
        """
        key = (epochs, few.step)
        if key in self._either:
            return self._either[key]
        count, target = len(self.instance.models), self.instance.target
        t = self.frequencies.at[few] if epochs else np.zeros(1)
        mean, variance = np.zeros((2, count, count, epochs + 1))
        glance = np.zeros((count, count, epochs + 1, len(t), 2))
        short = LOOSE * min(target.probability, 1.0 - target.probability) / ((self._switches + 1) * target.max_epochs)
        for pair in itertools.combinations(range(count) if epochs > 1 else (), 2):
            own: list[tuple[Real, Any]] = [(self._factors[m][:epochs], self.instance.models[m].noise) for m in pair]
            terms = _surpassing(own, short)
            means = sum(f * d.mean for f, d in terms)
            variances = sum(f**2 * d.variance for f, d in terms)
            logs = sum(d.log_cf(np.multiply.outer(f, t)) for f, d in terms)
            for a, b in (pair, pair[::-1]):
                mean[a, b, 1:], variance[a, b, 1:] = np.cumsum(means), np.cumsum(variances)
                glance[a, b, 1:, :, 0], glance[a, b, 1:, :, 1] = np.cumsum(logs.real, axis=0), np.cumsum(logs.imag, axis=0)
        self._either[key] = mean, variance, glance
        return self._either[key]


def _surpassing(own: list[tuple[Real, Any]], short: float) -> list[tuple[Real, Any]]:
    """Factors by epoch and the noise that they multiply, so that both of two versions are surpassed but for a mass `short`."""
    ways = []
    for (f, noise), (g, other) in (own, own[::-1]):
        enlarged = np.minimum(f, g * surpassing(noise, other, short))
        ways.append((-float(enlarged.sum()) * noise.mean, [(enlarged, noise)]))
    least, terms = min(ways, key=lambda way: way[0])
    return terms if math.isfinite(least) else own


@jit
def add_splined(top: float, knots: Real, coefficients: Complex, factors: Real, t: Real, re: Real, im: Real) -> None:
    """Goes on with prefix sums of a spline's values at factor * t: row i + 1 is row i and those of factor i."""
    count = knots.shape[0] - 1
    for i in range(factors.shape[0]):
        for j in range(t.shape[0]):
            at = factors[i] * t[j]
            size = abs(at)
            value = complex(DEAD, 0.0)
            if size < top:
                k = min(int(count * (size / top) ** (1.0 / 3.0)), count - 1)
                near = size - knots[k]
                value = coefficients[5, k]
                for order in range(4, -1, -1):
                    value = value * near + coefficients[order, k]
            re[i + 1, j] = re[i, j] + value.real
            im[i + 1, j] = im[i, j] + (value.imag if at >= 0.0 else -value.imag)


class DataLosses:
    """The losses under one choice of data, ready for compiled searches."""

    def __init__(self, instance: Instance, chosen: Sequence[int], switches: int, table: LossTable | None = None) -> None:
        self.instance, self.gain = instance, instance.data_gain(chosen)
        self.sure = helps_surely(instance, chosen)
        if self.gain <= 0:  # no frequencies to share: this gain becomes the versions' own
            instance, self.gain = instance.with_gain(self.gain), 1.0
            table = None
        self.table = LossTable(instance, [self.gain], switches) if table is None else table
        self.mean, self.variance = self.gain * self.table.mean, self.gain**2 * self.table.variance
        self._switches: dict[bool, tuple[Real, Real, Complex]] = {}

    def losses(self, structures: Sequence[Sequence[int]], epochs: int, *, by_mean: bool = False) -> Losses:
        """The arrays for schedules of these structures up to so many epochs, switches (from `before` too) added up."""
        points = 1 if by_mean else self.table.frequencies.points
        before = self.instance.before
        mean, variance = np.full(len(structures), float(self.instance.initial_loss)), np.zeros(len(structures))
        added = np.zeros((len(structures), points), np.complex128)
        rows = np.array(structures)
        taken = rows if before is None else np.column_stack([np.full(len(rows), before), rows])
        for a, b in zip(taken.T[:-1], taken.T[1:], strict=True):
            changes = a != b
            pair = (a[changes], b[changes])
            means, variances, logs = self._jumps(by_mean)
            mean[changes] += means[pair]
            variance[changes] += variances[pair]
            added[changes] += logs[pair]
        jump_re, jump_im = added.real.copy(), added.imag.copy()
        if by_mean:
            re = im = np.zeros((len(self.instance.models), 1, 1))
            step, stride = 1.0, 1
        else:
            re, im = self.table.log_cf(epochs)
            step, stride = self.step, self._stride(epochs)
        few = slice(stride // 2, stride * FEW, stride)
        glance, jumps = np.stack([re[..., few], im[..., few]], axis=-1), np.stack([jump_re[:, few], jump_im[:, few]], axis=-1)
        either = self.table.either(0 if by_mean or len(structures[0]) == 1 else epochs, few)
        return Losses(
            self.mean, self.variance, re, im, jump_re, jump_im, mean, variance, step, glance, jumps, stride,
            self.gain * either[0], self.gain**2 * either[1], either[2],
        )  # fmt: skip

    def _stride(self, epochs: int) -> int:
        """An odd number: so many times shorter a period suits a schedule of middling width, at a glance."""
        jumps = max((jump.variance for jump in self.instance.jumps), default=0.0)
        middling = math.sqrt(float(self.variance[:, epochs // 2 + 1].mean()) + jumps)
        stride = int(2.0 * math.pi / (self.step * NARROW * middling)) if middling > 0 else 1
        return max(stride - 1 + stride % 2, 1)

    @property
    def step(self) -> float:
        """Between frequencies."""
        return 2.0 * math.pi / (self.table.frequencies.period * self.gain)

    def jump(self, before: int, now: int) -> tuple[float, float, Complex]:
        """Mean, variance and log characteristic function of a switch."""
        means, variances, logs = self._jumps(False)
        return float(means[before, now]), float(variances[before, now]), logs[before, now]

    def _jumps(self, by_mean: bool) -> tuple[Real, Real, Complex]:
        """The same of all switches, (models, models) and (models, models, points)."""
        if by_mean not in self._switches:
            count, t = len(self.instance.models), np.zeros(1) if by_mean else self.table.frequencies.at / self.gain
            mean, variance = np.zeros((2, count, count))
            logs = np.zeros((count, count, len(t)), np.complex128)
            known: dict[StudentT, Complex] = {}
            for a, b in itertools.product(range(count), repeat=2):
                jump = self.instance.switches[a][b]
                if jump is not None:
                    mean[a, b], variance[a, b] = jump.mean, jump.variance
                    if jump not in known:
                        known[jump] = jump.log_cf(t)
                    logs[a, b] = known[jump]
            self._switches[by_mean] = mean, variance, logs
        return self._switches[by_mean]

    def goal(self, *, expected: float | None = None) -> Goal:
        """The instance's target, or an expected loss of at most `expected` in its place."""
        target = self.instance.target
        odds = (1.0 - target.probability) / target.probability
        if expected is not None:
            return Goal(float(expected), 0.5, odds, True, self.sure, 0.5)
        loose = target.probability - LOOSE * min(target.probability, 1.0 - target.probability)
        return Goal(float(target.loss), target.probability - MARGIN, odds, False, self.sure, loose)


def helps_surely(instance: Instance, chosen: Sequence[int]) -> bool:
    """Another epoch of any version surely lowers the loss."""
    gain = instance.data_gain(chosen)
    return all(m.noise.positive and gain * m.gain > 0 and min(m.steps, default=1.0) > 0 for m in instance.models)


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


def exact_loss(instance: Instance, chosen: Sequence[int], models: Sequence[int]) -> tuple[Label, bool]:
    """The loss after `models`, with frequencies chosen for this very sum, and whether it is random at all."""
    terms = instance.terms(chosen, models)
    return weighted_sum(terms, instance.initial_loss), any(f * f * d.variance > 0 for f, d in terms)


def losses_by_epoch(instance: Instance, chosen: Sequence[int], models: Sequence[int]) -> list[Label]:
    """The loss after each epoch of `models`, all at the same frequencies."""
    before = [models[0] if instance.before is None else instance.before, *models[:-1]]
    terms = np.cumsum([1 if a == b else 2 for a, b in zip(before, models, strict=True)])  # an epoch, and the switch into it
    sums = partial_sums(instance.terms(chosen, models), instance.initial_loss)
    return [sums[count - 1] for count in terms]


def exact_probability(instance: Instance, chosen: Sequence[int], models: Sequence[int]) -> float:
    """P(loss after `models` <= target)."""
    label, random = exact_loss(instance, chosen, models)
    return label.cdf(instance.target.loss) if random else float(label.mean <= instance.target.loss + SLACK)
