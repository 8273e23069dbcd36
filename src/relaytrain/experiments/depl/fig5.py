"""DepL figure 5: cost, expected loss and the effect of eta, for AlexNet."""

from __future__ import annotations

from .cost_figures import cost_figure

TITLE = "DepL Fig. 5: DepL and benchmark strategies, AlexNet"
reproduce = cost_figure("depl-fig5", TITLE, "depl_alexnet", __file__).reproduce
