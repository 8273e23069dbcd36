"""The dense dynamic program over (time left, pair, loss index) for gridded laws without epoch index.

Its work is known beforehand, which labels' is not: gridded searches fall back to it when labels grow too many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.law import LawForm
from .allowance import charge, current
from .kernels import grown, jit

STEP_NS = 2
"""From a cell to a pair."""


@jit
def fill(table: Any, seconds: Any, joules: Any, goal: int, out: Any) -> None:
    """out[t, p, i]: the least energy with t steps left. Every change must take at least one step."""
    pairs, cells = joules.shape[0], table.shape[2]
    for left in range(out.shape[0]):
        for before in range(pairs):
            row = out[left, before]
            row[: goal + 1] = 0.0
            row[goal + 1 :] = np.inf
            for now in range(pairs):
                step = seconds[before, now]
                if not (np.isfinite(joules[before, now]) and step <= left):
                    continue
                ahead = out[left - int(step), now]
                moves = table[before, now]
                for index in range(goal + 1, cells):
                    landed = moves[index]
                    if landed < cells:
                        value = joules[before, now] + ahead[int(landed)]
                        row[index] = min(row[index], value)


@jit
def _walk(
    table: Any, seconds: Any, joules: Any, goal: int, values: Any, pair: int, index: int, left: int, mask: Any
) -> Any:
    actions = np.empty(64, np.int64)
    count = 0
    while index > goal:
        best, value = -1, np.inf
        for now in range(joules.shape[0]):
            if (count == 0 and not mask[now]) or not (np.isfinite(joules[pair, now]) and seconds[pair, now] <= left):
                continue
            landed = table[pair, now, index]
            if landed >= table.shape[2]:
                continue
            here = joules[pair, now] + values[left - int(seconds[pair, now]), now, int(landed)]
            if here < value:
                best, value = now, here
        if best < 0:
            return actions[:0]
        if count == actions.shape[0]:
            actions = grown(actions)
        actions[count] = best
        count += 1
        index = int(table[pair, best, index])
        left -= int(seconds[pair, best])
        pair = best
    return actions[:count]


def dense(
    form: LawForm,
    costs: tuple[NDArray[np.float64], NDArray[np.float64]],
    goal: int,
    start: tuple[int, int, int],
    first: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """The least-energy path from `start` = (pair, loss index, steps left); empty when there is none."""
    seconds, joules = costs
    pair, index, left = start
    cells = (left + 1) * len(joules) * form.table.shape[3]
    charge(current(), STEP_NS * len(joules) * cells, 8 * cells)
    values = np.empty((left + 1, len(joules), form.table.shape[3]))
    fill(form.table[0], seconds, joules, goal, values)
    return _walk(form.table[0], seconds, joules, goal, values, pair, index, left, first)  # type: ignore[no-any-return]
