"""The bands of an audit: losses against what was promised for them, one epoch before and many."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..core.state import TOLERANCE
from .audit_rates import Rate, bin_name, bin_of, mean
from .run_view import RunView

AHEAD = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 10**9))
"""Epochs ahead that are judged together."""

Kept = tuple[str, float, bool]
"""A promise: the run it was made in, its level, whether it was kept."""


def band_rates(views: Sequence[RunView]) -> tuple[Rate, ...]:
    """Epochs at or below what was promised just before them, by the level of the promise."""
    groups: dict[int, list[Kept]] = {}
    for view in views:
        levels = {plan.epoch: plan.level for plan in view.plans if plan.feasible}  # else nothing was promised
        for epoch in view.epochs:
            level = levels.get(epoch.epoch)
            if level is not None and epoch.in_band is not None:
                groups.setdefault(bin_of(level), []).append((view.run, level, epoch.in_band))
    return tuple(clustered(f"epochs at {bin_name(number)}", groups[number]) for number in sorted(groups))


def ahead_rates(views: Sequence[RunView]) -> tuple[Rate, ...]:
    """Losses at or below what the plans said so many epochs before, where the run did what the plan said."""
    groups: dict[int, list[Kept]] = {}
    for view in views:
        for ahead, level, kept in _promises(view):
            number = next(i for i, (low, high) in enumerate(AHEAD) if low <= ahead <= high)
            groups.setdefault(number, []).append((view.run, level, kept))
    return tuple(clustered(_words(*AHEAD[number]), groups[number]) for number in sorted(groups))


def _promises(view: RunView) -> Iterator[tuple[int, float, bool]]:
    """(epochs ahead, level, kept) of all plans of a run."""
    done = {epoch.epoch: epoch for epoch in view.epochs}
    last = max(done, default=0)
    for plan in view.plans:
        if plan.level is None or not plan.feasible:
            continue
        for position, (pair, limit) in enumerate(zip(plan.planned_pairs, plan.guaranteed, strict=False)):
            epoch = done.get(plan.epoch + position)
            if epoch is None:
                if view.status == "met" and plan.epoch + position > last:
                    yield position + 1, plan.level, True
                    continue
                break
            if epoch.pair != pair:
                break
            yield position + 1, plan.level, epoch.loss <= limit + TOLERANCE


def _words(low: int, high: int) -> str:
    if low == high:
        return "1 epoch ahead"
    return f"{low} to {high} epochs ahead" if high < 10**6 else f"{low} epochs ahead and more"


def clustered(name: str, promises: Sequence[Kept]) -> Rate:
    """The rate of kept promises; its interval counts runs as far as those of one run are kept or broken together."""
    count, hits = len(promises), sum(kept for _, _, kept in promises)
    stated = mean([level for _, level, _ in promises])
    runs: dict[str, list[bool]] = {}
    for run, _, kept in promises:
        runs.setdefault(run, []).append(kept)
    observed, size = hits / count, len(runs)
    apart = math.fsum((sum(kept) - observed * len(kept)) ** 2 for kept in runs.values())
    if size < 2 or apart == 0.0:  # all alike: no more is known than the number of runs
        return Rate(name, stated, hits, count, size / count)
    variance = apart / count**2 * size / (size - 1)
    worth = observed * (1.0 - observed) / variance
    return Rate(name, stated, hits, count, min(max(worth, size), count) / count)
