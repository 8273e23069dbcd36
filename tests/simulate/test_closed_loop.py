"""The closed loop: its books, the optimum it is measured against, and perfect predictions."""

from __future__ import annotations

import itertools
import math

import pytest

from relaytrain.core.errors import UsageError
from relaytrain.planners.pact.baselines import OneSwitch
from relaytrain.scenario import load_scenario
from relaytrain.simulate import World, draw_world, run_rule
from relaytrain.simulate.clairvoyant import clairvoyant, labelled

pytestmark = pytest.mark.slow

WEATHER = ["world.loss_noise=0.004", "world.compute_spread=0.1", "world.transfer_spread=0.3"]
QUICK_RULES = ("true", "adaptive", "robust", "expected", "one-switch", "static-learn", "single")


@pytest.fixture(scope="module")
def scenario():
    return load_scenario("worlds")


@pytest.fixture(scope="module")
def stormy():
    return load_scenario("worlds", overrides=WEATHER)


def booked(world: World, actions: tuple[int, ...]) -> tuple[float, float, float]:
    """Loss, seconds and joules of a path, re-added with the formulas of the level law in plain numbers."""
    loss, elapsed, energy, before = world.problem.initial_loss, 0.0, 0.0, world.problem.start
    luck = world.luck
    for row, now in enumerate(actions):
        if now != before:
            loss += world.law.jump0[before, now] + world.law.jump1[before, now] * loss
            elapsed += world.costs.change_s[before, now] * luck.transfer[row, now]
            energy += world.costs.change_j[before, now]
        a, b, s, alpha = world.law.curves[now]
        if loss > a:
            position = s * (((loss - a) / b) ** (-1.0 / alpha) - 1.0)
            after = a + b * (1.0 + (position + 1.0) / s) ** -alpha
            loss += luck.progress[row, now] * (after - loss)
        loss = max(loss + luck.shift[row, now], 0.0)
        elapsed += world.costs.run_s[now] * luck.compute[row, now]
        energy += world.costs.run_j[now]
        before = now
    return loss, elapsed, energy


@pytest.mark.parametrize("rule", [*QUICK_RULES, "sampled", "fixed"])
def test_the_books_agree_with_the_actions(stormy, rule):
    worlds = ((0, "tight"),) if rule == "sampled" else itertools.product(range(3), ("slack", "tight"))
    for index, mode in worlds:
        world = draw_world(stormy, index, 2, mode)
        outcome = run_rule(world, rule)
        loss, elapsed_s, energy_j = booked(world, outcome.actions)
        assert outcome.loss == pytest.approx(loss, abs=1e-12)
        assert outcome.elapsed_s == pytest.approx(elapsed_s)
        assert outcome.energy_j == pytest.approx(energy_j)
        target = world.problem.target
        assert outcome.met == (loss <= target.loss + 1e-9 and elapsed_s <= target.deadline_s + 1e-9)
        before = (world.problem.start, *outcome.actions)[: len(outcome.actions)]
        assert outcome.switches == sum(a != b for a, b in zip(before, outcome.actions, strict=True))
        if not outcome.actions:  # a baseline that found no plan of its kind
            assert rule in ("one-switch", "static-learn", "single") and not outcome.met
            continue
        # No epoch after the target is met, none begun after the deadline.
        loss, elapsed_s, _ = booked(world, outcome.actions[:-1])
        assert loss > target.loss and elapsed_s <= target.deadline_s + 1e-9


def test_the_same_actions_meet_the_same_luck(scenario):
    world = draw_world(scenario, 1, 0, "slack")
    one, other = run_rule(world, "adaptive"), run_rule(world, "literal")
    state, twin = world.problem.first_state, world.problem.first_state
    for first, second in zip(one.actions, other.actions, strict=False):
        if first != second:
            break
        state, twin = world.step(state, first), world.step(twin, second)
        assert state == twin
    assert run_rule(world, "adaptive").actions == one.actions


@pytest.mark.parametrize("mode", ["perfect-slack", "perfect-tight"])
@pytest.mark.parametrize("way", ["reversible", "irreversible"])
def test_perfect_predictions_give_the_optimum(scenario, mode, way):
    """Property 3 in closed loop."""
    for index in range(4):
        world = draw_world(scenario, index, 4, f"{mode}-{way}")
        best = clairvoyant(world)
        for rule in ("true", "adaptive", "robust", "expected"):
            outcome = run_rule(world, rule)
            assert outcome.met and outcome.energy_j == pytest.approx(best.energy_j, abs=1e-9), (index, rule)


def test_perfect_predictions_under_an_epoch_law():
    world = draw_world(load_scenario("fig5"), 0, 0, "perfect")
    for rule in ("adaptive", "sampled"):  # a law without curves has no worlds: by levels
        assert run_rule(world, rule).energy_j == pytest.approx(clairvoyant(world).energy_j)


def test_sampled_is_near_the_optimum_where_predictions_are_perfect(scenario):
    """Its schedules have round numbers of epochs, which re-planning refines."""
    for index, mode in itertools.product(range(3), ("perfect-slack", "perfect-tight")):
        world = draw_world(scenario, index, 4, mode)
        outcome, best = run_rule(world, "sampled"), clairvoyant(world)
        assert outcome.met and best.energy_j - 1e-9 <= outcome.energy_j <= 1.02 * best.energy_j, (index, mode)


def test_no_rule_beats_the_clairvoyant_optimum(scenario):
    for index, mode in itertools.product(range(5), ("slack", "tight")):
        world = draw_world(scenario, index, 6, mode)
        best = clairvoyant(world)
        for rule in QUICK_RULES:
            outcome = run_rule(world, rule)
            if outcome.met and best.exact:
                assert best.energy_j <= outcome.energy_j + 1e-9


def test_the_two_ways_to_the_clairvoyant_optimum_agree(scenario):
    compared = 0
    for index, mode in itertools.product(range(8), ("slack", "tight")):
        world = draw_world(scenario, index, 8, mode)
        if world.lucky_law.monotone:
            compared += 1
            assert labelled(world).energy_j == pytest.approx(clairvoyant(world).energy_j)
    assert compared >= 4


def walked(world: World, epochs: int) -> float:
    """The least energy over all sequences of at most `epochs` pairs."""
    best = math.inf
    pending = [world.problem.first_state]
    while pending:
        state = pending.pop()
        if world.met(state):
            best = min(best, state.energy_j)
            continue
        if world.late(state) or state.epoch == epochs or state.energy_j >= best:
            continue
        for now in range(len(world.problem.pairs)):
            if math.isfinite(world.costs.epoch_j[state.pair, now]):
                pending.append(world.step(state, now))
    return best


def test_the_clairvoyant_optimum_under_delays_equals_all_paths_walked():
    """Short deadlines, so that every sequence of pairs can be walked."""
    toy = load_scenario("fig5", overrides=["world.loss_noise=0.02", *WEATHER[1:]])
    reachable = 0
    for index in range(12):
        world = draw_world(toy, index, 3, "given")
        longest = math.ceil(1.5 / float(world.seconds.min())) + 1
        best = walked(world, min(longest, 9))
        assert clairvoyant(world).energy_j == pytest.approx(best)
        reachable += math.isfinite(best)
    assert reachable >= 6


def test_baselines_follow_their_first_plan(scenario):
    world = draw_world(scenario, 2, 0, "slack")
    planned = OneSwitch().plan(world.problem, world.costs, world.believed, world.problem.first_state)
    path = [world.problem.index(decision.pair) for decision in planned.decisions]
    done = run_rule(world, "one-switch").actions
    assert list(done[: len(path)]) == path[: len(done)]
    assert set(done[len(path) :]) <= {path[-1]}


def test_an_unknown_rule_is_named(scenario):
    with pytest.raises(UsageError, match=r"got 'adaptve'.*adaptive"):
        run_rule(draw_world(scenario, 0, 0, "slack"), "adaptve")
