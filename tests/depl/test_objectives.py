"""Energy as the objective, data that cannot be brought, and planning on: all against every plan tried in turn."""

import math
from dataclasses import replace

import numpy as np
import pytest
from instances import cheapest, random_instance, spent

from relaytrain.core.depl import DeplNodeSet
from relaytrain.core.errors import UsageError
from relaytrain.planners.depl import allocation
from relaytrain.planners.depl.allocation import allocate
from relaytrain.planners.depl.exact.joint import plan

SAME = 1e-6


def in_joules(instance, seed):
    """The instance by energy: links draw power and held resources go on drawing some of theirs."""
    random = np.random.default_rng(1000 + seed)
    node_sets = tuple(
        replace(c, link_power=random.uniform(0, 40), waiting=random.choice([0.0, 0.3, 1.0])) for c in instance.node_sets
    )
    return replace(instance, node_sets=node_sets, objective="usage", charges=instance.charges * 0.1)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_uses_less_energy(seed):
    instance = in_joules(random_instance(seed, epochs=3), seed)
    found, least = plan(instance), cheapest(instance)
    assert found.feasible == math.isfinite(least)
    if found.feasible:
        assert found.cost == pytest.approx(least, rel=SAME)
        assert found.dual_bound <= found.cost
        volume = instance.volume(found.datasets)
        rows = [
            (instance.versions[m].work * volume, instance.versions[m].size, instance.node_sets[n])
            for m, n in zip(found.versions, found.node_sets, strict=True)
        ]
        charge = instance.data_charge(found.datasets)[list(set(found.node_sets))].sum()
        assert spent(rows, found.resources, "usage") + charge == pytest.approx(found.cost, rel=1e-9)


NODE_SETS = (
    DeplNodeSet("a", 100, 4, 1.3, 30.0, 0.5),
    DeplNodeSet("b", 50, 6, 0.8, 10.0),
    DeplNodeSet("c", 70, 0.9, 0.7, 0.0, 0.0),
)


@pytest.mark.parametrize("stretch", [1.02, 1.5, 4.0])
def test_sixty_epochs_of_energy_stay_near_their_bound(stretch):
    epochs = [(2.6, 0.5)] * 20 + [(1.4, 0.25)] * 20 + [(1.0, 0.1)] * 20
    least = sum(min(c / n.capability + s / n.bandwidth for n in NODE_SETS) for c, s in epochs)
    found = allocate(epochs, NODE_SETS, stretch * least, [0.0] * 3, objective="usage")
    assert found.elapsed_s <= stretch * least + 1e-9
    assert found.dual_bound <= found.cost <= found.dual_bound * 1.002  # whole epochs: there is a true gap


def test_without_waiting_links_full_resources_are_best():
    node_sets = tuple(replace(c, waiting=0.0) for c in NODE_SETS)
    found = allocate([(2.0, 0.1)] * 4, node_sets, 3.0, [0.0] * 3, objective="usage")
    assert found.resources == pytest.approx([node_sets[n].capability for n in found.node_sets])
    assert found.cost == pytest.approx(4 * min(c.price * 2.0 + c.link_power * 0.1 / c.bandwidth for c in node_sets))


def test_close_enough_stops_early(monkeypatch):
    """Within 1 + epsilon of the bound the first answer will do; otherwise all assignments are tried."""
    epochs = [(2.6, 0.5)] * 3 + [(1.4, 0.25)] * 3
    best = allocate(epochs, NODE_SETS, 0.9, [5.0, 3.0, 0.0])
    monkeypatch.setattr(allocation, "_assignments", lambda counts, node_sets: pytest.fail("tried them all"))
    near = allocate(epochs, NODE_SETS, 0.9, [5.0, 3.0, 0.0], within=0.05)
    assert best.cost * (1 - 1e-12) <= near.cost <= 1.05 * near.dual_bound
    with pytest.raises(pytest.fail.Exception):
        allocate(epochs, NODE_SETS, 0.9, [5.0, 3.0, 0.0])


def test_many_clusters_with_charges_still_find_the_ones_that_pay(monkeypatch):
    random = np.random.default_rng(2)
    node_sets = [
        DeplNodeSet(f"n{i}", random.uniform(40, 120), random.uniform(5, 60), random.uniform(0.7, 1.5)) for i in range(9)
    ]
    epochs, charge = [(2.6, 0.5)] * 2 + [(1.4, 0.25)] * 2, random.uniform(0, 60, 9)
    least = allocate(epochs, node_sets, 0.35, charge).cost
    monkeypatch.setattr(allocation, "EXHAUSTIVE", 0)
    assert allocate(epochs, node_sets, 0.35, charge).cost == pytest.approx(least, rel=SAME)


@pytest.mark.parametrize("seed", range(60, 68))
def test_data_that_cannot_be_brought_is_not(seed):
    instance = random_instance(seed, epochs=3, most=3)
    closed = np.random.default_rng(seed).uniform(size=instance.charges.shape) < 0.4
    instance = replace(instance, charges=np.where(closed, math.inf, instance.charges))
    found, least = plan(instance), cheapest(instance)
    assert found.feasible == math.isfinite(least)
    assert not found.feasible or found.cost == pytest.approx(least, rel=SAME)


@pytest.mark.parametrize("seed", range(6))
def test_planning_on_counts_epochs_and_the_switch(seed):
    instance = random_instance(seed, epochs=3, most=1)
    later = replace(instance, epochs_done=4, before=0, initial_loss=instance.target.loss + 0.9)
    found, least = plan(later), cheapest(later)
    assert found.feasible == math.isfinite(least)
    if not found.feasible:
        return
    assert found.cost == pytest.approx(least, rel=SAME)
    drop, jump = 0.0, instance.switches[0][1]
    before = 0
    for k, m in enumerate(found.versions, start=5):
        version = instance.versions[m]
        drop += instance.data_gain([0]) * version.gain / math.sqrt(k + version.offset) * version.noise.mean
        drop -= jump.mean if m != before else 0.0
        before = m
    assert found.mean == pytest.approx(later.initial_loss - drop, abs=1e-8)  # losses below 0 count as 0


def test_what_makes_no_sense_is_refused():
    instance = random_instance(1)
    with pytest.raises(UsageError, match="objective: got 'wealth', expected one of rate, usage"):
        replace(instance, objective="wealth")
    with pytest.raises(UsageError, match="negative"):
        replace(instance, charges=instance.charges - 1.0)
    with pytest.raises(UsageError, match="capability > 0"):
        DeplNodeSet("a", 0.0, 1.0, 1.0)
    with pytest.raises(UsageError, match="work > 0"):
        replace(instance.versions[0], work=0.0)
