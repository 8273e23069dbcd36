"""Quantities as people write them."""

from __future__ import annotations

import math

import pytest

from relaytrain.scenario import units
from relaytrain.scenario.units import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10m", 600), ("7m40", 460), ("7m40s", 460), ("1h30m", 5400), ("1h30", 5400), ("250ms", 0.25), ("3d", 259200),
        ("90 s", 90), ("1.5h", 5400), ("2h 5m", 7500), ("10 min", 600), ("1 hour", 3600), ("2d12", 216000), ("5us",
        5e-6),
        ("1d2h3m4s", 93784), ("1s500", 1.5),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("text", ["", "10", "m", "5s5m", "5m5m", "-5m", "5 m 3 h", "1e3s", "5M", "ten", "5m 3x", "٣m"])
def test_no_durations(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("quantity", "text", "value"),
    [
        (units.ENERGY, "40 kJ", 4e4), (units.ENERGY, "3 Wh", 10800), (units.ENERGY, "1.5kWh", 5.4e6),
        (units.ENERGY, "2e3 J", 2000), (units.ENERGY, "-1 J", -1), (units.POWER, "300 W", 300), (units.POWER, "5 mW",
        5e-3),
        (units.BYTES, "8 GiB", 8 * 2**30), (units.BYTES, "1.5 kB", 1500), (units.BYTES, "7 B", 7),
        (units.RATE, "100 Mbit/s", 1e8), (units.RATE, "10 Gbps", 1e10), (units.RATE, "1 MB/s", 8e6),
        (units.SPEED, "19.5 TFLOP/s", 1.95e13), (units.FLOPS, "2 MFLOP", 2e6), (units.PER_BIT, "5 nJ/bit", 5e-9),
    ],
)  # fmt: skip
def test_quantities(quantity: units.Quantity, text: str, value: float) -> None:
    read = quantity.read(text)
    assert read is not None
    assert math.isclose(read, value, rel_tol=1e-12)


@pytest.mark.parametrize(
    "text", ["", "J", "4 kW", "4 KJ", "1,5 J", "4 k J", "inf J", "nan J", "0x10 J", "4" * 70 + " J"]
)
def test_no_energies(text: str) -> None:
    assert units.ENERGY.read(text) is None
