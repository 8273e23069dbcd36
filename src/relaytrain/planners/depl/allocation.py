"""Clusters and resources for a schedule of versions: water-filling with a multiplier, and a bound to hold it against.

An epoch's cluster matters only through work, size and cluster, so an assignment is how many epochs of each kind go to
each cluster. Few enough assignments are all solved; of more, the Lagrangian picks one on either side of the best
multiplier, those between the two are solved, and single moves improve the result. The Lagrangian's maximum is a lower
bound on every assignment's cost and is returned with the answer.

Paper: DepL section IV-C, objective (2) with kappa * x.
Deviations: the paper maps this stage to placing network functions; one deadline couples the epochs, nothing else does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from .instance import Cluster
from .waterfill import Slots, waterfill

Real = NDArray[np.float64]

EXHAUSTIVE = 20_000
"""Assignments solved one and all; beyond, the Lagrangian's neighbourhood."""
MANY_CLUSTERS = 8
"""Beyond so many clusters that carry data charges, not every set of clusters is tried."""


@dataclass(frozen=True)
class Allocation:
    """Cluster and resources of each epoch, their cost, and a lower bound on any allocation's cost."""

    feasible: bool
    cost: float
    clusters: tuple[int, ...]
    resources: tuple[float, ...]
    elapsed_s: float
    dual_bound: float


@dataclass(frozen=True)
class Allocator:
    """Allocations for any number of epochs of given kinds; `charge` is paid for each cluster used at all."""

    slots: Slots
    charge: Real
    deadline_s: float

    def solve(self, counts: Sequence[int]) -> tuple[float, Real, float]:
        """Least cost, its table (kinds, clusters) and sqrt(mu) for so many epochs of each kind; cost inf: too slow."""
        total = math.prod(math.comb(n + self.slots.shape[1] - 1, n) for n in counts)
        if total <= EXHAUSTIVE:
            return self._best(_assignments(tuple(counts), self.slots.shape[1]))
        found = min((self._near(counts, used) for used in self.subsets), key=lambda answer: answer[0])
        return self._improved(found)

    def least(self, root_mu: Real) -> tuple[Real, Real]:
        """The dual as a linear function of the counts: slopes (subsets, multipliers, kinds), offsets (subsets, multipliers).

        For any multiplier, counts @ slope + offset bounds from below what the epochs cost on that set of clusters.
        """
        values = self.slots.lagrangian(root_mu)
        few = self.subsets if len(self.charge) <= MANY_CLUSTERS else [tuple(range(len(self.charge)))]
        slopes = np.array([values[:, :, used].min(axis=2) for used in few])
        pay = [float(self.charge[list(used)].sum()) if len(few) > 1 else float(self.charge.min()) for used in few]
        return slopes, np.asarray(pay)[:, None] - root_mu**2 * self.deadline_s

    @cached_property
    def subsets(self) -> list[tuple[int, ...]]:
        """Sets of clusters worth trying: all there are, unless using a cluster is free."""
        everything = tuple(range(self.slots.shape[1]))
        if not self.charge.any():
            return [everything]
        sizes = range(1, len(everything) + 1) if len(everything) <= MANY_CLUSTERS else (1, 2, len(everything))
        return [used for size in sizes for used in itertools.combinations(everything, size)]

    def bound(self, counts: Sequence[int]) -> float:
        """A lower bound on the cost of any allocation (the dual's maximum, data charges included)."""
        if len(self.charge) <= MANY_CLUSTERS or not self.charge.any():
            return min(self._dual(counts, used) + float(self.charge[list(used)].sum()) for used in self.subsets)
        return self._dual(counts, tuple(range(len(self.charge)))) + float(self.charge.min())

    def _best(self, tables: Real) -> tuple[float, Real, float]:
        cost, root_mu = waterfill(self.slots, tables, self.deadline_s)
        cost = cost + (tables.sum(axis=1) > 0) @ self.charge
        at = int(cost.argmin())
        return float(cost[at]), tables[at], float(root_mu[at])

    def _sides(self, counts: Sequence[int], used: tuple[int, ...]) -> tuple[float, float]:
        """sqrt(mu) on either side of where the Lagrangian's own choice starts to meet the deadline."""
        low, high = 0.0, 1.0
        while self._time(counts, used, high) > self.deadline_s and high < 1e9:
            low, high = high, high * 4.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._time(counts, used, middle) > self.deadline_s else (low, middle)
        return low, high

    def _chosen(self, used: tuple[int, ...], root_mu: float) -> NDArray[np.int64]:
        values = self.slots.lagrangian(np.array([root_mu]))[0][:, used]
        return np.asarray(used)[values.argmin(axis=1)]

    def _time(self, counts: Sequence[int], used: tuple[int, ...], root_mu: float) -> float:
        kind, cluster = np.arange(len(counts)), self._chosen(used, root_mu)
        with np.errstate(divide="ignore"):
            computing = np.maximum(self.slots.full_s, self.slots.root / np.float64(root_mu))[kind, cluster]
        return float(np.asarray(counts) @ (computing + self.slots.link_s[kind, cluster]))

    def _dual(self, counts: Sequence[int], used: tuple[int, ...]) -> float:
        sides = np.array(self._sides(counts, used))
        least = self.slots.lagrangian(sides)[:, :, used].min(axis=2)
        return float((least @ np.asarray(counts) - sides**2 * self.deadline_s).max())

    def _near(self, counts: Sequence[int], used: tuple[int, ...]) -> tuple[float, Real, float]:
        """The best on the way from the slow side's assignment to the fast side's, an epoch at a time."""
        slow, fast = (self._chosen(used, side) for side in self._sides(counts, used))
        table = np.zeros(self.slots.shape)
        table[np.arange(len(counts)), slow] = counts
        path = [table.copy()]
        for kind in (int(k) for k in np.flatnonzero(slow != fast)):
            for _ in range(counts[kind]):
                table[kind, slow[kind]] -= 1
                table[kind, fast[kind]] += 1
                path.append(table.copy())
        return self._best(np.array(path))

    def _improved(self, found: tuple[float, Real, float]) -> tuple[float, Real, float]:
        while math.isfinite(found[0]):
            moves = list(_moves(found[1]))
            better = self._best(np.array(moves)) if moves else found
            if better[0] >= found[0] * (1 - 1e-12):
                break
            found = better
        return found


def _moves(table: Real) -> Iterator[Real]:
    kinds, clusters = table.shape
    for kind, source, sink in itertools.product(range(kinds), range(clusters), range(clusters)):
        if source != sink and table[kind, source] > 0:
            for many in {1.0, table[kind, source]}:
                moved = table.copy()
                moved[kind, source] -= many
                moved[kind, sink] += many
                yield moved


@lru_cache(maxsize=64)
def _assignments(counts: tuple[int, ...], clusters: int) -> Real:
    """All tables (n, kinds, clusters) with these row sums."""
    rows = [list(_compositions(n, clusters)) for n in counts]
    return np.array(list(itertools.product(*rows)), np.float64).reshape(-1, len(counts), clusters)


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def worth_using(clusters: Sequence[Cluster], charge: Real) -> list[int]:
    """Clusters that no other beats in capability, bandwidth, price and charge alike (of equals, the first)."""
    kept: list[int] = []
    rows = [(-c.capability, -c.bandwidth, c.price, float(q)) for c, q in zip(clusters, charge, strict=True)]
    for i, row in enumerate(rows):
        others = (other for j, other in enumerate(rows) if j < i or (j > i and other != row))
        if not any(all(a <= b for a, b in zip(other, row, strict=True)) for other in others):
            kept.append(i)
    return kept


def slots_for(kinds: Sequence[tuple[float, float]], clusters: Sequence[Cluster]) -> Slots:
    """Slots from (work, size) of each kind of epoch."""
    return Slots(
        np.array([c for c, _ in kinds], np.float64),
        np.array([s for _, s in kinds], np.float64),
        np.array([n.capability for n in clusters], np.float64),
        np.array([n.bandwidth for n in clusters], np.float64),
        np.array([n.price for n in clusters], np.float64),
    )


def allocate(
    epochs: Sequence[tuple[float, float]], clusters: Sequence[Cluster], deadline_s: float, charge: Sequence[float]
) -> Allocation:
    """Cluster and resources for each epoch, given as (work, size), at least cost within the deadline."""
    paid = np.asarray(charge, np.float64)
    useful = worth_using(clusters, paid)
    kinds = sorted(set(epochs))
    slots = slots_for(kinds, [clusters[n] for n in useful])
    allocator = Allocator(slots, paid[useful], deadline_s)
    counts = [epochs.count(kind) for kind in kinds]
    cost, table, root_mu = allocator.solve(counts)
    if not math.isfinite(cost):
        return Allocation(False, math.inf, (), (), math.inf, math.inf)
    table = table.copy()  # tables are shared between calls
    chosen, resources, elapsed_s = [], [], 0.0
    for work, size in epochs:
        kind = kinds.index((work, size))
        n = int(np.flatnonzero(table[kind])[0])
        table[kind, n] -= 1
        cluster = clusters[useful[n]]
        x = min(cluster.capability, root_mu * math.sqrt(work / cluster.price))
        chosen.append(useful[n])
        resources.append(x)
        elapsed_s += work / x + size / cluster.bandwidth
    return Allocation(True, cost, tuple(chosen), tuple(resources), elapsed_s, min(cost, allocator.bound(counts)))
