"""What could be reached instead: the least loss by the deadline, and the earliest time for the target."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.plan import Nearest
from ...core.state import State
from ..search.instance import Array
from ..search.kernels import grown, jit, next_loss, path_to, pop, push
from ..search.solve import SearchInstance, Solution, Start, path_of, solve
from .lateness import cautious, least_quantile, margin, path_variance
from .level_tables import Tables

TANGENTS = 4


@jit
def _least_loss(
    form: Any, seconds: Any, start: tuple[int, int, float, float], deadline: float, epochs: int, most: int
) -> Any:
    """Labels in order of time; each pair keeps those that lower its loss. Returns the path to the least loss seen."""
    start_epoch, start_pair, start_loss, start_time = start
    pairs = seconds.shape[0]
    room = 1024
    parent, pair_of, epoch_of = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    loss_of, time_of = np.empty(room), np.empty(room)
    heap_key, heap_item = np.empty(room), np.empty(room, np.int64)
    least = np.full(pairs, np.inf)
    parent[0], pair_of[0], epoch_of[0], loss_of[0], time_of[0] = -1, start_pair, start_epoch, start_loss, start_time
    count, winner = 1, 0
    size = push(heap_key, heap_item, 0, start_time, 0)
    while size > 0 and count < most:
        item = heap_item[0]
        size = pop(heap_key, heap_item, size)
        before = pair_of[item]
        if item > 0 and loss_of[item] >= least[before] - 1e-12:
            continue
        if item > 0:
            least[before] = loss_of[item]
        if loss_of[item] < loss_of[winner]:
            winner = item
        if epoch_of[item] >= epochs:
            continue
        for now in range(pairs):
            late = time_of[item] + seconds[before, now]
            if not late <= deadline:
                continue
            landed = next_loss(form, epoch_of[item] + 1, loss_of[item], before, now)
            if not np.isfinite(landed) or landed >= least[now] - 1e-12:
                continue
            if count == parent.shape[0]:
                parent, pair_of, epoch_of = grown(parent), grown(pair_of), grown(epoch_of)
                loss_of, time_of = grown(loss_of), grown(time_of)
            if size == heap_key.shape[0]:
                heap_key, heap_item = grown(heap_key), grown(heap_item)
            parent[count], pair_of[count], epoch_of[count] = item, now, epoch_of[item] + 1
            loss_of[count], time_of[count] = landed, late
            size = push(heap_key, heap_item, size, late, count)
            count += 1
    return path_to(parent, pair_of, winner)


def least_loss(instance: SearchInstance, start: Start) -> Solution:
    """The path to the least loss by the deadline (for laws with epoch tables: a good one, not surely the least)."""
    allowed = np.isfinite(instance.joules) & np.isfinite(instance.seconds)
    deadline = instance.deadline if math.isfinite(instance.deadline) else 1e300
    epochs = instance.cap(start)
    seconds = np.where(allowed, instance.seconds, np.inf)
    actions = _least_loss(
        instance.form, seconds, (start.epoch, start.pair, start.loss, start.elapsed_s), deadline, epochs, 400_000
    )
    if len(actions) == 0:
        return Solution(False, (), (), 0.0, start.elapsed_s, math.inf, False)
    losses, energy, elapsed = path_of(instance, start, actions)
    return Solution(False, tuple(map(int, actions)), tuple(map(float, losses)), energy, elapsed, math.inf, False)


def nearest_targets(tables: Tables, state: State, level: float) -> tuple[Nearest, ...]:
    """Targets that are feasible at `level`: a higher loss by the same deadline, the same loss by a later one."""
    start = tables.at_level(tables.start(state), level)
    instance = tables.at(level)
    scale_loss = 1.0 if tables.grid is None else tables.grid.loss_step
    scale_time = 1.0 if tables.grid is None else tables.grid.time_step_s
    found: list[Nearest] = []
    low = least_loss(instance, start)
    z, variance = margin(level), tables.variance
    if variance is not None and z > 0.0:
        low = _least_loss_in_time(instance, variance, z, start, low)
    if low.actions:
        found.append(Nearest(min(low.losses) * scale_loss, tables.problem.target.deadline_s))
    quick = solve(tables.timed(level), start)
    if quick.feasible:
        late = quick.elapsed_s if variance is None else least_quantile(tables.timed(level), variance, z, start)
        found.append(Nearest(tables.problem.target.loss, late * scale_time))
    return tuple(found)


def _least_loss_in_time(base: SearchInstance, variance: Array, z: float, start: Start, low: Solution) -> Solution:
    """`least_loss` where time scatters: the tangent is laid anew at the path just found, which never makes it worse."""
    best = Solution(False, (), (), 0.0, start.elapsed_s, math.inf, False)
    for _ in range(TANGENTS):
        deviation = math.sqrt(path_variance(variance, start, low.actions))
        low = least_loss(cautious(base, variance, z, deviation), start)
        if not low.actions or (best.actions and min(low.losses) >= min(best.losses)):
            break
        best = low
    return best
