"""The expanded graph of PACT, explored from the present state in order of energy; used where a rule needs *all* paths.

Vertices are (pair, loss cell, time cell); the epoch is merged, the cheapest label of a cell stands for it. On a gridded
instance cells are the paper's vertices and rounding is in the law; else a cell keeps its label's exact loss and time.

Paper: Alg. 1 (reachable part only), Alg. 2 (one single-source pass gives every shortest path).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..search.kernels import grown, jit, next_loss, pop, push
from ..search.solve import SearchInstance, Start
from ..search.togo import lookup, nothing

CELLS = 96
"""Cells along each axis when the instance itself is not gridded."""


class Arrivals(NamedTuple):
    """Feasible vertices: first action, joules, and the sums of expected and robust loss changes along the path."""

    first: NDArray[np.int64]
    energy: NDArray[np.float64]
    expected: NDArray[np.float64]
    robust: NDArray[np.float64]


@jit
def _explore(
    form: Any,
    expected: Any,
    seconds: Any,
    joules: Any,
    start: tuple[int, int, float, float],
    goal: float,
    deadline: float,
    epochs: int,
    loss_cell: float,
    time_cell: float,
    cells: tuple[int, int],
    via: Any,
    only_first: bool,
    energy_to_go: Any,
    time_to_go: Any,
) -> Any:
    start_epoch, start_pair, start_loss, start_time = start
    pairs = joules.shape[0]
    across, along = cells
    cheapest = np.full((2, pairs, across, along), np.inf)  # energy of the best label made for a cell so far
    room = 1024
    pair_of, epoch_of, first_of = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    flag_of = np.empty(room, np.int64)
    loss_of, time_of, energy_of, hope_of = np.empty(room), np.empty(room), np.empty(room), np.empty(room)
    heap_key, heap_item = np.empty(room), np.empty(room, np.int64)
    found = np.empty(room, np.int64)
    founds = 0
    pair_of[0], epoch_of[0], first_of[0] = start_pair, start_epoch, -1
    flag_of[0] = 1 if via[start_pair] else 0
    loss_of[0], time_of[0], energy_of[0], hope_of[0] = start_loss, start_time, 0.0, 0.0
    row = min(int(start_loss / loss_cell + 1e-9), across - 1)
    column = min(int(start_time / time_cell + 1e-9), along - 1)
    cheapest[flag_of[0], start_pair, row, column] = 0.0
    count = 1
    size = push(heap_key, heap_item, 0, 0.0, 0)
    while size > 0:
        item = heap_item[0]
        size = pop(heap_key, heap_item, size)
        before, epoch, loss, time = pair_of[item], epoch_of[item], loss_of[item], time_of[item]
        flag = flag_of[item]
        row = min(int(loss / loss_cell + 1e-9), across - 1)
        column = min(int(time / time_cell + 1e-9), along - 1)
        if energy_of[item] > cheapest[flag, before, row, column]:
            continue  # a cheaper label came after this one was made
        if loss <= goal and flag == 1:
            if founds == found.shape[0]:
                found = grown(found)
            found[founds] = item
            founds += 1
            if only_first:
                break
            continue
        if epoch >= epochs:
            continue
        for now in range(pairs):
            step_j, step_s = joules[before, now], seconds[before, now]
            if not (np.isfinite(step_j) and np.isfinite(step_s)) or time + step_s > deadline:
                continue
            landed = next_loss(form, epoch + 1, loss, before, now)
            if not np.isfinite(landed) or landed > loss_cell * across:
                continue
            late, spent = time + step_s, energy_of[item] + step_j
            if late + lookup(time_to_go, epoch + 1, now, landed) > deadline:
                continue
            passed = 1 if flag == 1 or via[now] else 0
            row = min(int(landed / loss_cell + 1e-9), across - 1)
            column = min(int(late / time_cell + 1e-9), along - 1)
            if spent >= cheapest[passed, now, row, column]:
                continue
            cheapest[passed, now, row, column] = spent
            if count == pair_of.shape[0]:
                pair_of, epoch_of, first_of, flag_of = grown(pair_of), grown(epoch_of), grown(first_of), grown(flag_of)
                loss_of, time_of, energy_of, hope_of = grown(loss_of), grown(time_of), grown(energy_of), grown(hope_of)
            if size == heap_key.shape[0]:
                heap_key, heap_item = grown(heap_key), grown(heap_item)
            pair_of[count], epoch_of[count] = now, epoch + 1
            first_of[count] = now if item == 0 else first_of[item]
            flag_of[count] = passed
            loss_of[count], time_of[count], energy_of[count] = landed, late, spent
            hope_of[count] = hope_of[item] + next_loss(expected, epoch + 1, loss, before, now) - loss
            size = push(heap_key, heap_item, size, spent + lookup(energy_to_go, epoch + 1, now, landed), count)
            count += 1
    first, energy = np.empty(founds, np.int64), np.empty(founds)
    hope, sure = np.empty(founds), np.empty(founds)
    for place in range(founds):
        item = found[place]
        first[place], energy[place] = first_of[item], energy_of[item]
        hope[place], sure[place] = hope_of[item], loss_of[item] - start_loss
    return first, energy, hope, sure


def arrivals(
    instance: SearchInstance,
    expected: Any,
    start: Start,
    *,
    via: NDArray[np.bool_] | None = None,
    only_first: bool = False,
) -> Arrivals:
    """Shortest paths from `start` to every feasible vertex, under the instance's (robust) law.

    With `via` only paths that visit one of the marked pairs count; `only_first` stops at the cheapest one.
    """
    top = instance.loss_top if instance.form.integer else max(start.loss * 1.5, instance.goal * 2.0)
    deadline = instance.deadline
    if not np.isfinite(deadline):
        slowest = instance.seconds[np.isfinite(instance.seconds)].max(initial=0.0)
        deadline = start.elapsed_s + float(slowest) * 500
    if instance.form.integer:
        cells, loss_cell, time_cell = (int(top) + 1, int(deadline) + 1), 1.0, 1.0
    else:
        cells, loss_cell, time_cell = (CELLS, CELLS), top / CELLS, max(deadline, 1e-12) / CELLS
    every = np.ones(len(instance.joules), np.bool_)
    epochs = instance.cap(start)
    # Bounds leave the answer as it is: no way to the goal is cut, and the first one found is still the cheapest.
    aim, last = nothing(instance.goal), nothing(instance.goal)
    if not instance.by_epoch:
        last = instance.time_to_go()
        aim = instance.energy_to_go(start) if only_first else aim
    found = _explore(
        instance.form,
        expected,
        instance.seconds,
        instance.joules,
        (start.epoch, start.pair, start.loss, start.elapsed_s),
        instance.goal,
        deadline,
        epochs,
        loss_cell,
        time_cell,
        cells,
        every if via is None else via,
        only_first,
        aim,
        last,
    )
    return Arrivals(*found)
