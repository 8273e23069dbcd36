"""Data of each cluster's own as a planner: what it decides, what that costs, how sure it is, booked by hand."""

import math

import pytest

import relaytrain
from relaytrain.core.distribution import weighted_sum
from relaytrain.core.outcome import EpochOutcome
from relaytrain.planners.depl.procedures import plan_by
from relaytrain.scenario import load_scenario

PRESET = "depl_placement"


def test_each_cluster_trains_on_its_own_data():
    shared, own = (relaytrain.plan(PRESET, planner=name) for name in ("depl", "depl-per-cluster"))
    assert own.feasible and own.energy_j < 0.6 * shared.energy_j
    held = {(d.nodes, d.datasets) for d in own.decisions}
    assert held == {("west", ("cameras", "phones")), ("east", ("phones",))}


def test_it_is_booked_as_planned_and_as_sure_as_its_epochs():
    scenario = load_scenario(PRESET)
    settings, made = scenario.depl, relaytrain.plan(PRESET, planner="depl-per-cluster")
    history = []
    for decision in made.decisions:
        seconds, price = settings.run(decision, history)
        history.append(EpochOutcome(decision, 1.0, seconds, price))
    assert sum(o.energy_j for o in history) == pytest.approx(made.energy_j, rel=1e-9)
    assert sum(o.elapsed_s for o in history) == pytest.approx(made.elapsed_s, rel=1e-9)
    terms = []
    for k, decision in enumerate(made.decisions, start=1):
        volume = sum({"cameras": 1.2, "phones": 0.4}[name] for name in decision.datasets)
        version = settings.instance.versions[settings.version(decision.version)]
        gain = 0.7 + 0.35 * math.log1p(volume)
        terms.append((-gain * version.gain / math.sqrt(k), version.noise))
        if k > 1 and made.decisions[k - 2].version != decision.version:
            terms.append((1.0, settings.instance.jump(0, 1)))
    loss = weighted_sum(terms, 5.0)
    assert made.probability == pytest.approx(loss.cdf(1.3), abs=1e-7) and made.probability >= 0.9
    assert made.guaranteed[-1] == pytest.approx(loss.quantile(0.9), abs=1e-6)


def test_compare_shows_it():
    rows = relaytrain.compare(PRESET).plans
    assert rows["depl-per-cluster"].energy_j < rows["depl"].energy_j
    settings = load_scenario(PRESET).depl
    assert rows["depl-per-cluster"].energy_j == pytest.approx(plan_by("per-cluster", settings.instance).cost)
