"""A cost table that learns: what was measured of a pair stands for it, in the place of what was believed before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from ..core.cost import CostTable
from ..core.curve import Array
from ..core.problem import Pair

if TYPE_CHECKING:
    from ..core.outcome import EpochOutcome

LAST, IN_LINE = 3, 2.0
"""Figures of a pair, or of a change, that count, and by what factor one may differ from their median: what is further
out of line (an outage) is outvoted, what lasts is believed once it was seen twice."""
WEIGHT = 0.3
"""How much a new residual counts in the spread, from 0 (nothing) to 1 (everything)."""
MOST_RESIDUAL = 1.0
"""An epoch that took more than twice as long as believed counts as twice: an outage is no usual spread."""


class LearningCosts:
    """A table that learns: the mean of the last figures measured that are in line, of each pair and each change.

    The mean, for deadlines are sums: the median of figures that scatter would promise them too early. Of two figures
    out of line the lower one counts: what disturbs an epoch (an outage, a node that is late) makes it longer. What was
    never measured stays as it was. An epoch that also changed pair is split as its handover was measured, or else
    as the present belief splits it. The spread follows the relative residuals by exponential averaging. Infinite
    entries stay: what is forbidden is never run.

    Args:
        pairs: The pairs, in the table's order.
        table: The belief before anything was measured.
        start: The pair that holds the network before epoch 1.
        drawn: Pairs whose nodes are drawn for every epoch: figures differ by the draw, so their mean is believed.
    """

    def __init__(
        self, pairs: Sequence[Pair], table: CostTable, start: int = 0, *, drawn: Collection[Pair] = ()
    ) -> None:
        self.pairs = tuple(pairs)
        self.start = start
        self._drawn = {self.pairs.index(pair) for pair in drawn}
        self._table = table
        self._last = start
        self._figures: dict[tuple[str, int, int], list[float]] = {}

    def __repr__(self) -> str:
        return (
            f"LearningCosts({len(self.pairs)} pairs, {self._table.provenance}, {len(self._figures)} figures measured)"
        )

    def table(self) -> CostTable:
        """The present belief."""
        return self._table

    def tell(self, outcome: EpochOutcome) -> None:
        """Take in the seconds and joules of an epoch that was run; lost work is left out."""
        now = self.pairs.index(outcome.decision.pair)
        before, self._last = self._last, now
        old = self._table
        seconds = outcome.elapsed_s - outcome.wasted_s
        joules = outcome.energy_j - outcome.wasted_j
        run_s, change_s = self._learned("s", before, now, (old.run_s, old.change_s), seconds, outcome.handover_s)
        run_j, change_j = self._learned("j", before, now, (old.run_j, old.change_j), joules, outcome.handover_j)
        spread = np.zeros(len(self.pairs)) if old.spread is None else old.spread.copy()
        believed_s = old.epoch_s[before, now]
        if np.isfinite(believed_s) and believed_s > 0.0 and np.isfinite(seconds):
            residual = min(seconds / believed_s - 1.0, MOST_RESIDUAL)
            spread[now] = np.sqrt((1.0 - WEIGHT) * spread[now] ** 2 + WEIGHT * residual**2)
        provenance = "measured" if outcome.provenance == "measured" else old.provenance
        self._table = replace(
            old, run_s=run_s, change_s=change_s, run_j=run_j, change_j=change_j, spread=spread, provenance=provenance
        )

    def _learned(
        self, unit: str, before: int, now: int, old: tuple[Array, Array], total: float, handover: float | None
    ) -> tuple[Array, Array]:
        """Run and change, in one unit, after an epoch that came to `total`, its handover to so much of it."""
        run, change = (values.copy() for values in old)
        believed = run[now] + change[before, now]
        if not (np.isfinite(believed) and np.isfinite(total)) or believed <= 0.0 or total < 0.0:
            return run, change
        moving = 0.0
        if before != now:
            moving = float(total * change[before, now] / believed) if handover is None else handover
            if not 0.0 <= moving <= total:
                return run, change
            change[before, now] = self._typical((unit, before, now), moving)
        run[now] = self._typical((unit, now, now), total - moving)
        return run, change

    def _typical(self, key: tuple[str, int, int], figure: float) -> float:
        """What is believed of a pair (twice the same) or of a change, once `figure` was seen too."""
        seen = self._figures.setdefault(key, [])
        seen.append(figure)
        if key[2] in self._drawn:
            return fmean(seen)
        del seen[:-LAST]
        middle = sorted(seen)[(len(seen) - 1) // 2]
        return fmean(one for one in seen if middle / IN_LINE <= one <= middle * IN_LINE)
