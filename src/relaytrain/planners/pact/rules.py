"""How PACT chooses its next action: the rules, each a pure function of tables and state.

`adaptive` (default) and `robust` fix the admissible first actions by feasibility at a level and take the one with the
least *expected* energy to the target. `literal` is Algorithm 3 as printed, `clamped` and `opportunity` its repairs:

    score = weight * risk / opp,   opp = Le / Lr,   risk = Wr / weight

Deviations: as printed the weight cancels, Wr leaves out the first edge and is infinite when a version cannot be
restored, so `literal` contradicts Property 3; it and its repairs are here for fidelity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...core.planner_names import Rule
from ...core.state import TOLERANCE
from ..search.instance import contiguous
from ..search.kernels import next_loss
from ..search.solve import SearchInstance, Solution, Start, solve
from .expanded_graph import arrivals
from .least_loss import least_loss
from .level_tables import Tables
from .time_layers import layered, next_action

SCORES: tuple[Rule, ...] = ("literal", "clamped", "opportunity")
"""Rules of Algorithm 3, in the order of `time_layers`."""
LADDER = (0.99, 0.95, 0.9, 0.75, 0.6, 0.5)
"""Levels that `adaptive` steps down through, from the target's probability."""


@dataclass(frozen=True)
class ActionChoice:
    """A path whose first action is to be taken, and the level it rests on (0 when no level is feasible).

    `admitted`: the first actions that the level admits (None: all); the solution's bound speaks of them alone.
    """

    solution: Solution
    rung: float
    admitted: NDArray[np.bool_] | None = None


def choose(tables: Tables, start: Start, rule: Rule) -> ActionChoice:
    """The path that `rule` takes from `start`."""
    if start.loss <= tables.at("expected").goal:
        return ActionChoice(solve(tables.at("expected"), start), 1.0)
    asked = tables.problem.target.probability
    if rule == "adaptive":
        return _by_levels(tables, start, (asked, *(level for level in LADDER if level < asked)))
    if rule == "robust":
        return _by_levels(tables, start, (asked,))
    if rule == "expected":
        return _by_levels(tables, start, (0.5,))
    return _by_score(tables, start, rule)


def _by_levels(tables: Tables, start: Start, levels: tuple[float, ...]) -> ActionChoice:
    for level in levels:
        mask = tables.in_time(level, start)
        if mask.any():
            solution = solve(tables.at("expected"), start, mask)
            if solution.actions:
                return ActionChoice(solution, level, mask)
    return ActionChoice(last_resort(tables, start), 0.0)


def last_resort(tables: Tables, start: Start) -> Solution:
    """No level is feasible: the quickest expected way to the target, or, without any, to the least loss in time."""
    solution = solve(tables.timed("expected"), start)
    if not solution.actions:
        solution = least_loss(tables.at("expected"), start)
    return replace(
        solution, feasible=False, energy_j=energy_of(tables.at("expected"), start, solution), bound_j=math.inf
    )


def energy_of(instance: SearchInstance, start: Start, solution: Solution) -> float:
    """Joules of a path found for another weight."""
    if not solution.actions:
        return 0.0
    actions = np.array(solution.actions)
    before = np.concatenate(([start.pair], actions[:-1]))
    return float(instance.joules[before, actions].sum())


def _by_score(tables: Tables, start: Start, rule: Rule) -> ActionChoice:
    """Algorithm 3: the least score over the shortest paths to all feasible vertices of the robust graph."""
    level = tables.problem.target.probability
    sure, expected = tables.at_level(start, level), tables.at("expected")
    robust = tables.cautious(level, sure)
    restored = np.zeros(len(robust.joules))
    if rule != "opportunity":
        restored = np.array([_restore(tables, robust, sure, int(now)) for now in range(len(robust.joules))])
    if tables.grid is not None and layered(robust):
        laws = contiguous(tables.law.form("expected")), contiguous(tables.law.form(level))
        now = next_action(robust, sure, laws, tables.grid.loss_step, restored, SCORES.index(rule))
    else:
        now = _among_cells(robust, expected, sure, rule, restored)
    if now < 0:  # cells may hide the only path there is
        return _by_levels(tables, start, (level,))
    mask: NDArray[np.bool_] = np.arange(len(robust.joules)) == now
    solution = solve(expected, start, mask)
    if not solution.actions:
        return ActionChoice(last_resort(tables, start), 0.0)
    return ActionChoice(solution, level, mask)


def _among_cells(
    robust: SearchInstance, expected: SearchInstance, start: Start, rule: Rule, restored: NDArray[np.float64]
) -> int:
    """The same without a grid, or where it has no layers of time: the paths to cells; -1 for none."""
    paths = arrivals(robust, expected.form, start)
    if len(paths.first) == 0:
        return -1
    with np.errstate(divide="ignore", invalid="ignore"):
        opportunity = np.where(paths.robust != 0, paths.expected / paths.robust, 1.0)  # line 9
    if rule == "opportunity":
        score = paths.energy / opportunity
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            risk = restored[paths.first] / paths.energy  # line 12
        if rule == "clamped":
            opportunity, risk = np.maximum(opportunity, 1.0), np.maximum(risk, 1.0)
        score = paths.energy * risk / opportunity  # line 13
    if not np.isfinite(score).any():
        score = paths.energy
    best = np.flatnonzero(score <= np.nanmin(score) + TOLERANCE)
    return int(paths.first[best[np.argmin(paths.energy[best])]])


def _restore(tables: Tables, robust: SearchInstance, start: Start, now: int) -> float:
    """Wr of lines 10-11: the least energy from the vertex after `now` to the goal, through the present version."""
    pairs = tables.problem.pairs
    via = np.array([pair.version == pairs[start.pair].version for pair in pairs])
    if not (np.isfinite(robust.joules[start.pair, now]) and np.isfinite(robust.seconds[start.pair, now])):
        return math.inf
    landed = next_loss(robust.form, start.epoch + 1, start.loss, start.pair, now)
    if not math.isfinite(landed) or not _can_reach(robust, now, via):
        return math.inf
    there = Start(start.epoch + 1, now, landed, start.elapsed_s + float(robust.seconds[start.pair, now]))
    if via[now]:  # already there: any way to the goal will do
        return solve(robust, there).energy_j
    paths = arrivals(robust, robust.form, there, via=via, only_first=True)
    return float(paths.energy[0]) if len(paths.energy) else math.inf


def _can_reach(instance: SearchInstance, pair: int, via: NDArray[np.bool_]) -> bool:
    open_edges = np.isfinite(instance.joules) & np.isfinite(instance.seconds)
    reached = np.arange(len(via)) == pair
    for _ in range(len(via)):
        reached = reached | open_edges[reached].any(axis=0)
    return bool((reached & via).any())
