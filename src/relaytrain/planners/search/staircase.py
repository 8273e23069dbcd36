"""Staircases of (loss, seconds): which labels of a state are worth keeping. One pool of memory holds all of them.

Losses ascend, times descend. A label is dominated when a kept one has no higher loss and no later time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .kernels import grown, jit

EQUAL = 1e-12


@jit
def dominated(pool_loss: Any, pool_time: Any, start: int, count: int, loss: float, time: float) -> bool:
    """Whether the staircase of `count` labels from `start` dominates (loss, time)."""
    low, high = start, start + count
    while low < high:
        middle = (low + high) // 2
        if pool_loss[middle] <= loss + EQUAL:
            low = middle + 1
        else:
            high = middle
    return low > start and pool_time[low - 1] <= time + EQUAL


@jit
def insert(pool_loss: Any, pool_time: Any, index: Any, used: int, key: int, loss: float, time: float) -> Any:
    """Adds an undominated label to staircase `key`; returns the pool (it may have moved) and how much of it is used.

    `index` (3, keys) holds where each staircase begins, how many labels it has and how much room.
    """
    if index[1, key] == index[2, key]:  # move the staircase to the end of the pool, with twice the room
        wider = max(8, 2 * index[2, key])
        while used + wider > pool_loss.shape[0]:
            pool_loss, pool_time = grown(pool_loss), grown(pool_time)
        for place in range(index[1, key]):
            pool_loss[used + place] = pool_loss[index[0, key] + place]
            pool_time[used + place] = pool_time[index[0, key] + place]
        index[0, key], index[2, key] = used, wider
        used += wider
    head, length = index[0, key], index[1, key]
    spot = head
    while spot < head + length and pool_loss[spot] <= loss:
        spot += 1
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
    index[1, key] = length + 1 - gone
    return pool_loss, pool_time, used


@jit
def fresh(keys: int) -> Any:
    """An empty pool and the index of `keys` empty staircases."""
    return np.empty(1024), np.empty(1024), np.zeros((3, keys), np.int64)
