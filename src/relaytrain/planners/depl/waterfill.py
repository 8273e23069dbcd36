"""Resources for fixed clusters: x_k = min(r, sqrt(mu c / kappa)), with mu such that the deadline is met exactly.

Epochs that share work, size and cluster share x, so an assignment is a table of counts over (kind of epoch, cluster).
The order in which such slots reach their cluster's capability as mu grows does not depend on the counts: it is sorted
once, and any number of assignments is solved together.

Paper: DepL section IV-C; objective (2) as printed, kappa * x (`rate`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.state import TOLERANCE

Real = NDArray[np.float64]


@dataclass(frozen=True)
class Slots:
    """Kinds of epochs (work, size; shape (kinds,)) against clusters (capability, bandwidth, price; shape (clusters,))."""

    work: Real
    size: Real
    capability: Real
    bandwidth: Real
    price: Real

    @property
    def shape(self) -> tuple[int, int]:
        """(kinds, clusters)."""
        return len(self.work), len(self.capability)

    @property
    def link_s(self) -> Real:
        """s / b, shape (kinds, clusters)."""
        return np.asarray(self.size[:, None] / self.bandwidth, np.float64)

    @property
    def full_s(self) -> Real:
        """c / r, the computing time at full resources, shape (kinds, clusters)."""
        return np.asarray(self.work[:, None] / self.capability, np.float64)

    @property
    def root(self) -> Real:
        """sqrt(kappa c), shape (kinds, clusters)."""
        return np.asarray(np.sqrt(self.work[:, None] * self.price), np.float64)

    def lagrangian(self, root_mu: Real) -> Real:
        """min over x <= r of kappa x + mu (c/x + s/b), shape (multipliers, kinds, clusters)."""
        q = root_mu[:, None, None]
        limit = self.root / self.full_s  # sqrt(mu) at which x reaches r, times kappa: r sqrt(kappa / c)
        free = 2.0 * q * self.root
        full = self.price * self.capability + q**2 * self.full_s
        return np.where(q < limit, free, full) + q**2 * self.link_s


def waterfill(slots: Slots, counts: Real, deadline_s: float) -> tuple[Real, Real]:
    """Least cost without data charges, and sqrt(mu), of assignments (n, kinds, clusters); inf where too slow."""
    flat = counts.reshape(len(counts), -1)
    root, full, link = slots.root.ravel(), slots.full_s.ravel(), slots.link_s.ravel()
    limit = root / full
    order = np.argsort(limit, kind="stable")
    flat, root, full, limit = flat[:, order], root[order], full[order], limit[order]
    spend = (np.broadcast_to(slots.price * slots.capability, slots.shape).ravel())[order]
    left = deadline_s - flat @ link[order]
    nothing = np.zeros((len(flat), 1))
    clipped_s = np.hstack([nothing, np.cumsum(flat * full, axis=1)])  # the first j slots at full resources
    clipped_cost = np.hstack([nothing, np.cumsum(flat * spend, axis=1)])
    free = np.hstack([np.cumsum((flat * root)[:, ::-1], axis=1)[:, ::-1], nothing])
    # time when sqrt(mu) reaches the j-th limit; the first j at which it fits tells how many are clipped
    at_limit = clipped_s[:, :-1] + free[:, :-1] / limit
    fits = at_limit <= left[:, None] * (1 + 1e-15)
    j = np.where(fits.any(axis=1), fits.argmax(axis=1), len(limit))
    row = np.arange(len(flat))
    spare = left - clipped_s[row, j]
    some = free[row, j] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        root_mu = np.where(some, free[row, j] / spare, limit[-1])
    cost = clipped_cost[row, j] + np.where(some, free[row, j] * root_mu, 0.0)
    possible = left - clipped_s[:, -1] >= -TOLERANCE * max(1.0, deadline_s)
    return np.where(possible, cost, np.inf), np.asarray(root_mu, np.float64)
