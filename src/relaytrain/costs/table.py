"""A cost table that learns: every epoch that was run moves the belief about its pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..core.cost import CostTable
from ..core.problem import Pair

if TYPE_CHECKING:
    from ..core.outcome import EpochOutcome


class TableCosts:
    """`CostModel` over a table, updated by exponential averaging.

    A told epoch that also changed pair is split between run and change as the present belief splits it. The spread
    follows the relative residuals in the same way. Infinite entries stay: what is forbidden is never run.

    Args:
        pairs: The pairs, in the table's order.
        table: The belief before anything was measured.
        start: The pair that holds the network before epoch 1.
        weight: How much a new measurement counts, 0 (nothing) to 1 (everything).
    """

    def __init__(self, pairs: Sequence[Pair], table: CostTable, start: int = 0, *, weight: float = 0.3) -> None:
        self.pairs = tuple(pairs)
        self.start = start
        self.weight = weight
        self._table = table
        self._last = start

    def __repr__(self) -> str:
        return f"TableCosts({len(self.pairs)} pairs, {self._table.provenance}, weight={self.weight})"

    def table(self) -> CostTable:
        """The present belief."""
        return self._table

    def tell(self, outcome: EpochOutcome) -> None:
        """Move the belief about the outcome's pair towards its seconds and joules; lost work is left out."""
        now = self.pairs.index(outcome.decision.pair)
        before, self._last = self._last, now
        old = self._table
        run_s, change_s, run_j, change_j = (a.copy() for a in (old.run_s, old.change_s, old.run_j, old.change_j))
        seconds = outcome.elapsed_s - outcome.wasted_s
        joules = outcome.energy_j - outcome.wasted_j
        believed_s = old.epoch_s[before, now]
        for total, run, change in ((seconds, run_s, change_s), (joules, run_j, change_j)):
            believed = run[now] + change[before, now]
            if not (np.isfinite(believed) and np.isfinite(total)) or believed <= 0.0 or total < 0.0:
                continue
            factor = 1.0 + self.weight * (total / believed - 1.0)
            run[now] *= factor
            if before != now:
                change[before, now] *= factor
        spread = np.zeros(len(self.pairs)) if old.spread is None else old.spread.copy()
        if np.isfinite(believed_s) and believed_s > 0.0 and np.isfinite(seconds):
            residual = seconds / believed_s - 1.0
            spread[now] = np.sqrt((1.0 - self.weight) * spread[now] ** 2 + self.weight * residual**2)
        provenance = "measured" if outcome.provenance == "measured" else old.provenance
        self._table = replace(
            old, run_s=run_s, change_s=change_s, run_j=run_j, change_j=change_j, spread=spread, provenance=provenance
        )
