"""The whole problem: datasets, versions, clusters and resources together, with the true cost at every stage.

Nothing is ever blacklisted. A later stage cannot fail after an earlier one succeeded, because a choice of datasets is
judged by the cost of its best schedule and a schedule by the cost of its best allocation; what one choice of datasets
costs prunes the search under the next.

Paper: DepL Fig. 3, equations (2)-(6).
Deviations: the paper decides stage by stage with proxies and goes back when a later stage fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ....core.depl import DeplProblem
from ..paper.proxy import epochs_times_duration, minimum_norm_choice
from .allocation import allocate
from .datasets import DataChoice, choose
from .losses import LossTable, exact_loss
from .reach import SLACK
from .sweep import more_switches
from .versions import SWITCHES, VersionSchedule, VersionSearch, searched_switches


@dataclass(frozen=True)
class DeplPlan:
    """A plan by indices into its instance; clusters, resources and models have one entry an epoch.

    `probability`, `quantile` and `mean` are those of the final loss; `dual_bound` bounds from below the cost of any
    allocation of the same schedule. `data_of` tells which datasets each used cluster holds, z(d, n); `datasets` is
    their union. `exact` says that every choice of datasets was tried.
    """

    feasible: bool
    cost: float = math.inf
    datasets: tuple[int, ...] = ()
    models: tuple[int, ...] = ()
    clusters: tuple[int, ...] = ()
    resources: tuple[float, ...] = ()
    elapsed_s: float = 0.0
    probability: float = 0.0
    quantile: float = math.inf
    mean: float = math.inf
    dual_bound: float = math.inf
    exact: bool = True
    reason: str = ""
    data_of: tuple[tuple[int, ...], ...] = ()


def plan(
    instance: DeplProblem,
    *,
    switches: int = SWITCHES,
    any_switches: bool = False,
    datasets: Literal["cost", "proxy"] = "cost",
    within: float = 0.0,
) -> DeplPlan:
    """The cheapest plan among schedules with at most `switches` switches, or an infeasible one with the reason.

    All clusters hold the same data (`placement.plan_per_cluster` lifts that). `any_switches` lets a sweep look for schedules
    with more switches, too. `datasets="proxy"` chooses the data as the paper does, by K * T alone, and warns where that
    product is not submodular. The resources of the plan may cost 1 + `within` times their bound.
    """
    if (start := settled(instance)) is not None:
        return start
    best: dict[tuple[int, ...], VersionSchedule] = {}
    table = shared_table(instance, switches)

    @lru_cache(maxsize=256)
    def search(chosen: tuple[int, ...]) -> VersionSearch:
        return VersionSearch(instance, chosen, switches=switches, table=table)

    def value(chosen: tuple[int, ...], below: float) -> float:
        found = search(chosen).best(below=below)
        if found is None:
            return math.inf
        best[chosen] = found
        return found.cost

    def floor(chosen: tuple[int, ...]) -> float:
        return search(chosen).floor()

    if datasets == "proxy":
        picked = minimum_norm_choice(len(instance.datasets), lambda chosen: epochs_times_duration(instance, chosen))
        choice = DataChoice(picked.chosen, value(picked.chosen, math.inf), False)
    else:
        choice = choose(len(instance.datasets), value, floor)
    if math.isinf(choice.value):
        return DeplPlan(False, exact=choice.exact, reason=_reason(instance, switches))
    schedule = best[choice.chosen]
    if any_switches:
        schedule = more_switches(search(choice.chosen), schedule)
    return complete(instance, choice.chosen, schedule.models, exact=choice.exact, within=within)


def settled(instance: DeplProblem) -> DeplPlan | None:
    """The empty plan where the loss already meets the target."""
    start = instance.initial_loss
    if start > instance.target.loss + SLACK:
        return None
    return DeplPlan(True, 0.0, probability=1.0, quantile=start, mean=start, dual_bound=0.0)


def shared_table(instance: DeplProblem, switches: int) -> LossTable:
    """One table of losses for every choice of data that makes progress."""
    single = [instance.data_gain([d]) for d in range(len(instance.datasets))]
    gains = [*single, instance.data_gain(range(len(instance.datasets)))]
    good = [gain for gain in gains if gain > 0] or [1.0]
    return LossTable(instance, good, searched_switches(instance, switches))


def complete(
    instance: DeplProblem, chosen: Sequence[int], models: Sequence[int], *, exact: bool = True, within: float = 0.0
) -> DeplPlan:
    """The plan for given data and schedule: best allocation, and the final loss's distribution worked out exactly."""
    volume = instance.volume(chosen)
    epochs = [(instance.models[m].work * volume, instance.models[m].size) for m in models]
    found = allocate(
        epochs,
        instance.clusters,
        instance.target.deadline_s,
        instance.data_charge(chosen).tolist(),
        objective=instance.objective,
        runs_on=None if instance.runs_on is None else instance.runs_on[list(models)],
        within=within,
    )
    label, random = exact_loss(instance, chosen, models)
    target = instance.target
    probability = label.cdf(target.loss) if random else float(label.mean <= target.loss + SLACK)
    enough = probability >= target.probability - SLACK
    return DeplPlan(
        found.feasible and enough,
        found.cost,
        tuple(chosen),
        tuple(models),
        found.clusters,
        found.resources,
        found.elapsed_s,
        probability,
        label.quantile(target.probability) if random else label.mean,
        label.mean,
        found.dual_bound,
        exact,
        "" if found.feasible and enough else "the schedule misses its deadline or its target",
        tuple(tuple(chosen) if n in found.clusters else () for n in range(len(instance.clusters))),
    )


def _reason(instance: DeplProblem, switches: int) -> str:
    target = instance.target
    return (
        f"no schedule of at most {target.max_epochs} epochs and {switches} switches has a loss of at most "
        f"{target.loss:g} with probability {target.probability:g} within {target.deadline_s:g} s; "
        f"allow more epochs, more time, a higher loss or a lower probability"
    )
