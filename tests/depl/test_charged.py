"""Charges for data in every epoch, as (2) prints: against every plan tried in turn, and booked as planned."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest
from instances import cheapest, random_instance

import relaytrain
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.planners.depl.exact.brute_force import brute_force
from relaytrain.planners.depl.exact.joint import plan
from relaytrain.scenario import load_scenario

SEEDS = range(120 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 8)


def charged_every_epoch(seed):
    """Two datasets or one, charges that weigh about as much as the resources do; every fourth one infinite."""
    instance, random = random_instance(seed, epochs=3), np.random.default_rng(5000 + seed)
    charges = random.uniform(0, 12, instance.charges.shape)
    if seed % 4 == 0 and charges.size > 1:
        charges[tuple(random.integers(0, size) for size in charges.shape)] = math.inf
    objective = "usage" if seed % 3 == 0 else "rate"
    return replace(instance, charges=charges, charged="every-epoch", objective=objective)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_tried_in_turn_is_cheaper(seed):
    instance = charged_every_epoch(seed)
    found, least = plan(instance), cheapest(instance)
    assert found.feasible == math.isfinite(least)
    if found.feasible:
        assert found.cost == pytest.approx(least, rel=1e-6)
        assert found.dual_bound <= found.cost
        assert brute_force(instance).cost == pytest.approx(least, rel=1e-6)


def charging(charged):
    """The stand-in for AlexNet with a charge for its data."""
    return load_scenario("depl_alexnet", ["depl.charges=[{charge = 3.0}]", f"depl.charged='{charged}'"]).depl


def test_an_epoch_is_booked_as_it_was_planned():
    once, every = charging("once"), charging("every-epoch")
    nodes = once.instance.node_sets[0].name
    decision = Decision(2, once.instance.versions[0].name, nodes)
    before = (EpochOutcome(replace(decision, epoch=1), 1.0, 1.0, 1.0),)
    bare = replace(once, instance=replace(once.instance, charges=np.zeros_like(once.instance.charges)))
    price = bare.run(decision)[1]
    assert once.run(decision)[1] == once.run(decision, ())[1] == pytest.approx(price + 3.0)
    assert once.run(decision, before)[1] == pytest.approx(price)
    assert every.run(decision)[1] == every.run(decision, before)[1] == pytest.approx(price + 3.0)


@pytest.mark.parametrize("charged", ["once", "every-epoch"])
def test_plans_and_costs_count_what_is_booked(charged):
    changes = ["depl.charges=[{charge = 3.0}]", f"depl.charged='{charged}'", "target.loss=13"]
    scenario, bare = load_scenario("depl_alexnet", changes), load_scenario("depl_alexnet", ["target.loss=13"])
    made = relaytrain.plan(scenario, planner="depl")
    booked, history = 0.0, []
    for decision in made.decisions:
        price = scenario.depl.run(decision, history)[1]
        booked += price
        history.append(EpochOutcome(decision, 1.0, 1.0, price))
    assert booked == pytest.approx(made.energy_j, rel=1e-9)
    each = 3.0 if charged == "every-epoch" else 0.0
    assert scenario.costs.run_j == pytest.approx(bare.costs.run_j + each)
    assert (scenario.costs.first is None) == (charged == "every-epoch")
