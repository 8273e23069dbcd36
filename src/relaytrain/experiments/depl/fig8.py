"""DepL figure 8: cost incurred with each version by the optimum, DepL and best-exp (AlexNet)."""

from __future__ import annotations

from collections.abc import Mapping

from ..expected import Expected, Judgement
from .bars import stacked
from .study import DEPL, GREEDY, OPTIMUM, TARGETS, Study, StudyFigure

TITLE = "DepL Fig. 8: cost incurred with each version, AlexNet"


def _checks(runs: Study, curves: str, expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    costs = {t: {name: runs[t][name].plan.cost for name in (OPTIMUM, DEPL, GREEDY)} for t in TARGETS}
    share = {t: runs[t][GREEDY].costs["fast-unsteady"] / runs[t][GREEDY].plan.cost for t in TARGETS}
    each = {
        name: {t: runs[t][name].plan.cost / len(runs[t][name].plan.versions) for t in TARGETS}
        for name in (OPTIMUM, GREEDY)
    }
    epochs = {name: {t: len(runs[t][name].plan.versions) for t in TARGETS} for name in (GREEDY, OPTIMUM)}
    more = all(epochs[GREEDY][t] > epochs[OPTIMUM][t] for t in TARGETS)
    dearer = all(each[GREEDY][t] > each[OPTIMUM][t] for t in TARGETS)
    said = "; ".join(f"{t:g}: {each[GREEDY][t]:.1f} (optimum {each[OPTIMUM][t]:.1f})" for t in TARGETS)
    return {
        "best-exp-highest": (
            all(costs[t][GREEDY] == max(costs[t].values()) > costs[t][OPTIMUM] for t in TARGETS),
            "; ".join(f"{t:g}: " + ", ".join(f"{name} {v:.0f}" for name, v in row.items()) for t, row in costs.items()),
        ),
        "fast-dominates": (
            min(share.values()) > 0.5,
            "share of the fast-unsteady version in best-exp's cost: "
            + ", ".join(f"{v:.0%} at {t:g}" for t, v in share.items()),
        ),
        "more-in-each": (dearer, f"best-exp's cost an epoch: {said}"),
        "more-epochs-and-more-in-each": (
            more and dearer,
            f"best-exp's cost an epoch: {said}; its epochs: "
            + "; ".join(f"{t:g}: {epochs[GREEDY][t]} (optimum {epochs[OPTIMUM][t]})" for t in TARGETS),
        ),
    }


reproduce = StudyFigure(
    "depl-fig8",
    TITLE,
    "depl_alexnet",
    __file__,
    lambda runs, curves: stacked(runs, "costs"),
    _checks,
    notes=("cost: kappa * x summed over the version's epochs",),
).reproduce
