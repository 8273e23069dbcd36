"""The least value that will do: where a yes-or-no question turns from no to yes."""

from __future__ import annotations

from collections.abc import Callable

ROUNDS = 64
"""Halvings at most; floats run out of room before."""


def least_feasible(
    feasible: Callable[[float], bool], low: float, high: float, *, guess: float | None = None, within: float
) -> float | None:
    """The least feasible value above `low`, which is not feasible, and up to `high`; None where `high` is not either.

    A `guess` that is feasible, and not so if it were less by `within`, is the answer. Else bisection is, to `within`.
    """
    known = False  # that `high` is feasible
    if guess is not None and low < guess <= high:
        if feasible(guess):
            if guess - within <= low or not feasible(guess - within):
                return guess
            high, known = guess - within, True
        else:
            low = guess
    if not known and not feasible(high):
        return None
    for _ in range(ROUNDS):
        middle = 0.5 * (low + high)
        if high - low <= within or not low < middle < high:
            break
        low, high = (low, middle) if feasible(middle) else (middle, high)
    return high
