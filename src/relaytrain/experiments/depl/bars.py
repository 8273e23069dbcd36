"""Figures 7 and 8 of DepL: stacked bars by version, a panel for each strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ..result import Row
from ..style import legend_below, new_figure
from .study import COLOURS, DEPL, GREEDY, HATCHES, OPTIMUM, TARGETS, VERSIONS, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = (OPTIMUM, DEPL, GREEDY)
What = Literal["epochs", "costs"]


def stacked(study: Study, what: What) -> tuple[Figure, tuple[Row, ...]]:
    """Figure and table of epochs or costs by version."""
    figure = new_figure(12.5, 4.0)
    panels = figure.subplots(1, 3, sharey=True)
    for axes, strategy in zip(panels, PANELS, strict=True):
        bottom = [0.0] * len(TARGETS)
        for version in VERSIONS:
            height = [float(getattr(study[t][strategy], what)[version]) for t in TARGETS]
            style = {"color": COLOURS[version], "hatch": HATCHES[version], "edgecolor": "white"}
            axes.bar([f"{t:g}" for t in TARGETS], height, bottom=bottom, label=version, **style)
            bottom = [a + b for a, b in zip(bottom, height, strict=True)]
        axes.set(title=strategy, xlabel="target of the 99th percentile")
    panels[0].set_ylabel("epochs" if what == "epochs" else "cost [units of (2)]")
    legend_below(figure, panels[0], columns=3)
    rows: tuple[Row, ...] = tuple(
        {"target": t, "strategy": s, **{f"{what}_{v}": getattr(study[t][s], what)[v] for v in VERSIONS}}
        for t in TARGETS
        for s in PANELS
    )
    return figure, rows
