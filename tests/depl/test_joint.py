"""The joint search against every plan tried in turn, and what must hold of it whatever the instance."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import bisected, cheapest, random_instance

from relaytrain.core.depl import DeplNodeSet
from relaytrain.core.distribution import InverseGamma, Normal, StudentT
from relaytrain.planners.depl import allocation
from relaytrain.planners.depl.allocation import Allocator, allocate
from relaytrain.planners.depl.exact.joint import plan
from relaytrain.planners.depl.exact.version_search import VersionSearch
from relaytrain.planners.depl.paper.best_exp import best_expected, greedy_expected
from relaytrain.planners.depl.waterfill import slots_for

SEEDS = range(200 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 12)
SLACK = 1e-7
some = settings(max_examples=10 * len(SEEDS) // 12, derandomize=True, deadline=None, database=None)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_tried_in_turn_is_cheaper(seed):
    instance = random_instance(seed, epochs=3)
    found, least = plan(instance), cheapest(instance)
    assert found.feasible == math.isfinite(least)
    if found.feasible:
        assert found.cost == pytest.approx(least, rel=1e-6)
        assert found.probability >= instance.target.probability - 1e-9
        assert found.elapsed_s <= instance.target.deadline_s + 1e-9


def test_the_random_instances_are_of_both_sorts():
    feasible = [plan(random_instance(seed, epochs=3)).feasible for seed in SEEDS]
    assert 0.2 < np.mean(feasible) < 0.9


@some
@given(
    st.integers(0, 10_000), st.floats(0.0, 0.5), st.sampled_from(["loss", "probability", "deadline_s", "max_epochs"])
)
def test_a_looser_target_never_costs_more(seed, by, what):
    instance = random_instance(seed, epochs=5)
    target = instance.target
    looser = {
        "loss": replace(instance, target=replace(target, loss=target.loss + by)),
        "probability": replace(instance, target=replace(target, probability=target.probability * (1 - by))),
        "deadline_s": replace(instance, target=replace(target, deadline_s=target.deadline_s * (1 + by))),
        "max_epochs": replace(instance, max_epochs=instance.max_epochs + 1 + int(4 * by)),
    }[what]
    assert plan(looser).cost <= plan(instance).cost * (1 + SLACK)


@some
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_order_and_names_change_nothing(seed, random):
    instance = random_instance(seed, epochs=5)
    m, n, d = (
        random.sample(range(len(part)), len(part))
        for part in (instance.versions, instance.node_sets, instance.datasets)
    )
    other = replace(
        instance,
        versions=tuple(replace(instance.versions[i], name=f"x{i}") for i in m),
        switches=tuple(tuple(instance.switches[i][j] for j in m) for i in m),
        node_sets=tuple(replace(instance.node_sets[i], name=f"y{i}") for i in n),
        datasets=tuple(instance.datasets[i] for i in d),
        charges=instance.charges[np.ix_(d, n)],
    )
    here, there = plan(instance), plan(other)
    assert here.feasible == there.feasible
    assert here.cost == there.cost or here.cost == pytest.approx(there.cost, rel=1e-9)


@pytest.mark.parametrize("seed", range(40, 46))
def test_planning_by_the_mean_never_costs_less(seed):
    instance = random_instance(seed, epochs=5, most=1)
    found = plan(instance)
    for other in (best_expected(instance), greedy_expected(instance)):
        assert other.cost >= found.cost * (1 - SLACK)
        assert not other.feasible or other.probability >= instance.target.probability - 1e-9


@pytest.mark.parametrize("seed", range(50, 60))
def test_the_floor_lies_below_every_schedule(seed):
    instance = random_instance(seed, epochs=6)
    search = VersionSearch(instance, [0])
    found = search.best()
    assert found is None or search.floor() <= found.cost * (1 + 1e-12)


def test_a_target_already_met_needs_nothing():
    instance = random_instance(1)
    found = plan(replace(instance, target=replace(instance.target, loss=5.0)))
    assert found.feasible and found.cost == 0.0 and found.versions == ()


def test_noise_that_may_be_negative_is_searched_without_bisection():
    instance = random_instance(3, epochs=3, most=1)
    versions = tuple(replace(m, noise=Normal(m.noise.mean, 0.1)) for m in instance.versions)
    instance = replace(instance, versions=versions, target=replace(instance.target, loss=3.3, deadline_s=0.6))
    assert plan(instance).cost == pytest.approx(cheapest(instance), rel=1e-6)


def test_progress_without_noise_is_counted_exactly():
    instance = random_instance(3, epochs=3, most=1)
    still = tuple(replace(m, noise=InverseGamma(1.0, 0.0)) for m in instance.versions)
    switches = tuple(tuple(j and StudentT(j.location, 0.0, 5.0) for j in row) for row in instance.switches)
    best = max(still, key=lambda m: m.gain / math.sqrt(1 + m.offset))
    gain = instance.data_gain([0]) * best.gain / math.sqrt(1 + best.offset)
    for short, epochs in ((0.0, 1), (1e-6, 2)):
        target = replace(instance.target, loss=5.0 - gain - short, deadline_s=5.0)
        found = plan(replace(instance, versions=still, switches=switches, target=target))
        assert len(found.versions) >= epochs
        assert found.feasible


def test_impossible_switches_are_not_taken():
    instance = random_instance(5, epochs=4)
    never = replace(instance, switches=((None, None), (None, None)))
    search = VersionSearch(never, [0])
    assert [len(rows) for rows in search._structures] == [2, 0]


NODE_SETS = (DeplNodeSet("a", 100, 40, 1.3), DeplNodeSet("b", 50, 60, 0.8), DeplNodeSet("c", 70, 9, 0.7))


@pytest.mark.parametrize("charge", [(0.0, 0.0, 0.0), (20.0, 5.0, 1.0)])
@pytest.mark.parametrize("stretch", [1.05, 1.3, 2.5])
def test_the_multiplier_finds_what_trying_all_finds(monkeypatch, charge, stretch):
    epochs = [(2.6, 0.5)] * 3 + [(1.4, 0.25)] * 3 + [(1.0, 0.1)] * 4
    deadline = stretch * sum(min(c / n.capability + s / n.bandwidth for n in NODE_SETS) for c, s in epochs)
    everything = allocate(epochs, NODE_SETS, deadline, charge)
    monkeypatch.setattr(allocation, "EXHAUSTIVE", 0)
    near = allocate(epochs, NODE_SETS, deadline, charge)
    assert near.cost == pytest.approx(everything.cost, rel=1e-3)
    assert near.cost >= everything.cost * (1 - 1e-12)
    assert near.dual_bound <= everything.cost * (1 + 1e-12)
    rows = [(c, s, NODE_SETS[n]) for (c, s), n in zip(epochs, everything.node_sets, strict=True)]
    paid = sum(charge[n] for n in set(everything.node_sets))
    assert everything.cost == pytest.approx(paid + bisected(rows, deadline), rel=1e-9)


def test_sixty_epochs_stay_within_the_dual_bound():
    epochs = [(2.6, 0.5)] * 20 + [(1.4, 0.25)] * 20 + [(1.0, 0.1)] * 20
    node_sets = (*NODE_SETS, DeplNodeSet("d", 30, 80, 0.5))
    least = sum(min(c / n.capability + s / n.bandwidth for n in node_sets) for c, s in epochs)
    for stretch in (1.1, 1.5, 2.5):
        found = allocate(epochs, node_sets, stretch * least, [0.0] * 4)
        assert found.cost <= found.dual_bound * 1.0005
        assert found.elapsed_s <= stretch * least + 1e-9


def test_bounds_of_counts_lie_below_their_costs():
    allocator = Allocator(slots_for([(2.6, 0.5), (1.0, 0.1)], NODE_SETS), np.array([3.0, 0.0, 9.0]), 0.4)
    slopes, offsets = allocator.least(np.geomspace(0.1, 400, 60))
    for counts in ((1, 0), (2, 3), (0, 6), (4, 4)):
        lowest = (np.array(counts) @ slopes.transpose(0, 2, 1) + offsets).max(axis=1).min()
        assert lowest <= allocator.solve(counts)[0] * (1 + 1e-12)


def test_progress_of_another_power_is_searched_too():
    instance = random_instance(3, epochs=3, most=1)
    versions = tuple(replace(m, power=1.3) for m in instance.versions)
    instance = replace(instance, versions=versions, target=replace(instance.target, loss=3.6, deadline_s=0.6))
    assert plan(instance).cost == pytest.approx(cheapest(instance), rel=1e-6)
