"""Deadline-bound problems of some 30 epochs against a plain Python Pareto search."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest
from pareto_labels import least_energy

from relaytrain.planners.search.solve import Start, instance_of, path_of, solve
from relaytrain.testing.strategies import draw

SAME_ENERGY = 1e-6


FEW, MANY = (3, 5), (8, 11)
"""With many, searches first ask which pairs are worth a label at all."""


def bound_by_its_deadline(seed, pairs=FEW):
    """So many pairs on slow curves, the deadline between the quickest path and the cheapest; None if equal."""
    rng = np.random.default_rng([11, seed])
    drawn = draw(rng, "level", pairs=pairs, oddities=False, capped=True)
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


SOAK = os.environ.get("RELAYTRAIN_TIER") == "soak"
BATCHES = [*[(FEW, batch, 10) for batch in range(4)], (MANY, 4, 50 if SOAK else 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("pairs", "batch", "problems"), BATCHES)
def test_least_energy_under_a_binding_deadline(pairs, batch, problems):
    checked, dearer, seed = 0, 0, 1000 * batch
    while checked < problems:
        problem = bound_by_its_deadline(seed, pairs)
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


@pytest.mark.slow
def test_a_first_step_that_is_given_costs_what_it_and_the_rest_cost():
    """Whatever pair comes first: its epoch, then the best from there. The least of all is the best of all."""
    checked, seed = 0, 9000
    while checked < (60 if SOAK else 8):
        problem = bound_by_its_deadline(seed, MANY)
        seed += 1
        if problem is None:
            continue
        drawn, start, _ = problem
        instance = instance_of(drawn.problem, drawn.costs, drawn.law)
        by_first = []
        for pair in range(len(drawn.problem.pairs)):
            found = solve(instance, start, np.arange(len(drawn.problem.pairs)) == pair)
            losses, step_j, step_s = path_of(instance, start, np.array([pair]))
            rest = solve(instance, Start(1, pair, float(losses[0]), step_s))
            assert found.feasible == rest.feasible, (seed, pair)
            if found.feasible:
                assert found.energy_j == pytest.approx(step_j + rest.energy_j, abs=SAME_ENERGY, rel=0), (seed, pair)
            by_first.append(found.energy_j)
        assert solve(instance, start).energy_j == pytest.approx(min(by_first), abs=SAME_ENERGY, rel=0)
        checked += 1
