"""A scenario's data, networks and memory: what a run would stumble over. Nothing is trained, nothing is changed."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..core.errors import RelayTrainError, ScenarioError
from ..core.problem import Pair
from ..core.state import State
from ..planners.plan_size import check_plan_size, plan_size
from ..planners.registry import planner_for
from ..scenario import Scenario
from .diagnosis import Diagnosis, Level, install

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..training.setup import TrainingSetup

FEW_SAMPLES = 2
FAR_OFF = 0.1
"""A declared figure further than this share from the counted one is worth a word."""


def check_scenario(scenario: Scenario) -> list[Diagnosis]:
    """What a run of `scenario` would stumble over; calls the user's own code that the scenario names."""
    diagnoses = [Diagnosis("ok", "scenario", f"{scenario.name}, {len(scenario.problem.pairs)} pairs")]
    diagnoses += [Diagnosis("warning", "scenario", words) for words in scenario.warnings]
    diagnoses += _impossible(scenario)
    diagnoses += _plan_size(scenario)
    if not scenario.data:
        return [
            *diagnoses,
            Diagnosis("note", "data", "no table [data]: it can be planned, not run", "add [data] to train it"),
        ]
    if importlib.util.find_spec("torch") is None:
        return [*diagnoses, Diagnosis("error", "torch", "not installed, and needed to train", install("train"))]
    from ..training.setup import TrainingSetup

    try:
        setup = TrainingSetup.from_scenario(scenario)
    except ScenarioError as error:
        return [*diagnoses, Diagnosis("error", "scenario", str(error))]
    diagnoses += _data(setup)
    try:
        diagnoses += _networks(setup)
        if not any(
            diagnosis.level == "error" for diagnosis in diagnoses
        ):  # what cannot be pruned cannot be counted either
            diagnoses += _facts(scenario, setup)
    except RelayTrainError as error:
        diagnoses.append(Diagnosis("error", "versions", str(error)))
    return diagnoses


def _plan_size(scenario: Scenario) -> Iterator[Diagnosis]:
    """What the plan will take."""
    planner, start = planner_for(scenario), State(0, scenario.problem.initial_loss, 0.0, scenario.problem.start)
    size = plan_size(planner, scenario.problem, scenario.costs, scenario.law, start)
    if size is None:
        return
    try:
        check_plan_size(planner, scenario.problem, scenario.costs, scenario.law, start)
    except ScenarioError as error:
        yield Diagnosis("error", "plan", str(error))
    else:
        yield Diagnosis("ok", "plan", f"takes {size.words}")


def _impossible(scenario: Scenario) -> Iterator[Diagnosis]:
    """Pairs that can never run, as the scenario's own figures say."""
    for index, pair in enumerate(scenario.problem.pairs):
        why = scenario.costs.why_not(index, index)
        if why is not None:
            yield Diagnosis("note", str(pair), f"never used: {why}")


def _data(setup: TrainingSetup) -> Iterator[Diagnosis]:
    sizes = ", ".join(f"{name} {len(data)}" for name, data in setup.datasets.items())
    reserved = f"validation {len(setup.validation)}, test {len(setup.test)}"
    yield Diagnosis("ok", "data", f"images {list(setup.validation.input)}: {sizes}, {reserved}")
    seen: set[int] = set()
    for name, data in setup.datasets.items():
        present = _present(data)
        seen |= present
        if len(data) < FEW_SAMPLES:
            yield Diagnosis(
                "error", f"data of {name}", f"{len(data)} image", "give it at least two: batch norm needs them"
            )
        elif len(data) < setup.settings.batch:
            words = f"{len(data)} images, less than a batch of {setup.settings.batch}"
            yield Diagnosis("note", f"data of {name}", words, "each of its epochs is a single step")
        if len(present) == 1:
            yield Diagnosis("warning", f"data of {name}", "all of one class", "it can teach nothing else")
        if data.input != setup.validation.input:
            shapes = f"images {list(data.input)}, validation has {list(setup.validation.input)}"
            yield Diagnosis("error", f"data of {name}", shapes, "bring them to one shape")
    unseen = sorted(_present(setup.target_set()) - seen)
    if unseen:
        shown = ", ".join(map(str, unseen[:10]))
        yield Diagnosis("warning", "data", f"no node holds class {shown}, the target set does", "give it to some node")


def _present(data: Dataset) -> set[int]:
    return {label for label, count in enumerate(data.histogram().tolist()) if count}


def _networks(setup: TrainingSetup) -> Iterator[Diagnosis]:
    """Each network of its own: trained forward, pruned, saved, rebuilt; what refuses is named."""
    from ..export.network_formats import example_input
    from .network_check import check_network

    for plan in setup.versions.values():
        if plan.way == "pruned":
            continue
        checkpoint = setup.initial(plan.name)
        faults = check_network(checkpoint.model(resolve=setup.resolve).train(), example_input(setup.validation.input))
        prunes = any(other.way == "pruned" for other in setup.versions.values()) and plan.name == setup.full.name
        for fault in faults:
            # a network that nobody prunes may well refuse to be pruned
            level: Level = fault.level if prunes or fault.where in ("model", "forward") else "note"
            yield Diagnosis(level, f"{plan.name}: {fault.where}", fault.what, fault.remedy)
        if not faults:
            yield Diagnosis("ok", plan.name, "trains, prunes and is rebuilt bit for bit")


def _facts(scenario: Scenario, setup: TrainingSetup) -> Iterator[Diagnosis]:
    """Counted sizes against declared ones, and against the memory of every device."""
    declared = {version.name: version for version in scenario.problem.versions}
    devices: Mapping[str, Any] = scenario.resolved.get("devices") or {}
    settings = scenario.resolved["costs"]
    for name, facts in setup.version_facts().items():
        ratio = f", {facts.reached_ratio:.1%} of the parameters removed" if facts.reached_ratio else ""
        sizes = f"{_thousands(facts.parameters)} parameters, {_thousands(facts.flops_per_sample)} FLOPs a sample{ratio}"
        yield Diagnosis("ok", name, sizes)
        for key in ("parameters", "flops_per_sample"):
            said, counted = getattr(declared[name], key), getattr(facts, key)
            if said and abs(said / counted - 1.0) > FAR_OFF:
                words = f"the scenario says {_thousands(said)}, counted are {_thousands(counted)}"
                yield Diagnosis("warning", f"{name}.{key}", words, "correct it: plans rest on the scenario's figure")
        held = facts.weight_bytes * settings["weight_copies"] + settings["batch"] * facts.activation_bytes_per_sample
        for node in scenario.problem.nodes:
            limit = (devices.get(node.device or "") or {}).get("memory_bytes") or math.inf
            if held > limit and _trains(setup, name, node.name):
                words = f"needs {held / 1e6:.3g} MB to train, {node.name} has {limit / 1e6:.3g} MB"
                yield Diagnosis("note", name, words, "pairs with this node are impossible")


def _thousands(value: float) -> str:
    return f"{value:_.0f}".replace("_", " ")


def _trains(setup: TrainingSetup, version: str, node: str) -> bool:
    sets = [s for s in setup.problem.node_sets if node in s.nodes and s.mode == "federated"]
    return any(Pair(version, s.name) in setup.problem.pairs for s in sets)
