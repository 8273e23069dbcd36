"""DepL as the paper has it: datasets by a proxy, versions on a grid, then resources, going back when a stage fails.

Paper: DepL Fig. 3 and section IV. Datasets minimise K T with the most complex version on the most capable node set; a
choice under which no versions reach the target is blacklisted, and so are versions for which no resources suffice.
Deviations: the paper leaves open what happens to the submodular minimisation once choices are blacklisted; here the
proxy is then minimised over those left, one by one (local search among many datasets).

Kept under its own name for comparison. Stage A sees neither prices nor data charges, so its answers cost more than
the joint search's; with `capable="largest"` it may blacklist every choice of a problem that has a solution.
"""

from __future__ import annotations

import math
import warnings

from ....core.depl import DeplProblem
from ..data_choice import choose
from ..solution import DeplPlan, complete, settled
from .grid import Capable, GridReading, GridSearch
from .proxy import NotSubmodular, epochs_times_duration, minimum_norm_choice


def paper_plan(
    instance: DeplProblem,
    *,
    eta: int = 200,
    reading: GridReading = "merged",
    capable: Capable = "quickest",
    within: float = 0.0,
) -> DeplPlan:
    """DepL(eta) with its outer loop; `within` is the epsilon of the resource stage."""
    if (start := settled(instance)) is not None:
        return start
    blacklist: set[tuple[int, ...]] = set()
    total = 2 ** len(instance.datasets) - 1
    while len(blacklist) < total:
        chosen = select(instance, blacklist, capable)
        if chosen is None:
            break
        for versions in GridSearch(instance, chosen, eta=eta, reading=reading, capable=capable).schedules():
            plan = complete(instance, chosen, versions, exact=False, within=within)
            if plan.feasible:  # otherwise these versions are out, and the next lightest are tried
                return plan
        blacklist.add(chosen)
    reason = f"DepL(eta={eta}, {reading}) blacklisted {len(blacklist)} of {total} choices of datasets and found no plan"
    return DeplPlan(False, exact=False, reason=f"{reason}; that does not mean there is none: try `joint`")


def select(
    instance: DeplProblem, blacklist: set[tuple[int, ...]], capable: Capable = "quickest"
) -> tuple[int, ...] | None:
    """The datasets with the least proxy that are not blacklisted; None when none has a finite one."""
    count = len(instance.datasets)
    known: dict[tuple[int, ...], float] = {}

    def proxy(chosen: tuple[int, ...]) -> float:
        if chosen not in known:
            known[chosen] = epochs_times_duration(instance, chosen, capable)
        return known[chosen]

    if not blacklist and all(math.isfinite(proxy((d,))) for d in range(count)):
        with warnings.catch_warnings():  # said once, by whoever asks for the proxy itself
            warnings.simplefilter("ignore", NotSubmodular)
            choice = minimum_norm_choice(count, proxy)
    else:
        choice = choose(count, lambda chosen, below: math.inf if chosen in blacklist else proxy(chosen))
    return choice.chosen if math.isfinite(choice.value) else None
