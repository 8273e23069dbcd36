"""What is still to go from a state: one table type for the three ways to bound it, and its lookup.

* STEPS: per pair an ascending staircase of loss thresholds and the weight that suffices below each (`thresholds`);
* LAYERS: an array over (epoch, pair, loss index) for gridded laws with epoch tables (`epoch_layers`);
* LINES: per (epoch, pair) a line in the loss, from a multiplier on the loss constraint (`line_bounds`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .kernels import jit

NOTHING, STEPS, LAYERS, LINES = 0, 1, 2, 3


class ToGo(NamedTuple):
    """A lower bound on the weight (energy, time or a mix) from any state to the goal; exact for STEPS and LAYERS."""

    kind: int
    goal: float
    offsets: NDArray[np.int64]  # STEPS: labels of pair p are offsets[p] .. offsets[p+1]
    theta: NDArray[np.float64]
    weight: NDArray[np.float64]
    action: NDArray[np.int64]
    successor: NDArray[np.int64]
    limit: float  # STEPS: above the last threshold at least this much is to go
    layers: NDArray[np.float64]  # LAYERS (K+1, P, G); LINES (K+1, P, 1)
    slope: float

    @property
    def bytes(self) -> int:
        """What the table takes."""
        return int(8 * len(self.offsets) + 32 * len(self.theta) + self.layers.nbytes)


NO_LAYERS = np.zeros((0, 0, 0))
_NONE_F, _NONE_I = np.zeros(0), np.zeros(0, np.int64)


def nothing(goal: float) -> ToGo:
    """The bound that knows nothing."""
    return by_layer(NOTHING, goal, NO_LAYERS)


def by_layer(kind: int, goal: float, layers: NDArray[np.float64], slope: float = 0.0) -> ToGo:
    """A table without staircases."""
    return ToGo(kind, goal, _NONE_I, _NONE_F, _NONE_F, _NONE_I, _NONE_I, 0.0, layers, slope)


@jit
def place(togo: Any, pair: int, loss: float) -> int:
    """STEPS: the label with the least weight that covers `loss` at `pair`, or -1."""
    low, high = togo.offsets[pair], togo.offsets[pair + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if togo.theta[middle] >= loss:
            high = middle
        else:
            low = middle + 1
    return low if low < end else -1


@jit
def lookup(togo: Any, epoch: int, pair: int, loss: float) -> float:
    """A lower bound on the weight from (`epoch` epochs done, `pair`, `loss`) to the goal."""
    if loss <= togo.goal or togo.kind == NOTHING:
        return 0.0
    if togo.kind == STEPS:
        label = place(togo, pair, loss)
        return togo.limit if label < 0 else float(togo.weight[label])
    if epoch >= togo.layers.shape[0]:
        return np.inf
    if togo.kind == LAYERS:
        index = int(loss + 0.5)
        return np.inf if index >= togo.layers.shape[2] else float(togo.layers[epoch, pair, index])
    return max(0.0, float(togo.layers[epoch, pair, 0]) + togo.slope * (loss - togo.goal))
