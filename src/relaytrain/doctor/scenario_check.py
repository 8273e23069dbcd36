"""A scenario's data, networks and memory: what a run would stumble over. Nothing is trained, nothing is changed."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import RelayTrainError, ScenarioError
from ..core.problem import Pair
from ..planners.plan_size import plan_size
from ..planners.registry import planner_for
from ..scenario import Scenario
from .diagnosis import Diagnosis, install
from .own_check import own_data_check, own_networks_check

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..training.setup import TrainingSetup
    from ..training.version_plans import VersionPlan

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
    looks = [_data(setup), _sound(setup), _networks(setup), _steps(setup), _facts(scenario, setup)]
    if setup.own_data:
        looks[:4] = [_sound(setup), own_data_check(setup), own_networks_check(setup)]
    try:
        for look in looks:
            if any(diagnosis.level == "error" for diagnosis in diagnoses):
                break  # what does not run cannot be pruned, what cannot be pruned cannot be counted
            diagnoses += look
    except RelayTrainError as error:
        diagnoses.append(Diagnosis("error", "versions", str(error)))
    return diagnoses


def _plan_size(scenario: Scenario) -> Iterator[Diagnosis]:
    """What the plan will take."""
    planner, start = planner_for(scenario), scenario.problem.first_state
    try:
        size = plan_size(planner, scenario.problem, scenario.costs, scenario.law, start)
    except ScenarioError as error:
        yield Diagnosis("error", "plan", str(error))
        return
    if size is not None:
        yield Diagnosis("ok", "plan", f"takes {size.words}")


def _impossible(scenario: Scenario) -> Iterator[Diagnosis]:
    """Pairs that can never run, as the scenario's own figures say."""
    for index, pair in enumerate(scenario.problem.pairs):
        why = scenario.costs.why_not(index, index)
        if why is not None:
            yield Diagnosis("note", str(pair), f"never used: {why}")


def _data(setup: TrainingSetup) -> Iterator[Diagnosis]:
    from ..training.datasets import in_memory

    held = {name: in_memory(data) for name, data in setup.datasets.items()}
    sizes = ", ".join(f"{name} {len(data)}" for name, data in held.items())
    validation, test = in_memory(setup.validation), in_memory(setup.test)
    reserved = f"validation {len(validation)}, test {len(test)}"
    yield Diagnosis("ok", "data", f"images {list(validation.input)}: {sizes}, {reserved}")
    seen: set[int] = set()
    for name, data in held.items():
        present = _present(data)
        seen |= present
        if len(data) < setup.settings.batch:
            words = f"{len(data)} image{'s' * (len(data) > 1)}, less than a batch of {setup.settings.batch}"
            yield Diagnosis("note", f"data of {name}", words, "each of its epochs is a single step")
        if len(present) == 1:
            yield Diagnosis("warning", f"data of {name}", "all of one class", "it can teach nothing else")
    unseen = sorted(_present(in_memory(setup.target_set())) - seen)
    if unseen:
        shown = ", ".join(map(str, unseen[:10]))
        yield Diagnosis("warning", "data", f"no node holds class {shown}, the target set does", "give it to some node")


def _present(data: Dataset) -> set[int]:
    return {label for label, count in enumerate(data.histogram().tolist()) if count}


def _sound(setup: TrainingSetup) -> Iterator[Diagnosis]:
    """What would end any run before its first epoch."""
    from ..training.soundness import faults

    for fault in faults(setup):
        yield Diagnosis("error", "scenario", str(fault))
    if setup.settings.start is not None:
        setup.first_checkpoint()  # raises what is wrong with the file


def _networks(setup: TrainingSetup) -> Iterator[Diagnosis]:
    """Each network of its own: run forward, saved, rebuilt and, where the scenario asks for it, pruned."""
    from ..export.network_formats import example_input
    from .network_check import check_network

    for plan in setup.versions.values():
        if plan.way in ("pruned", "nested"):
            continue
        smaller = any(other.way in ("pruned", "nested") for other in setup.versions.values())
        prunes = smaller and plan.name == setup.full.name
        model = setup.initial(plan.name).model(resolve=setup.resolve).train()
        example, keep = example_input(tuple(setup.example.shape[1:])), setup.settings.keep
        faults = check_network(model, example, prunes=prunes, keep=keep)
        for fault in faults:
            yield Diagnosis(fault.level, f"{plan.name}: {fault.where}", fault.what, fault.remedy)
        if not faults:
            yield Diagnosis("ok", plan.name, f"{'trains, prunes' if prunes else 'trains'} and is rebuilt bit for bit")


def _steps(setup: TrainingSetup) -> Iterator[Diagnosis]:
    """One step of every network on a batch of every node, and a look at how it does on the two sets apart."""
    from ..training.datasets import in_memory
    from ..training.own_soundness import network_of
    from ..training.soundness import step_fault

    own = [plan for plan in setup.versions.values() if plan.spec is not None]
    wrong = [fault for plan in own for node in setup.datasets if (fault := step_fault(setup, plan, node)) is not None]
    for words in dict.fromkeys(map(str, wrong)):
        yield Diagnosis("error", "training", words)
    if not wrong:
        for data in (setup.validation, setup.test):
            few = in_memory(data).part(np.arange(min(len(data), setup.settings.batch)))
            setup.evaluate(network_of(setup, setup.full), few)
        yield Diagnosis("ok", "training", f"a step of {_listed(own)} on the data of every node")


def _listed(plans: list[VersionPlan]) -> str:
    return ", ".join(plan.name for plan in plans)


def _facts(scenario: Scenario, setup: TrainingSetup) -> Iterator[Diagnosis]:
    """Counted sizes against declared ones, and against the memory of every device."""
    declared = {version.name: version for version in scenario.problem.versions}
    devices: Mapping[str, Any] = scenario.resolved.get("devices") or {}
    settings = scenario.resolved["costs"]
    for name, facts in setup.version_facts().items():
        what = {"flops": "FLOPs"}.get(facts.ratio_in, facts.ratio_in)
        ratio = f", {facts.reached_ratio:.1%} of the {what} removed" if facts.reached_ratio else ""
        sizes = f"{_thousands(facts.parameters)} parameters, {_thousands(facts.flops_per_sample)} FLOPs a sample{ratio}"
        base = f", on a frozen base of {_thousands(facts.fixed_bytes)} bytes" if facts.fixed_bytes else ""
        yield Diagnosis("ok", name, sizes + base)
        if facts.astray:
            student = "" if setup.own_data else ", or reach it by a student"
            yield Diagnosis("warning", name, facts.astray, f"ask for what can be reached{student}")
        for key in ("parameters", "flops_per_sample"):
            said, counted = getattr(declared[name], key), getattr(facts, key)
            if said and counted and abs(said / counted - 1.0) > FAR_OFF:
                words = f"the scenario says {_thousands(said)}, counted are {_thousands(counted)}"
                yield Diagnosis("warning", f"{name}.{key}", words, "correct it: plans rest on the scenario's figure")
        held = facts.weight_bytes * settings["weight_copies"] + settings["batch"] * facts.activation_bytes_per_sample
        held += facts.fixed_bytes
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
