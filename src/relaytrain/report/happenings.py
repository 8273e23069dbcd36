"""What happened in a run beside its epochs: failures, roll-backs, plans that became infeasible, estimators' notes."""

from __future__ import annotations

from typing import NamedTuple

from ..core.explain import say_failure, say_feasible, say_infeasible, say_rolled_back
from .run_view import RunView

ORCHESTRATOR = "orchestrator"
"""The name under which work is noted that was lost with the run's own process: no node's failure."""


class Happening(NamedTuple):
    """`epoch` is the one it happened in, or the one it was noticed before."""

    epoch: int
    words: str


def happenings(view: RunView) -> list[Happening]:
    """All of them by epoch; a note that an estimator repeats is said once."""
    rows = [Happening(failed.epoch or 0, say_failure(failed.node, failed.reason)) for failed in view.failures]
    rows += [Happening(b.to_epoch + 1, say_rolled_back(b.to_epoch, b.reason, b.forbidden)) for b in view.rollbacks]
    feasible, noted = True, set()
    for plan in view.plans:
        for words in plan.notes:
            if words not in noted:
                noted.add(words)
                rows.append(Happening(plan.epoch, words))
        if plan.feasible != feasible:
            feasible = plan.feasible
            lost = say_infeasible(view.asked.loss, view.asked.deadline_s, plan.nearest, view.asked.time_unit)
            rows.append(Happening(plan.epoch, say_feasible(plan.sure or 0.0) if feasible else lost))
    return sorted(rows, key=lambda row: row.epoch)


def failed_nodes(view: RunView) -> dict[str, int]:
    """How often each node failed."""
    counts: dict[str, int] = {}
    for failed in view.failures:
        if failed.node != ORCHESTRATOR:
            counts[failed.node] = counts.get(failed.node, 0) + 1
    return counts


def promises(view: RunView) -> tuple[int, int]:
    """How many epochs ended above what was promised of their loss, of how many that had a promise."""
    judged = [epoch.in_band for epoch in view.epochs if epoch.in_band is not None]
    return judged.count(False), len(judged)
