"""The energy-deadline-loss trade-off: one forward pass keeps every undominated (energy, seconds, loss)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.cost import CostTable
from ..core.law import Level, LossLaw
from ..core.problem import Problem
from ..core.state import TOLERANCE, State
from .search.kernels import grown, jit, next_loss, pop, push
from .search.solve import SearchInstance, Start, instance_of
from .search.staircase import dominated, fresh, insert

Array = NDArray[np.float64]
MOST_LABELS = 1_500_000


@jit
def _sweep(
    form: Any,
    seconds: Any,
    joules: Any,
    start: tuple[int, int, float, float],
    floor: float,
    deadline: float,
    epochs: int,
    by_epoch: bool,
    most: int,
) -> Any:
    start_epoch, start_pair, start_loss, start_time = start
    pairs = joules.shape[0]
    room = 1024
    parent, pair_of, epoch_of = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    loss_of, time_of, energy_of = np.empty(room), np.empty(room), np.empty(room)
    heap_key, heap_item = np.empty(room), np.empty(room, np.int64)
    kept = np.empty(room, np.int64)
    keeps = 0
    pool_loss, pool_time, index = fresh(pairs * (epochs + 1 - start_epoch) if by_epoch else pairs)
    best_loss, best_time, best_index = fresh(1)  # over all pairs: what the front itself consists of
    used, best_used = 0, 0
    parent[0], pair_of[0], epoch_of[0] = -1, start_pair, start_epoch
    loss_of[0], time_of[0], energy_of[0] = start_loss, start_time, 0.0
    count = 1
    size = push(heap_key, heap_item, 0, 0.0, 0)
    while size > 0 and count < most:
        item = heap_item[0]
        size = pop(heap_key, heap_item, size)
        before, epoch, loss, time = pair_of[item], epoch_of[item], loss_of[item], time_of[item]
        key = (epoch - start_epoch) * pairs + before if by_epoch else before
        if dominated(pool_loss, pool_time, index[0, key], index[1, key], loss, time):
            continue
        pool_loss, pool_time, used = insert(pool_loss, pool_time, index, used, key, loss, time)
        if not dominated(best_loss, best_time, best_index[0, 0], best_index[1, 0], loss, time):
            best_loss, best_time, best_used = insert(best_loss, best_time, best_index, best_used, 0, loss, time)
            if keeps == kept.shape[0]:
                kept = grown(kept)
            kept[keeps] = item
            keeps += 1
        if loss <= floor or epoch >= epochs:
            continue
        for now in range(pairs):
            step_j, step_s = joules[before, now], seconds[before, now]
            late = time + step_s
            if not np.isfinite(step_j) or not late <= deadline:
                continue
            landed = next_loss(form, epoch + 1, loss, before, now)
            if not np.isfinite(landed):
                continue
            key = (epoch + 1 - start_epoch) * pairs + now if by_epoch else now
            if dominated(pool_loss, pool_time, index[0, key], index[1, key], landed, late):
                continue
            if count == parent.shape[0]:
                parent, pair_of, epoch_of = grown(parent), grown(pair_of), grown(epoch_of)
                loss_of, time_of, energy_of = grown(loss_of), grown(time_of), grown(energy_of)
            if size == heap_key.shape[0]:
                heap_key, heap_item = grown(heap_key), grown(heap_item)
            parent[count], pair_of[count], epoch_of[count] = item, now, epoch + 1
            loss_of[count], time_of[count], energy_of[count] = landed, late, energy_of[item] + step_j
            size = push(heap_key, heap_item, size, energy_of[count], count)
            count += 1
    return kept[:keeps], parent[:count], pair_of[:count], loss_of[:count], time_of[:count], energy_of[:count], size == 0


@dataclass(frozen=True)
class Front:
    """Undominated outcomes (energy ascending): `loss`, `time_s`, `energy_j` of equal length, and how each is reached."""

    problem: Problem
    loss: Array
    time_s: Array
    energy_j: Array
    complete: bool
    _paths: tuple[Array, Array, Array]

    def energy(self, loss: float, deadline_s: float) -> float:
        """The least energy that reaches `loss` by `deadline_s`; infinity when nothing does."""
        good = (self.loss <= loss + TOLERANCE) & (self.time_s <= deadline_s + TOLERANCE)
        return float(self.energy_j[good].min(initial=np.inf))

    def curve(self, loss: float) -> list[tuple[float, float, str]]:
        """For one loss target: (deadline, least energy, legs), from the quickest to the cheapest."""
        rows: list[tuple[float, float, str]] = []
        for row in np.flatnonzero(self.loss <= loss + TOLERANCE):  # energy ascends, so keep ever quicker ones
            if not rows or self.time_s[row] < rows[-1][0] - TOLERANCE:
                rows.append((float(self.time_s[row]), float(self.energy_j[row]), self.legs(int(row))))
        return rows[::-1]

    def legs(self, row: int) -> str:
        """The legs that lead to outcome `row`, in one line."""
        kept, parent, pair_of = self._paths
        item, chain = int(kept[row]), []
        while parent[item] >= 0:
            chain.append(int(pair_of[item]))
            item = int(parent[item])
        words: list[str] = []
        counts: list[int] = []
        for pair in reversed(chain):
            name = str(self.problem.pairs[pair])
            if words and words[-1] == name:
                counts[-1] += 1
            else:
                words.append(name)
                counts.append(1)
        return " -> ".join(f"{word} x{count}" for word, count in zip(words, counts, strict=True)) or "nothing to do"


def front(problem: Problem, costs: CostTable, law: LossLaw, state: State, *, level: Level = "expected") -> Front:
    """All undominated outcomes down to the target's loss and up to its deadline, at `level`."""
    instance: SearchInstance = instance_of(problem, costs, law, level)
    start = (state.epoch, state.pair, state.loss, state.elapsed_s)
    epochs = instance.cap(Start(*start))
    capped = instance.last_epoch is not None and epochs == instance.last_epoch
    kept, parent, pair_of, loss, time, energy, complete = _sweep(
        instance.form,
        instance.seconds,
        instance.joules,
        start,
        instance.goal,
        instance.deadline,
        epochs,
        instance.by_epoch or capped,  # under a cap, paths of different length are not comparable
        MOST_LABELS,
    )
    return Front(problem, loss[kept], time[kept], energy[kept], bool(complete), (kept, parent, pair_of))
