"""DepL figure 9: the loss over epochs, expected and between its 1st and 99th percentile (AlexNet)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...core.fourier import Real
from ..expected import Expected, Judgement
from ..result import Row
from ..style import legend_below, new_figure
from .study import DEPL, GREEDY, OPTIMUM, SCALE, STYLES, Study, StudyFigure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "DepL Fig. 9: evolution of expected and guaranteed loss, AlexNet"
SHOWN = (5.0, 9.0, 13.0)
LINES = (OPTIMUM, DEPL, GREEDY)
Bands = dict[float, dict[str, tuple[Real, Real, Real]]]


def _bands(runs: Study) -> Bands:
    return {t: {name: runs[t][name].band(0.01, 0.99) for name in LINES} for t in SHOWN}


def _draw(runs: Study, curves: str) -> tuple[Figure, tuple[Row, ...]]:
    bands = _bands(runs)
    figure = new_figure(12.5, 4.3)
    panels = figure.subplots(1, 3)
    for axes, target in zip(panels, SHOWN, strict=True):
        for name, (mean, low, high) in bands[target].items():
            style = {key: STYLES[name][key] for key in ("color", "linestyle", "linewidth")}
            axes.plot(mean, label=name, **style)
            axes.fill_between(range(len(mean)), low, high, color=style["color"], alpha=0.25, linewidth=0)
        axes.axhline(runs[target][OPTIMUM].instance.target.loss, color="#777777", linewidth=0.8, linestyle=":")
        axes.set(title=f"guaranteed loss {target:g}", xlabel="epoch", ylabel="loss")
    legend_below(figure, panels[0], columns=3)
    columns = ("target", "strategy", "epoch", "expected", "q01", "q99")
    rows: tuple[Row, ...] = tuple(
        dict(zip(columns, (t, name, k, *(float(line[k]) for line in band)), strict=True))
        for t in SHOWN
        for name, band in bands[t].items()
        for k in range(len(band[0]))
    )
    return figure, rows


def _checks(runs: Study, curves: str, expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    bands = _bands(runs)
    lengths = {t: {name: len(runs[t][name].plan.versions) for name in LINES} for t in SHOWN}
    wide = {t: {name: float((high - low)[-1]) for name, (_, low, high) in bands[t].items()} for t in SHOWN}
    rises = []
    for t in SHOWN:
        run, (mean, _, _) = runs[t][OPTIMUM], bands[t][OPTIMUM]
        steps = -np.diff(mean)
        rises += [steps[k - 1] < min(steps[k - 2], steps[min(k, len(steps) - 1)]) for k in run.switches]
    unit = SCALE / runs[SHOWN[0]][OPTIMUM].instance.initial_loss
    apart = unit * max(
        float(np.abs(bands[t][OPTIMUM][0][:n] - bands[t][DEPL][0][:n]).max())
        for t in SHOWN
        for n in [min(lengths[t][OPTIMUM], lengths[t][DEPL]) + 1]
    )
    told = "; ".join(f"{t:g}: " + ", ".join(f"{name} {n}" for name, n in row.items()) for t, row in lengths.items())
    return {
        "peaks": (
            all(rises) if rises else None,  # who never switches shows nothing of what a switch does
            f"progress is less in the switching epoch than around it in {sum(rises)} of {len(rises)} switches of the "
            "optimum",
        ),
        "shorter": (all(lengths[t][DEPL] < lengths[t][GREEDY] for t in SHOWN), f"epochs: {told}"),
        "wider": (
            all(wide[t][GREEDY] > wide[t][DEPL] for t in SHOWN),
            "distance of the 1st and 99th percentile at the end: "
            + "; ".join(f"{t:g}: best-exp {wide[t][GREEDY]:.2f}, DepL {wide[t][DEPL]:.2f}" for t in SHOWN),
        ),
        "matches": (
            apart <= expected["matches"].limits["loss"],
            f"expected losses of DepL and the optimum at most {apart:.2f} apart",
        ),
    }


reproduce = StudyFigure(
    "depl-fig9", TITLE, "depl_alexnet", __file__, _draw, _checks, notes=("independent epochs, as in the paper",)
).reproduce
