"""Every way of planning by name: the paper's grid and outer loop, sweeps, certificates, data of each node set's own."""

import math
import os
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from dominance import certify
from instances import cheapest, cheapest_placed, paper_like, random_instance

from relaytrain.core.depl import DeplData, DeplNodeSet, DeplProblem, DeplVersion
from relaytrain.core.distribution import InverseGamma, StudentT, weighted_sum
from relaytrain.core.errors import UsageError
from relaytrain.core.problem import Target
from relaytrain.planners.depl.cumulants import third_cumulant
from relaytrain.planners.depl.exact.data_placement import plan_per_node_set
from relaytrain.planners.depl.exact.joint import plan
from relaytrain.planners.depl.exact.sweep import more_switches
from relaytrain.planners.depl.exact.version_search import VersionSchedule, VersionSearch
from relaytrain.planners.depl.paper.grid import GridSearch
from relaytrain.planners.depl.paper.outer_loop import select
from relaytrain.planners.depl.paper.proxy import NotSubmodular
from relaytrain.planners.depl.procedures import PROCEDURES, Options, plan_by
from relaytrain.planners.depl.solution import complete

SAME = 1e-6


@lru_cache
def solved(seed):
    """An instance and its best plan, whose cost another program agrees with."""
    instance = random_instance(seed, epochs=3)
    least = plan_by("brute-force", instance)
    assert least.cost == pytest.approx(cheapest(instance), rel=SAME)
    return instance, least


@pytest.mark.parametrize("seed", [0, 3, 7, 11])
@pytest.mark.parametrize("name", PROCEDURES)
@pytest.mark.filterwarnings("ignore::relaytrain.planners.depl.paper.proxy.NotSubmodular")
def test_every_procedure_keeps_its_promise_and_none_beats_brute_force(name, seed):
    instance, least = solved(seed)
    found = plan_by(name, instance, Options(eta=60))
    if name in ("joint", "sweep", "per-cluster", "brute-force"):
        assert found.feasible == least.feasible
    if not found.feasible:
        assert math.isinf(found.cost) and found.reason
        return
    assert found.probability >= instance.target.probability - 1e-9
    assert found.elapsed_s <= instance.target.deadline_s + 1e-9
    if name != "per-cluster":  # which may hold other data on each node set
        assert found.cost >= least.cost * (1 - SAME)
    if name in ("joint", "sweep"):
        assert found.cost == pytest.approx(least.cost, rel=SAME)


def test_unknown_names_and_large_problems_are_refused():
    with pytest.raises(UsageError, match="procedure: got 'guess', expected one of joint, sweep"):
        plan_by("guess", random_instance(0))
    with pytest.raises(UsageError, match=r"brute-force: got .* sequences"):
        plan_by("brute_force", paper_like("alexnet", 13.0))


@pytest.mark.parametrize(
    ("network", "loss", "eta", "reading", "ratio"),
    [
        ("alexnet", 13.0, 25, "merged", 2.034),
        ("alexnet", 13.0, 100, "merged", 1.0),
        ("alexnet", 13.0, 100, "literal", 1.668),
        ("mobilenet", 13.0, 200, "literal", 1.325),
    ],
)
def test_the_grid_costs_what_an_independent_one_did(network, loss, eta, reading, ratio):
    """Ratios to the optimum from another implementation of both readings."""
    instance = paper_like(network, loss)
    versions = next(GridSearch(instance, (0,), eta=eta, reading=reading).schedules())
    best = VersionSearch(instance, (0,), switches=2).best()
    assert complete(instance, (0,), versions).cost / best.cost == pytest.approx(ratio, abs=1e-3)


def test_a_coarse_literal_grid_finds_nothing():
    assert next(GridSearch(paper_like("alexnet", 13.0), (0,), eta=25, reading="literal").schedules(), None) is None


def poor_link():
    """The node set with the most resources has a link too slow for any epoch."""
    versions = (
        DeplVersion("full", 0.3, 1.4, 1.4, 0.0, InverseGamma(1.02, 0.03)),
        DeplVersion("half", 0.2, 1.0, 1.2, 1.0, InverseGamma(1.0, 0.01)),
    )
    jump = StudentT(0.05, 0.02, 5.0)
    node_sets = (DeplNodeSet("big", 120.0, 0.2, 1.0), DeplNodeSet("edge", 60.0, 80.0, 1.1))
    datasets = (DeplData("d0", 0.5), DeplData("d1", 0.8))
    target = Target(2.6, 0.6, 0.9)
    return DeplProblem(
        versions, ((None, jump), (jump, None)), node_sets, datasets, np.zeros((2, 2)), 5.0, target, 5, 0.7, 0.35
    )


def test_the_largest_cluster_taken_for_the_most_capable_blacklists_what_works():
    instance = poor_link()
    largest = plan_by("merged", instance, Options(capable="largest"))
    assert not largest.feasible
    assert "blacklisted 3 of 3" in largest.reason
    assert plan_by("merged", instance).feasible
    assert plan(instance).feasible


def test_a_choice_that_fails_is_blacklisted_and_the_next_one_taken():
    """The proxy's favourite cannot meet the target on a coarse literal grid, another choice can."""
    instance = poor_link()
    coarse = Options(eta=30)
    found = plan_by("literal", replace(instance, target=replace(instance.target, loss=3.1)), coarse)
    assert found.feasible


@pytest.mark.parametrize(("seed", "eta"), [pytest.param(2, 40, marks=pytest.mark.slow), (10, 40), (3, 20)])
def test_blacklisting_loses_a_choice_that_works_and_the_joint_search_keeps_it(seed, eta):
    """The best data by trying everything is the proxy's favourite too, but the rounded grid finds no schedule."""
    instance = random_instance(seed, epochs=4, most=3)
    favourite = select(instance, set())
    assert not list(GridSearch(instance, favourite, eta=eta, reading="literal").schedules())
    kept = plan(instance)
    assert kept.datasets == favourite
    assert kept.cost == pytest.approx(cheapest(instance), rel=SAME)
    alone = replace(
        instance, datasets=tuple(instance.datasets[d] for d in favourite), charges=instance.charges[list(favourite)]
    )
    assert plan_by("brute-force", alone).feasible
    paper = plan_by("literal", instance, Options(eta=eta))
    assert paper.feasible
    assert paper.datasets != favourite
    assert paper.cost > 1.2 * kept.cost


def test_choosing_data_by_the_proxy_warns_and_costs_no_less():
    instance = random_instance(13, epochs=4, most=3)
    instance = replace(
        instance,
        datasets=tuple(DeplData(f"d{i}", v) for i, v in enumerate((0.4, 0.6, 0.9))),
        charges=np.full((3, len(instance.node_sets)), 3.0),
        versions=tuple(replace(m, size=m.size * 20) for m in instance.versions),
        target=replace(instance.target, loss=3.0, deadline_s=6.0),
    )
    with pytest.warns(NotSubmodular):
        found = plan_by("proxy", instance)
    assert found.cost >= plan(instance).cost * (1 - SAME)


@pytest.mark.parametrize(("network", "loss"), [("alexnet", 9.0), ("alexnet", 5.0), ("mobilenet", 9.0)])
def test_the_sweep_finds_switches_that_the_search_may_not_use(network, loss):
    instance = paper_like(network, loss)
    few, enough = (VersionSearch(instance, (0,), switches=s) for s in (1, 2))
    swept = more_switches(few, few.best())
    assert swept.cost < few.best().cost
    assert swept.cost <= enough.best().cost * (1 + SAME)
    assert few.holds(swept.versions)


@pytest.mark.parametrize("seed", range(4))
def test_the_sweep_keeps_the_deadline_when_it_binds(seed):
    """From schedules without a switch to the best of all, with hardly more time than the quickest takes."""
    instance = random_instance(seed, epochs=7, most=1)
    instance = replace(instance, target=replace(instance.target, loss=3.0, deadline_s=5.0))
    quick = plan(instance)
    tight = replace(instance, target=replace(instance.target, deadline_s=quick_time(instance, quick) * 1.05))
    none = VersionSearch(tight, (0,), switches=0)
    none.switches = 0
    start, best = none.best(), plan(tight)
    if start is not None:
        swept = more_switches(none, start)
        assert math.isfinite(swept.cost)
        assert swept.cost == pytest.approx(best.cost, rel=5e-3)


def quick_time(instance, found):
    volume = instance.volume(found.datasets)
    rows = [instance.versions[m] for m in found.versions]
    return sum(min(m.work * volume / c.capability + m.size / c.bandwidth for c in instance.node_sets) for m in rows)


def test_the_certificate_holds_for_the_best_and_names_what_is_cheaper():
    instance = paper_like("mobilenet", 13.0)
    best = VersionSearch(instance, (0,), switches=2).best()
    proof = certify(instance, (0,), best)
    assert proof.holds and proof.complete
    assert 0.99 < proof.probability < 0.992
    dear = VersionSchedule((1,) * 20, VersionSearch(instance, (0,)).cost((1,) * 20))
    refuted = certify(instance, (0,), dear)
    assert not refuted.holds
    assert refuted.cheaper.cost < dear.cost
    assert complete(instance, (0,), refuted.cheaper.versions).feasible


def test_third_cumulants_are_those_of_the_distribution():
    one = InverseGamma(1.0, 0.01)
    skewness = 4 * math.sqrt(one.shape - 2) / (one.shape - 3)
    assert third_cumulant(one) == pytest.approx(skewness * one.variance**1.5, rel=0.02)
    assert third_cumulant(StudentT(0.1, 0.2, 5.0)) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("charged", ["once", "every-epoch"])
@pytest.mark.parametrize("seed", range(100) if os.environ.get("RELAYTRAIN_TIER") == "soak" else [1, 2, 5, 8])
def test_data_of_each_clusters_own_is_never_dearer_and_the_best_there_is(seed, charged):
    instance = replace(random_instance(seed, epochs=2), charged=charged)
    easier = replace(instance.target, loss=3.3)
    instance = replace(instance, target=easier, node_sets=instance.node_sets[:2], charges=instance.charges[:, :2])
    found, least = plan_per_node_set(instance), cheapest_placed(instance)
    assert found.feasible == math.isfinite(least)
    if found.feasible:
        assert found.cost == pytest.approx(least, rel=SAME)
        assert found.cost <= plan(instance).cost * (1 + SAME)
        assert all(found.data_of[n] for n in found.node_sets)


def test_own_data_pays_when_charges_differ():
    """Each dataset is dear to bring to one of the two node sets, and both node sets are needed in time."""
    instance = poor_link()
    node_sets = (DeplNodeSet("a", 60.0, 80.0, 1.0), DeplNodeSet("b", 60.0, 80.0, 1.0))
    charges = np.array([[1.0, 90.0], [90.0, 1.0]])
    instance = replace(instance, node_sets=node_sets, charges=charges, target=replace(instance.target, deadline_s=1.0))
    own = plan_per_node_set(instance)
    assert own.cost <= plan(instance).cost
    volume = [sum(instance.datasets[d].volume for d in own.data_of[n]) for n in own.node_sets]
    terms = [
        (
            -(0.7 + 0.35 * math.log1p(q)) * instance.versions[m].gain / math.sqrt(k + instance.versions[m].offset),
            instance.versions[m].noise,
        )
        for k, (m, q) in enumerate(zip(own.versions, volume, strict=True), start=1)
    ]
    terms += [(1.0, StudentT(0.05, 0.02, 5.0))] * sum(
        a != b for a, b in zip(own.versions, own.versions[1:], strict=False)
    )
    assert weighted_sum(terms, 5.0).quantile(0.9) == pytest.approx(own.quantile, abs=1e-7)
