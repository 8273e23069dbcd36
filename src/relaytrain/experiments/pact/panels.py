"""The three panels that figures 6, 8 and 9 share: cost by target, loss over time, cost over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .smart_factory_runs import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Style = Mapping[str, Any]
Span = tuple[float, float]
Box = tuple[float, float, float, float]
TARGET = r"target loss $\ell^{max}$"
TIME = "elapsed time [time units]"
COST = "energy cost [cost units]"


def cost_by_target(axes: Axes, costs: Mapping[str, Mapping[float, float]], styles: Mapping[str, Style]) -> None:
    """Cost against l_max; targets that a strategy did not reach are left out."""
    for name, by_target in costs.items():
        known = {target: cost for target, cost in by_target.items() if math.isfinite(cost)}
        axes.plot(list(known), list(known.values()), label=name, **styles[name])
    axes.set_xlabel(TARGET)
    axes.set_ylabel(COST)
    axes.set_ylim(bottom=0)


def extra_by_target(
    axes: Axes, costs: Mapping[str, Mapping[float, float]], styles: Mapping[str, Style], optimum: Mapping[float, float]
) -> None:
    """Cost above the optimum in per cent: tells apart what coincides in `cost_by_target`."""
    for name, by_target in costs.items():
        known = {t: 100 * (cost / optimum[t] - 1) for t, cost in by_target.items() if math.isfinite(cost)}
        axes.plot(list(known), list(known.values()), label=name, **styles[name])
    axes.set_xlabel(TARGET)
    axes.set_ylabel("cost above the optimum [%]")


def over_time(axes: Axes, traces: Sequence[Trace], styles: Mapping[str, Style], *, what: str, target: float) -> None:
    """Loss (`what` = "loss") or cost over time; marks where the version changes, and at the end."""
    _lines(axes, traces, styles, what)
    axes.set_xlabel(TIME)
    axes.set_ylabel("loss ℓ(k)" if what == "loss" else COST)
    if what == "loss":
        axes.set_yscale("log")
        axes.set_yticks([1.0, 0.7, 0.5, 0.3, 0.2, target], ["1", "0.7", "0.5", "0.3", "0.2", f"{target:g}"])
        axes.minorticks_off()
        axes.axhline(target, color="#777777", linewidth=0.8, linestyle=":")


def zoom(
    axes: Axes, traces: Sequence[Trace], styles: Mapping[str, Style], *, what: str, box: Box, times: Span, values: Span
) -> None:
    """A magnified part of `over_time`; `box` is left, bottom, width, height as shares of the panel."""
    inset = axes.inset_axes(box, xlim=times, ylim=values)
    _lines(inset, traces, styles, what)
    inset.tick_params(labelsize=7)
    inset.locator_params(nbins=5)
    inset.spines[:].set_visible(True)
    inset.spines[:].set_color("#999999")
    axes.indicate_inset_zoom(inset, edgecolor="#999999")


def _lines(axes: Axes, traces: Sequence[Trace], styles: Mapping[str, Style], what: str) -> None:
    for trace in traces:
        values = trace.losses if what == "loss" else trace.costs
        marked = [switch.epoch for switch in trace.switches] + [len(values) - 1]
        axes.plot(trace.times, values, label=trace.name, markevery=marked, **styles[trace.name])
