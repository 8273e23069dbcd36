"""A finished run as traces: its legs as one chain of segments, its handovers with the losses probed when they happened.

Only events are read: no torch, no data, none of the user's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..core.errors import UsageError
from ..report.run_parts import LegView
from ..report.run_view import RunView
from ..store import RunStore
from ..traces.trace import Segment, TraceSet, TraceSwitch
from ..traces.trace_files import write_traces
from . import empty_folder


def export_traces(store: RunStore, run: str, folder: str | Path, *, force: bool = False) -> TraceSet:
    """Write the traces of `run` to `folder`, which is made when missing and must be empty unless `force`.

    Raises:
        UsageError: the run has no epoch yet, or was made by a release that did not keep what traces need.
    """
    place = empty_folder(folder, force=force)
    traces = traces_of_run(store, run)
    write_traces(traces, place)
    return traces


def traces_of_run(store: RunStore, run: str) -> TraceSet:
    """The traces of `run`: one path, run 0 its first leg. Losses are those of the target's set and metric.

    Deviations: `pruned_fraction` and `ratio_of_current` are what was reached; a campaign writes what was asked.
    """
    store.summary(run)  # refuses a run that is not there
    events = list(store.events(run))
    view = RunView.of(events)
    if not view.legs:
        raise UsageError(f"run {run} has no epoch done yet; there is nothing to learn from")
    handed = {event.epoch: event.body for event in events if event.kind == "handover"}
    told = _Told.of(view)
    segments: list[Segment] = []
    for number, leg in enumerate(view.legs):
        switch = told.switch(number, handed.get(leg.first_epoch), segments[-1].node_set, leg) if number else None
        segments.append(told.segment(number, leg, switch))
    training = view.scenario.get("training") or {}
    meta = {
        "loss": f"{training.get('loss', 'cross-entropy')}, nats",
        "train_loss": "running mean over the epoch, nodes weighted by samples",
        "test_loss": f"after the epoch's average, {view.asked.metric} on the {view.asked.on} set",
        "before_after": "forward losses on the NEW node set's data (test: on the target's set)",
        "change_target": "jump",
        "preset": view.name,
        "run": run,
    }
    return TraceSet(meta, tuple(segments))


@dataclass(frozen=True)
class _Told:
    """What `run_started` told: the seed, and facts of versions and node sets by their names."""

    run: str
    seed: int
    versions: Mapping[str, Any]
    sets: Mapping[str, Any]

    @classmethod
    def of(cls, view: RunView) -> Self:
        versions, sets = view.started.get("versions"), view.started.get("node_sets")
        if not isinstance(versions, Mapping) or not isinstance(sets, Mapping):
            raise _too_old(view.run)
        return cls(view.run, int((view.scenario.get("training") or {}).get("seed", 0)), versions, sets)

    def parameters(self, version: str) -> int:
        return int(self.versions[version]["parameters"])

    def segment(self, number: int, leg: LegView, switch: TraceSwitch | None) -> Segment:
        rows = [(e.train_loss, e.loss, e.accuracy) for e in leg.epochs]
        about = self.sets.get(leg.pair.nodes)
        if about is None or any(value is None for row in rows for value in row):
            raise _too_old(self.run)
        values = np.array(rows, dtype=np.float64)
        gone = max(0.0, 1.0 - self.parameters(leg.pair.version) / max(map(self.parameters, self.versions)))
        data = leg.pair.nodes, int(about["classes"]), int(about["samples"]), round(gone, 6)
        epochs = np.array([e.epoch for e in leg.epochs], dtype=np.int64)
        losses = values[:, 0], values[:, 1], values[:, 2]
        return Segment(self.seed, number, number - 1 if number else None, number, *data, epochs, *losses, switch)

    def switch(self, number: int, body: Mapping[str, Any] | None, before: str, leg: LegView) -> TraceSwitch:
        probe = None if body is None else body.get("probe")
        if body is None or not isinstance(probe, Mapping):
            raise _too_old(self.run)
        sizes = self.parameters(str(body["before"][0])), self.parameters(str(body["after"][0]))
        ratio = round(max(0.0, 1.0 - sizes[1] / sizes[0]), 6)
        decided = leg.first_epoch - 1, str(body["kind"]), ratio, before, leg.pair.nodes
        old = float(probe["train_loss_before"]), float(body["loss_before"])
        new = float(probe["train_loss_after"]), float(body["loss_after"])
        return TraceSwitch(self.seed, number, number - 1, *decided, *old, *new, *sizes)


def _too_old(run: str) -> UsageError:
    return UsageError(f"run {run} was made by a release that did not keep what traces need; train it again")
