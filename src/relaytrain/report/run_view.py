"""A run put together again from its events alone: epochs, legs, handovers, plans, failures and what all of it cost.

Pure: no files, no clock, no torch. `show`, the HTML report and `audit` all read a `RunView`, so they cannot disagree.
Every key of an event's body may be missing (an interrupted run, another writer): what is unknown is None.

Time axis: `elapsed_s` of an epoch counts from the start of the run on the clock that the deadline uses. Lost work is
on that clock when it is charged (the measured clock, or `training.charge_lost_work`), and beside it otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.problem import Pair
from ..store.events import Event
from ..store.rules import Progress, Totals
from .event_fields import entries, number, pair_of, table, text, whole
from .plan_view import NOTHING_SAID, PlanView
from .run_parts import Asked, Cost, EpochView, FailureView, HandoverView, LegView, NodeView, RollbackView, legs_of

Body = Mapping[str, Any]


@dataclass(frozen=True)
class RunView:
    """A run as its events tell it. `epochs`, `legs` and `handovers` are those that stand; `undone` were rolled back."""

    run: str
    status: str
    started: Body
    asked: Asked
    charged: bool
    epochs: tuple[EpochView, ...]
    undone: tuple[EpochView, ...]
    handovers: tuple[HandoverView, ...]
    plans: tuple[PlanView, ...]
    failures: tuple[FailureView, ...]
    rollbacks: tuple[RollbackView, ...]
    verdict: Body | None
    totals: Totals
    sessions: int
    started_wall_s: float
    updated_wall_s: float
    legs: tuple[LegView, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "legs", legs_of(self.epochs))

    @classmethod
    def of(cls, events: Iterable[Event], *, live: bool = False) -> RunView:
        """Fold the events of one run, in order; at least `run_started`. `live`: somebody is writing it now."""
        fold = RunFold()
        for event in events:
            fold.feed(event)
        return fold.view(live=live)

    @property
    def name(self) -> str:
        """The scenario's name."""
        return text(self.scenario.get("name")) or self.run

    @property
    def scenario(self) -> Body:
        """The resolved scenario that the run was started with."""
        return table(self.started.get("scenario"))

    @property
    def planner(self) -> str:
        """Who planned, as the first plan says, else as the run was started."""
        return (self.plans[0].planner if self.plans else "") or text(self.started.get("planner")) or "unknown"

    @property
    def clock(self) -> str:
        """`emulated` or `measured`."""
        return text(self.started.get("clock")) or "emulated"

    @property
    def initial_loss(self) -> float | None:
        """The loss before epoch 1."""
        known = number(self.started.get("initial_loss"))
        return known if known is not None else (self.plans[0].start_loss if self.plans else None)

    @property
    def loss(self) -> float | None:
        """The loss now: after the last epoch that stands, else before the first."""
        return self.epochs[-1].loss if self.epochs else self.initial_loss

    @property
    def best(self) -> EpochView | None:
        """The epoch with the lowest loss, the earlier of equals."""
        return min(self.epochs, key=lambda e: (e.loss, e.epoch), default=None)

    @property
    def elapsed_s(self) -> float:
        """Seconds on the deadline's clock."""
        return self.totals.elapsed_s if self.charged else self.totals.useful_s

    @property
    def finished(self) -> bool:
        """It ended by itself: the target was met or missed."""
        return self.status in ("met", "missed")

    def by_version(self) -> dict[str, Cost]:
        """Costs by version, in order of first use."""
        return self._by(lambda epoch: epoch.pair.version)

    def by_pair(self) -> dict[str, Cost]:
        """Costs by pair, in order of first use."""
        return self._by(lambda epoch: str(epoch.pair))

    def by_node(self) -> dict[str, tuple[int, float, float | None]]:
        """Epochs, joules and CPU-seconds by node, as far as nodes reported joules."""
        rows: dict[str, tuple[int, float, float | None]] = {}
        for node in (node for epoch in self.epochs for node in epoch.nodes):
            count, energy_j, cpu_s = rows.get(node.node, (0, 0.0, None))
            cpu_s = cpu_s if node.cpu_s is None else (cpu_s or 0.0) + node.cpu_s
            rows[node.node] = (count + 1, energy_j + (node.energy_j or 0.0), cpu_s)
        return rows

    def _by(self, key: Any) -> dict[str, Cost]:
        groups: dict[str, list[EpochView]] = {}
        for epoch in self.epochs:
            groups.setdefault(key(epoch), []).append(epoch)
        return {name: Cost.of(rows) for name, rows in groups.items()}


class RunFold:
    """Takes events one by one, so that a run may be followed; money matters are left to the store's own `Progress`."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.first: Event | None = None
        self.last: Event | None = None
        self.asked, self.charged = Asked(), False
        self.epochs: list[EpochView] = []
        self.undone: list[EpochView] = []
        self.handovers: list[HandoverView] = []
        self.plans: list[PlanView] = []
        self.failures: list[FailureView] = []
        self.rollbacks: list[RollbackView] = []
        self.verdict: Body | None = None
        self.fences: set[int] = set()
        self.path: list[Pair] = []
        self.lost_s = 0.0  # charged waste so far: it moves everything after it
        self.done_s = 0.0  # of the epochs that stand

    def feed(self, event: Event) -> None:
        """Take in the next event."""
        body = event.body
        self.progress.feed(event.kind, event.epoch, body, event.fence)
        self.first, self.last = self.first or event, event
        self.fences.add(event.fence)
        self.verdict = None
        if self.charged and event.kind != "verdict":
            self.lost_s += number(body.get("wasted_s")) or 0.0
        takers = {
            "run_started": self._run_started,
            "planned": self._planned,
            "handover": self._handover,
            "epoch_done": self._epoch_done,
            "node_failed": self._node_failed,
            "rolled_back": self._rolled_back,
            "verdict": self._verdict,
        }
        if event.kind in takers:
            takers[event.kind](event)

    def view(self, *, live: bool) -> RunView:
        """The run so far; `live`: somebody is writing it now."""
        if self.first is None or self.last is None:
            raise ValueError("a run has at least its first event")
        status = self.progress.verdict or ("running" if live else "interrupted")
        return RunView(
            run=self.first.run,
            status=status,
            started=self.first.body,
            asked=self.asked,
            charged=self.charged,
            epochs=tuple(self.epochs),
            undone=tuple(self.undone),
            handovers=tuple(self.handovers),
            plans=tuple(self.plans),
            failures=tuple(self.failures),
            rollbacks=tuple(self.rollbacks),
            verdict=self.verdict,
            totals=self.progress.totals,
            sessions=len(self.fences),
            started_wall_s=self.first.wall_s,
            updated_wall_s=self.last.wall_s,
        )

    def _now_s(self) -> float:
        return self.done_s + self.lost_s

    def _run_started(self, event: Event) -> None:
        scenario = table(event.body.get("scenario"))
        target, units, training = (table(scenario.get(key)) for key in ("target", "units", "training"))
        deadline_s = number(target.get("deadline"))
        self.asked = Asked(
            number(target.get("loss")),
            math.inf if deadline_s is None else deadline_s,
            number(target.get("probability")),
            text(target.get("metric")) or "loss",
            text(target.get("on")) or "validation",
            text(units.get("time")) if "time" in units else "s",
            text(units.get("energy")) if "energy" in units else "J",
        )
        self.charged = event.body.get("clock") == "measured" or training.get("charge_lost_work") is True

    def _planned(self, event: Event) -> None:
        if "path" in event.body:
            self.path = [pair for pair in map(pair_of, entries(event.body["path"])) if pair]
        self.plans.append(PlanView.of(event, self.path))

    def _handover(self, event: Event) -> None:
        body = event.body
        before = pair_of(body.get("before")) or (self.epochs[-1].pair if self.epochs else Pair("?", "?"))
        after = pair_of(body.get("after")) or (self.plans[-1].pair if self.plans else None) or Pair("?", "?")
        kind = text(body.get("kind")) or "change"
        figures = (number(body.get(k)) for k in ("loss_before", "loss_after", "elapsed_s", "energy_j", "reached_ratio"))
        self.handovers.append(HandoverView(event.epoch or 0, before, after, kind, self._now_s(), *figures))

    def _epoch_done(self, event: Event) -> None:
        body, plan = event.body, self.plans[-1] if self.plans else None
        pair = pair_of(body.get("decision")) or (plan.pair if plan else None) or Pair("?", "?")
        elapsed_s = number(body.get("elapsed_s")) or 0.0
        self.epochs.append(
            EpochView(
                event.epoch or 0,
                pair,
                number(body.get("loss")) or 0.0,
                elapsed_s,
                number(body.get("energy_j")) or 0.0,
                self._now_s() + elapsed_s,
                text(body.get("provenance")) or "assumed",
                accuracy=number(body.get("accuracy")),
                train_loss=number(body.get("train_loss")),
                cpu_s=number(body.get("cpu_s")),
                wall_s=number(body.get("wall_s")),
                wasted_j=number(body.get("wasted_j")) or 0.0,
                wasted_s=number(body.get("wasted_s")) or 0.0,
                handover_loss=number(body.get("handover_loss")),
                nodes=tuple(_node(row) for row in entries(body.get("nodes")) if isinstance(row, Mapping)),
                failed_nodes=tuple(map(text, entries(body.get("failed_nodes")))),
                blob=event.blob,
                predicted=plan.predicted if plan and plan.epoch == event.epoch else NOTHING_SAID,
            )
        )
        self.done_s += elapsed_s

    def _node_failed(self, event: Event) -> None:
        body = event.body
        self.failures.append(
            FailureView(event.epoch, text(body.get("node")), whole(body.get("attempt")), text(body.get("reason")))
        )

    def _rolled_back(self, event: Event) -> None:
        kept = event.epoch or 0
        gone, self.epochs = self.epochs[kept:], self.epochs[:kept]
        self.undone += gone
        self.done_s = math.fsum(e.elapsed_s for e in self.epochs)
        self.handovers = [h for h in self.handovers if h.epoch <= kept]
        if self.charged:
            self.lost_s += math.fsum(e.elapsed_s for e in gone)
        self.rollbacks.append(
            RollbackView(kept, text(event.body.get("reason")), pair_of(event.body.get("forbidden")), len(gone))
        )

    def _verdict(self, event: Event) -> None:
        self.verdict = event.body


def _node(row: Body) -> NodeView:
    figures = (number(row.get(key)) for key in ("train_loss", "cpu_s", "energy_j", "elapsed_s"))
    return NodeView(text(row.get("node")), whole(row.get("samples")), *figures)
