"""Schedules with any number of switches: a quantile made additive, swept over its one parameter.

For a given deviation tau the quantile's normal approximation, corrected for skewness, is a sum over epochs and
switches:

    mu + z sigma + (z^2 - 1)/6 k3/sigma^2
        = min over tau of  z tau/2 + sum of (mu_i + z v_i/(2 tau) + (z^2 - 1)/6 k3_i/tau^2)

(exactly so in the first two terms, whose minimum lies at tau = sigma). So for each of a few tau the least such sum for
each cost is found by labels over epochs, the cost being the allocation's Lagrangian at the multiplier of the best
schedule known. The cheapest labels are then checked against the exact distribution. Where the deadline may bind, a
label also holds its elapsed time at full resources, and only a label worse in all three respects is dropped.

Paper: DepL section IV-B, the additive constraint that quantiles lack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from ....core.depl import DeplProblem
from ....core.distribution import Distribution
from ....core.fourier import SLACK, Counts, Real
from ...search.kernels import grown, jit
from ..cumulants import third_cumulant
from .version_search import VersionSchedule, VersionSearch

TAUS = 9
ROUNDS = 3
CHECKS = 400
"""Labels checked exactly for each tau, the cheapest first."""
MOST_LABELS = 3_000_000
_NEAR = 0.15
"""A label is worth an exact check when its approximate quantile misses the target by at most this times tau."""


class SweepSteps(NamedTuple):
    """What an epoch adds: loss (versions, epochs), jumps (versions, versions), weight and seconds (versions,)."""

    loss: Real
    jump: Real
    weight: Real
    seconds: Real


def more_switches(search: VersionSearch, best: VersionSchedule) -> VersionSchedule:
    """The cheapest schedule found with any number of switches, `best` (from the same search) or cheaper.

    Not proven optimal; the tests certify by dominance that nothing cheaper exists at a slightly higher probability.
    """
    for _ in range(ROUNDS):
        cheaper = _round(search, best)
        if cheaper is None:
            break
        best = cheaper
    return best


def _round(search: VersionSearch, best: VersionSchedule) -> VersionSchedule | None:
    """A schedule cheaper than `best`, or None; the multiplier is that of `best`."""
    instance, target = search.instance, search.instance.target
    weight, offset = search.priced(best.versions)
    epochs = min(instance.max_epochs, int((best.cost - offset) / max(weight.min(), 1e-200)))
    seconds = search.quickest_s
    timed = epochs * float(seconds.max()) > target.deadline_s
    cheaper: VersionSchedule | None = None
    for tau in _taus(search, epochs):
        steps, constant = _steps(instance, search.chosen, tau, epochs, weight, seconds)
        for versions in _labels(search, steps, constant, tau, cheaper or best, offset, timed):
            cheaper = VersionSchedule(versions, search.cost(versions))
    return cheaper


def _labels(
    search: VersionSearch,
    steps: SweepSteps,
    constant: float,
    tau: float,
    best: VersionSchedule,
    offset: float,
    timed: bool,
) -> list[tuple[int, ...]]:
    """Schedules cheaper than the best that pass the exact check, each cheaper than the one before."""
    instance = search.instance
    limit = (best.cost - offset, instance.target.deadline_s + SLACK if timed else math.inf)
    start = instance.initial_loss + constant
    before = -1 if instance.before is None else instance.before
    weight, loss, parent, version, count = fronts(steps, start, before, limit[0], limit[1], MOST_LABELS)
    near = np.flatnonzero(loss[:count] <= instance.target.loss + _NEAR * tau)
    order = near[np.argsort(weight[near], kind="stable")]
    cheaper: list[tuple[int, ...]] = []
    cost = best.cost
    for i in order[:CHECKS]:
        if weight[i] + offset >= cost:
            break
        versions = path(parent, version, int(i))
        if search.cost(versions) < cost and search.holds(versions):
            cheaper.append(versions)
            cost = search.cost(versions)
    return cheaper


def path(parent: Counts, version: Counts, label: int) -> tuple[int, ...]:
    """The versions from the first epoch to the label's."""
    versions: list[int] = []
    while label >= 0:
        versions.append(int(version[label]))
        label = int(parent[label])
    return tuple(reversed(versions))


def _taus(search: VersionSearch, epochs: int) -> Real:
    """Deviations that schedules of so many epochs may have."""
    variance = search.losses.variance
    few = min(search.least_epochs or 1, epochs)
    low, high = float(variance[:, few].min()), float(variance[:, epochs].max())
    high += search.switches * max((jump.variance for jump in search.instance.jumps), default=0.0)
    return np.geomspace(math.sqrt(max(low, 1e-8)), math.sqrt(max(high, 2e-8)), TAUS)


def _steps(
    instance: DeplProblem, chosen: Sequence[int], tau: float, epochs: int, weight: Real, seconds: Real
) -> tuple[SweepSteps, float]:
    z = max(NormalDist().inv_cdf(instance.target.probability), 0.0)
    gain = instance.data_gain(chosen)
    k = instance.epochs_done + np.arange(1, epochs + 1)

    def added(factor: Real, of: Distribution) -> Real:
        third = third_cumulant(of) * factor**3 * (z * z - 1.0) / (6.0 * tau * tau)
        return np.asarray(factor * of.mean + z * factor**2 * of.variance / (2.0 * tau) + third, np.float64)

    loss = np.array([added(-gain * m.progress(k), m.noise) for m in instance.versions])
    jump = np.zeros((len(instance.versions), len(instance.versions)))
    for a, row in enumerate(instance.switches):
        for b, of in enumerate(row):
            if a != b:
                jump[a, b] = math.inf if of is None else float(added(np.ones(1), of)[0])
    return SweepSteps(loss, jump, weight, seconds), 0.5 * z * tau


@jit
def fronts(
    steps: Any, start: float, before: int, most_weight: float, most_s: float, most: int
) -> tuple[Real, Real, Counts, Counts, int]:
    """All labels (weight, loss) that no other of the same epoch and version beats, with parent label and version.

    Labels of an epoch and version lie together, in the order of their weight, so the next epoch's are merged from them.
    """
    versions, epochs = steps.loss.shape
    size = 1 << 14
    weight, loss, time = np.empty(size), np.empty(size), np.empty(size)
    parent, version = np.empty(size, np.int64), np.empty(size, np.int64)
    first, end = np.zeros(versions, np.int64), np.zeros(versions, np.int64)
    count = 0
    stair_loss, stair_time = np.empty(size), np.empty(size)
    for k in range(epochs):
        new_first, new_end = np.zeros(versions, np.int64), np.zeros(versions, np.int64)
        for now in range(versions):
            new_first[now] = count
            at = first.copy()
            stairs, opened = 0, False
            while True:
                chosen, least, least_loss = -1, np.inf, np.inf
                if k == 0:
                    if not opened and (before < 0 or np.isfinite(steps.jump[before, now])):
                        jump = 0.0 if before < 0 else steps.jump[before, now]
                        chosen, least, least_loss = versions, steps.weight[now], start + jump + steps.loss[now, 0]
                    opened = True
                else:
                    for m in range(versions):
                        if at[m] < end[m] and np.isfinite(steps.jump[m, now]):
                            w = weight[at[m]] + steps.weight[now]
                            reached = loss[at[m]] + steps.jump[m, now] + steps.loss[now, k]
                            if w < least or (w == least and reached < least_loss):
                                chosen, least, least_loss = m, w, reached
                if chosen < 0 or least >= most_weight:
                    break
                origin, elapsed = -1, steps.seconds[now]
                if k > 0:
                    origin = at[chosen]
                    elapsed += time[origin]
                    at[chosen] += 1
                if elapsed > most_s:
                    continue
                beaten = False
                for s in range(stairs - 1, -1, -1):
                    if stair_loss[s] <= least_loss and (stair_time[s] <= elapsed or most_s == np.inf):
                        beaten = True
                        break
                if beaten:
                    continue
                if count >= most:
                    return weight, loss, parent, version, count
                if count == weight.shape[0]:
                    weight, loss, time = grown(weight), grown(loss), grown(time)
                    parent, version = grown(parent), grown(version)
                weight[count], loss[count], time[count] = least, least_loss, elapsed
                parent[count], version[count] = origin, now
                count += 1
                kept = 0
                for s in range(stairs):  # steps that the new label beats are of no more use
                    if stair_loss[s] < least_loss or (stair_time[s] < elapsed and most_s < np.inf):
                        stair_loss[kept], stair_time[kept] = stair_loss[s], stair_time[s]
                        kept += 1
                if kept == stair_loss.shape[0]:
                    stair_loss, stair_time = grown(stair_loss), grown(stair_time)
                stair_loss[kept], stair_time[kept] = least_loss, elapsed
                stairs = kept + 1
            new_end[now] = count
        first, end = new_first, new_end
    return weight, loss, parent, version, count
