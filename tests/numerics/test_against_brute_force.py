"""The exact search against every path of small problems: infinite and zero costs, jumps by epoch, caps, the clamp."""

import math

import numpy as np
import pytest

from relaytrain.planners.search.solve import Start, instance_of, solve
from relaytrain.testing.brute_force import brute_force, plain_step
from relaytrain.testing.strategies import draw

SAME_ENERGY = 1e-6  # joules; sums of a few costs near 1
LONGEST = 9  # no drawn path has more epochs
BATCH = 30


def start_of(drawn):
    state = drawn.state
    return Start(state.epoch, state.pair, state.loss, state.elapsed_s)


def replayed(drawn, actions):
    """Loss, seconds and joules at the end of a path, in scalar arithmetic."""
    state, costs = drawn.state, drawn.costs
    loss, seconds, joules, pair = state.loss, state.elapsed_s, 0.0, state.pair
    for position, now in enumerate(actions):
        loss = plain_step(drawn.law, state.epoch + 1 + position, loss, pair, now)
        seconds += costs.change_s[pair, now] + costs.run_s[now]
        joules += costs.change_j[pair, now] + costs.run_j[now]
        pair = now
    return loss, seconds, joules


@pytest.mark.parametrize("kind", ["epoch", "level"])
@pytest.mark.parametrize("batch", range(10))
def test_least_energy_of_all_paths(kind, batch):
    feasible = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        drawn = draw(np.random.default_rng([seed, kind == "level"]), kind)
        best = brute_force(drawn.problem, drawn.costs, drawn.law, drawn.state, most_epochs=LONGEST)
        found = solve(instance_of(drawn.problem, drawn.costs, drawn.law), start_of(drawn))
        where = f"draw(default_rng([{seed}, {kind == 'level'}]), {kind!r})"
        assert found.exact, where
        assert found.feasible == best.feasible, where
        if not best.feasible:
            continue
        feasible += 1
        assert found.energy_j == pytest.approx(best.energy_j, abs=SAME_ENERGY, rel=0), where
        assert found.bound_j <= found.energy_j
        loss, seconds, joules = replayed(drawn, found.actions)
        assert loss <= drawn.problem.target.loss + 1e-9 + 1e-12
        assert seconds <= drawn.problem.target.deadline_s + 1e-9 + 1e-12
        assert joules == pytest.approx(found.energy_j, abs=SAME_ENERGY, rel=0)
        cap = drawn.problem.max_epochs
        assert cap is None or drawn.state.epoch + len(found.actions) <= cap
    assert 0 < feasible < BATCH  # both answers are exercised


@pytest.mark.parametrize("kind", ["epoch", "level"])
def test_larger_draws(kind):
    for seed in range(20):
        drawn = draw(np.random.default_rng([99, seed]), kind, pairs=(4, 5), epochs=8)
        best = brute_force(drawn.problem, drawn.costs, drawn.law, drawn.state, most_epochs=10)
        found = solve(instance_of(drawn.problem, drawn.costs, drawn.law), start_of(drawn))
        assert found.feasible == best.feasible, seed
        if best.feasible:
            assert found.energy_j == pytest.approx(best.energy_j, abs=SAME_ENERGY, rel=0), seed


def test_a_run_behind_its_cost_table_still_has_its_epochs():
    """The deadline bounds the epochs still to come, not those already done."""
    drawn = draw(np.random.default_rng([37, False]), "epoch")
    late = Start(50, drawn.state.pair, drawn.state.loss, drawn.state.elapsed_s)
    assert drawn.problem.max_epochs is None
    assert solve(instance_of(drawn.problem, drawn.costs, drawn.law), late).feasible


def test_a_target_below_every_floor_without_deadline_is_declared_at_once():
    drawn = draw(np.random.default_rng([360, True]), "level")
    assert math.isinf(drawn.problem.target.deadline_s)
    found = solve(instance_of(drawn.problem, drawn.costs, drawn.law), start_of(drawn))
    assert (found.feasible, found.exact, found.labels) == (False, True, 0)


def test_stepping_stones_high_above_the_start():
    """Five changes in a row, each raising the loss by 3, before a pair that pays it all back."""
    from relaytrain.core.cost import CostTable
    from relaytrain.core.law import EpochLaw
    from relaytrain.core.problem import Pair, Problem, Target
    from relaytrain.core.state import State

    ahead = np.full((6, 6), np.inf)
    np.fill_diagonal(ahead, 0.0)
    ahead[np.arange(5), np.arange(1, 6)] = 3.0
    law = EpochLaw(np.array([[0.0, 0.5, 0.5, 0.5, 0.5, -9.0]]), ahead[None])
    costs = CostTable(np.ones(6), np.zeros((6, 6)), np.ones(6), np.zeros((6, 6)))
    problem = Problem("stones", tuple(Pair(f"v{i}", "n") for i in range(6)), 0, 1.0, Target(0.1, 100.0))
    best = brute_force(problem, costs, law, State(0, 1.0, 0.0, 0), most_epochs=9)
    found = solve(instance_of(problem, costs, law), Start(0, 0, 1.0, 0.0))
    assert best.actions == (1, 2, 3, 4, 5, 5)
    assert found.actions == best.actions
