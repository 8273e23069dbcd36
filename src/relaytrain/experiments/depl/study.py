"""What figures 5 to 9 of DepL are drawn from: four strategies at every target of a preset.

"Optimum" is the exact search, "DepL" the paper's procedure with eta = 200 in its `merged` reading, "best-exp" takes in
every epoch the version with the most expected progress; a second best-exp minimises cost under an expected-loss target.
All four meet the quantile and share clusters and resources at best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.distribution import frequencies_for, label
from ...core.fourier import Label
from ...planners.depl.baselines import best_expected, greedy_expected
from ...planners.depl.instance import Instance
from ...planners.depl.joint import DeplPlan, plan
from ...planners.depl.paper import paper_plan
from ...scenario import load_scenario

Real = NDArray[np.float64]

TARGETS = (13.0, 11.0, 9.0, 7.0, 5.0)
LOOSE, TIGHT = TARGETS[0], TARGETS[-1]
ETA = 200
VERSIONS = ("fast-unsteady", "intermediate", "slow-steady")
OPTIMUM, DEPL, GREEDY, CHEAP = "Optimum", "DepL", "best-exp", "best-exp, min. cost"
STYLES: dict[str, dict[str, Any]] = {
    OPTIMUM: {"color": "#B8B8B8", "linewidth": 4.5, "linestyle": "-", "marker": "s", "markersize": 8},
    DEPL: {"color": "#0072B2", "linewidth": 1.6, "linestyle": "-", "marker": "o", "markersize": 5},
    GREEDY: {"color": "#D55E00", "linewidth": 1.6, "linestyle": "--", "marker": "^", "markersize": 6},
    CHEAP: {"color": "#009E73", "linewidth": 1.6, "linestyle": "-.", "marker": "D", "markersize": 5},
}
COLOURS = {"fast-unsteady": "#CC79A7", "intermediate": "#E69F00", "slow-steady": "#56B4E9"}
HATCHES = {"fast-unsteady": "", "intermediate": "//", "slow-steady": ".."}


@dataclass(frozen=True)
class Run:
    """One strategy's plan for one target."""

    instance: Instance
    plan: DeplPlan

    @property
    def epochs(self) -> dict[str, int]:
        """Epochs by version."""
        names = [m.name for m in self.instance.models]
        return {name: self.plan.models.count(names.index(name)) for name in VERSIONS}

    @property
    def costs(self) -> dict[str, float]:
        """kappa * x by version."""
        found = dict.fromkeys(VERSIONS, 0.0)
        for m, n, x in zip(self.plan.models, self.plan.clusters, self.plan.resources, strict=True):
            found[self.instance.models[m].name] += self.instance.clusters[n].price * x
        return found

    @property
    def switches(self) -> list[int]:
        """Epochs before which the version changes."""
        return [k for k, (a, b) in enumerate(pairwise(self.plan.models), start=2) if a != b]

    def legs(self) -> str:
        """`fast-unsteady 4, intermediate 17`."""
        return ", ".join(f"{self.instance.models[m].name} {len(list(rows))}" for m, rows in groupby(self.plan.models))

    def band(self, low: float, high: float) -> tuple[Real, Real, Real]:
        """Expected loss and its quantiles at `low` and `high`, from the start to the last epoch."""
        instance, chosen = self.instance, self.plan.datasets
        terms = instance.terms(chosen, self.plan.models)
        frequencies = frequencies_for(terms, least=terms[:1])
        total = Label(instance.initial_loss, np.zeros(frequencies.points, np.complex128), frequencies)
        rows = [(total.mean, total.mean, total.mean)]
        rest = iter(terms)
        for k in range(1, len(self.plan.models) + 1):
            for _ in range(2 if k in self.switches else 1):
                factor, of = next(rest)
                total = total + label(factor, of, frequencies)
            rows.append((total.mean, total.quantile(low), total.quantile(high)))
        mean, below, above = np.array(rows).T
        return mean, below, above


Study = dict[float, dict[str, Run]]


def instance_of(preset: str, target: float) -> Instance:
    """The preset's problem with another target."""
    settings = load_scenario(preset).depl
    assert settings is not None, f"{preset} has a table [depl]"
    return replace(settings.instance, target=replace(settings.instance.target, loss=target))


@lru_cache(maxsize=4)
def study(preset: str) -> Study:
    """Every strategy at every target; made once for all figures."""
    found: Study = {}
    for target in TARGETS:
        instance = instance_of(preset, target)
        found[target] = {
            OPTIMUM: Run(instance, plan(instance)),
            DEPL: Run(instance, paper_plan(instance, eta=ETA, reading="merged")),
            GREEDY: Run(instance, greedy_expected(instance)),
            CHEAP: Run(instance, best_expected(instance)),
        }
    return found


@lru_cache(maxsize=16)
def by_eta(preset: str, target: float, eta: int, reading: str) -> float:
    """Cost of DepL(eta) in a reading; infinite where it finds nothing."""
    made = paper_plan(instance_of(preset, target), eta=eta, reading="literal" if reading == "literal" else "merged")
    return made.cost if made.feasible else float("inf")


def over(runs: Mapping[str, Run], name: str) -> float:
    """Cost over the optimum's."""
    return runs[name].plan.cost / runs[OPTIMUM].plan.cost


def listed(values: Mapping[float, float], form: str = ".3f") -> str:
    """`1.226 at 13, 1.164 at 11`."""
    return ", ".join(f"{value:{form}} at {target:g}" for target, value in values.items())
