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
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .allocation import HUGE, Allocator, worth_using
from .enumeration import SLACK, Prices, candidates
from .instance import Instance
from .losses import DataLosses, LossTable, exact_probability, fewest_epochs
from .waterfill import Slots, slots_for

Real = NDArray[np.float64]

SWITCHES = 3
ALL_SEQUENCES = 5_000
"""If there are no more sequences of versions than this, any number of switches is searched."""
_MULTIPLIERS = 120
_FOCUS = 7
"""Multipliers kept between the neighbours of the best one once a schedule is known."""
_BATCH = 64
"""Schedules of a structure collected before their costs are looked at."""


@dataclass(frozen=True)
class Schedule:
    """Versions, one an epoch, and what their best allocation costs."""

    models: tuple[int, ...]
    cost: float


class VersionSearch:
    """The search for one choice of data; a `table` of losses may be shared by the searches for several choices."""

    def __init__(
        self, instance: Instance, chosen: Sequence[int], *, switches: int = SWITCHES, table: LossTable | None = None
    ) -> None:
        target = instance.target
        switches = searched_switches(instance, switches)
        self._table = table
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

    def best(self, *, below: float = math.inf, expected: float | None = None) -> Schedule | None:
        """The cheapest schedule that costs less than `below`, or None.

        With `expected` the target is an expected loss of at most that, in place of the probability.
        """
        if self.least_epochs is None or not self.allocator.bounding:
            return None
        self._slopes, self._offsets = self._wide
        found: Schedule | None = None
        for segments in range(1, self.switches + 2):
            for structure in self._structures(segments):
                better = self._search(structure, below, expected)
                if better is not None:
                    found, below = better, better.cost
                    self._focus(better.models)
        return found

    @cached_property
    def least_epochs(self) -> int | None:
        """Fewer epochs cannot do, by means and variances alone; None if no number can."""
        return fewest_epochs(self.instance, self.instance.data_gain(self.chosen), self.switches)

    @cached_property
    def losses(self) -> DataLosses:
        """The losses with the chosen data."""
        return DataLosses(self.instance, self.chosen, self.switches, self._table)

    def floor(self) -> float:
        """A lower bound on the cost of any schedule, from means and variances alone; infinite if none can exist."""
        few = self.least_epochs
        if few is None or not self.allocator.bounding:
            return math.inf
        if few * self._quickest.min() > self.instance.target.deadline_s + SLACK:
            return math.inf
        slopes, offsets = self._wide
        return float((few * slopes.min(axis=2) + offsets).max(axis=1).min())

    def _structures(self, segments: int) -> Iterator[tuple[int, ...]]:
        allowed, before = self.instance.switches, self.instance.before
        for structure in itertools.product(range(len(self.instance.models)), repeat=segments):
            taken = list(itertools.pairwise(structure))
            if before is not None and structure[0] != before:
                taken.append((before, structure[0]))
            if len(taken) <= self.switches and all(a != b and allowed[a][b] is not None for a, b in taken):
                yield structure

    def _focus(self, models: Sequence[int]) -> None:
        """Bounds from now on by multipliers near the best one for `models`: schedules of like cost share it."""
        counts = np.bincount(models, minlength=len(self.instance.models))
        slopes, offsets = self._wide
        best = (slopes @ counts + offsets).argmax(axis=1)
        low, high = self._grid[np.maximum(best - 1, 0)], self._grid[np.minimum(best + 1, len(self._grid) - 1)]
        near = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _FOCUS)
        self._slopes, self._offsets = self.allocator.least(near)

    def _search(self, structure: Sequence[int], below: float, expected: float | None) -> Schedule | None:
        target, versions = self.instance.target, np.array(structure)
        losses = self.losses.losses(structure, by_mean=expected is not None)
        goal = self.losses.goal(expected=expected)
        found: Schedule | None = None
        first, size = 0, _BATCH
        while first >= 0:
            slopes = np.ascontiguousarray(self._slopes.transpose(2, 0, 1))
            prices = Prices(slopes, self._offsets, self._quickest, float(target.deadline_s), target.max_epochs)
            lengths, bounds = np.empty((size, len(structure)), np.int64), np.empty(size)
            count, resume = candidates(versions, losses, goal, prices, below, first, lengths, bounds)
            better = self._cheapest(versions, lengths[:count], bounds[:count], below, expected)
            if better is not None:
                found, below = better, better.cost
                self._focus(better.models)
            first, size = resume, size if resume > first else 4 * size
        return found

    def _cheapest(
        self, structure: NDArray[np.int64], lengths: NDArray[np.int64], bounds: Real, below: float, expected: float | None
    ) -> Schedule | None:
        """The best of these schedules that costs less than `below`, its target checked exactly."""
        found: Schedule | None = None
        for i in np.argsort(bounds, kind="stable"):
            if bounds[i] >= below:
                break
            models = tuple(int(m) for m in np.repeat(structure, lengths[i]))
            while (cost := self.cost(models)) < below:
                if expected is not None or self.holds(models):
                    found, below = Schedule(models, cost), cost
                elif len(models) < self.instance.target.max_epochs:  # a hair short of the target: one epoch more
                    models = (*models, models[-1])
                else:
                    break
        return found

    def holds(self, models: Sequence[int]) -> bool:
        """The exact check: the target is met with the probability asked."""
        asked = self.instance.target.probability
        return exact_probability(self.instance, self.chosen, models) >= asked - SLACK

    def cost(self, models: Sequence[int]) -> float:
        """What the best allocation of the schedule costs; infinite if none meets the deadline."""
        counts = tuple(int(n) for n in np.bincount(models, minlength=len(self.instance.models)))
        if counts not in self._costs:
            self._costs[counts] = self.allocator.solve(counts)[0]
        return self._costs[counts]


def searched_switches(instance: Instance, switches: int) -> int:
    """As many as asked, or any number if there are few sequences of versions."""
    epochs = instance.target.max_epochs
    return epochs if len(instance.models) ** epochs <= ALL_SEQUENCES else switches


def _multipliers(slots: Slots, deadline_s: float) -> Real:
    """sqrt(mu) from 0 to where full resources on the quickest cluster are best for every version."""
    runs = np.isfinite(slots.fixed)
    spent = np.where(runs, slots.price * slots.capability + slots.fixed, 0.0)
    quickest = np.where(runs, slots.quickest_s, 0.0)
    gain_s = np.abs(quickest[:, :, None] - quickest[:, None, :])[runs[:, :, None] & runs[:, None, :]]
    step = gain_s[gain_s > 1e-9 * deadline_s].min(initial=deadline_s)
    high = max(2.0 * float(slots.limit[runs].max()), math.sqrt(float(np.ptp(spent[runs])) / step), 1e-6)
    low = max(min(0.5 * float(slots.root[runs].min()) / deadline_s, high / 4), high * 1e-6)
    return np.concatenate([[0.0], np.geomspace(low, high, _MULTIPLIERS)])
