"""The nodes of a run as they are now: at work, at rest, late or lost, and since when, as the run's events tell."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from .event_fields import entries, table, text
from .happenings import ORCHESTRATOR
from .run_view import RunView

_LATE = re.compile(r"deadline|too late|time[- ]?out|timed out|no answer|straggl|slow", re.IGNORECASE)
NodeState = Literal["at work", "at rest", "late", "lost", "not asked yet"]


class NodeNow(NamedTuple):
    """A node and how it stands; `since` is the epoch it last answered or failed in, None before any."""

    node: str
    node_sets: str
    state: NodeState
    epochs: int
    failures: int
    since: int | None
    reason: str


def nodes_now(view: RunView) -> tuple[NodeNow, ...]:
    """Every node that the scenario declares or the run has heard of."""
    sets: dict[str, list[str]] = {}
    for group in map(table, entries(view.scenario.get("node_sets"))):
        for node in map(text, entries(group.get("nodes"))):
            sets.setdefault(node, []).append(text(group.get("name")))
    declared = [text(table(row).get("name")) for row in entries(view.scenario.get("nodes"))]
    counts: dict[str, int] = {}
    answered: dict[str, int] = {}
    for epoch in view.epochs:
        for row in epoch.nodes:
            counts[row.node] = counts.get(row.node, 0) + 1
            answered[row.node] = epoch.epoch
    failures: dict[str, list[tuple[int, str]]] = {}
    for failed in view.failures:
        if failed.node != ORCHESTRATOR:
            failures.setdefault(failed.node, []).append((failed.epoch or 0, failed.reason))
    asked = _asked(view)
    rows = []
    for node in dict.fromkeys((*filter(None, declared), *answered, *failures)):
        last, wrong = answered.get(node), failures.get(node, [])
        state: NodeState = "not asked yet"
        since, reason = last, ""
        if last is not None:
            state = "at rest"
        if wrong and wrong[-1][0] >= (last or 0) and not _answered_after(view, node, wrong[-1][0]):
            since, reason = wrong[-1]
            state = "late" if _LATE.search(reason) else "lost"
        elif view.status == "running" and asked & set(sets.get(node, ())):
            state = "at work"
        rows.append(NodeNow(node, ", ".join(sets.get(node, ())), state, counts.get(node, 0), len(wrong), since, reason))
    return tuple(rows)


def _asked(view: RunView) -> set[str]:
    """The node set of the epoch that is open."""
    plan = view.plans[-1] if view.plans else None
    if plan is None or plan.pair is None or plan.epoch <= len(view.epochs):
        return set()
    return {plan.pair.nodes}


def _answered_after(view: RunView, node: str, epoch: int) -> bool:
    """Whether it gave a result in the very epoch in which it had failed before: it was tried again."""
    if not 0 < epoch <= len(view.epochs):
        return False
    return any(row.node == node for row in view.epochs[epoch - 1].nodes)
