"""PACT over worlds of DepL's increments: against plain sampling, and with what bringing data costs."""

import math
from dataclasses import replace

import numpy as np
import pytest

import relaytrain as rt
from relaytrain import api
from relaytrain.core.law_json import costs_from_json, costs_to_json
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.core.state import State
from relaytrain.estimators.choose import estimator_for
from relaytrain.planners.pact import sampled, schedules
from relaytrain.planners.pact.schedules import Walker
from relaytrain.relay.steering import Steering

pytestmark = pytest.mark.slow

QUARTER = (0.0533, 0.1955, 0.5189, 0.5534, 0.2902, 0.1596, 0.0947, 0.069, 0.0509, 0.0373, 0.0307, 0.0271, 0.02, 0.016,
           0.013, 0.01)  # fmt: skip
"""Gains of the preset's version "quarter", written out."""
ALL_DATA = -0.34 + 0.967 * math.log(4.0)
EPOCH_S = 58 * 3 / 200 + 0.11 / 10
"""Of "quarter" on A: (1)."""
A_EPOCH_J, CHARGE_J = 0.010 * 58 * 3 + 0.5 * 0.11 / 10, 6.0
SAMPLING = 0.06
"""Of 256 worlds and of the curve's interpolation."""


def at_30_s(*more: str) -> api.Scenario:
    return api.scenario("depl_digits", overrides=["target.deadline=30s", *more])


def walker(scenario: api.Scenario, count: int = 256) -> Walker:
    worlds = estimator_for(scenario).sample((), scenario.problem.pairs, count, 1)
    return Walker(scenario.problem, scenario.costs, worlds, State(0, 2.3, 0.0, scenario.problem.start))


def index(scenario: api.Scenario, name: str) -> int:
    return [str(pair) for pair in scenario.problem.pairs].index(name)


@pytest.mark.parametrize("reading", ["epoch", "level"])
def test_without_doubt_a_world_is_the_versions_own_curve(reading):
    still = [f"depl.versions.{i}.variance=0" for i in range(3)]
    scenario = at_30_s(f'depl.reading="{reading}"', *still)
    trails, _ = schedules.trails_of(walker(scenario, 4), ((index(scenario, "quarter on A"), 12),))
    expected = 2.3 - ALL_DATA * np.cumsum(QUARTER)[:12]
    assert np.allclose(trails[:, :12, 2], expected, atol=1e-9)


@pytest.mark.parametrize("deadline", [15.5, 16.5])
def test_the_stated_probability_is_that_of_plain_sampling(deadline):
    plan = rt.plan("depl_digits", planner="pact", rule="sampled", overrides=[f"target.deadline={deadline}s"])
    assert {str(decision.pair) for decision in plan.decisions} == {"quarter on A"}
    rng, samples, variance = np.random.default_rng(5), 20_000, 0.035
    sigma = math.sqrt(math.log(1.0 + variance))
    levels = 2.3 - ALL_DATA * np.concatenate(([0.0], np.cumsum((*QUARTER, *(0.01,) * 14))))
    loss, met = np.full(samples, 2.3), np.zeros(samples, bool)
    for _ in range(int(deadline / EPOCH_S)):
        gain = np.interp(-loss, -levels[:-1], ALL_DATA * np.array((*QUARTER, *(0.01,) * 14)))
        loss = loss - gain * np.exp(sigma * rng.standard_normal(samples) - sigma**2 / 2)
        met |= loss <= 0.15
    assert plan.probability == pytest.approx(met.mean(), abs=SAMPLING)


def test_data_is_paid_for_once_by_node_set():
    scenario = at_30_s("target.loss=0.001")
    on_a, on_b = index(scenario, "quarter on A"), index(scenario, "quarter on B")
    energy, _ = walker(scenario).follow(schedules.packed([((on_a, 2), (on_b, 1), (on_a, 3))]), 256)
    b_epoch_j = float(scenario.costs.run_j[on_b])
    assert energy[0] == pytest.approx(5 * A_EPOCH_J + b_epoch_j + 2 * CHARGE_J)


def test_a_plan_counts_the_data_and_says_so_no_more():
    plan = rt.plan("depl_digits", planner="pact", rule="sampled", overrides=["target.deadline=30s"])
    assert plan.met and not plan.warnings and plan.energies_j[0] == pytest.approx(A_EPOCH_J + CHARGE_J)
    assert plan.energies_j[1] - plan.energies_j[0] == pytest.approx(A_EPOCH_J)
    assert "does not count" in " ".join(rt.plan("depl_digits", planner="pact", rule="adaptive").warnings)


def test_a_run_pays_what_it_has_not_paid_yet():
    scenario = at_30_s()
    steering = Steering(scenario.problem, scenario.costs, estimator_for(scenario), sampled.Sampled(), scenario.law)
    on_a, on_b = index(scenario, "full on A"), index(scenario, "half on B")
    assert steering.table().first.joules[[on_a, on_b]].tolist() == [CHARGE_J, CHARGE_J]
    steering.tell(EpochOutcome(Decision(1, "quarter", "A"), 2.2, 1.0, 1.0))
    assert steering.table().first.joules[[on_a, on_b]].tolist() == [0.0, CHARGE_J]
    assert replace(steering, learn_costs=True, _table=None).table().first is None
    again = costs_from_json(costs_to_json(steering.table()))
    assert np.array_equal(again.first.joules, steering.table().first.joules)
    assert again.first.group.tolist() == steering.table().first.group.tolist()


def test_nodes_that_data_cannot_be_brought_to_are_left_out():
    scenario = at_30_s('depl.charges=[{nodes="A", charge=inf}]')
    found = walker(scenario)
    every = schedules.schedules_from(found, scenario.problem.start)
    pairs = {int(pair) for pair in np.unique(every.pairs) if pair >= 0}
    assert {scenario.problem.pairs[pair].nodes for pair in pairs} == {"B"}


def test_where_nothing_arrives_in_time_the_quickest_is_gone_on_with():
    plan = rt.plan("depl_digits", planner="pact", rule="sampled", overrides=["target.deadline=11s"])
    assert not plan.feasible and {str(decision.pair) for decision in plan.decisions} == {"quarter on A"}
    assert plan.elapsed_s <= 11.0 and plan.losses[-1] < 0.3


def test_the_same_seed_draws_the_same_worlds():
    scenario = at_30_s("depl.dependence.correlation=0.5", "depl.dependence.common=0.3")
    estimator = estimator_for(scenario)
    history = (EpochOutcome(Decision(1, "full", "A"), 2.0, 1.0, 1.0),)
    one, again, other = (estimator.sample(history, scenario.problem.pairs, 32, seed) for seed in (3, 3, 4))
    assert np.array_equal(one.table.factors, again.table.factors) and np.array_equal(one.jump0, again.jump0)
    assert not np.array_equal(one.table.factors, other.table.factors)
