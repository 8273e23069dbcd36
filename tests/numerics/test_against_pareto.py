"""Deadline-bound problems of some 30 epochs against a plain Python Pareto search."""

import math
from dataclasses import replace

import numpy as np
import pytest
from pareto_labels import least_energy

from relaytrain.planners.search.solve import Start, instance_of, solve
from relaytrain.testing.strategies import draw

SAME_ENERGY = 1e-6


def bound_by_its_deadline(seed):
    """Three to five pairs on slow curves, the deadline between the quickest path and the cheapest; None if equal."""
    rng = np.random.default_rng([11, seed])
    drawn = draw(rng, "level", pairs=(3, 5), oddities=False, capped=True)
    law = replace(drawn.law, curves=drawn.law.curves * np.array([1.0, 1.0, 5.0, 1.0]))
    drawn = replace(drawn, law=law, problem=replace(drawn.problem, max_epochs=None))
    floor = float(law.curves[:, 0].min())
    drawn = drawn.with_target(loss=floor + float(rng.uniform(0.12, 0.3)), deadline_s=math.inf)
    start = Start(0, drawn.problem.start, 1.0, 0.0)
    in_seconds = replace(drawn.costs, run_j=drawn.costs.run_s, change_j=drawn.costs.change_s)
    cheapest = solve(instance_of(drawn.problem, drawn.costs, law), start)
    quickest = solve(instance_of(drawn.problem, in_seconds, law), start)
    if cheapest.elapsed_s <= quickest.elapsed_s + 1e-6 or len(cheapest.actions) > 60:
        return None
    share = float(rng.uniform(0.1, 0.9))
    deadline = quickest.elapsed_s + share * (cheapest.elapsed_s - quickest.elapsed_s)
    return drawn.with_target(deadline_s=deadline), start, cheapest.energy_j


PROBLEMS = 40


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
def test_least_energy_under_a_binding_deadline(batch):
    checked, dearer, seed = 0, 0, 1000 * batch
    while checked < PROBLEMS // 4:
        problem = bound_by_its_deadline(seed)
        seed += 1
        if problem is None:
            continue
        drawn, start, without = problem
        found = solve(instance_of(drawn.problem, drawn.costs, drawn.law), start)
        assert found.feasible
        assert found.exact
        assert found.energy_j == pytest.approx(least_energy(drawn), abs=SAME_ENERGY, rel=0), seed - 1
        checked += 1
        dearer += found.energy_j > without + SAME_ENERGY
    assert dearer >= checked // 2
