"""The least loss that can be had by the deadline."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.curve import Array
from ..search.allowance import MOST_WORK, WORK, check
from ..search.kernels import jit, next_loss
from ..search.labels import search
from ..search.solve import SearchInstance, Solution, Start, path_of
from .lateness import cautious, path_variance

MOST_LABELS = 400_000
TURN_NS = 40
"""Of an epoch from a pair to a pair."""
TANGENTS = 4
"""How often the tangent is laid anew."""


def least_loss(instance: SearchInstance, start: Start) -> Solution:
    """The path to the least loss by the deadline (laws that are not monotone: a good one, not surely the least)."""
    seconds = np.where(instance.allowed, instance.seconds, np.inf)
    deadline = instance.deadline if math.isfinite(instance.deadline) else 1e300
    # In order of time, and of no loss that a pair (by then, if epochs count) has seen before.
    timed = replace(instance, seconds=seconds, joules=seconds, goal=-math.inf, deadline=deadline, tables={})
    outcome = search(
        timed,
        start,
        epochs=instance.cap(start),
        most=MOST_LABELS,
        by_epoch=(instance.by_epoch or instance.capped) and instance.cap(start) >= start.epoch,
        spent=start.elapsed_s,
        ceiling=deadline,
        with_time=False,
    )
    actions = outcome.path(outcome.settled[np.argmin(outcome.labels.loss[outcome.settled])])
    if len(actions) == 0:
        return Solution(False, (), (), 0.0, start.elapsed_s, math.inf, False)
    losses, energy, elapsed = path_of(instance, start, actions)
    return Solution(False, tuple(map(int, actions)), tuple(map(float, losses)), energy, elapsed, math.inf, False)


@jit
def _first_epoch(
    form: Any, allowed: Any, pair: int, loss: float, done: int, goal: float, last: int, counts: Any
) -> int:
    pairs, rows = allowed.shape[0], max(form.run.shape[0], form.mult.shape[0], form.c0.shape[0], form.table.shape[0])
    least, ahead = np.full(pairs, np.inf), np.full(pairs, np.inf)
    least[pair] = loss
    for epoch in range(done + 1, last + 1):
        moved = epoch <= rows
        counts[WORK] += TURN_NS * pairs * pairs
        if counts[WORK] > counts[MOST_WORK]:
            break
        for now in range(pairs):
            ahead[now] = np.inf
            for before in range(pairs):
                if allowed[before, now] and np.isfinite(least[before]):
                    landed = next_loss(form, epoch, least[before], before, now)
                    ahead[now] = min(ahead[now], landed)
            moved = moved or ahead[now] != least[now]
            if ahead[now] <= goal:
                return epoch
        if not moved:
            return -1
        least[:] = ahead
    return -1


def first_epoch(instance: SearchInstance, start: Start, last: int) -> int | None:
    """The first epoch, `last` at most, in which some path meets the goal, however late; None for never.

    Of each pair the least loss is followed, which is exact under monotone laws.
    """
    where = (start.pair, start.loss, start.epoch)
    epoch = int(_first_epoch(instance.form, instance.allowed, *where, instance.goal, last, instance.counts))
    check(instance.counts)
    return None if epoch < 0 else epoch


def least_loss_in_time(base: SearchInstance, variance: Array, z: float, start: Start) -> Solution:
    """`least_loss` where time scatters: the tangent is laid anew at the path just found, which never makes it worse."""
    best = Solution(False, (), (), 0.0, start.elapsed_s, math.inf, False)
    low = least_loss(base, start)
    for _ in range(TANGENTS):
        deviation = math.sqrt(path_variance(variance, start, low.actions))
        low = least_loss(cautious(base, variance, z, deviation), start)
        if not low.actions or (best.actions and min(low.losses) >= min(best.losses)):
            break
        best = low
    return best
