"""One step of a loss law forwards and backwards, compiled.

`next_loss` is the compiled twin of `core.law.evaluate`. `highest_before` is its inverse: the highest loss from which an
epoch still lands at or below a given loss. For monotone laws the two together make searches exact without any grid.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...core.law import ADDITIVE, CURVE, LawForm

Form = LawForm | Any
SLACK = 1e-12
"""Inverses are widened by this much, so that bounds built on them stay on the optimistic side of rounding."""


def jit(function: Any) -> Any:
    """Compiled on first use and kept on disk; where no folder can be written, compiled anew in each process."""
    try:
        return numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:
        return numba.njit(error_model="numpy")(function)


def inlined(function: Any) -> Any:
    """Compiled into its callers: for the innermost steps, whose tuples of arrays take longer to pass than to use."""
    return numba.njit(error_model="numpy", inline="always")(function)


def spliced(function: Any) -> Any:
    """Compiled into its callers without counting references, whatever the tuples of arrays it is passed.

    It may neither make arrays nor hand any back.
    """
    options: dict[str, Any] = {"forceinline": True, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(error_model="numpy", **options)(function)


@jit
def table_step(row: Any, step: float, loss: float) -> float:
    """Linear interpolation in one row of a TABLE; infinite above its last loss."""
    position = loss / step
    last = row.shape[0] - 1
    if position > last + 1e-9:
        return np.inf
    left = int(position + 1e-9)
    if left >= last:
        return float(row[last])
    share = position - left
    if share <= 1e-9:
        return float(row[left])
    if not (np.isfinite(row[left]) and np.isfinite(row[left + 1])):
        return np.inf
    return float(row[left] + share * (row[left + 1] - row[left]))


@jit
def next_loss(form: Form, epoch: int, loss: float, before: int, now: int) -> float:
    """The loss after epoch number `epoch`; infinity when the change is impossible."""
    if form.kind == ADDITIVE or form.kind == CURVE:
        mid = loss
        if before != now:
            row = min(epoch, form.c0.shape[0]) - 1
            mid = loss + form.c0[row, before, now] + form.c1[before, now] * loss
        if form.kind == ADDITIVE:
            return max(mid + form.run[min(epoch, form.run.shape[0]) - 1, now], 0.0)
        a = form.curves[now, 0]
        if mid <= a or not np.isfinite(mid):
            return max(mid, 0.0)
        b, s, alpha = form.curves[now, 1], form.curves[now, 2], form.curves[now, 3]
        u = ((mid - a) / b) ** (-1.0 / alpha)
        mult = form.mult[min(epoch, form.mult.shape[0]) - 1, now]
        return max(mid + mult * (a + b * (u + 1.0 / s) ** -alpha - mid), 0.0)
    return table_step(form.table[min(epoch, form.table.shape[0]) - 1, before, now], form.step, loss)


@jit
def highest_mid(form: Form, epoch: int, loss: float, now: int) -> float:
    """The highest loss after the jump from which one epoch of `now` lands at or below `loss` (ADDITIVE and CURVE).

    With mult > 1 the law may fall again at high losses; this is the answer below its peak.
    """
    if form.kind == ADDITIVE:
        return loss - form.run[min(epoch, form.run.shape[0]) - 1, now] + SLACK
    a, b, s, alpha = form.curves[now, 0], form.curves[now, 1], form.curves[now, 2], form.curves[now, 3]
    mult = form.mult[min(epoch, form.mult.shape[0]) - 1, now]
    if loss <= a or mult == 0.0:
        return loss + SLACK
    x = loss
    if mult == 1.0:
        u = ((loss - a) / b) ** (-1.0 / alpha) - 1.0 / s
        if u <= 0.0:
            return np.inf
        return float((a + b * u**-alpha) * (1.0 + SLACK) + SLACK)
    # Newton on g(x) = x + mult (curve(x) - x): concave and increasing, so it climbs to the root from the left.
    for _ in range(60):
        u = ((x - a) / b) ** (-1.0 / alpha)
        v = u + 1.0 / s
        value = x + mult * (a + b * v**-alpha - x)
        slope = 1.0 - mult + mult * (u / v) ** (alpha + 1.0)
        if slope <= 0.0:
            return np.inf
        move = (loss - value) / slope
        x += move
        if abs(move) <= 1e-14 * (1.0 + abs(x)):
            break
        if x > 1e12:
            return np.inf
        if x <= a:
            x = a + 1e-12 * b
            break
    return float(max(x, loss) * (1.0 + SLACK) + SLACK)


@jit
def highest_before(form: Form, epoch: int, loss: float, mid: float, before: int, now: int) -> float:
    """The highest loss at `before` from which going to `now` lands at or below `loss`; `mid` is `highest_mid`'s answer.

    Minus infinity when there is none.
    """
    if form.kind == ADDITIVE or form.kind == CURVE:
        if before == now:
            return mid
        row = min(epoch, form.c0.shape[0]) - 1
        c0, c1 = form.c0[row, before, now], form.c1[before, now]
        if not np.isfinite(c0):
            return -np.inf
        if c1 <= -1.0:
            return np.inf
        return (mid - c0) / (1.0 + c1)
    row_values = form.table[min(epoch, form.table.shape[0]) - 1, before, now]
    low, high = -1, row_values.shape[0] - 1  # the last index whose value is <= loss
    while low < high:
        middle = (low + high + 1) // 2
        if row_values[middle] <= loss + 1e-9 * form.step:
            low = middle
        else:
            high = middle - 1
    if low < 0:
        return -np.inf
    if form.integer or low == row_values.shape[0] - 1 or not np.isfinite(row_values[low + 1]):
        return low * form.step
    rise = row_values[low + 1] - row_values[low]
    share = (loss - row_values[low]) / rise if rise > 0.0 else 0.0
    return (low + min(max(share, 0.0), 1.0)) * form.step + SLACK


@jit
def roll(form: Form, loss: float, pair: int, first_epoch: int, actions: Any, out: Any) -> None:
    """Losses after each of `actions`, written to `out`."""
    before = pair
    for position in range(actions.shape[0]):
        loss = next_loss(form, first_epoch + position, loss, before, actions[position])
        out[position] = loss
        before = actions[position]


@jit
def grown(array: Any) -> Any:
    """A copy with twice the rows."""
    wider = np.empty((2 * array.shape[0], *array.shape[1:]), array.dtype)
    wider[: array.shape[0]] = array
    return wider
