"""Meters: counters that wrap, provenance, and never a silent zero."""

from __future__ import annotations

from pathlib import Path

import pytest

from relaytrain.core.errors import UsageError
from relaytrain.costs.devices import load_devices
from relaytrain.costs.meters import (
    CpuMeter,
    Mark,
    NvmlMeter,
    RaplMeter,
    Reading,
    SumMeter,
    find_meter,
    weakest,
)
from relaytrain.testing.fakes import ReplayMeter

PROFILE = load_devices()["laptop-cpu"]


def package(root: Path, name: str, energy_uj: int, top_uj: int = 1_000_000_000) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    (folder / "max_energy_range_uj").write_text(f"{top_uj}\n")
    return folder


def test_cpu_seconds_times_watts() -> None:
    reading = CpuMeter(PROFILE).reading(cpu_s=10.0, wall_s=20.0)
    assert reading.energy_j == pytest.approx(PROFILE.busy_w * 10.0 + PROFILE.idle_w * 10.0)
    assert reading.provenance == "modelled" and PROFILE.name in reading.method
    assert CpuMeter().reading(1.0, 1.0).provenance == "assumed"
    meter = CpuMeter(PROFILE)
    mark = meter.begin()
    spent = sum(i * i for i in range(200_000))
    assert spent > 0 and meter.end(mark).energy_j > 0.0
    assert meter.end(mark, cpu_s=3.0).cpu_s == 3.0


def test_rapl_adds_packages_and_survives_a_wrap(tmp_path: Path) -> None:
    one = package(tmp_path, "intel-rapl:0", 900_000_000)
    two = package(tmp_path, "intel-rapl:1", 5_000_000)
    package(tmp_path, "intel-rapl:0:0", 1)  # a part of package 0 must not be counted again
    meter = RaplMeter.find(tmp_path)
    assert meter is not None and meter.folders == (one, two)
    mark = meter.begin()
    (one / "energy_uj").write_text("50000000")  # over the top of 1,000 J
    (two / "energy_uj").write_text("7500000")
    reading = meter.end(mark, cpu_s=1.0)
    assert reading.energy_j == pytest.approx(150.0 + 2.5)
    assert (reading.provenance, reading.method) == ("measured", "RAPL")


def test_rapl_that_cannot_be_read_is_no_meter(tmp_path: Path) -> None:
    assert RaplMeter.find(tmp_path / "nowhere") is None
    folder = package(tmp_path, "intel-rapl:0", 1)
    (folder / "energy_uj").write_text("")
    assert RaplMeter.find(tmp_path) is None
    with pytest.raises(UsageError, match="no readable counter"):
        RaplMeter([])


class FakeNvml:
    def __init__(self) -> None:
        self.counter = {"a": 1000.0, "b": 5000.0}

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> float:
        return self.counter[handle]


def test_cards_count_in_millijoules() -> None:
    nvml = FakeNvml()
    meter = NvmlMeter(nvml, ["a", "b"])
    mark = meter.begin()
    nvml.counter = {"a": 3000.0, "b": 5500.0}
    assert meter.end(mark).energy_j == pytest.approx(2.5)
    with pytest.raises(UsageError):
        NvmlMeter(nvml, [])


def test_a_sum_is_as_good_as_its_weakest_part() -> None:
    replay = ReplayMeter([Reading(4.0, "measured", "replay", 1.0, 1.0)])
    meter = SumMeter([replay, CpuMeter(PROFILE)])
    mark = meter.begin()
    reading = meter.end(mark, cpu_s=1.0)
    assert reading.energy_j > 4.0 and reading.provenance == "modelled"
    assert "replay" in reading.method and PROFILE.name in reading.method
    assert weakest(["measured", "measured"]) == "measured"
    assert weakest(["measured", "assumed", "modelled"]) == "assumed"
    assert weakest([]) == "assumed"


def test_a_replay_that_runs_out_says_so() -> None:
    with pytest.raises(UsageError, match="no reading left"):
        ReplayMeter([]).end(Mark(0.0, 0.0))


def test_there_is_always_a_meter() -> None:
    reading = find_meter(PROFILE)
    mark = reading.begin()
    assert reading.end(mark, cpu_s=1.0).provenance in {"measured", "modelled"}
