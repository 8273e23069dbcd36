"""Device profiles: how fast, how hungry, how large and how connected a device is, each figure with its source."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FIGURES = ("flops_per_s", "busy_w", "idle_w", "memory_bytes", "bits_per_s", "j_per_bit")


@dataclass(frozen=True)
class DeviceProfile:
    """One device as the analytic model sees it.

    `flops_per_s` is a sustained training speed, not a datasheet's peak; `busy_w` the whole board's draw while training,
    `idle_w` while waiting or talking; `bits_per_s` and `j_per_bit` belong to its link. `source` says where each
    figure comes from.
    """

    name: str
    flops_per_s: float
    busy_w: float
    idle_w: float = 0.0
    memory_bytes: float = math.inf
    bits_per_s: float = 1e8
    j_per_bit: float = 0.0
    title: str = ""
    source: str = ""


@cache
def load_devices() -> dict[str, DeviceProfile]:
    """The shipped profiles by name (`costs/devices.toml`)."""
    with (Path(__file__).parent / "devices.toml").open("rb") as file:
        tables = tomllib.load(file)
    profiles = {}
    for name, table in tables.items():
        source = "; ".join(f"{figure}: {table['source'][figure]}" for figure in FIGURES)
        figures = {figure: float(table[figure]) for figure in FIGURES}
        profiles[name] = DeviceProfile(name, title=table["title"], source=source, **figures)
    return profiles
