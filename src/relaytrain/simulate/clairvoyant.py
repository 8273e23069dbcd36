"""The least energy in a world for one who knows its luck beforehand: what every rule is measured against."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.law import LawForm
from ..core.state import TOLERANCE
from ..planners.search.allowance import Counts, check, current
from ..planners.search.best_first import (
    CRAMPED,
    DROP,
    FOLLOW,
    FULL,
    KEEP,
    NOWHERE,
    STOP,
    STOPPED,
    NextLabel,
    PathLabel,
    best_first,
)
from ..planners.search.instance import Start, contiguous, instance_of
from ..planners.search.kernels import next_loss
from ..planners.search.solve import solve
from ..planners.search.staircase import Staircases, dominated, empty_staircases, insert, roomier
from .world import World

MOST_LABELS = 4_000_000


@dataclass(frozen=True)
class Clairvoyant:
    """The energy of the optimum that knows the luck, infinite where even that misses; not `exact`: the best known."""

    energy_j: float
    exact: bool = True

    @property
    def met(self) -> bool:
        """Somebody who knew the luck would have met the target."""
        return math.isfinite(self.energy_j)


def clairvoyant(world: World, known_j: float = math.inf) -> Clairvoyant:
    """The optimum of `world`; `known_j` is an energy that some rule met the target with."""
    if not world.luck.delays and not world.luck.shift.any():
        state = world.problem.first_state
        solution = solve(
            instance_of(world.problem, world.costs, world.lucky_law), Start(0, state.pair, state.loss, state.elapsed_s)
        )
        return Clairvoyant(min(solution.energy_j if solution.feasible else math.inf, known_j), solution.exact)
    return labelled(world, known_j)


class _Space(NamedTuple):
    form: LawForm
    seconds: NDArray[np.float64]
    joules: NDArray[np.float64]
    shift: NDArray[np.float64]
    goal: float
    deadline: float
    ceiling: float
    counts: Counts


def _settle_lucky(space: _Space, store: Staircases, label: PathLabel) -> Any:
    """In order of energy; each (epoch, pair) keeps the staircase of losses and times not dominated."""
    if label.loss <= space.goal:
        return STOP
    key = label.epoch * space.shift.shape[1] + label.pair
    if dominated(store.loss, store.time_s, store.spans, key, label.loss, label.time_s):
        return DROP
    if not insert(store.loss, store.time_s, store.spans, key, label.loss, label.time_s):
        return CRAMPED
    return KEEP if label.epoch >= space.shift.shape[0] else FOLLOW


def _step_lucky(space: _Space, store: Staircases, label: PathLabel, now: int) -> Any:
    late = label.time_s + space.seconds[label.epoch, label.pair, now]
    spent = label.energy_j + space.joules[label.pair, now]
    if not (late <= space.deadline and spent <= space.ceiling and np.isfinite(spent) and np.isfinite(late)):
        return NOWHERE
    landed = next_loss(space.form, label.epoch + 1, label.loss, label.pair, now)
    if not np.isfinite(landed):
        return NOWHERE
    landed = max(landed + space.shift[label.epoch, now], 0.0)
    key = (label.epoch + 1) * space.shift.shape[1] + now
    if dominated(store.loss, store.time_s, store.spans, key, landed, late):
        return NOWHERE
    return NextLabel(now, landed, late, spent, spent)


_search = best_first(_settle_lucky, _step_lucky, roomier)


def labelled(world: World, known_j: float = math.inf) -> Clairvoyant:
    """The same with seconds and additive noise that differ by epoch, which `planners.search` has no words for."""
    start, target = world.problem.first_state, world.problem.target
    epochs, pairs = world.luck.shift.shape
    space = _Space(
        contiguous(world.form),
        np.ascontiguousarray(world.seconds),
        np.ascontiguousarray(world.costs.epoch_j),
        np.ascontiguousarray(world.luck.shift),
        target.loss + TOLERANCE,
        target.deadline_s + TOLERANCE,
        known_j - TOLERANCE,
        current(),
    )
    label = PathLabel(0, start.pair, 0, start.loss, 0.0, 0.0)
    outcome = _search(space, empty_staircases(pairs * (epochs + 1)), pairs, label, MOST_LABELS)
    check(space.counts)
    energy_j = float(outcome.labels.energy_j[outcome.last]) if outcome.status == STOPPED else math.inf
    return Clairvoyant(min(energy_j, known_j), outcome.status != FULL and world.lucky_law.monotone)
