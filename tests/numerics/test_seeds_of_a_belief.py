"""What a plan may state by the number of seeds that its belief was fitted to: n / (n + 1) of what its worlds say."""

from dataclasses import replace

import numpy as np
import pytest
from test_world_walk import drawn, plainly

import relaytrain as rt
from relaytrain import api
from relaytrain.core.state import State
from relaytrain.planners.pact.sampled import Sampled, best_schedule
from relaytrain.planners.pact.schedules import Walker, schedules_from

START = State(0, 2.3, 0.0, 0)


def asking(scenario: api.Scenario, **figures: float) -> api.Scenario:
    """The scenario with another target."""
    problem = replace(scenario.problem, target=replace(scenario.problem.target, **figures))
    return replace(scenario, problem=problem)


@pytest.mark.parametrize("seeds", [6, 30])
def test_what_is_stated_is_what_sampling_says_but_for_seeds_unlike_all_others(seeds):
    scenario, worlds = drawn(1)
    scenario = asking(scenario, deadline_s=90.0)
    best = best_schedule(scenario.problem, scenario.costs, replace(worlds, seeds=seeds), START)
    assert best is not None
    _, met = plainly(scenario, worlds, tuple((pair, min(count, 400)) for pair, count in best.legs), 90.0, 7)
    assert best.probability == pytest.approx(met.mean() * seeds / (seeds + 1), abs=0.01)


@pytest.mark.parametrize("asked", [0.5, 0.7, 0.8, 0.9, 0.95])
def test_what_was_asked_is_chosen_where_a_schedule_states_it(asked):
    scenario, worlds = drawn(2, count=96)
    for deadline_s in (40.0, 55.0, 70.0, 600.0):
        problem = asking(scenario, probability=asked, deadline_s=deadline_s).problem
        best = best_schedule(problem, scenario.costs, replace(worlds, seeds=30), START)
        walker = Walker(problem, scenario.costs, worlds, START)  # the worlds alone, of all schedules
        stated = (1.0 - walker.follow(schedules_from(walker, 0), len(worlds))[1]) * 30 / 31
        assert best is not None and best.probability <= 30 / 31
        if stated.max() >= asked + 0.01:
            assert best.probability >= asked


def test_more_seeds_are_never_less_sure_and_none_said_is_as_sure_as_the_worlds():
    scenario, worlds = drawn(3)
    many = [replace(worlds, seeds=seeds) for seeds in (20, 99, 10**6, None)]
    found = [best_schedule(scenario.problem, scenario.costs, each, START) for each in many]
    stated = [best.probability for best in found if best is not None]
    assert stated == sorted(stated) and stated[-1] == pytest.approx(stated[-2], abs=1e-5)


def test_too_few_seeds_are_said_with_how_many_would_do():
    few = rt.plan("quickstart", overrides=["prior.seeds=5"])
    assert not few.met and few.feasible and few.probability <= 5 / 6 and few.nearest == ()
    (words,) = few.warnings
    assert "fitted to 5 seeds" in words and "83.3%" in words and "for 90% it takes about" in words
    assert words in few.explain() and "relaytrain atlas" in words
    needed = int(words.partition("takes about ")[2].split()[0].replace(",", ""))
    assert rt.plan("quickstart", overrides=[f"prior.seeds={needed + 1}"]).met
    assert not rt.plan("quickstart", overrides=[f"prior.seeds={needed // 2}"]).met
    late = rt.plan("quickstart", overrides=["prior.seeds=5", "target.deadline=60s"])
    assert "it takes more than 9 (" in late.warnings[0]
    assert not rt.plan("quickstart", overrides=["prior.seeds=40", "target.deadline=60s"]).warnings, "time is short"
    enough = rt.plan("quickstart", overrides=["prior.seeds=1000"])
    assert enough.met and not enough.warnings
    same = [(leg.version, leg.nodes) for leg in few.legs] == [(leg.version, leg.nodes) for leg in enough.legs]
    assert same, "no schedule changes how many seeds there were, so it decides nothing"


def test_one_seed_is_no_reason_to_call_a_target_out_of_reach():
    plan = rt.plan("quickstart", overrides=["prior.seeds=1"])
    assert plan.feasible and 0.4 < plan.probability <= 0.5 and "1 seed," in plan.warnings[0]


def test_a_target_in_reach_is_so_with_the_seeds_counted():
    tight = ["prior.seeds=40", "target.deadline=60s"]
    plan = rt.plan("quickstart", overrides=tight)
    assert not plan.met and plan.nearest
    for nearest in plan.nearest:
        figures = [f"target.deadline={nearest.deadline_s * (1 + 1e-9)}s", f"target.loss={nearest.loss * (1 + 1e-9)}"]
        again = rt.plan("quickstart", overrides=["prior.seeds=40", *figures])
        assert again.probability >= plan.asked - 0.02


def test_worlds_keep_their_seeds_when_some_are_chosen_or_widened():
    _, worlds = drawn(4)
    known = replace(worlds, seeds=8)
    assert known.only(np.arange(4)).coverage == known.widened(2.0).coverage == 8 / 9 and worlds.coverage == 1.0
    plan = Sampled().plan(*_asked_of(drawn(4)[0]), START, known)
    assert plan.probability <= 8 / 9


def _asked_of(scenario: api.Scenario):
    return scenario.problem, scenario.costs, scenario.law


@pytest.mark.parametrize("seeds", ["0", "1.5", "-3", "many"])
def test_seeds_are_a_whole_number(seeds):
    with pytest.raises(rt.ScenarioError, match=r"prior\.seeds"):
        api.scenario("quickstart", overrides=[f"prior.seeds={seeds}"])
