"""Node sets and resources for a schedule of versions: water-filling with a multiplier, and a bound to hold it against.

An epoch's node set matters only through work, size and node set, so an assignment is how many epochs of each kind go to
each node set. Few enough assignments are all solved; of more, the Lagrangian picks one on either side of the best
multiplier, those between the two are solved, and single moves improve the result. The Lagrangian's maximum is a lower
bound on every assignment's cost and is returned with the answer.

Paper: DepL section IV-C. Objective (2) as printed is `rate`, energy is `usage` (see `core.depl`); both are the same
problem with other coefficients, so both get their own optimum and bound. The paper's 1 + epsilon is `within`: stop as
soon as the cost is within that factor of the bound.
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

from ...core.depl import DeplNodeSet, DeplProblem, Objective
from ...core.fourier import Real
from .allocation_dual import HUGE, Dual, bounds_at
from .waterfill import Slots, filled, sides, slots_for, waterfill

EXHAUSTIVE = 20_000
"""Assignments solved one and all; beyond, the Lagrangian's neighbourhood."""
PAIRS = 5_000
"""Pairs of moves tried at once; with more, single moves have to do."""
MANY_NODE_SETS = 8
"""Beyond so many node sets that carry data charges, not every group of node sets is tried."""


@dataclass(frozen=True)
class Allocation:
    """Node set and resources of each epoch, their cost, and a lower bound on any allocation's cost."""

    feasible: bool
    cost: float
    node_sets: tuple[int, ...]
    resources: tuple[float, ...]
    elapsed_s: float
    dual_bound: float


@dataclass(frozen=True)
class Allocator:
    """Allocations for any number of epochs of given kinds; `charge` is paid for each node set used at all."""

    slots: Slots
    charge: Real
    deadline_s: float

    def solve(self, counts: Sequence[int], *, within: float = 0.0) -> tuple[float, Real, float]:
        """Least cost, its table (kinds, node sets) and sqrt(mu) for so many epochs of each kind; cost inf: impossible.

        With `within` > 0 the first allocation that costs at most 1 + within times the dual bound will do.
        """
        if not self.subsets:
            return math.inf, np.zeros(self.slots.shape), 0.0
        if self.slots.shape[1] == 1:
            cost, root_mu = filled(np.asarray(counts, np.float64), self.slots.flat, self.deadline_s)
            return cost + float(self.charge[0]), np.asarray(counts, np.float64)[:, None], root_mu
        total = math.prod(math.comb(n + self.slots.shape[1] - 1, n) for n in counts)
        if within <= 0.0 and total <= EXHAUSTIVE:
            return self._best(_assignments(tuple(counts), self.slots.shape[1]))
        best = min((self._near(counts, used) for used in self.subsets), key=lambda answer: answer[0])
        if within > 0.0 and best[0] <= (1.0 + within) * self.bound(counts):
            return best
        if total <= EXHAUSTIVE:
            return self._best(_assignments(tuple(counts), self.slots.shape[1]))
        return self._improved(self._other_sets(counts, best))

    def least(self, root_mu: Real) -> tuple[Real, Real]:
        """The dual, linear in the counts: slopes (subsets, multipliers, kinds) and offsets (subsets, multipliers).

        For any multiplier, counts @ slope + offset bounds from below what the epochs cost on that group of node sets.
        `root_mu` is (multipliers,), or (subsets, multipliers) with a row for each of `bounding`.
        """
        return bounds_at(
            self.dual, np.ascontiguousarray(np.broadcast_to(root_mu, (len(self.bounding), root_mu.shape[-1])))
        )

    @cached_property
    def nothing(self) -> tuple[Real, Real]:
        """The least bound there is, 0 whatever the counts."""
        sets = len(self.bounding)
        return np.zeros((sets, 1, self.slots.shape[0])), np.zeros((sets, 1))

    @cached_property
    def dual(self) -> Dual:
        """For compiled code."""
        used = np.zeros((len(self.bounding), len(self.charge)), np.bool_)
        for i, node_sets in enumerate(self.bounding):
            used[i, list(node_sets)] = True
        return Dual(self.slots.flat, used, np.array(self._paid, np.float64), float(self.deadline_s))

    @cached_property
    def bounding(self) -> list[tuple[int, ...]]:
        """Groups of node sets that bounds tell apart: all that matter, or everything at once when there are many."""
        everything = tuple(range(len(self.charge)))
        return self.subsets if len(everything) <= MANY_NODE_SETS else [everything]

    @cached_property
    def _paid(self) -> list[float]:
        if len(self.bounding) == 1:
            return [float(self.charge.min())]
        return [float(self.charge[list(used)].sum()) for used in self.bounding]

    @cached_property
    def subsets(self) -> list[tuple[int, ...]]:
        """Sets of node sets worth trying: all there are, unless using a node set is free."""
        everything = tuple(range(self.slots.shape[1]))
        if not self.charge.any():
            return [everything] if everything else []
        sizes = range(1, len(everything) + 1) if len(everything) <= MANY_NODE_SETS else (1, 2, len(everything))
        return [used for size in sizes for used in itertools.combinations(everything, size)]

    def bound(self, counts: Sequence[int]) -> float:
        """A lower bound on the cost of any allocation (the dual's maximum, data charges included)."""
        pairs = zip(self.bounding, self._paid, strict=True)
        return min((self._dual(counts, used) + paid for used, paid in pairs), default=math.inf)

    def _best(self, tables: Real) -> tuple[float, Real, float]:
        cost, root_mu = waterfill(self.slots, tables, self.deadline_s)
        cost = cost + (tables.sum(axis=1) > 0) @ self.charge
        at = int(cost.argmin())
        return float(cost[at]), tables[at], float(root_mu[at])

    def _sides(self, counts: Sequence[int], used: tuple[int, ...]) -> tuple[float, float]:
        """sqrt(mu) on either side of where the Lagrangian's own choice starts to meet the deadline."""
        low, high = sides(np.asarray(counts, np.float64), np.array(used), self.slots.flat, self.deadline_s)
        return float(low), float(high)

    def _chosen(self, used: tuple[int, ...], root_mu: float) -> NDArray[np.int64]:
        values = self.slots.lagrangian(np.array([root_mu]))[0][:, used]
        return np.asarray(used)[values.argmin(axis=1)]

    def _dual(self, counts: Sequence[int], used: tuple[int, ...]) -> float:
        ends = np.array(self._sides(counts, used))
        least = np.minimum(self.slots.lagrangian(ends)[:, :, used].min(axis=2), HUGE)
        return float((least @ np.asarray(counts) - ends**2 * self.deadline_s).max())

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

    def _other_sets(self, counts: Sequence[int], best: tuple[float, Real, float]) -> tuple[float, Real, float]:
        """Groups one node set larger or smaller than the best one's, as long as that helps; for many node sets only."""
        everything = range(self.slots.shape[1])
        while len(self.bounding) < len(self.subsets) and math.isfinite(best[0]):
            used = {int(n) for n in np.flatnonzero(best[1].any(axis=0))}
            sets = [tuple(sorted(used ^ {n})) for n in everything]
            better = min((self._near(counts, near) for near in sets if near), key=lambda answer: answer[0])
            if better[0] >= best[0] * (1 - 1e-12):
                break
            best = better
        return best

    def _improved(self, best: tuple[float, Real, float]) -> tuple[float, Real, float]:
        """Single moves while one helps, then pairs of them: a slower epoch here may pay for a quicker one there."""
        while math.isfinite(best[0]):
            moves = _moves(best[1])
            better = self._best(best[1] + moves) if len(moves) else best
            if better[0] >= best[0] * (1 - 1e-12) and 0 < len(moves) ** 2 <= PAIRS:
                both = (moves[:, None] + moves[None]).reshape(-1, *best[1].shape) + best[1]
                both = both[(both >= 0).all(axis=(1, 2))]
                better = self._best(both)
            if better[0] >= best[0] * (1 - 1e-12):
                break
            best = better
        return best


def _moves(table: Real) -> Real:
    """Changes of the table by one or all epochs of a kind going from a node set to another, (n, kinds, node sets)."""
    kinds, node_sets = table.shape
    moves: list[Real] = []
    for kind, source, sink in itertools.product(range(kinds), range(node_sets), range(node_sets)):
        if source != sink and table[kind, source] > 0:
            for many in {1.0, table[kind, source]}:
                moved = np.zeros_like(table)
                moved[kind, source], moved[kind, sink] = -many, many
                moves.append(moved)
    return np.array(moves)


@lru_cache(maxsize=64)
def _assignments(counts: tuple[int, ...], node_sets: int) -> Real:
    """All tables (n, kinds, node sets) with these row sums."""
    rows = [list(_compositions(n, node_sets)) for n in counts]
    return np.array(list(itertools.product(*rows)), np.float64).reshape(-1, len(counts), node_sets)


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def worth_using(
    node_sets: Sequence[DeplNodeSet], charge: Real, runs_on: NDArray[np.bool_] | None = None, each: Real | None = None
) -> list[int]:
    """Node sets that data can reach and that no other beats in every respect alike (of equals, the first)."""
    each = np.zeros(len(node_sets)) if each is None else each
    never = [[False]] * len(node_sets) if runs_on is None else (~runs_on).T.tolist()
    rows = [
        (-c.capability, -c.bandwidth, c.price, float(q), float(e), c.link_power, c.price * c.waiting, *not_here)
        for c, q, e, not_here in zip(node_sets, charge, each, never, strict=True)
    ]
    kept: list[int] = []
    for i, row in enumerate(rows):
        others = (other for j, other in enumerate(rows) if j < i or (j > i and other != row))
        beaten = any(all(a <= b for a, b in zip(other, row, strict=True)) for other in others)
        if math.isfinite(row[3]) and not all(never[i]) and not beaten:
            kept.append(i)
    return kept


def allocated(
    instance: DeplProblem, chosen: Sequence[int], versions: Sequence[int], *, within: float = 0.0
) -> Allocation:
    """Node set and resources for each epoch of a schedule with the data chosen."""
    return allocate(
        instance.kinds_of(chosen, versions),
        instance.node_sets,
        instance.target.deadline_s,
        instance.data_charge(chosen).tolist(),
        objective=instance.objective,
        runs_on=instance.admissible[list(versions)],
        within=within,
        each=instance.epoch_charge(chosen).tolist(),
    )


def allocate(
    epochs: Sequence[tuple[float, float]],
    node_sets: Sequence[DeplNodeSet],
    deadline_s: float,
    charge: Sequence[float],
    *,
    objective: Objective = "rate",
    runs_on: NDArray[np.bool_] | None = None,
    within: float = 0.0,
    each: Sequence[float] | None = None,
) -> Allocation:
    """Node set and resources for each epoch, given as (work, size), at least cost within the deadline.

    `charge` is paid for each node set used at all, an infinite one rules the node set out; `each` in every epoch there.
    `runs_on`, shape (epochs, node sets), tells which epoch may run where.
    """
    paid = np.asarray(charge, np.float64)
    every = np.zeros(len(node_sets)) if each is None else np.asarray(each, np.float64)
    places = (
        [tuple(row) for row in runs_on.tolist()] if runs_on is not None else [(True,) * len(node_sets)] * len(epochs)
    )
    keys = [(work, size, where) for (work, size), where in zip(epochs, places, strict=True)]
    kinds = sorted(set(keys))
    may = np.array([where for _, _, where in kinds], np.bool_).reshape(len(kinds), len(node_sets))
    useful = worth_using(node_sets, paid, may, every)
    used = [node_sets[n] for n in useful]
    slots = slots_for([kind[:2] for kind in kinds], used, objective, may[:, useful], every[useful])
    allocator = Allocator(slots, paid[useful], deadline_s)
    counts = [keys.count(kind) for kind in kinds]
    cost, table, root_mu = allocator.solve(counts, within=within)
    if not math.isfinite(cost):
        return Allocation(False, math.inf, (), (), math.inf, math.inf)
    x, link_s = slots.resources(root_mu).tolist(), slots.link_s.tolist()
    left = {
        kind: iter(np.repeat(useful, row.astype(np.int64)).tolist()) for kind, row in zip(kinds, table, strict=True)
    }
    row_of, column_of = {kind: i for i, kind in enumerate(kinds)}, {n: i for i, n in enumerate(useful)}
    chosen, resources, elapsed_s = [], [], 0.0
    for key in keys:
        chosen.append(next(left[key]))
        kind, n = row_of[key], column_of[chosen[-1]]
        resources.append(x[kind][n])
        elapsed_s += key[0] / resources[-1] + link_s[kind][n]
    return Allocation(True, cost, tuple(chosen), tuple(resources), elapsed_s, min(cost, allocator.bound(counts)))
