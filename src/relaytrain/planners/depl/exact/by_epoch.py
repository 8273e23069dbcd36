"""Which version trains in which epoch where work and switches hang on epoch and data: c(k, m, d), l_sw(k, d, .).

Neither the cost of a schedule nor its jumps follow from how many epochs each version has, so every schedule of at most
so many switches is looked at, many at once: means, variances, least times and the allocation's dual bound are sums
of a term for each end of a segment. Those that may meet the target (Cantelli's inequality) in time for less than the
best one known are gone through in the order of their bound, with their exact distribution and their best allocation.

Paper: DepL section III, equations (1)-(4) with all their arguments.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ....core.depl import DeplProblem
from ....core.distribution import frequencies_of
from ....core.errors import UsageError
from ....core.fourier import SLACK, Complex, Counts, Frequencies, Real, cdf_many
from ..allocation import Allocator, allocated, worth_using
from ..allocation_dual import HUGE, multipliers
from ..schedule_losses import LossTable, exact_probability
from ..waterfill import slots_for
from .version_search import SWITCHES, VersionSchedule, repeated, searched_switches

MOST = 100_000_000
"""Schedules looked at; more are refused."""
_CHUNK = 200_000
_BATCH = 256
_EVERY = 8
"""One in so many multipliers bounds costs."""
_CLOSE = 1e-6
"""Probabilities this near to what is asked are worked out exactly."""
_TAIL = 1e-9


class EpochSearch:
    """The search for one choice of data."""

    def __init__(self, instance: DeplProblem, chosen: Sequence[int], *, switches: int = SWITCHES) -> None:
        self.instance, self.chosen = instance, tuple(chosen)
        self.switches = searched_switches(instance, switches)
        self.gain = instance.data_gain(chosen)
        epochs, done = instance.max_epochs, instance.epochs_done
        self._k = range(done + 1, done + epochs + 1)
        charge, each = instance.data_charge(chosen), instance.epoch_charge(chosen)
        self._useful = worth_using(instance.node_sets, charge, instance.admissible, each)
        kinds = [instance.kind_at(k, chosen, m) for m in range(len(instance.versions)) for k in self._k]
        may = np.repeat(instance.admissible[:, self._useful], epochs, axis=0)
        node_sets = [instance.node_sets[n] for n in self._useful]
        slots = slots_for(kinds, node_sets, instance.objective, may, each[self._useful])
        self.allocator = Allocator(slots, charge[self._useful], instance.target.deadline_s)
        self._below = math.inf
        self._quickest_s = self._summed(np.minimum(slots.quickest_s.min(axis=1, initial=HUGE), HUGE))

    def _summed(self, by_kind: Real) -> Real:
        """Prefix sums over epochs, (..., versions + 1, epochs + 1), of figures (..., versions * epochs)."""
        count, epochs = len(self.instance.versions), self.instance.max_epochs
        sums = np.zeros((*by_kind.shape[:-1], count + 1, epochs + 1))
        np.cumsum(by_kind.reshape(*by_kind.shape[:-1], count, epochs), axis=-1, out=sums[..., :-1, 1:])
        return sums

    def floor(self) -> float:
        """A lower bound on the cost of any schedule."""
        return 0.0 if self.allocator.bounding else math.inf

    def best(self, *, below: float = math.inf) -> VersionSchedule | None:
        """The cheapest schedule that costs less than `below`, or None."""
        if not self.allocator.bounding:
            return None
        cheapest: VersionSchedule | None = None
        self._below = below
        for structure in self._structures():
            for ends in self._all_ends(len(structure)):
                for versions in self._promising(structure, ends):
                    cost = self.cost(versions)
                    if cost < self._below:
                        cheapest, self._below = VersionSchedule(versions, cost), cost
        return cheapest

    def cost(self, versions: Sequence[int]) -> float:
        """What the best allocation of the schedule costs; infinite if none meets the deadline."""
        return allocated(self.instance, self.chosen, versions).cost

    def _structures(self) -> Iterator[tuple[int, ...]]:
        """Sequences of versions without neighbours alike, the shorter first."""
        count, before = len(self.instance.versions), self.instance.before
        most = min(self.switches + 1, self.instance.max_epochs)
        level: list[tuple[int, ...]] = [(m,) for m in range(count)]
        for length in range(1, most + 1):
            yield from (way for way in level if before in (None, way[0]) or length <= self.switches)
            level = [(*way, m) for way in level for m in range(count) if m != way[-1]]

    def _all_ends(self, segments: int) -> Iterator[Counts]:
        """Every way of ending so many segments, (n, segments) at a time."""
        epochs = self.instance.max_epochs
        if math.comb(epochs, segments) > MOST:
            raise UsageError(
                f"depl: tables by epoch with {epochs} epochs and {segments - 1} switches have more than {MOST:g} "
                "schedules of a kind; set target.max_epochs or depl.max_switches lower"
            )
        rows = itertools.combinations(range(1, epochs + 1), segments)
        while len(chunk := np.array(list(itertools.islice(rows, _CHUNK)), np.int64)):
            yield chunk

    def _by_ends(self, sums: Any, structure: Sequence[int], ends: Counts) -> Any:
        """Totals (schedules, ...) by prefix sums (versions + 1, epochs + 1, ...)."""
        after = (*structure[1:], len(self.instance.versions))
        total = np.zeros((len(ends), *sums.shape[2:]), sums.dtype)
        for i, (m, n) in enumerate(zip(structure, after, strict=True)):
            total += sums[m, ends[:, i]] - sums[n, ends[:, i]]
        return total

    def _promising(self, structure: tuple[int, ...], ends: Counts) -> Iterator[tuple[int, ...]]:
        """Schedules that meet target and deadline and may cost less, those with the lowest bound on cost first."""
        target = self.instance.target
        mean = self.instance.initial_loss + self._by_ends(self._moments[0], structure, ends)
        variance = self._by_ends(self._moments[1], structure, ends)
        for entry in self._entries(structure, ends):
            mean, variance = mean + self._jumps[0][entry], variance + self._jumps[1][entry]
        odds = (1.0 - target.probability) / target.probability
        with np.errstate(invalid="ignore"):  # impossible switches have no variance
            fits = np.isfinite(mean) & (mean - target.loss <= np.sqrt(np.maximum(variance, 0.0) * odds) + SLACK)
        fits &= self._by_ends(self._quickest_s, structure, ends) <= target.deadline_s + SLACK
        rows = np.flatnonzero(fits)
        bound = self._bound(structure, ends[rows])
        order = np.argsort(bound, kind="stable")
        for begin in range(0, len(order), _BATCH):
            part = order[begin : begin + _BATCH]
            if bound[part[0]] >= self._below:
                return
            at = rows[part]
            sure = self._probabilities(structure, ends[at], mean[at])
            sure = np.where(variance[at] > 0.0, sure, mean[at] <= target.loss + SLACK)
            for place, probability in zip(part, sure, strict=True):
                if bound[place] >= self._below or probability < target.probability - _CLOSE:
                    continue
                versions = repeated(structure, np.diff(ends[rows[place]], prepend=0))
                if probability > target.probability + _CLOSE or self._holds(versions):
                    yield versions

    def _bound(self, structure: tuple[int, ...], ends: Counts) -> Real:
        """No allocation of these schedules costs less: least over groups of node sets, greatest over multipliers."""
        slopes, offsets = self._bounds
        bound = np.full(len(ends), np.inf)
        for u in range(len(offsets)):
            greatest = np.full(len(ends), -np.inf)
            for slope, offset in zip(slopes[u], offsets[u], strict=True):
                greatest = np.maximum(greatest, self._by_ends(slope, structure, ends) + offset)
            bound = np.minimum(bound, greatest)
        return bound

    def _entries(self, structure: tuple[int, ...], ends: Counts) -> list[tuple[int, int, Counts]]:
        """The switches: before, now, and which of the epochs to come each schedule begins with `now`, from 0."""
        entries = []
        if self.instance.before is not None and self.instance.before != structure[0]:
            entries.append((self.instance.before, structure[0], np.zeros(len(ends), np.int64)))
        return entries + [(a, b, ends[:, i]) for i, (a, b) in enumerate(itertools.pairwise(structure))]

    @cached_property
    def _table(self) -> LossTable:
        return LossTable(self.instance, [self.gain], self.switches)

    @cached_property
    def _moments(self) -> tuple[Real, Real]:
        """Prefix sums of means and variances, (versions + 1, epochs + 1) each."""
        moments = self._table.moments
        return moments[0] * self.gain, moments[1] * self.gain**2

    @cached_property
    def _jumps(self) -> tuple[Real, Real]:
        """Mean and variance of the switch into each epoch, (versions, versions, epochs); infinite: impossible."""
        count = len(self.instance.versions)
        mean, variance = np.full((2, count, count, len(self._k)), np.inf)
        for a, b in itertools.permutations(range(count), 2):
            for i, k in enumerate(self._k):
                jump = self.instance.jump_at(k, self.chosen, a, b)
                if jump is not None:
                    mean[a, b, i], variance[a, b, i] = jump.mean, jump.variance
        return mean, variance

    @cached_property
    def _bounds(self) -> tuple[Real, Real]:
        """The dual bound on cost: prefix sums (sets, multipliers, versions + 1, epochs + 1) and offsets."""
        grid = multipliers(self.allocator.slots.flat, self.allocator.deadline_s)[::_EVERY]
        slopes, offsets = self.allocator.least(grid)
        return self._summed(slopes), offsets

    @cached_property
    def _frequencies(self) -> Frequencies:
        """Good for the widest schedule's period and the narrowest one's decay."""
        k = np.array(self._k)
        terms = [(v.noise, -self.gain * np.asarray(v.progress(k), np.float64)) for v in self.instance.versions]
        jumps = [jump for jump in self.instance.jumps if jump.variance > 0]
        single = [(noise, factors[-1:]) for noise, factors in terms if noise.variance > 0]
        if jumps:
            terms.append((max(jumps, key=lambda jump: jump.reach(_TAIL)), np.ones(self.switches + 1)))
            single.append((min(jumps, key=lambda jump: jump.variance), np.ones(1)))
        narrowest = min(single, key=lambda term: float(term[1][0] ** 2) * term[0].variance, default=None)
        return frequencies_of(terms, tail=_TAIL, least=[narrowest] if narrowest else None, reaches=1.0)

    @cached_property
    def _log_cf(self) -> Complex:
        """Prefix sums (versions + 1, epochs + 1, points) at the frequencies."""
        t, k = self._frequencies.at, np.array(self._k)
        sums = np.zeros((len(self.instance.versions) + 1, len(k) + 1, len(t)), np.complex128)
        for m, version in enumerate(self.instance.versions):
            factors = -self.gain * np.asarray(version.progress(k), np.float64)
            np.cumsum(version.noise.log_cf(np.multiply.outer(factors, t)), axis=0, out=sums[m, 1:])
        return sums

    def _probabilities(self, structure: tuple[int, ...], ends: Counts, mean: Real) -> Real:
        """P(loss <= target) of the schedules."""
        t = self._frequencies.at
        logs = self._by_ends(self._log_cf, structure, ends)
        for a, b, at in self._entries(structure, ends):
            for i in np.unique(at):
                jump = self.instance.jump_at(self._k[int(i)], self.chosen, a, b)
                if jump is not None:
                    logs[at == i] += jump.log_cf(t)
        return cdf_many(self.instance.target.loss - mean, logs, self._frequencies)

    def _holds(self, versions: tuple[int, ...]) -> bool:
        return exact_probability(self.instance, self.chosen, versions) >= self.instance.target.probability - SLACK
