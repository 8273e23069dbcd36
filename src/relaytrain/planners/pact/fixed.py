"""The baseline `fixed`: one schedule, chosen before the run and never changed.

What somebody does who has looked at enough earlier trainings: so many epochs here, so many there, then the last pair
until the target. Recorded relays say which schedule (`traces.atlas_scenario.best_fixed`); where there are none, the
belief does: what the rule `sampled` would begin with, kept to. Re-planning is worth what it saves over this one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ...core.cost import CostTable
from ...core.law import LevelLaw, LossLaw
from ...core.plan import Plan
from ...core.problem import Problem
from ...core.state import TOLERANCE, State
from ...core.worlds import Worlds
from .baselines import planned_path
from .level_tables import Tables
from .planner import Optimum

if TYPE_CHECKING:
    from ...traces.atlas import Atlas, Way

NOT_HELD = "no recorded schedule meets the target in time: this one was chosen from the belief"
NO_CURVES = "the law has no curves to draw worlds from: this schedule was chosen from its expected losses"
OTHER_TRAINING = "the atlas was recorded with other data, versions or training than the scenario has now"
LONGEST = 100_000
"""Epochs of the last leg that are followed along an expected law."""


@dataclass(frozen=True)
class FixedRelay:
    """The schedule that `atlas` shows to be best for the problem's target, else the best over so many `worlds`.

    `notes` go with every plan that the atlas chose. A plan states what the schedule comes to over worlds of the
    present belief; its decisions reach into the last leg, which trains on.
    """

    atlas: Atlas | None = field(default=None, compare=False, repr=False)
    notes: tuple[str, ...] = ()
    worlds: int = 256
    name: str = "fixed"

    def plan(
        self, problem: Problem, costs: CostTable, law: LossLaw, state: State, worlds: Worlds | None = None
    ) -> Plan:
        """The schedule from `state` on."""
        legs, notes = self._recorded(problem, costs, state)
        if worlds is None and not isinstance(law, LevelLaw):
            plan = self._along(problem, costs, law, state, legs)
            notes = notes if legs else (*notes, NO_CURVES)
        else:
            plan = self._over(problem, costs, state, worlds_or(law, state, worlds, self.worlds), legs)
        return replace(plan, planner=self.name, warnings=(*plan.warnings, *notes))

    def _recorded(self, problem: Problem, costs: CostTable, state: State) -> tuple[Way, tuple[str, ...]]:
        """What is left of the recorded schedule, the last leg's epochs not counted; nothing where it cannot be run."""
        if self.atlas is None:
            return (), ()
        from ...traces.atlas_scenario import best_fixed  # readers of traces are not a usual plan's to load

        best = best_fixed(self.atlas, costs, problem)
        if best is None:
            return (), (NOT_HELD,)
        before = [pair for pair, epochs in best.before for _ in range(epochs)][state.epoch :]
        path = [state.pair, *before, best.last, best.last]
        if any(costs.why_not(a, b) is not None for a, b in pairwise(path)):
            return (), (NOT_HELD,)
        legs: list[tuple[int, int]] = []
        for pair in before:
            legs = [*legs[:-1], (pair, legs[-1][1] + 1)] if legs and legs[-1][0] == pair else [*legs, (pair, 1)]
        return (*legs, (best.last, 1)), self.notes

    def _over(self, problem: Problem, costs: CostTable, state: State, worlds: Worlds, legs: Way) -> Plan:
        """Over worlds."""
        from .sampled import best_schedule
        from .sampled_plan import composed
        from .schedules import ON, BestSchedule, Schedules, Walker

        walker = Walker(problem, costs, worlds, state)
        best = None
        if state.loss > problem.target.loss + TOLERANCE and not legs:
            best = best_schedule(problem, costs, worlds, state)
            if best is not None:  # no other is ever gone over to
                best = replace(best, runners_up=best.runners_up.only(np.array([0])), missed=best.missed[:1])
        elif state.loss > problem.target.loss + TOLERANCE:
            pairs, counts = (np.array([part], np.int64) for part in zip(*legs, strict=True))
            counts[0, -1] = ON
            one = Schedules(pairs, counts)
            energy, missed = walker.follow(one, len(worlds))
            best = BestSchedule(one.legs(0), float(energy[0]), 1.0 - float(missed[0]), {}, one, missed)
        reach = 1 if best is None else 1 + sum(count for _, count in best.legs[:-1])
        return composed(walker, best, self.name, explained=False, reach=reach)

    def _along(self, problem: Problem, costs: CostTable, law: LossLaw, state: State, legs: Way) -> Plan:
        """Along an expected law; without a recorded schedule the least energy under it."""
        if not legs:
            return Optimum(explained=False).plan(problem, costs, law, state)
        path = [pair for pair, epochs in legs[:-1] for _ in range(epochs)]
        last = LONGEST if problem.max_epochs is None else problem.max_epochs - state.epoch
        actions: list[int] = []
        loss, at, elapsed_s = state.loss, state.pair, state.elapsed_s
        while loss > problem.target.loss + TOLERANCE:
            now = path[len(actions)] if len(actions) < len(path) else legs[-1][0]
            elapsed_s += float(costs.epoch_s[at, now])
            if elapsed_s > problem.target.deadline_s + TOLERANCE or len(actions) >= last:
                return planned_path(Tables(problem, costs, law), state, None, self.name)
            actions.append(now)
            loss, at = float(law.next_loss(state.epoch + len(actions), np.array([loss]), at, now)[0]), now
        return planned_path(Tables(problem, costs, law), state, np.array(actions, np.int64), self.name)


def worlds_or(law: LossLaw, state: State, worlds: Worlds | None, count: int) -> Worlds:
    """Those that were drawn, else the law's own."""
    from .sampled import worlds_of

    if worlds is not None:
        return worlds
    assert isinstance(law, LevelLaw)
    return worlds_of(law, state, count)
