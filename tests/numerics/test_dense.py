"""The dense program takes over when labels run out: same answer, from a search that was allowed almost none."""

import numpy as np
import pytest

from relaytrain.core.state import Grid
from relaytrain.planners.search.solve import Start, instance_of, solve
from relaytrain.testing.strategies import draw


@pytest.mark.parametrize("seed", range(12))
def test_dense_program_equals_labels(seed: int) -> None:
    drawn = draw(np.random.default_rng([seed, 77]), "level", pairs=(4, 4), oddities=False, capped=False)
    grid = Grid(0.02, float(np.min(drawn.costs.run_s)) / 2.0, 2.0)
    start = Start(0, drawn.problem.start, float(grid.loss_index(drawn.problem.initial_loss)), 0.0)
    plenty = instance_of(drawn.problem, drawn.costs, drawn.law, grid=grid)
    scarce = instance_of(drawn.problem, drawn.costs, drawn.law, grid=grid)
    scarce.most_labels = 1
    left, right = solve(plenty, start), solve(scarce, start)
    assert left.feasible == right.feasible
    if left.feasible:
        assert abs(left.energy_j - right.energy_j) < 1e-9
        assert right.exact
