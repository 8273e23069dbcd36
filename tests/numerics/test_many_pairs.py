"""Plans among many pairs: the plan itself is exact, other first actions are sketched, and say so."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from relaytrain.core.cost import CostTable
from relaytrain.core.law import LevelLaw
from relaytrain.core.problem import Pair, Problem, Target
from relaytrain.core.state import State
from relaytrain.planners.pact.planner import Pact
from relaytrain.planners.search.solve import Start, instance_of, sketch, solve

CLOSE = 1e-9
"""Sums of the same joules in another order."""


def fleet(pairs: int, seed: int, share: float) -> tuple[Problem, CostTable, LevelLaw]:
    """Larger versions cost more and learn faster; the deadline is `share` of the cheapest relay's time."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(0.15, 1.0, pairs)
    off = 1.0 - np.eye(pairs)
    changes = [off * rng.uniform(0.1, 0.5, (pairs, pairs)) for _ in range(2)]
    costs = CostTable(0.4 + 0.9 * size, changes[0], size**1.5, changes[1])
    curves = np.column_stack([0.22 * size, 1 - 0.22 * size, 3 + 40 * (1 - size), np.full(pairs, 1.3)])
    jumps = off * rng.uniform(0.005, 0.03, (pairs, pairs))
    law = LevelLaw(curves, jumps, off * 0.02, np.ones((1, pairs)), loss_top=1.3)
    names = tuple(Pair(f"v{i}", f"n{i}") for i in range(pairs))
    free = Problem("fleet", names, 0, 1.0, Target(0.25, 1e5))
    cheapest = solve(instance_of(free, costs, law), Start(0, 0, 1.0, 0.0))
    return replace(free, target=Target(0.25, cheapest.elapsed_s * share)), costs, law


@pytest.mark.parametrize("share", [1.05, 0.98])
@pytest.mark.parametrize("seed", range(4))
def test_a_sketch_lies_between_its_bound_and_what_a_search_finds(seed: int, share: float) -> None:
    instance, start = instance_of(*fleet(12, seed, share)), Start(0, 0, 1.0, 0.0)
    assert solve(instance, start).exact
    for now in range(12):
        only = np.arange(12) == now
        best, drawn = solve(instance, start, only), sketch(instance, start, only)
        assert drawn.feasible == best.feasible
        if not best.feasible:
            continue
        assert best.exact
        assert drawn.actions[0] == now and drawn.elapsed_s <= instance.deadline
        assert drawn.bound_j <= best.energy_j + CLOSE
        assert best.energy_j <= drawn.energy_j + CLOSE
        assert not drawn.exact or math.isclose(drawn.energy_j, best.energy_j, rel_tol=CLOSE)


def test_a_fleet_is_planned_exactly_and_says_where_a_figure_is_only_a_limit() -> None:
    problem, costs, law = fleet(70, 1, 0.97)
    plan = Pact().plan(problem, costs, law, State(0, 1.0, 0.0, 0))
    instance, start = instance_of(problem, costs, law), Start(0, 0, 1.0, 0.0)
    assert plan.feasible and plan.exact
    assert math.isclose(plan.energy_j, solve(instance, start).energy_j, rel_tol=CLOSE)
    shown = [other for other in plan.alternatives if other.energy_j is not None]
    assert shown
    for other in shown:
        now = [str(pair) for pair in problem.pairs].index(other.name)
        best = solve(instance, start, np.arange(70) == now)
        assert other.energy_j is not None
        if other.reason:
            assert other.reason.startswith("at most")
            assert other.energy_j >= best.bound_j - CLOSE
        else:
            assert math.isclose(other.energy_j, best.energy_j, rel_tol=CLOSE)
