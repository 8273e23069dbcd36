"""The least energy in a world for one who knows its luck beforehand: what every rule is measured against."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.state import TOLERANCE
from ..planners.search.instance import Start, contiguous, instance_of
from ..planners.search.kernels import grown, jit, next_loss, pop, push
from ..planners.search.solve import solve
from ..planners.search.staircase import dominated, fresh, insert
from .world import World

MOST_LABELS = 4_000_000


@dataclass(frozen=True)
class Clairvoyant:
    """The energy of the optimum that knows the luck, infinite where even that misses; not `exact`: the best known."""

    energy_j: float
    exact: bool = True

    @property
    def met(self) -> bool:
        """Somebody who knew the luck would have met the target."""
        return math.isfinite(self.energy_j)


def clairvoyant(world: World, known_j: float = math.inf) -> Clairvoyant:
    """The optimum of `world`; `known_j` is an energy that some rule met the target with."""
    if not world.luck.delays and not world.luck.shift.any():
        state = world.start
        found = solve(
            instance_of(world.problem, world.costs, world.lucky_law), Start(0, state.pair, state.loss, state.elapsed_s)
        )
        return Clairvoyant(min(found.energy_j if found.feasible else math.inf, known_j), found.exact)
    return labelled(world, known_j)


def labelled(world: World, known_j: float = math.inf) -> Clairvoyant:
    """The same with seconds and additive noise that differ by epoch, which `planners.search` has no words for."""
    start, target = world.start, world.problem.target
    status, energy = _labelled(
        contiguous(world.form),
        np.ascontiguousarray(world.seconds),
        np.ascontiguousarray(world.costs.epoch_j),
        np.ascontiguousarray(world.luck.shift),
        (start.pair, start.loss),
        target.loss + TOLERANCE,
        target.deadline_s + TOLERANCE,
        known_j - TOLERANCE,
        MOST_LABELS,
    )
    return Clairvoyant(min(float(energy), known_j), bool(status) and world.lucky_law.monotone)


@jit
def _labelled(
    form: Any,
    seconds: Any,
    joules: Any,
    shift: Any,
    start: tuple[int, float],
    goal: float,
    deadline: float,
    ceiling: float,
    most: int,
) -> Any:
    """Labels in order of energy; each (epoch, pair) keeps the staircase of losses and times not dominated."""
    epochs, pairs = shift.shape
    room = 1024
    pair_of, epoch_of = np.empty(room, np.int64), np.empty(room, np.int64)
    loss_of, time_of, energy_of = np.empty(room), np.empty(room), np.empty(room)
    heap_key, heap_item = np.empty(room), np.empty(room, np.int64)
    pool_loss, pool_time, index = fresh(pairs * (epochs + 1))
    used = 0
    pair_of[0], epoch_of[0], loss_of[0], time_of[0], energy_of[0] = start[0], 0, start[1], 0.0, 0.0
    count = 1
    size = push(heap_key, heap_item, 0, 0.0, 0)
    while size > 0:
        item = heap_item[0]
        size = pop(heap_key, heap_item, size)
        before, epoch, loss, time, energy = pair_of[item], epoch_of[item], loss_of[item], time_of[item], energy_of[item]
        if loss <= goal:
            return True, energy
        key = epoch * pairs + before
        if dominated(pool_loss, pool_time, index[0, key], index[1, key], loss, time):
            continue
        pool_loss, pool_time, used = insert(pool_loss, pool_time, index, used, key, loss, time)
        if epoch >= epochs:
            continue
        for now in range(pairs):
            late, spent = time + seconds[epoch, before, now], energy + joules[before, now]
            if not (late <= deadline and spent <= ceiling and np.isfinite(spent) and np.isfinite(late)):
                continue
            landed = next_loss(form, epoch + 1, loss, before, now)
            if not np.isfinite(landed):
                continue
            landed = max(landed + shift[epoch, now], 0.0)
            key = (epoch + 1) * pairs + now
            if dominated(pool_loss, pool_time, index[0, key], index[1, key], landed, late):
                continue
            if count == most:
                return False, np.inf
            if count == pair_of.shape[0]:
                pair_of, epoch_of = grown(pair_of), grown(epoch_of)
                loss_of, time_of, energy_of = grown(loss_of), grown(time_of), grown(energy_of)
            if size == heap_key.shape[0]:
                heap_key, heap_item = grown(heap_key), grown(heap_item)
            pair_of[count], epoch_of[count] = now, epoch + 1
            loss_of[count], time_of[count], energy_of[count] = landed, late, spent
            size = push(heap_key, heap_item, size, spent, count)
            count += 1
    return True, np.inf
