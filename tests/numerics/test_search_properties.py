"""What holds of the exact search whatever the problem: monotone in the target, blind to names, Bellman's equation."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relaytrain.core.law import tabulate
from relaytrain.core.state import Grid
from relaytrain.planners.search.solve import Start, instance_of, solve
from relaytrain.testing.brute_force import brute_force
from relaytrain.testing.strategies import problems

SLACK = 1e-9
EXAMPLES = 300 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 60
some = settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None)
GRID = Grid(0.05, 0.25, 1.5)


def start_of(drawn, grid=None):
    state = drawn.state
    if grid is None:
        return Start(state.epoch, state.pair, state.loss, state.elapsed_s)
    return Start(state.epoch, state.pair, float(grid.loss_index(state.loss)), float(grid.time_index(state.elapsed_s)))


def answer(drawn, grid=None, first=None):
    return solve(instance_of(drawn.problem, drawn.costs, drawn.law, grid=grid), start_of(drawn, grid), first)


@some
@given(problems(), st.floats(1.0, 2.0))
def test_a_looser_deadline_never_costs_more(drawn, factor):
    looser = drawn.with_target(deadline_s=drawn.problem.target.deadline_s * factor)
    assert answer(looser).energy_j <= answer(drawn).energy_j + SLACK


@some
@given(problems(), st.floats(0.0, 0.3))
def test_a_looser_loss_never_costs_more(drawn, more):
    looser = drawn.with_target(loss=drawn.problem.target.loss + more)
    assert answer(looser).energy_j <= answer(drawn).energy_j + SLACK


@some
@given(problems(), st.randoms(use_true_random=False))
def test_order_of_pairs_changes_nothing(drawn, random):
    order = list(range(len(drawn.problem.pairs)))
    random.shuffle(order)
    here, there = answer(drawn), answer(drawn.permuted(np.array(order)))
    assert here.feasible == there.feasible
    assert here.energy_j == there.energy_j or here.energy_j == pytest.approx(there.energy_j, abs=1e-9)


@some
@given(problems(pairs=(3, 4)))
def test_another_pair_never_costs_more(drawn):
    fewer = len(drawn.problem.pairs) - 1
    assume(drawn.state.pair < fewer)
    assert answer(drawn).energy_j <= answer(drawn.first_pairs(fewer)).energy_j + SLACK


@some
@given(problems())
def test_the_bound_holds(drawn):
    found = answer(drawn)
    assert found.bound_j <= found.energy_j
    assert not found.feasible or not found.exact or found.bound_j >= found.energy_j - 1e-6


@some
@given(problems(), st.integers(0, 3))
def test_a_prescribed_first_action_is_never_cheaper_and_one_is_as_cheap(drawn, position):
    whole = answer(drawn)
    assume(whole.actions)
    pairs = np.arange(len(drawn.problem.pairs))
    by_first = [answer(drawn, first=pairs == now) for now in pairs]
    assert all(found.energy_j >= whole.energy_j - SLACK for found in by_first)
    assert all(found.actions[0] == now for now, found in enumerate(by_first) if found.feasible)
    assert min(found.energy_j for found in by_first) == pytest.approx(whole.energy_j, abs=1e-9)


@some
@given(problems(capped=False, oddities=False), st.sampled_from([1, 2, 5]))
def test_a_finer_grid_is_never_worse_than_one_it_divides(drawn, parts):
    assume(drawn.law.monotone)
    fine = Grid(GRID.loss_step / parts, GRID.time_step_s / parts, GRID.loss_top)
    assert answer(drawn, fine).energy_j <= answer(drawn, GRID).energy_j + SLACK


@some
@given(problems(), st.sampled_from([None, GRID]))
def test_the_rest_of_a_best_path_is_a_best_path(drawn, grid):
    """Bellman: from every state on the way, warm tables or fresh ones, forwards or backwards in time."""
    warm = instance_of(drawn.problem, drawn.costs, drawn.law, grid=grid)
    start = start_of(drawn, grid)
    whole = solve(warm, start)
    assume(len(whole.actions) > 1)
    spots, left = [], whole.energy_j
    pair, elapsed = start.pair, start.elapsed_s
    for position, now in enumerate(whole.actions[:-1]):
        elapsed += float(warm.seconds[pair, now])
        left -= float(warm.joules[pair, now])
        pair = now
        spots.append((Start(start.epoch + position + 1, pair, whole.losses[position], elapsed), left))
    other = instance_of(drawn.problem, drawn.costs, drawn.law, grid=grid)
    for spot, energy in spots:
        fresh = solve(instance_of(drawn.problem, drawn.costs, drawn.law, grid=grid), spot)
        assert fresh.feasible
        assert fresh.energy_j == pytest.approx(energy, abs=1e-6)
        assert solve(warm, spot).energy_j == pytest.approx(energy, abs=1e-6)
    for spot, energy in reversed(spots):
        assert solve(other, spot).energy_j == pytest.approx(energy, abs=1e-6)
    assert solve(other, start).energy_j == pytest.approx(whole.energy_j, abs=1e-6)


@some
@given(problems(), st.floats(0.9, 1.3), st.integers(0, 3))
def test_warm_tables_answer_off_the_path_as_fresh_ones_do(drawn, factor, pair):
    warm = instance_of(drawn.problem, drawn.costs, drawn.law)
    start = start_of(drawn)
    solve(warm, start)
    aside = replace(start, loss=start.loss * factor, pair=pair % len(drawn.problem.pairs))
    fresh = solve(instance_of(drawn.problem, drawn.costs, drawn.law), aside)
    again = solve(warm, aside)
    assert again.feasible == fresh.feasible
    assert again.energy_j == fresh.energy_j or again.energy_j == pytest.approx(fresh.energy_j, abs=1e-9)


def after(law, epochs):
    """What the law says once so many epochs are done."""
    run, change = (table[min(epochs, len(table) - 1) :] for table in (law.run, law.change))
    return replace(law, run=run, change=change)


@some
@given(problems("epoch", epochs=6))
def test_a_foreign_law_in_tables_by_epoch_is_solved_exactly(drawn):
    epochs = max(len(drawn.law.run), len(drawn.law.change))
    pairs = len(drawn.problem.pairs)
    by_epoch = [tabulate(after(drawn.law, k), "expected", pairs=pairs, top=4.0, cells=64) for k in range(epochs)]
    law = replace(by_epoch[0], table=np.concatenate([one.table for one in by_epoch]))
    best = brute_force(drawn.problem, drawn.costs, law, drawn.state, most_epochs=8)
    found = solve(instance_of(drawn.problem, drawn.costs, law), start_of(drawn))
    assert found.feasible == best.feasible
    assert not best.feasible or math.isclose(found.energy_j, best.energy_j, abs_tol=1e-6)
