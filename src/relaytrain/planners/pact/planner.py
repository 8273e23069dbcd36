"""The two exact planners: `Optimum` (one law, no doubt about it) and `Pact` (levels, rules, re-planning)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...core.cost import CostTable
from ...core.law import LossLaw
from ...core.plan import Plan
from ...core.planner_names import Rule
from ...core.problem import Problem
from ...core.state import Grid, State
from ..search.solve import Solution, solve
from .compose import compose, losses_at
from .level_tables import Tables
from .nearest import attainable, nearest_targets
from .rules import ActionChoice, choose, last_resort


@dataclass(frozen=True)
class Pact:
    """PACT: the next action by `rule`, the rest of the plan as the expected law has it.

    Paper: section V. With `grid` the paper's resolutions apply and the plan says what error they cause. A plan that is
    not `explained` has no alternatives.
    """

    rule: Rule = "adaptive"
    grid: Grid | None = None
    explained: bool = True

    @property
    def name(self) -> str:
        """How plans and tables call this planner."""
        return f"pact/{self.rule}" + ("" if self.grid is None else " on a grid")

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
        """The plan from `state`."""
        tables = Tables(problem, costs, law, self.grid)
        choice = choose(tables, tables.start(state), self.rule)
        notes = grid_notes(tables, state, choice.solution) if self.grid is not None and self.explained else ()
        if not choice.solution.exact and choice.rung > 0:
            notes = (*notes, "the search was cut short: see the gap to the proven bound")
        return compose(tables, state, choice, self.name, explained=self.explained, warnings=notes)


@dataclass(frozen=True)
class Optimum:
    """The least energy under the expected law: exact, un-quantised unless `grid` is given.

    `rung` is the highest level at which the very same decisions still reach the target in time.
    """

    grid: Grid | None = None
    explained: bool = True
    name: str = "optimum"

    def plan(self, problem: Problem, costs: CostTable, law: LossLaw, state: State) -> Plan:
        """The plan from `state`."""
        tables = Tables(problem, costs, law, self.grid)
        start = tables.start(state)
        solution = solve(tables.at("expected"), start)
        if not solution.feasible:
            choice = ActionChoice(last_resort(tables, start), 0.0)
        else:
            choice = ActionChoice(solution, 1.0)
        notes = grid_notes(tables, state, solution) if self.grid is not None and self.explained else ()
        plan = compose(tables, state, choice, self.name, explained=self.explained, warnings=notes)
        if not plan.feasible:
            return replace(plan, nearest=nearest_targets(tables, state, 0.5) if self.explained else ())
        short = self.explained and plan.probability < plan.asked - 1e-12
        most = attainable(tables, state, plan.probability) if short else None
        return replace(plan, rung=plan.probability, guaranteed=_guaranteed(tables, state, plan), attainable=most)


def _guaranteed(tables: Tables, state: State, plan: Plan) -> tuple[float, ...]:
    level = min(max(plan.asked, 1e-6), 1 - 1e-6)
    actions = np.array([tables.problem.index(d.pair) for d in plan.decisions], np.int64)
    return tuple(losses_at(tables, state, actions, level)[0].tolist())


def grid_notes(tables: Tables, state: State, solution: Solution) -> tuple[str, ...]:
    """What the grid costs: swallowed gains, and the distance to the un-quantised optimum."""
    grid = tables.grid
    assert grid is not None
    exact = Tables(tables.problem, tables.costs, tables.law)
    best = solve(exact.at("expected"), exact.start(state))
    notes: list[str] = []
    if best.actions:
        gains = -np.diff(np.array([state.loss, *best.losses]))
        useful = gains[gains > 0]
        if len(useful) and useful.min() < grid.loss_step:
            share = float((useful < grid.loss_step).mean())
            notes.append(
                f"loss_step {grid.loss_step:g} is above {share:.0%} of the useful gains (the smallest is "
                f"{useful.min():.2g}): rounding up turns such epochs into none; use a smaller step, or no grid"
            )
    if best.feasible and not solution.feasible:
        notes.append(f"the grid makes the problem infeasible; without it the optimum is {best.energy_j:.6g}")
    elif best.feasible and math.isfinite(solution.energy_j) and best.energy_j > 0:
        notes.append(
            f"the grid costs {solution.energy_j / best.energy_j - 1:+.2%} against the un-quantised optimum "
            f"{best.energy_j:.6g}"
        )
    return tuple(notes)
