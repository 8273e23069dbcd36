"""What DepL's procedures answer with, and how a schedule of versions becomes such an answer.

Paper: DepL equations (2)-(6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...core.depl import DeplProblem
from ...core.fourier import SLACK
from .allocation import allocated
from .schedule_losses import exact_loss


@dataclass(frozen=True)
class DeplPlan:
    """What to do, by indices into its instance; node sets, resources and versions have one entry an epoch.

    `probability`, `quantile` and `mean` are those of the final loss; for the mean, losses below 0 count as 0, since
    there are none. `dual_bound` bounds from below the cost of any allocation of the same schedule. `data_of` tells
    which datasets each used node set holds, z(d, n); `datasets` is their union. `exact` says that every choice of
    datasets was tried.
    """

    feasible: bool
    cost: float = math.inf
    datasets: tuple[int, ...] = ()
    versions: tuple[int, ...] = ()
    node_sets: tuple[int, ...] = ()
    resources: tuple[float, ...] = ()
    elapsed_s: float = 0.0
    probability: float = 0.0
    quantile: float = math.inf
    mean: float = math.inf
    dual_bound: float = math.inf
    exact: bool = True
    reason: str = ""
    data_of: tuple[tuple[int, ...], ...] = ()

    def data_at(self, n: int) -> tuple[int, ...]:
        """The datasets that node set `n` trains on."""
        return self.data_of[n] if self.data_of else self.datasets


def settled(instance: DeplProblem) -> DeplPlan | None:
    """The empty plan where the loss already meets the target."""
    start = instance.initial_loss
    if start > instance.target.loss + SLACK:
        return None
    return DeplPlan(True, 0.0, probability=1.0, quantile=start, mean=start, dual_bound=0.0)


def complete(
    instance: DeplProblem, chosen: Sequence[int], versions: Sequence[int], *, exact: bool = True, within: float = 0.0
) -> DeplPlan:
    """The plan for given data and schedule: best allocation, and the final loss's distribution worked out exactly."""
    allocation = allocated(instance, chosen, versions, within=within)
    loss = exact_loss(instance, chosen, versions)
    target = instance.target
    probability = loss.cdf(target.loss)
    enough = probability >= target.probability - SLACK
    return DeplPlan(
        allocation.feasible and enough,
        float(allocation.cost),
        tuple(chosen),
        tuple(versions),
        allocation.node_sets,
        allocation.resources,
        allocation.elapsed_s,
        probability,
        loss.quantile(target.probability),
        loss.mean_at_least(0.0),
        float(allocation.dual_bound),
        exact,
        "" if allocation.feasible and enough else "the schedule misses its deadline or its target",
        tuple(tuple(chosen) if n in allocation.node_sets else () for n in range(len(instance.node_sets))),
    )
