"""The ways of planning a DepL problem, by the names used in comparisons.

* `joint`: datasets, versions, node sets and resources together, exact among schedules with few switches (the default);
* `sweep`: the same with any number of switches;
* `per-cluster`: every node set may hold data of its own;
* `proxy`: datasets by the paper's K * T, the rest as `joint`;
* `merged`, `literal`: the paper's own procedure, DepL(eta), in the two readings of its grid, with its outer loop;
* `best-exp`, `best-exp-greedy`: planning by the expected loss, at least cost or for the most progress;
* `brute-force`: every choice of data and every sequence of versions, for small problems.

Paper: DepL section VI-B compares `merged` or `literal`, `best-exp` (one of the two) and the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...core.depl import DeplProblem
from ...core.errors import UsageError
from .exact.brute_force import brute_force
from .exact.data_placement import plan_per_node_set
from .exact.joint import plan
from .exact.version_search import SWITCHES
from .paper.best_exp import best_expected, greedy_expected
from .paper.grid import Capable
from .paper.outer_loop import paper_plan
from .paper.proxy import by_proxy
from .solution import DeplPlan


@dataclass(frozen=True)
class Options:
    """What procedures may be told; each takes what concerns it."""

    switches: int = SWITCHES
    eta: int = 200
    capable: Capable = "quickest"
    within: float = 0.0


Procedure = Callable[[DeplProblem, Options], DeplPlan]
PROCEDURES: dict[str, Procedure] = {
    "joint": lambda instance, o: plan(instance, switches=o.switches, within=o.within),
    "sweep": lambda instance, o: plan(instance, switches=o.switches, any_switches=True, within=o.within),
    "per-cluster": lambda instance, o: plan_per_node_set(instance, switches=o.switches),
    "proxy": lambda instance, o: plan(instance, switches=o.switches, data_by=by_proxy(instance), within=o.within),
    "merged": lambda instance, o: paper_plan(instance, eta=o.eta, capable=o.capable, within=o.within),
    "literal": lambda instance, o: paper_plan(
        instance, eta=o.eta, reading="literal", capable=o.capable, within=o.within
    ),
    "best-exp": lambda instance, o: best_expected(instance, switches=o.switches),
    "best-exp-greedy": lambda instance, o: greedy_expected(instance),
    "brute-force": lambda instance, o: brute_force(instance),
}


BY_EPOCH = ("joint", "best-exp-greedy", "brute-force")
"""Procedures that read work by epoch and switches by epoch and data."""


def plan_by(name: str, instance: DeplProblem, options: Options | None = None) -> DeplPlan:
    """The plan of the procedure called `name` (hyphens or underscores)."""
    key = name.replace("_", "-")
    if key not in PROCEDURES:
        raise UsageError(f"procedure: got '{name}', expected one of {', '.join(PROCEDURES)}")
    if instance.tables is not None and key not in BY_EPOCH:
        raise UsageError(
            f"procedure: got '{key}' for a problem with tables by epoch or data, expected one of {', '.join(BY_EPOCH)}"
        )
    answer = PROCEDURES[key](instance, options or Options())
    if answer.feasible or math.isinf(answer.cost):
        return answer
    return DeplPlan(False, exact=answer.exact, reason=answer.reason)
