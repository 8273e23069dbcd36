"""What `relaytrain doctor` looks at: this machine, the run store, and with a scenario its data, networks and memory.

Everything is found before any training; nothing is changed.
"""

from __future__ import annotations

import importlib.util
import math
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.errors import RelayTrainError, ScenarioError
from ..core.problem import Pair
from ..scenario import Scenario

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..training.setup import TrainingSetup

Level = Literal["ok", "note", "warning", "error"]
PACKAGES = {
    "numpy": "core", "scipy": "core", "numba": "core", "pydantic": "core", "typer": "core", "rich": "core",
    "jinja2": "core", "safetensors": "core", "torch": "train", "torch-pruning": "train", "scikit-learn": "data",
    "pyarrow": "data", "pillow": "data", "matplotlib": "figures",
}  # fmt: skip
"""Package -> the extra of relaytrain that brings it."""
LOW_SPACE_BYTES = 1e9
FEW_SAMPLES = 2
FAR_OFF = 0.1
"""A declared figure further than this share from the counted one is worth a word."""


@dataclass(frozen=True)
class Ailment:
    """One thing looked at. `error` stands in the way of a run, `warning` may spoil it, `note` is good to know."""

    level: Level
    where: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.what}" + (f"; {self.remedy}" if self.remedy else "")

    def to_dict(self) -> dict[str, str]:
        """Plain JSON values."""
        return asdict(self)


def check_machine() -> list[Ailment]:
    """Python, packages, processors and meters. Imports nothing heavy but torch, and that only when it is there."""
    found = [Ailment("ok", "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")]
    for extra in dict.fromkeys(PACKAGES.values()):
        names = [name for name, home in PACKAGES.items() if home == extra]
        versions = {name: _version(name) for name in names}
        present = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        lacking = ", ".join(name for name, version in versions.items() if not version)
        if present:
            found.append(Ailment("ok", f"packages, {extra}", present))
        if lacking:
            level: Level = "error" if extra == "core" else "note"
            found.append(Ailment(level, f"packages, {extra}", f"{lacking} not installed", _install(extra)))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found.append(Ailment("ok", "processors", f"{cores} usable of {os.cpu_count()}, {_memory()} of memory"))
    if importlib.util.find_spec("torch") is not None:
        from .hardware import torch_devices

        found.append(Ailment("ok", "torch trains on", ", ".join(torch_devices())))
    return [*found, *_meters()]


def check_store(folder: Path) -> list[Ailment]:
    """The run store: whether it can be read and kept, and whether its promises hold."""
    from ..store import RunStore, check
    from ..store.database import exists

    place = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free
    level: Level = "warning" if free < LOW_SPACE_BYTES else "ok"
    found = [Ailment(level, "store", f"{free / 1e9:.3g} GB free", "make room" if level == "warning" else "")]
    if not os.access(place, os.W_OK):
        found.append(Ailment("error", "store", f"{place} cannot be written", "choose another folder with --store"))
    if not exists(folder):
        return [*found, Ailment("ok", "store", f"{folder}: none yet, the first run makes it")]
    try:
        runs = RunStore.open(folder).runs()
        found.append(Ailment("ok", "store", f"{folder}: {len(runs)} runs"))
        found += [
            Ailment("error" if f.level == "error" else "note", f.where, f.what, f"relaytrain store check {folder}")
            for f in check(folder)
        ]
    except RelayTrainError as error:
        found.append(Ailment("error", "store", str(error)))
    return found


def check_scenario(scenario: Scenario) -> list[Ailment]:
    """What a run of `scenario` would stumble over; calls the user's own code that the scenario names."""
    found = [Ailment("ok", "scenario", f"{scenario.name}, {len(scenario.problem.pairs)} pairs")]
    found += [Ailment("warning", "scenario", words) for words in scenario.warnings]
    found += _impossible(scenario)
    if not scenario.data:
        return [
            *found,
            Ailment("note", "data", "no table [data]: it can be planned, not run", "add [data] to train it"),
        ]
    if importlib.util.find_spec("torch") is None:
        return [*found, Ailment("error", "torch", "not installed, and needed to train", _install("train"))]
    from ..training.setup import TrainingSetup

    try:
        setup = TrainingSetup.from_scenario(scenario)
    except ScenarioError as error:
        return [*found, Ailment("error", "scenario", str(error))]
    found += _data(setup)
    try:
        found += _networks(setup)
        if not any(finding.level == "error" for finding in found):  # what cannot be pruned cannot be counted either
            found += _facts(scenario, setup)
    except RelayTrainError as error:
        found.append(Ailment("error", "versions", str(error)))
    return found


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _install(extra: str) -> str:
    return "pip install relaytrain" if extra == "core" else f"pip install 'relaytrain[{extra}]'"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.3g} GiB"
    except (ValueError, OSError, AttributeError):
        return "an unknown amount"


def _meters() -> list[Ailment]:
    from ..costs.meters import DEFAULT_PROFILE, NvmlMeter, RaplMeter

    if RaplMeter.find() is not None:
        rapl = Ailment("ok", "RAPL", "readable: the processor's joules are measured")
    else:
        words = "no readable counter: joules are CPU seconds times a profile's watts"
        rapl = Ailment("note", "RAPL", words, f"name a device for your nodes, or {DEFAULT_PROFILE} is assumed")
    if NvmlMeter.find() is not None:
        return [rapl, Ailment("ok", "NVML", "readable: the cards' joules are measured")]
    return [rapl, Ailment("note", "NVML", "no card with an energy counter, or pynvml is not installed")]


def _impossible(scenario: Scenario) -> Iterator[Ailment]:
    """Pairs that can never run, as the scenario's own figures say."""
    for index, pair in enumerate(scenario.problem.pairs):
        why = scenario.costs.why_not(index, index)
        if why is not None:
            yield Ailment("note", str(pair), f"never used: {why}")


def _data(setup: TrainingSetup) -> Iterator[Ailment]:
    sizes = ", ".join(f"{name} {len(data)}" for name, data in setup.datasets.items())
    reserved = f"validation {len(setup.validation)}, test {len(setup.test)}"
    yield Ailment("ok", "data", f"images {list(setup.validation.input)}: {sizes}, {reserved}")
    seen: set[int] = set()
    for name, data in setup.datasets.items():
        present = _present(data)
        seen |= present
        if len(data) < FEW_SAMPLES:
            yield Ailment(
                "error", f"data of {name}", f"{len(data)} image", "give it at least two: batch norm needs them"
            )
        elif len(data) < setup.settings.batch:
            words = f"{len(data)} images, less than a batch of {setup.settings.batch}"
            yield Ailment("note", f"data of {name}", words, "each of its epochs is a single step")
        if len(present) == 1:
            yield Ailment("warning", f"data of {name}", "all of one class", "it can teach nothing else")
        if data.input != setup.validation.input:
            shapes = f"images {list(data.input)}, validation has {list(setup.validation.input)}"
            yield Ailment("error", f"data of {name}", shapes, "bring them to one shape")
    unseen = sorted(_present(setup.target_set()) - seen)
    if unseen:
        shown = ", ".join(map(str, unseen[:10]))
        yield Ailment("warning", "data", f"no node holds class {shown}, the target set does", "give it to some node")


def _present(data: Dataset) -> set[int]:
    return {label for label, count in enumerate(data.histogram().tolist()) if count}


def _networks(setup: TrainingSetup) -> Iterator[Ailment]:
    """Each network of its own: trained forward, pruned, saved, rebuilt; what refuses is named."""
    from ..export.network_formats import example_input
    from .network import doctor

    for plan in setup.versions.values():
        if plan.way == "pruned":
            continue
        checkpoint = setup.initial(plan.name)
        faults = doctor(checkpoint.model(resolve=setup.resolve).train(), example_input(setup.validation.input))
        prunes = any(other.way == "pruned" for other in setup.versions.values()) and plan.name == setup.full.name
        for fault in faults:
            # a network that nobody prunes may well refuse to be pruned
            level: Level = fault.level if prunes or fault.where in ("model", "forward") else "note"
            yield Ailment(level, f"{plan.name}: {fault.where}", fault.what, fault.remedy)
        if not faults:
            yield Ailment("ok", plan.name, "trains, prunes and is rebuilt bit for bit")


def _facts(scenario: Scenario, setup: TrainingSetup) -> Iterator[Ailment]:
    """Counted sizes against declared ones, and against the memory of every device."""
    declared = {version.name: version for version in scenario.problem.versions}
    devices: Mapping[str, Any] = scenario.resolved.get("devices") or {}
    settings = scenario.resolved["costs"]
    for name, facts in setup.version_facts().items():
        ratio = f", {facts.reached_ratio:.1%} of the parameters removed" if facts.reached_ratio else ""
        sizes = f"{_thousands(facts.parameters)} parameters, {_thousands(facts.flops_per_sample)} FLOPs a sample{ratio}"
        yield Ailment("ok", name, sizes)
        for key in ("parameters", "flops_per_sample"):
            said, counted = getattr(declared[name], key), getattr(facts, key)
            if said and abs(said / counted - 1.0) > FAR_OFF:
                words = f"the scenario says {_thousands(said)}, counted are {_thousands(counted)}"
                yield Ailment("warning", f"{name}.{key}", words, "correct it: plans rest on the scenario's figure")
        held = facts.weight_bytes * settings["weight_copies"] + settings["batch"] * facts.activation_bytes_per_sample
        for node in scenario.problem.nodes:
            limit = (devices.get(node.device or "") or {}).get("memory_bytes") or math.inf
            if held > limit and _trains(setup, name, node.name):
                words = f"needs {held / 1e6:.3g} MB to train, {node.name} has {limit / 1e6:.3g} MB"
                yield Ailment("note", name, words, "pairs with this node are impossible")


def _thousands(value: float) -> str:
    return f"{value:_.0f}".replace("_", " ")


def _trains(setup: TrainingSetup, version: str, node: str) -> bool:
    sets = [s for s in setup.problem.node_sets if node in s.nodes and s.mode == "federated"]
    return any(Pair(version, s.name) in setup.problem.pairs for s in sets)
