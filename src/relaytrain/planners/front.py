"""The energy-deadline-loss trade-off: one forward pass keeps every undominated (energy, seconds, loss)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.cost import CostTable
from ..core.curve import Array
from ..core.law import Level, LossLaw
from ..core.problem import Problem
from ..core.state import TOLERANCE, State
from .pact.level_tables import Tables
from .search.best_first import DRAINED, Search
from .search.kernels import grown, jit
from .search.labels import search
from .search.staircase import dominated, empty_staircases, insert

MOST_LABELS = 1_500_000


@dataclass(frozen=True)
class Front:
    """Undominated outcomes (energy ascending): `loss`, `time_s`, `energy_j` of equal length, and their paths."""

    problem: Problem
    loss: Array
    time_s: Array
    energy_j: Array
    complete: bool
    _outcome: Search
    _items: NDArray[np.int64]

    def energy(self, loss: float, deadline_s: float) -> float:
        """The least energy that reaches `loss` by `deadline_s`; infinity when nothing does."""
        good = (self.loss <= loss + TOLERANCE) & (self.time_s <= deadline_s + TOLERANCE)
        return float(self.energy_j[good].min(initial=np.inf))

    def curve(self, loss: float) -> list[tuple[float, float, str]]:
        """For one loss target: (deadline, least energy, legs), from the quickest to the cheapest."""
        rows: list[tuple[float, float, str]] = []
        for row in np.flatnonzero(self.loss <= loss + TOLERANCE):  # energy ascends, so keep ever quicker ones
            if not rows or self.time_s[row] < rows[-1][0] - TOLERANCE:
                rows.append((float(self.time_s[row]), float(self.energy_j[row]), self.legs(int(row))))
        return rows[::-1]

    def legs(self, row: int) -> str:
        """The legs that lead to outcome `row`, in one line."""
        legs = itertools.groupby(self._outcome.path(self._items[row]))
        return " -> ".join(f"{self.problem.pairs[pair]} x{len(list(run))}" for pair, run in legs) or "nothing to do"


def front(problem: Problem, costs: CostTable, law: LossLaw, state: State, *, level: Level = "expected") -> Front:
    """All undominated outcomes down to the target's loss and up to its deadline, at `level`."""
    tables = Tables(problem, costs, law)
    instance, start = tables.at(level), tables.at_level(tables.start(state), level)
    epochs = instance.cap(start)
    capped = instance.last_epoch is not None and epochs == instance.last_epoch
    outcome = search(
        instance,
        start,
        epochs=epochs,
        most=MOST_LABELS,
        by_epoch=instance.by_epoch or capped,  # under a cap, paths of different length are not comparable
        all_goals=True,
    )
    labels = outcome.labels
    items = outcome.settled[_undominated(labels.loss, labels.time_s, outcome.settled, empty_staircases(1))]
    complete = outcome.status == DRAINED
    return Front(problem, labels.loss[items], labels.time_s[items], labels.energy_j[items], complete, outcome, items)


@jit
def _undominated(loss: Any, time_s: Any, settled: Any, store: Any) -> Any:
    """Which settled labels (energy ascending) no earlier one dominates, whatever its pair."""
    pool_loss, pool_time, spans = store
    kept = np.zeros(settled.shape[0], np.bool_)
    for place, item in enumerate(settled):
        if not dominated(pool_loss, pool_time, spans, 0, loss[item], time_s[item]):
            while not insert(pool_loss, pool_time, spans, 0, loss[item], time_s[item]):
                pool_loss, pool_time = grown(pool_loss), grown(pool_time)
            kept[place] = True
    return kept
