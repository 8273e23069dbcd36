"""A certificate for a schedule: nothing cheaper reaches the target with a slightly higher probability.

Of two prefixes with the same number of epochs and the same last version, one may be dropped if it is not cheaper (at
any multiplier that matters), not quicker, and its loss distribution nowhere more than `delta` better: first-order
dominance survives adding independent terms, so every completion of the other is as good up to delta. After K epochs,
dropping has cost at most K delta of probability: if no label cheaper than the schedule is left, every schedule of
whatever structure that costs less has P(loss <= target) < omega + K delta.

Dominance is tested on a grid of abscissae, so this is numerical evidence and not a proof.

Paper: DepL section IV-B; in place of Property 3, which cannot hold (a cost ratio below 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relaytrain.core.depl import DeplProblem
from relaytrain.core.fourier import SLACK
from relaytrain.planners.depl.exact.search_losses import SearchLosses
from relaytrain.planners.depl.exact.version_search import VersionSchedule, VersionSearch
from relaytrain.planners.search.kernels import jit

Real = NDArray[np.float64]
Counts = NDArray[np.int64]

ABSCISSAE = 48
MOST_LABELS = 30_000
"""Labels of one epoch beyond which the certificate is given up."""


@dataclass(frozen=True)
class Certificate:
    """What was found below a schedule's cost: `holds` if nothing reaches the target with `probability` or more.

    `cheaper` is a schedule that costs less and does meet the target at the probability asked, if one was met on the
    way. `complete` is False when there were too many labels to tell.
    """

    holds: bool
    probability: float
    labels: int
    complete: bool
    cheaper: VersionSchedule | None = None


@dataclass
class _Labels:
    """Prefixes of one length; counts (n, versions), log characteristic functions (n, points)."""

    version: Counts
    counts: Real
    mean: Real
    variance: Real
    re: Real
    im: Real
    parent: Counts

    def take(self, at: NDArray[np.int64]) -> _Labels:
        return _Labels(*(getattr(self, name)[at] for name in self.__dataclass_fields__))


def certify(
    instance: DeplProblem, chosen: Sequence[int], schedule: VersionSchedule, *, delta: float = 2e-5
) -> Certificate:
    """Looks for anything cheaper than `schedule`, with any number of switches."""
    search = VersionSearch(instance, chosen)
    search.focus(schedule.versions)
    data = SearchLosses(instance, chosen, instance.max_epochs)
    epochs = min(instance.max_epochs, search.affordable(schedule.cost))
    claimed = instance.target.probability + epochs * delta
    layer, seen = _start(instance, data), 0
    history: list[tuple[Counts, Counts]] = []
    for k in range(epochs):
        layer = _grow(instance, data, layer, k)
        layer = layer.take(_open(search, data, layer, k + 1, schedule.cost))
        if len(layer.version) > MOST_LABELS:
            return Certificate(False, claimed, seen + len(layer.version), False)
        history.append((layer.version, layer.parent))
        seen += len(layer.version)
        if not len(layer.version):
            break
        met = _meeting(data, layer)
        for i in met:
            versions = _path(history, int(i))
            if search.holds(versions) and (cost := search.cost(versions)) < schedule.cost * (1 - 1e-9):
                return Certificate(False, claimed, seen, True, VersionSchedule(versions, cost))
        kept = _undominated(search, data, layer, delta)
        layer.parent = np.arange(len(layer.version))
        layer = layer.take(kept)
    return Certificate(True, claimed, seen, True)


def _path(history: Sequence[tuple[Counts, Counts]], label: int) -> tuple[int, ...]:
    versions: list[int] = []
    for version, parent in reversed(history):
        versions.append(int(version[label]))
        label = int(parent[label])
    return tuple(reversed(versions))


def _start(instance: DeplProblem, data: SearchLosses) -> _Labels:
    points = data.table.frequencies.points
    before = -1 if instance.before is None else instance.before
    return _Labels(
        np.array([before]),
        np.zeros((1, len(instance.versions))),
        np.array([float(instance.initial_loss)]),
        np.zeros(1),
        np.zeros((1, points)),
        np.zeros((1, points)),
        np.array([-1]),
    )


def _grow(instance: DeplProblem, data: SearchLosses, layer: _Labels, k: int) -> _Labels:
    re, im = data.table.log_cf(min(instance.max_epochs, 16 * (k // 16 + 1)))
    parts: list[_Labels] = []
    for now in range(len(instance.versions)):
        for last in sorted({int(m) for m in layer.version}):
            rows = layer.take(np.flatnonzero(layer.version == last))
            switch = last not in (-1, now)
            if switch and instance.switches[last][now] is None:
                continue
            jump = data.jump(last, now) if switch else None
            rows.counts = rows.counts + np.eye(len(instance.versions))[now]
            rows.mean = rows.mean + data.mean[now, k + 1] - data.mean[now, k] + (jump[0] if jump else 0.0)
            rows.variance = (
                rows.variance + data.variance[now, k + 1] - data.variance[now, k] + (jump[1] if jump else 0.0)
            )
            rows.re = rows.re + (re[now, k + 1] - re[now, k]) + (jump[2].real if jump else 0.0)
            rows.im = rows.im + (im[now, k + 1] - im[now, k]) + (jump[2].imag if jump else 0.0)
            rows.version = np.full(len(rows.mean), now)
            parts.append(rows)
    if not parts:
        return layer.take(np.zeros(0, np.int64))
    return _Labels(*(np.concatenate([getattr(p, n) for p in parts]) for n in _Labels.__dataclass_fields__))


def _open(search: VersionSearch, data: SearchLosses, layer: _Labels, k: int, below: float) -> NDArray[np.int64]:
    """Labels that may still lead to something cheaper than `below`: in time, and in cost with the progress yet to make.

    The loss must fall by some amount in expectation (Cantelli), and no epoch to come has a better ratio of expected
    progress to cost than the best version's next one.
    """
    target = search.instance.target
    slopes, offsets = search.dual
    late = layer.counts @ search.quickest_s > target.deadline_s + SLACK
    odds = (1.0 - target.probability) / target.probability
    most_variance = layer.variance.max(initial=0.0) + data.variance[:, -1].max() - data.variance[:, k].min()
    jumps, left = search.instance.jumps, search.instance.max_epochs - k
    most_variance += left * max((jump.variance for jump in jumps), default=0.0)
    missing = np.maximum(layer.mean - target.loss - math.sqrt(odds * most_variance), 0.0)
    step = data.mean[:, k] - data.mean[:, min(k + 1, data.mean.shape[1] - 1)]
    step = step + max((-jump.mean for jump in jumps if jump.mean < 0), default=0.0)
    worst = np.full(len(layer.mean), math.inf)
    for slope, offset in zip(slopes, offsets, strict=True):
        best = np.maximum((step / np.maximum(slope, 1e-200)).max(axis=1), 1e-300)
        to_go = (
            missing[:, None] / best if k < search.instance.max_epochs else np.where(missing > 0, math.inf, 0.0)[:, None]
        )
        worst = np.minimum(worst, (layer.counts @ slope.T + offset + to_go).max(axis=1))
    return np.flatnonzero(~late & (worst < below * (1 - 1e-9)))


def _meeting(data: SearchLosses, layer: _Labels) -> NDArray[np.int64]:
    goal = data.goal()
    offset = (goal.target - layer.mean)[:, None]
    found = np.empty((len(layer.mean), 1))
    distributions(layer.re, layer.im, offset, data.step, found)
    return np.flatnonzero(found[:, 0] >= goal.asked)


def _undominated(search: VersionSearch, data: SearchLosses, layer: _Labels, delta: float) -> NDArray[np.int64]:
    slopes, _ = search.dual
    kept: list[NDArray[np.int64]] = []
    for m in np.unique(layer.version):
        rows = np.flatnonzero(layer.version == m)
        part = layer.take(rows)
        spread = np.sqrt(part.variance)
        at = np.linspace((part.mean - 6 * spread).min(), (part.mean + 6 * spread).max(), ABSCISSAE)
        values = np.empty((len(rows), ABSCISSAE))
        distributions(part.re, part.im, at[None, :] - part.mean[:, None], data.step, values)
        dear = np.hstack(
            [part.counts @ slopes.reshape(-1, slopes.shape[2]).T, (part.counts @ search.quickest_s)[:, None]]
        )
        order = np.lexsort((part.mean, dear.sum(axis=1)))
        kept.append(rows[order[survivors(dear[order], values[order], delta)]])
    return np.sort(np.concatenate(kept))


@jit
def survivors(dear: Real, values: Real, delta: float) -> NDArray[np.int64]:
    """Rows that no earlier kept row beats: no dearer in any respect, distribution nowhere more than delta lower."""
    kept = np.empty(dear.shape[0], np.int64)
    count = 0
    for i in range(dear.shape[0]):
        beaten = False
        for j in range(count - 1, -1, -1):
            other = kept[j]
            beaten = True
            for r in range(dear.shape[1]):
                if dear[other, r] > dear[i, r] + 1e-9 * abs(dear[i, r]):
                    beaten = False
                    break
            if beaten:
                for a in range(values.shape[1]):
                    if values[other, a] < values[i, a] - delta:
                        beaten = False
                        break
            if beaten:
                break
        if not beaten:
            kept[count] = i
            count += 1
    return kept[:count]


@jit
def distributions(re: Real, im: Real, offset: Real, step: float, found: Real) -> None:
    """P(variable - mean <= offset) for rows of log characteristic functions and several offsets each."""
    points = re.shape[1]
    c, s = np.empty(points), np.empty(points)
    half = math.pi / step
    for row in range(re.shape[0]):
        count = points
        for j in range(points):
            if re[row, j] < -30.0:
                count = j
                break
            size = math.exp(re[row, j])
            c[j], s[j] = size * math.cos(im[row, j]), size * math.sin(im[row, j])
        for a in range(offset.shape[1]):
            x = offset[row, a]
            if x >= half or x <= -half:
                found[row, a] = 1.0 if x > 0 else 0.0
                continue
            turn_c, turn_s = math.cos(step * x), -math.sin(step * x)
            at_c, at_s = math.cos(0.5 * step * x), -math.sin(0.5 * step * x)
            total = 0.0
            for j in range(count):
                total += (at_c * s[j] + at_s * c[j]) / (j + 0.5)
                at_c, at_s = at_c * turn_c - at_s * turn_s, at_c * turn_s + at_s * turn_c
            found[row, a] = min(max(0.5 - total / math.pi, 0.0), 1.0)
