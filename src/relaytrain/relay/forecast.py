"""What a run will have spent in the end: the middle of the forecast, and from where to where.

A level of the law is one way things may go, from better (0.1) to worse (0.9) than expected. Under each the run plans
again as it learns, so it ends near the least energy that there is under that level. Where no path arrives, or planning
again is not what the run does (a plan followed to the end; one that chooses data and resources), the plan's own pairs
are followed, the last one training on, at most until the deadline.

The middle is the mean over the middle half of the levels. A median would jump: with a version that may just or just
not arrive, the totals of all levels are two heaps, and the median falls from one into the other and back.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.cost import CostTable
from ..core.law import LossLaw, begin, evaluate
from ..core.plan import Plan
from ..core.problem import Problem
from ..core.state import TOLERANCE, State

if TYPE_CHECKING:
    from ..planners.pact.level_tables import Tables

LOW, HIGH = 0.1, 0.9
MIDDLE = (0.25, 0.35, 0.45, 0.55, 0.65, 0.75)
LONGEST = 2000
"""Epochs after which a path is given up: the target is out of its reach."""
EFFORT = 0.1
"""Of the searches: a forecast need not be exact."""


class Forecast(NamedTuple):
    """Joules of the whole run, what is spent included: 10 % quantile, middle, 90 % quantile; infinity: never there."""

    low_j: float
    middle_j: float
    high_j: float


def forecast(
    problem: Problem, plan: Plan, law: LossLaw, costs: CostTable, state: State, *, replan: bool = True
) -> Forecast:
    """Of a run that stands at `state` and has just made `plan` under `law` and `costs`."""
    if not plan.decisions:
        return Forecast(math.inf, math.inf, math.inf)
    from ..planners.pact.level_tables import Tables

    plain = all(d.resources == 1.0 and not d.datasets for d in plan.decisions)
    tables = Tables(problem, costs, law) if replan and plain else None
    spent = {level: _spent(problem, plan, law, state, tables, level) for level in (LOW, *MIDDLE, HIGH)}
    middle = math.fsum(spent[level] for level in MIDDLE) / len(MIDDLE)
    return Forecast(min(spent[LOW], middle), middle, max(spent[HIGH], middle))


def _spent(problem: Problem, plan: Plan, law: LossLaw, state: State, tables: Tables | None, level: float) -> float:
    """Joules in the end if things go as `level` says."""
    if tables is not None:
        from ..planners.search.solve import solve

        start = tables.at_level(tables.start(state), level)
        found = solve(tables.at(level), start, effort=EFFORT)
        if found.feasible and found.actions:
            return state.energy_j + found.energy_j
    form, before = law.form(level), state.pair
    loss = np.array(begin(law, state.loss, state.pair, level))
    pairs = [problem.index(decision.pair) for decision in plan.decisions]
    more_s, more_j = _an_epoch_more(plan)
    for ahead in range(LONGEST):
        at, beyond = min(ahead, len(pairs) - 1), max(ahead + 1 - len(pairs), 0)
        loss = evaluate(form, state.epoch + 1 + ahead, loss, before, pairs[at])
        late = plan.times_s[at] + (beyond + 1) * more_s > problem.target.deadline_s + TOLERANCE
        if float(loss) <= problem.target.loss + TOLERANCE or late:
            return plan.energies_j[at] + beyond * more_j
        before = pairs[at]
    return math.inf


def _an_epoch_more(plan: Plan) -> tuple[float, float]:
    """Seconds and joules of an epoch behind the plan's last one: its last leg's, the handover into it taken out."""
    leg = plan.legs[-1]
    into = next((h for h in plan.handovers if h.epoch == leg.first_epoch), None)
    seconds, joules = (0.0, 0.0) if into is None else (into.elapsed_s, into.energy_j)
    return (leg.elapsed_s - seconds) / leg.epochs, (leg.energy_j - joules) / leg.epochs
