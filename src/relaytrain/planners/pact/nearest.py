"""What could be had instead: the least loss by the deadline, the earliest time for the target, the highest level.

Each is what the planner itself admits: a value that a search proposes is planned for, and so is one a little better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...core.errors import ScenarioError
from ...core.plan import Nearest
from ...core.problem import Target
from ...core.state import TOLERANCE, State
from ..edge import highest_level, least_feasible
from ..search.allowance import TooMuch
from ..search.instance import MOST_EPOCHS
from ..search.solve import solve
from .lateness import least_quantile, margin
from .least_loss import first_epoch, least_loss, least_loss_in_time
from .level_tables import Tables

WITHIN = 3.0 * TOLERANCE
"""Targets closer than this are the same one."""
LATER = 4.0
"""How many times as late the next deadline is that is tried."""


@dataclass(frozen=True)
class _Question:
    """Whether a plan can be had from `state` at `level`, for targets other than that of `tables`."""

    tables: Tables
    state: State
    level: float

    def asking(self, *, loss: float | None = None, deadline_s: float | None = None) -> Tables:
        """Tables for a changed target."""
        old, was = self.tables, self.tables.problem.target
        target = replace(
            was,
            loss=was.loss if loss is None else loss,
            deadline_s=was.deadline_s if deadline_s is None else deadline_s,
            probability=self.level,
        )
        known = old.instances if loss is None and deadline_s is None else {}
        return Tables(replace(old.problem, target=target), old.costs, old.law, old.grid, known)

    def reached(self, *, loss: float | None = None, deadline_s: float | None = None) -> float | None:
        """The one figure that was changed, if a plan for it can be had."""
        return (deadline_s if loss is None else loss) if self.met(loss=loss, deadline_s=deadline_s) else None

    def met(self, *, loss: float | None = None, deadline_s: float | None = None) -> bool:
        """A plan for the changed target rests on the level."""
        return _met(self.asking(loss=loss, deadline_s=deadline_s), self.state)


def _met(tables: Tables, state: State) -> bool:
    level, start, expected = tables.problem.target.probability, tables.start(state), tables.at("expected")
    if start.loss <= expected.goal:
        return start.elapsed_s <= expected.deadline
    first = tables.in_time(level, start)
    return bool(first.any()) and solve(expected, start, first).feasible


def nearest_targets(tables: Tables, state: State, level: float) -> tuple[Nearest, ...]:
    """Targets that are feasible at `level`: the least loss by the same deadline, the same loss as early as can be."""
    question, target = _Question(tables, state, level), tables.problem.target
    if question.met():
        return ()
    targets: list[Nearest] = []
    loss = _higher_loss(question, target)
    if loss is not None and loss < question.state.loss - TOLERANCE:
        targets.append(Nearest(loss, target.deadline_s))
    late = _later(question, target) if math.isfinite(target.deadline_s) else None
    if late is not None:
        targets.append(Nearest(target.loss, late))
    return tuple(targets)


def attainable(tables: Tables, state: State, rung: float) -> float:
    """The highest level that a plan can rest on, where one does on `rung` (0: none): as asked, or in thousandths."""
    question = _Question(tables, state, tables.problem.target.probability)
    if question.met():
        return question.level

    def met(level: float) -> bool:
        return replace(question, level=level).met()

    if rung < 0.5 and (question.level <= 0.5 or not met(0.5)):
        return rung
    return highest_level(met, rung, question.level)


def _higher_loss(question: _Question, target: Target) -> float | None:
    tables, level = question.tables, question.level
    step = 1.0 if tables.grid is None else tables.grid.loss_step
    start, instance = tables.at_level(tables.start(question.state), level), tables.at(level)
    z, variance = margin(level), tables.variance
    certain = variance is None or z <= 0.0
    if variance is None or certain:
        solution = least_loss(instance, start)
    else:
        solution = least_loss_in_time(instance, variance, z, start)
    if not solution.actions and instance.monotone and certain:
        return None
    guess = min(solution.losses) * step if solution.actions else None
    most = max(question.state.loss, target.loss) + step * (tables.grid is not None)
    return least_feasible(
        lambda loss: question.reached(loss=loss), target.loss, most, guess=guess, within=WITHIN * max(step, 1.0)
    )


def _later(question: _Question, target: Target) -> float | None:
    """The earliest deadline for the target: ever later ones are tried until one has room for the quickest way."""
    tables, level = question.tables, question.level
    step = 1.0 if tables.grid is None else tables.grid.time_step_s
    variance, z = tables.variance, margin(level)
    seconds, before = tables.costs.epoch_s, question.state.elapsed_s
    seconds = seconds[np.isfinite(seconds)]
    epochs = (tables.problem.max_epochs or MOST_EPOCHS) - question.state.epoch
    if not len(seconds) or epochs < 1:
        return None
    deadline, guess = target.deadline_s, math.inf
    if tables.at(level).monotone and (tables.grid is None or not tables.at(level).by_epoch):
        start = tables.at_level(tables.start(question.state), level)
        epoch = first_epoch(tables.at(level), start, question.state.epoch + epochs)
        if epoch is None:
            return None
        epochs = epoch - question.state.epoch
        deadline = max(deadline, before + epochs * float(seconds.min()))
    latest = before + epochs * (float(seconds.max()) + step)  # however it is done
    while True:
        try:
            room = question.asking(deadline_s=deadline)
            timed, start = room.timed(level), room.at_level(room.start(question.state), level)
            quick = solve(timed, start)
        except (ScenarioError, TooMuch):
            if tables.grid is None:
                raise
            return None  # no grid is that large
        if quick.feasible:
            late = quick.elapsed_s if variance is None else least_quantile(timed, variance, z, start)
            guess = min(guess, late * step)
        if guess <= deadline or timed.epochs >= MOST_EPOCHS or deadline > latest:
            break
        deadline = max(deadline, before + float(seconds.min()), step * (tables.grid is not None)) * LATER
        deadline = max(deadline, guess) if math.isfinite(guess) else deadline
    if not math.isfinite(guess):
        return None
    most = max(guess * (1.0 + 1e-9), target.deadline_s) * LATER
    return least_feasible(
        lambda late: question.reached(deadline_s=late),
        target.deadline_s,
        most,
        guess=guess,
        within=WITHIN * max(step, 1.0, guess * 1e-3),
    )
