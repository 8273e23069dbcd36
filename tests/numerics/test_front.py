"""The trade-off of energy, deadline and loss against every path of small problems."""

import math

import numpy as np
import pytest

from relaytrain.planners.front import front
from relaytrain.testing.brute_force import brute_force, plain_step
from relaytrain.testing.strategies import draw


def outcomes(drawn):
    """(loss, seconds, joules) of every path up to the target, whatever it costs."""
    costs, target, state = drawn.costs, drawn.problem.target, drawn.state
    last = drawn.problem.max_epochs or 9
    found = []

    def walk(epoch, pair, loss, elapsed, energy):
        found.append((loss, elapsed, energy))
        if loss <= target.loss + 1e-9 or epoch == last:
            return
        for now in range(len(drawn.problem.pairs)):
            late, spent = elapsed + costs.epoch_s[pair, now], energy + costs.epoch_j[pair, now]
            landed = plain_step(drawn.law, epoch + 1, loss, pair, now)
            if late <= target.deadline_s + 1e-9 and math.isfinite(late + spent + landed):
                walk(epoch + 1, now, landed, late, spent)

    walk(state.epoch, state.pair, state.loss, state.elapsed_s, 0.0)
    return np.array(found)


@pytest.mark.parametrize("kind", ["epoch", "level"])
def test_no_path_beats_the_front(kind):
    for seed in range(25):
        drawn = draw(np.random.default_rng([21, seed, kind == "level"]), kind, pairs=(2, 3), epochs=5)
        if not drawn.law.monotone:
            continue
        every = outcomes(drawn)
        found = front(drawn.problem, drawn.costs, drawn.law, drawn.state)
        rows = np.column_stack([found.loss, found.time_s, found.energy_j])
        goal = drawn.problem.target.loss + 1e-9
        for loss, seconds, joules in every:
            loss = max(loss, goal)  # below the target is as good as at it
            better = (rows[:, 0] <= loss + 1e-6) & (rows[:, 1] <= seconds + 1e-6) & (rows[:, 2] <= joules + 1e-6)
            assert better.any(), (seed, loss, seconds, joules)
        best = brute_force(drawn.problem, drawn.costs, drawn.law, drawn.state, most_epochs=9)
        reached = found.energy_j[found.loss <= goal]
        assert (len(reached) > 0) == best.feasible
        if best.feasible:
            assert reached.min() == pytest.approx(best.energy_j, abs=1e-6)


def test_no_outcome_lies_beyond_a_barred_change():
    """Without a deadline too: seconds without end are none that one can wait for."""
    drawn = draw(np.random.default_rng([77, 34]), "epoch")
    assert math.isinf(drawn.problem.target.deadline_s) and np.isinf(drawn.costs.epoch_s).any()
    outcomes_kept = front(drawn.problem, drawn.costs, drawn.law, drawn.state)
    assert np.isfinite(outcomes_kept.time_s).all() and np.isfinite(outcomes_kept.energy_j).all()
