"""Fitting of timed steps against a machine whose costs are known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from relaytrain.core.cost import CostTable
from relaytrain.core.errors import UsageError
from relaytrain.core.problem import NodeSet, Pair, Problem, Target
from relaytrain.costs.devices import DeviceProfile
from relaytrain.costs.meters import CpuMeter
from relaytrain.costs.profiled import ProfiledVersion, Timing, VersionTimings, fit, profile


@dataclass
class KnownMachine:
    """A machine on which a step takes a + b * samples, with noise that is mostly small and sometimes huge."""

    truth: dict[str, tuple[float, float, float]]
    batch: int = 32
    local_epochs: int = 1

    def timer(self) -> KnownMachine:
        return self

    def time(self, batches: int) -> dict[str, VersionTimings]:
        rng = np.random.default_rng(3)
        made = {}
        for name, (per_sample, per_batch, pass_s) in self.truth.items():
            steps = []
            for size in (8, 32):
                noise = 1.0 + 0.02 * rng.standard_normal(batches) + 5.0 * (rng.random(batches) < 0.1)
                steps += [Timing(size, (per_batch + per_sample * size) * f) for f in noise]
            made[name] = VersionTimings(tuple(steps), pass_s, 1e6 * per_sample)
        return made


TRUTH = {"full": (2e-3, 1e-3, 5e-3), "small": (0.5e-3, 1e-3, 4e-3)}


def test_the_fit_finds_a_known_machine() -> None:
    made = profile(KnownMachine(TRUTH), batches=25)
    for name, (per_sample, per_batch, pass_s) in TRUTH.items():
        for samples in (64, 100, 1000):
            steps = -(-samples // 32)
            wanted = pass_s + per_batch * steps + per_sample * samples
            assert made.cpu_s(name, [samples]) == pytest.approx(wanted, rel=0.05)
    assert made.cpu_s("full", [64, 100]) == pytest.approx(made.cpu_s("full", [64]) + made.cpu_s("full", [100]))


def test_flops_that_a_device_would_need_for_the_measured_times() -> None:
    made = profile(KnownMachine(TRUTH), batches=25)
    flops = made.effective_flops()
    full, small = (TRUTH[n][0] + TRUTH[n][1] / 32 for n in ("full", "small"))
    assert flops["full"] == pytest.approx(made.versions["full"].flops_per_sample)
    assert flops["small"] / flops["full"] == pytest.approx(small / full, rel=0.05)
    assert flops["small"] > made.versions["small"].flops_per_sample, "a batch has a price that pruning does not save"
    assert json.loads(json.dumps(made.to_dict()))["versions"]["small"]["effective_flops_per_sample"] > 0


def test_a_lone_last_sample_is_no_batch_of_its_own() -> None:
    version = ProfiledVersion("v", 0.0, 1.0, 0.0, 1.0)
    assert [version.cpu_s(n, 32) for n in (1, 32, 33, 34, 65)] == [1.0, 1.0, 1.0, 2.0, 2.0]
    assert version.cpu_s(64, 32, local_epochs=3) == 6.0


def test_no_figure_is_negative() -> None:
    falling = VersionTimings((Timing(8, 2.0), Timing(32, 1.0)), 0.0, 1.0)
    assert fit("v", falling).per_sample_s == 0.0 and fit("v", falling).per_batch_s == 1.0
    steep = VersionTimings((Timing(8, 0.01), Timing(32, 1.0)), 0.0, 1.0)
    assert fit("v", steep).per_batch_s >= 0.0
    one = fit("v", VersionTimings((Timing(32, 1.0),), 0.0, 1.0))
    assert one.cpu_s(32, 32) == pytest.approx(1.0)
    with pytest.raises(UsageError):
        fit("v", VersionTimings((), 0.0, 1.0))
    with pytest.raises(UsageError, match="batches"):
        profile(KnownMachine(TRUTH), batches=0)


def test_the_cost_table_of_this_machine() -> None:
    problem = Problem(
        "p", (Pair("full", "gold"), Pair("small", "gold"), Pair("small", "far")), 0, 2.0, Target(0.5),
        node_sets=(NodeSet("gold", ("a", "b")), NodeSet("far", ("c",))),
    )  # fmt: skip
    inf: Any = float("inf")
    before = CostTable(np.array([9.0, 9.0, inf]), np.ones((3, 3)) - np.eye(3), np.array([9.0, 9.0, inf]), np.eye(3) * 0)
    made = profile(KnownMachine(TRUTH), batches=25)
    meter = CpuMeter(DeviceProfile("box", 1e9, busy_w=10.0, idle_w=2.0))
    table = made.costs(problem, {"a": 64, "b": 128, "c": 9}, before, meter=meter)
    cpu = made.cpu_s("full", [64, 128])
    assert table.run_s[0] == pytest.approx(cpu) and table.run_j[0] == pytest.approx(10.0 * cpu)
    assert np.isinf(table.run_s[2]) and table.provenance == "measured"
    assert (table.change_s == before.change_s).all()
    two = made.costs(problem, {"a": 64, "b": 128, "c": 9}, before, workers=2, meter=meter)
    assert two.run_s[0] == pytest.approx(made.cpu_s("full", [128]))
