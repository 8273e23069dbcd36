"""The least value that will do: where a question turns from no to yes."""

from __future__ import annotations

import math
from collections.abc import Callable

_WIDER = 4.0
ROUNDS = 64
"""Halvings at most; floats run out of room before."""
Reached = Callable[[float], float | None]
"""None where a value will not do; else the least value that is known to do by that, itself or a lesser one."""


def least_feasible(
    reached: Reached, low: float, high: float, *, guess: float | None = None, within: float
) -> float | None:
    """The least value above `low`, which will not do, and up to `high` that will; None where `high` will not either.

    From a value that was guessed or reached the edge is looked for in steps that grow, from `within` on; elsewhere by
    halves.
    """
    best, step = None, within
    if guess is not None and low < guess <= high:
        best = reached(guess)
        while best is None and guess + step < high:
            low, guess, step = guess, guess + step, _WIDER * step
            best = reached(guess)
        low, step = (guess, math.inf) if best is None else (low, within if step == within else math.inf)
    if best is None:
        best, step = reached(high), math.inf
    if best is None:
        return None
    for _ in range(ROUNDS):
        asked = max(0.5 * (low + best), best - step)
        if best - within <= low or not low < asked < best:
            break
        got = reached(asked)
        if got is None:
            low, step = asked, math.inf
        else:
            step = _WIDER * step if math.isfinite(step) else within if got < asked - within else step
            best = got
    return best
