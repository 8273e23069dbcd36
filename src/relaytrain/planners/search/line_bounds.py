"""Bounds for additive laws with epoch tables: a multiplier on the loss constraint makes it a line per (epoch, pair).

With nu >= 0, any continuation that ends at or below the goal weighs at least D(k, p) + nu (l - goal), where
D(k, p) = min over continuations of sum(weight + nu * change of loss): a scalar dynamic program. The clamp of losses
at zero only raises losses, so the bound holds with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.law import LawForm
from .allowance import charge, current
from .kernels import jit
from .togo import LINES, ToGo, by_layer

GOLDEN = 0.38196601125
ROUNDS = 22
DOUBLINGS = 8
"""That it takes, more or less, until closing in on it can begin."""
STEP_NS = 1
"""From a pair and an epoch to a pair."""


@jit
def _lines(run: Any, c0: Any, weight: Any, first: int, epochs: int, slope: float, out: Any) -> None:
    pairs = weight.shape[0]
    for pair in range(pairs):
        out[epochs, pair, 0] = 0.0
    for done in range(epochs - 1, first - 1, -1):
        epoch = done + 1
        run_row = min(epoch, run.shape[0]) - 1
        c0_row = min(epoch, c0.shape[0]) - 1
        for before in range(pairs):
            best = 0.0
            for now in range(pairs):
                change = 0.0 if now == before else c0[c0_row, before, now]
                value = weight[before, now] + slope * (change + run[run_row, now]) + out[epoch, now, 0]
                best = min(best, value)
            out[done, before, 0] = best


def multipliers(
    form: LawForm,
    weight: NDArray[np.float64],
    goal: float,
    *,
    start: tuple[int, int, float],
    epochs: int,
    allowed: NDArray[np.bool_],
) -> ToGo:
    """The best line bound for the state `start` = (epochs done, pair, loss); `epochs` is the cap on epochs in all."""
    done, pair, loss = start
    rounds = ROUNDS + DOUBLINGS
    charge(current(), rounds * STEP_NS * max(epochs - done, 0) * weight.size, 8 * (epochs + 1) * len(weight))
    lines = np.zeros((epochs + 1, weight.shape[0], 1))
    barred = np.where(allowed, weight, np.inf)

    def bound(slope: float) -> float:
        _lines(form.run, form.c0, barred, done, epochs, slope, lines)
        return float(lines[done, pair, 0]) + slope * (loss - goal)

    # The bound is concave in the multiplier: double it past the peak, then close in on it by golden sections.
    scale = float(np.min(barred[np.isfinite(barred)], initial=1.0)) or 1.0
    high, best = scale, bound(scale)
    while high < 1e9 * scale and (value := bound(2.0 * high)) > best:
        best, high = value, 2.0 * high
    low, high = 0.0, 2.0 * high
    left, right = low + GOLDEN * (high - low), high - GOLDEN * (high - low)
    at_left, at_right = bound(left), bound(right)
    for _ in range(ROUNDS):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = high - GOLDEN * (high - low)
            at_right = bound(right)
        else:
            high, right, at_right = right, left, at_left
            left = low + GOLDEN * (high - low)
            at_left = bound(left)
    slope = 0.5 * (low + high)
    bound(slope)
    return by_layer(LINES, goal, lines, slope)
