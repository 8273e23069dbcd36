"""Every checked DepL case: quantiles, allocations, choices of datasets and whole plans, the plans replayed by hand."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
from checked_cases import KNOWN, PACT, case_files
from depl_cases import charges_from, instance_from, node_sets_from, parts, read_depl, terms_from

from relaytrain.core.distribution import weighted_sum
from relaytrain.core.errors import ScenarioError
from relaytrain.planners.depl.allocation import allocate
from relaytrain.planners.depl.data_choice import choose, local_search
from relaytrain.planners.depl.exact.joint import plan
from relaytrain.planners.depl.paper.best_exp import best_expected, greedy_expected

OWN = Path(__file__).parent / "cases"
FOLDER = Path(os.environ.get("RELAYTRAIN_CASES") or OWN)
SAME_COST = 1e-6  # relative, as the files ask
CLOSE = {True: 1e-6, False: 1e-4}  # quantiles, by whether every tail has nu >= 4


def files(kind):
    return [pytest.param(path, id=path.stem) for path, found in case_files(FOLDER)[0] if found == kind]


@pytest.mark.parametrize("path", files("quantile"))
def test_quantiles(path):
    for case in parts(read_depl(path)):
        total = weighted_sum(terms_from(case), case["l0"])
        close = CLOSE[all(nu >= 4 for _, _, nu in case["switch"])]
        assert total.mean == pytest.approx(case["mean"], abs=1e-9)
        for omega, expected in zip(case["omega"], case["quantile"], strict=True):
            assert total.quantile(omega) == pytest.approx(expected, abs=close, rel=0), omega


@pytest.mark.parametrize("path", files("allocation"))
def test_allocations(path):
    for case in parts(read_depl(path)):
        epochs = list(zip(case["c"], case["s"], strict=True))
        found = allocate(epochs, node_sets_from(case["clusters"]), case["Tmax"], charges_from(case["data_charge"]))
        assert found.feasible == case["feasible"]
        if not found.feasible:
            continue
        assert found.cost == pytest.approx(case["cost"], rel=SAME_COST)
        assert found.dual_bound <= found.cost
        charge = sum(case["data_charge"][n] for n in set(found.node_sets))
        check_allocation(found, case["c"], case["s"], case["clusters"], case["Tmax"], charge)


def check_allocation(found, work, size, node_sets, deadline, charge):
    """Cost, deadline and capability with the file's own numbers."""
    used = [node_sets[n] for n in found.node_sets]
    spent = sum(at["kappa"] * x for at, x in zip(used, found.resources, strict=True))
    links = [0.0 if at["b"] is None else s / at["b"] for s, at in zip(size, used, strict=True)]
    elapsed = sum(c / x + link for c, x, link in zip(work, found.resources, links, strict=True))
    assert spent + charge == pytest.approx(found.cost, rel=1e-9)
    assert elapsed <= deadline + 1e-9
    assert all(0 < x <= at["r"] + 1e-9 for x, at in zip(found.resources, used, strict=True))


@pytest.mark.parametrize("path", files("datasets"))
def test_datasets(path):
    for case in parts(read_depl(path)):
        check_datasets(case["values"])


def check_datasets(values):
    numbers = [math.inf if value is None else value for value in values]
    count = len(numbers).bit_length() - 1
    found = choose(count, lambda chosen, below: numbers[sum(1 << d for d in chosen)])
    assert found.value == min(numbers[1:])
    assert found.exact
    assert numbers[sum(1 << d for d in found.chosen)] == found.value or math.isinf(found.value)


def test_local_search_finds_the_ends():
    random = np.random.default_rng(3)
    volumes = random.uniform(0.2, 2.0, 8)

    def proxy(chosen, below):
        volume = sum(volumes[d] for d in chosen)
        return (6.0 - 1.2 * math.log1p(volume)) * (1.0 + volume)

    check_datasets([math.inf] + [proxy([d for d in range(8) if mask >> d & 1], 0) for mask in range(1, 256)])
    assert local_search(8, proxy).value == pytest.approx(choose(8, proxy).value)


@pytest.mark.parametrize("path", files("full"))
def test_plans(path):
    raw = read_depl(path)
    expected, at, instance = raw["expected"], raw["instance"], instance_from(raw)
    found = plan(instance)
    assert found.feasible == expected["feasible"]
    if not found.feasible:
        assert "no schedule" in found.reason
        return
    assert found.cost <= expected["cost"] * (1 + SAME_COST)
    volume = sum(at["datasets"][d]["q"] for d in found.datasets)
    charge = sum(at["beta"][d][n] for d in found.datasets for n in set(found.node_sets))
    work = [at["models"][m]["c"] * volume for m in found.versions]
    size = [at["models"][m]["s"] for m in found.versions]
    check_allocation(found, work, size, at["clusters"], at["Tmax"], charge)
    assert len(found.versions) <= at["Kmax"]
    assert found.quantile <= at["lmax"] + 1e-9
    samples = sampled_losses(at, found, volume)
    spread = 5 * math.sqrt(at["omega"] * (1 - at["omega"]) / len(samples))
    assert (samples <= at["lmax"]).mean() >= at["omega"] - spread


def sampled_losses(at, found, volume, samples=40_000):
    """The final loss drawn from the file's own formulas."""
    random = np.random.default_rng(11)
    gain = at["data_gain"]["g0"] + at["data_gain"]["g1"] * math.log(1 + volume)
    loss = np.full(samples, at["l0"])
    for k, m in enumerate(found.versions, start=1):
        version = at["models"][m]
        if k > 1 and found.versions[k - 2] != m:
            jump = at["switch"][found.versions[k - 2]][m]
            loss += jump["loc"] + jump["scale"] * random.standard_t(jump["nu"], samples)
        shape = 2 + version["x_mean"] ** 2 / version["x_var"]
        x = version["x_mean"] * (shape - 1) / random.gamma(shape, 1.0, samples)
        loss -= gain * version["A"] / math.sqrt(k + version["B"]) * x
    return loss


@pytest.mark.parametrize("path", files("full"))
def test_expected_value_baselines(path):
    """Best-exp costs what the file says, where it says so, and never less than the plan."""
    raw = read_depl(path)
    instance = instance_from(raw)
    for name, planner in (("best_exp_mincost", best_expected), ("best_exp_greedy", greedy_expected)):
        if raw.get(name) is None:
            continue
        found = planner(instance)
        counts = [found.versions.count(m) for m in range(len(instance.versions))]
        assert found.feasible
        assert found.cost == pytest.approx(raw[name]["cost"], rel=SAME_COST), name
        assert counts == raw[name]["counts"]
        assert found.quantile == pytest.approx(raw[name]["quantile"], abs=1e-6)


def test_null_is_what_cannot_be_had():
    raw = read_depl(OWN / "depl" / "tiny_1.json")
    raw["instance"]["beta"][0] = [None for _ in raw["instance"]["beta"][0]]
    instance = instance_from(raw)
    assert np.isinf(instance.charges[0]).all() and np.isfinite(instance.charges[1:]).all()
    assert 0 not in plan(instance).datasets
    assert charges_from([None, 2.0]) == [math.inf, 2.0]


def test_other_kinds_are_refused(tmp_path):
    (tmp_path / "odd.json").write_text('{"kind": "riddle"}')
    with pytest.raises(ScenarioError, match=r"odd.json: kind: got 'riddle', expected one of full"):
        read_depl(tmp_path / "odd.json")
    with pytest.raises(ScenarioError, match="KeyError 'models'"):
        instance_from({"instance": {}})
    assert KNOWN[0] == PACT
