"""Planning by expected loss, as DepL's `best-exp` benchmark does, in both readings.

Both must meet the quantile in the end ("all strategies meet (3) with equality"): `best_expected` minimises cost under
an expected-loss target that is lowered until the quantile holds, `greedy_expected` takes in each epoch the version
with the most expected progress, whatever it costs, until the quantile holds.

Paper: DepL section VI-B.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left

from ....core.depl import DeplProblem
from ....core.fourier import SLACK
from ..exact.version_search import VersionSchedule, VersionSearch
from ..schedule_losses import helps_surely, losses_by_epoch
from ..solution import DeplPlan, complete

_LOWER = 1e-6
"""How far below a schedule's own expected loss the next target lies."""


def best_expected(instance: DeplProblem, *, switches: int = 2, known: DeplPlan | None = None) -> DeplPlan:
    """Least cost under an expected-loss target, all datasets; the target is lowered until the quantile holds.

    `known` is the cheapest plan of so many switches and all datasets that meets the quantile, where it is known
    already.
    """
    chosen = instance.all_data
    search = VersionSearch(instance, chosen, switches=switches)
    schedule = search.best() if known is None else VersionSchedule(known.versions, known.cost)
    rise = 0.005
    if schedule is not None:
        # down to the expected loss of the cheapest schedule that holds, those found are cheaper, so they do not hold
        limit, cost = min(instance.target.loss, _expected(search, schedule) + SLACK), schedule.cost
    while schedule is not None:
        # a slightly lower target costs slightly more: look there first, the search is faster below a known cost
        schedule = search.best(below=cost * (1.0 + rise), expected=limit) or search.best(expected=limit)
        if schedule is not None and search.holds(schedule.versions):
            return complete(instance, chosen, schedule.versions)
        if schedule is not None:
            rise = max(2.0 * (schedule.cost / cost - 1.0), 0.002)
            limit, cost = _expected(search, schedule) - _LOWER, schedule.cost
    return DeplPlan(False, reason="no expected-loss target leads to a schedule that meets the quantile")


def _expected(search: VersionSearch, schedule: VersionSchedule) -> float:
    terms = search.instance.terms(search.chosen, schedule.versions)
    return search.instance.initial_loss + sum(f * d.mean for f, d in terms)


def greedy_expected(instance: DeplProblem) -> DeplPlan:
    """The version with the most expected progress in each epoch, all datasets, until the quantile holds."""
    chosen = instance.all_data
    versions = _greediest(instance, instance.data_gain(chosen))
    asked = instance.target.probability - SLACK

    after = losses_by_epoch(instance, chosen, versions)

    def holds(epochs: int) -> bool:
        return after[epochs - 1].cdf(instance.target.loss) >= asked

    sure = helps_surely(instance, chosen)
    first = 1
    for _, run in itertools.groupby(versions):
        epochs = range(first, first + len(list(run)))
        first = epochs.stop
        if sure:  # within a run of one version more epochs help surely
            at = bisect_left(epochs, True, key=holds) if holds(epochs[-1]) else len(epochs)
        else:
            at = next((i for i, n in enumerate(epochs) if holds(n)), len(epochs))
        if at < len(epochs):
            return complete(instance, chosen, versions[: epochs[at]])
    return DeplPlan(False, reason=f"greedy progress does not meet the quantile in {instance.max_epochs} epochs")


def _greediest(instance: DeplProblem, gain: float) -> list[int]:
    versions: list[int] = []
    before, data = instance.before, instance.all_data
    means = [version.noise.mean for version in instance.versions]
    for k in range(instance.epochs_done + 1, instance.epochs_done + instance.max_epochs + 1):
        progress = []
        for m, version in enumerate(instance.versions):
            jump = 0.0 if before == m else instance.mean_jump(before, m, k, data)
            progress.append(gain * float(version.progress(k)) * means[m] - jump)
        before = progress.index(max(progress))
        versions.append(before)
    return versions
