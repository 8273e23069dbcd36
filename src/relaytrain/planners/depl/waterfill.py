"""Resources for fixed node sets: x_k = min(r, sqrt(mu c / a)), with mu such that the deadline is met exactly.

A slot is an epoch of some kind on some node set. Both objectives are `a x + fixed` in it: for `rate` a is the price;
for `usage` computing takes price * work joules whatever x, and a = price * waiting * s / b is what holding x costs
while the version is sent. Epochs that share a slot share x, so an assignment is a table of counts over (kind of epoch,
node set). The order in which slots reach their node set's capability as mu grows does not depend on the counts: it is
sorted once, and any number of assignments is solved together.

Paper: DepL section IV-C; objective (2) as printed, kappa * x, is `rate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.depl import DeplNodeSet, DeplProblem, Objective
from ...core.fourier import Real
from ...core.state import TOLERANCE
from ..search.kernels import inlined, jit


@dataclass(frozen=True)
class Slots:
    """Kinds of epochs against node sets; all arrays have shape (kinds, node sets)."""

    work: Real
    capability: Real
    link_s: Real
    """s / b."""
    price: Real
    """a: what a unit of resources costs in one epoch."""
    fixed: Real
    """What an epoch costs whatever its resources; infinite where the kind cannot run on the node set."""

    @property
    def shape(self) -> tuple[int, int]:
        """(kinds, node sets)."""
        return self.work.shape[0], self.work.shape[1]

    @cached_property
    def full_s(self) -> Real:
        """c / r, the computing time at full resources."""
        return np.asarray(self.work / self.capability, np.float64)

    @cached_property
    def root(self) -> Real:
        """sqrt(a c)."""
        return np.asarray(np.sqrt(self.work * self.price), np.float64)

    @cached_property
    def limit(self) -> Real:
        """sqrt(mu) at which x reaches r: r sqrt(a / c); 0 where resources are free."""
        return np.asarray(self.capability * np.sqrt(self.price / self.work), np.float64)

    @cached_property
    def quickest_s(self) -> Real:
        """An epoch's time at full resources; infinite where it cannot run."""
        return np.where(np.isfinite(self.fixed), self.full_s + self.link_s, np.inf)

    @cached_property
    def flat(self) -> Flat:
        """For compiled code."""
        parts = (self.root, self.limit, self.full_s, self.link_s, self.price * self.capability, self.fixed)
        return Flat(*(np.ascontiguousarray(part, np.float64) for part in parts))

    def resources(self, root_mu: float) -> Real:
        """X at the multiplier."""
        with np.errstate(divide="ignore", invalid="ignore"):
            free_s = self.root / np.float64(root_mu)
        return np.asarray(self.work / np.where(self.limit <= root_mu, self.full_s, free_s), np.float64)

    def lagrangian(self, root_mu: Real) -> Real:
        """min over x <= r of a x + fixed + mu (c/x + s/b), shape (multipliers, kinds, node sets)."""
        q = root_mu[:, None, None]
        free = 2.0 * q * self.root
        full = self.price * self.capability + q**2 * self.full_s
        return np.where(q < self.limit, free, full) + q**2 * self.link_s + self.fixed


class Flat(NamedTuple):
    """What the dual needs of `Slots`, (kinds, node sets) each, for compiled code."""

    root: Real
    limit: Real
    full_s: Real
    link_s: Real
    spend: Real
    """What full resources cost."""
    fixed: Real


@inlined
def picked_s(counts: Real, used: NDArray[np.int64], slots: Any, root_mu: float) -> float:
    """The time of so many epochs of each kind on the node sets of `used` the Lagrangian picks at the multiplier."""
    total = 0.0
    for kind in range(counts.shape[0]):
        best, seconds = np.inf, np.inf
        for n in used:
            full = slots.limit[kind, n] <= root_mu
            value = (
                slots.spend[kind, n] + root_mu**2 * slots.full_s[kind, n]
                if full
                else 2.0 * root_mu * slots.root[kind, n]
            )
            value += root_mu**2 * slots.link_s[kind, n] + slots.fixed[kind, n]
            if value < best:
                best = value
                seconds = slots.link_s[kind, n] + (slots.full_s[kind, n] if full else slots.root[kind, n] / root_mu)
        if counts[kind] > 0.0:
            total += counts[kind] * seconds
    return total


@jit
def filled(counts: Real, slots: Any, deadline_s: float) -> tuple[float, float]:
    """`waterfill` for one assignment to one node set: least cost (infinite: too slow) and sqrt(mu)."""
    left, cost, full_s, top = deadline_s, 0.0, 0.0, 0.0
    for kind in range(counts.shape[0]):
        top = max(top, slots.limit[kind, 0] if np.isfinite(slots.fixed[kind, 0]) else 0.0)
        if counts[kind] > 0.0:
            left -= counts[kind] * slots.link_s[kind, 0]
            cost += counts[kind] * slots.fixed[kind, 0]
            full_s += counts[kind] * slots.full_s[kind, 0]
    if not (np.isfinite(cost) and left - full_s >= -TOLERANCE * max(1.0, deadline_s)):
        return np.inf, top
    # clip the kinds whose limit is lowest, one after the other, until the rest fit what time is left
    clipped = counts <= 0.0
    while True:
        free, lowest = 0.0, -1
        for kind in range(counts.shape[0]):
            if not clipped[kind]:
                free += counts[kind] * slots.root[kind, 0]
                if lowest < 0 or slots.limit[kind, 0] < slots.limit[lowest, 0]:
                    lowest = kind
        if free <= 0.0:
            for kind in range(counts.shape[0]):
                if not clipped[kind]:
                    cost += counts[kind] * slots.spend[kind, 0]
            return cost, top
        limit = slots.limit[lowest, 0]
        if limit > 0.0 and free / limit <= left * (1.0 + 1e-15):
            return cost + free * free / left, free / left
        left -= counts[lowest] * slots.full_s[lowest, 0]
        cost += counts[lowest] * slots.spend[lowest, 0]
        clipped[lowest] = True


@jit
def sides(counts: Real, used: NDArray[np.int64], slots: Any, deadline_s: float) -> tuple[float, float]:
    """sqrt(mu) just below and just above where the node sets that the Lagrangian picks meet the deadline."""
    low, high = 0.0, 1.0
    while picked_s(counts, used, slots, high) > deadline_s and high < 1e9:
        low, high = high, high * 4.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if picked_s(counts, used, slots, middle) > deadline_s:
            low = middle
        else:
            high = middle
    return low, high


def slots_for(
    kinds: Sequence[tuple[float, float]],
    node_sets: Sequence[DeplNodeSet],
    objective: Objective = "rate",
    runs_on: NDArray[np.bool_] | None = None,
    each: Sequence[float] | Real | None = None,
) -> Slots:
    """Slots from (work, size) of each kind of epoch; `runs_on` (kinds, node sets) tells which can run where.

    `each` is what every epoch on a node set costs beside its resources, (node sets,).
    """
    of_kinds = np.array(kinds, np.float64).reshape(-1, 2)
    sets = [(n.capability, n.bandwidth, n.price, n.link_power, n.waiting) for n in node_sets]
    capability, bandwidth, price, link_power, waiting = np.array(sets, np.float64).reshape(-1, 5).T
    everywhere = np.ones((len(kinds), len(node_sets)))
    work, link_s = of_kinds[:, :1] * everywhere, of_kinds[:, 1:] / bandwidth
    price, fixed = price * everywhere, np.zeros(everywhere.shape)
    if objective == "usage":
        fixed = price * work + link_power * link_s
        price = price * waiting * link_s
    if each is not None:
        fixed = fixed + np.asarray(each, np.float64)[None, :]
    if runs_on is not None:
        fixed = np.where(runs_on, fixed, np.inf)
    return Slots(work, capability * everywhere, link_s, price, fixed)


def epoch_slots(instance: DeplProblem, chosen: Sequence[int], used: Sequence[int]) -> Slots:
    """Slots of an epoch of each version on the chosen data, and of the node sets of `used`."""
    node_sets = [instance.node_sets[n] for n in used]
    may, each = instance.admissible[:, list(used)], instance.epoch_charge(chosen)[list(used)]
    return slots_for(instance.epoch_kinds(chosen), node_sets, instance.objective, may, each)


def waterfill(slots: Slots, counts: Real, deadline_s: float) -> tuple[Real, Real]:
    """Least cost without data charges, and sqrt(mu), of assignments (n, kinds, node sets); inf where too slow."""
    flat = counts.reshape(len(counts), -1)
    runs = np.isfinite(slots.fixed).ravel()
    impossible = (flat[:, ~runs] > 0).any(axis=1)
    order = np.flatnonzero(runs)[np.argsort(slots.limit.ravel()[runs], kind="stable")]
    flat = flat[:, order]
    root, full, link, limit, fixed = (
        part.ravel()[order] for part in (slots.root, slots.full_s, slots.link_s, slots.limit, slots.fixed)
    )
    spend = (slots.price * slots.capability).ravel()[order]
    left = deadline_s - flat @ link
    nothing = np.zeros((len(flat), 1))
    clipped_s = np.hstack([nothing, np.cumsum(flat * full, axis=1)])  # the first j slots at full resources
    clipped_cost = np.hstack([nothing, np.cumsum(flat * spend, axis=1)])
    free = np.hstack([np.cumsum((flat * root)[:, ::-1], axis=1)[:, ::-1], nothing])
    # time when sqrt(mu) reaches the j-th limit; the first j at which it fits tells how many are clipped
    with np.errstate(divide="ignore", invalid="ignore"):
        at_limit = clipped_s[:, :-1] + free[:, :-1] / limit
    fits = (at_limit <= left[:, None] * (1 + 1e-15)) & (limit > 0)
    j = np.where(fits.any(axis=1), fits.argmax(axis=1), len(limit))
    row = np.arange(len(flat))
    spare = left - clipped_s[row, j]
    some = free[row, j] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        root_mu = np.where(some, free[row, j] / spare, limit[-1])
    cost = flat @ fixed + clipped_cost[row, j] + np.where(some, free[row, j] * root_mu, 0.0)
    possible = (left - clipped_s[:, -1] >= -TOLERANCE * max(1.0, deadline_s)) & ~impossible
    return np.where(possible, cost, np.inf), np.asarray(root_mu, np.float64)
