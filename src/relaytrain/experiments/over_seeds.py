"""What a few seeds show: a mean with its interval, and a verdict only where the scatter between seeds leaves one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .result import Verdict

LEVEL = 0.975
"""Each end of a 95 % interval."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, in points, between the ends of its 95 % interval by Student's t."""

    mean: float
    low: float
    high: float
    seeds: int

    @classmethod
    def of(cls, points: Sequence[float]) -> Interval:
        """Of one value a seed; a single seed has no interval."""
        from scipy.stats import t

        mean, count = float(np.mean(points)), len(points)
        half = math.inf if count < 2 else float(t.ppf(LEVEL, count - 1) * np.std(points, ddof=1) / math.sqrt(count))
        return cls(mean, mean - half, mean + half, count)

    @property
    def verdict(self) -> Verdict:
        """Whether it is above 0; None where the scatter of the seeds leaves the sign open."""
        return self.above(0.0)

    def above(self, limit: float) -> Verdict:
        """Whether it is above a limit; None where the interval holds the limit."""
        return None if self.low <= limit <= self.high else self.mean > limit

    def __str__(self) -> str:
        words = "within scatter, " if self.verdict is None else ""
        interval = f"95 % interval {self.low:+.1f} to {self.high:+.1f} over {self.seeds} seed{'s' * (self.seeds > 1)}"
        return f"{words}{self.mean:+.1f} points, {interval}"


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Whether all hold: no if one does not, not shown if one of the others is not."""
    if False in verdicts:
        return False
    return None if None in verdicts else True
