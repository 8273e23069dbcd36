"""`[depl]` in scenarios: what is refused and how, what is modelled from it, and that everything can be written."""

import json
import math

import numpy as np
import pytest

from relaytrain.core.depl import DeplProblem
from relaytrain.core.distribution import Empirical, LogNormal, Normal
from relaytrain.core.errors import ScenarioError
from relaytrain.scenario import load_scenario
from relaytrain.scenario.read import PRESETS

TEXT = (PRESETS / "depl_alexnet.toml").read_text()


def changed(tmp_path, old, new):
    assert TEXT.count(old) >= 1
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace(old, new, 1))
    return path


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'version = "slow-steady"',
            'version = "slow"',
            "depl.versions[2].version: got 'slow', expected a declared version",
        ),
        ('version = "slow-steady"', 'version = "intermediate"', "'intermediate' a second time"),
        ("variance = 0.031", "variance = -1", "depl.versions[0].variance: got -1, expected a number from 0"),
        ("variance = 0.031", 'noise = "cauchy"', "depl.versions[0].noise: got 'cauchy'"),
        ("variance = 0.031", 'noise = "empirical"', "depl.versions[0].values: got 0 value(s)"),
        ("variance = 0.031", "values = [1.0, 2.0]", "values with noise = 'inverse-gamma'"),
        ("nu = 5", "nu = 2", "depl.switches[0].nu: got 2, expected a number > 2"),
        (
            'nodes = "B"\ncapability = 50',
            'nodes = "C"\ncapability = 50',
            "depl.clusters[1].nodes: got 'C', expected a declared node set",
        ),
        ("capability = 100", "capability = 0", "depl.clusters[0].capability: got 0"),
        (
            'dataset = "cifar10"',
            'dataset = "mnist"',
            "depl.datasets[0].dataset: got 'mnist', expected a declared data set",
        ),
        ("deadline = 2.0", "deadline = inf", "depl.objective: got 'rate' without a deadline"),
        ("max_epochs = 80", "max_epochs = 80_000", "target.max_epochs: got 80000, expected at most 2000 beside [depl]"),
        ("max_switches = 3", "max_switchs = 3", "did you mean 'max_switches'?"),
        ('[law]\nkind = "depl"', '[law]\nkind = "level"', "law.curves: got no floor"),
        ("max_switches = 3", "data_gain = -1", "depl.data_gain: got -1 beside data_gain_log 0"),
        ("charge = 0.0", "charge = -1.0", "depl.charges[0].charge: got -1"),
    ],
)
def test_faults_name_key_got_and_expected(tmp_path, old, new, words):
    with pytest.raises(ScenarioError) as caught:
        load_scenario(changed(tmp_path, old, new))
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path))


def test_a_law_that_rests_on_nothing_is_refused(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT[: TEXT.index("[depl]")])
    with pytest.raises(ScenarioError, match=r"law\.kind: got 'depl' without \[depl\]"):
        load_scenario(path)


def test_costs_and_law_of_the_other_planners_follow_from_the_table():
    loaded = load_scenario("depl_alexnet")
    by_pair = dict(
        zip(map(str, loaded.problem.pairs), zip(loaded.costs.run_s, loaded.costs.run_j, strict=True), strict=True)
    )
    assert by_pair["fast-unsteady on A"] == pytest.approx((2.6 / 100, 100.0))
    assert by_pair["slow-steady on B"] == pytest.approx((1.0 / 50, 60.0))
    losses = np.array([20.0])
    assert loaded.law.next_loss(4, losses, 0, 0)[0] == pytest.approx(20 - 1.325 * 1.02 / 2)
    last = loaded.problem.index(("slow-steady", "A"))
    assert loaded.law.next_loss(5, losses, 0, last)[0] == pytest.approx(20 + 0.0825 - 1.085 * 0.98 / 3)
    robust = 20.0
    for k in range(1, 5):
        robust = float(loaded.law.next_loss(k, np.array([robust]), 0, 0, 0.95)[0])
    steps = 1.325 / np.sqrt(np.arange(1, 5))
    spread = math.sqrt(0.031 * (steps**2).sum())
    assert robust == pytest.approx(20 - 1.02 * steps.sum() + 1.6448536 * spread)


def test_usage_counts_joules(tmp_path):
    path = changed(tmp_path, 'objective = "rate"', 'objective = "usage"')
    loaded = load_scenario(
        path,
        overrides=["depl.versions.fast-unsteady.size=3", "depl.clusters.A.bandwidth=6", "depl.clusters.A.link_power=8"],
    )
    first = loaded.problem.index(("fast-unsteady", "A"))
    assert loaded.costs.run_s[first] == pytest.approx(0.026 + 0.5)
    assert loaded.costs.run_j[first] == pytest.approx(100 * (0.026 + 0.5) + 8 * 0.5)


def test_all_distributions_infinities_and_figures_can_be_written(tmp_path):
    text = TEXT.replace("variance = 0.031", 'noise = "empirical"\nvalues = [0.9, 1.0, 1.2]', 1)
    text = text.replace("variance = 0.01\n", 'variance = 0.01\nnoise = "log-normal"\nsize = 2.5\npower = 0.9\n', 1)
    text = text.replace("variance = 0.007", 'variance = 0.007\nnoise = "normal"', 1)
    text = text.replace("charge = 0.0", 'nodes = "B"\ncharge = inf', 1).replace(
        "capability = 50", "capability = 50\nbandwidth = 10", 1
    )
    text = text.replace('to = "fast-unsteady"\nlocation = 0.0825', 'to = "fast-unsteady"\nlocation = inf', 1)
    path = tmp_path / "mine.toml"
    path.write_text(text + "\n[depl.dependence]\ncorrelation = 0.4\ncommon = 0.2\n")
    loaded = load_scenario(path)
    instance: DeplProblem = loaded.depl.instance
    assert [type(m.noise) for m in instance.versions] == [Empirical, LogNormal, Normal]
    assert (instance.versions[1].size, instance.versions[1].power) == (2.5, 0.9)
    assert instance.charges.tolist() == [[0.0, math.inf]]
    assert instance.switches[2][0] is None and instance.node_sets[0].bandwidth == math.inf
    assert (loaded.depl.belief.mean.correlation, loaded.depl.belief.mean.common) == (0.4, 0.2)
    again = load_scenario(json.loads(json.dumps(loaded.resolved, allow_nan=False)))
    assert again == loaded and repr(again.depl) == repr(loaded.depl)


def test_without_leaves_clusters_out():
    loaded = load_scenario("depl_alexnet", without=["A"])
    assert [c.name for c in loaded.depl.instance.node_sets] == ["B"]
