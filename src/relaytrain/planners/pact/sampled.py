"""The rule `sampled`: of all schedules, the one with the least expected energy over worlds, in time in enough of them.

Open-loop feedback: every remaining schedule "m epochs more here, n there, then the last pair until the target" is
followed through all worlds (`search.world_walk`), the best one's first step is taken, and all is done again after the
epoch, with worlds that have learned from it. What is averaged is energy until the target is first observed to be met,
luck included, so a schedule is not trusted for one expected curve. To solve every world apart and average the answers
would not do: it takes for granted that doubt will be gone tomorrow, and waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...core.cost import CostTable
from ...core.law import LevelLaw, LossLaw
from ...core.plan import Plan
from ...core.problem import Problem
from ...core.state import TOLERANCE, State
from ...core.worlds import Worlds
from .planner import Pact
from .sampled_plan import composed
from .schedules import NEAR, ROUNDS, BestSchedule, Followed, Walker, ranked, schedules_from

WORLDS = 256
"""Worlds of a plan: with a sixteenth of them the draw decides more than the schedules."""
NO_CURVES = "the law has no curves to draw worlds from: planned by levels, as the rule adaptive does"


@dataclass(frozen=True)
class Sampled:
    """PACT's product, decided over so many worlds.

    `plan` takes those that the estimator drew (`planners.over_worlds`), else some of the law's levels; a law without
    curves has none, and is planned by levels (`adaptive`). Without `way_out` no targets in reach are looked for where
    the one that was asked is not, which takes longer than the plan itself.
    """

    worlds: int = WORLDS
    explained: bool = True
    way_out: bool = True
    name: str = "pact/sampled"

    def plan(
        self, problem: Problem, costs: CostTable, law: LossLaw, state: State, worlds: Worlds | None = None
    ) -> Plan:
        """The plan from `state`."""
        if worlds is None:
            if not isinstance(law, LevelLaw):
                plan = Pact("adaptive", explained=self.explained).plan(problem, costs, law, state)
                return replace(plan, warnings=(*plan.warnings, NO_CURVES))
            worlds = worlds_of(law, state, self.worlds)
        best = None if state.loss <= problem.target.loss + TOLERANCE else best_schedule(problem, costs, worlds, state)
        walker = Walker(problem, costs, worlds, state)
        return composed(walker, best, self.name, explained=self.explained, way_out=self.way_out)


def worlds_of(law: LevelLaw, state: State, count: int) -> Worlds:
    """Worlds of a law alone: a world is one level, of all pairs alike, from the best to the worst in no order."""
    levels = (np.random.default_rng(count).permutation(count) + 0.5) / count
    calm = replace(law, scatter=None)
    forms = [calm.form(float(level)) for level in levels]
    with np.errstate(divide="ignore", invalid="ignore"):
        pace = np.array([np.nanmean(np.where(law.mult > 0, form.mult / law.mult, np.nan), axis=0) for form in forms])
    curves = np.array([form.curves for form in forms])
    curves[:, :, 2] /= np.maximum(np.nan_to_num(pace, nan=1.0), 1e-6)
    scatter = np.zeros(len(law.curves)) if law.scatter is None else law.scatter
    return Worlds(
        curves,
        law.mult,
        np.array([form.c0[0] for form in forms]),
        forms[0].c1,
        np.full(count, law.begin(state.loss, state.pair)),
        scatter[:, None].copy(),
        np.ones((count, len(law.curves))),
    )


def best_schedule(problem: Problem, costs: CostTable, worlds: Worlds, state: State) -> BestSchedule | None:
    """What `sampled` takes from `state`; None when no pair can be run."""
    walker = Walker(problem, costs, worlds, state)
    schedules = schedules_from(walker, state.pair)
    if not len(schedules):
        return None
    asked, left, goal = walker.enough, np.arange(len(schedules)), walker.goal
    rounds = Followed(walker, schedules)
    energy, missed = rounds.through(ROUNDS[0][0])
    if np.min(missed) > 1.0 - NEAR * walker.coverage:  # in time is next to none: the cheapest would do least
        asked, left, rounds = 1.0, walker.put_off(schedules), Followed(walker, schedules)
        energy, missed = rounds.through(ROUNDS[0][0])
    for count, most in ROUNDS:
        if len(left) > most:
            if count > ROUNDS[0][0]:
                energy, missed = rounds.through(count, left)
            left = left[ranked(energy[left], missed[left], asked)]
            firsts = np.unique(schedules.pairs[left, 0], return_index=True)[1]  # of every first pair the best goes on
            left = left[np.unique(np.concatenate((np.arange(most), firsts)))]
    energy, missed = rounds.through(len(worlds), left)
    order = left[ranked(energy[left], missed[left], asked)]
    if walker.goal is not goal:
        walker.goal = goal
        energy, missed = walker.follow(schedules, len(worlds), left)
    best = int(order[0])
    by_first: dict[int, tuple[float, float]] = {}
    for index in order:
        by_first.setdefault(int(schedules.pairs[index, 0]), (float(energy[index]), 1.0 - float(missed[index])))
    return BestSchedule(
        schedules.legs(best),
        float(energy[best]),
        1.0 - float(missed[best]),
        by_first,
        schedules.only(order),
        missed[order],
    )
