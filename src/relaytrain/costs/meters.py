"""Joules of work done in this machine: metered where it has counters, else CPU seconds times a profile's watts.

    meter = find_meter()
    mark = meter.begin()
    ...                                   # work, perhaps in other processes too
    reading = meter.end(mark, cpu_s=...)  # joules, and how they were come by

Every reading says where its joules come from: `measured` (a counter), `modelled` (measured CPU seconds and the watts
of a profile) or `assumed` (the same with watts nobody vouched for). No meter answers with a silent zero.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ..core.cost import Provenance
from ..core.errors import UsageError
from .devices import DeviceProfile, load_devices

POWERCAP = Path("/sys/class/powercap")
DEFAULT_PROFILE = "xeon-core"
"""Watts of one busy core, for a machine of which nothing is known; joules from it are tagged assumed."""


@dataclass(frozen=True)
class Mark:
    """Where a window began: clocks and counters as they stood; of several meters, those of each."""

    wall_s: float
    cpu_s: float
    counters_j: tuple[float, ...] = ()
    parts: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Reading:
    """Joules of a window, with provenance and method; CPU and wall seconds beside."""

    energy_j: float
    provenance: Provenance
    method: str
    cpu_s: float
    wall_s: float


@runtime_checkable
class Meter(Protocol):
    """Windows of work -> readings. Windows may overlap."""

    def begin(self) -> Mark:
        """Open a window."""
        ...

    def end(self, mark: Mark, *, cpu_s: float | None = None) -> Reading:
        """Close it. `cpu_s`: CPU seconds of the work where other processes did some of it; by default this one's."""
        ...


class CpuMeter:
    """CPU seconds x busy watts + wall seconds x idle watts.

    Wall time alone would be several times wrong on a machine that does other things as well.
    """

    def __init__(self, profile: DeviceProfile | None = None) -> None:
        self.provenance: Provenance = "assumed" if profile is None else "modelled"
        self.profile = load_devices()[DEFAULT_PROFILE] if profile is None else profile

    def begin(self) -> Mark:
        """Open a window."""
        return Mark(time.monotonic(), time.process_time())

    def end(self, mark: Mark, *, cpu_s: float | None = None) -> Reading:
        """Close it."""
        wall = time.monotonic() - mark.wall_s
        cpu = time.process_time() - mark.cpu_s if cpu_s is None else cpu_s
        return self.reading(cpu, wall)

    def reading(self, cpu_s: float, wall_s: float) -> Reading:
        """The reading of work that took so long."""
        busy = max(0.0, self.profile.busy_w - self.profile.idle_w)
        joules = busy * cpu_s + self.profile.idle_w * wall_s
        return Reading(joules, self.provenance, f"CPU seconds x {self.profile.name}", cpu_s, wall_s)


class _CounterMeter:
    """Counters in joules, read at both ends of a window; one that wraps begins again after its span."""

    def __init__(self, method: str, read: Callable[[], tuple[float, ...]], spans_j: Sequence[float]) -> None:
        self._method, self._read, self._spans_j = method, read, tuple(spans_j)

    def begin(self) -> Mark:
        """Open a window."""
        return Mark(time.monotonic(), time.process_time(), self._read())

    def end(self, mark: Mark, *, cpu_s: float | None = None) -> Reading:
        """Close it; a counter that wrapped once meanwhile is accounted for."""
        used = [
            later - earlier if later >= earlier else later - earlier + span
            for earlier, later, span in zip(mark.counters_j, self._read(), self._spans_j, strict=True)
        ]
        cpu = time.process_time() - mark.cpu_s if cpu_s is None else cpu_s
        return Reading(sum(used), "measured", self._method, cpu, time.monotonic() - mark.wall_s)


class RaplMeter(_CounterMeter):
    """Counters of the processor packages (powercap). They see everything that runs on the machine."""

    def __init__(self, folders: Sequence[Path]) -> None:
        if not folders:
            raise UsageError("RAPL: no readable counter; use CpuMeter or run where /sys/class/powercap can be read")
        self.folders = tuple(folders)
        spans_j = [_microjoules(folder / "max_energy_range_uj") for folder in folders]
        super().__init__("RAPL", lambda: tuple(_microjoules(folder / "energy_uj") for folder in folders), spans_j)

    @classmethod
    def find(cls, root: Path = POWERCAP) -> RaplMeter | None:
        """A meter over the packages whose counters can be read, or None when there are none."""
        readable = []
        for folder in sorted(root.glob("*rapl:[0-9]*")):
            if folder.name.count(":") == 1:  # packages; their parts (cores, memory) have a second number
                try:
                    _microjoules(folder / "energy_uj")
                    _microjoules(folder / "max_energy_range_uj")
                except (OSError, ValueError):
                    continue
                readable.append(folder)
        return cls(readable) if readable else None


class NvmlMeter(_CounterMeter):
    """Energy counters of NVIDIA cards, through the `pynvml` module where it is installed."""

    def __init__(self, nvml: Any, handles: Sequence[Any]) -> None:
        if not handles:
            raise UsageError("NVML: no card with an energy counter; leave this meter out")
        read = nvml.nvmlDeviceGetTotalEnergyConsumption
        super().__init__("NVML", lambda: tuple(read(handle) / 1000.0 for handle in handles), [0.0] * len(handles))

    @classmethod
    def find(cls) -> NvmlMeter | None:
        """A meter over all cards that count their energy, or None."""
        try:
            import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            return None
        try:
            pynvml.nvmlInit()
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            for handle in handles:
                pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        except pynvml.NVMLError:
            return None
        return cls(pynvml, handles) if handles else None


class SumMeter:
    """Several meters as one; the sum is only as good as its weakest part, and its method names them all."""

    def __init__(self, meters: Sequence[Meter]) -> None:
        if not meters:
            raise UsageError("meters: got none, expected at least one")
        self.meters = tuple(meters)

    def begin(self) -> Mark:
        """Open a window in each."""
        return Mark(time.monotonic(), time.process_time(), parts=tuple(meter.begin() for meter in self.meters))

    def end(self, mark: Mark, *, cpu_s: float | None = None) -> Reading:
        """Close it in each and add up."""
        readings = [meter.end(part, cpu_s=cpu_s) for meter, part in zip(self.meters, mark.parts, strict=True)]
        return Reading(
            sum(r.energy_j for r in readings),
            weakest(r.provenance for r in readings),
            " + ".join(r.method for r in readings),
            readings[0].cpu_s,
            readings[0].wall_s,
        )


def find_meter(profile: DeviceProfile | None = None, *, gpu: bool = False) -> Meter:
    """The best meter of this machine: RAPL when readable, else CPU seconds x `profile`; with `gpu`, NVML added."""
    cpu: Meter = RaplMeter.find() or CpuMeter(profile)
    cards = NvmlMeter.find() if gpu else None
    return cpu if cards is None else SumMeter([cpu, cards])


def weakest(provenances: Iterable[Provenance]) -> Provenance:
    """The provenance of a sum: measured only when every part is, assumed as soon as one is."""
    order: tuple[Provenance, ...] = ("measured", "modelled", "assumed")
    return order[max((order.index(p) for p in provenances), default=2)]


def _microjoules(path: Path) -> float:
    value = int(path.read_text()) / 1e6
    if not math.isfinite(value):
        raise ValueError(path)
    return value
