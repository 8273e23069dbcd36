"""Figures 5 and 6 of DepL, which differ in the network: cost by target, expected loss, and what eta does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..expected import Expected, Judgement
from ..result import Row
from ..style import legend_below, new_figure
from .study import (
    CHEAP,
    DEPL,
    ETA,
    GREEDY,
    LOOSE,
    OPTIMUM,
    STYLES,
    TARGETS,
    VERSIONS,
    Study,
    StudyFigure,
    by_eta,
    listed,
    off_target,
    over,
    study,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ETAS = (25, 50, 100, 200)
SHOWN = (13.0, 9.0)
"""Targets of the right panel."""
READINGS: dict[str, dict[str, Any]] = {
    "merged": {"linestyle": "-", "marker": "o"},
    "literal": {"linestyle": ":", "marker": "x"},
}
TARGET = r"target of the 99th percentile $\ell_\omega^{max}$"
Etas = dict[tuple[str, float, int], float]


def etas_of(preset: str, curves: str = "stand-in") -> Etas:
    """DepL's cost over the optimum's by reading, target and eta, where the reading was affordable to run."""
    best = {target: study(preset, curves)[target][OPTIMUM].plan.cost for target in SHOWN}
    merged = {("merged", t, eta): by_eta(preset, t, eta, "merged", curves) / best[t] for t in SHOWN for eta in ETAS}
    literal = {("literal", LOOSE, eta): by_eta(preset, LOOSE, eta, "literal", curves) / best[LOOSE] for eta in ETAS}
    return merged | literal


def draw(runs: Study, etas: Etas) -> Figure:
    """The three panels."""
    figure = new_figure(12.5, 4.3)
    left, centre, right = figure.subplots(1, 3)
    for name, style in STYLES.items():
        left.plot(TARGETS, [runs[t][name].plan.cost for t in TARGETS], label=name, **style)
        mean = [runs[t][name].plan.mean / runs[t][OPTIMUM].plan.mean for t in TARGETS]
        centre.plot(TARGETS, mean, label=name, **style)
    left.set(xlabel=TARGET, ylabel="cost [units of (2)]", title="Cost by target")
    left.set_ylim(bottom=0)
    centre.set(xlabel=TARGET, ylabel="expected loss over the optimum's", title="Expected loss at the end")
    for reading, style in READINGS.items():
        for target, colour in zip(SHOWN, ("#0072B2", "#E69F00"), strict=True):
            points = {eta: v for (r, t, eta), v in etas.items() if (r, t) == (reading, target) and math.isfinite(v)}
            if points:
                name = f"{reading}, {target:g}"
                right.plot(list(points), list(points.values()), label=name, color=colour, **style)
    right.set(
        xlabel=r"$\eta$", ylabel="DepL's cost over the optimum's", title=r"What $\eta$ does; missing: no plan found"
    )
    right.set_xscale("log", base=2)
    right.set_xticks(ETAS, [str(eta) for eta in ETAS])
    right.legend(frameon=False, title="reading, target")
    legend_below(figure, left, columns=4)
    return figure


def rows_of(runs: Study) -> tuple[Row, ...]:
    """One row for every target and strategy."""
    return tuple(
        {
            "target": target,
            "strategy": name,
            "cost": run.plan.cost,
            "over_optimum": over(by_name, name),
            "expected_loss": run.plan.mean,
            "quantile": run.plan.quantile,
            "probability": run.plan.probability,
            **{f"epochs_{version}": run.epochs[version] for version in VERSIONS},
        }
        for target, by_name in runs.items()
        for name, run in by_name.items()
    )


def cost_figure(
    name: str,
    title: str,
    preset: str,
    module_file: str,
    also: Callable[[str], dict[str, Judgement]] = lambda curves: {},
) -> StudyFigure:
    """Figure 5 or 6; `also` checks what only one of them has, for the curves meant."""
    return StudyFigure(
        name,
        title,
        preset,
        module_file,
        lambda runs, curves: (draw(runs, etas_of(preset, curves)), rows_of(runs)),
        lambda runs, curves, expected: checks(runs, etas_of(preset, curves), expected) | also(curves),
        notes=(
            f"DepL: the paper's procedure, merged reading, eta = {ETA}; the optimum: the exact search, at most three "
            "switches",
        ),
        stand_in=("stand-in curves (see the preset): orderings and shapes are compared, never numbers",),
    )


def checks(runs: Study, etas: Etas, expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    """What figures 5 and 6 have in common."""
    ratio = {name: {t: over(runs[t], name) for t in TARGETS} for name in STYLES}
    gap = max(*ratio[GREEDY].values(), *ratio[CHEAP].values())
    cost = [runs[t][OPTIMUM].plan.cost for t in TARGETS]
    short = max(off_target(run) for t in TARGETS for run in runs[t].values())
    lower = {
        name: {t: runs[t][OPTIMUM].plan.mean - runs[t][name].plan.mean for t in TARGETS} for name in (DEPL, GREEDY)
    }
    merged = {eta: max(etas["merged", t, eta] for t in SHOWN) for eta in ETAS}
    literal = {eta: etas["literal", LOOSE, eta] for eta in ETAS}
    return {
        "tighter-costs-more": (
            cost == sorted(cost),
            f"optimum: {listed(dict(zip(TARGETS, cost, strict=True)), '.0f')}",
        ),
        "near-optimum": (
            max(ratio[DEPL].values()) <= expected["near-optimum"].limits["ratio"],
            f"DepL over the optimum: {listed(ratio[DEPL])}",
        ),
        "beats-best-exp": (
            all(ratio[DEPL][t] < ratio[GREEDY][t] for t in TARGETS),
            f"best-exp over the optimum: {listed(ratio[GREEDY])}",
        ),
        "by-27-percent": (gap >= 1.27, f"the largest gap of a best-exp is {gap - 1:.1%}"),
        "gap-when-loose": (
            ratio[GREEDY][LOOSE] == max(ratio[GREEDY].values()) > 1.001
            and sorted(ratio[GREEDY].values(), reverse=True) == list(ratio[GREEDY].values()),
            f"best-exp over the optimum: {listed(ratio[GREEDY])}",
        ),
        "equality": (
            short <= expected["equality"].limits["loss"],
            f"the 99th percentile misses the target by at most {short:.2f}",
        ),
        "lower-expected-loss": (
            all(v > 0 for v in lower[GREEDY].values())
            and max(map(abs, lower[DEPL].values())) < min(lower[GREEDY].values()),
            f"below the optimum's expected loss, best-exp: {listed(lower[GREEDY], '.2f')}; DepL: "
            f"{listed(lower[DEPL], '.2f')}",
        ),
        "eta-trades": (
            merged[ETAS[-1]] <= expected["eta-trades"].limits["ratio"] and merged[ETAS[0]] > 1.1
            if max(merged.values()) > min(merged.values()) + 1e-9
            else None,  # an eta that changes no cost shows nothing of what it does
            "merged, cost over the optimum (worse of two targets): "
            + ", ".join(f"{v:.3f} at {eta}" for eta, v in merged.items()),
        ),
        "cheap-best-exp": (
            max(ratio[CHEAP].values()) <= expected["cheap-best-exp"].limits["ratio"],
            f"over the optimum: {listed(ratio[CHEAP])}",
        ),
        "literal-fails": (
            not math.isfinite(literal[ETAS[0]]) and literal[ETAS[-1]] > 1.2,
            f"literal at {LOOSE:g}, cost over the optimum: "
            + ", ".join(f"{v:.3f} at {eta}" if math.isfinite(v) else f"no plan at {eta}" for eta, v in literal.items()),
        ),
    }
