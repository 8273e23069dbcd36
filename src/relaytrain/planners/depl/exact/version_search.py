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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....core.depl import DeplProblem
from ....core.fourier import SLACK, Counts, Real
from ..allocation import Allocator, worth_using
from ..allocation_dual import HUGE, bounds_below, bounds_near, multipliers
from ..schedule_losses import LossTable, exact_probability
from ..waterfill import epoch_slots
from .branch_and_bound import FAR, SchedulePrices, room, search
from .meets_target import probable
from .search_losses import MARGIN, SearchLosses

SWITCHES = 3
ALL_SEQUENCES = 5_000
"""If there are no more sequences of versions than this, any number of switches is searched."""
_AT_ONCE = 40
"""Epochs for which tables are made in one go if there are no more."""
_BATCH = 64
"""Schedules of a structure collected before their costs are looked at."""


@dataclass(frozen=True)
class VersionSchedule:
    """Versions, one an epoch, and what their best allocation costs."""

    versions: tuple[int, ...]
    cost: float


class VersionSearch:
    """The search for one choice of data; a `table` of losses may be shared by the searches for several choices."""

    def __init__(
        self, instance: DeplProblem, chosen: Sequence[int], *, switches: int = SWITCHES, table: LossTable | None = None
    ) -> None:
        target = instance.target
        switches = searched_switches(instance, switches)
        self._table = table
        self.instance, self.chosen, self.switches = instance, tuple(chosen), switches
        charge = instance.data_charge(chosen)
        useful = worth_using(instance.node_sets, charge, instance.admissible, instance.epoch_charge(chosen))
        slots = epoch_slots(instance, chosen, useful)
        self.allocator = Allocator(slots, charge[useful], target.deadline_s)
        self.quickest_s = np.minimum(slots.quickest_s.min(axis=1, initial=HUGE), HUGE)
        self._bounds: tuple[Real, Real] | None = None
        self._focused, self._level = math.inf, 0
        self._costs: dict[tuple[int, ...], float] = {}

    def best(self, *, below: float = math.inf, expected: float | None = None) -> VersionSchedule | None:
        """The cheapest schedule that costs less than `below`, or None.

        With `expected` the target is an expected loss of at most that, in place of the probability.
        """
        if self.least_epochs is None or not self.allocator.bounding:
            return None
        self._bounds = None if math.isinf(below) else bounds_below(self.allocator.dual, below)
        self._focused = math.inf
        most, cheapest = self.instance.max_epochs, None
        epochs = most if most <= _AT_ONCE else min(most, 2 * self.least_epochs + 4)  # tables for more are seldom needed
        for structures in self._structures:
            while len(structures):
                better = self._search(structures, epochs, below, expected)
                if better is not None:
                    cheapest, below = better, better.cost
                needed = most if epochs == most or math.isinf(below) else min(most, self.affordable(below))
                if needed <= epochs:
                    most = epochs  # what is found from now on is cheaper still
                    break
                epochs = min(needed, 2 * epochs) if math.isinf(below) else needed
        return cheapest

    def affordable(self, below: float) -> int:
        """So many epochs of any versions at most may cost less than `below`."""
        slopes, offsets = self.dual
        cheapest = np.maximum(slopes.min(axis=2), 1e-200)
        return int(np.minimum(((below - offsets) / cheapest).min(axis=1).max(), 1e9))

    @cached_property
    def _wide(self) -> tuple[Real, Real]:
        """The dual bound at multipliers from the lowest to the highest that matter."""
        return self.allocator.least(multipliers(self.allocator.slots.flat, self.allocator.deadline_s))

    @cached_property
    def least_epochs(self) -> int | None:
        """Fewer epochs cannot do, by means and variances alone; None if no number can."""
        return self.losses.fewest

    @cached_property
    def losses(self) -> SearchLosses:
        """The losses with the chosen data."""
        return SearchLosses(self.instance, self.chosen, self.switches, self._table)

    def floor(self) -> float:
        """A lower bound on the cost of any schedule, from means and variances alone; infinite if none can exist."""
        few = self.least_epochs
        if few is None or not self.allocator.bounding:
            return math.inf
        if few * self.quickest_s.min() > self.instance.target.deadline_s + SLACK:
            return math.inf
        slopes, offsets = self._wide
        return float((few * slopes.min(axis=2) + offsets).max(axis=1).min())

    @cached_property
    def _structures(self) -> tuple[Counts, Counts]:
        """The sequences of versions, each possible after the one before: single ones; the others, the shorter first.

        Rows are as long as the longest; -1 stands where there is no version.
        """
        allowed, before, count = self.instance.switches, self.instance.before, len(self.instance.versions)
        after = [[m for m in range(count) if m != a and allowed[a][m] is not None] for a in range(count)]
        firsts = [m for m in range(count) if before in (None, m) or (m in after[before] and self.switches > 0)]
        most = min(self.switches + 1, self.instance.max_epochs)
        level: list[tuple[int, ...]] = [(m,) for m in firsts]
        others: list[tuple[int, ...]] = []
        for length in range(2, most + 1):
            level = [(*way, m) for way in level for m in after[way[-1]]]
            others += [
                way + (-1,) * (most - length) for way in level if before in (None, way[0]) or length <= self.switches
            ]
        return np.array(firsts, np.int64)[:, None], np.array(others, np.int64).reshape(len(others), most)

    def focus(self, versions: Sequence[int]) -> None:
        """Bounds from now on by multipliers near the best one for `versions`: schedules of like cost share it."""
        self._bounds = bounds_near(self.allocator.dual, self._counts(versions))

    @property
    def dual(self) -> tuple[Real, Real]:
        """Slopes (subsets, multipliers, versions) and offsets (subsets, multipliers) of the present bound on cost."""
        return self._wide if self._bounds is None else self._bounds

    def _counts(self, versions: Sequence[int]) -> Real:
        return np.bincount(versions, minlength=len(self.instance.versions)).astype(np.float64)

    def priced(self, versions: Sequence[int]) -> tuple[Real, float]:
        """Slopes (versions,) and offset of the dual bound at the multiplier and node sets that suit `versions` best."""
        self.focus(versions)
        slopes, offsets = self.dual
        bounds = slopes @ self._counts(versions) + offsets
        used = int(bounds.max(axis=1).argmin())
        at = int(bounds[used].argmax())
        return slopes[used, at], float(offsets[used, at])

    def _search(self, structures: Counts, epochs: int, below: float, expected: float | None) -> VersionSchedule | None:
        """The best schedule of these structures that costs less than `below`."""
        by_mean, goal = expected is not None, self.losses.goal(expected=expected)
        losses = self.losses.losses(epochs, by_mean=by_mean, level=self._level)
        cheapest: VersionSchedule | None = None
        deadline_s, state = float(self.instance.target.deadline_s), room(structures.shape[1], epochs, _BATCH)
        while state.at[0] < len(structures):
            dual = self.allocator.nothing if self._bounds is None and math.isinf(below) else self.dual
            prices = SchedulePrices(*dual, self.quickest_s, deadline_s, epochs)
            count, prices = search(structures, losses, goal, prices, self.allocator.dual, below, self._focused, state)
            if state.best[0] > 0:
                below, self._focused = (float(cost) for cost in state.costs)
                self._bounds = prices.slopes, prices.offsets
                cheapest = VersionSchedule(repeated(structures[state.best[0] - 1], state.best[1:]), below)
            if count < 0:  # a close call: from now on with more frequencies
                self._level += 1
                losses = self.losses.losses(epochs, level=self._level)
            elif count > 0:
                lengths, bounds = state.lengths[:count], state.bounds[:count]
                better = self._cheapest(structures[state.at[2]], lengths, bounds, below, by_mean)
                if better is not None:
                    if better.cost < FAR * self._focused:
                        self.focus(better.versions)
                        self._focused = better.cost
                    cheapest, below = better, better.cost
        return cheapest

    def _cheapest(
        self, structure: Counts, lengths: Counts, bounds: Real, below: float, by_mean: bool
    ) -> VersionSchedule | None:
        """The best of these schedules that costs less than `below`; where it is a close call, checked exactly."""
        cheapest: VersionSchedule | None = None
        for i in np.argsort(bounds, kind="stable"):
            if bounds[i] >= below:
                break
            versions = repeated(structure, lengths[i])
            while (cost := self.cost(versions)) < below:
                if by_mean or self.holds(versions):
                    cheapest, below = VersionSchedule(versions, cost), cost
                elif len(versions) < self.instance.max_epochs:  # a hair short of the target: one epoch more
                    versions = (*versions, versions[-1])
                else:
                    break
        return cheapest

    def holds(self, versions: Sequence[int]) -> bool:
        """The target is met with the probability asked: by the search's table, exactly where it is a close call."""
        structure, ends = (np.array(part, np.int64) for part in segments_of(versions))
        goal, epochs = self.losses.goal(), max(len(versions), self.losses.epochs)
        for level in range(self._level, 3):
            losses = self.losses.losses(epochs, level=level)
            met = probable(losses, structure, ends, goal, goal.asked)
            surely = probable(losses, structure, ends, goal, goal.asked + 2 * MARGIN)
            if met == 0 or surely == 1:
                return bool(surely)
        return exact_probability(self.instance, self.chosen, versions) >= self.instance.target.probability - SLACK

    def cost(self, versions: Sequence[int]) -> float:
        """What the best allocation of the schedule costs; infinite if none meets the deadline."""
        counts = tuple(int(n) for n in np.bincount(versions, minlength=len(self.instance.versions)))
        if counts not in self._costs:
            self._costs[counts] = self.allocator.solve(counts)[0]
        return self._costs[counts]


def segments_of(versions: Sequence[int]) -> tuple[list[int], list[int]]:
    """The versions of a schedule's segments and the epochs that they end with."""
    ends = [i for i in range(1, len(versions)) if versions[i] != versions[i - 1]] + [len(versions)]
    return [versions[end - 1] for end in ends], ends


def searched_switches(instance: DeplProblem, switches: int) -> int:
    """As many as asked, or any number if there are few sequences of versions."""
    epochs = instance.max_epochs
    return epochs if len(instance.versions) ** epochs <= ALL_SEQUENCES else switches


def repeated(structure: Counts | Sequence[int], lengths: Counts) -> tuple[int, ...]:
    """The versions, one an epoch, of segments so long."""
    return tuple(np.repeat(structure, lengths).tolist())
