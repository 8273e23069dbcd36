"""What a planner knows of nested versions: epochs that train in turns, handovers of bytes alone, both ways."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import relaytrain as rt
from relaytrain.core.errors import ScenarioError
from relaytrain.costs.profiled import Profile, ProfiledVersion
from relaytrain.scenario import load_scenario

FLOPS = {"full": 4e6, "half": 2e6, "small": 1e6}


def nested(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": "nested",
        "target": {"loss": 0.5, "deadline": 1000.0},
        "start": {"loss": 2.3, "version": "full", "nodes": "here"},
        "versions": [
            {"name": "full", "parameters": 1000, "flops_per_sample": FLOPS["full"]},
            {"name": "small", "ratio": 0.75, "way": "nested", "parameters": 250, "flops_per_sample": FLOPS["small"]},
            {"name": "half", "ratio": 0.5, "way": "nested", "parameters": 500, "flops_per_sample": FLOPS["half"]},
            {"name": "cut", "ratio": 0.5, "parameters": 500, "flops_per_sample": FLOPS["half"]},
        ],
        "nodes": [{"name": "box", "device": "box", "samples": 1000}],
        "node_sets": [{"name": "here", "nodes": ["box"]}],
        "devices": {"box": {"flops_per_s": 1e9, "busy_w": 10.0, "bits_per_s": 1e6, "j_per_bit": 1e-3}},
        "law": {"kind": "level", "curves": [{"floor": 0.1, "drop": 2.2, "scale": 3.0, "power": 1.0}]},
    }
    return {**made, **changes}


def at(scenario: Any, *versions: str) -> tuple[int, ...]:
    names = [pair.version for pair in scenario.problem.pairs]
    return tuple(names.index(version) for version in versions)


def test_an_epoch_trains_the_slices_in_turns_and_costs_their_mean() -> None:
    scenario = load_scenario(nested())
    versions = {version.name: version for version in scenario.problem.versions}
    assert versions["full"].slices == ("half", "small") and versions["half"].slices == ("small",)
    assert versions["small"].slices == versions["cut"].slices == ()
    full, half, small = at(scenario, "full", "half", "small")
    exchange_s = {"full": 0.064, "half": 0.032, "small": 0.016}  # four bytes a parameter, there and back, 1 Mbit/s
    run_s = scenario.costs.run_s
    assert run_s[full] == pytest.approx(0.5 * 4.0 + 0.5 * 1.5 + exchange_s["full"])
    assert run_s[half] == pytest.approx(0.5 * 2.0 + 0.5 * 1.0 + exchange_s["half"])
    assert run_s[small] == pytest.approx(1.0 + exchange_s["small"])
    more = load_scenario(nested(training={"slice_share": 0.8}))
    assert more.costs.run_s[full] == pytest.approx(0.2 * 4.0 + 0.8 * 1.5 + exchange_s["full"])


def test_a_slice_costs_its_bytes_and_goes_both_ways() -> None:
    scenario = load_scenario(nested())
    full, half, small, cut = at(scenario, "full", "half", "small", "cut")
    costs = scenario.costs
    for before in (full, small):
        assert costs.change_s[before, half] == pytest.approx(500 * 32 / 1e6)
        assert costs.change_j[before, half] == pytest.approx(500 * 32 * 1e-3)
    assert costs.change_s[half, full] == pytest.approx(1000 * 32 / 1e6)
    assert costs.change_s[full, cut] == pytest.approx(500 * 32 / 1e6 + 0.25), "pruning has its own seconds"
    assert math.isinf(costs.change_s[cut, full]), "what was pruned does not grow back"


def test_laws_and_beliefs_know_the_kind_of_handover() -> None:
    jumps = [{"kind": "version", "jump": 0.4}, {"kind": "nested", "jump": 0.05}]
    scenario = load_scenario(nested(law={**nested()["law"], "jumps": jumps}))
    full, small, cut = at(scenario, "full", "small", "cut")
    law: Any = scenario.law
    assert law.jump0[full, small] == law.jump0[small, full] == 0.05 and law.jump0[full, cut] == 0.4
    guess = nested()
    del guess["law"]
    wide: Any = load_scenario(guess).law
    assert 0.0 < wide.jump0_robust[small, full] < wide.jump0_robust[full, cut]
    np.testing.assert_array_equal(np.diag(wide.jump0_robust), 0.0)


def test_compare_has_rows_of_its_own() -> None:
    jumps = [{"kind": "version", "jump": 0.4}, {"kind": "nested", "jump": 0.0}]
    curves = [
        {"floor": 0.1, "drop": 2.2, "scale": 3.0, "power": 1.0},
        {"version": "full", "progress": [0.2, 0.2, 0.2, 5.0]},
        {"version": "small", "progress": [2.0, 2.0, 2.0, 0.1]},
    ]
    made = nested(law={"kind": "level", "curves": curves, "jumps": jumps})
    made["start"]["version"] = "small"
    plans = rt.compare(made).plans
    assert {"nested", "nested/down"} <= set(plans)
    assert plans["nested"].planner == "nested" and plans["nested"].feasible
    used = {decision.version for decision in plans["nested"].decisions}
    assert used <= {"full", "half", "small"} and plans["optimum"].energy_j <= plans["nested"].energy_j + 1e-9
    down = plans["nested/down"]
    assert {decision.version for decision in down.decisions} <= {"small"} or not down.feasible
    assert not down.feasible or down.energy_j >= plans["nested"].energy_j
    assert "nested" not in rt.compare("smart_factory").plans


def test_a_profile_counts_the_slices_too() -> None:
    scenario = load_scenario(nested())
    versions = {name: ProfiledVersion(name, flops * 1e-9, 0.0, 0.0, flops) for name, flops in FLOPS.items()}
    costs = Profile(versions, 10).costs(scenario.problem, {"box": 1000}, scenario.costs)
    assert costs.run_s[at(scenario, "full")[0]] == pytest.approx(0.5 * 4.0 + 0.5 * 1.5)


def test_a_way_needs_a_ratio() -> None:
    made = nested()
    made["versions"][1].pop("ratio")
    with pytest.raises(ScenarioError, match="ratio beside it"):
        load_scenario(made)
