"""Worlds: reproducible, with the formulas and spreads that the settings name."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from relaytrain.core.errors import InfeasibleError, UsageError
from relaytrain.core.state import State
from relaytrain.planners.pact.planner import Optimum
from relaytrain.scenario import load_scenario
from relaytrain.simulate import World, draw_world
from relaytrain.simulate.world_draws import WorldMode, default_modes

DRAWS = 120


@pytest.fixture(scope="module")
def scenario():
    return load_scenario("worlds")


@pytest.fixture(scope="module")
def slack(scenario) -> list[World]:
    return [draw_world(scenario, index, 11, "slack") for index in range(DRAWS)]


def arrays(world: World) -> list[np.ndarray]:
    law, seen = world.law, world.believed
    return [law.curves, law.jump0, seen.mult, seen.mult_robust, seen.jump0, world.luck.progress, world.costs.change_j]


def test_a_world_is_the_same_drawn_alone_or_after_others(scenario, slack):
    again = draw_world(scenario, 17, 11, "slack")
    assert again.problem == slack[17].problem
    assert all(np.array_equal(a, b) for a, b in zip(arrays(again), arrays(slack[17]), strict=True))
    other = draw_world(scenario, 17, 12, "slack")
    assert not np.array_equal(other.law.curves, again.law.curves)


def test_modes_share_truth_luck_and_errors(scenario, slack):
    for world in slack[:10]:
        given = draw_world(scenario, world.index, 11, "given")
        rows = min(given.epochs, world.epochs)
        assert given.problem.target.deadline_s == 50.0 != world.problem.target.deadline_s
        assert np.array_equal(given.luck.progress[:rows], world.luck.progress[:rows])
        assert np.array_equal(given.believed.mult_robust, world.believed.mult_robust)
        tight, perfect = (draw_world(scenario, world.index, 11, name) for name in ("tight", "perfect-tight"))
        assert tight.problem == perfect.problem
        assert np.array_equal(tight.law.curves, perfect.law.curves)


def test_figures_lie_in_their_ranges(slack):
    for world in slack:
        a, b, s, alpha = world.law.curves.T
        assert (a <= np.array([0.30, 0.12, 0.0]) * 1.15 + 1e-12).all() and (a >= np.array([0.30, 0.12, 0]) * 0.8).all()
        assert np.allclose(a + b, 1.0)
        assert (s <= np.array([1.5, 5, 30]) * 1.3).all() and (s >= np.array([1.5, 5, 30]) * 0.7).all()
        assert (alpha >= 1.25 * 0.9).all() and (alpha <= 1.25 * 1.15).all()
        jump = world.law.jump0
        assert 0.005 <= jump[0, 1] <= 0.03 and 0.005 <= jump[1, 2] <= 0.03 and 0.04 <= jump[0, 2] <= 0.12
        assert world.law.jump1[0, 1] == 0.02 and world.law.jump1[0, 2] == 0.04
        assert 0.2 <= world.problem.target.loss <= 0.42
        assert world.costs.change_j[0, 1] in (0.25, 0.5) and world.costs.change_s[0, 1] == world.costs.change_j[0, 1]
        back = world.costs.change_j[np.tril_indices(3, -1)]
        assert np.isfinite(back).all() if world.reversible else np.isinf(back).all()
        ratio = world.believed.mult_robust / world.believed.mult
        assert ((ratio >= 0.6) & (ratio <= 0.85)).all()
        assert np.allclose(world.believed.jump0_robust, 1.3 * world.believed.jump0)
    assert {world.reversible for world in slack} == {True, False}


def test_spreads_are_those_of_the_settings(slack):
    """Means and standard deviations within four standard errors."""
    bias = np.concatenate([world.believed.mult[0] for world in slack])
    jumps = np.array([world.believed.jump0[0, 1] / world.law.jump0[0, 1] for world in slack])
    noise = np.concatenate([world.luck.progress.ravel() for world in slack])
    for sample, spread in ((bias, 0.12), (jumps, 0.2), (noise, 0.15)):
        count = len(sample)
        assert abs(sample.mean() - 1.0) < 4 * spread / math.sqrt(count)
        assert abs(sample.std() - spread) < 4 * spread / math.sqrt(2 * count)


def test_deadlines_follow_from_the_optimum_and_the_quickest_way(scenario):
    for index in range(6):
        for name in ("slack", "tight"):
            world = draw_world(scenario, index, 5, name)
            target = world.problem.target
            free = replace(world.problem, target=replace(target, deadline_s=math.inf))
            start = State(0, 1.0, 0.0, 0)
            cheapest = Optimum(explained=False).plan(free, world.costs, world.law, start)
            timed = replace(world.costs, run_j=world.costs.run_s, change_j=world.costs.change_s)
            quickest = Optimum(explained=False).plan(free, timed, world.law, start).elapsed_s
            if name == "slack":
                # Of several cheapest relays the quickest one counts: at its duration the energy is still the same.
                optimal_s = (target.deadline_s - 5.0) / 1.6
                assert optimal_s <= cheapest.elapsed_s + 1e-9
                bound = replace(world.problem, target=replace(target, deadline_s=optimal_s))
                same = Optimum(explained=False).plan(bound, world.costs, world.law, start)
                assert same.feasible and same.energy_j == pytest.approx(cheapest.energy_j)
            else:
                assert 1.1 * quickest <= target.deadline_s < cheapest.elapsed_s


def test_perfect_worlds_have_no_luck_and_no_error(scenario):
    world = draw_world(scenario, 3, 0, "perfect-tight")
    assert world.believed is world.law
    assert (world.luck.progress == 1.0).all() and not world.luck.shift.any() and not world.luck.delays


def test_a_scenario_without_ranges_is_its_own_truth():
    factory = load_scenario("smart_factory")
    world = draw_world(factory, 0, 0, "given")
    assert np.array_equal(world.law.curves, factory.law.curves)
    assert world.problem == factory.problem
    assert world.law.mult_robust is None
    # Without shading of its own the scenario's distance between robust and expected is kept.
    assert np.allclose(world.believed.mult_robust, 0.95 * world.believed.mult)
    assert default_modes(factory) == ("given", "perfect-given")
    toy = draw_world(load_scenario("fig5"), 1, 0, "given")
    assert toy.lucky_law.run.shape[0] == toy.epochs
    assert np.allclose(toy.lucky_law.run, toy.law.run[0] * toy.luck.progress)


def test_modes_are_words():
    assert WorldMode.named("tight-irreversible") == WorldMode("tight-irreversible", "tight", False, False)
    assert WorldMode.named("perfect") == WorldMode("perfect", "given", None, True)
    for wrong in ("tigth", "slack-tight", "", "slack-slack"):
        with pytest.raises(UsageError, match="slack"):
            WorldMode.named(wrong)


def test_a_target_out_of_reach_is_said():
    factory = load_scenario("smart_factory", overrides=["target.loss=0.15"])
    single = replace(factory, law=replace(factory.law, curves=factory.law.curves + np.array([0.3, 0.0, 0.0, 0.0])))
    with pytest.raises(InfeasibleError, match="cannot reach"):
        draw_world(single, 0, 0, "given")
