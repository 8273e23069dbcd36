"""The ways of planning a DepL problem, by the names used in comparisons.

* `joint`: datasets, versions, clusters and resources together, exact among schedules with few switches (the default);
* `sweep`: the same with any number of switches;
* `per-cluster`: every cluster may hold data of its own;
* `proxy`: datasets by the paper's K * T, the rest as `joint`;
* `merged`, `literal`: the paper's own procedure, DepL(eta), in the two readings of its grid, with its outer loop;
* `best-exp`, `best-exp-greedy`: planning by the expected loss, at least cost or for the most progress;
* `brute-force`: every choice of data and every sequence of versions, for small problems.

Paper: DepL section VI-B compares `merged` or `literal`, `best-exp` (one of the two) and the optimum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from ...core.depl import DeplProblem
from ...core.errors import UsageError
from .exact.datasets import powerset
from .exact.joint import DeplPlan, complete, plan, settled
from .exact.losses import exact_probability
from .exact.placement import plan_per_cluster
from .exact.versions import SWITCHES
from .paper.best_exp import best_expected, greedy_expected
from .paper.grid import Capable
from .paper.procedure import paper_plan

MOST_SEQUENCES = 200_000
"""Sequences of versions, over all choices of data, that brute force agrees to try."""


@dataclass(frozen=True)
class Options:
    """What procedures may be told; each takes what concerns it."""

    switches: int = SWITCHES
    eta: int = 200
    capable: Capable = "quickest"
    within: float = 0.0


Procedure = Callable[[DeplProblem, Options], DeplPlan]


def brute_force(instance: DeplProblem) -> DeplPlan:
    """The cheapest of all plans, by trying each. Refuses problems with too many."""
    target, count = instance.target, len(instance.models)
    sequences = sum(count**k for k in range(1, target.max_epochs + 1)) * (2 ** len(instance.datasets) - 1)
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
        for epochs in range(1, target.max_epochs + 1):
            for models in itertools.product(range(count), repeat=epochs):
                if not _possible(instance, models):
                    continue
                counts = tuple(sorted(models))
                if counts in costs and costs[counts].cost >= best.cost:
                    continue
                if exact_probability(instance, chosen, models) < target.probability - 1e-9:
                    continue
                costs[counts] = complete(instance, chosen, models)
                if costs[counts].feasible and costs[counts].cost < best.cost:
                    best = costs[counts]
    return best


def _possible(instance: DeplProblem, models: tuple[int, ...]) -> bool:
    taken = models if instance.before is None else (instance.before, *models)
    return all(a == b or instance.switches[a][b] is not None for a, b in itertools.pairwise(taken))


PROCEDURES: dict[str, Procedure] = {
    "joint": lambda instance, o: plan(instance, switches=o.switches, within=o.within),
    "sweep": lambda instance, o: plan(instance, switches=o.switches, any_switches=True, within=o.within),
    "per-cluster": lambda instance, o: plan_per_cluster(instance, switches=o.switches),
    "proxy": lambda instance, o: plan(instance, switches=o.switches, datasets="proxy", within=o.within),
    "merged": lambda instance, o: paper_plan(instance, eta=o.eta, reading="merged", capable=o.capable, within=o.within),
    "literal": lambda instance, o: paper_plan(
        instance, eta=o.eta, reading="literal", capable=o.capable, within=o.within
    ),
    "best-exp": lambda instance, o: best_expected(instance, switches=o.switches),
    "best-exp-greedy": lambda instance, o: greedy_expected(instance),
    "brute-force": lambda instance, o: brute_force(instance),
}


def plan_by(name: str, instance: DeplProblem, options: Options | None = None) -> DeplPlan:
    """The plan of the procedure called `name` (hyphens or underscores)."""
    key = name.replace("_", "-")
    if key not in PROCEDURES:
        raise UsageError(f"procedure: got '{name}', expected one of {', '.join(PROCEDURES)}")
    found = PROCEDURES[key](instance, options or Options())
    return (
        found if found.feasible or math.isinf(found.cost) else DeplPlan(False, exact=found.exact, reason=found.reason)
    )
