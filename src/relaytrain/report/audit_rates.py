"""Rates with their intervals, and levels that are judged together: what the parts of an audit are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..core.plan import finite

INTERVAL = 0.95
BINS = (0.95, 0.9, 0.75, 0.5, 1e-9)
"""Levels are judged together from each of these up to the one before it; below the last: infeasible."""

Z = 1.959963984540054
"""The two-sided 95 % quantile of the normal distribution."""


@dataclass(frozen=True)
class Rate:
    """`hits` of `count`, with Wilson's 95 % interval, beside what was stated."""

    name: str
    stated: float | None
    hits: int
    count: int
    share: float = 1.0
    """Independent observations for each one counted: less than one where they come in clusters."""

    @property
    def observed(self) -> float:
        """The share of hits."""
        return self.hits / self.count if self.count else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval."""
        return wilson(self.hits * self.share, self.count * self.share)

    @property
    def agrees(self) -> bool | None:
        """Whether the stated probability lies within the interval, or the runs did better than it."""
        return None if self.stated is None or not self.count else self.stated <= self.interval[1] + 1e-12

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        low, high = self.interval
        figures = {"observed": finite(self.observed), "low": low, "high": high, "agrees": self.agrees}
        return {**asdict(self), **figures}


def wilson(hits: float, count: float) -> tuple[float, float]:
    """Wilson's score interval at 95 % for `hits` of `count`; (0, 1) when there is nothing to count."""
    if count <= 0:
        return 0.0, 1.0
    share, square = hits / count, Z * Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = Z / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    return low, 1.0 if hits == count else min(1.0, middle + half)


def mean(values: Sequence[float]) -> float:
    """The mean, without the last digits that adding up makes."""
    return round(math.fsum(values) / len(values), 12)


def bin_of(level: float) -> int:
    """The position in `BINS` of the levels that `level` is judged with."""
    return next((number for number, low in enumerate(BINS) if level >= low - 1e-9 and level > 0), len(BINS))


def bin_name(number: int) -> str:
    """Such levels in words."""
    if number == 0:
        return f"level {BINS[0]:.0%} and above"
    return f"level {BINS[number]:.0%} to {BINS[number - 1]:.0%}"
