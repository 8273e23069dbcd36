"""Which version trains in which epoch: exact among schedules with at most so many switches.

A structure is a sequence of versions; its schedules differ in how long each lasts. For given lengths of all segments
but the last, another epoch of the last one lowers the loss surely (X > 0) and costs more surely, so the shortest that
meets the target is the best and is found by bisection. Everything is pruned by cost: the allocation's dual function
bounds the cost of any counts from below, and only prefixes whose bound stays under the best known are followed.

Paper: DepL section IV-B.
Deviations: no expanded graph. l_omega is not a state (equal quantiles part after the same suffix), so the paper's
vertices may drop the best schedule; here each schedule's distribution is exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .allocation import HUGE, Allocator, worth_using
from .instance import Instance
from .losses import SLACK, Counts, LossTable, MeanTable, Rows, exact_probability
from .waterfill import Slots, slots_for

Real = NDArray[np.float64]

SWITCHES = 3
ALL_SEQUENCES = 5_000
"""If there are no more sequences of versions than this, any number of switches is searched."""
_MULTIPLIERS = 120
_FOCUS = 13
"""Multipliers kept between the neighbours of the best one once a schedule is known."""


@dataclass(frozen=True)
class Schedule:
    """Versions, one an epoch, and what their best allocation costs."""

    models: tuple[int, ...]
    cost: float


class VersionSearch:
    """The search for one choice of data; `limit` on the expected loss replaces the probability when given."""

    def __init__(self, instance: Instance, chosen: Sequence[int], *, switches: int = SWITCHES) -> None:
        models, target = len(instance.models), instance.target
        if models**target.max_epochs <= ALL_SEQUENCES:
            switches = target.max_epochs
        self.instance, self.chosen, self.switches = instance, tuple(chosen), switches
        charge = instance.data_charge(chosen)
        useful = worth_using(instance.clusters, charge, instance.runs_on)
        volume = instance.volume(chosen)
        slots = slots_for(
            [(m.work * volume, m.size) for m in instance.models],
            [instance.clusters[n] for n in useful],
            instance.objective,
            None if instance.runs_on is None else instance.runs_on[:, useful],
        )
        self.allocator = Allocator(slots, charge[useful], target.deadline_s)
        self._quickest = np.minimum(slots.quickest_s.min(axis=1, initial=HUGE), HUGE)
        self._grid = _multipliers(slots, target.deadline_s) if useful else np.zeros(1)
        self._wide = self.allocator.least(self._grid)
        self._slopes, self._offsets = self._wide
        self._costs: dict[tuple[int, ...], float] = {}

    def best(self, *, below: float = math.inf, table: LossTable | None = None) -> Schedule | None:
        """The cheapest schedule that costs less than `below`, or None."""
        if not self.allocator.bounding:
            return None
        table = LossTable(self.instance, self.chosen, self.switches) if table is None else table
        self._slopes, self._offsets = self._wide
        found: Schedule | None = None
        for segments in range(1, self.switches + 2):
            for structure in self._structures(segments):
                lengths = self._prefixes(structure, below)
                for start in range(0, len(lengths), table.most_rows):
                    part = lengths[start : start + table.most_rows]
                    better = self._finish(structure, part, below, table)
                    if better is not None:
                        found, below = better, better.cost
                        self._focus(better.models)
        return found

    def floor(self) -> float:
        """A lower bound on the cost of any schedule, from means and variances alone; infinite if none can exist.

        So many epochs are needed at least that the largest expected progress, with the largest variance, passes
        Cantelli's inequality; they cost at least the bound of as many epochs of whichever version bounds lowest.
        """
        instance, target = self.instance, self.instance.target
        if not self.allocator.bounding:
            return math.inf
        k = np.arange(1, target.max_epochs + 1)
        gain = instance.data_gain(self.chosen)
        factors = [gain * m.progress(instance.epochs_done + k) for m in instance.models]
        noises = [m.noise for m in instance.models]
        progress = np.max([f * d.mean for f, d in zip(factors, noises, strict=True)], axis=0).cumsum()
        variance = np.max([f**2 * d.variance for f, d in zip(factors, noises, strict=True)], axis=0).cumsum()
        jumps = [jump for row in instance.switches for jump in row if jump is not None]
        variance += self.switches * max((jump.variance for jump in jumps), default=0.0)
        lowest = instance.initial_loss + self.switches * min((0.0, *(jump.mean for jump in jumps))) - progress
        odds = (1 - target.probability) / target.probability
        enough = np.flatnonzero(lowest - target.loss <= np.sqrt(variance * odds) + SLACK)
        if not len(enough) or k[enough[0]] * self._quickest.min() > target.deadline_s + SLACK:
            return math.inf
        slopes, offsets = self._wide
        bounds = k[enough[0]] * slopes.min(axis=2) + offsets
        return float(bounds.max(axis=1).min())

    def _structures(self, segments: int) -> Iterator[tuple[int, ...]]:
        allowed, before = self.instance.switches, self.instance.before
        for structure in itertools.product(range(len(self.instance.models)), repeat=segments):
            taken = list(itertools.pairwise(structure))
            if before is not None and structure[0] != before:
                taken.append((before, structure[0]))
            if len(taken) <= self.switches and all(a != b and allowed[a][b] is not None for a, b in taken):
                yield structure

    def bound(self, counts: Real) -> Real:
        """A lower bound on the cost of counts (n, models); infinite where even full resources are too slow."""
        worst = np.full(len(counts), math.inf)
        for slope, offset in zip(self._slopes, self._offsets, strict=True):
            worst = np.minimum(worst, (counts @ slope.T + offset).max(axis=1))
        late = counts @ self._quickest > self.instance.target.deadline_s + SLACK
        return np.where(late, math.inf, worst)

    def _focus(self, models: Sequence[int]) -> None:
        """Bounds from now on by multipliers near the best one for `models`: schedules of like cost share it."""
        counts = np.bincount(models, minlength=len(self.instance.models))
        slopes, offsets = self._wide
        best = (slopes @ counts + offsets).argmax(axis=1)
        low, high = self._grid[np.maximum(best - 1, 0)], self._grid[np.minimum(best + 1, len(self._grid) - 1)]
        near = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _FOCUS)
        self._slopes, self._offsets = self.allocator.least(near)

    def _prefixes(self, structure: Sequence[int], below: float) -> Counts:
        """Lengths of all segments but the last, (n, segments - 1), that leave room in epochs, time and cost."""
        epochs, last = self.instance.target.max_epochs, len(structure) - 1
        lengths = np.zeros((1 if last < epochs else 0, 0), np.int64)
        for i in range(last):
            more = np.arange(1, epochs - last + 1)
            lengths = np.hstack([np.repeat(lengths, len(more), axis=0), np.tile(more, len(lengths))[:, None]])
            lengths = lengths[lengths.sum(axis=1) <= epochs - (last - i)]
            counts = self._counts(structure[: i + 1], lengths)
            for m in structure[i + 1 :]:
                counts[:, m] += 1
            lengths = lengths[self.bound(counts) < below]
        return lengths

    def _counts(self, structure: Sequence[int], lengths: Counts) -> Real:
        counts = np.zeros((len(lengths), len(self.instance.models)))
        for i, m in enumerate(structure):
            counts[:, m] += lengths[:, i]
        return counts

    def _longest(self, counts: Real, last: int, below: float) -> Counts:
        """How long the last segment may be before the bound reaches `below`, the deadline or the last epoch."""
        target = self.instance.target
        room = target.max_epochs - counts.sum(axis=1)
        room = np.minimum(room, (target.deadline_s + SLACK - counts @ self._quickest) / self._quickest[last])
        if math.isfinite(below):
            within = np.zeros(len(counts))
            for slope, offset in zip(self._slopes, self._offsets, strict=True):
                fits = ((below - offset - counts @ slope.T) / np.maximum(slope[:, last], 1e-200)).min(axis=1)
                within = np.maximum(within, fits)
            room = np.minimum(room, within)
        return np.floor(room).astype(np.int64)

    def _finish(self, structure: Sequence[int], lengths: Counts, below: float, table: LossTable) -> Schedule | None:
        last = structure[-1]
        counts = self._counts(structure[:-1], lengths)
        longest = self._longest(counts, last, below)
        rows = table.rows(structure, lengths)
        kept = longest >= 1
        if table.sure:  # the longest has the least loss: without hope there, none anywhere
            kept &= table.hopeful(rows, last, np.maximum(longest, 0))
        lengths, counts, longest = lengths[kept], counts[kept], longest[kept]
        if not len(lengths):
            return None
        shortest = self._shortest(table, rows.take(np.flatnonzero(kept)), last, longest)
        met = shortest > 0
        lengths, counts, shortest = lengths[met], counts[met], shortest[met]
        counts[:, last] += shortest
        bounds = self.bound(counts)
        found: Schedule | None = None
        for i in np.argsort(bounds, kind="stable"):
            if bounds[i] >= below:
                break
            cost = self._cost(tuple(int(n) for n in counts[i]))
            if cost >= below:
                continue
            parts = [*lengths[i], shortest[i]]
            models = tuple(m for m, n in zip(structure, parts, strict=True) for _ in range(n))
            if isinstance(table, MeanTable) or self.holds(models):
                found, below = Schedule(models, cost), cost
        return found

    def holds(self, models: Sequence[int]) -> bool:
        """The exact check: the target is met with the probability asked."""
        asked = self.instance.target.probability
        return exact_probability(self.instance, self.chosen, models) >= asked - SLACK

    def _cost(self, counts: tuple[int, ...]) -> float:
        if counts not in self._costs:
            self._costs[counts] = self.allocator.solve(counts)[0]
        return self._costs[counts]

    def _shortest(self, table: LossTable, rows: Rows, last: int, longest: Counts) -> Counts:
        """The fewest epochs in the last segment that meet the target; 0 where none up to `longest` do."""
        asked = self.instance.target.probability - 2 * SLACK
        found = np.zeros(len(longest), np.int64)
        if not table.sure:  # more epochs might not help: try them all
            for n in range(1, int(longest.max()) + 1):
                open_ = np.flatnonzero((found == 0) & (longest >= n))
                meets = table.probability(rows.take(open_), last, np.full(len(open_), n)) >= asked
                found[open_[meets]] = n
            return found
        at = np.flatnonzero(table.probability(rows, last, longest) >= asked)
        some = rows.take(at)
        low, high = np.zeros(len(at), np.int64), longest[at]  # low does not meet it (0 stands for "not tried")
        while (high - low > 1).any():
            middle = np.where(high - low > 1, (low + high) // 2, high)
            meets = table.probability(some, last, middle) >= asked
            low, high = np.where(meets, low, middle), np.where(meets, middle, high)
        found[at] = high
        return found


def _multipliers(slots: Slots, deadline_s: float) -> Real:
    """sqrt(mu) from 0 to where full resources on the quickest cluster are best for every version."""
    runs = np.isfinite(slots.fixed)
    spent = np.where(runs, slots.price * slots.capability + slots.fixed, 0.0)
    gain_s = np.abs(slots.quickest_s[:, :, None] - slots.quickest_s[:, None, :])[runs[:, :, None] & runs[:, None, :]]
    step = gain_s[gain_s > 1e-9 * deadline_s].min(initial=deadline_s)
    high = max(2.0 * float(slots.limit[runs].max()), math.sqrt(float(np.ptp(spent[runs])) / step), 1e-6)
    low = max(min(0.5 * float(slots.root[runs].min()) / deadline_s, high / 4), high * 1e-6)
    return np.concatenate([[0.0], np.geomspace(low, high, _MULTIPLIERS)])
