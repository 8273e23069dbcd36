"""Where a question turns from no to yes: the least value that will do, the highest level that is met."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ..core.state import TOLERANCE

_WIDER = 4.0
ROUNDS = 64
"""Halvings at most; floats run out of room before."""
LEVELS = 1000
"""Levels are stated in thousandths."""
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
        least = reached(asked)
        if least is None:
            low, step = asked, math.inf
        else:
            step = _WIDER * step if math.isfinite(step) else within if least < asked - within else step
            best = least
    return best


def highest_level(met: Callable[[float], bool], rung: float, asked: float, *, guesses: Iterable[int] = ()) -> float:
    """The highest level below `asked`, in thousandths, that is `met`, as `rung` or one half is; `guesses` are first."""
    low, high = round(max(rung, 0.5) * LEVELS), math.ceil(asked * LEVELS - TOLERANCE)
    tried = iter(guesses)
    while high - low > 1:
        middle = next(tried, (low + high) // 2)
        if low < middle < high:
            low, high = (middle, high) if met(middle / LEVELS) else (low, middle)
    return max(low / LEVELS, rung)
