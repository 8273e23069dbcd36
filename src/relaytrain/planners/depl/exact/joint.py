"""The whole problem: datasets, versions, node sets and resources together, with the true cost at every stage.

Nothing is ever blacklisted. A later stage cannot fail after an earlier one succeeded, because a choice of datasets is
judged by the cost of its best schedule and a schedule by the cost of its best allocation; what one choice of datasets
costs prunes the search under the next.

Paper: DepL Fig. 3, equations (2)-(6).
Deviations: the paper decides stage by stage with proxies and goes back when a later stage fails.
"""

from __future__ import annotations

import math
from functools import lru_cache

from ....core.depl import DeplProblem
from ..data_choice import Chooser, choose
from ..schedule_losses import LossTable
from ..solution import DeplPlan, complete, settled
from .by_epoch import EpochSearch
from .sweep import more_switches
from .version_search import SWITCHES, VersionSchedule, VersionSearch, searched_switches


def plan(
    instance: DeplProblem,
    *,
    switches: int = SWITCHES,
    any_switches: bool = False,
    data_by: Chooser = choose,
    within: float = 0.0,
) -> DeplPlan:
    """The cheapest plan among schedules with at most `switches` switches, or an infeasible one with the reason.

    All node sets hold the same data (`data_placement` lifts that). `any_switches` lets a sweep look for schedules with
    more switches, too. `data_by` chooses the data. The resources of the plan may cost 1 + `within` times their bound.
    """
    if (start := settled(instance)) is not None:
        return start
    best: dict[tuple[int, ...], VersionSchedule] = {}
    table = shared_table(instance, switches)

    @lru_cache(maxsize=256)
    def search(chosen: tuple[int, ...]) -> VersionSearch | EpochSearch:
        if instance.tables is not None:
            return EpochSearch(instance, chosen, switches=switches)
        return VersionSearch(instance, chosen, switches=switches, table=table)

    def value(chosen: tuple[int, ...], below: float) -> float:
        schedule = search(chosen).best(below=below)
        if schedule is None:
            return math.inf
        best[chosen] = schedule
        return schedule.cost

    def floor(chosen: tuple[int, ...]) -> float:
        return search(chosen).floor()

    choice = data_by(len(instance.datasets), value, floor)
    if math.isinf(choice.value):
        return DeplPlan(False, exact=choice.exact, reason=_reason(instance, switches))
    schedule = best[choice.chosen]
    chosen_search = search(choice.chosen)
    if any_switches and isinstance(chosen_search, VersionSearch):
        schedule = more_switches(chosen_search, schedule)
    return complete(instance, choice.chosen, schedule.versions, exact=choice.exact, within=within)


def shared_table(instance: DeplProblem, switches: int) -> LossTable:
    """One table of losses for every choice of data that makes progress."""
    single = [instance.data_gain([d]) for d in range(len(instance.datasets))]
    gains = [*single, instance.data_gain(instance.all_data)]
    good = [gain for gain in gains if gain > 0] or [1.0]
    return LossTable(instance, good, searched_switches(instance, switches))


def _reason(instance: DeplProblem, switches: int) -> str:
    target = instance.target
    return (
        f"no schedule of at most {instance.max_epochs} epochs and {switches} switches has a loss of at most "
        f"{target.loss:g} with probability {target.probability:g} within {target.deadline_s:g} s; "
        f"allow more epochs, more time, a higher loss or a lower probability"
    )
