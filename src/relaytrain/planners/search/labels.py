"""Exact forward search: Pareto labels (loss, seconds) in order of energy, pruned by what is still to go.

A label is a state with the energy spent so far. Labels leave the heap in order of energy, so one of them is dominated
exactly when an earlier one of the same pair (and epoch, if the law has an epoch index) has no higher loss and no later
time. Each such set is a staircase (`staircase`):

        loss ^      x            x: kept labels
             |        x          o: dominated, it lies above and to the right of a kept one
             |          o  x
             +-------------------> seconds

The first label that meets the goal is optimal. Bounds cut labels that cannot finish in time or below a known energy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .kernels import grown, jit, next_loss, path_to, pop, push
from .staircase import dominated, fresh, insert
from .togo import ToGo, lookup

FOUND, EXHAUSTED, TOO_MANY = 0, 1, 2


class LabelPath(NamedTuple):
    """How the search ended (FOUND, EXHAUSTED, TOO_MANY), the pairs chosen, and how many labels it took."""

    status: int
    actions: NDArray[np.int64]
    labels: int


@jit
def _search(
    form: Any,
    seconds: Any,
    joules: Any,
    start: tuple[int, int, float, float],
    first: Any,
    goal: float,
    deadline: float,
    epochs: int,
    by_epoch: bool,
    with_time: bool,
    ceiling: float,
    energy_to_go: Any,
    time_to_go: Any,
    mixed_to_go: Any,
    epochs_to_go: Any,
    price: float,
    most: int,
    dominate: bool,
) -> Any:
    start_epoch, start_pair, start_loss, start_time = start
    pairs = joules.shape[0]
    room = 1024
    parent = np.empty(room, np.int64)
    pair_of = np.empty(room, np.int64)
    epoch_of = np.empty(room, np.int64)
    loss_of, time_of, energy_of = np.empty(room), np.empty(room), np.empty(room)
    heap_key, heap_item = np.empty(room), np.empty(room, np.int64)
    keys = pairs * (epochs + 1 - start_epoch) if by_epoch else pairs
    pool_loss, pool_time, index = fresh(keys)
    used = 0
    parent[0], pair_of[0], epoch_of[0] = -1, start_pair, start_epoch
    loss_of[0], time_of[0], energy_of[0] = start_loss, start_time, 0.0
    count = 1
    size = push(heap_key, heap_item, 0, 0.0, 0)
    while size > 0:
        item = heap_item[0]
        size = pop(heap_key, heap_item, size)
        before, epoch, loss, time, energy = pair_of[item], epoch_of[item], loss_of[item], time_of[item], energy_of[item]
        if loss <= goal:
            return 0, path_to(parent, pair_of, item), count
        if item > 0 and dominate:  # the start itself dominates nothing: its first action may be restricted
            key = (epoch - start_epoch) * pairs + before if by_epoch else before
            if dominated(pool_loss, pool_time, index[0, key], index[1, key], loss, time):
                continue
            pool_loss, pool_time, used = insert(pool_loss, pool_time, index, used, key, loss, time)
        if epoch >= epochs:
            continue
        for now in range(pairs):
            if item == 0 and not first[now]:
                continue
            step_j, step_s = joules[before, now], seconds[before, now]
            if not (np.isfinite(step_j) and np.isfinite(step_s)):
                continue
            spent = energy + step_j
            late = time + step_s
            if spent > ceiling or late > deadline:
                continue
            landed = next_loss(form, epoch + 1, loss, before, now)
            if not np.isfinite(landed):
                continue
            if late + lookup(time_to_go, epoch + 1, now, landed) > deadline:
                continue
            if epoch + 1 + lookup(epochs_to_go, epoch + 1, now, landed) > epochs:
                continue
            if spent + lookup(energy_to_go, epoch + 1, now, landed) > ceiling:
                continue
            if (
                price > 0.0
                and spent + lookup(mixed_to_go, epoch + 1, now, landed) - price * (deadline - late) > ceiling
            ):
                continue
            if not with_time:
                late = 0.0
            key = (epoch + 1 - start_epoch) * pairs + now if by_epoch else now
            if dominate and dominated(pool_loss, pool_time, index[0, key], index[1, key], landed, late):
                continue
            if count == most:
                return 2, np.empty(0, np.int64), count
            if count == parent.shape[0]:
                parent, pair_of, epoch_of = grown(parent), grown(pair_of), grown(epoch_of)
                loss_of, time_of, energy_of = grown(loss_of), grown(time_of), grown(energy_of)
            if size == heap_key.shape[0]:
                heap_key, heap_item = grown(heap_key), grown(heap_item)
            parent[count], pair_of[count], epoch_of[count] = item, now, epoch + 1
            loss_of[count], time_of[count], energy_of[count] = landed, late, spent
            size = push(heap_key, heap_item, size, spent, count)
            count += 1
    return 1, np.empty(0, np.int64), count


def search(
    form: Any,
    costs: tuple[NDArray[np.float64], NDArray[np.float64]],
    start: tuple[int, int, float, float],
    *,
    first: NDArray[np.bool_],
    goal: float,
    deadline: float,
    epochs: int,
    by_epoch: bool,
    with_time: bool,
    ceiling: float,
    bounds: tuple[ToGo, ToGo, ToGo, ToGo],
    price: float,
    most: int,
    dominate: bool = True,
) -> LabelPath:
    """The least energy from `start` = (epochs done, pair, loss, seconds) to a loss at or below `goal` by `deadline`.

    `costs` are seconds and joules (P, P); `first` masks the first action. `bounds` are energy-, time-, mixed- and
    epochs-to-go, the third for energy + `price` * time. Nothing above `ceiling` joules is kept, nor more than `most` labels.
    Without `dominate` every path within the bounds is followed: exact under any law, for small problems only.
    """
    status, actions, count = _search(
        form,
        costs[0],
        costs[1],
        start,
        first,
        goal,
        deadline,
        epochs,
        by_epoch,
        with_time,
        ceiling,
        *bounds,
        price,
        most,
        dominate,
    )
    return LabelPath(status, actions, count)
