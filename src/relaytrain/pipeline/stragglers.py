"""Is a stage slow, compared with the plan and with the others, and for how long already?

Rule: the smoothed busy time of a stage over what the plan said, against the median of the stages; above 1.3 for 20
minibatches in a row means slow. A machine that is slower than planned as a whole has no straggler.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

LIMIT = 1.3
PATIENCE = 20
SMOOTHING = 0.2
WARM_UP = 2
"""First minibatches of a stage that do not count: memory is taken, code is loaded."""


class Straggling:
    """Busy seconds of every stage, smoothed; `planned_s` is what a minibatch should take it."""

    def __init__(self, planned_s: Sequence[float]) -> None:
        self._planned = list(planned_s)
        self._busy: list[float | None] = [None] * len(planned_s)
        self._total = [0.0] * len(planned_s)
        self._seen = [0] * len(planned_s)
        self._slow = [0] * len(planned_s)

    def note(self, stage: int, total_busy_s: float) -> None:
        """After a minibatch: how long `stage` has been busy since it began."""
        taken, self._total[stage] = total_busy_s - self._total[stage], total_busy_s
        self._seen[stage] += 1
        if self._seen[stage] <= WARM_UP:
            return
        before = self._busy[stage]
        self._busy[stage] = taken if before is None else before + SMOOTHING * (taken - before)
        if any(busy is None for busy in self._busy):
            return
        self._slow[stage] = self._slow[stage] + 1 if self.factor(stage) > LIMIT else 0

    def factor(self, stage: int) -> float:
        """How much slower than planned a stage is, over the same of the median of the others."""
        ratios = [busy / planned for busy, planned in zip(self.seconds(), self._planned, strict=True)]
        others = [ratio for at, ratio in enumerate(ratios) if at != stage]
        return ratios[stage] / max(statistics.median(others), 1e-12)

    def slow(self) -> int | None:
        """The stage that has been slow for long, if one has."""
        worst = max(range(len(self._slow)), key=lambda at: self._slow[at])
        return worst if self._slow[worst] >= PATIENCE else None

    def seconds(self) -> list[float]:
        """Seconds of a minibatch at every stage."""
        return [busy or 0.0 for busy in self._busy]

    def reset(self) -> None:
        """Be patient once more."""
        self._slow = [0] * len(self._slow)
