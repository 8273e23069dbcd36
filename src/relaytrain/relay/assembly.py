"""From a scenario to a job: data, versions, transport, clock, planner and estimator put together. Imports torch."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..core.cost import CostTable
from ..core.plan import Decision
from ..core.planner_names import PLAN_ONCE
from ..core.problem import Problem
from ..core.protocols import Estimator, Planner, Transport
from ..costs.clock import EmulatedClock, MeasuredClock, RunClock, node_weights
from ..costs.meters import find_meter
from ..estimators.choose import estimator_for, fitted_of
from ..estimators.learned.pair_facts import facts_of
from ..executors.inprocess import InProcess
from ..executors.pipelined import members_of
from ..executors.processes import Processes
from ..models.spec import adapter_of
from ..planners.registry import planner_for
from ..scenario import Scenario
from ..scenario.own_code import loaded_code, references_of
from ..training.known_data import classes_of
from ..training.setup import TrainingSetup
from ..training.soundness import check_sound
from .job import Job, Settings
from .runner import TorchRunner

SLOW_FLOPS_PER_S, SLOW_BATCH_S = 1e9, 0.01
"""A slow machine: operations a second, and what a batch costs beside them. Used for deadlines only."""


def job_of(
    scenario: Scenario,
    *,
    setup: TrainingSetup | None = None,
    planner: Planner | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> Job:
    """The job of a scenario that has `[data]`; the caller closes `job.runner`."""
    setup = setup if setup is not None else TrainingSetup.from_scenario(scenario)
    check_sound(setup)
    chosen = planner_for(scenario, planner)
    settings = setup.settings
    known = {
        "scenario": dict(scenario.resolved),
        "planner": getattr(chosen, "name", scenario.planner.name),
        "versions": {name: facts.to_dict() for name, facts in setup.version_facts().items()},
        "node_sets": _node_sets(setup),
        "input": setup.input_shape,
        "preprocessing": setup.preprocessing.to_dict(),
        **({"not_promised": list(setup.caveats)} if setup.caveats else {}),
        **(_origin(scenario, setup, planner) if manifest is None else manifest),
    }
    fitted = fitted_of(scenario)
    if fitted is not None:
        known["estimator"] = {"name": fitted.name, "sha256": fitted.digest}
        facts_of(counted(setup, scenario.problem))  # refuses now what it would refuse after the first probe

    def estimator(problem: Problem) -> Estimator:
        return estimator_for(scenario, problem if fitted is None else counted(setup, problem), fitted)

    transport = transport_of(setup)
    clock = clock_of(setup, devices=scenario.resolved.get("devices"))
    return Job(
        scenario.problem,
        possible_changes(setup, scenario.problem, scenario.costs),
        scenario.law,
        estimator,
        chosen,
        TorchRunner(
            setup,
            transport,
            clock.meter,
            pipelines=members_of(setup, scenario.resolved),
            expected_s=expected_wall_s(setup, scenario.costs),
        ),
        Settings(
            when_infeasible=settings.when_infeasible,
            replan=planner is not None or scenario.planner.name not in PLAN_ONCE,
            thin=all(plan.grow != "checkpoint" for plan in setup.versions.values()),
            seed=settings.seed,
            threads=settings.threads,
        ),
        known,
        scenario.depl,
        clock,
        caveats=setup.caveats,
        judged_by=setup.step().judged_by,
        astray=tuple(f"version {name}: {each.astray}" for name, each in setup.version_facts().items() if each.astray),
    )


def transport_of(setup: TrainingSetup) -> Transport:
    """The transport that the settings name."""
    settings = setup.settings
    if settings.transport == "flower":
        from ..executors.flower.inside import the_grid

        grid = the_grid()
        from ..executors.flower.transport import FlowerTransport

        return FlowerTransport(setup, grid)
    return Processes(setup, settings.workers) if settings.transport == "processes" else InProcess(setup)


def _origin(scenario: Scenario, setup: TrainingSetup, planner: Planner | None) -> dict[str, Any]:
    """What it takes to do it again: folder and files of the user's own code, and the command line."""
    setup.step()  # all code that the scenario names is loaded now
    setup.own_training()
    references = references_of(scenario.resolved)
    known: dict[str, Any] = {"code": loaded_code(setup.folder, references)} if references else {}
    if setup.folder is not None and scenario.preset is None:
        known["folder"] = str(setup.folder.resolve())
    source = scenario.preset or scenario.source
    if source is not None and planner is None:
        changes = [word for change in scenario.overrides for word in ("--set", change)]
        left_out = [word for name in scenario.without for word in ("--without", name)]
        known["command"] = shlex.join(["relaytrain", "run", str(source), *changes, *left_out])
    return known


def clock_of(setup: TrainingSetup, *, devices: Mapping[str, Mapping[str, Any]] | None = None) -> RunClock:
    """The clock that the settings name; `devices`: profiles by name as in `Scenario.resolved["devices"]`."""
    settings = setup.settings
    if settings.clock == "measured":
        gpu = any(device.startswith("cuda") for device in (settings.device, *settings.devices.values()))
        return MeasuredClock(find_meter(gpu=gpu), count_pauses=settings.count_pauses)
    return EmulatedClock(node_weights(setup.problem, devices or {}), settings.charge_lost_work)


def expected_wall_s(setup: TrainingSetup, costs: CostTable) -> Callable[[Decision], float]:
    """Wall seconds that an epoch may take before any was seen, for its deadline.

    On the measured clock the cost table holds such seconds, of the slowest node; nodes may have to take turns here.
    On the emulated one it holds those of other devices: the work itself is counted then, at a slow machine's pace.
    """
    settings, problem, facts = setup.settings, setup.problem, setup.version_facts()

    def expected(decision: Decision) -> float:
        nodes = setup.nodes_of(decision.nodes)
        run_s = float(costs.run_s[problem.index(decision.pair)])
        if settings.clock == "measured" and math.isfinite(run_s):
            return run_s * len(nodes) / decision.resources
        counts = [setup.samples_at(node, decision.datasets) or setup.counted_at(node) for node in nodes]
        if not all(counts):
            return math.inf  # nobody knows
        samples = sum(counts) * settings.local_epochs
        batches = samples / settings.batch + len(nodes)
        return samples * facts[decision.version].flops_per_sample / SLOW_FLOPS_PER_S + batches * SLOW_BATCH_S

    return expected


def counted(setup: TrainingSetup, problem: Problem) -> Problem:
    """`problem` with samples, classes and parameters as they are, where its file leaves them out."""
    facts = setup.version_facts()
    nodes = []
    for node in problem.nodes:
        if node.name in setup.datasets:
            classes = node.classes or classes_of(setup.datasets[node.name])
            node = replace(node, samples=setup.samples_at(node.name) or node.samples, classes=classes)
        nodes.append(node)
    versions = tuple(replace(v, parameters=v.parameters or facts[v.name].parameters) for v in problem.versions)
    return replace(problem, nodes=tuple(nodes), versions=versions)


def _node_sets(setup: TrainingSetup) -> dict[str, dict[str, int | None]]:
    """Samples and classes of every node set that trains."""
    groups = [group.name for group in setup.problem.node_sets if group.nodes]
    known = {}
    for name in groups:
        data = setup.data_of(name)
        known[name] = {"samples": sum(map(setup.counted_at, setup.owners_of(name))), "classes": classes_of(data)}
    return known


def possible_changes(setup: TrainingSetup, problem: Problem, costs: CostTable) -> CostTable:
    """`costs` with infinity for handovers that training cannot do: to a larger version without a declared way."""
    change_s, change_j, reasons = costs.change_s.copy(), costs.change_j.copy(), dict(costs.reasons)
    for i, before in enumerate(problem.pairs):
        for j, now in enumerate(problem.pairs):
            if before.version == now.version or not math.isfinite(change_s[i, j]):
                continue
            old, new = setup.plan(before.version), setup.plan(now.version)
            if setup.is_slice(before.version, now.version):
                continue  # both ways, without a `grow`
            prunable = old.way in ("network", "nested") or (old.way == "pruned" and old.ratio <= new.ratio)
            shrinks = new.way == "pruned" and prunable
            ranks = all(plan.spec is not None and adapter_of(plan.spec) is not None for plan in (old, new))
            if new.way != "student" and new.grow is None and not shrinks and not ranks:
                change_s[i, j] = change_j[i, j] = math.inf
                reasons[i, j] = f"no way from {before.version} to {now.version}: give {now.version} a `grow`"
    return replace(costs, change_s=change_s, change_j=change_j, reasons=reasons)
