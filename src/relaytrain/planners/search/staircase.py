"""Staircases of (loss, seconds): which labels of a state are worth keeping. One pool of memory holds all of them.

Losses ascend, times descend. A label is dominated when a kept one has no higher loss and no later time.

        loss ^      x            x: kept labels
             |        x          o: dominated, it lies above and to the right of a kept one
             |          o  x
             +-------------------> seconds
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .kernels import grown, jit

EQUAL = 1e-12


class Staircases(NamedTuple):
    """The pool, and for each staircase (3, keys + 1) where it begins, how many labels it has and how much room.

    Where the last one would begin, the unused rest of the pool does.
    """

    loss: NDArray[np.float64]
    time_s: NDArray[np.float64]
    spans: NDArray[np.int64]


def empty_staircases(keys: int) -> Staircases:
    """`keys` staircases without labels."""
    return Staircases(np.empty(1024), np.empty(1024), np.zeros((3, keys + 1), np.int64))


@jit
def dominated(pool_loss: Any, pool_time: Any, spans: Any, key: int, loss: float, time: float) -> bool:
    """Whether staircase `key` dominates (loss, time)."""
    start = spans[0, key]
    low, high = start, start + spans[1, key]
    while low < high:
        middle = (low + high) // 2
        if pool_loss[middle] <= loss + EQUAL:
            low = middle + 1
        else:
            high = middle
    return low > start and pool_time[low - 1] <= time + EQUAL


@jit
def insert(pool_loss: Any, pool_time: Any, spans: Any, key: int, loss: float, time: float) -> bool:
    """Adds an undominated label to staircase `key`; False, with nothing done, when the pool has no room left for it."""
    if spans[1, key] == spans[2, key]:  # move the staircase to the end of the pool, with twice the room
        used, wider = spans[0, -1], max(8, 2 * spans[2, key])
        if used + wider > pool_loss.shape[0]:
            return False
        for place in range(spans[1, key]):
            pool_loss[used + place] = pool_loss[spans[0, key] + place]
            pool_time[used + place] = pool_time[spans[0, key] + place]
        spans[0, key], spans[2, key] = used, wider
        spans[0, -1] = used + wider
    head, length = spans[0, key], spans[1, key]
    spot, end = head, head + length
    while spot < end:
        middle = (spot + end) // 2
        if pool_loss[middle] <= loss:
            spot = middle + 1
        else:
            end = middle
    gone = 0
    while spot + gone < head + length and pool_time[spot + gone] >= time:
        gone += 1
    if gone == 0:
        for place in range(head + length, spot, -1):
            pool_loss[place], pool_time[place] = pool_loss[place - 1], pool_time[place - 1]
    elif gone > 1:
        for place in range(spot + 1, head + length - gone + 1):
            pool_loss[place], pool_time[place] = pool_loss[place + gone - 1], pool_time[place + gone - 1]
    pool_loss[spot], pool_time[spot] = loss, time
    spans[1, key] = length + 1 - gone
    return True


def roomier(store: Staircases) -> Staircases:
    """The same staircases with twice the pool."""
    return Staircases(grown(store.loss), grown(store.time_s), store.spans)
