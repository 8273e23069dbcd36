"""DepL figure 7: epochs spent with each version by the optimum, DepL and best-exp (AlexNet)."""

from __future__ import annotations

from collections.abc import Mapping

from ..expected import Expected, Judgement
from .bars import stacked
from .study import DEPL, GREEDY, LOOSE, OPTIMUM, TARGETS, TIGHT, Study, StudyFigure

TITLE = "DepL Fig. 7: epochs spent with each version, AlexNet"


def _checks(runs: Study, curves: str, expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    legs = {name: "; ".join(f"{t:g}: {runs[t][name].legs()}" for t in TARGETS) for name in (OPTIMUM, DEPL, GREEDY)}
    moved = {
        t: sum(abs(a - b) for a, b in zip(runs[t][OPTIMUM].epochs.values(), runs[t][DEPL].epochs.values(), strict=True))
        / len(runs[t][OPTIMUM].plan.versions)
        for t in TARGETS
    }
    total = {name: {t: len(runs[t][name].plan.versions) for t in TARGETS} for name in (OPTIMUM, GREEDY)}
    loose, tight = runs[LOOSE], runs[TIGHT]
    counts = "; ".join(f"{t:g}: {total[GREEDY][t]} (optimum {total[OPTIMUM][t]})" for t in TARGETS)
    return {
        "like-optimum": (
            max(moved.values()) <= expected["like-optimum"].limits["share"],
            "epochs moved between versions: " + ", ".join(f"{v:.0%} at {t:g}" for t, v in moved.items()),
        ),
        "loose-intermediate": (
            all({v for v, n in loose[name].epochs.items() if n} == {"intermediate"} for name in (OPTIMUM, DEPL)),
            f"optimum {legs[OPTIMUM]}",
        ),
        "tight-all": (
            all(all(tight[name].epochs.values()) for name in (OPTIMUM, DEPL)),
            f"at {TIGHT:g}: optimum {tight[OPTIMUM].legs()}; DepL {tight[DEPL].legs()}",
        ),
        "best-exp-fast": (
            all({v for v, n in runs[t][GREEDY].epochs.items() if n} == {"fast-unsteady"} for t in TARGETS),
            f"best-exp {legs[GREEDY]}",
        ),
        "best-exp-more-epochs": (
            all(total[GREEDY][t] > total[OPTIMUM][t] for t in TARGETS),
            f"epochs of best-exp: {counts}",
        ),
    }


reproduce = StudyFigure(
    "depl-fig7",
    TITLE,
    "depl_alexnet",
    __file__,
    lambda runs, curves: stacked(runs, "epochs"),
    _checks,
    stand_in=("stand-in curves: which version is used where depends on them",),
).reproduce
