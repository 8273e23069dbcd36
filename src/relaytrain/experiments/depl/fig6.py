"""DepL figure 6: cost, expected loss and the effect of eta, for MobileNet."""

from __future__ import annotations

from ..expected import Judgement
from .cost_figures import cost_figure
from .study import LOOSE, OPTIMUM, TARGETS, TIGHT, listed, study

TITLE = "DepL Fig. 6: DepL and benchmark strategies, MobileNet"
PRESET = "depl_mobilenet"


def _against_alexnet(curves: str) -> dict[str, Judgement]:
    mine, other = study(PRESET, curves), study("depl_alexnet", curves)
    share = {t: mine[t][OPTIMUM].plan.cost / other[t][OPTIMUM].plan.cost for t in TARGETS}
    steep = {
        name: runs[TIGHT][OPTIMUM].plan.cost / runs[LOOSE][OPTIMUM].plan.cost
        for name, runs in (("MobileNet", mine), ("AlexNet", other))
    }
    return {
        "cheaper": (all(v < 1 for v in share.values()), f"MobileNet's cost over AlexNet's: {listed(share)}"),
        "steeper": (
            steep["MobileNet"] > steep["AlexNet"],
            f"cost at {TIGHT:g} over cost at {LOOSE:g}: " + ", ".join(f"{name} {v:.2f}" for name, v in steep.items()),
        ),
    }


reproduce = cost_figure("depl-fig6", TITLE, PRESET, __file__, _against_alexnet).reproduce
