"""What a run will still spend: the middle of the forecast, and from where to where.

A plan over worlds states it itself. Else a level of the law is one way things may go, from better (0.1) to worse (0.9)
than expected. Under each the run plans again as it learns, so it ends near the least energy that there is under that
level. Where no path arrives, or planning again is not what the run does (a plan followed to the end; one that chooses
data and resources), the plan's own pairs are followed, the last one training on, at most until the deadline.

The middle is the mean over the middle half of the levels. A median would jump: with a version that may just or just
not arrive, the totals of all levels are two heaps, and the median falls from one into the other and back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.cost import CostTable
from ...core.law import LossLaw, at_levels
from ...core.plan import Plan
from ...core.problem import Pair, Problem
from ...core.state import TOLERANCE, State
from ..search.instance import contiguous
from ..search.kernels import roll
from ..search.solve import solve
from .level_tables import Tables

LOW, HIGH = 0.1, 0.9
MIDDLE = (0.25, 0.35, 0.45, 0.55, 0.65, 0.75)
LEVELS = (LOW, *MIDDLE, HIGH)
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
    if plan.energy_interval_j is not None and replan:
        low_j, high_j = plan.energy_interval_j
        return Forecast(low_j, plan.energy_j, high_j)
    plain = all(d.resources == 1.0 and not d.datasets for d in plan.decisions)
    to_go = _searched(Tables(problem, costs, law), state) if replan and plain else {}
    if len(to_go) < len(LEVELS):
        way = _way(problem, plan, state)
        missing = [level for level in LEVELS if level not in to_go]
        to_go |= zip(missing, _followed(problem, way, law, state, missing), strict=True)
    middle = math.fsum(to_go[level] for level in MIDDLE) / len(MIDDLE)
    return Forecast(min(to_go[LOW], middle), middle, max(to_go[HIGH], middle))


class _Way(NamedTuple):
    """The plan's own pairs, the last one training on, and what has been spent by the end of each epoch."""

    pairs: NDArray[np.int64]
    spent_j: NDArray[np.float64]


def _searched(tables: Tables, state: State) -> dict[float, float]:
    """The least joules to go if things go as a level says, for the levels under which a path arrives."""
    tables.prepare(LEVELS)
    start = tables.start(state)
    ways = {level: solve(tables.at(level), tables.at_level(start, level), effort=EFFORT) for level in LEVELS}
    return {level: way.energy_j for level, way in ways.items() if way.feasible and way.actions}


def _way(problem: Problem, plan: Plan, state: State) -> _Way:
    """As many epochs of the plan as fit before the deadline, the first of them in any case."""
    pairs, seconds, joules = _epochs(problem, plan)
    until_s = state.elapsed_s + np.cumsum(seconds)
    room = max(int((until_s <= problem.target.deadline_s + TOLERANCE).sum()), 1)
    return _Way(np.ascontiguousarray(pairs[:room], np.int64), np.cumsum(joules)[:room])


def _followed(problem: Problem, way: _Way, law: LossLaw, state: State, levels: Sequence[float]) -> list[float]:
    """By level (ascending) joules until the target is met on `way`; all where it is not, infinity without a deadline.

    Levels are path-wise: where one does not arrive, no worse one does.
    """
    losses, joules = np.empty(len(way.pairs)), []
    for first, form in at_levels(law, levels, state.loss, state.pair):
        roll(contiguous(form), first, state.pair, state.epoch + 1, way.pairs, losses)
        met = np.flatnonzero(losses <= problem.target.loss + TOLERANCE)
        if not len(met):
            break
        joules.append(float(way.spent_j[met[0]]))
    never = math.inf if len(way.pairs) == LONGEST else float(way.spent_j[-1])
    return joules + [never] * (len(levels) - len(joules))


def _epochs(problem: Problem, plan: Plan) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Pair, seconds and joules of every epoch, `LONGEST` of them; the handover into a leg is its first epoch's."""
    into = {hand.epoch: hand for hand in plan.handovers}
    rows: list[tuple[int, float, float]] = []
    counts: list[int] = []
    for leg in plan.legs:
        hand, now = into.get(leg.first_epoch), problem.index(Pair(leg.version, leg.nodes))
        hand_s, hand_j = (0.0, 0.0) if hand is None else (hand.elapsed_s, hand.energy_j)
        seconds, joules = (leg.elapsed_s - hand_s) / leg.epochs, (leg.energy_j - hand_j) / leg.epochs
        rows += [(now, seconds + hand_s, joules + hand_j), (now, seconds, joules)]
        counts += [1, leg.epochs - 1]
    counts[-1] += LONGEST
    pairs, each_s, each_j = (np.repeat(np.array(column), counts)[:LONGEST] for column in zip(*rows, strict=True))
    return pairs, each_s, each_j
