"""The allocation's dual function as a bound on the cost of any numbers of epochs, compiled.

For a multiplier sqrt(mu) and a group of node sets, the Lagrangian's minimum is linear in the number of epochs of each
kind: slopes times numbers plus an offset bound from below what they cost on these node sets.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.fourier import Real
from ..search.kernels import inlined, jit
from .waterfill import Flat

HUGE = 1e30
"""Stands for infinity where a count of zero may multiply it."""
MULTIPLIERS = 120
FOCUS = 5
"""Multipliers kept around the best one once a schedule is known."""


class Dual(NamedTuple):
    """What bounds are made of."""

    slots: Flat
    used: NDArray[np.bool_]
    """Which node sets are in which set, (groups, node sets)."""
    paid: Real
    """Data charges of the sets."""
    deadline_s: float


@inlined
def least_value(slots: Any, kind: int, used: Any, root_mu: float) -> float:
    """The least over the node sets used, and x <= r there, of a x + fixed + mu (c/x + s/b)."""
    least, mu = HUGE, root_mu * root_mu
    for n in range(used.shape[0]):
        if used[n]:
            value = 2.0 * root_mu * slots.root[kind, n]
            if root_mu >= slots.limit[kind, n]:
                value = slots.spend[kind, n] + mu * slots.full_s[kind, n]
            least = min(least, value + mu * slots.link_s[kind, n] + slots.fixed[kind, n])
    return least


@jit
def bounds_at(dual: Any, root_mu: Real) -> tuple[Real, Real]:
    """Slopes (sets, multipliers, kinds) and offsets (sets, multipliers) at the multipliers of each set, a row each."""
    kinds = dual.slots.root.shape[0]
    slopes, offsets = np.empty((*root_mu.shape, kinds)), np.empty(root_mu.shape)
    for u in range(root_mu.shape[0]):
        for r in range(root_mu.shape[1]):
            offsets[u, r] = dual.paid[u] - root_mu[u, r] ** 2 * dual.deadline_s
            for kind in range(kinds):
                slopes[u, r, kind] = least_value(dual.slots, kind, dual.used[u], root_mu[u, r])
    return slopes, offsets


@inlined
def around(grid: Real, first: int, last: int, near: Real) -> None:
    """Writes multipliers from the one before grid[first] to the one after grid[last]."""
    low, high = grid[max(first - 1, 0)], grid[min(last + 1, grid.shape[0] - 1)]
    for r in range(FOCUS):
        near[r] = low + (high - low) * r / (FOCUS - 1)


@jit
def bounds_near(dual: Any, counts: Any) -> tuple[Real, Real]:
    """The same at few multipliers around the one that is best for so many epochs of each kind."""
    grid = multipliers(dual.slots, dual.deadline_s)
    near = np.empty((dual.used.shape[0], FOCUS))
    for u in range(near.shape[0]):
        best, greatest = 0, -np.inf
        for r in range(grid.shape[0]):
            value = -(grid[r] ** 2) * dual.deadline_s
            for kind in range(counts.shape[0]):
                if counts[kind] > 0:
                    value += counts[kind] * least_value(dual.slots, kind, dual.used[u], grid[r])
            if value > greatest:
                best, greatest = r, value
        around(grid, best, best, near[u])
    return bounds_at(dual, near)


@jit
def bounds_below(dual: Any, below: float) -> tuple[Real, Real]:
    """The same at few multipliers around those that allow the fewest epochs of a single kind for a cost of `below`."""
    grid = multipliers(dual.slots, dual.deadline_s)
    near = np.empty((dual.used.shape[0], FOCUS))
    for u in range(near.shape[0]):
        first, last = grid.shape[0] - 1, 0
        for kind in range(dual.slots.root.shape[0]):
            best, fewest = 0, np.inf
            for r in range(1, grid.shape[0]):
                slope = least_value(dual.slots, kind, dual.used[u], grid[r])
                epochs = (below - dual.paid[u] + grid[r] ** 2 * dual.deadline_s) / slope if slope > 0.0 else np.inf
                if epochs < fewest and slope < HUGE:
                    best, fewest = r, epochs
            if fewest < np.inf:
                first, last = min(first, best), max(last, best)
        around(grid, min(first, last), max(first, last), near[u])
    return bounds_at(dual, near)


@jit
def multipliers(slots: Any, deadline_s: float) -> Real:
    """sqrt(mu) from 0 to where full resources on the quickest node set are best for every kind of epoch."""
    kinds, node_sets = slots.root.shape
    limit, cheapest, dearest, root, step_s = 0.0, np.inf, -np.inf, np.inf, deadline_s
    for kind in range(kinds):
        for n in range(node_sets):
            if not np.isfinite(slots.fixed[kind, n]):
                continue
            spent = slots.spend[kind, n] + slots.fixed[kind, n]
            cheapest, dearest = min(cheapest, spent), max(dearest, spent)
            limit, root = max(limit, slots.limit[kind, n]), min(root, slots.root[kind, n])
            for other in range(n):
                apart_s = abs(
                    slots.full_s[kind, n]
                    + slots.link_s[kind, n]
                    - slots.full_s[kind, other]
                    - slots.link_s[kind, other]
                )
                if np.isfinite(slots.fixed[kind, other]) and apart_s > 1e-9 * deadline_s:
                    step_s = min(step_s, apart_s)
    high = max(2.0 * limit, math.sqrt(max(dearest - cheapest, 0.0) / step_s), 1e-6)
    low = max(min(0.5 * root / deadline_s, high / 4.0), high * 1e-6)
    grid = np.zeros(MULTIPLIERS + 1)
    for i in range(MULTIPLIERS):
        grid[i + 1] = low * (high / low) ** (i / (MULTIPLIERS - 1))
    return grid
