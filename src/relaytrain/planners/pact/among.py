"""The optimum over some versions, or with some handovers left out: what the others are worth, as a row of `compare`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ...core.cost import CostTable
from ...core.law import LossLaw
from ...core.plan import Plan
from ...core.problem import Pair, Problem, Version
from ...core.protocols import Planner
from ...core.state import State
from .planner import Optimum

Allowed = Callable[[Pair, Pair], bool]
"""Whether an epoch of the second pair may follow one of the first."""


@dataclass(frozen=True)
class Among:
    """`Optimum` where only epochs that `allowed` lets follow each other are free to choose."""

    name: str
    allowed: Allowed

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
        """The cheapest such plan from `state`."""
        change_s, run_s = costs.change_s.copy(), costs.run_s.copy()
        for i, before in enumerate(problem.pairs):
            run_s[i] = run_s[i] if self.allowed(before, before) else math.inf
            for j, now in enumerate(problem.pairs):
                change_s[i, j] = change_s[i, j] if self.allowed(before, now) else math.inf
        run_j = np.where(np.isinf(run_s), math.inf, costs.run_j)
        change_j = np.where(np.isinf(change_s), math.inf, costs.change_j)
        fewer = replace(costs, run_s=run_s, run_j=run_j, change_s=change_s, change_j=change_j)
        return replace(Optimum(explained=False).plan(problem, fewer, law, state), planner=self.name)


def nested_rows(versions: tuple[Version, ...]) -> dict[str, Planner]:
    """Rows about nested versions, where there are some: these and the full one alone, and without the way back up."""
    full = next((version for version in versions if version.slices), None)
    if full is None:
        return {}
    size = {name: place for place, name in enumerate((full.name, *full.slices))}

    def inside(before: Pair, now: Pair) -> bool:
        return before.version in size and now.version in size

    def down(before: Pair, now: Pair) -> bool:
        return inside(before, now) and size[before.version] <= size[now.version]

    return {"nested": Among("nested", inside), "nested/down": Among("nested/down", down)}
