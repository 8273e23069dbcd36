"""The expanded graph of PACT, explored from the present state in order of energy; used where a rule needs *all* paths.

Vertices are (pair, loss cell, time cell), the cheapest label of a cell stands for it. On a gridded instance cells are
the paper's vertices, with the epoch where it counts, and rounding is in the law; else the epoch is merged and a cell
keeps its label's exact loss and time. All paths on a grid are `time_layers`.

Paper: Alg. 1 (reachable part only), Alg. 2 (one single-source pass gives every shortest path).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.law import LawForm
from ..search.allowance import Counts, check, current
from ..search.best_first import CRAMPED, DROP, FOLLOW, KEEP, NOWHERE, STOP, STOPPED, NextLabel, PathLabel, best_first
from ..search.instance import SearchInstance, Start
from ..search.kernels import jit, next_loss
from ..search.togo import ToGo, lookup, nothing

CELLS = 96
"""Cells along each axis when the instance itself is not gridded."""
ROOM = 4096
"""Of the table of cells, at first."""
CELL_NS = 200
"""Of a look at where a label may lead, and at the cell that it comes to."""
MOST_LABELS = 2**62
"""Cells and the plan's counts alone limit them."""


class Arrivals(NamedTuple):
    """Feasible vertices: first action, joules, and the sums of expected and robust loss changes along the path."""

    first: NDArray[np.int64]
    energy: NDArray[np.float64]
    expected: NDArray[np.float64]
    robust: NDArray[np.float64]


class _Space(NamedTuple):
    form: LawForm
    seconds: NDArray[np.float64]
    joules: NDArray[np.float64]
    goal: float
    deadline: float
    epochs: int
    loss_cell: float
    time_cell: float
    via: NDArray[np.bool_]
    only_first: bool
    rows: int
    columns: int
    by_epoch: bool
    energy_to_go: ToGo
    time_to_go: ToGo
    counts: Counts


class _Cells(NamedTuple):
    """The energy of the best label made for a cell so far: a table of the cells that were reached, half of it empty."""

    keys: NDArray[np.int64]  # -1: empty
    energy: NDArray[np.float64]
    used: NDArray[np.int64]


@jit
def _place(keys: Any, key: int) -> int:
    """Where a cell is, or would be put."""
    place = (key ^ (key >> 15) ^ (key >> 31)) * 40503 & (keys.shape[0] - 1)
    while keys[place] >= 0 and keys[place] != key:
        place = (place + 1) & (keys.shape[0] - 1)
    return place


@jit
def _wider(keys: Any, energy: Any) -> Any:
    more, moved = np.full(2 * keys.shape[0], -1, np.int64), np.empty(2 * keys.shape[0])
    for place in range(keys.shape[0]):
        if keys[place] >= 0:
            to = _place(more, keys[place])
            more[to], moved[to] = keys[place], energy[place]
    return more, moved


def _roomier(store: _Cells) -> _Cells:
    keys, energy = _wider(store.keys, store.energy)
    return _Cells(keys, energy, store.used)


@jit
def _key(space: Any, epoch: int, pair: int, loss: float, time: float) -> int:
    row = min(int(loss / space.loss_cell + 1e-9), space.rows - 1)
    column = min(int(time / space.time_cell + 1e-9), space.columns - 1)
    layer = epoch * 2 * space.joules.shape[0] + pair if space.by_epoch else pair
    return (layer * space.rows + row) * space.columns + column  # type: ignore[no-any-return]


# Pairs count twice here: pair + P once a pair marked in `via` was visited.


def _settle_cell(space: _Space, store: _Cells, label: PathLabel) -> Any:
    if 2 * (store.used[0] + space.joules.shape[0]) > store.keys.shape[0]:
        return CRAMPED
    key = _key(space, label.epoch, label.pair, label.loss, label.time_s)
    if label.item > 0 and label.energy_j > store.energy[_place(store.keys, key)]:
        return DROP  # a cheaper label came after this one was made
    if label.loss <= space.goal and label.pair >= space.joules.shape[0]:
        return STOP if space.only_first else KEEP
    return KEEP if label.epoch >= space.epochs else FOLLOW


def _step_cell(space: _Space, store: _Cells, label: PathLabel, now: int) -> Any:
    pairs = space.joules.shape[0]
    before, epoch = label.pair % pairs, label.epoch + 1
    step_j, step_s = space.joules[before, now], space.seconds[before, now]
    if not (np.isfinite(step_j) and np.isfinite(step_s)) or label.time_s + step_s > space.deadline:
        return NOWHERE
    landed = next_loss(space.form, epoch, label.loss, before, now)
    if not np.isfinite(landed) or landed > space.loss_cell * space.rows:
        return NOWHERE
    late, spent = label.time_s + step_s, label.energy_j + step_j
    if late + lookup(space.time_to_go, epoch, now, landed) > space.deadline:
        return NOWHERE
    pair = now + pairs if label.pair >= pairs or space.via[now] else now
    key = _key(space, epoch, pair, landed, late)
    place = _place(store.keys, key)
    if store.keys[place] == key and spent >= store.energy[place]:
        return NOWHERE
    if store.keys[place] < 0:
        store.keys[place] = key
        store.used[0] += 1
    store.energy[place] = spent
    return NextLabel(pair, landed, late, spent, spent + lookup(space.energy_to_go, epoch, now, landed))


_explore = best_first(_settle_cell, _step_cell, _roomier, turn_ns=CELL_NS)


@jit
def _summed(labels: Any, expected: Any, pairs: int) -> Any:
    """The first action that led to each label, and the sum of `expected` loss changes along its path."""
    first, change = np.full(labels.pair.shape[0], -1, np.int64), np.zeros(labels.pair.shape[0])
    for item in range(1, labels.pair.shape[0]):
        parent, now = labels.parent[item], labels.pair[item] % pairs
        first[item] = now if parent == 0 else first[parent]
        loss = labels.loss[parent]
        landed = next_loss(expected, labels.epoch[item], loss, labels.pair[parent] % pairs, now)
        change[item] = change[parent] + landed - loss
    return first, change


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
    pairs = len(instance.joules)
    marked = np.ones(pairs, np.bool_) if via is None else via
    # Bounds leave the answer as it is: no way to the goal is cut, and the first one found is still the cheapest.
    aim, last = nothing(instance.goal), nothing(instance.goal)
    if not instance.by_epoch:
        last = instance.time_to_go()
        aim = instance.energy_to_go(start) if only_first else aim
    space = _Space(
        instance.form,
        instance.seconds,
        instance.joules,
        instance.goal,
        deadline,
        instance.cap(start),
        loss_cell,
        time_cell,
        marked,
        only_first,
        *cells,
        instance.form.integer and (instance.by_epoch or instance.last_epoch is not None),
        aim,
        last,
        current(),
    )
    pair = start.pair + pairs if marked[start.pair] else start.pair
    label = PathLabel(0, pair, start.epoch, start.loss, start.elapsed_s, 0.0)
    no_cells = _Cells(np.full(ROOM, -1, np.int64), np.empty(ROOM), np.zeros(1, np.int64))
    outcome = _explore(space, no_cells, pairs, label, MOST_LABELS)
    check(space.counts)
    labels, settled = outcome.labels, outcome.settled
    there = settled[(labels.loss[settled] <= instance.goal) & (labels.pair[settled] >= pairs)]
    if outcome.status == STOPPED:
        there = np.array([outcome.last])
    first, change = _summed(labels, expected, pairs)
    return Arrivals(first[there], labels.energy_j[there], change[there], labels.loss[there] - start.loss)
