"""The grid option against networkx on the literal expanded graph of Algorithms 1 and 2."""

import math
from dataclasses import replace

import numpy as np
import pytest
from expanded_graph import expanded_graph, shortest

from relaytrain.core.state import Grid, State
from relaytrain.planners.search.solve import Start, instance_of, solve
from relaytrain.testing.strategies import draw

SAME_ENERGY = 1e-6
BATCH = 10


def quantised(seed, kind):
    """A random problem and a grid coarse enough for the full vertex set: some without holes in time, some capped."""
    rng = np.random.default_rng([7, seed, kind == "level"])
    drawn = draw(rng, kind, pairs=(2, 3), epochs=7)
    cap = None if rng.random() < 0.7 else 5
    problem = replace(drawn.problem, initial_loss=1.0, max_epochs=cap)
    drawn = replace(drawn, problem=problem, state=State(0, 1.0, 0.0, problem.start))
    deadline = problem.target.deadline_s if math.isfinite(problem.target.deadline_s) else 2.0
    loss = max(problem.target.loss, float(rng.choice([0.0, 0.3])))
    time_step = max(float(rng.choice([0.1, 0.25, 0.5])), deadline / 7.0)
    grid = Grid(float(rng.choice([0.05, 0.1])), time_step, float(rng.choice([1.0, 1.3])))
    return drawn.with_target(loss=loss, deadline_s=deadline), grid


@pytest.mark.parametrize("kind", ["epoch", "level"])
@pytest.mark.parametrize("batch", range(6))
def test_shortest_path_to_omega(kind, batch):
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        drawn, grid = quantised(seed, kind)
        expected = shortest(*expanded_graph(drawn, grid.loss_step, grid.time_step_s, grid.loss_top))
        instance = instance_of(drawn.problem, drawn.costs, drawn.law, grid=grid)
        found = solve(instance, Start(0, drawn.problem.start, float(grid.loss_index(1.0)), 0.0))
        assert found.feasible == math.isfinite(expected), (seed, kind)
        if found.feasible:
            assert found.energy_j == pytest.approx(expected, abs=SAME_ENERGY, rel=0), (seed, kind)


def test_a_grid_without_deadline_equals_one_with_a_far_deadline():
    for seed in range(20):
        drawn, grid = quantised(seed, "level")
        problem = replace(drawn.problem, max_epochs=12)
        start = Start(0, problem.start, float(grid.loss_index(1.0)), 0.0)
        far, none = (
            solve(instance_of(replace(problem, target=target), drawn.costs, drawn.law, grid=grid), start)
            for target in (replace(problem.target, deadline_s=1e3), replace(problem.target, deadline_s=math.inf))
        )
        assert far.feasible == none.feasible
        assert far.energy_j == none.energy_j or far.energy_j == pytest.approx(none.energy_j)


def test_hand_computed_graph():
    """Three vertices on the way: stay twice on the dear pair, or change once to the cheap one.

    Stay: 2 epochs x 3 J. Change: (1 + 1) J, then 1 J. The deadline of 4 steps admits both, of 2 steps only the first.
    """
    from relaytrain.core.cost import CostTable
    from relaytrain.core.law import EpochLaw
    from relaytrain.core.problem import Pair, Problem, Target

    costs = CostTable(
        np.array([1.0, 1.0]),
        np.array([[0.0, 2.0], [2.0, 0.0]]),
        np.array([3.0, 1.0]),
        np.array([[0.0, 1.0], [1.0, 0.0]]),
    )
    law = EpochLaw(np.array([[-0.5, -0.5]]), np.zeros((1, 2, 2)))
    for deadline, energy, actions in ((4.0, 3.0, (1, 1)), (2.0, 6.0, (0, 0)), (1.0, math.inf, ())):
        problem = Problem("hand", (Pair("a", "x"), Pair("b", "y")), 0, 1.0, Target(0.0, deadline))
        for grid, start in ((None, 1.0), (Grid(0.5, 1.0, 1.0), 2.0)):
            found = solve(instance_of(problem, costs, law, grid=grid), Start(0, 0, start, 0.0))
            assert (found.energy_j, found.actions) == (energy, actions)
