"""The best effort when no probability of one half or more can be had: most expected progress."""

from __future__ import annotations

import math

import numpy as np

from ...core.depl import DeplProblem
from .schedule_losses import exact_probability
from .solution import DeplPlan


def quickest(instance: DeplProblem) -> DeplPlan:
    """Full resources on all data, until the target or the end; by gain a second or an epoch, whichever ends lower."""
    return min((_greedy(instance, by_time) for by_time in (True, False)), key=lambda effort: effort.mean)


def _greedy(instance: DeplProblem, by_time: bool) -> DeplPlan:
    chosen, target = instance.all_data, instance.target
    gain, charge = instance.data_gain(chosen), instance.data_charge(chosen)
    versions: list[int] = []
    used: list[int] = []
    elapsed_s, loss, before = 0.0, instance.initial_loss, instance.before
    for k in range(instance.epochs_done + 1, instance.epochs_done + instance.max_epochs + 1):
        rows = []
        for m, n in np.argwhere(instance.admissible & np.isfinite(charge)).tolist():
            (work, size), nodes = instance.kind_at(k, chosen, m), instance.node_sets[n]
            seconds = work / nodes.capability + size / nodes.bandwidth
            progress = gain * float(instance.versions[m].progress(k))
            won = progress * instance.versions[m].noise.mean - instance.mean_jump(before, m, k, chosen)
            if elapsed_s + seconds <= target.deadline_s and won > -math.inf:
                rows.append((won / seconds if by_time else won, -seconds, m, n, seconds, won))
        if not rows or max(rows)[0] <= 0 or loss <= target.loss:
            break
        _, _, m, n, seconds, won = max(rows)
        versions.append(m)
        used.append(n)
        elapsed_s, loss, before = elapsed_s + seconds, loss - won, m
    return DeplPlan(
        False,
        datasets=chosen,
        versions=tuple(versions),
        node_sets=tuple(used),
        resources=tuple(instance.node_sets[n].capability for n in used),
        elapsed_s=elapsed_s,
        probability=exact_probability(instance, chosen, versions) if versions else 0.0,
        mean=loss,
        exact=False,
        reason="no schedule has an even chance",
    )
