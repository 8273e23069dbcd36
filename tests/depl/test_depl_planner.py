"""DepL as a planner: what its plans state, against the stored optimum, closed forms and plain sampling."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from depl_cases import instance_from

import relaytrain as rt
from relaytrain.cli.app import main
from relaytrain.core.dependence import Dependence, NoiseBelief, NoisePast, sure
from relaytrain.core.distribution import Normal
from relaytrain.planners.depl.exact.dependent_epochs import plan_dependent
from relaytrain.planners.depl.exact.joint import plan
from relaytrain.planners.depl.exact.sampled_paths import Paths
from relaytrain.planners.depl.planner import Depl
from relaytrain.scenario import load_scenario

CASES = Path(__file__).parent.parent / "conformance" / "cases" / "depl"
LOOSE = ("target.loss=13",)
SMALL = ("target.loss=17", "target.max_epochs=12", "target.probability=0.9")


def case(name):
    return json.loads((CASES / f"{name}.json").read_text())


def test_resources_within_a_share_of_their_bound():
    """The paper's 1 + epsilon, from the scenario: never dearer than that over the bound, nor cheaper than the best."""
    best = rt.plan("depl_alexnet", overrides=["target.loss=13"])
    loose = rt.plan("depl_alexnet", overrides=["target.loss=13", "depl.within=0.05"])
    assert best.energy_j * (1 - 1e-9) <= loose.energy_j <= 1.05 * loose.bound_j


@pytest.mark.parametrize("preset", ["depl_digits", "depl_mobilenet"])
def test_expected_losses_are_those_of_losses_that_end_at_zero(preset):
    """Sampled epoch by epoch; digits' additive losses go far below zero, the other's never."""
    made, instance = rt.plan(preset), load_scenario(preset).depl.instance
    chosen = instance.all_data
    if made.decisions[0].datasets:
        names = [data.name for data in instance.datasets]
        chosen = tuple(names.index(name) for name in made.decisions[0].datasets)
    versions = [next(m for m, v in enumerate(instance.versions) if v.name == d.version) for d in made.decisions]
    rng, losses, samples = np.random.default_rng(4), instance.initial_loss, 20_000
    gain, before = instance.data_gain(chosen), versions[0]
    for k, (m, expected) in enumerate(zip(versions, made.losses, strict=True), start=1):
        version = instance.versions[m]
        losses = losses - gain * version.progress(k) * version.noise.sample(rng, samples)
        if m != before:
            losses = losses + instance.switches[before][m].sample(rng, samples)
        before, counted = m, np.maximum(losses, 0.0)
        assert expected == pytest.approx(counted.mean(), abs=4.0 * counted.std() / math.sqrt(samples) + 1e-4)
    assert (losses.mean() < 0.0) == (preset == "depl_digits")


def test_data_alone_is_judged_with_that_data():
    """Whatever the order in which the scenario names its data, and with dependent epochs too."""
    changes = ("target.loss=1.5", "target.probability=0.6", "target.max_epochs=4", "depl.dependence.correlation=0.3")
    loaded = load_scenario("depl_digits", overrides=changes)
    whole = loaded.depl.instance
    sized = tuple(replace(data, volume=v) for data, v in zip(whole.datasets, (5.0, 3.0, 4.0), strict=True))

    def alone(*order):
        instance = replace(whole, datasets=tuple(sized[at] for at in order))
        planner = Depl(replace(loaded.depl, instance=instance))
        made = planner.plan(loaded.problem, loaded.costs, loaded.law, loaded.problem.first_state)
        return {other for other in made.alternatives if other.name.endswith("as the only data")}

    shown = alone(0, 1, 2)
    assert len(shown) == 2 and alone(1, 2, 0) == shown


def test_who_chooses_no_data_says_what_bringing_it_costs():
    charged = rt.plan("depl_digits", planner="pact", rule="adaptive")
    assert any("6 J more, which pact" in words for words in charged.warnings)
    assert not any("bringing the data" in words for words in rt.plan("depl_digits").warnings)


def test_the_preset_is_the_stored_case_and_its_plan_the_stored_optimum():
    loaded, stored = load_scenario("depl_alexnet", overrides=LOOSE), case("alexnet_q13")
    want = instance_from(stored)
    have = loaded.depl.instance
    assert have.versions == want.versions and have.switches == want.switches
    assert [(c.capability, c.price) for c in have.node_sets] == [(c.capability, c.price) for c in want.node_sets]
    assert (have.initial_loss, have.target) == (want.initial_loss, want.target)
    made = rt.plan("depl_alexnet", overrides=LOOSE)
    assert made.met and made.energy_j == pytest.approx(stored["expected"]["cost"], rel=1e-6)
    assert [(leg.version, leg.epochs) for leg in made.legs] == [("intermediate", 16)]


def test_a_plan_states_what_plans_state():
    made = rt.plan("depl_alexnet", overrides=LOOSE)
    assert made.probability >= 0.99 and dict(made.probabilities) == {"independent epochs": made.probability}
    assert made.losses[-1] < made.guaranteed[-1] <= 13.0 + 1e-9
    assert all(a <= b for a, b in zip(made.losses, made.guaranteed, strict=True))
    assert made.energies_j[-1] == pytest.approx(made.energy_j) and made.times_s[-1] == pytest.approx(2.0)
    assert made.bound_j <= made.energy_j * (1 + 1e-12) and made.energy_unit == "cost"
    assert [d.resources for d in made.decisions] == [pytest.approx(1.4 * 16 / 2 / 100)] * 16
    costs = {a.name: a.energy_j for a in made.alternatives}
    assert all(cost >= made.energy_j for cost in costs.values())
    assert costs["best-exp-greedy"] / made.energy_j == pytest.approx(1.226, abs=1e-3)
    plain = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert plain["decisions"][0]["resources"] == pytest.approx(0.112) and plain["probabilities"]


def test_planning_on_asks_for_the_rest_only():
    loaded = load_scenario("depl_alexnet", overrides=LOOSE)
    first = rt.plan(loaded, planner=Depl(loaded.depl, explained=False))
    at = rt.State(
        8, first.losses[7], first.times_s[7], loaded.problem.index(first.decisions[7].pair), first.energies_j[7]
    )
    rest = rt.plan(loaded, planner=Depl(loaded.depl, explained=False), state=at)
    assert rest.decisions[0].epoch == 9 and rest.met
    assert rest.times_s[-1] <= 2.0 + 1e-9
    assert len(rest.decisions) <= 8  # eight epochs less to be afraid of
    done = rt.plan(loaded, planner=Depl(loaded.depl), state=replace(at, loss=12.9))
    assert done.met and done.decisions == ()


def test_an_impossible_target_shows_the_best_effort_and_the_nearest(capsys):
    call = ["plan", "depl_alexnet", "--set", "target.loss=14", "--set", "target.max_epochs=8", "--format", "json"]
    assert main(call) == 4
    told = json.loads(capsys.readouterr().out)
    assert not told["met"] and told["decisions"] and told["nearest"]
    for near in told["nearest"]:
        loss, deadline = near["loss"] + 1e-9, near["deadline_s"] + 1e-9
        changed = ("target.max_epochs=8", f"target.loss={loss}", f"target.deadline={deadline}")
        assert rt.plan("depl_alexnet", overrides=changed).met


def test_a_lower_probability_is_offered_before_giving_up():
    made = rt.plan("depl_alexnet", overrides=("target.loss=14.2", "target.max_epochs=9"))
    assert made.feasible and not made.met and 0.5 <= made.rung < 0.99
    assert made.probability >= made.rung


def test_lost_nodes_are_not_planned_on():
    loaded = load_scenario("depl_alexnet", overrides=("target.loss=15",))
    gone = replace(
        loaded.costs, run_s=np.where([p.nodes == "A" for p in loaded.problem.pairs], math.inf, loaded.costs.run_s)
    )
    made = Depl(loaded.depl, explained=False).plan(loaded.problem, gone, loaded.law, rt.State(0, 20.0, 0.0, 0))
    assert made.met and {leg.nodes for leg in made.legs} == {"B"}


@pytest.mark.parametrize("dependence", [Dependence(0.6, 0.0), Dependence(0.0, 0.6)], ids=str)
def test_normal_noise_under_dependence_has_a_closed_form(dependence):
    loaded = load_scenario("depl_alexnet", overrides=SMALL)
    start = loaded.depl.instance
    instance = replace(start, versions=tuple(replace(m, noise=Normal(m.noise.mean, 0.2)) for m in start.versions))
    versions = (0, 0, 0, 0, 0)
    steps = np.array([float(instance.versions[0].progress(k)) for k in range(1, 6)])
    spread = 0.2 * math.sqrt(steps @ dependence.matrix(range(5), versions) @ steps)
    mean = 20.0 - 1.02 * steps.sum()
    wanted = 0.5 * math.erfc(-(instance.target.loss - mean) / spread / math.sqrt(2))
    assert Paths(instance, sure(dependence)).probability((0,), versions) == pytest.approx(wanted, abs=0.01)


def test_counting_dependence_in_costs_more_and_holds_on_fresh_paths():
    loaded = load_scenario("depl_alexnet", overrides=(*SMALL, "depl.dependence.common=0.8"))
    settings = loaded.depl
    ignored = plan(settings.instance)
    made = rt.plan(loaded, planner=Depl(settings, explained=False))
    assert made.met and made.energy_j > ignored.cost
    fresh = Paths(settings.instance, settings.belief, samples=40_000, seed=77)
    versions = [settings.version(d.version) for d in made.decisions]
    assert fresh.probability((0,), versions) >= 0.9 - 0.006
    assert fresh.probability(ignored.datasets, ignored.versions) < 0.9 - 0.006
    told = dict(made.probabilities)
    assert told["independent epochs"] > told["correlation 0, common 0.8"] >= 0.9


def test_what_the_run_has_shown_narrows_what_is_to_be_feared():
    settings = load_scenario("depl_alexnet", overrides=SMALL).depl
    belief = sure(Dependence(0.0, 0.8))
    rest = replace(
        settings.instance,
        initial_loss=18.5,
        epochs_done=2,
        before=1,
        max_epochs=10,
    )
    slow, fast = (plan_dependent(rest, belief, NoisePast((1, 2), (1, 1), (z, z))) for z in (-2.0, 2.0))
    unknown = plan_dependent(rest, belief)
    assert fast.cost < unknown.cost < slow.cost


def test_independence_is_the_default_and_stays_exact():
    assert load_scenario("depl_alexnet").depl.belief == NoiseBelief()
