"""What the orchestrator writes of a run and how it reads it back: the bodies of events, as JSON.

`docs/formats.md` has the table of bodies. Reports and audits read the same events; nothing else is written of a run.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from typing import Any

from ..core.law_json import costs_to_json, law_to_json
from ..core.outcome import EpochOutcome
from ..core.plan import Decision, Plan, finite
from ..core.problem import Pair
from ..core.state import State
from ..store import Event
from .steering import Step

RUN_SCHEMA = "relaytrain.run/1"
ORCHESTRATOR = "orchestrator"
"""The name under which a `node_failed` event books work that was lost with the orchestrator's own process."""

LONGEST_BAND = 512
"""Epochs of a plan's band that are kept: plans without a deadline can be very long."""

INTERRUPTED = "the run was interrupted during this epoch"
NON_FINITE = "non-finite"
WORKER_LOST = "worker lost"
DAMAGED = "damaged checkpoint"

_PACKAGES = ("numpy", "torch", "torch-pruning", "relaytrain")
EXACT_PACKAGES = ("numpy", "torch", "torch-pruning")
"""Resuming under another version of these could change the last bits of the weights."""

Json = dict[str, Any]


def packages() -> dict[str, str]:
    """Versions that results may depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def decision_json(decision: Decision) -> Json:
    """The fields of a decision."""
    return {**asdict(decision), "datasets": list(decision.datasets)}


def decision_from(body: Mapping[str, Any]) -> Decision:
    """The decision that was written."""
    return Decision(**{**body, "datasets": tuple(body.get("datasets", ()))})


def state_json(state: State, pair: Pair) -> Json:
    """A state with its pair in words."""
    return {
        "epoch": state.epoch,
        "loss": state.loss,
        "elapsed_s": state.elapsed_s,
        "energy_j": state.energy_j,
        "pair": list(pair),
    }


def plan_json(plan: Plan) -> Json:
    """A plan without what its legs and bands say already."""
    whole = plan.to_dict()
    for name in ("decisions", "energy_by_epoch_j", "time_by_epoch_s"):
        whole.pop(name, None)
    for name in ("expected_loss", "guaranteed_loss"):
        whole[name] = whole[name][:LONGEST_BAND]
    return whole


def planned_body(step: Step, pairs: Sequence[Pair]) -> Json:
    """The body of `planned`: the decision and all it rests on, so that it can be planned again without torch."""
    state = step.state
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
        },
        "notes": list(step.notes),
    }


def done_body(outcome: EpochOutcome, *, blob: str, wasted: tuple[float, float], extra: Mapping[str, Any]) -> Json:
    """The body of `epoch_done`. `outcome` holds the useful seconds and joules, `wasted` the others."""
    optional = {"cpu_s": outcome.cpu_s, "wall_s": outcome.wall_s, "handover_loss": outcome.handover_loss}
    return {
        "decision": decision_json(outcome.decision),
        "loss": outcome.loss,
        "elapsed_s": outcome.elapsed_s,
        "energy_j": outcome.energy_j,
        "provenance": outcome.provenance,
        **{key: value for key, value in optional.items() if value is not None and math.isfinite(value)},
        "wasted_s": wasted[0],
        "wasted_j": wasted[1],
        "failed_nodes": list(outcome.failed_nodes),
        **extra,
        "blob": blob,
    }


def outcome_from(body: Mapping[str, Any]) -> EpochOutcome:
    """The epoch that an `epoch_done` tells of."""
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
    )


@dataclass
class RunPast:
    """A run's events read back: the epochs that stand, what is forbidden, and how the last writer left it."""

    started: Mapping[str, Any] = field(default_factory=dict)
    history: list[EpochOutcome] = field(default_factory=list)
    planned: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    handover: Mapping[str, Any] | None = None
    forbidden: dict[Pair, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    roll_backs: int = 0
    attempts: int = 0
    path: tuple[Pair, ...] = ()
    ended_in_order: bool = False

    @classmethod
    def of(cls, events: Iterable[Event]) -> RunPast:
        """What `events` tell."""
        past = cls()
        for event in events:
            past._take(event)
        return past

    def _take(self, event: Event) -> None:
        body, epoch = event.body, event.epoch or 0
        self.ended_in_order = event.kind == "verdict"
        if event.kind == "run_started":
            self.started = body
        elif event.kind == "planned":
            self.planned[epoch] = body
            self.handover, self.attempts = None, 0
            self.path = tuple(Pair(*pair) for pair in body["path"]) if "path" in body else self.path
        elif event.kind == "handover":
            self.handover = body
        elif event.kind == "node_failed":
            self.attempts = max(self.attempts, int(body.get("attempt", 0)) + 1)
        elif event.kind == "epoch_done":
            self.history.append(outcome_from(body))
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
            self.lost[str(body["lost_nodes"])] = reason
        self.roll_backs += body.get("cause") == NON_FINITE


def useful(outcome: EpochOutcome) -> tuple[EpochOutcome, tuple[float, float]]:
    """An outcome with its useful seconds and joules alone, and the wasted ones beside."""
    wasted = outcome.wasted_s, outcome.wasted_j
    kept = replace(
        outcome,
        elapsed_s=outcome.elapsed_s - outcome.wasted_s,
        energy_j=outcome.energy_j - outcome.wasted_j,
        wasted_s=0.0,
        wasted_j=0.0,
    )
    return kept, wasted
