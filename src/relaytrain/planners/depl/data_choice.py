"""Which datasets to train on: every choice up to a size, local search above it, both with the true cost.

Paper: DepL section IV-A, equation (7).
Deviations: the paper minimises the proxy K * T by submodular minimisation. That product is submodular only in a corner
of its parameters, and even there it sees neither prices nor data charges, so the cost of the best plan is used itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

EXHAUSTIVE = 15
"""Up to so many datasets every choice is tried."""

Value = Callable[[tuple[int, ...], float], float]
"""value(chosen, below): the cost of a choice; anything not less than `below` may be answered by infinity."""


@dataclass(frozen=True)
class DataChoice:
    """Chosen datasets and their value (infinite: no choice works); exact when every choice was tried."""

    chosen: tuple[int, ...]
    value: float
    exact: bool


Floor = Callable[[tuple[int, ...]], float]
"""A lower bound on the cost of a choice, cheap to get."""
Chooser = Callable[[int, Value, Floor], "DataChoice"]
"""Among so many datasets, by the true cost of choices and their floors."""


def choose(count: int, value: Value, floor: Floor | None = None) -> DataChoice:
    """The best non-empty choice among `count` datasets."""
    return exhaustive(count, value, floor) if count <= EXHAUSTIVE else local_search(count, value)


def powerset(count: int) -> list[tuple[int, ...]]:
    """All non-empty choices, the smallest first."""
    return [chosen for size in range(1, count + 1) for chosen in itertools.combinations(range(count), size)]


def exhaustive(count: int, value: Value, floor: Floor | None = None) -> DataChoice:
    """Tries all non-empty choices, those with the lowest floor (without one: the fewest datasets) first."""
    every = powerset(count)
    rows = sorted(((floor(chosen) if floor else 0.0), i) for i, chosen in enumerate(every))
    best = DataChoice((), math.inf, True)
    for least, i in rows:
        if least >= best.value:
            break
        cost = value(every[i], best.value)
        if cost < best.value:
            best = DataChoice(every[i], cost, True)
    return best


def local_search(count: int, value: Value) -> DataChoice:
    """Adds, drops and swaps single datasets while that helps, from the best single one and from all of them."""
    singles = [((d,), value((d,), math.inf)) for d in range(count)]
    everything = tuple(range(count))
    starts = [min(singles, key=lambda s: s[1]), (everything, value(everything, math.inf))]
    ends = [_descend(count, value, chosen, cost) for chosen, cost in starts]
    chosen, cost = min(ends, key=lambda end: end[1])
    return DataChoice(chosen if math.isfinite(cost) else (), cost, False)


def _descend(count: int, value: Value, chosen: tuple[int, ...], cost: float) -> tuple[tuple[int, ...], float]:
    improving = True
    while improving:
        improving = False
        for near in _neighbours(count, chosen):
            there = value(near, cost)
            if there < cost:
                chosen, cost, improving = near, there, True
                break
    return chosen, cost


def _neighbours(count: int, chosen: tuple[int, ...]) -> list[tuple[int, ...]]:
    inside, outside = set(chosen), [d for d in range(count) if d not in chosen]
    added = [inside | {d} for d in outside]
    dropped = [inside - {d} for d in chosen if len(chosen) > 1]
    swapped = [(inside - {d}) | {e} for d in chosen for e in outside]
    return [tuple(sorted(near)) for near in (*added, *dropped, *swapped)]
