"""The best effort when no probability of one half or more can be had: most expected progress."""

from __future__ import annotations

import math

import numpy as np

from ...core.depl import DeplProblem
from .exact.joint import DeplPlan
from .exact.losses import exact_probability


def quickest(instance: DeplProblem) -> DeplPlan:
    """Full resources on all data, until the target or the end; by gain a second or by gain an epoch, whichever ends lower."""
    return min((_greedy(instance, by_time) for by_time in (True, False)), key=lambda made: made.mean)


def _greedy(instance: DeplProblem, by_time: bool) -> DeplPlan:
    chosen = tuple(range(len(instance.datasets)))
    volume, gain, target = instance.volume(chosen), instance.data_gain(chosen), instance.target
    charge = instance.data_charge(chosen)
    models: list[int] = []
    clusters: list[int] = []
    elapsed, loss, before = 0.0, instance.initial_loss, instance.before
    for i in range(target.max_epochs):
        rows = []
        for m, n in np.argwhere(_possible(instance, before)):
            model, cluster = instance.models[m], instance.clusters[n]
            link = 0.0 if math.isinf(cluster.bandwidth) else model.size / cluster.bandwidth
            seconds = model.work * volume / cluster.capability + link
            lost = 0.0 if before is None or before == m else instance.jump(before, int(m)).mean
            won = gain * float(model.progress(instance.epochs_done + i + 1)) * model.noise.mean - lost
            if elapsed + seconds <= target.deadline_s and math.isfinite(charge[n]):
                rows.append((won / seconds if by_time else won, -seconds, int(m), int(n), seconds, won))
        if not rows or max(rows)[0] <= 0 or loss <= target.loss:
            break
        _, _, m_now, n_now, seconds, won = max(rows)
        models.append(m_now)
        clusters.append(n_now)
        elapsed, loss, before = elapsed + seconds, loss - won, m_now
    full = tuple(instance.clusters[n].capability for n in clusters)
    probability = exact_probability(instance, chosen, models) if models else 0.0
    return DeplPlan(
        False, math.inf, chosen, tuple(models), tuple(clusters), full, elapsed, probability, mean=loss, exact=False,
        reason="no schedule has an even chance",
    )  # fmt: skip


def _possible(instance: DeplProblem, before: int | None) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    shape = (len(instance.models), len(instance.clusters))
    possible = np.ones(shape, bool) if instance.runs_on is None else instance.runs_on.copy()
    if before is not None:
        for m in range(shape[0]):
            if m != before and instance.switches[before][m] is None:
                possible[m] = False
    return possible
