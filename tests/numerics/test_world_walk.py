"""Schedules over worlds against plain sampling, and the rule `sampled` against trying all schedules."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import relaytrain as rt
from relaytrain import api
from relaytrain.core.state import State
from relaytrain.core.worlds import Worlds
from relaytrain.planners.pact import sampled, schedules
from relaytrain.planners.pact.sampled import Sampled, best_schedule
from relaytrain.planners.pact.schedules import Walker, schedules_from
from relaytrain.planners.search import world_walk

LUCK = 4_000


def drawn(seed: int, count: int = 24, pairs: int = 3) -> tuple[api.Scenario, Worlds]:
    """Random worlds over the quickstart's pairs; only three of them can be run."""
    scenario = api.scenario("quickstart")
    rng = np.random.default_rng(seed)
    pairs = len(scenario.problem.pairs)
    curves = np.empty((count, pairs, 4))
    curves[:, :, 0] = rng.uniform(0.1, 0.3, (count, pairs))
    curves[:, :, 1] = 2.0
    curves[:, :, 2] = rng.uniform(5.0, 15.0, (count, pairs))
    curves[:, :, 3] = rng.uniform(1.0, 4.0, (count, pairs))
    jump0 = rng.uniform(-0.05, 0.1, (count, pairs, pairs))
    mult = rng.uniform(0.5, 1.0, (6, pairs))
    scatter = np.linspace(0.12, 0.03, 8)[None, :] * np.ones((pairs, 1))
    worlds = Worlds(
        curves, mult, jump0, np.zeros((pairs, pairs)), np.full(count, 2.3), scatter, np.ones((count, pairs))
    )
    return scenario, worlds


def plainly(scenario: api.Scenario, worlds: Worlds, legs: schedules.Legs, deadline_s: float, seed: int):
    """Energies and arrivals of a schedule, sampled epoch by epoch with drawn luck."""
    rng = np.random.default_rng(seed)
    costs, target = scenario.costs, scenario.problem.target.loss
    energies, met = [], []
    for world in range(len(worlds)):
        loss = np.full(LUCK, worlds.stands[world])
        spent, done, reached = np.zeros(LUCK), np.zeros(LUCK, bool), np.zeros(LUCK, bool)
        at, epoch, on_leg, elapsed = scenario.problem.start, 0, 0, 0.0
        for pair, count in legs:
            if pair != at:
                loss, on_leg = loss + worlds.jump0[world, at, pair], 0
            floor, drop, scale, power = worlds.curves[world, pair]
            for _ in range(count):
                elapsed += costs.epoch_s[at, pair]
                if elapsed > deadline_s:
                    done[:] = True
                if done.all():
                    break
                spent[~done] += costs.epoch_j[at, pair]
                at, epoch, on_leg = pair, epoch + 1, on_leg + 1
                mult = worlds.mult[min(epoch, len(worlds.mult)) - 1, pair]
                loss = floor + drop * (((loss - floor) / drop) ** (-1 / power) + mult / scale) ** -power
                spread = worlds.scatter[pair, min(on_leg, worlds.scatter.shape[1]) - 1]
                hit = ~done & (loss * np.exp(spread * rng.standard_normal(LUCK)) <= target)
                reached |= hit
                done |= hit
        energies.append(spent.mean())
        met.append(reached.mean())
    return np.array(energies), np.array(met)


@pytest.mark.parametrize("legs", [((0, 6), (3, 4), (5, 400)), ((0, 400),), ((0, 2), (3, 400))])
def test_a_schedule_costs_what_sampling_says(legs):
    scenario, worlds = drawn(1)
    deadline_s = 90.0
    problem = replace(scenario.problem, target=replace(scenario.problem.target, deadline_s=deadline_s))
    walker = Walker(problem, scenario.costs, worlds, State(0, 2.3, 0.0, 0))
    energy, missed = walker.follow(schedules.packed([legs]), len(worlds))
    energies, met = plainly(scenario, worlds, legs, deadline_s, 2)
    assert energy[0] == pytest.approx(energies.mean(), rel=0.01)
    assert 1.0 - missed[0] == pytest.approx(met.mean(), abs=0.01)


def test_a_leg_at_rest_is_summed_as_it_would_be_walked():
    scenario, worlds = drawn(3)
    problem = replace(scenario.problem, target=replace(scenario.problem.target, deadline_s=400.0, loss=0.14))
    walker = Walker(problem, scenario.costs, worlds, State(0, 2.3, 0.0, 0))
    legs = ((0, 4), (3, 400))
    energy, missed = walker.follow(schedules.packed([legs]), len(worlds))
    trails, ends = schedules.trails_of(walker, legs)
    walked = [
        float((np.diff(trail[:end, 0], prepend=0.0) * trail[:end, 1]).sum())
        for trail, end in zip(trails, ends, strict=True)
    ]
    assert energy[0] == pytest.approx(np.mean(walked), rel=5e-3)
    assert missed[0] == pytest.approx(trails[:, -1, 1].mean(), abs=5e-3)


@pytest.mark.parametrize("seed", range(4))
def test_rounds_with_few_worlds_lose_little(seed):
    scenario, worlds = drawn(seed, count=128)
    state = State(0, 2.3, 0.0, 0)
    best = best_schedule(scenario.problem, scenario.costs, worlds, state)
    assert best is not None
    walker = Walker(scenario.problem, scenario.costs, worlds, state)
    energy, missed = walker.follow(schedules_from(walker, 0), len(worlds))
    enough = missed <= 1.0 - scenario.problem.target.probability
    assert best.energy_j <= 1.02 * energy[enough].min()
    assert best.probability >= scenario.problem.target.probability


def test_where_nothing_is_sure_enough_the_surest_is_taken():
    energy, missed = np.array([5.0, 9.0, 7.0, 1.0]), np.array([0.31, 0.30, 0.305, 0.6])
    assert schedules.ranked(energy, missed, 0.9)[0] == 0  # as sure as the surest but for a hair, and cheapest
    assert schedules.ranked(energy, missed, 0.69)[0] == 0
    assert schedules.ranked(energy, missed, 0.3)[0] == 3


def test_a_plan_states_one_probability_and_an_interval():
    plan = rt.plan("quickstart", rule="sampled")
    low_j, high_j = plan.energy_interval_j
    assert plan.met and plan.sure == plan.probability >= plan.asked == plan.rung and low_j < plan.energy_j < high_j
    assert plan.to_dict()["energy_interval_j"] == [low_j, high_j] and plan.planner == "pact/sampled"
    said = plan.explain()
    assert said.count("% sure to reach") == 1 and "in 8 of 10" in said and "with 90% probability" not in said
    assert rt.plan("quickstart") == plan, "a scenario with a belief is decided over worlds"
    assert rt.plan("quickstart", rule="adaptive").planner == rt.plan("smart_factory").planner == "pact/adaptive"


def test_what_cannot_be_had_is_said_with_what_can():
    plan = rt.plan("quickstart", rule="sampled", overrides=["target.deadline=40s"])
    assert not plan.met and plan.probability < plan.asked
    for nearest in plan.nearest:
        later = [f"target.deadline={nearest.deadline_s * (1 + 1e-9)}s", f"target.loss={nearest.loss * (1 + 1e-9)}"]
        assert rt.plan("quickstart", rule="sampled", overrides=later).probability >= plan.asked - 0.02
    assert len(plan.nearest) == 2 and math.isfinite(plan.nearest[0].deadline_s)


def test_a_law_without_curves_is_planned_by_levels():
    plan = rt.plan("epoch_example", rule="sampled")
    assert sampled.NO_CURVES in plan.warnings and plan.energy_j == rt.plan("epoch_example").energy_j


def test_worlds_of_a_law_are_its_levels():
    scenario = api.scenario("smart_factory")
    state = scenario.problem.first_state
    plan = Sampled().plan(scenario.problem, scenario.costs, scenario.law, state)
    exact = rt.plan("smart_factory", planner="optimum")
    assert plan.feasible and plan.energy_j >= 0.9 * exact.energy_j


def spent_by(scenario: api.Scenario, legs: schedules.Legs, deadline_s: float) -> float:
    """Joules of a schedule whose target is never met, epoch by epoch."""
    at, spent, elapsed = scenario.problem.start, 0.0, 0.0
    for pair, count in legs:
        for _ in range(min(count, 1_000)):
            elapsed += scenario.costs.epoch_s[at, pair]
            if elapsed > deadline_s:
                return spent
            spent, at = spent + scenario.costs.epoch_j[at, pair], pair
    return spent


def test_the_interval_of_the_energy_counts_what_a_run_that_misses_goes_over_to():
    scenario, worlds = drawn(1, count=128)
    problem = replace(scenario.problem, target=replace(scenario.problem.target, loss=0.2, deadline_s=60.0))
    state = State(0, 2.3, 0.0, 0)
    best = best_schedule(problem, scenario.costs, worlds, state)
    assert best is not None and 0.2 < best.probability < 0.85, "more miss than lie above the interval"
    near = best.missed <= best.missed.min() + schedules.NEAR + 1e-9
    spent = [spent_by(scenario, best.runners_up.legs(int(index)), 60.0) for index in np.flatnonzero(near)]
    plan = Sampled(len(worlds)).plan(problem, scenario.costs, scenario.law, state, worlds)
    assert plan.energy_interval_j is not None
    assert plan.energy_interval_j[1] == pytest.approx(max(spent)) and max(spent) > spent_by(scenario, best.legs, 60.0)


def test_few_seeds_widen_the_energy_as_they_lower_the_probability():
    scenario, worlds = drawn(1, count=128)
    problem = replace(scenario.problem, target=replace(scenario.problem.target, loss=0.32, deadline_s=600.0))
    ends = []
    for seeds in (None, 100, 20, 8):
        taken = replace(worlds, seeds=seeds)
        plan = Sampled(len(worlds)).plan(problem, scenario.costs, scenario.law, State(0, 2.3, 0.0, 0), taken)
        assert plan.energy_interval_j is not None
        ends.append(plan.energy_interval_j)
    lows, highs = zip(*ends, strict=True)
    assert len(set(lows)) == 1 and list(highs) == sorted(highs) and highs[2] > highs[0]
    assert highs[3] > 5.0 * highs[2], (
        "nine in ten are more than eight seeds speak for: a run that misses is one of them"
    )


@pytest.mark.parametrize("goal", [0.05, 0.12, 0.2, 0.28, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_not_looked_at_far_from_the_target_changes_no_bit(goal, seed, monkeypatch):
    scenario, worlds = drawn(seed, count=12)
    worlds = replace(worlds, scatter=worlds.scatter * 0.4, early=np.full((len(scenario.problem.pairs), 3), 0.02))
    problem = replace(scenario.problem, target=replace(scenario.problem.target, loss=goal, deadline_s=400.0))
    walker = Walker(problem, scenario.costs, worlds, State(0, 2.3, 0.0, 0))
    ways = ((0, 12), (3, 40), (5, 10_000)), ((0, 10_000),), ((0, 2), (3, 10_000))
    looked, walks, no_trail = Counter[bool](), [], np.empty((0, 3))
    plain = world_walk.surely_far.py_func

    def counted(*arguments):
        looked[plain(*arguments) > 1.0] += 1
        return plain(*arguments)

    for far in (counted, lambda *_: 0.0):
        monkeypatch.setattr(world_walk, "surely_far", far)
        rows = [map(np.array, zip(*legs, strict=True)) for legs in ways for _ in range(len(worlds))]
        walks.append(
            [
                world_walk.walk.py_func(i % len(worlds), worlds.arrays, walker.start, *row, walker.terms, no_trail)
                for i, row in enumerate(rows)
            ]
        )
    assert walks[0] == walks[1] and looked[True]
    energy, missed = walker.follow(schedules.packed([((0, 10_000),)]), len(worlds))
    spent, left, _ = np.mean(walks[1][len(worlds) : 2 * len(worlds)], axis=0)
    assert energy[0] == pytest.approx(spent, rel=1e-12) and missed[0] == pytest.approx(left, rel=1e-12)
