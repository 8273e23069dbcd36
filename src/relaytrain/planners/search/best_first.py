"""The one best-first loop over labels, and the heap it works on.

Labels leave a heap in order of rank. A search says what it does with them in two functions, compiled into a loop of its
own (`best_first`):

    settle(space, store, label)         the label leaves the heap: what becomes of it (DROP, KEEP, FOLLOW, STOP, or
                                        CRAMPED if there is no room for it in the store, which then grows)
    step(space, store, label, turn)     where choice number `turn` leads from a label that is followed: a `NextLabel`,
                                        or NOWHERE when no label is to be made of it

`space` holds what the search is given and the plan's `counts`, `store` what it remembers of its labels, as arrays.
Labels are made in order of turns, and of equal ranks the label made first is settled first: answers do not depend on
the heap.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .allowance import HELD, LABELS, MOST_BYTES, MOST_WORK, PEAK, WORK
from .kernels import grown, inlined, jit, spliced

ROOM = 1024
"""Labels there is room for at first."""
DROP, KEEP, FOLLOW, STOP, CRAMPED = 0, 1, 2, 3, 4
"""What becomes of a label: forgotten; settled, but a dead end; settled, and steps lead on from it; the search ends; it
goes back to the heap until the store has grown."""
DRAINED, STOPPED, FULL = 0, 1, 2
"""How a search ended: no label was left, `settle` said STOP, or there were too many labels (also where it came to a
limit of `allowance`, which its caller asks about)."""
KEPT_BYTES = 100
"""Of a label, with its share of what the store remembers."""
MADE_NS, TURN_NS = 150, 60
"""Of a label that is made and leaves the heap; of a look at a choice."""


class PathLabel(NamedTuple):
    """A state on the way, and the number of its label."""

    item: int
    pair: int
    epoch: int
    loss: float
    time_s: float
    energy_j: float


class NextLabel(NamedTuple):
    """The state one epoch later, and the rank of its label."""

    pair: int
    loss: float
    time_s: float
    energy_j: float
    rank: float


NOWHERE = NextLabel(0, 0.0, 0.0, 0.0, np.inf)


class Labels(NamedTuple):
    """All labels made (N,), in the order of making: a label's parent stands before it, the start has parent -1."""

    parent: NDArray[np.int64]
    pair: NDArray[np.int64]
    epoch: NDArray[np.int64]
    loss: NDArray[np.float64]
    time_s: NDArray[np.float64]
    energy_j: NDArray[np.float64]


class Search(NamedTuple):
    """All labels, those settled in the order of settling, how the search ended, the last label to leave the heap."""

    labels: Labels
    settled: NDArray[np.int64]
    status: int
    last: int

    def path(self, item: int) -> NDArray[np.int64]:
        """The pairs of the labels that lead to label `item`, from the first after the start."""
        return path_to(self.labels.parent, self.labels.pair, item)  # type: ignore[no-any-return]


def best_first(settle: Any, step: Any, grow: Any = lambda store: store, *, turn_ns: int = TURN_NS) -> Any:
    """The loop compiled for one search, to be called as `_loop`; `grow` makes room in a store that is CRAMPED, a look
    at a choice counts as `turn_ns`.

    The compiled copy passes for a function of `settle`'s module: it is kept beside it and made anew when it changes.
    (Functions handed over as arguments, or closed over, would be compiled again by every process.)
    """
    home = settle.__code__
    code = _loop.__code__.replace(co_filename=home.co_filename, co_firstlineno=home.co_firstlineno)
    names = {**globals(), "settle": spliced(settle), "step": spliced(step), "grow": inlined(grow)}
    names["TURN_NS"] = turn_ns
    copy = FunctionType(code, names, f"best_first{settle.__name__}")
    copy.__module__, copy.__qualname__ = settle.__module__, copy.__name__
    return jit(copy)


settle: Any = None
step: Any = None
grow: Any = None
"""Names that `_loop` calls; each copy has its own."""


def _loop(space: Any, store: Any, turns: int, start: PathLabel, most: int) -> Any:
    """From `start`, ranked by its energy, `turns` choices from each label, until none is left; no more than `most`."""
    parent, pair_of, epoch_of = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    loss_of, time_of, energy_of = np.empty(ROOM), np.empty(ROOM), np.empty(ROOM)
    heap_rank, heap_item, settled = np.empty(ROOM), np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    parent[0], pair_of[0], epoch_of[0] = -1, start.pair, start.epoch
    loss_of[0], time_of[0], energy_of[0] = start.loss, start.time_s, start.energy_j
    size = push(heap_rank, heap_item, 0, start.energy_j, 0)
    count, kept, status, item = 1, 0, DRAINED, 0
    counts, work = space.counts, 0
    most = max(min(most, (counts[MOST_BYTES] - counts[HELD]) // KEPT_BYTES + 1), 1)
    while size > 0 and status == DRAINED:
        item, rank = heap_item[0], heap_rank[0]
        size = pop(heap_rank, heap_item, size)
        label = PathLabel(item, pair_of[item], epoch_of[item], loss_of[item], time_of[item], energy_of[item])
        verdict = settle(space, store, label)
        if verdict == DROP:
            continue
        if verdict == CRAMPED:
            store = grow(store)
            size = push(heap_rank, heap_item, size, rank, item)
            continue
        if verdict == STOP:
            status = STOPPED
            break
        settled[kept] = item
        kept += 1
        if verdict == KEEP:
            continue
        if work + counts[WORK] > counts[MOST_WORK]:
            status = FULL
            break
        before = count
        for turn in range(turns):
            ahead = step(space, store, label, turn)
            if ahead.rank == np.inf:
                continue
            if count == most:
                status = FULL
                break
            if count == parent.shape[0]:
                parent, pair_of, epoch_of = grown(parent), grown(pair_of), grown(epoch_of)
                loss_of, time_of, energy_of = grown(loss_of), grown(time_of), grown(energy_of)
                heap_rank, heap_item, settled = grown(heap_rank), grown(heap_item), grown(settled)
            parent[count], pair_of[count], epoch_of[count] = item, ahead.pair, label.epoch + 1
            loss_of[count], time_of[count], energy_of[count] = ahead.loss, ahead.time_s, ahead.energy_j
            size = push(heap_rank, heap_item, size, ahead.rank, count)
            count += 1
        work += TURN_NS * turns + MADE_NS * (count - before)
    counts[WORK] += work
    counts[LABELS] += count
    counts[PEAK] = max(counts[PEAK], counts[HELD] + KEPT_BYTES * count)
    labels = Labels(
        parent[:count], pair_of[:count], epoch_of[:count], loss_of[:count], time_of[:count], energy_of[:count]
    )
    return Search(labels, settled[:kept], status, item)


@jit
def push(heap_rank: Any, heap_item: Any, size: int, rank: float, item: int) -> int:
    """Adds an item to a binary heap kept in two arrays (ties: lower item first); returns the new size."""
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if heap_rank[parent] < rank or (heap_rank[parent] == rank and heap_item[parent] <= item):
            break
        heap_rank[place] = heap_rank[parent]
        heap_item[place] = heap_item[parent]
        place = parent
    heap_rank[place] = rank
    heap_item[place] = item
    return size + 1


@jit
def pop(heap_rank: Any, heap_item: Any, size: int) -> int:
    """Removes the least item (read it first at position 0); returns the new size."""
    size -= 1
    rank, item = heap_rank[size], heap_item[size]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            heap_rank[other] < heap_rank[child]
            or (heap_rank[other] == heap_rank[child] and heap_item[other] < heap_item[child])
        ):
            child = other
        if heap_rank[child] > rank or (heap_rank[child] == rank and heap_item[child] >= item):
            break
        heap_rank[place] = heap_rank[child]
        heap_item[place] = heap_item[child]
        place = child
    heap_rank[place] = rank
    heap_item[place] = item
    return size


@jit
def path_to(parent: Any, pair_of: Any, item: int) -> Any:
    """The pairs of the labels that lead to label `item`, from the first after the start; the start has parent -1."""
    steps, walk = 0, item
    while parent[walk] >= 0:
        steps += 1
        walk = parent[walk]
    actions = np.empty(steps, np.int64)
    walk = item
    for position in range(steps - 1, -1, -1):
        actions[position] = pair_of[walk]
        walk = parent[walk]
    return actions
