"""Property 3 of PACT: with exact predictions, following PACT in closed loop costs what the optimum costs."""

import numpy as np
import pytest

from relaytrain.planners.pact.planner import Pact
from relaytrain.testing.brute_force import brute_force, plain_step
from relaytrain.testing.strategies import draw

SAME_ENERGY = 1e-6
LONGEST = 9
BATCH = 32


def follow(planner, drawn):
    """Plan, do the first decision, plan again; the joules spent, None when declared infeasible."""
    state, costs = drawn.state, drawn.costs
    for _ in range(LONGEST + 1):
        plan = planner.plan(drawn.problem, costs, drawn.law, state)
        if not plan.feasible:
            return None
        if not plan.decisions:
            return state.energy_j
        before, now = state.pair, drawn.problem.index(plan.decisions[0].pair)
        state = type(state)(
            state.epoch + 1,
            plain_step(drawn.law, state.epoch + 1, state.loss, before, now),
            state.elapsed_s + float(costs.epoch_s[before, now]),
            now,
            state.energy_j + float(costs.epoch_j[before, now]),
        )
    raise AssertionError("the run did not end")


@pytest.mark.parametrize("rule", ["adaptive", "robust"])
@pytest.mark.parametrize("kind", ["epoch", "level"])
@pytest.mark.parametrize("batch", range(5))
def test_closed_loop_equals_the_optimum(rule, kind, batch):
    planner = Pact(rule=rule, explained=False)
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        drawn = draw(np.random.default_rng([3, seed, kind == "level"]), kind)
        best = brute_force(drawn.problem, drawn.costs, drawn.law, drawn.state, most_epochs=LONGEST)
        spent = follow(planner, drawn)
        assert (spent is not None) == best.feasible, seed
        if best.feasible:
            assert spent == pytest.approx(best.energy_j, abs=SAME_ENERGY, rel=0), seed
