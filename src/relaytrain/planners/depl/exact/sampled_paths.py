"""Sampled paths of noise that hangs together, and how sure a schedule is on them.

A share of paths that arrive has sampling error. Most of what scatters a sum of x is one direction s of the normal z
behind them, and given the rest of a path the loss falls with s: where along s it meets the target is found for every
path, and the normal distribution says how probable it is to be beyond. The mean of that over the paths is the
probability, with an error of some ten-thousandths:

    z = load s + rest,   s = direction . z,   load = cov(z, s) / var(s),     P = mean over rests of P(s >= s*(rest))

Paper: DepL section IV-B, without its assumption of independence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ....core.dependence import (
    Latent,
    NoiseBelief,
    NoisePast,
    believed,
    draw_parts,
    from_normal,
    given_past,
    quantiles_by_normal,
)
from ....core.depl import DeplProblem, DeplVersion
from ....core.fourier import SLACK, Real
from ...search.kernels import jit

SAMPLES = 20_000
"""Paths that a search looks at."""
NOTHING = NoisePast()
_SURE = 5.0
"""Standard errors by which a share of paths must be off before it is believed without a closer look."""
_FEWER = 5
"""One in so many paths tells means and variances of sums."""
_FAR, _CLOSE = 9.0, 1e-6
"""Deviations of s: how far off s* may be looked for, and how near it is found."""


@jit
def _at(values: Any, reach: float, z: float) -> Any:
    """x at z, and its slope."""
    spaces = values.shape[0] - 1
    place = min(max((z + reach) * (spaces / (2.0 * reach)), 0.0), float(spaces))
    knot = min(int(place), spaces - 1)
    rise = values[knot + 1] - values[knot]
    return values[knot] + (place - knot) * rise, rise * spaces / (2.0 * reach)


@jit
def _ends(latent: Any, versions: Any, weights: Any, values: Any, reach: float, base: Any, every: int) -> Any:
    """The final loss over the target's, by path."""
    ends = np.empty((base.shape[0] + every - 1) // every)
    for place in range(ends.shape[0]):
        n = place * every
        loss = base[n]
        for i in range(versions.shape[0]):
            z = latent.common[n, versions[i]] + latent.moving[n, i]
            loss -= weights[i] * _at(values[versions[i]], reach, z)[0]
        ends[place] = loss
    return ends


@jit
def _chance(
    latent: Any, versions: Any, weights: Any, values: Any, reach: float, base: Any, direction: Any, loads: Any, of: Any
) -> float:
    """The mean probability beyond s*; `of` has mean and deviation of s by dependence, `loads` (dependences, epochs)."""
    total, z = 0.0, np.empty(versions.shape[0])
    for n in range(base.shape[0]):
        held = latent.held[n]
        middle, spread = of[held, 0], of[held, 1]
        own = 0.0
        for i in range(versions.shape[0]):
            z[i] = latent.common[n, versions[i]] + latent.moving[n, i]
            own += direction[i] * z[i]
        low, high = middle - _FAR * spread, middle + _FAR * spread
        s = min(max(own, low), high)
        for _ in range(80):
            loss, slope = base[n], 0.0
            for i in range(versions.shape[0]):
                x, rise = _at(values[versions[i]], reach, z[i] + loads[held, i] * (s - own))
                loss -= weights[i] * x
                slope += weights[i] * rise * loads[held, i]
            if loss <= 0.0:
                high = s
            else:
                low = s
            ahead = s + loss / slope if slope > 0.0 else high
            ahead = ahead if low < ahead < high else 0.5 * (low + high)
            near = abs(ahead - s) < _CLOSE * spread
            s = ahead
            if near:
                break
        total += 0.5 * math.erfc((s - middle) / spread / math.sqrt(2.0))
    return total / base.shape[0]  # type: ignore[no-any-return]


@lru_cache(maxsize=2)
def _drawn(
    belief: NoiseBelief, past: NoisePast, epochs: tuple[int, ...], versions: int, samples: int, seed: int
) -> Latent:
    return draw_parts(belief, past, epochs, versions, samples=samples, seed=seed)


@lru_cache(maxsize=4)
def _summed(
    versions: tuple[DeplVersion, ...],
    belief: NoiseBelief,
    past: NoisePast,
    epochs: tuple[int, ...],
    size: tuple[int, int],
) -> list[tuple[Real, Real]]:
    latent = _drawn(belief, past, epochs, len(versions), *size)
    rows = []
    for m, version in enumerate(versions):
        x = from_normal(version.noise, latent.common[::_FEWER, m, None] + latent.moving[::_FEWER])
        sums = np.cumsum(version.progress(np.array(epochs)) * x, axis=1)
        rows.append((sums.mean(axis=0), sums.var(axis=0)))
    return rows


@dataclass(frozen=True)
class Paths:
    """Sampled z of every version in every epoch to come, and draws for the switches; `seed` fixes them all."""

    instance: DeplProblem
    belief: NoiseBelief
    past: NoisePast = NOTHING
    samples: int = SAMPLES
    seed: int = 0

    @cached_property
    def _belief(self) -> NoiseBelief:
        return believed(self.belief, self.past)

    @cached_property
    def _epochs(self) -> tuple[int, ...]:
        done = self.instance.epochs_done
        return tuple(range(done + 1, done + self.instance.max_epochs + 1))

    @property
    def _latent(self) -> Latent:
        return _drawn(self._belief, self.past, self._epochs, len(self.instance.versions), self.samples, self.seed)

    @property
    def sums(self) -> list[tuple[Real, Real]]:
        """By version, mean and variance (epochs,) of its progress up to each epoch, trained from now on."""
        size = self.samples, self.seed
        return _summed(self.instance.versions, self._belief, self.past, self._epochs, size)

    @cached_property
    def _values(self) -> tuple[float, Real]:
        rows = [quantiles_by_normal(version.noise) for version in self.instance.versions]
        return rows[0][0], np.array([values for _, values in rows])

    @cached_property
    def _uniform(self) -> Real:
        """Evenly spread over 0 to 1 for each switch, in an order of its own."""
        random = np.random.default_rng([self.seed, 1])
        places = random.permuted(np.tile(np.arange(self.samples), (16, 1)), axis=1)
        return (places + random.uniform(size=places.shape)) / self.samples

    @cached_property
    def _jumps(self) -> dict[tuple[int, int, int], Real]:
        return {}

    def jump(self, before: int, now: int, number: int) -> Real:
        """The loss change of the schedule's switch number `number`, shape (samples,)."""
        from scipy.special import stdtrit

        change, key = self.instance.jump(before, now), (before, now, number % 16)
        if change.scale == 0:
            return np.full(self.samples, change.location)
        if key not in self._jumps:
            drawn = change.location + change.scale * stdtrit(change.nu, self._uniform[number % 16])
            self._jumps[key] = np.asarray(drawn, np.float64)
        return self._jumps[key]

    def _weights(self, chosen: Sequence[int], versions: Sequence[int]) -> Real:
        progress = [float(self.instance.versions[m].progress(k)) for m, k in zip(versions, self._epochs, strict=False)]
        return self.instance.data_gain(chosen) * np.array(progress)

    def _base(self, versions: Sequence[int]) -> Real:
        """The loss over the target's if no epoch lowered it, by path."""
        base = np.full(self.samples, self.instance.initial_loss - self.instance.target.loss - SLACK)
        before, switches = self.instance.before, 0
        for m in versions:
            if before is not None and before != m:
                base = base + self.jump(before, m, switches)
                switches += 1
            before = m
        return base

    def losses(self, chosen: Sequence[int], versions: Sequence[int]) -> Real:
        """The loss after every epoch of a schedule, shape (epochs, samples)."""
        weights, latent, rows = self._weights(chosen, versions), self._latent, []
        before, switches = self.instance.before, 0
        loss = np.full(self.samples, self.instance.initial_loss)
        for i, m in enumerate(versions):
            if before is not None and before != m:
                loss = loss + self.jump(before, m, switches)
                switches += 1
            loss = loss - weights[i] * from_normal(
                self.instance.versions[m].noise, latent.common[:, m] + latent.moving[:, i]
            )
            rows.append(loss)
            before = m
        return np.array(rows).reshape(len(versions), self.samples)

    def _over(self, chosen: Sequence[int], versions: Sequence[int], every: int = 1) -> Real:
        reach, values = self._values
        at, weights = np.array(versions, np.int64), self._weights(chosen, versions)
        return np.asarray(_ends(self._latent, at, weights, values, reach, self._base(versions), every), np.float64)

    def ends(self, chosen: Sequence[int], versions: Sequence[int], *, every: int = 1) -> Real:
        """The loss after the last epoch of a schedule, of one path in `every`."""
        return self._over(chosen, versions, every) + self.instance.target.loss + SLACK

    def share(self, chosen: Sequence[int], versions: Sequence[int], *, every: int = 1) -> float:
        """The share of paths (of one in `every`) that end at the target or below: quick and rough."""
        return float((self._over(chosen, versions, every) <= 0.0).mean())

    def sure(self, chosen: Sequence[int], versions: Sequence[int], level: float) -> bool:
        """Whether a schedule's probability is at least `level`; looked at closely where the share does not tell."""
        share = self.share(chosen, versions)
        if abs(share - level) > _SURE * math.sqrt(level * (1.0 - level) / self.samples):
            return share > level
        return self.probability(chosen, versions) >= level - SLACK

    def probability(self, chosen: Sequence[int], versions: Sequence[int]) -> float:
        """That a schedule ends at the target or below."""
        if not versions:
            return float(self.instance.initial_loss <= self.instance.target.loss + SLACK)
        smooth = self._smoothing(chosen, versions)
        if smooth is None:
            return self.share(chosen, versions)
        reach, values = self._values
        at, weights = np.array(versions, np.int64), self._weights(chosen, versions)
        return float(_chance(self._latent, at, weights, values, reach, self._base(versions), *smooth))

    def quantile(self, chosen: Sequence[int], versions: Sequence[int], level: float) -> float:
        """The least target that a schedule meets with probability `level`, to a millionth of the way to it."""

        def sure(loss: float) -> bool:
            target = replace(self.instance.target, loss=loss)
            return replace(self, instance=replace(self.instance, target=target)).probability(chosen, versions) >= level

        ends = self.ends(chosen, versions)
        room = math.sqrt(level * (1.0 - level) / len(ends))
        low, high = np.quantile(ends, [max(level - _SURE * room, 0.0), min(level + _SURE * room, 1.0)]).tolist()
        close = 1e-6 * max(abs(self.instance.initial_loss - high), 1e-6)
        while high - low > close:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if sure(middle) else (middle, high)
        return float(high)

    def _smoothing(self, chosen: Sequence[int], versions: Sequence[int]) -> tuple[Real, Real, Real] | None:
        """Direction (epochs,), loads (dependences, epochs), mean and deviation of s; None if the loss may rise."""
        deviations = np.array([math.sqrt(self.instance.versions[m].noise.variance) for m in versions])
        direction = self._weights(chosen, versions) * deviations
        epochs, loads, of = self._epochs[: len(versions)], [], []
        for dependence in self._belief.possible:
            mean, covariance = given_past(dependence, self.past, epochs, tuple(versions))
            along = covariance @ direction
            spread = math.sqrt(max(float(direction @ along), 0.0))
            if spread <= 1e-12 or along.min() < 0.0:
                return None
            loads.append(along / spread**2)
            of.append((float(direction @ mean), spread))
        return direction, np.array(loads), np.array(of)
