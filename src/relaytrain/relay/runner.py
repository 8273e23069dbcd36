"""From a scenario to a job: data, versions, transport, clock, planner and estimator put together. Imports torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..core.cost import CostTable
from ..core.errors import UsageError
from ..core.plan import Decision
from ..core.problem import Pair, Problem
from ..core.protocols import Estimator, Planner, Transport
from ..estimators.choose import estimator_for, fitted_of
from ..estimators.learned.pair_facts import facts_of
from ..executors.choose import make_transport
from ..executors.clock import RunClock, make_clock
from ..executors.epoch import FederatedEpoch, TrainedEpoch
from ..executors.pipelined import Members, PipelinedEpoch, members_of
from ..planners.registry import planner_named
from ..scenario import Scenario, resolve
from ..training.checkpoint import Checkpoint
from ..training.conformal import prediction_sets
from ..training.evaluate import evaluate
from ..training.handover import hand_over
from ..training.local import Site
from ..training.setup import TrainingSetup
from .job import Earlier, EpochResult, Handed, Job, Probe, Settings

PLAN_ONCE = ("one-switch", "static-learn", "single")
"""Baselines: they plan once and keep to it, as in the papers."""

TRIES_OF_AN_EPOCH = 2
"""The executors try an epoch's failed nodes once more: numbers of attempts leave room for that."""

_NODE_KEYS = ("node", "samples", "train_loss", "cpu_s", "wall_s", "elapsed_s", "energy_j")


class TorchRunner:
    """`Runner` over a training setup: real epochs on real data."""

    def __init__(
        self, setup: TrainingSetup, transport: Transport, clock: RunClock, pipelines: Members | None = None
    ) -> None:
        self.setup, self.transport, self.clock = setup, transport, clock
        self.epochs = FederatedEpoch(setup, transport, clock)
        self.pipelined = PipelinedEpoch(setup, pipelines or {}, clock)
        self._test: Site | None = None

    def first(self) -> Checkpoint:
        """Initial weights from the seed, or the start file."""
        return self.setup.first_checkpoint()

    def to_bytes(self, checkpoint: Checkpoint) -> bytes:
        """Safetensors."""
        return checkpoint.to_bytes()

    def from_bytes(self, data: bytes) -> Checkpoint:
        """Checked against its own spec."""
        return Checkpoint.from_bytes(data)

    def probe(self, checkpoint: Checkpoint) -> Probe:
        """Loss by the target's metric on the target's set."""
        found = self.epochs.evaluate(checkpoint)
        return Probe(found.metric(self.setup.problem.target.metric), found.accuracy)

    def test(self, checkpoint: Checkpoint) -> Probe:
        """Loss, accuracy and conformal prediction sets on the test set."""
        if self._test is None:
            self._test = Site.of(self.setup.test)
        model = checkpoint.model(resolve=self.setup.resolve)
        found = evaluate(model, self._test, loss=self.setup.loss(), thread_count=self.setup.settings.threads)
        sets = None
        if self.setup.settings.loss == "cross-entropy":
            made = prediction_sets(model, self._test, seed=self.setup.settings.seed)
            sets = None if made is None else made.to_dict()
        return Probe(found.loss, found.accuracy, sets)

    def hand_over(self, checkpoint: Checkpoint, before: Pair, decision: Decision, earlier: Earlier) -> Handed:
        """Prune, distil, restore or just move; metered on the measured clock."""
        meter = self.clock.meter
        mark = meter.begin() if meter is not None else None
        kept = earlier(decision.version) if self.setup.plan(decision.version).grow == "checkpoint" else None
        last = None if kept is None else Checkpoint.from_bytes(kept)
        made = hand_over(self.setup, checkpoint, decision.version, decision.nodes, last=last)
        energy_j = meter.end(mark).energy_j if meter is not None and mark is not None else 0.0
        probe = {
            "train_loss_before": self._on(checkpoint, decision.nodes),
            "train_loss_after": self._on(made.checkpoint, decision.nodes),
        }
        if not all(math.isfinite(loss) for loss in probe.values()):
            probe = {}  # the orchestrator's own probe decides whether to go on
        return Handed(made.checkpoint, made.kind, made.reached_ratio, made.elapsed_s, energy_j, made.cpu_s, probe)

    def _on(self, checkpoint: Checkpoint, nodes: str) -> float:
        """Forward loss on a node set's own data; not charged."""
        site = Site.of(self.setup.data_of(nodes))
        model = checkpoint.model(resolve=self.setup.resolve)
        return evaluate(model, site, loss=self.setup.loss(), thread_count=self.setup.settings.threads).loss

    def run_epoch(self, decision: Decision, checkpoint: Checkpoint, *, run: str, attempt: int = 0) -> EpochResult:
        """Train on every node and average, or stage by stage; evaluate."""
        done: TrainedEpoch
        if self.setup.problem.mode_of(decision.nodes) == "pipeline":
            done = self.pipelined.run_epoch(decision, checkpoint)
        else:
            done = self.epochs.run_epoch(decision, checkpoint, run=run, attempt=attempt * TRIES_OF_AN_EPOCH)
        nodes = [{key: value for key, value in report.to_dict().items() if key in _NODE_KEYS} for report in done.nodes]
        details = {"train_loss": done.train_loss, "accuracy": done.evaluation.accuracy, "nodes": nodes}
        failures = tuple((r.node, r.attempt, r.error or r.kind or "no answer") for r in done.failures)
        return EpochResult(done.outcome, done.checkpoint, details, failures)

    def close(self) -> None:
        """End worker processes."""
        close: Callable[[], None] | None = getattr(self.transport, "close", None)
        if close is not None:
            close()


def job_of(
    scenario: Scenario,
    *,
    setup: TrainingSetup | None = None,
    planner: Planner | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> Job:
    """The job of a scenario that has `[data]`; the caller closes `job.runner`."""
    setup = setup if setup is not None else TrainingSetup.from_scenario(scenario)
    named = scenario.planner
    made = planner or planner_named(named.name, rule=named.rule, grid=named.grid, depl=scenario.depl)
    settings = setup.settings
    known = {
        "scenario": dict(scenario.resolved),
        "planner": getattr(made, "name", named.name),
        "versions": {name: facts.to_dict() for name, facts in setup.version_facts().items()},
        "node_sets": _node_sets(setup),
        "code": {ref: resolve(ref, setup.folder).sha256 for ref in setup.references},
        **(manifest or {}),
    }

    fitted = fitted_of(scenario)
    if fitted is not None:
        known["estimator"] = {"name": fitted.name, "sha256": fitted.digest}
        facts_of(counted(setup, scenario.problem))  # refuses now what it would refuse after the first probe

    def estimator(problem: Problem) -> Estimator:
        return estimator_for(scenario, problem if fitted is None else counted(setup, problem))

    costs = possible_changes(setup, scenario.problem, scenario.costs)
    clock = make_clock(setup, costs, devices=scenario.resolved.get("devices"), prices=scenario.depl)
    return Job(
        scenario.problem,
        costs,
        scenario.law,
        estimator,
        made,
        TorchRunner(setup, make_transport(setup), clock, members_of(setup, scenario.resolved)),
        Settings(
            clock=settings.clock,
            when_infeasible=settings.when_infeasible,
            charge_lost_work=settings.charge_lost_work,
            replan=planner is not None or named.name not in PLAN_ONCE,
            thin=all(plan.grow != "checkpoint" for plan in setup.versions.values()),
            seed=settings.seed,
            threads=settings.threads,
        ),
        known,
        scenario.depl,
    )


def counted(setup: TrainingSetup, problem: Problem) -> Problem:
    """`problem` with samples, classes and parameters as they are, where its file leaves them out."""
    facts = setup.version_facts()
    nodes = []
    for node in problem.nodes:
        data = setup.datasets.get(node.name)
        if data is not None:
            node = replace(node, samples=len(data), classes=node.classes or len(set(data.labels.tolist())))
        nodes.append(node)
    versions = tuple(replace(v, parameters=v.parameters or facts[v.name].parameters) for v in problem.versions)
    return replace(problem, nodes=tuple(nodes), versions=versions)


def _node_sets(setup: TrainingSetup) -> dict[str, dict[str, int]]:
    """Samples and classes of every node set that trains."""
    groups = [group.name for group in setup.problem.node_sets if group.nodes]
    data = {name: setup.data_of(name) for name in groups}
    return {name: {"samples": len(part), "classes": int((part.histogram() > 0).sum())} for name, part in data.items()}


def possible_changes(setup: TrainingSetup, problem: Problem, costs: CostTable) -> CostTable:
    """`costs` with infinity for handovers that training has no way to do: to a larger version without a declared one."""
    change_s, change_j, reasons = costs.change_s.copy(), costs.change_j.copy(), dict(costs.reasons)
    for i, before in enumerate(problem.pairs):
        for j, now in enumerate(problem.pairs):
            if before.version == now.version or not math.isfinite(change_s[i, j]):
                continue
            old, new = setup.plan(before.version), setup.plan(now.version)
            shrinks = new.way == "pruned" and (old.way == "network" or (old.way == "pruned" and old.ratio <= new.ratio))
            if new.way != "student" and new.grow is None and not shrinks:
                change_s[i, j] = change_j[i, j] = math.inf
                reasons[i, j] = f"no way from {before.version} to {now.version}: give {now.version} a `grow`"
    return replace(costs, change_s=change_s, change_j=change_j, reasons=reasons)


def check_same(started: Mapping[str, Any], job: Job, *, allow_inexact: bool = False) -> list[str]:
    """What has changed since a run was started, of what its last bits depend on.

    Raises:
        UsageError: something has, and `allow_inexact` is not given.
    """
    from .events import EXACT_PACKAGES, packages

    now, then = packages(), started.get("packages", {})
    changed = [
        f"{name} {then[name]} -> {now.get(name)}"
        for name in EXACT_PACKAGES
        if name in then and then[name] != now.get(name)
    ]
    if started.get("threads", job.settings.threads) != job.settings.threads:
        changed.append(f"threads {started['threads']} -> {job.settings.threads}")
    fits = [entry.get("estimator", {}).get("sha256") for entry in (started, job.manifest)]
    if fits[0] != fits[1]:
        changed.append("the fitted estimator")
    code = job.manifest.get("code", {})
    changed += [f"the code of {ref}" for ref, sha in started.get("code", {}).items() if code.get(ref) != sha]
    if changed and not allow_inexact:
        raise UsageError(
            f"changed since this run was started: {'; '.join(changed)}; the result could differ from an undisturbed run. "
            "Go back to what it was, or accept that with --allow-inexact"
        )
    return changed


def needs_code(scenario: Scenario) -> bool:
    """Whether a scenario names functions of the user's own."""
    versions = scenario.resolved.get("versions", ())
    named = [scenario.data.get("source"), scenario.training.get("loss")]
    named += [version.get(key) for version in versions for key in ("factory", "student")]
    return any(isinstance(name, str) and ":" in name for name in named)


def scenario_of(started: Mapping[str, Any], given: Scenario | None = None) -> Scenario:
    """The scenario of a run in a store; one that names the user's code has to be `given` again, and be the same.

    A store may come from anywhere, so code is imported only for a scenario of the local command line or of Python.
    """
    from ..scenario import load_scenario

    kept = started.get("scenario")
    if not isinstance(kept, Mapping) or started.get("in_memory"):
        raise UsageError(
            "this run was started from Python, with a module of that process; go on with rt.train(..., resume=RUN)"
        )
    loaded = load_scenario(kept)
    if given is not None:
        if given.digest != loaded.digest:
            raise UsageError(
                "the scenario given is not the one this run was started with; start a new run for another one"
            )
        return given
    if needs_code(loaded):
        raise UsageError(
            "this run uses code of your own: name its scenario too, `relaytrain resume RUN --scenario FILE`"
        )
    return loaded
