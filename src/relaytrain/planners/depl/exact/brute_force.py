"""Every choice of data and every sequence of versions of a small problem, each with its best allocation."""

from __future__ import annotations

import itertools

from ....core.depl import DeplProblem
from ....core.errors import UsageError
from ....core.fourier import SLACK
from ..data_choice import powerset
from ..schedule_losses import exact_probability
from ..solution import DeplPlan, complete, settled

MOST_SEQUENCES = 200_000
"""Sequences of versions, over all choices of data, that brute force agrees to try."""


def brute_force(instance: DeplProblem) -> DeplPlan:
    """The cheapest of all plans, by trying each. Refuses problems with too many."""
    target, count = instance.target, len(instance.versions)
    sequences = sum(count**k for k in range(1, instance.max_epochs + 1)) * (2 ** len(instance.datasets) - 1)
    if sequences > MOST_SEQUENCES:
        raise UsageError(
            f"brute-force: got {sequences:.3g} sequences of versions, expected at most {MOST_SEQUENCES}; use `joint`, "
            f"which is exact among schedules with few switches, or allow fewer epochs"
        )
    if (start := settled(instance)) is not None:
        return start
    best = DeplPlan(False, reason="no sequence of versions meets the target in time")
    for chosen in powerset(len(instance.datasets)):
        costs: dict[tuple[int, ...], DeplPlan] = {}
        for epochs in range(1, instance.max_epochs + 1):
            for versions in itertools.product(range(count), repeat=epochs):
                if not instance.possible(versions, chosen):
                    continue
                counts = tuple(sorted(versions)) if instance.tables is None else versions
                if counts in costs and costs[counts].cost >= best.cost:
                    continue
                if exact_probability(instance, chosen, versions) < target.probability - SLACK:
                    continue
                costs[counts] = complete(instance, chosen, versions)
                if costs[counts].feasible and costs[counts].cost < best.cost:
                    best = costs[counts]
    return best
