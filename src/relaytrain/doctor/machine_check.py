"""This machine: Python and packages, processors, what torch can train on, and meters of energy."""

from __future__ import annotations

import importlib.util
import os
import platform
from importlib import metadata

from .diagnosis import Diagnosis, Level, install

PACKAGES = {
    "core": ("numpy", "scipy", "numba", "pydantic", "typer", "rich", "jinja2", "safetensors"),
    "train": ("torch", "torch-pruning"),
    "data": ("scikit-learn", "pyarrow", "pillow"),
    "figures": ("matplotlib",),
}
"""Extra of relaytrain -> the packages it brings; `core` comes with relaytrain itself."""


def check_machine() -> list[Diagnosis]:
    """Python, packages, processors and meters. Imports nothing heavy but torch, and that only when it is there."""
    diagnoses = [Diagnosis("ok", "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")]
    for extra, names in PACKAGES.items():
        versions = {name: _version(name) for name in names}
        present = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        lacking = ", ".join(name for name, version in versions.items() if not version)
        if present:
            diagnoses.append(Diagnosis("ok", f"packages, {extra}", present))
        if lacking:
            level: Level = "error" if extra == "core" else "note"
            diagnoses.append(Diagnosis(level, f"packages, {extra}", f"{lacking} not installed", install(extra)))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    diagnoses.append(Diagnosis("ok", "processors", f"{cores} usable of {os.cpu_count()}, {_memory()} of memory"))
    if importlib.util.find_spec("torch") is not None:
        from ..training.devices import usable_devices

        diagnoses.append(Diagnosis("ok", "torch trains on", ", ".join(usable_devices())))
    return [*diagnoses, *_meters()]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.3g} GiB"
    except (ValueError, OSError, AttributeError):
        return "an unknown amount"


def _meters() -> list[Diagnosis]:
    from ..costs.meters import DEFAULT_PROFILE, NvmlMeter, RaplMeter

    if RaplMeter.find() is not None:
        rapl = Diagnosis("ok", "RAPL", "readable: the processor's joules are measured")
    else:
        words = "no readable counter: joules are CPU seconds times a profile's watts"
        rapl = Diagnosis("note", "RAPL", words, f"name a device for your nodes, or {DEFAULT_PROFILE} is assumed")
    if NvmlMeter.find() is not None:
        return [rapl, Diagnosis("ok", "NVML", "readable: the cards' joules are measured")]
    return [rapl, Diagnosis("note", "NVML", "no card with an energy counter, or pynvml is not installed")]
