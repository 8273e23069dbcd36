"""The analytic model against hand arithmetic, and the device profiles it reads."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import numpy as np
import pytest

import relaytrain.costs.devices as devices_module
from relaytrain.core.cost import CostTable
from relaytrain.core.problem import Node, NodeSet, Pair, PipelineWay, Version
from relaytrain.costs.analytic import AnalyticSettings, analytic_costs
from relaytrain.costs.devices import DeviceProfile, load_devices
from relaytrain.scenario import load_scenario

SETTINGS = AnalyticSettings(spread=0.1, batch=10, weight_copies=3, compress_s=2, compress_j=7, grow_back=False)
FAST = DeviceProfile("fast", 1e9, 100, 10, 1e9, 1e6, 1e-6)
SLOW = DeviceProfile("slow", 1e8, 5, 1, 50_000, 1e5, 1e-5)
VERSIONS = {
    "L": Version("L", parameters=10_000, flops_per_sample=1e6, activation_bytes_per_sample=2000),
    "S": Version("S", weight_bytes=5_000, flops_per_sample=2e5, activation_bytes_per_sample=500),
}
A, B = Node("a", "fast", 1000), Node("b", "slow", 100)
SETS = {
    "one": NodeSet("one", ("a",)),
    "two": NodeSet("two", ("a", "b")),
    "pipe": NodeSet("pipe", ("a", "b"), "pipeline", PipelineWay(share_data=True)),
}
MEMBERS = {"one": [(A, FAST)], "two": [(A, FAST), (B, SLOW)], "pipe": [(A, FAST), (B, SLOW)]}


def table(*pairs: tuple[str, str], settings: AnalyticSettings = SETTINGS) -> CostTable:
    return analytic_costs([Pair(*p) for p in pairs], VERSIONS, SETS, MEMBERS, settings)


def test_an_epoch_on_one_node() -> None:
    costs = table(("L", "one"))
    # 1000 samples x 1 MFLOP / 1 GFLOP/s, then 40 kB there and back over 1 Mbit/s
    assert costs.run_s[0] == pytest.approx(1.0 + 0.64)
    assert costs.run_j[0] == pytest.approx(100 * 1.0 + 10 * 0.64 + 640_000 * 1e-6)
    assert costs.provenance == "modelled"
    np.testing.assert_array_equal(costs.spread, [0.1])


def test_the_slowest_node_decides_and_all_pay() -> None:
    costs = table(("S", "two"))
    fast = (0.2, 0.08)  # compute, exchange of 5 kB
    slow = (0.2, 0.8)
    seconds = 1.0
    assert costs.run_s[0] == pytest.approx(seconds)
    joules = (
        100 * fast[0] + 10 * (seconds - fast[0]) + 80_000 * 1e-6 + 5 * slow[0] + 1 * (seconds - slow[0]) + 80_000 * 1e-5
    )
    assert costs.run_j[0] == pytest.approx(joules)


def test_what_does_not_fit_says_so() -> None:
    costs = table(("L", "one"), ("L", "two"))
    assert math.isinf(costs.run_s[1])
    assert math.isinf(costs.run_j[1])
    # 3 x 40 kB of weights and 10 x 2 kB of activations against 50 kB
    assert costs.why_not(0, 1) == "L needs 140 kB, b of two has 50 kB"


def test_a_pipeline_holds_what_one_node_cannot() -> None:
    costs = table(("L", "pipe"))
    # b holds 1/11 of 140 kB. 1100 samples over both speeds; activations cross one cut, both ways, half of 2 kB each
    compute = 1100 * 1e6 / 1.1e9
    transfer = 2 * 8 * 1100 * 1000 / 1e5
    assert costs.run_s[0] == pytest.approx(max(compute, transfer))
    assert math.isfinite(costs.run_j[0])
    assert costs.reasons == {}


def test_handovers() -> None:
    costs = table(("L", "one"), ("S", "one"), ("S", "two"))
    # a new version: 5 kB and the compression
    assert costs.change_s[0, 1] == pytest.approx(0.04 + 2)
    assert costs.change_j[0, 1] == pytest.approx(40_000 * 1e-6 + 10 * 0.04 + 7)
    # the same version to more nodes: the slowest link decides
    assert costs.change_s[1, 2] == pytest.approx(0.4)
    assert costs.change_j[1, 2] == pytest.approx(40_000 * 1e-6 + 40_000 * 1e-5 + (10 + 1) * 0.4)
    np.testing.assert_array_equal(np.diag(costs.change_s), 0)


def test_going_back_needs_a_way() -> None:
    pairs = ("L", "one"), ("S", "one")
    costs = table(*pairs)
    assert math.isinf(costs.change_s[1, 0])
    assert "L is larger than S" in (costs.why_not(1, 0) or "")
    from dataclasses import replace

    assert math.isfinite(table(*pairs, settings=replace(SETTINGS, grow_back=True)).change_s[1, 0])


def test_a_nodes_own_link_overrides_its_devices() -> None:
    plain, linked = load_scenario("quickstart"), load_scenario("quickstart", ["nodes.cloud.bits_per_s=1 kbit/s"])
    full = plain.problem.versions[0]
    assert full.weight_bytes is not None or full.parameters is not None
    size = full.weight_bytes or 4 * (full.parameters or 0)
    assert linked.costs.run_s[0] - plain.costs.run_s[0] == pytest.approx(2 * 8 * size * (1 / 1e3 - 1 / 1e8))


def test_written_figures_win_over_modelled_ones() -> None:
    scenario = load_scenario("quickstart", ['pairs=[{version="full", nodes="gold", seconds=3}]'])
    assert scenario.costs.run_s[0] == 3
    assert scenario.costs.run_j[0] == load_scenario("quickstart").costs.run_j[0]


def test_every_shipped_figure_has_a_source_with_a_date() -> None:
    raw = tomllib.loads((Path(devices_module.__file__).parent / "devices.toml").read_text())
    assert len(raw) >= 6
    for name, profile in load_devices().items():
        assert profile.title
        assert 0 <= profile.idle_w < profile.busy_w
        assert min(profile.flops_per_s, profile.memory_bytes, profile.bits_per_s) > 0
        for figure in devices_module.FIGURES:
            source = raw[name]["source"][figure]
            assert any(str(year) in source for year in range(2018, 2027)), (name, figure)
        assert len(profile.source) <= 2000, "sources are copied into resolved scenarios whole"


def test_the_papers_devices_rank_as_the_paper_says() -> None:
    devices = load_devices()
    gold, silver, bronze = (devices[n] for n in ("a100", "rtx-a4000", "videocore-6"))
    assert gold.flops_per_s > silver.flops_per_s > bronze.flops_per_s
    assert gold.busy_w > silver.busy_w > bronze.busy_w
