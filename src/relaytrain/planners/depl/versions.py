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

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from .allocation import HUGE, Allocator, worth_using
from .boxes import Prices, candidates, room
from .enumeration import SLACK, Counts, Goal, Losses, meets
from .instance import Instance
from .losses import MARGIN, DataLosses, LossTable, exact_probability, fewest_epochs
from .waterfill import Slots, slots_for

Real = NDArray[np.float64]

SWITCHES = 3
ALL_SEQUENCES = 5_000
"""If there are no more sequences of versions than this, any number of switches is searched."""
_MULTIPLIERS = 120
_FOCUS = 7
"""Multipliers kept between the neighbours of the best one once a schedule is known."""
_FAR = 0.97
"""Multipliers are looked for again when the cost is less than this share of the one they were found for."""
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
        self.quickest_s = np.minimum(slots.quickest_s.min(axis=1, initial=HUGE), HUGE)
        self._grid = _multipliers(slots, target.deadline_s) if useful else np.zeros(1)
        self._wide = self.allocator.least(self._grid)
        self._bound_by(self._wide)
        self._costs: dict[tuple[int, ...], float] = {}
        self._focused = math.inf
        self._tables: dict[tuple[int, int, bool], Losses] = {}
        self._known: dict[int, list[tuple[int, ...]]] = {}

    def best(self, *, below: float = math.inf, expected: float | None = None) -> Schedule | None:
        """The cheapest schedule that costs less than `below`, or None.

        With `expected` the target is an expected loss of at most that, in place of the probability.
        """
        if self.least_epochs is None or not self.allocator.bounding:
            return None
        self._bound_by(self._wide)
        self._focused = math.inf
        most, found = self.instance.target.max_epochs, None
        epochs = min(most, 2 * self.least_epochs + 4)  # tables for more are seldom needed
        for segments in range(1, self.switches + 2):
            while True:
                better = self._search(segments, epochs, below, expected)
                if better is not None:
                    found, below = better, better.cost
                needed = most if math.isinf(below) else min(most, self.affordable(below))
                if needed <= epochs:
                    break
                epochs = min(needed, 2 * epochs) if math.isinf(below) else needed
        return found

    def affordable(self, below: float) -> int:
        """So many epochs of any versions at most may cost less than `below`."""
        cheapest = np.maximum(self._slopes.min(axis=2), 1e-200)
        return int(np.minimum(((below - self._offsets) / cheapest).min(axis=1).max(), 1e9))

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
        if few * self.quickest_s.min() > self.instance.target.deadline_s + SLACK:
            return math.inf
        slopes, offsets = self._wide
        return float((few * slopes.min(axis=2) + offsets).max(axis=1).min())

    def _structures(self, segments: int) -> list[tuple[int, ...]]:
        """The sequences of so many versions, each possible after the one before it."""
        if segments not in self._known:
            allowed, before, count = self.instance.switches, self.instance.before, len(self.instance.models)
            firsts = [m for m in range(count) if before is None or before == m or allowed[before][m] is not None]
            found: list[tuple[int, ...]] = [(m,) for m in firsts]
            for _ in range(segments - 1):
                found = [(*way, m) for way in found for m in range(count) if m != way[-1] and allowed[way[-1]][m] is not None]
            most = self.switches + 1
            self._known[segments] = [way for way in found if len(way) + (before not in (None, way[0])) <= most]
        return self._known[segments]

    def focus(self, models: Sequence[int]) -> None:
        """Bounds from now on by multipliers near the best one for `models`: schedules of like cost share it."""
        counts = np.bincount(models, minlength=len(self.instance.models))
        slopes, offsets = self._wide
        best = (slopes @ counts + offsets).argmax(axis=1)
        low, high = self._grid[np.maximum(best - 1, 0)], self._grid[np.minimum(best + 1, len(self._grid) - 1)]
        near = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _FOCUS)
        self._bound_by(self.allocator.least(near))

    @property
    def dual(self) -> tuple[Real, Real]:
        """Slopes (subsets, multipliers, models) and offsets (subsets, multipliers) of the present bound on cost."""
        return self._slopes, self._offsets

    def priced(self, models: Sequence[int]) -> tuple[Real, float]:
        """Slopes (models,) and offset of the dual bound at the multiplier, and set of clusters, that suit `models` best."""
        self.focus(models)
        counts = np.bincount(models, minlength=len(self.instance.models))
        bounds = self._slopes @ counts + self._offsets
        used = int(bounds.max(axis=1).argmin())
        at = int(bounds[used].argmax())
        return self._slopes[used, at], float(self._offsets[used, at])

    def _bound_by(self, dual: tuple[Real, Real]) -> None:
        self._slopes, self._offsets = dual
        self._by_model = np.ascontiguousarray(self._slopes.transpose(2, 0, 1))

    def _search(self, segments: int, epochs: int, below: float, expected: float | None) -> Schedule | None:
        """The best schedule of so many segments that costs less than `below`."""
        structures = self._structures(segments)
        if not structures or segments > epochs:
            return None
        deadline_s, rows = float(self.instance.target.deadline_s), np.array(structures)
        key = (segments, epochs, expected is None)
        if key not in self._tables:
            self._tables[key] = self.losses.losses(structures, epochs, by_mean=expected is not None)
        losses = self._tables[key]
        goal = self.losses.goal(expected=expected)
        found: Schedule | None = None
        at, boxes = np.zeros(3, np.int64), room(segments, epochs)
        lengths, bounds = np.empty((_BATCH, segments), np.int64), np.empty(_BATCH)
        while at[0] < len(structures):
            prices = Prices(self._by_model, self._offsets, self.quickest_s, deadline_s, epochs)
            count = candidates(rows, losses, goal, prices, below, at, boxes, lengths, bounds)
            which = int(at[2])
            surely = partial(self._surely, which, rows[which], losses, goal)
            better = self._cheapest(rows[which], lengths[:count], bounds[:count], below, surely)
            if better is not None:
                if better.cost < _FAR * self._focused:
                    self.focus(better.models)
                    self._focused = better.cost
                found, below = better, better.cost
        return found

    def _surely(self, which: int, structure: Counts, losses: Losses, goal: Goal, lengths: Counts) -> bool:
        """The target is met by so much that the searched table's own error cannot matter."""
        if goal.by_mean:
            return True
        ends = np.cumsum(lengths)
        return bool(meets(losses, which, structure, ends, goal._replace(asked=goal.asked + 2 * MARGIN)))

    def _cheapest(
        self, structure: Counts, lengths: Counts, bounds: Real, below: float, surely: Callable[[Counts], bool]
    ) -> Schedule | None:
        """The best of these schedules that costs less than `below`; where it is a close call, checked exactly."""
        found: Schedule | None = None
        for i in np.argsort(bounds, kind="stable"):
            if bounds[i] >= below:
                break
            models = tuple(int(m) for m in np.repeat(structure, lengths[i]))
            if self.cost(models) < below and surely(lengths[i]):
                found, below = Schedule(models, self.cost(models)), self.cost(models)
            while (cost := self.cost(models)) < below:
                if self.holds(models):
                    found, below = Schedule(models, cost), cost
                elif len(models) < self.instance.target.max_epochs:  # a hair short of the target: one epoch more
                    models = (*models, models[-1])
                else:
                    break
        return found

    def holds(self, models: Sequence[int]) -> bool:
        """The target is met with the probability asked: by the search's table, exactly where it is a close call."""
        structure, ends = segments_of(models)
        table = self.losses.losses([structure], max(len(models), self.losses.table.epochs))
        goal = self.losses.goal()
        if not meets(table, 0, np.array(structure), np.array(ends), goal):
            return False
        if meets(table, 0, np.array(structure), np.array(ends), goal._replace(asked=goal.asked + 2 * MARGIN)):
            return True
        return exact_probability(self.instance, self.chosen, models) >= self.instance.target.probability - SLACK

    def cost(self, models: Sequence[int]) -> float:
        """What the best allocation of the schedule costs; infinite if none meets the deadline."""
        counts = tuple(int(n) for n in np.bincount(models, minlength=len(self.instance.models)))
        if counts not in self._costs:
            self._costs[counts] = self.allocator.solve(counts)[0]
        return self._costs[counts]


def segments_of(models: Sequence[int]) -> tuple[list[int], list[int]]:
    """The versions of a schedule's segments and the epochs that they end with."""
    ends = [i for i in range(1, len(models)) if models[i] != models[i - 1]] + [len(models)]
    return [models[end - 1] for end in ends], ends


def searched_switches(instance: Instance, switches: int) -> int:
    """As many as asked, or any number if there are few sequences of versions."""
    epochs = instance.target.max_epochs
    return epochs if len(instance.models) ** epochs <= ALL_SEQUENCES else switches


def _multipliers(slots: Slots, deadline_s: float) -> Real:
    """sqrt(mu) from 0 to where full resources on the quickest cluster are best for every version."""
    runs = np.isfinite(slots.fixed)
    spent = np.where(runs, slots.price * slots.capability + slots.fixed, 0.0)
    full_s = slots.full_s + slots.link_s
    gain_s = np.abs(full_s[:, :, None] - full_s[:, None, :])[runs[:, :, None] & runs[:, None, :]]
    step = gain_s[gain_s > 1e-9 * deadline_s].min(initial=deadline_s)
    high = max(2.0 * float(slots.limit[runs].max()), math.sqrt(float(np.ptp(spent[runs])) / step), 1e-6)
    low = max(min(0.5 * float(slots.root[runs].min()) / deadline_s, high / 4), high * 1e-6)
    return np.concatenate([[0.0], np.geomspace(low, high, _MULTIPLIERS)])
