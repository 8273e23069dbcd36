"""Exact weight-to-go on the papers' grid for laws with epoch tables: one backward pass over (epoch, pair, loss index).

Paper: the vertices of Alg. 1 without the time axis. Time is handled by the deadline check and, where it binds, by
`labels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.law import LawForm
from .allowance import charge, current
from .kernels import jit
from .togo import LAYERS, ToGo, by_layer

STEP_NS = 2
"""From a cell to a pair."""


@jit
def _layers(table: Any, weight: Any, goal: int, first: int, epochs: int, out: Any) -> None:
    pairs, cells = weight.shape[0], table.shape[3]
    out[epochs, :, : goal + 1] = 0.0
    out[epochs, :, goal + 1 :] = np.inf
    for done in range(epochs - 1, first - 1, -1):
        row = min(done + 1, table.shape[0]) - 1
        for before in range(pairs):
            target = out[done, before]
            target[: goal + 1] = 0.0
            target[goal + 1 :] = np.inf
            for now in range(pairs):
                step = weight[before, now]
                if not np.isfinite(step):
                    continue
                ahead = out[done + 1, now]
                moves = table[row, before, now]
                for index in range(goal + 1, cells):
                    landed = moves[index]
                    if landed < cells:
                        value = step + ahead[int(landed)]
                        target[index] = min(target[index], value)


def layers(form: LawForm, weight: NDArray[np.float64], goal: int, *, first: int, epochs: int) -> ToGo:
    """Weight-to-go after `first` .. `epochs` epochs for every pair and loss index of the gridded law `form`."""
    pairs, cells = weight.shape[0], (epochs + 1) * weight.shape[0] * form.table.shape[3]
    charge(current(), STEP_NS * pairs * cells, 8 * cells)
    out = np.empty((epochs + 1, weight.shape[0], form.table.shape[3]))
    _layers(form.table, weight, goal, first, epochs, out)
    return by_layer(LAYERS, float(goal), out)
