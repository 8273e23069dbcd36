"""A finished run as traces: its legs as one chain of segments, its handovers with the losses probed when they happened.

Only events are read: no torch, no data, none of the user's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import UsageError
from ..report.run_parts import LegView
from ..report.run_view import RunView
from ..store import RunStore
from ..traces.format import write_traces
from ..traces.trace import Segment, TraceSet, TraceSwitch


def export_traces(store: RunStore, run: str, folder: str | Path, *, force: bool = False) -> TraceSet:
    """Write the traces of `run` to `folder`, which is made when missing and must be empty unless `force`.

    Raises:
        UsageError: the run has no epoch yet, or was made by a release that did not keep what traces need.
    """
    place = Path(folder)
    if place.is_dir() and any(place.iterdir()) and not force:
        raise UsageError(f"{place}: not empty; choose another folder, or add --force to write into it")
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
    facts = _facts(view)
    segments: list[Segment] = []
    for number, leg in enumerate(view.legs):
        switch = None
        if number:
            switch = _switch(view, handed.get(leg.first_epoch), (number, segments[-1].node_set, leg), facts)
        segments.append(_segment(view, number, leg, switch, facts))
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


def _facts(view: RunView) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    versions, sets = view.started.get("versions"), view.started.get("node_sets")
    if not isinstance(versions, Mapping) or not isinstance(sets, Mapping):
        raise _too_old(view.run)
    return versions, sets


def _too_old(run: str) -> UsageError:
    return UsageError(f"run {run} was made by a release that did not keep what traces need; train it again")


def _seed(view: RunView) -> int:
    return int((view.scenario.get("training") or {}).get("seed", 0))


def _parameters(facts: tuple[Mapping[str, Any], Mapping[str, Any]], version: str) -> int:
    return int(facts[0][version]["parameters"])


def _segment(
    view: RunView,
    number: int,
    leg: LegView,
    switch: TraceSwitch | None,
    facts: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> Segment:
    rows = [(e.train_loss, e.loss, e.accuracy) for e in leg.epochs]
    about = facts[1].get(leg.pair.nodes)
    if about is None or any(value is None for row in rows for value in row):
        raise _too_old(view.run)
    values = np.array(rows, dtype=np.float64)
    full = max(int(version["parameters"]) for version in facts[0].values())
    gone = max(0.0, 1.0 - _parameters(facts, leg.pair.version) / full)
    return Segment(
        _seed(view), number, number - 1 if number else None, number, leg.pair.nodes, int(about["classes"]), int(about["samples"]),
        round(gone, 6), np.array([e.epoch for e in leg.epochs], dtype=np.int64), values[:, 0], values[:, 1], values[:, 2], switch,
    )  # fmt: skip


def _switch(
    view: RunView,
    body: Mapping[str, Any] | None,
    where: tuple[int, str, LegView],
    facts: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> TraceSwitch:
    number, before, leg = where
    probe = None if body is None else body.get("probe")
    if body is None or not isinstance(probe, Mapping):
        raise _too_old(view.run)
    sizes = [_parameters(facts, str(body[key][0])) for key in ("before", "after")]
    return TraceSwitch(
        _seed(view), number, number - 1, leg.first_epoch - 1, str(body["kind"]), round(max(0.0, 1.0 - sizes[1] / sizes[0]), 6),
        before, leg.pair.nodes, float(probe["train_loss_before"]), float(body["loss_before"]), float(probe["train_loss_after"]),
        float(body["loss_after"]), sizes[0], sizes[1],
    )  # fmt: skip
