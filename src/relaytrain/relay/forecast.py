"""What a run will still spend: the middle of the forecast, and from where to where.

A level of the law is one way things may go, from better (0.1) to worse (0.9) than expected. Under each the run plans
again as it learns, so it ends near the least energy that there is under that level. Where no path arrives, or planning
again is not what the run does (a plan followed to the end; one that chooses data and resources), the plan's own pairs
are followed, the last one training on, at most until the deadline.

The middle is the mean over the middle half of the levels. A median would jump: with a version that may just or just
not arrive, the totals of all levels are two heaps, and the median falls from one into the other and back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.cost import CostTable
from ..core.law import LossLaw, begin, evaluate
from ..core.plan import Plan
from ..core.problem import Pair, Problem
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
    """Joules to go: 10 % quantile, middle, 90 % quantile; infinity: never there."""

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
    to_go = {level: _to_go(problem, plan, law, state, tables, level) for level in (LOW, *MIDDLE, HIGH)}
    middle = math.fsum(to_go[level] for level in MIDDLE) / len(MIDDLE)
    return Forecast(min(to_go[LOW], middle), middle, max(to_go[HIGH], middle))


def _to_go(problem: Problem, plan: Plan, law: LossLaw, state: State, tables: Tables | None, level: float) -> float:
    """Joules to go if things go as `level` says."""
    if tables is not None:
        from ..planners.search.solve import solve

        start = tables.at_level(tables.start(state), level)
        found = solve(tables.at(level), start, effort=EFFORT)
        if found.feasible and found.actions:
            return found.energy_j
    return _followed(problem, plan, law, state, level)


def _followed(problem: Problem, plan: Plan, law: LossLaw, state: State, level: float) -> float:
    """Joules along the plan's own pairs, the last one training on."""
    form, before, now_s, spent_j = law.form(level), state.pair, state.elapsed_s, 0.0
    loss = np.array(begin(law, state.loss, state.pair, level))
    for epoch, (now, seconds, joules) in enumerate(_epochs(problem, plan), state.epoch + 1):
        now_s += seconds
        if epoch - state.epoch > LONGEST:
            return math.inf
        if now_s > problem.target.deadline_s + TOLERANCE and spent_j > 0.0:
            return spent_j
        spent_j += joules
        loss = evaluate(form, epoch, loss, before, now)
        if float(loss) <= problem.target.loss + TOLERANCE:
            return spent_j
        before = now
    return spent_j


def _epochs(problem: Problem, plan: Plan) -> Iterator[tuple[int, float, float]]:
    """Pair, seconds and joules of every epoch, without end; the handover into a leg is its first epoch's."""
    into = {hand.epoch: hand for hand in plan.handovers}
    for leg in plan.legs:
        hand, now = into.get(leg.first_epoch), problem.index(Pair(leg.version, leg.nodes))
        hand_s, hand_j = (0.0, 0.0) if hand is None else (hand.elapsed_s, hand.energy_j)
        seconds, joules = (leg.elapsed_s - hand_s) / leg.epochs, (leg.energy_j - hand_j) / leg.epochs
        yield now, seconds + hand_s, joules + hand_j
        for _ in range(leg.epochs - 1):
            yield now, seconds, joules
    yield from repeat((now, seconds, joules))
