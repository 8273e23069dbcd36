"""What the loop writes of a run and how it reads it back: the bodies of events, as JSON.

`docs/formats.md` has the table of bodies. Reports and audits read the same events; nothing else is written of a run.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any, get_args

from ..core.errors import ScenarioError, StoreDamaged
from ..core.law_json import costs_to_json, law_to_json
from ..core.outcome import EpochOutcome, EpochResult, Evaluation, Handed, VerdictKind
from ..core.plan import Decision, Plan, finite, or_infinite, plain
from ..core.problem import Mode, Pair, Problem
from ..core.state import State
from ..costs.clock import Booked, Spent
from ..planners.pact.forecast import forecast
from ..store import Event
from ..store.rules import Progress
from .steering import Lost, Step
from .widening import StatedBound

RUN_SCHEMA = "relaytrain.run/1"
ORCHESTRATOR = "orchestrator"
"""The name under which a `node_failed` event books work that was lost with the orchestrator's own process."""

LONGEST_BAND = 512
"""Epochs of a plan's band that are kept: plans without a deadline can be very long."""

INTERRUPTED = "the run was interrupted during this epoch"
NON_FINITE = "non-finite"
IMPLAUSIBLE = "implausible"
WORKER_LOST = "worker lost"
DAMAGED = "damaged checkpoint"

_PACKAGES = ("numpy", "torch", "torch-pruning", "relaytrain")
EXACT_PACKAGES = ("numpy", "torch", "torch-pruning")
"""Resuming under another version of these could change the last bits of the weights."""

Json = dict[str, Any]


def packages() -> dict[str, str]:
    """Versions that results may depend on."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def decision_json(decision: Decision) -> Json:
    """The fields of a decision."""
    return {**asdict(decision), "datasets": list(decision.datasets)}


def decision_from(body: Mapping[str, Any]) -> Decision:
    """The decision that was written.

    Raises:
        ValueError, TypeError: it is none.
    """
    decision = Decision(**{**body, "datasets": tuple(body.get("datasets", ()))})
    texts = isinstance(decision.version, str) and isinstance(decision.nodes, str) and decision.mode in get_args(Mode)
    if not (texts and all(isinstance(name, str) for name in decision.datasets)):
        raise ValueError(f"a decision for {decision.version!r:.40} on {decision.nodes!r:.40}")
    if not (
        isinstance(decision.epoch, int)
        and isinstance(decision.resources, int | float)
        and 0.0 < decision.resources <= 1.0
    ):
        raise ValueError(
            f"a decision for epoch {decision.epoch!r:.40} with {decision.resources!r:.40} of the resources"
        )
    return decision


def state_json(state: State, pair: Pair) -> Json:
    """A state with its pair in words."""
    return {
        "epoch": state.epoch,
        "loss": state.loss,
        "elapsed_s": state.elapsed_s,
        "energy_j": state.energy_j,
        "pair": list(pair),
    }


def state_from(body: Mapping[str, Any], problem: Problem) -> State:
    """The state that was written."""
    figures = int(body["epoch"]), float(body["loss"]), float(body["elapsed_s"])
    return State(*figures, problem.index(Pair(*body["pair"])), float(body["energy_j"]))


def plan_json(plan: Plan) -> Json:
    """A plan without what its legs and bands say already."""
    whole = plan.to_dict(by_epoch=False)
    for name in ("expected_loss", "guaranteed_loss"):
        whole[name] = whole[name][:LONGEST_BAND]
    return whole


def planned_body(step: Step, problem: Problem, path: Sequence[Pair] | None = None) -> Json:
    """The body of `planned`: the decision and all it rests on, so that it can be planned again without torch.

    `path`: the pairs of a plan that is made once and followed.
    """
    state, pairs = step.state, problem.pairs
    to_go = forecast(problem, step.plan, step.law, step.costs, state, replan=path is None)
    before = state.pair
    top = max(state.loss, step.plan.start_loss, 1.0) * 2.0
    return {
        "decision": decision_json(step.decision),
        "state": state_json(state, pairs[before]),
        "plan": plan_json(step.plan),
        "law": law_to_json(step.law, pairs=len(pairs), top=top),
        "costs": costs_to_json(step.costs),
        "predicted": {
            "loss": finite(step.predicted),
            "guaranteed": finite(step.guaranteed),
            "level": step.level,
            "elapsed_s": finite(step.elapsed_s),
            "energy_j": finite(step.energy_j),
            "to_go_j": [finite(value) for value in to_go],
        },
        "notes": list(step.notes),
        **({} if path is None else {"path": [list(pair) for pair in path]}),
    }


def handover_body(handed: Handed, before: Pair, after: Pair, *, losses: tuple[float, float], spent: Spent) -> Json:
    """The body of `handover` but for its checkpoint; `losses` before and after, `spent` on the run's clock."""
    return {
        "before": list(before),
        "after": list(after),
        "kind": handed.kind,
        "loss_before": losses[0],
        "loss_after": losses[1],
        "elapsed_s": spent.elapsed_s,
        "energy_j": spent.energy_j,
        "reached_ratio": handed.reached_ratio,
        "cpu_s": handed.cpu_s,
        **({"probe": dict(handed.probe)} if handed.probe else {}),
        **({"note": handed.note} if handed.note else {}),
    }


_NODE_KEYS = ("node", "samples", "train_loss", "cpu_s", "wall_s", "elapsed_s", "energy_j", "provenance", "flops")


def done_body(booked: Booked, result: EpochResult, *, blob: str) -> Json:
    """The body of `epoch_done`, all but measured details on the run's clock; numbers that are none become null."""
    outcome = booked.outcome
    figures = result.evaluation.figures
    optional = {"cpu_s": outcome.cpu_s, "wall_s": outcome.wall_s, "handover_loss": outcome.handover_loss}
    return {
        "decision": decision_json(outcome.decision),
        "loss": outcome.loss,
        "elapsed_s": outcome.elapsed_s,
        "energy_j": outcome.energy_j,
        "provenance": outcome.provenance,
        **{key: value for key, value in optional.items() if value is not None and math.isfinite(value)},
        "wasted_s": booked.wasted.elapsed_s,
        "wasted_j": booked.wasted.energy_j,
        "failed_nodes": list(outcome.failed_nodes),
        "train_loss": finite(result.train_loss),
        "accuracy": finite(result.evaluation.accuracy),
        **({"figures": {k: finite(v) for k, v in figures.items()}} if figures else {}),
        "nodes": [{key: report[key] for key in _NODE_KEYS} for report in map(plain, booked.nodes)],
        "blob": blob,
    }


def verdict_body(
    verdict: VerdictKind,
    progress: Progress,
    *,
    tested: Evaluation,
    notes: Sequence[str],
    metric: str = "loss",
    initial_loss: float | None = None,
    infeasible: bool = False,
) -> Json:
    """The body of `verdict`: all of it after the last epoch that stands, `initial_loss` before the first.

    `metric`: the target's; where it is not the loss, what the test set gives of it is `test_figure`.
    """
    sets = tested.prediction_sets
    figure = None
    if metric != "loss" and not math.isnan(tested.loss):
        with suppress(ScenarioError):  # nobody summed it for the test set
            figure = finite(tested.metric(metric))
    return {
        "verdict": verdict,
        "loss": progress.done[-1].loss if progress.done else initial_loss,
        "epochs": progress.epoch,
        "test_loss": finite(tested.loss),
        "test_accuracy": finite(tested.accuracy),
        **({} if figure is None else {"test_figure": figure}),
        **({} if sets is None else {"prediction_sets": dict(sets)}),
        **progress.totals.to_dict(),
        "infeasible": infeasible,
        "notes": list(notes),
    }


def outcome_from(body: Mapping[str, Any], handover: Mapping[str, Any] | None = None) -> EpochOutcome:
    """The epoch that an `epoch_done` tells of, and the `handover` before it if there was one."""
    handed = {} if handover is None else handover
    return EpochOutcome(
        decision_from(body["decision"]),
        float(body["loss"]),
        float(body["elapsed_s"]),
        float(body["energy_j"]),
        body.get("provenance", "modelled"),
        body.get("cpu_s"),
        body.get("wall_s"),
        body.get("handover_loss"),
        failed_nodes=tuple(body.get("failed_nodes", ())),
        handover_s=handed.get("elapsed_s"),
        handover_j=handed.get("energy_j"),
    )


@dataclass
class RunPast:
    """A run's events read back: the epochs that stand, what is forbidden, and how the last writer left it.

    `wall_s`: when the last event was written, by the clock on the wall; `latest_s`: the latest time any event has.
    """

    started: Mapping[str, Any] = field(default_factory=dict)
    history: list[EpochOutcome] = field(default_factory=list)
    planned: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    handover: Mapping[str, Any] | None = None
    forbidden: dict[Pair, str] = field(default_factory=dict)
    lost: dict[str, Lost] = field(default_factory=dict)
    roll_backs: int = 0
    attempts: int = 0
    path: tuple[Pair, ...] = ()
    feasible: bool = True
    ended_in_order: bool = False
    wall_s: float = 0.0
    latest_s: float = 0.0

    @classmethod
    def of(cls, events: Iterable[Event]) -> RunPast:
        """What `events` tell.

        Raises:
            StoreDamaged: one of them tells what no run writes, whatever its checksum says.
        """
        past, progress = cls(), Progress()
        for event in events:
            wrong = progress.feed(event.kind, event.epoch, event.body, event.fence)
            try:
                past._take(event)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                wrong = wrong or f"{event.kind} is not as runs write it: {type(error).__name__}: {str(error)[:200]}"
            if wrong:
                raise StoreDamaged(f"run {event.run}, event {event.seq}: {wrong}; see `relaytrain store check`")
        return past

    @property
    def stated(self) -> dict[int, StatedBound]:
        """What was predicted of every epoch's loss before it."""
        predicted = {epoch: body.get("predicted", {}) for epoch, body in self.planned.items()}
        return {
            epoch: StatedBound(float(entry["level"]), or_infinite(entry["guaranteed"]))
            for epoch, entry in predicted.items()
            if "level" in entry and "guaranteed" in entry
        }

    def _take(self, event: Event) -> None:
        body, epoch = event.body, event.epoch or 0
        self.wall_s, self.latest_s = event.wall_s, max(self.latest_s, event.wall_s)
        self.ended_in_order = event.kind == "verdict"
        if event.kind == "run_started":
            self.started = body
        elif event.kind == "planned":
            self.planned[epoch] = body
            if "decision" in body:
                decision_from(body["decision"])
            self.handover, self.attempts = None, 0
            self.path = tuple(Pair(*pair) for pair in body["path"]) if "path" in body else self.path
            self.feasible = body.get("plan", {}).get("feasible", True) is not False
        elif event.kind == "handover":
            self.handover = body
        elif event.kind == "node_failed":
            self.attempts = max(self.attempts, int(body.get("attempt", 0)) + 1)
        elif event.kind == "epoch_done":
            self.history.append(outcome_from(body, self.handover))
            self.lost.pop(self.history[-1].decision.nodes, None)
            self.handover, self.attempts = None, 0
        elif event.kind == "rolled_back":
            self._roll_back(body, epoch)
        elif event.kind == "verdict":
            self.roll_backs = 0
            self.lost.clear()  # whoever resumes may have brought the nodes back

    def _roll_back(self, body: Mapping[str, Any], epoch: int) -> None:
        del self.history[epoch:]
        self.handover, self.attempts = None, 0
        reason = str(body.get("reason", ""))
        if body.get("forbidden"):
            self.forbidden[Pair(*body["forbidden"])] = reason
        if body.get("lost_nodes"):
            nodes = str(body["lost_nodes"])
            self.lost[nodes] = Lost.after(self.lost.get(nodes), reason, epoch)
        self.roll_backs += body.get("cause") in (NON_FINITE, IMPLAUSIBLE)
